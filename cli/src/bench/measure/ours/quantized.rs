//! Products of operands that are quantized already.

use std::ops::Range;

use anyhow::Result;
use grouped_linear::functional::{
    DequantizeSink, QuantizeArgs, QuantizeSource, QuantizedDgradArgs, QuantizedFpropArgs,
    QuantizedGemmOptions, QuantizedWgradArgs, dequantize, quantize, quantized_dgrad,
    quantized_fprop, quantized_wgrad,
};
use grouped_linear::plan::KernelChoice;
use grouped_linear::recipe::{
    Accumulation, BlockScaling, CurrentScaling, Mxfp8Scaling, Nvfp4Scaling, Role, Transform,
};
use grouped_linear::{
    DType, Direction, Error, Factor, Form, GroupedTensor, LayerRecipe, QuantizedSpec,
    QuantizedTensor, Recipe, SourceShape, Stream, Tensor,
};

use super::Work;
use super::base::Base;
use super::check::{self, Limits, Read};
use super::products::{BF16, F32, Results, calls_to_check, not_open};
use crate::bench::choices::RecipeChoice;
use crate::bench::measure::record::{Check, Quantity};
use crate::bench::measure::task::Task;
use crate::bench::model::product::Pass;

/// FP8 tensor cores of Hopper keep about 13 bits of a sum, and cut off the rest at each step of a
/// long reduction.
const FAST: Limits = Limits { worst: 6e-2, rms: 3e-2 };
/// Promoted sums have few such steps.
const PROMOTED: Limits = Limits { worst: 6e-3, rms: 3e-3 };
/// The same without the rounding to BF16.
const PROMOTED_F32: Limits = Limits { worst: 5e-3, rms: 2e-3 };

/// Recipes of a section, each with the contenders that multiply its operands.
pub type Sets = &'static [(fn() -> Recipe, &'static [RecipeChoice])];

/// One scale per expert, and a scale per block.
pub const FP8: Sets = &[
    (
        || Recipe::Current(CurrentScaling::default()),
        &[RecipeChoice::Fp8Fast, RecipeChoice::Fp8Tensor],
    ),
    (|| Recipe::Block(BlockScaling::default()), &[RecipeChoice::Fp8Block]),
];
/// MXFP8.
pub const MXFP8: Sets = &[(|| Recipe::Mxfp8(Mxfp8Scaling::default()), &[RecipeChoice::Mxfp8])];
/// NVFP4.
pub const NVFP4: Sets = &[(nvfp4, &[RecipeChoice::Nvfp4])];

/// Untransformed, so that each operand can be restored and multiplied again.
fn nvfp4() -> Recipe {
    Recipe::Nvfp4(Nvfp4Scaling {
        transform: Transform::None,
        stochastic_gradients: false,
        ..Nvfp4Scaling::default()
    })
}

/// Products of one section.
pub struct Quantized {
    base: Base,
    sets: Vec<Set>,
    kernel: KernelChoice,
    results: Results,
}

/// Operands with both copies.
struct Set {
    /// Contenders that multiply them.
    recipes: Vec<RecipeChoice>,
    x: QuantizedTensor,
    w: QuantizedTensor,
    dy: QuantizedTensor,
}

impl Quantized {
    /// Quantizes the operands of those contenders that are wanted.
    pub fn new(
        stream: &Stream,
        base: Base,
        all: Sets,
        wanted: &[RecipeChoice],
        kernel: KernelChoice,
    ) -> grouped_linear::Result<Self> {
        let mut sets = Vec::new();
        for (recipe, contenders) in all {
            let mut recipes = contenders.to_vec();
            recipes.retain(|recipe| wanted.contains(recipe));
            if !recipes.is_empty() {
                sets.push(Set::new(stream, &base, recipe(), recipes)?);
            }
        }
        Ok(Self { base, sets, kernel, results: Results::None })
    }

    fn set(&self, contender: &str) -> grouped_linear::Result<(&Set, RecipeChoice)> {
        let of = |set| {
            let set: &Set = set;
            let recipe = set.recipes.iter().find(|recipe| recipe.name() == contender)?;
            Some((set, *recipe))
        };
        let unknown = || Error::invalid(format!("there is no contender `{contender}`"));
        self.sets.iter().find_map(of).ok_or_else(unknown)
    }

