//! MXFP8 and NVFP4: quantize, measure, dequantize, and reorder scales.
//!
//! # Tiles
//!
//! The tiles of all groups, 128 × 128, are numbered along the columns first. A block measures or
//! quantizes one; those of NVFP4's general kernels and of its squares that are read once walk over
//! several, and so do those that restore, or reorder scales. A tile's rows end with its group: rows
//! past it are not read and count as zeros, so what is padded comes out as zeros by itself. A
//! thread keeps its elements in registers from the read of the source to the last store, but for
//! NVFP4's lines, whose pieces wait in shared memory, and squares that are read once, which wait
//! there for their group's largest magnitude, and are taken from it twice: else nothing but scales,
//! sums of columns, and the codes of transposed copies, goes through it.
//!
//! | | threads | elements of a thread | at a time | rows that a warp loads at once |
//! | --- | --- | --- | --- | --- |
//! | MXFP8 | 256 | 8 rows × 8 columns | all | 4 × 128 bytes (BF16) |
//! | NVFP4's lines, rowwise | 128 | four pieces of 4 rows × 8 columns | a piece's | 4 × 128 bytes |
//! | NVFP4's lines, columnwise | 128 | four pieces of 16 rows × 2 columns | a piece's | the same |
//! | NVFP4's squares, read once | 256, and 32 that copy | 4 rows × 16 columns | half | 2 × 256 bytes |
//! | NVFP4, all else | 128 | 16 rows × 8 columns | all of squares | 2 × 256 bytes (BF16) |
//!
//! # Bandwidth
//!
//! Memory hands about 17 bytes a cycle to a multiprocessor of an H200 (4 TB/s at 1.75 GHz), about
//! 1500 cycles after they were asked for: 25 KiB must be in flight. A tile of BF16 is 32 KiB, of
//! which three blocks of MXFP8 (80 registers) load all at once, and seven of NVFP4's lines in codes
//! (72) or five of those of exact numbers (96) a quarter each while they compute the one before.
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
//! They take about 10 and 18 for MXFP8. NVFP4's lines execute, by counters (s01 on an H200,
//! 2026-11-29), what finds the tile and stores what was collected included:
//!
//! | | rowwise | columnwise | transformed | both | both, transformed |
//! | --- | --- | --- | --- | --- | --- |
//! | codes | 15.5 | 14.4 | 20.4 | 26.5 | 32.5 |
//! | exact numbers | 14.2 | 14.6 | 21.0 | 26.2 | 32.5 |
//! | codes, rounded at random | 19.4 | | 26.3 | | 42.1 |
//! | exact numbers, rounded at random | 17.0 | | 24.7 | | 38.7 |
//!
//! Hence the shortcuts of [`e2m1`] and of [`scaling`], and packed maxima in [`source`]. Rounded to
//! nearest, one copy is bound by its two reads; transformed and rounded at random it is bound by
//! instructions, too (docs/performance.md).

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
