//! Graphs: captured once, replayed with other splits and other inputs in the same buffers.

use grouped_linear::functional::{self, GemmOptions, WgradArgs};
use grouped_linear::{
    DType, Device, Event, Factor, Graph, GroupedTensor, KernelChoice, Result, Splits, Stream,
    Tensor,
};

use crate::device::{Inputs, Layout, Outputs, run_all};
use crate::host::{Host, RESULTS, Sizes, equal_bits};
use crate::{Check, Outcome};

const GROUPS: usize = 4;
const ROWS: usize = 700;

/// Splits of replays, around the edges of tiles; the graph is captured with the first.
const SPLITS: &[(&str, [usize; GROUPS])] = &[
    ("balanced", [175, 175, 175, 175]),
    ("empty first", [0, 300, 200, 150]),
    ("empty middle", [129, 0, 0, 500]),
    ("empty last", [64, 65, 127, 0]),
    ("all empty", [0, 0, 0, 0]),
    ("one takes all", [0, 0, ROWS, 0]),
    ("few rows", [1, 63, 64, 65]),
    ("balanced again", [175, 175, 175, 175]),
];

/// Splits that only the device can refuse, and what it says.
const BAD_SPLITS: &[([i64; GROUPS], &str)] = &[
    ([5, -1, 3, 2], "group 1 has -1 rows"),
    ([ROWS as i64, 0, 0, 1], "701 rows, but the token buffer has 700"),
    ([i32::MAX as i64, 0, 0, i32::MAX as i64], "4294967294 rows, but the token buffer has 700"),
    ([7, 7, 7, i32::MIN as i64], "group 3 has -2147483648 rows"),
];

/// What is captured.
#[derive(Clone, Copy)]
struct Setting {
    dtype: DType,
    layout: Layout,
    counts: DType,
    kernel: KernelChoice,
}

const SETTINGS: &[Setting] = {
    use DType::{Bf16, F16, I32, I64};
    use KernelChoice::{Auto, Simt};
    use Layout::{Discrete, Packed};
    const fn setting(dtype: DType, layout: Layout, counts: DType, kernel: KernelChoice) -> Setting {
        Setting { dtype, layout, counts, kernel }
    }
    &[
        setting(Bf16, Packed, I64, Auto),
        setting(Bf16, Packed, I32, Auto),
        setting(Bf16, Discrete, I64, Auto),
        setting(Bf16, Discrete, I32, Auto),
        setting(F16, Packed, I32, Auto),
        setting(F16, Discrete, I64, Auto),
        setting(Bf16, Discrete, I32, Simt),
    ]
};

impl Setting {
    fn name(&self) -> String {
        let Self { dtype, layout, counts, kernel } = self;
        format!("{dtype} {layout:?} splits={counts} {kernel:?}")
    }

    fn sizes(&self) -> Sizes {
        Sizes { groups: GROUPS, rows: ROWS, k: 136, n: 264, dtype: self.dtype }
    }
}

pub fn checks() -> Vec<Check> {
    let mut checks = Vec::new();
    for (number, &setting) in SETTINGS.iter().enumerate() {
        let name = setting.name();
        let check = Check::new(format!("replay: other splits, {name}"), move |device| {
            other_splits(device, &setting)
        });
        checks.push(check.emulated_if(number == 0));
        let check = Check::new(format!("replay: bad splits, {name}"), move |device| {
            bad_splits(device, &setting)
        });
        checks.push(check.emulated_if([0, 3].contains(&number)));
    }
    checks.push(Check::new("replay: on two streams by turns", by_turns));
    checks.push(Check::new("replay: by eight threads at once", by_threads));
    checks
}

/// Every operation captured on a stream.
struct Recorded {
    setting: Setting,
    inputs: Inputs,
    outputs: Outputs,
    graph: Graph,
}

impl Recorded {
    fn new(stream: &Stream, setting: &Setting) -> Result<Self, String> {
        let record = || -> Result<Self> {
            let host = Host::exact(setting.sizes(), &SPLITS[0].1, 1);
            let inputs = Inputs::of(stream, &host, setting.layout, setting.counts)?;
            let mut outputs = Outputs::new(stream, setting.sizes(), setting.layout)?;
            // Loads the modules and sizes the scratch memory, neither of which can be recorded.
            run_all(stream, &inputs, &mut outputs, setting.kernel)?;
            outputs.poison(stream)?;
            let graph = stream.capture(|s| run_all(s, &inputs, &mut outputs, setting.kernel))?;
            Ok(Self { setting: *setting, inputs, outputs, graph })
        };
        let recorded = record().map_err(|error| error.to_string())?;
        recorded.outputs.check_untouched(stream, "after the capture")?;
        Ok(recorded)
    }

    /// What an eager call on the same inputs gives.
    fn eager(&self, stream: &Stream) -> Result<[Vec<u32>; 5]> {
        let mut outputs = Outputs::new(stream, self.setting.sizes(), self.setting.layout)?;
        run_all(stream, &self.inputs, &mut outputs, self.setting.kernel)?;
        outputs.bits(stream)
    }
}

