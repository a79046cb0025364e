//! Executing kernels: warps, blocks, clusters and the scheduler of a grid.

pub(crate) mod block;
pub(crate) mod grid;
pub(crate) mod registers;
pub(crate) mod report;
pub(crate) mod warp;

use block::{Block, Cluster};
use grid::GridState;
use report::{Fault, ReportKind};
use warp::{Frame, Token, Warp};

/// What an instruction's execution sees and changes.
pub(crate) struct Context<'a> {
    /// What all blocks share.
    pub(crate) grid: &'a mut GridState,
    /// The blocks of the cluster. The running warp is not in its block while it runs.
    pub(crate) cluster: &'a mut Cluster,
    /// The rank of the running warp's block.
    pub(crate) rank: usize,
    /// The running warp.
    pub(crate) warp: &'a mut Warp,
    /// The invocation the instruction belongs to.
    pub(crate) frame: &'a mut Frame,
    /// The lanes that execute the instruction; never zero.
    pub(crate) mask: u32,
    /// What the same instruction left when it was executed before and had to wait.
    pub(crate) token: Option<Token>,
    /// The line of the instruction, which accesses are recorded with.
    pub(crate) line: u32,
}

impl Context<'_> {
    pub(crate) fn block(&mut self) -> &mut Block {
        &mut self.cluster.blocks[self.rank]
    }

    /// `.aligned`: all threads of the warp that have not exited must come together.
    pub(crate) fn is_aligned(&self) -> bool {
        self.mask == self.warp.live
    }
}

/// How a path goes on after an instruction.
#[derive(Clone, Debug)]
pub(crate) enum Flow {
    /// With the next instruction.
    Next,
    /// With the next instruction, after others have had a turn.
    Yield,
    /// The executing lanes at another instruction, the others with the next.
    Jump(u32),
    /// Lanes at several instructions: position and lanes.
    Split(Vec<(u32, u32)>),
    /// Some of the executing lanes in another function of the kernel; the others at the same
    /// instruction.
    Call(usize, u32),
    /// The executing lanes behind the call that brought them here.
    Return,
    /// The executing lanes not at all.
    Exit,
    /// With the same instruction, later; the token, if any, is given to it again.
    Wait(Wait, Option<Token>),
}

/// What a path waits for. The instruction is executed again to see whether it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Other lanes of the warp at the same instruction.
    Lanes(u32),
    /// A named barrier.
    Barrier(u32),
    /// The barrier of the cluster.
    Cluster,
    /// The end of a phase of an mbarrier.
    Mbarrier { address: u32, phase: u32 },
    /// Bulk copies of this thread.
    BulkGroups,
    /// `cp.async` of this thread.
    CopyGroups,
    /// `wgmma` groups of this warp.
    MatrixGroups,
    /// Something of tensor memory, in words: "waits for …".
    Tensor(&'static str),
    /// So many registers from the block's pool.
    Registers { wanted: u32 },
    /// A moment.
    Until(u64),
}

/// What went wrong, as the result of executing something.
pub(crate) type Outcome<T = ()> = Result<T, Fault>;

/// The access of `bytes` bytes at an address is refused unless it is aligned.
pub(crate) fn check_alignment(
    access: &'static str,
    space: &'static str,
    address: u64,
    alignment: u64,
) -> Result<(), ReportKind> {
    if address.is_multiple_of(alignment) {
        return Ok(());
    }
    Err(ReportKind::Misaligned { access, space, address, alignment })
}
