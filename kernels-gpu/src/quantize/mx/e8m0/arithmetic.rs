//! In integers.

use super::super::unroll::array8;
use super::{exponent, factor};

/// Rounds up to a power of two what is neither negative nor NaN; gives its exponent.
#[inline(always)]
pub fn round_up(number: f32) -> u32 {
    let bits = number.to_bits();
    // A mantissa counts the exponent up; among subnormal numbers only one of more than 2⁻¹²⁷ does.
    let carry = if bits < 0x0080_0000 { 0x003f_ffff } else { 0x007f_ffff };
    ((bits + carry) >> 23).min(254)
}

/// `2^(exponent − 127)`, by what codes of a block are multiplied; 255 is NaN.
#[inline(always)]
pub fn value(exponent: u32) -> f32 {
    match exponent {
        0 => f32::from_bits(0x0040_0000),
        255 => f32::NAN,
        _ => f32::from_bits(exponent << 23),
    }
}

/// The exponents of eight blocks.
#[derive(Clone, Copy)]
pub struct Exponents([u32; 8]);

impl Exponents {
    /// Those of blocks with these largest magnitudes, each as [`exponent`] gives it.
    #[inline(always)]
    pub fn new(amax: [f32; 8], reciprocal_max: f32) -> Self {
        Self(array8(|i| exponent(amax[i], reciprocal_max)))
    }

    /// The exponent of block `i`.
    #[inline(always)]
    pub fn code(&self, i: usize) -> u32 {
        self.0[i]
    }

    /// The [`factor`] of block `i`.
    #[inline(always)]
    pub fn factor(&self, i: usize) -> f32 {
        factor(self.0[i])
    }

    /// The [`value`] of block `i`.
    #[inline(always)]
    pub fn value(&self, i: usize) -> f32 {
        value(self.0[i])
    }
}
