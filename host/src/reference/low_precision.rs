//! Carries out plans in low precision on tensors in host memory: the quantizers of
//! [`quantize`](super::quantize), and products of what they give, restored to FP32.

mod micro;

use rayon::prelude::*;

use super::convert::{read, read_bytes, read_flag, read_groups, store, write, write_groups, zeros};
use super::execute::{Addends, add_to_groups, epilogue, multiply, row_offsets};
use super::fast;
use super::plain::Groups;
use super::quantize::{BlockShape, Layout, block, per_tensor};
use crate::error::{Error, Result};
use crate::gemm::scaled::directions;
use crate::launch::mismatch;
use crate::numerics::scale::{DelayedScaleRule, Fp8ScaleRule, ScaleKind, scale_inverse};
use crate::numerics::{Direction, Float8Format};
use crate::plan::{
    AmaxOperands, AmaxProblem, DequantizeOperands, DequantizeProblem, GroupedOperand,
    HistoryUpdate, PadOperands, PadProblem, Padding, Pass, QuantizeOperands, QuantizeProblem,
    ScaleSource, ScaledGemmOperands, ScaledGemmProblem, SwizzleOperands, SwizzleProblem,
    UpdateScalesOperands,
};
use crate::recipe::{Blocks, Format};
use crate::splits::Splits;
use crate::tensor::{DType, Form, QuantizedCopy, QuantizedSpec, SourceShape, Tensor};

const DIRECTIONS: [Direction; 2] = [Direction::Rowwise, Direction::Columnwise];

/// Quantizes, copy by copy.
pub(super) fn quantize(problem: &QuantizeProblem, operands: &QuantizeOperands<'_>) -> Result<()> {
    let spec = problem.destination;
    // Bad splits are reported whether the work is skipped or not, as the set-up kernel does.
    let offsets = offsets(spec, operands.splits)?;
    if operands.skip.map(read_flag).transpose()?.is_some_and(|flag| flag != 0) {
        return Ok(());
    }
    let layout = layout(spec, offsets.as_deref())?;
    let columns = spec.source.columns();
    let values = values(&operands.source, offsets.as_deref(), columns)?;
    match spec.format {
        Format::Fp8 { blocks: Blocks::Tensor, .. } => {
            quantize_groups(problem, operands, &layout, &values)?;
        }
        Format::Fp8 { .. } => quantize_blocks(problem, operands, &layout, &values)?,
        Format::Mxfp8 { .. } | Format::Nvfp4(_) => {
            micro::quantize(problem, operands, &layout, &values)?;
        }
    }
    let (Some(db), Some(offsets)) = (operands.db, &offsets) else { return Ok(()) };
    let groups = Groups { row_offsets: offsets, out_features: columns, in_features: 0 };
    let mut sums = fast::dbias(&groups, &values, None)?;
    if operands.accumulate_db {
        add_to_groups(&mut sums, db)?;
    }
    write_groups(db, &sums)
}

/// The largest magnitudes of groups.
pub(super) fn amax(problem: &AmaxProblem, operands: &AmaxOperands<'_>) -> Result<()> {
    let spec = problem.as_quantize().destination;
    let offsets = offsets(spec, operands.splits)?;
    if operands.skip.map(read_flag).transpose()?.is_some_and(|flag| flag != 0) {
        return Ok(());
    }
    let layout = layout(spec, offsets.as_deref())?;
    let values = values(&operands.source, offsets.as_deref(), spec.source.columns())?;
    write(operands.amax, &per_tensor::amax(&layout, &values)?)
}

/// Magnitudes that are given; what is none counts as 0, as where kernels take the largest.
fn given(amax: &Tensor, groups: usize) -> Result<Vec<f32>> {
    Ok(read(amax, groups)?.into_iter().map(|amax| amax.max(0.0)).collect())
}

/// The rows that belong to groups.
fn values(
    source: &GroupedOperand<'_>,
    offsets: Option<&[usize]>,
    columns: usize,
) -> Result<Vec<f32>> {
    match source {
        GroupedOperand::Rows(tensor) => {
            let live = offsets.and_then(<[usize]>::last).copied().unwrap_or(0);
            read(tensor, live * columns)
        }
        GroupedOperand::Groups(weights) => read_groups(weights, |_| true),
    }
}

