//! Which instructions of one thread are in order without a wait ("Pipelined tcgen05 Instructions",
//! PTX ISA 9.1, 9.7.16.6.2).
//!
//! Products follow each other in order if they have the same accumulator and the same shape; others
//! have to be waited for where they meet. A shift is in order with the products around it and with
//! `tcgen05.cp.4x256b` behind it, and with nothing else: two shifts, or a copy and a shift, have to
//! be waited for, or a product stands between, which comes after the one and before the other.

use super::memory::Cells;
use crate::execute::Outcome;
use crate::execute::report::{Fault, ReportKind};
use crate::race::{Races, WarpId};

/// What tells accumulators apart: the address of D, M and N.
pub(super) type Accumulator = (u32, u32, u32);

/// A product that its thread does not know to be complete.
#[derive(Debug)]
struct Recent {
    accumulator: Accumulator,
    written: Vec<Cells>,
    line: u32,
    /// The clock at which a commit makes it known.
    clock: u32,
}

/// What moves data in tensor memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Movement {
    Shift,
    /// `tcgen05.cp.4x256b`.
    NarrowCopy,
    /// `tcgen05.cp` of other shapes.
    Copy,
}

impl Movement {
    fn name(self) -> &'static str {
        match self {
            Self::Shift => "tcgen05.shift",
            Self::NarrowCopy | Self::Copy => "tcgen05.cp",
        }
    }

    /// Whether it is in order behind another one. Copies are, as libraries rely on.
    fn follows(self, earlier: Self) -> bool {
        match (earlier, self) {
            (_, Self::Shift) | (Self::Shift, Self::Copy) => false,
            (_, Self::NarrowCopy) | (Self::NarrowCopy | Self::Copy, Self::Copy) => true,
        }
    }
}

/// A movement that its thread does not know to be complete, without a product behind.
#[derive(Debug)]
pub(super) struct Moved {
    pub(super) movement: Movement,
    /// What it reads and writes.
    pub(super) cells: Vec<Cells>,
    pub(super) line: u32,
    /// The clock at which a commit makes it known.
    pub(super) clock: u32,
}

/// The products of a thread, the last with each accumulator, and what it has moved since, the last
/// time at each place.
#[derive(Debug, Default)]
pub(super) struct Pipeline {
    products: Vec<Recent>,
    movements: Vec<Moved>,
}

/// A product that is issued.
pub(super) struct Issued<'a> {
    pub(super) accumulator: Accumulator,
    pub(super) read: &'a [Cells],
    pub(super) written: &'a [Cells],
    pub(super) line: u32,
    pub(super) clock: u32,
}

impl Pipeline {
    /// One more product: it must not meet an accumulator of another kind that may still be
    /// written.
    pub(super) fn push(
        &mut self,
        own: &Issued<'_>,
        races: &Races,
        (warp, lanes): (WarpId, u32),
    ) -> Outcome {
        self.products.retain(|earlier| !races.tensor_knows(warp, lanes, earlier.clock));
        let others = self.products.iter().filter(|other| other.accumulator != own.accumulator);
        for earlier in others {
            let cells = own.written.iter().chain(own.read);
            let Some(address) = first_shared(cells, &earlier.written) else { continue };
            let what = "tcgen05.mma";
            let how = ", which writes there with another accumulator or shape";
            return Err(unordered(address, (what, earlier.line), how));
        }
        let (accumulator, line, clock) = (own.accumulator, own.line, own.clock);
        self.products.retain(|earlier| earlier.accumulator != accumulator);
        self.products.push(Recent { accumulator, written: own.written.to_vec(), line, clock });
        // What moves behind it is in order with what has moved before it.
        self.movements.clear();
        Ok(())
    }

    /// One more copy or shift: it must not meet one that it does not follow in order.
    pub(super) fn push_movement(
        &mut self,
        own: Moved,
        races: &Races,
        (warp, lanes): (WarpId, u32),
    ) -> Outcome {
        self.movements.retain(|earlier| !races.tensor_knows(warp, lanes, earlier.clock));
        let others = self.movements.iter().filter(|other| !own.movement.follows(other.movement));
        for earlier in others {
            let Some(address) = first_shared(own.cells.iter(), &earlier.cells) else { continue };
            return Err(unordered(address, (earlier.movement.name(), earlier.line), ""));
        }
        let is_same = |other: &Moved| other.movement == own.movement && other.cells == own.cells;
        self.movements.retain(|earlier| !is_same(earlier));
        self.movements.push(own);
        Ok(())
    }
}

/// The address of the first cell that both have.
fn first_shared<'a>(mut some: impl Iterator<Item = &'a Cells>, others: &[Cells]) -> Option<u32> {
    some.find_map(|own| others.iter().find_map(|other| own.first_shared(other)))
}

fn unordered(address: u32, (earlier, line): (&str, u32), how: &str) -> Fault {
    let detail = format!(
        "nothing orders it after the {earlier} by the same thread in PTX line {line}{how}; wanted \
         between: `tcgen05.commit`, a wait for its mbarrier and `tcgen05.fence::after_thread_sync`"
    );
    ReportKind::Race { space: "tensor", address: address.into(), detail }.into()
}
