//! Tensor maps, encoded by the driver.

use std::ffi::c_void;

use grouped_linear_kernels::abi::TensorMap;

use super::driver::Driver;
use super::ffi::{CuTensorMap, tensor_map};
use crate::backend::MapDescriptor;
use crate::error::{Error, Result};
use crate::tensor::DType;

/// Encodes a map: 256-byte L2 promotion, zeros outside.
pub(super) fn encode(driver: &Driver, descriptor: &MapDescriptor) -> Result<TensorMap> {
    let MapDescriptor { address, dtype, rank, extents, strides, tile, swizzle } = *descriptor;
    descriptor.check_address()?;
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
            if swizzle { tensor_map::SWIZZLE_128B } else { tensor_map::SWIZZLE_NONE },
            tensor_map::L2_PROMOTION_256B,
            tensor_map::OOB_FILL_ZERO,
        )
    };
    match (outcome, descriptor.broken_rule()) {
        (Ok(()), _) => Ok(TensorMap(map.0)),
        (Err(_), Some(rule)) => Err(Error::unsupported(format!("tensor map: {rule}"))),
        (Err(error), None) => Err(error),
    }
}

fn data_type(dtype: DType) -> Result<u32> {
    match dtype {
        DType::Bf16 => Ok(tensor_map::BFLOAT16),
        DType::F16 => Ok(tensor_map::FLOAT16),
        DType::F32 => Ok(tensor_map::FLOAT32),
        DType::E4m3 | DType::E5m2 | DType::U8 => Ok(tensor_map::UINT8),
        DType::I32 | DType::I64 => {
            Err(Error::dtype("tensor map", dtype, "a floating-point type or u8"))
        }
    }
}
