//! `ptx-run`: runs the kernels of a PTX file as a launch description in TOML says, on the CPU, and
//! reports what is wrong with them.

mod buffers;
mod description;
mod failure;
mod numbers;
mod output;
mod parameters;
// The generator is none of the library's interface, but it is one file, which both compile.
#[path = "../../random.rs"]
mod random;
mod run;
mod tensor_map;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

use description::Description;
use failure::{Failure, Result};
use run::Outcome;

/// What `--help` says behind the options.
const EXIT_CODES: &str = "Exit codes:
  0  every launch ended well and every expectation holds
  1  an expectation does not hold
  2  the command line, the description or a file is wrong, or a launch is impossible
  3  the PTX cannot be loaded
  4  a checker reports a kernel";

/// Runs the kernels of a PTX file on the CPU as a launch description says.
#[derive(Parser)]
#[command(name = "ptx-run", version, after_help = EXIT_CODES)]
struct CommandLine {
    /// The launch description, in TOML; the crate's documentation describes it.
    description: PathBuf,
    /// The PTX to run instead of the description's.
    #[arg(long, value_name = "FILE")]
    ptx: Option<PathBuf>,
    /// Seed of the order of events, instead of the description's.
    #[arg(long)]
    seed: Option<u64>,
    /// Run under this many seeds, beginning with the one given; says which of them fail.
    #[arg(long, value_name = "COUNT", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Print what each launch executed.
    #[arg(long)]
    statistics: bool,
    /// Do not check for races, uninitialised shared memory and forgotten copies: faster.
    #[arg(long)]
    no_checks: bool,
    /// Warp instructions after which a launch is reported as endless.
    #[arg(long, value_name = "COUNT")]
    instruction_limit: Option<u64>,
    /// Sum FP8 products exactly, not with the hardware's 14 bits.
    #[arg(long)]
    exact_fp8: bool,
}

fn main() -> ExitCode {
    let command_line = CommandLine::parse();
    match run_all(&command_line) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let text = failure.to_string();
            if !text.is_empty() {
                eprintln!("{text}");
            }
            failure.exit_code()
        }
    }
}

fn run_all(command_line: &CommandLine) -> Result {
    let description = Description::read(&command_line.description)?;
    let folder = command_line.description.parent().unwrap_or(Path::new("."));
    let path = match (&command_line.ptx, &description.ptx) {
        (Some(path), _) => path.clone(),
        (None, Some(path)) => folder.join(path),
        (None, None) => {
            return Err(Failure::wrong("neither the description nor --ptx names a PTX file"));
        }
    };
    let text = std::fs::read_to_string(&path)
        .map_err(|error| Failure::wrong(format!("{}: {error}", path.display())))?;
    let job = run::Job {
        description: &description,
        folder,
        path: &path,
        text: &text,
        statistics: command_line.statistics,
    };
    let mut options = job.options()?;
    if command_line.no_checks {
        options.checks = ptx_emulator::Checks::Off;
    }
    if let Some(limit) = command_line.instruction_limit {
        options.instruction_limit = limit;
    }
    if command_line.exact_fp8 {
        options.fp8_accumulation = ptx_emulator::Fp8Accumulation::Exact;
    }
    let first = command_line.seed.unwrap_or(options.seed);
    if command_line.seeds == 1 {
        options.seed = first;
        return job.run(options, output::Mode::Everything).map(drop);
    }
    run_seeds(&job, &options, first, command_line.seeds)
}

/// Runs under seed after seed. The exit code is that of the first seed that fails.
fn run_seeds(
    job: &run::Job<'_>,
    options: &ptx_emulator::Options,
    first: u64,
    seeds: u64,
) -> Result {
    let mut failed: Option<Failure> = None;
    let mut failures = 0;
    let mut reference: Option<(u64, Outcome)> = None;
    for seed in (0..seeds).map(|step| first.wrapping_add(step)) {
        let options = ptx_emulator::Options { seed, ..options.clone() };
        let mode =
            if seed == first { output::Mode::Everything } else { output::Mode::Expectations };
        match (job.run(options, mode), &reference) {
            (Ok(outcome), None) => reference = Some((seed, outcome)),
            (Ok(outcome), Some((earlier, reference))) => {
                for name in outcome.differences(reference) {
                    output::say(&format!(
                        "seed {seed}: buffer `{name}` ends otherwise than under seed {earlier}\n"
                    ));
                }
            }
            // What is wrong without regard to the seed is said once.
            (Err(failure), _) if !failure.depends_on_seed() => return Err(failure),
            (Err(failure), _) => {
                failures += 1;
                eprintln!("seed {seed}: {failure}");
                failed.get_or_insert(failure);
            }
        }
    }
    output::say(&format!("{} of {seeds} seeds ended well\n", seeds - failures));
    match failed {
        Some(failure) => Err(failure.told()),
        None => Ok(()),
    }
}
