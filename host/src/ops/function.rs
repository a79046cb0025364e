//! One differentiable operation, as an autodiff engine sees it.

use std::any::Any;
use std::fmt::Debug;

use super::named::Named;
use super::value::{InputSpecs, Inputs};
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::grouped_linear::PendingWgrad;
use crate::plan::{Execution, Target};
use crate::tensor::{GroupedTensor, Tensor, TensorSpec};

/// A differentiable operation with one output.
///
/// An engine asks [`infer`](Function::infer) for the output's shape, lets
/// [`forward_and_save`](Function::forward_and_save) fill it and keep what the wanted gradients
/// need, and hands that to [`backward`](Function::backward). Inputs and gradients have names. A
/// gradient is that of the input of the same name, or of a parameter that the function holds.
///
/// ```
/// use grouped_linear::ops::{Function, Inputs, Selection, Sinks, names};
/// # use grouped_linear::*;
/// # let stream = Device::cpu().stream()?;
/// # let config = Config { groups: 2, in_features: 8, out_features: 4, dtype: DType::F32 };
/// # let weights = GroupedTensor::packed(Tensor::zeros(&stream, &[2, 4, 8], DType::F32)?)?;
/// # let layer = GroupedLinear::new(&stream, config, weights, None)?;
/// let x = Tensor::zeros(&stream, &[10, 8], DType::F32)?;
/// let inputs = Inputs::new()
///     .with(names::X, x.into())
///     .with(names::SPLITS, Splits::host(&[4, 6])?.into());
/// let specs = Function::infer(&layer, &inputs.specs(), &Selection::All)?;
/// assert_eq!(specs.output.shape, [10, 4]);
///
/// let mut y = specs.output.empty(&stream)?;
/// let saved = layer.forward_and_save(&stream, &inputs, &mut y, &Selection::All)?;
/// let gradients = Function::backward(&layer, &stream, saved, &y, Sinks::new())?;
/// assert_eq!(gradients.names().collect::<Vec<_>>(), [names::WEIGHTS, names::X]);
/// # Ok::<(), grouped_linear::Error>(())
/// ```
pub trait Function: Debug + Send + Sync {
    /// What is kept between forward and backward.
    type Saved: SavedState;

    /// A word for messages and plans.
    fn kind(&self) -> &'static str;

    /// Names of the inputs that it can take.
    fn inputs(&self) -> &'static [&'static str];

    /// Names of the gradients that it can give.
    fn gradients(&self) -> &'static [&'static str];

    /// The parameters that it holds, by the names of their gradients. A pipeline writes no gradient
    /// over them, and lets those of a parameter that several operations hold add up in one buffer.
    fn parameters(&self) -> Named<&GroupedTensor> {
        Named::new()
    }

    /// Shapes and types of all that a call gives. Computes and allocates nothing.
    ///
    /// # Errors
    /// Inputs that do not fit, by number, kind, shape or type.
    fn infer(&self, inputs: &InputSpecs, needs: &Selection) -> Result<FunctionSpecs>;

    /// Why a call cannot be executed so on `target`; `None` if it can.
    fn unsupported_reason(
        &self,
        target: Target,
        inputs: &InputSpecs,
        needs: &Selection,
        execution: Execution,
    ) -> Option<String>;

    /// Refuses what [`forward`](Function::forward) would refuse of memory, before any of it is
    /// written: a pipeline asks all its operations before the first one runs. `specs` are those of
    /// all inputs, and `needs` says which gradients are wanted; of `inputs` and `output` there are
    /// those that exist already. By default nothing is refused.
    ///
    /// # Errors
    /// A tensor lies on another device, or where it can be neither read nor written.
    fn check_forward(
        &self,
        stream: &Stream,
        specs: &InputSpecs,
        inputs: &Inputs,
        output: Option<&Tensor>,
        needs: &Selection,
    ) -> Result<()> {
        let _ = (stream, specs, inputs, output, needs);
        Ok(())
    }

    /// Computes the output, whose shape and type are those that [`infer`](Function::infer) gives,
    /// and keeps nothing.
    ///
    /// # Errors
    /// As [`check_forward`](Function::check_forward); inputs or output do not fit, or overlap; a
    /// driver failure.
    fn forward(&self, stream: &Stream, inputs: &Inputs, output: &mut Tensor) -> Result<()>;

    /// Keeps what the wanted gradients need of a [`forward`](Function::forward) with these inputs:
    /// handles, no copies.
    ///
    /// # Errors
    /// Inputs do not fit; what is kept is made by forward, so that only
    /// [`forward_and_save`](Function::forward_and_save) has it.
    fn save(&self, inputs: &Inputs, output: &Tensor, needs: &Selection) -> Result<Self::Saved>;

    /// [`forward`](Function::forward), then [`save`](Function::save). A function whose forward
    /// makes what backward needs, as a layer that quantizes does, has a way of its own, and one
    /// that wraps it must hand this on: behind its forward it is too late to save.
    ///
    /// # Errors
    /// Those of both.
    fn forward_and_save(
        &self,
        stream: &Stream,
        inputs: &Inputs,
        output: &mut Tensor,
        needs: &Selection,
    ) -> Result<Self::Saved> {
        self.forward(stream, inputs, output)?;
        self.save(inputs, output, needs)
    }

    /// Refuses what [`backward`](Function::backward) would refuse, before anything is written.
    /// `output_gradient` is `None` where it will be a new tensor; where it will be computed into a
    /// buffer, it is that buffer.
    ///
    /// # Errors
    /// A sink does not fit, or overlaps what backward reads; the gradient of the output does not
    /// fit.
    fn check_backward(
        &self,
        stream: &Stream,
        saved: &Self::Saved,
        output_gradient: Option<&Tensor>,
        sinks: &mut Sinks<'_>,
    ) -> Result<()>;

    /// The gradients that were wanted, for the gradient of the output. Those without a sink go into
    /// new tensors.
    ///
    /// # Errors
    /// As [`check_backward`](Function::check_backward); out of memory; a driver failure.
    fn backward(
        &self,
        stream: &Stream,
        saved: Self::Saved,
        output_gradient: &Tensor,
        sinks: Sinks<'_>,
    ) -> Result<Gradients>;
}

