//! What the modifiers of `ld`, `ldu` and `st` may say together (PTX ISA, "ld" and "st").

use super::Order;
use crate::module::{Operand, Reference, StateSpace};
use crate::ops::access::Space;
use crate::program::types::DataType;
use crate::program::{Form, Problem};

/// The most bytes of a lane but for the wide accesses of newer architectures.
const NARROW_BYTES: u32 = 16;

/// Takes order and scope. Blocks do not differ in how far they are, so scopes do not matter.
pub(super) fn take_order(form: &mut Form<'_, '_>) -> Result<Order, Problem> {
    let is_store = form.mnemonic() == "st";
    let device = form.take("mmio");
    let orders = [("weak", Order::Weak), ("relaxed", Order::Relaxed), ("volatile", Order::Relaxed)];
    let is_volatile = form.has("volatile");
    let order = match form.take_one(&orders) {
        Some(order) => Some(order),
        None if is_store => form.take_one(&[("release", Order::Release)]),
        None => form.take_one(&[("acquire", Order::Acquire)]),
    };
    let scope = super::take_scope(form);
    let order = order.unwrap_or(Order::Weak);
    match (order == Order::Weak || is_volatile, scope) {
        (true, Some(scope)) => {
            return Err(format!("the scope `.{scope}` needs an order such as `.relaxed`"));
        }
        (false, None) => return Err("a scope is missing".to_owned()),
        _ => {}
    }
    if device && (scope != Some("sys") || is_volatile) {
        return Err("`.mmio` goes with an order such as `.relaxed` and with `.sys`".to_owned());
    }
    Ok(order)
}

/// Checks space, order and hints against one another, before they are taken.
pub(super) fn check(form: &Form<'_, '_>, space: Space, order: Order) -> Result<(), Problem> {
    let is_store = form.mnemonic() == "st";
    let is_global = matches!(space, Space::Global | Space::Generic);
    let given = |words: &[&'static str]| words.iter().copied().find(|word| form.has(word));
    let refuse = |word: &str| Err(format!("modifier `.{word}` is not supported here"));
    if form.mnemonic() == "ldu" && !is_global {
        return Err("`ldu` is for global memory".to_owned());
    }
    if order != Order::Weak && matches!(space, Space::Constant | Space::Parameter) {
        return Err("accesses of constants and parameters have no order".to_owned());
    }
    if order != Order::Weak && space == Space::Local && !form.has("volatile") {
        return Err("accesses of local memory have no order".to_owned());
    }
    let wrong = if is_store { &["ca", "lu", "cv", "nc"][..] } else { &["wb", "wt"] };
    if let Some(word) = given(wrong) {
        return refuse(word);
    }
    let operation = given(&["ca", "cg", "cs", "lu", "cv", "wb", "wt"]);
    let eviction = given(&[
        "L1::evict_normal",
        "L1::evict_unchanged",
        "L1::evict_first",
        "L1::evict_last",
        "L1::no_allocate",
    ]);
    let prefetch = given(&["L2::64B", "L2::128B", "L2::256B"]);
    if let Some(word) = prefetch.filter(|_| is_store || !is_global) {
        return refuse(word);
    }
    if let Some(word) = eviction.or(given(&["L2::cache_hint"])).filter(|_| !is_global) {
        return refuse(word);
    }
    if let (Some(word), true) = (operation, eviction.is_some() || order != Order::Weak) {
        return Err(format!("`.{word}` goes with no eviction priority and no order"));
    }
    if form.has("nc") && (space != Space::Global || order != Order::Weak) {
        return Err("`.nc` is for weak loads of global memory".to_owned());
    }
    Ok(())
}

/// The element and how many there are, which together are at most 16 bytes on older architectures.
pub(super) fn check_width(
    form: &Form<'_, '_>,
    element: DataType,
    length: u32,
) -> Result<(), Problem> {
    use DataType::{B8, B16, B32, B64, B128, F32, F64, S8, S16, S32, S64, U8, U16, U32, U64};
    let types = [B8, B16, B32, B64, B128, U8, U16, U32, U64, S8, S16, S32, S64, F32, F64];
    if !types.contains(&element) {
        return Err(format!(
            "there is nothing of the type `.{}` in memory; `.b8` to `.b128` are for any bits",
            element.word()
        ));
    }
    let bytes = element.bytes() * length;
    let is_wide = bytes > NARROW_BYTES || length == 8;
    if is_wide && !matches!((element.bytes(), length), (4, 8) | (8, 4)) {
        return Err(format!(
            "vectors of {length} elements of the type `.{}` have {bytes} bytes; up to 4 elements \
             of together {NARROW_BYTES} bytes are possible, and from sm_100 on 8 of 4 bytes or 4 of 8",
            element.word()
        ));
    }
    if is_wide && form.generation() < 100 {
        return Err(format!(
            "{bytes} bytes at once need an architecture from sm_100 on; others have {NARROW_BYTES}"
        ));
    }
    let evicts = ["L2::evict_normal", "L2::evict_first", "L2::evict_last"];
    match evicts.into_iter().find(|word| form.has(word)) {
        Some(word) if !is_wide => {
            Err(format!("`.{word}` is for 32 bytes at once, not for {bytes}"))
        }
        _ => Ok(()),
    }
}

/// Parameters of functions and of calls: who may read and write them ("Parameter State Space").
pub(super) fn check_parameter(form: &mut Form<'_, '_>, index: usize) -> Result<(), Problem> {
    let is_store = form.mnemonic() == "st";
    let Operand::Address(address) = form.operand(index)? else { return Ok(()) };
    let crate::module::Base::Name(name) = address.base else {
        return Err("a parameter has a name".to_owned());
    };
    let is_entry = form.lowering().is_entry();
    let of_call =
        matches!(name, Reference::Local(_)) && form.symbol_space(index) == Some(StateSpace::Param);
    if of_call && form.is_guarded() {
        return Err("parameters of calls are not accessed under a predicate".to_owned());
    }
    match name {
        Reference::Register(_) if is_store => Err("a parameter that is written has a name".into()),
        Reference::Parameter(_) if is_store => Err("a function's parameters are only read".into()),
        Reference::Return(_) if !is_store => Err("what a function returns is only written".into()),
        _ if form.has("param::entry") && (is_store || of_call) => {
            Err("`.param::entry` is for reading a function's parameters".to_owned())
        }
        Reference::Parameter(_) if is_entry && form.has("param::func") => {
            Err("`.param::func` is for parameters of calls and functions".to_owned())
        }
        _ => Ok(()),
    }
}
