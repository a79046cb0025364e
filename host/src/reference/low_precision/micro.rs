//! MXFP8 and NVFP4 on tensors in host memory.

use super::super::convert::{host_memory, read, read_bytes, store, write, zeros};
use super::super::quantize::nvfp4::{self, Rounding, Scope, Target};
use super::super::quantize::{Layout, ScaleOrder, mxfp8};
use super::{DIRECTIONS, fp8, given, transposed_back};
use crate::error::Result;
use crate::launch::mismatch;
use crate::numerics::Direction;
use crate::plan::{QuantizeOperands, QuantizeProblem, SwizzleOperands, SwizzleProblem};
use crate::recipe::{Format, Nvfp4Format, Transform};
use crate::reference::convert::{byte_range, byte_range_mut};
use crate::tensor::{Form, QuantizedCopy, QuantizedSpec, SourceShape, Tensor};

/// The quantizer of a format.
#[derive(Clone, Copy)]
enum Quantizer {
    Mxfp8(mxfp8::Recipe),
    Nvfp4(nvfp4::Recipe),
}

impl Quantizer {
    fn new(format: Format, form: Form) -> Result<Self> {
        let order = match form {
            Form::Swizzled => ScaleOrder::Swizzled,
            Form::Codes | Form::Exact => ScaleOrder::Compact,
        };
        match format {
            Format::Fp8 { .. } => Err(mismatch()),
            Format::Mxfp8 { blocks, .. } => {
                Ok(Self::Mxfp8(mxfp8::Recipe { format: fp8(format)?, shape: blocks, order }))
            }
            Format::Nvfp4(nvfp4) => Ok(Self::Nvfp4(nvfp4::Recipe {
                shape: nvfp4.blocks,
                order,
                rounding: Rounding::Nearest,
                transform: nvfp4.transform,
                scope: nvfp4.scope,
                target: Target::Six,
            })),
        }
    }

    fn scale_len(&self, layout: &Layout, direction: Direction) -> usize {
        match self {
            Self::Mxfp8(recipe) => mxfp8::scale_len(layout, recipe, direction),
            Self::Nvfp4(recipe) => nvfp4::scale_len(layout, recipe, direction),
        }
    }

    /// Bytes of the codes.
    fn data_len(&self, layout: &Layout, direction: Direction) -> usize {
        match self {
            Self::Mxfp8(_) => layout.source_len(),
            Self::Nvfp4(_) => layout.data_len(direction) / 2,
        }
    }
}

/// Quantizes, copy by copy.
pub(super) fn quantize(
    problem: &QuantizeProblem,
    operands: &QuantizeOperands<'_>,
    layout: &Layout,
    values: &[f32],
) -> Result<()> {
    let spec = problem.destination;
    let rounding = match operands.random {
        Some(state) if problem.stochastic => draw(state)?,
        _ => Rounding::Nearest,
    };
    for direction in DIRECTIONS {
        let (Some(copy), Some(form)) = (operands.destination.copy(direction), spec.form(direction))
        else {
            continue;
        };
        let quantizer = match Quantizer::new(spec.format, form)? {
            Quantizer::Nvfp4(recipe) => {
                let target = match (problem.four_over_six, spec.format) {
                    (Some(error), Format::Nvfp4(Nvfp4Format { bound, .. })) => {
                        Target::FourOverSix { error, bound }
                    }
                    _ => Target::Six,
                };
                Quantizer::Nvfp4(nvfp4::Recipe { rounding, target, ..recipe })
            }
            mxfp8 => mxfp8,
        };
        let exact = form == Form::Exact;
        let (mut data, mut scales) = match exact {
            true => (
                zeros(quantizer.data_len(layout, direction))?,
                zeros(quantizer.scale_len(layout, direction))?,
            ),
            false => (read_bytes(&copy.data)?, read_bytes(&copy.scale_inv)?),
        };
        match &quantizer {
            Quantizer::Mxfp8(recipe) => {
                mxfp8::quantize(layout, values, recipe, direction, &mut data, &mut scales)?;
            }
            Quantizer::Nvfp4(recipe) => {
                let amax = match operands.amax {
                    Some(amax) => given(amax, spec.groups)?,
                    None => nvfp4::amax(layout, values, recipe, direction)?,
                };
                nvfp4::quantize(layout, values, recipe, direction, &amax, &mut data, &mut scales)?;
                let live = match (recipe.scope, operands.splits) {
                    (Scope::Row, Some(_)) => values.len() / spec.source.columns().max(1),
                    _ => amax.len(),
                };
                copy.amax.as_ref().map_or(Ok(()), |tensor| write(tensor, &amax[..live]))?;
            }
        }
        if exact {
            let values = decode(&quantizer, layout, spec, direction, &data, &scales, None)?;
            let offsets = group_offsets(layout);
            write_exact(&copy.data, spec, direction, &offsets, values)?;
        } else {
            store(&copy.data, &data)?;
            store(&copy.scale_inv, &scales)?;
        }
    }
    Ok(())
}

