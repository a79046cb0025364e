//! FP4.

use std::fmt;

use super::minifloat;

const BIAS: i32 = 1;
const MANTISSA_BITS: u32 = 1;
const SIGN: u8 = 8;

/// FP4 E2M1, in the low four bits: a sign, two exponent bits with bias 1, one mantissa bit. Its
/// magnitudes are 0, 0.5, 1, 1.5, 2, 3, 4 and 6; it has neither infinities nor NaNs.
///
/// Two codes share a byte in memory; the one with the lower index is in the low four bits.
///
/// ```
/// use grouped_linear::numerics::E2m1;
/// assert_eq!(E2m1::from_f32(-2.4), E2m1(0xc));
/// assert_eq!(E2m1::from_f32(5.0).to_f32(), 4.0); // a tie goes to the even code
/// assert_eq!(E2m1::from_f32(100.0).to_f32(), 6.0); // saturates
/// assert_eq!(E2m1::pack(E2m1(0x1), E2m1(0xf)), 0xf1);
/// ```
#[repr(transparent)]
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, bytemuck::Pod, bytemuck::Zeroable)]
pub struct E2m1(pub u8);

impl E2m1 {
    /// The largest value.
    pub const MAX: f32 = 6.0;

    const MAX_CODE: u8 = 7;
    const VALUES: [f32; 16] =
        [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

    /// The nearest value, ties to the even code; ±6 for everything beyond, infinities included. The
    /// boundaries are 0.25, 0.75, 1.25, 1.75, 2.5, 3.5 and 5. NaN gives +6, as the conversions of
    /// GPUs do; the sign of a zero is kept.
    pub const fn from_f32(value: f32) -> Self {
        let bits = value.to_bits();
        let magnitude = bits & 0x7fff_ffff;
        if minifloat::is_nan(magnitude) {
            return Self(Self::MAX_CODE);
        }
        let code = minifloat::round::<BIAS, MANTISSA_BITS>(magnitude, Self::MAX_CODE);
        Self(code | sign(bits))
    }

    /// One of the two neighbours, at random, so that the mean is the value. Let `p` be the distance
    /// to the neighbour nearer zero, in units of 2⁻¹⁶ of the step: the neighbour further from zero
    /// is taken if `p + random + ½ ≥ 2¹⁶`. Values that the format has, and those beyond ±6, do not
    /// depend on `random`. NaN gives +6.
    ///
    /// ```
    /// use grouped_linear::numerics::E2m1;
    /// let is_further = |random: &u16| E2m1::from_f32_stochastic(3.25, *random).to_f32() == 4.0;
    /// let further = (0..=u16::MAX).filter(is_further);
    /// assert_eq!(further.count(), 1 << 14); // a quarter of the way from 3 to 4
    /// ```
    pub const fn from_f32_stochastic(value: f32, random: u16) -> Self {
        let bits = value.to_bits();
        let magnitude = f32::from_bits(bits & 0x7fff_ffff);
        if magnitude.is_nan() {
            return Self(Self::MAX_CODE);
        }
        // Each binade has two codes, and `first` is the code of its lower end; below 1 the steps
        // are those of the binade from 1 to 2. Dividing by a power of two is exact.
        let (steps, first) = if magnitude < 2.0 {
            (magnitude * 2.0, 0)
        } else if magnitude < 4.0 {
            (magnitude, 2)
        } else if magnitude < 6.0 {
            (magnitude * 0.5, 4)
        } else {
            return Self(Self::MAX_CODE | sign(bits));
        };
        let whole = steps as u8;
        let fraction = steps - whole as f32;
        // What is missing, at twice the size, is a whole number.
        let further = fraction * 131_072.0 >= (2 * (u16::MAX - random) as u32 + 1) as f32;
        Self((first + whole + further as u8) | sign(bits))
    }

    /// The value, exactly. The upper four bits do not count.
    pub const fn to_f32(self) -> f32 {
        Self::VALUES[(self.0 & 15) as usize]
    }

    /// Two codes in a byte: the one with the lower index, then the one with the higher.
    pub const fn pack(low: Self, high: Self) -> u8 {
        low.0 & 15 | high.0 << 4
    }

    /// The two codes of a byte: the one with the lower index, then the one with the higher.
    pub const fn unpack(byte: u8) -> [Self; 2] {
        [Self(byte & 15), Self(byte >> 4)]
    }
}

/// The sign of an FP32 number, where this format has it.
const fn sign(bits: u32) -> u8 {
    (bits >> 28) as u8 & SIGN
}

impl fmt::Debug for E2m1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "E2m1({:#03x} = {})", self.0, self.to_f32())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::oracle;

    fn check() -> oracle::Check {
        oracle::Check {
            code: |value| E2m1::from_f32(value).0,
            value: |code| E2m1(code).to_f32(),
            largest: 7,
            nan: None,
            sign: 8,
        }
    }

    #[test]
    fn every_code_has_the_value_of_the_definition() {
        for bits in 0..16u8 {
            let (exponent, mantissa) = (i32::from(bits >> 1 & 3), f32::from(bits & 1));
            let magnitude = match exponent {
                0 => mantissa / 2.0,
                _ => (1.0 + mantissa / 2.0) * 2f32.powi(exponent - 1),
            };
            let want = if bits < 8 { magnitude } else { -magnitude };
            assert_eq!(E2m1(bits).to_f32().to_bits(), want.to_bits(), "{bits}");
            assert_eq!(E2m1::unpack(E2m1::pack(E2m1(bits), E2m1(9))), [E2m1(bits), E2m1(9)]);
        }
    }

    #[test]
    fn the_boundaries_of_the_format() {
        let boundaries = [0.25f32, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0];
        for (code, boundary) in (0u8..).zip(boundaries) {
            assert_eq!(E2m1::from_f32(boundary.next_down()).0, code);
            assert_eq!(E2m1::from_f32(boundary).0, code + code % 2, "{boundary}");
            assert_eq!(E2m1::from_f32(boundary.next_up()).0, code + 1);
            assert_eq!(E2m1::from_f32(-boundary.next_up()).0, code + 9);
        }
        assert_eq!(E2m1::from_f32(f32::NAN).0, 7);
        assert_eq!(E2m1::from_f32(-f32::NAN).0, 7);
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
    fn stochastic_rounding_takes_a_neighbour_and_has_the_right_mean() {
        let step = 1.0 / 64.0;
        for index in -420..=420i16 {
            let value = f32::from(index) * step;
            let sum: f64 = (0..=u16::MAX)
                .map(|random| f64::from(E2m1::from_f32_stochastic(value, random).to_f32()))
                .sum();
            let clamped = f64::from(value.clamp(-6.0, 6.0));
            assert_eq!(sum / 65536.0, clamped, "{value}");
            for random in [0, 1, 0x7fff, 0x8000, u16::MAX] {
                let code = E2m1::from_f32_stochastic(value, random);
                assert!((f64::from(code.to_f32()) - clamped).abs() < 2.0, "{value} {code:?}");
                assert_eq!(code.to_f32().is_sign_negative(), value.is_sign_negative(), "{value}");
            }
        }
    }

    #[test]
    fn stochastic_rounding_keeps_what_the_format_has() {
        for bits in 0..16u8 {
            for random in [0, 1, 0x7fff, 0x8000, u16::MAX] {
                assert_eq!(E2m1::from_f32_stochastic(E2m1(bits).to_f32(), random), E2m1(bits));
            }
        }
        // A half of 2⁻¹⁶ of a step is enough for the largest number, and no less.
        let little = 1.0 / 131_072.0;
        for (start, step, end) in [(0.5, 0.5, 1.0), (2.0, 1.0, 3.0), (4.0, 2.0, 6.0f32)] {
            let value = start + little * step;
            let further = |value: f32, random| E2m1::from_f32_stochastic(value, random).to_f32();
            assert_eq!(further(value, u16::MAX), end);
            assert_eq!(further(value.next_down(), u16::MAX), start);
            assert_eq!(further(value, u16::MAX - 1), start);
        }
        assert_eq!(E2m1::from_f32_stochastic(f32::NEG_INFINITY, 0).to_f32(), -6.0);
        assert_eq!(E2m1::from_f32_stochastic(f32::NAN, 0).to_f32(), 6.0);
        assert_eq!(E2m1::from_f32_stochastic(1.0f32.next_down(), u16::MAX).to_f32(), 1.0);
        assert_eq!(E2m1::from_f32_stochastic(1.0f32.next_up(), 0).to_f32(), 1.0);
    }
}
