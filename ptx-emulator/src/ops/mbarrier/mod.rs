//! `mbarrier`: barriers in shared memory that count arrivals and bytes (PTX ISA 9.1, 9.7.13.15).

mod lower;
mod place;
mod state;

pub(crate) use lower::lower;
pub(crate) use place::{SharedPlace, Wanted};
pub(crate) use state::Mbarriers;

use super::access::{self, Effect, Space};
use crate::execute::registers::{lanes, select};
use crate::execute::report::{Fault, ReportKind};
use crate::execute::{Context, Flow, Outcome, Wait};
use crate::program::operand::{Address, Destination, Source32, Source64};
use crate::race::{LaneAccess, Overlap, Strength};

/// One in so many waits that could go on waiting ends without cause, which programs must expect.
const SPURIOUS: u64 = 32;

/// An operation on an mbarrier.
#[derive(Clone, Debug)]
pub(crate) enum Mbarrier {
    /// `init` with a count of arrivals.
    Init(Location, Source32),
    /// `inval`.
    Invalidate(Location),
    /// `arrive` and `arrive_drop`.
    Arrive(Arrival),
    /// `expect_tx`, or `complete_tx` on its own.
    Transact { location: Location, bytes: Source32, expects: bool },
    /// `try_wait` and `test_wait`.
    Wait(Waiting),
    /// `pending_count` of a state.
    PendingCount(Destination, Source64),
}

/// Where mbarriers are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Location {
    space: Space,
    address: Address,
}

/// An arrival.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    location: Location,
    /// Gets the state before the arrival.
    state: Destination,
    /// Arrivals at once; one if absent.
    count: Option<Source32>,
    /// Bytes announced in the same step.
    bytes: Option<Source32>,
    drop: bool,
    may_complete: bool,
    releases: bool,
}

/// A wait.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    location: Location,
    to: Destination,
    awaited: Awaited,
    acquires: bool,
    may_suspend: bool,
}

/// The phase that is waited for.
#[derive(Clone, Copy, Debug)]
enum Awaited {
    Parity(Source32),
    State(Source64),
}

/// The mbarriers of the lanes.
type Places = [Option<SharedPlace>; 32];

/// Executes an operation on mbarriers.
pub(crate) fn execute(own: &Mbarrier, context: &mut Context<'_>) -> Outcome<Flow> {
    match own {
        Mbarrier::Init(location, count) => init(*location, *count, context)?,
        Mbarrier::Invalidate(location) => invalidate(*location, context)?,
        Mbarrier::Arrive(arrival) => arrive(arrival, context)?,
        Mbarrier::Transact { location, bytes, expects } => {
            transact(*location, *bytes, *expects, context)?;
        }
        Mbarrier::Wait(waiting) => return wait(waiting, context),
        Mbarrier::PendingCount(to, state) => {
            let counts = context.frame.registers.doubles(*state).map(|state| state as u32);
            context.frame.registers.set_words(*to, context.mask, &counts);
        }
    }
    Ok(Flow::Next)
}

/// The fault of a lane's use of an mbarrier.
pub(crate) fn fault(lane: usize, place: SharedPlace, problem: &str) -> Fault {
    let text = format!("mbarrier at {:#x}: {problem}", place.address());
    Fault::at_lane(lane, ReportKind::Synchronisation(text))
}

