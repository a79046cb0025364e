//! Where the bytes of a tensor lie.

use std::fmt::Debug;
use std::sync::{Arc, RwLock, Weak};

/// Memory of one tensor allocation; freed when the last tensor that shares it is dropped.
#[derive(Clone, Debug)]
pub(crate) enum Memory {
    /// Ordinary memory of this process (the CPU backend).
    Host(Arc<HostMemory>),
    /// Memory with a device address (CUDA, emulated).
    Device(Arc<dyn DeviceMemory>),
}

impl Memory {
    /// Whether two handles mean the same allocation.
    pub(crate) fn same_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Host(a), Self::Host(b)) => Arc::ptr_eq(a, b),
            (Self::Device(a), Self::Device(b)) => a.address() == b.address(),
            _ => false,
        }
    }
}

/// Memory that this handle does not keep.
#[derive(Clone, Debug)]
pub(crate) enum WeakMemory {
    Host(Weak<HostMemory>),
    Device(Weak<dyn DeviceMemory>),
}

impl WeakMemory {
    pub(crate) fn of(memory: &Memory) -> Self {
        match memory {
            Memory::Host(memory) => Self::Host(Arc::downgrade(memory)),
            Memory::Device(memory) => Self::Device(Arc::downgrade(memory)),
        }
    }

    /// Whether somebody keeps it.
    pub(crate) fn lives(&self) -> bool {
        match self {
            Self::Host(memory) => memory.strong_count() > 0,
            Self::Device(memory) => memory.strong_count() > 0,
        }
    }
}

/// Bytes that live at a device address. The implementation frees them on drop, in stream order.
pub(crate) trait DeviceMemory: Debug + Send + Sync {
    /// Address of the first byte.
    fn address(&self) -> u64;

    /// Notes that work on the stream `queue` uses the memory, so that it is not freed before
    /// that work ends.
    fn note_use(&self, queue: u64);
}

/// Bytes aligned to 8.
#[derive(Debug)]
pub(crate) struct HostMemory(RwLock<Vec<u64>>);

impl HostMemory {
    pub(crate) fn new(words: Vec<u64>) -> Self {
        Self(RwLock::new(words))
    }

    /// Calls `read` with the bytes; writers wait.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&[u8]) -> R) -> R {
        let words = self.0.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        read(bytemuck::cast_slice(&words))
    }

    /// Calls `write` with the bytes, alone.
    pub(crate) fn write<R>(&self, write: impl FnOnce(&mut [u8]) -> R) -> R {
        let mut words = self.0.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        write(bytemuck::cast_slice_mut(&mut words))
    }
}

impl Memory {
    /// Address of the first byte; 0 for host memory, which kernels never see.
    pub(crate) fn address(&self) -> u64 {
        match self {
            Self::Host(_) => 0,
            Self::Device(memory) => memory.address(),
        }
    }
}
