//! Lines in every way that can be asked for, written for size: one row and one column at a time, in
//! loops. Rows with scales of their own and the choice of four over six, which rounds every block
//! twice, are here alone; so are sources of FP16 and FP32.

use ptx_std::memory::{load_constant_f32, store_u16};
use ptx_std::thread::{lane_index, shuffle_xor_f32};

use super::super::e2m1::{Codes, exact, nearest_value};
use super::super::scaling::{Scaling, round};
use super::super::source::{CHUNK, Source, largest};
use super::super::unroll::{array4, array16, each8};
use super::blocks::{
    BlockScale, block_scale, column_halves, encode, encode_column, put_column, random, twice,
};
use super::work::Work;
use crate::abi::mx::{NVFP4_BLOCK, Nvfp4Target};

/// The thread's rows by their blocks along the columns.
#[inline(always)]
pub unsafe fn rows<S: Source>(work: &Work<'_>) {
    // SAFETY: as in `quantize_tile`; both lanes of a block go through the same rows.
    unsafe {
        let row_scaled = work.args.row_scaled != 0;
        let mut scaling =
            if row_scaled { Scaling::new(0.0, work.args.bound) } else { work.row_scaling() };
        let random = random(work, false);
        let first = work.tile.first + u64::from(work.tile.row + work.band * NVFP4_BLOCK);
        let collector = work.row_collector();
        // Four rows are loaded at once, and move up as the first of them is done with.
        let mut chunks = array4(|i| work.load::<S>(i as u32));
        for i in 0..NVFP4_BLOCK {
            let chunk = chunks[0];
            if row_scaled {
                let amax = if i < work.left {
                    load_constant_f32(work.args.rowwise_amax + 4 * (first + u64::from(i)))
                } else {
                    0.0
                };
                scaling = Scaling::new(amax, work.args.bound);
            }
            let own = largest(S::widen(S::magnitudes(chunk)));
            let amax = own.max(shuffle_xor_f32(own, 1));
            let values = S::values(chunk);
            let block =
                pick(work, &scaling, amax, |block| row_error(work, &scaling, block, values));
            if lane_index().is_multiple_of(2) {
                collector.put(i, block.code);
            }
            let number = work.index_of_row(i / 2 * 2) / u64::from(CHUNK);
            let bits = random.map(|random| random.one_line(number, i));
            let values = S::values(S::numbers(chunk));
            let (codes, signs) = encode(values, block.factor, bits);
            let copy = work.rowwise();
            if copy.data != 0 {
                work.store_row(copy.data, i, codes.signed(signs));
            }
            if copy.exact != 0 {
                work.store_exact_row(copy.exact, i, exact(codes, signs, block.scale));
            }
            chunks = [chunks[1], chunks[2], chunks[3], chunks[0]];
            if i % 4 == 3 {
                chunks = array4(|j| work.load::<S>(i + 1 + j as u32));
            }
        }
    }
}

/// The thread's columns by their blocks along the rows.
#[inline(always)]
pub unsafe fn columns<S: Source>(work: &Work<'_>) {
    // SAFETY: as in `quantize_tile`.
    unsafe {
        let scaling = work.column_scaling();
        let random = random(work, true);
        let pitch = S::BYTES * u64::from(work.args.source.columns);
        for column in 0..8 {
            let values = array16(|i| {
                let address = work.source + S::BYTES * u64::from(column) + pitch * i as u64;
                S::load_one((i as u32) < work.left, address)
            });
            let (halves, amax) = column_halves(work, values);
            let block = pick(work, &scaling, amax, |block| {
                let upper = add_errors(work, 0.0, &scaling, block, halves[0]);
                add_errors(work, upper, &scaling, block, halves[1])
            });
            let codes = encode_column(work, column, halves, &block, &random);
            put_column(work, column, codes, &block);
            let copy = work.columnwise();
            if copy.exact != 0 {
                store_exact_column(work, copy.exact, column, codes, block.scale);
            }
        }
    }
}

/// Stores the exact values of a column, one by one.
#[inline(always)]
unsafe fn store_exact_column(
    work: &Work<'_>,
    to: u64,
    column: u32,
    [first, second]: [u32; 2],
    scale: f32,
) {
    let mut now = first;
    for half in 0..twice() {
        let (codes, signs) = Codes::unpack(now);
        let pairs = exact(codes, signs, scale);
        each8(|i| {
            let (live, address) = work.exact_column(to, 8 * half + i as u32);
            if live {
                let value = pairs[i / 2] >> (16 * (i % 2));
                // SAFETY: the elements are the thread's.
                unsafe { store_u16(address + 2 * u64::from(column), value as u16) };
            }
        });
        now = second;
    }
}

