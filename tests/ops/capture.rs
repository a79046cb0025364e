//! A pipeline recorded in a graph, on the emulated GPU.

use grouped_linear::ops::{
    BackwardArguments, ForwardArguments, OpId, Selection, Sequential, Sink, names,
};
use grouped_linear::recipe::{BlockScaling, CurrentScaling, DelayedScaling, Mxfp8Scaling};
use grouped_linear::{
    Arch, Config, DType, Device, Error, GroupedLinear, GroupedTensor, LayerRecipe, Recipe,
    RecipeBuffers, Result, Splits, Stream, Tensor,
};
use libtest_mimic::Trial;

use crate::{GROUPS, ROWS, tensor};

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name: &str, test: fn(&Stream) -> Result<()>| {
        Trial::test(format!("emulated-sm_90a: {name}"), move || {
            Ok(test(&Device::emulated(Arch::Sm90a)?.stream()?)?)
        })
    };
    vec![
        trial("a recorded pipeline is replayed with other splits", |stream| replayed(stream, None)),
        trial("a recorded pipeline in low precision is replayed with other splits", |stream| {
            let recipes = [
                Recipe::Current(CurrentScaling::default()),
                Recipe::Delayed(DelayedScaling::default()),
                Recipe::Block(BlockScaling::default()),
                Recipe::Mxfp8(Mxfp8Scaling::default()),
            ];
            recipes.into_iter().try_for_each(|recipe| replayed(stream, Some(recipe)))
        }),
        trial("a recording refuses recipes without buffers", without_buffers),
        trial("a recording refuses what has no buffer", missing_buffers),
        trial("a recording refuses what cannot be recorded", not_recorded),
    ]
}

const DTYPE: DType = DType::Bf16;
/// What no buffer holds that has been written.
const SENTINEL: f32 = 7.0;
const WIDTHS: [usize; 3] = [32, 64, 32];

/// Two layers, their arguments, and buffers for all that they give.
struct Step {
    pipeline: Sequential,
    ids: [OpId; 2],
    recipes: Vec<LayerRecipe>,
    counts: Tensor,
    splits: Splits,
    x: Tensor,
    dy: Tensor,
    outputs: [Tensor; 2],
    dx: [Tensor; 2],
    dw: [GroupedTensor; 2],
}

impl Step {
    fn new(stream: &Stream, recipe: Option<Recipe>) -> Result<Self> {
        let random = |shape: &[usize], seed| {
            let values = tensor(stream, shape, seed)?.to_f32(stream)?;
            Tensor::from_f32(stream, shape, DTYPE, &values)
        };
        let zeros = |shape: &[usize]| Tensor::zeros(stream, shape, DTYPE);
        let dw = |i: usize| GroupedTensor::packed(zeros(&[GROUPS, WIDTHS[i + 1], WIDTHS[i]])?);
        let (mut pipeline, mut recipes) = (Sequential::new(), Vec::new());
        let mut push = |i: usize| {
            let (in_features, out_features) = (WIDTHS[i], WIDTHS[i + 1]);
            let config = Config { groups: GROUPS, in_features, out_features, dtype: DTYPE };
            let weights = random(&[GROUPS, out_features, in_features], i as u64)?;
            let weights = GroupedTensor::packed(weights)?;
            if let Some(recipe) = recipe {
                let recipe = LayerRecipe::new(stream, config, recipe)?;
                let buffers = RecipeBuffers::new(stream, &recipe, ROWS)?;
                recipes.push(recipe.with_buffers(buffers));
            }
            Ok::<_, Error>(pipeline.push(GroupedLinear::new(stream, config, weights, None)?))
        };
        let ids = [push(0)?, push(1)?];
        let counts = Tensor::from_slice(stream, &[GROUPS], &[1i64, 0, 3])?;
        Ok(Self {
            pipeline,
            ids,
            recipes,
            splits: Splits::device(counts.clone())?,
            counts,
            x: random(&[ROWS, WIDTHS[0]], 8)?,
            dy: random(&[ROWS, WIDTHS[2]], 9)?,
            outputs: [zeros(&[ROWS, WIDTHS[1]])?, zeros(&[ROWS, WIDTHS[2]])?],
            dx: [zeros(&[ROWS, WIDTHS[0]])?, zeros(&[ROWS, WIDTHS[1]])?],
            dw: [dw(0)?, dw(1)?],
        })
    }

