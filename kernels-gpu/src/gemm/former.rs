//! The former output of a tile, asked for before the tile is finished.

use ptx_std::hint::opaque;
use ptx_std::thread::{WARP, lane_index};
use ptx_std::tma::prefetch_l2;

use super::element::Kind;
use super::scheduler::Work;
use super::shape::TILE_M;
use crate::abi::GemmArgs;
use crate::table::Table;

/// Brings the former output of a tile of `columns` into L2, while its last stages are multiplied.
/// The warp's lanes take a row each in turn.
///
/// # Safety
///
/// The group's output has `live_rows`, whose length is a multiple of 16 bytes.
#[inline(always)]
pub unsafe fn prefetch_former(
    args: &GemmArgs,
    table: &Table,
    work: &Work,
    columns: u32,
    live_rows: u32,
) {
    let element = Kind(args.d_type).bytes();
    let bytes = columns.min(args.n - work.column) * element as u32;
    let end = live_rows.min(work.row + TILE_M);
    let mut row = work.row + lane_index();
    // SAFETY: only live elements of the output are named; its rows are multiples of 16 bytes.
    unsafe {
        let row_bytes = u64::from(args.n) * element;
        let first = u64::from(row) * row_bytes + u64::from(work.column) * element;
        let mut address = table.d_pointer(work.group) + first;
        while row < end {
            prefetch_l2(address, bytes);
            address += u64::from(WARP) * row_bytes;
            row = opaque(row) + WARP; // not unrolled, in a warp with few registers
        }
    }
}
