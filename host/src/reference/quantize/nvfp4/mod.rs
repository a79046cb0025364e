//! NVFP4: one E4M3 scale for each block of 1×16 or 16×16 elements, and one FP32 scale, from the
//! largest magnitude, for each group or row.
//!
//! ```
//! use grouped_linear::numerics::Direction;
//! use grouped_linear::reference::quantize::{Layout, nvfp4};
//!
//! let recipe = nvfp4::Recipe::NEAREST;
//! let (layout, direction) = (Layout::tokens(&[0, 1], 1, 32)?, Direction::Rowwise);
//! let values: Vec<f32> = (0..32).map(|i| if i < 16 { 6.0 } else { 1.5 }).collect();
//! let amax = nvfp4::amax(&layout, &values, &recipe, direction)?;
//! let mut data = vec![0; layout.data_len(direction) / 2];
//! let mut scales = vec![0; nvfp4::scale_len(&layout, &recipe, direction)];
//! nvfp4::quantize(&layout, &values, &recipe, direction, &amax, &mut data, &mut scales)?;
//! assert_eq!(data, [0x77; 16]); // each block's largest magnitude is mapped to 6
//!
//! let mut restored = vec![0.0; 32];
//! nvfp4::dequantize(&layout, &data, &scales, &recipe, direction, &amax, &mut restored)?;
//! assert!(restored.iter().zip(&values).all(|(restored, value)| (restored - value).abs() < 1e-6));
//! # Ok::<(), grouped_linear::Error>(())
//! ```

mod four_over_six;
mod transform;

use std::borrow::Cow;

use self::four_over_six::choose;
use self::transform::transformed;
use super::codes::{EncodeNearest, EncodeStochastic, Packing};
use super::grid::{BlockSize, Grid};
use super::read::{Codes, float4_values, read};
use super::scales::{TilePlaces, block_size, load, store};
use super::write::write;
use super::{BlockShape, Layout, ScaleOrder, check_length, per_tensor};
use crate::error::{Error, Result};
use crate::numerics::philox::StochasticBits;
use crate::numerics::scale::{ScaleBound, TensorScale};
use crate::numerics::{Direction, E4m3};

/// Elements of a block, or on a side of it.
const SIDE: usize = 16;

/// How blocks are quantized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Recipe {
    /// 1×16 (16×1 in columnwise copies) or 16×16.
    pub shape: BlockShape,
    /// Of the blocks' scales in memory.
    pub order: ScaleOrder,
    /// Of elements.
    pub rounding: Rounding,
    /// What happens before columnwise copies are made.
    pub transform: Transform,
    /// What an FP32 scale covers.
    pub scope: Scope,
    /// To what the largest magnitude of a block is mapped.
    pub target: Target,
}

/// How elements are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// To nearest, ties to even.
    Nearest,
    /// At random, so that the mean is right; see [`StochasticBits`].
    Stochastic {
        /// The key of the random numbers.
        seed: u64,
        /// Separates calls with the same seed.
        offset: u64,
    },
}

/// What happens before columnwise copies are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transform {
    /// Nothing.
    None,
    /// Each sixteen rows of a group, from its first on, are mixed by the random
    /// [Hadamard transform](crate::numerics::hadamard) and rounded to BF16; rows that are missing
    /// at the end count as zeros. So the data of a group goes on to the next multiple of 16.
    ///
    /// It is for tokens and output gradients, in whose product over the tokens it cancels. A tensor
    /// of weights may be quantized with it, too, but no product reads the columnwise copy that this
    /// makes: the gradient of the tokens refuses such weights, and recipes never ask for them. The
    /// rowwise copy is not mixed, and can be multiplied.
    Hadamard,
}

/// What an FP32 scale covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// A group.
    Group,
    /// A row; rowwise copies alone.
    Row,
}

/// To what the largest magnitude of a block is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// 6, the largest value of FP4.
    Six,
    /// 6 or 4, whichever restores the block with the smaller error; 6 where they are the same.
    /// Where blocks are squares, both copies have the rowwise choice.
    FourOverSix {
        /// The error that is compared.
        error: ErrorMeasure,
        /// The largest block scale where the tensor's largest magnitude is mapped to 6.
        bound: ScaleBound,
    },
}

impl Target {
    /// The largest block scale where the tensor's largest magnitude is mapped to 6.
    pub const fn bound(self) -> ScaleBound {
        match self {
            Self::Six => ScaleBound::Full,
            Self::FourOverSix { bound, .. } => bound,
        }
    }
}

