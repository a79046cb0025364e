//! Outputs of 16 bits on their way through shared memory: a warp writes boxes of 16 rows × 128
//! bytes, and the copy engine stores them while the next products run.
//!
//! ```text
//!   sums ──rounded──▶ boxes of the warp ──tensor copies──▶ D
//!                                 └──── threads, 16 bytes each ──▶ D, where a copy would write
//!                                        rows of the next group, or there is no map
//! ```
//!
//! A box is two atoms of the 128-byte swizzle, one below the other: chunk `c` of row `r` lies at
//! chunk `c ^ (r % 8)`, so `stmatrix` and the threads' loads of rows have no bank conflicts.
//!
//! Making boxes visible to the copy engine takes a warp some 100 cycles, however many they are, and
//! so does every request to it. Therefore boxes are large, and several leave together.

use ptx_std::mbarrier::Barrier;
use ptx_std::memory::{load_shared_u32x4, store_u32x4_if};
use ptx_std::mma::store_matrix_x4;
use ptx_std::sync::{fence_async_shared, warp_barrier};
use ptx_std::thread::warp_index;
use ptx_std::tma::{commit_group, store_2d, wait_group_read};

use super::super::element::Kind;
use super::super::epilogue::Epilogue;
use super::super::shape::{ROW_BYTES, WARPGROUP};
use super::lent;
use super::ring::Rooms;
use super::warp_row;
use crate::abi::{GemmArgs, SM90_D_BOX_ROWS};

/// Bytes of a box.
pub const BOX_BYTES: u32 = SM90_D_BOX_ROWS * ROW_BYTES;
/// Columns of a box.
pub const BOX_COLUMNS: u32 = ROW_BYTES / 2;

/// A lane's part of a box, rounded: of eight fragments, the upper pairs, then the lower.
pub type Words = [u32; 16];

/// Rounds `alpha · sum` of the eight fragments from `first` on to the 16-bit kind `kind`, with the
/// factors of the upper and of the lower row.
#[inline(always)]
pub fn round<const SUMS: usize>(
    kind: Kind,
    alphas: [f32; 2],
    sums: &[f32; SUMS],
    first: usize,
) -> Words {
    let pair = |fragment: usize, octet: usize| {
        let i = 4 * (first + fragment) + 2 * octet;
        kind.pack([alphas[octet] * sums[i], alphas[octet] * sums[i + 1]])
    };
    let row = |octet| [0, 1, 2, 3, 4, 5, 6, 7].map(|fragment| pair(fragment, octet));
    let ([a, b, c, d, e, f, g, h], [i, j, k, l, m, n, o, p]) = (row(0), row(1));
    [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]
}

/// The boxes of a warp.
#[derive(Clone, Copy)]
pub struct Boxes {
    /// Address of the first.
    first: u32,
    lane: u32,
}

impl Boxes {
    /// This warp's, in the shared memory at `shared`.
    ///
    /// # Safety
    ///
    /// The whole warp calls it together, and the functions of the boxes, too.
    #[inline(always)]
    pub unsafe fn new<R: Rooms>(shared: u32, lane: u32) -> Self {
        // SAFETY: the caller brings the whole warp.
        let warp = unsafe { warp_index() } - WARPGROUP / 32;
        Self { first: shared + R::STAGING + warp * R::BOXES * BOX_BYTES, lane }
    }

    /// Waits until no copy reads the boxes: before they are written, and before the block ends.
    ///
    /// # Safety
    ///
    /// As [`Boxes::new`].
    #[inline(always)]
    pub unsafe fn wait(self) {
        wait_group_read::<0>();
        // SAFETY: the caller brings the whole warp; one of its lanes issued the copies.
        unsafe { warp_barrier() };
    }