    fn product(
        &mut self,
        stream: &Stream,
        pass: Pass,
        contender: &str,
    ) -> grouped_linear::Result<()> {
        let (Set { x, w, dy, .. }, recipe) = self.set(contender)?;
        // Handles to the same memory.
        let (x, weights, dy) = (&x.clone(), &w.clone(), &dy.clone());
        let accumulation = match recipe {
            RecipeChoice::Fp8Fast => Accumulation::Fast,
            _ => Accumulation::Promoted,
        };
        let kernel = self.kernel;
        let options =
            QuantizedGemmOptions { accumulation, kernel, ..QuantizedGemmOptions::default() };
        let splits = &self.base.splits;
        match (pass, &mut self.results) {
            (Pass::Fprop, Results::Rows(y)) => {
                let (bias, bias_row_scales) = (None, None);
                let args =
                    QuantizedFpropArgs { x, weights, splits, bias, bias_row_scales, options };
                quantized_fprop(stream, &args, y)
            }
            (Pass::Dgrad, Results::Rows(dx)) => {
                let args = QuantizedDgradArgs { dy, weights, splits, options };
                quantized_dgrad(stream, &args, dx)
            }
            (Pass::Wgrad, Results::Groups(dw)) => {
                quantized_wgrad(stream, &QuantizedWgradArgs { dy, x, splits, options }, dw)
            }
            (Pass::Accumulate, Results::Groups(dw)) => {
                let options = QuantizedGemmOptions { beta: Factor::Value(1.0), ..options };
                quantized_wgrad(stream, &QuantizedWgradArgs { dy, x, splits, options }, dw)
            }
            _ => Err(not_open()),
        }
    }
}

impl Set {
    fn new(
        stream: &Stream,
        base: &Base,
        recipe: Recipe,
        recipes: Vec<RecipeChoice>,
    ) -> grouped_linear::Result<Self> {
        // A layer's recipe knows the form that this device multiplies.
        let form = match recipe {
            Recipe::Mxfp8(_) | Recipe::Nvfp4(_) => {
                LayerRecipe::new(stream, base.config(), recipe)?.form()
            }
            _ => Form::Codes,
        };
        let tokens = |features| SourceShape::Tokens { rows: base.rows(), features };
        let weights = SourceShape::Weights { rows: base.n(), columns: base.k() };
        let make = |role, shape, source| -> grouped_linear::Result<QuantizedTensor> {
            let spec = QuantizedSpec {
                groups: base.groups(),
                source: shape,
                format: recipe.format(role),
                rowwise: Some(form),
                columnwise: Some(form),
            };
            let mut tensor = QuantizedTensor::empty(stream, spec)?;
            let scale = recipe.scale_rule();
            quantize(stream, QuantizeArgs { scale, ..QuantizeArgs::new(source) }, &mut tensor)?;
            Ok(tensor)
        };
        let splits = &base.splits;
        Ok(Self {
            x: make(Role::Input, tokens(base.k()), QuantizeSource::Tokens(&base.x, splits))?,
            w: make(Role::Weight, weights, QuantizeSource::Weights(&base.w))?,
            dy: make(Role::GradOutput, tokens(base.n()), QuantizeSource::Tokens(&base.dy, splits))?,
            recipes,
        })
    }
}

impl Work for Quantized {
    fn contenders(&self, task: Task, _quantity: Quantity) -> Vec<String> {
        let mut names = Vec::new();
        if let Task::Product(pass) = task {
            for recipe in self.sets.iter().flat_map(|set| &set.recipes) {
                if recipe.multiplies(pass) {
                    names.push(recipe.name().to_owned());
                }
            }
        }
        names
    }

    fn open(&mut self, stream: &Stream, task: Task) -> grouped_linear::Result<()> {
        match task {
            Task::Product(pass) => self.results.open(stream, &self.base, pass),
            _ => Err(not_open()),
        }
    }

    fn run(&mut self, stream: &Stream, task: Task, contender: &str) -> grouped_linear::Result<()> {
        match task {
            Task::Product(pass) => self.product(stream, pass, contender),
            _ => Err(not_open()),
        }
    }

