//! FP8 operands, which both run along the reduction: how they lie, and their scales.
//!
//! A stage is 128 elements deep, as many as share a scale. What a scale belongs to decides its
//! road:
//!
//! | blocks | scales of a stage | road |
//! | --- | --- | --- |
//! | tensor | none | in the group table's alpha |
//! | vector | one for each row of A or column of B | a box beside the stage, by tensor copy |
//! | square | one for all 128 rows or columns | one load, a stage ahead |
//!
//! Boxes of scales that hang over the end of a group hold the next group's, and what stands past
//! the last row or column may be anything: such a scale meets only sums that are not stored.
//!
//! | ragged | A: 128 rows of the tile | B: 256 columns of the tile |
//! | --- | --- | --- |
//! | rows | tokens, one box (128 of K, 128 tokens) | weights, one box (128 of K, 256 of N) |
//! | reduction | one box (128 padded tokens, 128 features) | one box (128 padded tokens, 256 features) |
//!
//! A ragged reduction runs over the padded tokens of the transposed copies, which are zeros in
//! memory; so nothing is cleared.

use ptx_std::hint::opaque;
use ptx_std::tma::{load_2d, load_3d};
use ptx_std::wgmma::{Descriptor, KMajor};

use super::super::element::{Multiply, MultiplyStage};
use super::super::product::{FP8_DEPTH, Reduction, Rows, Scaled};
use super::super::scales::{
    A_SCALE_MAP, B_SCALE_MAP, B_SCALES, Scales, Tensor, prefetch_scale_maps, scale_bytes, skew,
};
use super::super::shape::BLOCK_BYTES;
use super::ring::STAGE_BYTES;
use super::schedule::{Copies, Schedule};
use super::{A_BYTES, part};
use crate::abi::scaled::ScaledGemmArgs;

mod promote;

use self::promote::{Deep, Tall};

/// A schedule of operands with scales.
pub trait ScaledSchedule: Schedule<A = KMajor, B = KMajor> + Scaled {}

impl<S: Schedule<A = KMajor, B = KMajor> + Scaled> ScaledSchedule for S {}

impl<A: Scales, B: Scales> Schedule for Rows<A, B> {
    type A = KMajor;
    type B = KMajor;
    const RAGGED_REDUCTION: bool = false;
    const ONE_MAP: bool = true;
    const DEPTH: u32 = FP8_DEPTH;
    const STAGE_BYTES: u32 = STAGE_BYTES + scale_bytes::<A, B>();

    #[inline(always)]
    unsafe fn prefetch_scale_maps(args: u64) {
        // SAFETY: handed to the caller.
        unsafe { prefetch_scale_maps::<A, B>(args) }
    }

    #[inline(always)]
    unsafe fn copy(c: &Copies) {
        let block = c.reduction / FP8_DEPTH;
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
    const DEPTH: u32 = FP8_DEPTH;
    const STAGE_BYTES: u32 = STAGE_BYTES + scale_bytes::<A, B>();

    #[inline(always)]
    unsafe fn prefetch_scale_maps(args: u64) {
        // SAFETY: handed to the caller.
        unsafe { prefetch_scale_maps::<A, B>(args) }
    }

    #[inline(always)]
    unsafe fn copy(c: &Copies) {
        let token = c.token + c.reduction;
        let block = token / FP8_DEPTH;
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
    S: ScaledSchedule<AScales = Tensor, BScales = Tensor>,
    E: Multiply<KMajor, KMajor, 128>,
{
    // SAFETY: handed to the caller.
    unsafe { super::run::<S, E, 128>(&args.gemm, args_address) }
}

/// The kernel that takes its sums from the tensor core after every stage, scales them and adds them
/// up in binary32.
///
/// # Safety
///
/// As [`run`](super::run), with [`SCALED_SHARED_BYTES`](super::ring::Rooms::SCALED_SHARED_BYTES) of
/// dynamic shared memory; `args_address` is the address of the whole argument. The weights have one
/// map, and their scales, too.
#[inline(always)]
pub unsafe fn run_promoted<S: ScaledSchedule, E: MultiplyStage>(
    args: &ScaledGemmArgs,
    args_address: u64,
) {
    // SAFETY: handed to the caller.
    unsafe { part::<Tall<S, E>, 24, 240>(args, args_address) }
}

/// [`run_promoted`] where stages bring no scales, which leaves room for a fourth one.
///
/// # Safety
///
/// As [`run`](super::run); `args_address` is the address of the whole argument. The weights have
/// one map.
#[inline(always)]
pub unsafe fn run_promoted_tensor<S, E>(args: &ScaledGemmArgs, args_address: u64)
where
    S: ScaledSchedule<AScales = Tensor, BScales = Tensor>,
    E: MultiplyStage,
{
    // SAFETY: handed to the caller.
    unsafe { part::<Deep<S, E>, 24, 240>(args, args_address) }
}
