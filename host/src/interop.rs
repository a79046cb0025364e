//! Borrowed device pointers and streams of other CUDA libraries, as raw handles.
//!
//! Everything that uses a device's primary context can share memory and streams with this library:
//! cudarc and candle, cust with its primary context, the CUDA runtime, PyTorch. A raw handle is a
//! `u64`: a `CUdeviceptr`, or a `CUstream` cast to an integer.
//!
//! ```no_run
//! # type Owner = std::sync::Arc<Vec<u8>>;
//! # fn wrap(raw_stream: u64, raw_pointer: u64, owner: Owner) -> grouped_linear::Result<()> {
//! use grouped_linear::{DType, Device, interop};
//! let device = Device::cuda(0)?;
//! // SAFETY: `owner` keeps the stream and 16 x 64 elements of memory alive.
//! let (stream, x) = unsafe {
//!     let stream = interop::stream_from_raw(&device, raw_stream, owner.clone())?;
//!     let x = interop::tensor_from_raw(&device, raw_pointer, &[16, 64], DType::Bf16, owner)?;
//!     (stream, x)
//! };
//! assert_eq!(interop::device_address(&x), Some(raw_pointer));
//! assert_eq!(interop::raw_stream(&stream), Some(raw_stream));
//! # Ok(()) }
//! ```
#![allow(unsafe_code)] // what other libraries promise cannot be checked; each function says what

use std::any::Any;
use std::sync::Arc;

use crate::backend::cuda::{CudaStream, borrow_memory, cuda_device};
use crate::backend::{Device, DeviceKind, Stream};
use crate::error::{Error, Kind, Result};
use crate::tensor::{DType, Tensor, byte_size};

/// A tensor over device memory that another library owns, contiguous and row-major.
///
/// `keep_alive` is dropped, on some thread, after the last handle to the tensor has gone, all work
/// that this library added for it has ended, and no graph holds it.
///
/// # Errors
/// The device is no CUDA device; the address is no multiple of the element's size, or null although
/// there are elements; the size is beyond the address space.
///
/// # Safety
/// - `address` is memory of the device that holds the elements and may be read and written, as long
///   as `keep_alive` lives.
/// - Work of other libraries on that memory is ordered with the streams on which this library uses
///   it: the same stream, or events.
pub unsafe fn tensor_from_raw(
    device: &Device,
    address: u64,
    shape: &[usize],
    dtype: DType,
    keep_alive: Arc<dyn Any + Send + Sync>,
) -> Result<Tensor> {
    let cuda = cuda_device(device)?;
    let bytes = byte_size(shape, dtype)?;
    let end = address.checked_add(bytes as u64);
    if (address == 0 && bytes > 0) || end.is_none() || !address.is_multiple_of(dtype.bytes() as u64)
    {
        return Err(Error::invalid(format!(
            "tensor_from_raw: {address:#x} cannot be the address of {bytes} bytes of {dtype}; \
             it must be set, and a multiple of {}",
            dtype.bytes()
        )));
    }
    let memory = borrow_memory(cuda, address, keep_alive);
    Ok(Tensor::from_memory(memory, 0, shape, dtype, device.id()))
}

/// As [`tensor_from_raw`], for libraries whose tensors have strides: those of a contiguous,
/// row-major array are taken, any others refused ([`check_strides`]).
///
/// So a main_grad that is a slice or a transpose of something else is refused here, with its shape
/// and strides, and no gradient goes into a copy that its owner never sees.
///
/// # Errors
/// The strides are not those of a contiguous array; otherwise as [`tensor_from_raw`].
///
/// # Safety
/// As [`tensor_from_raw`].
pub unsafe fn tensor_from_raw_strided(
    device: &Device,
    address: u64,
    shape: &[usize],
    strides: &[isize],
    dtype: DType,
    keep_alive: Arc<dyn Any + Send + Sync>,
) -> Result<Tensor> {
    check_strides(shape, strides)?;
    // SAFETY: the caller's promise is the callee's.
    unsafe { tensor_from_raw(device, address, shape, dtype, keep_alive) }
}

/// Refuses strides, in elements, that are not those of a contiguous, row-major array of this shape.
/// Those of dimensions of length 1 and of arrays without elements are free.
///
/// ```
/// use grouped_linear::interop::check_strides;
/// assert!(check_strides(&[4, 16, 8], &[128, 8, 1]).is_ok());
/// let transposed = check_strides(&[4, 8, 16], &[128, 1, 8]).unwrap_err();
/// assert_eq!(transposed.given_shape(), Some(&[4, 8, 16][..]));
/// assert_eq!(transposed.given_strides(), Some(&[128, 1, 8][..]));
/// ```
///
/// # Errors
/// The strides are others, or not one per dimension; the array is beyond the address space.
pub fn check_strides(shape: &[usize], strides: &[isize]) -> Result<()> {
    let want = contiguous_strides(shape)?;
    let fits = |dimension: usize| {
        shape[dimension] == 1 || strides[dimension] == want[dimension] || shape.contains(&0)
    };
    if strides.len() == shape.len() && (0..shape.len()).all(fits) {
        return Ok(());
    }
    let (what, shape, strides) = ("lent tensor", shape.to_vec(), strides.to_vec());
    Err(Kind::Strides { what, shape, strides, want }.into())
}

