//! Barriers between threads, fences between memory accesses, and the register budget of a
//! warpgroup.
//!
//! Three questions decide which function is needed:
//!
//! * *Who waits for whom?* The block ([`block_barrier`]), some of its warps ([`named_barrier`]),
//!   the warp ([`warp_barrier`]), the cluster ([`cluster_arrive`], [`cluster_wait`]).
//! * *Whose accesses become visible to whom?* [`fence_block`], [`fence_device`], [`fence_system`].
//!   The barriers above already order the memory accesses of those who take part.
//! * *By which road does the memory travel?* Tensor copies and wgmma read memory through the *async
//!   proxy*. What ordinary stores wrote is visible there only after [`fence_async_shared`],
//!   executed by the writers, and then a barrier.

/// Waits for all threads of the block: `bar.sync 0` (PTX manual, "Parallel Synchronization and
/// Communication Instructions: bar, barrier").
///
/// # Safety
///
/// Every thread of the block must call it; warps must be converged.
#[inline(always)]
pub unsafe fn block_barrier() {
    // SAFETY: the caller brings the whole block.
    unsafe { ptx!("bar.sync 0;", options(nostack)) }
}

/// Waits for `THREADS` threads at barrier `ID`: `bar.sync ID, THREADS` (PTX manual, "Parallel
/// Synchronization and Communication Instructions: bar, barrier").
///
/// # Safety
///
/// Exactly `THREADS` threads, whole converged warps, must call it with the same `ID`; barrier 0 is
/// that of [`block_barrier`].
#[inline(always)]
pub unsafe fn named_barrier<const ID: u32, const THREADS: u32>() {
    const { assert!(ID < 16 && THREADS.is_multiple_of(32) && THREADS > 0) };
    // SAFETY: the caller brings the threads.
    unsafe {
        ptx!("bar.sync {id}, {threads};", id = const ID, threads = const THREADS, options(nostack))
    }
}

/// Waits for all lanes of the warp and orders their memory accesses: `bar.warp.sync` (PTX manual,
/// "Parallel Synchronization and Communication Instructions: bar.warp.sync").
///
/// # Safety
///
/// All 32 lanes of the warp must call it.
#[inline(always)]
pub unsafe fn warp_barrier() {
    // SAFETY: the caller brings the whole warp.
    unsafe { ptx!("bar.warp.sync 0xffffffff;", options(nostack)) }
}

/// Orders this thread's accesses for the threads of its block: `fence.acq_rel.cta` (PTX manual,
/// "Parallel Synchronization and Communication Instructions: membar, fence").
#[inline(always)]
pub fn fence_block() {
    // SAFETY: a fence has no operands and no effect but order.
    unsafe { ptx!("fence.acq_rel.cta;", options(nostack)) }
}

/// Orders this thread's accesses for all threads of the device: `fence.acq_rel.gpu` (PTX manual,
/// "Parallel Synchronization and Communication Instructions: membar, fence").
#[inline(always)]
pub fn fence_device() {
    // SAFETY: a fence has no operands and no effect but order.
    unsafe { ptx!("fence.acq_rel.gpu;", options(nostack)) }
}

/// Orders this thread's accesses for the host and other devices too: `fence.acq_rel.sys` (PTX
/// manual, "Parallel Synchronization and Communication Instructions: membar, fence").
#[inline(always)]
pub fn fence_system() {
    // SAFETY: a fence has no operands and no effect but order.
    unsafe { ptx!("fence.acq_rel.sys;", options(nostack)) }
}

/// Orders this thread's ordinary accesses to shared memory with those of the async proxy, both
/// ways: `fence.proxy.async.shared::cta` (PTX manual, "Parallel Synchronization and Communication
/// Instructions: membar, fence").
///
/// The writers call it, then a barrier, then the tensor copy or the wgmma may read.
#[inline(always)]
pub fn fence_async_shared() {
    // SAFETY: a fence has no operands and no effect but order.
    unsafe { ptx!("fence.proxy.async.shared::cta;", options(nostack)) }
}

/// Makes initialised mbarriers visible to the cluster and to the async proxy:
/// `fence.mbarrier_init.release.cluster` (PTX manual, "Parallel Synchronization and Communication
/// Instructions: membar, fence"). A barrier of the block or of the cluster must follow.
#[inline(always)]
pub fn fence_mbarrier_init() {
    // SAFETY: a fence has no operands and no effect but order.
    unsafe { ptx!("fence.mbarrier_init.release.cluster;", options(nostack)) }
}

