//! The grouped product of quantized operands: maps of bytes and of scales.

use bytemuck::bytes_of;
use grouped_linear_kernels::abi::GemmArgs;
use grouped_linear_kernels::abi::mx::SCALE_TILE_BYTES;
use grouped_linear_kernels::abi::quantize::ScaleLayout;
use grouped_linear_kernels::abi::scaled::{
    A_SCALE_BOX, AlignArgs, B_SCALE_BOX, MxGemmArgs, OperandScales, SCALE_TILE_WORDS,
    ScaledGemmArgs,
};

use super::boxes::{self, Lines, MicroBoxes, box_lines, fp8, micro, sixteen};
use super::{
    NO_MAP, OutputMap, check_alignment, check_bias_alignment, exact_maps, feature_blocks,
    plain_args,
};
use crate::backend::{Launcher, MapDescriptor};
use crate::error::Result;
use crate::launch::{Launches, mismatch};
use crate::plan::{
    KernelTarget, LaunchPlan, Pass, Plan, Problem, ScaledGemmOperands, ScaledGemmProblem,
};
use crate::recipe::{Blocks, Format, Scope};
use crate::tensor::{
    DType, Direction, Form, GroupedTensor, QuantizedCopy, QuantizedSpec, QuantizedTensor,
    SourceShape, missing_copy,
};

/// Bytes of the innermost box dimension, the span of the swizzle: as many elements.
const SWIZZLE_ELEMENTS: u32 = 128;

/// Addresses in scratch memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scratch {
    /// The group table.
    pub(crate) table: u64,
    /// The aligned copy of X, if the plan has one.
    pub(crate) aligned: u64,
}

/// Adds the plan's kernel, and the one before it that aligns X.
pub(crate) fn prepare(
    launcher: &dyn Launcher,
    plan: &Plan,
    launch: &LaunchPlan,
    operands: &ScaledGemmOperands<'_>,
    Scratch { table, aligned }: Scratch,
    launches: &mut Launches,
) -> Result<()> {
    let Problem::ScaledGemm(problem) = &plan.problem else {
        return Err(mismatch());
    };
    let Some(kernel) = &launch.kernel else {
        return Ok(());
    };
    let row = kernel.row()?;
    let plain = plain_args(&problem.unscaled(), operands.bias, operands.bias_row_scales, table);
    if let Some((target, _)) = sixteen(kernel.role) {
        let args = exact_args(launcher, target, problem, operands, plain)?;
        return launches.push(row, kernel.grid, bytes_of(&args));
    }
    if let Some(boxes) = micro(kernel.role) {
        let args = micro_args(launcher, boxes, problem, operands, plain)?;
        return launches.push(row, kernel.grid, bytes_of(&args));
    }
    let Some(target) = fp8(kernel.role) else {
        // Nothing is multiplied where there are no tokens, and no operand is read.
        return launches.push(row, kernel.grid, bytes_of(&plain));
    };
    let lines = box_lines(target, boxes::Side::Right, Lines::Outer);
    let mut right = Right::new(&operands.b_side(problem.pass), lines);
    if let Some(align) = launch.align {
        // No tensor map is encoded of what it reads.
        operands.b_side(problem.pass).check_addresses()?;
        let args = align_args(problem, operands, table, aligned);
        launches.push(align.row()?, align.grid, bytes_of(&args))?;
        right = right.aligned(&args);
    }
    let args = fp8_args(launcher, target, problem, operands, right, plain)?;
    launches.push(row, kernel.grid, bytes_of(&args))
}

/// Those operands of a product that exist already.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Placed<'a> {
    /// X, or dY.
    pub(crate) a: Option<&'a QuantizedTensor>,
    /// Weights, or X.
    pub(crate) b: Option<&'a QuantizedTensor>,
    /// Bias.
    pub(crate) bias: Option<&'a GroupedTensor>,
}

