//! The machine: memory, modules and launches.

mod error;
mod info;
mod limits;
mod memory;
mod place;
mod statistics;
mod values;
mod variables;
pub(crate) mod window;

pub use error::{LaunchError, LoadError};
pub use info::{KernelInfo, ParameterInfo};
pub(crate) use limits::CLUSTER_BLOCKS;
pub(crate) use memory::Memory;
pub use memory::MemoryError;
pub use place::{Place, SourceLine};
pub use statistics::{Executions, Statistics};
pub use values::{Parameters, Scalar};

use crate::arch::Arch;
use crate::execute::grid::{Clusters, GridState, run_grid};
use crate::module::{Module, SourceFile};
use crate::program::{Kernel, lower_kernels};
use crate::race::Races;
use crate::random::Random;
use std::sync::Arc;

/// Whether accesses are checked for races and uninitialised shared memory, and blocks for copies
/// into their shared memory that nobody has waited for. Bounds, alignment, barriers and deadlocks
/// are always checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Checks {
    /// They are.
    On,
    /// They are not: faster.
    Off,
}

/// How FP8 products of `wgmma` are summed; `mma.sync` sums them as it does the other types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fp8Accumulation {
    /// With about 14 bits, as the hardware does.
    Hardware,
    /// Exactly, rounded once per instruction.
    Exact,
}

/// What a machine is like. Fields may be added, so start from [`Options::new`]:
///
/// ```
/// use ptx_emulator::{Arch, Machine, Options};
///
/// let options = Options { seed: 7, multiprocessors: 2, ..Options::new(Arch::Sm90a) };
/// let machine = Machine::with_options(options);
/// assert_eq!(machine.options().instruction_limit, 1 << 32);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The architecture.
    pub arch: Arch,
    /// What the order of events depends on: equal seeds give equal runs.
    pub seed: u64,
    /// How many multiprocessors it has. As many blocks run at a time, in whole clusters and at
    /// least one; 0 counts as 1.
    pub multiprocessors: u32,
    /// Whether accesses are checked.
    pub checks: Checks,
    /// Warp instructions, summed over all warps, after which a launch that has not ended is
    /// reported.
    pub instruction_limit: u64,
    /// How FP8 products are summed.
    pub fp8_accumulation: Fp8Accumulation,
    /// How many bytes can be allocated at a time, variables of modules among them. An allocation
    /// counts what was asked for, not what keeps it apart from the next.
    pub memory_bytes: u64,
}

impl Options {
    /// Checks on, seed 0, four multiprocessors, 2³² warp instructions, FP8 as the hardware does, 64
    /// GiB.
    #[must_use]
    pub fn new(arch: Arch) -> Self {
        Self {
            arch,
            seed: 0,
            multiprocessors: 4,
            checks: Checks::On,
            instruction_limit: 1 << 32,
            fp8_accumulation: Fp8Accumulation::Hardware,
            memory_bytes: 1 << 36,
        }
    }
}

/// The shape of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchConfig {
    /// Blocks along x, y and z; multiples of `cluster`.
    pub grid: [u32; 3],
    /// Threads of a block along x, y and z.
    pub block: [u32; 3],
    /// Blocks of a cluster along x, y and z; ones for none.
    pub cluster: [u32; 3],
    /// Bytes of dynamic shared memory of a block. No attribute of the kernel has to be raised for
    /// more than 48 KiB.
    pub dynamic_shared_bytes: u32,
}

/// A module of the machine that loaded it; it means nothing to another machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ModuleId(usize);

/// A kernel of a module of the machine that loaded it; it means nothing to another machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KernelId {
    module: usize,
    kernel: usize,
}

/// A module that a machine has loaded.
#[derive(Debug)]
struct LoadedModule {
    code: Arc<ModuleCode>,
    /// Each variable in global memory.
    variables: Vec<variables::Placed>,
}

/// What loading makes of a module's text, with the text for reports.
#[derive(Debug)]
struct ModuleCode {
    /// The architecture it is for.
    target: String,
    lines: Vec<String>,
    files: Vec<SourceFile>,
    kernels: Vec<Kernel>,
    /// For each kernel what it needs.
    infos: Vec<KernelInfo>,
}

/// A module that a machine has loaded, for other machines: they need not read its text again, which
/// takes longer than many a launch. See [`Machine::share`].
#[derive(Clone, Debug)]
pub struct SharedModule(Arc<ModuleCode>);

/// A kernel while it is launched.
pub(crate) struct LoadedKernel<'m> {
    pub(crate) kernel: &'m Kernel,
    pub(crate) files: &'m [SourceFile],
    pub(crate) instruction_limit: u64,
    lines: &'m [String],
}

impl LoadedKernel<'_> {
    /// A line of the PTX text, from 1; empty if there is none.
    pub(crate) fn line(&self, line: u32) -> &str {
        let index = (line as usize).checked_sub(1);
        index.and_then(|index| self.lines.get(index)).map_or("", String::as_str)
    }
}

