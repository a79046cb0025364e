//! Tensor memory: 128 lanes by 512 columns of 32 bits for each block (PTX ISA 9.1, 9.7.16.1).
//!
//! An address has the lane in its upper and the column in its lower half. Only allocated columns
//! can be used, so every allocation has words, marks of what was written and accesses of its own.

use std::ops::Range;

use crate::execute::Outcome;
use crate::execute::registers::lanes;
use crate::execute::report::{Fault, ReportKind};
use crate::matrix::Row;
use crate::matrix::tcgen05::{SHIFTED_LANES, shifted};
use crate::ops::access::race_fault;
use crate::race::{AsyncAccess, MemoryKind, Races, Shadow};
use crate::random::Random;

/// Lanes of tensor memory.
pub(super) const LANES: u32 = 128;
/// Columns of tensor memory.
pub(super) const COLUMNS: u32 = 512;
/// The columns of an allocation are a multiple of this.
pub(super) const SMALLEST: u32 = 32;
/// Neighbouring lanes whose accesses are not told apart. Two unordered accesses of other lanes
/// among them would be taken for a race; no instruction but `cp.4x256b` reaches fewer.
const GRANULE: u32 = 16;
const GRANULES: u32 = LANES / GRANULE;

/// The words of a column, by lane.
pub(super) type Column = [u32; LANES as usize];

/// Lanes by columns of the tensor memory of one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cells {
    /// The rank of the block.
    pub(super) rank: usize,
    /// A bit for each lane.
    pub(super) lanes: u128,
    pub(super) columns: Range<u32>,
}

impl Cells {
    /// Whether some of them are in columns of a block.
    pub(super) fn touches(&self, rank: usize, columns: &Range<u32>) -> bool {
        let overlaps = self.columns.start < columns.end && columns.start < self.columns.end;
        self.rank == rank && overlaps
    }

    /// The address of the first cell that others have, too.
    pub(super) fn first_shared(&self, other: &Self) -> Option<u32> {
        let lanes = self.lanes & other.lanes;
        if lanes == 0 || !self.touches(other.rank, &other.columns) {
            return None;
        }
        Some(lanes.trailing_zeros() << 16 | self.columns.start.max(other.columns.start))
    }
}

/// What an instruction does to cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Read,
    Write,
}

/// Columns that somebody has allocated.
#[derive(Debug)]
pub(super) struct Allocation {
    pub(super) columns: Range<u32>,
    /// The line of the `tcgen05.alloc`, and the warp that executed it.
    pub(super) line: u32,
    pub(super) warp: u32,
    words: Vec<Column>,
    /// By column a bit for each lane that has been written, or got what has been.
    written: Vec<u128>,
    /// Whether rows have moved, those that nobody has written as well.
    shifted: bool,
    /// A byte stands for a granule of lanes of one column; granule after granule.
    shadow: Shadow,
}

impl Allocation {
    fn length(&self) -> u32 {
        self.columns.end - self.columns.start
    }

    /// The tensor memory address of a place in the shadow.
    fn address(&self, unit: u64) -> u64 {
        let length = u64::from(self.length()).max(1);
        let lane = unit / length * u64::from(GRANULE);
        lane << 16 | (u64::from(self.columns.start) + unit % length)
    }
}

/// The tensor memory of a block.
#[derive(Debug, Default)]
pub(super) struct TensorMemory {
    allocations: Vec<Allocation>,
    /// Whether columns are given out from the highest down; picked at the first allocation,
    /// because programs must take the address that they get.
    pub(super) from_top: Option<bool>,
}

impl TensorMemory {
    /// What is allocated.
    pub(super) fn allocations(&self) -> &[Allocation] {
        &self.allocations
    }

    /// Where so many columns are free: the lowest place, or the highest.
    pub(super) fn free_place(&self, count: u32, other: Option<&Self>) -> Option<u32> {
        let is_free = |start: u32| {
            let mut all = self.allocations.iter().chain(other.into_iter().flat_map(|own| {
                // Both blocks of a pair get the same columns.
                own.allocations.iter()
            }));
            all.all(|own| start + count <= own.columns.start || own.columns.end <= start)
        };
        let last = COLUMNS.checked_sub(count)?;
        let places = 0..last / SMALLEST + 1;
        let mut places = places.map(|place| place * SMALLEST).filter(|start| is_free(*start));
        if self.from_top == Some(true) { places.next_back() } else { places.next() }
    }

    /// Allocates free columns, which hold noise.
    pub(super) fn allocate(
        &mut self,
        columns: Range<u32>,
        (line, warp): (u32, u32),
        random: &mut Random,
    ) {
        let noise = random.next();
        let count = columns.len();
        let column = std::array::from_fn(|lane| noise.rotate_left(lane as u32) as u32);
        self.allocations.push(Allocation {
            line,
            warp,
            words: vec![column; count],
            written: vec![0; count],
            shifted: false,
            // What nobody wrote is known from the marks.
            shadow: Shadow::new(u64::from(GRANULES) * count as u64, MemoryKind::Global),
            columns,
        });
    }

