//! What only a device that launches kernels has: graphs, streams, device memory, tensors beyond 2³¹
//! elements, foreign pointers, and agreement of the kernels with one another.
//!
//! Without a GPU every trial is shown as ignored, with the reason, never as passed. What all engines
//! have in common is for `tests/conformance`.

mod capture;
mod device;
mod host;
mod interop;
mod kernels;
mod large;
mod memory;
mod replay;
mod shapes;
mod streams;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use grouped_linear::Device;
use grouped_linear::conformance::engines;
use libtest_mimic::{Arguments, Completion, Failed, Trial};

/// What a trial ends with; errors of the library and messages become failures by `?`.
type Outcome = Result<(), Failed>;

/// A name and what is tried on the GPU.
struct Check {
    name: String,
    run: Box<dyn FnOnce(&Device) -> Outcome + Send>,
}

impl Check {
    fn new(name: impl Into<String>, run: impl FnOnce(&Device) -> Outcome + Send + 'static) -> Self {
        Self { name: name.into(), run: Box::new(run) }
    }
}

/// Trials at a time, where the command line does not say: some side by side, since work of other
/// threads on other streams must not matter; few, since the largest take 10 GB.
const THREADS: usize = 4;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(THREADS));
    let gpu = engines().into_iter().find(|engine| engine.name == "cuda");
    let gpu = gpu.map_or_else(|| Err("no engine".to_string()), |engine| engine.device);
    let checks: Vec<Check> = [
        replay::checks(),
        capture::checks(),
        streams::checks(),
        large::checks(),
        memory::checks(),
        kernels::checks(),
        shapes::checks(),
        interop::checks(),
    ]
    .into_iter()
    .flatten()
    .collect();

    let (count, ran) = (checks.len(), Arc::new(AtomicUsize::new(0)));
    let trials = checks.into_iter().map(|check| {
        let (gpu, ran) = (gpu.clone(), ran.clone());
        Trial::ignorable_test(check.name, move || match gpu {
            Err(reason) => Ok(Completion::ignored_with(reason)),
            Ok(device) => {
                ran.fetch_add(1, Ordering::Relaxed);
                (check.run)(&device).map(|()| Completion::Completed)
            }
        })
    });
    let whole = arguments.filter.is_none() && !arguments.list && arguments.skip.is_empty();
    let conclusion = libtest_mimic::run(&arguments, trials.collect());

    let ran = ran.load(Ordering::Relaxed);
    match &gpu {
        Ok(device) => println!("{}: {ran} of {count} trials were run", device.info().name),
        Err(reason) => println!("cuda: 0 trials were run, {count} skipped ({reason})"),
    }
    // `--ignored` asks for trials that carry a flag, and none does.
    let counted = gpu.is_err() || !whole || arguments.ignored || ran == count;
    if conclusion.has_failed() || !counted {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
