//! Where discrete tensors lie, stored in device memory for kernels.

use super::Launcher;
use crate::error::Result;
use crate::gemm::weight_map;
use crate::plan::{KernelTarget, Pass};
use crate::tensor::{AddressTable, DType, Memory, PassMaps, Tensor};

/// The table of an engine that launches kernels; tensor maps where tensor-core kernels can use
/// them.
pub(super) fn store(launcher: &dyn Launcher, tensors: &[Tensor]) -> Result<AddressTable> {
    let addresses: Vec<u64> = tensors.iter().map(|tensor| tensor.address().unwrap_or(0)).collect();
    let pointers = store_bytes(launcher, bytemuck::cast_slice(&addresses))?;
    let maps = match (tensors.first().map(Tensor::shape), launcher.kernels()) {
        (Some(&[n, k]), Some(target)) if has_tensor_maps(tensors) => Some(PassMaps {
            fprop: store_maps(launcher, target, Pass::Fprop, tensors, [1, n, k])?,
            dgrad: store_maps(launcher, target, Pass::Dgrad, tensors, [1, n, k])?,
        }),
        _ => None,
    };
    Ok(AddressTable { pointers, maps })
}

fn store_bytes(launcher: &dyn Launcher, bytes: &[u8]) -> Result<Memory> {
    let memory = launcher.allocate(bytes.len())?;
    launcher.upload(&memory, 0, bytes)?;
    Ok(memory)
}

/// `TensorMap[groups]` of discrete weights, each of which has this shape.
fn store_maps(
    launcher: &dyn Launcher,
    target: KernelTarget,
    pass: Pass,
    tensors: &[Tensor],
    shape: [usize; 3],
) -> Result<Memory> {
    let mut words = Vec::with_capacity(16 * tensors.len());
    for tensor in tensors {
        let address = tensor.address().unwrap_or(0);
        let map = launcher.encode(&weight_map(target, pass, address, tensor.dtype(), shape))?;
        words.extend(map.0);
    }
    store_bytes(launcher, bytemuck::cast_slice(&words))
}

/// Whether tensor-core kernels can read the tensors as weights: 16-bit elements, rows that are
/// multiples of 16 bytes, at least one element, and aligned (borrowed memory may not be).
fn has_tensor_maps(tensors: &[Tensor]) -> bool {
    tensors.iter().all(|tensor| {
        let aligned = tensor.address().is_some_and(|address| address.is_multiple_of(16));
        matches!(tensor.dtype(), DType::Bf16 | DType::F16)
            && aligned
            && !tensor.is_empty()
            && tensor.shape()[1].is_multiple_of(8)
    })
}
