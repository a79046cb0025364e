//! Addresses in tensor memory, and how a block gets columns of it.

use crate::memory::load_shared_u32;

use super::Group;

/// An address in tensor memory: lane in bits 16 to 31, column in bits 0 to 15 (PTX manual, "Tensor
/// Memory Addressing").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    bits: u32,
}

impl Address {
    /// The address with these bits.
    #[inline(always)]
    pub const fn from_bits(bits: u32) -> Self {
        Self { bits }
    }

    /// The bits, as instructions take them.
    #[inline(always)]
    pub const fn bits(self) -> u32 {
        self.bits
    }

    /// So many columns of 32 bits further. Columns do not carry into the lane as long as the result
    /// is inside the allocation.
    #[inline(always)]
    pub const fn columns(self, count: u32) -> Self {
        Self { bits: self.bits.wrapping_add(count) }
    }

    /// So many lanes further: a warp adds 32 times its index in the warpgroup.
    #[inline(always)]
    pub const fn lanes(self, count: u32) -> Self {
        Self { bits: self.bits.wrapping_add(count << 16) }
    }
}

/// How many columns an allocation can have: the powers of two from 32 to 512 (PTX manual,
/// "TensorCore 5th Generation Instructions: tcgen05.alloc").
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    /// 32 columns, 16 KiB.
    C32 = 32,
    /// 64 columns, 32 KiB.
    C64 = 64,
    /// 128 columns, 64 KiB.
    C128 = 128,
    /// 256 columns, 128 KiB.
    C256 = 256,
    /// All 512 columns, 256 KiB.
    C512 = 512,
}

impl Columns {
    /// The smallest allocation with at least `needed` columns; `None` beyond 512.
    pub const fn at_least(needed: u32) -> Option<Self> {
        match needed {
            0..=32 => Some(Self::C32),
            33..=64 => Some(Self::C64),
            65..=128 => Some(Self::C128),
            129..=256 => Some(Self::C256),
            257..=512 => Some(Self::C512),
            _ => None,
        }
    }

    /// The number.
    #[inline(always)]
    pub const fn count(self) -> u32 {
        self as u32
    }
}

/// Allocates columns of all 128 lanes and writes their [`Address`] to shared memory at `slot`,
/// waiting while other blocks of the multiprocessor hold them: `tcgen05.alloc` (PTX manual,
/// "TensorCore 5th Generation Instructions: tcgen05.alloc"). After a barrier every thread may read
/// it with [`allocated`].
///
/// # Safety
///
/// All 32 lanes of one warp call it together, in a pair those of one warp in each block; the 4
/// aligned bytes at `slot` are shared memory that nobody else uses meanwhile. The block must
/// [`release`] the columns before it ends, and may not allocate after [`relinquish`].
#[inline(always)]
pub unsafe fn allocate<G: Group>(slot: u32, columns: Columns) {
    // SAFETY: the caller brings the warp and owns the slot.
    unsafe {
        ptx!(
            "tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [{slot}], {columns};",
            group = const G::BLOCKS,
            slot = in(reg32) slot,
            columns = in(reg32) columns.count(),
            options(nostack)
        )
    }
}

/// What [`allocate`] wrote to `slot`.
///
/// # Safety
///
/// A barrier of the block stands between the allocation and this call, and `slot` was not written
/// since. If the slot is written again later, a barrier must stand before that.
#[inline(always)]
pub unsafe fn allocated(slot: u32) -> Address {
    // SAFETY: the caller vouches for the slot.
    Address::from_bits(unsafe { load_shared_u32(slot) })
}

/// Gives columns back: `tcgen05.dealloc` (PTX manual, "TensorCore 5th Generation Instructions:
/// tcgen05.dealloc").
///
/// # Safety
///
/// All 32 lanes of one warp call it together, in a pair those of one warp in each block; `address`
/// and `columns` are those of one allocation, and nothing uses it any more: what reads or writes it
/// has completed, and those who waited for that have met this warp at a barrier after
/// [`fence_before`](super::fence_before).
#[inline(always)]
pub unsafe fn release<G: Group>(address: Address, columns: Columns) {
    // SAFETY: the caller brings the warp and owns the columns.
    unsafe {
        ptx!(
            "tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 {address}, {columns};",
            group = const G::BLOCKS,
            address = in(reg32) address.bits(),
            columns = in(reg32) columns.count(),
            options(nostack)
        )
    }
}

/// Promises that this block allocates no more, so that others need not wait for it to end:
/// `tcgen05.relinquish_alloc_permit` (PTX manual, "TensorCore 5th Generation Instructions:
/// tcgen05.relinquish_alloc_permit").
///
/// # Safety
///
/// All 32 lanes of one warp call it together, in a pair those of one warp in each block; the block
/// allocates nothing afterwards.
#[inline(always)]
pub unsafe fn relinquish<G: Group>() {
    // SAFETY: the caller brings the warp.
    unsafe {
        ptx!(
            "tcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned;",
            group = const G::BLOCKS,
            options(nostack)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_and_columns_have_halves_of_their_own() {
        let base = Address::from_bits(64);
        assert_eq!(base.lanes(96).columns(32).bits(), 0x0060_0060);
        assert_eq!(base.columns(32).lanes(96), base.lanes(96).columns(32));
    }

    #[test]
    fn an_allocation_is_rounded_up() {
        let cases = [(0, 32), (1, 32), (32, 32), (33, 64), (65, 128), (129, 256), (257, 512)];
        for (needed, columns) in cases {
            assert_eq!(Columns::at_least(needed).map(Columns::count), Some(columns), "{needed}");
        }
        assert_eq!(Columns::at_least(512), Some(Columns::C512));
        assert_eq!(Columns::at_least(513), None);
    }
}
