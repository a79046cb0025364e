//! FP8 operands, which both run along the reduction: how they lie, and their scales.
//!
//! A stage is 128 elements deep, as many as share a scale. What a scale belongs to decides its road:
//!
//! | blocks | scales of a stage | road |
//! | --- | --- | --- |
//! | tensor | none | in the group table's alpha |
//! | vector | one for each row of A or column of B | a box beside the stage, by tensor copy |
//! | square | one for all 128 rows or columns | one load, a stage ahead |
//!
//! Boxes of scales that hang over the end of a group hold the next group's, and what stands past the
//! last row or column may be anything: such a scale meets only sums that are not stored.
//!
//! | ragged | A: 128 rows of the tile | B: 256 columns of the tile |
//! | --- | --- | --- |
//! | rows | tokens, one box (128 of K, 128 tokens) | weights, one box (128 of K, 256 of N) |
//! | reduction | one box (128 padded tokens, 128 features) | one box (128 padded tokens, 256 features) |
//!
//! A ragged reduction runs over the padded tokens of the transposed copies, which are zeros in
//! memory; so nothing is cleared.

use core::marker::PhantomData;

use ptx_std::hint::opaque;
use ptx_std::tma::{load_2d, load_3d, prefetch_map};
use ptx_std::wgmma::{Descriptor, KMajor};

use super::super::element::{Multiply, MultiplyStage};
use super::ring::{A_SCALE_BYTES, B_SCALE_BYTES, B_SCALES, STAGE_BYTES};
use super::schedule::{Copies, Schedule};
use super::{A_BYTES, BLOCK_BYTES, part};
use crate::abi::quantize::{Blocks, COLUMN_BLOCK, ROW_BLOCK, SCALE_RUN};
use crate::abi::scaled::ScaledGemmArgs;

mod promote;
mod scales;

use self::promote::Tall;

/// Reduction indices of a stage, and of a block of scales.
pub const DEPTH: u32 = 128;

const _: () = assert!(DEPTH == ROW_BLOCK && DEPTH == COLUMN_BLOCK, "a stage has one scale");

/// Offset of the left operand's map of scales in the argument.
const A_SCALE_MAP: u64 = core::mem::offset_of!(ScaledGemmArgs, a_scale_map) as u64;
/// Offset of the right operand's map of scales in the argument.
const B_SCALE_MAP: u64 = core::mem::offset_of!(ScaledGemmArgs, b_scale_map) as u64;

const _: () = assert!(core::mem::offset_of!(ScaledGemmArgs, gemm) == 0, "one address names both");
const _: () = assert!(A_SCALE_MAP.is_multiple_of(64) && B_SCALE_MAP.is_multiple_of(64));

/// The blocks of an operand that share a scale.
pub trait Scales {
    /// Which blocks.
    const BLOCKS: Blocks;
    /// Whether there are scales but that of the group.
    const SCALED: bool = Self::VECTOR || Self::SQUARE;
    /// Whether each row or column has its own scales.
    const VECTOR: bool = matches!(Self::BLOCKS, Blocks::Vector);
    /// Whether 128 rows or columns share a scale.
    const SQUARE: bool = matches!(Self::BLOCKS, Blocks::Square);
}

/// One scale for all elements of a group.
pub struct Tensor;
/// Scales of 128 neighbours along the reduction.
pub struct Vector;
/// Scales of 128 × 128 elements.
pub struct Square;

impl Scales for Tensor {
    const BLOCKS: Blocks = Blocks::Tensor;
}

impl Scales for Vector {
    const BLOCKS: Blocks = Blocks::Vector;
}

impl Scales for Square {
    const BLOCKS: Blocks = Blocks::Square;
}

/// `D_g = A_g · B_gᵀ` of tokens and weights: fprop, and dgrad with transposed weights.
pub struct Rows<A, B>(PhantomData<(A, B)>);
/// `D_g = A_gᵀ · B_g` of tokens and tokens, both transposed in memory: wgrad.
pub struct Reduction<A, B>(PhantomData<(A, B)>);

/// A schedule with scales.
pub trait Scaled: Schedule<A = KMajor, B = KMajor> {
    /// Scales of the left operand.
    type AScales: Scales;
    /// Scales of the right operand.
    type BScales: Scales;
}

impl<A: Scales, B: Scales> Scaled for Rows<A, B> {
    type AScales = A;
    type BScales = B;
}

impl<A: Scales, B: Scales> Scaled for Reduction<A, B> {
    type AScales = A;
    type BScales = B;
}

/// How far a token is past a place where a copy of scales may start: all first rows of a group's
/// tiles are equally far.
#[inline(always)]
fn skew(token: u32) -> u32 {
    token % SCALE_RUN
}

/// Bytes that the copies of a stage bring.
const fn stage_bytes<A: Scales, B: Scales>() -> u32 {
    let a_scales = if A::VECTOR { A_SCALE_BYTES } else { 0 };
    let b_scales = if B::VECTOR { B_SCALE_BYTES } else { 0 };
    STAGE_BYTES + a_scales + b_scales
}

