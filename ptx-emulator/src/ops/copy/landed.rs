//! Copies that have come into a block's shared memory, and whether anybody has waited for them.

use std::collections::BTreeMap;

use super::engine::{Issued, Issuer};
use super::transfer::Known;
use crate::execute::registers::lanes;
use crate::race::{Agent, Races, SyncClock, WarpId};

/// What a block has to have waited for when it ends: shared memory is another block's then, and a
/// copy that nobody waits for may come only after that. In this run it has come already.
#[derive(Debug, Default)]
pub(crate) struct Landed {
    copies: BTreeMap<Agent, Copies>,
    /// What threads knew when they exited.
    known: SyncClock,
}

/// The copies that become known under the clock of one agent.
#[derive(Debug)]
struct Copies {
    /// By lane of the agent the clock of the last one.
    clocks: [u32; 32],
    /// Where the last one was issued.
    issued: Issued,
}

impl Landed {
    /// A copy has come.
    pub(super) fn note(&mut self, known: &Known, issuer: &Issuer) {
        let issued = issuer.issued();
        let copies = self.copies.entry(known.agent).or_insert(Copies { clocks: [0; 32], issued });
        copies.issued = issued;
        for lane in lanes(known.lanes) {
            copies.clocks[lane] = copies.clocks[lane].max(known.clock);
        }
    }

    /// Threads exit: what they have waited for need not be waited for by others. Of copies that
    /// have not come yet they know nothing.
    pub(crate) fn leave(&mut self, races: &Races, warp: WarpId, mask: u32) {
        if !self.copies.is_empty() {
            races.leave(warp, mask, &mut self.known);
        }
    }

    /// Where a copy was issued that no thread which has exited knew to be complete.
    pub(super) fn forgotten(&self) -> Option<Issued> {
        let mut copies = self.copies.iter();
        let forgotten = copies.find(|(agent, copies)| {
            let mut clocks = copies.clocks.iter().enumerate();
            clocks.any(|(lane, clock)| *clock > 0 && !self.known.knows(**agent, 1 << lane, *clock))
        });
        forgotten.map(|(_, copies)| copies.issued)
    }
}
