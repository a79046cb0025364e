//! `cvt` between integers and the floating-point formats, and among those (PTX ISA, `cvt`).
//!
//! Codes of any format travel in the low bits of a `u64`. Conversions among integers only extend
//! or cut bits and are not here.

use super::Rounding;
use super::format::{F32, F64, Format, Magnitude, Number, Overflow, shift_and_round};

/// The modifiers of a `cvt` that gives a floating-point number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FloatResult {
    /// The rounding; exact conversions are the same in all of them.
    pub(crate) rounding: Rounding,
    /// `.ftz`: subnormal f32 operands and f32 results become zeros of the same sign.
    pub(crate) flush: bool,
    /// `.sat`: the result is clamped to [0, 1], and NaN becomes +0.
    pub(crate) saturate: bool,
    /// `.relu`: a negative result becomes +0; NaN stays NaN.
    pub(crate) relu: bool,
    /// `.satfinite`: what is beyond the largest finite number becomes that, infinities too.
    pub(crate) saturate_finite: bool,
}

impl FloatResult {
    /// A conversion with a rounding and nothing else.
    pub(crate) fn rounded(rounding: Rounding) -> Self {
        Self { rounding, flush: false, saturate: false, relu: false, saturate_finite: false }
    }
}

/// The integer type of a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct IntegerType {
    /// Width in bits: 8, 16, 32 or 64.
    pub(crate) bits: u32,
    /// Whether it is a two's complement type.
    pub(crate) signed: bool,
}

impl IntegerType {
    /// Sign and absolute value of the type's number in the low bits of a register.
    fn split(self, register: u64) -> (bool, u64) {
        let unused = 64 - self.bits.min(64);
        if !self.signed {
            return (false, register.wrapping_shl(unused).wrapping_shr(unused));
        }
        let value = (register.wrapping_shl(unused) as i64).wrapping_shr(unused);
        (value < 0, value.unsigned_abs())
    }

    /// The type's bits.
    fn mask(self) -> u64 {
        u64::MAX.wrapping_shr(64 - self.bits.min(64))
    }

    /// The largest absolute value with this sign.
    fn limit(self, negative: bool) -> u64 {
        match (self.signed, negative) {
            (false, false) => self.mask(),
            (false, true) => 0,
            (true, false) => self.mask() >> 1,
            (true, true) => (self.mask() >> 1) + 1,
        }
    }
}

/// An integer in the low bits of a register as a floating-point number.
pub(crate) fn integer_to_float(
    register: u64,
    source: IntegerType,
    target: &Format,
    result: FloatResult,
) -> u64 {
    let (negative, value) = source.split(register);
    finish(Number::integer(negative, value), target, result)
}

/// A floating-point number as an integer, in the low bits of the result; the others are zero.
///
/// What is beyond the type becomes its nearest limit. NaN becomes zero, but 1 in the top bit of
/// the target when the source is f64 or the target has 64 bits.
pub(crate) fn float_to_integer(
    code: u64,
    source: &Format,
    target: IntegerType,
    rounding: Rounding,
    flush: bool,
) -> u64 {
    let number = unpack(code, source, flush);
    let limit = target.limit(number.negative);
    let magnitude = match number.magnitude {
        Magnitude::Zero => 0,
        Magnitude::Infinite => limit,
        Magnitude::NotANumber if *source == F64 || target.bits == 64 => {
            return target.mask() ^ (target.mask() >> 1);
        }
        Magnitude::NotANumber => return 0,
        Magnitude::Finite { significand, exponent } => {
            integral(number.negative, significand, exponent, rounding)
                .map_or(limit, |m| m.min(limit))
        }
    };
    let value = if number.negative { magnitude.wrapping_neg() } else { magnitude };
    value & target.mask()
}

/// A floating-point number rounded to an integral value of the same format. The sign stays, for
/// results of zero too.
pub(crate) fn float_to_integral(code: u64, format: &Format, result: FloatResult) -> u64 {
    let number = unpack(code, format, result.flush);
    let Magnitude::Finite { significand, exponent } = number.magnitude else {
        return finish_float(code, number, format, format, result);
    };
    // Numbers without a fraction include all that are too large for 64 bits.
    if exponent >= 0 {
        return finish(number, format, result);
    }
    let whole = integral(number.negative, significand, exponent, result.rounding).unwrap_or(0);
    let magnitude = Number::integer(false, whole).magnitude;
    finish(Number { negative: number.negative, magnitude }, format, result)
}

/// A floating-point number in another format, or the same one with modifiers.
///
/// An f64 result of a NaN has the sign and the payload of the operand and is quiet.
pub(crate) fn float_to_float(
    code: u64,
    source: &Format,
    target: &Format,
    result: FloatResult,
) -> u64 {
    finish_float(code, unpack(code, source, result.flush), source, target, result)
}

fn unpack(code: u64, source: &Format, flush: bool) -> Number {
    source.unpack(if flush && *source == F32 { source.flushed(code) } else { code })
}

fn finish_float(
    code: u64,
    number: Number,
    source: &Format,
    target: &Format,
    result: FloatResult,
) -> u64 {
    if number.magnitude == Magnitude::NotANumber && *target == F64 && !result.saturate {
        return widened_nan(code, source);
    }
    finish(number, target, result)
}

fn widened_nan(code: u64, source: &Format) -> u64 {
    let sign = if code & source.sign_bit() != 0 { F64.sign_bit() } else { 0 };
    let payload = source.magnitude_bits(code) << (F64.precision - source.precision);
    let fraction = F64.smallest_normal() - 1;
    let quiet = F64.smallest_normal() >> 1;
    sign | F64.infinity.unwrap_or(0) | quiet | (payload & fraction)
}

/// Rounds to the target and applies the modifiers.
fn finish(number: Number, target: &Format, result: FloatResult) -> u64 {
    if result.saturate && number.magnitude == Magnitude::NotANumber {
        return 0;
    }
    let overflow = if result.saturate_finite { Overflow::Finite } else { Overflow::Infinity };
    let code = if result.flush && *target == F32 {
        target.round_flushed(number, result.rounding, overflow)
    } else {
        target.round(number, result.rounding, overflow)
    };
    if number.magnitude == Magnitude::NotANumber {
        return code;
    }
    if (result.relu || result.saturate) && code & target.sign_bit() != 0 {
        return 0;
    }
    if result.saturate {
        let one = target.round(Number::integer(false, 1), Rounding::Zero, Overflow::Infinity);
        return code.min(one);
    }
    code
}

/// The absolute value rounded to an integer, or nothing when it needs more than 64 bits.
fn integral(negative: bool, significand: u128, exponent: i32, rounding: Rounding) -> Option<u64> {
    let significand = u64::try_from(significand).ok()?;
    if exponent > significand.leading_zeros() as i32 {
        return None;
    }
    Some(shift_and_round(negative, significand, exponent.checked_neg()?, rounding))
}
