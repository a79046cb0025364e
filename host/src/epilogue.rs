//! What stands beside the product: the gradients of the bias and of its row scales. (The bias itself
//! is added inside the GEMM kernels.)

use bytemuck::bytes_of;
use grouped_linear_kernels::abi::{DbiasArgs, DscalesArgs};

use crate::backend::Launcher;
use crate::error::Result;
use crate::gemm::element;
use crate::launch::mismatch;
use crate::plan::{DbiasOperands, DscalesOperands, LaunchPlan, Plan, Problem};
use crate::tensor::Tensor;

/// Launches `dbias_partial` over segments of rows, then `dbias_reduce` over groups.
pub(crate) fn launch_dbias(
    launcher: &dyn Launcher,
    plan: &Plan,
    launch: &LaunchPlan,
    operands: &DbiasOperands<'_>,
    table: u64,
    partial: u64,
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
        ..DbiasArgs::default()
    };
    for kernel in [&launch.kernel, &launch.reduce].into_iter().flatten() {
        launcher.launch(kernel.row()?, kernel.grid, bytes_of(&args))?;
    }
    Ok(())
}

/// Launches `dscales`, one warp per row.
pub(crate) fn launch_dscales(
    launcher: &dyn Launcher,
    plan: &Plan,
    launch: &LaunchPlan,
    operands: &DscalesOperands<'_>,
    table: u64,
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
    launcher.launch(kernel.row()?, kernel.grid, bytes_of(&args))
}
