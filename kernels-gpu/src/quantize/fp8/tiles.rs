//! The tiles of a source, 128 × 128 elements each, and where they lie.
//!
//! The tiles of a group are numbered along its rows of tiles: what all multiprocessors work on at a
//! time is a few such rows. Bands of 4, 16 or 64 rows, column by column, were as fast or slower for
//! either copy.

use super::stage::{HEIGHT, WIDTH};
use crate::abi::quantize::QuantizeArgs;
use crate::table::Table;

/// What a launch divides into tiles: tokens by a group table, or weights without one.
#[derive(Clone, Copy)]
pub struct Extent {
    /// Device address of the group table; 0: every group has `rows` rows.
    pub table: u64,
    /// Number of groups.
    pub groups: u32,
    /// Rows of every group, where there is no table.
    pub rows: u32,
    /// Columns.
    pub columns: u32,
}

/// One tile.
#[derive(Clone, Copy)]
pub struct Tile {
    /// Its group.
    pub group: u32,
    /// Its first row in its group.
    pub row: u32,
    /// Its first column.
    pub column: u32,
    /// Its rows that exist, 1 to 128.
    pub rows: u32,
    /// Its columns that exist, 1 to 128.
    pub columns: u32,
    /// Row of the rowwise copy that its first row is: of the tokens, or of the group's weights.
    pub line: u64,
    /// The same for the columnwise copy, whose groups of tokens are padded.
    pub padded: u64,
    /// Its place among all tiles of its column: rows 128 at a time, group by group.
    pub segment: u32,
}

impl Extent {
    /// That of a launch of a quantize kernel.
    #[inline(always)]
    pub fn of(args: &QuantizeArgs) -> Self {
        let QuantizeArgs { table, groups, rows, columns, .. } = *args;
        Self { table, groups, rows, columns }
    }

    /// Tiles side by side. Not zero, which also spares divisions a check.
    #[inline(always)]
    pub fn across(&self) -> u32 {
        self.columns.div_ceil(WIDTH).max(1)
    }

    /// Number of tiles; none if the table says that the splits are bad.
    ///
    /// # Safety
    ///
    /// As [`Table::new`].
    #[inline(always)]
    pub unsafe fn tiles(&self) -> u32 {
        if self.table == 0 {
            return self.groups * self.tiles_of_group();
        }
        // SAFETY: handed to the caller.
        unsafe { Table::new(self.table, self.groups).tile_prefix(self.groups) }
    }

    /// The first tile of a group, and the one behind its last.
    ///
    /// # Safety
    ///
    /// As [`Table::new`].
    #[inline(always)]
    pub unsafe fn tiles_of(&self, group: u32) -> [u32; 2] {
        if self.table == 0 {
            return [group, group + 1].map(|group| group * self.tiles_of_group());
        }
        // SAFETY: handed to the caller.
        [group, group + 1]
            .map(|group| unsafe { Table::new(self.table, self.groups).tile_prefix(group) })
    }

    /// Tiles of each group, where there is no table.
    #[inline(always)]
    fn tiles_of_group(&self) -> u32 {
        self.rows.div_ceil(HEIGHT) * self.columns.div_ceil(WIDTH)
    }

    /// The tile at a place, which is below the number of tiles.
    ///
    /// # Safety
    ///
    /// As [`Table::new`].
    #[inline(always)]
    pub unsafe fn tile(&self, index: u32) -> Tile {
        // SAFETY: handed to the caller.
        unsafe { self.tile_of(index, || Table::new(self.table, self.groups).group_of_tile(index)) }
    }

    /// The same, found by a warp together.
    ///
    /// # Safety
    ///
    /// As [`Table::new`]; all lanes of the warp call it, with the same index.
    #[inline(always)]
    pub unsafe fn tile_by_warp(&self, index: u32) -> Tile {
        // SAFETY: handed to the caller.
        unsafe {
            self.tile_of(index, || Table::new(self.table, self.groups).group_of_tile_by_warp(index))
        }
    }

    /// The tile at a place, whose group is `find` where there is a table.
    #[inline(always)]
    unsafe fn tile_of(&self, index: u32, find: impl Fn() -> u32) -> Tile {
        let across = self.across();
        let (group, first_tile, rows, first_row, first_padded);
        if self.table == 0 {
            group = index / self.tiles_of_group().max(1);
            first_tile = group * self.tiles_of_group();
            rows = self.rows;
            (first_row, first_padded) = (0, 0);
        } else {
            group = find();
            // SAFETY: handed to the caller.
            unsafe {
                let table = Table::new(self.table, self.groups);
                first_tile = table.tile_prefix(group);
                first_row = table.row_offset(group) as u64;
                rows = (table.row_offset(group + 1) as u64 - first_row) as u32;
                first_padded = table.padded_offset(group) as u64;
            }
        }
        let in_group = index - first_tile;
        let row = in_group / across * HEIGHT;
        let column = in_group % across * WIDTH;
        Tile {
            group,
            row,
            column,
            rows: (rows - row).min(HEIGHT),
            columns: (self.columns - column).min(WIDTH),
            line: first_row + u64::from(row),
            padded: first_padded + u64::from(row),
            segment: first_tile / across + row / HEIGHT,
        }
    }
}
