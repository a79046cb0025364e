//! Recipes of layers, and their weights.

use grouped_linear::functional::{QuantizeOptions, requantize, split_quantize};
use grouped_linear::recipe::{BlockScaling, Blocks, DelayedScaling, Format, Nvfp4Format, Recipe};
use grouped_linear::{
    BackwardOptions, BackwardPrecision, BiasUse, Config, DType, DelayedState, DeviceKind,
    Direction, Error, Form, ForwardOptions, GradSink, GroupedLinear, GroupedTensor, KernelChoice,
    LayerRecipe, QuantizeWeights, QuantizedSpec, QuantizedTensor, RecipeBuffers, Result,
    SavePolicy, SourceShape, Splits, Stream, Tensor, WeightCache, Wgrad,
};

use super::quantizations::quantize_tokens;
use super::{
    BOTH, COLUMNWISE, CONFIG, CURRENT, E4M3, E5M2, K, N, ROWWISE, SQUARES, UNSUPPORTED, VECTORS,
    grouped, tokens, weights, zeros,
};
use crate::fitting::{GROUPS, ROWS};
use crate::{INVALID, Refusal};

pub(super) fn current(stream: &Stream) -> Result<LayerRecipe> {
    LayerRecipe::new(stream, CONFIG, CURRENT)
}

pub(super) fn delayed(stream: &Stream) -> Result<LayerRecipe> {
    LayerRecipe::new(stream, CONFIG, Recipe::Delayed(DelayedScaling::default()))
}

pub(super) fn block(stream: &Stream, change: impl FnOnce(&mut BlockScaling)) -> Result<()> {
    let mut block = BlockScaling::default();
    change(&mut block);
    LayerRecipe::new(stream, CONFIG, Recipe::Block(block)).map(drop)
}

pub(super) fn of_config(stream: &Stream, change: impl FnOnce(&mut Config)) -> Result<()> {
    let mut config = CONFIG;
    change(&mut config);
    LayerRecipe::new(stream, config, CURRENT).map(drop)
}

