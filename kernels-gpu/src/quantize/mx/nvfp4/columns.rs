//! Blocks along the rows: a thread has sixteen rows of two columns of a piece, so that the Hadamard
//! transform stays inside of it, and takes few registers, so that many warps are at work at once,
//! some of which load while others compute.

use ptx_std::convert::{
    bf16x2_to_f32, f32_to_bf16x2, max_magnitude_bf16x2, max_magnitude_or_nan_bf16x2,
};
use ptx_std::convert_small::multiply_bf16x2;
use ptx_std::hint::opaque_u64;
use ptx_std::memory::{load_shared_u32, store_u32_if};
use ptx_std::thread::{WARP, lane_index};

use super::super::e2m1::{Codes, Dithered, SIGNS, Signs, limited, nearest_value, pair_numbers};
use super::super::hadamard::transform_in_f32;
use super::super::philox::Random;
use super::super::scaling::Scaling;
use super::super::source::{CHUNK, MAGNITUDES, Source};
use super::super::unroll::{array4, array8, array16, each8};
use super::ahead::{PIECE, Piece};
use super::blocks::{BlockScale, block_scales, put_column};
use super::rows::Output;
use super::work::Work;
use crate::abi::mx::MxCopy;
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

/// Two columns of a piece, a word of each row: `work` begins at the band's first row, and at
/// [`column`]. Codes are collected, exact numbers stored.
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
        let (rows, blocks) = &prepared::<RANDOM>(rows, scaling);

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

/// Addresses of the thread's rows in an array that lies as the source does, one after the other:
/// else the compiler would keep the distance of each.
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

/// Both columns as they are rounded, and their blocks' scales.
#[inline(always)]
fn prepared<const RANDOM: bool>(rows: Rows, scaling: &Scaling) -> (Rows, [BlockScale; 2]) {
    // Scales are made four at a time.
    let scales = |[left, right]: [f32; 2]| {
        let ([left, right, ..], are_ordinary) = block_scales(scaling, [left, right, left, right]);
        ([left, right], are_ordinary)
    };
    let (blocks, are_ordinary) = scales(amax(rows, max_magnitude_or_nan_bf16x2));
    if are_ordinary {
        return (rows, blocks);
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

/// The same numbers without NaNs and, where nothing is random, with nothing beyond their blocks'
/// limits.
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

/// Eight rows of both columns, row by row, times their blocks' factors.
#[inline(always)]
fn scaled(rows: [u32; 8], blocks: &[BlockScale; 2]) -> [[f32; 2]; 8] {
    array8(|i| {
        let [left, right] = bf16x2_to_f32(rows[i]);
        [left * blocks[0].factor, right * blocks[1].factor]
    })
}

/// Half `HALF` of the rows of both columns, rounded at random.
#[inline(always)]
fn dithered<const HALF: usize>(
    work: &Work<'_>,
    numbers: [[f32; 2]; 8],
    random: &Random,
) -> [Dithered; 8] {
    let number = work.transposed_index(0) / u64::from(CHUNK) + HALF as u64;
    let [left, right] = random.two_lines(number);
    array8(|i| Dithered::new(numbers[i], [left[i], right[i]]))
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
    let numbers = scaled(rows, blocks);
    let codes = match random {
        None => [0, 1].map(|column| Codes::nearest(numbers.map(|row| row[column]))),
        Some(random) => Codes::dithered_columns(dithered::<HALF>(work, numbers, random)),
    };
    let signs = Signs::of_halves(rows);
    [codes[0].signed(signs[0]), codes[1].signed(signs[1])]
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
    let numbers = scaled(rows, blocks);
    let (values, unit) = match random {
        None => {
            let pair = |row: [f32; 2]| row.map(nearest_value);
            (numbers.map(pair).map(|[left, right]| f32_to_bf16x2(left, right)), 1.0)
        }
        Some(random) => {
            (dithered::<HALF>(work, numbers, random).map(Dithered::values), Dithered::UNIT)
        }
    };
    let scales = f32_to_bf16x2(blocks[0].scale * unit, blocks[1].scale * unit);
    // Groups of tokens are padded to whole tiles, and weights have whole bands: all rows are there,
    // or none.
    let (live, first) = work.exact_column(to, 8 * HALF as u32);
    let mut addresses = RowAddresses::new(work, first);
    each8(|i| {
        let word = values[i] | rows[i] & SIGNS;
        // SAFETY: handed to the caller.
        unsafe {
            store_u32_if(live, addresses.next(), multiply_bf16x2(word, scales));
        }
    });
}
