//! `selp`, `slct`, `testp` and `copysign`.

use super::Logic;
use crate::execute::Context;
use crate::execute::registers::{Doubles, Words};
use crate::numeric::compare::Property;
use crate::numeric::single::flush;
use crate::ops::Operation;
use crate::ops::lanewise::{each2, emit_double2, emit_word2};
use crate::program::operand::{Destination, Source32, Source64, SourcePredicate};
use crate::program::types::DataType::{
    self, B16, B32, B64, F32, F64, S16, S32, S64, U16, U32, U64,
};
use crate::program::{Form, Problem};

/// One of two sources.
#[derive(Clone, Debug)]
pub(crate) enum Select {
    Word(Destination, [Source32; 2], Choice),
    Double(Destination, Box<[Source64; 2]>, Choice),
}

/// What chooses the first source.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Choice {
    /// `selp`.
    Predicate(SourcePredicate),
    /// `slct`: a number that is not negative.
    Sign(Source32, SignOf),
}

/// How `slct` reads its third source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignOf {
    Integer,
    Single,
    FlushedSingle,
}

/// `testp`.
#[derive(Clone, Debug)]
pub(crate) enum Test {
    Word(Destination, Source32, Property),
    Double(Destination, Source64, Property),
}

/// Lowers `selp` and `slct`.
pub(super) fn lower(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    let by_predicate = form.mnemonic() == "selp";
    let flushes = !by_predicate && form.take("ftz");
    let ty = form.take_type()?;
    let types = [B16, B32, B64, F32, F64, S16, S32, S64, U16, U32, U64];
    if !types.contains(&ty) {
        return Err(format!("selections of the type {ty:?}"));
    }
    let by = if by_predicate { None } else { Some(form.take_type()?) };
    form.finish()?;
    form.expect(4)?;
    let choice = match (by, flushes) {
        (None, _) => Choice::Predicate(form.predicate(3)?),
        (Some(S32), false) => Choice::Sign(form.source32(3, S32)?, SignOf::Integer),
        (Some(F32), false) => Choice::Sign(form.source32(3, F32)?, SignOf::Single),
        (Some(F32), true) => Choice::Sign(form.source32(3, F32)?, SignOf::FlushedSingle),
        _ => return Err("`slct` chooses by s32 or f32".to_owned()),
    };
    let own = if ty.bits() == 64 {
        let sources = [form.source64(1, ty)?, form.source64(2, ty)?];
        Select::Double(form.destination(0, ty)?, Box::new(sources), choice)
    } else {
        let sources = [form.source32(1, ty)?, form.source32(2, ty)?];
        Select::Word(form.destination(0, ty)?, sources, choice)
    };
    form.emit(Operation::Logic(Logic::Select(own)));
    Ok(())
}

/// Lowers `testp`.
pub(super) fn lower_test(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    let property = form.take_one(&[
        ("finite", Property::Finite),
        ("infinite", Property::Infinite),
        ("number", Property::Number),
        ("notanumber", Property::NotANumber),
        ("normal", Property::Normal),
        ("subnormal", Property::Subnormal),
    ]);
    let property = property.ok_or("a property is missing")?;
    let ty = form.take_type()?;
    form.finish()?;
    form.expect(2)?;
    let own = match ty {
        F32 => {
            let source = form.source32(1, ty)?;
            Test::Word(form.destination_predicate(0)?, source, property)
        }
        F64 => {
            let source = form.source64(1, ty)?;
            Test::Double(form.destination_predicate(0)?, source, property)
        }
        _ => return Err(format!("`testp` of the type {ty:?}")),
    };
    form.emit(Operation::Logic(Logic::Test(own)));
    Ok(())
}

/// Lowers `copysign`: the sign of the first source and the magnitude of the second.
pub(super) fn lower_copysign(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    const SIGN: u32 = 1 << 31;
    const SIGN_DOUBLE: u64 = 1 << 63;
    let ty: DataType = form.take_type()?;
    match ty {
        F32 => emit_word2(form, [ty; 2], |a, b| {
            each2(a, b, |sign, magnitude| sign & SIGN | magnitude & !SIGN)
        }),
        F64 => emit_double2(form, ty, |a, b| {
            each2(a, b, |sign, magnitude| sign & SIGN_DOUBLE | magnitude & !SIGN_DOUBLE)
        }),
        _ => Err(format!("`copysign` of the type {ty:?}")),
    }
}

#[inline]
pub(super) fn execute(own: &Select, context: &mut Context<'_>) {
    let registers = &mut context.frame.registers;
    let (Select::Word(_, _, choice) | Select::Double(_, _, choice)) = own;
    let first = match choice {
        Choice::Predicate(source) => registers.predicate(*source),
        Choice::Sign(source, of) => first_by_sign(&registers.words(*source), *of),
    };
    match own {
        Select::Word(to, [a, b], _) => {
            let (a, b) = (registers.words(*a), registers.words(*b));
            let values: Words =
                std::array::from_fn(
                    |lane| {
                        if first & (1 << lane) != 0 { a[lane] } else { b[lane] }
                    },
                );
            registers.set_words(*to, context.mask, &values);
        }
        Select::Double(to, sources, _) => {
            let [a, b] = sources.map(|own| registers.doubles(own));
            let values: Doubles =
                std::array::from_fn(
                    |lane| {
                        if first & (1 << lane) != 0 { a[lane] } else { b[lane] }
                    },
                );
            registers.set_doubles(*to, context.mask, &values);
        }
    }
}

/// NaN chooses the second source, -0 the first.
fn first_by_sign(values: &Words, of: SignOf) -> u32 {
    super::compare::lane_mask(values, values, |value, _| match of {
        SignOf::Integer => value as i32 >= 0,
        SignOf::Single => f32::from_bits(value) >= 0.0,
        SignOf::FlushedSingle => flush(f32::from_bits(value)) >= 0.0,
    })
}

pub(super) fn execute_test(own: &Test, context: &mut Context<'_>) {
    let registers = &mut context.frame.registers;
    let (to, result) = match own {
        Test::Word(to, source, property) => {
            let values = registers.words(*source);
            let holds = |value, _| property.of(f32::from_bits(value).classify());
            (to, super::compare::lane_mask(&values, &values, holds))
        }
        Test::Double(to, source, property) => {
            let values = registers.doubles(*source);
            let holds = |value, _| property.of(f64::from_bits(value).classify());
            (to, super::compare::lane_mask(&values, &values, holds))
        }
    };
    registers.set_predicate(*to, context.mask, result);
}
