//! One access compared with the last ones to a byte, and remembered.

use super::knowledge::{Entry, Knowledge, View};
use super::report::RaceKind;
use super::shadow::{Cell, MemoryKind};
use super::stamp::{Agent, Stamp};

/// An access as it is compared and remembered.
#[derive(Clone, Copy)]
pub(super) struct Access {
    /// Without lane.
    pub(super) stamp: Stamp,
    pub(super) lanes: u32,
    pub(super) site: u32,
    /// Whether a never written byte is reported.
    pub(super) uninitialised: bool,
    /// Whether a written byte is reported.
    pub(super) unchanging: bool,
}

/// Those who access, and what they know.
pub(super) struct Observer<'a> {
    generic: &'a Knowledge,
    /// Present for accesses through the async proxy.
    proxied: Option<&'a Knowledge>,
    own: Agent,
    /// The lanes of `own` whose accesses up to `own_clock` are known anyway.
    pub(super) own_lanes: u32,
    pub(super) own_clock: u32,
    /// The last entries looked up: for writers, for readers, and what is proxied of writers.
    writer: Entry,
    reader: Entry,
    proxied_writer: Entry,
    /// A write and a read found right whatever their lanes. Neighbouring bytes mostly have the
    /// same, and one comparison then does.
    right_write: Stamp,
    right_read: Stamp,
}

/// Which earlier access conflicts.
pub(super) struct Conflict {
    pub(super) kind: RaceKind,
    pub(super) is_write: bool,
}

impl<'a> Observer<'a> {
    /// Who accesses memory of this kind through the async proxy.
    pub(super) fn proxied(view: &'a View, own: Agent, kind: MemoryKind) -> Self {
        Self { proxied: Some(view.proxied(kind)), ..Self::new(view, own) }
    }

    /// Who accesses memory as ordinary instructions do.
    pub(super) fn new(view: &'a View, own: Agent) -> Self {
        Self::of_knowledge(&view.generic, own)
    }

    /// Who knows just this.
    pub(super) fn of_knowledge(generic: &'a Knowledge, own: Agent) -> Self {
        let memo = Entry::new(Agent::UNTRACKED, u32::MAX, u32::MAX);
        Self {
            generic,
            proxied: None,
            own,
            own_lanes: 0,
            own_clock: u32::MAX,
            writer: memo,
            reader: memo,
            proxied_writer: memo,
            right_write: Stamp::NOTHING,
            right_read: Stamp::NOTHING,
        }
    }

    #[inline(always)]
    fn knows_write(&mut self, stamp: Stamp) -> bool {
        if self.writer.agent != stamp.agent() {
            self.writer = look_up(self.generic, stamp);
        }
        self.knows(self.writer, stamp, 1 << stamp.lane())
    }

    #[inline(always)]
    fn knows_read(&mut self, stamp: Stamp, lanes: u32) -> bool {
        if self.reader.agent != stamp.agent() {
            self.reader = look_up(self.generic, stamp);
        }
        self.knows(self.reader, stamp, lanes)
    }

    #[inline(always)]
    fn knows(&self, entry: Entry, stamp: Stamp, lanes: u32) -> bool {
        let clock = stamp.clock();
        if entry.knows(lanes, clock) {
            return true;
        }
        if entry.agent != self.own || clock > self.own_clock {
            return false;
        }
        let others = lanes & !self.own_lanes;
        others == 0 || entry.knows(others, clock)
    }

    /// An ordinary write that the async proxy has not been told of.
    #[inline(always)]
    fn unfenced(&mut self, write: Stamp) -> bool {
        let Some(proxied) = self.proxied else { return false };
        if write.is_async() {
            return false;
        }
        if self.proxied_writer.agent != write.agent() {
            self.proxied_writer = look_up(proxied, write);
        }
        !self.proxied_writer.knows(1 << write.lane(), write.clock())
    }

    #[inline(always)]
    pub(super) fn check_write(&mut self, cell: &Cell, access: &Access) -> Result<(), Conflict> {
        if cell.write.without_lane() == self.right_write {
            return Ok(());
        }
        self.compare_write(cell.write, access)
    }

