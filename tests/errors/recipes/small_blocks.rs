//! MXFP8 and NVFP4: recipes, quantization and memory.

use grouped_linear::functional::{QuantizeArgs, QuantizeSource, quantize};
use grouped_linear::plan::{Plan, QuantizeProblem, ScaleSource, Target};
use grouped_linear::recipe::{
    BlockShape, ErrorMeasure, Format, FourOverSix, Fp8Types, Mxfp8Scaling, Nvfp4Format,
    Nvfp4Scaling, Recipe, ScaleBound, Scope, Transform,
};
use grouped_linear::{
    BackwardPrecision, Config, DType, DeviceKind, Direction, Form, LayerRecipe, QuantizeWeights,
    QuantizedCopy, QuantizedSpec, QuantizedTensor, RandomState, RecipeBuffers, Result, SourceShape,
    Splits, Stream, Tensor, WeightCache,
};

use super::quantizations::{quantize_delayed, quantize_tokens};
use super::{E4M3, K, UNSUPPORTED, VECTORS, grouped, zeros};
use crate::fitting::{GROUPS, ROWS};
use crate::{INVALID, Refusal};

/// A multiple of 32, as MXFP8 needs.
pub(super) const WIDE: usize = 64;
pub(super) const CODES: [Option<Form>; 2] = [Some(Form::Codes); 2];
pub(super) const SWIZZLED: [Option<Form>; 2] = [Some(Form::Swizzled); 2];
pub(super) const EXACT: [Option<Form>; 2] = [Some(Form::Exact); 2];
const LINE: BlockShape = BlockShape::Line;

pub(super) const MXFP8: Format = Format::Mxfp8 { dtype: DType::E4m3, blocks: LINE };
pub(super) const NVFP4: Format = Format::Nvfp4(Nvfp4Format::LINES);
pub(super) const SQUARES: Nvfp4Format =
    Nvfp4Format { blocks: BlockShape::Square, ..Nvfp4Format::LINES };
pub(super) const MIXED: Nvfp4Format =
    Nvfp4Format { transform: Transform::Hadamard, ..Nvfp4Format::LINES };
/// Tokens with a scale for each row.
pub(super) const SCALED_ROWS: Nvfp4Format = Nvfp4Format { scope: Scope::Row, ..Nvfp4Format::LINES };
const REDUCED: Nvfp4Format = Nvfp4Format { bound: ScaleBound::Reduced, ..Nvfp4Format::LINES };
const SQUARED: Option<ErrorMeasure> = Some(ErrorMeasure::Squared);

pub(super) const WIDE_CONFIG: Config =
    Config { groups: GROUPS, in_features: K, out_features: WIDE, dtype: DType::Bf16 };
pub(super) const MXFP8_RECIPE: Recipe =
    Recipe::Mxfp8(Mxfp8Scaling { types: Fp8Types::E4m3, weight: LINE });

pub(super) fn token_spec(
    features: usize,
    format: Format,
    forms: [Option<Form>; 2],
) -> QuantizedSpec {
    let [rowwise, columnwise] = forms;
    let source = SourceShape::Tokens { rows: ROWS, features };
    QuantizedSpec { groups: GROUPS, source, format, rowwise, columnwise }
}

pub(super) fn weight_spec(format: Format, forms: [Option<Form>; 2]) -> QuantizedSpec {
    let source = SourceShape::Weights { rows: WIDE, columns: K };
    QuantizedSpec { source, ..token_spec(K, format, forms) }
}

fn empty(stream: &Stream, spec: QuantizedSpec) -> Result<()> {
    QuantizedTensor::empty(stream, spec).map(drop)
}

fn of_config(stream: &Stream, recipe: Recipe, change: impl FnOnce(&mut Config)) -> Result<()> {
    let mut config = WIDE_CONFIG;
    change(&mut config);
    LayerRecipe::new(stream, config, recipe).map(drop)
}

fn nvfp4(stream: &Stream, change: impl FnOnce(&mut Nvfp4Scaling)) -> Result<LayerRecipe> {
    let mut nvfp4 = Nvfp4Scaling::default();
    change(&mut nvfp4);
    LayerRecipe::new(stream, WIDE_CONFIG, Recipe::Nvfp4(nvfp4))
}

const FOUR_OVER_SIX: FourOverSix =
    FourOverSix { error: ErrorMeasure::Squared, bound: ScaleBound::Reduced };

