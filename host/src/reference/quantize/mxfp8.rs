//! MXFP8: one power of two for each block of 1×32 or 32×32 elements.
//!
//! ```
//! use grouped_linear::numerics::{Direction, Float8Format};
//! use grouped_linear::reference::quantize::{BlockShape, Layout, ScaleOrder, mxfp8};
//!
//! let recipe = mxfp8::Recipe {
//!     format: Float8Format::E4m3,
//!     shape: BlockShape::Line,
//!     order: ScaleOrder::Compact,
//! };
//! let (layout, direction) = (Layout::tokens(&[0, 1], 1, 64)?, Direction::Rowwise);
//! let values: Vec<f32> = (0..64).map(|i| if i < 32 { 1.0 } else { 3.5 }).collect();
//! let mut data = vec![0; layout.source_len()];
//! let mut exponents = vec![0xaa; mxfp8::scale_len(&layout, &recipe, direction)];
//! mxfp8::quantize(&layout, &values, &recipe, direction, &mut data, &mut exponents)?;
//! assert_eq!(exponents[..4], [119, 120, 0, 0]); // 2⁻⁸, 2⁻⁷, and padding
//! # Ok::<(), grouped_linear::Error>(())
//! ```

use super::codes::{EncodeFloat8, Packing};
use super::grid::Grid;
use super::read::{self, Codes, float8_values};
use super::scales::{TilePlaces, block_size, load, store};
use super::{BlockShape, Layout, ScaleOrder, write};
use crate::error::{Error, Result};
use crate::numerics::scale::mxfp8_exponent;
use crate::numerics::{Direction, E8m0, Float8Format};

/// Elements of a block, or on a side of it.
const SIDE: usize = 32;

/// How blocks are quantized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Recipe {
    /// Of the data.
    pub format: Float8Format,
    /// 1×32 (32×1 in columnwise copies) or 32×32.
    pub shape: BlockShape,
    /// Of the exponents in memory.
    pub order: ScaleOrder,
}

/// Bytes of the exponents of a copy. With `first` the number of rows of all groups before, each
/// padded to 128:
///
/// - rowwise, a group's begin at `first · (columns/32)₄` and are `[padded rows, (columns/32)₄]`;
/// - columnwise, they begin at `first / 32 · columns₁₂₈` and are `[padded rows / 32, columns₁₂₈]`.
///
/// The index means: rounded up to a multiple. Padding is zero.
pub fn scale_len(layout: &Layout, recipe: &Recipe, direction: Direction) -> usize {
    places(recipe, direction).len(layout)
}

/// Makes one copy and the exponents of its blocks. The data lies as the source does, columnwise,
/// too.
///
/// # Errors
/// A slice that is too short; columns that are not a multiple of 32.
pub fn quantize(
    layout: &Layout,
    values: &[f32],
    recipe: &Recipe,
    direction: Direction,
    data: &mut [u8],
    exponents: &mut [u8],
) -> Result<()> {
    check_columns(layout)?;
    let places = places(recipe, direction);
    let size = block_size(recipe.shape, direction, SIDE);
    let amax = Grid::amax(layout, values, size)?;
    let exponent = |amax| mxfp8_exponent(amax, recipe.format.max());
    let factors = amax.map(|_, _, _, amax| exponent(amax).reciprocal())?;
    let line = block_size(BlockShape::Line, direction, SIDE);
    let place = |_, group: &_| places.group(layout, group);
    let stored = |amax| exponent(amax).0;
    store(layout, &amax, line, place, stored, exponents, places.len(layout))?;
    write::rows(layout, values, &factors, &EncodeFloat8(recipe.format), data)
}

/// Restores a copy. Rows of no group are left as they are.
///
/// # Errors
/// A slice that is too short; columns that are not a multiple of 32.
pub fn dequantize(
    layout: &Layout,
    data: &[u8],
    exponents: &[u8],
    recipe: &Recipe,
    direction: Direction,
    values: &mut [f32],
) -> Result<()> {
    check_columns(layout)?;
    let places = places(recipe, direction);
    let line = block_size(BlockShape::Line, direction, SIDE);
    let place = |_, group: &_| places.group(layout, group);
    let factor = |_, _, bits| E8m0(bits).to_f32();
    let factors = load(layout, line, place, factor, exponents, places.len(layout))?;
    let codes = Codes { data, packing: Packing::Byte, values: float8_values(recipe.format) };
    read::rows(layout, &codes, &factors, values)
}

/// The scales of a copy, padding included, from the order of `recipe` to `order`.
///
/// # Errors
/// A slice that is too short.
pub fn reorder(
    layout: &Layout,
    recipe: &Recipe,
    direction: Direction,
    order: ScaleOrder,
    scales: &[u8],
    result: &mut [u8],
) -> Result<()> {
    let from = places(recipe, direction);
    super::scales::reorder(layout, [from, TilePlaces { order, ..from }], scales, result)
}

fn places(recipe: &Recipe, direction: Direction) -> TilePlaces {
    TilePlaces { side: SIDE, direction, order: recipe.order, transposed: false }
}

fn check_columns(layout: &Layout) -> Result<()> {
    if !layout.columns().is_multiple_of(SIDE) {
        return Err(Error::unsupported(format!(
            "MXFP8: {} columns were given, a multiple of {SIDE} is needed",
            layout.columns()
        )));
    }
    Ok(())
}