/// The scale of a square.
#[inline(always)]
pub unsafe fn choose_square<S: Source>(
    work: &Work<'_>,
    scaling: &Scaling,
    amax: f32,
) -> BlockScale {
    pick(work, scaling, amax, |block| {
        // Rows are added to those half the square away, a quarter, an eighth and a sixteenth: that
        // is, row i to row i + 8, both to rows i + 4 and i + 12, i from 0 to 3; then 0 to 2, 1 to
        // 3.
        let (mut last, mut pair, mut even, mut odd) = (0.0, 0.0, 0.0, 0.0);
        for step in 0..NVFP4_BLOCK {
            let (i, j) = (step / 4, step % 4);
            let row = i + 8 * (j % 2) + 4 * (j / 2);
            // SAFETY: as in `quantize_tile`; both lanes of a square go through the same rows.
            let sum = unsafe { row_error(work, scaling, block, S::values(work.load::<S>(row))) };
            let both = last + sum;
            last = sum;
            if j == 1 {
                pair = both;
            }
            if j == 3 {
                let four = pair + both;
                match i {
                    0 => even = four,
                    1 => odd = four,
                    2 => even += four,
                    _ => odd += four,
                }
            }
        }
        even + odd
    })
}

/// The scale of a block, the better one if there is a choice: that for 6 where the errors are the
/// same.
#[inline(always)]
fn pick(
    work: &Work<'_>,
    scaling: &Scaling,
    amax: f32,
    error: impl Fn(&BlockScale) -> f32,
) -> BlockScale {
    if work.args.target == Nvfp4Target::Six as u32 {
        return block_scale(scaling, amax);
    }
    let (codes, [six, four, _, _]) = {
        let [six, four] = scaling.block_scales_six_four(amax);
        round([six, four, 0.0, 0.0])
    };
    let six = BlockScale { code: codes & 0xff, scale: six, factor: scaling.factor(six) };
    let four = BlockScale { code: codes >> 8 & 0xff, scale: four, factor: scaling.factor(four) };
    // One copy of the code for both.
    let (mut error_of_six, mut error_of_four) = (0.0, 0.0);
    let mut now = four;
    for _ in 0..twice() {
        error_of_four = error_of_six;
        error_of_six = error(&now);
        now = six;
    }
    if error_of_four < error_of_six { four } else { six }
}

/// The errors of a row's sixteen elements, in order: the even lane has the first eight, the odd one
/// the others. Both get the sum.
#[inline(always)]
unsafe fn row_error(
    work: &Work<'_>,
    scaling: &Scaling,
    block: &BlockScale,
    values: [f32; 8],
) -> f32 {
    // The odd lane goes on with what the even lane has; then the even lane takes what it gets.
    let mut sum = 0.0;
    for _ in 0..twice() {
        let own = add_errors(work, sum, scaling, block, values);
        // SAFETY: the whole warp is here.
        sum = unsafe { shuffle_xor_f32(own, 1) };
    }
    // The even lane has the other's sum now; the odd lane has had it.
    let even = lane_index().is_multiple_of(2);
    // SAFETY: the whole warp is here.
    let other = unsafe { shuffle_xor_f32(sum, 1) };
    if even { sum } else { other }
}

/// Adds the errors of eight elements to `sum`, in order.
#[inline(always)]
fn add_errors(
    work: &Work<'_>,
    mut sum: f32,
    scaling: &Scaling,
    block: &BlockScale,
    values: [f32; 8],
) -> f32 {
    let squared = work.args.target == Nvfp4Target::FourOverSixSquared as u32;
    each8(|i| {
        let scaled = values[i] * block.factor;
        let magnitude = nearest_value(scaled.abs().min(6.0));
        // NaN counts as plus, and spoils the sum anyway.
        let restored = if scaled.is_sign_negative() { -magnitude } else { magnitude };
        let difference = scaling.candidate(restored, block.scale) - values[i];
        sum += if squared { difference * difference } else { difference.abs() };
    });
    sum
}
