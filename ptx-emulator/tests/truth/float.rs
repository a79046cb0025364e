//! Floating-point arithmetic.

use crate::cases::{Case, Column, Compare, Out, lanes_with};
use crate::numbers::{Format, floats, packed};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    rounded(&mut cases);
    half(&mut cases);
    signs(&mut cases);
    flushes(&mut cases);
    outside(&mut cases);
    approximate(&mut cases);
    cases
}

/// A form whose operands and result are of one format, or pairs of it.
fn form(cases: &mut Vec<Case>, form: &str, format: Format, operands: usize, compare: Compare) {
    let pairs = form.ends_with("x2");
    let columns =
        if pairs { packed(form, format, operands, 64) } else { floats(form, format, operands, 64) };
    let text = ["%a", "%a, %b", "%a, %b, %c"][operands - 1];
    let bits = if pairs { 32 } else { format.bytes() as u32 * 8 };
    let body = format!("{form} %x, {text};");
    let name = format!("float/{form}");
    cases.push(lanes_with(&name, &columns, &[Out::of(bits)], &body, "", compare));
}

fn exact(cases: &mut Vec<Case>, name: &str, format: Format, operands: usize) {
    form(cases, name, format, operands, Compare::Exact(format));
}

fn rounded(cases: &mut Vec<Case>) {
    for rounding in ["rn", "rz", "rm", "rp"] {
        for (operation, operands) in
            [("add", 2), ("sub", 2), ("mul", 2), ("fma", 3), ("div", 2), ("rcp", 1), ("sqrt", 1)]
        {
            exact(cases, &format!("{operation}.{rounding}.f64"), Format::F64, operands);
            exact(cases, &format!("{operation}.{rounding}.f32"), Format::F32, operands);
            exact(cases, &format!("{operation}.{rounding}.ftz.f32"), Format::F32, operands);
            if ["add", "sub", "mul", "fma"].contains(&operation) {
                exact(cases, &format!("{operation}.{rounding}.sat.f32"), Format::F32, operands);
            }
        }
    }
    for (operation, operands) in [("add", 2), ("sub", 2), ("mul", 2)] {
        exact(cases, &format!("{operation}.f32"), Format::F32, operands);
        exact(cases, &format!("{operation}.f64"), Format::F64, operands);
        exact(cases, &format!("{operation}.rn.ftz.sat.f32"), Format::F32, operands);
    }
    exact(cases, "fma.rn.ftz.sat.f32", Format::F32, 3);
    exact(cases, "mad.rn.f32", Format::F32, 3);
    exact(cases, "mad.rz.f64", Format::F64, 3);
}

fn half(cases: &mut Vec<Case>) {
    for of in ["f16", "f16x2"] {
        for operation in ["add", "sub", "mul"] {
            for modifier in ["rn", "rn.ftz", "rn.sat", "rn.ftz.sat"] {
                exact(cases, &format!("{operation}.{modifier}.{of}"), Format::F16, 2);
            }
            exact(cases, &format!("{operation}.{of}"), Format::F16, 2);
        }
        for modifier in ["rn", "rn.ftz", "rn.sat", "rn.ftz.sat", "rn.relu", "rn.ftz.relu"] {
            exact(cases, &format!("fma.{modifier}.{of}"), Format::F16, 3);
        }
    }
    for of in ["bf16", "bf16x2"] {
        for operation in ["add.rn", "sub.rn", "mul.rn", "add", "sub", "mul"] {
            exact(cases, &format!("{operation}.{of}"), Format::Bf16, 2);
        }
        exact(cases, &format!("fma.rn.{of}"), Format::Bf16, 3);
        exact(cases, &format!("fma.rn.relu.{of}"), Format::Bf16, 3);
    }
}

fn signs(cases: &mut Vec<Case>) {
    for (of, format) in [
        ("f16", Format::F16),
        ("f16x2", Format::F16),
        ("bf16", Format::Bf16),
        ("bf16x2", Format::Bf16),
        ("f32", Format::F32),
        ("f64", Format::F64),
    ] {
        exact(cases, &format!("neg.{of}"), format, 1);
        exact(cases, &format!("abs.{of}"), format, 1);
        for operation in ["min", "max"] {
            exact(cases, &format!("{operation}.{of}"), format, 2);
            if format == Format::F64 {
                continue;
            }
            exact(cases, &format!("{operation}.NaN.{of}"), format, 2);
            exact(cases, &format!("{operation}.xorsign.abs.{of}"), format, 2);
            exact(cases, &format!("{operation}.NaN.xorsign.abs.{of}"), format, 2);
            if format != Format::Bf16 {
                exact(cases, &format!("{operation}.ftz.{of}"), format, 2);
                exact(cases, &format!("{operation}.ftz.NaN.xorsign.abs.{of}"), format, 2);
            }
        }
    }
    for form in ["neg.ftz", "abs.ftz"] {
        for of in ["f16", "f16x2"] {
            exact(cases, &format!("{form}.{of}"), Format::F16, 1);
        }
        exact(cases, &format!("{form}.f32"), Format::F32, 1);
    }
    form(cases, "copysign.f32", Format::F32, 2, Compare::Bits);
    form(cases, "copysign.f64", Format::F64, 2, Compare::Bits);
    for test in ["finite", "infinite", "number", "notanumber", "normal", "subnormal"] {
        for (of, format) in [("f32", Format::F32), ("f64", Format::F64)] {
            let name = format!("testp.{test}.{of}");
            let columns = floats(&name, format, 1, 64);
            let body = format!("{name} %p, %a;");
            let results = [Out::Pred("p")];
            cases.push(lanes_with(
                &format!("float/{name}"),
                &columns,
                &results,
                &body,
                "",
                Compare::Bits,
            ));
        }
    }
}

