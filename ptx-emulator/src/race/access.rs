//! The accesses of warps and of asynchronous operations.

use super::knowledge::{Knowledge, View};
use super::observer::{Access, Conflict, Observer};
use super::report::{RaceKind, Report, Who};
use super::shadow::{Cell, MemoryKind, Shadow, WIDEST};
use super::stamp::{Agent, Role, Stamp, WarpId};
use super::stored::Stored;
use super::{LANES, Races, Warp, each_lane};
use std::rc::Rc;

/// Whether accesses may meet without being ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strength {
    /// An ordinary access.
    Weak,
    /// An atomic, a `.volatile` access or one with a memory order, an operation on an mbarrier:
    /// these do not race with each other.
    Strong,
    /// An ordinary read of what must not change while the kernel runs (`ld.global.nc`).
    Unchanging,
}

/// Whether lanes of one instruction may write the same byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overlap {
    /// Reported, unless the access is strong.
    Report,
    /// The caller has seen that the values are equal.
    SameValue,
}

/// An instruction of a warp that accesses memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneAccess<'a> {
    /// The warp.
    pub(crate) warp: WarpId,
    /// The lanes that take part.
    pub(crate) mask: u32,
    /// Where each lane's bytes begin in the region.
    pub(crate) addresses: &'a [u64; LANES],
    /// How many bytes each lane accesses.
    pub(crate) bytes: u32,
    /// Weak or strong.
    pub(crate) strength: Strength,
    /// Where the instruction stands in the program.
    pub(crate) site: u32,
}

/// Through which proxy an asynchronous operation accesses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proxy {
    /// `cp.async` without `.bulk`.
    Generic,
    /// Bulk copies, `wgmma`, and shared memory as `tcgen05` reads it.
    Async,
    /// Tensor memory as `tcgen05` reads and writes it.
    Tensor,
}

/// What the threads that issued an asynchronous operation, or one each, knew then. The operation
/// may access memory at any later time; what they learned or did since does not count.
#[derive(Clone, Debug)]
pub(crate) struct AsyncOrigin {
    pub(super) view: View,
    pub(super) own: Agent,
    pub(super) lanes: u32,
    pub(super) clock: u32,
    /// What they knew for accesses of tensor memory.
    pub(super) tensor: Rc<Knowledge>,
}

impl AsyncOrigin {
    /// The lanes whose knowledge it is.
    pub(crate) fn lanes(&self) -> u32 {
        self.lanes
    }
}

/// An access of an asynchronous operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AsyncAccess<'a> {
    /// Its issuers' knowledge.
    pub(crate) origin: &'a AsyncOrigin,
    /// The agent under whose clock it becomes known.
    pub(crate) agent: Agent,
    /// The lanes of the agent: the issuer's for `cp.async` and bulk groups, all 32 for `wgmma` and
    /// mbarriers.
    pub(crate) lanes: u32,
    /// The clock at which it is known: 1 + the group's number or the mbarrier's phase.
    pub(crate) clock: u32,
    /// Reductions are strong.
    pub(crate) strength: Strength,
    /// The proxy.
    pub(crate) proxy: Proxy,
    /// Where the instruction stands in the program.
    pub(crate) site: u32,
}

/// Where the bytes of a cell begin, and how many they are.
pub(super) type Place = (u64, u64);

/// Calls `each` for every cell of a range and turns the first conflict into a report.
#[inline]
fn for_cells(
    shadow: &mut Shadow,
    start: u64,
    length: u64,
    access: &Access,
    mut each: impl FnMut(&mut Cell, Place) -> Result<(), Conflict>,
) -> Result<(), Report> {
    let mut position = start;
    let mut rest = Some((start, length));
    while let Some((start, length)) = rest {
        let run = shadow.run(start, length, WIDEST);
        let size = 1 << run.shift;
        rest = run.rest;
        for cell in run.cells {
            if let Err(conflict) = each(cell, (position, size)) {
                return Err(report(cell, &conflict, position, access));
            }
            position += size;
        }
    }
    Ok(())
}

