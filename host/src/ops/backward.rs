//! Backward of a pipeline.

use std::mem::take;
use std::sync::Arc;

use super::arguments::{BackwardArguments, OpId};
use super::checks;
use super::function::{AnySaved, Gradient, Gradients, Sink, Sinks};
use super::fusion::Passes;
use super::names::X;
use super::operation::Operation;
use super::plan::{Planned, Runner, SequencePlan};
use super::sequential::{Sequential, check_count};
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::plan::Unkept;
use crate::tensor::Tensor;

/// What forward keeps for backward, of every operation.
///
/// What an operation keeps is released as soon as its backward has run, before that of the
/// operation before it.
#[derive(Debug)]
#[must_use = "backward needs it; drop it explicitly where no gradient is wanted"]
pub struct SavedSequence {
    pub(super) sequence: u64,
    pub(super) planned: Arc<Planned>,
    pub(super) saved: Vec<Option<AnySaved>>,
    /// Where the memory of all recipes lies.
    pub(super) recipes: Unkept,
}

/// Gradients of a pipeline, by operation and name.
///
/// Of the gradients of `x`, only that of the first operation that backward reached: the others have
/// been consumed.
#[derive(Debug)]
pub struct SequenceGrads {
    sequence: u64,
    gradients: Vec<Gradients>,
}

impl Sequential {
    /// Gradients for the gradient of the last output.
    ///
    /// # Errors
    /// `saved` is another pipeline's; no gradient was wanted; a gradient or a buffer does not fit,
    /// or buffers overlap: all before anything is written. Out of memory; a driver failure.
    pub fn backward(
        &self,
        stream: &Stream,
        saved: SavedSequence,
        output_gradient: Tensor,
        arguments: BackwardArguments<'_>,
    ) -> Result<SequenceGrads> {
        if saved.sequence != self.id {
            return Err(Error::invalid(
                "saved is what another pipeline kept; pass it to the pipeline whose forward gave it",
            ));
        }
        let SavedSequence { planned, mut saved, recipes, .. } = saved;
        let mut sinks = arguments.into_sinks(self.id, saved.len())?;
        let runners = self.check_backward(
            stream,
            &planned,
            (&saved, &recipes),
            &output_gradient,
            &mut sinks,
        )?;

        let mut gradients: Vec<Gradients> = saved.iter().map(|_| Gradients::new()).collect();
        let mut flowing = Some(output_gradient);
        for runner in &runners {
            let Some(output_gradient) = flowing.take() else {
                let error = Error::invalid(
                    "the operation after it gave no gradient of its x; its backward must give what \
                     its infer has announced",
                );
                return Err(self.at(error, runner.operations.start));
            };
            let saved = &mut saved[runner.operations.clone()];
            let sinks = &mut sinks[runner.operations.clone()];
            let given = self.run_backward(stream, runner, saved, sinks, &output_gradient)?;
            drop(output_gradient);
            for (index, given) in runner.operations.clone().zip(given) {
                gradients[index] = given;
            }
            let is_last = runners.last().is_some_and(|last| last.operations == runner.operations);
            if !is_last {
                flowing = match gradients[runner.operations.start].take(X) {
                    Some(Gradient::Tensor(dx)) => Some(dx),
                    _ => None,
                };
            }
        }
        Ok(SequenceGrads { sequence: self.id, gradients })
    }

