//! f32 and f64 in every rounding.

use super::Random;
use crate::numeric::Rounding::{self, Down, NearestEven, Up, Zero};
use crate::numeric::format::{F32, F64, Number, Overflow};
use crate::numeric::{Modifiers, double, exact, single};

const COUNT: usize = 200_000;

fn unpack(value: f32) -> Number {
    F32.unpack(u64::from(value.to_bits()))
}

fn nearest(number: Number) -> u32 {
    F32.round(number, NearestEven, Overflow::Infinity) as u32
}

fn bits(value: f32) -> u32 {
    // The comparison of integers keeps LLVM from dropping the choice where the value is a root.
    let bits = value.to_bits();
    if bits & 0x7FFF_FFFF > 0x7F80_0000 { 0x7FFF_FFFF } else { bits }
}

/// The unpacked operations rounded to nearest are what the host computes.
#[test]
fn unpacked_operations_agree_with_the_host() {
    let mut random = Random(1);
    for round in 0..COUNT {
        let mut draw = || if round & 1 == 0 { random.single() } else { random.close_single() };
        let (a, b, c) = (draw(), draw(), draw());
        let (x, y, z) = (unpack(a), unpack(b), unpack(c));
        assert_eq!(nearest(exact::add(x, y, NearestEven)), bits(a + b), "{a:e} + {b:e}");
        assert_eq!(nearest(exact::multiply(x, y)), bits(a * b), "{a:e} * {b:e}");
        assert_eq!(nearest(exact::divide(x, y)), bits(a / b), "{a:e} / {b:e}");
        assert_eq!(nearest(exact::square_root(x)), bits(a.sqrt()), "sqrt {a:e}");
        let fused = bits(a.mul_add(b, c));
        assert_eq!(nearest(exact::fused(x, y, z, NearestEven)), fused, "{a:e} {b:e} {c:e}");
        assert_eq!(single::fused(a, b, c, NearestEven).to_bits(), fused, "{a:e} {b:e} {c:e}");
    }
}

#[test]
fn unpacked_double_operations_agree_with_the_host() {
    let mut random = Random(2);
    let round = |number| f64::from_bits(F64.round(number, NearestEven, Overflow::Infinity));
    let same = |a: f64, b: f64| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
    for _ in 0..COUNT {
        let (a, b, c) = (random.double(), random.double(), random.double());
        let (x, y) = (F64.unpack(a.to_bits()), F64.unpack(b.to_bits()));
        assert!(same(round(exact::add(x, y, NearestEven)), a + b), "{a:e} + {b:e}");
        assert!(same(round(exact::multiply(x, y)), a * b), "{a:e} * {b:e}");
        assert!(same(round(exact::divide(x, y)), a / b), "{a:e} / {b:e}");
        assert!(same(round(exact::square_root(x)), a.sqrt()), "sqrt {a:e}");
        let fused = double::fused(a, b, c, NearestEven);
        assert!(same(fused, a.mul_add(b, c)), "{a:e} * {b:e} + {c:e}");
        // An addend that cancels the product leaves the product's lower half.
        let cancelled = double::fused(a, b, -(a * b), NearestEven);
        assert!(same(cancelled, a.mul_add(b, -(a * b))), "{a:e} * {b:e} - product");
    }
}

#[test]
fn lanes_agree_with_the_host() {
    let mut random = Random(4);
    for round in 0..20_000 {
        let mut draw = || match round % 3 {
            0 => random.single(),
            1 => random.close_single(),
            // Short significands make halfway cases frequent.
            _ => f32::from_bits(random.close_single().to_bits() & 0xFFFF_F000),
        };
        let a: [f32; 32] = std::array::from_fn(|_| draw());
        let b: [f32; 32] = std::array::from_fn(|_| draw());
        let c: [f32; 32] = std::array::from_fn(|_| draw());
        let fused = single::fused_lanes(&a, &b, &c);
        let (sums, products) = (single::add_lanes(&a, &b), single::multiply_lanes(&a, &b));
        for lane in 0..32 {
            let (a, b, c) = (a[lane], b[lane], c[lane]);
            assert_eq!(fused[lane].to_bits(), bits(a.mul_add(b, c)), "{a:e} {b:e} {c:e}");
            assert_eq!(sums[lane].to_bits(), bits(a + b));
            assert_eq!(products[lane].to_bits(), bits(a * b));
        }
    }
}

