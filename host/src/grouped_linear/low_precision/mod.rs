//! A layer's recipe: what is quantized in forward and backward, what is kept of it, and where.

mod buffers;
mod contents;
mod prepare;
mod problems;
mod spec;
mod states;
mod tensors;

pub use self::buffers::RecipeBuffers;
pub(super) use self::contents::Contents;
pub use self::prepare::QuantizeWeights;
pub(super) use self::problems::NO_BUFFERS_IN_GRAPH;
pub use self::spec::RecipeSpec;
pub use self::states::DelayedStates;
use super::Config;
use super::delayed_state::DelayedState;
use super::random::RandomState;
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::plan::{HistoryOperands, micro_form};
use crate::recipe::{Recipe, Role, Scope};
use crate::tensor::{Form, QuantizedSpec, QuantizedTensor, Tensor, check_experts};

/// What forward keeps of the tokens, for the gradient of the weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SavePolicy {
    /// The quantized copy that the gradient reads: a byte an element of FP8; of MXFP8 and NVFP4 two
    /// of exact numbers, one or half a one of codes.
    #[default]
    Quantized,
    /// The tokens as they are, which backward quantizes again: no memory, where something else
    /// keeps them anyway. Not with delayed scaling, whose scales have moved on by then, nor where
    /// backward restores what forward read ([`BackwardPrecision::Dequantized`]).
    Original,
}

/// In which precision backward computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BackwardPrecision {
    /// The recipe's.
    #[default]
    Recipe,
    /// That of the layer's type, on tokens and weights as they are: the layer's own weights,
    /// whatever [`LayerRecipe::with_weights`] has been given.
    High,
    /// That of the layer's type, on what forward's products read: tokens and weights are kept
    /// quantized (rowwise), and restored for backward.
    Dequantized,
}

/// A recipe for one layer, with what it keeps from step to step. Clones are handles to the same
/// memory.
///
/// ```
/// use grouped_linear::recipe::CurrentScaling;
/// use grouped_linear::*;
/// let stream = Device::cpu().stream()?;
/// let config = Config { groups: 2, in_features: 32, out_features: 16, dtype: DType::Bf16 };
/// let ones = Tensor::from_f32(&stream, &[2, 16, 32], DType::Bf16, &[1.0; 1024])?;
/// let layer = GroupedLinear::new(&stream, config, GroupedTensor::packed(ones)?, None)?;
/// let recipe = LayerRecipe::new(&stream, config, Recipe::Current(CurrentScaling::default()))?;
///
/// let x = Tensor::from_f32(&stream, &[3, 32], DType::Bf16, &[0.5; 96])?;
/// let options = ForwardOptions { recipe: Some(&recipe), ..ForwardOptions::default() };
/// let (y, saved) = layer.forward(&stream, &x, &Splits::host(&[1, 2])?, options)?;
/// assert_eq!(y.to_f32(&stream)?, [16.0; 48]);
/// // Three tokens in two groups of 128 at most, 32 features, a byte each; two scales a group.
/// assert_eq!(saved.bytes().activations, 2 * 128 * 32 + 2 * 2 * 4);
/// let dy = Tensor::from_f32(&stream, &[3, 16], DType::Bf16, &[1.0; 48])?;
/// let grads = layer.backward(&stream, saved, &dy)?;
/// assert_eq!(grads.dx.to_f32(&stream)?, [16.0; 96]);
/// # Ok::<(), grouped_linear::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LayerRecipe {
    spec: RecipeSpec,
    delayed: Option<DelayedStates>,
    random: Option<RandomState>,
    weights: Option<QuantizedTensor>,
    buffers: Option<RecipeBuffers>,
}

impl LayerRecipe {
    /// The recipe, with new states where its scales are delayed.
    ///
    /// # Errors
    /// A recipe that cannot be; features or types that the stream's device cannot quantize or
    /// multiply; out of memory.
    pub fn new(stream: &Stream, config: Config, recipe: Recipe) -> Result<Self> {
        recipe.check()?;
        let delayed = match recipe {
            Recipe::Delayed(delayed) => Some(DelayedStates::new(stream, delayed, config.groups)?),
            _ => None,
        };
        let random = match recipe {
            Recipe::Nvfp4(nvfp4) if nvfp4.stochastic_gradients => {
                Some(RandomState::new(stream, nvfp4.seed)?)
            }
            _ => None,
        };
        let backward = match recipe {
            Recipe::Nvfp4(nvfp4) if nvfp4.input == Scope::Row => BackwardPrecision::High,
            _ => BackwardPrecision::default(),
        };
        let save = SavePolicy::default();
        let target = stream.device().target();
        let features = [config.in_features, config.out_features];
        let form = target.kernels().map_or(Form::Exact, |own| micro_form(own, features));
        let form = stored(recipe, form);
        let (weights, buffers) = (None, None);
        let spec = RecipeSpec { recipe, config, form, save, backward, weights, buffers };
        spec.check_target(target)?;
        Ok(Self { spec, delayed, random, weights: None, buffers: None })
    }

