//! What the tests of the matrix instructions share: numbers in small formats, and kernels whose
//! threads each have 256-byte rows of several tables.
//!
//! A thread's row begins at `%table`, 256 times its index behind an address that is a multiple of
//! 64 KiB, so that the address is put together of bytes.

use ptx_emulator::{
    Arch, Checks, LaunchConfig, LaunchError, LoadError, Machine, Options, ReportKind, Statistics,
};

/// Distance of the tables: shared image (two), results (two), accumulators (two), fragments.
const TABLE: usize = 64 << 10;

/// Small whole numbers, which every type has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    Bf16,
    F16,
    Tf32,
    E4m3,
    E5m2,
    S8,
    U8,
}

impl Element {
    pub fn bits(self) -> usize {
        match self {
            Self::Tf32 => 32,
            Self::Bf16 | Self::F16 => 16,
            _ => 8,
        }
    }

    /// The bytes of a number from -4 to 4.
    pub fn encode(self, value: i32) -> Vec<u8> {
        let sign = u8::from(value < 0) << 7;
        let at = value.unsigned_abs() as usize;
        match self {
            Self::Bf16 => (value as f32).to_le_bytes()[2..].to_vec(),
            // The low 13 bits of tf32 do not count.
            Self::Tf32 => ((value as f32).to_bits() | 0x1ABC).to_le_bytes().to_vec(),
            Self::F16 => half(value).to_le_bytes().to_vec(),
            Self::E4m3 => vec![sign | [0x00, 0x38, 0x40, 0x44, 0x48][at]],
            Self::E5m2 => vec![sign | [0x00, 0x3C, 0x40, 0x42, 0x44][at]],
            Self::S8 | Self::U8 => vec![value as u8],
        }
    }
}

/// A whole number up to 2048 as binary16.
fn half(value: i32) -> u16 {
    let sign = u16::from(value < 0) << 15;
    let magnitude = value.unsigned_abs();
    let Some(exponent) = magnitude.checked_ilog2() else { return 0 };
    let fraction = (magnitude << (10 - exponent)) as u16 & 0x3FF;
    sign | (exponent as u16 + 15) << 10 | fraction
}

fn of_half(bits: u16) -> f64 {
    let magnitude = match bits >> 10 & 31 {
        0 => f64::from(bits & 0x3FF) / 1024.0 / 16384.0,
        exponent => (1.0 + f64::from(bits & 0x3FF) / 1024.0) * 2f64.powi(i32::from(exponent) - 15),
    };
    if bits >> 15 == 0 { magnitude } else { -magnitude }
}

/// Accumulators of a type in registers.
pub fn encode(kind: &str, values: &[i32]) -> Vec<u32> {
    match kind {
        "f16" => values
            .chunks(2)
            .map(|pair| u32::from(half(pair[0])) | u32::from(half(pair[1])) << 16)
            .collect(),
        "s32" => values.iter().map(|value| *value as u32).collect(),
        _ => values.iter().map(|value| (*value as f32).to_bits()).collect(),
    }
}

/// The values of accumulators in registers.
pub fn decode(kind: &str, words: &[u32]) -> Vec<f64> {
    let halves = |word: &u32| [of_half(*word as u16), of_half((word >> 16) as u16)];
    match kind {
        "f16" => words.iter().flat_map(halves).collect(),
        "s32" => words.iter().map(|word| f64::from(*word as i32)).collect(),
        _ => words.iter().map(|word| f64::from(f32::from_bits(*word))).collect(),
    }
}

/// Offset from `%table` of word `index` of a thread in the table that begins at number `table`.
fn word(table: usize, index: usize) -> usize {
    (table + index / 64) * TABLE + index % 64 * 4
}

/// Where a thread's results go.
pub fn result(index: usize) -> usize {
    word(2, index)
}

/// Where a thread's accumulators come from.
pub fn accumulator(index: usize) -> usize {
    word(4, index)
}

/// Where a thread's part of other operands comes from.
pub fn fragment(index: usize) -> usize {
    word(6, index)
}