pub(super) const RECIPES: &[Refusal] = &[
    (
        "MXFP8 of 48 in_features",
        "in_features is 48, MXFP8 needs a multiple of 32 (so",
        UNSUPPORTED,
        |s| of_config(s, MXFP8_RECIPE, |config| config.in_features = 48),
    ),
    (
        "MXFP8 of 48 out_features",
        "out_features is 48, MXFP8 needs a multiple of 32 (so",
        UNSUPPORTED,
        |s| of_config(s, MXFP8_RECIPE, |config| config.out_features = 48),
    ),
    (
        "NVFP4 of 24 in_features",
        "in_features is 24, NVFP4 needs a multiple of 16 (so",
        UNSUPPORTED,
        |s| of_config(s, Recipe::Nvfp4(Nvfp4Scaling::default()), |config| config.in_features = 24),
    ),
    (
        "NVFP4 of 24 out_features",
        "out_features is 24, NVFP4 needs a multiple of 16 (so",
        UNSUPPORTED,
        |s| of_config(s, Recipe::Nvfp4(Nvfp4Scaling::default()), |config| config.out_features = 24),
    ),
    ("a layer of integers in NVFP4", "source: element type i32", INVALID, |s| {
        of_config(s, Recipe::Nvfp4(Nvfp4Scaling::default()), |config| config.dtype = DType::I32)
    }),
    ("four over six of mixed tokens", "was asked for with the Hadamard", UNSUPPORTED, |s| {
        nvfp4(s, |nvfp4| nvfp4.input_four_over_six = Some(FOUR_OVER_SIX)).map(drop)
    }),
    (
        "backward from scaled rows",
        "have no copy that the gradient of the weights",
        UNSUPPORTED,
        |s| {
            let recipe = nvfp4(s, |nvfp4| nvfp4.input = Scope::Row)?;
            recipe.with_backward(BackwardPrecision::Recipe).map(drop)
        },
    ),
    ("random numbers for MXFP8", "a recipe that rounds nothing at random", INVALID, |s| {
        let recipe = LayerRecipe::new(s, WIDE_CONFIG, MXFP8_RECIPE)?;
        recipe.with_random(RandomState::new(s, 1)?).map(drop)
    }),
    ("random numbers for nearest NVFP4", "a recipe that rounds nothing at random", INVALID, |s| {
        let recipe = nvfp4(s, |nvfp4| nvfp4.stochastic_gradients = false)?;
        recipe.with_random(RandomState::new(s, 1)?).map(drop)
    }),
    ("weights in squares for lines", "quantized weights: ", INVALID, |s| {
        let squares = Format::Mxfp8 { dtype: DType::E4m3, blocks: BlockShape::Square };
        let weights = QuantizedTensor::empty(s, weight_spec(squares, EXACT))?;
        LayerRecipe::new(s, WIDE_CONFIG, MXFP8_RECIPE)?.with_weights(weights).map(drop)
    }),
    ("master weights of 48 rows, for MXFP8", "out_features is 48, MXFP8 needs", UNSUPPORTED, |s| {
        let config = Config { out_features: 48, ..WIDE_CONFIG };
        let prepare = |recipe| QuantizeWeights { recipe, master: DType::F32 };
        WeightCache::new(s, prepare(LayerRecipe::new(s, config, MXFP8_RECIPE)?)).map(drop)
    }),
    ("a random state of three", "random state: shape [3]", INVALID, |s| {
        RandomState::from_tensor(Tensor::zeros(s, &[3], DType::I64)?).map(drop)
    }),
    ("a random state in 32 bits", "random state: element type i32", INVALID, |s| {
        RandomState::from_tensor(Tensor::zeros(s, &[2], DType::I32)?).map(drop)
    }),
];

/// Quantizes fitting tokens, with arguments that may not fit.
fn quantize_with(
    stream: &Stream,
    format: Format,
    change: impl for<'a> FnOnce(&mut QuantizeArgs<'a>, &'a RandomState),
) -> Result<()> {
    let mut to = QuantizedTensor::empty(stream, token_spec(K, format, [CODES[0], None]))?;
    let (x, splits) = (zeros(stream, &[ROWS, K])?, Splits::host(&[2, 3])?);
    let random = RandomState::new(stream, 1)?;
    let mut args = QuantizeArgs::new(QuantizeSource::Tokens(&x, &splits));
    change(&mut args, &random);
    quantize(stream, args, &mut to)
}

