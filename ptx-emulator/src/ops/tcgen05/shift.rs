//! `tcgen05.shift`: rows of tensor memory move by one lane (PTX ISA 9.1, 9.7.16.9.3).
//!
//! The manual says that rows move down, all but the last, that the shape is 31 lanes by 256 bits,
//! and that the address has a lane which is a multiple of 32. Which way is down, and which lanes
//! move, it leaves open. Here each lane gets what the next one has, and the last of every quarter
//! of the lanes keeps its own: that is what others have read back on a B200, from an address with
//! lane
//! 0. It suits `tcgen05.cp.4x256b`, which fills one lane of each quarter and is in order behind.

use std::ops::Range;

use super::engine::{Task, Work, check_movement, issue as enqueue};
use super::memory::{COLUMNS, Cells, Effect, TensorMemory};
use super::pipeline::Movement;
use super::{Group, address, check_issue, ranks};
use crate::execute::block::Cluster;
use crate::execute::grid::GridState;
use crate::execute::registers::lanes;
use crate::execute::report::{Fault, ReportKind};
use crate::execute::{Context, Outcome};
use crate::matrix::tcgen05::{NEXT_LANES, SHIFTED_LANES};
use crate::program::operand::Address;
use crate::race::Proxy;

/// Columns of a row: 256 bits.
const WIDTH: u32 = 8;

/// `tcgen05.shift`.
#[derive(Clone, Debug)]
pub(crate) struct Shift {
    pub(super) group: Group,
    pub(super) address: Address,
}

/// A shift under way.
#[derive(Debug)]
pub(super) struct Descent {
    /// The ranks of its blocks.
    ranks: Vec<usize>,
    columns: Range<u32>,
}

/// Issues the shifts of the executing threads.
pub(super) fn issue(own: &Shift, context: &mut Context<'_>) -> Outcome {
    check_issue(own.group, context)?;
    let addresses = address(own.address, context);
    for lane in lanes(context.mask) {
        let columns = columns(addresses[lane]).map_err(|text| {
            let text = format!("tcgen05.shift at {:#010x}, {text}", addresses[lane]);
            Fault::at_lane(lane, ReportKind::TensorMemory(text))
        })?;
        let work = Descent { ranks: ranks(own.group, context.rank), columns };
        let at_lane = |fault| Fault { lane: Some(lane as u32), ..fault };
        for rank in &work.ranks {
            let memory = &context.cluster.blocks[*rank].tensor.memory;
            memory.check(&work.columns).map_err(at_lane)?;
        }
        check_movement(context, lane, Movement::Shift, work.touched().collect())
            .map_err(at_lane)?;
        enqueue(context, lane, Work::Shift(Box::new(work)));
    }
    Ok(())
}

/// The columns from an address on, if it is one.
fn columns(address: u32) -> Result<Range<u32>, String> {
    let (lane, first) = (address >> 16, address & 0xFFFF);
    if !lane.is_multiple_of(32) || lane >= 128 {
        return Err(format!("whose lane {lane} is not 0, 32, 64 or 96"));
    }
    if lane != 0 {
        return Err(format!(
            "whose lane is {lane}: which lanes move then is not known; from lane 0 on all quarters \
             move, and that alone is emulated"
        ));
    }
    if first + WIDTH > COLUMNS {
        return Err(format!("which needs columns {first} to {} of {COLUMNS}", first + WIDTH - 1));
    }
    Ok(first..first + WIDTH)
}

impl Descent {
    /// Whether it may touch columns of a block.
    pub(super) fn uses(&self, rank: usize, columns: &Range<u32>) -> bool {
        self.touched().any(|own| own.touches(rank, columns))
    }

    /// Lanes of its columns in each block.
    fn cells(&self, lanes: u128) -> impl Iterator<Item = Cells> {
        self.ranks.iter().map(move |rank| Cells {
            rank: *rank,
            lanes,
            columns: self.columns.clone(),
        })
    }

    /// All that it reads or writes.
    fn touched(&self) -> impl Iterator<Item = Cells> {
        self.cells(NEXT_LANES | SHIFTED_LANES)
    }

    /// Moves the rows of each block.
    pub(super) fn perform(
        &self,
        task: &Task,
        cluster: &mut Cluster,
        grid: &mut GridState,
    ) -> Outcome {
        for (read, written) in self.cells(NEXT_LANES).zip(self.cells(SHIFTED_LANES)) {
            let Some(block) = cluster.blocks.get_mut(read.rank) else { continue };
            if block.live_threads == 0 {
                let rank = block.rank;
                let text = format!("block {rank} has exited while a tcgen05.shift was running");
                return Err(Fault::synchronisation(text));
            }
            let memory = &mut block.tensor.memory;
            if let Some(access) = task.access(Proxy::Tensor) {
                // The write comes first: one reader is kept of each place, and must be another's.
                memory.note(&mut grid.races, &access, &written, Effect::Write)?;
                memory.note(&mut grid.races, &access, &read, Effect::Read)?;
                check_written(memory, &read)?;
            }
            memory.shift(&self.columns);
        }
        Ok(())
    }
}

/// Something must have been written to be moved. Rows that have not been are no mistake beside
/// others that have: a product of 64 rows has every other sixteen lanes only. They move as what
/// nobody has written, and are reported when they are read.
fn check_written(memory: &TensorMemory, read: &Cells) -> Outcome {
    if memory.is_written(read) {
        return Ok(());
    }
    let Range { start, end } = read.columns;
    let text = format!(
        "tcgen05.shift of uninitialised tensor memory: nothing has been written to columns {start} \
         to {end} since their allocation"
    );
    Err(ReportKind::TensorMemory(text).into())
}

#[cfg(test)]
mod tests {
    use super::columns;

    #[test]
    fn addresses() {
        assert_eq!(columns(7), Ok(7..15));
        assert_eq!(columns(504), Ok(504..512));
        for (address, part) in [
            (505, "needs columns 505 to 512"),
            (16 << 16, "lane 16 is not"),
            (1 << 16 | 8, "lane 1 is not"),
            (128 << 16, "lane 128 is not"),
            (96 << 16, "which lanes move then is not known"),
        ] {
            let text = columns(address).unwrap_err();
            assert!(text.contains(part), "{text}");
        }
    }
}
