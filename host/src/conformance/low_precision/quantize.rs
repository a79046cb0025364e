//! Quantizations: every byte of data, scales and history is that of the CPU's. Sums of columns may
//! be added up in another order.

use half::{bf16, f16};

use super::super::cases::Layout;
use super::super::compare::Tolerance;
use super::super::data::{Generator, round};
use super::super::run::{grouped, splits};
use super::quantize_cases::{QuantizeCase, SourceCase};
use crate::backend::{Device, Stream};
use crate::error::Result;
use crate::functional::{
    Accumulate, DbiasSink, DequantizeSink, QuantizeArgs, QuantizeSource, amax, dequantize, pad,
    quantize, restore_exact, swizzle, unpad,
};
use crate::grouped_linear::{DelayedState, RandomState};
use crate::plan::{PadProblem, Padding};
use crate::recipe::{AmaxChoice, DelayedScaling, Format, Transform};
use crate::splits::Splits;
use crate::tensor::{
    DType, Direction, Form, GroupedTensor, QuantizedSpec, QuantizedTensor, SourceShape, Tensor,
};

/// What every byte holds before.
const POISON: u8 = 0xa5;

/// Runs the case on `device` and on the CPU, and compares every byte.
pub(super) fn run(case: &QuantizeCase, device: &Device) -> Result<(), String> {
    let bytes = |device: &Device| device.stream().and_then(|stream| outputs(case, &stream));
    let want = bytes(&Device::cpu()).map_err(|error| format!("the CPU failed: {error}"))?;
    let got = bytes(device).map_err(|error| format!("failed: {error}"))?;
    for ((name, dtype, want), (_, _, got)) in want.iter().zip(&got) {
        if name == DB {
            compare_sums(case, got, want)?;
            continue;
        }
        if dtype.is_float() && !name.ends_with(" data") {
            let pairs = decode(got, *dtype).into_iter().zip(decode(want, *dtype));
            // Which NaN a NaN becomes, the engines do not agree on; of exact numbers they do.
            let same = |(got, want): (f32, f32)| {
                got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan()
            };
            if let Some(index) = pairs.map(same).position(|same| !same) {
                return Err(format!("{name}: element {index} differs from the CPU's"));
            }
            continue;
        }
        let wrong: Vec<usize> = (0..want.len()).filter(|&i| want[i] != got[i]).collect();
        let Some(&first) = wrong.first() else { continue };
        return Err(format!(
            "{name}: {} of {} bytes differ; byte {first} is {:#04x}, the CPU's is {:#04x}",
            wrong.len(),
            want.len(),
            got[first],
            want[first]
        ));
    }
    Ok(())
}

/// Name of the sums of columns among the outputs.
const DB: &str = "db";

/// Sums of up to some hundred numbers of about one.
fn compare_sums(case: &QuantizeCase, got: &[u8], want: &[u8]) -> Result<(), String> {
    let Some((dtype, _)) = case.dbias else { return Ok(()) };
    let (got, want) = (decode(got, dtype), decode(want, dtype));
    for (index, (got, want)) in got.iter().zip(&want).enumerate() {
        let limit = 1e-4 + Tolerance::of(dtype).relative * f64::from(want.abs());
        let error = (f64::from(*got) - f64::from(*want)).abs();
        if error.is_nan() || error > limit {
            return Err(format!("{DB}: element {index} is {got}, the CPU's is {want}"));
        }
    }
    Ok(())
}

fn decode(bytes: &[u8], dtype: DType) -> Vec<f32> {
    let halves = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    match dtype {
        DType::Bf16 => halves.map(|bits| bf16::from_bits(bits).to_f32()).collect(),
        DType::F16 => halves.map(|bits| f16::from_bits(bits).to_f32()).collect(),
        _ => bytemuck::pod_collect_to_vec(bytes),
    }
}

