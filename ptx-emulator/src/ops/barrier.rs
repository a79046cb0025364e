//! Barriers of a block and of a cluster: `bar`, `barrier`, `bar.warp.sync`.

use std::collections::HashMap;
use std::fmt::Write;

use crate::execute::block::Cluster;
use crate::execute::grid::GridState;
use crate::execute::registers::lanes;
use crate::execute::report::Fault;
use crate::execute::warp::{Token, Warp};
use crate::execute::{Context, Flow, Outcome, Wait};
use crate::ops::Operation;
use crate::ops::collective::{self, Gathered};
use crate::program::operand::{Destination, Source32, SourcePredicate};
use crate::program::types::DataType;
use crate::program::{Form, Problem};
use crate::race::SyncClock;

/// Barriers of a block.
const BARRIERS: usize = 16;

/// An operation on a barrier.
#[derive(Clone, Debug)]
pub(crate) enum Barrier {
    /// `bar.sync`, `bar.arrive` and `bar.red`.
    Block(Box<BlockBarrier>),
    /// `bar.warp.sync` with the lanes that take part.
    Warp(Source32),
    /// `barrier.cluster.arrive`: whether it releases, whether the whole warp must come.
    ClusterArrive { releases: bool, aligned: bool },
    /// `barrier.cluster.wait`.
    ClusterWait { aligned: bool },
}

/// An operation on a numbered barrier.
#[derive(Clone, Debug)]
pub(crate) struct BlockBarrier {
    index: Source32,
    /// Threads that take part; all of the block if absent.
    threads: Option<Source32>,
    action: Action,
    aligned: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Sync,
    Arrive,
    /// Counts the threads whose predicate holds.
    Count(Destination, SourcePredicate),
    /// Whether all predicates hold.
    All(Destination, SourcePredicate),
    /// Whether any predicate holds.
    Any(Destination, SourcePredicate),
}

impl Action {
    /// Reductions must not meet the other actions at a barrier ("barrier" in the PTX manual).
    fn reduces(self) -> bool {
        !matches!(self, Self::Sync | Self::Arrive)
    }
}

/// One numbered barrier.
#[derive(Debug, Default)]
struct Numbered {
    /// How often it has been completed.
    generation: u64,
    /// Threads that have arrived since.
    arrived: u32,
    /// How many must, once the first has said it.
    expected: Option<u32>,
    /// Whether those who have arrived reduce a predicate.
    reduces: bool,
    /// Threads that arrived with a predicate that holds.
    holding: u32,
    clock: SyncClock,
    /// Results of the generation completed last: threads, and those whose predicate held.
    result: (u32, u32),
    released: SyncClock,
}

/// The numbered barriers of a block.
#[derive(Debug)]
pub(crate) struct NamedBarriers {
    barriers: [Numbered; BARRIERS],
    /// Threads of the block that have not exited, which a barrier without a count waits for.
    threads: u32,
}

impl NamedBarriers {
    pub(crate) fn new(threads: u32) -> Self {
        Self { barriers: Default::default(), threads }
    }

    /// Adds the barriers somebody waits at to the description of a deadlock. `block` names their
    /// block.
    pub(crate) fn describe(&self, block: &str, text: &mut String) {
        for (index, barrier) in self.barriers.iter().enumerate() {
            if barrier.arrived > 0 {
                let expected = barrier.expected.unwrap_or(self.threads);
                let arrived = barrier.arrived;
                let _ =
                    writeln!(text, "  {block}, barrier {index}: {arrived} of {expected} threads");
            }
        }
    }
}

impl Numbered {
    fn complete_if_all(&mut self, expected: u32) -> bool {
        if self.arrived < expected {
            return false;
        }
        self.generation += 1;
        self.result = (self.arrived, self.holding);
        self.released = std::mem::take(&mut self.clock);
        (self.arrived, self.holding, self.expected) = (0, 0, None);
        true
    }
}

