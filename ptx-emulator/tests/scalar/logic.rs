//! Logic, shifts, permutations, selections and comparisons.

use std::cmp::Ordering;

use crate::lanes::{Operands, Widths, check, check_rows, low_bits, rows, signed, try_run};

type OfBits = fn(u64, u64) -> u64;
type OfFlags = fn(bool, bool) -> bool;
type OfNumber = fn(f64, bool) -> bool;

#[test]
fn logic_of_every_width() {
    let table: &[(&str, &str, OfBits)] = &[
        ("and", "%a, %b", |a, b| a & b),
        ("or", "%a, %b", |a, b| a | b),
        ("xor", "%a, %b", |a, b| a ^ b),
        ("not", "%a", |a, _| !a),
        ("cnot", "%a", |a, _| u64::from(a == 0)),
    ];
    for bits in [16, 32, 64] {
        for (name, operands, expected) in table {
            check(Widths::all(bits), &format!("{name}.b{bits} %x, {operands};"), |[a, b, ..]| {
                expected(a, b)
            });
        }
    }
}

#[test]
fn logic_of_predicates() {
    let set = "setp.lt.s32 %p, %a, %b; setp.gt.u32 %q, %a, %c;";
    let table: &[(&str, OfFlags)] = &[
        ("and.pred %s, %p, %q;", |p, q| p && q),
        ("or.pred %s, %p, %q;", |p, q| p || q),
        ("xor.pred %s, %p, %q;", |p, q| p != q),
        ("not.pred %s, %p;", |p, _| !p),
        ("and.pred %s, !%p, %q;", |p, q| !p && q),
        ("mov.pred %s, 0; @%p mov.pred %s, %q;", |p, q| p && q),
        ("or.pred %s, %p, 1;", |_, _| true),
    ];
    for (form, expected) in table {
        check(Widths::all(32), &format!("{set} {form} selp.b32 %x, 1, 0, %s;"), |[a, b, c, _]| {
            expected(signed(32, a) < signed(32, b), a > c).into()
        });
    }
}

#[test]
fn shifts_of_every_width_and_amount() {
    let amounts = [0, 1, 4, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 0x8000_0000, 0xFFFF_FFFF];
    let mut rows = rows();
    for (index, row) in rows.iter_mut().enumerate() {
        row[1] = amounts[index % 16];
    }
    for bits in [16u32, 32, 64] {
        let widths = Widths { operands: [bits, 32, bits, bits], result: bits };
        let run = |form: &str, expected: fn(i128, u32) -> i128, is_signed: bool| {
            let body = format!("{form}{bits} %x, %a, %b;");
            check_rows(widths, &body, &rows, |[a, b, ..]| {
                let value = if is_signed { signed(bits, a) } else { a.into() };
                expected(value, b.min(64) as u32) as u64
            });
        };
        run("shl.b", |value, amount| value << amount.min(63) << (amount / 64), false);
        run("shr.b", |value, amount| value >> amount, false);
        run("shr.u", |value, amount| value >> amount, false);
        run("shr.s", |value, amount| value >> amount, true);
    }
    for (mode, wraps) in [("wrap", true), ("clamp", false)] {
        let amount = move |own: u64| if wraps { own % 32 } else { own.min(32) };
        let mut rows = rows.clone();
        rows.iter_mut().for_each(|row| row.swap(1, 2));
        let all = Widths::all(32);
        check_rows(all, &format!("shf.l.{mode}.b32 %x, %a, %b, %c;"), &rows, |[a, b, c, _]| {
            (u128::from(b << 32 | a) << amount(c) >> 32) as u64
        });
        check_rows(all, &format!("shf.r.{mode}.b32 %x, %a, %b, %c;"), &rows, |[a, b, c, _]| {
            (b << 32 | a) >> amount(c)
        });
    }
}

#[test]
fn tables_of_three_operands() {
    for table in [0x00u8, 0x80, 0xE8, 0x96, 0x1B, 0xF0, 0xCC, 0xFF] {
        let expected = move |[a, b, c, _]: Operands| {
            (0..32).fold(0, |result, at| {
                let row = (a >> at & 1) * 4 + (b >> at & 1) * 2 + (c >> at & 1);
                result | u64::from(table >> row & 1) << at
            })
        };
        let all = Widths::all(32);
        check(all, &format!("lop3.b32 %x, %a, %b, %c, {table};"), expected);
        for (word, either) in [("or", true), ("and", false)] {
            let body = format!(
                "setp.lt.s32 %q, %a, 5; lop3.{word}.b32 %t|%p, %a, %b, %c, {table}, %q; \
                 selp.b32 %x, %t, 77, %p;"
            );
            check(all, &body, |own| {
                let (result, third) = (expected(own), signed(32, own[0]) < 5);
                let set = result != 0;
                if if either { set || third } else { set && third } { result } else { 77 }
            });
        }
    }
}

