//! Every code of the small formats, and rounding to them, against tables built by multiplying.

use super::Random;
use crate::numeric::RandomBits;
use crate::numeric::Rounding::{self, Down, NearestAway, NearestEven, Up, Zero};
use crate::numeric::convert::{FloatResult, float_to_float};
use crate::numeric::format::{
    BF16, E2M1, E2M3, E3M2, E4M3, E5M2, F16, F32, F64, Format, Overflow, TF32,
};
use crate::numeric::half::HalfFormat;
use crate::numeric::small::{
    SmallFormat, Tf32Modifiers, decode_ue8m0_to_bf16, encode_tf32, encode_ue8m0,
};

const ROUNDINGS: [Rounding; 7] = [
    NearestEven,
    Zero,
    Down,
    Up,
    NearestAway,
    Rounding::Stochastic(RandomBits { bits: 0x8000, width: 16 }),
    Rounding::Stochastic(RandomBits { bits: 0x0FFF, width: 13 }),
];

/// A format as its definition says: widths of exponent and fraction, bias, number of finite
/// magnitudes, and the codes of infinity and NaN.
struct Oracle {
    format: &'static Format,
    fraction_bits: u32,
    exponent_bits: u32,
    bias: i32,
    finite: u64,
    infinity: Option<u64>,
    nan: u64,
}

const fn oracle(
    format: &'static Format,
    exponent_bits: u32,
    fraction_bits: u32,
    bias: i32,
    finite: u64,
    infinity: Option<u64>,
    nan: u64,
) -> Oracle {
    Oracle { format, fraction_bits, exponent_bits, bias, finite, infinity, nan }
}

const ORACLES: [Oracle; 8] = [
    oracle(&E4M3, 4, 3, 7, 0x7F, None, 0x7F),
    oracle(&E5M2, 5, 2, 15, 0x7C, Some(0x7C), 0x7F),
    oracle(&E2M1, 2, 1, 1, 8, None, 7),
    oracle(&E2M3, 2, 3, 1, 32, None, 31),
    oracle(&E3M2, 3, 2, 3, 32, None, 31),
    oracle(&F16, 5, 10, 15, 0x7C00, Some(0x7C00), 0x7FFF),
    oracle(&BF16, 8, 7, 127, 0x7F80, Some(0x7F80), 0x7FFF),
    oracle(&TF32, 8, 10, 127, 0x3_FC00, Some(0x3_FC00), 0x3_FFFF),
];

impl Oracle {
    fn sign_bit(&self) -> u64 {
        1 << (self.exponent_bits + self.fraction_bits)
    }

    /// The value of a magnitude, also of the one after the last finite one.
    fn value(&self, magnitude: u64) -> f64 {
        let field = (magnitude >> self.fraction_bits) as i32;
        let fraction = (magnitude & ((1 << self.fraction_bits) - 1)) as f64;
        let one = (1u64 << self.fraction_bits) as f64;
        let significand = if field == 0 { fraction / one } else { 1.0 + fraction / one };
        significand * 2f64.powi(field.max(1) - self.bias)
    }

    /// Rounds by looking for the two neighbours.
    fn encode(&self, table: &[f64], value: f64, rounding: Rounding, overflow: Overflow) -> u64 {
        if value.is_nan() {
            return self.nan;
        }
        let negative = value.is_sign_negative();
        let magnitude = value.abs();
        let below = table.partition_point(|&entry| entry <= magnitude) as u64 - 1;
        let exact = below < self.finite && table[below as usize] == magnitude;
        let up = match rounding {
            _ if exact || below >= self.finite => false,
            Zero => false,
            Down => negative,
            Up => !negative,
            NearestEven | NearestAway => {
                let lower = table[below as usize];
                let (left, right) = (magnitude - lower, table[below as usize + 1] - magnitude);
                let tie = rounding == NearestAway || below & 1 == 1;
                left > right || (left == right && tie)
            }
            Rounding::Stochastic(random) => {
                let (lower, upper) = (table[below as usize], table[below as usize + 1]);
                let all = 2f64.powi(random.width as i32);
                let rest = ((magnitude - lower) / (upper - lower) * all).floor();
                rest + f64::from(random.bits) >= all
            }
        };
        let towards_zero = match rounding {
            Zero => true,
            Down => !negative,
            Up => negative,
            _ => false,
        };
        let code = below + u64::from(up);
        let sign = if negative { self.sign_bit() } else { 0 };
        if code < self.finite {
            return sign | code;
        }
        let largest = self.finite - 1;
        if overflow == Overflow::Finite || (magnitude.is_finite() && towards_zero) {
            return sign | largest;
        }
        sign | self.infinity.unwrap_or(self.nan)
    }
}

