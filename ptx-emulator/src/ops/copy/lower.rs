//! From the text of copies to operations.

use super::Copy;
use super::bulk::{BulkLoad, BulkSource, BulkStore, BulkTarget, Prefetch};
use super::groups::{Family, GroupWait};
use super::remote::{self, shared_type};
use super::tensor::TensorOperand;
use super::threads::{Arrival, ThreadCopy, Valid};
use crate::module::{Operand, StateSpace};
use crate::ops::Operation;
use crate::ops::access::Space;
use crate::program::types::DataType;
use crate::program::{Form, Problem};
use crate::tensor_map::TensorDataType;
use crate::tensor_map::reduce::{ReduceOp, reduce};

/// Lowers `cp`, `st.async` and `red.async`.
pub(crate) fn lower(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    if form.mnemonic() != "cp" {
        return remote::lower(form);
    }
    let reduces = form.take("reduce");
    if !form.take("async") {
        return Err("`.async` is missing".to_owned());
    }
    let operation = if form.take("bulk") {
        lower_bulk(form, reduces)?
    } else if reduces {
        return Err("`.bulk` is missing".to_owned());
    } else {
        lower_threads(form)?
    };
    form.emit(Operation::Copy(Box::new(operation)));
    Ok(())
}

/// `commit_group`, `wait_group` and `wait_all`.
fn lower_groups(form: &mut Form<'_, '_>, family: Family) -> Result<Option<Copy>, Problem> {
    if form.take("commit_group") {
        form.finish()?;
        form.expect(0)?;
        return Ok(Some(Copy::Commit(family)));
    }
    let all = family == Family::Threads && form.take("wait_all");
    if !all && !form.take("wait_group") {
        return Ok(None);
    }
    let family = match family {
        Family::Bulk { .. } => Family::Bulk { reads_only: form.take("read") },
        Family::Threads => family,
    };
    form.finish()?;
    form.expect(usize::from(!all))?;
    let unfinished = match all {
        true => None,
        false => Some(u32::try_from(form.constant(0)?).map_err(|_| "a negative count")?),
    };
    Ok(Some(Copy::Wait(GroupWait { family, unfinished })))
}

fn lower_threads(form: &mut Form<'_, '_>) -> Result<Copy, Problem> {
    if let Some(groups) = lower_groups(form, Family::Threads)? {
        return Ok(groups);
    }
    if form.take("mbarrier") {
        return lower_arrival(form);
    }
    let narrow = !form.has("cg");
    if narrow && !form.has("ca") {
        return Err("`.ca` or `.cg` is missing".to_owned());
    }
    let policy = form.take_cache_hints();
    let shared = form.take_one(&[("shared", ()), ("shared::cta", ())]);
    if shared.is_none() || !form.take("global") {
        return Err("it goes from `.global` to `.shared`".to_owned());
    }
    form.finish()?;
    let bytes = form.constant(2)?;
    let bytes = match bytes {
        4 | 8 if narrow => bytes as u32,
        16 => 16,
        _ => return Err(format!("a copy of {bytes} bytes")),
    };
    let last = form.count().saturating_sub(policy);
    let valid = match last {
        3 => Valid::All,
        4 => lower_valid(form)?,
        _ => return Err("a wrong number of operands".to_owned()),
    };
    check_policy(form, policy)?;
    let to = (Space::Shared, Space::Shared.address(form, 0)?);
    let from = Space::Global.address(form, 1)?;
    Ok(Copy::Threads(ThreadCopy { to, from, bytes, valid }))
}

/// The fourth operand: how many bytes are valid, or whether none is.
fn lower_valid(form: &mut Form<'_, '_>) -> Result<Valid, Problem> {
    if !matches!(form.operand(3)?, Operand::Immediate(_))
        && let Ok(ignored) = form.predicate(3)
    {
        return Ok(Valid::Unless(ignored));
    }
    Ok(Valid::Bytes(form.source32(3, DataType::U32)?))
}

/// The policy of a cache is a 64-bit source that says nothing here.
fn check_policy(form: &mut Form<'_, '_>, policy: usize) -> Result<(), Problem> {
    if policy != 0 {
        form.source64(form.count().saturating_sub(1), DataType::B64)?;
    }
    Ok(())
}

