//! Instructions in which every lane computes one value from its own sources and nothing else.
//!
//! The function of such an instruction takes whole rows, so that its loop over the lanes holds
//! nothing but the arithmetic. Lanes outside the mask are computed too and not stored.

use crate::execute::Context;
use crate::execute::registers::{Doubles, Words};
use crate::ops::Operation;
use crate::program::operand::{Destination, Source32, Source64};
use crate::program::types::DataType;
use crate::program::{Form, Problem};

/// 32 bits from 32 bits.
pub(crate) type WordOfWord = fn(&Words) -> Words;
/// 32 bits from two times 32.
pub(crate) type WordOfWords = fn(&Words, &Words) -> Words;
/// 32 bits from three times 32.
pub(crate) type WordOfThree = fn(&Words, &Words, &Words) -> Words;
/// 64 bits from 64 bits.
pub(crate) type DoubleOfDouble = fn(&Doubles) -> Doubles;
/// 64 bits from two times 64.
pub(crate) type DoubleOfDoubles = fn(&Doubles, &Doubles) -> Doubles;
/// 64 bits from three times 64.
pub(crate) type DoubleOfThree = fn(&Doubles, &Doubles, &Doubles) -> Doubles;

/// An instruction by the widths of its sources and its result.
#[derive(Clone, Debug)]
pub(crate) enum Lanewise {
    Word1(WordOfWord, Destination, Source32),
    Word2(WordOfWords, Destination, [Source32; 2]),
    Word3(WordOfThree, Destination, [Source32; 3]),
    Double1(DoubleOfDouble, Destination, Source64),
    Double2(DoubleOfDoubles, Destination, [Source64; 2]),
    Double3(DoubleOfThree, Destination, Box<[Source64; 3]>),
    /// 64 bits and an amount.
    Shift(fn(&Doubles, &Words) -> Doubles, Destination, Source64, Source32),
    /// 64 bits, a position and a length.
    Field(fn(&Doubles, &Words, &Words) -> Doubles, Destination, Box<(Source64, [Source32; 2])>),
    /// 32 bits from 64.
    Narrow(fn(&Doubles) -> Words, Destination, Source64),
    /// 64 bits from two times 32.
    Widen2(fn(&Words, &Words) -> Doubles, Destination, [Source32; 2]),
    /// 64 bits from two times 32 and 64.
    Widen3(fn(&Words, &Words, &Doubles) -> Doubles, Destination, Box<([Source32; 2], Source64)>),
}

/// The value of a function in every lane.
#[inline(always)]
pub(crate) fn each1<A: Copy, R>(a: &[A; 32], own: impl Fn(A) -> R) -> [R; 32] {
    std::array::from_fn(|lane| own(a[lane]))
}

/// The value of a function of two sources in every lane.
#[inline(always)]
pub(crate) fn each2<A: Copy, B: Copy, R>(
    a: &[A; 32],
    b: &[B; 32],
    own: impl Fn(A, B) -> R,
) -> [R; 32] {
    std::array::from_fn(|lane| own(a[lane], b[lane]))
}

/// The value of a function of three sources in every lane.
#[inline(always)]
pub(crate) fn each3<A: Copy, B: Copy, C: Copy, R>(
    a: &[A; 32],
    b: &[B; 32],
    c: &[C; 32],
    own: impl Fn(A, B, C) -> R,
) -> [R; 32] {
    std::array::from_fn(|lane| own(a[lane], b[lane], c[lane]))
}

/// The low 16 bits.
#[inline(always)]
pub(crate) fn low16(value: u32) -> u32 {
    value & 0xFFFF
}

/// The low 16 bits with their sign.
#[inline(always)]
pub(crate) fn signed16(value: u32) -> i32 {
    i32::from(value as u16 as i16)
}

/// Applies a function to both halves of packed words.
#[inline(always)]
pub(crate) fn halves(a: u32, b: u32, own: impl Fn(u16, u16) -> u16) -> u32 {
    let (low, high) = (own(a as u16, b as u16), own((a >> 16) as u16, (b >> 16) as u16));
    u32::from(low) | u32::from(high) << 16
}

/// Two operands, the result first; all modifiers must be understood by now.
pub(crate) fn emit_word1(
    form: &mut Form<'_, '_>,
    ty: DataType,
    run: WordOfWord,
) -> Result<(), Problem> {
    form.finish()?;
    form.expect(2)?;
    let source = form.source32(1, ty)?;
    let own = Lanewise::Word1(run, form.destination(0, ty)?, source);
    form.emit(Operation::Lanewise(own));
    Ok(())
}

/// Three operands, the result first; the second source has a type of its own.
pub(crate) fn emit_word2(
    form: &mut Form<'_, '_>,
    types: [DataType; 2],
    run: WordOfWords,
) -> Result<(), Problem> {
    emit_word2_to(form, types[0], types, run)
}

