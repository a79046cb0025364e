//! `verify`: the conformance cases on the engines present.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use clap::Args;
use grouped_linear::Device;
use grouped_linear::conformance::{
    Case, CastCase, Engine, LowPrecisionCase, Outcome, SEED, all_cases, cast_cases,
    engines_of_every_architecture, low_precision_cases, run_case, run_cast, run_low_precision,
    selected_cases,
};
use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;

use crate::device::DeviceChoice;

/// Failures that are printed in full; the rest is counted.
const MOST_SHOWN: usize = 20;

/// Flags of `verify`.
#[derive(Args, Clone, Debug)]
pub struct VerifyArgs {
    /// Run every case instead of the pairwise selection.
    #[arg(long)]
    full: bool,
    /// Run a part of the cases, evenly drawn: `3/16` is the third of sixteen, which together are
    /// all.
    #[arg(long, value_name = "PART/PARTS", default_value = "1/1")]
    part: Part,
    /// Which engines: `cpu`, `emulated:sm_90a`, `emulated:sm_100a`, `cuda` (which must be there),
    /// or `auto`: all of them, as far as they are there.
    #[arg(long, value_enum, default_value = "auto", hide_possible_values = true)]
    device: DeviceChoice,
}

/// One of several parts of the cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    /// From one on.
    number: usize,
    of: usize,
}

impl Part {
    fn has(self, case: usize) -> bool {
        case % self.of + 1 == self.number
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').map(|(number, of)| (number.parse(), of.parse()));
        match numbers {
            Some((Ok(number), Ok(of))) if (1..=of).contains(&number) => Ok(Self { number, of }),
            _ => Err("expected two numbers such as 3/16, the first at most the second".to_owned()),
        }
    }
}

/// What an engine runs.
#[derive(Clone, Debug)]
enum Check {
    Case(Case),
    Cast(CastCase),
    LowPrecision(LowPrecisionCase),
}

impl Check {
    fn tells(&self, engine: &Engine) -> bool {
        match self {
            Self::Case(_) | Self::Cast(_) => true,
            Self::LowPrecision(case) => engine.tells(case),
        }
    }

    fn run(&self, device: &Device) -> Result<Outcome, String> {
        match self {
            Self::Case(case) => run_case(case, device),
            Self::Cast(case) => run_cast(case, device).map(|()| Outcome::Passed),
            Self::LowPrecision(case) => run_low_precision(case, device),
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Case(case) => case.fmt(f),
            Self::Cast(case) => case.fmt(f),
            Self::LowPrecision(case) => case.fmt(f),
        }
    }
}

/// One row of the table.
#[derive(Clone, Debug, Default, PartialEq)]
struct Row {
    engine: &'static str,
    run: usize,
    failed: usize,
    /// Cases that the engine must refuse and did: not run.
    refused: usize,
    /// Cases of an engine that is not here.
    skipped: usize,
    reason: Option<String>,
    time: Duration,
}

/// Runs the cases and prints a table; fails if a case does.
pub fn run(args: &VerifyArgs) -> Result<()> {
    let cases = if args.full { all_cases() } else { selected_cases() };
    let casts = cast_cases().into_iter().map(Check::Cast);
    let low = low_precision_cases().into_iter().map(Check::LowPrecision);
    let cases: Vec<Check> = cases.into_iter().map(Check::Case).chain(casts).chain(low).collect();
    // A case has the scheduler's seed of its number, whatever the part.
    let cases: Vec<(usize, Check)> =
        cases.into_iter().enumerate().filter(|(number, _)| args.part.has(*number)).collect();
    let kind = if args.full { "all" } else { "a selection; --full runs all" };
    let Part { number, of } = args.part;
    ensure!(!cases.is_empty(), "--part {number}/{of}: it has no case; ask for fewer parts");
    let part = match args.part {
        Part { of: 1, .. } => String::new(),
        Part { number, of } => format!(", part {number} of {of}"),
    };
    say!("{} cases ({kind}{part}), seed {SEED}", cases.len());
    let mut rows = Vec::new();
    for engine in
        engines_of_every_architecture().iter().filter(|engine| wanted(args.device, engine.name))
    {
        rows.push(run_engine(engine, &cases));
    }
    say!("{}", table(&rows));
    judge(args, &rows)
}

