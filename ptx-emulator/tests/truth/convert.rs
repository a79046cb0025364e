//! Conversions.

use crate::cases::{Case, Column, Compare, Out, lanes, lanes_with};
use crate::numbers::{Format, Random, floats, integers, packed};

const INTEGERS: [(&str, u32); 8] = [
    ("u8", 8),
    ("s8", 8),
    ("u16", 16),
    ("s16", 16),
    ("u32", 32),
    ("s32", 32),
    ("u64", 64),
    ("s64", 64),
];

const FLOATS: [(&str, Format); 4] =
    [("f16", Format::F16), ("bf16", Format::Bf16), ("f32", Format::F32), ("f64", Format::F64)];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    between_integers(&mut cases);
    with_integers(&mut cases);
    between_floats(&mut cases);
    small_floats(&mut cases);
    packs(&mut cases);
    cases
}

/// Bits of the register that holds a type; 8-bit types are tried in registers of 32.
fn register(bits: u32) -> u32 {
    if bits == 8 { 32 } else { bits }
}

fn convert(cases: &mut Vec<Case>, form: &str, columns: &[Column], bits: u32, compare: Compare) {
    let sources = ["%a", "%a, %b", "%a, %b, %c"][columns.len() - 1];
    let body = format!("{form} %x, {sources};");
    let name = format!("convert/{form}");
    cases.push(lanes_with(&name, columns, &[Out::of(bits)], &body, "", compare));
}

fn between_integers(cases: &mut Vec<Case>) {
    for (from, from_bits) in INTEGERS {
        for (to, to_bits) in INTEGERS {
            let form = format!("cvt.{to}.{from}");
            let columns = integers(&form, register(from_bits), 1, 64);
            convert(cases, &form, &columns, register(to_bits), Compare::Bits);
            // The assembler takes `.sat` only where values can leave the range of the result.
            let wider = to_bits > from_bits || (to_bits == from_bits && to == from);
            let signs = from.starts_with('s') && to.starts_with('u');
            if wider && !signs {
                continue;
            }
            let form = format!("cvt.sat.{to}.{from}");
            let columns = near_limits(&form, register(from_bits), to_bits.min(from_bits));
            convert(cases, &form, &columns, register(to_bits), Compare::Bits);
        }
    }
    // A source register may be wider than the type, and the result's wider than its own.
    let mut wider = |form: &str, from: u32, to: u32| {
        let columns = integers(form, from, 1, 64);
        let name = format!("convert/{form} with b{from} to b{to}");
        cases.push(lanes(&name, &columns, &[Out::of(to)], &format!("{form} %x, %a;")));
    };
    wider("cvt.s32.s16", 32, 64);
    wider("cvt.u16.u32", 64, 32);
    wider("cvt.s16.s8", 64, 64);
    wider("cvt.u8.u8", 16, 16);
}

/// Integers around the limits of a type of `limit` bits.
fn near_limits(name: &str, bits: u32, limit: u32) -> Vec<Column> {
    let mut columns = integers(name, bits, 1, 64);
    let mut random = Random::of(&format!("{name} limits"));
    for value in columns[0].values.iter_mut().skip(32) {
        let power = 1_u64 << (limit - 1 - random.below(2) as u32);
        let near = power.wrapping_add(random.next() % 5).wrapping_sub(2);
        let near = if random.below(2) == 0 { near } else { near.wrapping_neg() };
        *value = near & (u64::MAX >> (64 - bits));
    }
    columns
}

fn with_integers(cases: &mut Vec<Case>) {
    for (integer, bits) in INTEGERS {
        for (float, format) in FLOATS {
            if bits == 8 && format == Format::Bf16 {
                continue;
            }
            for rounding in ["rn", "rz", "rm", "rp"] {
                let form = format!("cvt.{rounding}.{float}.{integer}");
                let columns = integers(&form, register(bits), 1, 64);
                let result = format.bytes() as u32 * 8;
                convert(cases, &form, &columns, result, Compare::Exact(format));
            }
            for rounding in ["rni", "rzi", "rmi", "rpi"] {
                let form = format!("cvt.{rounding}.{integer}.{float}");
                let columns = around_integers(&form, format, bits);
                convert(cases, &form, &columns, register(bits), Compare::Bits);
            }
        }
        let form = format!("cvt.rzi.ftz.{integer}.f32");
        let columns = around_integers(&form, Format::F32, bits);
        convert(cases, &form, &columns, register(bits), Compare::Bits);
    }
    for form in ["cvt.rzi.sat.s32.f32", "cvt.rpi.ftz.s32.f32", "cvt.rn.sat.f32.s32"] {
        let columns = if form.ends_with("f32") {
            around_integers(form, Format::F32, 32)
        } else {
            integers(form, 32, 1, 64)
        };
        convert(cases, form, &columns, 32, Compare::Bits);
    }
}

