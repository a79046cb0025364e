//! Integer arithmetic.

use crate::cases::{Case, Column, Out, lanes};
use crate::numbers::{amounts, integers};

const TYPES: [(&str, u32); 6] =
    [("s16", 16), ("u16", 16), ("s32", 32), ("u32", 32), ("s64", 64), ("u64", 64)];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (of, bits) in TYPES {
        for operation in ["add", "sub", "mul.lo", "mul.hi", "min", "max"] {
            cases.push(uniform(&format!("{operation}.{of}"), bits, 2));
        }
        for operation in ["div", "rem"] {
            cases.push(division(&format!("{operation}.{of}"), bits));
        }
        for operation in ["mad.lo", "mad.hi", "sad"] {
            cases.push(uniform(&format!("{operation}.{of}"), bits, 3));
        }
        if of.starts_with('s') {
            cases.push(uniform(&format!("neg.{of}"), bits, 1));
            cases.push(uniform(&format!("abs.{of}"), bits, 1));
        }
        if bits < 64 {
            wide(&mut cases, of, bits);
        }
    }
    for form in ["add.sat.s32", "sub.sat.s32", "mul24.lo.s32", "mul24.hi.s32", "mul24.lo.u32"] {
        cases.push(uniform(form, 32, 2));
    }
    cases.push(uniform("mul24.hi.u32", 32, 2));
    for form in ["mad.hi.sat.s32", "mad24.lo.s32", "mad24.hi.s32", "mad24.lo.u32", "mad24.hi.u32"] {
        cases.push(uniform(form, 32, 3));
    }
    cases.push(uniform("mad24.hi.sat.s32", 32, 3));
    for form in ["add.u16x2", "add.s16x2", "min.u16x2", "min.s16x2", "max.u16x2", "max.s16x2"] {
        cases.push(uniform(form, 32, 2));
    }
    for form in ["min.relu.s16x2", "max.relu.s16x2", "min.relu.s32", "max.relu.s32"] {
        cases.push(uniform(form, 32, 2));
    }
    for form in ["dp4a.u32.u32", "dp4a.u32.s32", "dp4a.s32.u32", "dp4a.s32.s32"] {
        cases.push(uniform(form, 32, 3));
    }
    for types in ["u32.u32", "u32.s32", "s32.u32", "s32.s32"] {
        cases.push(uniform(&format!("dp2a.lo.{types}"), 32, 3));
        cases.push(uniform(&format!("dp2a.hi.{types}"), 32, 3));
    }
    carries(&mut cases);
    bits(&mut cases);
    cases
}

/// All operands and the result have the same width.
fn uniform(form: &str, bits: u32, operands: usize) -> Case {
    let operands_text = ["%a", "%a, %b", "%a, %b, %c"][operands - 1];
    let columns = integers(form, bits, operands, 64);
    let name = format!("integer/{form}");
    lanes(&name, &columns, &[Out::of(bits)], &format!("{form} %x, {operands_text};"))
}

/// The same with divisors other than zero, whose results are not defined.
fn division(form: &str, bits: u32) -> Case {
    let mut columns = integers(form, bits, 2, 64);
    for divisor in &mut columns[1].values {
        *divisor = (*divisor).max(1);
    }
    let name = format!("integer/{form}");
    lanes(&name, &columns, &[Out::of(bits)], &format!("{form} %x, %a, %b;"))
}

fn wide(cases: &mut Vec<Case>, of: &str, bits: u32) {
    let form = format!("mul.wide.{of}");
    let columns = integers(&form, bits, 2, 64);
    let result = [Out::of(bits * 2)];
    cases.push(lanes(
        &format!("integer/{form}"),
        &columns,
        &result,
        &format!("{form} %x, %a, %b;"),
    ));
    let form = format!("mad.wide.{of}");
    let mut columns = integers(&form, bits, 2, 64);
    columns.extend(integers(&format!("{form} sum"), bits * 2, 1, 64));
    let body = format!("{form} %x, %a, %b, %c;");
    cases.push(lanes(&format!("integer/{form}"), &columns, &result, &body));
}

