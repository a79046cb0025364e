//! Emulated GPUs: the PTX that a GPU would run, executed by [`ptx_emulator`] on the CPU, with its
//! checks for races, out-of-bounds accesses, use of freed memory and deadlocks.
//!
//! In the order of use: `gpu` (the machine, its modules, and the failure that stopped it),
//! `memory`, `status`, `queue` (streams), `graph`, `tensor_map`.
//!
//! - **Work runs when it is added, in the thread that adds it.** Streams are ordered queues that
//!   never overlap, so an event has nothing to wait for. What a GPU would only report at the next
//!   synchronisation is kept until then here, too.
//! - **A kernel that fails stops its GPU for good**, as a failed kernel does a CUDA context: every
//!   later call on any of its streams fails with the same report. Another device is a new machine.
//! - **Captures refuse what they refuse on a GPU**, so that a program which runs here runs there.
//! - **Scratch memory has exactly the size that was asked for, and is new for every operation**:
//!   the emulator sees what a pool would hide.

mod gpu;
mod graph;
mod memory;
mod queue;
mod status;
mod tensor_map;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use ptx_emulator::{Arch, Statistics};

use self::gpu::Gpu;
use self::queue::EmulatedQueue;
use super::device::DeviceBackend;
use super::{DeviceInfo, Queue};
use crate::error::Result;
use crate::plan::Target;

/// Multiprocessors where nobody says otherwise: few, so that each block of a persistent kernel
/// walks through several tiles even of small problems.
const MULTIPROCESSORS: u32 = 4;

/// What an emulated GPU shall be like.
///
/// ```
/// use grouped_linear::{Arch, Device, EmulatorOptions};
/// let mut options = EmulatorOptions::new(Arch::Sm90a);
/// options.seed = 7;
/// let device = Device::emulated_with(options)?;
/// assert_eq!(device.info().multiprocessors, 4);
/// # Ok::<(), grouped_linear::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EmulatorOptions {
    /// The architecture.
    pub arch: Arch,
    /// Seed of the scheduler: in which order warps and blocks go on. Every launch has an order of
    /// its own; equal seeds and equal work give equal orders. A right kernel gives the same bits in
    /// any.
    pub seed: u64,
    /// Streaming multiprocessors; persistent kernels run one block on each.
    pub multiprocessors: u32,
    /// Warp instructions of one launch, summed over all warps, after which it is taken to hang;
    /// `None` for the emulator's own limit.
    pub instruction_limit: Option<u64>,
    /// How many bytes can be allocated at a time; `None` for the emulator's own limit. To see what
    /// a program does when memory runs out.
    pub memory_bytes: Option<u64>,
    /// Texts to load instead of the embedded modules of these names.
    #[doc(hidden)]
    pub replaced_modules: Vec<(String, String)>,
}

impl EmulatorOptions {
    /// Seed 0, four multiprocessors, the embedded kernels.
    pub fn new(arch: Arch) -> Self {
        Self {
            arch,
            seed: 0,
            multiprocessors: MULTIPROCESSORS,
            instruction_limit: None,
            memory_bytes: None,
            replaced_modules: Vec::new(),
        }
    }
}

/// A new machine with memory of its own.
pub(super) fn device(options: EmulatorOptions) -> Result<Arc<dyn DeviceBackend>> {
    Ok(Arc::new(EmulatedDevice(Arc::new(Gpu::new(options)?))))
}

#[derive(Debug)]
struct EmulatedDevice(Arc<Gpu>);

impl DeviceBackend for EmulatedDevice {
    fn info(&self) -> &DeviceInfo {
        self.0.info()
    }

    fn target(&self) -> Target {
        self.0.target()
    }

    fn create_queue(&self) -> Result<Arc<dyn Queue>> {
        Ok(Arc::new(EmulatedQueue::new(&self.0)?))
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(self.0.statistics())
    }
}
