//! Stochastic rounding against arithmetic on bits and in `f64`, and small numbers times powers of
//! two.

use super::Random;
use crate::numeric::convert::{FloatResult, float_to_float};
use crate::numeric::format::{
    BF16, E2M1, E2M3, E3M2, E4M3, E5M2, F16, F32, Format, Number, Overflow,
};
use crate::numeric::small::SmallFormat;
use crate::numeric::{RandomBits, Rounding};

/// A format as its definition says: bias, bits of fraction, largest finite code.
const FORMATS: [(&Format, i32, i32, u64); 6] = [
    (&E4M3, 7, 3, 0x7E),
    (&E5M2, 15, 2, 0x7B),
    (&E2M1, 1, 1, 7),
    (&E2M3, 1, 3, 31),
    (&E3M2, 3, 2, 31),
    (&F16, 15, 10, 0x7BFF),
];

fn rounded(value: f32, format: &Format, bits: u32, width: u32, saturate_finite: bool) -> u64 {
    let rounding = Rounding::Stochastic(RandomBits { bits, width });
    let result = FloatResult { saturate_finite, ..FloatResult::rounded(rounding) };
    float_to_float(u64::from(value.to_bits()), &F32, format, result)
}

/// The magnitude's code, which may lie beyond the largest.
fn expected(value: f64, bias: i32, fraction_bits: i32, bits: u32, width: i32) -> u64 {
    let exponent =
        if value == 0.0 { 1 - bias } else { (value.log2().floor() as i32).max(1 - bias) };
    let units = value * 2f64.powi(fraction_bits - exponent);
    let rest = ((units - units.floor()) * 2f64.powi(width)).floor() as u64;
    let up = rest + u64::from(bits) >= 1 << width;
    let steps = (exponent + bias - 1) as u64;
    (steps << fraction_bits) + units.floor() as u64 + u64::from(up)
}

#[test]
fn random_bits_carry_exactly_where_they_reach_the_next_code() {
    for (format, bias, fraction_bits, largest) in FORMATS {
        let width = if format == &F16 { 13 } else { 16 };
        let all = 1u32 << width;
        let step = if format == &F16 { 37 } else { 1 };
        for code in (0..=largest).step_by(step).chain([largest]) {
            let steps = ((code >> fraction_bits) as i32 - 1).max(0);
            let unit = 2f64.powi(steps + 1 - bias - fraction_bits);
            let implicit = if code >> fraction_bits > 0 { 1 << fraction_bits } else { 0 };
            let units = (code & ((1 << fraction_bits) - 1)) + implicit;
            for part in [0, 1, all / 3, all / 2, all - 1] {
                let value = (units as f64 + f64::from(part) / f64::from(all)) * unit;
                // Bits below those that meet random ones do not count.
                for value in [value as f32, value as f32 * (1.0 + 2f32.powi(-22))] {
                    for bits in [0, all - 1 - part, all - part, all - 1] {
                        let bits = bits.min(all - 1);
                        let found = rounded(value, format, bits, width, true);
                        let right =
                            expected(f64::from(value), bias, fraction_bits, bits, width as i32);
                        assert_eq!(found, right.min(largest), "{value:e} {bits:#x} {format:?}");
                        let negative = rounded(-value, format, bits, width, true);
                        assert_eq!(negative, found | format.sign_bit());
                    }
                }
            }
        }
        for (value, code) in [(f32::INFINITY, largest), (f32::MAX, largest), (1e-44, 0)] {
            assert_eq!(rounded(value, format, 0, width, true), code, "{value:e} {format:?}");
        }
        assert_eq!(rounded(f32::NAN, format, 0, width, true), format.canonical_nan);
    }
}

#[test]
fn bf16_is_an_addition_of_integers() {
    let mut random = Random(30);
    for _ in 0..200_000 {
        let value = random.single();
        let bits = random.next() as u32 & 0xFFFF;
        let found = rounded(value, &BF16, bits, 16, false);
        if value.is_nan() {
            assert_eq!(found, 0x7FFF);
            continue;
        }
        let carried = if value.is_infinite() { value.to_bits() } else { value.to_bits() + bits };
        assert_eq!(found, u64::from(carried >> 16), "{value:e} {bits:#x}");
    }
    assert_eq!(rounded(f32::MAX, &BF16, 0xFFFF, 16, true), 0x7F7F);
    assert_eq!(rounded(65_519.0, &F16, 0x1FFF, 13, false), 0x7C00);
    assert_eq!(rounded(65_519.0, &F16, 0, 13, false), 0x7BFF);
}

