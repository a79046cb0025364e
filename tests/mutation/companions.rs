//! Modules without what the scenarios of a kernel never launch: what is not there need not be
//! loaded thousands of times.

use std::sync::LazyLock;

use ptx_emulator::Module;
use ptx_emulator::module::Item;

/// The module without the kernels that do not run together with one of its kernels.
pub fn only(kernel: &str, module: &Module) -> Module {
    without(module, |other| !run_together(kernel, other))
}

fn without(module: &Module, is_left_out: impl Fn(&str) -> bool) -> Module {
    let mut module = module.clone();
    let functions = &module.functions;
    module.items.retain(|item| match item {
        Item::Function(index) => functions.get(*index).is_none_or(|own| !is_left_out(&own.name)),
        _ => true,
    });
    module
}

/// Whether a scenario of a kernel launches another one of its module, too.
fn run_together(kernel: &str, other: &str) -> bool {
    if kernel == other {
        return true;
    }
    if kernel.starts_with("gemm") {
        return kernel.contains("aligned") && other == "align";
    }
    // The scenarios have one type of sources; without a type in the kernel's name it is BF16. Those
    // of a quantizer launch no other.
    let source = source_type(kernel).unwrap_or("bf16");
    let is_quantizer = |name: &str| name.starts_with("quantize");
    source_type(other).is_none_or(|own| own == source)
        && !(is_quantizer(kernel) && is_quantizer(other))
}

/// The type of the source that the name of a kernel ends with.
fn source_type(kernel: &str) -> Option<&str> {
    kernel.rsplit('_').next().filter(|word| ["bf16", "f16", "f32"].contains(word))
}

/// Unbroken modules that are launched beside a broken one, each with its name: the quantizers of
/// NVFP4 share the measuring of magnitudes, and all the order of scales.
pub fn beside(module: &str) -> &'static [(String, String)] {
    match module {
        "quantize_nvfp4" => &BESIDE_NVFP4[..1],
        "quantize_nvfp4_lines" | "quantize_nvfp4_general" => &BESIDE_NVFP4[..],
        _ => &[],
    }
}

static BESIDE_NVFP4: LazyLock<[(String, String); 2]> = LazyLock::new(|| {
    let scales = include_str!("../../host/ptx/sm_90a/quantize_mxfp8.ptx");
    let magnitudes = include_str!("../../host/ptx/sm_90a/quantize_nvfp4.ptx");
    [("quantize_mxfp8", scales), ("quantize_nvfp4", magnitudes)].map(|(name, text)| {
        // A text that cannot be parsed is one that the loader refuses, and says why.
        let is_left_out = |kernel: &str| kernel.starts_with("quantize");
        let lighter = Module::parse(text).map(|module| without(&module, is_left_out).to_string());
        (name.to_owned(), lighter.unwrap_or_else(|_| text.to_owned()))
    })
});
