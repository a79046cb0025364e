//! Which modifiers which instruction takes with which type.

use super::{Arithmetic, Float, Function, HalfOperands, HalfShape};
use crate::module::{Immediate, Operand};
use crate::numeric::half::HalfFormat;
use crate::numeric::minmax::{Extremum, MinMaxModifiers};
use crate::numeric::{Modifiers, Rounding, approx};
use crate::ops::Operation;
use crate::program::operand::{Source32, Source64};
use crate::program::types::DataType;
use crate::program::{Form, Problem};

const FLOAT_TYPES: [&str; 7] = ["f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64"];

/// The roundings of an instruction's result.
const ROUNDINGS: [(&str, Rounding); 4] = [
    ("rn", Rounding::NearestEven),
    ("rz", Rounding::Zero),
    ("rm", Rounding::Down),
    ("rp", Rounding::Up),
];

/// Whether an instruction whose mnemonic integers have as well is one of floating-point numbers.
pub(crate) fn is_float(form: &Form<'_, '_>) -> bool {
    FLOAT_TYPES.iter().any(|word| form.has(word))
}

/// The types that share rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Single,
    /// Two f32 in a register.
    Packed,
    Double,
    Half(HalfShape),
}

impl Kind {
    fn of(ty: DataType) -> Result<Self, Problem> {
        let half = |format, pair| Ok(Self::Half(HalfShape { format, pair }));
        match ty {
            DataType::F32 => Ok(Self::Single),
            DataType::F64 => Ok(Self::Double),
            DataType::F16 => half(HalfFormat::F16, false),
            DataType::F16x2 => half(HalfFormat::F16, true),
            DataType::Bf16 => half(HalfFormat::Bf16, false),
            DataType::Bf16x2 => half(HalfFormat::Bf16, true),
            DataType::F32x2 => Ok(Self::Packed),
            _ => Err("this type has no such instruction".to_owned()),
        }
    }

    fn is_f16(self) -> bool {
        matches!(self, Self::Half(HalfShape { format: HalfFormat::F16, .. }))
    }

    fn is_bf16(self) -> bool {
        matches!(self, Self::Half(HalfShape { format: HalfFormat::Bf16, .. }))
    }

    fn is_half(self) -> bool {
        matches!(self, Self::Half(_))
    }
}

/// Pairs of f32 are added, multiplied and no more, from sm_100 on.
fn check_packed(form: &Form<'_, '_>) -> Result<(), Problem> {
    if form.generation() < 100 {
        return Err("`.f32x2` needs an architecture from sm_100 on".to_owned());
    }
    match form.mnemonic() {
        "add" | "sub" | "mul" | "fma" => Ok(()),
        mnemonic => Err(format!("there is no `{mnemonic}` of this type")),
    }
}

/// Lowers an instruction.
pub(crate) fn lower(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    let ty = form.take_type()?;
    let kind = Kind::of(ty)?;
    if kind == Kind::Packed {
        check_packed(form)?;
    }
    let arithmetic = match form.mnemonic() {
        "add" => sum(form, kind, Function::Add)?,
        "sub" => sum(form, kind, Function::Subtract)?,
        "mul" => sum(form, kind, Function::Multiply)?,
        "fma" => fused(form, kind)?,
        "mad" if kind.is_half() => return Err("`mad` is of f32 and f64; see `fma`".to_owned()),
        "mad" => fused(form, kind)?,
        "div" => divide(form, kind)?,
        "rcp" => root(form, kind, Function::Reciprocal, approx::Function::Reciprocal)?,
        "sqrt" => root(form, kind, Function::SquareRoot, approx::Function::SquareRoot)?,
        "neg" => sign(form, kind, Function::Negate),
        "abs" => sign(form, kind, Function::Absolute),
        "min" => extremum(form, kind, Extremum::Minimum)?,
        "max" => extremum(form, kind, Extremum::Maximum)?,
        mnemonic => approximate(form, kind, mnemonic)?,
    };
    form.finish()?;
    form.expect(arithmetic.function.sources() + 1)?;
    let own = operands(form, arithmetic, kind, ty)?;
    form.emit(Operation::Float(own));
    Ok(())
}

