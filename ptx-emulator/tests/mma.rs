//! Kernels of one warp with `mma.sync` and with the instructions that move tiles.

mod matrices;

use matrices::{Element, load, run};
use ptx_emulator::{Checks, ReportKind};

/// How bits of K are multiplied.
#[derive(Clone, Copy, PartialEq)]
enum Type {
    Whole(Element),
    Nibble { signed: bool },
    And,
    Xor,
}

impl Type {
    fn bits(self) -> usize {
        match self {
            Self::Whole(element) => element.bits(),
            Self::Nibble { .. } => 4,
            Self::And | Self::Xor => 1,
        }
    }

    /// The smallest and the number of the values that are used.
    fn values(self) -> (i32, u32) {
        match self {
            Self::Whole(Element::U8) => (0, 5),
            Self::Whole(_) => (-4, 9),
            Self::Nibble { signed: true } => (-8, 16),
            Self::Nibble { signed: false } => (0, 16),
            Self::And | Self::Xor => (0, 2),
        }
    }

    fn pattern(self, value: i32) -> u64 {
        match self {
            Self::Whole(element) => {
                let bytes = element.encode(value);
                bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte))
            }
            Self::Nibble { .. } => (value & 15) as u64,
            Self::And | Self::Xor => value as u64,
        }
    }

    fn product(self, a: i32, b: i32) -> i32 {
        if self == Self::Xor { a ^ b } else { a * b }
    }
}

/// One form: text behind `mma.sync.aligned.`, types, the accumulator, M and K.
type Form = (&'static str, [Type; 2], &'static str, usize, usize);

/// A value that depends on everything.
fn value(kind: Type, row: usize, k: usize, operand: usize) -> i32 {
    let (smallest, count) = kind.values();
    let mixed = (row as u32 * 7919 + k as u32 * 104_729 + operand as u32 * 31 + 12_345)
        .wrapping_mul(2_654_435_761)
        >> 16;
    smallest + (mixed % count) as i32
}

/// Registers of A (`m` rows) or B (8 columns), by lane. The PTX manual's figures say, for all
/// types: bits 32t.. of the first 128 bits of K of row g are in register 0 of lane 4g + t, those
/// of row g + 8 in register 1, and those of the next 128 bits of K in the registers after them.
fn fragment(kind: Type, operand: usize, rows: usize, k: usize) -> Vec<Vec<u32>> {
    let per_word = 32 / kind.bits();
    let words = k / per_word;
    let groups = rows / 8;
    let mut lanes = vec![vec![0u32; groups * words / 4]; 32];
    for row in 0..rows {
        for at in 0..k {
            let word = at / per_word;
            let (lane, register) = (row % 8 * 4 + word % 4, word / 4 * groups + row / 8);
            let bits = kind.pattern(value(kind, row, at, operand)) as u32;
            lanes[lane][register] |= bits << (at % per_word * kind.bits());
        }
    }
    lanes
}

fn list(letter: &str, count: usize) -> String {
    let names: Vec<_> = (0..count).map(|at| format!("%{letter}{at}")).collect();
    format!("{{{}}}", names.join(", "))
}

/// A kernel that loads registers, executes `instruction` and stores those of D.
fn kernel(instruction: &str, [d, a, b]: [usize; 3]) -> String {
    let mut text = matrices::prologue();
    text += &format!(".reg .b32 %d<{d}>; .reg .b32 %a<{a}>; .reg .b32 %b_<{b}>;\n");
    for at in 0..d {
        text += &format!("ld.global.b32 %d{at}, [%table+{}];\n", matrices::accumulator(at));
    }
    for at in 0..a {
        text += &format!("ld.global.b32 %a{at}, [%table+{}];\n", matrices::fragment(at));
    }
    for at in 0..b {
        text += &format!("ld.global.b32 %b_{at}, [%table+{}];\n", matrices::fragment(32 + at));
    }
    let (d_list, a_list, b_list) = (list("d", d), list("a", a), list("b_", b));
    text += &format!("{instruction} {d_list}, {a_list}, {b_list}, {d_list};\n");
    for at in 0..d {
        text += &format!("st.global.b32 [%table+{}], %d{at};\n", matrices::result(at));
    }
    text + "ret;"
}

