//! The order of `tcgen05` instructions (PTX ISA 9.1, 9.7.16.6).
//!
//! A thread knows for its `tcgen05` instructions what it has waited for itself, and what it knew
//! otherwise at its last `tcgen05.fence::after_thread_sync`. Others learn of it what it knew at
//! its last `tcgen05.fence::before_thread_sync`, over whatever synchronises the threads. Relaxed
//! synchronisation is enough. `mma`, `cp` and `shift` of one thread are performed in the order of
//! their issue, so they always know each other; what the manual wants to be waited for all the same
//! is found when they are issued (`ops/tcgen05/pipeline.rs`).

use super::access::{AsyncAccess, AsyncOrigin};
use super::knowledge::{Entry, Knowledge, View, join, learn};
use super::observer::Observer;
use super::stamp::{Actor, Agent, Role, WarpId};
use super::sync::SyncClock;
use super::{Races, Warp, each_lane};
use std::rc::Rc;

/// A moment in the life of a warp.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    own: Agent,
    lanes: u32,
    clock: u32,
}

impl Warp {
    /// What some lanes know for `tcgen05` instructions, joined.
    pub(super) fn tensor(&self, lanes: u32) -> Rc<Knowledge> {
        let mut threads = each_lane(lanes).filter_map(|lane| self.threads.get(lane));
        let mut union = threads.next().map(|own| Rc::clone(&own.tensor)).unwrap_or_default();
        threads.for_each(|own| join(&mut union, &own.tensor));
        union
    }

    /// Calls `change` once for neighbouring lanes that know the same, which then share the result.
    fn update_tensor(&mut self, lanes: u32, change: impl Fn(&mut View, &mut Rc<Knowledge>)) {
        type Known = (View, Rc<Knowledge>);
        let mut last: Option<(Known, Known)> = None;
        for lane in each_lane(lanes) {
            let Some(thread) = self.threads.get_mut(lane) else { continue };
            match &last {
                Some(((view, tensor), after))
                    if view.is_same(&thread.view) && Rc::ptr_eq(tensor, &thread.tensor) =>
                {
                    (thread.view, thread.tensor) = after.clone();
                }
                _ => {
                    let before = (thread.view.clone(), Rc::clone(&thread.tensor));
                    change(&mut thread.view, &mut thread.tensor);
                    last = Some((before, (thread.view.clone(), Rc::clone(&thread.tensor))));
                }
            }
        }
    }
}

impl Races {
    /// `tcgen05.fence::before_thread_sync`: what `lanes` know for `tcgen05` instructions is passed
    /// on by all that they do from here on, relaxed operations included.
    pub(crate) fn tensor_fence_before(&mut self, warp: WarpId, lanes: u32) {
        let Some(state) = self.warp_mut(warp) else { return };
        state.update_tensor(lanes, |view, tensor| view.learn_all(tensor));
        for lane in each_lane(lanes) {
            let Some(thread) = state.threads.get_mut(lane) else { continue };
            thread.released.get_or_insert_default().0.learn_all(&thread.tensor);
        }
    }

    /// `tcgen05.fence::after_thread_sync`: `tcgen05` instructions of `lanes` come after what these
    /// know, through relaxed operations too.
    pub(crate) fn tensor_fence_after(&mut self, warp: WarpId, lanes: u32) {
        let Some(state) = self.warp_mut(warp) else { return };
        state.update_tensor(lanes, |view, tensor| join(tensor, &view.generic));
        for lane in each_lane(lanes) {
            let Some(thread) = state.threads.get_mut(lane) else { continue };
            if let Some(pending) = thread.pending.as_deref() {
                join(&mut thread.tensor, &pending.generic);
            }
        }
    }

    /// `tcgen05.wait`: `lanes` learn that the loads or stores of their warp have completed, up to
    /// a clock. Others do not learn it before a `tcgen05.fence::before_thread_sync`.
    pub(crate) fn tensor_complete(&mut self, warp: WarpId, lanes: u32, role: Role, clock: u32) {
        let entry = Entry::new(Agent::warp(warp, role), u32::MAX, clock);
        if let Some(state) = self.warp_mut(warp) {
            state.update_tensor(lanes, |_, tensor| learn(tensor, entry));
        }
    }

    /// Whether a lane knows, for its `tcgen05` instructions, what it issued itself up to a clock to
    /// be complete.
    pub(crate) fn tensor_knows(&self, warp: WarpId, lanes: u32, clock: u32) -> bool {
        let Some(Some(state)) = self.warps.get(warp.0 as usize) else { return true };
        let agent = Agent::warp(warp, Role::Tensor);
        let mut threads = each_lane(lanes).filter_map(|lane| state.threads.get(lane));
        threads.all(|own| own.tensor.entry(agent).knows(lanes, clock))
    }

    /// The present of a warp: what it has done so far lies before it, all else behind.
    pub(crate) fn moment(&mut self, warp: WarpId, lanes: u32) -> Moment {
        let own = Agent::warp(warp, Role::Generic);
        let Some(state) = self.warp_mut(warp) else { return Moment { own, lanes: 0, clock: 0 } };
        let clock = state.clock;
        state.tick();
        Moment { own, lanes, clock }
    }

    /// Whether one of `lanes` knows, by whatever orders threads, that a moment has passed.
    pub(crate) fn knows_moment(&self, warp: WarpId, lanes: u32, moment: Moment) -> bool {
        if moment.lanes == 0 || moment.own == Agent::warp(warp, Role::Generic) {
            return true;
        }
        let Some(Some(state)) = self.warps.get(warp.0 as usize) else { return true };
        let mut threads = each_lane(lanes).filter_map(|lane| state.threads.get(lane));
        threads.any(|own| own.view.generic.entry(moment.own).knows(moment.lanes, moment.clock))
    }

    /// A warp issues a `tcgen05.ld` or `tcgen05.st`, which knows what any of its lanes knows.
    pub(crate) fn begin_tensor(&mut self, warp: WarpId, lanes: u32) -> AsyncOrigin {
        let own = Agent::warp(warp, Role::Generic);
        let tensor = self.warp_mut(warp).map(|state| state.tensor(lanes)).unwrap_or_default();
        AsyncOrigin { view: View::default(), own, lanes, clock: 0, tensor }
    }
}

impl SyncClock {
    /// Adds all that came before an asynchronous operation whose completion is announced here.
    pub(crate) fn learn_origin(&mut self, origin: &AsyncOrigin) {
        self.view.join(&origin.view);
        self.view.learn_all(&origin.tensor);
        self.view.learn(Entry::new(origin.own, origin.lanes, origin.clock));
    }
}

impl<'a> AsyncAccess<'a> {
    /// Who accesses tensor memory.
    pub(super) fn tensor_observer(&self) -> Observer<'a> {
        let mut observer = Observer::of_knowledge(&self.origin.tensor, self.agent);
        // One thread's `mma`, `cp` and `shift` are in order; loads and stores have to be waited
        // for.
        let in_order = matches!(self.agent.actor(), Actor::Warp(_, Role::Tensor));
        observer.own_lanes = if in_order { self.lanes } else { 0 };
        observer
    }
}
