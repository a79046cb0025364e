//! Tensor maps, and what is wrong with those that the driver refuses.

use std::ffi::c_void;

use grouped_linear_kernels::abi::TensorMap;

use super::driver::Driver;
use super::ffi::{CuTensorMap, tensor_map};
use crate::backend::MapDescriptor;
use crate::error::{Error, Result};
use crate::tensor::DType;

/// Bytes that the copy engine's addresses, pitches and box rows are multiples of.
const UNIT: u64 = 16;
/// Span of the swizzle, bytes.
const SWIZZLE_BYTES: u64 = 128;

/// Encodes a map: 128-byte swizzle, 256-byte L2 promotion, zeros outside.
pub(super) fn encode(driver: &Driver, descriptor: &MapDescriptor) -> Result<TensorMap> {
    let MapDescriptor { address, dtype, rank, extents, strides, tile } = *descriptor;
    if !(2..=3).contains(&rank) {
        return Err(Error::invalid(format!("tensor map: rank {rank} was given, 2 or 3 is needed")));
    }
    if !address.is_multiple_of(UNIT) {
        return Err(Error::invalid(format!(
            "tensor copies need addresses that are multiples of 16, {address:#x} was given; \
             move the tensor, or ask for KernelChoice::Simt"
        )));
    }
    let mut map = CuTensorMap([0; 16]);
    // SAFETY: extents, box and element strides have at least `rank` entries, strides at least
    // `rank - 1`; the map is aligned as the newest driver asks. The address is not read.
    let outcome = unsafe {
        driver.tensor_map_encode_tiled(
            &mut map,
            data_type(dtype)?,
            rank as u32,
            address as *mut c_void,
            extents.as_ptr(),
            strides.as_ptr(),
            tile.as_ptr(),
            [1, 1, 1].as_ptr(),
            tensor_map::INTERLEAVE_NONE,
            tensor_map::SWIZZLE_128B,
            tensor_map::L2_PROMOTION_256B,
            tensor_map::OOB_FILL_ZERO,
        )
    };
    match (outcome, broken_rule(descriptor)) {
        (Ok(()), _) => Ok(TensorMap(map.0)),
        (Err(_), Some(rule)) => Err(Error::unsupported(format!("tensor map: {rule}"))),
        (Err(error), None) => Err(error),
    }
}

fn data_type(dtype: DType) -> Result<u32> {
    match dtype {
        DType::Bf16 => Ok(tensor_map::BFLOAT16),
        DType::F16 => Ok(tensor_map::FLOAT16),
        DType::F32 | DType::I32 | DType::I64 => {
            Err(Error::dtype("tensor map", dtype, "bf16 or f16"))
        }
    }
}

/// The first rule of the driver's documentation that a map breaks.
fn broken_rule(map: &MapDescriptor) -> Option<String> {
    let bytes = map.dtype.bytes() as u64;
    for dimension in 0..map.rank.min(3) {
        let (extent, tile) = (map.extents[dimension], map.tile[dimension]);
        if extent == 0 || extent > 1 << 32 {
            return Some(format!("extent {dimension} is {extent}, 1 to 2^32 is possible"));
        }
        if tile == 0 || tile > 256 {
            return Some(format!("box extent {dimension} is {tile}, 1 to 256 is possible"));
        }
    }
    for (index, &stride) in map.strides.iter().take(map.rank.saturating_sub(1)).enumerate() {
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
    let row = u64::from(map.tile[0]) * bytes;
    if !row.is_multiple_of(UNIT) {
        return Some(format!("a box row has {row} bytes, a multiple of 16 is needed"));
    }
    if row > SWIZZLE_BYTES {
        return Some(format!("a box row has {row} bytes, the swizzle spans {SWIZZLE_BYTES}"));
    }
    None
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
    };

    fn check(map: MapDescriptor, expected: Option<&str>) {
        let found = broken_rule(&map);
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
        // Dimensions beyond the rank do not count.
        check(MapDescriptor { rank: 2, extents: [64, 256, 0], strides: [128, 1], ..SOUND }, None);
    }
}
