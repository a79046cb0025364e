//! Quantized weights that are cached over the microbatches of a step, in graphs: the first replay
//! after their version has moved quantizes them, all others read what there is.

use grouped_linear::conformance::Generator;
use grouped_linear::{
    DType, Device, Graph, GroupedTensor, QuantizeWeights, Refresh, Result, Stream, WeightCache,
};

use super::SMALL;
use super::step::{Sinks, Step, compare, same_states};
use super::variants::{Variant, defaults, variants};
use crate::device::{Layout, grouped, parts, poison_tensor, write_groups};
use crate::host::{Sizes, bits, value};
use crate::{Check, Outcome};

/// What becomes of the master weights, and what the cache is told, before a microbatch.
#[derive(Clone, Copy, Debug)]
enum Before {
    /// Nothing.
    Nothing,
    /// They change, and nobody is told.
    Changed,
    /// They change, and a version is given that they had before.
    ChangedUnder(u64),
    /// They change, and their version moves.
    Version(u64),
    /// They change, and they are quantized outside of the graph.
    Refresh(u64),
    /// They change, and what is asked for outside of the graph is there already.
    Held(u64),
}

impl Before {
    fn changes(self) -> bool {
        !matches!(self, Self::Nothing)
    }

    /// Whether the microbatch reads what the master weights hold now.
    fn is_told(self) -> bool {
        matches!(self, Self::Version(_) | Self::Refresh(_))
    }
}

/// What precedes each microbatch of successive steps of the optimiser, and its splits.
const STEPS: &[&[(Before, [usize; 3])]] = &[
    &[
        (Before::Version(2), [33, 0, 98]),
        (Before::Nothing, [0, 136, 0]),
        (Before::Changed, [1, 64, 63]),
    ],
    &[(Before::Version(7), [1, 64, 63]), (Before::ChangedUnder(7), [33, 0, 98])],
    &[(Before::Refresh(8), [0, 136, 0]), (Before::Held(8), [33, 0, 98])],
];

pub fn checks() -> Vec<Check> {
    let layouts = [Layout::Packed, Layout::Discrete].into_iter().cycle();
    let defaults = defaults().into_iter().zip(layouts);
    let defaults = defaults
        .map(|((name, recipe), layout)| Variant::new(name, recipe, layout).cached(DType::F32));
    let check = |variant: Variant| {
        let master = variant.master?;
        let name = format!("recipes: cached weights in graphs, {variant}, master weights {master}");
        let check = Check::new(name, move |device| microbatches(device, &variant, master));
        Some(check.blackwell_if(variant.blackwell))
    };
    defaults.chain(variants()).filter_map(check).collect()
}

/// A layer over cached weights, recorded with them.
struct Cached {
    step: Step,
    master: GroupedTensor,
    cache: WeightCache<QuantizeWeights>,
}

impl Cached {
    fn new(stream: &Stream, variant: &Variant, sizes: Sizes, master: DType) -> Result<Self> {
        let mut step = Step::new(stream, variant, sizes)?;
        let prepare = QuantizeWeights { recipe: step.recipe.clone(), master };
        let cache = WeightCache::new(stream, prepare)?;
        step.recipe = step.recipe.with_weights(cache.prepared().clone())?;
        let buffers = step.buffers(stream)?;
        step.recipe = step.recipe.with_buffers(buffers);
        let Sizes { groups, n, k, .. } = sizes;
        let master = grouped(stream, variant.layout, &[groups, n, k], master)?;
        Ok(Self { step, master, cache })
    }

    /// New inputs; the layer's own weights are poison.
    fn write(&mut self, stream: &Stream, splits: &[usize], seed: u64) -> Result<()> {
        self.step.write(stream, splits, seed)?;
        let own = parts(self.step.inputs.layer.weights())?;
        own.iter().try_for_each(|part| poison_tensor(stream, part))
    }

    fn run(&mut self, stream: &Stream) -> Result<()> {
        self.cache.update(stream, &self.master)?;
        self.step.microbatch(stream)
    }