    fn arguments<'a>(&self) -> ForwardArguments<'a> {
        let [first, second] = self.ids;
        let arguments = ForwardArguments::new();
        let arguments = arguments.splits(first, &self.splits).splits(second, &self.splits);
        let recipes = self.ids.into_iter().zip(&self.recipes);
        recipes.fold(arguments, |arguments, (op, recipe)| arguments.recipe(op, recipe))
    }

    /// Forward and backward, all in the buffers.
    fn run(&self, stream: &Stream) -> Result<()> {
        let [first, second] = self.ids;
        let [mut h, mut y] = self.outputs.clone();
        let ([mut dx, mut dh], [mut dw1, mut dw2]) = (self.dx.clone(), self.dw.clone());
        let forward = self.arguments().output(first, &mut h).output(second, &mut y);
        let (_, saved) = self.pipeline.forward(stream, self.x.clone(), forward)?;
        let backward = BackwardArguments::new()
            .sink(second, names::X, Sink::Into(&mut dh))
            .sink(second, names::WEIGHTS, Sink::Overwrite(&mut dw2))
            .sink(first, names::X, Sink::Into(&mut dx))
            .sink(first, names::WEIGHTS, Sink::Overwrite(&mut dw1));
        self.pipeline.backward(stream, saved, self.dy.clone(), backward).map(drop)
    }

    /// Other splits, and buffers that hold nothing of use.
    fn set(&mut self, stream: &Stream, counts: [i64; GROUPS]) -> Result<()> {
        self.counts.write(stream, &counts)?;
        let Self { outputs, dx, dw, .. } = self;
        let dw = dw.iter().map(|dw| dw.as_packed().expect("packed"));
        for tensor in outputs.iter().chain(dx.iter()).chain(dw) {
            tensor.clone().write_f32(stream, &vec![SENTINEL; tensor.len()])?;
        }
        Ok(())
    }

    fn results(&self, stream: &Stream) -> Result<Vec<Vec<f32>>> {
        let dw = self.dw.iter().map(|dw| dw.as_packed().expect("packed"));
        let all = self.outputs.iter().chain(&self.dx).chain(dw);
        all.map(|tensor| tensor.to_f32(stream)).collect()
    }
}

fn replayed(stream: &Stream, recipe: Option<Recipe>) -> Result<()> {
    let mut step = Step::new(stream, recipe)?;
    let others = [[0, 4, 1], [2, 2, 0]];
    let mut want = Vec::new();
    for counts in others {
        step.set(stream, counts)?;
        step.run(stream)?;
        want.push(step.results(stream)?);
    }
    assert_ne!(want[0], want[1]);
    assert!(want[0].iter().all(|values| values.iter().any(|&value| value != SENTINEL)));

    step.set(stream, [1, 0, 3])?;
    let graph = stream.capture(|stream| step.run(stream))?;
    assert!(
        step.results(stream)?.iter().flatten().all(|&value| value == SENTINEL),
        "only recorded"
    );
    assert_eq!(step.pipeline.plan_count(), 2, "one for the graph");
    for (counts, want) in others.into_iter().zip(want) {
        step.set(stream, counts)?;
        graph.launch(stream)?;
        assert_eq!(step.results(stream)?, want, "{counts:?}");
    }
    Ok(())
}

/// The capture ends with this error; nothing has been written.
fn refusal(
    stream: &Stream,
    step: &Step,
    work: impl FnOnce(&Stream) -> Result<()>,
) -> Result<Error> {
    let error = stream.capture(work).expect_err("a recording without a buffer");
    assert!(error.is_unsupported(), "{error:?}");
    assert!(step.results(stream)?.iter().flatten().all(|&value| value == SENTINEL));
    Ok(error)
}

