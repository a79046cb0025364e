//! Layers that follow a recipe: how near they come to the plain layer, and which ways of asking for
//! the same give the same bits. Rows that belong to no group hold NaN throughout.

use grouped_linear::conformance::Generator;
use grouped_linear::recipe::{
    Accumulation, BlockScaling, BlockShape, Blocks, CurrentScaling, DelayedScaling, ErrorMeasure,
    Format, FourOverSix, Fp8Types, Mxfp8Scaling, Nvfp4Scaling, Recipe, ScaleBound, ScaleRule,
    Scope, Sums, Transform,
};
use grouped_linear::{
    BackwardOptions, BackwardPrecision, BiasUse, Config, DType, DelayedState, DelayedStates,
    Direction, Form, ForwardOptions, GradSink, GroupedLinear, GroupedTensor, KernelChoice,
    LayerRecipe, Needs, ParamLayout, QuantizeWeights, RandomState, Refresh, Result, RowSink,
    SavePolicy, Saved, SavedBytes, SelectedGrads, Splits, Stream, Tensor, WeightCache, Wgrad,
};

use crate::engines::Test;
use crate::exact::{read, same};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("recipes: as near to the plain layer as FP8 is", |e, s| near(s).expect(e)),
    ("recipes: what is saved does not change the bits", |e, s| saved_as(s).expect(e)),
    ("recipes: backward in high precision is the plain one", |e, s| high(s).expect(e)),
    ("recipes: weights quantized beforehand", |e, s| cached_weights(s).expect(e)),
    ("recipes: delay and accumulation of dw", |e, s| later_and_added(s).expect(e)),
    ("recipes: rows without a group keep what they held", |e, s| tails(s).expect(e)),
    ("recipes: what is kept is as large as inferred", |e, s| kept(s).expect(e)),
    ("recipes: delayed scales are those of the last step", |e, s| golden(s).expect(e)),
    ("recipes: delayed scaling goes on from values", |e, s| restored(s).expect(e)),
    ("recipes: a reduced amax makes the next scale", |e, s| reduced(s).expect(e)),
    ("recipes: tokens with a scale for each row", |e, s| scaled_rows(s).expect(e)),
    ("recipes: random rounding repeats from its state", |e, s| random(s).expect(e)),
];

/// Those that have products of their own on Blackwell; the rest has the same code on Hopper.
pub(crate) const ON_BLACKWELL: &[(&str, Test)] = &[
    ("recipes: as near to the plain layer as FP8 is", |e, s| near(s).expect(e)),
    ("recipes: weights quantized beforehand", |e, s| cached_weights(s).expect(e)),
    ("recipes: rows without a group keep what they held", |e, s| tails(s).expect(e)),
    ("recipes: what is kept is as large as inferred", |e, s| kept(s).expect(e)),
    ("recipes: tokens with a scale for each row", |e, s| scaled_rows(s).expect(e)),
    ("recipes: random rounding repeats from its state", |e, s| random(s).expect(e)),
];

/// Neither is a multiple of 128.
pub(crate) const K: usize = 160;
pub(crate) const N: usize = 96;
/// More rows than a block has, none, and fewer.
const SPLITS: [usize; 3] = [130, 0, 41];
pub(crate) const LIVE: usize = 171;
const TAIL: usize = 5;
pub(crate) const ROWS: usize = LIVE + TAIL;
pub(crate) const GROUPS: usize = SPLITS.len();

/// None is the default.
const OTHER_SUMS: Sums =
    Sums { fprop: Accumulation::Promoted, dgrad: Accumulation::Fast, wgrad: Accumulation::Fast };

/// What one forward and its backward give, live rows alone.
pub(crate) const NAMES: [&str; 5] = ["y", "dx", "dw", "db", "dscales"];
pub(crate) type Results = [Vec<f32>; 5];

