//! Powers of two as block scales, and what multiplies and restores elements.
//!
//! Blackwell converts them, two at a time; what is here for Hopper gives the same bits.

#[cfg_attr(feature = "sm100a", path = "e8m0/hardware.rs")]
#[cfg_attr(not(feature = "sm100a"), path = "e8m0/arithmetic.rs")]
mod conversions;

pub use self::conversions::{Exponents, value};

/// The exponent of a block in MXFP8: `amax` times the rounded reciprocal of the format's largest
/// value, rounded up to a power of two. Zero gives the smallest one, as NaN does, which stands for
/// a block without numbers, and what lies beyond the largest gives that.
#[inline(always)]
pub fn exponent(amax: f32, reciprocal_max: f32) -> u32 {
    conversions::round_up(quotient(amax, reciprocal_max))
}

/// What is rounded up; never NaN.
#[inline(always)]
fn quotient(amax: f32, reciprocal_max: f32) -> f32 {
    amax.max(0.0) * reciprocal_max
}

/// By what elements of a block are multiplied: `2^(127 − exponent)`.
#[inline(always)]
pub fn factor(exponent: u32) -> f32 {
    value(254 - exponent)
}
