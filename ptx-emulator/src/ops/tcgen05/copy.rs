//! `tcgen05.cp`: from shared memory to tensor memory (PTX ISA 9.1, 9.7.16.9.1).

use std::ops::Range;

use super::engine::{Task, Work, check_movement, issue as enqueue};
use super::memory::{COLUMNS, Cells, Column, Effect, LANES};
use super::pipeline::Movement;
use super::{Group, address, check_issue, ranks};
use crate::execute::block::Cluster;
use crate::execute::grid::GridState;
use crate::execute::registers::lanes;
use crate::execute::report::{Fault, ReportKind};
use crate::execute::{Context, Outcome};
use crate::machine::window::RESERVED_SHARED;
use crate::matrix::descriptor::{Descriptor, Swizzle};
use crate::ops::access::race_fault;
use crate::ops::mbarrier::SharedPlace;
use crate::program::operand::{Address, Source64};
use crate::race::Proxy;

/// Bytes that a swizzle moves together, and that are expanded together.
const CHUNK: usize = 16;

/// Which rows go to which lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    /// `.128x256b` and `.128x128b`: row by lane.
    All,
    /// `.4x256b`: one row for each quarter of the lanes.
    Four,
    /// `.64x128b.warpx2::02_13`: the two halves of the lanes get the same.
    Halves,
    /// `.64x128b.warpx2::01_23`: the two quarters of each half get the same.
    Quarters,
    /// `.32x128b.warpx4`: all quarters get the same.
    Everywhere,
}

impl Rows {
    fn count(self) -> u32 {
        match self {
            Self::All => LANES,
            Self::Four => 4,
            Self::Halves | Self::Quarters => 64,
            Self::Everywhere => 32,
        }
    }

    /// The lanes of a row, a bit each; `first` is that of the address.
    fn lanes(self, row: u32, first: u32) -> u128 {
        match self {
            Self::All => 1 << row,
            Self::Four => 1 << (first + 32 * row),
            Self::Halves => (1 | 1 << 64) << row,
            Self::Quarters => (1 | 1 << 32) << (row % 32 + 64 * (row / 32)),
            Self::Everywhere => (1 | 1 << 32 | 1 << 64 | 1 << 96) << row,
        }
    }
}

/// How 16 bytes of shared memory become 16 bytes of tensor memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expansion {
    None,
    /// `.b8x16.b4x16_p64`: 16 elements of 4 bits and 8 bytes that do not count.
    FourBits,
    /// `.b8x16.b6x16_p32`: 16 elements of 6 bits and 4 bytes that do not count.
    SixBits,
}

impl Expansion {
    /// Each element gets a byte, as `mma` takes it from tensor memory: elements of 6 bits lie in
    /// the lowest, those of 4 bits in bits 5:2. The manual only draws it; it has not been measured.
    fn apply(self, chunk: [u8; CHUNK]) -> [u8; CHUNK] {
        let (bits, shift) = match self {
            Self::None => return chunk,
            Self::FourBits => (4, 2),
            Self::SixBits => (6, 0),
        };
        let all = u128::from_le_bytes(chunk);
        std::array::from_fn(|index| ((all >> (bits * index)) as u8 & ((1 << bits) - 1)) << shift)
    }
}

/// `tcgen05.cp`.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    pub(super) group: Group,
    pub(super) rows: Rows,
    /// Of a row, in 16 bytes.
    pub(super) chunks: u32,
    pub(super) expansion: Expansion,
    pub(super) to: Address,
    pub(super) from: Source64,
}

/// A copy under way.
#[derive(Debug)]
pub(super) struct Move {
    rows: Rows,
    chunks: u32,
    expansion: Expansion,
    source: Descriptor,
    /// The lane of the address.
    lane: u32,
    /// One for each block; all have the same lanes and columns.
    cells: Vec<Cells>,
}

/// Bits 15:14, 31:30 and 60:52 of a descriptor of sm_100, which are zero; bit 52 is for sm_103a.
const ZERO: u64 = 0b11 << 14 | 0b11 << 30 | 0x1FF << 52;

/// Takes the descriptor of the source apart: that of an operand along K (PTX ISA 9.7.16.4.1).
fn decode(bits: u64) -> Result<Descriptor, String> {
    if bits >> 46 & 0b111 != 1 {
        return Err("must have 0b001 in bits 48:46, as on sm_100".to_owned());
    }
    if bits & ZERO != 0 {
        return Err("has bits set in 15:14, 31:30 or 60:52, which are zero".to_owned());
    }
    let swizzle = match bits >> 61 {
        0 => Swizzle::None,
        2 => Swizzle::Bytes128,
        4 => Swizzle::Bytes64,
        6 => Swizzle::Bytes32,
        1 => return Err("has the swizzle of 32-byte atoms, which is not emulated here".to_owned()),
        _ => return Err("has a swizzle of 3, 5 or 7 in bits 63:61".to_owned()),
    };
    let field = |shift: u32| ((bits >> shift) as u32 & 0x3FFF) << 4;
    let base = (bits >> 49) as u32 & 7;
    Ok(Descriptor { start: field(0), leading: field(16), stride: field(32), base, swizzle })
}

