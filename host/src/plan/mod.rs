//! What will run, as plain data. Everything that can be refused without reading device memory is
//! refused here; carrying out a plan can fail only through the driver or through device splits.

mod choice;
mod cost;
mod execution;
mod explanation;
mod movement;
mod operands;
mod overlaps;
mod problem;
mod quantize;
mod scaled;
mod target;
mod tensor_cores;

use grouped_linear_kernels::abi::mx::Nvfp4Way;
use grouped_linear_kernels::abi::{self, DBIAS_SEGMENT_ROWS, GroupTable};
pub use grouped_linear_kernels::variants::Role as KernelRole;
use grouped_linear_kernels::variants::{Kernel, Role, Tile, kernel};

pub use self::choice::{Candidate, KernelChoice, Obstacle, Standing};
pub use self::cost::Cost;
pub use self::execution::Execution;
pub use self::explanation::{Explanation, Weighed};
pub use self::movement::{DequantizeProblem, PadProblem, Padding, SwizzleProblem};
pub use self::operands::Factor;
pub(crate) use self::operands::{
    AmaxOperands, CastOperands, DbiasOperands, DequantizeOperands, DscalesOperands, GemmOperands,
    GroupedOperand, HistoryOperands, HistoryUpdate, Operands, PadOperands, QuantizeOperands,
    ScaledGemmOperands, SwizzleOperands, UpdateScalesOperands,
};
pub(crate) use self::overlaps::{Overlaps, Unkept};
pub use self::problem::{
    BiasKind, CastProblem, DbiasProblem, DscalesProblem, GemmProblem, Pass, Problem,
};
pub(crate) use self::problem::{LARGEST_COORDINATE, check_padded_rows, check_sizes, padded_rows};
pub use self::quantize::{
    AmaxProblem, QuantizeProblem, ScaleSource, ScalesPlan, UpdateScalesProblem,
};
pub use self::scaled::ScaledGemmProblem;
pub(crate) use self::scaled::check_form;
pub use self::target::{GpuTarget, Target};
pub(crate) use self::target::{KernelTarget, capability};
pub(crate) use self::tensor_cores::micro_form;
use crate::error::{Error, Result};
use crate::tensor::DType;

/// The most groups of one operation.
pub const MAX_GROUPS: usize = abi::MAX_GROUPS as usize;

/// One operation, decided: which kernels run, on which grids, with how much scratch memory.
///
/// A plan knows no pointers, can be printed and compared, and needs no GPU: it is there to be
/// looked at. The functions in [`functional`](crate::functional) make theirs anew on every call,
/// which is plain arithmetic, and carry it out.
///
/// ```
/// use grouped_linear::plan::{BiasKind, GemmProblem, KernelChoice, Pass, Plan, Target};
/// use grouped_linear::DType;
/// let problem = GemmProblem {
///     pass: Pass::Fprop,
///     groups: 8,
///     rows: 4096,
///     in_features: 512,
///     out_features: 1024,
///     input: DType::Bf16,
///     output: DType::Bf16,
///     bias: BiasKind::None,
///     kernel: KernelChoice::Auto,
/// };
/// let plan = Plan::new(problem.into(), Target::CPU)?;
/// assert_eq!(plan, Plan::new(problem.into(), Target::CPU)?);
/// # Ok::<(), grouped_linear::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Plan {
    /// What is computed.
    pub problem: Problem,
    /// How it is launched; `None` on the CPU reference.
    pub launch: Option<LaunchPlan>,
}

/// The launches of a plan: `pointer_setup`, then (quantization) the kernels that find scales, or
/// (wgrad) the one that aligns, then the main kernel, then (dbias, magnitudes) the reduction. A
/// cast is its main kernel alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct LaunchPlan {
    /// The main kernel; `None` where there is nothing to read (T = 0), so only the splits are
    /// checked, if there are any, and what belongs to groups is written.
    pub kernel: Option<PlannedKernel>,
    /// The second kernel of a reduction: of columns (dbias), or of magnitudes.
    pub reduce: Option<PlannedKernel>,
    /// The kernels that find one scale for each group (quantization).
    pub scales: Option<ScalesPlan>,
    /// The kernel that aligns the blocks of the right operand, before the main kernel
    /// ([`KernelChoice::Aligned`]).
    pub align: Option<PlannedKernel>,
    /// Output tile that the scheduler's tile prefix counts.
    pub tile: (u32, u32),
    /// What the rows of a group are rounded up to where they are transposed or scaled.
    pub row_align: u32,
    /// Scratch memory.
    pub workspace: WorkspaceMap,
}

impl LaunchPlan {
    /// Whether the main kernel finds the magnitudes of groups itself.
    pub(crate) fn reads_once(&self) -> bool {
        self.kernel.is_some_and(|kernel| {
            matches!(
                kernel.role,
                KernelRole::QuantizeCurrentRows
                    | KernelRole::QuantizeCurrentColumns
                    | KernelRole::QuantizeNvfp4(Nvfp4Way::SquaresOnce, _)
            )
        })
    }
}

