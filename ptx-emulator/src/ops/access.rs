//! Memory as instructions reach it: from the addresses of a warp's lanes to the bytes of a region,
//! with bounds, alignment and races checked on the way.

use crate::execute::registers::{lanes, select};
use crate::execute::report::{Fault, ReportKind};
use crate::execute::{Context, Outcome, check_alignment};
use crate::machine::CLUSTER_BLOCKS;
use crate::machine::window::{self, Window};
use crate::module::StateSpace;
use crate::ops::mbarrier::Mbarriers;
use crate::program::operand::{Address, AddressBase, Source32, Source64};
use crate::program::{Form, Problem};

pub(crate) use super::region::{Effect, Region, race_fault};

/// The state space of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    /// The address says it.
    Generic,
    Global,
    /// Constant memory, which has windows and bounds of its own nowhere: it is a part of global
    /// memory that is only read.
    Constant,
    /// Shared memory of the own block.
    Shared,
    /// Shared memory of any block of the cluster.
    SharedCluster,
    Local,
    /// Parameters: of the kernel by address, of functions and calls by name.
    Parameter,
}

impl Space {
    /// Takes the state space of an instruction; generic if none is given.
    pub(crate) fn take(form: &mut Form<'_, '_>) -> Self {
        let table = [
            ("global", Self::Global),
            ("const", Self::Constant),
            ("shared", Self::Shared),
            ("shared::cta", Self::Shared),
            ("shared::cluster", Self::SharedCluster),
            ("local", Self::Local),
            ("param", Self::Parameter),
            ("param::entry", Self::Parameter),
            ("param::func", Self::Parameter),
        ];
        form.take_one(&table).unwrap_or(Self::Generic)
    }

    /// The space in which a symbol of an address must lie.
    pub(crate) fn of_symbols(self) -> Option<StateSpace> {
        match self {
            Self::Generic => None,
            Self::Global => Some(StateSpace::Global),
            Self::Constant => Some(StateSpace::Const),
            Self::Shared | Self::SharedCluster => Some(StateSpace::Shared),
            Self::Local => Some(StateSpace::Local),
            Self::Parameter => Some(StateSpace::Param),
        }
    }

    /// Takes operand `index` as an address in this space.
    pub(crate) fn address(self, form: &mut Form<'_, '_>, index: usize) -> Result<Address, Problem> {
        form.address(index, self.of_symbols())
    }
}

/// An address of global memory, and so a generic one, does not fit a register of 32 bits.
pub(crate) fn check_address(space: Space, address: Address) -> Result<(), Problem> {
    match (space, address.base) {
        (Space::Generic | Space::Global, AddressBase::Word(_)) => {
            Err("an address of global memory has 64 bits".to_owned())
        }
        _ => Ok(()),
    }
}

/// Addresses by lane.
pub(crate) type Addresses = [u64; 32];

/// What an instruction does to memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) space: Space,
    /// "load", "store" and the like, for reports.
    pub(crate) name: &'static str,
    /// Bytes of each lane.
    pub(crate) bytes: u32,
    /// What addresses must be multiples of.
    pub(crate) alignment: u32,
}

/// The address of every lane, in the instruction's space. Lanes outside the mask have any.
pub(crate) fn addresses(address: Address, context: &Context<'_>) -> Addresses {
    let registers = &context.frame.registers;
    let offset = address.offset;
    match address.base {
        AddressBase::Double(row) => {
            registers.doubles(Source64::Register(row)).map(|own| own.wrapping_add_signed(offset))
        }
        AddressBase::Word(row) => registers
            .words(Source32::Register(row))
            .map(|own| own.wrapping_add(offset as u32).into()),
        AddressBase::Constant(own) => [own.wrapping_add_signed(offset); 32],
        AddressBase::Shared(own) => {
            let block = context.rank as u64 * u64::from(window::BLOCK_SHARED);
            [(block + u64::from(own)).wrapping_add_signed(offset); 32]
        }
        AddressBase::Frame(own) => {
            [(context.frame.local_base + own).wrapping_add_signed(offset); 32]
        }
        AddressBase::Parameter(own) => [own.wrapping_add_signed(offset); 32],
    }
}

