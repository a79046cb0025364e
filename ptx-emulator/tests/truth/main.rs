//! The truth table: what a GPU answers to one small module per form of instruction, and whether the
//! emulator answers the same.
//!
//! Without arguments, or with those of the standard test harness, every case runs on the emulator
//! and is compared with its row in `h200.tsv`. Four other modes help to make the table:
//!
//! * `--record PATH` runs all cases on the first CUDA device and writes the table; a case that
//!   fails has a row that says why. Nothing but the driver is needed.
//! * `--assemble` has the program named by `PTXAS` assemble every module.
//! * `--print NAME` prints the module of a case, `--list` the names.

mod atomics;
mod barriers;
mod cases;
mod check;
mod control;
mod convert;
mod copies;
mod device;
mod float;
mod integer;
mod logic;
mod memory;
mod mma;
mod numbers;
mod table;
mod tensors;
mod tiles;
mod warp;
mod wgmma;

use std::io::Write as _;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use cases::Case;

/// All cases; the name of each starts with its family.
fn all() -> Vec<Case> {
    [
        integer::cases(),
        logic::cases(),
        float::cases(),
        convert::cases(),
        memory::cases(),
        warp::cases(),
        atomics::cases(),
        barriers::cases(),
        control::cases(),
        tiles::cases(),
        copies::cases(),
        tensors::cases(),
        mma::cases(),
        wgmma::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["--record", path] => device::record(&all(), path),
        ["--record-from", first] => device::record_from(&all(), first),
        ["--assemble"] => assemble(&all()),
        ["--list"] => {
            all().iter().for_each(|case| println!("{}", case.name));
            ExitCode::SUCCESS
        }
        ["--print", name] => {
            all().iter().filter(|case| case.name == name).for_each(|case| print!("{}", case.ptx));
            ExitCode::SUCCESS
        }
        _ => check::run(all()),
    }
}

/// Whether every module assembles, two at a time.
fn assemble(cases: &[Case]) -> ExitCode {
    let Some(program) = std::env::var_os("PTXAS") else {
        eprintln!("PTXAS names no program");
        return ExitCode::FAILURE;
    };
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(0_usize));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(message) = assemble_one(&program, &case.ptx) {
                        println!("{}:\n{message}", case.name);
                        *failures.lock().expect("no thread panics with the lock") += 1;
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no thread panicked");
    println!("{} of {} modules assemble", cases.len() - failures, cases.len());
    ExitCode::from(u8::from(failures > 0))
}

fn assemble_one(program: &std::ffi::OsStr, ptx: &str) -> Result<(), String> {
    let mut child = Command::new(program)
        .args(["-arch=sm_90a", "-", "-o", "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(ptx.as_bytes()).map_err(|error| error.to_string())?;
    }
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    if output.status.success() && !text.contains("C75") { Ok(()) } else { Err(text) }
}