/// Arrives at the barrier of the cluster without waiting: `barrier.cluster.arrive.release.aligned`
/// (PTX manual, "Parallel Synchronization and Communication Instructions: barrier.cluster").
///
/// # Safety
///
/// Every thread of the cluster must call it, in converged warps, and then [`cluster_wait`].
#[inline(always)]
pub unsafe fn cluster_arrive() {
    // SAFETY: the caller brings the whole cluster.
    unsafe { ptx!("barrier.cluster.arrive.release.aligned;", options(nostack)) }
}

/// Waits for all threads of the cluster to have arrived: `barrier.cluster.wait.acquire.aligned`
/// (PTX manual, "Parallel Synchronization and Communication Instructions: barrier.cluster").
///
/// # Safety
///
/// Every thread of the cluster must have called [`cluster_arrive`] before, in converged warps.
#[inline(always)]
pub unsafe fn cluster_wait() {
    // SAFETY: the caller brings the whole cluster.
    unsafe { ptx!("barrier.cluster.wait.acquire.aligned;", options(nostack)) }
}

/// True in exactly one lane of the warp, the same at each call: `elect.sync` (PTX manual, "Parallel
/// Synchronization and Communication Instructions: elect.sync").
///
/// # Safety
///
/// All 32 lanes of the warp must call it together.
#[inline(always)]
pub unsafe fn elect_one() -> bool {
    let elected: u32;
    // SAFETY: the caller brings the whole warp.
    unsafe {
        ptx!(
            "{{ .reg .pred p;",
            "elect.sync _|p, 0xffffffff;",
            "selp.u32 {elected}, 1, 0, p; }}",
            elected = out(reg32) elected,
            options(nomem, nostack, preserves_flags)
        )
    };
    elected != 0
}

/// Lowers the warpgroup's registers to `COUNT` per thread: `setmaxnreg.dec` (PTX manual,
/// "Miscellaneous Instructions: setmaxnreg").
///
/// # Safety
///
/// All warps of the warpgroup must call it, once; the kernel must have fixed launch bounds
/// (`.reqntid` with `.minnctapersm`), else the assembler ignores it with note C7508.
#[inline(always)]
pub unsafe fn release_registers<const COUNT: u32>() {
    const { assert!(COUNT >= 24 && COUNT <= 256 && COUNT.is_multiple_of(8)) };
    // SAFETY: the caller brings the whole warpgroup.
    unsafe {
        ptx!("setmaxnreg.dec.sync.aligned.u32 {count};", count = const COUNT, options(nostack))
    }
}

/// Raises the warpgroup's registers to `COUNT` per thread, waiting until others have released
/// enough: `setmaxnreg.inc` (PTX manual, "Miscellaneous Instructions: setmaxnreg").
///
/// # Safety
///
/// As [`release_registers`]; the block's registers must suffice once all have released theirs.
#[inline(always)]
pub unsafe fn claim_registers<const COUNT: u32>() {
    const { assert!(COUNT >= 24 && COUNT <= 256 && COUNT.is_multiple_of(8)) };
    // SAFETY: the caller brings the whole warpgroup.
    unsafe {
        ptx!("setmaxnreg.inc.sync.aligned.u32 {count};", count = const COUNT, options(nostack))
    }
}

/// Waits until the grids that this one depends on have ended and their writes are visible:
/// `griddepcontrol.wait` (PTX manual, "Parallel Synchronization and Communication Instructions:
/// griddepcontrol"). Does nothing in a launch without programmatic dependency.
#[inline(always)]
pub fn grid_dependency_wait() {
    // SAFETY: no operands; waits only.
    unsafe { ptx!("griddepcontrol.wait;", options(nostack)) }
}

/// Lets the dependent grid start: `griddepcontrol.launch_dependents` (PTX manual, "Parallel
/// Synchronization and Communication Instructions: griddepcontrol"). It promises nothing about
/// memory.
#[inline(always)]
pub fn grid_launch_dependents() {
    // SAFETY: no operands; no effect on this grid.
    unsafe { ptx!("griddepcontrol.launch_dependents;", options(nostack)) }
}
