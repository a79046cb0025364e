//! The state of random rounding.

use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::tensor::{DType, Tensor};

/// Where random numbers come from: a seed, and an offset that every use moves on by one, both on
/// the device, so that a replayed graph rounds with other numbers each time. Clones are handles to
/// the same memory.
///
/// The numbers are those of Philox4x32-7 with the seed as its key and the offset in its counter
/// (Salmon et al., SC 2011), so a quantization can be repeated from the state before it.
///
/// ```
/// use grouped_linear::{Device, RandomState};
/// let stream = Device::cpu().stream()?;
/// let state = RandomState::new(&stream, 7)?;
/// assert_eq!(state.read(&stream)?, (7, 0));
/// # Ok::<(), grouped_linear::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RandomState(Tensor);

impl RandomState {
    /// A state at offset 0.
    ///
    /// # Errors
    /// Out of memory; work is being recorded.
    pub fn new(stream: &Stream, seed: u64) -> Result<Self> {
        Tensor::from_slice(stream, &[2], &[seed as i64, 0]).map(Self)
    }

    /// A state in memory that exists: `[2]` of I64, seed and offset, at an address that is a
    /// multiple of 8.
    ///
    /// # Errors
    /// Another shape or type.
    pub fn from_tensor(state: Tensor) -> Result<Self> {
        if state.shape() != [2] {
            return Err(Error::shape("random state", state.shape(), "[2]"));
        }
        if state.dtype() != DType::I64 {
            return Err(Error::dtype("random state", state.dtype(), "i64"));
        }
        Ok(Self(state))
    }

    /// Seed and offset, `i64[2]`; a checkpoint keeps them, and [`RandomState::restore`] takes them
    /// back.
    pub fn tensor(&self) -> &Tensor {
        &self.0
    }

    /// Goes on from this seed and offset, in the same memory, so that graphs that use it do, too.
    ///
    /// ```
    /// use grouped_linear::{Device, RandomState};
    /// let stream = Device::cpu().stream()?;
    /// let mut state = RandomState::new(&stream, 7)?;
    /// state.restore(&stream, 3, 40)?;
    /// assert_eq!(state.read(&stream)?, (3, 40));
    /// # Ok::<(), grouped_linear::Error>(())
    /// ```
    ///
    /// # Errors
    /// A stream of another device, or one that records a graph; a driver failure.
    pub fn restore(&mut self, stream: &Stream, seed: u64, offset: u64) -> Result<()> {
        self.0.write(stream, &[seed as i64, offset as i64])
    }

    /// Seed and offset. Waits for the stream.
    ///
    /// # Errors
    /// A driver failure; a failure of earlier work.
    pub fn read(&self, stream: &Stream) -> Result<(u64, u64)> {
        let words = self.0.to_vec::<i64>(stream)?;
        match *words {
            [seed, offset] => Ok((seed as u64, offset as u64)),
            _ => Err(Error::shape("random state", &[words.len()], "[2]")),
        }
    }
}
