//! Products of operands that have a NaN: what it reaches is NaN, and nothing else.

use super::super::compare::Location;
use super::super::data::Generator;
use super::super::rows::RowPattern;
use super::product::{Operands, restored};
use super::product_cases::{DrawnScales, ProductBias, ProductCase};
use crate::backend::{Device, Stream};
use crate::error::{Error, Result};
use crate::gemm::scaled::directions;
use crate::plan::{KernelChoice, Pass};
use crate::recipe::{Accumulation, BlockShape, Blocks, Format, Nvfp4Format, Scope, Transform};
use crate::tensor::{DType, Form, SourceShape, Tensor, missing_copy};

/// What is NaN in each operand, at one place that reaches a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NanIn {
    /// Nothing.
    #[default]
    Nothing,
    /// A code, or an exact number.
    Data,
    /// The scale of a block or a group.
    ScaleInv,
    /// The magnitude of a group or a row, of NVFP4.
    Amax,
    /// The scale, or the magnitude, of a group without rows, which reaches nothing.
    Idle,
}

/// Which NaN there are with each format, each way to sum, and each form.
pub(super) fn nan_cases(none: &ProductCase, cases: &mut Vec<ProductCase>) {
    use Accumulation::{Fast, Promoted};
    use Blocks::{Square, Tensor, Vector};
    use DType::{Bf16, E4m3, E5m2, F16, F32};
    let in_each = |case: ProductCase, parts: &[NanIn], cases: &mut Vec<ProductCase>| {
        cases.extend(parts.iter().map(|&nan| ProductCase { nan, ..case }));
    };
    // A group for the NaN of each operand, one without rows, and one that none reaches.
    let plain = ProductCase { rows: RowPattern::Listed(&[65, 0, 40, 20]), tail: 5, ..*none };
    let passes = [Pass::Fprop, Pass::Dgrad, Pass::Wgrad];
    for (i, (a, b, accumulation)) in [
        (Tensor, Tensor, Fast),
        (Tensor, Tensor, Promoted),
        (Vector, Square, Promoted),
        (Vector, Vector, Promoted),
        (Square, Vector, Promoted),
    ]
    .into_iter()
    .enumerate()
    {
        for (j, pass) in passes.into_iter().enumerate() {
            let a = Format::fp8(if pass == Pass::Fprop { E4m3 } else { E5m2 }, a);
            let (b, output) = (Format::fp8(E4m3, b), [F32, Bf16, F16][(i + j) % 3]);
            let bias = ProductBias::in_fprop(pass);
            let own = ProductCase { pass, a, b, accumulation, output, bias, ..plain };
            let own = ProductCase { in_features: 272, out_features: 144, ..own };
            in_each(own, &[NanIn::Data, NanIn::ScaleInv], cases);
            if own.b == Format::fp8(E4m3, Tensor) {
                in_each(own, &[NanIn::Idle], cases);
            }
        }
    }
    let aligned = ProductCase { kernel: KernelChoice::Aligned, scales: DrawnScales::Near, ..plain };
    let aligned = ProductCase { in_features: 272, out_features: 144, ..aligned };
    let vectors = Format::fp8(E4m3, Vector);
    let aligned = ProductCase { a: vectors, b: vectors, pass: Pass::Wgrad, ..aligned };
    in_each(aligned, &[NanIn::Data, NanIn::ScaleInv], cases);

    let mxfp8 = |dtype, blocks| Format::Mxfp8 { dtype, blocks };
    let lines = Nvfp4Format::LINES;
    let squares = Format::Nvfp4(Nvfp4Format { blocks: BlockShape::Square, ..lines });
    let of_rows = Format::Nvfp4(Nvfp4Format { scope: Scope::Row, ..lines });
    let mixed = Format::Nvfp4(Nvfp4Format { transform: Transform::Hadamard, ..lines });
    let (line, square, lines) = (BlockShape::Line, BlockShape::Square, Format::Nvfp4(lines));
    for (pass, a, b, output) in [
        (Pass::Fprop, mxfp8(E4m3, line), mxfp8(E4m3, square), Bf16),
        (Pass::Dgrad, mxfp8(E5m2, line), mxfp8(E4m3, line), F32),
        (Pass::Wgrad, mxfp8(E5m2, line), mxfp8(E4m3, line), F16),
        (Pass::Fprop, lines, squares, F32),
        (Pass::Fprop, of_rows, squares, Bf16),
        (Pass::Dgrad, mixed, squares, F16),
        (Pass::Wgrad, mixed, mixed, F32),
        (Pass::Wgrad, lines, lines, Bf16),
    ] {
        let own = ProductCase { pass, a, b, output, in_features: 96, out_features: 160, ..plain };
        let exact = ProductCase { form: Form::Exact, ..own };
        let codes = ProductCase { form: Form::Swizzled, ..own };
        match a {
            Format::Nvfp4(_) => {
                in_each(exact, &[NanIn::Data, NanIn::Amax], cases);
                // FP4 has no NaN.
                in_each(codes, &[NanIn::ScaleInv, NanIn::Amax], cases);
                if pass == Pass::Wgrad {
                    in_each(exact, &[NanIn::Idle], cases);
                    in_each(codes, &[NanIn::Idle], cases);
                }
            }
            _ => {
                in_each(exact, &[NanIn::Data], cases);
                in_each(codes, &[NanIn::Data, NanIn::ScaleInv], cases);
            }
        }
    }
}

