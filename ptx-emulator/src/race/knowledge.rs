//! What is known to have happened: vector clocks with lanes.

use super::shadow::MemoryKind;
use super::stamp::Agent;
use std::cmp::Ordering;
use std::rc::Rc;

/// What is known of one agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) agent: Agent,
    /// The accesses of all lanes up to this clock are known.
    pub(super) full: u32,
    /// The lanes of which more is known.
    pub(super) lanes: u32,
    /// The accesses of `lanes` up to this clock are known.
    pub(super) lane_clock: u32,
}

impl Entry {
    /// All accesses of some lanes up to a clock.
    pub(super) fn new(agent: Agent, lanes: u32, clock: u32) -> Self {
        if lanes == u32::MAX {
            return Self { agent, full: clock, lanes: 0, lane_clock: 0 };
        }
        Self { agent, full: 0, lanes, lane_clock: clock }
    }

    /// Whether the accesses of all of `lanes` at a clock are known.
    #[inline]
    pub(super) fn knows(&self, lanes: u32, clock: u32) -> bool {
        clock <= self.full || (clock <= self.lane_clock && lanes & !self.lanes == 0)
    }

    fn covers(&self, other: &Self) -> bool {
        self.full >= other.full && (other.lanes == 0 || self.knows(other.lanes, other.lane_clock))
    }

    /// Knowledge of both, and sometimes a little more: where each side knows other lanes up to
    /// another clock, all these lanes count as known up to the later one. What is not known in
    /// truth may then pass as known, so a race may be missed, but none is invented.
    fn join(&self, other: &Self) -> Self {
        let full = self.full.max(other.full);
        let mut joined = Self { agent: self.agent, full, lanes: 0, lane_clock: 0 };
        for side in [self, other] {
            if side.lanes != 0 && side.lane_clock > full {
                joined.lanes |= side.lanes;
                joined.lane_clock = joined.lane_clock.max(side.lane_clock);
            }
        }
        if joined.lanes == u32::MAX {
            return Self::new(self.agent, u32::MAX, joined.lane_clock);
        }
        joined
    }
}

/// What is known of all agents, sorted by agent.
#[derive(Clone, Debug, Default)]
pub(super) struct Knowledge {
    entries: Vec<Entry>,
}

impl Knowledge {
    /// What is known of an agent, nothing if it has no entry.
    pub(super) fn entry(&self, agent: Agent) -> Entry {
        if agent == Agent::UNTRACKED {
            return Entry::new(agent, u32::MAX, u32::MAX);
        }
        // The warps of a block are numbered one after another, and a thread that was at a barrier
        // mostly knows all of them, each in one role: the place is found without a search.
        if let Some(first) = self.entries.first()
            && let Some(entry) = self.entries.get(agent.warps_from(first.agent))
            && entry.agent == agent
        {
            return *entry;
        }
        let found = self.entries.binary_search_by_key(&agent, |entry| entry.agent);
        let entry = found.ok().and_then(|index| self.entries.get(index));
        entry.copied().unwrap_or(Entry::new(agent, 0, 0))
    }

    pub(super) fn learn(&mut self, learned: Entry) {
        match self.entries.binary_search_by_key(&learned.agent, |entry| entry.agent) {
            Ok(index) => {
                if let Some(entry) = self.entries.get_mut(index) {
                    *entry = entry.join(&learned);
                }
            }
            Err(index) => self.entries.insert(index, learned),
        }
    }

    fn covers(&self, other: &Self) -> bool {
        if other.entries.len() > self.entries.len() {
            return false;
        }
        let mut mine = self.entries.iter();
        other.entries.iter().all(|entry| {
            mine.find(|candidate| candidate.agent >= entry.agent)
                .is_some_and(|found| found.agent == entry.agent && found.covers(entry))
        })
    }

    fn joined(&self, other: &Self) -> Self {
        let mut entries = Vec::with_capacity(self.entries.len() + other.entries.len());
        let mut left = self.entries.iter().peekable();
        let mut right = other.entries.iter().peekable();
        while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
            match a.agent.cmp(&b.agent) {
                Ordering::Less => entries.extend(left.next()),
                Ordering::Greater => entries.extend(right.next()),
                Ordering::Equal => {
                    entries.push(a.join(b));
                    left.next();
                    right.next();
                }
            }
        }
        entries.extend(left);
        entries.extend(right);
        Self { entries }
    }
}

/// Adds `other` to `target`. Nothing is copied where one of the two covers the other, so that
/// threads that learn the same end up sharing it.
pub(super) fn join(target: &mut Rc<Knowledge>, other: &Rc<Knowledge>) {
    if Rc::ptr_eq(target, other) || target.covers(other) {
        return;
    }
    if other.covers(target) {
        target.clone_from(other);
        return;
    }
    *target = Rc::new(target.joined(other));
}

/// What a thread or a synchronisation object knows.
///
/// `proxied` may hold a little that is not in `generic`; only what is in both is ordered and
/// visible to the async proxy. A fence covers all memory or one kind of it, so there is one for
/// each.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    /// What happened before.
    pub(super) generic: Rc<Knowledge>,
    /// What a proxy fence has made visible to the async proxy since, by [`MemoryKind`].
    proxied: [Rc<Knowledge>; MemoryKind::COUNT],
}

impl View {
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let mut proxied = self.proxied.iter().zip(&other.proxied);
        Rc::ptr_eq(&self.generic, &other.generic)
            && proxied.all(|(own, other)| Rc::ptr_eq(own, other))
    }

    pub(super) fn join(&mut self, other: &Self) {
        join(&mut self.generic, &other.generic);
        for (own, other) in self.proxied.iter_mut().zip(&other.proxied) {
            join(own, other);
        }
    }

    pub(super) fn learn(&mut self, entry: Entry) {
        learn(&mut self.generic, entry);
    }

    /// Adds what is known of `tcgen05` instructions.
    pub(super) fn learn_all(&mut self, known: &Rc<Knowledge>) {
        join(&mut self.generic, known);
    }

    /// What is visible to the async proxy in one kind of memory.
    pub(super) fn proxied(&self, kind: MemoryKind) -> &Knowledge {
        let [shared, global] = &self.proxied;
        match kind {
            MemoryKind::Shared => shared,
            MemoryKind::Global => global,
        }
    }

    /// Makes all that is known, and `own`, visible to the async proxy in memory of these kinds.
    pub(super) fn fence(&mut self, own: Entry, kinds: &[MemoryKind]) {
        let [shared, global] = &mut self.proxied;
        for kind in kinds {
            let proxied = match kind {
                MemoryKind::Shared => &mut *shared,
                MemoryKind::Global => &mut *global,
            };
            join(proxied, &self.generic);
            learn(proxied, own);
        }
    }
}

pub(super) fn learn(target: &mut Rc<Knowledge>, entry: Entry) {
    if !target.entry(entry.agent).covers(&entry) {
        Rc::make_mut(target).learn(entry);
    }
}
