//! What products read, made from high-precision tensors: casts of weights, and codes with scales of
//! weights or tokens. Weights need no splits, so no set-up precedes their quantization, and it runs
//! when they change rather than with every product.

pub(crate) mod micro;

use bytemuck::bytes_of;
use grouped_linear_kernels::abi::pad::PadArgs;
use grouped_linear_kernels::abi::quantize::{
    self as abi, DequantizeArgs, QuantizeArgs, ScaleArgs, UpdateScalesArgs,
};
use grouped_linear_kernels::abi::{CastArgs, DbiasArgs};

use crate::error::{Error, Result};
use crate::gemm::element;
use crate::launch::{Launches, mismatch};
use crate::plan::{
    CastOperands, DequantizeOperands, GroupedOperand, HistoryOperands, LaunchPlan, PadOperands,
    Plan, Problem, QuantizeOperands, QuantizeProblem, ScaleSource, UpdateScalesOperands,
};
use crate::recipe::{AmaxChoice, Blocks, Format};
use crate::tensor::{DType, Direction, QuantizedCopy, QuantizedSpec, SourceShape, Tensor};

/// Adds the cast to the type of the destination; nothing, if there are no elements.
pub(crate) fn prepare_cast(
    plan: &Plan,
    launch: &LaunchPlan,
    operands: &CastOperands<'_>,
    launches: &mut Launches,
) -> Result<()> {
    let Problem::Cast(problem) = &plan.problem else {
        return Err(mismatch());
    };
    let Some(kernel) = &launch.kernel else {
        return Ok(());
    };
    let (source, source_array) = operands.source.addresses();
    let args = CastArgs {
        source,
        source_array,
        destination: operands.destination.address().unwrap_or(0),
        skip: operands.skip.and_then(Tensor::address).unwrap_or(0),
        part_len: problem.part_len as u64,
        ..CastArgs::default()
    };
    launches.push(kernel.row()?, kernel.grid, bytes_of(&args))
}

/// Addresses in the scratch memory of a quantization.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scratch {
    /// The group table; 0 for weights.
    pub table: u64,
    /// Largest magnitudes of tiles.
    pub amax: u64,
    /// Seed and offset of the random numbers.
    pub random: u64,
    /// Sums of columns.
    pub partial: u64,
}

/// Adds what finds the scales, what quantizes, and what finishes the sums of the columns, in the
/// order that the source of the scales asks for.
pub(crate) fn prepare_quantize(
    plan: &Plan,
    launch: &LaunchPlan,
    operands: &QuantizeOperands<'_>,
    scratch: Scratch,
    launches: &mut Launches,
) -> Result<()> {
    let Problem::Quantize(problem) = &plan.problem else {
        return Err(mismatch());
    };
    let Format::Fp8 { .. } = problem.destination.format else {
        return micro::prepare(plan, launch, operands, scratch, launches);
    };
    check_placed(plan, operands)?;
    let quantize = quantize_args(problem, launch, operands, scratch);
    let push_scales = |launches: &mut Launches| -> Result<()> {
        let Some(scales) = &launch.scales else { return Ok(()) };
        let progress = quantize.progress;
        let args = ScaleArgs { progress, ..scale_args(problem, operands, scratch) };
        launches.push(scales.groups.row()?, scales.groups.grid, bytes_of(&args))
    };
    // What is noted is known when the source has been read.
    let notes = problem.scales == ScaleSource::Given;
    if let Some(amax) = launch.scales.and_then(|scales| scales.amax) {
        let args = QuantizeArgs { amax_partial: scratch.amax, ..quantize };
        launches.push(amax.row()?, amax.grid, bytes_of(&args))?;
    }
    if !notes {
        push_scales(launches)?;
    }
    if let Some(kernel) = &launch.kernel {
        launches.push(kernel.row()?, kernel.grid, bytes_of(&quantize))?;
    }
    if notes {
        push_scales(launches)?;
    }
    push_dbias(problem, launch, operands, scratch, launches)
}

