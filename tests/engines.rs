//! Tests that run on every engine.

use std::sync::Arc;

use grouped_linear::Stream;
use grouped_linear::conformance::{Engine, engines, engines_of_every_architecture};
use libtest_mimic::{Completion, Trial};

/// What is tried on a stream of an engine, whose name it is told; it panics where it fails.
pub(crate) type Test = fn(&str, &Stream);

/// A trial of every test on every engine. Where there is no GPU its trials are shown as ignored,
/// with the reason; the other engines must be here. What a test has launched must succeed, too.
pub(crate) fn on_engines(tests: &[(&str, Test)]) -> Vec<Trial> {
    on(engines(), tests)
}

/// A trial of every test on emulated Blackwell, which is not among the engines of
/// [`on_engines`].
#[allow(dead_code)] // Not all binaries have tests that depend on the architecture.
pub(crate) fn on_blackwell(tests: &[(&str, Test)]) -> Vec<Trial> {
    let engines = engines_of_every_architecture().into_iter();
    on(engines.filter(|engine| engine.name == "emulated-sm_100a").collect(), tests)
}

fn on(engines: Vec<Engine>, tests: &[(&str, Test)]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for engine in engines.into_iter().map(Arc::new) {
        for (number, &(name, test)) in tests.iter().enumerate() {
            let engine = engine.clone();
            let name = format!("{}: {name}", engine.name);
            trials.push(Trial::ignorable_test(name, move || match engine.device_for(number) {
                Err(reason) if engine.name == "cuda" => Ok(Completion::ignored_with(reason)),
                Err(reason) => Err(reason.into()),
                Ok(device) => {
                    let stream = device.stream()?;
                    test(engine.name, &stream);
                    stream.synchronize()?;
                    Ok(Completion::Completed)
                }
            }));
        }
    }
    trials
}
