//! A layer's recipe: what is quantized in forward and backward, what is kept of it, and where.

use super::Config;
use super::delayed_state::DelayedState;
use super::movement::{DequantizeSink, dequantize};
use super::quantized::{QuantizeArgs, QuantizeSource, quantize};
use super::random::RandomState;
use super::weight_cache::Prepare;
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::gemm::scaled::check_exact;
use crate::plan::{
    BiasKind, DequantizeProblem, KernelChoice, Pass, Plan, Problem, QuantizeProblem, ScaleSource,
    ScaledGemmProblem, Target,
};
use crate::recipe::{Format, Recipe, Role, Scope};
use crate::splits::Splits;
use crate::tensor::{
    DType, Direction, Form, GroupedTensor, QuantizedSpec, QuantizedTensor, SourceShape, Tensor,
    check_experts, missing_copy,
};

/// What forward keeps of the tokens, for the gradient of the weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SavePolicy {
    /// The quantized copy that the gradient reads: a byte an element of FP8, two of the exact numbers of
    /// MXFP8 and NVFP4.
    #[default]
    Quantized,
    /// The tokens as they are, which backward quantizes again: no memory, where something else keeps
    /// them anyway. Not with delayed scaling, whose scales have moved on by then.
    Original,
}

/// In which precision backward computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BackwardPrecision {
    /// The recipe's.
    #[default]
    Recipe,
    /// That of the layer's type, on tokens and weights as they are.
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
    recipe: Recipe,
    config: Config,
    delayed: Option<DelayedStates>,
    random: Option<RandomState>,
    weights: Option<QuantizedTensor>,
    buffers: Option<RecipeBuffers>,
    save: SavePolicy,
    backward: BackwardPrecision,
}

/// What delayed scaling remembers of a layer.
#[derive(Clone, Debug)]
pub struct DelayedStates {
    /// Of the tokens.
    pub input: DelayedState,
    /// Of the weights.
    pub weight: DelayedState,
    /// Of the output gradients.
    pub grad_output: DelayedState,
}

impl DelayedStates {
    fn of(&self, role: Role) -> &DelayedState {
        match role {
            Role::Input => &self.input,
            Role::Weight => &self.weight,
            Role::GradOutput => &self.grad_output,
        }
    }
}

/// Memory for everything that a layer quantizes in one forward and its backward, for up to as many
/// token rows as it was made for: nothing can be allocated in a graph. What forward keeps for backward
/// lives in it, so forwards whose backwards are still to come need buffers each.
///
/// Where backward is not in the recipe's precision ([`BackwardPrecision`]), nothing of it is
/// quantized, so there are rowwise tokens and weights alone.
#[derive(Clone, Debug)]
pub struct RecipeBuffers {
    input: QuantizedTensor,
    weight: QuantizedTensor,
    /// For [`BackwardPrecision::Recipe`].
    grad_output: Option<QuantizedTensor>,
    /// Tokens and weights in the layer's type, for [`BackwardPrecision::Dequantized`].
    restored: Option<(Tensor, Tensor)>,
}

impl RecipeBuffers {
    /// Memory for `rows` token rows of a layer that follows `recipe`, with its precision of backward.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(stream: &Stream, recipe: &LayerRecipe, rows: usize) -> Result<Self> {
        let empty =
            |role| QuantizedTensor::empty(stream, recipe.spec(role, rows, recipe.used(role)));
        let Config { groups, in_features, out_features, dtype } = recipe.config;
        let restored = match recipe.backward {
            BackwardPrecision::Dequantized => Some((
                Tensor::empty(stream, &[rows, in_features], dtype)?,
                Tensor::empty(stream, &[groups, out_features, in_features], dtype)?,
            )),
            BackwardPrecision::Recipe | BackwardPrecision::High => None,
        };
        let (input, weight) = (empty(Role::Input)?, empty(Role::Weight)?);
        let grad_output = recipe.in_backward().then(|| empty(Role::GradOutput)).transpose()?;
        Ok(Self { input, weight, grad_output, restored })
    }

    /// Bytes of all of it.
    pub fn byte_len(&self) -> usize {
        self.tensors().map(Tensor::byte_len).sum()
    }

    fn of(&self, role: Role) -> Option<&QuantizedTensor> {
        match role {
            Role::Input => Some(&self.input),
            Role::Weight => Some(&self.weight),
            Role::GradOutput => self.grad_output.as_ref(),
        }
    }

    fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        let quantized = [&self.input, &self.weight].into_iter().chain(&self.grad_output);
        let restored = self.restored.iter().flat_map(|(tokens, weights)| [tokens, weights]);
        quantized.flat_map(QuantizedTensor::tensors).chain(restored)
    }
}