/// The error of a restored block: a sum over its elements, in the source's own units and in FP32.
/// So it says nothing where largest magnitudes of groups are so small or large that it underflows
/// for either choice, or overflows; then blocks are mapped to 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorMeasure {
    /// Of magnitudes of differences: up to some 10³⁵.
    Absolute,
    /// Of squared differences: from some 10⁻²¹ to 10²⁰.
    Squared,
}

impl Recipe {
    /// Lines of 16, compact scales, nearest even, nothing else.
    pub const NEAREST: Self = Self {
        shape: BlockShape::Line,
        order: ScaleOrder::Compact,
        rounding: Rounding::Nearest,
        transform: Transform::None,
        scope: Scope::Group,
        target: Target::Six,
    };

    fn places(&self, direction: Direction) -> TilePlaces {
        TilePlaces { side: SIDE, direction, order: self.order, transposed: true }
    }

    fn is_transformed(&self, direction: Direction) -> bool {
        self.transform == Transform::Hadamard && direction == Direction::Columnwise
    }

    fn check(&self, layout: &Layout, direction: Direction) -> Result<()> {
        let refuse = |what: &str| Err(Error::unsupported(format!("NVFP4: {what}")));
        let nearest = self.rounding == Rounding::Nearest;
        let plain = nearest && self.transform == Transform::None;
        if !layout.columns().is_multiple_of(SIDE) {
            return refuse(&format!(
                "{} columns were given, a multiple of {SIDE} is needed",
                layout.columns()
            ));
        }
        let columnwise = direction == Direction::Columnwise;
        match layout.rows_of_every_group() {
            Some(rows) if columnwise && !rows.is_multiple_of(SIDE) => {
                return refuse(&format!(
                    "columnwise weights with {rows} rows were given, a multiple of {SIDE} is needed"
                ));
            }
            _ => {}
        }
        if self.transform == Transform::Hadamard && self.shape == BlockShape::Square {
            return refuse("the Hadamard transform needs blocks that are lines");
        }
        if self.scope == Scope::Row && !(plain && !columnwise && self.shape == BlockShape::Line) {
            return refuse(
                "a scale for each row needs rowwise copies, blocks that are lines, rounding to \
                 nearest and no transform",
            );
        }
        if self.target != Target::Six && !plain {
            return refuse("four over six needs rounding to nearest and no transform");
        }
        Ok(())
    }
}

/// Bytes of the block scales of a copy. With `first` the number of rows of all groups before, each
/// padded to 128:
///
/// - rowwise, a group's begin at `first · (columns/16)₄` and are `[padded rows, (columns/16)₄]`;
/// - columnwise, they begin at `first / 16 · columns₁₂₈` and are `[columns₁₂₈, padded rows / 16]`.
///
/// The index means: rounded up to a multiple. Padding is zero.
pub fn scale_len(layout: &Layout, recipe: &Recipe, direction: Direction) -> usize {
    recipe.places(direction).len(layout)
}

/// The largest magnitudes from which the FP32 scales of a copy come: of each group, or of each row
/// of the source. Those of columnwise copies are taken after the transform. NaNs do not count, and
/// where there are no values they are 0.
///
/// # Errors
/// A slice that is too short; a recipe that has no such copy.
pub fn amax(
    layout: &Layout,
    values: &[f32],
    recipe: &Recipe,
    direction: Direction,
) -> Result<Vec<f32>> {
    recipe.check(layout, direction)?;
    let (layout, values) = source(layout, values, recipe, direction)?;
    if recipe.scope == Scope::Group {
        return per_tensor::amax(&layout, &values);
    }
    let rows = Grid::amax(&layout, &values, BlockSize { rows: 1, columns: usize::MAX })?;
    let mut amax = vec![0.0; layout.rows()];
    if layout.columns() > 0 {
        amax[layout.live_rows()].copy_from_slice(&rows.values);
    }
    Ok(amax)
}

