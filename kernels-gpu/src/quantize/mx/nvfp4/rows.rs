//! Blocks along the columns: a thread has four rows of a piece, so that it needs few registers and
//! many are at work at once, some of which load while others compute.

use ptx_std::convert::{f32_to_bf16x2, max_magnitude_bf16x2, max_magnitude_or_nan_bf16x2};
use ptx_std::convert_small::{multiply_bf16x2, permute_bytes};
use ptx_std::memory::{load_shared_u32x4, store_u32_if, store_u32x4_if};
use ptx_std::thread::{WARP, ballot, lane_index, shuffle_xor};

use super::super::e2m1::{
    Dithered, SIGNS, Signs, codes, dithered, limited, nearest_value, pair_numbers,
};
use super::super::philox::{Random, RandomBits};
use super::super::scaling::Scaling;
use super::super::source::{CHUNK, MAGNITUDES, Source};
use super::super::unroll::{array4, each4};
use super::ahead::{PIECE, Piece};
use super::blocks::{BlockScale, block_scales, scaled};
use super::work::Work;
use crate::abi::mx::{MxCopy, NVFP4_BLOCK};
use crate::gemm::element::Bf16;

/// Rows that a thread has in registers.
const ROWS: u32 = 4;
/// Eight elements of each.
type Rows = [[u32; 4]; ROWS as usize];
/// Lanes of a row of a piece.
const LANES: u32 = PIECE / CHUNK;

const _: () = assert!(WARP / LANES * ROWS == NVFP4_BLOCK);

/// A form of copies, and what is written of rows.
pub trait Output {
    /// Whether numbers are exact, and have no scales beside them.
    const EXACT: bool;
    /// Words of eight elements.
    type Words: Copy;
    /// Bytes of them.
    const BYTES: u64 = size_of::<Self::Words>() as u64;

    /// Whether a copy has this form.
    fn is_wanted(copy: &MxCopy) -> bool;

    /// Where it lies; 0: its scales alone are wanted.
    fn address(copy: &MxCopy) -> u64;

    /// Eight elements of a row; none is NaN, and where nothing is random, none beyond the block's
    /// limit.
    fn of(words: [u32; 4], block: &BlockScale, random: Option<[RandomBits; 8]>) -> Self::Words;

    /// Stores them, if `condition` holds.
    ///
    /// # Safety
    ///
    /// Then the bytes from `address` on are this thread's.
    unsafe fn store(condition: bool, address: u64, words: Self::Words);
}

/// Codes.
pub struct InCodes;
/// Exact numbers.
pub struct Exact;

impl Output for InCodes {
    const EXACT: bool = false;
    type Words = u32;

    #[inline(always)]
    fn is_wanted(copy: &MxCopy) -> bool {
        copy.is_in_codes()
    }

    #[inline(always)]
    fn address(copy: &MxCopy) -> u64 {
        copy.data
    }

    #[inline(always)]
    fn of(words: [u32; 4], block: &BlockScale, random: Option<[RandomBits; 8]>) -> u32 {
        codes(scaled(words, block), random).signed(Signs::of_pairs(words))
    }

    #[inline(always)]
    unsafe fn store(condition: bool, address: u64, words: u32) {
        // SAFETY: handed to the caller.
        unsafe { store_u32_if(condition, address, words) };
    }
}

impl Output for Exact {
    const EXACT: bool = true;
    type Words = [u32; 4];

    #[inline(always)]
    fn is_wanted(copy: &MxCopy) -> bool {
        copy.exact != 0
    }

    #[inline(always)]
    fn address(copy: &MxCopy) -> u64 {
        copy.exact
    }

    #[inline(always)]
    fn of(words: [u32; 4], block: &BlockScale, random: Option<[RandomBits; 8]>) -> [u32; 4] {
        let numbers = scaled(words, block);
        let (values, scale) = match random {
            None => {
                let values = numbers.map(nearest_value);
                let pairs = array4(|i| f32_to_bf16x2(values[2 * i], values[2 * i + 1]));
                (pairs, block.scale)
            }
            Some(random) => {
                (dithered(numbers, random).map(Dithered::values), block.scale * Dithered::UNIT)
            }
        };
        let scale = f32_to_bf16x2(scale, scale);
        array4(|i| multiply_bf16x2(values[i] | words[i] & SIGNS, scale))
    }

