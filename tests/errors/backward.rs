//! What backward refuses, and that it has written nothing then.

use grouped_linear::{
    BackwardOptions, BiasUse, Config, DType, ForwardOptions, GradSink, GroupedLinear,
    GroupedTensor, Needs, PendingWgrad, Result, RowSink, Saved, Splits, Stream, Tensor, Wgrad,
    WgradStore,
};

use crate::engines::Test;
use crate::fitting::{GROUPS, K, N, ROWS, floats, packed};
use crate::{INVALID, Refusal, refused};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("buffers that do not fit backward are refused", |e, s| refused(BUFFERS, e, s)),
    ("gradients that nobody needed are refused", |e, s| refused(NEEDS, e, s)),
    ("a delayed gradient runs once", |e, s| refused(DELAYED, e, s)),
    ("a refused backward writes nothing", |engine, s| nothing_is_written(s).expect(engine)),
    ("a refused delayed gradient can run again", |engine, s| runs_again(s).expect(engine)),
    ("a delayed gradient leaves the layer as it is", |e, s| leaves_the_layer(s).expect(e)),
];

/// A layer after forward, and what backward is given.
struct Step {
    layer: GroupedLinear,
    x: Tensor,
    dy: Tensor,
    saved: Saved,
}

impl Step {
    fn new(stream: &Stream, has_bias: bool, row_scaled: bool, needs: Needs) -> Result<Self> {
        let config = Config { groups: GROUPS, in_features: K, out_features: N, dtype: DType::F32 };
        let bias = has_bias.then(|| packed(stream, &[GROUPS, N])).transpose()?;
        let layer = GroupedLinear::new(stream, config, packed(stream, &[GROUPS, N, K])?, bias)?;
        let (x, scales) = (floats(stream, &[ROWS, K])?, floats(stream, &[ROWS])?);
        let bias = if row_scaled { BiasUse::RowScaled(&scales) } else { BiasUse::Add };
        let options = ForwardOptions { bias, needs, ..ForwardOptions::default() };
        let (_, saved) = layer.forward(stream, &x, &Splits::host(&[2, 3])?, options)?;
        Ok(Self { layer, x, dy: floats(stream, &[ROWS, N])?, saved })
    }

    fn whole(stream: &Stream) -> Result<Self> {
        Self::new(stream, true, true, Needs::default())
    }

    fn backward(self, stream: &Stream, options: BackwardOptions<'_>) -> Result<()> {
        self.layer.backward_with(stream, self.saved, &self.dy, options).map(drop)
    }
}

fn into_dx(dx: &mut Tensor) -> BackwardOptions<'_> {
    BackwardOptions { dx: RowSink::Into(dx), ..Default::default() }
}

fn into_dw(dw: &mut GroupedTensor) -> BackwardOptions<'_> {
    BackwardOptions { dw: GradSink::Accumulate(dw).into(), ..Default::default() }
}

fn into_db(db: &mut GroupedTensor) -> BackwardOptions<'_> {
    BackwardOptions { db: Some(GradSink::Overwrite(db)), ..Default::default() }
}

