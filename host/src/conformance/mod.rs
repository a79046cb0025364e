//! One table of behaviours for all engines: what `cargo test` samples and `grouped-linear verify`
//! runs. Not part of the stable interface.
//!
//! A [`Case`] says what is computed on which sizes; [`run_case`] computes it twice on a device and
//! compares the results with the loops in [`reference::plain`](crate::reference::plain) in FP64.

mod cases;
mod compare;
mod data;
mod oracle;
mod pairwise;
mod run;

pub use self::cases::{
    BiasCase, Case, Factors, Layout, Operation, RowPattern, SEED, SplitSource, all_cases,
    selected_cases,
};
pub use self::compare::{Location, Tolerance, compare};
pub use self::data::Generator;
pub use self::run::{Outcome, run_case};
use crate::backend::Device;

/// An engine, or why it cannot run here.
#[derive(Debug)]
pub struct Engine {
    /// `cpu` or `cuda`.
    pub name: &'static str,
    /// The device, or the reason for which its cases are skipped.
    pub device: Result<Device, String>,
}

/// Every engine of this version.
pub fn engines() -> Vec<Engine> {
    let cuda = Device::cuda(0).map_err(|error| error.to_string()).and_then(|device| {
        if device.target().tensor_cores() {
            return Ok(device);
        }
        Err(format!("no kernels for {}", device.info().name))
    });
    vec![Engine { name: "cpu", device: Ok(Device::cpu()) }, Engine { name: "cuda", device: cuda }]
}
