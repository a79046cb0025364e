//! What moves tokens and weights between forms: from codes back, scales to another order, to padded
//! groups and back.

use grouped_linear_kernels::abi::GroupTable;
use grouped_linear_kernels::abi::quantize::{COLUMN_BLOCK, ROW_BLOCK};
use grouped_linear_kernels::variants::{Kernel, Role};

use super::problem::{check_padded_rows, check_sizes};
use super::quantize::QuantizeProblem;
use super::{GpuTarget, LaunchPlan, PlannedKernel, WorkspaceMap, row};
use crate::error::{Error, Result};
use crate::recipe::{Format, Nvfp4Format, ScaleBound, Transform};
use crate::tensor::{DType, Direction, Form, QuantizedSpec, SourceShape, TensorSpec, missing_copy};

/// One copy of a quantized tensor, back in the shape of its source, or as exact numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DequantizeProblem {
    /// Shape and format of the quantized tensor.
    pub source: QuantizedSpec,
    /// Which copy.
    pub direction: Direction,
    /// Type of the result.
    pub output: DType,
    /// Whether the result is the data of [`Form::Exact`]: BF16, without the scales of groups or
    /// rows.
    pub exact: bool,
}

impl DequantizeProblem {
    pub(super) fn check(&self) -> Result<()> {
        let Self { source, direction, output, exact } = *self;
        let Some(form) = source.form(direction) else {
            return Err(missing_copy("source", direction));
        };
        if form == Form::Exact && exact {
            return Err(Error::unsupported(
                "source: the copy holds exact numbers already; ask for codes, or read its data",
            ));
        }
        if exact && !source.format.is_micro() {
            return Err(Error::unsupported(format!(
                "source: {} has no exact numbers in BF16",
                source.format
            )));
        }
        if exact && output != DType::Bf16 {
            return Err(Error::dtype("destination", output, "bf16"));
        }
        if let Format::Nvfp4(Nvfp4Format { transform: Transform::Hadamard, .. }) = source.format
            && direction == Direction::Columnwise
            && !exact
        {
            return Err(Error::unsupported(
                "source: the columnwise copy was transformed, its rows are mixed; restore the rowwise \
                 one",
            ));
        }
        self.as_quantize().check()
    }

    /// A quantization that leads there, as far as shapes go.
    fn as_quantize(&self) -> QuantizeProblem {
        let mut destination = self.source;
        if let Format::Nvfp4(nvfp4) = &mut destination.format {
            nvfp4.bound = ScaleBound::Full;
        }
        QuantizeProblem::new(destination, self.output)
    }

    /// Shape and type of the result.
    pub(super) fn output(&self) -> TensorSpec {
        let form = if self.exact { Form::Exact } else { Form::Codes };
        let spec = QuantizedSpec { rowwise: Some(form), columnwise: Some(form), ..self.source };
        match self.exact {
            true => spec.copy(self.direction).data,
            false => TensorSpec { shape: spec.source.shape(spec.groups), dtype: self.output },
        }
    }

    pub(super) fn launch(&self, gpu: GpuTarget) -> Result<LaunchPlan> {
        let role = match self.source.format {
            Format::Fp8 { .. } => Role::DequantizeFp8,
            Format::Mxfp8 { .. } => Role::DequantizeMxfp8,
            Format::Nvfp4(_) => Role::DequantizeNvfp4,
        };
        tiled(role, &self.as_quantize(), gpu)
    }
}

/// One kernel that walks over the blocks of a tensor.
fn tiled(role: Role, problem: &QuantizeProblem, gpu: GpuTarget) -> Result<LaunchPlan> {
    let QuantizedSpec { groups, source, .. } = problem.destination;
    let table = match source {
        SourceShape::Tokens { .. } => GroupTable::layout(groups as u32).bytes,
        SourceShape::Weights { .. } => 0,
    };
    Ok(LaunchPlan {
        kernel: walking(role, problem.tiles()?, gpu)?,
        reduce: None,
        scales: None,
        align: None,
        tile: (ROW_BLOCK, COLUMN_BLOCK),
        row_align: ROW_BLOCK,
        workspace: WorkspaceMap { bytes: table, ..WorkspaceMap::default() },
    })
}

/// The block scales of one copy (MXFP8, NVFP4) into swizzled order, or back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SwizzleProblem {
    /// Shape and format of the quantized tensor; the copy is in codes, swizzled or not.
    pub source: QuantizedSpec,
    /// Which copy.
    pub direction: Direction,
}

impl SwizzleProblem {
    /// Whether the result is swizzled.
    pub(crate) fn swizzles(&self) -> bool {
        self.source.form(self.direction) == Some(Form::Codes)
    }