/// Numbers of every kind: mostly ordinary, with blocks of zeros, tiny and huge numbers, infinities
/// and NaNs among them.
fn values(
    generator: &mut Generator,
    rows: usize,
    columns: usize,
    dtype: DType,
    ordinary: bool,
) -> Vec<f32> {
    let mut values = Vec::with_capacity(rows * columns);
    for row in 0..rows {
        for column in 0..columns {
            let block = (row / 32 + 5 * (column / 64)) % 11;
            let value = generator.value();
            let odd = generator.next() % 997;
            let value = match (block, odd) {
                _ if ordinary => value,
                (3, _) => 0.0 * value,
                (5, _) => value * 1e-38,
                (7, _) => value * 3e4,
                (8, 0..=3) => f32::NAN,
                (9, 0..=1) => f32::INFINITY,
                (10, 0) => -f32::INFINITY,
                _ => value,
            };
            values.push(round(value, dtype));
        }
    }
    values
}

/// Name, type and bytes of all that a case writes.
fn outputs(case: &QuantizeCase, stream: &Stream) -> Result<Vec<(String, DType, Vec<u8>)>> {
    let mut generator = Generator::named(&case.to_string());
    let (columns, dtype) = (case.columns, case.input);
    let (groups, source, counts) = match case.source {
        SourceCase::Tokens(rows, tail) => {
            let counts = rows.splits();
            let rows = counts.iter().sum::<usize>() + tail;
            (counts.len(), SourceShape::Tokens { rows, features: columns }, counts)
        }
        SourceCase::Weights(_, groups, rows) => {
            (groups, SourceShape::Weights { rows, columns }, Vec::new())
        }
    };
    let [rowwise, columnwise] = case.copies.map(|wanted| wanted.then_some(case.form));
    let spec = QuantizedSpec { groups, source, format: case.format, rowwise, columnwise };
    let mut destination = QuantizedTensor::empty(stream, spec)?;
    destination.tensors().try_for_each(|tensor| poison(stream, tensor))?;
    let flag = case.flag.map(|flag| Tensor::from_slice(stream, &[1], &[flag])).transpose()?;
    let delayed = case.history.map(|steps| history(stream, case, steps, groups)).transpose()?;
    let mut db = case
        .dbias
        .map(|(dtype, _)| {
            let before = generator.values(groups * columns, dtype);
            grouped(Layout::Discrete, stream, &[groups, columns], dtype, &before)
        })
        .transpose()?;

    let random = case.stochastic.then(|| RandomState::new(stream, 0x5eed)).transpose()?;
    let random = random.as_ref();
    let given = case.amax.then(|| magnitudes(stream, groups)).transpose()?;
    let given = given.as_ref();
    let mut moved = Vec::new();
    match case.source {
        SourceCase::Tokens(_, tail) => {
            let live: usize = counts.iter().sum();
            let mut values = values(&mut generator, live, columns, dtype, case.dbias.is_some());
            // What belongs to nobody is large, and not a number.
            values.extend((0..tail * columns).map(|i| [round(1e4, dtype), f32::NAN][i % 2]));
            let x = Tensor::from_f32(stream, &[live + tail, columns], dtype, &values)?;
            let splits = splits(case.splits, stream, &counts)?;
            let source = QuantizeSource::Tokens(&x, &splits);
            measure(case, stream, source, flag.as_ref(), groups, &mut moved)?;
            let args = args(case, source, flag.as_ref(), delayed.as_ref(), db.as_mut());
            let args = QuantizeArgs { random, amax: given, ..args };
            quantize(stream, args, &mut destination)?;
            change_forms(case, stream, &destination, Some(&splits), &mut moved)?;
            for direction in destination.directions().filter(|&own| is_restorable(case, own)) {
                for dtype in restored_types(dtype) {
                    let mut restored = poisoned(stream, x.shape(), dtype)?;
                    let sink = DequantizeSink::Tokens(&mut restored, &splits);
                    dequantize(stream, &destination, direction, sink)?;
                    moved.push((format!("{direction:?} restored to {dtype}"), restored));
                }
            }
            let padding = PadProblem {
                way: Padding::Pad,
                groups,
                rows: live + tail,
                columns,
                dtype,
                row_align: 48,
            };
            let mut padded = poisoned(stream, &[padding.padded_rows(), columns], dtype)?;
            pad(stream, &x, &splits, padding.row_align, &mut padded)?;
            let mut back = poisoned(stream, x.shape(), dtype)?;
            unpad(stream, &padded, &splits, padding.row_align, &mut back)?;
            moved.extend([("padded".to_owned(), padded), ("unpadded".to_owned(), back)]);
        }
        SourceCase::Weights(layout, groups, rows) => {
            let values = values(&mut generator, groups * rows, columns, dtype, false);
            let weights = grouped(layout, stream, &[groups, rows, columns], dtype, &values)?;
            let source = QuantizeSource::Weights(&weights);
            measure(case, stream, source, flag.as_ref(), groups, &mut moved)?;
            let args = args(case, source, flag.as_ref(), delayed.as_ref(), None);
            let args = QuantizeArgs { random, amax: given, ..args };
            quantize(stream, args, &mut destination)?;
            change_forms(case, stream, &destination, None, &mut moved)?;
            for direction in destination.directions().filter(|&own| is_restorable(case, own)) {
                for dtype in restored_types(dtype) {
                    let zeros = vec![0.0; groups * rows * columns];
                    let shape = [groups, rows, columns];
                    let mut restored = grouped(layout, stream, &shape, dtype, &zeros)?;
                    let sink = DequantizeSink::Weights(&mut restored);
                    dequantize(stream, &destination, direction, sink)?;
                    let name = format!("{direction:?} restored to {dtype}");
                    let parts = restored.tensors().iter();
                    moved.extend(parts.map(|part| (name.clone(), part.clone())));
                }
            }
        }
    }

    let mut outputs = Vec::new();
    let mut read = |name: &str, tensor: &Tensor| -> Result<()> {
        let mut bytes = vec![0; tensor.byte_len()];
        tensor.read_bytes(stream, &mut bytes)?;
        outputs.push((name.to_owned(), tensor.dtype(), bytes));
        Ok(())
    };
    for (name, tensor) in &moved {
        read(name, tensor)?;
    }
    for direction in destination.directions() {
        let Some(copy) = destination.copy(direction) else { continue };
        read(&format!("{direction:?} data"), &copy.data)?;
        read(&format!("{direction:?} scale_inv"), &copy.scale_inv)?;
        copy.amax.iter().try_for_each(|amax| read(&format!("{direction:?} amax"), amax))?;
    }
    random.map_or(Ok(()), |random| read("random state", random.tensor()))?;
    if let Some(mut state) = delayed {
        read("history", state.history())?;
        match &flag {
            Some(flag) => state.update_unless(stream, flag)?,
            None => state.update(stream)?,
        }
        read("history after the step", state.history())?;
        read("scale after the step", state.scale())?;
    }
    destination.scale().map_or(Ok(()), |scale| read("scale", scale))?;
    for tensor in db.iter().flat_map(GroupedTensor::tensors) {
        read(DB, tensor)?;
    }
    Ok(outputs)
}

