//! `fence` and `membar`.

use super::memory::take_scope;
use crate::execute::registers::lanes;
use crate::execute::report::{Fault, ReportKind};
use crate::execute::{Context, Outcome, check_alignment};
use crate::machine::window::{self, Window};
use crate::ops::Operation;
use crate::program::operand::Address;
use crate::program::{Form, Problem};
use crate::race::MemoryKind;

/// The size of a tensor map in bytes, the only one its fence takes.
const TENSOR_MAP_BYTES: u64 = 128;
/// What the address of a tensor map is a multiple of.
const TENSOR_MAP_ALIGNMENT: u64 = 64;

/// A fence.
#[derive(Clone, Debug)]
pub(crate) enum Fence {
    /// Between accesses of the generic proxy. Scopes, and the kinds of memory that a
    /// `.sync_restrict` names, do not matter: more is ordered than the instruction promises.
    Generic,
    /// Between the generic and the async proxy, in these memories. Those of the own block and of
    /// others of the cluster are not told apart.
    Proxy(&'static [MemoryKind]),
    /// Both. Of a `.tensormap::generic.acquire` the tensor map that is read next.
    Both(Option<Address>),
}

/// Lowers `fence` and `membar`.
pub(crate) fn lower(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    if form.mnemonic() == "membar"
        && form.take_one(&[("gl", ()), ("cta", ()), ("sys", ())]).is_some()
    {
        return finish(form, Fence::Generic);
    }
    if form.take("proxy") {
        return lower_proxy(form);
    }
    if form.mnemonic() == "membar" {
        return Err("a level is missing".to_owned());
    }
    if form.take("mbarrier_init") {
        if !form.take("release") || !form.take("cluster") {
            return Err("`.mbarrier_init` takes `.release.cluster`".to_owned());
        }
        return finish(form, Fence::Generic);
    }
    let [acquire, release] = DIRECTIONS.map(|(word, own)| (word, Some(own)));
    let orders = [("sc", None), ("acq_rel", None), acquire, release];
    if let Some(direction) = form.take_one(&orders).flatten() {
        take_restriction(form, direction)?;
    }
    if !["cta", "cluster", "gpu", "sys"].iter().any(|scope| form.has(scope)) {
        return Err("a scope is missing".to_owned());
    }
    take_scope(form);
    finish(form, Fence::Generic)
}

/// Which side of what it orders a fence is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Acquire,
    Release,
}

const DIRECTIONS: [(&str, Direction); 2] =
    [("acquire", Direction::Acquire), ("release", Direction::Release)];

/// Whether a fence says which memory alone it orders.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Restriction {
    Given,
    Absent,
}

/// What an acquiring or a releasing fence is restricted to, at the scope of the cluster.
fn take_restriction(form: &mut Form<'_, '_>, direction: Direction) -> Result<Restriction, Problem> {
    let (own, other) = ("sync_restrict::shared::cta", "sync_restrict::shared::cluster");
    let (right, wrong) = match direction {
        Direction::Acquire => (other, own),
        Direction::Release => (own, other),
    };
    if form.has(wrong) {
        return Err(format!("`.{wrong}` does not go with this order; `.{right}` does"));
    }
    if !form.take(right) {
        return Ok(Restriction::Absent);
    }
    if !form.has("cluster") {
        return Err("`.sync_restrict` goes with `.cluster`".to_owned());
    }
    Ok(Restriction::Given)
}

fn lower_proxy(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    if form.take("alias") {
        // No memory here has two virtual addresses.
        form.finish()?;
        form.expect(0)?;
        form.emit(Operation::Nothing);
        return Ok(());
    }
    if form.take("async") {
        const GLOBAL: &[MemoryKind] = &[MemoryKind::Global];
        const SHARED: &[MemoryKind] = &[MemoryKind::Shared];
        let spaces = [("global", GLOBAL), ("shared::cta", SHARED), ("shared::cluster", SHARED)];
        let kinds = form.take_one(&spaces).unwrap_or(&MemoryKind::ALL);
        return finish(form, Fence::Proxy(kinds));
    }
    let is_map = form.take("tensormap::generic");
    if !is_map && !form.take("async::generic") {
        return Err("this proxy is not supported".to_owned());
    }
    let direction = form.take_one(&DIRECTIONS).ok_or("`.acquire` or `.release` is missing")?;
    if !is_map && take_restriction(form, direction)? == Restriction::Absent {
        return Err("`.sync_restrict` is missing".to_owned());
    }
    if take_scope(form).is_none() {
        return Err("a scope is missing".to_owned());
    }
    if !is_map || direction == Direction::Release {
        return finish(form, Fence::Both(None));
    }
    form.finish()?;
    form.expect(2)?;
    if form.constant(1)? != TENSOR_MAP_BYTES as i64 {
        return Err(format!("a tensor map has {TENSOR_MAP_BYTES} bytes"));
    }
    // A symbol may lie anywhere.
    let address = form.address(0, form.symbol_space(0))?;
    form.emit(Operation::Fence(Fence::Both(Some(address))));
    Ok(())
}

fn finish(form: &mut Form<'_, '_>, fence: Fence) -> Result<(), Problem> {
    form.finish()?;
    form.expect(0)?;
    form.emit(Operation::Fence(fence));
    Ok(())
}

/// Executes a fence.
pub(crate) fn execute(fence: &Fence, context: &mut Context<'_>) -> Outcome {
    let (warp, mask) = (context.warp.id, context.mask);
    if let Fence::Both(Some(address)) = fence {
        check_map(*address, context)?;
    }
    let races = &mut context.grid.races;
    match fence {
        Fence::Generic => races.fence(warp, mask),
        Fence::Proxy(kinds) => races.proxy_fence(warp, mask, kinds),
        Fence::Both(_) => {
            races.fence(warp, mask);
            races.proxy_fence(warp, mask, &MemoryKind::ALL);
        }
    }
    Ok(())
}

/// The tensor map must lie in global memory.
fn check_map(address: Address, context: &mut Context<'_>) -> Outcome {
    let addresses = super::access::addresses(address, context);
    for lane in lanes(context.mask) {
        let address = addresses[lane];
        check_alignment("tensor map fence", "global", address, TENSOR_MAP_ALIGNMENT)
            .map_err(|kind| Fault::at_lane(lane, kind))?;
        let memory = &mut context.grid.memory;
        let is_global = window::window(address) == Window::Global;
        if !is_global || memory.find(address, TENSOR_MAP_BYTES).is_none() {
            let hint = memory.hint(address);
            let (access, space) = ("tensor map fence", "global");
            let bytes = TENSOR_MAP_BYTES;
            let kind = ReportKind::OutOfBounds { access, space, address, bytes, hint };
            return Err(Fault::at_lane(lane, kind));
        }
    }
    Ok(())
}
