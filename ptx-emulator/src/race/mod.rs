//! Finds data races: accesses to the same byte that nothing orders, where one of the two writes.
//!
//! The method is that of vector clocks with the last accesses per byte (FastTrack, Flanagan and
//! Freund, 2009), extended by lanes and by the async proxy of PTX. It finds a race from the order
//! the program enforces, not from the order in which the emulator happened to run it, so one run
//! is enough for most. It never reports accesses that are ordered. It may miss a race: of several
//! unordered readers of a byte only one is kept, a write hides the writes before it, scopes are
//! ignored, so a fence of too narrow a scope counts, and a store that finds its own value, stored
//! by another that nothing orders before it, is none: two threads that should be ordered, but store
//! the same, are missed. Who reads the value must be ordered behind the later of the two only.
//!
//! - An [`Agent`] is a source of accesses with a clock: a warp's ordinary accesses, its bulk
//!   copies, its `wgmma`, or the copies that complete on one mbarrier.
//! - A thread knows, of each agent, the accesses up to some clock. Synchronisation carries
//!   knowledge from thread to thread, through a [`SyncClock`].
//! - An access is right if its thread knows the earlier accesses to the same bytes, which a
//!   [`Shadow`] remembers. A thread knows its own accesses, but not those of other lanes of its
//!   warp, until a barrier of the warp or block orders them.
//! - The async proxy additionally needs ordinary writes to be made visible by a proxy fence, by
//!   the writer or by anyone who knows the write ("Async proxy" in the PTX manual). So knowledge
//!   comes twice: what happened before, and which part of it a proxy fence followed.
//! - Tensor memory is reached by `tcgen05` instructions alone, which are ordered with those of
//!   other threads only through `tcgen05.fence`. What a thread knows for them is kept apart: see
//!   `tensor.rs`.

mod access;
mod knowledge;
mod observer;
mod report;
mod shadow;
mod stamp;
mod stored;
mod sync;
mod tensor;
#[cfg(test)]
mod tests;

pub(crate) use access::{AsyncAccess, AsyncOrigin, LaneAccess, Overlap, Proxy, Strength};
pub(crate) use report::{RaceKind, Report};
pub(crate) use shadow::{MemoryKind, Shadow};
pub(crate) use stamp::{Agent, Role, WarpId};
pub(crate) use stored::Stored;
pub(crate) use sync::{Modification, SyncClock};
pub(crate) use tensor::Moment;

use knowledge::{Knowledge, View};
use std::collections::HashMap;
use std::rc::Rc;

/// The lanes of a warp.
const LANES: usize = 32;

/// Where a warp is, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WarpName {
    /// The index of its block in the grid.
    pub(crate) block: [u32; 3],
    /// Its index in the block.
    pub(crate) index: u32,
}

/// What one thread knows.
#[derive(Clone, Debug)]
struct Thread {
    view: View,
    /// What relaxed reads have seen; a fence adds it to the view.
    pending: Option<Box<View>>,
    /// The view at the last fence and the own clock then; relaxed writes release it.
    released: Option<Box<(View, u32)>>,
    /// What `tcgen05` instructions of this thread come after.
    tensor: Rc<Knowledge>,
}

#[derive(Debug)]
struct Warp {
    /// Grows after each release, so that later accesses are not taken for released ones.
    clock: u32,
    /// The lanes that exist.
    lanes: u32,
    threads: [Thread; LANES],
}

impl Warp {
    /// All lanes, if these are all that exist: knowledge of a whole warp needs no mask.
    fn widened(&self, lanes: u32) -> u32 {
        if lanes & self.lanes == self.lanes { u32::MAX } else { lanes }
    }

    fn tick(&mut self) {
        self.clock = self.clock.saturating_add(1);
    }
}

/// The threads of one launch and what they know. A new launch needs a new one, and new
/// [`Shadow`]s.
#[derive(Debug)]
pub(crate) struct Races {
    /// A warp that ended leaves its place empty.
    warps: Vec<Option<Box<Warp>>>,
    names: Vec<WarpName>,
    barriers: u32,
    locations: HashMap<u64, SyncClock>,
    random: u64,
}

impl Races {
    /// A launch without warps. The seed decides which of several unordered readers are kept.
    pub(crate) fn new(seed: u64) -> Self {
        // Zero is the one state from which xorshift does not move.
        let random = seed ^ 0x9e37_79b9_7f4a_7c15;
        Self {
            warps: Vec::new(),
            names: Vec::new(),
            barriers: 0,
            locations: HashMap::new(),
            random: random.max(1),
        }
    }

    /// A warp begins, knowing nothing. `lanes` are the threads it has.
    pub(crate) fn start_warp(&mut self, lanes: u32, name: WarpName) -> WarpId {
        self.names.push(name);
        let (view, tensor) = (View::default(), Rc::default());
        let thread = Thread { view, pending: None, released: None, tensor };
        let threads = std::array::from_fn(|_| thread.clone());
        self.warps.push(Some(Box::new(Warp { clock: 1, lanes, threads })));
        WarpId((self.warps.len() - 1) as u32)
    }

    /// A warp has ended and its memory is freed. Its accesses stay on record; whatever is still
    /// asked of it has no effect.
    pub(crate) fn end_warp(&mut self, warp: WarpId) {
        if let Some(slot) = self.warps.get_mut(warp.0 as usize) {
            *slot = None;
        }
    }

    /// The agent of an mbarrier, new with each `mbarrier.init`. An asynchronous copy that
    /// completes in phase n, from 0, has clock n + 1.
    pub(crate) fn new_barrier(&mut self) -> Agent {
        let agent = Agent::barrier(self.barriers);
        self.barriers = self.barriers.saturating_add(1);
        agent
    }

    fn warp_mut(&mut self, warp: WarpId) -> Option<&mut Warp> {
        self.warps.get_mut(warp.0 as usize)?.as_deref_mut()
    }
}

/// The lanes of a mask, from the lowest.
fn each_lane(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (mask != 0).then(|| {
            let lane = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            lane
        })
    })
}
