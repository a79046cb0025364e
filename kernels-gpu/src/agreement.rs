//! Compile-time proof that the table of kernels says what the kernels need.

use crate::abi::DBIAS_SEGMENT_ROWS;
use crate::abi::mx::Nvfp4Way;
use crate::abi::quantize::{Blocks, COLUMN_BLOCK, ROW_BLOCK};
use crate::abi::scaled::{ALIGN_WINDOW, Accumulation, Scaling};
use crate::gemm::sm90::ring::{DeepRing, Rooms, WideBoxes};
use crate::gemm::{product as products, scales, shape, simt, sm100};
use crate::quantize::mx::{amax, dequantize, mxfp8, nvfp4, swizzle};
use crate::quantize::{cast, fp8, pad};
use crate::variants::{Fp8Gemm, KERNELS, Kernel, Role, Sm90Gemm, Sm100Gemm, Sm100Product};
use crate::{reduce, setup};

const _: () = {
    let mut i = 0;
    while i < KERNELS.len() {
        assert!(agrees(&KERNELS[i]));
        i += 1;
    }
};

const fn agrees(kernel: &Kernel) -> bool {
    let (threads, shared) = (kernel.threads, kernel.shared_bytes);
    let (m, n, k) = (kernel.tile.m, kernel.tile.n, kernel.tile.k);
    match kernel.role {
        Role::Cast(_) => threads == cast::THREADS && m == 1 && n == cast::TILE,
        Role::AmaxTiles => {
            threads == fp8::THREADS && shared >= fp8::ROOM && m == ROW_BLOCK && n == COLUMN_BLOCK
        }
        Role::QuantizeFp8(_) => {
            threads == fp8::THREADS
                && shared >= fp8::SHARED_BYTES
                && m == ROW_BLOCK
                && n == COLUMN_BLOCK
        }
        Role::QuantizeFp8Rows(_) => {
            threads == fp8::THREADS
                && shared >= fp8::lines::SHARED_BYTES
                && m == ROW_BLOCK
                && n == COLUMN_BLOCK
        }
        Role::QuantizeCurrentRows => {
            threads == fp8::current::THREADS
                && shared >= fp8::lines::CURRENT_SHARED_BYTES
                && m == ROW_BLOCK
                && n == COLUMN_BLOCK
        }
        Role::QuantizeCurrentColumns => {
            threads == fp8::current::THREADS
                && shared >= fp8::strips::CURRENT_SHARED_BYTES
                && m == ROW_BLOCK
                && n == COLUMN_BLOCK
        }
        Role::QuantizeFp8Columns(_) => {
            threads == fp8::THREADS
                && shared >= fp8::strips::SHARED_BYTES
                && m == ROW_BLOCK
                && n == COLUMN_BLOCK
        }
        Role::GroupScales => {
            threads == fp8::group_scales::THREADS && shared >= fp8::group_scales::SHARED_BYTES
        }
        Role::UpdateScales => {
            threads == fp8::update_scales::THREADS && shared >= fp8::update_scales::SHARED_BYTES
        }
        Role::DequantizeFp8 => {
            threads == fp8::dequantize::THREADS
                && shared >= fp8::dequantize::SHARED_BYTES
                && m == ROW_BLOCK
                && n == COLUMN_BLOCK
        }
        Role::Align => {
            threads == fp8::align::THREADS
                && shared >= fp8::align::SHARED_BYTES
                && m == ALIGN_WINDOW
                && n == COLUMN_BLOCK
        }
        Role::QuantizeMxfp8(_) => {
            threads == mxfp8::THREADS && shared >= mxfp8::SHARED_BYTES && m == 128 && n == 128
        }
        Role::QuantizeNvfp4(way, _) => {
            let (own_threads, needed) = match way {
                Nvfp4Way::Lines => {
                    (nvfp4::THREADS, nvfp4::lines::shared_bytes::<nvfp4::lines::InCodes>())
                }
                Nvfp4Way::ExactLines => {
                    (nvfp4::THREADS, nvfp4::lines::shared_bytes::<nvfp4::lines::Exact>())
                }
                Nvfp4Way::Squares | Nvfp4Way::General => (nvfp4::THREADS, nvfp4::SHARED_BYTES),
                Nvfp4Way::SquaresOnce => (nvfp4::once::THREADS, nvfp4::once::SHARED_BYTES),
            };
            threads == own_threads && shared >= needed && m == 128 && n == 128
        }
        Role::DequantizeMxfp8 | Role::DequantizeNvfp4 => {
            threads == dequantize::THREADS && m == 128 && n == 128
        }
        Role::SwizzleScales => threads == swizzle::THREADS && m == 128 && n == 128,
        Role::Nvfp4TileAmax(_) => {
            threads == amax::TILE_THREADS && shared >= amax::SHARED_BYTES && m == 128 && n == 128
        }
        Role::Nvfp4GroupAmax => threads == amax::THREADS && shared >= amax::SHARED_BYTES,
        Role::Nvfp4RowAmax => threads == amax::THREADS && m == amax::ROWS_OF_BLOCK,
        Role::PadRows | Role::UnpadRows => threads == pad::THREADS && m == pad::THREADS / 32,
        Role::PointerSetup => threads == setup::THREADS && shared >= setup::SHARED_BYTES,
        Role::DbiasPartial => {
            threads == reduce::THREADS
                && shared >= reduce::PARTIAL_SHARED_BYTES
                && m == DBIAS_SEGMENT_ROWS
                && n == reduce::COLUMNS
        }
        Role::DbiasReduce => threads == reduce::THREADS && n == reduce::THREADS,
        Role::Dscales => threads == reduce::THREADS && m == reduce::THREADS / 32,
        Role::GemmSimt(_) => {
            threads == simt::THREADS
                && shared >= simt::SHARED_BYTES
                && m == simt::TILE
                && n == simt::TILE
                && k == simt::DEPTH
        }
        Role::GemmSm90(Sm90Gemm { narrow, .. }) => {
            threads == shape::WARPGROUP * (1 + shape::CONSUMERS)
                && shared >= DeepRing::SHARED_BYTES
                && m == shape::TILE_M
                && n == if narrow { shape::NARROW_N } else { shape::TILE_N }
                && k == products::DEPTH
        }
        Role::GemmFp8(Fp8Gemm { scaling: Scaling { a, b, accumulation }, .. }) => {
            let has_scales = !matches!((a, b), (Blocks::Tensor, Blocks::Tensor));
            threads == shape::WARPGROUP * (1 + shape::CONSUMERS)
                && shared
                    >= match accumulation {
                        Accumulation::Fast => DeepRing::SHARED_BYTES,
                        Accumulation::Promoted if has_scales => WideBoxes::SCALED_SHARED_BYTES,
                        Accumulation::Promoted => DeepRing::SHARED_BYTES,
                    }
                && m == shape::TILE_M
                && n == shape::TILE_N
                && k == products::FP8_DEPTH
        }
        Role::GemmSm100(Sm100Gemm { product, pair }) => {
            let blocks = if pair { 2 } else { 1 };
            let (depth, scales) = match product {
                Sm100Product::Sixteen(..) => (products::DEPTH, 0),
                Sm100Product::Fp8(Fp8Gemm { scaling, .. }) => {
                    let scales = match scaling.accumulation {
                        Accumulation::Fast => 0,
                        Accumulation::Promoted => scales::SCALE_BYTES,
                    };
                    (products::FP8_DEPTH, scales)
                }
                Sm100Product::Mxfp8(_) => (products::FP8_DEPTH, sm100::blocks::MXFP8_SCALES),
                Sm100Product::Nvfp4(_) => (products::NVFP4_DEPTH, sm100::blocks::NVFP4_SCALES),
            };
            threads == shape::WARPGROUP * (1 + shape::CONSUMERS)
                && kernel.cluster == blocks
                && shared >= sm100::ring::Rooms::new(blocks, scales).bytes
                && m == shape::TILE_M * blocks
                && n == shape::TILE_N
                && k == depth
        }
    }
}
