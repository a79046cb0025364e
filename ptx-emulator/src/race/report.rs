//! What the detector says.

use super::stamp::{Actor, Role};
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

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = if self.is_write { "write" } else { "read" };
        match self.actor {
            Actor::Warp(warp, Role::Generic) => {
                write!(f, "{access} by warp {} lane {}", warp.0, self.lane)
            }
            Actor::Warp(warp, Role::Wgmma) => write!(f, "wgmma {access} by warp {}", warp.0),
            Actor::Warp(warp, Role::BulkRead | Role::BulkWrite) => {
                write!(f, "{access} of a bulk copy by warp {} lane {}", warp.0, self.lane)
            }
            Actor::Warp(warp, Role::Copy) => {
                write!(f, "{access} of a cp.async by warp {} lane {}", warp.0, self.lane)
            }
            Actor::Barrier(_) => write!(f, "{access} of a bulk copy that signals an mbarrier"),
            Actor::Untracked => write!(f, "{access} by an unknown thread"),
        }
    }
}
