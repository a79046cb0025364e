//! Atomic operations: what each leaves and returns, and sums of many threads.

use crate::cases::{Case, Column, Compare, Out, Text, case, lanes_with};
use crate::numbers::{Format, floats, integers, packed};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for space in ["global", "shared"] {
        integer(&mut cases, space);
        float(&mut cases, space);
        swaps(&mut cases, space);
    }
    orders(&mut cases);
    contended(&mut cases);
    vectors(&mut cases);
    cases
}

/// Each thread has a cell of its own, which starts with `%a`; the results are what the operation
/// returned and what the cell holds afterwards.
fn own(
    cases: &mut Vec<Case>,
    form: &str,
    space: &str,
    bits: u32,
    columns: &[Column],
    compare: Compare,
) {
    let operands = ["%b", "%b, %c"][columns.len() - 2];
    let name = format!("atomics/{form}");
    let wide = bits == 128;
    assert!(!wide, "cells of 128 bits have cases of their own");
    // In global memory the cells are the second half of the output, which the results cover later.
    let address = match space {
        "shared" => format!("mov.u64 %d1, cells;\n    mad.lo.u64 %d1, %wide, {}, %d1;", bits / 8),
        _ => format!("mov.u64 %d1, pool;\n    mad.lo.u64 %d1, %wide, {}, %d1;", bits / 8),
    };
    let operation = if form.starts_with("red") {
        format!("mov.b{bits} %x, 0;\n    {form} [%d1], {operands};")
    } else {
        format!("{form} %x, [%d1], {operands};")
    };
    let body = format!(
        "{address}\n    st.{space}.b{bits} [%d1], %a;\n    {operation}\n    \
         ld.{space}.b{bits} %y, [%d1];"
    );
    let module = match space {
        "shared" => ".shared .align 16 .b8 cells[1024];",
        _ => ".global .align 16 .b8 pool[1024];",
    };
    let results = match bits {
        16 => [Out::B16("x"), Out::B16("y")],
        32 => [Out::B32("x"), Out::B32("y")],
        _ => [Out::B64("x"), Out::B64("y")],
    };
    cases.push(lanes_with(&name, columns, &results, &body, module, compare));
}

fn integer(cases: &mut Vec<Case>, space: &str) {
    for (operation, types) in [
        ("add", &["u32", "s32", "u64"][..]),
        ("min", &["u32", "s32", "u64", "s64"]),
        ("max", &["u32", "s32", "u64", "s64"]),
        ("and", &["b32", "b64"]),
        ("or", &["b32", "b64"]),
        ("xor", &["b32", "b64"]),
        ("inc", &["u32"]),
        ("dec", &["u32"]),
    ] {
        for of in types {
            let bits = if of.ends_with("64") { 64 } else { 32 };
            for opcode in ["atom", "red"] {
                let form = format!("{opcode}.{space}.{operation}.{of}");
                let columns = integers(&form, bits, 2, 64);
                own(cases, &form, space, bits, &columns, Compare::Bits);
            }
        }
    }
}

fn float(cases: &mut Vec<Case>, space: &str) {
    for opcode in ["atom", "red"] {
        for (of, format) in [("f32", Format::F32), ("f64", Format::F64)] {
            let form = format!("{opcode}.{space}.add.{of}");
            let columns = floats(&form, format, 2, 64);
            let bits = format.bytes() as u32 * 8;
            own(cases, &form, space, bits, &columns, Compare::Exact(format));
        }
        for (of, format) in [("f16", Format::F16), ("bf16", Format::Bf16)] {
            let form = format!("{opcode}.{space}.add.noftz.{of}");
            let columns = floats(&form, format, 2, 64);
            own(cases, &form, space, 16, &columns, Compare::Exact(format));
            let form = format!("{opcode}.{space}.add.noftz.{of}x2");
            let columns = packed(&form, format, 2, 64);
            own(cases, &form, space, 32, &columns, Compare::Exact(format));
        }
    }
}