/// Cases where rounding the f64 sum a second time would be wrong.
#[test]
fn fused_lanes_do_not_round_twice() {
    let one_and = |bits: i32| 1.0 + 2f32.powi(-bits);
    let cases = [
        // 1 + 2^-24 is halfway; the third term tips it either way and is lost in f64.
        (one_and(12), one_and(12), 2f32.powi(-80)),
        (2f32.powi(-12), 2f32.powi(-12), 1.0),
        (2f32.powi(-30), 2f32.powi(-40), 1.0 + f32::EPSILON),
        (1.0 + f32::EPSILON, 2f32.powi(-24), 1.0),
        (1.0 + f32::EPSILON, -(2f32.powi(-24)), 1.0 + f32::EPSILON),
        (1.0 + f32::EPSILON, 2f32.powi(-150), 1.0e-40),
        (2f32.powi(-100), 2f32.powi(-50), f32::from_bits(1)),
        (2f32.powi(-75), 2f32.powi(-75), 0.0),
        (2f32.powi(-75), one_and(20) * 2f32.powi(-75), 0.0),
        (f32::MAX, 1.0, 2f32.powi(103)),
        (f32::MAX, 1.0, 2f32.powi(103).next_down()),
    ];
    for (a, b, c) in cases {
        let found = single::fused_lanes(&[a; 32], &[b; 32], &[c; 32])[7];
        assert_eq!(found.to_bits(), a.mul_add(b, c).to_bits(), "{a:e} {b:e} {c:e}");
    }
}

/// Checks all roundings of one exact result: `compare(r)` orders a finite candidate against it.
fn check_directed(
    compare: impl Fn(f32) -> std::cmp::Ordering,
    operation: impl Fn(Rounding) -> f32,
    what: &str,
) {
    let (down, up) = (operation(Down), operation(Up));
    if down.is_nan() || up.is_nan() {
        assert!(down.is_nan() && up.is_nan(), "{what}");
        return;
    }
    if down == up {
        assert!(down.is_infinite() || compare(down).is_eq(), "{what}: {down:e}");
    } else {
        assert_eq!(down.next_up(), up, "{what}");
        assert!(down.is_infinite() || compare(down).is_lt(), "{what}: down {down:e}");
        assert!(up.is_infinite() || compare(up).is_gt(), "{what}: up {up:e}");
    }
    let inner = if down.is_sign_negative() && up <= 0.0 { up } else { down };
    assert_eq!(operation(Zero).to_bits() << 1, inner.to_bits() << 1, "{what}: towards zero");
    let near = operation(NearestEven);
    assert!(near == down || near == up, "{what}: {near:e} between {down:e} and {up:e}");
}

#[test]
fn directed_singles_enclose_the_exact_result() {
    let mut random = Random(5);
    for round in 0..COUNT {
        let mut draw = || if round & 1 == 0 { random.single() } else { random.close_single() };
        let (a, b) = (draw(), draw());
        if !a.is_finite() || !b.is_finite() {
            continue;
        }
        let (x, y) = (f64::from(a), f64::from(b));
        let product = x * y;
        check_directed(
            |r| f64::from(r).partial_cmp(&product).unwrap(),
            |rounding| single::multiply(a, b, rounding),
            &format!("{a:e} * {b:e}"),
        );
        check_directed(
            |r| sum_sign(f64::from(r), x, y),
            |rounding| single::add(a, b, rounding),
            &format!("{a:e} + {b:e}"),
        );
        check_directed(
            |r| sum_sign(f64::from(r), x, -y),
            |rounding| single::subtract(a, b, rounding),
            &format!("{a:e} - {b:e}"),
        );
        if b != 0.0 {
            let compare = |r: f32| {
                let order = (f64::from(r) * y).partial_cmp(&x).unwrap();
                if b < 0.0 { order.reverse() } else { order }
            };
            let what = format!("{a:e} / {b:e}");
            check_directed(compare, |rounding| single::divide(a, b, rounding), &what);
        }
        if a > 0.0 {
            let compare = |r: f32| (f64::from(r) * f64::from(r)).partial_cmp(&x).unwrap();
            let what = format!("sqrt {a:e}");
            check_directed(compare, |rounding| single::square_root(a, rounding), &what);
        }
    }
}