#[test]
fn permutations_of_bytes() {
    // Bytes of {b, a}: 0 to 3 belong to a.
    let (a, b) = (0x83_72_61_50_u64, 0xC7_B6_A5_94_u64);
    let cases: &[(&str, u64, u64)] = &[
        ("prmt.b32", 0x3210, 0x8372_6150),
        ("prmt.b32", 0x7654, 0xC7B6_A594),
        ("prmt.b32", 0x0F8B, 0x50FF_00FF),
        ("prmt.b32.f4e", 1, 0x9483_7261),
        ("prmt.b32.b4e", 1, 0xB6C7_5061),
        ("prmt.b32.rc8", 2, 0x7272_7272),
        ("prmt.b32.ecl", 2, 0x8372_7272),
        ("prmt.b32.ecr", 2, 0x7272_6150),
        ("prmt.b32.rc16", 1, 0x8372_8372),
    ];
    for (form, selector, expected) in cases {
        let body = format!("{form} %x, %a, %b, %c;");
        check_rows(Widths::all(32), &body, &[[a, b, *selector, 0]], |_| *expected);
    }
}

#[test]
fn selections() {
    for (ty, bits) in [("b16", 16), ("u32", 32), ("f32", 32), ("s64", 64), ("f64", 64)] {
        let body = format!("setp.lt.s{bits} %p, %a, %c; selp.{ty} %x, %a, %b, %p;");
        check(
            Widths::all(bits),
            &body,
            |[a, b, c, _]| {
                if signed(bits, a) < signed(bits, c) { a } else { b }
            },
        );
        let widths = Widths { operands: [bits, bits, 32, 32], result: bits };
        check(widths, &format!("slct.{ty}.s32 %x, %a, %b, %c;"), |[a, b, c, _]| {
            if signed(32, c) >= 0 { a } else { b }
        });
        check(widths, &format!("slct.{ty}.f32 %x, %a, %b, %c;"), |[a, b, c, _]| {
            if f32::from_bits(c as u32) >= 0.0 { a } else { b }
        });
        // The smallest negative number is -0 with `.ftz`, which is not below zero.
        let rows = [[1, 2, 0x8000_0001, 0], [1, 2, 0x8080_0000, 0], [1, 2, 0x7FC0_0000, 0]];
        let body = format!("slct.ftz.{ty}.f32 %x, %a, %b, %c;");
        assert_eq!(try_run(widths, &body, &rows).unwrap(), [1, 2, 2]);
    }
    check(Widths::all(32), "setp.eq.s32 %p, %a, %b; selp.b32 %x, %a, 4660, !%p;", |[a, b, ..]| {
        if a == b { 4660 } else { a }
    });
    check(Widths::all(32), "copysign.f32 %x, %a, %b;", |[a, b, ..]| {
        a & 0x8000_0000 | b & 0x7FFF_FFFF
    });
    check(Widths::all(64), "copysign.f64 %x, %a, %b;", |[a, b, ..]| a & 1 << 63 | b & !(1 << 63));
}

/// Both results as a number: 1 for the first, 2 for the second.
const BOTH: &str = "selp.b32 %x, 1, 0, %p; @%q add.u32 %x, %x, 2;";

fn both(first: bool, second: bool) -> u64 {
    u64::from(first) | u64::from(second) << 1
}

/// What the manual's table says of a comparison; no order means a NaN.
fn holds(word: &str, order: Option<Ordering>) -> bool {
    use Ordering::{Equal, Greater, Less};
    let table: &[(&str, &[Ordering], bool)] = &[
        ("eq", &[Equal], false),
        ("ne", &[Less, Greater], false),
        ("lt", &[Less], false),
        ("le", &[Less, Equal], false),
        ("gt", &[Greater], false),
        ("ge", &[Greater, Equal], false),
        ("lo", &[Less], false),
        ("ls", &[Less, Equal], false),
        ("hi", &[Greater], false),
        ("hs", &[Greater, Equal], false),
        ("equ", &[Equal], true),
        ("neu", &[Less, Greater], true),
        ("ltu", &[Less], true),
        ("leu", &[Less, Equal], true),
        ("gtu", &[Greater], true),
        ("geu", &[Greater, Equal], true),
        ("num", &[Less, Equal, Greater], false),
        ("nan", &[], true),
    ];
    let (_, orders, unordered) = table.iter().find(|(own, ..)| *own == word).unwrap();
    order.map_or(*unordered, |order| orders.contains(&order))
}

/// The usual rows, every fifth with equal operands.
fn pairs() -> Vec<Operands> {
    let mut rows = rows();
    rows.iter_mut().step_by(5).for_each(|row| row[1] = row[0]);
    rows
}

