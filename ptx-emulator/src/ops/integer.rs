//! Integer arithmetic and instructions that look at or move bits inside a register (PTX ISA,
//! "Integer Arithmetic Instructions" and "Extended-Precision Integer Arithmetic Instructions").

mod arithmetic;
mod bits;
mod carry;
mod division;
mod product;

use crate::execute::registers::Words;
use crate::execute::{Context, Outcome};
use crate::program::operand::{Destination, Source32, Source64};
use crate::program::{Form, Problem};

/// What is more than a value of each lane.
#[derive(Clone, Debug)]
pub(crate) enum Integer {
    Carry(carry::Carry),
    Divide(division::Divide),
    /// `bfi.b32`: the field, the value it is put into, position and length.
    Insert(Destination, Box<[Source32; 4]>),
    /// `bfi.b64`.
    InsertDouble(Destination, Box<([Source64; 2], [Source32; 2])>),
}

/// Whether an instruction whose mnemonic also exists for floating-point numbers is one of these.
pub(crate) fn is_integer(form: &Form<'_, '_>) -> bool {
    let floats = ["f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64"];
    !floats.iter().any(|word| form.has(word))
}

/// Lowers an integer instruction.
pub(crate) fn lower(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    match form.mnemonic() {
        "addc" | "subc" | "madc" => carry::lower(form),
        "add" | "sub" | "mad" if form.has("cc") => carry::lower(form),
        "add" | "sub" | "min" | "max" | "neg" | "abs" | "sad" => arithmetic::lower(form),
        "mul" | "mad" | "mul24" | "mad24" | "dp4a" | "dp2a" => product::lower(form),
        "div" | "rem" => division::lower(form),
        _ => bits::lower(form),
    }
}

/// Which half of a product an instruction wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    Low,
    High,
}

const HALVES: &[(&str, Half)] = &[("lo", Half::Low), ("hi", Half::High)];

/// Executes an integer instruction.
pub(crate) fn execute(operation: &Integer, context: &mut Context<'_>) -> Outcome {
    match operation {
        Integer::Carry(own) => carry::execute(own, context),
        Integer::Divide(own) => return division::execute(own, context),
        Integer::Insert(to, sources) => {
            let registers = &mut context.frame.registers;
            let [field, base, position, length] = sources.map(|own| registers.words(own));
            let values: Words = std::array::from_fn(|lane| {
                let (position, length) = (position[lane], length[lane]);
                crate::numeric::integer::insert_b32(field[lane], base[lane], position, length)
            });
            registers.set_words(*to, context.mask, &values);
        }
        Integer::InsertDouble(to, sources) => {
            let registers = &mut context.frame.registers;
            let [field, base] = sources.0.map(|own| registers.doubles(own));
            let [position, length] = sources.1.map(|own| registers.words(own));
            let values = std::array::from_fn(|lane| {
                let (position, length) = (position[lane], length[lane]);
                crate::numeric::integer::insert_b64(field[lane], base[lane], position, length)
            });
            registers.set_doubles(*to, context.mask, &values);
        }
    }
    Ok(())
}
