//! From a launch configuration to blocks and warps, and through all of them.

use super::GridState;
use super::run::{Turn, run_warp};
use super::stall::{self, EngineFault};
use crate::execute::block::{Block, Cluster, thread_index};
use crate::execute::registers::Registers;
use crate::execute::report::{Report, ReportKind};
use crate::execute::warp::{Frame, Path, PathState, Warp};
use crate::machine::LoadedKernel;
use crate::ops::barrier::{ClusterBarrier, NamedBarriers};
use crate::ops::{tcgen05, wgmma};
use crate::program::align_up;
use crate::race::{Shadow, WarpName};
use crate::random::Random;

/// Registers of a multiprocessor.
const REGISTER_FILE: u32 = 65_536;
/// The most registers a thread is allotted. It can name 255 of them.
const THREAD_REGISTERS: u32 = 256;
/// Registers are allotted to threads in units of so many.
const REGISTER_UNIT: u32 = 8;
/// The most instructions a warp executes before another gets its turn.
const LONGEST_TURN: u64 = 96;

/// The counts of executions: for each function of the kernel and each instruction, how often a
/// warp and how often a thread has executed it.
pub(crate) type Counts = Vec<Vec<(u64, u64)>>;

/// Runs all blocks of a grid to their end.
pub(crate) fn run_grid(kernel: &LoadedKernel<'_>, grid: &mut GridState) -> Result<(), Box<Report>> {
    let mut counts: Counts =
        kernel.kernel.functions.iter().map(|code| vec![(0, 0); code.instructions.len()]).collect();
    let result = run_clusters(kernel, grid, &mut counts);
    for (code, counts) in kernel.kernel.functions.iter().zip(&counts) {
        for (origin, (warps, threads)) in code.origins.iter().zip(counts) {
            let name = origin.kind.and_then(|kind| kernel.kernel.kinds.get(kind as usize));
            if let Some(name) = name {
                grid.statistics.count(name, *warps, *threads);
            }
        }
    }
    result
}

fn run_clusters(
    kernel: &LoadedKernel<'_>,
    grid: &mut GridState,
    counts: &mut Counts,
) -> Result<(), Box<Report>> {
    let blocks_per_cluster = grid.config.cluster.iter().product::<u32>().max(1);
    let resident = (grid.multiprocessors / blocks_per_cluster).max(1) as usize;
    let mut running: Vec<Cluster> = Vec::new();
    let mut stalls = stall::Stalls::default();
    loop {
        while running.len() < resident
            && let Some(index) = grid.clusters.take()
        {
            running.push(start_cluster(kernel, grid, index));
        }
        if running.is_empty() {
            return Ok(());
        }
        let moved = round(kernel, grid, &mut running, counts)?;
        running.retain(|cluster| !cluster.is_finished());
        if grid.executed > kernel.instruction_limit {
            let detail = stall::describe(kernel, &running);
            let limit = kernel.instruction_limit;
            return Err(stall::report(kernel, ReportKind::InstructionLimit { limit, detail }));
        }
        grid.wake_all = false;
        if moved || running.is_empty() {
            continue;
        }
        // Nobody could go on: let time pass to the next moment that somebody waits for.
        if let Some(moment) = next_moment(&running, grid.now) {
            grid.now = moment;
            continue;
        }
        // Only waits that may end without cause are left. If those who wake change nothing, time
        // after time, it is a deadlock.
        if stalls.is_deadlock(grid.progress) {
            return Err(stall::report(kernel, stall::deadlock(kernel, &running)));
        }
        grid.wake_all = true;
    }
}

