//! `quantize_nvfp4_*`: to FP4 with an E4M3 scale for each 16 elements, or each 16 × 16.
//!
//! A thread has sixteen rows of eight columns: all of a columnwise block, so that the Hadamard
//! transform stays inside the thread, and half of a rowwise block, the lane beside it has the other
//! half.

mod blocks;
mod columns;
mod general;
mod rows;
mod shared;
mod squares;
mod work;

use ptx_std::hint::opaque_u64;
use ptx_std::memory::{load_shared_f32, shared_base, store_f32};
use ptx_std::sync::block_barrier;
use ptx_std::thread::{WARP, block_index, grid_blocks, lane_index, thread_index, warp_index};

use self::shared::{store_transposed, sum_columns};
use self::work::Work;
use super::scales::TileScales;
use super::source::{CHUNK, Source};
use super::tiles::{COLUMNS, ROWS, Tile, Tiles, is_skipped};
use super::unroll::array16;
use crate::abi::mx::{MxCopy, MxScales, NVFP4_BLOCK, Nvfp4Args};
use crate::gemm::element::Bf16;

/// Threads of a block.
pub const THREADS: u32 = 128;
/// Dynamic shared memory: the transposed codes of a tile, the scales of both copies, the columns'
/// sums.
pub const SHARED_BYTES: u32 = SUMS + 4 * BANDS * COLUMNS;

/// Bytes of a column's codes of a tile.
const LINE_BYTES: u32 = ROWS / 2;
/// Where the scales of the rowwise copy are collected.
const ROW_SCALES: u32 = COLUMNS * LINE_BYTES;
/// Where the scales of the columnwise copy are collected.
const COLUMN_SCALES: u32 = ROW_SCALES + TileScales::bytes(NVFP4_BLOCK);
/// Where the columns' sums are collected.
const SUMS: u32 = COLUMN_SCALES + TileScales::bytes(NVFP4_BLOCK);
/// Bands of 16 rows of a tile.
const BANDS: u32 = ROWS / NVFP4_BLOCK;
/// Lanes side by side.
const ACROSS: u32 = COLUMNS / CHUNK;

const _: () = assert!(THREADS / ACROSS == BANDS);

/// A way to quantize the elements of a tile.
pub trait Way<S: Source> {
    /// Whether rowwise copies are made.
    const ROWWISE: bool = true;
    /// Whether columnwise copies are made.
    const COLUMNWISE: bool = true;
    /// Whether a block walks over tiles; else it takes one, and there are as many blocks.
    const WALKS: bool = true;

    /// Quantizes a thread's elements.
    ///
    /// # Safety
    ///
    /// The launcher's contract; all threads of the block come here.
    unsafe fn quantize(work: &Work<'_>);
}

/// Blocks along the columns, of BF16: no rows with scales of their own, no choice of scales.
pub struct Rowwise;
/// Blocks along the rows, likewise.
pub struct Columnwise;
/// Squares, with all of a thread's elements in registers.
pub struct Squares;
/// Lines in any way, a few at a time: see [`general`].
pub struct General;

impl Way<Bf16> for Rowwise {
    const COLUMNWISE: bool = false;
    const WALKS: bool = false;

    #[inline(always)]
    unsafe fn quantize(work: &Work<'_>) {
        // SAFETY: handed to the caller.
        unsafe { rows::rows(work) }
    }
}

impl Way<Bf16> for Columnwise {
    const ROWWISE: bool = false;
    const WALKS: bool = false;

    #[inline(always)]
    unsafe fn quantize(work: &Work<'_>) {
        // SAFETY: handed to the caller.
        unsafe { columns::columns(work) }
    }
}

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

/// The kernel: block x takes tiles x, x + grid, …; of lines without choices there are as many blocks as
/// tiles.
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
            if !W::WALKS {
                break;
            }
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
        // Find the thread's elements.
        let columns = args.source.columns;
        let shared = shared_base();
        let (thread, lane) = (thread_index(), lane_index());
        let band = warp_index() * (WARP / ACROSS) + lane / ACROSS;
        let row = tile.row + band * NVFP4_BLOCK;
        let column = lane % ACROSS * CHUNK;
        let in_group =
            u64::from(row) * u64::from(columns) + u64::from(tile.column) + u64::from(column);
        let work = Work {
            args,
            tile,
            tokens: tiles.are_tokens(),
            column,
            band,
            source: tiles.group_address(tile, S::BYTES) + S::BYTES * in_group,
            index: tile.first * u64::from(columns) + in_group,
            left: if tile.column + column < columns { tile.rows.saturating_sub(row) } else { 0 },
            row_scales: TileScales::new(layout(args, &args.rowwise, false), shared + ROW_SCALES),
            column_scales: TileScales::new(
                layout(args, &args.columnwise, true),
                shared + COLUMN_SCALES,
            ),
        };

        // Sum them, and quantize them.
        let dbias = opaque_u64(args.dbias_partial);
        if dbias != 0 {
            sum_columns::<S>(&work);
        }
        W::quantize(&work);

        // Store what was collected.
        let (rowwise, columnwise) = (work.rowwise(), work.columnwise());
        block_barrier();
        if W::ROWWISE && rowwise.scales != 0 {
            work.row_scales.store(rowwise.scales, tile, thread, THREADS);
        }
        if W::COLUMNWISE && columnwise.scales != 0 {
            work.column_scales.store(columnwise.scales, tile, thread, THREADS);
        }
        if W::COLUMNWISE && columnwise.data != 0 {
            store_transposed(&work, columnwise.data, thread);
        }
        if dbias != 0 && tile.column + thread < columns {
            let mut sum = 0.0;
            for band in 0..BANDS {
                sum += load_shared_f32(shared + SUMS + 4 * (band * COLUMNS + thread));
            }
            let index =
                u64::from(tile.row_tile) * u64::from(columns) + u64::from(tile.column + thread);
            store_f32(dbias + 4 * index, sum);
        }
    }
}

/// How the scales of a copy lie.
#[inline(always)]
fn layout(args: &Nvfp4Args, copy: &MxCopy, columnwise: bool) -> MxScales {
    let (block, columns) = (NVFP4_BLOCK, args.source.columns);
    MxScales { block, columns, columnwise, swizzled: copy.swizzled != 0 }
}
