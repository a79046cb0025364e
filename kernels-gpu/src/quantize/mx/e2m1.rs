//! FP4: eight numbers to a word of codes, and back.
//!
//! Hopper has no conversions to or from E2M1. The magnitudes 0, 0.5, 1, 1.5, 2, 3, 4, 6 of codes 0
//! to 7 are half a unit apart up to 2, a unit up to 4, and two units up to 6. Binary32 numbers
//! below 2²³ are half a unit apart, too, and those above a whole one: a magnitude up to 4 that is
//! added to 2²³ − 2 is rounded as E2M1 rounds it, ties to even, once, and the bits of the sum count
//! the codes. What is beyond 4 is brought half as far beyond it first. So a code takes a
//! multiply-add, a minimum and an addition.
//!
//! Random rounding adds a random part of a step to a magnitude and drops what is no whole step. A
//! step is half of the magnitude's binade, which is 1 for all that is smaller. A binary32 number
//! that has the binade's exponent, and the random bits for the lowest 16 of its significand, counts
//! steps in the seven bits above these if a 64th of the magnitude is added to it. So its upper half
//! is a BF16 number: the binade plus a 64th of the result.
//!
//! Blackwell has such conversions, and rounds to nearest with them. Random rounding is this on
//! both: the hardware's takes other bits for a number.

use ptx_std::convert::{f32_to_bf16x2, fma};
#[cfg(not(feature = "sm100a"))]
use ptx_std::convert_small::fma_upward;
use ptx_std::convert_small::{
    abs, max_bf16x2, min_bf16x2, multiply_bf16x2, permute_bytes, subtract_bf16x2,
};

use super::philox::RandomBits;
use super::unroll::{array4, array8};

/// The number from which on the steps of E2M1 up to 4 are those of binary32: twice below the one
/// whose unit in the last place is 1.
const STEPS: f32 = 8_388_608.0 - 2.0;
/// What the bits of [`STEPS`] make of eight codes that are packed with them.
const EXCESS: u32 = STEPS.to_bits().wrapping_mul(0x1111_1111);

/// Eight codes, without signs, four bits each, the first in the lowest.
#[derive(Clone, Copy)]
pub struct Codes(u32);

impl Codes {
    /// The codes of the magnitudes of eight numbers, which are up to 6.5, not NaN: to nearest, ties
    /// to the even code; beyond 6 that of 6.
    #[cfg(not(feature = "sm100a"))]
    #[inline(always)]
    pub fn nearest(numbers: [f32; 8]) -> Self {
        Self::pack(numbers.map(nearest))
    }

    /// The same, in hardware.
    #[cfg(feature = "sm100a")]
    #[inline(always)]
    pub fn nearest(numbers: [f32; 8]) -> Self {
        Self(ptx_std::convert_blocks::f32x8_to_e2m1x8(numbers.map(f32::abs)))
    }

    /// The codes of eight numbers, in their order.
    #[inline(always)]
    pub fn dithered(pairs: [Dithered; 4]) -> Self {
        let [a, b, c, d] = pairs.map(Dithered::codes);
        let (low, high) = (Self::bytes(a, b), Self::bytes(c, d));
        Self::of_bytes(permute_bytes(low, high, 0x5410), permute_bytes(low, high, 0x7632))
    }

    /// The codes of the first numbers of eight pairs, and those of the second ones.
    #[inline(always)]
    pub fn dithered_columns(pairs: [Dithered; 8]) -> [Self; 2] {
        let [a, b, c, d, e, f, g, h] = pairs.map(Dithered::codes);
        let (even, further_even) = (Self::bytes(a, c), Self::bytes(e, g));
        let (odd, further_odd) = (Self::bytes(b, d), Self::bytes(f, h));
        let column = |selector| {
            Self::of_bytes(
                permute_bytes(even, further_even, selector),
                permute_bytes(odd, further_odd, selector),
            )
        };
        [column(0x5410), column(0x7632)]
    }

    /// Two pairs' [codes](Dithered::codes), their first numbers' bytes before their second ones'.
    #[inline(always)]
    fn bytes(a: u32, b: u32) -> u32 {
        permute_bytes(a, b, 0x7351)
    }

    /// Codes in the lowest three bits of bytes, those of even places and those of odd ones.
    #[inline(always)]
    fn of_bytes(even: u32, odd: u32) -> Self {
        let codes = |bytes| bytes & 0x0707_0707;
        Self(codes(even) + codes(odd).wrapping_mul(16))
    }

    /// Packs codes, each added to the bits of [`STEPS`].
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

    /// The signs of eight left and of eight right halves of words, none of them NaN.
    #[inline(always)]
    pub fn of_halves([a, b, c, d, e, f, g, h]: [u32; 8]) -> [Self; 2] {
        // The sign bits of two left and two right halves fill bytes.
        let bytes = |a, b| permute_bytes(a, b, 0xfbd9);
        let (even, further_even) = (bytes(a, c), bytes(e, g));
        let (odd, further_odd) = (bytes(b, d), bytes(f, h));
        let signs = |selector| {
            let (even, odd) = (
                permute_bytes(even, further_even, selector),
                permute_bytes(odd, further_odd, selector),
            );
            Self(even & 0x0808_0808 | odd & 0x8080_8080)
        };
        [signs(0x5410), signs(0x7632)]
    }

    /// The signs as those of BF16 pairs.
    #[inline(always)]
    pub fn pairs(self) -> [u32; 4] {
        let pair = |word: u32| word << 12 & 0x8000 | word << 24 & 0x8000_0000;
        [pair(self.0), pair(self.0 >> 8), pair(self.0 >> 16), pair(self.0 >> 24)]
    }
}