/// A GPU that exists in software: its memory, the modules it has loaded, and how it runs kernels.
#[derive(Debug)]
pub struct Machine {
    options: Options,
    memory: Memory,
    modules: Vec<Option<LoadedModule>>,
}

impl Machine {
    /// A machine with the [options](Options::new) of an architecture.
    #[must_use]
    pub fn new(arch: Arch) -> Self {
        Self::with_options(Options::new(arch))
    }

    /// A machine.
    #[must_use]
    pub fn with_options(options: Options) -> Self {
        let memory = Memory::new(options.memory_bytes);
        Self { options, memory, modules: Vec::new() }
    }

    /// What the machine is like.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Later launches take their order of events from this seed.
    pub fn set_seed(&mut self, seed: u64) {
        self.options.seed = seed;
    }

    /// Loads a module: its variables get memory, its kernels can be launched.
    ///
    /// # Errors
    ///
    /// The text is not PTX, is for another architecture, or holds an instruction that this crate
    /// does not know; the error names the line.
    pub fn load(&mut self, ptx: &str) -> Result<ModuleId, LoadError> {
        let module = Module::parse(ptx)?;
        let target = module.target.first().map_or("", String::as_str);
        self.check_target(target)?;
        limits::check_constants(&module)?;
        let (layout, variables) = self.place_variables(&module)?;
        let kernels =
            self.initialise(&module, &layout).and_then(|()| lower_kernels(&module, &layout, ptx));
        let kernels = kernels.and_then(limits::check_local);
        let kernels = match kernels {
            Ok(kernels) => kernels,
            Err(error) => {
                self.free_variables(&variables)?;
                return Err(error);
            }
        };
        let infos = kernels.iter().map(|kernel| KernelInfo::new(kernel, &module)).collect();
        let lines = ptx.lines().map(str::to_owned).collect();
        let (target, files) = (target.to_owned(), module.files);
        let code = Arc::new(ModuleCode { target, lines, files, kernels, infos });
        Ok(self.add_module(LoadedModule { code, variables }))
    }

    /// The module for other machines. Nothing if it has variables in global or constant memory,
    /// since their addresses, which its kernels hold, are this machine's, and if it is not loaded.
    ///
    /// ```
    /// use ptx_emulator::{Arch, Machine};
    ///
    /// let text = "
    /// .version 8.6
    /// .target sm_90a
    /// .address_size 64
    /// .visible .entry nothing() { ret; }";
    /// let mut first = Machine::new(Arch::Sm90a);
    /// let module = first.load(text)?;
    /// let shared = first.share(module).expect("a module without variables");
    /// let mut second = Machine::new(Arch::Sm90a);
    /// let module = second.load_shared(&shared)?;
    /// assert!(second.kernel(module, "nothing").is_some());
    /// # Ok::<(), ptx_emulator::LoadError>(())
    /// ```
    #[must_use]
    pub fn share(&self, module: ModuleId) -> Option<SharedModule> {
        let loaded = self.modules.get(module.0)?.as_ref()?;
        loaded.variables.is_empty().then(|| SharedModule(loaded.code.clone()))
    }

    /// Loads what another machine has loaded.
    ///
    /// # Errors
    ///
    /// It is for another architecture.
    pub fn load_shared(&mut self, module: &SharedModule) -> Result<ModuleId, LoadError> {
        self.check_target(&module.0.target)?;
        Ok(self.add_module(LoadedModule { code: module.0.clone(), variables: Vec::new() }))
    }

    fn add_module(&mut self, module: LoadedModule) -> ModuleId {
        self.modules.push(Some(module));
        ModuleId(self.modules.len() - 1)
    }

    fn check_target(&self, target: &str) -> Result<(), LoadError> {
        if self.options.arch.runs(target) {
            return Ok(());
        }
        Err(LoadError::target(target, self.options.arch))
    }

    /// Forgets a module and frees the memory of its variables. Its kernels are gone.
    ///
    /// # Errors
    ///
    /// The module is not loaded.
    pub fn unload(&mut self, module: ModuleId) -> Result<(), LaunchError> {
        let place = self.modules.get_mut(module.0).and_then(Option::take);
        let module = place.ok_or(LaunchError::UnknownKernel)?;
        for (_, address, _) in module.variables {
            // Freed already if the caller did so by its address.
            let _ = self.memory.free(address);
        }
        Ok(())
    }

    /// A kernel by its name.
    #[must_use]
    pub fn kernel(&self, module: ModuleId, name: &str) -> Option<KernelId> {
        let loaded = self.modules.get(module.0)?.as_ref()?;
        let kernel = loaded.code.kernels.iter().position(|kernel| kernel.name == name)?;
        Some(KernelId { module: module.0, kernel })
    }

