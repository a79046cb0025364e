//! Layers whose calls are recorded once and replayed, and that notice when they must be recorded
//! anew.

use grouped_linear::recipe::{DelayedScaling, Recipe};
use grouped_linear::{
    BackwardOptions, BackwardPrecision, BiasUse, Captured, CapturedLayer, DType, Device, Error,
    ForwardOptions, GradSink, GroupedLinear, GroupedTensor, KernelChoice, LayerRecipe, Needs,
    PendingWgrad, RowSink, Saved, Splits, Stream, Tensor, Wgrad,
};

use crate::device::{
    Inputs, Layout, Outputs, grouped_bits, poison_tensor, run_all, tensor_bits, untouched,
};
use crate::host::{Host, RESULTS, Sizes, equal_bits, equal_values, value};
use crate::{Check, Outcome};

const GROUPS: usize = 3;
const ROWS: usize = 200;

/// Splits of successive calls; some leave a tail, some groups are empty.
const SPLITS: &[[usize; GROUPS]] =
    &[[65, 0, 130], [0, 200, 0], [1, 63, 64], [0, 0, 0], [40, 90, 70]];

fn sizes(dtype: DType) -> Sizes {
    Sizes { groups: GROUPS, rows: ROWS, k: 72, n: 136, dtype }
}

pub fn checks() -> Vec<Check> {
    let mut checks = Vec::new();
    for (layout, dtype) in [(Layout::Packed, DType::Bf16), (Layout::Discrete, DType::F16)] {
        let name = format!("captured: other splits and inputs, {dtype} {layout:?}");
        let check = Check::new(name, move |device| replays(device, layout, dtype));
        checks.push(check.emulated_if(true));
    }
    checks.push(Check::new("captured: what differs is recorded anew", changes).emulated_if(true));
    checks.push(Check::new("captured: accumulates once a call", accumulates).emulated_if(true));
    checks.push(Check::new("captured: sinks that change", sinks).emulated_if(true));
    checks.push(Check::new("captured: refusals", refusals).emulated_if(true));
    let check = Check::new("captured: replays are refused what calls are", refused_replays);
    checks.push(check.emulated_if(true));
    checks.push(Check::new("captured: two streams by turns", two_streams).emulated_if(true));
    checks
}

/// A recorded layer with its tensors.
struct Step {
    captured: CapturedLayer,
    inputs: Inputs,
    outputs: Outputs,
}

impl Step {
    fn new(stream: &Stream, host: &Host, layout: Layout) -> grouped_linear::Result<Self> {
        let inputs = Inputs::of(stream, host, layout, DType::I64)?;
        let captured = CapturedLayer::new(inputs.layer.clone());
        Ok(Self { captured, inputs, outputs: Outputs::new(stream, host.sizes, layout)? })
    }

    fn forward(&mut self, stream: &Stream) -> grouped_linear::Result<(Saved, Captured)> {
        let Inputs { x, row_scales, splits, .. } = &self.inputs;
        let options =
            ForwardOptions { bias: BiasUse::RowScaled(row_scales), ..ForwardOptions::default() };
        self.captured.forward_into(stream, x, splits, options, &mut self.outputs.y)
    }

    /// All gradients but that of the weights.
    fn backward(
        &mut self,
        stream: &Stream,
        saved: &Saved,
    ) -> grouped_linear::Result<(PendingWgrad, Captured)> {
        let Outputs { dx, db, dscales, .. } = &mut self.outputs;
        let options = BackwardOptions {
            dx: RowSink::Into(dx),
            dw: Wgrad::Delayed,
            db: Some(GradSink::Overwrite(db)),
            dscales: RowSink::Into(dscales),
        };
        let (grads, how) = self.captured.backward_with(stream, saved, &self.inputs.dy, options)?;
        Ok((grads.pending.expect("it was delayed"), how))
    }

