//! A pipeline of operations.

use std::mem::take;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::arguments::{ForwardArguments, OpForward, OpId};
use super::backward::SavedSequence;
use super::checks;
use super::function::{AnySaved, Function};
use super::fusion::{FusionRule, Passes};
use super::names::{SPLITS, X};
use super::operation::{Erased, Operation};
use super::plan::{CallSignature, PlanCache, Planned, Runner, SequencePlan, Signature};
use super::planner::Planner;
use super::value::{Inputs, Value};
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::grouped_linear::LayerRecipe;
use crate::plan::{Execution, Target, Unkept};
use crate::splits::Splits;
use crate::tensor::{Tensor, TensorSpec};

/// Operations, each applied to the output of the one before.
///
/// A call is planned before anything runs: shapes are checked from operation to operation, and an
/// argument that its operation cannot take is refused. Calls with one signature (shapes, types,
/// which arguments are given, choices, what a recipe says and has memory for, device) share a plan.
///
/// See [the module](super) for an example.
#[derive(Debug)]
pub struct Sequential {
    pub(super) id: u64,
    pub(super) operations: Vec<Arc<dyn Operation>>,
    rules: Vec<Arc<dyn FusionRule>>,
    plans: PlanCache,
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

    /// Adds a rule. Of several rules that could fuse an operation, the one that was added first
    /// does.
    pub fn add_rule<R: FusionRule + 'static>(&mut self, rule: R) {
        self.plans.clear();
        self.rules.push(Arc::new(rule));
    }

    /// What a call gives and which stages run, from shapes alone: nothing is allocated or launched,
    /// and no device is needed.
    ///
    /// ```
    /// use grouped_linear::ops::{ForwardArguments, Sequential};
    /// use grouped_linear::plan::{Execution, Target};
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
    /// let plan = pipeline.plan(Target::CPU, &x, &arguments, Execution::Eager)?;
    /// assert_eq!(plan.specs[0].output.shape, [10, 4]);
    ///
    /// // The CPU records no graphs.
    /// let error = pipeline.plan(Target::CPU, &x, &arguments, Execution::Captured).unwrap_err();
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
        execution: Execution,
    ) -> Result<SequencePlan> {
        let signature = self.signature(target, execution, x.clone(), arguments)?;
        Ok(self.planned(signature)?.plan.clone())
    }

    /// Number of plans made so far; a call whose plan is kept makes none.
    pub fn plan_count(&self) -> usize {
        self.plans.made()
    }

    /// The last operation's output, and what backward needs. `x` is a handle, like all tensors; an
    /// activation that backward does not need is released as soon as the next one exists.
    ///
    /// Rows at and beyond `Σ m_g` of an activation are unspecified, so operations between layers
    /// must not let rows influence each other.
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
        let execution = match stream.queue().is_capturing() {
            true => Execution::Captured,
            false => Execution::Eager,
        };
        let target = stream.device().target();
        let planned =
            self.planned(self.signature(target, execution, (&x).into(), &arguments)?)?;
        let mut calls = arguments.into_calls(self.operations.len());
        let operations: Vec<&dyn Operation> = self.operations().collect();
        checks::forward(stream, &operations, &planned, &x, &calls)?;
        calls[0].inputs.insert(X, x.clone().into());
        checks::placement(stream, &operations, &planned, &mut calls)?;
        checks::buffers(&operations, &planned, &calls)?;
        let recipes = calls.iter().filter_map(checks::recipe_of);
        let recipes = Unkept::new(recipes.flat_map(LayerRecipe::memory));

        let mut saved: Vec<Option<AnySaved>> = calls.iter().map(|_| None).collect();
        let mut flowing = x;
        for runner in &planned.forward {
            let calls = &mut calls[runner.operations.clone()];
            calls[0].inputs.insert(X, flowing.into());
            let saved = &mut saved[runner.operations.clone()];
            flowing = self.run_forward(stream, &planned, runner, calls, saved)?;
        }
        Ok((flowing, SavedSequence { sequence: self.id, planned, saved, recipes }))
    }

    pub(super) fn operations(&self) -> impl Iterator<Item = &dyn Operation> {
        self.operations.iter().map(|operation| &**operation)
    }

    fn signature(
        &self,
        target: Target,
        execution: Execution,
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
        Ok(Signature { target, execution, x, calls })
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
        let at = |error| self.at(error, first);
        let specs = &planned.plan.specs;
        let mut output = match calls.last_mut().and_then(|call| call.output.take()) {
            Some(output) => output.clone(),
            None => specs[last].output.empty(stream).map_err(|error| self.at(error, last))?,
        };
        let inputs: Vec<Inputs> = calls.iter_mut().map(|call| take(&mut call.inputs)).collect();
        let Some((_, stage)) = &runner.fused else {
            let (operation, inputs) = (&self.operations[first], &inputs[0]);
            if specs[first].gradients.is_empty() {
                operation.forward(stream, inputs, &mut output).map_err(at)?;
            } else {
                let needs = &planned.needs[first];
                let kept = operation.forward_and_save(stream, inputs, &mut output, needs);
                saved[0] = Some(kept.map_err(at)?);
            }
            return Ok(output);
        };
        let kept = stage.forward(stream, &inputs, &mut output).map_err(at)?;
        check_count(&runner.operations, kept.len()).map_err(at)?;
        // What a stage for both passes keeps is its own affair; its operations may share it.
        let whole = stage.passes() == Passes::Both;
        let wanted = |index: usize| !specs[index].gradients.is_empty();
        let any = runner.operations.clone().any(wanted);
        for ((index, slot), kept) in runner.operations.clone().zip(saved).zip(kept) {
            *slot = (if whole { any } else { wanted(index) }).then_some(kept);
        }
        Ok(output)
    }

    /// The error, with the operation where it arose.
    pub(super) fn at(&self, error: Error, index: usize) -> Error {
        error.in_operation(index, self.operations[index].kind())
    }
}

/// Refuses a fused stage that gave too little or too much.
pub(super) fn check_count(operations: &std::ops::Range<usize>, given: usize) -> Result<()> {
    if given == operations.len() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a fused stage of {0} operations gave results for {given}; it must give {0}",
        operations.len()
    )))
}
