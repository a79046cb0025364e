//! `div` and `rem`.

use super::Integer;
use crate::execute::registers::{Doubles, Words, lanes};
use crate::execute::report::{Fault, ReportKind};
use crate::execute::{Context, Outcome};
use crate::ops::Operation;
use crate::ops::lanewise::{low16, signed16};
use crate::program::operand::{Destination, Source32, Source64};
use crate::program::types::DataType::{S16, S32, S64, U16, U32, U64};
use crate::program::{Form, Problem};

/// A division; nothing comes of a divisor of zero.
#[derive(Clone, Debug)]
pub(crate) enum Divide {
    Word(fn(u32, u32) -> Option<u32>, Destination, [Source32; 2]),
    Double(fn(u64, u64) -> Option<u64>, Destination, [Source64; 2]),
}

pub(super) fn lower(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    let remainder = form.mnemonic() == "rem";
    let ty = form.take_type()?;
    form.finish()?;
    form.expect(3)?;
    let operation = if matches!(ty, S64 | U64) {
        let run: fn(u64, u64) -> Option<u64> = match (remainder, ty) {
            (false, U64) => u64::checked_div,
            (true, U64) => u64::checked_rem,
            (false, _) => |a, b| (b != 0).then(|| (a as i64).wrapping_div(b as i64) as u64),
            (true, _) => |a, b| (b != 0).then(|| (a as i64).wrapping_rem(b as i64) as u64),
        };
        let sources = [form.source64(1, ty)?, form.source64(2, ty)?];
        Divide::Double(run, form.destination(0, ty)?, sources)
    } else {
        let run: fn(u32, u32) -> Option<u32> = match (remainder, ty) {
            (false, U32) => u32::checked_div,
            (true, U32) => u32::checked_rem,
            (false, S32) => |a, b| (b != 0).then(|| (a as i32).wrapping_div(b as i32) as u32),
            (true, S32) => |a, b| (b != 0).then(|| (a as i32).wrapping_rem(b as i32) as u32),
            (false, U16) => |a, b| low16(a).checked_div(low16(b)),
            (true, U16) => |a, b| low16(a).checked_rem(low16(b)),
            (false, S16) => {
                |a, b| signed16(a).checked_div(signed16(b)).map(|value| low16(value as u32))
            }
            (true, S16) => {
                |a, b| signed16(a).checked_rem(signed16(b)).map(|value| low16(value as u32))
            }
            _ => return Err(format!("division of the type {ty:?}")),
        };
        let sources = [form.source32(1, ty)?, form.source32(2, ty)?];
        Divide::Word(run, form.destination(0, ty)?, sources)
    };
    form.emit(Operation::Integer(Integer::Divide(operation)));
    Ok(())
}

fn by_zero(lane: usize) -> Fault {
    Fault::at_lane(lane, ReportKind::Operand("division of an integer by zero".to_owned()))
}

pub(super) fn execute(operation: &Divide, context: &mut Context<'_>) -> Outcome {
    let mask = context.mask;
    let registers = &mut context.frame.registers;
    match operation {
        Divide::Word(run, to, [a, b]) => {
            let (a, b) = (registers.words(*a), registers.words(*b));
            let mut values: Words = [0; 32];
            for lane in lanes(mask) {
                values[lane] = run(a[lane], b[lane]).ok_or_else(|| by_zero(lane))?;
            }
            registers.set_words(*to, mask, &values);
        }
        Divide::Double(run, to, [a, b]) => {
            let (a, b) = (registers.doubles(*a), registers.doubles(*b));
            let mut values: Doubles = [0; 32];
            for lane in lanes(mask) {
                values[lane] = run(a[lane], b[lane]).ok_or_else(|| by_zero(lane))?;
            }
            registers.set_doubles(*to, mask, &values);
        }
    }
    Ok(())
}
