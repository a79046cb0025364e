//! Floating-point arithmetic and conversions, each run from its text. The wanted values are worked
//! out by hand from the formats.

use ptx_emulator::{Arch, LaunchConfig, Machine};

fn module(arch: Arch, body: &str) -> String {
    format!(
        ".version 8.6\n.target {arch}\n.address_size 64\n\
         .visible .entry test(.param .u64 out)\n{{\n.reg .b8 %b<4>; .reg .b16 %h<4>; .reg .b32 %r<6>; \
         .reg .b64 %d<4>; .reg .b64 %out;\nld.param.u64 %out, [out];\n{body}\nret;\n}}\n"
    )
}

fn registers(width: char) -> (u32, &'static str) {
    match width {
        'b' => (8, "%b"),
        'h' => (16, "%h"),
        'r' => (32, "%r"),
        _ => (64, "%d"),
    }
}

/// Runs one instruction. Each letter of `shape` is the file of an operand, the result's first: `b`
/// has 8 bits, `h` 16, `r` 32 and `d` 64. Braces make a vector.
fn run(form: &str, shape: &str, sources: &[u64]) -> u64 {
    run_on(Arch::Sm90a, form, shape, sources)
}

fn run_on(arch: Arch, form: &str, shape: &str, sources: &[u64]) -> u64 {
    let mut body = String::new();
    let mut operands = String::new();
    let mut index = 0;
    for width in shape.chars() {
        if matches!(width, '{' | '}') {
            operands.push(width);
            continue;
        }
        let (bits, name) = registers(width);
        if index > 0 {
            let value = sources[index - 1];
            body += &match width {
                'b' => format!("mov.b16 {{%b{index}, %b3}}, {value:#x};\n"),
                _ => format!("mov.b{bits} {name}{index}, {value:#x};\n"),
            };
        }
        operands += &format!("{name}{index},");
        index += 1;
    }
    let operands = operands.replace(",}", "},");
    let operands = operands.trim_end_matches(',');
    let (bits, name) = registers(shape.chars().next().unwrap());
    body += &format!("{form} {operands};\nst.global.b{bits} [%out], {name}0;");
    let mut machine = Machine::new(arch);
    let module =
        machine.load(&module(arch, &body)).unwrap_or_else(|error| panic!("{form}: {error}"));
    let kernel = machine.kernel(module, "test").unwrap();
    let out = machine.allocate(8).unwrap();
    machine.write(out, &[0; 8]).unwrap();
    let config = LaunchConfig {
        grid: [1, 1, 1],
        block: [1, 1, 1],
        cluster: [1, 1, 1],
        dynamic_shared_bytes: 0,
    };
    machine.launch(kernel, &config, &out.to_le_bytes()).unwrap_or_else(|error| panic!("{error}"));
    let mut bytes = [0; 8];
    machine.read(out, &mut bytes).unwrap();
    u64::from_le_bytes(bytes)
}

