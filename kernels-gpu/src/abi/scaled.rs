//! Arguments of the grouped GEMMs whose operands carry scales.

use super::mx::SCALE_TILE_BYTES;
use super::quantize::{BlockScales, Blocks, COLUMN_BLOCK, ROW_BLOCK, ScaleLayout};
use super::{GemmArgs, TensorMap};

/// Scales of the left operand in a box: the rows of a tile, and those from the last multiple of
/// [`SCALE_RUN`](super::quantize::SCALE_RUN) up to the first of them, since a copy starts at 16
/// bytes.
pub const A_SCALE_BOX: u32 = 128 + super::quantize::SCALE_RUN;
/// Scales of the right operand in a box: the columns of a tile.
pub const B_SCALE_BOX: u32 = 256;

/// How the sums of an FP8 product become FP32.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Accumulation {
    /// In the tensor core alone, which keeps about 14 bits on Hopper.
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
    /// Device address of [`AlignArgs::line_scales`], where `scale_inv` is that of
    /// [`AlignArgs::runs`]; else 0.
    pub line_scales: u64,
}

/// Tokens of a block of `align`, along one line.
pub const ALIGN_WINDOW: u32 = 1024;

/// A block's codes are aligned if the largest is at least this afterwards (or zero): no code
/// changes by more than 2⁻¹⁰ then, and the block by less than √128 · 2⁻¹⁰ / 12 < 10⁻³ of its norm.
/// Where scales are the largest powers of two that fit, the largest code of a block is 224 at
/// least, so its scale may be 2⁻⁴ of its line's.
pub const ALIGN_LEAST: f32 = 12.0;

/// Arguments of `align`, which gives the blocks of a line one scale: of a columnwise copy of tokens
/// in E4M3 with scales of [`Blocks::Vector`], in which a line is a column of the source.
///
/// In each group a line gets the largest of its blocks' scales. A block's codes are multiplied by
/// the quotient of its scale and the line's, a power of two, and rounded to nearest, ties to even,
/// if [`ALIGN_LEAST`] allows it; else they stay, and the quotient is the block's factor. Blocks of
/// zeros, whose scale is 1, count for nothing. A line with a scale that is no power of two between
/// 2⁻⁶⁰ and 2⁶⁰ stays as it is: its scale is 1, and the factors are the blocks' scales. So an
/// element is its code times its block's factor times its line's scale.
///
/// The grid is [`AlignArgs::grid`].
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::NoUninit))]
pub struct AlignArgs {
    /// Device address of the group table, with padded rows.
    pub table: u64,
    /// Device address of the codes, `[columns, pitch]`.
    pub codes: u64,
    /// Device address of `f32[blocks, scale_pitch]`, their scale_inv.
    pub scale_inv: u64,
    /// Device address of the aligned codes, laid out as `codes`.
    pub aligned: u64,
    /// Device address of the factors of blocks, laid out as `scale_inv`.
    pub factors: u64,
    /// Device address of `u8[groups, columns]`, the scales of lines: exponents, 127 for 1, as in
    /// E8M0.
    pub line_scales: u64,
    /// Device address of `u32[columns / 128, run_pitch]`, rounded up, along blocks: of how many
    /// blocks in a row, from this one on and as far as [`ALIGN_WINDOW`] reaches, the factors of all
    /// 128 lines are 1.
    pub runs: u64,
    /// Bytes from one line of codes to the next: padded tokens.
    pub pitch: u64,
    /// Elements from one row of scales to the next.
    pub scale_pitch: u64,
    /// Elements from one row of `runs` to the next, a multiple of the blocks of [`ALIGN_WINDOW`].
    pub run_pitch: u64,
    /// Number of groups.
    pub groups: u32,
    /// Lines: columns of the source, a multiple of 16.
    pub columns: u32,
    /// Zero.
    pub reserved: u64,
}

impl AlignArgs {
    /// Blocks of the launch for so many columns and padded tokens.
    pub const fn grid(columns: u64, padded_rows: u64) -> u64 {
        columns.div_ceil(COLUMN_BLOCK as u64) * padded_rows.div_ceil(ALIGN_WINDOW as u64)
    }
}

/// Where the outputs of `align` lie in scratch memory: offsets in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlignedCopy {
    /// [`AlignArgs::aligned`].
    pub codes: usize,
    /// [`AlignArgs::factors`].
    pub factors: usize,
    /// [`AlignArgs::line_scales`].
    pub line_scales: usize,
    /// [`AlignArgs::runs`].
    pub runs: usize,
    /// [`AlignArgs::run_pitch`].
    pub run_pitch: usize,
    /// Size of all.
    pub bytes: usize,
}

impl AlignedCopy {
    /// Where tensor copies may begin, and more.
    const ALIGNMENT: usize = 256;

    /// The layout for so many columns, padded tokens and groups, with this layout of scale_inv.
    #[inline] // Not emitted on the device.
    pub const fn layout(
        columns: usize,
        padded_rows: usize,
        groups: usize,
        scales: &BlockScales,
    ) -> Self {
        // A number for each square.
        let squares = BlockScales::columnwise(Blocks::Square, padded_rows as u64, columns as u64);
        let codes = 0;
        let factors = codes + (columns * padded_rows).next_multiple_of(Self::ALIGNMENT);
        let line_scales =
            factors + (4 * scales.elements() as usize).next_multiple_of(Self::ALIGNMENT);
        // Windows begin at multiples of their blocks in all rows.
        let run_pitch =
            (squares.pitch as usize).next_multiple_of((ALIGN_WINDOW / ROW_BLOCK) as usize);
        let runs = line_scales + (groups * columns).next_multiple_of(Self::ALIGNMENT);
        Self {
            codes,
            factors,
            line_scales,
            runs,
            run_pitch,
            bytes: runs + 4 * squares.outer as usize * run_pitch,
        }
    }
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
const _: () = assert!(size_of::<AlignArgs>() == 96);
const _: () = assert!(size_of::<ScaledGemmArgs>() == 832);
const _: () = assert!(size_of::<MxGemmArgs>() == 784);
const _: () = assert!(core::mem::offset_of!(ScaledGemmArgs, a_scale_map).is_multiple_of(64));
const _: () = {
    // One address names both.
    use core::mem::offset_of;
    assert!(offset_of!(MxGemmArgs, a_scale_map) == offset_of!(ScaledGemmArgs, a_scale_map));
    assert!(offset_of!(MxGemmArgs, b_scale_map) == offset_of!(ScaledGemmArgs, b_scale_map));
};