    /// Everything once; what the three calls did.
    fn run(&mut self, stream: &Stream) -> grouped_linear::Result<[Captured; 3]> {
        let (saved, forward) = self.forward(stream)?;
        let (mut pending, backward) = self.backward(stream, &saved)?;
        let sink = GradSink::Overwrite(&mut self.outputs.dw);
        let (_, wgrad) = self.captured.run_delayed(stream, &mut pending, sink)?;
        Ok([forward, backward, wgrad])
    }
}

fn replays(device: &Device, layout: Layout, dtype: DType) -> Outcome {
    let stream = device.stream()?;
    let mut step = Step::new(&stream, &Host::exact(sizes(dtype), &SPLITS[0], 1), layout)?;
    for (turn, splits) in SPLITS.iter().enumerate() {
        let host = Host::exact(sizes(dtype), splits, 40 + turn as u64);
        step.inputs.write(&stream, &host)?;
        step.outputs.poison(&stream)?;
        let want = if turn == 0 { Captured::First } else { Captured::Replayed };
        let did = step.run(&stream)?;
        if did != [want; 3] {
            return Err(format!("call {turn}: {did:?}").into());
        }
        step.outputs.check(&stream, &host, &format!("call {turn}, {splits:?}"))?;

        // The same numbers as without graphs, to the bit, whatever the order of summation.
        let host = Host::real(sizes(dtype), splits, 80 + turn as u64);
        step.inputs.write(&stream, &host)?;
        step.run(&stream)?;
        let replayed = step.outputs.bits(&stream)?;
        let mut eager = Outputs::new(&stream, host.sizes, layout)?;
        run_all(&stream, &step.inputs, &mut eager, KernelChoice::Auto)?;
        for (i, want) in eager.bits(&stream)?.iter().enumerate() {
            equal_bits(&format!("call {turn}: {}", RESULTS[i]), &replayed[i], want)?;
        }
    }
    Ok(stream.synchronize()?)
}

/// Each change is named, computes rightly at once, and is replayed afterwards.
fn changes(device: &Device) -> Outcome {
    let stream = device.stream()?;
    let host = Host::exact(sizes(DType::Bf16), &SPLITS[0], 2);
    let mut step = Step::new(&stream, &host, Layout::Packed)?;
    step.run(&stream)?;
    let other = Step::new(&stream, &host, Layout::Packed)?;
    let expect = |step: &mut Step, want: [Captured; 3]| -> Outcome {
        for want in [want, [Captured::Replayed; 3]] {
            step.outputs.poison(&stream)?;
            let did = step.run(&stream)?;
            if did != want {
                return Err(format!("{did:?} instead of {want:?}").into());
            }
            step.outputs.check(&stream, &host, &format!("{want:?}"))?;
        }
        Ok(())
    };
    use Captured::{Changed, Replayed};
    step.outputs.y = other.outputs.y;
    expect(&mut step, [Changed("y"), Replayed, Replayed])?;
    step.inputs.x = other.inputs.x;
    expect(&mut step, [Changed("x"), Changed("x"), Changed("x")])?;
    step.inputs.dy = other.inputs.dy;
    expect(&mut step, [Replayed, Changed("dy"), Changed("dy")])?;
    step.inputs.splits = other.inputs.splits;
    expect(&mut step, [Changed("splits"), Changed("splits"), Changed("splits")])?;
    step.inputs.row_scales = other.inputs.row_scales;
    expect(&mut step, [Changed("row_scales"), Changed("row_scales"), Replayed])?;
    step.outputs.dx = other.outputs.dx;
    expect(&mut step, [Replayed, Changed("dx"), Replayed])?;
    step.outputs.dw = other.outputs.dw;
    expect(&mut step, [Replayed, Replayed, Changed("dw")])?;
    step.outputs.db = other.outputs.db;
    expect(&mut step, [Replayed, Changed("db"), Replayed])?;
    step.outputs.dscales = other.outputs.dscales;
    expect(&mut step, [Replayed, Changed("dscales"), Replayed])?;

    // Options of forward, one after the other.
    let Step { captured, inputs, outputs } = &mut step;
    let scaled = BiasUse::RowScaled(&inputs.row_scales);
    let no_dw = Needs { dw: false, ..Needs::default() };
    let options = [
        (
            "needs",
            ForwardOptions {
                bias: scaled,
                needs: no_dw,
                kernel: KernelChoice::Auto,
                ..Default::default()
            },
        ),
        (
            "kernel",
            ForwardOptions {
                bias: scaled,
                needs: no_dw,
                kernel: KernelChoice::Simt,
                ..Default::default()
            },
        ),
        (
            "row_scales",
            ForwardOptions { kernel: KernelChoice::Simt, needs: no_dw, ..Default::default() },
        ),
        (
            "the use of the bias",
            ForwardOptions {
                bias: BiasUse::Leave,
                needs: no_dw,
                kernel: KernelChoice::Simt,
                ..Default::default()
            },
        ),
    ];
    for (what, options) in options {
        for want in [Changed(what), Replayed] {
            let (x, splits) = (&inputs.x, &inputs.splits);
            let (_, did) = captured.forward_into(&stream, x, splits, options, &mut outputs.y)?;
            if did != want {
                return Err(format!("{did:?} instead of {want:?}").into());
            }
        }
    }
    Ok(stream.synchronize()?)
}

