//! The data of copies.

use rayon::prelude::*;

use super::codes::{Encode, Packing};
use super::grid::Grid;
use super::layout::{GroupRows, PADDING};
use super::{Direction, Layout, check_length};
use crate::error::{Error, Result};
use crate::numerics::philox::Place;

/// Columns that are transposed together: their values in one row lie on a few cache lines.
const STRIP: usize = 32;

/// The rows of a group that are transposed together, column after column.
type Tile = [[f32; PADDING]; STRIP];

/// Quantizes into a copy that is transposed where it is columnwise.
pub(super) fn write<E: Encode>(
    layout: &Layout,
    values: &[f32],
    factors: &Grid,
    encoder: &E,
    direction: Direction,
    data: &mut [u8],
) -> Result<()> {
    match direction {
        Direction::Rowwise => rows(layout, values, factors, encoder, data),
        Direction::Columnwise => transposed(layout, values, factors, encoder, data),
    }
}

/// Quantizes into a copy that lies as the source does. `factors` has the number by which the values
/// of each block are multiplied.
pub(super) fn rows<E: Encode>(
    layout: &Layout,
    values: &[f32],
    factors: &Grid,
    encoder: &E,
    data: &mut [u8],
) -> Result<()> {
    let columns = layout.columns();
    let row_bytes = E::PACKING.bytes(columns);
    let live = layout.live_rows();
    check_length("values", values.len(), live.end * columns)?;
    check_length("data", data.len(), live.end * row_bytes)?;
    if columns == 0 {
        return Ok(());
    }
    let data = &mut data[live.start * row_bytes..live.end * row_bytes];
    data.par_chunks_mut(row_bytes).enumerate().for_each_init(
        || vec![0; columns],
        |codes, (row, data)| {
            let row = live.start + row;
            let group = layout.group_of_row(row);
            let line = row - layout.groups()[group].first;
            let row_factors = factors.row(group, line);
            let block = factors.size.columns;
            let blocks = values[row * columns..][..columns].chunks(block);
            let blocks = blocks.zip(codes.chunks_mut(block)).zip(row_factors).enumerate();
            for (column_block, ((values, codes), factor)) in blocks {
                let place = Place::new(row - line, line, columns, column_block * block);
                encoder.encode(values, *factor, place, codes);
            }
            E::PACKING.store(codes, data);
        },
    );
    Ok(())
}

/// Quantizes into a copy whose lines are the columns of the source.
fn transposed<E: Encode>(
    layout: &Layout,
    values: &[f32],
    factors: &Grid,
    encoder: &E,
    data: &mut [u8],
) -> Result<()> {
    let columns = layout.columns();
    let pitch = layout.transposed_pitch();
    check_length("values", values.len(), layout.live_rows().end * columns)?;
    if E::PACKING == Packing::Nibble && pitch % 2 == 1 {
        return Err(Error::unsupported(format!(
            "FP4 copies along the rows: groups of weights with {pitch} rows were given, an even \
             number is needed"
        )));
    }
    let needed = E::PACKING.bytes(layout.data_len(Direction::Columnwise));
    check_length("data", data.len(), needed)?;
    if columns == 0 || pitch == 0 {
        return Ok(());
    }
    let line_bytes = E::PACKING.bytes(pitch);
    let parts = layout.parts().zip(data.chunks_mut(columns * line_bytes)).enumerate();
    for (part, (groups, data)) in parts {
        let first_group = part * groups.len();
        let first_line = part * columns;
        let lines = Lines { values, columns, groups, first_group, first_line, pitch, factors };
        data.par_chunks_mut(STRIP * line_bytes).enumerate().for_each_init(
            || Box::new([[0.0; PADDING]; STRIP]),
            |tile, (strip, data)| lines.write_strip(strip * STRIP, encoder, tile, data),
        );
    }
    Ok(())
}

/// The lines that some groups share.
struct Lines<'a> {
    /// The source.
    values: &'a [f32],
    columns: usize,
    groups: &'a [GroupRows],
    /// The index of the first of the groups.
    first_group: usize,
    /// The index of the first of the lines.
    first_line: usize,
    /// Elements of a line.
    pitch: usize,
    factors: &'a Grid,
}

impl Lines<'_> {
    /// Writes the lines of up to [`STRIP`] columns from `first_column` on.
    fn write_strip<E: Encode>(
        &self,
        first_column: usize,
        encoder: &E,
        tile: &mut Tile,
        data: &mut [u8],
    ) {
        for (index, group) in self.groups.iter().enumerate() {
            for first_row in (0..group.line_length).step_by(PADDING) {
                self.load(group, first_row, first_column, tile);
                let length = PADDING.min(group.line_length - first_row);
                let live = length.min(group.rows.saturating_sub(first_row));
                let place = group.line_first + first_row;
                let bytes = E::PACKING.bytes(place)..E::PACKING.bytes(place + length);
                let lines = tile.iter().zip(data.chunks_mut(E::PACKING.bytes(self.pitch)));
                for (line, (values, data)) in lines.enumerate() {
                    let column = first_column + line;
                    let mut codes = [0; PADDING];
                    let step = self.factors.size.rows.min(PADDING);
                    for start in (0..live).step_by(step) {
                        let run = start..live.min(start + step);
                        let factors = self.factors.row(self.first_group + index, first_row + start);
                        let factor = factors[column / self.factors.size.columns];
                        let first = Place::new(self.first_line, column, self.pitch, place + start);
                        encoder.encode(&values[run.clone()], factor, first, &mut codes[run]);
                    }
                    E::PACKING.store(&codes[..length], &mut data[bytes.clone()]);
                }
            }
        }
    }

    /// Transposes the values of a group's rows from `first_row` on into `tile`, as many as there
    /// are.
    fn load(&self, group: &GroupRows, first_row: usize, first_column: usize, tile: &mut Tile) {
        let live = PADDING.min(group.rows.saturating_sub(first_row));
        let width = STRIP.min(self.columns - first_column);
        for row in 0..live {
            let source = (group.first + first_row + row) * self.columns + first_column;
            for (line, value) in tile.iter_mut().zip(&self.values[source..][..width]) {
                line[row] = *value;
            }
        }
    }
}