/// Adds what finishes the sums of the columns, if they are wanted.
fn push_dbias(
    problem: &QuantizeProblem,
    launch: &LaunchPlan,
    operands: &QuantizeOperands<'_>,
    scratch: Scratch,
    launches: &mut Launches,
) -> Result<()> {
    let (Some(reduce), Some(db)) = (&launch.reduce, operands.db) else {
        return Ok(());
    };
    let (address, db_array) = db.addresses();
    let args = DbiasArgs {
        table: scratch.table,
        partial: scratch.partial,
        db: address,
        db_array,
        groups: problem.destination.groups as u32,
        n: problem.destination.source.columns() as u32,
        db_type: element(db.dtype()),
        accumulate: u32::from(operands.accumulate_db),
        tile_columns: problem.column_blocks() as u32,
        skip: operands.skip.and_then(Tensor::address).unwrap_or(0),
        ..DbiasArgs::default()
    };
    launches.push(reduce.row()?, reduce.grid, bytes_of(&args))
}

fn quantize_args(
    problem: &QuantizeProblem,
    launch: &LaunchPlan,
    operands: &QuantizeOperands<'_>,
    scratch: Scratch,
) -> QuantizeArgs {
    let spec = problem.destination;
    let (source, source_array) = match operands.source {
        GroupedOperand::Rows(tensor) => (tensor.address().unwrap_or(0), 0),
        GroupedOperand::Groups(grouped) => grouped.addresses(),
    };
    let rows = match spec.source {
        SourceShape::Tokens { .. } => 0,
        SourceShape::Weights { rows, .. } => rows as u32,
    };
    let scale = match &operands.history {
        Some(history) => Some(history.scale),
        None => operands.destination.scale(),
    };
    // The kernel that finds the scales itself; where they are given, it notes the magnitudes.
    let once = launch.reads_once();
    let notes_amax = problem.scales == ScaleSource::Given;
    QuantizeArgs {
        table: scratch.table,
        source,
        source_array,
        skip: operands.skip.and_then(Tensor::address).unwrap_or(0),
        scale: scale.and_then(Tensor::address).unwrap_or(0),
        amax_partial: if notes_amax { scratch.amax } else { 0 },
        dbias_partial: if operands.db.is_some() { scratch.partial } else { 0 },
        rowwise: destination_args(operands, Direction::Rowwise),
        columnwise: destination_args(operands, Direction::Columnwise),
        groups: spec.groups as u32,
        rows,
        columns: spec.source.columns() as u32,
        source_type: element(problem.input),
        format: element(spec.format.dtype()),
        power_of_two: u32::from(operands.rule.power_of_two),
        epsilon: operands.rule.epsilon,
        progress: if once { scratch.amax } else { 0 },
        ..QuantizeArgs::default()
    }
}

fn destination_args(operands: &QuantizeOperands<'_>, direction: Direction) -> abi::QuantizedCopy {
    let destination = operands.destination;
    destination
        .copy(direction)
        .map_or_else(Default::default, |copy| copy_args(copy, destination.spec(), direction))
}

fn copy_args(
    copy: &QuantizedCopy,
    spec: QuantizedSpec,
    direction: Direction,
) -> abi::QuantizedCopy {
    let pitch = copy.data.shape().last().copied().unwrap_or(0) as u64;
    let group_pitch = match spec.source {
        SourceShape::Tokens { .. } => 0,
        SourceShape::Weights { rows, columns } => (rows * columns) as u64,
    };
    abi::QuantizedCopy {
        data: copy.data.address().unwrap_or(0),
        scale_inv: copy.scale_inv.address().unwrap_or(0),
        scales: spec.scale_layout(direction),
        pitch,
        group_pitch,
    }
}

