//! The transfers of a warp, and the registers that belong to its loads.

use std::sync::Arc;

use crate::execute::Outcome;
use crate::execute::report::ReportKind;
use crate::ops::Operation as AnyOperation;
use crate::ops::control::Control;
use crate::program::Touch;
use crate::race::Role;

/// Which way a transfer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Load,
    Store,
}

impl Direction {
    /// What the warp that waits for it waits for.
    pub(super) fn what(self) -> &'static str {
        match self {
            Self::Load => "waits for its loads from tensor memory",
            Self::Store => "waits for its stores to tensor memory",
        }
    }

    /// The instruction that waits for it.
    pub(super) fn wait(self) -> &'static str {
        match self {
            Self::Load => "tcgen05.wait::ld",
            Self::Store => "tcgen05.wait::st",
        }
    }

    pub(super) fn role(self) -> Role {
        match self {
            Self::Load => Role::TensorLoad,
            Self::Store => Role::TensorStore,
        }
    }
}

/// The transfers of one direction.
#[derive(Debug, Default)]
struct Count {
    /// Issued and not performed.
    pending: u32,
    /// `tcgen05.wait` so far.
    waits: u32,
    /// The columns used since the last of them, as [`pieces`] gives them.
    used: u16,
}

/// A load that no wait has covered.
#[derive(Debug)]
struct Flight {
    frame: usize,
    line: u32,
    rows: Arc<[u32]>,
}

/// Transfers of a warp between tensor memory and its registers.
#[derive(Debug, Default)]
pub(crate) struct WarpState {
    loads: Count,
    stores: Count,
    flights: Vec<Flight>,
    /// By frame and row, whether one of the flights has it.
    owned: Vec<Vec<bool>>,
}

impl WarpState {
    fn count(&mut self, direction: Direction) -> &mut Count {
        match direction {
            Direction::Load => &mut self.loads,
            Direction::Store => &mut self.stores,
        }
    }

    /// One more transfer begins, of some pieces of tensor memory. Returns the clock at which it is
    /// known to have ended.
    pub(super) fn begin(&mut self, direction: Direction, used: u16) -> u32 {
        let count = self.count(direction);
        count.pending += 1;
        count.used |= used;
        count.waits.saturating_add(1)
    }

    /// A transfer has been performed.
    pub(super) fn note_performed(&mut self, direction: Direction) {
        let count = self.count(direction);
        count.pending = count.pending.saturating_sub(1);
    }

    /// Whether all transfers have been performed. If so the registers of loads are free, and what
    /// has ended is returned as a clock, with the pieces that it used.
    pub(super) fn wait(&mut self, direction: Direction) -> Option<(u32, u16)> {
        let count = self.count(direction);
        if count.pending != 0 {
            return None;
        }
        count.waits = count.waits.saturating_add(1);
        let ended = (count.waits, std::mem::take(&mut count.used));
        if direction == Direction::Load {
            self.flights.clear();
            self.owned.clear();
        }
        Some(ended)
    }

    /// A load takes its registers.
    pub(super) fn take(&mut self, rows: &Arc<[u32]>, frame: usize, line: u32) {
        if self.owned.len() <= frame {
            self.owned.resize_with(frame + 1, Vec::new);
        }
        let owned = &mut self.owned[frame];
        let length = rows.iter().max().map_or(0, |last| *last as usize + 1);
        if owned.len() < length {
            owned.resize(length, false);
        }
        for row in rows.iter() {
            owned[*row as usize] = true;
        }
        self.flights.push(Flight { frame, line, rows: Arc::clone(rows) });
    }

    /// Whether registers belong to a load.
    #[inline]
    pub(crate) fn owns_any(&self) -> bool {
        !self.flights.is_empty()
    }

    /// Registers of unfinished loads must be left alone, and an invocation must not end before
    /// its loads.
    pub(crate) fn check(&self, touch: &Touch, frame: usize, operation: &AnyOperation) -> Outcome {
        match operation {
            AnyOperation::Control(Control::Exit) => return self.check_end(|_| true),
            AnyOperation::Control(Control::Return) => {
                return self.check_end(|flight| flight.frame == frame);
            }
            _ => {}
        }
        let Some(owned) = self.owned.get(frame) else { return Ok(()) };
        for (rows, verb) in [(&touch.writes, "written"), (&touch.reads, "read")] {
            let found = rows.iter().find(|row| owned.get(**row as usize) == Some(&true));
            let Some(row) = found else { continue };
            let flight = self.flights.iter().rev();
            let mut flight = flight.filter(|own| own.frame == frame && own.rows.contains(row));
            let line = flight.next().map_or(0, |own| own.line);
            let text = format!(
                "a register is {verb} that the tcgen05.ld in PTX line {line} may still write; \
                 wanted before: `tcgen05.wait::ld`"
            );
            return Err(ReportKind::MatrixRegisters(text).into());
        }
        Ok(())
    }

    fn check_end(&self, concerns: impl Fn(&Flight) -> bool) -> Outcome {
        let Some(flight) = self.flights.iter().find(|flight| concerns(flight)) else {
            return Ok(());
        };
        let text = format!(
            "the function ends while the tcgen05.ld in PTX line {} may still be running; wanted \
             before: `tcgen05.wait::ld`",
            flight.line
        );
        Err(ReportKind::MatrixRegisters(text).into())
    }
}
