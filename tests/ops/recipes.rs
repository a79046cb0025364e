//! Pipelines whose layers compute in low precision.

use grouped_linear::functional::{QuantizeArgs, QuantizeSource, quantize};
use grouped_linear::ops::{
    BackwardArguments, ForwardArguments, Function, Gradient, Inputs, OpId, Passes, Selection,
    Sequential, Sink, names,
};
use grouped_linear::plan::{Execution, Target};
use grouped_linear::recipe::{
    BlockScaling, CurrentScaling, DelayedScaling, Mxfp8Scaling, Nvfp4Scaling, Role,
};
use grouped_linear::{
    BackwardPrecision, Config, DType, DeviceKind, Form, ForwardOptions, GradSink, GroupedLinear,
    GroupedTensor, LayerRecipe, QuantizedSpec, QuantizedTensor, Recipe, RecipeBuffers, Result,
    SavePolicy, SourceShape, Splits, Stream, Tensor, TensorSpec,
};

use crate::engines::Test;
use crate::fusion::{Rule, Runs};
use crate::relu::Relu;
use crate::{GROUPS, ROWS, splits, tensor};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("in low precision a pipeline computes what its layers compute", |e, s| {
        same_as_layers(s).expect(e)
    }),
    ("what a pipeline in low precision keeps is what was inferred", |e, s| kept(s).expect(e)),
    ("calls in one recipe share a plan", |e, s| plans(s).expect(e)),
    ("recipes that a pipeline cannot take are refused", |e, s| refused(s).expect(e)),
    ("recipes' buffers are one operation's, where something is kept in them", |e, s| {
        shared_buffers(s).expect(e)
    }),
    ("tokens that are gone are refused before backward writes", |e, s| gone(s).expect(e)),
    ("a gradient over a recipe's memory is refused", |e, s| over_memory(s).expect(e)),
    ("what a layer in low precision keeps is made by its forward alone", |e, s| {
        saved_alone(s).expect(e)
    }),
    ("an output over another operation's history is refused", |e, s| over_history(s).expect(e)),
    ("a recipe on another device is refused before forward writes", |e, s| elsewhere(s).expect(e)),
    ("delayed gradients of a pipeline in low precision", |e, s| delayed(s).expect(e)),
    ("stages that know recipes, or do not", |e, s| fused(s).expect(e)),
    ("misplaced memory is refused before a layer in low precision writes", |e, s| {
        misplaced(s).expect(e)
    }),
];

const DTYPE: DType = DType::Bf16;
const WIDTHS: [usize; 3] = [32, 64, 32];
const SENTINEL: f32 = 7.0;

fn recipes() -> [Recipe; 5] {
    [
        Recipe::Current(CurrentScaling::default()),
        Recipe::Delayed(DelayedScaling { history_len: 4, ..DelayedScaling::default() }),
        Recipe::Block(BlockScaling::default()),
        Recipe::Mxfp8(Mxfp8Scaling::default()),
        Recipe::Nvfp4(Nvfp4Scaling::default()),
    ]
}

fn current() -> Recipe {
    recipes()[0]
}

fn random(stream: &Stream, shape: &[usize], seed: u64) -> Result<Tensor> {
    Tensor::from_f32(stream, shape, DTYPE, &tensor(stream, shape, seed)?.to_f32(stream)?)
}

fn sevens(stream: &Stream, shape: &[usize]) -> Result<Tensor> {
    Tensor::from_f32(stream, shape, DTYPE, &vec![SENTINEL; shape.iter().product()])
}

fn config(index: usize) -> Config {
    let (in_features, out_features) = (WIDTHS[index], WIDTHS[index + 1]);
    Config { groups: GROUPS, in_features, out_features, dtype: DTYPE }
}

/// A layer with bias, relu, a layer without.
struct Net {
    layers: [GroupedLinear; 2],
    pipeline: Sequential,
    ids: [OpId; 3],
}

impl Net {
    fn new(stream: &Stream) -> Result<Self> {
        let packed = |shape: &[usize], seed| GroupedTensor::packed(random(stream, shape, seed)?);
        let weights = |i: usize| packed(&[GROUPS, WIDTHS[i + 1], WIDTHS[i]], i as u64);
        let bias = packed(&[GROUPS, WIDTHS[1]], 2)?;
        let up = GroupedLinear::new(stream, config(0), weights(0)?, Some(bias))?;
        let down = GroupedLinear::new(stream, config(1), weights(1)?, None)?;
        let mut pipeline = Sequential::new();
        let ids = [pipeline.push(up.clone()), pipeline.push(Relu), pipeline.push(down.clone())];
        Ok(Self { layers: [up, down], pipeline, ids })
    }