/// The call that is recorded computes once, as each replay does.
fn accumulates(device: &Device) -> Outcome {
    let stream = device.stream()?;
    let host = Host::exact(sizes(DType::Bf16), &SPLITS[0], 3);
    let mut step = Step::new(&stream, &host, Layout::Packed)?;
    let [mut dw, mut db] = main_grads(&stream, host.sizes)?;
    for _ in 0..3 {
        let (saved, _) = step.forward(&stream)?;
        let Outputs { dx, dscales, .. } = &mut step.outputs;
        let options = BackwardOptions {
            dx: RowSink::Into(dx),
            dw: GradSink::Accumulate(&mut dw).into(),
            db: Some(GradSink::Accumulate(&mut db)),
            dscales: RowSink::Into(dscales),
        };
        step.captured.backward_with(&stream, &saved, &step.inputs.dy, options)?;
    }
    let one = host.expected();
    times(&stream, "dw", &dw, &one[2], 3)?;
    times(&stream, "db", &db, &one[3], 3)?;
    Ok(())
}

/// The same buffers in other sinks: a graph that adds must not be replayed for a call that
/// overwrites.
fn sinks(device: &Device) -> Outcome {
    use Captured::{Changed, First, Replayed};
    const ADD: bool = true;
    const REPLACE: bool = false;
    let stream = device.stream()?;
    let host = Host::exact(sizes(DType::Bf16), &SPLITS[0], 7);
    let mut step = Step::new(&stream, &host, Layout::Packed)?;
    let (saved, _) = step.forward(&stream)?;
    // The call's sinks of dw and db, what it does, and how often each gradient is in its buffer
    // then.
    let calls = [
        ((ADD, ADD), First, (1, 1)),
        ((ADD, ADD), Replayed, (2, 2)),
        ((REPLACE, ADD), Changed("the sink of dw"), (1, 3)),
        ((REPLACE, ADD), Replayed, (1, 4)),
        ((REPLACE, REPLACE), Changed("the sink of db"), (1, 1)),
        ((REPLACE, REPLACE), Replayed, (1, 1)),
        ((ADD, REPLACE), Changed("the sink of dw"), (2, 1)),
    ];
    [step.outputs.dw, step.outputs.db] = main_grads(&stream, host.sizes)?;
    for (number, ((adds_dw, adds_db), want, (dw_times, db_times))) in calls.into_iter().enumerate()
    {
        let Outputs { dx, dw, db, dscales, .. } = &mut step.outputs;
        let options = BackwardOptions {
            dx: RowSink::Into(dx),
            dw: sink(adds_dw, dw).into(),
            db: Some(sink(adds_db, db)),
            dscales: RowSink::Into(dscales),
        };
        let (_, did) = step.captured.backward_with(&stream, &saved, &step.inputs.dy, options)?;
        if did != want {
            return Err(format!("backward {number}: {did:?} instead of {want:?}").into());
        }
        let expected = host.expected();
        let what = format!("backward {number}");
        times(&stream, &what, &step.outputs.dw, &expected[2], dw_times)?;
        times(&stream, &what, &step.outputs.db, &expected[3], db_times)?;
    }

    let calls = [
        (ADD, First, 1),
        (ADD, Replayed, 2),
        (REPLACE, Changed("the sink of dw"), 1),
        (REPLACE, Replayed, 1),
        (ADD, Changed("the sink of dw"), 2),
    ];
    [step.outputs.dw, _] = main_grads(&stream, host.sizes)?;
    for (number, (adds, want, dw_times)) in calls.into_iter().enumerate() {
        let (mut pending, _) = step.backward(&stream, &saved)?;
        let into = sink(adds, &mut step.outputs.dw);
        let (_, did) = step.captured.run_delayed(&stream, &mut pending, into)?;
        if did != want {
            return Err(format!("delayed {number}: {did:?} instead of {want:?}").into());
        }
        let (what, dw) = (format!("delayed {number}"), &step.outputs.dw);
        times(&stream, &what, dw, &host.expected()[2], dw_times)?;
    }
    Ok(stream.synchronize()?)
}

