//! `tcgen05.alloc`, `dealloc` and `relinquish_alloc_permit` (PTX ISA 9.1, 9.7.16.7).

use std::ops::Range;

use super::memory::{COLUMNS, SMALLEST};
use super::transfer::check_warp;
use super::uses::pieces;
use super::{Group, check_group, no_pair, uniform};
use crate::execute::block::{Block, Cluster};
use crate::execute::grid::EngineFault;
use crate::execute::report::{Fault, ReportKind};
use crate::execute::{Context, Flow, Outcome, Wait};
use crate::ops::access::{self, Access, Space};
use crate::program::operand::{Address, Source32};
use crate::race::Strength;

/// `tcgen05.alloc`.
#[derive(Clone, Debug)]
pub(crate) struct Allocate {
    pub(super) group: Group,
    /// Where the address goes.
    pub(super) space: Space,
    pub(super) to: Address,
    pub(super) columns: Source32,
}

/// `tcgen05.dealloc`.
#[derive(Clone, Debug)]
pub(crate) struct Free {
    pub(super) group: Group,
    pub(super) address: Source32,
    pub(super) columns: Source32,
}

/// What the two warps of a pair of blocks do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Allocate { columns: u32 },
    Free { start: u32, columns: u32 },
}

/// A warp that waits for the other block of its pair.
#[derive(Debug)]
pub(super) struct Request {
    action: Action,
    warp: u32,
    line: u32,
    /// The first column, once the other warp has come and it is done.
    done: Option<u32>,
}

fn fault(text: impl Into<String>) -> Fault {
    ReportKind::TensorMemory(text.into()).into()
}

/// A number of columns that can be allocated.
pub(super) fn check_columns(columns: u32) -> Result<u32, String> {
    if columns.is_power_of_two() && (SMALLEST..=COLUMNS).contains(&columns) {
        return Ok(columns);
    }
    Err(format!("{columns} columns of tensor memory; allocations have 32, 64, 128, 256 or 512"))
}

/// Allocates, or waits until that is possible.
pub(super) fn allocate(own: &Allocate, context: &mut Context<'_>) -> Outcome<Flow> {
    if !context.is_aligned() {
        return Ok(Flow::Wait(Wait::Lanes(context.warp.live), None));
    }
    check_warp("tcgen05.alloc", context)?;
    check_group(own.group, context)?;
    if let Some(line) = context.block().tensor.relinquished {
        return Err(fault(format!(
            "tcgen05.alloc after the tcgen05.relinquish_alloc_permit in PTX line {line}"
        )));
    }
    let columns = context.frame.registers.words(own.columns);
    let columns = uniform(&columns, context.mask, "numbers of columns")?;
    let columns = check_columns(columns).map_err(Fault::operand)?;
    let found = match own.group {
        Group::One => allocate_alone(columns, context),
        Group::Two => together(Action::Allocate { columns }, context)?,
    };
    let Some(start) = found else {
        return Ok(Flow::Wait(Wait::Tensor("waits for free columns of tensor memory"), None));
    };
    context.grid.progress += 1;
    write_address(own, start, context)?;
    Ok(Flow::Next)
}

fn allocate_alone(columns: u32, context: &mut Context<'_>) -> Option<u32> {
    let who = (context.line, context.warp.index);
    let random = &mut context.grid.random;
    let memory = &mut context.cluster.blocks[context.rank].tensor.memory;
    memory.from_top.get_or_insert_with(|| random.below(2) == 1);
    let start = memory.free_place(columns, None)?;
    memory.allocate(start..start + columns, who, random);
    Some(start)
}

/// The address becomes known as if a thread of the warp had stored it.
fn write_address(own: &Allocate, start: u32, context: &mut Context<'_>) -> Outcome {
    let addresses = access::addresses(own.to, context);
    let narrow = addresses.map(|address| address as u32);
    uniform(&narrow, context.mask, "addresses for the address of their columns")?;
    let mut data = [[0; 4]; 32];
    data[0] = start.to_le_bytes();
    let access = Access { space: own.space, name: "tcgen05.alloc", bytes: 4, alignment: 4 };
    access::visit(context, access, &addresses, 1, |region| {
        if region.space != "shared" {
            return Err(Fault::operand("tcgen05.alloc writes to shared memory only"));
        }
        region.note_store(Strength::Weak, data.as_flattened())?;
        region.write(&data);
        Ok(())
    })
}

/// Takes columns back.
pub(super) fn free(own: &Free, context: &mut Context<'_>) -> Outcome<Flow> {
    if !context.is_aligned() {
        return Ok(Flow::Wait(Wait::Lanes(context.warp.live), None));
    }
    check_warp("tcgen05.dealloc", context)?;
    check_group(own.group, context)?;
    let registers = &context.frame.registers;
    let (addresses, columns) = (registers.words(own.address), registers.words(own.columns));
    let start = uniform(&addresses, context.mask, "tensor memory addresses")?;
    let columns = uniform(&columns, context.mask, "numbers of columns")?;
    let columns = check_columns(columns).map_err(Fault::operand)?;
    check_last_uses(start..start.saturating_add(columns), context)?;
    let done = match own.group {
        Group::One => {
            free_columns(context.cluster, context.rank, start, columns)?;
            Some(start)
        }
        Group::Two => together(Action::Free { start, columns }, context)?,
    };
    if done.is_none() {
        let what = "waits to deallocate tensor memory together with the other block of its pair";
        return Ok(Flow::Wait(Wait::Tensor(what), None));
    }
    context.grid.progress += 1;
    Ok(Flow::Next)
}

