//! Functions of registers, compiled for `sm_90a` and executed by the emulator.
//!
//! `device/src/arithmetic.rs` has the kernel. Without a compiler for kernels the test says that it
//! did nothing.

use std::path::Path;

use ptx_build::{Build, Compiler, Target, compile};
use ptx_emulator::{Arch, LaunchConfig, Machine, Options};

/// A unit in the last place of 1.
const ULP: f32 = f32::EPSILON;

/// What a thread computes, by its number in the kernel.
#[derive(Clone, Copy, Debug)]
enum Operation {
    FmaUpward,
    Abs,
    FmaSaturated,
    MaxMagnitudeBf16x2,
    MaxMagnitudeF16x2,
    MaxBf16x2,
    MinBf16x2,
    MaxF16x2,
    MinF16x2,
    MultiplyBf16x2,
    PermuteBytes,
    MultiplyWideLow,
    MultiplyWideHigh,
    MaxMagnitudeOrNanBf16x2,
    SubtractBf16x2,
}

use Operation::*;

/// An operation of words, and the word that is wanted.
type Case = (Operation, [u32; 3], u32);

/// The same of numbers.
fn numbers(operation: Operation, operands: [f32; 3], want: f32) -> Case {
    (operation, operands.map(f32::to_bits), want.to_bits())
}

fn cases() -> Vec<Case> {
    vec![
        // Exact, and a little more or less than exact, on either side of zero.
        numbers(FmaUpward, [3.0, 4.0, 5.0], 17.0),
        numbers(FmaUpward, [5.0, 0.5, 2.0], 4.5),
        numbers(FmaUpward, [5.0 + 4.0 * ULP, 0.5, 2.0], 4.5 + 4.0 * ULP),
        numbers(FmaUpward, [1.0, ULP / 64.0, 1.0], 1.0 + ULP),
        numbers(FmaUpward, [1.0, -ULP / 64.0, 1.0], 1.0),
        numbers(FmaUpward, [1.0, ULP / 64.0, -1.0], -1.0 + ULP / 2.0),
        numbers(FmaUpward, [1.0, -ULP / 64.0, -1.0], -1.0),
        numbers(Abs, [-3.0, 0.0, 0.0], 3.0),
        numbers(Abs, [-0.0, 0.0, 0.0], 0.0),
        numbers(Abs, [f32::NEG_INFINITY, 0.0, 0.0], f32::INFINITY),
        // Rounded to nearest, ties to even; nothing below 0 nor beyond 1, and NaN is 0.
        numbers(FmaSaturated, [3.0, 0.5, -1.0], 0.5),
        numbers(FmaSaturated, [0.5, 1.0, ULP / 4.0], 0.5),
        numbers(FmaSaturated, [0.5, 1.0, 0.75 * ULP], 0.5 + ULP),
        numbers(FmaSaturated, [1.0, 0.5, -1.0], 0.0),
        numbers(FmaSaturated, [6.5, 0.5, -2.0], 1.0),
        numbers(FmaSaturated, [f32::NAN, 0.5, 1.0], 0.0),
        // −2 and 3, 1 and −0.5; a NaN and 1, −1 and −0.5.
        (MaxMagnitudeBf16x2, [0xc000_3f80, 0x4040_bf00, 0], 0xc040_bf80),
        (MaxMagnitudeBf16x2, [0x7fc0_bf80, 0x3f80_bf00, 0], 0x3f80_3f80),
        (MaxMagnitudeF16x2, [0xc000_3c00, 0x4200_b800, 0], 0xc200_bc00),
        (MaxMagnitudeF16x2, [0x7e00_bc00, 0x3c00_b800, 0], 0x3c00_3c00),
        (MaxBf16x2, [0xc000_3f80, 0x7fc0_bf00, 0], 0xc000_3f80),
        (MinBf16x2, [0xc000_3f80, 0x7fc0_bf00, 0], 0xc000_bf00),
        (MaxF16x2, [0xc000_3c00, 0x7e00_b800, 0], 0xc000_3c00),
        (MinF16x2, [0xc000_3c00, 0x7e00_b800, 0], 0xc000_b800),
        // −2 · 3, and 1 · −0 keeps its sign.
        (MultiplyBf16x2, [0xc000_3f80, 0x4040_8000, 0], 0xc0c0_8000),
        (PermuteBytes, [0x3322_1100, 0x7766_5544, 0x7531], 0x7755_3311),
        // The signs of bytes 1, 3, 5 and 7.
        (PermuteBytes, [0x8000_0000, 0x0000_8000, 0xfdb9], 0x00ff_ff00),
        (MultiplyWideLow, [0xffff_ffff, 0xffff_fffe, 0], 2),
        (MultiplyWideHigh, [0xffff_ffff, 0xffff_fffe, 0], 0xffff_fffd),
        (MaxMagnitudeOrNanBf16x2, [0xc000_3f80, 0x4040_bf00, 0], 0xc040_bf80),
        (MaxMagnitudeOrNanBf16x2, [0x7fc0_bf80, 0x3f80_bf00, 0], 0x7fff_3f80),
        // −2 − 3 and 1 − 1; ∞ − ∞, and 258 − 1, a tie.
        (SubtractBf16x2, [0xc000_3f80, 0x4040_3f80, 0], 0xc0a0_0000),
        (SubtractBf16x2, [0x7f80_4381, 0x7f80_3f80, 0], 0x7fff_4380),
    ]
}

#[test]
fn every_function_gives_what_the_manual_says() {
    let compiler = match Compiler::find() {
        Ok(compiler) => compiler,
        Err(error) => return println!("skipped: {error}"),
    };
    let build = Build {
        crate_dir: &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/device"),
        features: &["arithmetic".into()],
        target: Target { cpu: "sm_90a", ptx: "ptx86" },
        target_dir: &Path::new(env!("CARGO_TARGET_TMPDIR")).join("arithmetic"),
    };
    let text = compile(&compiler, &build).unwrap_or_else(|error| panic!("{error}"));

    let cases = cases();
    let words = cases.iter().flat_map(|&(operation, [a, b, c], _)| [operation as u32, a, b, c]);
    let bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
    let mut machine = Machine::with_options(Options::new(Arch::Sm90a));
    let from = machine.allocate(bytes.len() as u64).unwrap();
    machine.write(from, &bytes).unwrap();
    let mut results = vec![0; 4 * cases.len()];
    let to = machine.allocate(results.len() as u64).unwrap();
    let module = machine.load(&text).unwrap_or_else(|error| panic!("{error}"));
    let kernel = machine.kernel(module, "arithmetic").unwrap();
    let config = LaunchConfig {
        grid: [1, 1, 1],
        block: [cases.len() as u32, 1, 1],
        cluster: [1, 1, 1],
        dynamic_shared_bytes: 0,
    };
    let parameters = [from.to_le_bytes(), to.to_le_bytes()].concat();
    machine.launch(kernel, &config, &parameters).unwrap_or_else(|error| panic!("{error}"));
    machine.read(to, &mut results).unwrap();
    for (&(operation, operands, want), found) in cases.iter().zip(results.chunks_exact(4)) {
        let found = u32::from_le_bytes(found.try_into().unwrap());
        assert_eq!(found, want, "{operation:?} of {operands:x?}: {found:#010x}, not {want:#010x}");
    }
}
