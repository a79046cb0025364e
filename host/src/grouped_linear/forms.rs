//! Functional forms that change how a quantized tensor is stored, not what it stands for.

use super::functional::run;
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::plan::{
    DequantizeOperands, DequantizeProblem, GroupedOperand, Operands, Overlaps, Plan,
    SwizzleOperands, SwizzleProblem,
};
use crate::quantize::check_restored;
use crate::splits::Splits;
use crate::tensor::{
    COLUMNWISE, DType, Direction, Form, QuantizedCopy, QuantizedSpec, QuantizedTensor, ROWWISE,
    SourceShape, Tensor, missing_copy,
};

/// The names of parts that are the same however a copy is stored.
const DATA: [&str; 2] = [ROWWISE[0], COLUMNWISE[0]];
const AMAX: [&str; 2] = [ROWWISE[2], COLUMNWISE[2]];

/// Makes the exact numbers ([`Form::Exact`]) that GPUs multiply of the codes of MXFP8 or NVFP4, for
/// every copy that `destination` has; say of activations that arrive quantized. Tokens have
/// `splits`; where the device refuses those, no number is written, but magnitudes are copied.
///
/// ```
/// use grouped_linear::functional::{QuantizeArgs, QuantizeSource, quantize, restore_exact};
/// use grouped_linear::recipe::{BlockShape, Format};
/// use grouped_linear::*;
/// let stream = Device::cpu().stream()?;
/// let x = Tensor::from_f32(&stream, &[3, 32], DType::Bf16, &[0.75; 96])?;
/// let splits = Splits::host(&[1, 2])?;
/// let codes = QuantizedSpec {
///     groups: 2,
///     source: SourceShape::Tokens { rows: 3, features: 32 },
///     format: Format::Mxfp8 { dtype: DType::E4m3, blocks: BlockShape::Line },
///     rowwise: Some(Form::Codes),
///     columnwise: None,
/// };
/// let mut quantized = QuantizedTensor::empty(&stream, codes)?;
/// quantize(&stream, QuantizeArgs::new(QuantizeSource::Tokens(&x, &splits)), &mut quantized)?;
/// let exact = QuantizedSpec { rowwise: Some(Form::Exact), ..codes };
/// let mut exact = QuantizedTensor::empty(&stream, exact)?;
/// restore_exact(&stream, &quantized, Some(&splits), &mut exact)?;
/// let rowwise = exact.copy(Direction::Rowwise).unwrap();
/// assert_eq!(rowwise.data.to_f32(&stream)?, [0.75; 96]);
/// # Ok::<(), grouped_linear::Error>(())
/// ```
///
/// # Errors
/// Tensors of different sources or formats; FP8 with FP32 scales, which is multiplied as it is; a
/// copy that `source` lacks, or has no codes of, or that `destination` has in codes; tokens without
/// splits; overlap; a driver failure.
pub fn restore_exact(
    stream: &Stream,
    source: &QuantizedTensor,
    splits: Option<&Splits>,
    destination: &mut QuantizedTensor,
) -> Result<()> {
    let format = source.spec().format;
    if !format.is_micro() {
        return Err(Error::unsupported(format!(
            "source: exact numbers were asked for of {format}; FP8 with FP32 scales has none in BF16, \
             and needs none: products read its codes"
        )));
    }
    let change = Change::new(stream, source, splits, destination)?;
    let mut done = false;
    let mut work = Vec::new();
    for (direction, from, to) in change.copies()? {
        if destination.spec().form(direction) != Some(Form::Exact) {
            return Err(Error::invalid("destination: exact numbers are made, ask for Form::Exact"));
        }
        let problem = DequantizeProblem {
            source: source.spec(),
            direction,
            output: DType::Bf16,
            exact: true,
        };
        let plan = Plan::new(problem.into(), stream.device().target())?;
        check_restored(&plan, from, std::slice::from_ref(&to.data))?;
        // Both copies of squares may be one.
        if !(done && destination.spec().shares_data()) {
            let destination = GroupedOperand::Rows(&to.data);
            let (copy, spec) = (from, source.spec());
            work.push((problem, DequantizeOperands { copy, spec, splits, destination }));
        }
        done = true;
    }
    change.check_parts(&AMAX)?;
    for (problem, operands) in work {
        change.run(problem.into(), &Operands::Dequantize(operands))?;
    }
    change.carry(&AMAX)
}

