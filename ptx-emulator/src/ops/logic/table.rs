//! `lop3`: any logic function of three operands.

use super::{Bitwise, Logic};
use crate::execute::Context;
use crate::execute::registers::Words;
use crate::numeric::integer::logic3;
use crate::ops::Operation;
use crate::program::operand::{Destination, Source32, SourcePredicate};
use crate::program::types::DataType::{B32, Predicate};
use crate::program::{Form, Problem};

/// `lop3`.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    table: u8,
    destination: Destination,
    sources: [Source32; 3],
    /// `.and` and `.or`: whether the result is not zero, combined with a predicate.
    predicate: Option<(Bitwise, Destination, SourcePredicate)>,
}

pub(super) fn lower(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    let combined = form.take_one(&[("and", Bitwise::And), ("or", Bitwise::Or)]);
    let ty = form.take_type()?;
    form.finish()?;
    if ty != B32 {
        return Err(format!("`lop3` of the type {ty:?}"));
    }
    form.expect(if combined.is_some() { 6 } else { 5 })?;
    let table = u8::try_from(form.constant(4)?).map_err(|_| "the table has eight bits")?;
    let sources = [form.source32(1, ty)?, form.source32(2, ty)?, form.source32(3, ty)?];
    let (first, second) = form.pair(0)?;
    let destination = form.destination_of(first, ty)?;
    let predicate = match (combined, second) {
        (Some(bitwise), Some(second)) => {
            let second = form.destination_of(second, Predicate)?;
            Some((bitwise, second, form.predicate(5)?))
        }
        (None, None) => None,
        _ => return Err("`.and` and `.or` go with a second destination".to_owned()),
    };
    let own = Table { table, destination, sources, predicate };
    form.emit(Operation::Logic(Logic::Table(Box::new(own))));
    Ok(())
}

pub(super) fn execute(own: &Table, context: &mut Context<'_>) {
    let registers = &mut context.frame.registers;
    let [a, b, c] = own.sources.map(|source| registers.words(source));
    let values: Words = std::array::from_fn(|lane| logic3(a[lane], b[lane], c[lane], own.table));
    if let Some((bitwise, destination, source)) = own.predicate {
        let set = super::compare::lane_mask(&values, &[0; 32], |value, zero| value != zero);
        let result = bitwise.of(set, registers.predicate(source));
        registers.set_predicate(destination, context.mask, result);
    }
    registers.set_words(own.destination, context.mask, &values);
}