/// Where the bytes of a full warp begin that lie in lane order without gaps, aligned, while all
/// lanes know the same. Most accesses are of this kind, and need no search lane by lane.
fn row(warp: &Warp, access: &LaneAccess) -> Option<u64> {
    let [first, ..] = access.addresses;
    let [thread, ..] = &warp.threads;
    let bytes = u64::from(access.bytes);
    let aligned = bytes.is_power_of_two() && bytes <= 1 << WIDEST && first & (bytes - 1) == 0;
    if access.mask != u32::MAX || !aligned {
        return None;
    }
    let mut gaps = 0;
    let mut expected = *first;
    for address in access.addresses {
        gaps |= address ^ expected;
        expected = expected.wrapping_add(bytes);
    }
    if gaps != 0 {
        return None;
    }
    let knowledge = &thread.view.generic;
    let alike = warp.threads.iter().all(|other| Rc::ptr_eq(&other.view.generic, knowledge));
    alike.then_some(*first)
}

/// The lanes of a mask whose bytes lie behind those of the lane before, which is in the mask too,
/// while both know the same and the access is aligned. Their cells are a row of a part of the warp.
fn followers(warp: &Warp, access: &LaneAccess) -> u32 {
    let bytes = u64::from(access.bytes);
    if !bytes.is_power_of_two() || bytes > 1 << WIDEST {
        return 0;
    }
    let (mut follow, mut unaligned) = (0, 0);
    for (lane, pair) in access.addresses.windows(2).enumerate() {
        let &[before, address] = pair else { continue };
        follow |= u32::from(address == before.wrapping_add(bytes)) << (lane + 1);
        unaligned |= u32::from(address & (bytes - 1) != 0) << (lane + 1);
    }
    follow &= access.mask & access.mask << 1 & !unaligned;
    let mut alike = 0;
    if follow != 0 {
        for (lane, pair) in warp.threads.windows(2).enumerate() {
            let [before, thread] = pair else { continue };
            let same = Rc::ptr_eq(&before.view.generic, &thread.view.generic);
            alike |= u32::from(same) << (lane + 1);
        }
    }
    follow & alike
}

/// How many lanes lie in a row from the lowest of a mask on.
fn row_length(mask: u32, followers: u32) -> u32 {
    let first = mask.trailing_zeros();
    1 + (followers.checked_shr(first + 1).unwrap_or(0)).trailing_ones()
}

/// As [`for_cells`] for lanes of which each one's bytes lie behind those of the one before,
/// aligned: all of a [`row`], or as many as there are [`followers`]. The first of them is
/// `access.lanes`.
#[inline]
fn for_row(
    shadow: &mut Shadow,
    (first, bytes, lanes): (u64, u32, u32),
    access: &mut Access,
    known: &mut Observer,
    mut each: impl FnMut(&mut Observer, &mut Cell, &Access, Place) -> Result<(), Conflict>,
) -> Result<(), Report> {
    let mut position = first;
    let mut rest = Some((first, u64::from(lanes) * u64::from(bytes)));
    while let Some((start, length)) = rest {
        // A cell must not hold bytes of two lanes.
        let run = shadow.run(start, length, bytes.trailing_zeros());
        let size = 1 << run.shift;
        rest = run.rest;
        let per_lane = bytes >> run.shift;
        let mut left = per_lane;
        for cell in run.cells {
            known.own_lanes = access.lanes;
            if let Err(conflict) = each(known, cell, access, (position, size)) {
                return Err(report(cell, &conflict, position, access));
            }
            position += size;
            left -= 1;
            if left == 0 {
                left = per_lane;
                access.lanes = access.lanes.rotate_left(1);
            }
        }
    }
    Ok(())
}

#[cold]
fn report(cell: &Cell, conflict: &Conflict, address: u64, access: &Access) -> Report {
    let (stamp, lane, site) = if conflict.is_write {
        (cell.write, cell.write.lane(), cell.write_site)
    } else {
        (cell.read, cell.read_lanes.trailing_zeros(), cell.read_site)
    };
    let earlier = (!stamp.is_never()).then(|| Who {
        actor: stamp.agent().actor(),
        lane,
        is_write: conflict.is_write,
        is_async: stamp.is_async(),
        site,
    });
    Report { kind: conflict.kind, earlier, address, lane: access.lanes.trailing_zeros() }
}

