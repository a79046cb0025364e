//! Memory of an emulated GPU, freed with its last handle. Work runs when it is added, so none is
//! ever pending; only a graph has work to come, and holds what that work uses.

use std::sync::Arc;

use super::gpu::Gpu;
use crate::error::Result;
use crate::tensor::{DeviceMemory, Memory};

/// What a tensor holds on to.
#[derive(Debug)]
struct Allocation(Arc<Block>);

/// Some memory; address 0 stands for no bytes at all.
#[derive(Debug)]
pub(super) struct Block {
    gpu: Arc<Gpu>,
    address: u64,
}

impl Block {
    pub(super) fn new(gpu: &Arc<Gpu>, bytes: usize) -> Result<Arc<Self>> {
        let address = if bytes == 0 { 0 } else { gpu.allocate(bytes)? };
        Ok(Arc::new(Self { gpu: gpu.clone(), address }))
    }

    pub(super) fn address(&self) -> u64 {
        self.address
    }

    pub(super) fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    pub(super) fn into_memory(self: Arc<Self>) -> Memory {
        Memory::Device(Arc::new(Allocation(self)))
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.address != 0 {
            self.gpu.free(self.address);
        }
    }
}

impl DeviceMemory for Allocation {
    fn address(&self) -> u64 {
        self.0.address
    }

    fn note_use(&self, queue: u64) {
        if let Some(capture) = self.0.gpu.captures().get_mut(&queue) {
            capture.keep(&self.0);
        }
    }
}
