//! Quantization.

use grouped_linear::functional::{
    DbiasSink, QuantizeArgs, QuantizeOptions, QuantizeSource, amax, quantize, requantize,
};
use grouped_linear::plan::{Plan, QuantizeProblem, ScaleSource, Target, UpdateScalesProblem};
use grouped_linear::recipe::{
    BlockShape, DelayedScaling, Format, Nvfp4Format, ScaleRule, Scope, Transform,
};
use grouped_linear::{
    Accumulate, DType, DelayedState, DeviceKind, Direction, GroupedTensor, QuantizedCopy,
    QuantizedTensor, Result, SourceShape, Splits, Stream, Tensor,
};

use super::halfway::with_late;
use super::{
    BOTH, E4M3, K, N, ROWWISE, UNSUPPORTED, VECTORS, grouped, spec, tokens, weights, zeros,
};
use crate::fitting::{GROUPS, ROWS};
use crate::{INVALID, Refusal};

/// Quantizes fitting tokens under a flag.
pub(super) fn quantize_under(stream: &Stream, flag: &Tensor) -> Result<()> {
    let (x, splits) = (zeros(stream, &[ROWS, K])?, Splits::host(&[2, 3])?);
    let args = QuantizeArgs::new(QuantizeSource::Tokens(&x, &splits));
    let args = QuantizeArgs { skip: Some(flag), ..args };
    quantize(stream, args, &mut tokens(stream, K, E4M3, BOTH)?)
}

/// Quantizes fitting tokens by magnitudes of so many groups and of this type, perhaps with a
/// history.
fn quantize_by(
    stream: &Stream,
    mut destination: QuantizedTensor,
    (groups, dtype): (usize, DType),
    delayed: bool,
) -> Result<()> {
    let (x, splits) = (zeros(stream, &[ROWS, K])?, Splits::host(&[2, 3])?);
    let given = Tensor::zeros(stream, &[groups], dtype)?;
    let state = DelayedState::new(stream, DelayedScaling::default(), GROUPS, DType::E4m3)?;
    let args = QuantizeArgs::new(QuantizeSource::Tokens(&x, &splits));
    let args = QuantizeArgs { amax: Some(&given), delayed: delayed.then_some(&state), ..args };
    quantize(stream, args, &mut destination)
}

/// Magnitudes of tokens.
fn measure(stream: &Stream, x: &Tensor, found: &mut Tensor) -> Result<()> {
    let splits = Splits::host(&[2, 3])?;
    amax(stream, QuantizeSource::Tokens(x, &splits), None, found)
}

/// Quantizes fitting tokens under a flag, with a history, and sums their columns; then ends the
/// step.
pub(super) fn quantize_all_under(stream: &Stream, flag: &Tensor) -> Result<()> {
    let mut state = DelayedState::new(stream, DelayedScaling::default(), GROUPS, DType::E4m3)?;
    let (x, splits) = (zeros(stream, &[ROWS, K])?, Splits::host(&[2, 3])?);
    let mut db = grouped(stream, &[GROUPS, K])?;
    let dbias = Some(DbiasSink { db: &mut db, accumulate: Accumulate::Overwrite });
    let args = QuantizeArgs::new(QuantizeSource::Tokens(&x, &splits));
    let args = QuantizeArgs { delayed: Some(&state), dbias, skip: Some(flag), ..args };
    quantize(stream, args, &mut tokens(stream, K, E4M3, BOTH)?)?;
    state.update_unless(stream, flag)
}

/// Ends a step unless the flag says so.
fn update_unless(
    stream: &Stream,
    flag: impl FnOnce(&DelayedState) -> Result<Tensor>,
) -> Result<()> {
    let mut state = DelayedState::new(stream, DelayedScaling::default(), GROUPS, DType::E4m3)?;
    let flag = flag(&state)?;
    state.update_unless(stream, &flag)
}

/// Ends a step of so many states and of the first once more, which must stay as it was.
fn end_twice(stream: &Stream, count: usize) -> Result<()> {
    let state = |_| DelayedState::new(stream, DelayedScaling::default(), GROUPS, DType::E4m3);
    let mut states: Vec<DelayedState> = (0..count).map(state).collect::<Result<_>>()?;
    let first = states[0].clone();
    first.amax()?.write(stream, &[2.0f32; GROUPS])?;
    states.push(first.clone());
    let ended = DelayedState::update_all(stream, &mut states, None);
    assert_eq!(first.scale().to_f32(stream)?, [1.0; GROUPS], "a refused end has made scales");
    assert_eq!(first.amax()?.to_f32(stream)?, [2.0; GROUPS], "a refused end has moved on");
    ended
}

