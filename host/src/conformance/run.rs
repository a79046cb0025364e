//! Runs a case on a device.

use half::{bf16, f16};

use super::cases::{BiasCase, Case, Factors, Layout, Operation, SplitSource};
use super::compare::{Location, compare};
use super::data::Generator;
use super::layer;
use super::oracle::{Inputs, expected};
use crate::backend::{Device, DeviceKind, Stream};
use crate::error::Result;
use crate::functional::{
    Accumulate, DbiasArgs, DgradArgs, DscalesArgs, FpropArgs, GemmOptions, WgradArgs,
};
use crate::grouped_linear::functional;
use crate::plan::{Factor, KernelChoice};
use crate::splits::Splits;
use crate::tensor::{DType, GroupedTensor, Tensor};

/// One output after a run.
pub(super) struct Output {
    /// The operation that computes it; for a layer, one of its parts.
    operation: Operation,
    dtype: DType,
    /// What it held before, if it is the caller's: elements past the experts' rows keep that.
    before: Option<Vec<f32>>,
    after: Vec<f32>,
    /// The same, as bits.
    bits: Vec<u32>,
    /// Whether a layer added to what it held.
    accumulates: bool,
}

/// How a case ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was run, and the results are right.
    Passed,
    /// It was not run: the device must refuse it, for this reason, and did.
    Refused(&'static str),
}

/// Runs `case` twice on `device` and checks the results: close to the oracle, untouched where
/// nothing may be written, and equal to the bit between the two runs. An emulated GPU takes the
/// same course twice, so there the second run is left out unless it is the one in a graph.
///
/// # Errors
/// What is wrong, in words.
pub fn run_case(case: &Case, device: &Device) -> Result<Outcome, String> {
    let repeats = device.id().kind != DeviceKind::Emulated || case.layer.captured;
    run(case, device, if repeats { 2 } else { 1 })
}

/// Runs `case` once on `device`, in a graph if it is captured, and checks the results as
/// [`run_case`] does.
///
/// # Errors
/// What is wrong, in words.
pub fn run_case_once(case: &Case, device: &Device) -> Result<Outcome, String> {
    run(case, device, 1)
}

fn run(case: &Case, device: &Device, times: usize) -> Result<Outcome, String> {
    let results = device.stream().and_then(|stream| {
        // The last of several runs is the one in a graph, so that it is compared with an eager one.
        let captured = |time: usize| case.layer.captured && time + 1 == times;
        let results = (0..times)
            .map(|time| outputs(case, &stream, captured(time)))
            .collect::<Result<Vec<Vec<Output>>>>()?;
        stream.synchronize()?;
        Ok(results)
    });
    let gpu = device.id().kind != DeviceKind::Cpu;
    if let Some(reason) = case.refusal(gpu) {
        return match results {
            Err(error) if error.is_unsupported() => Ok(Outcome::Refused(reason)),
            Err(error) => Err(format!("refused ({reason}), but as something else: {error}")),
            Ok(_) => Err(format!("should have been refused: {reason}")),
        };
    }
    let results = results.map_err(|error| format!("failed: {error}"))?;
    let Some((first, others)) = results.split_first() else { return Ok(Outcome::Passed) };
    let inputs = Inputs::new(case, &mut Generator::named(&case.to_string()));
    for first in first {
        check(case, &inputs, first)?;
    }
    for (first, second) in others.iter().flat_map(|other| first.iter().zip(other)) {
        if let Some(index) = (0..first.bits.len()).find(|&i| first.bits[i] != second.bits[i]) {
            let live = live_elements(case, &inputs, first);
            if index < live || first.before.is_some() {
                return Err(format!(
                    "{:?}: two runs differ: {} and {} at {}",
                    first.operation,
                    first.after[index],
                    second.after[index],
                    location(case, &inputs, first.operation, index)
                ));
            }
        }
    }
    Ok(Outcome::Passed)
}

fn check(case: &Case, inputs: &Inputs, output: &Output) -> Result<(), String> {
    let what = format!("{:?}", output.operation);
    let before = output.before.as_deref().unwrap_or_default();
    let want = expected(case, output.operation, inputs, before, output.accumulates)
        .map_err(|error| format!("{what}: the oracle failed: {error}"))?;
    let live = live_elements(case, inputs, output);
    compare(&what, output.dtype, &output.after[..live], &want.values, &want.magnitude, &|index| {
        location(case, inputs, output.operation, index)
    })?;
    if output.before.is_none() {
        return Ok(());
    }
    let kept = |index: &usize| output.after[*index].to_bits() != before[*index].to_bits();
    match (live..output.after.len()).find(kept) {
        None => Ok(()),
        Some(index) => Err(format!(
            "{what}: element {index}, past the rows of all experts, held {} and now holds {}",
            before[index], output.after[index]
        )),
    }
}

