//! Grouped products of quantized operands.

use grouped_linear_kernels::abi::Ragged;
use grouped_linear_kernels::abi::quantize::{BlockScales, ROW_BLOCK};
use grouped_linear_kernels::abi::scaled::{AlignArgs, AlignedCopy, Scaling};
use grouped_linear_kernels::variants::{Fp8Gemm, Kernel, Role, Sm100Product};

use super::choice::{Contest, KernelChoice, Obstacle};
use super::problem::{BiasKind, GemmProblem, Pass, check_float, check_padded_rows, padded_rows};
use super::target::KernelTarget;
use super::tensor_cores::{in_tensor_memory, micro_form};
use super::{GpuTarget, LaunchPlan, PlannedKernel, row};
use crate::error::{Error, Result};
use crate::recipe::{Accumulation, Blocks, Format, Nvfp4Format, Scope, Transform};
use crate::tensor::{DType, Form};

/// A grouped product of quantized operands: `D_g = alpha_g · A_g · B_g + beta_g · D_g (+ bias)`,
/// where an operand's element is its number times its scales. On a GPU FP8 is multiplied as it is;
/// MXFP8 and NVFP4 are, too, where tensor cores apply the scales of blocks (Blackwell,
/// [`Form::Swizzled`]), and elsewhere, or if so asked, in BF16, as exact numbers ([`Form::Exact`]).
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
    /// How the copies that are multiplied are stored, that of A and that of B.
    pub forms: [Form; 2],
    /// How sums grow.
    pub accumulation: Accumulation,
    /// Type of the output.
    pub output: DType,
    /// Bias of the epilogue (fprop only).
    pub bias: BiasKind,
    /// Whether the FP32 scales of blocks are powers of two, as far as is known. Any are multiplied;
    /// [`KernelChoice::Auto`] takes aligned blocks only where it holds.
    pub power_of_two_scales: bool,
    /// Which kernel, of those that take the operands as they are stored.
    pub kernel: KernelChoice,
}

impl ScaledGemmProblem {
    /// The same product of unscaled operands.
    pub(crate) fn unscaled(&self) -> GemmProblem {
        let Self { pass, groups, rows, in_features, out_features, output, bias, kernel, .. } =
            *self;
        let input = DType::Bf16;
        GemmProblem { pass, groups, rows, in_features, out_features, input, output, bias, kernel }
    }

    pub(super) fn check(&self) -> Result<()> {
        self.unscaled().check()?;
        check_padded_rows(self.padded_rows())?;
        self.a.check()?;
        self.b.check()?;
        for format in [self.a, self.b] {
            format.check_multiple("in_features", self.in_features)?;
            format.check_multiple("out_features", self.out_features)?;
        }
        check_float("output", self.output)?;
        if self.kernel == KernelChoice::Simt {
            return Err(Error::unsupported(format!(
                "KernelChoice::Simt was asked for: {}; use KernelChoice::Auto",
                Obstacle::Quantized
            )));
        }
        match (self.a, self.b) {
            (Format::Fp8 { blocks: a, .. }, Format::Fp8 { dtype, blocks: b }) => {
                if dtype != DType::E4m3 {
                    return Err(Error::dtype(
                        "right operand",
                        dtype,
                        "e4m3; e5m2 is for gradients",
                    ));
                }
                self.check_blocks(a, b)
            }
            (Format::Mxfp8 { .. }, Format::Mxfp8 { .. }) => self.check_promoted(),
            (Format::Nvfp4(a), Format::Nvfp4(b)) => {
                self.check_promoted()?;
                self.check_nvfp4(a, b)
            }
            (a, b) => Err(Error::unsupported(format!(
                "the operands are in {a} and {b}; quantize both to one format"
            ))),
        }
    }

    fn check_blocks(&self, a: Blocks, b: Blocks) -> Result<()> {
        match (a, b) {
            (Blocks::Tensor, Blocks::Tensor) => Ok(()),
            (Blocks::Tensor, _) | (_, Blocks::Tensor) => Err(Error::unsupported(
                "one operand has a scale for each group and the other scales for blocks; quantize \
                 both alike",
            )),
            (Blocks::Square, Blocks::Square) => Err(Error::unsupported(
                "both operands have square blocks; one must have vectors of 128",
            )),
            _ => self.check_promoted(),
        }
    }

    fn check_promoted(&self) -> Result<()> {
        if self.accumulation == Accumulation::Promoted {
            return Ok(());
        }
        Err(Error::unsupported(
            "scaled blocks were asked for with fast accumulation; their sums are always promoted",
        ))
    }

    fn check_nvfp4(&self, a: Nvfp4Format, b: Nvfp4Format) -> Result<()> {
        // What is mixed along the tokens must be mixed on both sides, or the transform stays.
        if self.pass == Pass::Wgrad && a.transform != b.transform {
            return Err(Error::unsupported(
                "NVFP4: one operand was transformed and the other was not; quantize both alike",
            ));
        }
        // dgrad reads transformed weights, but rowwise copies, dY's among them, never are.
        if self.pass == Pass::Dgrad && b.transform == Transform::Hadamard {
            return Err(Error::unsupported(
                "NVFP4: the weights were transformed and dy is not; quantize weights without a \
                 transform",
            ));
        }
        let rows_scaled = [a, b].map(|format| format.scope == Scope::Row);
        if rows_scaled[1] || rows_scaled[0] && self.pass != Pass::Fprop {
            return Err(Error::unsupported(
                "NVFP4: a scale for each row is for the tokens of fprop, no other operand has them",
            ));
        }
        Ok(())
    }