    /// Both layers in the same recipe.
    fn recipes(stream: &Stream, recipe: Recipe) -> Result<[LayerRecipe; 2]> {
        Ok([
            LayerRecipe::new(stream, config(0), recipe)?,
            LayerRecipe::new(stream, config(1), recipe)?,
        ])
    }

    fn arguments<'a>(&self, [first, last]: &[LayerRecipe; 2]) -> ForwardArguments<'a> {
        let [up, _, down] = self.ids;
        let splits = splits();
        ForwardArguments::new()
            .splits(up, &splits)
            .splits(down, &splits)
            .recipe(up, first)
            .recipe(down, last)
    }

    fn x(stream: &Stream) -> Result<Tensor> {
        random(stream, &[ROWS, WIDTHS[0]], 7)
    }

    fn dy(stream: &Stream) -> Result<Tensor> {
        random(stream, &[ROWS, WIDTHS[2]], 8)
    }

    /// Output and all gradients by the layers themselves.
    fn by_hand(&self, stream: &Stream, recipes: &[LayerRecipe; 2]) -> Result<Vec<Vec<f32>>> {
        let [up, down] = &self.layers;
        let [first, last] = recipes
            .each_ref()
            .map(|recipe| ForwardOptions { recipe: Some(recipe), ..ForwardOptions::default() });
        let relu = |x: Vec<f32>| Tensor::from_f32(stream, &[ROWS, WIDTHS[1]], DTYPE, &x);
        let (h, saved_up) = up.forward(stream, &Self::x(stream)?, &splits(), first)?;
        let h = h.to_f32(stream)?;
        let active = relu(h.iter().map(|h| h.max(0.0)).collect())?;
        let (y, saved_down) = down.forward(stream, &active, &splits(), last)?;
        let of_down = down.backward(stream, saved_down, &Self::dy(stream)?)?;
        let da = of_down.dx.to_f32(stream)?;
        let dh = relu(h.iter().zip(da).map(|(&h, da)| if h > 0.0 { da } else { 0.0 }).collect())?;
        let of_up = up.backward(stream, saved_up, &dh)?;
        [Some(&y), of_down.dw.as_packed(), of_up.dw.as_packed()]
            .into_iter()
            .chain([of_up.db.as_ref().and_then(GroupedTensor::as_packed), Some(&of_up.dx)])
            .map(|tensor| tensor.expect("packed").to_f32(stream))
            .collect()
    }

    /// The same by the pipeline.
    fn run(&self, stream: &Stream, recipes: &[LayerRecipe; 2]) -> Result<Vec<Vec<f32>>> {
        let [up, _, down] = self.ids;
        let (y, saved) =
            self.pipeline.forward(stream, Self::x(stream)?, self.arguments(recipes))?;
        let arguments = BackwardArguments::new();
        let grads = self.pipeline.backward(stream, saved, Self::dy(stream)?, arguments)?;
        let tensor = |op, name| match grads.get(op, name).expect("a gradient of each") {
            Gradient::Tensor(tensor) => tensor.to_f32(stream),
            Gradient::Grouped(grouped) => grouped.as_packed().expect("packed").to_f32(stream),
            other => panic!("{name}: {other:?}"),
        };
        Ok(vec![
            y.to_f32(stream)?,
            tensor(down, names::WEIGHTS)?,
            tensor(up, names::WEIGHTS)?,
            tensor(up, names::BIAS)?,
            tensor(up, names::X)?,
        ])
    }
}

/// Two steps each, since delayed scaling and random rounding differ from step to step.
fn same_as_layers(stream: &Stream) -> Result<()> {
    let net = Net::new(stream)?;
    for recipe in recipes() {
        for backward in
            [BackwardPrecision::Recipe, BackwardPrecision::High, BackwardPrecision::Dequantized]
        {
            let ways = || -> Result<_> {
                let [first, last] = Net::recipes(stream, recipe)?;
                Ok([first.with_backward(backward)?, last.with_backward(backward)?])
            };
            let (mut own, mut by_hand) = (ways()?, ways()?);
            for step in 0..2 {
                let want = net.by_hand(stream, &by_hand)?;
                assert_eq!(net.run(stream, &own)?, want, "{recipe:?}, {backward:?}, step {step}");
                assert!(want.iter().all(|all| all.iter().any(|value| value.abs() > 0.01)));
                LayerRecipe::update_all(stream, &mut own, None)?;
                LayerRecipe::update_all(stream, &mut by_hand, None)?;
            }
        }
    }
    Ok(())
}

