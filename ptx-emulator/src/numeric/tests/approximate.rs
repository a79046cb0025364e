//! The approximate instructions: special operands by the manual's tables, the rest by identities.

use super::Random;
use crate::numeric::Modifiers;
use crate::numeric::approx::Function::{
    self, Cosine, Exp2, HyperbolicTangent, Log2, Reciprocal, ReciprocalSquareRoot, Sine, SquareRoot,
};
use crate::numeric::approx::{divide, divide_full};
use crate::numeric::half::HalfFormat::{Bf16, F16};

const PLAIN: Modifiers = Modifiers { flush: false, saturate: false, relu: false };
const FLUSH: Modifiers = Modifiers { flush: true, saturate: false, relu: false };

const NAN: f32 = f32::NAN;
const INFINITE: f32 = f32::INFINITY;

#[test]
fn special_operands() {
    let inputs = [-INFINITE, -1.0, -0.0, 0.0, 1.0, INFINITE, NAN];
    let table: [(Function, [f32; 7]); 8] = [
        (Exp2, [0.0, 0.5, 1.0, 1.0, 2.0, INFINITE, NAN]),
        (Log2, [NAN, NAN, -INFINITE, -INFINITE, 0.0, INFINITE, NAN]),
        (Reciprocal, [-0.0, -1.0, -INFINITE, INFINITE, 1.0, 0.0, NAN]),
        (ReciprocalSquareRoot, [NAN, NAN, -INFINITE, INFINITE, 1.0, 0.0, NAN]),
        (SquareRoot, [NAN, NAN, -0.0, 0.0, 1.0, INFINITE, NAN]),
        (Sine, [NAN, -0.841_470_96, -0.0, 0.0, 0.841_470_96, NAN, NAN]),
        (Cosine, [NAN, 0.540_302_3, 1.0, 1.0, 0.540_302_3, NAN, NAN]),
        (HyperbolicTangent, [-1.0, -0.761_594_2, -0.0, 0.0, 0.761_594_2, 1.0, NAN]),
    ];
    for (function, results) in table {
        for (input, expected) in inputs.into_iter().zip(results) {
            let found = function.single(input, PLAIN);
            if expected.is_nan() {
                assert_eq!(found.to_bits(), 0x7FFF_FFFF, "{function:?} {input}");
                continue;
            }
            assert_eq!(found.to_bits(), expected.to_bits(), "{function:?} {input} {found}");
        }
    }
}

#[test]
fn subnormal_operands_and_results() {
    let subnormal = f32::from_bits(0x8000_0001);
    let cases = [
        (Exp2, -127.0, 0x0040_0000, 0),
        (Exp2, -149.0, 1, 0),
        (Reciprocal, subnormal, 0xFF80_0000, 0xFF80_0000),
        (Reciprocal, 2f32.powi(127), 0x0040_0000, 0),
        (Log2, f32::from_bits(1), 0xC315_0000, 0xFF80_0000),
        (SquareRoot, subnormal, 0x7FFF_FFFF, 0x8000_0000),
        (Sine, subnormal, 0x8000_0001, 0x8000_0000),
        (HyperbolicTangent, subnormal, 0x8000_0001, 0x8000_0000),
    ];
    for (function, input, kept, flushed) in cases {
        assert_eq!(function.single(input, PLAIN).to_bits(), kept, "{function:?} {input:e}");
        assert_eq!(function.single(input, FLUSH).to_bits(), flushed, "{function:?} {input:e}");
    }
}

