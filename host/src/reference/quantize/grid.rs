//! The largest magnitudes of blocks.

use rayon::prelude::*;

use super::{Layout, check_length};
use crate::error::Result;
use crate::reference::convert::zeros;

/// Rows and columns of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockSize {
    pub rows: usize,
    pub columns: usize,
}

/// One number for each block of a source. Blocks begin at the first row of each group; the last
/// ones of a group, and of a row, may be shorter.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    pub size: BlockSize,
    /// Blocks along the columns.
    pub width: usize,
    /// The first row of the grid that belongs to each group, then their number.
    first: Vec<usize>,
    pub values: Vec<f32>,
}

impl Grid {
    /// Zeros.
    pub(super) fn new(layout: &Layout, size: BlockSize) -> Result<Self> {
        let mut first = vec![0];
        let mut rows = 0;
        for group in layout.groups() {
            rows += group.rows.div_ceil(size.rows);
            first.push(rows);
        }
        let width = layout.columns().div_ceil(size.columns);
        Ok(Self { size, width, first, values: zeros(rows * width)? })
    }

    /// The largest magnitude of each block; NaNs do not count.
    pub(super) fn amax(layout: &Layout, values: &[f32], size: BlockSize) -> Result<Self> {
        check_length("values", values.len(), layout.live_rows().end * layout.columns())?;
        let mut grid = Self::new(layout, size)?;
        let columns = layout.columns();
        let (first, width) = (&grid.first, grid.width);
        grid.values.par_chunks_mut(width.max(1)).enumerate().for_each(|(row, cells)| {
            let group = first.partition_point(|&first| first <= row) - 1;
            let block = row - first[group];
            let group = &layout.groups()[group];
            let start = block * size.rows;
            let end = group.rows.min(start.saturating_add(size.rows));
            for row in group.first + start..group.first + end {
                let row = &values[row * columns..][..columns];
                for (cell, part) in cells.iter_mut().zip(row.chunks(size.columns)) {
                    *cell = part.iter().fold(*cell, |amax, value| amax.max(value.abs()));
                }
            }
        });
        Ok(grid)
    }

    /// The numbers of the blocks that row `row` of a group goes through.
    pub(super) fn row(&self, group: usize, row: usize) -> &[f32] {
        &self.values[(self.first[group] + row / self.size.rows) * self.width..][..self.width]
    }

    /// Where the numbers of row `block` of the grid of a group begin.
    pub(super) fn start(&self, group: usize, block: usize) -> usize {
        (self.first[group] + block) * self.width
    }

    /// Each number made another, by its group, its row in the grid of the group and its column.
    pub(super) fn map(&self, map: impl Fn(usize, usize, usize, f32) -> f32 + Sync) -> Result<Self> {
        let mut values = zeros(self.values.len())?;
        let width = self.width.max(1);
        let rows = values.par_chunks_mut(width).zip(self.values.par_chunks(width)).enumerate();
        rows.for_each(|(row, (mapped, values))| {
            let group = self.first.partition_point(|&first| first <= row) - 1;
            for (column, (mapped, value)) in mapped.iter_mut().zip(values).enumerate() {
                *mapped = map(group, row - self.first[group], column, *value);
            }
        });
        Ok(Self { size: self.size, width: self.width, first: self.first.clone(), values })
    }
}
