//! Shapes and types of everything an operation gives, from sizes alone. What allocates asks here,
//! too, so that what is inferred is what is made.

use super::forward::{BiasMode, CallSpec, Needs};
use super::low_precision::{NO_BUFFERS_IN_GRAPH, RecipeSpec};
use super::{Config, ForwardOptions, GroupedLinear, LayerRecipe};
use crate::plan::{
    BiasKind, DbiasProblem, DscalesProblem, Execution, GemmProblem, KernelChoice, Pass, Plan,
    Problem, Target,
};
use crate::splits::{HOST_SPLITS_IN_GRAPH, Splits};
use crate::tensor::{DType, QuantizedSpec, TensorSpec};

/// Why the CPU reference executes nothing that is to be captured.
const NO_GRAPHS_ON_THE_CPU: &str = "the CPU reference records no graphs";

/// What forward and backward of a layer give.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LayerSpecs {
    /// The output, `[T, N]`.
    pub y: TensorSpec,
    /// The tokens kept for backward, `[T, K]`.
    pub saved_x: Option<TensorSpec>,
    /// The tokens kept for backward in low precision, in place of [`LayerSpecs::saved_x`].
    pub saved_quantized_x: Option<QuantizedSpec>,
    /// The row scales kept for backward, `[T]`.
    pub saved_row_scales: Option<TensorSpec>,
    /// The gradient of the tokens, `[T, K]`.
    pub dx: Option<TensorSpec>,
    /// The gradient of the weights, packed, `[G, N, K]`.
    pub dw: Option<TensorSpec>,
    /// The gradient of the bias, packed, `[G, N]`.
    pub db: Option<TensorSpec>,
    /// The gradient of the row scales, `[T]`.
    pub dscales: Option<TensorSpec>,
}

/// A call of a layer with its gradients, and how it is to be executed.
#[derive(Clone, Copy)]
pub(crate) struct IntendedCall {
    pub(crate) target: Target,
    pub(crate) rows: usize,
    /// Whether the host knows the splits.
    pub(crate) host_splits: bool,
    pub(crate) call: CallSpec,
    pub(crate) execution: Execution,
}

impl IntendedCall {
    /// Why it cannot be recorded, if it is to be.
    fn unrecordable(&self, recipe: Option<&RecipeSpec>) -> Option<&'static str> {
        match self.execution {
            Execution::Eager => None,
            Execution::Captured => unrecordable(self.target, self.host_splits, recipe),
        }
    }
}

/// Why no graph can record a call, whatever it computes.
pub(super) fn unrecordable(
    target: Target,
    host_splits: bool,
    recipe: Option<&RecipeSpec>,
) -> Option<&'static str> {
    if target.gpu.is_none() {
        Some(NO_GRAPHS_ON_THE_CPU)
    } else if host_splits {
        Some(HOST_SPLITS_IN_GRAPH)
    } else {
        recipe.filter(|own| !own.has_buffers()).map(|_| NO_BUFFERS_IN_GRAPH)
    }
}

impl Config {
    /// A product of the layer without bias.
    pub(super) fn product(
        &self,
        pass: Pass,
        rows: usize,
        output: DType,
        kernel: KernelChoice,
    ) -> GemmProblem {
        let Self { groups, in_features, out_features, dtype: input } = *self;
        let bias = BiasKind::None;
        GemmProblem { pass, groups, rows, in_features, out_features, input, output, bias, kernel }
    }

    /// What a product gives, in the layer's type.
    fn product_output(&self, pass: Pass, rows: usize) -> TensorSpec {
        Problem::from(self.product(pass, rows, self.dtype, KernelChoice::Auto)).output()
    }

    /// The gradient of the bias.
    pub(super) fn dbias(&self, rows: usize, output: DType) -> Problem {
        let Self { groups, out_features, dtype: input, .. } = *self;
        DbiasProblem { groups, rows, out_features, input, output }.into()
    }

