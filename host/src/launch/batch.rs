//! Operations that are handed over together, so that one need not be over before the next begins.
//!
//! In a stream a kernel begins when the last block of the one before it has ended, and in between
//! multiprocessors stand idle. A pass of a layer has operations that do not need each other: the
//! weights are quantized while the last blocks of the tokens are, and the gradient of the weights
//! begins where that of the tokens leaves multiprocessors free.
//!
//! ```text
//! stage 0   weights   ○ amax ──▶ ○ quantize ──┬────────────▶ stage 1: all of it waits for the ends
//!                     └─────────────┐         │
//! stage 0   tokens    ● setup ──▶ ○ amax ──▶ ○ quantize
//! ```
//!
//! Operations of a *stage* read and write nothing that another of them writes; what belongs to a
//! later stage waits for all of an earlier one. Within a stage they keep their order, and one
//! begins with the last kernel of the one before: if kernels of two began at the same time, blocks
//! of both would share the multiprocessors, and a kernel that gives each of its blocks the same
//! work would have some of them wait for the other's (docs/performance.md, "Operations that
//! overlap"). *Early* launches (●) read nothing that others of them write, so they wait for
//! nothing.

use std::any::Any;

use super::{Launch, Launches};
use crate::error::Error;

/// Scratch memory of an operation begins at a multiple of this.
const ALIGNMENT: usize = 256;

/// Operations that have been prepared, and not been handed over.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    steps: Vec<Step>,
    stage: usize,
    operations: usize,
    /// Bytes of scratch memory that are taken.
    scratch: usize,
    /// What has to live until the operations have been handed over, and nobody else holds.
    kept: Vec<Box<dyn Any + Send + Sync>>,
}

/// A launch of one of several operations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub launch: Launch,
    pub stage: usize,
    pub operation: usize,
}

impl Batch {
    /// One operation, whose launches hold what they read themselves.
    pub(crate) fn of(launches: &Launches) -> Self {
        let mut batch = Self::default();
        batch.add_steps(launches);
        batch
    }

    /// Adds an operation to the stage.
    pub(crate) fn add(&mut self, launches: &Launches) {
        self.add_steps(launches);
        if let Some(held) = launches.held() {
            self.keep(held.clone());
        }
    }

    fn add_steps(&mut self, launches: &Launches) {
        let (stage, operation) = (self.stage, self.operations);
        self.steps.extend(launches.iter().map(|&launch| Step { launch, stage, operation }));
        self.operations += 1;
    }

    /// The operations to come wait for those before.
    pub(crate) fn next_stage(&mut self) {
        self.stage += 1;
    }

    /// Takes scratch memory for the next operation: where it begins, and where it ends.
    pub(crate) fn take_scratch(&mut self, bytes: usize) -> [usize; 2] {
        let start = self.scratch.next_multiple_of(ALIGNMENT);
        self.scratch = start + bytes;
        [start, self.scratch]
    }

    /// Holds memory until the operations have been handed over.
    pub(crate) fn keep(&mut self, memory: impl Any + Send + Sync) {
        self.kept.push(Box::new(memory));
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Whether it has the steps of one operation at most.
    pub(crate) fn is_one(&self) -> bool {
        let operation = |step: &Step| step.operation;
        self.steps.first().map(operation) == self.steps.last().map(operation)
    }
}

/// Operations are being collected where `take` finds them. That ends with the guard, even if
/// whoever prepares them panics.
#[must_use]
pub(crate) struct Collecting<T: Fn() -> Option<Batch>>(T);

impl<T: Fn() -> Option<Batch>> Collecting<T> {
    pub(crate) fn new(take: T) -> Self {
        Self(take)
    }

    /// Ends it, and gives what was collected.
    pub(crate) fn end(self) -> Batch {
        (self.0)().unwrap_or_default()
    }
}

impl<T: Fn() -> Option<Batch>> Drop for Collecting<T> {
    fn drop(&mut self) {
        drop((self.0)());
    }
}

/// Why operations are not collected while others are: neither would know the other's stages.
pub(crate) fn nested() -> Error {
    Error::invalid("operations of this stream are being handed over together already")
}

/// Of each step, the places of those that it waits for, all of them before it; none twice.
pub(crate) fn dependencies(steps: &[Step]) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = Vec::with_capacity(steps.len());
    // Where the operations of the stage before end, and those of this one so far, and whether one
    // of these waits for all of those.
    let (mut before, mut ends, mut waits) = (Vec::new(), Vec::new(), false);
    let mut stage = 0;
    // What the last launch of the operation before waits for.
    let mut in_turn: Vec<usize> = Vec::new();
    for operation in steps.chunk_by(|one, next| one.operation == next.operation) {
        let own = operation.first().map_or(stage, |step| step.stage);
        if own != stage {
            stage = own;
            if waits {
                before.clear();
            }
            before.append(&mut ends);
            in_turn.clear();
            waits = false;
        }
        let mut begun = false;
        for (index, step) in operation.iter().enumerate() {
            let mut after = Vec::new();
            if index > 0 {
                after.push(all.len() - 1);
            }
            if !step.launch.early && !begun {
                begun = true;
                after.extend(if in_turn.is_empty() { &before } else { &in_turn });
            }
            all.push(after);
        }
        waits |= begun;
        in_turn = all.last().cloned().unwrap_or_default();
        ends.push(all.len() - 1);
    }
    all
}

