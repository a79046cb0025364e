//! The random Hadamard transform of NVFP4: sixteen values are mixed, so that an outlier is shared
//! among sixteen codes. Both operands of a product are transformed along the contraction; the
//! transform is orthogonal, so the product stays the same. *Pretraining Large Language Models with
//! NVFP4* (arXiv 2509.25149) has it for gradients of weights; size, signs and rounding are those of
//! TransformerEngine 2.20, `pytorch/tensor/nvfp4_tensor.py` and `common/hadamard_transform`.

use half::bf16;

/// Values that are transformed together.
pub const LENGTH: usize = 16;

/// The signs that the values get before the transform: those whose bit is set are negated.
pub const SIGN_MASK: u16 = 0xd7e8;

/// `v · diag(signs) · H₁₆ / 4`, with `H₁₆` the Hadamard matrix of Sylvester's construction, in FP32
/// with this order of operations: multiply by ±¼, then add and subtract values at distance 1, then
/// 2, 4 and 8. The right one of each two neighbours is multiplied and added with one rounding,
/// which matters where a quarter is no number of FP32: below 2⁻¹²⁴.
///
/// ```
/// use grouped_linear::numerics::hadamard;
/// let mut values = [0.0; 16];
/// values[0] = 4.0;
/// assert_eq!(hadamard::transform(&values), [1.0; 16]); // the outlier is shared
/// ```
pub fn transform(values: &[f32; LENGTH]) -> [f32; LENGTH] {
    let factor = |index: usize| if SIGN_MASK >> index & 1 == 1 { -0.25 } else { 0.25 };
    let mut mixed = [0.0; LENGTH];
    for index in (0..LENGTH).step_by(2) {
        let (left, right) = (values[index] * factor(index), values[index + 1]);
        mixed[index] = right.mul_add(factor(index + 1), left);
        mixed[index + 1] = right.mul_add(-factor(index + 1), left);
    }
    for distance in [2, 4, 8] {
        for index in (0..LENGTH).filter(|index| index & distance == 0) {
            let (left, right) = (mixed[index], mixed[index + distance]);
            mixed[index] = left + right;
            mixed[index + distance] = left - right;
        }
    }
    mixed
}

/// As [`transform`], rounded to BF16: what is quantized.
pub fn transform_bf16(values: &[f32; LENGTH]) -> [f32; LENGTH] {
    transform(values).map(|value| bf16::from_f32(value).to_f32())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry of the matrix: the sign of row `row`, and −1 to the number of bits that both
    /// indices have, over 4.
    fn entry(row: usize, column: usize) -> f64 {
        const SIGNS: [f64; 16] = [
            1.0, 1.0, 1.0, -1.0, 1.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0, 1.0, -1.0, 1.0, -1.0,
            -1.0,
        ];
        let parity = if (row & column).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
        SIGNS[row] * parity / 4.0
    }

    #[test]
    fn is_the_product_with_the_matrix() {
        // Small integers, so that every order of operations is exact.
        let values: [f32; 16] = std::array::from_fn(|i| ((i * 37 + 11) % 29) as f32 - 14.0);
        let got = transform(&values);
        for (column, got) in got.iter().enumerate() {
            let want: f64 = (0..16).map(|row| f64::from(values[row]) * entry(row, column)).sum();
            assert_eq!(f64::from(*got), want, "column {column}");
        }
    }

    #[test]
    fn products_of_transformed_values_stay_the_same() {
        let left: [f32; 16] = std::array::from_fn(|i| ((i * 5 + 3) % 13) as f32 - 6.0);
        let right: [f32; 16] = std::array::from_fn(|i| ((i * 7 + 1) % 11) as f32 - 5.0);
        let dot = |a: &[f32; 16], b: &[f32; 16]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        assert_eq!(dot(&transform(&left), &transform(&right)), dot(&left, &right));
    }

    #[test]
    fn rounds_to_bf16_at_the_end() {
        let values: [f32; 16] = std::array::from_fn(|i| 1.0 + i as f32 / 128.0);
        let exact = transform(&values);
        let rounded = transform_bf16(&values);
        assert!(exact.iter().zip(&rounded).any(|(exact, rounded)| exact != rounded));
        for (exact, rounded) in exact.iter().zip(&rounded) {
            assert_eq!(rounded.to_bits() & 0xffff, 0);
            assert!((exact - rounded).abs() <= exact.abs() / 256.0);
        }
    }
}