    /// The gradient of the row scales.
    pub(super) fn dscales(&self, rows: usize, bias: DType) -> Problem {
        let Self { groups, out_features, dtype: input, .. } = *self;
        DscalesProblem { groups, rows, out_features, input, bias }.into()
    }

    /// `[T, N]`.
    pub(super) fn output(&self, rows: usize) -> TensorSpec {
        self.product_output(Pass::Fprop, rows)
    }

    /// `[T, K]`: the tokens and their gradient.
    pub(super) fn input(&self, rows: usize) -> TensorSpec {
        self.product_output(Pass::Dgrad, rows)
    }

    /// `[G, N, K]`: the weights and their gradient, packed.
    pub(super) fn weights(&self) -> TensorSpec {
        self.product_output(Pass::Wgrad, 0)
    }
}

impl GroupedLinear {
    /// Shapes and types of all that forward with these options and backward in new tensors give,
    /// for `rows` token rows (T). Computes and allocates nothing.
    ///
    /// ```
    /// # use grouped_linear::*;
    /// # let stream = Device::cpu().stream()?;
    /// # let config = Config { groups: 2, in_features: 8, out_features: 4, dtype: DType::Bf16 };
    /// # let weights = GroupedTensor::packed(Tensor::zeros(&stream, &[2, 4, 8], DType::Bf16)?)?;
    /// # let layer = GroupedLinear::new(&stream, config, weights, None)?;
    /// let specs = layer.infer(10, &ForwardOptions::default());
    /// assert_eq!(specs.y, TensorSpec { shape: vec![10, 4], dtype: DType::Bf16 });
    /// assert_eq!(specs.dw.unwrap().shape, [2, 4, 8]);
    /// # Ok::<(), grouped_linear::Error>(())
    /// ```
    pub fn infer(&self, rows: usize, options: &ForwardOptions<'_>) -> LayerSpecs {
        let recipe = options.recipe.map(LayerRecipe::spec);
        self.infer_call(rows, options.into(), recipe)
    }

    pub(crate) fn infer_call(
        &self,
        rows: usize,
        call: CallSpec,
        recipe: Option<&RecipeSpec>,
    ) -> LayerSpecs {
        let config = &self.config;
        let (bias, needs) = self.effective(call);
        let row_scales = || TensorSpec { shape: vec![rows], dtype: DType::F32 };
        let saved_quantized_x = recipe.filter(|_| needs.dw).and_then(|own| own.saved_tokens(rows));
        let plain = needs.dw && saved_quantized_x.is_none();
        LayerSpecs {
            y: config.output(rows),
            saved_x: plain.then(|| config.input(rows)),
            saved_quantized_x,
            saved_row_scales: (needs.db && call.bias == BiasMode::RowScaled).then(row_scales),
            dx: needs.dx.then(|| config.input(rows)),
            dw: needs.dw.then(|| config.weights()),
            db: bias.filter(|_| needs.db).map(|bias| config.dbias(rows, bias).output()),
            dscales: bias.filter(|_| needs.dscales).map(|bias| config.dscales(rows, bias).output()),
        }
    }