/// A kernel and its grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct PlannedKernel {
    /// What the kernel is for; names a row of the kernel table.
    pub role: KernelRole,
    /// Blocks in x and y.
    pub grid: [u32; 2],
}

/// Byte offsets in the scratch memory of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct WorkspaceMap {
    /// The group table.
    pub table: usize,
    /// Largest magnitudes of tiles, `f32[tiles]`; or, where the source is read once for a scale per
    /// group, what the blocks tell each other of tiles and groups.
    pub amax: usize,
    /// Random state of this operation.
    pub random: usize,
    /// Partial sums of dbias, `f32[segments, n]`.
    pub partial: usize,
    /// The aligned copy of the right operand.
    pub aligned: usize,
    /// Size of all.
    pub bytes: usize,
}

impl Plan {
    /// Decides how `problem` runs on `target`.
    ///
    /// # Errors
    /// Sizes out of range (1 to 4096 groups, features and rows below 2³¹), element types that no
    /// kernel takes, a device without kernels, features that are no multiples of 8 where tensor
    /// copies need it, a kernel that was asked for and is not eligible.
    pub fn new(problem: Problem, target: Target) -> Result<Self> {
        problem.check()?;
        let Some(gpu) = target.gpu else {
            problem.check_on_cpu()?;
            return Ok(Self { problem, launch: None });
        };
        gpu.kernels()?;
        let launch = match &problem {
            Problem::Gemm(gemm) => gemm_launch(gemm, gemm.choose(gpu)?, 1, gpu)?,
            Problem::ScaledGemm(scaled) => {
                let kernel = scaled.choose(gpu)?;
                let launch = gemm_launch(&scaled.unscaled(), kernel, scaled.row_align(), gpu)?;
                scaled.aligned(launch)?
            }
            Problem::Amax(amax) => amax.launch(gpu)?,
            Problem::Quantize(quantize) => quantize.launch(gpu)?,
            Problem::UpdateScales(update) => update.launch()?,
            Problem::Dequantize(dequantize) => dequantize.launch(gpu)?,
            Problem::Swizzle(swizzle) => swizzle.launch(gpu)?,
            Problem::Pad(pad) => pad.launch(gpu)?,
            Problem::Dbias(dbias) => dbias_launch(dbias)?,
            Problem::Dscales(dscales) => dscales_launch(dscales)?,
            Problem::Cast(cast) => cast_launch(cast, gpu)?,
        };
        Ok(Self { problem, launch: Some(launch) })
    }

    /// Bytes of scratch memory that its launches need.
    pub(crate) fn scratch_bytes(&self) -> usize {
        self.launch.as_ref().map_or(0, |launch| launch.workspace.bytes)
    }
}

impl PlannedKernel {
    /// The row of the kernel table.
    pub(crate) fn row(&self) -> Result<&'static Kernel> {
        kernel(self.role)
            .ok_or_else(|| Error::unsupported(format!("no kernel is compiled for {:?}", self.role)))
    }
}

fn gemm_launch(
    problem: &GemmProblem,
    kernel: &Kernel,
    row_align: u32,
    gpu: GpuTarget,
) -> Result<LaunchPlan> {
    let (role, tile) = (kernel.role, kernel.tile);
    let (m, n, _) = problem.extents();
    let tiles = tile_bound(problem, tile)?;
    check_output_rows(problem, role)?;
    let writes = m.unwrap_or(problem.rows) > 0 && n > 0;
    let grid = [persistent_blocks(kernel, tiles, gpu), 1];
    let workspace = workspace(problem.groups, 0);
    Ok(LaunchPlan {
        kernel: writes.then_some(PlannedKernel { role, grid }),
        reduce: None,
        scales: None,
        align: None,
        tile: (tile.m, tile.n),
        row_align,
        workspace,
    })
}

/// Blocks that walk over tiles, of which each cluster makes one at a time: as many clusters as
/// there are tiles, or as the multiprocessors hold.
fn persistent_blocks(kernel: &Kernel, tiles: u64, gpu: GpuTarget) -> u32 {
    let cluster = kernel.cluster.max(1);
    let held = gpu.multiprocessors / cluster * kernel.blocks_per_multiprocessor();
    // A cluster that does not fit is for the launch to refuse, not to leave out.
    tiles.min(u64::from(held.max(1))) as u32 * cluster
}

/// The most output tiles that any splits can give: each group wastes less than one tile of rows.
fn tile_bound(problem: &GemmProblem, tile: Tile) -> Result<u64> {
    let (m, n, _) = problem.extents();
    let groups = problem.groups as u64;
    let row_tiles = match m {
        Some(m) => groups * (m as u64).div_ceil(u64::from(tile.m)),
        None => (problem.rows as u64).div_ceil(u64::from(tile.m)) + groups,
    };
    let tiles = row_tiles.saturating_mul((n as u64).div_ceil(u64::from(tile.n)));
    if tiles > i32::MAX as u64 {
        return Err(Error::unsupported(format!(
            "{tiles} output tiles were asked for, a launch can count 2^31-1; split the groups"
        )));
    }
    Ok(tiles)
}

