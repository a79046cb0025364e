//! A GPU in use: its primary context, memory pool and modules.

use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::sync::{Arc, Mutex, Weak};

use super::driver::Driver;
use super::ffi::{CuContext, CuPool, CuStream, MemPoolProps, code, device_attribute, flag};
use super::memory::{Release, Retired};
use super::module::Modules;
use super::status::StatusPool;
use super::stream::CudaStream;
use super::stream_core::StreamCore;
use crate::backend::device::DeviceBackend;
use crate::backend::{DeviceId, DeviceInfo, DeviceKind, Queue, lock, next_queue_number};
use crate::error::{Error, Kind, Result};
use crate::plan::{GpuTarget, KernelTarget, Target};
use crate::ptx;

/// A GPU in use. It stays open for the life of the process: to open it again would mean to compile
/// its modules again, and a destructor at exit would run when the driver is already gone.
#[derive(Debug)]
pub(super) struct Context {
    driver: &'static Driver,
    handle: CuContext,
    pool: CuPool,
    info: DeviceInfo,
    target: Target,
    modules: Modules,
    statuses: StatusPool,
    streams: Mutex<HashMap<u64, Weak<StreamCore>>>,
    retired: Mutex<Vec<Retired>>,
    deferred: Mutex<Vec<(Obstacle, Release)>>,
}

/// Why a release cannot run yet.
#[derive(Debug)]
pub(super) enum Obstacle {
    /// The stream is being captured and takes no commands. It is held, since its work from before
    /// may not be done.
    Capture(Arc<StreamCore>),
    /// The destructor of the stream with this number is still waiting for its work.
    Drop(u64),
}

impl Context {
    /// Retains the primary context of the device, the one that other libraries use too.
    pub(super) fn open(driver: &'static Driver, ordinal: u32) -> Result<&'static Self> {
        let count = driver.device_count()?;
        if count == 0 {
            return Err(Kind::NoDriver("the driver shows no GPU".to_string()).into());
        }
        if ordinal >= count {
            return Err(Error::invalid(format!(
                "GPU {ordinal} was asked for, the driver shows {count}; numbers start at 0"
            )));
        }
        let mut device = 0;
        // SAFETY: writes one `int`; the ordinal is below the count.
        unsafe { driver.device_get(&mut device, ordinal as i32)? };
        let (info, target) = describe(driver, device, ordinal)?;
        if attribute(driver, device, device_attribute::MEMORY_POOLS_SUPPORTED)? == 0 {
            return Err(Error::unsupported(format!(
                "{} has no stream-ordered memory, which this library needs; use Device::cpu()",
                info.name
            )));
        }
        let mut primary = Primary { driver, device: Some(device), handle: CuContext::NULL };
        // SAFETY: writes one handle; `primary` releases it unless the context stays open.
        unsafe {
            driver.primary_ctx_retain(&mut primary.handle, device)?;
            driver.ctx_set_current(primary.handle)?;
        }
        let pool = create_pool(driver, device)?;
        primary.device = None;
        Ok(Box::leak(Box::new(Self {
            driver,
            handle: primary.handle,
            pool,
            info,
            target,
            modules: Modules::new(),
            statuses: StatusPool::default(),
            streams: Mutex::default(),
            retired: Mutex::default(),
            deferred: Mutex::default(),
        })))
    }

    pub(super) fn driver(&self) -> &'static Driver {
        self.driver
    }