/// The order of `r` and `x + y`, with the rounding error of the sum taken into account.
fn sum_sign(r: f64, x: f64, y: f64) -> std::cmp::Ordering {
    let sum = x + y;
    let part = sum - x;
    let error = (x - (sum - part)) + (y - part);
    r.partial_cmp(&sum).unwrap().then(0f64.partial_cmp(&error).unwrap())
}

/// Integers in units of 2^-120 hold every operand and product exactly.
#[test]
fn directed_fused_singles_enclose_the_exact_result() {
    let mut random = Random(6);
    let scaled = |value: f32, power: i32| -> i128 {
        let whole = f64::from(value) * 2f64.powi(power);
        assert_eq!(whole.fract(), 0.0);
        whole as i128
    };
    for _ in 0..COUNT {
        let mut draw = || {
            let value = random.close_single();
            // Magnitudes from 2^-12 to 2^12.
            f32::from_bits(
                (value.to_bits() & 0x807F_FFFF) | (((value.to_bits() >> 8) % 24 + 115) << 23),
            )
        };
        let (a, b, c) = (draw(), draw(), draw());
        let exact = scaled(a, 40) * scaled(b, 40) + scaled(c, 80);
        check_directed(
            |r| scaled(r, 80).cmp(&exact),
            |rounding| single::fused(a, b, c, rounding),
            &format!("{a:e} * {b:e} + {c:e}"),
        );
    }
}

#[test]
fn directed_doubles_enclose_the_exact_result() {
    let mut random = Random(7);
    for _ in 0..COUNT {
        let mut draw = || {
            let bits = random.next();
            let exponent = 1023 - 30 + (bits >> 52) % 60;
            f64::from_bits((bits & 0x800F_FFFF_FFFF_FFFF) | (exponent << 52))
        };
        let (a, b) = (draw(), draw());
        let check = |near: f64, error: f64, operation: &dyn Fn(Rounding) -> f64| {
            let below = if error < 0.0 { near.next_down() } else { near };
            let above = if error > 0.0 { near.next_up() } else { near };
            assert_eq!(operation(Down), below, "{a:e} {b:e}");
            assert_eq!(operation(Up), above, "{a:e} {b:e}");
            assert_eq!(operation(Zero), if near > 0.0 { below } else { above }, "{a:e} {b:e}");
            assert_eq!(operation(NearestEven), near);
        };
        let product = a * b;
        check(product, a.mul_add(b, -product), &|r| double::multiply(a, b, r));
        let sum = a + b;
        let part = sum - a;
        check(sum, (a - (sum - part)) + (b - part), &|r| double::add(a, b, r));
        check(sum, (a - (sum - part)) + (b - part), &|r| double::subtract(a, -b, r));
        let quotient = a / b;
        let residue = (-quotient).mul_add(b, a);
        let error = if b < 0.0 { -residue } else { residue };
        check(quotient, error, &|r| double::divide(a, b, r));
        let root = a.abs().sqrt();
        check(root, (-root).mul_add(root, a.abs()), &|r| double::square_root(a.abs(), r));
        check(product, a.mul_add(b, -product), &|r| double::fused(a, b, 0.0, r));
    }
}

