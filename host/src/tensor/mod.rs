//! Tensors: contiguous, typed, on one device; and groups of them.

mod dtype;
mod grouped;
mod memory;
mod quantized;
mod spec;

use half::{bf16, f16};

pub use self::dtype::{DType, Element};
pub(crate) use self::grouped::{AddressTable, Parts, PassMaps};
pub use self::grouped::{GroupedTensor, ParamLayout};
pub(crate) use self::memory::{DeviceMemory, HostMemory, Memory, WeakMemory};
#[cfg(feature = "safetensors")]
pub(crate) use self::quantized::SCALE;
pub(crate) use self::quantized::{COLUMNWISE, ROWWISE, Shared, check_experts, missing_copy};
pub use self::quantized::{
    CopySpec, Form, QuantizedCopy, QuantizedSpec, QuantizedTensor, SourceShape,
};
pub use self::spec::TensorSpec;
use crate::backend::{DeviceId, Stream};
use crate::error::{Error, Kind, Result};
pub use crate::numerics::Direction;
use crate::numerics::{E4m3, E5m2};

/// A contiguous, row-major array on one device.
///
/// Cloning a tensor gives a second handle to the same memory; the memory is freed, in stream order,
/// with the last handle. Operations take outputs as `&mut Tensor` and refuse outputs that overlap
/// inputs.
///
/// ```
/// use grouped_linear::{DType, Device, Tensor};
/// let stream = Device::cpu().stream()?;
/// let x = Tensor::from_f32(&stream, &[2, 2], DType::Bf16, &[1.0, 2.0, 3.0, 4.0])?;
/// assert_eq!(x.to_f32(&stream)?, [1.0, 2.0, 3.0, 4.0]);
/// # Ok::<(), grouped_linear::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tensor {
    memory: Memory,
    offset: usize, // bytes
    shape: Vec<usize>,
    dtype: DType,
    device: DeviceId,
}

impl Tensor {
    /// A tensor with unspecified contents, allocated in the stream's order.
    ///
    /// # Errors
    /// Out of memory, or a size beyond the address space.
    pub fn empty(stream: &Stream, shape: &[usize], dtype: DType) -> Result<Self> {
        let bytes = byte_size(shape, dtype)?;
        let memory = stream.queue().allocate(bytes)?;
        Ok(Self { memory, offset: 0, shape: shape.to_vec(), dtype, device: stream.device_id() })
    }

    /// A tensor of zeros.
    ///
    /// # Errors
    /// As [`Tensor::empty`].
    pub fn zeros(stream: &Stream, shape: &[usize], dtype: DType) -> Result<Self> {
        let mut tensor = Self::empty(stream, shape, dtype)?;
        tensor.fill_zero(stream)?;
        Ok(tensor)
    }

    /// A tensor with the elements of `values`.
    ///
    /// # Errors
    /// The number of values is not the product of `shape`; out of memory.
    pub fn from_slice<T: Element>(stream: &Stream, shape: &[usize], values: &[T]) -> Result<Self> {
        check_count(shape, values.len())?;
        let mut tensor = Self::empty(stream, shape, T::DTYPE)?;
        tensor.write(stream, values)?;
        Ok(tensor)
    }

    /// A floating-point tensor of type `dtype` from FP32 values, rounded to nearest even.
    ///
    /// # Errors
    /// `dtype` is not BF16, FP16 or FP32; otherwise as [`Tensor::from_slice`].
    pub fn from_f32(
        stream: &Stream,
        shape: &[usize],
        dtype: DType,
        values: &[f32],
    ) -> Result<Self> {
        check_count(shape, values.len())?;
        let mut tensor = Self::empty(stream, shape, dtype)?;
        tensor.write_f32(stream, values)?;
        Ok(tensor)
    }

