//! `ldmatrix`, `stmatrix` and `movmatrix`: tiles of 8 by 8 elements of 16 bits.
//!
//! PTX ISA 9.7.14.5.15 to 9.7.14.5.17. A tile is eight rows of 16 bytes; in registers lane `4r + c`
//! holds elements 2c (low half) and 2c + 1 (high half) of row r.

use super::Row;

/// A tile as it lies in memory: `[row]`, 16 bytes each.
pub(crate) type Tile = [[u8; 16]; 8];

/// How a tile is spread over the lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    /// A lane has two neighbours of a row.
    Rows,
    /// `.trans`: a lane has two neighbours of a column.
    Columns,
}

/// The register that `ldmatrix` fills from a tile.
pub(crate) fn load(tile: &Tile, spread: Spread) -> Row {
    let mut register = [0; 32];
    for (words, row) in register.as_chunks_mut::<4>().0.iter_mut().zip(tile) {
        for (word, bytes) in words.iter_mut().zip(row.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
    }
    match spread {
        Spread::Rows => register,
        Spread::Columns => transpose(&register),
    }
}

/// The tile that `stmatrix` writes from a register.
pub(crate) fn store(register: &Row, spread: Spread) -> Tile {
    let register = match spread {
        Spread::Rows => *register,
        Spread::Columns => transpose(register),
    };
    let mut tile = [[0; 16]; 8];
    for (words, row) in register.as_chunks::<4>().0.iter().zip(&mut tile) {
        for (word, bytes) in words.iter().zip(row.as_chunks_mut::<4>().0) {
            *bytes = word.to_le_bytes();
        }
    }
    tile
}

/// `movmatrix.trans`: exchanges rows and columns of a tile in registers.
///
/// Lane 4r + c gets elements (2c, r) and (2c + 1, r), which lanes `8c + r / 2` and four further
/// hold in their half number `r % 2`.
pub(crate) fn transpose(register: &Row) -> Row {
    let mut result = [0; 32];
    for (lane, word) in result.iter_mut().enumerate() {
        let (row, pair) = (lane / 4, lane % 4);
        let holder = 8 * pair + row / 2;
        let shift = 16 * (row % 2);
        let low = register[holder] >> shift & 0xFFFF;
        let high = register[holder + 4] >> shift & 0xFFFF;
        *word = low | high << 16;
    }
    result
}
