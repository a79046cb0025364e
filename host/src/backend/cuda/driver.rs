//! The table of driver functions, loaded at run time; nothing here links to CUDA.

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::fmt;

use libloading::Library;

use super::ffi::{
    Code, CuContext, CuEvent, CuFunction, CuGraph, CuGraphExec, CuGraphNode, CuModule, CuPool,
    CuStream, CuTensorMap, KernelNodeParams, LaunchAttributeValue, LaunchConfig, MemPoolProps,
    code,
};
use crate::error::{Error, Kind, Result};
use crate::ptx;

/// Names under which the driver's library is found, best first.
const LIBRARIES: &[&str] =
    if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so.1", "libcuda.so"] };

/// Expands to [`Table`], the list of symbols, and one checked method per function.
macro_rules! driver_table {
    ($($symbol:ident => $name:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        /// The functions, as the library exports them.
        pub(super) struct Table {
            $(pub $name: unsafe extern "C" fn($($type),*) -> Code,)*
        }

        /// Every symbol that is looked up.
        #[cfg(test)]
        pub(super) const SYMBOLS: &[&str] = &[$(stringify!($symbol)),*];

        impl Table {
            /// Looks up every function; the name of the first that is missing is the error.
            ///
            /// # Safety
            /// What `library` exports under these names has the driver's signatures.
            unsafe fn load(library: &Library) -> Result<Self, &'static str> {
                // SAFETY: the caller vouches for the signatures; they are stated in the table.
                unsafe {
                    Ok(Self { $($name: symbol(library, stringify!($symbol))?,)* })
                }
            }
        }

        #[allow(dead_code, clippy::too_many_arguments)] // some are only called through the table
        impl Driver {
            $(
                /// Calls the driver's function and turns its code into a result.
                ///
                /// # Safety
                /// The driver's own contract: pointers are valid for what the function reads or
                /// writes, handles are alive.
                pub(super) unsafe fn $name(&self, $($argument: $type),*) -> Result<()> {
                    // SAFETY: the caller upholds the contract of the function.
                    let code = unsafe { (self.table.$name)($($argument),*) };
                    self.check(stringify!($symbol), code)
                }
            )*
        }
    };
}

