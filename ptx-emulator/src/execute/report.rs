//! What is wrong with a kernel, and where.

use std::fmt;

use crate::machine::Place;

/// What a checker found. The variants are the checkers; the text says the rest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReportKind {
    /// An access outside every variable and allocation.
    #[error("{access} of {bytes} bytes at {address:#x} is out of bounds of {space} memory{hint}")]
    OutOfBounds {
        /// "load", "store" and the like.
        access: &'static str,
        /// The state space.
        space: &'static str,
        /// The address, in that space.
        address: u64,
        /// The size of the access.
        bytes: u64,
        /// What is near.
        hint: String,
    },
    /// An address that is no multiple of what the access needs.
    #[error("{access} at {address:#x} in {space} memory is not aligned to {alignment} bytes")]
    Misaligned {
        /// "load", "store" and the like.
        access: &'static str,
        /// The state space.
        space: &'static str,
        /// The address, in that space.
        address: u64,
        /// What it should be a multiple of.
        alignment: u64,
    },
    /// Shared memory that nobody has written is read.
    #[error("read of uninitialised shared memory at {address:#x}: {detail}")]
    Uninitialised {
        /// The address.
        address: u64,
        /// Who reads.
        detail: String,
    },
    /// Two accesses that nothing orders, at least one of them a write.
    #[error("data race in {space} memory at {address:#x}: {detail}")]
    Race {
        /// The state space.
        space: &'static str,
        /// The address.
        address: u64,
        /// Both accesses.
        detail: String,
    },
    /// An access through the generic proxy and one through the async proxy, ordered, but without
    /// the proxy fence between them.
    #[error("`fence.proxy.async` is missing in {space} memory at {address:#x}: {detail}")]
    MissingProxyFence {
        /// The state space.
        space: &'static str,
        /// The address.
        address: u64,
        /// Both accesses.
        detail: String,
    },
    /// Memory that the kernel has written is read by `ld.global.nc`, whose cache sees no writes.
    #[error("`ld.global.nc` at {address:#x} of memory that the kernel writes: {detail}")]
    Unchanging {
        /// The address.
        address: u64,
        /// The write.
        detail: String,
    },
    /// A register that belongs to an unfinished `wgmma` or `tcgen05.ld` is read or written.
    #[error("{0}")]
    MatrixRegisters(String),
    /// A barrier, an mbarrier or a register claim is used against its rules.
    #[error("{0}")]
    Synchronisation(String),
    /// Tensor memory that is not allocated, not written, not given back or out of reach.
    #[error("{0}")]
    TensorMemory(String),
    /// No warp can go on.
    #[error("deadlock: no warp can go on\n{0}")]
    Deadlock(String),
    /// The kernel has run for longer than the machine allows.
    #[error("{limit} warp instructions have been executed and the kernel has not ended\n{detail}")]
    InstructionLimit {
        /// `Options::instruction_limit`.
        limit: u64,
        /// Where the warps are.
        detail: String,
    },
    /// The kernel stopped itself, as Rust does on a panic.
    #[error("the kernel executed `trap`")]
    Trap,
    /// An operand has a value for which the instruction is not defined.
    #[error("{0}")]
    Operand(String),
}

/// A [`ReportKind`] and the lane it concerns, while the rest of the place is not known yet.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: Box<ReportKind>,
    pub(crate) lane: Option<u32>,
}

impl From<ReportKind> for Fault {
    fn from(kind: ReportKind) -> Self {
        Self { kind: Box::new(kind), lane: None }
    }
}

impl Fault {
    /// The fault of one lane.
    pub(crate) fn at_lane(lane: usize, kind: ReportKind) -> Self {
        Self { kind: Box::new(kind), lane: Some(lane as u32) }
    }

    /// An operand with a value the instruction is not defined for.
    pub(crate) fn operand(text: impl Into<String>) -> Self {
        ReportKind::Operand(text.into()).into()
    }

    /// A rule of a barrier that is broken.
    pub(crate) fn synchronisation(text: impl Into<String>) -> Self {
        ReportKind::Synchronisation(text.into()).into()
    }
}

/// What went wrong in a launch, with the instruction and the thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub(crate) kind: ReportKind,
    pub(crate) kernel: String,
    pub(crate) place: Option<Place>,
}

impl Report {
    /// What is wrong.
    #[must_use]
    pub fn kind(&self) -> &ReportKind {
        &self.kind
    }

    /// The kernel's name.
    #[must_use]
    pub fn kernel(&self) -> &str {
        &self.kernel
    }

    /// Where; absent for what concerns the whole launch, such as a deadlock.
    #[must_use]
    pub fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel `{}`: {}", self.kernel, self.kind)?;
        match &self.place {
            Some(place) => write!(f, "\n{place}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Report {}