/// Shape and format of what a layer quantizes; `[rowwise, columnwise]`.
fn spec(
    config: &Config,
    recipe: &Recipe,
    role: Role,
    rows: usize,
    copies: [bool; 2],
) -> QuantizedSpec {
    let Config { groups, in_features, out_features, .. } = *config;
    let source = match role {
        Role::Input => SourceShape::Tokens { rows, features: in_features },
        Role::GradOutput => SourceShape::Tokens { rows, features: out_features },
        Role::Weight => SourceShape::Weights { rows: out_features, columns: in_features },
    };
    let format = recipe.format(role);
    let form = if format.is_micro() { Form::Exact } else { Form::Codes };
    let [rowwise, columnwise] = copies.map(|wanted| wanted.then_some(form));
    QuantizedSpec { groups, source, format, rowwise, columnwise }
}

impl LayerRecipe {
    /// The recipe, with new states where its scales are delayed.
    ///
    /// # Errors
    /// A recipe that cannot be; features or types that the stream's device cannot quantize or multiply;
    /// out of memory.
    pub fn new(stream: &Stream, config: Config, recipe: Recipe) -> Result<Self> {
        recipe.check()?;
        let delayed = match recipe {
            Recipe::Delayed(delayed) => {
                let state = |role| {
                    DelayedState::new(stream, delayed, config.groups, recipe.format(role).dtype())
                };
                Some(DelayedStates {
                    input: state(Role::Input)?,
                    weight: state(Role::Weight)?,
                    grad_output: state(Role::GradOutput)?,
                })
            }
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
        let (weights, buffers) = (None, None);
        let own = Self { recipe, config, delayed, random, weights, buffers, save, backward };
        let target = stream.device().target();
        own.problems(1, true, true, config.dtype)
            .into_iter()
            .try_for_each(|problem| Plan::new(problem, target).map(drop))?;
        Ok(own)
    }

    /// The same recipe with weights that are quantized already, by a [`WeightCache`](super::WeightCache)
    /// or because they are the only ones there are; forward then does not quantize the layer's own.
    /// Those of MXFP8 and NVFP4 must be exact numbers ([`Form::Exact`]) where a GPU multiplies them,
    /// which forward says; the CPU takes codes, too.
    ///
    /// # Errors
    /// They are not those of such a layer.
    pub fn with_weights(self, weights: QuantizedTensor) -> Result<Self> {
        self.check_weights_fit(weights.spec())?;
        Ok(Self { weights: Some(weights), ..self })
    }

    /// As [`LayerRecipe::with_weights`], of discrete weights: a quantized tensor of one group for each
    /// expert. The kernels read packed weights, so they are copied once, here, and what becomes of
    /// them later is not seen; [`QuantizedTensor::gather`] says what that costs, and with
    /// [`QuantizedTensor::gather_from`] the copies can follow a change.
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
    /// // The layer's own weights are not read.
    /// let own = GroupedTensor::zeros(&stream, ParamLayout::Discrete, 2, &[16, 32], DType::Bf16)?;
    /// let layer = GroupedLinear::new(&stream, config, own, None)?;
    /// let x = Tensor::from_f32(&stream, &[2, 32], DType::Bf16, &[0.5; 64])?;
    /// let options = ForwardOptions { recipe: Some(&recipe), ..ForwardOptions::default() };
    /// let (y, _) = layer.forward(&stream, &x, &Splits::host(&[1, 1])?, options)?;
    /// assert_eq!(y.to_f32(&stream)?, [[16.0; 16], [32.0; 16]].concat());
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
        let want = self.spec(Role::Weight, 0, [true, true]);
        if (got.groups, got.source, got.format) == (want.groups, want.source, want.format) {
            return Ok(());
        }
        Err(Error::invalid(format!("quantized weights: {got:?} were given, {want:?} are needed")))
    }

