//! Functional forms that move tensors between forms: from FP8 back, to padded groups and back.

use super::functional::{matrix, run};
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::plan::{
    DequantizeOperands, DequantizeProblem, GroupedOperand, Operands, PadOperands, PadProblem,
    Padding, Problem,
};
use crate::splits::Splits;
use crate::tensor::{Direction, GroupedTensor, QuantizedTensor, SourceShape, Tensor, missing_copy};

/// Where a restored tensor goes.
#[derive(Debug)]
pub enum DequantizeSink<'a> {
    /// `[T, features]`, for tokens, with the rows of each group.
    Tokens(&'a mut Tensor, &'a Splits),
    /// A matrix per group, for weights.
    Weights(&'a mut GroupedTensor),
}

/// Restores one copy of a quantized tensor, in whatever [`Form`](crate::Form), into the shape of
/// its source: every element is its number times the scale of its block (FP8: `scale_inv`), of
/// NVFP4 times `amax · (1 / (6 · bound))` of its group or row, too, in FP32, rounded to the type of
/// the result (BF16, FP16 or FP32). Rows of tokens at and beyond `Σ m_g` keep what they held. A
/// copy that was [transformed](crate::recipe::Transform) has no way back: its rows are mixed.
///
/// To quantize in the other direction what exists in one only, restore it and [`quantize`] again;
/// that rounds twice.
///
/// [`quantize`]: super::functional::quantize
///
/// # Errors
/// A copy that was not made, or was transformed; shapes, types or devices that do not fit; overlap;
/// a device without kernels; a driver failure.
pub fn dequantize(
    stream: &Stream,
    source: &QuantizedTensor,
    direction: Direction,
    destination: DequantizeSink<'_>,
) -> Result<()> {
    let spec = source.spec();
    let copy = source.copy(direction).ok_or_else(|| missing_copy("source", direction))?;
    source.check_device("source", stream)?;
    let (output, splits, destination) = match (spec.source, &destination) {
        (SourceShape::Tokens { .. }, DequantizeSink::Tokens(tensor, splits)) => {
            (tensor.dtype(), Some(*splits), GroupedOperand::Rows(tensor))
        }
        (SourceShape::Weights { .. }, DequantizeSink::Weights(grouped)) => {
            (grouped.dtype(), None, GroupedOperand::Groups(grouped))
        }
        (SourceShape::Tokens { .. }, _) => {
            return Err(Error::invalid("tokens are restored into DequantizeSink::Tokens"));
        }
        (SourceShape::Weights { .. }, _) => {
            return Err(Error::invalid("weights are restored into DequantizeSink::Weights"));
        }
    };
    let problem: Problem =
        DequantizeProblem { source: spec, direction, output, exact: false }.into();
    let want = problem.output();
    let rows = match destination {
        GroupedOperand::Rows(tensor) => {
            tensor.check("destination", &want.shape, want.dtype, stream)?;
            want.shape[0]
        }
        GroupedOperand::Groups(grouped) => {
            grouped.check_packed("destination", &want, stream)?;
            0
        }
    };
    let operands = DequantizeOperands { copy, spec, splits, destination };
    run(stream, problem, &Operands::Dequantize(operands), spec.groups, rows)
}

/// Tokens `[T, C]` into `padded [P, C]`, in which every group begins at a multiple of `row_align`
/// rows: group g's rows, then zeros up to the next multiple. Rows behind the last group keep what
/// they held. `P` is `⌊(T + (row_align - 1) · min(G, T)) / row_align⌋ · row_align`, which is enough
/// for any splits; the library's own operations need no such padding.
///
/// ```
/// use grouped_linear::functional::{pad, unpad};
/// use grouped_linear::{DType, Device, Splits, Tensor};
/// let stream = Device::cpu().stream()?;
/// let x = Tensor::from_f32(&stream, &[3, 1], DType::F32, &[1., 2., 3.])?;
/// let splits = Splits::host(&[1, 2])?;
/// let mut padded = Tensor::zeros(&stream, &[4, 1], DType::F32)?;
/// pad(&stream, &x, &splits, 2, &mut padded)?;
/// assert_eq!(padded.to_f32(&stream)?, [1., 0., 2., 3.]);
/// let mut back = Tensor::zeros(&stream, &[3, 1], DType::F32)?;
/// unpad(&stream, &padded, &splits, 2, &mut back)?;
/// assert_eq!(back.to_f32(&stream)?, [1., 2., 3.]);
/// # Ok::<(), grouped_linear::Error>(())
/// ```
///
/// # Errors
/// Shapes, types, devices or splits that do not fit; overlap; a device without kernels; a driver
/// failure.
pub fn pad(
    stream: &Stream,
    x: &Tensor,
    splits: &Splits,
    row_align: usize,
    padded: &mut Tensor,
) -> Result<()> {
    let (rows, columns) = matrix("x", x)?;
    let (groups, dtype, way) = (splits.groups(), x.dtype(), Padding::Pad);
    let problem = PadProblem { way, groups, rows, columns, dtype, row_align };
    x.check_device("x", stream)?;
    move_rows(stream, problem, x, splits, ("padded", padded))
}

/// What [`pad`] made, back to tokens: also the gradient of [`pad`], as [`pad`] is that of `unpad`.
/// Rows of `x` at and beyond `Σ m_g` keep what they held.
///
/// # Errors
/// As [`pad`].
pub fn unpad(
    stream: &Stream,
    padded: &Tensor,
    splits: &Splits,
    row_align: usize,
    x: &mut Tensor,
) -> Result<()> {
    let (rows, columns) = matrix("x", x)?;
    let (groups, dtype, way) = (splits.groups(), padded.dtype(), Padding::Unpad);
    let problem = PadProblem { way, groups, rows, columns, dtype, row_align };
    padded.check("padded", &[problem.padded_rows(), columns], dtype, stream)?;
    move_rows(stream, problem, padded, splits, ("x", x))
}

fn move_rows(
    stream: &Stream,
    problem: PadProblem,
    source: &Tensor,
    splits: &Splits,
    (name, destination): (&'static str, &Tensor),
) -> Result<()> {
    let (groups, rows) = (problem.groups, problem.rows);
    let problem: Problem = problem.into();
    let want = problem.output();
    destination.check(name, &want.shape, want.dtype, stream)?;
    let operands = Operands::Pad(PadOperands { source, splits, destination });
    run(stream, problem, &operands, groups, rows)
}
