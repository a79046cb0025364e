//! What only a device that launches kernels has: graphs, cached weights in them, streams, device
//! memory, tensors beyond 2³¹ elements, foreign pointers, and agreement of the kernels with one
//! another.
//!
//! What is small enough is tried on the emulated GPU, too, and a part of what has kernels of its
//! own on Blackwell on an emulated one of those. Without a GPU its own trials are shown
//! as ignored, with the reason, never as passed. What all engines have in common is for
//! `tests/conformance`.

mod aligned;
mod alone;
mod cache;
mod capture;
mod captured;
mod device;
mod experts;
mod flag;
mod host;
mod interop;
mod kernels;
mod large;
mod maps;
mod memory;
mod recipes;
mod replay;
mod shapes;
mod streams;
mod times;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use grouped_linear::Device;
use grouped_linear::conformance::{Engine, engines_of_every_architecture};
use libtest_mimic::{Arguments, Completion, Failed, Trial};

/// What a trial ends with; errors of the library and messages become failures by `?`.
type Outcome = Result<(), Failed>;

/// A name and what is tried on the GPU, and on the emulated ones if it is small enough.
struct Check {
    name: String,
    /// On Hopper.
    emulated: bool,
    /// On Blackwell.
    blackwell: bool,
    run: Arc<dyn Fn(&Device) -> Outcome + Send + Sync>,
}

impl Check {
    fn new(
        name: impl Into<String>,
        run: impl Fn(&Device) -> Outcome + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), emulated: false, blackwell: false, run: Arc::new(run) }
    }

    /// The check for the emulated GPU, too: for those that take it seconds.
    fn emulated_if(self, emulated: bool) -> Self {
        Self { emulated, ..self }
    }

    /// The check for the emulated Blackwell, too: for some of those whose products differ there.
    fn blackwell_if(self, blackwell: bool) -> Self {
        Self { blackwell, ..self }
    }

    fn is_for(&self, engine: &str) -> bool {
        match engine {
            "cuda" => true,
            "emulated-sm_100a" => self.blackwell,
            _ => self.emulated,
        }
    }
}

/// Trials at a time, where the command line does not say: some side by side, since work of other
/// threads on other streams must not matter; few, since the largest take 10 GB.
const THREADS: usize = 4;

/// Trials of one engine, and how many of them were run.
struct Suite {
    engine: Arc<Engine>,
    count: usize,
    ran: Arc<AtomicUsize>,
}

impl Suite {
    fn new(engine: Engine) -> Self {
        Self { engine: Arc::new(engine), count: 0, ran: Arc::default() }
    }

    /// Every check that is for the engine. Without the device it is shown as ignored.
    fn trials(&mut self, checks: &[Check]) -> Vec<Trial> {
        let emulated = self.engine.name != "cuda";
        let chosen = checks.iter().filter(|check| check.is_for(self.engine.name)).enumerate();
        let trials = chosen.map(|(number, check)| {
            let (engine, ran, run) = (self.engine.clone(), self.ran.clone(), check.run.clone());
            let name = match emulated {
                true => format!("{}: {}", engine.name, check.name),
                false => check.name.clone(),
            };
            Trial::ignorable_test(name, move || match engine.device_for(number) {
                Err(reason) => Ok(Completion::ignored_with(reason)),
                Ok(device) => {
                    ran.fetch_add(1, Ordering::Relaxed);
                    run(&device).map(|()| Completion::Completed)
                }
            })
        });
        let trials: Vec<Trial> = trials.collect();
        self.count = trials.len();
        trials
    }

    /// Prints how many trials were run; whether that is all of them, or none for want of a GPU.
    fn conclude(&self) -> bool {
        let (name, ran, count) = (self.engine.name, self.ran.load(Ordering::Relaxed), self.count);
        match &self.engine.device {
            Ok(device) => {
                println!("{name}, {}: {ran} of {count} trials were run", device.info().name);
                ran == count
            }
            Err(reason) => {
                println!("{name}: 0 trials were run, {count} skipped ({reason})");
                true
            }
        }
    }
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(THREADS));
    let checks: Vec<Check> = [
        replay::checks(),
        cache::checks(),
        experts::checks(),
        alone::checks(),
        capture::checks(),
        captured::checks(),
        recipes::checks(),
        aligned::checks(),
        flag::checks(),
        streams::checks(),
        large::checks(),
        maps::checks(),
        memory::checks(),
        kernels::checks(),
        shapes::checks(),
        interop::checks(),
        times::checks(),
    ]
    .into_iter()
    .flatten()
    .collect();
    let engines = engines_of_every_architecture().into_iter();
    let launching = engines.filter(|engine| engine.name != "cpu");
    let mut suites: Vec<Suite> = launching.map(Suite::new).collect();
    let trials: Vec<Trial> = suites.iter_mut().flat_map(|suite| suite.trials(&checks)).collect();
    let whole = arguments.filter.is_none() && !arguments.list && arguments.skip.is_empty();
    let conclusion = libtest_mimic::run(&arguments, trials);

    let complete = suites.iter().filter(|suite| !suite.conclude()).count() == 0;
    // `--ignored` asks for trials that carry a flag, and none does.
    let counted = complete || !whole || arguments.ignored;
    if conclusion.has_failed() || !counted {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
