//! Quantization of many tensors in one call, and of tokens that are quantized already.

use grouped_linear::conformance::Generator;
use grouped_linear::functional::{
    Accumulate, DbiasSink, DequantizeSink, QuantizeArgs, QuantizeOptions, QuantizeSource, amax,
    dequantize, quantize, requantize, split_quantize,
};
use grouped_linear::recipe::{BlockShape, Blocks, Format, Nvfp4Format, ScaleRule, Transform};
use grouped_linear::{
    CopySpec, DType, Direction, Form, GroupedTensor, QuantizedCopy, QuantizedSpec, QuantizedTensor,
    RandomState, Result, SourceShape, Splits, Stream, Tensor, TensorSpec,
};

use crate::engines::Test;
use crate::exact::same;
use crate::experts::bits;

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("conversions: a tensor for each split has the numbers of its group", |engine, stream| {
        split(stream).expect(engine)
    }),
    ("conversions: quantized again in the other direction", |engine, stream| {
        again(stream).expect(engine)
    }),
    ("conversions: copies in different forms", |engine, stream| forms(stream).expect(engine)),
    ("conversions: magnitudes found beforehand give the same numbers", |engine, stream| {
        measured(stream).expect(engine)
    }),
    ("conversions: magnitudes of weights of any number of rows", |engine, stream| {
        measured_rows(stream).expect(engine)
    }),
];

const SPLITS: [usize; 4] = [33, 0, 128, 10];
const ROWS: usize = 180;
const FEATURES: usize = 160;

/// Small blocks have a rule of their own.
fn scale(format: Format) -> ScaleRule {
    let power_of_two = matches!(format, Format::Fp8 { .. });
    ScaleRule { power_of_two, epsilon: 0.0 }
}

fn formats() -> [Format; 5] {
    let fp8 = |blocks| Format::fp8(DType::E4m3, blocks);
    [
        fp8(Blocks::Tensor),
        fp8(Blocks::Vector),
        fp8(Blocks::Square),
        Format::Mxfp8 { dtype: DType::E5m2, blocks: BlockShape::Line },
        Format::Nvfp4(Nvfp4Format::LINES),
    ]
}

/// Rows of nobody are not numbers.
fn tokens(stream: &Stream) -> Result<Tensor> {
    let mut generator = Generator::new(41);
    let live: usize = SPLITS.iter().sum();
    let mut values: Vec<f32> = (0..live * FEATURES).map(|_| generator.value()).collect();
    values.resize(ROWS * FEATURES, f32::NAN);
    Tensor::from_f32(stream, &[ROWS, FEATURES], DType::Bf16, &values)
}

fn restored(
    stream: &Stream,
    quantized: &QuantizedTensor,
    direction: Direction,
    splits: &[usize],
) -> Result<Vec<f32>> {
    let rows = quantized.spec().source.rows();
    let mut values = Tensor::zeros(stream, &[rows, FEATURES], DType::F32)?;
    let splits = Splits::host(splits)?;
    dequantize(stream, quantized, direction, DequantizeSink::Tokens(&mut values, &splits))?;
    values.to_f32(stream)
}

fn split(stream: &Stream) -> Result<()> {
    let x = tokens(stream)?;
    let forms = [Some(Form::Codes), Some(Form::Codes)];
    for format in formats() {
        let scale = scale(format);
        let options = QuantizeOptions { scale, ..QuantizeOptions::default() };
        let source = SourceShape::Tokens { rows: ROWS, features: FEATURES };
        let [rowwise, columnwise] = forms;
        let spec = QuantizedSpec { groups: SPLITS.len(), source, format, rowwise, columnwise };
        let mut all = QuantizedTensor::empty(stream, spec)?;
        let splits = Splits::host(&SPLITS)?;
        let args = QuantizeArgs::new(QuantizeSource::Tokens(&x, &splits));
        quantize(stream, QuantizeArgs { scale, ..args }, &mut all)?;
        let parts = split_quantize(stream, &x, &SPLITS, format, forms, options)?;
        assert_eq!(parts.len(), SPLITS.len());
        for direction in [Direction::Rowwise, Direction::Columnwise] {
            let all = restored(stream, &all, direction, &SPLITS)?;
            let mut first = 0;
            for (part, rows) in parts.iter().zip(SPLITS) {
                let got = restored(stream, part, direction, &[rows])?;
                let want = &all[first * FEATURES..(first + rows) * FEATURES];
                same(format!("{format}, {direction:?}, {rows} rows"), &got, want);
                first += rows;
            }
        }
    }
    Ok(())
}

