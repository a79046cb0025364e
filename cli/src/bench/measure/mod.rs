//! `bench` without `--model`: times this library and its peers on a GPU, in one run.
//!
//! This program conducts. It asks its own engine ([`ours`]) and a peer in another process
//! ([`peer`], `peer.py`) for one call after the other ([`conductor`]), over the same GPU, so that
//! both see the same clocks; before that it compares its results with FP64. Operands of a section
//! ([`task`]) lie in memory together, of both sides.

mod args;
mod conductor;
mod engine;
mod machine;
mod ours;
mod peer;
mod quantizer;
mod random;
mod record;
mod task;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use grouped_linear::Device;

pub use self::args::MeasureArgs;
use self::conductor::{Outcome, Side};
use self::engine::Answer;
use self::ours::{FLUSH_BYTES, Ours};
use self::peer::Peer;
use self::record::{About, CaseRecord, FORMAT, Gpu, Quantity, Record, Refused, ShapeRecord};
use self::task::{CasePlan, Section, Task, Wanted};
use super::BenchArgs;
use super::suite::Shape;

/// Load before the first case, so that the card is at its sustained clock.
const WARM_UP: Duration = Duration::from_secs(3);

/// Measures what the flags ask for.
pub fn run(args: &BenchArgs) -> Result<()> {
    args.measure.check(&args.pass)?;
    let shapes = args.shapes()?;
    let recipes = args.wanted_recipes();
    let wanted = Wanted { levels: &args.measure.level, passes: &args.pass, recipes: &args.recipe };
    let plan = wanted.plan();
    if plan.is_empty() {
        bail!("`--level`, `--pass` and `--recipe` together ask for nothing that can be measured");
    }
    let device = Device::cuda(0).context(
        "`bench` measures on a GPU, and there is none that can be used (`bench --model` predicts \
         without one)",
    )?;
    let kernel = args.measure.kernel;
    let mut ours = Ours::new(&device, args.seed, &recipes, FLUSH_BYTES)?.with_kernel(kernel);
    let (mut peer, about) = match args.measure.no_peer {
        true => (None, None),
        false => {
            let mut command = args.measure.peer_command();
            let without = "`--no-peer` measures without one";
            let mut peer = Peer::start(&mut command, args.measure.peer_rest).context(without)?;
            let about = peer.hello(args.seed).context(without)?;
            (Some(peer), Some(about))
        }
    };
    ours.warm(WARM_UP).context("warming up the GPU")?;
    let record = new_record(args, &device, about, &shapes);
    print_heading(&record);
    let mut sides = vec![Side { engine: &mut ours, ours: true }];
    if let Some(peer) = &mut peer {
        sides.push(Side { engine: peer, ours: false });
    }
    let mut run = Run { args: &args.measure, record };
    let outcome = run.copy(&mut sides).and_then(|()| run.all(&mut sides, &shapes, &plan));
    run.end(outcome)
}

/// A record of what is about to be measured.
fn new_record(args: &BenchArgs, device: &Device, peer: Option<About>, shapes: &[Shape]) -> Record {
    let before = machine::sensors();
    let info = device.info();
    Record {
        format: FORMAT,
        date: machine::now(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        gpu: Gpu {
            name: info.name.clone(),
            driver: before.get("driver_version").cloned(),
            multiprocessors: info.multiprocessors,
            before,
            after: BTreeMap::new(),
        },
        peer,
        settings: args.measure.settings(args.seed),
        shapes: shapes.iter().map(shape_record).collect(),
        cases: Vec::new(),
        failure: None,
    }
}

/// A run under way.
struct Run<'a> {
    args: &'a MeasureArgs,
    record: Record,
}