    /// The same recipe in memory of its own, as graphs need it.
    pub fn with_buffers(self, buffers: RecipeBuffers) -> Self {
        Self { buffers: Some(buffers), ..self }
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
        if save == SavePolicy::Original && self.backward == BackwardPrecision::Dequantized {
            return Err(original_and_dequantized());
        }
        Ok(Self { save, ..self })
    }

    /// In which precision backward computes.
    ///
    /// # Errors
    /// That of the recipe, where tokens have a scale for each row; restored tokens, where they are
    /// kept as they are.
    pub fn with_backward(self, backward: BackwardPrecision) -> Result<Self> {
        let rows_scaled = matches!(self.recipe, Recipe::Nvfp4(nvfp4) if nvfp4.input == Scope::Row);
        if rows_scaled && backward == BackwardPrecision::Recipe {
            return Err(Error::unsupported(
                "tokens with a scale for each row have no copy that the gradient of the weights could \
                 read; compute backward in high precision (BackwardPrecision::High)",
            ));
        }
        if self.save == SavePolicy::Original && backward == BackwardPrecision::Dequantized {
            return Err(original_and_dequantized());
        }
        Ok(Self { backward, ..self })
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
        &self.recipe
    }

    /// What delayed scaling remembers.
    pub fn delayed(&self) -> Option<&DelayedStates> {
        self.delayed.as_ref()
    }

    /// Ends a step of delayed scaling: makes the next scales of tokens, weights and output gradients.
    /// Other recipes have nothing to end.
    ///
    /// # Errors
    /// A stream of another device; a driver failure.
    pub fn update(&mut self, stream: &Stream) -> Result<()> {
        let Some(DelayedStates { input, weight, grad_output }) = &mut self.delayed else {
            return Ok(());
        };
        [input, weight, grad_output].into_iter().try_for_each(|state| state.update(stream))
    }

    /// Whether backward multiplies quantized tensors.
    pub(super) fn in_backward(&self) -> bool {
        self.backward == BackwardPrecision::Recipe
    }

    /// Whether backward restores what forward quantized.
    pub(super) fn dequantizes(&self) -> bool {
        self.backward == BackwardPrecision::Dequantized
    }

    /// The copy of the tokens that is kept for backward.
    pub(super) fn kept_tokens(&self) -> Option<Direction> {
        match (self.backward, self.save) {
            (BackwardPrecision::Recipe, SavePolicy::Quantized) => Some(Direction::Columnwise),
            (BackwardPrecision::Dequantized, _) => Some(Direction::Rowwise),
            _ => None,
        }
    }

    /// The copy of the weights that is kept for backward.
    pub(super) fn kept_weights(&self) -> Option<Direction> {
        match self.backward {
            BackwardPrecision::Recipe => Some(Direction::Columnwise),
            BackwardPrecision::Dequantized => Some(Direction::Rowwise),
            BackwardPrecision::High => None,
        }
    }

    /// The copies of a tensor that forward and backward read.
    fn used(&self, role: Role) -> [bool; 2] {
        let scales_rows =
            matches!(self.recipe.format(role), Format::Nvfp4(own) if own.scope == Scope::Row);
        [true, self.in_backward() && !scales_rows]
    }

    /// Restores the tokens that forward kept.
    pub(super) fn restore_tokens(
        &self,
        stream: &Stream,
        x: &QuantizedTensor,
        splits: &Splits,
    ) -> Result<Tensor> {
        let Config { in_features, dtype, .. } = self.config;
        let mut restored = match self.buffers.as_ref().and_then(|own| own.restored.as_ref()) {
            Some((tokens, _)) => tokens.clone(),
            None => Tensor::empty(stream, &[x.spec().source.rows(), in_features], dtype)?,
        };
        let sink = DequantizeSink::Tokens(&mut restored, splits);
        dequantize(stream, x, Direction::Rowwise, sink)?;
        Ok(restored)
    }

