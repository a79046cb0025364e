//! What a tensor map shall describe, and what is wrong with those that an engine refuses.

use crate::error::{Error, Result};
use crate::tensor::DType;

/// Bytes that the copy engine's addresses, pitches and box rows are multiples of.
const UNIT: u64 = 16;
/// Span of the swizzle, bytes.
const SWIZZLE_BYTES: u64 = 128;

/// What a tensor map shall describe; extents innermost first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MapDescriptor {
    /// Device address of the first element, a multiple of 16.
    pub address: u64,
    /// A floating-point type; FP8 is copied as bytes.
    pub dtype: DType,
    /// Number of dimensions in use, 2 or 3.
    pub rank: usize,
    /// Elements per dimension.
    pub extents: [u64; 3],
    /// Bytes from one index to the next, of dimensions 1 and 2.
    pub strides: [u64; 2],
    /// Elements of the box per dimension; with swizzle the innermost spans 128 bytes.
    pub tile: [u32; 3],
    /// Whether boxes lie in shared memory with 128-byte swizzle; else as they are.
    pub swizzle: bool,
}

impl MapDescriptor {
    /// Refuses ranks that have no map, and misaligned addresses.
    pub(crate) fn check_address(&self) -> Result<()> {
        let (rank, address) = (self.rank, self.address);
        if !(2..=3).contains(&rank) {
            return Err(Error::invalid(format!(
                "tensor map: rank {rank} was given, 2 or 3 is needed"
            )));
        }
        if !address.is_multiple_of(UNIT) {
            return Err(Error::invalid(format!(
                "tensor copies need addresses that are multiples of 16, {address:#x} was given; \
                 move the tensor, or ask for KernelChoice::Simt"
            )));
        }
        Ok(())
    }

    /// The first rule of the driver's documentation that the map breaks.
    pub(crate) fn broken_rule(&self) -> Option<String> {
        let bytes = self.dtype.bytes() as u64;
        for dimension in 0..self.rank.min(3) {
            let (extent, tile) = (self.extents[dimension], self.tile[dimension]);
            if extent == 0 || extent > 1 << 32 {
                return Some(format!("extent {dimension} is {extent}, 1 to 2^32 is possible"));
            }
            if tile == 0 || tile > 256 {
                return Some(format!("box extent {dimension} is {tile}, 1 to 256 is possible"));
            }
        }
        for (index, &stride) in self.strides.iter().take(self.rank.saturating_sub(1)).enumerate() {
            let dimension = index + 1;
            if !stride.is_multiple_of(UNIT) {
                return Some(format!(
                    "the pitch of dimension {dimension} is {stride} bytes, a multiple of 16 is needed; \
                     pad the features to a multiple of {}",
                    UNIT / bytes
                ));
            }
            if stride >= 1 << 40 {
                return Some(format!(
                    "the pitch of dimension {dimension} is {stride} bytes, less than 2^40 is possible"
                ));
            }
        }
        let row = u64::from(self.tile[0]) * bytes;
        if !row.is_multiple_of(UNIT) {
            return Some(format!("a box row has {row} bytes, a multiple of 16 is needed"));
        }
        if self.swizzle && row > SWIZZLE_BYTES {
            return Some(format!("a box row has {row} bytes, the swizzle spans {SWIZZLE_BYTES}"));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: MapDescriptor = MapDescriptor {
        address: 1 << 20,
        dtype: DType::Bf16,
        rank: 3,
        extents: [64, 256, 8],
        strides: [128, 32768],
        tile: [64, 128, 1],
        swizzle: true,
    };

    fn check(map: MapDescriptor, expected: Option<&str>) {
        let found = map.broken_rule();
        match expected {
            Some(part) => assert!(found.as_deref().unwrap_or("").contains(part), "{found:?}"),
            None => assert_eq!(found, None),
        }
    }

    #[test]
    fn a_refused_map_names_its_rule() {
        check(SOUND, None);
        check(MapDescriptor { extents: [64, 0, 8], ..SOUND }, Some("extent 1 is 0"));
        check(MapDescriptor { extents: [64, 256, (1 << 32) + 1], ..SOUND }, Some("extent 2 is"));
        check(MapDescriptor { tile: [64, 257, 1], ..SOUND }, Some("box extent 1 is 257"));
        check(MapDescriptor { strides: [124, 32768], ..SOUND }, Some("dimension 1 is 124 bytes"));
        check(MapDescriptor { strides: [128, 1 << 40], ..SOUND }, Some("dimension 2 is"));
        check(MapDescriptor { tile: [4, 128, 1], ..SOUND }, Some("box row has 8 bytes"));
        check(MapDescriptor { tile: [128, 128, 1], ..SOUND }, Some("the swizzle spans 128"));
        check(MapDescriptor { tile: [128, 128, 1], swizzle: false, ..SOUND }, None);
        // Dimensions beyond the rank do not count.
        check(MapDescriptor { rank: 2, extents: [64, 256, 0], strides: [128, 1], ..SOUND }, None);
    }
}