    /// Takes columns back. Fails if they are not exactly what was allocated.
    pub(super) fn free(&mut self, start: u32, count: u32) -> Result<(), String> {
        let found = self.allocations.iter().position(|own| own.columns.start == start);
        let Some(index) = found else {
            return Err(format!("no allocation begins at column {start}; {}", self.describe()));
        };
        let length = self.allocations[index].length();
        if length != count {
            return Err(format!("the allocation at column {start} has {length} columns"));
        }
        self.allocations.remove(index);
        Ok(())
    }

    /// What is allocated, in words.
    fn describe(&self) -> String {
        if self.allocations.is_empty() {
            return "its block has no columns of tensor memory".to_owned();
        }
        let list: Vec<String> = self
            .allocations
            .iter()
            .map(|own| format!("{} to {}", own.columns.start, own.columns.end))
            .collect();
        format!("its block has columns {}", list.join(", "))
    }

    /// All of the columns must be allocated, by one allocation.
    pub(super) fn check(&self, columns: &Range<u32>) -> Outcome {
        self.index(columns).map(drop)
    }

    fn index(&self, columns: &Range<u32>) -> Outcome<usize> {
        let covers =
            |own: &Allocation| own.columns.start <= columns.start && columns.end <= own.columns.end;
        self.allocations.iter().position(covers).ok_or_else(|| {
            let Range { start, end } = columns;
            let what = self.describe();
            let text =
                format!("columns {start} to {end} of tensor memory are not allocated: {what}");
            ReportKind::TensorMemory(text).into()
        })
    }

    fn allocation_at(&self, column: u32) -> Option<(&Allocation, usize)> {
        let own = self.allocations.iter().find(|own| own.columns.contains(&column))?;
        Some((own, (column - own.columns.start) as usize))
    }

    /// The words of a column; zeros if it is not allocated, which has been checked before.
    pub(super) fn column(&self, column: u32) -> Column {
        let words = self.allocation_at(column).and_then(|(own, index)| own.words.get(index));
        words.copied().unwrap_or([0; LANES as usize])
    }

    /// The words of a warp's quarter of the lanes of a column.
    pub(super) fn quarter(&self, column: u32, quarter: usize) -> Row {
        let words = self.allocation_at(column).and_then(|(own, index)| own.words.get(index));
        let rows = words.and_then(|words| words.as_chunks::<32>().0.get(quarter));
        rows.copied().unwrap_or([0; 32])
    }

    /// The words and the marks of a column.
    fn column_mut(&mut self, column: u32) -> Option<(&mut Column, &mut u128)> {
        let own = self.allocations.iter_mut().find(|own| own.columns.contains(&column))?;
        let index = (column - own.columns.start) as usize;
        Some((own.words.get_mut(index)?, own.written.get_mut(index)?))
    }

    /// Writes some lanes of a column.
    pub(super) fn set_column(&mut self, column: u32, lanes: u128, words: &Column) {
        for (quarter, row) in words.as_chunks::<32>().0.iter().enumerate() {
            self.set_quarter(column, quarter, (lanes >> (32 * quarter)) as u32, row);
        }
    }

    /// Writes some lanes of a warp's quarter of a column.
    pub(super) fn set_quarter(&mut self, column: u32, quarter: usize, mask: u32, words: &Row) {
        let Some((column, written)) = self.column_mut(column) else { return };
        let Some(target) = column.as_chunks_mut::<32>().0.get_mut(quarter) else { return };
        *written |= u128::from(mask) << (32 * quarter);
        if mask == u32::MAX {
            *target = *words;
            return;
        }
        for lane in lanes(mask) {
            target[lane] = words[lane];
        }
    }

    /// The lanes of a column that have been written.
    fn written(&self, column: u32) -> u128 {
        let found = self.allocation_at(column);
        found.and_then(|(own, at)| own.written.get(at)).copied().unwrap_or(0)
    }

    /// Whether one of some cells has been written.
    pub(super) fn is_written(&self, cells: &Cells) -> bool {
        cells.columns.clone().any(|column| self.written(column) & cells.lanes != 0)
    }

    /// In every column each lane but the last of a quarter gets what the next one has, and is
    /// written if that is.
    pub(super) fn shift(&mut self, columns: &Range<u32>) {
        for column in columns.clone() {
            let before = self.written(column);
            let words = shifted(&self.column(column));
            self.set_column(column, SHIFTED_LANES, &words);
            if let Some((_, written)) = self.column_mut(column) {
                *written = before >> 1 & SHIFTED_LANES | before & !SHIFTED_LANES;
            }
        }
        let own = self.allocations.iter_mut().find(|own| own.columns.contains(&columns.start));
        own.into_iter().for_each(|own| own.shifted = true);
    }

