//! `ld` and `st`.

mod modifiers;
pub(crate) mod parameters;

use super::access::{
    Access, Effect, Space, addresses, check_address, visit, visit_kernel_parameters,
};
use crate::execute::registers::{Doubles, lanes};
use crate::execute::{Context, Outcome};
use crate::module::{Base, Operand, Reference};
use crate::ops::Operation;
use crate::program::operand::{Address, AddressBase, Any, Wide};
use crate::program::types::DataType;
use crate::program::{Form, Problem};
use crate::race::{Modification, Strength};

/// A load or a store.
#[derive(Clone, Debug)]
pub(crate) enum Memory {
    Load(Box<Load>),
    Store(Box<Store>),
}

/// What a load or store orders ("Memory Consistency Model" in the PTX manual).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Weak,
    /// Also `.volatile`, which is relaxed at system scope.
    Relaxed,
    Acquire,
    Release,
}

#[derive(Clone, Debug)]
pub(crate) struct Load {
    access: Access,
    order: Order,
    /// Whether the memory must not change while the kernel runs.
    unchanging: bool,
    element: DataType,
    /// Registers, and the bits that they have.
    to: Box<[(Wide, u64)]>,
    from: Address,
}

#[derive(Clone, Debug)]
pub(crate) struct Store {
    access: Access,
    order: Order,
    element: DataType,
    to: Address,
    from: Box<[Any]>,
}

/// What the lanes move in one instruction, each at the front of its place. Places are as narrow as
/// the instruction allows: most of them move a word.
type Moved<const WIDEST: usize> = [[u8; WIDEST]; 32];

/// Lowers `ld` and `st`.
pub(crate) fn lower(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    let is_store = form.mnemonic() == "st";
    if is_store && form.has("const") {
        return Err("constant memory cannot be written".to_owned());
    }
    let order = modifiers::take_order(form)?;
    let (place, value) = if is_store { (0, 1) } else { (1, 0) };
    if ["param", "param::entry", "param::func"].iter().any(|word| form.has(word)) {
        modifiers::check_parameter(form, place)?;
    }
    let space = Space::take(form);
    // In a device function the address of a parameter is that of its copy in local memory.
    let of_copy = space == Space::Parameter
        && !form.lowering().is_entry()
        && matches!(form.bracket(place)?.base, Base::Name(Reference::Register(_)));
    let space = if of_copy { Space::Local } else { space };
    modifiers::check(form, space, order)?;
    // The cache that these go through may hold what was there before the kernel.
    let unchanging = form.has("nc") || form.mnemonic() == "ldu";
    let policy = form.take_cache_hints();
    let length = form.take_one(&[("v2", 2), ("v4", 4), ("v8", 8)]).unwrap_or(1);
    let element = form.take_type()?;
    form.finish()?;
    form.expect(2 + policy)?;
    modifiers::check_width(form, element, length)?;
    let bytes = element.bytes() * length;
    let name = if is_store { "store" } else { "load" };
    let access = Access { space, name, bytes, alignment: bytes };
    let address = space.address(form, place)?;
    check_address(space, address)?;
    let elements = form.vector(value)?;
    if elements.len() != length as usize {
        return Err(format!("a vector of {length} elements is wanted"));
    }
    let operation = if is_store {
        let from =
            elements.iter().map(|own| form.any_of(own, element)).collect::<Result<_, Problem>>()?;
        Memory::Store(Box::new(Store { access, order, element, to: address, from }))
    } else {
        let to = elements
            .iter()
            .map(|own| Ok((form.wide_of(own, element)?, kept_bits(form, own))))
            .collect::<Result<_, Problem>>()?;
        Memory::Load(Box::new(Load { access, order, unchanging, element, to, from: address }))
    };
    form.emit(Operation::Memory(operation));
    Ok(())
}

/// Takes a scope.
pub(crate) fn take_scope(form: &mut Form<'_, '_>) -> Option<&'static str> {
    form.take_one(&[("cta", "cta"), ("cluster", "cluster"), ("gpu", "gpu"), ("sys", "sys")])
}

/// Executes a load or a store.
pub(crate) fn execute(memory: &Memory, context: &mut Context<'_>) -> Outcome {
    match memory {
        Memory::Load(load) => match load.access.bytes {
            ..=4 => execute_load::<4>(load, context),
            5..=16 => execute_load::<16>(load, context),
            _ => execute_load::<32>(load, context),
        },
        Memory::Store(store) => match store.access.bytes {
            ..=4 => execute_store::<4>(store, context),
            5..=16 => execute_store::<16>(store, context),
            _ => execute_store::<32>(store, context),
        },
    }
}

fn strength(order: Order) -> Strength {
    if order == Order::Weak { Strength::Weak } else { Strength::Strong }
}