    /// Writes a box.
    ///
    /// # Safety
    ///
    /// As [`Boxes::new`]; the warp has this box, and no copy reads it.
    #[inline(always)]
    pub unsafe fn write(self, index: u32, words: &Words) {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = *words;
        let place = self.first + index * BOX_BYTES + swizzled(self.lane % 8, self.lane / 8);
        // SAFETY: the caller keeps the contract above; the lower rows are the second atom.
        unsafe {
            store_matrix_x4(place, [a, b, c, d]);
            store_matrix_x4(place ^ 64, [e, f, g, h]);
            store_matrix_x4(place + 8 * ROW_BYTES, [i, j, k, l]);
            store_matrix_x4((place + 8 * ROW_BYTES) ^ 64, [m, n, o, p]);
        }
    }

    /// Shows what has been written to the whole warp, and to the copy engine.
    ///
    /// # Safety
    ///
    /// As [`Boxes::new`].
    #[inline(always)]
    pub unsafe fn show(self) {
        fence_async_shared();
        // SAFETY: the caller brings the whole warp.
        unsafe { warp_barrier() };
    }

    /// Has two boxes from `index` on copied to `row` of the map and to the columns from `column`
    /// on, the second `step` columns behind the first, as far as these are below `n`.
    ///
    /// # Safety
    ///
    /// As [`Boxes::new`], after [`Boxes::show`]. `map` is the generic address of a map of the
    /// output, in such boxes, whose elements there belong to the warp.
    #[inline(always)]
    pub unsafe fn copy(self, index: u32, map: u64, [row, column]: [u32; 2], step: u32, n: u32) {
        let source = self.first + index * BOX_BYTES;
        if self.lane == 0 {
            // SAFETY: the caller keeps the contract above.
            unsafe {
                if column < n {
                    store_2d(map, column, row, source);
                }
                if column + step < n {
                    store_2d(map, column + step, row, source + BOX_BYTES);
                }
            }
        }
        commit_group();
    }
}

/// Where a tile of one group goes.
pub struct Target<'a> {
    epilogue: &'a Epilogue,
    /// Rows of the group's output.
    live_rows: u32,
    /// Generic address of the output's tensor map; 0: none.
    map: u64,
    /// Rows of the output before the group, as the map counts.
    map_row: u32,
}

impl<'a> Target<'a> {
    /// A group whose output has `live_rows`, the first of them row `map_row` of the map. `map` is
    /// the generic address of the argument's map of the output.
    #[inline(always)]
    pub fn new(
        args: &GemmArgs,
        map: u64,
        map_row: u32,
        epilogue: &'a Epilogue,
        live_rows: u32,
    ) -> Self {
        Self { epilogue, live_rows, map: if args.has_d_map != 0 { map } else { 0 }, map_row }
    }

    /// The row of the map where `rows` rows from `row` on begin, if copies store them: the group
    /// has them all.
    #[inline(always)]
    pub fn copied_row(&self, row: u32, rows: u32) -> Option<u32> {
        let copies = self.map != 0 && row + rows <= self.live_rows;
        copies.then_some(self.map_row + row)
    }

    /// Has two boxes copied, as [`Boxes::copy`] does.
    ///
    /// # Safety
    ///
    /// As there; there is a map, and the group has the warp's rows.
    #[inline(always)]
    pub unsafe fn copy(&self, boxes: Boxes, index: u32, place: [u32; 2], step: u32) {
        // SAFETY: handed to the caller.
        unsafe { boxes.copy(index, self.map, place, step, self.epilogue.n) }
    }

    /// Stores two boxes from `index` on, which hold the group's elements from `row` and `column`
    /// on, the second those `step` columns behind the first.
    ///
    /// # Safety
    ///
    /// As [`Boxes::new`], after [`Boxes::show`]. The elements belong to the warp as far as they are
    /// in live rows and in columns below `n`, a multiple of eight. D is aligned to 16 bytes; the
    /// map, if the argument says that there is one, is one of the output in such boxes.
    #[inline(always)]
    pub unsafe fn store(&self, boxes: Boxes, index: u32, [row, column]: [u32; 2], step: u32) {
        // SAFETY: the caller keeps the contract above.
        unsafe {
            if let Some(map_row) = self.copied_row(row, SM90_D_BOX_ROWS) {
                self.copy(boxes, index, [map_row, column], step);
            } else {
                self.store_by_threads(boxes, index, [row, column], step);
            }
        }
    }