fn wanted(choice: DeviceChoice, engine: &str) -> bool {
    match choice {
        DeviceChoice::Auto => true,
        DeviceChoice::Cpu => engine == "cpu",
        DeviceChoice::Cuda => engine == "cuda",
        DeviceChoice::EmulatedSm90a => engine == "emulated-sm_90a",
        DeviceChoice::EmulatedSm100a => engine == "emulated-sm_100a",
    }
}

fn run_engine(engine: &Engine, cases: &[(usize, Check)]) -> Row {
    if let Err(reason) = &engine.device {
        let (skipped, reason) = (cases.len(), Some(reason.clone()));
        return Row { engine: engine.name, skipped, reason, ..Row::default() };
    }
    let start = Instant::now();
    let cases: Vec<&(usize, Check)> =
        cases.iter().filter(|(_, check)| check.tells(engine)).collect();
    let row = run_cases(engine, &cases);
    Row { time: start.elapsed(), ..row }
}

fn run_cases(engine: &Engine, cases: &[&(usize, Check)]) -> Row {
    let name = engine.name;
    let style = ProgressStyle::with_template("{msg:15} {bar:30} {pos}/{len} {elapsed}, {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(cases.len() as u64).with_style(style).with_message(name);
    // Most of the time goes to the oracle and to emulation, both on the CPU; every case has a
    // stream of its own.
    let [failed, refused] = [0; 2].map(AtomicUsize::new);
    cases.par_iter().for_each(|(number, case)| {
        match engine.device_for(*number).and_then(|device| case.run(&device)) {
            Ok(Outcome::Passed) => {}
            Ok(Outcome::Refused(_)) => {
                refused.fetch_add(1, Ordering::Relaxed);
            }
            Err(reason) => {
                if failed.fetch_add(1, Ordering::Relaxed) < MOST_SHOWN {
                    bar.suspend(|| say!("FAILED {name}: {case}: {reason}"));
                }
            }
        }
        bar.inc(1);
    });
    bar.finish_and_clear();
    let [failed, refused] = [failed, refused].map(AtomicUsize::into_inner);
    let run = cases.len() - refused;
    Row { engine: name, run, failed, refused, ..Row::default() }
}

fn table(rows: &[Row]) -> String {
    let mut lines = vec![format!(
        "{:<16}{:>8}{:>8}{:>8}{:>9}{:>9}{:>10}",
        "engine", "run", "passed", "failed", "refused", "skipped", "seconds"
    )];
    for row in rows {
        lines.push(format!(
            "{:<16}{:>8}{:>8}{:>8}{:>9}{:>9}{:>10.1}",
            row.engine,
            row.run,
            row.run - row.failed,
            row.failed,
            row.refused,
            row.skipped,
            row.time.as_secs_f64()
        ));
    }
    for row in rows {
        if let Some(reason) = &row.reason {
            lines.push(format!("{} was skipped: {reason}", row.engine));
        }
    }
    lines.join("\n")
}

/// A failed case is a failure; so is a GPU that was asked for and is not there, and a part of which
/// nothing was run.
fn judge(args: &VerifyArgs, rows: &[Row]) -> Result<()> {
    let failed: usize = rows.iter().map(|row| row.failed).sum();
    if failed > 0 {
        bail!("{failed} cases failed");
    }
    ensure!(
        args.device == DeviceChoice::Auto || rows.iter().all(|row| row.skipped == 0),
        "the engine that was asked for cannot run here; --device cpu needs no GPU"
    );
    let Part { number, of } = args.part;
    let why = match args.device {
        DeviceChoice::Cpu => {
            "on the CPU quantizations are not, which would be compared with themselves, nor cases \
             that it must refuse; ask for fewer parts, or for --device emulated:sm_90a"
        }
        _ => "cases that an engine must refuse are not; ask for fewer parts",
    };
    let run = rows.iter().any(|row| row.run > 0);
    ensure!(run, "--part {number}/{of}: no case of it was run: {why}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(part: &str, device: DeviceChoice) -> VerifyArgs {
        VerifyArgs { full: false, part: part.parse().expect("a part"), device }
    }

    #[test]
    fn parts_are_the_whole() {
        let parts = ["1/3", "2/3", "3/3"].map(|text| text.parse::<Part>().expect("a part"));
        for case in 0..10 {
            assert_eq!(parts.iter().filter(|part| part.has(case)).count(), 1, "case {case}");
        }
        assert!((0..10).all(|case| "1/1".parse::<Part>().expect("a part").has(case)));
        let nothing = args("999999/1000000", DeviceChoice::Cpu);
        assert!(run(&nothing).is_err_and(|error| error.to_string().contains("it has no case")));
        for wrong in ["0/3", "4/3", "3", "1/0", "a/b", "-1/3"] {
            assert!(wrong.parse::<Part>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn skipped_and_refused_cases_are_no_passed_cases() {
        let reason = Some("no driver".to_owned());
        let rows = [
            Row { engine: "cpu", run: 5, failed: 1, refused: 2, ..Row::default() },
            Row { engine: "cuda", skipped: 5, reason, ..Row::default() },
        ];
        let table = table(&rows);
        let words: Vec<Vec<&str>> =
            table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words[0][1..6], ["run", "passed", "failed", "refused", "skipped"]);
        assert_eq!(words[1][..6], ["cpu", "5", "4", "1", "2", "0"]);
        assert_eq!(words[2][..6], ["cuda", "0", "0", "0", "0", "5"]);
        assert!(table.ends_with("cuda was skipped: no driver"));

        let judge = |device, rows: &[Row]| {
            judge(&args("3/16", device), rows).map_err(|error| error.to_string())
        };
        assert!(judge(DeviceChoice::Auto, &rows).is_err_and(|reason| reason == "1 cases failed"));
        let [_, skipped] = rows;
        let passed = Row { engine: "cpu", run: 1, refused: 3, ..Row::default() };
        let refused = Row { engine: "cpu", refused: 3, ..Row::default() };
        let idle = Row { engine: "cpu", ..Row::default() };
        assert_eq!(judge(DeviceChoice::Auto, &[passed, skipped.clone()]), Ok(()));
        let cannot = judge(DeviceChoice::Cuda, std::slice::from_ref(&skipped)).unwrap_err();
        assert!(cannot.contains("cannot run here"), "{cannot}");
        for nothing in [vec![skipped.clone()], vec![refused], vec![idle, skipped], vec![]] {
            let reason = judge(DeviceChoice::Auto, &nothing).unwrap_err();
            assert!(reason.starts_with("--part 3/16: no case of it was run"), "{reason}");
        }
    }

    /// A part that has a single case, a quantization.
    #[test]
    fn a_part_of_which_nothing_is_run_is_no_success() {
        let plain = selected_cases().len() + cast_cases().len();
        let low = low_precision_cases();
        let is_quantization =
            |case: &LowPrecisionCase| !matches!(case, LowPrecisionCase::Product(_));
        let place = low.iter().position(is_quantization).expect("a quantization");
        let part = format!("{}/{}", plain + place + 1, plain + low.len());
        let error = run(&args(&part, DeviceChoice::Cpu)).expect_err("no case can be run");
        let reason = "no case of it was run: on the CPU quantizations are not";
        assert!(error.to_string().contains(reason), "{error}");
        run(&args(&part, DeviceChoice::EmulatedSm90a)).expect("the emulated GPU runs it");
    }
}
