//! NVIDIA GPUs through the CUDA driver API: a table of functions loaded at run time, no toolkit.
//!
//! In the order of use: `driver` (the table and its errors), `context` (a GPU: primary context,
//! memory pool), `stream_core` and `stream` (queues), `memory`, `event`, `status`, `module` (PTX to
//! functions), `tensor_map`, `graph`, `sequence` (the launches of one operation, or of several that
//! may overlap, as a graph), `recording` (those in a graph that is being recorded), `kernel_times`
//! (launches one by one, between events).
//!
//! Rules that hold throughout:
//! - **A context is never closed, a module never unloaded**; everything else is destroyed by the
//!   one owner of its handle.
//! - **Memory outlives the work that uses it**: it is freed in stream order, after every stream
//!   that noted a use, and a graph holds what its nodes use.
//! - **A destructor never adds commands to a capture**, and never runs under a lock that it takes.
#![allow(unsafe_code)] // calls into the driver; each one says why it is sound

mod context;
mod driver;
mod event;
mod ffi;
mod graph;
mod kernel_times;
mod memory;
mod module;
mod recording;
mod sequence;
mod status;
mod stream;
mod stream_core;
mod tensor_map;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

use self::context::Context;
pub(crate) use self::context::CudaDevice;
use self::driver::Driver;
use self::memory::{Allocation, Block};
pub use self::module::{KernelReport, ModuleReport, cuda_modules};
pub(crate) use self::stream::CudaStream;
use super::device::DeviceBackend;
use super::{Device, lock};
use crate::error::{Error, Result};
use crate::tensor::Memory;

/// The driver and the GPUs in use: the one piece of global state.
struct Loaded {
    driver: Driver,
    contexts: Mutex<BTreeMap<u32, &'static Context>>,
}

static LOADED: OnceLock<Loaded> = OnceLock::new();

/// The driver, loaded on first use. Failures are not kept: loading again costs little, and a driver
/// may be installed meanwhile.
fn loaded() -> Result<&'static Loaded> {
    if let Some(loaded) = LOADED.get() {
        return Ok(loaded);
    }
    let loaded = Loaded { driver: Driver::load()?, contexts: Mutex::default() };
    Ok(LOADED.get_or_init(|| loaded))
}

/// Number of GPUs that the driver shows.
pub(crate) fn count() -> Result<u32> {
    loaded()?.driver.device_count()
}

/// The GPU with this number.
pub(crate) fn device(ordinal: u32) -> Result<Arc<dyn DeviceBackend>> {
    let loaded = loaded()?;
    let mut contexts = lock(&loaded.contexts);
    let context = match contexts.get(&ordinal) {
        Some(context) => *context,
        None => {
            let context = Context::open(&loaded.driver, ordinal)?;
            contexts.insert(ordinal, context);
            context
        }
    };
    Ok(Arc::new(CudaDevice(context)))
}

/// Memory of another library as memory of `device`.
pub(crate) fn borrow_memory(
    device: CudaDevice,
    address: u64,
    keep_alive: Arc<dyn Any + Send + Sync>,
) -> Memory {
    Allocation::memory(Block::lent(device.0, address, keep_alive))
}

/// The engine's own view of a device.
pub(crate) fn cuda_device(device: &Device) -> Result<CudaDevice> {
    let cuda = device.backend().as_any().and_then(|device| device.downcast_ref::<CudaDevice>());
    cuda.copied().ok_or_else(|| {
        Error::invalid(format!("{} was given, a CUDA device is needed", device.id()))
    })
}

fn cuda_context(device: &Device) -> Result<&'static Context> {
    Ok(cuda_device(device)?.0)
}
