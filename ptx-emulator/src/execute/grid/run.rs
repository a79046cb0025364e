//! One turn of one warp.

use super::GridState;
use super::launch::Counts;
use super::stall;
use crate::execute::block::Cluster;
use crate::execute::registers::Registers;
use crate::execute::report::{Fault, Report, ReportKind};
use crate::execute::warp::{Frame, Path, PathState, Warp};
use crate::execute::{Context, Flow};
use crate::machine::LoadedKernel;
use crate::ops::{self, control};
use crate::program::align_up;

/// Local memory of a thread, in bytes (CUDA's "Technical Specifications per Compute Capability").
pub(crate) const LOCAL_BYTES: u64 = 512 << 10;
/// Invocations of a warp at a time.
const FRAMES: usize = 1 << 12;

/// What came of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Moved,
    Stuck,
}

/// Lets a warp execute up to `budget` instructions.
pub(super) fn run_warp(
    kernel: &LoadedKernel<'_>,
    grid: &mut GridState,
    cluster: &mut Cluster,
    (rank, slot): (usize, usize),
    budget: u64,
    counts: &mut Counts,
) -> Result<Turn, Box<Report>> {
    let Some(block) = cluster.blocks.get_mut(rank).filter(|block| block.starts_at <= grid.now)
    else {
        return Ok(Turn::Stuck);
    };
    block.has_started = true;
    let Some(mut warp) = block.warps.get_mut(slot).and_then(Option::take) else {
        return Ok(Turn::Stuck);
    };
    let mut runner = Runner { kernel, grid, cluster, rank, warp: &mut warp, counts };
    let turn = runner.turn(budget);
    let ended = warp.paths.is_empty();
    if ended {
        grid.races.end_warp(warp.id);
    } else {
        cluster.blocks[rank].warps[slot] = Some(warp);
    }
    turn
}

struct Runner<'r, 'k> {
    kernel: &'r LoadedKernel<'k>,
    grid: &'r mut GridState,
    cluster: &'r mut Cluster,
    rank: usize,
    warp: &'r mut Warp,
    counts: &'r mut Counts,
}

/// What a path did in its part of a turn.
enum Step {
    /// It used up the budget, or another path should go first.
    Continue(u64),
    /// It cannot go on at all, or only polls.
    Blocked,
}

impl Runner<'_, '_> {
    fn turn(&mut self, budget: u64) -> Result<Turn, Box<Report>> {
        let mut left = budget;
        let mut moved = false;
        // Every path that waits is tried once in a turn: what it waits for may have come.
        let mut tried = 0u32;
        while left > 0 && !self.warp.paths.is_empty() {
            let Some(index) = self.select(tried) else { break };
            let mask = self.warp.paths[index].mask;
            let before = self.grid.executed;
            let step = self.run_path(index, left)?;
            moved |= self.grid.executed != before;
            match step {
                Step::Continue(used) => left = left.saturating_sub(used.max(1)),
                Step::Blocked => tried |= mask,
            }
        }
        Ok(if moved { Turn::Moved } else { Turn::Stuck })
    }

    /// The path that goes next: mostly the one furthest behind, so that lanes which parted meet
    /// again, but sometimes any.
    fn select(&mut self, tried: u32) -> Option<usize> {
        let paths = &self.warp.paths;
        if paths.len() == 1 {
            let path = &paths[0];
            return (path.mask & tried == 0).then_some(0);
        }
        let free = |path: &Path| path.mask & tried == 0;
        let candidates = paths.iter().enumerate().filter(|(_, path)| free(path));
        let ready = |path: &Path| path.state == PathState::Ready;
        let wild = self.grid.random.below(16) == 0;
        if wild {
            let all: Vec<usize> = candidates.map(|(index, _)| index).collect();
            let choice = self.grid.random.below(all.len() as u64) as usize;
            return all.get(choice).copied();
        }
        // Deeper invocations have higher frames; they return to where the others wait.
        let behind = |path: &Path| (!ready(path), usize::MAX - path.frame, path.position);
        candidates.min_by_key(|(_, path)| behind(path)).map(|(index, _)| index)
    }