/// Types that a copy is taken back to, one of 32 bits and one of 16: kernels store them in other
/// ways.
fn restored_types(input: DType) -> [DType; 2] {
    [DType::F32, if input == DType::F32 { DType::Bf16 } else { input }]
}

/// Whether a copy can be taken back to what it was made from.
fn is_restorable(case: &QuantizeCase, direction: Direction) -> bool {
    let mixed = matches!(case.format, Format::Nvfp4(own) if own.transform != Transform::None);
    !(mixed && direction == Direction::Columnwise)
}

/// Stores what was quantized in the other ways that there are.
fn change_forms(
    case: &QuantizeCase,
    stream: &Stream,
    quantized: &QuantizedTensor,
    splits: Option<&Splits>,
    moved: &mut Vec<(String, Tensor)>,
) -> Result<()> {
    let spec = quantized.spec();
    let form = spec.rowwise.or(spec.columnwise).unwrap_or_default();
    let skipped = case.flag.is_some_and(|flag| flag != 0);
    if skipped || matches!(spec.format, Format::Fp8 { .. }) || form == Form::Exact {
        return Ok(());
    }
    let other = if form == Form::Codes { Form::Swizzled } else { Form::Codes };
    for target in [other, Form::Exact] {
        let [rowwise, columnwise] = [spec.rowwise, spec.columnwise].map(|own| own.map(|_| target));
        let mut changed =
            QuantizedTensor::empty(stream, QuantizedSpec { rowwise, columnwise, ..spec })?;
        changed.tensors().try_for_each(|tensor| poison(stream, tensor))?;
        match target {
            Form::Exact => restore_exact(stream, quantized, splits, &mut changed)?,
            _ => swizzle(stream, quantized, splits, &mut changed)?,
        }
        for (part, tensor) in changed.tensors().enumerate() {
            moved.push((format!("part {part} in {target:?}"), tensor.clone()));
        }
    }
    Ok(())
}