/// Issues the copies of the executing threads.
pub(super) fn issue(own: &Copy, context: &mut Context<'_>) -> Outcome {
    check_issue(own.group, context)?;
    let addresses = address(own.to, context);
    let descriptors = context.frame.registers.doubles(own.from);
    for lane in lanes(context.mask) {
        let (start, bits) = (addresses[lane], descriptors[lane]);
        let at_lane = |kind| Fault::at_lane(lane, kind);
        let source = decode(bits).map_err(|problem| {
            at_lane(ReportKind::Operand(format!(
                "the descriptor {bits:#018x} of tcgen05.cp {problem}"
            )))
        })?;
        let (first, column) = (start >> 16, start & 0xFFFF);
        let reachable = if own.rows == Rows::Four { 0..32 } else { 0..1 };
        let columns = column..column + 4 * own.chunks;
        if !reachable.contains(&first) || columns.end > COLUMNS {
            let text = format!("tcgen05.cp to {start:#010x}, where its shape does not fit");
            return Err(at_lane(ReportKind::TensorMemory(text)));
        }
        let all = (0..own.rows.count()).fold(0, |all, row| all | own.rows.lanes(row, first));
        let mut cells = Vec::new();
        for rank in ranks(own.group, context.rank) {
            let checked = context.cluster.blocks[rank].tensor.memory.check(&columns);
            checked.map_err(|fault| Fault { lane: Some(lane as u32), ..fault })?;
            cells.push(Cells { rank, lanes: all, columns: columns.clone() });
        }
        let Copy { rows, chunks, expansion, .. } = *own;
        let movement = if rows == Rows::Four { Movement::NarrowCopy } else { Movement::Copy };
        let checked = check_movement(context, lane, movement, cells.clone());
        checked.map_err(|fault| Fault { lane: Some(lane as u32), ..fault })?;
        let work = Move { rows, chunks, expansion, source, lane: first, cells };
        enqueue(context, lane, Work::Copy(Box::new(work)));
    }
    Ok(())
}

impl Move {
    /// Whether it may touch columns of a block.
    pub(super) fn uses(&self, rank: usize, columns: &Range<u32>) -> bool {
        self.cells.iter().any(|own| own.touches(rank, columns))
    }

    /// Copies from each block's shared memory to its tensor memory.
    pub(super) fn perform(
        &self,
        task: &Task,
        cluster: &mut Cluster,
        grid: &mut GridState,
    ) -> Outcome {
        for cells in &self.cells {
            let Some(block) = cluster.blocks.get_mut(cells.rank) else { continue };
            if block.live_threads == 0 {
                let text =
                    format!("block {} has exited while a tcgen05.cp was running", block.rank);
                return Err(Fault::synchronisation(text));
            }
            let places = self.places();
            check_bounds(&places, block.shared.len(), cells.rank)?;
            if let Some(access) = task.access(Proxy::Async) {
                let ranges = places.iter().map(|own| (u64::from(*own), CHUNK as u64));
                let base = SharedPlace { rank: cells.rank, offset: 0 }.address();
                grid.races
                    .async_read_all(&mut block.shadow, &access, ranges)
                    .map_err(|report| race_fault(&grid.races, &report, "shared", base))?;
            }
            if let Some(access) = task.access(Proxy::Tensor) {
                let memory = &mut block.tensor.memory;
                memory.note(&mut grid.races, &access, cells, Effect::Write)?;
            }
            let tile = self.tile(&places, &block.shared);
            for (column, words) in cells.columns.clone().zip(&tile) {
                block.tensor.memory.set_column(column, cells.lanes, words);
            }
            grid.statistics.copied_bytes += (places.len() * CHUNK) as u64;
        }
        Ok(())
    }

    /// Where the chunks lie in shared memory, row after row.
    fn places(&self) -> Vec<u32> {
        let rows = 0..self.rows.count();
        let chunks = |row| (0..self.chunks).map(move |index| self.source.k_major_chunk(row, index));
        rows.flat_map(chunks).collect()
    }

    /// The columns that are written.
    fn tile(&self, places: &[u32], shared: &[u8]) -> Vec<Column> {
        let mut tile = vec![[0; LANES as usize]; 4 * self.chunks as usize];
        for (index, place) in (0..).zip(places) {
            let bytes = shared.get(*place as usize..).and_then(|own| own.first_chunk::<CHUNK>());
            let bytes = self.expansion.apply(bytes.copied().unwrap_or_default());
            let (row, chunk) = (index / self.chunks, index % self.chunks);
            let to = self.rows.lanes(row, self.lane);
            let columns = tile.iter_mut().skip(4 * chunk as usize);
            for (column, word) in columns.zip(bytes.as_chunks::<4>().0) {
                let word = u32::from_le_bytes(*word);
                for quarter in 0..LANES / 32 {
                    for lane in lanes((to >> (32 * quarter)) as u32) {
                        column[32 * quarter as usize + lane] = word;
                    }
                }
            }
        }
        tile
    }
}

fn check_bounds(places: &[u32], length: usize, rank: usize) -> Outcome {
    let inside = |own: &u32| *own >= RESERVED_SHARED && *own as usize + CHUNK <= length;
    let Some(outside) = places.iter().find(|own| !inside(own)) else { return Ok(()) };
    let kind = ReportKind::OutOfBounds {
        access: "tcgen05.cp",
        space: "shared",
        address: SharedPlace { rank, offset: *outside }.address(),
        bytes: CHUNK as u64,
        hint: format!("; its descriptor leads there, and the block has up to {length:#x}"),
    };
    Err(kind.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_get_a_byte_each() {
        let packed: u128 = 0xFEDC_BA98_7654_3210 | 0xABCD << 64;
        let bytes = Expansion::FourBits.apply(packed.to_le_bytes());
        assert_eq!(bytes, std::array::from_fn(|index| 4 * index as u8));
        let values: [u8; 16] = std::array::from_fn(|index| (index * 37 % 64) as u8);
        let mut packed = 0xFFFF_FFFF_u128 << 96;
        for (index, value) in values.iter().enumerate() {
            packed |= u128::from(*value) << (6 * index);
        }
        assert_eq!(Expansion::SixBits.apply(packed.to_le_bytes()), values);
    }
}
