//! `tcgen05.commit`: an arrival on mbarriers when earlier operations of the thread are complete
//! (PTX ISA 9.1, 9.7.16.12).

use super::engine::{Task, Work, issue as enqueue};
use super::{Group, check_issue};
use crate::execute::block::Cluster;
use crate::execute::registers::lanes;
use crate::execute::report::Fault;
use crate::execute::{Context, Outcome};
use crate::ops::access::{Space, addresses};
use crate::ops::mbarrier::{self, SharedPlace, Wanted};
use crate::program::operand::{Address, Source32};
use crate::race::AsyncOrigin;

/// `tcgen05.commit`.
#[derive(Clone, Debug)]
pub(crate) struct Commit {
    pub(super) group: Group,
    pub(super) space: Space,
    pub(super) barrier: Address,
    /// Ranks of the blocks whose barriers at the same offset are meant, for multicast.
    pub(super) ranks: Option<Source32>,
}

/// The arrival.
#[derive(Debug)]
pub(super) struct Arrival {
    /// Offset of the mbarrier in each block.
    offset: u32,
    ranks: u32,
    /// Turns that it comes late.
    pub(super) lag: u64,
    /// What the thread knew when it issued what is committed.
    pub(super) before: Option<AsyncOrigin>,
}

/// Commits what the executing threads have issued.
pub(super) fn issue(own: &Commit, context: &mut Context<'_>) -> Outcome {
    check_issue(own.group, context)?;
    let barriers = addresses(own.barrier, context);
    let masks = own.ranks.map(|ranks| context.frame.registers.words(ranks));
    for lane in lanes(context.mask) {
        let wanted = Wanted { access: "tcgen05.commit", bytes: 8, alignment: 8 };
        let at = (lane, barriers[lane]);
        let place = SharedPlace::find(context.cluster, context.rank, own.space, at, wanted)?;
        let ranks = match masks {
            Some(masks) => check_ranks(context, lane, masks[lane] & 0xFFFF)?,
            None => 1 << place.rank,
        };
        for rank in lanes(ranks) {
            let place = SharedPlace { rank, ..place };
            let found = context.cluster.blocks[rank].mbarriers.get(place.offset).map(drop);
            found.map_err(|problem| complaint(lane, place, &problem))?;
        }
        let arrival = Arrival { offset: place.offset, ranks, lag: 0, before: None };
        enqueue(context, lane, Work::Commit(Box::new(arrival)));
    }
    Ok(())
}

fn complaint(lane: usize, place: SharedPlace, problem: &str) -> Fault {
    mbarrier::fault(lane, place, &format!("a tcgen05.commit is to arrive on it: {problem}"))
}

fn check_ranks(context: &Context<'_>, lane: usize, mask: u32) -> Outcome<u32> {
    let blocks = context.cluster.blocks.len() as u32;
    let wrong = |hint: &str| {
        let text = format!("multicast to blocks {mask:#x} of a cluster of {blocks}{hint}");
        Err(Fault { lane: Some(lane as u32), ..Fault::operand(text) })
    };
    if mask == 0 || mask.checked_shr(blocks).unwrap_or(0) != 0 {
        return wrong("");
    }
    for rank in lanes(mask).filter(|rank| *rank != context.rank) {
        if let Some(hint) = context.cluster.blocks[rank].absence() {
            return wrong(&hint);
        }
    }
    Ok(mask)
}

impl Arrival {
    /// The mbarrier at `offset` of block `rank` ends, and with it the arrival there.
    pub(super) fn forget(&mut self, rank: usize, offset: u32) {
        if self.offset == offset {
            self.ranks &= !(1 << rank);
        }
    }

    pub(super) fn perform(&self, task: &Task, cluster: &mut Cluster) -> Outcome {
        let lane = task.issuer.lanes.trailing_zeros() as usize & 31;
        for rank in lanes(self.ranks) {
            let Some(block) = cluster.blocks.get_mut(rank) else { continue };
            let place = SharedPlace { rank, offset: self.offset };
            if block.live_threads == 0 {
                // Compilers let a block end before its own commits have arrived: what they commit
                // is complete with what was waited for.
                if rank == task.issuer.rank {
                    continue;
                }
                return Err(complaint(lane, place, "its block has exited"));
            }
            let found = block.mbarriers.get(place.offset).and_then(|barrier| {
                let known = barrier.current();
                for origin in self.before.iter().chain(&task.origin) {
                    known.learn_origin(origin);
                }
                known.learn(task.agent(), task.issuer.lanes, task.clock);
                barrier.arrive(1, false, true)
            });
            found.map_err(|problem| complaint(lane, place, &problem))?;
        }
        Ok(())
    }
}