fn operands(
    form: &mut Form<'_, '_>,
    arithmetic: Arithmetic,
    kind: Kind,
    ty: DataType,
) -> Result<Float, Problem> {
    let sources = arithmetic.function.sources();
    for index in 1..=sources {
        check_literal(form.operand(index)?, kind)?;
    }
    if matches!(kind, Kind::Double | Kind::Packed) {
        let mut from = [Source64::Immediate(0); 3];
        for (index, own) in from.iter_mut().enumerate().take(sources) {
            *own = form.source64(index + 1, ty)?;
        }
        let (to, from) = (form.destination(0, ty)?, Box::new(from));
        return Ok(match kind {
            Kind::Packed => Float::Packed(arithmetic, to, from),
            _ => Float::Double(arithmetic, to, from),
        });
    }
    let mut from = [Source32::Immediate(0); 3];
    for (index, own) in from.iter_mut().enumerate().take(sources) {
        *own = form.source32(index + 1, ty)?;
    }
    let to = form.destination(0, ty)?;
    Ok(match kind {
        Kind::Half(shape) => Float::Half(arithmetic, Box::new(HalfOperands { shape, to, from })),
        Kind::Single | Kind::Packed | Kind::Double => Float::Single(arithmetic, to, from),
    })
}

/// A literal must be a floating-point number, and there are none of 16 bits, nor pairs.
fn check_literal(operand: &Operand, kind: Kind) -> Result<(), Problem> {
    match operand {
        Operand::Immediate(_) if kind.is_half() => {
            Err("there are no literals of 16-bit floating-point types".to_owned())
        }
        Operand::Immediate(_) if kind == Kind::Packed => {
            Err("there are no literals of two numbers".to_owned())
        }
        Operand::Immediate(Immediate::Signed(_) | Immediate::Unsigned(_)) => {
            Err("an integer literal where a floating-point one is wanted".to_owned())
        }
        _ => Ok(()),
    }
}

/// A rounding, of which 16-bit types have only `.rn`.
fn take_rounding(form: &mut Form<'_, '_>, kind: Kind) -> Option<Rounding> {
    form.take_one(if kind.is_half() { &ROUNDINGS[..1] } else { &ROUNDINGS })
}

fn required_rounding(form: &mut Form<'_, '_>, kind: Kind) -> Result<Rounding, Problem> {
    take_rounding(form, kind).ok_or_else(|| match kind {
        Kind::Half(_) => "the rounding `.rn` is missing".to_owned(),
        _ => "one of `.rn`, `.rz`, `.rm` and `.rp` is missing".to_owned(),
    })
}

/// `.ftz` and `.sat`, which f32 and f16 have; pairs of f32 have the first.
fn take_modifiers(form: &mut Form<'_, '_>, kind: Kind) -> Modifiers {
    if kind == Kind::Packed {
        return Modifiers { flush: form.take("ftz"), ..Modifiers::default() };
    }
    if kind != Kind::Single && !kind.is_f16() {
        return Modifiers::default();
    }
    Modifiers { flush: form.take("ftz"), saturate: form.take("sat"), relu: false }
}

fn sum(form: &mut Form<'_, '_>, kind: Kind, function: Function) -> Result<Arithmetic, Problem> {
    let rounding = take_rounding(form, kind).unwrap_or(Rounding::NearestEven);
    Ok(Arithmetic { function, rounding, modifiers: take_modifiers(form, kind) })
}

fn fused(form: &mut Form<'_, '_>, kind: Kind) -> Result<Arithmetic, Problem> {
    let rounding = required_rounding(form, kind)?;
    let mut modifiers = take_modifiers(form, kind);
    modifiers.relu = kind.is_half() && form.take("relu");
    if modifiers.relu && modifiers.saturate {
        return Err("`.sat` and `.relu` exclude each other".to_owned());
    }
    let mut function = Function::Fused;
    if kind.is_half() && form.take("oob") {
        if modifiers.flush {
            return Err("`.ftz` and `.oob` exclude each other".to_owned());
        }
        function = Function::FusedInside;
    }
    Ok(Arithmetic { function, rounding, modifiers })
}

fn no_half(kind: Kind) -> Result<(), Problem> {
    if kind.is_half() { Err("there is none of 16-bit types".to_owned()) } else { Ok(()) }
}

/// `.ftz` where only f32 has it.
fn take_flush(form: &mut Form<'_, '_>, kind: Kind) -> Modifiers {
    Modifiers { flush: kind == Kind::Single && form.take("ftz"), ..Modifiers::default() }
}

