//! Recipes of low precision: which format each tensor of a layer is quantized to, and how its
//! scales are found. A recipe is plain data that is passed along; nothing is global.
//!
//! A layer follows a [`Recipe`] through a [`LayerRecipe`](crate::LayerRecipe), which also holds
//! what is remembered from step to step, and is handed to forward
//! ([`ForwardOptions::recipe`](crate::ForwardOptions::recipe)). `LayerRecipe` has an example.
//!
//! | recipe | tokens | weights | output gradients | scales |
//! | --- | --- | --- | --- | --- |
//! | [`CurrentScaling`] | E4M3, one per group | E4M3, one per group | E4M3 or E5M2 | FP32, of this tensor |
//! | [`DelayedScaling`] | the same | the same | the same | FP32, of earlier steps |
//! | [`BlockScaling`] | E4M3, 1 × 128 | E4M3, 128 × 128 | E4M3 or E5M2, 1 × 128 | FP32, powers of two unless asked otherwise |
//! | [`Mxfp8Scaling`] | E4M3, 1 × 32 | E4M3, 1 × 32 or 32 × 32 | E4M3 or E5M2, 1 × 32 | powers of two |
//! | [`Nvfp4Scaling`] | E2M1, 1 × 16 | E2M1, 16 × 16 | E2M1, 1 × 16, rounded at random | E4M3, and FP32 above them |
//!
//! "One per group" is one scale for all of an expert's rows.
//!
//! # Which recipe?
//!
//! It depends on the GPU and on the size of the experts. Speeds are those of a layer's forward and
//! backward, beside the same layer in BF16, with everything quantized in every call where nothing
//! else is said (H200, 2026-11-26; `docs/benchmarks.md` has all of them, and those of an H100).
//!
//! - On Hopper with few large experts [`CurrentScaling`] is 1.47 to 1.54 times as fast as BF16 with
//!   8 experts, 1.28 times with 32. [`BlockScaling`] has finer scales, and 1.41 to 1.46 and 1.25
//!   times BF16's speed.
//! - With 64 experts of 2048 × 2048 BF16 is faster than either, which have 0.96 and 0.94 of its
//!   speed; with 128 of 1536 × 2048 they have 0.77 and 0.78.
//! - Quantizing the weights once for several microbatches
//!   ([`QuantizeWeights`](crate::QuantizeWeights)) changes that: the calls behind the first have
//!   1.31 and 1.22 times BF16's speed with 64 experts, 1.23 and 1.16 with 128, 1.64 and 1.47 with
//!   32, and 1.67 and 1.56 with 8.
//! - [`DelayedScaling`] reads each tensor once, where current scaling reads those of large experts
//!   twice: 1.57 to 1.63 times BF16's speed with 8 experts, 1.41 with 32, 1.02 with 64. Its
//!   scales are those of earlier steps, and the end of a step must be said
//!   ([`LayerRecipe::update`](crate::LayerRecipe::update)).
//! - [`Mxfp8Scaling`] and [`Nvfp4Scaling`] are for Blackwell, whose tensor cores multiply them. On
//!   Hopper they are slower than BF16, with 0.66 to 0.92 and 0.64 to 0.85 (2026-11-29) of its
//!   speed on eight shapes: there they serve to train with Blackwell's numbers.

mod format;

pub use grouped_linear_kernels::abi::scaled::Accumulation;

pub use self::format::{
    BlockShape, Blocks, ErrorMeasure, Format, Nvfp4Format, ScaleBound, Scope, Transform,
};
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
    /// Where the sums of each pass are accumulated.
    pub sums: Sums,
}

/// Per-tensor FP8 whose scales come from the magnitudes of earlier steps, so that a tensor is read
/// once. [`DelayedState`](crate::DelayedState) keeps the history.
///
/// Call [`LayerRecipe::update`](crate::LayerRecipe::update) once per step of the optimiser, after
/// the backward of the last microbatch: it makes the next scales. Without it all scales stay 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DelayedScaling {
    /// FP8 types.
    pub types: Fp8Types,
    /// Steps that are remembered, 1 to 2²⁰.
    pub history_len: usize,
    /// Which of them decides.
    pub choice: AmaxChoice,
    /// Scales are divided by `2^margin`; -112 to 126.
    pub margin: i32,
    /// Where the sums of each pass are accumulated.
    pub sums: Sums,
}