/// Distances between neighbours in each dimension, in elements. Empty dimensions count as 1.
fn contiguous_strides(shape: &[usize]) -> Result<Vec<isize>> {
    let too_large = || Error::shape("lent tensor", shape, "fewer than 2^63 elements");
    let mut strides = vec![0; shape.len()];
    let mut count = 1isize;
    for (stride, &length) in strides.iter_mut().zip(shape).rev() {
        *stride = count;
        let length = isize::try_from(length.max(1)).map_err(|_| too_large())?;
        count = count.checked_mul(length).ok_or_else(too_large)?;
    }
    Ok(strides)
}

/// The device address of a tensor's first element; `None` for tensors in host memory or on an
/// emulated GPU, whose addresses mean nothing to other libraries. It is valid while a handle to the
/// tensor lives; order other libraries' work with the streams that use it.
///
/// ```
/// use grouped_linear::{DType, Device, Tensor, interop};
/// let stream = Device::cpu().stream()?;
/// let tensor = Tensor::zeros(&stream, &[4], DType::F32)?;
/// assert_eq!(interop::device_address(&tensor), None);
/// # Ok::<(), grouped_linear::Error>(())
/// ```
pub fn device_address(tensor: &Tensor) -> Option<u64> {
    if tensor.device_id().kind == DeviceKind::Cuda { tensor.address() } else { None }
}

/// The `CUstream` of a stream; `None` on the CPU and on emulated GPUs. It is valid while a handle
/// to the stream, or memory allocated on it, lives. (The legacy default stream, where lent, is
/// `Some(0)`.) Record work on a stream of this library with [`Stream::capture`], not through the
/// handle.
pub fn raw_stream(stream: &Stream) -> Option<u64> {
    let stream = stream.queue().as_any()?.downcast_ref::<CudaStream>()?;
    Some(stream.raw().addr() as u64)
}

/// A stream that another library owns, of the device's primary context.
///
/// Work is added in the order of both libraries' calls. `keep_alive` is dropped after the last
/// handle to the stream and the last memory allocated on it have gone; that drop waits for the
/// stream.
///
/// If the other library captures the stream, run the same work once before and pass outputs that
/// exist. Drop the stream outside captures: during one it cannot be waited for, so its scratch
/// memory, and memory of other streams on which it worked, would leak.
///
/// # Errors
/// The device is no CUDA device, the stream belongs to another context or is the per-thread default
/// stream (handle 2), or a driver failure.
///
/// # Safety
/// - `handle` is a live `CUstream` as long as `keep_alive` lives (or 0, the legacy default stream).
/// - Work that the other library captures on the stream uses the operands and the stream's scratch
///   memory: all tensors, the returned stream and the device live as long as its graph, whose
///   replays are ordered like work on this stream, best by running there.
/// - No other thread begins or ends such a capture during a call of this library, which includes
///   dropping a tensor.
/// - During such a capture no other stream works for the first time on a tensor allocated on this
///   one: nothing could order that work behind what was added here before.
/// - The device's primary context becomes current on every thread that calls this library; code
///   that counts on another context there makes its own current again.
pub unsafe fn stream_from_raw(
    device: &Device,
    handle: u64,
    keep_alive: Arc<dyn Any + Send + Sync>,
) -> Result<Stream> {
    let cuda = cuda_device(device)?;
    let handle = handle as usize as *mut std::ffi::c_void;
    // SAFETY: the caller's promise is the callee's.
    let stream = unsafe { CudaStream::borrow(cuda, handle, keep_alive)? };
    Ok(Stream::from_queue(Arc::new(stream), device.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lend(shape: &[usize], strides: &[isize]) -> Error {
        let (device, owner) = (Device::cpu(), Arc::new(()));
        // SAFETY: the CPU takes no foreign memory, so the address is never used.
        let outcome =
            unsafe { tensor_from_raw_strided(&device, 4096, shape, strides, DType::F32, owner) };
        outcome.expect_err("the CPU takes no foreign memory")
    }

    #[test]
    fn strides_are_looked_at_before_the_device() {
        let strided = lend(&[2, 3], &[4, 1]);
        assert_eq!(strided.given_strides(), Some(&[4, 1][..]), "{strided}");
        let contiguous = lend(&[2, 3], &[3, 1]);
        assert!(contiguous.to_string().contains("a CUDA device is needed"), "{contiguous}");
    }
}
