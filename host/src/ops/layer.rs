//! The grouped linear layer as a [`Function`].

use super::function::{
    Function, FunctionSpecs, Gradient, Gradients, Kept, SavedState, Selection, Sink, Sinks,
    check_names,
};
use super::named::Named;
use super::names::{
    BIAS, BIAS_ROW_SCALES, BIAS_USE, KERNEL, RECIPE, SPLITS, WEIGHTS, WEIGHTS_AMAX, WEIGHTS_SCALE,
    WEIGHTS_SCALE_INV, X, X_AMAX, X_SCALE, X_SCALE_INV,
};
use super::value::{InputSpecs, Inputs, SplitsSpec};
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::gemm::{Placed, check_placed};
use crate::grouped_linear::{
    BackwardOptions, BiasMode, BiasUse, CallSpec, Config, ForwardOptions, GradSink, GroupedLinear,
    IntendedCall, Needs, RecipeSpec, RowSink, Saved, SelectedGrads, Wgrad,
};
use crate::plan::{BiasKind, Execution, GemmProblem, KernelChoice, Pass, Plan, Target};
use crate::tensor::{CopySpec, DType, GroupedTensor, QuantizedSpec, Tensor, TensorSpec};

const INPUTS: &[&str] = &[X, SPLITS, KERNEL, RECIPE];
const INPUTS_WITH_BIAS: &[&str] = &[X, SPLITS, KERNEL, RECIPE, BIAS_ROW_SCALES, BIAS_USE];
const GRADIENTS: &[&str] = &[X, WEIGHTS];
const GRADIENTS_WITH_BIAS: &[&str] = &[X, WEIGHTS, BIAS, BIAS_ROW_SCALES];

/// A call, as far as shapes tell.
struct Checked {
    rows: usize,
    splits: SplitsSpec,
    call: CallSpec,
    recipe: Option<RecipeSpec>,
}

/// Inputs `x [T, K]`, `splits`, `kernel`, `recipe` and, for a layer with bias,
/// `bias_row_scales [T]` in FP32 or `bias_use` ([`names`](super::names)); gradients `x`, `weights`,
/// `bias` and `bias_row_scales`. With a recipe forward makes what backward needs, so that there is
/// no [`save`](Function::save) of its own.
impl Function for GroupedLinear {
    type Saved = Saved;

