//! How knowledge passes between threads.

use super::knowledge::{Entry, View};
use super::shadow::MemoryKind;
use super::stamp::{Agent, Role, WarpId};
use super::{Races, Thread, Warp, each_lane};

/// The knowledge that a synchronisation object holds: everything that was released into it.
///
/// A barrier is a clock into which every thread releases on arrival and from which every thread
/// acquires on leaving; a new clock for each phase keeps the phases apart.
#[derive(Clone, Debug, Default)]
pub(crate) struct SyncClock {
    pub(super) view: View,
}

impl SyncClock {
    /// Adds the accesses of some lanes of an agent up to a clock; all 32 lanes mean the agent as a
    /// whole. An mbarrier that ends phase n adds its own agent with n + 1.
    pub(crate) fn learn(&mut self, agent: Agent, lanes: u32, clock: u32) {
        self.view.learn(Entry::new(agent, lanes, clock));
    }

    /// Whether it holds the accesses of some lanes of an agent at a clock.
    pub(crate) fn knows(&self, agent: Agent, lanes: u32, clock: u32) -> bool {
        self.view.generic.entry(agent).knows(lanes, clock)
    }

    /// Adds all that another clock holds.
    pub(crate) fn join(&mut self, other: &Self) {
        self.view.join(&other.view);
    }
}

/// How a write treats the release sequence at its address ("Release Patterns" in the PTX manual).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Modification {
    /// A store begins anew.
    Store,
    /// A read-modify-write continues what it replaces.
    ReadModifyWrite,
}

impl Warp {
    /// Calls `change` once for all neighbouring lanes that share their view, which then share the
    /// result.
    fn update(&mut self, lanes: u32, mut change: impl FnMut(&mut View)) {
        let mut last: Option<(View, View)> = None;
        for lane in each_lane(lanes) {
            let Some(thread) = self.threads.get_mut(lane) else { continue };
            match &last {
                Some((before, after)) if before.is_same(&thread.view) => {
                    thread.view = after.clone();
                }
                _ => {
                    let before = thread.view.clone();
                    change(&mut thread.view);
                    last = Some((before, thread.view.clone()));
                }
            }
        }
    }

    /// The accesses of some lanes so far.
    fn own(&self, id: WarpId, lanes: u32) -> Entry {
        Entry::new(Agent::warp(id, Role::Generic), self.widened(lanes), self.clock)
    }

    /// The views of some lanes, each once where neighbours share it.
    fn views(&self, lanes: u32) -> impl Iterator<Item = &View> {
        let mut last: Option<&View> = None;
        each_lane(lanes).filter_map(move |lane| {
            let view = &self.threads.get(lane)?.view;
            let repeated = last.is_some_and(|last| last.is_same(view));
            last = Some(view);
            (!repeated).then_some(view)
        })
    }

    /// What the lanes know and did, joined.
    pub(super) fn union(&self, lanes: u32) -> View {
        let mut views = self.views(lanes);
        let mut union = views.next().cloned().unwrap_or_default();
        views.for_each(|view| union.join(view));
        union
    }

    fn release(&mut self, id: WarpId, lanes: u32, into: &mut View) {
        for view in self.views(lanes) {
            into.join(view);
        }
        into.learn(self.own(id, lanes));
        self.tick();
    }
}

impl Thread {
    fn pending(&mut self) -> &mut View {
        self.pending.get_or_insert_default()
    }
}

impl Races {
    /// What `lanes` know and did so far joins a clock. What they do next does not.
    pub(crate) fn release(&mut self, warp: WarpId, lanes: u32, into: &mut SyncClock) {
        if lanes == 0 {
            return;
        }
        if let Some(state) = self.warp_mut(warp) {
            state.release(warp, lanes, &mut into.view);
        }
    }

    /// All that exiting `lanes` have learned joins a clock, what relaxed reads have seen too: it is
    /// seen, though it orders nothing.
    pub(crate) fn leave(&self, warp: WarpId, lanes: u32, into: &mut SyncClock) {
        let Some(Some(state)) = self.warps.get(warp.0 as usize) else { return };
        for view in state.views(lanes) {
            into.view.join(view);
        }
        let threads = each_lane(lanes).filter_map(|lane| state.threads.get(lane));
        for pending in threads.filter_map(|thread| thread.pending.as_deref()) {
            into.view.join(pending);
        }
    }

    /// `lanes` learn what a clock holds.
    pub(crate) fn acquire(&mut self, warp: WarpId, lanes: u32, from: &SyncClock) {
        if let Some(state) = self.warp_mut(warp) {
            state.update(lanes, |view| view.join(&from.view));
        }
    }

    /// A relaxed operation on a synchronisation object: it releases what its threads knew and did
    /// before their last fence.
    pub(crate) fn relaxed_release(&mut self, warp: WarpId, lanes: u32, into: &mut SyncClock) {
        let Some(state) = self.warp_mut(warp) else { return };
        for lane in each_lane(lanes) {
            let released = state.threads.get(lane).and_then(|thread| thread.released.as_deref());
            let Some((view, clock)) = released else { continue };
            into.view.join(view);
            into.view.learn(Entry::new(Agent::warp(warp, Role::Generic), 1 << lane, *clock));
        }
    }

