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

/// Where the kernels of this build come from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelSource {
    /// PTX modules.
    pub modules: Vec<KernelModule>,
    /// The compiler that made the PTX.
    pub compiler: &'static str,
    /// The oldest driver that loads it.
    pub minimum_driver: &'static str,
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
        minimum_driver: MINIMUM_DRIVER,
    }
}