/// Refuses operands that start where the plan's kernel cannot read, as its launch would.
pub(crate) fn check_placed(plan: &Plan, placed: &Placed<'_>) -> Result<()> {
    let Problem::ScaledGemm(problem) = &plan.problem else {
        return Err(mismatch());
    };
    let Some(kernel) = plan.launch.and_then(|launch| launch.kernel) else {
        return Ok(());
    };
    if sixteen(kernel.role).is_none() && fp8(kernel.role).is_none() && micro(kernel.role).is_none()
    {
        return Ok(());
    }
    placed.bias.map_or(Ok(()), check_bias_alignment)?;
    let (a, b) = directions(problem.pass);
    for (operand, direction) in [(placed.a, a), (placed.b, b)] {
        operand.map_or(Ok(()), |operand| check_copy(operand, direction))?;
    }
    Ok(())
}

/// Refuses a copy that starts where the kernels of tensor cores cannot read.
pub(crate) fn check_copy(operand: &QuantizedTensor, direction: Direction) -> Result<()> {
    let Some(copy) = operand.copy(direction) else {
        return Err(missing_copy("quantized tensor", direction));
    };
    Side { copy, spec: operand.spec(), direction }.check_addresses()
}

/// Arguments of the kernel that aligns X into scratch memory at `aligned`.
fn align_args(
    problem: &ScaledGemmProblem,
    operands: &ScaledGemmOperands<'_>,
    table: u64,
    aligned: u64,
) -> AlignArgs {
    let layout = problem.aligned_copy();
    let [codes, factors, line_scales, runs] =
        [layout.codes, layout.factors, layout.line_scales, layout.runs]
            .map(|offset| aligned + offset as u64);
    let x = operands.b_side(problem.pass);
    AlignArgs {
        table,
        codes: x.copy.data.address().unwrap_or(0),
        scale_inv: x.copy.scale_inv.address().unwrap_or(0),
        aligned: codes,
        factors,
        line_scales,
        runs,
        pitch: problem.padded_rows() as u64,
        scale_pitch: x.spec.scale_layout(x.direction).pitch,
        run_pitch: layout.run_pitch as u64,
        groups: problem.groups as u32,
        columns: problem.in_features as u32,
        reserved: 0,
    }
}

/// What a product of FP8 reads of its right operand: maps of data and of scales of vectors, and
/// scales of squares.
struct Right {
    data: MapDescriptor,
    vectors: Option<MapDescriptor>,
    scales: OperandScales,
}

impl Right {
    /// The operand as it is, read in boxes of `lines` lines.
    fn new(side: &Side<'_>, lines: u32) -> Self {
        let vectors = side.has_vectors().then(|| side.scale_map(B_SCALE_BOX));
        Self { data: side.data_map(lines), vectors, scales: side.scales() }
    }

    /// What `align` makes of it, which lies likewise.
    fn aligned(self, args: &AlignArgs) -> Self {
        let at = |address| move |map| MapDescriptor { address, ..map };
        let layout = ScaleLayout { pitch: args.run_pitch, group_pitch: 0 };
        let line_scales = args.line_scales;
        Self {
            data: at(args.aligned)(self.data),
            vectors: self.vectors.map(at(args.factors)),
            scales: OperandScales { scale_inv: args.runs, layout, line_scales },
        }
    }
}

/// Arguments of a product of FP8.
fn fp8_args(
    launcher: &dyn Launcher,
    target: KernelTarget,
    problem: &ScaledGemmProblem,
    operands: &ScaledGemmOperands<'_>,
    right: Right,
    plain: GemmArgs,
) -> Result<ScaledGemmArgs> {
    check_alignment(&operands.d, operands.bias)?;
    let lines = box_lines(target, boxes::Side::Left, Lines::Outer);
    let a = operands.a_side(problem.pass);
    let scale_map = |map: Option<MapDescriptor>| match map {
        Some(map) => launcher.encode(&map),
        None => Ok(NO_MAP),
    };
    let output = OutputMap::new(launcher, target, &problem.unscaled(), &operands.d, operands.bias)?;
    let a_map = launcher.encode(&a.data_map(lines))?;
    let b_map = launcher.encode(&right.data)?;
    Ok(ScaledGemmArgs {
        gemm: GemmArgs { a_map, b_map, ..output.args(plain) },
        a_scale_map: scale_map(a.has_vectors().then(|| a.scale_map(A_SCALE_BOX)))?,
        b_scale_map: scale_map(right.vectors)?,
        a_scales: a.scales(),
        b_scales: right.scales,
    })
}

