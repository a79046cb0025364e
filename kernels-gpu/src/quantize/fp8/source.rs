//! Element types of sources, by the 32-bit words that hold them.

use ptx_std::convert::{bf16x2_to_f32, f16x2_to_f32, max_magnitude_bf16x2, max_magnitude_f16x2};

use super::THREADS;
use super::stage::WIDTH;

/// An element type of a source.
///
/// The largest magnitude of many elements is found in their own type, and two at a time where they
/// have 16 bits: a word then holds the larger of both halves, with any signs. NaNs do not count: of
/// a number and a NaN the number is larger.
pub trait Source {
    /// Bytes of an element.
    const BYTES: u32;
    /// The largest finite number, as binary32.
    const LARGEST: f32;
    /// Elements of a word.
    const PER_WORD: u32 = 4 / Self::BYTES;
    /// Elements of 16 bytes.
    const PER_CHUNK: u32 = 16 / Self::BYTES;
    /// Bytes of a row of a tile.
    const ROW_BYTES: u32 = WIDTH * Self::BYTES;
    /// 16-byte chunks of a row of a tile.
    const ROW_CHUNKS: u32 = Self::ROW_BYTES / 16;
    /// Rows that a block copies at once.
    const ROWS_AT_ONCE: u32 = THREADS / Self::ROW_CHUNKS;
    /// Chunks that hold 16 elements.
    const CHUNKS: u32 = 16 / Self::PER_CHUNK;

    /// What is larger in magnitude of two words' elements, with any signs.
    fn larger(a: u32, b: u32) -> u32;

    /// The largest magnitude of a word's elements.
    fn largest(word: u32) -> f32;

    /// An element of a word.
    fn element(word: u32, index: u32) -> f32;

    /// Elements `4 · index ..` of 16 that lie in chunks.
    fn quad(chunks: &[[u32; 4]; 4], index: usize) -> [f32; 4];
}

/// Four elements of 16 bits.
#[inline(always)]
fn half_quad(chunks: &[[u32; 4]; 4], index: usize) -> [u32; 2] {
    let chunk = &chunks[index / 2];
    [chunk[2 * (index % 2)], chunk[2 * (index % 2) + 1]]
}

/// bfloat16.
pub struct Bf16;
/// IEEE binary16.
pub struct F16;
/// IEEE binary32.
pub struct F32;

impl Source for Bf16 {
    const BYTES: u32 = 2;
    const LARGEST: f32 = f32::from_bits(0x7f7f_0000);

    #[inline(always)]
    fn larger(a: u32, b: u32) -> u32 {
        max_magnitude_bf16x2(a, b)
    }

    #[inline(always)]
    fn largest(word: u32) -> f32 {
        let [low, high] = bf16x2_to_f32(word);
        low.abs().max(high.abs())
    }

    #[inline(always)]
    fn element(word: u32, index: u32) -> f32 {
        let [low, high] = bf16x2_to_f32(word);
        if index == 0 { low } else { high }
    }

    #[inline(always)]
    fn quad(chunks: &[[u32; 4]; 4], index: usize) -> [f32; 4] {
        let [[a, b], [c, d]] = half_quad(chunks, index).map(bf16x2_to_f32);
        [a, b, c, d]
    }
}

impl Source for F16 {
    const BYTES: u32 = 2;
    const LARGEST: f32 = 65504.0;

    #[inline(always)]
    fn larger(a: u32, b: u32) -> u32 {
        max_magnitude_f16x2(a, b)
    }

    #[inline(always)]
    fn largest(word: u32) -> f32 {
        let [low, high] = f16x2_to_f32(word);
        low.abs().max(high.abs())
    }

    #[inline(always)]
    fn element(word: u32, index: u32) -> f32 {
        let [low, high] = f16x2_to_f32(word);
        if index == 0 { low } else { high }
    }

    #[inline(always)]
    fn quad(chunks: &[[u32; 4]; 4], index: usize) -> [f32; 4] {
        let [[a, b], [c, d]] = half_quad(chunks, index).map(f16x2_to_f32);
        [a, b, c, d]
    }
}

impl Source for F32 {
    const BYTES: u32 = 4;
    const LARGEST: f32 = f32::MAX;

    #[inline(always)]
    fn larger(a: u32, b: u32) -> u32 {
        f32::from_bits(a).abs().max(f32::from_bits(b).abs()).to_bits()
    }

    #[inline(always)]
    fn largest(word: u32) -> f32 {
        f32::from_bits(word).abs()
    }

    #[inline(always)]
    fn element(word: u32, _: u32) -> f32 {
        f32::from_bits(word)
    }

    #[inline(always)]
    fn quad(chunks: &[[u32; 4]; 4], index: usize) -> [f32; 4] {
        chunks[index].map(f32::from_bits)
    }
}