/// Makes one copy and the scales of its blocks. `amax` is what [`amax`](fn@amax) gives, or a larger
/// bound that other tensors share. Columnwise copies are transposed.
///
/// # Errors
/// A slice that is too short; a recipe that has no such copy; columns, or rows of columnwise
/// weights, that are not a multiple of 16.
pub fn quantize(
    layout: &Layout,
    values: &[f32],
    recipe: &Recipe,
    direction: Direction,
    amax: &[f32],
    data: &mut [u8],
    scales: &mut [u8],
) -> Result<()> {
    recipe.check(layout, direction)?;
    let (layout, values) = source(layout, values, recipe, direction)?;
    let tensor_scales = TensorScales::new(&layout, recipe, amax)?;
    let block_amax = Grid::amax(&layout, &values, block_size(recipe.shape, direction, SIDE))?;
    let block_scales = match recipe.target {
        Target::Six => block_amax.map(|group, row, _, amax| {
            tensor_scales.get(&layout, group, row).block_scale(amax).to_f32()
        })?,
        Target::FourOverSix { error, .. } => {
            let scale = |group, row| tensor_scales.get(&layout, group, row);
            choose(&layout, &values, &block_amax, scale, error)?
        }
    };
    let factors = block_scales.map(|group, row, _, scale| {
        tensor_scales.get(&layout, group, row).element_factor(E4m3::from_f32(scale))
    })?;

    let places = recipe.places(direction);
    let line = block_size(BlockShape::Line, direction, SIDE);
    let place = |_, group: &_| places.group(&layout, group);
    let stored = |scale| E4m3::from_f32(scale).0;
    store(&layout, &block_scales, line, place, stored, scales, places.len(&layout))?;
    match recipe.rounding {
        Rounding::Nearest => write(&layout, &values, &factors, &EncodeNearest, direction, data),
        Rounding::Stochastic { seed, offset } => {
            let encoder = EncodeStochastic(StochasticBits { seed, offset, direction });
            write(&layout, &values, &factors, &encoder, direction, data)
        }
    }
}

/// Restores a copy, transformed if it is. Elements of the result have the index they have in the
/// data, counted in elements; those of no group are left as they are.
///
/// # Errors
/// As [`quantize`].
pub fn dequantize(
    layout: &Layout,
    data: &[u8],
    scales: &[u8],
    recipe: &Recipe,
    direction: Direction,
    amax: &[f32],
    values: &mut [f32],
) -> Result<()> {
    recipe.check(layout, direction)?;
    let layout = copy_layout(layout, recipe, direction);
    let tensor_scales = TensorScales::new(&layout, recipe, amax)?;
    let places = recipe.places(direction);
    let line = block_size(BlockShape::Line, direction, SIDE);
    let place = |_, group: &_| places.group(&layout, group);
    let factor =
        |group, row, bits| tensor_scales.get(&layout, group, row).restoring_factor(E4m3(bits));
    let factors = load(&layout, line, place, factor, scales, places.len(&layout))?;
    let codes = Codes { data, packing: Packing::Nibble, values: float4_values() };
    read(&layout, &codes, &factors, direction, values)
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
    let from = recipe.places(direction);
    super::scales::reorder(layout, [from, TilePlaces { order, ..from }], scales, result)
}

/// What is quantized, and where its rows lie.
fn source<'a>(
    layout: &'a Layout,
    values: &'a [f32],
    recipe: &Recipe,
    direction: Direction,
) -> Result<(Cow<'a, Layout>, Cow<'a, [f32]>)> {
    let target = copy_layout(layout, recipe, direction);
    if recipe.is_transformed(direction) {
        let values = transformed(layout, &target, values)?;
        return Ok((target, Cow::Owned(values)));
    }
    Ok((target, Cow::Borrowed(values)))
}

fn copy_layout<'a>(layout: &'a Layout, recipe: &Recipe, direction: Direction) -> Cow<'a, Layout> {
    if recipe.is_transformed(direction) {
        return Cow::Owned(layout.with_rows_rounded_up(SIDE));
    }
    Cow::Borrowed(layout)
}

/// The FP32 scales of groups or rows.
struct TensorScales {
    scope: Scope,
    scales: Vec<TensorScale>,
}

impl TensorScales {
    fn new(layout: &Layout, recipe: &Recipe, amax: &[f32]) -> Result<Self> {
        let needed = match recipe.scope {
            Scope::Group => layout.group_count(),
            Scope::Row => layout.live_rows().end,
        };
        check_length("amax", amax.len(), needed)?;
        let scale = |&amax: &f32| TensorScale::new(amax, recipe.target.bound());
        Ok(Self { scope: recipe.scope, scales: amax[..needed].iter().map(scale).collect() })
    }

    /// The scale of a group; `row` counts the blocks of the group, which are rows where it matters.
    fn get(&self, layout: &Layout, group: usize, row: usize) -> TensorScale {
        match self.scope {
            Scope::Group => self.scales[group],
            Scope::Row => self.scales[layout.groups()[group].first + row],
        }
    }
}
