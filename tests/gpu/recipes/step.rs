//! A layer that follows a recipe, with all that it reads and writes.

use grouped_linear::conformance::Generator;
use grouped_linear::{
    BackwardOptions, BiasUse, DType, ForwardOptions, GradSink, GroupedTensor, LayerRecipe,
    RecipeBuffers, Result, RowSink, Stream, Tensor, Wgrad,
};

use super::variants::Variant;
use crate::Outcome;
use crate::device::{Inputs, Layout, Outputs, parts, tensor_bits, write_groups};
use crate::host::{Host, RESULTS, Sizes, equal_bits};

/// Where gradients of parameters go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sinks {
    /// They overwrite buffers of the layer's type.
    Own,
    /// They overwrite buffers in FP32.
    Wide,
    /// They are added to buffers in FP32.
    Added,
    /// As `Added`, and that of the weights is computed after backward.
    AddedLater,
}

impl Sinks {
    fn dtype(self, layer: DType) -> DType {
        if self == Self::Own { layer } else { DType::F32 }
    }

    fn adds(self) -> bool {
        matches!(self, Self::Added | Self::AddedLater)
    }
}

/// The tensors of a layer, its recipe, and what is written.
pub struct Step {
    pub inputs: Inputs,
    pub outputs: Outputs,
    pub recipe: LayerRecipe,
    sizes: Sizes,
    layout: Layout,
    pub sinks: Sinks,
}

impl Step {
    pub fn new(stream: &Stream, variant: &Variant, sizes: Sizes) -> Result<Self> {
        let Variant { layout, sinks, dtype, .. } = *variant;
        let sizes = Sizes { dtype, ..sizes };
        let counts = match layout {
            Layout::Packed => DType::I64,
            Layout::Discrete => DType::I32,
        };
        let inputs = Inputs::new(stream, sizes, layout, counts)?;
        let recipe = LayerRecipe::new(stream, inputs.layer.config(), variant.recipe)?;
        let recipe = recipe.with_save(variant.save)?.with_backward(variant.backward)?;
        let outputs = Outputs::with_grads(stream, sizes, layout, sinks.dtype(dtype))?;
        if sinks.adds() {
            // What gradients are added to; the same in every step of a variant.
            let mut generator = Generator::new(59);
            for sum in [&outputs.dw, &outputs.db] {
                let length = parts(sum)?.iter().map(Tensor::len).sum();
                let values: Vec<f32> = (0..length).map(|_| generator.value()).collect();
                write_groups(stream, sum, &values)?;
            }
        }
        Ok(Self { inputs, outputs, recipe, sizes, layout, sinks })
    }

    pub fn buffers(&self, stream: &Stream) -> Result<RecipeBuffers> {
        RecipeBuffers::new(stream, &self.recipe, self.sizes.rows)
    }

    /// Writes new inputs, and poison over the outputs; sums that are added to stay.
    pub fn write(&mut self, stream: &Stream, splits: &[usize], seed: u64) -> Result<()> {
        self.inputs.write(stream, &Host::real(self.sizes, splits, seed))?;
        self.outputs.poison_rows(stream)?;
        if self.sinks.adds() {
            return Ok(());
        }
        self.outputs.poison_grads(stream)
    }

    /// With packed parameters the bias's gradient is summed on the way, with discrete ones the bias
    /// has row scales.
    pub fn forward_options(&self) -> ForwardOptions<'_> {
        let bias = match self.layout {
            Layout::Packed => BiasUse::Add,
            Layout::Discrete => BiasUse::RowScaled(&self.inputs.row_scales),
        };
        ForwardOptions { bias, recipe: Some(&self.recipe), ..ForwardOptions::default() }
    }

    /// The sink of a gradient of parameters.
    pub fn sink<'a>(&self, buffer: &'a mut GroupedTensor) -> GradSink<'a> {
        match self.sinks.adds() {
            true => GradSink::Accumulate(buffer),
            false => GradSink::Overwrite(buffer),
        }
    }

    /// Every gradient into its buffer, or that of the weights later.
    pub fn backward_options<'a>(&self, outputs: &'a mut Outputs, dw: When) -> BackwardOptions<'a> {
        BackwardOptions {
            dx: RowSink::Into(&mut outputs.dx),
            dw: match dw {
                When::Now => Wgrad::Now(self.sink(&mut outputs.dw)),
                When::Later => Wgrad::Delayed,
            },
            db: Some(self.sink(&mut outputs.db)),
            dscales: match self.layout {
                Layout::Packed => RowSink::Skip,
                Layout::Discrete => RowSink::Into(&mut outputs.dscales),
            },
        }
    }

    /// Forward and backward.
    pub fn microbatch(&self, stream: &Stream) -> Result<()> {
        let mut outputs = self.outputs.share();
        let (options, Inputs { layer, x, dy, splits, .. }) = (self.forward_options(), &self.inputs);
        let saved = layer.forward_into(stream, x, splits, options, &mut outputs.y)?;
        let dw = if self.sinks == Sinks::AddedLater { When::Later } else { When::Now };
        let options = self.backward_options(&mut outputs, dw);
        let pending = layer.backward_with(stream, saved, dy, options)?.pending;
        if let Some(mut pending) = pending {
            pending.run(stream, self.sink(&mut outputs.dw))?;
        }
        Ok(())
    }

    /// Forward, backward, and the next scales.
    pub fn run(&mut self, stream: &Stream) -> Result<()> {
        self.microbatch(stream)?;
        self.recipe.update(stream)
    }
}

/// When the gradient of the weights is computed: in backward, or behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    Now,
    Later,
}

/// Checks that all that was written has the same bits.
pub fn compare(stream: &Stream, what: &str, got: &Outputs, want: &Outputs) -> Outcome {
    let (got, want) = (got.bits(stream)?, want.bits(stream)?);
    for (index, name) in RESULTS.iter().enumerate() {
        equal_bits(&format!("{what}: {name}"), &got[index], &want[index])?;
    }
    Ok(())
}

/// Checks that what is remembered from step to step is the same: magnitudes and scales, or how many
/// random numbers have been drawn.
pub fn same_states(stream: &Stream, what: &str, got: &LayerRecipe, want: &LayerRecipe) -> Outcome {
    let (got, want) = (states(stream, got)?, states(stream, want)?);
    Ok(equal_bits(&format!("{what}: what is remembered"), &got, &want)?)
}

fn states(stream: &Stream, recipe: &LayerRecipe) -> Result<Vec<u32>> {
    let mut bits = Vec::new();
    if let Some(own) = recipe.delayed() {
        for state in [&own.input, &own.weight, &own.grad_output] {
            bits.extend(tensor_bits(stream, state.history())?);
            bits.extend(tensor_bits(stream, state.scale())?);
        }
    }
    if let Some(random) = recipe.random() {
        let (seed, drawn) = random.read(stream)?;
        bits.extend([seed as u32, drawn as u32]);
    }
    Ok(bits)
}
