//! What the detector says.

use super::stamp::{Actor, Role};
use super::{Races, WarpName};
use std::fmt;

/// What is wrong with an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RaceKind {
    /// Nothing orders it after an earlier access to the same byte, and one of the two writes.
    Race,
    /// It goes through the async proxy and is ordered after an ordinary write, but without a
    /// `fence.proxy.async` between.
    MissingProxyFence,
    /// It reads a byte that nobody wrote.
    Uninitialised,
    /// It reads a written byte as one that never changes.
    Unchanging,
    /// Two lanes of one instruction write different values to the same byte.
    SameInstruction,
}

/// The earlier of two accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Who {
    /// The warp, or the mbarrier on which the asynchronous copy completes.
    pub(crate) actor: Actor,
    /// The lane; of several the lowest.
    pub(crate) lane: u32,
    /// Whether it wrote.
    pub(crate) is_write: bool,
    /// Whether it went through the async proxy.
    pub(crate) is_async: bool,
    /// Where it stands in the program, as its caller numbered it.
    pub(crate) site: u32,
}

/// An access that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// What is wrong.
    pub(crate) kind: RaceKind,
    /// The access it conflicts with; none where the byte was never written.
    pub(crate) earlier: Option<Who>,
    /// The first byte in question, as an offset in its region.
    pub(crate) address: u64,
    /// The lane of the later access; of several the lowest.
    pub(crate) lane: u32,
}

impl fmt::Display for WarpName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.block;
        write!(f, "block ({x}, {y}, {z}), warp {}", self.index)
    }
}

impl Races {
    /// What an access that follows an asynchronous one has to wait for, in words.
    pub(crate) fn wanted_wait(&self, who: &Who) -> &'static str {
        match who.actor {
            Actor::Barrier(_) => "; wanted between: a wait for that mbarrier",
            Actor::Warp(_, Role::BulkRead) => {
                "; wanted between: `cp.async.bulk.wait_group.read` by that thread"
            }
            Actor::Warp(_, Role::BulkWrite) => {
                "; wanted between: `cp.async.bulk.wait_group` by that thread"
            }
            Actor::Warp(_, Role::Copy) => "; wanted between: `cp.async.wait_group` by that thread",
            Actor::Warp(_, Role::Wgmma) => "; wanted between: `wgmma.wait_group` by that warp",
            Actor::Warp(_, Role::Tensor) => {
                "; wanted between: `tcgen05.commit` by that thread, a wait for its mbarrier, and, for \
                 tensor memory, `tcgen05.fence::after_thread_sync`"
            }
            Actor::Warp(_, Role::TensorLoad) => {
                "; wanted between: `tcgen05.wait::ld` by that warp and, in another thread than its \
                 own, `tcgen05.fence::before_thread_sync`, a barrier and \
                 `tcgen05.fence::after_thread_sync`"
            }
            Actor::Warp(_, Role::TensorStore) => {
                "; wanted between: `tcgen05.wait::st` by that warp and, in another thread than its \
                 own, `tcgen05.fence::before_thread_sync`, a barrier and \
                 `tcgen05.fence::after_thread_sync`"
            }
            Actor::Warp(_, Role::Generic) | Actor::Untracked => "",
        }
    }

    /// An access in words.
    pub(crate) fn describe(&self, who: &Who) -> String {
        let access = if who.is_write { "write" } else { "read" };
        let lane = who.lane;
        let (warp, role) = match who.actor {
            Actor::Warp(warp, role) => (warp, role),
            Actor::Barrier(_) => {
                return format!("{access} of a bulk copy that signals an mbarrier");
            }
            Actor::Untracked => return format!("{access} by an unknown thread"),
        };
        let Some(name) = self.names.get(warp.0 as usize) else {
            return format!("{access} by an unknown warp");
        };
        match role {
            Role::Generic => format!("{access} by {name}, lane {lane}"),
            Role::Wgmma => format!("wgmma {access} by {name}"),
            Role::BulkRead | Role::BulkWrite => {
                format!("{access} of a bulk copy by {name}, lane {lane}")
            }
            Role::Copy => format!("{access} of a cp.async by {name}, lane {lane}"),
            Role::Tensor => format!("tcgen05 {access} issued by {name}, lane {lane}"),
            Role::TensorLoad => format!("tcgen05.ld by {name}"),
            Role::TensorStore => format!("tcgen05.st by {name}"),
        }
    }
}
