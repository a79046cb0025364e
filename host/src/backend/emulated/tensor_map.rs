//! Tensor maps in the emulator's encoding, which the emulated copy engine reads.

use grouped_linear_kernels::abi::TensorMap;
use ptx_emulator::Arch;
use ptx_emulator::tensor_map::{
    self, Interleave, L2Promotion, OutOfBoundsFill, Swizzle, TensorDataType, TiledMap,
};

use crate::backend::MapDescriptor;
use crate::error::{Error, Result};
use crate::tensor::DType;

/// Encodes a map: 256-byte L2 promotion, zeros outside.
pub(super) fn encode(descriptor: &MapDescriptor, arch: Arch) -> Result<TensorMap> {
    descriptor.check_address()?;
    let MapDescriptor { address, dtype, rank, extents, strides, tile, swizzle } = descriptor;
    let map = TiledMap {
        data_type: data_type(*dtype)?,
        address: *address,
        extents: extents.iter().copied().take(*rank).collect(),
        strides: strides.iter().copied().take(rank.saturating_sub(1)).collect(),
        tile: tile.iter().copied().take(*rank).collect(),
        element_strides: vec![1; *rank],
        interleave: Interleave::None,
        swizzle: if *swizzle { Swizzle::Bytes128 } else { Swizzle::None },
        l2_promotion: L2Promotion::Bytes256,
        fill: OutOfBoundsFill::Zeros,
    };
    let encoded = tensor_map::TensorMap::encode_tiled(&map, arch).map_err(|error| {
        let rule = descriptor.broken_rule().unwrap_or_else(|| error.to_string());
        Error::unsupported(format!("tensor map: {rule}"))
    })?;
    let mut words = [0; 16];
    for (word, bytes) in words.iter_mut().zip(encoded.as_bytes().as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    Ok(TensorMap(words))
}

fn data_type(dtype: DType) -> Result<TensorDataType> {
    match dtype {
        DType::Bf16 => Ok(TensorDataType::Bf16),
        DType::F16 => Ok(TensorDataType::F16),
        DType::F32 => Ok(TensorDataType::F32),
        DType::E4m3 | DType::E5m2 | DType::U8 => Ok(TensorDataType::U8),
        DType::I32 | DType::I64 => {
            Err(Error::dtype("tensor map", dtype, "a floating-point type or u8"))
        }
    }
}