impl Run<'_> {
    /// The bandwidth that quantizers are held against.
    fn copy(&mut self, sides: &mut [Side<'_>]) -> Result<()> {
        let copy = CasePlan { task: Task::Copy, quantity: Quantity::Gpu, replay: false };
        self.section(sides, &Shape::unnamed(Vec::new(), 0, 0), Section::Copy, &[copy])
    }

    /// The sections of the plan, for each shape.
    fn all(
        &mut self,
        sides: &mut [Side<'_>],
        shapes: &[Shape],
        plan: &[(Section, Vec<CasePlan>)],
    ) -> Result<()> {
        for shape in shapes {
            for (section, cases) in plan {
                self.section(sides, shape, *section, cases)?;
            }
        }
        Ok(())
    }

    fn section(
        &mut self,
        sides: &mut [Side<'_>],
        shape: &Shape,
        section: Section,
        cases: &[CasePlan],
    ) -> Result<()> {
        let place = || format!("{} {}", shape.id, section.name()).trim().to_owned();
        let mut ready = Vec::new();
        let mut refused = Vec::new();
        for Side { engine, ours } in sides {
            match engine.prepare(section, shape).with_context(place)? {
                Answer::Done(()) => ready.push(Side { engine: &mut **engine, ours: *ours }),
                Answer::Refused(reason) => {
                    let name = if *ours { "ours" } else { "peer" }.to_owned();
                    refused.push(Refused { name, reason });
                }
            }
        }
        for case in cases {
            let named = || format!("{} {}", place(), case.task.name());
            let outcome = conductor::run(&mut ready, *case, self.args.turns(case.quantity));
            let mut outcome = outcome.with_context(named)?;
            outcome.refused.extend(refused.iter().cloned());
            let record = case_record(shape, section, *case, outcome);
            print_case(&record);
            self.record.cases.push(record);
        }
        self.save()
    }

    /// Notes how the run ended; what was measured before a failure is kept.
    fn end(mut self, outcome: Result<()>) -> Result<()> {
        self.record.gpu.after = machine::sensors();
        self.record.failure = outcome.as_ref().err().map(|error| format!("{error:#}"));
        self.save()?;
        outcome
    }

    /// Writes aside, then renames over the file: it is whole at any moment.
    fn save(&self) -> Result<()> {
        let Some(path) = &self.args.out else { return Ok(()) };
        let text = serde_json::to_string_pretty(&self.record)?;
        write_aside(path, &format!("{text}\n"))
            .with_context(|| format!("writing {}", path.display()))
    }
}

fn write_aside(path: &Path, text: &str) -> std::io::Result<()> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".tmp");
    std::fs::write(&aside, text)?;
    std::fs::rename(&aside, path)
}

fn shape_record(shape: &Shape) -> ShapeRecord {
    let Shape { id, distribution, splits, n, k } = shape.clone();
    ShapeRecord { id, distribution, splits, n, k }
}

fn case_record(shape: &Shape, section: Section, case: CasePlan, outcome: Outcome) -> CaseRecord {
    let Outcome { times, refused, checks } = outcome;
    CaseRecord {
        shape: shape.id.clone(),
        section: section.name(),
        task: case.task.name(),
        quantity: case.quantity,
        replay: case.replay,
        flops: case.task.flops(shape),
        bytes: case.task.bytes(shape),
        times,
        refused,
        checks,
    }
}

fn print_heading(record: &Record) {
    let Record { gpu, peer, settings, .. } = record;
    say!(
        "{}, driver {}, {} rounds, seed {}",
        gpu.name,
        gpu.driver.as_deref().unwrap_or("unknown"),
        settings.rounds,
        settings.seed
    );
    if let Some(kernel) = &settings.kernel {
        say!("products by the kernel {kernel}");
    }
    if let Some(about) = peer {
        for (name, version) in &about.versions {
            say!("{name} {version}");
        }
        for (name, reason) in &about.absent {
            say!("without {name}: {reason}");
        }
    }
}

fn print_case(case: &CaseRecord) {
    let what = [case.shape.as_str(), case.section.as_str(), case.task.as_str()].join(" ");
    let quantity = match case.quantity {
        Quantity::Gpu => "",
        Quantity::Host => ", host",
        Quantity::Kernel if case.flops > 0.0 => ", kernel alone beside whole calls",
        Quantity::Kernel => ", kernels alone beside a copy of as many bytes",
    };
    let mut line = format!("{}{quantity}:", what.trim_start());
    for time in &case.times {
        let rate = match case.quantity {
            Quantity::Gpu | Quantity::Kernel if case.flops > 0.0 => {
                format!(", {:.0} TFLOP/s", case.flops / time.us / 1e6)
            }
            Quantity::Gpu | Quantity::Kernel if case.bytes > 0.0 => {
                format!(", {:.2} TB/s", case.bytes / time.us / 1e6)
            }
            _ => String::new(),
        };
        let replay = if time.replay { " replay" } else { "" };
        line += &format!(" {}{replay} {:.1} us{rate};", time.name, time.us);
    }
    say!("{}", line.trim_end_matches([':', ';']));
    for check in &case.checks {
        say!("  {}: largest error {:.1e}, rms {:.1e}", check.name, check.worst, check.rms);
    }
    for Refused { name, reason } in &case.refused {
        say!("  without {name}: {reason}");
    }
}

#[cfg(test)]
mod tests;