pub(crate) fn recipes() -> Vec<(&'static str, Recipe)> {
    let current = CurrentScaling::default();
    let scale = ScaleRule { power_of_two: true, epsilon: 0.0 };
    let delayed = DelayedScaling { history_len: 4, ..DelayedScaling::default() };
    let block = BlockScaling::default();
    let (square, vector) = (Blocks::Square, Blocks::Vector);
    let unrounded = ScaleRule::default();
    vec![
        ("current", Recipe::Current(current)),
        (
            "current, E4M3",
            Recipe::Current(CurrentScaling { types: Fp8Types::E4m3, scale, sums: OTHER_SUMS }),
        ),
        ("delayed", Recipe::Delayed(delayed)),
        ("block", Recipe::Block(block)),
        ("block, all vectors", Recipe::Block(BlockScaling { weight: vector, ..block })),
        (
            "block, square tokens",
            Recipe::Block(BlockScaling { weight: vector, input: square, ..block }),
        ),
        (
            "block, square gradients",
            Recipe::Block(BlockScaling {
                weight: vector,
                grad_output: square,
                types: Fp8Types::Hybrid,
                scale: unrounded,
                ..block
            }),
        ),
        ("mxfp8", Recipe::Mxfp8(Mxfp8Scaling::default())),
        (
            "mxfp8, square weights",
            Recipe::Mxfp8(Mxfp8Scaling { types: Fp8Types::Hybrid, weight: BlockShape::Square }),
        ),
        ("nvfp4", Recipe::Nvfp4(Nvfp4Scaling::default())),
        (
            "nvfp4, lines, four over six",
            Recipe::Nvfp4(Nvfp4Scaling {
                weight: BlockShape::Line,
                transform: Transform::None,
                stochastic_gradients: false,
                input_four_over_six: Some(FOUR_OVER_SIX),
                weight_four_over_six: Some(FOUR_OVER_SIX),
                ..Nvfp4Scaling::default()
            }),
        ),
    ]
}

pub(crate) const FOUR_OVER_SIX: FourOverSix =
    FourOverSix { error: ErrorMeasure::Squared, bound: ScaleBound::Reduced };

/// Sets the random numbers of the next step to those of the first.
pub(crate) fn rewind(stream: &Stream, recipe: Option<&LayerRecipe>) -> Result<()> {
    let Some(random) = recipe.and_then(LayerRecipe::random) else { return Ok(()) };
    random.tensor().clone().write(stream, &[5_i64, 0])
}

/// A layer and what it is given.
pub(crate) struct Model {
    pub(crate) layer: GroupedLinear,
    pub(crate) config: Config,
    pub(crate) x: Tensor,
    pub(crate) dy: Tensor,
    pub(crate) row_scales: Tensor,
    pub(crate) splits: Splits,
    pub(crate) kernel: KernelChoice,
}

impl Model {
    /// Numbers from -1 to 1.
    pub(crate) fn new(stream: &Stream, dtype: DType, seed: u64) -> Result<Self> {
        let mut generator = Generator::new(seed);
        Self::of(stream, dtype, &mut || (generator.next() % 2001) as f32 / 1000.0 - 1.0)
    }

    /// Integers from -3 to 3, tokens times a factor: exact in FP8 as they are, but not with the
    /// scale that their magnitudes give.
    pub(crate) fn integers(stream: &Stream, factor: f32) -> Result<Self> {
        let mut generator = Generator::new(17);
        let mut model = Self::of(stream, DType::F32, &mut || (generator.next() % 7) as f32 - 3.0)?;
        let tokens = model.x.to_f32(stream)?;
        let tokens: Vec<f32> = tokens.iter().map(|x| x * factor).collect();
        model.x = Tensor::from_f32(stream, &[ROWS, K], DType::F32, &tokens)?;
        Ok(model)
    }

    fn of(stream: &Stream, dtype: DType, draw: &mut dyn FnMut() -> f32) -> Result<Self> {
        let mut tensor = |shape: &[usize], dtype, tail: usize| -> Result<Tensor> {
            let mut values: Vec<f32> = (0..shape.iter().product()).map(|_| draw()).collect();
            let live = values.len() - tail;
            values[live..].fill(f32::NAN);
            Tensor::from_f32(stream, shape, dtype, &values)
        };
        let config = Config { groups: GROUPS, in_features: K, out_features: N, dtype };
        let weights = GroupedTensor::packed(tensor(&[GROUPS, N, K], dtype, 0)?)?;
        let bias = GroupedTensor::packed(tensor(&[GROUPS, N], dtype, 0)?)?;
        Ok(Self {
            layer: GroupedLinear::new(stream, config, weights, Some(bias))?,
            config,
            x: tensor(&[ROWS, K], dtype, TAIL * K)?,
            dy: tensor(&[ROWS, N], dtype, TAIL * N)?,
            row_scales: tensor(&[ROWS], DType::F32, TAIL)?,
            splits: Splits::host(&SPLITS)?,
            kernel: KernelChoice::Auto,
        })
    }

