//! The table of behaviours on every engine that is here; see `host/src/conformance`.
//!
//! `grouped-linear verify` runs the same cases outside of `cargo test`, and more of them.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use grouped_linear::conformance::{SEED, engines, run_case, selected_cases};
use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let cases = selected_cases();
    let mut trials = Vec::new();
    let mut counters = Vec::new();
    for engine in engines() {
        let device = match engine.device {
            Ok(device) => device,
            Err(reason) => {
                // Shown as ignored, never as passed.
                let name = format!("{}: skipped ({reason})", engine.name);
                trials.push(Trial::test(name, || Ok(())).with_ignored_flag(true));
                counters.push((engine.name, None));
                continue;
            }
        };
        let ran = Arc::new(AtomicUsize::new(0));
        for &case in &cases {
            let (device, ran) = (device.clone(), ran.clone());
            trials.push(Trial::test(format!("{}: {case}", engine.name), move || {
                ran.fetch_add(1, Ordering::Relaxed);
                run_case(&case, &device).map_err(Into::into)
            }));
        }
        counters.push((engine.name, Some(ran)));
    }
    let whole = arguments.filter.is_none() && !arguments.list && arguments.skip.is_empty();
    let conclusion = libtest_mimic::run(&arguments, trials);

    let mut counted = true;
    for (engine, ran) in counters {
        match ran.map(|ran| ran.load(Ordering::Relaxed)) {
            Some(ran) => {
                println!("{engine}: {ran} of {} cases were run (seed {SEED})", cases.len());
                counted &= !whole || arguments.ignored || ran == cases.len();
            }
            None => {
                println!("{engine}: 0 cases were run, {} skipped", cases.len());
                counted &= engine != "cpu";
            }
        }
    }
    if conclusion.has_failed() || !counted {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
