//! How Hopper's tensor cores accumulate products of 8-bit floating-point numbers.
//!
//! The DeepSeek-V3 report (section 3.5.2) describes it: the products of a step of 32 are aligned
//! to the largest exponent, 14 bits of each are kept, the rest is cut off, and the accumulation
//! into registers has 14 bits as well. That is modelled as follows.
//!
//! 1. The exponent of a product is the sum of its factors' exponents (so its significand lies
//!    between 0 and 4); zeros take no part. The accumulator joins with its own exponent.
//! 2. With E the largest of these, every product and the accumulator are cut toward zero to a
//!    multiple of 2^(E - 13), and summed exactly.
//! 3. An `f32` result keeps 14 significant bits, cut toward zero; an `f16` result is rounded to
//!    nearest.
//!
//! Doubtful, because nothing official says it: whether E comes from factors or from normalised
//! products, 13 or 14 bits below it, and whether the sum of a step meets the accumulator only
//! afterwards. Each moves a result by less than 2^-13 of the largest partial sum a term.

use super::ElementType;
use super::block::{Sums, multiply, widen};
pub(crate) use crate::machine::Fp8Accumulation;

/// Fraction bits below the largest exponent.
const FRACTION_BITS: u32 = 13;

/// Accumulators below this are aligned to it, so that no reciprocal overflows.
const SMALLEST: f32 = f32::from_bits((127 - 110) << 23);

/// Adding this rounds small numbers to whole ones, which the sum has as its low bits.
const ROUNDER: f32 = 12_582_912.0;

/// Subtracted before rounding to nearest, this makes it cut: products have eight significant bits,
/// so a number of at least 1 is a multiple of 2^-7 and one below 1 is at most 1 - 2^-8.
const CUT: f32 = 0.5 - 1.0 / 512.0;

/// What the code of an exponent is above the exponent; zero has the code 0. The exponents of all
/// formats lie between -14 and 15, so codes of two numbers other than zero add up to
/// [`LEAST_SUM`] at least, and the sum is less if one is zero. Sums fit into a byte, of which
/// sixteen are compared at once.
const EXPONENT_BIAS: u32 = 78;
const LEAST_SUM: u8 = 128;

/// Decoded numbers, prepared for the model: 32 of K in each row of A or column of B.
pub(super) struct Operand<const M: usize> {
    /// The numbers themselves.
    decoded: [[f32; 32]; M],
    /// The numbers with zeros for infinities and NaN.
    values: [[f32; 32]; M],
    /// The codes of their exponents.
    codes: [[u8; 32]; M],
    /// Whether there is an infinity or a NaN.
    special: bool,
}

impl<const M: usize> Operand<M> {
    /// Prepares decoded numbers. Loops, because functions of whole arrays are calls for each
    /// element where these become vector code.
    pub(super) fn new(element: ElementType, decoded: [[f32; 32]; M]) -> Self {
        let smallest = element.smallest_scale().to_bits() >> 23;
        let mut values = decoded;
        let mut codes = [[0; 32]; M];
        let mut specials = 0;
        for (values, codes) in values.iter_mut().zip(&mut codes) {
            for (value, code) in values.iter_mut().zip(codes) {
                let exponent = value.to_bits() >> 23 & 0xFF;
                specials |= u32::from(exponent == 0xFF);
                *value = if exponent == 0xFF { 0.0 } else { *value };
                let above_zero = exponent.max(smallest) + EXPONENT_BIAS - 127;
                *code = if *value == 0.0 { 0 } else { above_zero as u8 };
            }
        }
        Self { decoded, values, codes, special: specials != 0 }
    }
}

/// Adds `a * b` to the accumulators the way the tensor cores do. The columns of `b` are in the
/// order of their places in the sums.
///
/// Accumulators that are infinite or NaN stay what they are. Where a factor is infinite or NaN,
/// the sum is the IEEE one; other rows and columns do not notice.
pub(super) fn accumulate(a: &Operand<16>, b: &Operand<8>, sums: &mut Sums) {
    let before = *sums;
    for ((sums, values), codes) in sums.iter_mut().zip(&a.values).zip(&a.codes) {
        for ((sum, column), column_codes) in sums.iter_mut().zip(&b.values).zip(&b.codes) {
            let own = power_below(*sum as f32).max(SMALLEST);
            let largest = own.max(largest_product(codes, column_codes));
            *sum = add(values, column, largest, *sum);
        }
    }
    if a.special || b.special {
        replace_specials(a, b, before, sums);
    }
}

/// The power of two of the largest exponent of a product, zero without products.
#[inline(always)]
fn largest_product(row: &[u8; 32], column: &[u8; 32]) -> f32 {
    let mut largest = 0u8;
    for (row, column) in row.iter().zip(column) {
        largest = largest.max(row.wrapping_add(*column));
    }
    let exponent = u32::from(largest).wrapping_sub(2 * EXPONENT_BIAS).wrapping_add(127);
    if largest < LEAST_SUM { 0.0 } else { f32::from_bits(exponent << 23) }
}

/// Puts exact sums wherever they are not finite.
fn replace_specials(a: &Operand<16>, b: &Operand<8>, mut exact: Sums, sums: &mut Sums) {
    let columns = std::array::from_fn::<[f64; 8], 32, _>(|k| {
        std::array::from_fn(|place| f64::from(b.decoded[place][k]))
    });
    multiply(&widen(&a.decoded), &columns, &mut exact);
    for (sum, exact) in sums.as_flattened_mut().iter_mut().zip(exact.as_flattened()) {
        *sum = if exact.is_finite() { *sum } else { *exact };
    }
}

#[inline(always)]
fn add(row: &[f32; 32], column: &[f32; 32], largest: f32, sum: f64) -> f64 {
    let per_unit = units_of(largest);
    // The sum of the bits of whole numbers with the rounder added, whose own are taken off below.
    let mut bits = 0u32;
    for (factor, value) in row.iter().zip(column) {
        let units = factor * value * per_unit;
        let rounded = (units - CUT.copysign(units)) + ROUNDER;
        bits = bits.wrapping_add(rounded.to_bits());
    }
    let count = bits.wrapping_sub(ROUNDER.to_bits().wrapping_mul(32)) as i32;
    let per_unit = f64::from(per_unit);
    // Below 2^14 in magnitude, since the scale is at least that of the accumulator.
    let kept = f64::from((sum * per_unit) as i32);
    if sum.is_finite() { (kept + f64::from(count)) / per_unit } else { sum }
}

/// How many units of the last kept place a number of this scale has: 2^13 divided by the scale.
fn units_of(scale: f32) -> f32 {
    f32::from_bits(((254 + FRACTION_BITS) << 23).wrapping_sub(scale.to_bits()))
}

/// The largest power of two that is not larger in magnitude; zero below the normal numbers.
fn power_below(value: f32) -> f32 {
    f32::from_bits(value.to_bits() & 0x7F80_0000)
}
