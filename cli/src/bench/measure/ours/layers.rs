//! Layers, forward and backward, with everything included: weights are quantized in every call but
//! those of a kind that says otherwise.

use anyhow::Result;
use grouped_linear::functional::{
    DgradArgs, FpropArgs, GemmOptions, WgradArgs, dgrad, fprop, wgrad,
};
use grouped_linear::plan::KernelChoice;
use grouped_linear::recipe::{
    BlockScaling, BlockShape, CurrentScaling, DelayedScaling, Mxfp8Scaling, Nvfp4Scaling,
};
use grouped_linear::{
    BackwardOptions, DType, ForwardOptions, GradSink, GroupedLinear, GroupedTensor, LayerRecipe,
    QuantizeWeights, QuantizedTensor, Recipe, RecipeBuffers, RowSink, Stream, Tensor, WeightCache,
    Wgrad,
};

use super::Work;
use super::base::Base;
use super::check::{self, Limits, Output};
use super::fill;
use super::products::{BF16, not_open, packed};
use crate::bench::measure::record::{Check, Quantity};
use crate::bench::measure::task::{LayerKind, Task};
use crate::bench::model::product::Pass;

/// Three products alone, as a layer in BF16 has them.
const PRODUCTS: &str = "products";

/// A layer with a recipe, and without one beside it.
pub struct Layers {
    base: Base,
    layer: GroupedLinear,
    kind: LayerKind,
    kernel: KernelChoice,
    recipe: Option<LayerRecipe>,
    with_bf16: bool,
    y: Tensor,
    backward: Option<Gradients>,
}

struct Gradients {
    dx: Tensor,
    dw: GroupedTensor,
}

impl Layers {
    /// Over operands of a shape; with the layer in BF16 beside it if that is wanted.
    pub fn new(
        stream: &Stream,
        base: Base,
        kind: LayerKind,
        kernel: KernelChoice,
        with_bf16: bool,
    ) -> grouped_linear::Result<Self> {
        let layer = GroupedLinear::new(stream, base.config(), base.w.clone(), None)?;
        let recipe = match kind {
            LayerKind::Bf16 => None,
            LayerKind::Current | LayerKind::CurrentCached => {
                Some(Recipe::Current(CurrentScaling::default()))
            }
            LayerKind::Delayed => Some(Recipe::Delayed(DelayedScaling::default())),
            LayerKind::Block | LayerKind::BlockCached => {
                Some(Recipe::Block(BlockScaling::default()))
            }
            LayerKind::Mxfp8 => Some(Recipe::Mxfp8(Mxfp8Scaling::default())),
            LayerKind::Mxfp8Square => {
                let weight = BlockShape::Square;
                Some(Recipe::Mxfp8(Mxfp8Scaling { weight, ..Mxfp8Scaling::default() }))
            }
            LayerKind::Nvfp4 => Some(Recipe::Nvfp4(Nvfp4Scaling::default())),
        };
        let recipe = match recipe {
            None => None,
            Some(recipe) => {
                // Memory of its own, as in a graph: what is timed allocates nothing.
                let mut own = LayerRecipe::new(stream, base.config(), recipe)?;
                if kind.keeps_weights() {
                    own = own.clone().with_weights(quantized(stream, &base, own)?)?;
                }
                let buffers = RecipeBuffers::new(stream, &own, base.rows())?;
                Some(own.with_buffers(buffers))
            }
        };
        let y = Tensor::zeros(stream, &[base.rows(), base.n()], DType::Bf16)?;
        Ok(Self { base, layer, kind, kernel, recipe, with_bf16, y, backward: None })
    }

    fn layer(
        &mut self,
        stream: &Stream,
        task: Task,
        contender: &str,
    ) -> grouped_linear::Result<()> {
        let Base { x, splits, dy, .. } = &self.base;
        let with_recipe = contender == self.kind.name();
        let recipe = self.recipe.as_ref().filter(|_| with_recipe);
        let kernel = self.kernel;
        let options = ForwardOptions { recipe, kernel, ..ForwardOptions::default() };
        let saved = self.layer.forward_into(stream, x, splits, options, &mut self.y)?;
        match (task, &mut self.backward) {
            (Task::Forward, _) => {}
            (Task::Layer, Some(Gradients { dx, dw })) => {
                let options = BackwardOptions {
                    dx: RowSink::Into(dx),
                    dw: Wgrad::Now(GradSink::Overwrite(dw)),
                    ..BackwardOptions::default()
                };
                self.layer.backward_with(stream, saved, dy, options)?;
            }
            _ => return Err(not_open()),
        }
        match &mut self.recipe {
            Some(recipe) if with_recipe => recipe.update(stream),
            _ => Ok(()),
        }
    }

