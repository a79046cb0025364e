//! The grouped product: tensor maps and arguments of the kernel that the plan chose.

mod boxes;
pub(crate) mod scaled;

use bytemuck::bytes_of;
use grouped_linear_kernels::abi::{ElementType, GemmArgs, Ragged, SM90_LENT_BOX_ROWS, TensorMap};

use self::boxes::{Lines, Side, box_lines, fp8, micro, output_rows, sixteen, source_lines};
use crate::backend::{Launcher, MapDescriptor};
use crate::error::{Error, Result};
use crate::launch::{Launches, mismatch};
use crate::plan::{
    GemmOperands, GemmProblem, GroupedOperand, KernelTarget, LaunchPlan, Pass, Plan, Problem,
};
use crate::tensor::{AddressTable, DType, GroupedTensor, Parts, PassMaps, Tensor};

/// Elements of the innermost box dimension: 128 bytes of a 16-bit type, the span of the swizzle.
const SWIZZLE_ELEMENTS: u32 = 64;

/// In place of a map that no kernel reads.
const NO_MAP: TensorMap = TensorMap([0; 16]);

/// Adds the plan's kernel on the group table at `table`.
pub(crate) fn prepare(
    launcher: &dyn Launcher,
    plan: &Plan,
    launch: &LaunchPlan,
    operands: &GemmOperands<'_>,
    table: u64,
    launches: &mut Launches,
) -> Result<()> {
    let Problem::Gemm(problem) = &plan.problem else {
        return Err(mismatch());
    };
    let Some(kernel) = &launch.kernel else {
        return Ok(());
    };
    let mut has_feature_blocks = false;
    let ((a_map, b_map, b_maps), output) = match sixteen(kernel.role) {
        Some((target, _)) => {
            check_alignment(&operands.d, operands.bias)?;
            has_feature_blocks = feature_blocks(target, problem);
            let maps = tensor_maps(launcher, target, problem, operands)?;
            (maps, OutputMap::new(launcher, target, problem, &operands.d, operands.bias)?)
        }
        None => ((NO_MAP, NO_MAP, 0), OutputMap::NONE),
    };
    let strides = Strides::of(problem);
    let args = GemmArgs {
        a_map,
        b_map,
        has_feature_blocks: u32::from(has_feature_blocks),
        b_maps,
        a_row_stride: strides.a_row,
        a_reduction_stride: strides.a_reduction,
        b_column_stride: strides.b_column,
        b_reduction_stride: strides.b_reduction,
        ..output.args(plain_args(problem, operands.bias, operands.bias_row_scales, table))
    };
    launches.push(kernel.row()?, kernel.grid, bytes_of(&args))
}

/// What does not depend on the operands of the product.
fn plain_args(
    problem: &GemmProblem,
    bias: Option<&GroupedTensor>,
    bias_row_scales: Option<&Tensor>,
    table: u64,
) -> GemmArgs {
    let (m, n, k) = problem.extents();
    let (address, bias_array) = bias.map_or((0, 0), GroupedTensor::addresses);
    GemmArgs {
        a_map: NO_MAP,
        b_map: NO_MAP,
        d_map: NO_MAP,
        b_maps: 0,
        table,
        bias: address,
        bias_array,
        bias_row_scales: bias_row_scales.and_then(Tensor::address).unwrap_or(0),
        a_row_stride: 0,
        a_reduction_stride: 0,
        b_column_stride: 0,
        b_reduction_stride: 0,
        groups: problem.groups as u32,
        ragged: if m.is_none() { Ragged::Rows } else { Ragged::Reduction } as u32,
        m: m.unwrap_or(0) as u32,
        n: n as u32,
        k: k.unwrap_or(0) as u32,
        d_type: element(problem.output),
        bias_type: bias.map_or(0, |bias| element(bias.dtype())),
        row_scale_factor: 1.0,
        row_scales: 0,
        has_d_map: 0,
        has_feature_blocks: 0,
        lends_stages: 0,
        reserved: 0,
    }
}

/// Elements from one index to the next, for the kernel that reads plain memory.
struct Strides {
    a_row: u64,
    a_reduction: u64,
    b_column: u64,
    b_reduction: u64,
}