/// Quantizes fitting tokens with the scales of a history.
pub(super) fn quantize_delayed(
    stream: &Stream,
    format: Format,
    groups: usize,
    dtype: DType,
) -> Result<()> {
    let state = DelayedState::new(stream, DelayedScaling::default(), groups, dtype)?;
    let (x, splits) = (zeros(stream, &[ROWS, K])?, Splits::host(&[2, 3])?);
    let args = QuantizeArgs::new(QuantizeSource::Tokens(&x, &splits));
    let args = QuantizeArgs { delayed: Some(&state), ..args };
    quantize(stream, args, &mut tokens(stream, K, format, BOTH)?)
}

/// Quantizes fitting tokens and sums their columns.
pub(super) fn quantize_summing(stream: &Stream, mut db: GroupedTensor) -> Result<()> {
    let (x, splits) = (zeros(stream, &[ROWS, K])?, Splits::host(&[2, 3])?);
    let dbias = Some(DbiasSink { db: &mut db, accumulate: Accumulate::Overwrite });
    let args = QuantizeArgs { dbias, ..QuantizeArgs::new(QuantizeSource::Tokens(&x, &splits)) };
    quantize(stream, args, &mut tokens(stream, K, E4M3, BOTH)?)
}

/// Quantizes these tokens of two and three rows.
pub(super) fn quantize_tokens(stream: &Stream, x: &Tensor, mut to: QuantizedTensor) -> Result<()> {
    let splits = Splits::host(&[2, 3])?;
    quantize(stream, QuantizeArgs::new(QuantizeSource::Tokens(x, &splits)), &mut to)
}

