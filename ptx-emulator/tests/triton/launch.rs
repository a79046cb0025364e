//! What a kernel of Triton's is given, and matrices in the machine's memory.

use ptx_emulator::tensor_map::{
    Interleave, L2Promotion, OutOfBoundsFill, Swizzle, TensorDataType, TensorMap, TiledMap,
};
use ptx_emulator::{Arch, Checks, LaunchConfig, LaunchError, Machine, Options};

use crate::numbers::{Element, Random};

/// What nobody should write.
const UNTOUCHED: u8 = 0xA5;

/// What a kernel runs on.
#[derive(Clone, Copy)]
pub struct Setting {
    pub arch: Arch,
    pub checks: Checks,
}

/// Hopper, with the checkers.
pub const SM_90A: Setting = Setting { arch: Arch::Sm90a, checks: Checks::On };

/// A Triton kernel as a launch needs to know it, from the metadata that `generate.py` prints.
#[derive(Clone, Copy)]
pub struct Kernel<'a> {
    pub setting: Setting,
    pub text: &'a str,
    pub entry: &'static str,
    /// Threads of a block: 32 times the warps, those that the compiler added included.
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// Blocks of a cluster; a program of Triton's is one cluster.
    pub cluster: u32,
    /// Bytes of global memory that each program wants for itself, 128-byte aligned.
    pub scratch: u64,
}

impl Kernel<'_> {
    /// A machine whose order of events depends on the seed.
    pub fn machine(&self, seed: u64) -> Machine {
        let Setting { arch, checks } = self.setting;
        Machine::with_options(Options { seed, checks, ..Options::new(arch) })
    }

    /// Runs as many programs as given on parameters without those that Triton appends.
    pub fn launch(
        &self,
        machine: &mut Machine,
        programs: usize,
        mut parameters: Parameters,
    ) -> Result<(), LaunchError> {
        // Two pointers that Triton appends: scratch memory for the kernel and for a profiler.
        let bytes = self.scratch * programs as u64;
        parameters.pointer(if bytes > 0 { machine.allocate(bytes).unwrap() } else { 0 });
        parameters.pointer(0);
        let config = LaunchConfig {
            grid: [programs as u32 * self.cluster, 1, 1],
            block: [self.threads, 1, 1],
            cluster: [self.cluster, 1, 1],
            dynamic_shared_bytes: self.shared,
        };
        let module = machine.load(self.text).unwrap_or_else(|error| panic!("{error}"));
        let kernel = machine.kernel(module, self.entry).unwrap();
        machine.launch(kernel, &config, &parameters.bytes).map(drop)
    }
}

/// A parameter block: each parameter at the next multiple of its alignment.
#[derive(Default)]
pub struct Parameters {
    bytes: Vec<u8>,
}

impl Parameters {
    fn push(&mut self, bytes: &[u8], align: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(align), 0);
        self.bytes.extend_from_slice(bytes);
    }

    /// An address, or another number of 64 bits.
    pub fn pointer(&mut self, address: u64) {
        self.push(&address.to_le_bytes(), 8);
    }

    /// A number of 32 bits.
    pub fn word(&mut self, value: usize) {
        self.push(&(value as u32).to_le_bytes(), 4);
    }

    /// A single.
    pub fn float(&mut self, value: f32) {
        self.push(&value.to_le_bytes(), 4);
    }

    /// A tensor descriptor of a matrix, of which one copy takes so many rows and columns.
    pub fn descriptor(&mut self, matrix: &Matrix, address: u64, tile: [u32; 2]) {
        let element = matrix.element;
        let map = TiledMap {
            data_type: match element {
                Element::E4m3 => TensorDataType::U8,
                Element::Half => TensorDataType::F16,
                Element::Brain => TensorDataType::Bf16,
                Element::Tensor | Element::Single => TensorDataType::F32,
            },
            address,
            extents: vec![matrix.columns as u64, matrix.rows as u64],
            strides: vec![(matrix.pitch * element.bytes()) as u64],
            tile: vec![tile[1], tile[0]],
            element_strides: vec![1, 1],
            interleave: Interleave::None,
            // That of a row of the box.
            swizzle: match tile[1] as usize * element.bytes() {
                64 => Swizzle::Bytes64,
                _ => Swizzle::Bytes128,
            },
            l2_promotion: L2Promotion::Bytes128,
            fill: OutOfBoundsFill::Zeros,
        };
        self.map(&map, element.bytes() as u64);
    }

    /// A tensor descriptor: the tensor map by value, the extents, the strides in elements; of both
    /// the outermost first.
    pub fn map(&mut self, map: &TiledMap, element_bytes: u64) {
        let encoded = TensorMap::encode_tiled(map, Arch::Sm90a).unwrap();
        self.push(encoded.as_bytes(), 64);
        for extent in map.extents.iter().rev() {
            self.word(*extent as usize);
        }
        for stride in map.strides.iter().rev() {
            self.pointer(stride / element_bytes);
        }
        self.pointer(1);
    }
}

