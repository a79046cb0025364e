//! The model of Hopper's FP8 accumulation, once more in whole numbers.

use super::oracle::*;
use crate::matrix::fp8::Fp8Accumulation;
use crate::matrix::mma::Mma;
use crate::matrix::{AccumulatorType, ElementType};

use ElementType::{E4m3, E5m2};

/// Mantissa and exponent of a code: value = mantissa * 2^(exponent - mantissa bits).
fn parts(element: ElementType, code: u32) -> (i128, i32, i32) {
    let (mantissa_bits, bias) = if element == E4m3 { (3, 7) } else { (2, 15) };
    let field = (code & 0x7F) >> mantissa_bits;
    let fraction = (code & ((1 << mantissa_bits) - 1)) as i128;
    let hidden = if field == 0 { 0 } else { 1 << mantissa_bits };
    let sign = if code >> 7 == 1 { -1 } else { 1 };
    (sign * (fraction + hidden), field.max(1) as i32 - bias, mantissa_bits)
}

/// `mantissa * 2^exponent` cut toward zero to a multiple of 2^unit, in such units.
fn cut(mantissa: i128, exponent: i32, unit: i32) -> i128 {
    let shift = exponent - unit;
    let magnitude = mantissa.abs();
    let cut = if shift >= 0 { magnitude << shift } else { magnitude >> (-shift).min(127) };
    cut * mantissa.signum()
}

/// One element, in units: (sum, exponent of the unit).
fn model(a: (ElementType, &[u32]), b: (ElementType, &[u32]), before: f32) -> (i128, i32) {
    let products: Vec<(i128, i32, i32)> =
        a.1.iter()
            .zip(b.1)
            .map(|(x, y)| {
                let (x, x_exponent, x_bits) = parts(a.0, *x);
                let (y, y_exponent, y_bits) = parts(b.0, *y);
                let exponent = x_exponent + y_exponent;
                (x * y, exponent, exponent - x_bits - y_bits)
            })
            .filter(|product| product.0 != 0)
            .collect();
    let bits = before.to_bits();
    let mantissa = i128::from(bits & 0x7F_FFFF | 0x80_0000) * if before < 0.0 { -1 } else { 1 };
    let exponent = (bits >> 23 & 0xFF) as i32 - 127;
    let own = if before == 0.0 { i32::MIN } else { exponent };
    let largest = products.iter().map(|product| product.1).fold(own, i32::max);
    if largest == i32::MIN {
        return (0, 0);
    }
    let unit = largest - 13;
    let sum: i128 = products.iter().map(|&(value, _, scale)| cut(value, scale, unit)).sum();
    let before = if before == 0.0 { 0 } else { cut(mantissa, exponent - 23, unit) };
    (sum + before, unit)
}

/// Keeps 14 significant bits.
fn fourteen_bits(sum: i128) -> i128 {
    let length = 128 - sum.abs().leading_zeros();
    let dropped = length.saturating_sub(14);
    (sum.abs() >> dropped << dropped) * sum.signum()
}

#[test]
fn hardware_mode_is_the_model() {
    let mut random = Random(11);
    for a_type in [E4m3, E5m2] {
        for b_type in [E4m3, E5m2] {
            for round in 0..40 {
                let mma =
                    Mma::new((16, 8, 32), a_type, b_type, AccumulatorType::F32, false).unwrap();
                let mut a = random_codes(&mut random, a_type, 16);
                let b = random_codes(&mut random, b_type, 8);
                if round % 4 == 0 {
                    // Small numbers and zeros only, so that alignment happens far down.
                    a.iter_mut().flatten().for_each(|code| *code &= 0x87);
                }
                let scale = 2f32.powi(round - 24);
                let mut d = [[0; 32]; 4].map(|register: [u32; 32]| {
                    register.map(|_| (scale * (random.next() as i32 >> 8) as f32).to_bits())
                });
                let before = d;
                let fragment = a_fragment(a_type, &a, 4);
                let columns = super::mma::b_fragment(b_type, &b, 2);
                mma.execute(&fragment, &columns, &mut d, Fp8Accumulation::Hardware).unwrap();
                for (row, a_row) in a.iter().enumerate() {
                    for (column, b_column) in b.iter().enumerate() {
                        let old = accumulator(AccumulatorType::F32, &before, row, column);
                        let old = f32::from_bits(old);
                        let (sum, unit) = model((a_type, a_row), (b_type, b_column), old);
                        let expected = fourteen_bits(sum) as f64 * 2f64.powi(unit);
                        let bits = accumulator(AccumulatorType::F32, &d, row, column);
                        let found = f64::from(f32::from_bits(bits));
                        assert_eq!(found, expected, "{a_type:?} {b_type:?} {row},{column} {old}");
                    }
                }
            }
        }
    }
}

/// With finite factors, an accumulator that is infinite or NaN stays it; its neighbours do not
/// care.
#[test]
fn special_accumulators_stay() {
    let mma = Mma::new((16, 8, 32), E4m3, E4m3, AccumulatorType::F32, false).unwrap();
    let one = vec![0x38; 32];
    let a = a_fragment(E4m3, &vec![one.clone(); 16], 4);
    let b = super::mma::b_fragment(E4m3, &vec![one; 8], 2);
    for fp8 in [Fp8Accumulation::Hardware, Fp8Accumulation::Exact] {
        let mut d = [[0; 32]; 4];
        d[0][3] = f32::NEG_INFINITY.to_bits();
        d[2][9] = 0xFFC0_0001;
        mma.execute(&a, &b, &mut d, fp8).unwrap();
        let mut expected = [[32f32.to_bits(); 32]; 4];
        expected[0][3] = f32::NEG_INFINITY.to_bits();
        expected[2][9] = 0x7FFF_FFFF;
        assert_eq!(d, expected, "{fp8:?}");
    }
}

/// 1 + 31 * 2^-14: every small product is cut off, where an exact sum keeps it.
#[test]
fn small_products_are_lost() {
    let one = 0x38;
    let small = 0x01; // 2^-9
    let mma = Mma::new((16, 8, 32), E4m3, E4m3, AccumulatorType::F32, false).unwrap();
    let mut a = vec![vec![small; 32]; 16];
    a.iter_mut().for_each(|row| row[0] = one);
    let mut b = vec![vec![0x10; 32]; 8]; // 2^-5
    b.iter_mut().for_each(|column| column[0] = one);
    let run = |fp8| {
        let mut d = [[0; 32]; 4];
        let columns = super::mma::b_fragment(E4m3, &b, 2);
        mma.execute(&a_fragment(E4m3, &a, 4), &columns, &mut d, fp8).unwrap();
        f32::from_bits(d[3][17])
    };
    assert_eq!(run(Fp8Accumulation::Hardware), 1.0);
    assert_eq!(run(Fp8Accumulation::Exact), 1.0 + 31.0 / 16_384.0);
}
