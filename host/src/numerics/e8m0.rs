//! Exponents of blocks.

use std::fmt;

/// E8M0: a power of two, `2^(bits − 127)`, from 2⁻¹²⁷ to 2¹²⁷; `0xff` is NaN. It has neither a sign
/// nor a zero.
///
/// ```
/// use grouped_linear::numerics::E8m0;
/// assert_eq!(E8m0::from_f32(1.0), E8m0(127));
/// assert_eq!(E8m0::from_f32(1.25).to_f32(), 2.0); // rounded up
/// assert_eq!(E8m0(130).reciprocal(), 0.125);
/// ```
#[repr(transparent)]
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, bytemuck::Pod, bytemuck::Zeroable)]
pub struct E8m0(pub u8);

impl E8m0 {
    /// The largest value, 2¹²⁷.
    pub const MAX: f32 = f32::from_bits(254 << 23);

    const NAN: u8 = 0xff;

    /// The smallest power of two that is not less than the magnitude of `value`. Zero gives the
    /// smallest one, what lies beyond the largest gives that, and NaN gives NaN.
    pub const fn from_f32(value: f32) -> Self {
        let magnitude = value.to_bits() & 0x7fff_ffff;
        let (exponent, mantissa) = ((magnitude >> 23) as u8, magnitude & 0x7f_ffff);
        match exponent {
            255 if mantissa != 0 => Self(Self::NAN),
            254 | 255 => Self(254),
            // 2⁻¹²⁷ is half of the smallest normal number.
            0 => Self((mantissa > 0x40_0000) as u8),
            _ => Self(exponent + (mantissa != 0) as u8),
        }
    }

    /// The value, exactly; 2⁻¹²⁷ is a subnormal FP32.
    pub const fn to_f32(self) -> f32 {
        match self.0 {
            Self::NAN => f32::NAN,
            0 => f32::from_bits(0x40_0000),
            bits => f32::from_bits((bits as u32) << 23),
        }
    }

    /// One divided by the value, exactly: by what the elements of a block are multiplied.
    pub const fn reciprocal(self) -> f32 {
        match self.0 {
            Self::NAN => f32::NAN,
            bits => Self(254 - bits).to_f32(),
        }
    }
}

impl fmt::Debug for E8m0 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "E8m0({:#04x} = {:e})", self.0, self.to_f32())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::oracle;

    /// The smallest code whose value is not less.
    fn search(value: f32) -> u8 {
        let magnitude = f64::from(value).abs();
        if magnitude.is_nan() {
            return 0xff;
        }
        (0..254).find(|&code| 2f64.powi(i32::from(code) - 127) >= magnitude).unwrap_or(254)
    }

    #[test]
    fn every_code_is_a_power_of_two() {
        for bits in 0..255u8 {
            let want = 2f64.powi(i32::from(bits) - 127);
            assert_eq!(f64::from(E8m0(bits).to_f32()), want, "{bits}");
            assert_eq!(f64::from(E8m0(bits).reciprocal()), 1.0 / want, "{bits}");
            assert_eq!(E8m0::from_f32(E8m0(bits).to_f32()).0, bits);
        }
        assert!(E8m0(255).to_f32().is_nan() && E8m0(255).reciprocal().is_nan());
        assert_eq!(E8m0(254).to_f32(), E8m0::MAX);
    }

    #[test]
    fn every_rounding_boundary() {
        for bits in 0..255u8 {
            let value = E8m0(bits).to_f32();
            for value in [value.next_down(), value, value.next_up(), -value.next_up()] {
                assert_eq!(E8m0::from_f32(value).0, search(value), "{value:e}");
            }
        }
        for value in [0.0, -0.0, f32::MAX, f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            assert_eq!(E8m0::from_f32(value).0, search(value), "{value:e}");
        }
    }

    #[test]
    fn agrees_with_a_search_on_many_values() {
        for value in oracle::many_values() {
            assert_eq!(E8m0::from_f32(value).0, search(value), "{value:e}");
        }
    }
}