#[test]
fn arithmetic() {
    let one = 0x3F80_0000;
    let cases: &[(&str, &str, &[u64], u64)] = &[
        // 1 + 2^-24 lies halfway between 1 and the next number.
        ("add.f32", "rrr", &[one, 0x3380_0000], one),
        ("add.rp.f32", "rrr", &[one, 0x3380_0000], one + 1),
        ("sub.rz.f32", "rrr", &[one, 0x3300_0000], one - 1),
        ("sub.f32", "rrr", &[0x4040_0000, one], 0x4000_0000),
        ("mul.rn.sat.f32", "rrr", &[0x4000_0000, one], one),
        ("mul.ftz.f32", "rrr", &[1, 0x4000_0000], 0),
        ("mul.f32", "rrr", &[1, 0x4000_0000], 2),
        // (1 + 2^-23)² - (1 + 2^-22) = 2^-46.
        ("fma.rn.f32", "rrrr", &[one + 1, one + 1, 0xBF80_0002], 0x2880_0000),
        ("mad.rn.f64", "dddd", &[0x4000 << 48, 0x4008 << 48, 0x3FF0 << 48], 0x401C << 48),
        ("div.rn.f32", "rrr", &[one, 0x4040_0000], 0x3EAA_AAAB),
        ("div.rm.f32", "rrr", &[one, 0x4040_0000], 0x3EAA_AAAA),
        ("div.full.f32", "rrr", &[0x4100_0000, 0x4000_0000], 0x4080_0000),
        ("rcp.rn.f64", "dd", &[0x4010 << 48], 0x3FD0 << 48),
        ("sqrt.rn.f32", "rr", &[0x4110_0000], 0x4040_0000),
        ("sqrt.rn.f32", "rr", &[0xBF80_0000], 0x7FFF_FFFF),
        ("sqrt.approx.ftz.f32", "rr", &[0xBF80_0000], 0x7FFF_FFFF),
        ("rsqrt.approx.f32", "rr", &[0x4080_0000], 0x3F00_0000),
        ("rsqrt.approx.f64", "dd", &[0x4010 << 48], 0x3FE0 << 48),
        ("ex2.approx.f32", "rr", &[0x4040_0000], 0x4100_0000),
        ("lg2.approx.f32", "rr", &[0x4100_0000], 0x4040_0000),
        ("cos.approx.f32", "rr", &[0], one),
        ("tanh.approx.bf16x2", "rr", &[0x7F80_0000], 0x3F80_0000),
        ("neg.f32", "rr", &[0], 0x8000_0000),
        ("abs.ftz.f32", "rr", &[0x8000_0001], 0),
        ("neg.bf16x2", "rr", &[0x3F80_BF80], 0xBF80_3F80),
        ("min.f32", "rrr", &[0x8000_0000, 0], 0x8000_0000),
        ("max.f32", "rrr", &[0x7FC0_0000, one], one),
        ("max.NaN.f32", "rrr", &[0x7FC0_0000, one], 0x7FFF_FFFF),
        ("min.xorsign.abs.f32", "rrr", &[0xC000_0000, one], 0xBF80_0000),
        ("max.f64", "ddd", &[0xBFF0 << 48, 0xC000 << 48], 0xBFF0 << 48),
        // Halves are independent: 1 + 1 above, 65504 + 65504 below.
        ("add.f16x2", "rrr", &[0x3C00_7BFF, 0x3C00_7BFF], 0x4000_7C00),
        ("sub.sat.f16", "hhh", &[0x3C00, 0x4000], 0),
        ("fma.rn.relu.bf16x2", "rrrr", &[0xBF80_4000, 0x3F80_4000, 0x3F80], 0x0000_40A0),
        ("mul.rn.bf16", "hhh", &[0x4040, 0x4040], 0x4110),
        ("max.f16x2", "rrr", &[0x3C00_BC00, 0x4000_8000], 0x4000_8000),
    ];
    for (form, shape, sources, wanted) in cases {
        assert_eq!(run(form, shape, sources), *wanted, "{form} {sources:#x?}");
    }
}

