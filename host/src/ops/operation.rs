//! A function whose type has been forgotten.

use std::any::Any;
use std::fmt::Debug;

use super::function::{AnySaved, Function, FunctionSpecs, Gradients, Selection, Sinks};
use super::value::{InputSpecs, Inputs};
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::plan::{Execution, Target};
use crate::tensor::{GroupedTensor, Tensor};

/// [`Function`] with any kept state.
pub(super) trait Operation: Debug + Send + Sync {
    /// The function itself.
    fn as_any(&self) -> &dyn Any;

    fn kind(&self) -> &'static str;
    fn inputs(&self) -> &'static [&'static str];
    fn gradients(&self) -> &'static [&'static str];
    fn parameter(&self, name: &str) -> Option<&GroupedTensor>;
    fn parameter_tensors(&self) -> Vec<&Tensor>;
    fn infer(&self, inputs: &InputSpecs, needs: &Selection) -> Result<FunctionSpecs>;
    fn unsupported_reason(
        &self,
        target: Target,
        inputs: &InputSpecs,
        needs: &Selection,
        execution: Execution,
    ) -> Option<String>;
    fn check_forward(
        &self,
        stream: &Stream,
        specs: &InputSpecs,
        inputs: &Inputs,
        output: Option<&Tensor>,
        needs: &Selection,
    ) -> Result<()>;
    fn forward(&self, stream: &Stream, inputs: &Inputs, output: &mut Tensor) -> Result<()>;
    fn forward_and_save(
        &self,
        stream: &Stream,
        inputs: &Inputs,
        output: &mut Tensor,
        needs: &Selection,
    ) -> Result<AnySaved>;
    fn check_backward(
        &self,
        stream: &Stream,
        saved: &AnySaved,
        output_gradient: Option<&Tensor>,
        sinks: &mut Sinks<'_>,
    ) -> Result<()>;
    fn backward(
        &self,
        stream: &Stream,
        saved: AnySaved,
        output_gradient: &Tensor,
        sinks: Sinks<'_>,
    ) -> Result<Gradients>;
}

#[derive(Debug)]
pub(super) struct Erased<F>(pub(super) F);

impl<F: Function + 'static> Operation for Erased<F> {
    fn as_any(&self) -> &dyn Any {
        &self.0
    }

    fn kind(&self) -> &'static str {
        self.0.kind()
    }

    fn inputs(&self) -> &'static [&'static str] {
        self.0.inputs()
    }

    fn gradients(&self) -> &'static [&'static str] {
        self.0.gradients()
    }

    fn parameter(&self, name: &str) -> Option<&GroupedTensor> {
        self.0.parameters().take(name)
    }

    fn parameter_tensors(&self) -> Vec<&Tensor> {
        let parameters = self.0.parameters();
        parameters.into_iter().flat_map(|(_, parameter)| parameter.tensors()).collect()
    }

    fn infer(&self, inputs: &InputSpecs, needs: &Selection) -> Result<FunctionSpecs> {
        self.0.infer(inputs, needs)
    }

    fn unsupported_reason(
        &self,
        target: Target,
        inputs: &InputSpecs,
        needs: &Selection,
        execution: Execution,
    ) -> Option<String> {
        self.0.unsupported_reason(target, inputs, needs, execution)
    }

    fn check_forward(
        &self,
        stream: &Stream,
        specs: &InputSpecs,
        inputs: &Inputs,
        output: Option<&Tensor>,
        needs: &Selection,
    ) -> Result<()> {
        self.0.check_forward(stream, specs, inputs, output, needs)
    }

    fn forward(&self, stream: &Stream, inputs: &Inputs, output: &mut Tensor) -> Result<()> {
        self.0.forward(stream, inputs, output)
    }

    fn forward_and_save(
        &self,
        stream: &Stream,
        inputs: &Inputs,
        output: &mut Tensor,
        needs: &Selection,
    ) -> Result<AnySaved> {
        Ok(Box::new(self.0.forward_and_save(stream, inputs, output, needs)?))
    }

    fn check_backward(
        &self,
        stream: &Stream,
        saved: &AnySaved,
        output_gradient: Option<&Tensor>,
        sinks: &mut Sinks<'_>,
    ) -> Result<()> {
        let saved: &dyn Any = &**saved;
        let saved = saved.downcast_ref::<F::Saved>().ok_or_else(not_its_own)?;
        self.0.check_backward(stream, saved, output_gradient, sinks)
    }

    fn backward(
        &self,
        stream: &Stream,
        saved: AnySaved,
        output_gradient: &Tensor,
        sinks: Sinks<'_>,
    ) -> Result<Gradients> {
        let saved: Box<dyn Any> = saved;
        let saved = saved.downcast::<F::Saved>().map_err(|_| not_its_own())?;
        self.0.backward(stream, *saved, output_gradient, sinks)
    }
}

fn not_its_own() -> Error {
    Error::invalid(
        "a fused forward kept something else than this operation's Saved; a stage that does so must \
         fuse both passes",
    )
}
