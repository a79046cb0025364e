//! What is under way in the tensor memory of a cluster.

use std::collections::VecDeque;
use std::ops::Range;

use super::commit::Arrival;
use super::copy::Move;
use super::memory::Cells;
use super::multiply::Product;
use super::pipeline::{Issued, Moved, Movement, Pipeline};
use super::shift::Descent;
use super::transfer::Pending;
use crate::execute::block::Cluster;
use crate::execute::grid::{EngineFault, GridState};
use crate::execute::report::Fault;
use crate::execute::{Context, Outcome};
use crate::race::{Agent, AsyncAccess, AsyncOrigin, Proxy, Role, Strength, WarpId};
use crate::random::Random;

/// Who issued something, and where.
#[derive(Clone, Debug)]
pub(super) struct Issuer {
    pub(super) warp: WarpId,
    pub(super) rank: usize,
    pub(super) warp_index: u32,
    pub(super) lanes: u32,
    pub(super) line: u32,
    block: [u32; 3],
}

impl Issuer {
    /// Some of the lanes that execute an instruction.
    pub(super) fn of(context: &Context<'_>, lanes: u32) -> Self {
        Self {
            warp: context.warp.id,
            rank: context.rank,
            warp_index: context.warp.index,
            lanes,
            line: context.line,
            block: context.cluster.blocks[context.rank].index,
        }
    }

    fn fault(&self, fault: Fault) -> EngineFault {
        let Self { line, block, warp_index: warp, lanes, .. } = *self;
        EngineFault { fault, line, block, warp, lanes }
    }
}

/// What a thread has issued.
#[derive(Debug)]
pub(super) enum Work {
    Copy(Box<Move>),
    Shift(Box<Descent>),
    Multiply(Box<Product>),
    Commit(Box<Arrival>),
}

impl Work {
    fn name(&self) -> &'static str {
        match self {
            Self::Copy(_) => "tcgen05.cp",
            Self::Shift(_) => "tcgen05.shift",
            Self::Multiply(_) => "tcgen05.mma",
            Self::Commit(_) => "tcgen05.commit",
        }
    }

    fn uses(&self, rank: usize, columns: &Range<u32>) -> bool {
        match self {
            Self::Copy(own) => own.uses(rank, columns),
            Self::Shift(own) => own.uses(rank, columns),
            Self::Multiply(own) => own.uses(rank, columns),
            Self::Commit(_) => false,
        }
    }

    fn perform(&self, task: &Task, cluster: &mut Cluster, grid: &mut GridState) -> Outcome {
        match self {
            Self::Copy(own) => own.perform(task, cluster, grid),
            Self::Shift(own) => own.perform(task, cluster, grid),
            Self::Multiply(own) => own.perform(task, cluster, grid),
            Self::Commit(own) => own.perform(task, cluster),
        }
    }
}

/// Under whose name and clock something is done.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) issuer: Issuer,
    /// What the thread knew; absent if accesses are not checked.
    pub(super) origin: Option<AsyncOrigin>,
    /// The clock at which a commit makes it known.
    pub(super) clock: u32,
}

impl Task {
    /// An access of shared memory, or of tensor memory.
    pub(super) fn access(&self, proxy: Proxy) -> Option<AsyncAccess<'_>> {
        Some(AsyncAccess {
            origin: self.origin.as_ref()?,
            agent: self.agent(),
            lanes: self.issuer.lanes,
            clock: self.clock,
            strength: Strength::Weak,
            proxy,
            site: self.issuer.line,
        })
    }

    pub(super) fn agent(&self) -> Agent {
        Agent::warp(self.issuer.warp, Role::Tensor)
    }
}

#[derive(Debug)]
struct Queued {
    due: u64,
    task: Task,
    work: Work,
}

/// What one thread has issued and when, in order.
#[derive(Debug)]
struct Stream {
    warp: WarpId,
    lanes: u32,
    queue: VecDeque<Queued>,
    /// Nothing that is issued from here on is due before.
    latest: u64,
    commits: u32,
    /// What the thread knew when it issued the last but a commit.
    last: Option<AsyncOrigin>,
    pipeline: Pipeline,
}