    fn kind(&self) -> &'static str {
        "grouped_linear"
    }

    fn inputs(&self) -> &'static [&'static str] {
        if self.bias().is_some() { INPUTS_WITH_BIAS } else { INPUTS }
    }

    fn gradients(&self) -> &'static [&'static str] {
        if self.bias().is_some() { GRADIENTS_WITH_BIAS } else { GRADIENTS }
    }

    fn parameters(&self) -> Named<&GroupedTensor> {
        let weights = (WEIGHTS, self.weights());
        [weights].into_iter().chain(self.bias().map(|bias| (BIAS, bias))).collect()
    }

    fn infer(&self, inputs: &InputSpecs, needs: &Selection) -> Result<FunctionSpecs> {
        let Checked { rows, call, recipe, .. } = check(self, inputs, needs)?;
        let specs = self.infer_call(rows, call, recipe.as_ref());
        let [x, x_scale, x_scale_inv, x_amax] = match specs.saved_quantized_x {
            Some(quantized) => parts(quantized),
            None => [specs.saved_x, None, None, None],
        };
        let weights = recipe.filter(|_| specs.dx.is_some()).and_then(|own| own.saved_weights());
        let [w, w_scale, w_scale_inv, w_amax] = weights.map_or_else(Default::default, parts);
        let row_scales = (BIAS_ROW_SCALES, specs.saved_row_scales);
        let splits = inputs.splits(SPLITS)?.on_device;
        let splits = splits.map(|dtype| TensorSpec { shape: vec![self.config().groups], dtype });
        Ok(FunctionSpecs {
            output: specs.y,
            saved: present([
                (X, x),
                (X_SCALE, x_scale),
                (X_SCALE_INV, x_scale_inv),
                (X_AMAX, x_amax),
                (WEIGHTS, w),
                (WEIGHTS_SCALE, w_scale),
                (WEIGHTS_SCALE_INV, w_scale_inv),
                (WEIGHTS_AMAX, w_amax),
                row_scales,
                (SPLITS, splits),
            ]),
            gradients: present([
                (X, specs.dx),
                (WEIGHTS, specs.dw),
                (BIAS, specs.db),
                (BIAS_ROW_SCALES, specs.dscales),
            ]),
        })
    }

    fn unsupported_reason(
        &self,
        target: Target,
        inputs: &InputSpecs,
        needs: &Selection,
        execution: Execution,
    ) -> Option<String> {
        match check(self, inputs, needs) {
            Ok(Checked { rows, splits, call, recipe }) => {
                let host_splits = splits.on_device.is_none();
                let intended = IntendedCall { target, rows, host_splits, call, execution };
                self.unsupported_call(intended, recipe.as_ref())
            }
            Err(error) => Some(error.to_string()),
        }
    }

    fn check_forward(
        &self,
        stream: &Stream,
        specs: &InputSpecs,
        inputs: &Inputs,
        output: Option<&Tensor>,
        needs: &Selection,
    ) -> Result<()> {
        let Checked { rows, call, .. } = check(self, specs, needs)?;
        let bias = self.bias().filter(|_| call.bias != BiasMode::Leave);
        bias.map_or(Ok(()), |bias| bias.check_device("bias", stream))?;
        let tokens = inputs.optional_tensor(X)?;
        if let Some(recipe) = inputs.recipe(RECIPE)? {
            return self.check_quantized(stream, recipe, (rows, call), tokens, output);
        }
        self.weights().check_device("weights", stream)?;
        let plan = plan_product(self, Pass::Fprop, rows, call.kernel, stream)?;
        check_placed(&plan, &Placed { tokens, weights: Some(self.weights()), bias, output })
    }

    fn forward(&self, stream: &Stream, inputs: &Inputs, output: &mut Tensor) -> Result<()> {
        self.forward_and_save(stream, inputs, output, &Selection::none()).map(drop)
    }

    fn save(&self, inputs: &Inputs, _output: &Tensor, needs: &Selection) -> Result<Saved> {
        let options = options(self, inputs, needs)?;
        if options.recipe.is_some() {
            return Err(Error::invalid(
                "with a recipe forward makes what backward needs; call Function::forward_and_save",
            ));
        }
        Ok(self.keep(inputs.tensor(X)?, inputs.splits(SPLITS)?, options))
    }

    fn forward_and_save(
        &self,
        stream: &Stream,
        inputs: &Inputs,
        output: &mut Tensor,
        needs: &Selection,
    ) -> Result<Saved> {
        let options = options(self, inputs, needs)?;
        self.forward_into(stream, inputs.tensor(X)?, inputs.splits(SPLITS)?, options, output)
    }

    fn check_backward(
        &self,
        stream: &Stream,
        saved: &Saved,
        output_gradient: Option<&Tensor>,
        sinks: &mut Sinks<'_>,
    ) -> Result<()> {
        let sinks = sinks.iter_mut().map(|(name, sink)| (name, sink.reborrow())).collect();
        let options = backward_options(self, sinks)?;
        self.check_sinks(stream, saved, output_gradient, &options)
    }

    fn backward(
        &self,
        stream: &Stream,
        saved: Saved,
        output_gradient: &Tensor,
        sinks: Sinks<'_>,
    ) -> Result<Gradients> {
        let options = backward_options(self, sinks)?;
        let grads = self.backward_with(stream, saved, output_gradient, options)?;
        let SelectedGrads { dx, dw, pending, db, dscales } = grads;
        let weights = dw.map(Gradient::Grouped).or(pending.map(Gradient::Pending));
        Ok(present([
            (X, dx.map(Gradient::Tensor)),
            (WEIGHTS, weights),
            (BIAS, db.map(Gradient::Grouped)),
            (BIAS_ROW_SCALES, dscales.map(Gradient::Tensor)),
        ]))
    }
}

impl SavedState for Saved {
    fn kept(&self) -> Kept<'_> {
        let (mut activations, mut parameters) = (self.activations(), self.parameters());
        let own = self.own_weights();
        parameters.retain(|tensor| !own.iter().any(|own| own.same_as(tensor)));
        activations.extend(own);
        Kept { activations, parameters }
    }
}

