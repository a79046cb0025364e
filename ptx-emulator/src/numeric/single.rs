//! Arithmetic of f32 (PTX ISA, "Floating-Point Instructions").

use super::format::{F32, Number, Overflow};
use super::{Modifiers, Rounding, exact};

/// The NaN that every f32 operation of PTX gives.
pub(crate) const CANONICAL_NAN: f32 = f32::from_bits(0x7FFF_FFFF);

/// The value itself, or the canonical NaN.
///
/// Integers are compared here because LLVM 22 takes a choice between a NaN and `sqrt(x)` by
/// `is_nan` for `sqrt(x)` alone, whose NaN is not the canonical one.
#[inline(always)]
pub(crate) fn canonical(value: f32) -> f32 {
    let bits = value.to_bits();
    let is_nan = (bits & 0x7FFF_FFFF) as i32 > f32::INFINITY.to_bits() as i32;
    f32::from_bits(if is_nan { CANONICAL_NAN.to_bits() } else { bits })
}

/// `.ftz`: a subnormal becomes a zero of its sign.
///
/// A result is looked at after rounding to 24 bits ([`is_tiny`] for what rounding up to the
/// smallest normal number hides).
#[inline(always)]
pub(crate) fn flush(value: f32) -> f32 {
    if value.abs() < f32::MIN_POSITIVE { 0f32.copysign(value) } else { value }
}

/// An operation whose result can lie between two subnormal numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inexact {
    Multiply,
    Fused,
    Divide,
}

/// Whether a result that was rounded to the smallest normal number becomes zero with `.ftz`: it
/// does when 24 bits do not round it up so far ([`Format::round_flushed`]).
///
/// [`Format::round_flushed`]: super::format::Format::round_flushed
pub(crate) fn is_tiny(operation: Inexact, [a, b, c]: [f32; 3], rounding: Rounding) -> bool {
    let [a, b, c] = [a, b, c].map(unpack);
    let number = match operation {
        Inexact::Multiply => exact::multiply(a, b),
        Inexact::Fused => exact::fused(a, b, c, rounding),
        Inexact::Divide => exact::divide(a, b),
    };
    let code = F32.round_flushed(number, rounding, Overflow::Infinity) as u32;
    f32::from_bits(code) == 0.0
}

/// `.sat`: clamps to [0, 1]; NaN and -0 become +0.
#[inline(always)]
pub(crate) fn saturate(value: f32) -> f32 {
    let positive = if value > 0.0 { value } else { 0.0 };
    if positive < 1.0 { positive } else { 1.0_f32.min(positive) }
}

/// Runs an operation on operands flushed where `.ftz` asks for it, and finishes its result.
///
/// `.relu` is not an f32 modifier and is ignored.
#[inline(always)]
pub(crate) fn modified<const N: usize>(
    modifiers: Modifiers,
    mut operands: [f32; N],
    operation: impl Fn([f32; N]) -> f32,
) -> f32 {
    if modifiers.flush {
        operands = operands.map(flush);
    }
    let mut result = operation(operands);
    if modifiers.flush {
        result = flush(result);
    }
    if modifiers.saturate { saturate(result) } else { result }
}

/// `add`.
#[inline]
pub(crate) fn add(a: f32, b: f32, rounding: Rounding) -> f32 {
    if rounding == Rounding::NearestEven {
        return canonical(a + b);
    }
    finish(exact::add(unpack(a), unpack(b), rounding), rounding)
}

/// `sub`.
#[inline]
pub(crate) fn subtract(a: f32, b: f32, rounding: Rounding) -> f32 {
    add(a, -b, rounding)
}

/// `mul`.
#[inline]
pub(crate) fn multiply(a: f32, b: f32, rounding: Rounding) -> f32 {
    if rounding == Rounding::NearestEven {
        return canonical(a * b);
    }
    finish(exact::multiply(unpack(a), unpack(b)), rounding)
}

/// `fma`: `a * b + c` with one rounding.
#[inline]
pub(crate) fn fused(a: f32, b: f32, c: f32, rounding: Rounding) -> f32 {
    if rounding == Rounding::NearestEven {
        return canonical(fused_to_odd(a, b, c) as f32);
    }
    finish(exact::fused(unpack(a), unpack(b), unpack(c), rounding), rounding)
}

