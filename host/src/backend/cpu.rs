//! The CPU as a device: memory of this process, and plans computed by the reference.
//!
//! Work runs at once, in the thread that asks for it (and on rayon's threads). What a GPU would
//! only report at the next synchronisation, invalid splits in device memory, is kept until then
//! here too, so that a program behaves alike on both.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::device::DeviceBackend;
use super::{DeviceId, DeviceInfo, DeviceKind, Place, Queue, QueueEvent, QueueGraph, swapped};
use crate::error::{Error, Result};
use crate::plan::{Operands, Plan, Target};
use crate::reference::{byte_range, byte_range_mut, execute, host_memory, zeros};
use crate::tensor::{AddressTable, HostMemory, Memory, Tensor};

const ID: DeviceId = DeviceId { kind: DeviceKind::Cpu, ordinal: 0 };

/// The one CPU device; all handles are equal.
pub(super) fn device() -> Arc<dyn DeviceBackend> {
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    Arc::new(CpuDevice(DeviceInfo {
        id: ID,
        name: "CPU reference".to_string(),
        compute_capability: None,
        multiprocessors: threads as u32,
        memory_bytes: None,
        driver: None,
    }))
}

#[derive(Debug)]
struct CpuDevice(DeviceInfo);

impl DeviceBackend for CpuDevice {
    fn info(&self) -> &DeviceInfo {
        &self.0
    }

    fn target(&self) -> Target {
        Target::CPU
    }

    fn create_queue(&self) -> Result<Arc<dyn Queue>> {
        Ok(Arc::new(CpuQueue::default()))
    }
}

/// A stream: nothing is ever pending but the first failure that nobody has been told of.
#[derive(Debug, Default)]
struct CpuQueue {
    failure: Mutex<Option<Error>>,
}

impl CpuQueue {
    /// Keeps the first failure, as the status word of a GPU's set-up kernels does.
    fn keep(&self, error: Error) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    fn report(&self) -> Result<()> {
        match self.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

impl Queue for CpuQueue {
    fn allocate(&self, bytes: usize) -> Result<Memory> {
        Ok(Memory::Host(Arc::new(HostMemory::new(zeros(bytes.div_ceil(8))?))))
    }

    fn upload(&self, memory: &Memory, offset: usize, bytes: &[u8]) -> Result<()> {
        host_memory(memory)?.write(|to| {
            byte_range_mut(to, offset, bytes.len())?.copy_from_slice(bytes);
            Ok(())
        })
    }

    fn download(&self, memory: &Memory, offset: usize, bytes: &mut [u8]) -> Result<()> {
        self.report()?;
        host_memory(memory)?.read(|from| {
            bytes.copy_from_slice(byte_range(from, offset, bytes.len())?);
            Ok(())
        })
    }

    fn copy(&self, to: Place<'_>, from: Place<'_>, bytes: usize) -> Result<()> {
        // Not from lock to lock: two copies in opposite directions would wait for each other.
        let mut copied: Vec<u8> = zeros(bytes)?;
        host_memory(from.0)?.read(|source| {
            copied.copy_from_slice(byte_range(source, from.1, bytes)?);
            Ok::<_, Error>(())
        })?;
        self.upload(to.0, to.1, &copied)
    }

    fn fill_zero(&self, memory: &Memory, offset: usize, bytes: usize) -> Result<()> {
        host_memory(memory)?.write(|to| {
            byte_range_mut(to, offset, bytes)?.fill(0);
            Ok(())
        })
    }

    fn address_table(&self, _tensors: &[Tensor]) -> Result<Option<AddressTable>> {
        Ok(None)
    }

    fn run(&self, plan: &Plan, operands: &Operands<'_>) -> Result<()> {
        match execute(plan, operands) {
            Err(error) if error.is_bad_splits() => {
                self.keep(error);
                Ok(())
            }
            outcome => outcome,
        }
    }

    fn synchronize(&self) -> Result<()> {
        self.report()
    }

    fn record_event(&self) -> Result<Box<dyn QueueEvent>> {
        Ok(Box::new(CpuEvent(Instant::now())))
    }

    fn wait_event(&self, _event: &dyn QueueEvent) -> Result<()> {
        // The event's work was done before the event was recorded.
        Ok(())
    }

    fn begin_capture(&self) -> Result<()> {
        Err(Error::unsupported(
            "the CPU cannot record a graph: its work runs at once; \
             call the operations again instead",
        ))
    }

    fn end_capture(&self) -> Result<Box<dyn QueueGraph>> {
        Err(Error::unsupported("the CPU records no graphs, so there is none to end"))
    }

    fn is_capturing(&self) -> bool {
        false
    }
}

/// A moment.
#[derive(Debug)]
struct CpuEvent(Instant);

impl QueueEvent for CpuEvent {
    fn elapsed_until(&self, later: &dyn QueueEvent) -> Result<Duration> {
        match later.as_any().downcast_ref::<Self>() {
            Some(later) => later.0.checked_duration_since(self.0).ok_or_else(swapped),
            None => Err(Error::invalid("elapsed_until: the later event belongs to another device")),
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_outside_of_the_allocation_are_refused() -> Result<()> {
        let queue = CpuQueue::default();
        let memory = queue.allocate(16)?;
        queue.upload(&memory, 8, &[1; 8])?;
        for offset in [9, 17, usize::MAX] {
            assert!(queue.upload(&memory, offset, &[0; 8]).is_err());
            assert!(queue.download(&memory, offset, &mut [0; 8]).is_err());
            assert!(queue.fill_zero(&memory, offset, 8).is_err());
            assert!(queue.copy((&memory, 0), (&memory, offset), 8).is_err());
            assert!(queue.copy((&memory, offset), (&memory, 0), 8).is_err());
        }
        queue.copy((&memory, 0), (&memory, 8), 8)?;
        let mut bytes = [0; 16];
        queue.download(&memory, 0, &mut bytes)?;
        assert_eq!(bytes, [1; 16]);
        Ok(())
    }

    #[test]
    fn events_measure_the_time_between_them() -> Result<()> {
        let queue = CpuQueue::default();
        let start = queue.record_event()?;
        std::thread::sleep(Duration::from_millis(5));
        let end = queue.record_event()?;
        assert!(start.elapsed_until(&*end)? >= Duration::from_millis(5));
        assert!(end.elapsed_until(&*start).expect_err("swapped").is_invalid_argument());
        Ok(())
    }
}