fn missing_buffers(stream: &Stream) -> Result<()> {
    let mut step = Step::new(stream, None)?;
    step.run(stream)?;
    step.set(stream, [1, 0, 3])?;
    let [first, second] = step.ids;

    for (missing, given) in [(0, second), (1, first)] {
        let error = refusal(stream, &step, |stream| {
            let mut output = step.outputs[1 - missing].clone();
            let arguments = step.arguments().output(given, &mut output);
            step.pipeline.forward(stream, step.x.clone(), arguments).map(drop)
        })?;
        let part = format!("operation {missing} (grouped_linear): nothing can be allocated");
        assert!(error.to_string().contains(&part), "{error}");
        assert!(error.to_string().contains("ForwardArguments::output"), "{error}");
    }

    let error = refusal(stream, &step, |stream| {
        let [mut h, mut y] = step.outputs.clone();
        let ([mut dx, mut dh], [_, mut dw2]) = (step.dx.clone(), step.dw.clone());
        let forward = step.arguments().output(first, &mut h).output(second, &mut y);
        let (_, saved) = step.pipeline.forward(stream, step.x.clone(), forward)?;
        let backward = BackwardArguments::new()
            .sink(second, names::X, Sink::Into(&mut dh))
            .sink(second, names::WEIGHTS, Sink::Overwrite(&mut dw2))
            .sink(first, names::X, Sink::Into(&mut dx));
        step.pipeline.backward(stream, saved, step.dy.clone(), backward).map(drop)
    })?;
    let part = "operation 0 (grouped_linear): nothing can be allocated while a graph is recorded; \
                give the gradient of weights a buffer";
    assert!(error.to_string().contains(part), "{error}");
    // The stream works on.
    step.run(stream)?;
    stream.synchronize()
}

/// The second layer's recipe would make new tensors.
fn without_buffers(stream: &Stream) -> Result<()> {
    let recipe = Recipe::Current(CurrentScaling::default());
    let mut step = Step::new(stream, Some(recipe))?;
    step.run(stream)?;
    step.set(stream, [1, 0, 3])?;
    let (in_features, out_features) = (WIDTHS[1], WIDTHS[2]);
    let config = Config { groups: GROUPS, in_features, out_features, dtype: DTYPE };
    let own = LayerRecipe::new(stream, config, recipe)?;
    let error = refusal(stream, &step, |stream| {
        let [mut h, mut y] = step.outputs.clone();
        let [first, second] = step.ids;
        let arguments = step.arguments().recipe(second, &own);
        let arguments = arguments.output(first, &mut h).output(second, &mut y);
        step.pipeline.forward(stream, step.x.clone(), arguments).map(drop)
    })?;
    let part = "operation 1 (grouped_linear): a recipe's tensors would be new";
    assert!(error.to_string().contains(part), "{error}");
    Ok(())
}

fn not_recorded(stream: &Stream) -> Result<()> {
    let mut step = Step::new(stream, None)?;
    step.run(stream)?;
    step.set(stream, [1, 0, 3])?;
    let on_host = Splits::host(&[1, 0, 3])?;
    let error = refusal(stream, &step, |stream| {
        let arguments = step.arguments().splits(step.ids[1], &on_host);
        step.pipeline.forward(stream, step.x.clone(), arguments).map(drop)
    })?;
    assert!(error.to_string().contains("operation 1 (grouped_linear): splits on the host"));

    // An operation of the test's own says so, too, before anything is recorded.
    let mut with_relu = Sequential::new();
    let relu = with_relu.push(crate::relu::Relu);
    let error = refusal(stream, &step, |stream| {
        let arguments = ForwardArguments::new().needs(relu, Selection::none());
        with_relu.forward(stream, step.x.clone(), arguments).map(drop)
    })?;
    assert_eq!(error.to_string(), "operation 0 (relu): relu is computed on the host");
    Ok(())
}