impl Strides {
    fn of(problem: &GemmProblem) -> Self {
        let (k, n) = (problem.in_features as u64, problem.out_features as u64);
        match problem.pass {
            // X is [rows, K], W is [N, K].
            Pass::Fprop => Self { a_row: k, a_reduction: 1, b_column: k, b_reduction: 1 },
            // dY is [rows, N], W is [N, K].
            Pass::Dgrad => Self { a_row: n, a_reduction: 1, b_column: 1, b_reduction: k },
            // dY is [rows, N], X is [rows, K].
            Pass::Wgrad => Self { a_row: 1, a_reduction: n, b_column: 1, b_reduction: k },
        }
    }
}

/// Refuses outputs that start where the plan's kernel cannot write.
pub(crate) fn check_outputs(plan: &Plan, outputs: &[Tensor]) -> Result<()> {
    let kernel = plan.launch.and_then(|launch| launch.kernel);
    match kernel.map(|kernel| kernel.role) {
        Some(role) if sixteen(role).is_some() || fp8(role).is_some() || micro(role).is_some() => {
            check_output_alignment(outputs.iter())
        }
        _ => Ok(()),
    }
}

fn aligned(tensor: &Tensor, bytes: u64) -> bool {
    tensor.address().unwrap_or(0).is_multiple_of(bytes)
}

/// The tensor-core kernels store 16 bytes at once.
fn check_output_alignment<'a>(mut outputs: impl Iterator<Item = &'a Tensor>) -> Result<()> {
    if outputs.all(|output| aligned(output, 16)) {
        return Ok(());
    }
    Err(Error::invalid(
        "the output must start at a multiple of 16 bytes; a view that does not can be written with \
         KernelChoice::Simt, or without a recipe",
    ))
}

/// Inputs are checked where their tensor maps are encoded.
fn check_alignment(d: &GroupedOperand<'_>, bias: Option<&GroupedTensor>) -> Result<()> {
    check_output_alignment(d.tensors().iter())?;
    bias.map_or(Ok(()), check_bias_alignment)
}

/// Those operands of a product that exist already.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Placed<'a> {
    /// X, or dY.
    pub(crate) tokens: Option<&'a Tensor>,
    /// Weights.
    pub(crate) weights: Option<&'a GroupedTensor>,
    /// Bias.
    pub(crate) bias: Option<&'a GroupedTensor>,
    /// Y.
    pub(crate) output: Option<&'a Tensor>,
}

/// Refuses operands that start where the plan's kernel can neither read nor write, as its launch
/// would.
pub(crate) fn check_placed(plan: &Plan, placed: &Placed<'_>) -> Result<()> {
    let kernel = plan.launch.and_then(|launch| launch.kernel);
    let Some((target, pass)) = kernel.and_then(|kernel| sixteen(kernel.role)) else {
        return Ok(());
    };
    check_output_alignment(placed.output.into_iter())?;
    placed.bias.map_or(Ok(()), check_bias_alignment)?;
    if let Some(tokens) = placed.tokens {
        token_map(tokens, 1).check_address()?;
    }
    match placed.weights.map(GroupedTensor::parts) {
        Some(Parts::Packed(weights)) => {
            let [groups, n, k] = *weights.shape() else { return Err(mismatch()) };
            let address = weights.address().unwrap_or(0);
            weight_map(target, pass, address, weights.dtype(), [groups, n, k]).check_address()
        }
        Some(Parts::Discrete(_, table)) => maps_of(table.as_deref()).map(drop),
        None => Ok(()),
    }
}

/// The tensor-core kernels read biases in pairs.
fn check_bias_alignment(bias: &GroupedTensor) -> Result<()> {
    let pair = |tensor: &Tensor| aligned(tensor, 2 * tensor.dtype().bytes() as u64);
    if bias.tensors().iter().all(pair) {
        return Ok(());
    }
    Err(Error::invalid(
        "the bias must start at a multiple of two elements; copy it, or use KernelChoice::Simt \
         without a recipe",
    ))
}

/// The tensor maps of discrete weights.
fn maps_of(table: Option<&AddressTable>) -> Result<&PassMaps> {
    table.and_then(|table| table.maps.as_ref()).ok_or_else(|| {
        Error::invalid(
            "discrete weights must each start at a multiple of 16 bytes; copy them, or use \
             KernelChoice::Simt",
        )
    })
}

