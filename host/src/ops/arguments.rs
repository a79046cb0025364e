//! Arguments of one call of a pipeline, keyed by operation.

use super::function::{Selection, Sink, Sinks};
use super::names::{RECIPE, SPLITS};
use super::value::{Inputs, Value};
use crate::error::{Error, Result};
use crate::grouped_linear::LayerRecipe;
use crate::splits::Splits;
use crate::tensor::Tensor;

/// An operation of a pipeline; [`Sequential::push`](super::Sequential::push) gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpId {
    pub(super) sequence: u64,
    pub(super) index: usize,
}

/// Arguments of [`Sequential::forward`](super::Sequential::forward).
///
/// See [the module](super) for an example.
#[derive(Debug, Default)]
pub struct ForwardArguments<'a> {
    needs: Selection,
    calls: Vec<(OpId, OpForward<'a>)>,
}

/// What one operation is given, without `x`.
#[derive(Debug, Default)]
pub(super) struct OpForward<'a> {
    pub(super) inputs: Inputs,
    pub(super) output: Option<&'a mut Tensor>,
    pub(super) needs: Option<Selection>,
}

impl<'a> ForwardArguments<'a> {
    /// Nothing but `x`; all gradients are wanted.
    pub fn new() -> Self {
        Self::default()
    }

    /// Nothing but `x`; no gradient is wanted, so nothing is kept.
    pub fn without_gradients() -> Self {
        Self { needs: Selection::none(), calls: Vec::new() }
    }

    /// An input of the operation, by one of its names.
    #[must_use]
    pub fn input(mut self, op: OpId, name: &'static str, value: impl Into<Value>) -> Self {
        self.call(op).inputs.insert(name, value.into());
        self
    }

    /// Its rows per group.
    #[must_use]
    pub fn splits(self, op: OpId, splits: &Splits) -> Self {
        self.input(op, SPLITS, splits.clone())
    }

    /// Its recipe, a handle: it computes in low precision, forward and backward. What backward
    /// needs lives in the recipe's [`RecipeBuffers`](crate::RecipeBuffers), if there are any, so
    /// operations that keep something have buffers each.
    #[must_use]
    pub fn recipe(self, op: OpId, recipe: &LayerRecipe) -> Self {
        self.input(op, RECIPE, recipe.clone())
    }

    /// The caller's tensor for its output, instead of a new one.
    #[must_use]
    pub fn output(mut self, op: OpId, output: &'a mut Tensor) -> Self {
        self.call(op).output = Some(output);
        self
    }

    /// Which of its gradients are wanted. The gradient of the `x` of a later operation is computed
    /// where an earlier one needs it, whatever is said here.
    #[must_use]
    pub fn needs(mut self, op: OpId, needs: Selection) -> Self {
        self.call(op).needs = Some(needs);
        self
    }

    fn call(&mut self, op: OpId) -> &mut OpForward<'a> {
        entry(&mut self.calls, op)
    }

    /// What the operation at `index` is given, and its wanted gradients.
    pub(super) fn at(&self, index: usize) -> (Option<&OpForward<'a>>, &Selection) {
        let call = self.calls.iter().find(|(op, _)| op.index == index).map(|(_, call)| call);
        (call, call.and_then(|call| call.needs.as_ref()).unwrap_or(&self.needs))
    }

    pub(super) fn check_ids(&self, sequence: u64, count: usize) -> Result<()> {
        self.calls.iter().try_for_each(|(op, _)| check_id(*op, sequence, count))
    }

    /// One per operation; the ids have been checked.
    pub(super) fn into_calls(self, count: usize) -> Vec<OpForward<'a>> {
        spread(self.calls, count)
    }
}

/// Arguments of [`Sequential::backward`](super::Sequential::backward).
#[derive(Debug, Default)]
pub struct BackwardArguments<'a>(Vec<(OpId, Sinks<'a>)>);

impl<'a> BackwardArguments<'a> {
    /// All gradients into new tensors.
    pub fn new() -> Self {
        Self::default()
    }

    /// Where a gradient of the operation goes, by one of its names.
    #[must_use]
    pub fn sink(mut self, op: OpId, name: &'static str, sink: Sink<'a>) -> Self {
        entry(&mut self.0, op).insert(name, sink);
        self
    }

    pub(super) fn into_sinks(self, sequence: u64, count: usize) -> Result<Vec<Sinks<'a>>> {
        self.0.iter().try_for_each(|(op, _)| check_id(*op, sequence, count))?;
        Ok(spread(self.0, count))
    }
}

fn entry<T: Default>(entries: &mut Vec<(OpId, T)>, op: OpId) -> &mut T {
    let at = entries.iter().position(|(other, _)| *other == op).unwrap_or_else(|| {
        entries.push((op, T::default()));
        entries.len() - 1
    });
    &mut entries[at].1
}

fn spread<T: Default>(entries: Vec<(OpId, T)>, count: usize) -> Vec<T> {
    let mut all: Vec<T> = (0..count).map(|_| T::default()).collect();
    for (op, value) in entries {
        if let Some(slot) = all.get_mut(op.index) {
            *slot = value;
        }
    }
    all
}

fn check_id(op: OpId, sequence: u64, count: usize) -> Result<()> {
    if op.sequence != sequence {
        return Err(Error::invalid(
            "an argument is for an operation of another pipeline; use the id that push of this one \
             gave",
        ));
    }
    if op.index >= count {
        return Err(Error::invalid(format!(
            "an argument is for operation {}, which was added after forward ran; leave it out, or run \
             forward again",
            op.index
        )));
    }
    Ok(())
}
