//! Blocks along the rows: a thread has sixteen rows of two columns at a time, so that the Hadamard
//! transform stays inside of it, and a warp those of 64, whole lines of the source. That takes few
//! registers, so many warps are at work at once, some of which load while others compute.

use ptx_std::convert::{bf16x2_to_f32, f32_to_bf16x2, max_magnitude_bf16x2};
use ptx_std::convert_small::multiply_bf16x2;
use ptx_std::hint::{opaque, opaque_u64};
use ptx_std::memory::{load_constant_u32, load_constant_u32_if, store_u32_if};
use ptx_std::thread::{WARP, lane_index, warp_index};

use super::super::e2m1::{
    Codes, SIGNS, Signs, codes, dithered, limited, nearest_value, pair_numbers,
};
use super::super::hadamard::transform_in_f32;
use super::super::philox::Random;
use super::super::scaling::Scaling;
use super::super::source::{CHUNK, MAGNITUDES, Source};
use super::super::tiles::COLUMNS;
use super::super::unroll::{array4, array8, array16, each8};
use super::blocks::{BlockScale, block_scales, put_column};
use super::work::Work;
use super::{BANDS, THREADS};
use crate::abi::mx::NVFP4_BLOCK;
use crate::gemm::element::Bf16;

/// Sixteen rows of two columns, a word each.
type Rows = [u32; 16];

/// Columns that a thread has in registers, those of a word.
const TWO: u32 = 2;
/// Pieces of a band of 16 rows, one for a warp at a time.
const PIECES: u32 = COLUMNS / (WARP * TWO);
/// Bands of a tile that a warp has.
const BANDS_OF_WARP: u32 = BANDS / (THREADS / WARP);

/// The thread's columns.
///
/// # Safety
///
/// As [`Way::quantize`](super::Way::quantize).
#[inline(always)]
pub(super) unsafe fn columns(work: &Work<'_>) {
    let copy = work.columnwise();
    // SAFETY: handed to the caller. A copy is in codes or in exact numbers, but the kernel makes both.
    unsafe {
        let scaling = &work.column_scaling();
        if copy.data != 0 || copy.scales != 0 {
            form::<false>(work, scaling);
        }
        if copy.exact != 0 {
            form::<true>(work, scaling);
        }
    }
}

/// The copy in codes or in exact numbers.
#[inline(always)]
unsafe fn form<const EXACT: bool>(work: &Work<'_>, scaling: &Scaling) {
    // SAFETY: as in `columns`.
    unsafe {
        match (work.args.transform != 0, work.args.random != 0) {
            (false, false) => pieces::<EXACT, false, false>(work, scaling),
            (false, true) => pieces::<EXACT, false, true>(work, scaling),
            (true, false) => pieces::<EXACT, true, false>(work, scaling),
            (true, true) => pieces::<EXACT, true, true>(work, scaling),
        }
    }
}

/// The warp's pieces of its bands, one after the other: a loop for each form has fewer registers to keep
/// than one with a branch.
#[inline(always)]
unsafe fn pieces<const EXACT: bool, const TRANSFORM: bool, const RANDOM: bool>(
    work: &Work<'_>,
    scaling: &Scaling,
) {
    // SAFETY: as in `columns`; elements are loaded as far as the source has them.
    unsafe {
        let random = &RANDOM.then(|| Random::load(work.args.random, true));
        let mut piece = 0;
        while piece != PIECES * BANDS_OF_WARP {
            let band = warp_index() * BANDS_OF_WARP + piece / PIECES;
            let work = &work.at::<Bf16>(band, piece % PIECES * (WARP * TWO) + lane_index() * TWO);

            // The numbers of both columns, and their scales.
            let rows = transformed::<TRANSFORM>(load(work));
            let [left, right] = amax(rows);
            // Scales are made four at a time.
            let [left, right, ..] = block_scales(scaling, [left, right, left, right]);
            let blocks = &[left, right];
            let rows = &numbers::<RANDOM>(rows, scaling, blocks);

            if EXACT {
                let to = work.columnwise().exact;
                store_exact::<0>(work, to, rows, blocks, random);
                store_exact::<1>(work, to, rows, blocks, random);
            } else {
                let [first, second] = [
                    encode::<0>(work, rows, blocks, random),
                    encode::<1>(work, rows, blocks, random),
                ];
                put_column(work, 0, [first[0], second[0]], &blocks[0]);
                put_column(work, 1, [first[1], second[1]], &blocks[1]);
            }
            piece = opaque(piece + 1); // a loop: unrolled, it would be four times the code
        }
    }
}

/// The elements of both columns, as far as the source has them.
#[inline(always)]
unsafe fn load(work: &Work<'_>) -> Rows {
    let mut rows = RowAddresses::new(work, work.source);
    // SAFETY: handed to the caller.
    unsafe {
        if work.left >= NVFP4_BLOCK {
            return array16(|_| load_constant_u32(rows.next()));
        }
        // Asked here: what is asked once for all rows would be kept for other uses.
        let left = opaque(work.left);
        array16(|i| load_constant_u32_if((i as u32) < left, rows.next()))
    }
}

/// Addresses of the thread's rows in an array that lies as the source does, one after the other: else
/// the compiler would keep the distance of each.
struct RowAddresses {
    next: u64,
    pitch: u64,
}

