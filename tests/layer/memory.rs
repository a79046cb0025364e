//! Memory that runs out in forward or backward, at each place where it can in small layers: what steps
//! add to is as it was before the call, and with more memory the same call succeeds. Products whose
//! scratch memory is larger than that of what runs before them (aligned ones) are not among these.

use grouped_linear::recipe::Recipe;
use grouped_linear::{
    Arch, BackwardOptions, BiasUse, DType, Device, EmulatorOptions, Error, GradSink, GroupedTensor,
    LayerRecipe, ParamLayout, Result, SavePolicy, Saved, Stream, Tensor, Wgrad,
};
use libtest_mimic::Trial;

use crate::exact::read;
use crate::recipes::{GROUPS, K, Model, N, recipes, rewind};

/// Bytes of the device.
const MEMORY: u64 = 16 << 20;
/// More places than any call has.
const PLACES: usize = 100;

/// Sums and histories, and where random numbers begin.
type State = (Vec<Vec<f32>>, Option<(u64, u64)>);

/// A layer, and what its steps add to.
struct Training {
    model: Model,
    recipe: LayerRecipe,
    dw: GroupedTensor,
    db: GroupedTensor,
}

impl Training {
    fn new(stream: &Stream, recipe: LayerRecipe, model: Model) -> Result<Self> {
        let sums = |shape: &[usize]| {
            let held = vec![0.75; GROUPS * shape.iter().product::<usize>()];
            GroupedTensor::from_f32(stream, ParamLayout::Packed, GROUPS, shape, DType::F32, &held)
        };
        Ok(Self { model, recipe, dw: sums(&[N, K])?, db: sums(&[N])? })
    }

    fn state(&self, stream: &Stream) -> Result<State> {
        let mut values = vec![read(stream, &self.dw)?, read(stream, &self.db)?];
        if let Some(delayed) = self.recipe.delayed() {
            for own in [&delayed.input, &delayed.weight, &delayed.grad_output] {
                values.extend([own.history().to_f32(stream)?, own.scale().to_f32(stream)?]);
            }
        }
        let random = self.recipe.random().map(|random| random.read(stream)).transpose()?;
        Ok((values, random))
    }

    fn forward(&self, stream: &Stream) -> Result<Saved> {
        Ok(self.model.forward(stream, BiasUse::Add, Some(&self.recipe))?.1)
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
        rewind(stream, Some(&training.recipe))?;
        let saved = backward.then(|| training.forward(stream)).transpose()?;
        let before = training.state(stream)?;
        let taken = all_but(stream, room)?;
        let outcome = match saved {
            Some(saved) => training.backward(stream, saved),
            None => training.forward(stream).map(drop),
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

/// Recipes that differ in what they allocate, and both ways to save the tokens.
fn runs_out() -> Result<()> {
    const KINDS: [&str; 6] =
        ["current", "delayed", "block", "block, all vectors", "mxfp8", "nvfp4"];
    let mut options = EmulatorOptions::new(Arch::Sm90a);
    options.memory_bytes = Some(MEMORY);
    let device = Device::emulated_with(options)?;
    assert_eq!(device.info().memory_bytes, Some(MEMORY));
    let stream = device.stream()?;
    let recipes = recipes().into_iter().filter(|(name, _)| KINDS.contains(name));
    for (name, recipe) in recipes {
        for save in [SavePolicy::Quantized, SavePolicy::Original] {
            if save == SavePolicy::Original && matches!(recipe, Recipe::Delayed(_)) {
                continue;
            }
            let model = Model::new(&stream, DType::Bf16, 31)?;
            let own = model.recipe(&stream, recipe)?.with_save(save)?;
            let mut training = Training::new(&stream, own, model)?;
            for backward in [false, true] {
                let what = format!("{name}, {save:?}, backward: {backward}");
                let places = in_every_place(&stream, &what, &mut training, backward)?;
                assert!(places >= 4, "{what}: {places} places");
            }
        }
    }
    Ok(())
}
