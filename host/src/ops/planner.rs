//! From a signature to the stages that run.

use std::ops::Range;
use std::sync::Arc;

use super::function::{FunctionSpecs, Selection, check_names};
use super::fusion::{Decision, FusionRule, Passes, SequencePass, Window, WindowOperation};
use super::names::X;
use super::operation::Operation;
use super::plan::{Planned, Refusal, Runner, SequencePlan, Signature};
use super::value::{InputSpecs, ValueSpec};
use crate::error::{Error, Result};
use crate::plan::Execution;

/// What is planned, and what has been found of it.
pub(super) struct Planner<'a> {
    operations: &'a [Arc<dyn Operation>],
    rules: &'a [Arc<dyn FusionRule>],
    signature: &'a Signature,
    inputs: Vec<InputSpecs>,
    needs: Vec<Selection>,
    specs: Vec<FunctionSpecs>,
    refusals: Vec<Refusal>,
}

impl<'a> Planner<'a> {
    pub(super) fn new(
        operations: &'a [Arc<dyn Operation>],
        rules: &'a [Arc<dyn FusionRule>],
        signature: &'a Signature,
    ) -> Self {
        let (inputs, needs, specs) = (Vec::new(), Vec::new(), Vec::new());
        Self { operations, rules, signature, inputs, needs, specs, refusals: Vec::new() }
    }

    pub(super) fn plan(mut self) -> Result<Planned> {
        if self.operations.is_empty() {
            return Err(Error::invalid("the pipeline has no operations; push some"));
        }
        for index in 0..self.operations.len() {
            self.infer(index).map_err(|error| self.at(error, index))?;
        }
        let forward = self.forward();
        self.check_outputs(&forward)?;
        let backward = self.backward(&forward);
        let stages = |runners: &[Runner]| {
            let kind = |index: usize| self.operations[index].kind();
            runners.iter().map(|runner| runner.stage(kind)).collect()
        };
        let (forward_stages, backward_stages) = (stages(&forward), stages(&backward));
        let plan = SequencePlan {
            specs: self.specs,
            forward: forward_stages,
            backward: backward_stages,
            refusals: self.refusals,
        };
        Ok(Planned { plan, inputs: self.inputs, needs: self.needs, forward, backward })
    }

    /// What operation `index` gives, after those before it.
    fn infer(&mut self, index: usize) -> Result<()> {
        let (operation, signature) = (&self.operations[index], self.signature);
        let call = &signature.calls[index];
        if call.inputs.get(X).is_some() {
            return Err(Error::invalid(
                "x flows through the pipeline and is no argument; leave it out, the first x is \
                 forward's own",
            ));
        }
        check_names("input", call.inputs.names(), operation.inputs())?;
        let x = self.specs.last().map_or(&signature.x, |before| &before.output).clone();
        let inputs = call.inputs.clone().with(X, x.into());

        let earlier = self.specs.iter().any(|specs| !specs.gradients.is_empty());
        let needs = effective_needs(&**operation, &call.needs, index, earlier)?;
        let specs = operation.infer(&inputs, &needs)?;
        if earlier && specs.gradients.get(X).is_none() {
            return Err(Error::invalid(
                "it gives no gradient of x, which an earlier operation needs; ask for no gradients \
                 of the operations before it",
            ));
        }
        let Signature { target, execution, .. } = *signature;
        if let Some(reason) = operation.unsupported_reason(target, &inputs, &needs, execution) {
            return Err(Error::unsupported(reason));
        }
        self.inputs.push(inputs);
        self.needs.push(needs);
        self.specs.push(specs);
        Ok(())
    }

    fn forward(&mut self) -> Vec<Runner> {
        let passes = &[Passes::Forward, Passes::Both];
        self.runners(0..self.operations.len(), SequencePass::Forward, passes)
    }

    /// In the order in which they run: the last operations first.
    fn backward(&mut self, forward: &[Runner]) -> Vec<Runner> {
        let Some(lowest) = self.specs.iter().position(|specs| !specs.gradients.is_empty()) else {
            return Vec::new();
        };
        let mut runners = Vec::new();
        let mut from = lowest;
        for runner in forward.iter().filter(|runner| runner.operations.end > lowest) {
            let both = runner.fused.as_ref().is_some_and(|(_, s)| s.passes() == Passes::Both);
            if both {
                let before = from..runner.operations.start.max(from);
                runners.extend(self.runners(before, SequencePass::Backward, &[Passes::Backward]));
                from = runner.operations.end;
                runners.push(runner.clone());
            }
        }
        let rest = from..self.operations.len();
        runners.extend(self.runners(rest, SequencePass::Backward, &[Passes::Backward]));
        runners.reverse();
        runners
    }

