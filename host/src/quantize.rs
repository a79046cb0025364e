//! What products read, made from high-precision weights. It needs no splits, so no set-up precedes
//! it, and it runs when the weights change rather than with every product.

use bytemuck::bytes_of;
use grouped_linear_kernels::abi::CastArgs;

use crate::error::Result;
use crate::launch::{Launches, mismatch};
use crate::plan::{CastOperands, LaunchPlan, Plan, Problem};
use crate::tensor::Tensor;

/// Adds the cast to the type of the destination; nothing, if there are no elements.
pub(crate) fn prepare(
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
