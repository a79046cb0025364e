//! Conversions from and to integers, and among the formats of f32 and f64.

use super::Random;
use crate::numeric::Rounding::{self, Down, NearestAway, NearestEven, Up, Zero};
use crate::numeric::convert::{
    FloatResult, IntegerType, float_to_float, float_to_integer, float_to_integral, integer_to_float,
};
use crate::numeric::format::{BF16, F16, F32, F64, Format};

const fn integer(bits: u32, signed: bool) -> IntegerType {
    IntegerType { bits, signed }
}

fn plain(rounding: Rounding) -> FloatResult {
    FloatResult::rounded(rounding)
}

/// Rust's `as` rounds to nearest even from integers, and saturates towards zero to them.
#[test]
fn integers_agree_with_rust() {
    let mut random = Random(10);
    for _ in 0..200_000 {
        let value = random.next() >> (random.next() % 64);
        let signed = (random.next() as i64 >> (random.next() % 64)) as u64;
        let single = |register, kind| integer_to_float(register, kind, &F32, plain(NearestEven));
        let double = |register, kind| integer_to_float(register, kind, &F64, plain(NearestEven));
        let expect = |value: f32| u64::from(value.to_bits());
        assert_eq!(single(value, integer(64, false)), expect(value as f32));
        assert_eq!(single(signed, integer(64, true)), expect(signed as i64 as f32));
        assert_eq!(single(value, integer(32, false)), expect(value as u32 as f32));
        assert_eq!(single(value, integer(32, true)), expect(value as i32 as f32));
        assert_eq!(single(value, integer(16, true)), expect(f32::from(value as i16)));
        assert_eq!(single(value, integer(8, true)), expect(f32::from(value as i8)));
        assert_eq!(single(value, integer(8, false)), expect(f32::from(value as u8)));
        assert_eq!(double(value, integer(64, false)), (value as f64).to_bits());
        assert_eq!(double(signed, integer(64, true)), (signed as i64 as f64).to_bits());
        let up =
            f32::from_bits(integer_to_float(value, integer(64, false), &F32, plain(Up)) as u32);
        let down =
            f32::from_bits(integer_to_float(value, integer(64, false), &F32, plain(Down)) as u32);
        assert!(down as u128 <= u128::from(value) && u128::from(value) <= up as u128);
        assert!(down == up || down.next_up() == up);
    }
}

#[test]
fn floats_to_integers_agree_with_rust() {
    let mut random = Random(11);
    for _ in 0..200_000 {
        let magnitude = ((random.next() % 70) as f64 - 4.0).exp2();
        let single = match random.next() & 1 {
            0 => random.single(),
            _ => (random.close_single().fract() as f64 * magnitude) as f32,
        };
        let double = random.double();
        for (rounding, whole) in [
            (Zero, single.trunc()),
            (Down, single.floor()),
            (Up, single.ceil()),
            (NearestEven, single.round_ties_even()),
            (NearestAway, single.round()),
        ] {
            let code = u64::from(single.to_bits());
            let convert = |kind| float_to_integer(code, &F32, kind, rounding, false);
            let found = float_to_integral(code, &F32, plain(rounding));
            if single.is_nan() {
                assert_eq!(found, 0x7FFF_FFFF);
                continue;
            }
            assert_eq!(found, u64::from(whole.to_bits()), "{single:e} {rounding:?}");
            assert_eq!(convert(integer(8, false)), u64::from(whole as u8));
            assert_eq!(convert(integer(8, true)), u64::from(whole as i8 as u8));
            assert_eq!(convert(integer(16, false)), u64::from(whole as u16));
            assert_eq!(convert(integer(16, true)), u64::from(whole as i16 as u16));
            assert_eq!(convert(integer(32, false)), u64::from(whole as u32));
            assert_eq!(convert(integer(32, true)), u64::from(whole as i32 as u32), "{single:e}");
            assert_eq!(convert(integer(64, false)), whole as u64);
            assert_eq!(convert(integer(64, true)), whole as i64 as u64);
        }
        if double.is_nan() {
            continue;
        }
        let code = double.to_bits();
        let convert = |kind, rounding| float_to_integer(code, &F64, kind, rounding, false);
        assert_eq!(convert(integer(64, true), Down), double.floor() as i64 as u64);
        assert_eq!(convert(integer(64, false), Up), double.ceil() as u64);
        assert_eq!(
            convert(integer(32, true), NearestEven),
            u64::from(double.round_ties_even() as i32 as u32)
        );
        assert_eq!(float_to_integral(code, &F64, plain(Zero)), double.trunc().to_bits());
    }
}

