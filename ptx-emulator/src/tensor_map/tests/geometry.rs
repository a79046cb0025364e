use super::super::geometry::{Direction, Geometry, GeometryError, Piece, Run, convert_loaded};
use super::super::swizzle::Pattern;
use super::*;

fn geometry(map: &TiledMap) -> Geometry {
    Geometry::new(map).expect("a map to copy with")
}

/// The global address of every byte of a box, element by element from the definition.
fn oracle(map: &TiledMap, coordinates: &[i32]) -> Vec<Option<u64>> {
    let size = u64::from(map.data_type.bytes().unwrap());
    let rank = map.extents.len();
    let step = |dimension: usize| if dimension == 0 { 1 } else { map.element_strides[dimension] };
    let mut elements: Vec<Vec<u32>> = vec![vec![]];
    for dimension in (0..rank).rev() {
        let offsets = || (0..map.tile[dimension]).step_by(step(dimension) as usize);
        let longer = |outer: &Vec<u32>| {
            let outer = outer.clone();
            offsets().map(move |offset| [&[offset], &outer[..]].concat())
        };
        elements = elements.iter().flat_map(longer).collect();
    }
    let mut bytes = vec![];
    for element in elements {
        let mut address = i128::from(map.address);
        let mut inside = true;
        for dimension in 0..rank {
            let position = i128::from(coordinates[dimension]) + i128::from(element[dimension]);
            inside &= position >= 0 && position < i128::from(map.extents[dimension]);
            let stride = if dimension == 0 { size } else { map.strides[dimension - 1] };
            address += position * i128::from(stride);
        }
        bytes.extend((0..size).map(|byte| inside.then_some((address as u64).wrapping_add(byte))));
    }
    bytes
}

fn spread(runs: impl Iterator<Item = Run>) -> Vec<Option<u64>> {
    let mut bytes = vec![];
    for run in runs {
        assert_eq!(run.offset as usize, bytes.len(), "runs are dense and in order");
        assert!(run.bytes > 0, "an empty run");
        bytes.extend((0..run.bytes).map(|byte| Some(run.global?.wrapping_add(byte.into()))));
    }
    bytes
}

#[test]
fn runs_are_what_the_definition_says() {
    let mut numbers = Numbers(3);
    let (mut checked, mut inside, mut outside) = (0, 0, 0);
    while checked < 4000 {
        let map = random(&mut numbers, true);
        let geometry = geometry(&map);
        let mut coordinates: Vec<i32> = (map.extents.iter().zip(&map.tile))
            .map(|(&extent, &tile)| match numbers.between(0, 3) {
                0 => numbers.between(-i64::from(tile) - 1, extent as i64 + 1) as i32,
                _ => numbers.between(0, extent as i64 - 1) as i32,
            })
            .collect();
        // The innermost one comes to whole units of 16 bytes.
        let unit = 16 / map.data_type.bytes().unwrap() as i32;
        coordinates[0] = coordinates[0].div_euclid(unit) * unit;
        let expected = oracle(&map, &coordinates);
        let runs = geometry.runs(&coordinates, Direction::Load).unwrap();
        assert_eq!(spread(runs), expected, "{map:?} at {coordinates:?}");
        assert_eq!(geometry.bytes() as usize, expected.len());
        inside += expected.iter().filter(|address| address.is_some()).count();
        outside += expected.iter().filter(|address| address.is_none()).count();
        checked += 1;
    }
    assert!(inside > 50_000 && outside > 50_000, "{inside} {outside}");
}

