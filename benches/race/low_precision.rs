//! Quantizers, products of quantized operands, and whole layers with recipes.

use std::collections::HashMap;

use grouped_linear::functional::{
    QuantizeArgs, QuantizeSource, QuantizedDgradArgs, QuantizedFpropArgs, QuantizedGemmOptions,
    QuantizedWgradArgs, quantize, quantized_dgrad, quantized_fprop, quantized_wgrad,
};
use grouped_linear::recipe::{
    Accumulation, BlockScaling, BlockShape, Blocks, CurrentScaling, Format, Mxfp8Scaling,
    Nvfp4Format, Nvfp4Scaling, ScaleRule, Transform,
};
use grouped_linear::{
    BackwardOptions, Config, DType, Factor, Form, ForwardOptions, GradSink, GroupedLinear,
    GroupedTensor, LayerRecipe, QuantizedSpec, QuantizedTensor, Recipe, RecipeBuffers, Result,
    RowSink, SourceShape, Splits, Stream, Tensor, Wgrad,
};

use super::number;
use super::random::random;

/// Operands of one shape.
pub struct LowPrecision {
    splits: Splits,
    x: Tensor,
    dy: Tensor,
    layer: GroupedLinear,
    /// Scales of groups, then of blocks.
    quantized: [Operands; 2],
    /// MXFP8 and NVFP4, by name.
    micro: HashMap<String, QuantizedTensor>,
    /// With buffers, by name.
    recipes: HashMap<String, LayerRecipe>,
    y: Tensor,
    dx: Tensor,
    dw: GroupedTensor,
    dw_f32: GroupedTensor,
}

struct Operands {
    x: QuantizedTensor,
    w: QuantizedTensor,
    dy: QuantizedTensor,
}

/// Scales rounded to powers of two, as those of blocks are by default.
const POWERS: ScaleRule = ScaleRule { power_of_two: true, epsilon: 0.0 };

impl LowPrecision {
    pub fn new(stream: &Stream, t: &str, n: &str, k: &str, splits: &str) -> Result<Self> {
        let (t, n, k) = (number(t), number(n), number(k));
        let counts: Vec<i64> = splits.split(',').map(|m| number(m) as i64).collect();
        let groups = counts.len();
        let config = Config { groups, in_features: k, out_features: n, dtype: DType::Bf16 };
        let w = random(stream, &[groups, n, k], 2, (k as f32).powf(-0.5))?;
        let layer = GroupedLinear::new(stream, config, GroupedTensor::packed(w)?, None)?;
        let splits = Splits::device(Tensor::from_slice(stream, &[groups], &counts)?)?;
        let (x, dy) = (random(stream, &[t, k], 1, 1.0)?, random(stream, &[t, n], 3, 1.0)?);

        let tokens = |features| SourceShape::Tokens { rows: t, features };
        let weights = SourceShape::Weights { rows: n, columns: k };
        let operands = |vector, square, gradient| -> Result<Operands> {
            let empty = |source, blocks, dtype| {
                let format = Format::fp8(dtype, blocks);
                let (rowwise, columnwise) = (Some(Form::Codes), Some(Form::Codes));
                let spec = QuantizedSpec { groups, source, format, rowwise, columnwise };
                QuantizedTensor::empty(stream, spec)
            };
            let mut own = Operands {
                x: empty(tokens(k), vector, DType::E4m3)?,
                w: empty(weights, square, DType::E4m3)?,
                dy: empty(tokens(n), vector, gradient)?,
            };
            for (tensor, source) in [(&mut own.x, &x), (&mut own.dy, &dy)] {
                let source = QuantizeSource::Tokens(source, &splits);
                quantize(
                    stream,
                    QuantizeArgs { scale: POWERS, ..QuantizeArgs::new(source) },
                    tensor,
                )?;
            }
            let source = QuantizeSource::Weights(layer.weights());
            let args = QuantizeArgs { scale: POWERS, ..QuantizeArgs::new(source) };
            quantize(stream, args, &mut own.w)?;
            Ok(own)
        };
        let quantized = [
            operands(Blocks::Tensor, Blocks::Tensor, DType::E5m2)?,
            operands(Blocks::Vector, Blocks::Square, DType::E4m3)?,
        ];
        stream.synchronize()?;
        Ok(Self {
            splits,
            x,
            dy,
            layer,
            quantized,
            micro: HashMap::new(),
            recipes: HashMap::new(),
            y: Tensor::zeros(stream, &[t, n], DType::Bf16)?,
            dx: Tensor::zeros(stream, &[t, k], DType::Bf16)?,
            dw: GroupedTensor::packed(Tensor::zeros(stream, &[groups, n, k], DType::Bf16)?)?,
            dw_f32: GroupedTensor::packed(Tensor::zeros(stream, &[groups, n, k], DType::F32)?)?,
        })
    }

    /// Runs what has this name once.
    pub fn run(&mut self, stream: &Stream, name: &str) -> Result<()> {
        let parts: Vec<&str> = name.split('.').collect();
        match parts[..] {
            ["quantize", format @ ("mxfp8" | "nvfp4" | "hadamard"), copies, form] => {
                self.quantize_micro(stream, (format, copies, form))
            }
            ["quantize", blocks, copies] => self.quantize(stream, blocks, copies),
            ["layer", recipe] => self.layer(stream, recipe),
            ["quantize_dy" | "quantize_w", scaling] => {
                self.quantize_other(stream, parts[0], scaling)
            }
            [pass, scaling] => self.product(stream, pass, scaling),
            _ => panic!("unknown name {name}"),
        }
    }