/// Those that are there.
fn present<T, const N: usize>(values: [(&'static str, Option<T>); N]) -> Named<T> {
    values.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// Data, scale, scale_inv and amax of a tensor of which one copy is kept.
fn parts(kept: QuantizedSpec) -> [Option<TensorSpec>; 4] {
    let Some(direction) = kept.directions().next() else { return Default::default() };
    let CopySpec { data, scale_inv, amax } = kept.copy(direction);
    let per_group = TensorSpec { shape: vec![kept.groups], dtype: DType::F32 };
    let scale = kept.format.is_whole().then_some(per_group);
    // Exact numbers have no scales.
    [Some(data), scale, Some(scale_inv).filter(|own| own.byte_len() > 0), amax]
}

/// A product of the layer. Its bias has no influence on the kernel.
fn plan_product(
    layer: &GroupedLinear,
    pass: Pass,
    rows: usize,
    kernel: KernelChoice,
    stream: &Stream,
) -> Result<Plan> {
    let Config { groups, in_features, out_features, dtype } = layer.config();
    let problem = GemmProblem {
        pass,
        groups,
        rows,
        in_features,
        out_features,
        input: dtype,
        output: dtype,
        bias: BiasKind::None,
        kernel,
    };
    Plan::new(problem.into(), stream.device().target())
}

fn check(layer: &GroupedLinear, inputs: &InputSpecs, needs: &Selection) -> Result<Checked> {
    check_names("input", inputs.names(), layer.inputs())?;
    let x = inputs.tensor(X)?;
    let splits = inputs.splits(SPLITS)?;
    layer.check_input_spec(&x.shape, x.dtype, splits.groups)?;
    let rows = x.shape[0];
    let row_scales = inputs.optional_tensor(BIAS_ROW_SCALES)?;
    if let Some(scales) = row_scales {
        if scales.shape != [rows] {
            return Err(Error::shape(BIAS_ROW_SCALES, &scales.shape, format!("[{rows}]")));
        }
        if scales.dtype != DType::F32 {
            return Err(Error::dtype(BIAS_ROW_SCALES, scales.dtype, "f32"));
        }
    }
    let leave = inputs.choice(BIAS_USE, &["add", "leave"])? == "leave";
    let bias = match (row_scales, leave) {
        (None, false) => BiasMode::Add,
        (None, true) => BiasMode::Leave,
        (Some(_), false) => BiasMode::RowScaled,
        (Some(_), true) => {
            return Err(Error::invalid(
                "bias_row_scales were given for a bias that forward leaves to the caller; leave one \
                 of the two out",
            ));
        }
    };
    let name = inputs.choice(KERNEL, &KernelChoice::ALL.map(KernelChoice::name))?;
    let kernel = KernelChoice::ALL.into_iter().find(|kernel| kernel.name() == name);
    let kernel = kernel.unwrap_or_default();
    let recipe = inputs.recipe(RECIPE)?.copied();
    let call = CallSpec { bias, needs: layer_needs(needs), kernel };
    if let Some(recipe) = &recipe {
        let (_, Needs { dx, dw, .. }) = layer.effective(call);
        recipe.check_call(&layer.config(), kernel, rows, [dx, dw])?;
    }
    Ok(Checked { rows, splits, call, recipe })
}

fn layer_needs(needs: &Selection) -> Needs {
    Needs {
        dx: needs.wants(X),
        dw: needs.wants(WEIGHTS),
        db: needs.wants(BIAS),
        dscales: needs.wants(BIAS_ROW_SCALES),
    }
}

fn options<'a>(
    layer: &GroupedLinear,
    inputs: &'a Inputs,
    needs: &Selection,
) -> Result<ForwardOptions<'a>> {
    let CallSpec { bias, needs, kernel } = check(layer, &inputs.specs(), needs)?.call;
    let bias = match bias {
        BiasMode::Add => BiasUse::Add,
        BiasMode::Leave => BiasUse::Leave,
        BiasMode::RowScaled => BiasUse::RowScaled(inputs.tensor(BIAS_ROW_SCALES)?),
    };
    Ok(ForwardOptions { bias, needs, kernel, recipe: inputs.recipe(RECIPE)? })
}

fn backward_options<'a>(
    layer: &GroupedLinear,
    mut sinks: Sinks<'a>,
) -> Result<BackwardOptions<'a>> {
    check_names("gradient", sinks.names(), layer.gradients())?;
    let mut sink = |name| sinks.take(name).unwrap_or_default();
    Ok(BackwardOptions {
        dx: row_sink(X, sink(X))?,
        dw: match sink(WEIGHTS) {
            Sink::Later => Wgrad::Delayed,
            Sink::Skip => Wgrad::Skip,
            sink => Wgrad::Now(grad_sink(WEIGHTS, sink)?),
        },
        db: match sink(BIAS) {
            Sink::Skip => None,
            sink => Some(grad_sink(BIAS, sink)?),
        },
        dscales: row_sink(BIAS_ROW_SCALES, sink(BIAS_ROW_SCALES))?,
    })
}

fn row_sink<'a>(name: &str, sink: Sink<'a>) -> Result<RowSink<'a>> {
    match sink {
        Sink::New => Ok(RowSink::New),
        Sink::Into(tensor) => Ok(RowSink::Into(tensor)),
        Sink::Skip => Ok(RowSink::Skip),
        _ => Err(Error::invalid(format!(
            "the gradient of {name} has a row per token; give it Sink::New, Into or Skip"
        ))),
    }
}

fn grad_sink<'a>(name: &str, sink: Sink<'a>) -> Result<GradSink<'a>> {
    match sink {
        Sink::New => Ok(GradSink::New),
        Sink::Overwrite(buffer) => Ok(GradSink::Overwrite(buffer)),
        Sink::Accumulate(buffer) => Ok(GradSink::Accumulate(buffer)),
        sink => Err(Error::invalid(format!(
            "the gradient of {name} has a part per group; give it Sink::New, Overwrite, Accumulate \
             or Skip, and that of weights also Later; {sink:?} was given"
        ))),
    }
}
