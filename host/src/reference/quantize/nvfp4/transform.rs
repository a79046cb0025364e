//! The Hadamard transform of a source, along its rows.

use rayon::prelude::*;

use super::super::{Layout, check_length};
use crate::error::Result;
use crate::numerics::hadamard::{LENGTH, transform_bf16};
use crate::reference::convert::zeros;

/// The transformed values, whose rows lie as `target` says: those of each group, rounded up to a
/// multiple of 16.
pub(super) fn transformed(layout: &Layout, target: &Layout, values: &[f32]) -> Result<Vec<f32>> {
    let columns = layout.columns();
    check_length("values", values.len(), layout.live_rows().end * columns)?;
    let mut mixed = zeros(target.live_rows().end * columns)?;
    let blocks = mixed.par_chunks_mut((LENGTH * columns).max(1)).enumerate();
    blocks.for_each(|(block, mixed)| {
        let row = block * LENGTH;
        let index = target.group_of_row(row);
        let (from, to) = (&layout.groups()[index], &target.groups()[index]);
        let first = row - to.first;
        let live = LENGTH.min(from.rows - first);
        for column in 0..columns {
            let mut sixteen = [0.0; LENGTH];
            for (row, value) in sixteen[..live].iter_mut().enumerate() {
                *value = values[(from.first + first + row) * columns + column];
            }
            for (row, value) in transform_bf16(&sixteen).into_iter().enumerate() {
                mixed[row * columns + column] = value;
            }
        }
    });
    Ok(mixed)
}
