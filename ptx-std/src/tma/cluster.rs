//! Tensor copies for clusters: reported to the barrier of the neighbour, or into several blocks.

use crate::cluster::ClusterBarrier;
use crate::mbarrier::Barrier;

/// As [`load_2d`](super::load_2d), reported to a barrier of either block of a pair, so that the
/// block which issues products for both waits in one place for what both have loaded:
/// `cp.async.bulk.tensor.2d….cta_group::2` (PTX manual, "Data Movement and Conversion Instructions:
/// cp.async.bulk.tensor"). Needs `sm_100a`.
///
/// # Safety
///
/// As [`load_2d`](super::load_2d); the barrier is in this block or in the one whose rank differs in
/// the lowest bit, which has started and has not ended.
#[inline(always)]
pub unsafe fn load_2d_pair(destination: u32, map: u64, x: u32, y: u32, barrier: ClusterBarrier) {
    // SAFETY: the caller keeps the contract above.
    unsafe {
        ptx!(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.cta_group::2 \
             [{destination}], [{map}, {{{x}, {y}}}], [{barrier}];",
            destination = in(reg32) destination,
            map = in(reg64) map,
            x = in(reg32) x,
            y = in(reg32) y,
            barrier = in(reg32) barrier.address,
            options(nostack)
        )
    }
}

/// As [`load_2d_pair`], of a three-dimensional tensor: `cp.async.bulk.tensor.3d….cta_group::2` (PTX
/// manual, "Data Movement and Conversion Instructions: cp.async.bulk.tensor"). Needs `sm_100a`.
///
/// # Safety
///
/// As [`load_2d_pair`], with a three-dimensional map.
#[inline(always)]
pub unsafe fn load_3d_pair(
    destination: u32,
    map: u64,
    x: u32,
    y: u32,
    z: u32,
    barrier: ClusterBarrier,
) {
    // SAFETY: the caller keeps the contract above.
    unsafe {
        ptx!(
            "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.cta_group::2 \
             [{destination}], [{map}, {{{x}, {y}, {z}}}], [{barrier}];",
            destination = in(reg32) destination,
            map = in(reg64) map,
            x = in(reg32) x,
            y = in(reg32) y,
            z = in(reg32) z,
            barrier = in(reg32) barrier.address,
            options(nostack)
        )
    }
}

/// As [`load_2d`](super::load_2d), into the same place of every block of the cluster whose rank's
/// bit is set in `blocks`; each of them counts the whole box at its own barrier at the same place:
/// `cp.async.bulk.tensor.2d….multicast::cluster` (PTX manual, "Data Movement and Conversion
/// Instructions: cp.async.bulk.tensor").
///
/// # Safety
///
/// As [`load_2d`](super::load_2d), for each of the blocks, which have started and have not ended.
#[inline(always)]
pub unsafe fn load_2d_multicast(
    destination: u32,
    map: u64,
    x: u32,
    y: u32,
    barrier: Barrier,
    blocks: u16,
) {
    // SAFETY: the caller keeps the contract above.
    unsafe {
        ptx!(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes\
             .multicast::cluster [{destination}], [{map}, {{{x}, {y}}}], [{barrier}], {blocks};",
            destination = in(reg32) destination,
            map = in(reg64) map,
            x = in(reg32) x,
            y = in(reg32) y,
            barrier = in(reg32) barrier.address,
            blocks = in(reg16) blocks,
            options(nostack)
        )
    }
}
