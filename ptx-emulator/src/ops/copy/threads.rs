//! `cp.async`: each thread copies 4, 8 or 16 bytes (PTX ISA 9.1, 9.7.9.25.3).

use super::engine::{Issuer, Work, issue as issue_work};
use super::groups::Family;
use super::load::plain;
use super::transfer::{Known, check_global, read_global, write_shared};
use crate::execute::block::Cluster;
use crate::execute::grid::GridState;
use crate::execute::registers::lanes;
use crate::execute::report::{Fault, ReportKind};
use crate::execute::{Context, Outcome, check_alignment};
use crate::ops::access::{Space, addresses};
use crate::ops::mbarrier::{self, SharedPlace, Wanted};
use crate::program::operand::{Address, Source32, SourcePredicate};
use crate::race::{Agent, Proxy, Role, Strength};

/// `cp.async`.
#[derive(Clone, Debug)]
pub(crate) struct ThreadCopy {
    pub(super) to: (Space, Address),
    pub(super) from: Address,
    /// 4, 8 or 16.
    pub(super) bytes: u32,
    /// How many bytes come; zeros follow.
    pub(super) valid: Valid,
}

/// How many bytes of a copy come from global memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Valid {
    All,
    Bytes(Source32),
    /// None where the predicate holds.
    Unless(SourcePredicate),
}

/// `cp.async.mbarrier.arrive`.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(super) barrier: (Space, Address),
    /// Whether the phase first wants one arrival more, for this one.
    pub(super) is_extra: bool,
}

/// The copies of a warp's lanes.
#[derive(Debug)]
pub(super) struct ThreadCopies {
    to: [Option<SharedPlace>; 32],
    from: [u64; 32],
    valid: [u32; 32],
    bytes: u32,
    pub(super) clocks: [u32; 32],
}

/// Arrivals on mbarriers once earlier copies of the same threads are complete.
#[derive(Debug)]
pub(super) struct LateArrival {
    places: [Option<SharedPlace>; 32],
    clocks: [u32; 32],
}

/// Issues copies.
pub(super) fn issue(own: &ThreadCopy, context: &mut Context<'_>) -> Outcome {
    let targets = addresses(own.to.1, context);
    let from = addresses(own.from, context);
    let registers = &context.frame.registers;
    let valid = match own.valid {
        Valid::All => [own.bytes; 32],
        Valid::Bytes(bytes) => registers.words(bytes),
        Valid::Unless(ignored) => {
            let ignored = registers.predicate(ignored);
            std::array::from_fn(|lane| if ignored >> lane & 1 == 1 { 0 } else { own.bytes })
        }
    };
    let alignment = u64::from(own.bytes);
    let wanted = Wanted { access: "cp.async", bytes: alignment, alignment };
    let mut to = [None; 32];
    for lane in lanes(context.mask) {
        let at = (lane, targets[lane]);
        to[lane] = Some(SharedPlace::find(context.cluster, context.rank, own.to.0, at, wanted)?);
        if valid[lane] > own.bytes {
            let text = format!("cp.async of {} bytes, {} of them valid", own.bytes, valid[lane]);
            return Err(Fault::at_lane(lane, ReportKind::Operand(text)));
        }
        if valid[lane] != 0 {
            check_alignment("cp.async", "global", from[lane], alignment)
                .and_then(|()| {
                    check_global(context.grid, "cp.async", from[lane], valid[lane].into())
                })
                .map_err(|kind| Fault::at_lane(lane, kind))?;
        }
    }
    let groups = context.warp.copies.groups(Family::Threads);
    let clocks = std::array::from_fn(|lane| groups[lane].clock());
    let work = ThreadCopies { to, from, valid, bytes: own.bytes, clocks };
    issue_work(context, context.mask, Work::Threads(Box::new(work)));
    Ok(())
}

impl ThreadCopies {
    /// Whether some go to the shared memory of a block.
    pub(super) fn goes_to(&self, rank: usize) -> bool {
        self.to.iter().flatten().any(|place| place.rank == rank)
    }

    /// Whether one of them writes a byte of shared memory.
    pub(super) fn covers(&self, place: SharedPlace) -> bool {
        self.to.iter().flatten().any(|to| {
            let offset = place.offset.checked_sub(to.offset);
            to.rank == place.rank && offset.is_some_and(|offset| offset < self.bytes)
        })
    }

    pub(super) fn perform(
        &self,
        issuer: &Issuer,
        cluster: &mut Cluster,
        grid: &mut GridState,
    ) -> Outcome {
        for lane in lanes(issuer.lanes) {
            let Some(place) = self.to[lane] else { continue };
            let known = Known {
                agent: Agent::warp(issuer.warp, Role::Copy),
                lanes: 1 << lane,
                clock: self.clocks[lane],
                strength: Strength::Weak,
                proxy: Proxy::Generic,
            };
            let access = known.access(issuer);
            let mut data = [0; 16];
            let valid = (self.valid[lane] as usize).min(data.len());
            let content = self.bytes.min(16) as usize;
            read_global(grid, access.as_ref(), self.from[lane], &mut data[..valid])
                .and_then(|()| {
                    let content = (&data[..content], plain());
                    write_shared(cluster, grid, access.as_ref(), place, content, None)
                })
                .map_err(|fault| Fault { lane: Some(lane as u32), ..fault })?;
            if let Some(block) = cluster.blocks.get_mut(place.rank)
                && !issuer.origins.is_empty()
            {
                block.landed.note(&known, issuer);
            }
        }
        grid.statistics.copied_bytes += u64::from(self.bytes * issuer.lanes.count_ones());
        Ok(())
    }
}

/// Issues arrivals.
pub(super) fn issue_arrival(own: &Arrival, context: &mut Context<'_>) -> Outcome {
    let addresses = addresses(own.barrier.1, context);
    let wanted = Wanted { access: "cp.async.mbarrier.arrive", bytes: 8, alignment: 8 };
    let mut places = [None; 32];
    for lane in lanes(context.mask) {
        let at = (lane, addresses[lane]);
        let place = SharedPlace::find(context.cluster, context.rank, own.barrier.0, at, wanted)?;
        let found = context.cluster.blocks[place.rank].mbarriers.get(place.offset);
        let extra = found.and_then(|barrier| match own.is_extra {
            true => barrier.expect_arrival(),
            false => Ok(()),
        });
        extra.map_err(|problem| mbarrier::fault(lane, place, &problem))?;
        places[lane] = Some(place);
    }
    let groups = context.warp.copies.groups(Family::Threads);
    let clocks = std::array::from_fn(|lane| groups[lane].clock());
    for lane in lanes(context.mask) {
        // What is copied from here on does not become known by this arrival.
        groups[lane].advance();
    }
    let work = LateArrival { places, clocks };
    issue_work(context, context.mask, Work::Arrive(Box::new(work)));
    Ok(())
}

impl LateArrival {
    pub(super) fn perform(&self, issuer: &Issuer, cluster: &mut Cluster) -> Outcome {
        let agent = Agent::warp(issuer.warp, Role::Copy);
        for lane in lanes(issuer.lanes) {
            let Some(place) = self.places[lane] else { continue };
            let Some(block) = cluster.blocks.get_mut(place.rank) else { continue };
            let found = block.mbarriers.get(place.offset).and_then(|barrier| {
                barrier.current().learn(agent, 1 << lane, self.clocks[lane]);
                barrier.arrive(1, false, true)
            });
            found.map_err(|problem| mbarrier::fault(lane, place, &problem))?;
        }
        Ok(())
    }
}
