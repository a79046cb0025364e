//! A flag on the device that skips a quantization: nothing that it would write changes.

use grouped_linear::functional::{Accumulate, DbiasSink, QuantizeArgs, QuantizeSource, quantize};
use grouped_linear::recipe::{Recipe, Role};
use grouped_linear::{
    BiasUse, DType, DelayedState, Form, GroupedTensor, LayerRecipe, ParamLayout, QuantizeWeights,
    QuantizedSpec, QuantizedTensor, RandomState, Refresh, Result, SourceShape, Stream, Tensor,
    WeightCache,
};

use crate::engines::Test;
use crate::recipes::{GROUPS, K, Model, ROWS, recipes};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("recipes: a flag on the device skips all of a quantization", |e, s| skipped(s).expect(e)),
    ("recipes: cached weights note their magnitudes once", |e, s| noted_once(s).expect(e)),
];

/// Everything that a quantization writes, and the end of its step.
struct Written {
    quantized: QuantizedTensor,
    delayed: Option<DelayedState>,
    random: Option<RandomState>,
    db: GroupedTensor,
}

impl Written {
    /// Tokens go to the format of the gradients where those are rounded at random.
    fn new(stream: &Stream, recipe: &Recipe) -> Result<Self> {
        let role = role(recipe);
        let format = recipe.format(role);
        let source = SourceShape::Tokens { rows: ROWS, features: K };
        let (rowwise, columnwise) = (Some(Form::Codes), Some(Form::Codes));
        let spec = QuantizedSpec { groups: GROUPS, source, format, rowwise, columnwise };
        let state = |delayed| DelayedState::new(stream, delayed, GROUPS, format.dtype());
        let delayed = match recipe {
            Recipe::Delayed(delayed) => Some(state(*delayed)?),
            _ => None,
        };
        let random = recipe.is_stochastic(role).then(|| RandomState::new(stream, 3)).transpose()?;
        let layout = ParamLayout::Discrete;
        let db = vec![0.25f32; GROUPS * K];
        let db = GroupedTensor::from_slice(stream, layout, GROUPS, &[K], &db)?;
        let quantized = QuantizedTensor::empty(stream, spec)?;
        Ok(Self { quantized, delayed, random, db })
    }

    fn quantize(
        &mut self,
        stream: &Stream,
        recipe: &Recipe,
        model: &Model,
        accumulate: Accumulate,
        flag: &Tensor,
    ) -> Result<()> {
        let four_over_six = recipe.four_over_six(role(recipe)).map(|choice| choice.error);
        let args = QuantizeArgs {
            scale: recipe.scale_rule(),
            delayed: self.delayed.as_ref(),
            skip: Some(flag),
            dbias: Some(DbiasSink { db: &mut self.db, accumulate }),
            four_over_six,
            random: self.random.as_ref(),
            ..QuantizeArgs::new(QuantizeSource::Tokens(&model.x, &model.splits))
        };
        quantize(stream, args, &mut self.quantized)?;
        self.delayed.as_mut().map_or(Ok(()), |state| state.update_unless(stream, flag))
    }

    /// Names and contents.
    fn read(&self, stream: &Stream) -> Result<Vec<(String, Vec<u64>)>> {
        let mut tensors = Vec::new();
        for direction in self.quantized.directions() {
            let copy = self.quantized.copy(direction).expect("it has this direction");
            tensors.push((format!("{direction:?} data"), Some(&copy.data)));
            tensors.push((format!("{direction:?} scale_inv"), Some(&copy.scale_inv)));
            tensors.push((format!("{direction:?} amax"), copy.amax.as_ref()));
        }
        match &self.delayed {
            Some(state) => {
                tensors.push(("history".to_owned(), Some(state.history())));
                tensors.push(("next scale".to_owned(), Some(state.scale())));
            }
            None => tensors.push(("scale".to_owned(), self.quantized.scale())),
        }
        tensors.push(("random state".to_owned(), self.random.as_ref().map(RandomState::tensor)));
        let present =
            tensors.into_iter().filter_map(|(name, tensor)| tensor.map(|tensor| (name, tensor)));
        let bits = |(name, tensor)| Ok((name, bits(stream, tensor)?));
        let mut all = present.map(bits).collect::<Result<Vec<_>>>()?;
        let (first, last) = (self.db.group(0)?, self.db.group(2)?);
        // The second expert has no rows, and adds nothing.
        for (name, db) in [("db of 0", first), ("db of 2", last)] {
            all.push((name.to_owned(), self::bits(stream, &db)?));
        }
        Ok(all)
    }
}

