//! Formats of 4, 6 and 8 bits, the scale format ue8m0, and tf32 (PTX ISA, "Alternate
//! Floating-Point Data Formats" and `cvt`).
//!
//! A code lies in the low bits of a byte. Infinities and what is too large become the largest
//! number, as the conversions to these formats always have `.satfinite`; NaN becomes the canonical
//! NaN 0x7F of e4m3 and e5m2, and the largest number of formats without NaN.

use super::Rounding;
use super::convert::{FloatResult, float_to_float};
use super::format::{BF16, E2M1, E2M3, E3M2, E4M3, E5M2, F16, F32, F64, Format, Overflow, TF32};
use super::half::HalfFormat;
use super::single::CANONICAL_NAN;

/// A format of up to eight bits with a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SmallFormat {
    /// `.e4m3`, eight bits.
    E4m3,
    /// `.e5m2`, eight bits.
    E5m2,
    /// `.e2m1`, four bits.
    E2m1,
    /// `.e2m3`, six bits.
    E2m3,
    /// `.e3m2`, six bits.
    E3m2,
}

impl SmallFormat {
    /// The layout of the format.
    pub(crate) fn format(self) -> &'static Format {
        match self {
            Self::E4m3 => &E4M3,
            Self::E5m2 => &E5M2,
            Self::E2m1 => &E2M1,
            Self::E2m3 => &E2M3,
            Self::E3m2 => &E3M2,
        }
    }

    /// How far the two numbers of a pair are apart, in bits: four-bit ones share a byte.
    pub(crate) fn pair_bits(self) -> u32 {
        if self == Self::E2m1 { 4 } else { 8 }
    }

    /// The value as f16, which is exact.
    pub(crate) fn decode_to_f16(self, code: u8) -> u16 {
        let result = FloatResult::rounded(Rounding::NearestEven);
        float_to_float(u64::from(code), self.format(), &F16, result) as u16
    }

    /// A number times a power of two as bf16: `cvt.rn{.scaled::n2::ue8m0}.bf16x2`.
    ///
    /// The manual of PTX 9.1 has these conversions from s2f6 only; that those of version 9.2 from
    /// other formats multiply and round once as well is taken from there.
    pub(crate) fn decode_to_bf16(self, code: u8, scale: u8, result: FloatResult) -> u16 {
        let exact = FloatResult::rounded(Rounding::NearestEven);
        let number = f64::from_bits(float_to_float(u64::from(code), self.format(), &F64, exact));
        // Five significant bits at most: exact.
        let product = number * f64::from(decode_ue8m0(scale));
        float_to_float(product.to_bits(), &F64, &BF16, result) as u16
    }

    /// `cvt.rn.satfinite` from f32.
    pub(crate) fn encode(self, value: f32, relu: bool) -> u8 {
        self.encode_code(u64::from(value.to_bits()), &F32, relu)
    }

    /// `cvt.rn.satfinite` from f16 or bf16.
    pub(crate) fn encode_half(self, source: HalfFormat, bits: u16, relu: bool) -> u8 {
        self.encode_code(u64::from(bits), source.format(), relu)
    }

    fn encode_code(self, code: u64, source: &Format, relu: bool) -> u8 {
        let rounding = Rounding::NearestEven;
        let result = FloatResult { relu, saturate_finite: true, ..FloatResult::rounded(rounding) };
        float_to_float(code, source, self.format(), result) as u8
    }
}

/// The code of a ue8m0 NaN.
const UE8M0_NAN: u8 = 0xFF;

/// A ue8m0 code, a power of two from 2^-127 to 2^127, as f32.
fn decode_ue8m0(code: u8) -> f32 {
    match code {
        // 2^-127 is subnormal.
        0 => f32::from_bits(0x0040_0000),
        UE8M0_NAN => CANONICAL_NAN,
        _ => f32::from_bits(u32::from(code) << 23),
    }
}

/// A ue8m0 code as bf16.
pub(crate) fn decode_ue8m0_to_bf16(code: u8) -> u16 {
    (decode_ue8m0(code).to_bits() >> 16) as u16
}

/// `cvt.{rz,rp}.ue8m0x2.f32`: the power of two next to the magnitude, [`Rounding::Up`] for the
/// one not below it and any other rounding for the one not above it. The sign is ignored, zero and
/// what is too small become 2^-127, and what is too large becomes NaN, or 2^127 with `.satfinite`.
pub(crate) fn encode_ue8m0(value: f32, rounding: Rounding, overflow: Overflow) -> u8 {
    let bits = value.to_bits() & 0x7FFF_FFFF;
    if bits > F32.infinity.unwrap_or(0) as u32 {
        return UE8M0_NAN;
    }
    let exponent = bits >> 23;
    let fraction = bits & 0x007F_FFFF;
    // The smallest code stands for 2^-127, which is the fraction 0x40_0000 below the normals.
    let above = if exponent == 0 { fraction > 0x0040_0000 } else { fraction != 0 };
    let code = exponent + u32::from(above && rounding == Rounding::Up);
    match (code < u32::from(UE8M0_NAN), overflow) {
        (true, _) => code as u8,
        (false, Overflow::Finite) => UE8M0_NAN - 1,
        (false, Overflow::Infinity) => UE8M0_NAN,
    }
}

/// The two words of a `cvt` to tf32 that follow its rounding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Tf32Modifiers {
    /// `.relu`: a negative result becomes +0.
    pub(crate) relu: bool,
    /// `.satfinite`: infinities and what is too large become the largest number.
    pub(crate) saturate_finite: bool,
}

/// `cvt.{rn,rz,rna}.tf32.f32`: an f32 whose lower 13 bits are zero, or the canonical NaN.
pub(crate) fn encode_tf32(value: f32, rounding: Rounding, modifiers: Tf32Modifiers) -> u32 {
    if value.is_nan() {
        return CANONICAL_NAN.to_bits();
    }
    let Tf32Modifiers { relu, saturate_finite } = modifiers;
    let result = FloatResult { relu, saturate_finite, ..FloatResult::rounded(rounding) };
    (float_to_float(u64::from(value.to_bits()), &F32, &TF32, result) as u32) << 13
}