    /// The operations of `range`, those fused that a rule fuses.
    fn runners(
        &mut self,
        range: Range<usize>,
        pass: SequencePass,
        passes: &[Passes],
    ) -> Vec<Runner> {
        let mut runners = Vec::new();
        let mut index = range.start;
        while index < range.end {
            let runner = self
                .fuse(index..range.end, pass, passes)
                .unwrap_or_else(|| Runner::operation(index));
            index = runner.operations.end;
            runners.push(runner);
        }
        runners
    }

    /// The first fusion of operations at the start of `range`.
    fn fuse(
        &mut self,
        range: Range<usize>,
        pass: SequencePass,
        passes: &[Passes],
    ) -> Option<Runner> {
        for rule in self.rules {
            let length = rule.length();
            if length == 0 || length > range.len() {
                continue;
            }
            let operations = range.start..range.start + length;
            let knows_all = rule.takes_recipes() || !self.has_recipe(&operations);
            let refused = match rule.fuse(&self.window(operations.clone(), pass)) {
                Decision::Fused(_) if !knows_all => Some("its stages know no recipes".to_owned()),
                Decision::Fused(stage) if passes.contains(&stage.passes()) => {
                    match self.inner_output(&operations, pass) {
                        None => {
                            return Some(Runner { operations, fused: Some((rule.name(), stage)) });
                        }
                        refused => refused,
                    }
                }
                Decision::Refused(reason) => Some(reason),
                Decision::NotMine | Decision::Fused(_) => None,
            };
            if let Some(reason) = refused {
                let refusal = Refusal { rule: rule.name(), operations, reason };
                if !self.refusals.contains(&refusal) {
                    self.refusals.push(refusal);
                }
            }
        }
        None
    }

    /// Whether one of the operations is given a recipe.
    fn has_recipe(&self, operations: &Range<usize>) -> bool {
        let mut values = self.inputs[operations.clone()].iter().flat_map(InputSpecs::iter);
        values.any(|(_, value)| matches!(value, ValueSpec::Recipe(_)))
    }

    /// A fused forward has no output but the last operation's.
    fn inner_output(&self, operations: &Range<usize>, pass: SequencePass) -> Option<String> {
        let inner = operations.start..operations.end - 1;
        let has_output = |index: usize| self.signature.calls[index].has_output;
        let given = inner.into_iter().find(|&index| has_output(index));
        let index = given.filter(|_| pass == SequencePass::Forward)?;
        Some(format!("operation {index} was given a buffer for its output"))
    }

    fn window(&self, range: Range<usize>, pass: SequencePass) -> Window<'_> {
        let Signature { target, execution, .. } = *self.signature;
        let operation = |index: usize| WindowOperation {
            kind: self.operations[index].kind(),
            inputs: &self.inputs[index],
            needs: &self.needs[index],
            specs: &self.specs[index],
            splits_of: self.signature.calls[index].splits_of,
            function: self.operations[index].as_any(),
        };
        Window { target, execution, pass, operations: range.map(operation).collect() }
    }

    /// In a graph every output needs a buffer.
    fn check_outputs(&self, forward: &[Runner]) -> Result<()> {
        for runner in forward {
            let last = runner.operations.end - 1;
            if self.signature.execution == Execution::Captured
                && !self.signature.calls[last].has_output
            {
                let error = Error::unsupported(
                    "nothing can be allocated while a graph is recorded; give its output a buffer \
                     with ForwardArguments::output",
                );
                return Err(self.at(error, last));
            }
        }
        Ok(())
    }

    fn at(&self, error: Error, index: usize) -> Error {
        error.in_operation(index, self.operations[index].kind())
    }
}

/// The wanted gradients by name. That of a later operation's x is there for the earlier ones.
fn effective_needs(
    operation: &dyn Operation,
    wanted: &Selection,
    index: usize,
    earlier: bool,
) -> Result<Selection> {
    let x = match wanted {
        Selection::All => index == 0 || earlier,
        Selection::Only(names) => {
            check_names("gradient", names.iter().copied(), operation.gradients())?;
            earlier || names.contains(&X)
        }
    };
    let wants = |name: &&'static str| if *name == X { x } else { wanted.wants(name) };
    Ok(Selection::Only(operation.gradients().iter().copied().filter(wants).collect()))
}