/// `div`.
#[inline]
pub(crate) fn divide(a: f32, b: f32, rounding: Rounding) -> f32 {
    if rounding == Rounding::NearestEven {
        return canonical(a / b);
    }
    finish(exact::divide(unpack(a), unpack(b)), rounding)
}

/// `rcp`.
#[inline]
pub(crate) fn reciprocal(a: f32, rounding: Rounding) -> f32 {
    divide(1.0, a, rounding)
}

/// `sqrt`.
#[inline]
pub(crate) fn square_root(a: f32, rounding: Rounding) -> f32 {
    if rounding == Rounding::NearestEven {
        return canonical(a.sqrt());
    }
    finish(exact::square_root(unpack(a)), rounding)
}

/// `add.rn` of a warp's lanes.
#[inline]
pub(crate) fn add_lanes(a: &[f32; 32], b: &[f32; 32]) -> [f32; 32] {
    std::array::from_fn(|lane| canonical(a[lane] + b[lane]))
}

/// `mul.rn` of a warp's lanes.
#[inline]
pub(crate) fn multiply_lanes(a: &[f32; 32], b: &[f32; 32]) -> [f32; 32] {
    std::array::from_fn(|lane| canonical(a[lane] * b[lane]))
}

/// `fma.rn` of a warp's lanes.
///
/// The product is exact in f64 and its sum with `c` is rounded there first, which is quick. The
/// second rounding, to f32, goes wrong only when the first was inexact and its result lies exactly
/// halfway between two f32 numbers. All lanes are computed again with [`fused_to_odd`] when one of
/// them is halfway between normal numbers, or so small that its halfway cases look different.
#[inline]
pub(crate) fn fused_lanes(a: &[f32; 32], b: &[f32; 32], c: &[f32; 32]) -> [f32; 32] {
    let mut result = [0f32; 32];
    let mut doubtful = 0u32;
    for lane in 0..32 {
        let (product, addend) = (f64::from(a[lane]) * f64::from(b[lane]), f64::from(c[lane]));
        let sum = product + addend;
        let rounded = sum as f32;
        // The 29 bits that f64 has more than f32.
        let halfway = (sum.to_bits() as u32) << 3 == 0x8000_0000;
        let small = rounded.abs() <= f32::MIN_POSITIVE;
        // The difference to the larger of the two is exact (Dekker, "A floating-point technique for
        // extending the available precision", 1971), so that an inexact sum fails there.
        let inexact = (sum - product != addend) | (sum - addend != product);
        doubtful |= u32::from(inexact) & (u32::from(halfway) | u32::from(small));
        result[lane] = canonical(rounded);
    }
    if doubtful == 0 {
        return result;
    }
    // A loop, because it becomes vector code where a call a lane would not.
    for lane in 0..32 {
        result[lane] = canonical(fused_to_odd(a[lane], b[lane], c[lane]) as f32);
    }
    result
}

/// `a * b + c` in f64, where an inexact result ends in a one.
///
/// The product of two f32 numbers is exact in f64, and nothing here overflows or is subnormal, so
/// Knuth's TwoSum gives the sum's error exactly. Of the two f64 numbers around an inexact sum, the
/// one with an odd significand is taken. Rounding that one to f32 gives what rounding the exact
/// value would have given, as f64 has more than two bits to spare, below the smallest f32 normals
/// as well (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms
/// using rounding to odd", 2008).
#[inline(always)]
pub(crate) fn fused_to_odd(a: f32, b: f32, c: f32) -> f64 {
    sum_to_odd(f64::from(a) * f64::from(b), f64::from(c))
}

/// `a + b` rounded to odd; neither operand nor the result may come near f64's range.
#[inline(always)]
pub(crate) fn sum_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let part = sum - a;
    let error = (a - (sum - part)) + (b - part);
    // The error of an infinite or NaN sum is NaN and compares as false.
    let inexact = u64::from(error.abs() > 0.0);
    let past = ((error.to_bits() ^ sum.to_bits()) >> 63) & inexact;
    f64::from_bits((sum.to_bits() - past) | inexact)
}

fn unpack(value: f32) -> Number {
    F32.unpack(u64::from(value.to_bits()))
}

fn finish(number: Number, rounding: Rounding) -> f32 {
    f32::from_bits(F32.round(number, rounding, Overflow::Infinity) as u32)
}
