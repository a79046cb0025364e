//! Quantizers and dequantizers over plain slices, in the layouts of the kernels: what every engine
//! is compared with, byte for byte, and what the CPU backend runs.
//!
//! A source is tokens `[rows, columns]`, whose groups have any numbers of rows, or weights
//! `[groups, rows, columns]`; [`Layout`] says which. Its values are FP32 numbers that its element
//! type has exactly. From it a call makes one of two copies: [`Direction::Rowwise`], whose blocks
//! run along the columns, or [`Direction::Columnwise`], whose blocks run along the rows. Each is
//! made from the source, never from the other copy.
//!
//! | format | scales | copy | data | columnwise data |
//! |---|---|---|---|---|
//! | [`per_tensor`] | one for each group | FP8 | as the source | transposed |
//! | [`block`] | 1×128 or 128×128, FP32 | FP8 | as the source | transposed |
//! | [`mxfp8`] | 1×32 or 32×32, powers of two | FP8 | as the source | as the source |
//! | [`nvfp4`] | 1×16 or 16×16, E4M3, and one for each group | FP4, two in a byte | as the source | transposed |
//!
//! Transposed tokens are padded: each group begins at a multiple of 128 on lines of one length, and
//! is filled with zeros up to the next; nothing is written past the last group. Blocks along the
//! rows begin at the first row of each group. Rows that belong to no group are neither read nor
//! written.
//!
//! ```
//! use grouped_linear::numerics::{Direction, Float8Format};
//! use grouped_linear::reference::quantize::{Layout, per_tensor};
//!
//! // Two experts with one and two rows; the last row of the buffer is nobody's.
//! let layout = Layout::tokens(&[0, 1, 3], 4, 2)?;
//! let values = [1.0, -2.0, 0.5, 0.25, 1.0, 0.0, f32::NAN, f32::NAN];
//! let amax = per_tensor::amax(&layout, &values)?;
//! assert_eq!(amax, [2.0, 1.0]);
//!
//! let mut data = vec![0xaa; layout.data_len(Direction::Rowwise)];
//! let (scale, scale_inverse) = ([128.0, 256.0], [1.0 / 128.0, 1.0 / 256.0]);
//! let (format, direction) = (Float8Format::E4m3, Direction::Rowwise);
//! per_tensor::quantize(&layout, &values, format, &scale, direction, &mut data)?;
//! assert_eq!(data[6..], [0xaa; 2]);
//!
//! let mut restored = vec![0.0; data.len()];
//! per_tensor::dequantize(&layout, &data, format, &scale_inverse, direction, &mut restored)?;
//! assert_eq!(restored, [1.0, -2.0, 0.5, 0.25, 1.0, 0.0, 0.0, 0.0]);
//! # Ok::<(), grouped_linear::Error>(())
//! ```

pub mod block;
mod codes;
mod grid;
mod layout;
pub mod mxfp8;
pub mod nvfp4;
pub mod per_tensor;
mod read;
mod scales;
#[cfg(test)]
mod tests;
mod write;

pub use self::layout::Layout;
use crate::error::{Error, Result};
use crate::numerics::Direction;

/// Which elements share a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockShape {
    /// As many neighbours in the copy's direction as the format has in a block.
    Line,
    /// A square with that side. Both copies have the same values then.
    Square,
}

/// In which order the scales of a group lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScaleOrder {
    /// Row-major.
    Compact,
    /// In tiles of 128×4, as the block-scaled products of Blackwell read them: scale `(i, j)`, with
    /// `i` along the rows of the operand and `j` along the contraction, lies at
    /// `((i / 128) · tiles + j / 4) · 512 + i % 32 · 16 + i % 128 / 32 · 4 + j % 4`.
    Swizzled,
}

fn check_length(what: &str, length: usize, needed: usize) -> Result<()> {
    if length < needed {
        return Err(Error::invalid(format!(
            "{what}: {length} elements were given, at least {needed} are needed"
        )));
    }
    Ok(())
}
