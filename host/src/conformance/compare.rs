//! How close a result must be to the oracle.

use std::fmt;

use super::data::round;
use crate::tensor::DType;

/// Where an element of a result lies, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Expert.
    pub expert: usize,
    /// Row: of the token matrix, or of the expert's gradient.
    pub row: usize,
    /// Column.
    pub column: usize,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {}, column {} (expert {})", self.row, self.column, self.expert)
    }
}

/// Limits for results of one type.
///
/// An element may be off by `absolute + relative · |reference| + accumulation · Σ|a·b|`: what
/// TransformerEngine's tests allow for the type, plus what a correct FP32 accumulation over a long
/// reduction can lose to cancellation. The Frobenius norm of all differences is held more tightly:
/// to that of the reference's own rounding to the type, plus `accumulation` times that of Σ|a·b|.
/// (How far a number lies from its rounded value changes by no more than the number does.) An error
/// that single elements would hide shows there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Factor of the reference.
    pub relative: f64,
    /// Constant.
    pub absolute: f64,
    /// Factor of the sum of the absolute products.
    pub accumulation: f64,
    /// Factor of the reference's norm, in place of `accumulation` times that of the sums; 0 for
    /// products in high precision.
    pub norm: f64,
}

impl Tolerance {
    /// The limits for a result of type `dtype`.
    pub fn of(dtype: DType) -> Self {
        let accumulation = 2.0f64.powi(-22);
        let (relative, absolute) = match dtype {
            DType::Bf16 => (1.6e-2, 1e-5),
            DType::F16 => (1e-3, 1e-5),
            _ => (1.3e-6, 1e-5),
        };
        Self { relative, absolute, accumulation, norm: 0.0 }
    }
}

/// Compares a result with the reference, element by element and as a whole; `magnitude` is the sum
/// of the absolute values of what is added up in each element.
///
/// # Errors
/// The message names the worst element.
pub fn compare(
    what: &str,
    dtype: DType,
    got: &[f32],
    want: &[f64],
    magnitude: &[f64],
    locate: &dyn Fn(usize) -> Location,
) -> Result<(), String> {
    compare_within(what, dtype, Tolerance::of(dtype), got, want, magnitude, locate)
}

/// As [`compare`], with other limits.
///
/// # Errors
/// The message names the worst element.
pub fn compare_within(
    what: &str,
    dtype: DType,
    tolerance: Tolerance,
    got: &[f32],
    want: &[f64],
    magnitude: &[f64],
    locate: &dyn Fn(usize) -> Location,
) -> Result<(), String> {
    if got.len() != want.len() || got.len() != magnitude.len() {
        return Err(format!("{what}: {} elements, the reference has {}", got.len(), want.len()));
    }
    let mut worst = (0.0, 0);
    let mut wrong = 0;
    let (mut difference, mut rounding, mut reference, mut size) = (0.0, 0.0, 0.0, 0.0);
    for (index, ((&got, &want), &magnitude)) in got.iter().zip(want).zip(magnitude).enumerate() {
        let error = (f64::from(got) - want).abs();
        let limit = tolerance.absolute
            + tolerance.relative * want.abs()
            + tolerance.accumulation * magnitude;
        // A NaN compares false with everything: count it as infinitely wrong.
        let excess = if error.is_nan() { f64::INFINITY } else { error / limit };
        wrong += usize::from(excess > 1.0);
        if excess > worst.0 {
            worst = (excess, index);
        }
        difference += error * error;
        rounding += (f64::from(round(want as f32, dtype)) - want).powi(2);
        reference += want * want;
        size += magnitude * magnitude;
    }
    if wrong > 0 {
        let (excess, index) = worst;
        return Err(format!(
            "{what}: {wrong} of {} elements are wrong; the worst, {excess:.3e} times the limit, is \
             {} instead of {} at {}",
            got.len(),
            got[index],
            want[index],
            locate(index)
        ));
    }
    let accumulated = match tolerance.norm {
        0.0 => tolerance.accumulation * size.sqrt(),
        norm => norm * reference.sqrt(),
    };
    let limit = rounding.sqrt() + accumulated;
    if difference.sqrt() > limit {
        let (excess, index) = worst;
        return Err(format!(
            "{what}: every element is within its limit, but the Frobenius norm of the error is \
             {:.3e}, the limit {limit:.3e} (reference {:.3e}); the worst element, {excess:.3} \
             times its limit, is {} instead of {} at {}",
            difference.sqrt(),
            reference.sqrt(),
            got[index],
            want[index],
            locate(index)
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(dtype: DType, got: &[f32], want: &[f64]) -> Result<(), String> {
        let magnitude: Vec<f64> = want.iter().map(|value| value.abs()).collect();
        compare("it", dtype, got, want, &magnitude, &|column| Location {
            expert: 0,
            row: 0,
            column,
        })
    }

    /// Between two BF16 numbers, as far from both as can be.
    const HALF_WAY: f64 = 16.0625;

    #[test]
    fn a_rounded_reference_passes_however_few_elements_there_are() {
        for count in [1, 3, 1000] {
            assert_eq!(outcome(DType::Bf16, &vec![16.0; count], &vec![HALF_WAY; count]), Ok(()));
        }
    }

    /// Each element is the second nearest number, which its own limit allows.
    #[test]
    fn the_norm_finds_errors_that_elements_hide() {
        for count in [1, 3, 1000] {
            let want: Vec<f64> = (0..count).map(|i| 16.0 + 0.125 * (i % 8) as f64).collect();
            let right: Vec<f32> = want.iter().map(|&value| value as f32).collect();
            assert_eq!(outcome(DType::Bf16, &right, &want), Ok(()));
            let wrong: Vec<f32> = right.iter().map(|value| value + 0.125).collect();
            let message = outcome(DType::Bf16, &wrong, &want).expect_err("one unit too much");
            assert!(message.contains("Frobenius"), "{message}");
        }
    }

    #[test]
    fn elements_and_missing_numbers_are_found() {
        for wrong in [17.0, f32::NAN, f32::INFINITY] {
            let message = outcome(DType::Bf16, &[16.0, wrong], &[16.0; 2]).expect_err("wrong");
            assert!(message.contains("1 of 2 elements are wrong"), "{message}");
            assert!(message.contains("column 1"), "{message}");
        }
    }
}
