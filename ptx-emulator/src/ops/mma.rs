//! `mma.sync`: products of a warp's registers (PTX ISA 9.7.14.5).

use super::tiles::gather;
use super::wgmma::{accumulator, element, take_aligned, take_shape};
use crate::execute::registers::{Doubles, Words};
use crate::execute::report::Fault;
use crate::execute::{Context, Flow, Outcome};
use crate::matrix::fp8::Fp8Accumulation;
use crate::matrix::mma::{Mma, multiply_doubles};
use crate::matrix::narrow::{Narrow, NarrowType};
use crate::module::Operand;
use crate::ops::Operation;
use crate::program::operand::{Destination, Source32, Source64};
use crate::program::types::DataType;
use crate::program::{Form, Problem};

/// A product of a warp.
#[derive(Clone, Debug)]
pub(crate) struct Product {
    operands: Operands,
    /// Multiplications with an addition of the warp.
    multiply_adds: u64,
}

#[derive(Clone, Debug)]
enum Operands {
    Full(Mma, Fragments<Source32>),
    Narrow(Narrow, Fragments<Source32>),
    Doubles(Fragments<Source64>),
}

/// The registers of the four operands.
#[derive(Clone, Debug)]
struct Fragments<S> {
    d: Box<[Destination]>,
    a: Box<[S]>,
    b: Box<[S]>,
    c: Box<[S]>,
}

/// Lowers `mma`.
pub(crate) fn lower(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    take_aligned(form)?;
    let shape = take_shape(form)?;
    if !form.is_before("row", "col") || !form.take("row") || !form.take("col") {
        return Err("only A by rows with B by columns is supported".to_owned());
    }
    let saturate = form.take("satfinite");
    // All roundings but this one are refused: the products are not rounded by themselves.
    let nearest = form.take("rn");
    let mut narrow = [None; 2];
    let d = form.take_type()?;
    let mut types = [d; 2];
    for (ty, narrow) in types.iter_mut().zip(&mut narrow) {
        *narrow = form.take_one(&[("s4", NarrowType::S4), ("u4", NarrowType::U4)]);
        if narrow.is_none() {
            *ty = form.take_type()?;
        }
    }
    let c = form.take_type()?;
    if c != d {
        let (c, d) = (c.word(), d.word());
        return Err(format!("C must have the type of D, which is `.{d}`, not `.{c}`"));
    }
    if types[0] == DataType::B1 {
        let and = form.take("and");
        if !and && !form.take("xor") || !form.take("popc") {
            return Err("single bits are combined by `.and.popc` or `.xor.popc`".to_owned());
        }
        narrow[0] = Some(if and { NarrowType::And } else { NarrowType::Xor });
        if types[1] == DataType::B1 {
            narrow[1] = narrow[0];
        }
    }
    form.finish()?;
    form.expect(4)?;
    if nearest && d != DataType::F64 {
        return Err(format!("`.rn` is for sums of `.f64`, not of `.{}`", d.word()));
    }
    let (m, n, k) = shape;
    let small = (m, n, k) == (8, 8, 16) && d == DataType::S32;
    let operands = match (d, narrow) {
        (DataType::F64, _) => lower_doubles(form, shape, types, saturate)?,
        (DataType::S32, [None, None]) if small => {
            let eight = |ty| match ty {
                DataType::S8 => Ok(NarrowType::S8),
                DataType::U8 => Ok(NarrowType::U8),
                _ => Err(format!("m8n8k16 takes `.s8` and `.u8`, not `.{}`", ty.word())),
            };
            lower_narrow(form, shape, [eight(types[0])?, eight(types[1])?], saturate)?
        }
        (DataType::S32, [Some(a), Some(b)]) => lower_narrow(form, shape, [a, b], saturate)?,
        (_, [None, None]) => {
            let (a, b) = (element(types[0])?, element(types[1])?);
            let mma = Mma::new(shape, a, b, accumulator(d)?, saturate);
            let mma = mma.map_err(|error| error.to_string())?;
            let counts = [mma.accumulator_registers(), mma.a_registers(), mma.b_registers()];
            Operands::Full(mma, fragments(form, counts, d, types)?)
        }
        _ => {
            let [a, b] =
                [0, 1].map(|side| narrow[side].map_or(types[side].word(), NarrowType::word));
            return Err(format!(
                "A of `.{a}` and B of `.{b}` with sums of `.{}`: `.s4` and `.u4` take each other, \
                 `.b1` takes `.b1`, and their sums are of `.s32`",
                d.word()
            ));
        }
    };
    let multiply_adds = u64::from(m) * u64::from(n) * u64::from(k);
    form.emit(Operation::Mma(Box::new(Product { operands, multiply_adds })));
    Ok(())
}

fn lower_narrow(
    form: &mut Form<'_, '_>,
    shape: (u32, u32, u32),
    types: [NarrowType; 2],
    saturate: bool,
) -> Result<Operands, Problem> {
    let narrow = Narrow::new(shape, types, saturate).map_err(|error| error.to_string())?;
    let counts = narrow.registers();
    Ok(Operands::Narrow(narrow, fragments(form, counts, DataType::S32, [DataType::U32; 2])?))
}

