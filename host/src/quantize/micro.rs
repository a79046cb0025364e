//! MXFP8 and NVFP4: codes with a scale of one byte per block, and exact numbers of them in BF16.

use bytemuck::bytes_of;
use grouped_linear_kernels::abi::ElementType;
use grouped_linear_kernels::abi::mx::{
    MXFP8_BLOCK, MxCopy, MxDequantizeArgs, MxSource, Mxfp8Args, NVFP4_BLOCK, Nvfp4Amax, Nvfp4Args,
    Nvfp4GroupAmaxArgs, Nvfp4RowAmaxArgs, Nvfp4TileAmaxArgs, Nvfp4Way, SwizzleArgs,
};
use grouped_linear_kernels::abi::quantize::ScaleArgs;

use super::{Scratch, check_placed, check_source, push_dbias};
use crate::error::Result;
use crate::gemm::element;
use crate::launch::{Launches, mismatch};
use crate::plan::{
    AmaxOperands, DequantizeOperands, GroupedOperand, KernelRole, LaunchPlan, Plan, PlannedKernel,
    Problem, QuantizeOperands, QuantizeProblem, SwizzleOperands,
};
use crate::recipe::{BlockShape, Format, Nvfp4Format, Scope, Transform};
use crate::tensor::{Direction, Form, QuantizedCopy, QuantizedSpec, SourceShape, Tensor};

/// Adds what measures magnitudes (NVFP4), what quantizes, and what finishes the sums of the
/// columns.
pub(crate) fn prepare(
    plan: &Plan,
    launch: &LaunchPlan,
    operands: &QuantizeOperands<'_>,
    scratch: Scratch,
    launches: &mut Launches,
) -> Result<()> {
    let Problem::Quantize(problem) = &plan.problem else {
        return Err(mismatch());
    };
    let spec = problem.destination;
    check_placed(plan, operands)?;
    let skip = operands.skip.map_or(0, address);
    let source = source(&operands.source, spec, skip, scratch.table);
    let dbias_partial = if operands.db.is_some() { scratch.partial } else { 0 };
    let [rowwise, columnwise] = copies(operands);
    match spec.format {
        Format::Fp8 { .. } => return Err(mismatch()),
        Format::Mxfp8 { dtype, blocks } => {
            let args = Mxfp8Args {
                source,
                rowwise,
                columnwise,
                dbias_partial,
                format: element(dtype),
                square: u32::from(blocks == BlockShape::Square),
            };
            if let Some(kernel) = &launch.kernel {
                launches.push(kernel.row()?, kernel.grid, bytes_of(&args))?;
            }
        }
        Format::Nvfp4(format) => {
            prepare_scales(problem, launch, operands, &format, (source, scratch), launches)?;
            let amax = |direction| amax(operands, direction).map_or(0, address);
            let args = Nvfp4Args {
                source,
                rowwise,
                columnwise,
                // Squares have one scale in both copies.
                rowwise_amax: match amax(Direction::Rowwise) {
                    0 if format.transform == Transform::None => amax(Direction::Columnwise),
                    own => own,
                },
                columnwise_amax: amax(Direction::Columnwise),
                random: if problem.stochastic { scratch.random } else { 0 },
                dbias_partial,
                bound: format.bound.value(),
                square: u32::from(format.blocks == BlockShape::Square),
                transform: u32::from(format.transform == Transform::Hadamard),
                row_scaled: u32::from(format.scope == Scope::Row),
                target: problem.nvfp4_target() as u32,
                progress: if launch.reads_once() { scratch.amax } else { 0 },
                ..Nvfp4Args::default()
            };
            if let Some(kernel) = &launch.kernel {
                let element = problem.element()?;
                for args in nvfp4_launches(args, element) {
                    let role = KernelRole::QuantizeNvfp4(args.way(element), element);
                    let row = PlannedKernel { role, ..*kernel }.row()?;
                    launches.push(row, kernel.grid, bytes_of(&args))?;
                }
            }
        }
    }
    push_dbias(problem, launch, operands, scratch, launches)
}

/// Copies of lines in different forms are made one after the other, by the kernel of each form. So
/// are both copies where one kernel has every way of lines: measured on an H200, one launch of that
/// takes 1.1 (codes) to 1.7 times (exact numbers) as long as two, since it is bound by instructions
/// and not by memory.
fn nvfp4_launches(args: Nvfp4Args, element: ElementType) -> impl Iterator<Item = Nvfp4Args> {
    let both = args.rowwise.is_wanted() && args.columnwise.is_wanted();
    let (first, second) = match both && args.way(element) == Nvfp4Way::General {
        true => (
            Nvfp4Args { columnwise: MxCopy::default(), ..args },
            Some(Nvfp4Args { rowwise: MxCopy::default(), dbias_partial: 0, ..args }),
        ),
        false => (args, None),
    };
    std::iter::once(first).chain(second)
}