#[test]
fn conversions() {
    let cases: &[(&str, &str, &[u64], u64)] = &[
        ("cvt.u32.u16", "rh", &[0xFFFE], 0xFFFE),
        ("cvt.s32.s16", "rh", &[0xFFFE], 0xFFFF_FFFE),
        ("cvt.s64.s32", "dr", &[0x8000_0000], 0xFFFF_FFFF_8000_0000),
        ("cvt.u64.u32", "dr", &[0x8000_0000], 0x8000_0000),
        ("cvt.u64.s8", "dr", &[0x80], 0xFFFF_FFFF_FFFF_FF80),
        ("cvt.u32.s8", "dr", &[0x80], 0xFFFF_FF80),
        ("cvt.u32.u64", "rd", &[0x1_2345_6789], 0x2345_6789),
        // A register that is wider than the type of the result: its sign goes on.
        ("cvt.s8.s32", "rr", &[0x1F0], 0xFFFF_FFF0),
        ("cvt.s8.s32", "hr", &[0x1F0], 0xFFF0),
        ("cvt.u8.u8", "hh", &[0xFFFF], 0xFF),
        ("cvt.s16.s64", "dd", &[0x8000], 0xFFFF_FFFF_FFFF_8000),
        ("cvt.sat.u8.s32", "rr", &[0xFFFF_FFFF], 0),
        ("cvt.sat.s8.s32", "hr", &[0xFFFF_0000], 0xFF80),
        ("cvt.sat.s32.u32", "rr", &[0x8000_0000], 0x7FFF_FFFF),
        ("cvt.rn.f32.s32", "rr", &[0xFFFF_FFFF], 0xBF80_0000),
        ("cvt.rn.f32.u32", "rr", &[0xFFFF_FFFF], 0x4F80_0000),
        ("cvt.rz.f32.u32", "rr", &[0xFFFF_FFFF], 0x4F7F_FFFF),
        ("cvt.rn.f32.s8", "rr", &[0xFE], 0xC000_0000),
        ("cvt.rn.f64.u64", "dd", &[3], 0x4008 << 48),
        ("cvt.rzi.s32.f32", "rr", &[0xC020_0000], 0xFFFF_FFFE),
        ("cvt.rni.s32.f32", "rr", &[0x4020_0000], 2),
        ("cvt.rpi.s32.f32", "rr", &[0x4020_0000], 3),
        ("cvt.rzi.u32.f32", "rr", &[0xBF80_0000], 0),
        ("cvt.rzi.s8.f32", "hr", &[0xC47A_0000], 0xFF80),
        ("cvt.rzi.s64.f32", "dr", &[0x7FC0_0000], 1 << 63),
        ("cvt.rmi.f32.f32", "rr", &[0xBF00_0000], 0xBF80_0000),
        ("cvt.sat.f32.f32", "rr", &[0x4000_0000], 0x3F80_0000),
        ("cvt.f32.f16", "rh", &[0x3C01], 0x3F80_2000),
        ("cvt.f32.f16", "rh", &[1], 0x3380_0000),
        ("cvt.f32.bf16", "rh", &[0xC040], 0xC040_0000),
        ("cvt.rn.bf16.f32", "hr", &[0x3F81_8000], 0x3F82),
        ("cvt.rz.bf16.f32", "hr", &[0x3F81_8000], 0x3F81),
        ("cvt.rn.relu.bf16.f32", "hr", &[0xBF80_0000], 0),
        ("cvt.rn.f16.f32", "hr", &[0x477F_F000], 0x7C00),
        ("cvt.rn.satfinite.f16.f32", "hr", &[0x477F_F000], 0x7BFF),
        ("cvt.f64.f32", "dr", &[0xBF80_0000], 0xBFF0 << 48),
        ("cvt.rn.f32.f64", "rd", &[0x3FF0_0000_1000_0001], 0x3F80_0001),
        ("cvt.rna.tf32.f32", "rr", &[0x3F80_1000], 0x3F80_2000),
        ("cvt.rn.tf32.f32", "rr", &[0x3F80_1000], 0x3F80_0000),
        // The first source is the upper half.
        ("cvt.rn.f16x2.f32", "rrr", &[0x4000_0000, 0x3F80_0000], 0x4000_3C00),
        ("cvt.rn.bf16x2.f32", "rrr", &[0x4000_0000, 0x3F80_0000], 0x4000_3F80),
        ("cvt.rz.relu.f16x2.f32", "rrr", &[0xC000_0000, 0x3F80_0000], 0x3C00),
        ("cvt.rn.satfinite.e4m3x2.f32", "hrr", &[0x3F80_0000, 0x447A_0000], 0x387E),
        ("cvt.rn.satfinite.relu.e5m2x2.f32", "hrr", &[0x3F80_0000, 0xBF80_0000], 0x3C00),
        ("cvt.rn.satfinite.e4m3x2.f16x2", "hr", &[0x3C00_C000], 0x38C0),
        ("cvt.rn.f16x2.e4m3x2", "rh", &[0x38C0], 0x3C00_C000),
        ("cvt.rn.relu.f16x2.e5m2x2", "rh", &[0xBC3C], 0x3C00),
        ("cvt.pack.sat.s16.s32", "rrr", &[0x1_0000, 0xFFFF_FFFF], 0x7FFF_FFFF),
        ("cvt.pack.sat.u8.s32.b32", "rrrr", &[0x100, 0xFFFF_FFFF, 0x1_2345], 0x2345_FF00),
        ("cvt.pack.sat.s4.s32.b32", "rrrr", &[0x64, 0xFFFF_FF00, 0xAB], 0xAB78),
    ];
    for (form, shape, sources, wanted) in cases {
        assert_eq!(run(form, shape, sources), *wanted, "{form} {shape} {sources:#x?}");
    }
}

