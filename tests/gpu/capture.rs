//! What a capture refuses, and that the stream is usable after every way in which a capture can
//! end.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use grouped_linear::{
    DType, Device, Error, Event, ForwardOptions, Graph, GroupedTensor, KernelChoice, Result,
    Splits, Stream, Tensor,
};

use crate::device::{Inputs, Layout, Outputs, parts, run_all};
use crate::host::{Host, Sizes};
use crate::{Check, Outcome};

const SIZES: Sizes = Sizes { groups: 3, rows: 200, k: 72, n: 136, dtype: DType::Bf16 };
const SPLITS: [usize; 3] = [65, 0, 130];
/// Its group table is larger than the scratch memory of anything here.
const WIDE: Sizes = Sizes { groups: 4096, rows: 8, k: 8, n: 8, dtype: DType::Bf16 };

/// What the attempts use.
struct Fixture {
    host: Host,
    inputs: Inputs,
    outputs: Outputs,
    wide: Inputs,
    wide_y: Tensor,
    event: Event,
    graph: Graph,
}

type Attempt = fn(&Stream, &Fixture) -> Result<()>;

/// What cannot be recorded.
const REFUSED: &[(&str, Attempt)] = &[
    ("an allocation", |s, _| Tensor::empty(s, &[8], DType::F32).map(drop)),
    ("an allocation of zeros", |s, _| Tensor::zeros(s, &[8], DType::F32).map(drop)),
    ("forward into a new tensor", |s, f| {
        let Inputs { layer, x, splits, .. } = &f.inputs;
        layer.forward(s, x, splits, ForwardOptions::default()).map(drop)
    }),
    ("backward, which makes new tensors", |s, f| {
        let Inputs { layer, x, dy, splits, .. } = &f.inputs;
        let mut y = f.outputs.y.clone();
        let saved = layer.forward_into(s, x, splits, ForwardOptions::default(), &mut y)?;
        layer.backward(s, saved, dy).map(drop)
    }),
    ("splits on the host", |s, f| {
        let (Inputs { layer, x, .. }, mut y) = (&f.inputs, f.outputs.y.clone());
        let splits = Splits::host(&SPLITS)?;
        layer.forward_into(s, x, &splits, ForwardOptions::default(), &mut y).map(drop)
    }),
    ("more scratch memory", |s, f| {
        let (Inputs { layer, x, splits, .. }, mut y) = (&f.wide, f.wide_y.clone());
        layer.forward_into(s, x, splits, ForwardOptions::default(), &mut y).map(drop)
    }),
    ("a copy from the host", |s, f| f.inputs.counts.clone().write(s, &[1i64, 2, 3])),
    ("a copy to the host", |s, f| f.inputs.counts.to_vec::<i64>(s).map(drop)),
    ("the addresses of discrete tensors", |s, f| {
        GroupedTensor::discrete(s, parts(f.inputs.layer.weights())?).map(drop)
    }),
    ("waiting on the host", |s, _| s.synchronize()),
    ("an event", |s, _| s.record().map(drop)),
    ("waiting for an event", |s, f| s.wait(&f.event)),
    ("a capture", |s, _| s.capture(|_| Ok(())).map(drop)),
    ("a replay", |s, f| f.graph.launch(s)),
];

pub fn checks() -> Vec<Check> {
    let mut checks: Vec<Check> = REFUSED
        .iter()
        .map(|&(name, attempt)| {
            let check = Check::new(format!("capture: refuses {name}"), move |device| {
                refusal(device, name, attempt)
            });
            check.emulated_if(true)
        })
        .collect();
    checks.push(Check::new("capture: survives a panic", panic_inside).emulated_if(true));
    checks.push(Check::new("capture: of nothing", of_nothing).emulated_if(true));
    let keeps_memory = Check::new("capture: the graph keeps its memory", keeps_memory);
    checks.push(keeps_memory.emulated_if(true));
    checks.push(Check::new("capture: many graphs", many_graphs));
    checks.push(Check::new("capture: first use of another stream's memory", anothers_memory));
    checks
}

