//! Carries out a plan on an engine that launches kernels: setup, then gemm or the epilogue's
//! reductions, in stream order.

use crate::backend::Launcher;
use crate::epilogue;
use crate::error::{Error, Result};
use crate::gemm;
use crate::plan::{Operands, Plan};
use crate::setup;

/// Runs `plan` on the queue. Nothing waits; scratch memory is the queue's.
pub(crate) fn run(launcher: &dyn Launcher, plan: &Plan, operands: &Operands<'_>) -> Result<()> {
    let Some(launch) = &plan.launch else {
        return Err(Error::unsupported("a plan made for the CPU cannot run on a GPU; plan again"));
    };
    operands.note_use(launcher.queue_number());
    let workspace = launcher.workspace(launch.workspace.bytes)?;
    let table = workspace + launch.workspace.table as u64;
    let partial = workspace + launch.workspace.partial as u64;

    setup::launch(launcher, plan, launch, operands, table)?;
    match operands {
        Operands::Gemm(gemm) => gemm::launch(launcher, plan, launch, gemm, table),
        Operands::Dbias(dbias) => {
            epilogue::launch_dbias(launcher, plan, launch, dbias, table, partial)
        }
        Operands::Dscales(dscales) => {
            epilogue::launch_dscales(launcher, plan, launch, dscales, table)
        }
    }
}

/// The plan and the operands were made for different operations.
pub(crate) fn mismatch() -> Error {
    Error::invalid("the plan was made for another operation than its operands")
}