    /// A relaxed look at a synchronisation object: what it holds becomes known with the next fence.
    pub(crate) fn relaxed_acquire(&mut self, warp: WarpId, lanes: u32, from: &SyncClock) {
        let Some(state) = self.warp_mut(warp) else { return };
        for lane in each_lane(lanes) {
            if let Some(thread) = state.threads.get_mut(lane) {
                thread.pending().join(&from.view);
            }
        }
    }

    /// `bar.warp.sync`, and every other instruction that orders the lanes of a warp.
    pub(crate) fn warp_barrier(&mut self, warp: WarpId, lanes: u32) {
        let mut clock = SyncClock::default();
        self.release(warp, lanes, &mut clock);
        self.acquire(warp, lanes, &clock);
    }

    /// `fence.proxy.async`: what `lanes` know, and their own accesses so far, become visible to
    /// the async proxy in memory of these kinds.
    pub(crate) fn proxy_fence(&mut self, warp: WarpId, lanes: u32, kinds: &[MemoryKind]) {
        if lanes == 0 {
            return;
        }
        let Some(state) = self.warp_mut(warp) else { return };
        // All lanes get the accesses of all, which keeps their views shared. A lane cannot use
        // those of another before it knows them, and the other has fenced them itself.
        let own = state.own(warp, lanes);
        state.update(lanes, |view| view.fence(own, kinds));
        state.tick();
    }

    /// `lanes` learn that asynchronous operations of theirs have completed, up to a clock: after a
    /// `wait_group`. Of [`Role::Wgmma`] a warp's operations complete as a whole, of the other
    /// roles each lane's own; leave out the lanes that had none, so that the others can share
    /// what they know.
    pub(crate) fn complete(&mut self, warp: WarpId, lanes: u32, role: Role, clock: u32) {
        let agent = Agent::warp(warp, role);
        let Some(state) = self.warp_mut(warp) else { return };
        if role == Role::Wgmma {
            let entry = Entry::new(agent, u32::MAX, clock);
            return state.update(lanes, |view| view.learn(entry));
        }
        for lane in each_lane(lanes) {
            if let Some(thread) = state.threads.get_mut(lane) {
                thread.view.learn(Entry::new(agent, 1 << lane, clock));
            }
        }
    }

    /// A write with release semantics at an address. Keys are the caller's; they must differ
    /// between addresses of different memories.
    pub(crate) fn release_at(
        &mut self,
        key: u64,
        warp: WarpId,
        lanes: u32,
        modification: Modification,
    ) {
        let mut clock = match modification {
            Modification::Store => SyncClock::default(),
            Modification::ReadModifyWrite => self.locations.remove(&key).unwrap_or_default(),
        };
        self.release(warp, lanes, &mut clock);
        self.locations.insert(key, clock);
    }

    /// A read with acquire semantics at an address.
    pub(crate) fn acquire_at(&mut self, key: u64, warp: WarpId, lanes: u32) {
        let Some(clock) = self.locations.get(&key).cloned() else { return };
        self.acquire(warp, lanes, &clock);
    }

    /// A relaxed write at an address: it releases what its thread knew and did before its last
    /// fence.
    pub(crate) fn relaxed_write_at(
        &mut self,
        key: u64,
        warp: WarpId,
        lanes: u32,
        modification: Modification,
    ) {
        let mut clock = match modification {
            Modification::Store => SyncClock::default(),
            Modification::ReadModifyWrite => self.locations.remove(&key).unwrap_or_default(),
        };
        let Some(state) = self.warp_mut(warp) else { return };
        let mut wrote = modification == Modification::ReadModifyWrite;
        for lane in each_lane(lanes) {
            let released = state.threads.get(lane).and_then(|thread| thread.released.as_deref());
            let Some((view, own_clock)) = released else { continue };
            clock.view.join(view);
            let agent = Agent::warp(warp, Role::Generic);
            clock.view.learn(Entry::new(agent, 1 << lane, *own_clock));
            wrote = true;
        }
        if wrote {
            self.locations.insert(key, clock);
        } else {
            self.locations.remove(&key);
        }
    }

    /// A relaxed read at an address: what it saw released becomes known with the next fence.
    pub(crate) fn relaxed_read_at(&mut self, key: u64, warp: WarpId, lanes: u32) {
        let Some(clock) = self.locations.get(&key).cloned() else { return };
        let Some(state) = self.warp_mut(warp) else { return };
        for lane in each_lane(lanes) {
            if let Some(thread) = state.threads.get_mut(lane) {
                thread.pending().join(&clock.view);
            }
        }
    }

    /// `fence.acq_rel` and stronger, and `membar`: makes earlier relaxed reads acquire and later
    /// relaxed writes release. Scopes do not matter here.
    pub(crate) fn fence(&mut self, warp: WarpId, lanes: u32) {
        let Some(state) = self.warp_mut(warp) else { return };
        let clock = state.clock;
        for lane in each_lane(lanes) {
            let Some(thread) = state.threads.get_mut(lane) else { continue };
            if let Some(pending) = thread.pending.take() {
                thread.view.join(&pending);
            }
            thread.released = Some(Box::new((thread.view.clone(), clock)));
        }
        state.tick();
    }
}
