//! How close a result must be to the oracle.

use std::fmt;

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
/// a constant error that single elements would hide shows there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Factor of the reference.
    pub relative: f64,
    /// Constant.
    pub absolute: f64,
    /// Factor of the sum of the absolute products.
    pub accumulation: f64,
    /// Factor of the Frobenius norm of the reference.
    pub norm: f64,
}

/// Results whose norm is made of fewer elements are held to the largest rounding error rather than
/// the typical one.
const FEW: f64 = 512.0;

impl Tolerance {
    /// The limits for a result of type `dtype` that should be `want`.
    pub fn of(dtype: DType, want: &[f64]) -> Self {
        let accumulation = 2.0f64.powi(-22);
        // The norm: rounding to nearest is off by 2^-8, 2^-11, 2^-24 at most, and by 0.42 times
        // that in the mean square over a decade of values.
        let (relative, absolute, unit) = match dtype {
            DType::Bf16 => (1.6e-2, 1e-5, 2.0f64.powi(-8)),
            DType::F16 => (1e-3, 1e-5, 2.0f64.powi(-11)),
            _ => (1.3e-6, 1e-5, 2.0f64.powi(-24)),
        };
        let norm = if deciding(want) < FEW { unit } else { 0.5 * unit };
        Self { relative, absolute, accumulation, norm }
    }
}

/// How many elements make up the norm: all, if they are of one size; about as many as the largest
/// expert has, if its elements outweigh all others. (The square of the sum of squares, by the sum
/// of fourth powers.)
fn deciding(values: &[f64]) -> f64 {
    let squares = values.iter().map(|value| value * value);
    let fourths: f64 = squares.clone().map(|square| square * square).sum();
    let sum: f64 = squares.sum();
    if fourths > 0.0 { sum * sum / fourths } else { 0.0 }
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
    if got.len() != want.len() || got.len() != magnitude.len() {
        return Err(format!("{what}: {} elements, the reference has {}", got.len(), want.len()));
    }
    let tolerance = Tolerance::of(dtype, want);
    let mut worst = (0.0, 0);
    let mut wrong = 0;
    let (mut difference, mut reference, mut size) = (0.0, 0.0, 0.0);
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
    let limit = tolerance.norm * reference.sqrt() + tolerance.accumulation * size.sqrt();
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