/// The NaN of a case are written into its operands.
pub(super) fn put(
    case: &ProductCase,
    operands: &Operands,
    stream: &Stream,
    counts: &[usize],
) -> Result<()> {
    if case.nan == NanIn::Nothing {
        return Ok(());
    }
    let cpu = Device::cpu().stream()?;
    let model = Operands::drawn(case, &cpu, counts)?;
    let mut generator = Generator::named(&format!("NaN, {case}"));
    for side in [Side::A, Side::B] {
        let place = find(case, &model, side, counts, &mut generator)?;
        elements(case, operands, side)?.narrow(place, 1)?.write_bytes(stream, nan(case))?;
    }
    Ok(())
}

/// Takes out of what is compared what a NaN reaches; a message if it does not.
pub(super) fn set_apart(
    case: &ProductCase,
    got: &mut [f32],
    want: &mut [f64],
    magnitude: &mut [f64],
    locate: &dyn Fn(usize) -> Location,
) -> Result<(), String> {
    let reached = want.iter().filter(|value| value.is_nan()).count();
    let expected = match case.nan {
        NanIn::Nothing | NanIn::Idle => reached == 0,
        _ => 0 < reached && reached < want.len(),
    };
    if !expected {
        return Err(format!("NaN in {:?} reach {reached} of {} elements", case.nan, want.len()));
    }
    let elements = got.iter_mut().zip(want).zip(magnitude);
    for (index, ((got, want), magnitude)) in elements.enumerate() {
        match (got.is_nan(), want.is_nan()) {
            (true, true) => (*got, *want, *magnitude) = (0.0, 0.0, 0.0),
            (false, true) => {
                return Err(format!("{got} where a NaN reaches, at {}", locate(index)));
            }
            (true, false) => return Err(format!("NaN that comes from none, at {}", locate(index))),
            (false, false) => {}
        }
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    A,
    B,
}

/// The elements among which one becomes NaN, in one dimension.
fn elements(case: &ProductCase, operands: &Operands, side: Side) -> Result<Tensor> {
    let (a, b) = directions(case.pass);
    let (tensor, direction) = match side {
        Side::A => (&operands.a, a),
        Side::B => (&operands.b, b),
    };
    let copy = tensor.copy(direction).ok_or_else(|| missing_copy("operand", direction))?;
    let part = match case.nan {
        NanIn::ScaleInv => Some(&copy.scale_inv),
        NanIn::Amax => copy.amax.as_ref(),
        NanIn::Idle => copy.amax.as_ref().or(Some(&copy.scale_inv)),
        NanIn::Nothing | NanIn::Data => Some(&copy.data),
    };
    let part = part.ok_or_else(|| Error::invalid("operands without magnitudes"))?;
    part.reshape(&[part.len()])
}

/// The bytes of a NaN there.
fn nan(case: &ProductCase) -> &'static [u8] {
    const FP32: &[u8] = &0x7fc0_0000_u32.to_le_bytes();
    match (case.nan, case.a) {
        (NanIn::Amax | NanIn::Idle, _) | (NanIn::ScaleInv, Format::Fp8 { .. }) => FP32,
        (NanIn::Nothing | NanIn::Data, _) if case.form == Form::Exact => &[0xc0, 0x7f],
        // E8M0.
        (NanIn::ScaleInv, Format::Mxfp8 { .. }) => &[0xff],
        // E4M3, and E5M2 as well.
        _ => &[0x7f],
    }
}

/// An element that reaches a result if it is NaN: others are padding, or of groups without rows (of
/// which the case may ask for one). Where they lie, the reference says.
fn find(
    case: &ProductCase,
    model: &Operands,
    side: Side,
    counts: &[usize],
    generator: &mut Generator,
) -> Result<usize> {
    if case.nan == NanIn::Idle {
        let idle = counts.iter().position(|rows| *rows == 0);
        return idle.ok_or_else(|| Error::invalid("every group has rows"));
    }
    let stream = Device::cpu().stream()?;
    let elements = elements(case, model, side)?;
    let mut before = vec![0; elements.dtype().bytes()];
    for _ in 0..1000 {
        let index = (generator.next() % elements.len().max(1) as u64) as usize;
        let mut element = elements.narrow(index, 1)?;
        element.read_bytes(&stream, &mut before)?;
        element.write_bytes(&stream, nan(case))?;
        let reaches = reaches(case, model, side, counts)?;
        element.write_bytes(&stream, &before)?;
        if reaches {
            return Ok(index);
        }
    }
    Err(Error::invalid("no NaN reaches a result"))
}

fn reaches(case: &ProductCase, model: &Operands, side: Side, counts: &[usize]) -> Result<bool> {
    let (a, b, offsets) = restored(case, model, counts)?;
    let tensor = if side == Side::A { &model.a } else { &model.b };
    let mut values = if side == Side::A { a } else { b };
    let columns = tensor.spec().source.columns();
    let is_weights = matches!(tensor.spec().source, SourceShape::Weights { .. });
    if !is_weights {
        // Behind the last group lies what no quantizer has written.
        values.truncate(offsets[counts.len()] * columns);
    }
    let Some(first) = values.iter().position(|value| value.is_nan()) else { return Ok(false) };
    Ok(!is_weights || counts[first / (case.out_features * case.in_features)] > 0)
}
