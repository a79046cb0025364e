//! Integer arithmetic, logic and comparisons, and how fast they are executed.

mod integer;
mod lanes;
mod logic;
mod packed;
mod speed;
