//! Matrix products with sums in tensor memory: tcgen05, Blackwell's tensor-core instructions.
//!
//! `D += A · B`, where D is in *tensor memory*, a memory of the multiprocessor beside shared
//! memory: 128 lanes of 512 columns of 32 bits, which only these instructions reach. A and B are in
//! shared memory; A may be in tensor memory too. Needs `sm_100a` and PTX 8.7.
//!
//! # Who issues what
//!
//! | function | issued by | completes |
//! | --- | --- | --- |
//! | [`allocate`], [`release`], [`relinquish`] | a whole warp, in a pair one in each block | at once |
//! | [`multiply`] and its kind, [`copy_32x128b_warpx4`] and its kind, [`commit`] | one thread, in a pair one for both blocks | later: a [`commit`] reports it to an mbarrier |
//! | [`load_32x32b`], [`load_16x256b`] | a whole warp | at once: the wait is part of it |
//! | [`store_32x32b`], [`store_16x256b`] | a whole warp | later: [`wait_stores`] |
//! | [`fence_before`], [`fence_after`] | each thread | at once |
//!
//! All of a kernel's instructions name one [`Group`]: [`One`] block alone, or [`Two`] neighbours of
//! a cluster (ranks 2i and 2i + 1) which multiply together, each with half of the rows of A and
//! half of the columns of B in its shared memory. The even block's thread issues for both.
//!
//! # The order of calls
//!
//! ```text
//!   MMA thread                                   epilogue warps
//!   wait full[s] (operands have landed)
//!   multiply … multiply, the same D
//!   commit(empty[s])   ──▶ producer
//!   commit(sums_full)  ─────────────────────▶    wait sums_full
//!                                                fence_after
//!                                                load_32x32b …
//!                                                fence_before
//!   wait sums_empty   ◀─────────────────────     arrive sums_empty
//!   fence_after
//!   multiply …
//! ```
//!
//! Copies and products of one thread run in the order of issue, so scales that a thread copies need
//! no wait before its products. Everything else is unordered until a commit, a wait and the two
//! fences order it.
//!
//! # A product is a type
//!
//! [`Product`] states kind, group, operands and size once, with marker types and constants.
//! Everything that may be wrong about the combination is refused by the compiler: elements that the
//! kind does not multiply and layouts that the elements cannot have by types, sizes by assertions
//! when the kernel is compiled. The [instruction descriptor](Instruction) follows from it, and
//! operands in shared memory are named by [descriptors](Descriptor) of their operand type, so that
//! A and B of different layouts cannot be exchanged.
//!
//! ```
//! use ptx_std::tcgen05::{Brain, F16, Instruction, KMajor, Matrix, One, Product};
//!
//! #[derive(Clone, Copy)]
//! struct Tile;
//!
//! impl Product for Tile {
//!     type Kind = F16;
//!     type Group = One;
//!     type A = Matrix<Brain, KMajor>;
//!     type B = Matrix<Brain, KMajor>;
//!     const M: u32 = 128;
//!     const N: u32 = 256;
//! }
//!
//! assert_eq!(Instruction::<Tile>::new().bits(), 0x0840_0490);
//! ```
//!
//! # Where the elements of D are
//!
//! One element of D takes a column of 32 bits. `m` and `n` are row and column of the whole product,
//! that of both blocks in a pair:
//!
//! | group, M | element (m, n) |
//! | --- | --- |
//! | one, 128 | lane m, column n |
//! | one, 64 | lane m % 16 + 32 (m / 16), column n |
//! | two, 256 | block m / 128, lane m % 128, column n |
//! | two, 128 | block m / 64, lane m % 64 + 64 (n / (N / 2)), column n % (N / 2) |
//!
//! Warp `w` of a warpgroup reaches the lanes 32 (w % 4) to 32 (w % 4) + 31 only.

mod address;
mod copy;
mod descriptor;
mod element;
mod instruction;
mod multiply;
mod order;
mod product;
#[cfg(doctest)]
mod refused;
mod registers;

pub use address::{Address, Columns, allocate, allocated, release, relinquish};
pub use copy::{
    CopySource, copy_4x256b, copy_32x128b_warpx4, copy_64x128b_warpx2_01_23,
    copy_64x128b_warpx2_02_13, copy_128x128b, copy_128x256b,
};
pub use descriptor::{Descriptor, Fields, Swizzle};
pub use element::{
    Brain, E2m1, E2m3, E3m2, E4m3, E5m2, Element, ElementOf, Half, Matrix, Operand, Whole,
};
pub use instruction::Instruction;
pub use multiply::{multiply, multiply_from_tensor, multiply_scaled};
pub use order::{commit, commit_multicast, fence_after, fence_before};
pub use product::{
    BlockScaled, F8f6f4, F16, Group, Kind, Mxf8f6f4, Mxfp4, Nvfp4, One, Product, Two, Unscaled,
};
pub use registers::{
    Fragment, Window, load_16x256b, load_32x32b, store_16x256b, store_32x32b, wait_stores,
};

pub use crate::wgmma::{KMajor, Layout, MnMajor};

/// Keeps others from implementing traits whose values the instructions fix.
mod sealed {
    /// Implemented here only.
    pub trait Sealed {}
}