fn check((text, [a, b], result, m, k): Form) {
    let instruction = format!("mma.sync.aligned.{text}");
    let [a_lanes, b_lanes] = [fragment(a, 0, m, k), fragment(b, 1, 8, k)];
    let mut fragments = vec![vec![0; 64]; 32];
    for (lane, own) in fragments.iter_mut().enumerate() {
        own[..a_lanes[lane].len()].copy_from_slice(&a_lanes[lane]);
        own[32..32 + b_lanes[lane].len()].copy_from_slice(&b_lanes[lane]);
    }
    let saturates = text.contains("satfinite");
    let values = m / 4;
    let before = |lane: usize, index: usize| match (saturates, index % 2) {
        (true, 0) => i32::MAX - 3,
        (true, _) => i32::MIN + 3,
        _ => (lane * 5 + index * 3) as i32 % 17 - 8,
    };
    let accumulators: Vec<_> = (0..32)
        .map(|lane| {
            let own: Vec<_> = (0..values).map(|index| before(lane, index)).collect();
            matrices::encode(result, &own)
        })
        .collect();
    let counts = [accumulators[0].len(), a_lanes[0].len(), b_lanes[0].len()];
    let run = run(&kernel(&instruction, counts), &[], &accumulators, &fragments, 32, Checks::On, 0);
    let run = run.unwrap_or_else(|report| panic!("{text}: {report}"));
    for (lane, words) in run.results.iter().enumerate() {
        let found = matrices::decode(result, &words[..counts[0]]);
        for (index, found) in found.into_iter().enumerate() {
            let (row, column) = (lane / 4 + 8 * (index / 2), 2 * (lane % 4) + index % 2);
            let product = |at| a.product(value(a, row, at, 0), value(b, column, at, 1));
            let sum: i32 = (0..k).map(product).sum();
            let wanted = before(lane, index).saturating_add(sum);
            assert_eq!(found, f64::from(wanted), "{text} lane {lane} value {index}");
        }
    }
    assert_eq!(run.statistics.multiply_adds, (m * 8 * k) as u64, "{text}");
}

#[test]
fn every_form_gives_the_product() {
    use Element::{Bf16, E4m3, E5m2, F16, S8, Tf32, U8};
    let both = |element| [Type::Whole(element); 2];
    let [signed, unsigned] = [true, false].map(|signed| Type::Nibble { signed });
    let forms: &[Form] = &[
        ("m16n8k16.row.col.f32.bf16.bf16.f32", both(Bf16), "f32", 16, 16),
        ("m16n8k8.row.col.f32.bf16.bf16.f32", both(Bf16), "f32", 16, 8),
        ("m16n8k16.row.col.f32.f16.f16.f32", both(F16), "f32", 16, 16),
        ("m16n8k8.row.col.f16.f16.f16.f16", both(F16), "f16", 16, 8),
        ("m16n8k16.row.col.f16.f16.f16.f16", both(F16), "f16", 16, 16),
        ("m16n8k8.row.col.f32.tf32.tf32.f32", both(Tf32), "f32", 16, 8),
        ("m16n8k4.row.col.f32.tf32.tf32.f32", both(Tf32), "f32", 16, 4),
        (
            "m16n8k32.row.col.f32.e4m3.e5m2.f32",
            [Type::Whole(E4m3), Type::Whole(E5m2)],
            "f32",
            16,
            32,
        ),
        ("m16n8k32.row.col.s32.s8.s8.s32", both(S8), "s32", 16, 32),
        ("m16n8k16.row.col.satfinite.s32.s8.s8.s32", both(S8), "s32", 16, 16),
        ("m8n8k16.row.col.s32.u8.s8.s32", [Type::Whole(U8), Type::Whole(S8)], "s32", 8, 16),
        ("m8n8k16.row.col.satfinite.s32.s8.s8.s32", both(S8), "s32", 8, 16),
        ("m8n8k32.row.col.s32.s4.u4.s32", [signed, unsigned], "s32", 8, 32),
        ("m16n8k32.row.col.s32.s4.s4.s32", [signed; 2], "s32", 16, 32),
        ("m16n8k64.row.col.s32.u4.s4.s32", [unsigned, signed], "s32", 16, 64),
        ("m16n8k64.row.col.satfinite.s32.u4.u4.s32", [unsigned; 2], "s32", 16, 64),
        ("m8n8k128.row.col.s32.b1.b1.s32.xor.popc", [Type::Xor; 2], "s32", 8, 128),
        ("m16n8k128.row.col.s32.b1.b1.s32.and.popc", [Type::And; 2], "s32", 16, 128),
        ("m16n8k256.row.col.s32.b1.b1.s32.xor.popc", [Type::Xor; 2], "s32", 16, 256),
    ];
    forms.iter().copied().for_each(check);
    for (names, types) in [
        ("e4m3.e4m3", both(E4m3)),
        ("e4m3.e5m2", [Type::Whole(E4m3), Type::Whole(E5m2)]),
        ("e5m2.e4m3", [Type::Whole(E5m2), Type::Whole(E4m3)]),
        ("e5m2.e5m2", both(E5m2)),
    ] {
        for (sum, k) in [("f32", 16), ("f16", 16), ("f32", 32), ("f16", 32)] {
            let text = format!("m16n8k{k}.row.col.{sum}.{names}.{sum}");
            check((text.leak(), types, sum, 16, k));
        }
    }
}

