//! Status blocks: where set-up kernels report bad splits.

use std::mem::offset_of;
use std::sync::Arc;

use bytemuck::bytes_of;
use grouped_linear_kernels::abi::{Status, status};

use super::gpu::Gpu;
use super::memory::Block;
use crate::error::Result;
use crate::setup;

/// One block in the GPU's memory, all zero when new.
#[derive(Debug)]
pub(super) struct StatusBlock(Arc<Block>);

impl StatusBlock {
    pub(super) fn new(gpu: &Arc<Gpu>) -> Result<Arc<Self>> {
        let block = Block::new(gpu, size_of::<Status>())?;
        gpu.write(block.address(), bytes_of(&Status::default()))?;
        Ok(Arc::new(Self(block)))
    }

    /// Address for the kernels.
    pub(super) fn address(&self) -> u64 {
        self.0.address()
    }

    /// Reads the block and clears it.
    pub(super) fn take(&self) -> Result<()> {
        let mut bytes = [0; size_of::<Status>()];
        self.0.gpu().read(self.address(), &mut bytes)?;
        let found = decode(&bytes);
        if found.code == status::OK {
            return Ok(());
        }
        self.0.gpu().write(self.address(), bytes_of(&Status::default()))?;
        Err(setup::splits_error(&found))
    }
}

/// The block as the kernel wrote it. Emulated memory is little-endian, as a GPU's is.
fn decode(bytes: &[u8; size_of::<Status>()]) -> Status {
    Status {
        code: u32::from_le_bytes(field(bytes, offset_of!(Status, code))),
        group: u32::from_le_bytes(field(bytes, offset_of!(Status, group))),
        value: i64::from_le_bytes(field(bytes, offset_of!(Status, value))),
        rows: i64::from_le_bytes(field(bytes, offset_of!(Status, rows))),
        taken: 0,
    }
}

/// `N` bytes from `offset` on; zeros past the end.
fn field<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    bytes.get(offset..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_read_from_its_place() {
        let written = Status { code: 1, group: 77, value: -5, rows: 1 << 40, taken: 0 };
        let mut bytes = [0; size_of::<Status>()];
        bytes.copy_from_slice(bytes_of(&written));
        assert_eq!(decode(&bytes), written);
    }
}
