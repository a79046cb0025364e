//! Ways of storing MXFP8 and NVFP4, and the way back.

use grouped_linear::functional::{
    DequantizeSink, QuantizeArgs, QuantizeSource, dequantize, quantize, restore_exact, swizzle,
};
use grouped_linear::plan::{DequantizeProblem, Plan, SwizzleProblem, Target};
use grouped_linear::recipe::{BlockShape, Format};
use grouped_linear::{
    DType, DeviceKind, Direction, Error, Form, LayerRecipe, QuantizedCopy, QuantizedSpec,
    QuantizedTensor, Result, SourceShape, Splits, Stream, Tensor,
};

use super::halfway::with_late;
use super::small_blocks::{CODES, EXACT, MIXED, MXFP8, NVFP4, SWIZZLED, token_spec, weight_spec};
use super::{CONFIG, CURRENT, E4M3, K, UNSUPPORTED, VECTORS, grouped, zeros};
use crate::fitting::{GROUPS, ROWS};
use crate::{INVALID, Refusal};

type Change = fn(&Stream, &QuantizedTensor, Option<&Splits>, &mut QuantizedTensor) -> Result<()>;

/// Quantizes zeros as the spec says, and changes them into what `to` says.
fn change(stream: &Stream, how: Change, from: QuantizedSpec, to: QuantizedSpec) -> Result<()> {
    let splits = Splits::host(&[2, 3])?;
    let splits = matches!(from.source, SourceShape::Tokens { .. }).then_some(&splits);
    change_with(stream, how, from, to, splits)
}

fn change_with(
    stream: &Stream,
    how: Change,
    from: QuantizedSpec,
    to: QuantizedSpec,
    splits: Option<&Splits>,
) -> Result<()> {
    let from = quantized(stream, from)?;
    how(stream, &from, splits, &mut QuantizedTensor::empty(stream, to)?)
}

fn quantized(stream: &Stream, spec: QuantizedSpec) -> Result<QuantizedTensor> {
    let mut to = QuantizedTensor::empty(stream, spec)?;
    match spec.source {
        SourceShape::Tokens { rows, features } => {
            let (x, splits) = (zeros(stream, &[rows, features])?, Splits::host(&[2, 3])?);
            let source = QuantizeSource::Tokens(&x, &splits);
            quantize(stream, QuantizeArgs::new(source), &mut to)?;
        }
        SourceShape::Weights { rows, columns } => {
            let source = grouped(stream, &[spec.groups, rows, columns])?;
            let source = QuantizeSource::Weights(&source);
            quantize(stream, QuantizeArgs::new(source), &mut to)?;
        }
    }
    Ok(to)
}

