//! Issuing bulk copies: `cp.async.bulk` and `cp.reduce.async.bulk`, with and without tensor maps.

use super::engine::{Work, issue};
use super::groups::Family;
use super::load::{Load, Source};
use super::store::{Store, Target};
use super::tensor::{TensorBox, TensorOperand};
use super::transfer::check_global;
use crate::execute::registers::lanes;
use crate::execute::report::{Fault, ReportKind};
use crate::execute::{Context, Outcome, check_alignment};
use crate::ops::access::{Space, addresses};
use crate::ops::mbarrier::{self, SharedPlace, Wanted};
use crate::program::operand::{Address, Source32};
use crate::race::Proxy;
use crate::tensor_map::TensorDataType;
use crate::tensor_map::geometry::Direction;
use crate::tensor_map::reduce::{ReduceOp, reduce};

/// What sizes and addresses of plain bulk copies are multiples of.
const UNIT: u32 = 16;
/// What addresses of boxes in shared memory are multiples of.
const BOX_ALIGNMENT: u64 = 128;

/// A copy into shared memory.
#[derive(Clone, Debug)]
pub(crate) struct BulkLoad {
    pub(super) source: BulkSource,
    /// The space of the destination and of the mbarrier.
    pub(super) space: Space,
    pub(super) to: Address,
    pub(super) barrier: Address,
    /// Ranks of the destinations, for multicast.
    pub(super) ranks: Option<Source32>,
    /// Whether the mbarrier may be in the other block of the destination's pair.
    pub(super) paired: bool,
    pub(super) reduction: Option<(ReduceOp, TensorDataType)>,
}

/// Where a copy into shared memory comes from.
#[derive(Clone, Debug)]
pub(crate) enum BulkSource {
    Global(Address, Source32),
    Shared(Address, Source32),
    Tensor(TensorOperand),
}

/// A copy into global memory.
#[derive(Clone, Debug)]
pub(crate) struct BulkStore {
    pub(super) from: Address,
    pub(super) to: BulkTarget,
    /// The operation of a reduction; its type, unless the tensor map says it.
    pub(super) reduction: Option<(ReduceOp, Option<TensorDataType>)>,
}

/// Where a copy into global memory goes.
#[derive(Clone, Debug)]
pub(crate) enum BulkTarget {
    Global(Address, Source32),
    Tensor(TensorOperand),
}

/// A prefetch into the L2 cache.
#[derive(Clone, Debug)]
pub(crate) enum Prefetch {
    Global(Address, Source32),
    Tensor(TensorOperand),
}

fn check_size(lane: usize, bytes: u32) -> Outcome {
    if bytes.is_multiple_of(UNIT) {
        return Ok(());
    }
    let text = format!("a bulk copy of {bytes} bytes; the size is a multiple of {UNIT}");
    Err(Fault::at_lane(lane, ReportKind::Operand(text)))
}

fn check_source(context: &mut Context<'_>, lane: usize, address: u64, bytes: u32) -> Outcome {
    check_alignment("bulk copy", "global", address, UNIT.into())
        .and_then(|()| check_global(context.grid, "bulk copy", address, bytes.into()))
        .map_err(|kind| Fault::at_lane(lane, kind))
}

/// The sources of the executing lanes.
fn sources(own: &BulkSource, context: &mut Context<'_>) -> Outcome<Vec<(usize, Source)>> {
    let (address, size) = match own {
        BulkSource::Tensor(operand) => {
            let boxes = TensorBox::of_lanes(operand, context, Direction::Load)?;
            return Ok(boxes.into_iter().map(|(lane, own)| (lane, Source::Tensor(own))).collect());
        }
        BulkSource::Global(address, size) | BulkSource::Shared(address, size) => (address, size),
    };
    let addresses = addresses(*address, context);
    let sizes = context.frame.registers.words(*size);
    let mut list = Vec::new();
    for lane in lanes(context.mask) {
        let (address, bytes) = (addresses[lane], sizes[lane]);
        check_size(lane, bytes)?;
        if matches!(own, BulkSource::Global(..)) {
            check_source(context, lane, address, bytes)?;
            list.push((lane, Source::Global(address, bytes)));
            continue;
        }
        let place = find(context, Space::Shared, (lane, address), (bytes, UNIT.into()))?;
        list.push((lane, Source::Shared(place, bytes)));
    }
    Ok(list)
}

