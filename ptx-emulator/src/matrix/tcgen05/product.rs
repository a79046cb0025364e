//! Operands as numbers, and the blocked product.

use super::element::{Element, Packing};
use super::form::{Group, ScaleVector};
use super::layout::Layout;
use super::scale::ScaleType;
use super::{LANES, Memory};
use crate::matrix::AccumulatorType;
use crate::matrix::block::{self, Precision};
use crate::matrix::element::{ROW_BYTES, f16_nearest, f16_value};

/// Columns of D that are multiplied together.
const WIDTH: usize = 16;

/// Eight rows of A, `[k][row]`.
type Panel<const K: usize> = [[f64; 8]; K];

/// How the bytes of an operand become numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decoding {
    /// The type of the elements.
    pub(super) element: Element,
    /// How small ones lie in a row.
    pub(super) packing: Packing,
    /// Whether they are negated.
    pub(super) negated: bool,
    /// The type of the scale factors and how many a row has.
    pub(super) scales: Option<(ScaleType, ScaleVector)>,
}

impl Decoding {
    /// A row of K numbers; the lowest bytes of `factors` are its scale factors.
    fn row<const K: usize>(&self, bytes: &[u8; ROW_BYTES], factors: u32) -> [f64; K] {
        let sign = if self.negated { -1.0 } else { 1.0 };
        let mut decoded = [0.0; K];
        let values: [f32; K] = self.element.decode(self.packing, bytes);
        for (decoded, value) in decoded.iter_mut().zip(values) {
            *decoded = f64::from(value) * sign;
        }
        if let Some((scale, vector)) = self.scales {
            let parts = decoded.chunks_mut(K / vector.factors());
            for (part, code) in parts.zip(factors.to_le_bytes()) {
                let factor = scale.decode(code);
                part.iter_mut().for_each(|value| *value *= factor);
            }
        }
        decoded
    }

    /// All columns of B, and zeros behind, so that every column begins a whole block.
    pub(super) fn columns<const K: usize>(
        &self,
        rows: &[[u8; ROW_BYTES]],
        factors: &[u32],
    ) -> Vec<[f64; K]> {
        let factors = factors.iter().copied().chain(std::iter::repeat(0));
        let columns = rows.iter().zip(factors).map(|(row, factors)| self.row(row, factors));
        columns.chain([[0.0; K]; WIDTH]).collect()
    }

    /// All rows of A, by eights.
    pub(super) fn panels<const K: usize>(
        &self,
        rows: &[[u8; ROW_BYTES]],
        factors: &[u32],
    ) -> Vec<Panel<K>> {
        let mut factors = factors.iter().copied().chain(std::iter::repeat(0));
        let panel = |eight: &[[u8; ROW_BYTES]; 8]| {
            let mut panel = [[0.0; 8]; K];
            for (place, (bytes, factors)) in eight.iter().zip(&mut factors).enumerate() {
                let values: [f64; K] = self.row(bytes, factors);
                for (row, value) in panel.iter_mut().zip(values) {
                    row[place] = value;
                }
            }
            panel
        };
        rows.as_chunks::<8>().0.iter().map(panel).collect()
    }
}

/// Where and how the sums are kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    /// Their type.
    pub(super) kind: AccumulatorType,
    /// Whether `s32` saturates.
    pub(super) saturate: bool,
    /// What the old D is multiplied by before it is added; nothing where it is not.
    pub(super) keep: Option<f64>,
    /// How a block's D lies in its lanes.
    pub(super) layout: Layout,
    /// The first column of tensor memory.
    pub(super) column: u32,
    /// Columns of D.
    pub(super) n: u32,
    /// The blocks of D.
    pub(super) group: Group,
    /// Lanes of each block that keep what they have.
    pub(super) disabled: [u128; 2],
}

impl Target {
    /// Adds the product to D. `a` has the panels of block 0, then those of block 1.
    pub(super) fn accumulate<const K: usize>(
        &self,
        a: &[Panel<K>],
        b: &[[f64; K]],
        memory: &mut impl Memory,
    ) {
        let per_block = self.layout.rows() as usize / 8;
        for (block, a) in (0..self.group.blocks()).zip(a.chunks(per_block)) {
            let lanes = self.lanes(block);
            let mut sums = [[0.0; LANES]; WIDTH];
            let width = self.n / self.layout.parts();
            for first in (0..width).step_by(WIDTH) {
                let columns = first..width.min(first + WIDTH as u32);
                for (sums, column) in sums.iter_mut().zip(columns.clone()) {
                    *sums = self.before(memory, block, self.column + column);
                }
                self.multiply(first, a, b, &mut sums);
                for (sums, column) in sums.iter().zip(columns) {
                    let words = self.words(sums);
                    memory.set_column(block, self.column + column, lanes, &words);
                }
            }
        }
    }

    /// The lanes that a block's D has.
    pub(super) fn lanes(&self, block: usize) -> u128 {
        self.layout.lanes() & !self.disabled[block % 2]
    }

    /// Adds the products of sixteen columns of the layout.
    fn multiply<const K: usize>(
        &self,
        first: u32,
        a: &[Panel<K>],
        b: &[[f64; K]],
        sums: &mut [[f64; LANES]; WIDTH],
    ) {
        for unit in self.layout.units(self.n) {
            let columns = b.get((unit.first + first) as usize..).and_then(<[_]>::first_chunk);
            let (Some(columns), Some(panel)) = (columns, a.get(unit.row as usize / 8)) else {
                continue;
            };
            let lane = unit.lane as usize / 8;
            let mut own = sums.each_ref().map(|column| column.as_chunks::<8>().0[lane]);
            block::multiply(columns, panel, &mut own);
            for (column, own) in sums.iter_mut().zip(own) {
                column.as_chunks_mut::<8>().0[lane] = own;
            }
        }
    }

    /// What a column begins with.
    fn before(&self, memory: &impl Memory, block: usize, column: u32) -> [f64; LANES] {
        let Some(factor) = self.keep else { return [0.0; LANES] };
        let words = memory.column(block, column);
        match self.kind {
            AccumulatorType::F32 => words.map(|word| f64::from(f32::from_bits(word)) * factor),
            AccumulatorType::F16 => words.map(|word| f64::from(f16_value(word & 0xFFFF)) * factor),
            AccumulatorType::S32 => words.map(|word| f64::from(word as i32)),
        }
    }

    /// The words of a column; `f16` is in the lower half of one, and the upper half is zero.
    fn words(&self, sums: &[f64; LANES]) -> [u32; LANES] {
        match self.kind {
            AccumulatorType::F32 => sums.map(|sum| block::single(sum, Precision::Single)),
            AccumulatorType::F16 => sums.map(f16_nearest),
            AccumulatorType::S32 if self.saturate => {
                sums.map(|sum| block::low_word(sum.clamp(f64::from(i32::MIN), f64::from(i32::MAX))))
            }
            AccumulatorType::S32 => sums.map(block::low_word),
        }
    }
}
