//! FP8 with one FP32 scale for each block of 1×128 or 128×128 elements.
//!
//! ```
//! use grouped_linear::numerics::scale::{ScaleKind, Fp8ScaleRule};
//! use grouped_linear::numerics::{Direction, E4m3, Float8Format};
//! use grouped_linear::reference::quantize::{BlockShape, Layout, block};
//!
//! let recipe = block::Recipe {
//!     format: Float8Format::E4m3,
//!     rule: Fp8ScaleRule::new(E4m3::MAX, ScaleKind::PowerOfTwo),
//!     shape: BlockShape::Line,
//! };
//! let (layout, direction) = (Layout::tokens(&[0, 1], 1, 256)?, Direction::Rowwise);
//! let values: Vec<f32> = (0..256).map(|i| if i < 128 { 1.0 } else { 7.0 }).collect();
//! let mut data = vec![0; layout.data_len(direction)];
//! let mut scale_inverses = vec![0.0; block::scale_len(&layout, recipe.shape, direction)];
//! block::quantize(&layout, &values, &recipe, direction, &mut data, &mut scale_inverses)?;
//! // Scales lie [column block, row], and rows are padded to 4.
//! assert_eq!([scale_inverses[0], scale_inverses[4]], [1.0 / 256.0, 1.0 / 64.0]);
//! assert_eq!([data[0], data[128]], [E4m3::from_f32(256.0).0, E4m3::from_f32(448.0).0]);
//! # Ok::<(), grouped_linear::Error>(())
//! ```

use super::codes::{EncodeFloat8, Packing};
use super::grid::Grid;
use super::read::{Codes, float8_values, read};
use super::scales::{BlockPlaces, load, store};
use super::write::write;
use super::{BlockShape, Layout};
use crate::error::Result;
use crate::numerics::scale::{Fp8ScaleRule, scale_inverse};
use crate::numerics::{Direction, Float8Format};

/// How blocks are quantized.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recipe {
    /// Of the data.
    pub format: Float8Format,
    /// How scales come from the largest magnitudes. Its ceiling should be the largest finite value
    /// of the source's element type.
    pub rule: Fp8ScaleRule,
    /// 1×128 (128×1 in columnwise copies) or 128×128.
    pub shape: BlockShape,
}

/// Elements of the scales of a copy.
///
/// | copy | blocks | tokens | weights |
/// |---|---|---|---|
/// | rowwise | line | `[⌈columns/128⌉, rows₄]` | `[groups, ⌈columns/128⌉, rows₄]` |
/// | columnwise | line | `[padded rows/128, columns₄]` | `[groups, ⌈rows/128⌉, columns₄]` |
/// | rowwise | square | `[padded rows/128, ⌈columns/128⌉₄]` | `[groups, ⌈rows/128⌉, ⌈columns/128⌉₄]` |
/// | columnwise | square | `[⌈columns/128⌉, (padded rows/128)₄]` | `[groups, ⌈columns/128⌉, ⌈rows/128⌉₄]` |
///
/// The index 4 means: rounded up to a multiple of 4.
pub fn scale_len(layout: &Layout, shape: BlockShape, direction: Direction) -> usize {
    BlockPlaces::new(layout, shape, direction).len()
}

/// Makes one copy and the inverses of its scales. Columnwise copies are transposed.
///
/// # Errors
/// A slice that is too short.
pub fn quantize(
    layout: &Layout,
    values: &[f32],
    recipe: &Recipe,
    direction: Direction,
    data: &mut [u8],
    scale_inverses: &mut [f32],
) -> Result<()> {
    let places = BlockPlaces::new(layout, recipe.shape, direction);
    let size = places.size();
    let amax = Grid::amax(layout, values, size)?;
    let factors = amax.map(|_, _, _, amax| recipe.rule.scale(amax))?;
    let place = |index, group: &_| places.group(layout, index, group);
    store(layout, &factors, size, place, scale_inverse, scale_inverses, places.len())?;
    write(layout, values, &factors, &EncodeFloat8(recipe.format), direction, data)
}

/// Restores a copy. Elements of the result have the index they have in the data; those of no group
/// are left as they are.
///
/// # Errors
/// A slice that is too short.
pub fn dequantize(
    layout: &Layout,
    data: &[u8],
    scale_inverses: &[f32],
    recipe: &Recipe,
    direction: Direction,
    values: &mut [f32],
) -> Result<()> {
    let places = BlockPlaces::new(layout, recipe.shape, direction);
    let place = |index, group: &_| places.group(layout, index, group);
    let scale = |_, _, scale| scale;
    let factors = load(layout, places.size(), place, scale, scale_inverses, places.len())?;
    let codes = Codes { data, packing: Packing::Byte, values: float8_values(recipe.format) };
    read(layout, &codes, &factors, direction, values)
}
