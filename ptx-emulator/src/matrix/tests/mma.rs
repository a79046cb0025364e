//! `mma.sync` against sums in `f64`, with fragments built from the manual's tables.

use super::oracle::*;
use crate::matrix::fp8::Fp8Accumulation;
use crate::matrix::mma::{Mma, multiply_doubles};
use crate::matrix::{AccumulatorType, ElementType, MatrixError, Row};

use AccumulatorType::{F16 as D16, F32 as D32, S32};
use ElementType::{Bf16, E4m3, E5m2, F16, S8, Tf32, U8};

/// B's registers from eight columns, by the manual's table for the type.
pub(super) fn b_fragment(element: ElementType, columns: &Codes, registers: usize) -> Vec<Row> {
    let word = |register: usize, lane: usize| {
        let column = &columns[lane / 4];
        let t = lane % 4;
        let ks: Vec<usize> = match element {
            Bf16 | F16 => (0..2).map(|index| 2 * t + 8 * register + index).collect(),
            Tf32 => vec![t + 4 * register],
            _ => (0..4).map(|index| 4 * t + 16 * register + index).collect(),
        };
        let width = bits(element);
        let codes = ks.iter().rev();
        codes.fold(0u64, |word, &k| word << width | u64::from(column[k])) as u32
    };
    (0..registers).map(|register| std::array::from_fn(|lane| word(register, lane))).collect()
}

/// The sum of FP8 products as an H200 makes it for f16: the lower two of every four neighbours,
/// rounded, then the upper two added to that, rounded.
fn in_halves(products: &[f64]) -> f64 {
    let half = |first: usize| {
        products.iter().enumerate().filter(move |(k, _)| k % 4 / 2 == first).map(|(_, own)| own)
    };
    let lower = half::f16::from_f64(half(0).sum()).to_f64();
    half::f16::from_f64(lower + half(1).sum::<f64>()).to_f64()
}

#[test]
fn every_shape() {
    let mut random = Random(21);
    let forms = [
        (Bf16, Bf16, D32, 16),
        (Bf16, Bf16, D32, 8),
        (F16, F16, D32, 16),
        (F16, F16, D32, 8),
        (F16, F16, D16, 16),
        (F16, F16, D16, 8),
        (Tf32, Tf32, D32, 8),
        (Tf32, Tf32, D32, 4),
        (E4m3, E4m3, D32, 32),
        (E4m3, E5m2, D32, 32),
        (E5m2, E4m3, D16, 32),
        (E5m2, E5m2, D16, 32),
        (E4m3, E4m3, D32, 16),
        (E4m3, E5m2, D16, 16),
        (S8, S8, S32, 32),
        (S8, U8, S32, 16),
        (U8, S8, S32, 32),
        (U8, U8, S32, 16),
    ];
    for (a_type, b_type, d_type, k) in forms {
        let mma = Mma::new((16, 8, k), a_type, b_type, d_type, false).unwrap();
        let a = random_codes(&mut random, a_type, 16);
        let b = random_codes(&mut random, b_type, 8);
        let fragment = a_fragment(a_type, &a, mma.a_registers());
        let columns = b_fragment(b_type, &b, mma.b_registers());
        let mut d: Vec<Row> = (0..mma.accumulator_registers())
            .map(|_| random_accumulator(&mut random, d_type))
            .collect();
        let before = d.clone();
        mma.execute(&fragment, &columns, &mut d, Fp8Accumulation::Exact).unwrap();
        for (row, a_row) in a.iter().enumerate() {
            for (column, b_column) in b.iter().enumerate() {
                let products = a_row.iter().zip(b_column).take(k as usize);
                let products: Vec<f64> =
                    products.map(|(x, y)| value(a_type, *x) * value(b_type, *y)).collect();
                let sum = match (a_type, d_type) {
                    (E4m3 | E5m2, D16) => in_halves(&products),
                    _ => products.iter().sum(),
                };
                let old = accumulator(d_type, &before, row, column);
                let exact = sum + accumulator_value(d_type, old);
                let bits = accumulator(d_type, &d, row, column);
                check_result(d_type, bits, exact, &|| format!("{row},{column} {mma:?}"));
            }
        }
    }
}

#[test]
fn saturation() {
    let ones = |element| vec![vec![255; 32]; if element == U8 { 16 } else { 8 }];
    for saturate in [false, true] {
        let mma = Mma::new((16, 8, 32), U8, S8, S32, saturate).unwrap();
        let a = a_fragment(U8, &ones(U8), 4);
        let b = b_fragment(S8, &ones(S8), 2);
        let mut d = vec![[0x8000_0000; 32]; 4];
        mma.execute(&a, &b, &mut d, Fp8Accumulation::Exact).unwrap();
        let expected = if saturate { 0x8000_0000 } else { 0x8000_0000 - 32 * 255 };
        assert_eq!(d, vec![[expected; 32]; 4]);
    }
}

#[test]
fn wrong_numbers_of_registers() {
    let mma = Mma::new((16, 8, 16), Bf16, Bf16, D32, false).unwrap();
    let rows = [[0; 32]; 8];
    for (a, b, c, wrong) in [(2, 2, 4, "A"), (4, 1, 4, "B"), (4, 2, 2, "D"), (8, 2, 4, "A")] {
        let mut d = vec![[0; 32]; c];
        let fp8 = Fp8Accumulation::Exact;
        let error = mma.execute(&rows[..a], &rows[..b], &mut d, fp8).unwrap_err();
        assert!(matches!(error, MatrixError::Registers { operand, .. } if operand == wrong));
    }
}

#[test]
fn doubles() {
    let mut random = Random(22);
    for (m, k) in [(8, 4), (16, 4), (16, 8), (16, 16)] {
        let mut number = || f64::from(random.next() as i32 >> 12);
        let a: Vec<Vec<f64>> = (0..m).map(|_| (0..k).map(|_| number()).collect()).collect();
        let b: Vec<Vec<f64>> = (0..8).map(|_| (0..k).map(|_| number()).collect()).collect();
        // [register][lane], from the tables of rows and columns.
        let a_registers: Vec<[u64; 32]> = (0..m / 8 * k / 4)
            .map(|i| {
                let (row, first) = if m == 8 { (0, 0) } else { (8 * (i % 2), i / 2 * 4) };
                std::array::from_fn(|lane| a[lane / 4 + row][lane % 4 + first].to_bits())
            })
            .collect();
        let b_registers: Vec<[u64; 32]> = (0..k / 4)
            .map(|i| std::array::from_fn(|lane| b[lane / 4][lane % 4 + 4 * i].to_bits()))
            .collect();
        let mut d = vec![[7f64.to_bits(); 32]; m / 4];
        multiply_doubles(&a_registers, &b_registers, &mut d).unwrap();
        for (index, register) in d.iter().enumerate() {
            for (lane, word) in register.iter().enumerate() {
                let (row, column) = (lane / 4 + 8 * (index / 2), 2 * (lane % 4) + index % 2);
                let sum: f64 = a[row].iter().zip(&b[column]).map(|(x, y)| x * y).sum();
                assert_eq!(f64::from_bits(*word), sum + 7.0, "{m} {k} {row},{column}");
            }
        }
    }
    assert!(multiply_doubles(&[[0; 32]; 3], &[[0; 32]; 1], &mut [[0; 32]; 4]).is_err());
}
