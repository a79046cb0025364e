//! PTX modules: loaded when a kernel is first launched, and kept.

use std::ffi::{CString, c_void};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use grouped_linear_kernels::variants::{KERNELS, Kernel};

use super::context::{Context, Relaxed};
use super::ffi::{CuFunction, CuModule, code, function_attribute, jit};
use super::{cuda_context, lock};
use crate::backend::Device;
use crate::error::{Error, Kind, Result};
use crate::ptx;

/// Dynamic shared memory that a kernel gets without asking.
const DEFAULT_SHARED_BYTES: u32 = 48 << 10;

/// Bytes of each of the driver's two logs.
const LOG_BYTES: usize = 16 << 10;

/// What the driver made of one PTX module.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModuleReport {
    /// Name of the module.
    pub name: &'static str,
    /// Time the driver took to load it: compilation, unless its own cache had the result.
    pub load_time: Duration,
    /// Its kernels, in the order of the kernel table.
    pub kernels: Vec<KernelReport>,
}

/// What the driver made of one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelReport {
    /// Name of the entry point.
    pub name: &'static str,
    /// Registers per thread.
    pub registers: u32,
    /// Bytes of local memory per thread: spilled registers and arrays; 0 in a good GEMM kernel.
    pub local_bytes: u32,
    /// Bytes of shared memory per block: declared in the kernel, plus what a launch adds.
    pub shared_bytes: u32,
    /// The most threads that a block can have.
    pub max_threads: u32,
}

/// Loads every kernel module that a GPU runs and reports what the driver made of it.
///
/// ```no_run
/// let device = grouped_linear::Device::cuda(0)?;
/// for module in grouped_linear::cuda_modules(&device)? {
///     println!("{}: {:?}", module.name, module.load_time);
/// }
/// # Ok::<(), grouped_linear::Error>(())
/// ```
///
/// # Errors
/// The device is no GPU, or one without kernels, or the driver cannot load a module.
pub fn cuda_modules(device: &Device) -> Result<Vec<ModuleReport>> {
    let context = cuda_context(device)?;
    let target = context.kernels()?;
    let mut reports: Vec<ModuleReport> = Vec::new();
    for kernel in KERNELS.iter().filter(|kernel| kernel.runs_on(target)) {
        let report = context.modules().report(context, kernel)?;
        match reports.iter_mut().find(|module| module.name == kernel.module) {
            Some(module) => module.kernels.push(report),
            None => {
                let load_time = context.modules().load_time(kernel.module);
                reports.push(ModuleReport {
                    name: kernel.module,
                    load_time,
                    kernels: vec![report],
                });
            }
        }
    }
    Ok(reports)
}

/// The modules of one device; never unloaded, like the device.
#[derive(Debug)]
pub(super) struct Modules {
    loaded: Mutex<Vec<Module>>,
    /// By row of the kernel table.
    functions: Vec<OnceLock<CuFunction>>,
}

#[derive(Clone, Copy, Debug)]
struct Module {
    name: &'static str,
    handle: CuModule,
    load_time: Duration,
}

impl Modules {
    pub(super) fn new() -> Self {
        let functions = KERNELS.iter().map(|_| OnceLock::new()).collect();
        Self { loaded: Mutex::default(), functions }
    }

    /// The function of a row of the kernel table.
    pub(super) fn function(
        &self,
        context: &'static Context,
        kernel: &'static Kernel,
    ) -> Result<CuFunction> {
        // By role, not by address: a constant table may have several addresses.
        let row = KERNELS.iter().position(|row| row.role == kernel.role);
        let Some(cell) = row.and_then(|row| self.functions.get(row)) else {
            return Err(Error::unsupported(format!("{} is not in the kernel table", kernel.name)));
        };
        if let Some(function) = cell.get() {
            return Ok(*function);
        }
        let function = self.load_function(context, kernel)?;
        Ok(*cell.get_or_init(|| function))
    }