fn poison(stream: &Stream, tensor: &Tensor) -> Result<()> {
    tensor.clone().write_bytes(stream, &vec![POISON; tensor.byte_len()])
}

fn poisoned(stream: &Stream, shape: &[usize], dtype: DType) -> Result<Tensor> {
    let tensor = Tensor::empty(stream, shape, dtype)?;
    poison(stream, &tensor)?;
    Ok(tensor)
}

fn args<'a>(
    case: &QuantizeCase,
    source: QuantizeSource<'a>,
    skip: Option<&'a Tensor>,
    delayed: Option<&'a DelayedState>,
    db: Option<&'a mut GroupedTensor>,
) -> QuantizeArgs<'a> {
    let accumulate = case.dbias.map_or(Accumulate::Overwrite, |(_, accumulate)| accumulate);
    let dbias = db.map(|db| DbiasSink { db, accumulate });
    let plain = QuantizeArgs::new(source);
    let four_over_six = case.four_over_six;
    QuantizeArgs { scale: case.scale, delayed, skip, dbias, four_over_six, ..plain }
}

/// Magnitudes of groups, smaller and larger than those of the source, and what is none.
fn magnitudes(stream: &Stream, groups: usize) -> Result<Tensor> {
    let some = [2.5, f32::NAN, 3e38, f32::INFINITY, -1.0, 0.125, 0.0, 1e-42, 96.0];
    let given: Vec<f32> = (0..groups).map(|group| some[group % some.len()]).collect();
    Tensor::from_f32(stream, &[groups], DType::F32, &given)
}

/// Finds the source's own magnitudes, where a case has to do with them.
fn measure(
    case: &QuantizeCase,
    stream: &Stream,
    source: QuantizeSource<'_>,
    flag: Option<&Tensor>,
    groups: usize,
    moved: &mut Vec<(String, Tensor)>,
) -> Result<()> {
    if case.amax {
        let mut found = poisoned(stream, &[groups], DType::F32)?;
        amax(stream, source, flag, &mut found)?;
        moved.push(("amax".to_owned(), found));
    }
    Ok(())
}

/// A history of some steps, with scales that earlier ones gave.
fn history(
    stream: &Stream,
    case: &QuantizeCase,
    steps: usize,
    groups: usize,
) -> Result<DelayedState> {
    let choice = if steps > 1 { AmaxChoice::Max } else { AmaxChoice::MostRecent };
    let recipe = DelayedScaling { history_len: steps, choice, margin: 1, ..Default::default() };
    let mut state = DelayedState::new(stream, recipe, groups, case.format.dtype())?;
    for step in 0..3u32 {
        let amaxes: Vec<f32> =
            (0..groups).map(|g| [0.0, 1.5, f32::INFINITY, 7.0][(g + step as usize) % 4]).collect();
        state.amax()?.write(stream, &amaxes)?;
        state.update(stream)?;
    }
    Ok(state)
}
