//! MXFP8 and NVFP4: quantize, measure, dequantize, and reorder scales.
//!
//! # Tiles
//!
//! Blocks of threads walk the tiles of 128 × 128 of all groups, along the columns first. A tile's
//! rows end with its group: rows past it are not read and count as zeros, so what is padded comes
//! out as zeros by itself. A thread keeps its elements in registers from the one read of the source
//! to the last store: nothing but scales, and the codes of transposed copies, goes through shared
//! memory.
//!
//! | | threads | elements of a thread | rows that a warp loads at once |
//! | --- | --- | --- | --- |
//! | MXFP8 | 256 | 8 rows × 8 columns | 4 × 128 bytes (BF16) |
//! | NVFP4 | 128 | 16 rows × 8 columns | 2 × 256 bytes (BF16) |
//!
//! # Bandwidth
//!
//! Memory hands about 17 bytes a cycle to a multiprocessor of an H200 (4 TB/s at 1.75 GHz), about
//! 1500 cycles after they were asked for: 25 KiB must be in flight. A tile of BF16 is 32 KiB,
//! loaded at once, and two blocks of MXFP8 (128 registers), or three of NVFP4 (168), stand on a
//! multiprocessor, so that one loads while others compute.
//!
//! What they may compute at that rate for each element, in instructions, of which 128 go a cycle,
//! half as many integers, minima, conversions and moves of bytes:
//!
//! | | bytes of an element | instructions at 85 % (one copy), 80 % (both) |
//! | --- | --- | --- |
//! | MXFP8, one copy | 3 | 26 |
//! | MXFP8, both | 4 | 37 |
//! | NVFP4, one copy | 2.6 | 23 |
//! | NVFP4, both | 3.1 | 29 |
//! | NVFP4, both with exact copies | 7.1 | 66 |
//!
//! They take about 10 and 18 for MXFP8, about 13 for the rowwise copy of NVFP4, 20 for its
//! columnwise one with the transform, and 5 for each exact copy; random rounding adds about 15.
//! Hence the shortcuts of [`e2m1`], and packed maxima in [`source`]. Both NVFP4 copies without
//! exact ones are thus bound by instructions.

pub mod amax;
pub mod dequantize;
mod e2m1;
mod e8m0;
mod hadamard;
pub mod mxfp8;
pub mod nvfp4;
mod philox;
mod scales;
mod scaling;
mod source;
pub mod swizzle;
mod tiles;
pub mod unroll;