/// Of tokens and weights, read once or twice otherwise.
fn measured(stream: &Stream) -> Result<()> {
    let (x, splits, groups) = (tokens(stream)?, Splits::host(&SPLITS)?, SPLITS.len());
    let mut generator = Generator::new(43);
    let values = generator.values(groups * 48 * FEATURES, DType::Bf16);
    let weights = Tensor::from_f32(stream, &[groups, 48, FEATURES], DType::Bf16, &values)?;
    let weights = GroupedTensor::packed(weights)?;
    let of_tokens = SourceShape::Tokens { rows: ROWS, features: FEATURES };
    let of_weights = SourceShape::Weights { rows: 48, columns: FEATURES };
    for (source, shape) in [
        (QuantizeSource::Tokens(&x, &splits), of_tokens),
        (QuantizeSource::Weights(&weights), of_weights),
    ] {
        let mut largest = Tensor::from_f32(stream, &[groups], DType::F32, &[-1.0; SPLITS.len()])?;
        amax(stream, source, None, &mut largest)?;
        for format in [
            Format::fp8(DType::E5m2, Blocks::Tensor),
            Format::Nvfp4(Nvfp4Format::LINES),
            Format::Nvfp4(Nvfp4Format { blocks: BlockShape::Square, ..Nvfp4Format::LINES }),
        ] {
            let is_fp8 = matches!(format, Format::Fp8 { .. });
            let form = Some(if is_fp8 { Form::Codes } else { Form::Exact });
            let spec =
                QuantizedSpec { groups, source: shape, format, rowwise: form, columnwise: form };
            let quantized = |amax| -> Result<_> {
                let mut quantized = QuantizedTensor::empty(stream, spec)?;
                let args = QuantizeArgs { amax, ..QuantizeArgs::new(source) };
                quantize(stream, args, &mut quantized)?;
                let mut magnitudes = Vec::new();
                for direction in [Direction::Rowwise, Direction::Columnwise] {
                    let amax = quantized.copy(direction).and_then(|copy| copy.amax.as_ref());
                    magnitudes.push(amax.map(|amax| amax.to_f32(stream)).transpose()?);
                }
                Ok((magnitudes, both_restored(stream, &quantized, &splits)?))
            };
            assert_eq!(quantized(Some(&largest))?, quantized(None)?, "{format} of {shape:?}");
        }
    }
    Ok(())
}

/// Of weights that have no multiple of rows that a format would ask for, packed and discrete.
fn measured_rows(stream: &Stream) -> Result<()> {
    let groups = SPLITS.len();
    for rows in [1, 24, 133] {
        let values = Generator::new(44).values(groups * rows * FEATURES, DType::Bf16);
        let largest =
            |values: &[f32]| values.iter().fold(0f32, |most, value| most.max(value.abs()));
        let want: Vec<f32> = values.chunks_exact(rows * FEATURES).map(largest).collect();
        let packed = Tensor::from_f32(stream, &[groups, rows, FEATURES], DType::Bf16, &values)?;
        let experts = (0..groups).map(|group| packed.index(group)).collect::<Result<Vec<_>>>()?;
        for weights in [GroupedTensor::packed(packed)?, GroupedTensor::discrete(stream, experts)?] {
            let mut found = Tensor::from_f32(stream, &[groups], DType::F32, &[-1.0; SPLITS.len()])?;
            amax(stream, QuantizeSource::Weights(&weights), None, &mut found)?;
            assert_eq!(found.to_f32(stream)?, want, "{rows} rows");
        }
    }
    Ok(())
}

/// Both copies, restored.
fn both_restored(
    stream: &Stream,
    quantized: &QuantizedTensor,
    splits: &Splits,
) -> Result<Vec<Vec<f32>>> {
    let spec = quantized.spec();
    let directions = [Direction::Rowwise, Direction::Columnwise].into_iter();
    directions
        .map(|direction| match spec.source {
            SourceShape::Tokens { rows, features } => {
                let mut values = Tensor::zeros(stream, &[rows, features], DType::F32)?;
                let sink = DequantizeSink::Tokens(&mut values, splits);
                dequantize(stream, quantized, direction, sink)?;
                values.to_f32(stream)
            }
            SourceShape::Weights { rows, columns } => {
                let values = Tensor::zeros(stream, &[spec.groups, rows, columns], DType::F32)?;
                let mut grouped = GroupedTensor::packed(values.clone())?;
                let sink = DequantizeSink::Weights(&mut grouped);
                dequantize(stream, quantized, direction, sink)?;
                values.to_f32(stream)
            }
        })
        .collect()
}

