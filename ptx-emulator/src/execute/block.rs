//! Blocks and clusters.

use super::warp::Warp;
use crate::ops::barrier::{ClusterBarrier, NamedBarriers};
use crate::ops::claims::Claims;
use crate::ops::copy::{Engine, Landed};
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
    /// It does nothing before this moment.
    pub(crate) starts_at: u64,
    /// Whether one of its warps has had a turn.
    pub(crate) has_started: bool,
    /// Its shared memory, the system's share included; addresses are indices.
    pub(crate) shared: Vec<u8>,
    /// Who has touched what in shared memory.
    pub(crate) shadow: Shadow,
    /// Who made the mbarriers, at their places: whoever uses one must know that it is there.
    pub(crate) births: Shadow,
    pub(crate) barriers: NamedBarriers,
    pub(crate) mbarriers: Mbarriers,
    /// Copies into its shared memory.
    pub(crate) landed: Landed,
    /// Matrix products of its warpgroups.
    pub(crate) matrix: crate::ops::wgmma::BlockState,
    /// Its tensor memory.
    pub(crate) tensor: crate::ops::tcgen05::BlockState,
    /// The line where it saw that its request for another cluster's work failed.
    pub(crate) refused_request: Option<u32>,
    /// A running warp is taken out.
    pub(crate) warps: Vec<Option<Box<Warp>>>,
    /// Threads that have not exited.
    pub(crate) live_threads: u32,
    /// Registers nobody has claimed.
    pub(crate) free_registers: u32,
    /// What its warpgroups have claimed.
    pub(crate) claims: Claims,
}

impl Block {
    /// Why another block of the cluster cannot reach its shared memory, if it cannot.
    pub(crate) fn absence(&self) -> Option<String> {
        let Self { rank, has_started, live_threads, .. } = self;
        if *live_threads == 0 {
            return Some(format!(
                "; block {rank} of the cluster has exited, and its memory with it"
            ));
        }
        (!has_started).then(|| {
            format!(
                "; block {rank} of the cluster may not have started: a barrier of the cluster is \
                 wanted before"
            )
        })
    }
}

/// The index of a thread with a number in a block of a shape.
pub(crate) fn thread_index(shape: [u32; 3], number: u32) -> [u32; 3] {
    let [x, y, _] = shape.map(|length| length.max(1));
    [number % x, number / x % y, number / x / y]
}

/// The blocks of a cluster, which run together.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) blocks: Vec<Block>,
    /// Where all its threads meet.
    pub(crate) barrier: ClusterBarrier,
    /// What runs beside the threads.
    pub(crate) engine: Engine,
    /// What is under way in its tensor memory.
    pub(crate) tensor: crate::ops::tcgen05::Engine,
    /// The index of the cluster in the grid, in clusters.
    pub(crate) index: [u32; 3],
    /// Threads of a block along x, y and z.
    pub(crate) block_shape: [u32; 3],
}

impl Cluster {
    /// The index in its block of a thread with a number.
    pub(crate) fn thread(&self, number: u32) -> [u32; 3] {
        thread_index(self.block_shape, number)
    }

    /// Whether all threads have exited and nothing is in flight.
    pub(crate) fn is_finished(&self) -> bool {
        self.engine.is_idle()
            && self.tensor.is_idle()
            && self.blocks.iter().all(|block| block.live_threads == 0)
    }
}