fn sink(adds: bool, buffer: &mut GroupedTensor) -> GradSink<'_> {
    if adds { GradSink::Accumulate(buffer) } else { GradSink::Overwrite(buffer) }
}

/// Zeros in FP32 for the gradients of weights and biases.
fn main_grads(stream: &Stream, sizes: Sizes) -> grouped_linear::Result<[GroupedTensor; 2]> {
    let zeros = |shape: &[usize]| -> grouped_linear::Result<_> {
        GroupedTensor::packed(Tensor::zeros(stream, shape, DType::F32)?)
    };
    Ok([zeros(&[sizes.groups, sizes.n, sizes.k])?, zeros(&[sizes.groups, sizes.n])?])
}

/// Checks that an FP32 buffer holds a gradient so often. BF16 holds what one call gives: the sums
/// of so few small integers are short.
fn times(
    stream: &Stream,
    what: &str,
    sum: &GroupedTensor,
    one: &[u32],
    times: u8,
) -> Result<(), String> {
    let want: Vec<u32> =
        one.iter().map(|&bits| (f32::from(times) * value(bits, DType::Bf16)).to_bits()).collect();
    let got = grouped_bits(stream, sum).map_err(|error| format!("{what}: {error}"))?;
    equal_values(what, DType::F32, &got, &want)
}