const BUFFERS: &[Refusal] = &[
    ("dx has the width of dy", "dx: shape [6, 16]", INVALID, |s| {
        Step::whole(s)?.backward(s, into_dx(&mut floats(s, &[ROWS, N])?))
    }),
    ("dx holds integers", "output: element type i64", INVALID, |s| {
        Step::whole(s)?.backward(s, into_dx(&mut Tensor::zeros(s, &[ROWS, K], DType::I64)?))
    }),
    ("dw is transposed", "dw: shape [8, 16]", INVALID, |s| {
        Step::whole(s)?.backward(s, into_dw(&mut packed(s, &[GROUPS, K, N])?))
    }),
    ("dw for more groups", "dw: 3 groups", INVALID, |s| {
        Step::whole(s)?.backward(s, into_dw(&mut packed(s, &[GROUPS + 1, N, K])?))
    }),
    ("dw in a type that FP32 products cannot write", "f32 for operands in f32", INVALID, |s| {
        let dw = Tensor::zeros(s, &[GROUPS, N, K], DType::Bf16)?;
        Step::whole(s)?.backward(s, into_dw(&mut GroupedTensor::packed(dw)?))
    }),
    ("db of other length", "db: shape [15]", INVALID, |s| {
        Step::whole(s)?.backward(s, into_db(&mut packed(s, &[GROUPS, N - 1])?))
    }),
    ("dscales in BF16", "dscales: element type bf16", INVALID, |s| {
        let mut dscales = Tensor::zeros(s, &[ROWS], DType::Bf16)?;
        let dscales = RowSink::Into(&mut dscales);
        Step::whole(s)?.backward(s, BackwardOptions { dscales, ..Default::default() })
    }),
    // Each launch alone would take these: dgrad does not read x.
    ("dx is x", "overlaps another buffer or an operand", INVALID, |s| {
        let step = Step::whole(s)?;
        let mut dx = step.x.clone();
        step.backward(s, into_dx(&mut dx))
    }),
    ("db is part of dw", "overlaps another buffer or an operand", INVALID, |s| {
        let arena = floats(s, &[GROUPS * N * K])?;
        let mut dw = GroupedTensor::packed(arena.reshape(&[GROUPS, N, K])?)?;
        let last = arena.narrow(GROUPS * N * (K - 1), GROUPS * N)?;
        let mut db = GroupedTensor::packed(last.reshape(&[GROUPS, N])?)?;
        let db = Some(GradSink::Accumulate(&mut db));
        Step::whole(s)?.backward(s, BackwardOptions { db, ..into_dw(&mut dw) })
    }),
    // What no gradient reads is no operand: the tokens' gradient would need the weights.
    ("dw is the weights", "or a parameter", INVALID, |s| {
        let step = Step::new(s, true, false, Needs { dx: false, ..Needs::default() })?;
        let mut dw = step.layer.weights().clone();
        step.backward(s, into_dw(&mut dw))
    }),
    ("db is the bias", "or a parameter", INVALID, |s| {
        let step = Step::new(s, true, false, Needs::default())?;
        let mut db = step.layer.bias().expect("it was given one").clone();
        step.backward(s, into_db(&mut db))
    }),
    ("dw for fewer groups", "dw: 1 groups", INVALID, |s| {
        Step::whole(s)?.backward(s, into_dw(&mut packed(s, &[1, N, K])?))
    }),
    ("dw as one long row", "dw: shape [128]", INVALID, |s| {
        Step::whole(s)?.backward(s, into_dw(&mut packed(s, &[GROUPS, N * K])?))
    }),
    ("dw holds integers", "output: element type i32", INVALID, |s| {
        let dw = Tensor::zeros(s, &[GROUPS, N, K], DType::I32)?;
        Step::whole(s)?.backward(s, into_dw(&mut GroupedTensor::packed(dw)?))
    }),
    ("db holds integers", "db: element type i32", INVALID, |s| {
        let db = Tensor::zeros(s, &[GROUPS, N], DType::I32)?;
        Step::whole(s)?.backward(s, into_db(&mut GroupedTensor::packed(db)?))
    }),
    ("dscales for fewer rows", "dscales: shape [5]", INVALID, |s| {
        let mut dscales = floats(s, &[ROWS - 1])?;
        let dscales = RowSink::Into(&mut dscales);
        Step::whole(s)?.backward(s, BackwardOptions { dscales, ..Default::default() })
    }),
];

const NEEDS: &[Refusal] = &[
    ("dx into a buffer", "dx was asked for, but forward kept nothing", INVALID, |s| {
        let needs = Needs { dx: false, ..Needs::default() };
        Step::new(s, true, false, needs)?.backward(s, into_dx(&mut floats(s, &[ROWS, K])?))
    }),
    ("dx by the plain backward", "dx was asked for, but forward kept nothing", INVALID, |s| {
        let Step { layer, dy, saved, .. } =
            Step::new(s, true, false, Needs { dx: false, ..Needs::default() })?;
        layer.backward(s, saved, &dy).map(drop)
    }),
    ("dw into a buffer", "dw was asked for, but forward kept nothing", INVALID, |s| {
        let needs = Needs { dw: false, ..Needs::default() };
        Step::new(s, true, false, needs)?.backward(s, into_dw(&mut packed(s, &[GROUPS, N, K])?))
    }),
    ("dw later", "dw was asked for, but forward kept nothing", INVALID, |s| {
        let needs = Needs { dw: false, ..Needs::default() };
        let options = BackwardOptions { dw: Wgrad::Delayed, ..Default::default() };
        Step::new(s, true, false, needs)?.backward(s, options)
    }),
    ("db of a layer without bias", "db was asked for, but forward kept nothing", INVALID, |s| {
        let step = Step::new(s, false, false, Needs::default())?;
        step.backward(s, into_db(&mut packed(s, &[GROUPS, N])?))
    }),
    ("dscales without row scales", "dscales was asked for", INVALID, |s| {
        let mut dscales = floats(s, &[ROWS])?;
        let dscales = RowSink::Into(&mut dscales);
        let step = Step::new(s, true, false, Needs::default())?;
        step.backward(s, BackwardOptions { dscales, ..Default::default() })
    }),
    ("row scales for a layer without bias", "without a bias", INVALID, |s| {
        Step::new(s, false, true, Needs::default()).map(drop)
    }),
];

