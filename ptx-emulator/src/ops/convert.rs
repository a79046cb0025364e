//! `cvt` (PTX ISA, "Data Movement and Conversion Instructions: cvt" and "cvt.pack").

mod general;
mod integer;
mod lanes;
mod lower;
mod pack;
mod pair;
mod scaled;
mod stochastic;

use crate::execute::Context;
use crate::execute::registers::{Registers, Words};
use crate::numeric::convert::IntegerType;
use crate::numeric::half::HalfFormat;
use crate::program::operand::{Any, Destination, Source32, Wide};

pub(crate) use lower::lower;

/// A conversion.
#[derive(Clone, Debug)]
pub(crate) enum Convert {
    /// One source whose register may be wider than its type; so may that of the result.
    One(One, Wide, Any),
    /// Two numbers of f32; the first becomes the upper half of the result.
    Pair(pair::Pair, Destination, [Source32; 2]),
    /// Pairs of small numbers to bf16, times powers of two.
    Scaled(scaled::Scaled, Box<scaled::Operands>),
    /// Numbers of f32 rounded by random bits.
    Stochastic(stochastic::Stochastic, Box<stochastic::Operands>),
    /// `cvt.pack`: two integers and what is shifted to the left of them.
    Pack(pack::Pack, Box<pack::Operands>),
}

/// A conversion of one source. All but [`One::Saturated`] and [`One::General`] are computed for a
/// whole warp at once.
#[derive(Clone, Debug)]
pub(crate) enum One {
    /// Among integers, without `.sat`.
    Extend(integer::Extension),
    /// Among integers, with `.sat`.
    Saturated(integer::Saturation),
    /// `cvt.rn.f32` from an integer of up to 32 bits.
    SingleFromInteger(IntegerType),
    /// `cvt.rzi` from f32 to 32 bits.
    IntegerFromSingle { signed: bool },
    /// `cvt.rn{.relu}` from f32.
    HalfFromSingle(HalfFormat, bool),
    /// f32 from f16 or bf16.
    SingleFromHalf(HalfFormat),
    /// Everything else, one lane at a time.
    General(Box<general::General>),
}

/// The low words of a source of any width.
#[inline(always)]
fn low_words(registers: &Registers, source: Any) -> Words {
    match source {
        Any::Word(source) => registers.words(source),
        Any::Double(source) => registers.doubles(source).map(|value| value as u32),
        Any::Quad(source) => registers.quads(source).map(|value| value as u32),
    }
}

/// Stores words; a wider register gets zeros above.
#[inline(always)]
fn set_low_words(registers: &mut Registers, to: Wide, mask: u32, values: &Words) {
    match to {
        Wide::Word(to) => registers.set_words(to, mask, values),
        Wide::Double(_) | Wide::Quad(_) => registers.set_wide(to, mask, &values.map(u64::from)),
    }
}

/// Executes a conversion.
#[inline]
pub(crate) fn execute(own: &Convert, context: &mut Context<'_>) {
    let mask = context.mask;
    let registers = &mut context.frame.registers;
    match own {
        Convert::One(one, to, from) => execute_one(one, registers, *to, *from, mask),
        Convert::Pair(pair, to, from) => {
            let values = pair.compute(from.map(|source| registers.words(source)), mask);
            registers.set_words(*to, mask, &values);
        }
        Convert::Scaled(scaled, operands) => {
            let scale = operands.scale.map(|scale| registers.words(scale));
            let values = scaled.compute(&low_words(registers, operands.from), scale.as_ref());
            registers.set_words(operands.to, mask, &values);
        }
        Convert::Stochastic(stochastic, operands) => {
            let random = registers.words(operands.random);
            let from: Vec<_> =
                operands.from.iter().map(|source| registers.words(*source)).collect();
            let values = stochastic.compute(&from, &random, mask);
            set_low_words(registers, operands.to, mask, &values);
        }
        Convert::Pack(pack, operands) => {
            let values = pack.compute(operands.from.map(|source| registers.words(source)));
            registers.set_words(operands.to, mask, &values);
        }
    }
}

#[inline]
fn execute_one(one: &One, registers: &mut Registers, to: Wide, from: Any, mask: u32) {
    let values = match one {
        One::Extend(extension) => return extension.execute(registers, to, from, mask),
        One::Saturated(saturation) => {
            let values = saturation.compute(&registers.any(from), mask);
            return registers.set_wide(to, mask, &values);
        }
        One::General(general) => {
            let values = general.compute(&registers.any(from), mask);
            return registers.set_wide(to, mask, &values);
        }
        One::SingleFromInteger(source) => {
            lanes::single_from_integer(*source, &low_words(registers, from))
        }
        One::IntegerFromSingle { signed } => {
            lanes::integer_from_single(*signed, &low_words(registers, from))
        }
        One::HalfFromSingle(HalfFormat::F16, relu) => {
            lanes::f16_from_single(&low_words(registers, from), *relu)
        }
        One::HalfFromSingle(HalfFormat::Bf16, relu) => {
            lanes::bf16_from_single(&low_words(registers, from), *relu)
        }
        One::SingleFromHalf(HalfFormat::F16) => lanes::single_from_f16(&low_words(registers, from)),
        One::SingleFromHalf(HalfFormat::Bf16) => {
            lanes::single_from_bf16(&low_words(registers, from))
        }
    };
    set_low_words(registers, to, mask, &values);
}
