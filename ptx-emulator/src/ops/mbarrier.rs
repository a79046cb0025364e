//! Barriers in shared memory. None of their instructions is lowered yet; only their place in a
//! block is here.

use crate::execute::{Context, Flow, Outcome};
use crate::program::{Form, Problem};

#[derive(Clone, Debug)]
pub(crate) struct Mbarrier;

/// The mbarriers of a block.
#[derive(Debug, Default)]
pub(crate) struct Mbarriers;

impl Mbarriers {
    pub(crate) fn describe(&self, _text: &mut String) {}
}

pub(crate) fn lower(_form: &mut Form<'_, '_>) -> Result<(), Problem> {
    Err("this instruction is not supported yet".to_owned())
}

pub(crate) fn execute(_own: &Mbarrier, _context: &mut Context<'_>) -> Outcome<Flow> {
    Ok(Flow::Next)
}
