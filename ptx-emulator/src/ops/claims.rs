//! `setmaxnreg`: registers move between the warps of a block and its pool (PTX ISA, "Miscellaneous
//! Instructions: setmaxnreg").

use std::collections::VecDeque;

use crate::execute::report::Fault;
use crate::execute::{Context, Flow, Outcome, Wait};

/// Warps that execute the instruction together.
const GROUP: usize = 4;

/// What the warps of a block have executed, by warpgroup.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    groups: Vec<VecDeque<Claim>>,
}

/// An instruction that some of the warps of a group have executed.
#[derive(Clone, Copy, Debug)]
struct Claim {
    action: Action,
    /// The warps that have, by their place in the group.
    warps: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Action {
    grows: bool,
    count: u32,
}

impl Claims {
    /// The claims of a warp's group that not all of its warps have executed.
    fn of(&mut self, warp: usize) -> &mut VecDeque<Claim> {
        let group = warp / GROUP;
        if group >= self.groups.len() {
            self.groups.resize_with(group + 1, VecDeque::new);
        }
        &mut self.groups[group]
    }

    /// A warp executes its next claim, which must be what the others of its group execute or have
    /// executed as theirs. `all` are the warps that the group has.
    fn note(&mut self, warp: usize, all: u32, action: Action) -> Result<(), Action> {
        let own = 1 << (warp % GROUP);
        let claims = self.of(warp);
        match claims.iter_mut().find(|claim| claim.warps & own == 0) {
            Some(claim) if claim.action != action => return Err(claim.action),
            Some(claim) => claim.warps |= own,
            None => claims.push_back(Claim { action, warps: own }),
        }
        while claims.front().is_some_and(|claim| claim.warps & all == all) {
            claims.pop_front();
        }
        Ok(())
    }

    /// What others of a warp's group have executed and it has not.
    fn missing(&self, warp: usize) -> Option<Action> {
        let own = 1 << (warp % GROUP);
        let claims = self.groups.get(warp / GROUP)?;
        claims.iter().find(|claim| claim.warps & own == 0).map(|claim| claim.action)
    }
}

impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`setmaxnreg.{}` to {}", if self.grows { "inc" } else { "dec" }, self.count)
    }
}

fn note(context: &mut Context<'_>, action: Action) -> Outcome {
    let warp = context.warp.index as usize;
    let block = context.block();
    let first = warp / GROUP * GROUP;
    let group = first..block.warps.len().min(first + GROUP);
    let all = (1 << group.len()) - 1;
    // The running warp is not in its place either.
    let ended = group.into_iter().find(|own| *own != warp && block.warps[*own].is_none());
    if let Some(other) = ended
        && block.claims.missing(warp).is_none()
    {
        let text = format!("{action} registers, but warp {other} of its warpgroup has exited");
        return Err(Fault::synchronisation(text));
    }
    block.claims.note(warp, all, action).map_err(|other| {
        let text = format!("{action} registers, where others of its warpgroup execute {other}");
        Fault::synchronisation(text)
    })
}

/// `setmaxnreg.inc` waits until the block's pool has enough.
pub(super) fn claim(count: u32, context: &mut Context<'_>) -> Outcome<Flow> {
    if !context.is_aligned() {
        return Ok(Flow::Wait(Wait::Lanes(context.warp.live), None));
    }
    let own = context.warp.register_count;
    let Some(more) = count.checked_sub(own) else {
        let text = format!("`setmaxnreg.inc` to {count} registers, where a thread has {own}");
        return Err(Fault::synchronisation(text));
    };
    let Some(left) = context.block().free_registers.checked_sub(more * 32) else {
        return Ok(Flow::Wait(Wait::Registers { wanted: more * 32 }, None));
    };
    note(context, Action { grows: true, count })?;
    context.block().free_registers = left;
    context.warp.register_count = count;
    Ok(Flow::Next)
}

/// `setmaxnreg.dec` gives registers to the block's pool.
pub(super) fn free(count: u32, context: &mut Context<'_>) -> Outcome<Flow> {
    if !context.is_aligned() {
        return Ok(Flow::Wait(Wait::Lanes(context.warp.live), None));
    }
    let own = context.warp.register_count;
    let Some(fewer) = own.checked_sub(count) else {
        let text = format!("`setmaxnreg.dec` to {count} registers, where a thread has {own}");
        return Err(Fault::synchronisation(text));
    };
    note(context, Action { grows: false, count })?;
    context.block().free_registers += fewer * 32;
    context.warp.register_count = count;
    context.grid.progress += 1;
    Ok(Flow::Next)
}

/// A warp whose last threads exit must have executed what the others of its group have.
pub(super) fn check_exit(context: &mut Context<'_>) -> Outcome {
    let warp = context.warp.index as usize;
    if context.mask != context.warp.live {
        return Ok(());
    }
    match context.block().claims.missing(warp) {
        Some(action) => Err(Fault::synchronisation(format!(
            "the warp exits, but others of its warpgroup have executed {action} registers"
        ))),
        None => Ok(()),
    }
}
