//! From the text of `mbarrier` instructions to operations.

use super::{Arrival, Awaited, Location, Mbarrier, Waiting};
use crate::module::StateSpace;
use crate::ops::Operation;
use crate::ops::access::Space;
use crate::program::operand::Destination;
use crate::program::types::DataType;
use crate::program::{Form, Problem};

/// Lowers `mbarrier`.
pub(crate) fn lower(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    let operation = if form.take("init") {
        own_block(form)?;
        take_type_and_space(form)?;
        expect(form, 2..=2)?;
        Mbarrier::Init(Location::of(form, 0)?, form.source32(1, DataType::U32)?)
    } else if form.take("inval") {
        own_block(form)?;
        take_type_and_space(form)?;
        expect(form, 1..=1)?;
        Mbarrier::Invalidate(Location::of(form, 0)?)
    } else if form.take("arrive") {
        Mbarrier::Arrive(lower_arrival(form, false)?)
    } else if form.take("arrive_drop") {
        Mbarrier::Arrive(lower_arrival(form, true)?)
    } else if form.take("pending_count") {
        form.take("b64");
        expect(form, 2..=2)?;
        Mbarrier::PendingCount(
            form.destination(0, DataType::U32)?,
            form.source64(1, DataType::B64)?,
        )
    } else if form.take("test_wait") {
        Mbarrier::Wait(lower_wait(form, false)?)
    } else if form.take("try_wait") {
        Mbarrier::Wait(lower_wait(form, true)?)
    } else if form.has("expect_tx") || form.has("complete_tx") {
        lower_transaction(form)?
    } else {
        return Err("an action is missing".to_owned());
    };
    form.emit(Operation::Mbarrier(Box::new(operation)));
    Ok(())
}

impl Location {
    /// Operand `index` in the space that the instruction names. The modifiers stay as they are.
    fn of(form: &mut Form<'_, '_>, index: usize) -> Result<Self, Problem> {
        let space = if form.has("shared::cluster") {
            Space::SharedCluster
        } else if form.has("shared") || form.has("shared::cta") {
            Space::Shared
        } else {
            Space::Generic
        };
        if form.symbol_space(index).is_some_and(|own| own != StateSpace::Shared) {
            return Err("an mbarrier lies in shared memory".to_owned());
        }
        Ok(Self { space, address: space.address(form, index)? })
    }
}

/// Some actions are for mbarriers of the own block.
fn own_block(form: &Form<'_, '_>) -> Result<(), Problem> {
    if form.has("shared::cluster") {
        return Err("this is for mbarriers of the own block, not `.shared::cluster`".to_owned());
    }
    Ok(())
}

fn take_type_and_space(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    if !form.take("b64") {
        return Err("`.b64` is missing".to_owned());
    }
    form.take_one(&[("shared", ()), ("shared::cta", ()), ("shared::cluster", ())]);
    Ok(())
}

/// Whether the order is more than relaxed. Blocks do not differ in how far they are, so scopes do
/// not matter.
fn take_order(form: &mut Form<'_, '_>, order: &'static str) -> bool {
    let ordered = form.take_one(&[(order, true), ("relaxed", false)]).unwrap_or(true);
    form.take_one(&[("cta", ()), ("cluster", ())]);
    ordered
}

fn expect(form: &Form<'_, '_>, counts: std::ops::RangeInclusive<usize>) -> Result<(), Problem> {
    form.finish()?;
    if counts.contains(&form.count()) {
        return Ok(());
    }
    Err(format!("takes {} to {} operands here", counts.start(), counts.end()))
}

fn lower_arrival(form: &mut Form<'_, '_>, drop: bool) -> Result<Arrival, Problem> {
    let expects = form.take("expect_tx");
    let may_complete = !form.take("noComplete");
    if !may_complete && (form.has("shared::cluster") || form.has("cluster")) {
        return Err("`.noComplete` is for the own block, with the scope `.cta`".to_owned());
    }
    let releases = take_order(form, "release");
    take_type_and_space(form)?;
    // With `.shared::cluster` the state may be left out of the text altogether.
    let has_state = usize::from(!matches!(form.operand(0)?, crate::module::Operand::Address(_)));
    let last = has_state + 1;
    let needs_value = expects || !may_complete;
    expect(form, last + usize::from(needs_value)..=last + 1)?;
    let location = Location::of(form, has_state)?;
    let state =
        if has_state == 1 { form.destination(0, DataType::B64)? } else { Destination(None) };
    if location.space == Space::SharedCluster && state.0.is_some() {
        return Err("an arrival on `.shared::cluster` has no state".to_owned());
    }
    let value = match form.count() > last {
        true => Some(form.source32(last, DataType::U32)?),
        false => None,
    };
    let (count, bytes) = if expects { (None, value) } else { (value, None) };
    Ok(Arrival { location, state, count, bytes, drop, may_complete, releases })
}

fn lower_transaction(form: &mut Form<'_, '_>) -> Result<Mbarrier, Problem> {
    let expects = form.take("expect_tx");
    if !expects {
        form.take("complete_tx");
    }
    form.take("relaxed");
    form.take_one(&[("cta", ()), ("cluster", ())]);
    take_type_and_space(form)?;
    expect(form, 2..=2)?;
    let bytes = form.source32(1, DataType::U32)?;
    Ok(Mbarrier::Transact { location: Location::of(form, 0)?, bytes, expects })
}

fn lower_wait(form: &mut Form<'_, '_>, may_suspend: bool) -> Result<Waiting, Problem> {
    let parity = form.take("parity");
    let acquires = take_order(form, "acquire");
    take_type_and_space(form)?;
    expect(form, 3..=3 + usize::from(may_suspend))?;
    let location = Location::of(form, 1)?;
    if location.space == Space::SharedCluster {
        return Err("only mbarriers of the own block can be waited for".to_owned());
    }
    let awaited = match parity {
        true => Awaited::Parity(form.source32(2, DataType::U32)?),
        false => Awaited::State(form.source64(2, DataType::B64)?),
    };
    if form.count() == 4 {
        // How long to suspend is a hint; it is a source all the same.
        form.source32(3, DataType::U32)?;
    }
    let to = form.destination_predicate(0)?;
    Ok(Waiting { location, to, awaited, acquires, may_suspend })
}