/// The warps of the block that used the columns must be known to have waited for that. Knowledge
/// of ordinary instructions is enough: no fence of `tcgen05` is asked for.
fn check_last_uses(columns: Range<u32>, context: &mut Context<'_>) -> Outcome {
    if !context.grid.is_checked() {
        return Ok(());
    }
    let (warp, mask) = (context.warp.id, context.mask);
    let races = &context.grid.races;
    let block = &context.cluster.blocks[context.rank];
    let mut uses = block.tensor.uses.of(pieces(&columns));
    let Some(other) = uses.find(|own| !races.knows_moment(warp, mask, own.moment)) else {
        return Ok(());
    };
    Err(fault(format!(
        "tcgen05.dealloc of columns that warp {} may still use: nothing orders its tcgen05.wait in \
         PTX line {} before",
        other.warp, other.line
    )))
}

/// Nothing may be under way in columns that are given back.
fn free_columns(cluster: &mut Cluster, rank: usize, start: u32, columns: u32) -> Outcome {
    if let Some((name, line)) = cluster.tensor.user(rank, &(start..start.saturating_add(columns))) {
        return Err(fault(format!(
            "tcgen05.dealloc of columns that the {name} in PTX line {line} may still use"
        )));
    }
    let state = &mut cluster.blocks[rank].tensor;
    state.uses.forget(pieces(&(start..start.saturating_add(columns))));
    let freed = state.memory.free(start, columns);
    freed.map_err(|problem| {
        fault(format!("tcgen05.dealloc of {columns} columns at {start:#010x}: {problem}"))
    })
}

/// Does something in both blocks of a pair, once a warp of each has come. Returns the first column
/// when it is done.
fn together(action: Action, context: &mut Context<'_>) -> Outcome<Option<u32>> {
    let (rank, peer) = (context.rank, context.rank ^ 1);
    let (warp, line) = (context.warp.index, context.line);
    let blocks = &mut context.cluster.blocks;
    let state = &mut blocks[rank].tensor;
    match &state.request {
        Some(own) if own.warp != warp => return Ok(None),
        Some(Request { done: Some(start), .. }) => {
            let start = *start;
            state.request = None;
            return Ok(Some(start));
        }
        Some(_) => {}
        None => {
            state.request = Some(Request { action, warp, line, done: None });
            context.grid.progress += 1;
        }
    }
    // A block that has not started is waited for like one whose warp has not come.
    let hint = match blocks.get(peer) {
        None => Some(format!("; the cluster has no block {peer}")),
        Some(other) if other.live_threads == 0 => other.absence(),
        Some(_) => None,
    };
    if let Some(hint) = hint {
        return Err(no_pair(rank, &hint));
    }
    let Some(other) = blocks[peer].tensor.request.as_ref().filter(|own| own.done.is_none()) else {
        return Ok(None);
    };
    if other.action != action {
        return Err(fault(format!(
            "the blocks of a pair must do the same with tensor memory: one {}, the other {} in \
             PTX line {}",
            action.describe(),
            other.action.describe(),
            other.line
        )));
    }
    let theirs = (other.line, other.warp);
    let start = match action {
        Action::Allocate { columns } => {
            let random = &mut context.grid.random;
            let from_top = blocks[rank & !1].tensor.memory.from_top;
            let from_top = from_top.unwrap_or_else(|| random.below(2) == 1);
            let Ok([own, other]) = blocks.get_disjoint_mut([rank, peer]) else { return Ok(None) };
            let (own, other) = (&mut own.tensor.memory, &mut other.tensor.memory);
            (own.from_top, other.from_top) = (Some(from_top), Some(from_top));
            let Some(start) = own.free_place(columns, Some(other)) else { return Ok(None) };
            own.allocate(start..start + columns, (line, warp), random);
            other.allocate(start..start + columns, theirs, random);
            start
        }
        Action::Free { start, columns } => {
            free_columns(context.cluster, rank, start, columns)?;
            free_columns(context.cluster, peer, start, columns)?;
            start
        }
    };
    let blocks = &mut context.cluster.blocks;
    if let Some(other) = &mut blocks[peer].tensor.request {
        other.done = Some(start);
    }
    blocks[rank].tensor.request = None;
    Ok(Some(start))
}

impl Action {
    fn describe(self) -> String {
        match self {
            Self::Allocate { columns } => format!("allocates {columns} columns"),
            Self::Free { start, columns } => {
                format!("deallocates {columns} columns at {start:#010x}")
            }
        }
    }
}

/// `tcgen05.relinquish_alloc_permit`: the block allocates no more.
pub(super) fn relinquish(group: Group, context: &mut Context<'_>) -> Outcome<Flow> {
    if !context.is_aligned() {
        return Ok(Flow::Wait(Wait::Lanes(context.warp.live), None));
    }
    check_warp("tcgen05.relinquish_alloc_permit", context)?;
    check_group(group, context)?;
    let line = context.line;
    context.block().tensor.relinquished.get_or_insert(line);
    Ok(Flow::Next)
}

/// A block must have given its columns back when it ends.
pub(crate) fn check_end(cluster: &Cluster, rank: usize) -> Result<(), EngineFault> {
    let Some(block) = cluster.blocks.get(rank) else { return Ok(()) };
    let Block { index, tensor, .. } = block;
    let Some(left) = tensor.memory.allocations().first() else { return Ok(()) };
    let (start, end) = (left.columns.start, left.columns.end);
    let fault = fault(format!(
        "a block ends, and nobody has deallocated columns {start} to {end} of its tensor memory"
    ));
    let (line, block, warp) = (left.line, *index, left.warp);
    Err(EngineFault { fault, line, block, warp, lanes: u32::MAX })
}
