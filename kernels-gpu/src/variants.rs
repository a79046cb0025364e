//! The one table of kernel entry points. [`variants!`](crate::variants!) is expanded twice: on the
//! device to `extern "ptx-kernel"` functions (in `entries.rs`), on the host to [`KERNELS`], so that
//! names, threads, shared-memory bytes and tiles cannot disagree.

use crate::abi::mx::{
    MxDequantizeArgs, Mxfp8Args, Nvfp4Args, Nvfp4GroupAmaxArgs, Nvfp4RowAmaxArgs,
    Nvfp4TileAmaxArgs, Nvfp4Way, SwizzleArgs,
};
use crate::abi::pad::PadArgs;
use crate::abi::quantize::{
    Blocks, DequantizeArgs, QUANTIZE_BLOCKS, QuantizeArgs, ScaleArgs, UpdateScalesArgs,
};
use crate::abi::scaled::{Accumulation, AlignArgs, MxGemmArgs, ScaledGemmArgs, Scaling};
use crate::abi::{
    CastArgs, DbiasArgs, DscalesArgs, ElementType, GemmArgs, Pass, Ragged, SetupArgs,
};

/// Rows, columns and reduction depth of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Output rows.
    pub m: u32,
    /// Output columns.
    pub n: u32,
    /// Reduction indices per pipeline stage.
    pub k: u32,
}

/// An architecture that kernels are compiled for. PTX for one of these runs on no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// Hopper, compute capability 9.0.
    Sm90a,
    /// Blackwell, compute capability 10.0.
    Sm100a,
}

impl Target {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Sm90a, Self::Sm100a];

    /// Its name, as compilers know it.
    #[inline] // Not emitted on the device.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sm90a => "sm_90a",
            Self::Sm100a => "sm_100a",
        }
    }
}

/// What a kernel is for; the host finds a row by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// FP32 to this type.
    Cast(ElementType),
    /// Splits to group table.
    PointerSetup,
    /// Sums of dY over the rows of one segment.
    DbiasPartial,
    /// Sums of the segments of one group.
    DbiasReduce,
    /// Row products of dY and the bias.
    Dscales,
    /// The readable grouped GEMM, any pass, for operands of one type.
    GemmSimt(ElementType),
    /// The wgmma grouped GEMM of 16-bit operands.
    GemmSm90(Sm90Gemm),
    /// Largest magnitudes of the tiles of a tensor to be quantized.
    AmaxTiles,
    /// Scales of groups from the magnitudes of their tiles.
    GroupScales,
    /// Scales of groups from histories of magnitudes.
    UpdateScales,
    /// FP32 to FP8, with a scale for each of these blocks.
    QuantizeFp8(Blocks),
    /// The same of 16-bit elements, into a rowwise copy alone.
    QuantizeFp8Rows(Blocks),
    /// The same, into a columnwise copy or both, or with sums of columns.
    QuantizeFp8Columns(Blocks),
    /// 16-bit elements to a rowwise copy in FP8, with the scale of each group from its own
    /// magnitudes.
    QuantizeCurrentRows,
    /// The same, into a columnwise copy or both, or with sums of columns.
    QuantizeCurrentColumns,
    /// From FP8.
    DequantizeFp8,
    /// To MXFP8, from this type.
    QuantizeMxfp8(ElementType),
    /// From MXFP8.
    DequantizeMxfp8,
    /// Block scales of MXFP8 and NVFP4 from one order to the other.
    SwizzleScales,
    /// Largest magnitudes of tiles for NVFP4, of this type, as they are and transformed.
    Nvfp4TileAmax(ElementType),
    /// Largest magnitudes of groups from those of their tiles.
    Nvfp4GroupAmax,
    /// Largest magnitudes of rows.
    Nvfp4RowAmax,
    /// To NVFP4 in this way, from this type.
    QuantizeNvfp4(Nvfp4Way, ElementType),
    /// From NVFP4.
    DequantizeNvfp4,
    /// Tokens to padded groups.
    PadRows,
    /// Tokens from padded groups.
    UnpadRows,
    /// One scale for all blocks of a line of a columnwise copy in FP8, for Hopper's wgrad.
    Align,
    /// The wgmma grouped GEMM of FP8 operands that both run along the reduction.
    GemmFp8(Fp8Gemm),
    /// The tcgen05 grouped GEMM.
    GemmSm100(Sm100Gemm),
}

/// Which wgmma kernel of 16-bit operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sm90Gemm {
    /// How the operands lie.
    pub pass: Pass,
    /// Their type.
    pub element: ElementType,
    /// Whether a tile has 240 columns, not 256.
    pub narrow: bool,
}

/// Which tcgen05 kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sm100Gemm {
    /// What it multiplies.
    pub product: Sm100Product,
    /// Whether two blocks make a tile together: of 256 rows, then, not 128.
    pub pair: bool,
}

/// What a tcgen05 kernel multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sm100Product {
    /// Operands of this 16-bit type, as they lie in this pass.
    Sixteen(Pass, ElementType),
    /// FP8 operands that both run along the reduction. The tensor core sums in FP32, so there is
    /// one kernel for both kinds of [`Accumulation`] where each group has one scale: that of
    /// [`Accumulation::Fast`].
    Fp8(Fp8Gemm),
    /// Codes in MXFP8, as they lie in this pass.
    Mxfp8(Pass),
    /// Codes in NVFP4, which run along the reduction of this pass.
    Nvfp4(Pass),
}

/// Which FP8 product a kernel computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fp8Gemm {
    /// Which dimension is a group's rows: fprop and dgrad are one kernel.
    pub ragged: Ragged,
    /// Type of the left operand; the right operand is E4M3.
    pub a: ElementType,
    /// Scales of the operands.
    pub scaling: Scaling,
    /// Whether the vectors of the right operand have been brought to one scale for each column
    /// ([`Role::Align`]).
    pub aligned: bool,
}

/// One row of the table: a kernel and how it must be launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Entry point in the PTX.
    pub name: &'static str,
    /// PTX module that holds it.
    pub module: &'static str,
    /// What it is for.
    pub role: Role,
    /// Bytes of its one parameter.
    pub args_bytes: usize,
    /// Threads per block, exactly (`.reqntid`).
    pub threads: u32,
    /// Blocks of a cluster, in x; 1: no clusters.
    pub cluster: u32,
    /// Dynamic shared memory per block, bytes.
    pub shared_bytes: u32,
    /// Output tile of one block; for reductions and casts the rows and columns that one block
    /// covers.
    pub tile: Tile,
}

impl Kernel {
    /// Blocks that a multiprocessor holds at once, by registers and shared memory: persistent
    /// kernels are launched with as many for each.
    #[inline] // Not emitted on the device.
    pub fn blocks_per_multiprocessor(&self) -> u32 {
        match self.role {
            Role::QuantizeFp8(_) => QUANTIZE_BLOCKS,
            Role::AmaxTiles | Role::QuantizeFp8Rows(_) | Role::QuantizeFp8Columns(_) => 4,
            Role::QuantizeCurrentRows | Role::QuantizeCurrentColumns => 2,
            Role::DequantizeFp8 | Role::PadRows | Role::UnpadRows => 4,
            Role::Align => 5,
            Role::QuantizeMxfp8(ElementType::F32) => 2,
            Role::QuantizeMxfp8(_) => 3,
            Role::QuantizeNvfp4(Nvfp4Way::Lines, _) => 7,
            Role::QuantizeNvfp4(Nvfp4Way::ExactLines, _) => 5,
            Role::QuantizeNvfp4(Nvfp4Way::General, _) => 3,
            Role::QuantizeNvfp4(Nvfp4Way::SquaresOnce, _) => 2,
            Role::QuantizeNvfp4(Nvfp4Way::Squares, ElementType::Bf16) => 4,
            Role::QuantizeNvfp4(_, ElementType::F32) | Role::Nvfp4TileAmax(ElementType::F32) => 2,
            Role::QuantizeNvfp4(..) => 3,
            Role::Nvfp4TileAmax(_) => 5,
            _ => 1,
        }
    }

    /// Whether the kernel is compiled for `target`: tensor cores differ, all else runs on either.
    #[inline] // Not emitted on the device.
    pub fn runs_on(&self, target: Target) -> bool {
        match self.role {
            Role::GemmSm90(..) | Role::GemmFp8(_) | Role::Align => target == Target::Sm90a,
            Role::GemmSm100(_) => target == Target::Sm100a,
            _ => true,
        }
    }