/// Takes the state's seed and offset, and moves the offset on.
fn draw(state: &Tensor) -> Result<Rounding> {
    host_memory(state.memory())?.write(|bytes| {
        let start = state.byte_offset();
        let word = |at| -> Result<u64> {
            Ok(bytemuck::pod_read_unaligned(byte_range(bytes, start + at, 8)?))
        };
        let (seed, offset) = (word(0)?, word(8)?);
        let next = offset.wrapping_add(1).to_ne_bytes();
        byte_range_mut(bytes, start + 8, 8)?.copy_from_slice(&next);
        Ok(Rounding::Stochastic { seed, offset })
    })
}

/// The magnitudes of groups or rows.
pub(super) fn amax(copy: &QuantizedCopy) -> Result<Option<Vec<f32>>> {
    copy.amax.as_ref().map(|amax| read(amax, amax.len())).transpose()
}

/// The values of a copy, in the order of its data; without magnitudes, of its exact numbers.
pub(super) fn restore(
    copy: &QuantizedCopy,
    spec: QuantizedSpec,
    direction: Direction,
    layout: &Layout,
    amax: Option<&[f32]>,
) -> Result<Vec<f32>> {
    let form = spec.form(direction).unwrap_or_default();
    if form == Form::Exact {
        return restore_exact(copy, spec, direction, layout, amax);
    }
    let quantizer = Quantizer::new(spec.format, form)?;
    let (data, scales) = (read_bytes(&copy.data)?, read_bytes(&copy.scale_inv)?);
    decode(&quantizer, layout, spec, direction, &data, &scales, amax)
}

/// Exact numbers times the scales of their groups or rows.
fn restore_exact(
    copy: &QuantizedCopy,
    spec: QuantizedSpec,
    direction: Direction,
    layout: &Layout,
    amax: Option<&[f32]>,
) -> Result<Vec<f32>> {
    let mut values = read(&copy.data, copy.data.len())?;
    let (Format::Nvfp4(format), Some(amax)) = (spec.format, amax) else { return Ok(values) };
    let columns = spec.source.columns();
    let offsets = match has_padding(spec, direction) {
        true => padded_offsets(&group_offsets(layout)),
        false => group_offsets(layout),
    };
    for (group, rows) in offsets.windows(2).enumerate() {
        for row in rows[0]..rows[1] {
            let owner = if format.scope == Scope::Row { row } else { group };
            let factor = amax[owner] * format.amax_factor();
            values[row * columns..][..columns].iter_mut().for_each(|value| *value *= factor);
        }
    }
    Ok(values)
}

fn decode(
    quantizer: &Quantizer,
    layout: &Layout,
    spec: QuantizedSpec,
    direction: Direction,
    data: &[u8],
    scales: &[u8],
    amax: Option<&[f32]>,
) -> Result<Vec<f32>> {
    match (quantizer, spec.format) {
        (Quantizer::Mxfp8(recipe), _) => {
            let mut values = zeros(layout.source_len())?;
            mxfp8::dequantize(layout, data, scales, recipe, direction, &mut values)?;
            Ok(values)
        }
        (Quantizer::Nvfp4(recipe), Format::Nvfp4(format)) => {
            // Decoding knows the bound alone of what was chosen.
            let error = nvfp4::ErrorMeasure::Squared;
            let plain = recipe.transform == Transform::None;
            let target = match plain && recipe.rounding == Rounding::Nearest {
                true => Target::FourOverSix { error, bound: format.bound },
                false => Target::Six,
            };
            let recipe = nvfp4::Recipe { target, ..*recipe };
            let owners = match recipe.scope {
                Scope::Group => spec.groups,
                Scope::Row => spec.source.rows(),
            };
            // The magnitude whose scale is one.
            let unit = vec![format.bound.value() * 6.0; owners];
            let amax = amax.unwrap_or(&unit);
            let mut values = zeros(layout.data_len(direction))?;
            nvfp4::dequantize(layout, data, scales, &recipe, direction, amax, &mut values)?;
            Ok(values)
        }
        _ => Err(mismatch()),
    }
}

/// Whether the exact numbers of a copy have a place for the padding of groups.
fn has_padding(spec: QuantizedSpec, direction: Direction) -> bool {
    let tokens = matches!(spec.source, SourceShape::Tokens { .. });
    tokens && matches!(spec.format, Format::Nvfp4(_)) && direction == Direction::Columnwise
}

