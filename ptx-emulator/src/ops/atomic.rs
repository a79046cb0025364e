//! `atom` and `red`.

use super::access::{Access, Effect, Region, Space, addresses, check_address, visit};
use super::memory::take_scope;
use crate::execute::report::{Fault, ReportKind};
use crate::execute::{Context, Outcome};
use crate::module::Operand;
use crate::numeric::half::{self, HalfFormat};
use crate::numeric::minmax::{self, Extremum, MinMaxModifiers};
use crate::numeric::{Modifiers, Rounding, double, single};
use crate::ops::Operation;
use crate::program::operand::{Address, Any, Destination};
use crate::program::types::DataType;
use crate::program::{Form, Problem};
use crate::race::{Modification, Strength};
use crate::random::Random;

/// A read-modify-write of each lane's memory.
#[derive(Clone, Debug)]
pub(crate) struct Atomic {
    access: Access,
    order: Order,
    change: Change,
    /// What the elements in memory are; a packed type is twice as many of 16 bits.
    number: Number,
    /// The type of a register of the operands.
    element: DataType,
    /// Registers for the old value; absent for `red`.
    to: Option<Box<[Destination]>>,
    address: Address,
    operand: Box<[Any]>,
    /// What `cas` compares with is `operand`; this is what it stores.
    replacement: Option<Any>,
}

#[derive(Clone, Copy, Debug)]
struct Order {
    acquires: bool,
    releases: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Add,
    And,
    Or,
    Xor,
    Minimum,
    Maximum,
    Increment,
    Decrement,
    Exchange,
    Compare,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Bits(u32),
    Unsigned(u32),
    Signed(u32),
    Half(HalfFormat),
    Single,
    Double,
}

impl Number {
    /// The size of an element in bits.
    fn bits(self) -> u32 {
        match self {
            Self::Bits(bits) | Self::Unsigned(bits) | Self::Signed(bits) => bits,
            Self::Half(_) => 16,
            Self::Single => 32,
            Self::Double => 64,
        }
    }

    fn of(ty: DataType) -> Option<Self> {
        Some(match ty {
            DataType::B16 | DataType::B32 | DataType::B64 | DataType::B128 => Self::Bits(ty.bits()),
            DataType::U32 | DataType::U64 => Self::Unsigned(ty.bits()),
            DataType::S32 | DataType::S64 => Self::Signed(ty.bits()),
            DataType::F16 | DataType::F16x2 => Self::Half(HalfFormat::F16),
            DataType::Bf16 | DataType::Bf16x2 => Self::Half(HalfFormat::Bf16),
            DataType::F32 => Self::Single,
            DataType::F64 => Self::Double,
            _ => return None,
        })
    }
}

/// Values of all lanes; vectors have their first element in the low bits.
type Values = [u128; 32];

/// Lowers `atom` and `red`.
pub(crate) fn lower(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    let returns = form.mnemonic() == "atom";
    let name = if returns { "atomic" } else { "reduction" };
    let order = form
        .take_one(&[
            ("relaxed", (false, false)),
            ("acquire", (true, false)),
            ("release", (false, true)),
            ("acq_rel", (true, true)),
        ])
        .unwrap_or((false, false));
    let order = Order { acquires: order.0, releases: order.1 };
    if order.acquires && !returns {
        return Err("`red` cannot acquire".to_owned());
    }
    take_scope(form);
    let is_constant = form.has("const");
    let space = Space::take(form);
    if is_constant || matches!(space, Space::Local | Space::Parameter) {
        return Err("only global and shared memory can be changed atomically".to_owned());
    }
    let change = take_change(form)?;
    let length = form.take_one(&[("v2", 2), ("v4", 4), ("v8", 8)]);
    let skips_flush = form.take("noftz");
    let policy = usize::from(form.take("L2::cache_hint"));
    let element = form.take_type()?;
    form.finish()?;
    let number = check(change, element, length, skips_flush)?;
    if !returns && matches!(change, Change::Exchange | Change::Compare) {
        return Err("`red` does not have this operation".to_owned());
    }
    if length.is_some() && !matches!(space, Space::Global | Space::Generic) {
        return Err("vectors are for global memory".to_owned());
    }
    let first = usize::from(returns);
    let compares = usize::from(change == Change::Compare);
    form.expect(first + 2 + compares + policy)?;
    let bytes = element.bytes() * length.unwrap_or(1);
    let address = space.address(form, first)?;
    check_address(space, address)?;
    let operand = sources(form, first + 1, element, length.unwrap_or(1))?;
    let replacement = match compares {
        0 => None,
        _ => sources(form, first + 2, element, 1)?.first().copied(),
    };
    let to = returns.then(|| destinations(form, element, length.unwrap_or(1))).transpose()?;
    let access = Access { space, name, bytes, alignment: bytes };
    form.emit(Operation::Atomic(Box::new(Atomic {
        access,
        order,
        change,
        number,
        element,
        to,
        address,
        operand,
        replacement,
    })));
    Ok(())
}

