//! `tcgen05.ld`, `tcgen05.st` and `tcgen05.wait`: between tensor memory and registers.
//!
//! A warp issues a transfer as a whole, and it happens at a random later moment. Stored registers
//! are read at issue; the registers of a load belong to it until `tcgen05.wait::ld`.

use std::sync::Arc;

use super::engine::Issuer;
use super::memory::{Cells, Effect};
use super::shape::Layout;
use super::uses::{LastUse, pieces};
use super::warp::Direction;
use super::{address, uniform};
use crate::execute::block::Cluster;
use crate::execute::grid::GridState;
use crate::execute::report::{Fault, ReportKind};
use crate::execute::{Context, Flow, Outcome, Wait};
use crate::matrix::Row;
use crate::program::operand::{Address, Source32};
use crate::race::{Agent, AsyncAccess, AsyncOrigin, Proxy, Role, Strength};

/// The most turns that a transfer takes.
const LONGEST_DELAY: u64 = 24;
/// Lanes that a warp reaches.
const QUARTER: u32 = 32;

/// A `tcgen05.ld` or `tcgen05.st`.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(super) layout: Layout,
    pub(super) address: Address,
    pub(super) registers: Registers,
}

/// What is loaded or stored.
#[derive(Debug)]
pub(super) enum Registers {
    /// Rows of words that are loaded.
    To(Arc<[u32]>),
    From(Box<[Source32]>),
}

/// A transfer under way.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) due: u64,
    pub(super) issuer: Issuer,
    pub(super) cells: Vec<Cells>,
    layout: Layout,
    /// The lane of the first cell among those of the warp.
    first: usize,
    origin: Option<AsyncOrigin>,
    clock: u32,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// The invocation and its rows that are loaded.
    To(usize, Arc<[u32]>),
    From(Vec<Row>),
}

/// The warp must be whole, and the address the same in all of its threads.
pub(super) fn check_warp(name: &str, context: &Context<'_>) -> Outcome {
    if context.mask == u32::MAX {
        return Ok(());
    }
    let lanes = context.mask.count_ones();
    let text = format!("{name} by a warp of which only {lanes} threads are left");
    Err(Fault::synchronisation(text))
}

/// Issues a transfer.
pub(super) fn issue(own: &Transfer, context: &mut Context<'_>) -> Outcome<Flow> {
    let (name, direction) = match own.registers {
        Registers::To(_) => ("tcgen05.ld", Direction::Load),
        Registers::From(_) => ("tcgen05.st", Direction::Store),
    };
    if !context.is_aligned() {
        return Ok(Flow::Wait(Wait::Lanes(context.warp.live), None));
    }
    check_warp(name, context)?;
    let addresses = address(own.address, context);
    let start = uniform(&addresses, context.mask, "tensor memory addresses")?;
    let (first, column) = reach(own.layout, start, context.warp.index, name)?;
    let lane = context.warp.index % 4 * QUARTER + first;
    let cells = own.layout.cells(context.rank, lane, column);
    for own in &cells {
        context.block().tensor.memory.check(&own.columns)?;
    }
    let content = match &own.registers {
        Registers::To(rows) => {
            // The whole warp is here, so one path has all its lanes.
            let path = context.warp.paths.iter().find(|path| path.mask & 1 != 0);
            let frame = path.map(|path| path.frame).unwrap_or_default();
            context.warp.tensor.take(rows, frame, context.line);
            Content::To(frame, Arc::clone(rows))
        }
        Registers::From(rows) => {
            let registers = &context.frame.registers;
            Content::From(rows.iter().map(|row| registers.words(*row)).collect())
        }
    };
    let (warp, mask) = (context.warp.id, context.mask);
    let checked = context.grid.is_checked();
    let used = cells.iter().fold(0, |all, own| all | pieces(&own.columns));
    let pending = Pending {
        due: context.grid.now + 1 + context.grid.random.below(LONGEST_DELAY),
        issuer: Issuer::of(context, mask),
        cells,
        layout: own.layout,
        first: first as usize,
        origin: checked.then(|| context.grid.races.begin_tensor(warp, mask)),
        clock: context.warp.tensor.begin(direction, used),
        content,
    };
    context.grid.progress += 1;
    context.cluster.tensor.transfer(pending);
    Ok(Flow::Next)
}

