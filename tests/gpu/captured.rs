//! Layers whose calls are recorded once and replayed, and that notice when they must be recorded anew.

use grouped_linear::{
    BackwardOptions, BiasUse, Captured, CapturedLayer, DType, Device, Error, ForwardOptions,
    GradSink, GroupedTensor, KernelChoice, Needs, PendingWgrad, RowSink, Saved, Splits, Stream,
    Tensor, Wgrad,
};

use crate::device::{Inputs, Layout, Outputs, grouped_bits, poison_tensor, run_all};
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
    checks.push(Check::new("captured: refusals", refusals).emulated_if(true));
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
    step.outputs.dw = other.outputs.dw;
    expect(&mut step, [Replayed, Replayed, Changed("dw")])?;
    step.outputs.dscales = other.outputs.dscales;
    expect(&mut step, [Replayed, Changed("dscales"), Replayed])?;

    // Options of forward, one after the other.
    let Step { captured, inputs, outputs } = &mut step;
    let scaled = BiasUse::RowScaled(&inputs.row_scales);
    let no_dw = Needs { dw: false, ..Needs::default() };
    let options = [
        ("needs", ForwardOptions { bias: scaled, needs: no_dw, kernel: KernelChoice::Auto }),
        ("kernel", ForwardOptions { bias: scaled, needs: no_dw, kernel: KernelChoice::Simt }),
        (
            "row_scales",
            ForwardOptions { kernel: KernelChoice::Simt, needs: no_dw, ..Default::default() },
        ),
        (
            "the use of the bias",
            ForwardOptions { bias: BiasUse::Leave, needs: no_dw, kernel: KernelChoice::Simt },
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
    let zeros = |shape: &[usize]| Tensor::zeros(&stream, shape, DType::F32);
    let (n, k) = (host.sizes.n, host.sizes.k);
    let mut dw = GroupedTensor::packed(zeros(&[GROUPS, n, k])?)?;
    let mut db = GroupedTensor::packed(zeros(&[GROUPS, n])?)?;
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
    for (what, sum, one) in [("dw", &dw, &one[2]), ("db", &db, &one[3])] {
        let three: Vec<u32> =
            one.iter().map(|&bits| (3.0 * value(bits, DType::Bf16)).to_bits()).collect();
        // BF16 holds what one call gives: the sums of so few small integers are short.
        equal_values(what, DType::F32, &grouped_bits(&stream, sum)?, &three)?;
    }
    Ok(())
}

fn refusals(device: &Device) -> Outcome {
    let stream = device.stream()?;
    let host = Host::exact(sizes(DType::Bf16), &SPLITS[0], 4);
    let mut step = Step::new(&stream, &host, Layout::Packed)?;
    let refused = |what: &str, outcome: Option<Error>, part: &str| -> Outcome {
        let error = outcome.ok_or_else(|| format!("{what} was taken"))?;
        match error.is_unsupported() && error.to_string().contains(part) {
            true => Ok(()),
            false => Err(format!("{what}: {error}").into()),
        }
    };
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
    let mut outcome = None;
    let graph = stream.capture(|stream| {
        outcome = step.forward(stream).err();
        Ok(())
    })?;
    refused("a capture around it", outcome, "cannot be recorded in another")?;
    drop(graph);
    step.outputs.check_untouched(&stream, "after refusals")?;

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

/// Two layers on two streams, replayed by turns without waiting: neither touches the other's scratch
/// memory.
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