/// What an engine may ask of what is kept, whatever it is.
pub trait SavedState: Any + Debug + Send {
    /// The tensors that stay allocated on its account.
    fn kept(&self) -> Kept<'_>;
}

/// A [`SavedState`] of some function.
pub type AnySaved = Box<dyn SavedState>;

/// Tensors that a [`SavedState`] keeps.
#[derive(Clone, Debug, Default)]
pub struct Kept<'a> {
    /// Live as long as this handle.
    pub activations: Vec<&'a Tensor>,
    /// The function holds them as well, or what it was given.
    pub parameters: Vec<&'a Tensor>,
}

/// Nothing is kept.
impl SavedState for () {
    fn kept(&self) -> Kept<'_> {
        Kept::default()
    }
}

/// Which gradients are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Selection {
    /// All that there can be.
    #[default]
    All,
    /// Those of these names.
    Only(Vec<&'static str>),
}

impl Selection {
    /// None: for inference, or for a function whose parameters are frozen.
    pub fn none() -> Self {
        Self::Only(Vec::new())
    }

    /// Whether it contains `name`.
    pub fn wants(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(&name),
        }
    }
}

/// What a call of a function gives, without memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionSpecs {
    /// The output.
    pub output: TensorSpec,
    /// Inputs and others that are kept for backward; of parameters, what is made of them for the
    /// call.
    pub saved: Named<TensorSpec>,
    /// The gradients, in new tensors; without those that nobody wants.
    pub gradients: Named<TensorSpec>,
}

/// Where one gradient goes.
#[derive(Debug, Default)]
#[non_exhaustive]
pub enum Sink<'a> {
    /// A new tensor.
    #[default]
    New,
    /// The caller's tensor, for the gradient of a tensor.
    Into(&'a mut Tensor),
    /// The caller's buffer, for the gradient of a parameter; what it held is gone.
    Overwrite(&'a mut GroupedTensor),
    /// The caller's buffer, for the gradient of a parameter; added to.
    Accumulate(&'a mut GroupedTensor),
    /// Computed later: [`Gradient::Pending`] is given. Its buffer, given then, is held against what
    /// its own operation reads and has, not against what others have; and what it reads may lie in
    /// [`RecipeBuffers`](crate::RecipeBuffers), so it runs before the next forward in these, behind
    /// which it is refused.
    Later,
    /// Nowhere, even though it was wanted.
    Skip,
}

impl Sink<'_> {
    /// The same sink for a shorter time.
    pub fn reborrow(&mut self) -> Sink<'_> {
        match self {
            Self::New => Sink::New,
            Self::Into(tensor) => Sink::Into(tensor),
            Self::Overwrite(buffer) => Sink::Overwrite(buffer),
            Self::Accumulate(buffer) => Sink::Accumulate(buffer),
            Self::Later => Sink::Later,
            Self::Skip => Sink::Skip,
        }
    }
}

/// Where gradients go, by name.
pub type Sinks<'a> = Named<Sink<'a>>;

/// One gradient. Where the caller gave a buffer, a handle to it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Gradient {
    /// Of a tensor.
    Tensor(Tensor),
    /// Of a parameter.
    Grouped(GroupedTensor),
    /// Of a parameter, still to be computed.
    Pending(PendingWgrad),
}

impl Gradient {
    /// The gradient of a tensor.
    pub fn tensor(&self) -> Option<&Tensor> {
        match self {
            Self::Tensor(tensor) => Some(tensor),
            Self::Grouped(_) | Self::Pending(_) => None,
        }
    }

    /// The gradient of a parameter.
    pub fn grouped(&self) -> Option<&GroupedTensor> {
        match self {
            Self::Grouped(grouped) => Some(grouped),
            Self::Tensor(_) | Self::Pending(_) => None,
        }
    }
}

/// Gradients by name.
pub type Gradients = Named<Gradient>;

/// Refuses names that `known` lacks.
pub(super) fn check_names(
    what: &str,
    given: impl Iterator<Item = &'static str>,
    known: &[&'static str],
) -> Result<()> {
    for name in given {
        if !known.contains(&name) {
            let known = known.join(", ");
            return Err(Error::invalid(format!("there is no {what} {name}; there are {known}")));
        }
    }
    Ok(())
}