pub(super) const QUANTIZATIONS: &[Refusal] = &[
    (
        "tokens of 48 features in MXFP8",
        "features is 48, MXFP8 needs a multiple of 32",
        UNSUPPORTED,
        |s| {
            let to = QuantizedTensor::empty(s, token_spec(48, MXFP8, CODES))?;
            quantize_tokens(s, &zeros(s, &[ROWS, 48])?, to)
        },
    ),
    (
        "tokens of 24 features in NVFP4",
        "features is 24, NVFP4 needs a multiple of 16",
        UNSUPPORTED,
        |s| {
            let to = QuantizedTensor::empty(s, token_spec(24, NVFP4, CODES))?;
            quantize_tokens(s, &zeros(s, &[ROWS, 24])?, to)
        },
    ),
    ("weights of 48 rows in MXFP8", "out_features is 48, MXFP8 needs", UNSUPPORTED, |s| {
        let source = SourceShape::Weights { rows: 48, columns: K };
        let spec = QuantizedSpec { source, ..weight_spec(MXFP8, EXACT) };
        let weights = grouped(s, &[GROUPS, 48, K])?;
        let args = QuantizeArgs::new(QuantizeSource::Weights(&weights));
        quantize(s, args, &mut QuantizedTensor::empty(s, spec)?)
    }),
    ("powers of two asked of MXFP8", "1 x 32 has a rule of its own", UNSUPPORTED, |s| {
        quantize_with(s, MXFP8, |args, _| args.scale.power_of_two = true)
    }),
    ("an epsilon for NVFP4", "1 x 16 has a rule of its own", UNSUPPORTED, |s| {
        quantize_with(s, NVFP4, |args, _| args.scale.epsilon = 1e-4)
    }),
    ("an epsilon below zero, quantizing", "scale: epsilon is -1", INVALID, |s| {
        quantize_with(s, E4M3, |args, _| args.scale.epsilon = -1.0)
    }),
    ("an infinite epsilon, quantizing", "scale: epsilon is inf", INVALID, |s| {
        quantize_with(s, VECTORS, |args, _| args.scale.epsilon = f32::INFINITY)
    }),
    ("an epsilon that is no number, quantizing", "scale: epsilon is NaN", INVALID, |s| {
        quantize_with(s, NVFP4, |args, _| args.scale.epsilon = f32::NAN)
    }),
    ("four over six in FP8", "which NVFP4 has", UNSUPPORTED, |s| {
        quantize_with(s, E4M3, |args, _| args.four_over_six = SQUARED)
    }),
    ("four over six in MXFP8", "which NVFP4 has", UNSUPPORTED, |s| {
        quantize_with(s, MXFP8, |args, _| args.four_over_six = SQUARED)
    }),
    ("MXFP8 rounded at random", "which NVFP4 has", UNSUPPORTED, |s| {
        quantize_with(s, MXFP8, |args, random| args.random = Some(random))
    }),
    ("four over six, rounded at random", "needs rounding to nearest", UNSUPPORTED, |s| {
        quantize_with(s, NVFP4, |args, random| {
            args.four_over_six = SQUARED;
            args.random = Some(random);
        })
    }),
    ("four over six of what is mixed", "and no transform", UNSUPPORTED, |s| {
        quantize_with(s, Format::Nvfp4(MIXED), |args, _| args.four_over_six = SQUARED)
    }),
    ("a bound of 256 without four over six", "leaves room for four over six", UNSUPPORTED, |s| {
        quantize_with(s, Format::Nvfp4(REDUCED), |_, _| ())
    }),
    ("squares rounded at random", "needs blocks that are lines", UNSUPPORTED, |s| {
        quantize_with(s, Format::Nvfp4(SQUARES), |args, random| args.random = Some(random))
    }),
    ("scaled rows rounded at random", "and scales of groups", UNSUPPORTED, |s| {
        quantize_with(s, Format::Nvfp4(SCALED_ROWS), |args, random| args.random = Some(random))
    }),
    ("a history for MXFP8", "MXFP8 e4m3, 1 x 32 was asked for", INVALID, |s| {
        quantize_delayed(s, MXFP8, GROUPS, DType::E4m3)
    }),
    ("NVFP4 of given scales, planned", "delayed scales are one for each group", INVALID, |_| {
        let plain = QuantizeProblem::new(token_spec(K, NVFP4, CODES), DType::Bf16);
        let problem = QuantizeProblem { scales: ScaleSource::Given, ..plain };
        Plan::new(problem.into(), Target::CPU).map(drop)
    }),
    ("the splits as a random state", "the output overlaps an input", INVALID, |s| {
        let two = Tensor::from_slice(s, &[GROUPS], &[2_i64, 3])?;
        let (splits, random) = (Splits::device(two.clone())?, RandomState::from_tensor(two)?);
        let (x, spec) = (zeros(s, &[ROWS, K])?, token_spec(K, NVFP4, CODES));
        let args = QuantizeArgs::new(QuantizeSource::Tokens(&x, &splits));
        let args = QuantizeArgs { random: Some(&random), ..args };
        quantize(s, args, &mut QuantizedTensor::empty(s, spec)?)
    }),
];

