//! The loader against libraries that are no driver, or not the right one.

use std::path::Path;

use super::super::context::Context;
use super::super::driver::Driver;
use super::fake::{compile, compile_driver};
use crate::error::Error;
use crate::plan::KernelTarget;
use crate::ptx::{minimum_cuda, minimum_cuda_of_all};

fn spelled(version: u32) -> String {
    format!("CUDA {}.{}", version / 1000, version % 1000 / 10)
}

fn refusal(path: &Path) -> Error {
    Driver::load_from(path).expect_err("the library must be refused")
}

#[test]
fn a_missing_library_is_no_driver() {
    let error = refusal(Path::new("/nonexistent/libcuda.so.1"));
    assert!(error.is_no_driver());
    assert!(error.to_string().contains("/nonexistent/libcuda.so.1"), "{error}");
    assert!(error.to_string().contains("Device::cpu()"), "{error}");
}

#[test]
fn another_library_is_no_driver_and_the_function_is_named() {
    let error = refusal(Path::new("libm.so.6"));
    assert!(error.is_no_driver());
    if cfg!(target_os = "linux") {
        assert!(error.to_string().contains("no function cuDriverGetVersion"), "{error}");
    }
}

#[test]
fn an_old_driver_is_called_old_before_anything_is_missed() {
    let source = "int cuDriverGetVersion(int *v) { *v = VERSION; return 0; }";
    let least = minimum_cuda_of_all();
    let version = format!("VERSION={}", least - 10);
    let built = compile("old", source, &[&version]);
    let error = refusal(&built.path);
    assert!(error.is_unsupported() && !error.is_no_driver());
    let (text, needed) = (error.to_string(), spelled(least));
    assert!(text.contains(&spelled(least - 10)) && text.contains(&needed), "{text}");
}

#[test]
fn a_new_driver_without_a_function_names_it() {
    let source = "int cuDriverGetVersion(int *v) { *v = 13000; return 0; }
                  int cuInit(unsigned flags) { return flags; }";
    let built = compile("partial", source, &[]);
    let error = refusal(&built.path);
    assert!(error.is_unsupported() && !error.is_no_driver());
    let (text, needed) = (error.to_string(), spelled(minimum_cuda_of_all()));
    assert!(text.contains("the function cuGetErrorName") && text.contains(&needed), "{text}");
    assert!(text.contains("CUDA 13.0"), "{text}");
}

#[test]
fn codes_of_initialisation_are_told_apart() {
    let built = compile_driver("no_device", &["INIT_CODE=100"]);
    assert!(refusal(&built.path).is_no_driver());

    let built = compile_driver("stub", &["INIT_CODE=34"]);
    assert!(refusal(&built.path).is_no_driver());

    // A code that even the driver does not know.
    let built = compile_driver("unknown", &["INIT_CODE=999"]);
    let error = refusal(&built.path);
    assert_eq!(error.driver_code(), Some(999));
    assert!(error.to_string().contains("cuInit"), "{error}");
}

#[test]
fn the_oldest_driver_allowed_is_taken() {
    let least = minimum_cuda_of_all();
    let built = compile_driver("oldest", &[&format!("VERSION={least}")]);
    let driver = Driver::load_from(&built.path).expect("the minimum is enough");
    assert_eq!(driver.version(), (least / 1000, least % 1000 / 10));
    assert_eq!(driver.device_count().expect("a count"), 1);
}

/// Opens the GPU of a fake driver of this version, a GPU of this capability.
fn opened(name: &str, version: u32, (major, minor): (u32, u32)) -> Result<&'static Context, Error> {
    let defines = [("VERSION", version), ("MAJOR", major), ("MINOR", minor)]
        .map(|(name, value)| format!("{name}={value}"));
    let built = compile_driver(name, &defines.each_ref().map(String::as_str));
    let driver = Driver::load_from(&built.path).expect("the fake driver loads");
    Context::open(Box::leak(Box::new(driver)), 0)
}

#[test]
fn each_gpu_asks_for_the_driver_of_its_own_kernels() {
    let hopper = minimum_cuda(KernelTarget::Sm90a).expect("kernels for Hopper");
    let blackwell = minimum_cuda(KernelTarget::Sm100a).expect("kernels for Blackwell");
    assert!(hopper < blackwell, "{hopper} {blackwell}");
    let context = opened("hopper", hopper, (9, 0)).expect("Blackwell's driver is not needed");
    assert_eq!(context.kernels().ok(), Some(KernelTarget::Sm90a));
    let context = opened("blackwell", blackwell, (10, 0)).expect("the minimum is enough");
    assert_eq!(context.kernels().ok(), Some(KernelTarget::Sm100a));

    let error = opened("old_blackwell", blackwell - 10, (10, 0)).expect_err("an old driver");
    assert!(error.is_unsupported() && !error.is_no_driver());
    let text = error.to_string();
    assert!(text.contains(&spelled(blackwell - 10)), "{text}");
    assert!(text.contains(&spelled(blackwell)) && text.contains("Fake GPU"), "{text}");

    // Without kernels a GPU still holds tensors; whoever plans work for it is told.
    let context = opened("ada", hopper, (8, 9)).expect("no kernel needs a newer driver");
    let refused = context.kernels().expect_err("no kernels");
    assert!(refused.is_unsupported() && refused.to_string().contains("8.9"), "{refused}");
}

#[test]
fn without_a_driver_a_device_is_an_error_not_a_panic() {
    match crate::Device::cuda(0) {
        Ok(device) => println!("a driver is here: {:?}", device.info()),
        Err(error) => println!("no device: {error}"),
    }
    if Driver::load().is_err_and(|error| error.is_no_driver()) {
        assert!(crate::Device::cuda(0).expect_err("no driver").is_no_driver());
        assert!(crate::Device::cuda_count().expect_err("no driver").is_no_driver());
        assert_eq!(crate::Device::best_available().id(), crate::Device::cpu().id());
    }
}