/// The sign bits of two BF16 numbers.
pub const SIGNS: u32 = 0x8000_8000;
/// Two infinities in BF16.
const INFINITIES: u32 = 0x7f80_7f80;

/// Eight values, where NaN becomes infinite: it is to be rounded to 6, whatever its sign.
#[inline(always)]
pub fn numbers(values: [f32; 8]) -> [f32; 8] {
    array8(|i| values[i].min(f32::INFINITY))
}

/// The same of BF16 pairs.
#[inline(always)]
pub fn pair_numbers(pair: u32) -> u32 {
    min_bf16x2(pair, INFINITIES)
}

/// A pair with nothing beyond `limit`, the [`Scaling::limit`] of either half's block, which stands
/// for all that is, NaN included: as [`Codes::nearest`] wants numbers.
///
/// [`Scaling::limit`]: super::scaling::Scaling::limit
#[inline(always)]
pub fn limited(pair: u32, limit: u32) -> u32 {
    max_bf16x2(min_bf16x2(pair, limit), limit | SIGNS)
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

/// The code of a number's magnitude, added to the bits of [`STEPS`].
#[cfg(not(feature = "sm100a"))]
#[inline(always)]
fn nearest(number: f32) -> u32 {
    let a = number.abs();
    // Rounded up, what is just beyond 5, a tie, stays beyond it; ties are exact. Below 4 the halved
    // line is the higher one.
    (a.min(fma_upward(a, 0.5, 2.0)) + STEPS).to_bits()
}

/// The value of the code of the magnitude of a number, which is up to 6.5.
#[inline(always)]
pub fn nearest_value(number: f32) -> f32 {
    // What rounds to a multiple of the step of its binade needs no code.
    let binade = f32::from_bits(number.to_bits() & 0x7f80_0000).max(1.0);
    // To the number whose unit in the last place is half of the binade, and back.
    fma(binade, -4_194_304.0, fma(binade, 4_194_304.0, abs(number)))
}

/// Two numbers rounded at random, in BF16: their binades, and these with a 64th of what the numbers
/// became.
#[derive(Clone, Copy)]
pub struct Dithered {
    binades: u32,
    sums: u32,
}

impl Dithered {
    /// By what [`values`](Self::values) is to be multiplied.
    pub const UNIT: f32 = 64.0;

    /// The magnitudes of two numbers, each with its random bits `r`: of its two neighbours the one
    /// further from zero where the part of the way from the nearer one to the magnitude is 1 or
    /// more together with `(r + ½) / 2¹⁶`; 6 for what is beyond, and for NaN.
    #[inline(always)]
    pub fn new(numbers: [f32; 2], random: [RandomBits; 2]) -> Self {
        let upper = permute_bytes(numbers[0].to_bits(), numbers[1].to_bits(), 0x7632);
        let binades = max_bf16x2(upper & INFINITIES, ONES);
        // The sum stays within the binade, so it is rounded once, to 2⁻¹⁶ of a step: that adds the
        // half, ties to the even whole number of steps included.
        let sum = |i: usize| {
            let random = random[i].below(binades, i);
            fma(abs(numbers[i]), 1.0 / Self::UNIT, f32::from_bits(random)).to_bits()
        };
        Self { binades, sums: permute_bytes(sum(0), sum(1), 0x7632) }
    }

    /// The values in BF16, without signs, divided by [`UNIT`](Self::UNIT).
    #[inline(always)]
    pub fn values(self) -> u32 {
        // 6 for what is beyond, and for the NaN that becomes of infinity.
        min_bf16x2(subtract_bf16x2(self.sums, self.binades), SIXES_IN_UNITS)
    }

    /// Both codes, each in the lowest three bits of its half-word's upper byte.
    #[inline(always)]
    fn codes(self) -> u32 {
        // A half-word has steps, up to 4, and above seven bits the exponent, each of which has two
        // codes more than the one before. So steps times 256 and exponents times 2 · 256 make
        // codes, but for the 127 that the exponent of 1 has, 254 codes: 2 less than a multiple of
        // 8. What the lower half-word brings beyond itself does not reach the upper one's code.
        let sums = min_bf16x2(self.sums, SUMS_OF_SIX);
        sums.wrapping_mul(256 + 2 * 256 / 128).wrapping_add(0x0200_0200)
    }
}

/// Two ones in BF16.
const ONES: u32 = 0x3f80_3f80;
/// Two 64ths of six.
const SIXES_IN_UNITS: u32 = 0x3dc0_3dc0;
/// Their binade, 4, with that added.
const SUMS_OF_SIX: u32 = 0x4083_4083;

/// The codes of the magnitudes of eight numbers, as [`Codes::nearest`] or, if there are random
/// bits, [`Dithered::new`] makes them.
#[inline(always)]
pub fn codes(numbers: [f32; 8], random: Option<[RandomBits; 8]>) -> Codes {
    match random {
        None => Codes::nearest(numbers),
        Some(random) => Codes::dithered(dithered(numbers, random)),
    }
}

/// Eight numbers, rounded at random.
#[inline(always)]
pub fn dithered(numbers: [f32; 8], random: [RandomBits; 8]) -> [Dithered; 4] {
    let pair = |i| [2 * i, 2 * i + 1];
    array4(|i| Dithered::new(pair(i).map(|i| numbers[i]), pair(i).map(|i| random[i])))
}
