//! `mov`, also between vectors and scalars, and `cvta`.

use crate::execute::Context;
use crate::machine::window;
use crate::module::{Component, Operand, Reference, StateSpace};
use crate::ops::Operation;
use crate::program::operand::{
    Any, Destination, File, Source32, Source64, Source128, SourcePredicate,
};
use crate::program::types::DataType;
use crate::program::{Form, Problem};

/// A move.
#[derive(Clone, Debug)]
pub(crate) enum Mov {
    Predicate(Destination, SourcePredicate),
    Word(Destination, Source32),
    Double(Destination, Source64),
    Quad(Destination, Source128),
    /// Two halves of 16 bits into 32: low, high.
    PackWord(Destination, [Source32; 2]),
    /// Four bytes into 32.
    PackBytes(Destination, Box<[Source32; 4]>),
    /// Two halves of 8 bits into 16.
    PackHalf(Destination, [Source32; 2]),
    /// Two halves of 32 bits into 64.
    PackDouble(Destination, [Source32; 2]),
    /// Four quarters of 16 bits into 64.
    PackQuarters(Destination, Box<[Source32; 4]>),
    /// Two halves of 64 bits into 128.
    PackQuad(Destination, [Source64; 2]),
    /// Four quarters of 32 bits into 128.
    PackWords(Destination, Box<[Source32; 4]>),
    /// A scalar into pieces of so many bits, up to 32 each.
    Unpack(Any, u32, Box<[Destination]>),
    /// 128 bits into two halves.
    UnpackQuad(Source128, [Destination; 2]),
    /// The difference added to an address: `cvta`.
    Move(Destination, Source64, u64),
}

/// Lowers `mov` and `cvta`.
pub(crate) fn lower(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    if form.mnemonic() == "cvta" {
        return lower_cvta(form);
    }
    // `mov.v4.u32 {…}, %tid` moves elements one by one.
    let length = form.take_one(&[("v2", 2), ("v4", 4)]);
    let ty = form.take_type()?;
    form.finish()?;
    form.expect(2)?;
    if !is_movable(ty) {
        return Err(format!("nothing of the type `.{}` is moved", ty.word()));
    }
    if let Some(length) = length {
        return lower_elements(form, ty, length);
    }
    let operation = match (form.operand(0)?, form.operand(1)?) {
        (Operand::Vector(to), _) => unpack(form, to, ty)?,
        (_, Operand::Vector(from)) => pack(form, from, ty)?,
        (to, from) => match ty.bits() {
            1 => Mov::Predicate(form.destination_predicate(0)?, form.predicate_of(from)?),
            64 => {
                let source = form.source64_of(from, ty)?;
                Mov::Double(form.destination_of(to, ty)?, source)
            }
            128 => Mov::Quad(form.destination(0, ty)?, form.source128(1)?),
            _ => {
                let source = form.source32_of(from, ty)?;
                Mov::Word(form.destination_of(to, ty)?, source)
            }
        },
    };
    form.emit(Operation::Mov(operation));
    Ok(())
}

/// `mov.v4.u32 {a, b, c, d}, %tid`, or from another vector.
fn lower_elements(form: &mut Form<'_, '_>, ty: DataType, length: usize) -> Result<(), Problem> {
    let to = form.vector(0)?;
    let from = match form.operand(1)? {
        Operand::Name(special @ Reference::Special(_)) => {
            let components = [Component::X, Component::Y, Component::Z, Component::W];
            let named = components.into_iter().take(length);
            named.map(|place| Operand::Component(*special, place)).collect()
        }
        _ => form.vector(1)?,
    };
    if to.len() != length || from.len() != length {
        return Err(format!("two vectors of {length} elements are wanted"));
    }
    // A vector may be moved into itself in another order, so all is read before it is written.
    let mut moves = Vec::new();
    let mut writes = Vec::new();
    for (to, from) in to.iter().zip(from.iter()) {
        let (read, write) = if ty.bits() == 64 {
            let row = form.lowering().temporary(File::Double);
            let read = Mov::Double(Destination(Some(row)), form.source64_of(from, ty)?);
            (read, Mov::Double(form.destination_of(to, ty)?, Source64::Register(row)))
        } else {
            let row = form.lowering().temporary(File::Word);
            let read = Mov::Word(Destination(Some(row)), form.source32_of(from, ty)?);
            (read, Mov::Word(form.destination_of(to, ty)?, Source32::Register(row)))
        };
        moves.push(read);
        writes.push(write);
    }
    for own in moves.into_iter().chain(writes) {
        form.emit(Operation::Mov(own));
    }
    Ok(())
}

