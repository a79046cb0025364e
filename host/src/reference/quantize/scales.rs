//! Where the scales of blocks lie.

use grouped_linear_kernels::abi::quantize::{BlockScales, Blocks, ROW_BLOCK};

use super::grid::{BlockSize, Grid};
use super::layout::{GroupRows, PADDING};
use super::{BlockShape, Direction, Layout, ScaleOrder, check_length};
use crate::error::Result;

/// A tile of swizzled scales, along the rows of the operand and along the contraction.
const TILE: (usize, usize) = (128, 4);

/// The scales of one group. Scale `(i, j)` belongs to row `i` and column `j` of blocks, in the
/// order of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The element where the group's scales begin.
    base: usize,
    order: Order,
    /// Number of `i` and `j`.
    live: (usize, usize),
    /// What they are padded to, with zeros.
    padded: (usize, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// Elements from one `i`, and from one `j`, to the next.
    Strides(usize, usize),
    /// Tiles in which `i` counts rows of the operand; so many stand along the contraction.
    SwizzledRows(usize),
    /// Tiles in which `j` counts rows of the operand.
    SwizzledColumns(usize),
}

impl Place {
    fn index(&self, i: usize, j: usize) -> usize {
        self.base
            + match self.order {
                Order::Strides(row, column) => i * row + j * column,
                Order::SwizzledRows(tiles) => swizzled(i, j, tiles),
                Order::SwizzledColumns(tiles) => swizzled(j, i, tiles),
            }
    }
}

/// The place of a scale among those of one operand: `row` of the operand, `block` along the
/// contraction, where `tiles` tiles stand along the contraction.
pub(super) const fn swizzled(row: usize, block: usize, tiles: usize) -> usize {
    (row / TILE.0 * tiles + block / TILE.1) * (TILE.0 * TILE.1)
        + row % 32 * 16
        + row % TILE.0 / 32 * 4
        + block % TILE.1
}

/// The places of FP8 scales of blocks with 128 elements on a side: one function of the kernels'
/// states the layout.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockPlaces {
    shape: BlockShape,
    direction: Direction,
    scales: BlockScales,
    /// Elements from one group to the next.
    group_pitch: usize,
    len: usize,
}

impl BlockPlaces {
    pub(super) fn new(layout: &Layout, shape: BlockShape, direction: Direction) -> Self {
        let every = layout.rows_of_every_group();
        let rows = every.unwrap_or(layout.rows()) as u64;
        let padded_rows = every.unwrap_or(layout.padded_rows()) as u64;
        let columns = layout.columns() as u64;
        let blocks = match shape {
            BlockShape::Line => Blocks::Vector,
            BlockShape::Square => Blocks::Square,
        };
        let scales = match direction {
            Direction::Rowwise => BlockScales::rowwise(blocks, rows, padded_rows, columns),
            Direction::Columnwise => BlockScales::columnwise(blocks, padded_rows, columns),
        };
        let elements = scales.elements() as usize;
        let (group_pitch, len) = match every {
            Some(_) => (elements, elements * layout.group_count()),
            None => (0, elements),
        };
        Self { shape, direction, scales, group_pitch, len }
    }

    /// Elements of the array.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Rows and columns of a block.
    pub(super) fn size(&self) -> BlockSize {
        block_size(self.shape, self.direction, ROW_BLOCK as usize)
    }

    /// The place of a group's scales.
    pub(super) fn group(&self, layout: &Layout, index: usize, group: &GroupRows) -> Place {
        let (first_row, first_block) = match layout.rows_of_every_group() {
            Some(_) => (0, 0),
            None => (group.first, group.padded_first / PADDING),
        };
        let pitch = self.scales.pitch as usize;
        let size = self.size();
        let live = (group.rows.div_ceil(size.rows), layout.columns().div_ceil(size.columns));
        let own = self.group_pitch > 0;
        let (first, order, padded) = match (self.direction, self.shape) {
            (Direction::Rowwise, BlockShape::Line) => {
                (first_row, Order::Strides(1, pitch), (if own { pitch } else { live.0 }, live.1))
            }
            (Direction::Columnwise, BlockShape::Square) => {
                (first_block, Order::Strides(1, pitch), (if own { pitch } else { live.0 }, live.1))
            }
            _ => (first_block * pitch, Order::Strides(pitch, 1), (live.0, pitch)),
        };
        Place { base: index * self.group_pitch + first, order, live, padded }
    }
}

/// The places of the one-byte scales of MXFP8 and NVFP4, whose blocks have `side` elements: each
/// group has a matrix of its own, padded to whole tiles, whatever the order.
#[derive(Clone, Copy, Debug)]
pub(super) struct TilePlaces {
    pub side: usize,
    pub direction: Direction,
    pub order: ScaleOrder,
    /// Whether columnwise scales in compact order are those of the transposed source, so that those
    /// of one column lie side by side.
    pub transposed: bool,
}