/// Doubles: m8n8k4, where lane 4g + t has A of row g and B of column g, both k t.
#[test]
fn doubles_are_multiplied() {
    let text = matrices::prologue()
        + &format!(
            ".reg .b64 %v<4>;
             ld.global.b64 %v0, [%table+{}]; ld.global.b64 %v1, [%table+{}];
             ld.global.v2.b64 {{%v2, %v3}}, [%table+{}];
             mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64
                 {{%v2, %v3}}, {{%v0}}, {{%v1}}, {{%v2, %v3}};
             st.global.v2.b64 [%table+{}], {{%v2, %v3}}; ret;",
            matrices::fragment(0),
            matrices::fragment(2),
            matrices::accumulator(0),
            matrices::result(0)
        );
    let words = |value: f64| [value.to_bits() as u32, (value.to_bits() >> 32) as u32];
    let a = |row: usize, k: usize| 1.0 + (row * 4 + k) as f64 / 1e6;
    let b = |k: usize, column: usize| (column as f64 - 3.5) * (k + 1) as f64;
    let c = |row: usize, column: usize| (row * 8 + column) as f64;
    let fragments: Vec<_> = (0..32)
        .map(|lane| [words(a(lane / 4, lane % 4)), words(b(lane % 4, lane / 4))].concat())
        .collect();
    let accumulators: Vec<_> = (0..32)
        .map(|lane| [0, 1].map(|at| words(c(lane / 4, lane % 4 * 2 + at))).concat())
        .collect();
    let run = run(&text, &[], &accumulators, &fragments, 32, Checks::On, 0).unwrap();
    for (lane, words) in run.results.iter().enumerate() {
        for at in 0..2 {
            let (row, column) = (lane / 4, lane % 4 * 2 + at);
            let bits = u64::from(words[2 * at]) | u64::from(words[2 * at + 1]) << 32;
            let wanted = (0..4).fold(c(row, column), |sum, k| a(row, k).mul_add(b(k, column), sum));
            assert!((f64::from_bits(bits) - wanted).abs() < 1e-12, "lane {lane} value {at}");
        }
    }
}

/// A kernel that copies the image to shared memory, executes `instruction` with the address of
/// the row at offset 256 times the lane and stores four registers.
fn tile_kernel(instruction: &str) -> String {
    let mut text = matrices::copy_to_shared() + ".reg .b32 %d<4>;\n";
    for at in 0..4 {
        text += &format!("ld.global.b32 %d{at}, [%table+{}];\n", matrices::accumulator(at));
    }
    text += &format!("bar.sync 0;\n{instruction}\nbar.sync 0;\n");
    for at in 0..4 {
        text += &format!("st.global.b32 [%table+{}], %d{at};\n", matrices::result(at));
    }
    text + "ret;"
}

