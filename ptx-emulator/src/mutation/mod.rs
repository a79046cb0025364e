//! Breaking a module on purpose, one place at a time.
//!
//! A test suite that runs a kernel in the emulator is worth what it notices. [`sites`] lists the
//! places of a module whose loss a good suite must notice: fences, waits, arrivals, byte counts,
//! barriers, fields of matrix descriptors with their swizzle, allocations and addresses of tensor
//! memory, and bounds. [`Site::apply`] gives the
//! module with that one place broken.
//!
//! ```
//! use ptx_emulator::{Module, mutation};
//!
//! let text = "
//! .version 8.6
//! .target sm_90a
//! .address_size 64
//! .visible .entry wait()
//! {
//!     bar.sync 0;
//!     ret;
//! }";
//! let module = Module::parse(text)?;
//! let sites = mutation::sites(&module);
//! assert_eq!(sites.len(), 1);
//! assert_eq!(sites[0].to_string(), "line 7 of `wait`: without `bar.sync`");
//! assert!(!sites[0].apply(&module).to_string().contains("bar.sync"));
//! # Ok::<(), ptx_emulator::ParseError>(())
//! ```

mod apply;
mod find;
mod tensor;
#[cfg(test)]
mod tests;

use std::fmt;

pub use find::sites;

/// How an instruction is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// It is left out.
    Removed,
    /// It finds at once what it should wait for.
    Satisfied,
    /// An operand that is a number, or a register that holds one, has another value; of an address
    /// it is what is added.
    Number {
        /// The operand's index.
        operand: usize,
        /// The value it has now.
        from: u64,
        /// The value it gets.
        to: u64,
    },
    /// An operand that is a predicate always says the same.
    Predicate {
        /// The operand's index.
        operand: usize,
        /// What it says.
        says: bool,
    },
    /// The opcode has another word.
    Word {
        /// The word.
        from: &'static str,
        /// What it becomes.
        to: &'static str,
    },
    /// A comparison includes what it excluded, or the reverse.
    Comparison {
        /// The word of the opcode.
        from: &'static str,
        /// What it becomes.
        to: &'static str,
    },
    /// A comparison is not made: it says always what [`Comparison`](Self::Comparison) would say of
    /// equal numbers.
    Decided {
        /// What it says.
        says: bool,
    },
    /// The smaller of two numbers is always the first.
    Unbounded,
}

/// What a place is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Purpose {
    /// Memory fences, `wgmma.fence` and `tcgen05.fence`.
    Fence,
    /// Waits for copies, matrix products, transfers of tensor memory and mbarriers.
    Wait,
    /// Arrivals at mbarriers, commits and ends of groups.
    Arrive,
    /// Bytes that an mbarrier is told to expect.
    ExpectedBytes,
    /// Barriers of warps, blocks and clusters, and the counts of all barriers.
    Barrier,
    /// Fields of descriptors: addresses and offsets of matrices in shared memory, shapes and orders
    /// of products.
    Descriptor,
    /// The swizzle mode in these descriptors.
    Swizzle,
    /// Which of the scale factors in a word of tensor memory a product takes.
    ScaleNumber,
    /// Whether a product adds to what is in tensor memory.
    Accumulate,
    /// Allocations of tensor memory and their ends.
    Allocation,
    /// Columns and lanes that are added to addresses in tensor memory.
    TensorAddress,
    /// Whether an instruction is for one block or for a pair.
    Group,
    /// Comparisons and minima, which are not made.
    Bound,
    /// Comparisons which are off by one. Where two bounds stand behind one another, or a loop may
    /// go round once more for nothing, no run can tell.
    Edge,
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fence => "fence",
            Self::Wait => "wait",
            Self::Arrive => "arrive",
            Self::ExpectedBytes => "expected bytes",
            Self::Barrier => "barrier",
            Self::Descriptor => "descriptor",
            Self::Swizzle => "swizzle",
            Self::ScaleNumber => "scale number",
            Self::Accumulate => "accumulation",
            Self::Allocation => "allocation",
            Self::TensorAddress => "tensor address",
            Self::Group => "group",
            Self::Bound => "bound",
            Self::Edge => "edge",
        })
    }
}

/// A place of a module and how it can be broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// An index into `Module::functions`.
    pub function: usize,
    /// The function's name.
    pub name: String,
    /// An index into the instructions of its body.
    pub instruction: usize,
    /// The line of the PTX text.
    pub line: u32,
    /// The opcode.
    pub opcode: String,
    /// What it is there for.
    pub purpose: Purpose,
    /// What is done to it.
    pub damage: Damage,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, line, opcode, .. } = self;
        write!(f, "line {line} of `{name}`: ")?;
        match &self.damage {
            Damage::Removed => write!(f, "without `{opcode}`"),
            Damage::Satisfied => write!(f, "`{opcode}` does not wait"),
            Damage::Number { from, to, .. } => write!(f, "`{opcode}` with {to:#x} for {from:#x}"),
            Damage::Comparison { from, to } | Damage::Word { from, to } => {
                write!(f, "`{opcode}` with `{to}` for `{from}`")
            }
            Damage::Predicate { says, .. } => {
                write!(f, "`{opcode}` with a predicate that is {says}")
            }
            Damage::Decided { says } => write!(f, "`{opcode}` is always {says}"),
            Damage::Unbounded => write!(f, "`{opcode}` takes its first operand"),
        }
    }
}