fn pack(form: &mut Form<'_, '_>, from: &[Operand], ty: DataType) -> Result<Mov, Problem> {
    let element = element_type(ty.bits() / from.len().max(1) as u32)?;
    untyped(ty)?;
    if ty.bits() == 128 && from.len() == 2 {
        let halves = [form.source64_of(&from[0], element)?, form.source64_of(&from[1], element)?];
        return Ok(Mov::PackQuad(form.destination(0, ty)?, halves));
    }
    let sources = from
        .iter()
        .map(|own| form.source32_of(own, element))
        .collect::<Result<Vec<_>, Problem>>()?;
    let wrong = || format!("{} elements do not make {} bits", from.len(), ty.bits());
    Ok(match (ty.bits(), sources.as_slice()) {
        (16, &[low, high]) => Mov::PackHalf(form.destination(0, ty)?, [low, high]),
        (32, &[low, high]) => Mov::PackWord(form.destination(0, ty)?, [low, high]),
        (32, &[a, b, c, d]) => Mov::PackBytes(form.destination(0, ty)?, Box::new([a, b, c, d])),
        (64, &[low, high]) => Mov::PackDouble(form.destination(0, ty)?, [low, high]),
        (64, &[a, b, c, d]) => Mov::PackQuarters(form.destination(0, ty)?, Box::new([a, b, c, d])),
        (128, &[a, b, c, d]) => Mov::PackWords(form.destination(0, ty)?, Box::new([a, b, c, d])),
        _ => return Err(wrong()),
    })
}

fn unpack(form: &mut Form<'_, '_>, to: &[Operand], ty: DataType) -> Result<Mov, Problem> {
    let bits = ty.bits() / to.len().max(1) as u32;
    let element = element_type(bits)?;
    untyped(ty)?;
    if to.iter().all(|own| *own == Operand::Sink) {
        return Err("at least one element must be wanted".to_owned());
    }
    if bits == 64 {
        let source = form.source128(1)?;
        let [low, high] = to else { return Err("128 bits have two halves".to_owned()) };
        let low = form.destination_of(low, element)?;
        return Ok(Mov::UnpackQuad(source, [low, form.destination_of(high, element)?]));
    }
    let source = match ty.bits() {
        128 => Any::Quad(form.source128(1)?),
        64 => Any::Double(form.source64(1, ty)?),
        _ => Any::Word(form.source32(1, ty)?),
    };
    let pieces =
        to.iter().map(|own| form.destination_of(own, element)).collect::<Result<_, Problem>>()?;
    Ok(Mov::Unpack(source, bits, pieces))
}

/// Scalars that are put together or taken apart have no other type than that of their bits.
fn untyped(ty: DataType) -> Result<(), Problem> {
    use DataType::{B16, B32, B64, B128};
    if matches!(ty, B16 | B32 | B64 | B128) {
        return Ok(());
    }
    Err(format!("vectors become scalars of an untyped kind such as `.b32`, not `.{}`", ty.word()))
}

/// The types that are moved.
fn is_movable(ty: DataType) -> bool {
    use DataType::{B16, B32, B64, B128, F32, F64, Predicate, S16, S32, S64, U16, U32, U64};
    matches!(ty, B16 | B32 | B64 | B128 | U16 | U32 | U64 | S16 | S32 | S64 | F32 | F64 | Predicate)
}

fn element_type(bits: u32) -> Result<DataType, Problem> {
    Ok(match bits {
        8 => DataType::B8,
        16 => DataType::B16,
        32 => DataType::B32,
        64 => DataType::B64,
        _ => return Err(format!("elements of {bits} bits")),
    })
}

fn lower_cvta(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    let to = form.take("to");
    let space = match form.take_space() {
        Some(space) => space,
        None if form.take("shared::cta") || form.take("shared::cluster") => StateSpace::Shared,
        None if form.take("param::entry") => StateSpace::Param,
        None => return Err("a state space is missing".to_owned()),
    };
    let ty = form.take_type()?;
    form.finish()?;
    form.expect(2)?;
    if ty != DataType::U64 {
        return Err("addresses have the type `.u64`".to_owned());
    }
    match form.symbol_of(1) {
        Some(_) if to => return Err("a generic address is in a register".to_owned()),
        Some(own) if own != space => {
            return Err("the symbol lies in another state space".to_owned());
        }
        _ => {}
    }
    let base = window::base(space);
    let difference = if to { base.wrapping_neg() } else { base };
    let operation = Mov::Move(form.destination(0, ty)?, form.source64(1, ty)?, difference);
    form.emit(Operation::Mov(operation));
    Ok(())
}

