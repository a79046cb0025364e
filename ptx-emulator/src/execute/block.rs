//! Blocks and clusters.

use super::warp::Warp;
use crate::ops::barrier::{ClusterBarrier, NamedBarriers};
use crate::ops::claims::Claims;
use crate::ops::copy::Engine;
use crate::ops::mbarrier::Mbarriers;
use crate::race::Shadow;

/// A block of threads.
#[derive(Debug)]
pub(crate) struct Block {
    /// Its index in the grid.
    pub(crate) index: [u32; 3],
    /// A number of its own in the launch.
    pub(crate) id: u32,
    /// Its rank in the cluster.
    pub(crate) rank: u32,
    /// Its shared memory, the system's share included; addresses are indices.
    pub(crate) shared: Vec<u8>,
    /// Who has touched what in shared memory.
    pub(crate) shadow: Shadow,
    pub(crate) barriers: NamedBarriers,
    pub(crate) mbarriers: Mbarriers,
    /// Matrix products of its warpgroups.
    pub(crate) matrix: crate::ops::wgmma::BlockState,
    /// A running warp is taken out.
    pub(crate) warps: Vec<Option<Box<Warp>>>,
    /// Threads that have not exited.
    pub(crate) live_threads: u32,
    /// Registers nobody has claimed.
    pub(crate) free_registers: u32,
    /// What its warpgroups have claimed.
    pub(crate) claims: Claims,
}

/// The blocks of a cluster, which run together.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) blocks: Vec<Block>,
    /// Where all its threads meet.
    pub(crate) barrier: ClusterBarrier,
    /// What runs beside the threads.
    pub(crate) engine: Engine,
    /// The index of the cluster in the grid, in clusters.
    pub(crate) index: [u32; 3],
}

impl Cluster {
    /// Why threads of block `own` have no access to the shared memory of block `rank`, if that block
    /// has exited; for reports.
    pub(crate) fn exited(&self, rank: usize, own: usize) -> Option<String> {
        let block = self.blocks.get(rank).filter(|block| rank != own && block.live_threads == 0)?;
        let rank = block.rank;
        Some(format!("; block {rank} of the cluster has exited, and its memory with it"))
    }

    /// Whether all threads have exited and nothing is in flight.
    pub(crate) fn is_finished(&self) -> bool {
        self.engine.is_idle() && self.blocks.iter().all(|block| block.live_threads == 0)
    }
}