    /// The names of a module's kernels.
    pub fn kernels(&self, module: ModuleId) -> impl Iterator<Item = &str> {
        let loaded = self.modules.get(module.0).and_then(Option::as_ref);
        let kernels = loaded.into_iter().flat_map(|own| &own.code.kernels);
        kernels.map(|kernel| kernel.name.as_str())
    }

    /// What a kernel needs of a launch.
    #[must_use]
    pub fn kernel_info(&self, kernel: KernelId) -> Option<&KernelInfo> {
        self.modules.get(kernel.module)?.as_ref()?.code.infos.get(kernel.kernel)
    }

    /// The address and size in bytes of a module's variable in global or constant memory.
    #[must_use]
    pub fn global(&self, module: ModuleId, name: &str) -> Option<(u64, u64)> {
        let loaded = self.modules.get(module.0)?.as_ref()?;
        let found = loaded.variables.iter().find(|(own, ..)| own == name)?;
        Some((found.1, found.2))
    }

    /// Memory at a multiple of 256, every byte 0xA5. Addresses are never used again.
    ///
    /// # Errors
    ///
    /// There is not enough: a machine has 2³⁶ bytes, of which the host must hold what is allocated.
    pub fn allocate(&mut self, bytes: u64) -> Result<u64, MemoryError> {
        self.memory.allocate(bytes)
    }

    /// Frees what [`allocate`](Self::allocate) gave.
    ///
    /// # Errors
    ///
    /// No allocation begins at the address.
    pub fn free(&mut self, address: u64) -> Result<(), MemoryError> {
        self.memory.free(address)
    }

    /// Copies bytes into memory.
    ///
    /// # Errors
    ///
    /// They do not fit into one allocation at the address.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.memory.bytes_mut(address, bytes.len() as u64)?.copy_from_slice(bytes);
        Ok(())
    }

    /// Copies bytes out of memory.
    ///
    /// # Errors
    ///
    /// One allocation does not hold them all.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), MemoryError> {
        if bytes.is_empty() {
            return Ok(());
        }
        bytes.copy_from_slice(self.memory.bytes(address, bytes.len() as u64)?);
        Ok(())
    }

    /// Copies bytes inside memory; the ranges may overlap.
    ///
    /// # Errors
    ///
    /// A range is not inside one allocation.
    pub fn copy(&mut self, to: u64, from: u64, bytes: u64) -> Result<(), MemoryError> {
        if bytes == 0 {
            return Ok(());
        }
        let source = self.memory.bytes(from, bytes)?.to_vec();
        self.memory.bytes_mut(to, bytes)?.copy_from_slice(&source);
        Ok(())
    }

    /// Sets bytes of memory.
    ///
    /// # Errors
    ///
    /// They are not inside one allocation.
    pub fn fill(&mut self, address: u64, byte: u8, bytes: u64) -> Result<(), MemoryError> {
        if bytes == 0 {
            return Ok(());
        }
        self.memory.bytes_mut(address, bytes)?.fill(byte);
        Ok(())
    }

    /// Runs a kernel to its end. `parameters` are the bytes of its parameter block: each parameter
    /// at the next multiple of its alignment, as [`KernelInfo::parameters`] lists them and
    /// [`Parameters`] arranges them. Launches of a machine never overlap.
    ///
    /// # Errors
    ///
    /// The launch is refused, or a checker reports the kernel. Memory then holds what had been
    /// written; the machine remains usable.
    pub fn launch(
        &mut self,
        kernel: KernelId,
        config: &LaunchConfig,
        parameters: &[u8],
    ) -> Result<Statistics, LaunchError> {
        let module = self.modules.get(kernel.module).and_then(Option::as_ref);
        let module = &module.ok_or(LaunchError::UnknownKernel)?.code;
        let code = module.kernels.get(kernel.kernel).ok_or(LaunchError::UnknownKernel)?;
        let shared_bytes = limits::check_launch(code, config, parameters)?;
        let mut random = Random::new(self.options.seed);
        let mut grid = GridState {
            memory: std::mem::replace(&mut self.memory, Memory::new(0)),
            races: Races::new(random.next()),
            statistics: Statistics::default(),
            random,
            checks: self.options.checks,
            fp8_accumulation: self.options.fp8_accumulation,
            arch: self.options.arch,
            clusters: Clusters::new(config),
            config: *config,
            parameters: parameters.to_vec(),
            shared_bytes,
            function_indices: code.function_indices.clone(),
            multiprocessors: self.options.multiprocessors.max(1),
            now: 0,
            started_blocks: 0,
            executed: 0,
            progress: 0,
            wake_all: false,
        };
        grid.memory.begin_launch();
        let loaded = LoadedKernel {
            kernel: code,
            files: &module.files,
            instruction_limit: self.options.instruction_limit,
            lines: &module.lines,
        };
        let result = run_grid(&loaded, &mut grid);
        self.memory = grid.memory;
        self.memory.end_launch();
        match result {
            Ok(()) => Ok(grid.statistics),
            Err(report) => Err(LaunchError::Report(report)),
        }
    }
}
