//! FP8 with one scale for each group: current and delayed scaling.
//!
//! Scales come from [`amax`] by [`Fp8ScaleRule`](crate::numerics::scale::Fp8ScaleRule), or from
//! earlier steps by [`DelayedScaleRule`](crate::numerics::scale::DelayedScaleRule). Both copies
//! have the same scale. See the [example](super).

use rayon::prelude::*;

use super::codes::{EncodeFloat8, Packing};
use super::grid::{BlockSize, Grid};
use super::read::{Codes, float8_values, read};
use super::write::write;
use super::{Layout, check_length};
use crate::error::Result;
use crate::numerics::{Direction, Float8Format};

/// A whole group.
const GROUP: BlockSize = BlockSize { rows: usize::MAX, columns: usize::MAX };

/// Values of which one thread takes the maximum at a time.
const CHUNK: usize = 1 << 15;

/// The largest magnitude of each group, 0 where it has no rows; NaNs do not count.
///
/// # Errors
/// A slice that is too short.
pub fn amax(layout: &Layout, values: &[f32]) -> Result<Vec<f32>> {
    let columns = layout.columns();
    check_length("values", values.len(), layout.live_rows().end * columns)?;
    let largest = |values: &[f32]| values.iter().fold(0.0, |amax: f32, v| amax.max(v.abs()));
    let amax = layout.groups().iter().map(|group| {
        let values = &values[group.first * columns..(group.first + group.rows) * columns];
        values.par_chunks(CHUNK).map(largest).reduce(|| 0.0, f32::max)
    });
    Ok(amax.collect())
}

/// Makes one copy: each value times its group's scale, rounded. Columnwise copies are transposed.
///
/// # Errors
/// A slice that is too short.
pub fn quantize(
    layout: &Layout,
    values: &[f32],
    format: Float8Format,
    scales: &[f32],
    direction: Direction,
    data: &mut [u8],
) -> Result<()> {
    let factors = of_groups(layout, scales)?;
    write(layout, values, &factors, &EncodeFloat8(format), direction, data)
}

/// Restores a copy: codes times `scale_inverses`, one for each group. Elements of the result have
/// the index they have in the data; those of no group are left as they are.
///
/// # Errors
/// A slice that is too short.
pub fn dequantize(
    layout: &Layout,
    data: &[u8],
    format: Float8Format,
    scale_inverses: &[f32],
    direction: Direction,
    values: &mut [f32],
) -> Result<()> {
    let factors = of_groups(layout, scale_inverses)?;
    let codes = Codes { data, packing: Packing::Byte, values: float8_values(format) };
    read(layout, &codes, &factors, direction, values)
}

fn of_groups(layout: &Layout, scales: &[f32]) -> Result<Grid> {
    check_length("scales", scales.len(), layout.group_count())?;
    Grid::new(layout, GROUP)?.map(|group, _, _, _| scales[group])
}