impl TilePlaces {
    /// Bytes of the array.
    pub(super) fn len(&self, layout: &Layout) -> usize {
        self.before(layout, layout.padded_rows())
    }

    /// Scales of so many padded rows.
    fn before(&self, layout: &Layout, padded_rows: usize) -> usize {
        match self.direction {
            Direction::Rowwise => padded_rows * self.pitch(layout),
            Direction::Columnwise => padded_rows / self.side * self.pitch(layout),
        }
    }

    /// Scales along the columns, padded.
    fn pitch(&self, layout: &Layout) -> usize {
        let columns = layout.columns();
        match self.direction {
            Direction::Rowwise => columns.div_ceil(self.side).next_multiple_of(TILE.1),
            Direction::Columnwise => columns.next_multiple_of(TILE.0),
        }
    }

    /// The place of a group's scales. Those of a square are repeated for each of its rows, or
    /// columns.
    pub(super) fn group(&self, layout: &Layout, group: &GroupRows) -> Place {
        let pitch = self.pitch(layout);
        let base = self.before(layout, group.padded_first);
        let columns = layout.columns();
        let (live, padded_rows) = match self.direction {
            Direction::Rowwise => ((group.rows, columns.div_ceil(self.side)), group.padded_rows()),
            Direction::Columnwise => {
                ((group.rows.div_ceil(self.side), columns), group.padded_rows() / self.side)
            }
        };
        let order = match (self.order, self.direction) {
            (ScaleOrder::Swizzled, Direction::Rowwise) => Order::SwizzledRows(pitch / TILE.1),
            (ScaleOrder::Swizzled, Direction::Columnwise) => {
                Order::SwizzledColumns(padded_rows / TILE.1)
            }
            (ScaleOrder::Compact, Direction::Columnwise) if self.transposed => {
                Order::Strides(1, padded_rows)
            }
            (ScaleOrder::Compact, _) => Order::Strides(pitch, 1),
        };
        Place { base, order, live, padded: (padded_rows, pitch) }
    }
}

/// Copies scales and padding from one order to the other.
pub(super) fn reorder(
    layout: &Layout,
    [from, to]: [TilePlaces; 2],
    scales: &[u8],
    result: &mut [u8],
) -> Result<()> {
    check_length("scales", scales.len(), from.len(layout))?;
    check_length("result", result.len(), to.len(layout))?;
    for group in layout.groups() {
        let (from, to) = (from.group(layout, group), to.group(layout, group));
        for i in 0..from.padded.0 {
            for j in 0..from.padded.1 {
                result[to.index(i, j)] = scales[from.index(i, j)];
            }
        }
    }
    Ok(())
}

/// Rows and columns of a block with `side` elements in its direction.
pub(super) fn block_size(shape: BlockShape, direction: Direction, side: usize) -> BlockSize {
    match (shape, direction) {
        (BlockShape::Square, _) => BlockSize { rows: side, columns: side },
        (BlockShape::Line, Direction::Rowwise) => BlockSize { rows: 1, columns: side },
        (BlockShape::Line, Direction::Columnwise) => BlockSize { rows: side, columns: 1 },
    }
}

/// Stores what `scale` makes of a grid's numbers, and zeros where a group's scales are padded.
/// `line` is the size of the blocks that the places count; a larger block is repeated.
pub(super) fn store<S: Copy + Default>(
    layout: &Layout,
    grid: &Grid,
    line: BlockSize,
    place: impl Fn(usize, &GroupRows) -> Place,
    scale: impl Fn(f32) -> S,
    scales: &mut [S],
    needed: usize,
) -> Result<()> {
    check_length("scales", scales.len(), needed)?;
    for (index, group) in layout.groups().iter().enumerate() {
        let place = place(index, group);
        for i in 0..place.padded.0 {
            for j in 0..place.padded.1 {
                let live = i < place.live.0 && j < place.live.1;
                let value = || grid.row(index, i * line.rows)[j * line.columns / grid.size.columns];
                scales[place.index(i, j)] = if live { scale(value()) } else { S::default() };
            }
        }
    }
    Ok(())
}

/// What `value` makes of the scales of blocks with the size `size`, which the places count.
pub(super) fn load<S: Copy>(
    layout: &Layout,
    size: BlockSize,
    place: impl Fn(usize, &GroupRows) -> Place,
    value: impl Fn(usize, usize, S) -> f32,
    scales: &[S],
    needed: usize,
) -> Result<Grid> {
    check_length("scales", scales.len(), needed)?;
    let mut grid = Grid::new(layout, size)?;
    for (index, group) in layout.groups().iter().enumerate() {
        let place = place(index, group);
        for i in 0..place.live.0 {
            let start = grid.start(index, i);
            for j in 0..place.live.1 {
                grid.values[start + j] = value(index, i, scales[place.index(i, j)]);
            }
        }
    }
    Ok(grid)
}