fn find(
    context: &Context<'_>,
    space: Space,
    at: (usize, u64),
    (bytes, alignment): (u32, u64),
) -> Outcome<SharedPlace> {
    let wanted = Wanted { access: "bulk copy", bytes: bytes.into(), alignment };
    SharedPlace::find(context.cluster, context.rank, space, at, wanted)
}

/// Issues copies into shared memory.
pub(super) fn issue_load(own: &BulkLoad, context: &mut Context<'_>) -> Outcome {
    let targets = addresses(own.to, context);
    let barriers = addresses(own.barrier, context);
    let ranks = own.ranks.map(|ranks| context.frame.registers.words(ranks));
    for (lane, source) in sources(&own.source, context)? {
        let is_box = matches!(source, Source::Tensor(_));
        let alignment = if is_box { BOX_ALIGNMENT } else { UNIT.into() };
        let shape = (source.span(), alignment);
        let to = find(context, own.space, (lane, targets[lane]), shape)?;
        let barrier = find(context, own.space, (lane, barriers[lane]), (8, 8))?;
        let ranks = match ranks {
            Some(masks) => check_ranks(context, lane, masks[lane])?,
            None if own.paired => check_same_pair(lane, to, barrier)?,
            None => check_same_block(lane, to, barrier)?,
        };
        let parity = own.paired.then_some(barrier.rank % 2);
        let (to, barrier) = (to.offset, barrier.offset);
        let (reduction, proxy) = (own.reduction, Proxy::Async);
        let load = Load { source, to, ranks, barrier, parity, reduction, proxy };
        for rank in lanes(ranks) {
            check_barrier(context, lane, load.barrier_of(rank))?;
        }
        issue(context, 1 << lane, Work::Load(Box::new(load)));
    }
    Ok(())
}

/// The destinations of a multicast must exist.
fn check_ranks(context: &Context<'_>, lane: usize, mask: u32) -> Outcome<u32> {
    let mask = mask & 0xffff;
    let blocks = context.cluster.blocks.len() as u32;
    let wrong = |text| Err(Fault::at_lane(lane, ReportKind::Operand(text)));
    if mask == 0 || mask.checked_shr(blocks).unwrap_or(0) != 0 {
        return wrong(format!("multicast to blocks {mask:#x} of a cluster of {blocks}"));
    }
    for rank in lanes(mask) {
        let block = &context.cluster.blocks[rank];
        if let Some(hint) = block.absence().filter(|_| rank != context.rank) {
            return wrong(format!("multicast to blocks {mask:#x} of the cluster{hint}"));
        }
    }
    Ok(mask)
}

/// The mbarrier must be in the destination's block. Returns the mask of that block.
pub(super) fn check_same_block(lane: usize, to: SharedPlace, barrier: SharedPlace) -> Outcome<u32> {
    if to.rank == barrier.rank {
        return Ok(1 << to.rank);
    }
    let problem = format!("it is in block {}, the copy goes to block {}", barrier.rank, to.rank);
    Err(mbarrier::fault(lane, barrier, &problem))
}

/// The mbarrier must be in the destination's pair: two blocks whose ranks differ in the lowest bit.
/// Returns the mask of the destination's block.
fn check_same_pair(lane: usize, to: SharedPlace, barrier: SharedPlace) -> Outcome<u32> {
    if to.rank / 2 == barrier.rank / 2 {
        return Ok(1 << to.rank);
    }
    let problem = format!(
        "it is in block {}, the copy goes to block {}, which is of another pair",
        barrier.rank, to.rank
    );
    Err(mbarrier::fault(lane, barrier, &problem))
}