/// Lets every warp of every running cluster have turns, in a random order, and what is due happen.
fn round(
    kernel: &LoadedKernel<'_>,
    grid: &mut GridState,
    running: &mut [Cluster],
    counts: &mut Counts,
) -> Result<bool, Box<Report>> {
    let mut moved = false;
    let failed = |cluster: &Cluster, mut own: EngineFault| {
        crate::ops::copy::explain(cluster, &mut own.fault);
        stall::engine_report(kernel, cluster, own)
    };
    let first = grid.random.below(running.len() as u64) as usize;
    for step in 0..running.len() {
        let index = (first + step) % running.len();
        let cluster = &mut running[index];
        moved |=
            crate::ops::copy::perform_due(cluster, grid).map_err(|fault| failed(cluster, fault))?;
        moved |= wgmma::perform_due(cluster, grid).map_err(|fault| failed(cluster, fault))?;
        moved |= tcgen05::perform_due(cluster, grid).map_err(|fault| failed(cluster, fault))?;
        let slots: usize = cluster.blocks.iter().map(|block| block.warps.len()).sum();
        let start = grid.random.below(slots as u64) as usize;
        for step in 0..slots {
            let (rank, warp) = slot(cluster, (start + step) % slots);
            grid.now += 1;
            // Short and long turns: both orders of events that are close must occur.
            let budget = 1 + grid.random.below(LONGEST_TURN);
            let turn = run_warp(kernel, grid, cluster, (rank, warp), budget, counts)?;
            moved |= turn == Turn::Moved;
            if cluster.engine.has_due(grid.now) {
                moved |= crate::ops::copy::perform_due(cluster, grid)
                    .map_err(|fault| failed(cluster, fault))?;
            }
            if wgmma::has_due(cluster, grid.now) {
                moved |=
                    wgmma::perform_due(cluster, grid).map_err(|fault| failed(cluster, fault))?;
            }
            if tcgen05::has_due(cluster, grid.now) {
                moved |=
                    tcgen05::perform_due(cluster, grid).map_err(|fault| failed(cluster, fault))?;
            }
        }
    }
    Ok(moved)
}

/// The block and the warp in it of a slot of a cluster.
fn slot(cluster: &Cluster, slot: usize) -> (usize, usize) {
    let mut rest = slot;
    for (rank, block) in cluster.blocks.iter().enumerate() {
        if rest < block.warps.len() {
            return (rank, rest);
        }
        rest -= block.warps.len();
    }
    (0, 0)
}

/// The earliest moment after now at which an engine finishes something, a sleeper wakes or a block
/// starts.
fn next_moment(running: &[Cluster], now: u64) -> Option<u64> {
    let engines = running
        .iter()
        .flat_map(|cluster| {
            [cluster.engine.next_due(), wgmma::next_due(cluster), tcgen05::next_due(cluster)]
        })
        .flatten();
    let sleepers = running.iter().flat_map(|cluster| {
        let warps = cluster.blocks.iter().flat_map(|block| block.warps.iter().flatten());
        warps.flat_map(|warp| warp.paths.iter()).filter_map(|path| match path.state {
            PathState::Waiting(crate::execute::Wait::Until(moment)) => Some(moment),
            _ => None,
        })
    });
    let starts = running.iter().flat_map(|cluster| &cluster.blocks);
    let starts = starts.filter(|block| !block.has_started).map(|block| block.starts_at);
    engines.chain(sleepers).chain(starts).min().map(|moment| moment.max(now + 1))
}

fn start_cluster(kernel: &LoadedKernel<'_>, grid: &mut GridState, index: [u32; 3]) -> Cluster {
    let shape = grid.config.cluster.map(|length| length.max(1));
    let mut blocks = Vec::new();
    for z in 0..shape[2] {
        for y in 0..shape[1] {
            for x in 0..shape[0] {
                let place = [x, y, z];
                let block = std::array::from_fn(|axis| index[axis] * shape[axis] + place[axis]);
                let rank = blocks.len() as u32;
                let mut block = start_block(kernel, grid, block, rank);
                if grid.config.cluster != [1, 1, 1] {
                    block.starts_at = grid.now + lateness(&mut grid.random);
                }
                blocks.push(block);
            }
        }
    }
    let threads = blocks.iter().map(|block| block.live_threads).sum();
    Cluster {
        blocks,
        barrier: ClusterBarrier::new(threads),
        engine: Default::default(),
        tensor: Default::default(),
        index,
        block_shape: grid.config.block,
    }
}

