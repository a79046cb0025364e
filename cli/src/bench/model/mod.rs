//! How long kernels should take, by arithmetic alone.
//!
//! A product's time is that of the busiest multiprocessor (its tiles, their stages and ends, in the
//! order in which the kernels walk), at the clock that the power limit leaves, added to the time of
//! device memory as [`fitted::OVERLAP`] says, and the edges of the kernels. A quantizer's time is that
//! of the bytes it moves. Where a number comes from stands beside it: in [`machine`], or in
//! [`fitted`] if it was fitted.

pub mod fitted;
pub mod kernel;
pub mod machine;
pub mod product;
pub mod quantize;

/// What a time is mostly made of, or which unit sets the pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Products.
    TensorCore,
    /// Copies into shared memory and reads from it.
    SharedMemory,
    /// Copies from L2.
    L2,
    /// The ring is too short for the latency of copies.
    Latency,
    /// Scales on their way to sums.
    Promotion,
    /// Ends of tiles.
    Epilogue,
    /// Bytes of device memory.
    DeviceMemory,
    /// Instructions of threads.
    Instructions,
    /// Launches and set-up.
    Edges,
}

impl Bound {
    /// As tables have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::TensorCore => "tensor core",
            Self::SharedMemory => "shared memory",
            Self::L2 => "L2",
            Self::Latency => "latency",
            Self::Promotion => "promotion",
            Self::Epilogue => "epilogue",
            Self::DeviceMemory => "device memory",
            Self::Instructions => "instructions",
            Self::Edges => "edges",
        }
    }
}

/// Seconds of `pointer_setup`: 4.5 µs for 8 groups, 5.6 µs for 128, measured (docs/benchmarks.md).
pub fn setup_seconds(groups: u64) -> f64 {
    4.5e-6 + (groups as f64 - 8.0) / 120.0 * 1.1e-6
}
