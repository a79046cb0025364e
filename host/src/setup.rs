//! The first launch of every operation with splits: splits to group table.

use bytemuck::bytes_of;
use grouped_linear_kernels::abi::{Operand, Ragged, Scalars, SetupArgs, Status, status};
use grouped_linear_kernels::variants::{Role, kernel};

use crate::backend::Launcher;
use crate::error::{Error, Kind, Result};
use crate::launch::{Launches, mismatch};
use crate::plan::{
    Factor, GemmOperands, GemmProblem, GroupedOperand, LaunchPlan, Operands, Pass, Plan, Problem,
    ScaledGemmOperands, ScaledGemmProblem,
};
use crate::recipe::{Blocks, Format, Scope};
use crate::splits::Splits;
use crate::tensor::{Form, QuantizedCopy, SourceShape, Tensor};

/// Adds `pointer_setup`, which checks the splits and fills the group table at `table`.
pub(crate) fn prepare(
    launcher: &dyn Launcher,
    plan: &Plan,
    launch: &LaunchPlan,
    operands: &Operands<'_>,
    table: u64,
    launches: &mut Launches,
) -> Result<()> {
    let (tile_m, tile_n) = launch.tile;
    let mut args = SetupArgs {
        table,
        sticky_status: launcher.sticky_status(),
        alpha: Scalars { value: 1.0, ..Scalars::default() },
        tile_m,
        tile_n,
        row_align: launch.row_align,
        a_scale_factor: 1.0,
        b_scale_factor: 1.0,
        ..SetupArgs::default()
    };
    let (splits, groups, rows) = match (&plan.problem, operands) {
        (Problem::Gemm(problem), Operands::Gemm(gemm)) => {
            describe_gemm(&mut args, problem, gemm);
            (gemm.splits, problem.groups, problem.rows)
        }
        (Problem::Dbias(problem), Operands::Dbias(dbias)) => {
            args.n = problem.out_features as u32;
            (dbias.splits, problem.groups, problem.rows)
        }
        (Problem::Dscales(problem), Operands::Dscales(dscales)) => {
            args.n = problem.out_features as u32;
            (dscales.splits, problem.groups, problem.rows)
        }
        (Problem::ScaledGemm(problem), Operands::ScaledGemm(gemm)) => {
            describe_scaled_gemm(&mut args, problem, gemm);
            (gemm.splits, problem.groups, problem.rows)
        }
        (Problem::Amax(problem), Operands::Amax(amax)) => {
            let (splits, rows, features) = tokens(problem.source, amax.splits)?;
            args.n = features;
            (splits, problem.groups, rows)
        }
        (Problem::Quantize(problem), Operands::Quantize(quantize)) => {
            let spec = problem.destination;
            let (splits, rows, features) = tokens(spec.source, quantize.splits)?;
            args.n = features;
            (splits, spec.groups, rows)
        }
        (Problem::Dequantize(problem), Operands::Dequantize(dequantize)) => {
            let spec = problem.source;
            let (splits, rows, features) = tokens(spec.source, dequantize.splits)?;
            args.n = features;
            (splits, spec.groups, rows)
        }
        (Problem::Swizzle(problem), Operands::Swizzle(swizzle)) => {
            let spec = problem.source;
            let (splits, rows, features) = tokens(spec.source, swizzle.splits)?;
            args.n = features;
            (splits, spec.groups, rows)
        }
        (Problem::Pad(problem), Operands::Pad(pad)) => {
            args.n = problem.columns as u32;
            (pad.splits, problem.groups, problem.rows)
        }
        _ => return Err(mismatch()),
    };
    args.workers = workers(launch, args.ragged)?;
    args.groups = groups as u32;
    args.rows = rows as i64;
    args.split_bytes = splits.bytes_each();
    let on_device = splits.on_device(launcher)?;
    args.splits = on_device.address().unwrap_or(0);
    // A copy of the host's splits goes when several other streams have made theirs.
    launches.hold(on_device);

    let row = kernel(Role::PointerSetup)
        .ok_or_else(|| Error::unsupported("the kernel table has no pointer_setup"))?;
    launches.push(row, [1, 1], bytes_of(&args))?;
    // The scales of a group come from the operation that quantized it. Splits and factors come from
    // the caller.
    if args.a_scale_inv == 0 && args.b_scale_inv == 0 {
        launches.last_is_early();
    }
    Ok(())
}

/// Splits, rows and features of tokens, which alone are set up.
fn tokens(source: SourceShape, splits: Option<&Splits>) -> Result<(&Splits, usize, u32)> {
    match (source, splits) {
        (SourceShape::Tokens { rows, features }, Some(splits)) => {
            Ok((splits, rows, features as u32))
        }
        _ => Err(mismatch()),
    }
}