/// Two lanes whose bytes overlap, and the first byte they share.
fn overlap(access: &LaneAccess) -> Option<(u32, u32, u64)> {
    let bytes = u64::from(access.bytes);
    let mut lanes = [(0, 0); LANES];
    let mut count = 0;
    let mut sorted = true;
    let mut end = 0;
    for (slot, lane) in lanes.iter_mut().zip(each_lane(access.mask)) {
        let address = access.addresses.get(lane).copied().unwrap_or(0);
        *slot = (address, lane as u32);
        sorted &= address >= end;
        end = address.saturating_add(bytes);
        count += 1;
    }
    if sorted {
        return None;
    }
    let lanes = lanes.get_mut(..count)?;
    lanes.sort_unstable();
    lanes.windows(2).find_map(|pair| match *pair {
        [(first, a), (second, b)] if second < first.saturating_add(bytes) => {
            Some((a.min(b), a.max(b), second))
        }
        _ => None,
    })
}

impl Races {
    /// A warp reads.
    pub(crate) fn read_lanes(
        &mut self,
        shadow: &mut Shadow,
        access: &LaneAccess,
    ) -> Result<(), Report> {
        let random = &mut self.random;
        let Some(Some(warp)) = self.warps.get(access.warp.0 as usize) else { return Ok(()) };
        let own = Agent::warp(access.warp, Role::Generic);
        let mut one = Access::of_lanes(access, own, warp.clock);
        one.uninitialised = shadow.kind == MemoryKind::Shared;
        if let Some(first) = row(warp, access) {
            let [thread, ..] = &warp.threads;
            let mut known = Observer::new(&thread.view, own);
            one.lanes = 1;
            return for_row(
                shadow,
                (first, access.bytes, LANES as u32),
                &mut one,
                &mut known,
                |known, cell, one, _| known.read(cell, one, random),
            );
        }
        let followers = followers(warp, access);
        let mut mask = access.mask;
        let mut observer: Option<(&Rc<Knowledge>, Observer)> = None;
        while let Some(thread) = warp.threads.get(mask.trailing_zeros() as usize) {
            let knowledge = &thread.view.generic;
            let address = lane_address(access, mask);
            let known = match &mut observer {
                Some((last, known)) if Rc::ptr_eq(last, knowledge) => known,
                _ => {
                    let new = Observer::new(&thread.view, own);
                    &mut observer.insert((knowledge, new)).1
                }
            };
            let length = row_length(mask, followers);
            if length > 1 {
                one.lanes = mask & mask.wrapping_neg();
                mask &= !(u32::MAX >> (32 - length) << mask.trailing_zeros());
                let row = (address, access.bytes, length);
                for_row(shadow, row, &mut one, known, |known, cell, one, _| {
                    known.read(cell, one, random)
                })?;
                continue;
            }
            one.lanes = take_group(&mut mask, |next| {
                let neighbour = warp.threads.get(next as usize);
                access.addresses.get(next as usize) == Some(&address)
                    && neighbour.is_some_and(|n| Rc::ptr_eq(&n.view.generic, knowledge))
            });
            // Each of several lanes knows its own accesses, but not those of the others.
            known.own_lanes = if one.lanes.is_power_of_two() { one.lanes } else { 0 };
            for_cells(shadow, address, access.bytes.into(), &one, |cell, _| {
                known.read(cell, &one, random)
            })?;
        }
        Ok(())
    }

    /// A warp writes. Without `stored` every write counts as one of another value.
    pub(crate) fn write_lanes(
        &mut self,
        shadow: &mut Shadow,
        access: &LaneAccess,
        overlapping: Overlap,
        stored: Option<Stored<'_>>,
    ) -> Result<(), Report> {
        let check = |known: &mut Observer, cell: &mut Cell, one: &Access, place: Place| {
            if let Err(conflict) = known.check_write(cell, one) {
                let excused = stored.is_some_and(|stored| {
                    let own = stored.of_lane(access, one.lanes.trailing_zeros(), place.0);
                    stored.excuses(&conflict, (cell.write, one), place, own)
                });
                if !excused {
                    return Err(conflict);
                }
            }
            known.check_read(cell, one)
        };
        if access.strength == Strength::Weak
            && let Some((first, second, address)) = overlap(access)
        {
            if overlapping == Overlap::SameValue {
                // All lanes are compared with what was there before any of them wrote.
                self.visit_lanes(shadow, access, check)?;
                return self.visit_lanes(shadow, access, |known, cell, one, _| {
                    known.write(cell, one);
                    Ok(())
                });
            }
            let actor = Agent::warp(access.warp, Role::Generic).actor();
            let (is_write, is_async, site) = (true, false, access.site);
            let earlier = Some(Who { actor, lane: first, is_write, is_async, site });
            return Err(Report { kind: RaceKind::SameInstruction, earlier, address, lane: second });
        }
        self.visit_lanes(shadow, access, |known, cell, one, bytes| {
            check(known, cell, one, bytes)?;
            known.write(cell, one);
            Ok(())
        })
    }