/// Where the sums of each pass are accumulated where one scale holds for all of a group:
/// TransformerEngine's `use_split_accumulator` is [`Accumulation::Promoted`].
///
/// By default, as there, those of forward stay in the tensor core, which on Hopper keeps about 14
/// bits of them, since that loses less than the format does, and those of gradients are accumulated
/// in FP32, which takes 5 to 6 % longer. Blackwell's tensor cores and the CPU sum in FP32 either
/// way. `dgrad` and `wgrad` do not matter where backward is not quantized
/// ([`BackwardPrecision`](crate::BackwardPrecision)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sums {
    /// Those of Y.
    pub fprop: Accumulation,
    /// Those of the gradient of X.
    pub dgrad: Accumulation,
    /// Those of the gradient of W.
    pub wgrad: Accumulation,
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

/// MXFP8: FP8 with a power of two for every 32 neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mxfp8Scaling {
    /// FP8 types.
    pub types: Fp8Types,
    /// Blocks of the weights; with squares, forward and backward read the same numbers.
    pub weight: BlockShape,
}

/// NVFP4: FP4 with two levels of scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Nvfp4Scaling {
    /// Blocks of the weights; with squares, forward and backward read the same numbers.
    pub weight: BlockShape,
    /// Whether tokens and output gradients are mixed along the tokens before the product that gives
    /// the gradient of the weights: outliers are spread, and the transform cancels in the product.
    pub transform: Transform,
    /// Whether output gradients are rounded at random, so that the mean of their errors is zero.
    pub stochastic_gradients: bool,
    /// Seed of the random numbers.
    pub seed: u64,
    /// What an FP32 scale of the tokens covers. With [`Scope::Row`] there is no copy that the
    /// gradient of the weights could read, so the tokens are not transformed, and backward computes
    /// in high precision.
    pub input: Scope,
    /// How the tokens' blocks pick a scale; `None`: their largest magnitude is mapped to 6.
    pub input_four_over_six: Option<FourOverSix>,
    /// How the weights' blocks do.
    pub weight_four_over_six: Option<FourOverSix>,
}

/// A block's largest magnitude is mapped to 6 or to 4, whichever restores the block better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FourOverSix {
    /// The error that is compared.
    pub error: ErrorMeasure,
    /// The largest block scale that is used where the largest magnitude is mapped to 6;
    /// [`ScaleBound::Reduced`] leaves room for mapping to 4. Both operands of a product carry their
    /// own.
    pub bound: ScaleBound,
}

/// `scale = max / amax`, where `max` is the largest number of the format.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ScaleRule {
    /// Scales are rounded down to powers of two.
    pub power_of_two: bool,
    /// Magnitudes below it count as it; 0 changes nothing.
    pub epsilon: f32,
}

impl Default for Sums {
    fn default() -> Self {
        let promoted = Accumulation::Promoted;
        Self { fprop: Accumulation::Fast, dgrad: promoted, wgrad: promoted }
    }
}

impl Default for DelayedScaling {
    fn default() -> Self {
        Self {
            types: Fp8Types::default(),
            history_len: 1024,
            choice: AmaxChoice::Max,
            margin: 0,
            sums: Sums::default(),
        }
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

impl Default for Mxfp8Scaling {
    fn default() -> Self {
        Self { types: Fp8Types::E4m3, weight: BlockShape::Line }
    }
}

impl Default for Nvfp4Scaling {
    fn default() -> Self {
        Self {
            weight: BlockShape::Square,
            transform: Transform::Hadamard,
            stochastic_gradients: true,
            seed: 0,
            input: Scope::Group,
            input_four_over_six: None,
            weight_four_over_six: None,
        }
    }
}

/// How a layer's tensors are quantized.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Recipe {
    /// Per-tensor FP8, scales of the tensor itself.
    Current(CurrentScaling),
    /// Per-tensor FP8, scales of earlier steps;
    /// [`LayerRecipe::update`](crate::LayerRecipe::update) ends a step.
    Delayed(DelayedScaling),
    /// FP8 with a scale per block.
    Block(BlockScaling),
    /// FP8 with a power of two per block of 32.
    Mxfp8(Mxfp8Scaling),
    /// FP4 with a scale per block of 16 and one above.
    Nvfp4(Nvfp4Scaling),
}

impl Recipe {
    /// The format of a tensor.
    ///
    /// ```
    /// use grouped_linear::recipe::{Blocks, BlockScaling, CurrentScaling, Format, Recipe, Role};
    /// use grouped_linear::DType;
    /// let current = Recipe::Current(CurrentScaling::default());
    /// assert_eq!(current.format(Role::GradOutput), Format::fp8(DType::E5m2, Blocks::Tensor));
    /// let block = Recipe::Block(BlockScaling::default());
    /// assert_eq!(block.format(Role::Weight), Format::fp8(DType::E4m3, Blocks::Square));
    /// ```
    pub fn format(&self, role: Role) -> Format {
        match self {
            Self::Current(current) => Format::fp8(current.types.of(role), Blocks::Tensor),
            Self::Delayed(delayed) => Format::fp8(delayed.types.of(role), Blocks::Tensor),
            Self::Block(block) => Format::fp8(block.types.of(role), block.blocks(role)),
            Self::Mxfp8(mxfp8) => {
                let blocks = if role == Role::Weight { mxfp8.weight } else { BlockShape::Line };
                Format::Mxfp8 { dtype: mxfp8.types.of(role), blocks }
            }
            Self::Nvfp4(nvfp4) => Format::Nvfp4(nvfp4.format(role)),
        }
    }

