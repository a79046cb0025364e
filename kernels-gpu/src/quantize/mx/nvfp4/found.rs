//! A tile that one warp has found for all of its block, in shared memory, so that none has to keep
//! in registers what it needs but now and then.

use ptx_std::memory::{load_shared_u32x4, store_shared_u32x4};

use super::super::scaling::Scaling;
use super::super::tiles::Tile;

/// The place of the tile, and of the scales of its group.
#[derive(Clone, Copy)]
pub(super) struct Found {
    address: u32,
}

/// What stands for the group's number if there is no tile.
const NONE: u32 = u32::MAX;

impl Found {
    /// Bytes that it takes.
    pub const BYTES: u32 = 5 * 16;

    /// At `address`, a multiple of 16.
    #[inline(always)]
    pub fn new(address: u32) -> Self {
        Self { address }
    }

    /// Notes a tile, and the address of its first element.
    ///
    /// # Safety
    ///
    /// One thread calls this or [`put_none`](Self::put_none); a barrier is between this and what
    /// reads.
    #[inline(always)]
    pub unsafe fn put(self, tile: &Tile, source: u64) {
        let halves = |value: u64| [value as u32, (value >> 32) as u32];
        let ([a, b], [c, d], [e, f]) = (halves(tile.first), halves(tile.padded), halves(source));
        // SAFETY: handed to the caller.
        unsafe {
            self.store(0, [tile.group, tile.row, tile.column, tile.rows]);
            self.store(1, [a, b, c, d]);
            self.store(2, [e, f, tile.row_tile, 0]);
        }
    }

    /// Notes the scale of its group for the rowwise (0) or the columnwise (1) copy.
    ///
    /// # Safety
    ///
    /// As [`put`](Self::put), once for each.
    #[inline(always)]
    pub unsafe fn put_scaling(self, columnwise: u32, scaling: Scaling) {
        // SAFETY: handed to the caller.
        unsafe { self.store(3 + columnwise, scaling.to_bits()) };
    }

    /// Notes that there is none.
    ///
    /// # Safety
    ///
    /// As [`put`](Self::put).
    #[inline(always)]
    pub unsafe fn put_none(self) {
        // SAFETY: handed to the caller.
        unsafe { self.store(0, [NONE; 4]) };
    }

    #[inline(always)]
    unsafe fn store(self, part: u32, value: [u32; 4]) {
        // SAFETY: handed to the caller.
        unsafe { store_shared_u32x4(self.address + 16 * part, value) };
    }

    #[inline(always)]
    unsafe fn load(self, part: u32) -> [u32; 4] {
        // SAFETY: handed to the caller.
        unsafe { load_shared_u32x4(self.address + 16 * part) }
    }

    /// Whether there is a tile.
    ///
    /// # Safety
    ///
    /// Here and below: all is noted, and a barrier has passed; but for this, there is a tile.
    #[inline(always)]
    pub unsafe fn is_some(self) -> bool {
        // SAFETY: handed to the caller.
        unsafe { self.load(0)[0] != NONE }
    }

    /// The tile, and the address of its first element.
    #[inline(always)]
    pub unsafe fn tile(self) -> (Tile, u64) {
        let whole = |low, high| u64::from(high) << 32 | u64::from(low);
        // SAFETY: handed to the caller.
        let ([group, row, column, rows], [a, b, c, d], [e, f, row_tile, _]) =
            unsafe { (self.load(0), self.load(1), self.load(2)) };
        let (first, padded) = (whole(a, b), whole(c, d));
        (Tile { group, row, column, rows, first, padded, row_tile }, whole(e, f))
    }

    /// The scale of the group for the rowwise copy.
    #[inline(always)]
    pub unsafe fn row_scaling(self) -> Scaling {
        // SAFETY: handed to the caller.
        Scaling::from_bits(unsafe { self.load(3) })
    }

    /// The scale of the group for the columnwise copy.
    #[inline(always)]
    pub unsafe fn column_scaling(self) -> Scaling {
        // SAFETY: handed to the caller.
        Scaling::from_bits(unsafe { self.load(4) })
    }
}