/// Columns of the output, and whether its rows are token rows.
fn shape(case: &Case, operation: Operation) -> (usize, bool) {
    match operation {
        Operation::Fprop | Operation::Layer => (case.out_features, true),
        Operation::Dgrad => (case.in_features, true),
        Operation::Dscales => (1, true),
        Operation::Wgrad => (case.in_features, false),
        Operation::Dbias => (case.out_features, false),
    }
}

fn live_elements(case: &Case, inputs: &Inputs, output: &Output) -> usize {
    match shape(case, output.operation) {
        (columns, true) => inputs.live_rows() * columns,
        (_, false) => output.after.len(),
    }
}

fn location(case: &Case, inputs: &Inputs, operation: Operation, index: usize) -> Location {
    let (columns, follows_rows) = shape(case, operation);
    let (row, column) = (index / columns, index % columns);
    let rows_each = if operation == Operation::Wgrad { case.out_features } else { 1 };
    match follows_rows {
        true if row >= inputs.live_rows() => Location { expert: inputs.groups(), row, column },
        true => Location { expert: inputs.group_of_row(row), row, column },
        false => Location { expert: row / rows_each, row: row % rows_each, column },
    }
}

/// The tensors that a case reads.
pub(super) struct Operands {
    pub x: Tensor,
    pub dy: Tensor,
    pub weights: GroupedTensor,
    pub bias: GroupedTensor,
    pub row_scales: Tensor,
    pub splits: Splits,
    alpha: Tensor,
    beta: Tensor,
}

impl Operands {
    fn new(case: &Case, inputs: &Inputs, stream: &Stream) -> Result<Self> {
        let (rows, groups) = (inputs.rows, inputs.groups());
        let (n, k) = (case.out_features, case.in_features);
        let tensor =
            |shape: &[usize], values: &[f32]| Tensor::from_f32(stream, shape, case.input, values);
        let factors = |values: &[f32]| Tensor::from_slice(stream, &[groups], values);
        Ok(Self {
            x: tensor(&[rows, k], &inputs.x)?,
            dy: tensor(&[rows, n], &inputs.dy)?,
            weights: grouped(case.layout, stream, &[groups, n, k], case.input, &inputs.weights)?,
            bias: grouped(
                case.bias_layout(),
                stream,
                &[groups, n],
                case.bias_type(),
                &inputs.bias,
            )?,
            row_scales: Tensor::from_slice(stream, &[rows], &inputs.row_scales)?,
            splits: splits(case.splits, stream, &inputs.splits)?,
            alpha: factors(&inputs.alpha)?,
            beta: factors(&inputs.beta)?,
        })
    }

    fn options(&self, case: &Case, inputs: &Inputs, stream: &Stream) -> GemmOptions<'_> {
        let (alpha, beta) = match case.factors {
            Factors::PerGroup => (Factor::PerGroup(&self.alpha), Factor::PerGroup(&self.beta)),
            _ => (Factor::Value(inputs.alpha[0]), Factor::Value(inputs.beta[0])),
        };
        // The CPU, whose results are compared with, has no tensor cores to ask for.
        let kernel = match (stream.device().target().gpu, case.kernel) {
            (Some(_), kernel) | (None, kernel @ KernelChoice::Simt) => kernel,
            (None, _) => KernelChoice::Auto,
        };
        GemmOptions { alpha, beta, kernel }
    }
}