/// One scale for each group: found now, or there, in which case the magnitudes are noted.
fn quantize_groups(
    problem: &QuantizeProblem,
    operands: &QuantizeOperands<'_>,
    layout: &Layout,
    values: &[f32],
) -> Result<()> {
    let (spec, format) = (problem.destination, fp8(problem.destination.format)?);
    let amax = match operands.amax {
        Some(amax) => given(amax, spec.groups)?,
        None => per_tensor::amax(layout, values)?,
    };
    let scales = match (&operands.history, problem.scales) {
        (Some(history), ScaleSource::Given) => {
            let mut newest = read(&history.history.index(0)?, spec.groups)?;
            for (newest, amax) in newest.iter_mut().zip(&amax) {
                *newest = newest.max(*amax);
            }
            write(&history.history.index(0)?, &newest)?;
            read(history.scale, spec.groups)?
        }
        _ => {
            let rule = rule(operands, spec.format, f32::MAX)?;
            amax.iter().map(|&amax| rule.scale(amax)).collect()
        }
    };
    write_inverses(operands, &scales)?;
    operands.destination.scale().map_or(Ok(()), |scale| write(scale, &scales))?;
    for direction in DIRECTIONS {
        let Some(copy) = operands.destination.copy(direction) else { continue };
        let mut data = read_bytes(&copy.data)?;
        per_tensor::quantize(layout, values, format, &scales, direction, &mut data)?;
        store(&copy.data, &data)?;
    }
    Ok(())
}

/// The inverses of the scales of groups, into every copy.
fn write_inverses(operands: &QuantizeOperands<'_>, scales: &[f32]) -> Result<()> {
    let inverses: Vec<f32> = scales.iter().map(|&scale| scale_inverse(scale)).collect();
    let mut copies = DIRECTIONS.iter().filter_map(|&own| operands.destination.copy(own));
    copies.try_for_each(|copy| write(&copy.scale_inv, &inverses))
}

fn quantize_blocks(
    problem: &QuantizeProblem,
    operands: &QuantizeOperands<'_>,
    layout: &Layout,
    values: &[f32],
) -> Result<()> {
    let format = problem.destination.format;
    // A scale beyond the source's own type is never needed to fill the format.
    let ceiling = match problem.input {
        DType::F16 => half::f16::MAX.to_f32(),
        DType::Bf16 => half::bf16::MAX.to_f32(),
        _ => f32::MAX,
    };
    let rule = rule(operands, format, ceiling)?;
    let Format::Fp8 { blocks, .. } = format else { return Err(mismatch()) };
    let recipe = block::Recipe { format: fp8(format)?, shape: shape(blocks), rule };
    for direction in DIRECTIONS {
        let Some(copy) = operands.destination.copy(direction) else { continue };
        let mut data = read_bytes(&copy.data)?;
        let mut inverses = read(&copy.scale_inv, copy.scale_inv.len())?;
        block::quantize(layout, values, &recipe, direction, &mut data, &mut inverses)?;
        store(&copy.data, &data)?;
        write(&copy.scale_inv, &inverses)?;
    }
    Ok(())
}

/// The next scales of histories.
pub(super) fn update_scales(operands: &UpdateScalesOperands<'_>) -> Result<()> {
    if operands.skip.map(read_flag).transpose()?.is_some_and(|flag| flag != 0) {
        return Ok(());
    }
    operands.histories.iter().try_for_each(update_history)
}

fn update_history(update: &HistoryUpdate<'_>) -> Result<()> {
    let operands = update.history;
    let (groups, steps) = (operands.scale.len(), operands.history.shape()[0]);
    let mut history = read(operands.history, steps * groups)?;
    let mut scales = read(operands.scale, groups)?;
    let rule = DelayedScaleRule {
        max: fp8_format(update.format)?.max(),
        margin: update.margin,
        choice: update.choice,
    };
    for (group, scale) in scales.iter_mut().enumerate() {
        let mut own: Vec<f32> = (0..steps).map(|step| history[step * groups + group]).collect();
        *scale = rule.update(*scale, &mut own);
        for (step, amax) in own.into_iter().enumerate() {
            history[step * groups + group] = amax;
        }
    }
    let inverses: Vec<f32> = scales.iter().map(|&scale| scale_inverse(scale)).collect();
    write(operands.history, &history)?;
    write(operands.scale, &scales)?;
    write(operands.scale_inv, &inverses)
}

