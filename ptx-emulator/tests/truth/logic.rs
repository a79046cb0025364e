//! Logic, shifts, permutations, selections and comparisons.

use crate::cases::{Case, Column, Out, lanes};
use crate::numbers::{Format, amounts, floats, integers};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for bits in [16, 32, 64] {
        for operation in ["and", "or", "xor"] {
            cases.push(plain(&format!("{operation}.b{bits}"), bits, 2));
        }
        cases.push(plain(&format!("not.b{bits}"), bits, 1));
        cases.push(plain(&format!("cnot.b{bits}"), bits, 1));
    }
    predicates(&mut cases);
    shifts(&mut cases);
    permutations(&mut cases);
    selections(&mut cases);
    integer_comparisons(&mut cases);
    float_comparisons(&mut cases);
    cases
}

fn plain(form: &str, bits: u32, operands: usize) -> Case {
    let columns = integers(form, bits, operands, 64);
    let text = ["%a", "%a, %b", "%a, %b, %c"][operands - 1];
    lanes(&format!("logic/{form}"), &columns, &[Out::of(bits)], &format!("{form} %x, {text};"))
}

fn predicates(cases: &mut Vec<Case>) {
    let all = [
        ("and.pred", "and.pred %p, %p1, %p2;"),
        ("or.pred", "or.pred %p, %p1, %p2;"),
        ("xor.pred", "xor.pred %p, %p1, %p2;"),
        ("not.pred", "not.pred %p, %p1;"),
        ("and.pred of a negated source", "and.pred %p, !%p1, %p2;"),
        ("mov.pred", "mov.pred %p, %p1;"),
        ("mov.pred of a constant", "mov.pred %p, 1;"),
        ("guard", "mov.pred %p, 0; @%p1 mov.pred %p, %p2;"),
        ("guard, negated", "mov.pred %p, 0; @!%p1 mov.pred %p, %p2;"),
    ];
    for (name, form) in all {
        let columns = integers(name, 32, 2, 64);
        let body = format!("setp.lt.s32 %p1, %a, %b; setp.gt.u32 %p2, %a, 77;\n    {form}");
        cases.push(lanes(&format!("logic/{name}"), &columns, &[Out::Pred("p")], &body));
    }
    for form in ["and.pred", "or.b32"] {
        for table in [0x00, 0x80, 0xE8, 0x96, 0x1B, 0xF0, 0xFE, 0xFF] {
            if form == "or.b32" {
                let name = format!("lop3.b32 {table:#04x}");
                let columns = integers(&name, 32, 3, 64);
                let body = format!("lop3.b32 %x, %a, %b, %c, {table};");
                cases.push(lanes(&format!("logic/{name}"), &columns, &[Out::B32("x")], &body));
            }
        }
    }
    for operation in ["or", "and"] {
        let name = format!("lop3.{operation}.b32");
        let columns = integers(&name, 32, 3, 64);
        let body = format!(
            "setp.lt.s32 %q, %a, 5;\n    lop3.{operation}.b32 %x|%p, %a, %b, %c, 0x40, %q;"
        );
        let results = [Out::B32("x"), Out::Pred("p")];
        cases.push(lanes(&format!("logic/{name}"), &columns, &results, &body));
    }
}

fn shifts(cases: &mut Vec<Case>) {
    let steps = [0, 1, 4, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 0x8000_0000, 0xFFFF_FFFF];
    for bits in [16, 32, 64] {
        let forms = [
            format!("shl.b{bits}"),
            format!("shr.b{bits}"),
            format!("shr.u{bits}"),
            format!("shr.s{bits}"),
        ];
        for form in forms {
            let mut columns = integers(&form, bits, 1, 64);
            columns.push(amounts(&form, 4, 64, &steps));
            let body = format!("{form} %x, %a, %b;");
            cases.push(lanes(&format!("logic/{form}"), &columns, &[Out::of(bits)], &body));
        }
    }
    for form in ["shf.l.wrap.b32", "shf.r.wrap.b32", "shf.l.clamp.b32", "shf.r.clamp.b32"] {
        let mut columns = integers(form, 32, 2, 64);
        columns.push(amounts(form, 4, 64, &steps));
        let body = format!("{form} %x, %a, %b, %c;");
        cases.push(lanes(&format!("logic/{form}"), &columns, &[Out::B32("x")], &body));
    }
}

