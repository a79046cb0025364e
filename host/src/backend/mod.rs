//! Devices and streams, and the trait that every engine implements.
//!
//! [`Queue`] is the whole contract: memory in stream order, and [`Queue::run`], which carries out a
//! [`Plan`]. The CPU runs a plan by computing it; engines that launch kernels implement [`Launcher`]
//! too and share the launch steps in `setup.rs`, `gemm.rs` and `epilogue.rs`.

pub(crate) mod cpu;
pub(crate) mod cuda;
mod device;

use std::fmt::Debug;
use std::time::Duration;

use grouped_linear_kernels::abi::TensorMap;
use grouped_linear_kernels::variants::Kernel;

pub use self::device::{Device, DeviceId, DeviceInfo, DeviceKind, Event, Graph, Stream};
use crate::error::Result;
use crate::plan::{Operands, Plan};
use crate::tensor::{AddressTable, DType, Memory, Tensor};

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

    /// Carries out a plan. Operands have been checked against it.
    fn run(&self, plan: &Plan, operands: &Operands<'_>) -> Result<()>;

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

/// Recorded work.
pub(crate) trait QueueGraph: Debug + Send + Sync {
    /// Runs the work again on the queue, which belongs to the same device.
    fn launch(&self, queue: &dyn Queue) -> Result<()>;
}

/// What a tensor map shall describe; extents innermost first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MapDescriptor {
    /// Device address of the first element, a multiple of 16.
    pub address: u64,
    /// BF16 or FP16.
    pub dtype: DType,
    /// Number of dimensions in use, 2 or 3.
    pub rank: usize,
    /// Elements per dimension.
    pub extents: [u64; 3],
    /// Bytes from one index to the next, of dimensions 1 and 2.
    pub strides: [u64; 2],
    /// Elements of the box per dimension; the innermost spans 128 bytes (128-byte swizzle).
    pub tile: [u32; 3],
}

/// An engine that runs kernels from PTX.
pub(crate) trait Launcher: Queue {
    /// Encodes a tensor map with 128-byte swizzle, 256-byte L2 promotion and zero fill.
    fn encode(&self, descriptor: &MapDescriptor) -> Result<TensorMap>;

    /// Launches `kernel` with one by-value argument struct of `kernel.args_bytes` bytes.
    fn launch(&self, kernel: &'static Kernel, grid: [u32; 2], args: &[u8]) -> Result<()>;

    /// Address of at least `bytes` bytes of scratch memory that later work on this queue may reuse
    /// in order; 256-byte aligned.
    fn workspace(&self, bytes: usize) -> Result<u64>;

    /// Address of the status block that keeps the first error of the queue's set-up kernels.
    fn sticky_status(&self) -> u64;

    /// The device of the queue.
    fn device_id(&self) -> DeviceId;

    /// The number that [`DeviceMemory::note_use`](crate::tensor::DeviceMemory::note_use) takes.
    fn queue_number(&self) -> u64;
}
