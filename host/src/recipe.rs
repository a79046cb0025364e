//! Recipes of low precision: which format each tensor of a layer is quantized to, and how its scales
//! are found. A recipe is plain data that is passed along; nothing is global.
//!
//! | recipe | tokens | weights | output gradients | scales |
//! | --- | --- | --- | --- | --- |
//! | [`CurrentScaling`] | E4M3, one per group | E4M3, one per group | E4M3 or E5M2 | FP32, of this tensor |
//! | [`DelayedScaling`] | the same | the same | the same | FP32, of earlier steps |
//! | [`BlockScaling`] | E4M3, 1 × 128 | E4M3, 128 × 128 | E4M3 or E5M2, 1 × 128 | FP32, powers of two unless asked otherwise |
//!
//! "One per group" is one scale for all of an expert's rows.

pub use grouped_linear_kernels::abi::quantize::Blocks;
pub use grouped_linear_kernels::abi::scaled::Accumulation;

use crate::error::{Error, Result};
pub use crate::numerics::scale::AmaxChoice;
use crate::plan::Pass;
use crate::tensor::DType;

/// The FP8 types of a recipe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fp8Types {
    /// E4M3 for all.
    E4m3,
    /// E4M3 for tokens and weights, E5M2, which reaches further, for output gradients.
    #[default]
    Hybrid,
}

/// A tensor of a layer that a recipe quantizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Tokens, X.
    Input,
    /// Weights, W.
    Weight,
    /// The gradient of the output, dY.
    GradOutput,
}

/// Per-tensor FP8 whose scales come from the tensor itself, just before it is quantized.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CurrentScaling {
    /// FP8 types.
    pub types: Fp8Types,
    /// How scales follow from magnitudes.
    pub scale: ScaleRule,
}

/// Per-tensor FP8 whose scales come from the magnitudes of earlier steps, so that a tensor is read
/// once. [`DelayedState`](crate::DelayedState) keeps the history.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DelayedScaling {
    /// FP8 types.
    pub types: Fp8Types,
    /// Steps that are remembered, at least 1.
    pub history_len: usize,
    /// Which of them decides.
    pub choice: AmaxChoice,
    /// Scales are divided by `2^margin`.
    pub margin: i32,
}

/// FP8 with a scale for every 128 neighbours (tokens, gradients) or every 128 × 128 (weights).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockScaling {
    /// FP8 types.
    pub types: Fp8Types,
    /// How scales follow from magnitudes.
    pub scale: ScaleRule,
    /// Blocks of the tokens.
    pub input: Blocks,
    /// Blocks of the weights.
    pub weight: Blocks,
    /// Blocks of the output gradients.
    pub grad_output: Blocks,
}

/// `scale = max / amax`, where `max` is the largest number of the format.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ScaleRule {
    /// Scales are rounded down to powers of two.
    pub power_of_two: bool,
    /// Magnitudes below it count as it; 0 changes nothing.
    pub epsilon: f32,
}

impl Default for DelayedScaling {
    fn default() -> Self {
        Self { types: Fp8Types::default(), history_len: 1024, choice: AmaxChoice::Max, margin: 0 }
    }
}

impl Default for BlockScaling {
    fn default() -> Self {
        Self {
            types: Fp8Types::E4m3,
            scale: ScaleRule { power_of_two: true, epsilon: 0.0 },
            input: Blocks::Vector,
            weight: Blocks::Square,
            grad_output: Blocks::Vector,
        }
    }
}

/// How a layer's tensors are quantized.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Recipe {
    /// Per-tensor FP8, scales of the tensor itself.
    Current(CurrentScaling),
    /// Per-tensor FP8, scales of earlier steps.
    Delayed(DelayedScaling),
    /// FP8 with a scale per block.
    Block(BlockScaling),
}

/// Number format and blocks of a quantized tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Format {
    /// E4M3 or E5M2.
    pub dtype: DType,
    /// What shares a scale.
    pub blocks: Blocks,
}

impl Recipe {
    /// The format of a tensor.
    ///
    /// ```
    /// use grouped_linear::recipe::{Blocks, BlockScaling, CurrentScaling, Recipe, Role};
    /// use grouped_linear::DType;
    /// let current = Recipe::Current(CurrentScaling::default());
    /// assert_eq!(current.format(Role::GradOutput).dtype, DType::E5m2);
    /// let block = Recipe::Block(BlockScaling::default());
    /// assert_eq!(block.format(Role::Weight).blocks, Blocks::Square);
    /// ```
    pub fn format(&self, role: Role) -> Format {
        let (types, blocks) = match self {
            Self::Current(current) => (current.types, Blocks::Tensor),
            Self::Delayed(delayed) => (delayed.types, Blocks::Tensor),
            Self::Block(block) => (block.types, block.blocks(role)),
        };
        let dtype = match (types, role) {
            (Fp8Types::Hybrid, Role::GradOutput) => DType::E5m2,
            _ => DType::E4m3,
        };
        Format { dtype, blocks }
    }

