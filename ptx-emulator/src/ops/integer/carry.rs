//! Sums, differences and products that write or read the carry flag of a thread.
//!
//! There is one flag a thread. After a difference it holds the borrow.

use super::{HALVES, Half, Integer};
use crate::execute::Context;
use crate::execute::registers::{Doubles, Words};
use crate::numeric::product::{
    add_carry_u32, add_carry_u64, multiply_high_s32, multiply_high_s64, multiply_high_u32,
    multiply_high_u64, subtract_borrow_u32, subtract_borrow_u64,
};
use crate::ops::Operation;
use crate::program::operand::{Destination, Source32, Source64};
use crate::program::types::DataType::{S32, S64, U32, U64};
use crate::program::{Form, Problem};

/// An instruction with a carry.
#[derive(Clone, Debug)]
pub(crate) struct Carry {
    kind: Kind,
    /// The flag comes in.
    reads: bool,
    /// The flag is set.
    writes: bool,
    destination: Destination,
    sources: Sources,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Add,
    Subtract,
    /// Half of a product, signed or not, and a sum.
    Product(Half, bool),
}

/// The third source belongs to products and is zero elsewhere.
#[derive(Clone, Debug)]
enum Sources {
    Word([Source32; 3]),
    Double(Box<[Source64; 3]>),
}

pub(super) fn lower(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    let mnemonic = form.mnemonic();
    let half = match mnemonic {
        "mad" | "madc" => Some(form.take_one(HALVES).ok_or("`.lo` or `.hi` is missing")?),
        _ => None,
    };
    let writes = form.take("cc");
    let ty = form.take_type()?;
    form.finish()?;
    if !matches!(ty, S32 | U32 | S64 | U64) {
        return Err(format!("carries of the type {ty:?}"));
    }
    form.expect(if half.is_some() { 4 } else { 3 })?;
    let kind = match (half, mnemonic) {
        (Some(half), _) => Kind::Product(half, ty.is_signed()),
        (None, "sub" | "subc") => Kind::Subtract,
        _ => Kind::Add,
    };
    let (sources, destination) = if ty.bits() == 64 {
        let third = match half {
            Some(_) => form.source64(3, ty)?,
            None => Source64::Immediate(0),
        };
        let sources = [form.source64(1, ty)?, form.source64(2, ty)?, third];
        (Sources::Double(Box::new(sources)), form.destination(0, ty)?)
    } else {
        let third = match half {
            Some(_) => form.source32(3, ty)?,
            None => Source32::Immediate(0),
        };
        let sources = [form.source32(1, ty)?, form.source32(2, ty)?, third];
        (Sources::Word(sources), form.destination(0, ty)?)
    };
    let reads = matches!(mnemonic, "addc" | "subc" | "madc");
    let own = Carry { kind, reads, writes, destination, sources };
    form.emit(Operation::Integer(Integer::Carry(own)));
    Ok(())
}

pub(super) fn execute(own: &Carry, context: &mut Context<'_>) {
    let mask = context.mask;
    let registers = &mut context.frame.registers;
    let flags = if own.reads { registers.carry() } else { 0 };
    let mut out = 0;
    let flag = |lane: usize| (flags >> lane) & 1 == 1;
    match &own.sources {
        Sources::Word(sources) => {
            let [a, b, c] = sources.map(|source| registers.words(source));
            let values: Words = std::array::from_fn(|lane| {
                let (value, carry) = word(own.kind, [a[lane], b[lane], c[lane]], flag(lane));
                out |= u32::from(carry) << lane;
                value
            });
            registers.set_words(own.destination, mask, &values);
        }
        Sources::Double(sources) => {
            let [a, b, c] = sources.map(|source| registers.doubles(source));
            let values: Doubles = std::array::from_fn(|lane| {
                let (value, carry) = double(own.kind, [a[lane], b[lane], c[lane]], flag(lane));
                out |= u32::from(carry) << lane;
                value
            });
            registers.set_doubles(own.destination, mask, &values);
        }
    }
    if own.writes {
        registers.set_carry(mask, out);
    }
}

fn word(kind: Kind, [a, b, c]: [u32; 3], carry: bool) -> (u32, bool) {
    let part = match kind {
        Kind::Add => return add_carry_u32(a, b, carry),
        Kind::Subtract => return subtract_borrow_u32(a, b, carry),
        Kind::Product(Half::Low, _) => a.wrapping_mul(b),
        Kind::Product(Half::High, true) => multiply_high_s32(a, b),
        Kind::Product(Half::High, false) => multiply_high_u32(a, b),
    };
    add_carry_u32(part, c, carry)
}

fn double(kind: Kind, [a, b, c]: [u64; 3], carry: bool) -> (u64, bool) {
    let part = match kind {
        Kind::Add => return add_carry_u64(a, b, carry),
        Kind::Subtract => return subtract_borrow_u64(a, b, carry),
        Kind::Product(Half::Low, _) => a.wrapping_mul(b),
        Kind::Product(Half::High, true) => multiply_high_s64(a, b),
        Kind::Product(Half::High, false) => multiply_high_u64(a, b),
    };
    add_carry_u64(part, c, carry)
}