    /// Shape and type of the scales.
    pub(super) fn output(&self) -> TensorSpec {
        self.source.copy(self.direction).scale_inv
    }

    pub(super) fn check(&self) -> Result<()> {
        let Self { source, direction } = *self;
        match source.form(direction) {
            None => Err(missing_copy("source", direction)),
            Some(Form::Exact) => Err(Error::unsupported(
                "source: the copy holds exact numbers, which have no block scales",
            )),
            _ if !source.format.is_micro() => Err(Error::unsupported(format!(
                "source: the scales of {} have one order",
                source.format
            ))),
            _ => self.as_quantize().check(),
        }
    }

    fn as_quantize(&self) -> QuantizeProblem {
        let (source, direction, exact) = (self.source, self.direction, false);
        DequantizeProblem { source, direction, output: DType::Bf16, exact }.as_quantize()
    }

    pub(super) fn launch(&self, gpu: GpuTarget) -> Result<LaunchPlan> {
        tiled(Role::SwizzleScales, &self.as_quantize(), gpu)
    }
}

/// Which way rows are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Padding {
    /// To groups that begin at multiples of some number of rows.
    Pad,
    /// Back.
    Unpad,
}

/// Tokens with every group padded, or without again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PadProblem {
    /// Which way.
    pub way: Padding,
    /// Number of groups.
    pub groups: usize,
    /// Rows of the tokens, without padding.
    pub rows: usize,
    /// Features of a row.
    pub columns: usize,
    /// Type of the elements.
    pub dtype: DType,
    /// What the rows of a group are rounded up to a multiple of.
    pub row_align: usize,
}

impl PadProblem {
    /// Rows that the padded form can have.
    pub fn padded_rows(&self) -> usize {
        let Self { groups, rows, row_align, .. } = *self;
        let align = row_align.max(1);
        rows.saturating_add(groups.min(rows).saturating_mul(align - 1)) / align * align
    }

    /// Rows of what is written.
    pub(super) fn output_rows(&self) -> usize {
        match self.way {
            Padding::Pad => self.padded_rows(),
            Padding::Unpad => self.rows,
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        check_sizes(self.groups, self.rows, &[("columns", self.columns)])?;
        if self.row_align == 0 || self.row_align > MOST_ALIGN {
            return Err(Error::invalid(format!(
                "groups were to be padded to {} rows, 1 to {MOST_ALIGN} are possible",
                self.row_align
            )));
        }
        check_padded_rows(self.padded_rows())
    }

    pub(super) fn launch(&self, gpu: GpuTarget) -> Result<LaunchPlan> {
        let role = match self.way {
            Padding::Pad => Role::PadRows,
            Padding::Unpad => Role::UnpadRows,
        };
        let rows = row(role)?.tile.m as usize;
        let table = GroupTable::layout(self.groups as u32).bytes;
        Ok(LaunchPlan {
            kernel: walking(role, self.output_rows().div_ceil(rows) as u64, gpu)?,
            reduce: None,
            scales: None,
            align: None,
            tile: (rows as u32, i32::MAX as u32),
            row_align: self.row_align as u32,
            workspace: WorkspaceMap { bytes: table, ..WorkspaceMap::default() },
        })
    }
}

/// More than any format needs.
const MOST_ALIGN: usize = 1 << 16;

/// How many blocks of a kernel the GPU holds at once.
pub(super) fn held(kernel: &Kernel, gpu: GpuTarget) -> u64 {
    u64::from(kernel.blocks_per_multiprocessor()) * u64::from(gpu.multiprocessors)
}

/// A kernel of tiles: as many blocks as the device holds at once, if they walk, or as there are
/// tiles. `None` without tiles.
pub(super) fn walking(role: Role, tiles: u64, gpu: GpuTarget) -> Result<Option<PlannedKernel>> {
    let kernel = row(role)?;
    let blocks = if kernel.is_persistent() { tiles.min(held(kernel, gpu)) } else { tiles } as u32;
    Ok((blocks > 0).then_some(PlannedKernel { role, grid: [blocks, 1] }))
}

#[cfg(test)]
mod tests {
    use grouped_linear_kernels::variants::KERNELS;

    use super::*;

    #[test]
    fn blocks_of_a_gpu_of_any_size_are_counted() {
        let gpu = GpuTarget { compute_capability: (9, 0), multiprocessors: u32::MAX };
        let most = KERNELS.iter().max_by_key(|kernel| kernel.blocks_per_multiprocessor());
        let most = most.expect("there are kernels");
        assert!(most.blocks_per_multiprocessor() > 1, "no product would be beyond 32 bits");
        let blocks = u64::from(most.blocks_per_multiprocessor());
        assert_eq!(held(most, gpu), blocks * u64::from(u32::MAX));
    }
}
