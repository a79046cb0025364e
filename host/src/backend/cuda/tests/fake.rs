//! Builds, loads and opens the driver of `fake_driver.c`.

use std::ffi::{CStr, CString, c_char};
use std::path::PathBuf;
use std::process::Command;

use libloading::Library;

use super::super::context::Context;
use super::super::driver::{Driver, SYMBOLS};
use super::super::stream::CudaStream;

/// A shared library on disk; goes with its folder. What is loaded from it stays.
pub(super) struct Built {
    pub path: PathBuf,
}

impl Drop for Built {
    fn drop(&mut self) {
        if let Some(folder) = self.path.parent() {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// Compiles C source to a shared library of that name.
pub(super) fn compile(name: &str, source: &str, defines: &[&str]) -> Built {
    let folder = format!("grouped-linear-{}-{name}", std::process::id());
    let folder = std::env::temp_dir().join(folder);
    std::fs::create_dir_all(&folder).expect("a folder for the fake driver");
    let (input, output) = (folder.join(format!("{name}.c")), folder.join(format!("lib{name}.so")));
    let built = Built { path: output.clone() };
    std::fs::write(&input, source).expect("the source of the fake driver");
    let run = Command::new("cc")
        .args(["-shared", "-fPIC", "-w", "-o"])
        .args([&output, &input])
        .args(defines.iter().map(|define| format!("-D{define}")))
        .status()
        .expect("a C compiler is needed for these tests");
    assert!(run.success(), "the fake driver does not compile");
    built
}

/// The whole fake driver, with what the C file leaves out.
pub(super) fn compile_driver(name: &str, defines: &[&str]) -> Built {
    let mut source = include_str!("fake_driver.c").to_string();
    for symbol in SYMBOLS {
        if !source.contains(&format!("int {symbol}(")) {
            source += &format!("int {symbol}(void) {{ return 0; }}\n");
        }
    }
    compile(name, &source, defines)
}

/// A loaded fake driver and its notes.
pub(super) struct Fake {
    pub driver: &'static Driver,
    library: Library,
}

impl Fake {
    /// Each test gets a library, and so notes, of its own.
    pub(super) fn load(name: &str) -> Self {
        let built = compile_driver(name, &[]);
        let driver = Driver::load_from(&built.path).expect("the fake driver loads");
        // SAFETY: the library has no initialisers.
        let library = unsafe { Library::new(&built.path) }.expect("the fake driver loads again");
        Self { driver: Box::leak(Box::new(driver)), library }
    }

    /// What has been noted since the last call.
    pub(super) fn notes(&self) -> String {
        // SAFETY: the signatures are those of `fake_driver.c`; the text ends with NUL.
        unsafe {
            let notes: libloading::Symbol<unsafe extern "C" fn() -> *const c_char> =
                self.library.get(b"fake_notes").expect("fake_notes");
            let text = CStr::from_ptr(notes()).to_string_lossy().into_owned();
            let clear: libloading::Symbol<unsafe extern "C" fn()> =
                self.library.get(b"fake_clear").expect("fake_clear");
            clear();
            assert!(!text.contains("VIOLATION"), "{text}");
            text
        }
    }

    /// Makes the next call of a function fail.
    pub(super) fn fail(&self, function: &str, code: i32) {
        self.fail_behind(0, function, code);
    }

    /// Makes a call of a function fail, behind so many that do not.
    pub(super) fn fail_behind(&self, good: i32, function: &str, code: i32) {
        let function = CString::new(function).expect("a name");
        // SAFETY: the signature is that of `fake_driver.c`, which copies the name.
        unsafe {
            let fail: libloading::Symbol<unsafe extern "C" fn(*const c_char, i32, i32)> =
                self.library.get(b"fake_fail").expect("fake_fail");
            fail(function.as_ptr(), code, good);
        }
    }
}

/// Opens the fake GPU of a library of its own.
pub(super) fn open(name: &str) -> (Fake, &'static Context) {
    let fake = Fake::load(name);
    let context = Context::open(fake.driver, 0).expect("the fake GPU opens");
    (fake, context)
}

/// A stream of the fake GPU.
pub(super) fn stream(context: &'static Context) -> CudaStream {
    CudaStream::create(context).expect("a stream")
}
