use super::super::TensorMapError as Error;
use super::super::replace::{ReplaceError, ReplaceField, replace};
use super::*;

type Case = (ReplaceField, Option<u32>, u64, fn(&mut TiledMap));

fn encoded(map: &TiledMap) -> [u8; 128] {
    *TensorMap::encode_tiled(map, Arch::Sm100a).expect("a valid map").as_bytes()
}

#[test]
fn every_field_is_replaced_alone() {
    let mut before = sound();
    (before.extents, before.strides) = (vec![64, 8, 8, 8, 8], vec![128; 4]);
    (before.tile, before.element_strides) = (vec![64, 2, 2, 2, 2], vec![1; 5]);
    use ReplaceField as F;
    let cases: [Case; 24] = [
        (F::GlobalAddress, None, 0xffff_ffff_0000, |map| map.address = 0xffff_ffff_0000),
        (F::Rank, None, 3, |map| {
            map.extents.pop();
            map.strides.pop();
            map.tile.pop();
            map.element_strides.pop();
        }),
        (F::BoxDim, Some(0), 32, |map| map.tile[0] = 32),
        (F::BoxDim, Some(4), 256, |map| map.tile[4] = 256),
        (F::GlobalDim, Some(0), 7, |map| map.extents[0] = 7),
        (F::GlobalDim, Some(4), 0xffff_ffff, |map| map.extents[4] = 0xffff_ffff),
        (F::GlobalStride, Some(0), (1 << 40) - 16, |map| map.strides[0] = (1 << 40) - 16),
        (F::GlobalStride, Some(3), 4096, |map| map.strides[3] = 4096),
        (F::ElementStride, Some(0), 3, |map| map.element_strides[0] = 3),
        (F::ElementStride, Some(4), 8, |map| map.element_strides[4] = 8),
        (F::ElementType, None, 0, |map| map.data_type = TensorDataType::U8),
        (F::ElementType, None, 6, |map| map.data_type = TensorDataType::F16),
        (F::ElementType, None, 1, |map| map.data_type = TensorDataType::U16),
        (F::ElementType, None, 10, |map| map.data_type = TensorDataType::Bf16),
        (F::InterleaveLayout, None, 0, |map| map.interleave = Interleave::None),
        (F::SwizzleMode, None, 0, |map| map.swizzle = Swizzle::None),
        (F::SwizzleMode, None, 3, |map| map.swizzle = Swizzle::Bytes128),
        (F::SwizzleAtomicity, None, 0, |map| map.swizzle = Swizzle::Bytes128),
        (F::SwizzleAtomicity, None, 1, |map| map.swizzle = Swizzle::Bytes128Atom32),
        (F::SwizzleAtomicity, None, 3, |map| map.swizzle = Swizzle::Bytes128Atom64),
        (F::FillMode, None, 0, |map| map.fill = OutOfBoundsFill::Zeros),
        (F::FillMode, None, 1, |map| map.fill = OutOfBoundsFill::Nan),
        // Of a wider value only the low word reaches a 32-bit field.
        (F::GlobalDim, Some(1), 0xdead_0000_0005, |map| map.extents[1] = 5),
        (F::BoxDim, Some(1), 1 << 32 | 9, |map| map.tile[1] = 9),
    ];
    for (field, ordinal, value, change) in cases {
        let mut bytes = encoded(&before);
        assert_eq!(replace(&mut bytes, field, ordinal, value), Ok(()));
        let mut expected = before.clone();
        change(&mut expected);
        let found = TensorMap::decode(&bytes, Arch::Sm100a);
        assert_eq!(found, Ok(expected), "{field:?} {ordinal:?} {value}");
    }
}

#[test]
fn element_types_have_the_numbers_of_ptx() {
    use TensorDataType::{Bf16, F32Ftz, F64, Tf32, Tf32Ftz};
    let mut map = sound();
    map.tile[0] = 16;
    let numbers = [(8, F32Ftz), (9, F64), (10, Bf16), (11, Tf32), (12, Tf32Ftz)];
    let rest = (0..8).zip(TensorDataType::ALL);
    for (number, data_type) in rest.chain(numbers) {
        let mut bytes = encoded(&map);
        assert_eq!(replace(&mut bytes, ReplaceField::ElementType, None, number), Ok(()));
        let found = TensorMap::decode(&bytes, Arch::Sm90a).map(|map| map.data_type);
        assert_eq!(found, Ok(data_type), "elemtype {number}");
    }
    for (number, data_type) in (13..16).zip(&TensorDataType::ALL[13..]) {
        let mut bytes = encoded(&map);
        assert_eq!(replace(&mut bytes, ReplaceField::ElementType, None, number), Ok(()));
        let refused = Error::ArchDataType { data_type: *data_type, arch: Arch::Sm90a };
        assert_eq!(TensorMap::decode(&bytes, Arch::Sm90a), Err(refused));
    }
}

