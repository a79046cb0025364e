//! A warp: up to 32 threads, the paths they are on, and the functions they are in.

use super::Wait;
use super::registers::Registers;
use crate::race::WarpId;

/// One invocation of a function by some lanes of a warp.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    /// An index into `Kernel::functions`.
    pub(crate) function: usize,
    pub(crate) registers: Registers,
    /// Where its local variables begin in each lane's local memory.
    pub(crate) local_base: u64,
    /// Its parameters, return values and the parameter variables of its calls, lane after lane.
    pub(crate) parameters: Vec<u8>,
    /// The invocation that called it, and the position behind the call.
    pub(crate) caller: Option<(usize, u32)>,
    /// The lanes that have not returned.
    pub(crate) lanes: u32,
}

/// Lanes of a warp that are at the same instruction of the same invocation.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) mask: u32,
    /// An index into `Warp::frames`.
    pub(crate) frame: usize,
    pub(crate) position: u32,
    pub(crate) state: PathState,
    /// What the instruction at `position` left when it had to wait.
    pub(crate) token: Option<Token>,
}

/// Whether a path can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathState {
    Ready,
    /// It polls something; others go first.
    Yielded,
    Waiting(Wait),
}

/// What an instruction that waits needs to know when it is executed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// It has arrived; the barrier's generation then.
    Arrived(u64),
    /// It waits since this moment.
    Since(u64),
}

/// A warp of a block.
#[derive(Debug)]
pub(crate) struct Warp {
    /// Its index in the block.
    pub(crate) index: u32,
    /// What the race checker knows it by.
    pub(crate) id: WarpId,
    /// The lanes that have not exited.
    pub(crate) live: u32,
    /// Thread indices, by lane.
    pub(crate) threads: Box<[[u32; 3]; 32]>,
    pub(crate) paths: Vec<Path>,
    pub(crate) frames: Vec<Option<Frame>>,
    /// Local memory of each lane.
    pub(crate) local: Vec<Vec<u8>>,
    /// Unfinished matrix products and the registers they own.
    pub(crate) matrix: crate::ops::wgmma::WarpState,
    /// Unfinished transfers from and to tensor memory, and the registers they own.
    pub(crate) tensor: crate::ops::tcgen05::WarpState,
    /// Unfinished bulk copies and `cp.async` of each thread.
    pub(crate) copies: crate::ops::copy::WarpState,
    /// Registers of a thread, as `setmaxnreg` counts them.
    pub(crate) register_count: u32,
}

impl Warp {
    /// Joins a path with others that are at the same instruction and not in the middle of it.
    pub(crate) fn merge(&mut self, index: usize) -> usize {
        let (frame, position, token) = {
            let path = &self.paths[index];
            (path.frame, path.position, path.token)
        };
        let mut index = index;
        if token.is_some() {
            return index;
        }
        let mut other = 0;
        while other < self.paths.len() {
            let candidate = &self.paths[other];
            let same = candidate.frame == frame && candidate.position == position;
            if other != index && same && candidate.token.is_none() {
                let joined = self.paths.swap_remove(other);
                // `swap_remove` moved the last path into the gap.
                if index == self.paths.len() {
                    index = other;
                }
                self.paths[index].mask |= joined.mask;
                self.paths[index].state = PathState::Ready;
                continue;
            }
            other += 1;
        }
        index
    }
}
