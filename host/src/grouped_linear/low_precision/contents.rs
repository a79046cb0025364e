//! Whether what a call has written into a recipe's buffers still lies there.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

/// How often a part of buffers has been written. Clones count together.
#[derive(Clone, Debug, Default)]
pub(super) struct Writes(Arc<AtomicU64>);

impl Writes {
    /// Counts one more, and gives what lies there from then on.
    pub(super) fn note(&self) -> Contents {
        let number = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        Contents { writes: self.clone(), number }
    }
}

/// What a call has written into a part of buffers.
#[derive(Clone, Debug)]
pub(in crate::grouped_linear) struct Contents {
    writes: Writes,
    number: u64,
}

impl Contents {
    /// Whether nothing has been written over them.
    fn are_there(&self) -> bool {
        self.writes.0.load(Ordering::Relaxed) == self.number
    }

    /// Refuses tokens that forward kept, and that are gone.
    pub(in crate::grouped_linear) fn check_kept(&self) -> Result<()> {
        if self.are_there() {
            return Ok(());
        }
        Err(Error::invalid(
            "the tokens that forward kept are gone, a later call has quantized others into the same \
             RecipeBuffers; run backward before the next call in these buffers, or give each forward \
             buffers of its own",
        ))
    }

    /// Refuses what a gradient of weights would read later, and that is gone.
    pub(in crate::grouped_linear) fn check_pending(&self) -> Result<()> {
        if self.are_there() {
            return Ok(());
        }
        Err(Error::invalid(
            "what this gradient of the weights reads is gone, a later call has written over it in the \
             same RecipeBuffers; run it before the next forward or backward in these buffers, or give \
             each forward buffers of its own",
        ))
    }
}