fn refusals(device: &Device) -> Outcome {
    let stream = device.stream()?;
    let host = Host::exact(sizes(DType::Bf16), &SPLITS[0], 4);
    let mut step = Step::new(&stream, &host, Layout::Packed)?;
    step.outputs.poison(&stream)?;
    let (x, splits) = (step.inputs.x.clone(), Splits::host(&SPLITS[0])?);
    let options = ForwardOptions::default();
    let outcome = step.captured.forward_into(&stream, &x, &splits, options, &mut step.outputs.y);
    refused("splits on the host", outcome.err(), "splits on the host")?;
    let (layer, splits) = (step.captured.layer().clone(), &step.inputs.splits);
    let saved = layer.forward_into(&stream, &x, splits, options, &mut step.outputs.y)?;
    poison_tensor(&stream, &step.outputs.y)?;
    let dy = step.inputs.dy.clone();
    for (what, part) in [("dx", "dx would be"), ("dw", "dw would be"), ("db", "db would be")] {
        let Outputs { dx, dw, db, .. } = &mut step.outputs;
        let options = BackwardOptions {
            dx: if what == "dx" { RowSink::New } else { RowSink::Into(dx) },
            dw: if what == "dw" { Wgrad::default() } else { GradSink::Overwrite(dw).into() },
            db: Some(if what == "db" { GradSink::New } else { GradSink::Overwrite(db) }),
            ..BackwardOptions::default()
        };
        let outcome = step.captured.backward_with(&stream, &saved, &dy, options);
        refused(what, outcome.err(), part)?;
    }
    // Before anything is computed, though forward could be.
    let host_splits = Splits::host(&SPLITS[0])?;
    let y = &mut step.outputs.y;
    let saved = [(); 2].map(|()| layer.forward_into(&stream, &x, &host_splits, options, y));
    let [saved, later] = saved;
    poison_tensor(&stream, &step.outputs.y)?;
    let Outputs { dx, dw, db, .. } = &mut step.outputs;
    let into = BackwardOptions {
        dx: RowSink::Into(dx),
        dw: GradSink::Overwrite(dw).into(),
        db: Some(GradSink::Overwrite(db)),
        ..BackwardOptions::default()
    };
    let outcome = step.captured.backward_with(&stream, &saved?, &dy, into);
    refused("backward of splits on the host", outcome.err(), "splits on the host")?;
    let delayed = BackwardOptions {
        dx: RowSink::Skip,
        dw: Wgrad::Delayed,
        db: None,
        ..BackwardOptions::default()
    };
    let pending = layer.backward_with(&stream, later?, &dy, delayed)?.pending;
    let mut pending = pending.ok_or("no pending gradient")?;
    let sink = GradSink::Overwrite(&mut step.outputs.dw);
    let outcome = step.captured.run_delayed(&stream, &mut pending, sink);
    refused("delayed, of splits on the host", outcome.err(), "splits on the host")?;
    if pending.has_run() {
        return Err("a refused gradient counts as computed".into());
    }

    // Whether there is something to replay or not.
    inside_a_capture(&stream, &mut step)?;
    step.outputs.check_untouched(&stream, "after refusals")?;
    step.run(&stream)?;
    step.outputs.poison(&stream)?;
    inside_a_capture(&stream, &mut step)?;
    step.outputs.check_untouched(&stream, "after refusals of what was recorded")?;

    // A delayed gradient runs once, and into a buffer.
    step.run(&stream)?;
    let (saved, _) = step.forward(&stream)?;
    let (mut pending, _) = step.backward(&stream, &saved)?;
    let outcome = step.captured.run_delayed(&stream, &mut pending, GradSink::New);
    refused("a new dw", outcome.err(), "dw would be")?;
    let Step { captured, outputs, .. } = &mut step;
    captured.run_delayed(&stream, &mut pending, GradSink::Overwrite(&mut outputs.dw))?;
    let outcome = captured.run_delayed(&stream, &mut pending, GradSink::Overwrite(&mut outputs.dw));
    match outcome {
        Err(error) if error.is_invalid_argument() && pending.bytes() == 0 => {}
        outcome => return Err(format!("a second run: {outcome:?}").into()),
    }
    step.outputs.check(&stream, &host, "after all")?;
    Ok(())
}

