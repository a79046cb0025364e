//! The product of `tcgen05.mma` (PTX ISA 9.1, 9.7.16), without any machine: a function of
//! descriptors, of bytes of shared memory and of words of tensor memory.
//!
//! An operand row is 32 bytes of K for every kind, as for `wgmma`. Rows are decoded once
//! (`element`, `scale`), in `f64`, and multiplied in blocks of eight rows of A by sixteen columns
//! of B (`product`), because eight rows are eight neighbouring lanes of a column of tensor memory
//! in every layout (`layout`).
//!
//! # Sums
//!
//! The manual leaves open in which order products are added and how precisely. Here the products,
//! with their scale factors, and what D held before are added in `f64`, which loses less than 2^-47
//! of the largest partial sum, and the result becomes the type of D once: `f32` toward zero, as it
//! is for `wgmma`, `f16` to nearest, `s32` exactly, wrapped or saturated. The 14-bit sums of 8-bit
//! types are those of Hopper; nothing says that Blackwell keeps them. None of this has been
//! measured on a GPU.
//!
//! # Rows that move
//!
//! Of `.ashift` the manual says that rows of A in tensor memory move, not whether the product has
//! them before or after. Here it has them before: A is multiplied as it lies and then moves, as by
//! a `tcgen05.shift` behind. This has not been measured either.
//!
//! # What is not here
//!
//! Sparse products (`.sp`), the zero-column mask of `.ws` and K = 96 (sm_103a).

mod element;
mod form;
mod instruction;
mod layout;
mod mma;
mod product;
mod scale;
mod shared;

#[cfg(test)]
mod tests;

pub(crate) use form::{Group, Kind, MmaForm, ScaleVector};
pub(crate) use mma::{Mma, Operands};

use super::MatrixError;
use std::ops::Range;

/// Lanes of tensor memory.
pub(crate) const LANES: usize = 128;

/// Columns of tensor memory.
pub(crate) const COLUMNS: u32 = 512;

/// The lanes to which a row moves: all but the last of each quarter.
pub(crate) const SHIFTED_LANES: u128 = 0x7FFF_FFFF_7FFF_FFFF_7FFF_FFFF_7FFF_FFFF;

/// The lanes that these rows come from: each the next one.
pub(crate) const NEXT_LANES: u128 = SHIFTED_LANES << 1;

/// A column whose rows have moved: each lane has what the next one had. The last lane of a quarter
/// is meant to keep what it has.
pub(crate) fn shifted(words: &[u32; LANES]) -> [u32; LANES] {
    std::array::from_fn(|lane| words[(lane + 1).min(LANES - 1)])
}

/// The memories of the one or two blocks of a product, as their owner keeps them. With
/// `.cta_group::1` there is block 0 only; with `.cta_group::2` block 0 has the even rank.
pub(crate) trait Memory {
    /// The shared memory of a block, from offset 0 of its window.
    fn shared(&self, block: usize) -> &[u8];

    /// All lanes of a column; lanes that the footprint does not name may be anything.
    fn column(&self, block: usize, column: u32) -> [u32; LANES];

    /// Replaces those words of a column whose lanes are set in `lanes`.
    fn set_column(&mut self, block: usize, column: u32, lanes: u128, words: &[u32; LANES]);
}

/// What a product reads and writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Footprint {
    /// Bytes read, by block and start, none of them twice. They may lie beyond shared memory.
    pub(crate) shared: Vec<SharedRange>,
    /// Words of A, of scale factors, and of D where it accumulates.
    pub(crate) read: Vec<Cells>,
    /// Words of D.
    pub(crate) written: Vec<Cells>,
}

/// Bytes of a block's shared window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SharedRange {
    /// The block.
    pub(crate) block: usize,
    /// The first byte.
    pub(crate) start: u32,
    /// How many there are.
    pub(crate) bytes: u32,
}

/// Lanes of some columns of a block's tensor memory; they exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cells {
    /// The block.
    pub(crate) block: usize,
    /// Bit l stands for lane l.
    pub(crate) lanes: u128,
    /// The columns.
    pub(crate) columns: Range<u32>,
}

/// An address in tensor memory: lane in the upper half, column in the lower one (9.7.16.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Address {
    lane: u32,
    column: u32,
}

impl Address {
    fn new(address: u32) -> Self {
        Self { lane: address >> 16, column: address & 0xFFFF }
    }

    /// So many columns from here on, if there are that many.
    fn columns(self, what: &str, count: u32) -> Result<Range<u32>, MatrixError> {
        let end = self.column + count;
        if end > COLUMNS {
            let first = self.column;
            return Err(problem(format!(
                "{what} needs columns {first} to {} of tensor memory, which has {COLUMNS}",
                end - 1
            )));
        }
        Ok(self.column..end)
    }
}

/// An error about a `tcgen05.mma`.
fn problem(text: impl AsRef<str>) -> MatrixError {
    MatrixError::Form(format!("tcgen05.mma: {}", text.as_ref()))
}