fn take_change(form: &mut Form<'_, '_>) -> Result<Change, Problem> {
    let change = form.take_one(&[
        ("add", Change::Add),
        ("and", Change::And),
        ("or", Change::Or),
        ("xor", Change::Xor),
        ("min", Change::Minimum),
        ("max", Change::Maximum),
        ("inc", Change::Increment),
        ("dec", Change::Decrement),
        ("exch", Change::Exchange),
        ("cas", Change::Compare),
    ]);
    change.ok_or_else(|| "an operation is missing".to_owned())
}

/// Which types an operation has ("atom" and "red" in the PTX manual).
fn check(
    change: Change,
    element: DataType,
    length: Option<u32>,
    skips_flush: bool,
) -> Result<Number, Problem> {
    let wrong = || "this operation does not have this type".to_owned();
    let number = Number::of(element).ok_or_else(wrong)?;
    let is_half = matches!(number, Number::Half(_));
    let fits = match (change, number) {
        (Change::Add, Number::Unsigned(_) | Number::Signed(32)) => length.is_none(),
        (Change::Add, Number::Double) => length.is_none(),
        (Change::Add, Number::Single) => length.is_none_or(|length| length <= 4),
        (Change::Add, Number::Half(_)) => length.unwrap_or(1) * element.bytes() <= 16,
        // Halves have these as vectors only.
        (Change::Minimum | Change::Maximum, Number::Half(_)) => {
            length.is_some_and(|length| length * element.bytes() <= 16)
        }
        (Change::Minimum | Change::Maximum, Number::Unsigned(_) | Number::Signed(_))
        | (Change::And | Change::Or | Change::Xor, Number::Bits(32 | 64))
        | (Change::Increment | Change::Decrement, Number::Unsigned(32))
        | (Change::Exchange, Number::Bits(32 | 64 | 128))
        | (Change::Compare, Number::Bits(_)) => length.is_none(),
        _ => false,
    };
    if !fits {
        return Err(wrong());
    }
    if is_half != skips_flush {
        return Err("`.noftz` belongs to the types of 16 bits, and they to it".to_owned());
    }
    Ok(number)
}

fn elements<'f>(form: &Form<'f, '_>, index: usize, length: u32) -> Result<&'f [Operand], Problem> {
    let elements = form.elements(index)?;
    if elements.len() != length as usize {
        return Err(format!("a vector of {length} elements is wanted"));
    }
    Ok(elements)
}

fn sources(
    form: &mut Form<'_, '_>,
    index: usize,
    ty: DataType,
    length: u32,
) -> Result<Box<[Any]>, Problem> {
    if ty == DataType::B128 {
        return Ok(Box::new([Any::Quad(form.source128(index)?)]));
    }
    let elements = elements(form, index, length)?;
    let sources = elements.iter().map(|own| match ty.bits() {
        64 => Ok(Any::Double(form.source64_of(own, ty)?)),
        _ => Ok(Any::Word(form.source32_of(own, ty)?)),
    });
    sources.collect()
}

