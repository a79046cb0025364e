//! Operations on unpacked numbers, exact or with the lowest bit standing for what is below it.
//!
//! One rounding of the result with [`Format::round`](super::format::Format::round) makes each
//! operation correctly rounded for all formats up to 53 bits of precision, in every rounding.

use super::Rounding;
use super::format::{Magnitude, Number};

const NAN: Number = Number { negative: false, magnitude: Magnitude::NotANumber };

/// The top bit of an aligned operand of a sum, low enough for the carry.
const ALIGNED_TOP: i32 = 125;

/// The sum. The rounding decides the sign of an exact zero (IEEE 754, 6.3).
pub(crate) fn add(a: Number, b: Number, rounding: Rounding) -> Number {
    use Magnitude::{Finite, Infinite, NotANumber, Zero};
    match (a.magnitude, b.magnitude) {
        (NotANumber, _) | (_, NotANumber) => NAN,
        (Infinite, Infinite) if a.negative != b.negative => NAN,
        (Infinite, _) => a,
        (_, Infinite) => b,
        (Zero, Zero) if a.negative == b.negative => a,
        (Zero, Zero) => zero_sum(rounding),
        (Zero, _) => b,
        (_, Zero) => a,
        (
            Finite { significand: x, exponent: x_exponent },
            Finite { significand: y, exponent: y_exponent },
        ) => {
            let x_top = top(x, x_exponent);
            let y_top = top(y, y_exponent);
            let lowest = x_top.max(y_top) - ALIGNED_TOP;
            let x = aligned(x, x_exponent - lowest);
            let y = aligned(y, y_exponent - lowest);
            if a.negative == b.negative {
                return finite(a.negative, x + y, lowest);
            }
            if x == y {
                return zero_sum(rounding);
            }
            finite(if x > y { a.negative } else { b.negative }, x.abs_diff(y), lowest)
        }
    }
}

/// The product, which is exact for significands up to 64 bits.
pub(crate) fn multiply(a: Number, b: Number) -> Number {
    use Magnitude::{Finite, Infinite, NotANumber, Zero};
    let negative = a.negative != b.negative;
    match (a.magnitude, b.magnitude) {
        (NotANumber, _) | (_, NotANumber) | (Infinite, Zero) | (Zero, Infinite) => NAN,
        (Infinite, _) | (_, Infinite) => Number { negative, magnitude: Infinite },
        (Zero, _) | (_, Zero) => Number { negative, magnitude: Zero },
        (
            Finite { significand: x, exponent: x_exponent },
            Finite { significand: y, exponent: y_exponent },
        ) => finite(negative, x.wrapping_mul(y), x_exponent + y_exponent),
    }
}

/// `a * b + c` without a rounding between.
pub(crate) fn fused(a: Number, b: Number, c: Number, rounding: Rounding) -> Number {
    add(multiply(a, b), c, rounding)
}

/// The quotient, with at least 64 significant bits.
pub(crate) fn divide(a: Number, b: Number) -> Number {
    use Magnitude::{Finite, Infinite, NotANumber, Zero};
    let negative = a.negative != b.negative;
    match (a.magnitude, b.magnitude) {
        (NotANumber, _) | (_, NotANumber) | (Infinite, Infinite) | (Zero, Zero) => NAN,
        (Infinite, _) | (_, Zero) => Number { negative, magnitude: Infinite },
        (Zero, _) | (_, Infinite) => Number { negative, magnitude: Zero },
        (
            Finite { significand: x, exponent: x_exponent },
            Finite { significand: y, exponent: y_exponent },
        ) => {
            let shift = x.leading_zeros();
            let dividend = x << shift;
            let inexact = dividend % y != 0;
            let significand = (dividend / y) | u128::from(inexact);
            finite(negative, significand, x_exponent - shift as i32 - y_exponent)
        }
    }
}

/// The square root, with 64 significant bits.
pub(crate) fn square_root(a: Number) -> Number {
    use Magnitude::{Finite, Infinite, NotANumber, Zero};
    match a.magnitude {
        NotANumber => NAN,
        Zero => a,
        _ if a.negative => NAN,
        Infinite => a,
        Finite { significand, exponent } => {
            let mut shift = significand.leading_zeros() as i32;
            // The exponent must be even to be halved.
            shift -= (exponent - shift) & 1;
            let radicand = significand << shift;
            let root = radicand.isqrt();
            let inexact = root * root != radicand;
            finite(false, root | u128::from(inexact), (exponent - shift) / 2)
        }
    }
}

fn finite(negative: bool, significand: u128, exponent: i32) -> Number {
    Number { negative, magnitude: Magnitude::Finite { significand, exponent } }
}

fn zero_sum(rounding: Rounding) -> Number {
    Number { negative: rounding == Rounding::Down, magnitude: Magnitude::Zero }
}

/// The power of two of the highest set bit.
fn top(significand: u128, exponent: i32) -> i32 {
    exponent + 127 - significand.leading_zeros() as i32
}

/// Shifts left, or right with the lowest bit set when anything was lost.
///
/// A sum needs a bit lost only when one operand's top is at least 20 places above the other's,
/// since products have at most 106 bits; then nothing cancels and the lost bits are far below the
/// rounding's place. The larger operand ends in a zero there, so the lowest bit of sum and
/// difference is right too.
fn aligned(significand: u128, shift: i32) -> u128 {
    if shift >= 0 {
        return significand << shift.min(127);
    }
    let shift = shift.unsigned_abs();
    if shift > 127 {
        return 1;
    }
    let lost = significand & ((1u128 << shift) - 1) != 0;
    (significand >> shift) | u128::from(lost)
}
