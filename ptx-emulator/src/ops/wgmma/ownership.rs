//! Whose registers are: those of unfinished products belong to them.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;

use super::Multiply;
use crate::execute::Outcome;
use crate::execute::report::{Fault, ReportKind};
use crate::ops::Operation as AnyOperation;
use crate::ops::control::Control;
use crate::program::Touch;

/// A number for each row of words of each invocation, by its index in `Warp::frames`. Rows without
/// a number have zero.
#[derive(Debug, Default)]
struct RowNumbers(Vec<Vec<u64>>);

impl RowNumbers {
    fn get(&self, frame: usize, row: u32) -> u64 {
        self.0.get(frame).and_then(|rows| rows.get(row as usize)).copied().unwrap_or(0)
    }

    fn set(&mut self, frame: usize, rows: &[u32], value: u64) {
        if self.0.len() <= frame {
            self.0.resize_with(frame + 1, Vec::new);
        }
        let numbers = &mut self.0[frame];
        for row in rows {
            let index = *row as usize;
            if numbers.len() <= index {
                numbers.resize(index + 1, 0);
            }
            numbers[index] = value;
        }
    }
}

/// A product that no wait has covered.
#[derive(Debug)]
struct Flight {
    /// The number of its group; that of the group not yet committed is `WarpState::groups`.
    group: u64,
    frame: usize,
    /// How many fences the warp had executed when it issued the product.
    fences: u64,
    line: u32,
    multiply: Arc<Multiply>,
}

/// Unfinished matrix products of a warp and the registers they own.
#[derive(Debug, Default)]
pub(crate) struct WarpState {
    /// `wgmma.fence` executed so far.
    fences: u64,
    /// By row: how many fences had been executed when another instruction wrote it last.
    written: RowNumbers,
    /// By row: the last product that has it, counted from 1.
    owners: RowNumbers,
    /// Products `released + 1` to `issued`.
    flights: VecDeque<Flight>,
    issued: u64,
    performed: u64,
    /// Products that a wait has covered.
    released: u64,
    /// Groups committed so far.
    groups: u64,
}

impl WarpState {
    /// Whether registers belong to a product.
    #[inline]
    pub(crate) fn owns_any(&self) -> bool {
        !self.flights.is_empty()
    }

    /// An instruction other than `wgmma` must leave registers of unfinished products alone, and
    /// an invocation must not end before its products.
    pub(crate) fn check(&self, touch: &Touch, frame: usize, operation: &AnyOperation) -> Outcome {
        match operation {
            // Which registers it may share with earlier ones is checked when it is issued.
            AnyOperation::Wgmma(_) => return Ok(()),
            AnyOperation::Control(Control::Exit) => return self.check_end(|_| true),
            AnyOperation::Control(Control::Return) => {
                return self.check_end(|flight| flight.frame == frame);
            }
            _ => {}
        }
        for (rows, verb) in [(&touch.writes, "written"), (&touch.reads, "read")] {
            for row in rows {
                if let Some(flight) = self.owner(frame, *row) {
                    return Err(self.report(flight, *row, verb));
                }
            }
        }
        Ok(())
    }

    fn check_end(&self, concerns: impl Fn(&Flight) -> bool) -> Outcome {
        let Some(flight) = self.flights.iter().find(|flight| concerns(flight)) else {
            return Ok(());
        };
        let mut text = format!(
            "the function ends while the wgmma in PTX line {} may still be running",
            flight.line
        );
        self.describe(flight, &mut text);
        Err(ReportKind::MatrixRegisters(text).into())
    }

    /// The product that has a row.
    fn owner(&self, frame: usize, row: u32) -> Option<&Flight> {
        let index = self.owners.get(frame, row).checked_sub(self.released + 1)?;
        self.flights.get(usize::try_from(index).ok()?)
    }

    fn report(&self, flight: &Flight, row: u32, verb: &str) -> Fault {
        let role = if flight.multiply.accumulators.contains(&row) {
            "an accumulator"
        } else {
            "part of A"
        };
        let mut text = format!(
            "a register is {verb} that is {role} of the unfinished wgmma in PTX line {}",
            flight.line
        );
        self.describe(flight, &mut text);
        ReportKind::MatrixRegisters(text).into()
    }