/// Puts the block scales of MXFP8 or NVFP4 into the order that block-scaled tensor cores read
/// ([`Form::Swizzled`]), or back, for every copy that `destination` has. Data and magnitudes are
/// copied, unless both tensors have them in the same memory. Tokens have `splits`; where the device
/// refuses those, scales are not written, and all else is.
///
/// # Errors
/// Tensors of different sources or formats; FP8 with FP32 scales; copies that are not in codes, or
/// in the same order on both sides; tokens without splits; overlap; a driver failure.
pub fn swizzle(
    stream: &Stream,
    source: &QuantizedTensor,
    splits: Option<&Splits>,
    destination: &mut QuantizedTensor,
) -> Result<()> {
    let format = source.spec().format;
    if !format.is_micro() {
        return Err(Error::unsupported(format!(
            "source: another order of scales was asked for of {format}; FP32 scales have one order, \
             in which products read them"
        )));
    }
    let change = Change::new(stream, source, splits, destination)?;
    let mut work = Vec::new();
    for (direction, from, to) in change.copies()? {
        let forms = [source.spec(), destination.spec()].map(|spec| spec.form(direction));
        let other = match forms[0] {
            Some(Form::Codes) => Form::Swizzled,
            Some(Form::Swizzled) => Form::Codes,
            _ => return Err(Error::invalid("source: exact numbers have no scales to reorder")),
        };
        if forms[1] != Some(other) {
            return Err(Error::invalid(format!(
                "destination: the {direction:?} copy of the source is in {:?}, so this one must be in \
                 {other:?}",
                forms[0].unwrap_or_default()
            )));
        }
        let problem = SwizzleProblem { source: source.spec(), direction };
        Plan::new(problem.into(), stream.device().target())?;
        let (scales, destination) = (&from.scale_inv, &to.scale_inv);
        work.push((problem, SwizzleOperands { scales, splits, destination }));
    }
    let parts = [DATA, AMAX].concat();
    change.check_parts(&parts)?;
    for (problem, operands) in work {
        change.run(problem.into(), &Operands::Swizzle(operands))?;
    }
    change.carry(&parts)
}

/// A quantized tensor to be stored in another way.
struct Change<'a> {
    stream: &'a Stream,
    source: &'a QuantizedTensor,
    splits: Option<&'a Splits>,
    destination: &'a QuantizedTensor,
    rows: usize,
}

impl<'a> Change<'a> {
    fn new(
        stream: &'a Stream,
        source: &'a QuantizedTensor,
        splits: Option<&'a Splits>,
        destination: &'a QuantizedTensor,
    ) -> Result<Self> {
        source.check_device("source", stream)?;
        destination.check_device("destination", stream)?;
        let (from, to) = (source.spec(), destination.spec());
        let kind = |spec: QuantizedSpec| (spec.groups, spec.source, spec.format);
        if kind(from) != kind(to) {
            return Err(Error::invalid(format!(
                "destination: it was made for {:?} in {}, {:?} in {} is given",
                to.source, to.format, from.source, from.format
            )));
        }
        let rows = match (from.source, splits) {
            (SourceShape::Tokens { rows, .. }, Some(splits)) => {
                splits.check(from.groups, rows, stream)?;
                rows
            }
            (SourceShape::Weights { .. }, None) => 0,
            (SourceShape::Tokens { .. }, None) => {
                return Err(Error::invalid("splits: tokens have them, none were given"));
            }
            (SourceShape::Weights { .. }, Some(_)) => {
                return Err(Error::invalid("splits: weights have none, some were given"));
            }
        };
        Ok(Self { stream, source, splits, destination, rows })
    }

    /// The copies of the destination, with those of the source.
    fn copies(&self) -> Result<Vec<(Direction, &'a QuantizedCopy, &'a QuantizedCopy)>> {
        let pair = |direction| {
            let from = self.source.copy(direction);
            let from = from.ok_or_else(|| missing_copy("source", direction))?;
            let to = self.destination.copy(direction);
            let to = to.ok_or_else(|| missing_copy("destination", direction))?;
            Ok((direction, from, to))
        };
        self.destination.directions().map(pair).collect()
    }

    fn run(&self, problem: crate::plan::Problem, operands: &Operands<'_>) -> Result<()> {
        run(self.stream, problem, operands, self.source.spec().groups, self.rows)
    }

    /// Refuses to write over the source, in whichever part or copy, and one part over another. What
    /// is carried may be in the same memory on both sides, and is not written then.
    fn check_parts(&self, carried: &[&str]) -> Result<()> {
        self.destination.check_shared("destination")?;
        // What the destination's copies hold once is taken from the rowwise one.
        if self.destination.directions().count() == 2 {
            self.source.check_shared("source")?;
        }
        let is_kept = |(name, to): &(&str, &Tensor)| {
            carried.contains(name) && self.source.part(name).is_some_and(|from| from.same_as(to))
        };
        let (kept, written): (Vec<_>, Vec<_>) = self.destination.parts().partition(is_kept);
        let mut overlaps = Overlaps::default();
        overlaps.read(self.source.tensors().chain(self.splits.and_then(Splits::device_tensor)));
        overlaps.read(kept.into_iter().map(|(_, part)| part));
        overlaps.write(written.into_iter().map(|(_, part)| part));
        if overlaps.any() {
            return Err(Error::invalid(
                "destination: what is written of it overlaps the source, the splits or another part; \
                 give it memory of its own, but for data or magnitudes that stay as they are",
            ));
        }
        Ok(())
    }

    /// Copies what both ways of storage have, unless it is in the same memory.
    fn carry(&self, carried: &[&str]) -> Result<()> {
        for (name, to) in self.destination.parts().filter(|(name, _)| carried.contains(name)) {
            if let Some(from) = self.source.part(name)
                && !from.same_as(to)
            {
                to.clone().copy_from(self.stream, from)?;
            }
        }
        Ok(())
    }
}
