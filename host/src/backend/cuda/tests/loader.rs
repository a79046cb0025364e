//! The loader against libraries that are no driver, or not the right one.

use std::path::Path;

use super::super::driver::Driver;
use super::fake::{compile, compile_driver};
use crate::error::Error;
use crate::ptx::MINIMUM_CUDA;

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
    let version = format!("VERSION={}", MINIMUM_CUDA - 10);
    let built = compile("old", source, &[&version]);
    let error = refusal(&built.path);
    assert!(error.is_unsupported() && !error.is_no_driver());
    let (text, needed) = (error.to_string(), spelled(MINIMUM_CUDA));
    assert!(text.contains(&spelled(MINIMUM_CUDA - 10)) && text.contains(&needed), "{text}");
}

#[test]
fn a_new_driver_without_a_function_names_it() {
    let source = "int cuDriverGetVersion(int *v) { *v = 13000; return 0; }
                  int cuInit(unsigned flags) { return flags; }";
    let built = compile("partial", source, &[]);
    let error = refusal(&built.path);
    assert!(error.is_unsupported() && !error.is_no_driver());
    let (text, needed) = (error.to_string(), spelled(MINIMUM_CUDA));
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
    let built = compile_driver("oldest", &[&format!("VERSION={MINIMUM_CUDA}")]);
    let driver = Driver::load_from(&built.path).expect("the minimum is enough");
    assert_eq!(driver.version(), (MINIMUM_CUDA / 1000, MINIMUM_CUDA % 1000 / 10));
    assert_eq!(driver.device_count().expect("a count"), 1);
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