/// Refuses gradients of weights with more rows, of all groups, than a tensor copy can say: where
/// they leave as one matrix, the row of a box is that of its group plus those of the groups before.
/// Discrete ones do not, but the plan does not know how the output lies.
fn check_output_rows(problem: &GemmProblem, role: Role) -> Result<()> {
    let (Some(m), _, _) = problem.extents() else { return Ok(()) };
    // Hopper's kernels copy FP32 as a matrix for each group.
    let as_one = match role {
        Role::GemmSm90(_) | Role::GemmFp8(_) => problem.output != DType::F32,
        Role::GemmSm100(_) => true,
        _ => false,
    };
    let rows = problem.groups * m;
    if as_one && rows > LARGEST_COORDINATE {
        return Err(Error::unsupported(format!(
            "the weights of all groups have {rows} rows, tensor copies of their gradient in {} can \
             count 2^31-1; split the groups",
            problem.output
        )));
    }
    Ok(())
}

/// The most blocks of a grid in y.
const MAX_GRID_Y: usize = 65_535;

fn dbias_launch(problem: &DbiasProblem) -> Result<LaunchPlan> {
    let (partial, reduce) = (row(Role::DbiasPartial)?, row(Role::DbiasReduce)?);
    let segments = problem.rows.div_ceil(DBIAS_SEGMENT_ROWS as usize) + problem.groups;
    let n = problem.out_features as u32;
    Ok(LaunchPlan {
        kernel: Some(PlannedKernel {
            role: partial.role,
            // The kernel strides over segments beyond the largest grid.
            grid: [n.div_ceil(partial.tile.n), segments.min(MAX_GRID_Y) as u32],
        }),
        reduce: Some(PlannedKernel {
            role: reduce.role,
            grid: [n.div_ceil(reduce.tile.n), problem.groups as u32],
        }),
        scales: None,
        align: None,
        tile: (DBIAS_SEGMENT_ROWS, i32::MAX as u32),
        row_align: 1,
        workspace: workspace(problem.groups, segments * problem.out_features * 4),
    })
}

fn dscales_launch(problem: &DscalesProblem) -> Result<LaunchPlan> {
    let dscales = row(Role::Dscales)?;
    let grid = [(problem.rows as u32).div_ceil(dscales.tile.m), 1];
    Ok(LaunchPlan {
        kernel: (grid[0] > 0).then_some(PlannedKernel { role: dscales.role, grid }),
        reduce: None,
        scales: None,
        align: None,
        tile: (DBIAS_SEGMENT_ROWS, i32::MAX as u32),
        row_align: 1,
        workspace: workspace(problem.groups, 0),
    })
}

/// Blocks of a cast for each multiprocessor: as many as fit, so that enough loads are under way.
const CAST_BLOCKS: usize = 8;

fn cast_launch(problem: &CastProblem, gpu: GpuTarget) -> Result<LaunchPlan> {
    let cast = row(problem.role()?)?;
    // The kernel strides over what is left.
    let most = CAST_BLOCKS.saturating_mul(gpu.multiprocessors as usize);
    let blocks = problem.part_len.div_ceil(cast.tile.n as usize).min(most);
    let grid = [blocks as u32, problem.parts as u32];
    Ok(LaunchPlan {
        kernel: (blocks > 0).then_some(PlannedKernel { role: cast.role, grid }),
        reduce: None,
        scales: None,
        align: None,
        tile: (cast.tile.m, cast.tile.n),
        row_align: 1,
        workspace: WorkspaceMap::default(),
    })
}

fn workspace(groups: usize, partial_bytes: usize) -> WorkspaceMap {
    let partial = GroupTable::layout(groups as u32).bytes.next_multiple_of(256);
    WorkspaceMap {
        table: 0,
        amax: partial,
        random: partial,
        partial,
        aligned: partial,
        bytes: partial + partial_bytes,
    }
}

fn row(role: Role) -> Result<&'static Kernel> {
    PlannedKernel { role, grid: [0, 0] }.row()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_are_whole_and_no_more_than_multiprocessors_hold() {
        let Some(alone) = kernel(Role::GemmSimt(abi::ElementType::F32)) else {
            panic!("the table has a readable kernel")
        };
        let pair = Kernel { cluster: 2, ..*alone };
        for (kernel, tiles, multiprocessors, blocks) in [
            (alone, 1, 132, 1),
            (alone, 500, 132, 132),
            (&pair, 1, 148, 2),
            (&pair, 73, 148, 146),
            (&pair, 500, 148, 148),
            (&pair, 500, 5, 4),
            (&pair, 500, 1, 2),
            (&pair, 0, 4, 0),
        ] {
            let gpu = GpuTarget { compute_capability: (10, 0), multiprocessors };
            let found = persistent_blocks(kernel, tiles, gpu);
            assert_eq!(found, blocks, "{tiles} tiles on {multiprocessors}, {}", kernel.cluster);
        }
    }
}
