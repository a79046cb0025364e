//! One table of behaviours for all engines: what `cargo test` samples and `grouped-linear verify`
//! runs. Not part of the stable interface.
//!
//! A [`Case`] says what is computed on which sizes; [`run_case`] computes it twice on a device and
//! compares the results with the loops in [`reference::plain`](crate::reference::plain) in FP64.
//! A [`CastCase`] is held to the bit. A [`LowPrecisionCase`] quantizes, to the byte, or multiplies
//! what is quantized.

mod cases;
mod cast;
mod compare;
mod data;
mod layer;
mod layer_cases;
mod low_precision;
mod oracle;
mod pairwise;
mod rows;
mod run;
mod turns;

pub use self::cases::{
    BiasCase, Case, Factors, Layout, Operation, SEED, SplitSource, all_cases, selected_cases,
};
pub use self::cast::{CastCase, cast_cases, run_cast};
pub use self::compare::{Location, Tolerance, compare};
pub use self::data::Generator;
pub use self::layer_cases::{LayerUse, SinkCase};
pub use self::low_precision::{
    DrawnScales, LineScales, LowPrecisionCase, NanIn, ProductBias, ProductCase, QuantizeCase,
    SourceCase, StepsCase, low_precision_cases, run_low_precision,
};
pub use self::rows::RowPattern;
pub use self::run::{Outcome, run_case, run_case_once};
pub use self::turns::KernelsOf;
use self::turns::Turns;
use crate::backend::Device;
#[cfg(feature = "emulator")]
use crate::backend::EmulatorOptions;

/// An engine, or why it cannot run here.
#[derive(Debug)]
pub struct Engine {
    /// `cpu`, `emulated-sm_90a`, `emulated-sm_100a` or `cuda`.
    pub name: &'static str,
    /// The device, or the reason for which its cases are skipped.
    pub device: Result<Device, String>,
    /// Makes the device of the case with this number; without it all cases share `device`.
    device_of: Option<fn(usize) -> Result<Device, String>>,
    /// What `cargo test` has time for.
    turns: Turns,
}

impl Engine {
    fn shared(name: &'static str, device: Result<Device, String>) -> Self {
        Self { name, device, device_of: None, turns: Turns::ALL }
    }

    /// Whether `cargo test` runs the case with this number in its list. Emulated Hopper runs every
    /// case; emulated Blackwell [`BLACKWELL_TURNS`], and every one in `grouped-linear verify`.
    pub fn takes(&self, number: usize, kernels: KernelsOf) -> bool {
        self.turns.takes(number, kernels)
    }

    /// Whether the case can find anything here. Quantizations are compared with the CPU's, byte by
    /// byte, so the CPU's own would be with themselves; the reference's tests are in
    /// `reference::quantize`.
    pub fn tells(&self, case: &LowPrecisionCase) -> bool {
        self.name != "cpu" || matches!(case, LowPrecisionCase::Product(_))
    }

    /// The device for the case with this number. On the emulated GPU every case has a machine of
    /// its own, so that a kernel which fails stops no other case, and the cases take turns with
    /// [`SCHEDULER_SEEDS`].
    ///
    /// # Errors
    /// The reason for which the case is skipped.
    pub fn device_for(&self, case: usize) -> Result<Device, String> {
        match self.device_of {
            Some(make) => make(case),
            None => self.device.clone(),
        }
    }
}

/// Seeds of the emulated GPU's scheduler.
pub const SCHEDULER_SEEDS: [u64; 5] = [1, 2, 3, 5, 8];

/// The cases that emulated Blackwell runs in `cargo test`: of its own products one of two, of the
/// kernels that Hopper runs in full one of sixteen. Neither number has a divisor in common with
/// that of the seeds.
#[cfg(feature = "emulator")]
const BLACKWELL_TURNS: Turns = Turns { own: 2, shared: 16 };

/// Every engine that can run: [`engines`], and emulated Blackwell behind emulated Hopper.
pub fn engines_of_every_architecture() -> Vec<Engine> {
    let engines = engines().into_iter();
    #[cfg(feature = "emulator")]
    let engines = engines.flat_map(|engine| {
        let blackwell = (engine.name == "emulated-sm_90a").then(|| Engine {
            name: "emulated-sm_100a",
            device: emulated_blackwell(0),
            device_of: Some(emulated_blackwell),
            turns: BLACKWELL_TURNS,
        });
        std::iter::once(engine).chain(blackwell)
    });
    engines.collect()
}

/// The engines that tests of more than single operations run on: of the emulated GPUs Hopper's
/// alone, whose kernels GPUs have run, too.
pub fn engines() -> Vec<Engine> {
    let cuda = Device::cuda(0).map_err(|error| error.to_string()).and_then(|device| {
        if device.target().tensor_cores() {
            return Ok(device);
        }
        Err(format!("no kernels for {}", device.info().name))
    });
    let mut engines = vec![Engine::shared("cpu", Ok(Device::cpu()))];
    #[cfg(feature = "emulator")]
    engines.push(Engine {
        name: "emulated-sm_90a",
        device: emulated_hopper(0),
        device_of: Some(emulated_hopper),
        turns: Turns::ALL,
    });
    engines.push(Engine::shared("cuda", cuda));
    engines
}

#[cfg(feature = "emulator")]
fn emulated_hopper(case: usize) -> Result<Device, String> {
    emulated(ptx_emulator::Arch::Sm90a, case)
}

#[cfg(feature = "emulator")]
fn emulated_blackwell(case: usize) -> Result<Device, String> {
    emulated(ptx_emulator::Arch::Sm100a, case)
}

#[cfg(feature = "emulator")]
fn emulated(arch: ptx_emulator::Arch, case: usize) -> Result<Device, String> {
    let mut options = EmulatorOptions::new(arch);
    options.seed = SCHEDULER_SEEDS[case % SCHEDULER_SEEDS.len()];
    Device::emulated_with(options).map_err(|error| error.to_string())
}