/// Arguments of a product of codes in MXFP8 or NVFP4.
fn micro_args(
    launcher: &dyn Launcher,
    boxes: MicroBoxes,
    problem: &ScaledGemmProblem,
    operands: &ScaledGemmOperands<'_>,
    plain: GemmArgs,
) -> Result<MxGemmArgs> {
    check_alignment(&operands.d, operands.bias)?;
    let (a, b) = (operands.a_side(problem.pass), operands.b_side(problem.pass));
    let map = |side: &Side<'_>, lines| launcher.encode(&side.data_map(lines));
    let tiles = |side: &Side<'_>| launcher.encode(&side.tile_map(boxes.scale_tiles));
    let unscaled = problem.unscaled();
    let output =
        OutputMap::new(launcher, KernelTarget::Sm100a, &unscaled, &operands.d, operands.bias)?;
    let (a_map, b_map) = (map(&a, boxes.lines[0])?, map(&b, boxes.lines[1])?);
    let (row_scales, row_scale_factor) = row_scales(problem, operands);
    let e5m2 = |format: Format| u32::from(format.dtype() == DType::E5m2);
    Ok(MxGemmArgs {
        gemm: GemmArgs { a_map, b_map, row_scales, row_scale_factor, ..output.args(plain) },
        a_scale_map: tiles(&a)?,
        b_scale_map: tiles(&b)?,
        a_e5m2: e5m2(problem.a),
        b_e5m2: e5m2(problem.b),
        reserved: 0,
    })
}

/// Arguments of a product of exact numbers.
fn exact_args(
    launcher: &dyn Launcher,
    target: KernelTarget,
    problem: &ScaledGemmProblem,
    operands: &ScaledGemmOperands<'_>,
    plain: GemmArgs,
) -> Result<GemmArgs> {
    check_alignment(&operands.d, operands.bias)?;
    let unscaled = problem.unscaled();
    let (a_map, b_map) =
        exact_maps(launcher, target, &unscaled, &operands.a.data, &operands.b.data)?;
    let (row_scales, row_scale_factor) = row_scales(problem, operands);
    let output = OutputMap::new(launcher, target, &unscaled, &operands.d, operands.bias)?;
    let has_feature_blocks = u32::from(feature_blocks(target, &unscaled));
    Ok(GemmArgs {
        a_map,
        b_map,
        has_feature_blocks,
        row_scales,
        row_scale_factor,
        ..output.args(plain)
    })
}

/// Factors of token rows in NVFP4, and their factor.
fn row_scales(problem: &ScaledGemmProblem, operands: &ScaledGemmOperands<'_>) -> (u64, f32) {
    match (problem.a, &operands.a.amax) {
        (Format::Nvfp4(format), Some(amax)) if format.scope == Scope::Row => {
            (amax.address().unwrap_or(0), format.amax_factor())
        }
        _ => (0, 0.0),
    }
}

/// One operand: the copy that runs along the reduction.
struct Side<'a> {
    copy: &'a QuantizedCopy,
    spec: QuantizedSpec,
    direction: Direction,
}

/// The copies that run along the reduction of a pass: of the left operand and of the right.
pub(crate) fn directions(pass: Pass) -> (Direction, Direction) {
    use Direction::{Columnwise, Rowwise};
    match pass {
        Pass::Fprop => (Rowwise, Rowwise),
        // Weights `[N, K]` are reduced over N.
        Pass::Dgrad => (Rowwise, Columnwise),
        // Both are reduced over the tokens.
        Pass::Wgrad => (Columnwise, Columnwise),
    }
}

