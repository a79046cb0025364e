//! From the registers of a finished tile to memory: which sums of a thread belong to which rows and
//! columns. What happens to each is the epilogue's.
//!
//! Registers have no index at run time. Plain outputs of 16 bits are put into boxes in straight
//! code; for all others a loop stores the first chunk of sums and moves the others up. That is one
//! copy of the code, for some hundred moves in all.

use ptx_std::sync::warp_barrier;

use super::super::element::{Kind, MatrixElement};
use super::super::epilogue::{CHUNK, Chunk, Epilogue, Former, Row};
use super::boxes::{BOX_COLUMNS, Boxes, Late, Target, round};
use super::ring::Rooms;
use super::warp_row;

/// The two rows that a lane has sums of, in the 64 rows of a tile that begin at `first_row`.
///
/// # Safety
///
/// The output has `live_rows`.
#[inline(always)]
pub unsafe fn rows(epilogue: &Epilogue, first_row: u32, live_rows: u32, lane: u32) -> [Row; 2] {
    let row = first_row + warp_row() + lane / 4;
    // SAFETY: handed to the caller.
    unsafe { [epilogue.row(row, live_rows), epilogue.row(row + 8, live_rows)] }
}

/// Columns from a tile's third box to its fourth, where a thread has `sums` sums: the fourth ends
/// with the tile, so in one of 240 columns both have the 16 between them, with the same numbers.
#[inline(always)]
pub const fn right_step(sums: usize) -> u32 {
    2 * sums as u32 - 3 * BOX_COLUMNS
}

/// Stores a warpgroup's 64 rows of sums of a plain output that [`has_short_road`], from `row` and
/// `column` on: the left half now; the right half is returned, if copies store it, [`right_step`]
/// between its boxes. Copies store rows that the group has all.
///
/// # Safety
///
/// The whole warp calls it together; the elements belong to its lanes as the fragment layout of
/// wgmma says, as far as they are inside the output; `upper` and `lower` are the lane's rows.
/// Nothing is late.
#[inline(always)]
pub unsafe fn store_plain<E: MatrixElement, const SUMS: usize>(
    boxes: Boxes,
    target: &Target<'_>,
    kind: Kind,
    [upper, lower]: &[Row; 2],
    [row, column]: [u32; 2],
    sums: &[f32; SUMS],
) -> Late {
    let kind = E::plain_kind(kind);
    let alphas = [upper.alpha(), lower.alpha()];
    let right_column = column + 2 * BOX_COLUMNS;
    // The same for all warps of the warpgroup, so that these stay together.
    let copied = target.copied_row(row, 64);
    let first_row = row + warp_row();
    // SAFETY: the caller keeps the contract above; boxes are written when none is read.
    unsafe {
        boxes.wait();
        boxes.write(0, &round(kind, alphas, sums, 0));
        boxes.write(1, &round(kind, alphas, sums, 8));
        boxes.show();
        let right = [round(kind, alphas, sums, 16), round(kind, alphas, sums, SUMS / 4 - 8)];
        if let Some(map_row) = copied {
            target.copy(boxes, 0, [map_row + warp_row(), column], BOX_COLUMNS);
            return Late::new(right, [map_row, right_column]);
        }
        target.store_by_threads(boxes, 0, [first_row, column], BOX_COLUMNS);
        warp_barrier(); // all have read the left half
        boxes.write(0, &right[0]);
        boxes.write(1, &right[1]);
        warp_barrier();
        target.store_by_threads(boxes, 0, [first_row, right_column], right_step(SUMS));
        Late::nothing()
    }
}