    pub(crate) fn recipe(&self, stream: &Stream, recipe: Recipe) -> Result<LayerRecipe> {
        LayerRecipe::new(stream, self.config, recipe)
    }

    fn biases(&self) -> [BiasUse<'_>; 2] {
        [BiasUse::Add, BiasUse::RowScaled(&self.row_scales)]
    }

    pub(crate) fn forward(
        &self,
        stream: &Stream,
        bias: BiasUse<'_>,
        recipe: Option<&LayerRecipe>,
    ) -> Result<(Tensor, Saved)> {
        let kernel = self.kernel;
        let options = ForwardOptions { bias, recipe, kernel, ..ForwardOptions::default() };
        self.layer.forward(stream, &self.x, &self.splits, options)
    }

    /// Only the gradients that go elsewhere are of interest.
    fn dw(&self, stream: &Stream, recipe: &LayerRecipe, dw: Wgrad<'_>) -> Result<SelectedGrads> {
        rewind(stream, Some(recipe))?;
        let (_, saved) = self.forward(stream, BiasUse::Add, Some(recipe))?;
        let options = BackwardOptions { dw, ..BackwardOptions::default() };
        self.layer.backward_with(stream, saved, &self.dy, options)
    }

    pub(crate) fn step(
        &self,
        stream: &Stream,
        bias: BiasUse<'_>,
        recipe: Option<&LayerRecipe>,
    ) -> Result<Results> {
        rewind(stream, recipe)?;
        let (y, saved) = self.forward(stream, bias, recipe)?;
        let grads =
            self.layer.backward_with(stream, saved, &self.dy, BackwardOptions::default())?;
        let SelectedGrads { dx: Some(dx), dw: Some(dw), db: Some(db), dscales, .. } = grads else {
            panic!("gradients that were asked for");
        };
        let live = |tensor: &Tensor, columns: usize| -> Result<Vec<f32>> {
            Ok(tensor.to_f32(stream)?[..LIVE * columns].to_vec())
        };
        let dscales = dscales.map(|dscales| live(&dscales, 1)).transpose()?.unwrap_or_default();
        Ok([live(&y, N)?, live(&dx, K)?, read(stream, &dw)?, read(stream, &db)?, dscales])
    }
}

#[track_caller]
pub(crate) fn same_results(what: &str, got: &Results, want: &Results) {
    for ((name, got), want) in NAMES.iter().zip(got).zip(want) {
        same(format!("{what}: {name}"), got, want);
    }
}

/// Frobenius norm of the difference over that of `want`.
pub(crate) fn distance(got: &[f32], want: &[f32]) -> f64 {
    assert_eq!(got.len(), want.len());
    let square = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>();
    let differences = &mut got.iter().zip(want).map(|(a, b)| f64::from(a - b));
    (square(differences) / square(&mut want.iter().map(|&v| f64::from(v)))).sqrt()
}

/// The gradients of bias and row scales read what was not quantized.
fn near(stream: &Stream) -> Result<()> {
    for dtype in [DType::Bf16, DType::F32] {
        let model = Model::new(stream, dtype, 1)?;
        for bias in model.biases() {
            let plain = model.step(stream, bias, None)?;
            for (name, recipe) in recipes() {
                let own = model.recipe(stream, recipe)?;
                let low = model.step(stream, bias, Some(&own))?;
                let scaled = matches!(bias, BiasUse::RowScaled(_));
                let what = format!("{name}, {dtype}, scaled bias: {scaled}");
                for index in 0..3 {
                    let error = distance(&low[index], &plain[index]);
                    // What is quantized is not the same to the bit.
                    let limit = if matches!(recipe, Recipe::Nvfp4(_)) { 0.25 } else { 0.06 };
                    assert!((1e-3..limit).contains(&error), "{what}: {}: {error}", NAMES[index]);
                }
                // The expert without rows.
                assert!(low[2][N * K..2 * N * K].iter().all(|&dw| dw == 0.0), "{what}");
                let error = distance(&low[3], &plain[3]);
                // Sums in another order, rounded to the bias's type.
                let rounding = if dtype == DType::Bf16 { 2e-3 } else { 1e-5 };
                assert!(error < rounding, "{what}: db: {error}");
                same(format!("{what}: dscales"), &low[4], &plain[4]);
            }
        }
    }
    Ok(())
}

