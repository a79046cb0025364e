//! The conversions that kernels run most, for 32 lanes at once and without branches, so that the
//! compiler makes vector code of them.

use super::integer::extend_words;
use crate::execute::registers::Words;
use crate::numeric::convert::IntegerType;
use crate::numeric::single::CANONICAL_NAN;

const MAGNITUDE: u32 = 0x7FFF_FFFF;
const SINGLE_INFINITY: i32 = 0x7F80_0000;
const HALF_NAN: u32 = 0x7FFF;

#[inline(always)]
fn is_nan(bits: u32) -> bool {
    (bits & MAGNITUDE) as i32 > SINGLE_INFINITY
}

/// `.relu` of a 16-bit code made from the f32 `bits`: zero for negative numbers, not for NaN.
#[inline(always)]
fn relu_of(code: u32, bits: u32, nan: bool) -> u32 {
    let negative = ((bits as i32) >> 31) as u32;
    if nan { code } else { code & !negative }
}

/// `cvt.rn{.relu}.bf16.f32` of one lane: the lower half is rounded away by an addition that carries
/// into the upper one, into the exponent as well; NaN becomes 0x7FFF.
#[inline(always)]
fn bf16(bits: u32, relu: bool) -> u32 {
    let nan = is_nan(bits);
    let rounded = bits.wrapping_add(0x7FFF + ((bits >> 16) & 1)) >> 16;
    let code = if nan { HALF_NAN } else { rounded };
    if relu { relu_of(code, bits, nan) } else { code }
}

/// `cvt.rn{.relu}.f16.f32` of one lane.
#[inline(always)]
fn f16(bits: u32, relu: bool) -> u32 {
    let magnitude = bits & MAGNITUDE;
    // The exponent is counted from the other bias, and an addition rounds to the nearest even
    // number. From 65520 on that carries into the exponent of infinity.
    let odd = (magnitude >> 13) & 1;
    let normal = magnitude.wrapping_sub((127 - 15) << 23).wrapping_add(0xFFF + odd) >> 13;
    // Below the smallest normal number: one half has 2^-24, f16's unit, as its own last place, so
    // the addition rounds and leaves the code in the low bits.
    let shifted = (f32::from_bits(magnitude) + 0.5).to_bits();
    let subnormal = shifted.wrapping_sub(0.5f32.to_bits());
    let code = if (magnitude as i32) < (127 - 14) << 23 { subnormal } else { normal };
    // 2^16 and more, infinity among them.
    let code = if magnitude as i32 >= (127 + 16) << 23 { 0x7C00 } else { code };
    let nan = magnitude as i32 > SINGLE_INFINITY;
    let code = if nan { HALF_NAN } else { code | (bits >> 16 & 0x8000) };
    if relu { relu_of(code, bits, nan) } else { code }
}

/// `cvt.rn{.relu}.bf16.f32`.
#[inline]
pub(super) fn bf16_from_single(values: &Words, relu: bool) -> Words {
    if relu { values.map(|bits| bf16(bits, true)) } else { values.map(|bits| bf16(bits, false)) }
}

/// `cvt.rn{.relu}.f16.f32`.
#[inline]
pub(super) fn f16_from_single(values: &Words, relu: bool) -> Words {
    if relu { values.map(|bits| f16(bits, true)) } else { values.map(|bits| f16(bits, false)) }
}

/// `cvt.f32.bf16`: the canonical NaN for any NaN.
#[inline]
pub(super) fn single_from_bf16(values: &Words) -> Words {
    values.map(|code| {
        let bits = code << 16;
        if is_nan(bits) { CANONICAL_NAN.to_bits() } else { bits }
    })
}

/// `cvt.f32.f16`: multiplying by 2^112 moves the exponent to the other bias and normalises
/// subnormal numbers.
#[inline]
pub(super) fn single_from_f16(values: &Words) -> Words {
    let scale = f32::from_bits((127 + 127 - 15) << 23);
    values.map(|code| {
        let magnitude = code & 0x7FFF;
        let sign = (code & 0x8000) << 16;
        let finite = (f32::from_bits(magnitude << 13) * scale).to_bits();
        let number = if magnitude as i32 == 0x7C00 { SINGLE_INFINITY as u32 } else { finite };
        if magnitude as i32 > 0x7C00 { CANONICAL_NAN.to_bits() } else { sign | number }
    })
}