fn kept(stream: &Stream) -> Result<()> {
    let net = Net::new(stream)?;
    for recipe in recipes() {
        let delayed = matches!(recipe, Recipe::Delayed(_));
        for (save, backward) in [
            (SavePolicy::Quantized, BackwardPrecision::Recipe),
            (SavePolicy::Original, BackwardPrecision::Recipe),
            (SavePolicy::Quantized, BackwardPrecision::Dequantized),
            (SavePolicy::Quantized, BackwardPrecision::High),
        ] {
            if delayed && save == SavePolicy::Original {
                continue; // is refused
            }
            let ways = |own: LayerRecipe| own.with_save(save)?.with_backward(backward);
            let [first, last] = Net::recipes(stream, recipe)?;
            let recipes = [ways(first)?, ways(last)?];
            let arguments = net.arguments(&recipes);
            let (_, saved) = net.pipeline.forward(stream, Net::x(stream)?, arguments)?;
            let specs = &saved.plan().specs;
            let names: Vec<_> = specs[0].saved.names().collect();
            // On Hopper, and on a CPU, numbers of MXFP8 and NVFP4 are exact: without scales of
            // blocks.
            let [scales, amax] = match recipe {
                Recipe::Current(_) | Recipe::Delayed(_) => [2, 0],
                Recipe::Block(_) => [1, 0],
                Recipe::Nvfp4(_) => [0, 1],
                _ => [0, 0],
            };
            let parts = |[data, amax_of, scale_inv, scale]: [&'static str; 4]| {
                let amax = [amax_of].into_iter().take(amax);
                [data].into_iter().chain(amax).chain([scale_inv, scale].into_iter().take(scales))
            };
            let x = [names::X, names::X_AMAX, names::X_SCALE_INV, names::X_SCALE];
            let weights = [
                names::WEIGHTS,
                names::WEIGHTS_AMAX,
                names::WEIGHTS_SCALE_INV,
                names::WEIGHTS_SCALE,
            ];
            let as_they_are = backward == BackwardPrecision::High;
            let plain = as_they_are || save == SavePolicy::Original;
            let mut want: Vec<_> = parts(x).take(if plain { 1 } else { 4 }).collect();
            want.extend(parts(weights).take(if as_they_are { 0 } else { 4 }));
            want.sort_unstable();
            assert_eq!(names, want, "{recipe:?}, {save:?}, {backward:?}");
            // Of relu the output, which is the next layer's x where that is kept as it is.
            let each = |index: usize| specs[index].saved.iter();
            let layers = each(0).chain(each(2)).map(|(_, spec)| spec.byte_len()).sum::<usize>();
            let relu = specs[1].saved.iter().map(|(_, spec)| spec.byte_len()).sum::<usize>();
            let want = if plain { layers } else { layers + relu };
            assert_eq!(saved.activation_bytes(), want, "{recipe:?}, {save:?}, {backward:?}");
        }
    }
    Ok(())
}

fn plans(stream: &Stream) -> Result<()> {
    let net = Net::new(stream)?;
    let recipes = Net::recipes(stream, current())?;
    let same = Net::recipes(stream, current())?;
    net.run(stream, &recipes)?;
    net.run(stream, &recipes)?;
    net.run(stream, &same)?;
    assert_eq!(net.pipeline.plan_count(), 1, "memory is no part of a plan");
    let [first, last] = same;
    let high = [first.with_backward(BackwardPrecision::High)?, last];
    net.run(stream, &high)?;
    assert_eq!(net.pipeline.plan_count(), 2);
    net.run(stream, &Net::recipes(stream, Recipe::Block(BlockScaling::default()))?)?;
    assert_eq!(net.pipeline.plan_count(), 3);
    Ok(())
}

