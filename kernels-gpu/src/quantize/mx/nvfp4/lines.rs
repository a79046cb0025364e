//! Lines, with all of a thread's elements in registers.

use ptx_std::convert_small::permute_bytes;
use ptx_std::thread::lane_index;

use super::super::e2m1::{Codes, exact};
use super::super::philox::Random;
use super::super::scaling::Scaling;
use super::super::source::{CHUNK, Source};
use super::super::unroll::{array4, array8, array16, each4, each8};
use super::blocks::{Column, block_scales, column_halves, encode, put_column, random, twice};
use super::work::Work;

/// Sixteen rows by their blocks along the columns.
#[inline(always)]
pub(super) unsafe fn rows<S: Source>(work: &Work<'_>, chunks: &[S::Chunk; 16]) {
    // SAFETY: as in `quantize_tile`.
    unsafe {
        let scaling = work.row_scaling();
        let random = random(work, false);
        let fours = |i: usize| [chunks[i], chunks[i + 1], chunks[i + 2], chunks[i + 3]];
        four_rows::<S>(work, 0, fours(0), &scaling, &random);
        four_rows::<S>(work, 4, fours(4), &scaling, &random);
        four_rows::<S>(work, 8, fours(8), &scaling, &random);
        four_rows::<S>(work, 12, fours(12), &scaling, &random);
    }
}

/// The largest magnitudes of the rowwise blocks of four rows; the lane beside has half of each.
#[inline(always)]
unsafe fn four_amax<S: Source>(chunks: [S::Chunk; 4]) -> [f32; 4] {
    let [a, b, c, d] = chunks.map(S::magnitudes);
    // SAFETY: the whole warp is here.
    let (first, second) =
        unsafe { (S::pair_max_xor(S::largest(a, b), 1), S::pair_max_xor(S::largest(c, d), 1)) };
    let ([a, b], [c, d]) = (S::widen_pair(first), S::widen_pair(second));
    [a, b, c, d]
}

/// Rows `first` to `first + 3` of a thread, by their blocks along the columns.
#[inline(always)]
unsafe fn four_rows<S: Source>(
    work: &Work<'_>,
    first: u32,
    chunks: [S::Chunk; 4],
    scaling: &Scaling,
    random: &Option<Random>,
) {
    // SAFETY: as in `quantize_tile`.
    unsafe {
        let blocks = block_scales(scaling, four_amax::<S>(chunks));
        if lane_index().is_multiple_of(2) {
            let collector = work.row_collector();
            each4(|i| collector.put(first + i as u32, blocks[i].code));
        }
        let number = |i: usize| work.index_of_row(first + i as u32) / u64::from(CHUNK);
        let values = |i: usize| S::values(S::numbers(chunks[i]));
        let coded = [
            encode(values(0), blocks[0].factor, random, number(0)),
            encode(values(1), blocks[1].factor, random, number(1)),
            encode(values(2), blocks[2].factor, random, number(2)),
            encode(values(3), blocks[3].factor, random, number(3)),
        ];
        let copy = work.rowwise();
        if copy.data != 0 {
            each4(|i| work.store_row(copy.data, first + i as u32, coded[i].0.signed(coded[i].1)));
        }
        if copy.exact != 0 {
            each4(|i| {
                let values = exact(coded[i].0, coded[i].1, blocks[i].scale);
                work.store_exact_row(copy.exact, first + i as u32, values);
            });
        }
    }
}

/// Eight columns by their blocks along the rows.
#[inline(always)]
pub(super) unsafe fn columns<S: Source>(work: &Work<'_>, chunks: &[S::Chunk; 16]) {
    // SAFETY: as in `quantize_tile`.
    unsafe {
        let scaling = work.column_scaling();
        let random = random(work, true);
        let coded = [
            one_column::<S>(work, 0, chunks, &scaling, &random),
            one_column::<S>(work, 1, chunks, &scaling, &random),
            one_column::<S>(work, 2, chunks, &scaling, &random),
            one_column::<S>(work, 3, chunks, &scaling, &random),
            one_column::<S>(work, 4, chunks, &scaling, &random),
            one_column::<S>(work, 5, chunks, &scaling, &random),
            one_column::<S>(work, 6, chunks, &scaling, &random),
            one_column::<S>(work, 7, chunks, &scaling, &random),
        ];
        let copy = work.columnwise();
        if copy.exact != 0 {
            store_exact_columns(work, copy.exact, &coded);
        }
    }
}

/// Column `column` of a thread.
#[inline(always)]
unsafe fn one_column<S: Source>(
    work: &Work<'_>,
    column: usize,
    chunks: &[S::Chunk; 16],
    scaling: &Scaling,
    random: &Option<Random>,
) -> Column {
    let values = array16(|i| S::values(chunks[i])[column]);
    let (halves, amax) = column_halves(work, values);
    let block = block_scales(scaling, [amax, 0.0, 0.0, 0.0])[0];
    // SAFETY: handed to the caller.
    unsafe { put_column(work, column as u32, halves, &block, random) }
}

/// Stores the exact values of eight columns, rows of eight: first the upper eight rows, then the
/// lower.
#[inline(always)]
unsafe fn store_exact_columns(work: &Work<'_>, to: u64, columns: &[Column; 8]) {
    let mut now = array8(|i| columns[i].codes[0]);
    for half in 0..twice() {
        // Pairs of rows of each column.
        let values = array8(|i| {
            let (codes, signs) = Codes::unpack(now[i]);
            exact(codes, signs, columns[i].scale)
        });
        each8(|row| {
            // Two columns of a row.
            let pick = if row % 2 == 0 { 0x5410 } else { 0x7632 };
            let pair =
                |i: usize| permute_bytes(values[2 * i][row / 2], values[2 * i + 1][row / 2], pick);
            // SAFETY: handed to the caller.
            unsafe { work.store_exact_column(to, 8 * half + row as u32, array4(pair)) };
        });
        now = array8(|i| columns[i].codes[1]);
    }
}