#[test]
fn nan_to_integer() {
    let cases = [
        (0x7FC0_0000, &F32, integer(32, true), 0),
        (0x7FC0_0000, &F32, integer(32, false), 0),
        (0x7FC0_0000, &F32, integer(16, true), 0),
        (0x7FC0_0000, &F32, integer(64, true), 1 << 63),
        (0x7FC0_0000, &F32, integer(64, false), 1 << 63),
        (0x7E00, &F16, integer(32, true), 0),
        (0x7E00, &F16, integer(64, false), 1 << 63),
        (0x7FF8_0000_0000_0000, &F64, integer(32, true), 1 << 31),
        (0x7FF8_0000_0000_0000, &F64, integer(32, false), 1 << 31),
        (0x7FF8_0000_0000_0000, &F64, integer(16, true), 1 << 15),
        (0x7FF8_0000_0000_0000, &F64, integer(64, true), 1 << 63),
    ];
    for (code, source, target, expected) in cases {
        assert_eq!(float_to_integer(code, source, target, Zero, false), expected, "{target:?}");
    }
    let subnormal = 0x0000_0001;
    assert_eq!(float_to_integer(subnormal, &F32, integer(32, true), Up, false), 1);
    assert_eq!(float_to_integer(subnormal, &F32, integer(32, true), Up, true), 0);
}

#[test]
fn doubles_to_singles_agree_with_rust() {
    let mut random = Random(12);
    for _ in 0..200_000 {
        let wide = match random.next() % 3 {
            0 => random.double(),
            1 => f64::from(random.single()) * (1.0 + f64::EPSILON * (random.next() % 5) as f64),
            _ => f64::from_bits(
                (random.next() & !0x7FF0_0000_0FFF_FFFF) | (0x369 + random.next() % 0x120) << 52,
            ),
        };
        let near = wide as f32;
        let convert = |rounding| {
            f32::from_bits(float_to_float(wide.to_bits(), &F64, &F32, plain(rounding)) as u32)
        };
        if wide.is_nan() {
            assert_eq!(convert(Down).to_bits(), 0x7FFF_FFFF);
            continue;
        }
        assert_eq!(convert(NearestEven).to_bits(), near.to_bits(), "{wide:e}");
        let below = if f64::from(near) > wide { near.next_down() } else { near };
        let above = if f64::from(near) < wide { near.next_up() } else { near };
        assert_eq!(convert(Down), below, "{wide:e}");
        assert_eq!(convert(Up), above, "{wide:e}");
        assert_eq!(convert(Zero), if wide > 0.0 { below } else { above }, "{wide:e}");
        let back = float_to_float(u64::from(near.to_bits()), &F32, &F64, plain(Zero));
        assert_eq!(back, f64::from(near).to_bits());
    }
}

#[test]
fn modifiers_of_float_results() {
    let base = plain(NearestEven);
    let flush = FloatResult { flush: true, ..base };
    let saturate = FloatResult { saturate: true, ..base };
    let relu = FloatResult { relu: true, ..base };
    let finite = FloatResult { saturate_finite: true, ..base };
    let both = FloatResult { relu: true, saturate_finite: true, ..base };
    let cases: [(u64, &Format, &Format, FloatResult, u64); 22] = [
        (0x0000_0001, &F32, &F64, flush, 0),
        (0x8000_0001, &F32, &F64, flush, 1 << 63),
        (0x0000_0001, &F32, &F64, base, 0x36A0_0000_0000_0000),
        (0x3800_0000_0000_0000, &F64, &F32, flush, 0),
        (0x3800_0000_0000_0000, &F64, &F32, base, 0x0040_0000),
        (0x0001, &F16, &F32, flush, 0x3380_0000),
        (0x4000_0000, &F32, &F32, saturate, 0x3F80_0000),
        (0xC000_0000, &F32, &F32, saturate, 0),
        (0x7FC0_0000, &F32, &F32, saturate, 0),
        (0x7FC0_0000, &F32, &F64, saturate, 0),
        (0x7F80_0000, &F32, &F16, saturate, 0x3C00),
        (0xC000_0000, &F32, &F16, relu, 0),
        (0x8000_0000, &F32, &F16, relu, 0),
        (0xFFC0_0000, &F32, &BF16, relu, 0x7FFF),
        (0x7F7F_FFFF, &F32, &BF16, base, 0x7F80),
        (0x7F7F_FFFF, &F32, &BF16, finite, 0x7F7F),
        (0xFF80_0000, &F32, &F16, finite, 0xFBFF),
        (0xFF80_0000, &F32, &F16, both, 0),
        (0x477F_F000, &F32, &F16, base, 0x7C00),
        (0x477F_EFFF, &F32, &F16, base, 0x7BFF),
        (0x3300_0000, &F32, &F16, base, 0),
        (0xFFA0_0001, &F32, &F64, base, 0xFFFC_0000_2000_0000),
    ];
    for (case, (code, source, target, result, expected)) in cases.into_iter().enumerate() {
        let found = float_to_float(code, source, target, result);
        assert_eq!(found, expected, "case {case}: {found:#x}");
    }
    let negative = integer_to_float(u64::MAX, integer(64, true), &F16, relu);
    assert_eq!(negative, 0);
    assert_eq!(integer_to_float(65520, integer(32, false), &F16, base), 0x7C00);
    assert_eq!(integer_to_float(65519, integer(32, false), &F16, base), 0x7BFF);
    assert_eq!(integer_to_float(65520, integer(32, false), &F16, plain(Zero)), 0x7BFF);
    assert_eq!(float_to_integral(0xBE80_0000, &F32, base), 0x8000_0000);
}
