//! `setp` and `set`.

use super::number::{
    Brain, Double, FlushedHalf, FlushedSingle, Half, HighBrain, HighFlushedHalf, HighHalf, Number,
    Signed16, Signed32, Signed64, Single, Unsigned16, Unsigned32, Unsigned64,
};
use super::{BITWISE, Bitwise, Logic};
use crate::execute::Context;
use crate::execute::registers::{Registers, Words};
use crate::numeric::compare::Comparison;
use crate::ops::Operation;
use crate::program::operand::{Destination, Source32, Source64, SourcePredicate};
use crate::program::types::DataType::{self, *};
use crate::program::{Form, Problem};

/// `setp`.
#[derive(Clone, Debug)]
pub(crate) struct Compare {
    question: Question,
    combined: Option<(Bitwise, SourcePredicate)>,
    destination: Destination,
    /// Where the opposite goes.
    opposite: Option<Destination>,
}

/// A comparison of the lanes of two rows; a bit a lane.
#[derive(Clone, Debug)]
pub(crate) enum Question {
    Word(WordMask, [Source32; 2]),
    Double(DoubleMask, [Source64; 2]),
}

/// The lanes of two rows of which a comparison holds.
type Mask<T> = fn(&[T; 32], &[T; 32]) -> u32;
type WordMask = Mask<u32>;
type DoubleMask = Mask<u64>;

/// `set`: a number for yes and zero for no, for one or two questions.
#[derive(Clone, Debug)]
pub(crate) struct Set {
    questions: Vec<Question>,
    combined: Option<(Bitwise, SourcePredicate)>,
    /// What each question adds to the result.
    yes: [u32; 2],
    destination: Destination,
}

/// The bits of the lanes of which something holds.
#[inline(always)]
pub(super) fn lane_mask<T: Copy>(a: &[T; 32], b: &[T; 32], holds: impl Fn(T, T) -> bool) -> u32 {
    let mut mask = 0;
    for lane in 0..32 {
        mask |= if holds(a[lane], b[lane]) { 1 << lane } else { 0 };
    }
    mask
}

#[inline(always)]
fn ask<N: Number>(
    a: &[N::Bits; 32],
    b: &[N::Bits; 32],
    holds: impl Fn(N::Value, N::Value) -> bool,
) -> u32 {
    lane_mask(a, b, |a, b| holds(N::value(a), N::value(b)))
}

/// The function that compares rows of numbers.
fn rows<N: Number>(comparison: Comparison) -> Mask<N::Bits> {
    // A comparison with NaN is false; the unordered ones are the opposites of ordered ones.
    match comparison {
        Comparison::Equal => |a, b| ask::<N>(a, b, |a, b| a == b),
        Comparison::NotEqual => |a, b| ask::<N>(a, b, |a, b| (a < b) | (a > b)),
        Comparison::Less => |a, b| ask::<N>(a, b, |a, b| a < b),
        Comparison::LessOrEqual => |a, b| ask::<N>(a, b, |a, b| a <= b),
        Comparison::Greater => |a, b| ask::<N>(a, b, |a, b| a > b),
        Comparison::GreaterOrEqual => |a, b| ask::<N>(a, b, |a, b| a >= b),
        Comparison::EqualOrUnordered => |a, b| !ask::<N>(a, b, |a, b| (a < b) | (a > b)),
        Comparison::NotEqualOrUnordered => |a, b| ask::<N>(a, b, |a, b| a != b),
        Comparison::LessOrUnordered => |a, b| !ask::<N>(a, b, |a, b| a >= b),
        Comparison::LessOrEqualOrUnordered => |a, b| !ask::<N>(a, b, |a, b| a > b),
        Comparison::GreaterOrUnordered => |a, b| !ask::<N>(a, b, |a, b| a <= b),
        Comparison::GreaterOrEqualOrUnordered => |a, b| !ask::<N>(a, b, |a, b| a < b),
        Comparison::Number => |a, b| ask::<N>(a, b, |a, b| (a <= b) | (a > b)),
        Comparison::NotANumber => |a, b| !ask::<N>(a, b, |a, b| (a <= b) | (a > b)),
    }
}

