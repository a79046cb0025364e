//! Special registers, and addresses that only the executing thread's place completes.

use crate::execute::Context;
use crate::machine::window;
use crate::module::Component;
use crate::program::operand::Destination;

/// A value that depends on who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    Thread(usize),
    BlockShape(usize),
    BlockIndex(usize),
    GridShape(usize),
    Lane,
    WarpIndex,
    WarpLimit,
    Multiprocessor,
    Multiprocessors,
    Grid,
    LanesEqual,
    LanesBelow,
    LanesUpTo,
    LanesAbove,
    LanesFrom,
    Clock,
    ClockHigh,
    Nanoseconds,
    NanosecondsHigh,
    ClusterIndex(usize),
    ClusterCount(usize),
    PlaceInCluster(usize),
    ClusterShape(usize),
    Rank,
    ClusterSize,
    TotalShared,
    /// With what the system reserves.
    AllShared,
    DynamicShared,
    ReservedShared,
    Zero,
    WarpSize,
    /// The shared address of an offset in the executing block.
    Shared(u32),
    /// The generic address of an offset in the executing block's shared memory.
    GenericShared(u32),
    /// The local address of an offset in the frame.
    Frame(u64),
    /// The generic address of an offset in the frame.
    GenericFrame(u64),
}

/// Fills a register with a special value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fetch {
    Word(Destination, Special),
    Double(Destination, Special),
}

impl Special {
    /// The 32-bit special register of a name, or the element of a vector of them.
    pub(crate) fn word(name: &str, component: Option<Component>) -> Option<Self> {
        let axis = match component {
            Some(Component::X | Component::R) => 0,
            Some(Component::Y | Component::G) => 1,
            Some(Component::Z | Component::B) => 2,
            // The fourth element of the vectors is zero.
            Some(Component::W | Component::A) => return Some(Self::Zero),
            None => {
                return Some(match name {
                    "%laneid" => Self::Lane,
                    "%warpid" => Self::WarpIndex,
                    "%nwarpid" => Self::WarpLimit,
                    "%smid" => Self::Multiprocessor,
                    "%nsmid" => Self::Multiprocessors,
                    "%gridid" => Self::Grid,
                    "%lanemask_eq" => Self::LanesEqual,
                    "%lanemask_lt" => Self::LanesBelow,
                    "%lanemask_le" => Self::LanesUpTo,
                    "%lanemask_gt" => Self::LanesAbove,
                    "%lanemask_ge" => Self::LanesFrom,
                    "%clock" => Self::Clock,
                    "%clock_hi" => Self::ClockHigh,
                    "%globaltimer_lo" => Self::Nanoseconds,
                    "%globaltimer_hi" => Self::NanosecondsHigh,
                    "%cluster_ctarank" => Self::Rank,
                    "%cluster_nctarank" => Self::ClusterSize,
                    "%total_smem_size" => Self::TotalShared,
                    "%aggr_smem_size" => Self::AllShared,
                    "%dynamic_smem_size" => Self::DynamicShared,
                    "%reserved_smem_offset_begin" | "%reserved_smem_offset_0" => Self::Zero,
                    "%reserved_smem_offset_end"
                    | "%reserved_smem_offset_cap"
                    | "%reserved_smem_offset_1" => Self::ReservedShared,
                    "WARP_SZ" => Self::WarpSize,
                    _ => return None,
                });
            }
        };
        Some(match name {
            "%tid" => Self::Thread(axis),
            "%ntid" => Self::BlockShape(axis),
            "%ctaid" => Self::BlockIndex(axis),
            "%nctaid" => Self::GridShape(axis),
            "%clusterid" => Self::ClusterIndex(axis),
            "%nclusterid" => Self::ClusterCount(axis),
            "%cluster_ctaid" => Self::PlaceInCluster(axis),
            "%cluster_nctaid" => Self::ClusterShape(axis),
            _ => return None,
        })
    }