/// Executes a move.
#[inline]
pub(crate) fn execute(operation: &Mov, context: &mut Context<'_>) {
    let mask = context.mask;
    let registers = &mut context.frame.registers;
    match operation {
        Mov::Word(to, from) => {
            let values = registers.words(*from);
            registers.set_words(*to, mask, &values);
        }
        Mov::Double(to, from) => {
            let values = registers.doubles(*from);
            registers.set_doubles(*to, mask, &values);
        }
        Mov::Predicate(to, from) => {
            let values = registers.predicate(*from);
            registers.set_predicate(*to, mask, values);
        }
        Mov::Quad(to, from) => {
            let values = registers.quads(*from);
            registers.set_quads(*to, mask, &values);
        }
        Mov::PackWord(to, [low, high]) => {
            let (low, high) = (registers.words(*low), registers.words(*high));
            let values = std::array::from_fn(|lane| low[lane] & 0xFFFF | high[lane] << 16);
            registers.set_words(*to, mask, &values);
        }
        Mov::PackHalf(to, [low, high]) => {
            let (low, high) = (registers.words(*low), registers.words(*high));
            let values = std::array::from_fn(|lane| low[lane] & 0xFF | (high[lane] & 0xFF) << 8);
            registers.set_words(*to, mask, &values);
        }
        Mov::PackBytes(to, pieces) => {
            let pieces = pieces.map(|own| registers.words(own));
            let values = std::array::from_fn(|lane| {
                u32::from_le_bytes(std::array::from_fn(|piece| pieces[piece][lane] as u8))
            });
            registers.set_words(*to, mask, &values);
        }
        Mov::PackDouble(to, [low, high]) => {
            let (low, high) = (registers.words(*low), registers.words(*high));
            let values =
                std::array::from_fn(|lane| u64::from(low[lane]) | u64::from(high[lane]) << 32);
            registers.set_doubles(*to, mask, &values);
        }
        Mov::PackQuarters(to, pieces) => {
            let pieces = pieces.map(|own| registers.words(own));
            let values = std::array::from_fn(|lane| {
                (0..4)
                    .rev()
                    .fold(0, |value, piece| value << 16 | u64::from(pieces[piece][lane] & 0xFFFF))
            });
            registers.set_doubles(*to, mask, &values);
        }
        Mov::PackQuad(to, [low, high]) => {
            let (low, high) = (registers.doubles(*low), registers.doubles(*high));
            let values =
                std::array::from_fn(|lane| u128::from(low[lane]) | u128::from(high[lane]) << 64);
            registers.set_quads(*to, mask, &values);
        }
        Mov::PackWords(to, pieces) => {
            let pieces = pieces.map(|own| registers.words(own));
            let values = std::array::from_fn(|lane| {
                (0..4).rev().fold(0, |value, piece| value << 32 | u128::from(pieces[piece][lane]))
            });
            registers.set_quads(*to, mask, &values);
        }
        Mov::Unpack(from, bits, to) => {
            let values = match from {
                Any::Word(source) => registers.words(*source).map(u128::from),
                Any::Double(source) => registers.doubles(*source).map(u128::from),
                Any::Quad(source) => registers.quads(*source),
            };
            let select = (1u64 << bits) - 1;
            for (piece, own) in to.iter().enumerate() {
                let shift = piece as u32 * bits;
                let part = values.map(|value| ((value >> shift) as u64 & select) as u32);
                registers.set_words(*own, mask, &part);
            }
        }
        Mov::UnpackQuad(from, [low, high]) => {
            let values = registers.quads(*from);
            registers.set_doubles(*low, mask, &values.map(|value| value as u64));
            registers.set_doubles(*high, mask, &values.map(|value| (value >> 64) as u64));
        }
        Mov::Move(to, from, difference) => {
            let values = registers.doubles(*from).map(|value| value.wrapping_add(*difference));
            registers.set_doubles(*to, mask, &values);
        }
    }
}
