//! Groups of asynchronous copies: each thread commits and waits for its own.

use std::collections::VecDeque;

use crate::execute::registers::{lanes, select};
use crate::execute::{Context, Flow, Wait};
use crate::race::Role;

/// Which groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// Of `cp.async`.
    Threads,
    /// Of bulk copies; `.read` waits only until their sources have been read.
    Bulk { reads_only: bool },
}

/// A wait for groups.
#[derive(Clone, Debug)]
pub(crate) struct GroupWait {
    pub(super) family: Family,
    /// How many of the latest groups may be unfinished; `None` waits for all that was issued.
    pub(super) unfinished: Option<u32>,
}

/// For each lane the last clock that is waited for.
pub(super) type Limits = [Option<u32>; 32];

/// The groups of one thread. Its copies carry a clock that grows with each group.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    open: u32,
    /// The last clock of each committed group that may be unfinished.
    ends: VecDeque<u32>,
}

impl Default for Groups {
    fn default() -> Self {
        // The race checker's clocks start at 1.
        Self { open: 1, ends: VecDeque::new() }
    }
}

impl Groups {
    /// The clock of copies that are issued now.
    pub(super) fn clock(&self) -> u32 {
        self.open
    }

    /// Later copies get another clock, but belong to the same group.
    pub(super) fn advance(&mut self) {
        self.open = self.open.saturating_add(1);
    }

    fn commit(&mut self) {
        self.ends.push_back(self.open);
        self.advance();
    }

    /// The last clock of all groups but the latest `unfinished`.
    fn limit(&self, unfinished: u32) -> Option<u32> {
        let last = self.ends.len().checked_sub(unfinished as usize)?.checked_sub(1)?;
        self.ends.get(last).copied()
    }

    fn forget(&mut self, limit: u32) {
        while self.ends.front().is_some_and(|end| *end <= limit) {
            self.ends.pop_front();
        }
    }
}

/// Unfinished copies of a warp's threads.
#[derive(Debug, Default)]
pub(crate) struct WarpState {
    threads: Option<Box<[Groups; 32]>>,
    bulk: Option<Box<[Groups; 32]>>,
}

impl WarpState {
    /// The groups of all lanes.
    pub(super) fn groups(&mut self, family: Family) -> &mut [Groups; 32] {
        let place = match family {
            Family::Threads => &mut self.threads,
            Family::Bulk { .. } => &mut self.bulk,
        };
        place.get_or_insert_default()
    }
}

/// The copies that the lanes have issued become a group.
pub(super) fn commit(family: Family, context: &mut Context<'_>) {
    let groups = context.warp.copies.groups(family);
    for lane in lanes(context.mask) {
        groups[lane].commit();
    }
}

/// The lanes wait for groups.
pub(super) fn wait(own: &GroupWait, context: &mut Context<'_>) -> Flow {
    let groups = context.warp.copies.groups(own.family);
    let mut limits: Limits = [None; 32];
    for lane in lanes(context.mask) {
        limits[lane] = match own.unfinished {
            Some(unfinished) => groups[lane].limit(unfinished),
            None => Some(groups[lane].clock()),
        };
    }
    if context.cluster.engine.is_waited_for(context.warp.id, own.family, &limits) {
        let wait = match own.family {
            Family::Threads => Wait::CopyGroups,
            Family::Bulk { .. } => Wait::BulkGroups,
        };
        return Flow::Wait(wait, None);
    }
    for lane in lanes(context.mask) {
        let Some(limit) = limits[lane] else { continue };
        if own.unfinished.is_none() {
            groups[lane].advance();
        }
        if own.family != (Family::Bulk { reads_only: true }) {
            groups[lane].forget(limit);
        }
    }
    if matches!(own.family, Family::Bulk { .. }) {
        context.cluster.engine.note_read(context.warp.id, &limits);
    }
    if context.grid.is_checked() {
        let roles: &[Role] = match own.family {
            Family::Threads => &[Role::Copy],
            Family::Bulk { reads_only: true } => &[Role::BulkRead],
            Family::Bulk { reads_only: false } => &[Role::BulkRead, Role::BulkWrite],
        };
        complete(context, &limits, roles);
    }
    Flow::Next
}

/// The race checker is told of complete groups, all lanes with the same limit at once.
fn complete(context: &mut Context<'_>, limits: &Limits, roles: &[Role]) {
    let mut rest = context.mask;
    while rest != 0 {
        let limit = limits[rest.trailing_zeros() as usize];
        let same = select(rest, |lane| limits[lane] == limit);
        rest &= !same;
        let Some(limit) = limit else { continue };
        for role in roles {
            context.grid.races.complete(context.warp.id, same, *role, limit);
        }
    }
}
