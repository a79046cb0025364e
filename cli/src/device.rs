//! `--device`: which engine a command uses.

use anyhow::{Context, Result};
use clap::ValueEnum;
use grouped_linear::Device;
use serde::Serialize;

/// Value of `--device`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum DeviceChoice {
    /// The CPU.
    Cpu,
    /// The first GPU.
    Cuda,
    /// The first GPU with tensor-core kernels, else the CPU.
    Auto,
}

impl DeviceChoice {
    /// The device, or why there is none.
    pub fn open(self) -> Result<Device> {
        match self {
            Self::Cpu => Ok(Device::cpu()),
            Self::Cuda => Device::cuda(0).context("--device cuda cannot be used"),
            Self::Auto => Ok(Device::best_available()),
        }
    }
}