    /// Whether each block walks over tiles. Of other kernels a block takes one tile, so the launch
    /// has as many blocks as there are tiles.
    #[inline] // Not emitted on the device.
    pub fn is_persistent(&self) -> bool {
        !matches!(
            self.role,
            Role::AmaxTiles
                | Role::QuantizeFp8(_)
                | Role::QuantizeFp8Rows(_)
                | Role::QuantizeFp8Columns(_)
                | Role::Align
                | Role::QuantizeMxfp8(_)
                | Role::Nvfp4TileAmax(_)
                | Role::QuantizeNvfp4(
                    Nvfp4Way::Lines | Nvfp4Way::ExactLines | Nvfp4Way::Squares,
                    _
                )
        )
    }
}

/// Calls `$callback!` with every row:
/// `feature module name(Args) = body, role, threads, cluster, shared, tile;`.
#[macro_export]
macro_rules! variants {
    ($callback:ident) => {
        $callback! {
            "module-quantize" "quantize" cast_bf16(CastArgs) = $crate::quantize::cast::run::<Bf16>,
                role: Role::Cast(ElementType::Bf16), threads: 256, cluster: 1, shared: 0, tile: (1, 2048, 1);
            "module-quantize" "quantize" cast_f16(CastArgs) = $crate::quantize::cast::run::<F16>,
                role: Role::Cast(ElementType::F16), threads: 256, cluster: 1, shared: 0, tile: (1, 2048, 1);

            "module-quantize-fp8" "quantize_fp8" amax_tiles(QuantizeArgs) = $crate::quantize::fp8::amax_tiles,
                role: Role::AmaxTiles, threads: 256, cluster: 1, shared: 96, tile: (128, 128, 1);
            "module-quantize-fp8" "quantize_fp8" group_scales(ScaleArgs) = $crate::quantize::fp8::group_scales::run,
                role: Role::GroupScales, threads: 256, cluster: 1, shared: 32, tile: (1, 1, 1);
            "module-quantize-fp8" "quantize_fp8" update_scales(UpdateScalesArgs) = $crate::quantize::fp8::update_scales::run,
                role: Role::UpdateScales, threads: 256, cluster: 1, shared: 256, tile: (1, 1, 1);
            "module-quantize-fp8" "quantize_fp8" quantize_tensor(QuantizeArgs) = $crate::quantize::fp8::quantize_tensor,
                role: Role::QuantizeFp8(Blocks::Tensor), threads: 256, cluster: 1, shared: 65_760, tile: (128, 128, 1);
            "module-quantize-fp8" "quantize_fp8" quantize_vector(QuantizeArgs) = $crate::quantize::fp8::quantize_vector,
                role: Role::QuantizeFp8(Blocks::Vector), threads: 256, cluster: 1, shared: 65_760, tile: (128, 128, 1);
            "module-quantize-fp8" "quantize_fp8" quantize_square(QuantizeArgs) = $crate::quantize::fp8::quantize_square,
                role: Role::QuantizeFp8(Blocks::Square), threads: 256, cluster: 1, shared: 65_760, tile: (128, 128, 1);
            "module-quantize-fp8" "quantize_fp8" dequantize(DequantizeArgs) = $crate::quantize::fp8::dequantize::run,
                role: Role::DequantizeFp8, threads: 256, cluster: 1, shared: 16_384, tile: (128, 128, 1);

            "module-quantize-fp8-rows" "quantize_fp8_rows" quantize_tensor_rows(QuantizeArgs) = $crate::quantize::fp8::quantize_tensor_rows,
                role: Role::QuantizeFp8Rows(Blocks::Tensor), threads: 256, cluster: 1, shared: 96, tile: (128, 128, 1);
            "module-quantize-fp8-rows" "quantize_fp8_rows" quantize_vector_rows(QuantizeArgs) = $crate::quantize::fp8::quantize_vector_rows,
                role: Role::QuantizeFp8Rows(Blocks::Vector), threads: 256, cluster: 1, shared: 96, tile: (128, 128, 1);
            "module-quantize-fp8-rows" "quantize_fp8_rows" quantize_square_rows(QuantizeArgs) = $crate::quantize::fp8::quantize_square_rows,
                role: Role::QuantizeFp8Rows(Blocks::Square), threads: 256, cluster: 1, shared: 96, tile: (128, 128, 1);

            "module-quantize-fp8-columns" "quantize_fp8_columns" quantize_tensor_columns(QuantizeArgs) = $crate::quantize::fp8::quantize_tensor_columns,
                role: Role::QuantizeFp8Columns(Blocks::Tensor), threads: 256, cluster: 1, shared: 21_120, tile: (128, 128, 1);
            "module-quantize-fp8-columns" "quantize_fp8_columns" quantize_vector_columns(QuantizeArgs) = $crate::quantize::fp8::quantize_vector_columns,
                role: Role::QuantizeFp8Columns(Blocks::Vector), threads: 256, cluster: 1, shared: 21_120, tile: (128, 128, 1);
            "module-quantize-fp8-columns" "quantize_fp8_columns" quantize_square_columns(QuantizeArgs) = $crate::quantize::fp8::quantize_square_columns,
                role: Role::QuantizeFp8Columns(Blocks::Square), threads: 256, cluster: 1, shared: 21_120, tile: (128, 128, 1);

            "module-quantize-fp8-current" "quantize_fp8_current" quantize_current_rows(QuantizeArgs) = $crate::quantize::fp8::quantize_current_rows,
                role: Role::QuantizeCurrentRows, threads: 288, cluster: 1, shared: 99_072, tile: (128, 128, 1);
            "module-quantize-fp8-current" "quantize_fp8_current" quantize_current_columns(QuantizeArgs) = $crate::quantize::fp8::quantize_current_columns,
                role: Role::QuantizeCurrentColumns, threads: 288, cluster: 1, shared: 102_400, tile: (128, 128, 1);

            "module-quantize-mxfp8" "quantize_mxfp8" quantize_mxfp8_bf16(Mxfp8Args) = $crate::quantize::mx::mxfp8::run::<Bf16>,
                role: Role::QuantizeMxfp8(ElementType::Bf16), threads: 256, cluster: 1, shared: 3072, tile: (128, 128, 1);
            "module-quantize-mxfp8" "quantize_mxfp8" quantize_mxfp8_f16(Mxfp8Args) = $crate::quantize::mx::mxfp8::run::<F16>,
                role: Role::QuantizeMxfp8(ElementType::F16), threads: 256, cluster: 1, shared: 3072, tile: (128, 128, 1);
            "module-quantize-mxfp8" "quantize_mxfp8" quantize_mxfp8_f32(Mxfp8Args) = $crate::quantize::mx::mxfp8::run::<F32>,
                role: Role::QuantizeMxfp8(ElementType::F32), threads: 256, cluster: 1, shared: 3072, tile: (128, 128, 1);
            "module-quantize-mxfp8" "quantize_mxfp8" mxfp8_dequantize(MxDequantizeArgs) = $crate::quantize::mx::dequantize::mxfp8,
                role: Role::DequantizeMxfp8, threads: 256, cluster: 1, shared: 0, tile: (128, 128, 1);
            "module-quantize-mxfp8" "quantize_mxfp8" swizzle_scales(SwizzleArgs) = $crate::quantize::mx::swizzle::run,
                role: Role::SwizzleScales, threads: 256, cluster: 1, shared: 0, tile: (128, 128, 1);

            "module-quantize-nvfp4" "quantize_nvfp4" nvfp4_tile_amax_bf16(Nvfp4TileAmaxArgs) = $crate::quantize::mx::amax::tile_amax::<Bf16>,
                role: Role::Nvfp4TileAmax(ElementType::Bf16), threads: 128, cluster: 1, shared: 64, tile: (128, 128, 1);
            "module-quantize-nvfp4" "quantize_nvfp4" nvfp4_tile_amax_f16(Nvfp4TileAmaxArgs) = $crate::quantize::mx::amax::tile_amax::<F16>,
                role: Role::Nvfp4TileAmax(ElementType::F16), threads: 128, cluster: 1, shared: 64, tile: (128, 128, 1);
            "module-quantize-nvfp4" "quantize_nvfp4" nvfp4_tile_amax_f32(Nvfp4TileAmaxArgs) = $crate::quantize::mx::amax::tile_amax::<F32>,
                role: Role::Nvfp4TileAmax(ElementType::F32), threads: 128, cluster: 1, shared: 64, tile: (128, 128, 1);
            "module-quantize-nvfp4" "quantize_nvfp4" nvfp4_group_amax(Nvfp4GroupAmaxArgs) = $crate::quantize::mx::amax::group_amax,
                role: Role::Nvfp4GroupAmax, threads: 256, cluster: 1, shared: 64, tile: (1, 1, 1);
            "module-quantize-nvfp4" "quantize_nvfp4" nvfp4_row_amax(Nvfp4RowAmaxArgs) = $crate::quantize::mx::amax::row_amax,
                role: Role::Nvfp4RowAmax, threads: 256, cluster: 1, shared: 0, tile: (8, 1, 1);
            "module-quantize-nvfp4" "quantize_nvfp4" quantize_nvfp4_squares_bf16(Nvfp4Args) = $crate::quantize::mx::nvfp4::run_squares::<Bf16>,
                role: Role::QuantizeNvfp4(Nvfp4Way::Squares, ElementType::Bf16), threads: 128, cluster: 1, shared: 14336, tile: (128, 128, 1);
            "module-quantize-nvfp4" "quantize_nvfp4" quantize_nvfp4_squares_f16(Nvfp4Args) = $crate::quantize::mx::nvfp4::run_squares::<F16>,
                role: Role::QuantizeNvfp4(Nvfp4Way::Squares, ElementType::F16), threads: 128, cluster: 1, shared: 14336, tile: (128, 128, 1);
            "module-quantize-nvfp4" "quantize_nvfp4" quantize_nvfp4_squares_f32(Nvfp4Args) = $crate::quantize::mx::nvfp4::run_squares::<F32>,
                role: Role::QuantizeNvfp4(Nvfp4Way::Squares, ElementType::F32), threads: 128, cluster: 1, shared: 14336, tile: (128, 128, 1);
            "module-quantize-nvfp4" "quantize_nvfp4" nvfp4_dequantize(MxDequantizeArgs) = $crate::quantize::mx::dequantize::nvfp4,
                role: Role::DequantizeNvfp4, threads: 256, cluster: 1, shared: 0, tile: (128, 128, 1);

            "module-quantize-nvfp4-lines" "quantize_nvfp4_lines" quantize_nvfp4_lines_bf16(Nvfp4Args) = $crate::quantize::mx::nvfp4::lines::run::<InCodes>,
                role: Role::QuantizeNvfp4(Nvfp4Way::Lines, ElementType::Bf16), threads: 128, cluster: 1, shared: 26_704, tile: (128, 128, 1);
            "module-quantize-nvfp4-lines" "quantize_nvfp4_lines" quantize_nvfp4_exact_bf16(Nvfp4Args) = $crate::quantize::mx::nvfp4::lines::run::<Exact>,
                role: Role::QuantizeNvfp4(Nvfp4Way::ExactLines, ElementType::Bf16), threads: 128, cluster: 1, shared: 16_464, tile: (128, 128, 1);

            "module-quantize-nvfp4-once" "quantize_nvfp4_once" quantize_nvfp4_squares_once(Nvfp4Args) = $crate::quantize::mx::nvfp4::once::run,
                role: Role::QuantizeNvfp4(Nvfp4Way::SquaresOnce, ElementType::Bf16), threads: 288, cluster: 1, shared: 99_072, tile: (128, 128, 1);

            "module-quantize-nvfp4-general" "quantize_nvfp4_general" quantize_nvfp4_general_bf16(Nvfp4Args) = $crate::quantize::mx::nvfp4::run::<General, Bf16>,
                role: Role::QuantizeNvfp4(Nvfp4Way::General, ElementType::Bf16), threads: 128, cluster: 1, shared: 14336, tile: (128, 128, 1);
            "module-quantize-nvfp4-general" "quantize_nvfp4_general" quantize_nvfp4_general_f16(Nvfp4Args) = $crate::quantize::mx::nvfp4::run::<General, F16>,
                role: Role::QuantizeNvfp4(Nvfp4Way::General, ElementType::F16), threads: 128, cluster: 1, shared: 14336, tile: (128, 128, 1);
            "module-quantize-nvfp4-general" "quantize_nvfp4_general" quantize_nvfp4_general_f32(Nvfp4Args) = $crate::quantize::mx::nvfp4::run::<General, F32>,
                role: Role::QuantizeNvfp4(Nvfp4Way::General, ElementType::F32), threads: 128, cluster: 1, shared: 14336, tile: (128, 128, 1);

            "module-pad" "pad" pad_rows(PadArgs) = $crate::quantize::pad::pad,
                role: Role::PadRows, threads: 256, cluster: 1, shared: 0, tile: (8, 1, 1);
            "module-pad" "pad" unpad_rows(PadArgs) = $crate::quantize::pad::unpad,
                role: Role::UnpadRows, threads: 256, cluster: 1, shared: 0, tile: (8, 1, 1);

            "module-setup" "setup" pointer_setup(SetupArgs) = $crate::setup::run,
                role: Role::PointerSetup, threads: 1024, cluster: 1, shared: 1664, tile: (1, 1, 1);

            "module-reduce" "reduce" dbias_partial(DbiasArgs) = $crate::reduce::dbias_partial,
                role: Role::DbiasPartial, threads: 256, cluster: 1, shared: 2048, tile: (128, 64, 1);
            "module-reduce" "reduce" dbias_reduce(DbiasArgs) = $crate::reduce::dbias_reduce,
                role: Role::DbiasReduce, threads: 256, cluster: 1, shared: 0, tile: (1, 256, 1);
            "module-reduce" "reduce" dscales(DscalesArgs) = $crate::reduce::dscales,
                role: Role::Dscales, threads: 256, cluster: 1, shared: 0, tile: (8, 1, 1);

            "module-simt" "simt" gemm_simt_bf16(GemmArgs) = $crate::gemm::simt::run::<Bf16>,
                role: Role::GemmSimt(ElementType::Bf16), threads: 256, cluster: 1, shared: 8704, tile: (64, 64, 16);
            "module-simt" "simt" gemm_simt_f16(GemmArgs) = $crate::gemm::simt::run::<F16>,
                role: Role::GemmSimt(ElementType::F16), threads: 256, cluster: 1, shared: 8704, tile: (64, 64, 16);
            "module-simt" "simt" gemm_simt_f32(GemmArgs) = $crate::gemm::simt::run::<F32>,
                role: Role::GemmSimt(ElementType::F32), threads: 256, cluster: 1, shared: 8704, tile: (64, 64, 16);

            "module-gemm-bf16" "gemm_bf16" gemm_sm90_fprop_bf16(GemmArgs) = $crate::gemm::sm90::run::<Fprop, Bf16, 128>,
                role: sm90(Pass::Fprop, ElementType::Bf16, false), threads: 384, cluster: 1, shared: 229_632, tile: (128, 256, 64);
            "module-gemm-bf16" "gemm_bf16" gemm_sm90_dgrad_bf16(GemmArgs) = $crate::gemm::sm90::run::<Dgrad, Bf16, 128>,
                role: sm90(Pass::Dgrad, ElementType::Bf16, false), threads: 384, cluster: 1, shared: 229_632, tile: (128, 256, 64);
            "module-gemm-bf16" "gemm_bf16" gemm_sm90_wgrad_bf16(GemmArgs) = $crate::gemm::sm90::run::<Wgrad, Bf16, 128>,
                role: sm90(Pass::Wgrad, ElementType::Bf16, false), threads: 384, cluster: 1, shared: 229_632, tile: (128, 256, 64);

            "module-gemm-bf16-narrow" "gemm_bf16_narrow" gemm_sm90_fprop_narrow_bf16(GemmArgs) = $crate::gemm::sm90::run::<Fprop, Bf16, 120>,
                role: sm90(Pass::Fprop, ElementType::Bf16, true), threads: 384, cluster: 1, shared: 229_632, tile: (128, 240, 64);

            "module-gemm-f16" "gemm_f16" gemm_sm90_fprop_f16(GemmArgs) = $crate::gemm::sm90::run::<Fprop, F16, 128>,
                role: sm90(Pass::Fprop, ElementType::F16, false), threads: 384, cluster: 1, shared: 229_632, tile: (128, 256, 64);
            "module-gemm-f16" "gemm_f16" gemm_sm90_dgrad_f16(GemmArgs) = $crate::gemm::sm90::run::<Dgrad, F16, 128>,
                role: sm90(Pass::Dgrad, ElementType::F16, false), threads: 384, cluster: 1, shared: 229_632, tile: (128, 256, 64);
            "module-gemm-f16" "gemm_f16" gemm_sm90_wgrad_f16(GemmArgs) = $crate::gemm::sm90::run::<Wgrad, F16, 128>,
                role: sm90(Pass::Wgrad, ElementType::F16, false), threads: 384, cluster: 1, shared: 229_632, tile: (128, 256, 64);

            "module-gemm-f16-narrow" "gemm_f16_narrow" gemm_sm90_fprop_narrow_f16(GemmArgs) = $crate::gemm::sm90::run::<Fprop, F16, 120>,
                role: sm90(Pass::Fprop, ElementType::F16, true), threads: 384, cluster: 1, shared: 229_632, tile: (128, 240, 64);

            "module-gemm-fp8-tensor" "gemm_fp8_tensor" gemm_fp8_rows_tensor_fast_e4m3(ScaledGemmArgs) = $crate::gemm::sm90::fp8::run_fast::<Rows<Tensor, Tensor>, E4m3>,
                role: fp8_gemm(Ragged::Rows, ElementType::E4m3, [Blocks::Tensor, Blocks::Tensor], Accumulation::Fast),
                threads: 384, cluster: 1, shared: 229_632, tile: (128, 256, 128);
            "module-gemm-fp8-tensor" "gemm_fp8_tensor" gemm_fp8_rows_tensor_fast_e5m2(ScaledGemmArgs) = $crate::gemm::sm90::fp8::run_fast::<Rows<Tensor, Tensor>, E5m2>,
                role: fp8_gemm(Ragged::Rows, ElementType::E5m2, [Blocks::Tensor, Blocks::Tensor], Accumulation::Fast),
                threads: 384, cluster: 1, shared: 229_632, tile: (128, 256, 128);
            "module-gemm-fp8-tensor" "gemm_fp8_tensor" gemm_fp8_reduction_tensor_fast_e4m3(ScaledGemmArgs) = $crate::gemm::sm90::fp8::run_fast::<Reduction<Tensor, Tensor>, E4m3>,
                role: fp8_gemm(Ragged::Reduction, ElementType::E4m3, [Blocks::Tensor, Blocks::Tensor], Accumulation::Fast),
                threads: 384, cluster: 1, shared: 229_632, tile: (128, 256, 128);
            "module-gemm-fp8-tensor" "gemm_fp8_tensor" gemm_fp8_reduction_tensor_fast_e5m2(ScaledGemmArgs) = $crate::gemm::sm90::fp8::run_fast::<Reduction<Tensor, Tensor>, E5m2>,
                role: fp8_gemm(Ragged::Reduction, ElementType::E5m2, [Blocks::Tensor, Blocks::Tensor], Accumulation::Fast),
                threads: 384, cluster: 1, shared: 229_632, tile: (128, 256, 128);
            "module-gemm-fp8-tensor" "gemm_fp8_tensor" gemm_fp8_rows_tensor_e4m3(ScaledGemmArgs) = $crate::gemm::sm90::fp8::run_promoted_tensor::<Rows<Tensor, Tensor>, E4m3>,
                role: fp8_gemm(Ragged::Rows, ElementType::E4m3, [Blocks::Tensor, Blocks::Tensor], Accumulation::Promoted),
                threads: 384, cluster: 1, shared: 229_632, tile: (128, 256, 128);
            "module-gemm-fp8-tensor" "gemm_fp8_tensor" gemm_fp8_rows_tensor_e5m2(ScaledGemmArgs) = $crate::gemm::sm90::fp8::run_promoted_tensor::<Rows<Tensor, Tensor>, E5m2>,
                role: fp8_gemm(Ragged::Rows, ElementType::E5m2, [Blocks::Tensor, Blocks::Tensor], Accumulation::Promoted),
                threads: 384, cluster: 1, shared: 229_632, tile: (128, 256, 128);
            "module-gemm-fp8-tensor" "gemm_fp8_tensor" gemm_fp8_reduction_tensor_e4m3(ScaledGemmArgs) = $crate::gemm::sm90::fp8::run_promoted_tensor::<Reduction<Tensor, Tensor>, E4m3>,
                role: fp8_gemm(Ragged::Reduction, ElementType::E4m3, [Blocks::Tensor, Blocks::Tensor], Accumulation::Promoted),
                threads: 384, cluster: 1, shared: 229_632, tile: (128, 256, 128);
            "module-gemm-fp8-tensor" "gemm_fp8_tensor" gemm_fp8_reduction_tensor_e5m2(ScaledGemmArgs) = $crate::gemm::sm90::fp8::run_promoted_tensor::<Reduction<Tensor, Tensor>, E5m2>,
                role: fp8_gemm(Ragged::Reduction, ElementType::E5m2, [Blocks::Tensor, Blocks::Tensor], Accumulation::Promoted),
                threads: 384, cluster: 1, shared: 229_632, tile: (128, 256, 128);

            "module-gemm-fp8-block" "gemm_fp8_block" gemm_fp8_rows_vector_square_e4m3(ScaledGemmArgs) = $crate::gemm::sm90::fp8::run_promoted::<Rows<Vector, Square>, E4m3>,
                role: fp8_gemm(Ragged::Rows, ElementType::E4m3, [Blocks::Vector, Blocks::Square], Accumulation::Promoted),
                threads: 384, cluster: 1, shared: 218_240, tile: (128, 256, 128);
            "module-gemm-fp8-block" "gemm_fp8_block" gemm_fp8_rows_vector_square_e5m2(ScaledGemmArgs) = $crate::gemm::sm90::fp8::run_promoted::<Rows<Vector, Square>, E5m2>,
                role: fp8_gemm(Ragged::Rows, ElementType::E5m2, [Blocks::Vector, Blocks::Square], Accumulation::Promoted),
                threads: 384, cluster: 1, shared: 218_240, tile: (128, 256, 128);
            "module-gemm-fp8-block" "gemm_fp8_block" gemm_fp8_reduction_vector_vector_e4m3(ScaledGemmArgs) = $crate::gemm::sm90::fp8::run_promoted::<Reduction<Vector, Vector>, E4m3>,
                role: fp8_gemm(Ragged::Reduction, ElementType::E4m3, [Blocks::Vector, Blocks::Vector], Accumulation::Promoted),
                threads: 384, cluster: 1, shared: 218_240, tile: (128, 256, 128);
            "module-gemm-fp8-block" "gemm_fp8_block" gemm_fp8_reduction_vector_vector_e5m2(ScaledGemmArgs) = $crate::gemm::sm90::fp8::run_promoted::<Reduction<Vector, Vector>, E5m2>,
                role: fp8_gemm(Ragged::Reduction, ElementType::E5m2, [Blocks::Vector, Blocks::Vector], Accumulation::Promoted),
                threads: 384, cluster: 1, shared: 218_240, tile: (128, 256, 128);

            "module-gemm-fp8-aligned" "gemm_fp8_aligned" align(AlignArgs) = $crate::quantize::fp8::align::run,
                role: Role::Align, threads: 256, cluster: 1, shared: 16_512, tile: (1024, 128, 1);
            "module-gemm-fp8-aligned" "gemm_fp8_aligned" gemm_fp8_reduction_vector_aligned_e4m3(ScaledGemmArgs) = $crate::gemm::sm90::fp8::run_promoted::<Reduction<Vector, Aligned>, E4m3>,
                role: fp8_aligned(ElementType::E4m3), threads: 384, cluster: 1, shared: 218_240, tile: (128, 256, 128);
            "module-gemm-fp8-aligned" "gemm_fp8_aligned" gemm_fp8_reduction_vector_aligned_e5m2(ScaledGemmArgs) = $crate::gemm::sm90::fp8::run_promoted::<Reduction<Vector, Aligned>, E5m2>,
                role: fp8_aligned(ElementType::E5m2), threads: 384, cluster: 1, shared: 218_240, tile: (128, 256, 128);

            "module-gemm-fp8-block-mixed" "gemm_fp8_block_mixed" gemm_fp8_rows_vector_vector_e4m3(ScaledGemmArgs) = $crate::gemm::sm90::fp8::run_promoted::<Rows<Vector, Vector>, E4m3>,
                role: fp8_gemm(Ragged::Rows, ElementType::E4m3, [Blocks::Vector, Blocks::Vector], Accumulation::Promoted),
                threads: 384, cluster: 1, shared: 218_240, tile: (128, 256, 128);
            "module-gemm-fp8-block-mixed" "gemm_fp8_block_mixed" gemm_fp8_rows_vector_vector_e5m2(ScaledGemmArgs) = $crate::gemm::sm90::fp8::run_promoted::<Rows<Vector, Vector>, E5m2>,
                role: fp8_gemm(Ragged::Rows, ElementType::E5m2, [Blocks::Vector, Blocks::Vector], Accumulation::Promoted),
                threads: 384, cluster: 1, shared: 218_240, tile: (128, 256, 128);
            "module-gemm-fp8-block-mixed" "gemm_fp8_block_mixed" gemm_fp8_rows_square_vector_e4m3(ScaledGemmArgs) = $crate::gemm::sm90::fp8::run_promoted::<Rows<Square, Vector>, E4m3>,
                role: fp8_gemm(Ragged::Rows, ElementType::E4m3, [Blocks::Square, Blocks::Vector], Accumulation::Promoted),
                threads: 384, cluster: 1, shared: 218_240, tile: (128, 256, 128);
            "module-gemm-fp8-block-mixed" "gemm_fp8_block_mixed" gemm_fp8_rows_square_vector_e5m2(ScaledGemmArgs) = $crate::gemm::sm90::fp8::run_promoted::<Rows<Square, Vector>, E5m2>,
                role: fp8_gemm(Ragged::Rows, ElementType::E5m2, [Blocks::Square, Blocks::Vector], Accumulation::Promoted),
                threads: 384, cluster: 1, shared: 218_240, tile: (128, 256, 128);
            "module-gemm-fp8-block-mixed" "gemm_fp8_block_mixed" gemm_fp8_reduction_vector_square_e4m3(ScaledGemmArgs) = $crate::gemm::sm90::fp8::run_promoted::<Reduction<Vector, Square>, E4m3>,
                role: fp8_gemm(Ragged::Reduction, ElementType::E4m3, [Blocks::Vector, Blocks::Square], Accumulation::Promoted),
                threads: 384, cluster: 1, shared: 218_240, tile: (128, 256, 128);
            "module-gemm-fp8-block-mixed" "gemm_fp8_block_mixed" gemm_fp8_reduction_vector_square_e5m2(ScaledGemmArgs) = $crate::gemm::sm90::fp8::run_promoted::<Reduction<Vector, Square>, E5m2>,
                role: fp8_gemm(Ragged::Reduction, ElementType::E5m2, [Blocks::Vector, Blocks::Square], Accumulation::Promoted),
                threads: 384, cluster: 1, shared: 218_240, tile: (128, 256, 128);
            "module-gemm-fp8-block-mixed" "gemm_fp8_block_mixed" gemm_fp8_reduction_square_vector_e4m3(ScaledGemmArgs) = $crate::gemm::sm90::fp8::run_promoted::<Reduction<Square, Vector>, E4m3>,
                role: fp8_gemm(Ragged::Reduction, ElementType::E4m3, [Blocks::Square, Blocks::Vector], Accumulation::Promoted),
                threads: 384, cluster: 1, shared: 218_240, tile: (128, 256, 128);
            "module-gemm-fp8-block-mixed" "gemm_fp8_block_mixed" gemm_fp8_reduction_square_vector_e5m2(ScaledGemmArgs) = $crate::gemm::sm90::fp8::run_promoted::<Reduction<Square, Vector>, E5m2>,
                role: fp8_gemm(Ragged::Reduction, ElementType::E5m2, [Blocks::Square, Blocks::Vector], Accumulation::Promoted),
                threads: 384, cluster: 1, shared: 218_240, tile: (128, 256, 128);

            "module-gemm-sm100-bf16" "gemm_sm100_bf16" gemm_sm100_fprop_bf16(GemmArgs) = $crate::gemm::sm100::run::<Fprop, Bf16, One>,
                role: sixteen(Pass::Fprop, ElementType::Bf16, false), threads: 384, cluster: 1, shared: 221_696, tile: (128, 256, 64);
            "module-gemm-sm100-bf16" "gemm_sm100_bf16" gemm_sm100_dgrad_bf16(GemmArgs) = $crate::gemm::sm100::run::<Dgrad, Bf16, One>,
                role: sixteen(Pass::Dgrad, ElementType::Bf16, false), threads: 384, cluster: 1, shared: 221_696, tile: (128, 256, 64);
            "module-gemm-sm100-bf16" "gemm_sm100_bf16" gemm_sm100_wgrad_bf16(GemmArgs) = $crate::gemm::sm100::run::<Wgrad, Bf16, One>,
                role: sixteen(Pass::Wgrad, ElementType::Bf16, false), threads: 384, cluster: 1, shared: 221_696, tile: (128, 256, 64);
            "module-gemm-sm100-bf16" "gemm_sm100_bf16" gemm_sm100_fprop_pair_bf16(GemmArgs) = $crate::gemm::sm100::run::<Fprop, Bf16, Two>,
                role: sixteen(Pass::Fprop, ElementType::Bf16, true), threads: 384, cluster: 2, shared: 221_696, tile: (256, 256, 64);
            "module-gemm-sm100-bf16" "gemm_sm100_bf16" gemm_sm100_dgrad_pair_bf16(GemmArgs) = $crate::gemm::sm100::run::<Dgrad, Bf16, Two>,
                role: sixteen(Pass::Dgrad, ElementType::Bf16, true), threads: 384, cluster: 2, shared: 221_696, tile: (256, 256, 64);
            "module-gemm-sm100-bf16" "gemm_sm100_bf16" gemm_sm100_wgrad_pair_bf16(GemmArgs) = $crate::gemm::sm100::run::<Wgrad, Bf16, Two>,
                role: sixteen(Pass::Wgrad, ElementType::Bf16, true), threads: 384, cluster: 2, shared: 221_696, tile: (256, 256, 64);

            "module-gemm-sm100-f16" "gemm_sm100_f16" gemm_sm100_fprop_f16(GemmArgs) = $crate::gemm::sm100::run::<Fprop, F16, One>,
                role: sixteen(Pass::Fprop, ElementType::F16, false), threads: 384, cluster: 1, shared: 221_696, tile: (128, 256, 64);
            "module-gemm-sm100-f16" "gemm_sm100_f16" gemm_sm100_dgrad_f16(GemmArgs) = $crate::gemm::sm100::run::<Dgrad, F16, One>,
                role: sixteen(Pass::Dgrad, ElementType::F16, false), threads: 384, cluster: 1, shared: 221_696, tile: (128, 256, 64);
            "module-gemm-sm100-f16" "gemm_sm100_f16" gemm_sm100_wgrad_f16(GemmArgs) = $crate::gemm::sm100::run::<Wgrad, F16, One>,
                role: sixteen(Pass::Wgrad, ElementType::F16, false), threads: 384, cluster: 1, shared: 221_696, tile: (128, 256, 64);
            "module-gemm-sm100-f16" "gemm_sm100_f16" gemm_sm100_fprop_pair_f16(GemmArgs) = $crate::gemm::sm100::run::<Fprop, F16, Two>,
                role: sixteen(Pass::Fprop, ElementType::F16, true), threads: 384, cluster: 2, shared: 221_696, tile: (256, 256, 64);
            "module-gemm-sm100-f16" "gemm_sm100_f16" gemm_sm100_dgrad_pair_f16(GemmArgs) = $crate::gemm::sm100::run::<Dgrad, F16, Two>,
                role: sixteen(Pass::Dgrad, ElementType::F16, true), threads: 384, cluster: 2, shared: 221_696, tile: (256, 256, 64);
            "module-gemm-sm100-f16" "gemm_sm100_f16" gemm_sm100_wgrad_pair_f16(GemmArgs) = $crate::gemm::sm100::run::<Wgrad, F16, Two>,
                role: sixteen(Pass::Wgrad, ElementType::F16, true), threads: 384, cluster: 2, shared: 221_696, tile: (256, 256, 64);

            "module-gemm-sm100-fp8-tensor" "gemm_sm100_fp8_tensor" gemm_sm100_fp8_rows_tensor_e4m3(ScaledGemmArgs) = $crate::gemm::sm100::run_tensor::<Rows<Tensor, Tensor>, E4m3, One>,
                role: fp8_gemm_sm100(Ragged::Rows, ElementType::E4m3, [Blocks::Tensor, Blocks::Tensor], false),
                threads: 384, cluster: 1, shared: 221_696, tile: (128, 256, 128);
            "module-gemm-sm100-fp8-tensor" "gemm_sm100_fp8_tensor" gemm_sm100_fp8_rows_tensor_e5m2(ScaledGemmArgs) = $crate::gemm::sm100::run_tensor::<Rows<Tensor, Tensor>, E5m2, One>,
                role: fp8_gemm_sm100(Ragged::Rows, ElementType::E5m2, [Blocks::Tensor, Blocks::Tensor], false),
                threads: 384, cluster: 1, shared: 221_696, tile: (128, 256, 128);
            "module-gemm-sm100-fp8-tensor" "gemm_sm100_fp8_tensor" gemm_sm100_fp8_reduction_tensor_e4m3(ScaledGemmArgs) = $crate::gemm::sm100::run_tensor::<Reduction<Tensor, Tensor>, E4m3, One>,
                role: fp8_gemm_sm100(Ragged::Reduction, ElementType::E4m3, [Blocks::Tensor, Blocks::Tensor], false),
                threads: 384, cluster: 1, shared: 221_696, tile: (128, 256, 128);
            "module-gemm-sm100-fp8-tensor" "gemm_sm100_fp8_tensor" gemm_sm100_fp8_reduction_tensor_e5m2(ScaledGemmArgs) = $crate::gemm::sm100::run_tensor::<Reduction<Tensor, Tensor>, E5m2, One>,
                role: fp8_gemm_sm100(Ragged::Reduction, ElementType::E5m2, [Blocks::Tensor, Blocks::Tensor], false),
                threads: 384, cluster: 1, shared: 221_696, tile: (128, 256, 128);
            "module-gemm-sm100-fp8-tensor" "gemm_sm100_fp8_tensor" gemm_sm100_fp8_rows_tensor_pair_e4m3(ScaledGemmArgs) = $crate::gemm::sm100::run_tensor::<Rows<Tensor, Tensor>, E4m3, Two>,
                role: fp8_gemm_sm100(Ragged::Rows, ElementType::E4m3, [Blocks::Tensor, Blocks::Tensor], true),
                threads: 384, cluster: 2, shared: 221_696, tile: (256, 256, 128);
            "module-gemm-sm100-fp8-tensor" "gemm_sm100_fp8_tensor" gemm_sm100_fp8_rows_tensor_pair_e5m2(ScaledGemmArgs) = $crate::gemm::sm100::run_tensor::<Rows<Tensor, Tensor>, E5m2, Two>,
                role: fp8_gemm_sm100(Ragged::Rows, ElementType::E5m2, [Blocks::Tensor, Blocks::Tensor], true),
                threads: 384, cluster: 2, shared: 221_696, tile: (256, 256, 128);
            "module-gemm-sm100-fp8-tensor" "gemm_sm100_fp8_tensor" gemm_sm100_fp8_reduction_tensor_pair_e4m3(ScaledGemmArgs) = $crate::gemm::sm100::run_tensor::<Reduction<Tensor, Tensor>, E4m3, Two>,
                role: fp8_gemm_sm100(Ragged::Reduction, ElementType::E4m3, [Blocks::Tensor, Blocks::Tensor], true),
                threads: 384, cluster: 2, shared: 221_696, tile: (256, 256, 128);
            "module-gemm-sm100-fp8-tensor" "gemm_sm100_fp8_tensor" gemm_sm100_fp8_reduction_tensor_pair_e5m2(ScaledGemmArgs) = $crate::gemm::sm100::run_tensor::<Reduction<Tensor, Tensor>, E5m2, Two>,
                role: fp8_gemm_sm100(Ragged::Reduction, ElementType::E5m2, [Blocks::Tensor, Blocks::Tensor], true),
                threads: 384, cluster: 2, shared: 221_696, tile: (256, 256, 128);

            "module-gemm-sm100-fp8-block" "gemm_sm100_fp8_block" gemm_sm100_fp8_rows_vector_square_e4m3(ScaledGemmArgs) = $crate::gemm::sm100::run_promoted::<Rows<Vector, Square>, E4m3, One>,
                role: fp8_gemm_sm100(Ragged::Rows, ElementType::E4m3, [Blocks::Vector, Blocks::Square], false),
                threads: 384, cluster: 1, shared: 228_352, tile: (128, 256, 128);
            "module-gemm-sm100-fp8-block" "gemm_sm100_fp8_block" gemm_sm100_fp8_rows_vector_square_e5m2(ScaledGemmArgs) = $crate::gemm::sm100::run_promoted::<Rows<Vector, Square>, E5m2, One>,
                role: fp8_gemm_sm100(Ragged::Rows, ElementType::E5m2, [Blocks::Vector, Blocks::Square], false),
                threads: 384, cluster: 1, shared: 228_352, tile: (128, 256, 128);
            "module-gemm-sm100-fp8-block" "gemm_sm100_fp8_block" gemm_sm100_fp8_reduction_vector_vector_e4m3(ScaledGemmArgs) = $crate::gemm::sm100::run_promoted::<Reduction<Vector, Vector>, E4m3, One>,
                role: fp8_gemm_sm100(Ragged::Reduction, ElementType::E4m3, [Blocks::Vector, Blocks::Vector], false),
                threads: 384, cluster: 1, shared: 228_352, tile: (128, 256, 128);
            "module-gemm-sm100-fp8-block" "gemm_sm100_fp8_block" gemm_sm100_fp8_reduction_vector_vector_e5m2(ScaledGemmArgs) = $crate::gemm::sm100::run_promoted::<Reduction<Vector, Vector>, E5m2, One>,
                role: fp8_gemm_sm100(Ragged::Reduction, ElementType::E5m2, [Blocks::Vector, Blocks::Vector], false),
                threads: 384, cluster: 1, shared: 228_352, tile: (128, 256, 128);
            "module-gemm-sm100-fp8-block" "gemm_sm100_fp8_block" gemm_sm100_fp8_rows_vector_square_pair_e4m3(ScaledGemmArgs) = $crate::gemm::sm100::run_promoted::<Rows<Vector, Square>, E4m3, Two>,
                role: fp8_gemm_sm100(Ragged::Rows, ElementType::E4m3, [Blocks::Vector, Blocks::Square], true),
                threads: 384, cluster: 2, shared: 231_680, tile: (256, 256, 128);
            "module-gemm-sm100-fp8-block" "gemm_sm100_fp8_block" gemm_sm100_fp8_rows_vector_square_pair_e5m2(ScaledGemmArgs) = $crate::gemm::sm100::run_promoted::<Rows<Vector, Square>, E5m2, Two>,
                role: fp8_gemm_sm100(Ragged::Rows, ElementType::E5m2, [Blocks::Vector, Blocks::Square], true),
                threads: 384, cluster: 2, shared: 231_680, tile: (256, 256, 128);
            "module-gemm-sm100-fp8-block" "gemm_sm100_fp8_block" gemm_sm100_fp8_reduction_vector_vector_pair_e4m3(ScaledGemmArgs) = $crate::gemm::sm100::run_promoted::<Reduction<Vector, Vector>, E4m3, Two>,
                role: fp8_gemm_sm100(Ragged::Reduction, ElementType::E4m3, [Blocks::Vector, Blocks::Vector], true),
                threads: 384, cluster: 2, shared: 231_680, tile: (256, 256, 128);
            "module-gemm-sm100-fp8-block" "gemm_sm100_fp8_block" gemm_sm100_fp8_reduction_vector_vector_pair_e5m2(ScaledGemmArgs) = $crate::gemm::sm100::run_promoted::<Reduction<Vector, Vector>, E5m2, Two>,
                role: fp8_gemm_sm100(Ragged::Reduction, ElementType::E5m2, [Blocks::Vector, Blocks::Vector], true),
                threads: 384, cluster: 2, shared: 231_680, tile: (256, 256, 128);

            "module-gemm-sm100-fp8-block-mixed" "gemm_sm100_fp8_block_mixed" gemm_sm100_fp8_rows_vector_vector_e4m3(ScaledGemmArgs) = $crate::gemm::sm100::run_promoted::<Rows<Vector, Vector>, E4m3, One>,
                role: fp8_gemm_sm100(Ragged::Rows, ElementType::E4m3, [Blocks::Vector, Blocks::Vector], false),
                threads: 384, cluster: 1, shared: 228_352, tile: (128, 256, 128);
            "module-gemm-sm100-fp8-block-mixed" "gemm_sm100_fp8_block_mixed" gemm_sm100_fp8_rows_vector_vector_e5m2(ScaledGemmArgs) = $crate::gemm::sm100::run_promoted::<Rows<Vector, Vector>, E5m2, One>,
                role: fp8_gemm_sm100(Ragged::Rows, ElementType::E5m2, [Blocks::Vector, Blocks::Vector], false),
                threads: 384, cluster: 1, shared: 228_352, tile: (128, 256, 128);
            "module-gemm-sm100-fp8-block-mixed" "gemm_sm100_fp8_block_mixed" gemm_sm100_fp8_rows_square_vector_e4m3(ScaledGemmArgs) = $crate::gemm::sm100::run_promoted::<Rows<Square, Vector>, E4m3, One>,
                role: fp8_gemm_sm100(Ragged::Rows, ElementType::E4m3, [Blocks::Square, Blocks::Vector], false),
                threads: 384, cluster: 1, shared: 228_352, tile: (128, 256, 128);
            "module-gemm-sm100-fp8-block-mixed" "gemm_sm100_fp8_block_mixed" gemm_sm100_fp8_rows_square_vector_e5m2(ScaledGemmArgs) = $crate::gemm::sm100::run_promoted::<Rows<Square, Vector>, E5m2, One>,
                role: fp8_gemm_sm100(Ragged::Rows, ElementType::E5m2, [Blocks::Square, Blocks::Vector], false),
                threads: 384, cluster: 1, shared: 228_352, tile: (128, 256, 128);
            "module-gemm-sm100-fp8-block-mixed" "gemm_sm100_fp8_block_mixed" gemm_sm100_fp8_reduction_vector_square_e4m3(ScaledGemmArgs) = $crate::gemm::sm100::run_promoted::<Reduction<Vector, Square>, E4m3, One>,
                role: fp8_gemm_sm100(Ragged::Reduction, ElementType::E4m3, [Blocks::Vector, Blocks::Square], false),
                threads: 384, cluster: 1, shared: 228_352, tile: (128, 256, 128);
            "module-gemm-sm100-fp8-block-mixed" "gemm_sm100_fp8_block_mixed" gemm_sm100_fp8_reduction_vector_square_e5m2(ScaledGemmArgs) = $crate::gemm::sm100::run_promoted::<Reduction<Vector, Square>, E5m2, One>,
                role: fp8_gemm_sm100(Ragged::Reduction, ElementType::E5m2, [Blocks::Vector, Blocks::Square], false),
                threads: 384, cluster: 1, shared: 228_352, tile: (128, 256, 128);
            "module-gemm-sm100-fp8-block-mixed" "gemm_sm100_fp8_block_mixed" gemm_sm100_fp8_reduction_square_vector_e4m3(ScaledGemmArgs) = $crate::gemm::sm100::run_promoted::<Reduction<Square, Vector>, E4m3, One>,
                role: fp8_gemm_sm100(Ragged::Reduction, ElementType::E4m3, [Blocks::Square, Blocks::Vector], false),
                threads: 384, cluster: 1, shared: 228_352, tile: (128, 256, 128);
            "module-gemm-sm100-fp8-block-mixed" "gemm_sm100_fp8_block_mixed" gemm_sm100_fp8_reduction_square_vector_e5m2(ScaledGemmArgs) = $crate::gemm::sm100::run_promoted::<Reduction<Square, Vector>, E5m2, One>,
                role: fp8_gemm_sm100(Ragged::Reduction, ElementType::E5m2, [Blocks::Square, Blocks::Vector], false),
                threads: 384, cluster: 1, shared: 228_352, tile: (128, 256, 128);
            "module-gemm-sm100-fp8-block-mixed" "gemm_sm100_fp8_block_mixed" gemm_sm100_fp8_rows_vector_vector_pair_e4m3(ScaledGemmArgs) = $crate::gemm::sm100::run_promoted::<Rows<Vector, Vector>, E4m3, Two>,
                role: fp8_gemm_sm100(Ragged::Rows, ElementType::E4m3, [Blocks::Vector, Blocks::Vector], true),
                threads: 384, cluster: 2, shared: 231_680, tile: (256, 256, 128);
            "module-gemm-sm100-fp8-block-mixed" "gemm_sm100_fp8_block_mixed" gemm_sm100_fp8_rows_vector_vector_pair_e5m2(ScaledGemmArgs) = $crate::gemm::sm100::run_promoted::<Rows<Vector, Vector>, E5m2, Two>,
                role: fp8_gemm_sm100(Ragged::Rows, ElementType::E5m2, [Blocks::Vector, Blocks::Vector], true),
                threads: 384, cluster: 2, shared: 231_680, tile: (256, 256, 128);
            "module-gemm-sm100-fp8-block-mixed" "gemm_sm100_fp8_block_mixed" gemm_sm100_fp8_rows_square_vector_pair_e4m3(ScaledGemmArgs) = $crate::gemm::sm100::run_promoted::<Rows<Square, Vector>, E4m3, Two>,
                role: fp8_gemm_sm100(Ragged::Rows, ElementType::E4m3, [Blocks::Square, Blocks::Vector], true),
                threads: 384, cluster: 2, shared: 231_680, tile: (256, 256, 128);
            "module-gemm-sm100-fp8-block-mixed" "gemm_sm100_fp8_block_mixed" gemm_sm100_fp8_rows_square_vector_pair_e5m2(ScaledGemmArgs) = $crate::gemm::sm100::run_promoted::<Rows<Square, Vector>, E5m2, Two>,
                role: fp8_gemm_sm100(Ragged::Rows, ElementType::E5m2, [Blocks::Square, Blocks::Vector], true),
                threads: 384, cluster: 2, shared: 231_680, tile: (256, 256, 128);
            "module-gemm-sm100-fp8-block-mixed" "gemm_sm100_fp8_block_mixed" gemm_sm100_fp8_reduction_vector_square_pair_e4m3(ScaledGemmArgs) = $crate::gemm::sm100::run_promoted::<Reduction<Vector, Square>, E4m3, Two>,
                role: fp8_gemm_sm100(Ragged::Reduction, ElementType::E4m3, [Blocks::Vector, Blocks::Square], true),
                threads: 384, cluster: 2, shared: 231_680, tile: (256, 256, 128);
            "module-gemm-sm100-fp8-block-mixed" "gemm_sm100_fp8_block_mixed" gemm_sm100_fp8_reduction_vector_square_pair_e5m2(ScaledGemmArgs) = $crate::gemm::sm100::run_promoted::<Reduction<Vector, Square>, E5m2, Two>,
                role: fp8_gemm_sm100(Ragged::Reduction, ElementType::E5m2, [Blocks::Vector, Blocks::Square], true),
                threads: 384, cluster: 2, shared: 231_680, tile: (256, 256, 128);
            "module-gemm-sm100-fp8-block-mixed" "gemm_sm100_fp8_block_mixed" gemm_sm100_fp8_reduction_square_vector_pair_e4m3(ScaledGemmArgs) = $crate::gemm::sm100::run_promoted::<Reduction<Square, Vector>, E4m3, Two>,
                role: fp8_gemm_sm100(Ragged::Reduction, ElementType::E4m3, [Blocks::Square, Blocks::Vector], true),
                threads: 384, cluster: 2, shared: 231_680, tile: (256, 256, 128);
            "module-gemm-sm100-fp8-block-mixed" "gemm_sm100_fp8_block_mixed" gemm_sm100_fp8_reduction_square_vector_pair_e5m2(ScaledGemmArgs) = $crate::gemm::sm100::run_promoted::<Reduction<Square, Vector>, E5m2, Two>,
                role: fp8_gemm_sm100(Ragged::Reduction, ElementType::E5m2, [Blocks::Square, Blocks::Vector], true),
                threads: 384, cluster: 2, shared: 231_680, tile: (256, 256, 128);

            "module-gemm-sm100-mxfp8" "gemm_sm100_mxfp8" gemm_sm100_mxfp8_fprop(MxGemmArgs) = $crate::gemm::sm100::run_blocks::<Mxfp8<Fprop>, One>,
                role: mxfp8(Pass::Fprop, false), threads: 384, cluster: 1, shared: 227_840, tile: (128, 256, 128);
            "module-gemm-sm100-mxfp8" "gemm_sm100_mxfp8" gemm_sm100_mxfp8_dgrad(MxGemmArgs) = $crate::gemm::sm100::run_blocks::<Mxfp8<Dgrad>, One>,
                role: mxfp8(Pass::Dgrad, false), threads: 384, cluster: 1, shared: 227_840, tile: (128, 256, 128);
            "module-gemm-sm100-mxfp8" "gemm_sm100_mxfp8" gemm_sm100_mxfp8_wgrad(MxGemmArgs) = $crate::gemm::sm100::run_blocks::<Mxfp8<Wgrad>, One>,
                role: mxfp8(Pass::Wgrad, false), threads: 384, cluster: 1, shared: 227_840, tile: (128, 256, 128);
            "module-gemm-sm100-mxfp8" "gemm_sm100_mxfp8" gemm_sm100_mxfp8_fprop_pair(MxGemmArgs) = $crate::gemm::sm100::run_blocks::<Mxfp8<Fprop>, Two>,
                role: mxfp8(Pass::Fprop, true), threads: 384, cluster: 2, shared: 230_912, tile: (256, 256, 128);
            "module-gemm-sm100-mxfp8" "gemm_sm100_mxfp8" gemm_sm100_mxfp8_dgrad_pair(MxGemmArgs) = $crate::gemm::sm100::run_blocks::<Mxfp8<Dgrad>, Two>,
                role: mxfp8(Pass::Dgrad, true), threads: 384, cluster: 2, shared: 230_912, tile: (256, 256, 128);
            "module-gemm-sm100-mxfp8" "gemm_sm100_mxfp8" gemm_sm100_mxfp8_wgrad_pair(MxGemmArgs) = $crate::gemm::sm100::run_blocks::<Mxfp8<Wgrad>, Two>,
                role: mxfp8(Pass::Wgrad, true), threads: 384, cluster: 2, shared: 230_912, tile: (256, 256, 128);

            "module-gemm-sm100-nvfp4" "gemm_sm100_nvfp4" gemm_sm100_nvfp4_fprop(MxGemmArgs) = $crate::gemm::sm100::run_blocks::<Nvfp4<Fprop>, One>,
                role: nvfp4(Pass::Fprop, false), threads: 384, cluster: 1, shared: 221_696, tile: (128, 256, 256);
            "module-gemm-sm100-nvfp4" "gemm_sm100_nvfp4" gemm_sm100_nvfp4_dgrad(MxGemmArgs) = $crate::gemm::sm100::run_blocks::<Nvfp4<Dgrad>, One>,
                role: nvfp4(Pass::Dgrad, false), threads: 384, cluster: 1, shared: 221_696, tile: (128, 256, 256);
            "module-gemm-sm100-nvfp4" "gemm_sm100_nvfp4" gemm_sm100_nvfp4_wgrad(MxGemmArgs) = $crate::gemm::sm100::run_blocks::<Nvfp4<Wgrad>, One>,
                role: nvfp4(Pass::Wgrad, false), threads: 384, cluster: 1, shared: 221_696, tile: (128, 256, 256);
            "module-gemm-sm100-nvfp4" "gemm_sm100_nvfp4" gemm_sm100_nvfp4_fprop_pair(MxGemmArgs) = $crate::gemm::sm100::run_blocks::<Nvfp4<Fprop>, Two>,
                role: nvfp4(Pass::Fprop, true), threads: 384, cluster: 2, shared: 221_696, tile: (256, 256, 256);
            "module-gemm-sm100-nvfp4" "gemm_sm100_nvfp4" gemm_sm100_nvfp4_dgrad_pair(MxGemmArgs) = $crate::gemm::sm100::run_blocks::<Nvfp4<Dgrad>, Two>,
                role: nvfp4(Pass::Dgrad, true), threads: 384, cluster: 2, shared: 221_696, tile: (256, 256, 256);
            "module-gemm-sm100-nvfp4" "gemm_sm100_nvfp4" gemm_sm100_nvfp4_wgrad_pair(MxGemmArgs) = $crate::gemm::sm100::run_blocks::<Nvfp4<Wgrad>, Two>,
                role: nvfp4(Pass::Wgrad, true), threads: 384, cluster: 2, shared: 221_696, tile: (256, 256, 256);
        }
    };
}