fn word_rows(comparison: Comparison, ty: DataType, flush: bool) -> Option<WordMask> {
    Some(match (ty, flush) {
        (B16 | U16, false) => rows::<Unsigned16>(comparison),
        (S16, false) => rows::<Signed16>(comparison),
        (B32 | U32, false) => rows::<Unsigned32>(comparison),
        (S32, false) => rows::<Signed32>(comparison),
        (F32, false) => rows::<Single>(comparison),
        (F32, true) => rows::<FlushedSingle>(comparison),
        (F16 | F16x2, false) => rows::<Half>(comparison),
        (F16 | F16x2, true) => rows::<FlushedHalf>(comparison),
        (Bf16 | Bf16x2, false) => rows::<Brain>(comparison),
        _ => return None,
    })
}

fn double_rows(comparison: Comparison, ty: DataType, flush: bool) -> Option<DoubleMask> {
    Some(match (ty, flush) {
        (B64 | U64, false) => rows::<Unsigned64>(comparison),
        (S64, false) => rows::<Signed64>(comparison),
        (F64, false) => rows::<Double>(comparison),
        _ => return None,
    })
}

fn high_rows(comparison: Comparison, ty: DataType, flush: bool) -> Option<WordMask> {
    Some(match (ty, flush) {
        (F16x2, false) => rows::<HighHalf>(comparison),
        (F16x2, true) => rows::<HighFlushedHalf>(comparison),
        (Bf16x2, false) => rows::<HighBrain>(comparison),
        _ => return None,
    })
}

/// The comparison a word names for a type.
fn comparison_of(word: &str, ty: DataType) -> Result<Comparison, Problem> {
    let unsigned = matches!(ty, U16 | U32 | U64);
    let bits = matches!(ty, B16 | B32 | B64);
    let found = match word {
        "lo" if unsigned => Some(Comparison::Less),
        "ls" if unsigned => Some(Comparison::LessOrEqual),
        "hi" if unsigned => Some(Comparison::Greater),
        "hs" if unsigned => Some(Comparison::GreaterOrEqual),
        "eq" => Some(Comparison::Equal),
        // Integers are always ordered; the cheaper of the two comparisons does for them.
        "ne" if !ty.is_float() => Some(Comparison::NotEqualOrUnordered),
        "lt" | "le" | "gt" | "ge" if !bits => Comparison::from_word(word),
        _ if ty.is_float() => Comparison::from_word(word),
        _ => None,
    };
    found.ok_or_else(|| format!("there is no comparison `.{word}` of the type {ty:?}"))
}

const WORDS: &[&str] = &[
    "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu",
    "geu", "num", "nan",
];

fn take_word(form: &mut Form<'_, '_>) -> Result<&'static str, Problem> {
    let word = WORDS.iter().find(|word| form.take(word));
    word.copied().ok_or_else(|| "a comparison is missing".to_owned())
}

/// The questions about two operands: one, or two about packed numbers.
fn questions(
    form: &mut Form<'_, '_>,
    (word, ty, flush): (&str, DataType, bool),
) -> Result<Vec<Question>, Problem> {
    let comparison = comparison_of(word, ty)?;
    let wrong = || format!("comparisons of the type {ty:?} with these modifiers");
    if ty.bits() == 64 {
        let run = double_rows(comparison, ty, flush).ok_or_else(wrong)?;
        return Ok(vec![Question::Double(run, [form.source64(1, ty)?, form.source64(2, ty)?])]);
    }
    let run = word_rows(comparison, ty, flush).ok_or_else(wrong)?;
    let sources = [form.source32(1, ty)?, form.source32(2, ty)?];
    let mut all = vec![Question::Word(run, sources)];
    all.extend(high_rows(comparison, ty, flush).map(|run| Question::Word(run, sources)));
    Ok(all)
}

/// The predicate behind the operands that `.and` and the like name.
fn combination(
    form: &Form<'_, '_>,
    bitwise: Option<Bitwise>,
) -> Result<Option<(Bitwise, SourcePredicate)>, Problem> {
    form.expect(if bitwise.is_some() { 4 } else { 3 })?;
    bitwise.map(|bitwise| Ok((bitwise, form.predicate(3)?))).transpose()
}