#[inline(always)]
unsafe fn prefetch_scale_maps<A: Scales, B: Scales>(args: u64) {
    // SAFETY: the maps are part of the argument.
    unsafe {
        if A::VECTOR {
            prefetch_map(args + A_SCALE_MAP);
        }
        if B::VECTOR {
            prefetch_map(args + B_SCALE_MAP);
        }
    }
}

impl<A: Scales, B: Scales> Schedule for Rows<A, B> {
    type A = KMajor;
    type B = KMajor;
    const RAGGED_REDUCTION: bool = false;
    const ONE_MAP: bool = true;
    const DEPTH: u32 = DEPTH;
    const STAGE_BYTES: u32 = stage_bytes::<A, B>();

    #[inline(always)]
    unsafe fn prefetch_scale_maps(args: u64) {
        // SAFETY: handed to the caller.
        unsafe { prefetch_scale_maps::<A, B>(args) }
    }

    #[inline(always)]
    unsafe fn copy(c: &Copies) {
        let block = c.reduction / DEPTH;
        // SAFETY: handed to the caller.
        unsafe {
            load_2d(c.stage, c.a_map, c.reduction, c.token + c.row, c.full);
            load_3d(c.stage + A_BYTES, c.b_map, c.reduction, c.column, c.b_group, c.full);
            if A::VECTOR {
                // Not kept beside the token, in the few registers of a thread that copies.
                let token = opaque(c.token + c.row);
                load_2d(c.scales, c.args + A_SCALE_MAP, token - skew(token), block, c.full);
            }
            if B::VECTOR {
                // The weights lie in one piece, and so do their matrices of scales.
                let block = c.b_group * c.stages + block;
                let destination = c.scales + B_SCALES;
                load_2d(destination, c.args + B_SCALE_MAP, c.column, block, c.full);
            }
        }
    }

    #[inline(always)]
    fn a(stage: u32, index: u32) -> Descriptor<KMajor> {
        Descriptor::k_major(stage + index * BLOCK_BYTES)
    }

    #[inline(always)]
    fn b(stage: u32) -> Descriptor<KMajor> {
        Descriptor::k_major(stage + A_BYTES)
    }
}

impl<A: Scales, B: Scales> Schedule for Reduction<A, B> {
    type A = KMajor;
    type B = KMajor;
    const RAGGED_REDUCTION: bool = true;
    const PADDED: bool = true;
    const ONE_MAP: bool = true;
    const DEPTH: u32 = DEPTH;
    const STAGE_BYTES: u32 = stage_bytes::<A, B>();

    #[inline(always)]
    unsafe fn prefetch_scale_maps(args: u64) {
        // SAFETY: handed to the caller.
        unsafe { prefetch_scale_maps::<A, B>(args) }
    }

    #[inline(always)]
    unsafe fn copy(c: &Copies) {
        let token = c.token + c.reduction;
        let block = token / DEPTH;
        // SAFETY: handed to the caller.
        unsafe {
            load_2d(c.stage, c.a_map, token, c.row, c.full);
            load_2d(c.stage + A_BYTES, c.b_map, token, c.column, c.full);
            if A::VECTOR {
                load_2d(c.scales, c.args + A_SCALE_MAP, c.row, block, c.full);
            }
            if B::VECTOR {
                let destination = c.scales + B_SCALES;
                load_2d(destination, c.args + B_SCALE_MAP, c.column, block, c.full);
            }
        }
    }

    #[inline(always)]
    fn a(stage: u32, index: u32) -> Descriptor<KMajor> {
        Descriptor::k_major(stage + index * BLOCK_BYTES)
    }

    #[inline(always)]
    fn b(stage: u32) -> Descriptor<KMajor> {
        Descriptor::k_major(stage + A_BYTES)
    }
}

/// The kernel that leaves its sums in the tensor core, which keeps about 14 bits of them.
///
/// # Safety
///
/// As [`run`](super::run); `args_address` is the address of the whole argument. The weights have
/// one map.
#[inline(always)]
pub unsafe fn run_fast<S, E>(args: &ScaledGemmArgs, args_address: u64)
where
    S: Scaled<AScales = Tensor, BScales = Tensor>,
    E: Multiply<KMajor, KMajor>,
{
    // SAFETY: handed to the caller.
    unsafe { super::run::<S, E>(&args.gemm, args_address) }
}

/// The kernel that takes its sums from the tensor core after every stage, scales them and adds them
/// up in binary32.
///
/// # Safety
///
/// As [`run`](super::run), with [`SCALED_SHARED_BYTES`](super::ring::SCALED_SHARED_BYTES) of dynamic
/// shared memory where a stage brings scales; `args_address` is the address of the whole argument.
/// The weights have one map, and their scales, too.
#[inline(always)]
pub unsafe fn run_promoted<S: Scaled, E: MultiplyStage>(args: &ScaledGemmArgs, args_address: u64) {
    // SAFETY: handed to the caller.
    unsafe { part::<Tall<S, E>, 24, 240>(args, args_address) }
}
