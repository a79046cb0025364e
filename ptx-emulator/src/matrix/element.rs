//! The element types of matrix operands and what their bits mean.
//!
//! All of them but single bits are exact in `f32`: operands are decoded from rows of 32 bytes,
//! which is the K of one instruction for every type.

/// The bytes of K in one instruction, for every type.
pub(super) const ROW_BYTES: usize = 32;

/// The type of the elements of A or B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ElementType {
    /// `.bf16`.
    Bf16,
    /// `.f16`.
    F16,
    /// `.tf32`: 32 bits, of which the low 13 do not count.
    Tf32,
    /// `.e4m3`: no infinities, one NaN of each sign.
    E4m3,
    /// `.e5m2`.
    E5m2,
    /// `.s8`.
    S8,
    /// `.u8`.
    U8,
    /// `.b1`, multiplied by `and`, summed by `popc`.
    B1,
}

/// The type of the accumulator, that is of C and D.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccumulatorType {
    /// `.f32`, one a register.
    F32,
    /// `.f16`, two a register.
    F16,
    /// `.s32`, one a register.
    S32,
}

impl ElementType {
    /// How many elements 32 bytes hold.
    pub(crate) fn per_row(self) -> u32 {
        match self {
            Self::Tf32 => 8,
            Self::Bf16 | Self::F16 => 16,
            Self::E4m3 | Self::E5m2 | Self::S8 | Self::U8 => 32,
            Self::B1 => 256,
        }
    }

    /// Whether it is one of the two 8-bit floating-point types.
    pub(crate) fn is_fp8(self) -> bool {
        matches!(self, Self::E4m3 | Self::E5m2)
    }

    /// Whether its elements are integers or bits.
    pub(crate) fn is_integer(self) -> bool {
        matches!(self, Self::S8 | Self::U8 | Self::B1)
    }

    /// The smallest power of two that a floating-point element of 8 bits has as its scale.
    pub(super) fn smallest_scale(self) -> f32 {
        f32::from_bits(if self == Self::E5m2 { (127 - 14) << 23 } else { (127 - 6) << 23 })
    }

    /// Decodes a row; `K` is `per_row`. Bits have no value of their own and decode to zeros.
    pub(super) fn decode<const K: usize>(self, row: &[u8; ROW_BYTES]) -> [f32; K] {
        let mut values = [0.0; K];
        match self {
            Self::Bf16 => halves(row, &mut values, |bits| f32::from_bits(bits << 16)),
            Self::F16 => halves(row, &mut values, f16_value),
            Self::Tf32 => {
                for (value, word) in values.iter_mut().zip(words(row)) {
                    *value = f32::from_bits(word & !0x1FFF);
                }
            }
            Self::E4m3 => bytes(row, &mut values, |byte| E4M3[usize::from(byte)]),
            Self::E5m2 => bytes(row, &mut values, |byte| E5M2[usize::from(byte)]),
            Self::S8 => bytes(row, &mut values, |byte| f32::from(byte as i8)),
            Self::U8 => bytes(row, &mut values, f32::from),
            Self::B1 => {}
        }
        values
    }
}

/// The eight little-endian words of a row.
pub(super) fn words(row: &[u8; ROW_BYTES]) -> impl Iterator<Item = u32> + '_ {
    row.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes))
}

fn halves(row: &[u8; ROW_BYTES], values: &mut [f32], value: impl Fn(u32) -> f32) {
    for (slot, bytes) in values.iter_mut().zip(row.as_chunks::<2>().0) {
        *slot = value(u32::from(u16::from_le_bytes(*bytes)));
    }
}

fn bytes(row: &[u8; ROW_BYTES], values: &mut [f32], value: impl Fn(u8) -> f32) {
    for (slot, byte) in values.iter_mut().zip(row) {
        *slot = value(*byte);
    }
}

/// The value of the low 16 bits as `f16`.
///
/// The exponent is moved by a multiplication, which also normalises the subnormals.
pub(super) fn f16_value(bits: u32) -> f32 {
    let magnitude = (bits & 0x7FFF) << 13;
    let scaled = f32::from_bits(magnitude) * f32::from_bits((127 + 112) << 23);
    let finite = scaled.to_bits();
    let special = magnitude | 0x7F80_0000;
    let magnitude = if bits & 0x7C00 == 0x7C00 { special } else { finite };
    f32::from_bits(magnitude | (bits & 0x8000) << 16)
}

/// The nearest `f16`, ties to even; NaN is the canonical 0x7FFF.
pub(super) fn f16_nearest(value: f64) -> u32 {
    if value.is_nan() {
        return 0x7FFF;
    }
    let sign = (value.to_bits() >> 48) as u32 & 0x8000;
    // Beyond 2^16 everything is infinite, and the additions below stay clear of infinities.
    let magnitude = value.abs().min(65_536.0);
    let exponent = (magnitude.to_bits() >> 52).max(1023 - 14);
    // A number this large has the unit in the last place of the result: adding it rounds.
    let rounder = f64::from_bits((exponent + 42) << 52);
    let rounded = ((magnitude + rounder) - rounder) as f32;
    let code = if rounded < f32::from_bits((127 - 14) << 23) {
        // Subnormals count units of 2^-24; the product is a small whole number.
        (rounded * 16_777_216.0) as u32
    } else {
        (rounded.to_bits() - (112 << 23)) >> 13
    };
    sign | code
}

const E4M3: [f32; 256] = table(4, 3);
const E5M2: [f32; 256] = table(5, 2);

/// The values of all codes of an 8-bit format.
const fn table(exponent_bits: u32, mantissa_bits: u32) -> [f32; 256] {
    let mut values = [0.0; 256];
    let mut code = 0;
    while code < 256 {
        values[code as usize] = small_value(code, exponent_bits, mantissa_bits);
        code += 1;
    }
    values
}

const fn small_value(code: u32, exponent_bits: u32, mantissa_bits: u32) -> f32 {
    let bias = (1 << (exponent_bits - 1)) - 1;
    let sign = if code & 0x80 != 0 { -1.0 } else { 1.0 };
    let exponent = (code & 0x7F) >> mantissa_bits;
    let mantissa = code & ((1 << mantissa_bits) - 1);
    let infinities = mantissa_bits == 2;
    if infinities && exponent == 31 {
        return if mantissa == 0 { sign * f32::INFINITY } else { f32::NAN };
    }
    if !infinities && code & 0x7F == 0x7F {
        return f32::NAN;
    }
    let (whole, exponent) =
        if exponent == 0 { (mantissa, 1) } else { (mantissa | 1 << mantissa_bits, exponent) };
    // whole * 2^(exponent - bias - mantissa bits)
    sign * whole as f32 * f32::from_bits((127 + exponent - bias - mantissa_bits) << 23)
}
