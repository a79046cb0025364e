//! Arithmetic of f64.
//!
//! PTX does not fix the payload of an f64 NaN. Here a NaN result is the first operand that is NaN,
//! made quiet, and 0xFFF8000000000000 when no operand is; this is the same on every host.

use super::format::{F64, Number, Overflow};
use super::{Rounding, exact};

/// The NaN of an invalid operation without NaN operands.
pub(crate) const INVALID_NAN: f64 = f64::from_bits(0xFFF8_0000_0000_0000);

const QUIET_BIT: u64 = 1 << 51;

/// `add`.
#[inline]
pub(crate) fn add(a: f64, b: f64, rounding: Rounding) -> f64 {
    if rounding == Rounding::NearestEven {
        return settled(a + b, [a, b]);
    }
    finish(exact::add(unpack(a), unpack(b), rounding), rounding, [a, b])
}

/// `sub`.
#[inline]
pub(crate) fn subtract(a: f64, b: f64, rounding: Rounding) -> f64 {
    if rounding == Rounding::NearestEven {
        return settled(a - b, [a, b]);
    }
    finish(exact::add(unpack(a), unpack(b).negated(), rounding), rounding, [a, b])
}

/// `mul`.
#[inline]
pub(crate) fn multiply(a: f64, b: f64, rounding: Rounding) -> f64 {
    if rounding == Rounding::NearestEven {
        return settled(a * b, [a, b]);
    }
    finish(exact::multiply(unpack(a), unpack(b)), rounding, [a, b])
}

/// `fma`: `a * b + c` with one rounding.
#[inline]
pub(crate) fn fused(a: f64, b: f64, c: f64, rounding: Rounding) -> f64 {
    finish(exact::fused(unpack(a), unpack(b), unpack(c), rounding), rounding, [a, b, c])
}

/// `div`.
#[inline]
pub(crate) fn divide(a: f64, b: f64, rounding: Rounding) -> f64 {
    if rounding == Rounding::NearestEven {
        return settled(a / b, [a, b]);
    }
    finish(exact::divide(unpack(a), unpack(b)), rounding, [a, b])
}

/// `rcp`.
#[inline]
pub(crate) fn reciprocal(a: f64, rounding: Rounding) -> f64 {
    divide(1.0, a, rounding)
}

/// `sqrt`.
#[inline]
pub(crate) fn square_root(a: f64, rounding: Rounding) -> f64 {
    if rounding == Rounding::NearestEven {
        return settled(a.sqrt(), [a]);
    }
    finish(exact::square_root(unpack(a)), rounding, [a])
}

#[inline(always)]
fn settled<const N: usize>(result: f64, operands: [f64; N]) -> f64 {
    if result.is_nan() { propagated(&operands) } else { result }
}

/// The NaN of a result, from its operands.
#[cold]
pub(crate) fn propagated(operands: &[f64]) -> f64 {
    match operands.iter().find(|operand| operand.is_nan()) {
        Some(nan) => f64::from_bits(nan.to_bits() | QUIET_BIT),
        None => INVALID_NAN,
    }
}

fn unpack(value: f64) -> Number {
    F64.unpack(value.to_bits())
}

fn finish<const N: usize>(number: Number, rounding: Rounding, operands: [f64; N]) -> f64 {
    settled(f64::from_bits(F64.round(number, rounding, Overflow::Infinity)), operands)
}
