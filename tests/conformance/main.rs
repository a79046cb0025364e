//! The table of behaviours on every engine that is here; see `host/src/conformance`.
//!
//! `grouped-linear verify` runs the same cases outside of `cargo test`, and more of them.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use grouped_linear::conformance::{
    Outcome, SEED, cast_cases, engines, low_precision_cases, run_case, run_cast, run_low_precision,
    selected_cases,
};
use libtest_mimic::{Arguments, Completion, Trial};

/// How many cases of an engine were run, and how many it refused as it must.
#[derive(Default)]
struct Counts {
    ran: AtomicUsize,
    refused: AtomicUsize,
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let (cases, casts, low) = (selected_cases(), cast_cases(), low_precision_cases());
    let count = cases.len() + casts.len() + low.len();
    let mut trials = Vec::new();
    let mut counters = Vec::new();
    for engine in engines() {
        if let Err(reason) = &engine.device {
            // Shown as ignored, never as passed.
            let name = format!("{}: skipped ({reason})", engine.name);
            trials.push(Trial::test(name, || Ok(())).with_ignored_flag(true));
            counters.push((engine.name, None));
            continue;
        }
        let (engine, counts) = (Arc::new(engine), Arc::new(Counts::default()));
        for (number, &case) in cases.iter().enumerate() {
            let name = format!("{}: {case}", engine.name);
            let (engine, counts) = (engine.clone(), counts.clone());
            trials.push(Trial::ignorable_test(name, move || {
                let outcome = engine.device_for(number).and_then(|device| run_case(&case, &device));
                let count = match outcome {
                    Ok(Outcome::Refused(_)) => &counts.refused,
                    Ok(Outcome::Passed) | Err(_) => &counts.ran,
                };
                count.fetch_add(1, Ordering::Relaxed);
                Ok(match outcome? {
                    Outcome::Passed => Completion::Completed,
                    Outcome::Refused(reason) => {
                        Completion::ignored_with(format!("refused, as it must be: {reason}"))
                    }
                })
            }));
        }
        for (number, &case) in casts.iter().enumerate() {
            let name = format!("{}: {case}", engine.name);
            let (engine, counts) = (engine.clone(), counts.clone());
            trials.push(Trial::test(name, move || {
                counts.ran.fetch_add(1, Ordering::Relaxed);
                Ok(run_cast(&case, &engine.device_for(number)?)?)
            }));
        }
        for (number, &case) in low.iter().enumerate() {
            let name = format!("{}: {case}", engine.name);
            let (engine, counts) = (engine.clone(), counts.clone());
            trials.push(Trial::test(name, move || {
                counts.ran.fetch_add(1, Ordering::Relaxed);
                Ok(run_low_precision(&case, &engine.device_for(number)?)?)
            }));
        }
        counters.push((engine.name, Some(counts)));
    }
    let whole = arguments.filter.is_none() && !arguments.list && arguments.skip.is_empty();
    let conclusion = libtest_mimic::run(&arguments, trials);

    let mut counted = true;
    for (engine, counts) in counters {
        match counts {
            Some(counts) => {
                let [ran, refused] =
                    [&counts.ran, &counts.refused].map(|n| n.load(Ordering::Relaxed));
                println!(
                    "{engine}: {ran} of {count} cases were run, {refused} refused as they must be \
                     (seed {SEED})"
                );
                counted &= !whole || arguments.ignored || ran + refused == count;
                let must = cases.iter().filter(|case| case.refusal(engine != "cpu").is_some());
                counted &= !whole || arguments.ignored || refused == must.count();
            }
            None => {
                println!("{engine}: 0 cases were run, {count} skipped");
                // These need nothing that a machine might lack.
                counted &= engine == "cuda";
            }
        }
    }
    if conclusion.has_failed() || !counted {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
