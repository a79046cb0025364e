//! Layers that follow a recipe, in graphs: everything that they quantize lies in buffers of their
//! own.

use grouped_linear::plan::Execution;
use grouped_linear::recipe::{
    BlockScaling, CurrentScaling, DelayedScaling, Mxfp8Scaling, Nvfp4Scaling, Recipe,
};
use grouped_linear::{
    BackwardOptions, BackwardPrecision, BiasUse, Captured, CapturedLayer, DType, Device, Error,
    ForwardOptions, GradSink, LayerRecipe, RecipeBuffers, Result, RowSink, SavePolicy, Stream,
    Wgrad,
};

use crate::device::{Inputs, Layout, Outputs};
use crate::host::{Host, RESULTS, Sizes, equal_bits};
use crate::{Check, Outcome};

const SIZES: Sizes = Sizes { groups: 3, rows: 200, k: 96, n: 160, dtype: DType::Bf16 };

/// Splits of successive calls; some leave a tail, some groups are empty.
const SPLITS: &[[usize; 3]] = &[[65, 0, 130], [0, 200, 0], [1, 63, 64], [0, 0, 0]];

fn recipes() -> [(&'static str, Recipe); 5] {
    let delayed = DelayedScaling { history_len: 2, ..DelayedScaling::default() };
    [
        ("current", Recipe::Current(CurrentScaling::default())),
        ("delayed", Recipe::Delayed(delayed)),
        ("block", Recipe::Block(BlockScaling::default())),
        ("mxfp8", Recipe::Mxfp8(Mxfp8Scaling::default())),
        // Every replay rounds with other numbers, those of the call beside it.
        ("nvfp4", Recipe::Nvfp4(Nvfp4Scaling::default())),
    ]
}

pub fn checks() -> Vec<Check> {
    let mut checks = Vec::new();
    for (name, recipe) in recipes() {
        for layout in [Layout::Packed, Layout::Discrete] {
            let name = format!("recipes: a graph with other splits, {name} {layout:?}");
            checks.push(Check::new(name, move |device| graph(device, recipe, layout)));
        }
        let check = move |device: &Device| captured_layer(device, recipe);
        checks.push(Check::new(format!("recipes: a captured layer, {name}"), check));
        let check = move |device: &Device| without_buffers(device, recipe);
        checks.push(Check::new(format!("recipes: no graph without buffers, {name}"), check));
    }
    let name = "recipes: other ways of a recipe are recorded anew";
    checks.push(Check::new(name, other_ways));
    checks.into_iter().map(|check| check.emulated_if(true)).collect()
}

/// The tensors of a layer, its recipe, and what is written.
struct Step {
    inputs: Inputs,
    outputs: Outputs,
    recipe: LayerRecipe,
    layout: Layout,
}

impl Step {
    fn new(stream: &Stream, recipe: Recipe, layout: Layout) -> Result<Self> {
        let inputs = Inputs::new(stream, SIZES, layout, DType::I64)?;
        let recipe = LayerRecipe::new(stream, inputs.layer.config(), recipe)?;
        Ok(Self { inputs, outputs: Outputs::new(stream, SIZES, layout)?, recipe, layout })
    }

    fn buffers(&self, stream: &Stream) -> Result<RecipeBuffers> {
        RecipeBuffers::new(stream, &self.recipe, SIZES.rows)
    }

    fn write(&mut self, stream: &Stream, turn: usize) -> Result<()> {
        self.inputs.write(stream, &Host::real(SIZES, &SPLITS[turn], 60 + turn as u64))?;
        self.outputs.poison(stream)
    }

    /// With packed parameters the bias's gradient is summed on the way, with discrete ones the bias
    /// has row scales.
    fn forward_options(&self) -> ForwardOptions<'_> {
        let bias = match self.layout {
            Layout::Packed => BiasUse::Add,
            Layout::Discrete => BiasUse::RowScaled(&self.inputs.row_scales),
        };
        ForwardOptions { bias, recipe: Some(&self.recipe), ..ForwardOptions::default() }
    }

    /// Forward, backward, and the next scales.
    fn run(&mut self, stream: &Stream) -> Result<()> {
        let mut outputs = self.outputs.share();
        let (options, Inputs { layer, x, dy, splits, .. }) = (self.forward_options(), &self.inputs);
        let saved = layer.forward_into(stream, x, splits, options, &mut outputs.y)?;
        let sinks = sinks(&mut outputs, self.layout, false);
        layer.backward_with(stream, saved, dy, sinks)?;
        self.recipe.update(stream)
    }
}