#[test]
fn zeros_infinities_and_nans() {
    let cases = [
        (single::add(1.0, -1.0, NearestEven), 0x0000_0000),
        (single::add(1.0, -1.0, Down), 0x8000_0000),
        (single::add(0.0, -0.0, Down), 0x8000_0000),
        (single::add(0.0, -0.0, Up), 0x0000_0000),
        (single::add(-0.0, -0.0, Up), 0x8000_0000),
        (single::fused(0.0, 1.0, -0.0, Down), 0x8000_0000),
        (single::fused(1.0, 1.0, -1.0, Down), 0x8000_0000),
        (single::add(f32::INFINITY, f32::NEG_INFINITY, Zero), 0x7FFF_FFFF),
        (single::add(f32::INFINITY, f32::NEG_INFINITY, NearestEven), 0x7FFF_FFFF),
        (single::multiply(f32::INFINITY, 0.0, Up), 0x7FFF_FFFF),
        (single::multiply(f32::from_bits(0xFF80_0001), 1.0, NearestEven), 0x7FFF_FFFF),
        (single::fused(f32::INFINITY, 0.0, 1.0, NearestEven), 0x7FFF_FFFF),
        (single::fused(f32::INFINITY, 1.0, f32::NEG_INFINITY, Zero), 0x7FFF_FFFF),
        (single::divide(-1.0, 0.0, Zero), 0xFF80_0000),
        (single::divide(0.0, 0.0, Up), 0x7FFF_FFFF),
        (single::reciprocal(f32::NEG_INFINITY, Down), 0x8000_0000),
        (single::square_root(-0.0, Down), 0x8000_0000),
        (single::square_root(-1.0, Down), 0x7FFF_FFFF),
        (single::multiply(f32::MAX, 2.0, Zero), 0x7F7F_FFFF),
        (single::multiply(f32::MAX, 2.0, Up), 0x7F80_0000),
        (single::multiply(f32::MAX, -2.0, Up), 0xFF7F_FFFF),
        (single::multiply(f32::from_bits(1), 0.5, Up), 0x0000_0001),
        (single::multiply(f32::from_bits(1), 0.5, NearestEven), 0x0000_0000),
        (single::multiply(f32::from_bits(1), -0.25, Down), 0x8000_0001),
        (single::fused(f32::MAX, f32::MAX, f32::NEG_INFINITY, NearestEven), 0xFF80_0000),
    ];
    for (case, (found, expected)) in cases.into_iter().enumerate() {
        assert_eq!(found.to_bits(), expected, "case {case}");
    }
    let payload = f64::from_bits(0x7FF0_0000_0000_0123);
    let quiet = 0x7FF8_0000_0000_0123;
    assert_eq!(double::add(1.0, payload, NearestEven).to_bits(), quiet);
    assert_eq!(double::fused(1.0, 2.0, payload, Up).to_bits(), quiet);
    assert_eq!(double::subtract(1.0, payload, Zero).to_bits(), quiet);
    assert_eq!(double::square_root(-1.0, NearestEven).to_bits(), 0xFFF8_0000_0000_0000);
    assert_eq!(double::reciprocal(-0.0, NearestEven), f64::NEG_INFINITY);
}

#[test]
fn flushing_and_saturation() {
    let subnormal = f32::from_bits(0x807F_FFFF);
    assert_eq!(single::flush(subnormal).to_bits(), 0x8000_0000);
    assert_eq!(single::flush(f32::MIN_POSITIVE), f32::MIN_POSITIVE);
    assert!(single::flush(f32::NAN).is_nan());
    let table = [(2.0, 1.0), (1.0, 1.0), (0.25, 0.25), (-0.5, 0.0), (f32::NAN, 0.0), (-0.0, 0.0)];
    for (value, expected) in table {
        assert_eq!(single::saturate(value).to_bits(), f32::to_bits(expected), "{value}");
    }
    assert_eq!(single::saturate(f32::INFINITY), 1.0);
    let flush = Modifiers { flush: true, ..Modifiers::default() };
    let halved = single::modified(flush, [f32::MIN_POSITIVE, -0.5], |[a, b]| a * b);
    assert_eq!(halved.to_bits(), 0x8000_0000);
    let added = single::modified(flush, [subnormal, f32::MIN_POSITIVE], |[a, b]| a + b);
    assert_eq!(added, f32::MIN_POSITIVE);
    let saturated = Modifiers { saturate: true, ..Modifiers::default() };
    assert_eq!(single::modified(saturated, [3.0, 4.0], |[a, b]| a * b), 1.0);
}
