//! Products of quantized operands, against the FP64 product of what their numbers stand for.

use super::super::cases::{Layout, SplitSource};
use super::super::compare::{Location, Tolerance, compare_within};
use super::super::data::Generator;
use super::super::run::{Outcome, grouped, read_groups_bits, splits};
use super::nan;
use super::product_cases::{DrawnScales, LineScales, ProductBias, ProductCase};
use crate::backend::{Device, Stream};
use crate::error::{Error, Result};
use crate::functional::{
    QuantizeArgs, QuantizeSource, QuantizedDgradArgs, QuantizedFpropArgs, QuantizedGemmOptions,
    QuantizedWgradArgs, quantize, quantized_dgrad, quantized_fprop, quantized_wgrad,
};
use crate::gemm::scaled::directions;
use crate::numerics::{E4m3, E5m2};
use crate::plan::{Factor, Pass};
use crate::recipe::{ErrorMeasure, Format};
use crate::reference::plain::{self, Groups};
use crate::reference::restore_factors;
use crate::tensor::{
    DType, Direction, GroupedTensor, QuantizedCopy, QuantizedSpec, QuantizedTensor, SourceShape,
    Tensor, missing_copy,
};

/// Where the operands of a case lie, and what they stand for.
pub(super) struct Operands {
    pub(super) a: QuantizedTensor,
    pub(super) b: QuantizedTensor,
    bias: Vec<f32>,
    row_scales: Vec<f32>,
    before: Vec<f32>,
}

/// Computes the case on `device` and compares it with the product in FP64.
pub(super) fn run(case: &ProductCase, device: &Device) -> Result<Outcome, String> {
    let counts = case.rows.splits();
    let got = device.stream().and_then(|stream| {
        compute(case, &Operands::new(case, &stream, &counts)?, &stream, &counts)
    });
    if let Some(reason) = case.refusal(device.target()) {
        return match got {
            Err(error) if error.is_unsupported() => Ok(Outcome::Refused(reason)),
            Err(error) => Err(format!("refused ({reason}), but as something else: {error}")),
            Ok(_) => Err(format!("should have been refused: {reason}")),
        };
    }
    let mut got = got.map_err(|error| format!("failed: {error}"))?;
    let failed = |error: Error| format!("the oracle failed: {error}");
    let cpu = Device::cpu().stream().and_then(|stream| Operands::new(case, &stream, &counts));
    let operands = cpu.map_err(failed)?;
    let (mut want, mut magnitude) = expected(case, &operands, &counts).map_err(failed)?;

    let columns = columns(case);
    let live: usize = counts.iter().sum();
    let compared = if case.pass == Pass::Wgrad { got.len() } else { live * columns };
    // The FP8 tensor cores of Hopper align 32 products and the sum so far to the largest of them,
    // and cut each off 13 bits below. Hardly an element loses more than a quarter of this limit,
    // and the whole must be closer.
    let own = Tolerance::of(case.output);
    let accumulation = if case.a.is_micro() { own.accumulation } else { 2f64.powi(-11) };
    let tolerance = Tolerance { accumulation, norm: 1e-3, ..own };
    let locate =
        |index: usize| Location { expert: 0, row: index / columns, column: index % columns };
    let (result, rest) = got.split_at_mut(compared);
    nan::set_apart(case, result, &mut want, &mut magnitude, &locate)?;
    compare_within("result", case.output, tolerance, result, &want, &magnitude, &locate)?;
    match rest.iter().zip(&operands.before[compared..]).position(|(now, then)| now != then) {
        None => Ok(Outcome::Passed),
        Some(index) => Err(format!("element {index} past the rows of all experts was written")),
    }
}

fn columns(case: &ProductCase) -> usize {
    if case.pass == Pass::Fprop { case.out_features } else { case.in_features }
}

impl Operands {
    fn new(case: &ProductCase, stream: &Stream, counts: &[usize]) -> Result<Self> {
        let operands = Self::drawn(case, stream, counts)?;
        nan::put(case, &operands, stream, counts)?;
        Ok(operands)
    }