/// Quantized weights of the second layer, with these copies.
fn quantized_weights(
    stream: &Stream,
    net: &Net,
    columnwise: Option<Form>,
) -> Result<QuantizedTensor> {
    let Config { groups, in_features: columns, out_features: rows, .. } = config(1);
    let spec = QuantizedSpec {
        groups,
        source: SourceShape::Weights { rows, columns },
        format: current().format(Role::Weight),
        rowwise: Some(Form::Codes),
        columnwise,
    };
    let mut weights = QuantizedTensor::empty(stream, spec)?;
    let source = QuantizeSource::Weights(net.layers[1].weights());
    quantize(stream, QuantizeArgs::new(source), &mut weights)?;
    Ok(weights)
}

/// By the plan alone, which needs no device, and so by forward before anything is written.
fn refused(stream: &Stream) -> Result<()> {
    let net = Net::new(stream)?;
    let [up, relu, down] = net.ids;
    let recipes = Net::recipes(stream, current())?;
    let [first, last] = recipes.clone();
    let target = stream.device().target();
    let x = TensorSpec { shape: vec![ROWS, WIDTHS[0]], dtype: DTYPE };
    let check = |arguments: ForwardArguments<'_>, part: &str| -> Result<()> {
        let planned = net.pipeline.plan(target, &x, &arguments, Execution::Eager);
        let error = planned.expect_err(part);
        let wants_simt = part.contains("KernelChoice::Simt");
        assert_eq!(
            [error.is_invalid_argument(), error.is_unsupported()],
            [!wants_simt, wants_simt]
        );
        let error = error.to_string();
        assert!(error.contains(part), "{error}");
        let mut h = sevens(stream, &[ROWS, WIDTHS[1]])?;
        let again = h.clone();
        let forward = net.pipeline.forward(stream, Net::x(stream)?, arguments.output(up, &mut h));
        assert_eq!(forward.expect_err(part).to_string(), error);
        assert!(again.to_f32(stream)?.iter().all(|&value| value == SENTINEL), "{part}");
        Ok(())
    };
    let own = || net.arguments(&recipes);

    check(
        own().recipe(down, &first),
        "operation 2 (grouped_linear): the recipe was made for a layer of",
    )?;
    let inputs = Inputs::new().with(names::SPLITS, splits().into());
    let inputs =
        inputs.with(names::X, Net::x(stream)?.into()).with(names::RECIPE, last.clone().into());
    let inferred = Function::infer(&net.layers[0], &inputs.specs(), &Selection::All);
    assert!(inferred.expect_err("another layer's").is_invalid_argument());
    check(own().recipe(relu, &first), "operation 1 (relu): there is no input recipe")?;
    check(
        own().input(down, names::RECIPE, "current"),
        "operation 2 (grouped_linear): recipe must be a recipe, something else was given",
    )?;
    check(
        own().input(down, names::KERNEL, "simt"),
        "operation 2 (grouped_linear): KernelChoice::Simt was asked for with a recipe",
    )?;
    let buffers = RecipeBuffers::new(stream, &last, ROWS + 1)?;
    check(
        own().recipe(down, &last.clone().with_buffers(buffers)),
        "operation 2 (grouped_linear): the recipe's buffers were made for 6 token rows",
    )?;

    // Backward would need the copy that is missing.
    let rowwise = last.clone().with_weights(quantized_weights(stream, &net, None)?)?;
    check(own().recipe(down, &rowwise), "operation 2 (grouped_linear): weights: the columnwise")?;
    let frozen = own().recipe(down, &rowwise).needs(up, Selection::none());
    let frozen = frozen.needs(down, Selection::Only(vec![names::WEIGHTS]));
    net.pipeline.forward(stream, Net::x(stream)?, frozen).map(drop)?;
    let both = quantized_weights(stream, &net, Some(Form::Codes))?;
    let both = own().recipe(down, &last.with_weights(both)?);
    net.pipeline.forward(stream, Net::x(stream)?, both).map(drop)?;

    // The CPU records no graphs, and GPUs record no splits of the host, and no new memory.
    let counts = Splits::device(Tensor::from_slice(stream, &[GROUPS], &[2i32, 0, 3])?)?;
    let on_device = own().splits(up, &counts).splits(down, &counts);
    for (arguments, part) in [(own(), "splits on the host"), (on_device, "tensors would be new")] {
        let captured = net.pipeline.plan(target, &x, &arguments, Execution::Captured);
        let error = captured.expect_err("a recording without buffers");
        assert!(error.is_unsupported(), "{error:?}");
        let part = if target == Target::CPU { "the CPU reference records no graphs" } else { part };
        let part = format!("operation 0 (grouped_linear): {part}");
        assert!(error.to_string().replace("a recipe's ", "").starts_with(&part), "{error}");
    }
    Ok(())
}

