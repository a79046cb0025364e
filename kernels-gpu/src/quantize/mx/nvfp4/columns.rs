//! Blocks along the rows: a thread has sixteen rows of four columns of one half of the tile, and then of
//! the other. So the Hadamard transform stays inside of a thread, and it has half as much in registers
//! as it would with eight columns.

use ptx_std::convert::f32_to_bf16x2;
use ptx_std::convert_small::{min_bf16x2, permute_bytes};
use ptx_std::hint::opaque;
use ptx_std::memory::{load_constant_f32x2, load_constant_f32x2_if, store_u32x2_if};
use ptx_std::thread::lane_index;

use super::super::e2m1::values;
use super::super::hadamard::{largest_of_pairs, transform};
use super::super::philox::Random;
use super::super::scaling::Scaling;
use super::super::source::{CHUNK, Source};
use super::super::tiles::COLUMNS;
use super::super::unroll::{array4, array8, array16, each8};
use super::ACROSS;
use super::blocks::{BlockScale, INFINITIES, SIGNS, block_scales, put_column, widen};
use super::work::Work;
use crate::abi::mx::NVFP4_BLOCK;
use crate::gemm::element::Bf16;

/// Columns that a thread has in registers.
const FOUR: u32 = 4;

const _: () = assert!(2 * ACROSS * FOUR == COLUMNS, "two halves of a tile");

/// Sixteen rows of two columns that stand beside each other, a word for each row.
type TwoColumns = [u32; 16];

/// The thread's columns.
///
/// # Safety
///
/// As [`Way::quantize`](super::Way::quantize).
#[inline(always)]
pub(super) unsafe fn columns(work: &Work<'_>) {
    let transforms = work.args.transform != 0;
    let is_random = work.args.random != 0;
    // SAFETY: handed to the caller.
    unsafe {
        let scaling = &work.column_scaling();
        match (transforms, is_random) {
            (false, false) => halves::<false, false>(work, scaling),
            (false, true) => halves::<false, true>(work, scaling),
            (true, false) => halves::<true, false>(work, scaling),
            (true, true) => halves::<true, true>(work, scaling),
        }
    }
}

/// The thread's columns in one half of the tile after the other.
#[inline(always)]
unsafe fn halves<const TRANSFORM: bool, const RANDOM: bool>(work: &Work<'_>, scaling: &Scaling) {
    // SAFETY: as in `columns`; elements are loaded as far as the source has them.
    unsafe {
        let random = RANDOM.then(|| Random::load(work.args.random, true));
        let source_columns = work.args.source.columns;
        let pitch = Bf16::BYTES * u64::from(source_columns);
        let row = work.tile.row + work.band * NVFP4_BLOCK;
        let mut half = 0;
        while half != 2 {
            let column = half * (COLUMNS / 2) + lane_index() % ACROSS * FOUR;
            let live = work.tile.column + column < source_columns;
            let left = if live { work.tile.rows.saturating_sub(row) } else { 0 };
            // Backward, where the thread's first column was further right.
            let source = work.source + Bf16::BYTES * u64::from(column)
                - Bf16::BYTES * u64::from(work.column);
            let row = |i: usize| source + pitch * i as u64;
            let four = if left >= NVFP4_BLOCK {
                array16(|i| load_constant_f32x2(row(i)))
            } else {
                array16(|i| load_constant_f32x2_if((i as u32) < left, row(i)))
            };
            let work = &Work { column, left, ..*work };

            // What is quantized of each column, and its scale.
            let (first, second) = part(array16(|i| four[i][0].to_bits()));
            let (third, fourth) = part(array16(|i| four[i][1].to_bits()));
            let (first, first_amax) = numbers::<TRANSFORM>(first);
            let (second, second_amax) = numbers::<TRANSFORM>(second);
            let (third, third_amax) = numbers::<TRANSFORM>(third);
            let (fourth, fourth_amax) = numbers::<TRANSFORM>(fourth);
            let blocks = block_scales(scaling, [first_amax, second_amax, third_amax, fourth_amax]);

            let copy = work.columnwise();
            if copy.data != 0 || copy.scales != 0 {
                put_column(work, 0, split(first), &blocks[0], &random);
                put_column(work, 1, split(second), &blocks[1], &random);
                put_column(work, 2, split(third), &blocks[2], &random);
                put_column(work, 3, split(fourth), &blocks[3], &random);
            }
            if copy.exact != 0 {
                let columns = [first, second, third, fourth];
                exact_half::<0>(work, copy.exact, &columns, &blocks, &random);
                exact_half::<1>(work, copy.exact, &columns, &blocks, &random);
            }
            half = opaque(half + 1); // a loop: unrolled, it would be twice the code
        }
    }
}