    /// A warp reads, modifies and writes atomically, which is strong whatever `access` says.
    pub(crate) fn atomic_lanes(
        &mut self,
        shadow: &mut Shadow,
        access: &LaneAccess,
    ) -> Result<(), Report> {
        let report_unwritten = shadow.kind == MemoryKind::Shared;
        let access = LaneAccess { strength: Strength::Strong, ..*access };
        self.visit_lanes(shadow, &access, |known, cell, one, _| {
            if report_unwritten && cell.write.is_never() {
                return Err(Conflict { kind: RaceKind::Uninitialised, is_write: true });
            }
            // What conflicts with the read conflicts with the write too.
            known.check_both(cell, one)?;
            known.write(cell, one);
            Ok(())
        })
    }

    /// Calls `visit` for all cells of all lanes in turn.
    #[inline]
    fn visit_lanes(
        &mut self,
        shadow: &mut Shadow,
        access: &LaneAccess,
        visit: impl Fn(&mut Observer, &mut Cell, &Access, Place) -> Result<(), Conflict>,
    ) -> Result<(), Report> {
        let Some(Some(warp)) = self.warps.get(access.warp.0 as usize) else { return Ok(()) };
        let own = Agent::warp(access.warp, Role::Generic);
        let mut one = Access::of_lanes(access, own, warp.clock);
        if let Some(first) = row(warp, access) {
            let [thread, ..] = &warp.threads;
            let mut known = Observer::new(&thread.view, own);
            let row = (first, access.bytes, LANES as u32);
            one.lanes = 1;
            return for_row(shadow, row, &mut one, &mut known, visit);
        }
        let followers = followers(warp, access);
        let mut mask = access.mask;
        let mut observer: Option<(&Rc<Knowledge>, Observer)> = None;
        while let Some(thread) = warp.threads.get(mask.trailing_zeros() as usize) {
            let address = lane_address(access, mask);
            let knowledge = &thread.view.generic;
            let known = match &mut observer {
                Some((last, known)) if Rc::ptr_eq(last, knowledge) => known,
                _ => {
                    let new = Observer::new(&thread.view, own);
                    &mut observer.insert((knowledge, new)).1
                }
            };
            let length = row_length(mask, followers);
            one.lanes = mask & mask.wrapping_neg();
            mask &= !(u32::MAX >> (32 - length) << mask.trailing_zeros());
            if length > 1 {
                let row = (address, access.bytes, length);
                for_row(shadow, row, &mut one, known, &visit)?;
                continue;
            }
            known.own_lanes = one.lanes;
            for_cells(shadow, address, access.bytes.into(), &one, |cell, bytes| {
                visit(known, cell, &one, bytes)
            })?;
        }
        Ok(())
    }

    /// `lanes` issue an asynchronous operation each. There is an origin for all those that know the
    /// same.
    pub(crate) fn begin_each(&mut self, warp: WarpId, lanes: u32) -> Vec<AsyncOrigin> {
        let own = Agent::warp(warp, Role::Generic);
        let Some(state) = self.warp_mut(warp) else { return Vec::new() };
        let mut origins: Vec<AsyncOrigin> = Vec::new();
        for lane in each_lane(lanes) {
            let Some(thread) = state.threads.get(lane) else { continue };
            let is_alike = |origin: &&mut AsyncOrigin| {
                origin.view.is_same(&thread.view) && Rc::ptr_eq(&origin.tensor, &thread.tensor)
            };
            match origins.iter_mut().find(is_alike) {
                Some(origin) => origin.lanes |= 1 << lane,
                None => {
                    let (view, tensor) = (thread.view.clone(), Rc::clone(&thread.tensor));
                    origins.push(AsyncOrigin {
                        view,
                        own,
                        lanes: 1 << lane,
                        clock: state.clock,
                        tensor,
                    });
                }
            }
        }
        // What the issuers do from here on is not ordered before the operations.
        state.tick();
        origins
    }

