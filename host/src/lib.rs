//! The linear layer of a mixture-of-experts model, forward and backward, with GPU kernels written
//! in Rust.
//!
//! Expert `g` owns `m_g` consecutive rows of the token matrix; `T ≥ Σ m_g` is the size of the
//! buffer:
//!
//! ```text
//! fprop   Y_g  = X_g · W_gᵀ (+ b_g, or + s_row · b_g)     [m_g, N] = [m_g, K] · [N, K]ᵀ
//! dgrad   dX_g = dY_g · W_g                               [m_g, K] = [m_g, N] · [N, K]
//! wgrad   dW_g (+)= dY_gᵀ · X_g                           [N, K]   = [m_g, N]ᵀ · [m_g, K]
//! dbias   db_g = Σ_rows dY_g (· s_row),  dscales_row = dY_row · b_g
//! ```
//!
//! Products accumulate in FP32; bias, alpha and beta are applied in FP32, and the result is rounded
//! once. Rows at and beyond `Σ m_g` never influence a result and are never written.
//!
//! # Example
//!
//! ```
//! use grouped_linear::{
//!     Config, DType, Device, ForwardOptions, GroupedLinear, GroupedTensor, Splits, Tensor,
//! };
//!
//! let stream = Device::best_available().stream()?;
//! let (groups, n, k) = (4, 16, 32);
//! let weights = vec![0.5; groups * n * k];
//! let weights = Tensor::from_f32(&stream, &[groups, n, k], DType::Bf16, &weights)?;
//! let layer = GroupedLinear::new(
//!     &stream,
//!     Config { groups, in_features: k, out_features: n, dtype: DType::Bf16 },
//!     GroupedTensor::packed(weights)?,
//!     None,
//! )?;
//!
//! // Ten tokens: three for expert 0, none for expert 1, five for expert 2, two for expert 3.
//! let x = Tensor::from_f32(&stream, &[10, k], DType::Bf16, &vec![1.0; 10 * k])?;
//! let splits = Splits::host(&[3, 0, 5, 2])?;
//! let (y, saved) = layer.forward(&stream, &x, &splits, ForwardOptions::default())?;
//! assert_eq!(y.to_f32(&stream)?[0], 16.0);
//!
//! let grads = layer.backward(&stream, saved, &y)?;
//! assert_eq!(grads.dx.shape(), [10, k]);
//! assert_eq!(grads.dw.group(1)?.to_f32(&stream)?, vec![0.0; n * k]); // no tokens, no gradient
//! # Ok::<(), grouped_linear::Error>(())
//! ```
//!
//! # Low precision
//!
//! A layer computes in FP8, MXFP8 or NVFP4 where forward is given a [`LayerRecipe`]
//! ([`ForwardOptions::recipe`]); backward follows it. [`recipe`] says which there are, and which to
//! take.
//!
//! # Flow
//!
//! Every operation takes the same road:
//! **layer → plan → quantize → setup → gemm → epilogue**.
#![deny(unsafe_code)]

mod grouped_linear;
pub mod plan;
// The steps, which `launch` takes in this order: quantize, setup, gemm, epilogue.
mod epilogue;
mod gemm;
mod launch;
mod quantize;
mod setup;

mod backend;
#[cfg(feature = "safetensors")]
pub mod checkpoint;
#[doc(hidden)]
pub mod conformance;
mod error;
pub mod interop;
pub mod numerics;
pub mod ops;
mod ptx;
pub mod recipe;
pub mod reference;
mod splits;
mod tensor;

#[cfg(feature = "emulator")]
pub use crate::backend::EmulatorOptions;
pub use crate::backend::cuda::{KernelReport, ModuleReport, cuda_modules};
pub use crate::backend::{
    Device, DeviceId, DeviceInfo, DeviceKind, Event, Graph, KernelTime, Stream,
};
pub use crate::error::{Error, Result};
pub use crate::grouped_linear::functional::{
    self, Accumulate, CastArgs, DbiasArgs, DgradArgs, DscalesArgs, FpropArgs, GemmOptions,
    WgradArgs,
};
pub use crate::grouped_linear::{
    BackwardOptions, BackwardPrecision, BiasUse, Captured, CapturedLayer, CastWeights, Config,
    DelayedState, DelayedStates, ForwardOptions, GradSink, Grads, GroupedLinear, LayerRecipe,
    LayerSpecs, Needs, PendingWgrad, Prepare, QuantizeWeights, RandomState, RecipeBuffers,
    RecipeSpec, Refresh, RowSink, SavePolicy, Saved, SavedBytes, SelectedGrads, WeightCache, Wgrad,
    WgradStore,
};
pub use crate::plan::{Factor, KernelChoice};
pub use crate::ptx::{KernelArchitecture, KernelModule, KernelSource, kernel_source};
pub use crate::recipe::Recipe;
pub use crate::splits::Splits;
pub use crate::tensor::{
    CopySpec, DType, Direction, Element, Form, GroupedTensor, ParamLayout, QuantizedCopy,
    QuantizedSpec, QuantizedTensor, SourceShape, Tensor, TensorSpec,
};

#[cfg(feature = "emulator")]
pub use ptx_emulator::{Arch, Statistics};

/// The examples of the README are tests, too.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