/// Threads of a warp that have arrived at the barrier of the cluster and not waited yet.
#[derive(Clone, Debug, Default)]
struct Pending {
    lanes: u32,
    /// The generation each of them arrived in.
    generations: [u64; 32],
}

/// The barrier of a cluster: arrival and wait are apart.
#[derive(Debug)]
pub(crate) struct ClusterBarrier {
    generation: u64,
    arrived: u32,
    threads: u32,
    clock: SyncClock,
    released: SyncClock,
    /// Threads that have arrived and not waited yet, by block and warp.
    pending: HashMap<(u32, u32), Pending>,
}

impl ClusterBarrier {
    pub(crate) fn new(threads: u32) -> Self {
        Self {
            generation: 0,
            arrived: 0,
            threads,
            clock: SyncClock::default(),
            released: SyncClock::default(),
            pending: HashMap::new(),
        }
    }

    fn complete_if_all(&mut self) -> bool {
        if self.arrived < self.threads || self.threads == 0 {
            return false;
        }
        self.generation += 1;
        self.arrived = 0;
        self.released = std::mem::take(&mut self.clock);
        true
    }
}

/// Lowers barriers.
pub(crate) fn lower(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    let bar = form.mnemonic() == "bar";
    if form.take("warp") {
        form.take("sync");
        form.finish()?;
        form.expect(1)?;
        let mask = form.source32(0, DataType::B32)?;
        form.emit(Operation::Barrier(Barrier::Warp(mask)));
        return Ok(());
    }
    if form.take("cluster") {
        return lower_cluster(form);
    }
    form.take("cta");
    // `bar` is the aligned form of `barrier`.
    let aligned = form.take("aligned") || bar;
    let action = if form.take("sync") {
        Action::Sync
    } else if form.take("arrive") {
        Action::Arrive
    } else if form.take("red") {
        lower_reduction(form)?
    } else {
        return Err("an action is missing".to_owned());
    };
    form.finish()?;
    let first = usize::from(action.reduces());
    let last = form.count() - first;
    let index = form.source32(first, DataType::U32)?;
    // `red` has its predicate behind the barrier and the count.
    let threads = match (action, last) {
        (Action::Sync | Action::Arrive, 2) => Some(form.source32(1, DataType::U32)?),
        (Action::Sync, 1) => None,
        (Action::Arrive, _) => return Err("`arrive` needs a count".to_owned()),
        (Action::Sync, _) => return Err("too many operands".to_owned()),
        (_, 3) => Some(form.source32(2, DataType::U32)?),
        (_, 2) => None,
        _ => return Err("a wrong number of operands".to_owned()),
    };
    let barrier = BlockBarrier { index, threads, action, aligned };
    form.emit(Operation::Barrier(Barrier::Block(Box::new(barrier))));
    Ok(())
}

fn lower_reduction(form: &mut Form<'_, '_>) -> Result<Action, Problem> {
    let predicate = form.predicate(form.count().saturating_sub(1))?;
    if form.take("popc") {
        form.take_type()?;
        return Ok(Action::Count(form.destination(0, DataType::U32)?, predicate));
    }
    let all = form.take("and");
    if !all && !form.take("or") {
        return Err("a reduction is missing".to_owned());
    }
    form.take_type()?;
    let to = form.destination_predicate(0)?;
    Ok(if all { Action::All(to, predicate) } else { Action::Any(to, predicate) })
}

fn lower_cluster(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    let arrive = form.take("arrive");
    if !arrive && !form.take("wait") {
        return Err("`arrive` or `wait` is missing".to_owned());
    }
    let releases = if arrive {
        form.take_one(&[("release", true), ("relaxed", false)]).unwrap_or(true)
    } else {
        form.take("acquire");
        false
    };
    let aligned = form.take("aligned");
    form.finish()?;
    form.expect(0)?;
    form.emit(Operation::Barrier(if arrive {
        Barrier::ClusterArrive { releases, aligned }
    } else {
        Barrier::ClusterWait { aligned }
    }));
    Ok(())
}

