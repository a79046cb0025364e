//! What moves tokens and weights between forms: from FP8 back, to padded groups and back.

use grouped_linear_kernels::abi::GroupTable;
use grouped_linear_kernels::abi::quantize::{COLUMN_BLOCK, ROW_BLOCK};
use grouped_linear_kernels::variants::Role;

use super::problem::check_sizes;
use super::quantize::QuantizeProblem;
use super::{GpuTarget, LaunchPlan, PlannedKernel, ScaleSource, WorkspaceMap, row};
use crate::error::{Error, Result};
use crate::tensor::{DType, Direction, QuantizedSpec, SourceShape, missing_copy};

/// One copy of a quantized tensor, back in the shape of its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DequantizeProblem {
    /// Shape and format of the quantized tensor.
    pub source: QuantizedSpec,
    /// Which copy.
    pub direction: Direction,
    /// Type of the result.
    pub output: DType,
}

impl DequantizeProblem {
    pub(super) fn check(&self) -> Result<()> {
        if !self.source.has(self.direction) {
            return Err(missing_copy("source", self.direction));
        }
        self.as_quantize().check()
    }

    /// The quantization that leads there.
    fn as_quantize(&self) -> QuantizeProblem {
        let (destination, input) = (self.source, self.output);
        QuantizeProblem { destination, input, scales: ScaleSource::Own, dbias: None }
    }

    pub(super) fn launch(&self, gpu: GpuTarget) -> Result<LaunchPlan> {
        let QuantizedSpec { groups, source, .. } = self.source;
        let tiles = self.as_quantize().tiles()?;
        let table = match source {
            SourceShape::Tokens { .. } => GroupTable::layout(groups as u32).bytes,
            SourceShape::Weights { .. } => 0,
        };
        Ok(LaunchPlan {
            kernel: walking(Role::DequantizeFp8, tiles, gpu)?,
            reduce: None,
            scales: None,
            tile: (ROW_BLOCK, COLUMN_BLOCK),
            row_align: ROW_BLOCK,
            workspace: WorkspaceMap { table: 0, amax: table, partial: table, bytes: table },
        })
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
        check_sizes(self.groups, self.padded_rows(), &[])
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
            tile: (rows as u32, i32::MAX as u32),
            row_align: self.row_align as u32,
            workspace: WorkspaceMap { table: 0, amax: table, partial: table, bytes: table },
        })
    }
}

/// More than any format needs.
const MOST_ALIGN: usize = 1 << 16;

/// A kernel whose blocks walk over tiles: as many as the device holds at once. `None` without tiles.
pub(super) fn walking(role: Role, tiles: u64, gpu: GpuTarget) -> Result<Option<PlannedKernel>> {
    let held = u64::from(row(role)?.blocks_per_multiprocessor());
    let blocks = tiles.min(held * u64::from(gpu.multiprocessors)) as u32;
    Ok((blocks > 0).then_some(PlannedKernel { role, grid: [blocks, 1] }))
}