/// `cvt.rn.f32` from an integer of up to 32 bits.
#[inline]
pub(super) fn single_from_integer(source: IntegerType, values: &Words) -> Words {
    let values = extend_words(values, source.bits, source.signed);
    if source.signed {
        return values.map(|value| (value as i32 as f32).to_bits());
    }
    values.map(|value| (value as f32).to_bits())
}

/// `cvt.rzi.{s32,u32}.f32`: clamped to the type, NaN becomes zero.
#[inline]
pub(super) fn integer_from_single(signed: bool, values: &Words) -> Words {
    if signed {
        return values.map(|bits| f32::from_bits(bits) as i32 as u32);
    }
    values.map(|bits| f32::from_bits(bits) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::Rounding;
    use crate::numeric::convert::{
        FloatResult, float_to_float, float_to_integer, integer_to_float,
    };
    use crate::numeric::format::{BF16, F16, F32, Format};

    /// Every pattern of the upper 20 bits with low bits at and around what rounds up.
    fn singles() -> impl Iterator<Item = u32> {
        let low = [0u32, 1, 0x7FF, 0x800, 0x801, 0xFFF];
        (0..1u32 << 20).flat_map(move |high| low.map(|low| high << 12 | low))
    }

    fn rows(values: impl Iterator<Item = u32>, mut check: impl FnMut(&Words)) {
        let mut row = [0; 32];
        let mut filled = 0;
        for value in values {
            row[filled % 32] = value;
            filled += 1;
            if filled % 32 == 0 {
                check(&row);
            }
        }
        check(&row);
    }

    fn narrowing(format: &Format, convert: impl Fn(&Words, bool) -> Words) {
        for relu in [false, true] {
            let result = FloatResult { relu, ..FloatResult::rounded(Rounding::NearestEven) };
            rows(singles(), |row| {
                let found = convert(row, relu);
                for (found, bits) in found.iter().zip(row) {
                    let wanted = float_to_float(u64::from(*bits), &F32, format, result);
                    assert_eq!(u64::from(*found), wanted, "{bits:#x} relu {relu}");
                }
            });
        }
    }

    #[test]
    fn singles_become_halves() {
        narrowing(&F16, f16_from_single);
        narrowing(&BF16, bf16_from_single);
    }

    #[test]
    fn every_half_becomes_a_single() {
        for (format, convert) in [
            (&F16, single_from_f16 as fn(&Words) -> Words),
            (&BF16, single_from_bf16 as fn(&Words) -> Words),
        ] {
            // What lies above the 16 bits does not matter.
            rows((0..=0xFFFF).map(|code| code | 0xABCD_0000), |row| {
                for (found, code) in convert(row).iter().zip(row) {
                    let result = FloatResult::rounded(Rounding::NearestEven);
                    let wanted = float_to_float(u64::from(*code as u16), format, &F32, result);
                    assert_eq!(u64::from(*found), wanted, "{code:#x}");
                }
            });
        }
    }

    #[test]
    fn integers_and_singles() {
        for (bits, signed) in
            [(8, true), (8, false), (16, true), (16, false), (32, true), (32, false)]
        {
            let source = IntegerType { bits, signed };
            let result = FloatResult::rounded(Rounding::NearestEven);
            rows(singles().step_by(7), |row| {
                for (found, value) in single_from_integer(source, row).iter().zip(row) {
                    let wanted = integer_to_float(u64::from(*value), source, &F32, result);
                    assert_eq!(u64::from(*found), wanted, "{value:#x} {source:?}");
                }
                if bits < 32 {
                    return;
                }
                for (found, code) in integer_from_single(signed, row).iter().zip(row) {
                    let code = u64::from(*code);
                    let wanted = float_to_integer(code, &F32, source, Rounding::Zero, false);
                    assert_eq!(u64::from(*found), wanted, "{code:#x} {source:?}");
                }
            });
        }
    }
}
