//! The rules of `cuTensorMapEncodeTiled` (CUDA driver API, tensor map object management).

use super::error::TensorMapError as Error;
use super::fields::{Interleave, OutOfBoundsFill, Swizzle, TensorDataType, TiledMap};
use crate::arch::Arch;

/// The most dimensions.
pub(super) const MAX_RANK: usize = 5;
/// The largest extent of a tensor.
const MAX_EXTENT: u64 = 1 << 32;
/// Strides are smaller, bytes.
const STRIDE_END: u64 = 1 << 40;
/// The largest extent of a box.
const MAX_TILE: u32 = 256;
/// The largest element stride.
const MAX_ELEMENT_STRIDE: u32 = 8;
/// The innermost extent of the box of a type with gaps, which the tensor's is a multiple of.
const PADDED_TILE: u32 = 128;

/// Checks every rule; the first one broken is the error.
pub(super) fn check(map: &TiledMap, arch: Arch) -> Result<(), Error> {
    check_lengths(map)?;
    check_arch(map, arch)?;
    check_interleave(map)?;
    check_tensor(map)?;
    check_box(map)?;
    if map.fill == OutOfBoundsFill::Nan && !map.data_type.is_float() {
        return Err(Error::Fill { data_type: map.data_type, fill: map.fill });
    }
    check_supported(map)
}

fn check_lengths(map: &TiledMap) -> Result<(), Error> {
    let rank = map.extents.len();
    if !(1..=MAX_RANK).contains(&rank) {
        return Err(Error::Rank { rank });
    }
    let lists = [
        ("strides", map.strides.len(), rank - 1),
        ("box extents", map.tile.len(), rank),
        ("element strides", map.element_strides.len(), rank),
    ];
    for (list, given, needed) in lists {
        if given != needed {
            return Err(Error::Length { list, given, needed, rank });
        }
    }
    Ok(())
}

fn check_arch(map: &TiledMap, arch: Arch) -> Result<(), Error> {
    if arch == Arch::Sm100a {
        return Ok(());
    }
    if map.data_type.bytes().is_none() {
        return Err(Error::ArchDataType { data_type: map.data_type, arch });
    }
    if map.swizzle.number() > Swizzle::Bytes128.number() {
        return Err(Error::ArchSwizzle { swizzle: map.swizzle, arch });
    }
    Ok(())
}

fn check_interleave(map: &TiledMap) -> Result<(), Error> {
    let rank = map.extents.len();
    if map.interleave != Interleave::None && rank < 3 {
        return Err(Error::InterleaveRank { interleave: map.interleave, rank });
    }
    if map.interleave == Interleave::Bytes32 && map.swizzle != Swizzle::Bytes32 {
        return Err(Error::InterleaveSwizzle { swizzle: map.swizzle });
    }
    Ok(())
}

fn check_tensor(map: &TiledMap) -> Result<(), Error> {
    let strict = map.interleave == Interleave::Bytes32 || map.data_type.is_padded();
    let alignment = if strict { 32 } else { 16 };
    if !map.address.is_multiple_of(alignment) {
        return Err(Error::Address { address: map.address, alignment });
    }
    for (dimension, &extent) in map.extents.iter().enumerate() {
        if !(1..=MAX_EXTENT).contains(&extent) {
            return Err(Error::Extent { dimension, extent });
        }
    }
    check_packed_extent(map)?;
    for (dimension, &stride) in (1..).zip(&map.strides) {
        if !stride.is_multiple_of(alignment) {
            return Err(Error::StrideAlignment { dimension, stride, multiple: alignment });
        }
        if stride >= STRIDE_END {
            return Err(Error::StrideSize { dimension, stride });
        }
    }
    Ok(())
}

fn check_packed_extent(map: &TiledMap) -> Result<(), Error> {
    let data_type = map.data_type;
    let multiple = match data_type {
        TensorDataType::Packed4Align8 => 2,
        _ if data_type.is_padded() => u64::from(PADDED_TILE),
        _ => return Ok(()),
    };
    match map.extents.first() {
        Some(&extent) if !extent.is_multiple_of(multiple) => {
            Err(Error::PackedExtent { extent, multiple, data_type })
        }
        _ => Ok(()),
    }
}

fn check_box(map: &TiledMap) -> Result<(), Error> {
    for (dimension, &tile) in map.tile.iter().enumerate() {
        if !(1..=MAX_TILE).contains(&tile) {
            return Err(Error::Tile { dimension, tile });
        }
    }
    for (dimension, &stride) in map.element_strides.iter().enumerate() {
        if !(1..=MAX_ELEMENT_STRIDE).contains(&stride) {
            return Err(Error::ElementStride { dimension, stride });
        }
    }
    let Some(&tile) = map.tile.first() else { return Ok(()) };
    if map.data_type.is_padded() {
        check_padded_box(map, tile)?;
    }
    if map.interleave != Interleave::None {
        return Ok(());
    }
    let bytes = map.data_type.shared_bytes(tile);
    if !bytes.is_multiple_of(16) {
        return Err(Error::RowAlignment { bytes });
    }
    match map.swizzle.span() {
        Some(span) if bytes > u64::from(span) => {
            Err(Error::RowLength { bytes, span, swizzle: map.swizzle })
        }
        _ => Ok(()),
    }
}

fn check_padded_box(map: &TiledMap, tile: u32) -> Result<(), Error> {
    let data_type = map.data_type;
    if tile != PADDED_TILE {
        return Err(Error::PackedTile { tile, data_type });
    }
    let possible = match map.swizzle {
        Swizzle::None | Swizzle::Bytes128 | Swizzle::Bytes128Atom32 => true,
        Swizzle::Bytes128Atom64 => data_type == TensorDataType::Packed6Align16,
        _ => false,
    };
    if !possible {
        return Err(Error::PackedSwizzle { data_type, swizzle: map.swizzle });
    }
    Ok(())
}

/// What the device can do and the emulator cannot; last, so that a wrong map is called wrong.
fn check_supported(map: &TiledMap) -> Result<(), Error> {
    if map.interleave != Interleave::None {
        return Err(Error::Unsupported("interleaved tensor maps"));
    }
    if map.swizzle == Swizzle::Bytes128Atom32Flip8 {
        return Err(Error::Unsupported("the swizzle that exchanges 8-byte halves"));
    }
    Ok(())
}
