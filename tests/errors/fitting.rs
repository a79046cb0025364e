//! Arguments that fit, for tests to spoil.

use grouped_linear::functional::{
    DbiasArgs, DgradArgs, DscalesArgs, FpropArgs, GemmOptions, WgradArgs,
};
use grouped_linear::{Accumulate, DType, GroupedTensor, Result, Splits, Stream, Tensor};

pub(crate) const GROUPS: usize = 2;
pub(crate) const ROWS: usize = 6;
pub(crate) const N: usize = 16;
pub(crate) const K: usize = 8;

/// Tensors that fit each other.
pub(crate) struct Fitting {
    pub(crate) x: Tensor,
    pub(crate) dy: Tensor,
    pub(crate) weights: GroupedTensor,
    pub(crate) bias: GroupedTensor,
    pub(crate) splits: Splits,
}

impl Fitting {
    pub(crate) fn new(stream: &Stream) -> Result<Self> {
        Ok(Self {
            x: floats(stream, &[ROWS, K])?,
            dy: floats(stream, &[ROWS, N])?,
            weights: packed(stream, &[GROUPS, N, K])?,
            bias: packed(stream, &[GROUPS, N])?,
            splits: Splits::host(&[2, 3])?,
        })
    }

    pub(crate) fn fprop(&self) -> FpropArgs<'_> {
        FpropArgs {
            x: &self.x,
            weights: &self.weights,
            splits: &self.splits,
            bias: Some(&self.bias),
            bias_row_scales: None,
            options: GemmOptions::default(),
        }
    }

    pub(crate) fn dgrad(&self) -> DgradArgs<'_> {
        let (dy, weights, splits) = (&self.dy, &self.weights, &self.splits);
        DgradArgs { dy, weights, splits, options: GemmOptions::default() }
    }

    pub(crate) fn wgrad(&self) -> WgradArgs<'_> {
        let (dy, x, splits) = (&self.dy, &self.x, &self.splits);
        WgradArgs { dy, x, splits, options: GemmOptions::default() }
    }

    pub(crate) fn dbias(&self) -> DbiasArgs<'_> {
        let (dy, splits) = (&self.dy, &self.splits);
        DbiasArgs { dy, splits, row_scales: None, accumulate: Accumulate::Overwrite }
    }

    pub(crate) fn dscales(&self) -> DscalesArgs<'_> {
        DscalesArgs { dy: &self.dy, bias: &self.bias, splits: &self.splits }
    }
}

pub(crate) fn floats(stream: &Stream, shape: &[usize]) -> Result<Tensor> {
    Tensor::zeros(stream, shape, DType::F32)
}

pub(crate) fn packed(stream: &Stream, shape: &[usize]) -> Result<GroupedTensor> {
    GroupedTensor::packed(floats(stream, shape)?)
}
