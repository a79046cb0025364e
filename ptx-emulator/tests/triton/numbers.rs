//! Numbers of the kernels' types: random ones, and what their bits mean.

/// A generator with a 64-bit state that is advanced by a constant and scrambled.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ bits >> 31
    }
}

/// The type of a matrix's elements.
#[derive(Clone, Copy)]
pub enum Element {
    /// FP8 with 4 bits of exponent and 3 of mantissa.
    E4m3,
    /// IEEE half precision.
    Half,
    /// bfloat16.
    Brain,
    /// IEEE single precision of which tensor cores read all that is there: 10 bits of mantissa.
    Tensor,
    /// IEEE single precision.
    Single,
}

impl Element {
    /// Bits of the exponent, bits of the mantissa.
    fn widths(self) -> (u32, u32) {
        match self {
            Self::E4m3 => (4, 3),
            Self::Half => (5, 10),
            Self::Brain => (8, 7),
            Self::Tensor | Self::Single => (8, 23),
        }
    }

    /// Bytes of an element.
    pub fn bytes(self) -> usize {
        let (exponent, mantissa) = self.widths();
        (1 + exponent + mantissa) as usize / 8
    }

    /// By how much a rounded number may differ, relative to it.
    pub fn rounding(self) -> f64 {
        // A little more than half a unit, because what is rounded is not exact either.
        0.51 * 2_f64.powi(-(self.widths().1 as i32))
    }

    /// The bits of a random number between 1/32 and 4 in absolute value.
    pub fn random(self, random: &mut Random) -> u32 {
        let (exponent, mantissa) = self.widths();
        let bits = random.next();
        let bias = (1 << (exponent - 1)) - 1;
        let power = bias - 5 + (bits >> 32) as u32 % 7;
        let sign = (bits >> 63) as u32;
        let fraction = bits as u32 & ((1 << mantissa) - 1);
        let kept = if matches!(self, Self::Tensor) { !0x1FFF } else { !0 };
        (sign << exponent | power) << mantissa | fraction & kept
    }

    /// The value of an element's bytes.
    pub fn value(self, bytes: &[u8]) -> f64 {
        let (exponent, mantissa) = self.widths();
        let bits = bytes.iter().rev().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        let power = (bits >> mantissa & ((1 << exponent) - 1)) as i32;
        let fraction = bits & ((1 << mantissa) - 1);
        let bias = (1 << (exponent - 1)) - 1;
        let largest = power == (1 << exponent) - 1;
        let magnitude = match (power, fraction) {
            // E4M3 has no infinities, and one NaN of each sign.
            (_, 7) if largest && matches!(self, Self::E4m3) => f64::NAN,
            (_, 0) if largest && !matches!(self, Self::E4m3) => f64::INFINITY,
            _ if largest && !matches!(self, Self::E4m3) => f64::NAN,
            (0, _) => f64::from(fraction) * 2_f64.powi(1 - bias - mantissa as i32),
            _ => f64::from(fraction + (1 << mantissa)) * 2_f64.powi(power - bias - mantissa as i32),
        };
        if bits >> (exponent + mantissa) == 1 { -magnitude } else { magnitude }
    }
}

#[test]
fn values_of_bits() {
    let cases: [(Element, u32, f64); 12] = [
        (Element::E4m3, 0x38, 1.0),
        (Element::E4m3, 0xFE, -448.0),
        (Element::E4m3, 0x01, 1.0 / 512.0),
        (Element::Half, 0x3C01, 1.0 + 1.0 / 1024.0),
        (Element::Half, 0x7BFF, 65504.0),
        (Element::Half, 0x8001, -1.0 / 16_777_216.0),
        (Element::Half, 0x7C00, f64::INFINITY),
        (Element::Brain, 0x3F80, 1.0),
        (Element::Brain, 0xC049, -3.140625),
        (Element::Single, 0x3DCC_CCCD, 0.1_f32 as f64),
        (Element::Single, 1, f32::from_bits(1) as f64),
        (Element::Single, 0x8000_0000, 0.0),
    ];
    for (element, bits, value) in cases {
        assert_eq!(element.value(&bits.to_le_bytes()[..element.bytes()]), value, "{bits:#x}");
    }
    assert!(Element::E4m3.value(&[0xFF]).is_nan());
    assert!(Element::Half.value(&[0xFF, 0xFF]).is_nan());
}