    /// Adds how many groups are in flight, and what would have to be waited for.
    fn describe(&self, flight: &Flight, text: &mut String) {
        let oldest = self.flights.front().map_or(self.groups, |first| first.group);
        let in_flight = self.groups.saturating_sub(oldest);
        let _ = write!(text, "; committed groups in flight: {in_flight}; wanted before: ");
        let _ = match (self.groups - flight.group).checked_sub(1) {
            Some(rest) => write!(text, "`wgmma.wait_group` {rest}"),
            None => write!(text, "`wgmma.commit_group` and `wgmma.wait_group` 0"),
        };
    }

    /// The lines of the unfinished products, each once.
    pub(crate) fn lines(&self) -> Vec<u32> {
        let mut lines: Vec<u32> = self.flights.iter().map(|flight| flight.line).collect();
        lines.sort_unstable();
        lines.dedup();
        lines
    }

    /// Rows have been written by an instruction that is no `wgmma`.
    pub(crate) fn note_writes(&mut self, rows: &[u32], frame: usize, operation: &AnyOperation) {
        if !matches!(operation, AnyOperation::Wgmma(_)) {
            self.written.set(frame, rows, self.fences);
        }
    }

    /// `wgmma.fence`.
    pub(super) fn fence(&mut self) {
        self.fences += 1;
    }

    /// `wgmma.commit_group`.
    pub(super) fn commit(&mut self) {
        self.groups += 1;
    }

    /// The number of the group that is not committed yet.
    pub(super) fn open_group(&self) -> u64 {
        self.groups
    }

    /// One more product, the oldest that had not, has been performed.
    pub(super) fn note_performed(&mut self) {
        self.performed += 1;
    }

    /// A product takes its registers.
    pub(super) fn take(&mut self, multiply: &Arc<Multiply>, frame: usize, line: u32) -> Outcome {
        let rows = [&multiply.accumulators, multiply.fragment()];
        for row in rows.into_iter().flatten() {
            if self.written.get(frame, *row) >= self.fences {
                let why = if self.fences == 0 {
                    "none has been executed before the first wgmma"
                } else {
                    "a register of its has been written since the last one"
                };
                let text = format!("`wgmma.fence` is missing: {why}");
                return Err(ReportKind::MatrixRegisters(text).into());
            }
        }
        for row in &multiply.accumulators {
            if let Some(flight) = self.owner(frame, *row)
                && !self.may_follow(flight, multiply)
            {
                return Err(self.report(flight, *row, "used as accumulator of another wgmma"));
            }
        }
        for row in multiply.fragment() {
            // Two products may read the same part of A.
            if let Some(flight) = self.owner(frame, *row)
                && flight.multiply.accumulators.contains(row)
                && flight.fences == self.fences
            {
                return Err(self.report(flight, *row, "used as A of another wgmma"));
            }
        }
        self.issued += 1;
        let (group, fences) = (self.groups, self.fences);
        let multiply = Arc::clone(multiply);
        self.owners.set(frame, &multiply.accumulators, self.issued);
        self.owners.set(frame, multiply.fragment(), self.issued);
        self.flights.push_back(Flight { group, frame, fences, line, multiply });
        Ok(())
    }

    /// Products with the same accumulators and the same shape follow each other by themselves;
    /// others need a fence.
    fn may_follow(&self, flight: &Flight, multiply: &Multiply) -> bool {
        let (first, second) = (flight.multiply.wgmma.form(), multiply.wgmma.form());
        let alike = first.shape == second.shape && first.d == second.d;
        let same = flight.multiply.accumulators == multiply.accumulators;
        alike && same || flight.fences != self.fences
    }

    /// Whether all but the `rest` newest groups have been performed. If so, their registers are
    /// free, and the number of groups that have ended is returned.
    pub(super) fn wait(&mut self, rest: u64) -> Option<u64> {
        let ended = self.groups.saturating_sub(rest);
        let covered = self.flights.iter().take_while(|flight| flight.group < ended).count();
        if self.released + covered as u64 > self.performed {
            return None;
        }
        self.released += covered as u64;
        self.flights.drain(..covered);
        Some(ended)
    }
}