    /// Lengths of the dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The device that holds the memory.
    pub fn device_id(&self) -> DeviceId {
        self.device
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether the tensor has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of all elements.
    pub fn byte_len(&self) -> usize {
        self.len() * self.dtype.bytes()
    }

    /// The same memory under another shape with as many elements.
    ///
    /// # Errors
    /// The number of elements differs.
    pub fn reshape(&self, shape: &[usize]) -> Result<Self> {
        check_count(shape, self.len())?;
        Ok(Self { shape: shape.to_vec(), ..self.clone() })
    }

    /// `count` entries of the first dimension from `start` on, sharing the memory.
    ///
    /// # Errors
    /// The range does not lie in the first dimension.
    pub fn narrow(&self, start: usize, count: usize) -> Result<Self> {
        let end = start.checked_add(count);
        let [length, ref inner @ ..] = *self.shape else {
            return Err(Error::shape("narrow", &self.shape, "at least one dimension"));
        };
        if end.is_none_or(|end| end > length) {
            return Err(Error::invalid(format!(
                "narrow: entries {start}..{start}+{count} were asked for, \
                 but the first dimension of {:?} has {length}",
                self.shape
            )));
        }
        let inner: usize = inner.iter().product();
        let mut shape = self.shape.clone();
        shape[0] = count;
        let offset = self.offset + start * inner * self.dtype.bytes();
        Ok(Self { shape, offset, ..self.clone() })
    }

    /// Entry `index` of the first dimension, sharing the memory.
    ///
    /// # Errors
    /// `index` is not below the length of the first dimension.
    pub fn index(&self, index: usize) -> Result<Self> {
        let mut entry = self.narrow(index, 1)?;
        entry.shape.remove(0);
        Ok(entry)
    }

    /// Overwrites all elements with `values`. Returns once `values` may be reused.
    ///
    /// # Errors
    /// Wrong number or type of elements, wrong device, or a driver failure.
    pub fn write<T: Element>(&mut self, stream: &Stream, values: &[T]) -> Result<()> {
        if T::DTYPE != self.dtype {
            return Err(Error::dtype("values", T::DTYPE, self.dtype.to_string()));
        }
        check_count(&self.shape, values.len())?;
        self.check_device("tensor", stream)?;
        stream.queue().upload(&self.memory, self.offset, bytemuck::cast_slice(values))
    }

    /// Overwrites all elements with their bytes, in this machine's order.
    pub(crate) fn write_bytes(&mut self, stream: &Stream, bytes: &[u8]) -> Result<()> {
        check_bytes(self, bytes.len())?;
        self.check_device("tensor", stream)?;
        stream.queue().upload(&self.memory, self.offset, bytes)
    }

    /// Waits for the stream and copies the bytes of all elements.
    pub(crate) fn read_bytes(&self, stream: &Stream, bytes: &mut [u8]) -> Result<()> {
        check_bytes(self, bytes.len())?;
        self.check_device("tensor", stream)?;
        stream.queue().download(&self.memory, self.offset, bytes)
    }

    /// Overwrites all elements with FP32 values, rounded to the tensor's type (nearest even).
    ///
    /// # Errors
    /// As [`Tensor::write`]; the tensor's type is not BF16, FP16 or FP32.
    pub fn write_f32(&mut self, stream: &Stream, values: &[f32]) -> Result<()> {
        match self.dtype {
            DType::F32 => self.write(stream, values),
            DType::Bf16 => {
                let rounded: Vec<bf16> = values.iter().map(|&v| bf16::from_f32(v)).collect();
                self.write(stream, &rounded)
            }
            DType::F16 => {
                let rounded: Vec<f16> = values.iter().map(|&v| f16::from_f32(v)).collect();
                self.write(stream, &rounded)
            }
            _ => Err(Error::dtype("tensor", self.dtype, "a floating-point type")),
        }
    }

    /// Sets every element to zero.
    ///
    /// # Errors
    /// Wrong device, or a driver failure.
    pub fn fill_zero(&mut self, stream: &Stream) -> Result<()> {
        self.check_device("tensor", stream)?;
        stream.queue().fill_zero(&self.memory, self.offset, self.byte_len())
    }

    /// Overwrites all elements with those of `source`, on the stream.
    ///
    /// # Errors
    /// Shape, type or device differ; the two overlap.
    pub fn copy_from(&mut self, stream: &Stream, source: &Self) -> Result<()> {
        if source.shape != self.shape {
            return Err(Error::shape("source", &source.shape, format!("{:?}", self.shape)));
        }
        if source.dtype != self.dtype {
            return Err(Error::dtype("source", source.dtype, self.dtype.to_string()));
        }
        self.check_device("destination", stream)?;
        source.check_device("source", stream)?;
        if self.overlaps(source) {
            return Err(Error::invalid("copy_from: source and destination overlap"));
        }
        stream.queue().copy(
            (&self.memory, self.offset),
            (&source.memory, source.offset),
            self.byte_len(),
        )
    }

    /// Waits for the stream and returns the elements.
    ///
    /// # Errors
    /// Wrong type or device, or a failure of earlier work on the stream.
    pub fn to_vec<T: Element>(&self, stream: &Stream) -> Result<Vec<T>> {
        if T::DTYPE != self.dtype {
            return Err(Error::dtype("result", T::DTYPE, self.dtype.to_string()));
        }
        self.check_device("tensor", stream)?;
        let mut values = vec![<T as bytemuck::Zeroable>::zeroed(); self.len()];
        let bytes = bytemuck::cast_slice_mut(&mut values);
        stream.queue().download(&self.memory, self.offset, bytes)?;
        Ok(values)
    }

    /// Waits for the stream and returns the elements of a floating-point tensor as FP32 (exact).
    ///
    /// # Errors
    /// As [`Tensor::to_vec`]; the tensor's type is an integer type.
    pub fn to_f32(&self, stream: &Stream) -> Result<Vec<f32>> {
        match self.dtype {
            DType::F32 => self.to_vec(stream),
            DType::Bf16 => Ok(self.to_vec::<bf16>(stream)?.into_iter().map(bf16::to_f32).collect()),
            DType::F16 => Ok(self.to_vec::<f16>(stream)?.into_iter().map(f16::to_f32).collect()),
            DType::E4m3 => Ok(self.to_vec::<E4m3>(stream)?.into_iter().map(E4m3::to_f32).collect()),
            DType::E5m2 => Ok(self.to_vec::<E5m2>(stream)?.into_iter().map(E5m2::to_f32).collect()),
            _ => Err(Error::dtype("tensor", self.dtype, "a floating-point type")),
        }
    }

    /// A copy on the device of `to`, through host memory; waits for `from`.
    ///
    /// # Errors
    /// `from` is not a stream of this tensor's device; out of memory; a driver failure.
    pub fn to_stream(&self, from: &Stream, to: &Stream) -> Result<Self> {
        let mut bytes = vec![0u8; self.byte_len()];
        self.read_bytes(from, &mut bytes)?;
        let mut copy = Self::empty(to, &self.shape, self.dtype)?;
        copy.write_bytes(to, &bytes)?;
        Ok(copy)
    }

    /// A tensor over memory that a backend made.
    pub(crate) fn from_memory(
        memory: Memory,
        offset: usize,
        shape: &[usize],
        dtype: DType,
        device: DeviceId,
    ) -> Self {
        Self { memory, offset, shape: shape.to_vec(), dtype, device }
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Offset of the first element in the memory, in bytes.
    pub(crate) fn byte_offset(&self) -> usize {
        self.offset
    }

    /// Device address of the first element; `None` for host memory.
    pub(crate) fn address(&self) -> Option<u64> {
        match &self.memory {
            Memory::Host(_) => None,
            Memory::Device(memory) => Some(memory.address() + self.offset as u64),
        }
    }

    /// Whether the two are handles to the same bytes.
    pub(crate) fn same_as(&self, other: &Self) -> bool {
        self.device == other.device
            && self.memory.same_as(&other.memory)
            && self.offset == other.offset
            && self.byte_len() == other.byte_len()
    }

    /// Whether the two tensors share at least one byte.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        if self.is_empty() || other.is_empty() || self.device != other.device {
            return false;
        }
        if let (Some(a), Some(b)) = (self.address(), other.address()) {
            return a < b + other.byte_len() as u64 && b < a + self.byte_len() as u64;
        }
        self.memory.same_as(&other.memory)
            && self.offset < other.offset + other.byte_len()
            && other.offset < self.offset + self.byte_len()
    }

