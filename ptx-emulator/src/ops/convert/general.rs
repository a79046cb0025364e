//! Conversions of one lane after the other.

use super::integer::extend;
use super::pair::Scale;
use crate::execute::registers::{Doubles, lanes};
use crate::numeric::Rounding;
use crate::numeric::convert::{
    FloatResult, IntegerType, float_to_float, float_to_integer, float_to_integral, integer_to_float,
};
use crate::numeric::format::Format;
use crate::numeric::half::HalfFormat;
use crate::numeric::small::{SmallFormat, Tf32Modifiers, decode_ue8m0_to_bf16, encode_tf32};

/// A conversion.
#[derive(Clone, Debug)]
pub(crate) enum General {
    IntegerToFloat {
        from: IntegerType,
        to: &'static Format,
        result: FloatResult,
    },
    FloatToInteger {
        from: &'static Format,
        to: IntegerType,
        rounding: Rounding,
        flush: bool,
        /// Bits of the result's register, to which its sign is extended.
        register_bits: u32,
    },
    FloatToFloat {
        from: &'static Format,
        to: &'static Format,
        result: FloatResult,
    },
    /// `.rni` and the like between equal types.
    Integral {
        format: &'static Format,
        result: FloatResult,
    },
    Tf32 {
        rounding: Rounding,
        modifiers: Tf32Modifiers,
    },
    /// Two numbers of 16 bits in a word to two of eight bits or fewer.
    SmallPair {
        to: SmallFormat,
        from: HalfFormat,
        relu: bool,
    },
    /// Two numbers of eight bits or fewer to two of f16 in a word.
    HalfPair {
        from: SmallFormat,
        relu: bool,
    },
    /// Two numbers of bf16 in a word to two powers of two.
    ScalePair(Scale),
    /// Two powers of two to two numbers of bf16 in a word.
    BrainPair,
}

impl General {
    /// The results of all lanes in `mask`, as wide as the register.
    pub(super) fn compute(&self, values: &Doubles, mask: u32) -> Doubles {
        let mut results = [0; 32];
        for lane in lanes(mask) {
            results[lane] = self.one(values[lane]);
        }
        results
    }

    fn one(&self, value: u64) -> u64 {
        match *self {
            Self::IntegerToFloat { from, to, result } => integer_to_float(value, from, to, result),
            Self::FloatToInteger { from, to, rounding, flush, register_bits } => {
                let result = float_to_integer(low(value, from), from, to, rounding, flush);
                let register = IntegerType { bits: register_bits, signed: false };
                extend(extend(result, to), register)
            }
            Self::FloatToFloat { from, to, result } => {
                float_to_float(low(value, from), from, to, result)
            }
            Self::Integral { format, result } => {
                float_to_integral(low(value, format), format, result)
            }
            Self::Tf32 { rounding, modifiers } => {
                u64::from(encode_tf32(f32::from_bits(value as u32), rounding, modifiers))
            }
            Self::SmallPair { to, from, relu } => {
                let one = |code: u64| u64::from(to.encode_half(from, code as u16, relu));
                one(value) | one(value >> 16) << to.pair_bits()
            }
            Self::HalfPair { from, relu } => {
                let one = |code: u64| u64::from(half_of(from, code as u8, relu));
                let bits = from.pair_bits();
                let low = value & ((1 << bits) - 1);
                one(low) | one(value >> bits) << 16
            }
            Self::ScalePair(scale) => {
                let one = |code: u64| u64::from(scale.of(HalfFormat::Bf16.decode(code as u16)));
                one(value) | one(value >> 16) << 8
            }
            Self::BrainPair => {
                let one = |code: u64| u64::from(decode_ue8m0_to_bf16(code as u8));
                one(value) | one(value >> 8) << 16
            }
        }
    }
}

/// The bits of a source that its type has.
fn low(value: u64, format: &Format) -> u64 {
    value & (format.sign_bit() | (format.sign_bit() - 1))
}

fn half_of(format: SmallFormat, code: u8, relu: bool) -> u16 {
    let half = format.decode_to_f16(code);
    let negative = half & 0x8000 != 0 && half & 0x7FFF <= 0x7C00;
    if relu && negative { 0 } else { half }
}
