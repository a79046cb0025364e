use super::super::TensorMapError as Error;
use super::*;

fn check(arch: Arch, change: impl Fn(&mut TiledMap), expected: Option<Error>) {
    let mut map = sound();
    change(&mut map);
    let found = TensorMap::encode_tiled(&map, arch).err();
    assert_eq!(found, expected, "{map:?}");
}

fn refused(change: impl Fn(&mut TiledMap), expected: Error) {
    check(Arch::Sm90a, &change, Some(expected.clone()));
}

fn accepted(change: impl Fn(&mut TiledMap)) {
    check(Arch::Sm90a, change, None);
}

#[test]
fn the_limits_are_inside() {
    accepted(|_| {});
    accepted(|map| map.address = 16);
    accepted(|map| map.extents = vec![1, 1 << 32]);
    accepted(|map| map.strides = vec![(1 << 40) - 16]);
    accepted(|map| map.tile = vec![64, 256]);
    accepted(|map| map.tile = vec![8, 1]);
    accepted(|map| map.element_strides = vec![8, 8]);
    accepted(|map| (map.swizzle, map.tile[0]) = (Swizzle::None, 256));
    accepted(|map| (map.swizzle, map.tile[0]) = (Swizzle::Bytes32, 16));
    accepted(|map| (map.swizzle, map.tile[0]) = (Swizzle::Bytes64, 32));
    accepted(|map| map.fill = OutOfBoundsFill::Nan);
    accepted(|map| {
        (map.extents, map.strides) = (vec![7; 5], vec![16, 16, 16, 16]);
        (map.tile, map.element_strides) = (vec![8; 5], vec![1; 5]);
    });
    accepted(|map| {
        (map.extents, map.strides) = (vec![7], vec![]);
        (map.tile, map.element_strides) = (vec![8], vec![1]);
    });
}

#[test]
fn every_rule_broken_alone_is_named() {
    refused(|map| map.extents = vec![], Error::Rank { rank: 0 });
    refused(|map| map.extents = vec![1; 6], Error::Rank { rank: 6 });
    let length = |list, given, needed| Error::Length { list, given, needed, rank: 2 };
    refused(|map| map.strides = vec![], length("strides", 0, 1));
    refused(|map| map.tile.push(1), length("box extents", 3, 2));
    refused(|map| map.element_strides.clear(), length("element strides", 0, 2));
    refused(|map| map.address = 0x1008, Error::Address { address: 0x1008, alignment: 16 });
    refused(|map| map.extents[1] = 0, Error::Extent { dimension: 1, extent: 0 });
    let extent = (1 << 32) + 1;
    refused(|map| map.extents[0] = extent, Error::Extent { dimension: 0, extent });
    refused(
        |map| map.strides[0] = 408,
        Error::StrideAlignment { dimension: 1, stride: 408, multiple: 16 },
    );
    refused(|map| map.strides[0] = 1 << 40, Error::StrideSize { dimension: 1, stride: 1 << 40 });
    refused(|map| map.tile[1] = 0, Error::Tile { dimension: 1, tile: 0 });
    refused(|map| map.tile[1] = 257, Error::Tile { dimension: 1, tile: 257 });
    refused(|map| map.tile[0] = 4, Error::RowAlignment { bytes: 8 });
    for (swizzle, span) in
        [(Swizzle::Bytes32, 32), (Swizzle::Bytes64, 64), (Swizzle::Bytes128, 128)]
    {
        let bytes = u64::from(span) + 16;
        refused(
            |map| (map.swizzle, map.tile[0]) = (swizzle, span / 2 + 8),
            Error::RowLength { bytes, span, swizzle },
        );
    }
    refused(|map| map.element_strides[1] = 0, Error::ElementStride { dimension: 1, stride: 0 });
    refused(|map| map.element_strides[1] = 9, Error::ElementStride { dimension: 1, stride: 9 });
    refused(
        |map| (map.data_type, map.fill) = (TensorDataType::U16, OutOfBoundsFill::Nan),
        Error::Fill { data_type: TensorDataType::U16, fill: OutOfBoundsFill::Nan },
    );
}

#[test]
fn interleaved_maps_are_checked_and_then_unsupported() {
    let cube = |map: &mut TiledMap, interleave| {
        map.interleave = interleave;
        map.swizzle = Swizzle::Bytes32;
        (map.extents, map.strides) = (vec![64; 3], vec![128, 8192]);
        (map.tile, map.element_strides) = (vec![16; 3], vec![1; 3]);
    };
    let unsupported = Error::Unsupported("interleaved tensor maps");
    refused(|map| cube(map, Interleave::Bytes16), unsupported.clone());
    refused(|map| cube(map, Interleave::Bytes32), unsupported);
    refused(
        |map| map.interleave = Interleave::Bytes16,
        Error::InterleaveRank { interleave: Interleave::Bytes16, rank: 2 },
    );
    let wide = |change: fn(&mut TiledMap), error| {
        refused(
            |map| {
                cube(map, Interleave::Bytes32);
                change(map);
            },
            error,
        );
    };
    wide(
        |map| map.swizzle = Swizzle::Bytes64,
        Error::InterleaveSwizzle { swizzle: Swizzle::Bytes64 },
    );
    wide(|map| map.address = 0x1010, Error::Address { address: 0x1010, alignment: 32 });
    wide(
        |map| map.strides[1] = 8208,
        Error::StrideAlignment { dimension: 2, stride: 8208, multiple: 32 },
    );
}