/// The first lane among those of the warp, and the first column. The manual wants the lane of the
/// address to be the warp's; hardware ignores which quarter it is in, and common kernels leave it
/// zero.
fn reach(layout: Layout, start: u32, warp: u32, name: &str) -> Outcome<(u32, u32)> {
    let (lane, column) = (start >> 16, start & 0xFFFF);
    let quarter = warp % 4 * QUARTER;
    let offsets: &[u32] = if layout.is_whole() { &[0] } else { &[0, QUARTER / 2] };
    let found = offsets.iter().find(|own| lane == **own || lane == quarter + **own);
    if let Some(first) = found {
        return Ok((*first, column));
    }
    let last = quarter + QUARTER - 1;
    let wanted = if layout.is_whole() { "" } else { ", in its first or its second half" };
    let text = format!(
        "{name} at lane {lane} of tensor memory by warp {warp}, which reaches lanes {quarter} to \
         {last}{wanted}"
    );
    Err(ReportKind::TensorMemory(text).into())
}

impl Pending {
    /// Whether it may touch columns of a block.
    pub(super) fn uses(&self, rank: usize, columns: &std::ops::Range<u32>) -> bool {
        self.cells.iter().any(|own| own.touches(rank, columns))
    }

    /// What it is called.
    pub(super) fn name(&self) -> &'static str {
        match self.content {
            Content::To(..) => "tcgen05.ld",
            Content::From(_) => "tcgen05.st",
        }
    }

    /// Carries it out.
    pub(super) fn perform(&self, cluster: &mut Cluster, grid: &mut GridState) -> Outcome {
        let Issuer { rank, warp_index, .. } = self.issuer;
        let Some(block) = cluster.blocks.get_mut(rank) else { return Ok(()) };
        let (role, effect, direction) = match self.content {
            Content::To(..) => (Role::TensorLoad, Effect::Read, Direction::Load),
            Content::From(_) => (Role::TensorStore, Effect::Write, Direction::Store),
        };
        let memory = &mut block.tensor.memory;
        if let Some(origin) = &self.origin {
            let access = AsyncAccess {
                origin,
                agent: Agent::warp(self.issuer.warp, role),
                lanes: u32::MAX,
                clock: self.clock,
                strength: Strength::Weak,
                proxy: Proxy::Tensor,
                site: self.issuer.line,
            };
            for cells in &self.cells {
                memory.note(&mut grid.races, &access, cells, effect)?;
                if effect == Effect::Read {
                    memory.check_written(cells)?;
                }
            }
        }
        let quarter = warp_index as usize % 4;
        let columns = self.cells.iter().flat_map(|own| own.columns.clone());
        let mut tile: Vec<Row> = match self.content {
            Content::To(..) => columns.map(|own| memory.quarter(own, quarter)).collect(),
            Content::From(_) => columns.map(|_| [0; 32]).collect(),
        };
        match &self.content {
            Content::From(rows) => {
                for (register, values) in (0..).zip(rows) {
                    self.layout.scatter(register, self.first, values, &mut tile);
                }
                self.write(&tile, memory, quarter);
            }
            Content::To(frame, rows) => {
                let warp = block.warps.get_mut(warp_index as usize).and_then(Option::as_mut);
                let frame = warp.and_then(|own| own.frames.get_mut(*frame)?.as_mut());
                let Some(frame) = frame else { return Ok(()) };
                for (register, row) in (0..).zip(rows.iter()) {
                    let values = self.layout.gather(register, self.first, &tile);
                    *frame.registers.word_row_mut(*row) = values;
                }
            }
        }
        if let Some(warp) = block.warps.get_mut(warp_index as usize).and_then(Option::as_mut) {
            warp.tensor.note_performed(direction);
        }
        Ok(())
    }

    fn write(&self, tile: &[Row], memory: &mut super::memory::TensorMemory, quarter: usize) {
        let columns = self.cells.iter().flat_map(|own| {
            let lanes = own.lanes;
            own.columns.clone().map(move |column| (column, lanes))
        });
        for ((column, lanes), row) in columns.zip(tile) {
            memory.set_quarter(column, quarter, (lanes >> (32 * quarter)) as u32, row);
        }
    }
}

/// `tcgen05.wait`: all earlier transfers of the warp in a direction must be complete.
pub(super) fn wait(direction: Direction, context: &mut Context<'_>) -> Outcome<Flow> {
    if !context.is_aligned() {
        return Ok(Flow::Wait(Wait::Lanes(context.warp.live), None));
    }
    check_warp(direction.wait(), context)?;
    let Some((clock, used)) = context.warp.tensor.wait(direction) else {
        return Ok(Flow::Wait(Wait::Tensor(direction.what()), None));
    };
    if context.grid.is_checked() {
        let (warp, lanes, role) = (context.warp.id, context.warp.live, direction.role());
        context.grid.races.tensor_complete(warp, lanes, role, clock);
        let own = LastUse {
            pieces: used,
            warp: context.warp.index,
            moment: context.grid.races.moment(warp, lanes),
            line: context.line,
        };
        context.block().tensor.uses.note(own);
    }
    Ok(Flow::Next)
}