    /// The same without the NaN that the case has.
    pub(super) fn drawn(case: &ProductCase, stream: &Stream, counts: &[usize]) -> Result<Self> {
        let mut generator = Generator::named(&case.to_string());
        let (groups, live) = (counts.len(), counts.iter().sum::<usize>());
        let (rows, n, k) = (live + case.tail, case.out_features, case.in_features);
        let tokens = |features| SourceShape::Tokens { rows, features };
        let weights = SourceShape::Weights { rows: n, columns: k };
        let (a, b) = match case.pass {
            Pass::Fprop => (tokens(k), weights),
            Pass::Dgrad => (tokens(n), weights),
            Pass::Wgrad => (tokens(n), tokens(k)),
        };
        let (a_direction, b_direction) = directions(case.pass);
        let mut operand = |source, format: Format, direction| {
            let rowwise = direction == Direction::Rowwise;
            let form = case.form;
            let (rowwise, columnwise) = (rowwise.then_some(form), (!rowwise).then_some(form));
            let spec = QuantizedSpec { groups, source, format, rowwise, columnwise };
            if format.is_micro() {
                return quantized(stream, &mut generator, spec, case.four_over_six, counts);
            }
            draw(stream, &mut generator, (spec, case.scales), direction, counts)
        };
        let a = operand(a, case.a, a_direction)?;
        let mut b = operand(b, case.b, b_direction)?;
        if case.weights == Layout::Discrete && case.pass != Pass::Wgrad {
            b = QuantizedTensor::gather(stream, &apart(stream, &b)?)?;
        }
        let bias = generator.values(groups * n, case.bias.dtype().unwrap_or(DType::F32));
        let row_scales = generator.values(rows, DType::F32);
        let length = if case.pass == Pass::Wgrad { groups * n * k } else { rows * columns(case) };
        let mut before = generator.values(length, case.output);
        // What beta = 0 must not read. Rows of nobody are told by numbers, since what is computed
        // of theirs is none.
        let mut first = 0;
        for (group, count) in counts.iter().enumerate() {
            let count = if case.pass == Pass::Wgrad { n * k } else { count * columns(case) };
            if case.factors_of(group).1 == 0.0 {
                before[first..first + count].fill(f32::NAN);
            }
            first += count;
        }
        Ok(Self { a, b, bias, row_scales, before })
    }
}

/// The experts of quantized weights, each in memory of its own.
fn apart(stream: &Stream, weights: &QuantizedTensor) -> Result<Vec<QuantizedTensor>> {
    let copied = |part: &Tensor| -> Result<Tensor> {
        let mut own = Tensor::empty(stream, part.shape(), part.dtype())?;
        own.copy_from(stream, part)?;
        Ok(own)
    };
    let copy = |expert: &QuantizedTensor, direction| {
        let Some(own) = expert.copy(direction) else { return Ok(None) };
        let (data, scale_inv) = (copied(&own.data)?, copied(&own.scale_inv)?);
        let amax = own.amax.as_ref().map(copied).transpose()?;
        Ok::<_, Error>(Some(QuantizedCopy { data, scale_inv, amax }))
    };
    let groups = 0..weights.spec().groups;
    let experts = groups.map(|group| {
        let own = weights.group(group)?;
        let (rowwise, columnwise) =
            (copy(&own, Direction::Rowwise)?, copy(&own, Direction::Columnwise)?);
        QuantizedTensor::from_copies(stream, own.spec(), rowwise, columnwise)
    });
    experts.collect()
}

/// Codes and scales at random. What must not influence a result is NaN.
fn draw(
    stream: &Stream,
    generator: &mut Generator,
    (spec, kind): (QuantizedSpec, DrawnScales),
    direction: Direction,
    counts: &[usize],
) -> Result<QuantizedTensor> {
    let shapes = spec.copy(direction);
    let nan = 0x7f;
    let encode = |value: f32| match spec.format.dtype() {
        DType::E5m2 => E5m2::from_f32(value).0,
        _ => E4m3::from_f32(value).0,
    };
    let mut code = || encode(generator.value());
    let mut data: Vec<u8> = match (spec.source, direction) {
        (SourceShape::Weights { .. }, _) => {
            (0..shapes.data.shape.iter().product()).map(|_| code()).collect()
        }
        (SourceShape::Tokens { rows, features }, Direction::Rowwise) => {
            let live: usize = counts.iter().sum();
            let mut data: Vec<u8> = (0..live * features).map(|_| code()).collect();
            data.resize(rows * features, nan);
            data
        }
        (SourceShape::Tokens { features, .. }, Direction::Columnwise) => {
            let pitch = spec.padded_rows();
            let mut data = vec![nan; features * pitch];
            for line in data.chunks_mut(pitch.max(1)) {
                let mut first = 0;
                for &count in counts {
                    let padded = count.next_multiple_of(128);
                    line[first..first + padded].fill(0);
                    line[first..first + count].fill_with(&mut code);
                    first += padded;
                }
            }
            data
        }
    };
    let count: usize = shapes.scale_inv.shape.iter().product();
    let mut scales: Vec<f32> = (0..count).map(|_| 0.25 + generator.value().abs()).collect();
    if let (true, [blocks, pitch]) = (kind != DrawnScales::Any, &shapes.scale_inv.shape[..]) {
        let (blocks, pitch) = (*blocks, *pitch);
        let live = counts.iter().map(|count| count.div_ceil(128)).sum::<usize>().max(1);
        for line in 0..spec.source.columns() {
            for block in 0..blocks {
                let own = match kind {
                    DrawnScales::Mixed => LineScales::ALL[line % LineScales::ALL.len()],
                    DrawnScales::Ends if [live - 1, 0][line / 128 % 2] == block => LineScales::Low,
                    _ => LineScales::Near,
                };
                let (near, factor) = own.block(generator.next(), generator.value());
                let is_peak = kind == DrawnScales::Peaks && line % live == block;
                let scale = if is_peak { 0.125 } else { near };
                scales[block * pitch + line] = scale;
                let first = line * spec.padded_rows() + 128 * block;
                for code in data[first..first + 128].iter_mut().filter(|code| **code & nan < nan) {
                    let value = factor * 256.0 * generator.value();
                    *code = if *code & nan == 0 { 0 } else { encode(value) };
                }
            }
        }
    }
    let mut data_tensor = shapes.data.empty(stream)?;
    data_tensor.write_bytes(stream, &data)?;
    let scale_inv = Tensor::from_slice(stream, &shapes.scale_inv.shape, &scales)?;
    let copy = Some(QuantizedCopy { data: data_tensor, scale_inv, amax: None });
    let (rowwise, columnwise) = match spec.rowwise {
        Some(_) => (copy, None),
        None => (None, copy),
    };
    QuantizedTensor::from_copies(stream, spec, rowwise, columnwise)
}

