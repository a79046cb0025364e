//! Numbers of a description, and the types they have in memory.

use std::fmt;

use half::{bf16, f16};
use serde::Deserialize;

/// The type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Type {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F16,
    Bf16,
    F32,
    F64,
    /// FP8 with 4 bits of exponent, without infinities.
    E4m3,
    /// FP8 with 5 bits of exponent.
    E5m2,
}

/// A number as TOML has it. A text is digits, for what TOML's own integers do not hold, or bits in
/// hexadecimal, `0x7FC00000`.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "expected a number, or a text with the bits in hexadecimal")]
pub enum Number {
    Integer(i64),
    Float(f64),
    Text(String),
}

/// An element as a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    Integer(i128),
    Single(f32),
    Double(f64),
}

impl Type {
    /// Bytes of an element.
    pub fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 | Self::E4m3 | Self::E5m2 => 1,
            Self::U16 | Self::I16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// The least and the greatest integer; `None` for floating-point types.
    pub fn bounds(self) -> Option<(i128, i128)> {
        let bits = 8 * self.bytes() as u32;
        match self {
            Self::U8 | Self::U16 | Self::U32 | Self::U64 => Some((0, (1 << bits) - 1)),
            Self::I8 | Self::I16 | Self::I32 | Self::I64 => {
                Some((-(1 << (bits - 1)), (1 << (bits - 1)) - 1))
            }
            _ => None,
        }
    }

    /// The bits of a number; floating-point types round to the nearest, FP8 saturates.
    pub fn encode(self, number: &Number) -> Result<u64, String> {
        match number {
            Number::Integer(value) => self.encode_integer((*value).into()),
            Number::Float(value) => self.encode_float(*value),
            Number::Text(text) => self.encode_text(text),
        }
    }

    fn encode_text(self, text: &str) -> Result<u64, String> {
        if let Some(digits) = text.strip_prefix("0x") {
            let bits = u64::from_str_radix(digits, 16).ok();
            let fits = |bits: &u64| self.bytes() == 8 || bits >> (8 * self.bytes()) == 0;
            return bits.filter(fits).ok_or_else(|| format!("`{text}` is no bits of {self}"));
        }
        let value = text.parse::<i128>().map_err(|_| format!("`{text}` is no number"))?;
        self.encode_integer(value)
    }

    /// The bits of an integer.
    pub fn encode_integer(self, value: i128) -> Result<u64, String> {
        match self.bounds() {
            Some((low, high)) if (low..=high).contains(&value) => Ok(self.low_bits(value as u64)),
            Some(_) => Err(format!("{value} is no {self}")),
            None => self.encode_float(value as f64),
        }
    }

    /// The bits of a number; integers take whole numbers only.
    pub fn encode_float(self, value: f64) -> Result<u64, String> {
        Ok(match self {
            Self::F16 => f16::from_f64(value).to_bits().into(),
            Self::Bf16 => bf16::from_f64(value).to_bits().into(),
            Self::F32 => (value as f32).to_bits().into(),
            Self::F64 => value.to_bits(),
            Self::E4m3 | Self::E5m2 => self.nearest_fp8(value),
            _ if value.fract() == 0.0 => return self.encode_integer(value as i128),
            _ => return Err(format!("{value} is no {self}")),
        })
    }

    fn low_bits(self, bits: u64) -> u64 {
        if self.bytes() == 8 { bits } else { bits & ((1 << (8 * self.bytes())) - 1) }
    }

    /// The code whose value is nearest; of two the even one.
    fn nearest_fp8(self, value: f64) -> u64 {
        let sign = if value.is_sign_negative() { 0x80 } else { 0 };
        if value.is_nan() {
            return sign | 0x7F;
        }
        if value.is_infinite() && self == Self::E5m2 {
            return sign | 0x7C;
        }
        // Beyond all finite codes, yet near enough that their distances differ.
        let magnitude = value.abs().min(1e6);
        let distance = |code: u64| (self.fp8(code) - magnitude).abs();
        let finite = (0..0x80u64).filter(|code| self.fp8(*code).is_finite());
        let nearest = finite.min_by(|one, other| {
            distance(*one).total_cmp(&distance(*other)).then((one % 2).cmp(&(other % 2)))
        });
        sign | nearest.unwrap_or(0)
    }

