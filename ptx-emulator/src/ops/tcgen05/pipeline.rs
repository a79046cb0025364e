//! The products of a thread follow each other in order if they have the same accumulator and the
//! same shape ("Pipelined tcgen05 Instructions", PTX ISA 9.1, 9.7.16.6.2). Others have to be waited
//! for where they meet.

use super::memory::Cells;
use crate::execute::Outcome;
use crate::execute::report::ReportKind;
use crate::race::{Races, WarpId};

/// What tells accumulators apart: the address of D, M and N.
pub(super) type Accumulator = (u32, u32, u32);

/// A product that its thread does not know to be complete.
#[derive(Debug)]
struct Recent {
    accumulator: Accumulator,
    written: Vec<Cells>,
    line: u32,
    /// The clock at which a commit makes it known.
    clock: u32,
}

/// The products of a thread, the last with each accumulator.
#[derive(Debug, Default)]
pub(super) struct Pipeline(Vec<Recent>);

/// A product that is issued.
pub(super) struct Issued<'a> {
    pub(super) accumulator: Accumulator,
    pub(super) read: &'a [Cells],
    pub(super) written: &'a [Cells],
    pub(super) line: u32,
    pub(super) clock: u32,
}

impl Pipeline {
    /// One more product: it must not meet an accumulator of another kind that may still be
    /// written.
    pub(super) fn push(
        &mut self,
        own: &Issued<'_>,
        races: &Races,
        (warp, lanes): (WarpId, u32),
    ) -> Outcome {
        self.0.retain(|earlier| !races.tensor_knows(warp, lanes, earlier.clock));
        let others = self.0.iter().filter(|earlier| earlier.accumulator != own.accumulator);
        for earlier in others {
            let mut cells = own.written.iter().chain(own.read);
            let met = cells.find_map(|cells| {
                earlier.written.iter().find_map(|written| cells.first_shared(written))
            });
            let Some(address) = met else { continue };
            let detail = format!(
                "nothing orders it after the tcgen05.mma by the same thread in PTX line {}, which \
                 writes there with another accumulator or shape; wanted between: \
                 `tcgen05.commit`, a wait for its mbarrier and `tcgen05.fence::after_thread_sync`",
                earlier.line
            );
            let address = address.into();
            return Err(ReportKind::Race { space: "tensor", address, detail }.into());
        }
        let (accumulator, line, clock) = (own.accumulator, own.line, own.clock);
        self.0.retain(|earlier| earlier.accumulator != accumulator);
        self.0.push(Recent { accumulator, written: own.written.to_vec(), line, clock });
        Ok(())
    }
}