/// Element `column` of the row that lane `lane` gives the address of.
fn tile_element(lane: usize, column: usize) -> u16 {
    (lane * 8 + column) as u16 * 7 + 1
}

fn tile_image() -> Vec<u8> {
    let mut image = vec![0; 32 * 256];
    for lane in 0..32 {
        for column in 0..8 {
            let at = lane * 256 + 16 + column * 2;
            image[at..at + 2].copy_from_slice(&tile_element(lane, column).to_le_bytes());
        }
    }
    image
}

/// What lane `lane` holds of tile `tile`.
fn tile_word(tile: usize, lane: usize, transposed: bool) -> u32 {
    let halves = [0, 1].map(|half| {
        let (row, column) = (lane / 4, lane % 4 * 2 + half);
        let (row, column) = if transposed { (column, row) } else { (row, column) };
        u32::from(tile_element(tile * 8 + row, column))
    });
    halves[0] | halves[1] << 16
}

#[test]
fn tiles_are_loaded() {
    let accumulators = vec![vec![0xDEAD; 4]; 32];
    for count in [1, 2, 4] {
        for (transposed, infix) in [(false, ""), (true, ".trans")] {
            for (space, address) in [(".shared", "%w3"), (".shared::cta", "%w3"), ("", "%generic")]
            {
                let instruction = format!(
                    ".reg .b64 %generic; mov.b64 %generic, {{%w3, 0}};
                     cvta.shared.u64 %generic, %generic;
                     ldmatrix.sync.aligned.m8n8.x{count}{infix}{space}.b16 {}, [{address}+16];",
                    list("d", count)
                );
                let text = tile_kernel(&instruction);
                let run = run(&text, &tile_image(), &accumulators, &[], 32, Checks::On, 0);
                let run = run.unwrap_or_else(|report| panic!("{instruction}: {report}"));
                for (lane, words) in run.results.iter().enumerate() {
                    for (tile, word) in words[..4].iter().enumerate() {
                        let loaded = tile_word(tile, lane, transposed);
                        let wanted = if tile < count { loaded } else { 0xDEAD };
                        assert_eq!(*word, wanted, "{instruction} lane {lane} tile {tile}");
                    }
                }
            }
        }
    }
}

#[test]
fn tiles_are_stored_and_transposed() {
    for (transposed, infix) in [(false, ""), (true, ".trans")] {
        let accumulators: Vec<Vec<u32>> = (0..32)
            .map(|lane| (0..4).map(|tile| tile_word(tile, lane, transposed)).collect())
            .collect();
        for count in [1, 2, 4] {
            let instruction = format!(
                "stmatrix.sync.aligned.m8n8.x{count}{infix}.shared.b16 [%w3+16], {};
                 bar.sync 0;
                 ld.shared.v4.b32 {{%d0, %d1, %d2, %d3}}, [%w3+16];",
                list("d", count)
            );
            let text = tile_kernel(&instruction);
            let before = vec![0xEE; 32 * 256];
            let run = run(&text, &before, &accumulators, &[], 32, Checks::On, 0).unwrap();
            for (lane, words) in run.results.iter().enumerate() {
                for (at, word) in words[..4].iter().enumerate() {
                    let [low, high] = [0, 1].map(|half| tile_element(lane, at * 2 + half));
                    let stored = u32::from(low) | u32::from(high) << 16;
                    let wanted = if lane < 8 * count { stored } else { 0xEEEE_EEEE };
                    assert_eq!(*word, wanted, "{instruction} lane {lane} word {at}");
                }
            }
        }
    }
    let accumulators: Vec<_> = (0..32).map(|lane| vec![tile_word(0, lane, false)]).collect();
    let text = tile_kernel("movmatrix.sync.aligned.m8n8.trans.b16 %d1, %d0;");
    let run = run(&text, &[], &accumulators, &[], 32, Checks::On, 0).unwrap();
    for (lane, words) in run.results.iter().enumerate() {
        assert_eq!(words[1], tile_word(0, lane, true), "lane {lane}");
    }
}

