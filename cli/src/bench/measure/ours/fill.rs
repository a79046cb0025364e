//! Memory before a comparison: what nobody writes must not pass for a result.

use grouped_linear::{DType, Result, Stream, Tensor};
use half::bf16;

/// Elements that come from the host; the others are copies of them.
const WRITTEN: usize = 1 << 16;

/// No number in any element, which no product is near and which shows where a former value was
/// read.
pub fn with_nan(stream: &Stream, tensor: &Tensor) -> Result<()> {
    let count: usize = tensor.shape().iter().product();
    let flat = tensor.reshape(&[count])?;
    let first = count.min(WRITTEN);
    let mut written = flat.narrow(0, first)?;
    match tensor.dtype() {
        DType::F32 => written.write(stream, &vec![f32::NAN; first])?,
        _ => written.write(stream, &vec![bf16::NAN; first])?,
    }
    repeat(stream, &flat, first)
}

/// Repeats the first elements over all of a flat tensor.
pub fn repeat(stream: &Stream, flat: &Tensor, first: usize) -> Result<()> {
    let count = flat.shape()[0];
    let mut start = first;
    while start < count {
        // Copies of whole repetitions are repetitions; each is as long as all before it.
        let length = start.min(count - start);
        flat.narrow(start, length)?.copy_from(stream, &flat.narrow(0, length)?)?;
        start += length;
    }
    Ok(())
}
