//! Logic, shifts, permutations, selections and comparisons (PTX ISA, "Logic and Shift
//! Instructions", "Comparison and Selection Instructions" and `prmt`).

mod compare;
mod number;
mod select;
mod shift;
mod table;

use crate::execute::Context;
use crate::ops::Operation;
use crate::ops::lanewise::{
    DoubleOfDoubles, WordOfWords, each1, each2, emit_double1, emit_double2, emit_word1, emit_word2,
    low16,
};
use crate::program::operand::{Destination, SourcePredicate};
use crate::program::types::DataType::{B16, B32, B64, Predicate};
use crate::program::{Form, Problem};

/// What reads or writes predicates, or has a table.
#[derive(Clone, Debug)]
pub(crate) enum Logic {
    Compare(compare::Compare),
    /// `setp` of packed numbers: the low and the high half.
    ComparePacked(Box<[compare::Compare; 2]>),
    Set(Box<compare::Set>),
    /// `and.pred` and the like.
    Predicates(Bitwise, Destination, [SourcePredicate; 2]),
    Select(select::Select),
    Table(Box<table::Table>),
    Test(select::Test),
}

/// An operation of two bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bitwise {
    And,
    Or,
    Xor,
}

const BITWISE: &[(&str, Bitwise)] =
    &[("and", Bitwise::And), ("or", Bitwise::Or), ("xor", Bitwise::Xor)];

impl Bitwise {
    #[inline(always)]
    fn of(self, a: u32, b: u32) -> u32 {
        match self {
            Self::And => a & b,
            Self::Or => a | b,
            Self::Xor => a ^ b,
        }
    }

    fn words(self) -> WordOfWords {
        match self {
            Self::And => |a, b| each2(a, b, |a, b| a & b),
            Self::Or => |a, b| each2(a, b, |a, b| a | b),
            Self::Xor => |a, b| each2(a, b, |a, b| a ^ b),
        }
    }

    fn doubles(self) -> DoubleOfDoubles {
        match self {
            Self::And => |a, b| each2(a, b, |a, b| a & b),
            Self::Or => |a, b| each2(a, b, |a, b| a | b),
            Self::Xor => |a, b| each2(a, b, |a, b| a ^ b),
        }
    }
}

/// Lowers an instruction of the family.
pub(crate) fn lower(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    match form.mnemonic() {
        "and" => lower_bitwise(form, Bitwise::And),
        "or" => lower_bitwise(form, Bitwise::Or),
        "xor" => lower_bitwise(form, Bitwise::Xor),
        "not" => lower_not(form),
        "cnot" => lower_zero_test(form),
        "shl" | "shr" | "shf" => shift::lower(form),
        "lop3" => table::lower(form),
        "prmt" => shift::lower_permutation(form),
        "selp" | "slct" => select::lower(form),
        "testp" => select::lower_test(form),
        "copysign" => select::lower_copysign(form),
        _ => compare::lower(form),
    }
}

fn lower_bitwise(form: &mut Form<'_, '_>, bitwise: Bitwise) -> Result<(), Problem> {
    let ty = form.take_type()?;
    match ty {
        B16 | B32 => emit_word2(form, [ty; 2], bitwise.words()),
        B64 => emit_double2(form, ty, bitwise.doubles()),
        Predicate => {
            form.finish()?;
            form.expect(3)?;
            let sources = [form.predicate(1)?, form.predicate(2)?];
            let own = Logic::Predicates(bitwise, form.destination_predicate(0)?, sources);
            form.emit(Operation::Logic(own));
            Ok(())
        }
        _ => Err(format!("logic of the type {ty:?}")),
    }
}

fn lower_not(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    let ty = form.take_type()?;
    match ty {
        B16 => emit_word1(form, ty, |a| each1(a, |a| low16(!a))),
        B32 => emit_word1(form, ty, |a| each1(a, |a| !a)),
        B64 => emit_double1(form, ty, |a| each1(a, |a| !a)),
        Predicate => {
            form.finish()?;
            form.expect(2)?;
            let sources = [form.predicate(1)?, SourcePredicate::Constant(true)];
            let own = Logic::Predicates(Bitwise::Xor, form.destination_predicate(0)?, sources);
            form.emit(Operation::Logic(own));
            Ok(())
        }
        _ => Err(format!("logic of the type {ty:?}")),
    }
}

/// `cnot`: one for zero, zero for anything else.
fn lower_zero_test(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    let ty = form.take_type()?;
    match ty {
        B16 => emit_word1(form, ty, |a| each1(a, |a| u32::from(low16(a) == 0))),
        B32 => emit_word1(form, ty, |a| each1(a, |a| u32::from(a == 0))),
        B64 => emit_double1(form, ty, |a| each1(a, |a| u64::from(a == 0))),
        _ => Err(format!("logic of the type {ty:?}")),
    }
}

/// Executes an instruction of the family.
#[inline]
pub(crate) fn execute(operation: &Logic, context: &mut Context<'_>) {
    match operation {
        Logic::Compare(own) => compare::execute(own, context),
        Logic::ComparePacked(own) => compare::execute_packed(own, context),
        Logic::Set(own) => compare::execute_set(own, context),
        Logic::Predicates(bitwise, to, [a, b]) => {
            let registers = &mut context.frame.registers;
            let values = bitwise.of(registers.predicate(*a), registers.predicate(*b));
            registers.set_predicate(*to, context.mask, values);
        }
        Logic::Select(own) => select::execute(own, context),
        Logic::Table(own) => table::execute(own, context),
        Logic::Test(own) => select::execute_test(own, context),
    }
}