fn tensor_maps(
    launcher: &dyn Launcher,
    target: KernelTarget,
    problem: &GemmProblem,
    operands: &GemmOperands<'_>,
) -> Result<(TensorMap, TensorMap, u64)> {
    if let GroupedOperand::Rows(x) = &operands.b {
        let [dy, x] = wgrad_maps(target, problem, operands.a, x);
        return Ok((launcher.encode(&dy)?, launcher.encode(&x)?, 0));
    }
    let [a_box, _] = sixteen_boxes(target, problem.pass);
    let a_map = launcher.encode(&token_map(operands.a, a_box))?;
    match &operands.b {
        GroupedOperand::Rows(_) => Err(mismatch()),
        GroupedOperand::Groups(weights) => match weights.parts() {
            Parts::Packed(tensor) => {
                let address = tensor.address().unwrap_or(0);
                let shape = [problem.groups, problem.out_features, problem.in_features];
                let map = weight_map(target, problem.pass, address, tensor.dtype(), shape);
                Ok((a_map, launcher.encode(&map)?, 0))
            }
            Parts::Discrete(_, table) => {
                let maps = maps_of(table.as_deref())?;
                let memory = if problem.pass == Pass::Dgrad { &maps.dgrad } else { &maps.fprop };
                Ok((a_map, NO_MAP, memory.address()))
            }
        },
    }
}

/// Maps of exact numbers: tokens of both sides, or tokens and packed weights.
fn exact_maps(
    launcher: &dyn Launcher,
    target: KernelTarget,
    problem: &GemmProblem,
    a: &Tensor,
    b: &Tensor,
) -> Result<(TensorMap, TensorMap)> {
    let [a_map, b_map] = if problem.pass == Pass::Wgrad {
        wgrad_maps(target, problem, a, b)
    } else {
        let [a_box, _] = sixteen_boxes(target, problem.pass);
        let shape = [problem.groups, problem.out_features, problem.in_features];
        let address = b.address().unwrap_or(0);
        [token_map(a, a_box), weight_map(target, problem.pass, address, b.dtype(), shape)]
    };
    Ok((launcher.encode(&a_map)?, launcher.encode(&b_map)?))
}

/// The map of an output that lies in one piece.
struct OutputMap {
    map: TensorMap,
    /// Whether there is one.
    has_map: bool,
    /// Whether it is one for lent stages.
    lends_stages: bool,
}

impl OutputMap {
    /// None, as of discrete outputs.
    const NONE: Self = Self { map: NO_MAP, has_map: false, lends_stages: false };

    fn new(
        launcher: &dyn Launcher,
        target: KernelTarget,
        problem: &GemmProblem,
        d: &GroupedOperand<'_>,
        bias: Option<&GroupedTensor>,
    ) -> Result<Self> {
        let (m, n, _) = problem.extents();
        let m = m.unwrap_or(0) as u64;
        let (tensor, rows) = match d {
            GroupedOperand::Rows(tensor) => (*tensor, tensor.shape()[0] as u64),
            GroupedOperand::Groups(grouped) => match grouped.parts() {
                Parts::Packed(tensor) => (tensor, problem.groups as u64 * m),
                Parts::Discrete(..) => return Ok(Self::NONE),
            },
        };
        let lends_stages = target == KernelTarget::Sm90a
            && problem.pass == Pass::Wgrad
            && problem.output == DType::F32
            && bias.is_none();
        let bytes = tensor.dtype().bytes() as u64;
        let row = n as u64 * bytes;
        let plain = MapDescriptor {
            address: tensor.address().unwrap_or(0),
            dtype: tensor.dtype(),
            rank: 2,
            extents: [n as u64, rows, 1],
            strides: [row, 0],
            tile: [128 / bytes as u32, output_rows(target), 1],
            swizzle: true,
        };
        let map = if lends_stages {
            // Three dimensions, since boxes of so many rows hang over the end of a group.
            launcher.encode(&MapDescriptor {
                rank: 3,
                extents: [n as u64, m, problem.groups as u64],
                strides: [row, m * row],
                tile: [128 / bytes as u32, SM90_LENT_BOX_ROWS, 1],
                ..plain
            })?
        } else {
            launcher.encode(&plain)?
        };
        Ok(Self { map, has_map: true, lends_stages })
    }

