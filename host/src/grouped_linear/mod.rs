//! The layer: parameters, forward, backward, and what is kept between the two.

mod backward;
mod captured;
mod composed;
mod delayed;
mod delayed_state;
mod forms;
mod forward;
pub mod functional;
mod infer;
mod low_precision;
mod movement;
mod operands;
mod quantized;
mod random;
mod saved;
mod sink;
#[cfg(test)]
mod tests;
mod weight_cache;

pub use self::backward::{BackwardOptions, Grads, SelectedGrads};
pub use self::captured::{Captured, CapturedLayer};
pub use self::delayed::{PendingWgrad, WgradStore};
pub use self::delayed_state::DelayedState;
pub(crate) use self::forward::{BiasMode, CallSpec};
pub use self::forward::{BiasUse, ForwardOptions, Needs};
pub(crate) use self::infer::IntendedCall;
pub use self::infer::LayerSpecs;
pub use self::low_precision::{
    BackwardPrecision, DelayedStates, LayerRecipe, QuantizeWeights, RecipeBuffers, RecipeSpec,
    SavePolicy,
};
pub use self::random::RandomState;
pub use self::saved::{Saved, SavedBytes};
pub use self::sink::{GradSink, RowSink, Wgrad};
pub use self::weight_cache::{CastWeights, Prepare, Refresh, WeightCache};
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::plan::{BiasKind, GemmProblem, KernelChoice, Pass, Plan};
use crate::tensor::{DType, GroupedTensor};

/// Sizes of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Number of groups (experts), G.
    pub groups: usize,
    /// K.
    pub in_features: usize,
    /// N.
    pub out_features: usize,
    /// Type of activations, weights and their gradients: BF16, FP16 or FP32.
    pub dtype: DType,
}

/// A linear layer per expert, applied to consecutive groups of token rows.
///
/// Parameters are packed in one tensor or discrete, weights and biases independently; the layer
/// keeps handles to memory that the caller made, so an optimiser updates them in place.
///
/// See the [crate's example](crate#example).
#[derive(Clone, Debug)]
pub struct GroupedLinear {
    config: Config,
    weights: GroupedTensor,
    bias: Option<GroupedTensor>,
}

impl GroupedLinear {
    /// A layer over these parameters: weights `[N, K]` of the layer's type, and biases `[N]` in
    /// BF16, FP16 or FP32, per group.
    ///
    /// Features that a GPU's tensor copies cannot take, in BF16 and FP16 those that are no
    /// multiples of 8, are refused by forward, unless it asks for
    /// [`KernelChoice::Simt`](crate::plan::KernelChoice::Simt).
    ///
    /// # Errors
    /// Number of groups, shapes, element types or devices do not fit `config`; the device has no
    /// kernel for the sizes or the type.
    pub fn new(
        stream: &Stream,
        config: Config,
        weights: GroupedTensor,
        bias: Option<GroupedTensor>,
    ) -> Result<Self> {
        let Config { groups, in_features, out_features, dtype } = config;
        if !dtype.is_float() {
            return Err(Error::dtype("layer", dtype, "bf16, f16 or f32"));
        }
        weights.check("weights", groups, &[out_features, in_features], stream)?;
        if weights.dtype() != dtype {
            return Err(Error::dtype("weights", weights.dtype(), dtype.to_string()));
        }
        if let Some(bias) = &bias {
            bias.check("bias", groups, &[out_features], stream)?;
            if !bias.dtype().is_float() {
                return Err(Error::dtype("bias", bias.dtype(), "bf16, f16 or f32"));
            }
        }
        // What forward would refuse whatever the rows is refused now.
        plan_forward(&config, bias.as_ref().map(GroupedTensor::dtype), stream)?;
        Ok(Self { config, weights, bias })
    }

    /// Sizes of the layer.
    pub fn config(&self) -> Config {
        self.config
    }

    /// Weights, `[N, K]` per group.
    pub fn weights(&self) -> &GroupedTensor {
        &self.weights
    }

    /// Bias, `[N]` per group.
    pub fn bias(&self) -> Option<&GroupedTensor> {
        self.bias.as_ref()
    }
}

/// Refuses sizes and types, that of the bias included, for which the device has no kernel.
pub(crate) fn plan_forward(config: &Config, bias: Option<DType>, stream: &Stream) -> Result<()> {
    // The kernel is chosen with each forward; the readable one takes all sizes that any takes.
    let problem = GemmProblem {
        bias: bias.map_or(BiasKind::None, BiasKind::Add),
        ..config.product(Pass::Fprop, 1, config.dtype, KernelChoice::Simt)
    };
    Plan::new(problem.into(), stream.device().target()).map(drop)
}
