//! Layers with a recipe whose calls are recorded and replayed, and recorded anew where another way
//! is asked for.

use grouped_linear::Captured::{Changed, First, Replayed};
use grouped_linear::plan::Execution;
use grouped_linear::recipe::{
    Accumulation, BlockScaling, Blocks, CurrentScaling, Recipe, ScaleRule, Sums,
};
use grouped_linear::{
    BackwardPrecision, Captured, CapturedLayer, DType, Device, Error, LayerRecipe, RecipeBuffers,
    Result, SavePolicy, Stream,
};

use super::step::{Sinks, Step, When, compare};
use super::variants::{Variant, defaults};
use super::{SIZES, SPLITS};
use crate::device::{Inputs, Layout};
use crate::{Check, Outcome};

pub fn checks() -> Vec<Check> {
    let mut checks = Vec::new();
    for (name, recipe) in defaults() {
        let variant = Variant::new(name, recipe, Layout::Packed);
        for variant in [variant, variant.of(DType::F16, Layout::Discrete, Sinks::Added)] {
            let name = format!("recipes: a captured layer, {variant}");
            checks.push(Check::new(name, move |device| captured_layer(device, &variant)));
        }
        let check = move |device: &Device| without_buffers(device, &variant);
        checks.push(Check::new(format!("recipes: no graph without buffers, {name}"), check));
    }
    let name = "recipes: other ways of a recipe are recorded anew";
    checks.push(Check::new(name, other_ways));
    let name = "recipes: other rules of scales are recorded anew";
    checks.push(Check::new(name, other_rules));
    let name = "recipes: other sums are recorded anew";
    checks.push(Check::new(name, other_sums));
    checks
}

fn captured_layer(device: &Device, variant: &Variant) -> Outcome {
    let stream = device.stream()?;
    let mut pair = Pair::new(&stream, variant)?;
    let (first, second) = (pair.step.buffers(&stream)?, pair.step.buffers(&stream)?);
    let own = pair.step.recipe.clone();
    let moved = [Changed("the recipe"), Changed("x"), Changed("dy")];
    // Other buffers are another recipe; what lies in them is other tokens for backward.
    pair.calls(
        &stream,
        &[
            (&own, &first, [First; 3]),
            (&own, &first, [Replayed; 3]),
            (&own, &second, moved),
            // Twice, each with splits of its own, which the recording must not keep.
            (&own, &second, [Replayed; 3]),
            (&own, &second, [Replayed; 3]),
        ],
    )
}

/// The same recipe in the same buffers, but with another backward, or other tokens kept for it.
fn other_ways(device: &Device) -> Outcome {
    let stream = device.stream()?;
    let recipe = Recipe::Current(CurrentScaling::default());
    let mut pair = Pair::new(&stream, &Variant::new("", recipe, Layout::Packed))?;
    let own = pair.step.recipe.clone();
    let high = own.clone().with_backward(BackwardPrecision::High)?;
    let original = own.clone().with_save(SavePolicy::Original)?;
    let restoring = own.clone().with_backward(BackwardPrecision::Dequantized)?;
    let [large, small] = [&own, &restoring].map(|own| RecipeBuffers::new(&stream, own, SIZES.rows));
    let (large, small) = (large?, small?);
    let (recipe, x, dy) = (Changed("the recipe"), Changed("x"), Changed("dy"));
    pair.calls(
        &stream,
        &[
            (&own, &large, [First; 3]),
            (&own, &large, [Replayed; 3]),
            (&high, &large, [recipe, x, dy]),
            (&high, &large, [Replayed; 3]),
            // Tokens as they are, too, but quantized weights.
            (&original, &large, [recipe, Changed("weights"), dy]),
            // The gradient of the weights reads what backward quantized, where forward would have
            // put it.
            (&own, &large, [recipe, x, Replayed]),
            (&restoring, &small, [recipe, x, dy]),
            (&high, &small, [recipe, x, x]),
            (&restoring, &small, [recipe, x, x]),
            (&restoring, &small, [Replayed; 3]),
        ],
    )
}

/// Recipes that differ in how scales follow from magnitudes alone, so that they share buffers.
fn other_rules(device: &Device) -> Outcome {
    let stream = device.stream()?;
    let vectors = BlockScaling { weight: Blocks::Vector, ..BlockScaling::default() };
    let with = |power_of_two, epsilon| {
        let scale = ScaleRule { power_of_two, epsilon };
        Recipe::Block(BlockScaling { scale, ..vectors })
    };
    let recipes = [with(true, 0.0), with(true, 3.0), with(false, 0.0)];
    let (mut pair, [powers, raised, any], buffers) = sharing(&stream, recipes)?;
    let recipe = Changed("the recipe");
    pair.calls(
        &stream,
        &[
            (&powers, &buffers, [First; 3]),
            (&powers, &buffers, [Replayed; 3]),
            // Which kernel the gradient of the weights may have is another matter.
            (&any, &buffers, [recipe; 3]),
            (&any, &buffers, [Replayed; 3]),
            (&powers, &buffers, [recipe; 3]),
            // It reads the scales that there are.
            (&raised, &buffers, [recipe, recipe, Replayed]),
            (&raised, &buffers, [Replayed; 3]),
        ],
    )
}

