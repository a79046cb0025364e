//! Typed values in memory and in parameter blocks.

use super::{Machine, MemoryError};
use crate::tensor_map::TensorMap;

/// A number as a kernel sees it: little-endian, and aligned to its size.
///
/// Implemented for the integers of 8 to 64 bits, `f32`, `f64`, and `f16` and `bf16` of the crate
/// `half`; it cannot be implemented elsewhere.
pub trait Scalar: Copy + sealed::Bytes {}

mod sealed {
    /// Conversion to and from memory.
    pub trait Bytes: Sized {
        /// The size in bytes, which is the alignment as well.
        const SIZE: usize;
        /// Adds the bytes to others.
        fn append(self, bytes: &mut Vec<u8>);
        /// The number whose bytes these are; missing ones are zero.
        fn from_bytes(bytes: &[u8]) -> Self;
    }
}

macro_rules! scalars {
    ($($scalar:ty),*) => {
        $(
            impl sealed::Bytes for $scalar {
                const SIZE: usize = size_of::<Self>();

                fn append(self, bytes: &mut Vec<u8>) {
                    bytes.extend(self.to_le_bytes());
                }

                fn from_bytes(bytes: &[u8]) -> Self {
                    let mut own = [0; size_of::<Self>()];
                    own.iter_mut().zip(bytes).for_each(|(own, byte)| *own = *byte);
                    Self::from_le_bytes(own)
                }
            }

            impl Scalar for $scalar {}
        )*
    };
}

scalars!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, half::f16, half::bf16);

fn bytes_of<T: Scalar>(values: &[T]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size_of_val(values));
    values.iter().for_each(|value| value.append(&mut bytes));
    bytes
}

impl Machine {
    /// New memory, at a multiple of 256, that holds these values one after another.
    ///
    /// # Errors
    ///
    /// There is not enough memory.
    pub fn upload<T: Scalar>(&mut self, values: &[T]) -> Result<u64, MemoryError> {
        let bytes = bytes_of(values);
        let address = self.allocate(bytes.len() as u64)?;
        self.write(address, &bytes)?;
        Ok(address)
    }

    /// Writes values one after another. The address need not be aligned.
    ///
    /// # Errors
    ///
    /// They do not fit into one allocation at the address.
    pub fn write_values<T: Scalar>(
        &mut self,
        address: u64,
        values: &[T],
    ) -> Result<(), MemoryError> {
        self.write(address, &bytes_of(values))
    }

    /// Reads `count` values that lie one after another. The address need not be aligned.
    ///
    /// # Errors
    ///
    /// One allocation does not hold them all.
    pub fn read_values<T: Scalar>(
        &self,
        address: u64,
        count: usize,
    ) -> Result<Vec<T>, MemoryError> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let length = (count as u64).saturating_mul(T::SIZE as u64);
        let bytes = self.memory.bytes(address, length)?;
        Ok(bytes.chunks_exact(T::SIZE).map(T::from_bytes).collect())
    }
}

/// The bytes of a kernel's parameters, put together by the rules of the PTX ABI: each at the next
/// multiple of its alignment, which is the size of a number.
///
/// ```
/// use ptx_emulator::Parameters;
///
/// // .entry scale(.param .u32 count, .param .u64 data, .param .f32 factor)
/// let parameters = Parameters::new().value(7u32).value(0x7000_0000_0000u64).value(1.5f32);
/// assert_eq!(parameters.as_bytes().len(), 20);
/// assert_eq!(parameters.as_bytes()[..8], [7, 0, 0, 0, 0, 0, 0, 0]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters(Vec<u8>);

impl Parameters {
    /// No parameters.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a number; addresses are `u64`.
    #[must_use]
    pub fn value<T: Scalar>(mut self, value: T) -> Self {
        self.align(T::SIZE);
        value.append(&mut self.0);
        self
    }

    /// Adds a tensor map passed by value: 128 bytes at a multiple of 64.
    #[must_use]
    pub fn tensor_map(self, map: &TensorMap) -> Self {
        self.bytes(map.as_bytes(), 64)
    }

    /// Adds a structure or an array. An alignment of 0 counts as 1.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8], alignment: u16) -> Self {
        self.align(usize::from(alignment));
        self.0.extend_from_slice(bytes);
        self
    }

    /// What [`Machine::launch`] is given.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn align(&mut self, alignment: usize) {
        let length = self.0.len().next_multiple_of(alignment.max(1));
        self.0.resize(length, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Arch;
    use half::{bf16, f16};

    #[test]
    fn values_come_back_as_they_went() {
        let mut machine = Machine::new(Arch::Sm90a);
        let address = machine.upload(&[1.5f32, -2.0]).unwrap();
        let mut bytes = [0; 8];
        machine.read(address, &mut bytes).unwrap();
        assert_eq!(bytes, [0, 0, 0xC0, 0x3F, 0, 0, 0, 0xC0]);
        assert_eq!(machine.read_values::<f32>(address, 2).unwrap(), [1.5, -2.0]);
        assert_eq!(machine.read_values::<i16>(address + 2, 3).unwrap(), [0x3FC0, 0, -0x4000]);

        machine.write_values(address + 1, &[0x0102_0304u32]).unwrap();
        assert_eq!(machine.read_values::<u8>(address, 5).unwrap(), [0, 4, 3, 2, 1]);
        machine.write_values(address, &[bf16::ONE]).unwrap();
        machine.write_values(address + 2, &[f16::ONE]).unwrap();
        assert_eq!(machine.read_values::<u32>(address, 1).unwrap(), [0x3C00_3F80]);

        assert!(machine.read_values::<u64>(address, 2).is_err());
        assert!(machine.read_values::<u64>(address, usize::MAX).is_err());
        assert!(machine.write_values(address + 8, &[1u8]).is_err());
        assert_eq!(machine.read_values::<u64>(0, 0).unwrap(), []);
    }

    #[test]
    fn parameters_are_aligned_by_their_sizes() {
        let map = TensorMap::from_bytes([9; 128]);
        let parameters = Parameters::new()
            .value(1u8)
            .value(-1i16)
            .value(2u64)
            .bytes(&[3, 4, 5], 4)
            .value(1.0f64)
            .tensor_map(&map)
            .value(6u8);
        let mut expected = vec![1, 0, 0xFF, 0xFF, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 4, 5];
        expected.extend([0; 5 + 6]);
        expected.extend([0xF0, 0x3F]);
        expected.resize(64, 0);
        expected.extend([9; 128]);
        expected.push(6);
        assert_eq!(parameters.as_bytes(), expected);
    }
}