    pub(crate) fn check_device(&self, what: &'static str, stream: &Stream) -> Result<()> {
        self.check_lies_on(what, stream.device_id())
    }

    /// Refuses a tensor that does not lie where another one does.
    pub(crate) fn check_same_device(&self, what: &'static str, other: &Self) -> Result<()> {
        self.check_lies_on(what, other.device)
    }

    fn check_lies_on(&self, what: &'static str, device: DeviceId) -> Result<()> {
        if self.device == device {
            return Ok(());
        }
        let (got, want) = (self.device.to_string(), device.to_string());
        Err(Kind::WrongDevice { what, got, want }.into())
    }

    pub(crate) fn check(
        &self,
        what: &'static str,
        shape: &[usize],
        dtype: DType,
        stream: &Stream,
    ) -> Result<()> {
        if self.shape != shape {
            return Err(Error::shape(what, &self.shape, format!("{shape:?}")));
        }
        if self.dtype != dtype {
            return Err(Error::dtype(what, self.dtype, dtype.to_string()));
        }
        self.check_device(what, stream)
    }
}

/// Bytes of a tensor of this shape.
pub(crate) fn byte_size(shape: &[usize], dtype: DType) -> Result<usize> {
    // Empty dimensions are left out, so that the product of any of the others is in range too.
    let bytes = shape
        .iter()
        .filter(|&&length| length > 0)
        .try_fold(dtype.bytes(), |bytes, &length| bytes.checked_mul(length))
        .filter(|&bytes| bytes <= isize::MAX as usize)
        .ok_or_else(|| Error::shape("tensor", shape, "fewer than 2^63 bytes".to_string()))?;
    Ok(if shape.contains(&0) { 0 } else { bytes })
}

fn check_count(shape: &[usize], count: usize) -> Result<()> {
    if byte_size(shape, DType::I64)? / DType::I64.bytes() == count {
        return Ok(());
    }
    Err(Error::shape("tensor", shape, format!("a shape of {count} elements")))
}

fn check_bytes(tensor: &Tensor, count: usize) -> Result<()> {
    if tensor.byte_len() == count {
        return Ok(());
    }
    Err(Error::invalid(format!("tensor: it has {} bytes, not {count}", tensor.byte_len())))
}