/// 257 loses five bits, the lowest of which is set, to more random ones.
#[test]
fn fewer_bits_are_cut_off_than_there_are_random_ones() {
    for (bits, code) in [(0xF800, 0x79), (0xF7FF, 0x78), (0, 0x78), (0xFFFF, 0x79)] {
        let rounding = Rounding::Stochastic(RandomBits { bits, width: 16 });
        let found = E4M3.round(Number::integer(false, 257), rounding, Overflow::Finite);
        assert_eq!(found, code, "{bits:#x}");
    }
}

/// The mean over all random bits is the number.
#[test]
fn every_number_is_kept_on_average() {
    for (value, below) in [(1.0625f32, 0x38), (1.093_75, 0x38), (0.002, 1), (300.0, 0x79)] {
        let codes = (0..1 << 16).map(|bits| rounded(value, &E4M3, bits, 16, true));
        let ups = codes.filter(|code| *code == below + 1).count() as f64 / 65_536.0;
        let ends = [below, below + 1].map(|code| {
            let half = SmallFormat::E4m3.decode_to_f16(code as u8);
            f64::from(crate::numeric::half::HalfFormat::F16.decode(half))
        });
        let mean = ends[0] + ups * (ends[1] - ends[0]);
        assert!((mean - f64::from(value)).abs() < (ends[1] - ends[0]) / 60_000.0, "{value} {mean}");
    }
}

#[test]
fn small_numbers_times_every_power_of_two() {
    use SmallFormat::{E2m1, E2m3, E3m2, E4m3, E5m2};
    let formats = [E4m3, E5m2, E2m1, E2m3, E3m2].into_iter().zip(FORMATS);
    for (small, (format, bias, fraction_bits, largest)) in formats {
        for code in 0..=largest {
            let steps = ((code >> fraction_bits) as i32 - 1).max(0);
            let implicit = if code >> fraction_bits > 0 { 1 << fraction_bits } else { 0 };
            let units = (code & ((1 << fraction_bits) - 1)) + implicit;
            let value = units as f64 * 2f64.powi(steps + 1 - bias - fraction_bits);
            for scale in 0..255 {
                let product = value * 2f64.powi(scale - 127);
                // Units of the last place of bf16, which has eight significant bits.
                let exponent = if product == 0.0 { -126 } else { product.log2().floor() as i32 };
                let unit = 2f64.powi(exponent.max(-126) - 7);
                let right = (product / unit).round_ties_even() * unit;
                for finite in [false, true] {
                    let plain = FloatResult::rounded(Rounding::NearestEven);
                    let result = FloatResult { saturate_finite: finite, ..plain };
                    let beyond = if finite { 0x7F7F } else { 0x7F80 };
                    let right = (right as f32).to_bits() >> 16;
                    let right = if right == 0x7F80 { beyond } else { right };
                    let found = small.decode_to_bf16(code as u8, scale as u8, result);
                    assert_eq!(u32::from(found), right, "{code:#x} {scale} {small:?}");
                    let negative = code as u8 | format.sign_bit() as u8;
                    let found = small.decode_to_bf16(negative, scale as u8, result);
                    assert_eq!(u32::from(found), right | 0x8000);
                    let relu = FloatResult { relu: true, ..result };
                    assert_eq!(small.decode_to_bf16(negative, scale as u8, relu), 0);
                }
            }
            let plain = FloatResult::rounded(Rounding::NearestEven);
            assert_eq!(small.decode_to_bf16(code as u8, 255, plain), 0x7FFF);
        }
    }
    let finite =
        FloatResult { saturate_finite: true, ..FloatResult::rounded(Rounding::NearestEven) };
    assert_eq!(E5m2.decode_to_bf16(0xFC, 127, finite), 0xFF7F);
    assert_eq!(E4m3.decode_to_bf16(0xFF, 127, finite), 0x7FFF);
}
