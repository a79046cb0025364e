//! Products, alone and with a sum: `mul`, `mad`, their 24-bit variants, and dot products of bytes.

use super::{HALVES, Half};
use crate::numeric::product::{self as numeric, BytePair};
use crate::ops::Operation;
use crate::ops::lanewise::{
    DoubleOfDoubles, DoubleOfThree, Lanewise, WordOfThree, WordOfWords, each2, each3, emit_double2,
    emit_double3, emit_word2, emit_word2_to, emit_word3, emit_word3_to, low16, signed16,
};
use crate::program::types::DataType::{self, S16, S32, S64, U16, U32, U64};
use crate::program::{Form, Problem};

pub(super) fn lower(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    match form.mnemonic() {
        "dp4a" | "dp2a" => lower_dot(form),
        "mul24" | "mad24" => lower24(form),
        mnemonic => {
            let adds = mnemonic == "mad";
            if form.take("wide") {
                return lower_wide(form, adds);
            }
            let half = form.take_one(HALVES).ok_or("`.lo`, `.hi` or `.wide` is missing")?;
            let saturates = form.take("sat");
            let ty = form.take_type()?;
            if saturates {
                if (adds, half, ty) != (true, Half::High, S32) {
                    return Err("`.sat` is for `mad.hi.s32` only".to_owned());
                }
                return emit_word3(form, [ty; 3], |a, b, c| {
                    each3(a, b, c, |a, b, c| {
                        let high = numeric::multiply_high_s32(a, b) as i32;
                        high.saturating_add(c as i32) as u32
                    })
                });
            }
            match (adds, ty) {
                (false, S64 | U64) => emit_double2(form, ty, multiply64(half, ty)),
                (true, S64 | U64) => emit_double3(form, ty, multiply_add64(half, ty)),
                (false, S16 | U16 | S32 | U32) => emit_word2(form, [ty; 2], multiply32(half, ty)),
                (true, S16 | U16 | S32 | U32) => {
                    emit_word3(form, [ty; 3], multiply_add32(half, ty))
                }
                _ => Err(format!("products of the type {ty:?}")),
            }
        }
    }
}

fn multiply32(half: Half, ty: DataType) -> WordOfWords {
    use Half::{High, Low};
    match (half, ty) {
        (Low, S16 | U16) => |a, b| each2(a, b, |a, b| low16(a.wrapping_mul(b))),
        (Low, _) => |a, b| each2(a, b, u32::wrapping_mul),
        (High, U16) => |a, b| each2(a, b, high_u16),
        (High, S16) => |a, b| each2(a, b, high_s16),
        (High, S32) => |a, b| each2(a, b, numeric::multiply_high_s32),
        (High, _) => |a, b| each2(a, b, numeric::multiply_high_u32),
    }
}

