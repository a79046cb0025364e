//! Cached copies of master weights: what a recorded update does at each replay, and that streams
//! see what they asked for.

use grouped_linear::conformance::Generator;
use grouped_linear::{
    CastWeights, Config, DType, Device, ForwardOptions, Graph, GroupedLinear, GroupedTensor,
    Refresh, Result, Splits, Stream, Tensor, WeightCache,
};

use crate::device::{Layout, grouped, grouped_bits, poison_tensor, tensor_bits, write_groups};
use crate::host::{bits, equal_bits, poison, small};
use crate::{Check, Outcome};

const GROUPS: usize = 3;
const N: usize = 16;
const K: usize = 8;
const ROWS: usize = 6;

/// What is done to a cache.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The recorded update runs.
    Replay,
    Version(u64),
    Refresh(u64, Refresh),
    /// The update runs outside of a graph.
    Update,
    Forget,
}

/// What becomes of the copies, which were overwritten before.
#[derive(Clone, Copy, Debug)]
enum Copies {
    Made,
    Left,
}

/// One after the other on one cache. The master weights are new before each.
const STEPS: &[(Step, Copies)] = {
    use Copies::{Left, Made};
    use Refresh::{Held, Launched};
    use Step::{Forget, Replay, Update, Version};
    &[
        // Nothing is held at first, and no version has been given.
        (Replay, Made),
        (Replay, Left),
        // The first replay after the version has moved makes them, and no other.
        (Version(7), Left),
        (Replay, Made),
        (Replay, Left),
        (Version(7), Left),
        (Replay, Left),
        // The device knows of the replay, the host does not; both do after the refresh.
        (Step::Refresh(7, Launched), Left),
        (Step::Refresh(7, Held), Left),
        // A replay that never happens does not count.
        (Version(8), Left),
        (Step::Refresh(8, Launched), Made),
        (Replay, Left),
        (Version(9), Left),
        (Version(10), Left),
        (Update, Made),
        (Update, Left),
        // Versions may go back and wrap around.
        (Step::Refresh(9, Launched), Made),
        (Step::Refresh(u64::MAX, Launched), Made),
        (Step::Refresh(0, Launched), Made),
        (Step::Refresh(0, Held), Left),
        (Version(u64::MAX), Left),
        (Version(0), Left),
        (Replay, Made),
        // What is forgotten is made again once a version is given.
        (Forget, Left),
        (Replay, Left),
        (Step::Refresh(0, Launched), Made),
        (Forget, Left),
        (Version(0), Left),
        (Replay, Made),
        (Replay, Left),
    ]
};

pub fn checks() -> Vec<Check> {
    let settings = [(DType::Bf16, Layout::Packed), (DType::F16, Layout::Discrete)];
    let mut checks: Vec<Check> = settings
        .into_iter()
        .map(|(dtype, layout)| {
            let name = format!("cache: versions and replays, {dtype} {layout:?}");
            Check::new(name, move |device| versions(device, dtype, layout)).emulated_if(true)
        })
        .collect();
    checks.push(Check::new("cache: no version in a graph", refusals).emulated_if(true));
    checks.push(Check::new("cache: two streams", two_streams));
    checks
}

/// A cache, a layer over it, and both recorded.
struct Fixture {
    master: GroupedTensor,
    cache: WeightCache,
    layer: GroupedLinear,
    x: Tensor,
    splits: Splits,
    y: Tensor,
}

impl Fixture {
    fn new(stream: &Stream, dtype: DType, layout: Layout) -> Result<Self> {
        let config = Config { groups: GROUPS, in_features: K, out_features: N, dtype };
        let cache = WeightCache::new(stream, CastWeights { config })?;
        let x: Vec<f32> = (0..ROWS * K).map(|i| (i % 5) as f32 - 2.0).collect();
        Ok(Self {
            master: grouped(stream, layout, &[GROUPS, N, K], DType::F32)?,
            layer: GroupedLinear::new(stream, config, cache.weights().clone(), None)?,
            cache,
            x: Tensor::from_f32(stream, &[ROWS, K], dtype, &x)?,
            splits: Splits::device(Tensor::from_slice(stream, &[GROUPS], &[2i32, 0, 4])?)?,
            y: Tensor::zeros(stream, &[ROWS, N], dtype)?,
        })
    }

    fn work(&mut self, stream: &Stream) -> Result<()> {
        let Self { master, cache, layer, x, splits, y } = self;
        cache.update(stream, master)?;
        layer.forward_into(stream, x, splits, ForwardOptions::default(), y).map(drop)
    }

    /// The work recorded; nothing is held then.
    fn record(&mut self, stream: &Stream) -> Result<Graph> {
        // Loads the kernels and sizes the scratch memory.
        self.cache.set_version(stream, 1)?;
        self.work(stream)?;
        self.cache.set_version(stream, 2)?;
        stream.capture(|s| self.work(s))
    }
}

