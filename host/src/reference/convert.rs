//! Tensors in host memory, read into and written from FP32.
//!
//! Locks are taken chunk by chunk and never held while work is handed to other threads: an idle
//! thread of the pool may pick up somebody else's work, which may want the same lock.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use rayon::prelude::*;

use crate::error::{Error, Kind, Result};
use crate::splits::Splits;
use crate::tensor::{DType, GroupedTensor, HostMemory, Memory, Parts, Tensor};

/// Elements that one thread converts at a time: large enough to hide the lock.
const CHUNK: usize = 1 << 15;

/// The memory of a tensor on the CPU.
pub(crate) fn host_memory(memory: &Memory) -> Result<&HostMemory> {
    match memory {
        Memory::Host(memory) => Ok(memory),
        Memory::Device(_) => {
            Err(Error::invalid("the tensor lies in GPU memory, but the stream belongs to the CPU"))
        }
    }
}

/// The bytes `offset..offset + length`, or an error where the allocation is smaller.
pub(crate) fn byte_range(bytes: &[u8], offset: usize, length: usize) -> Result<&[u8]> {
    let (end, size) = (offset.saturating_add(length), bytes.len());
    bytes.get(offset..end).ok_or_else(|| out_of_bounds(offset, length, size))
}

/// As [`byte_range`], for writing.
pub(crate) fn byte_range_mut(bytes: &mut [u8], offset: usize, length: usize) -> Result<&mut [u8]> {
    let (end, size) = (offset.saturating_add(length), bytes.len());
    bytes.get_mut(offset..end).ok_or_else(|| out_of_bounds(offset, length, size))
}

fn out_of_bounds(offset: usize, length: usize, size: usize) -> Error {
    Error::invalid(format!(
        "{length} bytes at offset {offset} were asked for, but the allocation has {size}"
    ))
}

/// `count` zeros, or an error where memory is out: operands and results may be larger than what is
/// left, and `vec!` would end the process.
///
/// `vec!` takes pages that the operating system zeroes when they are touched, if ever, so the
/// memory is only tried with the call that can fail. The optimiser must not see that nobody uses
/// it.
pub(crate) fn zeros<T: Copy + Default>(count: usize) -> Result<Vec<T>> {
    let mut tried = Vec::<T>::new();
    tried.try_reserve_exact(count).map_err(|error| Kind::OutOfMemory {
        bytes: count.saturating_mul(size_of::<T>()),
        device: "cpu".to_owned(),
        detail: error.to_string(),
    })?;
    drop(std::hint::black_box(tried));
    Ok(vec![T::default(); count])
}

/// The first `values.len()` elements of a floating-point tensor, as FP32 (exact).
pub(super) fn read_into(tensor: &Tensor, values: &mut [f32]) -> Result<()> {
    let memory = host_memory(tensor.memory())?;
    let element_bytes = tensor.dtype().bytes();
    values.par_chunks_mut(CHUNK).enumerate().try_for_each(|(chunk, values)| {
        let offset = tensor.byte_offset() + chunk * CHUNK * element_bytes;
        memory.read(|bytes| {
            let bytes = byte_range(bytes, offset, values.len() * element_bytes)?;
            decode(tensor.dtype(), bytes, values)
        })
    })
}

/// The bytes of a tensor.
pub(super) fn read_bytes(tensor: &Tensor) -> Result<Vec<u8>> {
    let mut bytes = zeros(tensor.byte_len())?;
    host_memory(tensor.memory())?.read(|from| {
        bytes.copy_from_slice(byte_range(from, tensor.byte_offset(), tensor.byte_len())?);
        Ok::<_, Error>(())
    })?;
    Ok(bytes)
}

/// The first `count` elements of a floating-point tensor.
pub(super) fn read(tensor: &Tensor, count: usize) -> Result<Vec<f32>> {
    let mut values = zeros(count)?;
    read_into(tensor, &mut values)?;
    Ok(values)
}

/// All groups one after the other. Groups for which `wanted` is false are left out: zeros stand in
/// their place, in pages that the operating system never touches.
pub(super) fn read_groups(
    tensor: &GroupedTensor,
    wanted: impl Fn(usize) -> bool + Sync,
) -> Result<Vec<f32>> {
    let length = tensor.group_len();
    let mut values = zeros(tensor.groups().saturating_mul(length))?;
    if length > 0 {
        values
            .par_chunks_mut(length)
            .enumerate()
            .filter(|&(group, _)| wanted(group))
            .try_for_each(|(group, values)| read_into(&tensor.group(group)?, values))?;
    }
    Ok(values)
}