impl Fixture {
    fn new(stream: &Stream) -> Result<Self> {
        let host = Host::exact(SIZES, &SPLITS, 31);
        let inputs = Inputs::of(stream, &host, Layout::Discrete, DType::I64)?;
        let mut outputs = Outputs::new(stream, SIZES, Layout::Discrete)?;
        run_all(stream, &inputs, &mut outputs, KernelChoice::Auto)?;
        let graph = stream.capture(|s| run_all(s, &inputs, &mut outputs, KernelChoice::Auto))?;
        Ok(Self {
            host,
            inputs,
            outputs,
            wide: Inputs::new(stream, WIDE, Layout::Packed, DType::I64)?,
            wide_y: Tensor::empty(stream, &[WIDE.rows, WIDE.n], WIDE.dtype)?,
            event: stream.device().stream()?.record()?,
            graph,
        })
    }

    /// Eager work, a copy, and a capture with its replay.
    fn works(&mut self, stream: &Stream, when: &str) -> Outcome {
        let Self { host, inputs, outputs, .. } = self;
        outputs.poison(stream)?;
        run_all(stream, inputs, outputs, KernelChoice::Auto)?;
        stream.synchronize()?;
        outputs.check(stream, host, &format!("eager {when}"))?;
        outputs.poison(stream)?;
        let graph = stream.capture(|s| run_all(s, inputs, outputs, KernelChoice::Auto))?;
        outputs.check_untouched(stream, &format!("captured {when}"))?;
        graph.launch(stream)?;
        outputs.check(stream, host, &format!("replayed {when}"))?;
        Ok(())
    }
}

fn refusal(device: &Device, name: &str, attempt: Attempt) -> Outcome {
    handed_on(device, name, attempt)?;
    ignored(device, name, attempt)
}

/// The closure returns the refusal, and so does the capture.
fn handed_on(device: &Device, name: &str, attempt: Attempt) -> Outcome {
    let stream = device.stream()?;
    let mut fixture = Fixture::new(&stream)?;
    let refused = stream.capture(|s| attempt(s, &fixture)).err();
    check_refusal(&refused.ok_or_else(|| format!("{name} was recorded"))?)?;
    fixture.works(&stream, "after the refused capture")
}

/// The closure takes no notice, and the rest of its work is recorded. (On a stream of its own: one
/// that was asked for scratch memory has it at the next capture.)
fn ignored(device: &Device, name: &str, attempt: Attempt) -> Outcome {
    let stream = device.stream()?;
    let mut fixture = Fixture::new(&stream)?;
    fixture.outputs.poison(&stream)?;
    let mut refused = None;
    let mut outputs = fixture.outputs.share();
    let graph = stream.capture(|s| {
        refused = attempt(s, &fixture).err();
        run_all(s, &fixture.inputs, &mut outputs, KernelChoice::Auto)
    })?;
    check_refusal(&refused.ok_or_else(|| format!("{name} was recorded"))?)?;
    fixture.outputs.check_untouched(&stream, "captured beside a refusal")?;
    graph.launch(&stream)?;
    fixture.outputs.check(&stream, &fixture.host, "replayed beside a refusal")?;
    fixture.works(&stream, "after a refusal that was ignored")
}

fn check_refusal(error: &Error) -> Result<(), String> {
    match error.is_unsupported() {
        true => Ok(()),
        false => Err(format!("refused, but as something else: {error}")),
    }
}

fn panic_inside(device: &Device) -> Outcome {
    let stream = device.stream()?;
    let mut fixture = Fixture::new(&stream)?;
    for work_before in [false, true] {
        let mut outputs = fixture.outputs.share();
        let caught = catch_unwind(AssertUnwindSafe(|| {
            stream.capture(|s| {
                if work_before {
                    run_all(s, &fixture.inputs, &mut outputs, KernelChoice::Auto)?;
                }
                // A panic without the message that a panic prints.
                resume_unwind(Box::new("the closure panics"))
            })
        }));
        match caught {
            Ok(_) => return Err("the panic was swallowed".into()),
            Err(payload) if payload.downcast_ref() == Some(&"the closure panics") => {}
            Err(_) => return Err("another panic came out".into()),
        }
        fixture.works(&stream, "after a panic")?;
    }
    Ok(())
}

fn of_nothing(device: &Device) -> Outcome {
    let stream = device.stream()?;
    let mut fixture = Fixture::new(&stream)?;
    let graph = stream.capture(|_| Ok(()))?;
    graph.launch(&stream)?;
    stream.synchronize()?;
    fixture.works(&stream, "after an empty capture")
}

