//! From the text of `tcgen05` instructions to operations.

use std::sync::Arc;

use super::allocate::{Allocate, Free, check_columns};
use super::commit::Commit;
use super::copy::{Copy, Expansion, Rows};
use super::shape::{Layout, Shape};
use super::shift::Shift;
use super::transfer::{Registers, Transfer};
use super::warp::Direction;
use super::{Group, Operation};
use crate::arch::Arch;
use crate::module::{Operand, StateSpace};
use crate::ops::Operation as AnyOperation;
use crate::ops::access::Space;
use crate::ops::wgmma::take_aligned;
use crate::program::operand::{Address, AddressBase, Destination, Source32};
use crate::program::types::DataType;
use crate::program::{Form, Problem};

/// The most registers that a transfer has.
const MOST_REGISTERS: usize = 128;

/// Lowers `tcgen05`.
pub(crate) fn lower(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    if !form.has_tensor_memory() {
        return Err("tensor memory is for targets such as sm_100a".to_owned());
    }
    let operation = if form.take("alloc") {
        lower_allocate(form)?
    } else if form.take("dealloc") {
        lower_free(form)?
    } else if form.take("relinquish_alloc_permit") {
        let group = take_group(form)?;
        take_aligned(form)?;
        expect(form, 0)?;
        Operation::Relinquish(group)
    } else if form.take("ld") {
        lower_transfer(form, Direction::Load)?
    } else if form.take("st") {
        lower_transfer(form, Direction::Store)?
    } else if let Some(direction) =
        form.take_one(&[("wait::ld", Direction::Load), ("wait::st", Direction::Store)])
    {
        take_aligned(form)?;
        expect(form, 0)?;
        Operation::Wait(direction)
    } else if form.take("fence::before_thread_sync") {
        expect(form, 0)?;
        Operation::FenceBefore
    } else if form.take("fence::after_thread_sync") {
        expect(form, 0)?;
        Operation::FenceAfter
    } else if form.take("commit") {
        lower_commit(form)?
    } else if form.take("cp") {
        lower_copy(form)?
    } else if form.take("mma") {
        super::multiply::lower(form)?
    } else if form.take("shift") {
        lower_shift(form)?
    } else {
        return Err("this tcgen05 instruction is not supported".to_owned());
    };
    form.emit(AnyOperation::Tensor(Box::new(operation)));
    Ok(())
}

fn expect(form: &Form<'_, '_>, count: usize) -> Result<(), Problem> {
    form.finish()?;
    form.expect(count)
}

/// Takes `.cta_group::1` or `.cta_group::2`, which every instruction issued by one thread or for
/// a pair of blocks must have.
pub(super) fn take_group(form: &mut Form<'_, '_>) -> Result<Group, Problem> {
    let groups = [("cta_group::1", Group::One), ("cta_group::2", Group::Two)];
    form.take_one(&groups).ok_or_else(|| "`.cta_group::1` or `::2` is missing".to_owned())
}

fn take_type(form: &mut Form<'_, '_>, word: &str) -> Result<(), Problem> {
    if form.take(word) { Ok(()) } else { Err(format!("`.{word}` is missing")) }
}

/// Operand `index` as an address in tensor memory: a register of 32 bits.
pub(super) fn tensor_address(form: &mut Form<'_, '_>, index: usize) -> Result<Address, Problem> {
    let address = form.address(index, Some(StateSpace::Shared))?;
    match address.base {
        AddressBase::Word(_) => Ok(address),
        _ => Err("an address in tensor memory is a register of 32 bits".to_owned()),
    }
}

fn lower_allocate(form: &mut Form<'_, '_>) -> Result<Operation, Problem> {
    let group = take_group(form)?;
    take_aligned(form)?;
    let shared = form.take_one(&[("shared::cta", Space::Shared), ("shared", Space::Shared)]);
    let space = shared.unwrap_or(Space::Generic);
    take_type(form, "b32")?;
    expect(form, 2)?;
    let to = space.address(form, 0)?;
    crate::ops::access::check_address(space, to)?;
    let columns = columns(form)?;
    Ok(Operation::Allocate(Allocate { group, space, to, columns }))
}

/// The second operand as a number of columns; one that is known is checked.
fn columns(form: &mut Form<'_, '_>) -> Result<Source32, Problem> {
    let columns = form.source32(1, DataType::U32)?;
    match columns {
        Source32::Immediate(count) => check_columns(count).map(|_| columns),
        Source32::Register(_) => Ok(columns),
    }
}

fn lower_free(form: &mut Form<'_, '_>) -> Result<Operation, Problem> {
    let group = take_group(form)?;
    take_aligned(form)?;
    take_type(form, "b32")?;
    expect(form, 2)?;
    let address = form.source32(0, DataType::B32)?;
    let columns = columns(form)?;
    Ok(Operation::Free(Free { group, address, columns }))
}

/// `x1` to `x128`.
fn repetitions(word: &str) -> Option<u32> {
    let count: u32 = word.strip_prefix('x')?.parse().ok()?;
    (count.is_power_of_two() && count <= 128 && !word.starts_with("x0")).then_some(count)
}

