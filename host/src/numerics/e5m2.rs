//! FP8 with five exponent bits.

use std::fmt;

use super::minifloat;

const BIAS: i32 = 15;
const MANTISSA_BITS: u32 = 2;
const INFINITY: u8 = 0x7c;
const NAN: u8 = 0x7f;
const SIGN: u8 = 0x80;

/// FP8 E5M2: a sign, five exponent bits with bias 15, two mantissa bits; binary16 without its last
/// eight bits. It has infinities, which conversions never give.
///
/// Two values compare equal where their bytes are the same.
///
/// ```
/// use grouped_linear::numerics::E5m2;
/// assert_eq!(E5m2::from_f32(1.0), E5m2(0x3c));
/// assert_eq!(E5m2::from_f32(1.125).to_f32(), 1.0); // a tie goes to the even code
/// assert_eq!(E5m2::from_f32(f32::INFINITY).to_f32(), 57344.0); // saturates
/// assert_eq!(E5m2::from_f32(f32::NAN), E5m2(0x7f));
/// ```
#[repr(transparent)]
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, bytemuck::Pod, bytemuck::Zeroable)]
pub struct E5m2(pub u8);

impl E5m2 {
    /// The largest finite value.
    pub const MAX: f32 = 57344.0;

    const MAX_CODE: u8 = 0x7b;
    const VALUES: [f32; 256] = {
        let mut values = [0.0; 256];
        let mut bits = 0;
        while bits < 256 {
            let code = bits as u8 & !SIGN;
            let magnitude = match code {
                INFINITY => f32::INFINITY,
                0x7d..=NAN => f32::NAN,
                _ => minifloat::widen::<BIAS, MANTISSA_BITS>(code),
            };
            values[bits] = if bits as u8 & SIGN == 0 { magnitude } else { -magnitude };
            bits += 1;
        }
        values
    };

    /// The nearest value, ties to the even code; ±57344 for everything beyond, infinities included.
    /// Every NaN gives `0x7f`; the sign of a zero is kept.
    pub const fn from_f32(value: f32) -> Self {
        let bits = value.to_bits();
        let magnitude = bits & 0x7fff_ffff;
        if minifloat::is_nan(magnitude) {
            return Self(NAN);
        }
        let code = minifloat::round::<BIAS, MANTISSA_BITS>(magnitude, Self::MAX_CODE);
        Self(code | (bits >> 24) as u8 & SIGN)
    }

    /// The value, exactly.
    pub const fn to_f32(self) -> f32 {
        Self::VALUES[self.0 as usize]
    }
}

impl fmt::Debug for E5m2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "E5m2({:#04x} = {})", self.0, self.to_f32())
    }
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;
    use crate::numerics::oracle;

    fn check() -> oracle::Check {
        oracle::Check {
            code: |value| E5m2::from_f32(value).0,
            value: |code| E5m2(code).to_f32(),
            largest: 0x7b,
            nan: Some(0x7f),
            sign: 0x80,
        }
    }

    #[test]
    fn every_code_is_the_upper_byte_of_a_binary16() {
        for bits in 0..=u8::MAX {
            let want = f16::from_bits(u16::from(bits) << 8).to_f32();
            let got = E5m2(bits).to_f32();
            assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{bits:#x}");
        }
        assert_eq!(E5m2(0x7b).to_f32(), E5m2::MAX);
    }

    #[test]
    fn every_rounding_boundary() {
        check().boundaries();
    }

    #[test]
    fn agrees_with_a_search_on_many_values() {
        check().many_values();
    }

    #[test]
    fn agrees_with_another_implementation() {
        for value in oracle::many_values() {
            let other = float8::F8E5M2::from_f32(value);
            // Beyond the range the other does not saturate.
            if value.abs() <= 57344.0 {
                assert_eq!(E5m2::from_f32(value).0, other.to_bits(), "{value:e}");
            }
        }
    }
}
