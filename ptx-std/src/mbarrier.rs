//! Barriers in shared memory that count arrivals of threads *and* bytes of asynchronous copies.
//!
//! An mbarrier goes through phases 0, 1, 0, 1, … A phase ends when the expected number of arrivals
//! has come and all announced bytes have landed; the next begins at once. A waiter names the parity
//! of the phase whose end it waits for.
//!
//! The ring of a producer and its consumers uses two barriers per slot:
//!
//! ```text
//!            producer                               consumers
//!   wait empty[s] (parity starts at 1)      wait full[s] (parity starts at 0)
//!   full[s].arrive_expect(bytes)            read the slot
//!   copy into the slot ──bytes──▶ full[s]   empty[s].arrive()
//! ```
//!
//! On a fresh barrier a wait for parity 1 returns at once ("the phase before the first has ended"),
//! so the producer's first round through the ring does not block. Both flip parity at each wrap.

/// An mbarrier object: 8 bytes of shared memory, 8-byte aligned, named by its `.shared` address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Barrier {
    /// Address in the `.shared` window.
    pub address: u32,
}

impl Barrier {
    /// Bytes of the object.
    pub const BYTES: u32 = 8;

    /// Prepares the barrier for phases of `arrivals` arrivals: `mbarrier.init.shared::cta.b64` (PTX
    /// manual, "Parallel Synchronization and Communication Instructions: mbarrier.init").
    ///
    /// # Safety
    ///
    /// One thread calls it, on 8 aligned bytes of shared memory that nobody uses yet; before others
    /// use the barrier, that thread calls [`fence_mbarrier_init`](crate::sync::fence_mbarrier_init)
    /// and the block meets at a barrier.
    #[inline(always)]
    pub unsafe fn init(self, arrivals: u32) {
        // SAFETY: the caller owns the object.
        unsafe {
            ptx!(
                "mbarrier.init.shared::cta.b64 [{address}], {arrivals};",
                address = in(reg32) self.address,
                arrivals = in(reg32) arrivals,
                options(nostack)
            )
        }
    }

    /// Arrives once, releasing this thread's earlier accesses to the block:
    /// `mbarrier.arrive.release.cta` (PTX manual, "Parallel Synchronization and Communication
    /// Instructions: mbarrier.arrive").
    ///
    /// # Safety
    ///
    /// The barrier is initialised and still expects an arrival in this phase.
    #[inline(always)]
    pub unsafe fn arrive(self) {
        // SAFETY: the caller keeps the count.
        unsafe {
            ptx!(
                "mbarrier.arrive.release.cta.shared::cta.b64 _, [{address}];",
                address = in(reg32) self.address,
                options(nostack)
            )
        }
    }

    /// Arrives once if `condition` holds, as [`Barrier::arrive`] does:
    /// `@p mbarrier.arrive.release.cta`. No branch parts the lanes of a warp, as one around the
    /// other may, with copies of what follows it.
    ///
    /// # Safety
    ///
    /// As [`Barrier::arrive`], if it arrives.
    #[inline(always)]
    pub unsafe fn arrive_if(self, condition: bool) {
        // SAFETY: the caller keeps the count.
        unsafe {
            ptx!(
                "{{ .reg .pred p; setp.ne.b32 p, {condition}, 0; @p mbarrier.arrive.release.cta.shared::cta.b64 _, [{address}]; }}",
                condition = in(reg32) u32::from(condition),
                address = in(reg32) self.address,
                options(nostack)
            )
        }
    }

    /// Arrives for `COUNT` threads at once, releasing this thread's earlier accesses to the block:
    /// `mbarrier.arrive.release.cta` with a count (PTX manual, "Parallel Synchronization and
    /// Communication Instructions: mbarrier.arrive"). What the others did is released if this
    /// thread has met them at a barrier since.
    ///
    /// # Safety
    ///
    /// The barrier is initialised and still expects so many arrivals in this phase.
    #[inline(always)]
    pub unsafe fn arrive_for<const COUNT: u32>(self) {
        // SAFETY: the caller keeps the count.
        unsafe {
            ptx!(
                "mbarrier.arrive.release.cta.shared::cta.b64 _, [{address}], {count};",
                address = in(reg32) self.address,
                count = const COUNT,
                options(nostack)
            )
        }
    }

