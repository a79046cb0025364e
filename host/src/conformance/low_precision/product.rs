//! Products of quantized operands, against the FP64 product of what their numbers stand for.

use std::fmt;

use super::super::cases::{Layout, SplitSource};
use super::super::compare::{Location, Tolerance, compare_within};
use super::super::data::Generator;
use super::super::rows::RowPattern;
use super::super::run::{Outcome, grouped, read_groups_bits, splits};
use crate::backend::{Device, Stream};
use crate::error::{Error, Result};
use crate::functional::{
    QuantizeArgs, QuantizeSource, QuantizedDgradArgs, QuantizedFpropArgs, QuantizedGemmOptions,
    QuantizedWgradArgs, quantize, quantized_dgrad, quantized_fprop, quantized_wgrad,
};
use crate::gemm::scaled::directions;
use crate::numerics::{E4m3, E5m2};
use crate::plan::{Factor, Pass, Target, micro_form};
use crate::recipe::{
    Accumulation, BlockShape, Blocks, ErrorMeasure, Format, Nvfp4Format, ScaleBound, Scope,
    Transform,
};
use crate::reference::plain::{self, Groups};
use crate::reference::restore_factors;
use crate::tensor::{
    DType, Direction, Form, GroupedTensor, QuantizedCopy, QuantizedSpec, QuantizedTensor,
    SourceShape, Tensor, missing_copy,
};

/// A product of quantized operands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProductCase {
    /// Which product.
    pub pass: Pass,
    /// Rows per group.
    pub rows: RowPattern,
    /// Rows of nobody.
    pub tail: usize,
    /// K.
    pub in_features: usize,
    /// N.
    pub out_features: usize,
    /// Of tokens, or of output gradients.
    pub a: Format,
    /// Of weights, or of tokens.
    pub b: Format,
    /// How both are stored.
    pub form: Form,
    /// How sums grow.
    pub accumulation: Accumulation,
    /// Type of the output.
    pub output: DType,
    /// Factors of the product and of what the output held.
    pub factors: (f32, f32),
    /// Whether a bias is added, times a factor of its row (fprop).
    pub bias: bool,
    /// Whether blocks of NVFP4 choose between 6 and 4.
    pub four_over_six: bool,
    /// How the weights lay before they were gathered (fprop, dgrad), or how their gradients lie.
    pub weights: Layout,
}

impl fmt::Display for ProductCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pass, rows, tail, in_features, out_features, a, b, accumulation, .. } = self;
        write!(f, "{pass:?} {rows:?} + {tail}, K {in_features}, N {out_features}, ")?;
        write!(f, "{a} x {b} {accumulation:?}")?;
        if self.form != Form::Codes {
            write!(f, ", {:?}", self.form)?;
        }
        write!(f, " to {}", self.output)?;
        if self.factors != (1.0, 0.0) {
            write!(f, ", factors {:?}", self.factors)?;
        }
        if self.bias {
            write!(f, ", bias")?;
        }
        if self.weights == Layout::Discrete {
            write!(f, ", discrete weights")?;
        }
        Ok(())
    }
}