    /// A microbatch whose gradients go into these sinks, recorded.
    fn record(&mut self, stream: &Stream, sinks: Sinks) -> Result<Graph> {
        self.step.sinks = sinks;
        stream.capture(|stream| self.run(stream))
    }
}

/// The gradients of a step's first microbatch overwrite what the last step left, the others are
/// added. Beside it runs a layer that quantizes its weights in every microbatch.
fn microbatches(device: &Device, variant: &Variant, master: DType) -> Outcome {
    let stream = device.stream()?;
    let variant = Variant { sinks: Sinks::Wide, ..*variant };
    let sizes = Sizes { dtype: variant.dtype, ..SMALL };
    let mut cached = Cached::new(&stream, &variant, sizes, master)?;
    let mut eager = Step::new(&stream, &variant, sizes)?;

    // Loads the kernels and sizes the scratch memory.
    let mut weights = draw(sizes, 1);
    write_groups(&stream, &cached.master, &weights)?;
    cached.cache.set_version(&stream, 1)?;
    cached.write(&stream, &STEPS[0][0].1, 90)?;
    cached.run(&stream)?;
    eager.write(&stream, &STEPS[0][0].1, 90)?;
    write_groups(&stream, eager.inputs.layer.weights(), &weights)?;
    eager.microbatch(&stream)?;
    compare(&stream, "before", &cached.step.outputs, &eager.outputs)?;

    let first = cached.record(&stream, Sinks::Wide)?;
    let other = cached.record(&stream, Sinks::Added)?;
    let mut seed = 100;
    for (number, step) in STEPS.iter().enumerate() {
        for (microbatch, (before, splits)) in step.iter().enumerate() {
            let what = format!("step {number}, microbatch {microbatch}, {before:?}");
            seed += 1;
            if before.changes() {
                let new = draw(sizes, seed);
                write_groups(&stream, &cached.master, &new)?;
                if before.is_told() {
                    weights = new;
                }
            }
            tell(&stream, &mut cached, *before).map_err(|error| format!("{what}: {error}"))?;
            let (graph, sinks) =
                if microbatch == 0 { (&first, Sinks::Wide) } else { (&other, Sinks::Added) };
            (cached.step.sinks, eager.sinks) = (sinks, sinks);
            cached.write(&stream, splits, seed)?;
            graph.launch(&stream)?;
            eager.write(&stream, splits, seed)?;
            write_groups(&stream, eager.inputs.layer.weights(), &weights)?;
            eager.microbatch(&stream)?;
            compare(&stream, &what, &cached.step.outputs, &eager.outputs)?;
            same_states(&stream, &what, &cached.step.recipe, &eager.recipe)?;
        }
        cached.step.recipe.update(&stream)?;
        eager.recipe.update(&stream)?;
    }
    Ok(())
}

fn tell(stream: &Stream, cached: &mut Cached, before: Before) -> Result<(), String> {
    let Cached { master, cache, .. } = cached;
    let mut refresh = |version, want| match cache.refresh(stream, master, version) {
        Ok(got) if got == want => Ok(()),
        got => Err(format!("{got:?} instead of {want:?}")),
    };
    match before {
        Before::Nothing | Before::Changed => Ok(()),
        Before::ChangedUnder(version) | Before::Version(version) => {
            cache.set_version(stream, version).map_err(|error| error.to_string())
        }
        Before::Refresh(version) => refresh(version, Refresh::Launched),
        Before::Held(version) => refresh(version, Refresh::Held),
    }
}

/// Weights that the layer's type holds, so that those of any master's type are the same.
fn draw(sizes: Sizes, seed: u64) -> Vec<f32> {
    let (mut generator, dtype) = (Generator::new(seed), sizes.dtype);
    let count = sizes.groups * sizes.n * sizes.k;
    (0..count).map(|_| value(bits(generator.value(), dtype), dtype)).collect()
}
