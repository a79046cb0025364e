//! Forward.

use super::GroupedLinear;
use super::functional::{FpropArgs, GemmOptions, fprop};
use super::saved::Saved;
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::plan::KernelChoice;
use crate::splits::Splits;
use crate::tensor::Tensor;

/// What forward does with the layer's bias.
#[derive(Clone, Copy, Debug, Default)]
pub enum BiasUse<'a> {
    /// `Y_g = X_g · W_gᵀ + b_g`, where the layer has a bias.
    #[default]
    Add,
    /// `Y_r = X_r · W_gᵀ + s_r · b_g`: a factor for each token row, FP32, `[T]`. The layer must have
    /// a bias.
    RowScaled(&'a Tensor),
    /// The bias is left to the caller, who adds [`GroupedLinear::bias`] later, say in the kernel that
    /// follows. Backward then gives no gradient for it.
    Leave,
}

/// Which gradients backward will be asked for. What none of them needs is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Needs {
    /// Of the tokens; keeps the weights.
    pub dx: bool,
    /// Of the weights; keeps the tokens.
    pub dw: bool,
    /// Of the bias; keeps its row scales.
    pub db: bool,
    /// Of the row scales of the bias; keeps the bias.
    pub dscales: bool,
}

impl Default for Needs {
    /// All.
    fn default() -> Self {
        Self { dx: true, dw: true, db: true, dscales: true }
    }
}

/// What one forward call may add to the plain product.
#[derive(Clone, Copy, Debug, Default)]
pub struct ForwardOptions<'a> {
    /// What happens to the bias.
    pub bias: BiasUse<'a>,
    /// What is kept for backward.
    pub needs: Needs,
    /// Which kernel, forward and backward.
    pub kernel: KernelChoice,
}

impl BiasUse<'_> {
    pub(super) fn is_row_scaled(&self) -> bool {
        matches!(self, Self::RowScaled(_))
    }
}

impl GroupedLinear {
    /// `Y_g = X_g · W_gᵀ (+ b_g)` into a new tensor `[T, N]` of the layer's type. Rows at and beyond
    /// `Σ m_g` are unspecified.
    ///
    /// # Errors
    /// Shapes, types, devices or splits that do not fit; row scales without a bias; out of memory; a
    /// driver failure.
    pub fn forward(
        &self,
        stream: &Stream,
        x: &Tensor,
        splits: &Splits,
        options: ForwardOptions<'_>,
    ) -> Result<(Tensor, Saved)> {
        self.check_input(x, splits)?;
        let mut y = self.config.output(x.shape()[0]).empty(stream)?;
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
        let ForwardOptions { bias, kernel, .. } = options;
        let (bias, bias_row_scales) = match bias {
            BiasUse::Add => (self.bias.as_ref(), None),
            BiasUse::RowScaled(scales) => (self.bias.as_ref(), Some(scales)),
            BiasUse::Leave => (None, None),
        };
        let gemm = GemmOptions { kernel, ..GemmOptions::default() };
        let weights = &self.weights;
        let args = FpropArgs { x, weights, splits, bias, bias_row_scales, options: gemm };
        fprop(stream, &args, y)?;

        let (_, needs) = self.effective(&options);
        Ok(Saved {
            config: self.config,
            rows: x.shape()[0],
            needs,
            x: needs.dw.then(|| x.clone()),
            weights: needs.dx.then(|| weights.clone()),
            bias: bias.filter(|_| needs.dscales).cloned(),
            bias_row_scales: bias_row_scales.filter(|_| needs.db).cloned(),
            splits: splits.clone(),
            kernel,
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
