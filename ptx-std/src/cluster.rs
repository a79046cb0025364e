//! Clusters: blocks that run at the same time on neighbouring multiprocessors and reach one
//! another's shared memory.
//!
//! A block is known in its cluster by its *rank*. An address in its own shared memory becomes that
//! of the same place in another block by [`map_shared`]; such addresses, in the `.shared::cluster`
//! window, name barriers of other blocks ([`Barrier::of_block`]). A block's own addresses are valid
//! in that window, too, and name its own memory.
//!
//! The barrier of all threads of the cluster is in [`crate::sync`]. A block's shared memory may be
//! used by others only after it has started and before it ends: all meet at that barrier at the
//! beginning, and again at the end.

use crate::mbarrier::Barrier;

/// Rank of this block in its cluster: `%cluster_ctarank` (PTX manual, "Special Registers:
/// %cluster_ctarank").
#[inline(always)]
pub fn block_rank() -> u32 {
    let value: u32;
    // SAFETY: reads a special register.
    unsafe {
        ptx!(
            "mov.u32 {r}, %cluster_ctarank;",
            r = out(reg32) value,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    value
}

/// Blocks of a cluster: `%cluster_nctarank` (PTX manual, "Special Registers: %cluster_nctarank").
#[inline(always)]
pub fn blocks() -> u32 {
    let value: u32;
    // SAFETY: reads a special register.
    unsafe {
        ptx!(
            "mov.u32 {r}, %cluster_nctarank;",
            r = out(reg32) value,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    value
}

/// Index of this cluster in the grid along x: `%clusterid.x` (PTX manual, "Special Registers:
/// %clusterid").
#[inline(always)]
pub fn index() -> u32 {
    let value: u32;
    // SAFETY: reads a special register.
    unsafe {
        ptx!(
            "mov.u32 {r}, %clusterid.x;",
            r = out(reg32) value,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    value
}

/// Clusters of the grid along x: `%nclusterid.x` (PTX manual, "Special Registers: %nclusterid").
#[inline(always)]
pub fn grid_clusters() -> u32 {
    let value: u32;
    // SAFETY: reads a special register.
    unsafe {
        ptx!(
            "mov.u32 {r}, %nclusterid.x;",
            r = out(reg32) value,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    value
}

/// The address of the place in block `rank`'s shared memory that `address` is in this block's:
/// `mapa.shared::cluster` (PTX manual, "Data Movement and Conversion Instructions: mapa").
///
/// # Safety
///
/// `rank` is below [`blocks`], and `address` is in this block's shared memory.
#[inline(always)]
pub unsafe fn map_shared(address: u32, rank: u32) -> u32 {
    let mapped: u32;
    // SAFETY: the caller vouches for the rank; computes an address only.
    unsafe {
        ptx!(
            "mapa.shared::cluster.u32 {mapped}, {address}, {rank};",
            mapped = out(reg32) mapped,
            address = in(reg32) address,
            rank = in(reg32) rank,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    mapped
}

/// An mbarrier of a block of the cluster, which may be another one. Threads arrive at it from
/// elsewhere; only its own block can wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterBarrier {
    /// Address in the `.shared::cluster` window.
    pub address: u32,
}

impl ClusterBarrier {
    /// Arrives once, releasing this thread's earlier accesses to the cluster:
    /// `mbarrier.arrive.release.cluster.shared::cluster` (PTX manual, "Parallel Synchronization and
    /// Communication Instructions: mbarrier.arrive"). Who waits for it must use
    /// [`Barrier::wait_cluster`].
    ///
    /// # Safety
    ///
    /// The barrier's block is there; the barrier is initialised and still expects an arrival in
    /// this phase.
    #[inline(always)]
    pub unsafe fn arrive(self) {
        // SAFETY: the caller keeps the count.
        unsafe {
            ptx!(
                "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [{address}];",
                address = in(reg32) self.address,
                options(nostack)
            )
        }
    }

    /// Announces `bytes` of asynchronous copies and arrives once, in one step:
    /// `mbarrier.arrive.expect_tx.release.cluster.shared::cluster` (PTX manual, "Parallel
    /// Synchronization and Communication Instructions: mbarrier.arrive").
    ///
    /// # Safety
    ///
    /// As [`ClusterBarrier::arrive`]; copies of exactly `bytes` bytes must complete on this
    /// barrier.
    #[inline(always)]
    pub unsafe fn arrive_expect(self, bytes: u32) {
        // SAFETY: the caller keeps both counts.
        unsafe {
            ptx!(
                "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [{address}], {bytes};",
                address = in(reg32) self.address,
                bytes = in(reg32) bytes,
                options(nostack)
            )
        }
    }
}

impl Barrier {
    /// This barrier as the cluster knows it.
    #[inline(always)]
    pub const fn in_cluster(self) -> ClusterBarrier {
        ClusterBarrier { address: self.address }
    }

    /// The barrier at the same place of block `rank`'s shared memory.
    ///
    /// # Safety
    ///
    /// That of [`map_shared`].
    #[inline(always)]
    pub unsafe fn of_block(self, rank: u32) -> ClusterBarrier {
        // SAFETY: handed to the caller.
        ClusterBarrier { address: unsafe { map_shared(self.address, rank) } }
    }

    /// As [`Barrier::try_wait`], acquiring what was released to the cluster:
    /// `mbarrier.try_wait.parity.acquire.cluster` (PTX manual, "Parallel Synchronization and
    /// Communication Instructions: mbarrier.test_wait, mbarrier.try_wait").
    ///
    /// # Safety
    ///
    /// As [`Barrier::try_wait`].
    #[inline(always)]
    pub unsafe fn try_wait_cluster(self, parity: u32) -> bool {
        let done: u32;
        // SAFETY: the caller keeps the phase.
        unsafe {
            ptx!(
                "{{ .reg .pred p;",
                "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [{address}], {parity};",
                "selp.u32 {done}, 1, 0, p; }}",
                done = out(reg32) done,
                address = in(reg32) self.address,
                parity = in(reg32) parity,
                options(nostack)
            )
        };
        done != 0
    }

    /// Waits for the end of the phase of `parity`, by [`Barrier::try_wait_cluster`].
    ///
    /// # Safety
    ///
    /// As [`Barrier::try_wait`].
    #[inline(always)]
    pub unsafe fn wait_cluster(self, parity: u32) {
        // SAFETY: handed to the caller.
        while !unsafe { self.try_wait_cluster(parity) } {}
    }
}