#[test]
fn codes_decode_to_their_definition() {
    for oracle in &ORACLES {
        for code in 0..oracle.sign_bit() * 2 {
            let magnitude = code & (oracle.sign_bit() - 1);
            let exact = FloatResult::rounded(Zero);
            let single = float_to_float(code, oracle.format, &F32, exact) as u32;
            let double = f64::from_bits(float_to_float(code, oracle.format, &F64, exact));
            let found = f64::from(f32::from_bits(single));
            if magnitude >= oracle.finite {
                if Some(magnitude) == oracle.infinity {
                    assert_eq!(found.abs(), f64::INFINITY);
                    assert_eq!(found, double);
                } else {
                    assert_eq!(single, 0x7FFF_FFFF);
                    assert!(double.is_nan());
                }
                continue;
            }
            let sign = if code == magnitude { 1.0 } else { -1.0 };
            let expected = (sign * oracle.value(magnitude)).to_bits();
            assert_eq!(found.to_bits(), expected, "{code:#x} of {:?}", oracle.format);
            assert_eq!(double.to_bits(), expected);
        }
    }
}

#[test]
fn rounding_finds_the_neighbour_that_the_search_finds() {
    for oracle in &ORACLES {
        let table: Vec<f64> = (0..=oracle.finite).map(|code| oracle.value(code)).collect();
        let mut values = vec![f64::INFINITY, f64::NAN, f64::MAX, f64::MIN_POSITIVE, 5e-324];
        let step = if oracle.finite > 0x8000 { 7 } else { 1 };
        for pair in table.windows(2).step_by(step).chain(table.windows(2).rev().take(3)) {
            let middle = (pair[0] + pair[1]) / 2.0;
            for value in [pair[0], middle] {
                values.extend([value, value.next_up(), value.next_down().max(0.0)]);
            }
        }
        for value in values.iter().flat_map(|&value| [value, -value]) {
            for rounding in ROUNDINGS {
                for overflow in [Overflow::Infinity, Overflow::Finite] {
                    let number = F64.unpack(value.to_bits());
                    let found = oracle.format.round(number, rounding, overflow);
                    let expected = oracle.encode(&table, value, rounding, overflow);
                    let format = oracle.format;
                    assert_eq!(found, expected, "{value:e} {rounding:?} {overflow:?} {format:?}");
                }
            }
        }
    }
}

#[test]
fn all_halves_encode_to_the_small_formats() {
    use SmallFormat::{E2m1, E2m3, E3m2, E4m3, E5m2};
    for (small, oracle) in [E4m3, E5m2, E2m1, E2m3, E3m2].into_iter().zip(&ORACLES) {
        let table: Vec<f64> = (0..=oracle.finite).map(|code| oracle.value(code)).collect();
        for bits in 0..=u16::MAX {
            for half in [HalfFormat::F16, HalfFormat::Bf16] {
                let value = f64::from(half.decode(bits));
                let expected = oracle.encode(&table, value, NearestEven, Overflow::Finite) as u8;
                assert_eq!(small.encode_half(half, bits, false), expected, "{bits:#x} {small:?}");
                assert_eq!(small.encode(value as f32, false), expected);
                let positive =
                    if value.is_sign_negative() && !value.is_nan() { 0 } else { expected };
                assert_eq!(small.encode_half(half, bits, true), positive);
            }
        }
        for code in 0..=(oracle.sign_bit() * 2 - 1) as u8 {
            let half = small.decode_to_f16(code);
            let single = HalfFormat::F16.decode(half);
            let magnitude = u64::from(code) & (oracle.sign_bit() - 1);
            if magnitude < oracle.finite {
                assert_eq!(f64::from(single.abs()), oracle.value(magnitude), "{code:#x} {small:?}");
                assert_eq!(small.encode(single, false), code);
            } else if Some(magnitude) == oracle.infinity {
                assert!(single.is_infinite(), "{code:#x} {small:?}");
            } else {
                assert_eq!(half, 0x7FFF, "{code:#x} {small:?}");
            }
        }
    }
}