/// One scale for each group from the magnitudes of its tiles; or, with a history, these magnitudes
/// into its first line, and the scales and their inverses into the result: those of the history may
/// have moved on when somebody reads it.
fn scale_args(
    problem: &QuantizeProblem,
    operands: &QuantizeOperands<'_>,
    scratch: Scratch,
) -> ScaleArgs {
    let spec = problem.destination;
    let copies = [Direction::Rowwise, Direction::Columnwise];
    let copy = copies.iter().find_map(|&direction| operands.destination.copy(direction));
    let kept = operands.destination.scale().and_then(Tensor::address).unwrap_or(0);
    let args = ScaleArgs {
        table: scratch.table,
        amax_partial: scratch.amax,
        skip: operands.skip.and_then(Tensor::address).unwrap_or(0),
        scale_inv: copy.and_then(|copy| copy.scale_inv.address()).unwrap_or(0),
        groups: spec.groups as u32,
        tiles: problem.tiles_of_weights(),
        format_max: format_max(spec.format.dtype()),
        ..ScaleArgs::default()
    };
    let args = match operands.amax {
        // As if each group had one tile.
        Some(amax) => ScaleArgs { amax_partial: amax.address().unwrap_or(0), tiles: 1, ..args },
        None => args,
    };
    match &operands.history {
        Some(history) => ScaleArgs {
            history: history.history.address().unwrap_or(0),
            scale: history.scale.address().unwrap_or(0),
            kept_scale: kept,
            ..args
        },
        None => ScaleArgs {
            scale: kept,
            epsilon: operands.rule.epsilon,
            power_of_two: u32::from(operands.rule.power_of_two),
            ..args
        },
    }
}

/// Adds the kernel that makes the next scales of histories.
pub(crate) fn prepare_update(
    plan: &Plan,
    launch: &LaunchPlan,
    operands: &UpdateScalesOperands<'_>,
    launches: &mut Launches,
) -> Result<()> {
    let (Problem::UpdateScales(_), Some(kernel)) = (&plan.problem, &launch.kernel) else {
        return Err(mismatch());
    };
    let address = |tensor: &Tensor| tensor.address().unwrap_or(0);
    let mut args =
        UpdateScalesArgs { skip: operands.skip.map_or(0, address), ..UpdateScalesArgs::default() };
    let room = args.histories.get_mut(..operands.histories.len()).ok_or_else(mismatch)?;
    for (own, update) in room.iter_mut().zip(operands.histories) {
        let HistoryOperands { history, scale, scale_inv } = update.history;
        *own = abi::History {
            amax: address(history),
            scale: address(scale),
            scale_inv: address(scale_inv),
            groups: scale.len() as u32,
            len: history.shape()[0] as u32,
            format_max: format_max(update.format),
            most_recent: u32::from(update.choice == AmaxChoice::MostRecent),
            margin: update.margin,
            reserved: 0,
        };
    }
    launches.push(kernel.row()?, kernel.grid, bytes_of(&args))
}

/// Adds the kernel that restores a copy.
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
    check_restored(plan, operands.copy, operands.destination.tensors())?;
    let Format::Fp8 { blocks, .. } = problem.source.format else {
        return micro::prepare_dequantize(plan, launch, operands, table, launches);
    };
    let (destination, destination_array) = match operands.destination {
        GroupedOperand::Rows(tensor) => (tensor.address().unwrap_or(0), 0),
        GroupedOperand::Groups(grouped) => grouped.addresses(),
    };
    let rows = match problem.source.source {
        SourceShape::Tokens { .. } => 0,
        SourceShape::Weights { rows, .. } => rows as u32,
    };
    let args = DequantizeArgs {
        table,
        destination,
        destination_array,
        copy: copy_args(operands.copy, operands.spec, problem.direction),
        groups: problem.source.groups as u32,
        rows,
        columns: problem.source.source.columns() as u32,
        blocks: blocks as u32,
        columnwise: u32::from(problem.direction == Direction::Columnwise),
        format: element(problem.source.format.dtype()),
        destination_type: element(problem.output),
        ..DequantizeArgs::default()
    };
    launches.push(kernel.row()?, kernel.grid, bytes_of(&args))
}

