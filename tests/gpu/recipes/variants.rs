//! What layers with recipes are captured with: every choice that a recipe has, in layers of every
//! type, with gradients in every sink.

use std::fmt;

use grouped_linear::DType::{self, Bf16, F16, F32};
use grouped_linear::recipe::{
    Accumulation, AmaxChoice, BlockScaling, BlockShape, Blocks, CurrentScaling, DelayedScaling,
    ErrorMeasure, FourOverSix, Fp8Types, Mxfp8Scaling, Nvfp4Scaling, Recipe, ScaleBound, ScaleRule,
    Scope, Sums, Transform,
};
use grouped_linear::{BackwardPrecision, SavePolicy};

use super::step::Sinks;
use crate::device::Layout::{self, Discrete, Packed};

/// A recipe, and the layer that follows it.
#[derive(Clone, Copy)]
pub struct Variant {
    /// What the recipe has other than its defaults.
    pub name: &'static str,
    pub recipe: Recipe,
    /// Of tokens, weights and output gradients.
    pub dtype: DType,
    /// Of parameters and their gradients.
    pub layout: Layout,
    pub sinks: Sinks,
    pub save: SavePolicy,
    pub backward: BackwardPrecision,
    /// Type of the master weights, where it is tried, too, with weights that are quantized once a
    /// step.
    pub master: Option<DType>,
    /// Whether emulated Blackwell runs it, too: its products have kernels of their own there.
    pub blackwell: bool,
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, dtype, layout, sinks, save, backward, .. } = self;
        write!(f, "{name}, {dtype} {layout:?}, {sinks:?}")?;
        if *save != SavePolicy::default() {
            write!(f, ", {save:?} tokens")?;
        }
        if *backward != BackwardPrecision::default() {
            write!(f, ", {backward:?} backward")?;
        }
        Ok(())
    }
}

impl Variant {
    /// A layer in BF16 whose gradients have its type.
    pub const fn new(name: &'static str, recipe: Recipe, layout: Layout) -> Self {
        let (save, backward) = (SavePolicy::Quantized, BackwardPrecision::Recipe);
        let (sinks, master, blackwell) = (Sinks::Own, None, false);
        Self { name, recipe, dtype: Bf16, layout, sinks, save, backward, master, blackwell }
    }

    /// The same recipe in a layer of another type, with gradients in other sinks.
    pub const fn of(self, dtype: DType, layout: Layout, sinks: Sinks) -> Self {
        Self { dtype, layout, sinks, ..self }
    }

    const fn original(self) -> Self {
        Self { save: SavePolicy::Original, ..self }
    }

    const fn high(self) -> Self {
        Self { backward: BackwardPrecision::High, ..self }
    }

    const fn dequantized(self) -> Self {
        Self { backward: BackwardPrecision::Dequantized, ..self }
    }

    pub const fn cached(self, master: DType) -> Self {
        Self { master: Some(master), ..self }
    }

    const fn on_blackwell(self) -> Self {
        Self { blackwell: true, ..self }
    }
}