/// An order in which steps can be carried out one by one, as far from their own as dependencies
/// allow: whoever waits for less than it needs comes too early.
#[cfg(any(test, feature = "emulator"))]
pub(crate) fn latest_first(steps: &[Step]) -> Vec<usize> {
    let dependencies = dependencies(steps);
    let mut order: Vec<usize> = Vec::with_capacity(steps.len());
    while order.len() < steps.len() {
        let done = |place: &usize| order.contains(place);
        let ready = |place: &usize| !done(place) && dependencies[*place].iter().all(done);
        let Some(next) = (0..steps.len()).rev().find(ready) else { break };
        order.push(next);
    }
    order
}

#[cfg(test)]
mod tests {
    use grouped_linear_kernels::variants::{Role, kernel};

    use super::*;
    use crate::error::Result;

    /// A batch of stages of operations of launches; `e` is an early one.
    fn batch(stages: &[&[&str]]) -> Result<Batch> {
        let setup = kernel(Role::PointerSetup).expect("the table has pointer_setup");
        let mut batch = Batch::default();
        for (index, stage) in stages.iter().enumerate() {
            if index > 0 {
                batch.next_stage();
            }
            for operation in *stage {
                let mut launches = Launches::default();
                for launch in operation.chars() {
                    launches.push(setup, [1, 1], &vec![0; setup.args_bytes])?;
                    if launch == 'e' {
                        launches.last_is_early();
                    }
                }
                batch.add(&launches);
            }
        }
        Ok(batch)
    }

    fn check(stages: &[&[&str]], waits: &[&[usize]], order: &[usize]) -> Result<()> {
        let batch = batch(stages)?;
        assert_eq!(dependencies(batch.steps()), waits, "{stages:?}");
        assert_eq!(latest_first(batch.steps()), order, "{stages:?}");
        Ok(())
    }

    #[test]
    fn an_operation_begins_with_the_last_launch_of_the_one_before() -> Result<()> {
        check(&[&["l"]], &[&[]], &[0])?;
        check(&[&["ell"]], &[&[], &[0], &[1]], &[0, 1, 2])?;
        check(&[&["ll", "ll"]], &[&[], &[0], &[0], &[2]], &[0, 2, 3, 1])?;
        check(&[&["l", "ll"]], &[&[], &[], &[1]], &[1, 2, 0])?;
        check(&[&["ll", "l", "l"]], &[&[], &[0], &[0], &[0]], &[0, 3, 2, 1])
    }

    #[test]
    fn early_launches_wait_for_nothing() -> Result<()> {
        check(&[&["ll", "ell"]], &[&[], &[0], &[], &[2, 0], &[3]], &[2, 0, 3, 4, 1])?;
        check(&[&["el", "el"]], &[&[], &[0], &[], &[2, 0]], &[2, 0, 3, 1])?;
        check(&[&["e"], &["el"]], &[&[], &[], &[1, 0]], &[1, 0, 2])
    }

    #[test]
    fn a_stage_waits_for_the_ends_of_the_one_before() -> Result<()> {
        check(&[&["ll", "l"], &["ll"]], &[&[], &[0], &[0], &[1, 2], &[3]], &[0, 2, 1, 3, 4])?;
        check(&[&["l"], &["el", "l"]], &[&[], &[], &[1, 0], &[1, 0]], &[1, 0, 3, 2])?;
        // A stage without operations, and one whose operations had no work.
        check(&[&["l"], &[], &["l"]], &[&[], &[0]], &[0, 1])?;
        check(&[&[], &["l", ""], &["", "l"]], &[&[], &[0]], &[0, 1])?;
        check(&[&["l"], &["l"], &["l"]], &[&[], &[0], &[1]], &[0, 1, 2])?;
        check(&[&["l"], &["e"], &["l"]], &[&[], &[], &[0, 1]], &[1, 0, 2])?;
        check(&[&["l"], &["e", "l"], &["l"]], &[&[], &[], &[0], &[1, 2]], &[1, 0, 2, 3])
    }

    #[test]
    fn operations_have_scratch_memory_of_their_own() {
        let mut batch = Batch::default();
        let taken = [100, 0, 256, 1].map(|bytes| batch.take_scratch(bytes));
        assert_eq!(taken, [[0, 100], [256, 256], [256, 512], [512, 513]]);
    }
}
