//! `clusterlaunchcontrol`: a running block takes over the index of a cluster that has not started
//! (PTX ISA 9.1, 9.7.13.16).
//!
//! The response is opaque. Here it is the index of the first block, x to z, and a mark which says
//! whether there is one.

use super::Copy;
use super::bulk::{check_barrier, check_same_block};
use super::engine::{Work, issue as issue_work};
use super::load::{Load, Source};
use crate::execute::grid::GridState;
use crate::execute::registers::lanes;
use crate::execute::report::{Fault, ReportKind};
use crate::execute::{Context, Outcome};
use crate::ops::Operation;
use crate::ops::access::{Space, addresses, check_address};
use crate::ops::mbarrier::{SharedPlace, Wanted};
use crate::program::operand::{Address, Destination, Source128};
use crate::program::types::DataType;
use crate::program::{Form, Problem};
use crate::race::Proxy;

/// Bytes of a response.
pub(super) const BYTES: u32 = 16;
/// The last word of a response to a request that was granted, and to one that was not.
const GRANTED: u32 = 0x434C_4301;
const REFUSED: u32 = 0x434C_4300;

/// `clusterlaunchcontrol.try_cancel`.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    space: Space,
    to: Address,
    barrier: Address,
    /// Whether every block of the cluster gets the response.
    multicast: bool,
}

/// `clusterlaunchcontrol.query_cancel`.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    response: Source128,
    answer: Answer,
}

/// What is asked of a response.
#[derive(Clone, Debug)]
enum Answer {
    /// Whether there is a block to take over.
    IsCanceled(Destination),
    /// Indices of the block along some axes.
    First(Vec<(usize, Destination)>),
}

/// Lowers `clusterlaunchcontrol`.
pub(crate) fn lower(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    if form.generation() < 100 {
        return Err("this is for targets from sm_100 on".to_owned());
    }
    let operation = if form.take("try_cancel") {
        Copy::Cancel(lower_request(form)?)
    } else if form.take("query_cancel") {
        Copy::Query(lower_query(form)?)
    } else {
        return Err("an action is missing".to_owned());
    };
    form.emit(Operation::Copy(Box::new(operation)));
    Ok(())
}

fn lower_request(form: &mut Form<'_, '_>) -> Result<Request, Problem> {
    if !form.take("async") || !form.take("mbarrier::complete_tx::bytes") || !form.take("b128") {
        return Err("`.async`, `.mbarrier::complete_tx::bytes` or `.b128` is missing".to_owned());
    }
    let space = if form.take("shared::cta") { Space::Shared } else { Space::Generic };
    let multicast = form.take("multicast::cluster::all");
    if multicast && !form.has_tensor_memory() {
        return Err("`.multicast::cluster::all` is for targets such as sm_100a".to_owned());
    }
    form.finish()?;
    form.expect(2)?;
    let (to, barrier) = (space.address(form, 0)?, space.address(form, 1)?);
    check_address(space, to)?;
    check_address(space, barrier)?;
    Ok(Request { space, to, barrier, multicast })
}

fn lower_query(form: &mut Form<'_, '_>) -> Result<Query, Problem> {
    const AXES: [&str; 3] = ["get_first_ctaid::x", "get_first_ctaid::y", "get_first_ctaid::z"];
    let is_canceled = form.take("is_canceled");
    let axis = AXES.iter().position(|word| form.take(word));
    let all = form.take("get_first_ctaid");
    if all && !form.take("v4") {
        return Err("`.v4` is missing".to_owned());
    }
    let result = if is_canceled { "pred" } else { "b32" };
    if !form.take(result) || !form.take("b128") {
        return Err(format!("`.{result}.b128` is missing"));
    }
    form.finish()?;
    form.expect(2)?;
    let answer = match axis {
        _ if is_canceled => Answer::IsCanceled(form.destination_predicate(0)?),
        Some(axis) => Answer::First(vec![(axis, form.destination(0, DataType::B32)?)]),
        None if all => {
            let elements = form.elements(0)?;
            if elements.len() != 4 {
                return Err("a vector of 4 elements is wanted".to_owned());
            }
            // The fourth holds nothing.
            let list = elements.iter().take(3).map(|own| form.destination_of(own, DataType::B32));
            let list = list.collect::<Result<Vec<_>, _>>()?;
            form.destination_of(&elements[3], DataType::B32)?;
            Answer::First(list.into_iter().enumerate().collect())
        }
        None => return Err("what is asked of the response is missing".to_owned()),
    };
    Ok(Query { response: form.source128(1)?, answer })
}

