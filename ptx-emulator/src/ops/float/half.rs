//! f16 and bf16, alone and in pairs.

use super::{Arithmetic, Function, HalfOperands, HalfShape};
use crate::execute::registers::{Registers, Words, lanes};
use crate::numeric::half::{self, HalfFormat};
use crate::numeric::minmax;

/// What tensor copies that fill with NaN put outside of the tensor, in both formats.
const OUTSIDE: u16 = 0x7FF7;

/// The results of all lanes in `mask`; the others hold anything.
pub(super) fn compute(
    own: &Arithmetic,
    registers: &Registers,
    operands: &HalfOperands,
    mask: u32,
) -> Words {
    let HalfShape { format, pair } = operands.shape;
    let sources = own.function.sources();
    let a = registers.words(operands.from[0]);
    let b = if sources > 1 { registers.words(operands.from[1]) } else { a };
    let c = if sources > 2 { registers.words(operands.from[2]) } else { a };
    let mut results = [0; 32];
    for lane in lanes(mask) {
        let words = [a[lane], b[lane], c[lane]];
        let low = one(own, format, words.map(|word| word as u16));
        results[lane] = u32::from(low);
        if pair {
            let high = one(own, format, words.map(|word| (word >> 16) as u16));
            results[lane] |= u32::from(high) << 16;
        }
    }
    results
}

#[inline]
fn one(own: &Arithmetic, format: HalfFormat, [a, b, c]: [u16; 3]) -> u16 {
    let modifiers = own.modifiers;
    match own.function {
        Function::Add => half::add(format, a, b, modifiers),
        Function::Subtract => half::subtract(format, a, b, modifiers),
        Function::Multiply => half::multiply(format, a, b, modifiers),
        Function::Fused => half::fused(format, a, b, c, modifiers),
        Function::FusedInside if [a, b].map(|factor| factor & 0x7FFF).contains(&OUTSIDE) => 0,
        Function::FusedInside => half::fused(format, a, b, c, modifiers),
        Function::Negate => half::negate(format, a, modifiers),
        Function::Absolute => half::absolute(format, a, modifiers),
        Function::Extremum(extremum, own) => minmax::half(format, extremum, a, b, own),
        Function::Approximate(function) => function.half(format, a, modifiers),
        // PTX has none of these; they are refused when a module is loaded.
        Function::Divide
        | Function::DivideApproximate
        | Function::DivideFull
        | Function::Reciprocal
        | Function::SquareRoot => format.format().canonical_nan as u16,
    }
}
