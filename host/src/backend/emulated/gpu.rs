//! One emulated GPU: the machine, its modules, and the failure that stopped it.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

use grouped_linear_kernels::variants::Kernel;
use ptx_emulator::{
    Arch, KernelId, LaunchConfig, LoadError, Machine, ModuleId, Options, SharedModule, Statistics,
};

use super::EmulatorOptions;
use super::graph::Capture;
use crate::backend::{DeviceId, DeviceInfo, DeviceKind, lock};
use crate::error::{Error, Kind, Result};
use crate::launch::batch::Batch;
use crate::plan::{GpuTarget, KernelTarget, Target, capability};
use crate::ptx;

/// From one operation's seed to the next: odd, so that a device repeats none; large, so that small
/// seeds of two devices lead to no seed in common; and not the step of splitmix64, in which the
/// emulator's generator walks, or each launch would draw what the last one drew, one later.
const SEED_STEP: u64 = 0xd1b5_4a32_d192_ed03;

/// The modules that GPUs have loaded of those that this build embeds. Tests make a GPU for each
/// case, and reading a module takes longer than most of their launches.
static SHARED_MODULES: Mutex<Vec<(Arch, &str, SharedModule)>> = Mutex::new(Vec::new());

/// The last modules that GPUs have loaded in place of this build's, with their texts: who changes
/// one runs it on several GPUs in a row.
pub(super) static REPLACED_MODULES: Mutex<VecDeque<(Arch, String, SharedModule)>> =
    Mutex::new(VecDeque::new());

/// How many of them: for some threads, each with a module and those that are launched beside it.
pub(super) const REPLACED_MODULES_KEPT: usize = 8;

/// A machine, shared by its streams and its memory.
///
/// `captures` may be held while `running` is taken, never the other way round; `batches` while
/// neither is.
pub(super) struct Gpu {
    info: DeviceInfo,
    gpu_target: GpuTarget,
    arch: Arch,
    replaced_modules: Vec<(String, String)>,
    running: Mutex<Running>,
    captures: Mutex<HashMap<u64, Capture>>,
    batches: Mutex<HashMap<u64, Batch>>,
}

struct Running {
    machine: Machine,
    /// The seed of the next operation.
    seed: u64,
    modules: Vec<(&'static str, ModuleId)>,
    statistics: Statistics,
    failure: Option<Failure>,
}

/// Why a GPU runs nothing any more.
#[derive(Clone)]
struct Failure {
    work: String,
    report: String,
}

/// Work of a stream.
pub(super) enum Operation {
    Launch { kernel: &'static Kernel, id: KernelId, grid: [u32; 2], args: Box<[u8]> },
    Copy { to: u64, from: u64, bytes: u64 },
    Zero { address: u64, bytes: u64 },
}

impl fmt::Debug for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gpu").field("info", &self.info).finish_non_exhaustive()
    }
}

impl Gpu {
    pub(super) fn new(options: EmulatorOptions) -> Result<Self> {
        let EmulatorOptions { arch, seed, multiprocessors, .. } = options;
        if multiprocessors == 0 {
            return Err(Error::invalid(
                "an emulated GPU of 0 multiprocessors was asked for, at least 1 is needed",
            ));
        }
        let compute_capability = compute_capability(arch)?;
        let mut machine = Options::new(arch);
        machine.seed = seed;
        machine.multiprocessors = multiprocessors;
        if let Some(limit) = options.instruction_limit {
            machine.instruction_limit = limit;
        }
        if let Some(bytes) = options.memory_bytes {
            machine.memory_bytes = bytes;
        }
        let machine = Machine::with_options(machine);
        let info = DeviceInfo {
            id: DeviceId { kind: DeviceKind::Emulated, ordinal: next_ordinal() },
            name: format!("emulated GPU, {arch}, seed {seed}"),
            compute_capability: Some(compute_capability),
            multiprocessors,
            memory_bytes: options.memory_bytes,
            driver: None,
        };
        Ok(Self {
            info,
            gpu_target: GpuTarget { compute_capability, multiprocessors },
            arch,
            replaced_modules: options.replaced_modules,
            running: Mutex::new(Running {
                machine,
                seed,
                modules: Vec::new(),
                statistics: Statistics::default(),
                failure: None,
            }),
            captures: Mutex::default(),
            batches: Mutex::default(),
        })
    }