/// A row-major matrix whose rows start `pitch` elements apart.
pub struct Matrix {
    pub element: Element,
    pub rows: usize,
    pub columns: usize,
    pub pitch: usize,
    pub bytes: Vec<u8>,
}

impl Matrix {
    /// Random numbers, and NaN between the rows.
    pub fn random(
        random: &mut Random,
        element: Element,
        [rows, columns, pitch]: [usize; 3],
    ) -> Self {
        let mut bytes = Vec::new();
        for index in 0..rows * pitch {
            let inside = index % pitch < columns;
            let bits = if inside { element.random(random) } else { u32::MAX };
            bytes.extend_from_slice(&bits.to_le_bytes()[..element.bytes()]);
        }
        Self { element, rows, columns, pitch, bytes }
    }

    /// A matrix to write to, and a row behind it that stays as it is.
    pub fn output(element: Element, [rows, columns, pitch]: [usize; 3]) -> Self {
        let bytes = vec![UNTOUCHED; (rows + 1) * pitch * element.bytes()];
        Self { element, rows, columns, pitch, bytes }
    }

    /// An element.
    pub fn get(&self, row: usize, column: usize) -> f64 {
        let width = self.element.bytes();
        let start = (row * self.pitch + column) * width;
        self.element.value(&self.bytes[start..start + width])
    }

    /// Copies the matrix to memory of its own, whose address it returns.
    pub fn upload(&self, machine: &mut Machine) -> u64 {
        let address = machine.allocate(self.bytes.len() as u64).unwrap();
        machine.write(address, &self.bytes).unwrap();
        address
    }

    /// Reads the matrix back and compares; `expected` gives a value and by how much the result may
    /// differ from it.
    pub fn check(
        &mut self,
        machine: &mut Machine,
        address: u64,
        what: &str,
        expected: impl Fn(usize, usize) -> (f64, f64),
    ) {
        machine.read(address, &mut self.bytes).unwrap();
        for row in 0..=self.rows {
            let inside = if row < self.rows { self.columns } else { 0 };
            for column in 0..inside {
                let (value, slack) = expected(row, column);
                let found = self.get(row, column);
                let difference = (found - value).abs();
                assert!(
                    difference <= slack,
                    "{what}: [{row}, {column}] is {found}, not {value} within {slack}"
                );
            }
            let width = self.element.bytes();
            // Tensor copies store the 16 bytes in which a row ends as a whole.
            let used = (inside * width).next_multiple_of(16).min(self.pitch * width);
            let padding = row * self.pitch * width + used..(row + 1) * self.pitch * width;
            let touched = self.bytes[padding].iter().any(|byte| *byte != UNTOUCHED);
            assert!(!touched, "{what}: row {row} was written beyond column {inside}");
        }
    }
}
