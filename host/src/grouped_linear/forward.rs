//! Forward.

use super::functional::{
    FpropArgs, GemmOptions, QuantizeSource, QuantizedFpropArgs, bias_kind, fprop, quantized_fprop,
};
use super::low_precision::{BackwardPrecision, Contents, LayerRecipe};
use super::operands::quantized_options;
use super::saved::{Saved, Tokens, Weights};
use super::{Config, GroupedLinear};
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::gemm::{Placed, check_outputs, check_placed, scaled};
use crate::plan::{BiasKind, KernelChoice, Overlaps, Pass, Plan};
use crate::quantize::check_source;
use crate::recipe::Role;
use crate::splits::Splits;
use crate::tensor::{DType, GroupedTensor, QuantizedTensor, Tensor};

/// What forward does with the layer's bias.
#[derive(Clone, Copy, Debug, Default)]
pub enum BiasUse<'a> {
    /// `Y_g = X_g · W_gᵀ + b_g`, where the layer has a bias.
    #[default]
    Add,
    /// `Y_r = X_r · W_gᵀ + s_r · b_g`: a factor for each token row, FP32, `[T]`. The layer must
    /// have a bias.
    RowScaled(&'a Tensor),
    /// The bias is left to the caller, who adds [`GroupedLinear::bias`] later, say in the kernel
    /// that follows. Backward then gives no gradient for it.
    Leave,
}

/// Which gradients backward will be asked for. What none of them needs is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Needs {
    /// Of the tokens; keeps the weights.
    pub dx: bool,
    /// Of the weights; keeps the tokens.
    pub dw: bool,
    /// Of the bias; keeps its row scales.
    pub db: bool,
    /// Of the row scales of the bias; keeps the bias.
    pub dscales: bool,
}

impl Default for Needs {
    /// All.
    fn default() -> Self {
        Self { dx: true, dw: true, db: true, dscales: true }
    }
}

/// What one forward call may add to the plain product.
#[derive(Clone, Copy, Debug, Default)]
pub struct ForwardOptions<'a> {
    /// What happens to the bias.
    pub bias: BiasUse<'a>,
    /// What is kept for backward.
    pub needs: Needs,
    /// Which kernel, forward and backward: every pass must have it, so that a gradient by a kernel
    /// that its product does not have is refused by backward, before anything is computed, and in
    /// advance by [`GroupedLinear::unsupported_reason`]. [`KernelChoice::Narrow`] is of forward
    /// alone, for layers whose [`Needs`] leave out the gradients of tokens and weights;
    /// [`KernelChoice::Aligned`] is of wgrad alone, for the functional form.
    pub kernel: KernelChoice,
    /// Low precision; none computes in the layer's type.
    pub recipe: Option<&'a LayerRecipe>,
}

/// [`BiasUse`] without memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BiasMode {
    Add,
    RowScaled,
    Leave,
}

/// [`ForwardOptions`] without memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallSpec {
    pub(crate) bias: BiasMode,
    pub(crate) needs: Needs,
    pub(crate) kernel: KernelChoice,
}

impl From<&ForwardOptions<'_>> for CallSpec {
    fn from(options: &ForwardOptions<'_>) -> Self {
        let &ForwardOptions { bias, needs, kernel, .. } = options;
        let bias = match bias {
            BiasUse::Add => BiasMode::Add,
            BiasUse::RowScaled(_) => BiasMode::RowScaled,
            BiasUse::Leave => BiasMode::Leave,
        };
        Self { bias, needs, kernel }
    }
}

/// The tokens of a forward in low precision.
#[derive(Clone, Copy)]
enum Input<'a> {
    Plain(&'a Tensor),
    Quantized(&'a QuantizedTensor),
}

impl<'a> Input<'a> {
    fn rows(self) -> usize {
        match self {
            Self::Plain(x) => x.shape()[0],
            Self::Quantized(x) => x.spec().source.rows(),
        }
    }

    fn tensors(self) -> Vec<&'a Tensor> {
        match self {
            Self::Plain(x) => vec![x],
            Self::Quantized(x) => x.tensors().collect(),
        }
    }
}