fn lower_arrival(form: &mut Form<'_, '_>) -> Result<Copy, Problem> {
    if !form.take("arrive") {
        return Err("`.arrive` is missing".to_owned());
    }
    let is_extra = !form.take("noinc");
    let space = form.take_one(&[("shared", Space::Shared), ("shared::cta", Space::Shared)]);
    let space = space.unwrap_or(Space::Generic);
    form.take("b64");
    form.finish()?;
    form.expect(1)?;
    Ok(Copy::Arrive(Arrival { barrier: (space, space.address(form, 0)?), is_extra }))
}

fn lower_bulk(form: &mut Form<'_, '_>, reduces: bool) -> Result<Copy, Problem> {
    if !reduces && let Some(own) = lower_groups(form, Family::Bulk { reads_only: false })? {
        return Ok(own);
    }
    let policy = form.take_cache_hints();
    let prefetches = !reduces && form.take("prefetch");
    let rank = lower_rank(form)?;
    if rank.is_some() {
        form.take("tile");
    }
    if prefetches {
        return lower_prefetch(form, rank, policy);
    }
    let spaces = [
        ("shared::cluster", Space::SharedCluster),
        ("shared::cta", Space::Shared),
        ("global", Space::Global),
    ];
    let (to, from) = (form.take_one(&spaces), form.take_one(&spaces));
    let op = match reduces {
        true => Some(form.take_with(ReduceOp::from_name).ok_or("an operation is missing")?),
        false => None,
    };
    match (to, from) {
        (Some(Space::Global), Some(Space::Shared)) => lower_store(form, rank, op, policy),
        (Some(to @ (Space::SharedCluster | Space::Shared)), Some(Space::Global))
            if op.is_none() =>
        {
            lower_load(form, rank, (to, Space::Global), op, policy)
        }
        (Some(Space::SharedCluster), Some(Space::Shared)) if rank.is_none() && policy == 0 => {
            lower_load(form, rank, (Space::SharedCluster, Space::Shared), op, policy)
        }
        _ => Err("no copy goes between these state spaces".to_owned()),
    }
}

/// `.tensor.2d`: the number of dimensions.
fn lower_rank(form: &mut Form<'_, '_>) -> Result<Option<usize>, Problem> {
    if !form.take("tensor") {
        return Ok(None);
    }
    let ranks = [("1d", 1), ("2d", 2), ("3d", 3), ("4d", 4), ("5d", 5)];
    form.take_one(&ranks).map(Some).ok_or_else(|| "the number of dimensions is missing".to_owned())
}

/// `[map, {c0, c1, …}]`.
fn tensor(form: &mut Form<'_, '_>, index: usize, rank: usize) -> Result<TensorOperand, Problem> {
    let bracket = form.bracket(index)?;
    let coordinates = match bracket.coordinates.as_slice() {
        [Operand::Vector(list)] => list,
        list => list,
    };
    if coordinates.len() != rank {
        return Err(format!("{rank} coordinates are wanted, not {}", coordinates.len()));
    }
    let coordinates = coordinates
        .iter()
        .map(|own| form.source32_of(own, DataType::S32))
        .collect::<Result<_, Problem>>()?;
    if form.symbol_space(index).is_some_and(|own| own != StateSpace::Global) {
        return Err("the symbol of a tensor map lies in global memory".to_owned());
    }
    Ok(TensorOperand { map: form.address_of(bracket, None)?, coordinates })
}

fn lower_prefetch(
    form: &mut Form<'_, '_>,
    rank: Option<usize>,
    policy: usize,
) -> Result<Copy, Problem> {
    if !form.take("L2") || !form.take("global") {
        return Err("`.L2.global` is missing".to_owned());
    }
    form.finish()?;
    form.expect(policy + if rank.is_some() { 1 } else { 2 })?;
    check_policy(form, policy)?;
    Ok(Copy::Prefetch(match rank {
        Some(rank) => Prefetch::Tensor(tensor(form, 0, rank)?),
        None => {
            let address = Space::Global.address(form, 0)?;
            Prefetch::Global(address, form.source32(1, DataType::U32)?)
        }
    }))
}