/// Numbers of four and six bits and powers of two.
#[test]
fn conversions_of_blackwell() {
    let cases: &[(&str, &str, &[u64], u64)] = &[
        // 2.5 lies between 2 and 3, -1.2 next to -1; the first source goes to the high half.
        ("cvt.rn.satfinite.e2m1x2.f32", "brr", &[0x4020_0000, 0xBF99_999A], 0x4A),
        ("cvt.rn.satfinite.relu.e2m1x2.f32", "brr", &[0x43E0_0000, 0xBF99_999A], 0x70),
        ("cvt.rn.satfinite.e2m3x2.f32", "hrr", &[0x3F88_0000, 0xBF99_999A], 0x082A),
        ("cvt.rn.satfinite.e3m2x2.f32", "hrr", &[0x40A0_0000, 0x7F80_0000], 0x151F),
        ("cvt.rn.f16x2.e2m1x2", "rb", &[0xA4], 0xBC00_4000),
        ("cvt.rn.relu.f16x2.e2m1x2", "rb", &[0xA4], 0x4000),
        ("cvt.rn.f16x2.e2m3x2", "rh", &[0x1F08], 0x4780_3C00),
        ("cvt.rn.f16x2.e3m2x2", "rh", &[0x1F0C], 0x4F00_3C00),
        ("cvt.rp.ue8m0x2.f32", "hrr", &[0x3F88_0000, 0x3A80_0000], 0x8075),
        ("cvt.rz.ue8m0x2.f32", "hrr", &[0x3F88_0000, 0x3A80_0001], 0x7F75),
        ("cvt.rp.satfinite.ue8m0x2.f32", "hrr", &[0x7F80_0000, 0x4768_0000], 0xFE8F),
        ("cvt.rp.ue8m0x2.bf16x2", "hr", &[0x3F88_3E80], 0x807D),
        ("cvt.rn.bf16x2.ue8m0x2", "rh", &[0x807D], 0x4000_3E80),
        ("cvt.rn.satfinite.tf32.f32", "rr", &[0x7F80_0000], 0x7F7F_E000),
        ("cvt.rn.satfinite.e2m1x2.f16x2", "br", &[0x4100_BCCD], 0x4A),
        ("cvt.rn.satfinite.relu.e2m1x2.bf16x2", "br", &[0x4020_BF9A], 0x40),
        ("cvt.rn.satfinite.e3m2x2.f16x2", "hr", &[0x4500_7C00], 0x151F),
        ("cvt.rn.satfinite.e2m3x2.bf16x2", "hr", &[0x3F88_BF9A], 0x082A),
        ("cvt.rn.satfinite.e4m3x2.bf16x2", "hr", &[0x3F80_C000], 0x38C0),
        ("cvt.rn.satfinite.e5m2x2.bf16x2", "hr", &[0x3F80_7F80], 0x3C7B),
        ("cvt.rn.bf16x2.e4m3x2", "rh", &[0x38C0], 0x3F80_C000),
        ("cvt.rn.relu.bf16x2.e2m1x2", "rb", &[0xA4], 0x0000_4000),
        ("cvt.rn.satfinite.bf16x2.e5m2x2", "rh", &[0x7CFC], 0x7F7F_FF7F),
        // Twice 1 and half of -2; 2^-9 and 1.5 * 2^-6 times 2^-127, the last halfway.
        ("cvt.rn.scaled::n2::ue8m0.bf16x2.e4m3x2", "rhh", &[0x38C0, 0x807E], 0x4000_BF80),
        ("cvt.rn.scaled::n2::ue8m0.bf16x2.e4m3x2", "rhh", &[0x010C, 0x0000], 0x0000_0002),
        ("cvt.rn.scaled::n2::ue8m0.bf16x2.e5m2x2", "rhh", &[0x7B3C, 0xFEFF], 0x7F80_7FFF),
        ("cvt.rn.satfinite.scaled::n2::ue8m0.bf16x2.e5m2x2", "rhh", &[0x7B3C, 0xFE00], 0x7F7F_0040),
        ("cvt.rn.relu.scaled::n2::ue8m0.bf16x2.e2m1x2", "rbh", &[0xA4, 0x7F80], 0x0000_4080),
    ];
    for (form, shape, sources, wanted) in cases {
        let found = run_on(Arch::Sm100a, form, shape, sources);
        assert_eq!(found, *wanted, "{form} {shape} {sources:#x?}");
    }
    for (instruction, hint) in [
        ("cvt.rn.satfinite.e2m1x2.f32 %h0, %r1, %r2;", "`.b8`"),
        ("cvt.rn.satfinite.e2m1x2.bf16x2 %h0, %r1;", "`.b8`"),
        ("cvt.rn.satfinite.e2m1x2.f16x2 %b0, %d1;", "`.b64`"),
        ("cvt.rn.e2m1x2.bf16x2 %b0, %r1;", "`.satfinite`"),
        ("cvt.bf16x2.e4m3x2 %r0, %h1;", "`.rn`"),
        ("cvt.rn.bf16x2.e4m3x2 %r0, %h1, %h2;", "takes 2"),
        ("cvt.rn.scaled::n2::ue8m0.bf16x2.e4m3x2 %r0, %h1;", "takes 3"),
        ("cvt.rn.scaled::n2::ue8m0.bf16x2.e4m3x2 %r0, %h1, 5;", "literal"),
        ("cvt.rn.scaled::n2::ue8m0.bf16x2.e4m3x2 %r0, %h1, %r2;", "`.b16`"),
        ("cvt.rn.scaled::n2::ue8m0.f16x2.e4m3x2 %r0, %h1, %h2;", "`.scaled::n2::ue8m0`"),
        ("cvt.rn.satfinite.scaled::n2::ue8m0.e4m3x2.f32 %h0, %r1, %r2, %h1;", "scaled"),
        ("cvt.rn.satfinite.s2f6x2.f32 %h0, %r1, %r2;", "not emulated"),
        ("cvt.rn.f16x2.e2m1x2 %r0, %h1;", "`.b8`"),
        ("cvt.rn.ue8m0x2.f32 %h0, %r1, %r2;", "`.rz` or `.rp`"),
        ("cvt.rn.e3m2x2.f32 %h0, %r1, %r2;", "`.satfinite`"),
    ] {
        let mut machine = Machine::new(Arch::Sm100a);
        let text = module(Arch::Sm100a, instruction);
        let error = machine.load(&text).expect_err(instruction).to_string();
        assert!(error.contains(hint), "{instruction}: {error}");
    }
}