/// How many turns later than others a block of a cluster may start: PTX promises only that they are
/// there once a barrier of the cluster has been passed.
fn lateness(random: &mut Random) -> u64 {
    match random.below(4) {
        0 => 0,
        1..3 => random.below(64),
        _ => random.below(1024),
    }
}

/// What the compiler gives a thread of a kernel that uses `setmaxnreg`; nothing else asks. Those
/// are all registers that its bounds allow, because the instruction needs a count that is known.
fn thread_registers(kernel: &LoadedKernel<'_>, threads: u32) -> u32 {
    let kernel = kernel.kernel;
    let required = kernel
        .required_block
        .map(|shape| shape.iter().fold(1u32, |product, length| product.saturating_mul(*length)));
    let bound = required.or(kernel.maximum_threads).unwrap_or(threads).max(threads);
    let warps = bound.div_ceil(32);
    let together = warps.saturating_mul(32).saturating_mul(kernel.blocks_per_multiprocessor);
    let fitting = (REGISTER_FILE / together.max(1)).min(THREAD_REGISTERS);
    let fitting = fitting / REGISTER_UNIT * REGISTER_UNIT;
    match kernel.maximum_registers {
        Some(most) => most.div_ceil(REGISTER_UNIT).saturating_mul(REGISTER_UNIT).min(fitting),
        None => fitting,
    }
}

fn start_block(
    kernel: &LoadedKernel<'_>,
    grid: &mut GridState,
    index: [u32; 3],
    rank: u32,
) -> Block {
    let shape = grid.config.block;
    let threads: u32 = shape.iter().product();
    let warp_count = threads.div_ceil(32);
    let registers = thread_registers(kernel, threads);
    let noise = grid.random.next();
    let mut shared = noise.to_le_bytes().repeat(grid.shared_bytes.div_ceil(8) as usize);
    shared.truncate(grid.shared_bytes as usize);
    let warps = (0..warp_count)
        .map(|warp| Some(Box::new(start_warp(kernel, grid, (index, warp, threads), registers))))
        .collect();
    grid.started_blocks += 1;
    Block {
        index,
        id: grid.started_blocks,
        rank,
        starts_at: grid.now,
        has_started: false,
        shared,
        shadow: Shadow::new(grid.shared_bytes.into(), crate::race::MemoryKind::Shared),
        births: Shadow::new(grid.shared_bytes.into(), crate::race::MemoryKind::Shared),
        barriers: NamedBarriers::new(threads),
        mbarriers: Default::default(),
        landed: Default::default(),
        matrix: Default::default(),
        tensor: Default::default(),
        refused_request: None,
        warps,
        live_threads: threads,
        // What the block gets is what its threads have: the pool fills by `setmaxnreg.dec` only.
        free_registers: 0,
        claims: Default::default(),
    }
}

fn start_warp(
    kernel: &LoadedKernel<'_>,
    grid: &mut GridState,
    (block, index, block_threads): ([u32; 3], u32, u32),
    registers: u32,
) -> Warp {
    let shape = grid.config.block;
    let first = index * 32;
    let count = (block_threads - first).min(32);
    let live = if count == 32 { u32::MAX } else { (1 << count) - 1 };
    let threads = std::array::from_fn(|lane| thread_index(shape, first + lane as u32));
    let code = &kernel.kernel.functions[0];
    let frame = Frame {
        function: 0,
        registers: Registers::new(code.registers, &mut grid.random),
        local_base: 0,
        parameters: vec![0; code.parameter_bytes as usize * 32],
        caller: None,
        lanes: live,
    };
    let local_bytes = align_up(code.local_bytes, 16) as usize;
    Warp {
        index,
        id: grid.races.start_warp(live, WarpName { block, index }),
        live,
        threads: Box::new(threads),
        paths: vec![Path {
            mask: live,
            frame: 0,
            position: 0,
            state: PathState::Ready,
            token: None,
        }],
        frames: vec![Some(frame)],
        local: (0..32).map(|_| vec![0xA5; local_bytes]).collect(),
        matrix: Default::default(),
        tensor: Default::default(),
        copies: Default::default(),
        register_count: registers,
    }
}
