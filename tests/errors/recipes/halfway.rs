//! What would be refused half-way, when tokens or gradients have been quantized already: nothing of
//! the caller's may have changed, neither outputs nor histories nor random states.

use grouped_linear::functional::{DequantizeSink, dequantize};
use grouped_linear::recipe::{Mxfp8Scaling, Nvfp4Scaling, Recipe};
use grouped_linear::{
    BackwardOptions, BackwardPrecision, Config, DType, DelayedState, DeviceKind, Direction,
    ForwardOptions, GradSink, GroupedLinear, GroupedTensor, KernelChoice, LayerRecipe, Needs,
    QuantizedCopy, QuantizedTensor, RecipeBuffers, Result, RowSink, SavePolicy, Saved, Splits,
    Stream, Tensor, Wgrad,
};

use super::layers::delayed;
use super::{BOTH, CONFIG, E4M3, K, N, SQUARES, VECTORS, grouped, tokens, weights};
use crate::fitting::{GROUPS, ROWS};
use crate::other_device;

/// What no refused call changes.
const HELD: f32 = 7.0;

/// What a call is given.
struct Step {
    layer: GroupedLinear,
    recipe: LayerRecipe,
    needs: Needs,
    tokens: Tensor,
    /// In place of those that forward quantizes.
    x: Option<QuantizedTensor>,
}

impl Step {
    fn new(stream: &Stream) -> Result<Self> {
        let bias = ones(stream, &[GROUPS, N])?;
        let layer = layer_of(stream, ones(stream, &[GROUPS, N, K])?, bias)?;
        let tokens = ones(stream, &[ROWS, K])?;
        Ok(Self { layer, recipe: delayed(stream)?, needs: Needs::default(), tokens, x: None })
    }

    fn forward(&self, stream: &Stream, y: &mut Tensor) -> Result<Saved> {
        let Self { layer, recipe, needs, tokens, x } = self;
        let options =
            ForwardOptions { recipe: Some(recipe), needs: *needs, ..ForwardOptions::default() };
        let splits = Splits::host(&[2, 3])?;
        match x {
            Some(x) => layer.forward_prequantized_into(stream, x, &splits, options, y),
            None => layer.forward_into(stream, tokens, &splits, options, y),
        }
    }

    /// Largest magnitudes of this step: of tokens, weights and output gradients.
    fn magnitudes(&self, stream: &Stream) -> Result<[Vec<f32>; 3]> {
        let Some(states) = self.recipe.delayed() else { return Ok(Default::default()) };
        let amax = |own: &DelayedState| own.amax()?.to_f32(stream);
        Ok([amax(&states.input)?, amax(&states.weight)?, amax(&states.grad_output)?])
    }
}

fn layer_of(stream: &Stream, weights: Tensor, bias: Tensor) -> Result<GroupedLinear> {
    let [weights, bias] = [weights, bias].map(GroupedTensor::packed);
    GroupedLinear::new(stream, CONFIG, weights?, Some(bias?))
}

fn ones(stream: &Stream, shape: &[usize]) -> Result<Tensor> {
    filled(stream, shape, 1.0)
}

fn filled(stream: &Stream, shape: &[usize], value: f32) -> Result<Tensor> {
    Tensor::from_f32(stream, shape, DType::Bf16, &vec![value; shape.iter().product()])
}

/// A view of ones, one element late.
fn late(stream: &Stream, shape: &[usize]) -> Result<Tensor> {
    let count = shape.iter().product();
    ones(stream, &[count + 1])?.narrow(1, count)?.reshape(shape)
}

/// The same tensor with the data of one copy a byte late.
pub(super) fn with_late(
    stream: &Stream,
    own: &QuantizedTensor,
    direction: Direction,
) -> Result<QuantizedTensor> {
    with_late_part(stream, own, direction, |copy| &mut copy.data)
}

/// The same tensor with a part of one copy an element late.
fn with_late_part(
    stream: &Stream,
    own: &QuantizedTensor,
    direction: Direction,
    part: fn(&mut QuantizedCopy) -> &mut Tensor,
) -> Result<QuantizedTensor> {
    let copy = |each| -> Result<QuantizedCopy> {
        let mut copy = own.copy(each).expect("both copies").clone();
        if each == direction {
            let part = part(&mut copy);
            let (shape, count) = (part.shape().to_vec(), part.len());
            let arena = Tensor::zeros(stream, &[count + 1], part.dtype())?;
            *part = arena.narrow(1, count)?.reshape(&shape)?;
        }
        Ok(copy)
    };
    let (rowwise, columnwise) = (copy(Direction::Rowwise)?, copy(Direction::Columnwise)?);
    QuantizedTensor::from_copies(stream, own.spec(), Some(rowwise), Some(columnwise))
}