impl GroupedLinear {
    /// `Y_g = X_g · W_gᵀ (+ b_g)` into a new tensor `[T, N]` of the layer's type. Rows at and
    /// beyond `Σ m_g` are unspecified.
    ///
    /// # Errors
    /// Shapes, types, devices, alignment or splits that do not fit; row scales without a bias; a
    /// kernel that the product does not have; a recipe of another layer, or whose buffers were made
    /// for other token rows, another form or precision; out of memory; a driver failure.
    pub fn forward(
        &self,
        stream: &Stream,
        x: &Tensor,
        splits: &Splits,
        options: ForwardOptions<'_>,
    ) -> Result<(Tensor, Saved)> {
        self.check_input(x, splits)?;
        let mut y = self.config.output(x.shape()[0]).empty(stream)?;
        let saved = self.forward_into(stream, x, splits, options, &mut y)?;
        Ok((y, saved))
    }

    /// As [`GroupedLinear::forward`], into the caller's `y [T, N]`; rows at and beyond `Σ m_g` keep
    /// what they held. Allocates no tensor; with a recipe, if that has [`RecipeBuffers`]. On first
    /// use a stream's scratch memory grows, and splits on the host are copied to the device.
    ///
    /// [`RecipeBuffers`]: crate::RecipeBuffers
    ///
    /// # Errors
    /// As [`GroupedLinear::forward`]; `y` overlaps what is read, a parameter, or the recipe's
    /// memory.
    pub fn forward_into(
        &self,
        stream: &Stream,
        x: &Tensor,
        splits: &Splits,
        options: ForwardOptions<'_>,
        y: &mut Tensor,
    ) -> Result<Saved> {
        let Some(recipe) = options.recipe else {
            self.forward_product(stream, x, splits, options, y)?;
            return Ok(self.keep(x, splits, options));
        };
        self.check_input(x, splits)?;
        let input = Input::Plain(x);
        let quantized = self.forward_quantized(stream, input, splits, options, recipe, y)?;
        self.keep(x, splits, options).with_quantized(recipe, quantized)
    }

    /// As [`GroupedLinear::forward`], of tokens that are quantized already, as the recipe would: in
    /// its format, with the rowwise copy and, for the gradient of the weights, the columnwise one,
    /// both in the form that the device multiplies ([`Form`](crate::Form)).
    ///
    /// # Errors
    /// No recipe in `options`, or one whose gradient of the weights needs the tokens as they were,
    /// and is not left out of [`Needs`]; another format; a copy that is missing; otherwise as
    /// [`GroupedLinear::forward`].
    pub fn forward_prequantized(
        &self,
        stream: &Stream,
        x: &QuantizedTensor,
        splits: &Splits,
        options: ForwardOptions<'_>,
    ) -> Result<(Tensor, Saved)> {
        let mut y = self.config.output(x.spec().source.rows()).empty(stream)?;
        let saved = self.forward_prequantized_into(stream, x, splits, options, &mut y)?;
        Ok((y, saved))
    }

    /// As [`GroupedLinear::forward_prequantized`], into the caller's `y [T, N]`; rows at and beyond
    /// `Σ m_g` keep what they held. Allocates no tensor if the recipe has been given weights, or
    /// has [`RecipeBuffers`](crate::RecipeBuffers); scratch memory and splits as
    /// [`GroupedLinear::forward_into`].
    ///
    /// # Errors
    /// As [`GroupedLinear::forward_prequantized`].
    pub fn forward_prequantized_into(
        &self,
        stream: &Stream,
        x: &QuantizedTensor,
        splits: &Splits,
        options: ForwardOptions<'_>,
        y: &mut Tensor,
    ) -> Result<Saved> {
        let Some(recipe) = options.recipe else {
            return Err(Error::invalid(
                "x: quantized tokens were given without a recipe; set ForwardOptions::recipe",
            ));
        };
        let input = Input::Quantized(x);
        let quantized = self.forward_quantized(stream, input, splits, options, recipe, y)?;
        let saved = self.keep_operands(Tokens::Quantized(x.clone()), splits, options);
        saved.with_quantized(recipe, quantized)
    }

