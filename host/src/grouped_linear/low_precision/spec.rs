//! A layer's recipe without memory.

use std::hash::{Hash, Hasher};

use super::super::Config;
use super::buffers::BufferSpecs;
use super::{BackwardPrecision, SavePolicy};
use crate::error::Result;
use crate::plan::{KernelChoice, ScaleSource, Target, check_form};
use crate::recipe::{Format, Recipe, Role, Scope};
use crate::tensor::{Direction, Form, QuantizedSpec, missing_copy};

/// A [`LayerRecipe`](crate::LayerRecipe) without memory: which recipe of which layer, what is kept
/// for backward, and shapes and formats of the weights and buffers that it has been given. What a
/// call with it gives and whether it can be executed follows from this.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecipeSpec {
    pub(super) recipe: Recipe,
    pub(super) config: Config,
    pub(super) form: Form,
    pub(super) save: SavePolicy,
    pub(super) backward: BackwardPrecision,
    /// Of weights that are quantized already.
    pub(super) weights: Option<QuantizedSpec>,
    pub(super) buffers: Option<BufferSpecs>,
}

/// Its numbers are finite: [`Recipe::check`] refuses others.
impl Eq for RecipeSpec {}

impl Hash for RecipeSpec {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Equal ones have equal parts. Without the recipe itself, which has fractions.
        let Self { recipe: _, config, form, save, backward, weights, buffers } = self;
        (config, form, save, backward, weights, buffers).hash(state);
    }
}

impl RecipeSpec {
    /// The recipe.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// Sizes and type of the layer.
    pub fn config(&self) -> Config {
        self.config
    }

    /// How tensors of MXFP8 or NVFP4 are stored.
    pub fn form(&self) -> Form {
        self.form
    }

    /// What forward keeps of the tokens.
    pub fn save(&self) -> SavePolicy {
        self.save
    }

    /// In which precision backward computes.
    pub fn backward(&self) -> BackwardPrecision {
        self.backward
    }

    /// The weights that are used in place of the layer's own, if some were given.
    pub fn weights(&self) -> Option<QuantizedSpec> {
        self.weights
    }

    /// Whether there is memory for what is quantized ([`RecipeBuffers`](crate::RecipeBuffers)).
    pub fn has_buffers(&self) -> bool {
        self.buffers.is_some()
    }

    /// The copy of the tokens that is kept for backward.
    pub(in crate::grouped_linear) fn kept_tokens(&self) -> Option<Direction> {
        match (self.backward, self.save) {
            (BackwardPrecision::Recipe, SavePolicy::Quantized) => Some(Direction::Columnwise),
            (BackwardPrecision::Dequantized, _) => Some(Direction::Rowwise),
            _ => None,
        }
    }

    /// The copy of the weights that is kept for backward.
    pub(in crate::grouped_linear) fn kept_weights(&self) -> Option<Direction> {
        match self.backward {
            BackwardPrecision::Recipe => Some(Direction::Columnwise),
            BackwardPrecision::Dequantized => Some(Direction::Rowwise),
            BackwardPrecision::High => None,
        }
    }

    /// Whether forward makes the columnwise copy of the tokens, where the gradient of the weights
    /// is wanted.
    pub(in crate::grouped_linear) fn columnwise_tokens(&self, dw: bool) -> bool {
        dw && self.kept_tokens() == Some(Direction::Columnwise)
    }

    /// Whether forward makes the columnwise copy of the weights, where the gradient of the tokens
    /// is wanted.
    pub(in crate::grouped_linear) fn columnwise_weights(&self, dx: bool) -> bool {
        dx && self.kept_weights() == Some(Direction::Columnwise)
    }

    /// What is kept of the tokens in low precision, for so many rows.
    pub(in crate::grouped_linear) fn saved_tokens(&self, rows: usize) -> Option<QuantizedSpec> {
        Some(self.tensor(Role::Input, rows, only(self.kept_tokens()?)))
    }

    /// What is kept of the weights in low precision, in new memory.
    pub(crate) fn saved_weights(&self) -> Option<QuantizedSpec> {
        let kept = self.kept_weights().filter(|_| self.makes_weights())?;
        Some(self.tensor(Role::Weight, 0, only(kept)))
    }

    /// Whether forward quantizes the weights into new memory.
    pub(in crate::grouped_linear) fn makes_weights(&self) -> bool {
        self.weights.is_none() && self.buffers.is_none()
    }

    /// Whether what forward keeps for backward, and what that makes, lies in buffers.
    pub(crate) fn keeps_in_buffers(&self) -> bool {
        self.buffers.is_some() && self.backward != BackwardPrecision::High
    }

    /// Whether backward multiplies quantized tensors.
    pub(in crate::grouped_linear) fn in_backward(&self) -> bool {
        self.backward == BackwardPrecision::Recipe
    }

    /// Whether backward restores what forward quantized.
    pub(in crate::grouped_linear) fn dequantizes(&self) -> bool {
        self.backward == BackwardPrecision::Dequantized
    }

    /// The copies of a tensor that forward and backward read.
    pub(super) fn used(&self, role: Role) -> [bool; 2] {
        let scales_rows =
            matches!(self.recipe.format(role), Format::Nvfp4(own) if own.scope == Scope::Row);
        [true, self.in_backward() && !scales_rows]
    }

    /// Where the scales of groups come from.
    pub(super) fn scale_source(&self) -> ScaleSource {
        match self.recipe {
            Recipe::Delayed(_) => ScaleSource::Given,
            _ => ScaleSource::Own,
        }
    }

    /// Refuses weights that were given without a copy that forward reads, or (`columnwise`)
    /// backward, or in a form that the target's products do not take.
    pub(in crate::grouped_linear) fn check_given_weights(
        &self,
        columnwise: bool,
        target: Target,
    ) -> Result<()> {
        let needed = [Some(Direction::Rowwise), columnwise.then_some(Direction::Columnwise)];
        self.weights.into_iter().try_for_each(|weights| {
            let mut needed = needed.into_iter().flatten();
            needed
                .try_for_each(|direction| self.check_operand("weights", weights, direction, target))
        })
    }

    /// Refuses calls that the recipe was not made for, whatever the target: of another layer or
    /// kernel, with buffers or given weights that lack something of it or of its gradients of
    /// tokens and weights.
    pub(crate) fn check_call(
        &self,
        config: &Config,
        kernel: KernelChoice,
        rows: usize,
        [dx, dw]: [bool; 2],
    ) -> Result<()> {
        self.check_layer(config, kernel)?;
        // On the CPU, which takes every form, copies alone are asked for.
        self.check_given_weights(self.columnwise_weights(dx), Target::CPU)?;
        self.check_buffers(rows, [dx, dw])
    }

    /// Refuses an operand without the copy that a product reads, or in a form that it cannot read.
    pub(super) fn check_operand(
        &self,
        name: &'static str,
        operand: QuantizedSpec,
        direction: Direction,
        target: Target,
    ) -> Result<()> {
        let Some(form) = operand.form(direction) else {
            return Err(missing_copy(name, direction));
        };
        if target.gpu.is_none() || !operand.format.is_micro() {
            return Ok(());
        }
        check_form(name, operand.format, form, self.form)
    }
}

/// One copy: `[rowwise, columnwise]`.
fn only(direction: Direction) -> [bool; 2] {
    [direction == Direction::Rowwise, direction == Direction::Columnwise]
}