/// Two layers of the same sizes, which could share the buffers of one recipe.
fn shared_buffers(stream: &Stream) -> Result<()> {
    let size = WIDTHS[0];
    let config = Config { groups: GROUPS, in_features: size, out_features: size, dtype: DTYPE };
    let layer = |seed| {
        let weights = random(stream, &[GROUPS, size, size], seed)?;
        GroupedLinear::new(stream, config, GroupedTensor::packed(weights)?, None)
    };
    let mut pipeline = Sequential::new();
    let ids = [pipeline.push(layer(1)?), pipeline.push(layer(2)?)];
    let recipe = LayerRecipe::new(stream, config, current())?;
    let buffers = || RecipeBuffers::new(stream, &recipe, ROWS);
    let [one, other] = [buffers()?, buffers()?].map(|own| recipe.clone().with_buffers(own));
    let x = || random(stream, &[ROWS, size], 3);
    let arguments = |arguments: ForwardArguments<'static>, last: &LayerRecipe| {
        let arguments = arguments.splits(ids[0], &splits()).splits(ids[1], &splits());
        arguments.recipe(ids[0], &one).recipe(ids[1], last)
    };
    let forward = |arguments| pipeline.forward(stream, x()?, arguments);
    let want = forward(arguments(ForwardArguments::new(), &other))?.0.to_f32(stream)?;

    let part =
        "operation 1 (grouped_linear): its recipe's buffers hold what an earlier operation keeps";
    let high = one.clone().with_backward(BackwardPrecision::High)?;
    let [none, nobody] = [Selection::none(), Selection::Only(vec![])];
    for refused in [
        arguments(ForwardArguments::new(), &one),
        arguments(ForwardArguments::new(), &one).needs(ids[1], nobody),
        // Which keeps nothing in them itself.
        arguments(ForwardArguments::new(), &high),
    ] {
        let error = forward(refused).map(drop).expect_err("they would be written over");
        assert!(error.is_invalid_argument() && error.to_string().starts_with(part), "{error}");
    }

    // Nothing is kept, or nothing yet when the last layer writes, or nothing in buffers.
    let ways = [
        arguments(ForwardArguments::without_gradients(), &one),
        arguments(ForwardArguments::new(), &one).needs(ids[0], none),
        arguments(ForwardArguments::new(), &high).recipe(ids[0], &high),
    ];
    let dy = || random(stream, &[ROWS, size], 4);
    let mut gradients = Vec::new();
    for (index, way) in ways.into_iter().enumerate() {
        let (y, saved) = forward(way)?;
        assert_eq!(y.to_f32(stream)?, want, "way {index}");
        if index > 0 {
            let none = BackwardArguments::new();
            let grads = pipeline.backward(stream, saved, dy()?, none)?;
            let dw = grads.get(ids[1], names::WEIGHTS).and_then(Gradient::grouped);
            gradients.push(dw.and_then(GroupedTensor::as_packed).expect("dw").to_f32(stream)?);
        }
    }
    let own = arguments(ForwardArguments::new(), &other);
    let (_, saved) = forward(own)?;
    let grads = pipeline.backward(stream, saved, dy()?, BackwardArguments::new())?;
    let dw = grads.get(ids[1], names::WEIGHTS).and_then(Gradient::grouped).expect("dw");
    assert_eq!(gradients[0], dw.as_packed().expect("packed").to_f32(stream)?);
    assert_ne!(gradients[0], gradients[1], "in high precision");
    Ok(())
}