    pub(super) fn info(&self) -> &DeviceInfo {
        &self.info
    }

    pub(super) fn target(&self) -> Target {
        Target { gpu: Some(self.gpu_target) }
    }

    pub(super) fn arch(&self) -> Arch {
        self.arch
    }

    /// The captures under way, by the number of their stream.
    pub(super) fn captures(&self) -> MutexGuard<'_, HashMap<u64, Capture>> {
        lock(&self.captures)
    }

    /// Operations that will be handed over together, by the number of their stream.
    pub(super) fn batches(&self) -> MutexGuard<'_, HashMap<u64, Batch>> {
        lock(&self.batches)
    }

    /// The failure that stopped the GPU, if one did.
    pub(super) fn check(&self) -> Result<()> {
        self.usable().map(drop)
    }

    /// The machine, unless it has failed.
    fn usable(&self) -> Result<MutexGuard<'_, Running>> {
        let running = lock(&self.running);
        match &running.failure {
            Some(failure) => Err(self.error(failure.clone())),
            None => Ok(running),
        }
    }

    fn error(&self, Failure { work, report }: Failure) -> Error {
        Kind::Emulated { device: self.info.id.to_string(), work, report }.into()
    }

    /// Address of new memory, a multiple of 256.
    pub(super) fn allocate(&self, bytes: usize) -> Result<u64> {
        self.usable()?.machine.allocate(bytes as u64).map_err(|error| {
            let (device, detail) = (self.info.id.to_string(), report(&error));
            Kind::OutOfMemory { bytes, device, detail }.into()
        })
    }

    /// Frees memory, also that of a GPU that has failed. Runs from destructors, so a failure has
    /// nobody to go to; the memory then stays allocated.
    pub(super) fn free(&self, address: u64) {
        let _ = lock(&self.running).machine.free(address);
    }

    /// Copies from the host.
    pub(super) fn write(&self, address: u64, bytes: &[u8]) -> Result<()> {
        let outcome = self.usable()?.machine.write(address, bytes);
        outcome.map_err(|error| self.failed("a copy from the host", &error))
    }

    /// Copies to the host.
    pub(super) fn read(&self, address: u64, bytes: &mut [u8]) -> Result<()> {
        let outcome = self.usable()?.machine.read(address, bytes);
        outcome.map_err(|error| self.failed("a copy to the host", &error))
    }

    fn failed(&self, work: &str, error: &dyn std::error::Error) -> Error {
        self.error(Failure { work: work.to_string(), report: report(error) })
    }

    /// Does the work. If it fails, that is for the calls that follow to report, as on a GPU, where
    /// the work would only have been added; an error here means that an earlier one failed.
    pub(super) fn execute(&self, operation: &Operation) -> Result<()> {
        let running = &mut *self.usable()?;
        // The same work twice shall not take the same course twice.
        running.machine.set_seed(running.seed);
        running.seed = running.seed.wrapping_add(SEED_STEP);
        match operation.run(&mut running.machine) {
            Ok(Some(statistics)) => running.statistics.add(&statistics),
            Ok(None) => {}
            Err(report) => {
                running.failure = Some(Failure { work: operation.to_string(), report });
            }
        }
        Ok(())
    }

    /// What all launches that ended well have done.
    pub(super) fn statistics(&self) -> Statistics {
        lock(&self.running).statistics.clone()
    }

    /// The kernel's handle; loads its module unless it is loaded.
    pub(super) fn kernel(&self, kernel: &Kernel) -> Result<KernelId> {
        let running = &mut *self.usable()?;
        let name = kernel.module;
        let loaded = running.modules.iter().find(|(known, _)| *known == name);
        let module = match loaded {
            Some((_, module)) => *module,
            None => {
                let module = self.load(&mut running.machine, name)?;
                running.modules.push((name, module));
                module
            }
        };
        running.machine.kernel(module, kernel.name).ok_or_else(|| {
            let detail = format!("it has no kernel {}", kernel.name);
            Kind::ModuleLoad { module: name.to_string(), detail, log: String::new() }.into()
        })
    }

    /// Loads a module. What another GPU has loaded is not read again: of this build's own modules
    /// all, of others the last ones.
    fn load(&self, machine: &mut Machine, name: &'static str) -> Result<ModuleId> {
        let (text, origin) = self.text(name)?;
        let refused = |error: LoadError| {
            let detail = format!("the emulator refuses the {origin} PTX");
            Kind::ModuleLoad { module: name.to_string(), detail, log: report(&error) }
        };
        let is_replaced = self.replaced_modules.iter().any(|(known, _)| known == name);
        let known = if is_replaced { self.known_text(text) } else { self.known_name(name) };
        if let Some(module) = known {
            return Ok(machine.load_shared(&module).map_err(refused)?);
        }
        // Others can load theirs meanwhile.
        let module = machine.load(text).map_err(refused)?;
        if let Some(shared) = machine.share(module) {
            if is_replaced {
                let mut known = lock(&REPLACED_MODULES);
                known.truncate(REPLACED_MODULES_KEPT - 1);
                known.push_front((self.arch, text.to_owned(), shared));
            } else {
                lock(&SHARED_MODULES).push((self.arch, name, shared));
            }
        }
        Ok(module)
    }

    /// One of this build's modules that a GPU has loaded.
    fn known_name(&self, name: &str) -> Option<SharedModule> {
        let known = lock(&SHARED_MODULES);
        let found = known.iter().find(|(arch, own, _)| *arch == self.arch && *own == name);
        found.map(|(.., module)| module.clone())
    }

    /// A replaced module that a GPU has loaded lately.
    fn known_text(&self, text: &str) -> Option<SharedModule> {
        let known = lock(&REPLACED_MODULES);
        let found = known.iter().find(|(arch, own, _)| *arch == self.arch && own == text);
        found.map(|(.., module)| module.clone())
    }

    /// A module's PTX and where it comes from.
    fn text(&self, name: &str) -> Result<(&str, &str)> {
        if let Some((_, text)) = self.replaced_modules.iter().find(|(known, _)| known == name) {
            return Ok((text, "replaced"));
        }
        let module = ptx::module(self.gpu_target.kernels()?, name)?;
        Ok((module.ptx, module.origin))
    }
}

