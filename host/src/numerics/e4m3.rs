//! FP8 with four exponent bits.

use std::fmt;

use super::minifloat;

const BIAS: i32 = 7;
const MANTISSA_BITS: u32 = 3;
const NAN: u8 = 0x7f;
const SIGN: u8 = 0x80;

/// FP8 E4M3: a sign, four exponent bits with bias 7, three mantissa bits. It has no infinities; its
/// only NaNs are `0x7f` and `0xff`, so that its range reaches 448.
///
/// Two values compare equal where their bytes are the same.
///
/// ```
/// use grouped_linear::numerics::E4m3;
/// assert_eq!(E4m3::from_f32(1.0), E4m3(0x38));
/// assert_eq!(E4m3::from_f32(1.0625).to_f32(), 1.0); // a tie goes to the even code
/// assert_eq!(E4m3::from_f32(-1e9).to_f32(), -448.0); // saturates
/// assert_eq!(E4m3::from_f32(f32::NAN), E4m3(0x7f));
/// ```
#[repr(transparent)]
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, bytemuck::Pod, bytemuck::Zeroable)]
pub struct E4m3(pub u8);

impl E4m3 {
    /// The largest finite value.
    pub const MAX: f32 = 448.0;

    const MAX_CODE: u8 = 0x7e;
    const VALUES: [f32; 256] = {
        let mut values = [0.0; 256];
        let mut bits = 0;
        while bits < 256 {
            let code = bits as u8 & !SIGN;
            let magnitude = match code {
                NAN => f32::NAN,
                _ => minifloat::widen::<BIAS, MANTISSA_BITS>(code),
            };
            values[bits] = if bits as u8 & SIGN == 0 { magnitude } else { -magnitude };
            bits += 1;
        }
        values
    };

    /// The nearest value, ties to the even code; ±448 for everything beyond, infinities included.
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

impl fmt::Debug for E4m3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "E4m3({:#04x} = {})", self.0, self.to_f32())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::oracle;

    fn check() -> oracle::Check {
        oracle::Check {
            code: |value| E4m3::from_f32(value).0,
            value: |code| E4m3(code).to_f32(),
            largest: 0x7e,
            nan: Some(0x7f),
            sign: 0x80,
        }
    }

    #[test]
    fn every_code_has_the_value_of_the_definition() {
        for bits in 0..=u8::MAX {
            let (exponent, mantissa) = (i32::from(bits >> 3 & 15), f64::from(bits & 7));
            let magnitude = match (exponent, bits & 7) {
                (15, 7) => f64::NAN,
                (0, _) => mantissa / 8.0 * 2f64.powi(-6),
                _ => (1.0 + mantissa / 8.0) * 2f64.powi(exponent - 7),
            };
            let want = if bits < 0x80 { magnitude } else { -magnitude };
            let got = f64::from(E4m3(bits).to_f32());
            assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{bits:#x}");
        }
        assert_eq!(E4m3(0x7e).to_f32(), E4m3::MAX);
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
            let other = float8::F8E4M3::from_f32(value);
            // Beyond the range the other does not saturate.
            if value.abs() <= 448.0 {
                assert_eq!(E4m3::from_f32(value).0, other.to_bits(), "{value:e}");
            }
        }
    }
}
