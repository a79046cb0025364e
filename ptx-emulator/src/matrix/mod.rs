//! The mathematics and the layouts of the matrix instructions, without any machine.
//!
//! `wgmma`, `mma`, `ldmatrix`, `stmatrix` and `movmatrix` are functions here: of register rows
//! (`[u32; 32]`, one word a lane), of descriptors and of bytes of shared memory. When an
//! instruction reads and writes, and who may look at it meanwhile, is decided elsewhere.
//!
//! Every operand, whatever its type, is brought to rows of 32 bytes of K (`element`), multiplied in
//! blocks of 16 rows by 8 columns (`block`, `fp8`), and lands in the accumulator fragment that
//! `wgmma` and `mma` share. `tcgen05.mma` has no fragments: its accumulator lies in tensor memory,
//! so `tcgen05` has layouts of its own and shares the rest.

mod block;
pub(crate) mod descriptor;
pub(crate) mod element;
pub(crate) mod fp8;
pub(crate) mod mma;
pub(crate) mod narrow;
pub(crate) mod tcgen05;
pub(crate) mod tiles;
pub(crate) mod wgmma;

#[cfg(test)]
mod tests;

pub(crate) use element::{AccumulatorType, ElementType};

/// A warp's values of one 32-bit register: one word a lane.
pub(crate) type Row = [u32; 32];

/// Why a matrix instruction cannot be executed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MatrixError {
    /// Shape, types and modifiers do not go together.
    #[error("{0}")]
    Form(String),
    /// Bits of a descriptor that sm_90 wants to be zero.
    #[error("matrix descriptor {descriptor:#018x} has reserved bits set ({reserved:#018x})")]
    ReservedBits {
        /// The descriptor.
        descriptor: u64,
        /// Those of its bits which had to be zero.
        reserved: u64,
    },
    /// A 16-byte chunk that is not in shared memory.
    #[error("a matrix operand reads 16 bytes at shared offset {offset:#x} of {length:#x}")]
    OutsideShared {
        /// Where the chunk starts, in bytes of the shared window.
        offset: u32,
        /// How many bytes of shared memory there are.
        length: usize,
    },
    /// An operand with another number of registers than the shape has.
    #[error("{operand} needs {expected} registers, found {found}")]
    Registers {
        /// Which operand.
        operand: &'static str,
        /// How many the shape has.
        expected: usize,
        /// How many came.
        found: usize,
    },
}