    fn run_path(&mut self, index: usize, budget: u64) -> Result<Step, Box<Report>> {
        let frame_index = self.warp.paths[index].frame;
        let frame = self.warp.frames.get_mut(frame_index).and_then(Option::take);
        let Some(mut frame) = frame else { return Ok(Step::Blocked) };
        let result = self.execute(index, &mut frame, budget);
        // A frame that all lanes have left is gone.
        if frame.lanes != 0 {
            self.warp.frames[frame_index] = Some(frame);
        }
        result
    }

    /// Executes instructions of one path until something else should go on.
    fn execute(
        &mut self,
        index: usize,
        frame: &mut Frame,
        budget: u64,
    ) -> Result<Step, Box<Report>> {
        let kernel = self.kernel;
        let code = &kernel.kernel.functions[frame.function];
        let alone = self.warp.paths.len() == 1;
        let unrivalled = alone || self.is_unrivalled(index);
        let mut position = self.warp.paths[index].position;
        let path_mask = self.warp.paths[index].mask;
        let mut token = self.warp.paths[index].token.take();
        self.warp.paths[index].state = PathState::Ready;
        let mut used = 0;
        while used < budget {
            let at = position as usize;
            // Lowering ends every function with a return, so the position is always valid.
            let Some(instruction) = code.instructions.get(at) else { break };
            let mask = frame.registers.guarded(instruction.guard, path_mask);
            used += 1;
            if mask == 0 {
                self.grid.executed += 1;
                position += 1;
                if !alone && self.meets(index, position) {
                    break;
                }
                continue;
            }
            let line = code.origins[at].line;
            let (matrix, tensor) = (&self.warp.matrix, &self.warp.tensor);
            if matrix.owns_any() || tensor.owns_any() {
                let frame_index = self.warp.paths[index].frame;
                let (touch, operation) = (&code.touches[at], &instruction.operation);
                let checked = matrix
                    .check(touch, frame_index, operation)
                    .and_then(|()| tensor.check(touch, frame_index, operation));
                if let Err(own) = checked {
                    let function = frame.function;
                    return Err(stall::fault_report(kernel, function, at, self.origin(mask), own));
                }
            }
            let mut context = Context {
                grid: self.grid,
                cluster: self.cluster,
                rank: self.rank,
                warp: self.warp,
                frame,
                mask,
                token: token.take(),
                line,
            };
            let outcome = ops::execute(&instruction.operation, &mut context);
            // Nearly all instructions end here. Looking at the outcome is much quicker than moving
            // it, which would read more of it at a time than has just been written.
            let goes_on = matches!(outcome, Ok(Flow::Next))
                && (alone || (unrivalled && !self.meets(index, position + 1)));
            if goes_on {
                self.note_execution(index, (frame.function, at), mask);
                position += 1;
                continue;
            }
            let flow = match outcome {
                Ok(flow) => flow,
                Err(mut own) => {
                    let function = frame.function;
                    ops::copy::explain(self.cluster, &mut own);
                    return Err(stall::fault_report(kernel, function, at, self.origin(mask), own));
                }
            };
            if !matches!(flow, Flow::Wait(..)) {
                self.note_execution(index, (frame.function, at), mask);
            }
            match flow {
                Flow::Jump(target) if alone && mask == path_mask => position = target,
                Flow::Jump(target)
                    if unrivalled && mask == path_mask && !self.meets(index, target) =>
                {
                    position = target;
                }
                flow => return self.leave(index, frame, (position, mask), flow, used),
            }
        }
        self.warp.paths[index].position = position;
        if !alone {
            self.warp.merge(index);
        }
        Ok(Step::Continue(used))
    }

