//! The one table of kernel entry points. [`variants!`](crate::variants!) is expanded twice: on the
//! device to `extern "ptx-kernel"` functions (in `entries.rs`), on the host to [`KERNELS`], so that
//! names, threads, shared-memory bytes and tiles cannot disagree.

use crate::abi::quantize::Blocks;
use crate::abi::scaled::Scaling;
use crate::abi::{ElementType, Pass, Ragged};

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
    /// The wgmma grouped GEMM of one pass, for operands of one type.
    GemmSm90(Pass, ElementType),
    /// Largest magnitudes of the tiles of a tensor to be quantized.
    AmaxTiles,
    /// Scales of groups from the magnitudes of their tiles.
    GroupScales,
    /// To FP8, with a scale for each of these blocks.
    QuantizeFp8(Blocks),
    /// The wgmma grouped GEMM of FP8 operands that both run along the reduction.
    GemmFp8(Fp8Gemm),
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

/// Calls `$callback!` with every row: `feature module name(Args) = body, role, threads, cluster, shared, tile;`.
#[macro_export]
macro_rules! variants {
    ($callback:ident) => {
        $callback! {
            "module-quantize" "quantize" cast_bf16(CastArgs) = $crate::quantize::cast::run::<Bf16>,
                role: Role::Cast(ElementType::Bf16), threads: 256, cluster: 1, shared: 0, tile: (1, 2048, 1);
            "module-quantize" "quantize" cast_f16(CastArgs) = $crate::quantize::cast::run::<F16>,
                role: Role::Cast(ElementType::F16), threads: 256, cluster: 1, shared: 0, tile: (1, 2048, 1);

            "module-setup" "setup" pointer_setup(SetupArgs) = $crate::setup::run,
                role: Role::PointerSetup, threads: 1024, cluster: 1, shared: 256, tile: (1, 1, 1);

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

            "module-gemm-bf16" "gemm_bf16" gemm_sm90_fprop_bf16(GemmArgs) = $crate::gemm::sm90::run::<Fprop, Bf16>,
                role: Role::GemmSm90(Pass::Fprop, ElementType::Bf16), threads: 384, cluster: 1, shared: 196_736, tile: (128, 256, 64);
            "module-gemm-bf16" "gemm_bf16" gemm_sm90_dgrad_bf16(GemmArgs) = $crate::gemm::sm90::run::<Dgrad, Bf16>,
                role: Role::GemmSm90(Pass::Dgrad, ElementType::Bf16), threads: 384, cluster: 1, shared: 196_736, tile: (128, 256, 64);
            "module-gemm-bf16" "gemm_bf16" gemm_sm90_wgrad_bf16(GemmArgs) = $crate::gemm::sm90::run::<Wgrad, Bf16>,
                role: Role::GemmSm90(Pass::Wgrad, ElementType::Bf16), threads: 384, cluster: 1, shared: 196_736, tile: (128, 256, 64);

            "module-gemm-f16" "gemm_f16" gemm_sm90_fprop_f16(GemmArgs) = $crate::gemm::sm90::run::<Fprop, F16>,
                role: Role::GemmSm90(Pass::Fprop, ElementType::F16), threads: 384, cluster: 1, shared: 196_736, tile: (128, 256, 64);
            "module-gemm-f16" "gemm_f16" gemm_sm90_dgrad_f16(GemmArgs) = $crate::gemm::sm90::run::<Dgrad, F16>,
                role: Role::GemmSm90(Pass::Dgrad, ElementType::F16), threads: 384, cluster: 1, shared: 196_736, tile: (128, 256, 64);
            "module-gemm-f16" "gemm_f16" gemm_sm90_wgrad_f16(GemmArgs) = $crate::gemm::sm90::run::<Wgrad, F16>,
                role: Role::GemmSm90(Pass::Wgrad, ElementType::F16), threads: 384, cluster: 1, shared: 196_736, tile: (128, 256, 64);
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
            args_bytes: size_of::<$crate::abi::$args>(),
            threads: $threads,
            cluster: $cluster,
            shared_bytes: $shared,
            tile: Tile { m: $m, n: $n, k: $k },
        }),*];
    };
}

variants!(rows);

/// The row of a role, if the table has one.
#[inline] // Not emitted on the device.
pub fn kernel(role: Role) -> Option<&'static Kernel> {
    KERNELS.iter().find(|kernel| kernel.role == role)
}
