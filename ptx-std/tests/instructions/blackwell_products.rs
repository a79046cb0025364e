//! What needs `sm_100a`, executed by the emulator: products of known matrices.
//!
//! `device/src/compute.rs` has the kernels. Without a compiler for kernels the test says that it
//! did nothing.

use std::path::Path;

use ptx_build::{Build, Compiler, Target, compile};
use ptx_emulator::{Arch, LaunchConfig, Machine, Options};

/// Bytes of a block's operands in memory: A, B, scales of A, scales of B at these places.
const IMAGE: usize = 28 * 1024;
const PARTS: [usize; 4] = [0, 16 * 1024, 24 * 1024, 26 * 1024];
/// Columns of D.
const COLUMNS: usize = 64;

/// How an element is written.
#[derive(Clone, Copy, PartialEq)]
enum Element {
    Brain,
    E4m3,
    E5m2,
    E2m1,
}

impl Element {
    fn bits(self) -> usize {
        match self {
            Self::Brain => 16,
            Self::E4m3 | Self::E5m2 => 8,
            Self::E2m1 => 4,
        }
    }

    /// The bits of `number`, which is one of 0, ±1, ±2 and ±3.
    fn encode(self, number: i32) -> u16 {
        // One, two, three.
        let magnitudes = match self {
            Self::Brain => [0x3F80, 0x4000, 0x4040],
            Self::E4m3 => [0x38, 0x40, 0x44],
            Self::E5m2 => [0x3C, 0x40, 0x42],
            Self::E2m1 => [0x2, 0x4, 0x5],
        };
        let sign = u16::from(number < 0) << (self.bits() - 1);
        match number.unsigned_abs() {
            0 => 0,
            magnitude => sign | magnitudes[magnitude as usize - 1],
        }
    }
}

/// Scales of blocks.
#[derive(Clone, Copy)]
struct Scales {
    /// Elements of a block.
    vector: usize,
    /// The bits of 2⁻¹, 1, 2.
    codes: [u8; 3],
}

/// A kernel and what it is given.
struct Case {
    entry: &'static str,
    elements: [Element; 2],
    scales: Option<Scales>,
    /// Whether the rows of B in memory run along N.
    across: bool,
    /// Whether the rows of A are permuted as shared memory wants it.
    swizzled: bool,
    blocks: usize,
}

const PLAIN: Case = Case {
    entry: "brains",
    elements: [Element::Brain, Element::Brain],
    scales: None,
    across: false,
    swizzled: true,
    blocks: 1,
};

const POWERS: Scales = Scales { vector: 32, codes: [126, 127, 128] };
const SMALL: Scales = Scales { vector: 16, codes: [0x30, 0x38, 0x40] };

const CASES: [Case; 8] = [
    PLAIN,
    Case { entry: "brains_across", across: true, ..PLAIN },
    Case { entry: "brains_from_tensor", swizzled: false, ..PLAIN },
    Case { entry: "brains_pair", blocks: 2, ..PLAIN },
    Case { entry: "eights", elements: [Element::E4m3, Element::E5m2], ..PLAIN },
    Case {
        entry: "scaled_eights",
        elements: [Element::E4m3, Element::E4m3],
        scales: Some(POWERS),
        ..PLAIN
    },
    Case {
        entry: "scaled_fours",
        elements: [Element::E2m1, Element::E2m1],
        scales: Some(POWERS),
        ..PLAIN
    },
    Case {
        entry: "finer_fours",
        elements: [Element::E2m1, Element::E2m1],
        scales: Some(SMALL),
        ..PLAIN
    },
];

/// A number from -3 to 3 for an element of operand `which`, without a pattern along rows or
/// columns.
fn number(which: usize, row: usize, k: usize) -> i32 {
    let mixed = (which * 7 + row * 2_654_435_761 + k * 40_503) ^ (row * k * 97 + 13);
    (mixed / 5 % 7) as i32 - 3
}

/// Which of three scales a block has.
fn scale(which: usize, row: usize, block: usize) -> usize {
    (which + row * 11 + block * 5 + row * block) % 3
}

impl Case {
    /// Elements of a row of 128 bytes.
    fn depth(&self) -> usize {
        128 * 8 / self.elements[0].bits()
    }

