//! The choice between two scales of a block.

use super::super::Layout;
use super::super::grid::Grid;
use super::{ErrorMeasure, SIDE};
use crate::error::Result;
use crate::numerics::scale::TensorScale;
use crate::numerics::{E2m1, E4m3};

/// For each block the scale, as a number, that restores it with the smaller error.
pub(super) fn choose(
    layout: &Layout,
    values: &[f32],
    amax: &Grid,
    scale: impl Fn(usize, usize) -> TensorScale + Sync,
    error: ErrorMeasure,
) -> Result<Grid> {
    let columns = layout.columns();
    amax.map(|group, row, column, block_amax| {
        let tensor_scale = scale(group, row);
        let rows = &layout.groups()[group];
        let (first_row, first_column) = (row * amax.size.rows, column * amax.size.columns);
        let block = Block {
            values: &values[(rows.first + first_row) * columns + first_column..],
            pitch: columns,
            rows: amax.size.rows.min(rows.rows - first_row),
            columns: amax.size.columns.min(columns - first_column),
        };
        let [six, four] = tensor_scale.block_scales_six_four(block_amax);
        let error_of = |scale| block.error(&tensor_scale, scale, error);
        if error_of(four) < error_of(six) { four.to_f32() } else { six.to_f32() }
    })
}

/// Up to 16×16 values.
struct Block<'a> {
    /// The first value, and what follows it.
    values: &'a [f32],
    /// Values from one row to the next.
    pitch: usize,
    rows: usize,
    columns: usize,
}

impl Block<'_> {
    /// The sum of the errors, in FP32. Along a line it is taken in order; lines of a square are
    /// then added to those half the square away, a quarter, an eighth and a sixteenth.
    fn error(&self, tensor_scale: &TensorScale, scale: E4m3, measure: ErrorMeasure) -> f32 {
        let factor = tensor_scale.element_factor(scale);
        let error = |value: f32| {
            let code = E2m1::from_f32(value * factor);
            let difference = tensor_scale.candidate(code, scale) - value;
            match measure {
                ErrorMeasure::Absolute => difference.abs(),
                ErrorMeasure::Squared => difference * difference,
            }
        };
        let mut lines = [0.0f32; SIDE];
        for row in 0..self.rows {
            // A block of one column is a line.
            let line = if self.columns == 1 { 0 } else { row };
            for value in &self.values[row * self.pitch..][..self.columns] {
                lines[line] += error(*value);
            }
        }
        for half in [8, 4, 2, 1] {
            for line in 0..half {
                lines[line] += lines[line + half];
            }
        }
        lines[0]
    }
}