/// Numbers at random, quantized. What must not influence a result is NaN.
fn quantized(
    stream: &Stream,
    generator: &mut Generator,
    spec: QuantizedSpec,
    four_over_six: bool,
    counts: &[usize],
) -> Result<QuantizedTensor> {
    let mut destination = QuantizedTensor::empty(stream, spec)?;
    for tensor in destination.tensors() {
        tensor.clone().write_bytes(stream, &vec![0xff; tensor.byte_len()])?;
    }
    let columns = spec.source.columns();
    let mut spread = |count: usize| -> Vec<f32> {
        let scaled = |i: usize, value: f32| value * 2f32.powi((i / 48 % 7) as i32 - 3);
        (0..count).map(|i| scaled(i, generator.value())).collect()
    };
    let error = four_over_six.then_some(ErrorMeasure::Squared);
    match spec.source {
        SourceShape::Tokens { rows, .. } => {
            let mut values = spread(counts.iter().sum::<usize>() * columns);
            values.resize(rows * columns, f32::NAN);
            let x = Tensor::from_f32(stream, &[rows, columns], DType::Bf16, &values)?;
            let splits = splits(SplitSource::DeviceI64, stream, counts)?;
            let plain = QuantizeArgs::new(QuantizeSource::Tokens(&x, &splits));
            let args = QuantizeArgs { four_over_six: error, ..plain };
            quantize(stream, args, &mut destination)?;
        }
        SourceShape::Weights { rows, .. } => {
            let values = spread(spec.groups * rows * columns);
            let shape = [spec.groups, rows, columns];
            let w = grouped(Layout::Discrete, stream, &shape, DType::F32, &values)?;
            let plain = QuantizeArgs::new(QuantizeSource::Weights(&w));
            quantize(stream, QuantizeArgs { four_over_six: error, ..plain }, &mut destination)?;
        }
    }
    Ok(destination)
}