/// Everything that recorded work uses may be dropped: during the capture, after it, and the graph
/// itself while it runs. What is allocated and overwritten meanwhile must be other memory.
fn keeps_memory(device: &Device) -> Outcome {
    let stream = device.stream()?;
    let host = Host::exact(SIZES, &SPLITS, 32);
    let inputs = Inputs::of(&stream, &host, Layout::Discrete, DType::I32)?;
    let mut outputs = Outputs::new(&stream, SIZES, Layout::Discrete)?;
    run_all(&stream, &inputs, &mut outputs, KernelChoice::Auto)?;

    let (mut x, staging) = (inputs.x.clone(), Tensor::empty(&stream, &[200, 72], DType::Bf16)?);
    staging.clone().copy_from(&stream, &inputs.x)?;
    x.fill_zero(&stream)?;
    let unused = Tensor::zeros(&stream, &[1 << 20], DType::F32)?;
    let mut captured = outputs.share();
    let graph = stream.capture(|s| {
        x.copy_from(s, &staging)?;
        drop((staging, unused));
        run_all(s, &inputs, &mut captured, KernelChoice::Auto)
    })?;
    drop((x, inputs, captured));

    overwrite_free_memory(&stream)?;
    for replay in ["first replay", "second replay"] {
        outputs.poison(&stream)?;
        graph.launch(&stream)?;
        outputs.check(&stream, &host, replay)?;
        overwrite_free_memory(&stream)?;
    }
    outputs.poison(&stream)?;
    for _ in 0..20 {
        graph.launch(&stream)?;
    }
    drop(graph);
    overwrite_free_memory(&stream)?;
    outputs.check(&stream, &host, "dropped while it ran")?;
    Ok(())
}

/// An operation waits, the first time, for the stream that allocated its operands. Inside a capture
/// that wait cannot be recorded, and the other stream still has work to do.
fn anothers_memory(device: &Device) -> Outcome {
    let (home, user) = (device.stream()?, device.stream()?);
    let host = Host::exact(SIZES, &SPLITS, 33);
    {
        // Loads the kernels and sizes the scratch memory of the stream that will record.
        let inputs = Inputs::of(&user, &host, Layout::Discrete, DType::I32)?;
        let mut outputs = Outputs::new(&user, SIZES, Layout::Discrete)?;
        run_all(&user, &inputs, &mut outputs, KernelChoice::Auto)?;
    }
    let mut busy = Tensor::empty(&home, &[1 << 28], DType::F32)?;
    let inputs = Inputs::of(&home, &host, Layout::Discrete, DType::I32)?;
    let outputs = Outputs::new(&home, SIZES, Layout::Discrete)?;
    busy.fill_zero(&home)?;
    let mut captured = outputs.share();
    let graph = user.capture(|s| run_all(s, &inputs, &mut captured, KernelChoice::Auto))?;
    for replay in ["first replay", "second replay"] {
        outputs.poison(&user)?;
        graph.launch(&user)?;
        outputs.check(&user, &host, replay)?;
    }
    Ok(())
}

/// Takes memory of all the sizes used here, several times, and fills it with other bytes.
fn overwrite_free_memory(stream: &Stream) -> Result<()> {
    let mut taken = Vec::new();
    for _ in 0..4 {
        taken.push(Inputs::of(
            stream,
            &Host::real(SIZES, &[0; 3], 1),
            Layout::Discrete,
            DType::I32,
        )?);
    }
    for bytes in [1 << 16, 1 << 20, 1 << 22] {
        let mut tensor = Tensor::empty(stream, &[bytes / 4], DType::I32)?;
        tensor.write(stream, &vec![-1i32; bytes / 4])?;
    }
    drop(taken);
    Ok(())
}

/// Scratch memory and status blocks are given back with the graphs.
fn many_graphs(device: &Device) -> Outcome {
    let stream = device.stream()?;
    let mut fixture = Fixture::new(&stream)?;
    for _ in 0..300 {
        let Fixture { inputs, outputs, .. } = &mut fixture;
        let graph = stream.capture(|s| run_all(s, inputs, outputs, KernelChoice::Auto))?;
        graph.launch(&stream)?;
    }
    fixture.outputs.check(&stream, &fixture.host, "after 300 graphs")?;
    fixture.works(&stream, "after 300 graphs")
}
