//! Arithmetic of f16 and bf16, `.rn`, on bit patterns.
//!
//! Everything is computed in f64 and rounded once more, to the format. That gives the correctly
//! rounded result:
//!
//! - Products of two significands of at most 11 bits are exact in f64.
//! - A sum of two numbers with at most 11 bits each is inexact in f64 only when they are more than
//!   40 places apart. The exact sum then lies next to the larger one, which is a number of the
//!   format and no halfway case, and so does the rounded one.
//! - In an fma of bf16 the product can be a halfway case itself, and an addend far below it must
//!   still decide. The sum in f64 is rounded to odd, which the last rounding cannot tell from the
//!   exact value.
//!
//! Going through f32 instead would not do for an fma of f16: the nearest f32 of the sum can be a
//! halfway case of f16 that the exact sum is not.

use super::format::{BF16, F16, F64, Format, Overflow};
use super::single::sum_to_odd;
use super::{Modifiers, Rounding};

/// One of the two 16-bit formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HalfFormat {
    /// `.f16`: IEEE binary16.
    F16,
    /// `.bf16`: the upper half of f32.
    Bf16,
}

impl HalfFormat {
    /// The layout of the format.
    pub(crate) fn format(self) -> &'static Format {
        match self {
            Self::F16 => &F16,
            Self::Bf16 => &BF16,
        }
    }

    /// The value as f32, which is exact; NaN becomes the canonical NaN.
    #[inline]
    pub(crate) fn decode(self, bits: u16) -> f32 {
        match self {
            Self::F16 => decode_f16(bits),
            Self::Bf16 => super::single::canonical(f32::from_bits(u32::from(bits) << 16)),
        }
    }

    /// The nearest number of the format; halfway cases go to the even one.
    #[inline]
    pub(crate) fn encode(self, value: f64) -> u16 {
        match self {
            Self::F16 => encode_nearest(&F16, value),
            Self::Bf16 => encode_nearest(&BF16, value),
        }
    }
}

/// The quick path is for results in the range of the normal numbers: the exponent is counted from
/// the format's bias, and an addition rounds, carrying into the exponent where it must.
#[inline(always)]
fn encode_nearest(format: &Format, value: f64) -> u16 {
    let bits = value.to_bits();
    let magnitude = F64.magnitude_bits(bits);
    let smallest_normal = ((1023 + format.minimum_exponent) as u64) << 52;
    if magnitude < smallest_normal || !value.is_finite() {
        let number = F64.unpack(bits);
        return format.round(number, Rounding::NearestEven, Overflow::Infinity) as u16;
    }
    let dropped = F64.precision - format.precision;
    let biased = magnitude - smallest_normal + (1 << 52);
    let increment = (1 << (dropped - 1)) - 1 + ((biased >> dropped) & 1);
    let code = (biased + increment) >> dropped;
    let sign = (bits >> 48) as u16 & 0x8000;
    sign | code.min(format.maximum + 1) as u16
}

/// `add`.
pub(crate) fn add(format: HalfFormat, a: u16, b: u16, modifiers: Modifiers) -> u16 {
    compute(format, [a, b], modifiers, |[a, b]| a + b)
}

/// `sub`.
pub(crate) fn subtract(format: HalfFormat, a: u16, b: u16, modifiers: Modifiers) -> u16 {
    compute(format, [a, b], modifiers, |[a, b]| a - b)
}

/// `mul`.
pub(crate) fn multiply(format: HalfFormat, a: u16, b: u16, modifiers: Modifiers) -> u16 {
    compute(format, [a, b], modifiers, |[a, b]| a * b)
}

/// `fma`: `a * b + c` with one rounding.
pub(crate) fn fused(format: HalfFormat, a: u16, b: u16, c: u16, modifiers: Modifiers) -> u16 {
    compute(format, [a, b, c], modifiers, |[a, b, c]| sum_to_odd(a * b, c))
}

/// `neg`: the sign bit inverted, for NaN too.
pub(crate) fn negate(format: HalfFormat, a: u16, modifiers: Modifiers) -> u16 {
    flush(format, a, modifiers) ^ 0x8000
}

/// `abs`: the sign bit cleared, for NaN too.
pub(crate) fn absolute(format: HalfFormat, a: u16, modifiers: Modifiers) -> u16 {
    flush(format, a, modifiers) & 0x7FFF
}

/// `.ftz` where the modifiers ask for it.
pub(crate) fn flush(format: HalfFormat, bits: u16, modifiers: Modifiers) -> u16 {
    if modifiers.flush { format.format().flushed(u64::from(bits)) as u16 } else { bits }
}

/// Applies `.ftz`, `.sat` and `.relu` to a result.
pub(crate) fn finish(format: HalfFormat, bits: u16, modifiers: Modifiers) -> u16 {
    let bits = flush(format, bits, modifiers);
    let layout = format.format();
    if layout.is_nan(u64::from(bits)) {
        return if modifiers.saturate { 0 } else { layout.canonical_nan as u16 };
    }
    let clamped = modifiers.relu || modifiers.saturate;
    if clamped && bits & 0x8000 != 0 {
        return 0;
    }
    if modifiers.saturate { bits.min(format.encode(1.0)) } else { bits }
}

#[inline]
fn compute<const N: usize>(
    format: HalfFormat,
    operands: [u16; N],
    modifiers: Modifiers,
    operation: impl Fn([f64; N]) -> f64,
) -> u16 {
    let operands = operands.map(|bits| f64::from(format.decode(flush(format, bits, modifiers))));
    let result = operation(operands);
    let mut bits = format.encode(result);
    let layout = format.format();
    if modifiers.flush && layout.magnitude_bits(bits.into()) == layout.smallest_normal() {
        let number = F64.unpack(result.to_bits());
        bits = layout.round_flushed(number, Rounding::NearestEven, Overflow::Infinity) as u16;
    }
    finish(format, bits, modifiers)
}

/// The exponent field of f32 differs from that of f16 by 112, and multiplying by that power of two
/// makes subnormal numbers right as well.
#[inline]
fn decode_f16(bits: u16) -> f32 {
    let magnitude = u32::from(bits & 0x7FFF);
    let sign = u32::from(bits & 0x8000) << 16;
    if magnitude > 0x7C00 {
        return super::single::CANONICAL_NAN;
    }
    if magnitude == 0x7C00 {
        return f32::from_bits(sign | f32::INFINITY.to_bits());
    }
    let scale = f32::from_bits((127 + 112) << 23);
    f32::from_bits(sign | (magnitude << 13)) * scale
}