/// Executes an operation on a barrier.
pub(crate) fn execute(barrier: &Barrier, context: &mut Context<'_>) -> Outcome<Flow> {
    match barrier {
        Barrier::Block(own) => execute_block(own, context),
        Barrier::Warp(mask) => execute_warp(*mask, context),
        Barrier::ClusterArrive { releases, aligned } => {
            cluster_arrive(*releases, *aligned, context)
        }
        Barrier::ClusterWait { aligned } => cluster_wait(*aligned, context),
    }
}

fn execute_block(own: &BlockBarrier, context: &mut Context<'_>) -> Outcome<Flow> {
    if own.aligned && !context.is_aligned() {
        return Ok(Flow::Wait(Wait::Lanes(context.warp.live), None));
    }
    let first = context.mask.trailing_zeros() as usize;
    let index = context.frame.registers.words(own.index)[first];
    let block = &mut context.cluster.blocks[context.rank];
    let Some(barrier) = block.barriers.barriers.get_mut(index as usize) else {
        return Err(Fault::operand(format!("barrier {index}; a block has {BARRIERS}")));
    };
    if let Some(Token::Arrived(generation)) = context.token {
        if barrier.generation == generation {
            return Ok(Flow::Wait(Wait::Barrier(index), context.token));
        }
        let released = barrier.released.clone();
        let (threads, holding) = barrier.result;
        context.grid.races.acquire(context.warp.id, context.mask, &released);
        finish(own.action, context, threads, holding);
        return Ok(Flow::Next);
    }
    let all = block.live_threads;
    let expected = own.threads.map(|threads| context.frame.registers.words(threads)[first]);
    // With a count, a warp that takes part as a whole counts as 32 threads, even if it has fewer.
    let whole = expected.is_some() && own.aligned;
    let lanes = if whole { 32 } else { context.mask.count_ones() };
    if let Some(count) = expected
        && (count == 0 || !count.is_multiple_of(32))
    {
        let text = format!("barrier {index} for {count} threads; it takes a multiple of 32");
        return Err(Fault::synchronisation(text));
    }
    if barrier.arrived > 0 && barrier.expected != expected {
        let count = |own: Option<u32>| own.map_or("all".to_owned(), |count| count.to_string());
        return Err(Fault::synchronisation(format!(
            "barrier {index} for {} threads, while others wait at it for {}",
            count(expected),
            count(barrier.expected)
        )));
    }
    let reduces = own.action.reduces();
    if barrier.arrived > 0 && barrier.reduces != reduces {
        let others =
            if reduces { "others have come without `red`" } else { "others have come by `red`" };
        let text = format!(
            "barrier {index} is used by `bar.red` and by `bar.sync` or `bar.arrive` at once: \
             {others}"
        );
        return Err(Fault::synchronisation(text));
    }
    barrier.reduces = reduces;
    barrier.expected = expected;
    barrier.arrived += lanes;
    let wanted = expected.unwrap_or(all);
    if barrier.arrived > wanted {
        let arrived = barrier.arrived;
        let text = format!("{arrived} threads arrive at barrier {index}, which is for {wanted}");
        return Err(Fault::synchronisation(text));
    }
    if let Action::Count(_, own) | Action::All(_, own) | Action::Any(_, own) = own.action {
        let holding = context.frame.registers.predicate(own) & context.mask;
        barrier.holding += holding.count_ones();
    }
    context.grid.races.release(context.warp.id, context.mask, &mut barrier.clock);
    context.grid.progress += 1;
    let generation = barrier.generation;
    let complete = barrier.complete_if_all(wanted);
    if own.action == Action::Arrive {
        return Ok(Flow::Next);
    }
    if !complete {
        return Ok(Flow::Wait(Wait::Barrier(index), Some(Token::Arrived(generation))));
    }
    let released = barrier.released.clone();
    let (threads, holding) = barrier.result;
    context.grid.races.acquire(context.warp.id, context.mask, &released);
    finish(own.action, context, threads, holding);
    Ok(Flow::Next)
}

