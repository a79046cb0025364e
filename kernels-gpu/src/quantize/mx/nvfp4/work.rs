//! What a thread does with a tile.

use ptx_std::memory::{load_constant_f32, shared_base, store_u32_if, store_u32x4_if};

use super::super::scales::{Collector, TileScales};
use super::super::scaling::Scaling;
use super::super::source::Source;
use super::super::tiles::Tile;
use super::super::unroll::anew;
use super::{COLUMN_SCALES, ROW_SCALES};
use crate::abi::mx::{MxCopy, MxScales, NVFP4_BLOCK, Nvfp4Args};

/// What a thread does with a tile, and where.
pub struct Work<'a> {
    pub args: &'a Nvfp4Args,
    pub tile: &'a Tile,
    pub tokens: bool,
    /// Address of the tile's first element.
    pub tile_source: u64,
    /// The thread's first column in the tile, and its band of 16 rows.
    pub column: u32,
    pub band: u32,
    /// Address of its first element.
    pub source: u64,
    /// Index of that in arrays that lie as the source does.
    pub index: u64,
    /// Rows of the group from the thread's first on; 0 if the source has no such columns.
    pub left: u32,
    pub row_scales: TileScales,
    pub column_scales: TileScales,
}

impl<'a> Work<'a> {
    /// All of a tile, whose first element is at `source`.
    #[inline(always)]
    pub fn new(args: &'a Nvfp4Args, tile: &'a Tile, source: u64) -> Self {
        let columns = u64::from(args.source.columns);
        let index = (tile.first + u64::from(tile.row)) * columns + u64::from(tile.column);
        // SAFETY: the shared memory is declared.
        let shared = unsafe { shared_base() };
        let scales = |copy, columnwise, place| {
            TileScales::new(layout(args, copy, columnwise), shared + place)
        };
        Self {
            args,
            tile,
            tokens: args.source.table != 0,
            tile_source: source,
            column: 0,
            band: 0,
            source,
            index,
            left: tile.rows.saturating_sub(tile.row),
            row_scales: scales(&args.rowwise, false, ROW_SCALES),
            column_scales: scales(&args.columnwise, true, COLUMN_SCALES),
        }
    }

    /// What the thread does with the rows of a band from a column of the tile on.
    #[inline(always)]
    pub fn at<S: Source>(&self, band: u32, column: u32) -> Self {
        let (tile, columns) = (self.tile, self.args.source.columns);
        let row = band * NVFP4_BLOCK;
        let (pitch, first) = (u64::from(columns), tile.column + column);
        let before = u64::from(row) * pitch + u64::from(column);
        let is_there = first < columns;
        Work {
            column,
            band,
            source: self.tile_source + S::BYTES * before,
            index: (tile.first + u64::from(tile.row + row)) * pitch + u64::from(first),
            left: if is_there { tile.rows.saturating_sub(tile.row + row) } else { 0 },
            ..*self
        }
    }

    /// The same from `rows` of its band further down.
    #[inline(always)]
    pub fn below<S: Source>(&self, rows: u32) -> Self {
        let before = u64::from(rows) * u64::from(self.args.source.columns);
        Work {
            source: self.source + S::BYTES * before,
            index: self.index + before,
            left: self.left.saturating_sub(rows),
            ..*self
        }
    }

    /// The copy whose blocks run along the columns. Asked for where it is needed: its addresses
    /// would take registers in between.
    #[inline(always)]
    pub fn rowwise(&self) -> MxCopy {
        anew(&self.args.rowwise)
    }

    /// The copy whose blocks run along the rows, likewise.
    #[inline(always)]
    pub fn columnwise(&self) -> MxCopy {
        anew(&self.args.columnwise)
    }

    /// Eight elements of row `i` of the thread.
    #[inline(always)]
    pub unsafe fn load<S: Source>(&self, i: u32) -> S::Chunk {
        let pitch = S::BYTES * u64::from(self.args.source.columns);
        // SAFETY: the elements are there if the row is.
        unsafe { S::load(i < self.left, self.source + pitch * u64::from(i)) }
    }

    /// Where the rowwise scales of the thread's rows are collected. The even one of two lanes does
    /// it.
    #[inline(always)]
    pub fn row_collector(&self) -> Collector {
        self.row_scales.collector(self.band * NVFP4_BLOCK, self.column / NVFP4_BLOCK)
    }