/// Results around the smallest normal number: whether one is subnormal can be asked before or after
/// rounding, and after rounding with or without the limit of the exponent.
fn flushes(cases: &mut Vec<Case>) {
    // One, and one more or less by 2^-23, 2^-24, 2^-13, 2^-12 and 2^-2.
    let near_one =
        [0x3F80_0000, 0x3F7F_FFFF, 0x3F80_0001, 0x3F7F_F800, 0x3F80_0400, 0x3F7F_F000, 0x3F40_0000];
    // The same around 2^-126, and their doubles; a factor of one of these makes all kinds.
    let near_least = [
        0x0080_0000,
        0x0080_0001,
        0x0080_0400,
        0x0080_0800,
        0x00C0_0000,
        0x0100_0000,
        0x00FF_FFFF,
        0x00FF_F800,
    ];
    let pairs: Vec<(u64, u64)> = near_one
        .iter()
        .flat_map(|&one| near_least.iter().map(move |&least| (one, least)))
        .flat_map(|(one, least)| [(one, least), (one | 1 << 31, least)])
        .chain([(0x3F80_0000, 0x0080_0000); 16])
        .collect();
    let column = |values: Vec<u64>| Column::new(4, values);
    let firsts = || column(pairs.iter().map(|pair| pair.0).collect());
    let seconds = || column(pairs.iter().map(|pair| pair.1).collect());
    for rounding in ["rn", "rz", "rm", "rp"] {
        for (operation, columns) in [
            ("mul", vec![firsts(), seconds()]),
            ("fma", vec![firsts(), seconds(), column(vec![0; pairs.len()])]),
            ("div", vec![seconds(), firsts()]),
        ] {
            let form = format!("{operation}.{rounding}.ftz.f32");
            let operands = ["%a, %b", "%a, %b, %c"][columns.len() - 2];
            cases.push(lanes_with(
                &format!("float/{form} around the smallest normal number"),
                &columns,
                &[Out::B32("x")],
                &format!("{form} %x, {operands};"),
                "",
                Compare::Exact(Format::F32),
            ));
        }
        if rounding == "rn" {
            half_flushes(cases);
        }
        let single = |bits: u64| f64::from(f32::from_bits(bits as u32));
        let products = pairs.iter().map(|&(a, b)| (single(a) * single(b)).to_bits()).collect();
        let form = format!("cvt.{rounding}.ftz.f32.f64");
        cases.push(lanes_with(
            &format!("float/{form} around the smallest normal number"),
            &[Column::new(8, products)],
            &[Out::B32("x")],
            &format!("{form} %x, %a;"),
            "",
            Compare::Exact(Format::F32),
        ));
    }
}

/// The same for half precision: one, and one more or less by 2^-10, 2^-11 and 2^-6.
fn half_flushes(cases: &mut Vec<Case>) {
    let near_one = [0x3C00, 0x3C01, 0x3BFF, 0x3BE0, 0x3C10, 0xBC00, 0xBBFF, 0xBBE0];
    let near_least = [0x0400, 0x0401, 0x0410, 0x0420, 0x0600, 0x0800, 0x07FF, 0x07E0];
    let pairs = || near_one.iter().flat_map(|one| near_least.iter().map(move |least| (one, least)));
    let column = |values: Vec<u64>| Column::new(2, values);
    let firsts = || column(pairs().map(|pair| *pair.0).collect());
    let seconds = || column(pairs().map(|pair| *pair.1).collect());
    for (form, columns) in [
        ("mul.rn.ftz.f16", vec![firsts(), seconds()]),
        ("fma.rn.ftz.f16", vec![firsts(), seconds(), column(vec![0; 64])]),
    ] {
        let operands = ["%a, %b", "%a, %b, %c"][columns.len() - 2];
        cases.push(lanes_with(
            &format!("float/{form} around the smallest normal number"),
            &columns,
            &[Out::B16("x")],
            &format!("{form} %x, {operands};"),
            "",
            Compare::Exact(Format::F16),
        ));
    }
}