/// Adds the kernel that pads groups, or the one that takes the padding out.
pub(crate) fn prepare_pad(
    plan: &Plan,
    launch: &LaunchPlan,
    operands: &PadOperands<'_>,
    table: u64,
    launches: &mut Launches,
) -> Result<()> {
    let Problem::Pad(problem) = &plan.problem else {
        return Err(mismatch());
    };
    let Some(kernel) = &launch.kernel else { return Ok(()) };
    let args = PadArgs {
        table,
        source: operands.source.address().unwrap_or(0),
        destination: operands.destination.address().unwrap_or(0),
        row_bytes: (problem.columns * problem.dtype.bytes()) as u64,
        groups: problem.groups as u32,
        ..PadArgs::default()
    };
    launches.push(kernel.row()?, kernel.grid, bytes_of(&args))
}

/// The largest number of an FP8 type.
fn format_max(dtype: DType) -> f32 {
    if dtype == DType::E5m2 { 57344.0 } else { 448.0 }
}

/// Refuses a source that starts where the plan's kernels cannot read, as their launch would.
pub(crate) fn check_source(plan: &Plan, source: &[Tensor]) -> Result<()> {
    match plan.launch {
        Some(_) => check_aligned(source.iter()),
        None => Ok(()),
    }
}

/// Refuses a copy or a `destination` that starts where the plan's kernel, which restores the copy,
/// cannot read or write, as its launch would.
pub(crate) fn check_restored(
    plan: &Plan,
    copy: &QuantizedCopy,
    destination: &[Tensor],
) -> Result<()> {
    let Problem::Dequantize(problem) = &plan.problem else {
        return Err(mismatch());
    };
    if plan.launch.and_then(|launch| launch.kernel).is_none() {
        return Ok(());
    }
    check_aligned(destination.iter())?;
    let Format::Fp8 { blocks, .. } = problem.source.format else {
        return check_aligned(micro::wide_parts(copy).into_iter());
    };
    // Four scales at once where each column of a transposed tile has its own, elsewhere one by one.
    let wide = blocks == Blocks::Vector && problem.direction == Direction::Columnwise;
    check_aligned([&copy.data].into_iter().chain(wide.then_some(&copy.scale_inv)))
}

/// Refuses a source and copies that start where the plan's kernels, which load and store 16 bytes
/// at once, cannot read or write, as their launch would.
pub(crate) fn check_placed(plan: &Plan, operands: &QuantizeOperands<'_>) -> Result<()> {
    if plan.launch.is_none() {
        return Ok(());
    }
    let format = operands.destination.spec().format;
    let whole = format.is_whole();
    let copies = [Direction::Rowwise, Direction::Columnwise];
    let copies = copies.iter().filter_map(|&direction| operands.destination.copy(direction));
    let results = copies.flat_map(|copy| match format {
        Format::Fp8 { .. } => [Some(&copy.data), (!whole).then_some(&copy.scale_inv)],
        Format::Mxfp8 { .. } | Format::Nvfp4(_) => micro::wide_parts(copy).map(Some),
    });
    check_aligned(operands.source.tensors().iter().chain(results.flatten()))
}

/// Refuses tensors that do not start at multiples of 16 bytes.
pub(crate) fn check_aligned<'a>(mut tensors: impl Iterator<Item = &'a Tensor>) -> Result<()> {
    if tensors.all(|tensor| tensor.address().unwrap_or(0).is_multiple_of(16)) {
        return Ok(());
    }
    Err(Error::invalid(
        "the tensor that is quantized or restored, its data and the scales of its blocks must each \
         start at a multiple of 16 bytes; copy the view that does not",
    ))
}