pub(super) const RECIPES: &[Refusal] = &[
    (
        "in_features in no multiple of 16",
        "in_features is 24, FP8 needs a multiple of 16 (tensor",
        UNSUPPORTED,
        |s| of_config(s, |config| config.in_features = 24),
    ),
    (
        "out_features in no multiple of 16",
        "out_features is 40, FP8 needs a multiple of 16",
        UNSUPPORTED,
        |s| of_config(s, |config| config.out_features = 40),
    ),
    ("a recipe without features", "in_features is 0", INVALID, |s| {
        of_config(s, |config| config.in_features = 0)
    }),
    ("a recipe without groups", "0 groups were asked for", INVALID, |s| {
        of_config(s, |config| config.groups = 0)
    }),
    ("a recipe for integers", "source: element type i32", INVALID, |s| {
        of_config(s, |config| config.dtype = DType::I32)
    }),
    ("an epsilon below zero", "epsilon is -1", INVALID, |s| {
        block(s, |block| block.scale.epsilon = -1.0)
    }),
    ("a history without steps", "the history has 0 steps", INVALID, |s| {
        let recipe = DelayedScaling { history_len: 0, ..DelayedScaling::default() };
        LayerRecipe::new(s, CONFIG, Recipe::Delayed(recipe)).map(drop)
    }),
    ("a margin beyond all numbers", "the margin is 127", INVALID, |s| {
        let recipe = DelayedScaling { margin: 127, ..DelayedScaling::default() };
        DelayedState::new(s, recipe, GROUPS, DType::E4m3).map(drop)
    }),
    ("a margin that makes all scales infinite", "the margin is -113", INVALID, |s| {
        let recipe = DelayedScaling { margin: -113, ..DelayedScaling::default() };
        DelayedState::new(s, recipe, GROUPS, DType::E5m2).map(drop)
    }),
    ("squares on both sides", "both operands of a product have square blocks", UNSUPPORTED, |s| {
        block(s, |block| block.input = Blocks::Square)
    }),
    ("squares on both sides of dx", "both operands of a product have square", UNSUPPORTED, |s| {
        block(s, |block| block.grad_output = Blocks::Square)
    }),
    ("a tensor's one scale among blocks", "use Recipe::Current", INVALID, |s| {
        block(s, |block| block.weight = Blocks::Tensor)
    }),
    ("tokens kept, with delayed scales", "when its scales have moved on", UNSUPPORTED, |s| {
        delayed(s)?.with_save(SavePolicy::Original).map(drop)
    }),
    ("a longer history than the state's", "history of 6 values were given", INVALID, |s| {
        restore(s, &[1.0; 3 * GROUPS], &[1.0; GROUPS])
    }),
    ("a scale too few", "scales of 1 values were given, [2] are needed", INVALID, |s| {
        restore(s, &[1.0; 2 * GROUPS], &[1.0; GROUPS - 1])
    }),
    ("a magnitude below zero", "the history has -1; magnitudes", INVALID, |s| {
        restore(s, &[0.0, 1.0, -1.0, f32::NAN], &[1.0; GROUPS])
    }),
    // Its bits are above those of every number.
    ("zero below zero", "the history has -0; magnitudes", INVALID, |s| {
        restore(s, &[0.0, 1.0, f32::INFINITY, -0.0], &[1.0; GROUPS])
    }),
    ("a scale of zero", "a scale is 0; scales are", INVALID, |s| {
        restore(s, &[1.0; 2 * GROUPS], &[1.0, 0.0])
    }),
    ("a scale that is no number", "a scale is NaN; scales are", INVALID, |s| {
        restore(s, &[1.0; 2 * GROUPS], &[1.0, f32::NAN])
    }),
    ("a scale whose inverse is infinite", "a scale is 0.00000", INVALID, |s| {
        restore(s, &[1.0; 2 * GROUPS], &[1.0, 1e-39])
    }),
    ("an infinite scale", "a scale is inf; scales are", INVALID, |s| {
        restore(s, &[1.0; 2 * GROUPS], &[1.0, f32::INFINITY])
    }),
    ("a history of BF16", "delayed state: element type bf16", INVALID, |s| {
        DelayedState::new(s, DelayedScaling::default(), GROUPS, DType::Bf16).map(drop)
    }),
    ("a recipe of all groups that can be counted", "groups were asked for", INVALID, |s| {
        let config = Config { groups: usize::MAX, ..CONFIG };
        let recipe = Recipe::Delayed(DelayedScaling::default());
        LayerRecipe::new(s, config, recipe).map(drop)
    }),
    ("buffers for all rows that can be counted", "rows were given, at most", INVALID, |s| {
        RecipeBuffers::new(s, &current(s)?, usize::MAX).map(drop)
    }),
    ("a history of no groups", "0 groups were asked for", INVALID, |s| {
        DelayedState::new(s, DelayedScaling::default(), 0, DType::E4m3).map(drop)
    }),
    ("a history of all groups that can be counted", "groups were asked for", INVALID, |s| {
        DelayedState::new(s, DelayedScaling::default(), usize::MAX, DType::E4m3).map(drop)
    }),
];

/// Restores a state of two steps, which must stay as it was.
fn restore(stream: &Stream, history: &[f32], scale: &[f32]) -> Result<()> {
    let recipe = DelayedScaling { history_len: 2, ..DelayedScaling::default() };
    let mut state = DelayedState::new(stream, recipe, GROUPS, DType::E4m3)?;
    let refused = state.restore(stream, history, scale);
    assert_eq!(state.history().to_f32(stream)?, [0.0; 2 * GROUPS]);
    assert_eq!(state.scale().to_f32(stream)?, [1.0; GROUPS]);
    refused
}

pub(super) fn layer(stream: &Stream) -> Result<GroupedLinear> {
    GroupedLinear::new(stream, CONFIG, grouped(stream, &[GROUPS, N, K])?, None)
}

/// Forward of a fitting layer, with options that may not fit.
pub(super) fn forward(stream: &Stream, recipe: &LayerRecipe) -> Result<()> {
    forward_with(stream, ForwardOptions { recipe: Some(recipe), ..ForwardOptions::default() })
}

pub(super) fn forward_with(stream: &Stream, options: ForwardOptions<'_>) -> Result<()> {
    let (x, splits) = (zeros(stream, &[ROWS, K])?, Splits::host(&[2, 3])?);
    layer(stream)?.forward(stream, &x, &splits, options).map(drop)
}