fn lower_doubles(
    form: &mut Form<'_, '_>,
    shape: (u32, u32, u32),
    types: [DataType; 2],
    saturate: bool,
) -> Result<Operands, Problem> {
    let [d, a, b] = match shape {
        (8, 8, 4) => [2, 1, 1],
        (16, 8, 4) => [4, 2, 1],
        (16, 8, 8) => [4, 4, 2],
        (16, 8, 16) => [4, 8, 4],
        (m, n, k) => {
            return Err(format!(
                "m{m}n{n}k{k} of `.f64`; m8n8k4, m16n8k4, m16n8k8 and m16n8k16 are possible"
            ));
        }
    };
    if types != [DataType::F64; 2] {
        let [a, b] = types.map(DataType::word);
        return Err(format!("sums of `.f64` take A and B of `.f64`, not of `.{a}` and `.{b}`"));
    }
    if saturate {
        return Err("`.satfinite` is for sums of `.s32`, not of `.f64`".to_owned());
    }
    let source = |form: &mut Form<'_, '_>, index: usize, count: usize| {
        let elements = counted(form, index, count)?;
        let sources = elements.iter().map(|own| form.source64_of(own, DataType::F64));
        sources.collect::<Result<_, Problem>>()
    };
    let fragments = Fragments {
        a: source(form, 1, a)?,
        b: source(form, 2, b)?,
        c: source(form, 3, d)?,
        d: destinations(form, d, DataType::F64)?,
    };
    Ok(Operands::Doubles(fragments))
}

fn fragments(
    form: &mut Form<'_, '_>,
    [d, a, b]: [usize; 3],
    sum: DataType,
    types: [DataType; 2],
) -> Result<Fragments<Source32>, Problem> {
    let source = |form: &mut Form<'_, '_>, index: usize, count: usize, ty: DataType| {
        let elements = counted(form, index, count)?;
        let sources = elements.iter().map(|own| form.source32_of(own, ty));
        sources.collect::<Result<_, Problem>>()
    };
    let sum = in_register(sum);
    Ok(Fragments {
        a: source(form, 1, a, in_register(types[0]))?,
        b: source(form, 2, b, in_register(types[1]))?,
        c: source(form, 3, d, sum)?,
        d: destinations(form, d, sum)?,
    })
}

/// The type of a register that holds as many elements as fit.
fn in_register(ty: DataType) -> DataType {
    match ty {
        DataType::F16 => DataType::F16x2,
        DataType::Bf16 => DataType::Bf16x2,
        DataType::S8 | DataType::U8 => DataType::U32,
        DataType::F32 | DataType::S32 | DataType::Tf32 => ty,
        // Only untyped registers hold the others.
        _ => DataType::Bf16x2,
    }
}

fn destinations(
    form: &mut Form<'_, '_>,
    count: usize,
    ty: DataType,
) -> Result<Box<[Destination]>, Problem> {
    let elements = counted(form, 0, count)?;
    elements.iter().map(|own| form.destination_of(own, ty)).collect()
}

/// The registers of an operand, which must be so many.
fn counted<'f>(form: &Form<'f, '_>, index: usize, count: usize) -> Result<&'f [Operand], Problem> {
    let elements = form.elements(index)?;
    if elements.len() == count {
        return Ok(elements);
    }
    Err(format!("operand {} has {count} registers, not {}", index + 1, elements.len()))
}

/// Executes a product.
pub(crate) fn execute(own: &Product, context: &mut Context<'_>) -> Outcome<Flow> {
    if let Some(flow) = gather(context)? {
        return Ok(flow);
    }
    context.grid.statistics.multiply_adds += own.multiply_adds;
    // The short accumulators are those of `wgmma`: an H200 sums FP8 here like the other types.
    let fp8 = Fp8Accumulation::Exact;
    let registers = &mut context.frame.registers;
    let result = match &own.operands {
        Operands::Full(mma, fragments) => {
            let words = |sources: &[Source32], to: &mut [Words; 4]| {
                for (to, source) in to.iter_mut().zip(sources) {
                    *to = registers.words(*source);
                }
            };
            let [mut a, mut b, mut d] = [[[0; 32]; 4]; 3];
            words(&fragments.a, &mut a);
            words(&fragments.b, &mut b);
            words(&fragments.c, &mut d);
            let count = fragments.d.len().min(d.len());
            let result = mma.execute(
                &a[..fragments.a.len().min(4)],
                &b[..fragments.b.len().min(4)],
                &mut d[..count],
                fp8,
            );
            for (to, values) in fragments.d.iter().zip(&d) {
                registers.set_words(*to, u32::MAX, values);
            }
            result
        }
        Operands::Narrow(narrow, fragments) => {
            let words = |sources: &[Source32]| -> Vec<Words> {
                sources.iter().map(|source| registers.words(*source)).collect()
            };
            let (a, b) = (words(&fragments.a), words(&fragments.b));
            let mut d = words(&fragments.c);
            let result = narrow.execute(&a, &b, &mut d);
            for (to, values) in fragments.d.iter().zip(&d) {
                registers.set_words(*to, u32::MAX, values);
            }
            result
        }
        Operands::Doubles(fragments) => {
            let doubles = |sources: &[Source64]| -> Vec<Doubles> {
                sources.iter().map(|source| registers.doubles(*source)).collect()
            };
            let (a, b) = (doubles(&fragments.a), doubles(&fragments.b));
            let mut d = doubles(&fragments.c);
            let result = multiply_doubles(&a, &b, &mut d);
            for (to, values) in fragments.d.iter().zip(&d) {
                registers.set_doubles(*to, u32::MAX, values);
            }
            result
        }
    };
    result.map_err(|error| Fault::operand(error.to_string()))?;
    Ok(Flow::Next)
}
