// How the PTX in this folder is made: shared by the build script, which may have to make it anew,
// and by `cargo xtask kernels`, which makes what is shipped.

use std::path::Path;

use grouped_linear_kernels::variants::{KERNELS, Target as Architecture};
use ptx_build::{Compiler, Entry, ManifestTarget, Module, Target};

/// What is shipped, in the order of the folders here.
pub const TARGETS: &[Shipped] = &[
    Shipped {
        architecture: Architecture::Sm90a,
        target: Target { cpu: "sm_90a", ptx: "ptx86" },
        features: &[],
    },
    Shipped {
        architecture: Architecture::Sm100a,
        target: Target { cpu: "sm_100a", ptx: "ptx87" },
        features: &["sm100a"],
    },
];

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// Which kernels of the table it has.
    pub architecture: Architecture,
    /// What the compiler is asked for.
    pub target: Target,
    /// Features of the kernel crate that all its modules have.
    pub features: &'static [&'static str],
}

/// The kernel crate, below the root of the repository.
pub const KERNEL_CRATE: &str = "kernels-gpu";

/// All that the PTX is made from.
pub const SOURCES: &[&str] =
    &["kernels-gpu/Cargo.toml", "kernels-gpu/src", "ptx-std/Cargo.toml", "ptx-std/src"];

/// Tensor maps, which stand in parameters, need this alignment.
const PARAMETER_ALIGN: usize = 64;

/// The modules of an architecture: its rows of the kernel table, in their order. Module `gemm_bf16`
/// has the feature `module-gemm-bf16`.
pub fn modules(shipped: &Shipped) -> Vec<Module> {
    let mut modules: Vec<Module> = Vec::new();
    for kernel in KERNELS.iter().filter(|kernel| kernel.runs_on(shipped.architecture)) {
        let entry = Entry {
            name: kernel.name.into(),
            threads: kernel.threads,
            blocks_per_multiprocessor: kernel.blocks_per_multiprocessor(),
            cluster: kernel.cluster,
            parameter_bytes: kernel.args_bytes,
            parameter_align: PARAMETER_ALIGN,
        };
        match modules.iter_mut().find(|module| module.name == kernel.module) {
            Some(module) => module.entries.push(entry),
            None => modules.push(Module {
                name: kernel.module.into(),
                features: features(kernel.module, shipped),
                entries: vec![entry],
            }),
        }
    }
    modules
}

fn features(module: &str, shipped: &Shipped) -> Vec<String> {
    let own = format!("module-{}", module.replace('_', "-"));
    let common = shipped.features.iter().map(|&feature| feature.to_owned());
    std::iter::once(own).chain(common).collect()
}

/// A compiled module: target, name, text.
pub type Compiled = (Target, String, String);

/// Every module for every target. The targets are compiled at the same time, each in a folder of
/// its own, since a build locks its folder.
pub fn compile_all(
    compiler: &Compiler,
    root: &Path,
    target_dir: &Path,
) -> Result<Vec<Compiled>, ptx_build::Error> {
    let crate_dir = &root.join(KERNEL_CRATE);
    let compile = |shipped: &Shipped| -> Result<Vec<Compiled>, ptx_build::Error> {
        let target_dir = target_dir.join(shipped.target.cpu);
        let mut texts = Vec::new();
        for module in modules(shipped) {
            let text = module.compile(compiler, crate_dir, shipped.target, &target_dir)?;
            texts.push((shipped.target, module.name, text));
        }
        Ok(texts)
    };
    let mut all = Vec::new();
    std::thread::scope(|scope| {
        let running: Vec<_> =
            TARGETS.iter().map(|shipped| scope.spawn(|| compile(shipped))).collect();
        for thread in running {
            let compiled = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            all.extend(compiled?);
        }
        Ok(all)
    })
}

/// What a manifest says of the targets; `None` if no driver is known for a PTX version.
pub fn manifest_targets() -> Option<Vec<ManifestTarget>> {
    let describe = |shipped: &Shipped| {
        let driver = ptx_build::minimum_driver(shipped.target.ptx)?;
        Some(ManifestTarget {
            cpu: shipped.target.cpu.into(),
            flags: ptx_build::flags(shipped.target).join(" "),
            minimum_driver: driver.to_string(),
            minimum_cuda: driver.cuda,
        })
    };
    TARGETS.iter().map(describe).collect()
}
