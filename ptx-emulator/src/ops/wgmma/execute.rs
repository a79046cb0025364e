//! What the threads do: issue products, close groups, wait.

use std::sync::Arc;

use super::queue::{Issue, Operands, WARPS};
use super::{Multiply, Operation, SourceA};
use crate::execute::report::Fault;
use crate::execute::warp::Warp;
use crate::execute::{Context, Flow, Outcome, Wait};
use crate::matrix::wgmma::Scale;
use crate::program::operand::Source64;
use crate::race::Role;

/// The most turns that a complete product waits before it is performed.
const LONGEST_DELAY: u64 = 48;

/// Executes an operation.
pub(crate) fn execute(own: &Operation, context: &mut Context<'_>) -> Outcome<Flow> {
    if !context.is_aligned() {
        return Ok(Flow::Wait(Wait::Lanes(context.warp.live), None));
    }
    check_warpgroup(own, context)?;
    match own {
        Operation::Fence => context.warp.matrix.fence(),
        Operation::Commit => context.warp.matrix.commit(),
        Operation::Wait(rest) => return Ok(wait(*rest, context)),
        Operation::Multiply(multiply) => issue(multiply, context)?,
    }
    Ok(Flow::Next)
}

/// All 128 threads of the warpgroup must exist, and must not have exited before a product.
fn check_warpgroup(own: &Operation, context: &mut Context<'_>) -> Outcome {
    let name = own.name();
    let lanes = context.mask.count_ones();
    if context.mask != u32::MAX {
        let text = format!("{name} by a warp of which only {lanes} threads are left");
        return Err(Fault::synchronisation(text));
    }
    let index = context.warp.index as usize;
    let first = index / WARPS * WARPS;
    let block = context.block();
    let Some(warps) = block.warps.get(first..first + WARPS) else {
        let text = format!("{name} by warp {index}, whose warpgroup has fewer than four warps");
        return Err(Fault::synchronisation(text));
    };
    // A warp may end while others have not yet noticed that their products are done.
    if !matches!(own, Operation::Multiply(_)) {
        return Ok(());
    }
    let whole = |warp: &Warp| warp.live == u32::MAX;
    let mut others = warps.iter().zip(first..).filter(|(_, at)| *at != index);
    let ended = others.find(|(warp, _)| !warp.as_deref().is_some_and(whole));
    match ended {
        Some((_, at)) => Err(Fault::synchronisation(format!(
            "{name} by warp {index}, but threads of warp {at} of its warpgroup are missing"
        ))),
        None => Ok(()),
    }
}

fn wait(rest: u64, context: &mut Context<'_>) -> Flow {
    let Some(ended) = context.warp.matrix.wait(rest) else {
        return Flow::Wait(Wait::MatrixGroups, None);
    };
    if context.grid.is_checked() && ended > 0 {
        let lanes = context.warp.live;
        context.grid.races.complete(context.warp.id, lanes, Role::Wgmma, clock(ended));
    }
    Flow::Next
}

/// The clock at which the race checker knows that so many groups have ended.
fn clock(groups: u64) -> u32 {
    u32::try_from(groups).unwrap_or(u32::MAX)
}

fn issue(multiply: &Arc<Multiply>, context: &mut Context<'_>) -> Outcome {
    let operands = operands(multiply, context)?;
    let index = context.warp.index as usize;
    // The whole warp is here, so one path has all its lanes.
    let frame = context.warp.paths.iter().find(|path| path.mask & 1 != 0).map(|path| path.frame);
    let frame = frame.unwrap_or_default();
    context.warp.matrix.take(multiply, frame, context.line)?;
    let group = context.warp.matrix.open_group();
    let checked = context.grid.is_checked();
    let id = context.warp.id;
    let issue = Issue {
        multiply: Arc::clone(multiply),
        frame,
        line: context.line,
        warp: id,
        origin: checked.then(|| context.grid.races.begin_async(id, u32::MAX)),
        clock: clock(group + 1),
    };
    let delay = 1 + context.grid.random.below(LONGEST_DELAY);
    let due = context.grid.now + delay;
    context.grid.progress += 1;
    context.block().matrix.issue(index, operands, issue, due)
}

/// The operands that must be the same in all threads of the warpgroup.
fn operands(multiply: &Multiply, context: &Context<'_>) -> Outcome<Operands> {
    let registers = &context.frame.registers;
    let uniform = |source: Source64, name: &str| {
        let values = registers.doubles(source);
        if values.iter().all(|own| *own == values[0]) {
            return Ok(values[0]);
        }
        let text = format!("the threads of a warp give different descriptors of {name}");
        Err(Fault::operand(text))
    };
    let scale = match registers.predicate(multiply.scale) {
        0 => Scale::Overwrite,
        u32::MAX => Scale::Accumulate,
        _ => return Err(Fault::operand("the threads of a warp give different scale-d")),
    };
    let a = match multiply.a {
        SourceA::Shared(source) => Some(uniform(source, "A")?),
        SourceA::Registers(_) => None,
    };
    Ok(Operands { a, b: uniform(multiply.b, "B")?, scale })
}