pub(super) const QUANTIZATIONS: &[Refusal] = &[
    ("tokens into weights", "tokens were given, the destination is for weights", INVALID, |s| {
        quantize_tokens(s, &zeros(s, &[ROWS, K])?, weights(s, E4M3, BOTH)?)
    }),
    ("weights into tokens", "weights were given, the destination is for tokens", INVALID, |s| {
        let source = grouped(s, &[GROUPS, N, K])?;
        let args = QuantizeArgs::new(QuantizeSource::Weights(&source));
        quantize(s, args, &mut tokens(s, K, E4M3, BOTH)?)
    }),
    ("fewer tokens than the destination", "source: shape [5, 32]", INVALID, |s| {
        quantize_tokens(s, &zeros(s, &[ROWS - 1, K])?, tokens(s, K, E4M3, BOTH)?)
    }),
    ("integers", "source: element type i32", INVALID, |s| {
        let x = Tensor::zeros(s, &[ROWS, K], DType::I32)?;
        quantize_tokens(s, &x, tokens(s, K, VECTORS, BOTH)?)
    }),
    ("tokens of 24 features", "features is 24, FP8 needs a multiple of 16", UNSUPPORTED, |s| {
        quantize_tokens(s, &zeros(s, &[ROWS, 24])?, tokens(s, 24, VECTORS, ROWWISE)?)
    }),
    ("splits that are too long", "3 were given", INVALID, |s| {
        let x = zeros(s, &[ROWS, K])?;
        let splits = Splits::host(&[2, 3, 0])?;
        let args = QuantizeArgs::new(QuantizeSource::Tokens(&x, &splits));
        quantize(s, args, &mut tokens(s, K, E4M3, BOTH)?)
    }),
    ("magnitudes of one group too many", "amax: shape [3]", INVALID, |s| {
        quantize_by(s, tokens(s, K, E4M3, BOTH)?, (GROUPS + 1, DType::F32), false)
    }),
    ("magnitudes in BF16", "amax: element type bf16", INVALID, |s| {
        quantize_by(s, tokens(s, K, E4M3, BOTH)?, (GROUPS, DType::Bf16), false)
    }),
    ("magnitudes and a history", "amax: magnitudes were given and a history", INVALID, |s| {
        quantize_by(s, tokens(s, K, E4M3, BOTH)?, (GROUPS, DType::F32), true)
    }),
    ("magnitudes of groups for vectors", "amax: magnitudes of groups", UNSUPPORTED, |s| {
        quantize_by(s, tokens(s, K, VECTORS, BOTH)?, (GROUPS, DType::F32), false)
    }),
    ("magnitudes of groups, transformed", "amax: magnitudes of groups", UNSUPPORTED, |s| {
        let format = Nvfp4Format { transform: Transform::Hadamard, ..Nvfp4Format::LINES };
        let mixed = tokens(s, K, Format::Nvfp4(format), BOTH)?;
        quantize_by(s, mixed, (GROUPS, DType::F32), false)
    }),
    ("magnitudes of groups for rows", "amax: magnitudes of groups", UNSUPPORTED, |s| {
        let format = Nvfp4Format { scope: Scope::Row, ..Nvfp4Format::LINES };
        let of_rows = tokens(s, K, Format::Nvfp4(format), ROWWISE)?;
        quantize_by(s, of_rows, (GROUPS, DType::F32), false)
    }),
    ("magnitudes found of 24 features", "features is 24, magnitudes", UNSUPPORTED, |s| {
        measure(s, &zeros(s, &[ROWS, 24])?, &mut Tensor::zeros(s, &[GROUPS], DType::F32)?)
    }),
    ("magnitudes found into 16 bits", "amax: element type bf16", INVALID, |s| {
        measure(s, &zeros(s, &[ROWS, K])?, &mut zeros(s, &[GROUPS])?)
    }),
    ("magnitudes found of fewer groups", "amax: shape [1]", INVALID, |s| {
        measure(s, &zeros(s, &[ROWS, K])?, &mut Tensor::zeros(s, &[1], DType::F32)?)
    }),
    ("magnitudes found over their tokens", "overlaps an input", INVALID, |s| {
        let x = Tensor::zeros(s, &[ROWS, K], DType::F32)?;
        measure(s, &x, &mut x.narrow(0, 1)?.reshape(&[K])?.narrow(0, GROUPS)?)
    }),
    ("a flag of two", "skip: shape [2]", INVALID, |s| {
        quantize_under(s, &Tensor::zeros(s, &[2], DType::I32)?)
    }),
    ("a flag in 64 bits", "skip: element type i64", INVALID, |s| {
        quantize_under(s, &Tensor::zeros(s, &[1], DType::I64)?)
    }),
    ("a step's end under a flag of two", "skip: shape [2]", INVALID, |s| {
        update_unless(s, |_| Tensor::zeros(s, &[2], DType::I32))
    }),
    ("a step's end under a scale", "skip: element type f32", INVALID, |s| {
        update_unless(s, |state| state.scale().narrow(0, 1))
    }),
    ("quantized again with a rule that MXFP8 has not", "has a rule of its own", UNSUPPORTED, |s| {
        let (x, splits) = (zeros(s, &[ROWS, 32])?, Splits::host(&[2, 3])?);
        let mut source = tokens(s, 32, E4M3, ROWWISE)?;
        quantize(s, QuantizeArgs::new(QuantizeSource::Tokens(&x, &splits)), &mut source)?;
        let mut destination =
            tokens(s, 32, Format::Mxfp8 { dtype: DType::E4m3, blocks: BlockShape::Line }, BOTH)?;
        let scale = ScaleRule { power_of_two: true, ..ScaleRule::default() };
        let options = QuantizeOptions { scale, ..QuantizeOptions::default() };
        let mut scratch = Tensor::from_f32(s, &[ROWS, 32], DType::Bf16, &[7.0; 32 * ROWS])?;
        let done = requantize(s, &source, &splits, options, &mut scratch, &mut destination);
        assert_eq!(scratch.to_f32(s)?, [7.0; 32 * ROWS], "a refusal has written scratch memory");
        done
    }),
    ("one state's step ended twice", "delayed states overlap one another", INVALID, |s| {
        end_twice(s, 1)
    }),
    ("one state's step ended twice, far apart", "delayed states overlap", INVALID, |s| {
        end_twice(s, UpdateScalesProblem::MOST)
    }),
    ("more histories than a launch takes, planned", "one launch takes 1 to 16", INVALID, |s| {
        let histories = UpdateScalesProblem::MOST + 1;
        let problem = UpdateScalesProblem { histories, groups: GROUPS };
        Plan::new(problem.into(), s.device().target()).map(drop)
    }),
    ("a history of another type", "delayed state: it was made for e5m2", INVALID, |s| {
        quantize_delayed(s, E4M3, GROUPS, DType::E5m2)
    }),
    ("a history for blocks", "1 x 128 was asked for", INVALID, |s| {
        quantize_delayed(s, VECTORS, GROUPS, DType::E4m3)
    }),
    ("a history for more groups", "delayed state: shape [3]", INVALID, |s| {
        quantize_delayed(s, E4M3, GROUPS + 1, DType::E4m3)
    }),
    ("an epsilon for a history", "the history has a rule of its own", UNSUPPORTED, |s| {
        let state = DelayedState::new(s, DelayedScaling::default(), GROUPS, DType::E4m3)?;
        let (x, splits) = (zeros(s, &[ROWS, K])?, Splits::host(&[2, 3])?);
        let args = QuantizeArgs::new(QuantizeSource::Tokens(&x, &splits));
        let scale = ScaleRule { epsilon: 0.5, ..ScaleRule::default() };
        let args = QuantizeArgs { delayed: Some(&state), scale, ..args };
        quantize(s, args, &mut tokens(s, K, E4M3, BOTH)?)
    }),
    ("blocks of given scales, planned", "delayed scales are one for each group", INVALID, |_| {
        let destination = spec(SourceShape::Tokens { rows: ROWS, features: K }, VECTORS, BOTH);
        let scales = ScaleSource::Given;
        let problem = QuantizeProblem { scales, ..QuantizeProblem::new(destination, DType::Bf16) };
        Plan::new(problem.into(), Target::CPU).map(drop)
    }),
    ("db of other length, in FP8", "db: shape [48]", INVALID, |s| {
        quantize_summing(s, grouped(s, &[GROUPS, N])?)
    }),
    ("db of integers, in FP8", "db: element type i64", INVALID, |s| {
        let db = Tensor::zeros(s, &[GROUPS, K], DType::I64)?;
        quantize_summing(s, GroupedTensor::packed(db)?)
    }),
    ("db of weights", "db is summed over tokens", INVALID, |s| {
        let (source, mut db) = (grouped(s, &[GROUPS, N, K])?, grouped(s, &[GROUPS, K])?);
        let dbias = Some(DbiasSink { db: &mut db, accumulate: Accumulate::Overwrite });
        let args = QuantizeArgs { dbias, ..QuantizeArgs::new(QuantizeSource::Weights(&source)) };
        quantize(s, args, &mut weights(s, E4M3, BOTH)?)
    }),
    ("db over the tokens", "the output overlaps an input", INVALID, |s| {
        let x = zeros(s, &[ROWS, K])?;
        let mut db = GroupedTensor::packed(x.narrow(0, GROUPS)?)?;
        let splits = Splits::host(&[2, 3])?;
        let dbias = Some(DbiasSink { db: &mut db, accumulate: Accumulate::Overwrite });
        let args = QuantizeArgs { dbias, ..QuantizeArgs::new(QuantizeSource::Tokens(&x, &splits)) };
        quantize(s, args, &mut tokens(s, K, E4M3, BOTH)?)
    }),
    ("both copies in one place", "overlap one another", INVALID, |s| {
        let own = weights(s, VECTORS, ROWWISE)?;
        let copy = own.copy(Direction::Rowwise).expect("rowwise").clone();
        let want = spec(own.spec().source, VECTORS, BOTH).copy(Direction::Columnwise);
        let data = copy.data.reshape(&want.data.shape)?;
        let scale_inv = want.scale_inv.empty(s)?;
        let columnwise = Some(QuantizedCopy { data, scale_inv, amax: None });
        let spec = spec(own.spec().source, VECTORS, BOTH);
        let mut both = QuantizedTensor::from_copies(s, spec, Some(copy), columnwise)?;
        let source = grouped(s, &[GROUPS, N, K])?;
        quantize(s, QuantizeArgs::new(QuantizeSource::Weights(&source)), &mut both)
    }),
    ("no memory for scales", "it has no memory for scales", INVALID, |s| {
        let own = tokens(s, K, E4M3, ROWWISE)?;
        let copy = own.copy(Direction::Rowwise).cloned();
        let to = QuantizedTensor::from_copies(s, own.spec(), copy, None)?;
        quantize_tokens(s, &zeros(s, &[ROWS, K])?, to)
    }),
];

