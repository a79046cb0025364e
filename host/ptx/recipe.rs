// How the PTX in this folder is made: shared by the build script, which may have to make it anew,
// and by `cargo xtask kernels`, which makes what is shipped.

use std::path::Path;

use grouped_linear_kernels::variants::KERNELS;
use ptx_build::{Compiler, Entry, Module, Target};

/// What is shipped, in the order of the folders here.
pub const TARGETS: &[Target] = &[Target { cpu: "sm_90a", ptx: "ptx86" }];

/// The kernel crate, below the root of the repository.
pub const KERNEL_CRATE: &str = "kernels-gpu";

/// All that the PTX is made from.
pub const SOURCES: &[&str] =
    &["kernels-gpu/Cargo.toml", "kernels-gpu/src", "ptx-std/Cargo.toml", "ptx-std/src"];

/// Tensor maps, which stand in parameters, need this alignment.
const PARAMETER_ALIGN: usize = 64;

/// The modules of the kernel table, in its order. Module `gemm_bf16` has the feature
/// `module-gemm-bf16`.
pub fn modules() -> Vec<Module> {
    let mut modules: Vec<Module> = Vec::new();
    for kernel in KERNELS {
        let entry = Entry {
            name: kernel.name.into(),
            threads: kernel.threads,
            blocks_per_multiprocessor: kernel.blocks_per_multiprocessor(),
            parameter_bytes: kernel.args_bytes,
            parameter_align: PARAMETER_ALIGN,
        };
        match modules.iter_mut().find(|module| module.name == kernel.module) {
            Some(module) => module.entries.push(entry),
            None => modules.push(Module {
                name: kernel.module.into(),
                features: vec![format!("module-{}", kernel.module.replace('_', "-"))],
                entries: vec![entry],
            }),
        }
    }
    modules
}

/// Every module for every target: target, name, text.
pub fn compile_all(
    compiler: &Compiler,
    root: &Path,
    target_dir: &Path,
) -> Result<Vec<(Target, String, String)>, ptx_build::Error> {
    let crate_dir = root.join(KERNEL_CRATE);
    let mut texts = Vec::new();
    for &target in TARGETS {
        for module in modules() {
            let text = module.compile(compiler, &crate_dir, target, target_dir)?;
            texts.push((target, module.name, text));
        }
    }
    Ok(texts)
}

/// The first driver that loads all of it.
pub fn minimum_driver() -> Option<ptx_build::Driver> {
    let drivers = TARGETS.iter().map(|target| ptx_build::minimum_driver(target.ptx));
    drivers.collect::<Option<Vec<_>>>()?.into_iter().max_by_key(|driver| driver.cuda)
}