/// Adds what finds the largest magnitudes of groups, by those of tiles, for which there is room at
/// `tiles`.
pub(crate) fn prepare_amax(
    plan: &Plan,
    launch: &LaunchPlan,
    operands: &AmaxOperands<'_>,
    (table, tiles): (u64, u64),
    launches: &mut Launches,
) -> Result<()> {
    let Problem::Amax(problem) = &plan.problem else {
        return Err(mismatch());
    };
    check_source(plan, operands.source.tensors())?;
    let quantize = problem.as_quantize();
    let skip = operands.skip.map_or(0, address);
    let source = source(&operands.source, quantize.destination, skip, table);
    if let Some(kernel) = &launch.kernel {
        let args = Nvfp4TileAmaxArgs { source, plain: tiles, transformed: 0 };
        launches.push(kernel.row()?, kernel.grid, bytes_of(&args))?;
    }
    let Some(groups) = &launch.reduce else { return Ok(()) };
    let amax = address(operands.amax);
    let args = Nvfp4GroupAmaxArgs {
        table,
        skip,
        plain: Nvfp4Amax { partial: tiles, amax, ..Nvfp4Amax::default() },
        groups: problem.groups as u32,
        tiles: quantize.tiles_of_weights(),
        ..Nvfp4GroupAmaxArgs::default()
    };
    launches.push(groups.row()?, groups.grid, bytes_of(&args))
}

/// Adds what finds the magnitudes that FP32 scales come from, of groups or of rows.
fn prepare_scales(
    problem: &QuantizeProblem,
    launch: &LaunchPlan,
    operands: &QuantizeOperands<'_>,
    format: &Nvfp4Format,
    (source, scratch): (MxSource, Scratch),
    launches: &mut Launches,
) -> Result<()> {
    let Some(scales) = &launch.scales else { return Ok(()) };
    let row = scales.groups.row()?;
    let amax_of = |direction| amax(operands, direction).map_or(0, address);
    let (groups, tiles) = (problem.destination.groups as u32, problem.tiles_of_weights());
    if launch.reads_once() {
        // The kernel finds the magnitudes itself, with what this clears for it.
        let (progress, skip) = (scratch.amax, source.skip);
        let args = ScaleArgs { progress, skip, groups, tiles, ..ScaleArgs::default() };
        return launches.push(row, scales.groups.grid, bytes_of(&args));
    }
    if format.scope == Scope::Row {
        let args = Nvfp4RowAmaxArgs {
            source,
            amax: amax_of(Direction::Rowwise),
            bound: format.bound.value(),
            source_type: element(problem.input),
            ..Nvfp4RowAmaxArgs::default()
        };
        return launches.push(row, scales.groups.grid, bytes_of(&args));
    }
    let [measures_plain, measures_transformed] = problem.measured();
    let at = |wanted: bool, address: u64| if wanted { address } else { 0 };
    let plain = at(measures_plain, scratch.amax);
    let transformed = at(measures_transformed, scratch.amax + problem.amax_bytes()?);
    if let Some(tiles) = &scales.amax {
        let args = Nvfp4TileAmaxArgs { source, plain, transformed };
        launches.push(tiles.row()?, tiles.grid, bytes_of(&args))?;
    }
    let of = |partial, direction| Nvfp4Amax {
        partial,
        amax: amax_of(direction),
        bound: format.bound.value(),
        ..Nvfp4Amax::default()
    };
    // Without a transform the copies share their magnitudes.
    let plain_copy = match problem.destination.has(Direction::Rowwise) {
        true => Direction::Rowwise,
        false => Direction::Columnwise,
    };
    // Magnitudes that are given: as if each group had one tile.
    let (plain, tiles) = match operands.amax {
        Some(amax) => (address(amax), 1),
        None => (plain, tiles),
    };
    let args = Nvfp4GroupAmaxArgs {
        table: scratch.table,
        skip: source.skip,
        plain: of(plain, plain_copy),
        transformed: of(transformed, Direction::Columnwise),
        random_state: operands.random.map_or(0, address),
        drawn: if problem.stochastic { scratch.random } else { 0 },
        groups,
        tiles,
        ..Nvfp4GroupAmaxArgs::default()
    };
    launches.push(row, scales.groups.grid, bytes_of(&args))
}