/// The products that every engine runs.
pub fn product_cases() -> Vec<ProductCase> {
    use Accumulation::{Fast, Promoted};
    use Blocks::{Square, Vector};
    let format = Format::fp8;
    let mut cases = Vec::new();
    let whole = Blocks::Tensor;
    let scalings = [
        (whole, whole, Fast),
        (whole, whole, Promoted),
        (Vector, Square, Promoted),
        (Vector, Vector, Promoted),
        (Square, Vector, Promoted),
    ];
    for pass in [Pass::Fprop, Pass::Dgrad, Pass::Wgrad] {
        for (a, b, accumulation) in scalings {
            let plain = ProductCase {
                pass,
                rows: RowPattern::Listed(&[65, 128, 97]),
                tail: 13,
                in_features: 272,
                out_features: 400,
                a: format(DType::E4m3, a),
                b: format(DType::E4m3, b),
                form: Form::Codes,
                accumulation,
                output: DType::Bf16,
                factors: (1.0, 0.0),
                bias: false,
                four_over_six: false,
                weights: Layout::Packed,
            };
            let gradients = format(DType::E5m2, a);
            cases.push(ProductCase { output: DType::F32, ..plain });
            cases.push(ProductCase { a: gradients, rows: RowPattern::Edges, ..plain });
            cases.push(ProductCase {
                rows: RowPattern::EmptyMiddle,
                factors: (-0.75, 1.0),
                output: DType::F32,
                in_features: 144,
                out_features: 528,
                ..plain
            });
            let small = ProductCase { in_features: 16, out_features: 16, ..plain };
            cases.push(ProductCase { rows: RowPattern::AllEmpty, tail: 3, ..small });
            cases.push(ProductCase { rows: RowPattern::Many, output: DType::F16, ..small });
            // A tile for each group, and seven steps along the reduction, so that every stage of a
            // block is used again: little work, for checkers that take a thousand times as long.
            let rows = if pass == Pass::Wgrad { &[784, 9] } else { &[70, 9] };
            let along = |own| if pass == own { 784 } else { 48 };
            cases.push(ProductCase {
                rows: RowPattern::Listed(rows),
                in_features: along(Pass::Fprop),
                out_features: along(Pass::Dgrad),
                tail: 3,
                ..plain
            });
            if pass == Pass::Fprop {
                cases.push(ProductCase { bias: true, ..plain });
            }
            cases.push(ProductCase { weights: Layout::Discrete, ..plain });
        }
    }
    let tensor = format(DType::E4m3, whole);
    let none = ProductCase {
        pass: Pass::Wgrad,
        rows: RowPattern::AllEmpty,
        tail: 0,
        in_features: 32,
        out_features: 48,
        a: tensor,
        b: tensor,
        form: Form::Codes,
        accumulation: Promoted,
        output: DType::F32,
        factors: (1.0, 0.0),
        bias: false,
        four_over_six: false,
        weights: Layout::Packed,
    };
    cases.extend([none, ProductCase { pass: Pass::Fprop, ..none }]);
    micro_cases(&none, &mut cases);
    arrangement_cases(&none, &mut cases);
    cases
}

/// What the cases above leave out of Blackwell's two ways to make a tile, or leave to chance where
/// an engine runs every second case: there are two for each kernel, one beside the other. Tokens that
/// are a pair's rows give one odd block 44 live rows and others none.
fn arrangement_cases(none: &ProductCase, cases: &mut Vec<ProductCase>) {
    use Accumulation::{Fast, Promoted};
    use Blocks::{Square, Tensor, Vector};
    use DType::{E4m3, E5m2};
    const PAIRS: RowPattern = RowPattern::Listed(&[300, 1]);
    const BLOCKS: RowPattern = RowPattern::Listed(&[40, 0, 9]);
    for (a, b, accumulation) in [
        (Tensor, Tensor, Fast),
        (Vector, Square, Promoted),
        (Vector, Vector, Promoted),
        (Square, Vector, Promoted),
    ] {
        let plain = ProductCase { accumulation, tail: 13, in_features: 144, ..*none };
        let plain = ProductCase { b: Format::fp8(E4m3, b), ..plain };
        for (dtype, rows) in [(E4m3, PAIRS), (E5m2, PAIRS), (E5m2, BLOCKS)] {
            let tokens = ProductCase { a: Format::fp8(dtype, a), rows, out_features: 144, ..plain };
            cases.push(ProductCase { pass: Pass::Fprop, ..tokens });
            cases.push(ProductCase { pass: Pass::Dgrad, output: DType::Bf16, ..tokens });
        }
        for (dtype, out_features) in [(E4m3, 144), (E5m2, 144), (E5m2, 112)] {
            let a = Format::fp8(dtype, a);
            let weights = ProductCase { a, rows: BLOCKS, out_features, ..plain };
            cases.push(weights);
            cases.push(ProductCase { output: DType::Bf16, ..weights });
        }
    }
}

