//! The CUDA engine's [`Queue`] and [`Launcher`].

use std::any::Any;
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use grouped_linear_kernels::abi::TensorMap;

use super::context::Context;
use super::event::Event;
use super::ffi::{CuStream, LaunchAttribute, LaunchConfig};
use super::graph::CudaGraph;
use super::memory::{Allocation, KeepAlive};
use super::recording::record;
use super::stream_core::StreamCore;
use super::tensor_map;
use crate::backend::{
    DeviceId, KernelTime, Launcher, MapDescriptor, Place, Queue, QueueEvent, QueueGraph,
    address_table, place,
};
use crate::error::{Error, Result};
use crate::launch::batch::Batch;
use crate::launch::{Launch, Launches};
use crate::plan::{KernelTarget, Operands, Plan};
use crate::splits::Splits;
use crate::tensor::{AddressTable, Memory, Tensor};

/// Up to this size a copy from pageable memory is complete for the host when the call returns: the
/// driver puts the bytes into its own buffers.
const STAGED_BYTES: usize = 64 << 10;

/// A stream of a GPU.
#[derive(Debug)]
pub(crate) struct CudaStream(pub(super) Arc<StreamCore>);

impl CudaStream {
    pub(super) fn create(context: &'static Context) -> Result<Self> {
        Ok(Self(StreamCore::create(context)?))
    }

    /// Wraps the stream of another library.
    ///
    /// # Safety
    /// `handle` is a live stream as long as `keep_alive` is, or null for the legacy default stream.
    pub(crate) unsafe fn borrow(
        device: super::CudaDevice,
        handle: *mut c_void,
        keep_alive: KeepAlive,
    ) -> Result<Self> {
        // SAFETY: the caller's promise is the callee's.
        unsafe { StreamCore::borrow(device.0, CuStream::from_raw(handle), keep_alive) }.map(Self)
    }

    /// The driver's handle.
    pub(crate) fn raw(&self) -> *mut c_void {
        self.0.handle().raw()
    }

    /// Adds operations; the caller has the turn.
    fn add(&self, batch: &Batch) -> Result<()> {
        let steps = batch.steps();
        // Once more: another GPU's memory that went since may have made that one's context current.
        self.0.context().bind()?;
        if self.0.times().is_active() {
            return steps.iter().try_for_each(|step| self.launch_timed(&step.launch));
        }
        let (context, handle) = (self.0.context(), self.0.handle());
        let is_capturing = self.0.is_capturing();
        // One launch gains nothing by a graph, and a capture keeps those of an operation in order.
        if steps.len() < 2 || is_capturing && batch.is_one() {
            return steps.iter().try_for_each(|step| self.launch(&step.launch));
        }
        if is_capturing {
            // SAFETY: the stream is alive and capturing, and we have its turn.
            return unsafe { record(context, handle, steps, |launch| self.launch(launch)) };
        }
        // SAFETY: each kernel has one parameter of `args_bytes` bytes: one table states both sides.
        // What the addresses in the arguments mean is for the plan's operands, which `launch::run`
        // has checked and noted. The stream is alive and not capturing.
        unsafe { self.0.sequences().launch(context, steps, handle) }
    }

    /// Adds one kernel; the caller has the turn.
    fn launch(&self, launch: &Launch) -> Result<()> {
        let context = self.0.context();
        let kernel = launch.kernel;
        let function = context.modules().function(context, kernel)?;
        let mut cluster = LaunchAttribute::cluster(kernel.cluster);
        let config = LaunchConfig {
            grid: [launch.grid[0], launch.grid[1], 1],
            block: [kernel.threads, 1, 1],
            shared_bytes: kernel.shared_bytes,
            stream: self.0.handle(),
            attribute_count: u32::from(cluster.is_some()),
            attributes: cluster.as_mut().map_or(ptr::null_mut(), ptr::from_mut),
        };
        let mut parameters = [launch.args().as_ptr().cast_mut().cast::<c_void>()];
        // SAFETY: as in `add`; the driver copies the arguments during the call, from any
        // alignment.
        unsafe {
            context.driver().launch_kernel_ex(
                &config,
                function,
                parameters.as_mut_ptr(),
                ptr::null_mut(),
            )
        }
    }

    /// Adds one kernel between two events; the caller has the turn.
    fn launch_timed(&self, launch: &Launch) -> Result<()> {
        let (context, handle) = (self.0.context(), self.0.handle());
        if self.0.is_capturing() {
            return Err(Error::unsupported(
                "kernels were to be timed, and the library that lent the stream records them; end \
                 its capture first",
            ));
        }
        // Loaded before the first event: a module takes longer than its kernels.
        context.modules().function(context, launch.kernel)?;
        // SAFETY: the stream is alive, of this context, and not capturing.
        let before = unsafe { Event::timed(context, handle) }?;
        self.launch(launch)?;
        // SAFETY: as above.
        let behind = unsafe { Event::timed(context, handle) }?;
        self.0.times().add(launch.kernel, before, behind);
        Ok(())
    }

    fn note_use(&self, memory: &Memory) {
        if let Memory::Device(memory) = memory {
            memory.note_use(self.0.number());
        }
    }
}

impl Queue for CudaStream {
    fn allocate(&self, bytes: usize) -> Result<Memory> {
        self.0.allocate(bytes).map(Allocation::memory)
    }

