//! Quantization: its problem and its launches.

use grouped_linear_kernels::abi::mx::{MxCopy, Nvfp4Args, Nvfp4Target, Nvfp4Way};
use grouped_linear_kernels::abi::quantize::{
    COLUMN_BLOCK, HISTORIES, HISTORY_GROUPS, Progress, ROW_BLOCK,
};
use grouped_linear_kernels::abi::{ElementType, GroupTable};
use grouped_linear_kernels::variants::Role;

use super::movement::{held, walking};
use super::problem::{check_float, check_sizes};
use super::{GpuTarget, LaunchPlan, PlannedKernel, WorkspaceMap, row};
use crate::error::{Error, Result};
use crate::recipe::{BlockShape, ErrorMeasure, Format, Nvfp4Format, ScaleBound, Scope, Transform};
use crate::tensor::{DType, Direction, Form, QuantizedSpec, SourceShape};

/// Where the scales of a quantized tensor come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScaleSource {
    /// The magnitudes of the tensor itself.
    Own,
    /// Earlier steps: the scale of each group is there, and the magnitudes of this tensor are
    /// noted.
    Given,
    /// A largest magnitude of each group that the caller gives.
    Amax,
}

/// Codes and scales of tokens or weights, and perhaps the sums of the columns.
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
    /// The error by which blocks of NVFP4 are mapped to 6 or to 4; `None`: to 6 always.
    pub four_over_six: Option<ErrorMeasure>,
    /// Whether elements of NVFP4 are rounded at random.
    pub stochastic: bool,
}

/// The largest magnitude of each group of tokens or weights, FP32 `[groups]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AmaxProblem {
    /// Number of groups.
    pub groups: usize,
    /// What is measured; features are a multiple of 16.
    pub source: SourceShape,
    /// Type of the source: BF16, FP16 or FP32.
    pub input: DType,
}

impl AmaxProblem {
    /// A quantization that begins so.
    pub(crate) fn as_quantize(&self) -> QuantizeProblem {
        let Self { groups, source, input } = *self;
        let (format, rowwise) = (Format::Nvfp4(Nvfp4Format::LINES), Some(Form::Codes));
        let spec = QuantizedSpec { groups, source, format, rowwise, columnwise: None };
        QuantizeProblem::new(spec, input)
    }

    pub(super) fn check(&self) -> Result<()> {
        let features = self.source.columns();
        if !features.is_multiple_of(16) {
            return Err(Error::unsupported(format!(
                "source: features is {features}, magnitudes are found of multiples of 16"
            )));
        }
        // Not what NVFP4 asks of a weight's rows: nothing is quantized.
        self.as_quantize().destination.check_sizes()?;
        check_float("source", self.input)
    }

    pub(super) fn launch(&self, gpu: GpuTarget) -> Result<LaunchPlan> {
        let launch = self.as_quantize().launch(gpu)?;
        let (kernel, reduce) = match launch.scales {
            Some(scales) => (scales.amax, Some(scales.groups)),
            None => (None, None),
        };
        Ok(LaunchPlan { kernel, reduce, scales: None, ..launch })
    }
}

/// The next scales of histories, one for each group of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UpdateScalesProblem {
    /// Number of histories, at most [`UpdateScalesProblem::MOST`].
    pub histories: usize,
    /// Number of groups of the one that has most.
    pub groups: usize,
}

impl UpdateScalesProblem {
    /// The most histories of one launch.
    pub const MOST: usize = HISTORIES;

    pub(super) fn check(&self) -> Result<()> {
        check_sizes(self.groups, 0, &[])?;
        if !(1..=Self::MOST).contains(&self.histories) {
            return Err(Error::invalid(format!(
                "{} histories were given; one launch takes 1 to {}",
                self.histories,
                Self::MOST
            )));
        }
        Ok(())
    }

    pub(super) fn launch(&self) -> Result<LaunchPlan> {
        let role = row(Role::UpdateScales)?.role;
        let grid = [(self.groups as u32).div_ceil(HISTORY_GROUPS), self.histories as u32];
        Ok(LaunchPlan {
            kernel: Some(PlannedKernel { role, grid }),
            reduce: None,
            scales: None,
            align: None,
            tile: (ROW_BLOCK, COLUMN_BLOCK),
            row_align: ROW_BLOCK,
            workspace: WorkspaceMap::default(),
        })
    }
}

