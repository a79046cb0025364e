//! Grouped products of quantized operands.

use grouped_linear_kernels::abi::Ragged;
use grouped_linear_kernels::abi::scaled::Scaling;
use grouped_linear_kernels::variants::{Fp8Gemm, Role};

use super::problem::{BiasKind, GemmProblem, KernelChoice, Pass, check_float};
use super::quantize::check_multiple;
use crate::error::{Error, Result};
use crate::recipe::{Accumulation, Blocks, Format};
use crate::tensor::DType;

/// A grouped product of FP8 operands: `D_g = alpha_g · A_g · B_g + beta_g · D_g (+ bias)`, where an
/// operand's element is its number times the `scale_inv` of its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScaledGemmProblem {
    /// Which product.
    pub pass: Pass,
    /// Number of groups (experts), G.
    pub groups: usize,
    /// Rows of the token buffer, T ≥ Σ m_g.
    pub rows: usize,
    /// K.
    pub in_features: usize,
    /// N.
    pub out_features: usize,
    /// X (fprop) or dY (dgrad, wgrad).
    pub a: Format,
    /// Weights (fprop, dgrad) or X (wgrad).
    pub b: Format,
    /// How sums grow.
    pub accumulation: Accumulation,
    /// Type of the output.
    pub output: DType,
    /// Bias of the epilogue (fprop only).
    pub bias: BiasKind,
}

impl ScaledGemmProblem {
    /// The same product of unscaled operands.
    pub(crate) fn unscaled(&self) -> GemmProblem {
        let Self { pass, groups, rows, in_features, out_features, output, bias, .. } = *self;
        let (input, kernel) = (DType::Bf16, KernelChoice::Auto);
        GemmProblem { pass, groups, rows, in_features, out_features, input, output, bias, kernel }
    }

    pub(super) fn check(&self) -> Result<()> {
        self.unscaled().check()?;
        check_multiple("in_features", self.in_features)?;
        check_multiple("out_features", self.out_features)?;
        check_float("output", self.output)?;
        if !self.a.dtype.is_fp8() {
            return Err(Error::dtype("left operand", self.a.dtype, "e4m3 or e5m2"));
        }
        if self.b.dtype != DType::E4m3 {
            return Err(Error::dtype("right operand", self.b.dtype, "e4m3; e5m2 is for gradients"));
        }
        let (a, b) = (self.a.blocks, self.b.blocks);
        match (a, b, self.accumulation) {
            (Blocks::Tensor, Blocks::Tensor, _) => Ok(()),
            (Blocks::Tensor, _, _) | (_, Blocks::Tensor, _) => Err(Error::unsupported(
                "one operand has a scale for each group and the other scales for blocks; quantize \
                 both alike",
            )),
            (Blocks::Square, Blocks::Square, _) => Err(Error::unsupported(
                "both operands have square blocks; one must have vectors of 128",
            )),
            (_, _, Accumulation::Fast) => Err(Error::unsupported(
                "scaled blocks were asked for with fast accumulation; their sums are always promoted",
            )),
            (_, _, Accumulation::Promoted) => Ok(()),
        }
    }

    /// The kernel that computes the product on a GPU.
    pub(super) fn role(&self) -> Result<Role> {
        let Self { pass, a, b, accumulation, .. } = *self;
        // Without rows there is nothing for a tensor map to describe, and nothing to multiply.
        if self.rows == 0 {
            return GemmProblem { kernel: KernelChoice::Simt, ..self.unscaled() }.role();
        }
        let ragged = if pass == Pass::Wgrad { Ragged::Reduction } else { Ragged::Rows };
        let scaling = Scaling { a: a.blocks, b: b.blocks, accumulation };
        let element = a
            .dtype
            .element_type()
            .ok_or_else(|| Error::dtype("left operand", a.dtype, "e4m3 or e5m2"))?;
        Ok(Role::GemmFp8(Fp8Gemm { ragged, a: element, scaling }))
    }
}