/// What no graph has in it is looked at all the same: how many rows were saved, and whose memory a
/// gradient lies over.
fn refused_replays(device: &Device) -> Outcome {
    let stream = device.stream()?;
    // What FP8 takes, too.
    let sizes = Sizes { k: 64, n: 128, ..sizes(DType::Bf16) };
    let host = Host::exact(sizes, &SPLITS[0], 5);
    let mut step = Step::new(&stream, &host, Layout::Packed)?;
    let Step { captured, inputs: Inputs { layer, x, dy, splits, .. }, outputs } = &mut step;
    let save = |layer: &GroupedLinear, x: &Tensor, needs| {
        let options = ForwardOptions { needs, ..ForwardOptions::default() };
        layer.forward(&stream, x, splits, options).map(|(_, saved)| saved)
    };
    let nothing = || BackwardOptions {
        dx: RowSink::Skip,
        dw: Wgrad::Skip,
        db: None,
        ..BackwardOptions::default()
    };

    // More rows than dy has, of tokens that were not saved.
    let needs = Needs { dw: false, ..Needs::default() };
    let more = Tensor::zeros(&stream, &[ROWS + 8, sizes.k], DType::Bf16)?;
    let (own, wrong) = (save(layer, x, needs)?, save(layer, &more, needs)?);
    for (saved, want) in
        [(&own, Some(Captured::First)), (&own, Some(Captured::Replayed)), (&wrong, None)]
    {
        poison_tensor(&stream, &outputs.dx)?;
        let options = BackwardOptions { dx: RowSink::Into(&mut outputs.dx), ..nothing() };
        let did = captured.backward_with(&stream, saved, dy, options).map(|(_, did)| did);
        as_wanted("rows that differ", did, want)?;
    }
    untouched("dx", &tensor_bits(&stream, &outputs.dx)?, DType::Bf16)?;

    // A layer whose weights lie where the other's gradient goes.
    let weights = outputs.dw.clone();
    let other = GroupedLinear::new(&stream, layer.config(), weights, None)?;
    for (layer, want) in
        [(&*layer, Some(Captured::First)), (layer, Some(Captured::Replayed)), (&other, None)]
    {
        outputs.poison_grads(&stream)?;
        let saved = save(layer, x, Needs { dx: false, db: false, ..Needs::default() })?;
        let options = BackwardOptions { dw: Wgrad::Delayed, ..nothing() };
        let pending = layer.backward_with(&stream, saved, dy, options)?.pending;
        let mut pending = pending.ok_or("no pending gradient")?;
        let sink = GradSink::Overwrite(&mut outputs.dw);
        let did = captured.run_delayed(&stream, &mut pending, sink).map(|(_, did)| did);
        as_wanted("weights that are written over", did, want)?;
        if pending.has_run() != want.is_some() {
            return Err("a gradient has run, or has not, against what was answered".into());
        }
    }
    untouched("dw", &grouped_bits(&stream, &outputs.dw)?, DType::Bf16)?;

    // Histories that backward does not read, one of them where the gradient goes.
    let (groups, needs) = (sizes.groups, Needs { dx: false, db: false, ..Needs::default() });
    let history_len = sizes.n * sizes.k;
    let long = Recipe::Delayed(DelayedScaling { history_len, ..DelayedScaling::default() });
    let recipe = || -> grouped_linear::Result<_> {
        LayerRecipe::new(&stream, layer.config(), long)?.with_backward(BackwardPrecision::High)
    };
    let (own, other) = (recipe()?, recipe()?);
    let history = other.delayed().ok_or("no states")?.weight.history();
    let mut over = GroupedTensor::packed(history.reshape(&[groups, sizes.n, sizes.k])?)?;
    let before = tensor_bits(&stream, history)?;
    let mut captured = CapturedLayer::new(layer.clone());
    for (recipe, want) in
        [(&own, Some(Captured::First)), (&own, Some(Captured::Replayed)), (&other, None)]
    {
        let options = ForwardOptions { needs, recipe: Some(recipe), ..ForwardOptions::default() };
        let (_, saved) = layer.forward(&stream, x, splits, options)?;
        history.clone().write_f32(&stream, &vec![0.0; history.len()])?;
        let dw = GradSink::Overwrite(&mut over).into();
        let options = BackwardOptions { dw, ..nothing() };
        let did = captured.backward_with(&stream, &saved, dy, options).map(|(_, did)| did);
        as_wanted("a history that is written over", did, want)?;
    }
    equal_bits("the history", &tensor_bits(&stream, history)?, &before)?;

    // The same of a gradient that is computed later: that of a replay knows whose it is.
    let mut captured = CapturedLayer::new(layer.clone());
    for (recipe, want, refuses) in [
        (&own, Captured::First, false),
        (&own, Captured::Replayed, false),
        (&other, Captured::Replayed, true),
    ] {
        let needs = Needs { db: false, ..Needs::default() };
        let options = ForwardOptions { needs, recipe: Some(recipe), ..ForwardOptions::default() };
        let (_, saved) = layer.forward(&stream, x, splits, options)?;
        let (dx, dw) = (RowSink::Into(&mut outputs.dx), Wgrad::Delayed);
        let options = BackwardOptions { dx, dw, ..nothing() };
        let (grads, did) = captured.backward_with(&stream, &saved, dy, options)?;
        as_wanted("a gradient for later", Ok(did), Some(want))?;
        let mut pending = grads.pending.ok_or("no pending gradient")?;
        let outcome = pending.run(&stream, GradSink::Overwrite(&mut over)).map(drop);
        let refused = outcome.as_ref().is_err_and(Error::is_invalid_argument);
        if refused != refuses || (outcome.is_err() && !refuses) {
            return Err(format!("a gradient for later over a history: {outcome:?}").into());
        }
    }
    Ok(stream.synchronize()?)
}

