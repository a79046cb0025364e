//! Shape and type without memory.

use super::{DType, Tensor};
use crate::backend::Stream;
use crate::error::Result;

/// Shape and element type of a tensor that need not exist.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorSpec {
    /// Lengths of the dimensions.
    pub shape: Vec<usize>,
    /// Element type.
    pub dtype: DType,
}

impl TensorSpec {
    /// A tensor like this, with unspecified contents.
    ///
    /// # Errors
    /// As [`Tensor::empty`].
    pub fn empty(&self, stream: &Stream) -> Result<Tensor> {
        Tensor::empty(stream, &self.shape, self.dtype)
    }

    /// Bytes of all elements; `usize::MAX` beyond the address space.
    pub fn byte_len(&self) -> usize {
        self.shape.iter().fold(self.dtype.bytes(), |bytes, &length| bytes.saturating_mul(length))
    }
}

impl From<&Tensor> for TensorSpec {
    fn from(tensor: &Tensor) -> Self {
        Self { shape: tensor.shape().to_vec(), dtype: tensor.dtype() }
    }
}
