//! One stage in the place of several operations.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use super::function::{AnySaved, FunctionSpecs, Gradients, Selection, Sinks};
use super::value::{InputSpecs, Inputs};
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::plan::{Execution, Target};
use crate::tensor::Tensor;

/// Looks at consecutive operations while a pipeline is planned, and may replace them by one stage.
///
/// The plan is kept, so a rule is asked once for a signature; it must decide from the window alone.
/// It refuses inputs that its stage does not know.
pub trait FusionRule: Debug + Send + Sync {
    /// A word for plans.
    fn name(&self) -> &'static str;

    /// Number of operations that it replaces.
    fn length(&self) -> usize;

    /// Whether its stages compute in the recipes that operations are given. Where they do not,
    /// which is the default, no operation with a recipe is fused: the plan has a refusal.
    fn takes_recipes(&self) -> bool {
        false
    }

    /// What becomes of these operations.
    fn fuse(&self, window: &Window<'_>) -> Decision;
}

/// What a rule says of a window.
#[derive(Clone, Debug)]
pub enum Decision {
    /// These are not the operations that it is about.
    NotMine,
    /// They are, but something stands in the way; the plan keeps the reason.
    Refused(String),
    /// This stage runs in their place.
    Fused(Arc<dyn FusedStage>),
}

/// Consecutive operations that a rule may replace.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Window<'a> {
    /// What will run them.
    pub target: Target,
    /// Whether they are recorded in a graph, where nothing can be allocated.
    pub execution: Execution,
    /// Which pass is planned.
    pub pass: SequencePass,
    /// The operations, in forward order.
    pub operations: Vec<WindowOperation<'a>>,
}

/// A pass through a sequence of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SequencePass {
    /// Forward.
    Forward,
    /// Backward.
    Backward,
}

/// One operation of a [`Window`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WindowOperation<'a> {
    /// Its kind.
    pub kind: &'static str,
    /// What it is given, with `x`.
    pub inputs: &'a InputSpecs,
    /// Which of its gradients are wanted.
    pub needs: &'a Selection,
    /// What it gives.
    pub specs: &'a FunctionSpecs,
    /// The first operation of the pipeline that is given the same splits; `None` without splits.
    pub splits_of: Option<usize>,
    pub(super) function: &'a dyn Any,
}

impl<'a> WindowOperation<'a> {
    /// The operation, if it is an `F`.
    pub fn downcast<F: 'static>(&self) -> Option<&'a F> {
        self.function.downcast_ref()
    }
}

/// Which passes a stage replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Passes {
    /// Forward. What it keeps is what the operations' own backward takes: each operation's `Saved`.
    Forward,
    /// Backward. It is given each operation's `Saved`.
    Backward,
    /// Both. What it keeps is its own affair.
    Both,
}

/// A stage that runs in the place of several operations.
///
/// Slices and vectors have an entry per operation, in forward order.
pub trait FusedStage: Debug + Send + Sync {
    /// Which passes it replaces.
    fn passes(&self) -> Passes;

    /// As [`Function::check_forward`](super::Function::check_forward). The rule has seen the specs.
    ///
    /// # Errors
    /// A tensor lies on another device, or where it can be neither read nor written.
    fn check_forward(
        &self,
        stream: &Stream,
        inputs: &[Inputs],
        output: Option<&Tensor>,
    ) -> Result<()> {
        let _ = (stream, inputs, output);
        Ok(())
    }

    /// Computes the last operation's output. Only the first inputs have `x`. It keeps one state per
    /// operation; `Box::new(())` where there is nothing to keep.
    ///
    /// # Errors
    /// A driver failure; what else would be refused is refused by the rule or before.
    fn forward(
        &self,
        stream: &Stream,
        inputs: &[Inputs],
        output: &mut Tensor,
    ) -> Result<Vec<AnySaved>> {
        let _ = (stream, inputs, output);
        Err(Error::unsupported("this stage fuses no forward; its passes must be Backward"))
    }

    /// Refuses what backward would refuse, before anything is written. `output_gradient` is that of
    /// the last operation, as for [`Function::check_backward`](super::Function::check_backward).
    /// For the gradients of `x` between its operations there are no sinks but
    /// [`Sink::New`](super::Sink). A stage for backward alone that answers with
    /// [`Error::is_unsupported`] is replaced by the operations.
    ///
    /// # Errors
    /// A sink does not fit, or overlaps what backward reads; the stage cannot fill it.
    fn check_backward(
        &self,
        stream: &Stream,
        saved: &[&AnySaved],
        output_gradient: Option<&Tensor>,
        sinks: &mut [Sinks<'_>],
    ) -> Result<()>;

    /// The gradients of every operation. Of the gradients of `x`, only the first operation's.
    ///
    /// # Errors
    /// Out of memory; a driver failure.
    fn backward(
        &self,
        stream: &Stream,
        saved: Vec<AnySaved>,
        output_gradient: &Tensor,
        sinks: Vec<Sinks<'_>>,
    ) -> Result<Vec<Gradients>> {
        let _ = (stream, saved, output_gradient, sinks);
        Err(Error::unsupported("this stage fuses no backward; its passes must be Forward"))
    }
}