/// Whether a copy has values in rows that are padding.
pub(super) fn is_transformed(format: Format, direction: Direction) -> bool {
    let transformed =
        matches!(format, Format::Nvfp4(format) if format.transform != Transform::None);
    transformed && direction == Direction::Columnwise
}

/// Stores exact numbers, which come in the order of the codes. NaN is 0x7fff, as conversions of the
/// GPU have it.
pub(super) fn write_exact(
    destination: &Tensor,
    spec: QuantizedSpec,
    direction: Direction,
    offsets: &[usize],
    mut values: Vec<f32>,
) -> Result<()> {
    for value in values.iter_mut().filter(|value| value.is_nan()) {
        *value = f32::from_bits(0x7fff_ffff);
    }
    let values = &values[..];
    if has_padding(spec, direction) {
        return write(destination, &with_padding(spec, offsets, values)?);
    }
    let transposed = matches!(spec.format, Format::Nvfp4(_)) && direction == Direction::Columnwise;
    match spec.source {
        SourceShape::Tokens { features, .. } => {
            write(destination, &values[..offsets[offsets.len() - 1] * features])
        }
        SourceShape::Weights { .. } if transposed => {
            write(destination, &transposed_back(spec, offsets, values)?)
        }
        SourceShape::Weights { .. } => write(destination, values),
    }
}

/// Transposed tokens back, with the padding of their groups.
fn with_padding(spec: QuantizedSpec, offsets: &[usize], values: &[f32]) -> Result<Vec<f32>> {
    let (columns, pitch) = (spec.source.columns(), spec.padded_rows());
    let padded = padded_offsets(offsets);
    let mut rows = zeros(padded[padded.len() - 1] * columns)?;
    for (row, values_of_row) in rows.chunks_mut(columns).enumerate() {
        for (column, value) in values_of_row.iter_mut().enumerate() {
            *value = values[column * pitch + row];
        }
    }
    Ok(rows)
}

/// A columnwise copy of tokens as rows, with the padding of their groups.
pub(super) fn restore_padded(
    copy: &QuantizedCopy,
    spec: QuantizedSpec,
    direction: Direction,
    offsets: &[usize],
) -> Result<Vec<f32>> {
    let layout = super::layout(spec, Some(offsets))?;
    let amax = amax(copy)?;
    let values = restore(copy, spec, direction, &layout, amax.as_deref())?;
    match spec.form(direction) {
        Some(Form::Exact) => Ok(values),
        _ => with_padding(spec, offsets, &values),
    }
}

/// Exact numbers of a copy without the padding that they may have.
pub(super) fn in_source_order(
    spec: QuantizedSpec,
    direction: Direction,
    offsets: &[usize],
    values: Vec<f32>,
) -> Result<Vec<f32>> {
    if !has_padding(spec, direction) {
        return Ok(values);
    }
    let columns = spec.source.columns();
    let padded = padded_offsets(offsets);
    let mut rows = zeros(offsets[offsets.len() - 1] * columns)?;
    for (group, &first) in offsets.windows(2).zip(&padded) {
        let own = &mut rows[group[0] * columns..group[1] * columns];
        own.copy_from_slice(&values[first * columns..][..own.len()]);
    }
    Ok(rows)
}

/// First row of each group where all are padded, then the number of rows.
pub(super) fn padded_offsets(offsets: &[usize]) -> Vec<usize> {
    let mut padded = vec![0];
    for group in offsets.windows(2) {
        padded.push(padded[padded.len() - 1] + (group[1] - group[0]).next_multiple_of(128));
    }
    padded
}

/// First row of each group, then their number.
fn group_offsets(layout: &Layout) -> Vec<usize> {
    let mut offsets: Vec<usize> = layout.group_rows().map(|rows| rows.start).collect();
    offsets.push(layout.group_rows().last().map_or(0, |rows| rows.end));
    offsets
}

/// Block scales in the other order.
pub(super) fn swizzle(
    problem: &SwizzleProblem,
    operands: &SwizzleOperands<'_>,
    layout: &Layout,
) -> Result<()> {
    let (spec, direction) = (problem.source, problem.direction);
    let from = read_bytes(operands.scales)?;
    let mut to = read_bytes(operands.destination)?;
    let order = if problem.swizzles() { ScaleOrder::Swizzled } else { ScaleOrder::Compact };
    match Quantizer::new(spec.format, spec.form(direction).unwrap_or_default())? {
        Quantizer::Mxfp8(recipe) => {
            mxfp8::reorder(layout, &recipe, direction, order, &from, &mut to)?;
        }
        Quantizer::Nvfp4(recipe) => {
            nvfp4::reorder(layout, &recipe, direction, order, &from, &mut to)?;
        }
    }
    store(operands.destination, &to)
}
