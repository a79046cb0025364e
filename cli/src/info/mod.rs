//! `info`: what was found on this machine; with `--plan`, which kernel computes a product.

mod plan;

use anyhow::Result;
use grouped_linear::{
    Arch, Device, KernelArchitecture, KernelModule, ModuleReport, cuda_modules, kernel_source,
};

pub use self::plan::PlanArgs;
#[cfg(test)]
pub use self::plan::quantized;

/// Prints driver, GPUs, kernels and their compiler; or a plan.
pub fn run(args: &PlanArgs) -> Result<()> {
    if args.plan {
        say!("{}", args.explain()?);
        return Ok(());
    }
    let cpu = Device::cpu();
    say!("grouped-linear {}", env!("CARGO_PKG_VERSION"));
    say!("cpu          {}, {} threads", cpu.info().name, cpu.info().multiprocessors);
    print_emulated();
    let gpus = print_gpus();
    say!("auto         --device auto uses {}", Device::best_available().id());
    print_kernels();
    for gpu in gpus {
        print_loaded(&gpu);
    }
    Ok(())
}

fn print_emulated() {
    for arch in Arch::ALL {
        match Device::emulated(arch) {
            Ok(device) => say!(
                "emulated     {}, {} multiprocessors; --device emulated:{arch}",
                device.info().name,
                device.info().multiprocessors,
            ),
            Err(error) => say!("emulated     none of {arch}: {error}"),
        }
    }
}

/// Prints the GPUs, or why there are none.
fn print_gpus() -> Vec<Device> {
    let count = match Device::cuda_count() {
        Ok(count) => count,
        Err(error) => {
            say!("gpu          none: {error}");
            return Vec::new();
        }
    };
    if count == 0 {
        say!("gpu          none: the driver shows no GPU");
    }
    let open = |ordinal: u32| match Device::cuda(ordinal) {
        Ok(device) => {
            print_gpu(&device);
            Some(device)
        }
        Err(error) => {
            say!("gpu          cuda:{ordinal}: {error}");
            None
        }
    };
    (0..count).filter_map(open).collect()
}

fn print_gpu(device: &Device) {
    let info = device.info();
    let version = |version: Option<(u32, u32)>| {
        version.map_or("unknown".to_owned(), |(major, minor)| format!("{major}.{minor}"))
    };
    let memory =
        info.memory_bytes.map_or("unknown".to_owned(), |bytes| format!("{} MiB", bytes >> 20));
    say!(
        "gpu          {}: {}, compute capability {}, {} multiprocessors, {memory}, driver for CUDA {}",
        info.id,
        info.name,
        version(info.compute_capability),
        info.multiprocessors,
        version(info.driver)
    );
    if !device.target().tensor_cores() {
        say!("             no kernels are compiled for it; --device cpu runs everything");
    }
}

fn print_kernels() {
    let source = kernel_source();
    say!("compiler     {}", source.compiler);
    for KernelArchitecture { name, compute_capability, minimum_driver, .. } in source.architectures
    {
        let (major, minor) = compute_capability;
        say!(
            "kernels for  {name}: GPUs of compute capability {major}.{minor} and no others, driver \
             {minimum_driver} or newer"
        );
    }
    say!("kernels      {:<28}{:<10}{:>10}  origin", "module", "target", "bytes");
    for KernelModule { name, target, bytes, origin, .. } in source.modules {
        say!("             {name:<28}{target:<10}{bytes:>10}  {origin}");
    }
}

/// Loads every module that the GPU can run and prints what the driver made of it, or why it could
/// not.
fn print_loaded(gpu: &Device) {
    say!("loaded       on {}", gpu.id());
    let modules = match cuda_modules(gpu) {
        Ok(modules) => modules,
        Err(error) => return say!("             {error}"),
    };
    for ModuleReport { name, load_time, kernels, .. } in modules {
        say!("             {name}: {:.1} ms", load_time.as_secs_f64() * 1e3);
        for kernel in kernels {
            say!(
                "               {:<40}{:>4} registers{:>6} local bytes",
                kernel.name,
                kernel.registers,
                kernel.local_bytes
            );
        }
    }
}