/// Makes `%table`; declares what the rest of the kernel needs.
pub fn prologue() -> String {
    ".reg .b8 %t<4>; .reg .b8 %b<4>; .reg .b32 %w<8>; .reg .b64 %table; .reg .b64 %base;
     .shared .align 1024 .b8 memory[196608];
     ld.param.u64 %base, [out];
     mov.u32 %w0, %tid.x;
     mov.b32 {%t0, %t1, %t2, %t3}, %w0;
     mov.b64 {%w1, %w2}, %base;
     mov.b32 {%b0, %b1, %b2, %b3}, %w1;
     mov.b32 %w1, {%b0, %t0, %b2, %b3};
     mov.b64 %table, {%w1, %w2};\n"
        .to_owned()
}

/// Every thread copies its 256 bytes of both halves of the image to shared memory, from 64 KiB on.
pub fn copy_to_shared() -> String {
    let mut text = prologue();
    text += "mov.b32 %w3, 65536;
     mov.b32 {%b0, %b1, %b2, %b3}, %w3;
     mov.b32 %w3, {%b0, %t0, %b2, %b3};\n";
    for half in 0..2 {
        for at in 0..16 {
            let (from, to) = (half * TABLE + at * 16, half * TABLE / 2 + at * 16);
            text += &format!(
                "ld.global.v4.b32 {{%w4, %w5, %w6, %w7}}, [%table+{from}];
                 st.shared.v4.b32 [%w3+{to}], {{%w4, %w5, %w6, %w7}};\n"
            );
        }
    }
    text
}

/// What a kernel gave.
#[derive(Debug)]
pub struct Run {
    /// By thread, 128 words each.
    pub results: Vec<Vec<u32>>,
    pub statistics: Statistics,
}

fn module(body: &str) -> String {
    format!(
        ".version 8.6\n.target sm_90a\n.address_size 64\n\
         .visible .entry test(.param .u64 out)\n{{\n{body}\n}}\n"
    )
}

/// Loads a kernel without running it.
pub fn load(body: &str) -> Result<(), LoadError> {
    Machine::new(Arch::Sm90a).load(&module(body)).map(|_| ())
}

/// Runs a kernel of one block. `image` has 64 KiB at most, the tables a row for each thread.
pub fn run(
    body: &str,
    image: &[u8],
    accumulators: &[Vec<u32>],
    fragments: &[Vec<u32>],
    threads: u32,
    checks: Checks,
    seed: u64,
) -> Result<Run, ReportKind> {
    let options = Options { checks, seed, ..Options::new(Arch::Sm90a) };
    let mut machine = Machine::with_options(options);
    let module = machine.load(&module(body)).unwrap_or_else(|error| panic!("{error}"));
    let kernel = machine.kernel(module, "test").unwrap();
    let memory = machine.allocate(9 * TABLE as u64).unwrap().next_multiple_of(TABLE as u64);
    for (half, bytes) in image.chunks(TABLE / 2).enumerate() {
        machine.write(memory + (half * TABLE) as u64, bytes).unwrap();
    }
    let mut fill = |rows: &[Vec<u32>], place: fn(usize) -> usize| {
        for (thread, row) in rows.iter().enumerate() {
            for (index, value) in row.iter().enumerate() {
                let address = memory + (thread * 256 + place(index)) as u64;
                machine.write(address, &value.to_le_bytes()).unwrap();
            }
        }
    };
    fill(accumulators, accumulator);
    fill(fragments, fragment);
    let config = LaunchConfig {
        grid: [1; 3],
        block: [threads, 1, 1],
        cluster: [1; 3],
        dynamic_shared_bytes: 0,
    };
    let statistics = match machine.launch(kernel, &config, &memory.to_le_bytes()) {
        Ok(statistics) => statistics,
        Err(LaunchError::Report(report)) => return Err(report.kind().clone()),
        Err(error) => panic!("{error}"),
    };
    let mut results = Vec::new();
    for thread in 0..threads as usize {
        let mut words = vec![0; 128];
        for (index, own) in words.iter_mut().enumerate() {
            let mut bytes = [0; 4];
            machine.read(memory + (thread * 256 + result(index)) as u64, &mut bytes).unwrap();
            *own = u32::from_le_bytes(bytes);
        }
        results.push(words);
    }
    Ok(Run { results, statistics })
}
