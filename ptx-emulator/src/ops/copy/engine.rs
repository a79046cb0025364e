//! What runs beside the threads of a cluster: operations that are performed when they are due.

use std::rc::Rc;

use super::groups::{Family, Limits};
use super::load::Load;
use super::store::Store;
use super::threads::{LateArrival, ThreadCopies};
use crate::execute::block::Cluster;
use crate::execute::grid::{EngineFault, GridState};
use crate::execute::registers::lanes;
use crate::execute::report::{Fault, ReportKind};
use crate::execute::{Context, Outcome};
use crate::machine::window::BLOCK_SHARED;
use crate::ops::mbarrier::SharedPlace;
use crate::race::{AsyncOrigin, WarpId};
use crate::random::Random;
use crate::tensor_map::geometry::Geometry;

/// How many tensor maps an engine remembers.
const MAPS: usize = 32;

/// Who issued an operation, and where.
#[derive(Clone, Debug)]
pub(super) struct Issuer {
    pub(super) warp: WarpId,
    pub(super) line: u32,
    /// The issuing lanes: one, but for `cp.async`.
    pub(super) lanes: u32,
    /// What they knew then, each for some of them; none when accesses are not checked.
    pub(super) origins: Vec<AsyncOrigin>,
    block: [u32; 3],
    warp_index: u32,
}

/// Where an operation was issued, for reports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Issued {
    line: u32,
    lanes: u32,
    block: [u32; 3],
    warp: u32,
}

impl Issuer {
    pub(super) fn issued(&self) -> Issued {
        let Self { line, lanes, block, warp_index: warp, .. } = *self;
        Issued { line, lanes, block, warp }
    }
}

impl Issued {
    /// The part of some of the issuing lanes.
    pub(super) fn of(self, lanes: u32) -> Self {
        Self { lanes: self.lanes & lanes, ..self }
    }

    fn fault(self, fault: Fault) -> EngineFault {
        let Self { line, lanes, block, warp } = self;
        EngineFault { fault, line, block, warp, lanes }
    }
}

/// What is to be done.
#[derive(Debug)]
pub(super) enum Work {
    Threads(Box<ThreadCopies>),
    Arrive(Box<LateArrival>),
    Load(Box<Load>),
    Store(Box<Store>),
}

#[derive(Debug)]
struct Pending {
    due: u64,
    sequence: u64,
    issuer: Issuer,
    work: Work,
}

/// A copy out of shared memory whose thread has not waited yet until the memory has been read.
#[derive(Debug)]
struct Unread {
    warp: WarpId,
    lane: usize,
    /// That of the thread's groups.
    clock: u32,
    /// The block whose memory it is.
    rank: usize,
    issued: Issued,
}

/// The operations of a cluster that have been issued and not performed.
#[derive(Debug, Default)]
pub(crate) struct Engine {
    pending: Vec<Pending>,
    unread: Vec<Unread>,
    /// No operation is due before.
    earliest: u64,
    /// Operations issued so far.
    issued: u64,
    /// The tensor maps used last, by their bytes.
    pub(super) maps: Vec<(Box<[u8; 128]>, Rc<Geometry>)>,
}

/// How many turns an operation takes: mostly few, sometimes very many, so that programs which
/// forget to wait are seen.
fn delay(random: &mut Random) -> u64 {
    match random.below(64) {
        0..32 => random.below(8),
        32..56 => random.below(64),
        56..63 => random.below(512),
        _ => random.below(8192),
    }
}

impl Engine {
    pub(crate) fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    pub(crate) fn has_due(&self, now: u64) -> bool {
        !self.pending.is_empty() && self.earliest <= now
    }

    pub(crate) fn next_due(&self) -> Option<u64> {
        self.pending.iter().map(|pending| pending.due).min()
    }

    fn add(&mut self, pending: Pending) {
        let first = self.pending.is_empty() || pending.due < self.earliest;
        self.earliest = if first { pending.due } else { self.earliest };
        self.pending.push(pending);
    }

    /// Whether operations of a warp's lanes are unfinished which groups up to the limits hold.
    pub(super) fn is_waited_for(&self, warp: WarpId, family: Family, limits: &Limits) -> bool {
        self.pending.iter().filter(|pending| pending.issuer.warp == warp).any(|pending| {
            let waits = |lane: usize, clock: u32| limits[lane].is_some_and(|limit| clock <= limit);
            match (&pending.work, family) {
                (Work::Threads(own), Family::Threads) => {
                    lanes(pending.issuer.lanes).any(|lane| waits(lane, own.clocks[lane]))
                }
                (Work::Store(own), Family::Bulk { reads_only }) => {
                    let lane = pending.issuer.lanes.trailing_zeros() as usize;
                    (own.is_reading() || !reads_only) && waits(lane & 31, own.clock)
                }
                _ => false,
            }
        })
    }

    /// The lanes have waited for copies up to the limits, until their sources have been read at
    /// least.
    pub(super) fn note_read(&mut self, warp: WarpId, limits: &Limits) {
        self.unread.retain(|own| {
            let is_covered = limits[own.lane].is_some_and(|limit| own.clock <= limit);
            own.warp != warp || !is_covered
        });
    }

    /// Whether copies that an arrival waits for are unfinished.
    fn blocks_arrival(&self, issuer: &Issuer, sequence: u64) -> bool {
        self.pending.iter().any(|other| {
            matches!(other.work, Work::Threads(_))
                && other.issuer.warp == issuer.warp
                && other.issuer.lanes & issuer.lanes != 0
                && other.sequence < sequence
        })
    }