driver_table! {
    // The driver itself.
    cuDriverGetVersion => driver_get_version(version: *mut i32);
    cuInit => init(flags: u32);
    cuGetErrorName => get_error_name(error: Code, name: *mut *const c_char);
    cuGetErrorString => get_error_string(error: Code, text: *mut *const c_char);

    // Devices and contexts.
    cuDeviceGet => device_get(device: *mut i32, ordinal: i32);
    cuDeviceGetCount => device_get_count(count: *mut i32);
    cuDeviceGetName => device_get_name(name: *mut c_char, length: i32, device: i32);
    cuDeviceGetAttribute => device_get_attribute(value: *mut i32, attribute: u32, device: i32);
    cuDeviceTotalMem_v2 => device_total_mem(bytes: *mut usize, device: i32);
    cuDevicePrimaryCtxRetain => primary_ctx_retain(context: *mut CuContext, device: i32);
    cuDevicePrimaryCtxRelease_v2 => primary_ctx_release(device: i32);
    cuCtxSetCurrent => ctx_set_current(context: CuContext);

    // Memory.
    cuMemPoolCreate => mem_pool_create(pool: *mut CuPool, properties: *const MemPoolProps);
    cuMemPoolSetAttribute => mem_pool_set_attribute(
        pool: CuPool, attribute: u32, value: *mut c_void);
    cuMemAllocFromPoolAsync => mem_alloc_from_pool_async(
        address: *mut u64, bytes: usize, pool: CuPool, stream: CuStream);
    cuMemFreeAsync => mem_free_async(address: u64, stream: CuStream);
    cuMemHostAlloc => mem_host_alloc(pointer: *mut *mut c_void, bytes: usize, flags: u32);
    cuMemHostGetDevicePointer_v2 => mem_host_get_device_pointer(
        address: *mut u64, pointer: *mut c_void, flags: u32);
    cuMemcpyHtoDAsync_v2 => memcpy_htod_async(
        to: u64, from: *const c_void, bytes: usize, stream: CuStream);
    cuMemcpyDtoHAsync_v2 => memcpy_dtoh_async(
        to: *mut c_void, from: u64, bytes: usize, stream: CuStream);
    cuMemcpyDtoDAsync_v2 => memcpy_dtod_async(to: u64, from: u64, bytes: usize, stream: CuStream);
    cuMemsetD8Async => memset_d8_async(address: u64, value: u8, count: usize, stream: CuStream);

    // Streams, capture and graphs.
    cuStreamCreate => stream_create(stream: *mut CuStream, flags: u32);
    cuStreamDestroy_v2 => stream_destroy(stream: CuStream);
    cuStreamGetCtx => stream_get_ctx(stream: CuStream, context: *mut CuContext);
    cuStreamSynchronize => stream_synchronize(stream: CuStream);
    cuStreamWaitEvent => stream_wait_event(stream: CuStream, event: CuEvent, flags: u32);
    cuStreamBeginCapture_v2 => stream_begin_capture(stream: CuStream, mode: u32);
    cuStreamEndCapture => stream_end_capture(stream: CuStream, graph: *mut CuGraph);
    cuStreamIsCapturing => stream_is_capturing(stream: CuStream, status: *mut u32);
    cuStreamGetCaptureInfo_v2 => stream_get_capture_info(
        stream: CuStream, status: *mut u32, id: *mut u64, graph: *mut CuGraph,
        after: *mut *const CuGraphNode, after_count: *mut usize);
    cuStreamUpdateCaptureDependencies => stream_update_capture_dependencies(
        stream: CuStream, after: *mut CuGraphNode, after_count: usize, flags: u32);
    cuThreadExchangeStreamCaptureMode => thread_exchange_capture_mode(mode: *mut u32);
    cuGraphCreate => graph_create(graph: *mut CuGraph, flags: u32);
    cuGraphAddKernelNode_v2 => graph_add_kernel_node(
        node: *mut CuGraphNode, graph: CuGraph, after: *const CuGraphNode, after_count: usize,
        parameters: *const KernelNodeParams);
    cuGraphKernelNodeSetAttribute => graph_kernel_node_set_attribute(
        node: CuGraphNode, attribute: u32, value: *const LaunchAttributeValue);
    cuGraphExecKernelNodeSetParams_v2 => graph_exec_kernel_node_set_params(
        exec: CuGraphExec, node: CuGraphNode, parameters: *const KernelNodeParams);
    cuGraphInstantiateWithFlags => graph_instantiate(
        exec: *mut CuGraphExec, graph: CuGraph, flags: u64);
    cuGraphLaunch => graph_launch(exec: CuGraphExec, stream: CuStream);
    cuGraphExecDestroy => graph_exec_destroy(exec: CuGraphExec);
    cuGraphDestroy => graph_destroy(graph: CuGraph);

    // Events.
    cuEventCreate => event_create(event: *mut CuEvent, flags: u32);
    cuEventRecord => event_record(event: CuEvent, stream: CuStream);
    cuEventQuery => event_query(event: CuEvent);
    cuEventSynchronize => event_synchronize(event: CuEvent);
    cuEventElapsedTime => event_elapsed_time(milliseconds: *mut f32, start: CuEvent, end: CuEvent);
    cuEventDestroy_v2 => event_destroy(event: CuEvent);

    // Modules and launches.
    cuModuleLoadDataEx => module_load_data_ex(
        module: *mut CuModule, image: *const c_void, count: u32,
        options: *mut u32, values: *mut *mut c_void);
    cuModuleGetFunction => module_get_function(
        function: *mut CuFunction, module: CuModule, name: *const c_char);
    cuFuncGetAttribute => func_get_attribute(value: *mut i32, attribute: u32, function: CuFunction);
    cuFuncSetAttribute => func_set_attribute(function: CuFunction, attribute: u32, value: i32);
    cuLaunchKernelEx => launch_kernel_ex(
        config: *const LaunchConfig, function: CuFunction,
        parameters: *mut *mut c_void, extra: *mut *mut c_void);
    cuTensorMapEncodeTiled => tensor_map_encode_tiled(
        map: *mut CuTensorMap, data_type: u32, rank: u32, address: *mut c_void,
        extents: *const u64, strides: *const u64, tile: *const u32, element_strides: *const u32,
        interleave: u32, swizzle: u32, l2_promotion: u32, fill: u32);
}

/// The loaded driver.
pub(super) struct Driver {
    table: Table,
    version: u32,
    /// The table points into the library, so it stays open as long.
    _library: Library,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("version", &self.version()).finish_non_exhaustive()
    }
}

impl Driver {
    /// Loads the system's driver.
    pub(super) fn load() -> Result<Self> {
        let mut reasons = Vec::new();
        for name in LIBRARIES {
            match open(OsStr::new(name)) {
                Ok(library) => return Self::from_library(library, OsStr::new(name)),
                Err(reason) => reasons.push(reason),
            }
        }
        Err(Kind::NoDriver(reasons.join("; ")).into())
    }

    /// Loads a driver from a given file.
    #[cfg(test)]
    pub(super) fn load_from(path: &std::path::Path) -> Result<Self> {
        let library = open(path.as_os_str()).map_err(Kind::NoDriver)?;
        Self::from_library(library, path.as_os_str())
    }

