//! Pairs of f32 in one register: both halves are what the instruction of one f32 gives.

use ptx_emulator::{Arch, LaunchConfig, Machine, Parameters};

/// Numbers at which roundings and flushing differ: small and large ones, halfway cases, subnormal
/// ones, those that become subnormal, infinities and NaN.
const NUMBERS: [u32; 22] = [
    0,
    0x8000_0000,
    1,
    0x8000_0001,
    0x007F_FFFF,
    0x0080_0000,
    0x8080_0001,
    0x00FF_FFFF,
    0x1F80_0001,
    0xA000_0000,
    0x3380_0000,
    0xB380_0001,
    0x3F7F_FFFF,
    0x3F80_0000,
    0xBF80_0001,
    0x3FC0_0001,
    0x4B00_0001,
    0x5F80_0003,
    0x7F7F_FFFF,
    0xFF7F_FFFF,
    0x7F80_0000,
    0x7FC0_0001,
];

const COUNT: usize = NUMBERS.len() * NUMBERS.len();

/// Every thread computes with one pair of pairs, at once and one after the other.
fn kernel(name: &str, opcode: &str, sources: usize) -> String {
    let list = |register: &str| -> String {
        (1..=sources).map(|index| format!(", %{register}{index}")).collect()
    };
    format!(
        ".visible .entry {name}(.param .u64 out, .param .u64 input)\n{{
         .reg .pred %p; .reg .b32 %place, %count; .reg .b64 %out, %input, %d<5>, %offset;
         .reg .f32 %low<4>, %high<4>;
         mov.u32 %place, %tid.x; ld.param.u64 %out, [out]; ld.param.u64 %input, [input];
         mul.wide.u32 %offset, %place, 24; add.u64 %input, %input, %offset;
         mul.wide.u32 %offset, %place, 16; add.u64 %out, %out, %offset;
         ld.global.b64 %d1, [%input]; ld.global.b64 %d2, [%input+8]; ld.global.b64 %d3, [%input+16];
         mov.b64 {{%low1, %high1}}, %d1; mov.b64 {{%low2, %high2}}, %d2;
         mov.b64 {{%low3, %high3}}, %d3;
         {opcode}.f32x2 %d0{};
         {opcode}.f32 %low0{}; {opcode}.f32 %high0{};
         mov.b64 %d4, {{%low0, %high0}};
         st.global.v2.b64 [%out], {{%d0, %d4}};
         ret;\n}}\n",
        list("d"),
        list("low"),
        list("high"),
    )
}

/// Every two numbers, and in the upper halves every two in another order; the third is of both.
fn inputs() -> Vec<u32> {
    let number = |index: usize| NUMBERS[index % NUMBERS.len()];
    (0..COUNT)
        .flat_map(|place| {
            let (a, b) = (place / NUMBERS.len(), place % NUMBERS.len());
            let (other_a, other_b) = (b + 7, a + 13);
            let (c, other_c) = (3 * a + b, 5 * b + 2 * a + 1);
            [a, other_a, b, other_b, c, other_c].map(number)
        })
        .collect()
}

#[test]
fn pairs_are_computed_as_their_halves() {
    let mut forms = Vec::new();
    for rounding in ["", ".rn", ".rz", ".rm", ".rp"] {
        for flush in ["", ".ftz"] {
            for (operation, sources) in [("add", 2), ("sub", 2), ("mul", 2), ("fma", 3)] {
                if !(operation == "fma" && rounding.is_empty()) {
                    forms.push((format!("{operation}{rounding}{flush}"), sources));
                }
            }
        }
    }
    let mut text = ".version 8.6\n.target sm_100\n.address_size 64\n".to_owned();
    for (index, (opcode, sources)) in forms.iter().enumerate() {
        text += &kernel(&format!("k{index}"), opcode, *sources);
    }
    let mut machine = Machine::new(Arch::Sm100a);
    let module = machine.load(&text).unwrap_or_else(|error| panic!("{error}"));
    let inputs = inputs();
    let input = machine.upload(&inputs).unwrap();
    let config = LaunchConfig {
        grid: [1, 1, 1],
        block: [COUNT as u32, 1, 1],
        cluster: [1, 1, 1],
        dynamic_shared_bytes: 0,
    };
    let mut rounded: Vec<Vec<u64>> = Vec::new();
    for (index, (opcode, _)) in forms.iter().enumerate() {
        let kernel = machine.kernel(module, &format!("k{index}")).unwrap();
        let out = machine.upload(&vec![0_u64; 2 * COUNT]).unwrap();
        let parameters = Parameters::new().value(out).value(input);
        machine.launch(kernel, &config, parameters.as_bytes()).unwrap();
        let found: Vec<u64> = machine.read_values(out, 2 * COUNT).unwrap();
        for (place, pair) in found.chunks(2).enumerate() {
            let operands = &inputs[6 * place..][..6];
            assert_eq!(pair[0], pair[1], "{opcode} {operands:#x?}");
        }
        rounded.push(found);
    }
    // The roundings and flushings differ from one another, so each was looked at.
    for (first, found) in rounded.iter().enumerate() {
        for (second, other) in rounded.iter().enumerate().skip(first + 1) {
            let nearest = |index: usize| forms[index].0.replace(".rn", "");
            assert_eq!(found == other, nearest(first) == nearest(second), "{first} {second}");
        }
    }
}

/// Worked out by hand: the lower halves are the first numbers.
#[test]
fn halves_stay_in_their_places() {
    let one = 0x3F80_0000_u64;
    let pair = |low: u64, high: u64| high << 32 | low;
    let cases: [(&str, [u64; 3], u64); 5] = [
        ("add", [pair(one, 0x4000_0000), pair(one, one), 0], pair(0x4000_0000, 0x4040_0000)),
        ("sub", [pair(one, 0x4000_0000), pair(0, one), 0], pair(one, one)),
        ("mul.rz", [pair(one + 1, one), pair(one + 1, 0x4000_0000), 0], pair(one + 2, 1 << 30)),
        ("fma.rp", [pair(one, 1), pair(one, 1), pair(one, 1)], pair(0x4000_0000, 2)),
        ("fma.rn.ftz", [pair(one, 1), pair(one, one), pair(one, 1)], pair(0x4000_0000, 0)),
    ];
    for (opcode, operands, wanted) in cases {
        let sources = if opcode.starts_with("fma") { 3 } else { 2 };
        let text = format!(
            ".version 8.6\n.target sm_100a\n.address_size 64\n{}",
            kernel("k", opcode, sources)
        );
        let mut machine = Machine::new(Arch::Sm100a);
        let module = machine.load(&text).unwrap_or_else(|error| panic!("{error}"));
        let kernel = machine.kernel(module, "k").unwrap();
        let input = machine.upload(&operands).unwrap();
        let out = machine.upload(&[0_u64; 2]).unwrap();
        let config = LaunchConfig {
            grid: [1, 1, 1],
            block: [1, 1, 1],
            cluster: [1, 1, 1],
            dynamic_shared_bytes: 0,
        };
        let parameters = Parameters::new().value(out).value(input);
        machine.launch(kernel, &config, parameters.as_bytes()).unwrap();
        let found: Vec<u64> = machine.read_values(out, 2).unwrap();
        assert_eq!(found, [wanted, wanted], "{opcode}");
    }
}