/// Forward of tokens that are quantized already.
fn prequantized(
    stream: &Stream,
    recipe: Option<&LayerRecipe>,
    x: QuantizedTensor,
    counts: &[usize],
) -> Result<()> {
    let options = ForwardOptions { recipe, ..ForwardOptions::default() };
    let splits = Splits::host(counts)?;
    layer(stream)?.forward_prequantized(stream, &x, &splits, options).map(drop)
}

/// Tokens as the current recipe has them.
fn own_tokens(stream: &Stream) -> Result<QuantizedTensor> {
    let quantized = tokens(stream, K, E4M3, BOTH)?;
    quantize_tokens(stream, &zeros(stream, &[ROWS, K])?, quantized.clone())?;
    Ok(quantized)
}

const OVER_SOURCE: &str = "what is written of it overlaps the source";

/// Makes the columnwise copy of tokens from their rowwise one, with what the two share.
fn requantized_apart(stream: &Stream, format: Format) -> Result<()> {
    let (splits, mut scratch) = (Splits::host(&[2, 3])?, zeros(stream, &[ROWS, K])?);
    let quantized = tokens(stream, K, format, BOTH)?;
    quantize_tokens(stream, &zeros(stream, &[ROWS, K])?, quantized.clone())?;
    let options = QuantizeOptions::default();
    let mut apart = quantized.only(Direction::Columnwise)?;
    requantize(stream, &quantized, &splits, options, &mut scratch, &mut apart)
}

/// What backward would do with tokens that forward has as they are.
pub(super) const KEPT: &[Refusal] = &[
    ("restored tokens, kept as they are", "restores the tokens that were", UNSUPPORTED, |s| {
        let own = current(s)?.with_backward(BackwardPrecision::Dequantized)?;
        own.with_save(SavePolicy::Original).map(drop)
    }),
    ("tokens as they are, restored", "restores the tokens that were", UNSUPPORTED, |s| {
        let own = current(s)?.with_save(SavePolicy::Original)?;
        own.with_backward(BackwardPrecision::Dequantized).map(drop)
    }),
    ("quantized tokens without a recipe", "given without a recipe", INVALID, |s| {
        prequantized(s, None, own_tokens(s)?, &[2, 3])
    }),
    ("quantized tokens in blocks", "of e4m3, one scale per group are needed", INVALID, |s| {
        prequantized(s, Some(&current(s)?), tokens(s, K, VECTORS, BOTH)?, &[2, 3])
    }),
    ("quantized tokens of other features", "features: 48 } in 2 groups", INVALID, |s| {
        prequantized(s, Some(&current(s)?), tokens(s, N, E4M3, BOTH)?, &[2, 3])
    }),
    ("quantized tokens without columns", "x: the columnwise copy is needed", INVALID, |s| {
        prequantized(s, Some(&current(s)?), tokens(s, K, E4M3, ROWWISE)?, &[2, 3])
    }),
    ("quantized tokens for high precision", "backward needs them as they were", UNSUPPORTED, |s| {
        let own = current(s)?.with_backward(BackwardPrecision::High)?;
        prequantized(s, Some(&own), own_tokens(s)?, &[2, 3])
    }),
    ("splits of other groups, quantized", "splits:", INVALID, |s| {
        prequantized(s, Some(&current(s)?), own_tokens(s)?, &[2, 2, 1])
    }),
    ("more splits than rows, one by one", "up to 7 rows, x has 6", INVALID, |s| {
        let (x, forms) = (zeros(s, &[ROWS, K])?, [Some(Form::Codes), None]);
        split_quantize(s, &x, &[ROWS, 1], E4M3, forms, QuantizeOptions::default()).map(drop)
    }),
    ("quantized again for other features", "destination: it was made for", INVALID, |s| {
        let (splits, mut scratch) = (Splits::host(&[2, 3])?, zeros(s, &[ROWS, K])?);
        let mut other = tokens(s, N, E4M3, BOTH)?;
        let options = QuantizeOptions::default();
        requantize(s, &own_tokens(s)?, &splits, options, &mut scratch, &mut other)
    }),
    ("quantized again into the other copy, which shares the scales", OVER_SOURCE, INVALID, |s| {
        requantized_apart(s, E4M3)
    }),
    (
        "quantized again into the other copy, which shares the magnitudes",
        OVER_SOURCE,
        INVALID,
        |s| requantized_apart(s, Format::Nvfp4(Nvfp4Format::LINES)),
    ),
    ("weights quantized again as tokens are", "use `dequantize` and `quantize`", INVALID, |s| {
        let (splits, mut scratch) = (Splits::host(&[2, 3])?, zeros(s, &[ROWS, K])?);
        let source = SourceShape::Weights { rows: N, columns: K };
        let spec = QuantizedSpec { source, ..own_tokens(s)?.spec() };
        let [from, mut to] = [QuantizedTensor::empty(s, spec)?, QuantizedTensor::empty(s, spec)?];
        let options = QuantizeOptions::default();
        requantize(s, &from, &splits, options, &mut scratch, &mut to)
    }),
];

