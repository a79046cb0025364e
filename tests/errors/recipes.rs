//! What recipes, quantization and products of quantized tensors refuse.

use grouped_linear::functional::{
    DbiasSink, QuantizeArgs, QuantizeSource, QuantizedDgradArgs, QuantizedFpropArgs,
    QuantizedGemmOptions, QuantizedWgradArgs, quantize, quantized_dgrad, quantized_fprop,
    quantized_wgrad,
};
use grouped_linear::plan::{Plan, QuantizeProblem, ScaleSource, Target};
use grouped_linear::recipe::{
    Accumulation, BlockScaling, Blocks, CurrentScaling, DelayedScaling, Format, Fp8Types, Recipe,
    ScaleRule,
};
use grouped_linear::{
    Accumulate, BiasUse, Config, DType, DelayedState, DeviceKind, Direction, Error, Factor, Form,
    ForwardOptions, GroupedLinear, GroupedTensor, KernelChoice, LayerRecipe, QuantizeWeights,
    QuantizedCopy, QuantizedSpec, QuantizedTensor, RecipeBuffers, Result, SavePolicy, SourceShape,
    Splits, Stream, Tensor, WeightCache,
};

use crate::engines::Test;
use crate::fitting::{GROUPS, ROWS};
use crate::{INVALID, Question, Refusal, refused};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("recipes that cannot be are refused", |e, s| refused(RECIPES, e, s)),
    ("what does not fit the recipe is refused", |e, s| refused(LAYERS, e, s)),
    ("quantized weights that do not fit are refused", |e, s| refused(WEIGHTS, e, s)),
    ("quantizations that do not fit are refused", |e, s| refused(QUANTIZATIONS, e, s)),
    ("quantized operands that do not fit are refused", |e, s| refused(PRODUCTS, e, s)),
    ("quantized memory that does not fit is refused", |e, s| refused(COPIES, e, s)),
    ("quantized operands that fit are not refused", |engine, s| fitting(s).expect(engine)),
    ("a refused recipe writes nothing", |engine, s| nothing_written(s).expect(engine)),
    ("a quantization between 16 bytes is refused by kernels only", misplaced),
];

const UNSUPPORTED: Question = Error::is_unsupported;
const K: usize = 32;
const N: usize = 48;
const CONFIG: Config =
    Config { groups: GROUPS, in_features: K, out_features: N, dtype: DType::Bf16 };
const CURRENT: Recipe = Recipe::Current(CurrentScaling {
    types: Fp8Types::Hybrid,
    scale: ScaleRule { power_of_two: false, epsilon: 0.0 },
});

fn current(stream: &Stream) -> Result<LayerRecipe> {
    LayerRecipe::new(stream, CONFIG, CURRENT)
}

fn delayed(stream: &Stream) -> Result<LayerRecipe> {
    LayerRecipe::new(stream, CONFIG, Recipe::Delayed(DelayedScaling::default()))
}

fn block(stream: &Stream, change: impl FnOnce(&mut BlockScaling)) -> Result<()> {
    let mut block = BlockScaling::default();
    change(&mut block);
    LayerRecipe::new(stream, CONFIG, Recipe::Block(block)).map(drop)
}

fn of_config(stream: &Stream, change: impl FnOnce(&mut Config)) -> Result<()> {
    let mut config = CONFIG;
    change(&mut config);
    LayerRecipe::new(stream, config, CURRENT).map(drop)
}

