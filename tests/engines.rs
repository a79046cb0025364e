//! Tests that run on every engine.

use std::sync::Arc;

use grouped_linear::Stream;
use grouped_linear::conformance::engines;
use libtest_mimic::{Completion, Trial};

/// What is tried on a stream of an engine, whose name it is told; it panics where it fails.
pub(crate) type Test = fn(&str, &Stream);

/// A trial of every test on every engine; shown as ignored, with the reason, where the engine is not
/// here.
pub(crate) fn on_engines(tests: &[(&str, Test)]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for engine in engines().into_iter().map(Arc::new) {
        for (number, &(name, test)) in tests.iter().enumerate() {
            let engine = engine.clone();
            let name = format!("{}: {name}", engine.name);
            trials.push(Trial::ignorable_test(name, move || match engine.device_for(number) {
                Err(reason) => Ok(Completion::ignored_with(reason)),
                Ok(device) => {
                    test(engine.name, &device.stream()?);
                    Ok(Completion::Completed)
                }
            }));
        }
    }
    trials
}