/// What the table above spoils.
pub(super) fn fitting_tokens(stream: &Stream) -> Result<()> {
    current(stream)?.with_backward(BackwardPrecision::Dequantized)?;
    prequantized(stream, Some(&current(stream)?), own_tokens(stream)?, &[2, 3])?;
    let own = current(stream)?.with_backward(BackwardPrecision::Dequantized)?;
    let rowwise = own_tokens(stream)?.only(Direction::Rowwise)?;
    prequantized(stream, Some(&own), rowwise, &[2, 3])?;
    let (x, forms) = (zeros(stream, &[ROWS, K])?, [Some(Form::Codes), None]);
    let options = QuantizeOptions::default();
    split_quantize(stream, &x, &[2, 3], E4M3, forms, options)?;
    let (splits, mut scratch) = (Splits::host(&[2, 3])?, zeros(stream, &[ROWS, K])?);
    let (from, mut to) = (own_tokens(stream)?, own_tokens(stream)?);
    requantize(stream, &from, &splits, options, &mut scratch, &mut to)
}

pub(super) const LAYERS: &[Refusal] = &[
    ("the recipe of another layer", "the recipe was made for a layer of", INVALID, |s| {
        let config = Config { out_features: 64, ..CONFIG };
        forward(s, &LayerRecipe::new(s, config, CURRENT)?)
    }),
    ("the recipe of a layer in FP16", "the recipe was made for a layer of", INVALID, |s| {
        let config = Config { dtype: DType::F16, ..CONFIG };
        forward(s, &LayerRecipe::new(s, config, CURRENT)?)
    }),
    ("the readable kernel", "KernelChoice::Simt was asked for with a recipe", UNSUPPORTED, |s| {
        let (recipe, kernel) = (&current(s)?, KernelChoice::Simt);
        let options = ForwardOptions { recipe: Some(recipe), kernel, ..Default::default() };
        forward_with(s, options)
    }),
    ("row scales for no bias, in FP8", "without a bias", INVALID, |s| {
        let (recipe, scales) = (&current(s)?, Tensor::zeros(s, &[ROWS], DType::F32)?);
        let bias = BiasUse::RowScaled(&scales);
        forward_with(s, ForwardOptions { recipe: Some(recipe), bias, ..Default::default() })
    }),
    ("y of other width, in FP8", "y: shape [6, 32]", INVALID, |s| {
        let (recipe, x) = (&current(s)?, zeros(s, &[ROWS, K])?);
        let options = ForwardOptions { recipe: Some(recipe), ..ForwardOptions::default() };
        let mut y = zeros(s, &[ROWS, K])?;
        let splits = Splits::host(&[2, 3])?;
        layer(s)?.forward_into(s, &x, &splits, options, &mut y).map(drop)
    }),
    ("more rows than x has, in FP8", "7 rows, but the token", Error::is_bad_splits, |s| {
        let (recipe, x) = (&current(s)?, zeros(s, &[ROWS, K])?);
        let options = ForwardOptions { recipe: Some(recipe), ..ForwardOptions::default() };
        layer(s)?.forward(s, &x, &Splits::host(&[4, 3])?, options).map(drop)
    }),
    ("buffers for fewer rows", "RecipeBuffers::new for 6 token rows", INVALID, |s| {
        let buffers = RecipeBuffers::new(s, &current(s)?, ROWS - 1)?;
        forward(s, &current(s)?.with_buffers(buffers))
    }),
    ("buffers for more rows", "were made for 7 token rows", INVALID, |s| {
        let buffers = RecipeBuffers::new(s, &current(s)?, ROWS + 1)?;
        forward(s, &current(s)?.with_buffers(buffers))
    }),
    ("buffers without room for backward", "for backward in another precision", INVALID, |s| {
        let high = current(s)?.with_backward(BackwardPrecision::High)?;
        let buffers = RecipeBuffers::new(s, &high, ROWS)?;
        forward(s, &current(s)?.with_buffers(buffers))
    }),
    (
        "buffers without room for what is restored",
        "the restored tokens and weights",
        INVALID,
        |s| {
            let high = current(s)?.with_backward(BackwardPrecision::High)?;
            let buffers = RecipeBuffers::new(s, &high, ROWS)?;
            forward(s, &high.with_backward(BackwardPrecision::Dequantized)?.with_buffers(buffers))
        },
    ),
    ("buffers to restore more rows than the tokens have", "made for 7 token rows", INVALID, |s| {
        let restored = current(s)?.with_backward(BackwardPrecision::Dequantized)?;
        let buffers = RecipeBuffers::new(s, &restored, ROWS + 1)?;
        prequantized(s, Some(&restored.with_buffers(buffers)), own_tokens(s)?, &[2, 3])
    }),
    ("a delayed gradient over the history", "or a parameter", INVALID, |s| {
        over_history(s, BackwardPrecision::Recipe, true)
    }),
    (
        "a delayed gradient over the history, beside high precision",
        "or a parameter",
        INVALID,
        |s| over_history(s, BackwardPrecision::High, true),
    ),
    ("a gradient over the history, beside high precision", "or a parameter", INVALID, |s| {
        over_history(s, BackwardPrecision::High, false)
    }),
    ("buffers of another recipe", "the recipe's buffers were made for", INVALID, |s| {
        let block = LayerRecipe::new(s, CONFIG, Recipe::Block(BlockScaling::default()))?;
        let buffers = RecipeBuffers::new(s, &block, ROWS)?;
        forward(s, &current(s)?.with_buffers(buffers))
    }),
];