    /// Judges the version before anything else, so that an old driver is called old, not broken.
    fn from_library(library: Library, path: &OsStr) -> Result<Self> {
        let path = path.display();
        let mut version = 0;
        // SAFETY: `cuDriverGetVersion` has had this signature since the first driver; it writes one
        // `int` and needs no initialisation.
        let code = unsafe {
            let get_version: unsafe extern "C" fn(*mut i32) -> Code =
                symbol(&library, "cuDriverGetVersion")
                    .map_err(|name| Kind::NoDriver(format!("{path} has no function {name}")))?;
            get_version(&mut version)
        };
        if code != code::SUCCESS {
            let reason = format!("{path}: cuDriverGetVersion gave code {code}");
            return Err(Kind::NoDriver(reason).into());
        }
        let version = version.unsigned_abs();
        // What a GPU needs beyond that is asked when it is opened.
        let least = ptx::minimum_cuda_of_all();
        check_version(version, least, || "older ones cannot compile the kernels".to_string())?;
        // SAFETY: a driver of this version exports these functions with these signatures.
        let table = unsafe { Table::load(&library) }.map_err(|name| Kind::OldDriver {
            found: format!("{path} without the function {name}"),
            needed: spell(least),
            why: format!("this one says {}", spell(version)),
        })?;
        let driver = Self { table, version, _library: library };
        // SAFETY: `cuInit` takes no pointers; flags must be 0.
        unsafe { driver.init(0)? };
        Ok(driver)
    }

    /// Refuses the driver if it is older than a CUDA version, as `cuDriverGetVersion` reports it.
    pub(super) fn check_version(&self, needed: u32, why: impl FnOnce() -> String) -> Result<()> {
        check_version(self.version, needed, why)
    }

    /// CUDA version that the driver supports, major and minor.
    pub(super) fn version(&self) -> (u32, u32) {
        (self.version / 1000, self.version % 1000 / 10)
    }

    /// The functions themselves, for callers that read the code.
    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    /// Number of devices.
    pub(super) fn device_count(&self) -> Result<u32> {
        let mut count = 0;
        // SAFETY: writes one `int` into the local.
        unsafe { self.device_get_count(&mut count)? };
        Ok(count.unsigned_abs())
    }

    /// Turns a code into a result.
    #[inline]
    pub(super) fn check(&self, call: &'static str, code: Code) -> Result<()> {
        if code == code::SUCCESS { Ok(()) } else { Err(self.failure(call, code)) }
    }

    #[cold]
    fn failure(&self, call: &'static str, code: Code) -> Error {
        let (name, detail) = self.describe(code);
        match code {
            code::NO_DEVICE => Kind::NoDriver(format!("{call} found no GPU")),
            code::STUB_LIBRARY => {
                Kind::NoDriver("libcuda is the stub that toolkits link against".to_string())
            }
            _ => Kind::Driver { call, code, name, detail },
        }
        .into()
    }

    /// The driver's name and text of a code.
    pub(super) fn describe(&self, code: Code) -> (String, String) {
        type Describe = unsafe extern "C" fn(Code, *mut *const c_char) -> Code;
        let ask = |describe: Describe, unknown: &str| {
            let mut text = std::ptr::null();
            // SAFETY: the driver writes one pointer, null for codes that it does not know.
            unsafe { describe(code, &mut text) };
            if text.is_null() {
                return unknown.to_string();
            }
            // SAFETY: the driver returns static, NUL-terminated text.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        };
        (
            ask(self.table.get_error_name, "unknown to this driver"),
            ask(self.table.get_error_string, "no description"),
        )
    }
}

/// Refuses a driver of version `found` if it is older than `needed`, both as `cuDriverGetVersion`
/// reports them.
fn check_version(found: u32, needed: u32, why: impl FnOnce() -> String) -> Result<()> {
    if found >= needed {
        return Ok(());
    }
    Err(Kind::OldDriver { found: spell(found), needed: spell(needed), why: why() }.into())
}

fn spell(version: u32) -> String {
    format!("CUDA {}.{}", version / 1000, version % 1000 / 10)
}

fn open(path: &OsStr) -> Result<Library, String> {
    // SAFETY: loading runs the library's initialisers; those of the CUDA driver are made for being
    // loaded at any time from any thread. Tests load libraries that they know.
    unsafe { Library::new(path) }
        .map_err(|error| format!("{} cannot be loaded ({error})", path.display()))
}

/// The address of one function; its name if there is none.
///
/// # Safety
/// `T` is the function pointer type of what `library` exports under `name`.
unsafe fn symbol<T: Copy>(library: &Library, name: &'static str) -> Result<T, &'static str> {
    // SAFETY: the caller vouches for `T`; the copy does not outlive the library, since `Driver`
    // holds both.
    unsafe { library.get::<T>(name.as_bytes()) }.map(|symbol| *symbol).map_err(|_| name)
}