    /// Why forward and the gradients that `options` ask for cannot be executed so on `target`;
    /// `None` if they can. (Recording also needs outputs that exist:
    /// nothing is allocated in a graph.) Nothing is launched.
    ///
    /// ```
    /// # use grouped_linear::*;
    /// # let stream = Device::cpu().stream()?;
    /// # let config = Config { groups: 2, in_features: 7, out_features: 4, dtype: DType::Bf16 };
    /// # let weights = GroupedTensor::packed(Tensor::zeros(&stream, &[2, 4, 7], DType::Bf16)?)?;
    /// # let layer = GroupedLinear::new(&stream, config, weights, None)?;
    /// use grouped_linear::plan::{Execution, GpuTarget, Target};
    /// let gpu = GpuTarget { compute_capability: (9, 0), multiprocessors: 132 };
    /// let (splits, options) = (Splits::host(&[4, 6])?, ForwardOptions::default());
    /// let why = |target, execution| {
    ///     layer.unsupported_reason(target, 10, &splits, &options, execution)
    /// };
    /// assert_eq!(why(Target::CPU, Execution::Eager), None);
    /// assert!(why(Target::CPU, Execution::Captured).unwrap().contains("graph"));
    /// let reason = why(Target { gpu: Some(gpu) }, Execution::Eager).unwrap();
    /// assert!(reason.contains("multiples of 8"));
    /// # Ok::<(), grouped_linear::Error>(())
    /// ```
    pub fn unsupported_reason(
        &self,
        target: Target,
        rows: usize,
        splits: &Splits,
        options: &ForwardOptions<'_>,
        execution: Execution,
    ) -> Option<String> {
        let host_splits = splits.counts().is_some();
        let call = CallSpec::from(options);
        let recipe = options.recipe.map(LayerRecipe::spec);
        self.unsupported_call(IntendedCall { target, rows, host_splits, call, execution }, recipe)
    }

    /// Why a call cannot be executed; `None` if it can.
    pub(crate) fn unsupported_call(
        &self,
        intended: IntendedCall,
        recipe: Option<&RecipeSpec>,
    ) -> Option<String> {
        let IntendedCall { target, rows, call, .. } = intended;
        let (_, Needs { dx, dw, .. }) = self.effective(call);
        let Some(recipe) = recipe else { return self.unsupported_passes(intended, [true, dx, dw]) };
        if let Some(why) = intended.unrecordable(Some(recipe)) {
            return Some(why.to_owned());
        }
        let fits = recipe
            .check_call(&self.config, call.kernel, rows, [dx, dw])
            .and_then(|()| recipe.check_given_weights(recipe.columnwise_weights(dx), target));
        if let Err(error) = fits {
            return Some(error.to_string());
        }
        let refused = recipe.unsupported_reason(target, rows, (dx, dw), call.kernel);
        // Forward is the recipe's; backward may have products of the layer's type.
        let high = !recipe.in_backward();
        refused.or_else(|| self.unsupported_passes(intended, [false, high && dx, high && dw]))
    }

    /// The same of some of its products: fprop, dgrad and wgrad.
    fn unsupported_passes(
        &self,
        intended: IntendedCall,
        [fprop, dgrad, wgrad]: [bool; 3],
    ) -> Option<String> {
        if let Some(why) = intended.unrecordable(None) {
            return Some(why.to_owned());
        }
        let IntendedCall { target, rows, call, .. } = intended;
        let (config, (bias, needs)) = (&self.config, self.effective(call));
        let product = |pass| config.product(pass, rows, config.dtype, call.kernel).into();
        let problems = [
            fprop.then(|| product(Pass::Fprop)),
            dgrad.then(|| product(Pass::Dgrad)),
            wgrad.then(|| product(Pass::Wgrad)),
            bias.filter(|_| needs.db).map(|bias| config.dbias(rows, bias)),
            bias.filter(|_| needs.dscales).map(|bias| config.dscales(rows, bias)),
        ];
        let refused = |problem| Plan::new(problem, target).err();
        problems.into_iter().flatten().find_map(refused).map(|error| error.to_string())
    }

    /// The type of the bias that forward adds, and the gradients that there can be.
    pub(crate) fn effective(&self, call: CallSpec) -> (Option<DType>, Needs) {
        let bias = match call.bias {
            BiasMode::Leave => None,
            BiasMode::Add | BiasMode::RowScaled => self.bias.as_ref(),
        };
        let Needs { dx, dw, db, dscales } = call.needs;
        let db = db && bias.is_some();
        let dscales = dscales && bias.is_some() && call.bias == BiasMode::RowScaled;
        (bias.map(|bias| bias.dtype()), Needs { dx, dw, db, dscales })
    }
}
