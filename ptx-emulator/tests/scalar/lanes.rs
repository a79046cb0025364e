//! Runs one piece of PTX for many operands, a thread each.

use ptx_emulator::{Arch, KernelId, LaunchConfig, Machine};

/// Operands of a thread: `%a`, `%b`, `%c` and `%e`.
pub type Operands = [u64; 4];

/// The widths of a body's registers in bits.
#[derive(Clone, Copy)]
pub struct Widths {
    pub operands: [u32; 4],
    pub result: u32,
}

impl Widths {
    /// All registers have the same width.
    pub fn all(bits: u32) -> Self {
        Self { operands: [bits; 4], result: bits }
    }
}

/// Loads a kernel `test(input, output)` whose threads hold their operands in registers and store
/// `%x`. The body also finds the predicates `%p`, `%q`, `%s` and the number of its thread, `%t`.
pub fn load(machine: &mut Machine, widths: Widths, body: &str) -> Result<KernelId, String> {
    let mut text = String::from(
        ".version 8.6\n.target sm_90a\n.address_size 64\n\
         .visible .entry test(.param .u64 input, .param .u64 output)\n{\n\
         .reg .pred %p, %q, %s; .reg .b32 %t; .reg .b64 %input, %output;\n\
         ld.param.u64 %input, [input]; ld.param.u64 %output, [output];\n\
         mov.u32 %t, %tid.x;\n\
         mad.wide.u32 %input, %t, 32, %input; mad.wide.u32 %output, %t, 8, %output;\n",
    );
    for (index, (name, bits)) in ["a", "b", "c", "e"].iter().zip(widths.operands).enumerate() {
        let offset = index * 8;
        text += &format!(".reg .b{bits} %{name}; ld.global.b{bits} %{name}, [%input+{offset}];\n");
    }
    let bits = widths.result;
    text += &format!(".reg .b{bits} %x;\n{body}\nst.global.b{bits} [%output], %x;\nret;\n}}\n");
    let module = machine.load(&text).map_err(|error| error.to_string())?;
    machine.kernel(module, "test").ok_or_else(|| "no kernel".to_owned())
}

/// Runs a body for each row of operands and returns `%x` of each.
pub fn try_run(widths: Widths, body: &str, rows: &[Operands]) -> Result<Vec<u64>, String> {
    let mut machine = Machine::new(Arch::Sm90a);
    let kernel = load(&mut machine, widths, body)?;
    let input = machine.allocate(rows.len() as u64 * 32).unwrap();
    let output = machine.allocate(rows.len() as u64 * 8).unwrap();
    let bytes: Vec<u8> = rows.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
    machine.write(input, &bytes).unwrap();
    machine.write(output, &vec![0; rows.len() * 8]).unwrap();
    let config = LaunchConfig {
        grid: [1, 1, 1],
        block: [rows.len() as u32, 1, 1],
        cluster: [1, 1, 1],
        dynamic_shared_bytes: 0,
    };
    let parameters: Vec<u8> = [input, output].iter().flat_map(|own| own.to_le_bytes()).collect();
    machine.launch(kernel, &config, &parameters).map_err(|error| error.to_string())?;
    let mut bytes = vec![0; rows.len() * 8];
    machine.read(output, &mut bytes).unwrap();
    Ok(bytes.chunks(8).map(|own| u64::from_le_bytes(own.try_into().unwrap())).collect())
}

/// Runs a body for the usual operands and compares `%x` with what `expected` says.
pub fn check(widths: Widths, body: &str, expected: impl Fn(Operands) -> u64) {
    check_rows(widths, body, &rows(), expected);
}

/// The same for given operands.
pub fn check_rows(
    widths: Widths,
    body: &str,
    rows: &[Operands],
    expected: impl Fn(Operands) -> u64,
) {
    let found = try_run(widths, body, rows).unwrap_or_else(|error| panic!("{body}\n{error}"));
    for (row, found) in rows.iter().zip(found) {
        let cut = std::array::from_fn(|index| row[index] & low_bits(widths.operands[index]));
        let expected = expected(cut) & low_bits(widths.result);
        assert_eq!(found, expected, "{body}\noperands {cut:x?}: {found:x}, not {expected:x}");
    }
}

/// As many ones.
pub fn low_bits(count: u32) -> u64 {
    u64::MAX >> (64 - count.clamp(1, 64))
}

/// The value of the low `bits` bits with their sign.
pub fn signed(bits: u32, value: u64) -> i128 {
    let value = i128::from(value & low_bits(bits));
    if value >> (bits - 1) != 0 { value - (1 << bits) } else { value }
}

/// Edges of all widths against each other, small numbers and noise: 256 rows.
pub fn rows() -> Vec<Operands> {
    const EDGES: [u64; 12] = [
        0,
        1,
        u64::MAX,
        0x7FFF_FFFF_FFFF_FFFF,
        0x8000_0000_0000_0000,
        0x7FFF_7FFF_7FFF_7FFF,
        0x8000_8000_8000_8000,
        0xFFFF_FFFF_8000_0000,
        0x7FFF_FFFF,
        0x00FF_FFFF,
        0x0080_0000,
        0x0001_0000_0000,
    ];
    let mut state = 0x1234_5678_9ABC_DEF1_u64;
    let mut noise = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..256u64)
        .map(|row| match row {
            0..144 => {
                let (a, b) = (EDGES[row as usize % 12], EDGES[row as usize / 12]);
                [a, b, EDGES[(row as usize * 7 + 3) % 12], noise()]
            }
            144..200 => [noise(), noise(), noise(), noise()],
            _ => [noise(), row % 70, row * 3 % 66, row % 9],
        })
        .collect()
}