    fn upload(&self, memory: &Memory, offset: usize, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let to = place(memory, offset)?;
        let (_turn, driver) = self.0.eager("a copy from the host")?;
        self.note_use(memory);
        let stream = self.0.handle();
        if bytes.len() <= STAGED_BYTES {
            // The caller's bytes could be pinned memory, which the device would read later; a copy
            // of our own is pageable, so the driver stages it before it returns.
            let staged = bytes.to_vec();
            // SAFETY: the destination holds these bytes (tensors are made so), `staged` is read
            // during the call.
            return unsafe {
                driver.memcpy_htod_async(to, staged.as_ptr().cast(), staged.len(), stream)
            };
        }
        // SAFETY: as above; `bytes` outlives the copy, which ends with the synchronisation, and
        // nobody can begin a capture in between, since we have the turn.
        unsafe {
            driver.memcpy_htod_async(to, bytes.as_ptr().cast(), bytes.len(), stream)?;
            driver.stream_synchronize(stream)
        }
    }

    fn download(&self, memory: &Memory, offset: usize, bytes: &mut [u8]) -> Result<()> {
        let from = place(memory, offset)?;
        let (_turn, driver) = self.0.eager("a copy to the host")?;
        if !bytes.is_empty() {
            self.note_use(memory);
            let to = bytes.as_mut_ptr().cast();
            // SAFETY: the source holds these bytes; `bytes` is borrowed until the synchronisation
            // below, before which nobody can begin a capture.
            unsafe { driver.memcpy_dtoh_async(to, from, bytes.len(), self.0.handle())? };
        }
        self.0.synchronize()
    }

    fn copy(&self, to: Place<'_>, from: Place<'_>, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let (target, source) = (place(to.0, to.1)?, place(from.0, from.1)?);
        let (_turn, driver) = self.0.turn()?;
        self.note_use(to.0);
        self.note_use(from.0);
        // SAFETY: both places hold these bytes and stay allocated until the work noted is done.
        unsafe { driver.memcpy_dtod_async(target, source, bytes, self.0.handle()) }
    }

    fn fill_zero(&self, memory: &Memory, offset: usize, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let address = place(memory, offset)?;
        let (_turn, driver) = self.0.turn()?;
        self.note_use(memory);
        // SAFETY: as in `copy`.
        unsafe { driver.memset_d8_async(address, 0, bytes, self.0.handle()) }
    }

    fn address_table(&self, tensors: &[Tensor]) -> Result<Option<AddressTable>> {
        let (_turn, driver) = self.0.eager("the addresses of discrete tensors")?;
        let table = address_table::store(self, tensors)?;
        // Other streams read the table, too, and nothing would order them behind this one.
        // SAFETY: the stream is alive as long as `self`.
        unsafe { driver.stream_synchronize(self.0.handle())? };
        Ok(Some(table))
    }

    fn reserve(&self, bytes: usize, splits: &Splits) -> Result<()> {
        splits.on_device(self)?;
        Launcher::workspace(self, bytes).map(drop)
    }

    fn run(&self, plan: &Plan, operands: &Operands<'_>) -> Result<()> {
        let _turn = self.0.turn()?;
        crate::launch::run(self, plan, operands)
    }

    fn together(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let _turn = self.0.turn()?;
        let collecting = self.0.begin_batch()?;
        work()?;
        self.add(&collecting.end())
    }

    fn next_stage(&self) {
        self.0.with_batch(Batch::next_stage);
    }

    fn synchronize(&self) -> Result<()> {
        let (_turn, _) = self.0.eager("waiting for the stream")?;
        self.0.synchronize()
    }

    fn record_event(&self) -> Result<Box<dyn QueueEvent>> {
        let (_turn, _) = self.0.eager("an event")?;
        // SAFETY: the stream is alive, of this context, and we have an eager turn.
        Ok(Box::new(unsafe { Event::timed(self.0.context(), self.0.handle()) }?))
    }

    fn wait_event(&self, event: &dyn QueueEvent) -> Result<()> {
        let Some(event) = event.as_any().downcast_ref::<Event>() else {
            return Err(Error::invalid("wait: the event is no CUDA event"));
        };
        let (_turn, _) = self.0.eager("waiting for an event")?;
        // SAFETY: as in `record_event`; `Stream::wait` has compared the devices.
        unsafe { event.hold_back(self.0.handle()) }
    }

    fn begin_capture(&self) -> Result<()> {
        self.0.begin_capture()
    }

    fn end_capture(&self) -> Result<Box<dyn QueueGraph>> {
        let (capture, graph) = self.0.end_capture()?;
        Ok(Box::new(CudaGraph::new(self.0.context(), capture, graph)?))
    }

    fn is_capturing(&self) -> bool {
        self.0.is_capturing()
    }

    fn begin_kernel_times(&self) -> Result<()> {
        let (_turn, _) = self.0.eager("the time of a kernel")?;
        self.0.times().begin()
    }

    fn end_kernel_times(&self) -> Result<Vec<KernelTime>> {
        let times = {
            let _turn = self.0.turn()?;
            self.0.times().end()
        };
        times()
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl Launcher for CudaStream {
    fn encode(&self, descriptor: &MapDescriptor) -> Result<TensorMap> {
        tensor_map::encode(self.0.context().driver(), descriptor)
    }

    fn submit(&self, launches: &Launches) -> Result<()> {
        let (_turn, _) = self.0.turn()?;
        match self.0.with_batch(|batch| batch.add(launches)) {
            Some(()) => Ok(()),
            None => self.add(&Batch::of(launches)),
        }
    }

    fn workspace(&self, bytes: usize) -> Result<u64> {
        let _turn = self.0.turn()?;
        self.0.workspace(bytes)
    }

    fn sticky_status(&self) -> u64 {
        self.0.status_address()
    }

    fn device_id(&self) -> DeviceId {
        self.0.context().id()
    }

    fn kernels(&self) -> Option<KernelTarget> {
        self.0.context().target().kernels()
    }

    fn queue_number(&self) -> u64 {
        self.0.number()
    }
}