    /// Stores the live rows of two boxes, four rows at a time, 16 bytes a lane.
    ///
    /// # Safety
    ///
    /// As [`Target::store`]; it is enough that the warp has met since the boxes were written.
    #[inline(always)]
    pub unsafe fn store_by_threads(
        &self,
        boxes: Boxes,
        index: u32,
        [row, column]: [u32; 2],
        step: u32,
    ) {
        let chunk = boxes.lane % 8;
        let mut line = boxes.lane / 8;
        // SAFETY: as in `store`.
        unsafe {
            while line < 2 * SM90_D_BOX_ROWS {
                let (right, line_row) = (line / SM90_D_BOX_ROWS, line % SM90_D_BOX_ROWS);
                let source = boxes.first + (index + right) * BOX_BYTES;
                let words = load_shared_u32x4(source + swizzled(line_row, chunk));
                let (row, column) = (row + line_row, column + step * right + 8 * chunk);
                let live = row < self.live_rows && column < self.epilogue.n;
                store_u32x4_if(live, self.epilogue.address(row, column), words);
                line += 4;
            }
        }
    }
}

/// Where 16-byte chunk `chunk` of a box's row lies.
#[inline(always)]
fn swizzled(row: u32, chunk: u32) -> u32 {
    row * ROW_BYTES + (chunk ^ (row % 8)) * 16
}

/// Rounded sums of a finished tile that leave while the next one is multiplied. They wait in
/// registers, since the warp's boxes hold the other half of the tile.
pub struct Late {
    words: [Words; 2],
    /// The warpgroup's first row in the map; `u32::MAX`: nothing waits.
    map_row: u32,
    /// First column.
    column: u32,
    /// The barrier of a lent stage that copies of FP32 outputs may still read.
    lent: Barrier,
}

impl Late {
    /// Nothing.
    #[inline(always)]
    pub fn nothing() -> Self {
        Self::lent(lent::NOTHING)
    }

    /// No sums, but a lent stage to be given back.
    #[inline(always)]
    pub fn lent(lent: Barrier) -> Self {
        Self { words: [[0; 16]; 2], map_row: u32::MAX, column: 0, lent }
    }

    /// Two boxes of a warpgroup whose rows begin at `map_row` of the map, for the columns from
    /// `column` on.
    #[inline(always)]
    pub fn new(words: [Words; 2], [map_row, column]: [u32; 2]) -> Self {
        Self { words, map_row, column, lent: lent::NOTHING }
    }

    /// Whether something waits.
    #[inline(always)]
    pub fn is_some(&self) -> bool {
        self.map_row != u32::MAX || self.lent != lent::NOTHING
    }

    /// Has it copied to the output, of `n` columns, if something waits: its second box `step`
    /// columns behind the first. There is no branch around it: the compiler would make the products
    /// that run meanwhile wait for each other.
    ///
    /// # Safety
    ///
    /// As [`Boxes::new`]; `map` is as in [`Boxes::copy`].
    #[inline(always)]
    pub unsafe fn leave(&mut self, boxes: Boxes, map: u64, step: u32, n: u32) {
        let n = if self.map_row != u32::MAX { n } else { 0 };
        // SAFETY: the caller keeps the contract above.
        unsafe {
            boxes.wait();
            lent::give_back(self.lent);
            boxes.write(0, &self.words[0]);
            boxes.write(1, &self.words[1]);
            boxes.show();
            boxes.copy(0, map, [self.map_row + warp_row(), self.column], step, n);
        }
        *self = Self::nothing();
    }
}
