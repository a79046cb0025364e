//! `cvt` among integers.

use super::low_words;
use crate::execute::registers::{Doubles, Registers, Words, lanes};
use crate::numeric::convert::IntegerType;
use crate::program::operand::{Any, Wide};

/// The low bits of words, extended to 32 bits. Widths other than 8 and 16 bits change nothing.
#[inline(always)]
pub(super) fn extend_words(values: &Words, bits: u32, signed: bool) -> Words {
    match (bits, signed) {
        (8, false) => values.map(|value| value & 0xFF),
        (8, true) => values.map(|value| value as i8 as u32),
        (16, false) => values.map(|value| value & 0xFFFF),
        (16, true) => values.map(|value| value as i16 as u32),
        _ => *values,
    }
}

/// The low bits of a value, extended to 64 bits.
pub(super) fn extend(value: u64, ty: IntegerType) -> u64 {
    let unused = 64 - ty.bits.clamp(1, 64);
    if ty.signed {
        return ((value << unused) as i64 >> unused) as u64;
    }
    value << unused >> unused
}

/// A conversion without `.sat`: the source's bits are extended to the width of the result's type,
/// or cut, and then those to the width of the result's register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extension {
    pub(super) to: IntegerType,
    pub(super) from: IntegerType,
    /// Bits of the result's register; rows of words hold registers of 8 and 16 bits as well.
    pub(super) register_bits: u32,
}

impl Extension {
    #[inline]
    pub(super) fn execute(self, registers: &mut Registers, to: Wide, from: Any, mask: u32) {
        let Wide::Word(to) = to else { return self.execute_wide(registers, to, from, mask) };
        let values = self.narrowed(&low_words(registers, from));
        registers.set_words(to, mask, &extend_words(&values, self.register_bits, false));
    }

    /// The low 32 bits of the result. They depend on the low 32 bits of the source only.
    #[inline(always)]
    fn narrowed(self, values: &Words) -> Words {
        let Self { to, from, .. } = self;
        // Bits that the result cuts off need not be extended first.
        if to.bits <= from.bits {
            return extend_words(values, to.bits, to.signed);
        }
        extend_words(&extend_words(values, from.bits, from.signed), to.bits, to.signed)
    }

    fn execute_wide(self, registers: &mut Registers, to: Wide, from: Any, mask: u32) {
        let Self { to: target, from: source, .. } = self;
        if target.bits == 64 && source.bits == 64 {
            let values = registers.any(from);
            return self.set(registers, to, mask, &values);
        }
        let words = self.narrowed(&low_words(registers, from));
        // The sign that goes on above the word is that of the narrower type.
        let signed = if target.bits == 64 { source.signed } else { target.signed };
        let values =
            if signed { words.map(|value| value as i32 as u64) } else { words.map(u64::from) };
        self.set(registers, to, mask, &values);
    }

    fn set(self, registers: &mut Registers, to: Wide, mask: u32, values: &Doubles) {
        let Wide::Quad(to) = to else { return registers.set_wide(to, mask, values) };
        let quads = if self.to.signed {
            values.map(|value| value as i64 as u128)
        } else {
            values.map(u128::from)
        };
        registers.set_quads(to, mask, &quads);
    }
}

/// A conversion with `.sat`: what is beyond the result's type becomes its nearest limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Saturation(pub(super) Extension);

impl Saturation {
    /// The results of all lanes in `mask`, as wide as the register.
    pub(super) fn compute(self, values: &Doubles, mask: u32) -> Doubles {
        let Extension { to, from, register_bits } = self.0;
        let register = IntegerType { bits: register_bits, signed: false };
        let mut results = [0; 32];
        for lane in lanes(mask) {
            let value = extend(values[lane], from);
            let value = if from.signed { i128::from(value as i64) } else { i128::from(value) };
            results[lane] = extend(clamp(value, to), register);
        }
        results
    }
}

/// The nearest value of a type, extended to 64 bits.
pub(super) fn clamp(value: i128, ty: IntegerType) -> u64 {
    let bits = ty.bits.clamp(1, 64);
    let (least, most) = if ty.signed {
        (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
    } else {
        (0, (1i128 << bits) - 1)
    };
    value.clamp(least, most) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::registers::RegisterCounts;
    use crate::program::operand::{Destination, Source32};
    use crate::random::Random;

    #[test]
    fn rows_of_narrow_registers_hold_nothing_above_them() {
        let to = IntegerType { bits: 8, signed: true };
        let from = IntegerType { bits: 32, signed: true };
        for (register_bits, wanted) in [(16, 0xFFF0), (32, 0xFFFF_FFF0)] {
            let counts = RegisterCounts { words: 1, ..RegisterCounts::default() };
            let mut registers = Registers::new(counts, &mut Random::new(1));
            let before = *registers.word_row(0);
            let source = Any::Word(Source32::Immediate(0x1F0));
            let target = Wide::Word(Destination(Some(0)));
            Extension { to, from, register_bits }.execute(&mut registers, target, source, 1);
            let row = registers.word_row(0);
            assert_eq!((row[0], &row[1..]), (wanted, &before[1..]));
        }
    }
}