/// Those of the first layer, whose backward comes last.
fn gone(stream: &Stream) -> Result<()> {
    let net = Net::new(stream)?;
    let [_, _, down] = net.ids;
    let [first, last] = Net::recipes(stream, current())?;
    let buffers = |own: &LayerRecipe| RecipeBuffers::new(stream, own, ROWS);
    let recipes =
        [first.clone().with_buffers(buffers(&first)?), last.clone().with_buffers(buffers(&last)?)];
    let (_, saved) = net.pipeline.forward(stream, Net::x(stream)?, net.arguments(&recipes))?;
    let options = ForwardOptions { recipe: Some(&recipes[0]), ..ForwardOptions::default() };
    drop(net.layers[0].forward(stream, &Net::x(stream)?, &splits(), options)?);
    let mut dw = GroupedTensor::packed(sevens(stream, &[GROUPS, WIDTHS[2], WIDTHS[1]])?)?;
    let arguments = BackwardArguments::new().sink(down, names::WEIGHTS, Sink::Overwrite(&mut dw));
    let outcome = net.pipeline.backward(stream, saved, Net::dy(stream)?, arguments);
    let error = outcome.expect_err("the first layer's tokens are gone");
    let part = "operation 0 (grouped_linear): the tokens that forward kept are gone";
    assert!(error.is_invalid_argument() && error.to_string().starts_with(part), "{error}");
    let dw = dw.as_packed().expect("packed").to_f32(stream)?;
    assert!(dw.iter().all(|&value| value == SENTINEL), "was written");
    net.run(stream, &recipes).map(drop)
}

/// A gradient of the first layer over what the second one's recipe remembers: a number for each
/// token over one for each group, of which there are as many.
fn over_memory(stream: &Stream) -> Result<()> {
    let net = Net::new(stream)?;
    let [up, _, down] = net.ids;
    let recipes = Net::recipes(stream, Recipe::Delayed(DelayedScaling::default()))?;
    let scale = recipes[1].delayed().expect("delayed").grad_output.scale().clone();
    let splits = Splits::host(&[1, 0, 2])?;
    let scales = Tensor::from_slice(stream, &[GROUPS], &[0.5f32, 1.0, 2.0])?;
    let arguments = || {
        let arguments = net.arguments(&recipes).splits(up, &splits).splits(down, &splits);
        arguments.input(up, names::BIAS_ROW_SCALES, scales.clone())
    };
    let forward = || {
        let x = random(stream, &[GROUPS, WIDTHS[0]], 5)?;
        net.pipeline.forward(stream, x, arguments())
    };
    let (y, saved) = forward()?;
    let over = |sink: &mut Tensor| {
        let sinks = BackwardArguments::new().sink(up, names::BIAS_ROW_SCALES, Sink::Into(sink));
        net.pipeline.backward(stream, saved, y, sinks).map(drop)
    };
    let error = over(&mut scale.clone()).expect_err("the next step's scales would be lost");
    assert!(error.to_string().contains("a gradient's buffer overlaps"), "{error}");
    assert_eq!(scale.to_f32(stream)?, [1.0; GROUPS]);

    // An operation without gradients has a history, too, and so has one in high precision.
    let long = DelayedScaling { history_len: WIDTHS[1] * WIDTHS[2], ..DelayedScaling::default() };
    let long = Net::recipes(stream, Recipe::Delayed(long))?;
    let frozen = net.arguments(&long).needs(up, Selection::none());
    let [first, last] = long.clone();
    let high = [first.with_backward(BackwardPrecision::High)?, last];
    for (what, arguments) in [("frozen", frozen), ("high", net.arguments(&high))] {
        let history = long[0].delayed().expect("delayed").weight.history().clone();
        let before = history.to_f32(stream)?;
        let (y, saved) = net.pipeline.forward(stream, Net::x(stream)?, arguments)?;
        let noted = history.to_f32(stream)?;
        let mut dw = GroupedTensor::packed(history.reshape(&[GROUPS, WIDTHS[2], WIDTHS[1]])?)?;
        let sinks = BackwardArguments::new().sink(down, names::WEIGHTS, Sink::Overwrite(&mut dw));
        let error = net.pipeline.backward(stream, saved, y, sinks).map(drop).expect_err(what);
        assert!(error.to_string().contains("a gradient's buffer overlaps"), "{what}: {error}");
        assert_eq!(history.to_f32(stream)?, noted, "{what}");
        assert!(what != "frozen" || noted != before, "forward notes magnitudes");
    }

    let (y, saved) = forward()?;
    let sinks = |sink| BackwardArguments::new().sink(up, names::BIAS_ROW_SCALES, Sink::Into(sink));
    net.pipeline
        .backward(stream, saved, y, sinks(&mut Tensor::zeros(stream, &[GROUPS], DType::F32)?))
        .map(drop)
}

