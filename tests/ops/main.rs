//! Functions driven by an engine, and pipelines of them, on every engine.
//!
//! Every test is a trial per engine. Without a GPU its trials are shown as ignored, with the reason.

#[cfg(feature = "emulator")]
mod capture;
mod fusion;
mod memory;
mod pipeline;
mod placement;
mod refusals;
mod relu;
mod tape;

use std::process::ExitCode;
use std::sync::Arc;

use grouped_linear::conformance::{Generator, engines};
use grouped_linear::{
    Config, DType, Device, DeviceKind, GroupedLinear, GroupedTensor, Result, Splits, Stream, Tensor,
};
use libtest_mimic::{Arguments, Completion, Trial};

pub(crate) const GROUPS: usize = 3;
pub(crate) const SPLITS: [usize; GROUPS] = [2, 0, 3];
pub(crate) const ROWS: usize = 5;

/// What is tried on a stream of an engine; it panics or fails.
pub(crate) type Test = fn(&Stream) -> Result<()>;

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

/// A stream of another device: of the CPU, and for the CPU of an emulated GPU, where there are any.
pub(crate) fn elsewhere(stream: &Stream) -> Option<Stream> {
    if stream.device().id().kind != DeviceKind::Cpu {
        return Device::cpu().stream().ok();
    }
    #[cfg(feature = "emulator")]
    let other = Device::emulated(grouped_linear::Arch::Sm90a);
    #[cfg(not(feature = "emulator"))]
    let other = Device::cuda(0);
    other.and_then(|device| device.stream()).ok()
}

fn main() -> ExitCode {
    let tests = [
        tape::TESTS,
        pipeline::TESTS,
        memory::TESTS,
        refusals::TESTS,
        placement::TESTS,
        fusion::TESTS,
    ]
    .concat();
    let mut trials = Vec::new();
    for engine in engines().into_iter().map(Arc::new) {
        for (number, &(name, test)) in tests.iter().enumerate() {
            let engine = engine.clone();
            let name = format!("{}: {name}", engine.name);
            trials.push(Trial::ignorable_test(name, move || match engine.device_for(number) {
                Err(reason) => Ok(Completion::ignored_with(reason)),
                Ok(device) => {
                    let stream = device.stream()?;
                    test(&stream)?;
                    stream.synchronize()?;
                    Ok(Completion::Completed)
                }
            }));
        }
    }
    #[cfg(feature = "emulator")]
    trials.extend(capture::trials());
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