pub(super) const EXACT_NUMBERS: &[Refusal] = &[
    ("exact numbers of fewer tokens", "destination: it was made for", INVALID, |s| {
        let source = SourceShape::Tokens { rows: ROWS - 1, features: K };
        let to = QuantizedSpec { source, ..token_spec(K, MXFP8, EXACT) };
        change(s, restore_exact, token_spec(K, MXFP8, CODES), to)
    }),
    ("exact numbers of more groups", "destination: it was made for", INVALID, |s| {
        let to = QuantizedSpec { groups: GROUPS + 1, ..weight_spec(MXFP8, EXACT) };
        change(s, restore_exact, weight_spec(MXFP8, CODES), to)
    }),
    ("exact numbers of NVFP4 from MXFP8", "destination: it was made for", INVALID, |s| {
        change(s, restore_exact, token_spec(K, MXFP8, CODES), token_spec(K, NVFP4, EXACT))
    }),
    ("exact numbers of squares from lines", "destination: it was made for", INVALID, |s| {
        let squares = Format::Mxfp8 { dtype: DType::E4m3, blocks: BlockShape::Square };
        change(s, restore_exact, weight_spec(MXFP8, CODES), weight_spec(squares, EXACT))
    }),
    ("exact numbers as codes", "destination: exact numbers are made", INVALID, |s| {
        change(s, restore_exact, token_spec(K, MXFP8, CODES), token_spec(K, MXFP8, SWIZZLED))
    }),
    ("exact numbers of half-exact weights", "destination: exact numbers are made", INVALID, |s| {
        let half = weight_spec(NVFP4, [EXACT[0], CODES[1]]);
        change(s, restore_exact, weight_spec(NVFP4, CODES), half)
    }),
    ("FP8 as exact numbers", "FP8 with FP32 scales has none in BF16", UNSUPPORTED, |s| {
        change(s, restore_exact, token_spec(K, E4M3, CODES), token_spec(K, E4M3, CODES))
    }),
    ("exact numbers of exact numbers", "the copy holds exact numbers", UNSUPPORTED, |s| {
        change(s, restore_exact, token_spec(K, NVFP4, EXACT), token_spec(K, NVFP4, EXACT))
    }),
    ("exact numbers of no codes", "source: the columnwise copy is needed", INVALID, |s| {
        let from = token_spec(K, MXFP8, [CODES[0], None]);
        change(s, restore_exact, from, token_spec(K, MXFP8, EXACT))
    }),
    ("tokens' exact numbers without splits", "splits: tokens have them", INVALID, |s| {
        let (from, to) = (token_spec(K, MXFP8, CODES), token_spec(K, MXFP8, EXACT));
        change_with(s, restore_exact, from, to, None)
    }),
    ("weights' exact numbers with splits", "splits: weights have none", INVALID, |s| {
        let splits = Splits::host(&[2, 3])?;
        let (from, to) = (weight_spec(NVFP4, CODES), weight_spec(NVFP4, EXACT));
        change_with(s, restore_exact, from, to, Some(&splits))
    }),
    ("exact numbers of three groups' splits", "3 were given", INVALID, |s| {
        let splits = Splits::host(&[2, 3, 0])?;
        let (from, to) = (token_spec(K, MXFP8, CODES), token_spec(K, MXFP8, EXACT));
        change_with(s, restore_exact, from, to, Some(&splits))
    }),
    ("exact numbers of too many rows", "7 rows, but the token", Error::is_bad_splits, |s| {
        let splits = Splits::host(&[3, 4])?;
        let (from, to) = (token_spec(K, NVFP4, CODES), token_spec(K, NVFP4, EXACT));
        change_with(s, restore_exact, from, to, Some(&splits))
    }),
    ("exact numbers' magnitudes over those of the other copy", WRITTEN_OVER, INVALID, |s| {
        change_into(s, restore_exact, MIXED_EXACT, |[_, other], to| {
            to.amax = other.amax.clone();
            Ok(())
        })
    }),
];

/// Rowwise codes of tokens that have both copies, into a destination one of whose tensors the test
/// chooses.
fn change_into(
    stream: &Stream,
    how: Change,
    (format, form): (Format, Option<Form>),
    choose: impl FnOnce([&QuantizedCopy; 2], &mut QuantizedCopy) -> Result<()>,
) -> Result<()> {
    let spec = token_spec(K, format, CODES);
    let from = quantized(stream, spec)?;
    let spec = QuantizedSpec { rowwise: form, columnwise: None, ..spec };
    let to = QuantizedTensor::empty(stream, spec)?;
    let copy = |all: &QuantizedTensor, direction| all.copy(direction).cloned().expect("a copy");
    let own = [Direction::Rowwise, Direction::Columnwise].map(|direction| copy(&from, direction));
    let mut chosen = copy(&to, Direction::Rowwise);
    choose(own.each_ref(), &mut chosen)?;
    let mut to = QuantizedTensor::from_copies(stream, spec, Some(chosen), None)?;
    how(stream, &from, Some(&Splits::host(&[2, 3])?), &mut to)
}

const MIXED_EXACT: (Format, Option<Form>) = (Format::Nvfp4(MIXED), EXACT[0]);
const IN_ORDER: (Format, Option<Form>) = (NVFP4, SWIZZLED[0]);
const WRITTEN_OVER: &str = "what is written of it overlaps the source";
const APART: &str = "source: its copies have amax in memory of their own";