/// Floats around the limits of an integer type, halves, and special values.
fn around_integers(name: &str, format: Format, bits: u32) -> Vec<Column> {
    let mut columns = floats(name, format, 1, 96);
    let mut random = Random::of(&format!("{name} integers"));
    for value in columns[0].values.iter_mut().skip(format.specials().len()) {
        let sign = if random.below(2) == 0 { 1.0 } else { -1.0 };
        let power = 2f64.powi(bits as i32 - random.below(2) as i32);
        let number = match random.below(4) {
            0 => random.below(200) as f64 + 0.5,
            1 => random.below(600) as f64 / 4.0,
            2 => power + (random.below(9) as f64 - 4.0) * (power * 2f64.powi(-52)).max(0.25),
            _ => random.unit() * power,
        };
        *value = format.pattern(number * sign);
    }
    columns
}

fn between_floats(cases: &mut Vec<Case>) {
    for (of, format) in FLOATS {
        if format == Format::Bf16 {
            continue;
        }
        for rounding in ["rni", "rzi", "rmi", "rpi"] {
            let form = format!("cvt.{rounding}.{of}.{of}");
            let columns = around_integers(&form, format, 16);
            convert(cases, &form, &columns, format.bytes() as u32 * 8, Compare::Exact(format));
        }
    }
    for (to, to_format) in FLOATS {
        for (from, from_format) in FLOATS {
            let narrower = to_format.mantissa() < from_format.mantissa();
            let bits = to_format.bytes() as u32 * 8;
            if to == from {
                let form = format!("cvt.sat.{to}.{to}");
                if to != "bf16" {
                    let columns = floats(&form, to_format, 1, 64);
                    convert(cases, &form, &columns, bits, Compare::Exact(to_format));
                }
                continue;
            }
            let roundings: &[&str] = if narrower || (to == "f16" && from == "bf16") {
                &["rn.", "rz.", "rm.", "rp."]
            } else {
                &[""]
            };
            for rounding in roundings {
                let form = format!("cvt.{rounding}{to}.{from}");
                let columns = narrowed(&form, from_format, to_format);
                convert(cases, &form, &columns, bits, Compare::Exact(to_format));
            }
        }
    }
    for (form, from, to) in [
        ("cvt.rn.ftz.f32.f64", Format::F64, Format::F32),
        ("cvt.rn.sat.f32.f64", Format::F64, Format::F32),
        ("cvt.ftz.f64.f32", Format::F32, Format::F64),
        ("cvt.ftz.f32.f32", Format::F32, Format::F32),
        ("cvt.rzi.ftz.f32.f32", Format::F32, Format::F32),
        ("cvt.rni.sat.f32.f32", Format::F32, Format::F32),
        ("cvt.ftz.f32.f16", Format::F16, Format::F32),
        ("cvt.rn.ftz.f16.f32", Format::F32, Format::F16),
        ("cvt.rn.sat.f16.f32", Format::F32, Format::F16),
        ("cvt.rn.relu.f16.f32", Format::F32, Format::F16),
        ("cvt.rn.relu.bf16.f32", Format::F32, Format::Bf16),
        ("cvt.rz.relu.bf16.f32", Format::F32, Format::Bf16),
        ("cvt.rna.tf32.f32", Format::F32, Format::F32),
        ("cvt.rn.tf32.f32", Format::F32, Format::F32),
        ("cvt.rz.tf32.f32", Format::F32, Format::F32),
        ("cvt.rn.relu.tf32.f32", Format::F32, Format::F32),
        ("cvt.rz.relu.tf32.f32", Format::F32, Format::F32),
    ] {
        let columns = narrowed(form, from, if form.contains("tf32") { Format::F16 } else { to });
        convert(cases, form, &columns, to.bytes() as u32 * 8, Compare::Exact(to));
    }
}