fn permutations(cases: &mut Vec<Case>) {
    cases.push(plain("prmt.b32", 32, 3));
    for mode in ["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"] {
        cases.push(plain(&format!("prmt.b32.{mode}"), 32, 3));
    }
    let moves: [(&str, u32, usize, Out, &str); 8] = [
        ("mov.b32 of a pair", 16, 2, Out::B32("x"), "mov.b32 %x, {%a, %b};"),
        ("mov.b64 of a pair", 32, 2, Out::B64("x"), "mov.b64 %x, {%a, %b};"),
        ("mov.b64 of four", 16, 4, Out::B64("x"), "mov.b64 %x, {%a, %b, %c, %e};"),
        ("mov.b64 to a high half", 64, 1, Out::B32("x"), "mov.b64 {_, %x}, %a;"),
        ("mov.b64 to a low half", 64, 1, Out::B32("x"), "mov.b64 {%x, _}, %a;"),
        ("mov.b32 to a high half", 32, 1, Out::B16("x"), "mov.b32 {_, %x}, %a;"),
        ("mov.b16", 16, 1, Out::B16("x"), "mov.b16 %x, %a;"),
        (
            "mov.b64 to four",
            64,
            1,
            Out::B16("x"),
            "mov.b64 {%h1, %x, %h2, %h3}, %a; xor.b16 %x, %x, %h3;",
        ),
    ];
    for (name, bits, operands, result, body) in moves {
        let columns = integers(name, bits, operands, 64);
        cases.push(lanes(&format!("logic/{name}"), &columns, &[result], body));
    }
    let columns = integers("mov.b128", 64, 2, 64);
    let body = ".reg .b128 %wide1; mov.b128 %wide1, {%a, %b}; mov.b128 {%y, %x}, %wide1;";
    let results = [Out::B64("x"), Out::B64("y")];
    cases.push(lanes("logic/mov.b128 of and to a pair", &columns, &results, body));
    let columns = integers("literals", 32, 1, 64);
    let literals = [
        ("literal, octal", "add.u32 %x, %a, 0777;"),
        ("literal, binary", "add.u32 %x, %a, 0b1011;"),
        ("literal, with U", "add.u32 %x, %a, 0x7770U;"),
        ("literal, negative for an unsigned form", "add.u32 %x, %a, -5;"),
        ("literal, float", "add.rn.f32 %x, %a, 0f40490FDB;"),
        ("literal, decimal float", "mov.f32 %r1, 1.5; add.rn.f32 %x, %r1, 0f3F800000;"),
    ];
    for (name, body) in literals {
        cases.push(lanes(&format!("logic/{name}"), &columns, &[Out::B32("x")], body));
    }
}

fn selections(cases: &mut Vec<Case>) {
    for (of, bits) in [
        ("b16", 16),
        ("s16", 16),
        ("u16", 16),
        ("b32", 32),
        ("s32", 32),
        ("u32", 32),
        ("f32", 32),
        ("b64", 64),
        ("s64", 64),
        ("u64", 64),
        ("f64", 64),
    ] {
        let form = format!("selp.{of}");
        let columns = integers(&form, bits, 2, 64);
        let body = format!("setp.lt.s{bits} %p, %a, %b;\n    {form} %x, %a, %b, %p;");
        cases.push(lanes(&format!("logic/{form}"), &columns, &[Out::of(bits)], &body));
        for by in ["s32", "f32"] {
            let form = format!("slct.{of}.{by}");
            let mut columns = integers(&form, bits, 2, 64);
            columns.extend(match by {
                "s32" => integers("slct", 32, 1, 64),
                _ => floats("slct", Format::F32, 1, 64),
            });
            let body = format!("{form} %x, %a, %b, %c;");
            cases.push(lanes(&format!("logic/{form}"), &columns, &[Out::of(bits)], &body));
        }
    }
    let columns = integers("selp negated", 32, 2, 64);
    let body = "setp.lt.s32 %p, %a, %b;\n    selp.b32 %x, %a, %b, !%p;";
    cases.push(lanes("logic/selp.b32 negated", &columns, &[Out::B32("x")], body));
}