fn compute(
    case: &ProductCase,
    operands: &Operands,
    stream: &Stream,
    counts: &[usize],
) -> Result<Vec<f32>> {
    let Operands { a, b, bias, row_scales, before } = operands;
    let splits = splits(SplitSource::DeviceI32, stream, counts)?;
    let splits = &splits;
    let (groups, n, k) = (counts.len(), case.out_features, case.in_features);
    let of_groups = |factor: fn((f32, f32)) -> f32| -> Result<Tensor> {
        let factors = (0..groups).map(|group| factor(case.factors_of(group)));
        Tensor::from_slice(stream, &[groups], &factors.collect::<Vec<_>>())
    };
    let (alphas, betas) = (of_groups(|own| own.0)?, of_groups(|own| own.1)?);
    let (alpha, beta) = match case.per_group {
        true => (Factor::PerGroup(&alphas), Factor::PerGroup(&betas)),
        false => (Factor::Value(case.factors.0), Factor::Value(case.factors.1)),
    };
    let accumulation = case.accumulation;
    let kernel = case.kernel;
    let options = QuantizedGemmOptions { alpha, beta, accumulation, kernel, ..Default::default() };
    let rows = counts.iter().sum::<usize>() + case.tail;
    match case.pass {
        Pass::Fprop => {
            let mut y = Tensor::from_f32(stream, &[rows, n], case.output, before)?;
            let added = |dtype, layout| grouped(layout, stream, &[groups, n], dtype, bias);
            let scales = Tensor::from_slice(stream, &[rows], row_scales)?;
            let (bias, bias_row_scales) = match case.bias {
                ProductBias::None => (None, None),
                ProductBias::Added(dtype, layout) => (Some(added(dtype, layout)?), None),
                ProductBias::RowScaled(dtype, layout) => {
                    (Some(added(dtype, layout)?), Some(&scales))
                }
            };
            let bias = bias.as_ref();
            let args =
                QuantizedFpropArgs { x: a, weights: b, splits, bias, bias_row_scales, options };
            quantized_fprop(stream, &args, &mut y)?;
            y.to_f32(stream)
        }
        Pass::Dgrad => {
            let mut dx = Tensor::from_f32(stream, &[rows, k], case.output, before)?;
            let args = QuantizedDgradArgs { dy: a, weights: b, splits, options };
            quantized_dgrad(stream, &args, &mut dx)?;
            dx.to_f32(stream)
        }
        Pass::Wgrad => {
            let mut dw: GroupedTensor =
                grouped(case.weights, stream, &[groups, n, k], case.output, before)?;
            let args = QuantizedWgradArgs { dy: a, x: b, splits, options };
            quantized_wgrad(stream, &args, &mut dw)?;
            Ok(read_groups_bits(stream, &dw)?.0)
        }
    }
}

/// What the operands stand for, and the first rows of groups.
pub(super) fn restored(
    case: &ProductCase,
    operands: &Operands,
    counts: &[usize],
) -> Result<(Vec<f32>, Vec<f32>, Vec<usize>)> {
    let mut offsets = vec![0];
    offsets.extend(counts.iter().scan(0, |sum, count| {
        *sum += count;
        Some(*sum)
    }));
    let (a_direction, b_direction) = directions(case.pass);
    let side = |tensor: &QuantizedTensor, direction| {
        tensor.copy(direction).cloned().ok_or_else(|| missing_copy("operand", direction))
    };
    let (a, b) = (side(&operands.a, a_direction)?, side(&operands.b, b_direction)?);
    restore_factors(
        (&a, operands.a.spec(), a_direction),
        (&b, operands.b.spec(), b_direction),
        offsets,
    )
}

/// The product and the sums of the magnitudes of its terms, in FP64.
fn expected(
    case: &ProductCase,
    operands: &Operands,
    counts: &[usize],
) -> Result<(Vec<f64>, Vec<f64>)> {
    let (a, b, offsets) = restored(case, operands, counts)?;
    let groups = Groups {
        row_offsets: &offsets,
        out_features: case.out_features,
        in_features: case.in_features,
    };
    let sums = |convert: &dyn Fn(f32) -> f64| -> Result<Vec<f64>> {
        let wide = |values: &[f32]| -> Vec<f64> { values.iter().map(|&v| convert(v)).collect() };
        let (a, b) = (wide(&a), wide(&b));
        let live = groups.live_rows();
        let columns = columns(case);
        let mut d = match case.pass {
            Pass::Wgrad => vec![0.0; counts.len() * case.out_features * columns],
            _ => vec![0.0; live * columns],
        };
        match case.pass {
            Pass::Fprop => plain::fprop(&groups, &a[..live * case.in_features], &b, &mut d)?,
            Pass::Dgrad => plain::dgrad(&groups, &a[..live * case.out_features], &b, &mut d)?,
            Pass::Wgrad => plain::wgrad(&groups, &a, &b, &mut d)?,
        }
        for (index, value) in d.iter_mut().enumerate() {
            let (row, column) = (index / columns, index % columns);
            let group = match case.pass {
                Pass::Wgrad => row / case.out_features,
                Pass::Fprop | Pass::Dgrad => groups.of_row(row),
            };
            let (alpha, beta) = case.factors_of(group);
            *value *= convert(alpha);
            let scale = match case.bias {
                ProductBias::None => None,
                ProductBias::Added(..) => Some(1.0),
                ProductBias::RowScaled(..) => Some(operands.row_scales[row]),
            };
            if let Some(scale) = scale {
                let bias = operands.bias[group * columns + column];
                *value += convert(scale) * convert(bias);
            }
            if beta != 0.0 {
                *value += convert(beta) * convert(operands.before[index]);
            }
        }
        Ok(d)
    };
    Ok((sums(&|value| f64::from(value))?, sums(&|value| f64::from(value).abs())?))
}
