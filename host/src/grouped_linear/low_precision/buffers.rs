//! Memory for what a layer's recipe quantizes.

use super::super::Config;
use super::{BackwardPrecision, LayerRecipe};
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::recipe::Role;
use crate::tensor::{Direction, QuantizedTensor, Tensor};

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

    /// Room for tokens and weights as backward reads them.
    pub(super) fn restored(&self) -> Option<&(Tensor, Tensor)> {
        self.restored.as_ref()
    }

    pub(super) fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        let quantized = [&self.input, &self.weight].into_iter().chain(&self.grad_output);
        let restored = self.restored.iter().flat_map(|(tokens, weights)| [tokens, weights]);
        quantized.flat_map(QuantizedTensor::tensors).chain(restored)
    }
}

impl LayerRecipe {
    /// Memory for a tensor with these copies: the buffers', if there are any, else new.
    pub(in crate::grouped_linear) fn open(
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
}
