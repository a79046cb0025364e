//! `min` and `max` of floating-point numbers (PTX ISA, "Floating-Point Instructions").
//!
//! -0 is less than +0. One NaN operand gives the other operand, two give the canonical NaN.

use super::format::{BF16, F16, F32, F64, Format};
use super::half::HalfFormat;

/// Which of the two operands is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Extremum {
    /// `min`.
    Minimum,
    /// `max`.
    Maximum,
}

/// The modifiers of `min` and `max`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct MinMaxModifiers {
    /// `.ftz`: subnormal operands and results become zeros of the same sign.
    pub(crate) flush: bool,
    /// `.NaN`: one NaN operand is enough for a NaN result.
    pub(crate) propagate_nan: bool,
    /// `.xorsign.abs`: magnitudes are compared, and the result's sign is the signs' exclusive or.
    pub(crate) xor_sign: bool,
}

/// `min.f32` and `max.f32`.
#[inline]
pub(crate) fn single(extremum: Extremum, a: f32, b: f32, modifiers: MinMaxModifiers) -> f32 {
    let (a, b) = (u64::from(a.to_bits()), u64::from(b.to_bits()));
    f32::from_bits(select(&F32, extremum, a, b, modifiers) as u32)
}

/// `min.f64` and `max.f64`. Two NaN operands give 0xFFF8000000000000.
#[inline]
pub(crate) fn double(extremum: Extremum, a: f64, b: f64) -> f64 {
    let modifiers = MinMaxModifiers::default();
    f64::from_bits(select(&F64, extremum, a.to_bits(), b.to_bits(), modifiers))
}

/// `min` and `max` of f16 and bf16.
#[inline]
pub(crate) fn half(
    format: HalfFormat,
    extremum: Extremum,
    a: u16,
    b: u16,
    modifiers: MinMaxModifiers,
) -> u16 {
    let (a, b) = (u64::from(a), u64::from(b));
    match format {
        HalfFormat::F16 => select(&F16, extremum, a, b, modifiers) as u16,
        HalfFormat::Bf16 => select(&BF16, extremum, a, b, modifiers) as u16,
    }
}

#[inline(always)]
fn select(
    format: &Format,
    extremum: Extremum,
    mut a: u64,
    mut b: u64,
    modifiers: MinMaxModifiers,
) -> u64 {
    if modifiers.flush {
        a = format.flushed(a);
        b = format.flushed(b);
    }
    let sign = if modifiers.xor_sign { (a ^ b) & format.sign_bit() } else { 0 };
    if modifiers.xor_sign {
        a = format.magnitude_bits(a);
        b = format.magnitude_bits(b);
    }
    let (a_nan, b_nan) = (format.is_nan(a), format.is_nan(b));
    if (a_nan && b_nan) || (modifiers.propagate_nan && (a_nan || b_nan)) {
        return format.canonical_nan;
    }
    let a_less = ordered(format, a) < ordered(format, b);
    let a_wanted = a_less == (extremum == Extremum::Minimum);
    sign | if b_nan || (a_wanted && !a_nan) { a } else { b }
}

/// An integer that orders codes as their values, with -0 before +0.
#[inline(always)]
fn ordered(format: &Format, code: u64) -> i64 {
    let magnitude = format.magnitude_bits(code) as i64;
    if code & format.sign_bit() != 0 { !magnitude } else { magnitude }
}
