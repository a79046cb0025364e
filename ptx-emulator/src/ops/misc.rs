//! Addresses of other blocks, cache policies, register counts, and hints without an effect.

use super::access::{Access, Effect, Space, addresses, visit};
use super::claims;
use super::mov::Mov;
use crate::execute::registers::lanes;
use crate::execute::report::{Fault, ReportKind};
use crate::execute::{Context, Flow, Outcome};
use crate::machine::window::{self, BLOCK_SHARED, Window};
use crate::module::{Operand, Reference, StateSpace};
use crate::ops::Operation;
use crate::program::operand::{Address, Any, Destination, Source32, Source64};
use crate::program::types::DataType;
use crate::program::{Form, Problem};
use crate::race::Strength;

/// One of these instructions.
#[derive(Clone, Debug)]
pub(crate) enum Misc {
    /// `isspacep`: whether a generic address lies in a state space.
    IsSpace(Region, Destination, Any),
    /// `mapa` of an address in the shared window: to a block, a 32-bit address or a wider one.
    MapWord(Destination, Source32, Source32),
    MapDouble(Destination, Source64, Source32),
    /// `mapa` of a generic address.
    MapGeneric(Destination, Source64, Source32),
    /// `getctarank` of an address in the shared window.
    RankWord(Destination, Source32),
    RankDouble(Destination, Source64),
    /// `getctarank` of a generic address.
    RankGeneric(Destination, Source64),
    /// `setmaxnreg.inc` to so many registers of a thread.
    ClaimRegisters(u32),
    /// `setmaxnreg.dec` to so many registers of a thread.
    FreeRegisters(u32),
    /// `discard`: the memory holds anything from then on.
    Discard(Space, Address),
}

/// What `isspacep` asks for.
#[derive(Clone, Debug)]
pub(crate) enum Region {
    /// Where the module's constant variables lie: from, to.
    Constant(Box<[(u64, u64)]>),
    /// All global memory but those.
    Global(Box<[(u64, u64)]>),
    Local,
    Parameter,
    /// Of the own block.
    Shared,
    /// Of any block of the cluster.
    SharedCluster,
}

/// The size of what `discard` and `applypriority` work on, and what their addresses are multiples
/// of, in bytes.
const CACHE_LINE: u32 = 128;

/// Policies as numbers: those that copies commonly use as constants.
const EVICT_NORMAL: u64 = 0x1000_0000_0000_0000;
const EVICT_FIRST: u64 = 0x12F0_0000_0000_0000;
const EVICT_LAST: u64 = 0x14F0_0000_0000_0000;

/// Lowers these instructions.
pub(crate) fn lower(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    match form.mnemonic() {
        "isspacep" => lower_is_space(form),
        "mapa" => lower_map(form),
        "getctarank" => lower_rank(form),
        "setmaxnreg" => lower_registers(form),
        "createpolicy" => lower_policy(form),
        "griddepcontrol" => {
            // A launch begins when the one before has ended, with all of its writes.
            if form.take_one(&[("wait", ()), ("launch_dependents", ())]).is_none() {
                return Err("`.wait` or `.launch_dependents` is missing".to_owned());
            }
            nothing(form, 0)
        }
        "pmevent" => {
            form.take("mask");
            nothing(form, 1)
        }
        "prefetch" | "prefetchu" => lower_prefetch(form),
        _ => lower_line(form),
    }
}

fn nothing(form: &mut Form<'_, '_>, operands: usize) -> Result<(), Problem> {
    form.finish()?;
    form.expect(operands)?;
    form.emit(Operation::Nothing);
    Ok(())
}

fn emit(form: &mut Form<'_, '_>, own: Misc) -> Result<(), Problem> {
    form.emit(Operation::Misc(Box::new(own)));
    Ok(())
}

