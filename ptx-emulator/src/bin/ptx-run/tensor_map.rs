//! Tensor maps of a description.

use ptx_emulator::tensor_map::{Interleave, L2Promotion, OutOfBoundsFill, Swizzle, TensorDataType};
use ptx_emulator::{Arch, TensorMap, TiledMap};
use toml::Spanned;

use crate::buffers::Buffers;
use crate::description::{self, Description};
use crate::failure::Result;

const DATA_TYPES: &[(&str, TensorDataType)] = &[
    ("u8", TensorDataType::U8),
    ("u16", TensorDataType::U16),
    ("u32", TensorDataType::U32),
    ("i32", TensorDataType::I32),
    ("u64", TensorDataType::U64),
    ("i64", TensorDataType::I64),
    ("f16", TensorDataType::F16),
    ("f32", TensorDataType::F32),
    ("f64", TensorDataType::F64),
    ("bf16", TensorDataType::Bf16),
    ("f32_ftz", TensorDataType::F32Ftz),
    ("tf32", TensorDataType::Tf32),
    ("tf32_ftz", TensorDataType::Tf32Ftz),
    ("packed4_align8", TensorDataType::Packed4Align8),
    ("packed4_align16", TensorDataType::Packed4Align16),
    ("packed6_align16", TensorDataType::Packed6Align16),
];

const INTERLEAVES: &[(&str, Interleave)] =
    &[("none", Interleave::None), ("16", Interleave::Bytes16), ("32", Interleave::Bytes32)];

const SWIZZLES: &[(&str, Swizzle)] = &[
    ("none", Swizzle::None),
    ("32", Swizzle::Bytes32),
    ("64", Swizzle::Bytes64),
    ("128", Swizzle::Bytes128),
    ("128_atom32", Swizzle::Bytes128Atom32),
    ("128_atom32_flip8", Swizzle::Bytes128Atom32Flip8),
    ("128_atom64", Swizzle::Bytes128Atom64),
];

const PROMOTIONS: &[(&str, L2Promotion)] = &[
    ("none", L2Promotion::None),
    ("64", L2Promotion::Bytes64),
    ("128", L2Promotion::Bytes128),
    ("256", L2Promotion::Bytes256),
];

const FILLS: &[(&str, OutOfBoundsFill)] =
    &[("zeros", OutOfBoundsFill::Zeros), ("nan", OutOfBoundsFill::Nan)];

/// Encodes a map over a buffer.
pub fn encode(
    map: &description::TensorMap,
    buffers: &Buffers<'_>,
    description: &Description,
    arch: Arch,
) -> Result<TensorMap> {
    let buffer = buffers.find(&map.buffer)?;
    let data_type = choose(&map.data_type, DATA_TYPES, description)?;
    let strides = match (&map.strides, data_type.bytes()) {
        (Some(strides), _) => strides.clone(),
        (None, Some(bytes)) => dense(&map.extents, bytes.into()),
        (None, None) => {
            let text = "a packed type needs `strides`";
            return Err(description.wrong(&map.data_type, text));
        }
    };
    let tiled = TiledMap {
        data_type,
        address: buffer.address.wrapping_add(map.offset),
        extents: map.extents.clone(),
        strides,
        tile: map.tile.clone(),
        element_strides: map.element_strides.clone().unwrap_or(vec![1; map.extents.len()]),
        interleave: optional(&map.interleave, INTERLEAVES, description)?,
        swizzle: optional(&map.swizzle, SWIZZLES, description)?,
        l2_promotion: optional(&map.l2_promotion, PROMOTIONS, description)?,
        fill: optional(&map.fill, FILLS, description)?,
    };
    TensorMap::encode_tiled(&tiled, arch)
        .map_err(|error| description.wrong(&map.buffer, format!("the tensor map: {error}")))
}

/// Bytes from one element to the next in dimension 1 and on, without gaps.
fn dense(extents: &[u64], bytes: u64) -> Vec<u64> {
    let outer = extents.len().saturating_sub(1);
    let mut stride = bytes;
    let next = |extent: &u64| {
        stride = stride.saturating_mul(*extent);
        stride
    };
    extents.iter().take(outer).map(next).collect()
}

fn optional<T: Copy + Default>(
    text: &Option<Spanned<String>>,
    table: &[(&str, T)],
    description: &Description,
) -> Result<T> {
    text.as_ref().map_or(Ok(T::default()), |text| choose(text, table, description))
}

fn choose<T: Copy>(
    text: &Spanned<String>,
    table: &[(&str, T)],
    description: &Description,
) -> Result<T> {
    let found = table.iter().find(|(name, _)| name == text.get_ref());
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
        let problem = format!("unknown `{}`; known are {}", text.get_ref(), names.join(", "));
        description.wrong(text, problem)
    })
}