/// Blocks, or pairs of them, for which groups are put in order: those of gradients of weights on
/// tensor cores, whose kernels read the order and whose tiles take as long as their group has rows.
fn workers(launch: &LaunchPlan, ragged: u32) -> Result<u32> {
    let Some(planned) = &launch.kernel else { return Ok(0) };
    Ok(match planned.role {
        Role::GemmSm90(..) | Role::GemmFp8(_) | Role::GemmSm100(_)
            if ragged == Ragged::Reduction as u32 =>
        {
            planned.grid[0] / planned.row()?.cluster
        }
        _ => 0,
    })
}

/// What `pointer_setup` found wrong, for whoever synchronises.
pub(crate) fn splits_error(found: &Status) -> Error {
    match found.code {
        status::NEGATIVE_SPLIT => Kind::NegativeSplit { group: found.group, value: found.value },
        status::TOO_MANY_ROWS => Kind::TooManyRows { value: found.value, rows: found.rows },
        code => Kind::Invalid(format!("splits: the device reports status {code}")),
    }
    .into()
}

fn describe_gemm(args: &mut SetupArgs, problem: &GemmProblem, operands: &GemmOperands<'_>) {
    describe_extents(args, problem);
    args.a = rows_operand(operands.a);
    args.b = operand(&operands.b);
    args.d = operand(&operands.d);
    args.alpha = scalars(&operands.alpha);
    args.beta = scalars(&operands.beta);
}

/// The operands' data are found by their maps, so only the output is located.
fn describe_scaled_gemm(
    args: &mut SetupArgs,
    problem: &ScaledGemmProblem,
    operands: &ScaledGemmOperands<'_>,
) {
    describe_extents(args, &problem.unscaled());
    args.d = operand(&operands.d);
    args.alpha = scalars(&operands.alpha);
    args.beta = scalars(&operands.beta);
    (args.a_scale_inv, args.a_scale_factor) = group_scale(problem.a, operands.a);
    (args.b_scale_inv, args.b_scale_factor) = group_scale(problem.b, operands.b);
    // The columnwise copies of NVFP4 are padded, and have values or zeros in all of it. Kernels
    // that read codes find them by the padded offsets.
    let exact_nvfp4 = matches!(problem.a, Format::Nvfp4(_)) && problem.forms[0] == Form::Exact;
    let padded = exact_nvfp4 && problem.pass == Pass::Wgrad;
    args.padded_reduction = u32::from(padded);
}

/// What the elements of each group are multiplied by, on the device, and by the host.
fn group_scale(format: Format, copy: &QuantizedCopy) -> (u64, f32) {
    let address = |tensor: &Tensor| tensor.address().unwrap_or(0);
    match format {
        Format::Fp8 { blocks: Blocks::Tensor, .. } => (address(&copy.scale_inv), 1.0),
        Format::Nvfp4(format) if format.scope == Scope::Group => {
            (copy.amax.as_ref().map_or(0, address), format.amax_factor())
        }
        Format::Fp8 { .. } | Format::Mxfp8 { .. } | Format::Nvfp4(_) => (0, 1.0),
    }
}

fn describe_extents(args: &mut SetupArgs, problem: &GemmProblem) {
    let (m, n, k) = problem.extents();
    args.ragged = if m.is_none() { Ragged::Rows } else { Ragged::Reduction } as u32;
    args.m = m.unwrap_or(0) as u32;
    args.n = n as u32;
    args.k = k.unwrap_or(0) as u32;
}

fn operand(operand: &GroupedOperand<'_>) -> Operand {
    match operand {
        GroupedOperand::Rows(tensor) => rows_operand(tensor),
        GroupedOperand::Groups(grouped) => {
            let (base, array) = grouped.addresses();
            Operand {
                base,
                array,
                group_elements: if array == 0 { grouped.group_len() as u64 } else { 0 },
                element_bytes: grouped.dtype().bytes() as u32,
                ..Operand::default()
            }
        }
    }
}

fn rows_operand(tensor: &Tensor) -> Operand {
    Operand {
        base: tensor.address().unwrap_or(0),
        row_elements: tensor.shape()[1] as u64,
        element_bytes: tensor.dtype().bytes() as u32,
        ..Operand::default()
    }
}

fn scalars(factor: &Factor<'_>) -> Scalars {
    match factor {
        Factor::Value(value) => Scalars { value: *value, ..Scalars::default() },
        Factor::PerGroup(tensor) => {
            Scalars { array: tensor.address().unwrap_or(0), ..Scalars::default() }
        }
    }
}
