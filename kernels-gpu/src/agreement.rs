//! Compile-time proof that the table of kernels says what the kernels need.

use crate::abi::DBIAS_SEGMENT_ROWS;
use crate::gemm::{simt, sm90};
use crate::quantize::cast;
use crate::variants::{KERNELS, Kernel, Role};
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
        Role::GemmSm90(..) => {
            threads == sm90::WARPGROUP * (1 + sm90::CONSUMERS)
                && shared >= sm90::SHARED_BYTES
                && m == sm90::TILE_M
                && n == sm90::TILE_N
                && k == sm90::DEPTH
        }
        // Their rows are not in the table yet.
        Role::AmaxTiles | Role::GroupScales | Role::QuantizeFp8(_) | Role::GemmFp8(_) => false,
    }
}
