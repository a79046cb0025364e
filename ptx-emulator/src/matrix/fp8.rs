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

/// Adding and subtracting this rounds small numbers to whole ones.
const ROUNDER: f32 = 12_582_912.0;

/// Subtracted before rounding to nearest, this makes it cut: products have eight significant bits,
/// so a number of at least 1 is a multiple of 2^-7 and one below 1 is at most 1 - 2^-8.
const CUT: f32 = 0.5 - 1.0 / 512.0;

/// Decoded numbers, split for the model.
pub(super) struct Operand<const N: usize, const M: usize> {
    /// The numbers themselves.
    decoded: [[f32; N]; M],
    /// The numbers with zeros for infinities and NaN.
    values: [[f32; N]; M],
    /// The powers of two of their exponents; zero for zero.
    scales: [[f32; N]; M],
    /// Whether there is an infinity or a NaN.
    special: bool,
}

impl<const N: usize, const M: usize> Operand<N, M> {
    /// Splits decoded numbers.
    pub(super) fn new(element: ElementType, decoded: [[f32; N]; M]) -> Self {
        let smallest = element.smallest_scale();
        let finite = |value: f32| if value.is_finite() { value } else { 0.0 };
        let scale = |value: f32| {
            let power = power_below(value).max(smallest);
            if value == 0.0 { 0.0 } else { power }
        };
        let values = decoded.map(|row| row.map(finite));
        let scales = values.map(|row| row.map(scale));
        let special = decoded.as_flattened().iter().any(|value| !value.is_finite());
        Self { decoded, values, scales, special }
    }
}

/// Adds `a * b` to the accumulators the way the tensor cores do.
///
/// Accumulators that are infinite or NaN stay what they are. Where a factor is infinite or NaN,
/// the sum is the IEEE one; other rows and columns do not notice.
pub(super) fn accumulate(a: &Operand<32, 16>, b: &Operand<8, 32>, sums: &mut Sums) {
    let before = *sums;
    for ((sums, values), scales) in sums.iter_mut().zip(&a.values).zip(&a.scales) {
        let mut largest = sums.map(|sum| power_below(sum as f32).max(SMALLEST));
        for (scale, column_scales) in scales.iter().zip(&b.scales) {
            for (largest, column_scale) in largest.iter_mut().zip(column_scales) {
                let product = scale * column_scale;
                *largest = if product > *largest { product } else { *largest };
            }
        }
        *sums = add_row(values, &b.values, &largest, sums);
    }
    if a.special || b.special {
        replace_specials(a, b, before, sums);
    }
}

/// Puts exact sums wherever they are not finite.
fn replace_specials(a: &Operand<32, 16>, b: &Operand<8, 32>, mut exact: Sums, sums: &mut Sums) {
    multiply(&widen(&a.decoded), &widen(&b.decoded), &mut exact);
    for (sum, exact) in sums.as_flattened_mut().iter_mut().zip(exact.as_flattened()) {
        *sum = if exact.is_finite() { *sum } else { *exact };
    }
}

fn add_row(a: &[f32; 32], b: &[[f32; 8]; 32], largest: &[f32; 8], sums: &[f64; 8]) -> [f64; 8] {
    let per_unit = largest.map(units_of);
    let mut counts = [0.0f32; 8];
    for (factor, row) in a.iter().zip(b) {
        for ((count, per_unit), value) in counts.iter_mut().zip(&per_unit).zip(row) {
            let units = factor * value * per_unit;
            let whole = ((units.abs() - CUT) + ROUNDER) - ROUNDER;
            *count += whole.copysign(units);
        }
    }
    let mut results = [0.0; 8];
    for (place, result) in results.iter_mut().enumerate() {
        let sum = sums[place];
        let per_unit = f64::from(per_unit[place]);
        // Below 2^14 in magnitude, since the scale is at least that of the accumulator.
        let kept = f64::from((sum * per_unit) as i32);
        let total = kept + f64::from(counts[place]);
        *result = if sum.is_finite() { total / per_unit } else { sum };
    }
    results
}

/// How many units of the last kept place a number of this scale has: 2^13 divided by the scale.
fn units_of(scale: f32) -> f32 {
    f32::from_bits(((254 + FRACTION_BITS) << 23).wrapping_sub(scale.to_bits()))
}

/// The largest power of two that is not larger in magnitude; zero below the normal numbers.
fn power_below(value: f32) -> f32 {
    f32::from_bits(value.to_bits() & 0x7F80_0000)
}
