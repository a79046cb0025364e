//! Functions driven by an autodiff engine (a tape), and pipelines of them, on every device that
//! this crate computes on.
//!
//! Every test is a trial per engine. Without a GPU its trials are shown as ignored, with the
//! reason.

#[cfg(feature = "emulator")]
mod capture;
#[path = "../engines.rs"]
mod engines;
mod fusion;
mod memory;
#[path = "../other_device.rs"]
mod other_device;
mod pipeline;
mod placement;
mod recipes;
mod refusals;
mod relu;
mod tape;

use std::process::ExitCode;

use grouped_linear::conformance::Generator;
use grouped_linear::{Config, DType, GroupedLinear, GroupedTensor, Result, Splits, Stream, Tensor};
use libtest_mimic::Arguments;

use crate::engines::on_engines;

pub(crate) const GROUPS: usize = 3;
pub(crate) const SPLITS: [usize; GROUPS] = [2, 0, 3];
pub(crate) const ROWS: usize = 5;

pub(crate) fn splits() -> Splits {
    Splits::host(&SPLITS).expect("small")
}

/// Random values.
pub(crate) fn tensor(stream: &Stream, shape: &[usize], seed: u64) -> Result<Tensor> {
    let values = Generator::new(seed).values(shape.iter().product(), DType::F32);
    Tensor::from_slice(stream, shape, &values)
}

/// A layer with random parameters, in FP32.
pub(crate) fn layer(
    stream: &Stream,
    (k, n): (usize, usize),
    has_bias: bool,
    seed: u64,
) -> Result<GroupedLinear> {
    let config = Config { groups: GROUPS, in_features: k, out_features: n, dtype: DType::F32 };
    let packed = |shape: &[usize], seed| GroupedTensor::packed(tensor(stream, shape, seed)?);
    let bias = has_bias.then(|| packed(&[GROUPS, n], seed + 1)).transpose()?;
    GroupedLinear::new(stream, config, packed(&[GROUPS, n, k], seed)?, bias)
}

fn main() -> ExitCode {
    let tests = [
        tape::TESTS,
        pipeline::TESTS,
        memory::TESTS,
        refusals::TESTS,
        placement::TESTS,
        fusion::TESTS,
        recipes::TESTS,
    ];
    let trials = on_engines(&tests.concat());
    #[cfg(feature = "emulator")]
    let trials = trials.into_iter().chain(capture::trials()).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
