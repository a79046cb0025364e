//! `swizzle_scales`: block scales from compact to swizzled order, and back.
//!
//! A block moves the 512 bytes of tile rows that four blocks along the reduction have, two bytes a
//! thread: scales are a thirtieth of the data, so plain byte accesses do.

use ptx_std::memory::{load_constant_byte, store_byte};
use ptx_std::thread::{block_index, grid_blocks, thread_index};

use super::tiles::{COLUMNS, Tiles, is_skipped};
use crate::abi::mx::{MxScales, SwizzleArgs};

/// Threads of a block.
pub const THREADS: u32 = 256;

/// Moves scales: block x takes tiles x, x + grid, … of 128 × 128 elements.
///
/// # Safety
///
/// Blocks of [`THREADS`] threads; the addresses in `args` are valid for what its fields describe.
#[inline(always)]
pub unsafe fn run(args: &SwizzleArgs, _args_address: u64) {
    // SAFETY: the launcher keeps the contract above; a tile has its own scales.
    unsafe {
        if is_skipped(args.source.skip) {
            return;
        }
        let swizzled = MxScales {
            block: args.block,
            columns: args.source.columns,
            columnwise: args.columnwise != 0,
            swizzled: true,
        };
        let compact = MxScales { swizzled: false, ..swizzled };
        let blocks = COLUMNS / args.block;
        let tiles = Tiles::new(&args.source);
        let mut index = block_index();
        while index < tiles.count {
            let tile = tiles.get(index);
            let base = compact.base(tile.padded);
            // What the group's matrix is padded to along the reduction.
            let end = compact.tiles(tile.rows) * 4;
            let mut scale = thread_index();
            while scale < COLUMNS * blocks {
                let (line, block) = (scale / blocks, scale % blocks);
                let (row, column, along) = if compact.columnwise {
                    let block = tile.row / args.block + block;
                    (block, tile.column + line, block)
                } else {
                    let block = tile.column / args.block + block;
                    (tile.row + line, block, block)
                };
                if along < end {
                    let a = base + compact.offset(row, column, tile.rows);
                    let b = base + swizzled.offset(row, column, tile.rows);
                    let (from, to) = if args.swizzle != 0 { (a, b) } else { (b, a) };
                    store_byte(args.to + to, load_constant_byte(args.from + from));
                }
                scale += THREADS;
            }
            index += grid_blocks();
        }
    }
}