/// Recipes that differ in where sums are accumulated alone, so that they share buffers.
fn other_sums(device: &Device) -> Outcome {
    let stream = device.stream()?;
    let usual = Sums::default();
    let with = |sums| Recipe::Current(CurrentScaling { sums, ..CurrentScaling::default() });
    let forward = Sums { fprop: Accumulation::Promoted, ..usual };
    let weights = Sums { wgrad: Accumulation::Fast, ..usual };
    let recipes = [usual, forward, weights].map(with);
    let (mut pair, [usual, forward, weights], buffers) = sharing(&stream, recipes)?;
    let recipe = Changed("the recipe");
    pair.calls(
        &stream,
        &[
            (&usual, &buffers, [First; 3]),
            (&usual, &buffers, [Replayed; 3]),
            // The gradient of the weights is multiplied as before.
            (&forward, &buffers, [recipe, recipe, Replayed]),
            (&forward, &buffers, [Replayed; 3]),
            (&weights, &buffers, [recipe; 3]),
            (&weights, &buffers, [Replayed; 3]),
            (&usual, &buffers, [recipe; 3]),
        ],
    )
}

/// A layer whose calls are recorded, recipes that share the buffers of the first one, and these.
fn sharing(
    stream: &Stream,
    recipes: [Recipe; 3],
) -> Result<(Pair, [LayerRecipe; 3], RecipeBuffers)> {
    let pair = Pair::new(stream, &Variant::new("", recipes[0], Layout::Packed))?;
    let config = pair.step.inputs.layer.config();
    let [first, second, third] = recipes.map(|recipe| LayerRecipe::new(stream, config, recipe));
    let buffers = pair.step.buffers(stream)?;
    Ok((pair, [first?, second?, third?], buffers))
}

/// A way to follow a recipe, where, and what forward, backward and the gradient of the weights
/// shall do then.
type Call<'a> = (&'a LayerRecipe, &'a RecipeBuffers, [Captured; 3]);

/// A layer whose calls are recorded, and one beside it without graphs.
struct Pair {
    step: Step,
    eager: Step,
    captured: CapturedLayer,
}

impl Pair {
    fn new(stream: &Stream, variant: &Variant) -> Result<Self> {
        let step = Step::new(stream, variant, SIZES)?;
        let captured = CapturedLayer::new(step.inputs.layer.clone());
        Ok(Self { step, eager: Step::new(stream, variant, SIZES)?, captured })
    }

    /// One after the other, with other splits each.
    fn calls(&mut self, stream: &Stream, calls: &[Call<'_>]) -> Outcome {
        for (number, &(way, buffers, want)) in calls.iter().enumerate() {
            let turn = number % SPLITS.len();
            self.step.recipe = way.clone().with_buffers(buffers.clone());
            // What is remembered from step to step is its own.
            if way.delayed().is_none() && way.random().is_none() {
                self.eager.recipe = way.clone();
            }
            for step in [&mut self.eager, &mut self.step] {
                step.write(stream, &SPLITS[turn], 60 + turn as u64)?;
            }
            self.eager.run(stream)?;
            let did = replay(stream, &mut self.captured, &mut self.step)?;
            if did != want {
                return Err(format!("call {number}: {did:?} instead of {want:?}").into());
            }
            let what = format!("call {number}");
            compare(stream, &what, &self.step.outputs, &self.eager.outputs)?;
        }
        Ok(())
    }
}

/// What forward, backward and the gradient of the weights did.
fn replay(stream: &Stream, captured: &mut CapturedLayer, step: &mut Step) -> Result<[Captured; 3]> {
    let mut outputs = step.outputs.share();
    let (options, Inputs { x, dy, splits, .. }) = (step.forward_options(), &step.inputs);
    let (saved, forward) = captured.forward_into(stream, x, splits, options, &mut outputs.y)?;
    let options = step.backward_options(&mut outputs, When::Later);
    let (grads, backward) = captured.backward_with(stream, &saved, dy, options)?;
    let mut pending = grads.pending.expect("it was delayed");
    let sink = step.sink(&mut outputs.dw);
    let (_, wgrad) = captured.run_delayed(stream, &mut pending, sink)?;
    step.recipe.update(stream)?;
    Ok([forward, backward, wgrad])
}

fn without_buffers(device: &Device, variant: &Variant) -> Outcome {
    let stream = device.stream()?;
    let mut step = Step::new(&stream, variant, SIZES)?;
    step.write(&stream, &SPLITS[0], 60)?;
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