impl RowAddresses {
    /// Of rows from `first` on.
    #[inline(always)]
    fn new(work: &Work<'_>, first: u64) -> Self {
        Self { next: first, pitch: Bf16::BYTES * u64::from(work.args.source.columns) }
    }

    /// Of the next row.
    #[inline(always)]
    fn next(&mut self) -> u64 {
        let address = self.next;
        self.next = opaque_u64(address + self.pitch);
        address
    }
}

/// What is quantized of two columns.
#[inline(always)]
fn transformed<const TRANSFORM: bool>(rows: Rows) -> Rows {
    if !TRANSFORM {
        return rows;
    }
    let left = transform_in_f32(array16(|i| bf16x2_to_f32(rows[i])[0]));
    let right = transform_in_f32(array16(|i| bf16x2_to_f32(rows[i])[1]));
    array16(|i| f32_to_bf16x2(left[i], right[i]))
}

/// The largest magnitudes of both columns; NaNs do not count, and alone give NaN.
#[inline(always)]
fn amax(rows: Rows) -> [f32; 2] {
    let max = max_magnitude_bf16x2;
    let [a, b, c, d] = array4(|i| max(max(rows[i], rows[i + 4]), max(rows[i + 8], rows[i + 12])));
    bf16x2_to_f32(max(max(a, b), max(c, d)) & MAGNITUDES)
}

/// The same numbers without NaNs and, where nothing is random, with nothing beyond their blocks' limits.
#[inline(always)]
fn numbers<const RANDOM: bool>(rows: Rows, scaling: &Scaling, blocks: &[BlockScale; 2]) -> Rows {
    if RANDOM {
        return array16(|i| pair_numbers(rows[i]));
    }
    let [left, right] = [scaling.limit(blocks[0].scale), scaling.limit(blocks[1].scale)];
    let limits = f32_to_bf16x2(left, right);
    array16(|i| limited(rows[i], limits))
}

/// The upper (0) or the lower (1) eight rows.
#[inline(always)]
fn half<const HALF: usize>(rows: &Rows) -> [u32; 8] {
    array8(|i| rows[8 * HALF + i])
}

/// Eight rows of column `COLUMN` times its block's factor.
#[inline(always)]
fn scaled<const COLUMN: usize>(rows: [u32; 8], blocks: &[BlockScale; 2]) -> [f32; 8] {
    array8(|i| Bf16::widen_pair(rows[i])[COLUMN] * blocks[COLUMN].factor)
}

/// The block of random numbers for eight rows of a column.
#[inline(always)]
fn random_number<const HALF: usize>(work: &Work<'_>, column: u32) -> u64 {
    work.transposed_index(column) / u64::from(CHUNK) + HALF as u64
}

/// The codes of eight rows of both columns, as they are stored.
#[inline(always)]
fn encode<const HALF: usize>(
    work: &Work<'_>,
    rows: &Rows,
    blocks: &[BlockScale; 2],
    random: &Option<Random>,
) -> [u32; 2] {
    let rows = half::<HALF>(rows);
    let [left_signs, right_signs] = Signs::of_halves(rows);
    let block = |column| random.map(|random| random.block(random_number::<HALF>(work, column)));
    let left = codes(scaled::<0>(rows, blocks), block(0));
    let right = codes(scaled::<1>(rows, blocks), block(1));
    [left.signed(left_signs), right.signed(right_signs)]
}

/// Stores the exact numbers of eight rows of both columns.
#[inline(always)]
unsafe fn store_exact<const HALF: usize>(
    work: &Work<'_>,
    to: u64,
    rows: &Rows,
    blocks: &[BlockScale; 2],
    random: &Option<Random>,
) {
    let rows = half::<HALF>(rows);
    let (left, right) = (scaled::<0>(rows, blocks), scaled::<1>(rows, blocks));
    let values = match random {
        None => array8(|i| f32_to_bf16x2(nearest_value(left[i]), nearest_value(right[i]))),
        Some(random) => {
            let number = |column| random_number::<HALF>(work, column);
            let left = dithered(left, random.block(number(0)));
            let right = dithered(right, random.block(number(1)));
            // Row by row, as they are stored.
            let codes = |first: usize| {
                Codes::whole(array8(|i| [left, right][i % 2][first + i / 2])).values()
            };
            let (upper, lower) = (codes(0), codes(4));
            array8(|i| if i < 4 { upper[i] } else { lower[i - 4] })
        }
    };
    let scales = f32_to_bf16x2(blocks[0].scale, blocks[1].scale);
    let (live, first) = work.exact_column(to, 8 * HALF as u32);
    let mut addresses = RowAddresses::new(work, first);
    // Groups of tokens are padded to whole tiles.
    let padded = if live { NVFP4_BLOCK } else { 0 };
    let rows_there = if work.tokens { padded } else { work.left };
    each8(|i| {
        let live = ((8 * HALF + i) as u32) < rows_there;
        let word = values[i] | rows[i] & SIGNS;
        // SAFETY: handed to the caller.
        unsafe {
            store_u32_if(live, addresses.next(), multiply_bf16x2(word, scales));
        }
    });
}