    /// `plain` with this map.
    fn args(self, plain: GemmArgs) -> GemmArgs {
        GemmArgs {
            d_map: self.map,
            has_d_map: u32::from(self.has_map),
            lends_stages: u32::from(self.lends_stages),
            ..plain
        }
    }
}

/// The maps of dY and of X, whose rows are summed.
fn wgrad_maps(
    target: KernelTarget,
    problem: &GemmProblem,
    dy: &Tensor,
    x: &Tensor,
) -> [MapDescriptor; 2] {
    if feature_blocks(target, problem) {
        return [block_map(dy, Side::Left), block_map(x, Side::Right)];
    }
    let [dy_box, x_box] = sixteen_boxes(target, Pass::Wgrad);
    [token_map(dy, dy_box), token_map(x, x_box)]
}

/// Whether wgrad reads all blocks of a stage in one box: Hopper's kernel does, where the last block
/// is whole, since a box does not know that a token's features end inside of it.
fn feature_blocks(target: KernelTarget, problem: &GemmProblem) -> bool {
    let whole = |features: usize| features.is_multiple_of(SWIZZLE_ELEMENTS as usize);
    target == KernelTarget::Sm90a
        && problem.pass == Pass::Wgrad
        && whole(problem.in_features)
        && whole(problem.out_features)
}

/// Token rows `[rows, features]` as blocks of 64 features, read in boxes of all blocks that a side
/// of a tile has, and of as many tokens as a stage of a reduction.
fn block_map(tensor: &Tensor, side: Side) -> MapDescriptor {
    let (rows, features) = (tensor.shape()[0] as u64, tensor.shape()[1] as u64);
    let bytes = tensor.dtype().bytes() as u64;
    let block = u64::from(SWIZZLE_ELEMENTS);
    let lines = |lines| box_lines(KernelTarget::Sm90a, side, lines);
    MapDescriptor {
        address: tensor.address().unwrap_or(0),
        dtype: tensor.dtype(),
        rank: 3,
        extents: [block, rows, features / block],
        strides: [features * bytes, block * bytes],
        tile: [SWIZZLE_ELEMENTS, lines(Lines::Reduction), lines(Lines::Outer) / SWIZZLE_ELEMENTS],
        swizzle: true,
    }
}

/// Token rows `[rows, features]`, read in boxes of `token_box` rows.
fn token_map(tensor: &Tensor, token_box: u32) -> MapDescriptor {
    let (rows, features) = (tensor.shape()[0] as u64, tensor.shape()[1] as u64);
    MapDescriptor {
        address: tensor.address().unwrap_or(0),
        dtype: tensor.dtype(),
        rank: 2,
        extents: [features, rows, 1],
        strides: [features * tensor.dtype().bytes() as u64, 0],
        tile: [SWIZZLE_ELEMENTS, token_box, 1],
        swizzle: true,
    }
}

/// Weights `[groups, n, k]`. Three dimensions, so that a tile at the edge of `n` never reads the
/// next expert. Fprop reads K-major boxes (rows are output columns), dgrad MN-major ones (rows are
/// the reduction).
pub(crate) fn weight_map(
    target: KernelTarget,
    pass: Pass,
    address: u64,
    dtype: DType,
    [groups, n, k]: [usize; 3],
) -> MapDescriptor {
    let [_, row_box] = sixteen_boxes(target, pass);
    let (n, k, bytes) = (n as u64, k as u64, dtype.bytes() as u64);
    MapDescriptor {
        address,
        dtype,
        rank: 3,
        extents: [k, n, groups as u64],
        strides: [k * bytes, n * k * bytes],
        tile: [SWIZZLE_ELEMENTS, row_box, 1],
        swizzle: true,
    }
}

/// Rows of the boxes in which the left and the right operand in 16 bits are read.
fn sixteen_boxes(target: KernelTarget, pass: Pass) -> [u32; 2] {
    [Side::Left, Side::Right].map(|side| box_lines(target, side, source_lines(pass, side)))
}

pub(crate) fn element(dtype: DType) -> u32 {
    dtype.element_type().unwrap_or(ElementType::F32) as u32
}
