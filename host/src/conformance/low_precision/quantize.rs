//! Quantizations: every byte of data, scales and history is that of the CPU's. Sums of columns may be
//! added up in another order.

use std::fmt;

use half::{bf16, f16};

use super::super::cases::{Layout, SplitSource};
use super::super::compare::Tolerance;
use super::super::data::{Generator, round};
use super::super::rows::RowPattern;
use super::super::run::{grouped, splits};
use crate::backend::{Device, Stream};
use crate::error::Result;
use crate::functional::{
    Accumulate, DbiasSink, DequantizeSink, QuantizeArgs, QuantizeSource, dequantize, pad, quantize,
    restore_exact, swizzle, unpad,
};
use crate::grouped_linear::{DelayedState, RandomState};
use crate::plan::{PadProblem, Padding};
use crate::recipe::{
    AmaxChoice, BlockShape, Blocks, DelayedScaling, ErrorMeasure, Format, Nvfp4Format, ScaleBound,
    ScaleRule, Scope, Transform,
};
use crate::splits::Splits;
use crate::tensor::{
    DType, Direction, Form, GroupedTensor, QuantizedSpec, QuantizedTensor, SourceShape, Tensor,
};

/// What is quantized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SourceCase {
    /// Tokens of these groups, with so many rows of nobody behind them.
    Tokens(RowPattern, usize),
    /// Weights of so many groups and rows.
    Weights(Layout, usize, usize),
}

/// A quantization.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuantizeCase {
    /// What is quantized.
    pub source: SourceCase,
    /// Columns of the source.
    pub columns: usize,
    /// Type of the source.
    pub input: DType,
    /// To what.
    pub format: Format,
    /// Which copies: rowwise and columnwise.
    pub copies: [bool; 2],
    /// How they are stored.
    pub form: Form,
    /// How scales follow from magnitudes.
    pub scale: ScaleRule,
    /// Steps of a history, if there is one.
    pub history: Option<usize>,
    /// Type of db, and whether it is added to, if it is wanted.
    pub dbias: Option<(DType, Accumulate)>,
    /// What the flag on the device holds, if there is one.
    pub flag: Option<i32>,
    /// Where splits are known.
    pub splits: SplitSource,
    /// How blocks of NVFP4 choose between 6 and 4, if they do.
    pub four_over_six: Option<ErrorMeasure>,
    /// Whether NVFP4 is rounded at random.
    pub stochastic: bool,
}

impl fmt::Display for QuantizeCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, columns, input, format, copies, scale, history, .. } = self;
        write!(f, "quantize {source:?} x {columns} {input} to {format}")?;
        write!(
            f,
            ", copies {}{}",
            if copies[0] { "r" } else { "" },
            if copies[1] { "c" } else { "" }
        )?;
        if self.form != Form::Codes {
            write!(f, ", {:?}", self.form)?;
        }
        if let Some(error) = self.four_over_six {
            write!(f, ", four over six by {error:?}")?;
        }
        if self.stochastic {
            write!(f, ", at random")?;
        }
        if scale.power_of_two {
            write!(f, ", powers of two")?;
        }
        if scale.epsilon != 0.0 {
            write!(f, ", epsilon {}", scale.epsilon)?;
        }
        if let Some(steps) = history {
            write!(f, ", history of {steps}")?;
        }
        if let Some((dtype, accumulate)) = &self.dbias {
            write!(f, ", db {dtype} {accumulate:?}")?;
        }
        if let Some(flag) = self.flag {
            write!(f, ", flag {flag}")?;
        }
        write!(f, ", splits {:?}", self.splits)
    }
}

