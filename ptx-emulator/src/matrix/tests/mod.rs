//! Tests against independently written layouts and sums.

mod forms;
mod fp8;
mod mma;
mod numbers;
mod oracle;
mod tiles;
mod wgmma;