/// Special values, values halfway between two of the narrower format and next to them, and values
/// about its largest and its smallest numbers.
fn narrowed(name: &str, from: Format, to: Format) -> Vec<Column> {
    let mut columns = floats(name, from, 1, 96);
    let mut random = Random::of(&format!("{name} halfway"));
    let extra = from.mantissa().saturating_sub(to.mantissa());
    for value in columns[0].values.iter_mut().skip(from.specials().len()) {
        let power = match random.below(3) {
            0 => -to.bias() - random.below(to.mantissa() as usize + 3) as i32,
            1 => to.bias() + random.below(2) as i32,
            _ => random.below(9) as i32 - 4,
        };
        let power = power.clamp(1 - from.bias(), from.bias());
        let mut bits = from.pattern(2f64.powi(power) * (1.0 + random.unit().abs()));
        if extra > 1 && random.below(3) != 0 {
            let half = 1_u64 << (extra - 1);
            bits = (bits & !(half * 2 - 1)) + half + random.below(3) as u64 - 1;
        }
        *value = bits | ((random.below(2) as u64) << (from.bytes() * 8 - 1));
    }
    columns
}

fn small_floats(cases: &mut Vec<Case>) {
    for (to, format) in [
        ("f16x2", Format::F16),
        ("bf16x2", Format::Bf16),
        ("e4m3x2", Format::E4m3),
        ("e5m2x2", Format::E5m2),
    ] {
        let forms: &[&str] = match to {
            "f16x2" | "bf16x2" => &["rn", "rz", "rn.relu", "rz.relu"],
            _ => &["rn.satfinite", "rn.satfinite.relu"],
        };
        for modifiers in forms {
            let form = format!("cvt.{modifiers}.{to}.f32");
            let mut columns = narrowed(&form, Format::F32, format);
            columns.extend(narrowed(&format!("{form} low"), Format::F32, format));
            let bits = format.bytes() as u32 * 16;
            convert(cases, &form, &columns, bits, Compare::Exact(format));
        }
    }
    for eighth in ["e4m3", "e5m2"] {
        let format = if eighth == "e4m3" { Format::E4m3 } else { Format::E5m2 };
        for relu in ["", ".relu"] {
            let form = format!("cvt.rn.satfinite{relu}.{eighth}x2.f16x2");
            let (low, high) = (
                narrowed(&form, Format::F16, format).remove(0),
                narrowed(&format!("{form} high"), Format::F16, format).remove(0),
            );
            let values = low.values.iter().zip(&high.values).map(|(low, high)| high << 16 | low);
            let columns = [Column::new(4, values.collect())];
            convert(cases, &form, &columns, 16, Compare::Exact(format));
            // All patterns, two at a time.
            let form = format!("cvt.rn{relu}.f16x2.{eighth}x2");
            let patterns = (0..128).map(|pattern| pattern << 8 | (pattern + 128)).collect();
            let columns = [Column::new(2, patterns)];
            convert(cases, &form, &columns, 32, Compare::Exact(Format::F16));
        }
    }
    let columns = packed("cvt f16x2", Format::F16, 1, 64);
    let body = "mov.b32 {%h1, %h2}, %a;\n    cvt.f32.f16 %x, %h1;\n    cvt.f32.f16 %y, %h2;";
    let results = [Out::B32("x"), Out::B32("y")];
    let compare = Compare::Exact(Format::F32);
    let name = "convert/f16x2 to two f32";
    cases.push(lanes_with(name, &columns, &results, body, "", compare));
}

fn packs(cases: &mut Vec<Case>) {
    for of in ["u16", "s16"] {
        let form = format!("cvt.pack.sat.{of}.s32");
        let mut columns = near_limits(&form, 32, 16);
        columns.extend(near_limits(&format!("{form} low"), 32, 16));
        convert(cases, &form, &columns, 32, Compare::Bits);
    }
    for (of, limit) in [("u8", 8), ("s8", 8), ("u4", 4), ("s4", 4), ("u2", 2), ("s2", 2)] {
        let form = format!("cvt.pack.sat.{of}.s32.b32");
        let mut columns = near_limits(&form, 32, limit);
        columns.extend(near_limits(&format!("{form} low"), 32, limit));
        columns.extend(integers(&form, 32, 1, 64));
        convert(cases, &form, &columns, 32, Compare::Bits);
    }
}