fn sinks(outputs: &mut Outputs, layout: Layout, delayed: bool) -> BackwardOptions<'_> {
    BackwardOptions {
        dx: RowSink::Into(&mut outputs.dx),
        dw: match delayed {
            true => Wgrad::Delayed,
            false => Wgrad::Now(GradSink::Overwrite(&mut outputs.dw)),
        },
        db: Some(GradSink::Overwrite(&mut outputs.db)),
        dscales: match layout {
            Layout::Packed => RowSink::Skip,
            Layout::Discrete => RowSink::Into(&mut outputs.dscales),
        },
    }
}

fn compare(stream: &Stream, what: &str, got: &Outputs, want: &Outputs) -> Outcome {
    let (got, want) = (got.bits(stream)?, want.bits(stream)?);
    for (index, name) in RESULTS.iter().enumerate() {
        equal_bits(&format!("{what}: {name}"), &got[index], &want[index])?;
    }
    Ok(())
}

/// Replayed as often as there are splits, beside a layer without buffers that runs as often, so
/// that delayed scales have seen the same.
fn graph(device: &Device, recipe: Recipe, layout: Layout) -> Outcome {
    let stream = device.stream()?;
    let mut eager = Step::new(&stream, recipe, layout)?;
    let mut recorded = Step::new(&stream, recipe, layout)?;
    let buffers = recorded.buffers(&stream)?;
    recorded.recipe = recorded.recipe.with_buffers(buffers);
    for step in [&mut eager, &mut recorded] {
        step.write(&stream, 0)?;
        step.run(&stream)?;
    }
    compare(&stream, "before", &recorded.outputs, &eager.outputs)?;
    let graph = stream.capture(|stream| recorded.run(stream))?;
    for turn in (1..SPLITS.len()).chain([0, 1]) {
        for step in [&mut eager, &mut recorded] {
            step.write(&stream, turn)?;
        }
        graph.launch(&stream)?;
        eager.run(&stream)?;
        let what = format!("replay with {:?}", SPLITS[turn]);
        compare(&stream, &what, &recorded.outputs, &eager.outputs)?;
    }
    Ok(())
}

fn captured_layer(device: &Device, recipe: Recipe) -> Outcome {
    let (stream, layout) = (device.stream()?, Layout::Packed);
    let mut eager = Step::new(&stream, recipe, layout)?;
    let mut step = Step::new(&stream, recipe, layout)?;
    let mut captured = CapturedLayer::new(step.inputs.layer.clone());
    let (first, second) = (step.buffers(&stream)?, step.buffers(&stream)?);
    let changed = Captured::Changed("the recipe");
    let moved = Captured::Changed("x");
    // Other buffers are another recipe; what lies in them is other tokens for backward.
    for (turn, buffers, want) in [
        (0, &first, [Captured::First; 3]),
        (1, &first, [Captured::Replayed; 3]),
        (2, &second, [changed, moved, Captured::Changed("dy")]),
        (3, &second, [Captured::Replayed; 3]),
    ] {
        step.recipe = step.recipe.with_buffers(buffers.clone());
        for step in [&mut eager, &mut step] {
            step.write(&stream, turn)?;
        }
        eager.run(&stream)?;
        let did = replay(&stream, &mut captured, &mut step)?;
        if did != want {
            return Err(format!("call {turn}: {did:?}").into());
        }
        compare(&stream, &format!("call {turn}"), &step.outputs, &eager.outputs)?;
    }
    Ok(())
}