/// What is under way in the tensor memory of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Engine {
    transfers: Vec<Pending>,
    streams: Vec<Stream>,
    /// Arrivals of commits whose operations are complete, in no order.
    arrivals: Vec<Queued>,
    /// Nothing is due before.
    earliest: Option<u64>,
}

/// How many turns something takes after what is before it: mostly few, sometimes many, so that
/// programs which forget to wait are seen.
fn delay(random: &mut Random) -> u64 {
    match random.below(16) {
        0..8 => random.below(8),
        8..15 => random.below(64),
        _ => random.below(512),
    }
}

/// How many turns a commit's arrival takes when its operations are complete: often none, sometimes
/// so many that later ones overtake it or all else comes to rest. The PTX manual orders the
/// arrivals of two commits as little as it says when they come.
fn lag(random: &mut Random) -> u64 {
    match random.below(16) {
        0..8 => 0,
        8..12 => random.below(256),
        _ => 1 << 16,
    }
}

impl Engine {
    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.earliest.is_none()
    }

    fn note_due(&mut self, due: u64) {
        self.earliest = Some(self.earliest.map_or(due, |own| own.min(due)));
    }

    fn update(&mut self) {
        let transfers = self.transfers.iter().map(|own| own.due);
        let queues = self.streams.iter().filter_map(|own| Some(own.queue.front()?.due));
        let arrivals = self.arrivals.iter().map(|own| own.due);
        self.earliest = transfers.chain(queues).chain(arrivals).min();
    }

    /// A warp issues a transfer.
    pub(super) fn transfer(&mut self, pending: Pending) {
        self.note_due(pending.due);
        self.transfers.push(pending);
    }

    /// The name and the line of what uses columns of a block.
    pub(super) fn user(&self, rank: usize, columns: &Range<u32>) -> Option<(&'static str, u32)> {
        let mut transfers = self.transfers.iter().filter(|own| own.uses(rank, columns));
        let transfer = transfers.next().map(|own| (own.name(), own.issuer.line));
        let mut queued = self.streams.iter().flat_map(|own| own.queue.iter());
        let queued = queued.find(|own| own.work.uses(rank, columns));
        transfer.or_else(|| queued.map(|own| (own.work.name(), own.task.issuer.line)))
    }

    /// The mbarrier at `offset` of block `rank` ends. What the block has committed to it and is
    /// complete has arrived by then: compilers end mbarriers so, and blocks.
    pub(crate) fn end_barrier(&mut self, rank: usize, offset: u32) {
        for Queued { task, work, .. } in &mut self.arrivals {
            if let (Work::Commit(arrival), true) = (work, task.issuer.rank == rank) {
                arrival.forget(rank, offset);
            }
        }
    }

    fn stream(&mut self, warp: WarpId, lanes: u32) -> &mut Stream {
        let found = self.streams.iter().position(|own| own.warp == warp && own.lanes == lanes);
        let index = found.unwrap_or_else(|| {
            let (queue, pipeline) = Default::default();
            let (latest, commits, last) = (0, 0, None);
            let stream = Stream { warp, lanes, queue, latest, commits, last, pipeline };
            self.streams.push(stream);
            self.streams.len() - 1
        });
        &mut self.streams[index]
    }
}

/// A product of a thread must be in order with those before.
pub(super) fn check_product(context: &mut Context<'_>, lane: usize, product: &Product) -> Outcome {
    if !context.grid.is_checked() {
        return Ok(());
    }
    let (warp, lanes, line) = (context.warp.id, 1 << lane, context.line);
    let stream = context.cluster.tensor.stream(warp, lanes);
    let clock = stream.commits.saturating_add(1);
    let (accumulator, read, written) = product.cells();
    let issued = Issued { accumulator, read, written, line, clock };
    stream.pipeline.push(&issued, &context.grid.races, (warp, lanes))
}