    /// The value of an FP8 code.
    fn fp8(self, code: u64) -> f64 {
        let (fraction_bits, bias) = if self == Self::E4m3 { (3, 7) } else { (2, 15) };
        let magnitude = code & 0x7F;
        let exponent = (magnitude >> fraction_bits) as i32;
        let fraction = (magnitude & ((1 << fraction_bits) - 1)) as f64;
        let unit = 2f64.powi(exponent.max(1) - bias - fraction_bits);
        let implicit = if exponent == 0 { 0.0 } else { f64::from(1 << fraction_bits) };
        let value = match (self, magnitude) {
            (Self::E4m3, 0x7F) => f64::NAN,
            (Self::E5m2, 0x7C) => f64::INFINITY,
            (Self::E5m2, 0x7D..) => f64::NAN,
            _ => (implicit + fraction) * unit,
        };
        if code & 0x80 == 0 { value } else { -value }
    }

    /// The number whose bits these are, lowest byte first.
    pub fn decode(self, bytes: &[u8]) -> Value {
        let bits = bytes.iter().rev().fold(0, |bits: u64, byte| bits << 8 | u64::from(*byte));
        match self {
            Self::F16 => Value::Single(f16::from_bits(bits as u16).to_f32()),
            Self::Bf16 => Value::Single(bf16::from_bits(bits as u16).to_f32()),
            Self::F32 => Value::Single(f32::from_bits(bits as u32)),
            Self::F64 => Value::Double(f64::from_bits(bits)),
            Self::E4m3 | Self::E5m2 => Value::Single(self.fp8(bits) as f32),
            Self::I8 => Value::Integer((bits as i8).into()),
            Self::I16 => Value::Integer((bits as i16).into()),
            Self::I32 => Value::Integer((bits as i32).into()),
            Self::I64 => Value::Integer((bits as i64).into()),
            Self::U8 | Self::U16 | Self::U32 | Self::U64 => Value::Integer(bits.into()),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}

impl Value {
    fn as_f64(self) -> f64 {
        match self {
            Self::Integer(value) => value as f64,
            Self::Single(value) => value.into(),
            Self::Double(value) => value,
        }
    }

    /// Whether it is as expected: equal, both NaN, or within the tolerance.
    pub fn agrees(self, expected: Self, absolute: f64, relative: f64) -> bool {
        if let (Self::Integer(own), Self::Integer(expected)) = (self, expected)
            && own == expected
        {
            return true;
        }
        let (own, wanted) = (self.as_f64(), expected.as_f64());
        let integers = matches!(self, Self::Integer(_));
        if own.is_nan() || wanted.is_nan() {
            return own.is_nan() && wanted.is_nan();
        }
        if own == wanted && !integers {
            return true;
        }
        let tolerance = absolute + relative * wanted.abs();
        tolerance > 0.0
            && own.is_finite()
            && wanted.is_finite()
            && (own - wanted).abs() <= tolerance
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => value.fmt(f),
            Self::Single(value) => value.fmt(f),
            Self::Double(value) => value.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_bits_of_their_types() {
        use Number::{Float, Integer, Text};
        let text = |text: &str| Text(text.to_owned());
        let table = [
            (Type::U8, Integer(255), Some(0xFF)),
            (Type::U8, Integer(256), None),
            (Type::U8, Integer(-1), None),
            (Type::I8, Integer(-128), Some(0x80)),
            (Type::I32, Float(-2.0), Some(0xFFFF_FFFE)),
            (Type::I32, Float(0.5), None),
            (Type::U64, text("18446744073709551615"), Some(u64::MAX)),
            (Type::U64, text("18446744073709551616"), None),
            (Type::I64, text("0xFFFFFFFFFFFFFFFF"), Some(u64::MAX)),
            (Type::F32, text("0x7FC00000"), Some(0x7FC0_0000)),
            (Type::F16, text("0x10000"), None),
            (Type::F16, Float(1.5), Some(0x3E00)),
            (Type::Bf16, Integer(3), Some(0x4040)),
            (Type::F64, Float(-0.0), Some(1 << 63)),
            (Type::E4m3, Float(448.0), Some(0x7E)),
            (Type::E4m3, Float(1e9), Some(0x7E)),
            (Type::E4m3, Float(f64::INFINITY), Some(0x7E)),
            // Half way between 1 and 1.125: the even one.
            (Type::E4m3, Float(1.0625), Some(0x38)),
            (Type::E4m3, Float(-1.125), Some(0xB9)),
            (Type::E4m3, Float(0.001953125), Some(1)),
            (Type::E5m2, Float(57344.0), Some(0x7B)),
            (Type::E5m2, Float(f64::NEG_INFINITY), Some(0xFC)),
            (Type::E5m2, Float(1.0), Some(0x3C)),
            (Type::E4m3, Float(f64::NAN), Some(0x7F)),
            (Type::F32, text("one"), None),
        ];
        for (own, number, bits) in table {
            assert_eq!(own.encode(&number).ok(), bits, "{number:?} as {own}");
        }
    }

    #[test]
    fn bits_are_the_numbers_of_their_types() {
        let table: &[(Type, &[u8], &str)] = &[
            (Type::I16, &[0xFE, 0xFF], "-2"),
            (Type::U16, &[0xFE, 0xFF], "65534"),
            (Type::F32, &[0xCD, 0xCC, 0xCC, 0x3D], "0.1"),
            (Type::Bf16, &[0x80, 0xBF], "-1"),
            (Type::E4m3, &[0xFE], "-448"),
            (Type::E4m3, &[0xFF], "NaN"),
            (Type::E5m2, &[0x7C], "inf"),
            (Type::E5m2, &[0x01], "0.000015258789"),
        ];
        for (own, bytes, text) in table {
            assert_eq!(own.decode(bytes).to_string(), *text, "{own}");
        }
        for code in 0..=255u8 {
            for own in [Type::E4m3, Type::E5m2] {
                let value = own.fp8(code.into());
                if !value.is_nan() {
                    assert_eq!(own.encode_float(value), Ok(code.into()), "{own} {code:#x}");
                }
            }
        }
    }

    #[test]
    fn tolerances_bound_differences() {
        let (one, nan, infinite) =
            (Value::Single(1.0), Value::Single(f32::NAN), Value::Single(f32::INFINITY));
        let table = [
            (one, one, 0.0, 0.0, true),
            (nan, nan, 0.0, 0.0, true),
            (nan, one, 9.0, 9.0, false),
            (infinite, infinite, 0.0, 0.0, true),
            (infinite, one, 9.0, 9.0, false),
            (one, infinite, 9.0, 9.0, false),
            (Value::Single(1.5), one, 0.5, 0.0, true),
            (Value::Single(1.5), one, 0.49, 0.0, false),
            (Value::Single(3.0), Value::Single(2.0), 0.0, 0.5, true),
            (Value::Integer(1 << 60), Value::Integer((1 << 60) + 1), 0.0, 0.0, false),
            (Value::Integer(7), Value::Integer(8), 1.0, 0.0, true),
            (Value::Single(0.0), Value::Single(-0.0), 0.0, 0.0, true),
        ];
        for (own, expected, absolute, relative, agree) in table {
            assert_eq!(own.agrees(expected, absolute, relative), agree, "{own} for {expected}");
        }
    }
}