    /// Makes the context current on this thread, as most driver functions need, and gives the
    /// driver. A thread that uses another context by hand sets its own again afterwards.
    pub(super) fn bind(&self) -> Result<&'static Driver> {
        // SAFETY: the primary context is retained for ever.
        unsafe { self.driver.ctx_set_current(self.handle)? };
        Ok(self.driver)
    }

    pub(super) fn handle(&self) -> CuContext {
        self.handle
    }

    pub(super) fn target(&self) -> Target {
        self.target
    }

    /// Which kernels the GPU runs.
    pub(super) fn kernels(&self) -> Result<KernelTarget> {
        self.target.gpu.ok_or_else(|| Error::invalid("the CPU loads no kernels"))?.kernels()
    }

    pub(super) fn id(&self) -> DeviceId {
        self.info.id
    }

    pub(super) fn modules(&self) -> &Modules {
        &self.modules
    }

    pub(super) fn statuses(&self) -> &StatusPool {
        &self.statuses
    }

    /// Memory of the pool, in the stream's order; at least one byte.
    ///
    /// # Safety
    /// `stream` is alive, belongs to this context, and is not capturing.
    pub(super) unsafe fn allocate(&self, stream: CuStream, bytes: usize) -> Result<u64> {
        const CALL: &str = "cuMemAllocFromPoolAsync";
        let driver = self.bind()?;
        let mut address = 0;
        // SAFETY: writes one address; pool and stream are alive (the latter by the caller's word).
        let code = unsafe {
            (driver.table().mem_alloc_from_pool_async)(&mut address, bytes, self.pool, stream)
        };
        if code == code::OUT_OF_MEMORY {
            let (_, detail) = driver.describe(code);
            let device = self.id().to_string();
            return Err(Kind::OutOfMemory { bytes, device, detail }.into());
        }
        driver.check(CALL, code)?;
        Ok(address)
    }

    /// Makes a stream findable by its number, which it returns.
    pub(super) fn register(&self, stream: &Weak<StreamCore>) -> u64 {
        let number = next_queue_number();
        lock(&self.streams).insert(number, stream.clone());
        number
    }

    pub(super) fn unregister(&self, number: u64) {
        lock(&self.streams).remove(&number);
    }

    pub(super) fn stream(&self, number: u64) -> Option<Arc<StreamCore>> {
        lock(&self.streams).get(&number).and_then(Weak::upgrade)
    }

    /// Whether the stream with this number may still have work to do.
    pub(super) fn is_registered(&self, number: u64) -> bool {
        lock(&self.streams).contains_key(&number)
    }

    /// Keeps a release until [`Context::run_deferred`] finds the obstacle gone.
    pub(super) fn defer(&self, obstacle: Obstacle, release: Release) {
        lock(&self.deferred).push((obstacle, release));
    }

    /// Runs the releases that nothing stands in the way of any more.
    pub(super) fn run_deferred(&self) {
        let ready: Vec<_> = {
            let mut deferred = lock(&self.deferred);
            if deferred.is_empty() {
                return;
            }
            let is_ready = |(obstacle, _): &mut (Obstacle, Release)| match obstacle {
                Obstacle::Capture(stream) => !stream.is_capturing(),
                Obstacle::Drop(number) => !self.is_registered(*number),
            };
            deferred.extract_if(.., is_ready).collect()
        };
        for (_obstacle, release) in ready {
            release.run(); // after the lock: it may defer again
        }
    }

    /// Keeps something until the events are done.
    pub(super) fn retire(&self, retired: Retired) {
        lock(&self.retired).push(retired);
        self.collect_retired();
    }

    /// Drops what was retired and is no longer in use; whether there was any.
    pub(super) fn collect_retired(&self) -> bool {
        let done: Vec<Retired> = {
            let mut retired = lock(&self.retired);
            if retired.is_empty() {
                return false;
            }
            retired.extract_if(.., |retired| retired.is_done()).collect()
        };
        !done.is_empty() // dropped after the lock: what is dropped may retire more
    }
}

/// Releases the primary context if opening fails half-way.
struct Primary {
    driver: &'static Driver,
    device: Option<i32>,
    handle: CuContext,
}

impl Drop for Primary {
    fn drop(&mut self) {
        if let (Some(device), false) = (self.device, self.handle.is_null()) {
            // SAFETY: retained once by `Context::open`, and nothing was made in it.
            let _ = unsafe { self.driver.primary_ctx_release(device) };
        }
    }
}

/// While it lives, this thread may make calls that a capture on it would forbid (module loads,
/// pinned memory, queries); none of those that we make touches the captured stream.
pub(super) struct Relaxed {
    driver: &'static Driver,
    previous: u32,
}

