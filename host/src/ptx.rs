//! The kernels' PTX, embedded by the build script.

use crate::error::{Error, Result};
use crate::plan::{KernelTarget, capability};

/// One PTX module.
pub(crate) struct EmbeddedModule {
    /// Architecture it is compiled for, as [`KernelTarget::name`] spells it.
    pub target: &'static str,
    /// Name in the kernel table.
    pub name: &'static str,
    /// The text.
    pub ptx: &'static str,
    /// `shipped`, or `compiled from changed sources`.
    pub origin: &'static str,
}

/// One architecture that there are modules for.
pub(crate) struct EmbeddedTarget {
    /// Its name, as [`KernelTarget::name`] spells it.
    pub name: &'static str,
    /// The oldest driver that loads the modules.
    pub minimum_driver: &'static str,
    /// The same as `cuDriverGetVersion` reports it.
    pub minimum_cuda: u32,
}

include!(concat!(env!("OUT_DIR"), "/ptx_modules.rs"));

/// The module of that name for an architecture.
pub(crate) fn module(target: KernelTarget, name: &str) -> Result<&'static EmbeddedModule> {
    let mut modules = MODULES.iter();
    modules.find(|module| module.name == name && module.target == target.name()).ok_or_else(|| {
        let target = target.name();
        Error::unsupported(format!("this build embeds no PTX module named {name} for {target}"))
    })
}

/// The oldest CUDA version whose driver loads the modules of an architecture, as
/// `cuDriverGetVersion` reports it.
pub(crate) fn minimum_cuda(target: KernelTarget) -> Option<u32> {
    TARGETS.iter().find(|known| known.name == target.name()).map(|known| known.minimum_cuda)
}

/// The oldest CUDA version whose driver loads the modules of any architecture.
pub(crate) fn minimum_cuda_of_all() -> u32 {
    TARGETS.iter().map(|target| target.minimum_cuda).min().unwrap_or(0)
}

/// One PTX module of this build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelModule {
    /// Name in the kernel table.
    pub name: &'static str,
    /// Architecture it is compiled for, such as `sm_90a`.
    pub target: &'static str,
    /// Bytes of text.
    pub bytes: usize,
    /// `shipped`, or `compiled from changed sources`.
    pub origin: &'static str,
}

/// One architecture that this build has kernels for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelArchitecture {
    /// Its name, such as `sm_90a`.
    pub name: &'static str,
    /// The compute capability that the kernels run on, and no other; major and minor.
    pub compute_capability: (u32, u32),
    /// The oldest driver that loads them.
    pub minimum_driver: &'static str,
}

/// Where the kernels of this build come from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelSource {
    /// PTX modules.
    pub modules: Vec<KernelModule>,
    /// The compiler that made the PTX.
    pub compiler: &'static str,
    /// What it is compiled for.
    pub architectures: Vec<KernelArchitecture>,
}

/// Where the kernels of this build come from.
///
/// ```
/// let source = grouped_linear::kernel_source();
/// assert!(source.modules.iter().any(|module| module.name == "setup"));
/// ```
pub fn kernel_source() -> KernelSource {
    KernelSource {
        modules: MODULES
            .iter()
            .map(|module| KernelModule {
                name: module.name,
                target: module.target,
                bytes: module.ptx.len(),
                origin: module.origin,
            })
            .collect(),
        compiler: KERNEL_COMPILER,
        architectures: KernelTarget::ALL.into_iter().filter_map(architecture).collect(),
    }
}

fn architecture(target: KernelTarget) -> Option<KernelArchitecture> {
    let embedded = TARGETS.iter().find(|embedded| embedded.name == target.name())?;
    Some(KernelArchitecture {
        name: embedded.name,
        compute_capability: capability(target),
        minimum_driver: embedded.minimum_driver,
    })
}

#[cfg(test)]
mod tests {
    use grouped_linear_kernels::variants::KERNELS;

    use super::*;

    #[test]
    fn every_architecture_has_the_modules_of_its_kernels_and_no_others() {
        for target in KernelTarget::ALL {
            let rows = || KERNELS.iter().filter(|kernel| kernel.runs_on(target));
            for kernel in rows() {
                let embedded = module(target, kernel.module).expect("a module of the table");
                let entry = format!(".entry {}(", kernel.name);
                assert!(embedded.ptx.contains(&entry), "{} {}", target.name(), kernel.name);
                let line = format!(".target {}\n", target.name());
                assert!(embedded.ptx.contains(&line), "{} {}", target.name(), kernel.module);
            }
            let of_target = MODULES.iter().filter(|module| module.target == target.name());
            for embedded in of_target {
                assert!(rows().any(|row| row.module == embedded.name), "{}", embedded.name);
            }
            assert!(minimum_cuda(target).is_some_and(|cuda| cuda >= minimum_cuda_of_all()));
        }
        assert_eq!(kernel_source().architectures.len(), KernelTarget::ALL.len());
        let missing = module(KernelTarget::Sm100a, "gemm_bf16").err().map(|e| e.to_string());
        let text = "this build embeds no PTX module named gemm_bf16 for sm_100a";
        assert!(missing.is_some_and(|found| found.contains(text)));
    }
}