    /// The same recipe with tensors of MXFP8 or NVFP4 stored in another form. Without it they are
    /// in codes where the tensor cores apply the scales of blocks (Blackwell, [`Form::Swizzled`],
    /// with features in multiples of 32), and exact numbers elsewhere ([`Form::Exact`]). Blackwell
    /// multiplies exact numbers, too, in BF16; the CPU takes every form. FP8 has one form, which
    /// stays. [`RecipeBuffers`] are made for a form, so they come after it, and those of another
    /// are refused.
    ///
    /// # Errors
    /// A form that the products of the stream's device do not take.
    pub fn with_form(self, stream: &Stream, form: Form) -> Result<Self> {
        let spec = RecipeSpec { form: stored(self.spec.recipe, form), ..self.spec };
        spec.check_target(stream.device().target())?;
        Ok(Self { spec, ..self })
    }

    /// How quantized tensors are stored: those of MXFP8 or NVFP4 in the recipe's form, those of FP8
    /// in [`Form::Codes`].
    pub fn form(&self) -> Form {
        self.spec.form
    }

    /// The same recipe with weights that are quantized already, by a
    /// [`WeightCache`](super::WeightCache) or because they are the only ones there are; forward
    /// then does not quantize the layer's own. Those of MXFP8 and NVFP4 must be in the recipe's
    /// [form](Self::with_form) where a GPU multiplies them, which forward says; the CPU takes every
    /// form.
    ///
    /// With [`BackwardPrecision::High`] the gradient of the tokens is that of the layer's own
    /// weights all the same, so those must hold what these were made from; where these are the only
    /// ones, backward is in the recipe's precision, or restores them
    /// ([`BackwardPrecision::Dequantized`]).
    ///
    /// # Errors
    /// They are not those of such a layer.
    pub fn with_weights(self, weights: QuantizedTensor) -> Result<Self> {
        self.check_weights_fit(weights.spec())?;
        let spec = RecipeSpec { weights: Some(weights.spec()), ..self.spec };
        Ok(Self { spec, weights: Some(weights), ..self })
    }

    /// The quantized weights that it has been given, which are used in place of the layer's own.
    pub fn weights(&self) -> Option<&QuantizedTensor> {
        self.weights.as_ref()
    }

    /// As [`LayerRecipe::with_weights`], of discrete weights: a quantized tensor of one group for
    /// each expert. The kernels read packed weights, so they are copied once, here, and what
    /// becomes of them later is not seen; [`QuantizedTensor::gather`] says what that costs. A clone
    /// of the copies ([`LayerRecipe::weights`]) lets them follow a change
    /// ([`QuantizedTensor::gather_from`]).
    ///
    /// ```
    /// use grouped_linear::functional::{QuantizeArgs, QuantizeSource, quantize};
    /// use grouped_linear::recipe::{CurrentScaling, Role};
    /// use grouped_linear::*;
    /// let stream = Device::cpu().stream()?;
    /// let config = Config { groups: 2, in_features: 32, out_features: 16, dtype: DType::Bf16 };
    /// let recipe = LayerRecipe::new(&stream, config, Recipe::Current(CurrentScaling::default()))?;
    /// let spec = QuantizedSpec {
    ///     groups: 1,
    ///     source: SourceShape::Weights { rows: 16, columns: 32 },
    ///     format: recipe.recipe().format(Role::Weight),
    ///     rowwise: Some(Form::Codes),
    ///     columnwise: Some(Form::Codes),
    /// };
    /// let mut experts = Vec::new();
    /// for value in [1.0, 2.0] {
    ///     let w = Tensor::from_f32(&stream, &[1, 16, 32], DType::Bf16, &[value; 512])?;
    ///     let w = GroupedTensor::packed(w)?;
    ///     let mut expert = QuantizedTensor::empty(&stream, spec)?;
    ///     quantize(&stream, QuantizeArgs::new(QuantizeSource::Weights(&w)), &mut expert)?;
    ///     experts.push(expert);
    /// }
    /// let recipe = recipe.with_discrete_weights(&stream, &experts)?;
    ///
    /// // The layer's own weights are not read: the zeros of one expert do for all.
    /// let zeros = Tensor::zeros(&stream, &[16, 32], DType::Bf16)?;
    /// let own = GroupedTensor::discrete(&stream, vec![zeros; 2])?;
    /// let layer = GroupedLinear::new(&stream, config, own, None)?;
    /// let x = Tensor::from_f32(&stream, &[2, 32], DType::Bf16, &[0.5; 64])?;
    /// let options = ForwardOptions { recipe: Some(&recipe), ..ForwardOptions::default() };
    /// let (y, _) = layer.forward(&stream, &x, &Splits::host(&[1, 1])?, options)?;
    /// assert_eq!(y.to_f32(&stream)?, [[16.0; 16], [32.0; 16]].concat());
    ///
    /// // Other experts into the same copies.
    /// experts.reverse();
    /// let mut copies = recipe.weights().expect("they were given").clone();
    /// copies.gather_from(&stream, &experts)?;
    /// let (y, _) = layer.forward(&stream, &x, &Splits::host(&[1, 1])?, options)?;
    /// assert_eq!(y.to_f32(&stream)?, [[32.0; 16], [16.0; 16]].concat());
    /// # Ok::<(), grouped_linear::Error>(())
    /// ```
    ///
    /// # Errors
    /// They are not those of such a layer, or differ; otherwise as [`QuantizedTensor::gather`].
    pub fn with_discrete_weights(
        self,
        stream: &Stream,
        experts: &[QuantizedTensor],
    ) -> Result<Self> {
        self.check_weights_fit(check_experts(stream, experts)?)?;
        let weights = QuantizedTensor::gather(stream, experts)?;
        self.with_weights(weights)
    }