fn lower_load(
    form: &mut Form<'_, '_>,
    rank: Option<usize>,
    (space, from): (Space, Space),
    op: Option<ReduceOp>,
    policy: usize,
) -> Result<Copy, Problem> {
    if !form.take("mbarrier::complete_tx::bytes") {
        return Err("`.mbarrier::complete_tx::bytes` is missing".to_owned());
    }
    let multicast =
        from == Space::Global && space == Space::SharedCluster && form.take("multicast::cluster");
    let group = match rank {
        Some(_) => form.take_one(&[("cta_group::1", 1), ("cta_group::2", 2)]),
        None => None,
    };
    if group.is_some() && !form.has_tensor_memory() {
        return Err("`.cta_group` needs the target sm_100a or sm_100f".to_owned());
    }
    let paired = group == Some(2);
    let reduction = match op {
        Some(op) => Some((op, shared_type(op, form.take_type()?)?)),
        None => None,
    };
    form.finish()?;
    // The size is an operand of its own where no tensor map says it.
    let barrier = if rank.is_some() { 2 } else { 3 };
    form.expect(barrier + 1 + usize::from(multicast) + policy)?;
    check_policy(form, policy)?;
    let source = match rank {
        Some(rank) => BulkSource::Tensor(tensor(form, 1, rank)?),
        None => {
            let address = from.address(form, 1)?;
            let size = form.source32(2, DataType::U32)?;
            match from {
                Space::Global => BulkSource::Global(address, size),
                _ => BulkSource::Shared(address, size),
            }
        }
    };
    let ranks = match multicast {
        true => Some(form.source32(barrier + 1, DataType::B16)?),
        false => None,
    };
    let (to, barrier) = (space.address(form, 0)?, space.address(form, barrier)?);
    Ok(Copy::Load(BulkLoad { source, space, to, barrier, ranks, paired, reduction }))
}

fn lower_store(
    form: &mut Form<'_, '_>,
    rank: Option<usize>,
    op: Option<ReduceOp>,
    policy: usize,
) -> Result<Copy, Problem> {
    if !form.take("bulk_group") {
        return Err("`.bulk_group` is missing".to_owned());
    }
    let reduction = match (op, rank) {
        (Some(op), None) => Some((op, Some(global_type(form, op)?))),
        (Some(op), Some(_)) => Some((op, None)),
        (None, _) => None,
    };
    form.finish()?;
    form.expect(policy + if rank.is_some() { 2 } else { 3 })?;
    check_policy(form, policy)?;
    let to = match rank {
        Some(rank) => BulkTarget::Tensor(tensor(form, 0, rank)?),
        None => {
            let address = Space::Global.address(form, 0)?;
            BulkTarget::Global(address, form.source32(2, DataType::U32)?)
        }
    };
    let from = Space::Shared.address(form, 1)?;
    Ok(Copy::Store(BulkStore { from, to, reduction }))
}

/// The type of a reduction into global memory.
fn global_type(form: &mut Form<'_, '_>, op: ReduceOp) -> Result<TensorDataType, Problem> {
    let unflushed = form.take("noftz");
    let data_type = form.take_type()?;
    let bitwise = matches!(op, ReduceOp::And | ReduceOp::Or | ReduceOp::Xor);
    let found = match data_type {
        DataType::B32 if bitwise => Some(TensorDataType::U32),
        DataType::B64 if bitwise => Some(TensorDataType::U64),
        _ if bitwise => None,
        DataType::U32 => Some(TensorDataType::U32),
        DataType::S32 => Some(TensorDataType::I32),
        DataType::U64 => Some(TensorDataType::U64),
        DataType::S64 => Some(TensorDataType::I64),
        DataType::F16 => Some(TensorDataType::F16),
        DataType::Bf16 => Some(TensorDataType::Bf16),
        DataType::F32 => Some(TensorDataType::F32),
        DataType::F64 => Some(TensorDataType::F64),
        _ => None,
    };
    let found = found.filter(|found| reduce(op, *found, &mut [], &[]).is_ok());
    let found = found.ok_or_else(|| format!("`.{}` does not exist for this type", op.name()))?;
    let half = matches!(found, TensorDataType::F16 | TensorDataType::Bf16);
    if unflushed != (half && op == ReduceOp::Add) {
        return Err("`.noftz` belongs to `.add` of `.f16` and `.bf16`, and only there".to_owned());
    }
    Ok(found)
}
