//! Counting, finding, reversing, cutting and making fields of bits.

use super::Integer;
use crate::execute::registers::{Doubles, Words};
use crate::numeric::integer as numeric;
use crate::ops::Operation;
use crate::ops::lanewise::{
    Lanewise, WordOfThree, WordOfWord, WordOfWords, each1, each2, each3, emit_double1, emit_word1,
    emit_word2, emit_word3,
};
use crate::program::types::DataType::{self, B32, B64, S32, S64, U32, U64};
use crate::program::{Form, Problem};

pub(super) fn lower(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    let mnemonic = form.mnemonic();
    let wraps = match mnemonic {
        "bmsk" | "szext" => {
            let wraps = form.take_one(&[("wrap", true), ("clamp", false)]);
            wraps.ok_or("`.wrap` or `.clamp` is missing")?
        }
        _ => false,
    };
    let amount = mnemonic == "bfind" && form.take("shiftamt");
    let ty = form.take_type()?;
    match (mnemonic, ty) {
        ("clz", B32) => emit_word1(form, ty, |a| each1(a, u32::leading_zeros)),
        ("clz", B64) => narrow(form, ty, |a| each1(a, u64::leading_zeros)),
        ("popc", B32) => emit_word1(form, ty, |a| each1(a, u32::count_ones)),
        ("popc", B64) => narrow(form, ty, |a| each1(a, u64::count_ones)),
        ("brev", B32) => emit_word1(form, ty, |a| each1(a, u32::reverse_bits)),
        ("brev", B64) => emit_double1(form, ty, |a| each1(a, u64::reverse_bits)),
        ("bfind", U32 | S32) => emit_word1(form, ty, find32(amount, ty)),
        ("bfind", U64 | S64) => narrow(form, ty, find64(amount, ty)),
        ("fns", B32) => emit_word3(form, [ty, U32, S32], |mask, base, offset| {
            each3(mask, base, offset, |mask, base, offset| {
                numeric::find_nth_set(mask, base, offset as i32)
            })
        }),
        ("bfe", U32 | S32) => {
            let run: WordOfThree = match ty {
                S32 => |a, b, c| each3(a, b, c, numeric::extract_s32),
                _ => |a, b, c| each3(a, b, c, numeric::extract_u32),
            };
            emit_word3(form, [ty, U32, U32], run)
        }
        ("bfe", U64 | S64) => lower_extract64(form, ty),
        ("bfi", B32 | B64) => lower_insert(form, ty),
        ("bmsk", B32) => {
            let run: WordOfWords = match wraps {
                true => |a, b| each2(a, b, |a, b| mask_of(true, a, b)),
                false => |a, b| each2(a, b, |a, b| mask_of(false, a, b)),
            };
            emit_word2(form, [ty, ty], run)
        }
        ("szext", U32 | S32) => {
            let run: WordOfWords = match (wraps, ty) {
                (true, S32) => |a, b| each2(a, b, |a, b| extend_signed(a, b & 31)),
                (true, _) => |a, b| each2(a, b, |a, b| extend_zero(a, b & 31)),
                (false, S32) => |a, b| each2(a, b, extend_signed),
                (false, _) => |a, b| each2(a, b, extend_zero),
            };
            emit_word2(form, [ty, U32], run)
        }
        _ => Err(format!("there is no `{mnemonic}` of the type {ty:?}")),
    }
}

fn find32(amount: bool, ty: DataType) -> WordOfWord {
    match (amount, ty) {
        (false, S32) => |a| each1(a, numeric::find_s32),
        (false, _) => |a| each1(a, numeric::find_u32),
        (true, S32) => |a| each1(a, |a| numeric::find_shift_amount(32, numeric::find_s32(a))),
        (true, _) => |a| each1(a, |a| numeric::find_shift_amount(32, numeric::find_u32(a))),
    }
}

fn find64(amount: bool, ty: DataType) -> fn(&Doubles) -> Words {
    match (amount, ty) {
        (false, S64) => |a| each1(a, numeric::find_s64),
        (false, _) => |a| each1(a, numeric::find_u64),
        (true, S64) => |a| each1(a, |a| numeric::find_shift_amount(64, numeric::find_s64(a))),
        (true, _) => |a| each1(a, |a| numeric::find_shift_amount(64, numeric::find_u64(a))),
    }
}

fn narrow(
    form: &mut Form<'_, '_>,
    ty: DataType,
    run: fn(&Doubles) -> Words,
) -> Result<(), Problem> {
    form.finish()?;
    form.expect(2)?;
    let source = form.source64(1, ty)?;
    let own = Lanewise::Narrow(run, form.destination(0, U32)?, source);
    form.emit(Operation::Lanewise(own));
    Ok(())
}

fn lower_extract64(form: &mut Form<'_, '_>, ty: DataType) -> Result<(), Problem> {
    form.finish()?;
    form.expect(4)?;
    let run: fn(&Doubles, &Words, &Words) -> Doubles = match ty {
        S64 => |a, b, c| each3(a, b, c, numeric::extract_s64),
        _ => |a, b, c| each3(a, b, c, numeric::extract_u64),
    };
    let sources = (form.source64(1, ty)?, [form.source32(2, U32)?, form.source32(3, U32)?]);
    let own = Lanewise::Field(run, form.destination(0, ty)?, Box::new(sources));
    form.emit(Operation::Lanewise(own));
    Ok(())
}

fn lower_insert(form: &mut Form<'_, '_>, ty: DataType) -> Result<(), Problem> {
    form.finish()?;
    form.expect(5)?;
    let counts = [form.source32(3, U32)?, form.source32(4, U32)?];
    let operation = if ty == B64 {
        let values = [form.source64(1, ty)?, form.source64(2, ty)?];
        Integer::InsertDouble(form.destination(0, ty)?, Box::new((values, counts)))
    } else {
        let [position, length] = counts;
        let sources = [form.source32(1, ty)?, form.source32(2, ty)?, position, length];
        Integer::Insert(form.destination(0, ty)?, Box::new(sources))
    };
    form.emit(Operation::Integer(operation));
    Ok(())
}

/// `bmsk`: `length` ones from bit `start` on (PTX ISA, `bmsk`). `.clamp` knows counts above 31.
fn mask_of(wraps: bool, start: u32, length: u32) -> u32 {
    let (start, length) = if wraps { (start & 31, length & 31) } else { (start, length) };
    let ones = if length >= 32 { u32::MAX } else { (1 << length) - 1 };
    ones.checked_shl(start).unwrap_or(0)
}

/// `szext.u32`: the low `bits` bits; all for 32 and more.
fn extend_zero(value: u32, bits: u32) -> u32 {
    if bits >= 32 { value } else { value & ((1 << bits) - 1) }
}

/// `szext.s32`: the low `bits` bits with their sign; nothing for 0, all for 32 and more.
fn extend_signed(value: u32, bits: u32) -> u32 {
    match bits {
        0 => 0,
        32.. => value,
        _ => (((value << (32 - bits)) as i32) >> (32 - bits)) as u32,
    }
}