#[test]
fn a_box_over_every_edge() {
    let mut map = sound();
    (map.extents, map.address) = (vec![50, 3], 0x1000);
    (map.tile, map.strides) = (vec![64, 4], vec![112]);
    let run = |offset, bytes, global| Run { offset, bytes, global };
    let runs: Vec<Run> = geometry(&map).runs(&[-8, -1], Direction::Load).unwrap().collect();
    let expected = [
        run(0, 128, None),
        run(128, 16, None),
        run(144, 100, Some(0x1000)),
        run(244, 12, None),
        run(256, 16, None),
        run(272, 100, Some(0x1070)),
        run(372, 12, None),
        run(384, 16, None),
        run(400, 100, Some(0x10e0)),
        run(500, 12, None),
    ];
    assert_eq!(runs, expected);
    // A store starts inside and moves the whole unit in which a row ends.
    let runs: Vec<Run> = geometry(&map).runs(&[8, 1], Direction::Store).unwrap().collect();
    let expected = [
        run(0, 96, Some(0x1080)),
        run(96, 32, None),
        run(128, 96, Some(0x10f0)),
        run(224, 32, None),
        run(256, 128, None),
        run(384, 128, None),
    ];
    assert_eq!(runs, expected);
    for (place, negative) in [([8, -1], -1), ([-8, 2], -8)] {
        let error = geometry(&map).runs(&place, Direction::Store).err();
        assert_eq!(error, Some(GeometryError::Negative(negative)));
    }
    for (coordinate, bytes) in [(4, 8), (-1, -2), (i32::MAX, 0xffff_fffe)] {
        let error = geometry(&map).runs(&[coordinate, 0], Direction::Load).err();
        assert_eq!(error, Some(GeometryError::Coordinate { coordinate, bytes }));
    }
    for far in [[i32::MIN, 0], [i32::MAX - 7, 0], [56, 0], [-64, 0], [0, 3], [0, i32::MIN]] {
        let runs: Vec<Run> = geometry(&map).runs(&far, Direction::Load).unwrap().collect();
        let rows: Vec<Run> = (0..4).map(|row| run(row * 128, 128, None)).collect();
        assert_eq!(runs, rows, "{far:?}");
    }
}

#[test]
fn element_strides_thin_the_box() {
    let mut map = sound();
    (map.tile, map.element_strides) = (vec![64, 8], vec![5, 3]);
    let runs: Vec<Run> = geometry(&map).runs(&[0, 10], Direction::Load).unwrap().collect();
    let rows = [10, 13, 16];
    let expected: Vec<Run> = (0..3)
        .map(|row| {
            let global = Some(0x1000 + rows[row as usize] * 400);
            Run { offset: row * 128, bytes: 128, global }
        })
        .collect();
    assert_eq!(runs, expected);
    assert_eq!(geometry(&map).bytes(), 384);
}

#[test]
fn pieces_are_the_bytes_of_a_run_swizzled() {
    let modes = [0, 1, 2, 3, 4, 6].map(|number| Swizzle::from_number(number).unwrap());
    let mut numbers = Numbers(4);
    for swizzle in modes {
        let pattern = Pattern::new(swizzle).unwrap();
        for _ in 0..200 {
            let base = numbers.between(0, 100) as u32 * 128;
            let (offset, bytes) = (numbers.between(0, 999) as u32, numbers.between(1, 300) as u32);
            let global = numbers.pick(&[None, Some(0x7000)]);
            let run = Run { offset, bytes, global };
            let mut told = 0;
            for piece in run.pieces(base, pattern) {
                for byte in 0..piece.bytes {
                    let target = pattern.apply(base + offset + told);
                    assert_eq!(piece.shared + byte, target, "{swizzle:?}");
                    let source = piece.global.map(|address| address + u64::from(byte));
                    assert_eq!(source, global.map(|address| address + u64::from(told)));
                    told += 1;
                }
            }
            assert_eq!(told, bytes);
        }
    }
    let run = Run { offset: 8, bytes: 40, global: Some(0x100) };
    let piece = |shared, bytes, global| Piece { shared, bytes, global: Some(global) };
    let pieces: Vec<Piece> = run.pieces(0x480, Pattern::new(Swizzle::Bytes128).unwrap()).collect();
    let expected = [piece(0x498, 8, 0x100), piece(0x480, 16, 0x108), piece(0x4b0, 16, 0x118)];
    assert_eq!(pieces, expected);
    let plain: Vec<Piece> = run.pieces(0x480, Pattern::new(Swizzle::None).unwrap()).collect();
    assert_eq!(plain, [piece(0x488, 40, 0x100)]);
}

