//! What a layer promises beyond one call: gradients that add up, gradients that come later, buffers
//! of the caller, memory, streams, cached weights. On every engine; `docs/errors.md` says which
//! mistakes each test would catch.

mod accumulate;
mod buffers;
mod conversions;
mod delayed;
#[path = "../engines.rs"]
mod engines;
mod exact;
mod experts;
mod forms;
mod gone;
mod inferred;
mod kernels;
#[cfg(feature = "emulator")]
mod memory;
mod prepare;
mod recipe_buffers;
mod recipes;
mod skipped;
mod streams;

use std::process::ExitCode;

use libtest_mimic::Arguments;

use crate::engines::{on_blackwell, on_engines};

fn main() -> ExitCode {
    let tests = [
        accumulate::TESTS,
        delayed::TESTS,
        buffers::TESTS,
        inferred::TESTS,
        prepare::TESTS,
        recipes::TESTS,
        forms::TESTS,
        recipe_buffers::TESTS,
        gone::TESTS,
        skipped::TESTS,
        experts::TESTS,
        conversions::TESTS,
        streams::TESTS,
        kernels::TESTS,
    ];
    let mut trials = on_engines(&tests.concat());
    trials.extend(on_blackwell(
        &[recipes::ON_BLACKWELL, forms::TESTS, recipe_buffers::ON_BLACKWELL, kernels::ON_BLACKWELL]
            .concat(),
    ));
    #[cfg(feature = "emulator")]
    // First, since it is the longest, so that others fill the time beside it.
    trials.insert(0, memory::trial());
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
