//! Memory that runs out in forward or backward, or where many tensors are quantized, at each place
//! where it can: what steps add to is as it was before the call, and with more memory the same call
//! succeeds.

use grouped_linear::functional::{
    QuantizeArgs, QuantizeOptions, QuantizeSource, quantize, split_quantize,
};
use grouped_linear::recipe::{DelayedScaling, Nvfp4Scaling, Recipe, Role};
use grouped_linear::{
    Arch, BackwardOptions, BiasUse, Config, DType, Device, EmulatorOptions, Error, Form,
    ForwardOptions, GradSink, GroupedLinear, GroupedTensor, LayerRecipe, ParamLayout,
    QuantizedSpec, QuantizedTensor, RandomState, Result, SavePolicy, Saved, SourceShape, Splits,
    Stream, Tensor, Wgrad,
};
use libtest_mimic::Trial;

use crate::exact::read;
use crate::recipes::{Model, recipes, rewind};

/// Bytes of the device.
const MEMORY: u64 = 32 << 20;
/// More places than any call has.
const PLACES: usize = 100;

/// Sums and histories, and where random numbers begin.
type State = (Vec<Vec<f32>>, Option<(u64, u64)>);

/// A layer, and what its steps add to.
struct Training {
    model: Model,
    recipe: Option<LayerRecipe>,
    /// Whether every row has a factor for its bias, whose gradient is then a launch of its own.
    scales_bias: bool,
    dw: GroupedTensor,
    db: GroupedTensor,
}

impl Training {
    fn new(stream: &Stream, model: Model, recipe: Option<LayerRecipe>) -> Result<Self> {
        let Config { groups, in_features, out_features, .. } = model.config;
        let sums = |shape: &[usize]| {
            let held = vec![0.75; groups * shape.iter().product::<usize>()];
            GroupedTensor::from_f32(stream, ParamLayout::Packed, groups, shape, DType::F32, &held)
        };
        let (dw, db) = (sums(&[out_features, in_features])?, sums(&[out_features])?);
        Ok(Self { model, recipe, scales_bias: false, dw, db })
    }

    fn state(&self, stream: &Stream) -> Result<State> {
        let mut values = vec![read(stream, &self.dw)?, read(stream, &self.db)?];
        if let Some(delayed) = self.recipe.as_ref().and_then(LayerRecipe::delayed) {
            for own in [&delayed.input, &delayed.weight, &delayed.grad_output] {
                values.extend([own.history().to_f32(stream)?, own.scale().to_f32(stream)?]);
            }
        }
        let random = self.recipe.as_ref().and_then(LayerRecipe::random);
        Ok((values, random.map(|random| random.read(stream)).transpose()?))
    }

    fn forward(&self, stream: &Stream) -> Result<Saved> {
        let bias = match self.scales_bias {
            true => BiasUse::RowScaled(&self.model.row_scales),
            false => BiasUse::Add,
        };
        Ok(self.model.forward(stream, bias, self.recipe.as_ref())?.1)
    }

    fn backward(&mut self, stream: &Stream, saved: Saved) -> Result<()> {
        let options = BackwardOptions {
            dw: Wgrad::Now(GradSink::Accumulate(&mut self.dw)),
            db: Some(GradSink::Accumulate(&mut self.db)),
            ..BackwardOptions::default()
        };
        self.model.layer.backward_with(stream, saved, &self.model.dy, options).map(drop)
    }
}

/// A layer whose weights have more blocks than its tokens, and so magnitudes.
fn wide(stream: &Stream) -> Result<Model> {
    const SIZE: usize = 1536;
    const ROWS: usize = 5;
    let tensor = |shape: &[usize]| {
        let count = shape.iter().product();
        let values: Vec<f32> = (0..count).map(|at| (at % 97) as f32 / 97.0).collect();
        Tensor::from_f32(stream, shape, DType::Bf16, &values)
    };
    let (groups, dtype) = (1, DType::Bf16);
    let config = Config { groups, in_features: SIZE, out_features: SIZE, dtype };
    let weights = GroupedTensor::packed(tensor(&[1, SIZE, SIZE])?)?;
    let layer = GroupedLinear::new(stream, config, weights, None)?;
    let (x, dy, splits) = (tensor(&[ROWS, SIZE])?, tensor(&[ROWS, SIZE])?, Splits::host(&[ROWS])?);
    Ok(Model { layer, config, x, dy, splits, ..Model::new(stream, dtype, 31)? })
}

