//! An emulated GPU with the kernels of one module, and memory for a launch.

use std::sync::{Mutex, PoisonError};

use grouped_linear_kernels::abi::ElementType;
use grouped_linear_kernels::variants::KERNELS;
use half::{bf16, f16};
use ptx_emulator::{Arch, LaunchConfig, Machine, ModuleId, Options, SharedModule};

/// What memory holds that nobody has written.
pub const UNTOUCHED: u8 = 0xa5;

/// Both architectures: their kernels convert in different ways.
pub const ARCHITECTURES: [Arch; 2] = [Arch::Sm90a, Arch::Sm100a];

/// The modules that were read, by their paths. A bench is made for each case, and reading a module
/// takes longer than most of their launches.
static READ: Mutex<Vec<(String, SharedModule)>> = Mutex::new(Vec::new());

pub struct Bench {
    machine: Machine,
    architecture: Arch,
    modules: Vec<(String, ModuleId)>,
}

impl Bench {
    /// With the kernels of `module` for an architecture, and events in the order of `seed`.
    pub fn new(architecture: Arch, module: &str, seed: u64) -> Self {
        let options = Options { seed, multiprocessors: 2, ..Options::new(architecture) };
        let machine = Machine::with_options(options);
        let mut bench = Self { machine, architecture, modules: Vec::new() };
        bench.load(module);
        bench
    }

    /// Loads another module, unless it is loaded.
    pub fn load(&mut self, module: &str) {
        if self.modules.iter().any(|(name, _)| name == module) {
            return;
        }
        let folder = if self.architecture == Arch::Sm90a { "sm_90a" } else { "sm_100a" };
        let path = format!("{}/host/ptx/{folder}/{module}.ptx", env!("CARGO_MANIFEST_DIR"));
        let read = read(&path, self.architecture);
        let id = self.machine.load_shared(&read).unwrap_or_else(|error| panic!("{path}: {error}"));
        self.modules.push((module.to_owned(), id));
    }

    /// Memory with these bytes.
    pub fn upload(&mut self, bytes: &[u8]) -> u64 {
        self.machine.upload(bytes).unwrap()
    }

    /// Memory that nobody has written.
    pub fn untouched(&mut self, bytes: usize) -> u64 {
        self.upload(&vec![UNTOUCHED; bytes.max(1)])
    }

    pub fn read(&self, address: u64, bytes: usize) -> Vec<u8> {
        self.machine.read_values(address, bytes).unwrap()
    }

    pub fn read_f32(&self, address: u64, count: usize) -> Vec<f32> {
        self.machine.read_values(address, count).unwrap()
    }

    /// Launches a kernel as its row in the table says, and fails with what the emulator reports.
    pub fn launch<T: bytemuck::NoUninit>(&mut self, name: &str, blocks: u32, args: &T) {
        let row = KERNELS.iter().find(|row| row.name == name).unwrap();
        let (_, module) = self.modules.iter().find(|(name, _)| name == row.module).unwrap();
        let kernel = self.machine.kernel(*module, name).unwrap();
        let config = LaunchConfig {
            grid: [blocks, 1, 1],
            block: [row.threads, 1, 1],
            cluster: [1, 1, 1],
            dynamic_shared_bytes: row.shared_bytes,
        };
        let launched = self.machine.launch(kernel, &config, bytemuck::bytes_of(args));
        launched.unwrap_or_else(|error| panic!("{name}: {error}"));
    }

    /// Elements of a type, as numbers.
    pub fn read_elements(&self, address: u64, count: usize, kind: ElementType) -> Vec<f32> {
        match kind {
            ElementType::Bf16 => {
                let values: Vec<bf16> = self.machine.read_values(address, count).unwrap();
                values.iter().map(|value| value.to_f32()).collect()
            }
            ElementType::F16 => {
                let values: Vec<f16> = self.machine.read_values(address, count).unwrap();
                values.iter().map(|value| value.to_f32()).collect()
            }
            _ => self.read_f32(address, count),
        }
    }
}

/// The module in a file, which is read once.
fn read(path: &str, architecture: Arch) -> SharedModule {
    // Held while it is read: tests beside this one wait, and do not read it as well.
    let mut modules = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, module)) = modules.iter().find(|(read, _)| read == path) {
        return module.clone();
    }
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut machine = Machine::new(architecture);
    let id = machine.load(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
    let module = machine.share(id).unwrap();
    modules.push((path.to_owned(), module.clone()));
    module
}