fn saved_as(stream: &Stream) -> Result<()> {
    let model = Model::new(stream, DType::Bf16, 2)?;
    for (name, recipe) in recipes() {
        if matches!(recipe, Recipe::Delayed(_)) {
            continue;
        }
        let own = model.recipe(stream, recipe)?;
        let original = own.clone().with_save(SavePolicy::Original)?;
        let quantized = model.step(stream, BiasUse::Add, Some(&own))?;
        same_results(name, &model.step(stream, BiasUse::Add, Some(&original))?, &quantized);
        // And the tokens are what is kept.
        let (_, saved) = model.forward(stream, BiasUse::Add, Some(&original))?;
        assert_eq!(saved.bytes().activations, ROWS * K * 2, "{name}");
    }
    Ok(())
}

fn high(stream: &Stream) -> Result<()> {
    for dtype in [DType::Bf16, DType::F32] {
        let model = Model::new(stream, dtype, 3)?;
        // Both ways of a bias, each with one type.
        let bias = model.biases()[usize::from(dtype == DType::F32)];
        let plain = model.step(stream, bias, None)?;
        for (name, recipe) in recipes() {
            let own = model.recipe(stream, recipe)?;
            let low = model.step(stream, bias, Some(&own))?;
            let own = own.with_backward(BackwardPrecision::High)?;
            let mixed = model.step(stream, bias, Some(&own))?;
            let want = [&low[0], &plain[1], &plain[2], &plain[3], &plain[4]].map(Clone::clone);
            same_results(name, &mixed, &want);
        }
    }
    Ok(())
}

/// The layer's own weights are gone when it computes.
fn cached_weights(stream: &Stream) -> Result<()> {
    for dtype in [DType::Bf16, DType::F32] {
        for (name, recipe) in recipes() {
            let model = Model::new(stream, dtype, 4)?;
            let own = model.recipe(stream, recipe)?;
            let want = model.step(stream, BiasUse::Add, Some(&own))?;
            let prepare = QuantizeWeights { recipe: own.clone(), master: dtype };
            let mut cache = WeightCache::new(stream, prepare)?;
            let weights = model.layer.weights();
            assert_eq!(cache.refresh(stream, weights, 1)?, Refresh::Launched);
            let mut master = weights.as_packed().expect("packed").clone();
            master.fill_zero(stream)?;
            assert_eq!(cache.refresh(stream, weights, 1)?, Refresh::Held);
            // On the device the flag holds as well.
            cache.update(stream, weights)?;
            let cached = own.with_weights(cache.prepared().clone())?;
            let got = model.step(stream, BiasUse::Add, Some(&cached))?;
            same_results(&format!("{name}, {dtype}"), &got, &want);

            assert_eq!(cache.refresh(stream, weights, 2)?, Refresh::Launched);
            let (y, _) = model.forward(stream, BiasUse::Leave, Some(&cached))?;
            let y = y.to_f32(stream)?;
            same(format!("{name}, {dtype}: zeros"), &y[..LIVE * N], &[0.0; LIVE * N]);
        }
    }
    Ok(())
}

/// When it runs later, the tokens and the output gradient are gone.
fn later_and_added(stream: &Stream) -> Result<()> {
    let held = vec![0.75; GROUPS * N * K];
    let buffer = || {
        GroupedTensor::from_f32(stream, ParamLayout::Discrete, GROUPS, &[N, K], DType::F32, &held)
    };
    for (name, recipe) in recipes() {
        let mut model = Model::new(stream, DType::Bf16, 5)?;
        let own = model.recipe(stream, recipe)?;
        let [_, _, dw, ..] = model.step(stream, BiasUse::Add, Some(&own))?;
        let (mut single, mut main_grad) = (buffer()?, buffer()?);
        model.dw(stream, &own, Wgrad::Now(GradSink::Overwrite(&mut single)))?;
        model.dw(stream, &own, Wgrad::Now(GradSink::Accumulate(&mut main_grad)))?;
        let single = read(stream, &single)?;
        let sum: Vec<f32> = single.iter().map(|dw| dw + 0.75).collect();
        same(format!("{name}: main_grad"), &read(stream, &main_grad)?, &sum);
        // Rounded once, from the same sums.
        let rounded: Vec<f32> = single.iter().map(|&v| half::bf16::from_f32(v).to_f32()).collect();
        same(format!("{name}: dw"), &dw, &rounded);

        let mut now = model.dw(stream, &own, Wgrad::Delayed)?.pending.expect("it was asked for");
        let mut added = model.dw(stream, &own, Wgrad::Delayed)?.pending.expect("it was asked for");
        model.x.fill_zero(stream)?;
        model.dy.fill_zero(stream)?;
        let later = now.run(stream, GradSink::New)?;
        same(format!("{name}: dw later"), &read(stream, &later)?, &dw);
        let mut main_grad = buffer()?;
        added.run(stream, GradSink::Accumulate(&mut main_grad))?;
        same(format!("{name}: main_grad later"), &read(stream, &main_grad)?, &sum);
    }
    Ok(())
}