/// `None`: a refusal of what was given.
fn as_wanted(what: &str, did: grouped_linear::Result<Captured>, want: Option<Captured>) -> Outcome {
    match (did, want) {
        (Ok(did), Some(want)) if did == want => Ok(()),
        (Err(error), None) if error.is_invalid_argument() => Ok(()),
        (did, want) => Err(format!("{what}: {did:?} instead of {want:?}").into()),
    }
}

fn refused(what: &str, outcome: Option<Error>, part: &str) -> Outcome {
    let error = outcome.ok_or_else(|| format!("{what} was taken"))?;
    match error.is_unsupported() && error.to_string().contains(part) {
        true => Ok(()),
        false => Err(format!("{what}: {error}").into()),
    }
}

/// Each call of the layer is refused while the stream records, and adds nothing to the recording.
fn inside_a_capture(stream: &Stream, step: &mut Step) -> Outcome {
    let (Inputs { x, dy, row_scales, splits, .. }, layer) = (&step.inputs, step.captured.layer());
    let scratch = Outputs::new(stream, sizes(DType::Bf16), Layout::Packed)?;
    let options =
        ForwardOptions { bias: BiasUse::RowScaled(row_scales), ..ForwardOptions::default() };
    let saved = layer.forward_into(stream, x, splits, options, &mut scratch.share().y)?;
    let options = BackwardOptions { dw: Wgrad::Delayed, ..BackwardOptions::default() };
    let pending = layer.backward_with(stream, saved.clone(), dy, options)?.pending;
    let mut pending = pending.expect("it was delayed");
    let mut outcomes = Vec::new();
    let graph = stream.capture(|stream| {
        outcomes.push(("forward", step.forward(stream).err()));
        outcomes.push(("backward", step.backward(stream, &saved).err()));
        let sink = GradSink::Overwrite(&mut step.outputs.dw);
        let outcome = step.captured.run_delayed(stream, &mut pending, sink);
        outcomes.push(("the delayed gradient", outcome.err()));
        Ok(())
    })?;
    for (what, outcome) in outcomes {
        refused(&format!("{what} in a capture"), outcome, "cannot be recorded in another")?;
    }
    if pending.has_run() {
        return Err("a refused gradient was released".into());
    }
    graph.launch(stream)?;
    Ok(stream.synchronize()?)
}

/// Two layers on two streams, replayed by turns without waiting: neither touches the other's
/// scratch memory.
fn two_streams(device: &Device) -> Outcome {
    let streams = [device.stream()?, device.stream()?];
    let mut steps = Vec::new();
    for (i, stream) in streams.iter().enumerate() {
        let host = Host::exact(sizes(DType::Bf16), &SPLITS[i], 5);
        steps.push((Step::new(stream, &host, Layout::Packed)?, host));
    }
    for _ in 0..4 {
        for ((step, _), stream) in steps.iter_mut().zip(&streams) {
            step.run(stream)?;
        }
    }
    for turn in 0..2u64 {
        for (i, ((step, host), stream)) in steps.iter_mut().zip(&streams).enumerate() {
            let next = SPLITS[(i + 2 + turn as usize) % SPLITS.len()];
            *host = Host::exact(sizes(DType::Bf16), &next, 6 + turn);
            step.inputs.write(stream, host)?;
            step.outputs.poison(stream)?;
        }
        for ((step, _), stream) in steps.iter_mut().zip(&streams) {
            step.run(stream)?;
        }
        for ((step, host), stream) in steps.iter().zip(&streams) {
            step.outputs.check(stream, host, &format!("turn {turn}"))?;
        }
    }
    Ok(())
}