fn lower_is_space(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    let region = if form.take("const") {
        Region::Constant(form.lowering().constant_ranges())
    } else if form.take("global") {
        Region::Global(form.lowering().constant_ranges())
    } else {
        if form.has("param::func") {
            return Err("parameters of calls have no generic addresses".to_owned());
        }
        match Space::take(form) {
            Space::Local => Region::Local,
            Space::Parameter => Region::Parameter,
            Space::Shared => Region::Shared,
            Space::SharedCluster => Region::SharedCluster,
            Space::Generic | Space::Global | Space::Constant => {
                return Err("a state space is missing".to_owned());
            }
        }
    };
    form.finish()?;
    form.expect(2)?;
    let to = form.destination_predicate(0)?;
    let address = match form.operand(1)? {
        Operand::Name(Reference::Register(_)) if form.register_bits(1)? == 32 => {
            Any::Word(form.source32(1, DataType::U32)?)
        }
        _ => Any::Double(form.source64(1, DataType::U64)?),
    };
    emit(form, Misc::IsSpace(region, to, address))
}

/// Whether an address in the shared window is meant, and its width.
fn take_shared_type(form: &mut Form<'_, '_>) -> Result<(bool, DataType), Problem> {
    let in_window = form.take("shared::cluster");
    let ty = form.take_type()?;
    form.finish()?;
    match (in_window, ty) {
        // Addresses of 32 bits are those in the window, whether that is said or not.
        (_, DataType::U32 | DataType::U64) => Ok((in_window, ty)),
        _ => Err("this type is not supported here".to_owned()),
    }
}

fn lower_map(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    let (in_window, ty) = take_shared_type(form)?;
    form.expect(3)?;
    let rank = form.source32(2, DataType::U32)?;
    if ty == DataType::U32 {
        let own = Misc::MapWord(form.destination(0, ty)?, form.source32(1, ty)?, rank);
        return emit(form, own);
    }
    let (to, from) = (form.destination(0, ty)?, form.source64(1, ty)?);
    let own =
        if in_window { Misc::MapDouble(to, from, rank) } else { Misc::MapGeneric(to, from, rank) };
    emit(form, own)
}

fn lower_rank(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    let (in_window, ty) = take_shared_type(form)?;
    form.expect(2)?;
    let to = form.destination(0, DataType::U32)?;
    let own = match (in_window, ty) {
        (_, DataType::U32) => Misc::RankWord(to, form.source32(1, ty)?),
        (true, _) => Misc::RankDouble(to, form.source64(1, ty)?),
        (false, _) => Misc::RankGeneric(to, form.source64(1, ty)?),
    };
    emit(form, own)
}

fn lower_registers(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    let claims = form.take("inc");
    if !claims && !form.take("dec") {
        return Err("`.inc` or `.dec` is missing".to_owned());
    }
    if !(form.take("sync") && form.take("aligned")) {
        return Err("`.sync.aligned` is missing".to_owned());
    }
    form.take("u32");
    form.finish()?;
    form.expect(1)?;
    let count = form.constant(0)?;
    let count = u32::try_from(count).ok().filter(|own| (24..=256).contains(own) && own % 8 == 0);
    let count = count.ok_or("the count is a multiple of 8 from 24 to 256")?;
    emit(form, if claims { Misc::ClaimRegisters(count) } else { Misc::FreeRegisters(count) })
}

fn lower_policy(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    const PRIORITIES: [(&str, u64); 4] = [
        ("L2::evict_normal", EVICT_NORMAL),
        ("L2::evict_unchanged", EVICT_NORMAL),
        ("L2::evict_first", EVICT_FIRST),
        ("L2::evict_last", EVICT_LAST),
    ];
    let (is_range, is_part) = (form.take("range"), form.take("fractional"));
    let converts = !is_range && !is_part && form.take("cvt") && form.take("L2");
    if !is_range && !is_part && !converts {
        return Err("`.range`, `.fractional` or `.cvt.L2` is missing".to_owned());
    }
    if is_range {
        form.take("global");
    }
    let mut policy = EVICT_NORMAL;
    if !converts {
        policy = form.take_one(&PRIORITIES).ok_or("a priority is missing")?;
        form.take_one(&[("L2::evict_first", ()), ("L2::evict_unchanged", ())]);
    }
    if form.take_type()? != DataType::B64 {
        return Err("a policy has 64 bits".to_owned());
    }
    form.finish()?;
    if is_range {
        form.expect(4)?;
        form.bracket(1)?;
    } else if converts || form.count() != 1 {
        form.expect(2)?;
    }
    let to = form.destination(0, DataType::B64)?;
    form.emit(Operation::Mov(Mov::Double(to, Source64::Immediate(policy))));
    Ok(())
}