/// Products of MXFP8 and NVFP4, as exact numbers and in codes.
fn micro_cases(none: &ProductCase, cases: &mut Vec<ProductCase>) {
    let mxfp8 = |blocks| Format::Mxfp8 { dtype: DType::E4m3, blocks };
    let gradients = Format::Mxfp8 { dtype: DType::E5m2, blocks: BlockShape::Line };
    let lines = Nvfp4Format::LINES;
    let of_rows = Format::Nvfp4(Nvfp4Format { scope: Scope::Row, ..lines });
    let mixed = Format::Nvfp4(Nvfp4Format { transform: Transform::Hadamard, ..lines });
    let squares = Format::Nvfp4(Nvfp4Format { blocks: BlockShape::Square, ..lines });
    let chosen =
        |blocks| Format::Nvfp4(Nvfp4Format { blocks, bound: ScaleBound::Reduced, ..lines });
    let (lines, line, square) = (Format::Nvfp4(lines), BlockShape::Line, BlockShape::Square);
    for (pass, a, b, four_over_six) in [
        (Pass::Fprop, mxfp8(line), mxfp8(line), false),
        (Pass::Fprop, mxfp8(line), mxfp8(square), false),
        (Pass::Dgrad, gradients, mxfp8(line), false),
        (Pass::Wgrad, gradients, mxfp8(line), false),
        (Pass::Fprop, lines, squares, false),
        (Pass::Fprop, of_rows, squares, false),
        (Pass::Fprop, chosen(line), chosen(square), true),
        (Pass::Dgrad, mixed, squares, false),
        (Pass::Wgrad, mixed, mixed, false),
        (Pass::Wgrad, lines, lines, false),
    ] {
        let rows = RowPattern::Listed(&[65, 128, 97]);
        let (tail, accumulation) = (13, Accumulation::Promoted);
        let plain = ProductCase { pass, rows, tail, a, b, accumulation, four_over_six, ..*none };
        let plain = ProductCase { in_features: 288, out_features: 416, ..plain };
        block_scaled_cases(ProductCase { form: Form::Swizzled, ..plain }, cases);
        let plain = ProductCase { form: Form::Exact, ..plain };
        cases.push(plain);
        if a == of_rows {
            // Scales of rows in a pair's tiles.
            cases.push(ProductCase { rows: RowPattern::Listed(&[300, 1]), ..plain });
        }
        cases.push(ProductCase { weights: Layout::Discrete, ..plain });
        cases.push(ProductCase { rows: RowPattern::Edges, output: DType::Bf16, ..plain });
        cases.push(ProductCase {
            rows: RowPattern::EmptyMiddle,
            factors: (-0.75, 1.0),
            bias: pass == Pass::Fprop,
            ..plain
        });
        let small = ProductCase { in_features: 32, out_features: 64, ..plain };
        cases.push(ProductCase { rows: RowPattern::AllEmpty, tail: 3, ..small });
        cases.push(ProductCase { rows: RowPattern::Many, output: DType::F16, ..small });
    }
}