    /// Announces `bytes` of asynchronous copies and arrives once, in one step:
    /// `mbarrier.arrive.expect_tx.release.cta` (PTX manual, "Parallel Synchronization and
    /// Communication Instructions: mbarrier.arrive").
    ///
    /// # Safety
    ///
    /// As [`Barrier::arrive`]; copies of exactly `bytes` bytes must complete on this barrier. A
    /// tensor copy counts its whole box, also where that hangs over the edge of the tensor.
    #[inline(always)]
    pub unsafe fn arrive_expect(self, bytes: u32) {
        // SAFETY: the caller keeps the counts.
        unsafe {
            ptx!(
                "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [{address}], {bytes};",
                address = in(reg32) self.address,
                bytes = in(reg32) bytes,
                options(nostack)
            )
        }
    }

    /// Whether the phase of `parity` has ended; may suspend the thread for a while first, and may
    /// say no without cause: `mbarrier.try_wait.parity.acquire.cta` (PTX manual, "Parallel
    /// Synchronization and Communication Instructions: mbarrier.test_wait, mbarrier.try_wait").
    ///
    /// # Safety
    ///
    /// The barrier is initialised; the waiter is at most one phase behind.
    #[inline(always)]
    pub unsafe fn try_wait(self, parity: u32) -> bool {
        let done: u32;
        // SAFETY: the caller keeps the phase.
        unsafe {
            ptx!(
                "{{ .reg .pred p;",
                "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [{address}], {parity};",
                "selp.u32 {done}, 1, 0, p; }}",
                done = out(reg32) done,
                address = in(reg32) self.address,
                parity = in(reg32) parity,
                options(nostack)
            )
        };
        done != 0
    }

    /// Whether the phase of `parity` has ended; never suspends the thread:
    /// `mbarrier.test_wait.parity.acquire.cta` (PTX manual, "Parallel Synchronization and
    /// Communication Instructions: mbarrier.test_wait, mbarrier.try_wait").
    ///
    /// # Safety
    ///
    /// As [`Barrier::try_wait`].
    #[inline(always)]
    pub unsafe fn test_wait(self, parity: u32) -> bool {
        let done: u32;
        // SAFETY: the caller keeps the phase.
        unsafe {
            ptx!(
                "{{ .reg .pred p;",
                "mbarrier.test_wait.parity.acquire.cta.shared::cta.b64 p, [{address}], {parity};",
                "selp.u32 {done}, 1, 0, p; }}",
                done = out(reg32) done,
                address = in(reg32) self.address,
                parity = in(reg32) parity,
                options(nostack)
            )
        };
        done != 0
    }

    /// Has the barrier count one arrival when all copies that this thread has started by
    /// [`copy_async_16`](crate::memory::copy_async_16) are complete:
    /// `cp.async.mbarrier.arrive.noinc.shared::cta.b64` (PTX manual, "Parallel Synchronization and
    /// Communication Instructions: cp.async.mbarrier.arrive").
    ///
    /// # Safety
    ///
    /// As [`Barrier::arrive`].
    #[inline(always)]
    pub unsafe fn arrive_after_copies(self) {
        // SAFETY: the caller keeps the count.
        unsafe {
            ptx!(
                "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [{address}];",
                address = in(reg32) self.address,
                options(nostack)
            )
        }
    }

    /// Waits for the end of the phase of `parity`, by [`Barrier::try_wait`].
    ///
    /// # Safety
    ///
    /// As [`Barrier::try_wait`].
    #[inline(always)]
    pub unsafe fn wait(self, parity: u32) {
        // SAFETY: handed to the caller.
        while !unsafe { self.try_wait(parity) } {}
    }
}