impl Relaxed {
    pub(super) fn enter(driver: &'static Driver) -> Self {
        let mut previous = flag::CAPTURE_RELAXED;
        // SAFETY: exchanges one number. If it fails the mode is what it was, and so is `previous`.
        let _ = unsafe { driver.thread_exchange_capture_mode(&mut previous) };
        Self { driver, previous }
    }
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        // SAFETY: as above; `previous` is the mode before.
        let _ = unsafe { self.driver.thread_exchange_capture_mode(&mut self.previous) };
    }
}

fn create_pool(driver: &'static Driver, device: i32) -> Result<CuPool> {
    let properties = MemPoolProps {
        allocation_type: flag::ALLOCATION_TYPE_PINNED,
        handle_types: flag::HANDLE_TYPE_NONE,
        location_type: flag::LOCATION_TYPE_DEVICE,
        location_id: device,
        security_attributes: std::ptr::null_mut(),
        max_size: 0,
        usage: 0,
        reserved: [0; 54],
    };
    let mut pool = CuPool::NULL;
    // Freed memory stays with the pool: a training step frees and allocates the same sizes.
    let mut threshold = u64::MAX;
    // SAFETY: the properties live through the call, their padding-free reserved part is zero; the
    // attribute's value is a 64-bit number.
    unsafe {
        driver.mem_pool_create(&mut pool, &properties)?;
        let threshold = (&raw mut threshold).cast();
        driver.mem_pool_set_attribute(pool, flag::POOL_RELEASE_THRESHOLD, threshold)?;
    }
    Ok(pool)
}

fn attribute(driver: &Driver, device: i32, attribute: u32) -> Result<u32> {
    let mut value = 0;
    // SAFETY: writes one `int`; the device is one that `cuDeviceGet` gave.
    unsafe { driver.device_get_attribute(&mut value, attribute, device)? };
    Ok(value.unsigned_abs())
}

fn describe(driver: &Driver, device: i32, ordinal: u32) -> Result<(DeviceInfo, Target)> {
    let mut name = [0 as c_char; 256];
    let mut bytes = 0;
    // SAFETY: the driver writes at most the given length, NUL included, and one size.
    unsafe {
        driver.device_get_name(name.as_mut_ptr(), name.len() as i32 - 1, device)?;
        driver.device_total_mem(&mut bytes, device)?;
    }
    // SAFETY: the array was zero and its last byte is not written, so it ends with NUL.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
    let compute_capability = (
        attribute(driver, device, device_attribute::COMPUTE_CAPABILITY_MAJOR)?,
        attribute(driver, device, device_attribute::COMPUTE_CAPABILITY_MINOR)?,
    );
    let multiprocessors = attribute(driver, device, device_attribute::MULTIPROCESSOR_COUNT)?;
    let info = DeviceInfo {
        id: DeviceId { kind: DeviceKind::Cuda, ordinal },
        name,
        compute_capability: Some(compute_capability),
        multiprocessors,
        memory_bytes: Some(bytes as u64),
        driver: Some(driver.version()),
    };
    let target = Target { gpu: Some(GpuTarget { compute_capability, multiprocessors }) };
    check_driver(driver, &info, target)?;
    Ok((info, target))
}

/// Refuses a driver too old for the PTX of this GPU. What other GPUs need is of no concern here.
fn check_driver(driver: &Driver, info: &DeviceInfo, target: Target) -> Result<()> {
    let needed = target.kernels().and_then(ptx::minimum_cuda).unwrap_or(0);
    driver.check_version(needed, || {
        format!("older ones cannot compile the kernels for {}", info.name)
    })
}

/// The device as the rest of the library sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CudaDevice(pub(super) &'static Context);

impl DeviceBackend for CudaDevice {
    fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    fn target(&self) -> Target {
        self.0.target
    }

    fn create_queue(&self) -> Result<Arc<dyn Queue>> {
        Ok(Arc::new(CudaStream::create(self.0)?))
    }

    fn as_any(&self) -> Option<&dyn std::any::Any> {
        Some(self)
    }
}