    /// Every cell that is read must have been written.
    pub(super) fn check_written(&self, cells: &Cells) -> Outcome {
        for column in cells.columns.clone() {
            let missing = cells.lanes & !self.written(column);
            if missing != 0 {
                let address = missing.trailing_zeros() << 16 | column;
                let shifted = self.allocation_at(column).is_some_and(|(own, _)| own.shifted);
                let text = format!(
                    "read of uninitialised tensor memory at {address:#010x} (lane {}, column \
                     {column}): nothing has been written there since its allocation{}",
                    missing.trailing_zeros(),
                    if shifted { ", or to the row that a shift has brought there" } else { "" }
                );
                return Err(ReportKind::TensorMemory(text).into());
            }
        }
        Ok(())
    }

    /// Records an access and compares it with earlier ones.
    pub(super) fn note(
        &mut self,
        races: &mut Races,
        access: &AsyncAccess<'_>,
        cells: &Cells,
        effect: Effect,
    ) -> Outcome {
        let index = self.index(&cells.columns)?;
        let Some(own) = self.allocations.get_mut(index) else { return Ok(()) };
        let first = u64::from(cells.columns.start - own.columns.start);
        let (row, count) = (u64::from(own.length()), cells.columns.len() as u64);
        for granule in 0..u64::from(GRANULES) {
            let lanes = cells.lanes >> (u64::from(GRANULE) * granule) as u32;
            if lanes & ((1 << GRANULE) - 1) == 0 {
                continue;
            }
            let start = granule * row + first;
            let checked = match effect {
                Effect::Read => races.async_read(&mut own.shadow, access, start, count),
                Effect::Write => races.async_write(&mut own.shadow, access, start, count, None),
            };
            if let Err(mut report) = checked {
                report.address = own.address(report.address);
                return Err(Fault { lane: None, ..race_fault(races, &report, "tensor", 0) });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(from_top: bool) -> TensorMemory {
        TensorMemory { from_top: Some(from_top), ..TensorMemory::default() }
    }

    fn allocate(memory: &mut TensorMemory, count: u32) -> Option<u32> {
        let start = memory.free_place(count, None)?;
        memory.allocate(start..start + count, (1, 0), &mut Random::new(1));
        Some(start)
    }

    #[test]
    fn columns_are_given_out_from_either_end() {
        for (from_top, wanted) in [(false, [0, 128, 160]), (true, [384, 352, 96])] {
            let mut memory = memory(from_top);
            let found = [128, 32, 256].map(|count| allocate(&mut memory, count).unwrap());
            assert_eq!(found, wanted);
            assert_eq!(memory.free_place(128, None), None);
            memory.free(wanted[0], 128).unwrap();
            assert_eq!(memory.free_place(128, None), Some(wanted[0]));
        }
    }

    #[test]
    fn a_pair_gets_what_is_free_in_both_blocks() {
        let (mut first, mut second) = (memory(false), memory(false));
        allocate(&mut first, 64);
        allocate(&mut second, 128);
        assert_eq!(first.free_place(64, Some(&second)), Some(128));
        assert_eq!(second.free_place(64, Some(&first)), Some(128));
    }

    #[test]
    fn lanes_are_written_alone() {
        let mut memory = memory(false);
        allocate(&mut memory, 32);
        let before = memory.column(3);
        let words = std::array::from_fn(|lane| lane as u32);
        let lanes = 0xFFFF_FFFF_u128 << 32 | 1 << 127;
        memory.set_column(3, lanes, &words);
        let after = memory.column(3);
        for lane in 0..128 {
            let is_written = lanes >> lane & 1 != 0;
            assert_eq!(after[lane], if is_written { words[lane] } else { before[lane] });
        }
        let cells = |lanes| Cells { rank: 0, lanes, columns: 3..4 };
        assert!(memory.check_written(&cells(lanes)).is_ok());
        assert!(memory.check_written(&cells(lanes | 1)).is_err());
    }

    /// What nobody has written moves like the rest.
    #[test]
    fn rows_move_by_a_lane() {
        let mut memory = memory(false);
        allocate(&mut memory, 32);
        let words = std::array::from_fn(|lane| 1000 + lane as u32);
        let unwritten = 1 << 5 | 1 << 31 | 1 << 64;
        memory.set_column(3, !unwritten, &words);
        let before = memory.column(3);
        memory.shift(&(3..4));
        for lane in 0..128 {
            let from = if lane % 32 == 31 { lane } else { lane + 1 };
            assert_eq!(memory.column(3)[lane], before[from], "{lane}");
            let cells = Cells { rank: 0, lanes: 1 << lane, columns: 3..4 };
            assert_eq!(memory.is_written(&cells), unwritten >> from & 1 == 0, "{lane}");
        }
        let all = Cells { rank: 0, lanes: u128::MAX, columns: 3..4 };
        let text = memory.check_written(&all).unwrap_err().kind.to_string();
        assert!(text.contains("lane 4, column 3") && text.contains("a shift has brought"));
    }
}
