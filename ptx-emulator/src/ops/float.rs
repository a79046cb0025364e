//! Floating-point arithmetic: `add`, `sub`, `mul`, `fma`, `mad`, `div`, `rcp`, `sqrt`, `rsqrt`,
//! `neg`, `abs`, `min`, `max`, `ex2`, `lg2`, `sin`, `cos` and `tanh` (PTX ISA, "Floating Point
//! Instructions" and "Half Precision Floating Point Instructions").

mod double;
mod half;
mod lower;
mod packed;
mod single;

use crate::execute::Context;
use crate::numeric::half::HalfFormat;
use crate::numeric::minmax::{Extremum, MinMaxModifiers};
use crate::numeric::{Modifiers, Rounding, approx};
use crate::program::operand::{Destination, Source32, Source64};

pub(crate) use lower::{is_float, lower};

/// What is computed from up to three operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Add,
    Subtract,
    Multiply,
    /// `fma` and `mad`.
    Fused,
    /// `fma.oob`: zero if a factor stands for what is outside of a tensor.
    FusedInside,
    Divide,
    /// `div.approx`.
    DivideApproximate,
    /// `div.full`.
    DivideFull,
    Reciprocal,
    SquareRoot,
    Negate,
    Absolute,
    Extremum(Extremum, MinMaxModifiers),
    Approximate(approx::Function),
}

impl Function {
    /// How many sources there are.
    fn sources(self) -> usize {
        match self {
            Self::Fused | Self::FusedInside => 3,
            Self::Add
            | Self::Subtract
            | Self::Multiply
            | Self::Divide
            | Self::DivideApproximate
            | Self::DivideFull
            | Self::Extremum(..) => 2,
            Self::Reciprocal
            | Self::SquareRoot
            | Self::Negate
            | Self::Absolute
            | Self::Approximate(_) => 1,
        }
    }
}

/// A function with what its modifiers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arithmetic {
    function: Function,
    rounding: Rounding,
    modifiers: Modifiers,
}

/// One or two numbers of 16 bits in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HalfShape {
    format: HalfFormat,
    /// Whether a register holds two numbers.
    pair: bool,
}

/// An instruction. Functions of fewer than three operands ignore the other sources.
#[derive(Clone, Debug)]
pub(crate) enum Float {
    Single(Arithmetic, Destination, [Source32; 3]),
    Double(Arithmetic, Destination, Box<[Source64; 3]>),
    Half(Arithmetic, Box<HalfOperands>),
    /// Two f32 in a register.
    Packed(Arithmetic, Destination, Box<[Source64; 3]>),
}

/// The operands of an instruction of f16 or bf16.
#[derive(Clone, Debug)]
pub(crate) struct HalfOperands {
    shape: HalfShape,
    to: Destination,
    from: [Source32; 3],
}

/// Executes an instruction.
#[inline]
pub(crate) fn execute(own: &Float, context: &mut Context<'_>) {
    let mask = context.mask;
    let registers = &mut context.frame.registers;
    match own {
        Float::Single(arithmetic, to, from) => {
            let values = single::compute(arithmetic, registers, from, mask);
            registers.set_words(*to, mask, &values);
        }
        Float::Double(arithmetic, to, from) => {
            let values = double::compute(arithmetic, registers, from, mask);
            registers.set_doubles(*to, mask, &values);
        }
        Float::Half(arithmetic, operands) => {
            let values = half::compute(arithmetic, registers, operands, mask);
            registers.set_words(operands.to, mask, &values);
        }
        Float::Packed(arithmetic, to, from) => {
            let values = packed::compute(arithmetic, registers, from, mask);
            registers.set_doubles(*to, mask, &values);
        }
    }
}
