//! The approximate instructions (PTX ISA, "Floating-Point Instructions"), computed in f64 and
//! rounded, which is within the manual's error bounds but not bit for bit what a device gives.
//!
//! Special operands follow the manual's tables, which the functions of `std` mostly agree with.
//! `.ftz` flushes operands and results.

use super::Modifiers;
use super::half::{self, HalfFormat};
use super::single::{canonical, modified};

/// An approximate function of one f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Function {
    /// `ex2.approx`: two to the power of the operand.
    Exp2,
    /// `lg2.approx`: the logarithm to base two; NaN below zero, minus infinity at both zeros.
    Log2,
    /// `rcp.approx`: one divided by the operand.
    Reciprocal,
    /// `rsqrt.approx`: minus infinity at -0, NaN below.
    ReciprocalSquareRoot,
    /// `sqrt.approx`: -0 at -0, NaN below.
    SquareRoot,
    /// `sin.approx`: the operand in radians; NaN at infinity.
    Sine,
    /// `cos.approx`: the operand in radians; NaN at infinity.
    Cosine,
    /// `tanh.approx`.
    HyperbolicTangent,
}

impl Function {
    /// The function in f64.
    fn evaluate(self, a: f64) -> f64 {
        match self {
            Self::Exp2 => a.exp2(),
            Self::Log2 => a.log2(),
            Self::Reciprocal => 1.0 / a,
            Self::ReciprocalSquareRoot => 1.0 / a.sqrt(),
            Self::SquareRoot => a.sqrt(),
            Self::Sine => a.sin(),
            Self::Cosine => a.cos(),
            Self::HyperbolicTangent => a.tanh(),
        }
    }

    /// The function of an f32.
    pub(crate) fn single(self, a: f32, modifiers: Modifiers) -> f32 {
        modified(modifiers, [a], |[a]| canonical(self.evaluate(f64::from(a)) as f32))
    }

    /// The function of an f16 or bf16; PTX has `ex2` and `tanh`.
    pub(crate) fn half(self, format: HalfFormat, a: u16, modifiers: Modifiers) -> u16 {
        let operand = f64::from(format.decode(half::flush(format, a, modifiers)));
        half::finish(format, format.encode(self.evaluate(operand)), modifiers)
    }

    /// The functions of f64, `rcp.approx.ftz.f64` and `rsqrt.approx.ftz.f64`: only the upper 32
    /// bits of operand and result count, and subnormal numbers are zeros.
    pub(crate) fn double(self, a: f64) -> f64 {
        let operand = flush_double(upper_half(a));
        let result = upper_half(flush_double(self.evaluate(operand)));
        if result.is_nan() { super::double::propagated(&[operand]) } else { result }
    }
}

/// `div.approx.f32`, which multiplies by an approximate reciprocal: for divisors between 2^126 and
/// 2^128 that reciprocal is zero, so the quotient is zero, or NaN when the dividend is infinite.
pub(crate) fn divide(a: f32, b: f32, modifiers: Modifiers) -> f32 {
    modified(modifiers, [a, b], |[a, b]| {
        let vanishes = b.is_finite() && b.abs() > f32::from_bits(0x7E80_0000);
        let reciprocal = if vanishes { 0f64.copysign(f64::from(b)) } else { 1.0 / f64::from(b) };
        // A dividend and divisor of infinity, or of zero, give NaN as they should.
        canonical((f64::from(a) * reciprocal) as f32)
    })
}

/// `div.full.f32`, which scales its operands and so has the full range.
pub(crate) fn divide_full(a: f32, b: f32, modifiers: Modifiers) -> f32 {
    modified(modifiers, [a, b], |[a, b]| canonical((f64::from(a) / f64::from(b)) as f32))
}

fn upper_half(value: f64) -> f64 {
    if value.is_nan() {
        return value;
    }
    f64::from_bits(value.to_bits() & 0xFFFF_FFFF_0000_0000)
}

fn flush_double(value: f64) -> f64 {
    if value.abs() < f64::MIN_POSITIVE { 0f64.copysign(value) } else { value }
}
