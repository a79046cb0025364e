//! `tcgen05`: tensor memory and the matrix products of Blackwell (PTX ISA 9.1, 9.7.16).
//!
//! - `memory.rs` is the tensor memory of a block, `allocate.rs` who has which columns.
//! - `transfer.rs` moves between tensor memory and registers; until `tcgen05.wait::ld` the
//!   registers of a load belong to it (`warp.rs`).
//! - `tcgen05.mma`, `cp`, `shift` and `commit` are a queue for each thread that issues them
//!   (`engine.rs`). The queue is carried out in order, at random moments; the manual promises this
//!   order only for some pairs ("Pipelined tcgen05 Instructions"), but libraries rely on it between
//!   all products and copies. `pipeline.rs` reports what must be waited for all the same.
//! - The order between threads is the race checker's affair (`race/tensor.rs`).

mod allocate;
mod commit;
mod copy;
mod engine;
mod lower;
mod memory;
mod multiply;
mod pipeline;
mod shape;
mod shift;
mod transfer;
mod uses;
mod warp;

pub(crate) use allocate::check_end;
pub(crate) use engine::{Engine, has_due, next_due, perform_due};
pub(crate) use lower::lower;
pub(crate) use warp::WarpState;

use std::sync::Arc;

use crate::execute::registers::lanes;
use crate::execute::report::Fault;
use crate::execute::{Context, Flow, Outcome};
use crate::matrix::tcgen05::Group;
use crate::ops::access::addresses;
use crate::program::operand::Address;

/// An instruction.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Allocate(allocate::Allocate),
    Free(allocate::Free),
    /// `tcgen05.relinquish_alloc_permit`.
    Relinquish(Group),
    Transfer(Arc<transfer::Transfer>),
    /// `tcgen05.wait`.
    Wait(warp::Direction),
    /// `tcgen05.fence::before_thread_sync`.
    FenceBefore,
    /// `tcgen05.fence::after_thread_sync`.
    FenceAfter,
    Copy(copy::Copy),
    Shift(shift::Shift),
    Multiply(Box<multiply::Multiply>),
    Commit(commit::Commit),
}

/// What a block has of tensor memory and its rules.
#[derive(Debug, Default)]
pub(crate) struct BlockState {
    memory: memory::TensorMemory,
    /// What the first instruction said, and its line.
    group: Option<(Group, u32)>,
    /// The line of a `tcgen05.relinquish_alloc_permit`.
    relinquished: Option<u32>,
    /// What a warp does together with one of the other block of the pair.
    request: Option<allocate::Request>,
    /// Who used its columns last.
    uses: uses::Uses,
}

/// Executes an operation.
pub(crate) fn execute(own: &Operation, context: &mut Context<'_>) -> Outcome<Flow> {
    match own {
        Operation::Allocate(own) => return allocate::allocate(own, context),
        Operation::Free(own) => return allocate::free(own, context),
        Operation::Relinquish(group) => return allocate::relinquish(*group, context),
        Operation::Transfer(own) => return transfer::issue(own, context),
        Operation::Wait(direction) => return transfer::wait(*direction, context),
        Operation::FenceBefore if context.grid.is_checked() => {
            context.grid.races.tensor_fence_before(context.warp.id, context.mask);
        }
        Operation::FenceAfter if context.grid.is_checked() => {
            context.grid.races.tensor_fence_after(context.warp.id, context.mask);
        }
        Operation::FenceBefore | Operation::FenceAfter => {}
        Operation::Copy(own) => copy::issue(own, context)?,
        Operation::Shift(own) => shift::issue(own, context)?,
        Operation::Multiply(own) => multiply::issue(own, context)?,
        Operation::Commit(own) => commit::issue(own, context)?,
    }
    Ok(Flow::Next)
}

/// The tensor memory addresses of the lanes.
fn address(address: Address, context: &Context<'_>) -> [u32; 32] {
    addresses(address, context).map(|own| own as u32)
}

/// The value that all lanes of a mask give.
fn uniform(values: &[u32; 32], mask: u32, what: &str) -> Outcome<u32> {
    let first = values[mask.trailing_zeros() as usize & 31];
    if lanes(mask).all(|lane| values[lane] == first) {
        return Ok(first);
    }
    Err(Fault::operand(format!("the threads of a warp give different {what}")))
}

/// All instructions of a kernel must be for the same number of blocks (PTX ISA 9.1, 9.7.16.5).
fn check_group(group: Group, context: &mut Context<'_>) -> Outcome {
    let line = context.line;
    let (first, first_line) = *context.block().tensor.group.get_or_insert((group, line));
    if first != group {
        let text = format!(
            "a tcgen05 instruction with another `.cta_group` than the one in PTX line \
             {first_line}: a kernel keeps to one"
        );
        return Err(Fault::synchronisation(text));
    }
    Ok(())
}

/// As [`check_group`] for what one thread issues for its block, or for both blocks of a pair, which
/// must be running then.
fn check_issue(group: Group, context: &mut Context<'_>) -> Outcome {
    check_group(group, context)?;
    let peer = context.rank ^ 1;
    let hint = match context.cluster.blocks.get(peer) {
        _ if group == Group::One => None,
        None => Some(format!("; the cluster has no block {peer}")),
        Some(block) => block.absence(),
    };
    hint.map_or(Ok(()), |hint| Err(no_pair(context.rank, &hint)))
}

fn no_pair(rank: usize, hint: &str) -> Fault {
    let text =
        format!("`.cta_group::2` by block {rank} of a cluster, whose pair is not whole{hint}");
    Fault::synchronisation(text)
}

/// The ranks of the blocks that an instruction of a block is for, the even one first.
fn ranks(group: Group, rank: usize) -> Vec<usize> {
    match group {
        Group::One => vec![rank],
        Group::Two => vec![rank & !1, rank | 1],
    }
}
