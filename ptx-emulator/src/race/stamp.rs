//! Who accessed memory and when, in 64 bits.

/// A warp of one launch, as [`Races::start_warp`](super::Races::start_warp) numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WarpId(pub(crate) u32);

/// What a warp does under a clock of its own, because it becomes known at a time of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Ordinary loads, stores and atomics, per lane.
    Generic,
    /// Reads of bulk copies that complete in bulk groups, per lane. `wait_group.read` waits for
    /// them alone.
    BulkRead,
    /// Writes of bulk copies that complete in bulk groups, per lane.
    BulkWrite,
    /// Reads of shared memory by `wgmma`, one clock for the whole warp.
    Wgmma,
    /// Reads and writes of `cp.async` without `.bulk`, per lane.
    Copy,
    /// `tcgen05.mma`, `cp` and `shift`, per lane: reads of shared memory, and all that they do in
    /// tensor memory. A `tcgen05.commit` makes them known.
    Tensor,
    /// `tcgen05.ld`, one clock for the whole warp.
    TensorLoad,
    /// `tcgen05.st`, one clock for the whole warp.
    TensorStore,
}

const ROLES: [Role; 8] = [
    Role::Generic,
    Role::BulkRead,
    Role::BulkWrite,
    Role::Wgmma,
    Role::Copy,
    Role::Tensor,
    Role::TensorLoad,
    Role::TensorStore,
];

/// One source of accesses whose clock only grows: a warp in one [`Role`], or an mbarrier between
/// one initialisation and the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Agent(u32);

/// Who an [`Agent`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Actor {
    /// A warp in one of its roles.
    Warp(WarpId, Role),
    /// Asynchronous copies that complete on an mbarrier. The number counts initialisations within
    /// the launch, from 0.
    Barrier(u32),
    /// An access that is not followed: see [`Agent::UNTRACKED`].
    Untracked,
}

const AGENT_BITS: u32 = 25;
const BARRIER: u32 = 1 << (AGENT_BITS - 1);
const ROLE_BITS: u32 = 3;

impl Agent {
    /// Stands for the accesses before the launch, and for warps and mbarriers beyond 2²¹ and 2²⁴
    /// of them, which are not followed. Everybody knows all that it does.
    pub(crate) const UNTRACKED: Self = Self((1 << AGENT_BITS) - 1);

    /// A warp in a role.
    pub(crate) fn warp(warp: WarpId, role: Role) -> Self {
        if warp.0 >= BARRIER >> ROLE_BITS {
            return Self::UNTRACKED;
        }
        Self(warp.0 << ROLE_BITS | role as u32)
    }

    pub(super) fn barrier(index: u32) -> Self {
        Self(BARRIER | index.min(BARRIER - 1))
    }

    /// How many warps further on this is than another, if both are warps.
    pub(super) fn warps_from(self, other: Self) -> usize {
        (self.0.wrapping_sub(other.0) >> ROLE_BITS) as usize
    }

    /// Who this is.
    pub(crate) fn actor(self) -> Actor {
        if self == Self::UNTRACKED {
            return Actor::Untracked;
        }
        if self.0 & BARRIER != 0 {
            return Actor::Barrier(self.0 & !BARRIER);
        }
        match ROLES.get((self.0 & ((1 << ROLE_BITS) - 1)) as usize) {
            Some(&role) => Actor::Warp(WarpId(self.0 >> ROLE_BITS), role),
            None => Actor::Untracked,
        }
    }
}

/// An access in time: from the top bit 25 bits of agent, 5 of lane, one each for strong and
/// asynchronous, 32 of clock. Zero is "never", because clocks start at 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stamp(u64);

const LANE_SHIFT: u32 = 34;
const AGENT_SHIFT: u32 = 39;
const STRONG: u64 = 1 << 33;
const ASYNC: u64 = 1 << 32;

impl Stamp {
    pub(super) const NEVER: Self = Self(0);
    /// No stamp without lane equals this one.
    pub(super) const NOTHING: Self = Self(u64::MAX);

    /// `strong` are atomics and accesses with a memory order; `is_async` those of the async proxy.
    pub(super) fn new(agent: Agent, strong: bool, is_async: bool, clock: u32) -> Self {
        let flags = u64::from(strong) << 33 | u64::from(is_async) << 32;
        Self(u64::from(agent.0) << AGENT_SHIFT | flags | u64::from(clock))
    }

    /// The same with a lane; stamps of reads keep their lanes elsewhere.
    pub(super) fn with_lane(self, lane: u32) -> Self {
        Self(self.0 | u64::from(lane & 31) << LANE_SHIFT)
    }

    /// The same for all lanes.
    pub(super) fn without_lane(self) -> Self {
        Self(self.0 & !(31 << LANE_SHIFT))
    }

    pub(super) fn is_never(self) -> bool {
        self.0 == 0
    }

    pub(super) fn agent(self) -> Agent {
        Agent((self.0 >> AGENT_SHIFT) as u32)
    }

    pub(super) fn lane(self) -> u32 {
        (self.0 >> LANE_SHIFT) as u32 & 31
    }

    pub(super) fn is_strong(self) -> bool {
        self.0 & STRONG != 0
    }

    pub(super) fn is_async(self) -> bool {
        self.0 & ASYNC != 0
    }

    pub(super) fn clock(self) -> u32 {
        self.0 as u32
    }

    /// Neither atomics nor accesses with a memory order race with each other within one proxy.
    pub(super) fn tolerates(self, other: Self) -> bool {
        // All three conditions in one: both strong, and the same proxy.
        self.0 & other.0 & STRONG != 0 && (self.0 ^ other.0) & ASYNC == 0
    }
}
