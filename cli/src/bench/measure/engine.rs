//! What can be timed: this library, or a peer in another process.

use anyhow::Result;

use super::record::{Check, Quantity, Refused};
use super::task::{Pace, Section, Task};
use crate::bench::suite::Shape;

/// Which of its contenders an engine is asked for, and what it does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Call<'a> {
    /// Over the operands that were made ready last.
    pub task: Task,
    /// One of those that the engine named.
    pub contender: &'a str,
    /// Whether a recorded graph of the task is replayed.
    pub replay: bool,
    /// What its time is of.
    pub quantity: Quantity,
}

/// Who an engine has for a task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contenders {
    /// Those that it will call.
    pub names: Vec<String>,
    /// Those that it might have but has not.
    pub absent: Vec<Refused>,
}

/// An answer that may be a refusal: the engine works on, but not in this.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer<T> {
    /// It is done.
    Done(T),
    /// Why it cannot be.
    Refused(String),
}

/// Something that has contenders. An error ends the run; what an engine just cannot do is a
/// refusal.
pub trait Engine {
    /// Makes operands ready, in place of those that were.
    fn prepare(&mut self, section: Section, shape: &Shape) -> Result<Answer<()>>;

    /// Its contenders of a task.
    fn contenders(&mut self, task: Task, quantity: Quantity) -> Result<Contenders>;

    /// Compares results with FP64; an engine whose results are not ours to judge has no checks.
    fn check(&mut self, call: Call<'_>) -> Result<Answer<Vec<Check>>>;

    /// Microseconds of a call.
    fn time(&mut self, call: Call<'_>, pace: Pace) -> Result<Answer<f64>>;
}
