//! What a run shows while it works: a bar on a terminal, lines elsewhere.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

use super::load::Load;
use super::log::Record;

const TEMPLATE: &str = "{bar:30} {pos}/{len} {elapsed}, {eta} left  {msg}";

/// A bar on a terminal, lines elsewhere.
pub enum Progress {
    /// Standard error is a terminal.
    Bar(ProgressBar),
    /// It is a file or a pipe.
    Lines,
}

impl Progress {
    /// Progress from `step` to `end`.
    pub fn new(step: usize, end: usize) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::Lines;
        }
        let style =
            ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::new(end as u64).with_style(style).with_position(step as u64);
        bar.reset_eta();
        Self::Bar(bar)
    }

    /// Shows one step.
    pub fn step(&self, step: usize, loss: f64, tokens_per_second: f64, load: &Load) {
        if let Self::Bar(bar) = self {
            bar.set_message(format!(
                "loss {loss:.3}  {tokens_per_second:.0} tokens/s  expert load {:.2}–{:.2} of the mean",
                load.least(),
                load.greatest()
            ));
            bar.set_position(step as u64);
        }
    }

    /// Shows a record of the log.
    pub fn record(&self, record: &Record) {
        if let Self::Lines = self {
            let held_out = record
                .held_out_loss
                .map_or(String::new(), |loss| format!("  held-out loss {loss:.4}"));
            note!(
                "step {:5}  loss {:.4}  {:.0} tokens/s  least expert load {:.2} of the mean{held_out}",
                record.step,
                record.loss,
                record.tokens_per_second,
                record.least_load
            );
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}
