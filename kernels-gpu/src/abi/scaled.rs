//! Arguments of the grouped GEMMs whose operands carry scales.

use super::mx::SCALE_TILE_BYTES;
use super::quantize::{Blocks, ScaleLayout};
use super::{GemmArgs, TensorMap};

/// Scales of the left operand in a box: the rows of a tile, and those from the last multiple of
/// [`SCALE_RUN`](super::quantize::SCALE_RUN) up to the first of them, since a copy starts at 16 bytes.
pub const A_SCALE_BOX: u32 = 128 + super::quantize::SCALE_RUN;
/// Scales of the right operand in a box: the columns of a tile.
pub const B_SCALE_BOX: u32 = 256;

/// How the sums of an FP8 product become FP32.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Accumulation {
    /// In the tensor core alone, which keeps about 14 bits.
    Fast = 0,
    /// The tensor core adds 128 products, which are then added in FP32.
    Promoted = 1,
}

/// The scales of both operands of an FP8 product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scaling {
    /// Of the left operand.
    pub a: Blocks,
    /// Of the right operand.
    pub b: Blocks,
    /// How sums grow.
    pub accumulation: Accumulation,
}

/// The scales of one operand. Those of [`Blocks::Tensor`] are in the group table's alpha.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::NoUninit))]
pub struct OperandScales {
    /// Device address of `f32` scale_inv; 0 for [`Blocks::Tensor`].
    pub scale_inv: u64,
    /// How they lie.
    pub layout: ScaleLayout,
    /// Zero.
    pub reserved: u64,
}

/// Arguments of the FP8 grouped GEMMs, `D_g = alpha_g · A_g · B_gᵀ + beta_g · D_g (+ bias)`, whose
/// operands both run along the reduction.
///
/// The maps of the data count bytes. A map of scales is that of a matrix `[outer, pitch]` of FP32
/// without swizzle, in boxes of [`A_SCALE_BOX`] or [`B_SCALE_BOX`] along `j`.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::NoUninit))]
pub struct ScaledGemmArgs {
    /// What every GEMM needs.
    pub gemm: GemmArgs,
    /// Tensor map of the left operand's scales ([`Blocks::Vector`] alone).
    pub a_scale_map: TensorMap,
    /// Tensor map of the right operand's scales ([`Blocks::Vector`] alone).
    pub b_scale_map: TensorMap,
    /// Scales of the left operand.
    pub a_scales: OperandScales,
    /// Scales of the right operand.
    pub b_scales: OperandScales,
}

/// Words of a tile of block scales: the rows of the matrices that their maps describe.
pub const SCALE_TILE_WORDS: u32 = SCALE_TILE_BYTES / 4;

/// Arguments of the grouped GEMMs of codes in MXFP8 or NVFP4, `D_g = alpha_g · A_g · B_g + beta_g ·
/// D_g (+ bias)`, whose tensor cores apply the scales of blocks.
///
/// The maps of the data count bytes. The block scales of both operands are swizzled
/// ([`MxScales`](super::mx::MxScales)); their maps are of matrices `[tiles, SCALE_TILE_WORDS]` of
/// words without swizzle, in boxes of as many tiles as a stage has along the reduction.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::NoUninit))]
pub struct MxGemmArgs {
    /// What every GEMM needs.
    pub gemm: GemmArgs,
    /// Tensor map of the left operand's scales.
    pub a_scale_map: TensorMap,
    /// Tensor map of the right operand's scales.
    pub b_scale_map: TensorMap,
    /// 1: the left operand has elements of E5M2, not E4M3 (MXFP8 alone).
    pub a_e5m2: u32,
    /// 1: the right operand has elements of E5M2, not E4M3 (MXFP8 alone).
    pub b_e5m2: u32,
    /// Zero.
    pub reserved: u64,
}

const _: () = assert!(size_of::<OperandScales>() == 32);
const _: () = assert!(size_of::<ScaledGemmArgs>() == 832);
const _: () = assert!(size_of::<MxGemmArgs>() == 784);
const _: () = assert!(core::mem::offset_of!(ScaledGemmArgs, a_scale_map).is_multiple_of(64));
const _: () = {
    // One address names both.
    use core::mem::offset_of;
    assert!(offset_of!(MxGemmArgs, a_scale_map) == offset_of!(ScaledGemmArgs, a_scale_map));
    assert!(offset_of!(MxGemmArgs, b_scale_map) == offset_of!(ScaledGemmArgs, b_scale_map));
};