/// Copies between 16 bytes are refused before tokens are restored into scratch memory.
pub(super) fn requantized_half_way(stream: &Stream) -> Result<()> {
    let gpu = stream.device().id().kind != DeviceKind::Cpu;
    let (source, splits) = (tokens(stream, K, E4M3, ROWWISE)?, Splits::host(&[2, 3])?);
    let mut to = with_late(stream, &tokens(stream, K, VECTORS, BOTH)?, Direction::Columnwise)?;
    let held = [7.0; ROWS * K];
    let mut scratch = Tensor::from_f32(stream, &[ROWS, K], DType::Bf16, &held)?;
    let options = QuantizeOptions::default();
    let outcome = requantize(stream, &source, &splits, options, &mut scratch, &mut to);
    assert_eq!(outcome.is_err(), gpu, "{outcome:?}");
    assert_eq!(scratch.to_f32(stream)? == held, gpu);
    Ok(())
}

/// The source starts one element late.
pub(super) fn misplaced(engine: &str, stream: &Stream) {
    let gpu = stream.device().id().kind != DeviceKind::Cpu;
    let attempt = |late: usize| -> Result<()> {
        let arena = zeros(stream, &[ROWS * K + 8])?;
        let x = arena.narrow(late, ROWS * K)?.reshape(&[ROWS, K])?;
        quantize_tokens(stream, &x, tokens(stream, K, VECTORS, BOTH)?)
    };
    attempt(0).expect(engine);
    attempt(8).expect(engine);
    match attempt(1) {
        Ok(()) => assert!(!gpu, "{engine}: was not refused"),
        Err(error) => {
            assert!(gpu && error.is_invalid_argument(), "{engine}: {error:?}");
            assert!(error.to_string().contains("multiple of 16 bytes"), "{engine}: {error}");
        }
    }
}