fn divide(form: &mut Form<'_, '_>, kind: Kind) -> Result<Arithmetic, Problem> {
    no_half(kind)?;
    let approximate = [("approx", Function::DivideApproximate), ("full", Function::DivideFull)];
    let approximate = if kind == Kind::Single { form.take_one(&approximate) } else { None };
    let (function, rounding) = match approximate {
        Some(function) => (function, Rounding::NearestEven),
        None => (Function::Divide, required_rounding(form, kind)?),
    };
    Ok(Arithmetic { function, rounding, modifiers: take_flush(form, kind) })
}

/// `rcp` and `sqrt`.
fn root(
    form: &mut Form<'_, '_>,
    kind: Kind,
    exact: Function,
    approximate: approx::Function,
) -> Result<Arithmetic, Problem> {
    no_half(kind)?;
    let is_reciprocal = exact == Function::Reciprocal;
    if form.has("approx") && (kind == Kind::Single || is_reciprocal) {
        form.take("approx");
        let flush = form.take("ftz");
        if kind == Kind::Double && !flush {
            return Err("`.approx` of f64 needs `.ftz`".to_owned());
        }
        let function = Function::Approximate(approximate);
        let modifiers = Modifiers { flush, ..Modifiers::default() };
        return Ok(Arithmetic { function, rounding: Rounding::NearestEven, modifiers });
    }
    let rounding = required_rounding(form, kind)?;
    Ok(Arithmetic { function: exact, rounding, modifiers: take_flush(form, kind) })
}

/// `neg` and `abs`.
fn sign(form: &mut Form<'_, '_>, kind: Kind, function: Function) -> Arithmetic {
    let flush = (kind == Kind::Single || kind.is_f16()) && form.take("ftz");
    let modifiers = Modifiers { flush, ..Modifiers::default() };
    Arithmetic { function, rounding: Rounding::NearestEven, modifiers }
}

fn extremum(
    form: &mut Form<'_, '_>,
    kind: Kind,
    extremum: Extremum,
) -> Result<Arithmetic, Problem> {
    let mut own = MinMaxModifiers::default();
    if kind != Kind::Double {
        own.flush = !kind.is_bf16() && form.take("ftz");
        own.propagate_nan = form.take("NaN");
        own.xor_sign = form.take("xorsign");
        if own.xor_sign && !form.take("abs") {
            return Err("`.xorsign` goes with `.abs`".to_owned());
        }
    }
    if form.count() == 4 {
        return Err(match form.generation() {
            ..100 => "three sources need an architecture from sm_100 on",
            _ => "three sources are not emulated",
        }
        .to_owned());
    }
    let modifiers = Modifiers { flush: own.flush, ..Modifiers::default() };
    let function = Function::Extremum(extremum, own);
    Ok(Arithmetic { function, rounding: Rounding::NearestEven, modifiers })
}

/// Instructions that exist only as approximations.
fn approximate(form: &mut Form<'_, '_>, kind: Kind, mnemonic: &str) -> Result<Arithmetic, Problem> {
    let function = match (mnemonic, kind) {
        ("rsqrt", Kind::Single | Kind::Double) => approx::Function::ReciprocalSquareRoot,
        ("sin", Kind::Single) => approx::Function::Sine,
        ("cos", Kind::Single) => approx::Function::Cosine,
        ("lg2", Kind::Single) => approx::Function::Log2,
        ("ex2", Kind::Single | Kind::Half(_)) => approx::Function::Exp2,
        ("tanh", Kind::Single | Kind::Half(_)) => approx::Function::HyperbolicTangent,
        _ => return Err(format!("there is no `{mnemonic}` of this type")),
    };
    if !form.take("approx") {
        return Err("`.approx` is missing".to_owned());
    }
    // `ex2` of bf16 always flushes; f16 and `tanh` have no `.ftz`.
    let flush = mnemonic != "tanh" && !kind.is_f16() && form.take("ftz");
    if mnemonic == "ex2" && kind.is_bf16() && !flush {
        return Err("`ex2` of bf16 needs `.ftz`".to_owned());
    }
    Ok(Arithmetic {
        function: Function::Approximate(function),
        rounding: Rounding::NearestEven,
        modifiers: Modifiers { flush, ..Modifiers::default() },
    })
}
