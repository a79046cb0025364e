//! Asynchronous copies. None of their instructions is lowered yet; only the places that the
//! scheduler asks are here: nothing is ever in flight.

use crate::execute::block::Cluster;
use crate::execute::grid::{EngineFault, GridState};
use crate::execute::{Context, Flow, Outcome};
use crate::program::{Form, Problem};

#[derive(Clone, Debug)]
pub(crate) struct Copy;

/// Unfinished copies of a warp's threads.
#[derive(Debug, Default)]
pub(crate) struct WarpState;

/// What runs beside the threads of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Engine;

impl Engine {
    pub(crate) fn is_idle(&self) -> bool {
        true
    }

    pub(crate) fn has_due(&self, _now: u64) -> bool {
        false
    }

    pub(crate) fn next_due(&self) -> Option<u64> {
        None
    }
}

/// Lets everything happen that is due. Returns whether something did.
pub(crate) fn perform_due(
    _cluster: &mut Cluster,
    _grid: &mut GridState,
) -> Result<bool, EngineFault> {
    Ok(false)
}

pub(crate) fn lower(_form: &mut Form<'_, '_>) -> Result<(), Problem> {
    Err("this instruction is not supported yet".to_owned())
}

pub(crate) fn execute(_own: &Copy, _context: &mut Context<'_>) -> Outcome<Flow> {
    Ok(Flow::Next)
}