    /// How the blocks of a tensor pick their scale, where it is not always by the largest
    /// magnitude.
    pub fn four_over_six(&self, role: Role) -> Option<FourOverSix> {
        match self {
            Self::Nvfp4(nvfp4) => nvfp4.four_over_six(role),
            _ => None,
        }
    }

    /// Whether a tensor is rounded at random.
    pub fn is_stochastic(&self, role: Role) -> bool {
        matches!(self, Self::Nvfp4(nvfp4) if nvfp4.stochastic_gradients && role == Role::GradOutput)
    }

    /// How scales follow from magnitudes; delayed scales are never rounded.
    pub fn scale_rule(&self) -> ScaleRule {
        match self {
            Self::Current(current) => current.scale,
            Self::Block(block) => block.scale,
            Self::Delayed(_) | Self::Mxfp8(_) | Self::Nvfp4(_) => ScaleRule::default(),
        }
    }

    /// Where the sums of a pass are accumulated: as [`Sums`] says where one scale holds for all of
    /// a group, in FP32 where blocks have scales.
    ///
    /// ```
    /// use grouped_linear::plan::Pass;
    /// use grouped_linear::recipe::{Accumulation, CurrentScaling, Recipe, Sums};
    /// let sums = Sums { wgrad: Accumulation::Fast, ..Sums::default() };
    /// let recipe = Recipe::Current(CurrentScaling { sums, ..CurrentScaling::default() });
    /// assert_eq!(recipe.accumulation(Pass::Wgrad), Accumulation::Fast);
    /// assert_eq!(recipe.accumulation(Pass::Dgrad), Accumulation::Promoted);
    /// ```
    pub fn accumulation(&self, pass: Pass) -> Accumulation {
        let sums = match self {
            Self::Current(current) => current.sums,
            Self::Delayed(delayed) => delayed.sums,
            Self::Block(_) | Self::Mxfp8(_) | Self::Nvfp4(_) => return Accumulation::Promoted,
        };
        match pass {
            Pass::Fprop => sums.fprop,
            Pass::Dgrad => sums.dgrad,
            Pass::Wgrad => sums.wgrad,
        }
    }

    /// Refuses parameters that no tensor can be quantized with.
    ///
    /// # Errors
    /// A history without entries or with too many; an epsilon that is negative or not finite; a
    /// margin below -112 or above 126; FP32-scaled square blocks on both sides of a product, or one
    /// scale for all of a tensor among blocks; the Hadamard transform of NVFP4 with four over six
    /// of the tokens.
    pub fn check(&self) -> Result<()> {
        self.scale_rule().check("recipe")?;
        match self {
            Self::Current(_) => Ok(()),
            Self::Delayed(delayed) => delayed.check(),
            Self::Block(block) => block.check(),
            Self::Mxfp8(_) => Ok(()),
            Self::Nvfp4(nvfp4) => nvfp4.check(),
        }
    }
}

impl ScaleRule {
    /// Refuses parameters that no scale can follow from.
    pub(crate) fn check(&self, what: &str) -> Result<()> {
        let epsilon = self.epsilon;
        if !(epsilon >= 0.0 && epsilon.is_finite()) {
            return Err(Error::invalid(format!(
                "{what}: epsilon is {epsilon}, a finite number that is not negative is needed"
            )));
        }
        Ok(())
    }
}

impl Fp8Types {
    fn of(self, role: Role) -> DType {
        match (self, role) {
            (Self::Hybrid, Role::GradOutput) => DType::E5m2,
            _ => DType::E4m3,
        }
    }
}

impl Nvfp4Scaling {
    fn four_over_six(&self, role: Role) -> Option<FourOverSix> {
        match role {
            Role::Input => self.input_four_over_six,
            Role::Weight => self.weight_four_over_six,
            Role::GradOutput => None,
        }
    }

