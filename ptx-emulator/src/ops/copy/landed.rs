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
    copies: BTreeMap<Agent, Last>,
    /// What threads knew when they exited.
    known: SyncClock,
}

/// Of the copies that become known under the clock of one agent the last of each lane: its clock,
/// and where it was issued.
type Last = [Option<(u32, Issued)>; 32];

impl Landed {
    /// A copy has come.
    pub(super) fn note(&mut self, known: &Known, issuer: &Issuer) {
        let issued = issuer.issued().of(known.lanes);
        let last = self.copies.entry(known.agent).or_insert([None; 32]);
        for lane in lanes(known.lanes) {
            // Copies come in no order, and who knows of a later clock knows of the earlier ones.
            if last[lane].is_none_or(|(clock, _)| clock <= known.clock) {
                last[lane] = Some((known.clock, issued));
            }
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
        self.copies.iter().find_map(|(agent, last)| {
            let last = last.iter().enumerate();
            let mut last = last.filter_map(|(lane, own)| own.map(|own| (lane, own)));
            let forgotten =
                last.find(|(lane, (clock, _))| !self.known.knows(*agent, 1 << lane, *clock));
            forgotten.map(|(_, (_, issued))| issued)
        })
    }
}