/// Kernels that find one scale for each group, or each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ScalesPlan {
    /// Reads the magnitudes of tiles, before the main kernel; `None` where the main kernel finds
    /// them, where they are given, or where the scales are those of rows.
    pub amax: Option<PlannedKernel>,
    /// From magnitudes to scales; or, where the main kernel makes the scales, what prepares that.
    pub groups: PlannedKernel,
}

impl QuantizeProblem {
    /// The source's own magnitudes, rounding to nearest, nothing else.
    pub const fn new(destination: QuantizedSpec, input: DType) -> Self {
        Self {
            destination,
            input,
            scales: ScaleSource::Own,
            dbias: None,
            four_over_six: None,
            stochastic: false,
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        let Self { destination, input, scales, dbias, .. } = self;
        destination.check()?;
        check_float("source", *input)?;
        if *scales == ScaleSource::Given && !destination.format.is_whole() {
            return Err(Error::invalid(
                "delayed scales are one for each group; blocks take the scales of the tensor itself",
            ));
        }
        if *scales == ScaleSource::Amax && !self.takes_amax() {
            return Err(Error::unsupported(format!(
                "amax: magnitudes of groups were given, and the scales of {} follow from others; \
                 FP8 with one scale per group takes them, and NVFP4 unless its rows are scaled or \
                 its columns transformed",
                destination.format
            )));
        }
        self.check_choices()?;
        match (dbias, destination.source) {
            (None, _) => Ok(()),
            (Some(dtype), SourceShape::Tokens { .. }) => check_float("db", *dtype),
            (Some(_), SourceShape::Weights { .. }) => {
                Err(Error::invalid("db is summed over tokens, weights were given"))
            }
        }
    }

    /// Whether all scales follow from one magnitude of the source for each group.
    fn takes_amax(&self) -> bool {
        match self.destination.format {
            Format::Fp8 { .. } => self.destination.format.is_whole(),
            Format::Mxfp8 { .. } => false,
            Format::Nvfp4(format) => {
                format.scope == Scope::Group && self.measured() == [true, false]
            }
        }
    }

    /// What only NVFP4 can choose, and what excludes what.
    fn check_choices(&self) -> Result<()> {
        let Self { destination, four_over_six, stochastic, .. } = *self;
        let Format::Nvfp4(format) = destination.format else {
            if four_over_six.is_some() || stochastic {
                return Err(Error::unsupported(format!(
                    "{} was asked for with four over six or rounding at random, which NVFP4 has",
                    destination.format
                )));
            }
            return Ok(());
        };
        let plain = format.transform == Transform::None && !stochastic;
        if four_over_six.is_some() && !plain {
            return Err(Error::unsupported(
                "NVFP4: four over six needs rounding to nearest and no transform",
            ));
        }
        if four_over_six.is_none() && format.bound == ScaleBound::Reduced {
            return Err(Error::unsupported(
                "NVFP4: a bound of 256 leaves room for four over six, which was not asked for",
            ));
        }
        let lines_of_groups = format.blocks == BlockShape::Line && format.scope == Scope::Group;
        if stochastic && !lines_of_groups {
            return Err(Error::unsupported(
                "NVFP4: rounding at random needs blocks that are lines, and scales of groups",
            ));
        }
        Ok(())
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

    /// Blocks of 128 × 128 of each group of weights; 0 of tokens, whose group table has them.
    pub(crate) fn tiles_of_weights(&self) -> u32 {
        match self.destination.source {
            SourceShape::Tokens { .. } => 0,
            SourceShape::Weights { .. } => {
                (self.row_blocks() / self.destination.groups * self.column_blocks()) as u32
            }
        }
    }

    /// Blocks of 128 × 128, of all groups.
    pub(super) fn tiles(&self) -> Result<u64> {
        countable(self.row_blocks() as u64 * self.column_blocks() as u64)
    }

    pub(super) fn launch(&self, gpu: GpuTarget) -> Result<LaunchPlan> {
        let tiles = self.tiles()?;
        let once = self.role_of_one_read(gpu)?;
        let kernel = walking(once.map_or_else(|| self.role(), Ok)?, tiles, gpu)?;
        let reduce = match self.dbias {
            None => None,
            Some(_) => {
                let reduce = row(Role::DbiasReduce)?;
                let columns = (self.destination.source.columns() as u32).div_ceil(reduce.tile.n);
                let grid = [columns, self.destination.groups as u32];
                Some(PlannedKernel { role: reduce.role, grid })
            }
        };
        Ok(LaunchPlan {
            kernel,
            reduce,
            scales: self.scales_plan(tiles, once.is_some(), gpu)?,
            align: None,
            tile: (ROW_BLOCK, COLUMN_BLOCK),
            row_align: ROW_BLOCK,
            workspace: self.workspace(tiles as usize, once.is_some()),
        })
    }

    /// The kernel, where none measures groups and quantizes them ([`Self::role_of_one_read`]).
    fn role(&self) -> Result<Role> {
        let element = self.element()?;
        Ok(match self.destination.format {
            Format::Fp8 { blocks, .. } if self.is_of_rows() => Role::QuantizeFp8Rows(blocks),
            Format::Fp8 { blocks, .. } if self.input != DType::F32 => {
                Role::QuantizeFp8Columns(blocks)
            }
            Format::Fp8 { blocks, .. } => Role::QuantizeFp8(blocks),
            Format::Mxfp8 { .. } => Role::QuantizeMxfp8(element),
            Format::Nvfp4(format) => {
                // The kernel of the first copy. One of lines in another form has a launch of its
                // own, with as many blocks. A number stands for the address that there will be.
                let first = self.destination.directions().next();
                let rowwise = match first.and_then(|direction| self.destination.form(direction)) {
                    Some(Form::Exact) => MxCopy { exact: 1, ..MxCopy::default() },
                    _ => MxCopy { data: 1, ..MxCopy::default() },
                };
                let args = Nvfp4Args {
                    rowwise,
                    square: u32::from(format.blocks == BlockShape::Square),
                    row_scaled: u32::from(format.scope == Scope::Row),
                    target: self.nvfp4_target() as u32,
                    ..Nvfp4Args::default()
                };
                Role::QuantizeNvfp4(args.way(element), element)
            }
        })
    }

    /// Whether all that is wanted is a rowwise copy of 16-bit elements.
    fn is_of_rows(&self) -> bool {
        let Self { destination, input, dbias, .. } = *self;
        !destination.has(Direction::Columnwise) && dbias.is_none() && input != DType::F32
    }

    /// The kernel that finds the magnitudes of groups and quantizes by them, so that the source is
    /// read once: where there is one, and a group has no more tiles on average than its blocks run
    /// at once. All blocks wait for the last tile of a larger group, which costs more than a second
    /// read (docs/performance.md).
    fn role_of_one_read(&self, gpu: GpuTarget) -> Result<Option<Role>> {
        let Self { destination, input, scales, four_over_six, .. } = *self;
        if scales != ScaleSource::Own {
            return Ok(None);
        }
        let role = match destination.format {
            Format::Fp8 { .. } if destination.format.is_whole() && input != DType::F32 => {
                if self.is_of_rows() {
                    Role::QuantizeCurrentRows
                } else {
                    Role::QuantizeCurrentColumns
                }
            }
            // Weights as layers on Hopper have them.
            Format::Nvfp4(Nvfp4Format {
                blocks: BlockShape::Square, scope: Scope::Group, ..
            }) if matches!(destination.source, SourceShape::Weights { .. })
                && destination
                    .directions()
                    .all(|own| destination.form(own) == Some(Form::Exact))
                && input == DType::Bf16
                && four_over_six.is_none() =>
            {
                Role::QuantizeNvfp4(Nvfp4Way::SquaresOnce, self.element()?)
            }
            _ => return Ok(None),
        };
        // Not counting what the padding of tokens may add.
        let row_blocks = match destination.source {
            SourceShape::Tokens { rows, .. } => rows.div_ceil(ROW_BLOCK as usize),
            SourceShape::Weights { .. } => self.row_blocks(),
        };
        let tiles = (row_blocks * self.column_blocks()) as u64;
        let is_small = tiles <= held(row(role)?, gpu) * destination.groups as u64;
        Ok(is_small.then_some(role))
    }

    /// How the kernels call the choice between 6 and 4.
    pub(crate) fn nvfp4_target(&self) -> Nvfp4Target {
        match self.four_over_six {
            None => Nvfp4Target::Six,
            Some(ErrorMeasure::Absolute) => Nvfp4Target::FourOverSixAbsolute,
            Some(ErrorMeasure::Squared) => Nvfp4Target::FourOverSixSquared,
        }
    }

    pub(crate) fn element(&self) -> Result<ElementType> {
        self.input
            .element_type()
            .ok_or_else(|| Error::dtype("source", self.input, "bf16, f16 or f32"))
    }

    /// The kernels before (or, with given scales, after) the main one.
    fn scales_plan(&self, tiles: u64, once: bool, gpu: GpuTarget) -> Result<Option<ScalesPlan>> {
        let QuantizedSpec { groups, source, format, .. } = self.destination;
        let of_groups = |role| -> Result<PlannedKernel> {
            Ok(PlannedKernel { role: row(role)?.role, grid: [groups as u32, 1] })
        };
        Ok(match (format, self.scales) {
            (_, ScaleSource::Own) if once => {
                Some(ScalesPlan { amax: None, groups: of_groups(Role::GroupScales)? })
            }
            (Format::Nvfp4(Nvfp4Format { scope: Scope::Group, .. }), own) => Some(ScalesPlan {
                amax: match own {
                    ScaleSource::Amax => None,
                    _ => walking(Role::Nvfp4TileAmax(self.element()?), tiles, gpu)?,
                },
                groups: of_groups(Role::Nvfp4GroupAmax)?,
            }),
            (Format::Nvfp4(Nvfp4Format { scope: Scope::Row, .. }), _) => {
                let role = Role::Nvfp4RowAmax;
                let warps = source.rows().div_ceil(row(role)?.tile.m as usize) as u64;
                let groups = walking(role, warps, gpu)?;
                groups.map(|groups| ScalesPlan { amax: None, groups })
            }
            (_, _) if !format.is_whole() => None,
            (_, ScaleSource::Own) => Some(ScalesPlan {
                amax: walking(Role::AmaxTiles, tiles, gpu)?,
                groups: of_groups(Role::GroupScales)?,
            }),
            (_, ScaleSource::Given | ScaleSource::Amax) => {
                Some(ScalesPlan { amax: None, groups: of_groups(Role::GroupScales)? })
            }
        })
    }

    /// Whether magnitudes of the source as it is are wanted, and of the transformed source (NVFP4).
    pub(crate) fn measured(&self) -> [bool; 2] {
        let Format::Nvfp4(format) = self.destination.format else { return [false; 2] };
        let transformed =
            format.transform == Transform::Hadamard && self.destination.has(Direction::Columnwise);
        [self.destination.has(Direction::Rowwise) || !transformed, transformed]
    }

    fn workspace(&self, tiles: usize, once: bool) -> WorkspaceMap {
        let QuantizedSpec { groups, source, format, .. } = self.destination;
        let after = |bytes: usize| bytes.next_multiple_of(256);
        let amax = match source {
            SourceShape::Tokens { .. } => after(GroupTable::layout(groups as u32).bytes),
            SourceShape::Weights { .. } => 0,
        };
        let forms = match format {
            _ if once => 1,
            _ if self.scales == ScaleSource::Amax => 0,
            Format::Fp8 { .. } => usize::from(format.is_whole()),
            Format::Mxfp8 { .. } => 0,
            // The source as it is, and transformed.
            Format::Nvfp4(_) => 1 + usize::from(self.measured()[1]),
        };
        let bytes = if once { Progress::layout(groups, tiles).bytes } else { 4 * tiles };
        let random = amax + after(bytes) * forms;
        let partial = random + if self.stochastic { after(16) } else { 0 };
        let sums = if self.dbias.is_some() { self.row_blocks() * source.columns() } else { 0 };
        let bytes = partial + 4 * sums;
        WorkspaceMap { table: 0, amax, random, partial, aligned: partial, bytes }
    }

    /// Bytes of the magnitudes of one form of the source.
    pub(crate) fn amax_bytes(&self) -> Result<u64> {
        Ok((4 * self.tiles()?).next_multiple_of(256))
    }
}

/// As many blocks, if a launch can count them.
fn countable(blocks: u64) -> Result<u64> {
    if blocks > i32::MAX as u64 {
        return Err(Error::unsupported(format!(
            "{blocks} blocks of 128 x 128 were asked for, a launch can count 2^31-1; split the tensor"
        )));
    }
    Ok(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::Blocks;

    const GPU: GpuTarget = GpuTarget { compute_capability: (9, 0), multiprocessors: 132 };

    /// Nothing reads the source beforehand, and there is no room for what it would find.
    #[test]
    fn magnitudes_that_are_given_spare_a_read() -> Result<()> {
        let tensor = Format::fp8(DType::E4m3, Blocks::Tensor);
        let lines = Format::Nvfp4(Nvfp4Format::LINES);
        for (format, finds) in [(tensor, Role::GroupScales), (lines, Role::Nvfp4GroupAmax)] {
            for rows in [128, 128 * 17] {
                let source = SourceShape::Weights { rows, columns: 2048 };
                let (rowwise, columnwise) = (Some(Form::Codes), None);
                let spec = QuantizedSpec { groups: 1, source, format, rowwise, columnwise };
                let own = QuantizeProblem::new(spec, DType::Bf16);
                let given = QuantizeProblem { scales: ScaleSource::Amax, ..own };
                given.check()?;
                let launch = given.launch(GPU)?;
                let scales = launch.scales.map(|scales| (scales.amax, scales.groups.role));
                assert_eq!(scales, Some((None, finds)), "{format}, {rows} rows");
                assert!(!launch.reads_once() && launch.kernel.is_some(), "{format}, {rows} rows");
                assert_eq!(launch.workspace.bytes, 0, "{format}, {rows} rows");
            }
        }
        let source = SourceShape::Weights { rows: 128 * 17, columns: 2048 };
        let found = AmaxProblem { groups: 3, source, input: DType::F16 };
        found.check()?;
        let launch = found.launch(GPU)?;
        let roles = [launch.kernel, launch.reduce].map(|kernel| kernel.map(|kernel| kernel.role));
        let tiles = Role::Nvfp4TileAmax(ElementType::F16);
        assert_eq!(roles, [Some(tiles), Some(Role::Nvfp4GroupAmax)]);
        assert_eq!(launch.workspace.bytes, (4 * 3 * 17 * 16usize).next_multiple_of(256));
        Ok(())
    }

    /// 264 blocks run at once: weights of so many tiles are read once, larger ones twice.
    #[test]
    fn small_groups_are_read_once() -> Result<()> {
        let squares = Nvfp4Format { blocks: BlockShape::Square, ..Nvfp4Format::LINES };
        let (squares, lines) = (Format::Nvfp4(squares), Format::Nvfp4(Nvfp4Format::LINES));
        let tensor = Format::fp8(DType::E4m3, Blocks::Tensor);
        let (exact, codes) = (Form::Exact, Form::Codes);
        let square = |way| Role::QuantizeNvfp4(way, ElementType::Bf16);
        let once = square(Nvfp4Way::SquaresOnce);
        for (format, form, [groups, rows], change, role) in [
            (squares, exact, [128, 1536], None, once),
            (squares, exact, [1, 128 * 16], None, once),
            (squares, exact, [1, 128 * 17], None, square(Nvfp4Way::Squares)),
            (squares, codes, [128, 1536], None, square(Nvfp4Way::Squares)),
            (squares, exact, [128, 1536], Some(ErrorMeasure::Squared), square(Nvfp4Way::Squares)),
            (lines, exact, [128, 1536], None, square(Nvfp4Way::ExactLines)),
            (tensor, codes, [128, 1536], None, Role::QuantizeCurrentColumns),
            (tensor, codes, [1, 128 * 17], None, Role::QuantizeFp8Columns(Blocks::Tensor)),
        ] {
            let source = SourceShape::Weights { rows, columns: 2048 };
            let (rowwise, columnwise) = (Some(form), Some(form));
            let spec = QuantizedSpec { groups, source, format, rowwise, columnwise };
            let problem = QuantizeProblem {
                four_over_six: change,
                ..QuantizeProblem::new(spec, DType::Bf16)
            };
            problem.check()?;
            let launch = problem.launch(GPU)?;
            let what = format!("{format} {form:?}, {groups} of {rows} rows, {change:?}");
            assert_eq!(launch.kernel.map(|kernel| kernel.role), Some(role), "{what}");
            // What is read once is measured by the kernel itself.
            let measures = launch.scales.is_some_and(|scales| scales.amax.is_some());
            assert_eq!(measures, !launch.reads_once(), "{what}");
            if launch.reads_once() {
                let tiles = groups * rows.div_ceil(128) * 16;
                let blocks = tiles.min(264) as u32;
                assert_eq!(launch.kernel.map(|kernel| kernel.grid), Some([blocks, 1]), "{what}");
                let progress = Progress::layout(groups, tiles).bytes.next_multiple_of(256);
                assert_eq!(launch.workspace.bytes, progress, "{what}");
            }
        }
        Ok(())
    }
}
