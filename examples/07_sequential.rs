//! Two layers with an operation of one's own between them, as one pipeline: forward, backward, the
//! stages that were planned, and one of the layers in FP8.
//!
//! Runs on the first GPU, if there are kernels for it, else on the CPU.

use grouped_linear::ops::{
    BackwardArguments, ForwardArguments, Function, FunctionSpecs, Gradient, Gradients, InputSpecs,
    Inputs, Selection, Sequential, Sink, Sinks, names,
};
use grouped_linear::plan::{Execution, Target};
use grouped_linear::recipe::CurrentScaling;
use grouped_linear::{
    Config, DType, Device, Error, GroupedLinear, GroupedTensor, LayerRecipe, Recipe, Result,
    Splits, Stream, Tensor,
};

/// `y = 2 x`, computed on the host; a real one would launch a kernel.
#[derive(Debug)]
struct Double;

fn double(stream: &Stream, from: &Tensor, to: &mut Tensor) -> Result<()> {
    let values: Vec<f32> = from.to_f32(stream)?.iter().map(|value| 2.0 * value).collect();
    to.write_f32(stream, &values)
}

impl Function for Double {
    type Saved = (); // the gradient needs nothing of forward

    fn kind(&self) -> &'static str {
        "double"
    }

    fn inputs(&self) -> &'static [&'static str] {
        &[names::X]
    }

    fn gradients(&self) -> &'static [&'static str] {
        &[names::X]
    }

    fn infer(&self, inputs: &InputSpecs, needs: &Selection) -> Result<FunctionSpecs> {
        let x = inputs.tensor(names::X)?.clone();
        let dx = needs.wants(names::X).then(|| (names::X, x.clone()));
        let (saved, gradients) = (Default::default(), dx.into_iter().collect());
        Ok(FunctionSpecs { output: x, saved, gradients })
    }

    fn unsupported_reason(
        &self,
        _target: Target,
        _inputs: &InputSpecs,
        _needs: &Selection,
        execution: Execution,
    ) -> Option<String> {
        (execution == Execution::Captured).then(|| "double is computed on the host".to_owned())
    }

    fn forward(&self, stream: &Stream, inputs: &Inputs, output: &mut Tensor) -> Result<()> {
        double(stream, inputs.tensor(names::X)?, output)
    }

    fn save(&self, _inputs: &Inputs, _output: &Tensor, _needs: &Selection) -> Result<()> {
        Ok(())
    }

    fn check_backward(
        &self,
        _stream: &Stream,
        _saved: &(),
        _output_gradient: Option<&Tensor>,
        sinks: &mut Sinks<'_>,
    ) -> Result<()> {
        match sinks.get(names::X) {
            None | Some(Sink::New) => Ok(()),
            Some(sink) => Err(Error::invalid(format!("double fills new tensors, not {sink:?}"))),
        }
    }

    fn backward(
        &self,
        stream: &Stream,
        _saved: (),
        output_gradient: &Tensor,
        _sinks: Sinks<'_>,
    ) -> Result<Gradients> {
        let mut dx = Tensor::empty(stream, output_gradient.shape(), output_gradient.dtype())?;
        double(stream, output_gradient, &mut dx)?;
        Ok(Gradients::new().with(names::X, Gradient::Tensor(dx)))
    }
}

fn main() -> Result<()> {
    let stream = Device::best_available().stream()?;
    let (groups, rows, width, hidden) = (3, 12, 16, 32);
    let layer = |k: usize, n: usize| {
        let config = Config { groups, in_features: k, out_features: n, dtype: DType::Bf16 };
        let weights = vec![1.0 / k as f32; groups * n * k];
        let weights = Tensor::from_f32(&stream, &[groups, n, k], DType::Bf16, &weights)?;
        GroupedLinear::new(&stream, config, GroupedTensor::packed(weights)?, None)
    };
    let mut pipeline = Sequential::new();
    let up = pipeline.push(layer(width, hidden)?);
    pipeline.push(Double);
    let down = pipeline.push(layer(hidden, width)?);

    let x = Tensor::from_f32(&stream, &[rows, width], DType::Bf16, &vec![1.0; rows * width])?;
    let weights = Tensor::zeros(&stream, &[groups, width, hidden], DType::F32)?;
    let mut main_grad = GroupedTensor::packed(weights)?;
    for splits in [[4, 4, 4], [12, 0, 0]] {
        let splits = Splits::host(&splits)?;
        let arguments = ForwardArguments::new().splits(up, &splits).splits(down, &splits);
        let (y, saved) = pipeline.forward(&stream, x.clone(), arguments)?;
        println!("y: {}, kept: {} bytes", y.to_f32(&stream)?[0], saved.activation_bytes());
        for stage in &saved.plan().forward {
            println!("  operations {:?}: {:?}", stage.operations, stage.kind);
        }
        let sink = Sink::Accumulate(&mut main_grad);
        let arguments = BackwardArguments::new().sink(down, names::WEIGHTS, sink);
        let grads = pipeline.backward(&stream, saved, y, arguments)?;
        if let Some(dx) = grads.get(up, names::X).and_then(Gradient::tensor) {
            println!("dx: {}", dx.to_f32(&stream)?[0]);
        }
    }

    // The first layer in FP8, forward and backward. It keeps a byte an element of its tokens, with
    // every group padded to 128 rows.
    let config = Config { groups, in_features: width, out_features: hidden, dtype: DType::Bf16 };
    let recipe = LayerRecipe::new(&stream, config, Recipe::Current(CurrentScaling::default()))?;
    let splits = Splits::host(&[4, 4, 4])?;
    let arguments = ForwardArguments::new().splits(up, &splits).splits(down, &splits);
    let (y, saved) = pipeline.forward(&stream, x.clone(), arguments.recipe(up, &recipe))?;
    println!("in FP8, y: {}, kept: {} bytes", y.to_f32(&stream)?[0], saved.activation_bytes());
    pipeline.backward(&stream, saved, y, BackwardArguments::new())?;

    println!("plans made: {}", pipeline.plan_count());
    println!("gradient of a weight: {}", main_grad.group(0)?.to_f32(&stream)?[0]);
    Ok(())
}
