//! Pairs of f32 in registers of 64 bits, the first in the lower half (PTX ISA, "add", "sub", "mul"
//! and "fma" of `.f32x2`). Each half is computed as f32 alone is.

use super::{Arithmetic, single};
use crate::execute::registers::{Doubles, Registers};
use crate::program::operand::Source64;

/// The results of all lanes in `mask`; the others hold anything.
pub(super) fn compute(
    own: &Arithmetic,
    registers: &Registers,
    from: &[Source64; 3],
    mask: u32,
) -> Doubles {
    let operands = from.map(|source| registers.doubles(source));
    let low = single::of(own, mask, |index| operands[index].map(|pair| pair as u32));
    let high = single::of(own, mask, |index| operands[index].map(|pair| (pair >> 32) as u32));
    std::array::from_fn(|lane| u64::from(high[lane]) << 32 | u64::from(low[lane]))
}