    fn clear(&mut self, stream: &Stream, task: Task) -> grouped_linear::Result<u32> {
        let Task::Product(pass) = task else { return Err(not_open()) };
        self.results.clear(stream, pass)?;
        Ok(calls_to_check(pass))
    }

    fn compare(&self, stream: &Stream, task: Task, contender: &str) -> Result<Vec<Check>> {
        let Task::Product(pass) = task else { return Err(not_open().into()) };
        let (set, recipe) = self.set(contender)?;
        let restored = Restored::new(stream, &self.base, set, pass)?;
        let output = self.results.output(pass).ok_or_else(not_open)?;
        let compared = check::product(stream, &self.base, pass, &restored, output)?;
        let limits = match (recipe, pass) {
            (RecipeChoice::Fp8Fast, _) => FAST,
            (RecipeChoice::Fp8Tensor | RecipeChoice::Fp8Block, Pass::Accumulate) => PROMOTED_F32,
            (RecipeChoice::Fp8Tensor | RecipeChoice::Fp8Block, _) => PROMOTED,
            (_, Pass::Accumulate) => F32,
            _ => BF16,
        };
        Ok(compared.checks(contender, limits))
    }
}

/// What a pass multiplies, restored to FP32.
struct Restored<'a> {
    x: Option<Tensor>,
    dy: Option<Tensor>,
    w: &'a QuantizedTensor,
    /// Which copy of the weights.
    direction: Direction,
}

impl<'a> Restored<'a> {
    fn new(stream: &Stream, base: &Base, set: &'a Set, pass: Pass) -> Result<Self> {
        use Direction::{Columnwise, Rowwise};
        let (x, dy, direction) = match pass {
            Pass::Fprop => (Some(Rowwise), None, Rowwise),
            Pass::Dgrad => (None, Some(Rowwise), Columnwise),
            Pass::Wgrad | Pass::Accumulate => (Some(Columnwise), Some(Columnwise), Rowwise),
        };
        let tokens = |source, direction: Option<Direction>| match direction {
            Some(direction) => restored_tokens(stream, base, source, direction).map(Some),
            None => Ok(None),
        };
        Ok(Self { x: tokens(&set.x, x)?, dy: tokens(&set.dy, dy)?, w: &set.w, direction })
    }
}

/// Tokens in FP32, from one of their copies.
pub fn restored_tokens(
    stream: &Stream,
    base: &Base,
    source: &QuantizedTensor,
    direction: Direction,
) -> Result<Tensor> {
    let shape = [base.rows(), source.spec().source.columns()];
    let mut restored = Tensor::zeros(stream, &shape, DType::F32)?;
    let sink = DequantizeSink::Tokens(&mut restored, &base.splits);
    dequantize(stream, source, direction, sink)?;
    Ok(restored)
}

/// The weights of an expert in FP32, from one of their copies.
pub fn restored_weights(
    stream: &Stream,
    source: &QuantizedTensor,
    direction: Direction,
    group: usize,
) -> Result<Vec<f32>> {
    let expert = source.group(group)?;
    let shape = [1, expert.spec().source.rows(), expert.spec().source.columns()];
    let zeros = Tensor::zeros(stream, &shape, DType::F32)?;
    let mut restored = GroupedTensor::packed(zeros)?;
    dequantize(stream, &expert, direction, DequantizeSink::Weights(&mut restored))?;
    Ok(restored.group(0)?.to_f32(stream)?)
}

impl Read for Restored<'_> {
    fn x(&self, stream: &Stream, rows: Range<usize>) -> Result<Vec<f32>> {
        lines(stream, self.x.as_ref(), rows)
    }

    fn dy(&self, stream: &Stream, rows: Range<usize>) -> Result<Vec<f32>> {
        lines(stream, self.dy.as_ref(), rows)
    }

    fn w(&self, stream: &Stream, group: usize) -> Result<Vec<f32>> {
        restored_weights(stream, self.w, self.direction, group)
    }
}

fn lines(stream: &Stream, tensor: Option<&Tensor>, rows: Range<usize>) -> Result<Vec<f32>> {
    let tensor = tensor.ok_or_else(not_open)?;
    Ok(tensor.narrow(rows.start, rows.len())?.to_f32(stream)?)
}