    fn products(&mut self, stream: &Stream) -> grouped_linear::Result<()> {
        let Base { splits, x, dy, w: weights, .. } = &self.base;
        let Some(Gradients { dx, dw }) = &mut self.backward else { return Err(not_open()) };
        let options = GemmOptions { kernel: self.kernel, ..GemmOptions::default() };
        let (bias, bias_row_scales) = (None, None);
        let args = FpropArgs { x, weights, splits, bias, bias_row_scales, options };
        fprop(stream, &args, &mut self.y)?;
        dgrad(stream, &DgradArgs { dy, weights, splits, options }, dx)?;
        wgrad(stream, &WgradArgs { dy, x, splits, options }, dw)
    }
}

/// The weights, quantized once.
fn quantized(
    stream: &Stream,
    base: &Base,
    recipe: LayerRecipe,
) -> grouped_linear::Result<QuantizedTensor> {
    let mut cache = WeightCache::new(stream, QuantizeWeights { recipe, master: DType::Bf16 })?;
    cache.refresh(stream, &base.w, 0)?;
    Ok(cache.prepared().clone())
}

/// How far a layer's results are from products of what was not quantized. An error of a product is
/// random with the width of its operands' together: 2.7 % in E4M3, 5.3 % in E5M2 (output gradients
/// of current scaling), 10 % and more, rounded at random, in E2M1.
fn limits(kind: LayerKind, contender: &str) -> Limits {
    if contender != kind.name() {
        return BF16;
    }
    match kind {
        LayerKind::Bf16 => BF16,
        LayerKind::Current | LayerKind::CurrentCached | LayerKind::Delayed => {
            Limits { worst: 0.5, rms: 0.1 }
        }
        LayerKind::Block | LayerKind::BlockCached | LayerKind::Mxfp8 | LayerKind::Mxfp8Square => {
            Limits { worst: 0.4, rms: 0.07 }
        }
        LayerKind::Nvfp4 => Limits { worst: 1.6, rms: 0.3 },
    }
}

impl Work for Layers {
    fn contenders(&self, task: Task, _quantity: Quantity) -> Vec<String> {
        let mut names = vec![self.kind.name().to_owned()];
        if self.kind == LayerKind::Bf16 {
            if task == Task::Layer {
                names.push(PRODUCTS.to_owned());
            }
        } else if self.with_bf16 {
            names.push(LayerKind::Bf16.name().to_owned());
        }
        names
    }

    fn open(&mut self, stream: &Stream, task: Task) -> grouped_linear::Result<()> {
        self.backward = None; // what was there goes first
        if task == Task::Layer {
            let base = &self.base;
            let (rows, n, k) = (base.rows(), base.n(), base.k());
            let dx = Tensor::zeros(stream, &[rows, k], DType::Bf16)?;
            let dw = Tensor::zeros(stream, &[base.groups(), n, k], DType::Bf16)?;
            self.backward = Some(Gradients { dx, dw: GroupedTensor::packed(dw)? });
        }
        Ok(())
    }

    fn run(&mut self, stream: &Stream, task: Task, contender: &str) -> grouped_linear::Result<()> {
        if contender == PRODUCTS {
            return self.products(stream);
        }
        self.layer(stream, task, contender)
    }

    fn clear(&mut self, stream: &Stream, _task: Task) -> grouped_linear::Result<u32> {
        fill::with_nan(stream, &self.y)?;
        if let Some(Gradients { dx, dw }) = &self.backward {
            fill::with_nan(stream, dx)?;
            fill::with_nan(stream, packed(dw)?)?;
        }
        // Delayed scales are those of the call before.
        Ok(if self.kind == LayerKind::Delayed { 2 } else { 1 })
    }

    fn compare(&self, stream: &Stream, _task: Task, contender: &str) -> Result<Vec<Check>> {
        let mut results = vec![(Pass::Fprop, Output::Rows(&self.y))];
        if let Some(Gradients { dx, dw }) = &self.backward {
            results.push((Pass::Dgrad, Output::Rows(dx)));
            results.push((Pass::Wgrad, Output::Groups(dw, 1.0)));
        }
        let mut checks = Vec::new();
        for (pass, output) in results {
            let compared = check::product(stream, &self.base, pass, &self.base, output)?;
            let name = format!("{contender} {}", pass.name());
            checks.extend(compared.checks(&name, limits(self.kind, contender)));
        }
        Ok(checks)
    }
}