    /// What the rows of a group are rounded up to where an operand is transposed or scaled.
    pub(super) fn row_align(&self) -> u32 {
        match self.a {
            Format::Fp8 { .. } => ROW_BLOCK,
            Format::Nvfp4(_) if self.pass == Pass::Wgrad => ROW_BLOCK,
            // Every group's block scales are padded to whole tiles.
            Format::Mxfp8 { .. } | Format::Nvfp4(_) if self.forms == [Form::Swizzled; 2] => {
                ROW_BLOCK
            }
            Format::Mxfp8 { .. } | Format::Nvfp4(_) => 1,
        }
    }

    /// What the operands are called in the pass, that of A and that of B.
    fn operand_names(&self) -> [&'static str; 2] {
        match self.pass {
            Pass::Fprop => ["x", "weights"],
            Pass::Dgrad => ["dy", "weights"],
            Pass::Wgrad => ["dy", "x"],
        }
    }

    /// The form in which a GPU multiplies operands of MXFP8 or NVFP4, if both are in it.
    fn micro_form(&self, target: KernelTarget) -> Result<Form> {
        // Exact numbers run everywhere, so who has one operand in them is told of the other.
        let wanted = match micro_form(target, [self.in_features, self.out_features]) {
            Form::Swizzled if !self.forms.contains(&Form::Exact) => Form::Swizzled,
            _ => Form::Exact,
        };
        let operands = self.operand_names().into_iter().zip([self.a, self.b]).zip(self.forms);
        for ((name, format), form) in operands {
            check_form(name, format, form, wanted)?;
        }
        Ok(wanted)
    }

    /// The launches with the one that aligns blocks, if the main kernel reads such.
    pub(super) fn aligned(&self, launch: LaunchPlan) -> Result<LaunchPlan> {
        match launch.kernel.map(|kernel| kernel.role) {
            Some(Role::GemmFp8(Fp8Gemm { aligned: true, .. })) => {}
            _ => return Ok(launch),
        }
        let (columns, padded) = (self.in_features, self.padded_rows());
        let blocks = AlignArgs::grid(columns as u64, padded as u64);
        if blocks > i32::MAX as u64 {
            return Err(Error::unsupported(format!(
                "{blocks} blocks would align X, a launch can count 2^31-1; split the groups"
            )));
        }
        let mut workspace = launch.workspace;
        workspace.bytes = workspace.aligned + self.aligned_copy().bytes;
        let align = Some(PlannedKernel { role: row(Role::Align)?.role, grid: [blocks as u32, 1] });
        Ok(LaunchPlan { align, workspace, ..launch })
    }

    /// How the aligned copy of X lies in scratch memory.
    pub(crate) fn aligned_copy(&self) -> AlignedCopy {
        let (columns, padded) = (self.in_features, self.padded_rows());
        let scales = BlockScales::columnwise(Blocks::Vector, padded as u64, columns as u64);
        AlignedCopy::layout(columns, padded, self.groups, &scales)
    }

    /// The most rows that all groups can have, padded.
    pub(crate) fn padded_rows(&self) -> usize {
        padded_rows(self.rows, self.groups)
    }

    /// The kernel that computes the product on a GPU.
    pub(super) fn choose(&self, gpu: GpuTarget) -> Result<&'static Kernel> {
        self.contest(gpu)?.choose()
    }

    /// The kernels that could compute it, of operands that are stored so.
    pub(super) fn contest(&self, gpu: GpuTarget) -> Result<Contest> {
        let Self { pass, a, b, accumulation, .. } = *self;
        let ragged = if pass == Pass::Wgrad { Ragged::Reduction } else { Ragged::Rows };
        let exact = self.unscaled().contest(gpu)?;
        let mut aligned = None;
        let (sm90, narrow, sm100) = match (a, b) {
            (Format::Fp8 { dtype, blocks: a }, Format::Fp8 { blocks: b, .. }) => {
                let element = dtype
                    .element_type()
                    .ok_or_else(|| Error::dtype("left operand", dtype, "e4m3 or e5m2"))?;
                let scaling = Scaling { a, b, accumulation };
                let product = Fp8Gemm { ragged, a: element, scaling, aligned: false };
                let sm100 = Sm100Product::Fp8(in_tensor_memory(product));
                if (ragged, a, b) == (Ragged::Reduction, Blocks::Vector, Blocks::Vector) {
                    let role = Role::GemmFp8(Fp8Gemm { aligned: true, ..product });
                    aligned = Some((role, self.power_of_two_scales));
                }
                (Some(Role::GemmFp8(product)), None, Some(sm100))
            }
            // Without rows nothing is read, in whatever form it is.
            _ if self.rows == 0 || self.micro_form(gpu.kernels()?)? == Form::Exact => {
                (exact.sm90, exact.narrow, exact.sm100)
            }
            (Format::Nvfp4(_), _) => (None, None, Some(Sm100Product::Nvfp4(pass))),
            _ => (None, None, Some(Sm100Product::Mxfp8(pass))),
        };
        Ok(Contest { quantized: true, sm90, narrow, aligned, sm100, ..exact })
    }
}

/// Refuses a copy in MXFP8 or NVFP4 that is stored otherwise than a GPU's product takes it.
pub(crate) fn check_form(
    name: &'static str,
    format: Format,
    form: Form,
    wanted: Form,
) -> Result<()> {
    if form == wanted {
        return Ok(());
    }
    let other_way = match (form, wanted) {
        (_, Form::Exact) => {
            ", or make exact numbers of the codes with functional::restore_exact. Codes are multiplied \
             on compute capability 10.0, by codes, with features in multiples of 32"
        }
        (Form::Codes, _) => ", or order the scales with functional::swizzle",
        _ => "",
    };
    Err(Error::unsupported(format!(
        "{name}: the copy in {format} is in {form:?}, this product takes it in {wanted:?}; quantize \
         into Form::{wanted:?}{other_way}",
    )))
}