/// Stores 128 × 128 sums, 64 rows of them in each half of `sums`, from row `row` and column
/// `column` on.
///
/// # Safety
///
/// The whole warp calls it together; the elements belong to its lanes as the fragment layout of
/// wgmma says, as far as they are inside the output, which has `live_rows`.
#[inline(always)]
pub unsafe fn store_tall<E: MatrixElement, R: Rooms>(
    boxes: Boxes,
    target: &Target<'_>,
    epilogue: &Epilogue,
    lane: u32,
    [row, column]: [u32; 2],
    live_rows: u32,
    sums: [[f32; 64]; 2],
) {
    // SAFETY: the caller keeps the contract above; boxes are written when none is read.
    unsafe {
        if has_short_road::<E>(epilogue) {
            let kind = E::plain_kind(epilogue.kind());
            let alphas = [epilogue.alpha(); 2];
            let [above, below] = &sums;
            boxes.wait();
            boxes.write(0, &round(kind, alphas, above, 0));
            boxes.write(1, &round(kind, alphas, above, 8));
            let lower = 2 % R::BOXES;
            if lower == 0 {
                boxes.show();
                target.store(boxes, 0, [row + warp_row(), column], BOX_COLUMNS);
                boxes.wait(); // for the threads' loads, too
            }
            boxes.write(lower, &round(kind, alphas, below, 0));
            boxes.write(lower + 1, &round(kind, alphas, below, 8));
            boxes.show();
            let row = row + warp_row();
            if lower != 0 {
                target.store(boxes, 0, [row, column], BOX_COLUMNS);
            }
            target.store(boxes, lower, [row + 64, column], BOX_COLUMNS);
        } else {
            store_tall_chunks(epilogue, lane, [row, column], live_rows, sums);
        }
    }
}

/// Whether straight code stores the output.
#[inline(always)]
pub fn has_short_road<E: MatrixElement>(epilogue: &Epilogue) -> bool {
    epilogue.is_plain() && E::is_plain_kind(epilogue.kind())
}

/// Stores 64 rows of sums, whatever the output: from left to right, to the epilogue's
/// [`end`](Epilogue::end), which is at most the tile's. `first_former` is what
/// [`Epilogue::load_former`] gave of the first chunk.
///
/// # Safety
///
/// As [`store_plain`].
#[inline(always)]
pub unsafe fn store<const SUMS: usize>(
    epilogue: &Epilogue,
    lane: u32,
    rows: &[Row; 2],
    first_column: u32,
    first_former: Former,
    sums: [f32; SUMS],
) {
    const { assert!(size_of::<[f32; SUMS]>() <= size_of::<[Chunk; 4]>()) };
    // SAFETY: the chunks have room for the sums; all else as in `store_plain`.
    unsafe {
        let mut chunks: [Chunk; 4] = core::mem::zeroed();
        (&raw mut chunks).cast::<[f32; SUMS]>().write(sums);
        let mut column = first_column;
        let end = epilogue.end().min(column + 2 * SUMS as u32);
        let mut former = first_former;
        while column < end {
            let next = if column + CHUNK < end { column + CHUNK } else { epilogue.end() };
            let [first, second, third, fourth] = chunks;
            former = epilogue.store_chunk(lane, rows, column, &first, &former, next);
            chunks = [second, third, fourth, fourth];
            column += CHUNK;
        }
    }
}

/// Stores 128 × 128 sums, whatever the output: the upper half from left to right, then the lower.
#[inline(always)]
unsafe fn store_tall_chunks(
    epilogue: &Epilogue,
    lane: u32,
    [first_row, first_column]: [u32; 2],
    live_rows: u32,
    sums: [[f32; 64]; 2],
) {
    // SAFETY: the arrays have the same elements; all else as in `store_tall`.
    unsafe {
        let mut chunks: [Chunk; 4] = core::mem::transmute(sums);
        let mut row = first_row;
        while row < first_row + 128 {
            let rows = rows(epilogue, row, live_rows, lane);
            let mut column = first_column;
            let mut former = epilogue.load_former(lane, &rows, column);
            while column < first_column + 128 {
                let [first, second, third, fourth] = chunks;
                if column < epilogue.n {
                    let next = if column == first_column { column + CHUNK } else { epilogue.n };
                    former = epilogue.store_chunk(lane, &rows, column, &first, &former, next);
                }
                chunks = [second, third, fourth, fourth];
                column += CHUNK;
            }
            row += 64;
        }
    }
}
