//! An operation that a program adds: `y = max(x, 0)`, computed on the host.

use grouped_linear::ops::{
    Function, FunctionSpecs, Gradient, Gradients, InputSpecs, Inputs, Kept, Named, SavedState,
    Selection, Sink, Sinks, names,
};
use grouped_linear::plan::{Execution, Target};
use grouped_linear::{Error, Result, Stream, Tensor};

#[derive(Clone, Debug)]
pub(crate) struct Relu;

#[derive(Debug)]
pub(crate) struct Output(pub(crate) Tensor);

impl SavedState for Output {
    fn kept(&self) -> Kept<'_> {
        Kept { activations: vec![&self.0], parameters: Vec::new() }
    }
}

impl Function for Relu {
    type Saved = Output;

    fn kind(&self) -> &'static str {
        "relu"
    }

    fn inputs(&self) -> &'static [&'static str] {
        &[names::X]
    }

    fn gradients(&self) -> &'static [&'static str] {
        &[names::X]
    }

    fn infer(&self, inputs: &InputSpecs, needs: &Selection) -> Result<FunctionSpecs> {
        let output = inputs.tensor(names::X)?.clone();
        let only = |name| -> Named<_> {
            needs.wants(names::X).then(|| (name, output.clone())).into_iter().collect()
        };
        Ok(FunctionSpecs { saved: only("y"), gradients: only(names::X), output })
    }

    fn unsupported_reason(
        &self,
        _target: Target,
        _inputs: &InputSpecs,
        _needs: &Selection,
        execution: Execution,
    ) -> Option<String> {
        (execution == Execution::Captured).then(|| "relu is computed on the host".to_owned())
    }

    fn forward(&self, stream: &Stream, inputs: &Inputs, output: &mut Tensor) -> Result<()> {
        let x = inputs.tensor(names::X)?.to_f32(stream)?;
        output.write_f32(stream, &x.iter().map(|x| x.max(0.0)).collect::<Vec<_>>())
    }

    fn save(&self, _inputs: &Inputs, output: &Tensor, _needs: &Selection) -> Result<Output> {
        Ok(Output(output.clone()))
    }

    fn check_backward(
        &self,
        _stream: &Stream,
        _saved: &Output,
        _output_gradient: Option<&Tensor>,
        sinks: &mut Sinks<'_>,
    ) -> Result<()> {
        match sinks.get(names::X) {
            None | Some(Sink::New | Sink::Into(_)) => Ok(()),
            Some(sink) => Err(Error::invalid(format!("relu fills new tensors, not {sink:?}"))),
        }
    }

    fn backward(
        &self,
        stream: &Stream,
        saved: Output,
        output_gradient: &Tensor,
        mut sinks: Sinks<'_>,
    ) -> Result<Gradients> {
        let y = saved.0.to_f32(stream)?;
        let dy = output_gradient.to_f32(stream)?;
        let dx: Vec<f32> =
            y.iter().zip(dy).map(|(&y, dy)| if y > 0.0 { dy } else { 0.0 }).collect();
        let mut gradient = match sinks.take(names::X) {
            Some(Sink::Into(tensor)) => tensor.clone(),
            _ => Tensor::empty(stream, saved.0.shape(), saved.0.dtype())?,
        };
        gradient.write_f32(stream, &dx)?;
        Ok(Gradients::new().with(names::X, Gradient::Tensor(gradient)))
    }
}