/// Rounds the values to the tensor's type (nearest even) and stores them from its start on.
pub(super) fn write(tensor: &Tensor, values: &[f32]) -> Result<()> {
    match tensor.dtype() {
        DType::F32 => store(tensor, bytemuck::cast_slice(values)),
        DType::Bf16 => {
            let mut rounded: Vec<bf16> = zeros(values.len())?;
            rounded
                .par_chunks_mut(CHUNK)
                .zip(values.par_chunks(CHUNK))
                .for_each(|(rounded, values)| rounded.convert_from_f32_slice(values));
            store(tensor, bytemuck::cast_slice(&rounded))
        }
        DType::F16 => {
            let mut rounded: Vec<f16> = zeros(values.len())?;
            rounded
                .par_chunks_mut(CHUNK)
                .zip(values.par_chunks(CHUNK))
                .for_each(|(rounded, values)| rounded.convert_from_f32_slice(values));
            store(tensor, bytemuck::cast_slice(&rounded))
        }
        _ => Err(Error::dtype("tensor", tensor.dtype(), "a floating-point type")),
    }
}

/// Stores the values of all groups.
pub(super) fn write_groups(tensor: &GroupedTensor, values: &[f32]) -> Result<()> {
    match tensor.parts() {
        Parts::Packed(tensor) => write(tensor, values),
        Parts::Discrete(tensors, _) => {
            let length = tensor.group_len().max(1);
            tensors.iter().zip(values.chunks(length)).try_for_each(|(part, v)| write(part, v))
        }
    }
}

/// The counts, as they lie in host memory.
///
/// `Splits::read` would download them, and a download reports the stream's earlier failures; the
/// operation that reads the splits must not.
pub(super) fn read_splits(splits: &Splits) -> Result<Vec<i64>> {
    if let Some(counts) = splits.counts() {
        return Ok(counts.to_vec());
    }
    let Some(tensor) = splits.device_tensor() else {
        return Err(Error::invalid("splits: neither the host nor the device has them"));
    };
    host_memory(tensor.memory())?.read(|bytes| {
        let bytes = byte_range(bytes, tensor.byte_offset(), tensor.byte_len())?;
        Ok(match tensor.dtype() {
            DType::I32 => bytes
                .chunks_exact(4)
                .map(|count| i64::from(bytemuck::pod_read_unaligned::<i32>(count)))
                .collect(),
            _ => bytes.chunks_exact(8).map(bytemuck::pod_read_unaligned).collect(),
        })
    })
}

/// The one element of an `i32` tensor; not by a download, for the same reason.
pub(super) fn read_flag(tensor: &Tensor) -> Result<i32> {
    host_memory(tensor.memory())?.read(|bytes| {
        let bytes = byte_range(bytes, tensor.byte_offset(), size_of::<i32>())?;
        Ok(bytemuck::pod_read_unaligned(bytes))
    })
}

/// Overwrites the bytes of a tensor from its start on.
pub(super) fn store(tensor: &Tensor, rounded: &[u8]) -> Result<()> {
    host_memory(tensor.memory())?.write(|bytes| {
        byte_range_mut(bytes, tensor.byte_offset(), rounded.len())?.copy_from_slice(rounded);
        Ok(())
    })
}

fn decode(dtype: DType, bytes: &[u8], values: &mut [f32]) -> Result<()> {
    let misaligned = |_| Error::invalid("the tensor does not start at a multiple of its element");
    match dtype {
        DType::F32 => {
            values.copy_from_slice(bytemuck::try_cast_slice(bytes).map_err(misaligned)?);
        }
        DType::Bf16 => {
            let elements: &[bf16] = bytemuck::try_cast_slice(bytes).map_err(misaligned)?;
            elements.convert_to_f32_slice(values);
        }
        DType::F16 => {
            let elements: &[f16] = bytemuck::try_cast_slice(bytes).map_err(misaligned)?;
            elements.convert_to_f32_slice(values);
        }
        _ => {
            return Err(Error::dtype("tensor", dtype, "a floating-point type"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_not_there_is_an_error() {
        // More than any machine has, and more than `Vec` takes.
        for count in [1 << 58, usize::MAX] {
            let error = zeros::<f32>(count).unwrap_err();
            assert!(error.is_out_of_memory(), "{error}");
            assert!(error.to_string().contains("were asked for on cpu"), "{error}");
        }
        assert_eq!(zeros::<bf16>(3).unwrap(), [bf16::ZERO; 3]);
    }
}