/// Calls `act` with every region that lanes of the mask access.
pub(crate) fn visit(
    context: &mut Context<'_>,
    access: Access,
    addresses: &Addresses,
    mask: u32,
    mut act: impl FnMut(&mut Region<'_>) -> Outcome,
) -> Outcome {
    match access.space {
        Space::Generic => visit_generic(context, access, addresses, mask, &mut act),
        Space::Global | Space::Constant => visit_global(context, access, addresses, mask, &mut act),
        Space::Shared | Space::SharedCluster => {
            visit_shared(context, access, addresses, mask, &mut act)
        }
        Space::Local => visit_local(context, access, addresses, mask, &mut act),
        Space::Parameter => visit_parameters(context, access, addresses, mask, &mut act),
    }
}

type Act<'a> = &'a mut dyn FnMut(&mut Region<'_>) -> Outcome;

/// Lanes may point into different windows.
fn visit_generic(
    context: &mut Context<'_>,
    access: Access,
    addresses: &Addresses,
    mask: u32,
    act: Act<'_>,
) -> Outcome {
    let mut rest = mask;
    while rest != 0 {
        let first = rest.trailing_zeros() as usize;
        let window = window::window(addresses[first]);
        let same = select(rest, |lane| window::window(addresses[lane]) == window);
        rest &= !same;
        let base = match window {
            Window::Shared => window::SHARED,
            Window::Local => window::LOCAL,
            Window::Parameter => window::PARAMETER,
            Window::Global | Window::Function => 0,
        };
        let moved = addresses.map(|address| address.wrapping_sub(base));
        match window {
            Window::Shared => {
                let access = Access { space: Space::SharedCluster, ..access };
                visit_shared(context, access, &moved, same, act)?;
            }
            Window::Local => visit_local(context, access, &moved, same, act)?,
            Window::Parameter => visit_kernel_parameters(context, access, &moved, same, act)?,
            Window::Global => visit_global(context, access, addresses, same, act)?,
            Window::Function => {
                let address = addresses[first];
                return Err(out_of_bounds(access, "generic", first, address, String::new()));
            }
        }
    }
    Ok(())
}

fn out_of_bounds(
    access: Access,
    space: &'static str,
    lane: usize,
    address: u64,
    hint: String,
) -> Fault {
    let bytes = access.bytes.into();
    let kind = ReportKind::OutOfBounds { access: access.name, space, address, bytes, hint };
    Fault::at_lane(lane, kind)
}

/// The alignment of all lanes at once; the first that is wrong is looked for only if one is.
fn check_lanes(
    access: Access,
    space: impl Fn(u64) -> &'static str,
    addresses: &Addresses,
    mask: u32,
) -> Outcome {
    let unaligned = u64::from(access.alignment.saturating_sub(1));
    if select(mask, |lane| addresses[lane] & unaligned != 0) == 0 {
        return Ok(());
    }
    for lane in lanes(mask) {
        let (address, alignment) = (addresses[lane], access.alignment.into());
        check_alignment(access.name, space(address), address, alignment)
            .map_err(|kind| Fault::at_lane(lane, kind))?;
    }
    Ok(())
}

fn visit_global(
    context: &mut Context<'_>,
    access: Access,
    addresses: &Addresses,
    mask: u32,
    act: Act<'_>,
) -> Outcome {
    let grid = &mut *context.grid;
    check_lanes(access, |address| grid.memory.space(address), addresses, mask)?;
    grid.statistics.global_bytes += u64::from(access.bytes * mask.count_ones());
    let bytes = u64::from(access.bytes);
    let checked = grid.is_checked();
    let mut rest = mask;
    while rest != 0 {
        let first = rest.trailing_zeros() as usize;
        let address = addresses[first];
        let Some((allocation, _)) = grid.memory.find(address, bytes) else {
            let (space, hint) = (grid.memory.space(address), grid.memory.hint(address));
            return Err(out_of_bounds(access, space, first, address, hint));
        };
        let base = allocation.base;
        let last = allocation.bytes.len() as u64 - bytes;
        let offsets = addresses.map(|own| own.wrapping_sub(base));
        let inside = select(rest, |lane| offsets[lane] <= last);
        rest &= !inside;
        let constant = allocation.is_constant().then_some("constant memory");
        act(&mut Region {
            bytes: &mut allocation.bytes,
            mask: inside,
            offsets,
            space: allocation.space,
            base,
            key: base,
            shadow: checked.then_some(&mut allocation.shadow),
            races: &mut grid.races,
            warp: context.warp.id,
            line: context.line,
            size: access.bytes,
            constant,
        })?;
    }
    Ok(())
}

fn visit_shared(
    context: &mut Context<'_>,
    access: Access,
    addresses: &Addresses,
    mask: u32,
    act: Act<'_>,
) -> Outcome {
    check_lanes(access, |_| "shared", addresses, mask)?;
    let own = context.rank as u64;
    let size = u64::from(window::BLOCK_SHARED);
    let grid = &mut *context.grid;
    grid.statistics.count_shared(access.bytes, addresses, mask);
    let checked = grid.is_checked();
    let mut rest = mask;
    while rest != 0 {
        let first = rest.trailing_zeros() as usize;
        let rank = addresses[first] / size;
        let same = select(rest, |lane| addresses[lane] / size == rank);
        rest &= !same;
        let Some(block) = context.cluster.blocks.get_mut(rank as usize) else {
            let hint = no_block(addresses[first]);
            return Err(out_of_bounds(access, "shared", first, addresses[first], hint));
        };
        if rank != own && access.space == Space::Shared {
            let hint = format!("; it belongs to block {rank} of the cluster, not to {own}");
            return Err(out_of_bounds(access, "shared::cta", first, addresses[first], hint));
        }
        if rank != own
            && let Some(hint) = block.absence()
        {
            return Err(out_of_bounds(access, "shared", first, addresses[first], hint));
        }
        let offsets = addresses.map(|own| own % size);
        let length = block.shared.len() as u64;
        let begin = u64::from(window::RESERVED_SHARED);
        let outside = select(same, |lane| {
            offsets[lane] < begin || offsets[lane] + u64::from(access.bytes) > length
        });
        if outside != 0 {
            let lane = outside.trailing_zeros() as usize;
            let hint = format!("; the block has {begin:#x} to {length:#x}");
            return Err(out_of_bounds(access, "shared", lane, addresses[lane], hint));
        }
        check_mbarriers(access, &offsets, same, &block.mbarriers)?;
        // A number for each byte of each block that no allocation and no other block has.
        let key = u64::from(block.id) << 24 | 1 << 63;
        act(&mut Region {
            bytes: &mut block.shared,
            mask: same,
            offsets,
            space: "shared",
            base: rank * size,
            key,
            shadow: checked.then_some(&mut block.shadow),
            races: &mut grid.races,
            warp: context.warp.id,
            line: context.line,
            size: access.bytes,
            constant: None,
        })?;
    }
    Ok(())
}

/// What to say of an address that names a block which the cluster has not, or none at all.
pub(crate) fn no_block(address: u64) -> String {
    let rank = address / u64::from(window::BLOCK_SHARED);
    if rank < u64::from(CLUSTER_BLOCKS) {
        return format!("; the cluster has no block {rank}");
    }
    let what = match window::window(address) {
        Window::Shared => "a generic address, which `cvta.to.shared` makes one of shared memory",
        Window::Local => "an address of local memory",
        Window::Parameter => "an address of a parameter",
        Window::Function => "the address of a function",
        Window::Global if address >= window::GLOBAL => "an address of global memory",
        Window::Global => "none of any memory",
    };
    format!("; it is no address of shared memory, but {what}")
}

/// What is no `mbarrier` instruction must leave mbarriers alone.
fn check_mbarriers(
    access: Access,
    offsets: &Addresses,
    mask: u32,
    mbarriers: &Mbarriers,
) -> Outcome {
    let (from, to) = mbarriers.range();
    if to == 0 {
        return Ok(());
    }
    let (from, to, bytes) = (u64::from(from), u64::from(to), u64::from(access.bytes));
    let near = select(mask, |lane| offsets[lane] < to && offsets[lane] + bytes > from);
    // What a warp accesses mostly lies together: one look between mbarriers does for all lanes.
    let first = lanes(near).map(|lane| offsets[lane]).min();
    let last = lanes(near).map(|lane| offsets[lane]).max();
    let (Some(first), Some(last)) = (first, last) else { return Ok(()) };
    if mbarriers.touched(first as u32, (last - first) as u32 + access.bytes).is_none() {
        return Ok(());
    }
    for lane in lanes(near) {
        mbarriers
            .check_access(access.name, offsets[lane] as u32, access.bytes)
            .map_err(|problem| Fault::at_lane(lane, ReportKind::Synchronisation(problem)))?;
    }
    Ok(())
}

fn visit_local(
    context: &mut Context<'_>,
    access: Access,
    addresses: &Addresses,
    mask: u32,
    act: Act<'_>,
) -> Outcome {
    check_lanes(access, |_| "local", addresses, mask)?;
    context.grid.statistics.local_bytes += u64::from(access.bytes * mask.count_ones());
    for lane in lanes(mask) {
        let bytes = &mut context.warp.local[lane];
        let address = addresses[lane];
        let end = address.checked_add(access.bytes.into());
        if end.is_none_or(|end| end > bytes.len() as u64) {
            let hint = format!("; the thread has {} bytes", bytes.len());
            return Err(out_of_bounds(access, "local", lane, address, hint));
        }
        act(&mut Region {
            bytes,
            mask: 1 << lane,
            offsets: *addresses,
            space: "local",
            base: 0,
            key: 0,
            shadow: None,
            races: &mut context.grid.races,
            warp: context.warp.id,
            line: context.line,
            size: access.bytes,
            constant: None,
        })?;
    }
    Ok(())
}

/// Parameter variables that live in the frame, each lane's own.
fn visit_parameters(
    context: &mut Context<'_>,
    access: Access,
    addresses: &Addresses,
    mask: u32,
    act: Act<'_>,
) -> Outcome {
    check_lanes(access, |_| "parameter", addresses, mask)?;
    let stride = (context.frame.parameters.len() / 32) as u64;
    let first = mask.trailing_zeros() as usize;
    let address = addresses[first];
    let end = address.checked_add(access.bytes.into());
    if end.is_none_or(|end| end > stride) {
        return Err(out_of_bounds(access, "parameter", first, address, String::new()));
    }
    let offsets = std::array::from_fn(|lane| addresses[lane] + stride * lane as u64);
    act(&mut Region {
        bytes: &mut context.frame.parameters,
        mask,
        offsets,
        space: "parameter",
        base: 0,
        key: 0,
        shadow: None,
        races: &mut context.grid.races,
        warp: context.warp.id,
        line: context.line,
        size: access.bytes,
        constant: None,
    })
}

/// The parameter block of the kernel: all threads see the same.
pub(crate) fn visit_kernel_parameters(
    context: &mut Context<'_>,
    access: Access,
    addresses: &Addresses,
    mask: u32,
    act: Act<'_>,
) -> Outcome {
    check_lanes(access, |_| "parameter", addresses, mask)?;
    let length = context.grid.parameters.len() as u64;
    for lane in lanes(mask) {
        let address = addresses[lane];
        let end = address.checked_add(access.bytes.into());
        if end.is_none_or(|end| end > length) {
            let hint = format!("; the kernel has {length} bytes of parameters");
            return Err(out_of_bounds(access, "parameter", lane, address, hint));
        }
    }
    act(&mut Region {
        bytes: &mut context.grid.parameters,
        mask,
        offsets: *addresses,
        space: "parameter",
        base: 0,
        key: 0,
        shadow: None,
        races: &mut context.grid.races,
        warp: context.warp.id,
        line: context.line,
        size: access.bytes,
        constant: Some("a kernel's parameters"),
    })
}