/// The same recipe in the same buffers, but with another backward, or other tokens kept for it.
fn other_ways(device: &Device) -> Outcome {
    let (stream, layout) = (device.stream()?, Layout::Packed);
    let recipe = Recipe::Current(CurrentScaling::default());
    let mut eager = Step::new(&stream, recipe, layout)?;
    let mut step = Step::new(&stream, recipe, layout)?;
    let mut captured = CapturedLayer::new(step.inputs.layer.clone());
    let own = step.recipe.clone();
    let high = own.clone().with_backward(BackwardPrecision::High)?;
    let original = own.clone().with_save(SavePolicy::Original)?;
    let restoring = own.clone().with_backward(BackwardPrecision::Dequantized)?;
    let [large, small] = [&own, &restoring].map(|own| RecipeBuffers::new(&stream, own, SIZES.rows));
    let (large, small) = (large?, small?);
    use Captured::{Changed, First, Replayed};
    let (recipe, x, dy) = (Changed("the recipe"), Changed("x"), Changed("dy"));
    for (turn, (way, buffers, want)) in [
        (&own, &large, [First; 3]),
        (&own, &large, [Replayed; 3]),
        (&high, &large, [recipe, x, dy]),
        (&high, &large, [Replayed; 3]),
        // Tokens as they are, too, but quantized weights.
        (&original, &large, [recipe, Changed("weights"), dy]),
        // The gradient of the weights reads what backward quantized, where forward would have put it.
        (&own, &large, [recipe, x, Replayed]),
        (&restoring, &small, [recipe, x, dy]),
        (&high, &small, [recipe, x, x]),
        (&restoring, &small, [recipe, x, x]),
        (&restoring, &small, [Replayed; 3]),
    ]
    .into_iter()
    .enumerate()
    {
        eager.recipe = way.clone();
        step.recipe = way.clone().with_buffers(buffers.clone());
        for step in [&mut eager, &mut step] {
            step.write(&stream, turn % SPLITS.len())?;
        }
        eager.run(&stream)?;
        let did = replay(&stream, &mut captured, &mut step)?;
        if did != want {
            return Err(format!("call {turn}: {did:?} instead of {want:?}").into());
        }
        compare(&stream, &format!("call {turn}"), &step.outputs, &eager.outputs)?;
    }
    Ok(())
}

/// What forward, backward and the gradient of the weights did.
fn replay(stream: &Stream, captured: &mut CapturedLayer, step: &mut Step) -> Result<[Captured; 3]> {
    let mut outputs = step.outputs.share();
    let (options, Inputs { x, dy, splits, .. }) = (step.forward_options(), &step.inputs);
    let (saved, forward) = captured.forward_into(stream, x, splits, options, &mut outputs.y)?;
    let sinks = sinks(&mut outputs, step.layout, true);
    let (grads, backward) = captured.backward_with(stream, &saved, dy, sinks)?;
    let mut pending = grads.pending.expect("it was delayed");
    let sink = GradSink::Overwrite(&mut outputs.dw);
    let (_, wgrad) = captured.run_delayed(stream, &mut pending, sink)?;
    step.recipe.update(stream)?;
    Ok([forward, backward, wgrad])
}

fn without_buffers(device: &Device, recipe: Recipe) -> Outcome {
    let stream = device.stream()?;
    let mut step = Step::new(&stream, recipe, Layout::Packed)?;
    step.write(&stream, 0)?;
    step.run(&stream)?;
    let Inputs { layer, x, splits, .. } = &step.inputs;
    let (options, target) = (step.forward_options(), stream.device().target());
    let why = |execution| layer.unsupported_reason(target, SIZES.rows, splits, &options, execution);
    if why(Execution::Eager).is_some() {
        return Err("it would not run at all".into());
    }
    let why = why(Execution::Captured).ok_or("it does not say so beforehand")?;
    let mut y = step.outputs.y.clone();
    let mut captured = CapturedLayer::new(layer.clone());
    let refused = captured.forward_into(&stream, x, splits, options, &mut y).err();
    for text in [why, refusal(refused)?] {
        if !text.contains("LayerRecipe::with_buffers") {
            return Err(format!("it does not say what to do: {text}").into());
        }
    }
    refusal(stream.capture(|stream| step.run(stream)).err())?;
    // Nothing is left behind.
    step.run(&stream)?;
    stream.synchronize()?;
    Ok(())
}

fn refusal(refused: Option<Error>) -> Result<String, String> {
    match refused {
        Some(error) if error.is_unsupported() => Ok(error.to_string()),
        other => Err(format!("not refused as unsupported: {other:?}")),
    }
}
