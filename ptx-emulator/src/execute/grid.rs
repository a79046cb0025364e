//! Running a grid: which warp goes next, for how long, and when nothing can.

mod clusters;
mod launch;
mod run;
mod stall;

pub(crate) use clusters::Clusters;
pub(crate) use launch::run_grid;
pub(crate) use run::{LOCAL_BYTES, check_depth};
pub(crate) use stall::EngineFault;

use crate::arch::Arch;
use crate::machine::{Checks, Fp8Accumulation, LaunchConfig, Memory, Statistics};
use crate::race::Races;
use crate::random::Random;

/// What all blocks of a launch share.
pub(crate) struct GridState {
    pub(crate) memory: Memory,
    pub(crate) races: Races,
    pub(crate) statistics: Statistics,
    pub(crate) random: Random,
    pub(crate) checks: Checks,
    pub(crate) fp8_accumulation: Fp8Accumulation,
    pub(crate) arch: Arch,
    pub(crate) config: LaunchConfig,
    /// The parameter block.
    pub(crate) parameters: Vec<u8>,
    /// Bytes of shared memory of a block, the system's share included.
    pub(crate) shared_bytes: u32,
    /// For each function of the module its index in the kernel.
    pub(crate) function_indices: Vec<Option<usize>>,
    pub(crate) multiprocessors: u32,
    /// A count of turns, which serves as the clock.
    pub(crate) now: u64,
    /// The clusters that have not started.
    pub(crate) clusters: Clusters,
    /// Blocks started so far.
    pub(crate) started_blocks: u32,
    /// Warp instructions executed.
    pub(crate) executed: u64,
    /// Grows whenever something happens that others could wait for.
    pub(crate) progress: u64,
    /// Nothing can go on: waits that may end without cause do.
    pub(crate) wake_all: bool,
}

impl GridState {
    /// Whether accesses are recorded and checked.
    pub(crate) fn is_checked(&self) -> bool {
        self.checks == Checks::On
    }
}