fn execute_load<const WIDEST: usize>(load: &Load, context: &mut Context<'_>) -> Outcome {
    let addresses = addresses(load.from, context);
    let mask = context.mask;
    let mut data: Moved<WIDEST> = [[0; WIDEST]; 32];
    let (order, warp) = (load.order, context.warp.id);
    let strength = if load.unchanging { Strength::Unchanging } else { strength(order) };
    let mut act = |region: &mut super::access::Region<'_>| {
        region.note(Effect::Read, strength)?;
        region.read(&mut data);
        if order != Order::Weak {
            for lane in lanes(region.mask) {
                let key = region.key + region.offsets[lane];
                match order {
                    Order::Acquire => region.races.acquire_at(key, warp, 1 << lane),
                    _ => region.races.relaxed_read_at(key, warp, 1 << lane),
                }
            }
        }
        Ok(())
    };
    // A kernel's parameters are named by address; those of functions and calls by their place.
    let of_kernel = load.access.space == Space::Parameter
        && !matches!(load.from.base, AddressBase::Parameter(_));
    if of_kernel {
        visit_kernel_parameters(context, load.access, &addresses, mask, &mut act)?;
    } else {
        visit(context, load.access, &addresses, mask, &mut act)?;
    }
    let bytes = load.element.bytes() as usize;
    for (element, (to, kept)) in load.to.iter().enumerate() {
        let start = element * bytes;
        if bytes == 16 {
            let Wide::Quad(to) = to else { continue };
            let values = data.map(|own| {
                let mut value = [0; 16];
                value.copy_from_slice(&own[start..start + 16]);
                u128::from_le_bytes(value)
            });
            context.frame.registers.set_quads(*to, mask, &values);
            continue;
        }
        if bytes == 4
            && !load.element.is_signed()
            && let Wide::Word(to) = to
        {
            let values = elements(&data, start, u32::from_le_bytes);
            context.frame.registers.set_words(*to, mask, &values);
            continue;
        }
        let values = extend(&data, start, load.element, *kept);
        context.frame.registers.set_wide(*to, mask, &values);
    }
    Ok(())
}

/// The bits of a register. Its row may have more, which are zero.
fn kept_bits(form: &Form<'_, '_>, register: &Operand) -> u64 {
    match form.register_bits_of(register) {
        bits @ 1..64 => (1 << bits) - 1,
        _ => u64::MAX,
    }
}

/// The elements at a place in every lane's bytes, extended to `kept` bits.
fn extend<const WIDEST: usize>(
    data: &Moved<WIDEST>,
    start: usize,
    element: DataType,
    kept: u64,
) -> Doubles {
    let mut values = match element.bytes() {
        1 => elements(data, start, |own| u64::from(u8::from_le_bytes(own))),
        2 => elements(data, start, |own| u64::from(u16::from_le_bytes(own))),
        4 => elements(data, start, |own| u64::from(u32::from_le_bytes(own))),
        _ => elements(data, start, u64::from_le_bytes),
    };
    if element.is_signed() {
        let unused = 64 - 8 * element.bytes();
        for value in &mut values {
            *value = ((*value << unused) as i64 >> unused) as u64 & kept;
        }
    }
    values
}

/// As many bytes of every lane as numbers; of a constant size, they need no call.
#[inline(always)]
fn elements<const N: usize, const WIDEST: usize, R: Copy + Default>(
    data: &Moved<WIDEST>,
    start: usize,
    number: impl Fn([u8; N]) -> R,
) -> [R; 32] {
    let mut values = [R::default(); 32];
    for (value, own) in values.iter_mut().zip(data) {
        let bytes = own.get(start..).and_then(|own| own.first_chunk::<N>());
        *value = number(bytes.copied().unwrap_or([0; N]));
    }
    values
}

/// Puts the low bytes of numbers into every lane's bytes.
#[inline(always)]
fn put<const N: usize, const WIDEST: usize>(
    data: &mut Moved<WIDEST>,
    start: usize,
    values: &Doubles,
) {
    for (own, value) in data.iter_mut().zip(values) {
        let bytes = own.get_mut(start..).and_then(|own| own.first_chunk_mut::<N>());
        if let (Some(bytes), Some(value)) = (bytes, value.to_le_bytes().first_chunk::<N>()) {
            *bytes = *value;
        }
    }
}

fn execute_store<const WIDEST: usize>(store: &Store, context: &mut Context<'_>) -> Outcome {
    let addresses = addresses(store.to, context);
    let mask = context.mask;
    let bytes = store.element.bytes() as usize;
    let mut data: Moved<WIDEST> = [[0; WIDEST]; 32];
    for (element, from) in store.from.iter().enumerate() {
        let start = element * bytes;
        match (bytes, from) {
            (16, Any::Quad(source)) => {
                let values = context.frame.registers.quads(*source);
                for (own, value) in data.iter_mut().zip(values) {
                    own[start..start + 16].copy_from_slice(&value.to_le_bytes());
                }
            }
            (16, _) => {}
            _ => {
                let values = context.frame.registers.any(*from);
                match bytes {
                    1 => put::<1, WIDEST>(&mut data, start, &values),
                    2 => put::<2, WIDEST>(&mut data, start, &values),
                    4 => put::<4, WIDEST>(&mut data, start, &values),
                    _ => put::<8, WIDEST>(&mut data, start, &values),
                }
            }
        }
    }
    let (order, warp) = (store.order, context.warp.id);
    context.grid.progress += 1;
    visit(context, store.access, &addresses, mask, |region| {
        region.note_store(strength(order), data.as_flattened())?;
        if order != Order::Weak {
            for lane in lanes(region.mask) {
                let key = region.key + region.offsets[lane];
                if order == Order::Release {
                    region.races.release_at(key, warp, 1 << lane, Modification::Store);
                } else {
                    region.races.relaxed_write_at(key, warp, 1 << lane, Modification::Store);
                }
            }
        }
        region.write(&data);
        Ok(())
    })
}