/// Refreshes quantized weights from masters of this shape and type.
pub(super) fn refresh(stream: &Stream, shape: &[usize], dtype: DType) -> Result<()> {
    let prepare = QuantizeWeights { recipe: current(stream)?, master: DType::F32 };
    let master = GroupedTensor::packed(Tensor::zeros(stream, shape, dtype)?)?;
    WeightCache::new(stream, prepare)?.refresh(stream, &master, 1).map(drop)
}

pub(super) const WEIGHTS: &[Refusal] = &[
    ("weights in blocks for one scale", "quantized weights: ", INVALID, |s| {
        current(s)?.with_weights(weights(s, SQUARES, BOTH)?).map(drop)
    }),
    ("weights in E5M2", "quantized weights: ", INVALID, |s| {
        current(s)?.with_weights(weights(s, E5M2, BOTH)?).map(drop)
    }),
    ("tokens for weights", "quantized weights: ", INVALID, |s| {
        current(s)?.with_weights(tokens(s, K, E4M3, BOTH)?).map(drop)
    }),
    ("no rowwise weights", "weights: the rowwise copy is needed", INVALID, |s| {
        forward(s, &current(s)?.with_weights(weights(s, E4M3, COLUMNWISE)?)?)
    }),
    ("no columnwise weights, for dx", "weights: the columnwise copy is needed", INVALID, |s| {
        forward(s, &current(s)?.with_weights(weights(s, E4M3, ROWWISE)?)?)
    }),
    ("a cache of integers' FP8", "source: element type i32", INVALID, |s| {
        let prepare = QuantizeWeights { recipe: current(s)?, master: DType::I32 };
        WeightCache::new(s, prepare).map(drop)
    }),
    (
        "master weights of another type, for FP8",
        "master weights: element type bf16",
        INVALID,
        |s| refresh(s, &[GROUPS, N, K], DType::Bf16),
    ),
    ("transposed master weights, for FP8", "source: shape [32, 48]", INVALID, |s| {
        refresh(s, &[GROUPS, K, N], DType::F32)
    }),
    ("master weights for more groups, for FP8", "source: 3 groups", INVALID, |s| {
        refresh(s, &[GROUPS + 1, N, K], DType::F32)
    }),
];

