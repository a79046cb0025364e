//! The tiles of a source, one after another, with all that says where they lie.

use ptx_std::hint::opaque;
use ptx_std::memory::{load_constant_u32, load_constant_u64};

use crate::abi::mx::MxSource;
use crate::abi::quantize::{COLUMN_BLOCK, ROW_BLOCK};
use crate::table::Table;

/// Rows of a tile.
pub const ROWS: u32 = ROW_BLOCK;
/// Columns of a tile.
pub const COLUMNS: u32 = COLUMN_BLOCK;

/// All tiles of a source.
pub struct Tiles<'a> {
    source: &'a MxSource,
    /// How many there are.
    pub count: u32,
}

/// A tile.
pub struct Tile {
    /// Its group.
    pub group: u32,
    /// Its first row in the group.
    pub row: u32,
    /// Its first column.
    pub column: u32,
    /// Rows of the group.
    pub rows: u32,
    /// The group's first row in arrays that lie as the source does.
    pub first: u64,
    /// The group's first row where every group before it is padded.
    pub padded: u64,
    /// Its number among the row tiles of all groups.
    pub row_tile: u32,
}

impl Tile {
    /// Rows of the group from the tile's first on: those of the tile, and more.
    #[inline(always)]
    pub fn rows_left(&self) -> u32 {
        self.rows - self.row
    }
}

/// Whether the launch shall write nothing.
///
/// # Safety
///
/// `source.skip` is 0 or the address of a flag.
#[inline(always)]
pub unsafe fn is_skipped(skip: u64) -> bool {
    // SAFETY: the caller vouches for the address.
    skip != 0 && unsafe { load_constant_u32(skip) } != 0
}

impl<'a> Tiles<'a> {
    /// The tiles of `source`.
    ///
    /// # Safety
    ///
    /// The addresses in `source` are valid for what its fields describe, here and in the other
    /// functions.
    #[inline(always)]
    pub unsafe fn new(source: &'a MxSource) -> Self {
        // SAFETY: the caller vouches for the table.
        unsafe {
            if source.table == 0 {
                let count = source.groups * source.tiles_of_group();
                return Self { source, count };
            }
            let table = Table::new(source.table, source.groups);
            Self { source, count: table.tile_prefix(source.groups) }
        }
    }

    /// Tile `index`, which is below `count`. The whole warp calls it together.
    #[inline(always)]
    pub unsafe fn get(&self, index: u32) -> Tile {
        let source = self.source;
        let across = source.tile_columns();
        // The layout of the table is computed for each tile: it would take registers in between.
        let groups = opaque(source.groups);
        let (group, inside, rows, first, padded) = match source.table {
            0 => {
                let of_group = source.tiles_of_group();
                let group = index / of_group;
                let first = u64::from(group) * u64::from(source.rows);
                let padded = u64::from(group) * u64::from(source.rows.next_multiple_of(ROWS));
                (group, index % of_group, source.rows, first, padded)
            }
            // SAFETY: the table belongs to the source, and the tile to a group.
            address => unsafe {
                let table = Table::new(address, groups);
                let group = table.group_of_tile_by_warp(index);
                let first = table.row_offset(group);
                let rows = (table.row_offset(group + 1) - first) as u32;
                let inside = index - table.tile_prefix(group);
                (group, inside, rows, first as u64, table.padded_offset(group) as u64)
            },
        };
        Tile {
            group,
            row: inside / across * ROWS,
            column: inside % across * COLUMNS,
            rows,
            first,
            padded,
            row_tile: index / across,
        }
    }

    /// Address of the first element of a tile's group in the source, whose elements have `bytes`
    /// bytes.
    #[inline(always)]
    pub unsafe fn group_address(&self, tile: &Tile, bytes: u64) -> u64 {
        let source = self.source;
        if source.array != 0 {
            // SAFETY: the array has an address for each group.
            return unsafe { load_constant_u64(source.array + 8 * u64::from(tile.group)) };
        }
        source.base + tile.first * u64::from(source.columns) * bytes
    }

    /// Address of the first element of a tile, likewise.
    #[inline(always)]
    pub unsafe fn first_element(&self, tile: &Tile, bytes: u64) -> u64 {
        let columns = u64::from(self.source.columns);
        let before = u64::from(tile.row) * columns + u64::from(tile.column);
        // SAFETY: handed to the caller.
        unsafe { self.group_address(tile, bytes) + bytes * before }
    }

    /// Whether the groups are tokens, which share arrays and are padded in transposed copies.
    #[inline(always)]
    pub fn are_tokens(&self) -> bool {
        self.source.table != 0
    }

    /// The shape.
    #[inline(always)]
    pub fn source(&self) -> &MxSource {
        self.source
    }
}