/// Of a layer in FP32, whose output has as many elements as the history has numbers.
fn over_history(stream: &Stream) -> Result<()> {
    let [k, n] = [32, 16];
    let layer = |in_features, out_features, seed| -> Result<GroupedLinear> {
        let config = Config { groups: GROUPS, in_features, out_features, dtype: DType::F32 };
        let weights = tensor(stream, &[GROUPS, out_features, in_features], seed)?;
        GroupedLinear::new(stream, config, GroupedTensor::packed(weights)?, None)
    };
    let layers = [layer(k, n, 1)?, layer(n, k, 2)?];
    let scaling = DelayedScaling { history_len: n, ..DelayedScaling::default() };
    let recipe = LayerRecipe::new(stream, layers[1].config(), Recipe::Delayed(scaling))?;
    let history = recipe.delayed().expect("delayed").input.history().clone();
    let mut pipeline = Sequential::new();
    let [up, down] = layers.map(|layer| pipeline.push(layer));
    let splits = Splits::host(&[1, 0, 2])?;
    let arguments = ForwardArguments::new().splits(up, &splits).splits(down, &splits);
    let mut h = history.reshape(&[3, n])?;
    let arguments = arguments.recipe(down, &recipe).output(up, &mut h);
    let error = pipeline.forward(stream, tensor(stream, &[3, k], 3)?, arguments).map(drop);
    let error = error.expect_err("the history would be lost");
    assert!(error.to_string().contains("a buffer for an output overlaps"), "{error}");
    assert!(history.to_f32(stream)?.iter().all(|&noted| noted == 0.0));
    Ok(())
}

fn elsewhere(stream: &Stream) -> Result<()> {
    let Some(other) = crate::other_device::stream(stream) else { return Ok(()) };
    let net = Net::new(stream)?;
    let [up, _, down] = net.ids;
    let recipe = Recipe::Delayed(DelayedScaling::default());
    let [recipes, others] = [Net::recipes(stream, recipe)?, Net::recipes(&other, recipe)?];
    let mut h = sevens(stream, &[ROWS, WIDTHS[1]])?;
    let again = h.clone();
    let arguments = net.arguments(&recipes).recipe(down, &others[1]).output(up, &mut h);
    let error = net.pipeline.forward(stream, Net::x(stream)?, arguments).map(drop);
    let error = error.expect_err("its states are on another device").to_string();
    assert!(error.starts_with("operation 2 (grouped_linear): recipe lies on"), "{error}");
    assert!(again.to_f32(stream)?.iter().all(|&value| value == SENTINEL), "was written");
    Ok(())
}

/// With buffers and without: what they read stays until they have run.
fn delayed(stream: &Stream) -> Result<()> {
    let net = Net::new(stream)?;
    let [up, _, down] = net.ids;
    let plain = Net::recipes(stream, current())?;
    let want = net.by_hand(stream, &plain)?;
    let [first, last] = &plain;
    let buffers = |own: &LayerRecipe| RecipeBuffers::new(stream, own, ROWS);
    let buffered =
        [first.clone().with_buffers(buffers(first)?), last.clone().with_buffers(buffers(last)?)];
    for recipes in [plain.clone(), buffered] {
        let arguments = net.arguments(&recipes);
        let (_, saved) = net.pipeline.forward(stream, Net::x(stream)?, arguments)?;
        let sinks = BackwardArguments::new().sink(down, names::WEIGHTS, Sink::Later).sink(
            up,
            names::WEIGHTS,
            Sink::Later,
        );
        let mut grads = net.pipeline.backward(stream, saved, Net::dy(stream)?, sinks)?;
        for (op, want) in [(down, &want[1]), (up, &want[2])] {
            let Some(Gradient::Pending(mut pending)) = grads.take(op, names::WEIGHTS) else {
                panic!("it was asked for")
            };
            let dw = pending.run(stream, GradSink::New)?;
            assert_eq!(dw.as_packed().expect("packed").to_f32(stream)?, *want);
        }
    }
    Ok(())
}