#[test]
fn short_rows_start_where_the_span_does() {
    // Rows of 48 bytes in a span of 64, where the second pair of rows has its chunks exchanged.
    let pattern = Pattern::new(Swizzle::Bytes64).unwrap().with_rows(48, Some(64));
    assert_eq!((pattern.span(192), pattern.is_dense()), (256, false));
    let run = Run { offset: 0, bytes: 192, global: None };
    let places: Vec<u32> = run.pieces(0x400, pattern).map(|piece| piece.shared).collect();
    let rows = [[0x00, 0x10, 0x20], [0x40, 0x50, 0x60], [0x90, 0x80, 0xb0], [0xd0, 0xc0, 0xf0]];
    assert_eq!(places, rows.concat().iter().map(|place| 0x400 + place).collect::<Vec<u32>>());
    // Chunks of 32 bytes are cut where the row ends.
    let pattern = Pattern::new(Swizzle::Bytes128Atom32).unwrap().with_rows(48, Some(128));
    let pieces = run.pieces(0x400, pattern).map(|piece| (piece.shared, piece.bytes));
    let expected = [(0x400, 32), (0x420, 16), (0x4a0, 32), (0x480, 16), (0x540, 32), (0x560, 16)];
    assert_eq!(pieces.take(6).collect::<Vec<_>>(), expected);
    let full = Pattern::new(Swizzle::Bytes64).unwrap().with_rows(64, Some(64));
    assert_eq!((full.span(192), full.is_dense()), (192, true));
}

#[test]
fn tf32_is_rounded_to_nearest_even() {
    use TensorDataType::{F32, F32Ftz, Tf32, Tf32Ftz};
    let loaded = |data_type, bits: u32| {
        let mut bytes = bits.to_le_bytes();
        convert_loaded(data_type, &mut bytes);
        u32::from_le_bytes(bytes)
    };
    for (bits, rounded) in [
        (0x3f80_0fff, 0x3f80_0000),
        (0x3f80_1000, 0x3f80_0000),
        (0x3f80_1001, 0x3f80_2000),
        (0xbf80_3000, 0xbf80_4000),
        (0x7f7f_ffff, 0x7f80_0000),
        (0xff80_0000, 0xff80_0000),
        (0x0000_1fff, 0x0000_2000),
        (0x8000_0001, 0x8000_0000),
        (0xff80_0001, 0x7fff_e000),
    ] {
        for data_type in [Tf32, Tf32Ftz] {
            assert_eq!(loaded(data_type, bits), rounded, "{bits:#x}");
        }
        assert_eq!(loaded(F32, bits), bits);
        assert_eq!(loaded(F32Ftz, bits), bits);
    }
}

#[test]
fn fills_are_zeros_or_not_a_number() {
    let filled = |data_type, fill, tile| {
        let map = TiledMap { data_type, fill, tile: vec![tile, 1], ..sound() };
        geometry(&map).fill()
    };
    for (data_type, tile) in [(TensorDataType::F16, 64), (TensorDataType::Bf16, 64)] {
        let bytes = filled(data_type, OutOfBoundsFill::Nan, tile);
        assert_eq!(bytes, [0xf7, 0x7f].repeat(8)[..]);
        assert_eq!(filled(data_type, OutOfBoundsFill::Zeros, tile), [0; 16]);
    }
    assert!(half::bf16::from_le_bytes([0xf7, 0x7f]).is_nan());
    let single = filled(TensorDataType::F32, OutOfBoundsFill::Nan, 32);
    assert_eq!(single, 0x7ff7_7ff7u32.to_le_bytes().repeat(4)[..]);
    let double = filled(TensorDataType::F64, OutOfBoundsFill::Nan, 16);
    assert_eq!(double, 0x7ff7_7ff7_7ff7_7ff7u64.to_le_bytes().repeat(2)[..]);
}

#[test]
fn what_cannot_be_copied_is_said() {
    let check = |change: fn(&mut TiledMap), error| {
        let mut map = sound();
        change(&mut map);
        assert_eq!(Geometry::new(&map), Err(error));
    };
    check(
        |map| {
            (map.swizzle, map.tile) = (Swizzle::None, vec![256; 3]);
            (map.extents, map.element_strides) = (vec![9; 3], vec![1, 1, 64]);
        },
        GeometryError::Box { bytes: 256 * 512 * 4, limit: 227 * 1024 },
    );
    check(|map| map.swizzle = Swizzle::Bytes128Atom32Flip8, GeometryError::Swizzle);
    check(|map| map.interleave = Interleave::Bytes16, GeometryError::Interleave);
    for data_type in &TensorDataType::ALL[13..] {
        let map = TiledMap { data_type: *data_type, ..sound() };
        assert_eq!(Geometry::new(&map), Err(GeometryError::DataType(*data_type)));
    }
    let geometry = geometry(&sound());
    for given in [0, 1, 3, 6] {
        let error = geometry.runs(&vec![0; given], Direction::Load).err();
        assert_eq!(error, Some(GeometryError::Coordinates { given, rank: 2 }));
    }
}