/// Spoils one thing that forward is given, with the help of another device where it is named so;
/// whether kernels alone mind.
type Spoiled = (&'static str, bool, fn(&Stream, &Stream, &mut Step) -> Result<()>);

const FORWARD: &[Spoiled] = &[
    ("buffers without room for columnwise weights", false, |s, _, step| {
        let high = step.recipe.clone().with_backward(BackwardPrecision::High)?;
        let buffers = RecipeBuffers::new(s, &high, ROWS)?;
        step.recipe = step.recipe.clone().with_buffers(buffers);
        step.needs = Needs { dw: false, ..Needs::default() };
        Ok(())
    }),
    ("weights of another device", false, |_, other, step| {
        let weights = GroupedTensor::packed(ones(other, &[GROUPS, N, K])?)?;
        step.layer = GroupedLinear::new(other, CONFIG, weights, None)?;
        Ok(())
    }),
    ("quantized weights of another device", false, |_, other, step| {
        step.recipe = step.recipe.clone().with_weights(weights(other, E4M3, BOTH)?)?;
        Ok(())
    }),
    ("tokens of another device", false, |_, other, step| {
        step.tokens = ones(other, &[ROWS, K])?;
        Ok(())
    }),
    ("a random state of another device", false, |_, other, step| {
        step.recipe = LayerRecipe::new(other, CONFIG, Recipe::Nvfp4(Nvfp4Scaling::default()))?;
        Ok(())
    }),
    ("late weights for dx in high precision, beside quantized ones", true, |s, _, step| {
        step.layer = layer_of(s, late(s, &[GROUPS, N, K])?, ones(s, &[GROUPS, N])?)?;
        let recipe = step.recipe.clone().with_backward(BackwardPrecision::High)?;
        step.recipe = recipe.with_weights(weights(s, E4M3, BOTH)?)?;
        Ok(())
    }),
    ("late weights", true, |s, _, step| {
        step.layer = layer_of(s, late(s, &[GROUPS, N, K])?, ones(s, &[GROUPS, N])?)?;
        Ok(())
    }),
    ("late discrete weights", true, |s, _, step| {
        let each = vec![ones(s, &[N, K])?, late(s, &[N, K])?];
        let bias = GroupedTensor::packed(ones(s, &[GROUPS, N])?)?;
        let weights = GroupedTensor::discrete(s, each)?;
        step.layer = GroupedLinear::new(s, CONFIG, weights, Some(bias))?;
        Ok(())
    }),
    ("late quantized weights", true, |s, _, step| {
        let late = with_late(s, &weights(s, E4M3, BOTH)?, Direction::Rowwise)?;
        step.recipe = step.recipe.clone().with_weights(late)?;
        Ok(())
    }),
    ("a late bias", true, |s, _, step| {
        step.layer = layer_of(s, ones(s, &[GROUPS, N, K])?, late(s, &[GROUPS, N])?)?;
        Ok(())
    }),
    ("late quantized tokens", true, |s, _, step| {
        step.x = Some(with_late(s, &tokens(s, K, E4M3, BOTH)?, Direction::Rowwise)?);
        Ok(())
    }),
    ("late quantized weights for dx", true, |s, _, step| {
        let late = with_late(s, &weights(s, E4M3, BOTH)?, Direction::Columnwise)?;
        step.recipe = step.recipe.clone().with_weights(late)?;
        Ok(())
    }),
    ("late quantized tokens for dw", true, |s, _, step| {
        step.x = Some(with_late(s, &tokens(s, K, E4M3, BOTH)?, Direction::Columnwise)?);
        Ok(())
    }),
];

/// Puts a copy that no gradient asked for needs, of tokens or of weights, between two multiples of
/// 16 bytes.
type Misplaced = (&'static str, fn(&Stream, &mut Step) -> Result<()>);

const UNREAD: &[Misplaced] = &[
    ("late quantized weights without dx", |s, step| {
        let late = with_late(s, &weights(s, E4M3, BOTH)?, Direction::Columnwise)?;
        step.recipe = step.recipe.clone().with_weights(late)?;
        step.needs = Needs { dx: false, ..Needs::default() };
        Ok(())
    }),
    ("late quantized tokens without dw", |s, step| {
        step.x = Some(with_late(s, &tokens(s, K, E4M3, BOTH)?, Direction::Columnwise)?);
        step.needs = Needs { dw: false, ..Needs::default() };
        Ok(())
    }),
];

/// What nobody reads may lie anywhere.
pub(super) fn unread(stream: &Stream) -> Result<()> {
    for (what, spoil) in UNREAD {
        let mut step = Step::new(stream)?;
        spoil(stream, &mut step)?;
        let saved = step.forward(stream, &mut filled(stream, &[ROWS, N], HELD)?)?;
        let dy = ones(stream, &[ROWS, N])?;
        let grads = step.layer.backward_with(stream, saved, &dy, BackwardOptions::default())?;
        assert_eq!(
            [grads.dx.is_some(), grads.dw.is_some()],
            [step.needs.dx, step.needs.dw],
            "{what}"
        );
    }
    Ok(())
}

/// Forward notes no magnitudes, and leaves y.
pub(super) fn forward(stream: &Stream) -> Result<()> {
    let gpu = stream.device().id().kind != DeviceKind::Cpu;
    let Some(other) = other_device::stream(stream) else { return Ok(()) };
    for (what, kernels_alone, spoil) in FORWARD {
        let mut step = Step::new(stream)?;
        spoil(stream, &other, &mut step)?;
        let mut y = filled(stream, &[ROWS, N], HELD)?;
        let outcome = step.forward(stream, &mut y);
        if !gpu && *kernels_alone {
            assert!(outcome.is_ok(), "{what}: {outcome:?}");
            continue;
        }
        assert!(outcome.is_err_and(|error| error.is_invalid_argument()), "{what}");
        assert_eq!(y.to_f32(stream)?, [HELD; ROWS * N], "{what}");
        let magnitudes = step.magnitudes(stream)?;
        assert!(magnitudes.iter().flatten().all(|&amax| amax == 0.0), "{what}: {magnitudes:?}");
    }
    Ok(())
}

/// Without tokens no product reads the weights, but backward restores them all the same.
pub(super) fn restored(stream: &Stream) -> Result<()> {
    let gpu = stream.device().id().kind != DeviceKind::Cpu;
    let Step { layer, recipe, .. } = Step::new(stream)?;
    let late = with_late(stream, &weights(stream, E4M3, BOTH)?, Direction::Rowwise)?;
    let recipe = recipe.with_backward(BackwardPrecision::Dequantized)?.with_weights(late)?;
    let (x, splits) = (Tensor::zeros(stream, &[0, K], DType::Bf16)?, Splits::host(&[0, 0])?);
    for dx in [false, true] {
        let needs = Needs { dx, ..Needs::default() };
        let options = ForwardOptions { recipe: Some(&recipe), needs, ..ForwardOptions::default() };
        match layer.forward(stream, &x, &splits, options) {
            Ok((dy, saved)) => {
                layer.backward_with(stream, saved, &dy, BackwardOptions::default())?;
            }
            Err(error) => {
                assert!(gpu && dx && error.is_invalid_argument(), "{error:?}");
                assert!(error.to_string().contains("multiple of 16 bytes"), "{error}");
            }
        }
    }
    Ok(())
}

/// What restores a copy takes four scales at once where each column has its own, else one by one.
pub(super) fn late_scales(stream: &Stream) -> Result<()> {
    let gpu = stream.device().id().kind != DeviceKind::Cpu;
    for format in [E4M3, SQUARES, VECTORS] {
        for direction in [Direction::Rowwise, Direction::Columnwise] {
            let own = weights(stream, format, BOTH)?;
            let late = with_late_part(stream, &own, direction, |copy| &mut copy.scale_inv)?;
            let mut to = grouped(stream, &[GROUPS, N, K])?;
            let outcome = dequantize(stream, &late, direction, DequantizeSink::Weights(&mut to));
            let refused = gpu && format == VECTORS && direction == Direction::Columnwise;
            let is_misplaced = outcome.err().map(|error| error.is_invalid_argument());
            assert_eq!(is_misplaced, refused.then_some(true), "{format}, {direction:?}");
            stream.synchronize()?;
        }
    }
    Ok(())
}

/// Which gradients a backward is asked for.
type Asked = (&'static str, fn() -> BackwardOptions<'static>);

const GRADIENTS: &[Asked] = &[
    ("all, new", BackwardOptions::default),
    ("dx, new", || BackwardOptions { dw: Wgrad::Skip, ..BackwardOptions::default() }),
    ("dw, new", || BackwardOptions { dx: RowSink::Skip, ..BackwardOptions::default() }),
    ("dw, later", || BackwardOptions {
        dx: RowSink::Skip,
        dw: Wgrad::Delayed,
        ..BackwardOptions::default()
    }),
];

/// An output gradient between two multiples of 16 bytes, which kernels alone cannot quantize: it is
/// not measured, no random number is drawn, and the bias's gradient is left.
pub(super) fn late_gradient(stream: &Stream) -> Result<()> {
    let gpu = stream.device().id().kind != DeviceKind::Cpu;
    let nvfp4 = LayerRecipe::new(stream, CONFIG, Recipe::Nvfp4(Nvfp4Scaling::default()))?;
    for recipe in [delayed(stream)?, nvfp4.clone(), nvfp4.with_save(SavePolicy::Original)?] {
        for (asked, options) in GRADIENTS {
            let what = format!("{:?}, {asked}", recipe.spec());
            let step = Step { recipe: recipe.clone(), ..Step::new(stream)? };
            let state = || -> Result<_> {
                let random = recipe.random().map(|own| own.read(stream)).transpose()?;
                Ok((step.magnitudes(stream)?, random))
            };
            let saved = step.forward(stream, &mut filled(stream, &[ROWS, N], HELD)?)?;
            let before = state()?;
            let mut db = GroupedTensor::packed(filled(stream, &[GROUPS, N], HELD)?)?;
            let options = BackwardOptions { db: Some(GradSink::Accumulate(&mut db)), ..options() };
            let dy = late(stream, &[ROWS, N])?;
            let outcome = step.layer.backward_with(stream, saved, &dy, options).map(drop);
            if !gpu {
                assert!(outcome.is_ok(), "{what}: {outcome:?}");
                continue;
            }
            let text = outcome.expect_err(&what).to_string();
            assert!(text.contains("multiple of 16 bytes"), "{what}: {text}");
            let db = db.as_packed().expect("packed").to_f32(stream)?;
            assert_eq!(db, [HELD; GROUPS * N], "{what}");
            assert!(state()? == before, "{what}");
        }
    }
    Ok(())
}

/// Tiles that forward alone has, and operands of another device: whatever becomes of the gradients,
/// the bias's is not summed, and no random number is drawn.
pub(super) fn kernels(stream: &Stream) -> Result<()> {
    const WIDE: usize = 64;
    let config =
        Config { groups: GROUPS, in_features: WIDE, out_features: WIDE, dtype: DType::Bf16 };
    let layer_on = |stream: &Stream| -> Result<GroupedLinear> {
        let weights = grouped(stream, &[GROUPS, WIDE, WIDE])?;
        GroupedLinear::new(stream, config, weights, Some(grouped(stream, &[GROUPS, WIDE])?))
    };
    let forward = |stream: &Stream, recipe: Option<&LayerRecipe>, kernel| -> Result<Saved> {
        let options = ForwardOptions { recipe, kernel, ..ForwardOptions::default() };
        let (x, splits) = (ones(stream, &[ROWS, WIDE])?, Splits::host(&[2, 3])?);
        Ok(layer_on(stream)?.forward(stream, &x, &splits, options)?.1)
    };
    let hopper = stream.device().target().gpu.is_some_and(|gpu| gpu.compute_capability == (9, 0));
    let mxfp8 = Recipe::Mxfp8(Mxfp8Scaling::default());
    let nvfp4 = Recipe::Nvfp4(Nvfp4Scaling::default());
    for recipe in [None, Some(mxfp8), Some(nvfp4)] {
        let own = recipe.map(|recipe| LayerRecipe::new(stream, config, recipe)).transpose()?;
        let mut cases = Vec::new();
        if hopper {
            cases.push(("narrow tiles", forward(stream, own.as_ref(), KernelChoice::Narrow)?));
        }
        if let Some(other) = other_device::stream(stream) {
            let theirs =
                recipe.map(|recipe| LayerRecipe::new(&other, config, recipe)).transpose()?;
            cases.push(("elsewhere", forward(&other, theirs.as_ref(), KernelChoice::Auto)?));
        }
        let layer = layer_on(stream)?;
        let dy = ones(stream, &[ROWS, WIDE])?;
        for ((case, saved), (asked, options)) in
            cases.iter().flat_map(|case| GRADIENTS.iter().map(move |asked| (case, asked)))
        {
            let what = format!("{recipe:?}, {case}: {asked}");
            let mut db = GroupedTensor::packed(filled(stream, &[GROUPS, WIDE], HELD)?)?;
            let options = BackwardOptions { db: Some(GradSink::Accumulate(&mut db)), ..options() };
            let outcome = layer.backward_with(stream, saved.clone(), &dy, options);
            assert!(outcome.is_err(), "{what}");
            let db = db.as_packed().expect("packed").to_f32(stream)?;
            assert_eq!(db, [HELD; GROUPS * WIDE], "{what}");
            if let Some(random) = own.as_ref().and_then(LayerRecipe::random) {
                assert_eq!(random.read(stream)?.1, 0, "{what}");
            }
        }
        // A buffer that would have been written first.
        if let Some((case, saved)) = cases.first() {
            let mut dx = filled(stream, &[ROWS, WIDE], HELD)?;
            let options =
                BackwardOptions { dx: RowSink::Into(&mut dx), ..BackwardOptions::default() };
            assert!(layer.backward_with(stream, saved.clone(), &dy, options).is_err(), "{case}");
            assert_eq!(dx.to_f32(stream)?, [HELD; ROWS * WIDE], "{recipe:?}, {case}");
        }
    }
    Ok(())
}
