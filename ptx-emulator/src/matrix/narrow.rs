//! `mma.sync` of small integers that older architectures brought: 4-bit integers, single bits,
//! and 8-bit ones with an M of 8 (PTX ISA 9.7.14.5.4 and following).
//!
//! Whatever the type, a register of A holds 32 bits of K of a row and one of B the same bits of K
//! of a column: register `2h + r` of lane 4g + t has part `t + 4h` of row `g + 8r` of A, register
//! h of lane 4g + t part `t + 4h` of column g of B, as for the other types.

use super::{MatrixError, Row};

/// How the bits of a register are combined with those of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NarrowType {
    /// Four 8-bit integers.
    S8,
    /// Four unsigned 8-bit integers.
    U8,
    /// Eight 4-bit integers.
    S4,
    /// Eight unsigned 4-bit integers.
    U4,
    /// 32 single bits, multiplied by `and`.
    And,
    /// 32 single bits, of which those that differ count.
    Xor,
}

impl NarrowType {
    /// Bits of an element.
    fn bits(self) -> u32 {
        match self {
            Self::S8 | Self::U8 => 8,
            Self::S4 | Self::U4 => 4,
            Self::And | Self::Xor => 1,
        }
    }

    /// The word of an opcode that names the type.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::S8 => "s8",
            Self::U8 => "u8",
            Self::S4 => "s4",
            Self::U4 => "u4",
            Self::And | Self::Xor => "b1",
        }
    }

    fn is_signed(self) -> bool {
        matches!(self, Self::S8 | Self::S4)
    }

    /// Elements of the register, in the order of K.
    fn elements(self, word: u32) -> impl Iterator<Item = i32> {
        let bits = self.bits();
        let signed = self.is_signed();
        (0..32 / bits).map(move |index| {
            let top = word << (32 - bits * (index + 1));
            if signed { top as i32 >> (32 - bits) } else { (top >> (32 - bits)) as i32 }
        })
    }
}

/// A valid product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Narrow {
    types: [NarrowType; 2],
    /// Registers of D, A and B.
    registers: [usize; 3],
    saturate: bool,
}

impl Narrow {
    /// Checks shape (M, N, K), the types of A and B, and `.satfinite`.
    pub(crate) fn new(
        (m, n, k): (u32, u32, u32),
        types: [NarrowType; 2],
        saturate: bool,
    ) -> Result<Self, MatrixError> {
        let [a, b] = types;
        // K in units of what the registers of one part hold: 128 bits.
        let part = 128 / a.bits();
        let bits = a.bits() == 1;
        let registers = match (m, n) {
            (8, 8) if k == part => [2, 1, 1],
            (16, 8) if k == part => [4, 2, 1],
            (16, 8) if k == 2 * part => [4, 4, 2],
            _ => [0; 3],
        };
        let alike = a.bits() == b.bits() && (!bits || a == b);
        if registers == [0; 3] || !alike || bits && saturate {
            let saturated = if saturate { " with .satfinite" } else { "" };
            let twice = 2 * part;
            let text = format!(
                "mma m{m}n{n}k{k} of {a:?} and {b:?}{saturated}: {a:?} takes m8n8k{part}, \
                 m16n8k{part} and m16n8k{twice}, with B of the same width; single bits are \
                 combined in one way and never saturated"
            );
            return Err(MatrixError::Form(text));
        }
        Ok(Self { types, registers, saturate })
    }

    /// How many registers D, A and B have.
    pub(crate) fn registers(&self) -> [usize; 3] {
        self.registers
    }

    /// Executes the instruction; `d` holds C before and D after.
    pub(crate) fn execute(&self, a: &[Row], b: &[Row], d: &mut [Row]) -> Result<(), MatrixError> {
        let counts = [("D", d.len()), ("A", a.len()), ("B", b.len())];
        for ((operand, found), expected) in counts.into_iter().zip(self.registers) {
            if expected != found {
                return Err(MatrixError::Registers { operand, expected, found });
            }
        }
        let groups = d.len() / 2;
        for (index, register) in d.iter_mut().enumerate() {
            let rows = a.iter().skip(index / 2).step_by(groups.max(1));
            for (lane, word) in register.iter_mut().enumerate() {
                let (row, column) = (lane / 4, 2 * (lane % 4) + index % 2);
                let mut sum = 0;
                for (a, b) in rows.clone().zip(b) {
                    for part in 0..4 {
                        sum += self.combine(a[4 * row + part], b[4 * column + part]);
                    }
                }
                let old = *word as i32;
                let new =
                    if self.saturate { old.saturating_add(sum) } else { old.wrapping_add(sum) };
                *word = new as u32;
            }
        }
        Ok(())
    }

    /// The sum of the products of two registers' elements.
    fn combine(&self, a: u32, b: u32) -> i32 {
        match self.types {
            [NarrowType::And, _] => (a & b).count_ones() as i32,
            [NarrowType::Xor, _] => (a ^ b).count_ones() as i32,
            [first, second] => {
                let pairs = first.elements(a).zip(second.elements(b));
                pairs.map(|(a, b)| a * b).sum()
            }
        }
    }
}
