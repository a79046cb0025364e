//! Quantized weights expert by expert: views of packed ones, and packed ones gathered from experts
//! that lie apart.
//!
//! The kernels find the experts of a quantized operand at one distance from each other, in its data
//! and in each of its scales. Experts that lie apart are therefore copied together once, on the
//! device, and not found one by one in every product.

use std::sync::Arc;

use super::{Parts, QuantizedCopy, QuantizedSpec, QuantizedTensor, Shared, SourceShape};
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::plan::MAX_GROUPS;
use crate::tensor::{Direction, Tensor};

/// Experts that lie apart, in messages.
const EXPERTS: &str = "discrete quantized weights";

impl QuantizedTensor {
    /// The weights of one expert, sharing the memory: a quantized tensor of one group. What is
    /// quantized into it is a part of these weights at once, so weights that are made expert by
    /// expert need no [`QuantizedTensor::gather`].
    ///
    /// ```
    /// use grouped_linear::functional::{QuantizeArgs, QuantizeSource, quantize};
    /// use grouped_linear::recipe::{Blocks, Format};
    /// use grouped_linear::{
    ///     DType, Device, Direction, Form, GroupedTensor, QuantizedSpec, QuantizedTensor,
    ///     SourceShape, Tensor,
    /// };
    /// let stream = Device::cpu().stream()?;
    /// let weights = QuantizedTensor::empty(&stream, QuantizedSpec {
    ///     groups: 2,
    ///     source: SourceShape::Weights { rows: 16, columns: 32 },
    ///     format: Format::fp8(DType::E4m3, Blocks::Tensor),
    ///     rowwise: Some(Form::Codes),
    ///     columnwise: None,
    /// })?;
    /// for (expert, value) in [448.0, 896.0].into_iter().enumerate() {
    ///     let w = Tensor::from_f32(&stream, &[1, 16, 32], DType::F32, &[value; 512])?;
    ///     let w = GroupedTensor::packed(w)?;
    ///     let args = QuantizeArgs::new(QuantizeSource::Weights(&w));
    ///     quantize(&stream, args, &mut weights.group(expert)?)?;
    /// }
    /// let rowwise = weights.copy(Direction::Rowwise).unwrap();
    /// assert_eq!(rowwise.scale_inv.to_f32(&stream)?, [1.0, 2.0]);
    /// # Ok::<(), grouped_linear::Error>(())
    /// ```
    ///
    /// # Errors
    /// There is no such group; these are tokens, whose groups lie where splits say.
    pub fn group(&self, group: usize) -> Result<Self> {
        let Parts { spec, rowwise, columnwise, scale } = &*self.0;
        if let SourceShape::Tokens { .. } = spec.source {
            return Err(Error::invalid(
                "group: tokens were given, whose groups lie where splits say; only weights have a \
                 part for each group",
            ));
        }
        if group >= spec.groups {
            let groups = spec.groups;
            return Err(Error::invalid(format!("group {group} was asked for, there are {groups}")));
        }
        let part = |part: &Tensor| match part.shape() {
            // Exact numbers have no scales of blocks.
            [0] => Ok(part.clone()),
            _ => part.narrow(group, 1),
        };
        let copy = |copy: &Option<QuantizedCopy>| -> Result<Option<QuantizedCopy>> {
            let Some(QuantizedCopy { data, scale_inv, amax }) = copy else { return Ok(None) };
            let amax = amax.as_ref().map(part).transpose()?;
            Ok(Some(QuantizedCopy { data: part(data)?, scale_inv: part(scale_inv)?, amax }))
        };
        let (rowwise, columnwise) = (copy(rowwise)?, copy(columnwise)?);
        let scale = scale.as_ref().map(part).transpose()?;
        let spec = QuantizedSpec { groups: 1, ..*spec };
        Ok(Self(Arc::new(Parts { spec, rowwise, columnwise, scale })))
    }

    /// Packed weights of discrete ones: `experts` holds a quantized tensor of one group for each
    /// expert, all quantized alike, wherever their memory lies. They are copied into new memory on
    /// the stream, bit for bit, and may go or change afterwards; [`QuantizedTensor::gather_from`]
    /// follows such a change.
    ///
    /// It costs as many bytes again as the experts have, as long as both are held, and a copy on
    /// the device for each part of each expert: one (one copy of MXFP8's exact numbers) to six (two
    /// copies in codes of NVFP4).
    /// Neither is needed where the experts are quantized, or loaded, into
    /// [`QuantizedTensor::group`]s of packed weights in the first place.
    ///
    /// ```
    /// use grouped_linear::recipe::{BlockShape, Format};
    /// use grouped_linear::{
    ///     DType, Device, Direction, Form, QuantizedSpec, QuantizedTensor, SourceShape,
    /// };
    /// let stream = Device::cpu().stream()?;
    /// let spec = QuantizedSpec {
    ///     groups: 1,
    ///     source: SourceShape::Weights { rows: 64, columns: 32 },
    ///     format: Format::Mxfp8 { dtype: DType::E4m3, blocks: BlockShape::Line },
    ///     rowwise: Some(Form::Exact),
    ///     columnwise: Some(Form::Exact),
    /// };
    /// let experts = [0; 3].map(|_| QuantizedTensor::empty(&stream, spec));
    /// let experts = experts.into_iter().collect::<Result<Vec<_>, _>>()?;
    /// let weights = QuantizedTensor::gather(&stream, &experts)?;
    /// assert_eq!(weights.spec(), QuantizedSpec { groups: 3, ..spec });
    /// # Ok::<(), grouped_linear::Error>(())
    /// ```
    ///
    /// # Errors
    /// No experts, or more than 4096; tokens, or more than one group, among them; experts that
    /// differ in shape, format or copies; another device; out of memory. Nothing has been copied
    /// then.
    pub fn gather(stream: &Stream, experts: &[Self]) -> Result<Self> {
        let spec = check_experts(stream, experts)?;
        let all = |shared: fn(Shared) -> bool| experts.iter().all(|own| shared(own.shared()));
        let shared = Shared {
            data: all(|shared| shared.data),
            scale_inv: all(|shared| shared.scale_inv),
            amax: all(|shared| shared.amax),
        };
        let has_scale = experts.iter().all(|expert| expert.scale().is_some());
        let mut gathered =
            Self::build(stream, spec, shared, has_scale, |_, part| part.empty(stream))?;
        gathered.gather_from(stream, experts)?;
        Ok(gathered)
    }