/// Numbers halfway between two codes, which random bits of 0x8000 or more round away from zero.
#[test]
fn conversions_with_random_bits() {
    let cases: &[(&str, &str, &[u64], u64)] = &[
        ("cvt.rs.bf16x2.f32", "rrrr", &[0x3F80_8000, 0x3F80_8000, 0x8000_7FFF], 0x3F81_3F80),
        // Of each half the lower 13 bits count.
        ("cvt.rs.f16x2.f32", "rrrr", &[0x3F80_1000, 0xBF80_1000, 0x1000_EFFF], 0x3C01_BC00),
        ("cvt.rs.f16x2.f32", "drrr", &[0x4974_2400, 0xBF80_0000, 0], 0x7C00_BC00),
        ("cvt.rs.relu.satfinite.f16x2.f32", "rrrr", &[0x4974_2400, 0xBF80_0000, 0], 0x7BFF_0000),
        (
            "cvt.rs.satfinite.e4m3x4.f32",
            "r{rrrr}r",
            &[0x3F88_0000, 0xBF88_0000, 0x3F88_0000, 0x4400_0000, 0x8000_7FFF],
            0x39B9_387E,
        ),
        (
            "cvt.rs.relu.satfinite.e5m2x4.f32",
            "r{rrrr}r",
            &[0x3F90_0000, 0x3F90_0000, 0x7FC0_0000, 0xBF90_0000, 0x7FFF_8000],
            0x3C3C_7F00,
        ),
        (
            "cvt.rs.satfinite.e2m3x4.f32",
            "r{rrrr}r",
            &[0x3F88_0000, 0xBF88_0000, 0x3F88_0000, 0x7FC0_0000, 0x8000_7FFF],
            0x0929_081F,
        ),
        (
            "cvt.rs.satfinite.e3m2x4.f32",
            "r{rrrr}r",
            &[0x3F90_0000, 0xBF90_0000, 0x3F90_0000, 0xFF80_0000, 0x7FFF_8000],
            0x0C2C_0D3F,
        ),
        // 0x8000 for the first two, 0x7FFF for the others.
        (
            "cvt.rs.satfinite.e2m1x4.f32",
            "h{rrrr}r",
            &[0x3FA0_0000, 0xBFA0_0000, 0x3FA0_0000, 0xBFA0_0000, 0x807F_00FF],
            0x3B2A,
        ),
        // 0x8001 is just enough for these, of bytes that lie apart.
        (
            "cvt.rs.satfinite.e2m1x4.f32",
            "h{rrrr}r",
            &[0x3F9F_FFC0, 0x3F9F_FFC0, 0x3F9F_FFC0, 0x3F9F_FFC0, 0x8000_0180],
            0x3322,
        ),
        (
            "cvt.rs.satfinite.e2m1x4.f32",
            "h{rrrr}r",
            &[0x3F9F_FFC0, 0x3F9F_FFC0, 0x3F9F_FFC0, 0x3F9F_FFC0, 0x0080_0001],
            0x2233,
        ),
    ];
    for (form, shape, sources, wanted) in cases {
        let found = run_on(Arch::Sm100a, form, shape, sources);
        assert_eq!(found, *wanted, "{form} {shape} {sources:#x?}");
    }
    for (instruction, hint) in [
        ("cvt.rs.e4m3x4.f32 %r0, {%r1, %r2, %r3, %r4}, %r5;", "`.satfinite`"),
        ("cvt.rs.satfinite.e4m3x4.f32 %r0, {%r1, %r2, %r3}, %r4;", "vector of four"),
        ("cvt.rs.satfinite.e4m3x4.f32 %h0, {%r1, %r2, %r3, %r4}, %r5;", "`.b16`"),
        ("cvt.rs.satfinite.e2m1x4.f32 %r0, {%r1, %r2, %r3, %r4}, %r5;", "`.b32`"),
        ("cvt.rs.satfinite.e4m3x4.f32 %r0, {%r1, %r2, %r3, %d1}, %r5;", "%d1"),
        ("cvt.rs.bf16x2.f32 %r0, %r1, %r2, 5;", "literal"),
        ("cvt.rs.bf16x2.f32 %d0, %r1, %r2, %r3;", "%d0"),
        ("cvt.rs.bf16x2.f32 %r0, %r1, %r2;", "takes 4"),
        ("cvt.rs.ftz.bf16x2.f32 %r0, %r1, %r2, %r3;", "`.ftz`"),
        ("cvt.rs.bf16.f32 %h0, %r1, %r2;", "no such type"),
        ("cvt.rs.satfinite.e4m3x2.f32 %h0, %r1, %r2, %r3;", "no such type"),
    ] {
        let mut machine = Machine::new(Arch::Sm100a);
        let text = module(Arch::Sm100a, instruction);
        let error = machine.load(&text).expect_err(instruction).to_string();
        assert!(error.contains(hint), "{instruction}: {error}");
    }
}

