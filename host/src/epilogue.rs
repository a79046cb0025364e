//! What stands beside the product: the gradients of the bias and of its row scales. (The bias
//! itself is added inside the GEMM kernels.)

use bytemuck::bytes_of;
use grouped_linear_kernels::abi::{DbiasArgs, DscalesArgs};

use crate::error::Result;
use crate::gemm::element;
use crate::launch::{Launches, mismatch};
use crate::plan::{DbiasOperands, DscalesOperands, LaunchPlan, Plan, Problem};
use crate::tensor::Tensor;

/// Adds `dbias_partial` over segments of rows, then `dbias_reduce` over groups.
pub(crate) fn prepare_dbias(
    plan: &Plan,
    launch: &LaunchPlan,
    operands: &DbiasOperands<'_>,
    table: u64,
    partial: u64,
    launches: &mut Launches,
) -> Result<()> {
    let Problem::Dbias(problem) = &plan.problem else {
        return Err(mismatch());
    };
    let (db, db_array) = operands.db.addresses();
    let args = DbiasArgs {
        table,
        dy: operands.dy.address().unwrap_or(0),
        row_scales: operands.row_scales.and_then(Tensor::address).unwrap_or(0),
        partial,
        db,
        db_array,
        groups: problem.groups as u32,
        n: problem.out_features as u32,
        dy_type: element(problem.input),
        db_type: element(problem.output),
        accumulate: u32::from(operands.accumulate),
        tile_columns: 1,
        ..DbiasArgs::default()
    };
    for kernel in [&launch.kernel, &launch.reduce].into_iter().flatten() {
        launches.push(kernel.row()?, kernel.grid, bytes_of(&args))?;
    }
    Ok(())
}

/// Adds `dscales`, one warp per row.
pub(crate) fn prepare_dscales(
    plan: &Plan,
    launch: &LaunchPlan,
    operands: &DscalesOperands<'_>,
    table: u64,
    launches: &mut Launches,
) -> Result<()> {
    let (Problem::Dscales(problem), Some(kernel)) = (&plan.problem, &launch.kernel) else {
        return if launch.kernel.is_none() { Ok(()) } else { Err(mismatch()) };
    };
    let (bias, bias_array) = operands.bias.addresses();
    let args = DscalesArgs {
        table,
        dy: operands.dy.address().unwrap_or(0),
        bias,
        bias_array,
        dscales: operands.dscales.address().unwrap_or(0),
        groups: problem.groups as u32,
        n: problem.out_features as u32,
        dy_type: element(problem.input),
        bias_type: element(problem.bias),
        ..DscalesArgs::default()
    };
    launches.push(kernel.row()?, kernel.grid, bytes_of(&args))
}