#[test]
fn comparisons_of_integers() {
    for ty in ["b16", "s16", "u16", "b32", "s32", "u32", "b64", "s64", "u64"] {
        let bits: u32 = ty[1..].parse().unwrap();
        let words: &[&str] = match &ty[..1] {
            "b" => &["eq", "ne"],
            "s" => &["eq", "ne", "lt", "le", "gt", "ge"],
            _ => &["eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"],
        };
        let of = |own: u64| if ty.starts_with('s') { signed(bits, own) } else { own.into() };
        let widths = Widths { operands: [bits; 4], result: 32 };
        for word in words {
            let answer = |a: u64, b: u64| holds(word, Some(of(a).cmp(&of(b))));
            let body = format!("setp.{word}.{ty} %p|%q, %a, %b; {BOTH}");
            check_rows(widths, &body, &pairs(), |[a, b, ..]| both(answer(a, b), !answer(a, b)));
            for (result, yes) in [("u32", u64::MAX), ("s32", u64::MAX), ("f32", 0x3F80_0000)] {
                let body = format!("set.{word}.{result}.{ty} %x, %a, %b;");
                check_rows(widths, &body, &pairs(), |[a, b, ..]| u64::from(answer(a, b)) * yes);
            }
            let body = format!("setp.{word}.{ty} %p, %a, -1; mov.pred %q, 0; {BOTH}");
            check_rows(widths, &body, &pairs(), |[a, ..]| answer(a, low_bits(bits)).into());
        }
    }
}

#[test]
fn comparisons_combined_with_a_predicate() {
    let table: &[(&str, OfFlags)] =
        &[("and", |a, b| a && b), ("or", |a, b| a || b), ("xor", |a, b| a != b)];
    for (word, combine) in table {
        for (sign, negated) in [("", false), ("!", true)] {
            let set = "setp.lt.s32 %p, %c, 9;";
            // The third source is a destination as well.
            let body = format!("{set} setp.le.{word}.s32 %p|%q, %a, %b, {sign}%p; {BOTH}");
            check_rows(Widths::all(32), &body, &pairs(), |[a, b, c, _]| {
                let answer = signed(32, a) <= signed(32, b);
                let third = (signed(32, c) < 9) != negated;
                both(combine(answer, third), combine(!answer, third))
            });
            let body = format!("{set} set.le.{word}.u32.s32 %x, %a, %b, {sign}%p;");
            check_rows(Widths::all(32), &body, &pairs(), |[a, b, c, _]| {
                let third = (signed(32, c) < 9) != negated;
                u64::from(combine(signed(32, a) <= signed(32, b), third)) * u64::MAX
            });
        }
    }
}

const FLOAT_WORDS: [&str; 14] =
    ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"];

/// Numbers of a format with so many bits of exponent and significand: zeros, subnormal numbers,
/// ones, infinities and NaNs of both signs, all pairs.
fn number_pairs(exponent: u32, significand: u32) -> Vec<Operands> {
    let infinity = ((1u64 << exponent) - 1) << significand;
    let one = ((1u64 << (exponent - 1)) - 1) << significand;
    let smallest = 1u64 << significand;
    let positive = [0, 1, smallest - 1, smallest, one, one + 1, infinity, infinity + 1];
    let sign = 1u64 << (exponent + significand);
    let all: Vec<u64> = positive.iter().flat_map(|own| [*own, own | sign]).collect();
    all.iter().flat_map(|a| all.iter().map(|b| [*a, *b, 0, 0])).collect()
}

/// The value of a code of such a format.
fn number(exponent: u32, significand: u32, flush: bool, code: u64) -> f64 {
    let field = code >> significand & low_bits(exponent);
    let fraction = (code & low_bits(significand)) as f64 / (significand as f64).exp2();
    let bias = (1i32 << (exponent - 1)) - 1;
    let magnitude = match field {
        0 if flush => 0.0,
        // The smallest subnormal f64 would not survive the power of two on its own.
        0 => fraction * f64::from(1 - bias + 52).exp2() * (-52f64).exp2(),
        _ if field == low_bits(exponent) => {
            if fraction == 0.0 {
                f64::INFINITY
            } else {
                f64::NAN
            }
        }
        _ => (1.0 + fraction) * (f64::from(field as i32 - bias)).exp2(),
    };
    if code >> (exponent + significand) & 1 == 1 { -magnitude } else { magnitude }
}

