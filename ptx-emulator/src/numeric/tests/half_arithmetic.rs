//! f16 and bf16 against exact integers.

use super::Random;
use crate::numeric::format::{F64, Overflow};
use crate::numeric::half::HalfFormat::{Bf16, F16};
use crate::numeric::half::{HalfFormat, absolute, add, fused, multiply, negate, subtract};
use crate::numeric::{Modifiers, Rounding};

/// Significand and power of two of a finite code.
fn parts(format: HalfFormat, bits: u16) -> (i128, i32) {
    let (fraction_bits, bias) = match format {
        F16 => (10, 15),
        Bf16 => (7, 127),
    };
    let field = i32::from((bits & 0x7FFF) >> fraction_bits);
    let fraction = i128::from(bits & ((1 << fraction_bits) - 1));
    let significand = if field == 0 { fraction } else { fraction | (1 << fraction_bits) };
    let signed = if bits & 0x8000 != 0 { -significand } else { significand };
    (signed, field.max(1) - bias - fraction_bits)
}

fn is_finite(format: HalfFormat, bits: u16) -> bool {
    (bits & 0x7FFF) < if format == F16 { 0x7C00 } else { 0x7F80 }
}

/// The value of a code in units of two to the `unit`, which must not lose bits.
fn scaled(format: HalfFormat, bits: u16, unit: i32) -> Option<i128> {
    let (significand, exponent) = parts(format, bits);
    if significand == 0 {
        return Some(0);
    }
    let shift = u32::try_from(exponent - unit).ok()?;
    (shift < 118).then(|| significand << shift)
}

/// Whether `bits` is the nearest to `exact` of itself and its neighbours, even when halfway.
fn is_nearest(format: HalfFormat, bits: u16, exact: i128, unit: i32) -> bool {
    if !is_finite(format, bits) {
        // Infinity needs half a unit beyond the largest number.
        let largest = scaled(format, (bits & 0x7FFF) - 1, unit).unwrap();
        let last = scaled(format, (bits & 0x7FFF) - 2, unit).unwrap();
        return exact.abs() >= largest + (largest - last) / 2;
    }
    let distance = |code: u16| scaled(format, code, unit).map(|value| (value - exact).abs());
    let own = distance(bits).unwrap();
    let magnitude = bits & 0x7FFF;
    let neighbours =
        [(magnitude > 0).then(|| bits - 1), is_finite(format, bits + 1).then_some(bits + 1)];
    neighbours
        .into_iter()
        .flatten()
        .filter_map(distance)
        .all(|other| own < other || (own == other && magnitude & 1 == 0))
}

const PLAIN: Modifiers = Modifiers { flush: false, saturate: false, relu: false };

#[test]
fn f16_results_are_the_nearest() {
    let mut random = Random(8);
    let mut checked = 0;
    for round in 0..400_000u32 {
        let bits = random.next();
        // One in two draws has exponents close together, for cancellation and halfway cases.
        let limit = |value: u16| if round & 1 == 0 { value } else { (value & 0x8FFF) | 0x3000 };
        let [a, b, c] = [0, 16, 32].map(|shift| limit((bits >> shift) as u16));
        if ![a, b, c].iter().all(|&code| is_finite(F16, code)) {
            continue;
        }
        checked += 1;
        let exact = |code, unit| scaled(F16, code, unit).unwrap();
        let (x, y) = (exact(a, -24), exact(b, -24));
        let (product, addend) = (x * y, exact(c, -48));
        assert!(is_nearest(F16, add(F16, a, b, PLAIN), x + y, -24), "{a:#x} + {b:#x}");
        assert!(is_nearest(F16, subtract(F16, a, b, PLAIN), x - y, -24), "{a:#x} - {b:#x}");
        assert!(is_nearest(F16, multiply(F16, a, b, PLAIN), product, -48), "{a:#x} * {b:#x}");
        let result = fused(F16, a, b, c, PLAIN);
        assert!(is_nearest(F16, result, product + addend, -48), "{a:#x} * {b:#x} + {c:#x}");
    }
    assert!(checked > 300_000);
}

#[test]
fn bf16_results_are_the_nearest() {
    let mut random = Random(9);
    for round in 0..400_000u32 {
        let bits = random.next();
        // Exponents from -15 to 16, and, every other time, those of the smallest numbers.
        let place = |value: u16| match round & 1 {
            0 => (value & 0x87FF) | if value & 0x0800 != 0 { 0x4000 } else { 0x3800 },
            _ => value & 0x87FF,
        };
        let [a, b, c] = [0, 16, 32].map(|shift| place((bits >> shift) as u16));
        let unit = if round & 1 == 0 { -40 } else { -133 };
        let (Some(x), Some(y)) = (scaled(Bf16, a, unit), scaled(Bf16, b, unit)) else {
            continue;
        };
        assert!(is_nearest(Bf16, add(Bf16, a, b, PLAIN), x + y, unit), "{a:#x} + {b:#x}");
        assert!(is_nearest(Bf16, subtract(Bf16, a, b, PLAIN), x - y, unit), "{a:#x} - {b:#x}");
        if round & 1 == 1 {
            continue;
        }
        let (product, addend) = (x * y, scaled(Bf16, c, 2 * unit));
        assert!(is_nearest(Bf16, multiply(Bf16, a, b, PLAIN), product, -80), "{a:#x} * {b:#x}");
        if let Some(addend) = addend {
            let result = fused(Bf16, a, b, c, PLAIN);
            assert!(is_nearest(Bf16, result, product + addend, -80), "{a:#x} {b:#x} {c:#x}");
        }
    }
}