    /// Refuses what could be refused half-way; returns what runs, which is the plan's backward
    /// without the fused stages that cannot fill these sinks.
    fn check_backward(
        &self,
        stream: &Stream,
        planned: &Planned,
        (saved, recipes): (&[Option<AnySaved>], &Unkept),
        output_gradient: &Tensor,
        sinks: &mut [Sinks<'_>],
    ) -> Result<Vec<Runner>> {
        let operations: Vec<&dyn Operation> = self.operations().take(saved.len()).collect();
        if planned.backward.is_empty() {
            return Err(Error::invalid(
                "forward was told that nobody wants a gradient; ask for some with \
                 ForwardArguments::needs, or run no backward",
            ));
        }
        if let Some(last) = planned.plan.specs.last() {
            let (shape, dtype) = (&last.output.shape, last.output.dtype);
            output_gradient.check("output_gradient", shape, dtype, stream)?;
        }
        checks::sinks(stream, &operations, planned, sinks)?;
        let mut runners = Vec::new();
        let output_gradients = output_gradients(output_gradient, sinks);
        for runner in &planned.backward {
            if let Some((_, stage)) = &runner.fused {
                let (saved, sinks) =
                    (&saved[runner.operations.clone()], &mut sinks[runner.operations.clone()]);
                let output_gradient = output_gradients[runner.operations.end - 1].as_ref();
                let can = check_fused(stream, runner, saved, output_gradient, sinks);
                match can {
                    Err(error) if error.is_unsupported() && stage.passes() == Passes::Backward => {}
                    Err(error) => return Err(self.at(error, runner.operations.start)),
                    Ok(()) => {
                        runners.push(runner.clone());
                        continue;
                    }
                }
            }
            for index in runner.operations.clone().rev() {
                let mut check = || {
                    let saved = saved[index].as_ref().ok_or_else(nothing_kept)?;
                    let output_gradient = output_gradients[index].as_ref();
                    let sinks = &mut sinks[index];
                    operations[index].check_backward(stream, saved, output_gradient, sinks)
                };
                check().map_err(|error| self.at(error, index))?;
                runners.push(Runner::operation(index));
            }
        }
        if stream.queue().is_capturing() {
            checks::captured(&operations, planned, &runners, sinks)?;
        }
        checks::overlaps(&operations, saved, recipes, output_gradient, sinks)?;
        Ok(runners)
    }

    fn run_backward(
        &self,
        stream: &Stream,
        runner: &Runner,
        saved: &mut [Option<AnySaved>],
        sinks: &mut [Sinks<'_>],
        output_gradient: &Tensor,
    ) -> Result<Vec<Gradients>> {
        let first = runner.operations.start;
        let at = |error| self.at(error, first);
        let mut kept = Vec::new();
        for saved in saved {
            kept.push(saved.take().ok_or_else(nothing_kept).map_err(at)?);
        }
        let mut sinks: Vec<Sinks<'_>> = sinks.iter_mut().map(take).collect();
        if let Some((_, stage)) = &runner.fused {
            let given = stage.backward(stream, kept, output_gradient, sinks).map_err(at)?;
            check_count(&runner.operations, given.len()).map_err(at)?;
            return Ok(given);
        }
        let (Some(kept), Some(sinks)) = (kept.pop(), sinks.pop()) else {
            return Err(at(nothing_kept()));
        };
        let given = self.operations[first].backward(stream, kept, output_gradient, sinks);
        Ok(vec![given.map_err(at)?])
    }
}

impl SavedSequence {
    /// The plan of the call.
    pub fn plan(&self) -> &SequencePlan {
        &self.planned.plan
    }

    /// Bytes of activations and arguments that stay allocated on its account; what several
    /// operations keep counts once.
    pub fn activation_bytes(&self) -> usize {
        let mut distinct: Vec<&Tensor> = Vec::new();
        for tensor in self.saved.iter().flatten().flat_map(|saved| saved.kept().activations) {
            if !distinct.iter().any(|other| other.same_as(tensor)) {
                distinct.push(tensor);
            }
        }
        distinct.into_iter().map(Tensor::byte_len).sum()
    }
}

impl SequenceGrads {
    /// A gradient of an operation.
    pub fn get(&self, op: OpId, name: &str) -> Option<&Gradient> {
        self.gradients.get(op.index).filter(|_| op.sequence == self.sequence)?.get(name)
    }

    /// Takes a gradient of an operation.
    pub fn take(&mut self, op: OpId, name: &str) -> Option<Gradient> {
        self.gradients.get_mut(op.index).filter(|_| op.sequence == self.sequence)?.take(name)
    }
}

/// The gradient of every operation's output, where it exists: the last one's, and buffers that
/// others will be computed into.
fn output_gradients(last: &Tensor, sinks: &[Sinks<'_>]) -> Vec<Option<Tensor>> {
    let buffer = |sinks: &Sinks<'_>| match sinks.get(X) {
        Some(Sink::Into(tensor)) => Some(Tensor::clone(tensor)),
        _ => None,
    };
    let inner = sinks.iter().skip(1).map(buffer);
    inner.chain([Some(last.clone())]).collect()
}

/// Refuses what the stage would refuse, and buffers for what it has none of.
fn check_fused(
    stream: &Stream,
    runner: &Runner,
    saved: &[Option<AnySaved>],
    output_gradient: Option<&Tensor>,
    sinks: &mut [Sinks<'_>],
) -> Result<()> {
    let Some((rule, stage)) = &runner.fused else {
        return Ok(());
    };
    let is_buffer = |sinks: &Sinks<'_>| !matches!(sinks.get(X), None | Some(Sink::New));
    if sinks.iter().skip(1).any(is_buffer) {
        return Err(Error::unsupported(format!(
            "the fusion {rule} has no gradients of x between its operations; give them no buffers"
        )));
    }
    let saved: Vec<&AnySaved> =
        saved.iter().map(|saved| saved.as_ref().ok_or_else(nothing_kept)).collect::<Result<_>>()?;
    stage.check_backward(stream, &saved, output_gradient, sinks)
}

fn nothing_kept() -> Error {
    Error::invalid(
        "forward kept nothing for it; ask for its gradients with ForwardArguments::needs",
    )
}