    /// Counts an instruction that has been executed, and remembers the registers it has written.
    #[inline]
    fn note_execution(&mut self, index: usize, (function, at): (usize, usize), mask: u32) {
        self.grid.executed += 1;
        let count = &mut self.counts[function][at];
        count.0 += 1;
        count.1 += u64::from(mask.count_ones());
        let code = &self.kernel.kernel.functions[function];
        let writes = &code.touches[at].writes;
        if !writes.is_empty() {
            let frame_index = self.warp.paths[index].frame;
            let operation = &code.instructions[at].operation;
            self.warp.matrix.note_writes(writes, frame_index, operation);
        }
    }

    /// Whether all other paths wait for something, so that this one can go on.
    fn is_unrivalled(&self, index: usize) -> bool {
        let mut others = self.warp.paths.iter().enumerate().filter(|(own, _)| *own != index);
        others.all(|(_, path)| matches!(path.state, PathState::Waiting(_)))
    }

    /// Whether another path is at a position of the same invocation, so that the two may join.
    fn meets(&self, index: usize, position: u32) -> bool {
        let frame = self.warp.paths[index].frame;
        self.warp.paths.iter().any(|path| path.frame == frame && path.position == position)
    }

    fn origin(&self, mask: u32) -> stall::Who<'_> {
        stall::Who { block: self.cluster.blocks[self.rank].index, warp: self.warp, lanes: mask }
    }

    /// Carries out a flow that is more than the next instruction of a single path.
    fn leave(
        &mut self,
        index: usize,
        frame: &mut Frame,
        (position, mask): (u32, u32),
        flow: Flow,
        used: u64,
    ) -> Result<Step, Box<Report>> {
        let path_mask = self.warp.paths[index].mask;
        let frame_index = self.warp.paths[index].frame;
        let next = position + 1;
        let rest = path_mask & !mask;
        // Those whose guard is false go on behind the instruction.
        if rest != 0 && !matches!(flow, Flow::Next | Flow::Yield) {
            self.add_path(rest, frame_index, next);
        }
        let path = &mut self.warp.paths[index];
        match flow {
            Flow::Next => path.position = next,
            Flow::Yield => {
                path.position = next;
                path.state = PathState::Yielded;
                return Ok(Step::Blocked);
            }
            Flow::Jump(target) => {
                path.mask = mask;
                path.position = target;
            }
            Flow::Split(targets) => {
                self.warp.paths.swap_remove(index);
                for (target, lanes) in targets {
                    self.add_path(lanes, frame_index, target);
                }
                return Ok(Step::Continue(used));
            }
            Flow::Call(function, lanes) => {
                self.call(index, frame, (frame_index, next), lanes, function);
                if mask != lanes {
                    self.add_path(mask & !lanes, frame_index, position);
                }
            }
            Flow::Return => {
                self.return_from(index, frame, mask)?;
                return Ok(Step::Continue(used));
            }
            Flow::Exit => {
                frame.lanes &= !mask;
                self.exit(index, mask)?;
                return Ok(Step::Continue(used));
            }
            Flow::Wait(wait, token) => {
                path.mask = mask;
                path.position = position;
                path.state = PathState::Waiting(wait);
                path.token = token;
                return Ok(Step::Blocked);
            }
        }
        self.warp.merge(index);
        Ok(Step::Continue(used))
    }

    fn add_path(&mut self, mask: u32, frame: usize, position: u32) {
        let state = PathState::Ready;
        self.warp.paths.push(Path { mask, frame, position, state, token: None });
    }

    fn exit(&mut self, index: usize, mask: u32) -> Result<(), Box<Report>> {
        self.warp.live &= !mask;
        self.warp.paths.swap_remove(index);
        let block = &mut self.cluster.blocks[self.rank];
        block.live_threads = block.live_threads.saturating_sub(mask.count_ones());
        let has_ended = block.live_threads == 0;
        ops::barrier::threads_left(self.cluster, self.rank, self.grid, self.warp, mask);
        self.grid.progress += 1;
        if has_ended {
            ops::tcgen05::check_end(self.cluster, self.rank)
                .map_err(|fault| stall::engine_report(self.kernel, self.cluster, fault))?;
        }
        // Unchecked threads note nothing of what they have waited for.
        if has_ended && self.grid.is_checked() {
            ops::copy::check_end(self.cluster, self.rank)
                .map_err(|fault| stall::engine_report(self.kernel, self.cluster, fault))?;
        }
        Ok(())
    }

    /// Lanes enter another function with copies of their arguments.
    fn call(
        &mut self,
        index: usize,
        caller: &Frame,
        (caller_index, next): (usize, u32),
        mask: u32,
        function: usize,
    ) {
        let code = &self.kernel.kernel.functions[function];
        let caller_code = &self.kernel.kernel.functions[caller.function];
        let mut frame = Frame {
            function,
            registers: Registers::new(code.registers, &mut self.grid.random),
            local_base: caller.local_base + align_up(caller_code.local_bytes, 16),
            parameters: vec![0; code.parameter_bytes as usize * 32],
            caller: Some((caller_index, next)),
            lanes: mask,
        };
        let end = (frame.local_base + code.local_bytes) as usize;
        for local in &mut self.warp.local {
            if local.len() < end {
                local.resize(end, 0xA5);
            }
        }
        if let Some(call) = control::call_at(caller_code, next - 1) {
            control::copy_parameters(
                (&caller.parameters, caller_code.parameter_bytes, &call.arguments),
                (&mut frame.parameters, code.parameter_bytes, &code.parameters),
                mask,
            );
        }
        let callee = self.push_frame(frame, caller_index);
        let path = &mut self.warp.paths[index];
        (path.mask, path.frame, path.position) = (mask, callee, 0);
    }

    /// Adds a frame while the caller's is taken out of its place.
    fn push_frame(&mut self, frame: Frame, taken: usize) -> usize {
        let frames = &mut self.warp.frames;
        let free = (0..frames.len()).find(|own| *own != taken && frames[*own].is_none());
        match free {
            Some(index) => {
                frames[index] = Some(frame);
                index
            }
            None => {
                frames.push(Some(frame));
                frames.len() - 1
            }
        }
    }

    /// Lanes go back behind the call with copies of what the function returns.
    fn return_from(
        &mut self,
        index: usize,
        frame: &mut Frame,
        mask: u32,
    ) -> Result<(), Box<Report>> {
        frame.lanes &= !mask;
        let Some((caller_index, next)) = frame.caller else {
            return self.exit(index, mask);
        };
        let code = &self.kernel.kernel.functions[frame.function];
        if let Some(caller) = self.warp.frames.get_mut(caller_index).and_then(Option::as_mut) {
            let caller_code = &self.kernel.kernel.functions[caller.function];
            if let Some(call) = control::call_at(caller_code, next - 1) {
                control::copy_parameters(
                    (&frame.parameters, code.parameter_bytes, &code.returns),
                    (&mut caller.parameters, caller_code.parameter_bytes, &call.returns),
                    mask,
                );
            }
        }
        let path = &mut self.warp.paths[index];
        (path.mask, path.frame, path.position) = (mask, caller_index, next);
        self.warp.merge(index);
        Ok(())
    }
}

/// The deepest nesting of calls, and the most local memory, that a call may reach.
pub(crate) fn check_depth(warp: &Warp, frame: &Frame) -> Result<(), Fault> {
    if frame.local_base > LOCAL_BYTES || warp.frames.len() >= FRAMES {
        return Err(ReportKind::Operand(format!(
            "calls nest too deeply: {} invocations, {} bytes of local memory",
            warp.frames.len(),
            frame.local_base
        ))
        .into());
    }
    Ok(())
}