    #[inline(never)]
    fn compare_write(&mut self, write: Stamp, access: &Access) -> Result<(), Conflict> {
        if write.is_never() && access.uninitialised {
            return Err(Conflict { kind: RaceKind::Uninitialised, is_write: true });
        }
        if access.unchanging && !write.is_never() {
            return Err(Conflict { kind: RaceKind::Unchanging, is_write: true });
        }
        if write.is_never() || write.tolerates(access.stamp) {
            self.right_write = write.without_lane();
            return Ok(());
        }
        if !self.knows_write(write) {
            return Err(Conflict { kind: RaceKind::Race, is_write: true });
        }
        if self.unfenced(write) {
            return Err(Conflict { kind: RaceKind::MissingProxyFence, is_write: true });
        }
        let fenced = self.proxied.is_none()
            || write.is_async()
            || self.proxied_writer.knows(u32::MAX, write.clock());
        if fenced && self.writer.knows(u32::MAX, write.clock()) {
            self.right_write = write.without_lane();
        }
        Ok(())
    }

    #[inline(always)]
    pub(super) fn read(
        &mut self,
        cell: &mut Cell,
        access: &Access,
        random: &mut u64,
    ) -> Result<(), Conflict> {
        self.check_write(cell, access)?;
        if cell.read == access.stamp {
            cell.read_lanes |= access.lanes;
        } else if cell.read.is_never() || self.replaces(cell, access) || coin(random) {
            cell.read = access.stamp;
            cell.read_lanes = access.lanes;
            cell.read_site = access.site;
        }
        Ok(())
    }

    /// Whether whoever knows the new read knows the remembered one too, and nothing that races
    /// with the remembered one is tolerated by the new one.
    fn replaces(&mut self, cell: &Cell, access: &Access) -> bool {
        let (old, new) = (cell.read, access.stamp);
        if new.is_strong() && !old.is_strong() {
            return false;
        }
        // The later of two accesses by the same lanes becomes known last.
        let same = old.agent() == new.agent() && old.clock() <= new.clock();
        if same && cell.read_lanes & !access.lanes == 0 {
            return true;
        }
        // To know that an asynchronous operation completed is not to know what its issuer knew.
        !new.is_async() && self.knows_read(old, cell.read_lanes)
    }

    #[inline(always)]
    pub(super) fn check_read(&mut self, cell: &Cell, access: &Access) -> Result<(), Conflict> {
        let read = cell.read;
        if read.is_never() || read == self.right_read {
            return Ok(());
        }
        self.compare_read(cell, access)
    }

    #[inline(never)]
    fn compare_read(&mut self, cell: &Cell, access: &Access) -> Result<(), Conflict> {
        let read = cell.read;
        if !read.tolerates(access.stamp) && !self.knows_read(read, cell.read_lanes) {
            return Err(Conflict { kind: RaceKind::Race, is_write: false });
        }
        if read.tolerates(access.stamp) || self.reader.knows(u32::MAX, read.clock()) {
            self.right_read = read;
        }
        Ok(())
    }

    #[inline(always)]
    pub(super) fn check_both(&mut self, cell: &Cell, access: &Access) -> Result<(), Conflict> {
        self.check_write(cell, access)?;
        self.check_read(cell, access)
    }

    #[inline(always)]
    pub(super) fn write(&mut self, cell: &mut Cell, access: &Access) {
        cell.write = access.stamp.with_lane(access.lanes.trailing_zeros());
        cell.write_site = access.site;
        // A read that is merely tolerated stays, because others may race with it.
        let tolerated = cell.read.tolerates(access.stamp);
        if !tolerated || self.knows_read(cell.read, cell.read_lanes) {
            cell.read = Stamp::NEVER;
        }
    }
}

/// Apart, so that it does not crowd the loops over cells, which seldom need it.
#[inline(never)]
fn look_up(knowledge: &Knowledge, stamp: Stamp) -> Entry {
    knowledge.entry(stamp.agent())
}

/// A random bit (xorshift, Marsaglia 2003).
#[inline]
fn coin(random: &mut u64) -> bool {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random >> 63 != 0
}