const DELAYED: &[Refusal] = &[
    ("a second run", "has been computed", INVALID, |s| {
        let mut pending = delayed(s)?;
        pending.run(s, GradSink::New)?;
        pending.run(s, GradSink::New).map(drop)
    }),
    ("an empty store", "no gradient of weights is left", INVALID, |s| {
        WgradStore::new().run_next(s, GradSink::New).map(drop)
    }),
    ("a sink that is an operand", "the output overlaps an input", INVALID, |s| {
        let step = Step::whole(s)?;
        let options = BackwardOptions { dw: Wgrad::Delayed, ..Default::default() };
        let rows = floats(s, &[GROUPS * N, K])?;
        let x = rows.narrow(0, ROWS)?;
        let splits = Splits::host(&[2, 3])?;
        let (_, saved) = step.layer.forward(s, &x, &splits, ForwardOptions::default())?;
        let grads = step.layer.backward_with(s, saved, &step.dy, options)?;
        let mut dw = GroupedTensor::packed(rows.reshape(&[GROUPS, N, K])?)?;
        grads.pending.expect("it was asked for").run(s, GradSink::Accumulate(&mut dw)).map(drop)
    }),
    ("a sink that does not fit", "dw: shape [8, 16]", INVALID, |s| {
        delayed(s)?.run(s, GradSink::Overwrite(&mut packed(s, &[GROUPS, K, N])?)).map(drop)
    }),
];

fn delayed(stream: &Stream) -> Result<PendingWgrad> {
    let step = Step::whole(stream)?;
    let options = BackwardOptions { dw: Wgrad::Delayed, ..Default::default() };
    let grads = step.layer.backward_with(stream, step.saved, &step.dy, options)?;
    Ok(grads.pending.expect("it was asked for"))
}

/// The buffers are looked at together, before the first launch.
fn nothing_is_written(stream: &Stream) -> Result<()> {
    let sentinel = [7.0; ROWS * K];
    let mut dx = Tensor::from_f32(stream, &[ROWS, K], DType::F32, &sentinel)?;
    let mut db = packed(stream, &[GROUPS, N - 1])?;
    let db = Some(GradSink::Overwrite(&mut db));
    let outcome = Step::whole(stream)?.backward(stream, BackwardOptions { db, ..into_dx(&mut dx) });
    assert!(outcome.is_err_and(|error| error.is_invalid_argument()));
    assert_eq!(dx.to_f32(stream)?, sentinel);
    Ok(())
}

/// Neither weights nor bias are among what it reads.
fn leaves_the_layer(stream: &Stream) -> Result<()> {
    let (weights, bias) = (GROUPS * N * K, GROUPS * N);
    let sevens = vec![7.0; weights + weights];
    let arena = Tensor::from_f32(stream, &[2 * weights], DType::F32, &sevens)?;
    let part = |start, shape: &[usize]| -> Result<GroupedTensor> {
        let part = arena.narrow(start, shape.iter().product())?;
        GroupedTensor::packed(part.reshape(shape)?)
    };
    let config = Config { groups: GROUPS, in_features: K, out_features: N, dtype: DType::F32 };
    let shape = [GROUPS, N, K];
    let last = part(2 * weights - bias, &[GROUPS, N])?;
    let layer = GroupedLinear::new(stream, config, part(0, &shape)?, Some(last))?;
    let (x, splits) = (floats(stream, &[ROWS, K])?, Splits::host(&[2, 3])?);
    let (_, saved) = layer.forward(stream, &x, &splits, ForwardOptions::default())?;
    let options = BackwardOptions { dw: Wgrad::Delayed, ..Default::default() };
    let grads = layer.backward_with(stream, saved, &floats(stream, &[ROWS, N])?, options)?;
    let mut pending = grads.pending.expect("it was asked for");
    let discrete = GroupedTensor::discrete(
        stream,
        vec![floats(stream, &[N, K])?, arena.narrow(weights / 2, N * K)?.reshape(&[N, K])?],
    )?;
    for (what, mut over) in [
        ("the weights", layer.weights().clone()),
        ("the bias, at its end", part(weights, &shape)?),
        ("one expert's weights", discrete),
    ] {
        for accumulate in [false, true] {
            let sink = match accumulate {
                false => GradSink::Overwrite(&mut over),
                true => GradSink::Accumulate(&mut over),
            };
            let outcome = pending.run(stream, sink);
            let error = outcome.expect_err(what);
            assert!(error.is_invalid_argument() && !pending.has_run(), "{what}: {error}");
            assert!(error.to_string().contains("or a parameter"), "{what}: {error}");
            assert_eq!(arena.to_f32(stream)?, sevens, "{what}");
        }
    }
    let mut elsewhere = packed(stream, &shape)?;
    pending.run(stream, GradSink::Overwrite(&mut elsewhere)).map(drop)
}

fn runs_again(stream: &Stream) -> Result<()> {
    let mut store = WgradStore::new();
    store.push(delayed(stream)?);
    store.push(delayed(stream)?);
    let kept = store.bytes();
    assert_eq!(kept, 2 * 4 * ROWS * (K + N));
    let mut transposed = packed(stream, &[GROUPS, K, N])?;
    let outcome = store.run_next(stream, GradSink::Overwrite(&mut transposed));
    assert!(outcome.is_err_and(|error| error.is_invalid_argument()));
    assert_eq!((store.len(), store.bytes()), (2, kept));
    let mut dw = packed(stream, &[GROUPS, N, K])?;
    store.run_next(stream, GradSink::Overwrite(&mut dw))?;
    assert_eq!((store.len(), store.bytes()), (1, kept / 2));
    store.run_next(stream, GradSink::Accumulate(&mut dw))?;
    assert!(store.is_empty());
    stream.synchronize()
}
