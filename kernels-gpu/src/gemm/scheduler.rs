//! Where a tile is.
//!
//! The tiles of all groups are numbered through, group after group; the group table holds the
//! number of the first of each. Which of them are a block's is the kernel's to say: tile `block`,
//! `block + blocks`, and so on (of a cluster, whose blocks take one together, by the cluster's
//! number), or the next that nobody has. A warp walks: numbers only grow, so it keeps a window of
//! 32 groups' ends, one per lane, and moves it forward, which costs no shared memory and no
//! barrier.
//!
//! Inside a group the tiles come in bands of [`BAND`] tile rows, rows fastest:
//!
//! ```text
//!          column tiles ▶
//!   row  0   0  16  32 …
//!   tiles    1  17  33 …
//!   ▼    …
//!       15  15  31  47 …
//! ```
//!
//! Blocks that run at one time then share their columns' operand and a few rows' operands in L2. A
//! band ends at the edge of its group.
//!
//! Tiles of a ragged reduction take as long as their group has rows. Where blocks get few of them
//! the set-up numbers those of long groups first, so that no block begins one when the others are
//! done.

use core::hint::assert_unchecked;

use ptx_std::hint::opaque;
use ptx_std::thread::{WARP, ballot, lane_index, shuffle_index};

use crate::table::Table;

/// Tile rows of a band.
const BAND: u32 = 16;

/// A tile of a group's output.
#[derive(Clone, Copy)]
pub struct Work {
    /// The group.
    pub group: u32,
    /// First row of the tile, counted from the first of the group.
    pub row: u32,
    /// First column of the tile.
    pub column: u32,
}

/// One warp's walk over the groups, in which it finds the tiles of its block.
pub struct Scheduler {
    table: Table,
    tile_columns: u32,
    /// First group of the window.
    window: u32,
    /// Tiles before the window.
    window_start: u32,
    /// Tiles up to and including this lane's group.
    end: u32,
    /// Whether groups may come in another order than their own.
    is_ordered: bool,
}

impl Scheduler {
    /// Starts the walk; `tile_columns` is the number of tile columns, the same in every group.
    /// `is_ordered`: the set-up may have put groups in order (known when the kernel is compiled).
    #[inline(always)]
    pub fn new(table: Table, tile_columns: u32, is_ordered: bool) -> Self {
        let mut scheduler =
            Self { table, tile_columns, window: 0, window_start: 0, end: 0, is_ordered };
        scheduler.load_window();
        scheduler
    }

    /// Where a tile of these rows and columns is, if there are so many: the same for all lanes.
    ///
    /// # Safety
    ///
    /// The whole warp calls it together, with numbers that only grow.
    #[inline(always)]
    pub unsafe fn place(&mut self, [tile_m, tile_n]: [u32; 2], tile: u32) -> Option<Work> {
        // Asked each time, not kept: few registers are left to the thread that copies.
        // SAFETY: `groups` is the last index of the prefix array.
        if tile >= unsafe { self.table.tile_prefix(opaque(self.table.groups)) } {
            return None;
        }

        // Move the window to the tile's group. Ends grow from lane to lane, and the last is
        // the number of tiles, so the groups that end before the tile are the lowest lanes, and the
        // loop stops.
        // SAFETY: the caller brings the whole warp.
        let (before, start, end) = unsafe {
            let mut before = ballot(self.end <= tile).count_ones();
            while before == WARP {
                self.window_start = shuffle_index(self.end, WARP - 1);
                self.window += WARP;
                self.load_window();
                before = ballot(self.end <= tile).count_ones();
            }
            let previous_end = shuffle_index(self.end, before.saturating_sub(1));
            let start = if before == 0 { self.window_start } else { previous_end };
            (before, start, shuffle_index(self.end, before))
        };

        // Place the tile in its band.
        let band_tiles = BAND * self.tile_columns;
        // SAFETY: a launch has at least one column.
        unsafe { assert_unchecked(self.tile_columns != 0 && band_tiles != 0) };
        let tile_rows = (end - start) / self.tile_columns;
        let in_group = tile - start;
        let band = in_group / band_tiles;
        let in_band = in_group - band * band_tiles;
        let band_rows = BAND.min(tile_rows - band * BAND);
        // SAFETY: the tile is one of the group's, so its band has a row.
        unsafe { assert_unchecked(band_rows != 0) };
        let place = self.window + before;
        Some(Work {
            // Asked for each tile, not kept for each lane, for the same reason as above.
            // SAFETY: the place is below `groups`.
            group: if self.is_ordered { unsafe { self.table.group_at(place) } } else { place },
            row: tile_m * (band * BAND + in_band % band_rows),
            column: tile_n * (in_band / band_rows),
        })
    }

    /// Loads the ends of the window's groups; past the last group, the number of tiles.
    #[inline(always)]
    fn load_window(&mut self) {
        let after = (self.window + lane_index() + 1).min(self.table.groups);
        // SAFETY: the index is at most `groups`.
        self.end = unsafe { self.table.tile_prefix(after) };
    }
}