/// The same where the result has a type of its own.
pub(crate) fn emit_word2_to(
    form: &mut Form<'_, '_>,
    to: DataType,
    types: [DataType; 2],
    run: WordOfWords,
) -> Result<(), Problem> {
    form.finish()?;
    form.expect(3)?;
    let sources = [form.source32(1, types[0])?, form.source32(2, types[1])?];
    let own = Lanewise::Word2(run, form.destination(0, to)?, sources);
    form.emit(Operation::Lanewise(own));
    Ok(())
}

/// Four operands, the result first, of the first source's type.
pub(crate) fn emit_word3(
    form: &mut Form<'_, '_>,
    types: [DataType; 3],
    run: WordOfThree,
) -> Result<(), Problem> {
    emit_word3_to(form, types[0], types, run)
}

/// The same where the result has a type of its own.
pub(crate) fn emit_word3_to(
    form: &mut Form<'_, '_>,
    to: DataType,
    types: [DataType; 3],
    run: WordOfThree,
) -> Result<(), Problem> {
    form.finish()?;
    form.expect(4)?;
    let first = form.source32(1, types[0])?;
    let sources = [first, form.source32(2, types[1])?, form.source32(3, types[2])?];
    let own = Lanewise::Word3(run, form.destination(0, to)?, sources);
    form.emit(Operation::Lanewise(own));
    Ok(())
}

/// Two operands, the result first.
pub(crate) fn emit_double1(
    form: &mut Form<'_, '_>,
    ty: DataType,
    run: DoubleOfDouble,
) -> Result<(), Problem> {
    form.finish()?;
    form.expect(2)?;
    let source = form.source64(1, ty)?;
    let own = Lanewise::Double1(run, form.destination(0, ty)?, source);
    form.emit(Operation::Lanewise(own));
    Ok(())
}

/// Three operands, the result first.
pub(crate) fn emit_double2(
    form: &mut Form<'_, '_>,
    ty: DataType,
    run: DoubleOfDoubles,
) -> Result<(), Problem> {
    form.finish()?;
    form.expect(3)?;
    let sources = [form.source64(1, ty)?, form.source64(2, ty)?];
    let own = Lanewise::Double2(run, form.destination(0, ty)?, sources);
    form.emit(Operation::Lanewise(own));
    Ok(())
}

/// Four operands, the result first.
pub(crate) fn emit_double3(
    form: &mut Form<'_, '_>,
    ty: DataType,
    run: DoubleOfThree,
) -> Result<(), Problem> {
    form.finish()?;
    form.expect(4)?;
    let sources = [form.source64(1, ty)?, form.source64(2, ty)?, form.source64(3, ty)?];
    let own = Lanewise::Double3(run, form.destination(0, ty)?, Box::new(sources));
    form.emit(Operation::Lanewise(own));
    Ok(())
}

/// Executes an instruction of this kind.
#[inline]
pub(crate) fn execute(operation: &Lanewise, context: &mut Context<'_>) {
    let mask = context.mask;
    let registers = &mut context.frame.registers;
    match operation {
        Lanewise::Word1(run, to, a) => {
            let values = run(&registers.words(*a));
            registers.set_words(*to, mask, &values);
        }
        Lanewise::Word2(run, to, [a, b]) => {
            let values = run(&registers.words(*a), &registers.words(*b));
            registers.set_words(*to, mask, &values);
        }
        Lanewise::Word3(run, to, [a, b, c]) => {
            let values = run(&registers.words(*a), &registers.words(*b), &registers.words(*c));
            registers.set_words(*to, mask, &values);
        }
        Lanewise::Double1(run, to, a) => {
            let values = run(&registers.doubles(*a));
            registers.set_doubles(*to, mask, &values);
        }
        Lanewise::Double2(run, to, [a, b]) => {
            let values = run(&registers.doubles(*a), &registers.doubles(*b));
            registers.set_doubles(*to, mask, &values);
        }
        Lanewise::Double3(run, to, sources) => {
            let [a, b, c] = **sources;
            let c = registers.doubles(c);
            let values = run(&registers.doubles(a), &registers.doubles(b), &c);
            registers.set_doubles(*to, mask, &values);
        }
        Lanewise::Shift(run, to, value, amount) => {
            let values = run(&registers.doubles(*value), &registers.words(*amount));
            registers.set_doubles(*to, mask, &values);
        }
        Lanewise::Field(run, to, sources) => {
            let (value, [position, length]) = **sources;
            let length = registers.words(length);
            let values = run(&registers.doubles(value), &registers.words(position), &length);
            registers.set_doubles(*to, mask, &values);
        }
        Lanewise::Narrow(run, to, a) => {
            let values = run(&registers.doubles(*a));
            registers.set_words(*to, mask, &values);
        }
        Lanewise::Widen2(run, to, [a, b]) => {
            let values = run(&registers.words(*a), &registers.words(*b));
            registers.set_doubles(*to, mask, &values);
        }
        Lanewise::Widen3(run, to, sources) => {
            let ([a, b], c) = **sources;
            let c = registers.doubles(c);
            let values = run(&registers.words(a), &registers.words(b), &c);
            registers.set_doubles(*to, mask, &values);
        }
    }
}