fn destinations(
    form: &mut Form<'_, '_>,
    ty: DataType,
    length: u32,
) -> Result<Box<[Destination]>, Problem> {
    // `_` stands for the whole vector, too.
    if *form.operand(0)? == Operand::Sink {
        return Ok(vec![Destination(None); length as usize].into());
    }
    elements(form, 0, length)?.iter().map(|own| form.destination_of(own, ty)).collect()
}

/// All bits up to a width of at most 128.
fn low_bits(bits: u32) -> u128 {
    u128::MAX >> (128 - bits.clamp(1, 128))
}

/// The registers of an operand, side by side.
fn gather(sources: &[Any], bits: u32, context: &Context<'_>) -> Values {
    let registers = &context.frame.registers;
    let mut values = [0; 32];
    for (element, source) in sources.iter().enumerate() {
        if let Any::Quad(source) = source {
            return registers.quads(*source);
        }
        let shift = element as u32 * bits;
        for (value, own) in values.iter_mut().zip(registers.any(*source)) {
            *value |= (u128::from(own) & low_bits(bits)) << shift;
        }
    }
    values
}

/// An order of the lanes: nothing says which comes first. Few of all orders, but for any two
/// lanes both.
fn random_order(random: &mut Random) -> impl Iterator<Item = usize> {
    let choice = random.next();
    let stride = choice | 1;
    (0..32u64).map(move |step| {
        let lane = step.wrapping_mul(stride).wrapping_add(choice >> 8) ^ choice >> 16;
        (lane & 31) as usize
    })
}

/// Executes an atomic operation.
pub(crate) fn execute(own: &Atomic, context: &mut Context<'_>) -> Outcome {
    let addresses = addresses(own.address, context);
    let bits = own.element.bits();
    let operands = gather(&own.operand, bits, context);
    let replacements = match own.replacement {
        Some(replacement) => gather(&[replacement], bits, context),
        None => operands,
    };
    let mask = context.mask;
    let warp = context.warp.id;
    let order: [usize; 32] = {
        let mut order = random_order(&mut context.grid.random);
        std::array::from_fn(|_| order.next().unwrap_or(0))
    };
    let mut old_values = [0; 32];
    let mut changed = false;
    visit(context, own.access, &addresses, mask, |region| {
        if !matches!(region.space, "global" | "shared") {
            return Err(unsuitable(region));
        }
        region.note(Effect::Update, Strength::Strong)?;
        // In global memory sums of f32 flush subnormal numbers, in shared memory they do not.
        let flush = region.space == "global";
        for lane in order {
            if region.mask >> lane & 1 == 0 {
                continue;
            }
            let key = region.key.wrapping_add(region.offsets[lane]);
            let old = read(region.lane(lane));
            let writes = own.change != Change::Compare || old == operands[lane];
            let new = match own.change {
                Change::Compare if writes => replacements[lane],
                Change::Compare => old,
                _ => own.apply(old, operands[lane], flush),
            };
            old_values[lane] = old;
            changed |= old != new;
            let bytes = region.lane_mut(lane);
            let length = bytes.len();
            bytes.copy_from_slice(&new.to_le_bytes()[..length]);
            own.order_lane(region, key, warp, (1 << lane, writes));
        }
        Ok(())
    })?;
    context.grid.progress += u64::from(changed);
    if let Some(to) = &own.to {
        scatter(to, bits, &old_values, context);
    }
    Ok(())
}

fn unsuitable(region: &Region<'_>) -> Fault {
    let lane = region.mask.trailing_zeros() as usize;
    let text = format!("an atomic operation in {} memory", region.space);
    Fault::at_lane(lane & 31, ReportKind::Operand(text))
}

/// Up to 16 bytes as a number.
fn read(bytes: &[u8]) -> u128 {
    let mut value = [0; 16];
    value[..bytes.len()].copy_from_slice(bytes);
    u128::from_le_bytes(value)
}