macro_rules! rows {
    ($($feature:literal $module:literal $name:ident($args:ident) = $body:expr,
        role: $role:expr, threads: $threads:expr, cluster: $cluster:expr, shared: $shared:expr,
        tile: ($m:expr, $n:expr, $k:expr);)*) => {
        /// Every kernel, in the order of the table.
        pub const KERNELS: &[Kernel] = &[$(Kernel {
            name: stringify!($name),
            module: $module,
            role: $role,
            args_bytes: size_of::<$args>(),
            threads: $threads,
            cluster: $cluster,
            shared_bytes: $shared,
            tile: Tile { m: $m, n: $n, k: $k },
        }),*];
    };
}

variants!(rows);

/// The role of a wgmma product of 16-bit operands.
const fn sm90(pass: Pass, element: ElementType, narrow: bool) -> Role {
    Role::GemmSm90(Sm90Gemm { pass, element, narrow })
}

/// The role of an FP8 product with these scales of its operands.
const fn fp8_gemm(
    ragged: Ragged,
    a: ElementType,
    [a_scales, b_scales]: [Blocks; 2],
    accumulation: Accumulation,
) -> Role {
    Role::GemmFp8(Fp8Gemm {
        ragged,
        a,
        scaling: Scaling { a: a_scales, b: b_scales, accumulation },
        aligned: false,
    })
}

