//! Products of blocks with scales: MXFP8, MXFP4, NVFP4.

use ptx_emulator::tensor_map::{
    Interleave, L2Promotion, OutOfBoundsFill, Swizzle, TensorDataType, TiledMap,
};
use ptx_emulator::{LaunchError, Machine};

use super::super::launch::{Kernel, Matrix, Parameters};
use super::super::numbers::{Element, Random};
use super::super::{COARSE, FINE};
use super::{CHECKED, both_ways};

/// What the scales are.
#[derive(Clone, Copy)]
enum Scale {
    /// A power of two, without a sign.
    Power,
    /// E4M3 without a sign.
    Small,
}

impl Scale {
    /// A random scale between 1/8 and 8.
    fn random(self, random: &mut Random) -> u8 {
        match self {
            Self::Power => 127 - 3 + (Element::E4m3.random(random) % 7) as u8,
            Self::Small => Element::E4m3.random(random) as u8 & 0x7F,
        }
    }

    fn value(self, bits: u8) -> f64 {
        match self {
            Self::Power => 2_f64.powi(i32::from(bits) - 127),
            Self::Small => Element::E4m3.value(&[bits]),
        }
    }
}

/// The magnitudes of E2M1.
const E2M1: [f64; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

/// A format of blocks.
#[derive(Clone, Copy)]
struct Format {
    /// Elements of a byte: one of E4M3, or two of E2M1, the even one in the low half.
    per_byte: usize,
    /// Elements of a block.
    vector: usize,
    scale: Scale,
}

/// An operand: rows of elements along the depth, and a scale for each block of a row.
struct Blocks {
    format: Format,
    /// The elements' bytes.
    codes: Matrix,
    /// Tiles of 128 rows and 4 blocks, along the depth first. Row `r` and block `c` of a tile is
    /// its byte `r % 32 * 16 + r / 32 * 4 + c`.
    scales: Vec<u8>,
    /// Tiles along the depth.
    tiles: usize,
}

impl Blocks {
    fn random(random: &mut Random, format: Format, rows: usize, depth: usize) -> Self {
        let bytes = depth / format.per_byte;
        let shape = [rows, bytes, (bytes + 1).next_multiple_of(16)];
        let mut codes = Matrix::random(random, Element::E4m3, shape);
        if format.per_byte == 2 {
            // Every byte is two numbers; those of E4M3 above would leave some out.
            codes.bytes = (0..codes.bytes.len() * 2)
                .map(|_| Element::E4m3.random(random) as u8 & 0xF)
                .collect::<Vec<u8>>()
                .chunks(2)
                .map(|halves| halves[0] | halves[1] << 4)
                .collect();
        }
        let tiles = depth.div_ceil(4 * format.vector);
        let count = rows.div_ceil(128) * tiles * 512;
        let scales = (0..count).map(|_| format.scale.random(random)).collect();
        Self { format, codes, scales, tiles }
    }

    /// An element times its scale.
    fn get(&self, row: usize, k: usize) -> f64 {
        let block = k / self.format.vector;
        let tile = (row / 128 * self.tiles + block / 4) * 512;
        let scale = self.scales[tile + row % 32 * 16 + row % 128 / 32 * 4 + block % 4];
        self.element(row, k) * self.format.scale.value(scale)
    }

    fn element(&self, row: usize, k: usize) -> f64 {
        if self.format.per_byte == 1 {
            return self.codes.get(row, k);
        }
        let byte = self.codes.bytes[row * self.codes.pitch + k / 2];
        let code = byte >> (k % 2 * 4) & 0xF;
        let magnitude = E2M1[usize::from(code & 7)];
        if code > 7 { -magnitude } else { magnitude }
    }

    /// The tensor map of the scales, of which one copy takes so many tiles along the depth.
    fn map(&self, address: u64, tiles: u32) -> TiledMap {
        let along = self.tiles as u64;
        let down = self.scales.len() as u64 / 512 / along;
        TiledMap {
            data_type: TensorDataType::U8,
            address,
            extents: vec![256, 2, along, down, 1],
            strides: vec![256, 512, 512 * along, 512 * along * down],
            tile: vec![256, 2, tiles, 1, 1],
            element_strides: vec![1; 5],
            interleave: Interleave::None,
            swizzle: Swizzle::None,
            l2_promotion: L2Promotion::Bytes128,
            fill: OutOfBoundsFill::Zeros,
        }
    }

    fn upload_scales(&self, machine: &mut Machine) -> u64 {
        let address = machine.allocate(self.scales.len() as u64).unwrap();
        machine.write(address, &self.scales).unwrap();
        address
    }
}

/// A product c = a · bᵀ by tiles of 128 × 128.
struct Scaled {
    text: &'static str,
    shared: u32,
    format: Format,
    /// Elements along the depth that a program takes at a time.
    step: usize,
    precision: f64,
}

impl Scaled {
    fn run(
        &self,
        kernel: &Kernel<'_>,
        [rows, columns, depth]: [usize; 3],
        seed: u64,
    ) -> Result<(), LaunchError> {
        let mut random = Random(seed);
        let a = Blocks::random(&mut random, self.format, rows, depth);
        let b = Blocks::random(&mut random, self.format, columns, depth);
        let pitch = (columns + 1).next_multiple_of(8);
        let mut c = Matrix::output(Element::Brain, [rows, columns, pitch]);
        let mut machine = kernel.machine(seed);
        let mut parameters = Parameters::default();
        for operand in [&a, &b] {
            let address = operand.codes.upload(&mut machine);
            parameters.descriptor(&operand.codes, address, [128, 128]);
        }
        let result = c.upload(&mut machine);
        parameters.descriptor(&c, result, [128, 64]);
        let tiles = (self.step / self.format.vector / 4) as u32;
        for operand in [&a, &b] {
            let address = operand.upload_scales(&mut machine);
            parameters.map(&operand.map(address, tiles), 1);
        }
        for size in [rows, columns, depth] {
            parameters.word(size);
        }
        let programs = rows.div_ceil(128) * columns.div_ceil(128);
        kernel.launch(&mut machine, programs, parameters)?;
        let what = format!("{rows}×{columns}×{depth}, seed {seed}");
        c.check(&mut machine, result, &what, |row, column| {
            let products = (0..depth).map(|k| a.get(row, k) * b.get(column, k));
            let (sum, absolute) =
                products.fold((0.0, 0.0), |(sum, all), own: f64| (sum + own, all + own.abs()));
            (sum, sum.abs() * Element::Brain.rounding() + absolute * self.precision)
        });
        Ok(())
    }

    fn check(&self, sizes: &[[usize; 3]]) {
        let kernel = Kernel {
            setting: CHECKED,
            text: self.text,
            entry: "matmul_scaled",
            threads: 256,
            shared: self.shared,
            cluster: 1,
            scratch: 0,
        };
        both_ways(kernel, |kernel| {
            for size in sizes {
                for seed in [1, 20] {
                    self.run(kernel, *size, seed)
                        .unwrap_or_else(|error| panic!("{size:?}, seed {seed}: {error}"));
                }
            }
        });
    }
}

/// Tiles cut by every edge, one tile whole, and a single row and column.
const SIZES: [[usize; 3]; 3] = [[200, 130, 160], [128, 128, 512], [1, 1, 32]];

#[test]
fn matmul_of_mxfp8() {
    let format = Format { per_byte: 1, vector: 32, scale: Scale::Power };
    let text = include_str!("matmul_mxfp8.ptx");
    Scaled { text, shared: 67616, format, step: 128, precision: COARSE }.check(&SIZES);
}

#[test]
fn matmul_of_mxfp4() {
    let format = Format { per_byte: 2, vector: 32, scale: Scale::Power };
    let text = include_str!("matmul_mxfp4.ptx");
    Scaled { text, shared: 69664, format, step: 256, precision: FINE }.check(&SIZES);
}

#[test]
fn matmul_of_nvfp4() {
    let format = Format { per_byte: 2, vector: 16, scale: Scale::Small };
    let text = include_str!("matmul_nvfp4.ptx");
    Scaled { text, shared: 73760, format, step: 256, precision: FINE }.check(&SIZES);
}