    /// A copy that has not written these bytes of shared memory yet.
    fn copy_to(&self, place: SharedPlace) -> Option<(&Issuer, &Work)> {
        let mut copies = self.pending.iter().map(|pending| (&pending.issuer, &pending.work));
        copies.find(|(_, work)| match work {
            Work::Load(own) => own.covers(place),
            Work::Threads(own) => own.covers(place),
            Work::Arrive(_) | Work::Store(_) => false,
        })
    }

    pub(super) fn remember(&mut self, bytes: [u8; 128], geometry: &Rc<Geometry>) {
        if self.maps.len() >= MAPS {
            self.maps.remove(0);
        }
        self.maps.push((Box::new(bytes), Rc::clone(geometry)));
    }
}

/// The executing lanes of `mask` issue an operation.
pub(super) fn issue(context: &mut Context<'_>, mask: u32, work: Work) {
    let warp = context.warp.id;
    let origins = match context.grid.is_checked() {
        true => context.grid.races.begin_each(warp, mask),
        false => Vec::new(),
    };
    let issuer = Issuer {
        warp,
        line: context.line,
        lanes: mask,
        origins,
        block: context.cluster.blocks[context.rank].index,
        warp_index: context.warp.index,
    };
    let due = context.grid.now + delay(&mut context.grid.random);
    let engine = &mut context.cluster.engine;
    if let Work::Store(own) = &work {
        let (lane, issued) = (mask.trailing_zeros() as usize & 31, issuer.issued());
        engine.unread.push(Unread { warp, lane, clock: own.clock, rank: context.rank, issued });
    }
    engine.issued += 1;
    let sequence = engine.issued;
    engine.add(Pending { due, sequence, issuer, work });
}

/// Lets everything happen that is due. Returns whether something did.
pub(crate) fn perform_due(
    cluster: &mut Cluster,
    grid: &mut GridState,
) -> Result<bool, EngineFault> {
    if !cluster.engine.has_due(grid.now) {
        return Ok(false);
    }
    let mut moved = false;
    let mut index = 0;
    while index < cluster.engine.pending.len() {
        if cluster.engine.pending[index].due > grid.now {
            index += 1;
            continue;
        }
        let Pending { sequence, issuer, work, .. } = cluster.engine.pending.swap_remove(index);
        moved = true;
        let rest = match perform(work, sequence, &issuer, cluster, grid) {
            Ok(rest) => rest,
            Err(fault) => return Err(issuer.issued().fault(fault)),
        };
        if let Some(work) = rest {
            let due = grid.now + 1 + delay(&mut grid.random);
            cluster.engine.add(Pending { due, sequence, issuer, work });
        }
    }
    cluster.engine.earliest = cluster.engine.next_due().unwrap_or(0);
    grid.progress += u64::from(moved);
    Ok(moved)
}

/// Shared memory is gone when its block has ended, so somebody must have waited for every copy into
/// it, and every thread until its copies out of it have been read, whether that has come in this
/// run or not.
pub(crate) fn check_end(cluster: &Cluster, rank: usize) -> Result<(), EngineFault> {
    if let Some(own) = cluster.engine.unread.iter().find(|own| own.rank == rank) {
        return Err(own.issued.fault(Fault::synchronisation(
            "a block ends, and the thread has not waited until this copy has read its shared memory; \
             `cp.async.bulk.wait_group.read 0` does",
        )));
    }
    let mut pending = cluster.engine.pending.iter();
    let late = pending.find(|pending| match &pending.work {
        Work::Load(own) => own.goes_to(rank) && own.source.bytes() != 0,
        Work::Threads(own) => own.goes_to(rank),
        Work::Arrive(_) | Work::Store(_) => false,
    });
    let late = late.map(|pending| pending.issuer.issued());
    let landed = cluster.blocks.get(rank).map(|block| &block.landed);
    match late.or_else(|| landed?.forgotten()) {
        None => Ok(()),
        Some(issued) => Err(issued.fault(Fault::synchronisation(
            "a block ends, and nobody has waited for this copy into its shared memory",
        ))),
    }
}

/// A read of bytes that nobody has written may be one that did not wait for a copy.
pub(crate) fn explain(cluster: &Cluster, fault: &mut Fault) {
    let ReportKind::Uninitialised { address, detail } = &mut *fault.kind else { return };
    let place = SharedPlace {
        rank: (*address / u64::from(BLOCK_SHARED)) as usize,
        offset: (*address % u64::from(BLOCK_SHARED)) as u32,
    };
    let Some((issuer, work)) = cluster.engine.copy_to(place) else { return };
    let (name, wanted) = match work {
        Work::Load(own) => {
            let barrier = own.barrier_of(place.rank).address();
            (own.name(), format!("a wait for the mbarrier at {barrier:#x}"))
        }
        _ => ("cp.async", "`cp.async.wait_group`".to_owned()),
    };
    *detail = format!(
        "the {name} in PTX line {}, which is still under way, will write it; wanted before: \
         {wanted}",
        issuer.line
    );
}

/// Performs an operation. Returns what is left to be done of it.
fn perform(
    work: Work,
    sequence: u64,
    issuer: &Issuer,
    cluster: &mut Cluster,
    grid: &mut GridState,
) -> Outcome<Option<Work>> {
    match work {
        Work::Threads(own) => own.perform(issuer, cluster, grid).map(|()| None),
        Work::Arrive(own) if cluster.engine.blocks_arrival(issuer, sequence) => {
            Ok(Some(Work::Arrive(own)))
        }
        Work::Arrive(own) => own.perform(issuer, cluster).map(|()| None),
        Work::Load(own) => own.perform(issuer, cluster, grid).map(|()| None),
        Work::Store(own) => {
            let rest = own.perform(issuer, cluster, grid)?;
            Ok(rest.map(|own| Work::Store(Box::new(own))))
        }
    }
}
