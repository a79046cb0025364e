//! Blocks along the columns: four rows at a time, so that a thread needs few registers and many are at
//! work at once, some of which load while others compute.

use ptx_std::convert::{f32_to_bf16x2, max_magnitude_bf16x2};
use ptx_std::convert_small::{multiply_bf16x2, permute_bytes};
use ptx_std::hint::opaque;
use ptx_std::memory::{load_constant_u32x4, store_u32_if, store_u32x4_if};
use ptx_std::thread::lane_index;

use super::super::e2m1::{Codes, SIGNS, Signs, codes, limited, nearest_value, pair_numbers};
use super::super::philox::Random;
use super::super::scaling::Scaling;
use super::super::source::{CHUNK, MAGNITUDES, Source};
use super::super::unroll::{array4, each4};
use super::blocks::{BlockScale, block_scales, scaled};
use super::work::Work;
use crate::abi::mx::NVFP4_BLOCK;
use crate::gemm::element::Bf16;

/// Rows that a thread has in registers.
const ROWS: u32 = 4;

/// What is written of rows.
trait Output {
    /// Whether blocks have their scales beside them.
    const SCALED: bool;
    /// Words of eight elements.
    type Words: Copy;
    /// Bytes of them.
    const BYTES: u64 = size_of::<Self::Words>() as u64;

    /// Eight elements of a row; none is NaN, and where nothing is random, none beyond the block's limit.
    fn of(words: [u32; 4], block: &BlockScale, random: Option<[u32; 4]>) -> Self::Words;

    /// Stores them, if `condition` holds.
    ///
    /// # Safety
    ///
    /// Then the bytes from `address` on are this thread's.
    unsafe fn store(condition: bool, address: u64, words: Self::Words);
}

/// Codes.
struct InCodes;
/// Exact numbers.
struct Exact;

impl Output for InCodes {
    const SCALED: bool = true;
    type Words = u32;

    #[inline(always)]
    fn of(words: [u32; 4], block: &BlockScale, random: Option<[u32; 4]>) -> u32 {
        codes(scaled(words, block), random).signed(Signs::of_pairs(words))
    }

    #[inline(always)]
    unsafe fn store(condition: bool, address: u64, words: u32) {
        // SAFETY: handed to the caller.
        unsafe { store_u32_if(condition, address, words) };
    }
}

impl Output for Exact {
    const SCALED: bool = false;
    type Words = [u32; 4];

    #[inline(always)]
    fn of(words: [u32; 4], block: &BlockScale, random: Option<[u32; 4]>) -> [u32; 4] {
        let numbers = scaled(words, block);
        let values = match random {
            None => {
                let values = numbers.map(nearest_value);
                array4(|i| f32_to_bf16x2(values[2 * i], values[2 * i + 1]))
            }
            Some(random) => Codes::stochastic(numbers, random).values(),
        };
        let scale = f32_to_bf16x2(block.scale, block.scale);
        array4(|i| multiply_bf16x2(values[i] | words[i] & SIGNS, scale))
    }

    #[inline(always)]
    unsafe fn store(condition: bool, address: u64, words: [u32; 4]) {
        // SAFETY: handed to the caller.
        unsafe { store_u32x4_if(condition, address, words) };
    }
}

/// The thread's rows.
///
/// # Safety
///
/// As [`Way::quantize`](super::Way::quantize).
#[inline(always)]
pub(super) unsafe fn rows(work: &Work<'_>) {
    let copy = work.rowwise();
    let is_random = work.args.random != 0;
    // SAFETY: handed to the caller. A copy is in codes or in exact numbers, but the kernel makes both.
    unsafe {
        let scaling = &work.row_scaling();
        if copy.data != 0 || copy.scales != 0 {
            match is_random {
                false => fours::<InCodes, false>(work, scaling, copy.data),
                true => fours::<InCodes, true>(work, scaling, copy.data),
            }
        }
        if copy.exact != 0 {
            match is_random {
                false => fours::<Exact, false>(work, scaling, copy.exact),
                true => fours::<Exact, true>(work, scaling, copy.exact),
            }
        }
    }
}

/// Four rows after the other, to the copy at `to`; 0: their scales are collected alone.
#[inline(always)]
unsafe fn fours<O: Output, const RANDOM: bool>(work: &Work<'_>, scaling: &Scaling, to: u64) {
    // SAFETY: as in `rows`; rows are loaded and stored as far as the thread has them.
    unsafe {
        let random = RANDOM.then(|| Random::load(work.args.random, false));
        let collector = work.row_collector();
        let left = work.left;
        let load = |address: u64, first: u32, pitch: u64| {
            let row = |i: usize| address + pitch * i as u64;
            if first + ROWS <= left {
                array4(|i| load_constant_u32x4(row(i)))
            } else {
                array4(|i| Bf16::load(first + (i as u32) < left, row(i)))
            }
        };
        // Where the source would begin if all groups lay behind each other.
        let origin = work.source.wrapping_sub(Bf16::BYTES * work.index);
        let mut source = work.source;
        let mut first = 0;
        while first != NVFP4_BLOCK {
            let columns = opaque(work.args.source.columns);
            let pitch = Bf16::BYTES * u64::from(columns);
            // Eight elements have a number, and a row has as many numbers.
            let numbers = u64::from(columns / CHUNK);
            let chunks = load(source, first, pitch);
            let blocks = block_scales(scaling, four_amax(chunks));
            if O::SCALED && lane_index().is_multiple_of(2) {
                each4(|i| collector.put(first + i as u32, blocks[i].code));
            }
            let number = source.wrapping_sub(origin) / Bf16::BYTES / u64::from(CHUNK);
            let target = to + O::BYTES * number;
            let put = |i: u32, chunk: [u32; 4], block: &BlockScale| {
                let number = number + numbers * u64::from(i);
                let random = random.map(|random| random.block(number));
                let words = if RANDOM {
                    chunk.map(pair_numbers)
                } else {
                    let limit = scaling.limit(block.scale);
                    let limit = f32_to_bf16x2(limit, limit);
                    array4(|i| limited(chunk[i], limit))
                };
                let words = O::of(words, block, random);
                let live = to != 0 && first + i < left;
                O::store(live, target + O::BYTES * numbers * u64::from(i), words);
            };
            each4(|i| put(i as u32, chunks[i], &blocks[i]));
            source += pitch * u64::from(ROWS);
            first = opaque(first + ROWS); // a loop: unrolled, it would be four times the code
        }
    }
}

/// The largest magnitudes of the blocks of four rows; the lane beside has half of each.
#[inline(always)]
unsafe fn four_amax(chunks: [[u32; 4]; 4]) -> [f32; 4] {
    let max = max_magnitude_bf16x2;
    let [a, b, c, d] = chunks.map(|[a, b, c, d]| max(max(a, b), max(c, d)));
    // The low halves of two rows, against their high halves.
    let pair = |a, b| max(permute_bytes(a, b, 0x5410), permute_bytes(a, b, 0x7632)) & MAGNITUDES;
    let (first, second) = (pair(a, b), pair(c, d));
    // SAFETY: the whole warp is here.
    let (first, second) = unsafe { (Bf16::pair_max_xor(first, 1), Bf16::pair_max_xor(second, 1)) };
    let ([a, b], [c, d]) = (Bf16::widen_pair(first), Bf16::widen_pair(second));
    [a, b, c, d]
}