#[test]
fn comparisons_of_numbers() {
    for (ty, exponent, significand, flushes) in
        [("f16", 5, 10, true), ("bf16", 8, 7, false), ("f32", 8, 23, true), ("f64", 11, 52, false)]
    {
        let bits = 1 + exponent + significand;
        let rows = number_pairs(exponent, significand);
        let widths = Widths { operands: [bits; 4], result: 32 };
        for word in FLOAT_WORDS {
            for flush in [false, true] {
                if flush && !flushes {
                    continue;
                }
                let of = |code| number(exponent, significand, flush, code);
                let suffix = if flush { ".ftz" } else { "" };
                let body = format!("setp.{word}{suffix}.{ty} %p, %a, %b; selp.b32 %x, 1, 0, %p;");
                check_rows(widths, &body, &rows, |[a, b, ..]| {
                    holds(word, of(a).partial_cmp(&of(b))).into()
                });
                let body = format!("set.{word}{suffix}.u32.{ty} %x, %a, %b;");
                check_rows(widths, &body, &rows, |[a, b, ..]| {
                    u64::from(holds(word, of(a).partial_cmp(&of(b)))) * u64::MAX
                });
            }
        }
        if bits > 16 {
            let body = format!("setp.ltu.{ty} %p|%q, %a, %b; {BOTH}");
            let of = |code| number(exponent, significand, false, code);
            check_rows(widths, &body, &rows, |[a, b, ..]| {
                let answer = holds("ltu", of(a).partial_cmp(&of(b)));
                both(answer, !answer)
            });
        }
    }
}

#[test]
fn comparisons_of_packed_numbers() {
    for (ty, exponent, significand, one) in [("f16x2", 5, 10, 0x3C00), ("bf16x2", 8, 7, 0x3F80)] {
        let mut rows = number_pairs(exponent, significand);
        let other: Vec<Operands> = rows.iter().rev().copied().collect();
        for (row, high) in rows.iter_mut().zip(other) {
            row[0] |= high[1] << 16;
            row[1] |= high[0] << 16;
        }
        let of = |code: u64| number(exponent, significand, false, code & 0xFFFF);
        for word in FLOAT_WORDS {
            let halves = |a: u64, b: u64| {
                let half = |at: u32| holds(word, of(a >> at).partial_cmp(&of(b >> at)));
                (half(0), half(16))
            };
            let body = format!("setp.{word}.{ty} %p|%q, %a, %b; {BOTH}");
            check_rows(Widths::all(32), &body, &rows, |[a, b, ..]| {
                let (low, high) = halves(a, b);
                both(low, high)
            });
            for (result, yes) in [(ty, one), ("u32", 0xFFFF)] {
                let body = format!("set.{word}.{result}.{ty} %x, %a, %b;");
                check_rows(Widths::all(32), &body, &rows, |[a, b, ..]| {
                    let (low, high) = halves(a, b);
                    (u64::from(low) | u64::from(high) << 16) * yes
                });
            }
        }
    }
}

#[test]
fn properties_of_numbers() {
    let table: &[(&str, OfNumber)] = &[
        ("finite", |own, _| own.is_finite()),
        ("infinite", |own, _| own.is_infinite()),
        ("number", |own, _| !own.is_nan()),
        ("notanumber", |own, _| own.is_nan()),
        ("normal", |own, subnormal| own.is_finite() && !subnormal),
        ("subnormal", |_, subnormal| subnormal),
    ];
    for (ty, exponent, significand) in [("f32", 8, 23), ("f64", 11, 52)] {
        let bits = 1 + exponent + significand;
        let widths = Widths { operands: [bits; 4], result: 32 };
        for (word, expected) in table {
            let body = format!("testp.{word}.{ty} %p, %a; selp.b32 %x, 1, 0, %p;");
            check_rows(widths, &body, &number_pairs(exponent, significand), |[a, ..]| {
                let magnitude = a & low_bits(bits - 1);
                let subnormal = magnitude != 0 && magnitude >> significand == 0;
                expected(number(exponent, significand, false, a), subnormal).into()
            });
        }
    }
}

#[test]
fn what_does_not_exist_is_refused() {
    let wrong = [
        "and.u32 %x, %a, %b;",
        "shl.s32 %x, %a, %b;",
        "shf.l.b32 %x, %a, %b, %c;",
        "lop3.b32 %x, %a, %b, %c, 256;",
        "lop3.b32 %x|%p, %a, %b, %c, 1;",
        "setp.lt.b32 %p, %a, %b;",
        "setp.lo.s32 %p, %a, %b;",
        "setp.equ.s32 %p, %a, %b;",
        "setp.ftz.eq.s32 %p, %a, %b;",
        "setp.eq.and.s32 %p, %a, %b;",
        "set.eq.f32.f16x2 %x, %a, %b;",
        "slct.b32.u32 %x, %a, %b, %c;",
        "testp.normal.s32 %p, %a;",
        "prmt.b32.f8e %x, %a, %b, %c;",
        "selp.b32 %x, %a, %b, %c;",
    ];
    for body in wrong {
        assert!(try_run(Widths::all(32), body, &[[1; 4]]).is_err(), "{body}");
    }
}