impl Operation {
    /// Does the work; of a launch, what it did.
    fn run(&self, machine: &mut Machine) -> Result<Option<Statistics>, String> {
        match *self {
            Self::Launch { kernel, id, grid, ref args } => {
                let config = LaunchConfig {
                    grid: [grid[0], grid[1], 1],
                    block: [kernel.threads, 1, 1],
                    cluster: [kernel.cluster, 1, 1],
                    dynamic_shared_bytes: kernel.shared_bytes,
                };
                machine.launch(id, &config, args).map(Some).map_err(|error| report(&error))
            }
            Self::Copy { to, from, bytes } => {
                machine.copy(to, from, bytes).map(|()| None).map_err(|error| report(&error))
            }
            Self::Zero { address, bytes } => {
                machine.fill(address, 0, bytes).map(|()| None).map_err(|error| report(&error))
            }
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Launch { kernel, grid: [x, y], .. } => {
                write!(f, "kernel {} on a grid of {x} x {y} blocks", kernel.name)
            }
            Self::Copy { to, from, bytes } => {
                write!(f, "the copy of {bytes} bytes from {from:#x} to {to:#x}")
            }
            Self::Zero { address, bytes } => write!(f, "zeroing {bytes} bytes at {address:#x}"),
        }
    }
}

/// All that an error and its sources say.
fn report(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Some errors print their source themselves.
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

fn compute_capability(arch: Arch) -> Result<(u32, u32)> {
    match arch {
        Arch::Sm90a => Ok(capability(KernelTarget::Sm90a)),
        Arch::Sm100a => Ok(capability(KernelTarget::Sm100a)),
        other => Err(Error::unsupported(format!("GPUs of {other} cannot be emulated yet"))),
    }
}

/// Numbers the machines of this process, so that the memory of one is never taken for another's.
fn next_ordinal() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
