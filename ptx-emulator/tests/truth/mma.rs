//! `mma.sync`: small whole numbers, whose sums are exact, and random numbers within a bound.

use crate::cases::{Case, Compare, Text, case, random_bytes};
use crate::numbers::{Format, Random};

/// How the elements of A, B, C and D are stored.
#[derive(Clone, Copy, PartialEq)]
pub enum Element {
    Float(Format),
    Tf32,
    Int8 { signed: bool },
    Bits,
}

impl Element {
    /// Whether the sums of products may have 14 bits only.
    pub fn is_short(self) -> bool {
        matches!(self, Self::Float(Format::E4m3 | Format::E5m2))
    }

    /// `count` elements, and the largest magnitude among them.
    pub fn fill(self, random: &mut Random, count: usize, whole: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..count {
            // Whole numbers of -2 to 2, all of which every format holds exactly.
            let value = if whole { random.below(5) as f64 - 2.0 } else { random.unit() };
            match self {
                Self::Float(format) => {
                    let bits = match format {
                        // Every pattern but NaN and the infinities, of magnitudes below 2.
                        Format::E4m3 | Format::E5m2 if !whole => {
                            let one = (format.bias() as u64) << format.mantissa();
                            (random.next() & 0x80) | (random.next() % (one + 4))
                        }
                        _ => format.pattern(value),
                    };
                    bytes.extend(&bits.to_le_bytes()[..format.bytes()]);
                }
                Self::Tf32 => bytes.extend((value as f32).to_le_bytes()),
                Self::Int8 { signed: true } if whole => bytes.push(value as i8 as u8),
                Self::Int8 { .. } if whole => bytes.push(random.below(4) as u8),
                Self::Int8 { .. } | Self::Bits => bytes.push(random.next() as u8),
            }
        }
        bytes
    }
}

/// The name of the type in PTX, how it is stored, and the length of K that 32 bytes hold.
pub const BF16: (&str, Element) = ("bf16", Element::Float(Format::Bf16));
pub const F16: (&str, Element) = ("f16", Element::Float(Format::F16));
pub const TF32: (&str, Element) = ("tf32", Element::Tf32);
pub const E4M3: (&str, Element) = ("e4m3", Element::Float(Format::E4m3));
pub const E5M2: (&str, Element) = ("e5m2", Element::Float(Format::E5m2));
pub const S8: (&str, Element) = ("s8", Element::Int8 { signed: true });
pub const U8: (&str, Element) = ("u8", Element::Int8 { signed: false });

/// The comparison of a product: bits for whole numbers and integers, otherwise a part of the
/// largest partial sum that inputs of magnitudes up to one (two for FP8) have.
pub fn bound(kind: Element, result: Option<Format>, k: usize, whole: bool) -> Compare {
    let Some(format) = result else {
        return Compare::Bits;
    };
    if whole {
        return Compare::Bits;
    }
    // The standard deviation of a sum of k products of two uniform numbers is a third of the root
    // of k, and the sum starts with a number of at most one. FP8 numbers are smaller.
    let largest = 1.0 + (k as f64).sqrt() / 3.0;
    let part = 2f64.powi(if kind.is_short() { -13 } else { -22 });
    match format {
        // Rounding to the result's format may go the other way.
        Format::F16 => Compare::Near { format, relative: 2f64.powi(-10), absolute: largest * part },
        _ => Compare::Near { format, relative: 0.0, absolute: largest * part },
    }
}

struct Form {
    text: String,
    /// Registers of 32 bits (64 for f64) of A, B, and of C and D each.
    registers: [usize; 3],
    /// Stored as 64 bits.
    wide: bool,
    a: Element,
    b: Element,
    result: Option<Format>,
    k: usize,
}

pub fn cases() -> Vec<Case> {
    let mut forms = Vec::new();
    let mut push = |shape: &str, types: [&str; 4], registers, a, b, result, k| {
        let [d, a_name, b_name, c] = types;
        let text = format!("mma.sync.aligned.{shape}.row.col.{d}.{a_name}.{b_name}.{c}");
        forms.push(Form { text, registers, wide: d == "f64", a, b, result, k });
    };
    let (f16, f32) = (Some(Format::F16), Some(Format::F32));
    let half = Element::Float(Format::F16);
    for (shape, a, b, k) in [("m16n8k16", 4, 2, 16), ("m16n8k8", 2, 1, 8)] {
        push(shape, ["f32", "f16", "f16", "f32"], [a, b, 4], half, half, f32, k);
        push(shape, ["f16", "f16", "f16", "f16"], [a, b, 2], half, half, f16, k);
        let bf16 = Element::Float(Format::Bf16);
        push(shape, ["f32", "bf16", "bf16", "f32"], [a, b, 4], bf16, bf16, f32, k);
    }
    for (shape, a, b, k) in [("m16n8k8", 4, 2, 8), ("m16n8k4", 2, 1, 4)] {
        let tf32 = Element::Tf32;
        push(shape, ["f32", "tf32", "tf32", "f32"], [a, b, 4], tf32, tf32, f32, k);
    }
    for a in [S8, U8] {
        for b in [S8, U8] {
            push("m16n8k32", ["s32", a.0, b.0, "s32"], [4, 2, 4], a.1, b.1, None, 32);
            push("m16n8k16", ["s32", a.0, b.0, "s32"], [2, 1, 4], a.1, b.1, None, 16);
            push("m8n8k16", ["s32", a.0, b.0, "s32"], [1, 1, 2], a.1, b.1, None, 16);
        }
    }
    for a in [E4M3, E5M2] {
        for b in [E4M3, E5M2] {
            push("m16n8k32", ["f32", a.0, b.0, "f32"], [4, 2, 4], a.1, b.1, f32, 32);
            push("m16n8k16", ["f32", a.0, b.0, "f32"], [2, 1, 4], a.1, b.1, f32, 16);
            push("m16n8k32", ["f16", a.0, b.0, "f16"], [4, 2, 2], a.1, b.1, f16, 32);
            push("m16n8k16", ["f16", a.0, b.0, "f16"], [2, 1, 2], a.1, b.1, f16, 16);
        }
    }
    let double = Element::Float(Format::F64);
    push("m8n8k4", ["f64"; 4], [1, 1, 2], double, double, Some(Format::F64), 4);
    push("m16n8k4", ["f64"; 4], [2, 1, 4], double, double, Some(Format::F64), 4);
    push("m16n8k8", ["f64"; 4], [4, 2, 4], double, double, Some(Format::F64), 8);
    push("m16n8k16", ["f64"; 4], [8, 4, 4], double, double, Some(Format::F64), 16);
    let mut cases = Vec::new();
    for form in forms {
        if form.result.is_some() {
            product(&mut cases, &form, "whole numbers", true, "");
        } else {
            product(&mut cases, &form, "saturated", false, ".satfinite");
        }
        product(&mut cases, &form, "random numbers", false, "");
    }
    bits(&mut cases);
    cases
}

