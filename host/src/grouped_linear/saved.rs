//! What forward keeps for backward.

use super::Config;
use super::forward::Needs;
use super::low_precision::{Contents, LayerRecipe};
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::plan::{BiasKind, KernelChoice, Pass, Problem, Unkept};
use crate::recipe::Role;
use crate::splits::Splits;
use crate::tensor::{DType, GroupedTensor, QuantizedTensor, Tensor};

/// What [`GroupedLinear::backward`](super::GroupedLinear::backward) needs of a forward call:
/// handles to what forward was given, no copies. With a recipe, what forward quantized, too: tokens
/// ([`SavePolicy`](crate::SavePolicy)), and weights unless the recipe was given some
/// ([`LayerRecipe::with_weights`]). Of these nobody else has a handle but
/// [`RecipeBuffers`](crate::RecipeBuffers), if there are any; a gradient of tokens that a later
/// call has written over there is refused.
///
/// Only what the asked-for gradients need is kept ([`Needs`]): the tokens for the gradient of the
/// weights, the weights for the gradient of the tokens. Backward consumes it, so its memory is
/// released as soon as nothing else holds it; a clone lets backward run more than once.
#[derive(Clone, Debug)]
#[must_use = "backward needs it; drop it explicitly where no gradient is wanted"]
pub struct Saved {
    /// Of the layer.
    pub(super) config: Config,
    pub(super) rows: usize,
    pub(super) needs: Needs,
    /// For dw.
    pub(super) x: Option<Tokens>,
    /// For dx.
    pub(super) weights: Option<Weights>,
    /// For dscales.
    pub(super) bias: Option<GroupedTensor>,
    /// For db.
    pub(super) bias_row_scales: Option<Tensor>,
    pub(super) splits: Splits,
    pub(crate) kernel: KernelChoice,
    /// What backward follows; none computes in the layer's type.
    pub(super) recipe: Option<LayerRecipe>,
    /// What restores quantized tokens and weights for a backward in the layer's type.
    pub(super) restore: Option<LayerRecipe>,
    /// Quantized tokens that lie in a recipe's buffers.
    pub(super) contents: Option<Contents>,
    /// Memory of a recipe that backward does not need, over which no gradient is written, either.
    pub(super) left: Option<Unkept>,
}

/// Tokens as backward reads them.
#[derive(Clone, Debug)]
pub(super) enum Tokens {
    Plain(Tensor),
    Quantized(QuantizedTensor),
}

impl Tokens {
    pub(super) fn rows(&self) -> usize {
        match self {
            Self::Plain(tensor) => tensor.shape()[0],
            Self::Quantized(tensor) => tensor.spec().source.rows(),
        }
    }

    pub(super) fn tensors(&self) -> Vec<&Tensor> {
        match self {
            Self::Plain(tensor) => vec![tensor],
            Self::Quantized(tensor) => tensor.tensors().collect(),
        }
    }
}

/// Weights as backward reads them.
#[derive(Clone, Debug)]
pub(super) enum Weights {
    Plain(GroupedTensor),
    Quantized(QuantizedTensor),
}

impl Weights {
    pub(super) fn tensors(&self) -> Vec<&Tensor> {
        match self {
            Self::Plain(tensor) => tensor.tensors().iter().collect(),
            Self::Quantized(tensor) => tensor.tensors().collect(),
        }
    }
}

/// Bytes of the elements that a [`Saved`] keeps a handle to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SavedBytes {
    /// Tokens and row scales: they live as long as the longest-lived handle.
    pub activations: usize,
    /// Weights and biases, which the layer holds as well; with a recipe quantized weights, which
    /// its [`RecipeBuffers`](crate::RecipeBuffers) or whoever gave them hold as well. Where forward
    /// quantized them into new memory, they live on account of this value alone.
    pub parameters: usize,
    /// Splits in device memory; splits of the host count nothing.
    pub splits: usize,
}

impl Saved {
    /// Bytes that stay allocated on account of this value (or would, if all other handles went).
    ///
    /// ```
    /// # use grouped_linear::*;
    /// # let stream = Device::cpu().stream()?;
    /// # let config = Config { groups: 2, in_features: 8, out_features: 4, dtype: DType::Bf16 };
    /// # let weights = GroupedTensor::packed(Tensor::zeros(&stream, &[2, 4, 8], DType::Bf16)?)?;
    /// # let layer = GroupedLinear::new(&stream, config, weights, None)?;
    /// # let x = Tensor::zeros(&stream, &[10, 8], DType::Bf16)?;
    /// # let splits = Splits::host(&[4, 6])?;
    /// let needs = Needs { dw: false, ..Needs::default() };
    /// let frozen = ForwardOptions { needs, ..ForwardOptions::default() };
    /// let (_, all) = layer.forward(&stream, &x, &splits, ForwardOptions::default())?;
    /// let (_, no_dw) = layer.forward(&stream, &x, &splits, frozen)?;
    /// assert_eq!(all.bytes().activations, 10 * 8 * 2);
    /// assert_eq!(no_dw.bytes().activations, 0); // only dw needs the tokens
    /// # Ok::<(), grouped_linear::Error>(())
    /// ```
    pub fn bytes(&self) -> SavedBytes {
        let bytes =
            |tensors: Vec<&Tensor>| tensors.into_iter().map(Tensor::byte_len).sum::<usize>();
        let splits = self.splits.device_tensor().map_or(0, Tensor::byte_len);
        SavedBytes {
            activations: bytes(self.activations()) - splits,
            parameters: bytes(self.parameters()),
            splits,
        }
    }