    /// Refuses quantized weights of another layer or recipe.
    fn check_weights_fit(&self, got: QuantizedSpec) -> Result<()> {
        let want = self.spec.tensor(Role::Weight, 0, [true, true]);
        if (got.groups, got.source, got.format) == (want.groups, want.source, want.format) {
            return Ok(());
        }
        let one = |spec: QuantizedSpec| {
            format!("{} groups of {:?} in {}", spec.groups, spec.source, spec.format)
        };
        Err(Error::invalid(format!(
            "quantized weights: {} were given, {} are needed; quantize the layer's weights in the \
             format that its recipe has for Role::Weight",
            one(got),
            one(want)
        )))
    }

    /// The same recipe in memory of its own, as graphs need it. [`RecipeBuffers`] follow from the
    /// form, the precision of backward and the given weights, so they are made last; those that do
    /// not fit are refused by forward. What forward keeps in them is for a backward before the next
    /// call in the same ones; a gradient of what that has written over is refused.
    pub fn with_buffers(self, buffers: RecipeBuffers) -> Self {
        let spec = RecipeSpec { buffers: Some(buffers.specs()), ..self.spec };
        Self { spec, buffers: Some(buffers), ..self }
    }

    /// What forward keeps of the tokens.
    ///
    /// # Errors
    /// The tokens as they are, with delayed scaling, or where backward restores them.
    pub fn with_save(self, save: SavePolicy) -> Result<Self> {
        if save == SavePolicy::Original && self.delayed.is_some() {
            return Err(Error::unsupported(
                "delayed scaling cannot quantize the tokens again in backward, when its scales have \
                 moved on; keep the quantized copy (SavePolicy::Quantized)",
            ));
        }
        if save == SavePolicy::Original && self.spec.backward == BackwardPrecision::Dequantized {
            return Err(original_and_dequantized());
        }
        Ok(Self { spec: RecipeSpec { save, ..self.spec }, ..self })
    }

    /// In which precision backward computes.
    ///
    /// # Errors
    /// That of the recipe, where tokens have a scale for each row; restored tokens, where they are
    /// kept as they are.
    pub fn with_backward(self, backward: BackwardPrecision) -> Result<Self> {
        let rows_scaled = matches!(self.spec.recipe, Recipe::Nvfp4(own) if own.input == Scope::Row);
        if rows_scaled && backward == BackwardPrecision::Recipe {
            return Err(Error::unsupported(
                "tokens with a scale for each row have no copy that the gradient of the weights could \
                 read; compute backward in high precision (BackwardPrecision::High)",
            ));
        }
        if self.spec.save == SavePolicy::Original && backward == BackwardPrecision::Dequantized {
            return Err(original_and_dequantized());
        }
        Ok(Self { spec: RecipeSpec { backward, ..self.spec }, ..self })
    }

    /// Random numbers from another state than the recipe's own, say that of a checkpoint.
    ///
    /// # Errors
    /// A recipe that rounds nothing at random; a state on another device.
    pub fn with_random(self, random: RandomState) -> Result<Self> {
        let Some(own) = &self.random else {
            return Err(Error::invalid(
                "a random state was given with a recipe that rounds nothing at random",
            ));
        };
        random.tensor().check_same_device("random state", own.tensor())?;
        Ok(Self { random: Some(random), ..self })
    }