fn product(cases: &mut Vec<Case>, form: &Form, inputs: &str, whole: bool, satfinite: &str) {
    let name = format!("mma/{}{satfinite} of {inputs}", form.text);
    let mut random = Random::of(&name);
    let [a, b, c] = form.registers;
    let word = if form.wide { 8 } else { 4 };
    let size = |kind: Element| match kind {
        Element::Float(format) => format.bytes(),
        Element::Tf32 => 4,
        _ => 1,
    };
    let mut input = form.a.fill(&mut random, 32 * a * word / size(form.a), whole);
    input.extend(form.b.fill(&mut random, 32 * b * word / size(form.b), whole));
    let sums = 32 * c * word;
    input.extend(match form.result {
        Some(format) => Element::Float(format).fill(&mut random, sums / format.bytes(), whole),
        // Half of the integer sums are so near the limits that products leave them.
        None => (0..sums / 4)
            .flat_map(|at| match at % 4 {
                0 => (i32::MAX - 100).to_le_bytes(),
                1 => (i32::MIN + 100).to_le_bytes(),
                _ => (random.next() as i32 >> 8).to_le_bytes(),
            })
            .collect(),
    });
    let text = form.text.replace(".s32.s8", &format!("{satfinite}.s32.s8"));
    let text = text.replace(".s32.u8", &format!("{satfinite}.s32.u8"));
    let compare = match (form.result, whole) {
        // Every step of a double-precision product is a fused multiply-add.
        (Some(Format::F64), _) => Compare::Near {
            format: Format::F64,
            relative: 0.0,
            absolute: form.k as f64 * 2f64.powi(-52),
        },
        // Only `wgmma` has the short sums of FP8.
        (result, _) => match (bound(form.a, result, form.k, whole), form.a.is_short()) {
            (Compare::Near { format, relative, absolute }, true) => {
                Compare::Near { format, relative, absolute: absolute * 2f64.powi(13 - 22) }
            }
            (bound, _) => bound,
        },
    };
    let mut case = raw(&name, &text, form.registers, word, input);
    case.compare = compare;
    cases.push(case);
}

/// Lane l reads register r of an operand at word 32 × r + l.
fn raw(name: &str, form: &str, [a, b, c]: [usize; 3], word: usize, input: Vec<u8>) -> Case {
    let bits = word * 8;
    let mut loads = String::new();
    let mut at = 0;
    for (letter, count) in [('a', a), ('b', b), ('c', c)] {
        loads += &format!("    .reg .b{bits} %{letter}<{count}>;\n");
        for register in 0..count {
            loads += &format!("    ld.global.b{bits} %{letter}{register}, [%d1+{at}];\n");
            at += 32 * word;
        }
    }
    let list = |letter: char, count: usize| {
        let names: Vec<_> = (0..count).map(|at| format!("%{letter}{at}")).collect();
        format!("{{{}}}", names.join(", "))
    };
    let stores: String = (0..c)
        .map(|at| format!("    st.global.b{bits} [%d2+{}], %d_{at};\n", at * 32 * word))
        .collect();
    let results = list('d', c).replace("%d", "%d_");
    let body = format!(
        "    .reg .b{bits} %d_<{c}>;
    mad.lo.u64 %d1, %wide, {word}, %input;
    mad.lo.u64 %d2, %wide, {word}, %output;
{loads}    {form} {results}, {}, {}, {};
{stores}",
        list('a', a),
        list('b', b),
        list('c', c)
    );
    let text = Text { body: &body, ..Text::default() };
    case(name, &text, input, 32 * c * word)
}

/// Single bits and 4-bit integers.
fn bits(cases: &mut Vec<Case>) {
    for (form, registers) in [
        ("mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc", [1, 1, 2]),
        ("mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.and.popc", [2, 1, 4]),
        ("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc", [4, 2, 4]),
        ("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc", [4, 2, 4]),
        ("mma.sync.aligned.m8n8k32.row.col.s32.s4.u4.s32", [1, 1, 2]),
        ("mma.sync.aligned.m16n8k32.row.col.s32.s4.s4.s32", [2, 1, 4]),
        ("mma.sync.aligned.m16n8k64.row.col.s32.u4.s4.s32", [4, 2, 4]),
        ("mma.sync.aligned.m16n8k64.row.col.satfinite.s32.u4.u4.s32", [4, 2, 4]),
    ] {
        let name = format!("mma/{form}");
        let input = random_bytes(&name, registers.iter().sum::<usize>() * 128);
        cases.push(raw(&name, form, registers, 4, input));
    }
}