    /// What lives on account of this value alone.
    pub(crate) fn activations(&self) -> Vec<&Tensor> {
        let x = self.x.iter().flat_map(Tokens::tensors);
        x.chain(&self.bias_row_scales).chain(self.splits.device_tensor()).collect()
    }

    /// What the layer holds as well, or (quantized weights) its recipe may hold.
    pub(crate) fn parameters(&self) -> Vec<&Tensor> {
        let weights = self.weights.iter().flat_map(Weights::tensors);
        weights.chain(self.bias.iter().flat_map(GroupedTensor::tensors)).collect()
    }

    /// Weights that live on account of this value alone: forward quantized them, into new memory.
    pub(crate) fn own_weights(&self) -> Vec<&Tensor> {
        let is_new = |recipe: &LayerRecipe| recipe.spec().makes_weights();
        match &self.weights {
            Some(Weights::Quantized(weights)) if self.recipes().any(is_new) => {
                weights.tensors().collect()
            }
            _ => Vec::new(),
        }
    }

    /// What backward follows, or what restores its operands.
    pub(super) fn recipes(&self) -> impl Iterator<Item = &LayerRecipe> {
        self.recipe.iter().chain(&self.restore)
    }

    /// The same, of a forward in low precision: backward reads what it quantized.
    pub(super) fn with_quantized(
        mut self,
        recipe: &LayerRecipe,
        (x, weights, contents): (QuantizedTensor, QuantizedTensor, Option<Contents>),
    ) -> Result<Self> {
        if let (Some(_), Some(direction)) = (&self.x, recipe.spec().kept_tokens()) {
            self.x = Some(Tokens::Quantized(x.only(direction)?));
        }
        if let (Some(_), Some(direction)) = (&self.weights, recipe.spec().kept_weights()) {
            self.weights = Some(Weights::Quantized(weights.only(direction)?));
        }
        self.recipe = recipe.spec().in_backward().then(|| recipe.clone());
        self.restore = recipe.spec().dequantizes().then(|| recipe.clone());
        self.contents = contents;
        let needs_none = self.recipe.is_none() && self.restore.is_none();
        self.left = needs_none.then(|| Unkept::new(recipe.memory()));
        Ok(self)
    }

    /// The same of another run of a graph, which has put these tokens into the recipe's buffers.
    pub(super) fn again(&self, contents: Option<Contents>) -> Self {
        Self { contents, ..self.clone() }
    }

    /// Refuses quantized tokens that are gone, if there are any: the gradient of the weights would
    /// be that of others.
    pub(super) fn check_contents(&self) -> Result<()> {
        self.contents.as_ref().map_or(Ok(()), Contents::check_kept)
    }

    /// Notes what backward writes into the recipe's buffers for gradients of the tokens (`dx`) and
    /// the weights (`dw`); gives what the latter reads there: of the tokens, and of the output
    /// gradient.
    pub(super) fn note_backward(&self, [dx, dw]: [bool; 2]) -> [Option<Contents>; 2] {
        let x = match (&self.x, &self.recipe, &self.restore) {
            (Some(Tokens::Plain(_)), Some(recipe), _) if dw => {
                recipe.note_backward(Role::Input, [false, true])
            }
            (Some(Tokens::Quantized(_)), _, Some(recipe)) if dw => recipe.note_restored(),
            _ => self.contents.clone(),
        };
        let recipe = self.recipe.as_ref().filter(|_| dx || dw);
        [x, recipe.and_then(|recipe| recipe.note_backward(Role::GradOutput, [dx, dw]))]
    }

    /// The same as backward reads it, as far as gradients of the tokens (`dx`) and the weights
    /// (`dw`) are wanted: quantized tokens and weights restored where it computes in the layer's
    /// type, and tokens that were kept as they are quantized where it follows a recipe.
    pub(super) fn for_backward(mut self, stream: &Stream, [dx, dw]: [bool; 2]) -> Result<Self> {
        if let (true, Some(recipe), Some(Tokens::Plain(x))) = (dw, &self.recipe, &self.x) {
            let x = recipe.tokens(stream, Role::Input, x, &self.splits, [false, true])?;
            self.x = Some(Tokens::Quantized(x));
        }
        let Some(recipe) = &self.restore else { return Ok(self) };
        if let (true, Some(Tokens::Quantized(x))) = (dw, &self.x) {
            self.x = Some(Tokens::Plain(recipe.restore_tokens(stream, x, &self.splits)?));
        }
        if let (true, Some(Weights::Quantized(weights))) = (dx, &self.weights) {
            self.weights = Some(Weights::Plain(recipe.restore_weights(stream, weights)?));
        }
        Ok(self)
    }

    /// The product of a gradient.
    pub(super) fn product(&self, pass: Pass, output: DType) -> Problem {
        match &self.recipe {
            Some(recipe) => {
                recipe.spec().product(pass, self.rows, (output, BiasKind::None), self.kernel).into()
            }
            None => self.config.product(pass, self.rows, output, self.kernel).into(),
        }
    }

    /// Which gradients forward was told to keep operands for.
    pub fn needs(&self) -> Needs {
        self.needs
    }
}

impl SavedBytes {
    /// All of them.
    pub fn total(&self) -> usize {
        self.activations + self.parameters + self.splits
    }
}

/// Refuses a gradient for which forward was told to keep nothing.
pub(super) fn not_saved(gradient: &str) -> Error {
    Error::invalid(format!(
        "{gradient} was asked for, but forward kept nothing for it: ForwardOptions::needs leaves it \
         out, or there is nothing to differentiate"
    ))
}

/// The operand, or why there is none.
pub(super) fn operand<'a, T>(operand: &'a Option<T>, gradient: &str) -> Result<&'a T> {
    operand.as_ref().ok_or_else(|| not_saved(gradient))
}