#[test]
fn what_does_not_exist_is_refused() {
    for (instruction, hint) in [
        ("fma.f32 %r0, %r1, %r2, %r3;", "`.rn`"),
        ("add.rz.f16 %h0, %h1, %h2;", "`.rz`"),
        ("add.sat.bf16 %h0, %h1, %h2;", "`.sat`"),
        ("add.sat.f64 %d0, %d1, %d2;", "`.sat`"),
        ("fma.rn.sat.relu.f16 %h0, %h1, %h2, %h3;", "`.relu`"),
        ("add.rn.f32x2 %d0, %d1, %d2;", "sm_100"),
        ("min.f32 %r0, %r1, %r2, %r3;", "sm_100"),
        ("add.f32 %r0, %r1, 1;", "literal"),
        ("div.approx.f64 %d0, %d1, %d2;", "missing"),
        ("sin.f32 %r0, %r1;", "`.approx`"),
        ("ex2.approx.bf16 %h0, %h1;", "`.ftz`"),
        ("fma.rn.oob.f32 %r0, %r1, %r2, %r3;", "`.oob`"),
        ("cvt.f16.f32 %h0, %r1;", "missing"),
        ("cvt.rn.f32.f16 %r0, %h1;", "`.rn`"),
        ("cvt.s32.f32 %r0, %r1;", "missing"),
        ("cvt.sat.u32.u16 %r0, %h1;", "`.sat`"),
        ("cvt.rn.e4m3x2.f32 %h0, %r1, %r2;", "`.satfinite`"),
        ("cvt.rn.satfinite.tf32.f32 %r0, %r1;", "sm_100"),
        ("cvt.rn.satfinite.e2m3x2.f32 %h0, %r1, %r2;", "sm_100"),
        ("cvt.rn.satfinite.e2m1x2.f32 %b0, %r1, %r2;", "sm_100a"),
        ("cvt.rn.f16x2.e3m2x2 %r0, %h1;", "sm_100a"),
        ("cvt.rp.ue8m0x2.f32 %h0, %r1, %r2;", "sm_100a"),
        ("cvt.rn.bf16x2.ue8m0x2 %r0, %h1;", "sm_100a"),
        ("cvt.rs.f16x2.f32 %r0, %r1, %r2, %r3;", "sm_100a"),
        ("cvt.rn.satfinite.e4m3x2.bf16x2 %h0, %r1;", "sm_100a"),
        ("cvt.rn.satfinite.e2m3x2.f16x2 %h0, %r1;", "sm_100a"),
        ("cvt.rn.bf16x2.e4m3x2 %r0, %h1;", "sm_100a"),
    ] {
        let mut machine = Machine::new(Arch::Sm90a);
        let error =
            machine.load(&module(Arch::Sm90a, instruction)).expect_err(instruction).to_string();
        assert!(error.contains(hint), "{instruction}: {error}");
    }
}
