//! Where gradients go.

use super::functional::{Accumulate, GemmOptions};
use crate::backend::Stream;
use crate::error::Result;
use crate::plan::{Factor, KernelChoice};
use crate::tensor::{GroupedTensor, Tensor, TensorSpec};

/// Where the gradient of a parameter goes.
///
/// A buffer may be packed or discrete, whatever the parameter is, and BF16, FP16 or FP32 (of the
/// weights of an FP32 layer, FP32): a main_grad in FP32 keeps what many small gradients add up to.
#[derive(Debug, Default)]
pub enum GradSink<'a> {
    /// A new packed tensor of the parameter's type.
    #[default]
    New,
    /// The caller's buffer; what it held is gone. Groups without rows get zeros.
    Overwrite(&'a mut GroupedTensor),
    /// The caller's buffer, added to in FP32 and rounded to its type. Groups without rows keep what
    /// they held, in db with zeros of either sign becoming +0.
    Accumulate(&'a mut GroupedTensor),
}

impl<'a> GradSink<'a> {
    /// The buffer of a step that takes several microbatches, numbered from 0: the first overwrites
    /// what the last step left, the others add.
    pub fn microbatch(buffer: &'a mut GroupedTensor, number: usize) -> Self {
        match number {
            0 => Self::Overwrite(buffer),
            _ => Self::Accumulate(buffer),
        }
    }

    /// The caller's buffer.
    pub(super) fn buffer(&self) -> Option<&GroupedTensor> {
        match self {
            Self::New => None,
            Self::Overwrite(buffer) | Self::Accumulate(buffer) => Some(buffer),
        }
    }

    /// The same sink, for a shorter time.
    pub(super) fn reborrow(&mut self) -> GradSink<'_> {
        match self {
            Self::New => GradSink::New,
            Self::Overwrite(buffer) => GradSink::Overwrite(buffer),
            Self::Accumulate(buffer) => GradSink::Accumulate(buffer),
        }
    }

    /// The buffer to write, made now if the caller gave none, and how.
    pub(super) fn open(
        self,
        stream: &Stream,
        spec: &TensorSpec,
    ) -> Result<(GroupedTensor, Accumulate)> {
        match self {
            Self::New => Ok((GroupedTensor::packed(spec.empty(stream)?)?, Accumulate::Overwrite)),
            Self::Overwrite(buffer) => Ok((buffer.clone(), Accumulate::Overwrite)),
            Self::Accumulate(buffer) => Ok((buffer.clone(), Accumulate::Add)),
        }
    }
}

/// Where and when the gradient of the weights is computed.
#[derive(Debug)]
pub enum Wgrad<'a> {
    /// In this backward.
    Now(GradSink<'a>),
    /// Later: backward returns a [`PendingWgrad`](super::PendingWgrad).
    Delayed,
    /// Never, even where forward kept the tokens for it.
    Skip,
}

impl Default for Wgrad<'_> {
    fn default() -> Self {
        Self::Now(GradSink::New)
    }
}

impl<'a> From<GradSink<'a>> for Wgrad<'a> {
    fn from(sink: GradSink<'a>) -> Self {
        Self::Now(sink)
    }
}

/// Where a gradient with a row per token goes.
#[derive(Debug, Default)]
pub enum RowSink<'a> {
    /// A new tensor.
    #[default]
    New,
    /// The caller's tensor; rows at and beyond `Σ m_g` keep what they held.
    Into(&'a mut Tensor),
    /// Nowhere.
    Skip,
}

impl RowSink<'_> {
    /// The caller's tensor.
    pub(super) fn buffer(&self) -> Option<&Tensor> {
        match self {
            Self::Into(tensor) => Some(tensor),
            Self::New | Self::Skip => None,
        }
    }

    /// The same sink, for a shorter time.
    pub(super) fn reborrow(&mut self) -> RowSink<'_> {
        match self {
            Self::New => RowSink::New,
            Self::Into(tensor) => RowSink::Into(tensor),
            Self::Skip => RowSink::Skip,
        }
    }

    /// The tensor to write, made now if the caller gave none; `None` to skip it.
    pub(super) fn open(self, stream: &Stream, spec: &TensorSpec) -> Result<Option<Tensor>> {
        match self {
            Self::New => spec.empty(stream).map(Some),
            Self::Into(tensor) => Ok(Some(tensor.clone())),
            Self::Skip => Ok(None),
        }
    }
}

/// Options of a product that replaces its output or adds to it.
pub(super) fn gemm_options(kernel: KernelChoice, accumulate: Accumulate) -> GemmOptions<'static> {
    let beta = match accumulate {
        Accumulate::Overwrite => 0.0,
        Accumulate::Add => 1.0,
    };
    GemmOptions { beta: Factor::Value(beta), kernel, ..GemmOptions::default() }
}