/// Takes all memory but so many bytes.
fn all_but(stream: &Stream, room: u64) -> Result<Vec<Tensor>> {
    let take = |bytes: usize| Tensor::empty(stream, &[bytes], DType::U8);
    let kept = take(room as usize)?;
    let mut taken = Vec::new();
    for size in (0..24).rev().map(|power| 1 << power) {
        while let Ok(tensor) = take(size) {
            taken.push(tensor);
        }
    }
    drop(kept);
    Ok(taken)
}

/// How many bytes are missing, by the text of the error.
fn missing(error: &Error) -> u64 {
    let text = error.to_string();
    assert!(error.is_out_of_memory(), "{text}");
    let number = |after: &str, before: &str| -> u64 {
        let text = text.split(after).nth(1).and_then(|rest| rest.split(before).next());
        text.and_then(|text| text.trim().parse().ok()).expect("a number of bytes")
    };
    number("out of memory:", "bytes") - number("cannot be allocated:", "of")
}

/// Runs out of memory in every place of one of the two calls; in how many.
fn in_every_place(
    stream: &Stream,
    what: &str,
    training: &mut Training,
    backward: bool,
) -> Result<usize> {
    let mut room = 0;
    for place in 0..PLACES {
        rewind(stream, training.recipe.as_ref())?;
        let saved = backward.then(|| training.forward(stream)).transpose()?;
        let before = training.state(stream)?;
        // One that has no scratch memory from an earlier call.
        let own = stream.device().stream()?;
        let taken = all_but(stream, room)?;
        let outcome = match saved {
            Some(saved) => training.backward(&own, saved),
            None => training.forward(&own).map(drop),
        };
        drop(taken);
        let Err(error) = outcome else {
            let added = training.state(stream)?.0[0] != before.0[0];
            assert_eq!(added, backward, "{what}: the gradient of the weights");
            return Ok(place);
        };
        assert!(training.state(stream)? == before, "{what}, place {place}: {error}");
        room += missing(&error);
    }
    panic!("{what}: {PLACES} times there was not enough memory");
}

pub(crate) fn trial() -> Trial {
    Trial::test("emulated-sm_90a: memory that runs out", || Ok(runs_out()?))
}

/// Recipes that differ in what they allocate, none, and both ways to save the tokens.
fn runs_out() -> Result<()> {
    const KINDS: [&str; 6] =
        ["current", "delayed", "block", "block, all vectors", "mxfp8", "nvfp4"];
    let mut options = EmulatorOptions::new(Arch::Sm90a);
    options.memory_bytes = Some(MEMORY);
    let device = Device::emulated_with(options)?;
    assert_eq!(device.info().memory_bytes, Some(MEMORY));
    let stream = device.stream()?;
    let model = || Model::new(&stream, DType::Bf16, 31);
    let in_both_calls = |what: &str, training: &mut Training, least: usize| -> Result<()> {
        for backward in [false, true] {
            let what = format!("{what}, backward: {backward}");
            let places = in_every_place(&stream, &what, training, backward)?;
            assert!(places >= least, "{what}: {places} places");
        }
        Ok(())
    };

    let recipes = recipes().into_iter().filter(|(name, _)| KINDS.contains(name));
    for (name, recipe) in recipes {
        for save in [SavePolicy::Quantized, SavePolicy::Original] {
            if save == SavePolicy::Original && matches!(recipe, Recipe::Delayed(_)) {
                continue;
            }
            let model = model()?;
            let own = model.recipe(&stream, recipe)?.with_save(save)?;
            let mut training = Training::new(&stream, model, Some(own))?;
            in_both_calls(&format!("{name}, {save:?}"), &mut training, 4)?;
            if (name, save) == ("current", SavePolicy::Quantized) {
                training.scales_bias = true;
                in_both_calls("current, scaled bias", &mut training, 4)?;
            }
        }
    }
    // The output and scratch memory; the gradient of the tokens and scratch memory.
    in_both_calls("no recipe", &mut Training::new(&stream, model()?, None)?, 2)?;

    let model = wide(&stream)?;
    let recipe = model.recipe(&stream, Recipe::Delayed(DelayedScaling::default()))?;
    let mut training = Training::new(&stream, model, Some(recipe))?;
    let places = in_every_place(&stream, "wide weights", &mut training, false)?;
    assert!(places >= 4, "wide weights: {places} places");
    prequantized(&stream)?;
    parts(&stream)
}