#[test]
fn what_blackwell_adds_is_refused_on_hopper() {
    let arch = Arch::Sm90a;
    for swizzle in [Swizzle::Bytes128Atom32, Swizzle::Bytes128Atom64] {
        let change = |map: &mut TiledMap| map.swizzle = swizzle;
        check(arch, change, Some(Error::ArchSwizzle { swizzle, arch }));
        check(Arch::Sm100a, change, None);
    }
    let flip = Error::Unsupported("the swizzle that exchanges 8-byte halves");
    check(Arch::Sm100a, |map| map.swizzle = Swizzle::Bytes128Atom32Flip8, Some(flip));
    for data_type in &TensorDataType::ALL[13..] {
        let change = |map: &mut TiledMap| packed(map, *data_type);
        check(arch, change, Some(Error::ArchDataType { data_type: *data_type, arch }));
        check(Arch::Sm100a, change, None);
    }
}

fn packed(map: &mut TiledMap, data_type: TensorDataType) {
    map.data_type = data_type;
    (map.extents, map.strides) = (vec![256, 300], vec![192]);
    map.tile = vec![128, 64];
}

#[test]
fn packed_types_have_rules_of_their_own() {
    use TensorDataType::{Packed4Align8, Packed4Align16, Packed6Align16};
    let case = |data_type, change: fn(&mut TiledMap), expected| {
        check(
            Arch::Sm100a,
            |map| {
                packed(map, data_type);
                change(map);
            },
            expected,
        );
    };
    for data_type in [Packed4Align16, Packed6Align16] {
        let address = Error::Address { address: 0x1010, alignment: 32 };
        case(data_type, |map| map.address = 0x1010, Some(address));
        let stride = Error::StrideAlignment { dimension: 1, stride: 208, multiple: 32 };
        case(data_type, |map| map.strides[0] = 208, Some(stride));
        let extent = Error::PackedExtent { extent: 192, multiple: 128, data_type };
        case(data_type, |map| map.extents[0] = 192, Some(extent));
        let tile = Error::PackedTile { tile: 64, data_type };
        case(data_type, |map| map.tile[0] = 64, Some(tile));
        let swizzle = Error::PackedSwizzle { data_type, swizzle: Swizzle::Bytes64 };
        case(data_type, |map| map.swizzle = Swizzle::Bytes64, Some(swizzle));
        let fill = Error::Fill { data_type, fill: OutOfBoundsFill::Nan };
        case(data_type, |map| map.fill = OutOfBoundsFill::Nan, Some(fill));
    }
    let atom = Swizzle::Bytes128Atom64;
    case(Packed6Align16, |map| map.swizzle = Swizzle::Bytes128Atom64, None);
    let narrow = Error::PackedSwizzle { data_type: Packed4Align16, swizzle: atom };
    case(Packed4Align16, |map| map.swizzle = Swizzle::Bytes128Atom64, Some(narrow));
    case(Packed4Align8, |map| (map.address, map.strides[0]) = (16, 208), None);
    let extent = Error::PackedExtent { extent: 255, multiple: 2, data_type: Packed4Align8 };
    case(Packed4Align8, |map| map.extents[0] = 255, Some(extent));
    case(Packed4Align8, |map| map.tile[0] = 48, Some(Error::RowAlignment { bytes: 24 }));
}

#[test]
fn strange_bytes_are_no_map() {
    let good = *TensorMap::encode_tiled(&sound(), Arch::Sm90a).unwrap().as_bytes();
    let decode = |bytes: &[u8; 128]| TensorMap::decode(bytes, Arch::Sm90a);
    assert_eq!(decode(&[0; 128]), Err(Error::NotATensorMap));
    for index in (0..8).chain(123..128) {
        let mut bytes = good;
        bytes[index] ^= 4;
        assert_eq!(decode(&bytes), Err(Error::NotATensorMap), "byte {index}");
    }
    // Every other byte up to the last dimension in use belongs to a field.
    let unused = [(36, 51), (59, 83), (91, 103), (111, 123)];
    for index in 8..123 {
        let mut bytes = good;
        bytes[index] ^= 0x80;
        let spare = unused.iter().any(|&(start, end)| (start..end).contains(&index));
        assert_eq!(decode(&bytes) == decode(&good), spare, "byte {index}");
    }
    for arch in [Arch::Sm90a, Arch::Sm100a] {
        let mut map = sound();
        map.swizzle = Swizzle::Bytes128Atom32;
        let bytes = *TensorMap::encode_tiled(&map, Arch::Sm100a).unwrap().as_bytes();
        assert_eq!(TensorMap::decode(&bytes, arch).is_ok(), arch == Arch::Sm100a);
    }
}

#[test]
fn numbers_are_the_drivers() {
    use TensorDataType::{Bf16, F16, F32, F32Ftz, F64, I32, I64, Tf32, U8, U16, U32, U64};
    let types = [
        (U8, 0, 1),
        (U16, 1, 2),
        (U32, 2, 4),
        (I32, 3, 4),
        (U64, 4, 8),
        (I64, 5, 8),
        (F16, 6, 2),
        (F32, 7, 4),
        (F64, 8, 8),
        (Bf16, 9, 2),
        (F32Ftz, 10, 4),
        (Tf32, 11, 4),
    ];
    for (data_type, number, bytes) in types {
        assert_eq!((data_type.number(), data_type.bytes()), (number, Some(bytes)));
    }
    for (number, data_type) in (0..).zip(TensorDataType::ALL) {
        assert_eq!(TensorDataType::from_number(number), Some(data_type));
        assert_eq!(data_type.number(), number);
    }
    for (number, swizzle) in (0..).zip(Swizzle::ALL) {
        assert_eq!((swizzle.number(), Swizzle::from_number(number)), (number, Some(swizzle)));
    }
    assert_eq!(TensorDataType::from_number(16), None);
    assert_eq!((Swizzle::from_number(7), Interleave::from_number(3)), (None, None));
    assert_eq!((L2Promotion::from_number(4), OutOfBoundsFill::from_number(2)), (None, None));
}