fn bits(stream: &Stream, tensor: &Tensor) -> Result<Vec<u64>> {
    Ok(match tensor.dtype() {
        DType::U8 => tensor.to_vec::<u8>(stream)?.into_iter().map(u64::from).collect(),
        DType::I64 => tensor.to_vec::<i64>(stream)?.into_iter().map(i64::cast_unsigned).collect(),
        _ => tensor.to_f32(stream)?.into_iter().map(|value| u64::from(value.to_bits())).collect(),
    })
}

/// What is rounded at random, if anything is.
fn role(recipe: &Recipe) -> Role {
    if recipe.is_stochastic(Role::GradOutput) { Role::GradOutput } else { Role::Input }
}

/// Data, scales, magnitudes, history, random state and sums of columns are those of before.
fn skipped(stream: &Stream) -> Result<()> {
    let (first, second) = (Model::new(stream, DType::Bf16, 8)?, Model::integers(stream, 1.0)?);
    let mut flag = Tensor::zeros(stream, &[1], DType::I32)?;
    for (name, recipe) in recipes() {
        for accumulate in [Accumulate::Add, Accumulate::Overwrite] {
            let mut written = Written::new(stream, &recipe)?;
            let mut held = Vec::new();
            // Written, left, left, written: the flag alone makes the difference.
            for (model, skip) in [(&first, 0), (&second, 1), (&second, i32::MIN), (&second, 0)] {
                flag.write(stream, &[skip])?;
                written.quantize(stream, &recipe, model, accumulate, &flag)?;
                held.push(written.read(stream)?);
            }
            let [before, left, still, after] = &held[..] else { panic!("four turns") };
            for (index, (part, before)) in before.iter().enumerate() {
                for left in [left, still] {
                    assert!(before == &left[index].1, "{name}: {part}: written despite the flag");
                }
                assert!(before != &after[index].1, "{name}: {part}: the same without the flag");
            }
        }
    }
    Ok(())
}

/// Every forward of a step reads the weights of its first one; their history learns their
/// magnitudes when they are quantized, and from nothing else.
fn noted_once(stream: &Stream) -> Result<()> {
    let (_, recipe) = recipes().into_iter().find(|(name, _)| *name == "delayed").expect("delayed");
    let model = Model::new(stream, DType::F32, 4)?;
    let mut own = model.recipe(stream, recipe)?;
    let prepare = QuantizeWeights { recipe: own.clone(), master: DType::F32 };
    let mut cache = WeightCache::new(stream, prepare)?;
    let cached = own.clone().with_weights(cache.prepared().clone())?;
    let newest = |own: &LayerRecipe| -> Result<Vec<f32>> {
        own.delayed().expect("states").weight.amax()?.to_f32(stream)
    };
    let weights = model.layer.weights();
    assert_eq!(cache.refresh(stream, weights, 1)?, Refresh::Launched);
    let amaxes = newest(&own)?;
    assert!(amaxes.iter().all(|&amax| amax > 0.9), "{amaxes:?}");
    let first = model.step(stream, BiasUse::Add, Some(&cached))?;
    own.update(stream)?;
    assert_eq!(newest(&own)?, [0.0; GROUPS]);

    // The scale has moved on; the copies keep theirs, and the history nothing of them.
    assert_eq!(cache.refresh(stream, weights, 1)?, Refresh::Held);
    cache.update(stream, weights)?;
    assert_eq!(newest(&own)?, [0.0; GROUPS]);
    let scale_inv = |copies: &QuantizedTensor| -> Result<Vec<f32>> {
        copies
            .directions()
            .next()
            .and_then(|own| copies.copy(own))
            .expect("a copy")
            .scale_inv
            .to_f32(stream)
    };
    assert_eq!(scale_inv(cache.prepared())?, [1.0; GROUPS]);
    let y = |recipe: &LayerRecipe| model.step(stream, BiasUse::Add, Some(recipe)).map(|[y, ..]| y);
    let held = y(&cached)?;

    // The next version has the scale of its step, as weights that forward quantizes.
    assert_eq!(cache.refresh(stream, weights, 2)?, Refresh::Launched);
    assert_eq!(newest(&own)?, amaxes);
    let want: Vec<f32> = amaxes.iter().map(|amax| 1.0 / (448.0 / amax)).collect();
    assert_eq!(scale_inv(cache.prepared())?, want);
    let fresh = y(&cached)?;
    assert_eq!(fresh, y(&own)?);
    assert!(first[0] != held && held != fresh, "the scales changed nothing");
    Ok(())
}