fn tails(stream: &Stream) -> Result<()> {
    for (name, recipe) in recipes() {
        let model = Model::new(stream, DType::Bf16, 6)?;
        let own = model.recipe(stream, recipe)?;
        let want = model.step(stream, BiasUse::Add, Some(&own))?;
        // Where results are written, what was there is not read.
        let held = |columns: usize| {
            let mut values = vec![f32::NAN; ROWS * columns];
            values[LIVE * columns..].fill(7.0);
            Tensor::from_f32(stream, &[ROWS, columns], DType::Bf16, &values)
        };
        let (mut y, mut dx) = (held(N)?, held(K)?);
        let options = ForwardOptions { recipe: Some(&own), ..ForwardOptions::default() };
        rewind(stream, Some(&own))?;
        let Model { layer, x, dy, splits, .. } = &model;
        let saved = layer.forward_into(stream, x, splits, options, &mut y)?;
        let sinks = BackwardOptions { dx: RowSink::Into(&mut dx), ..BackwardOptions::default() };
        layer.backward_with(stream, saved, dy, sinks)?;
        for (what, tensor, columns, want) in [("y", y, N, &want[0]), ("dx", dx, K, &want[1])] {
            let got = tensor.to_f32(stream)?;
            same(format!("{name}: {what}"), &got[..LIVE * columns], want);
            same(
                format!("{name}: {what}, tail"),
                &got[LIVE * columns..],
                &vec![7.0; TAIL * columns],
            );
        }
    }
    Ok(())
}

/// Groups begin at multiples of 128 where their rows are summed over.
pub(crate) const PADDED: usize = 4 * 128;

fn kept(stream: &Stream) -> Result<()> {
    let model = Model::new(stream, DType::Bf16, 7)?;
    for (name, recipe) in recipes() {
        let own = model.recipe(stream, recipe)?;
        let (per_group, vectors, squares) =
            (2 * GROUPS * 4, PADDED / 128 * K * 4, PADDED / 128 * K.div_ceil(128) * 4);
        let (codes, exact) = (PADDED * K, 2 * GROUPS * N * K);
        let (tokens, weights) = match recipe {
            Recipe::Block(block) => (
                codes + if block.input == Blocks::Square { squares } else { vectors },
                GROUPS * N * K
                    + if block.weight == Blocks::Square {
                        GROUPS * K.div_ceil(128) * N.div_ceil(128).next_multiple_of(4) * 4
                    } else {
                        GROUPS * N.div_ceil(128) * K * 4
                    },
            ),
            Recipe::Mxfp8(_) if own.form() == Form::Exact => (2 * ROWS * K, exact),
            Recipe::Nvfp4(_) if own.form() == Form::Exact => {
                (2 * PADDED * K + GROUPS * 4, exact + GROUPS * 4)
            }
            // Scales are whole tiles, 128 columns by 128 (64) rows.
            Recipe::Mxfp8(_) => (ROWS * K + PADDED / 32 * 256, GROUPS * (N * K + 128 / 32 * 256)),
            Recipe::Nvfp4(_) => (
                PADDED * K / 2 + PADDED / 16 * 256 + GROUPS * 4,
                GROUPS * (N * K / 2 + 128 / 16 * 256) + GROUPS * 4,
            ),
            _ => (codes + per_group, GROUPS * N * K + per_group),
        };
        let high = own.clone().with_backward(BackwardPrecision::High)?;
        let all = Needs::default();
        for (own, needs, want, parameters) in [
            (&own, all, tokens, weights),
            (&own, Needs { dw: false, ..all }, 0, weights),
            (&own, Needs { dx: false, ..all }, tokens, 0),
            (&high, all, ROWS * K * 2, GROUPS * N * K * 2),
        ] {
            let options = ForwardOptions { needs, recipe: Some(own), ..ForwardOptions::default() };
            let (_, saved) = model.layer.forward(stream, &model.x, &model.splits, options)?;
            let bytes = SavedBytes { activations: want, parameters, splits: 0 };
            assert_eq!(saved.bytes(), bytes, "{name}, {needs:?}");
            let specs = model.layer.infer(ROWS, &options);
            let plain = specs.saved_x.map(|spec| spec.byte_len());
            let quantized = specs.saved_quantized_x.map(|spec| {
                assert!(spec.has(Direction::Columnwise) && !spec.has(Direction::Rowwise));
                let copy = spec.copy(Direction::Columnwise);
                // Where a group has one scale, the scale is kept beside its inverse.
                let whole = matches!(spec.format, Format::Fp8 { blocks: Blocks::Tensor, .. });
                copy.byte_len() + if whole { GROUPS * 4 } else { 0 }
            });
            let inferred = match (needs.dw, std::ptr::eq(own, &high)) {
                (false, _) => (None, None),
                (true, true) => (Some(want), None),
                (true, false) => (None, Some(want)),
            };
            assert_eq!((plain, quantized), inferred, "{name}, {needs:?}");
        }
    }
    Ok(())
}