    /// Computes in low precision; gives what was quantized, tokens and weights, and what backward
    /// finds of the tokens in the recipe's buffers.
    fn forward_quantized(
        &self,
        stream: &Stream,
        x: Input<'_>,
        splits: &Splits,
        options: ForwardOptions<'_>,
        recipe: &LayerRecipe,
        y: &mut Tensor,
    ) -> Result<(QuantizedTensor, QuantizedTensor, Option<Contents>)> {
        recipe.spec().check_layer(&self.config, options.kernel)?;
        let call = CallSpec::from(&options);
        let (_, needs) = self.effective(call);
        let (bias, bias_row_scales) = self.bias_operands(options.bias);
        x.tensors().into_iter().try_for_each(|x| x.check_device("x", stream))?;
        recipe.memory().into_iter().try_for_each(|tensor| tensor.check_device("recipe", stream))?;
        if let Input::Quantized(x) = x {
            recipe.check_tokens(x, needs.dw, stream.device().target())?;
        }
        // Before anything is quantized, what later launches would refuse, and an output over what
        // is quantized, which the product would not see.
        let Config { groups, out_features, .. } = self.config;
        let rows = x.rows();
        splits.check(groups, rows, stream)?;
        y.check("y", &self.config.output(rows).shape, y.dtype(), stream)?;
        let kind = bias_kind(bias, bias_row_scales, (groups, out_features, rows), stream)?;
        let problem = recipe.spec().product(Pass::Fprop, rows, (y.dtype(), kind), options.kernel);
        let plan = Plan::new(problem.into(), stream.device().target())?;
        let (source, a) = match x {
            Input::Plain(x) => (Some(x), None),
            Input::Quantized(x) => (None, Some(x)),
        };
        let b = recipe.weights();
        let placed = scaled::Placed { a, b, bias };
        self.check_operands(stream, recipe, &plan, (rows, call), &placed, Some(y))?;
        let mut overlaps = Overlaps::default();
        overlaps.read(x.tensors().into_iter().chain(splits.device_tensor()).chain(bias_row_scales));
        overlaps.read(self.parameters());
        overlaps.read(recipe.memory());
        overlaps.write([&*y]);
        overlaps.check()?;
        let own = recipe.spec();
        let [tokens, matrices] =
            [own.columnwise_tokens(needs.dw), own.columnwise_weights(needs.dx)];
        source.map_or(Ok(()), |x| recipe.check_placed(stream, Role::Input, x, [true, tokens]))?;
        let open = |role, columnwise| recipe.open(stream, role, rows, [true, columnwise]);
        let mut x = a.cloned().map_or_else(|| open(Role::Input, tokens), Ok)?;
        let mut weights = b.cloned().map_or_else(|| open(Role::Weight, matrices), Ok)?;
        recipe.spec().check_buffers_of_backward(rows, [needs.dx, needs.dw])?;
        let options = quantized_options(recipe, Pass::Fprop, options.kernel);
        // From here on what earlier calls have left there may be gone.
        let contents = source.and_then(|_| recipe.note_forward(needs.dw));
        stream.together(|| {
            // The weights first, beside which the set-up of the tokens takes no time.
            if b.is_none() {
                let source = QuantizeSource::Weights(&self.weights);
                recipe.quantize(stream, Role::Weight, source, &mut weights)?;
            }
            if let Some(source) = source {
                let source = QuantizeSource::Tokens(source, splits);
                recipe.quantize(stream, Role::Input, source, &mut x)?;
            }
            stream.next_stage();
            let (x, weights) = (&x, &weights);
            let args = QuantizedFpropArgs { x, weights, splits, bias, bias_row_scales, options };
            quantized_fprop(stream, &args, y)
        })?;
        Ok((x, weights, contents))
    }

    /// Refuses memory that a forward in low precision could not use, before anything is written:
    /// that of weights and bias, and of tokens and output as far as they exist.
    pub(crate) fn check_quantized(
        &self,
        stream: &Stream,
        recipe: &LayerRecipe,
        (rows, call): (usize, CallSpec),
        tokens: Option<&Tensor>,
        output: Option<&Tensor>,
    ) -> Result<()> {
        let (own, target) = (recipe.spec(), stream.device().target());
        let product =
            own.product(Pass::Fprop, rows, (self.config.dtype, BiasKind::None), call.kernel);
        let plan = Plan::new(product.into(), target)?;
        let bias = self.bias.as_ref().filter(|_| call.bias != BiasMode::Leave);
        let placed = scaled::Placed { a: None, b: recipe.weights(), bias };
        self.check_operands(stream, recipe, &plan, (rows, call), &placed, output)?;
        let Some(tokens) = tokens else { return Ok(()) };
        let plan = Plan::new(own.quantization(Role::Input, rows, [true, false]), target)?;
        check_source(&plan, std::slice::from_ref(tokens))
    }