/// Identities that the f64 functions were not computed by.
#[test]
fn values_satisfy_their_identities() {
    let mut random = Random(16);
    for _ in 0..20_000 {
        let a = random.close_single().abs().clamp(1e-6, 1e4);
        let near = |found: f64, expected: f64| (found - expected).abs() <= 3e-7 * expected.abs();
        let x = f64::from(a);
        let root = f64::from(SquareRoot.single(a, PLAIN));
        assert!(near(root * root, x));
        assert!(near(f64::from(ReciprocalSquareRoot.single(a, PLAIN)) * root, 1.0));
        assert!(near(f64::from(Reciprocal.single(a, PLAIN)) * x, 1.0));
        let log = Log2.single(a, PLAIN);
        assert!((f64::from(Exp2.single(log, PLAIN)) / x - 1.0).abs() < 2e-6);
        let (sine, cosine) = (f64::from(Sine.single(a, PLAIN)), f64::from(Cosine.single(a, PLAIN)));
        assert!(near(sine * sine + cosine * cosine, 1.0));
        let small = a.min(4.0);
        let square = f64::from(Exp2.single(2.0 * small * std::f32::consts::LOG2_E, PLAIN));
        let tanh = f64::from(HyperbolicTangent.single(small, PLAIN));
        assert!((tanh - (square - 1.0) / (square + 1.0)).abs() < 1e-6);
    }
}

#[test]
fn quotients() {
    let huge = 1.5 * 2f32.powi(126);
    let cases = [
        (1.0, 3.0, 0x3EAA_AAAB, 0x3EAA_AAAB),
        (huge, huge, 0, 0x3F80_0000),
        (-huge, huge, 0x8000_0000, 0xBF80_0000),
        (INFINITE, huge, 0x7FFF_FFFF, 0x7F80_0000),
        (2f32.powi(126), 2f32.powi(126), 0x3F80_0000, 0x3F80_0000),
        (1.0, INFINITE, 0, 0),
        (1.0, -0.0, 0xFF80_0000, 0xFF80_0000),
        (0.0, 0.0, 0x7FFF_FFFF, 0x7FFF_FFFF),
        (INFINITE, INFINITE, 0x7FFF_FFFF, 0x7FFF_FFFF),
    ];
    for (a, b, approximate, full) in cases {
        assert_eq!(divide(a, b, PLAIN).to_bits(), approximate, "{a:e} / {b:e}");
        assert_eq!(divide_full(a, b, PLAIN).to_bits(), full, "{a:e} / {b:e}");
    }
    assert_eq!(divide_full(f32::MIN_POSITIVE, 2.0, FLUSH), 0.0);
    assert_eq!(divide_full(f32::MIN_POSITIVE, 2.0, PLAIN).to_bits(), 0x0040_0000);
}

#[test]
fn halves_and_doubles() {
    let cases = [
        (Exp2.half(F16, 0x4200, PLAIN), 0x4800),
        (Exp2.half(F16, 0xCE00, PLAIN), 0x0001),
        (Exp2.half(F16, 0x4C00, PLAIN), 0x7C00),
        (Exp2.half(F16, 0x7E00, PLAIN), 0x7FFF),
        (Exp2.half(Bf16, 0xC2FE, PLAIN), 0x0040),
        (Exp2.half(Bf16, 0xC2FE, FLUSH), 0x0000),
        (Exp2.half(Bf16, 0xFF80, PLAIN), 0x0000),
        (HyperbolicTangent.half(F16, 0x7C00, PLAIN), 0x3C00),
        (HyperbolicTangent.half(F16, 0x8000, PLAIN), 0x8000),
        (HyperbolicTangent.half(Bf16, 0x3F80, PLAIN), 0x3F43),
    ];
    for (case, (found, expected)) in cases.into_iter().enumerate() {
        assert_eq!(found, expected, "case {case}: {found:#x}");
    }
    let third = Reciprocal.double(3.0).to_bits();
    assert_eq!(third, 0x3FD5_5555_0000_0000);
    assert_eq!(Reciprocal.double(-5e-324), f64::NEG_INFINITY);
    assert_eq!(Reciprocal.double(f64::MAX), 0.0);
    assert_eq!(ReciprocalSquareRoot.double(4.0), 0.5);
    assert!(ReciprocalSquareRoot.double(-4.0).is_nan());
}