/// Scales are one at first, and the integers exact; what repeats has the scales of its own
/// magnitudes from the second step on.
fn golden(stream: &Stream) -> Result<()> {
    let model = Model::integers(stream, 1.0)?;
    let plain = model.step(stream, BiasUse::Add, None)?;
    for types in [Fp8Types::Hybrid, Fp8Types::E4m3] {
        let current = CurrentScaling { types, ..CurrentScaling::default() };
        let current = model.recipe(stream, Recipe::Current(current))?;
        let current = model.step(stream, BiasUse::Add, Some(&current))?;
        assert!((0..3).all(|index| current[index] != plain[index]), "nothing was rounded");
        let delayed = DelayedScaling { types, history_len: 3, ..DelayedScaling::default() };
        let mut own = model.recipe(stream, Recipe::Delayed(delayed))?;
        for step in 0..3 {
            let got = model.step(stream, BiasUse::Add, Some(&own))?;
            let want = if step == 0 { &plain } else { &current };
            same_results(&format!("step {step}, {types:?}"), &got, want);
            own.update(stream)?;
        }
    }
    Ok(())
}

/// A history that is all of the layer's past: with it, what follows is the same; without, it is
/// not.
fn restored(stream: &Stream) -> Result<()> {
    let (early, late) = (Model::integers(stream, 3.0)?, Model::integers(stream, 1.0)?);
    let recipe = Recipe::Delayed(DelayedScaling { history_len: 4, ..DelayedScaling::default() });
    let mut first = early.recipe(stream, recipe)?;
    early.step(stream, BiasUse::Add, Some(&first))?;
    first.update(stream)?;
    // In the middle of a step: its magnitudes are there, too.
    late.step(stream, BiasUse::Add, Some(&first))?;

    let second = early.recipe(stream, recipe)?;
    let states = |recipe: &LayerRecipe| {
        let DelayedStates { input, weight, grad_output } =
            recipe.delayed().expect("states").clone();
        [input, weight, grad_output]
    };
    for (from, mut to) in states(&first).into_iter().zip(states(&second)) {
        let (history, scale) = (from.history().to_f32(stream)?, from.scale().to_f32(stream)?);
        assert!(history.iter().any(|&amax| amax > 0.0) && scale.iter().any(|&scale| scale != 1.0));
        to.restore(stream, &history, &scale)?;
    }
    let fresh = early.recipe(stream, recipe)?;
    for step in 0..5 {
        let [want, got, other] =
            [&first, &second, &fresh].map(|recipe| late.step(stream, BiasUse::Add, Some(recipe)));
        let (want, got) = (want?, got?);
        same_results(&format!("step {step}"), &got, &want);
        // Until the large tokens are forgotten.
        assert_eq!(got[0] == other?[0], step == 4, "step {step} of a state without a past");
        for mut recipe in [&first, &second, &fresh].map(LayerRecipe::clone) {
            recipe.update(stream)?;
        }
    }

    // A NaN counts as no magnitude, also in the line of this step.
    let recipe = DelayedScaling { history_len: 3, ..DelayedScaling::default() };
    let mut state = DelayedState::new(stream, recipe, 2, DType::E4m3)?;
    state.restore(stream, &[f32::NAN, f32::NAN, 1.0, f32::NAN, 1.75, f32::NAN], &[64.0, 64.0])?;
    state.update(stream)?;
    assert_eq!(state.scale().to_f32(stream)?, [448.0 / 1.75, 64.0]);
    Ok(())
}

