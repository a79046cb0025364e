//! Quantization to FP8: its problem and its launches.

use grouped_linear_kernels::abi::GroupTable;
use grouped_linear_kernels::abi::quantize::{COLUMN_BLOCK, ROW_BLOCK};
use grouped_linear_kernels::variants::Role;

use super::movement::walking;
use super::problem::{check_float, check_sizes};
use super::{GpuTarget, LaunchPlan, PlannedKernel, WorkspaceMap, row};
use crate::error::{Error, Result};
use crate::recipe::Blocks;
use crate::tensor::{DType, QuantizedSpec, SourceShape};

/// Where the scales of a quantized tensor come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScaleSource {
    /// The magnitudes of the tensor itself.
    Own,
    /// Earlier steps: the scale of each group is there, and the magnitudes of this tensor are noted.
    Given,
}

/// FP8 data and scales of tokens or weights, and perhaps the sums of the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QuantizeProblem {
    /// Shape, format and copies of the result.
    pub destination: QuantizedSpec,
    /// Type of the source: BF16, FP16 or FP32.
    pub input: DType,
    /// Where scales come from.
    pub scales: ScaleSource,
    /// Type of db, the sums over each group's rows, where they are wanted.
    pub dbias: Option<DType>,
}

/// The next scales of a history, one for each group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UpdateScalesProblem {
    /// Number of groups.
    pub groups: usize,
    /// Steps that are remembered.
    pub history_len: usize,
    /// The type that is scaled to: E4M3 or E5M2.
    pub format: DType,
}

impl UpdateScalesProblem {
    pub(super) fn check(&self) -> Result<()> {
        check_sizes(self.groups, 0, &[])?;
        if !self.format.is_fp8() {
            return Err(Error::dtype("delayed state", self.format, "e4m3 or e5m2"));
        }
        Ok(())
    }

    pub(super) fn launch(&self) -> Result<LaunchPlan> {
        let role = row(Role::GroupScales)?.role;
        Ok(LaunchPlan {
            kernel: Some(PlannedKernel { role, grid: [self.groups as u32, 1] }),
            reduce: None,
            scales: None,
            tile: (ROW_BLOCK, COLUMN_BLOCK),
            row_align: ROW_BLOCK,
            workspace: WorkspaceMap { table: 0, amax: 0, partial: 0, bytes: 0 },
        })
    }
}

/// Kernels that find one scale for each group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ScalesPlan {
    /// Reads the magnitudes, before the main kernel; `None` where the main kernel notes them, and
    /// the scales follow it.
    pub amax: Option<PlannedKernel>,
    /// From magnitudes to scales.
    pub groups: PlannedKernel,
}

/// What the features of FP8 tensors are multiples of: tensor copies need pitches of 16 bytes.
pub(crate) const FP8_MULTIPLE: usize = 16;

impl QuantizeProblem {
    pub(super) fn check(&self) -> Result<()> {
        let Self { destination, input, scales, dbias } = self;
        destination.check()?;
        check_float("source", *input)?;
        let (rows, features) = match destination.source {
            SourceShape::Tokens { rows, features } => (rows, [("features", features); 2]),
            SourceShape::Weights { rows, columns } => {
                (0, [("out_features", rows), ("in_features", columns)])
            }
        };
        check_sizes(destination.groups, rows, &features)?;
        for (name, value) in features {
            check_multiple(name, value)?;
        }
        let whole = destination.format.blocks == Blocks::Tensor;
        if *scales == ScaleSource::Given && !whole {
            return Err(Error::invalid(
                "delayed scales are one for each group; blocks take the scales of the tensor itself",
            ));
        }
        match (dbias, destination.source) {
            (None, _) => Ok(()),
            (Some(dtype), SourceShape::Tokens { .. }) => check_float("db", *dtype),
            (Some(_), SourceShape::Weights { .. }) => {
                Err(Error::invalid("db is summed over tokens, weights were given"))
            }
        }
    }

    /// Blocks of 128 rows, of all groups.
    pub(crate) fn row_blocks(&self) -> usize {
        let QuantizedSpec { groups, source, .. } = self.destination;
        let block = ROW_BLOCK as usize;
        match source {
            SourceShape::Tokens { .. } => self.destination.padded_rows() / block,
            SourceShape::Weights { rows, .. } => groups * rows.div_ceil(block),
        }
    }

    /// Blocks of 128 columns.
    pub(crate) fn column_blocks(&self) -> usize {
        self.destination.source.columns().div_ceil(COLUMN_BLOCK as usize)
    }

    /// Blocks of 128 × 128, of all groups.
    pub(super) fn tiles(&self) -> Result<u64> {
        let tiles = self.row_blocks() as u64 * self.column_blocks() as u64;
        if tiles > i32::MAX as u64 {
            return Err(Error::unsupported(format!(
                "{tiles} blocks of 128 x 128 were asked for, a launch can count 2^31-1; split the \
                 tensor"
            )));
        }
        Ok(tiles)
    }

    pub(super) fn launch(&self, gpu: GpuTarget) -> Result<LaunchPlan> {
        let Self { destination: QuantizedSpec { groups, source, format, .. }, scales, .. } = *self;
        let tiles = self.tiles()?;
        let kernel = walking(Role::QuantizeFp8(format.blocks), tiles, gpu)?;
        let amax = match scales {
            ScaleSource::Own => walking(Role::AmaxTiles, tiles, gpu)?,
            ScaleSource::Given => None,
        };
        let whole = format.blocks == Blocks::Tensor;
        let groups_plan =
            PlannedKernel { role: row(Role::GroupScales)?.role, grid: [groups as u32, 1] };
        let reduce = match self.dbias {
            None => None,
            Some(_) => {
                let reduce = row(Role::DbiasReduce)?;
                let columns = (source.columns() as u32).div_ceil(reduce.tile.n);
                Some(PlannedKernel { role: reduce.role, grid: [columns, groups as u32] })
            }
        };
        Ok(LaunchPlan {
            kernel,
            reduce,
            scales: whole.then_some(ScalesPlan { amax, groups: groups_plan }),
            tile: (ROW_BLOCK, COLUMN_BLOCK),
            row_align: ROW_BLOCK,
            workspace: self.workspace(tiles as usize),
        })
    }

    fn workspace(&self, tiles: usize) -> WorkspaceMap {
        let QuantizedSpec { groups, source, format, .. } = self.destination;
        let after = |bytes: usize| bytes.next_multiple_of(256);
        let amax = match source {
            SourceShape::Tokens { .. } => after(GroupTable::layout(groups as u32).bytes),
            SourceShape::Weights { .. } => 0,
        };
        let amax_bytes = if format.blocks == Blocks::Tensor { 4 * tiles } else { 0 };
        let partial = amax + after(amax_bytes);
        let sums = if self.dbias.is_some() { self.row_blocks() * source.columns() } else { 0 };
        WorkspaceMap { table: 0, amax, partial, bytes: partial + 4 * sums }
    }
}

/// Refuses features that FP8 tensors cannot have.
pub(super) fn check_multiple(name: &str, value: usize) -> Result<()> {
    if value.is_multiple_of(FP8_MULTIPLE) {
        return Ok(());
    }
    Err(Error::unsupported(format!(
        "{name} is {value}, FP8 needs a multiple of {FP8_MULTIPLE}; pad the features"
    )))
}
