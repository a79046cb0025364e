//! `quantize_nvfp4_*`: to FP4 with an E4M3 scale for each 16 elements, or each 16 × 16.
//!
//! A thread has sixteen rows of eight columns: all of a columnwise block, so that the Hadamard
//! transform stays inside the thread, and half of a rowwise block, the lane beside it has the other
//! half. [`lines`] of BF16 and squares that are read [`once`] share them out in ways of their own.

mod ahead;
mod blocks;
mod columns;
mod found;
mod general;
pub mod lines;
pub mod once;
mod rows;
mod shared;
mod squares;
mod work;

use ptx_std::hint::opaque_u64;
use ptx_std::memory::shared_base;
use ptx_std::sync::block_barrier;
use ptx_std::thread::{WARP, block_index, grid_blocks, lane_index, thread_index, warp_index};

use self::shared::{store_sums, store_transposed, sum_columns};
use self::work::Work;
use super::scales::TileScales;
use super::source::{CHUNK, Source};
use super::tiles::{COLUMNS, ROWS, Tile, Tiles, is_skipped};
use super::unroll::array16;
use crate::abi::mx::{NVFP4_BLOCK, Nvfp4Args};

/// Threads of a block.
pub const THREADS: u32 = 128;
/// Dynamic shared memory: the transposed codes of a tile, the scales of both copies, the columns'
/// sums; [lines] and squares read [once] have sizes of their own.
pub const SHARED_BYTES: u32 = SUMS + SUMS_BYTES;

/// Bytes of a column's codes of a tile.
const LINE_BYTES: u32 = ROWS / 2;
/// Where the scales of the rowwise copy are collected.
const ROW_SCALES: u32 = COLUMNS * LINE_BYTES;
/// Where the scales of the columnwise copy are collected.
const COLUMN_SCALES: u32 = ROW_SCALES + TileScales::bytes(NVFP4_BLOCK);
/// Where the columns' sums are collected.
const SUMS: u32 = COLUMN_SCALES + TileScales::bytes(NVFP4_BLOCK);
/// Bytes of them.
const SUMS_BYTES: u32 = 4 * BANDS * COLUMNS;
/// Bands of 16 rows of a tile.
const BANDS: u32 = ROWS / NVFP4_BLOCK;
/// Lanes side by side.
const ACROSS: u32 = COLUMNS / CHUNK;

const _: () = assert!(THREADS / ACROSS == BANDS);

/// A way to quantize the elements of a tile.
pub trait Way<S: Source> {
    /// Quantizes a thread's elements.
    ///
    /// # Safety
    ///
    /// The launcher's contract; all threads of the block come here.
    unsafe fn quantize(work: &Work<'_>);
}

/// Squares, with all of a thread's elements in registers.
pub struct Squares;
/// Lines in any way, a few at a time: see [`general`].
pub struct General;

impl<S: Source> Way<S> for Squares {
    #[inline(always)]
    unsafe fn quantize(work: &Work<'_>) {
        // SAFETY: handed to the caller.
        unsafe { squares::square::<S>(work, &array16(|i| work.load::<S>(i as u32))) }
    }
}

impl<S: Source> Way<S> for General {
    #[inline(always)]
    unsafe fn quantize(work: &Work<'_>) {
        // SAFETY: handed to the caller.
        unsafe {
            if work.rowwise().is_wanted() {
                general::rows::<S>(work);
            }
            if work.columnwise().is_wanted() {
                general::columns::<S>(work);
            }
        }
    }
}

/// The kernel of squares: block x takes tile x from the end.
///
/// # Safety
///
/// As [`run`], with as many blocks as tiles or more.
#[inline(always)]
pub unsafe fn run_squares<S: Source>(args: &Nvfp4Args, _args_address: u64) {
    // SAFETY: the launcher keeps the contract above.
    unsafe {
        if is_skipped(args.source.skip) {
            return;
        }
        let tiles = Tiles::new(&args.source);
        let index = block_index();
        if index < tiles.count {
            quantize_tile::<Squares, S>(args, &tiles, &tiles.get(tiles.count - 1 - index));
        }
    }
}

/// The other kernels: block x takes tiles x, x + grid, …
///
/// # Safety
///
/// Blocks of [`THREADS`] threads with [`SHARED_BYTES`] of dynamic shared memory; the addresses in
/// `args` are valid for what its fields describe; columns, and rows of columnwise weights, are a
/// multiple of 16. What the host refuses: squares that are transformed or rounded at random; rows
/// with scales of their own, or scales to choose from, together with the transform or with random
/// rounding; the former with a columnwise copy.
#[inline(always)]
pub unsafe fn run<W: Way<S>, S: Source>(args: &Nvfp4Args, _args_address: u64) {
    // SAFETY: the launcher keeps the contract above. All threads of a block take the same tiles, so
    // they meet at every barrier.
    unsafe {
        if is_skipped(args.source.skip) {
            return;
        }
        let tiles = Tiles::new(&args.source);
        let mut index = block_index();
        while index < tiles.count {
            let tile = tiles.get(index);
            quantize_tile::<W, S>(args, &tiles, &tile);
            block_barrier(); // what has been collected has been stored
            index += grid_blocks();
        }
    }
}

#[inline(always)]
unsafe fn quantize_tile<W: Way<S>, S: Source>(args: &Nvfp4Args, tiles: &Tiles<'_>, tile: &Tile) {
    // SAFETY: as in `run`; elements are loaded where the source has them, and stored where the
    // copies have them.
    unsafe {
        let work = Work::new(args, tile, tiles.first_element(tile, S::BYTES));
        let (band, column) = own_elements();
        let work = work.at::<S>(band, column);
        let sums = shared_base() + SUMS;
        if opaque_u64(args.dbias_partial) != 0 {
            sum_columns::<S>(&work, sums);
        }
        W::quantize(&work);
        block_barrier();
        store_collected(&work);
        if opaque_u64(args.dbias_partial) != 0 {
            store_sums(&work, sums);
        }
    }
}

/// Band and first column of the elements that a thread has where it has sixteen rows of eight
/// columns.
#[inline(always)]
fn own_elements() -> (u32, u32) {
    // SAFETY: the whole warp is here.
    let (warp, lane) = unsafe { (warp_index(), lane_index()) };
    (warp * (WARP / ACROSS) + lane / ACROSS, lane % ACROSS * CHUNK)
}

/// Stores what was collected of a tile, behind a barrier.
#[inline(always)]
unsafe fn store_collected(work: &Work<'_>) {
    let (tile, thread) = (work.tile, thread_index());
    // SAFETY: as in `run`.
    unsafe {
        let (rowwise, columnwise) = (work.rowwise(), work.columnwise());
        if rowwise.scales != 0 {
            work.row_scales.store(rowwise.scales, tile, thread, THREADS);
        }
        if columnwise.scales != 0 {
            work.column_scales.store(columnwise.scales, tile, thread, THREADS);
        }
        if columnwise.data != 0 {
            store_transposed(work, columnwise.data, thread);
        }
    }
}
