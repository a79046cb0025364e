//! From the text of a `wgmma` to an operation.

use std::sync::Arc;

use super::{Multiply, Operation, SourceA};
use crate::arch::Arch;
use crate::matrix::wgmma::{Wgmma, WgmmaForm};
use crate::matrix::{AccumulatorType, ElementType};
use crate::module::Operand;
use crate::ops::Operation as AnyOperation;
use crate::program::operand::{Destination, Source32};
use crate::program::types::DataType;
use crate::program::{Form, Problem};

/// Lowers `wgmma`.
pub(crate) fn lower(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    // Neither a plain target nor a later architecture has it.
    if !form.is_for(Arch::Sm90a) {
        return Err("`wgmma` is for the target sm_90a".to_owned());
    }
    if form.take("mma_async") {
        return lower_multiply(form);
    }
    let action = form.take_one(&[("fence", 0), ("commit_group", 1), ("wait_group", 2)]);
    take_aligned(form)?;
    form.finish()?;
    let operation = match action {
        Some(0) => Operation::Fence,
        Some(1) => Operation::Commit,
        Some(_) => {
            form.expect(1)?;
            let count = form.constant(0)?;
            Operation::Wait(u64::try_from(count).map_err(|_| "a negative number of groups")?)
        }
        None => return Err("an action is missing".to_owned()),
    };
    if !matches!(operation, Operation::Wait(_)) {
        form.expect(0)?;
    }
    form.emit(AnyOperation::Wgmma(Box::new(operation)));
    Ok(())
}

/// Takes `.sync.aligned`, which every matrix instruction must have.
pub(in crate::ops) fn take_aligned(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    if form.take("sync") && form.take("aligned") {
        return Ok(());
    }
    Err("`.sync.aligned` is missing".to_owned())
}

/// Takes a shape such as `.m64n256k16`.
pub(in crate::ops) fn take_shape(form: &mut Form<'_, '_>) -> Result<(u32, u32, u32), Problem> {
    form.take_with(shape).ok_or_else(|| "a shape is missing".to_owned())
}

fn shape(word: &str) -> Option<(u32, u32, u32)> {
    let (m, rest) = word.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some((m.parse().ok()?, n.parse().ok()?, k.parse().ok()?))
}

/// The type of elements of A or B.
pub(in crate::ops) fn element(ty: DataType) -> Result<ElementType, Problem> {
    Ok(match ty {
        DataType::Bf16 => ElementType::Bf16,
        DataType::F16 => ElementType::F16,
        DataType::Tf32 => ElementType::Tf32,
        DataType::E4m3 => ElementType::E4m3,
        DataType::E5m2 => ElementType::E5m2,
        DataType::S8 => ElementType::S8,
        DataType::U8 => ElementType::U8,
        DataType::B1 => ElementType::B1,
        _ => return Err(format!("{ty:?} is no type of matrix elements")),
    })
}

/// The type of an accumulator.
pub(in crate::ops) fn accumulator(ty: DataType) -> Result<AccumulatorType, Problem> {
    Ok(match ty {
        DataType::F32 => AccumulatorType::F32,
        DataType::F16 => AccumulatorType::F16,
        DataType::S32 => AccumulatorType::S32,
        _ => return Err(format!("{ty:?} is no type of an accumulator")),
    })
}

fn lower_multiply(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    take_aligned(form)?;
    let shape = take_shape(form)?;
    let saturate = form.take("satfinite");
    let sum = form.take_type()?;
    let d = accumulator(sum)?;
    let a = element(form.take_type()?)?;
    let b = element(form.take_type()?)?;
    if a == ElementType::B1 && !(form.take("and") && form.take("popc")) {
        return Err("single bits are combined by `.and.popc`".to_owned());
    }
    form.finish()?;
    let a_in_registers = matches!(form.operand(1)?, Operand::Vector(_));
    let halves = matches!(a, ElementType::Bf16 | ElementType::F16);
    form.expect(match (halves, a.is_integer()) {
        (true, _) if a_in_registers => 7,
        (true, _) => 8,
        (_, true) => 4,
        _ => 6,
    })?;
    let negate = |index: usize| -> Result<bool, Problem> {
        match form.constant(index)? {
            1 => Ok(false),
            -1 => Ok(true),
            other => Err(format!("operand {}: a scale of {other}; 1 or -1", index + 1)),
        }
    };
    let transpose = |index: usize| -> Result<bool, Problem> {
        match form.constant(index)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(format!("operand {}: {other}; 0 or 1", index + 1)),
        }
    };
    let signed = !a.is_integer();
    let wgmma = Wgmma::new(WgmmaForm {
        shape,
        a,
        b,
        d,
        a_in_registers,
        negate_a: signed && negate(4)?,
        negate_b: signed && negate(5)?,
        transpose_a: halves && !a_in_registers && transpose(6)?,
        transpose_b: halves && transpose(if a_in_registers { 6 } else { 7 })?,
        saturate,
    })
    .map_err(|error| error.to_string())?;
    // Halves are packed two by two.
    let in_register = if sum == DataType::F16 { DataType::F16x2 } else { sum };
    let accumulators = lower_accumulators(form, &wgmma, in_register)?;
    let a = if a_in_registers {
        lower_fragment(form, &accumulators)?
    } else {
        SourceA::Shared(form.source64(1, DataType::B64)?)
    };
    let b = form.source64(2, DataType::B64)?;
    let scale = form.predicate(3)?;
    let multiply = Multiply { wgmma, accumulators, a, b, scale };
    form.emit(AnyOperation::Wgmma(Box::new(Operation::Multiply(Arc::new(multiply)))));
    Ok(())
}

fn lower_accumulators(
    form: &mut Form<'_, '_>,
    wgmma: &Wgmma,
    ty: DataType,
) -> Result<Box<[u32]>, Problem> {
    let elements = form.elements(0)?;
    let wanted = wgmma.accumulator_registers();
    if elements.len() != wanted {
        return Err(format!("D has {wanted} registers here, not {}", elements.len()));
    }
    let mut rows = Vec::with_capacity(wanted);
    for own in elements {
        let Destination(Some(row)) = form.destination_of(own, ty)? else {
            return Err("`_` cannot be an accumulator".to_owned());
        };
        form.lowering().own(row);
        rows.push(row);
    }
    let mut sorted = rows.clone();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err("a register is named twice in D".to_owned());
    }
    Ok(rows.into())
}

fn lower_fragment(form: &mut Form<'_, '_>, accumulators: &[u32]) -> Result<SourceA, Problem> {
    let elements = form.elements(1)?;
    let mut rows = [0; 4];
    if elements.len() != rows.len() {
        return Err(format!("A has 4 registers, not {}", elements.len()));
    }
    for (row, own) in rows.iter_mut().zip(elements) {
        let Source32::Register(register) = form.source32_of(own, DataType::B32)? else {
            return Err("A must be in registers".to_owned());
        };
        if accumulators.contains(&register) {
            return Err("a register is named in A and in D".to_owned());
        }
        form.lowering().own(register);
        *row = register;
    }
    Ok(SourceA::Registers(rows))
}
