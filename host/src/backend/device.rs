//! The public handles: device, stream, event, graph.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "emulator")]
use super::emulated::{self, EmulatorOptions};
use super::{Queue, QueueEvent, QueueGraph, cpu, cuda};
use crate::error::{Error, Result};
use crate::plan::{KernelRole, Target};
use crate::splits::Splits;

/// Which engine a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceKind {
    /// The CPU reference.
    Cpu,
    /// An NVIDIA GPU through the CUDA driver.
    Cuda,
    /// An emulated GPU: the kernels' PTX, executed on the CPU.
    Emulated,
}

/// Identifies a device of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceId {
    /// Engine.
    pub kind: DeviceKind,
    /// Number among the devices of the engine.
    pub ordinal: u32,
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            DeviceKind::Cpu => f.write_str("cpu"),
            DeviceKind::Cuda => write!(f, "cuda:{}", self.ordinal),
            DeviceKind::Emulated => write!(f, "emulated:{}", self.ordinal),
        }
    }
}

/// What is known about a device.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// Which device.
    pub id: DeviceId,
    /// The maker's name.
    pub name: String,
    /// Compute capability, major and minor; `None` on the CPU.
    pub compute_capability: Option<(u32, u32)>,
    /// Streaming multiprocessors, or CPU threads.
    pub multiprocessors: u32,
    /// Bytes of memory; `None` where not known.
    pub memory_bytes: Option<u64>,
    /// CUDA version that the driver supports, as major and minor; `None` where there is no driver.
    pub driver: Option<(u32, u32)>,
}

/// What every engine says of a device.
pub(crate) trait DeviceBackend: fmt::Debug + Send + Sync {
    fn info(&self) -> &DeviceInfo;
    fn target(&self) -> Target;
    fn create_queue(&self) -> Result<Arc<dyn Queue>>;

    /// Of emulated GPUs alone.
    #[cfg(feature = "emulator")]
    fn statistics(&self) -> Option<ptx_emulator::Statistics> {
        None
    }

    /// For the engine's own downcast; `None` where the engine needs none.
    fn as_any(&self) -> Option<&dyn std::any::Any> {
        None
    }
}

/// A device: the CPU, a GPU, or an emulated GPU. Cheap to clone.
///
/// ```
/// let device = grouped_linear::Device::best_available();
/// println!("{}: {}", device.id(), device.info().name);
/// ```
#[derive(Clone, Debug)]
pub struct Device(Arc<dyn DeviceBackend>);

impl Device {
    /// The CPU reference, on all cores.
    pub fn cpu() -> Self {
        Self(cpu::device())
    }

    /// The GPU with this number.
    ///
    /// # Errors
    /// No driver, an old driver, or no such GPU.
    pub fn cuda(ordinal: u32) -> Result<Self> {
        Ok(Self(cuda::device(ordinal)?))
    }

    /// Number of GPUs that the driver shows.
    ///
    /// # Errors
    /// No driver, or an old driver.
    pub fn cuda_count() -> Result<u32> {
        cuda::count()
    }

    /// A new emulated GPU of this architecture, with memory of its own: it executes the PTX that a
    /// GPU would run, slowly, and reports races, accesses outside of allocations, deadlocks and the
    /// like, which a GPU would not.
    ///
    /// Work runs when it is added to a stream. A kernel that fails stops the device: the next
    /// synchronisation and every later call say why.
    ///
    /// ```
    /// use grouped_linear::{Arch, DType, Device, Tensor};
    /// let stream = Device::emulated(Arch::Sm90a)?.stream()?;
    /// let x = Tensor::from_f32(&stream, &[2], DType::Bf16, &[1.0, 2.0])?;
    /// assert_eq!(x.to_f32(&stream)?, [1.0, 2.0]);
    /// # Ok::<(), grouped_linear::Error>(())
    /// ```
    ///
    /// # Errors
    /// The architecture cannot be emulated.
    #[cfg(feature = "emulator")]
    pub fn emulated(arch: ptx_emulator::Arch) -> Result<Self> {
        Self::emulated_with(EmulatorOptions::new(arch))
    }

    /// A new emulated GPU as the options describe it.
    ///
    /// # Errors
    /// As [`Device::emulated`]; no multiprocessors.
    #[cfg(feature = "emulator")]
    pub fn emulated_with(options: EmulatorOptions) -> Result<Self> {
        Ok(Self(emulated::device(options)?))
    }

    /// What the launches of an emulated GPU have done so far, as far as they ended well:
    /// instructions, bytes of every kind of memory, products. None of other devices.
    ///
    /// ```
    /// use grouped_linear::{Arch, Device};
    /// let device = Device::emulated(Arch::Sm90a)?;
    /// assert_eq!(device.statistics().map(|own| own.global_bytes), Some(0));
    /// assert!(Device::cpu().statistics().is_none());
    /// # Ok::<(), grouped_linear::Error>(())
    /// ```
    #[cfg(feature = "emulator")]
    pub fn statistics(&self) -> Option<ptx_emulator::Statistics> {
        self.0.statistics()
    }