/// A prefetch of an invalid address is no error, so nothing is done with its address.
fn lower_prefetch(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    let levels = ["L1", "L2", "L2::evict_last", "L2::evict_normal", "tensormap"];
    let space = Space::take(form);
    let is_map = form.has("tensormap");
    let right = match space {
        Space::Generic => true,
        Space::Global | Space::Local => !is_map,
        Space::Constant | Space::Parameter => is_map && !form.has("param::entry"),
        Space::Shared | Space::SharedCluster => false,
    };
    if !right {
        return Err("this state space has no prefetch of this kind".to_owned());
    }
    if form.take_with(|word| levels.contains(&word).then_some(())).is_none() {
        return Err("a level is missing".to_owned());
    }
    form.bracket(0)?;
    let symbol = form.symbol_space(0);
    if is_map && space == Space::Generic && symbol.is_some_and(|own| own != StateSpace::Global) {
        return Err("the symbol lies in another state space".to_owned());
    }
    space.address(form, 0)?;
    nothing(form, 1)
}

/// `applypriority` and `discard`.
fn lower_line(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    let space = if form.take("global") { Space::Global } else { Space::Generic };
    let discards = form.mnemonic() == "discard";
    if !form.take(if discards { "L2" } else { "L2::evict_normal" }) {
        return Err("a level is missing".to_owned());
    }
    form.finish()?;
    form.expect(2)?;
    if form.constant(1)? != i64::from(CACHE_LINE) {
        return Err(format!("the size is {CACHE_LINE}"));
    }
    let address = space.address(form, 0)?;
    if !discards {
        return nothing(form, 2);
    }
    emit(form, Misc::Discard(space, address))
}

/// Executes one of these instructions.
pub(crate) fn execute(own: &Misc, context: &mut Context<'_>) -> Outcome<Flow> {
    let mask = context.mask;
    match own {
        Misc::IsSpace(region, to, address) => {
            let addresses = context.frame.registers.any(*address);
            let inside = (0..32).fold(0, |all, lane| {
                all | u32::from(region.contains(addresses[lane], context)) << lane
            });
            context.frame.registers.set_predicate(*to, mask, inside);
        }
        Misc::MapWord(to, from, rank) => {
            let addresses = context.frame.registers.words(*from).map(u64::from);
            let mapped = map(&addresses, 0, *rank, context)?;
            context.frame.registers.set_words(*to, mask, &mapped.map(|own| own as u32));
        }
        Misc::MapDouble(to, from, rank) => {
            let addresses = context.frame.registers.doubles(*from);
            let mapped = map(&addresses, 0, *rank, context)?;
            context.frame.registers.set_doubles(*to, mask, &mapped);
        }
        Misc::MapGeneric(to, from, rank) => {
            let addresses = context.frame.registers.doubles(*from);
            let mapped = map(&addresses, window::SHARED, *rank, context)?;
            context.frame.registers.set_doubles(*to, mask, &mapped);
        }
        Misc::RankWord(to, from) => {
            let addresses = context.frame.registers.words(*from).map(u64::from);
            rank(&addresses, 0, *to, context)?;
        }
        Misc::RankDouble(to, from) => {
            let addresses = context.frame.registers.doubles(*from);
            rank(&addresses, 0, *to, context)?;
        }
        Misc::RankGeneric(to, from) => {
            let addresses = context.frame.registers.doubles(*from);
            rank(&addresses, window::SHARED, *to, context)?;
        }
        Misc::ClaimRegisters(count) => return claims::claim(*count, context),
        Misc::FreeRegisters(count) => return claims::free(*count, context),
        Misc::Discard(space, address) => discard(*space, *address, context)?,
    }
    Ok(Flow::Next)
}

