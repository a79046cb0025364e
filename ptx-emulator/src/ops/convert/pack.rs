//! `cvt.pack` (PTX ISA, "cvt.pack").

use super::integer::clamp;
use crate::execute::registers::Words;
use crate::numeric::convert::IntegerType;
use crate::program::operand::{Destination, Source32};

/// Two s32 saturated to a type of 2, 4, 8 or 16 bits, side by side, the second one lowest. Above
/// them come the low bits of the third source; types of 16 bits leave no room for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pack(pub(super) IntegerType);

/// The registers of a `cvt.pack`.
#[derive(Clone, Debug)]
pub(crate) struct Operands {
    pub(super) to: Destination,
    pub(super) from: [Source32; 3],
}

impl Pack {
    pub(super) fn compute(self, [high, low, above]: [Words; 3]) -> Words {
        let bits = self.0.bits;
        let field = u64::MAX >> (64 - bits.clamp(1, 32));
        let one = |value: u32| clamp(i128::from(value as i32), self.0) & field;
        std::array::from_fn(|lane| {
            let above = u64::from(above[lane]) << (2 * bits);
            (above | one(high[lane]) << bits | one(low[lane])) as u32
        })
    }
}