/// Weights that are quantized beside tokens that are already: what their magnitudes take is less
/// than the table of so many groups, which the product alone needs.
fn prequantized(stream: &Stream) -> Result<()> {
    const GROUPS: usize = 64;
    const SIZE: usize = 32;
    let dtype = DType::Bf16;
    let ones = |shape: &[usize]| {
        Tensor::from_f32(stream, shape, dtype, &vec![1.0; shape.iter().product()])
    };
    let config = Config { groups: GROUPS, in_features: SIZE, out_features: SIZE, dtype };
    let weights = GroupedTensor::packed(ones(&[GROUPS, SIZE, SIZE])?)?;
    let layer = GroupedLinear::new(stream, config, weights, None)?;
    let recipe = Recipe::Delayed(DelayedScaling::default());
    let own = LayerRecipe::new(stream, config, recipe)?;
    let states = own.delayed().expect("the recipe has them");
    let splits = Splits::host(&[1; GROUPS])?;
    let spec = QuantizedSpec {
        groups: GROUPS,
        source: SourceShape::Tokens { rows: GROUPS, features: SIZE },
        format: recipe.format(Role::Input),
        rowwise: Some(Form::Codes),
        columnwise: Some(Form::Codes),
    };
    let (tokens, mut x) = (ones(&[GROUPS, SIZE])?, QuantizedTensor::empty(stream, spec)?);
    let args = QuantizeArgs::new(QuantizeSource::Tokens(&tokens, &splits));
    quantize(stream, QuantizeArgs { delayed: Some(&states.input), ..args }, &mut x)?;

    let before = states.weight.history().to_f32(stream)?;
    let mut room = 0;
    for place in 0..PLACES {
        let other = stream.device().stream()?;
        let options = ForwardOptions { recipe: Some(&own), ..ForwardOptions::default() };
        let taken = all_but(stream, room)?;
        let outcome = layer.forward_prequantized(&other, &x, &splits, options);
        drop(taken);
        let after = states.weight.history().to_f32(stream)?;
        let Err(error) = outcome else {
            assert_ne!(after, before, "magnitudes were noted");
            assert!(place >= 4, "{place} places");
            return Ok(());
        };
        assert_eq!(after, before, "quantized tokens, place {place}: {error}");
        room += missing(&error);
    }
    panic!("quantized tokens: {PLACES} times there was not enough memory");
}

/// Tensors that are quantized one after the other, with random numbers from one state.
fn parts(stream: &Stream) -> Result<()> {
    const SPLITS: [usize; 3] = [41, 0, 300];
    const SEED: u64 = 5;
    let rows = SPLITS.iter().sum::<usize>();
    let x = Tensor::from_f32(stream, &[rows, 32], DType::Bf16, &vec![0.3; 32 * rows])?;
    let format = Recipe::Nvfp4(Nvfp4Scaling::default()).format(Role::GradOutput);
    let forms = [Some(Form::Exact); 2];
    let random = RandomState::new(stream, SEED)?;
    let mut room = 0;
    for place in 0..PLACES {
        let own = stream.device().stream()?;
        let options = QuantizeOptions { random: Some(&random), ..QuantizeOptions::default() };
        let taken = all_but(stream, room)?;
        let outcome = split_quantize(&own, &x, &SPLITS, format, forms, options);
        drop(taken);
        let state = random.read(stream)?;
        let Err(error) = outcome else {
            assert!(state.1 > 0, "numbers were drawn");
            assert!(place >= SPLITS.len(), "{place} places");
            return Ok(());
        };
        assert_eq!(state, (SEED, 0), "parts, place {place}: {error}");
        room += missing(&error);
    }
    panic!("parts: {PLACES} times there was not enough memory");
}