/// Products that treat one NaN as what lies outside of a tensor: that NaN, others, infinity and
/// numbers in all three places.
fn outside(cases: &mut Vec<Case>) {
    for (of, modifiers, operands) in [
        (
            "f16",
            ["rn.oob", "rn.oob.relu"],
            [0x3C00, 0x7FF7, 0x7FFF, 0xFFF7, 0x7E00, 0x7C00, 0xC000, 1],
        ),
        (
            "bf16",
            ["rn.oob", "rn.oob.relu"],
            [0x3F80, 0x7FF7, 0x7FFF, 0xFFF7, 0x7FC0, 0x7F80, 0xC000, 1],
        ),
    ] {
        let column = |place: fn(usize) -> usize| {
            Column::new(2, (0..64).map(|row| operands[place(row) % 8]).collect())
        };
        let columns =
            [column(|row| row), column(|row| row / 8), column(|row| 5 * row + row / 8 + 3)];
        let format = if of == "f16" { Format::F16 } else { Format::Bf16 };
        for modifier in modifiers {
            let form = format!("fma.{modifier}.{of}");
            cases.push(lanes_with(
                &format!("float/{form}"),
                &columns,
                &[Out::B16("x")],
                &format!("{form} %x, %a, %b, %c;"),
                "",
                Compare::Exact(format),
            ));
        }
    }
}

/// The bounds are those of the PTX manual's sections on each instruction, plus half a unit in the
/// last place for the rounding of an emulated result.
fn approximate(cases: &mut Vec<Case>) {
    let ulp = |ulps: f64| ulps * 2f64.powi(-23);
    let near = |format, relative, absolute| Compare::Near { format, relative, absolute };
    // With `.ftz` results below the smallest normal number may be zero on either side.
    let flushed = 2f64.powi(-126);
    let f32s: [(&str, usize, f64, f64); 8] = [
        ("rcp.approx", 1, ulp(1.5), 0.0),
        ("sqrt.approx", 1, 2f64.powi(-23) + ulp(0.5), 0.0),
        ("rsqrt.approx", 1, 2f64.powf(-22.9) + ulp(0.5), 0.0),
        ("ex2.approx", 1, ulp(2.5), 0.0),
        ("lg2.approx", 1, 2f64.powf(-22.0), 2f64.powf(-22.0)),
        ("div.full", 2, ulp(2.5), 0.0),
        ("div.approx", 2, ulp(2.5), 0.0),
        ("tanh.approx", 1, 2f64.powf(-10.9), 0.0),
    ];
    for (name, operands, relative, absolute) in f32s {
        let plain = format!("{name}.f32");
        // One unit of a subnormal result may be lost in rounding, too.
        let compare = near(Format::F32, relative, absolute + 2f64.powi(-149));
        form(cases, &plain, Format::F32, operands, compare);
        if name != "tanh.approx" {
            let compare = near(Format::F32, relative, absolute + flushed);
            form(cases, &format!("{name}.ftz.f32"), Format::F32, operands, compare);
        }
    }
    // The bound holds between -2π and 2π only, where all random values of the generator but few
    // lie.
    for name in ["sin.approx.f32", "cos.approx.f32", "sin.approx.ftz.f32", "cos.approx.ftz.f32"] {
        let mut columns = floats(name, Format::F32, 1, 64);
        for value in &mut columns[0].values {
            let number = f32::from_bits(*value as u32);
            if number.is_finite() && number.abs() > 6.25 {
                *value = u64::from((number % 6.25).to_bits());
            }
        }
        let compare = near(Format::F32, 0.0, 2f64.powf(-20.4));
        cases.push(lanes_with(
            &format!("float/{name}"),
            &columns,
            &[Out::B32("x")],
            &format!("{name} %x, %a;"),
            "",
            compare,
        ));
    }
    // The manual: the low 32 bits of the result are zero, and the high ones are of 20 bits.
    for name in ["rcp.approx.ftz.f64", "rsqrt.approx.ftz.f64"] {
        form(cases, name, Format::F64, 1, near(Format::F64, 2f64.powi(-19), 2f64.powi(-1022)));
    }
    for (name, format, relative) in [
        ("ex2.approx.f16", Format::F16, 2f64.powf(-9.4)),
        ("ex2.approx.f16x2", Format::F16, 2f64.powf(-9.4)),
        ("ex2.approx.ftz.bf16", Format::Bf16, 2f64.powi(-6)),
        ("ex2.approx.ftz.bf16x2", Format::Bf16, 2f64.powi(-6)),
        ("tanh.approx.f16", Format::F16, 2f64.powi(-9)),
        ("tanh.approx.f16x2", Format::F16, 2f64.powi(-9)),
        ("tanh.approx.bf16", Format::Bf16, 2f64.powi(-6)),
        ("tanh.approx.bf16x2", Format::Bf16, 2f64.powi(-6)),
    ] {
        let absolute = if format == Format::F16 { 2f64.powi(-24) } else { flushed };
        form(cases, name, format, 1, near(format, relative, absolute));
    }
}
