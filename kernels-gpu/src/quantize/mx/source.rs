//! Element types of sources, in chunks of eight neighbours: loaded at once, measured packed,
//! widened when they are scaled.

use ptx_std::convert::f16x2_to_f32;
use ptx_std::convert_small::{max_bf16x2, max_f16x2, min_bf16x2, min_f16x2, permute_bytes};
use ptx_std::hint::opaque;
use ptx_std::memory::load_constant_u32x4_if;
use ptx_std::thread::shuffle_xor;

use crate::gemm::element::{Bf16, Element, F16, F32};

/// Elements of a chunk.
pub const CHUNK: u32 = 8;

/// Bits of a packed pair without the signs.
pub const MAGNITUDES: u32 = 0x7fff_7fff;

/// An element type of sources.
pub trait Source {
    /// Its size.
    const BYTES: u64;
    /// Eight elements.
    type Chunk: Copy;
    /// Eight magnitudes.
    type Magnitudes: Copy;
    /// Two magnitudes.
    type Pair: Copy;

    /// Eight elements at `address`, or zeros.
    ///
    /// # Safety
    ///
    /// If `condition` holds, the elements are there, aligned to 16 bytes, and nobody writes them
    /// while the kernel runs.
    unsafe fn load(condition: bool, address: u64) -> Self::Chunk;

    /// One element at `address`, or zero.
    ///
    /// # Safety
    ///
    /// If `condition` holds, the element is there, and nobody writes it while the kernel runs.
    unsafe fn load_one(condition: bool, address: u64) -> f32;

    /// The same elements, of which the compiler knows nothing: else it would keep what was made of
    /// them, which takes as many registers, for the next to use it.
    fn anew(chunk: Self::Chunk) -> Self::Chunk;

    /// Their values.
    fn values(chunk: Self::Chunk) -> [f32; 8];

    /// The same with infinities for NaNs.
    fn numbers(chunk: Self::Chunk) -> Self::Chunk;

    /// Their magnitudes.
    fn magnitudes(chunk: Self::Chunk) -> Self::Magnitudes;

    /// The larger ones. NaNs do not count here and below; the largest of NaNs alone is NaN.
    fn max(a: Self::Magnitudes, b: Self::Magnitudes) -> Self::Magnitudes;

    /// The larger ones of this lane and the one whose index differs in the bits of `mask`.
    ///
    /// # Safety
    ///
    /// All lanes of the warp call it together.
    unsafe fn max_xor(a: Self::Magnitudes, mask: u32) -> Self::Magnitudes;

    /// As numbers.
    fn widen(a: Self::Magnitudes) -> [f32; 8];

    /// The largest of `a`, and the largest of `b`.
    fn largest(a: Self::Magnitudes, b: Self::Magnitudes) -> Self::Pair;

    /// As [`max_xor`](Self::max_xor).
    ///
    /// # Safety
    ///
    /// All lanes of the warp call it together.
    unsafe fn pair_max_xor(a: Self::Pair, mask: u32) -> Self::Pair;

    /// As numbers.
    fn widen_pair(a: Self::Pair) -> [f32; 2];
}

macro_rules! packed {
    ($element:ident, $max:ident, $min:ident, $infinities:literal, $widen:ident) => {
        impl Source for $element {
            const BYTES: u64 = 2;
            type Chunk = [u32; 4];
            type Magnitudes = [u32; 4];
            type Pair = u32;

            #[inline(always)]
            unsafe fn load(condition: bool, address: u64) -> [u32; 4] {
                // SAFETY: handed to the caller.
                unsafe { load_constant_u32x4_if(condition, address) }
            }

            #[inline(always)]
            unsafe fn load_one(condition: bool, address: u64) -> f32 {
                // SAFETY: handed to the caller.
                if condition { unsafe { <Self as Element>::load(address) } } else { 0.0 }
            }

            #[inline(always)]
            fn anew(chunk: [u32; 4]) -> [u32; 4] {
                chunk.map(opaque)
            }

            #[inline(always)]
            fn values([a, b, c, d]: [u32; 4]) -> [f32; 8] {
                let [[a, b], [c, d], [e, f], [g, h]] = [$widen(a), $widen(b), $widen(c), $widen(d)];
                [a, b, c, d, e, f, g, h]
            }

            #[inline(always)]
            fn numbers([a, b, c, d]: [u32; 4]) -> [u32; 4] {
                [
                    $min(a, $infinities),
                    $min(b, $infinities),
                    $min(c, $infinities),
                    $min(d, $infinities),
                ]
            }

            #[inline(always)]
            fn magnitudes([a, b, c, d]: [u32; 4]) -> [u32; 4] {
                [a & MAGNITUDES, b & MAGNITUDES, c & MAGNITUDES, d & MAGNITUDES]
            }

            #[inline(always)]
            fn max(a: [u32; 4], b: [u32; 4]) -> [u32; 4] {
                [$max(a[0], b[0]), $max(a[1], b[1]), $max(a[2], b[2]), $max(a[3], b[3])]
            }

            #[inline(always)]
            unsafe fn max_xor(a: [u32; 4], mask: u32) -> [u32; 4] {
                let [b, c, d, e] = a;
                // SAFETY: handed to the caller.
                let other = unsafe {
                    [
                        shuffle_xor(b, mask),
                        shuffle_xor(c, mask),
                        shuffle_xor(d, mask),
                        shuffle_xor(e, mask),
                    ]
                };
                Self::max(a, other)
            }

            #[inline(always)]
            fn widen(a: [u32; 4]) -> [f32; 8] {
                Self::values(a)
            }

            #[inline(always)]
            fn largest(a: [u32; 4], b: [u32; 4]) -> u32 {
                let a = $max($max(a[0], a[1]), $max(a[2], a[3]));
                let b = $max($max(b[0], b[1]), $max(b[2], b[3]));
                // The low halves of both, against the high halves of both.
                $max(permute_bytes(a, b, 0x5410), permute_bytes(a, b, 0x7632))
            }

            #[inline(always)]
            unsafe fn pair_max_xor(a: u32, mask: u32) -> u32 {
                // SAFETY: handed to the caller.
                $max(a, unsafe { shuffle_xor(a, mask) })
            }

            #[inline(always)]
            fn widen_pair(a: u32) -> [f32; 2] {
                $widen(a)
            }
        }
    };
}

