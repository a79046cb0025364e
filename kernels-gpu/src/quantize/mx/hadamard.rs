//! The random Hadamard transform of NVFP4, of 16 rows of a column.

use ptx_std::convert::{bf16x2_to_f32, f32_to_bf16x2, fma, max_magnitude_bf16x2};

use super::source::{MAGNITUDES, largest};
use super::unroll::{array8, each8, each16};

/// The signs that values get before the transform: those whose bit is set are negated.
const SIGN_MASK: u32 = 0xd7e8;

/// `v · diag(signs) · H₁₆ / 4`, with `H₁₆` the Hadamard matrix of Sylvester's construction, rounded
/// to BF16 pairs. In FP32 with this order of operations: multiply by ±¼, then add and subtract
/// values at distance 1, then 2, 4 and 8. The right one of each two neighbours is multiplied and
/// added with one rounding, which matters where a quarter is no number of FP32: below 2⁻¹²⁴.
#[inline(always)]
pub fn transform(values: [f32; 16]) -> [u32; 8] {
    let v = transform_in_f32(values);
    array8(|i| f32_to_bf16x2(v[2 * i], v[2 * i + 1]))
}

/// The same before it is rounded.
#[inline(always)]
pub fn transform_in_f32(values: [f32; 16]) -> [f32; 16] {
    let mut v = nearer_sums(values);
    butterflies::<8>(&mut v);
    v
}

/// The largest magnitude of [`transform_in_f32`]'s numbers; NaNs do not count.
#[inline(always)]
pub fn transformed_amax(values: [f32; 16]) -> f32 {
    // Of a sum and a difference, the larger magnitude is the sum of both magnitudes.
    let v = nearer_sums(values);
    largest(array8(|i| v[i].abs() + v[i + 8].abs()))
}

/// The transform but for the sums of values at distance 8.
#[inline(always)]
fn nearer_sums(values: [f32; 16]) -> [f32; 16] {
    let factor = |i: usize| if SIGN_MASK >> i & 1 == 1 { -0.25 } else { 0.25 };
    let mut v = values;
    each8(|pair| {
        let (i, j) = (2 * pair, 2 * pair + 1);
        let left = v[i] * factor(i);
        (v[i], v[j]) = (fma(v[j], factor(j), left), fma(v[j], -factor(j), left));
    });
    butterflies::<2>(&mut v);
    butterflies::<4>(&mut v);
    v
}

/// Adds and subtracts values at this distance.
#[inline(always)]
fn butterflies<const DISTANCE: usize>(v: &mut [f32; 16]) {
    each16(|i| {
        if i & DISTANCE == 0 {
            let (left, right) = (v[i], v[i + DISTANCE]);
            v[i] = left + right;
            v[i + DISTANCE] = left - right;
        }
    });
}

/// The largest magnitude of sixteen BF16 numbers; NaNs do not count, and alone give NaN.
#[inline(always)]
pub fn largest_of_pairs([a, b, c, d, e, f, g, h]: [u32; 8]) -> f32 {
    let max = max_magnitude_bf16x2;
    let all = max(max(max(a, b), max(c, d)), max(max(e, f), max(g, h)));
    let [low, high] = bf16x2_to_f32(all & MAGNITUDES);
    low.max(high)
}