    /// Overwrites packed weights with discrete ones, as [`QuantizedTensor::gather`] makes them:
    /// after every step that changes the experts, say. Can be recorded in a graph.
    ///
    /// # Errors
    /// As [`QuantizedTensor::gather`]; these are not the packed weights of such experts; memory
    /// that overlaps theirs. Nothing has been written then.
    pub fn gather_from(&mut self, stream: &Stream, experts: &[Self]) -> Result<()> {
        let spec = check_experts(stream, experts)?;
        if self.spec() != spec {
            let own = self.spec();
            return Err(Error::invalid(format!(
                "destination: it was made for {own:?}, the experts make {spec:?}"
            )));
        }
        self.check_device("destination", stream)?;
        let mut copies = Vec::new();
        for (number, expert) in experts.iter().enumerate() {
            let destination = self.group(number)?;
            check_sharing(&destination, expert, number)?;
            for (name, part) in destination.parts() {
                let source = expert.part(name).ok_or_else(|| {
                    Error::invalid(format!(
                        "{EXPERTS}: expert {number} has no {name}, which the destination has; make \
                         one with QuantizedTensor::gather"
                    ))
                })?;
                if self.tensors().any(|own| own.overlaps(source)) {
                    return Err(Error::invalid(format!(
                        "{EXPERTS}: the {name} of expert {number} overlaps the destination"
                    )));
                }
                copies.push((part.clone(), source));
            }
        }
        copies.into_iter().try_for_each(|(mut part, source)| part.copy_from(stream, source))
    }
}

/// Refuses an expert whose copies hold apart, and perhaps different, what the destination holds
/// once.
fn check_sharing(
    destination: &QuantizedTensor,
    expert: &QuantizedTensor,
    number: usize,
) -> Result<()> {
    let (to, from) = (destination.shared(), expert.shared());
    for (to, from, what) in [
        (to.data, from.data, "data"),
        (to.scale_inv, from.scale_inv, "scale_inv"),
        (to.amax, from.amax, "amax"),
    ] {
        if to && !from {
            return Err(Error::invalid(format!(
                "{EXPERTS}: the copies of expert {number} have {what} in memory of their own, those \
                 of the destination share it; make one with QuantizedTensor::gather"
            )));
        }
    }
    Ok(())
}

/// Refuses what is not one quantized matrix for each expert, all alike, on the stream's device;
/// returns what all of them are.
pub(crate) fn check_experts(stream: &Stream, experts: &[QuantizedTensor]) -> Result<QuantizedSpec> {
    let count = experts.len();
    let Some(first) = experts.first().map(QuantizedTensor::spec) else {
        return Err(Error::invalid(format!(
            "{EXPERTS}: none were given, one per expert is needed"
        )));
    };
    if count > MAX_GROUPS {
        return Err(Error::invalid(format!(
            "{EXPERTS}: {count} were given, 1 to {MAX_GROUPS} are possible"
        )));
    }
    for (number, expert) in experts.iter().enumerate() {
        let own = expert.spec();
        let (SourceShape::Weights { .. }, 1) = (own.source, own.groups) else {
            return Err(Error::invalid(format!(
                "{EXPERTS}: expert {number} is {:?} in {} groups, one matrix is needed",
                own.source, own.groups
            )));
        };
        if own != first {
            return Err(Error::invalid(format!(
                "{EXPERTS}: expert {number} is {}, expert 0 is {}; all must be quantized alike",
                described(own),
                described(first)
            )));
        }
        expert.check_device(EXPERTS, stream)?;
    }
    Ok(QuantizedSpec { groups: count, ..first })
}

fn described(spec: QuantizedSpec) -> String {
    let form = |direction| spec.form(direction).map_or("none".into(), |form| format!("{form:?}"));
    let (rows, columns) = (spec.source.rows(), spec.source.columns());
    let [rowwise, columnwise] = [Direction::Rowwise, Direction::Columnwise].map(form);
    format!("[{rows}, {columns}] in {} (rowwise {rowwise}, columnwise {columnwise})", spec.format)
}