    /// Restores the weights that forward kept.
    pub(super) fn restore_weights(
        &self,
        stream: &Stream,
        weights: &QuantizedTensor,
    ) -> Result<GroupedTensor> {
        let Config { groups, in_features, out_features, dtype } = self.config;
        let restored = match self.buffers.as_ref().and_then(|own| own.restored.as_ref()) {
            Some((_, weights)) => weights.clone(),
            None => Tensor::empty(stream, &[groups, out_features, in_features], dtype)?,
        };
        let mut restored = GroupedTensor::packed(restored)?;
        dequantize(stream, weights, Direction::Rowwise, DequantizeSink::Weights(&mut restored))?;
        Ok(restored)
    }

    /// The memory that a call uses over and over, for comparison.
    pub(super) fn memory(&self) -> Vec<&Tensor> {
        let buffers = self.buffers.iter().flat_map(RecipeBuffers::tensors);
        let delayed =
            self.delayed.iter().flat_map(|own| [&own.input, &own.weight, &own.grad_output]);
        let weights = self.weights.iter().flat_map(QuantizedTensor::tensors);
        let random = self.random.iter().map(RandomState::tensor);
        let delayed = delayed.map(DelayedState::scale);
        weights.chain(buffers).chain(delayed).chain(random).collect()
    }

    pub(super) fn spec(&self, role: Role, rows: usize, copies: [bool; 2]) -> QuantizedSpec {
        spec(&self.config, &self.recipe, role, rows, copies)
    }

    /// Memory for a tensor with these copies: the buffers', if there are any, else new.
    pub(super) fn open(
        &self,
        stream: &Stream,
        role: Role,
        rows: usize,
        [rowwise, columnwise]: [bool; 2],
    ) -> Result<QuantizedTensor> {
        let want = self.spec(role, rows, [rowwise, columnwise]);
        let Some(buffers) = &self.buffers else {
            return QuantizedTensor::empty(stream, want);
        };
        let wanted = [(Direction::Rowwise, rowwise), (Direction::Columnwise, columnwise)];
        let has_all = |buffer: &&QuantizedTensor| {
            wanted.iter().all(|&(direction, wanted)| !wanted || buffer.spec().has(direction))
        };
        let Some(buffer) = buffers.of(role).filter(has_all) else {
            return Err(Error::invalid(format!(
                "the recipe's buffers were made for backward in another precision, and have no room \
                 for all copies of {}; make them with RecipeBuffers::new of the recipe as it is now",
                match role {
                    Role::Input => "the tokens",
                    Role::Weight => "the weights",
                    Role::GradOutput => "the output gradients",
                }
            )));
        };
        let own = buffer.spec();
        if own.source != want.source || own.groups != want.groups || own.format != want.format {
            return Err(Error::invalid(format!(
                "the recipe's buffers were made for {:?} in {}, {:?} in {} is needed",
                own.source, own.format, want.source, want.format
            )));
        }
        match (rowwise, columnwise) {
            (true, true) => Ok(buffer.clone()),
            (true, false) => buffer.only(Direction::Rowwise),
            (false, _) => buffer.only(Direction::Columnwise),
        }
    }

    /// Quantizes tokens or output gradients; those of a bias may be summed on the way.
    pub(super) fn args<'a>(&'a self, role: Role, source: QuantizeSource<'a>) -> QuantizeArgs<'a> {
        let delayed = self.delayed.as_ref().map(|states| states.of(role));
        let scale = self.recipe.scale_rule();
        let four_over_six = self.recipe.four_over_six(role).map(|choice| choice.error);
        let random = self.random.as_ref().filter(|_| self.recipe.is_stochastic(role));
        QuantizeArgs { scale, delayed, four_over_six, random, ..QuantizeArgs::new(source) }
    }

    pub(super) fn tokens(
        &self,
        stream: &Stream,
        role: Role,
        x: &Tensor,
        splits: &Splits,
        copies: [bool; 2],
    ) -> Result<QuantizedTensor> {
        let mut quantized = self.open(stream, role, x.shape()[0], copies)?;
        let source = QuantizeSource::Tokens(x, splits);
        quantize(stream, self.args(role, source), &mut quantized)?;
        Ok(quantized)
    }