/// A rule whose stages hand recipes on, and one that does not say so.
fn fused(stream: &Stream) -> Result<()> {
    for passes in [Passes::Both, Passes::Forward, Passes::Backward] {
        for takes_recipes in [true, false] {
            let (mut net, runs) = (Net::new(stream)?, Runs::default());
            net.pipeline.add_rule(Rule { passes, takes_recipes, runs: runs.clone() });
            let recipes = Net::recipes(stream, current())?;
            let want = net.by_hand(stream, &recipes)?;
            assert_eq!(net.run(stream, &recipes)?, want, "{passes:?}");
            let stages = match passes {
                _ if !takes_recipes => [0, 0],
                Passes::Both => [1, 1],
                Passes::Forward => [1, 0],
                Passes::Backward => [0, 1],
            };
            assert_eq!(runs.get(), stages, "{passes:?}");
            let x = TensorSpec { shape: vec![ROWS, WIDTHS[0]], dtype: DTYPE };
            let arguments = net.arguments(&recipes);
            let target = stream.device().target();
            let plan = net.pipeline.plan(target, &x, &arguments, Execution::Eager)?;
            let reasons: Vec<_> = plan.refusals.iter().map(|own| own.reason.as_str()).collect();
            let want = if takes_recipes { &[][..] } else { &["its stages know no recipes"] };
            assert_eq!(reasons, want, "{passes:?}");
        }
    }
    Ok(())
}

fn saved_alone(stream: &Stream) -> Result<()> {
    let net = Net::new(stream)?;
    let (layer, [recipe, _]) = (&net.layers[0], Net::recipes(stream, current())?);
    let inputs = Inputs::new()
        .with(names::X, Net::x(stream)?.into())
        .with(names::SPLITS, splits().into())
        .with(names::RECIPE, recipe.clone().into());
    let mut y = sevens(stream, &[ROWS, WIDTHS[1]])?;
    Function::forward(layer, stream, &inputs, &mut y)?;
    let (want, _) = layer.forward(
        stream,
        &Net::x(stream)?,
        &splits(),
        ForwardOptions { recipe: Some(&recipe), ..ForwardOptions::default() },
    )?;
    assert_eq!(y.to_f32(stream)?, want.to_f32(stream)?);
    let error = layer.save(&inputs, &y, &Selection::All).expect_err("nothing to keep");
    assert!(error.is_invalid_argument(), "{error:?}");
    assert!(error.to_string().contains("Function::forward_and_save"), "{error}");
    Ok(())
}

/// Memory of the second layer that starts one element late.
fn misplaced(stream: &Stream) -> Result<()> {
    let late = |shape: &[usize]| -> Result<Tensor> {
        let count = shape.iter().product::<usize>();
        sevens(stream, &[count + 1])?.narrow(1, count)?.reshape(shape)
    };
    let on_gpu = stream.device().id().kind != DeviceKind::Cpu;
    let aligned = |shape: &[usize]| sevens(stream, shape);
    for (what, part) in [
        ("weights", "the tensor that is quantized or restored"),
        ("tokens", "the tensor that is quantized or restored"),
        ("output", "the output must start at a multiple of 16 bytes"),
    ] {
        let place = |name, shape: &[usize]| if name == what { late(shape) } else { aligned(shape) };
        let weights = |name, i: usize| {
            GroupedTensor::packed(place(name, &[GROUPS, WIDTHS[i + 1], WIDTHS[i]])?)
        };
        let mut pipeline = Sequential::new();
        let ids = [
            pipeline.push(GroupedLinear::new(stream, config(0), weights("", 0)?, None)?),
            pipeline.push(Relu),
            pipeline.push(GroupedLinear::new(stream, config(1), weights("weights", 1)?, None)?),
        ];
        let [first, last] = Net::recipes(stream, current())?;
        let mut h = place("", &[ROWS, WIDTHS[1]])?;
        let mut active = place("tokens", &[ROWS, WIDTHS[1]])?;
        let mut y = place("output", &[ROWS, WIDTHS[2]])?;
        let again = h.clone();
        let arguments = ForwardArguments::new()
            .splits(ids[0], &splits())
            .splits(ids[2], &splits())
            .recipe(ids[0], &first)
            .recipe(ids[2], &last)
            .output(ids[0], &mut h)
            .output(ids[1], &mut active)
            .output(ids[2], &mut y);
        match pipeline.forward(stream, Net::x(stream)?, arguments) {
            Ok(_) => assert!(!on_gpu, "{what}: was not refused"),
            Err(error) => {
                assert!(on_gpu && error.to_string().contains(part), "{what}: {error}");
                let start = "operation 2 (grouped_linear): ";
                assert!(error.to_string().starts_with(start), "{what}: {error}");
                let untouched = again.to_f32(stream)?.iter().all(|&value| value == SENTINEL);
                assert!(untouched, "{what}: the first layer ran");
            }
        }
    }
    Ok(())
}
