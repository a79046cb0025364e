//! The tensor memory accelerator: copies of boxes of a tensor between global and shared memory.
//!
//! A *tensor map*, encoded by the driver (`cuTensorMapEncodeTiled`), describes a tensor of up to
//! five dimensions, innermost first, and the size of the box that one copy moves. One thread issues
//! the copy with the coordinates of the box's first element; the hardware does the rest, fills what
//! hangs over the edge (with zeros, if the map says so) and reports the bytes to an mbarrier.
//!
//! With 128-byte swizzle and an inner box dimension of 128 bytes, row `r` of the box starts at byte
//! `128 r`, and its 16-byte chunk `c` lies at chunk `c ^ (r % 8)`: the layout that [`crate::wgmma`]
//! and `ldmatrix` read without bank conflicts. The pattern follows address bits, so the destination
//! must be aligned to 1024 bytes. The swizzle permutes chunks inside a row only; a whole row may be
//! cleared without undoing it.
//!
//! A map passed by value in a kernel's argument must be 64-byte aligned and is named by
//! [`param_address!`](crate::param_address).

mod cluster;

pub use cluster::{load_2d_multicast, load_2d_pair, load_3d_pair};

use crate::mbarrier::Barrier;

/// How long L2 should keep what a copy reads. The values are the encodings that CUTLASS uses in
/// place of `createpolicy`.
#[repr(u64)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachePolicy {
    /// No preference.
    Normal = 0x1000_0000_0000_0000,
    /// Read once: evict early.
    EvictFirst = 0x12F0_0000_0000_0000,
    /// Read by many: keep.
    EvictLast = 0x14F0_0000_0000_0000,
}

/// Brings a tensor map into the descriptor cache: `prefetch.tensormap` (PTX manual, "Data Movement
/// and Conversion Instructions: prefetch, prefetchu").
///
/// # Safety
///
/// `map` is the generic address of a tensor map.
#[inline(always)]
pub unsafe fn prefetch_map(map: u64) {
    // SAFETY: the caller vouches for the map.
    unsafe { ptx!("prefetch.tensormap [{map}];", map = in(reg64) map, options(nostack)) }
}

/// Makes what another launch or the host wrote to a tensor map in global memory visible to this
/// thread's copies: `fence.proxy.tensormap::generic.acquire.sys` (PTX manual, "Parallel
/// Synchronization and Communication Instructions: membar, fence"). Without it a copy may use what
/// the descriptor cache keeps of a map that stood there before. Maps in parameters need none.
///
/// # Safety
///
/// `map` is the generic address of a tensor map in global memory.
#[inline(always)]
pub unsafe fn acquire_map(map: u64) {
    // SAFETY: the caller vouches for the map.
    unsafe {
        ptx!(
            "fence.proxy.tensormap::generic.acquire.sys [{map}], 128;",
            map = in(reg64) map,
            options(nostack)
        )
    }
}

/// Brings global memory into L2: `cp.async.bulk.prefetch.L2.global` (PTX manual, "Data Movement and
/// Conversion Instructions: cp.async.bulk.prefetch").
///
/// # Safety
///
/// The `bytes` at `address` are global memory; both are multiples of 16, `bytes` is not zero.
#[inline(always)]
pub unsafe fn prefetch_l2(address: u64, bytes: u32) {
    // SAFETY: the caller vouches for the memory.
    unsafe {
        ptx!(
            "cp.async.bulk.prefetch.L2.global [{address}], {bytes};",
            address = in(reg64) address,
            bytes = in(reg32) bytes,
            options(nostack)
        )
    }
}