fn other_splits(device: &Device, setting: &Setting) -> Outcome {
    let stream = device.stream()?;
    let mut recorded = Recorded::new(&stream, setting)?;
    for (step, (name, splits)) in SPLITS.iter().enumerate() {
        let seed = 100 + step as u64;
        // Exact numbers against the formulas, then real ones, whose last bits show any other order
        // of summation, against an eager call.
        for host in [Host::exact, Host::real].map(|new| new(setting.sizes(), splits, seed)) {
            recorded.inputs.write(&stream, &host)?;
            recorded.outputs.poison(&stream)?;
            recorded.graph.launch(&stream)?;
            let replayed = recorded.outputs.bits(&stream)?;
            let eager = recorded.eager(&stream)?;
            for (i, result) in RESULTS.iter().enumerate() {
                let what = format!("{name}: {result}, replay against eager");
                equal_bits(&what, &replayed[i], &eager[i])?;
            }
        }
        let host = Host::exact(setting.sizes(), splits, seed);
        recorded.inputs.write(&stream, &host)?;
        recorded.outputs.poison(&stream)?;
        recorded.graph.launch(&stream)?;
        recorded.outputs.check(&stream, &host, name)?;
    }
    Ok(stream.synchronize()?)
}

fn bad_splits(device: &Device, setting: &Setting) -> Outcome {
    let (captured, other) = (device.stream()?, device.stream()?);
    let mut recorded = Recorded::new(&captured, setting)?;
    let host = Host::exact(setting.sizes(), &SPLITS[6].1, 7);
    let good = SPLITS[6].1.map(|split| split as i64);
    recorded.inputs.write(&captured, &host)?;
    for (replayed_on, silent, place) in
        [(&captured, &other, "where it was captured"), (&other, &captured, "elsewhere")]
    {
        for (splits, part) in BAD_SPLITS {
            let what = format!("{splits:?}, replayed {place}");
            let tell = |error: grouped_linear::Error| -> Result<(), String> {
                match error.is_bad_splits() && error.to_string().contains(part) {
                    true => Ok(()),
                    false => Err(format!("{what}: reported as {error}")),
                }
            };
            let untold = || format!("{what}: not reported");

            // Bad splits alone: nothing is written, and one stream is told, once.
            recorded.outputs.poison(&captured)?;
            recorded.inputs.write_splits(&captured, splits)?;
            replayed_on.wait(&point(&captured)?)?;
            recorded.graph.launch(replayed_on)?;
            tell(replayed_on.synchronize().err().ok_or_else(untold)?)?;
            replayed_on.synchronize()?;
            silent.synchronize()?;
            recorded.outputs.check_untouched(replayed_on, &what)?;

            // Bad, then good, without asking in between: the good replay works, the error is kept.
            recorded.graph.launch(replayed_on)?;
            captured.wait(&point(replayed_on)?)?;
            recorded.inputs.write_splits(&captured, &good)?;
            replayed_on.wait(&point(&captured)?)?;
            recorded.graph.launch(replayed_on)?;
            tell(replayed_on.synchronize().err().ok_or_else(untold)?)?;
            recorded.outputs.check(replayed_on, &host, &what)?;
            silent.synchronize()?;
        }
    }
    Ok(())
}

/// A graph runs after its own former replays, whatever their streams; so the outputs are right
/// although the streams are not ordered with each other.
fn by_turns(device: &Device) -> Outcome {
    let streams = [device.stream()?, device.stream()?];
    let setting = SETTINGS[0];
    let mut recorded = Recorded::new(&streams[0], &setting)?;
    let host = Host::exact(setting.sizes(), &SPLITS[2].1, 9);
    recorded.inputs.write(&streams[0], &host)?;
    streams[0].synchronize()?;
    for turn in 0..50 {
        recorded.graph.launch(&streams[turn % 2])?;
    }
    streams.iter().try_for_each(Stream::synchronize)?;
    recorded.outputs.check(&streams[1], &host, "after 50 replays")?;
    Ok(())
}

/// A graph that is replayed by eight threads at once, each on a stream of its own: every replay
/// adds to the gradient.
fn by_threads(device: &Device) -> Outcome {
    const REPLAYS: usize = 20;
    let streams = (0..8).map(|_| device.stream()).collect::<Result<Vec<_>>>()?;
    let recorder = &streams[0];
    let ones = |shape: &[usize]| {
        Tensor::from_f32(recorder, shape, DType::Bf16, &vec![1.0; shape.iter().product()])
    };
    let (dy, x) = (ones(&[256, 64])?, ones(&[256, 64])?);
    let splits = Splits::device(Tensor::from_slice(recorder, &[2], &[192i64, 64])?)?;
    let sums = Tensor::zeros(recorder, &[2, 64, 64], DType::F32)?;
    let add = |stream: &Stream| {
        let options = GemmOptions { beta: Factor::Value(1.0), ..GemmOptions::default() };
        let args = WgradArgs { dy: &dy, x: &x, splits: &splits, options };
        functional::wgrad(stream, &args, &mut GroupedTensor::packed(sums.clone())?)
    };
    add(recorder)?;
    let graph = recorder.capture(add)?;
    recorder.synchronize()?;
    let replayed = std::thread::scope(|scope| {
        let launch = |stream| {
            let graph = &graph;
            scope.spawn(move || {
                (0..REPLAYS).try_for_each(|_| graph.launch(stream))?;
                Stream::synchronize(stream)
            })
        };
        let threads: Vec<_> = streams.iter().map(launch).collect();
        let joined = threads.into_iter().map(|thread| thread.join().expect("it only launches"));
        joined.collect::<Result<()>>()
    });
    replayed?;
    let sums = sums.to_f32(recorder)?;
    let runs = (1 + streams.len() * REPLAYS) as f32;
    for (group, rows) in [192.0, 64.0].into_iter().enumerate() {
        let found = &sums[group * 64 * 64..][..64 * 64];
        if let Some(sum) = found.iter().find(|&&sum| sum != runs * rows) {
            return Err(format!("group {group}: {sum} for {}", runs * rows).into());
        }
    }
    Ok(())
}

fn point(stream: &Stream) -> Result<Event> {
    stream.record()
}
