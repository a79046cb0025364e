//! GPU kernels of `grouped-linear`.
//!
//! On the device target this crate is the kernels. On the host it is what both sides share: the
//! argument structs in [`abi`] and the table of kernels in [`variants`](mod@variants); the kernels'
//! bodies are type-checked there, and never called.
//!
//! The order of the work of one operation, which is the order of launches:
//!
//! 1. `setup` turns the splits into the group table: offsets, pointers, tile counts, a verdict.
//!    Weights have no splits, so their quantization begins without.
//! 2. `quantize` turns high-precision weights or tokens into what the products read, or `gemm`
//!    multiplies, tile by tile over all groups.
//! 3. `reduce` sums what belongs to the bias.
//!
//! Nothing here trusts a split before `setup` has checked it: where its verdict is bad the table is
//! empty, and the kernels that read it write nothing.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
// A build has one module's entry points; on the host there are none.
#![allow(dead_code)]

pub mod abi;
pub mod variants;

mod agreement;
#[cfg(target_arch = "nvptx64")]
mod entries;
mod gemm;
mod quantize;
mod reduce;
mod setup;
mod table;