    fn load_function(&self, context: &'static Context, kernel: &Kernel) -> Result<CuFunction> {
        let driver = context.bind()?;
        let _relaxed = Relaxed::enter(driver);
        let module = self.module(context, kernel.module)?;
        let name = terminated(kernel.module, kernel.name)?;
        let mut function = CuFunction::NULL;
        // SAFETY: the module is loaded for ever, the name ends with NUL; writes one handle.
        let code = unsafe {
            (driver.table().module_get_function)(&mut function, module.handle, name.as_ptr())
        };
        if code != code::SUCCESS {
            let (name, text) = driver.describe(code);
            let detail = format!("cuModuleGetFunction({}): {name} ({text})", kernel.name);
            let module = kernel.module.to_string();
            return Err(Kind::ModuleLoad { module, detail, log: String::new() }.into());
        }
        if kernel.shared_bytes > DEFAULT_SHARED_BYTES {
            let attribute = function_attribute::MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function is the one just found.
            unsafe {
                driver.func_set_attribute(function, attribute, kernel.shared_bytes as i32)?;
            }
        }
        Ok(function)
    }

    /// Loads a module unless it is loaded. Other threads wait: loading twice helps nobody.
    fn module(&self, context: &'static Context, name: &'static str) -> Result<Module> {
        let mut loaded = lock(&self.loaded);
        if let Some(module) = loaded.iter().find(|module| module.name == name) {
            return Ok(*module);
        }
        let begin = Instant::now();
        let handle = load(context, name)?;
        let module = Module { name, handle, load_time: begin.elapsed() };
        loaded.push(module);
        Ok(module)
    }

    fn load_time(&self, name: &str) -> Duration {
        let loaded = lock(&self.loaded);
        loaded.iter().find(|module| module.name == name).map_or(Duration::ZERO, |m| m.load_time)
    }

    fn report(&self, context: &'static Context, kernel: &'static Kernel) -> Result<KernelReport> {
        let function = self.function(context, kernel)?;
        let driver = context.driver();
        let ask = |attribute| -> Result<u32> {
            let mut value = 0;
            // SAFETY: writes one `int`; the function's module is loaded for ever.
            unsafe { driver.func_get_attribute(&mut value, attribute, function)? };
            Ok(value.unsigned_abs())
        };
        Ok(KernelReport {
            name: kernel.name,
            registers: ask(function_attribute::NUM_REGS)?,
            local_bytes: ask(function_attribute::LOCAL_SIZE_BYTES)?,
            shared_bytes: ask(function_attribute::SHARED_SIZE_BYTES)? + kernel.shared_bytes,
            max_threads: ask(function_attribute::MAX_THREADS_PER_BLOCK)?,
        })
    }
}

/// Has the driver compile the embedded PTX.
fn load(context: &'static Context, name: &'static str) -> Result<CuModule> {
    let embedded = ptx::module(context.kernels()?, name)?;
    let image = terminated(name, embedded.ptx)?;
    let driver = context.bind()?;
    let (mut info, mut errors) = (vec![0u8; LOG_BYTES], vec![0u8; LOG_BYTES]);
    // Numbers travel in the place of pointers.
    let number = |value: usize| value as *mut c_void;
    let mut options = [
        jit::INFO_LOG_BUFFER,
        jit::INFO_LOG_BUFFER_SIZE_BYTES,
        jit::ERROR_LOG_BUFFER,
        jit::ERROR_LOG_BUFFER_SIZE_BYTES,
        jit::LOG_VERBOSE,
    ];
    let mut values = [
        info.as_mut_ptr().cast(),
        number(LOG_BYTES),
        errors.as_mut_ptr().cast(),
        number(LOG_BYTES),
        number(1),
    ];
    let mut handle = CuModule::NULL;
    // SAFETY: the image ends with NUL; there are as many values as options, the buffers have the
    // sizes given, and all of them outlive the call.
    let code = unsafe {
        (driver.table().module_load_data_ex)(
            &mut handle,
            image.as_ptr().cast(),
            options.len() as u32,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    if code == code::SUCCESS {
        return Ok(handle);
    }
    let (code_name, text) = driver.describe(code);
    let detail = format!(
        "code {code} ({code_name}): {text}; the PTX is {} for {}",
        embedded.origin, embedded.target
    );
    let log = format!("{}{}", log_text(&errors), log_text(&info));
    Err(Kind::ModuleLoad { module: name.to_string(), detail, log }.into())
}

/// The text up to the first NUL.
fn log_text(log: &[u8]) -> String {
    let text = log.split(|&byte| byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    if text.is_empty() { String::new() } else { format!("{}\n", text.trim_end()) }
}

fn terminated(module: &str, text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| {
        let detail = "its text contains a NUL byte".to_string();
        Kind::ModuleLoad { module: module.to_string(), detail, log: String::new() }.into()
    })
}
