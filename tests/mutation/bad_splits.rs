//! Splits that only the device knows to be wrong: reported once, and nothing is written.

use grouped_linear::functional::{self, DbiasArgs, GemmOptions, WgradArgs};
use grouped_linear::{Accumulate, DType, Device, GroupedTensor, Result, Splits, Stream, Tensor};

/// Rows of the token buffer.
const ROWS: usize = 6;
/// Features.
const FEATURES: usize = 8;
/// What outputs hold before, and after.
const HELD: f32 = 7.0;

/// Wrong splits, one list after the other on a stream.
#[derive(Clone, Debug)]
pub struct BadSplits {
    /// The type of a weight gradient's operands; the operation is dbias if absent.
    pub product: Option<DType>,
    /// The type of the splits.
    pub dtype: DType,
    /// Rows of each group.
    pub splits: Vec<Vec<i64>>,
    /// What the synchronisation after the last must say.
    pub message: &'static str,
}

impl BadSplits {
    /// Runs it.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn run(&self, device: &Device) -> Result<(), String> {
        let failed = |error| format!("failed: {error}");
        let stream = device.stream().map_err(failed)?;
        let outputs = self.launch(&stream).map_err(failed)?;
        match stream.synchronize() {
            Ok(()) => return Err("bad splits were not reported".to_owned()),
            Err(error) if error.to_string().contains(self.message) => {}
            Err(error) => return Err(format!("`{}` was to be said, not: {error}", self.message)),
        }
        stream.synchronize().map_err(|error| format!("reported twice: {error}"))?;
        for output in outputs {
            if output.to_f32(&stream).map_err(failed)?.iter().any(|&value| value != HELD) {
                return Err("bad splits, and yet something was written".to_owned());
            }
        }
        Ok(())
    }

    fn launch(&self, stream: &Stream) -> Result<Vec<Tensor>> {
        let mut outputs = Vec::new();
        for counts in &self.splits {
            let splits = Splits::device(match self.dtype {
                DType::I32 => {
                    let counts: Vec<i32> = counts.iter().map(|&count| count as i32).collect();
                    Tensor::from_slice(stream, &[counts.len()], &counts)?
                }
                _ => Tensor::from_slice(stream, &[counts.len()], counts)?,
            })?;
            let filled = |shape: &[usize], dtype, value| {
                Tensor::from_f32(stream, shape, dtype, &vec![value; shape.iter().product()])
            };
            let rows = [ROWS, FEATURES];
            let output = match self.product {
                Some(operands) => {
                    let shape = [counts.len(), FEATURES, FEATURES];
                    let output = filled(&shape, operands, HELD)?;
                    let tokens = filled(&rows, operands, 1.0)?;
                    let (dy, x, options) = (&tokens, &tokens, GemmOptions::default());
                    let args = WgradArgs { dy, x, splits: &splits, options };
                    functional::wgrad(stream, &args, &mut GroupedTensor::packed(output.clone())?)?;
                    output
                }
                None => {
                    let output = filled(&[counts.len(), FEATURES], DType::F32, HELD)?;
                    let (dy, accumulate) =
                        (&filled(&rows, DType::F32, 1.0)?, Accumulate::Overwrite);
                    let args = DbiasArgs { dy, splits: &splits, row_scales: None, accumulate };
                    functional::dbias(stream, &args, &mut GroupedTensor::packed(output.clone())?)?;
                    output
                }
            };
            outputs.push(output);
        }
        Ok(outputs)
    }
}
