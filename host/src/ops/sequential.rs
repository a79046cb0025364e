//! A pipeline of operations.

use std::mem::take;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::arguments::{BackwardArguments, ForwardArguments, OpForward, OpId};
use super::checks;
use super::function::{AnySaved, Function, Gradient, Gradients, Sinks};
use super::fusion::{FusionRule, Passes};
use super::names::{SPLITS, X};
use super::operation::{Erased, Operation};
use super::plan::{CallSignature, PlanCache, Planned, Runner, SequencePlan, Signature};
use super::planner::Planner;
use super::value::{Inputs, Value};
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::plan::Target;
use crate::splits::Splits;
use crate::tensor::{Tensor, TensorSpec};

/// Operations, each applied to the output of the one before.
///
/// A call is planned before anything runs: shapes are checked from operation to operation, and an
/// argument that its operation cannot take is refused. Calls with one signature (shapes, types, which
/// arguments are given, device) share a plan.
///
/// See [the module](super#) for an example.
#[derive(Debug)]
pub struct Sequential {
    id: u64,
    operations: Vec<Arc<dyn Operation>>,
    rules: Vec<Arc<dyn FusionRule>>,
    plans: PlanCache,
}

/// What forward keeps for backward, of every operation.
///
/// What an operation keeps is released as soon as its backward has run, before that of the operation
/// before it.
#[derive(Debug)]
#[must_use = "backward needs it; drop it explicitly where no gradient is wanted"]
pub struct SavedSequence {
    sequence: u64,
    planned: Arc<Planned>,
    saved: Vec<Option<AnySaved>>,
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
    /// An empty pipeline.
    #[expect(clippy::new_without_default, reason = "every pipeline has a number of its own")]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { id, operations: Vec::new(), rules: Vec::new(), plans: PlanCache::default() }
    }

    /// Adds an operation at the end. Its id is what arguments are keyed by.
    pub fn push<F: Function + 'static>(&mut self, function: F) -> OpId {
        self.plans.clear();
        self.operations.push(Arc::new(Erased(function)));
        OpId { sequence: self.id, index: self.operations.len() - 1 }
    }

    /// Adds a rule. Of several rules that could fuse an operation, the one that was added first does.
    pub fn add_rule<R: FusionRule + 'static>(&mut self, rule: R) {
        self.plans.clear();
        self.rules.push(Arc::new(rule));
    }

    /// What a call gives and which stages run, from shapes alone: nothing is allocated or launched,
    /// and no device is needed. `captured` plans for a graph that records the call.
    ///
    /// ```
    /// use grouped_linear::ops::{ForwardArguments, Sequential};
    /// use grouped_linear::plan::Target;
    /// # use grouped_linear::*;
    /// # let stream = Device::cpu().stream()?;
    /// # let config = Config { groups: 2, in_features: 8, out_features: 4, dtype: DType::F32 };
    /// # let weights = GroupedTensor::packed(Tensor::zeros(&stream, &[2, 4, 8], DType::F32)?)?;
    /// # let layer = GroupedLinear::new(&stream, config, weights, None)?;
    /// let mut pipeline = Sequential::new();
    /// let op = pipeline.push(layer);
    /// let x = TensorSpec { shape: vec![10, 8], dtype: DType::F32 };
    /// let splits = Splits::host(&[4, 6])?;
    /// let arguments = ForwardArguments::new().splits(op, &splits);
    /// let plan = pipeline.plan(Target::CPU, &x, &arguments, false)?;
    /// assert_eq!(plan.specs[0].output.shape, [10, 4]);
    ///
    /// // The CPU records no graphs.
    /// let error = pipeline.plan(Target::CPU, &x, &arguments, true).unwrap_err();
    /// assert!(error.is_unsupported());
    /// # Ok::<(), grouped_linear::Error>(())
    /// ```
    ///
    /// # Errors
    /// An operation cannot take an argument, or what flows to it; the target cannot run it.
    pub fn plan(
        &self,
        target: Target,
        x: &TensorSpec,
        arguments: &ForwardArguments<'_>,
        captured: bool,
    ) -> Result<SequencePlan> {
        let signature = self.signature(target, captured, x.clone(), arguments)?;
        Ok(self.planned(signature)?.plan.clone())
    }

    /// Number of plans made so far; a call whose plan is kept makes none.
    pub fn plan_count(&self) -> usize {
        self.plans.made()
    }

    /// The last operation's output, and what backward needs. `x` is a handle, like all tensors; an
    /// activation that backward does not need is released as soon as the next one exists.
    ///
    /// Rows at and beyond `Σ m_g` of an activation are unspecified, so operations between layers must
    /// not let rows influence each other.
    ///
    /// # Errors
    /// As [`Sequential::plan`]; devices, splits or buffers that do not fit, or overlap: all before
    /// anything is written. Out of memory; a driver failure.
    pub fn forward(
        &self,
        stream: &Stream,
        x: Tensor,
        arguments: ForwardArguments<'_>,
    ) -> Result<(Tensor, SavedSequence)> {
        let captured = stream.queue().is_capturing();
        let target = stream.device().target();
        let planned = self.planned(self.signature(target, captured, (&x).into(), &arguments)?)?;
        let mut calls = arguments.into_calls(self.operations.len());
        checks::forward(stream, self.operations(), &planned, &x, &calls)?;

        let mut saved: Vec<Option<AnySaved>> = calls.iter().map(|_| None).collect();
        let mut flowing = x;
        for runner in &planned.forward {
            let calls = &mut calls[runner.operations.clone()];
            calls[0].inputs.insert(X, flowing.into());
            let saved = &mut saved[runner.operations.clone()];
            flowing = self.run_forward(stream, &planned, runner, calls, saved)?;
        }
        Ok((flowing, SavedSequence { sequence: self.id, planned, saved }))
    }

    /// Gradients for the gradient of the last output.
    ///
    /// # Errors
    /// `saved` is another pipeline's; no gradient was wanted; a gradient or a buffer does not fit, or
    /// buffers overlap: all before anything is written. Out of memory; a driver failure.
    pub fn backward(
        &self,
        stream: &Stream,
        saved: SavedSequence,
        output_gradient: Tensor,
        arguments: BackwardArguments<'_>,
    ) -> Result<SequenceGrads> {
        if saved.sequence != self.id {
            return Err(Error::invalid("saved is what another pipeline kept"));
        }
        let SavedSequence { planned, mut saved, .. } = saved;
        let mut sinks = arguments.into_sinks(self.id, saved.len())?;
        let runners =
            self.check_backward(stream, &planned, &saved, &output_gradient, &mut sinks)?;

        let mut gradients: Vec<Gradients> = saved.iter().map(|_| Gradients::new()).collect();
        let mut flowing = Some(output_gradient);
        for runner in &runners {
            let Some(output_gradient) = flowing.take() else {
                let error = Error::invalid("the operation after it gave no gradient of its x");
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

    fn operations(&self) -> impl Iterator<Item = &dyn Operation> {
        self.operations.iter().map(|operation| &**operation)
    }

    fn signature(
        &self,
        target: Target,
        captured: bool,
        x: TensorSpec,
        arguments: &ForwardArguments<'_>,
    ) -> Result<Signature> {
        arguments.check_ids(self.id, self.operations.len())?;
        let mut all_splits: Vec<(usize, &Splits)> = Vec::new();
        let mut calls = Vec::new();
        for index in 0..self.operations.len() {
            let (call, needs) = arguments.at(index);
            let splits_of = match call.and_then(|call| call.inputs.get(SPLITS)) {
                Some(Value::Splits(splits)) => {
                    let same = all_splits.iter().find(|(_, other)| other.same_as(splits));
                    let first = same.map_or(index, |&(first, _)| first);
                    all_splits.push((index, splits));
                    Some(first)
                }
                _ => None,
            };
            calls.push(CallSignature {
                inputs: call.map_or_else(Default::default, |call| call.inputs.specs()),
                needs: needs.clone(),
                has_output: call.is_some_and(|call| call.output.is_some()),
                splits_of,
            });
        }
        Ok(Signature { target, captured, x, calls })
    }

    fn planned(&self, signature: Signature) -> Result<Arc<Planned>> {
        self.plans.get(signature, |signature| {
            Planner::new(&self.operations, &self.rules, signature).plan()
        })
    }

    fn run_forward(
        &self,
        stream: &Stream,
        planned: &Planned,
        runner: &Runner,
        calls: &mut [OpForward<'_>],
        saved: &mut [Option<AnySaved>],
    ) -> Result<Tensor> {
        let (first, last) = (runner.operations.start, runner.operations.end - 1);
        let specs = &planned.plan.specs;
        let mut output = match calls.last_mut().and_then(|call| call.output.take()) {
            Some(output) => output.clone(),
            None => specs[last].output.empty(stream)?,
        };
        let inputs: Vec<Inputs> = calls.iter_mut().map(|call| take(&mut call.inputs)).collect();
        let Some((_, stage)) = &runner.fused else {
            let at = |error| self.at(error, first);
            let (operation, inputs) = (&self.operations[first], &inputs[0]);
            operation.forward(stream, inputs, &mut output).map_err(at)?;
            if !specs[first].gradients.is_empty() {
                let kept = operation.save(inputs, &output, &planned.needs[first]);
                saved[0] = Some(kept.map_err(at)?);
            }
            return Ok(output);
        };
        let kept =
            stage.forward(stream, &inputs, &mut output).map_err(|error| self.at(error, first))?;
        check_count(&runner.operations, kept.len())?;
        let wanted = specs[runner.operations.clone()].iter().any(|own| !own.gradients.is_empty());
        for (slot, kept) in saved.iter_mut().zip(kept) {
            *slot = wanted.then_some(kept);
        }
        Ok(output)
    }

    /// Refuses what could be refused half-way; returns what runs, which is the plan's backward without
    /// the fused stages that cannot fill these sinks.
    fn check_backward(
        &self,
        stream: &Stream,
        planned: &Planned,
        saved: &[Option<AnySaved>],
        output_gradient: &Tensor,
        sinks: &mut [Sinks<'_>],
    ) -> Result<Vec<Runner>> {
        let operations: Vec<&dyn Operation> = self.operations().take(saved.len()).collect();
        if planned.backward.is_empty() {
            return Err(Error::invalid("forward was told that nobody wants a gradient"));
        }
        if let Some(last) = planned.plan.specs.last() {
            let (shape, dtype) = (&last.output.shape, last.output.dtype);
            output_gradient.check("output_gradient", shape, dtype, stream)?;
        }
        checks::sinks(&operations, planned, sinks)?;
        let mut runners = Vec::new();
        for runner in &planned.backward {
            if let Some((_, stage)) = &runner.fused {
                let (saved, sinks) =
                    (&saved[runner.operations.clone()], &mut sinks[runner.operations.clone()]);
                let can = check_fused(stream, runner, saved, sinks);
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
                    operations[index].check_backward(stream, saved, &mut sinks[index])
                };
                check().map_err(|error| self.at(error, index))?;
                runners.push(Runner::operation(index));
            }
        }
        if stream.queue().is_capturing() {
            checks::captured(&operations, planned, &runners, sinks)?;
        }
        checks::overlaps(saved, output_gradient, sinks)?;
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
            check_count(&runner.operations, given.len())?;
            return Ok(given);
        }
        let (Some(kept), Some(sinks)) = (kept.pop(), sinks.pop()) else {
            return Err(at(nothing_kept()));
        };
        let given = self.operations[first].backward(stream, kept, output_gradient, sinks);
        Ok(vec![given.map_err(at)?])
    }

    fn at(&self, error: Error, index: usize) -> Error {
        error.in_operation(index, self.operations[index].kind())
    }
}

impl SavedSequence {
    /// The plan of the call.
    pub fn plan(&self) -> &SequencePlan {
        &self.planned.plan
    }

    /// Bytes of activations and arguments that stay allocated on its account; what several operations
    /// keep counts once.
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

/// Refuses what the stage would refuse, and buffers for what it has none of.
fn check_fused(
    stream: &Stream,
    runner: &Runner,
    saved: &[Option<AnySaved>],
    sinks: &mut [Sinks<'_>],
) -> Result<()> {
    let Some((rule, stage)) = &runner.fused else {
        return Ok(());
    };
    if sinks.iter().skip(1).any(|sinks| sinks.get(X).is_some()) {
        return Err(Error::unsupported(format!(
            "the fusion {rule} has no gradients of x between its operations; give them no buffers"
        )));
    }
    let saved: Vec<&AnySaved> =
        saved.iter().map(|saved| saved.as_ref().ok_or_else(nothing_kept)).collect::<Result<_>>()?;
    stage.check_backward(stream, &saved, sinks)
}

fn nothing_kept() -> Error {
    Error::invalid("forward kept nothing for it")
}

fn check_count(operations: &std::ops::Range<usize>, given: usize) -> Result<()> {
    if given == operations.len() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a fused stage of {} operations gave results for {given}",
        operations.len()
    )))
}