    /// Where the columnwise scales of the thread's columns are collected.
    #[inline(always)]
    pub fn column_collector(&self) -> Collector {
        self.column_scales.collector(self.column, self.band)
    }

    /// Index of row `i` of the thread in arrays that lie as the source does.
    #[inline(always)]
    pub fn index_of_row(&self, i: u32) -> u64 {
        self.index + u64::from(self.args.source.columns) * u64::from(i)
    }

    /// The scale of the group for the rowwise copy.
    #[inline(always)]
    pub unsafe fn row_scaling(&self) -> Scaling {
        // SAFETY: every group has a largest magnitude.
        let amax =
            unsafe { load_constant_f32(self.args.rowwise_amax + 4 * u64::from(self.tile.group)) };
        Scaling::new(amax, self.args.bound)
    }

    /// The scale of the group for the columnwise copy.
    #[inline(always)]
    pub unsafe fn column_scaling(&self) -> Scaling {
        // SAFETY: every group has a largest magnitude.
        let amax = unsafe {
            load_constant_f32(self.args.columnwise_amax + 4 * u64::from(self.tile.group))
        };
        Scaling::new(amax, self.args.bound)
    }

    /// Where the tile lies in the transposed data: its first line, its first element on each line,
    /// and the elements of a line.
    #[inline(always)]
    pub fn transposed(&self) -> (u64, u64, u64) {
        let (source, tile) = (&self.args.source, self.tile);
        let (column, row) = (u64::from(tile.column), u64::from(tile.row));
        if self.tokens {
            return (column, tile.padded + row, u64::from(source.padded_rows));
        }
        (u64::from(tile.group) * u64::from(source.columns) + column, row, u64::from(source.rows))
    }

    /// Index of the first row of column `column` of the thread in the transposed data.
    #[inline(always)]
    pub fn transposed_index(&self, column: u32) -> u64 {
        let (line, row, pitch) = self.transposed();
        let line = line + u64::from(self.column + column);
        line * pitch + row + u64::from(self.band * NVFP4_BLOCK)
    }

    /// Stores eight codes of row `i` of the thread in the rowwise copy.
    #[inline(always)]
    pub unsafe fn store_row(&self, data: u64, i: u32, codes: u32) {
        let address = data + self.index_of_row(i) / 2;
        // SAFETY: the elements are the thread's.
        unsafe { store_u32_if(i < self.left, address, codes) };
    }

    /// Stores eight exact values of row `i` of the thread in the rowwise copy.
    #[inline(always)]
    pub unsafe fn store_exact_row(&self, exact: u64, i: u32, values: [u32; 4]) {
        let address = exact + 2 * self.index_of_row(i);
        // SAFETY: the elements are the thread's.
        unsafe { store_u32x4_if(i < self.left, address, values) };
    }

    /// Whether row `i` of the thread is there in the columnwise exact copy, and its address. Groups
    /// of tokens are padded to whole tiles.
    #[inline(always)]
    pub fn exact_column(&self, exact: u64, i: u32) -> (bool, u64) {
        let columns = self.args.source.columns;
        let column = self.tile.column + self.column;
        let (first, live) = if self.tokens {
            (self.tile.padded, column < columns)
        } else {
            (self.tile.first, i < self.left)
        };
        let row = u64::from(self.tile.row + self.band * NVFP4_BLOCK + i);
        let index = (first + row) * u64::from(columns) + u64::from(column);
        (live, exact + 2 * index)
    }

    /// Stores eight exact values of row `i` of the thread in the columnwise copy.
    #[inline(always)]
    pub unsafe fn store_exact_column(&self, exact: u64, i: u32, values: [u32; 4]) {
        let (live, address) = self.exact_column(exact, i);
        // SAFETY: the elements are the thread's.
        unsafe { store_u32x4_if(live, address, values) };
    }
}

/// How the scales of a copy lie.
#[inline(always)]
fn layout(args: &Nvfp4Args, copy: &MxCopy, columnwise: bool) -> MxScales {
    let (block, columns) = (NVFP4_BLOCK, args.source.columns);
    MxScales { block, columns, columnwise, swizzled: copy.swizzled != 0 }
}
