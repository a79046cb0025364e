//! Outputs on their way through shared memory: a warp writes boxes of 8 rows × 128 bytes, and the
//! copy engine stores them while the next products run.
//!
//! ```text
//!   sums ───▶ box (one of three of the warp) ──tensor copy──▶ D
//!                             └──── threads, 16 bytes each ──▶ D, where a tensor copy would
//!                                    write too much, or there is no map
//! ```
//!
//! A box is one atom of the 128-byte swizzle: chunk `c` of row `r` lies at chunk `c ^ r`, so
//! `stmatrix` and the threads' loads of rows have no bank conflicts.

use core::marker::PhantomData;

use ptx_std::memory::{load_shared_u32x4, store_u32x4_if};
use ptx_std::mma::store_matrix_x4;
use ptx_std::sync::{fence_async_shared, warp_barrier};
use ptx_std::thread::warp_index;
use ptx_std::tma::{commit_group, store_2d, wait_group_read};

use super::super::element::Kind;
use super::super::epilogue::Epilogue;
use super::super::shape::{CONSUMER_WARPS, ROW_BYTES, WARPGROUP};
use super::finish::Place;
use super::ring::STAGING;
use super::schedule::Schedule;
use crate::abi::{GemmArgs, SM100_D_BOX_ROWS};

/// Bytes of a box.
const BOX_BYTES: u32 = SM100_D_BOX_ROWS * ROW_BYTES;
/// Boxes of a warp: while one is written, the copy engine reads the others.
const BOXES: u32 = 3;
/// Bytes of a warp.
const WARP_BYTES: u32 = BOXES * BOX_BYTES;
/// Bytes of all warps that finish tiles.
pub const STAGING_BYTES: u32 = CONSUMER_WARPS * WARP_BYTES;

/// Which of a warp's boxes is written next. It lasts from tile to tile, as copies do.
#[derive(Default)]
pub struct Turn {
    /// Bytes of the boxes before it.
    offset: u32,
}

/// A warp's boxes, and where a tile of one group goes.
pub struct Staging<'a, S> {
    epilogue: &'a Epilogue,
    turn: &'a mut Turn,
    lane: u32,
    /// Rows of the group's output.
    live_rows: u32,
    /// Address of the first box.
    first: u32,
    /// Generic address of the output's tensor map; 0: none.
    map: u64,
    /// Rows of the output before the group, as the map counts.
    map_row: u32,
    schedule: PhantomData<S>,
}

impl<'a, S: Schedule> Staging<'a, S> {
    /// This warp's of the boxes in the shared memory at `shared`, for the tile at `place`. `map` is
    /// the generic address of the argument's map of the output.
    ///
    /// # Safety
    ///
    /// The whole warp calls it together, with the one turn that it has. If the argument says that
    /// there is a map, it is one of the output in such boxes. Where groups are along the reduction,
    /// the output's rows are a multiple of eight. The other functions rely on it.
    #[inline(always)]
    pub unsafe fn new(
        args: &GemmArgs,
        map: u64,
        shared: u32,
        place: &Place,
        epilogue: &'a Epilogue,
        lane: u32,
        turn: &'a mut Turn,
    ) -> Self {
        // SAFETY: the caller brings the whole warp.
        let warp = unsafe { warp_index() } - WARPGROUP / 32;
        Self {
            epilogue,
            turn,
            lane,
            live_rows: place.live_rows,
            first: shared + STAGING + warp * WARP_BYTES,
            map: if args.has_d_map != 0 { map } else { 0 },
            map_row: if S::RAGGED_REDUCTION { place.work.group * args.m } else { place.token },
            schedule: PhantomData,
        }
    }

    /// Stores 8 rows × 64 columns of the 16-bit kind `kind`, `alpha · sum`: of the fragments from
    /// `FRAGMENT` on the upper (`OCTET` 0) or lower (1) pairs.
    ///
    /// # Safety
    ///
    /// The whole warp calls it together. The elements from `row` and
    /// `column` on belong to it, as far as they are in live rows and in columns below `n`, a
    /// multiple of eight. D is aligned to 16 bytes; the output is plain.
    #[inline(always)]
    pub unsafe fn store<const SUMS: usize, const FRAGMENT: usize, const OCTET: usize>(
        &mut self,
        kind: Kind,
        [row, column]: [u32; 2],
        alpha: f32,
        sums: &[f32; SUMS],
    ) {
        // SAFETY: the caller keeps the contract above.
        unsafe {
            let address = self.take();
            if self.has(row, column) {
                let pair = |j: usize| {
                    let i = 4 * (FRAGMENT + j) + 2 * OCTET;
                    kind.pack([alpha * sums[i], alpha * sums[i + 1]])
                };
                let place = address + swizzled(self.lane % 8, self.lane / 8);
                store_matrix_x4(place, [pair(0), pair(1), pair(2), pair(3)]);
                store_matrix_x4(place ^ 64, [pair(4), pair(5), pair(6), pair(7)]);
                if self.takes_copy(row) {
                    fence_async_shared();
                    warp_barrier();
                    if self.lane == 0 {
                        store_2d(self.map, column, self.map_row + row, address);
                    }
                } else {
                    warp_barrier();
                    self.store_by_threads([row, column], address);
                }
            }
            commit_group();
        }
    }

    /// The next box, when it is free. The group of every box is committed, whoever stored it.
    #[inline(always)]
    unsafe fn take(&mut self) -> u32 {
        let address = self.first + self.turn.offset;
        let after = self.turn.offset + BOX_BYTES;
        self.turn.offset = if after == WARP_BYTES { 0 } else { after };
        wait_group_read::<{ BOXES - 1 }>();
        // SAFETY: the caller brings the whole warp.
        unsafe { warp_barrier() };
        address
    }

    /// Whether the output has any element of the box at `row` and `column`.
    #[inline(always)]
    fn has(&self, row: u32, column: u32) -> bool {
        row < self.live_rows && column < self.epilogue.n
    }

    /// Whether a tensor copy stores the box at `row`: it has the group's rows alone.
    #[inline(always)]
    fn takes_copy(&self, row: u32) -> bool {
        self.map != 0 && (S::RAGGED_REDUCTION || row + SM100_D_BOX_ROWS <= self.live_rows)
    }

    /// Whether the output has a row of a box that it has. Those of weights are whole.
    #[inline(always)]
    fn has_row(&self, row: u32) -> bool {
        S::RAGGED_REDUCTION || row < self.live_rows
    }

    /// Stores the live rows of a box, four at a time, 16 bytes a lane.
    #[inline(always)]
    unsafe fn store_by_threads(&self, [row, column]: [u32; 2], address: u32) {
        let chunk = self.lane % 8;
        let column = column + 8 * chunk;
        let mut box_row = self.lane / 8;
        // SAFETY: as in `store`.
        unsafe {
            while box_row < SM100_D_BOX_ROWS {
                let words = load_shared_u32x4(address + swizzled(box_row, chunk));
                let live = self.has_row(row + box_row) && column < self.epilogue.n;
                let destination = self.epilogue.address(row + box_row, column);
                store_u32x4_if(live, destination, words);
                box_row += 4;
            }
        }
    }
}

/// Waits until no copy reads the warp's boxes any more, before the block ends.
#[inline(always)]
pub fn finish_copies() {
    wait_group_read::<0>();
}

/// Where 16-byte chunk `chunk` of a box's row lies.
#[inline(always)]
fn swizzled(row: u32, chunk: u32) -> u32 {
    row * ROW_BYTES + (chunk ^ row) * 16
}
