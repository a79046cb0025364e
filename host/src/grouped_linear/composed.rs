//! Functional forms in low precision that are made of others.

use super::functional::{
    DequantizeSink, QuantizeArgs, QuantizeSource, dequantize, matrix, quantize,
};
use super::quantized::check_quantize;
use super::random::RandomState;
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::plan::Operands;
use crate::quantize::check_placed;
use crate::recipe::{ErrorMeasure, Format, ScaleRule};
use crate::splits::Splits;
use crate::tensor::{Direction, Form, QuantizedSpec, QuantizedTensor, SourceShape, Tensor};

/// How tensors are quantized, whatever they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct QuantizeOptions<'a> {
    /// How scales follow from magnitudes (FP8).
    pub scale: ScaleRule,
    /// NVFP4: blocks map their largest magnitude to 6 or to 4, by this error; `None`: to 6.
    pub four_over_six: Option<ErrorMeasure>,
    /// NVFP4: elements are rounded at random, with numbers drawn from this state.
    pub random: Option<&'a RandomState>,
    /// A flag on the device ([`QuantizeArgs::skip`]): where it is not zero, nothing is quantized,
    /// and no random state moves.
    pub skip: Option<&'a Tensor>,
}

impl<'a> QuantizeOptions<'a> {
    fn args(&self, source: QuantizeSource<'a>) -> QuantizeArgs<'a> {
        let Self { scale, four_over_six, random, skip } = *self;
        QuantizeArgs { scale, four_over_six, random, skip, ..QuantizeArgs::new(source) }
    }
}

/// Quantizes the rows of `x [T, C]` into a tensor of its own for each split: `splits[i]` rows, one
/// group. Rows beyond the splits are not read. The copies are those of `forms`, rowwise and
/// columnwise.
///
/// Every tensor takes launches of its own, and the splits must be known on the host; [`quantize`]
/// of all groups into one tensor needs neither, and is what layers do.
///
/// ```
/// use grouped_linear::functional::{QuantizeOptions, split_quantize};
/// use grouped_linear::recipe::{Blocks, Format};
/// use grouped_linear::*;
/// let stream = Device::cpu().stream()?;
/// let x = Tensor::from_f32(&stream, &[4, 16], DType::Bf16, &[0.5; 64])?;
/// let format = Format::fp8(DType::E4m3, Blocks::Vector);
/// let forms = [Some(Form::Codes), None];
/// let parts = split_quantize(&stream, &x, &[1, 3], format, forms, QuantizeOptions::default())?;
/// let rows = parts.iter().map(|part| part.spec().source.rows());
/// assert_eq!(rows.collect::<Vec<_>>(), [1, 3]);
/// # Ok::<(), grouped_linear::Error>(())
/// ```
///
/// # Errors
/// Splits of more rows than there are, before anything is launched; otherwise as [`quantize`].
pub fn split_quantize(
    stream: &Stream,
    x: &Tensor,
    splits: &[usize],
    format: Format,
    [rowwise, columnwise]: [Option<Form>; 2],
    options: QuantizeOptions<'_>,
) -> Result<Vec<QuantizedTensor>> {
    let (rows, features) = matrix("x", x)?;
    let wanted = splits.iter().try_fold(0usize, |sum, &split| sum.checked_add(split));
    if wanted.is_none_or(|wanted| wanted > rows) {
        let wanted = wanted.map_or("more than can be counted".to_owned(), |sum| sum.to_string());
        return Err(Error::invalid(format!(
            "splits: they add up to {wanted} rows, x has {rows}; pass smaller splits or a larger x"
        )));
    }
    let mut first = 0;
    let mut parts = Vec::with_capacity(splits.len());
    for &rows in splits {
        let source = SourceShape::Tokens { rows, features };
        let spec = QuantizedSpec { groups: 1, source, format, rowwise, columnwise };
        let part = QuantizedTensor::empty(stream, spec)?;
        parts.push((x.narrow(first, rows)?, Splits::host(&[rows])?, part));
        first += rows;
    }
    // What may find no memory, before the random state moves.
    let mut scratch = 0;
    for (own, one, part) in &parts {
        let args = options.args(QuantizeSource::Tokens(own, one));
        check_quantize(stream, args, part, |plan, _| {
            scratch = scratch.max(plan.scratch_bytes());
            Ok(())
        })?;
    }
    parts.iter().try_for_each(|(_, one, _)| stream.reserve(one, scratch))?;
    for (own, one, part) in &mut parts {
        quantize(stream, options.args(QuantizeSource::Tokens(own, one)), part)?;
    }
    Ok(parts.into_iter().map(|(_, _, part)| part).collect())
}

/// Makes the copies that `destination` has from the rowwise copy of quantized tokens, say the
/// columnwise one that the gradient of the weights reads, of tokens that arrive quantized: they are
/// restored into `scratch [T, C]` (BF16, FP16 or FP32) and quantized again, so they are rounded
/// twice.
///
/// # Errors
/// Weights, which [`dequantize`] and [`quantize`] do the same for; tokens of other sizes on the two
/// sides; a source without rowwise copy; a destination that overlaps it, if only in scales that the
/// two copies of one tensor share; otherwise as [`dequantize`] and [`quantize`].
pub fn requantize(
    stream: &Stream,
    source: &QuantizedTensor,
    splits: &Splits,
    options: QuantizeOptions<'_>,
    scratch: &mut Tensor,
    destination: &mut QuantizedTensor,
) -> Result<()> {
    let (from, to) = (source.spec(), destination.spec());
    if matches!(from.source, SourceShape::Weights { .. }) {
        return Err(Error::invalid(
            "source: weights were given, and tokens are quantized again here; use `dequantize` and \
             `quantize`, each with weights",
        ));
    }
    if (from.groups, from.source) != (to.groups, to.source) {
        return Err(Error::invalid(format!(
            "destination: it was made for {:?} in {} groups, {:?} in {} is given",
            to.source, to.groups, from.source, from.groups
        )));
    }
    // Scales that both copies of one tensor share are enough: the source would have other ones than
    // its codes were made with.
    if destination.tensors().any(|own| source.tensors().any(|from| own.overlaps(from))) {
        return Err(Error::invalid(
            "destination: what is written of it overlaps the source; give it memory of its own, \
             scales included",
        ));
    }
    // All that can be refused is refused before the scratch memory is written.
    let args = options.args(QuantizeSource::Tokens(scratch, splits));
    check_quantize(stream, args, destination, |plan, operands| match operands {
        Operands::Quantize(operands) => check_placed(plan, operands),
        _ => Ok(()),
    })?;
    let sink = DequantizeSink::Tokens(scratch, splits);
    dequantize(stream, source, Direction::Rowwise, sink)?;
    quantize(stream, options.args(QuantizeSource::Tokens(scratch, splits)), destination)
}