fn swaps(cases: &mut Vec<Case>, space: &str) {
    for bits in [32, 64] {
        let form = format!("atom.{space}.exch.b{bits}");
        let columns = integers(&form, bits, 2, 64);
        own(cases, &form, space, bits, &columns, Compare::Bits);
    }
    for bits in [16, 32, 64] {
        let form = format!("atom.{space}.cas.b{bits}");
        let mut columns = integers(&form, bits, 3, 64);
        for row in (0..64).step_by(2) {
            columns[1].values[row] = columns[0].values[row];
        }
        own(cases, &form, space, bits, &columns, Compare::Bits);
    }
    for operation in ["exch", "cas"] {
        let operands = if operation == "cas" { "%u2, %u3" } else { "%u2" };
        let form = format!("atom.{space}.{operation}.b128");
        let mut columns = integers(&form, 64, 4, 32);
        for row in (0..32).step_by(2) {
            columns[2].values[row] = columns[0].values[row];
            columns[3].values[row] = columns[1].values[row];
        }
        let body = format!(
            ".reg .b128 %u<8>;
    mov.u64 %d1, cells;
    mad.lo.u64 %d1, %wide, 16, %d1;
    st.{space}.v2.b64 [%d1], {{%a, %b}};
    mov.b128 %u2, {{%c, %e}};
    mov.b128 %u3, {{%e, %a}};
    {form} %u4, [%d1], {operands};
    mov.b128 {{%x, %y}}, %u4;
    ld.{space}.v2.b64 {{%z, %w}}, [%d1];"
        );
        let module = format!(".{space} .align 16 .b8 cells[1024];");
        let results = [Out::B64("x"), Out::B64("y"), Out::B64("z"), Out::B64("w")];
        let name = format!("atomics/{form}");
        cases.push(lanes_with(&name, &columns, &results, &body, &module, Compare::Bits));
    }
}

/// Orders and scopes, which change nothing about the values.
fn orders(cases: &mut Vec<Case>) {
    for order in ["relaxed", "acquire", "release", "acq_rel"] {
        for scope in ["cta", "cluster", "gpu", "sys"] {
            let form = format!("atom.{order}.{scope}.global.add.u32");
            let columns = integers(&form, 32, 2, 32);
            own(cases, &form, "global", 32, &columns, Compare::Bits);
            if order == "relaxed" || order == "release" {
                let form = format!("red.{order}.{scope}.global.add.u32");
                own(cases, &form, "global", 32, &columns, Compare::Bits);
            }
        }
    }
    for form in [
        "atom.acq_rel.sys.global.cas.b64",
        "atom.acquire.cta.shared.cas.b64",
        "atom.relaxed.cluster.shared::cluster.add.u64",
        "atom.gpu.global.max.s64",
        "atom.global.L2::cache_hint.add.u64",
    ] {
        let space = if form.contains("shared") { "shared" } else { "global" };
        let operands = if form.contains("cas") || form.contains("hint") { 3 } else { 2 };
        let mut columns = integers(form, 64, operands, 32);
        if form.contains("hint") {
            columns[2].values.fill(0x1000_0000_0000_0000);
        }
        own(cases, form, space, 64, &columns, Compare::Bits);
    }
    // Without a space the address is generic.
    let columns = integers("generic", 32, 2, 32);
    for opcode in ["atom", "red"] {
        for space in ["global", "shared"] {
            let operation = match opcode {
                "atom" => "atom.add.u32 %x, [%d2], %b;",
                _ => "mov.b32 %x, 0; red.add.u32 [%d2], %b;",
            };
            let body = format!(
                "mov.u64 %d1, cells;\n    mad.lo.u64 %d1, %wide, 4, %d1;\n    \
                 cvta.{space}.u64 %d2, %d1;\n    st.b32 [%d2], %a;\n    {operation}\n    \
                 ld.{space}.b32 %y, [%d1];"
            );
            let module = format!(".{space} .align 16 .b8 cells[1024];");
            let results = [Out::B32("x"), Out::B32("y")];
            let name = format!("atomics/{opcode}.add.u32 at a generic address of {space} memory");
            cases.push(lanes_with(&name, &columns, &results, &body, &module, Compare::Bits));
        }
    }
}