    /// The 64-bit special register of a name.
    pub(crate) fn double(name: &str) -> Option<Self> {
        Some(match name {
            "%clock64" => Self::Clock,
            "%globaltimer" => Self::Nanoseconds,
            "%gridid" => Self::Grid,
            _ => return None,
        })
    }

    pub(crate) fn into_word(self, destination: Destination) -> Fetch {
        Fetch::Word(destination, self)
    }

    pub(crate) fn into_double(self, destination: Destination) -> Fetch {
        Fetch::Double(destination, self)
    }

    fn value(self, context: &Context<'_>, lane: usize) -> u64 {
        let grid = &context.grid;
        let block = &context.cluster.blocks[context.rank];
        let config = &grid.config;
        let below = (1u64 << lane) - 1;
        let equal = 1u64 << lane;
        let shape = config.cluster.map(|length| length.max(1));
        let shared = u64::from(context.rank as u32 * window::BLOCK_SHARED);
        match self {
            Self::Thread(axis) => context.warp.threads[lane][axis].into(),
            Self::BlockShape(axis) => config.block[axis].into(),
            Self::BlockIndex(axis) => block.index[axis].into(),
            Self::GridShape(axis) => config.grid[axis].into(),
            Self::Lane => lane as u64,
            Self::WarpIndex => context.warp.index.into(),
            // Warps that fit a multiprocessor, not those of the block; 64 on sm_90 and sm_100.
            Self::WarpLimit => 64,
            Self::Multiprocessor => {
                let [x, y, z] = block.index.map(u64::from);
                let linear = x + u64::from(config.grid[0]) * (y + u64::from(config.grid[1]) * z);
                linear % u64::from(grid.multiprocessors.max(1))
            }
            Self::Multiprocessors => grid.multiprocessors.into(),
            Self::Grid => 1,
            Self::LanesEqual => equal,
            Self::LanesBelow => below,
            Self::LanesUpTo => below | equal,
            Self::LanesAbove => u64::from(u32::MAX) & !(below | equal),
            Self::LanesFrom => u64::from(u32::MAX) & !below,
            // Time is the count of executed instructions: it grows, and equal seeds see the same.
            Self::Clock | Self::Nanoseconds => grid.executed,
            Self::ClockHigh | Self::NanosecondsHigh => grid.executed >> 32,
            Self::ClusterIndex(axis) => context.cluster.index[axis].into(),
            Self::ClusterCount(axis) => (config.grid[axis] / shape[axis]).into(),
            Self::PlaceInCluster(axis) => (block.index[axis] % shape[axis]).into(),
            Self::ClusterShape(axis) => shape[axis].into(),
            Self::Rank => block.rank.into(),
            Self::ClusterSize => context.cluster.blocks.len() as u64,
            Self::TotalShared => (grid.shared_bytes - window::RESERVED_SHARED).into(),
            Self::AllShared => grid.shared_bytes.into(),
            Self::DynamicShared => config.dynamic_shared_bytes.into(),
            Self::ReservedShared => window::RESERVED_SHARED.into(),
            Self::Zero => 0,
            Self::WarpSize => 32,
            Self::Shared(offset) => shared + u64::from(offset),
            Self::GenericShared(offset) => window::SHARED + shared + u64::from(offset),
            Self::Frame(offset) => context.frame.local_base + offset,
            Self::GenericFrame(offset) => window::LOCAL + context.frame.local_base + offset,
        }
    }
}

/// Fills the register.
pub(crate) fn execute(fetch: &Fetch, context: &mut Context<'_>) {
    match *fetch {
        Fetch::Word(destination, special) => {
            let values = std::array::from_fn(|lane| special.value(context, lane) as u32);
            context.frame.registers.set_words(destination, context.mask, &values);
        }
        Fetch::Double(destination, special) => {
            let values = std::array::from_fn(|lane| special.value(context, lane));
            context.frame.registers.set_doubles(destination, context.mask, &values);
        }
    }
}
