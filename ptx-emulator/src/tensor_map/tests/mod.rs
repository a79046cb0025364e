//! Tests of tensor maps.

mod geometry;
mod reduce;
mod replace;
mod rules;

use super::geometry::{Direction, Geometry};
use super::{
    Interleave, L2Promotion, OutOfBoundsFill, Swizzle, TensorDataType, TensorMap, TiledMap,
};
use crate::arch::Arch;

/// Numbers that look random and are the same every time (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number from `first` to `last`.
    fn between(&mut self, first: i64, last: i64) -> i64 {
        first + (self.next() % (last - first + 1) as u64) as i64
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[(self.next() % list.len() as u64) as usize]
    }
}

/// 300 rows of 200 bf16 numbers in boxes of 64 by 64.
fn sound() -> TiledMap {
    TiledMap {
        data_type: TensorDataType::Bf16,
        address: 0x1000,
        extents: vec![200, 300],
        strides: vec![400],
        tile: vec![64, 64],
        element_strides: vec![1, 1],
        interleave: Interleave::None,
        swizzle: Swizzle::Bytes128,
        l2_promotion: L2Promotion::Bytes256,
        fill: OutOfBoundsFill::Zeros,
    }
}

/// A map that keeps the rules of `sm_90a`; with `small` boxes and extents, for oracles.
fn random(numbers: &mut Numbers, small: bool) -> TiledMap {
    let data_type = numbers.pick(&TensorDataType::ALL[..13]);
    let bytes = data_type.bytes().unwrap();
    let rank = numbers.between(1, 5) as usize;
    let swizzle = numbers.pick(&Swizzle::ALL[..4]);
    let longest = swizzle.span().unwrap_or(if small { 64 } else { 256 });
    let unit = 16 / bytes;
    let (extent, tile) = if small { (9, 4) } else { (1 << 32, 256) };
    let mut map = TiledMap {
        data_type,
        address: numbers.next() & !15,
        extents: (0..rank).map(|_| numbers.between(1, extent) as u64).collect(),
        strides: (1..rank).map(|_| numbers.between(0, (1 << 36) - 1) as u64 * 16).collect(),
        tile: (0..rank).map(|_| numbers.between(1, tile) as u32).collect(),
        element_strides: (0..rank).map(|_| numbers.between(1, 8) as u32).collect(),
        interleave: Interleave::None,
        swizzle,
        l2_promotion: numbers.pick(&L2Promotion::ALL),
        fill: OutOfBoundsFill::Zeros,
    };
    map.tile[0] = numbers.between(1, i64::from((longest / 16).min(256 / unit))) as u32 * unit;
    if small {
        map.extents[0] = numbers.between(1, 2 * i64::from(map.tile[0])) as u64;
    }
    if data_type.is_float() {
        map.fill = numbers.pick(&OutOfBoundsFill::ALL);
    }
    map
}

#[test]
fn maps_come_back_from_their_bytes() {
    let mut numbers = Numbers(1);
    let mut seen = std::collections::HashSet::new();
    for _ in 0..5000 {
        let map = random(&mut numbers, false);
        let encoded = TensorMap::encode_tiled(&map, Arch::Sm90a).expect("a valid map");
        assert_eq!(TensorMap::decode(encoded.as_bytes(), Arch::Sm90a), Ok(map));
        assert_eq!(TensorMap::from_bytes(*encoded.as_bytes()), encoded);
        seen.insert(*encoded.as_bytes());
    }
    assert_eq!(seen.len(), 5000);
}

#[test]
fn any_bytes_are_decoded_without_a_panic() {
    let mut numbers = Numbers(2);
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let map = random(&mut numbers, true);
        let mut bytes = *TensorMap::encode_tiled(&map, Arch::Sm90a).unwrap().as_bytes();
        for _ in 0..numbers.between(1, 3) {
            bytes[numbers.between(8, 127) as usize] = numbers.next() as u8;
        }
        match TensorMap::decode(&bytes, Arch::Sm100a) {
            Ok(map) => {
                accepted += 1;
                let again = TensorMap::encode_tiled(&map, Arch::Sm100a).unwrap();
                assert_eq!(TensorMap::decode(again.as_bytes(), Arch::Sm100a).as_ref(), Ok(&map));
                let coordinates = vec![i32::MIN; map.extents.len()];
                let Ok(geometry) = Geometry::new(&map) else { continue };
                let runs = geometry.runs(&coordinates, Direction::Load).unwrap();
                assert_eq!(runs.map(|run| run.bytes).sum::<u32>(), geometry.bytes());
            }
            Err(_) => refused += 1,
        }
    }
    assert!(accepted > 1000 && refused > 1000, "{accepted} {refused}");
}