    #[inline(always)]
    unsafe fn store(condition: bool, address: u64, words: [u32; 4]) {
        // SAFETY: handed to the caller.
        unsafe { store_u32x4_if(condition, address, words) };
    }
}

/// The thread's first column of a piece.
#[inline(always)]
pub(super) fn column() -> u32 {
    lane_index() % LANES * CHUNK
}

/// Four rows of a piece, of which eight lanes have eight columns each: `work` begins at the band's
/// first row, and at [`column`].
///
/// # Safety
///
/// As [`Way::quantize`](super::Way::quantize).
#[inline(always)]
pub(super) unsafe fn piece<O: Output, const RANDOM: bool>(
    work: &Work<'_>,
    scaling: &Scaling,
    random: &Option<Random>,
    copy: &MxCopy,
    piece: Piece,
) {
    let to = O::address(copy);
    let down = lane_index() / LANES * ROWS;
    let work = &work.below::<Bf16>(down);
    // SAFETY: handed to the caller; rows are stored as far as the thread has them.
    unsafe {
        let place = |i: usize| piece.row(down + i as u32) + lane_index() % LANES * 16;
        let chunks = array4(|i| load_shared_u32x4(place(i)));

        // Their scales: every other lane has a block's.
        let (chunks, blocks) = prepared::<RANDOM>(chunks, scaling);
        if !O::EXACT && lane_index().is_multiple_of(2) {
            let row = work.band * NVFP4_BLOCK + down;
            let collector = work.row_scales.collector(row, work.column / NVFP4_BLOCK);
            each4(|i| collector.put(i as u32, blocks[i].code));
        }

        // Eight elements have a number, and a row has as many numbers.
        let columns = u64::from(work.args.source.columns);
        let (number, numbers) = (work.index / u64::from(CHUNK), columns / u64::from(CHUNK));
        let target = to + O::BYTES * number;
        let two_rows = |i| random.map(|random| random.two_lines(number + numbers * i));
        let bits = [two_rows(0), two_rows(2)];
        each4(|i| {
            let words = O::of(chunks[i], &blocks[i], bits[i / 2].map(|lines| lines[i % 2]));
            let live = to != 0 && (i as u32) < work.left;
            O::store(live, target + O::BYTES * numbers * i as u64, words);
        });
    }
}

/// Four rows as they are rounded, and their blocks' scales.
#[inline(always)]
unsafe fn prepared<const RANDOM: bool>(rows: Rows, scaling: &Scaling) -> (Rows, [BlockScale; 4]) {
    // SAFETY: the whole warp is here, and stays together.
    unsafe {
        let amax = four_amax(rows, max_magnitude_or_nan_bf16x2);
        let (blocks, are_ordinary) = block_scales(scaling, amax);
        if ballot(!are_ordinary) == 0 {
            return (rows, blocks);
        }
        let (blocks, _) = block_scales(scaling, four_amax(rows, max_magnitude_bf16x2));
        let numbers = array4(|i| {
            if RANDOM {
                return rows[i].map(pair_numbers);
            }
            let limit = scaling.limit(blocks[i].scale);
            let limit = f32_to_bf16x2(limit, limit);
            rows[i].map(|pair| limited(pair, limit))
        });
        (numbers, blocks)
    }
}

/// The largest magnitudes of the blocks of four rows, of which `max` takes the larger ones; the
/// lane beside has half of each.
#[inline(always)]
unsafe fn four_amax(rows: Rows, max: impl Fn(u32, u32) -> u32) -> [f32; 4] {
    let [a, b, c, d] = rows.map(|[a, b, c, d]| max(max(a, b), max(c, d)));
    // The low halves of two rows, against their high halves.
    let pair = |a, b| max(permute_bytes(a, b, 0x5410), permute_bytes(a, b, 0x7632)) & MAGNITUDES;
    let (first, second) = (pair(a, b), pair(c, d));
    // SAFETY: the whole warp is here.
    let [first, second] =
        unsafe { [first, second].map(|own| max(own, shuffle_xor(own, 1)) & MAGNITUDES) };
    let ([a, b], [c, d]) = (Bf16::widen_pair(first), Bf16::widen_pair(second));
    [a, b, c, d]
}