/// Memory for the rowwise copy of tokens, changed.
fn from_copy(
    stream: &Stream,
    format: Format,
    form: Form,
    change: impl FnOnce(&mut QuantizedCopy) -> Result<()>,
) -> Result<QuantizedTensor> {
    let own = QuantizedTensor::empty(stream, token_spec(K, format, [Some(form), None]))?;
    let mut copy = own.copy(Direction::Rowwise).expect("rowwise").clone();
    change(&mut copy)?;
    QuantizedTensor::from_copies(stream, own.spec(), Some(copy), None)
}

/// Memory for tokens in codes of NVFP4, with other magnitudes.
fn with_amax(stream: &Stream, shape: &[usize], dtype: DType) -> Result<()> {
    let amax = Tensor::zeros(stream, shape, dtype)?;
    from_copy(stream, NVFP4, Form::Codes, |copy| {
        copy.amax = Some(amax);
        Ok(())
    })
    .map(drop)
}

pub(super) const COPIES: &[Refusal] = &[
    ("MXFP8 of BF16", "quantized tensor: element type bf16", INVALID, |s| {
        empty(s, token_spec(K, Format::Mxfp8 { dtype: DType::Bf16, blocks: LINE }, CODES))
    }),
    ("exact numbers of FP8", "FP8 with FP32 scales has one form", UNSUPPORTED, |s| {
        empty(s, token_spec(K, E4M3, EXACT))
    }),
    ("swizzled scales of FP8", "FP8 with FP32 scales has one form", UNSUPPORTED, |s| {
        empty(s, weight_spec(E4M3, [CODES[0], SWIZZLED[1]]))
    }),
    ("mixed squares", "the Hadamard transform was asked for with square", UNSUPPORTED, |s| {
        let format = Format::Nvfp4(Nvfp4Format { transform: Transform::Hadamard, ..SQUARES });
        empty(s, token_spec(K, format, CODES))
    }),
    ("mixed tokens with scaled rows", "needs blocks that are lines and no", UNSUPPORTED, |s| {
        let format = Format::Nvfp4(Nvfp4Format { scope: Scope::Row, ..MIXED });
        empty(s, token_spec(K, format, [CODES[0], None]))
    }),
    ("squares with scaled rows", "needs blocks that are lines and no", UNSUPPORTED, |s| {
        let format = Format::Nvfp4(Nvfp4Format { scope: Scope::Row, ..SQUARES });
        empty(s, token_spec(K, format, [CODES[0], None]))
    }),
    ("scaled rows, columnwise", "which rowwise copies of tokens can have", UNSUPPORTED, |s| {
        empty(s, token_spec(K, Format::Nvfp4(SCALED_ROWS), CODES))
    }),
    ("weights with scaled rows", "which rowwise copies of tokens can have", UNSUPPORTED, |s| {
        empty(s, weight_spec(Format::Nvfp4(SCALED_ROWS), [CODES[0], None]))
    }),
    ("NVFP4 without magnitudes", "the rowwise amax is missing", INVALID, |s| {
        from_copy(s, NVFP4, Form::Codes, |copy| {
            copy.amax = None;
            Ok(())
        })
        .map(drop)
    }),
    ("MXFP8 with magnitudes", "the rowwise amax is given", INVALID, |s| {
        from_copy(s, MXFP8, Form::Exact, |copy| {
            copy.amax = Some(Tensor::zeros(s, &[GROUPS], DType::F32)?);
            Ok(())
        })
        .map(drop)
    }),
    ("magnitudes of more groups", "rowwise amax: shape [3]", INVALID, |s| {
        with_amax(s, &[GROUPS + 1], DType::F32)
    }),
    ("magnitudes in BF16", "rowwise amax: element type bf16", INVALID, |s| {
        with_amax(s, &[GROUPS], DType::Bf16)
    }),
    ("magnitudes of groups for rows", "rowwise amax: shape [2]", INVALID, |s| {
        let amax = Tensor::zeros(s, &[GROUPS], DType::F32)?;
        from_copy(s, Format::Nvfp4(SCALED_ROWS), Form::Codes, |copy| {
            copy.amax = Some(amax);
            Ok(())
        })
        .map(drop)
    }),
    ("FP32 scales of MXFP8", "rowwise scale_inv: element type f32", INVALID, |s| {
        from_copy(s, MXFP8, Form::Codes, |copy| {
            copy.scale_inv = Tensor::zeros(s, copy.scale_inv.shape(), DType::F32)?;
            Ok(())
        })
        .map(drop)
    }),
    ("scales of exact numbers", "rowwise scale_inv: shape [4]", INVALID, |s| {
        from_copy(s, NVFP4, Form::Exact, |copy| {
            copy.scale_inv = Tensor::zeros(s, &[4], DType::U8)?;
            Ok(())
        })
        .map(drop)
    }),
    ("a byte for each number of NVFP4", "rowwise data: shape [6, 32]", INVALID, |s| {
        from_copy(s, NVFP4, Form::Codes, |copy| {
            copy.data = Tensor::zeros(s, &[ROWS, K], DType::U8)?;
            Ok(())
        })
        .map(drop)
    }),
    ("codes as exact numbers", "rowwise data: element type e4m3", INVALID, |s| {
        from_copy(s, MXFP8, Form::Exact, |copy| {
            copy.data = Tensor::zeros(s, &[ROWS, K], DType::E4m3)?;
            Ok(())
        })
        .map(drop)
    }),
];

