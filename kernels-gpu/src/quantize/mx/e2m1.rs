//! FP4: eight numbers to a word of codes, and back.
//!
//! Hopper has no conversions to or from E2M1. The magnitudes 0, 0.5, 1, 1.5, 2, 3, 4, 6 of codes 0
//! to 7 lie on a line of three pieces: the code of `a` is `2a` up to 2, `a + 2` up to 4, `a / 2 +
//! 4` up to 6. Each piece alone is a multiply-add whose result is kept between 0 and 1, exactly;
//! below its end the pieces above it are 0, and above its end it is 1. To add the pieces to 2²³ one
//! after another rounds to integers, ties to even, once: only the piece that the number lies on has
//! a fraction. So a code takes six multiply-adds and no comparison.
//!
//! Blackwell has them, and rounds to nearest with them. Random rounding stays as it is on both: the
//! hardware's takes other bits for a number, and adds them where this compares.

use ptx_std::convert::f32_to_bf16x2;
#[cfg(not(feature = "sm100a"))]
use ptx_std::convert::fma;
#[cfg(not(feature = "sm100a"))]
use ptx_std::convert_small::fma_saturated;
use ptx_std::convert_small::{add_toward_zero, multiply_bf16x2, permute_bytes};

use super::unroll::array8;

/// The number whose unit in the last place is 1.
const INTEGERS: f32 = 8_388_608.0;
/// What the bits of [`INTEGERS`] make of eight codes that are packed with them.
const EXCESS: u32 = 0x4b00_0000u32.wrapping_mul(0x1111_1111);

/// Eight codes, without signs, four bits each, the first in the lowest.
#[derive(Clone, Copy)]
pub struct Codes(u32);

impl Codes {
    /// Rounds to nearest, ties to the even code. The numbers are neither negative nor NaN; what is
    /// beyond 6 gives 6.
    #[cfg(not(feature = "sm100a"))]
    #[inline(always)]
    pub fn nearest(magnitudes: [f32; 8]) -> Self {
        Self::pack(magnitudes.map(nearest))
    }

    /// The same, in hardware.
    #[cfg(feature = "sm100a")]
    #[inline(always)]
    pub fn nearest(magnitudes: [f32; 8]) -> Self {
        Self(ptx_std::convert_blocks::f32x8_to_e2m1x8(magnitudes))
    }

    /// Rounds to one of the two neighbours: to the one further from zero where the part of the way
    /// from the nearer one to the number is more than `(r + ½) / 2¹⁶`, with `r` the number's
    /// half-word of `random`.
    #[inline(always)]
    pub fn stochastic(magnitudes: [f32; 8], random: [u32; 4]) -> Self {
        let random = half_words(random);
        Self::pack(array8(|i| stochastic(magnitudes[i], random[i])))
    }

    /// Packs codes that have the bits of [`INTEGERS`] above them.
    #[inline(always)]
    fn pack([a, b, c, d, e, f, g, h]: [u32; 8]) -> Self {
        // As products with 16, which leave the units for shifts and minima to others.
        let append = |word: u32, code: u32| word.wrapping_mul(16).wrapping_add(code);
        let high = append(append(append(h, g), f), e);
        let all = append(append(append(append(high, d), c), b), a);
        Self(all.wrapping_sub(EXCESS))
    }

    /// As they are stored: each with its number's sign.
    #[inline(always)]
    pub fn signed(self, signs: Signs) -> u32 {
        self.0 | signs.0
    }

    /// The values in BF16, pairs in their order; without signs.
    #[inline(always)]
    pub fn values(self) -> [u32; 4] {
        // The bytes of BF16 of the eight codes, upper and lower; a selector of bytes has four
        // codes.
        let upper = |codes: u32| permute_bytes(0x3f3f_3f00, 0x4040_4040, codes);
        let lower = |codes: u32| permute_bytes(0xc080_0000, 0xc080_4000, codes);
        let (first, second) = (self.0, self.0 >> 16);
        let (l, u) = (lower(first), upper(first));
        let (m, v) = (lower(second), upper(second));
        [
            permute_bytes(l, u, 0x5140),
            permute_bytes(l, u, 0x7362),
            permute_bytes(m, v, 0x5140),
            permute_bytes(m, v, 0x7362),
        ]
    }

    /// The codes and the signs of a stored word.
    #[inline(always)]
    pub fn unpack(word: u32) -> (Self, Signs) {
        (Self(word & 0x7777_7777), Signs(word & 0x8888_8888))
    }
}

/// The signs of eight numbers, in the highest bit of each four.
#[derive(Clone, Copy)]
pub struct Signs(u32);

impl Signs {
    /// The signs of eight numbers, none of them NaN.
    #[inline(always)]
    pub fn of(values: [f32; 8]) -> Self {
        // The sign bits of four numbers fill bytes.
        let [a, b, c, d, e, f, g, h] = values.map(f32::to_bits);
        let bytes = |a, b, c, d| {
            let low = permute_bytes(a, b, 0x00fb);
            permute_bytes(low, permute_bytes(c, d, 0xfb00), 0x7610)
        };
        Self(bytes(a, c, e, g) & 0x0808_0808 | bytes(b, d, f, h) & 0x8080_8080)
    }