/// Products of codes whose tensor cores apply the scales of blocks.
fn block_scaled_cases(plain: ProductCase, cases: &mut Vec<ProductCase>) {
    let is_wgrad = plain.pass == Pass::Wgrad;
    // By blocks alone, then by pairs, of which one odd block has 44 live rows and others none.
    let blocks = ProductCase { rows: RowPattern::Listed(&[40, 0, 9]), out_features: 128, ..plain };
    let pairs = ProductCase { rows: RowPattern::Listed(&[300, 1]), output: DType::Bf16, ..plain };
    cases.extend([
        plain,
        blocks,
        pairs,
        ProductCase { weights: Layout::Discrete, output: DType::F16, ..pairs },
        ProductCase { rows: RowPattern::Edges, output: DType::Bf16, ..plain },
        ProductCase {
            rows: RowPattern::EmptyMiddle,
            factors: (-0.75, 1.0),
            bias: plain.pass == Pass::Fprop,
            ..plain
        },
    ]);
    // Every place of the rings and of tensor memory is used again, along the reduction ...
    let (rows, along): (&[usize], _) = if is_wgrad { (&[1180, 9], 96) } else { (&[70, 9], 1184) };
    let deep = ProductCase { rows: RowPattern::Listed(rows), ..plain };
    cases.push(match plain.pass {
        Pass::Fprop => ProductCase { in_features: along, out_features: 96, ..deep },
        Pass::Dgrad => ProductCase { in_features: 96, out_features: along, ..deep },
        Pass::Wgrad => ProductCase { in_features: 288, out_features: along, ..deep },
    });
    // ... and by tile after tile, alone and in pairs.
    for rows in [&[130, 3, 257][..], &[70, 20, 40]] {
        let many = ProductCase { rows: RowPattern::Listed(rows), output: DType::Bf16, ..plain };
        cases.push(match plain.pass {
            Pass::Fprop => ProductCase { in_features: 32, out_features: 800, ..many },
            Pass::Dgrad => ProductCase { in_features: 800, out_features: 32, ..many },
            Pass::Wgrad if rows.len() == 3 && rows[0] == 130 => {
                ProductCase { in_features: 800, out_features: 320, ..many }
            }
            Pass::Wgrad => ProductCase { in_features: 800, out_features: 64, ..many },
        });
    }
    let small = ProductCase { in_features: 32, out_features: 64, ..plain };
    cases.push(ProductCase { rows: RowPattern::AllEmpty, tail: 3, ..small });
    cases.push(ProductCase { rows: RowPattern::Many, output: DType::F16, ..small });
    if plain.a.multiple() == 16 {
        // Lines that tensor copies cannot read in codes, but as exact numbers.
        let thin = ProductCase { in_features: 48, out_features: 80, ..plain };
        cases.extend([thin, ProductCase { form: Form::Exact, ..thin }]);
    }
}

/// Where the operands of a case lie, and what they stand for.
struct Operands {
    a: QuantizedTensor,
    b: QuantizedTensor,
    bias: Vec<f32>,
    row_scales: Vec<f32>,
    before: Vec<f32>,
}

impl ProductCase {
    /// Why a device must refuse the product, if it must.
    pub(super) fn refusal(&self, target: Target) -> Option<&'static str> {
        let features = [self.in_features, self.out_features];
        let takes_codes =
            target.kernels().is_none_or(|own| micro_form(own, features) == Form::Swizzled);
        let in_codes = self.form == Form::Swizzled;
        // Without rows nothing is multiplied, and no operand is read.
        let multiplies = self.tail > 0 || self.rows.splits().iter().any(|&rows| rows > 0);
        (in_codes && multiplies && !takes_codes)
            .then_some("codes are not multiplied by such tensor cores, or with such features")
    }
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
    let got = got.map_err(|error| format!("failed: {error}"))?;
    let cpu = Device::cpu().stream().and_then(|stream| Operands::new(case, &stream, &counts));
    let (want, magnitude) = cpu
        .and_then(|operands| expected(case, &operands, &counts))
        .map_err(|error| format!("the oracle failed: {error}"))?;

    let columns = columns(case);
    let live: usize = counts.iter().sum();
    let compared = if case.pass == Pass::Wgrad { got.len() } else { live * columns };
    // The FP8 tensor cores of Hopper align 32 products and the sum so far to the largest of them, and
    // cut each off 13 bits below. Hardly an element loses more than a quarter of this limit, and the
    // whole must be closer.
    let own = Tolerance::of(case.output);
    let accumulation = if case.a.is_micro() { own.accumulation } else { 2f64.powi(-11) };
    let tolerance = Tolerance { accumulation, norm: 1e-3, ..own };
    let locate =
        |index: usize| Location { expert: 0, row: index / columns, column: index % columns };
    let (result, rest) = got.split_at(compared);
    compare_within("result", case.output, tolerance, result, &want, &magnitude, &locate)?;
    let before = Device::cpu()
        .stream()
        .and_then(|stream| Ok(Operands::new(case, &stream, &counts)?.before))
        .map_err(|error| error.to_string())?;
    match rest.iter().zip(&before[compared..]).position(|(now, then)| now != then) {
        None => Ok(Outcome::Passed),
        Some(index) => Err(format!("element {index} past the rows of all experts was written")),
    }
}

