//! Where this crate keeps a tensor map's fields in the 128 bytes.
//!
//! The hardware's layout is not public, so this one is the crate's own: a magic number, then every
//! field little-endian, wide enough for any value that `tensormap.replace` can write, so that a
//! wrong value is still there when the map is used and the error can name it.

use super::error::TensorMapError as Error;
use super::fields::{Interleave, L2Promotion, OutOfBoundsFill, Swizzle, TensorDataType, TiledMap};
use super::rules::MAX_RANK;

/// Bytes of a tensor map.
pub(super) const BYTES: usize = 128;
/// The first bytes of every map of this encoder; the last of them counts the layouts.
const MAGIC: [u8; 8] = *b"PTXEMUT\x01";

/// Where a number lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    offset: usize,
    width: usize,
}

impl Place {
    const fn new(offset: usize, width: usize) -> Self {
        Self { offset, width }
    }

    /// The place of element `index` of a list that starts here.
    pub(super) const fn at(self, index: usize) -> Self {
        Self { offset: self.offset + index * self.width, width: self.width }
    }

    /// Reads the number.
    pub(super) fn read(self, bytes: &[u8; BYTES]) -> u64 {
        let digits = bytes.iter().skip(self.offset).take(self.width);
        digits.rev().fold(0, |number, &digit| number << 8 | u64::from(digit))
    }

    /// Writes as many of the number's low bytes as fit.
    pub(super) fn write(self, bytes: &mut [u8; BYTES], number: u64) {
        let places = bytes.iter_mut().skip(self.offset).take(self.width);
        for (place, digit) in places.zip(number.to_le_bytes()) {
            *place = digit;
        }
    }
}

/// Dimensions less 1.
pub(super) const LAST_DIMENSION: Place = Place::new(8, 4);
/// The driver's number of the data type.
pub(super) const DATA_TYPE: Place = Place::new(12, 1);
/// The number of the interleaving.
pub(super) const INTERLEAVE: Place = Place::new(13, 1);
/// PTX's number of the swizzle mode: 0 none, 1 to 3 for 32, 64 and 128 bytes.
pub(super) const SWIZZLE_MODE: Place = Place::new(14, 1);
/// PTX's number of the swizzle atomicity: 0 to 3 for 16, 32, 32 with flip and 64 bytes.
pub(super) const SWIZZLE_ATOMICITY: Place = Place::new(15, 1);
/// The number of the L2 promotion.
const L2_PROMOTION: Place = Place::new(16, 1);
/// The number of the fill.
pub(super) const FILL: Place = Place::new(17, 1);
/// The tensor's address.
pub(super) const ADDRESS: Place = Place::new(18, 8);
/// The extents; 5 bytes each, because 2^32 is legal.
pub(super) const EXTENTS: Place = Place::new(26, 5);
/// The strides of dimension 1 and on.
pub(super) const STRIDES: Place = Place::new(51, 8);
/// The extents of the box.
pub(super) const TILE: Place = Place::new(83, 4);
/// The element strides.
pub(super) const ELEMENT_STRIDES: Place = Place::new(103, 4);
/// Where the fields end; zeros follow.
const END: usize = 123;

/// Whether the bytes are of this encoder.
pub(super) fn check_magic(bytes: &[u8; BYTES]) -> Result<(), Error> {
    let rest = bytes.iter().skip(END).all(|&byte| byte == 0);
    if !bytes.starts_with(&MAGIC) || !rest { Err(Error::NotATensorMap) } else { Ok(()) }
}

/// Turns 128 zeros, from which kernels start a map of their own, into a map without any field.
pub(super) fn begin(bytes: &mut [u8; BYTES]) {
    for (place, byte) in bytes.iter_mut().zip(MAGIC) {
        *place = byte;
    }
}

/// Writes a map that keeps the rules.
pub(super) fn write(map: &TiledMap) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    begin(&mut bytes);
    let (mode, atomicity) = split_swizzle(map.swizzle);
    let last_dimension = map.extents.len().saturating_sub(1) as u64;
    let numbers = [
        (LAST_DIMENSION, last_dimension),
        (DATA_TYPE, map.data_type.number().into()),
        (INTERLEAVE, map.interleave.number().into()),
        (SWIZZLE_MODE, mode.into()),
        (SWIZZLE_ATOMICITY, atomicity.into()),
        (L2_PROMOTION, map.l2_promotion.number().into()),
        (FILL, map.fill.number().into()),
        (ADDRESS, map.address),
    ];
    for (place, number) in numbers {
        place.write(&mut bytes, number);
    }
    write_list(&mut bytes, EXTENTS, &map.extents);
    write_list(&mut bytes, STRIDES, &map.strides);
    write_list(&mut bytes, TILE, &map.tile);
    write_list(&mut bytes, ELEMENT_STRIDES, &map.element_strides);
    bytes
}

fn write_list<T: Copy + Into<u64>>(bytes: &mut [u8; BYTES], first: Place, list: &[T]) {
    for (index, &number) in list.iter().enumerate().take(MAX_RANK) {
        first.at(index).write(bytes, number.into());
    }
}

/// Reads what [`write`] wrote or `tensormap.replace` left, which may break the rules.
pub(super) fn read(bytes: &[u8; BYTES]) -> Result<TiledMap, Error> {
    check_magic(bytes)?;
    let rank = (LAST_DIMENSION.read(bytes) as usize).saturating_add(1);
    if rank > MAX_RANK {
        return Err(Error::Rank { rank });
    }
    let narrow = |first: Place| (0..rank).map(|index| first.at(index).read(bytes) as u32).collect();
    Ok(TiledMap {
        data_type: number("data type", DATA_TYPE, bytes, TensorDataType::from_number)?,
        address: ADDRESS.read(bytes),
        extents: (0..rank).map(|index| EXTENTS.at(index).read(bytes)).collect(),
        strides: (0..rank - 1).map(|index| STRIDES.at(index).read(bytes)).collect(),
        tile: narrow(TILE),
        element_strides: narrow(ELEMENT_STRIDES),
        interleave: number("interleaving", INTERLEAVE, bytes, Interleave::from_number)?,
        swizzle: read_swizzle(bytes)?,
        l2_promotion: number("L2 promotion", L2_PROMOTION, bytes, L2Promotion::from_number)?,
        fill: number("fill", FILL, bytes, OutOfBoundsFill::from_number)?,
    })
}

fn number<T>(
    field: &'static str,
    place: Place,
    bytes: &[u8; BYTES],
    meaning: impl Fn(u8) -> Option<T>,
) -> Result<T, Error> {
    let number = place.read(bytes) as u8;
    meaning(number).ok_or(Error::Number { field, number })
}

/// A swizzle as PTX says it: mode and atomicity, which the driver's one number joins.
fn split_swizzle(swizzle: Swizzle) -> (u8, u8) {
    let number = swizzle.number();
    let full = Swizzle::Bytes128.number();
    (number.min(full), number.saturating_sub(full))
}

fn read_swizzle(bytes: &[u8; BYTES]) -> Result<Swizzle, Error> {
    let mode = SWIZZLE_MODE.read(bytes) as u8;
    let atomicity = SWIZZLE_ATOMICITY.read(bytes) as u8;
    let full = Swizzle::Bytes128.number();
    if mode > full {
        return Err(Error::Number { field: "swizzle mode", number: mode });
    }
    if atomicity != 0 && mode != full {
        return Err(Error::Atomicity { atomicity, mode });
    }
    Swizzle::from_number(mode.saturating_add(atomicity))
        .ok_or(Error::Number { field: "swizzle atomicity", number: atomicity })
}