    /// Refuses tokens that were quantized by someone else in another way than forward would, or
    /// without a copy that it reads or (`columnwise`) backward.
    pub(super) fn check_tokens(
        &self,
        x: &QuantizedTensor,
        columnwise: bool,
        target: Target,
    ) -> Result<()> {
        let got = x.spec();
        let want = self.spec(Role::Input, got.source.rows(), [true, columnwise]);
        if (got.groups, got.source, got.format) != (want.groups, want.source, want.format) {
            return Err(Error::invalid(format!(
                "x: {:?} in {} groups of {} were given, {:?} in {} groups of {} are needed",
                got.source, got.groups, got.format, want.source, want.groups, want.format
            )));
        }
        for direction in want.directions() {
            check_operand("x", got, direction, target)?;
        }
        if self.kept_tokens().is_none() {
            return Err(Error::unsupported(
                "x: quantized tokens were given, and backward needs them as they were; keep the \
                 quantized copy (SavePolicy::Quantized) or restore it (BackwardPrecision::Dequantized)",
            ));
        }
        Ok(())
    }

    /// Refuses weights that were given without a copy that forward reads, or (`columnwise`) backward.
    pub(super) fn check_weights(&self, columnwise: bool, target: Target) -> Result<()> {
        let Some(weights) = &self.weights else { return Ok(()) };
        let needed = [Some(Direction::Rowwise), columnwise.then_some(Direction::Columnwise)];
        for direction in needed.into_iter().flatten() {
            check_operand("weights", weights.spec(), direction, target)?;
        }
        Ok(())
    }

    /// The quantized weights: those given, or the layer's own, quantized now.
    pub(super) fn weights(
        &self,
        stream: &Stream,
        weights: &GroupedTensor,
        columnwise: bool,
    ) -> Result<QuantizedTensor> {
        if let Some(weights) = &self.weights {
            return Ok(weights.clone());
        }
        let mut quantized = self.open(stream, Role::Weight, 0, [true, columnwise])?;
        let source = QuantizeSource::Weights(weights);
        quantize(stream, self.args(Role::Weight, source), &mut quantized)?;
        Ok(quantized)
    }

    /// A product of the layer.
    pub(super) fn product(
        &self,
        pass: Pass,
        rows: usize,
        output: DType,
        bias: BiasKind,
    ) -> ScaledGemmProblem {
        let Config { groups, in_features, out_features, .. } = self.config;
        let (a, b) = match pass {
            Pass::Fprop => (Role::Input, Role::Weight),
            Pass::Dgrad => (Role::GradOutput, Role::Weight),
            Pass::Wgrad => (Role::GradOutput, Role::Input),
        };
        ScaledGemmProblem {
            pass,
            groups,
            rows,
            in_features,
            out_features,
            a: self.recipe.format(a),
            b: self.recipe.format(b),
            accumulation: self.recipe.accumulation(pass),
            output,
            bias,
        }
    }

    /// Everything that forward and backward compute in low precision, with outputs of the layer's type.
    fn problems(&self, rows: usize, dx: bool, dw: bool, output: DType) -> Vec<Problem> {
        let scales = match self.delayed {
            Some(_) => ScaleSource::Given,
            None => ScaleSource::Own,
        };
        let input = self.config.dtype;
        let quantize = |role, copies| -> Problem {
            let four_over_six = self.recipe.four_over_six(role).map(|choice| choice.error);
            let stochastic = self.recipe.is_stochastic(role);
            let plain = QuantizeProblem::new(self.spec(role, rows, copies), input);
            QuantizeProblem { scales, four_over_six, stochastic, ..plain }.into()
        };
        let product = |pass| Problem::from(self.product(pass, rows, output, BiasKind::None));
        let (dx, dw) = (dx && self.in_backward(), dw && self.in_backward());
        let mut problems = vec![
            quantize(Role::Input, [true, dw]),
            quantize(Role::Weight, [true, dx]),
            product(Pass::Fprop),
        ];
        if self.dequantizes() {
            let restore = |role| -> Problem {
                let source = self.spec(role, rows, [true, false]);
                let (direction, output) = (Direction::Rowwise, input);
                DequantizeProblem { source, direction, output, exact: false }.into()
            };
            problems.extend([restore(Role::Input), restore(Role::Weight)]);
        }
        if dx || dw {
            problems.push(quantize(Role::GradOutput, [dx, dw]));
        }
        problems.extend(dx.then(|| product(Pass::Dgrad)));
        problems.extend(dw.then(|| product(Pass::Wgrad)));
        problems
    }

