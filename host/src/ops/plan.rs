//! Which stages a pipeline runs, and the plans that it keeps.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::function::{FunctionSpecs, Selection};
use super::fusion::FusedStage;
use super::value::InputSpecs;
use crate::error::Result;
use crate::plan::{Execution, Target};
use crate::tensor::TensorSpec;

/// The most plans that a pipeline keeps; the one that was used least recently goes first.
const MOST_PLANS: usize = 32;

/// A pipeline's call, decided: what every operation gives, and which stages run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SequencePlan {
    /// Output, kept tensors and gradients of every operation.
    pub specs: Vec<FunctionSpecs>,
    /// Stages of forward, in the order in which they run.
    pub forward: Vec<Stage>,
    /// Stages of backward, in the order in which they run. Operations before the first that wants a
    /// gradient are not among them.
    pub backward: Vec<Stage>,
    /// Fusions that were refused.
    pub refusals: Vec<Refusal>,
}

/// What runs at once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Stage {
    /// Which operations.
    pub operations: Range<usize>,
    /// Whether it is an operation or stands for several.
    pub kind: StageKind,
}

/// What a [`Stage`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StageKind {
    /// One operation, of this kind.
    Operation(&'static str),
    /// What the rule of this name put in the place of several.
    Fused(&'static str),
}

/// A fusion that a rule, or the pipeline, refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Refusal {
    /// Name of the rule.
    pub rule: &'static str,
    /// Which operations.
    pub operations: Range<usize>,
    /// Why.
    pub reason: String,
}

/// All that a plan depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Signature {
    pub(super) target: Target,
    pub(super) execution: Execution,
    pub(super) x: TensorSpec,
    pub(super) calls: Vec<CallSignature>,
}

/// What a plan depends on of one operation's arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CallSignature {
    pub(super) inputs: InputSpecs,
    pub(super) needs: Selection,
    pub(super) has_output: bool,
    /// The first operation with the same splits.
    pub(super) splits_of: Option<usize>,
}

/// A plan, and what carries it out.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) plan: SequencePlan,
    /// What each operation is given, with `x`.
    pub(super) inputs: Vec<InputSpecs>,
    /// Which gradients each operation gives.
    pub(super) needs: Vec<Selection>,
    /// As the plan's stages.
    pub(super) forward: Vec<Runner>,
    /// As the plan's stages.
    pub(super) backward: Vec<Runner>,
}

/// What carries out a stage.
#[derive(Clone, Debug)]
pub(super) struct Runner {
    pub(super) operations: Range<usize>,
    /// `None` for the operation itself.
    pub(super) fused: Option<(&'static str, Arc<dyn FusedStage>)>,
}

impl Runner {
    pub(super) fn operation(index: usize) -> Self {
        Self { operations: index..index + 1, fused: None }
    }

    pub(super) fn stage(&self, kind: impl Fn(usize) -> &'static str) -> Stage {
        let kind = match &self.fused {
            None => StageKind::Operation(kind(self.operations.start)),
            Some((rule, _)) => StageKind::Fused(rule),
        };
        Stage { operations: self.operations.clone(), kind }
    }
}

/// Plans by signature.
#[derive(Debug, Default)]
pub(super) struct PlanCache(Mutex<Plans>);

#[derive(Debug, Default)]
struct Plans {
    kept: Vec<(Signature, Arc<Planned>)>, // most recently used last
    made: usize,
}

impl Plans {
    /// The plan for the signature, which is now the one used last.
    fn find(&mut self, signature: &Signature) -> Option<Arc<Planned>> {
        let at = self.kept.iter().position(|(known, _)| known == signature)?;
        let found = self.kept.remove(at);
        let planned = found.1.clone();
        self.kept.push(found);
        Some(planned)
    }
}

impl PlanCache {
    /// The plan for the signature, made now if there is none. `make` runs the program's own code,
    /// which may ask the pipeline for something, so nothing is locked meanwhile.
    pub(super) fn get(
        &self,
        signature: Signature,
        make: impl FnOnce(&Signature) -> Result<Planned>,
    ) -> Result<Arc<Planned>> {
        if let Some(planned) = self.lock().find(&signature) {
            return Ok(planned);
        }
        let planned = Arc::new(make(&signature)?);
        let mut plans = self.lock();
        // Another thread may have been faster.
        if let Some(planned) = plans.find(&signature) {
            return Ok(planned);
        }
        if plans.kept.len() == MOST_PLANS {
            plans.kept.remove(0);
        }
        plans.kept.push((signature, planned.clone()));
        plans.made += 1;
        Ok(planned)
    }

    /// How many were made.
    pub(super) fn made(&self) -> usize {
        self.lock().made
    }

    /// Forgets all, but not their number.
    pub(super) fn clear(&mut self) {
        self.lock().kept.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Plans> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    fn signature(rows: usize) -> Signature {
        let x = TensorSpec { shape: vec![rows, 8], dtype: DType::F32 };
        Signature { target: Target::CPU, execution: Execution::Eager, x, calls: Vec::new() }
    }

    fn planned() -> Planned {
        let (specs, forward, backward, refusals) = (vec![], vec![], vec![], vec![]);
        Planned {
            plan: SequencePlan { specs, forward, backward, refusals },
            inputs: Vec::new(),
            needs: Vec::new(),
            forward: Vec::new(),
            backward: Vec::new(),
        }
    }

    #[test]
    fn nothing_is_locked_while_a_plan_is_made() {
        let cache = PlanCache::default();
        let outer = cache.get(signature(1), |_| {
            assert!(cache.0.try_lock().is_ok(), "a rule that asks the pipeline would hang");
            // Meanwhile another thread makes another plan, and the same.
            cache.get(signature(2), |_| Ok(planned()))?;
            cache.get(signature(1), |_| Ok(planned()))?;
            Ok(planned())
        });
        assert_eq!(cache.made(), 2, "the plan that came too late is not kept");
        let again = cache.get(signature(1), |_| panic!("it is kept")).unwrap();
        assert!(Arc::ptr_eq(&outer.unwrap(), &again));
    }
}
