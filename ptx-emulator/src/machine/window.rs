//! Where the state spaces lie in the generic address space.
//!
//! Global memory is its own window. The others have windows far apart and far from any allocation,
//! so that an address computed from the wrong space is out of bounds rather than somebody else's.

/// Functions have addresses here, 16 apart: they can be called, not read.
pub(crate) const FUNCTION: u64 = 0x3000_0000_0000;
/// Shared memory of the blocks of a cluster, [`BLOCK_SHARED`] apart by rank.
pub(crate) const SHARED: u64 = 0x4000_0000_0000;
/// Memory of the executing thread.
pub(crate) const LOCAL: u64 = 0x5000_0000_0000;
/// Parameters of the running kernel.
pub(crate) const PARAMETER: u64 = 0x6000_0000_0000;
/// The first allocation.
pub(crate) const GLOBAL: u64 = 0x7000_0000_0000;

/// Size of each window.
const WINDOW: u64 = 0x1000_0000_0000;

/// Distance between the shared memories of two blocks of a cluster. A shared address carries the
/// rank of its block from this bit on, also in the block itself, as on hardware.
pub(crate) const BLOCK_SHARED: u32 = 1 << 24;

/// Bytes at the start of a block's shared memory that belong to the system, as on sm_90.
pub(crate) const RESERVED_SHARED: u32 = 1024;

/// What a generic address points into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Window {
    Function,
    Shared,
    Local,
    Parameter,
    Global,
}

/// The window of a generic address.
pub(crate) fn window(address: u64) -> Window {
    match address / WINDOW {
        3 => Window::Function,
        4 => Window::Shared,
        5 => Window::Local,
        6 => Window::Parameter,
        _ => Window::Global,
    }
}

/// The base of the window of a state space.
pub(crate) fn base(space: crate::module::StateSpace) -> u64 {
    use crate::module::StateSpace;
    match space {
        StateSpace::Const | StateSpace::Global => 0,
        StateSpace::Local => LOCAL,
        StateSpace::Param => PARAMETER,
        StateSpace::Shared => SHARED,
    }
}