/// Issues requests.
pub(super) fn request(own: &Request, context: &mut Context<'_>) -> Outcome {
    let targets = addresses(own.to, context);
    let barriers = addresses(own.barrier, context);
    for lane in lanes(context.mask) {
        if let Some(line) = context.block().refused_request {
            let text = format!(
                "clusterlaunchcontrol.try_cancel by a block that has seen, in PTX line {line}, a \
                 request fail: it must not ask again"
            );
            return Err(Fault::at_lane(lane, ReportKind::Synchronisation(text)));
        }
        let find = |address: u64, bytes: u64| {
            let access = "clusterlaunchcontrol.try_cancel";
            let wanted = Wanted { access, bytes, alignment: bytes };
            let at = (lane, address);
            SharedPlace::find(context.cluster, context.rank, own.space, at, wanted)
        };
        let to = find(targets[lane], BYTES.into())?;
        let barrier = find(barriers[lane], 8)?;
        let mut ranks = check_same_block(lane, to, barrier)?;
        if own.multicast {
            ranks = (0..context.cluster.blocks.len()).fold(0, |all, rank| all | 1 << rank);
        }
        for rank in lanes(ranks) {
            if rank != context.rank
                && let Some(hint) = context.cluster.blocks[rank].absence()
            {
                let text = format!("clusterlaunchcontrol.try_cancel to all blocks{hint}");
                return Err(Fault::at_lane(lane, ReportKind::Operand(text)));
            }
            check_barrier(context, lane, SharedPlace { rank, offset: barrier.offset })?;
        }
        let (to, barrier, proxy) = (to.offset, barrier.offset, Proxy::Async);
        let load = Load {
            source: Source::Cluster,
            to,
            ranks,
            barrier,
            parity: None,
            reduction: None,
            proxy,
        };
        issue_work(context, 1 << lane, Work::Load(Box::new(load)));
    }
    Ok(())
}

/// The response to a request: the next cluster that has not started does not start.
pub(super) fn response(grid: &mut GridState) -> [u8; BYTES as usize] {
    let first = grid.clusters.take();
    let shape = grid.config.cluster.map(|length| length.max(1));
    let mut bytes = [0; BYTES as usize];
    let words = bytes.as_chunks_mut::<4>().0;
    for (axis, word) in words.iter_mut().enumerate() {
        let value = match (first, axis) {
            (Some(index), 0..3) => index[axis].wrapping_mul(shape[axis]),
            (None, 0..3) => grid.random.next() as u32,
            (Some(_), _) => GRANTED,
            (None, _) => REFUSED,
        };
        *word = value.to_le_bytes();
    }
    bytes
}

/// Answers what is asked of responses.
pub(super) fn query(own: &Query, context: &mut Context<'_>) -> Outcome {
    let responses = context.frame.registers.quads(own.response);
    let word = |lane: usize, index: usize| (responses[lane] >> (32 * index)) as u32;
    let mut granted = 0;
    for lane in lanes(context.mask) {
        match word(lane, 3) {
            GRANTED => granted |= 1 << lane,
            REFUSED => {}
            _ => {
                let text = "this is no response of clusterlaunchcontrol.try_cancel".to_owned();
                return Err(Fault::at_lane(lane, ReportKind::Operand(text)));
            }
        }
    }
    let (mask, refused) = (context.mask, context.mask & !granted);
    match &own.answer {
        Answer::IsCanceled(to) => {
            if refused != 0 {
                let line = context.line;
                context.block().refused_request.get_or_insert(line);
            }
            context.frame.registers.set_predicate(*to, mask, granted);
        }
        Answer::First(list) => {
            if refused != 0 {
                let text = "the first block of a request that was refused is asked for: ask \
                            `is_canceled` before";
                let lane = refused.trailing_zeros() as usize;
                return Err(Fault::at_lane(lane, ReportKind::Operand(text.to_owned())));
            }
            for (axis, to) in list {
                let values = std::array::from_fn(|lane| word(lane, *axis));
                context.frame.registers.set_words(*to, mask, &values);
            }
        }
    }
    Ok(())
}