    fn format(&self, role: Role) -> Nvfp4Format {
        let bound = self.four_over_six(role).map_or(ScaleBound::Full, |choice| choice.bound);
        let tokens = Nvfp4Format { bound, transform: self.transform, ..Nvfp4Format::LINES };
        match role {
            Role::Input if self.input == Scope::Row => {
                Nvfp4Format { scope: Scope::Row, transform: Transform::None, ..tokens }
            }
            Role::Input | Role::GradOutput => tokens,
            Role::Weight => {
                Nvfp4Format { blocks: self.weight, transform: Transform::None, ..tokens }
            }
        }
    }

    fn check(&self) -> Result<()> {
        let transformed = self.format(Role::Input).transform == Transform::Hadamard;
        if self.input_four_over_six.is_some() && transformed {
            return Err(Error::unsupported(
                "recipe: four over six of the tokens was asked for with the Hadamard transform, only \
                 one of them is possible; set transform to Transform::None",
            ));
        }
        Ok(())
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
        // With less, what amax divides (E5M2's largest number times 2^-margin) is beyond FP32.
        if !(-112..=126).contains(&margin) {
            return Err(Error::invalid(format!(
                "recipe: the margin is {margin}, -112 to 126 are possible"
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
    use Accumulation::{Fast, Promoted};

    #[test]
    fn each_pass_has_its_own_sums() {
        let of = |recipe: Recipe| {
            [Pass::Fprop, Pass::Dgrad, Pass::Wgrad].map(|pass| recipe.accumulation(pass))
        };
        let default = Sums::default();
        for (sums, want) in [
            (default, [Fast, Promoted, Promoted]),
            (Sums { fprop: Promoted, ..default }, [Promoted; 3]),
            (Sums { dgrad: Fast, ..default }, [Fast, Fast, Promoted]),
            (Sums { wgrad: Fast, ..default }, [Fast, Promoted, Fast]),
        ] {
            let current = CurrentScaling { sums, ..CurrentScaling::default() };
            assert_eq!(of(Recipe::Current(current)), want, "{sums:?}");
            let delayed = DelayedScaling { sums, ..DelayedScaling::default() };
            assert_eq!(of(Recipe::Delayed(delayed)), want, "{sums:?}");
        }
        for recipe in [
            Recipe::Block(BlockScaling::default()),
            Recipe::Mxfp8(Mxfp8Scaling::default()),
            Recipe::Nvfp4(Nvfp4Scaling::default()),
        ] {
            assert_eq!(of(recipe), [Promoted; 3], "{recipe:?}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let block = BlockScaling::default();
        let delayed = DelayedScaling::default();
        let nvfp4 = Nvfp4Scaling::default();
        let choice = FourOverSix { error: ErrorMeasure::Squared, bound: ScaleBound::Reduced };
        let chosen = Nvfp4Scaling { input_four_over_six: Some(choice), ..nvfp4 };
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
            (Recipe::Delayed(DelayedScaling { margin: 126, ..delayed }), None),
            (Recipe::Delayed(DelayedScaling { margin: -113, ..delayed }), Some("margin is -113")),
            (Recipe::Delayed(DelayedScaling { margin: -112, ..delayed }), None),
            (Recipe::Block(BlockScaling { input: Blocks::Square, ..block }), Some("square blocks")),
            (Recipe::Block(BlockScaling { weight: Blocks::Tensor, ..block }), Some("as a whole")),
            (Recipe::Nvfp4(nvfp4), None),
            (Recipe::Nvfp4(Nvfp4Scaling { input: Scope::Row, ..chosen }), None),
            (Recipe::Nvfp4(chosen), Some("only one of them")),
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