fn multiply_add32(half: Half, ty: DataType) -> WordOfThree {
    use Half::{High, Low};
    match (half, ty) {
        (Low, S16 | U16) => {
            |a, b, c| each3(a, b, c, |a, b, c| low16(a.wrapping_mul(b).wrapping_add(c)))
        }
        (Low, _) => |a, b, c| each3(a, b, c, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        (High, U16) => |a, b, c| each3(a, b, c, |a, b, c| low16(high_u16(a, b).wrapping_add(c))),
        (High, S16) => |a, b, c| each3(a, b, c, |a, b, c| low16(high_s16(a, b).wrapping_add(c))),
        (High, S32) => {
            |a, b, c| each3(a, b, c, |a, b, c| numeric::multiply_high_s32(a, b).wrapping_add(c))
        }
        (High, _) => {
            |a, b, c| each3(a, b, c, |a, b, c| numeric::multiply_high_u32(a, b).wrapping_add(c))
        }
    }
}

fn high_u16(a: u32, b: u32) -> u32 {
    numeric::multiply_high_u16(a as u16, b as u16).into()
}

fn high_s16(a: u32, b: u32) -> u32 {
    numeric::multiply_high_s16(a as u16, b as u16).into()
}

fn multiply64(half: Half, ty: DataType) -> DoubleOfDoubles {
    match (half, ty) {
        (Half::Low, _) => |a, b| each2(a, b, u64::wrapping_mul),
        (Half::High, S64) => |a, b| each2(a, b, numeric::multiply_high_s64),
        (Half::High, _) => |a, b| each2(a, b, numeric::multiply_high_u64),
    }
}

fn multiply_add64(half: Half, ty: DataType) -> DoubleOfThree {
    match (half, ty) {
        (Half::Low, _) => |a, b, c| each3(a, b, c, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        (Half::High, S64) => {
            |a, b, c| each3(a, b, c, |a, b, c| numeric::multiply_high_s64(a, b).wrapping_add(c))
        }
        (Half::High, _) => {
            |a, b, c| each3(a, b, c, |a, b, c| numeric::multiply_high_u64(a, b).wrapping_add(c))
        }
    }
}

/// The full product of two 16-bit numbers.
#[inline(always)]
fn full16(signed: bool, a: u32, b: u32) -> u32 {
    // The product of two signed 16-bit numbers fits in 32 bits.
    if signed { signed16(a).wrapping_mul(signed16(b)) as u32 } else { low16(a) * low16(b) }
}

#[inline(always)]
fn full_u32(a: u32, b: u32) -> u64 {
    u64::from(a) * u64::from(b)
}

#[inline(always)]
fn full_s32(a: u32, b: u32) -> u64 {
    (i64::from(a as i32) * i64::from(b as i32)) as u64
}

fn lower_wide(form: &mut Form<'_, '_>, adds: bool) -> Result<(), Problem> {
    let ty = form.take_type()?;
    match (ty, adds) {
        (U16, false) => {
            emit_word2_to(form, U32, [ty; 2], |a, b| each2(a, b, |a, b| full16(false, a, b)))
        }
        (S16, false) => {
            emit_word2_to(form, S32, [ty; 2], |a, b| each2(a, b, |a, b| full16(true, a, b)))
        }
        (U16, true) => emit_word3_to(form, U32, [ty, ty, U32], |a, b, c| {
            each3(a, b, c, |a, b, c| full16(false, a, b).wrapping_add(c))
        }),
        (S16, true) => emit_word3_to(form, S32, [ty, ty, S32], |a, b, c| {
            each3(a, b, c, |a, b, c| full16(true, a, b).wrapping_add(c))
        }),
        (U32 | S32, _) => lower_wide32(form, ty, adds),
        _ => Err(format!("wide products of the type {ty:?}")),
    }
}

fn lower_wide32(form: &mut Form<'_, '_>, ty: DataType, adds: bool) -> Result<(), Problem> {
    form.finish()?;
    form.expect(if adds { 4 } else { 3 })?;
    let sources = [form.source32(1, ty)?, form.source32(2, ty)?];
    let wide = if ty == S32 { S64 } else { U64 };
    let operation = if adds {
        let run: fn(&_, &_, &_) -> _ = match ty {
            S32 => |a, b, c| each3(a, b, c, |a, b, c: u64| full_s32(a, b).wrapping_add(c)),
            _ => |a, b, c| each3(a, b, c, |a, b, c: u64| full_u32(a, b).wrapping_add(c)),
        };
        let sum = form.source64(3, wide)?;
        Lanewise::Widen3(run, form.destination(0, wide)?, Box::new((sources, sum)))
    } else {
        let run: fn(&_, &_) -> _ = match ty {
            S32 => |a, b| each2(a, b, full_s32),
            _ => |a, b| each2(a, b, full_u32),
        };
        Lanewise::Widen2(run, form.destination(0, wide)?, sources)
    };
    form.emit(Operation::Lanewise(operation));
    Ok(())
}

/// The wanted half of a 24-bit product, signed.
fn part_s24(half: Half, a: u32, b: u32) -> u32 {
    let product = numeric::multiply24_signed(a, b) as u64;
    if half == Half::Low { numeric::low24(product) } else { numeric::high24(product) }
}

/// The wanted half of a 24-bit product.
fn part_u24(half: Half, a: u32, b: u32) -> u32 {
    let product = numeric::multiply24_unsigned(a, b);
    if half == Half::Low { numeric::low24(product) } else { numeric::high24(product) }
}

fn lower24(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    use Half::{High, Low};
    let adds = form.mnemonic() == "mad24";
    let half = form.take_one(HALVES).ok_or("`.lo` or `.hi` is missing")?;
    let saturates = form.take("sat");
    let ty = form.take_type()?;
    if !matches!(ty, S32 | U32) || (saturates && (adds, half, ty) != (true, High, S32)) {
        return Err("such a product of 24 bits does not exist".to_owned());
    }
    if !adds {
        let run: WordOfWords = match (half, ty) {
            (Low, S32) => |a, b| each2(a, b, |a, b| part_s24(Low, a, b)),
            (High, S32) => |a, b| each2(a, b, |a, b| part_s24(High, a, b)),
            (Low, _) => |a, b| each2(a, b, |a, b| part_u24(Low, a, b)),
            (High, _) => |a, b| each2(a, b, |a, b| part_u24(High, a, b)),
        };
        return emit_word2(form, [ty; 2], run);
    }
    let run: WordOfThree = match (half, ty) {
        (High, S32) if saturates => |a, b, c| {
            each3(a, b, c, |a, b, c| (part_s24(High, a, b) as i32).saturating_add(c as i32) as u32)
        },
        (Low, S32) => |a, b, c| each3(a, b, c, |a, b, c| part_s24(Low, a, b).wrapping_add(c)),
        (High, S32) => |a, b, c| each3(a, b, c, |a, b, c| part_s24(High, a, b).wrapping_add(c)),
        (Low, _) => |a, b, c| each3(a, b, c, |a, b, c| part_u24(Low, a, b).wrapping_add(c)),
        (High, _) => |a, b, c| each3(a, b, c, |a, b, c| part_u24(High, a, b).wrapping_add(c)),
    };
    emit_word3(form, [ty; 3], run)
}

fn lower_dot(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    let pair = match form.mnemonic() {
        "dp4a" => None,
        _ if form.take("lo") => Some(BytePair::Low),
        _ if form.take("hi") => Some(BytePair::High),
        _ => return Err("`.lo` or `.hi` is missing".to_owned()),
    };
    let types = [form.take_type()?, form.take_type()?];
    if types.iter().any(|ty| !matches!(ty, S32 | U32)) {
        return Err("dot products are of the types s32 and u32".to_owned());
    }
    let [a, b] = types;
    let run = match pair {
        None => match (a, b) {
            (S32, S32) => four::<true, true>,
            (S32, _) => four::<true, false>,
            (_, S32) => four::<false, true>,
            _ => four::<false, false>,
        },
        Some(BytePair::Low) => two_of(
            a,
            b,
            [
                two::<true, true, false>,
                two::<true, false, false>,
                two::<false, true, false>,
                two::<false, false, false>,
            ],
        ),
        Some(BytePair::High) => two_of(
            a,
            b,
            [
                two::<true, true, true>,
                two::<true, false, true>,
                two::<false, true, true>,
                two::<false, false, true>,
            ],
        ),
    };
    let sum = if types.contains(&S32) { S32 } else { U32 };
    emit_word3_to(form, sum, [a, b, sum], run)
}

/// One of the functions for signed and signed, signed and unsigned, and so on.
fn two_of(a: DataType, b: DataType, functions: [WordOfThree; 4]) -> WordOfThree {
    functions[usize::from(a != S32) * 2 + usize::from(b != S32)]
}

type Row = crate::execute::registers::Words;

fn four<const A: bool, const B: bool>(a: &Row, b: &Row, c: &Row) -> Row {
    each3(a, b, c, |a, b, c| numeric::dot4(a, A, b, B, c))
}

fn two<const A: bool, const B: bool, const HIGH: bool>(a: &Row, b: &Row, c: &Row) -> Row {
    let pair = if HIGH { BytePair::High } else { BytePair::Low };
    each3(a, b, c, |a, b, c| numeric::dot2(pair, a, A, b, B, c))
}
