//! The scales of a tile: collected in shared memory, where each thread has some of them, in the
//! order in which they are stored, and stored from there four at a time.

use ptx_std::memory::{load_shared_u32, store_shared_byte, store_u32_if};

use super::tiles::{COLUMNS, ROWS, Tile};
use crate::abi::mx::{MXFP8_BLOCK, MxScales, SCALE_TILE_BLOCKS, SCALE_TILE_BYTES, SCALE_TILE_ROWS};

const _: () = assert!(SCALE_TILE_ROWS == ROWS && SCALE_TILE_ROWS == COLUMNS);

/// The scales of a tile of one copy. Scale `(i, j)` is that of line `i` of the tile, a row or, of
/// columnwise copies, a column, and of block `j` along the reduction.
#[derive(Clone, Copy)]
pub struct TileScales {
    layout: MxScales,
    /// Shared memory for as many bytes as a tile has.
    shared: u32,
}

impl TileScales {
    /// Scales that are collected at `shared`.
    #[inline(always)]
    pub fn new(layout: MxScales, shared: u32) -> Self {
        Self { layout, shared }
    }

    /// Blocks of a tile along the reduction.
    #[inline(always)]
    fn blocks(&self) -> u32 {
        COLUMNS / self.layout.block
    }

    /// Bytes that the scales of a tile take.
    #[inline(always)]
    pub const fn bytes(block: u32) -> u32 {
        ROWS * (COLUMNS / block)
    }

    /// Whether a compact line holds the scales of one block of rows, as in columnwise copies of
    /// MXFP8.
    #[inline(always)]
    fn is_by_block(&self) -> bool {
        self.layout.columnwise && self.layout.block == MXFP8_BLOCK
    }

    /// Collects scales of block `j` of the lines from `i` on.
    #[inline(always)]
    pub fn collector(&self, i: u32, j: u32) -> Collector {
        let (place, step) = if self.layout.swizzled {
            let tile = j / SCALE_TILE_BLOCKS * SCALE_TILE_BYTES;
            (tile + i % 32 * 16 + i / 32 * 4 + j % SCALE_TILE_BLOCKS, 16)
        } else if self.is_by_block() {
            (j * COLUMNS + i, 1)
        } else {
            (i * self.blocks() + j, self.blocks())
        };
        Collector { address: self.shared + place, step }
    }

    /// Stores the scales of `tile` at `address`, that of the copy's scales: thread `thread` of
    /// `threads`.
    ///
    /// # Safety
    ///
    /// All of them are collected, and a barrier has passed; the copy has such a tile.
    #[inline(always)]
    pub unsafe fn store(&self, address: u64, tile: &Tile, thread: u32, threads: u32) {
        let layout = &self.layout;
        let blocks = self.blocks();
        // Line and block where the tile begins, and where the matrix of the group ends.
        let (line, block) = if layout.columnwise {
            (tile.column, tile.row / layout.block)
        } else {
            (tile.row, tile.column / layout.block)
        };
        let end = layout.tiles(tile.rows) * SCALE_TILE_BLOCKS;
        let group = address + layout.base(tile.padded);
        let (row, column) = if layout.columnwise { (block, line) } else { (line, block) };
        let mut word = thread;
        while word < TileScales::bytes(layout.block) / 4 {
            let (offset, live) = if layout.swizzled {
                let inside = word * 4 / SCALE_TILE_BYTES * SCALE_TILE_BLOCKS;
                (layout.offset(row, column, tile.rows) + u64::from(4 * word), block + inside < end)
            } else if self.is_by_block() {
                let (j, i) = (word / (COLUMNS / 4), word % (COLUMNS / 4) * 4);
                (layout.offset(row + j, column + i, tile.rows), true)
            } else {
                let words = blocks / SCALE_TILE_BLOCKS;
                let (i, j) = (word / words, word % words * SCALE_TILE_BLOCKS);
                let (down, along) = if layout.columnwise { (j, i) } else { (i, j) };
                (layout.offset(row + down, column + along, tile.rows), block + j < end)
            };
            // SAFETY: the caller vouches for the tile; the words of a tile are its own.
            unsafe {
                let scales = load_shared_u32(self.shared + 4 * word);
                store_u32_if(live, group + offset, scales);
            }
            word += threads;
        }
    }
}

/// Where scales of one block and neighbouring lines are collected.
#[derive(Clone, Copy)]
pub struct Collector {
    address: u32,
    /// From one line to the next.
    step: u32,
}

impl Collector {
    /// Collects the scale of line `k` from the collector's own on, in the same 32 lines of the
    /// tile.
    ///
    /// # Safety
    ///
    /// Each scale of a tile is collected by one thread; lines are below 128, blocks below those of
    /// a tile.
    #[inline(always)]
    pub unsafe fn put(&self, k: u32, scale: u32) {
        // SAFETY: the place is inside the tile's, and no other thread's.
        unsafe { store_shared_byte(self.address + self.step * k, scale) };
    }
}
