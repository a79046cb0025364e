//! Squares: one scale, and both copies have the same codes.

use ptx_std::convert_small::permute_bytes;
use ptx_std::thread::{lane_index, shuffle_xor_f32};

use super::super::e2m1::exact;
use super::super::source::{Source, largest};
use super::super::unroll::{array4, each4, each8, each16};
use super::blocks::{BlockScale, block_scale, encode};
use super::general;
use super::shared::collect_line;
use super::work::Work;
use crate::abi::mx::Nvfp4Target;

/// Squares: one scale, and both copies.
#[inline(always)]
pub(super) unsafe fn square<S: Source>(work: &Work<'_>, chunks: &[S::Chunk; 16]) {
    // SAFETY: as in `quantize_tile`.
    unsafe {
        // Find the scale: the lane beside has half of the square.
        let scaling = work.row_scaling();
        let mut all = S::magnitudes(chunks[0]);
        each16(|i| all = S::max(all, S::magnitudes(chunks[i])));
        let own = largest(S::widen(all));
        let amax = own.max(shuffle_xor_f32(own, 1));
        let block = if work.args.target == Nvfp4Target::Six as u32 {
            block_scale(&scaling, amax)
        } else {
            general::choose_square::<S>(work, &scaling, amax)
        };
        if lane_index().is_multiple_of(2) {
            // Rows that the group has no more are padding.
            let collector = work.row_collector();
            each16(|i| {
                collector.put(i as u32, if (i as u32) < work.left { block.code } else { 0 })
            });
        }
        let collector = work.column_collector();
        each8(|i| collector.put(i as u32, block.code));

        // Store four rows at a time, and collect their codes for the columns.
        let fours = |i: usize| [chunks[i], chunks[i + 1], chunks[i + 2], chunks[i + 3]];
        let a = four_rows_of_square::<S>(work, 0, fours(0), &block);
        let b = four_rows_of_square::<S>(work, 4, fours(4), &block);
        let c = four_rows_of_square::<S>(work, 8, fours(8), &block);
        let d = four_rows_of_square::<S>(work, 12, fours(12), &block);
        if work.columnwise().data != 0 {
            let low = transpose([a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]]);
            let high = transpose([c[0], c[1], c[2], c[3], d[0], d[1], d[2], d[3]]);
            each8(|i| collect_line(work.column + i as u32, work.band, [low[i], high[i]]));
        }
    }
}

/// Rows `first` to `first + 3` of a thread in a square; gives their codes.
#[inline(always)]
unsafe fn four_rows_of_square<S: Source>(
    work: &Work<'_>,
    first: u32,
    chunks: [S::Chunk; 4],
    block: &BlockScale,
) -> [u32; 4] {
    // SAFETY: as in `quantize_tile`.
    unsafe {
        let coded = array4(|i| encode(S::values(S::numbers(chunks[i])), block.factor, None));
        let words = array4(|i| coded[i].0.signed(coded[i].1));
        let values = |i: usize| exact(coded[i].0, coded[i].1, block.scale);
        let copy = work.rowwise();
        if copy.data != 0 {
            each4(|i| work.store_row(copy.data, first + i as u32, words[i]));
        }
        if copy.exact != 0 {
            each4(|i| work.store_exact_row(copy.exact, first + i as u32, values(i)));
        }
        let copy = work.columnwise();
        if copy.exact != 0 {
            each4(|i| work.store_exact_column(copy.exact, first + i as u32, values(i)));
        }
        words
    }
}

/// Eight words of eight codes, transposed: halves of words first, then bytes, then codes.
#[inline(always)]
fn transpose([a, b, c, d, e, f, g, h]: [u32; 8]) -> [u32; 8] {
    let halves = |a, b| (permute_bytes(a, b, 0x5410), permute_bytes(a, b, 0x7632));
    let bytes = |a, b| (permute_bytes(a, b, 0x6240), permute_bytes(a, b, 0x7351));
    let codes = |a: u32, b: u32| {
        (a & 0x0f0f_0f0f | b << 4 & 0xf0f0_f0f0, a >> 4 & 0x0f0f_0f0f | b & 0xf0f0_f0f0)
    };
    let ((a, e), (b, f), (c, g), (d, h)) = (halves(a, e), halves(b, f), halves(c, g), halves(d, h));
    let ((a, c), (b, d), (e, g), (f, h)) = (bytes(a, c), bytes(b, d), bytes(e, g), bytes(f, h));
    let ((a, b), (c, d), (e, f), (g, h)) = (codes(a, b), codes(c, d), codes(e, f), codes(g, h));
    [a, b, c, d, e, f, g, h]
}