/// The carry goes from the first instruction to the second, which may give one itself.
fn carries(cases: &mut Vec<Case>) {
    for (of, bits) in [("u32", 32), ("s32", 32), ("u64", 64), ("s64", 64)] {
        let results = match bits {
            32 => [Out::B32("x"), Out::B32("y"), Out::B32("z")],
            _ => [Out::B64("x"), Out::B64("y"), Out::B64("z")],
        };
        let forms = [
            (format!("add.cc.{of}"), format!("addc.cc.{of}"), format!("addc.{of}")),
            (format!("sub.cc.{of}"), format!("subc.cc.{of}"), format!("subc.{of}")),
        ];
        for (first, second, third) in forms {
            let columns = integers(&first, bits, 4, 64);
            let body =
                format!("{first} %x, %a, %b;\n    {second} %y, %c, %e;\n    {third} %z, %a, %e;");
            cases.push(lanes(&format!("integer/{first}"), &columns, &results, &body));
        }
        for half in ["lo", "hi"] {
            let first = format!("mad.{half}.cc.{of}");
            let columns = integers(&first, bits, 4, 64);
            let body = format!(
                "{first} %x, %a, %b, %c;\n    madc.{half}.cc.{of} %y, %a, %c, %e;\n    \
                 madc.{half}.{of} %z, %b, %c, %e;"
            );
            cases.push(lanes(&format!("integer/{first}"), &columns, &results, &body));
        }
    }
    let columns = integers("carry kept", 32, 4, 64);
    let body = "add.cc.u32 %x, %a, %b;\n    xor.b32 %x, %x, %c;\n    sub.u32 %x, %x, %e;\n    \
                addc.u32 %y, %c, %e;";
    let results = [Out::B32("x"), Out::B32("y")];
    cases.push(lanes("integer/carry kept over other instructions", &columns, &results, body));
}

fn bits(cases: &mut Vec<Case>) {
    let fields = [0, 1, 2, 5, 8, 16, 31, 32, 33, 40, 63, 64, 65, 100, 255, 256, 257, 0xFFFF_FFFF];
    for (of, bits) in [("u32", 32), ("s32", 32), ("u64", 64), ("s64", 64)] {
        let form = format!("bfe.{of}");
        let columns = field(&form, bits, 1, &fields);
        let body = format!("{form} %x, %a, %b, %c;");
        cases.push(lanes(&format!("integer/{form}"), &columns, &[Out::of(bits)], &body));
        for form in [format!("bfind.{of}"), format!("bfind.shiftamt.{of}")] {
            let columns = integers(&form, bits, 1, 64);
            let body = format!("{form} %x, %a;");
            cases.push(lanes(&format!("integer/{form}"), &columns, &[Out::B32("x")], &body));
        }
    }
    for bits in [32, 64] {
        let form = format!("bfi.b{bits}");
        let columns = field(&form, bits, 2, &fields);
        let body = format!("{form} %x, %a, %b, %c, %e;");
        cases.push(lanes(&format!("integer/{form}"), &columns, &[Out::of(bits)], &body));
        cases.push(uniform(&format!("brev.b{bits}"), bits, 1));
        for operation in ["clz", "popc"] {
            let form = format!("{operation}.b{bits}");
            let columns = integers(&form, bits, 1, 64);
            let body = format!("{form} %x, %a;");
            cases.push(lanes(&format!("integer/{form}"), &columns, &[Out::B32("x")], &body));
        }
    }
    for mode in ["wrap", "clamp"] {
        let (start, length) = (amounts(mode, 4, 64, &fields), amounts("length", 4, 64, &fields));
        let name = format!("integer/bmsk.{mode}.b32");
        let body = format!("bmsk.{mode}.b32 %x, %a, %b;");
        cases.push(lanes(&name, &[start, length], &[Out::B32("x")], &body));
        for of in ["u32", "s32"] {
            let form = format!("szext.{mode}.{of}");
            let mut columns = integers(&form, 32, 1, 64);
            columns.push(amounts(&form, 4, 64, &fields));
            let body = format!("{form} %x, %a, %b;");
            cases.push(lanes(&format!("integer/{form}"), &columns, &[Out::B32("x")], &body));
        }
    }
    let mut columns = integers("fns", 32, 1, 64);
    columns.push(amounts("fns base", 4, 64, &[0, 1, 7, 15, 30, 31]));
    let offsets = [0, 1, 2, 5, 31, 32, 0xFFFF_FFFF, 0xFFFF_FFFE, 0xFFFF_FFF0];
    columns.push(amounts("fns offset", 4, 64, &offsets));
    cases.push(lanes("integer/fns.b32", &columns, &[Out::B32("x")], "fns.b32 %x, %a, %b, %c;"));
}

/// Operands of `bits` bits, then a position and a length.
fn field(name: &str, bits: u32, operands: usize, fields: &[u64]) -> Vec<Column> {
    let mut columns = integers(name, bits, operands, 64);
    columns.push(amounts(&format!("{name} position"), 4, 64, fields));
    columns.push(amounts(&format!("{name} length"), 4, 64, fields));
    columns
}
