//! From the registers of a finished tile to memory: which sums of a thread belong to which rows and
//! columns. What happens to each is the epilogue's.
//!
//! Registers have no index at run time. Plain outputs are stored in straight code; for all others a
//! loop stores the first chunk of sums and moves the others up. That is one copy of the code, for
//! some hundred moves in all.

use ptx_std::thread::thread_index;

use super::super::element::MatrixElement;
use super::super::epilogue::{CHUNK, Chunk, Epilogue, Former, Row, SLAB};
use super::{TILE_N, WARPGROUP};

/// The two rows that a lane has sums of, in the 64 rows of a tile that begin at `first_row`.
///
/// # Safety
///
/// The output has `live_rows`.
#[inline(always)]
pub unsafe fn rows(epilogue: &Epilogue, first_row: u32, live_rows: u32, lane: u32) -> [Row; 2] {
    let row = first_row + 16 * (thread_index() % WARPGROUP / 32) + lane / 4;
    // SAFETY: handed to the caller.
    unsafe { [epilogue.row(row, live_rows), epilogue.row(row + 8, live_rows)] }
}

/// Stores 64 × 256 sums of a plain output that [`has_short_road`].
///
/// # Safety
///
/// The whole warp calls it together; the elements at `rows` and the 256 columns from `column` belong
/// to its lanes as the fragment layout of wgmma says.
#[inline(always)]
pub unsafe fn store_plain<E: MatrixElement>(
    epilogue: &Epilogue,
    lane: u32,
    rows: &[Row; 2],
    column: u32,
    sums: &[f32; 128],
) {
    // SAFETY: the caller keeps the contract above.
    unsafe {
        store_plain_slab::<E, 128, 0>(epilogue, lane, rows, column, sums);
        store_plain_slab::<E, 128, 1>(epilogue, lane, rows, column, sums);
        store_plain_slab::<E, 128, 2>(epilogue, lane, rows, column, sums);
        store_plain_slab::<E, 128, 3>(epilogue, lane, rows, column, sums);
        store_plain_slab::<E, 128, 4>(epilogue, lane, rows, column, sums);
        store_plain_slab::<E, 128, 5>(epilogue, lane, rows, column, sums);
        store_plain_slab::<E, 128, 6>(epilogue, lane, rows, column, sums);
        store_plain_slab::<E, 128, 7>(epilogue, lane, rows, column, sums);
    }
}

/// Stores 128 × 128 sums, 64 rows of them in each half of `sums`, from row `row` and column `column`
/// on.
///
/// # Safety
///
/// The whole warp calls it together; the elements belong to its lanes as the fragment layout of
/// wgmma says, as far as they are inside the output, which has `live_rows`.
#[inline(always)]
pub unsafe fn store_tall<E: MatrixElement>(
    epilogue: &Epilogue,
    lane: u32,
    [row, column]: [u32; 2],
    live_rows: u32,
    sums: [[f32; 64]; 2],
) {
    // SAFETY: the caller keeps the contract above.
    unsafe {
        if has_short_road::<E>(epilogue) {
            let [above, below] = &sums;
            store_plain_half::<E>(epilogue, lane, [row, column], live_rows, above);
            store_plain_half::<E>(epilogue, lane, [row + 64, column], live_rows, below);
        } else {
            store_tall_chunks(epilogue, lane, [row, column], live_rows, sums);
        }
    }
}

/// Stores 64 × 128 sums of a plain output.
#[inline(always)]
unsafe fn store_plain_half<E: MatrixElement>(
    epilogue: &Epilogue,
    lane: u32,
    [row, column]: [u32; 2],
    live_rows: u32,
    sums: &[f32; 64],
) {
    // SAFETY: as in `store_tall`.
    unsafe {
        let rows = rows(epilogue, row, live_rows, lane);
        store_plain_slab::<E, 64, 0>(epilogue, lane, &rows, column, sums);
        store_plain_slab::<E, 64, 1>(epilogue, lane, &rows, column, sums);
        store_plain_slab::<E, 64, 2>(epilogue, lane, &rows, column, sums);
        store_plain_slab::<E, 64, 3>(epilogue, lane, &rows, column, sums);
    }
}

/// Whether straight code stores the output.
#[inline(always)]
pub fn has_short_road<E: MatrixElement>(epilogue: &Epilogue) -> bool {
    epilogue.is_plain() && E::is_plain_kind(epilogue.kind())
}

/// Stores slab `INDEX`: four fragments of four sums, two for the upper row and two for the lower.
#[inline(always)]
unsafe fn store_plain_slab<E: MatrixElement, const SUMS: usize, const INDEX: usize>(
    epilogue: &Epilogue,
    lane: u32,
    [upper, lower]: &[Row; 2],
    tile_column: u32,
    sums: &[f32; SUMS],
) {
    const { assert!(16 * (INDEX + 1) <= SUMS) };
    let column = tile_column + INDEX as u32 * SLAB;
    if column >= epilogue.n {
        return;
    }
    let i = 16 * INDEX;
    let fragments = |i: usize| {
        [
            [sums[i], sums[i + 1]],
            [sums[i + 4], sums[i + 5]],
            [sums[i + 8], sums[i + 9]],
            [sums[i + 12], sums[i + 13]],
        ]
    };
    // SAFETY: as in `store_plain`.
    unsafe {
        E::store_plain_slab(epilogue, lane, upper, column, fragments(i));
        E::store_plain_slab(epilogue, lane, lower, column, fragments(i + 2));
    }
}

/// Stores 64 × 256 sums, whatever the output: from left to right. `first_former` is what
/// [`Epilogue::load_former`] gave of the first chunk.
///
/// # Safety
///
/// As [`store_plain`].
#[inline(always)]
pub unsafe fn store(
    epilogue: &Epilogue,
    lane: u32,
    rows: &[Row; 2],
    first_column: u32,
    first_former: Former,
    sums: [f32; 128],
) {
    // SAFETY: the arrays have the same elements; all else as in `store_plain`.
    unsafe {
        let mut chunks: [Chunk; (TILE_N / CHUNK) as usize] = core::mem::transmute(sums);
        let mut column = first_column;
        let end = epilogue.n.min(column + TILE_N);
        let mut former = first_former;
        while column < end {
            let next = if column + CHUNK < end { column + CHUNK } else { epilogue.n };
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