/// What is quantized of a column, NaNs as infinities: its numbers, as they are or transformed, words of
/// two rows; and the largest magnitude.
#[inline(always)]
fn numbers<const TRANSFORM: bool>(pairs: [u32; 8]) -> ([u32; 8], f32) {
    let pairs = if TRANSFORM { transform(widen(pairs)) } else { pairs };
    (array8(|i| min_bf16x2(pairs[i], INFINITIES)), largest_of_pairs(pairs))
}

/// The left and the right one of two columns, words of two rows.
#[inline(always)]
fn part(words: TwoColumns) -> ([u32; 8], [u32; 8]) {
    (
        array8(|i| permute_bytes(words[2 * i], words[2 * i + 1], 0x5410)),
        array8(|i| permute_bytes(words[2 * i], words[2 * i + 1], 0x7632)),
    )
}

/// The upper and the lower eight rows.
#[inline(always)]
fn split(pairs: [u32; 8]) -> [[f32; 8]; 2] {
    let values = widen(pairs);
    [array8(|i| values[i]), array8(|i| values[i + 8])]
}

/// Stores the exact numbers of the upper (0) or the lower (1) eight rows of four columns.
#[inline(always)]
unsafe fn exact_half<const HALF: usize>(
    work: &Work<'_>,
    to: u64,
    columns: &[[u32; 8]; 4],
    blocks: &[BlockScale; 4],
    random: &Option<Random>,
) {
    let words = |column: usize| array4(|i| columns[column][4 * HALF + i]);
    let left = two_columns::<HALF>(work, 0, [words(0), words(1)], [blocks[0], blocks[1]], random);
    let right = two_columns::<HALF>(work, 2, [words(2), words(3)], [blocks[2], blocks[3]], random);
    let (tokens, pitch) = (work.tokens, Bf16::BYTES * u64::from(work.args.source.columns));
    let (live, first) = work.exact_column(to, 0);
    each8(|i| {
        let row = 8 * HALF + i;
        // Groups of tokens are padded to whole tiles.
        let live = if tokens { live } else { (row as u32) < work.left };
        // SAFETY: handed to the caller.
        unsafe { store_u32x2_if(live, first + pitch * row as u64, [left[i], right[i]]) };
    });
}

/// The exact numbers of eight rows of two columns, `column` and the one after it of the thread's: a word
/// for each row.
#[inline(always)]
fn two_columns<const HALF: usize>(
    work: &Work<'_>,
    column: u32,
    [left, right]: [[u32; 4]; 2],
    [of_left, of_right]: [BlockScale; 2],
    random: &Option<Random>,
) -> [u32; 8] {
    let left_values = restored::<HALF>(work, column, left, &of_left, random);
    let right_values = restored::<HALF>(work, column + 1, right, &of_right, random);
    array8(|i| {
        let pick = if i % 2 == 0 { 0x5410 } else { 0x7632 };
        let signs = permute_bytes(left[i / 2], right[i / 2], pick) & SIGNS;
        f32_to_bf16x2(left_values[i], right_values[i]) | signs
    })
}

/// What the codes of eight rows of a column times their scale are, without signs.
#[inline(always)]
fn restored<const HALF: usize>(
    work: &Work<'_>,
    column: u32,
    pairs: [u32; 4],
    block: &BlockScale,
    random: &Option<Random>,
) -> [f32; 8] {
    let number = work.transposed_index(column) / u64::from(CHUNK) + HALF as u64;
    let random = random.map(|random| random.block(number));
    let numbers = Bf16::values(pairs);
    let values = values(array8(|i| numbers[i].abs() * block.factor), random);
    array8(|i| values[i] * block.scale)
}