    /// An element, times its scale.
    fn value(&self, which: usize, row: usize, k: usize) -> f64 {
        let factor =
            self.scales.map_or(1.0, |scales| [0.5, 1.0, 2.0][scale(which, row, k / scales.vector)]);
        f64::from(number(which, row, k)) * factor
    }

    /// A block's operands as they shall lie in shared memory.
    fn image(&self, block: usize) -> Vec<u8> {
        let mut image = vec![0; IMAGE];
        // Each block has its half of B's columns.
        let shares = [128, COLUMNS / self.blocks];
        for (which, share) in shares.into_iter().enumerate() {
            for row in 0..share {
                self.write_row(&mut image, which, row, block * share + row);
            }
        }
        image
    }

    /// Writes row `row` of an operand, which is row `index` of the whole operand.
    fn write_row(&self, image: &mut [u8], which: usize, row: usize, index: usize) {
        let element = self.elements[which];
        for k in 0..self.depth() {
            let (line, place) = if which == 1 && self.across { (k, row) } else { (row, k) };
            let bit = place * element.bits();
            let chunk = bit / 128;
            let swizzled = which == 1 || self.swizzled;
            let chunk = if swizzled { chunk ^ (line % 8) } else { chunk };
            let at = PARTS[which] + line * 128 + chunk * 16 + bit % 128 / 8;
            let code = element.encode(number(which, index, k)) << (bit % 8);
            image[at] |= code as u8;
            if element == Element::Brain {
                image[at + 1] = (code >> 8) as u8;
            }
        }
        let Some(scales) = self.scales else { return };
        for block in 0..self.depth() / scales.vector {
            let chunk = PARTS[2 + which] + block / 4 * 512;
            let at = chunk + row % 32 * 16 + row / 32 * 4 + block % 4;
            image[at] = scales.codes[scale(which, index, block)];
        }
    }

    fn run(&self, text: &str, seed: u64) -> Vec<f32> {
        let mut machine = Machine::with_options(Options { seed, ..Options::new(Arch::Sm100a) });
        let image: Vec<u8> = (0..self.blocks).flat_map(|block| self.image(block)).collect();
        let source = machine.allocate(image.len() as u64).unwrap();
        machine.write(source, &image).unwrap();
        let mut bytes = vec![0; self.blocks * 128 * COLUMNS * 4];
        let out = machine.allocate(bytes.len() as u64).unwrap();
        let module = machine.load(text).unwrap_or_else(|error| panic!("{error}"));
        let kernel = machine.kernel(module, self.entry).unwrap();
        let config = LaunchConfig {
            grid: [self.blocks as u32, 1, 1],
            block: [128, 1, 1],
            cluster: [self.blocks as u32, 1, 1],
            dynamic_shared_bytes: 1024 + IMAGE as u32,
        };
        let parameters = [source.to_le_bytes(), out.to_le_bytes()].concat();
        machine
            .launch(kernel, &config, &parameters)
            .unwrap_or_else(|error| panic!("{}, seed {seed}: {error}", self.entry));
        machine.read(out, &mut bytes).unwrap();
        let words = bytes.chunks_exact(4);
        words.map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect()
    }

    fn check(&self, text: &str) {
        for seed in [1, 2, 3] {
            let found = self.run(text, seed);
            for (index, found) in found.into_iter().enumerate() {
                let (row, column) = (index / COLUMNS, index % COLUMNS);
                let terms =
                    (0..self.depth()).map(|k| self.value(0, row, k) * self.value(1, column, k));
                // Small integers and their quarters: every order of addition is exact.
                let sum: f64 = terms.sum();
                assert_eq!(f64::from(found), sum, "{}: [{row}, {column}]", self.entry);
            }
        }
    }
}

#[test]
fn products_are_right() {
    let compiler = match Compiler::find() {
        Ok(compiler) => compiler,
        Err(error) => return println!("skipped: {error}"),
    };
    let build = Build {
        crate_dir: &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/device"),
        features: &["compute".into()],
        target: Target { cpu: "sm_100a", ptx: "ptx87" },
        target_dir: &Path::new(env!("CARGO_TARGET_TMPDIR")).join("device"),
    };
    let text = compile(&compiler, &build).unwrap_or_else(|error| panic!("{error}"));
    for case in CASES {
        case.check(&text);
    }
}