/// Computes the case once; a layer in a graph, if `captured`.
fn outputs(case: &Case, stream: &Stream, captured: bool) -> Result<Vec<Output>> {
    let mut generator = Generator::named(&case.to_string());
    let inputs = Inputs::new(case, &mut generator);
    let operands = Operands::new(case, &inputs, stream)?;
    if case.operation == Operation::Layer {
        return layer::outputs(case, &inputs, &operands, stream, &mut generator, captured);
    }
    let (groups, n, k) = (inputs.groups(), case.out_features, case.in_features);
    let (x, dy, splits) = (&operands.x, &operands.dy, &operands.splits);
    let (weights, bias) = (&operands.weights, &operands.bias);
    let options = operands.options(case, &inputs, stream);
    let (columns, follows_rows) = shape(case, case.operation);
    let before = if follows_rows {
        inputs.rows_before(columns, case.output, &mut generator)
    } else {
        let length = if case.operation == Operation::Wgrad { n * k } else { n };
        inputs.groups_before(length, case.output, false, &mut generator)
    };
    let row_scales = case.row_scaled().then_some(&operands.row_scales);

    let read = match case.operation {
        Operation::Fprop => {
            let mut y = Tensor::from_f32(stream, &[inputs.rows, n], case.output, &before)?;
            let bias = (case.bias != BiasCase::None).then_some(bias);
            let args = FpropArgs { x, weights, splits, bias, bias_row_scales: row_scales, options };
            functional::fprop(stream, &args, &mut y)?;
            read_bits(stream, &y)?
        }
        Operation::Dgrad => {
            let mut dx = Tensor::from_f32(stream, &[inputs.rows, k], case.output, &before)?;
            functional::dgrad(stream, &DgradArgs { dy, weights, splits, options }, &mut dx)?;
            read_bits(stream, &dx)?
        }
        Operation::Wgrad => {
            let mut dw = grouped(case.layout, stream, &[groups, n, k], case.output, &before)?;
            functional::wgrad(stream, &WgradArgs { dy, x, splits, options }, &mut dw)?;
            read_groups_bits(stream, &dw)?
        }
        Operation::Dbias => {
            let mut db = grouped(case.layout, stream, &[groups, n], case.output, &before)?;
            let accumulate = match case.factors {
                Factors::Accumulate => Accumulate::Add,
                _ => Accumulate::Overwrite,
            };
            let args = DbiasArgs { dy, splits, row_scales, accumulate };
            functional::dbias(stream, &args, &mut db)?;
            read_groups_bits(stream, &db)?
        }
        Operation::Dscales | Operation::Layer => {
            let mut gradient = Tensor::from_slice(stream, &[inputs.rows], &before)?;
            functional::dscales(stream, &DscalesArgs { dy, bias, splits }, &mut gradient)?;
            read_bits(stream, &gradient)?
        }
    };
    Ok(vec![output(case.operation, case.output, Some(before), read, false)])
}

pub(super) fn output(
    operation: Operation,
    dtype: DType,
    before: Option<Vec<f32>>,
    (after, bits): (Vec<f32>, Vec<u32>),
    accumulates: bool,
) -> Output {
    Output { operation, dtype, before, after, bits, accumulates }
}

pub(super) fn grouped(
    layout: Layout,
    stream: &Stream,
    shape: &[usize],
    dtype: DType,
    values: &[f32],
) -> Result<GroupedTensor> {
    match layout {
        Layout::Packed => GroupedTensor::packed(Tensor::from_f32(stream, shape, dtype, values)?),
        Layout::Discrete => {
            let length: usize = shape[1..].iter().product();
            let tensors = values
                .chunks(length)
                .map(|values| Tensor::from_f32(stream, &shape[1..], dtype, values))
                .collect::<Result<_>>()?;
            GroupedTensor::discrete(stream, tensors)
        }
    }
}

pub(super) fn splits(source: SplitSource, stream: &Stream, counts: &[usize]) -> Result<Splits> {
    let shape = [counts.len()];
    match source {
        SplitSource::Host => Splits::host(counts),
        SplitSource::DeviceI32 => {
            let counts: Vec<i32> = counts.iter().map(|&count| count as i32).collect();
            Splits::device(Tensor::from_slice(stream, &shape, &counts)?)
        }
        SplitSource::DeviceI64 => {
            let counts: Vec<i64> = counts.iter().map(|&count| count as i64).collect();
            Splits::device(Tensor::from_slice(stream, &shape, &counts)?)
        }
    }
}

/// The elements as FP32 and as the bits that lie in memory.
pub(super) fn read_bits(stream: &Stream, tensor: &Tensor) -> Result<(Vec<f32>, Vec<u32>)> {
    let bits: Vec<u32> = match tensor.dtype() {
        DType::Bf16 => {
            tensor.to_vec::<bf16>(stream)?.iter().map(|v| u32::from(v.to_bits())).collect()
        }
        DType::F16 => {
            tensor.to_vec::<f16>(stream)?.iter().map(|v| u32::from(v.to_bits())).collect()
        }
        _ => tensor.to_vec::<f32>(stream)?.iter().map(|v| v.to_bits()).collect(),
    };
    Ok((tensor.to_f32(stream)?, bits))
}

pub(super) fn read_groups_bits(
    stream: &Stream,
    tensor: &GroupedTensor,
) -> Result<(Vec<f32>, Vec<u32>)> {
    let (mut values, mut bits) = (Vec::new(), Vec::new());
    for group in 0..tensor.groups() {
        let (part_values, part_bits) = read_bits(stream, &tensor.group(group)?)?;
        values.extend(part_values);
        bits.extend(part_bits);
    }
    Ok((values, bits))
}