fn columns(case: &ProductCase) -> usize {
    if case.pass == Pass::Fprop { case.out_features } else { case.in_features }
}

impl Operands {
    fn new(case: &ProductCase, stream: &Stream, counts: &[usize]) -> Result<Self> {
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
            draw(stream, &mut generator, spec, direction, counts)
        };
        let a = operand(a, case.a, a_direction)?;
        let mut b = operand(b, case.b, b_direction)?;
        if case.weights == Layout::Discrete && case.pass != Pass::Wgrad {
            b = QuantizedTensor::gather(stream, &apart(stream, &b)?)?;
        }
        let bias = generator.values(groups * n, DType::F32);
        let row_scales = generator.values(rows, DType::F32);
        let length = if case.pass == Pass::Wgrad { groups * n * k } else { rows * columns(case) };
        let before = generator.values(length, case.output);
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
    spec: QuantizedSpec,
    direction: Direction,
    counts: &[usize],
) -> Result<QuantizedTensor> {
    let shapes = spec.copy(direction);
    let nan = 0x7f;
    let mut code = || match spec.format.dtype() {
        DType::E5m2 => E5m2::from_f32(generator.value()).0,
        _ => E4m3::from_f32(generator.value()).0,
    };
    let data: Vec<u8> = match (spec.source, direction) {
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
    let scales: Vec<f32> = (0..count).map(|_| 0.25 + generator.value().abs()).collect();
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
    let (alpha, beta) = (Factor::Value(case.factors.0), Factor::Value(case.factors.1));
    let options = QuantizedGemmOptions { alpha, beta, accumulation: case.accumulation };
    let rows = counts.iter().sum::<usize>() + case.tail;
    match case.pass {
        Pass::Fprop => {
            let mut y = Tensor::from_f32(stream, &[rows, n], case.output, before)?;
            let bias = grouped(Layout::Packed, stream, &[groups, n], DType::F32, bias)?;
            let scales = Tensor::from_slice(stream, &[rows], row_scales)?;
            let (bias, bias_row_scales) =
                if case.bias { (Some(&bias), Some(&scales)) } else { (None, None) };
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

/// The product and the sums of the magnitudes of its terms, in FP64.
fn expected(
    case: &ProductCase,
    operands: &Operands,
    counts: &[usize],
) -> Result<(Vec<f64>, Vec<f64>)> {
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
    let (a, b, offsets) = restore_factors(
        (&a, operands.a.spec(), a_direction),
        (&b, operands.b.spec(), b_direction),
        offsets,
    )?;
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
        let (alpha, beta) = case.factors;
        for (index, value) in d.iter_mut().enumerate() {
            *value *= convert(alpha);
            if case.bias {
                let (row, column) = (index / columns, index % columns);
                let group = groups.of_row(row);
                let bias = operands.bias[group * columns + column];
                *value += convert(operands.row_scales[row]) * convert(bias);
            }
            if beta != 0.0 {
                *value += convert(beta) * convert(operands.before[index]);
            }
        }
        Ok(d)
    };
    Ok((sums(&|value| f64::from(value))?, sums(&|value| f64::from(value).abs())?))
}