/// 256 threads in 2 blocks change one cell; only the final value is defined.
fn contended(cases: &mut Vec<Case>) {
    for (form, start) in [
        ("red.global.add.u32", 5_u64),
        ("red.global.max.u32", 3),
        ("red.global.min.s32", 900),
        ("red.global.or.b32", 0),
        ("red.global.xor.b32", 0x1234),
        ("red.global.inc.u32", 7),
        ("red.global.dec.u32", 7),
        ("red.global.add.u64", u64::MAX - 9),
        ("red.global.add.f32", 0x3F80_0000),
        ("red.release.gpu.global.add.u32", 5),
    ] {
        let wide = form.ends_with("64");
        // Sums of floats of the same sign and small whole numbers are exact in any order.
        let convert = if form.ends_with("f32") { "cvt.rn.f32.u32 %r3, %r3;" } else { "" };
        let value = if form.contains("inc") || form.contains("dec") { "100" } else { "%r3" };
        let value = if wide { "%d1" } else { value };
        let body = format!(
            "    xor.b32 %r3, %thread, 0x55;\n    {convert}\n    cvt.u64.u32 %d1, %r3;\n    \
             {form} [%output], {value};"
        );
        let text = Text { body: &body, ..Text::default() };
        let mut case = case(&format!("atomics/{form} of 256 threads"), &text, Vec::new(), 8);
        case.output.copy_from_slice(&start.to_le_bytes());
        (case.grid, case.block) = ([2, 1, 1], [128, 1, 1]);
        cases.push(case);
    }
    // Each thread gets a different ticket, so that they sum to a known number.
    let body = "    .shared .align 4 .b8 cells[8];
    mov.u32 %r3, cells;
    setp.eq.u32 %p1, %r2, 0;
    @%p1 st.shared.v2.b32 [%r3], {0, 0};
    bar.sync 0;
    atom.shared.add.u32 %r4, [%r3], 1;
    red.shared.add.u32 [%r3+4], %r4;
    bar.sync 0;
    ld.shared.b32 %x, [%r3+4];";
    cases.push(crate::cases::words("atomics/tickets of 96 threads", 96, "", body));
    let body = "    mov.u64 %d1, lock;
    mov.u64 %d2, count;
AGAIN:
    atom.acquire.gpu.global.cas.b32 %r3, [%d1], 0, 1;
    setp.ne.u32 %p1, %r3, 0;
    @%p1 bra AGAIN;
    ld.volatile.global.b32 %x, [%d2];
    add.u32 %x, %x, 1;
    st.volatile.global.b32 [%d2], %x;
    atom.release.gpu.global.exch.b32 %r3, [%d1], 0;
    bar.sync 0;
    ld.volatile.global.b32 %x, [%d2];";
    let module = ".global .align 4 .b32 lock;\n.global .align 4 .b32 count;";
    cases.push(crate::cases::words("atomics/a lock taken by 64 threads", 64, module, body));
}

/// Vectors of floats, of which each element is atomic.
fn vectors(cases: &mut Vec<Case>) {
    for (opcode, returns) in [("atom", true), ("red", false)] {
        for (count, of, format) in [
            (2, "f32", Format::F32),
            (4, "f32", Format::F32),
            (2, "noftz.f16", Format::F16),
            (4, "noftz.f16", Format::F16),
            (8, "noftz.f16", Format::F16),
            (2, "noftz.bf16", Format::Bf16),
            (8, "noftz.bf16", Format::Bf16),
            (2, "noftz.f16x2", Format::F16),
            (4, "noftz.bf16x2", Format::Bf16),
        ] {
            let (modifier, of) = of.rsplit_once('.').map_or(("", of), |(noftz, of)| (noftz, of));
            let dot = if modifier.is_empty() { "" } else { "." };
            let form = format!("{opcode}.global.v{count}.{of}.add{dot}{modifier}");
            let pair = of.ends_with("x2");
            let bytes = if pair { 4 } else { format.bytes() };
            let (bits, total) = (bytes * 8, bytes * count);
            let list = |letter: char| {
                let names: Vec<_> = (0..count).map(|at| format!("%{letter}{at}")).collect();
                format!("{{{}}}", names.join(", "))
            };
            let loads: String = (0..count)
                .map(|at| {
                    format!(
                        "    ld.global.b{bits} %v{at}, [%d1+{}];\n    mov.b{bits} %o{at}, 0;\n",
                        at * bytes
                    )
                })
                .collect();
            let stores: String = (0..count)
                .map(|at| format!("    st.global.b{bits} [%d3+{}], %o{at};\n", at * bytes))
                .collect();
            let result = if returns { format!("{}, ", list('o')) } else { String::new() };
            let half = 32 * total;
            let body = format!(
                "    .reg .b{bits} %v<8>;\n    .reg .b{bits} %o<8>;
    mad.lo.u64 %d1, %wide, {total}, %input;
    mad.lo.u64 %d2, %wide, {total}, %output;
    add.u64 %d3, %d2, {half};
{loads}    {form} {result}[%d2], {};
{stores}",
                list('v')
            );
            let bytes_of = |name: &str| -> Vec<u8> {
                let column = if pair {
                    packed(name, format, 1, 32 * count).remove(0)
                } else {
                    floats(name, format, 1, 32 * count).remove(0)
                };
                column.encoded()
            };
            let text = Text { body: &body, ..Text::default() };
            let name = format!("atomics/{form}");
            let mut case = case(&name, &text, bytes_of(&format!("{form} added")), half * 2);
            case.output[..half].copy_from_slice(&bytes_of(&form)[..half]);
            case.compare = Compare::Exact(format);
            cases.push(case);
        }
    }
}