#[test]
fn a_wrong_value_waits_for_the_map_to_be_used() {
    use ReplaceField as F;
    let max = u64::from(u32::MAX);
    let unused = Error::Extent { dimension: 2, extent: 0 };
    let cases = [
        (F::GlobalAddress, None, 8, Error::Address { address: 8, alignment: 16 }),
        (F::Rank, None, max, Error::Rank { rank: 1 << 32 }),
        (F::Rank, None, 2, unused),
        (F::BoxDim, Some(1), max, Error::Tile { dimension: 1, tile: u32::MAX }),
        (F::GlobalDim, Some(1), 0, Error::Extent { dimension: 1, extent: 0 }),
        (
            F::GlobalStride,
            Some(0),
            u64::MAX - 15,
            Error::StrideSize { dimension: 1, stride: u64::MAX - 15 },
        ),
        (F::ElementStride, Some(1), max, Error::ElementStride { dimension: 1, stride: u32::MAX }),
        (F::InterleaveLayout, None, 1, {
            Error::InterleaveRank { interleave: Interleave::Bytes16, rank: 2 }
        }),
        (F::SwizzleMode, None, 2, {
            Error::RowLength { bytes: 128, span: 64, swizzle: Swizzle::Bytes64 }
        }),
    ];
    for (field, ordinal, value, error) in cases {
        let mut bytes = encoded(&sound());
        assert_eq!(replace(&mut bytes, field, ordinal, value), Ok(()));
        assert_eq!(TensorMap::decode(&bytes, Arch::Sm90a), Err(error));
    }
    let mut bytes = encoded(&sound());
    replace(&mut bytes, F::SwizzleMode, None, 1).unwrap();
    replace(&mut bytes, F::SwizzleAtomicity, None, 2).unwrap();
    let error = Error::Atomicity { atomicity: 2, mode: 1 };
    assert_eq!(TensorMap::decode(&bytes, Arch::Sm100a), Err(error));
}

#[test]
fn wrong_requests_change_nothing() {
    use ReplaceField as F;
    let last = |field, ordinal, last| ReplaceError::Ordinal { field, ordinal, last };
    let value = |field, value, last| ReplaceError::Value { field, value, last };
    let cases = [
        (F::GlobalDim, None, 1, ReplaceError::OrdinalMissing("global_dim")),
        (F::Rank, Some(0), 1, ReplaceError::OrdinalUnexpected("rank")),
        (F::BoxDim, Some(5), 1, last("box_dim", 5, 4)),
        (F::GlobalStride, Some(4), 16, last("global_stride", 4, 3)),
        (F::ElementStride, Some(u32::MAX), 1, last("element_stride", u32::MAX, 4)),
        (F::ElementType, None, 16, value("elemtype", 16, 15)),
        (F::InterleaveLayout, None, 3, value("interleave_layout", 3, 2)),
        (F::SwizzleMode, None, 4, value("swizzle_mode", 4, 3)),
        (F::SwizzleAtomicity, None, 4, value("swizzle_atomicity", 4, 3)),
        (F::FillMode, None, 2, value("fill_mode", 2, 1)),
    ];
    for (field, ordinal, value, error) in cases {
        let mut bytes = encoded(&sound());
        assert_eq!(replace(&mut bytes, field, ordinal, value), Err(error));
        assert_eq!(bytes, encoded(&sound()));
    }
    let mut other = [1; 128];
    let found = replace(&mut other, F::GlobalAddress, None, 0);
    assert_eq!((found, other), (Err(ReplaceError::NotATensorMap), [1; 128]));
}

#[test]
fn names_are_those_of_the_instruction() {
    for field in ReplaceField::ALL {
        assert_eq!(ReplaceField::from_name(field.name()), Some(field));
        let wide = matches!(field.name(), "global_address" | "global_stride");
        assert_eq!(field.bits(), if wide { 64 } else { 32 });
    }
    assert_eq!(ReplaceField::from_name("elemtype"), Some(ReplaceField::ElementType));
    assert_eq!(ReplaceField::from_name("tile"), None);
}
