//! In hardware.

use ptx_std::convert_blocks::{f32x2_to_ue8m0x2_up, ue8m0x2_to_bf16x2};

use super::super::unroll::array4;
use super::quotient;

/// Rounds up to a power of two what is neither negative nor NaN; gives its exponent.
#[inline(always)]
pub fn round_up(number: f32) -> u32 {
    f32x2_to_ue8m0x2_up(number, 0.0).into()
}

/// `2^(exponent − 127)`, by what codes of a block are multiplied; 255 is NaN.
#[inline(always)]
pub fn value(exponent: u32) -> f32 {
    widen(exponent as u16, 0)
}

/// The value of the lower or of the upper one of a pair.
#[inline(always)]
fn widen(pair: u16, which: usize) -> f32 {
    let values = ue8m0x2_to_bf16x2(pair);
    f32::from_bits(if which == 0 { values << 16 } else { values & 0xffff_0000 })
}

/// The exponents of eight blocks, in pairs: they wait for their use in half the registers.
#[derive(Clone, Copy)]
pub struct Exponents([u16; 4]);

impl Exponents {
    /// Those of blocks with these largest magnitudes, each as [`exponent`](super::exponent) gives
    /// it.
    #[inline(always)]
    pub fn new(amax: [f32; 8], reciprocal_max: f32) -> Self {
        let quotient = |i: usize| quotient(amax[i], reciprocal_max);
        Self(array4(|pair| f32x2_to_ue8m0x2_up(quotient(2 * pair), quotient(2 * pair + 1))))
    }

    /// The exponent of block `i`.
    #[inline(always)]
    pub fn code(&self, i: usize) -> u32 {
        u32::from(self.0[i / 2]) >> (8 * (i % 2)) & 0xff
    }

    /// The [`factor`](super::factor) of block `i`.
    #[inline(always)]
    pub fn factor(&self, i: usize) -> f32 {
        // No exponent is above 254, so that neither borrows from the other.
        widen(0xfefe_u16.wrapping_sub(self.0[i / 2]), i % 2)
    }

    /// The [`value`] of block `i`.
    #[inline(always)]
    pub fn value(&self, i: usize) -> f32 {
        widen(self.0[i / 2], i % 2)
    }
}