/// The mbarrier must be alive when a copy that completes on it is issued.
pub(super) fn check_barrier(context: &mut Context<'_>, lane: usize, place: SharedPlace) -> Outcome {
    let Some(block) = context.cluster.blocks.get_mut(place.rank) else { return Ok(()) };
    let found = block.mbarriers.get(place.offset).map(drop);
    found.map_err(|problem| {
        mbarrier::fault(lane, place, &format!("a copy is to complete on it: {problem}"))
    })
}

/// Issues copies into global memory.
pub(super) fn issue_store(own: &BulkStore, context: &mut Context<'_>) -> Outcome {
    let sources = addresses(own.from, context);
    for (lane, to) in targets(&own.to, context)? {
        let alignment = match &to {
            Target::Tensor(_) => BOX_ALIGNMENT,
            Target::Global(..) => UNIT.into(),
        };
        let shape = (to.span(), alignment);
        let from = find(context, Space::Shared, (lane, sources[lane]), shape)?;
        let reduction = own.reduction.map(|(op, data_type)| {
            let of_map = match &to {
                Target::Tensor(own) => own.geometry.data_type(),
                Target::Global(..) => TensorDataType::U32,
            };
            (op, data_type.unwrap_or(of_map))
        });
        if let Some((op, data_type)) = reduction {
            // Whether the type has the operation shows without data.
            reduce(op, data_type, &mut [], &[])
                .map_err(|error| Fault::at_lane(lane, ReportKind::Operand(error.to_string())))?;
        }
        let groups = context.warp.copies.groups(Family::Bulk { reads_only: false });
        let clock = groups[lane].clock();
        let store = Store { from, to, reduction, clock, data: None };
        issue(context, 1 << lane, Work::Store(Box::new(store)));
    }
    Ok(())
}

fn targets(own: &BulkTarget, context: &mut Context<'_>) -> Outcome<Vec<(usize, Target)>> {
    let (address, size) = match own {
        BulkTarget::Tensor(operand) => {
            let boxes = TensorBox::of_lanes(operand, context, Direction::Store)?;
            return Ok(boxes.into_iter().map(|(lane, own)| (lane, Target::Tensor(own))).collect());
        }
        BulkTarget::Global(address, size) => (address, size),
    };
    let addresses = addresses(*address, context);
    let sizes = context.frame.registers.words(*size);
    let mut list = Vec::new();
    for lane in lanes(context.mask) {
        check_size(lane, sizes[lane])?;
        check_source(context, lane, addresses[lane], sizes[lane])?;
        list.push((lane, Target::Global(addresses[lane], sizes[lane])));
    }
    Ok(list)
}

/// Checks the operands of a prefetch. It may name what is not allocated: PTX does not say so, but
/// an H200 takes that for a hint like any other (driver 580.159.04, 2026-11-21).
pub(super) fn prefetch(own: &Prefetch, context: &mut Context<'_>) -> Outcome {
    match own {
        Prefetch::Tensor(operand) => {
            for (_, own) in TensorBox::of_lanes(operand, context, Direction::Load)? {
                context.grid.statistics.prefetched_bytes += u64::from(own.geometry.bytes());
            }
            Ok(())
        }
        Prefetch::Global(address, size) => {
            let addresses = addresses(*address, context);
            let sizes = context.frame.registers.words(*size);
            for lane in lanes(context.mask) {
                check_size(lane, sizes[lane])?;
                check_alignment("bulk prefetch", "global", addresses[lane], UNIT.into())
                    .map_err(|kind| Fault::at_lane(lane, kind))?;
                context.grid.statistics.prefetched_bytes += u64::from(sizes[lane]);
            }
            Ok(())
        }
    }
}