/// Adds the kernel that restores a copy, or makes exact numbers of it; where they lie has been
/// checked.
pub(crate) fn prepare_dequantize(
    plan: &Plan,
    launch: &LaunchPlan,
    operands: &DequantizeOperands<'_>,
    table: u64,
    launches: &mut Launches,
) -> Result<()> {
    let Problem::Dequantize(problem) = &plan.problem else {
        return Err(mismatch());
    };
    let Some(kernel) = &launch.kernel else { return Ok(()) };
    let (destination, destination_array) = match operands.destination {
        GroupedOperand::Rows(tensor) => (address(tensor), 0),
        GroupedOperand::Groups(grouped) => grouped.addresses(),
    };
    let spec = problem.source;
    let (bound, row_scaled) = match spec.format {
        Format::Nvfp4(format) => (format.bound.value(), format.scope == Scope::Row),
        Format::Fp8 { .. } | Format::Mxfp8 { .. } => (0.0, false),
    };
    let args = MxDequantizeArgs {
        source: shape(spec, table),
        copy: copy_args(operands.copy, spec.form(problem.direction)),
        amax: match problem.exact {
            true => 0,
            false => operands.copy.amax.as_ref().map_or(0, address),
        },
        destination,
        destination_array,
        destination_type: element(problem.output),
        format: element(spec.format.dtype()),
        columnwise: u32::from(problem.direction == Direction::Columnwise),
        row_scaled: u32::from(row_scaled),
        bound,
        as_source: u32::from(!problem.exact),
    };
    launches.push(kernel.row()?, kernel.grid, bytes_of(&args))
}

/// Adds the kernel that changes the order of scales.
pub(crate) fn prepare_swizzle(
    plan: &Plan,
    launch: &LaunchPlan,
    operands: &SwizzleOperands<'_>,
    table: u64,
    launches: &mut Launches,
) -> Result<()> {
    let Problem::Swizzle(problem) = &plan.problem else {
        return Err(mismatch());
    };
    let Some(kernel) = &launch.kernel else { return Ok(()) };
    let nvfp4 = matches!(problem.source.format, Format::Nvfp4(_));
    let args = SwizzleArgs {
        source: shape(problem.source, table),
        from: address(operands.scales),
        to: address(operands.destination),
        block: if nvfp4 { NVFP4_BLOCK } else { MXFP8_BLOCK },
        columnwise: u32::from(problem.direction == Direction::Columnwise),
        swizzle: u32::from(problem.swizzles()),
        ..SwizzleArgs::default()
    };
    launches.push(kernel.row()?, kernel.grid, bytes_of(&args))
}

/// The source as the kernels read it.
fn source(from: &GroupedOperand<'_>, spec: QuantizedSpec, skip: u64, table: u64) -> MxSource {
    let (base, array) = match from {
        GroupedOperand::Rows(tensor) => (address(tensor), 0),
        GroupedOperand::Groups(grouped) => grouped.addresses(),
    };
    MxSource { base, array, skip, ..shape(spec, table) }
}

/// The source without its addresses.
fn shape(spec: QuantizedSpec, table: u64) -> MxSource {
    let (rows, padded_rows) = match spec.source {
        SourceShape::Tokens { .. } => (0, spec.padded_rows() as u32),
        SourceShape::Weights { rows, .. } => (rows as u32, 0),
    };
    let (groups, columns) = (spec.groups as u32, spec.source.columns() as u32);
    MxSource { table, groups, rows, columns, padded_rows, ..MxSource::default() }
}

/// The copies as the kernels write them; what both share is written once.
fn copies(operands: &QuantizeOperands<'_>) -> [MxCopy; 2] {
    let spec = operands.destination.spec();
    let copy = |direction| {
        let copy = operands.destination.copy(direction);
        copy.map_or_else(MxCopy::default, |copy| copy_args(copy, spec.form(direction)))
    };
    let (rowwise, columnwise) = (copy(Direction::Rowwise), copy(Direction::Columnwise));
    if spec.shares_data() {
        return [rowwise, MxCopy::default()];
    }
    [rowwise, columnwise]
}

/// What the kernels load and store 16 bytes at once: all but magnitudes, which they take one by
/// one, and of which every expert of packed weights has one.
pub(super) fn wide_parts(copy: &QuantizedCopy) -> [&Tensor; 2] {
    [&copy.data, &copy.scale_inv]
}

fn copy_args(copy: &QuantizedCopy, form: Option<Form>) -> MxCopy {
    let data = address(&copy.data);
    match form.unwrap_or_default() {
        Form::Exact => MxCopy { exact: data, ..MxCopy::default() },
        form => MxCopy {
            data,
            scales: address(&copy.scale_inv),
            swizzled: u32::from(form == Form::Swizzled),
            ..MxCopy::default()
        },
    }
}

fn amax<'a>(operands: &QuantizeOperands<'a>, direction: Direction) -> Option<&'a Tensor> {
    operands.destination.copy(direction)?.amax.as_ref()
}

fn address(tensor: &Tensor) -> u64 {
    tensor.address().unwrap_or(0)
}