/// Each part of a copy starts one element late, in turn.
pub(super) fn misplaced(engine: &str, stream: &Stream) {
    let gpu = stream.device().id().kind != DeviceKind::Cpu;
    let late = |tensor: &Tensor, by: usize| -> Result<Tensor> {
        let arena = Tensor::zeros(stream, &[tensor.len() + 64], tensor.dtype())?;
        arena.narrow(by, tensor.len())?.reshape(tensor.shape())
    };
    let attempt = |format, part: usize, by: usize| -> Result<()> {
        let to = from_copy(stream, format, Form::Codes, |copy| {
            match part {
                0 => copy.data = late(&copy.data, by)?,
                1 => copy.scale_inv = late(&copy.scale_inv, by)?,
                _ => copy.amax = copy.amax.as_ref().map(|amax| late(amax, by)).transpose()?,
            }
            Ok(())
        })?;
        quantize_tokens(stream, &zeros(stream, &[ROWS, K])?, to)
    };
    for (format, part) in [(MXFP8, 0), (MXFP8, 1), (NVFP4, 0), (NVFP4, 1), (NVFP4, 2)] {
        let what = format!("{engine}: {format}, part {part}");
        attempt(format, part, 16).expect(&what);
        match attempt(format, part, 1) {
            // The kernels take magnitudes one by one.
            Ok(()) => assert!(!gpu || part == 2, "{what}: was not refused"),
            Err(error) => {
                assert!(gpu && part != 2 && error.is_invalid_argument(), "{what}: {error:?}");
                assert!(error.to_string().contains("multiple of 16 bytes"), "{what}: {error}");
            }
        }
    }
}

/// What the tables spoil.
pub(super) fn fitting(stream: &Stream) -> Result<()> {
    of_config(stream, MXFP8_RECIPE, |_| ())?;
    nvfp4(stream, |nvfp4| nvfp4.input = Scope::Row)?;
    nvfp4(stream, |nvfp4| {
        nvfp4.transform = Transform::None;
        nvfp4.input_four_over_six = Some(FOUR_OVER_SIX);
    })?;
    nvfp4(stream, |_| ())?.with_random(RandomState::new(stream, 1)?)?;
    let weights = QuantizedTensor::empty(stream, weight_spec(MXFP8, EXACT))?;
    let mxfp8 = LayerRecipe::new(stream, WIDE_CONFIG, MXFP8_RECIPE)?;
    mxfp8.clone().with_weights(weights)?;
    let buffers = RecipeBuffers::new(stream, &mxfp8, ROWS)?;
    mxfp8.with_buffers(buffers);
    quantize_with(stream, MXFP8, |_, _| ())?;
    quantize_with(stream, NVFP4, |args, random| args.random = Some(random))?;
    quantize_with(stream, Format::Nvfp4(MIXED), |args, random| args.random = Some(random))?;
    for format in [NVFP4, Format::Nvfp4(REDUCED), Format::Nvfp4(SQUARES)] {
        quantize_with(stream, format, |args, _| args.four_over_six = SQUARED)?;
    }
    quantize_with(stream, Format::Nvfp4(SCALED_ROWS), |args, _| args.four_over_six = SQUARED)?;
    with_amax(stream, &[GROUPS], DType::F32)?;
    from_copy(stream, MXFP8, Form::Exact, |_| Ok(()))?;
    from_copy(stream, Format::Nvfp4(SCALED_ROWS), Form::Codes, |_| Ok(())).map(drop)
}
