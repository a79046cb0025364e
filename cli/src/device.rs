//! `--device`: which engine a command uses.

use anyhow::{Context, Result};
use clap::ValueEnum;
use grouped_linear::{Arch, Device};
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
    /// An emulated Hopper GPU: the kernels' PTX executed on the CPU, slowly, with checks.
    #[serde(rename = "emulated:sm_90a")]
    #[value(name = "emulated:sm_90a")]
    EmulatedSm90a,
    /// The same for Blackwell.
    #[serde(rename = "emulated:sm_100a")]
    #[value(name = "emulated:sm_100a")]
    EmulatedSm100a,
}

impl DeviceChoice {
    /// The device, or why there is none.
    pub fn open(self) -> Result<Device> {
        match self {
            Self::Cpu => Ok(Device::cpu()),
            Self::Cuda => {
                Device::cuda(0).context("--device cuda cannot be used (--device cpu needs no GPU)")
            }
            Self::Auto => Ok(Device::best_available()),
            Self::EmulatedSm90a => {
                Device::emulated(Arch::Sm90a).context("--device emulated:sm_90a cannot be used")
            }
            Self::EmulatedSm100a => {
                Device::emulated(Arch::Sm100a).context("--device emulated:sm_100a cannot be used")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use grouped_linear::DeviceKind;

    use super::*;

    #[derive(Parser)]
    struct Harness {
        #[arg(long, value_enum)]
        device: DeviceChoice,
    }

    #[test]
    fn an_emulated_gpu_is_asked_for_by_its_architecture() {
        let parse = |value| Harness::try_parse_from(["test", "--device", value]);
        for (value, choice, capability) in [
            ("emulated:sm_90a", DeviceChoice::EmulatedSm90a, (9, 0)),
            ("emulated:sm_100a", DeviceChoice::EmulatedSm100a, (10, 0)),
        ] {
            assert_eq!(parse(value).map(|harness| harness.device).ok(), Some(choice));
            let device = choice.open().unwrap();
            assert_eq!(device.id().kind, DeviceKind::Emulated);
            assert_eq!(device.info().compute_capability, Some(capability));
        }
        for unknown in ["emulated", "emulated:sm_80", "emulated:"] {
            let message = parse(unknown).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(message.contains(&format!("invalid value '{unknown}'")), "{message}");
            assert!(message.contains("emulated:sm_90a"), "{message}");
        }
    }
}