/// The quantizations that every engine runs.
pub fn quantize_cases() -> Vec<QuantizeCase> {
    let plain = QuantizeCase {
        source: SourceCase::Tokens(RowPattern::Listed(&[65, 128, 97]), 13),
        columns: 256,
        input: DType::Bf16,
        format: Format::fp8(DType::E4m3, Blocks::Vector),
        copies: [true, true],
        scale: ScaleRule { power_of_two: true, epsilon: 0.0 },
        history: None,
        dbias: None,
        flag: None,
        splits: SplitSource::DeviceI64,
        form: Form::Codes,
        four_over_six: None,
        stochastic: false,
    };
    let any = ScaleRule { power_of_two: false, epsilon: 0.0 };
    let mut cases = Vec::new();
    for blocks in [Blocks::Tensor, Blocks::Vector, Blocks::Square] {
        let format = |dtype| Format::fp8(dtype, blocks);
        let own = QuantizeCase { format: format(DType::E4m3), ..plain };
        // Each copy alone and both, in both formats, from every type.
        for copies in [[true, true], [true, false], [false, true]] {
            cases.push(QuantizeCase { copies, ..own });
            cases.push(QuantizeCase { copies, scale: any, format: format(DType::E5m2), ..own });
        }
        cases.push(QuantizeCase { input: DType::F16, scale: any, ..own });
        cases.push(QuantizeCase { input: DType::F32, scale: any, ..own });
        cases.push(QuantizeCase { input: DType::F32, columns: 144, ..own });
        // Groups without rows, many groups, ragged last blocks, single rows.
        let patterns = [
            (RowPattern::Listed(&[128, 0, 96]), 240),
            (RowPattern::AllEmpty, 16),
            (RowPattern::One, 16),
            (RowPattern::Edges, 400),
            (RowPattern::Many, 48),
            (RowPattern::VeryMany, 16),
            (RowPattern::EmptyFirst, 272),
        ];
        for (rows, columns) in patterns {
            let splits = SplitSource::DeviceI32;
            cases.push(QuantizeCase {
                source: SourceCase::Tokens(rows, 200),
                columns,
                splits,
                ..own
            });
        }
        let host = SplitSource::Host;
        cases.push(QuantizeCase {
            source: SourceCase::Tokens(RowPattern::Giant, 0),
            splits: host,
            ..own
        });
        for (layout, groups, rows, columns) in [
            (Layout::Packed, 3, 144, 272),
            (Layout::Discrete, 3, 144, 272),
            (Layout::Packed, 1, 16, 16),
            (Layout::Discrete, 5, 128, 128),
        ] {
            let source = SourceCase::Weights(layout, groups, rows);
            cases.push(QuantizeCase { source, columns, ..own });
            cases.push(QuantizeCase { source, columns, copies: [true, false], scale: any, ..own });
            cases.push(QuantizeCase {
                source,
                columns,
                input: DType::F32,
                copies: [false, true],
                ..own
            });
        }
        for flag in [0, 1, i32::MIN] {
            cases.push(QuantizeCase { flag: Some(flag), ..own });
        }
        // The flag keeps the sums of the columns, too.
        for (flag, accumulate) in
            [(0, Accumulate::Add), (1, Accumulate::Add), (-1, Accumulate::Overwrite)]
        {
            let source = SourceCase::Tokens(RowPattern::Edges, 3);
            let (flag, dbias) = (Some(flag), Some((DType::F32, accumulate)));
            cases.push(QuantizeCase { source, columns: 208, flag, dbias, ..own });
        }
        cases.push(QuantizeCase { scale: ScaleRule { epsilon: 0.5, ..any }, ..own });
        for dbias in [
            (DType::Bf16, Accumulate::Overwrite),
            (DType::F32, Accumulate::Add),
            (DType::F32, Accumulate::Overwrite),
        ] {
            let source = SourceCase::Tokens(RowPattern::Edges, 3);
            cases.push(QuantizeCase { source, dbias: Some(dbias), columns: 208, ..own });
        }
        let one = (DType::F32, Accumulate::Overwrite);
        cases.push(QuantizeCase { dbias: Some(one), copies: [true, false], ..own });
        cases.push(QuantizeCase { dbias: Some(one), copies: [false, true], ..own });
    }
    let format = Format::fp8(DType::E5m2, Blocks::Tensor);
    for steps in [1, 4] {
        let delayed = QuantizeCase { history: Some(steps), scale: any, format, ..plain };
        cases.push(delayed);
        cases.push(QuantizeCase { copies: [false, true], ..delayed });
        cases.push(QuantizeCase { source: SourceCase::Weights(Layout::Packed, 4, 80), ..delayed });
        cases.push(QuantizeCase {
            source: SourceCase::Tokens(RowPattern::EmptyMiddle, 5),
            dbias: Some((DType::F32, Accumulate::Add)),
            ..delayed
        });
        // The flag keeps the history, too, and ends no step.
        for flag in [0, 1] {
            let own = QuantizeCase { flag: Some(flag), ..delayed };
            cases.push(own);
            let source = SourceCase::Weights(Layout::Discrete, 3, 144);
            cases.push(QuantizeCase { source, copies: [true, false], ..own });
            let dbias = Some((DType::Bf16, Accumulate::Overwrite));
            cases.push(QuantizeCase { dbias, ..own });
        }
    }
    micro_cases(&QuantizeCase { scale: any, ..plain }, &mut cases);
    cases
}

