//! Blocks along the rows: a thread has sixteen rows of two columns of a piece, so that the Hadamard transform
//! stays inside of it, and takes few registers, so that many warps are at work at once, some of which load
//! while others compute.

use ptx_std::convert::{
    bf16x2_to_f32, f32_to_bf16x2, max_magnitude_bf16x2, max_magnitude_or_nan_bf16x2,
};
use ptx_std::convert_small::multiply_bf16x2;
use ptx_std::hint::opaque_u64;
use ptx_std::memory::{load_shared_u32, store_u32_if};
use ptx_std::thread::{WARP, lane_index};

use super::super::e2m1::{
    Codes, SIGNS, Signs, codes, dithered, limited, nearest_value, pair_numbers,
};
use super::super::hadamard::transform_in_f32;
use super::super::philox::Random;
use super::super::scaling::Scaling;
use super::super::source::{CHUNK, MAGNITUDES, Source};
use super::super::unroll::{array4, array8, array16, each8};
use super::ahead::{PIECE, Piece};
use super::blocks::{BlockScale, block_scales, put_column};
use super::rows::Output;
use super::work::Work;
use crate::abi::mx::{MxCopy, NVFP4_BLOCK};
use crate::gemm::element::Bf16;

/// Sixteen rows of two columns, a word each.
type Rows = [u32; 16];

/// Columns that a thread has in registers, those of a word.
const TWO: u32 = 2;

const _: () = assert!(WARP * TWO == PIECE);

/// The thread's first column of a piece.
#[inline(always)]
pub(super) fn column() -> u32 {
    lane_index() * TWO
}

/// Two columns of a piece, a word of each row: `work` begins at the band's first row, and at [`column`].
/// Codes are collected, exact numbers stored.
///
/// # Safety
///
/// As [`Way::quantize`](super::Way::quantize).
#[inline(always)]
pub(super) unsafe fn piece<O: Output, const TRANSFORM: bool, const RANDOM: bool>(
    work: &Work<'_>,
    scaling: &Scaling,
    random: &Option<Random>,
    copy: &MxCopy,
    piece: Piece,
) {
    // SAFETY: handed to the caller.
    unsafe {
        // The numbers of both columns, and their scales.
        let rows = transformed::<TRANSFORM>(load(piece));
        let (rows, blocks) = &if O::EXACT || RANDOM {
            prepared::<false, RANDOM>(rows, scaling)
        } else {
            prepared::<true, RANDOM>(rows, scaling)
        };

        if O::EXACT {
            let to = copy.exact;
            store_exact::<0>(work, to, rows, blocks, random);
            store_exact::<1>(work, to, rows, blocks, random);
        } else {
            let [first, second] =
                [encode::<0>(work, rows, blocks, random), encode::<1>(work, rows, blocks, random)];
            put_column(work, 0, [first[0], second[0]], &blocks[0]);
            put_column(work, 1, [first[1], second[1]], &blocks[1]);
        }
    }
}

/// The elements of both columns.
#[inline(always)]
unsafe fn load(piece: Piece) -> Rows {
    // SAFETY: handed to the caller.
    array16(|i| unsafe { load_shared_u32(piece.row(i as u32) + lane_index() * 4) })
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

/// Both columns as they are rounded, and their blocks' scales. `ASKS` is whether ordinary blocks are told
/// from others; else all are taken for these.
#[inline(always)]
fn prepared<const ASKS: bool, const RANDOM: bool>(
    rows: Rows,
    scaling: &Scaling,
) -> (Rows, [BlockScale; 2]) {
    // Scales are made four at a time.
    let scales = |[left, right]: [f32; 2]| {
        let ([left, right, ..], are_ordinary) = block_scales(scaling, [left, right, left, right]);
        ([left, right], are_ordinary)
    };
    if ASKS {
        let (blocks, are_ordinary) = scales(amax(rows, max_magnitude_or_nan_bf16x2));
        if are_ordinary {
            return (rows, blocks);
        }
    }
    let (blocks, _) = scales(amax(rows, max_magnitude_bf16x2));
    (numbers::<RANDOM>(rows, scaling, &blocks), blocks)
}

/// The largest magnitudes of both columns, of which `max` takes the larger ones.
#[inline(always)]
fn amax(rows: Rows, max: impl Fn(u32, u32) -> u32) -> [f32; 2] {
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