    fn quantize(&mut self, stream: &Stream, blocks: &str, copies: &str) -> Result<()> {
        let [whole, block] = &self.quantized;
        let x = QuantizeSource::Tokens(&self.x, &self.splits);
        let (source, tensor) = match blocks {
            "tensor" => (x, &whole.x),
            "vector" => (x, &block.x),
            _ => (QuantizeSource::Weights(self.layer.weights()), &block.w),
        };
        use grouped_linear::Direction::{Columnwise, Rowwise};
        let mut destination = match copies {
            "row" => tensor.only(Rowwise)?,
            "column" => tensor.only(Columnwise)?,
            _ => tensor.clone(),
        };
        let args = QuantizeArgs { scale: POWERS, ..QuantizeArgs::new(source) };
        quantize(stream, args, &mut destination)
    }

    /// Gradients or weights, both copies.
    fn quantize_other(&mut self, stream: &Stream, which: &str, scaling: &str) -> Result<()> {
        let operands = &mut self.quantized[usize::from(scaling == "block")];
        let (source, destination) = match which {
            "quantize_dy" => (QuantizeSource::Tokens(&self.dy, &self.splits), &mut operands.dy),
            _ => (QuantizeSource::Weights(self.layer.weights()), &mut operands.w),
        };
        quantize(stream, QuantizeArgs { scale: POWERS, ..QuantizeArgs::new(source) }, destination)
    }

    /// Of X, into memory that the first call makes.
    fn quantize_micro(
        &mut self,
        stream: &Stream,
        (format, copies, form): (&str, &str, &str),
    ) -> Result<()> {
        let transform = match format {
            "hadamard" => Transform::Hadamard,
            _ => Transform::None,
        };
        let format_of_x = match format {
            "mxfp8" => Format::Mxfp8 { dtype: DType::E4m3, blocks: BlockShape::Line },
            _ => Format::Nvfp4(Nvfp4Format { transform, ..Nvfp4Format::LINES }),
        };
        let name = format!("{format}.{copies}.{form}");
        if !self.micro.contains_key(&name) {
            let form = if form == "codes" { Form::Codes } else { Form::Exact };
            let source =
                SourceShape::Tokens { rows: self.x.shape()[0], features: self.x.shape()[1] };
            let spec = QuantizedSpec {
                groups: self.splits.groups(),
                source,
                format: format_of_x,
                rowwise: (copies != "column").then_some(form),
                columnwise: (copies != "row").then_some(form),
            };
            self.micro.insert(name.clone(), QuantizedTensor::empty(stream, spec)?);
        }
        let Some(destination) = self.micro.get_mut(&name) else { return Ok(()) };
        let source = QuantizeSource::Tokens(&self.x, &self.splits);
        quantize(stream, QuantizeArgs::new(source), destination)
    }

    fn product(&mut self, stream: &Stream, pass: &str, scaling: &str) -> Result<()> {
        let Operands { x, w, dy } = &self.quantized[usize::from(scaling == "block")];
        let accumulation =
            if scaling == "fast" { Accumulation::Fast } else { Accumulation::Promoted };
        let options = QuantizedGemmOptions { accumulation, ..QuantizedGemmOptions::default() };
        let (weights, splits) = (w, &self.splits);
        match pass {
            "fprop" => {
                let (bias, bias_row_scales) = (None, None);
                let args =
                    QuantizedFpropArgs { x, weights, splits, bias, bias_row_scales, options };
                quantized_fprop(stream, &args, &mut self.y)
            }
            "dgrad" => {
                let args = QuantizedDgradArgs { dy, weights, splits, options };
                quantized_dgrad(stream, &args, &mut self.dx)
            }
            "wgrad" => {
                let args = QuantizedWgradArgs { dy, x, splits, options };
                quantized_wgrad(stream, &args, &mut self.dw)
            }
            _ => {
                let options = QuantizedGemmOptions { beta: Factor::Value(1.0), ..options };
                let args = QuantizedWgradArgs { dy, x, splits, options };
                quantized_wgrad(stream, &args, &mut self.dw_f32)
            }
        }
    }

    /// Forward and backward, everything included: weights are quantized every time.
    fn layer(&mut self, stream: &Stream, recipe: &str) -> Result<()> {
        let (config, rows) = (self.layer.config(), self.x.shape()[0]);
        let named = match recipe {
            "current" => Some(Recipe::Current(CurrentScaling::default())),
            "block" => Some(Recipe::Block(BlockScaling::default())),
            "mxfp8" => Some(Recipe::Mxfp8(Mxfp8Scaling::default())),
            "nvfp4" => Some(Recipe::Nvfp4(Nvfp4Scaling::default())),
            _ => None,
        };
        if let (Some(named), false) = (named, self.recipes.contains_key(recipe)) {
            // Memory of its own, as in a graph: what is timed allocates nothing.
            let own = LayerRecipe::new(stream, config, named)?;
            let buffers = RecipeBuffers::new(stream, &own, rows)?;
            self.recipes.insert(recipe.to_owned(), own.with_buffers(buffers));
        }
        let recipe = self.recipes.get(recipe);
        let options = ForwardOptions { recipe, ..ForwardOptions::default() };
        let saved = self.layer.forward_into(stream, &self.x, &self.splits, options, &mut self.y)?;
        let options = BackwardOptions {
            dx: RowSink::Into(&mut self.dx),
            dw: Wgrad::Now(GradSink::Overwrite(&mut self.dw)),
            ..BackwardOptions::default()
        };
        self.layer.backward_with(stream, saved, &self.dy, options).map(drop)
    }
}
