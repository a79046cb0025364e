//! What a plan must know of the device that will carry it out, and which kernels it has.

pub(crate) use grouped_linear_kernels::variants::Target as KernelTarget;

use crate::error::{Error, Result};

/// What a plan must know of the device that will carry it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// The GPU; `None` for the CPU reference.
    pub gpu: Option<GpuTarget>,
}

/// What a plan must know of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GpuTarget {
    /// Compute capability, major and minor.
    pub compute_capability: (u32, u32),
    /// Streaming multiprocessors: persistent kernels run one block on each.
    pub multiprocessors: u32,
}

impl Target {
    /// The CPU reference.
    pub const CPU: Self = Self { gpu: None };

    /// Whether tensor-core kernels are shipped for the device.
    pub fn tensor_cores(&self) -> bool {
        self.kernels().is_some()
    }

    /// Which kernels the device runs; `None` on the CPU, and on a GPU that none are compiled for.
    pub(crate) fn kernels(&self) -> Option<KernelTarget> {
        let gpu = self.gpu?;
        KernelTarget::ALL.into_iter().find(|&target| capability(target) == gpu.compute_capability)
    }
}

impl GpuTarget {
    /// Which kernels the GPU runs.
    ///
    /// # Errors
    /// None are compiled for it.
    pub(crate) fn kernels(self) -> Result<KernelTarget> {
        Target { gpu: Some(self) }.kernels().ok_or_else(|| {
            let (major, minor) = self.compute_capability;
            Error::unsupported(format!(
                "the kernels of this version are compiled for compute capability 9.0 (Hopper) and \
                 10.0 (Blackwell) and run on no other, this GPU has {major}.{minor}; use \
                 Device::cpu(), which runs everything"
            ))
        })
    }
}

/// The compute capability that the kernels are compiled for. It is the only one that they run on:
/// the `a` of `sm_90a` and `sm_100a` stands for instructions that other capabilities need not have,
/// whether older or newer (PTX manual, section `.target`), so 10.3 does not run those for 10.0.
pub(crate) fn capability(target: KernelTarget) -> (u32, u32) {
    match target {
        KernelTarget::Sm90a => (9, 0),
        KernelTarget::Sm100a => (10, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(major: u32, minor: u32) -> GpuTarget {
        GpuTarget { compute_capability: (major, minor), multiprocessors: 8 }
    }

    #[test]
    fn each_capability_has_its_own_kernels_or_none() {
        assert_eq!(gpu(9, 0).kernels().ok(), Some(KernelTarget::Sm90a));
        assert_eq!(gpu(10, 0).kernels().ok(), Some(KernelTarget::Sm100a));
        for (major, minor) in [(7, 5), (8, 0), (8, 9), (9, 1), (10, 1), (10, 3), (11, 0), (12, 0)] {
            let target = Target { gpu: Some(gpu(major, minor)) };
            assert!(!target.tensor_cores(), "{major}.{minor}");
            let error = gpu(major, minor).kernels().expect_err("no kernels");
            assert!(error.is_unsupported(), "{error}");
            let text = error.to_string();
            assert!(text.contains(&format!("this GPU has {major}.{minor};")), "{text}");
            // All that have kernels are named.
            for target in KernelTarget::ALL {
                let (major, minor) = capability(target);
                assert!(text.contains(&format!("{major}.{minor} (")), "{text}");
            }
        }
        assert_eq!(Target::CPU.kernels(), None);
    }
}