/// MXFP8 and NVFP4.
fn micro_cases(plain: &QuantizeCase, cases: &mut Vec<QuantizeCase>) {
    use BlockShape::{Line, Square};
    let mxfp8 = |dtype, blocks| Format::Mxfp8 { dtype, blocks };
    let lines = Nvfp4Format::LINES;
    let squares = Nvfp4Format { blocks: Square, ..lines };
    let mixed = Nvfp4Format { transform: Transform::Hadamard, ..lines };
    let formats = [
        mxfp8(DType::E4m3, Line),
        mxfp8(DType::E5m2, Square),
        Format::Nvfp4(lines),
        Format::Nvfp4(squares),
        Format::Nvfp4(mixed),
    ];
    for format in formats {
        let multiple = format.multiple();
        let own = QuantizeCase { format, ..*plain };
        for form in [Form::Codes, Form::Swizzled, Form::Exact] {
            for copies in [[true, true], [true, false], [false, true]] {
                cases.push(QuantizeCase { copies, form, ..own });
            }
            cases.push(QuantizeCase { input: DType::F32, columns: 5 * multiple, form, ..own });
            cases.push(QuantizeCase { input: DType::F16, form, ..own });
            for (layout, groups) in [(Layout::Packed, 3), (Layout::Discrete, 2)] {
                let source = SourceCase::Weights(layout, groups, 160);
                cases.push(QuantizeCase { source, columns: 224, form, ..own });
            }
        }
        let patterns = [
            (RowPattern::Listed(&[128, 0, 96]), 192),
            (RowPattern::AllEmpty, multiple),
            (RowPattern::One, multiple),
            (RowPattern::Edges, 288),
            (RowPattern::VeryMany, 32),
        ];
        for (rows, columns) in patterns {
            for form in [Form::Codes, Form::Exact] {
                let (source, splits) = (SourceCase::Tokens(rows, 200), SplitSource::DeviceI32);
                cases.push(QuantizeCase { source, columns, splits, form, ..own });
            }
        }
        for flag in [0, 1] {
            cases.push(QuantizeCase { flag: Some(flag), ..own });
            let dbias = Some((DType::F32, Accumulate::Overwrite));
            let form = if flag == 0 { Form::Codes } else { Form::Exact };
            cases.push(QuantizeCase { flag: Some(flag), dbias, form, ..own });
        }
        let source = SourceCase::Tokens(RowPattern::Edges, 3);
        let dbias = Some((DType::F32, Accumulate::Add));
        cases.push(QuantizeCase { source, dbias, columns: 224, form: Form::Exact, ..own });
    }
    for format in [lines, mixed] {
        let random = QuantizeCase { format: Format::Nvfp4(format), stochastic: true, ..*plain };
        for form in [Form::Codes, Form::Exact] {
            cases.push(QuantizeCase { form, ..random });
            cases.push(QuantizeCase { form, input: DType::F32, copies: [false, true], ..random });
        }
        cases.push(QuantizeCase { flag: Some(1), ..random });
    }
    let rows = Nvfp4Format { scope: Scope::Row, ..lines };
    for (bound, error) in [
        (ScaleBound::Full, ErrorMeasure::Absolute),
        (ScaleBound::Reduced, ErrorMeasure::Squared),
        (ScaleBound::Reduced, ErrorMeasure::Absolute),
    ] {
        let four_over_six = Some(error);
        for format in [lines, squares] {
            let format = Format::Nvfp4(Nvfp4Format { bound, ..format });
            let choosing = QuantizeCase { format, four_over_six, ..*plain };
            cases.push(choosing);
            let source = SourceCase::Weights(Layout::Discrete, 2, 160);
            cases.push(QuantizeCase { source, form: Form::Exact, ..choosing });
        }
        let format = Format::Nvfp4(Nvfp4Format { bound, ..rows });
        let copies = [true, false];
        cases.push(QuantizeCase { format, four_over_six, copies, ..*plain });
    }
    for form in [Form::Codes, Form::Exact] {
        let format = Format::Nvfp4(rows);
        cases.push(QuantizeCase { format, form, copies: [true, false], ..*plain });
    }
}

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
        if dtype.is_float() {
            let pairs = decode(got, *dtype).into_iter().zip(decode(want, *dtype));
            // Which NaN a NaN becomes, the engines do not agree on.
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

/// Numbers of every kind: mostly ordinary, with blocks of zeros, tiny and huge numbers, infinities and
/// NaNs among them.
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
            let args = args(case, source, flag.as_ref(), delayed.as_ref(), db.as_mut());
            quantize(stream, QuantizeArgs { random, ..args }, &mut destination)?;
            change_forms(case, stream, &destination, Some(&splits), &mut moved)?;
            for direction in destination.directions().filter(|&own| is_restorable(case, own)) {
                let mut restored = poisoned(stream, x.shape(), DType::F32)?;
                let sink = DequantizeSink::Tokens(&mut restored, &splits);
                dequantize(stream, &destination, direction, sink)?;
                moved.push((format!("{direction:?} restored"), restored));
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
            let args = args(case, source, flag.as_ref(), delayed.as_ref(), None);
            quantize(stream, QuantizeArgs { random, ..args }, &mut destination)?;
            change_forms(case, stream, &destination, None, &mut moved)?;
            for direction in destination.directions().filter(|&own| is_restorable(case, own)) {
                let zeros = vec![0.0; groups * rows * columns];
                let shape = [groups, rows, columns];
                let mut restored = grouped(layout, stream, &shape, DType::Bf16, &zeros)?;
                let sink = DequantizeSink::Weights(&mut restored);
                dequantize(stream, &destination, direction, sink)?;
                let name = format!("{direction:?} restored");
                moved.extend(restored.tensors().iter().map(|part| (name.clone(), part.clone())));
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
    } else if let Some(scale) = destination.scale() {
        read("scale", scale)?;
    }
    for tensor in db.iter().flat_map(GroupedTensor::tensors) {
        read(DB, tensor)?;
    }
    Ok(outputs)
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