    /// Refuses weights that forward could not use, operands that lie where the product could not
    /// read or write them, and those that were given and that backward could not read.
    fn check_operands(
        &self,
        stream: &Stream,
        recipe: &LayerRecipe,
        plan: &Plan,
        (rows, call): (usize, CallSpec),
        placed: &scaled::Placed<'_>,
        output: Option<&Tensor>,
    ) -> Result<()> {
        let (_, needs) = self.effective(call);
        check_outputs(plan, output.map_or(&[], std::slice::from_ref))?;
        let columnwise = recipe.spec().columnwise_weights(needs.dx);
        recipe.check_weights(stream, &self.weights, columnwise)?;
        scaled::check_placed(plan, placed)?;
        let tokens = placed.a.filter(|_| needs.dw).map(|x| (Pass::Wgrad, x));
        let weights = placed.b.filter(|_| needs.dx).map(|weights| (Pass::Dgrad, weights));
        let kept = tokens.into_iter().chain(weights);
        let target = stream.device().target();
        recipe.check_kept(target, (rows, call.kernel), kept)?;
        if recipe.spec().backward() != BackwardPrecision::High || !needs.dx {
            return Ok(());
        }
        // Backward reads the layer's own weights, though forward may have been given others.
        self.weights.check_device("weights", stream)?;
        let dgrad = self.config.product(Pass::Dgrad, rows, self.config.dtype, call.kernel);
        // A kernel that the gradient does not have is for backward to refuse.
        Plan::new(dgrad.into(), target).map_or(Ok(()), |plan| {
            let weights = Some(&self.weights);
            check_placed(&plan, &Placed { weights, ..Placed::default() })
        })
    }

    /// Computes, and keeps nothing.
    fn forward_product(
        &self,
        stream: &Stream,
        x: &Tensor,
        splits: &Splits,
        options: ForwardOptions<'_>,
        y: &mut Tensor,
    ) -> Result<()> {
        self.check_input(x, splits)?;
        let (bias, bias_row_scales) = self.bias_operands(options.bias);
        // The bias, too, where it is left for later.
        let mut overlaps = Overlaps::default();
        overlaps.read(self.parameters());
        overlaps.write([&*y]);
        overlaps.check()?;
        let gemm = GemmOptions { kernel: options.kernel, ..GemmOptions::default() };
        let weights = &self.weights;
        let args = FpropArgs { x, weights, splits, bias, bias_row_scales, options: gemm };
        fprop(stream, &args, y)
    }

    /// Keeps what backward needs of a forward with these arguments.
    pub(crate) fn keep(&self, x: &Tensor, splits: &Splits, options: ForwardOptions<'_>) -> Saved {
        self.keep_operands(Tokens::Plain(x.clone()), splits, options)
    }

    fn keep_operands(&self, x: Tokens, splits: &Splits, options: ForwardOptions<'_>) -> Saved {
        let (bias, bias_row_scales) = self.bias_operands(options.bias);
        let (_, needs) = self.effective((&options).into());
        Saved {
            config: self.config,
            rows: x.rows(),
            needs,
            x: needs.dw.then_some(x),
            weights: needs.dx.then(|| Weights::Plain(self.weights.clone())),
            bias: bias.filter(|_| needs.dscales).cloned(),
            bias_row_scales: bias_row_scales.filter(|_| needs.db).cloned(),
            splits: splits.clone(),
            kernel: options.kernel,
            recipe: None,
            restore: None,
            contents: None,
            left: None,
        }
    }

    /// The tensors of weights and bias, be it added or not: an output over one would ruin the
    /// layer.
    pub(super) fn parameters(&self) -> impl Iterator<Item = &Tensor> {
        [&self.weights].into_iter().chain(&self.bias).flat_map(GroupedTensor::tensors)
    }

    /// The bias that forward adds, and its row scales.
    fn bias_operands<'a>(
        &'a self,
        bias: BiasUse<'a>,
    ) -> (Option<&'a GroupedTensor>, Option<&'a Tensor>) {
        match bias {
            BiasUse::Add => (self.bias.as_ref(), None),
            BiasUse::RowScaled(scales) => (self.bias.as_ref(), Some(scales)),
            BiasUse::Leave => (None, None),
        }
    }

    fn check_input(&self, x: &Tensor, splits: &Splits) -> Result<()> {
        self.check_input_spec(x.shape(), x.dtype(), splits.groups())
    }

    /// What can be said of the input without its memory.
    pub(crate) fn check_input_spec(
        &self,
        x: &[usize],
        dtype: DType,
        split_count: usize,
    ) -> Result<()> {
        let Config { groups, in_features: k, dtype: own, .. } = self.config;
        if x.len() != 2 || x[1] != k {
            return Err(Error::shape("x", x, format!("[rows, {k}]")));
        }
        if dtype != own {
            return Err(Error::dtype("x", dtype, own.to_string()));
        }
        if split_count != groups {
            return Err(Error::invalid(format!(
                "splits: {split_count} were given, the layer has {groups} groups"
            )));
        }
        Ok(())
    }
}
