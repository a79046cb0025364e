//! The tile instructions against the manual's tables.

use crate::matrix::tiles::{Spread, Tile, load, store, transpose};

/// Element (r, c) is 0x100 * r + c.
fn numbered() -> Tile {
    std::array::from_fn(|row| std::array::from_fn(|byte| [byte / 2, row][byte % 2] as u8))
}

#[test]
fn loads() {
    let rows = load(&numbered(), Spread::Rows);
    let columns = load(&numbered(), Spread::Columns);
    // Lane 0 has (0,0) and (0,1), or transposed (0,0) and (1,0).
    assert_eq!((rows[0], columns[0]), (0x0001_0000, 0x0100_0000));
    // Lane 14 is r = 3, c = 2.
    assert_eq!((rows[14], columns[14]), (0x0305_0304, 0x0503_0403));
    for lane in 0..32u32 {
        let (major, minor) = (lane / 4, 2 * (lane % 4));
        let row = major << 8 | minor;
        assert_eq!(rows[lane as usize], row | (row + 1) << 16);
        let column = minor << 8 | major;
        assert_eq!(columns[lane as usize], column | (column + 0x100) << 16);
    }
}

#[test]
fn stores_undo_loads() {
    let tile = numbered();
    for spread in [Spread::Rows, Spread::Columns] {
        assert_eq!(store(&load(&tile, spread), spread), tile);
    }
    let crossed = store(&load(&tile, Spread::Rows), Spread::Columns);
    assert_eq!(crossed[2][2 * 6..][..2], [2, 6]);
    assert_eq!(tile[2][2 * 6..][..2], [6, 2]);
}

#[test]
fn transposing_exchanges_rows_and_columns() {
    let register = load(&numbered(), Spread::Rows);
    assert_eq!(transpose(&register), load(&numbered(), Spread::Columns));
    assert_eq!(transpose(&transpose(&register)), register);
}
