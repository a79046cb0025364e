//! Sums, differences, extrema, signs and `sad`.

use crate::numeric::integer as numeric;
use crate::ops::lanewise::{
    DoubleOfDouble, DoubleOfDoubles, DoubleOfThree, WordOfThree, WordOfWord, WordOfWords, each1,
    each2, each3, emit_double1, emit_double2, emit_double3, emit_word1, emit_word2, emit_word3,
    halves, low16, signed16,
};
use crate::program::types::DataType::{self, S16, S16x2, S32, S64, U16, U16x2, U32, U64};
use crate::program::{Form, Problem};

pub(super) fn lower(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    let mnemonic = form.mnemonic();
    let saturates = matches!(mnemonic, "add" | "sub") && form.take("sat");
    let clips = matches!(mnemonic, "min" | "max") && form.take("relu");
    let ty = form.take_type()?;
    if saturates || clips {
        let run = modified(mnemonic, ty).ok_or_else(|| wrong(ty))?;
        return emit_word2(form, [ty, ty], run);
    }
    match (mnemonic, ty) {
        ("neg" | "abs", S64) => emit_double1(form, ty, sign64(mnemonic)),
        ("neg" | "abs", S16 | S32) => emit_word1(form, ty, sign32(mnemonic, ty)),
        ("neg" | "abs", _) => Err(wrong(ty)),
        ("sad", S64 | U64) => emit_double3(form, ty, sad64(ty)),
        ("sad", _) => emit_word3(form, [ty; 3], sad32(ty).ok_or_else(|| wrong(ty))?),
        (_, S64 | U64) => emit_double2(form, ty, binary64(mnemonic, ty)),
        _ => emit_word2(form, [ty, ty], binary32(mnemonic, ty).ok_or_else(|| wrong(ty))?),
    }
}

fn wrong(ty: DataType) -> Problem {
    format!("this form does not exist for the type {ty:?}")
}

/// `add.sat`, `sub.sat`, `min.relu`, `max.relu`.
fn modified(mnemonic: &str, ty: DataType) -> Option<WordOfWords> {
    Some(match (mnemonic, ty) {
        ("add", S32) => |a, b| each2(a, b, |a, b| (a as i32).saturating_add(b as i32) as u32),
        ("sub", S32) => |a, b| each2(a, b, |a, b| (a as i32).saturating_sub(b as i32) as u32),
        ("min", S32) => |a, b| each2(a, b, |a, b| (a as i32).min(b as i32).max(0) as u32),
        ("max", S32) => |a, b| each2(a, b, |a, b| (a as i32).max(b as i32).max(0) as u32),
        ("min", S16x2) => {
            |a, b| each2(a, b, |a, b| halves(a, b, |a, b| (a as i16).min(b as i16).max(0) as u16))
        }
        ("max", S16x2) => {
            |a, b| each2(a, b, |a, b| halves(a, b, |a, b| (a as i16).max(b as i16).max(0) as u16))
        }
        _ => return None,
    })
}

fn binary32(mnemonic: &str, ty: DataType) -> Option<WordOfWords> {
    Some(match (mnemonic, ty) {
        ("add", U32 | S32) => |a, b| each2(a, b, u32::wrapping_add),
        ("sub", U32 | S32) => |a, b| each2(a, b, u32::wrapping_sub),
        ("min", U32) => |a, b| each2(a, b, u32::min),
        ("max", U32) => |a, b| each2(a, b, u32::max),
        ("min", S32) => |a, b| each2(a, b, |a, b| (a as i32).min(b as i32) as u32),
        ("max", S32) => |a, b| each2(a, b, |a, b| (a as i32).max(b as i32) as u32),
        ("add", U16 | S16) => |a, b| each2(a, b, |a, b| low16(a.wrapping_add(b))),
        ("sub", U16 | S16) => |a, b| each2(a, b, |a, b| low16(a.wrapping_sub(b))),
        ("min", U16) => |a, b| each2(a, b, |a, b| low16(a).min(low16(b))),
        ("max", U16) => |a, b| each2(a, b, |a, b| low16(a).max(low16(b))),
        ("min", S16) => |a, b| each2(a, b, |a, b| low16(signed16(a).min(signed16(b)) as u32)),
        ("max", S16) => |a, b| each2(a, b, |a, b| low16(signed16(a).max(signed16(b)) as u32)),
        ("add", U16x2 | S16x2) => |a, b| each2(a, b, |a, b| halves(a, b, u16::wrapping_add)),
        ("min", U16x2) => |a, b| each2(a, b, |a, b| halves(a, b, u16::min)),
        ("max", U16x2) => |a, b| each2(a, b, |a, b| halves(a, b, u16::max)),
        ("min", S16x2) => {
            |a, b| each2(a, b, |a, b| halves(a, b, |a, b| (a as i16).min(b as i16) as u16))
        }
        ("max", S16x2) => {
            |a, b| each2(a, b, |a, b| halves(a, b, |a, b| (a as i16).max(b as i16) as u16))
        }
        _ => return None,
    })
}

fn binary64(mnemonic: &str, ty: DataType) -> DoubleOfDoubles {
    match (mnemonic, ty) {
        ("add", _) => |a, b| each2(a, b, u64::wrapping_add),
        ("sub", _) => |a, b| each2(a, b, u64::wrapping_sub),
        ("min", S64) => |a, b| each2(a, b, |a, b| (a as i64).min(b as i64) as u64),
        ("max", S64) => |a, b| each2(a, b, |a, b| (a as i64).max(b as i64) as u64),
        ("min", _) => |a, b| each2(a, b, u64::min),
        _ => |a, b| each2(a, b, u64::max),
    }
}

fn sign32(mnemonic: &str, ty: DataType) -> WordOfWord {
    match (mnemonic, ty) {
        ("neg", S16) => |a| each1(a, |a| low16(a.wrapping_neg())),
        ("neg", _) => |a| each1(a, u32::wrapping_neg),
        (_, S16) => |a| each1(a, |a| low16(signed16(a).unsigned_abs())),
        _ => |a| each1(a, |a| (a as i32).unsigned_abs()),
    }
}

fn sign64(mnemonic: &str) -> DoubleOfDouble {
    match mnemonic {
        "neg" => |a| each1(a, u64::wrapping_neg),
        _ => |a| each1(a, |a| (a as i64).unsigned_abs()),
    }
}

fn sad32(ty: DataType) -> Option<WordOfThree> {
    Some(match ty {
        U32 => |a, b, c| each3(a, b, c, |a, b, c| c.wrapping_add(a.abs_diff(b))),
        S32 => |a, b, c| each3(a, b, c, |a, b, c| c.wrapping_add((a as i32).abs_diff(b as i32))),
        U16 => {
            |a, b, c| each3(a, b, c, |a, b, c| low16(c.wrapping_add(low16(a).abs_diff(low16(b)))))
        }
        S16 => |a, b, c| {
            each3(a, b, c, |a, b, c| low16(c.wrapping_add(signed16(a).abs_diff(signed16(b)))))
        },
        _ => return None,
    })
}

fn sad64(ty: DataType) -> DoubleOfThree {
    match ty {
        S64 => |a, b, c| {
            each3(a, b, c, |a, b, c| numeric::sum_absolute_difference_signed(a as i64, b as i64, c))
        },
        _ => |a, b, c| each3(a, b, c, numeric::sum_absolute_difference_unsigned),
    }
}