fn finish(action: Action, context: &mut Context<'_>, threads: u32, holding: u32) {
    let registers = &mut context.frame.registers;
    let bits = |value: bool| if value { u32::MAX } else { 0 };
    match action {
        Action::Sync | Action::Arrive => {}
        Action::Count(to, _) => registers.set_words(to, context.mask, &[holding; 32]),
        Action::All(to, _) => registers.set_predicate(to, context.mask, bits(holding >= threads)),
        Action::Any(to, _) => registers.set_predicate(to, context.mask, bits(holding > 0)),
    }
}

/// Lanes that wait with different masks may come together; each mask is then a barrier of its own.
fn execute_warp(mask: Source32, context: &mut Context<'_>) -> Outcome<Flow> {
    match collective::gather(mask, context)? {
        Gathered::Missing(lanes) => Ok(Flow::Wait(Wait::Lanes(lanes), None)),
        Gathered::Here(groups) => {
            for group in groups {
                context.grid.races.warp_barrier(context.warp.id, group);
            }
            Ok(Flow::Next)
        }
    }
}

fn cluster_arrive(releases: bool, aligned: bool, context: &mut Context<'_>) -> Outcome<Flow> {
    if aligned && !context.is_aligned() {
        return Ok(Flow::Wait(Wait::Lanes(context.warp.live), None));
    }
    let key = (context.rank as u32, context.warp.index);
    let barrier = &mut context.cluster.barrier;
    let generation = barrier.generation;
    let pending = barrier.pending.entry(key).or_default();
    if pending.lanes & context.mask != 0 {
        return Err(Fault::synchronisation(
            "a thread arrives at the barrier of the cluster twice without waiting",
        ));
    }
    pending.lanes |= context.mask;
    for lane in lanes(context.mask) {
        pending.generations[lane] = generation;
    }
    barrier.arrived += context.mask.count_ones();
    if releases {
        context.grid.races.release(context.warp.id, context.mask, &mut barrier.clock);
    } else {
        context.grid.races.relaxed_release(context.warp.id, context.mask, &mut barrier.clock);
    }
    context.grid.progress += 1;
    barrier.complete_if_all();
    Ok(Flow::Next)
}

fn cluster_wait(aligned: bool, context: &mut Context<'_>) -> Outcome<Flow> {
    if aligned && !context.is_aligned() {
        return Ok(Flow::Wait(Wait::Lanes(context.warp.live), None));
    }
    let key = (context.rank as u32, context.warp.index);
    let barrier = &mut context.cluster.barrier;
    let pending = barrier.pending.entry(key).or_default();
    if pending.lanes & context.mask != context.mask {
        return Err(Fault::synchronisation(
            "a thread waits at the barrier of the cluster without having arrived",
        ));
    }
    if lanes(context.mask).any(|lane| pending.generations[lane] == barrier.generation) {
        return Ok(Flow::Wait(Wait::Cluster, None));
    }
    pending.lanes &= !context.mask;
    let released = barrier.released.clone();
    context.grid.races.acquire(context.warp.id, context.mask, &released);
    Ok(Flow::Next)
}

/// Threads that exit count as arrived at every later barrier of their block and cluster.
pub(crate) fn threads_left(
    cluster: &mut Cluster,
    rank: usize,
    grid: &mut GridState,
    warp: &Warp,
    mask: u32,
) {
    let left = mask.count_ones();
    let barrier = &mut cluster.barrier;
    barrier.threads = barrier.threads.saturating_sub(left);
    grid.races.release(warp.id, mask, &mut barrier.clock);
    barrier.complete_if_all();
    let block = &mut cluster.blocks[rank];
    block.landed.leave(&grid.races, warp.id, mask);
    let all = block.live_threads;
    for own in &mut block.barriers.barriers {
        if own.arrived > 0 && own.expected.is_none() {
            own.complete_if_all(all);
        }
    }
}