    /// Why a layer cannot follow the recipe on `target`.
    pub(super) fn unsupported_reason(
        &self,
        target: Target,
        rows: usize,
        (dx, dw): (bool, bool),
        kernel: KernelChoice,
        captured: bool,
    ) -> Option<String> {
        if kernel == KernelChoice::Simt {
            return Some(
                "KernelChoice::Simt was asked for with a recipe; the readable kernel takes no quantized operands"
                    .to_owned(),
            );
        }
        if captured && self.buffers.is_none() {
            return Some(
                "a recipe's tensors would be new, and nothing can be allocated in a graph; give it \
                 memory with LayerRecipe::with_buffers"
                    .to_owned(),
            );
        }
        let problems = self.problems(rows, dx, dw, self.config.dtype);
        let refused = problems.into_iter().find_map(|problem| Plan::new(problem, target).err());
        refused.map(|error| error.to_string())
    }

    /// Refuses layers and calls that the recipe was not made for.
    pub(super) fn check_layer(&self, config: &Config, kernel: KernelChoice) -> Result<()> {
        if self.config != *config {
            return Err(Error::invalid(format!(
                "the recipe was made for a layer of {:?}, this one is {config:?}",
                self.config
            )));
        }
        if kernel == KernelChoice::Simt {
            return Err(Error::unsupported(
                "KernelChoice::Simt was asked for with a recipe; the readable kernel takes no quantized operands",
            ));
        }
        Ok(())
    }
}

/// Refuses an operand without the copy that a product reads, or in a form that it cannot read.
fn check_operand(
    name: &'static str,
    spec: QuantizedSpec,
    direction: Direction,
    target: Target,
) -> Result<()> {
    if spec.form(direction).is_none() {
        return Err(missing_copy(name, direction));
    }
    if target.gpu.is_none() || !spec.format.is_micro() {
        return Ok(());
    }
    check_exact(name, spec, direction)
}

fn original_and_dequantized() -> Error {
    Error::unsupported(
        "BackwardPrecision::Dequantized restores the tokens that were quantized, so they cannot be kept \
         as they are; use SavePolicy::Quantized, or BackwardPrecision::High",
    )
}

/// Quantizes master weights, packed or discrete, for the products of a layer: what a
/// [`WeightCache`](super::WeightCache) holds between optimiser steps, for
/// [`LayerRecipe::with_weights`]. With delayed scaling the history notes their magnitudes when they are
/// quantized, and the copies keep the scale of that moment.
#[derive(Clone, Debug)]
pub struct QuantizeWeights {
    /// The recipe of the layer that reads them.
    pub recipe: LayerRecipe,
    /// Type of the master weights.
    pub master: DType,
}

impl Prepare for QuantizeWeights {
    type Prepared = QuantizedTensor;

    fn allocate(&self, stream: &Stream) -> Result<QuantizedTensor> {
        let destination = self.recipe.spec(Role::Weight, 0, [true, true]);
        let four_over_six = self.recipe.recipe.four_over_six(Role::Weight);
        let four_over_six = four_over_six.map(|choice| choice.error);
        let plain = QuantizeProblem::new(destination, self.master);
        let scales = match self.recipe.delayed {
            Some(_) => ScaleSource::Given,
            None => ScaleSource::Own,
        };
        let problem = QuantizeProblem { four_over_six, scales, ..plain };
        Plan::new(problem.into(), stream.device().target())?;
        QuantizedTensor::empty(stream, destination)
    }

    fn fill(
        &self,
        stream: &Stream,
        master: &GroupedTensor,
        skip: &Tensor,
        prepared: &mut QuantizedTensor,
    ) -> Result<()> {
        if master.dtype() != self.master {
            return Err(Error::dtype("master weights", master.dtype(), self.master.to_string()));
        }
        let source = QuantizeSource::Weights(master);
        let args = self.recipe.args(Role::Weight, source);
        quantize(stream, QuantizeArgs { skip: Some(skip), ..args }, prepared)
    }
}
