//! What goes through shared memory beside the scales: the codes of the transposed copy, and the
//! columns' sums.

use ptx_std::hint::opaque;
use ptx_std::memory::{
    load_shared_f32, load_shared_u64, shared_base, store_f32, store_shared_f32, store_shared_u64,
    store_u32x2_if,
};
use ptx_std::thread::thread_index;

use super::super::source::Source;
use super::super::tiles::COLUMNS;
use super::super::unroll::each8;
use super::work::Work;
use super::{BANDS, LINE_BYTES, THREADS};
use crate::abi::mx::NVFP4_BLOCK;

/// Columns whose codes all threads store at once.
const COLUMNS_AT_ONCE: u32 = THREADS / BANDS;

const _: () = assert!(COLUMNS == 8 * COLUMNS_AT_ONCE);

/// Where eight bytes of codes of a column of a tile are collected. Columns that lie four or eight
/// apart, and those of the other half of the tile, are kept in different banks.
#[inline(always)]
unsafe fn line_address(column: u32, band: u32) -> u32 {
    let line = column ^ (column >> 6 ^ column >> 2) & 1;
    let unit = (band ^ column >> 3) % BANDS;
    // SAFETY: the shared memory is declared.
    unsafe { shared_base() + line * LINE_BYTES + unit * 8 }
}

/// Collects the codes of a columnwise block.
#[inline(always)]
pub(super) unsafe fn collect_line(column: u32, band: u32, [low, high]: [u32; 2]) {
    // SAFETY: each block is one thread's.
    unsafe {
        let codes = u64::from(high) << 32 | u64::from(low);
        store_shared_u64(line_address(column, band), codes);
    }
}

/// Stores the transposed codes of a tile: eight lanes a column.
#[inline(always)]
pub(super) unsafe fn store_transposed(work: &Work<'_>, data: u64, thread: u32) {
    let tile = work.tile;
    let (line, row, pitch) = work.transposed();
    let band = thread % BANDS;
    // Groups of tokens are padded to whole tiles.
    let live = work.tokens || band * NVFP4_BLOCK < tile.rows_left();
    let first = thread / BANDS % COLUMNS_AT_ONCE;
    let index = (line + u64::from(first)) * pitch + row + u64::from(band * NVFP4_BLOCK);
    let mut address = data + index / 2;
    each8(|i| {
        // Disjoint bits, so that most of the place in shared memory is the same for all.
        let column = first | (COLUMNS_AT_ONCE * i as u32);
        let live = live && tile.column + column < work.args.source.columns;
        // SAFETY: the caller vouches for the tile and for a barrier; a column's blocks are its own.
        unsafe {
            let codes = load_shared_u64(line_address(column, band));
            let codes = [codes as u32, (codes >> 32) as u32];
            store_u32x2_if(live, address, codes);
        }
        address += pitch * u64::from(COLUMNS_AT_ONCE / 2);
    });
}

/// Collects the sums of a thread's columns at `place`, of elements that are read for it alone.
#[inline(always)]
pub(super) unsafe fn sum_columns<S: Source>(work: &Work<'_>, place: u32) {
    let mut sums = [0.0; 8];
    let mut row = 0;
    while row != NVFP4_BLOCK {
        // SAFETY: as in `quantize_tile`.
        let values = S::values(unsafe { work.load::<S>(row) });
        each8(|j| sums[j] += values[j]);
        row = opaque(row + 1);
    }
    // SAFETY: the places are this thread's.
    unsafe {
        let first = place + 4 * (work.band * COLUMNS + work.column);
        each8(|i| store_shared_f32(first + 4 * i as u32, sums[i]));
    }
}

/// Stores the sums of a tile's columns, of which each band has collected its own at `place`; a
/// barrier is between.
#[inline(always)]
pub(super) unsafe fn store_sums(work: &Work<'_>, place: u32) {
    let (args, tile, thread) = (work.args, work.tile, thread_index());
    let columns = args.source.columns;
    if tile.column + thread < columns {
        let mut sum = 0.0;
        // SAFETY: as in `quantize_tile`.
        unsafe {
            for band in 0..BANDS {
                sum += load_shared_f32(place + 4 * (band * COLUMNS + thread));
            }
            let index =
                u64::from(tile.row_tile) * u64::from(columns) + u64::from(tile.column + thread);
            store_f32(args.dbias_partial + 4 * index, sum);
        }
    }
}