#[test]
fn wrong_tiles_are_reported() {
    let load = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%d0}, ";
    type Wanted = fn(&ReportKind) -> bool;
    let cases: [(&str, Wanted); 4] = [
        ("[%w3+8];", |kind| matches!(kind, ReportKind::Misaligned { alignment: 16, .. })),
        ("[%w3+1048576];", |kind| matches!(kind, ReportKind::OutOfBounds { .. })),
        ("[%w3+65536];", |kind| matches!(kind, ReportKind::Uninitialised { .. })),
        ("[%w3];", |kind| matches!(kind, ReportKind::Race { .. })),
    ];
    for (address, wanted) in cases {
        // Without a barrier other lanes' stores are not ordered before the load.
        let store = "st.shared.b32 [131056], 1;\n";
        let before = if address == "[%w3];" { "st.shared.b32 [65540], 1;" } else { store };
        let text = tile_kernel(&format!("{before}\n{load}{address}"));
        let kind = run(&text, &tile_image(), &[], &[], 32, Checks::On, 0).err();
        assert!(kind.as_ref().is_some_and(wanted), "{address}: {kind:?}");
    }
    let half = tile_kernel(&format!("{load}[%w3];"));
    let kind = run(&half, &tile_image(), &[], &[], 16, Checks::On, 0).err();
    assert!(matches!(kind, Some(ReportKind::Synchronisation(_))), "{kind:?}");
}

#[test]
fn wrong_forms_are_refused() {
    let good = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32";
    assert!(load(&kernel(good, [4, 4, 2])).is_ok());
    assert!(load(&kernel(good, [4, 2, 2])).is_err());
    for (from, to, why) in [
        ("m16n8k16", "m16n8k32", "m16n8k32 F32.Bf16.Bf16: these types take m16n8k8 and m16n8k16"),
        (".row.col", ".col.row", "only A by rows with B by columns"),
        (".row.col", ".row.row", "only A by rows with B by columns"),
        (".aligned", "", "`.sync.aligned` is missing"),
        (
            "bf16.bf16.f32",
            "bf16.bf16.f16",
            "C must have the type of D, which is `.f32`, not `.f16`",
        ),
        (".bf16.bf16", ".bf16.f16", "F32.Bf16.F16: sums of f32 take bf16, f16 or tf32 for both"),
        (".row.col", ".row.col.satfinite", ".satfinite is for sums of s32"),
        (".row.col", ".row.col.rn", "`.rn` is for sums of `.f64`, not of `.f32`"),
        ("bf16.bf16.f32", "s4.bf16.f32", "A of `.s4` and B of `.bf16` with sums of `.f32`: `.s4`"),
        (
            "f32.bf16.bf16.f32",
            "s32.s4.s8.s32",
            "A of `.s4` and B of `.s8` with sums of `.s32`: `.s4`",
        ),
        (
            "m16n8k16.row.col.f32.bf16.bf16.f32",
            "m8n8k16.row.col.s32.s8.f16.s32",
            "m8n8k16 takes `.s8` and `.u8`, not `.f16`",
        ),
        (
            "f32.bf16.bf16.f32",
            "s32.s4.u4.s32",
            "S4 and U4: S4 takes m8n8k32, m16n8k32 and m16n8k64",
        ),
        (
            "m16n8k16.row.col.f32.bf16.bf16.f32",
            "m16n8k32.row.col.f64.f64.f64.f64",
            "m16n8k32 of `.f64`; m8n8k4, m16n8k4, m16n8k8 and m16n8k16 are possible",
        ),
        ("f32.bf16.bf16.f32", "f64.f32.f64.f64", "not of `.f32` and `.f64`"),
    ] {
        let wrong = good.replace(from, to);
        assert_ne!(wrong, good);
        let error = load(&kernel(&wrong, [4, 4, 2])).expect_err(to).to_string();
        assert!(error.contains(why), "{to}: {error}");
    }
    let tile = "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%d0, %d1}, [%w3];";
    assert!(load(&tile_kernel(tile)).is_ok());
    for (from, to) in
        [("x2", "x1"), ("x2", "x3"), ("m8n8", "m8n16"), ("shared", "global"), ("b16", "b8")]
    {
        assert!(load(&tile_kernel(&tile.replace(from, to))).is_err(), "{to}");
    }
}
