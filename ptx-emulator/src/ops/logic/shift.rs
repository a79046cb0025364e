//! `shl`, `shr`, `shf` and `prmt`.

use crate::execute::registers::{Doubles, Words};
use crate::numeric::integer::{self as numeric, FunnelAmount, Permutation};
use crate::ops::Operation;
use crate::ops::lanewise::{
    Lanewise, WordOfThree, WordOfWords, each2, each3, emit_word2, emit_word3, low16, signed16,
};
use crate::program::types::DataType::{B16, B32, B64, S16, S32, S64, U16, U32, U64};
use crate::program::{Form, Problem};

pub(super) fn lower(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    let mnemonic = form.mnemonic();
    if mnemonic == "shf" {
        return lower_funnel(form);
    }
    let ty = form.take_type()?;
    let run: WordOfWords = match (mnemonic, ty) {
        ("shl", B16) => |a, b| each2(a, b, |a, b| low16(left(a, b))),
        ("shl", B32) => |a, b| each2(a, b, left),
        ("shl", B64) => return lower_double(form, |a, b| each2(a, b, left64)),
        ("shr", B16 | U16) => |a, b| each2(a, b, |a, b| right(low16(a), b)),
        ("shr", B32 | U32) => |a, b| each2(a, b, right),
        ("shr", S16) => |a, b| each2(a, b, |a, b| low16((signed16(a) >> b.min(31)) as u32)),
        ("shr", S32) => |a, b| each2(a, b, |a, b| ((a as i32) >> b.min(31)) as u32),
        ("shr", B64 | U64) => return lower_double(form, |a, b| each2(a, b, right64)),
        ("shr", S64) => {
            let run: fn(&Doubles, &Words) -> Doubles =
                |a, b| each2(a, b, |a, b: u32| ((a as i64) >> b.min(63)) as u64);
            return lower_double(form, run);
        }
        _ => return Err(format!("shifts of the type {ty:?}")),
    };
    emit_word2(form, [ty, U32], run)
}

// Amounts from the width on shift everything out. A select after a shift by the low bits of the
// amount needs no branch.

#[inline(always)]
fn left(value: u32, amount: u32) -> u32 {
    if amount < 32 { value << (amount & 31) } else { 0 }
}

#[inline(always)]
fn right(value: u32, amount: u32) -> u32 {
    if amount < 32 { value >> (amount & 31) } else { 0 }
}

#[inline(always)]
fn left64(value: u64, amount: u32) -> u64 {
    if amount < 64 { value << (amount & 63) } else { 0 }
}

#[inline(always)]
fn right64(value: u64, amount: u32) -> u64 {
    if amount < 64 { value >> (amount & 63) } else { 0 }
}

fn lower_double(
    form: &mut Form<'_, '_>,
    run: fn(&Doubles, &Words) -> Doubles,
) -> Result<(), Problem> {
    form.finish()?;
    form.expect(3)?;
    let (value, amount) = (form.source64(1, B64)?, form.source32(2, U32)?);
    let own = Lanewise::Shift(run, form.destination(0, B64)?, value, amount);
    form.emit(Operation::Lanewise(own));
    Ok(())
}

fn lower_funnel(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    use FunnelAmount::{Clamp, Wrap};
    let to_left = form.take_one(&[("l", true), ("r", false)]);
    let to_left = to_left.ok_or("`.l` or `.r` is missing")?;
    let mode = form.take_one(&[("wrap", Wrap), ("clamp", Clamp)]);
    let mode = mode.ok_or("`.wrap` or `.clamp` is missing")?;
    let ty = form.take_type()?;
    if ty != B32 {
        return Err(format!("funnel shifts of the type {ty:?}"));
    }
    let run: WordOfThree = match (to_left, mode) {
        (true, Wrap) => |a, b, c| each3(a, b, c, |a, b, c| numeric::funnel_left(Wrap, a, b, c)),
        (true, Clamp) => |a, b, c| each3(a, b, c, |a, b, c| numeric::funnel_left(Clamp, a, b, c)),
        (false, Wrap) => |a, b, c| each3(a, b, c, |a, b, c| numeric::funnel_right(Wrap, a, b, c)),
        (false, Clamp) => |a, b, c| each3(a, b, c, |a, b, c| numeric::funnel_right(Clamp, a, b, c)),
    };
    emit_word3(form, [ty, ty, U32], run)
}

/// Lowers `prmt`.
pub(super) fn lower_permutation(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    let mode = form.take_one(&[
        ("f4e", Permutation::Forward4),
        ("b4e", Permutation::Backward4),
        ("rc8", Permutation::Replicate8),
        ("ecl", Permutation::EdgeClampLeft),
        ("ecr", Permutation::EdgeClampRight),
        ("rc16", Permutation::Replicate16),
    ]);
    let ty = form.take_type()?;
    if ty != B32 {
        return Err(format!("permutations of the type {ty:?}"));
    }
    let run: WordOfThree = match mode {
        None => |a, b, c| permute(Permutation::Generic, a, b, c),
        Some(Permutation::Forward4) => |a, b, c| permute(Permutation::Forward4, a, b, c),
        Some(Permutation::Backward4) => |a, b, c| permute(Permutation::Backward4, a, b, c),
        Some(Permutation::Replicate8) => |a, b, c| permute(Permutation::Replicate8, a, b, c),
        Some(Permutation::EdgeClampLeft) => |a, b, c| permute(Permutation::EdgeClampLeft, a, b, c),
        Some(Permutation::EdgeClampRight) => {
            |a, b, c| permute(Permutation::EdgeClampRight, a, b, c)
        }
        Some(_) => |a, b, c| permute(Permutation::Replicate16, a, b, c),
    };
    emit_word3(form, [ty; 3], run)
}

#[inline(always)]
fn permute(mode: Permutation, a: &Words, b: &Words, selector: &Words) -> Words {
    each3(a, b, selector, |a, b, selector| numeric::permute(mode, a, b, selector))
}