pub(super) const ORDERS: &[Refusal] = &[
    ("swizzled scales of fewer tokens", "destination: it was made for", INVALID, |s| {
        let source = SourceShape::Tokens { rows: ROWS - 1, features: K };
        let to = QuantizedSpec { source, ..token_spec(K, MXFP8, SWIZZLED) };
        change(s, swizzle, token_spec(K, MXFP8, CODES), to)
    }),
    ("swizzled scales of another format", "destination: it was made for", INVALID, |s| {
        change(s, swizzle, weight_spec(MXFP8, CODES), weight_spec(NVFP4, SWIZZLED))
    }),
    ("scales in the order that they have", "so this one must be in Swizzled", INVALID, |s| {
        change(s, swizzle, token_spec(K, NVFP4, CODES), token_spec(K, NVFP4, CODES))
    }),
    ("scales swizzled twice", "so this one must be in Codes", INVALID, |s| {
        change(s, swizzle, weight_spec(NVFP4, SWIZZLED), weight_spec(NVFP4, SWIZZLED))
    }),
    ("swizzled into exact numbers", "so this one must be in Swizzled", INVALID, |s| {
        change(s, swizzle, weight_spec(MXFP8, CODES), weight_spec(MXFP8, EXACT))
    }),
    ("the order of FP8's scales", "of e4m3, one scale per group; FP32", UNSUPPORTED, |s| {
        change(s, swizzle, weight_spec(E4M3, CODES), weight_spec(E4M3, CODES))
    }),
    ("the order of the scales of FP8's blocks", "of e4m3, 1 x 128; FP32", UNSUPPORTED, |s| {
        change(s, swizzle, token_spec(K, VECTORS, CODES), token_spec(K, VECTORS, CODES))
    }),
    ("the order of no scales", "exact numbers have no scales", INVALID, |s| {
        change(s, swizzle, weight_spec(MXFP8, EXACT), weight_spec(MXFP8, SWIZZLED))
    }),
    ("the order of a copy that is not there", "the rowwise copy is needed", INVALID, |s| {
        let from = token_spec(K, NVFP4, [None, CODES[1]]);
        change(s, swizzle, from, token_spec(K, NVFP4, SWIZZLED))
    }),
    ("the order of tokens without splits", "splits: tokens have them", INVALID, |s| {
        let (from, to) = (token_spec(K, NVFP4, CODES), token_spec(K, NVFP4, SWIZZLED));
        change_with(s, swizzle, from, to, None)
    }),
    ("the order of weights with splits", "splits: weights have none", INVALID, |s| {
        let splits = Splits::host(&[2, 3])?;
        let (from, to) = (weight_spec(NVFP4, CODES), weight_spec(NVFP4, SWIZZLED));
        change_with(s, swizzle, from, to, Some(&splits))
    }),
    ("scales swizzled in place", WRITTEN_OVER, INVALID, |s| {
        change_into(s, swizzle, IN_ORDER, |[from, _], to| {
            to.scale_inv = from.scale_inv.clone();
            Ok(())
        })
    }),
    ("scales swizzled over those of the other copy", WRITTEN_OVER, INVALID, |s| {
        change_into(s, swizzle, (MXFP8, SWIZZLED[0]), |[_, other], to| {
            let shape = to.scale_inv.shape();
            let all = other.scale_inv.reshape(&[other.scale_inv.len()])?;
            to.scale_inv = all.narrow(0, to.scale_inv.len())?.reshape(shape)?;
            Ok(())
        })
    }),
    ("data carried over that of the other copy", WRITTEN_OVER, INVALID, |s| {
        change_into(s, swizzle, (MXFP8, SWIZZLED[0]), |[_, other], to| {
            to.data = other.data.clone();
            Ok(())
        })
    }),
    ("the order of copies with magnitudes of their own", APART, INVALID, |s| {
        change_apart(s, swizzle, SWIZZLED)
    }),
    ("exact numbers of copies with magnitudes of their own", APART, INVALID, |s| {
        change_apart(s, restore_exact, EXACT)
    }),
    ("the order of FP8's scales, planned", "have one order", UNSUPPORTED, |_| {
        let (source, direction) = (weight_spec(E4M3, CODES), Direction::Rowwise);
        Plan::new(SwizzleProblem { source, direction }.into(), Target::CPU).map(drop)
    }),
    ("the order of exact numbers, planned", "have no block scales", UNSUPPORTED, |_| {
        let (source, direction) = (weight_spec(NVFP4, EXACT), Direction::Columnwise);
        Plan::new(SwizzleProblem { source, direction }.into(), Target::CPU).map(drop)
    }),
    ("the order of no copy, planned", "the columnwise copy is needed", INVALID, |_| {
        let source = weight_spec(NVFP4, [CODES[0], None]);
        let direction = Direction::Columnwise;
        Plan::new(SwizzleProblem { source, direction }.into(), Target::CPU).map(drop)
    }),
];

/// Codes of weights whose copies have magnitudes of their own, changed into this form.
fn change_apart(stream: &Stream, how: Change, to: [Option<Form>; 2]) -> Result<()> {
    let own = quantized(stream, weight_spec(NVFP4, CODES))?;
    let [rowwise, mut columnwise] = [Direction::Rowwise, Direction::Columnwise]
        .map(|direction| own.copy(direction).cloned().expect("a copy"));
    columnwise.amax = Some(Tensor::zeros(stream, &[GROUPS], DType::F32)?);
    let apart = QuantizedTensor::from_copies(stream, own.spec(), Some(rowwise), Some(columnwise))?;
    how(stream, &apart, None, &mut QuantizedTensor::empty(stream, weight_spec(NVFP4, to))?)
}