const RECIPES: &[Refusal] = &[
    ("in_features in no multiple of 16", "is 24, FP8 needs a multiple of 16", UNSUPPORTED, |s| {
        of_config(s, |config| config.in_features = 24)
    }),
    ("out_features in no multiple of 16", "is 40, FP8 needs a multiple of 16", UNSUPPORTED, |s| {
        of_config(s, |config| config.out_features = 40)
    }),
    ("a recipe without features", "features is 0", INVALID, |s| {
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
    ("an infinite scale", "a scale is inf; scales are", INVALID, |s| {
        restore(s, &[1.0; 2 * GROUPS], &[1.0, f32::INFINITY])
    }),
    ("a history of BF16", "delayed state: element type bf16", INVALID, |s| {
        DelayedState::new(s, DelayedScaling::default(), GROUPS, DType::Bf16)?.update(s)
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

fn zeros(stream: &Stream, shape: &[usize]) -> Result<Tensor> {
    Tensor::zeros(stream, shape, DType::Bf16)
}

fn grouped(stream: &Stream, shape: &[usize]) -> Result<GroupedTensor> {
    GroupedTensor::packed(zeros(stream, shape)?)
}

fn layer(stream: &Stream) -> Result<GroupedLinear> {
    GroupedLinear::new(stream, CONFIG, grouped(stream, &[GROUPS, N, K])?, None)
}

/// Forward of a fitting layer, with options that may not fit.
fn forward(stream: &Stream, recipe: &LayerRecipe) -> Result<()> {
    forward_with(stream, ForwardOptions { recipe: Some(recipe), ..ForwardOptions::default() })
}

fn forward_with(stream: &Stream, options: ForwardOptions<'_>) -> Result<()> {
    let (x, splits) = (zeros(stream, &[ROWS, K])?, Splits::host(&[2, 3])?);
    layer(stream)?.forward(stream, &x, &splits, options).map(drop)
}

const LAYERS: &[Refusal] = &[
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
    ("buffers for fewer rows", "the recipe's buffers were made for", INVALID, |s| {
        let buffers = RecipeBuffers::new(s, &current(s)?, ROWS - 1)?;
        forward(s, &current(s)?.with_buffers(buffers))
    }),
    ("buffers of another recipe", "the recipe's buffers were made for", INVALID, |s| {
        let block = LayerRecipe::new(s, CONFIG, Recipe::Block(BlockScaling::default()))?;
        let buffers = RecipeBuffers::new(s, &block, ROWS)?;
        forward(s, &current(s)?.with_buffers(buffers))
    }),
];

const E4M3: Format = Format::fp8(DType::E4m3, Blocks::Tensor);
const VECTORS: Format = Format::fp8(DType::E4m3, Blocks::Vector);
const SQUARES: Format = Format::fp8(DType::E4m3, Blocks::Square);
const E5M2: Format = Format::fp8(DType::E5m2, Blocks::Tensor);
const BOTH: [bool; 2] = [true; 2];
const ROWWISE: [bool; 2] = [true, false];
const COLUMNWISE: [bool; 2] = [false, true];

fn spec(source: SourceShape, format: Format, copies: [bool; 2]) -> QuantizedSpec {
    let [rowwise, columnwise] = copies.map(|wanted| wanted.then_some(Form::Codes));
    QuantizedSpec { groups: GROUPS, source, format, rowwise, columnwise }
}

/// Contents unspecified; refused before they are read.
fn tokens(
    stream: &Stream,
    features: usize,
    format: Format,
    copies: [bool; 2],
) -> Result<QuantizedTensor> {
    let source = SourceShape::Tokens { rows: ROWS, features };
    QuantizedTensor::empty(stream, spec(source, format, copies))
}

fn weights(stream: &Stream, format: Format, copies: [bool; 2]) -> Result<QuantizedTensor> {
    let source = SourceShape::Weights { rows: N, columns: K };
    QuantizedTensor::empty(stream, spec(source, format, copies))
}

/// Refreshes quantized weights from masters of this shape and type.
fn refresh(stream: &Stream, shape: &[usize], dtype: DType) -> Result<()> {
    let prepare = QuantizeWeights { recipe: current(stream)?, master: DType::F32 };
    let master = GroupedTensor::packed(Tensor::zeros(stream, shape, dtype)?)?;
    WeightCache::new(stream, prepare)?.refresh(stream, &master, 1).map(drop)
}

const WEIGHTS: &[Refusal] = &[
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
    ("delayed scales in a cache", "delayed scales move with every step", UNSUPPORTED, |s| {
        let prepare = QuantizeWeights { recipe: delayed(s)?, master: DType::F32 };
        WeightCache::new(s, prepare).map(drop)
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

/// Quantizes fitting tokens under a flag.
fn quantize_under(stream: &Stream, flag: &Tensor) -> Result<()> {
    let (x, splits) = (zeros(stream, &[ROWS, K])?, Splits::host(&[2, 3])?);
    let args = QuantizeArgs::new(QuantizeSource::Tokens(&x, &splits));
    let args = QuantizeArgs { skip: Some(flag), ..args };
    quantize(stream, args, &mut tokens(stream, K, E4M3, BOTH)?)
}

/// Quantizes fitting tokens with the scales of a history.
fn quantize_delayed(stream: &Stream, format: Format, groups: usize, dtype: DType) -> Result<()> {
    let state = DelayedState::new(stream, DelayedScaling::default(), groups, dtype)?;
    let (x, splits) = (zeros(stream, &[ROWS, K])?, Splits::host(&[2, 3])?);
    let args = QuantizeArgs::new(QuantizeSource::Tokens(&x, &splits));
    let args = QuantizeArgs { delayed: Some(&state), ..args };
    quantize(stream, args, &mut tokens(stream, K, format, BOTH)?)
}

/// Quantizes fitting tokens and sums their columns.
fn quantize_summing(stream: &Stream, mut db: GroupedTensor) -> Result<()> {
    let (x, splits) = (zeros(stream, &[ROWS, K])?, Splits::host(&[2, 3])?);
    let dbias = Some(DbiasSink { db: &mut db, accumulate: Accumulate::Overwrite });
    let args = QuantizeArgs { dbias, ..QuantizeArgs::new(QuantizeSource::Tokens(&x, &splits)) };
    quantize(stream, args, &mut tokens(stream, K, E4M3, BOTH)?)
}

/// Quantizes these tokens of two and three rows.
fn quantize_tokens(stream: &Stream, x: &Tensor, mut to: QuantizedTensor) -> Result<()> {
    let splits = Splits::host(&[2, 3])?;
    quantize(stream, QuantizeArgs::new(QuantizeSource::Tokens(x, &splits)), &mut to)
}

const QUANTIZATIONS: &[Refusal] = &[
    ("tokens into weights", "tokens were given, the destination is for weights", INVALID, |s| {
        quantize_tokens(s, &zeros(s, &[ROWS, K])?, weights(s, E4M3, BOTH)?)
    }),
    ("weights into tokens", "weights were given, the destination is for tokens", INVALID, |s| {
        let source = grouped(s, &[GROUPS, N, K])?;
        let args = QuantizeArgs::new(QuantizeSource::Weights(&source));
        quantize(s, args, &mut tokens(s, K, E4M3, BOTH)?)
    }),
    ("fewer tokens than the destination", "source: shape [5, 32]", INVALID, |s| {
        quantize_tokens(s, &zeros(s, &[ROWS - 1, K])?, tokens(s, K, E4M3, BOTH)?)
    }),
    ("integers", "source: element type i32", INVALID, |s| {
        let x = Tensor::zeros(s, &[ROWS, K], DType::I32)?;
        quantize_tokens(s, &x, tokens(s, K, VECTORS, BOTH)?)
    }),
    ("tokens of 24 features", "features is 24, FP8 needs a multiple of 16", UNSUPPORTED, |s| {
        quantize_tokens(s, &zeros(s, &[ROWS, 24])?, tokens(s, 24, VECTORS, ROWWISE)?)
    }),
    ("splits that are too long", "3 were given", INVALID, |s| {
        let x = zeros(s, &[ROWS, K])?;
        let splits = Splits::host(&[2, 3, 0])?;
        let args = QuantizeArgs::new(QuantizeSource::Tokens(&x, &splits));
        quantize(s, args, &mut tokens(s, K, E4M3, BOTH)?)
    }),
    ("a flag of two", "skip: shape [2]", INVALID, |s| {
        quantize_under(s, &Tensor::zeros(s, &[2], DType::I32)?)
    }),
    ("a flag in 64 bits", "skip: element type i64", INVALID, |s| {
        quantize_under(s, &Tensor::zeros(s, &[1], DType::I64)?)
    }),
    ("a flag and a history", "skip: a flag was given with a history", UNSUPPORTED, |s| {
        let state = DelayedState::new(s, DelayedScaling::default(), GROUPS, DType::E4m3)?;
        let (x, splits) = (zeros(s, &[ROWS, K])?, Splits::host(&[2, 3])?);
        let flag = Tensor::zeros(s, &[1], DType::I32)?;
        let args = QuantizeArgs::new(QuantizeSource::Tokens(&x, &splits));
        let args = QuantizeArgs { delayed: Some(&state), skip: Some(&flag), ..args };
        quantize(s, args, &mut tokens(s, K, E4M3, BOTH)?)
    }),
    ("a flag and db", "skip: a flag was given with a history or with db", UNSUPPORTED, |s| {
        let (x, splits) = (zeros(s, &[ROWS, K])?, Splits::host(&[2, 3])?);
        let (flag, mut db) = (Tensor::zeros(s, &[1], DType::I32)?, grouped(s, &[GROUPS, K])?);
        let dbias = Some(DbiasSink { db: &mut db, accumulate: Accumulate::Overwrite });
        let args = QuantizeArgs::new(QuantizeSource::Tokens(&x, &splits));
        let args = QuantizeArgs { dbias, skip: Some(&flag), ..args };
        quantize(s, args, &mut tokens(s, K, E4M3, BOTH)?)
    }),
    ("a history of another type", "delayed state: it was made for e5m2", INVALID, |s| {
        quantize_delayed(s, E4M3, GROUPS, DType::E5m2)
    }),
    ("a history for blocks", "1 x 128 was asked for", INVALID, |s| {
        quantize_delayed(s, VECTORS, GROUPS, DType::E4m3)
    }),
    ("a history for more groups", "delayed state: shape [3]", INVALID, |s| {
        quantize_delayed(s, E4M3, GROUPS + 1, DType::E4m3)
    }),
    ("blocks of given scales, planned", "delayed scales are one for each group", INVALID, |_| {
        let destination = spec(SourceShape::Tokens { rows: ROWS, features: K }, VECTORS, BOTH);
        let scales = ScaleSource::Given;
        let problem = QuantizeProblem { scales, ..QuantizeProblem::new(destination, DType::Bf16) };
        Plan::new(problem.into(), Target::CPU).map(drop)
    }),
    ("db of other length, in FP8", "db: shape [48]", INVALID, |s| {
        quantize_summing(s, grouped(s, &[GROUPS, N])?)
    }),
    ("db of integers, in FP8", "db: element type i64", INVALID, |s| {
        let db = Tensor::zeros(s, &[GROUPS, K], DType::I64)?;
        quantize_summing(s, GroupedTensor::packed(db)?)
    }),
    ("db of weights", "db is summed over tokens", INVALID, |s| {
        let (source, mut db) = (grouped(s, &[GROUPS, N, K])?, grouped(s, &[GROUPS, K])?);
        let dbias = Some(DbiasSink { db: &mut db, accumulate: Accumulate::Overwrite });
        let args = QuantizeArgs { dbias, ..QuantizeArgs::new(QuantizeSource::Weights(&source)) };
        quantize(s, args, &mut weights(s, E4M3, BOTH)?)
    }),
    ("db over the tokens", "the output overlaps an input", INVALID, |s| {
        let x = zeros(s, &[ROWS, K])?;
        let mut db = GroupedTensor::packed(x.narrow(0, GROUPS)?)?;
        let splits = Splits::host(&[2, 3])?;
        let dbias = Some(DbiasSink { db: &mut db, accumulate: Accumulate::Overwrite });
        let args = QuantizeArgs { dbias, ..QuantizeArgs::new(QuantizeSource::Tokens(&x, &splits)) };
        quantize(s, args, &mut tokens(s, K, E4M3, BOTH)?)
    }),
    ("both copies in one place", "overlap one another", INVALID, |s| {
        let own = weights(s, VECTORS, ROWWISE)?;
        let copy = own.copy(Direction::Rowwise).expect("rowwise").clone();
        let want = spec(own.spec().source, VECTORS, BOTH).copy(Direction::Columnwise);
        let data = copy.data.reshape(&want.data.shape)?;
        let scale_inv = want.scale_inv.empty(s)?;
        let columnwise = Some(QuantizedCopy { data, scale_inv, amax: None });
        let spec = spec(own.spec().source, VECTORS, BOTH);
        let mut both = QuantizedTensor::from_copies(s, spec, Some(copy), columnwise)?;
        let source = grouped(s, &[GROUPS, N, K])?;
        quantize(s, QuantizeArgs::new(QuantizeSource::Weights(&source)), &mut both)
    }),
    ("no memory for scales", "it has no memory for scales", INVALID, |s| {
        let own = tokens(s, K, E4M3, ROWWISE)?;
        let copy = own.copy(Direction::Rowwise).cloned();
        let to = QuantizedTensor::from_copies(s, own.spec(), copy, None)?;
        quantize_tokens(s, &zeros(s, &[ROWS, K])?, to)
    }),
];

/// What is multiplied.
struct Products {
    x: QuantizedTensor,
    dy: QuantizedTensor,
    weights: QuantizedTensor,
    splits: Splits,
}

impl Products {
    fn new(stream: &Stream) -> Result<Self> {
        Self::of(stream, E4M3, E4M3, BOTH)
    }

    /// Tokens and weights in these formats, all with these copies.
    fn of(stream: &Stream, side: Format, other: Format, copies: [bool; 2]) -> Result<Self> {
        let mut own = Self {
            x: tokens(stream, K, side, copies)?,
            dy: tokens(stream, N, side, copies)?,
            weights: weights(stream, other, copies)?,
            splits: Splits::host(&[2, 3])?,
        };
        for (to, columns) in [(&mut own.x, K), (&mut own.dy, N)] {
            let x = zeros(stream, &[ROWS, columns])?;
            let source = QuantizeSource::Tokens(&x, &own.splits);
            quantize(stream, QuantizeArgs::new(source), to)?;
        }
        let source = grouped(stream, &[GROUPS, N, K])?;
        let args = QuantizeArgs::new(QuantizeSource::Weights(&source));
        quantize(stream, args, &mut own.weights)?;
        Ok(own)
    }

    fn fprop(&self, stream: &Stream, accumulation: Accumulation) -> Result<()> {
        self.fprop_into(stream, accumulation, zeros(stream, &[ROWS, N])?)
    }

    fn fprop_into(&self, stream: &Stream, accumulation: Accumulation, mut y: Tensor) -> Result<()> {
        let Self { x, weights, splits, .. } = self;
        let options = QuantizedGemmOptions { accumulation, ..Default::default() };
        let (bias, bias_row_scales) = (None, None);
        let args = QuantizedFpropArgs { x, weights, splits, bias, bias_row_scales, options };
        quantized_fprop(stream, &args, &mut y)
    }

    fn dgrad(&self, stream: &Stream) -> Result<()> {
        let Self { dy, weights, splits, .. } = self;
        let args = QuantizedDgradArgs { dy, weights, splits, options: Default::default() };
        quantized_dgrad(stream, &args, &mut zeros(stream, &[ROWS, K])?)
    }

    fn wgrad(&self, stream: &Stream) -> Result<()> {
        self.wgrad_into(stream, grouped(stream, &[GROUPS, N, K])?, Factor::Value(1.0))
    }

    fn wgrad_into(&self, stream: &Stream, mut dw: GroupedTensor, alpha: Factor<'_>) -> Result<()> {
        let Self { dy, x, splits, .. } = self;
        let options = QuantizedGemmOptions { alpha, ..Default::default() };
        quantized_wgrad(stream, &QuantizedWgradArgs { dy, x, splits, options }, &mut dw)
    }
}

const FAST: Accumulation = Accumulation::Fast;
const PROMOTED: Accumulation = Accumulation::Promoted;

const PRODUCTS: &[Refusal] = &[
    ("weights as x", "x: weights were given, tokens are needed", INVALID, |s| {
        let own = Products::new(s)?;
        Products { x: own.weights.clone(), ..own }.fprop(s, FAST)
    }),
    ("tokens as weights", "weights: tokens were given", INVALID, |s| {
        let own = Products::new(s)?;
        Products { weights: own.x.clone(), ..own }.fprop(s, FAST)
    }),
    ("x as wide as y", "weights: shape [48, 32]", INVALID, |s| {
        let own = Products::new(s)?;
        Products { x: own.dy.clone(), ..own }.fprop(s, FAST)
    }),
    ("no rowwise x", "x: the rowwise copy is needed", INVALID, |s| {
        let own = Products::new(s)?;
        Products { x: own.x.only(Direction::Columnwise)?, ..own }.fprop(s, FAST)
    }),
    ("no rowwise dy for dx", "dy: the rowwise copy is needed", INVALID, |s| {
        let own = Products::new(s)?;
        Products { dy: own.dy.only(Direction::Columnwise)?, ..own }.dgrad(s)
    }),
    ("no columnwise weights for dx", "weights: the columnwise copy is needed", INVALID, |s| {
        let own = Products::new(s)?;
        Products { weights: own.weights.only(Direction::Rowwise)?, ..own }.dgrad(s)
    }),
    ("no columnwise dy for dw", "dy: the columnwise copy is needed", INVALID, |s| {
        let own = Products::new(s)?;
        Products { dy: own.dy.only(Direction::Rowwise)?, ..own }.wgrad(s)
    }),
    ("no columnwise x for dw", "x: the columnwise copy is needed", INVALID, |s| {
        let own = Products::new(s)?;
        Products { x: own.x.only(Direction::Rowwise)?, ..own }.wgrad(s)
    }),
    ("blocks and one scale", "one operand has a scale for each group", UNSUPPORTED, |s| {
        Products::of(s, E4M3, SQUARES, BOTH)?.fprop(s, PROMOTED)
    }),
    ("one scale and blocks", "one operand has a scale for each group", UNSUPPORTED, |s| {
        Products::of(s, VECTORS, E4M3, BOTH)?.dgrad(s)
    }),
    ("squares by squares", "both operands have square blocks", UNSUPPORTED, |s| {
        Products::of(s, SQUARES, VECTORS, BOTH)?.wgrad(s)
    }),
    ("blocks with fast accumulation", "with fast accumulation", UNSUPPORTED, |s| {
        Products::of(s, VECTORS, SQUARES, BOTH)?.fprop(s, FAST)
    }),
    ("E5M2 on the right", "right operand: element type e5m2", INVALID, |s| {
        Products::of(s, E4M3, E5M2, BOTH)?.fprop(s, FAST)
    }),
    ("x of more rows than dy", "x: it has 7 rows in 2 groups, dy has 6", INVALID, |s| {
        let source = SourceShape::Tokens { rows: ROWS + 1, features: K };
        let x = QuantizedTensor::empty(s, spec(source, E4M3, BOTH))?;
        Products { x, ..Products::new(s)? }.wgrad(s)
    }),
    ("x of more groups than dy", "x: it has 6 rows in 3 groups, dy has 6 in 2", INVALID, |s| {
        let source = SourceShape::Tokens { rows: ROWS, features: K };
        let x = QuantizedSpec { groups: GROUPS + 1, ..spec(source, E4M3, BOTH) };
        let x = QuantizedTensor::empty(s, x)?;
        Products { x, ..Products::new(s)? }.wgrad(s)
    }),
    ("y of integers, from FP8", "output: element type i32", INVALID, |s| {
        Products::new(s)?.fprop_into(s, FAST, Tensor::zeros(s, &[ROWS, N], DType::I32)?)
    }),
    ("y of too few rows, from FP8", "y: shape [5, 48]", INVALID, |s| {
        Products::new(s)?.fprop_into(s, FAST, zeros(s, &[ROWS - 1, N])?)
    }),
    ("transposed dw, from FP8", "dw: shape [32, 48]", INVALID, |s| {
        Products::new(s)?.wgrad_into(s, grouped(s, &[GROUPS, K, N])?, Factor::Value(1.0))
    }),
    ("alphas for more groups, in FP8", "alpha: shape [3]", INVALID, |s| {
        let (own, alpha) = (Products::new(s)?, Tensor::zeros(s, &[GROUPS + 1], DType::F32)?);
        own.wgrad_into(s, grouped(s, &[GROUPS, N, K])?, Factor::PerGroup(&alpha))
    }),
    ("splits for more groups, in FP8", "3 were given", INVALID, |s| {
        let own = Products::new(s)?;
        Products { splits: Splits::host(&[2, 3, 0])?, ..own }.fprop(s, FAST)
    }),
];

/// Memory for one copy of tokens, changed.
fn from_copy(
    stream: &Stream,
    copies: [bool; 2],
    change: impl FnOnce(&mut QuantizedCopy) -> Result<()>,
) -> Result<()> {
    let own = tokens(stream, K, VECTORS, ROWWISE)?;
    let mut copy = own.copy(Direction::Rowwise).expect("rowwise").clone();
    change(&mut copy)?;
    let spec = spec(own.spec().source, VECTORS, copies);
    QuantizedTensor::from_copies(stream, spec, Some(copy), None).map(drop)
}

const COPIES: &[Refusal] = &[
    ("no groups to quantize", "quantized tensor: 0 groups", INVALID, |s| {
        let source = SourceShape::Tokens { rows: ROWS, features: K };
        let spec = QuantizedSpec { groups: 0, ..spec(source, E4M3, BOTH) };
        QuantizedTensor::empty(s, spec).map(drop)
    }),
    ("4097 groups to quantize", "4097 groups were asked for, 1 to 4096", INVALID, |s| {
        let source = SourceShape::Tokens { rows: ROWS, features: K };
        let spec = QuantizedSpec { groups: 4097, ..spec(source, E4M3, BOTH) };
        QuantizedTensor::empty(s, spec).map(drop)
    }),
    ("quantized to BF16", "quantized tensor: element type bf16", INVALID, |s| {
        tokens(s, K, Format::fp8(DType::Bf16, Blocks::Tensor), BOTH).map(drop)
    }),
    ("neither copy", "neither copy was asked for", INVALID, |s| {
        tokens(s, K, E4M3, [false; 2]).map(drop)
    }),
    ("a copy that was not made", "the columnwise copy is needed", INVALID, |s| {
        tokens(s, K, E4M3, ROWWISE)?.only(Direction::Columnwise).map(drop)
    }),
    ("a copy too few", "the columnwise data is missing", INVALID, |s| {
        from_copy(s, BOTH, |_| Ok(()))
    }),
    ("a copy too many", "the rowwise data is given", INVALID, |s| {
        from_copy(s, COLUMNWISE, |_| Ok(()))
    }),
    ("data of fewer rows", "rowwise data: shape [5, 32]", INVALID, |s| {
        from_copy(s, ROWWISE, |copy| {
            copy.data = copy.data.narrow(0, ROWS - 1)?;
            Ok(())
        })
    }),
    ("data of another FP8", "rowwise data: element type e5m2", INVALID, |s| {
        from_copy(s, ROWWISE, |copy| {
            copy.data = Tensor::empty(s, &[ROWS, K], DType::E5m2)?;
            Ok(())
        })
    }),
    ("scales of other length", "rowwise scale_inv: shape [1, 6]", INVALID, |s| {
        from_copy(s, ROWWISE, |copy| {
            copy.scale_inv = Tensor::zeros(s, &[1, ROWS], DType::F32)?;
            Ok(())
        })
    }),
    ("scales in BF16", "rowwise scale_inv: element type bf16", INVALID, |s| {
        from_copy(s, ROWWISE, |copy| {
            copy.scale_inv = zeros(s, copy.scale_inv.shape())?;
            Ok(())
        })
    }),
];

/// Otherwise the tables might refuse for a reason that they do not name.
fn fitting(stream: &Stream) -> Result<()> {
    for (side, other) in [(E4M3, E4M3), (VECTORS, SQUARES), (VECTORS, VECTORS)] {
        let own = Products::of(stream, side, other, BOTH)?;
        own.fprop(stream, PROMOTED)?;
        own.dgrad(stream)?;
        own.wgrad(stream)?;
    }
    let (own, alpha) = (Products::new(stream)?, Tensor::zeros(stream, &[GROUPS], DType::F32)?);
    own.fprop(stream, FAST)?;
    let dw = grouped(stream, &[GROUPS, N, K])?;
    own.wgrad_into(stream, dw, Factor::PerGroup(&alpha))?;
    quantize_tokens(stream, &zeros(stream, &[ROWS, K])?, tokens(stream, K, VECTORS, BOTH)?)?;
    quantize_under(stream, &Tensor::zeros(stream, &[1], DType::I32)?)?;
    quantize_delayed(stream, E4M3, GROUPS, DType::E4m3)?;
    quantize_summing(stream, grouped(stream, &[GROUPS, K])?)?;
    refresh(stream, &[GROUPS, N, K], DType::F32)?;
    from_copy(stream, ROWWISE, |_| Ok(()))?;
    of_config(stream, |_| ())?;
    block(stream, |_| ())?;
    forward(stream, &delayed(stream)?)?;
    let buffers = RecipeBuffers::new(stream, &current(stream)?, ROWS)?;
    forward(stream, &current(stream)?.with_buffers(buffers))
}

/// Neither y, nor the magnitudes that the next scales are made of.
fn nothing_written(stream: &Stream) -> Result<()> {
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
    // Outputs that only the product, which comes last, would refuse.
    let gpu = stream.device().id().kind != DeviceKind::Cpu;
    let arena = Tensor::from_f32(stream, &[ROWS * N + 1], DType::Bf16, &[2.0; ROWS * N + 1])?;
    let part = |start, columns| arena.narrow(start, ROWS * columns)?.reshape(&[ROWS, columns]);
    for (what, x, y) in [
        ("integers", x.clone(), Some(Tensor::zeros(stream, &[ROWS, N], DType::I32)?)),
        ("over the tokens", part(0, K)?, Some(part(0, N)?)),
        ("between 16 bytes", x, gpu.then(|| part(1, N)).transpose()?),
    ] {
        let Some(mut y) = y else { continue };
        let recipe = delayed(stream)?;
        let options = ForwardOptions { recipe: Some(&recipe), ..ForwardOptions::default() };
        let splits = Splits::host(&[2, 3])?;
        let outcome = layer.forward_into(stream, &x, &splits, options, &mut y);
        assert!(outcome.is_err_and(|error| error.is_invalid_argument()), "{what}");
        let amax = recipe.delayed().expect("states").input.amax()?;
        assert_eq!(amax.to_f32(stream)?, [0.0; GROUPS], "{what}");
    }
    Ok(())
}

/// The source starts one element late.
fn misplaced(engine: &str, stream: &Stream) {
    let gpu = stream.device().id().kind != DeviceKind::Cpu;
    let attempt = |late: usize| -> Result<()> {
        let arena = zeros(stream, &[ROWS * K + 8])?;
        let x = arena.narrow(late, ROWS * K)?.reshape(&[ROWS, K])?;
        quantize_tokens(stream, &x, tokens(stream, K, VECTORS, BOTH)?)
    };
    attempt(0).expect(engine);
    attempt(8).expect(engine);
    match attempt(1) {
        Ok(()) => assert!(!gpu, "{engine}: was not refused"),
        Err(error) => {
            assert!(gpu && error.is_invalid_argument(), "{engine}: {error:?}");
            assert!(error.to_string().contains("multiple of 16 bytes"), "{engine}: {error}");
        }
    }
}
