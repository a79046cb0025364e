//! The kernels' PTX, embedded by the build script.

/// One PTX module.
pub(crate) struct EmbeddedModule {
    /// Architecture it is compiled for, such as `sm_90a`.
    pub target: &'static str,
    /// Name in the kernel table.
    pub name: &'static str,
    /// The text.
    pub ptx: &'static str,
    /// `shipped`, or `compiled from changed sources`.
    pub origin: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/ptx_modules.rs"));

/// The module of that name.
pub(crate) fn module(name: &str) -> Option<&'static EmbeddedModule> {
    MODULES.iter().find(|module| module.name == name)
}

/// Where the kernels of this build come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSource {
    /// PTX modules: name, target, bytes of text, origin.
    pub modules: Vec<(&'static str, &'static str, usize, &'static str)>,
    /// The compiler that made the PTX.
    pub compiler: &'static str,
    /// The oldest driver that loads it.
    pub minimum_driver: &'static str,
}

/// Where the kernels of this build come from.
///
/// ```
/// let source = grouped_linear::kernel_source();
/// assert!(source.modules.iter().any(|(name, ..)| *name == "setup"));
/// ```
pub fn kernel_source() -> KernelSource {
    KernelSource {
        modules: MODULES
            .iter()
            .map(|module| (module.name, module.target, module.ptx.len(), module.origin))
            .collect(),
        compiler: KERNEL_COMPILER,
        minimum_driver: MINIMUM_DRIVER,
    }
}