    /// Where the numbers of random rounding come from.
    pub fn random(&self) -> Option<&RandomState> {
        self.random.as_ref()
    }

    /// The recipe.
    pub fn recipe(&self) -> &Recipe {
        &self.spec.recipe
    }

    /// What of it is inferred and planned from.
    pub fn spec(&self) -> &RecipeSpec {
        &self.spec
    }

    /// What delayed scaling remembers.
    pub fn delayed(&self) -> Option<&DelayedStates> {
        self.delayed.as_ref()
    }

    /// Ends a step of delayed scaling: makes the next scales of tokens, weights and output
    /// gradients. Call it once per step of the optimiser, after the backward of the last
    /// microbatch. Other recipes have nothing to end.
    ///
    /// # Errors
    /// A stream of another device; a driver failure.
    pub fn update(&mut self, stream: &Stream) -> Result<()> {
        Self::update_all(stream, [self], None)
    }

    /// Ends the step, as [`LayerRecipe::update`] does, unless the flag `skip` (`i32`, `[1]`, on the
    /// device) is not zero when the work runs ([`DelayedState::update_unless`]): the end of a step
    /// in a graph that may have been none.
    ///
    /// ```
    /// use grouped_linear::recipe::DelayedScaling;
    /// use grouped_linear::{Config, DType, Device, LayerRecipe, Recipe, Tensor};
    /// let stream = Device::cpu().stream()?;
    /// let config = Config { groups: 1, in_features: 32, out_features: 16, dtype: DType::Bf16 };
    /// let recipe = Recipe::Delayed(DelayedScaling::default());
    /// let mut recipe = LayerRecipe::new(&stream, config, recipe)?;
    /// let input = recipe.delayed().unwrap().input.clone(); // a handle
    /// input.amax()?.write(&stream, &[7.0f32])?;
    /// for (skip, scale) in [(1, 1.0), (0, 64.0)] {
    ///     recipe.update_unless(&stream, &Tensor::from_slice(&stream, &[1], &[skip])?)?;
    ///     assert_eq!(input.scale().to_f32(&stream)?, [scale]);
    /// }
    /// # Ok::<(), grouped_linear::Error>(())
    /// ```
    ///
    /// # Errors
    /// A flag of another shape, type or device; a stream of another device; a driver failure.
    pub fn update_unless(&mut self, stream: &Stream, skip: &Tensor) -> Result<()> {
        Self::update_all(stream, [self], Some(skip))
    }

    /// Ends a step of many layers, as [`LayerRecipe::update`] does for one, or, with a flag, as
    /// [`LayerRecipe::update_unless`]: the states of five layers have one launch
    /// ([`DelayedState::update_all`]).
    ///
    /// # Errors
    /// A recipe whose states are those of another, be it a clone; otherwise as
    /// [`LayerRecipe::update_unless`]. Nothing has been launched then, unless it is a driver
    /// failure.
    pub fn update_all<'a>(
        stream: &Stream,
        recipes: impl IntoIterator<Item = &'a mut Self>,
        skip: Option<&Tensor>,
    ) -> Result<()> {
        let states = recipes.into_iter().filter_map(|recipe| recipe.delayed.as_mut());
        DelayedState::update_all(stream, states.flat_map(DelayedStates::each), skip)
    }

    /// The memory that a call uses over and over, for comparison.
    pub(crate) fn memory(&self) -> Vec<&Tensor> {
        let delayed =
            self.delayed.iter().flat_map(|own| [&own.input, &own.weight, &own.grad_output]);
        let delayed = delayed.map(DelayedState::operands).flat_map(|own| {
            let HistoryOperands { history, scale, scale_inv } = own;
            [history, scale, scale_inv]
        });
        let weights = self.weights.iter().flat_map(QuantizedTensor::tensors);
        let random = self.random.iter().map(RandomState::tensor);
        weights.chain(self.buffer_memory()).chain(delayed).chain(random).collect()
    }

    /// That of its buffers.
    pub(crate) fn buffer_memory(&self) -> impl Iterator<Item = &Tensor> {
        self.buffers.iter().flat_map(RecipeBuffers::tensors)
    }
}

/// How a recipe's tensors are stored where those of small blocks are in this form.
fn stored(recipe: Recipe, form: Form) -> Form {
    if recipe.format(Role::Input).is_micro() { form } else { Form::Codes }
}

fn original_and_dequantized() -> Error {
    Error::unsupported(
        "BackwardPrecision::Dequantized restores the tokens that were quantized, so they cannot be kept \
         as they are; use SavePolicy::Quantized, or BackwardPrecision::High",
    )
}
