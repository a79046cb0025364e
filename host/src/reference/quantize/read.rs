//! Data of copies, back to values.

use rayon::prelude::*;

use super::codes::Packing;
use super::grid::Grid;
use super::{Direction, Layout, check_length};
use crate::error::Result;
use crate::numerics::{E2m1, E4m3, E5m2, Float8Format};

/// The values of the codes of a format, by their bits.
pub(super) type Values = [f32; 256];

/// The values of FP8.
pub(super) fn float8_values(format: Float8Format) -> Values {
    std::array::from_fn(|bits| match format {
        Float8Format::E4m3 => E4m3(bits as u8).to_f32(),
        Float8Format::E5m2 => E5m2(bits as u8).to_f32(),
    })
}

/// The values of FP4, for the lower four bits.
pub(super) fn float4_values() -> Values {
    std::array::from_fn(|bits| E2m1(bits as u8).to_f32())
}

/// A copy's codes, and what they stand for.
pub(super) struct Codes<'a> {
    pub data: &'a [u8],
    pub packing: Packing,
    pub values: Values,
}

impl Codes<'_> {
    fn value(&self, index: usize) -> f32 {
        let byte = match self.packing {
            Packing::Byte => self.data[index],
            Packing::Nibble => self.data[index / 2] >> (4 * (index % 2)) & 15,
        };
        self.values[usize::from(byte)]
    }
}

/// Restores a copy that is transposed where it is columnwise. Elements of the result have the index
/// they have in the data; those of no group are left as they are.
pub(super) fn read(
    layout: &Layout,
    codes: &Codes<'_>,
    factors: &Grid,
    direction: Direction,
    values: &mut [f32],
) -> Result<()> {
    match direction {
        Direction::Rowwise => rows(layout, codes, factors, values),
        Direction::Columnwise => transposed(layout, codes, factors, values),
    }
}

/// Restores a copy that lies as the source does.
pub(super) fn rows(
    layout: &Layout,
    codes: &Codes<'_>,
    factors: &Grid,
    values: &mut [f32],
) -> Result<()> {
    let columns = layout.columns();
    let live = layout.live_rows();
    check_length("data", codes.data.len(), codes.packing.bytes(live.end * columns))?;
    check_length("values", values.len(), live.end * columns)?;
    if columns == 0 {
        return Ok(());
    }
    let values = &mut values[live.start * columns..live.end * columns];
    values.par_chunks_mut(columns).enumerate().for_each(|(row, values)| {
        let row = live.start + row;
        let group = layout.group_of_row(row);
        let factors_of_row = factors.row(group, row - layout.groups()[group].first);
        for (column, value) in values.iter_mut().enumerate() {
            let factor = factors_of_row[column / factors.size.columns];
            *value = codes.value(row * columns + column) * factor;
        }
    });
    Ok(())
}

/// Restores a copy whose lines are the columns of the source; padding becomes zeros.
fn transposed(
    layout: &Layout,
    codes: &Codes<'_>,
    factors: &Grid,
    values: &mut [f32],
) -> Result<()> {
    let (columns, pitch) = (layout.columns(), layout.transposed_pitch());
    let needed = layout.data_len(Direction::Columnwise);
    check_length("data", codes.data.len(), codes.packing.bytes(needed))?;
    check_length("values", values.len(), needed)?;
    let parts: Vec<_> = layout.parts().collect();
    // Without groups nothing is restored, though there may be rows.
    if columns == 0 || pitch == 0 || parts.is_empty() {
        return Ok(());
    }
    values[..needed].par_chunks_mut(pitch).enumerate().for_each(|(line, values)| {
        let (part, column) = (line / columns, line % columns);
        for (index, group) in parts[part].iter().enumerate() {
            let group_index = part * parts[part].len() + index;
            let own = &mut values[group.line_first..][..group.line_length];
            for (row, value) in own.iter_mut().enumerate() {
                *value = if row < group.rows {
                    let factors_of_row = factors.row(group_index, row);
                    let index = line * pitch + group.line_first + row;
                    codes.value(index) * factors_of_row[column / factors.size.columns]
                } else {
                    0.0
                };
            }
        }
    });
    Ok(())
}
