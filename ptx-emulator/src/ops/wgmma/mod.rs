//! `wgmma`: products of a warpgroup, which run beside its threads (PTX ISA 9.7.15).
//!
//! The four warps issue a product one by one, not in step. When all four have, it is complete, and
//! at a random later moment it reads its operands and writes its accumulators. Until a
//! `wgmma.wait_group` covers it, its registers belong to it, whether it has run or not.

mod engine;
mod execute;
mod lower;
mod ownership;
mod queue;

pub(crate) use engine::{BlockState, has_due, next_due, perform_due};
pub(crate) use execute::execute;
pub(crate) use lower::lower;
pub(in crate::ops) use lower::{accumulator, element, take_aligned, take_shape};
pub(crate) use ownership::WarpState;

use std::sync::Arc;

use crate::matrix::wgmma::Wgmma;
use crate::program::operand::{Source64, SourcePredicate};

/// One of the four instructions.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// `wgmma.fence`.
    Fence,
    /// `wgmma.commit_group`.
    Commit,
    /// `wgmma.wait_group`: how many groups may remain.
    Wait(u64),
    /// `wgmma.mma_async`.
    Multiply(Arc<Multiply>),
}

/// A `wgmma.mma_async`.
#[derive(Debug)]
pub(crate) struct Multiply {
    wgmma: Wgmma,
    /// Rows of words that hold D.
    accumulators: Box<[u32]>,
    a: SourceA,
    b: Source64,
    /// Whether D is added to.
    scale: SourcePredicate,
}

/// Where A comes from.
#[derive(Clone, Copy, Debug)]
enum SourceA {
    /// Shared memory, by a descriptor.
    Shared(Source64),
    /// Rows of words.
    Registers([u32; 4]),
}

impl Operation {
    /// The name of the instruction, for messages.
    fn name(&self) -> &'static str {
        match self {
            Self::Fence => "wgmma.fence",
            Self::Commit => "wgmma.commit_group",
            Self::Wait(_) => "wgmma.wait_group",
            Self::Multiply(_) => "wgmma.mma_async",
        }
    }
}

impl Multiply {
    /// The rows of A, if it is in registers.
    fn fragment(&self) -> &[u32] {
        match &self.a {
            SourceA::Shared(_) => &[],
            SourceA::Registers(rows) => rows,
        }
    }
}
