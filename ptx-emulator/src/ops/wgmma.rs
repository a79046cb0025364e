//! Matrix products of warpgroups. None of their instructions is lowered yet; only the place that
//! the executor asks is here: no register is ever owned.

use crate::execute::{Context, Flow, Outcome};
use crate::program::{Form, Problem, Touch};

#[derive(Clone, Debug)]
pub(crate) struct Operation;

/// Unfinished matrix products of a warp and the registers they own.
#[derive(Debug, Default)]
pub(crate) struct WarpState;

impl WarpState {
    pub(crate) fn owns_any(&self) -> bool {
        false
    }

    pub(crate) fn check(
        &self,
        _touch: &Touch,
        _frame: usize,
        _operation: &super::Operation,
    ) -> Outcome {
        Ok(())
    }
}

pub(crate) fn lower(_form: &mut Form<'_, '_>) -> Result<(), Problem> {
    Err("this instruction is not supported yet".to_owned())
}

pub(crate) fn execute(_own: &Operation, _context: &mut Context<'_>) -> Outcome<Flow> {
    Ok(Flow::Next)
}
