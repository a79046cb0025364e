//! Which cell of tensor memory a register of a lane stands for, by the shape of `tcgen05.ld` and
//! `tcgen05.st` (PTX ISA 9.1, 9.7.16.2.3).

use super::memory::Cells;
use crate::matrix::Row;

/// A shape: lanes by bits of a repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// `.32x32b`: a lane a thread, a column a register.
    Lanes32,
    /// `.16x64b`.
    Bits64,
    /// `.16x128b`.
    Bits128,
    /// `.16x256b`: the accumulator fragment of `mma.sync`.
    Bits256,
    /// `.16x32bx2`: threads of the upper half are so many columns further right.
    Split(u32),
}

/// Shape, repetitions and packing of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) shape: Shape,
    /// `.x1` to `.x128`.
    pub(super) repetitions: u32,
    /// Two neighbouring columns of 16 bits make a register (`.pack::16b`, `.unpack::16b`).
    pub(super) packed: bool,
}

impl Layout {
    /// Registers of a thread.
    pub(super) fn registers(self) -> usize {
        let each = match self.shape {
            Shape::Lanes32 | Shape::Bits64 | Shape::Split(_) => 1,
            Shape::Bits128 => 2,
            Shape::Bits256 => 4,
        };
        (self.repetitions * each) as usize
    }

    /// Whether it reaches the 32 lanes of a warp, not half of them.
    pub(super) fn is_whole(self) -> bool {
        self.shape == Shape::Lanes32
    }

    /// Columns of 32 bits that follow each other, before packing.
    fn width(self) -> u32 {
        self.repetitions
            * match self.shape {
                Shape::Lanes32 | Shape::Split(_) => 1,
                Shape::Bits64 => 2,
                Shape::Bits128 => 4,
                Shape::Bits256 => 8,
            }
    }

    /// The cells of a transfer whose first cell is at a lane and a column of a block.
    pub(super) fn cells(self, rank: usize, lane: u32, column: u32) -> Vec<Cells> {
        let height: u128 = if self.is_whole() { 0xFFFF_FFFF } else { 0xFFFF };
        let width = self.width() << u32::from(self.packed);
        let at = |start: u32| Cells {
            rank,
            lanes: height.checked_shl(lane).unwrap_or(0),
            columns: start..start.saturating_add(width),
        };
        match self.shape {
            Shape::Split(further) => vec![at(column), at(column.saturating_add(further))],
            _ => vec![at(column)],
        }
    }

    /// The lane and the column of what a register of a thread holds, from the first cell on.
    #[inline(always)]
    pub(super) fn place(self, register: u32, thread: u32) -> (u32, u32) {
        match self.shape {
            Shape::Lanes32 => (thread, register),
            Shape::Bits64 => (thread / 4 + 8 * (thread & 1), 2 * register + (thread >> 1 & 1)),
            Shape::Bits128 => (thread / 4 + 8 * (register & 1), 4 * (register / 2) + thread % 4),
            Shape::Bits256 => (
                thread / 4 + 8 * (register >> 1 & 1),
                8 * (register / 4) + 2 * (thread % 4) + (register & 1),
            ),
            Shape::Split(_) => (thread % 16, register),
        }
    }

    /// The lane of a thread's register, and its column among those of the tile.
    #[inline(always)]
    fn in_tile(self, register: u32, thread: u32) -> (usize, usize) {
        let (lane, column) = self.place(register, thread);
        let column = column << u32::from(self.packed);
        let further = match self.shape {
            Shape::Split(_) if thread >= 16 => self.width() << u32::from(self.packed),
            _ => 0,
        };
        (lane as usize, (column + further) as usize)
    }

    /// The values of a register. The tile has the columns of all [`cells`](Self::cells), the
    /// lanes that the warp reaches of each; the first cell is in lane `first`.
    pub(super) fn gather(self, register: u32, first: usize, tile: &[Row]) -> Row {
        if self.shape == Shape::Lanes32 && !self.packed {
            return tile.get(register as usize).copied().unwrap_or([0; 32]);
        }
        let cell = |lane: usize, column: usize| {
            let row = tile.get(column).and_then(|row| row.get(first + lane));
            row.copied().unwrap_or(0)
        };
        std::array::from_fn(|thread| {
            let (lane, column) = self.in_tile(register, thread as u32);
            if self.packed {
                return cell(lane, column) & 0xFFFF | cell(lane, column + 1) << 16;
            }
            cell(lane, column)
        })
    }

    /// Puts the values of a register into a tile as [`gather`](Self::gather) reads it.
    pub(super) fn scatter(self, register: u32, first: usize, values: &Row, tile: &mut [Row]) {
        if self.shape == Shape::Lanes32 && !self.packed {
            if let Some(row) = tile.get_mut(register as usize) {
                *row = *values;
            }
            return;
        }
        let mut set = |lane: usize, column: usize, word: u32| {
            if let Some(cell) = tile.get_mut(column).and_then(|row| row.get_mut(first + lane)) {
                *cell = word;
            }
        };
        for (thread, value) in (0..).zip(values) {
            let (lane, column) = self.in_tile(register, thread);
            if self.packed {
                set(lane, column, value & 0xFFFF);
                set(lane, column + 1, value >> 16);
            } else {
                set(lane, column, *value);
            }
        }
    }
}
