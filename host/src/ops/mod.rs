//! Operations that an autodiff engine can drive, and pipelines of them.
//!
//! [`Function`] is one differentiable operation: infer, forward, save, backward. Inputs, gradients
//! and what is kept have names, so an engine needs to know nothing of the operation.
//! [`GroupedLinear`](crate::GroupedLinear) is a `Function`, and so is whatever a program adds.
//! [`Sequential`] runs functions one after the other; a [`FusionRule`] may replace some of them by
//! one stage. A layer computes in low precision where a call gives it a recipe
//! ([`ForwardArguments::recipe`]).
//!
//! ```
//! use grouped_linear::ops::{BackwardArguments, ForwardArguments, Sequential, names};
//! use grouped_linear::{Config, DType, Device, GroupedLinear, GroupedTensor, Splits, Tensor};
//!
//! let stream = Device::cpu().stream()?;
//! let layer = |k, n| {
//!     let config = Config { groups: 2, in_features: k, out_features: n, dtype: DType::F32 };
//!     let weights = Tensor::from_f32(&stream, &[2, n, k], DType::F32, &vec![0.5; 2 * n * k])?;
//!     GroupedLinear::new(&stream, config, GroupedTensor::packed(weights)?, None)
//! };
//! let mut pipeline = Sequential::new();
//! let up = pipeline.push(layer(4, 8)?);
//! let down = pipeline.push(layer(8, 4)?);
//!
//! let x = Tensor::from_f32(&stream, &[3, 4], DType::F32, &[1.0; 12])?;
//! let splits = Splits::host(&[1, 2])?;
//! let arguments = ForwardArguments::new().splits(up, &splits).splits(down, &splits);
//! let (y, saved) = pipeline.forward(&stream, x, arguments)?;
//! assert_eq!(y.to_f32(&stream)?, [8.0; 12]);
//!
//! let grads = pipeline.backward(&stream, saved, y, BackwardArguments::new())?;
//! let dx = grads.get(up, names::X).and_then(|gradient| gradient.tensor()).unwrap();
//! assert_eq!(dx.to_f32(&stream)?, [64.0; 12]);
//! assert!(grads.get(down, names::WEIGHTS).is_some());
//! # Ok::<(), grouped_linear::Error>(())
//! ```

mod arguments;
mod backward;
mod checks;
mod function;
mod fusion;
mod layer;
mod named;
mod operation;
mod plan;
mod planner;
mod sequential;
#[cfg(test)]
mod tests;
mod value;

pub use self::arguments::{BackwardArguments, ForwardArguments, OpId};
pub use self::backward::{SavedSequence, SequenceGrads};
pub use self::function::{
    AnySaved, Function, FunctionSpecs, Gradient, Gradients, Kept, SavedState, Selection, Sink,
    Sinks,
};
pub use self::fusion::{
    Decision, FusedStage, FusionRule, Passes, SequencePass, Window, WindowOperation,
};
pub use self::named::Named;
pub use self::plan::{Refusal, SequencePlan, Stage, StageKind};
pub use self::sequential::Sequential;
pub use self::value::{InputSpecs, Inputs, SplitsSpec, Value, ValueSpec};

/// Names of the inputs and gradients of this crate's functions. Other functions may use other
/// names.
pub mod names {
    /// The tensor that flows through a pipeline; a function's first input.
    pub const X: &str = "x";
    /// Rows per group.
    pub const SPLITS: &str = "splits";
    /// Factor of the bias for each token row.
    pub const BIAS_ROW_SCALES: &str = "bias_row_scales";
    /// `"add"` or `"leave"`: whether forward adds the bias or leaves it to the caller.
    pub const BIAS_USE: &str = "bias_use";
    /// Which kernel: a name of [`KernelChoice`](crate::KernelChoice), `"auto"` or `"simt"`, say.
    pub const KERNEL: &str = "kernel";
    /// Low precision, forward and backward: a [`LayerRecipe`](crate::LayerRecipe).
    pub const RECIPE: &str = "recipe";
    /// What `x` was multiplied by in each group, where it is kept in FP8 with a scale for each.
    pub const X_SCALE: &str = "x_scale";
    /// What the codes of `x` are multiplied by, where it is kept quantized.
    pub const X_SCALE_INV: &str = "x_scale_inv";
    /// Largest magnitudes of `x`, where that is kept in NVFP4.
    pub const X_AMAX: &str = "x_amax";
    /// As [`X_SCALE`], of weights that forward has quantized into new memory.
    pub const WEIGHTS_SCALE: &str = "weights_scale";
    /// As [`X_SCALE_INV`], of weights that forward has quantized into new memory.
    pub const WEIGHTS_SCALE_INV: &str = "weights_scale_inv";
    /// As [`X_AMAX`], of weights that forward has quantized into new memory.
    pub const WEIGHTS_AMAX: &str = "weights_amax";
    /// The weights of a layer.
    pub const WEIGHTS: &str = "weights";
    /// The bias of a layer.
    pub const BIAS: &str = "bias";
}