packed!(Bf16, max_bf16x2, min_bf16x2, 0x7f80_7f80, widen_bf16x2);
packed!(F16, max_f16x2, min_f16x2, 0x7c00_7c00, f16x2_to_f32);

impl Source for F32 {
    const BYTES: u64 = 4;
    type Chunk = [f32; 8];
    type Magnitudes = [f32; 8];
    type Pair = [f32; 2];

    #[inline(always)]
    unsafe fn load(condition: bool, address: u64) -> [f32; 8] {
        // SAFETY: handed to the caller.
        let [[a, b, c, d], [e, f, g, h]] = unsafe {
            [
                load_constant_u32x4_if(condition, address),
                load_constant_u32x4_if(condition, address + 16),
            ]
        };
        [a, b, c, d, e, f, g, h].map(f32::from_bits)
    }

    #[inline(always)]
    unsafe fn load_one(condition: bool, address: u64) -> f32 {
        // SAFETY: handed to the caller.
        if condition { unsafe { <Self as Element>::load(address) } } else { 0.0 }
    }

    #[inline(always)]
    fn anew(chunk: [f32; 8]) -> [f32; 8] {
        chunk.map(|value| f32::from_bits(opaque(value.to_bits())))
    }

    #[inline(always)]
    fn values(chunk: [f32; 8]) -> [f32; 8] {
        chunk
    }

    #[inline(always)]
    fn numbers(chunk: [f32; 8]) -> [f32; 8] {
        super::e2m1::numbers(chunk)
    }

    #[inline(always)]
    fn magnitudes([a, b, c, d, e, f, g, h]: [f32; 8]) -> [f32; 8] {
        [a.abs(), b.abs(), c.abs(), d.abs(), e.abs(), f.abs(), g.abs(), h.abs()]
    }

    #[inline(always)]
    fn max(a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        [
            a[0].max(b[0]),
            a[1].max(b[1]),
            a[2].max(b[2]),
            a[3].max(b[3]),
            a[4].max(b[4]),
            a[5].max(b[5]),
            a[6].max(b[6]),
            a[7].max(b[7]),
        ]
    }

    #[inline(always)]
    unsafe fn max_xor(a: [f32; 8], mask: u32) -> [f32; 8] {
        // SAFETY: handed to the caller.
        let other = |value: f32| f32::from_bits(unsafe { shuffle_xor(value.to_bits(), mask) });
        let [b, c, d, e, f, g, h, i] = a;
        let others =
            [other(b), other(c), other(d), other(e), other(f), other(g), other(h), other(i)];
        Self::max(a, others)
    }

    #[inline(always)]
    fn widen(a: [f32; 8]) -> [f32; 8] {
        a
    }

    #[inline(always)]
    fn largest(a: [f32; 8], b: [f32; 8]) -> [f32; 2] {
        [largest(a), largest(b)]
    }

    #[inline(always)]
    unsafe fn pair_max_xor(a: [f32; 2], mask: u32) -> [f32; 2] {
        // SAFETY: handed to the caller.
        let other = |value: f32| f32::from_bits(unsafe { shuffle_xor(value.to_bits(), mask) });
        [a[0].max(other(a[0])), a[1].max(other(a[1]))]
    }

    #[inline(always)]
    fn widen_pair(a: [f32; 2]) -> [f32; 2] {
        a
    }
}

/// Two packed bfloat16 as numbers. The bits move by an instruction that the compiler does not do
/// ahead of time: it would widen a thread's elements once, for rows and for columns, and keep twice
/// the registers.
#[inline(always)]
fn widen_bf16x2(bits: u32) -> [f32; 2] {
    [permute_bytes(bits, 0, 0x1044), permute_bytes(bits, 0, 0x3244)].map(f32::from_bits)
}

/// The largest of eight.
#[inline(always)]
pub fn largest([a, b, c, d, e, f, g, h]: [f32; 8]) -> f32 {
    a.max(b).max(c.max(d)).max(e.max(f).max(g.max(h)))
}