    /// `lanes` issue an asynchronous operation together, a whole warp a `wgmma`, which then knows
    /// what any of them knows.
    pub(crate) fn begin_async(&mut self, warp: WarpId, lanes: u32) -> AsyncOrigin {
        let own = Agent::warp(warp, Role::Generic);
        let Some(state) = self.warp_mut(warp) else {
            let (view, tensor) = (View::default(), Rc::default());
            return AsyncOrigin { view, own, lanes: 0, clock: 0, tensor };
        };
        let (view, tensor, clock) = (state.union(lanes), state.tensor(lanes), state.clock);
        let origin = AsyncOrigin { view, own, lanes, clock, tensor };
        // What the issuer does from here on is not ordered before the operation.
        state.tick();
        origin
    }

    /// An asynchronous operation reads `length` bytes.
    pub(crate) fn async_read(
        &mut self,
        shadow: &mut Shadow,
        access: &AsyncAccess,
        start: u64,
        length: u64,
    ) -> Result<(), Report> {
        self.async_read_all(shadow, access, [(start, length)])
    }

    /// An asynchronous operation reads ranges, each given by its start and its length. What is
    /// found out about earlier accesses is kept from one to the next.
    pub(crate) fn async_read_all(
        &mut self,
        shadow: &mut Shadow,
        access: &AsyncAccess,
        ranges: impl IntoIterator<Item = (u64, u64)>,
    ) -> Result<(), Report> {
        let random = &mut self.random;
        let mut one = Access::of_async(access);
        one.uninitialised = shadow.kind == MemoryKind::Shared;
        let mut known = access.observer(shadow.kind);
        for (start, length) in ranges {
            for_cells(shadow, start, length, &one, |cell, _| known.read(cell, &one, random))?;
        }
        Ok(())
    }

    /// An asynchronous operation writes `length` bytes. Without `stored` they count as others than
    /// those that are there.
    pub(crate) fn async_write(
        &mut self,
        shadow: &mut Shadow,
        access: &AsyncAccess,
        start: u64,
        length: u64,
        stored: Option<Stored<'_>>,
    ) -> Result<(), Report> {
        let one = Access::of_async(access);
        let mut known = access.observer(shadow.kind);
        for_cells(shadow, start, length, &one, |cell, place| {
            if let Err(conflict) = known.check_write(cell, &one) {
                let (writes, own) = ((cell.write, &one), place.0.wrapping_sub(start));
                if !stored.is_some_and(|bytes| bytes.excuses(&conflict, writes, place, own)) {
                    return Err(conflict);
                }
            }
            known.check_read(cell, &one)?;
            known.write(cell, &one);
            Ok(())
        })
    }
}

fn lane_address(access: &LaneAccess, mask: u32) -> u64 {
    access.addresses.get(mask.trailing_zeros() as usize).copied().unwrap_or(0)
}

/// Removes the lowest lane from a mask, and the lanes after it as long as `joins` says so.
#[inline]
fn take_group(mask: &mut u32, joins: impl Fn(u32) -> bool) -> u32 {
    let before = *mask;
    *mask &= mask.wrapping_sub(1);
    while *mask != 0 && joins(mask.trailing_zeros()) {
        *mask &= *mask - 1;
    }
    before & !*mask
}

impl Access {
    fn of_lanes(access: &LaneAccess, own: Agent, clock: u32) -> Self {
        let strong = access.strength == Strength::Strong;
        let stamp = Stamp::new(own, strong, false, clock);
        let unchanging = access.strength == Strength::Unchanging;
        Self { stamp, lanes: 0, site: access.site, uninitialised: false, unchanging }
    }

    fn of_async(access: &AsyncAccess) -> Self {
        let strong = access.strength == Strength::Strong;
        let is_async = access.proxy != Proxy::Generic;
        let stamp = Stamp::new(access.agent, strong, is_async, access.clock);
        let (lanes, site) = (access.lanes, access.site);
        Self { stamp, lanes, site, uninitialised: false, unchanging: false }
    }
}

impl<'a> AsyncAccess<'a> {
    fn observer(&self, kind: MemoryKind) -> Observer<'a> {
        let origin = self.origin;
        let mut observer = match self.proxy {
            Proxy::Generic => Observer::new(&origin.view, origin.own),
            Proxy::Async => Observer::proxied(&origin.view, origin.own, kind),
            Proxy::Tensor => return self.tensor_observer(),
        };
        // Of lanes that issue an operation each, one knows its own accesses only.
        observer.own_lanes = match self.proxy {
            Proxy::Generic => origin.lanes & self.lanes,
            _ => origin.lanes,
        };
        observer.own_clock = origin.clock;
        observer
    }
}