/// Neither y, nor the magnitudes that the next scales are made of.
pub(super) fn nothing_written(stream: &Stream) -> Result<()> {
    let (layer, x) =
        (layer(stream)?, Tensor::from_f32(stream, &[ROWS, K], DType::Bf16, &[2.0; ROWS * K])?);
    let sevens = [7.0; ROWS * N];
    for copies in [ROWWISE, COLUMNWISE] {
        let recipe = delayed(stream)?.with_weights(weights(stream, E4M3, copies)?)?;
        let options = ForwardOptions { recipe: Some(&recipe), ..ForwardOptions::default() };
        let mut y = Tensor::from_f32(stream, &[ROWS, N], DType::Bf16, &sevens)?;
        let splits = Splits::host(&[2, 3])?;
        let outcome = layer.forward_into(stream, &x, &splits, options, &mut y);
        assert!(outcome.is_err(), "{copies:?}");
        assert_eq!(y.to_f32(stream)?, sevens, "{copies:?}");
        let amax = recipe.delayed().expect("states").input.amax()?;
        assert_eq!(amax.to_f32(stream)?, [0.0; GROUPS], "{copies:?}");
    }
    // Outputs that only the product, which comes last, would refuse, and one that no launch would.
    let recipe = delayed(stream)?;
    let history = recipe.delayed().expect("states").weight.history().clone();
    let over_history = history.narrow(8, ROWS * N / GROUPS)?.reshape(&[ROWS, N])?;
    let gpu = stream.device().id().kind != DeviceKind::Cpu;
    let arena = Tensor::from_f32(stream, &[ROWS * N + 1], DType::Bf16, &[2.0; ROWS * N + 1])?;
    let part = |start, columns| arena.narrow(start, ROWS * columns)?.reshape(&[ROWS, columns]);
    for (what, x, y) in [
        ("integers", x.clone(), Some(Tensor::zeros(stream, &[ROWS, N], DType::I32)?)),
        ("over the tokens", part(0, K)?, Some(part(0, N)?)),
        ("between 16 bytes", x.clone(), gpu.then(|| part(1, N)).transpose()?),
        ("over the history", x, Some(over_history)),
    ] {
        let Some(mut y) = y else { continue };
        let options = ForwardOptions { recipe: Some(&recipe), ..ForwardOptions::default() };
        let splits = Splits::host(&[2, 3])?;
        let outcome = layer.forward_into(stream, &x, &splits, options, &mut y);
        assert!(outcome.is_err_and(|error| error.is_invalid_argument()), "{what}");
        let amax = recipe.delayed().expect("states").input.amax()?;
        assert_eq!(amax.to_f32(stream)?, [0.0; GROUPS], "{what}");
    }
    Ok(())
}

/// A gradient of the weights over as many numbers of their history, at once or delayed.
fn over_history(stream: &Stream, backward: BackwardPrecision, later: bool) -> Result<()> {
    let long = DelayedScaling { history_len: N * K, ..DelayedScaling::default() };
    let recipe = LayerRecipe::new(stream, CONFIG, Recipe::Delayed(long))?;
    let recipe = recipe.with_backward(backward)?;
    let options = ForwardOptions { recipe: Some(&recipe), ..ForwardOptions::default() };
    let (layer, splits) = (layer(stream)?, Splits::host(&[2, 3])?);
    let (dy, saved) = layer.forward(stream, &zeros(stream, &[ROWS, K])?, &splits, options)?;
    let history = recipe.delayed().expect("states").weight.history();
    let mut over = GroupedTensor::packed(history.reshape(&[GROUPS, N, K])?)?;
    let sink = GradSink::Overwrite(&mut over);
    if !later {
        let options = BackwardOptions { dw: Wgrad::Now(sink), ..BackwardOptions::default() };
        return layer.backward_with(stream, saved, &dy, options).map(drop);
    }
    let options = BackwardOptions { dw: Wgrad::Delayed, ..BackwardOptions::default() };
    let grads = layer.backward_with(stream, saved, &dy, options)?;
    grads.pending.expect("it was asked for").run(stream, sink).map(drop)
}