/// Where the mbarriers of the executing lanes are. Unless written they must be alive. The accesses
/// are recorded.
fn places(
    location: Location,
    context: &mut Context<'_>,
    (name, effect, strength): (&'static str, Effect, Strength),
) -> Outcome<Places> {
    let addresses = access::addresses(location.address, context);
    let mut places = [None; 32];
    let wanted = Wanted { access: name, bytes: 8, alignment: 8 };
    for lane in lanes(context.mask) {
        let at = (lane, addresses[lane]);
        let found = SharedPlace::find(context.cluster, context.rank, location.space, at, wanted)?;
        places[lane] = Some(found);
        if effect != Effect::Write {
            let barriers = &mut context.cluster.blocks[found.rank].mbarriers;
            barriers.get(found.offset).map_err(|problem| fault(lane, found, &problem))?;
        }
    }
    if context.grid.is_checked() {
        note(&places, context, effect, strength)?;
    }
    Ok(places)
}

/// Records accesses to the eight bytes of mbarriers.
fn note(places: &Places, context: &mut Context<'_>, effect: Effect, strength: Strength) -> Outcome {
    let offsets = places.map(|place| place.map_or(0, |place| place.offset.into()));
    let mut rest = context.mask;
    while rest != 0 {
        let first = places[rest.trailing_zeros() as usize];
        let rank = first.map(|place| place.rank);
        let same = select(rest, |lane| places[lane].map(|place| place.rank) == rank);
        rest &= !same;
        let rank = rank.unwrap_or_default();
        let Some(block) = context.cluster.blocks.get_mut(rank) else { continue };
        let (shadow, races) = (&mut block.shadow, &mut context.grid.races);
        let warp = context.warp.id;
        let site = context.line;
        let own = LaneAccess { warp, mask: same, addresses: &offsets, bytes: 8, strength, site };
        // Later operations would hide from the memory's own shadow that the mbarrier was made here.
        let made = match effect {
            Effect::Read | Effect::Update => races.read_lanes(&mut block.births, &own),
            Effect::Write | Effect::WriteSame => {
                races.write_lanes(&mut block.births, &own, Overlap::Report, None)
            }
        };
        let noted = match effect {
            Effect::Read => races.read_lanes(shadow, &own),
            Effect::Update => races.atomic_lanes(shadow, &own),
            Effect::Write | Effect::WriteSame => {
                races.write_lanes(shadow, &own, Overlap::Report, None)
            }
        };
        let base = SharedPlace { rank, offset: 0 }.address();
        made.and(noted).map_err(|report| access::race_fault(races, &report, "shared", base))?;
    }
    Ok(())
}

/// Calls `act` for each mbarrier with all lanes that use it.
fn for_each_barrier(
    places: &Places,
    mask: u32,
    mut act: impl FnMut(SharedPlace, u32) -> Outcome,
) -> Outcome {
    let mut rest = mask;
    while rest != 0 {
        let first = places[rest.trailing_zeros() as usize];
        let same = select(rest, |lane| places[lane] == first);
        rest &= !same;
        if let Some(place) = first {
            act(place, same)?;
        }
    }
    Ok(())
}

fn init(location: Location, count: Source32, context: &mut Context<'_>) -> Outcome {
    let use_of = ("mbarrier.init", Effect::Write, Strength::Weak);
    let places = places(location, context, use_of)?;
    let counts = context.frame.registers.words(count);
    context.grid.progress += 1;
    for lane in lanes(context.mask) {
        let Some(place) = places[lane] else { continue };
        let agent = context.grid.races.new_barrier();
        let barriers = &mut context.cluster.blocks[place.rank].mbarriers;
        let done = barriers.init(place.offset, counts[lane], agent);
        done.map_err(|problem| fault(lane, place, &problem))?;
    }
    Ok(())
}

fn invalidate(location: Location, context: &mut Context<'_>) -> Outcome {
    let use_of = ("mbarrier.inval", Effect::Write, Strength::Weak);
    let places = places(location, context, use_of)?;
    for lane in lanes(context.mask) {
        let Some(place) = places[lane] else { continue };
        let done = context.cluster.blocks[place.rank].mbarriers.invalidate(place.offset);
        done.map_err(|problem| fault(lane, place, &problem))?;
        context.cluster.tensor.end_barrier(place.rank, place.offset);
    }
    Ok(())
}

fn arrive(own: &Arrival, context: &mut Context<'_>) -> Outcome {
    let use_of = ("mbarrier.arrive", Effect::Update, Strength::Strong);
    let places = places(own.location, context, use_of)?;
    let registers = &context.frame.registers;
    let counts = own.count.map_or([1; 32], |count| registers.words(count));
    let bytes = own.bytes.map_or([0; 32], |bytes| registers.words(bytes));
    let mut states = [0u64; 32];
    let (warp, cluster, grid) = (context.warp.id, &mut *context.cluster, &mut *context.grid);
    grid.progress += 1;
    for_each_barrier(&places, context.mask, |place, mask| {
        let first = mask.trailing_zeros() as usize;
        let found = cluster.blocks[place.rank].mbarriers.get(place.offset);
        let barrier = found.map_err(|problem| fault(first, place, &problem))?;
        if own.releases {
            grid.races.release(warp, mask, barrier.current());
        } else {
            grid.races.relaxed_release(warp, mask, barrier.current());
        }
        for lane in lanes(mask) {
            states[lane] = barrier.state();
            let announced = match own.bytes {
                Some(_) => barrier.transact(bytes[lane].into()),
                None => Ok(()),
            };
            announced
                .and_then(|()| barrier.arrive(counts[lane], own.drop, own.may_complete))
                .map_err(|problem| fault(lane, place, &problem))?;
        }
        Ok(())
    })?;
    context.frame.registers.set_doubles(own.state, context.mask, &states);
    Ok(())
}

fn transact(
    location: Location,
    bytes: Source32,
    expects: bool,
    context: &mut Context<'_>,
) -> Outcome {
    let name = if expects { "mbarrier.expect_tx" } else { "mbarrier.complete_tx" };
    let places = places(location, context, (name, Effect::Update, Strength::Strong))?;
    let bytes = context.frame.registers.words(bytes);
    context.grid.progress += 1;
    for lane in lanes(context.mask) {
        let Some(place) = places[lane] else { continue };
        let found = context.cluster.blocks[place.rank].mbarriers.get(place.offset);
        let change = i64::from(bytes[lane]);
        found
            .and_then(|barrier| barrier.transact(if expects { change } else { -change }))
            .map_err(|problem| fault(lane, place, &problem))?;
    }
    Ok(())
}

fn wait(own: &Waiting, context: &mut Context<'_>) -> Outcome<Flow> {
    let name = if own.may_suspend { "mbarrier.try_wait" } else { "mbarrier.test_wait" };
    let places = places(own.location, context, (name, Effect::Read, Strength::Strong))?;
    let registers = &context.frame.registers;
    let (parities, states) = match own.awaited {
        Awaited::Parity(parity) => (registers.words(parity), [0; 32]),
        Awaited::State(state) => ([0; 32], registers.doubles(state)),
    };
    let mut complete = 0u32;
    let mut missing = None;
    let (warp, cluster, grid) = (context.warp.id, &mut *context.cluster, &mut *context.grid);
    for_each_barrier(&places, context.mask, |place, mask| {
        let first = mask.trailing_zeros() as usize;
        let found = cluster.blocks[place.rank].mbarriers.get(place.offset);
        let barrier = found.map_err(|problem| fault(first, place, &problem))?;
        let mut done = 0;
        for lane in lanes(mask) {
            let is_complete = match own.awaited {
                Awaited::Parity(_) if parities[lane] > 1 => {
                    let problem = format!("parity {}; it is 0 or 1", parities[lane]);
                    return Err(fault(lane, place, &problem));
                }
                Awaited::Parity(_) => barrier.has_completed(parities[lane]),
                Awaited::State(_) => barrier
                    .has_left(states[lane])
                    .map_err(|problem| fault(lane, place, &problem))?,
            };
            done |= u32::from(is_complete) << lane;
        }
        if done != mask {
            missing = Some((place, barrier.phase()));
        }
        if done != 0 && own.acquires {
            grid.races.acquire(warp, done, barrier.completed());
        } else if done != 0 {
            grid.races.relaxed_acquire(warp, done, barrier.completed());
        }
        complete |= done;
        Ok(())
    })?;
    if let Some((place, phase)) = missing
        && complete == 0
        && own.may_suspend
        && !grid.wake_all
        && grid.random.below(SPURIOUS) != 0
    {
        let address = place.address() as u32;
        return Ok(Flow::Wait(Wait::Mbarrier { address, phase }, None));
    }
    context.frame.registers.set_predicate(own.to, context.mask, complete);
    // Whoever asks again and again lets others go first.
    Ok(if complete == context.mask { Flow::Next } else { Flow::Yield })
}