    /// The first GPU that has tensor-core kernels here, else the CPU. GPUs that cannot be opened
    /// are passed over.
    pub fn best_available() -> Self {
        let gpus = (0..Self::cuda_count().unwrap_or(0)).map(Self::cuda);
        first_with_kernels(gpus).unwrap_or_else(Self::cpu)
    }

    /// A new stream: work on it runs in order, and beside other streams. (On the CPU and on
    /// emulated GPUs streams never overlap: work runs when it is added.)
    ///
    /// # Errors
    /// A driver failure.
    pub fn stream(&self) -> Result<Stream> {
        Ok(Stream { queue: self.0.create_queue()?, device: self.clone() })
    }

    /// Which device this is.
    pub fn id(&self) -> DeviceId {
        self.0.info().id
    }

    /// What is known about the device.
    pub fn info(&self) -> &DeviceInfo {
        self.0.info()
    }

    pub(crate) fn backend(&self) -> &dyn DeviceBackend {
        &*self.0
    }

    /// What a [`Plan`](crate::plan::Plan) needs to know of the device.
    pub fn target(&self) -> Target {
        self.0.target()
    }
}

/// An ordered queue of work on one device. Cheap to clone; clones are the same stream.
///
/// Work on different streams is unordered unless [`Stream::wait`] orders it.
#[derive(Clone, Debug)]
pub struct Stream {
    queue: Arc<dyn Queue>,
    device: Device,
}

impl Stream {
    /// The device of the stream.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// A stream over a queue that an engine made.
    pub(crate) fn from_queue(queue: Arc<dyn Queue>, device: Device) -> Self {
        Self { queue, device }
    }

    pub(crate) fn device_id(&self) -> DeviceId {
        self.device.id()
    }

    pub(crate) fn queue(&self) -> &dyn Queue {
        &*self.queue
    }

    /// Allocates what launches with these splits do, those that need most `scratch` bytes: before
    /// the first of them, since one that found no memory would leave what the others have added to.
    /// (What the first needs for itself, it allocates before it writes.)
    ///
    /// # Errors
    /// Out of memory; in a capture, memory that has not been allocated yet.
    pub(crate) fn reserve(&self, splits: &Splits, scratch: usize) -> Result<()> {
        if scratch == 0 { Ok(()) } else { self.queue.reserve(scratch, splits) }
    }

    /// [`Queue::together`]: operations that may overlap, and of which a GPU is given none if `work`
    /// fails.
    pub(crate) fn together(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut work = Some(work);
        self.queue.together(&mut || work.take().map_or(Ok(()), |work| work()))
    }

    /// Between operations of [`Stream::together`]: those to come read what those before write.
    pub(crate) fn next_stage(&self) {
        self.queue.next_stage();
    }

    /// Waits until all work is done. Failures that only the device knew, such as invalid splits in
    /// device memory, are reported here, once; the operations concerned wrote nothing.
    ///
    /// # Errors
    /// The first failure since the last call.
    pub fn synchronize(&self) -> Result<()> {
        self.queue.synchronize()
    }

    /// Notes this point of the stream.
    ///
    /// # Errors
    /// A driver failure.
    pub fn record(&self) -> Result<Event> {
        Ok(Event { event: self.queue.record_event()?, device: self.device_id() })
    }

    /// Work added to this stream from now on waits for the event.
    ///
    /// # Errors
    /// The event belongs to another device; a driver failure.
    pub fn wait(&self, event: &Event) -> Result<()> {
        if event.device != self.device_id() {
            let (got, want) = (event.device, self.device_id());
            return Err(Error::invalid(format!(
                "wait: the event belongs to {got}, the stream to {want}"
            )));
        }
        self.queue.wait_event(&*event.event)
    }

    /// Records the work that `work` adds to this stream, without running it. The graph keeps the
    /// memory that the work uses. Run the work once before, so that modules are loaded and scratch
    /// memory has its size.
    ///
    /// # Errors
    /// What `work` returns; the device cannot record; a driver failure.
    pub fn capture(&self, work: impl FnOnce(&Self) -> Result<()>) -> Result<Graph> {
        self.queue.begin_capture()?;
        let recording = Recording(&*self.queue);
        let outcome = work(self);
        let graph = recording.end();
        outcome?;
        Ok(Graph { graph: graph?, device: self.device_id() })
    }