fn integer_comparisons(cases: &mut Vec<Case>) {
    for (of, bits) in [
        ("b16", 16),
        ("s16", 16),
        ("u16", 16),
        ("b32", 32),
        ("s32", 32),
        ("u32", 32),
        ("b64", 64),
        ("s64", 64),
        ("u64", 64),
    ] {
        let mut operators = vec!["eq", "ne"];
        if !of.starts_with('b') {
            operators.extend(["lt", "le", "gt", "ge"]);
        }
        if of.starts_with('u') {
            operators.extend(["lo", "ls", "hi", "hs"]);
        }
        for operator in operators {
            let columns = integers(&format!("{operator}{of}"), bits, 2, 64);
            compare(cases, operator, of, equal_too(columns));
        }
    }
    for combine in ["and", "or", "xor"] {
        for negated in ["", "!"] {
            let name = format!("setp.le.{combine}.s32 {negated}c");
            let columns = integers(&name, 32, 3, 64);
            let body = format!(
                "setp.lt.s32 %p1, %c, 9;\n    \
                 setp.le.{combine}.s32 %p|%q, %a, %b, {negated}%p1;"
            );
            let results = [Out::Pred("p"), Out::Pred("q")];
            cases.push(lanes(&format!("logic/{name}"), &columns, &results, &body));
        }
    }
}

fn float_comparisons(cases: &mut Vec<Case>) {
    let operators = [
        "eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan",
    ];
    for operator in operators {
        for (of, format) in [
            ("f16", Format::F16),
            ("bf16", Format::Bf16),
            ("f32", Format::F32),
            ("f64", Format::F64),
        ] {
            let columns = floats(&format!("{operator}{of}"), format, 2, 64);
            compare(cases, operator, of, equal_too(columns));
        }
        let name = format!("setp.{operator}.ftz.f32");
        let columns = equal_too(floats(&format!("{operator}ftz"), Format::F32, 2, 64));
        let body = format!("{name} %p, %a, %b;");
        cases.push(lanes(&format!("logic/{name}"), &columns, &[Out::Pred("p")], &body));
    }
    for (of, format) in [("f16x2", Format::F16), ("bf16x2", Format::Bf16)] {
        for operator in ["eq", "lt", "neu", "num"] {
            let name = format!("setp.{operator}.{of}");
            let columns = equal_too(crate::numbers::packed(&name, format, 2, 64));
            let body = format!("{name} %p|%q, %a, %b;");
            let results = [Out::Pred("p"), Out::Pred("q")];
            cases.push(lanes(&format!("logic/{name}"), &columns, &results, &body));
        }
        let name = format!("set.lt.{of}.{of}");
        let columns = crate::numbers::packed(&name, format, 2, 64);
        let body = format!("{name} %x, %a, %b;");
        cases.push(lanes(&format!("logic/{name}"), &columns, &[Out::B32("x")], &body));
    }
}

/// The columns with every fourth pair made equal.
fn equal_too(mut columns: Vec<Column>) -> Vec<Column> {
    for row in (0..64).step_by(4) {
        columns[1].values[row] = columns[0].values[row];
    }
    columns
}

/// `setp` and, where the type has it, `set` with a result of 32 bits and of f32.
fn compare(cases: &mut Vec<Case>, operator: &str, of: &str, columns: Vec<Column>) {
    let form = format!("setp.{operator}.{of}");
    // The 16-bit float formats have one result only.
    let half = of.ends_with("f16");
    let (target, results) = match half {
        true => ("%p", &[Out::Pred("p")][..]),
        false => ("%p|%q", &[Out::Pred("p"), Out::Pred("q")][..]),
    };
    let body = format!("{form} {target}, %a, %b;");
    cases.push(lanes(&format!("logic/{form}"), &columns, results, &body));
    if ["eq", "lt", "geu", "hi", "nan"].contains(&operator) && of != "bf16" {
        for result in ["u32", "s32", "f32"] {
            if half && result == "f32" {
                continue;
            }
            let form = format!("set.{operator}.{result}.{of}");
            let body = format!("{form} %x, %a, %b;");
            cases.push(lanes(&format!("logic/{form}"), &columns, &[Out::B32("x")], &body));
        }
        let form = format!("set.{operator}.and.u32.{of}");
        let body = format!("setp.lt.u32 %p, %thread, 20;\n    {form} %x, %a, %b, !%p;");
        cases.push(lanes(&format!("logic/{form}"), &columns, &[Out::B32("x")], &body));
    }
}
