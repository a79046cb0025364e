//! What to say when a launch cannot go on.

use std::fmt::Write;

use crate::execute::Wait;
use crate::execute::block::{Block, Cluster};
use crate::execute::report::{Fault, Report, ReportKind};
use crate::execute::warp::{Path, PathState, Warp};
use crate::machine::{LoadedKernel, Place, SourceLine};
use crate::program::Code;

/// How often in a row waits may end without cause and change nothing.
const PATIENCE: u32 = 16;
/// The most paths a description lists.
const LISTED: usize = 48;

/// Counts stalls between which nothing changed.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    progress: u64,
    count: u32,
}

impl Stalls {
    /// Notes a stall; true if too many in a row changed nothing.
    pub(super) fn is_deadlock(&mut self, progress: u64) -> bool {
        if self.progress != progress {
            *self = Self { progress, count: 0 };
        }
        self.count += 1;
        self.count > PATIENCE
    }
}

/// The lanes that executed something.
pub(super) struct Who<'a> {
    pub(super) block: [u32; 3],
    pub(super) warp: &'a Warp,
    pub(super) lanes: u32,
}

/// A report that concerns no single instruction.
pub(super) fn report(kernel: &LoadedKernel<'_>, kind: ReportKind) -> Box<Report> {
    Box::new(Report { kind, kernel: kernel.kernel.name.clone(), place: None })
}

/// The report of a fault of one instruction.
pub(super) fn fault_report(
    kernel: &LoadedKernel<'_>,
    function: usize,
    position: usize,
    who: Who<'_>,
    fault: Fault,
) -> Box<Report> {
    let code = &kernel.kernel.functions[function];
    let lanes = fault.lane.map_or(who.lanes, |lane| 1 << (lane & 31));
    let thread = fault.lane.or_else(|| (lanes.count_ones() == 1).then(|| lanes.trailing_zeros()));
    let line = code.origins.get(position).map_or(0, |origin| origin.line);
    let place = Place {
        function: code.name.clone(),
        line,
        text: kernel.line(line).to_owned(),
        source: source(kernel, code, position),
        block: who.block,
        warp: who.warp.index,
        thread: thread.and_then(|lane| who.warp.threads.get(lane as usize).copied()),
        lanes,
    };
    Box::new(Report { kind: *fault.kind, kernel: kernel.kernel.name.clone(), place: Some(place) })
}

/// The report of a fault of an engine: what it does was issued earlier.
pub(super) fn engine_report(
    kernel: &LoadedKernel<'_>,
    cluster: &Cluster,
    fault: EngineFault,
) -> Box<Report> {
    // The engine remembers the line; it stands in one function only.
    let issued = kernel.kernel.functions.iter().find_map(|code| {
        let position = code.origins.iter().position(|origin| origin.line == fault.line)?;
        Some((code, position))
    });
    // What a single lane issued is its own; else the fault may know which of the lanes it concerns.
    let lanes = match (fault.lanes.is_power_of_two(), fault.fault.lane) {
        (false, Some(lane)) => 1 << (lane & 31),
        _ => fault.lanes,
    };
    let thread = lanes.is_power_of_two().then(|| 32 * fault.warp + lanes.trailing_zeros());
    let place = Place {
        function: issued.map_or(&kernel.kernel.name, |(code, _)| &code.name).clone(),
        line: fault.line,
        text: kernel.line(fault.line).to_owned(),
        source: issued.and_then(|(code, position)| source(kernel, code, position)),
        block: fault.block,
        warp: fault.warp,
        thread: thread.map(|thread| cluster.thread(thread)),
        lanes,
    };
    let kind = *fault.fault.kind;
    Box::new(Report { kind, kernel: kernel.kernel.name.clone(), place: Some(place) })
}

/// A fault of something asynchronous, and who issued it where.
pub(crate) struct EngineFault {
    pub(crate) fault: Fault,
    pub(crate) line: u32,
    pub(crate) block: [u32; 3],
    pub(crate) warp: u32,
    /// The lanes that issued it.
    pub(crate) lanes: u32,
}

fn source(kernel: &LoadedKernel<'_>, code: &Code, position: usize) -> Option<SourceLine> {
    let location = code.locations.get(code.origins.get(position)?.location?)?;
    let file = kernel.files.iter().find(|file| file.number == location.file)?;
    Some(SourceLine { file: file.path.clone(), line: location.line, column: location.column })
}

pub(super) fn deadlock(kernel: &LoadedKernel<'_>, running: &[Cluster]) -> ReportKind {
    ReportKind::Deadlock(describe(kernel, running))
}

/// Where all warps are and what they wait for, and the state of the barriers.
pub(super) fn describe(kernel: &LoadedKernel<'_>, running: &[Cluster]) -> String {
    let mut text = String::new();
    let mut listed = 0;
    for cluster in running {
        for block in &cluster.blocks {
            let [x, y, z] = block.index;
            let name = format!("block ({x}, {y}, {z})");
            for warp in block.warps.iter().flatten() {
                for path in &warp.paths {
                    listed += 1;
                    if listed <= LISTED {
                        let _ = write!(text, "  {name}, warp {}", warp.index);
                        describe_path(kernel, block, warp, path, &mut text);
                    }
                }
            }
            if block.live_threads > 0 {
                block.mbarriers.describe(&name, &mut text);
                block.barriers.describe(&name, &mut text);
            }
        }
    }
    if listed > LISTED {
        let _ = writeln!(text, "  and {} more", listed - LISTED);
    }
    text
}

fn describe_path(
    kernel: &LoadedKernel<'_>,
    block: &Block,
    warp: &Warp,
    path: &Path,
    text: &mut String,
) {
    let frame = warp.frames.get(path.frame).and_then(Option::as_ref);
    let code = frame.and_then(|frame| kernel.kernel.functions.get(frame.function));
    let origin = code.and_then(|code| code.origins.get(path.position as usize));
    let line = origin.map_or(0, |origin| origin.line);
    let what = match path.state {
        PathState::Ready | PathState::Yielded => "runs".to_owned(),
        PathState::Waiting(wait) => match wait {
            Wait::Lanes(lanes) => format!("waits for lanes {lanes:#010x} of its warp"),
            Wait::Barrier(index) => format!("waits at barrier {index}"),
            Wait::Cluster => "waits at the barrier of the cluster".to_owned(),
            Wait::Mbarrier { address, phase } => {
                format!("waits for phase {phase} of the mbarrier at {address:#x}")
            }
            Wait::BulkGroups => "waits for its bulk copies".to_owned(),
            Wait::CopyGroups => "waits for its asynchronous copies".to_owned(),
            Wait::MatrixGroups => {
                let lines = warp.matrix.lines();
                format!("waits for its matrix products, issued in PTX lines {lines:?}")
            }
            Wait::Registers { wanted } => {
                let free = block.free_registers;
                format!("waits for {wanted} registers for its threads; its block has {free} free")
            }
            Wait::Tensor(what) => what.to_owned(),
            Wait::Until(_) => "sleeps".to_owned(),
        },
    };
    let lanes = path.mask;
    let instruction = kernel.line(line).trim();
    let _ = write!(text, ", lanes {lanes:#010x} {what}; PTX line {line}: {instruction}");
    let position = path.position as usize;
    if let Some(source) = code.and_then(|code| source(kernel, code, position)) {
        let _ = write!(text, " ({source})");
    }
    text.push('\n');
}
