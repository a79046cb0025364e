//! What forward keeps for backward.

use super::Config;
use super::forward::Needs;
use crate::error::{Error, Result};
use crate::plan::KernelChoice;
use crate::splits::Splits;
use crate::tensor::{GroupedTensor, Tensor};

/// What [`GroupedLinear::backward`](super::GroupedLinear::backward) needs of a forward call:
/// handles, no copies.
///
/// Only what the asked-for gradients need is kept ([`Needs`]): the tokens for the gradient of the
/// weights, the weights for the gradient of the tokens. Backward consumes it, so its memory is
/// released as soon as nothing else holds it; a clone lets backward run more than once.
#[derive(Clone, Debug)]
#[must_use = "backward needs it; drop it explicitly where no gradient is wanted"]
pub struct Saved {
    /// Of the layer.
    pub(super) config: Config,
    pub(super) rows: usize,
    pub(super) needs: Needs,
    /// For dw.
    pub(super) x: Option<Tensor>,
    /// For dx.
    pub(super) weights: Option<GroupedTensor>,
    /// For dscales.
    pub(super) bias: Option<GroupedTensor>,
    /// For db.
    pub(super) bias_row_scales: Option<Tensor>,
    pub(super) splits: Splits,
    pub(crate) kernel: KernelChoice,
}

/// Bytes of the elements that a [`Saved`] keeps a handle to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SavedBytes {
    /// Tokens and row scales: they live as long as the longest-lived handle.
    pub activations: usize,
    /// Weights and biases, which the layer holds as well.
    pub parameters: usize,
    /// Splits in device memory; splits of the host count nothing.
    pub splits: usize,
}

impl Saved {
    /// Bytes that stay allocated on account of this value (or would, if all other handles went).
    ///
    /// ```
    /// # use grouped_linear::*;
    /// # let stream = Device::cpu().stream()?;
    /// # let config = Config { groups: 2, in_features: 8, out_features: 4, dtype: DType::Bf16 };
    /// # let weights = GroupedTensor::packed(Tensor::zeros(&stream, &[2, 4, 8], DType::Bf16)?)?;
    /// # let layer = GroupedLinear::new(&stream, config, weights, None)?;
    /// # let x = Tensor::zeros(&stream, &[10, 8], DType::Bf16)?;
    /// # let splits = Splits::host(&[4, 6])?;
    /// let needs = Needs { dw: false, ..Needs::default() };
    /// let frozen = ForwardOptions { needs, ..ForwardOptions::default() };
    /// let (_, all) = layer.forward(&stream, &x, &splits, ForwardOptions::default())?;
    /// let (_, no_dw) = layer.forward(&stream, &x, &splits, frozen)?;
    /// assert_eq!(all.bytes().activations, 10 * 8 * 2);
    /// assert_eq!(no_dw.bytes().activations, 0); // only dw needs the tokens
    /// # Ok::<(), grouped_linear::Error>(())
    /// ```
    pub fn bytes(&self) -> SavedBytes {
        let tensor = |tensor: &Option<Tensor>| tensor.as_ref().map_or(0, Tensor::byte_len);
        let grouped = |own: &Option<GroupedTensor>| own.as_ref().map_or(0, GroupedTensor::byte_len);
        SavedBytes {
            activations: tensor(&self.x) + tensor(&self.bias_row_scales),
            parameters: grouped(&self.weights) + grouped(&self.bias),
            splits: self.splits.device_tensor().map_or(0, Tensor::byte_len),
        }
    }

    /// What lives on account of this value alone.
    pub(crate) fn activations(&self) -> Vec<&Tensor> {
        let tensors = self.x.iter().chain(&self.bias_row_scales);
        tensors.chain(self.splits.device_tensor()).collect()
    }

    /// What the layer holds as well.
    pub(crate) fn parameters(&self) -> Vec<&Tensor> {
        self.weights.iter().chain(&self.bias).flat_map(GroupedTensor::tensors).collect()
    }

    /// Which gradients forward was told to keep operands for.
    pub fn needs(&self) -> Needs {
        self.needs
    }
}

impl SavedBytes {
    /// All of them.
    pub fn total(&self) -> usize {
        self.activations + self.parameters + self.splits
    }
}

/// Refuses a gradient for which forward was told to keep nothing.
pub(super) fn not_saved(gradient: &str) -> Error {
    Error::invalid(format!(
        "{gradient} was asked for, but forward kept nothing for it: ForwardOptions::needs leaves it \
         out, or there is nothing to differentiate"
    ))
}

/// The operand, or why there is none.
pub(super) fn operand<'a, T>(operand: &'a Option<T>, gradient: &str) -> Result<&'a T> {
    operand.as_ref().ok_or_else(|| not_saved(gradient))
}
