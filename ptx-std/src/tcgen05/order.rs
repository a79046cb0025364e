//! What orders the asynchronous instructions: commits to mbarriers, and fences.

use crate::mbarrier::Barrier;

use super::Group;

/// Arrives once at `barrier` when all products and copies that this thread has issued are complete:
/// `tcgen05.commit` (PTX manual, "TensorCore 5th Generation Instructions: tcgen05.commit").
/// Includes [`fence_before`].
///
/// # Safety
///
/// The thread that issued them calls it; the barrier is this block's, initialised, and expects the
/// arrival in this phase.
#[inline(always)]
pub unsafe fn commit<G: Group>(barrier: Barrier) {
    // SAFETY: the caller keeps the count.
    unsafe {
        ptx!(
            "tcgen05.commit.cta_group::{group}.mbarrier::arrive::one.shared::cluster.b64 [{barrier}];",
            group = const G::BLOCKS,
            barrier = in(reg32) barrier.address,
            options(nostack)
        )
    }
}

/// As [`commit`], at the barriers at the same place of all blocks of the cluster whose rank's bit
/// is set in `blocks`: `tcgen05.commit….multicast::cluster` (PTX manual, "TensorCore 5th Generation
/// Instructions: tcgen05.commit").
///
/// # Safety
///
/// As [`commit`], for each of the barriers; the blocks have started and none has ended.
#[inline(always)]
pub unsafe fn commit_multicast<G: Group>(barrier: Barrier, blocks: u16) {
    // SAFETY: the caller keeps the counts.
    unsafe {
        ptx!(
            "tcgen05.commit.cta_group::{group}.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 \
             [{barrier}], {blocks};",
            group = const G::BLOCKS,
            barrier = in(reg32) barrier.address,
            blocks = in(reg16) blocks,
            options(nostack)
        )
    }
}

/// Orders this thread's earlier tcgen05 instructions before what follows in other threads after a
/// barrier: `tcgen05.fence::before_thread_sync` (PTX manual, "TensorCore 5th Generation
/// Instructions: tcgen05.fence").
#[inline(always)]
pub fn fence_before() {
    // SAFETY: a fence has no operands and no effect but order.
    unsafe { ptx!("tcgen05.fence::before_thread_sync;", options(nostack)) }
}

/// Orders what other threads did before a barrier before this thread's later tcgen05 instructions:
/// `tcgen05.fence::after_thread_sync` (PTX manual, "TensorCore 5th Generation Instructions:
/// tcgen05.fence").
#[inline(always)]
pub fn fence_after() {
    // SAFETY: a fence has no operands and no effect but order.
    unsafe { ptx!("tcgen05.fence::after_thread_sync;", options(nostack)) }
}