    /// The signs of four pairs of 16-bit numbers, none of them NaN.
    #[inline(always)]
    pub fn of_pairs([a, b, c, d]: [u32; 4]) -> Self {
        // The sign bits of four numbers fill bytes.
        let (low, high) = (permute_bytes(a, b, 0xfdb9), permute_bytes(c, d, 0xfdb9));
        let (even, odd) = (permute_bytes(low, high, 0x6420), permute_bytes(low, high, 0x7531));
        Self(even & 0x0808_0808 | odd & 0x8080_8080)
    }

    /// The signs as those of BF16 pairs.
    #[inline(always)]
    pub fn pairs(self) -> [u32; 4] {
        let pair = |word: u32| word << 12 & 0x8000 | word << 24 & 0x8000_0000;
        [pair(self.0), pair(self.0 >> 8), pair(self.0 >> 16), pair(self.0 >> 24)]
    }
}

/// Eight values, where NaN becomes infinite: it is to be rounded to 6, whatever its sign.
#[inline(always)]
pub fn numbers([a, b, c, d, e, f, g, h]: [f32; 8]) -> [f32; 8] {
    let number = |value: f32| value.min(f32::INFINITY);
    [number(a), number(b), number(c), number(d), number(e), number(f), number(g), number(h)]
}

/// The values of codes with signs, times an E4M3 number `scale`: BF16 pairs, exact.
#[inline(always)]
pub fn exact(codes: Codes, signs: Signs, scale: f32) -> [u32; 4] {
    let scale = f32_to_bf16x2(scale, scale);
    let [a, b, c, d] = codes.values();
    let [e, f, g, h] = signs.pairs();
    [
        multiply_bf16x2(a | e, scale),
        multiply_bf16x2(b | f, scale),
        multiply_bf16x2(c | g, scale),
        multiply_bf16x2(d | h, scale),
    ]
}

/// A code, in the low bits of [`INTEGERS`].
#[cfg(not(feature = "sm100a"))]
#[inline(always)]
fn nearest(a: f32) -> u32 {
    let to_two = fma_saturated(a, 0.5, 0.0);
    let to_four = fma_saturated(a, 0.5, -1.0);
    let to_six = fma_saturated(a, 0.5, -2.0);
    (to_six + fma(to_four, 2.0, fma(to_two, 4.0, INTEGERS))).to_bits()
}

/// The value of the code of a number.
#[inline(always)]
pub fn nearest_value(a: f32) -> f32 {
    // Twice: what rounds to a multiple of the step of its binade needs no code.
    let a = a.min(6.0);
    let binade = f32::from_bits(a.to_bits() & 0x7f80_0000).max(1.0);
    // The number whose unit in the last place is half of the binade.
    let step = binade * 4_194_304.0;
    (a + step) - step
}

/// A number between two steps of its binade.
struct Between {
    /// The binade, at least 1, as bits of binary32.
    binade: u32,
    /// The number of the lower step, added to [`INTEGERS`].
    lower: f32,
    /// Whether the upper one is taken.
    upper: bool,
}

/// What [`Codes::stochastic`] chooses for a number; `random` has the half-word above 16 others.
#[inline(always)]
fn choose(a: f32, random: u32) -> Between {
    let a = a.min(6.0);
    // Steps of the binade that lie below the number, and what is left: all of it exact.
    let binade = (a.to_bits() & 0x7f80_0000).max(0x3f80_0000);
    let steps = a * f32::from_bits(0x7f80_0000 - binade);
    let lower = add_toward_zero(steps, INTEGERS);
    let rest = steps - (lower - INTEGERS);
    // 1 + (r + ½) / 2¹⁶ has the half-word in the upper bits of its mantissa.
    let limit = f32::from_bits(0x3f80_0040 | random >> 9 & 0x007f_ff80) - 1.0;
    Between { binade, lower, upper: limit < rest }
}

/// A code, in the low bits of [`INTEGERS`]; `random` as in [`choose`].
#[inline(always)]
fn stochastic(a: f32, random: u32) -> u32 {
    let Between { binade, lower, upper } = choose(a, random);
    // Each binade has two codes more than the one before.
    lower.to_bits() + ((binade >> 22) - 254) + u32::from(upper)
}

/// The value of the code of a number, rounded as [`Codes::stochastic`] does; `random` as in [`choose`].
#[inline(always)]
fn stochastic_value(a: f32, random: u32) -> f32 {
    let Between { binade, lower, upper } = choose(a, random);
    let steps = (lower - INTEGERS) + if upper { 1.0 } else { 0.0 };
    // A binade has two steps.
    steps * (f32::from_bits(binade) * 0.5)
}

/// The values of eight numbers, none of them negative or NaN, rounded to nearest or, if there are random
/// numbers, as [`Codes::stochastic`] does.
#[inline(always)]
pub fn values(magnitudes: [f32; 8], random: Option<[u32; 4]>) -> [f32; 8] {
    match random.map(half_words) {
        None => magnitudes.map(nearest_value),
        Some(random) => array8(|i| stochastic_value(magnitudes[i], random[i])),
    }
}

/// The half-words of four words, the lower of each first, above 16 bits of any kind.
#[inline(always)]
fn half_words([r, s, t, u]: [u32; 4]) -> [u32; 8] {
    [r << 16, r, s << 16, s, t << 16, t, u << 16, u]
}
