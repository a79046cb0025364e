//! Scale factors in tensor memory (PTX ISA 9.7.16.10.7).
//!
//! Row r of a matrix has its factors in one word: lane `r % 32` of column `r / 32`, once in every
//! quarter of 32 lanes, because every quarter multiplies its rows of D on its own. Which bytes of
//! the word they are is a matter of the instruction descriptor. Both blocks of a pair have the
//! factors of all columns of B, and of their own rows of A.
//!
//! With 128 rows of two blocks, the quarters of each half of the lanes have the factors of their
//! half of the columns of B only, beginning at the same column. The manual does not say so; a
//! library's layout has it.

use super::{Cells, LANES, Memory, problem};
use crate::matrix::MatrixError;
use std::ops::Range;

/// How a scale factor is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScaleType {
    /// Eight bits of exponent: 2^-127 to 2^127 and NaN.
    Ue8m0,
    /// e4m3 without its sign, whose bit is zero and does not count.
    Ue4m3,
}

impl ScaleType {
    /// The value of a factor; exact.
    pub(super) fn decode(self, code: u8) -> f64 {
        match self {
            Self::Ue8m0 if code == 0xFF => f64::NAN,
            Self::Ue8m0 => f64::from_bits((1023 - 127 + u64::from(code)) << 52),
            Self::Ue4m3 => {
                let code = u64::from(code & 0x7F);
                let (exponent, mantissa) = (code >> 3, code & 7);
                let power = |exponent: u64| f64::from_bits((1023 + exponent - 10) << 52);
                match (exponent, mantissa) {
                    (15, 7) => f64::NAN,
                    (0, _) => mantissa as f64 * power(1),
                    _ => (mantissa + 8) as f64 * power(exponent),
                }
            }
        }
    }
}

/// Where the factors of some rows lie, with all their copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Factors {
    /// The blocks that have copies.
    pub(super) blocks: Range<usize>,
    /// The first column.
    pub(super) column: u32,
    /// How many rows there are.
    pub(super) rows: u32,
    /// The quarters of the lanes that have copies.
    pub(super) quarters: Range<u32>,
}

impl Factors {
    /// How many columns so many rows take.
    pub(super) fn columns(rows: u32) -> u32 {
        rows.div_ceil(32)
    }

    /// Appends the words that hold them.
    pub(super) fn footprint(&self, cells: &mut Vec<Cells>) {
        let lanes = |rows: u32| {
            let quarter = (1u128 << rows) - 1;
            self.quarters.clone().fold(0, |lanes, index| lanes | quarter << (32 * index))
        };
        let whole = self.column + self.rows / 32;
        let parts = [
            (lanes(32), self.column..whole),
            (lanes(self.rows % 32), whole..whole + u32::from(!self.rows.is_multiple_of(32))),
        ];
        for block in self.blocks.clone() {
            for (lanes, columns) in parts.clone() {
                if !columns.is_empty() {
                    cells.push(Cells { block, lanes, columns });
                }
            }
        }
    }

    /// The words of all rows, shifted right by `byte` bytes. Bytes in `mask` must be the same in
    /// all copies.
    pub(super) fn words(
        &self,
        memory: &impl Memory,
        operand: &str,
        byte: u32,
        mask: u32,
    ) -> Result<Vec<u32>, MatrixError> {
        let mut words = Vec::with_capacity(self.rows as usize);
        for first in (0..self.rows).step_by(32) {
            let column = self.column + first / 32;
            let count = 32.min(self.rows - first) as usize;
            let copies: Vec<[u32; LANES]> =
                self.blocks.clone().map(|block| memory.column(block, column)).collect();
            let start = words.len();
            for copy in &copies {
                for quarter in self.quarters.clone() {
                    let lanes = copy.iter().skip(32 * quarter as usize).take(count);
                    let found = lanes.map(|word| word >> (8 * byte) & mask);
                    if words.len() == start {
                        words.extend(found);
                    } else if let Some(lane) =
                        found.zip(&words[start..]).position(|(found, word)| found != *word)
                    {
                        return Err(self.difference(operand, column, lane));
                    }
                }
            }
        }
        Ok(words)
    }

    fn difference(&self, operand: &str, column: u32, lane: usize) -> MatrixError {
        let quarters = self.quarters.clone().map(|index| (32 * index as usize + lane).to_string());
        let lanes = quarters.collect::<Vec<_>>().join(", ");
        let blocks = if self.blocks.len() > 1 { " of both blocks" } else { "" };
        problem(format!(
            "the scale factors of {operand} in lanes {lanes} of column {column}{blocks} differ: \
             every quarter of tensor memory needs the same"
        ))
    }
}