impl Region {
    fn contains(&self, address: u64, context: &Context<'_>) -> bool {
        let within =
            |ranges: &[(u64, u64)]| ranges.iter().any(|(from, to)| (*from..*to).contains(&address));
        let window = window::window(address);
        let rank = address.wrapping_sub(window::SHARED) / u64::from(BLOCK_SHARED);
        match self {
            Self::Constant(ranges) => within(ranges),
            Self::Global(ranges) => window == Window::Global && !within(ranges),
            Self::Local => window == Window::Local,
            Self::Parameter => window == Window::Parameter,
            Self::Shared => window == Window::Shared && rank == context.rank as u64,
            Self::SharedCluster => {
                window == Window::Shared && rank < context.cluster.blocks.len() as u64
            }
        }
    }
}

/// The block whose shared memory an address names. `base` is that of the shared window in the
/// addresses.
fn block_of(address: u64, base: u64, lane: usize, context: &Context<'_>) -> Outcome<u64> {
    let rank = address.checked_sub(base).map(|offset| offset / u64::from(BLOCK_SHARED));
    match rank.filter(|rank| *rank < context.cluster.blocks.len() as u64) {
        Some(rank) => Ok(rank),
        None => {
            let text = format!("{address:#x} is no address in the shared memory of the cluster");
            Err(Fault::at_lane(lane, ReportKind::Operand(text)))
        }
    }
}

/// The addresses with the same offsets in other blocks.
fn map(
    addresses: &[u64; 32],
    base: u64,
    ranks: Source32,
    context: &Context<'_>,
) -> Outcome<[u64; 32]> {
    let ranks = context.frame.registers.words(ranks);
    let blocks = context.cluster.blocks.len();
    let mut mapped = [0; 32];
    for lane in lanes(context.mask) {
        let from = block_of(addresses[lane], base, lane, context)?;
        if ranks[lane] as usize >= blocks {
            let text = format!("the cluster has no block {}; it has {blocks}", ranks[lane]);
            return Err(Fault::at_lane(lane, ReportKind::Operand(text)));
        }
        let offset = addresses[lane] - from * u64::from(BLOCK_SHARED);
        mapped[lane] = offset + u64::from(ranks[lane]) * u64::from(BLOCK_SHARED);
    }
    Ok(mapped)
}

fn rank(addresses: &[u64; 32], base: u64, to: Destination, context: &mut Context<'_>) -> Outcome {
    let mut ranks = [0; 32];
    for lane in lanes(context.mask) {
        ranks[lane] = block_of(addresses[lane], base, lane, context)? as u32;
    }
    context.frame.registers.set_words(to, context.mask, &ranks);
    Ok(())
}

/// A write of anything ("discard" in the PTX manual).
fn discard(space: Space, address: Address, context: &mut Context<'_>) -> Outcome {
    let addresses = addresses(address, context);
    let mask = context.mask;
    let access = Access { space, name: "discard", bytes: CACHE_LINE, alignment: CACHE_LINE };
    let noise = context.grid.random.next().to_le_bytes();
    context.grid.progress += 1;
    visit(context, access, &addresses, mask, |region| {
        if region.space != "global" {
            return Err(Fault::operand("`discard` is for global memory"));
        }
        region.note(Effect::WriteSame, Strength::Weak)?;
        for lane in lanes(region.mask) {
            for (byte, noise) in region.lane_mut(lane).iter_mut().zip(noise.iter().cycle()) {
                *byte = *noise;
            }
        }
        Ok(())
    })
}
