//! Integer instructions against arithmetic in 128 bits.

use crate::lanes::{Widths, check, check_rows, low_bits, rows, signed, try_run};

/// The value of an operand of a type such as `s32`.
fn value(ty: &str, bits: u32, own: u64) -> i128 {
    if ty.starts_with('s') { signed(bits, own) } else { i128::from(own & low_bits(bits)) }
}

const TYPES: [(&str, u32); 6] =
    [("s16", 16), ("u16", 16), ("s32", 32), ("u32", 32), ("s64", 64), ("u64", 64)];

type Exact = fn(i128, i128, i128) -> i128;

#[test]
fn sums_products_and_extrema_of_every_type() {
    let table: &[(&str, &str, Exact)] = &[
        ("add", "%a, %b", |a, b, _| a + b),
        ("sub", "%a, %b", |a, b, _| a - b),
        ("mul.lo", "%a, %b", |a, b, _| a.wrapping_mul(b)),
        ("mad.lo", "%a, %b, %c", |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        ("min", "%a, %b", |a, b, _| a.min(b)),
        ("max", "%a, %b", |a, b, _| a.max(b)),
        ("sad", "%a, %b, %c", |a, b, c| (a - b).abs() + c),
        ("add", "%a, -3", |a, _, _| a - 3),
    ];
    for (ty, bits) in TYPES {
        for (name, operands, exact) in table {
            check(Widths::all(bits), &format!("{name}.{ty} %x, {operands};"), |[a, b, c, _]| {
                exact(value(ty, bits, a), value(ty, bits, b), value(ty, bits, c)) as u64
            });
        }
    }
}

#[test]
fn upper_halves_and_wide_products() {
    for (ty, bits) in TYPES {
        let of = |own| value(ty, bits, own);
        // An unsigned product of 64 bits does not fit in i128, but its bits do.
        let high = |a: u64, b: u64| (of(a).wrapping_mul(of(b)) as u128 >> bits) as u64;
        let all = Widths::all(bits);
        check(all, &format!("mul.hi.{ty} %x, %a, %b;"), |[a, b, _, _]| high(a, b));
        check(all, &format!("mad.hi.{ty} %x, %a, %b, %c;"), |[a, b, c, _]| {
            high(a, b).wrapping_add(c)
        });
        if bits == 64 {
            continue;
        }
        let wide = Widths { operands: [bits, bits, bits * 2, bits], result: bits * 2 };
        check(wide, &format!("mul.wide.{ty} %x, %a, %b;"), |[a, b, _, _]| (of(a) * of(b)) as u64);
        check(wide, &format!("mad.wide.{ty} %x, %a, %b, %c;"), |[a, b, c, _]| {
            ((of(a) * of(b)) as u64).wrapping_add(c)
        });
    }
}

#[test]
fn quotients_and_remainders() {
    for (ty, bits) in TYPES {
        let mut rows = rows();
        rows.retain(|row| row[1] & low_bits(bits) != 0);
        let of = |own| value(ty, bits, own);
        let all = Widths::all(bits);
        check_rows(all, &format!("div.{ty} %x, %a, %b;"), &rows, |[a, b, _, _]| {
            (of(a) / of(b)) as u64
        });
        check_rows(all, &format!("rem.{ty} %x, %a, %b;"), &rows, |[a, b, _, _]| {
            (of(a) % of(b)) as u64
        });
        let report = try_run(all, &format!("div.{ty} %x, %a, %b;"), &[[7, 0, 0, 0]]);
        assert!(report.is_err_and(|text| text.contains("by zero")));
        // Lanes that do not execute the instruction do not matter.
        let body =
            format!("setp.ne.u{bits} %p, %b, 0; mov.b{bits} %x, 9; @%p rem.{ty} %x, %a, %b;");
        assert_eq!(try_run(all, &body, &[[7, 0, 0, 0], [7, 4, 0, 0]]).unwrap(), [9, 3]);
    }
}

#[test]
fn signs_and_saturation() {
    for (ty, bits) in [("s16", 16), ("s32", 32), ("s64", 64)] {
        check(Widths::all(bits), &format!("neg.{ty} %x, %a;"), |[a, ..]| -signed(bits, a) as u64);
        check(Widths::all(bits), &format!("abs.{ty} %x, %a;"), |[a, ..]| {
            signed(bits, a).unsigned_abs() as u64
        });
    }
    let clamp = |value: i128| value.clamp(i32::MIN.into(), i32::MAX.into()) as u64;
    let word = |own| signed(32, own);
    let all = Widths::all(32);
    check(all, "add.sat.s32 %x, %a, %b;", |[a, b, ..]| clamp(word(a) + word(b)));
    check(all, "sub.sat.s32 %x, %a, %b;", |[a, b, ..]| clamp(word(a) - word(b)));
    check(all, "mad.hi.sat.s32 %x, %a, %b, %c;", |[a, b, c, _]| {
        clamp(((word(a) * word(b)) >> 32) + word(c))
    });
    check(all, "mad24.hi.sat.s32 %x, %a, %b, %c;", |[a, b, c, _]| {
        clamp(signed(32, ((signed(24, a) * signed(24, b)) >> 16) as u64) + word(c))
    });
    check(all, "min.relu.s32 %x, %a, %b;", |[a, b, ..]| word(a).min(word(b)).max(0) as u64);
    check(all, "max.relu.s32 %x, %a, %b;", |[a, b, ..]| word(a).max(word(b)).max(0) as u64);
}

#[test]
fn packed_halves() {
    let table: &[(&str, bool, Exact)] = &[
        ("add.u16x2", false, |a, b, _| a + b),
        ("add.s16x2", true, |a, b, _| a + b),
        ("min.u16x2", false, |a, b, _| a.min(b)),
        ("max.u16x2", false, |a, b, _| a.max(b)),
        ("min.s16x2", true, |a, b, _| a.min(b)),
        ("max.s16x2", true, |a, b, _| a.max(b)),
        ("min.relu.s16x2", true, |a, b, _| a.min(b).max(0)),
        ("max.relu.s16x2", true, |a, b, _| a.max(b).max(0)),
    ];
    for (name, is_signed, exact) in table {
        check(Widths::all(32), &format!("{name} %x, %a, %b;"), |[a, b, ..]| {
            let half = |own: u64, at: u32| match is_signed {
                true => signed(16, own >> at),
                false => i128::from(own >> at & 0xFFFF),
            };
            let part = |at| exact(half(a, at), half(b, at), 0) as u64 & 0xFFFF;
            part(0) | part(16) << 16
        });
    }
}

#[test]
fn products_of_24_bits_and_dot_products() {
    for (ty, is_signed) in [("s32", true), ("u32", false)] {
        let of = |own: u64| match is_signed {
            true => signed(24, own),
            false => i128::from(own & 0xFF_FFFF),
        };
        for (half, shift) in [("lo", 0), ("hi", 16)] {
            let all = Widths::all(32);
            check(all, &format!("mul24.{half}.{ty} %x, %a, %b;"), |[a, b, ..]| {
                ((of(a) * of(b)) >> shift) as u64
            });
            check(all, &format!("mad24.{half}.{ty} %x, %a, %b, %c;"), |[a, b, c, _]| {
                (((of(a) * of(b)) >> shift) as u64).wrapping_add(c)
            });
        }
    }
    for first in ["s32", "u32"] {
        for second in ["s32", "u32"] {
            let part = |ty: &str, bits: u32, own: u64, index: u32| {
                let own = own >> (index * bits);
                if ty == "s32" { signed(bits, own) } else { i128::from(own & low_bits(bits)) }
            };
            let all = Widths::all(32);
            let body = format!("dp4a.{first}.{second} %x, %a, %b, %c;");
            check(all, &body, |[a, b, c, _]| {
                let products = (0..4).map(|at| part(first, 8, a, at) * part(second, 8, b, at));
                (products.sum::<i128>() + i128::from(c)) as u64
            });
            for (half, from) in [("lo", 0), ("hi", 2)] {
                let body = format!("dp2a.{half}.{first}.{second} %x, %a, %b, %c;");
                check(all, &body, |[a, b, c, _]| {
                    let product = |at| part(first, 16, a, at) * part(second, 8, b, at + from);
                    (product(0) + product(1) + i128::from(c)) as u64
                });
            }
        }
    }
}

#[test]
fn carries_go_from_instruction_to_instruction() {
    // A number of 64 bits out of two of 32, with another instruction in between.
    let pair = |low: u64, high: u64| low | high << 32;
    let widths = Widths { operands: [32; 4], result: 64 };
    let body = |first: &str, second: &str| {
        format!(
            ".reg .b32 %l, %h; {first} %l, %a, %c; xor.b32 %t, %t, %a; {second} %h, %b, %e; \
             mov.b64 %x, {{%l, %h}};"
        )
    };
    check(widths, &body("add.cc.u32", "addc.u32"), |[a, b, c, e]| {
        pair(a, b).wrapping_add(pair(c, e))
    });
    check(widths, &body("sub.cc.s32", "subc.cc.s32"), |[a, b, c, e]| {
        pair(a, b).wrapping_sub(pair(c, e))
    });
    // The carry of 128 bits, as a number.
    let all = Widths::all(64);
    check(all, "add.cc.u64 %x, %a, %b; addc.cc.u64 %x, %c, %e; addc.u64 %x, 0, 0;", |own| {
        let [a, b, c, e] = own.map(u128::from);
        let first = (a + b) >> 64;
        ((c + e + first) >> 64) as u64
    });
    check(all, "sub.cc.u64 %x, %a, %b; subc.cc.s64 %x, %c, %e; subc.u64 %x, 0, 0;", |own| {
        let [a, b, c, e] = own.map(i128::from);
        let first = i128::from(a < b);
        if c - e - first < 0 { u64::MAX } else { 0 }
    });
    // A product of 64 bits and a sum, from 32-bit parts.
    let body = ".reg .b32 %l, %h; mad.lo.cc.u32 %l, %a, %b, %c; madc.hi.u32 %h, %a, %b, %e;
        mov.b64 %x, {%l, %h};";
    check(widths, body, |[a, b, c, e]| (a * b).wrapping_add(pair(c, e)));
    let body = body.replace("u32 %", "s32 %");
    check(widths, &body, |[a, b, c, e]| {
        ((signed(32, a) * signed(32, b)) as u64).wrapping_add(pair(c, e))
    });
    // Only lanes that execute the first instruction have their flags changed.
    let body = "add.cc.u64 %x, -1, 1; setp.eq.u32 %p, %t, 1; @%p add.cc.u64 %x, 0, 0;
        addc.u64 %x, 5, 0;";
    assert_eq!(try_run(all, body, &[[0; 4]; 3]).unwrap(), [6, 5, 6]);
}

#[test]
fn counting_and_finding_bits() {
    for bits in [32u32, 64] {
        let one = Widths { operands: [bits; 4], result: 32 };
        let digits = move |own: u64| format!("{own:0width$b}", width = bits as usize);
        check(one, &format!("popc.b{bits} %x, %a;"), |[a, ..]| {
            digits(a).matches('1').count() as u64
        });
        let zeros = move |own: u64| digits(own).find('1').map_or(bits.into(), |at| at as u64);
        check(one, &format!("clz.b{bits} %x, %a;"), |[a, ..]| zeros(a));
        check(Widths::all(bits), &format!("brev.b{bits} %x, %a;"), |[a, ..]| {
            let reversed: String = digits(a).chars().rev().collect();
            u64::from_str_radix(&reversed, 2).unwrap()
        });
        for ty in ["u", "s"] {
            let found = move |own: u64| {
                let negative = ty == "s" && signed(bits, own) < 0;
                let own = if negative { !own & low_bits(bits) } else { own };
                (0..bits).rev().find(|at| own >> at & 1 == 1)
            };
            check(one, &format!("bfind.{ty}{bits} %x, %a;"), |[a, ..]| {
                found(a).map_or(u64::MAX, u64::from)
            });
            check(one, &format!("bfind.shiftamt.{ty}{bits} %x, %a;"), |[a, ..]| {
                found(a).map_or(u64::MAX, |at| u64::from(bits - 1 - at))
            });
        }
    }
    let cases: &[([u64; 3], u64)] = &[
        ([0b1011_0000, 0, 1], 4),
        ([0b1011_0000, 5, 1], 5),
        ([0b1011_0000, 0, 3], 7),
        ([0b1011_0000, 0, 4], 0xFFFF_FFFF),
        ([0b1011_0000, 6, -1i64 as u64], 5),
        ([0b1011_0000, 7, -3i64 as u64], 4),
        ([0b1011_0000, 4, 0], 4),
        ([0b1011_0000, 6, 0], 0xFFFF_FFFF),
    ];
    for ([mask, base, offset], expected) in cases {
        let row = [[*mask, *base, *offset, 0]];
        check_rows(Widths::all(32), "fns.b32 %x, %a, %b, %c;", &row, |_| *expected);
    }
}

#[test]
fn fields_of_bits() {
    for bits in [32u32, 64] {
        let widths = Widths { operands: [bits, 32, 32, 32], result: bits };
        // Modulo 256 as the manual has it; but hardware takes all bits of the counts of 64 bits.
        let count = move |own: u64| if bits == 64 { own.min(255) } else { own & 0xFF };
        // Bit by bit, as the manual defines it.
        let field = move |ty: &str, own: u64, position: u64, length: u64| {
            let (position, length) = (count(position), count(length));
            let top = u64::from(bits) - 1;
            let bit = |at: u64| if at > top { 0 } else { own >> at & 1 };
            let sign = match ty {
                "s" if length != 0 => bit((position + length - 1).min(top)),
                _ => 0,
            };
            (0..u64::from(bits)).fold(0, |result, at| {
                let inside = at < length && position + at <= top;
                result | (if inside { bit(position + at) } else { sign }) << at
            })
        };
        for ty in ["u", "s"] {
            check(widths, &format!("bfe.{ty}{bits} %x, %a, %b, %c;"), |[a, b, c, _]| {
                field(ty, a, b, c)
            });
        }
        let widths = Widths { operands: [bits, bits, 32, 32], result: bits };
        check(widths, &format!("bfi.b{bits} %x, %a, %b, %c, %e;"), |[a, b, c, e]| {
            let (position, length) = (count(c), count(e));
            (0..u64::from(bits)).fold(0, |result, at| {
                let inside = at >= position && at < position + length;
                let bit = if inside { a >> (at - position) } else { b >> at };
                result | (bit & 1) << at
            })
        });
    }
}

#[test]
fn a_loaded_number_is_extended_to_its_register() {
    let text = ".local .align 4 .b8 own[4]; .reg .b16 %n; st.local.b32 [own], %a;
                ld.local.s8 %n, [own]; cvt.u32.u16 %x, %n;";
    check(Widths::all(32), text, |[a, ..]| u64::from(a as i8 as u16));
    // A group of registers does not take its bare name.
    let text = ".reg .b32 %g<4>, %g; mov.b32 %g3, %a; mov.b32 %g, %b; sub.u32 %x, %g3, %g;";
    check(Widths::all(32), text, |[a, b, ..]| (a as u32).wrapping_sub(b as u32).into());
    // All elements are read before one is written.
    let text = ".reg .v2 .b32 %v, %w; mov.v2.b32 {%v.x, %v.y}, {%a, %b};
                mov.v2.b32 {%v.x, %v.y}, {%v.y, %v.x}; mov.v2.b32 %w, %v; sub.u32 %x, %w.x, %w.y;";
    check(Widths::all(32), text, |[a, b, ..]| (b as u32).wrapping_sub(a as u32).into());
}

#[test]
fn masks_and_extensions() {
    for (mode, wraps) in [("wrap", true), ("clamp", false)] {
        let count = move |own: u64| if wraps { own & 31 } else { own };
        let all = Widths::all(32);
        let mut rows = rows();
        for (index, row) in rows.iter_mut().enumerate().take(144) {
            row[0] = [0, 3, 16, 31, 32, 33][index % 6];
            row[1] = [0, 1, 8, 31, 32, 0x8000_0000][index / 6 % 6];
        }
        check_rows(all, &format!("bmsk.{mode}.b32 %x, %a, %b;"), &rows, |[a, b, ..]| {
            let (start, end) = (count(a), count(a).saturating_add(count(b)));
            (0..32).filter(|at| (start..end).contains(at)).fold(0, |mask, at| mask | 1 << at)
        });
        check(all, &format!("szext.{mode}.u32 %x, %a, %b;"), |[a, b, ..]| {
            (0..32).filter(|at| *at < count(b)).fold(0, |result, at| result | a & 1 << at)
        });
        check(all, &format!("szext.{mode}.s32 %x, %a, %b;"), |[a, b, ..]| match count(b) {
            0 => 0,
            bits => signed(bits.min(32) as u32, a) as u64,
        });
    }
}

#[test]
fn what_does_not_exist_is_refused() {
    let wrong = [
        "add.sat.u32 %x, %a, %b;",
        "add.b32 %x, %a, %b;",
        "add.s32 %x, %a;",
        "neg.u32 %x, %a;",
        "mul.s32 %x, %a, %b;",
        "mul.lo.sat.s32 %x, %a, %b;",
        "mul24.lo.sat.s32 %x, %a, %b;",
        "mad.lo.sat.s32 %x, %a, %b, %c;",
        "min.relu.u32 %x, %a, %b;",
        "clz.u32 %x, %a;",
        "bmsk.b32 %x, %a, %b;",
        "bfe.b32 %x, %a, %b, %c;",
        "addc.sat.s32 %x, %a, %b;",
        "div.full.s32 %x, %a, %b;",
    ];
    for body in wrong {
        assert!(try_run(Widths::all(32), body, &[[1; 4]]).is_err(), "{body}");
    }
}
