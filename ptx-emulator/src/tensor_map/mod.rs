//! Tensor maps: what a tensor copy knows about the tensor in global memory.
//!
//! A [`TiledMap`] says everything that `cuTensorMapEncodeTiled` is told.
//! [`TensorMap::encode_tiled`] checks the driver's rules and packs it into the 128 bytes that a
//! kernel gets as a parameter or finds in memory. The hardware's layout of these bytes is not
//! public: this crate has its own, and maps from a driver are refused.
//!
//! ```
//! use ptx_emulator::Arch;
//! use ptx_emulator::tensor_map::{Swizzle, TensorDataType, TensorMap, TiledMap};
//!
//! // 300 rows of 200 bf16 numbers, copied in boxes of 64 rows of 64 numbers.
//! let map = TiledMap {
//!     data_type: TensorDataType::Bf16,
//!     address: 0x1000,
//!     extents: vec![200, 300],
//!     strides: vec![400],
//!     tile: vec![64, 64],
//!     element_strides: vec![1, 1],
//!     interleave: Default::default(),
//!     swizzle: Swizzle::Bytes128,
//!     l2_promotion: Default::default(),
//!     fill: Default::default(),
//! };
//! let encoded = TensorMap::encode_tiled(&map, Arch::Sm90a)?;
//! assert_eq!(TensorMap::decode(encoded.as_bytes(), Arch::Sm90a)?, map);
//!
//! let wide = TiledMap { tile: vec![128, 64], ..map };
//! let error = TensorMap::encode_tiled(&wide, Arch::Sm90a).unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "a row of the box has 256 bytes, at most 128 are possible with Bytes128"
//! );
//! # Ok::<(), ptx_emulator::tensor_map::TensorMapError>(())
//! ```

mod encoding;
mod error;
mod fields;
pub(crate) mod geometry;
pub(crate) mod reduce;
pub(crate) mod replace;
mod rules;
pub(crate) mod swizzle;
#[cfg(test)]
mod tests;

pub use error::TensorMapError;
pub use fields::{Interleave, L2Promotion, OutOfBoundsFill, Swizzle, TensorDataType, TiledMap};

use crate::arch::Arch;

/// The 128 bytes of a tensor map, to be copied into a kernel's parameters or into memory at a
/// multiple of 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C, align(64))]
pub struct TensorMap([u8; 128]);

impl TensorMap {
    /// Encodes a map of a tensor that is copied in boxes, as `cuTensorMapEncodeTiled` does.
    ///
    /// # Errors
    ///
    /// The first rule of the driver's function that is broken, with the value and the limit; or a
    /// legal map that the emulator does not support.
    pub fn encode_tiled(map: &TiledMap, arch: Arch) -> Result<Self, TensorMapError> {
        rules::check(map, arch)?;
        Ok(Self(encoding::write(map)))
    }

    /// Reads a map back and checks the rules again, because a kernel may have replaced fields.
    ///
    /// Maps for im2col copies do not exist in this encoding; the emulator does not support them.
    ///
    /// # Errors
    ///
    /// The bytes are not of this encoder, or break a rule.
    pub fn decode(bytes: &[u8; 128], arch: Arch) -> Result<TiledMap, TensorMapError> {
        let map = encoding::read(bytes)?;
        rules::check(&map, arch)?;
        Ok(map)
    }

    /// The bytes as they are.
    pub const fn from_bytes(bytes: [u8; 128]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 128] {
        &self.0
    }
}