fn lower_transfer(form: &mut Form<'_, '_>, direction: Direction) -> Result<Operation, Problem> {
    take_aligned(form)?;
    let shapes = [
        ("32x32b", Shape::Lanes32),
        ("16x64b", Shape::Bits64),
        ("16x128b", Shape::Bits128),
        ("16x256b", Shape::Bits256),
        ("16x32bx2", Shape::Split(0)),
    ];
    let shape = form.take_one(&shapes).ok_or("a shape is missing")?;
    let repetitions =
        form.take_with(repetitions).ok_or("a repetition `.x1` to `.x128` is missing")?;
    let (packing, address, data) = match direction {
        Direction::Load => ("pack::16b", 1, 0),
        Direction::Store => ("unpack::16b", 0, usize::from(matches!(shape, Shape::Split(_))) + 1),
    };
    let packed = form.take(packing);
    take_type(form, "b32")?;
    let is_split = matches!(shape, Shape::Split(_));
    expect(form, 2 + usize::from(is_split))?;
    let shape = match shape {
        Shape::Split(_) => {
            let further = form.constant(if direction == Direction::Load { 2 } else { 1 })?;
            let further = u32::try_from(further).map_err(|_| "a negative offset of columns")?;
            Shape::Split(further)
        }
        shape => shape,
    };
    let layout = Layout { shape, repetitions, packed };
    let count = layout.registers();
    if count > MOST_REGISTERS {
        return Err(format!("this shape has at most {MOST_REGISTERS} registers, not {count}"));
    }
    if !matches!(form.operand(data)?, Operand::Vector(_)) {
        return Err("the registers stand in braces".to_owned());
    }
    let elements = form.elements(data)?;
    if elements.len() != count {
        return Err(format!("{count} registers are wanted here, not {}", elements.len()));
    }
    let registers = match direction {
        Direction::Load => Registers::To(destinations(form, elements)?.into()),
        Direction::Store => {
            let sources = elements.iter().map(|own| form.source32_of(own, DataType::B32));
            Registers::From(sources.collect::<Result<_, _>>()?)
        }
    };
    let address = tensor_address(form, address)?;
    Ok(Operation::Transfer(Arc::new(Transfer { layout, address, registers })))
}

/// The rows of loaded registers, which belong to the load until it is waited for.
fn destinations(form: &mut Form<'_, '_>, elements: &[Operand]) -> Result<Vec<u32>, Problem> {
    let mut rows = Vec::with_capacity(elements.len());
    for own in elements {
        let Destination(Some(row)) = form.destination_of(own, DataType::B32)? else {
            return Err("`_` cannot be loaded".to_owned());
        };
        form.lowering().own(row);
        rows.push(row);
    }
    let mut sorted = rows.clone();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err("a register is loaded twice".to_owned());
    }
    Ok(rows)
}

fn lower_commit(form: &mut Form<'_, '_>) -> Result<Operation, Problem> {
    let group = take_group(form)?;
    if !form.take("mbarrier::arrive::one") {
        return Err("`.mbarrier::arrive::one` is missing".to_owned());
    }
    let is_cluster = form.take("shared::cluster");
    let is_multicast = form.take("multicast::cluster");
    take_type(form, "b64")?;
    expect(form, 1 + usize::from(is_multicast))?;
    let space = if is_cluster { Space::SharedCluster } else { Space::Generic };
    let barrier = space.address(form, 0)?;
    crate::ops::access::check_address(space, barrier)?;
    let ranks = match is_multicast {
        true => Some(form.source32(1, DataType::B16)?),
        false => None,
    };
    Ok(Operation::Commit(Commit { group, space, barrier, ranks }))
}

fn lower_shift(form: &mut Form<'_, '_>) -> Result<Operation, Problem> {
    if !form.is_for(Arch::Sm100a) {
        return Err("`tcgen05.shift` needs the target sm_100a".to_owned());
    }
    let group = take_group(form)?;
    if !form.take("down") {
        return Err("`.down` is missing".to_owned());
    }
    expect(form, 1)?;
    let address = tensor_address(form, 0)?;
    Ok(Operation::Shift(Shift { group, address }))
}

fn lower_copy(form: &mut Form<'_, '_>) -> Result<Operation, Problem> {
    let group = take_group(form)?;
    let shapes = [
        ("128x256b", (Some(Rows::All), 2)),
        ("128x128b", (Some(Rows::All), 1)),
        ("4x256b", (Some(Rows::Four), 2)),
        ("64x128b", (None, 1)),
        ("32x128b", (Some(Rows::Everywhere), 1)),
    ];
    let (rows, chunks) = form.take_one(&shapes).ok_or("a shape is missing")?;
    let rows = match rows {
        Some(Rows::Everywhere) if !form.take("warpx4") => {
            return Err("`.32x128b` takes `.warpx4`".to_owned());
        }
        Some(rows) => rows,
        None => {
            let halves = [("warpx2::02_13", Rows::Halves), ("warpx2::01_23", Rows::Quarters)];
            form.take_one(&halves).ok_or("`.64x128b` takes `.warpx2::02_13` or `::01_23`")?
        }
    };
    let expansion = match form.take("b8x16") {
        false => Expansion::None,
        true => {
            let formats = [("b4x16_p64", Expansion::FourBits), ("b6x16_p32", Expansion::SixBits)];
            form.take_one(&formats).ok_or("the format of the source is missing")?
        }
    };
    expect(form, 2)?;
    let to = tensor_address(form, 0)?;
    let from = form.source64(1, DataType::B64)?;
    Ok(Operation::Copy(Copy { group, rows, chunks, expansion, to, from }))
}