#[test]
fn small_formats_at_their_edges() {
    use SmallFormat::{E2m1, E2m3, E3m2, E4m3, E5m2};
    let cases = [
        (E4m3, 448.0, 0x7E),
        (E4m3, 464.0, 0x7E),
        (E4m3, f32::INFINITY, 0x7E),
        (E4m3, f32::NEG_INFINITY, 0xFE),
        (E4m3, f32::NAN, 0x7F),
        (E4m3, -0.0, 0x80),
        (E4m3, 0.001_953_125, 0x01),
        (E4m3, 0.000_976_562_5, 0x00),
        (E4m3, 1.0, 0x38),
        (E5m2, 57344.0, 0x7B),
        (E5m2, 1e9, 0x7B),
        (E5m2, f32::INFINITY, 0x7B),
        (E5m2, -f32::NAN, 0x7F),
        (E2m1, 6.0, 0x7),
        (E2m1, -100.0, 0xF),
        (E2m1, 0.25, 0x0),
        (E2m1, 0.75, 0x2),
        (E2m1, 2.5, 0x4),
        (E2m1, f32::NAN, 0x7),
        (E2m3, 7.5, 0x1F),
        (E2m3, -f32::NAN, 0x1F),
        (E3m2, 28.0, 0x1F),
        (E3m2, -1000.0, 0x3F),
    ];
    for (format, value, code) in cases {
        assert_eq!(format.encode(value, false), code, "{value} {format:?}");
    }
}

#[test]
fn scales_are_powers_of_two() {
    for code in 0..255u8 {
        let value = 2f64.powi(i32::from(code) - 127);
        let brain = f32::from_bits(u32::from(decode_ue8m0_to_bf16(code)) << 16);
        assert_eq!(f64::from(brain), value);
        let single = value as f32;
        for rounding in [Zero, Up] {
            assert_eq!(encode_ue8m0(single, rounding, Overflow::Finite), code);
            assert_eq!(encode_ue8m0(-single, rounding, Overflow::Infinity), code);
        }
        assert_eq!(encode_ue8m0(single.next_up(), Zero, Overflow::Finite), code);
        assert_eq!(encode_ue8m0(single.next_up(), Up, Overflow::Finite), 254.min(code + 1));
    }
    assert_eq!(decode_ue8m0_to_bf16(255), 0x7FFF);
    for rounding in [Zero, Up] {
        assert_eq!(encode_ue8m0(f32::NAN, rounding, Overflow::Finite), 255);
        assert_eq!(encode_ue8m0(f32::INFINITY, rounding, Overflow::Finite), 254);
        assert_eq!(encode_ue8m0(f32::INFINITY, rounding, Overflow::Infinity), 255);
        assert_eq!(encode_ue8m0(0.0, rounding, Overflow::Finite), 0);
        assert_eq!(encode_ue8m0(1e-45, rounding, Overflow::Finite), 0);
    }
    assert_eq!(encode_ue8m0(f32::MAX, Zero, Overflow::Infinity), 254);
    assert_eq!(encode_ue8m0(f32::MAX, Up, Overflow::Infinity), 255);
}

#[test]
fn tf32_rounds_as_integers_do() {
    let mut random = Random(3);
    let plain = Tf32Modifiers::default();
    for _ in 0..200_000 {
        let value = random.single();
        let bits = value.to_bits();
        if value.is_nan() {
            assert_eq!(encode_tf32(value, NearestAway, plain), 0x7FFF_FFFF);
            continue;
        }
        let even = 0xFFF + ((bits >> 13) & 1);
        let expected = [(NearestAway, 0x1000), (NearestEven, even), (Zero, 0)];
        for (rounding, increment) in expected {
            let code = encode_tf32(value, rounding, plain);
            let wanted = if value.is_infinite() { bits } else { (bits + increment) & 0xFFFF_E000 };
            assert_eq!(code, wanted, "{value:e} {rounding:?}");
        }
    }
    let finite = Tf32Modifiers { saturate_finite: true, relu: false };
    assert_eq!(encode_tf32(f32::INFINITY, NearestEven, finite), 0x7F7F_E000);
    assert_eq!(encode_tf32(-f32::MAX, NearestAway, finite), 0xFF7F_E000);
    let relu = Tf32Modifiers { saturate_finite: false, relu: true };
    assert_eq!(encode_tf32(-1.0, Zero, relu), 0);
    assert_eq!(encode_tf32(1.5, Zero, relu), 0x3FC0_0000);
}