/// The recipes as they are without being asked for anything else.
pub fn defaults() -> [(&'static str, Recipe); 5] {
    let delayed = DelayedScaling { history_len: 2, ..DelayedScaling::default() };
    [
        ("current", Recipe::Current(CurrentScaling::default())),
        ("delayed", Recipe::Delayed(delayed)),
        ("block", Recipe::Block(BlockScaling::default())),
        ("mxfp8", Recipe::Mxfp8(Mxfp8Scaling::default())),
        // Every replay rounds with other numbers, those of the call beside it.
        ("nvfp4", Recipe::Nvfp4(Nvfp4Scaling::default())),
    ]
}

/// Scales as they come, or powers of two.
const ANY: ScaleRule = ScaleRule { power_of_two: false, epsilon: 0.0 };
const POWERS: ScaleRule = ScaleRule { power_of_two: true, epsilon: 0.0 };

/// What the defaults leave out. Types, layouts, sinks, and what is kept for backward go round, so
/// that each meets every recipe.
pub fn variants() -> Vec<Variant> {
    [current(), delayed(), block(), mxfp8(), nvfp4()].concat()
}

fn current() -> Vec<Variant> {
    use Accumulation::{Fast, Promoted};
    use Fp8Types::{E4m3, Hybrid};
    let own = |name, types, scale| {
        let recipe = CurrentScaling { types, scale, ..CurrentScaling::default() };
        Variant::new(name, Recipe::Current(recipe), Packed)
    };
    let other = |name, types, [fprop, dgrad, wgrad]: [Accumulation; 3]| {
        let sums = Sums { fprop, dgrad, wgrad };
        let recipe = CurrentScaling { types, sums, ..CurrentScaling::default() };
        Variant::new(name, Recipe::Current(recipe), Packed)
    };
    // More than the largest magnitude of any tensor, so that it is what scales follow from.
    let floor = ScaleRule { power_of_two: false, epsilon: 3.0 };
    vec![
        own("current E4M3", E4m3, ANY).of(F16, Discrete, Sinks::Added).on_blackwell().cached(F32),
        own("current E4M3 powers", E4m3, POWERS).of(F32, Packed, Sinks::Wide).original(),
        own("current E5M2 powers", Hybrid, POWERS).of(F32, Discrete, Sinks::AddedLater),
        own("current E5M2 epsilon", Hybrid, floor).of(Bf16, Packed, Sinks::Added).high(),
        own("current E4M3 epsilon", E4m3, floor).of(F16, Packed, Sinks::Wide).dequantized(),
        other("current E4M3 other sums", E4m3, [Promoted, Fast, Fast])
            .of(Bf16, Packed, Sinks::Added)
            .on_blackwell(),
        other("current E5M2 fast", Hybrid, [Fast; 3]).of(F32, Discrete, Sinks::Wide),
        other("current E5M2 promoted", Hybrid, [Promoted; 3]).of(F16, Packed, Sinks::AddedLater),
    ]
}

fn delayed() -> Vec<Variant> {
    use AmaxChoice::{Max, MostRecent};
    use Fp8Types::{E4m3, Hybrid};
    let own = |name, types, choice, margin| {
        let recipe =
            DelayedScaling { types, history_len: 2, choice, margin, ..DelayedScaling::default() };
        Variant::new(name, Recipe::Delayed(recipe), Packed)
    };
    let once = DelayedScaling { history_len: 1, ..DelayedScaling::default() };
    vec![
        own("delayed E4M3", E4m3, Max, 0).of(F16, Discrete, Sinks::Wide).on_blackwell(),
        own("delayed E5M2 margin", Hybrid, Max, 2).of(F32, Packed, Sinks::Added),
        own("delayed E4M3 recent", E4m3, MostRecent, 0).of(F32, Discrete, Sinks::Added).cached(F32),
        own("delayed E5M2 recent, margin", Hybrid, MostRecent, -1).of(
            Bf16,
            Discrete,
            Sinks::AddedLater,
        ),
        Variant::new("delayed by one step", Recipe::Delayed(once), Packed).high(),
        own("delayed E5M2 recent", Hybrid, MostRecent, 0)
            .of(F16, Packed, Sinks::Added)
            .dequantized()
            .cached(F16),
    ]
}

fn block() -> Vec<Variant> {
    use Blocks::{Square, Vector};
    use Fp8Types::{E4m3, Hybrid};
    // Of tokens, weights and output gradients.
    let own = |name, [input, weight, grad_output]: [Blocks; 3], types, scale| {
        let recipe = BlockScaling { types, scale, input, weight, grad_output };
        Variant::new(name, Recipe::Block(recipe), Packed)
    };
    let (vectors, weights) = ([Vector; 3], [Vector, Square, Vector]);
    let (tokens, gradients) = ([Square, Vector, Vector], [Vector, Vector, Square]);
    let floor = ScaleRule { power_of_two: true, epsilon: 3.0 };
    vec![
        own("vectors E4M3 powers", vectors, E4m3, POWERS)
            .of(Bf16, Discrete, Sinks::Added)
            .on_blackwell(),
        own("vectors E5M2 powers", vectors, Hybrid, POWERS).of(F16, Packed, Sinks::AddedLater),
        own("vectors E4M3", vectors, E4m3, ANY)
            .of(F16, Discrete, Sinks::Wide)
            .original()
            .cached(F32),
        own("vectors E5M2", vectors, Hybrid, ANY).of(F32, Packed, Sinks::Own),
        own("square weights E5M2", weights, Hybrid, ANY).of(F32, Discrete, Sinks::Added),
        own("square weights E5M2 powers", weights, Hybrid, POWERS)
            .of(F16, Packed, Sinks::Wide)
            .high(),
        own("square weights E4M3", weights, E4m3, ANY).of(Bf16, Discrete, Sinks::Own).dequantized(),
        own("square tokens E4M3 epsilon", tokens, E4m3, floor).of(F32, Packed, Sinks::AddedLater),
        own("square tokens E5M2", tokens, Hybrid, ANY)
            .of(Bf16, Discrete, Sinks::Added)
            .original()
            .on_blackwell(),
        own("square gradients E4M3 powers", gradients, E4m3, POWERS).of(
            F16,
            Discrete,
            Sinks::Added,
        ),
        own("square gradients E5M2", gradients, Hybrid, ANY).of(Bf16, Packed, Sinks::Wide),
    ]
}

fn mxfp8() -> Vec<Variant> {
    use BlockShape::{Line, Square};
    use Fp8Types::{E4m3, Hybrid};
    let own = |name, types, weight| {
        Variant::new(name, Recipe::Mxfp8(Mxfp8Scaling { types, weight }), Packed)
    };
    vec![
        own("mxfp8 E5M2", Hybrid, Line).of(F16, Discrete, Sinks::Added).on_blackwell(),
        own("mxfp8 E4M3 squares", E4m3, Square).of(F32, Packed, Sinks::AddedLater).on_blackwell(),
        own("mxfp8 E5M2 squares", Hybrid, Square)
            .of(Bf16, Discrete, Sinks::Wide)
            .original()
            .cached(Bf16),
        own("mxfp8 E4M3 lines", E4m3, Line).of(F16, Packed, Sinks::Added).high(),
        own("mxfp8 E4M3 squares", E4m3, Square).of(F32, Discrete, Sinks::Wide).dequantized(),
    ]
}

fn nvfp4() -> Vec<Variant> {
    let own = |name, recipe| Variant::new(name, Recipe::Nvfp4(recipe), Packed);
    let random = Nvfp4Scaling { seed: 9, ..Nvfp4Scaling::default() };
    let nearest = Nvfp4Scaling { stochastic_gradients: false, ..random };
    let plain = Nvfp4Scaling { transform: Transform::None, ..random };
    let lines = Nvfp4Scaling { weight: BlockShape::Line, ..random };
    let chosen = |error, bound| Some(FourOverSix { error, bound });
    let squared = chosen(ErrorMeasure::Squared, ScaleBound::Reduced);
    let absolute = chosen(ErrorMeasure::Absolute, ScaleBound::Full);
    let both = Nvfp4Scaling {
        input_four_over_six: squared,
        weight_four_over_six: squared,
        stochastic_gradients: false,
        ..plain
    };
    let tokens = Nvfp4Scaling { input_four_over_six: absolute, ..plain };
    let weights = Nvfp4Scaling { weight_four_over_six: absolute, ..lines };
    let rows = Nvfp4Scaling { input: Scope::Row, ..random };
    let chosen_rows = Nvfp4Scaling { input_four_over_six: squared, ..rows };
    vec![
        own("nvfp4 to nearest", nearest).of(F16, Packed, Sinks::Added).on_blackwell(),
        own("nvfp4 not transformed", plain).of(F32, Discrete, Sinks::AddedLater),
        own("nvfp4 lines", lines).of(F32, Packed, Sinks::Wide).original(),
        own("nvfp4 four over six", both)
            .of(Bf16, Discrete, Sinks::Added)
            .on_blackwell()
            .cached(F32),
        own("nvfp4 four over six of tokens", tokens).of(F16, Packed, Sinks::Wide),
        own("nvfp4 four over six of weights", weights).of(Bf16, Packed, Sinks::Own).high(),
        own("nvfp4 lines to nearest", Nvfp4Scaling { weight: BlockShape::Line, ..nearest })
            .of(F16, Discrete, Sinks::Added)
            .dequantized(),
        own("nvfp4 rows", rows).of(Bf16, Packed, Sinks::Added).high().on_blackwell(),
        own("nvfp4 rows, four over six", chosen_rows).of(F32, Discrete, Sinks::Own).dequantized(),
    ]
}