/// Other ranks had tokens three times as large: as if they had been here.
fn reduced(stream: &Stream) -> Result<()> {
    let (model, large) = (Model::integers(stream, 1.0)?, Model::integers(stream, 3.0)?);
    let recipe = Recipe::Delayed(DelayedScaling { history_len: 3, ..DelayedScaling::default() });
    let mut steps = Vec::new();
    for (first, factor) in [(&model, 3.0), (&large, 1.0), (&model, 1.0)] {
        let mut own = model.recipe(stream, recipe)?;
        first.step(stream, BiasUse::Add, Some(&own))?;
        let mut amax = own.delayed().expect("states").input.amax()?;
        let reduced: Vec<f32> = amax.to_f32(stream)?.iter().map(|amax| amax * factor).collect();
        amax.write_f32(stream, &reduced)?;
        own.update(stream)?;
        let scale = own.delayed().expect("states").input.scale().to_f32(stream)?;
        let results = model.step(stream, BiasUse::Add, Some(&own))?;
        steps.push((reduced, scale, results));
    }
    assert_eq!(steps[0].0, [9.0, 0.0, 9.0]);
    // The expert without rows has nothing to scale yet.
    assert_eq!(steps[0].1, [448.0 / 9.0, 1.0, 448.0 / 9.0]);
    same_results("reduced", &steps[0].2, &steps[1].2);
    assert!(steps[0].2[0] != steps[2].2[0], "the reduction changed nothing");
    Ok(())
}

/// Tokens with a scale for each row: forward in low precision, backward in high.
fn scaled_rows(stream: &Stream) -> Result<()> {
    let model = Model::new(stream, DType::Bf16, 9)?;
    let plain = model.step(stream, BiasUse::RowScaled(&model.row_scales), None)?;
    for input_four_over_six in [None, Some(FOUR_OVER_SIX)] {
        let nvfp4 = Nvfp4Scaling { input: Scope::Row, input_four_over_six, ..Default::default() };
        let own = model.recipe(stream, Recipe::Nvfp4(nvfp4))?;
        let low = model.step(stream, BiasUse::RowScaled(&model.row_scales), Some(&own))?;
        let error = distance(&low[0], &plain[0]);
        assert!((1e-2..0.2).contains(&error), "{input_four_over_six:?}: {error}");
        let want = [&low[0], &plain[1], &plain[2], &plain[3], &plain[4]].map(Clone::clone);
        same_results("scaled rows", &low, &want);
    }
    Ok(())
}

/// Each step rounds with other numbers, and the same ones again from the same state.
fn random(stream: &Stream) -> Result<()> {
    let model = Model::new(stream, DType::Bf16, 10)?;
    let own =
        model.recipe(stream, Recipe::Nvfp4(Nvfp4Scaling { seed: 3, ..Default::default() }))?;
    let state = own.random().expect("gradients are rounded at random");
    assert_eq!(state.read(stream)?, (3, 0));
    let step = || -> Result<[Vec<f32>; 2]> {
        let (_, saved) = model.forward(stream, BiasUse::Add, Some(&own))?;
        let grads = model.layer.backward(stream, saved, &model.dy)?;
        let dx = grads.dx.to_f32(stream)?[..LIVE * K].to_vec();
        Ok([dx, read(stream, &grads.dw)?])
    };
    let (first, second) = (step()?, step()?);
    assert_eq!(state.read(stream)?, (3, 2));
    assert!(first[0] != second[0] && first[1] != second[1], "the numbers repeat");
    state.tensor().clone().write(stream, &[3_i64, 1])?;
    let again = step()?;
    same("dx from the same state".to_owned(), &again[0], &second[0]);
    same("dw from the same state".to_owned(), &again[1], &second[1]);
    // The state of a checkpoint.
    let saved = RandomState::from_tensor(Tensor::from_slice(stream, &[2], &[3_i64, 0])?)?;
    let restored = own.clone().with_random(saved)?;
    let (_, saved) = model.forward(stream, BiasUse::Add, Some(&restored))?;
    let dx = model.layer.backward(stream, saved, &model.dy)?.dx.to_f32(stream)?;
    same("dx of a restored state".to_owned(), &dx[..LIVE * K], &first[0]);
    Ok(())
}
