//! What delayed scaling remembers of a layer.

use super::super::delayed_state::DelayedState;
use crate::backend::Stream;
use crate::error::Result;
use crate::recipe::{DelayedScaling, Recipe, Role};

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
    pub(super) fn new(stream: &Stream, recipe: DelayedScaling, groups: usize) -> Result<Self> {
        let state = |role| {
            let format = Recipe::Delayed(recipe).format(role);
            DelayedState::new(stream, recipe, groups, format.dtype())
        };
        Ok(Self {
            input: state(Role::Input)?,
            weight: state(Role::Weight)?,
            grad_output: state(Role::GradOutput)?,
        })
    }

    pub(super) fn of(&self, role: Role) -> &DelayedState {
        match role {
            Role::Input => &self.input,
            Role::Weight => &self.weight,
            Role::GradOutput => &self.grad_output,
        }
    }

    pub(super) fn each(&mut self) -> [&mut DelayedState; 3] {
        [&mut self.input, &mut self.weight, &mut self.grad_output]
    }
}