/// Lowers `setp` and `set`.
pub(super) fn lower(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    let word = take_word(form)?;
    let bitwise = form.take_one(BITWISE);
    let flush = form.take("ftz");
    if form.mnemonic() == "set" {
        return lower_set(form, word, bitwise, flush);
    }
    let ty = form.take_type()?;
    form.finish()?;
    let combined = combination(form, bitwise)?;
    let questions = questions(form, (word, ty, flush))?;
    let (first, second) = form.pair(0)?;
    if second.is_some() && matches!(ty, F16 | Bf16) {
        return Err("comparisons of this type have one result".to_owned());
    }
    let destination = form.destination_of(first, Predicate)?;
    let second = match second {
        Some(own) => Some(form.destination_of(own, Predicate)?),
        None => None,
    };
    let make =
        |question, destination, opposite| Compare { question, combined, destination, opposite };
    let mut questions = questions.into_iter();
    let own = match (questions.next(), questions.next(), second) {
        (Some(low), Some(high), Some(second)) => {
            Logic::ComparePacked(Box::new([make(low, destination, None), make(high, second, None)]))
        }
        (Some(question), None, second) => Logic::Compare(make(question, destination, second)),
        // A single result is that of the low halves.
        (Some(low), Some(_), None) => Logic::Compare(make(low, destination, None)),
        (None, ..) => return Err("nothing is compared".to_owned()),
    };
    form.emit(Operation::Logic(own));
    Ok(())
}

fn lower_set(
    form: &mut Form<'_, '_>,
    word: &str,
    bitwise: Option<Bitwise>,
    flush: bool,
) -> Result<(), Problem> {
    let (result, ty) = (form.take_type()?, form.take_type()?);
    form.finish()?;
    let half = matches!(ty, F16 | Bf16);
    let packed = matches!(ty, F16x2 | Bf16x2);
    // The result for yes: all ones, or one as a floating-point number.
    let yes = match (result, ty) {
        (U32 | S32, _) if packed => [0xFFFF, 0xFFFF_0000],
        (U32 | S32, _) => [u32::MAX, 0],
        (U16 | S16, F16 | Bf16) => [0xFFFF, 0],
        (F32, _) if !half && !packed => [0x3F80_0000, 0],
        (F16x2, F16x2) => [0x3C00, 0x3C00_0000],
        (Bf16x2, Bf16x2) => [0x3F80, 0x3F80_0000],
        (F16, _) if !packed => [0x3C00, 0],
        (Bf16, _) if !packed => [0x3F80, 0],
        _ => return Err(format!("`set` of the type {result:?} for the type {ty:?}")),
    };
    let combined = combination(form, bitwise)?;
    let questions = questions(form, (word, ty, flush))?;
    let destination = form.destination(0, result)?;
    let own = Set { questions, combined, yes, destination };
    form.emit(Operation::Logic(Logic::Set(Box::new(own))));
    Ok(())
}

impl Question {
    #[inline]
    fn answer(&self, registers: &Registers) -> u32 {
        match self {
            Self::Word(run, [a, b]) => run(&registers.words(*a), &registers.words(*b)),
            Self::Double(run, [a, b]) => run(&registers.doubles(*a), &registers.doubles(*b)),
        }
    }
}

#[inline(always)]
fn combine(
    combined: Option<(Bitwise, SourcePredicate)>,
    answer: u32,
    registers: &Registers,
) -> u32 {
    match combined {
        None => answer,
        Some((bitwise, source)) => bitwise.of(answer, registers.predicate(source)),
    }
}

#[inline]
pub(super) fn execute(own: &Compare, context: &mut Context<'_>) {
    let registers = &mut context.frame.registers;
    let answer = own.question.answer(registers);
    let value = combine(own.combined, answer, registers);
    // Both come from the old predicate: a destination may be the third source too.
    let opposite = combine(own.combined, !answer, registers);
    registers.set_predicate(own.destination, context.mask, value);
    if let Some(second) = own.opposite {
        registers.set_predicate(second, context.mask, opposite);
    }
}

pub(super) fn execute_packed(own: &[Compare; 2], context: &mut Context<'_>) {
    let registers = &mut context.frame.registers;
    let values = [&own[0], &own[1]]
        .map(|half| combine(half.combined, half.question.answer(registers), registers));
    registers.set_predicate(own[0].destination, context.mask, values[0]);
    registers.set_predicate(own[1].destination, context.mask, values[1]);
}

pub(super) fn execute_set(own: &Set, context: &mut Context<'_>) {
    let registers = &mut context.frame.registers;
    let mut values: Words = [0; 32];
    for (question, yes) in own.questions.iter().zip(own.yes) {
        let answer = combine(own.combined, question.answer(registers), registers);
        for (lane, value) in values.iter_mut().enumerate() {
            *value |= yes & 0u32.wrapping_sub((answer >> lane) & 1);
        }
    }
    registers.set_words(own.destination, context.mask, &values);
}