fn versions(device: &Device, dtype: DType, layout: Layout) -> Outcome {
    let stream = device.stream()?;
    let mut fixture = Fixture::new(&stream, dtype, layout)?;
    let graph = fixture.record(&stream)?;
    let mut generator = Generator::new(77);
    for (number, &(step, copies)) in STEPS.iter().enumerate() {
        let what = format!("step {number}, {step:?}");
        // A third is exact in no type.
        let values: Vec<f32> =
            (0..GROUPS * N * K).map(|_| small(&mut generator) + 1.0 / 3.0).collect();
        write_groups(&stream, &fixture.master, &values)?;
        for part in crate::device::parts(fixture.cache.weights())? {
            poison_tensor(&stream, &part)?;
        }
        match step {
            Step::Replay => graph.launch(&stream)?,
            Step::Version(version) => fixture.cache.set_version(&stream, version)?,
            Step::Update => fixture.cache.update(&stream, &fixture.master)?,
            Step::Forget => fixture.cache.forget(),
            Step::Refresh(version, want) => {
                let got = fixture.cache.refresh(&stream, &fixture.master, version)?;
                if got != want {
                    return Err(format!("{what}: {got:?}").into());
                }
            }
        }
        let want: Vec<u32> = match copies {
            Copies::Made => values.iter().map(|&value| bits(value, dtype)).collect(),
            Copies::Left => vec![poison(dtype); values.len()],
        };
        equal_bits(&what, &grouped_bits(&stream, fixture.cache.weights())?, &want)?;
        if let (Step::Replay, Copies::Made) = (step, copies) {
            same_output(&stream, &fixture, &values, &what)?;
        }
    }
    Ok(())
}

/// The recorded forward has read the copies: a layer of its own gives the same.
fn same_output(stream: &Stream, fixture: &Fixture, values: &[f32], what: &str) -> Outcome {
    let config = fixture.layer.config();
    let weights = Tensor::from_f32(stream, &[GROUPS, N, K], config.dtype, values)?;
    let layer = GroupedLinear::new(stream, config, GroupedTensor::packed(weights)?, None)?;
    let options = ForwardOptions::default();
    let (y, _) = layer.forward(stream, &fixture.x, &fixture.splits, options)?;
    let (got, want) = (tensor_bits(stream, &fixture.y)?, tensor_bits(stream, &y)?);
    Ok(equal_bits(&format!("{what}, y"), &got, &want)?)
}

/// A version that was recorded would come again with every replay.
fn refusals(device: &Device) -> Outcome {
    let stream = device.stream()?;
    let mut fixture = Fixture::new(&stream, DType::Bf16, Layout::Packed)?;
    fixture.cache.refresh(&stream, &fixture.master, 1)?;
    type Attempt = fn(&Stream, &mut Fixture) -> Result<()>;
    let attempts: [(&str, Attempt); 4] = [
        ("a version", |s, f| f.cache.set_version(s, 2)),
        ("the same version", |s, f| f.cache.set_version(s, 1)),
        ("a refresh", |s, f| f.cache.refresh(s, &f.master, 1).map(drop)),
        ("a new cache", |s, f| {
            let config = f.layer.config();
            WeightCache::new(s, CastWeights { config }).map(drop)
        }),
    ];
    for (name, attempt) in attempts {
        match stream.capture(|s| attempt(s, &mut fixture)) {
            Err(error) if error.is_unsupported() => {}
            Err(error) => return Err(format!("{name}: refused as something else: {error}").into()),
            Ok(_) => return Err(format!("{name} was recorded").into()),
        }
    }
    match fixture.cache.refresh(&stream, &fixture.master, 1)? {
        Refresh::Held => Ok(()),
        Refresh::Launched => Err("a refused version has moved".into()),
    }
}

/// Two streams take turns in refreshing; the other one asks for the same version and reads at once.
fn two_streams(device: &Device) -> Outcome {
    let streams = [device.stream()?, device.stream()?];
    let (groups, n, k) = (8, 2048, 2048);
    let config = Config { groups, in_features: k, out_features: n, dtype: DType::Bf16 };
    let mut cache = WeightCache::new(&streams[0], CastWeights { config })?;
    let mut values = Tensor::empty(&streams[0], &[groups, n, k], DType::F32)?;
    let master = GroupedTensor::packed(values.clone())?;
    let mut read = Tensor::empty(&streams[1], &[groups, n, k], DType::Bf16)?;
    for version in 0..12u64 {
        let (first, second) = (&streams[version as usize % 2], &streams[1 - version as usize % 2]);
        // What the other stream still reads is for us to order.
        first.wait(&second.record()?)?;
        values.write_f32(first, &vec![version as f32; groups * n * k])?;
        if cache.refresh(first, &master, version)? != Refresh::Launched {
            return Err(format!("version {version} was taken for held").into());
        }
        if cache.refresh(second, &master, version)? != Refresh::Held {
            return Err(format!("version {version} was not held").into());
        }
        if let Some(copies) = cache.weights().as_packed() {
            read.copy_from(second, copies)?;
        }
        let want = vec![bits(version as f32, DType::Bf16); groups * n * k];
        equal_bits(&format!("version {version}"), &tensor_bits(second, &read)?, &want)?;
    }
    Ok(())
}
