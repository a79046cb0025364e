//! Backward: gradients of input, weights and bias.

use super::functional::{
    Accumulate, DbiasArgs, DgradArgs, DscalesArgs, GemmOptions, WgradArgs, dbias, dgrad, dscales,
    wgrad,
};
use super::{GroupedLinear, Saved};
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::tensor::{DType, GroupedTensor, Tensor};

/// Gradients of one forward call.
#[derive(Clone, Debug)]
pub struct Grads {
    /// Of the input, `[T, K]`; rows at and beyond `Σ m_g` are unspecified.
    pub dx: Tensor,
    /// Of the weights, `[N, K]` per group, packed in one tensor; zeros for groups without rows.
    pub dw: GroupedTensor,
    /// Of the bias, `[N]` per group, packed; `None` for a layer without bias.
    pub db: Option<GroupedTensor>,
    /// Of the bias row scales, FP32 `[T]`; `None` where forward had none.
    pub dscales: Option<Tensor>,
}

impl GroupedLinear {
    /// Gradients for the output gradient `dy [T, N]`. Input and parameters are kept as handles, so
    /// they must still hold what forward saw.
    ///
    /// Discrete parameters get gradients that are views of one packed tensor
    /// ([`GroupedTensor::group`]).
    ///
    /// # Errors
    /// `dy` does not fit; out of memory; a driver failure.
    pub fn backward(&self, stream: &Stream, saved: Saved, dy: &Tensor) -> Result<Grads> {
        let rows = saved.x.shape()[0];
        let (groups, n, k) =
            (self.config.groups, self.config.out_features, self.config.in_features);
        if dy.shape() != [rows, n] {
            return Err(Error::shape("dy", dy.shape(), format!("[{rows}, {n}]")));
        }
        if dy.dtype() != self.config.dtype {
            return Err(Error::dtype("dy", dy.dtype(), self.config.dtype.to_string()));
        }
        let dtype = self.config.dtype;
        let (splits, weights) = (&saved.splits, &saved.weights);
        let options = GemmOptions { kernel: saved.kernel, ..GemmOptions::default() };

        let mut dx = Tensor::empty(stream, &[rows, k], dtype)?;
        dgrad(stream, &DgradArgs { dy, weights, splits, options }, &mut dx)?;

        let mut dw = GroupedTensor::packed(Tensor::empty(stream, &[groups, n, k], dtype)?)?;
        wgrad(stream, &WgradArgs { dy, x: &saved.x, splits, options }, &mut dw)?;

        let row_scales = saved.bias_row_scales.as_ref();
        let db = match &saved.bias {
            None => None,
            Some(bias) => {
                let db = Tensor::empty(stream, &[groups, n], bias.dtype())?;
                let mut db = GroupedTensor::packed(db)?;
                let accumulate = Accumulate::Overwrite;
                dbias(stream, &DbiasArgs { dy, splits, row_scales, accumulate }, &mut db)?;
                Some(db)
            }
        };
        let dscales = match (&saved.bias, row_scales) {
            (Some(bias), Some(_)) => {
                let mut gradient = Tensor::empty(stream, &[rows], DType::F32)?;
                dscales(stream, &DscalesArgs { dy, bias, splits }, &mut gradient)?;
                Some(gradient)
            }
            _ => None,
        };
        Ok(Grads { dx, dw, db, dscales })
    }
}
