//! Kernels in the form in which they are executed: registers are rows of files, labels are
//! positions, symbols are addresses, and every instruction is an [`Operation`] of its family.

mod fit;
mod form;
mod kernels;
mod layout;
mod lower;
pub(crate) mod operand;
pub(crate) mod parameters;
mod rows;
pub(crate) mod types;

pub(crate) use form::{Form, Problem};
pub(crate) use kernels::lower_kernels;
pub(crate) use layout::{ModuleLayout, ParameterPlace, align_up, alignment, function_at};

use crate::execute::registers::RegisterCounts;
use crate::module::Location;
use crate::ops::Operation;
use operand::Guard;

/// An instruction.
#[derive(Clone, Debug)]
pub(crate) struct Instruction {
    pub(crate) guard: Guard,
    pub(crate) operation: Operation,
}

/// Where an instruction comes from, and what it is counted as.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// The line of the PTX text, from 1.
    pub(crate) line: u32,
    /// An index into [`Code::locations`].
    pub(crate) location: Option<usize>,
    /// An index into [`Kernel::kinds`]; absent for all but the first of several that one
    /// instruction of the text becomes.
    pub(crate) kind: Option<u32>,
}

/// The 32-bit registers an instruction reads and writes: rows of words. Only rows that a matrix
/// instruction may own are listed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Touch {
    pub(crate) reads: Box<[u32]>,
    pub(crate) writes: Box<[u32]>,
}

/// A function of a kernel.
#[derive(Clone, Debug)]
pub(crate) struct Code {
    pub(crate) name: String,
    pub(crate) instructions: Vec<Instruction>,
    pub(crate) origins: Vec<Origin>,
    pub(crate) touches: Vec<Touch>,
    pub(crate) registers: RegisterCounts,
    pub(crate) locations: Vec<Location>,
    /// Bytes of local variables of one invocation.
    pub(crate) local_bytes: u64,
    /// Bytes of its parameters, return values and the parameter variables of its calls.
    pub(crate) parameter_bytes: u32,
    /// Where its parameters lie among them.
    pub(crate) parameters: Vec<ParameterPlace>,
    /// Where its return values lie among them.
    pub(crate) returns: Vec<ParameterPlace>,
}

/// An entry and all functions that it can reach. Function 0 is the entry.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(crate) functions: Vec<Code>,
    /// For each function of the module its index in `functions`, if it can be reached.
    pub(crate) function_indices: Vec<Option<usize>>,
    /// Bytes of the parameter block.
    pub(crate) parameter_bytes: u32,
    /// Bytes of shared memory with a fixed size, the system's share included.
    pub(crate) static_shared_bytes: u32,
    /// Where dynamic shared memory begins.
    pub(crate) dynamic_shared_offset: u32,
    /// `.reqntid`, if given.
    pub(crate) required_block: Option<[u32; 3]>,
    /// The most threads a block may have (`.maxntid`).
    pub(crate) maximum_threads: Option<u32>,
    /// `.reqnctapercluster`, if given.
    pub(crate) required_cluster: Option<[u32; 3]>,
    /// The most registers a thread may have (`.maxnreg`).
    pub(crate) maximum_registers: Option<u32>,
    /// How many blocks a multiprocessor must hold (`.minnctapersm`).
    pub(crate) blocks_per_multiprocessor: u32,
    /// What instructions are counted as: opcodes with their modifiers.
    pub(crate) kinds: Vec<String>,
}
