//! Devices and streams, and the trait that every engine implements.
//!
//! [`Queue`] is the whole contract: memory in stream order, and [`Queue::run`], which carries out a
//! [`Plan`]. The CPU runs a plan by computing it; engines that launch kernels (`cuda`, and
//! `emulated` with the feature `emulator`) implement [`Launcher`] too and share the launch steps in
//! `setup.rs`, `gemm.rs` and `epilogue.rs`.

mod address_table;
pub(crate) mod cpu;
pub(crate) mod cuda;
mod device;
#[cfg(feature = "emulator")]
mod emulated;
mod map;
mod turn;

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use grouped_linear_kernels::abi::TensorMap;

pub use self::device::{
    Device, DeviceId, DeviceInfo, DeviceKind, Event, Graph, KernelTime, Stream,
};
#[cfg(feature = "emulator")]
pub use self::emulated::EmulatorOptions;
pub(crate) use self::map::MapDescriptor;
use crate::error::{Error, Result};
use crate::launch::Launches;
use crate::plan::{KernelTarget, Operands, Plan};
use crate::splits::Splits;
use crate::tensor::{AddressTable, Memory, Tensor};

/// A place in memory: the allocation and a byte offset.
pub(crate) type Place<'a> = (&'a Memory, usize);

/// One stream of one device: an ordered queue of work.
pub(crate) trait Queue: Debug + Send + Sync {
    /// Unspecified bytes; zero bytes give a valid, useless allocation.
    fn allocate(&self, bytes: usize) -> Result<Memory>;

    /// Copies from the host; `bytes` may be reused on return.
    fn upload(&self, memory: &Memory, offset: usize, bytes: &[u8]) -> Result<()>;

    /// Waits for the queue and copies to the host; reports earlier failures.
    fn download(&self, memory: &Memory, offset: usize, bytes: &mut [u8]) -> Result<()>;

    /// Copies `bytes` bytes between two places of this device that do not overlap.
    fn copy(&self, to: Place<'_>, from: Place<'_>, bytes: usize) -> Result<()>;

    /// Zeroes `bytes` bytes.
    fn fill_zero(&self, memory: &Memory, offset: usize, bytes: usize) -> Result<()>;

    /// Stores the addresses (and tensor maps) of discrete tensors on the device; `None` where the
    /// engine needs none.
    fn address_table(&self, tensors: &[Tensor]) -> Result<Option<AddressTable>>;

    /// Allocates what launches do: scratch memory of so many bytes, unless there is as much, and
    /// the splits' copy on the device. The CPU needs neither.
    fn reserve(&self, _bytes: usize, _splits: &Splits) -> Result<()> {
        Ok(())
    }

    /// Carries out a plan. Operands have been checked against it.
    fn run(&self, plan: &Plan, operands: &Operands<'_>) -> Result<()>;

    /// Hands over the plans that `work` carries out when it has returned, all at once; none if it
    /// fails. Operations between two calls of [`Queue::next_stage`] must not write what another of
    /// them reads or writes. Copies and fills come before all of them, so `work` adds none. Engines
    /// that launch nothing carry out each operation as it comes. Operands live until this returns.
    fn together(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        work()
    }

    /// What [`Queue::together`] collects from now on waits for what it has.
    fn next_stage(&self) {}

    /// Waits until all work is done; reports its failures, bad device splits included, once.
    fn synchronize(&self) -> Result<()>;

    /// Notes this point of the queue.
    fn record_event(&self) -> Result<Box<dyn QueueEvent>>;

    /// Work added later waits for the event.
    fn wait_event(&self, event: &dyn QueueEvent) -> Result<()>;

    /// Starts recording work instead of running it.
    fn begin_capture(&self) -> Result<()>;

    /// Ends recording.
    fn end_capture(&self) -> Result<Box<dyn QueueGraph>>;

    /// Whether work is being recorded.
    fn is_capturing(&self) -> bool;

    /// From now on each kernel is timed. Only a GPU has a clock for that.
    fn begin_kernel_times(&self) -> Result<()> {
        Err(Error::unsupported(
            "the time of a kernel was asked for, and only a GPU (Device::cuda) has a clock for it; time \
             whole calls here, with Stream::record",
        ))
    }

    /// Ends what [`Queue::begin_kernel_times`] began; waits for the kernels.
    fn end_kernel_times(&self) -> Result<Vec<KernelTime>> {
        Ok(Vec::new())
    }

    /// For the engine's own downcast; `None` where the engine needs none.
    fn as_any(&self) -> Option<&dyn std::any::Any> {
        None
    }
}

/// A point in a queue.
pub(crate) trait QueueEvent: Debug + Send + Sync {
    /// Time from this point to `later`; waits for both.
    fn elapsed_until(&self, later: &dyn QueueEvent) -> Result<Duration>;

    /// For the engine's own downcast.
    fn as_any(&self) -> &dyn std::any::Any;
}

/// That [`QueueEvent::elapsed_until`] was asked the wrong way round.
fn swapped() -> Error {
    Error::invalid("elapsed_until: the later event lies before this one; swap them")
}

/// Recorded work.
pub(crate) trait QueueGraph: Debug + Send + Sync {
    /// Runs the work again on the queue, which belongs to the same device.
    fn launch(&self, queue: &dyn Queue) -> Result<()>;
}

/// An engine that runs kernels from PTX.
pub(crate) trait Launcher: Queue {
    /// Encodes a tensor map with 256-byte L2 promotion and zero fill.
    fn encode(&self, descriptor: &MapDescriptor) -> Result<TensorMap>;

    /// Adds the launches of one operation, in order.
    fn submit(&self, launches: &Launches) -> Result<()>;

    /// Address of at least `bytes` bytes of scratch memory, 256-byte aligned, that later work on
    /// this queue may reuse in order; operations of one [`Queue::together`] have each their own.
    fn workspace(&self, bytes: usize) -> Result<u64>;

    /// Address of the status block that keeps the first error of the queue's set-up kernels.
    fn sticky_status(&self) -> u64;

    /// The device of the queue.
    fn device_id(&self) -> DeviceId;

    /// Which kernels the device runs; `None` if none are compiled for it.
    fn kernels(&self) -> Option<KernelTarget>;

    /// The number that [`DeviceMemory::note_use`](crate::tensor::DeviceMemory::note_use) takes.
    fn queue_number(&self) -> u64;
}

/// The device address of a place in memory.
fn place(memory: &Memory, offset: usize) -> Result<u64> {
    match memory {
        Memory::Device(memory) => Ok(memory.address() + offset as u64),
        Memory::Host(_) => Err(Error::invalid(
            "the tensor lies in host memory; copy it to the GPU with Tensor::to_stream",
        )),
    }
}

/// A number for a new stream, different among all engines; 0 is never given out.
fn next_queue_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Locks a mutex, poisoned or not: what ours guard is consistent between any two statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