/// Codes whose columnwise copy lies between 16 bytes are refused before the rowwise one is
/// restored.
pub(super) fn restored_half_way(stream: &Stream) -> Result<()> {
    let gpu = stream.device().id().kind != DeviceKind::Cpu;
    let from = quantized(stream, weight_spec(MXFP8, CODES))?;
    let from = with_late(stream, &from, Direction::Columnwise)?;
    let mut to = QuantizedTensor::empty(stream, weight_spec(MXFP8, EXACT))?;
    let mut data = to.copy(Direction::Rowwise).expect("rowwise").data.clone();
    let held = vec![7.0; data.len()];
    data.write_f32(stream, &held)?;
    let outcome = restore_exact(stream, &from, None, &mut to);
    assert_eq!(outcome.is_err(), gpu, "{outcome:?}");
    let zeros = vec![0.0; held.len()];
    assert!(data.to_f32(stream)? == if gpu { held } else { zeros }, "written: {}", !gpu);
    Ok(())
}

/// FP8 has one form, whatever is asked for.
pub(super) fn fp8(stream: &Stream) -> Result<()> {
    let recipe = LayerRecipe::new(stream, CONFIG, CURRENT)?;
    assert_eq!(recipe.form(), Form::Codes);
    let swizzled = recipe.clone().with_form(stream, Form::Swizzled)?;
    assert_eq!(swizzled.spec(), recipe.spec());
    Ok(())
}

/// Restores one copy of tokens to this type.
fn restore(stream: &Stream, from: QuantizedSpec, direction: Direction, to: DType) -> Result<()> {
    let from = quantized(stream, from)?;
    let mut x = Tensor::zeros(stream, &[ROWS, K], to)?;
    let splits = Splits::host(&[2, 3])?;
    dequantize(stream, &from, direction, DequantizeSink::Tokens(&mut x, &splits))
}

fn plan_exact(source: QuantizedSpec, output: DType) -> Result<()> {
    let problem = DequantizeProblem { source, direction: Direction::Rowwise, output, exact: true };
    Plan::new(problem.into(), Target::CPU).map(drop)
}

pub(super) const RESTORED: &[Refusal] = &[
    ("mixed tokens, restored", "its rows are mixed; restore the rowwise", UNSUPPORTED, |s| {
        let mixed = token_spec(K, Format::Nvfp4(MIXED), CODES);
        restore(s, mixed, Direction::Columnwise, DType::Bf16)
    }),
    ("NVFP4 restored to integers", "source: element type i32", INVALID, |s| {
        restore(s, token_spec(K, NVFP4, CODES), Direction::Rowwise, DType::I32)
    }),
    ("exact numbers of FP8, planned", "has no exact numbers in BF16", UNSUPPORTED, |_| {
        plan_exact(token_spec(K, E4M3, CODES), DType::Bf16)
    }),
    ("exact numbers in FP32, planned", "destination: element type f32", INVALID, |_| {
        plan_exact(token_spec(K, MXFP8, CODES), DType::F32)
    }),
];

/// What the tables spoil.
pub(super) fn fitting(stream: &Stream) -> Result<()> {
    for format in [MXFP8, NVFP4] {
        for spec in [token_spec, |_, format, forms| weight_spec(format, forms)] {
            for (how, from, to) in [
                (restore_exact as Change, CODES, EXACT),
                (restore_exact, SWIZZLED, EXACT),
                (swizzle, CODES, SWIZZLED),
                (swizzle, SWIZZLED, CODES),
            ] {
                change(stream, how, spec(K, format, from), spec(K, format, to))?;
            }
        }
        plan_exact(token_spec(K, format, CODES), DType::Bf16)?;
        let codes = token_spec(K, format, CODES);
        restore(stream, codes, Direction::Columnwise, DType::F16)?;
    }
    restore(stream, token_spec(K, Format::Nvfp4(MIXED), CODES), Direction::Rowwise, DType::F32)?;
    // One copy has magnitudes of its own without harm.
    change_apart(stream, swizzle, [SWIZZLED[0], None])?;
    change_apart(stream, restore_exact, [None, EXACT[1]])?;
    change_into(stream, swizzle, IN_ORDER, |_, _| Ok(()))?;
    change_into(stream, restore_exact, MIXED_EXACT, |_, _| Ok(()))?;
    // Data and magnitudes that both have are not copied.
    change_into(stream, swizzle, IN_ORDER, |[from, _], to| {
        *to = QuantizedCopy { scale_inv: to.scale_inv.clone(), ..from.clone() };
        Ok(())
    })?;
    change_into(stream, restore_exact, MIXED_EXACT, |[from, _], to| {
        to.amax = from.amax.clone();
        Ok(())
    })
}
