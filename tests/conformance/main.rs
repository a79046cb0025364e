//! The table of behaviours on every engine that is here; see `host/src/conformance`.
//!
//! `grouped-linear verify` runs the same cases outside of `cargo test`, and more of them.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use grouped_linear::Device;
use grouped_linear::conformance::{
    Engine, KernelsOf, Outcome, SEED, cast_cases, engines_of_every_architecture,
    low_precision_cases, run_case, run_cast, run_low_precision, selected_cases,
};
use grouped_linear::plan::Target;
use libtest_mimic::{Arguments, Completion, Trial};

/// How many cases an engine has, how many it runs, how many of them it must refuse, and how many it
/// was seen to run and to refuse.
#[derive(Default)]
struct Counts {
    all: AtomicUsize,
    taken: AtomicUsize,
    refusals: AtomicUsize,
    ran: AtomicUsize,
    refused: AtomicUsize,
}

impl Counts {
    fn add(count: &AtomicUsize) {
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a case by its outcome.
    fn completion(&self, outcome: Result<Outcome, String>) -> Result<Completion, String> {
        Self::add(match outcome {
            Ok(Outcome::Refused(_)) => &self.refused,
            Ok(Outcome::Passed) | Err(_) => &self.ran,
        });
        Ok(match outcome? {
            Outcome::Passed => Completion::Completed,
            Outcome::Refused(reason) => {
                Completion::ignored_with(format!("refused, as it must be: {reason}"))
            }
        })
    }

    fn numbers(&self) -> [usize; 5] {
        let numbers = [&self.all, &self.taken, &self.refusals, &self.ran, &self.refused];
        numbers.map(|number| number.load(Ordering::Relaxed))
    }
}

fn case_trials(engine: &Arc<Engine>, counts: &Arc<Counts>, trials: &mut Vec<Trial>) {
    for (number, case) in selected_cases().into_iter().enumerate() {
        Counts::add(&counts.all);
        if !engine.takes(number, KernelsOf::case(&case)) {
            continue;
        }
        Counts::add(&counts.taken);
        if case.refusal(engine.name != "cpu").is_some() {
            Counts::add(&counts.refusals);
        }
        let name = format!("{}: {case}", engine.name);
        let (engine, counts) = (engine.clone(), counts.clone());
        trials.push(Trial::ignorable_test(name, move || {
            let outcome = engine.device_for(number).and_then(|device| run_case(&case, &device));
            Ok(counts.completion(outcome)?)
        }));
    }
}

/// Casts, quantizers, and products in low precision.
fn other_trials(engine: &Arc<Engine>, counts: &Arc<Counts>, trials: &mut Vec<Trial>) {
    type Run = Box<dyn FnOnce(&Device) -> Result<Outcome, String> + Send>;
    let mut add = |number, kernels, is_refused: bool, name: String, run: Run| {
        Counts::add(&counts.all);
        if !engine.takes(number, kernels) {
            return;
        }
        Counts::add(&counts.taken);
        if is_refused {
            Counts::add(&counts.refusals);
        }
        let (engine, counts) = (engine.clone(), counts.clone());
        trials.push(Trial::ignorable_test(format!("{}: {name}", engine.name), move || {
            let outcome = engine.device_for(number).and_then(|device| run(&device));
            Ok(counts.completion(outcome)?)
        }));
    };
    for (number, case) in cast_cases().into_iter().enumerate() {
        let run = move |device: &Device| run_cast(&case, device).map(|()| Outcome::Passed);
        add(number, KernelsOf::All, false, case.to_string(), Box::new(run));
    }
    let target = engine.device.as_ref().map_or(Target::CPU, Device::target);
    let cases = low_precision_cases().into_iter().enumerate();
    for (number, case) in cases.filter(|(_, case)| engine.tells(case)) {
        let run = Box::new(move |device: &Device| run_low_precision(&case, device));
        let (kernels, refusal) = (KernelsOf::low_precision(&case), case.refusal(target));
        add(number, kernels, refusal.is_some(), case.to_string(), run);
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let count = selected_cases().len() + cast_cases().len() + low_precision_cases().len();
    let mut trials = Vec::new();
    let mut counters = Vec::new();
    for engine in engines_of_every_architecture() {
        if let Err(reason) = &engine.device {
            // Shown as ignored, never as passed.
            let name = format!("{}: skipped ({reason})", engine.name);
            trials.push(Trial::test(name, || Ok(())).with_ignored_flag(true));
            counters.push((engine.name, None));
            continue;
        }
        let (engine, counts) = (Arc::new(engine), Arc::new(Counts::default()));
        case_trials(&engine, &counts, &mut trials);
        other_trials(&engine, &counts, &mut trials);
        counters.push((engine.name, Some(counts)));
    }
    let whole = arguments.filter.is_none() && !arguments.list && arguments.skip.is_empty();
    let conclusion = libtest_mimic::run(&arguments, trials);

    let mut counted = true;
    for (engine, counts) in counters {
        match counts {
            Some(counts) => {
                let [all, taken, refusals, ran, refused] = counts.numbers();
                println!(
                    "{engine}: {ran} of {all} cases were run, {refused} refused as they must be, \
                     {} are for other turns (seed {SEED})",
                    all - taken
                );
                counted &= !whole || arguments.ignored || ran + refused == taken;
                counted &= !whole || arguments.ignored || refused == refusals;
                // One architecture is run whole.
                counted &= engine == "emulated-sm_100a" || taken == all;
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