/// One copy, back in the shape of its source, or as exact numbers.
pub(super) fn dequantize(
    problem: &DequantizeProblem,
    operands: &DequantizeOperands<'_>,
) -> Result<()> {
    let spec = problem.source;
    let offsets = offsets(spec, operands.splits)?.unwrap_or_else(|| vec![0]);
    if problem.exact {
        let layout = layout(spec, Some(&offsets))?;
        let GroupedOperand::Rows(destination) = operands.destination else {
            return Err(mismatch());
        };
        let values = micro::restore(operands.copy, spec, problem.direction, &layout, None)?;
        return micro::write_exact(destination, spec, problem.direction, &offsets, values);
    }
    let values = restore(operands.copy, spec, problem.direction, &offsets)?;
    match operands.destination {
        GroupedOperand::Rows(tensor) => {
            let live = offsets[offsets.len() - 1] * spec.source.columns();
            write(tensor, &values[..live])
        }
        GroupedOperand::Groups(tensor) => write_groups(tensor, &values),
    }
}

/// Block scales in the other order.
pub(super) fn swizzle(problem: &SwizzleProblem, operands: &SwizzleOperands<'_>) -> Result<()> {
    let offsets = offsets(problem.source, operands.splits)?;
    let layout = layout(problem.source, offsets.as_deref())?;
    micro::swizzle(problem, operands, &layout)
}

/// Groups with padding, or without again.
pub(super) fn pad(problem: &PadProblem, operands: &PadOperands<'_>) -> Result<()> {
    let offsets = row_offsets(operands.splits, problem.rows)?;
    let width = problem.columns * problem.dtype.bytes();
    let (from, mut to) = (read_bytes(operands.source)?, read_bytes(operands.destination)?);
    let mut padded = 0;
    for group in offsets.windows(2) {
        let rows = group[1] - group[0];
        let end = padded + rows.next_multiple_of(problem.row_align);
        let token = group[0] * width..group[1] * width;
        let (live, rest) =
            (padded * width..(padded + rows) * width, (padded + rows) * width..end * width);
        match problem.way {
            Padding::Pad => {
                to[live].copy_from_slice(&from[token]);
                to[rest].fill(0);
            }
            Padding::Unpad => to[token].copy_from_slice(&from[live]),
        }
        padded = end;
    }
    store(operands.destination, &to)
}

/// A product of what the operands stand for, in FP32.
pub(super) fn scaled_gemm(
    problem: &ScaledGemmProblem,
    operands: &ScaledGemmOperands<'_>,
) -> Result<()> {
    let offsets = row_offsets(operands.splits, problem.rows)?;
    let (a_direction, b_direction) = directions(problem.pass);
    let a = (operands.a, operands.a_spec, a_direction);
    let b = (operands.b, operands.b_spec, b_direction);
    let (a, b, offsets) = restore_factors(a, b, offsets)?;
    let groups = Groups {
        row_offsets: &offsets,
        out_features: problem.out_features,
        in_features: problem.in_features,
    };
    let plain = problem.unscaled();
    let (d_len, columns) = match problem.pass {
        Pass::Fprop => (groups.live_rows() * groups.out_features, groups.out_features),
        Pass::Dgrad => (groups.live_rows() * groups.in_features, groups.in_features),
        Pass::Wgrad => {
            (groups.count() * groups.out_features * groups.in_features, groups.in_features)
        }
    };
    let mut d = zeros(d_len)?;
    multiply(&plain, &groups, &a, &b, &mut d)?;
    let addends = Addends {
        d: operands.d,
        alpha: operands.alpha,
        beta: operands.beta,
        bias: operands.bias,
        bias_row_scales: operands.bias_row_scales,
    };
    epilogue(&plain, &addends, &groups, columns, &mut d)?;
    match operands.d {
        GroupedOperand::Rows(tensor) => write(tensor, &d),
        GroupedOperand::Groups(tensor) => write_groups(tensor, &d),
    }
}

/// A copy of a quantized tensor.
type Factor<'a> = (&'a QuantizedCopy, QuantizedSpec, Direction);

/// The values of both sides of a product, and the first rows of their groups. What is transformed
/// has values in rows that are padding, so both operands of such a reduction keep their padding.
pub(crate) fn restore_factors(
    a: Factor<'_>,
    b: Factor<'_>,
    offsets: Vec<usize>,
) -> Result<(Vec<f32>, Vec<f32>, Vec<usize>)> {
    let mixed = micro::is_transformed(a.1.format, a.2);
    let side = |(copy, spec, direction)| match mixed {
        true => micro::restore_padded(copy, spec, direction, &offsets),
        false => restore(copy, spec, direction, &offsets),
    };
    let (a, b) = (side(a)?, side(b)?);
    Ok((a, b, if mixed { micro::padded_offsets(&offsets) } else { offsets }))
}