/// The role of a product of vectors by aligned vectors, along ragged reductions.
const fn fp8_aligned(a: ElementType) -> Role {
    let scaling =
        Scaling { a: Blocks::Vector, b: Blocks::Vector, accumulation: Accumulation::Promoted };
    Role::GemmFp8(Fp8Gemm { ragged: Ragged::Reduction, a, scaling, aligned: true })
}

/// The role of a tcgen05 product of 16-bit operands.
const fn sixteen(pass: Pass, element: ElementType, pair: bool) -> Role {
    Role::GemmSm100(Sm100Gemm { product: Sm100Product::Sixteen(pass, element), pair })
}

/// The role of a tcgen05 product of FP8 operands with these scales.
const fn fp8_gemm_sm100(
    ragged: Ragged,
    a: ElementType,
    [a_scales, b_scales]: [Blocks; 2],
    pair: bool,
) -> Role {
    let accumulation = match (a_scales, b_scales) {
        (Blocks::Tensor, Blocks::Tensor) => Accumulation::Fast,
        _ => Accumulation::Promoted,
    };
    let scaling = Scaling { a: a_scales, b: b_scales, accumulation };
    let product = Sm100Product::Fp8(Fp8Gemm { ragged, a, scaling, aligned: false });
    Role::GemmSm100(Sm100Gemm { product, pair })
}

/// The role of a tcgen05 product of codes in MXFP8.
const fn mxfp8(pass: Pass, pair: bool) -> Role {
    Role::GemmSm100(Sm100Gemm { product: Sm100Product::Mxfp8(pass), pair })
}

/// The role of a tcgen05 product of codes in NVFP4.
const fn nvfp4(pass: Pass, pair: bool) -> Role {
    Role::GemmSm100(Sm100Gemm { product: Sm100Product::Nvfp4(pass), pair })
}

/// The row of a role, if the table has one.
#[inline] // Not emitted on the device.
pub fn kernel(role: Role) -> Option<&'static Kernel> {
    KERNELS.iter().find(|kernel| kernel.role == role)
}