/// Fused f16 results that go wrong when the sum is rounded to f32 on the way.
#[test]
fn fused_f16_is_rounded_once() {
    // 2^11 + 1 lies halfway between two f16 numbers. The product is 1 + 2^-9 + 2^-20.
    assert_eq!(fused(F16, 0x3C01, 0x3C01, 0x6800, PLAIN), 0x6801);
    // The product is 1 - 2^-20, and f32 holds neither sum: 2^11 + 1 to even is right by luck,
    // 2^11 + 2 + 1 would go up.
    assert_eq!((1.0f32 - 2f32.powi(-20)) + 2050.0, 2051.0);
    assert_eq!(fused(F16, 0x3C01, 0x3BFE, 0x6800, PLAIN), 0x6800);
    assert_eq!(fused(F16, 0x3C01, 0x3BFE, 0x6801, PLAIN), 0x6801);
    assert_eq!(fused(F16, 0x3C00, 0x3C00, 0x6801, PLAIN), 0x6802);
}

/// The quick encoding gives what rounding of unpacked numbers gives, around every code.
#[test]
fn encoding_agrees_with_the_general_rounding() {
    for format in [F16, Bf16] {
        let encode = |value: f64| {
            let number = F64.unpack(value.to_bits());
            format.format().round(number, Rounding::NearestEven, Overflow::Infinity) as u16
        };
        for bits in 0..=u16::MAX {
            let value = f64::from(format.decode(bits));
            let middle = (value + f64::from(format.decode(bits.wrapping_add(1)))) / 2.0;
            for probe in [value, middle, middle.next_up(), middle.next_down(), value * 1e300] {
                assert_eq!(format.encode(probe), encode(probe), "{probe:e} {format:?}");
            }
        }
        assert_eq!(format.encode(65520.0) & 0x7F80, if format == F16 { 0x7C00 } else { 0x4780 });
    }
}

/// 13 * 21 = 273 and 25 * 11 = 275 are halfway between bf16 numbers, which are even there.
#[test]
fn a_tiny_addend_decides_a_halfway_product() {
    let [eleven, thirteen, twenty_one, twenty_five] = [0x4130, 0x4150, 0x41A8, 0x41C8];
    let (tiny, zero) = (0x0001, 0x0000);
    let cases = [
        (thirteen, twenty_one, zero, 272.0),
        (thirteen, twenty_one, tiny, 274.0),
        (thirteen, twenty_one, tiny | 0x8000, 272.0),
        (twenty_five, eleven, zero, 276.0),
        (twenty_five, eleven, tiny, 276.0),
        (twenty_five, eleven, tiny | 0x8000, 274.0),
    ];
    for (a, b, c, expected) in cases {
        assert_eq!(Bf16.decode(fused(Bf16, a, b, c, PLAIN)), expected, "{a:#x} {b:#x} {c:#x}");
    }
    // Sums of numbers far apart stay at the larger one.
    assert_eq!(add(Bf16, 0x3F81, tiny, PLAIN), 0x3F81);
    assert_eq!(subtract(Bf16, 0x3F80, tiny, PLAIN), 0x3F80);
}

#[test]
fn modifiers_and_special_values() {
    let flush = Modifiers { flush: true, ..PLAIN };
    let saturate = Modifiers { saturate: true, ..PLAIN };
    let relu = Modifiers { relu: true, ..PLAIN };
    let cases = [
        (add(F16, 0x7C00, 0xFC00, PLAIN), 0x7FFF),
        (add(F16, 0x7E01, 0x3C00, PLAIN), 0x7FFF),
        (add(F16, 0xFE01, 0x3C00, relu), 0x7FFF),
        (add(F16, 0x7E01, 0x3C00, saturate), 0x0000),
        (multiply(F16, 0x7BFF, 0x7BFF, PLAIN), 0x7C00),
        (multiply(F16, 0x7C00, 0x0000, PLAIN), 0x7FFF),
        (add(F16, 0x3C00, 0xBC00, PLAIN), 0x0000),
        (add(F16, 0x8000, 0x8000, PLAIN), 0x8000),
        (add(F16, 0x8000, 0x8000, relu), 0x0000),
        (add(F16, 0x03FF, 0x03FF, flush), 0x0000),
        (add(F16, 0x83FF, 0x0000, flush), 0x0000),
        (multiply(F16, 0x0400, 0xB800, flush), 0x8000),
        (multiply(F16, 0x0400, 0xB800, PLAIN), 0x8200),
        (add(F16, 0x3C00, 0x3C00, saturate), 0x3C00),
        (subtract(F16, 0x3C00, 0x4000, saturate), 0x0000),
        (subtract(F16, 0x3C00, 0x3800, saturate), 0x3800),
        (subtract(F16, 0x3C00, 0x4000, relu), 0x0000),
        (subtract(Bf16, 0x3F80, 0x4000, relu), 0x0000),
        (add(Bf16, 0x3F80, 0x3F80, saturate), 0x3F80),
        (fused(Bf16, 0x7F7F, 0x7F7F, 0xFF80, PLAIN), 0xFF80),
        (fused(Bf16, 0x0080, 0x0080, 0x0001, PLAIN), 0x0001),
        (multiply(Bf16, 0x7F80, 0x8000, PLAIN), 0x7FFF),
        (negate(F16, 0x3C00, PLAIN), 0xBC00),
        (negate(F16, 0x0001, flush), 0x8000),
        (absolute(F16, 0xBC00, PLAIN), 0x3C00),
        (absolute(Bf16, 0x8001, PLAIN), 0x0001),
        (absolute(Bf16, 0x8001, flush), 0x0000),
    ];
    for (case, (found, expected)) in cases.into_iter().enumerate() {
        assert_eq!(found, expected, "case {case}: {found:#x}");
    }
}