/// The values of a copy, in the order of its source: the live rows of tokens, or all weights.
fn restore(
    copy: &QuantizedCopy,
    spec: QuantizedSpec,
    direction: Direction,
    offsets: &[usize],
) -> Result<Vec<f32>> {
    let layout = layout(spec, Some(offsets))?;
    let Format::Fp8 { blocks, .. } = spec.format else {
        let amax = micro::amax(copy)?;
        let values = micro::restore(copy, spec, direction, &layout, amax.as_deref())?;
        if spec.form(direction) == Some(Form::Exact) {
            return micro::in_source_order(spec, direction, offsets, values);
        }
        return match (spec.format, direction) {
            (Format::Nvfp4(_), Direction::Columnwise) => transposed_back(spec, offsets, &values),
            _ => Ok(values),
        };
    };
    let data = read_bytes(&copy.data)?;
    let inverses = read(&copy.scale_inv, copy.scale_inv.len())?;
    let mut values = zeros(data.len())?;
    let format = fp8(spec.format)?;
    match blocks {
        Blocks::Tensor => {
            per_tensor::dequantize(&layout, &data, format, &inverses, direction, &mut values)?;
        }
        blocks => {
            let rule = Fp8ScaleRule::new(format.max(), ScaleKind::Fp32);
            let recipe = block::Recipe { format, shape: shape(blocks), rule };
            block::dequantize(&layout, &data, &inverses, &recipe, direction, &mut values)?;
        }
    }
    if direction == Direction::Rowwise {
        return Ok(values);
    }
    transposed_back(spec, offsets, &values)
}

/// Transposes back, token by token: their padding has no place in the source.
fn transposed_back(spec: QuantizedSpec, offsets: &[usize], values: &[f32]) -> Result<Vec<f32>> {
    let columns = spec.source.columns();
    match spec.source {
        SourceShape::Tokens { .. } => {
            let pitch = spec.padded_rows();
            let mut rows = zeros(offsets[offsets.len() - 1] * columns)?;
            let mut line = 0;
            for group in offsets.windows(2) {
                let own = &mut rows[group[0] * columns..group[1] * columns];
                own.par_chunks_mut(columns).enumerate().for_each(|(row, values_of_row)| {
                    for (column, value) in values_of_row.iter_mut().enumerate() {
                        *value = values[column * pitch + line + row];
                    }
                });
                line += (group[1] - group[0]).next_multiple_of(128);
            }
            Ok(rows)
        }
        SourceShape::Weights { rows, .. } => {
            let mut weights = zeros(values.len())?;
            weights.par_chunks_mut(columns).enumerate().for_each(|(row, weights)| {
                let (group, row) = (row / rows, row % rows);
                for (column, value) in weights.iter_mut().enumerate() {
                    *value = values[(group * columns + column) * rows + row];
                }
            });
            Ok(weights)
        }
    }
}

/// First row of each group of tokens, then their number.
fn offsets(spec: QuantizedSpec, splits: Option<&Splits>) -> Result<Option<Vec<usize>>> {
    match (spec.source, splits) {
        (SourceShape::Tokens { rows, .. }, Some(splits)) => row_offsets(splits, rows).map(Some),
        _ => Ok(None),
    }
}

fn layout(spec: QuantizedSpec, offsets: Option<&[usize]>) -> Result<Layout> {
    match (spec.source, offsets) {
        (SourceShape::Tokens { rows, features }, Some(offsets)) => {
            Layout::tokens(offsets, rows, features)
        }
        (SourceShape::Weights { rows, columns }, _) => Layout::weights(spec.groups, rows, columns),
        (SourceShape::Tokens { .. }, None) => {
            Err(Error::invalid("tokens have splits, none were given"))
        }
    }
}

fn rule(operands: &QuantizeOperands<'_>, format: Format, ceiling: f32) -> Result<Fp8ScaleRule> {
    let power_of_two = operands.rule.power_of_two;
    let kind = if power_of_two { ScaleKind::PowerOfTwo } else { ScaleKind::Fp32 };
    let epsilon = operands.rule.epsilon;
    Ok(Fp8ScaleRule { epsilon, ceiling, ..Fp8ScaleRule::new(fp8(format)?.max(), kind) })
}

fn shape(blocks: Blocks) -> BlockShape {
    if blocks == Blocks::Square { BlockShape::Square } else { BlockShape::Line }
}

fn fp8(format: Format) -> Result<Float8Format> {
    fp8_format(format.dtype())
}

fn fp8_format(dtype: DType) -> Result<Float8Format> {
    match dtype {
        DType::E4m3 => Ok(Float8Format::E4m3),
        DType::E5m2 => Ok(Float8Format::E5m2),
        other => Err(Error::dtype("quantized tensor", other, "e4m3 or e5m2")),
    }
}
