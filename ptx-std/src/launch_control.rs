//! Cluster launch control: a running cluster takes over the work of one that has not started.
//!
//! A kernel is launched with a cluster for each tile. One that is done with its tile asks to cancel
//! a cluster which has not started ([`try_cancel`]); if there is one, the [`Response`] says which,
//! and the tile is the asker's. So tiles are handed out as multiprocessors become free, without a
//! counter in memory. Needs `sm_100a` and PTX 8.6.
//!
//! ```text
//!   barrier.arrive_expect(Response::BYTES)
//!   try_cancel(response, barrier)
//!   … work on the present tile …
//!   barrier.wait(parity)
//!   response.first_block()  ──▶  Some(block): the next tile   None: no work is left
//! ```
//!
//! After a response without work nobody may ask again.

use crate::mbarrier::Barrier;

/// 16 bytes of shared memory, 16-byte aligned, that receive an answer; named by the `.shared`
/// address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// Address in the `.shared` window.
    pub address: u32,
}

impl Response {
    /// Bytes of an answer.
    pub const BYTES: u32 = 16;

    /// Index in the grid (x, y, z) of the first block of the cancelled cluster, or `None` if none
    /// was left: `clusterlaunchcontrol.query_cancel.is_canceled` and `….get_first_ctaid` (PTX
    /// manual, "Parallel Synchronization and Communication Instructions:
    /// clusterlaunchcontrol.query_cancel").
    ///
    /// # Safety
    ///
    /// The answer is there: this thread has waited for the barrier of [`try_cancel`].
    #[inline(always)]
    pub unsafe fn first_block(self) -> Option<[u32; 3]> {
        let (cancelled, x, y, z): (u32, u32, u32, u32);
        // SAFETY: the caller vouches for the answer.
        unsafe {
            ptx!(
                "{{ .reg .pred p;",
                ".reg .b128 answer;",
                "ld.shared.b128 answer, [{address}];",
                "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, answer;",
                "selp.u32 {cancelled}, 1, 0, p;",
                // Not defined unless a cluster was cancelled.
                "mov.u32 {x}, 0;",
                "mov.u32 {y}, 0;",
                "mov.u32 {z}, 0;",
                "@p clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 \
                 {{{x}, {y}, {z}, _}}, answer; }}",
                cancelled = out(reg32) cancelled,
                x = out(reg32) x,
                y = out(reg32) y,
                z = out(reg32) z,
                address = in(reg32) self.address,
                options(nostack)
            )
        };
        if cancelled != 0 { Some([x, y, z]) } else { None }
    }
}

/// Asks to cancel a cluster that has not started; the answer arrives at `response`, and its 16
/// bytes are counted by `barrier`: `clusterlaunchcontrol.try_cancel.async` (PTX manual, "Parallel
/// Synchronization and Communication Instructions: clusterlaunchcontrol.try_cancel").
///
/// # Safety
///
/// One thread calls it, in a kernel without clusters. `response` is free: who read an earlier
/// answer there has met this thread at a barrier, after
/// [`fence_async_shared`](crate::sync::fence_async_shared). `barrier` expects 16 bytes. No earlier
/// answer said that no work is left.
#[inline(always)]
pub unsafe fn try_cancel(response: Response, barrier: Barrier) {
    // SAFETY: the caller keeps the contract above.
    unsafe {
        ptx!(
            "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 \
             [{response}], [{barrier}];",
            response = in(reg32) response.address,
            barrier = in(reg32) barrier.address,
            options(nostack)
        )
    }
}

/// As [`try_cancel`], for kernels with clusters: every block of the cluster receives the answer at
/// the same place, counted by its own barrier at the same place:
/// `clusterlaunchcontrol.try_cancel.async….multicast::cluster::all` (PTX manual, "Parallel
/// Synchronization and Communication Instructions: clusterlaunchcontrol.try_cancel"). The first
/// block is that of rank 0; a block adds its own place in the cluster.
///
/// # Safety
///
/// As [`try_cancel`], for each block; one thread of the cluster calls it, and all blocks have
/// started.
#[inline(always)]
pub unsafe fn try_cancel_multicast(response: Response, barrier: Barrier) {
    // SAFETY: the caller keeps the contract above.
    unsafe {
        ptx!(
            "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes\
             .multicast::cluster::all.b128 [{response}], [{barrier}];",
            response = in(reg32) response.address,
            barrier = in(reg32) barrier.address,
            options(nostack)
        )
    }
}