    /// How scales follow from magnitudes; delayed scales are never rounded.
    pub fn scale_rule(&self) -> ScaleRule {
        match self {
            Self::Current(current) => current.scale,
            Self::Delayed(_) => ScaleRule::default(),
            Self::Block(block) => block.scale,
        }
    }

    /// How the sums of a pass grow: those of forward in the tensor core alone where one scale holds
    /// for all of a group, since their relative error is that of the format; those of gradients, and
    /// all with scaled blocks, in FP32.
    pub fn accumulation(&self, pass: Pass) -> Accumulation {
        match (self, pass) {
            (Self::Current(_) | Self::Delayed(_), Pass::Fprop) => Accumulation::Fast,
            _ => Accumulation::Promoted,
        }
    }

    /// Refuses parameters that no tensor can be quantized with.
    ///
    /// # Errors
    /// A history without entries; a negative or infinite epsilon; a margin beyond ±126; square blocks
    /// on both sides of a product, or one scale for all of a tensor among blocks.
    pub fn check(&self) -> Result<()> {
        let epsilon = self.scale_rule().epsilon;
        if !(epsilon >= 0.0 && epsilon.is_finite()) {
            return Err(Error::invalid(format!(
                "recipe: epsilon is {epsilon}, a finite number that is not negative is needed"
            )));
        }
        match self {
            Self::Current(_) => Ok(()),
            Self::Delayed(delayed) => delayed.check(),
            Self::Block(block) => block.check(),
        }
    }
}

impl DelayedScaling {
    fn check(&self) -> Result<()> {
        let Self { history_len, margin, .. } = *self;
        if history_len == 0 || history_len > MAX_HISTORY {
            return Err(Error::invalid(format!(
                "recipe: the history has {history_len} steps, 1 to {MAX_HISTORY} are possible"
            )));
        }
        if margin.unsigned_abs() > 126 {
            return Err(Error::invalid(format!(
                "recipe: the margin is {margin}, -126 to 126 are possible"
            )));
        }
        Ok(())
    }
}

/// The most steps of a history: its kernel counts them in 32 bits, and nobody remembers more.
pub(crate) const MAX_HISTORY: usize = 1 << 20;

impl BlockScaling {
    fn blocks(&self, role: Role) -> Blocks {
        match role {
            Role::Input => self.input,
            Role::Weight => self.weight,
            Role::GradOutput => self.grad_output,
        }
    }

    fn check(&self) -> Result<()> {
        let Self { input, weight, grad_output, .. } = *self;
        if [input, weight, grad_output].contains(&Blocks::Tensor) {
            return Err(Error::invalid(
                "recipe: blocks of a tensor as a whole were asked for; use Recipe::Current",
            ));
        }
        let products = [(input, weight), (grad_output, weight), (grad_output, input)];
        if products.contains(&(Blocks::Square, Blocks::Square)) {
            return Err(Error::unsupported(
                "recipe: both operands of a product have square blocks, one must have vectors",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_refused() {
        let block = BlockScaling::default();
        let delayed = DelayedScaling::default();
        let rule = |epsilon| ScaleRule { power_of_two: false, epsilon };
        let current = |epsilon| CurrentScaling { scale: rule(epsilon), ..Default::default() };
        let table = [
            (Recipe::Block(block), None),
            (Recipe::Delayed(delayed), None),
            (Recipe::Current(current(1e-4)), None),
            (Recipe::Current(current(-1.0)), Some("epsilon is -1")),
            (Recipe::Current(current(f32::NAN)), Some("epsilon is NaN")),
            (Recipe::Delayed(DelayedScaling { history_len: 0, ..delayed }), Some("0 steps")),
            (Recipe::Delayed(DelayedScaling { margin: 127, ..delayed }), Some("margin is 127")),
            (Recipe::Block(BlockScaling { input: Blocks::Square, ..block }), Some("square blocks")),
            (Recipe::Block(BlockScaling { weight: Blocks::Tensor, ..block }), Some("as a whole")),
        ];
        for (recipe, expected) in table {
            let found = recipe.check().err().map(|error| error.to_string());
            match expected {
                Some(part) => {
                    assert!(found.as_ref().is_some_and(|text| text.contains(part)), "{found:?}")
                }
                None => assert_eq!(found, None),
            }
        }
    }
}
