//! Properties of layers that follow a recipe, whichever: recipe, its choices, precision of
//! backward, types, sizes, splits and bias are drawn together, as no table has them.

use grouped_linear::conformance::{Generator, engines_of_every_architecture};
use grouped_linear::recipe::{
    Accumulation, AmaxChoice, BlockScaling, BlockShape, Blocks, CurrentScaling, DelayedScaling,
    ErrorMeasure, FourOverSix, Fp8Types, Mxfp8Scaling, Nvfp4Scaling, Recipe, ScaleBound, ScaleRule,
    Scope, Sums, Transform,
};
use grouped_linear::{
    BackwardOptions, BackwardPrecision, BiasUse, Config, DType, Device, ForwardOptions, GradSink,
    GroupedLinear, GroupedTensor, LayerRecipe, ParamLayout, QuantizeWeights, RecipeBuffers, Result,
    SavePolicy, SelectedGrads, Splits, Stream, Tensor, WeightCache, Wgrad,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// A layer and what it is given.
#[derive(Clone, Debug)]
struct Problem {
    recipe: Recipe,
    backward: BackwardPrecision,
    save: SavePolicy,
    dtype: DType,
    layout: ParamLayout,
    splits: Vec<usize>,
    tail: usize,
    /// In the smallest blocks that the recipe has.
    features: (usize, usize),
    scaled_bias: bool,
    /// dW is added to FP32 instead of stored in a new tensor.
    accumulates: bool,
    seed: u64,
}

fn two<T: Clone + std::fmt::Debug>(first: T, second: T) -> impl Strategy<Value = T> + Clone {
    prop_oneof![Just(first), Just(second)]
}

fn types() -> impl Strategy<Value = Fp8Types> {
    two(Fp8Types::E4m3, Fp8Types::Hybrid)
}

fn rules() -> impl Strategy<Value = ScaleRule> {
    (any::<bool>(), two(0.0, 0.25))
        .prop_map(|(power_of_two, epsilon)| ScaleRule { power_of_two, epsilon })
}

fn blocks() -> impl Strategy<Value = Blocks> {
    two(Blocks::Vector, Blocks::Square)
}

fn four_over_six() -> impl Strategy<Value = Option<FourOverSix>> {
    let bound = two(ScaleBound::Full, ScaleBound::Reduced);
    let error = two(ErrorMeasure::Squared, ErrorMeasure::Absolute);
    let chosen = (error, bound).prop_map(|(error, bound)| Some(FourOverSix { error, bound }));
    prop_oneof![Just(None), chosen]
}

fn sums() -> impl Strategy<Value = Sums> {
    let own = || two(Accumulation::Fast, Accumulation::Promoted);
    (own(), own(), own()).prop_map(|(fprop, dgrad, wgrad)| Sums { fprop, dgrad, wgrad })
}

fn fp8_recipes() -> impl Strategy<Value = Recipe> {
    let current = (types(), rules(), sums())
        .prop_map(|(types, scale, sums)| Recipe::Current(CurrentScaling { types, scale, sums }));
    let choice = two(AmaxChoice::Max, AmaxChoice::MostRecent);
    let delayed = (types(), 1usize..4, choice, -2i32..3, sums()).prop_map(
        |(types, history_len, choice, margin, sums)| {
            Recipe::Delayed(DelayedScaling { types, history_len, choice, margin, sums })
        },
    );
    let block = (types(), rules(), blocks(), blocks(), blocks()).prop_map(
        |(types, scale, input, weight, grad_output)| {
            Recipe::Block(BlockScaling { types, scale, input, weight, grad_output })
        },
    );
    prop_oneof![2 => current, 2 => delayed, 3 => block]
}

fn micro_recipes() -> impl Strategy<Value = Recipe> {
    let shape = || two(BlockShape::Line, BlockShape::Square);
    let mxfp8 = (types(), shape())
        .prop_map(|(types, weight)| Recipe::Mxfp8(Mxfp8Scaling { types, weight }));
    let transform = two(Transform::None, Transform::Hadamard);
    let scope = prop_oneof![3 => Just(Scope::Group), 1 => Just(Scope::Row)];
    let choices = (shape(), transform, any::<bool>(), any::<u64>(), scope);
    let nvfp4 = (choices, four_over_six(), four_over_six()).prop_map(
        |(
            (weight, transform, stochastic_gradients, seed, input),
            input_four_over_six,
            weight_four_over_six,
        )| {
            Recipe::Nvfp4(Nvfp4Scaling {
                weight,
                transform,
                stochastic_gradients,
                seed,
                input,
                input_four_over_six,
                weight_four_over_six,
            })
        },
    );
    prop_oneof![1 => mxfp8, 2 => nvfp4]
}

/// What a layer accepts; what it refuses has tests of its own (`tests/errors`).
fn problems() -> impl Strategy<Value = Problem> {
    let recipe = prop_oneof![fp8_recipes(), micro_recipes()]
        .prop_filter("the recipe is none", |recipe| recipe.check().is_ok());
    let backward = prop_oneof![
        3 => Just(BackwardPrecision::Recipe),
        1 => Just(BackwardPrecision::High),
        1 => Just(BackwardPrecision::Dequantized),
    ];
    let save = prop_oneof![3 => Just(SavePolicy::Quantized), 1 => Just(SavePolicy::Original)];
    let dtype = prop_oneof![3 => Just(DType::Bf16), 1 => Just(DType::F16), 1 => Just(DType::F32)];
    let layout = two(ParamLayout::Packed, ParamLayout::Discrete);
    let split = prop_oneof![2 => Just(0usize), 5 => 1usize..40, 2 => 120usize..140];
    let splits = prop::collection::vec(split, 1..4);
    let features = (1usize..11, 1usize..11);
    let how = (backward, save, dtype, layout, any::<bool>(), any::<bool>());
    (recipe, how, splits, 0usize..4, features, any::<u64>())
        .prop_map(|(recipe, how, splits, tail, features, seed)| {
            let (backward, save, dtype, layout, scaled_bias, accumulates) = how;
            Problem {
                recipe,
                backward,
                save,
                dtype,
                layout,
                splits,
                tail,
                features,
                scaled_bias,
                accumulates,
                seed,
            }
        })
        .prop_filter("the layer does not go so", |problem| {
            let stream = Device::cpu().stream().expect("the CPU has streams");
            problem.layer_recipe(&stream).is_ok()
        })
}

impl Problem {
    fn config(&self) -> Config {
        let smallest = if matches!(self.recipe, Recipe::Mxfp8(_)) { 32 } else { 16 };
        let (n, k) = self.features;
        Config {
            groups: self.splits.len(),
            in_features: k * smallest,
            out_features: n * smallest,
            dtype: self.dtype,
        }
    }

    fn live(&self) -> usize {
        self.splits.iter().sum()
    }

    fn layer_recipe(&self, stream: &Stream) -> Result<LayerRecipe> {
        LayerRecipe::new(stream, self.config(), self.recipe)?
            .with_save(self.save)?
            .with_backward(self.backward)
    }

    /// Whether backward rounds with numbers that depend on where a row lies.
    fn is_random(&self) -> bool {
        matches!(self.recipe, Recipe::Nvfp4(nvfp4) if nvfp4.stochastic_gradients)
    }

    /// The problem of one expert alone, with the same numbers.
    fn alone(&self, data: &Data, group: usize) -> (Self, Data) {
        let Config { in_features: k, out_features: n, .. } = self.config();
        let start: usize = self.splits[..group].iter().sum();
        let rows = start..start + self.splits[group];
        let part =
            |values: &[f32], width: usize| values[rows.start * width..rows.end * width].to_vec();
        let expert = |values: &[f32], size: usize| values[group * size..][..size].to_vec();
        let data = Data {
            x: part(&data.x, k),
            dy: part(&data.dy, n),
            row_scales: part(&data.row_scales, 1),
            weights: expert(&data.weights, n * k),
            bias: expert(&data.bias, n),
        };
        (Self { splits: vec![rows.len()], tail: 0, ..self.clone() }, data)
    }
}

/// Numbers for a problem, live rows alone.
struct Data {
    x: Vec<f32>,
    dy: Vec<f32>,
    row_scales: Vec<f32>,
    weights: Vec<f32>,
    bias: Vec<f32>,
}

impl Data {
    /// Rows differ in magnitude; some numbers, and some whole rows, are zero.
    fn new(problem: &Problem) -> Self {
        let Config { groups, in_features: k, out_features: n, dtype } = problem.config();
        let mut generator = Generator::new(problem.seed);
        // FP16 overflows soon.
        let reach = if dtype == DType::F16 { 3 } else { 17 };
        let mut rows = |rows: usize, width: usize| -> Vec<f32> {
            let mut values = Vec::with_capacity(rows * width);
            for _ in 0..rows {
                let exponent = (generator.next() % reach) as i32 - (reach / 2) as i32;
                let factor =
                    if generator.next().is_multiple_of(16) { 0.0 } else { 2f32.powi(exponent) };
                values.extend((0..width).map(|_| match generator.next() % 8 {
                    0 => 0.0,
                    _ => generator.value() * factor,
                }));
            }
            values
        };
        let live = problem.live();
        Self {
            x: rows(live, k),
            dy: rows(live, n),
            row_scales: rows(live, 1),
            weights: rows(groups * n, k),
            bias: rows(groups, n),
        }
    }
}

/// Results of a layer, with the length of the rows in which they are compared; live rows only.
#[derive(Debug, PartialEq)]
struct Results([(&'static str, usize, Vec<f32>); 5]);

/// The same problems at every run, unless `PROPTEST_RNG_SEED` draws others and `PROPTEST_CASES`
/// more.
fn settings() -> ProptestConfig {
    let usual = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    match usual.rng_seed {
        RngSeed::Random => ProptestConfig { cases: 16, rng_seed: RngSeed::Fixed(1), ..usual },
        RngSeed::Fixed(_) => usual,
    }
}

/// What rows of nobody hold.
const NOBODYS: f32 = f32::NAN;

/// Ways of asking for the same.
#[derive(Clone, Copy, Debug, Default)]
struct Ways {
    /// What is quantized lies in memory of the recipe's own.
    buffers: bool,
    /// Weights are quantized before forward.
    cached_weights: bool,
    /// The gradient of the weights is computed after backward.
    delayed_wgrad: bool,
}

fn ways() -> impl Strategy<Value = Ways> {
    let all = (any::<bool>(), any::<bool>(), any::<bool>());
    all.prop_filter_map("there is one already", |(buffers, cached_weights, delayed_wgrad)| {
        let ways = Ways { buffers, cached_weights, delayed_wgrad };
        (buffers || cached_weights || delayed_wgrad).then_some(ways)
    })
}

/// Two steps, of which the second counts: its delayed scales and its random numbers follow from the
/// first.
fn run(stream: &Stream, problem: &Problem, data: &Data, ways: Ways) -> Result<Results> {
    let config = problem.config();
    let Config { groups, in_features: k, out_features: n, dtype } = config;
    let (live, rows) = (problem.live(), problem.live() + problem.tail);
    let padded = |values: &[f32], width: usize, dtype: DType| {
        let mut values = values.to_vec();
        values.resize(rows * width, NOBODYS);
        let shape: &[usize] = if width == 1 { &[rows] } else { &[rows, width] };
        Tensor::from_f32(stream, shape, dtype, &values)
    };
    let parameters = |shape: &[usize], values: &[f32], dtype| {
        GroupedTensor::from_f32(stream, problem.layout, groups, shape, dtype, values)
    };
    let weights = parameters(&[n, k], &data.weights, dtype)?;
    let bias = parameters(&[n], &data.bias, dtype)?;
    let layer = GroupedLinear::new(stream, config, weights, Some(bias))?;
    let (x, dy) = (padded(&data.x, k, dtype)?, padded(&data.dy, n, dtype)?);
    let row_scales = padded(&data.row_scales, 1, DType::F32)?;
    let splits = Splits::host(&problem.splits)?;
    let mut recipe = problem.layer_recipe(stream)?;
    let mut cache = None;
    if ways.cached_weights {
        let prepare = QuantizeWeights { recipe: recipe.clone(), master: dtype };
        let made = cache.insert(WeightCache::new(stream, prepare)?);
        recipe = recipe.with_weights(made.prepared().clone())?;
    }
    if ways.buffers {
        let buffers = RecipeBuffers::new(stream, &recipe, rows)?;
        recipe = recipe.with_buffers(buffers);
    }

    let mut results = None;
    for step in 0..2 {
        if let Some(cache) = &mut cache {
            cache.refresh(stream, layer.weights(), step)?;
        }
        let bias = match problem.scaled_bias {
            true => BiasUse::RowScaled(&row_scales),
            false => BiasUse::Add,
        };
        let options = ForwardOptions { bias, recipe: Some(&recipe), ..ForwardOptions::default() };
        let (y, saved) = layer.forward(stream, &x, &splits, options)?;
        let mut sum = GroupedTensor::zeros(stream, problem.layout, groups, &[n, k], DType::F32)?;
        let sink = match problem.accumulates {
            true => GradSink::Accumulate(&mut sum),
            false => GradSink::New,
        };
        let options = |dw| BackwardOptions { dw, ..BackwardOptions::default() };
        let grads = match ways.delayed_wgrad {
            false => layer.backward_with(stream, saved, &dy, options(Wgrad::Now(sink)))?,
            true => {
                let mut grads = layer.backward_with(stream, saved, &dy, options(Wgrad::Delayed))?;
                let mut pending = grads.pending.take().expect("it was asked for");
                SelectedGrads { dw: Some(pending.run(stream, sink)?), ..grads }
            }
        };
        recipe.update(stream)?;
        results = Some((y, grads, sum));
    }
    let (y, SelectedGrads { dx, dw, db, dscales, .. }, sum) = results.expect("two steps");
    let (dx, db) = (dx.expect("dx"), db.expect("db"));
    let dw = if problem.accumulates { sum } else { dw.expect("dw") };
    let rows_of = |tensor: &Tensor, width: usize| -> Result<Vec<f32>> {
        Ok(tensor.to_f32(stream)?[..live * width].to_vec())
    };
    let grouped = |tensor: &GroupedTensor| -> Result<Vec<f32>> {
        let tensors = (0..groups).map(|group| tensor.group(group)?.to_f32(stream));
        Ok(tensors.collect::<Result<Vec<_>>>()?.concat())
    };
    let dscales = dscales.map(|dscales| rows_of(&dscales, 1)).transpose()?.unwrap_or_default();
    Ok(Results([
        ("y", n, rows_of(&y, n)?),
        ("dx", k, rows_of(&dx, k)?),
        ("dw", k, grouped(&dw)?),
        ("db", n, grouped(&db)?),
        ("dscales", 1, dscales),
    ]))
}

/// Frobenius norm.
fn norm(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|value| value * value).sum::<f64>().sqrt()
}

/// For each row of the results how large the terms of its sums are together: what they cancel to
/// may be much smaller, and the errors of the sums are not.
fn terms(problem: &Problem, data: &Data) -> [Vec<f64>; 5] {
    let Config { in_features: k, out_features: n, .. } = problem.config();
    let of = |values: &[f32]| norm(values.iter().map(|&value| f64::from(value)));
    let [mut y, mut dx, mut dw, mut db] = [const { Vec::new() }; 4];
    let mut start = 0;
    for (group, rows) in problem.splits.iter().enumerate() {
        let (x, dy) = (&data.x[start * k..][..rows * k], &data.dy[start * n..][..rows * n]);
        let w = of(&data.weights[group * n * k..][..n * k]);
        y.extend(x.chunks(k).map(|x| of(x) * w));
        dx.extend(dy.chunks(n).map(|dy| of(dy) * w));
        dw.extend(vec![of(x) * of(dy); n]);
        db.push(of(dy) * (*rows as f64).sqrt());
        start += rows;
    }
    let dscales = vec![of(&data.dy) * of(&data.bias)];
    [y, dx, dw, db, dscales]
}

/// Compares rows by the norm of the difference. Quantizers give the same bytes everywhere, so two
/// engines differ by the order and the precision of sums, and by where these are rounded.
fn near(
    problem: &Problem,
    data: &Data,
    got: &Results,
    want: &Results,
) -> Result<(), TestCaseError> {
    let terms = terms(problem, data);
    for (((name, width, got), (_, _, want)), terms) in got.0.iter().zip(&want.0).zip(terms) {
        prop_assert_eq!(got.len(), want.len());
        let stored = match (problem.dtype, *name) {
            (_, "dscales") => DType::F32,
            (_, "dw") if problem.accumulates => DType::F32,
            (dtype, _) => dtype,
        };
        // A sum near a tie may be rounded to either neighbour, and be most of its row.
        let limit = 1e-3 + if stored == DType::Bf16 { 2f64.powi(-7) } else { 2f64.powi(-10) };
        // A single number may be what is left of much larger ones.
        let width = if *width == 1 { want.len().max(1) } else { *width };
        for (row, (got, want)) in got.chunks(width).zip(want.chunks(width)).enumerate() {
            let difference = norm(got.iter().zip(want).map(|(a, b)| f64::from(a - b)));
            let size = norm(want.iter().map(|&value| f64::from(value)));
            prop_assert!(
                difference <= limit * size + 1e-6 * terms[row],
                "{name}, row {row}: {difference:e} of {size:e}, terms {:e}",
                terms[row]
            );
        }
    }
    Ok(())
}

fn same_bits(engine: &str, got: &Results, want: &Results) -> Result<(), TestCaseError> {
    for ((name, _, got), (_, _, want)) in got.0.iter().zip(&want.0) {
        let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(got), bits(want), "{}: {}", engine, name);
    }
    Ok(())
}

/// The results on every engine that is here, by turns of the emulated scheduler's seeds.
fn on_engines(problem: &Problem, data: &Data, ways: Ways) -> Vec<(&'static str, Results)> {
    let mut all = Vec::new();
    for engine in engines_of_every_architecture() {
        let device = match engine.device_for(problem.seed as usize) {
            Err(_) if engine.name == "cuda" => continue,
            device => device.expect(engine.name),
        };
        let stream = device.stream().expect(engine.name);
        all.push((engine.name, run(&stream, problem, data, ways).expect(engine.name)));
        stream.synchronize().expect(engine.name);
    }
    all
}

proptest! {
    #![proptest_config(settings())]

    /// Every engine computes the same but for the order of sums.
    #[test]
    fn engines_agree(problem in problems()) {
        let data = Data::new(&problem);
        let all = on_engines(&problem, &data, Ways::default());
        let ((first, want), others) = all.split_first().expect("the CPU is always there");
        prop_assert_eq!(*first, "cpu");
        for (name, got) in others {
            let outcome = near(&problem, &data, got, want);
            outcome.map_err(|error| TestCaseError::fail(format!("{name}: {error}")))?;
        }
    }

    /// An expert does not notice its neighbours, nor rows of nobody, to the bit.
    #[test]
    fn an_expert_alone_gives_the_same_bits(problem in problems()) {
        // Random numbers depend on where a row lies.
        prop_assume!(!problem.is_random());
        let data = Data::new(&problem);
        let together = on_engines(&problem, &data, Ways::default());
        let mut parts: Vec<Results> = Vec::new();
        for group in 0..problem.splits.len() {
            let (problem, data) = problem.alone(&data, group);
            let alone = on_engines(&problem, &data, Ways::default());
            for (index, (_, results)) in alone.into_iter().enumerate() {
                match parts.get_mut(index) {
                    None => parts.push(results),
                    Some(before) => {
                        for (before, own) in before.0.iter_mut().zip(results.0) {
                            before.2.extend(own.2);
                        }
                    }
                }
            }
        }
        for ((name, together), parts) in together.iter().zip(&parts) {
            same_bits(name, together, parts)?;
        }
    }

    /// Where things lie and when they are computed changes no bit.
    #[test]
    fn other_ways_give_the_same_bits(problem in problems(), ways in ways()) {
        let data = Data::new(&problem);
        let plain = on_engines(&problem, &data, Ways::default());
        for ((name, plain), (_, other)) in plain.iter().zip(on_engines(&problem, &data, ways)) {
            same_bits(name, &other, plain)?;
        }
    }
}