    /// How long each kernel takes that `work` adds to this stream, in their order; waits for them.
    /// (What other threads add to it meanwhile is among them.) Copies and fills are not kernels of
    /// this library, and are left out.
    ///
    /// The kernels of an operation are launched one by one, each between two events, so work takes
    /// the host longer than usual and the GPU a few microseconds a kernel. Where the GPU has
    /// nothing else to do, a time contains its wait for the launch: add work before that keeps it
    /// busy for long enough, and run `work` once before, so that modules are loaded. Times have the
    /// resolution of the driver's events, about half a microsecond. Operations of a layer's pass
    /// that otherwise overlap do not here, so their times may add up to more than the pass takes.
    ///
    /// ```
    /// use grouped_linear::functional::{CastArgs, cast};
    /// use grouped_linear::{DType, Device, GroupedTensor, Tensor};
    /// let stream = Device::best_available().stream()?;
    /// let source = GroupedTensor::packed(Tensor::zeros(&stream, &[8, 64, 64], DType::F32)?)?;
    /// let mut copy = Tensor::zeros(&stream, &[8, 64, 64], DType::Bf16)?;
    /// let args = CastArgs { source: &source, skip: None };
    /// match stream.kernel_times(|stream| cast(stream, &args, &mut copy)) {
    ///     Ok(times) => assert_eq!(times[0].name, "cast_bf16"),
    ///     Err(error) => assert!(error.is_unsupported()), // without a GPU
    /// }
    /// # Ok::<(), grouped_linear::Error>(())
    /// ```
    ///
    /// # Errors
    /// What `work` returns, captures and replays of graphs on this stream included, since the
    /// kernels of a graph cannot be timed one by one; a device without a clock for kernels, which
    /// are all but CUDA's; a stream whose work is being recorded or whose kernels are being timed
    /// already; a driver failure.
    pub fn kernel_times(&self, work: impl FnOnce(&Self) -> Result<()>) -> Result<Vec<KernelTime>> {
        self.queue.begin_kernel_times()?;
        let timing = Timing(&*self.queue);
        let outcome = work(self);
        let times = timing.end();
        outcome?;
        times
    }
}

/// How long a kernel took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelTime {
    /// Its entry point in the PTX.
    pub name: &'static str,
    /// The row of the kernel table.
    pub role: KernelRole,
    /// From the end of what was before it on the stream to its own end.
    pub time: Duration,
}

/// Kernels are being timed. That ends even if the closure panics.
struct Timing<'a>(&'a dyn Queue);

impl Timing<'_> {
    fn end(self) -> Result<Vec<KernelTime>> {
        let queue = self.0;
        std::mem::forget(self);
        queue.end_kernel_times()
    }
}

impl Drop for Timing<'_> {
    fn drop(&mut self) {
        // Whoever panics does not want the times.
        let _ = self.0.end_kernel_times();
    }
}

/// The first device that was opened and has tensor-core kernels; those behind it are not opened.
fn first_with_kernels(devices: impl IntoIterator<Item = Result<Device>>) -> Option<Device> {
    devices.into_iter().flatten().find(|device| device.target().tensor_cores())
}

/// A capture under way. It ends even if the captured closure panics: a stream left recording would
/// be of no use to anyone.
struct Recording<'a>(&'a dyn Queue);

impl Recording<'_> {
    fn end(self) -> Result<Box<dyn QueueGraph>> {
        let queue = self.0;
        std::mem::forget(self);
        queue.end_capture()
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        // Whoever panics does not want the graph.
        let _ = self.0.end_capture();
    }
}

/// A point in a stream, for ordering and timing.
#[derive(Debug)]
pub struct Event {
    event: Box<dyn QueueEvent>,
    device: DeviceId,
}

impl Event {
    /// Time from this point to `later`; waits for both.
    ///
    /// # Errors
    /// The events belong to different devices; `later` lies before this one; a driver failure.
    pub fn elapsed_until(&self, later: &Self) -> Result<Duration> {
        if self.device != later.device {
            return Err(Error::invalid("elapsed_until: the events belong to different devices"));
        }
        self.event.elapsed_until(&*later.event)
    }
}

/// Work recorded by [`Stream::capture`].
#[derive(Debug)]
pub struct Graph {
    graph: Box<dyn QueueGraph>,
    device: DeviceId,
}

impl Graph {
    /// Runs the recorded work again, on the same buffers.
    ///
    /// # Errors
    /// The stream belongs to another device; a driver failure.
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        if self.device != stream.device_id() {
            return Err(Error::invalid("launch: graph and stream belong to different devices"));
        }
        self.graph.launch(stream.queue())
    }
}

#[cfg(all(test, feature = "emulator"))]
mod tests {
    use ptx_emulator::Arch;

    use super::*;

    #[test]
    fn the_first_device_with_kernels_is_taken() -> Result<()> {
        let wanted = Device::emulated(Arch::Sm90a)?;
        let mut opened = 0;
        let devices = [
            Err(Error::invalid("cannot be opened")),
            Ok(Device::cpu()),
            Ok(wanted.clone()),
            Device::emulated(Arch::Sm100a),
        ];
        let found = first_with_kernels(devices.into_iter().inspect(|_| opened += 1));
        assert_eq!((found.map(|device| device.id()), opened), (Some(wanted.id()), 3));
        assert!(first_with_kernels([Ok(Device::cpu())]).is_none());
        assert!(first_with_kernels([]).is_none());
        Ok(())
    }
}
