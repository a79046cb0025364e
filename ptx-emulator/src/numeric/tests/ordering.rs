//! Comparisons, minima and maxima.

use std::num::FpCategory;

use super::Random;
use crate::numeric::compare::Property;
use crate::numeric::half::HalfFormat;
use crate::numeric::minmax::{Extremum, MinMaxModifiers, double, half, single};

#[test]
fn properties() {
    use FpCategory::{Infinite, Nan, Normal, Subnormal, Zero};
    let table = [
        (Property::Finite, [false, false, true, true, true]),
        (Property::Infinite, [false, true, false, false, false]),
        (Property::Number, [false, true, true, true, true]),
        (Property::NotANumber, [true, false, false, false, false]),
        (Property::Normal, [false, false, true, false, true]),
        (Property::Subnormal, [false, false, false, true, false]),
    ];
    for (property, expected) in table {
        assert_eq!([Nan, Infinite, Zero, Subnormal, Normal].map(|c| property.of(c)), expected);
    }
}

const PLAIN: MinMaxModifiers =
    MinMaxModifiers { flush: false, propagate_nan: false, xor_sign: false };

#[test]
fn minima_and_maxima() {
    use Extremum::{Maximum, Minimum};
    let propagate = MinMaxModifiers { propagate_nan: true, ..PLAIN };
    let flush = MinMaxModifiers { flush: true, ..PLAIN };
    let xor = MinMaxModifiers { xor_sign: true, ..PLAIN };
    let nan = f32::from_bits(0xFFC0_1234);
    let subnormal = f32::from_bits(0x8000_0001);
    let cases = [
        (Minimum, 0.0, -0.0, PLAIN, 0x8000_0000),
        (Minimum, -0.0, 0.0, PLAIN, 0x8000_0000),
        (Maximum, 0.0, -0.0, PLAIN, 0),
        (Maximum, -0.0, 0.0, PLAIN, 0),
        (Minimum, nan, 1.0, PLAIN, 0x3F80_0000),
        (Maximum, 1.0, nan, PLAIN, 0x3F80_0000),
        (Minimum, 1.0, nan, PLAIN, 0x3F80_0000),
        (Maximum, nan, 1.0, PLAIN, 0x3F80_0000),
        (Maximum, nan, nan, PLAIN, 0x7FFF_FFFF),
        (Minimum, 1.0, nan, propagate, 0x7FFF_FFFF),
        (Maximum, nan, 1.0, propagate, 0x7FFF_FFFF),
        (Minimum, subnormal, 1.0, flush, 0x8000_0000),
        (Minimum, subnormal, 1.0, PLAIN, 0x8000_0001),
        (Maximum, f32::NEG_INFINITY, -1.0, PLAIN, 0xBF80_0000),
        (Minimum, -3.0, 2.0, xor, 0xC000_0000),
        (Maximum, -3.0, -2.0, xor, 0x4040_0000),
        (Maximum, -3.0, nan, xor, 0x4040_0000),
        (Minimum, nan, nan, xor, 0x7FFF_FFFF),
    ];
    for (case, (extremum, a, b, modifiers, expected)) in cases.into_iter().enumerate() {
        assert_eq!(single(extremum, a, b, modifiers).to_bits(), expected, "case {case}");
    }
    assert_eq!(double(Minimum, 0.0, -0.0).to_bits(), 1 << 63);
    assert_eq!(double(Maximum, f64::NAN, -5.0), -5.0);
    assert_eq!(half(HalfFormat::F16, Minimum, 0x0000, 0x8000, PLAIN), 0x8000);
    assert_eq!(half(HalfFormat::F16, Maximum, 0x7C01, 0xBC00, PLAIN), 0xBC00);
    assert_eq!(half(HalfFormat::F16, Maximum, 0x7C01, 0xBC00, propagate), 0x7FFF);
    assert_eq!(half(HalfFormat::Bf16, Minimum, 0x3F80, 0xC000, PLAIN), 0xC000);
    assert_eq!(half(HalfFormat::Bf16, Minimum, 0x3F80, 0xC000, xor), 0xBF80);
}

#[test]
fn minima_of_numbers_agree_with_rust() {
    let mut random = Random(13);
    for _ in 0..100_000 {
        let (a, b) = (random.single(), random.single());
        if a.is_nan() || b.is_nan() || a == b {
            continue;
        }
        assert_eq!(single(Extremum::Minimum, a, b, PLAIN), a.min(b));
        assert_eq!(single(Extremum::Maximum, a, b, PLAIN), a.max(b));
        let (a, b) = (random.double(), random.double());
        if !a.is_nan() && !b.is_nan() {
            assert_eq!(double(Extremum::Minimum, a, b), a.min(b));
        }
    }
}