impl<'a> ScaledGemmOperands<'a> {
    fn a_side(&self, pass: Pass) -> Side<'a> {
        Side { copy: self.a, spec: self.a_spec, direction: directions(pass).0 }
    }

    fn b_side(&self, pass: Pass) -> Side<'a> {
        Side { copy: self.b, spec: self.b_spec, direction: directions(pass).1 }
    }
}

impl Side<'_> {
    /// Refuses data, and scales that are copied as it is, which start between two multiples of 16
    /// bytes.
    fn check_addresses(&self) -> Result<()> {
        self.data_map(1).check_address()?;
        if self.has_vectors() {
            self.scale_map(1).check_address()?;
        }
        match self.spec.form(self.direction) {
            Some(Form::Swizzled) => self.tile_map(1).check_address(),
            _ => Ok(()),
        }
    }

    /// The data, read in boxes of `lines` lines of 128 bytes. Weights have three dimensions, so
    /// that a box at the edge never reads the next expert.
    fn data_map(&self, lines: u32) -> MapDescriptor {
        let shape: Vec<u64> = self.copy.data.shape().iter().map(|&extent| extent as u64).collect();
        let (groups, lines_each, length) = match *shape {
            [groups, lines, length] => (groups, lines, length),
            [lines, length] => (1, lines, length),
            _ => (1, 1, 1),
        };
        MapDescriptor {
            address: self.copy.data.address().unwrap_or(0),
            dtype: self.copy.data.dtype(),
            rank: shape.len(),
            extents: [length, lines_each, groups],
            strides: [length, lines_each * length],
            tile: [SWIZZLE_ELEMENTS, lines, 1],
            swizzle: true,
        }
    }

    /// Whether it has scales of vectors.
    fn has_vectors(&self) -> bool {
        matches!(self.spec.format, Format::Fp8 { blocks: Blocks::Vector, .. })
    }

    /// The scales of vectors, a matrix over all groups, read in boxes of `length` neighbours.
    fn scale_map(&self, length: u32) -> MapDescriptor {
        let scales = self.spec.scales(self.direction);
        let groups = match self.spec.source {
            SourceShape::Tokens { .. } => 1,
            SourceShape::Weights { .. } => self.spec.groups as u64,
        };
        MapDescriptor {
            address: self.copy.scale_inv.address().unwrap_or(0),
            dtype: DType::F32,
            rank: 2,
            extents: [scales.pitch, groups * scales.outer, 1],
            strides: [4 * scales.pitch, 0],
            tile: [length, 1, 1],
            swizzle: false,
        }
    }

    /// Block scales in tiles, a matrix of one to a row, read in boxes of `tiles` neighbours.
    fn tile_map(&self, tiles: u32) -> MapDescriptor {
        let scale_inv = &self.copy.scale_inv;
        MapDescriptor {
            address: scale_inv.address().unwrap_or(0),
            // Words of the tiles: a box is at most 256 elements wide.
            dtype: DType::F32,
            rank: 2,
            extents: [
                u64::from(SCALE_TILE_WORDS),
                scale_inv.byte_len() as u64 / u64::from(SCALE_TILE_BYTES),
                1,
            ],
            strides: [u64::from(SCALE_TILE_BYTES), 0],
            tile: [SCALE_TILE_WORDS, tiles, 1],
            swizzle: false,
        }
    }

    fn scales(&self) -> OperandScales {
        match self.spec.format {
            Format::Fp8 { blocks: Blocks::Vector | Blocks::Square, .. } => OperandScales {
                scale_inv: self.copy.scale_inv.address().unwrap_or(0),
                layout: self.spec.scale_layout(self.direction),
                line_scales: 0,
            },
            _ => OperandScales::default(),
        }
    }
}