/// A copy or a shift of a thread must be in order with those before.
pub(super) fn check_movement(
    context: &mut Context<'_>,
    lane: usize,
    movement: Movement,
    cells: Vec<Cells>,
) -> Outcome {
    if !context.grid.is_checked() {
        return Ok(());
    }
    let (warp, lanes, line) = (context.warp.id, 1 << lane, context.line);
    let stream = context.cluster.tensor.stream(warp, lanes);
    let clock = stream.commits.saturating_add(1);
    let moved = Moved { movement, cells, line, clock };
    stream.pipeline.push_movement(moved, &context.grid.races, (warp, lanes))
}

/// A thread issues something that happens after all that it has issued before.
pub(super) fn issue(context: &mut Context<'_>, lane: usize, work: Work) {
    let lanes = 1 << lane;
    let warp = context.warp.id;
    let is_commit = matches!(work, Work::Commit(_));
    let checked = context.grid.is_checked();
    let races = &mut context.grid.races;
    let origin = checked.then(|| match is_commit {
        true => races.begin_tensor(warp, lanes),
        false => races.begin_async(warp, lanes),
    });
    let issuer = Issuer::of(context, lanes);
    let moment = context.grid.now + 1;
    let delay = delay(&mut context.grid.random);
    let engine = &mut context.cluster.tensor;
    let stream = engine.stream(warp, lanes);
    let clock = stream.commits.saturating_add(1);
    let mut work = work;
    match &mut work {
        Work::Commit(own) => {
            own.lag = lag(&mut context.grid.random);
            own.before.clone_from(&stream.last);
            stream.commits = clock;
        }
        _ => stream.last.clone_from(&origin),
    }
    let due = stream.latest.max(moment) + delay;
    stream.latest = due;
    stream.queue.push_back(Queued { due, task: Task { issuer, origin, clock }, work });
    engine.note_due(due);
    context.grid.progress += 1;
}

/// Whether something is due.
#[inline]
pub(crate) fn has_due(cluster: &Cluster, now: u64) -> bool {
    cluster.tensor.earliest.is_some_and(|earliest| earliest <= now)
}

/// When the next of it is due.
pub(crate) fn next_due(cluster: &Cluster) -> Option<u64> {
    cluster.tensor.earliest
}

/// Lets everything happen that is due, while no warp of the cluster runs. Returns whether something
/// did.
pub(crate) fn perform_due(
    cluster: &mut Cluster,
    grid: &mut GridState,
) -> Result<bool, EngineFault> {
    if !has_due(cluster, grid.now) {
        return Ok(false);
    }
    let mut moved = false;
    let mut index = 0;
    while index < cluster.tensor.transfers.len() {
        if cluster.tensor.transfers[index].due > grid.now {
            index += 1;
            continue;
        }
        let own = cluster.tensor.transfers.swap_remove(index);
        own.perform(cluster, grid).map_err(|fault| own.issuer.fault(fault))?;
        moved = true;
    }
    for index in 0..cluster.tensor.streams.len() {
        let now = grid.now;
        let next = |cluster: &mut Cluster| {
            let queue = &mut cluster.tensor.streams.get_mut(index)?.queue;
            queue.front().filter(|own| own.due <= now)?;
            queue.pop_front()
        };
        while let Some(mut own) = next(cluster) {
            moved = true;
            if let Work::Commit(arrival) = &own.work {
                own.due += arrival.lag;
                cluster.tensor.arrivals.push(own);
                continue;
            }
            let Queued { task, work, .. } = own;
            work.perform(&task, cluster, grid).map_err(|fault| task.issuer.fault(fault))?;
        }
    }
    let now = grid.now;
    let due: Vec<_> = cluster.tensor.arrivals.extract_if(.., |own| own.due <= now).collect();
    for Queued { task, work, .. } in due {
        moved = true;
        work.perform(&task, cluster, grid).map_err(|fault| task.issuer.fault(fault))?;
    }
    cluster.tensor.update();
    grid.progress += u64::from(moved);
    Ok(moved)
}