fn again(stream: &Stream) -> Result<()> {
    let x = tokens(stream)?;
    let splits = Splits::host(&SPLITS)?;
    for format in formats() {
        let scale = scale(format);
        let options = QuantizeOptions { scale, ..QuantizeOptions::default() };
        let source = SourceShape::Tokens { rows: ROWS, features: FEATURES };
        let spec = |rowwise, columnwise| QuantizedSpec {
            groups: SPLITS.len(),
            source,
            format,
            rowwise,
            columnwise,
        };
        let mut rowwise = QuantizedTensor::empty(stream, spec(Some(Form::Codes), None))?;
        let args = |source| QuantizeArgs { scale, ..QuantizeArgs::new(source) };
        quantize(stream, args(QuantizeSource::Tokens(&x, &splits)), &mut rowwise)?;
        let mut scratch = Tensor::zeros(stream, &[ROWS, FEATURES], DType::F32)?;
        let mut columnwise = QuantizedTensor::empty(stream, spec(None, Some(Form::Codes)))?;
        requantize(stream, &rowwise, &splits, options, &mut scratch, &mut columnwise)?;

        // By hand, from the numbers that the rowwise copy stands for.
        let once = restored(stream, &rowwise, Direction::Rowwise, &SPLITS)?;
        let once = Tensor::from_f32(stream, &[ROWS, FEATURES], DType::F32, &once)?;
        let mut want = QuantizedTensor::empty(stream, spec(None, Some(Form::Codes)))?;
        quantize(stream, args(QuantizeSource::Tokens(&once, &splits)), &mut want)?;
        let [got, want] =
            [&columnwise, &want].map(|own| restored(stream, own, Direction::Columnwise, &SPLITS));
        let (got, want) = (got?, want?);
        same(format!("{format}"), &got, &want);
        assert!(got.iter().any(|&value| value != 0.0), "{format}: nothing was written");

        // Zeros, but not while the flag is set.
        let zeros = Tensor::zeros(stream, &[ROWS, FEATURES], DType::F32)?;
        quantize(stream, args(QuantizeSource::Tokens(&zeros, &splits)), &mut rowwise)?;
        let mut flag = Tensor::from_slice(stream, &[1], &[1i32])?;
        for want in [want, vec![0.0; ROWS * FEATURES]] {
            let options = QuantizeOptions { skip: Some(&flag), ..options };
            requantize(stream, &rowwise, &splits, options, &mut scratch, &mut columnwise)?;
            let got = restored(stream, &columnwise, Direction::Columnwise, &SPLITS)?;
            same(format!("{format}, under a flag"), &got, &want);
            flag.write(stream, &[0i32])?;
        }
    }
    Ok(())
}

/// Each copy is what it is beside one in its own form, the sums of columns and the random state,
/// too.
fn forms(stream: &Stream) -> Result<()> {
    let x = tokens(stream)?;
    let mixed = Nvfp4Format { transform: Transform::Hadamard, ..Nvfp4Format::LINES };
    let line = Format::Mxfp8 { dtype: DType::E4m3, blocks: BlockShape::Line };
    for (format, is_random) in [
        (line, false),
        (Format::Nvfp4(Nvfp4Format::LINES), false),
        (Format::Nvfp4(Nvfp4Format::LINES), true),
        (Format::Nvfp4(mixed), true),
    ] {
        let made = |rowwise, columnwise| -> Result<_> {
            let source = SourceShape::Tokens { rows: ROWS, features: FEATURES };
            let (rowwise, columnwise) = (Some(rowwise), Some(columnwise));
            let spec = QuantizedSpec { groups: SPLITS.len(), source, format, rowwise, columnwise };
            // What nobody writes is the same everywhere.
            let zeros = |spec: TensorSpec| Tensor::zeros(stream, &spec.shape, spec.dtype);
            let copy = |direction| -> Result<_> {
                let CopySpec { data, scale_inv, amax } = spec.copy(direction);
                let (data, scale_inv) = (zeros(data)?, zeros(scale_inv)?);
                Ok(QuantizedCopy { data, scale_inv, amax: amax.map(zeros).transpose()? })
            };
            let rowwise = copy(Direction::Rowwise)?;
            let mut columnwise = copy(Direction::Columnwise)?;
            if format != Format::Nvfp4(mixed) {
                columnwise.amax.clone_from(&rowwise.amax);
            }
            let [rowwise, columnwise] = [Some(rowwise), Some(columnwise)];
            let mut own = QuantizedTensor::from_copies(stream, spec, rowwise, columnwise)?;
            let state = RandomState::new(stream, 9)?;
            let dbias = Tensor::zeros(stream, &[SPLITS.len(), FEATURES], DType::F32)?;
            let mut db = GroupedTensor::packed(dbias.clone())?;
            let splits = Splits::host(&SPLITS)?;
            let args = QuantizeArgs {
                scale: scale(format),
                random: is_random.then_some(&state),
                dbias: Some(DbiasSink { db: &mut db, accumulate: Accumulate::Overwrite }),
                ..QuantizeArgs::new(QuantizeSource::Tokens(&x, &splits))
            };
            quantize(stream, args, &mut own)?;
            let parts = bits(stream, &own)?;
            let copies = parts.chunks(parts.len() / 2).map(<[_]>::to_vec).collect::<Vec<_>>();
            Ok((copies, dbias.to_f32(stream)?, state.read(stream)?))
        };
        let alone = [made(Form::Codes, Form::Codes)?, made(Form::Exact, Form::Exact)?];
        for copy in alone.iter().flat_map(|(copies, ..)| copies) {
            assert!(copy[0].iter().any(|&bits| bits != 0), "{format}: nothing was written");
        }
        for (first, second) in [(0, 1), (1, 0)] {
            let form = |index: usize| [Form::Codes, Form::Exact][index];
            let (copies, dbias, state) = made(form(first), form(second))?;
            let what = format!("{format}, random: {is_random}, rowwise in {:?}", form(first));
            assert!(copies[0] == alone[first].0[0], "{what}: rowwise");
            assert!(copies[1] == alone[second].0[1], "{what}: columnwise");
            same(what.clone(), &dbias, &alone[0].1);
            assert_eq!(state, alone[0].2, "{what}");
        }
    }
    Ok(())
}