/// Copies a box of a two-dimensional tensor to shared memory:
/// `cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes` (PTX manual, "Data
/// Movement and Conversion Instructions: cp.async.bulk.tensor").
///
/// # Safety
///
/// `map` is the generic address of a two-dimensional tensor map; the box fits at `destination`,
/// which is aligned to 128 bytes (1024 with 128-byte swizzle) and free for writing; `barrier` has
/// been told to expect the bytes of the box. One thread calls it.
#[inline(always)]
pub unsafe fn load_2d(destination: u32, map: u64, x: u32, y: u32, barrier: Barrier) {
    // SAFETY: the caller keeps the contract above.
    unsafe {
        ptx!(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes \
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

/// Copies a box of a three-dimensional tensor to shared memory:
/// `cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes` (PTX manual, "Data
/// Movement and Conversion Instructions: cp.async.bulk.tensor").
///
/// # Safety
///
/// As [`load_2d`], with a three-dimensional map.
#[inline(always)]
pub unsafe fn load_3d(destination: u32, map: u64, x: u32, y: u32, z: u32, barrier: Barrier) {
    // SAFETY: the caller keeps the contract above.
    unsafe {
        ptx!(
            "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes \
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

/// [`load_3d`] with a preference for L2: the `.L2::cache_hint` form of the same instruction.
///
/// # Safety
///
/// As [`load_3d`].
#[inline(always)]
pub unsafe fn load_3d_hint(
    destination: u32,
    map: u64,
    [x, y, z]: [u32; 3],
    barrier: Barrier,
    policy: CachePolicy,
) {
    // SAFETY: the caller keeps the contract above.
    unsafe {
        ptx!(
            "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint \
             [{destination}], [{map}, {{{x}, {y}, {z}}}], [{barrier}], {policy};",
            destination = in(reg32) destination,
            map = in(reg64) map,
            x = in(reg32) x,
            y = in(reg32) y,
            z = in(reg32) z,
            barrier = in(reg32) barrier.address,
            policy = in(reg64) policy as u64,
            options(nostack)
        )
    }
}

/// [`load_2d`] with a preference for L2: the `.L2::cache_hint` form of the same instruction.
///
/// # Safety
///
/// As [`load_2d`].
#[inline(always)]
pub unsafe fn load_2d_hint(
    destination: u32,
    map: u64,
    x: u32,
    y: u32,
    barrier: Barrier,
    policy: CachePolicy,
) {
    // SAFETY: the caller keeps the contract above.
    unsafe {
        ptx!(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint \
             [{destination}], [{map}, {{{x}, {y}}}], [{barrier}], {policy};",
            destination = in(reg32) destination,
            map = in(reg64) map,
            x = in(reg32) x,
            y = in(reg32) y,
            barrier = in(reg32) barrier.address,
            policy = in(reg64) policy as u64,
            options(nostack)
        )
    }
}

/// Copies contiguous bytes to shared memory:
/// `cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes` (PTX manual, "Data Movement
/// and Conversion Instructions: cp.async.bulk").
///
/// # Safety
///
/// The `bytes` at `source` are global memory and fit at `destination`, which is free for writing;
/// both addresses and `bytes` are multiples of 16, `bytes` is not zero; `barrier` has been told to
/// expect them. One thread calls it.
#[inline(always)]
pub unsafe fn load_bytes(destination: u32, source: u64, bytes: u32, barrier: Barrier) {
    // SAFETY: the caller keeps the contract above.
    unsafe {
        ptx!(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes \
             [{destination}], [{source}], {bytes}, [{barrier}];",
            destination = in(reg32) destination,
            source = in(reg64) source,
            bytes = in(reg32) bytes,
            barrier = in(reg32) barrier.address,
            options(nostack)
        )
    }
}

/// Copies a box from shared memory to a two-dimensional tensor; what hangs over the edge is
/// dropped: `cp.async.bulk.tensor.2d.global.shared::cta.bulk_group` (PTX manual, "Data Movement and
/// Conversion Instructions: cp.async.bulk.tensor").
///
/// # Safety
///
/// As [`load_2d`] for map and alignment; what ordinary stores wrote to `source` has been fenced by
/// its writers ([`fence_async_shared`](crate::sync::fence_async_shared)) and met at a barrier; the
/// source is not written again before [`wait_group_read`].
#[inline(always)]
pub unsafe fn store_2d(map: u64, x: u32, y: u32, source: u32) {
    // SAFETY: the caller keeps the contract above.
    unsafe {
        ptx!(
            "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [{map}, {{{x}, {y}}}], [{source}];",
            map = in(reg64) map,
            x = in(reg32) x,
            y = in(reg32) y,
            source = in(reg32) source,
            options(nostack)
        )
    }
}

/// Copies a box from shared memory to a three-dimensional tensor, with a preference for L2; what
/// hangs over the edge is dropped:
/// `cp.async.bulk.tensor.3d.global.shared::cta.bulk_group.L2::cache_hint` (PTX manual, "Data
/// Movement and Conversion Instructions: cp.async.bulk.tensor").
///
/// # Safety
///
/// As [`store_2d`], with a three-dimensional map.
#[inline(always)]
pub unsafe fn store_3d_hint(map: u64, [x, y, z]: [u32; 3], source: u32, policy: CachePolicy) {
    // SAFETY: the caller keeps the contract above.
    unsafe {
        ptx!(
            "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group.L2::cache_hint \
             [{map}, {{{x}, {y}, {z}}}], [{source}], {policy};",
            map = in(reg64) map,
            x = in(reg32) x,
            y = in(reg32) y,
            z = in(reg32) z,
            source = in(reg32) source,
            policy = in(reg64) policy as u64,
            options(nostack)
        )
    }
}

/// Closes the group of this thread's bulk stores: `cp.async.bulk.commit_group` (PTX manual, "Data
/// Movement and Conversion Instructions: cp.async.bulk.commit_group").
#[inline(always)]
pub fn commit_group() {
    // SAFETY: no operands; names only this thread's copies.
    unsafe { ptx!("cp.async.bulk.commit_group;", options(nostack)) }
}

/// Waits until at most `PENDING` of this thread's newest groups still read shared memory:
/// `cp.async.bulk.wait_group.read` (PTX manual, "Data Movement and Conversion Instructions:
/// cp.async.bulk.wait_group").
#[inline(always)]
pub fn wait_group_read<const PENDING: u32>() {
    // SAFETY: waits only.
    unsafe {
        ptx!("cp.async.bulk.wait_group.read {pending};", pending = const PENDING, options(nostack))
    }
}

/// Waits until at most `PENDING` of this thread's newest groups are unfinished:
/// `cp.async.bulk.wait_group` (PTX manual, "Data Movement and Conversion Instructions:
/// cp.async.bulk.wait_group").
#[inline(always)]
pub fn wait_group<const PENDING: u32>() {
    // SAFETY: waits only.
    unsafe {
        ptx!("cp.async.bulk.wait_group {pending};", pending = const PENDING, options(nostack))
    }
}