/// Puts the old values into the destinations.
fn scatter(to: &[Destination], bits: u32, values: &Values, context: &mut Context<'_>) {
    let mask = context.mask;
    let registers = &mut context.frame.registers;
    for (element, to) in to.iter().enumerate() {
        let piece = |value: u128| value >> (element as u32 * bits) & low_bits(bits);
        match bits {
            128 => registers.set_quads(*to, mask, values),
            64 => registers.set_doubles(*to, mask, &values.map(|value| piece(value) as u64)),
            _ => registers.set_words(*to, mask, &values.map(|value| piece(value) as u32)),
        }
    }
}

impl Atomic {
    /// Tells the race checker what the operation of one lane orders. A `cas` that does not write
    /// only reads, and `red` does not read for its thread.
    fn order_lane(
        &self,
        region: &mut Region<'_>,
        key: u64,
        warp: crate::race::WarpId,
        (lane, writes): (u32, bool),
    ) {
        if self.order.acquires {
            region.races.acquire_at(key, warp, lane);
        } else if self.to.is_some() {
            region.races.relaxed_read_at(key, warp, lane);
        }
        let modification = Modification::ReadModifyWrite;
        if !writes {
            return;
        }
        if self.order.releases {
            region.races.release_at(key, warp, lane, modification);
        } else {
            region.races.relaxed_write_at(key, warp, lane, modification);
        }
    }

    /// The new value of a lane's memory, element by element.
    fn apply(&self, old: u128, operand: u128, flush: bool) -> u128 {
        let bits = self.number.bits();
        if self.change == Change::Exchange {
            return operand;
        }
        let count = self.access.bytes * 8 / bits;
        (0..count).fold(0, |all, element| {
            let shift = element * bits;
            let piece = |value: u128| (value >> shift & low_bits(bits)) as u64;
            let new = combine(self.change, self.number, (piece(old), piece(operand)), flush);
            all | (u128::from(new) & low_bits(bits)) << shift
        })
    }
}

/// One element of at most 64 bits.
fn combine(change: Change, number: Number, (old, operand): (u64, u64), flush: bool) -> u64 {
    match change {
        Change::Add => add(number, old, operand, flush),
        Change::And => old & operand,
        Change::Or => old | operand,
        Change::Xor => old ^ operand,
        Change::Minimum => extremum(Extremum::Minimum, number, old, operand),
        Change::Maximum => extremum(Extremum::Maximum, number, old, operand),
        Change::Increment if old >= operand => 0,
        Change::Increment => old.wrapping_add(1),
        Change::Decrement if old == 0 || old > operand => operand,
        Change::Decrement => old.wrapping_sub(1),
        Change::Exchange | Change::Compare => operand,
    }
}

fn add(number: Number, old: u64, operand: u64, flush: bool) -> u64 {
    match number {
        Number::Bits(_) | Number::Unsigned(_) | Number::Signed(_) => old.wrapping_add(operand),
        Number::Half(format) => {
            half::add(format, old as u16, operand as u16, Modifiers::default()).into()
        }
        Number::Single => {
            let modifiers = Modifiers { flush, ..Modifiers::default() };
            let operands = [old, operand].map(|bits| f32::from_bits(bits as u32));
            let sum = single::modified(modifiers, operands, |[a, b]| {
                single::add(a, b, Rounding::NearestEven)
            });
            sum.to_bits().into()
        }
        Number::Double => {
            let (old, operand) = (f64::from_bits(old), f64::from_bits(operand));
            double::add(old, operand, Rounding::NearestEven).to_bits()
        }
    }
}

fn extremum(extremum: Extremum, number: Number, old: u64, operand: u64) -> u64 {
    let takes_operand = match number {
        Number::Half(format) => {
            let modifiers = MinMaxModifiers::default();
            return minmax::half(format, extremum, old as u16, operand as u16, modifiers).into();
        }
        Number::Signed(32) => (operand as i32) < (old as i32),
        Number::Signed(_) => (operand as i64) < (old as i64),
        _ => operand < old,
    };
    if takes_operand == (extremum == Extremum::Minimum) { operand } else { old }
}
