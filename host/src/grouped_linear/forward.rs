//! Forward, and what it keeps for backward.

use super::GroupedLinear;
use super::functional::{FpropArgs, GemmOptions, fprop};
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::plan::KernelChoice;
use crate::splits::Splits;
use crate::tensor::{GroupedTensor, Tensor};

/// What one forward call may add to the plain product.
#[derive(Clone, Copy, Debug, Default)]
pub struct ForwardOptions<'a> {
    /// Factor of the bias for each token row, FP32, `[T]`; the layer must have a bias.
    pub bias_row_scales: Option<&'a Tensor>,
    /// Which kernel, forward and backward.
    pub kernel: KernelChoice,
}

/// What [`GroupedLinear::backward`] needs of a forward call: handles, no copies.
///
/// It is consumed by backward, so its memory is released as soon as nothing else holds it.
#[derive(Debug)]
#[must_use = "backward needs it; drop it explicitly where no gradient is wanted"]
pub struct Saved {
    pub(super) x: Tensor,
    pub(super) weights: GroupedTensor,
    pub(super) bias: Option<GroupedTensor>,
    pub(super) bias_row_scales: Option<Tensor>,
    pub(super) splits: Splits,
    pub(super) kernel: KernelChoice,
}

impl GroupedLinear {
    /// `Y_g = X_g · W_gᵀ (+ b_g)` into a new tensor `[T, N]` of the layer's type. Rows at and beyond
    /// `Σ m_g` are unspecified.
    ///
    /// # Errors
    /// Shapes, types, devices or splits that do not fit; out of memory; a driver failure.
    pub fn forward(
        &self,
        stream: &Stream,
        x: &Tensor,
        splits: &Splits,
        options: ForwardOptions<'_>,
    ) -> Result<(Tensor, Saved)> {
        self.check_input(x, splits)?;
        let shape = [x.shape()[0], self.config.out_features];
        let mut y = Tensor::empty(stream, &shape, self.config.dtype)?;
        let saved = self.forward_into(stream, x, splits, options, &mut y)?;
        Ok((y, saved))
    }

    /// As [`GroupedLinear::forward`], into the caller's `y [T, N]`; rows at and beyond `Σ m_g` keep
    /// what they held. Allocates nothing on the device.
    ///
    /// # Errors
    /// As [`GroupedLinear::forward`].
    pub fn forward_into(
        &self,
        stream: &Stream,
        x: &Tensor,
        splits: &Splits,
        options: ForwardOptions<'_>,
        y: &mut Tensor,
    ) -> Result<Saved> {
        self.check_input(x, splits)?;
        let args = FpropArgs {
            x,
            weights: &self.weights,
            splits,
            bias: self.bias.as_ref(),
            bias_row_scales: options.bias_row_scales,
            options: GemmOptions { kernel: options.kernel, ..GemmOptions::default() },
        };
        fprop(stream, &args, y)?;
        Ok(Saved {
            x: x.clone(),
            weights: self.weights.clone(),
            bias: self.bias.clone(),
            bias_row_scales: options.bias_row_scales.cloned(),
            splits: splits.clone(),
            kernel: options.kernel,
        })
    }

    fn check_input(&self, x: &Tensor, splits: &Splits) -> Result<()> {
        let k = self.config.in_features;
        if x.shape().len() != 2 || x.shape()[1] != k {
            return Err(Error::shape("x", x.shape(), format!("[rows, {k}]")));
        }
        if x.dtype() != self.config.dtype {
            return Err(Error::dtype("x", x.dtype(), self.config.dtype.to_string()));
        }
        if splits.groups() != self.config.groups {
            return Err(Error::invalid(format!(
                "splits: {} were given, the layer has {} groups",
                splits.groups(),
                self.config.groups
            )));
        }
        Ok(())
    }
}
