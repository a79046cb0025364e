//! `atom` and `red`.

use super::{Kernel, WARP, by_lane, refused};

/// A cell of global or shared memory goes from `start` through one operation of one thread. Returns
/// what the operation returned and what the cell holds then, each 16 bytes.
fn once(space: &str, form: &str, start: u128, operands: &[u128]) -> (u128, u128) {
    let bits = [("b128", 128), ("64", 64), ("16x2", 32), ("16", 16)];
    let bits = bits.iter().find(|(end, _)| form.ends_with(end)).map_or(32, |(_, bits)| *bits);
    let register = match bits {
        128 => "%q",
        64 => "%d",
        16 => "%h",
        _ => "%r",
    };
    let words = |value: u128| [0, 32, 64, 96].map(|shift| (value >> shift) as u32);
    let set = |name: String, value: u128| match bits {
        128 => {
            let [a, b, c, d] = words(value);
            format!(
                "mov.b128 {name}, {{%d0, %d0}}; mov.b64 %d1, {{{a}, {b}}};
                     mov.b64 %d2, {{{c}, {d}}}; mov.b128 {name}, {{%d1, %d2}};"
            )
        }
        _ => format!("mov.b{bits} {name}, {};", value as u64),
    };
    let sources: String = operands
        .iter()
        .enumerate()
        .map(|(index, value)| set(format!("{register}{}", 4 + index), *value))
        .collect();
    let names: String = (0..operands.len()).map(|own| format!(", {register}{}", 4 + own)).collect();
    let [a, b, c, d] = words(start);
    let (returns, store) = match form.starts_with("atom") {
        true => (format!("{register}8, "), format!("st.global.b{bits} [%d11], {register}8;")),
        false => (String::new(), String::new()),
    };
    let store = match bits {
        128 => "mov.b128 {%d1, %d2}, %q8; st.global.v2.b64 [%d11], {%d1, %d2};".to_owned(),
        _ => store,
    };
    // Thread 0 works; the four words of result and cell go to the output through all threads.
    let body = format!(
        ".reg .b128 %q<12>;
         mov.b64 %d0, 0;
         setp.ne.u32 %p1, %lane, 0; @%p1 bra DONE;
         mov.u64 %d11, result; mov.u64 %d10, cell;
         st.{space}.v4.b32 [%d10], {{{a}, {b}, {c}, {d}}};
         {sources}
         {form} {returns}[%d10]{names};
         {store}
         ld.{space}.v4.b32 {{%r20, %r21, %r22, %r23}}, [%d10];
         st.global.v4.b32 [%d11+16], {{%r20, %r21, %r22, %r23}};
         DONE:
         bar.sync 0;
         mov.u64 %d11, result; mul.wide.u32 %d10, %lane, 4; add.u64 %d11, %d11, %d10;
         setp.lt.u32 %p1, %lane, 8; @%p1 ld.global.b32 %x, [%d11];"
    );
    let module = format!(".{space} .align 16 .b8 cell[16];\n.global .align 16 .b8 result[32];");
    let words = Kernel { module: &module, body: &body, ..WARP }.run();
    let number =
        |words: &[u32]| words.iter().rev().fold(0, |all, own| all << 32 | u128::from(*own));
    let low = if bits == 128 { u128::MAX } else { (1 << bits) - 1 };
    (number(&words[..4]) & low, number(&words[4..8]))
}

/// Form, what the cell held, the operands, and what it holds then.
type Row = (&'static str, u128, &'static [u128], u128);

const MINUS_ONE: u128 = 0xFFFF_FFFF;
const MINUS_ONE_64: u128 = 0xFFFF_FFFF_FFFF_FFFF;
const WIDE: u128 = 0x1234_5678_9ABC_DEF0_0FED_CBA9_8765_4321;

const ROWS: &[Row] = &[
    ("add.u32", MINUS_ONE, &[2], 1),
    ("add.s32", 5, &[MINUS_ONE], 4),
    ("add.u64", MINUS_ONE, &[2], 0x1_0000_0001),
    ("and.b32", 0xFF00, &[0x0FF0], 0x0F00),
    ("or.b64", 0xFF << 40, &[1], 0xFF << 40 | 1),
    ("xor.b32", 0xFF00, &[0x0FF0], 0xF0F0),
    ("min.s32", 3, &[MINUS_ONE], MINUS_ONE),
    ("min.u32", 3, &[MINUS_ONE], 3),
    ("max.s32", 3, &[MINUS_ONE], 3),
    ("max.u32", 3, &[MINUS_ONE], MINUS_ONE),
    ("min.s64", 3, &[MINUS_ONE_64], MINUS_ONE_64),
    ("max.u64", 3, &[MINUS_ONE_64], MINUS_ONE_64),
    ("inc.u32", 4, &[5], 5),
    ("inc.u32", 5, &[5], 0),
    ("inc.u32", 9, &[5], 0),
    ("dec.u32", 5, &[5], 4),
    ("dec.u32", 0, &[5], 5),
    ("dec.u32", 6, &[5], 5),
    // 1.5 + 2.25, in every format.
    ("add.f32", 0x3FC0_0000, &[0x4010_0000], 0x4070_0000),
    ("add.f64", 0x3FF8 << 48, &[0x4002 << 48], 0x400E << 48),
    ("add.noftz.f16", 0x3E00, &[0x4080], 0x4380),
    ("add.noftz.bf16", 0x3FC0, &[0x4010], 0x4070),
    // The halves of a pair do not carry into each other.
    ("add.noftz.f16x2", 0x3C00_3E00, &[0xBC00_4080], 0x0000_4380),
    ("add.noftz.bf16x2", 0x3F80_3FC0, &[0x3F80_4010], 0x4000_4070),
    // Subnormal numbers of 16 bits stay.
    ("add.noftz.f16", 1, &[2], 3),
];

/// What only `atom` has.
const SWAPS: &[Row] = &[
    ("exch.b32", 7, &[8], 8),
    ("exch.b64", 7, &[8 << 40], 8 << 40),
    ("exch.b128", WIDE, &[!WIDE], !WIDE),
    ("cas.b16", 7, &[7, 9], 9),
    ("cas.b16", 7, &[6, 9], 7),
    ("cas.b32", 7, &[7, 9], 9),
    ("cas.b32", 7, &[8, 9], 7),
    ("cas.b64", 7 << 40, &[7 << 40, 9], 9),
    ("cas.b64", 7 << 40, &[7, 9], 7 << 40),
    ("cas.b128", WIDE, &[WIDE, 5], 5),
    ("cas.b128", WIDE, &[WIDE ^ 1 << 100, 5], WIDE),
];

#[test]
fn each_operation_changes_its_cell() {
    for space in ["global", "shared"] {
        for &(form, start, operands, after) in ROWS {
            let red = format!("red.{space}.{form}");
            assert_eq!(once(space, &red, start, operands).1, after, "{red} of {start:#x}");
        }
        for &(form, start, operands, after) in ROWS.iter().chain(SWAPS) {
            let atom = format!("atom.{space}.{form}");
            assert_eq!(once(space, &atom, start, operands), (start, after), "{atom} of {start:#x}");
        }
    }
}

/// "Current implementation of atom.add.f32 on global memory flushes subnormal inputs and results";
/// in shared memory they stay.
#[test]
fn sums_of_subnormal_numbers_depend_on_the_memory() {
    const SUBNORMAL: u128 = 0x0040_0000;
    for (space, after) in [("global", 0), ("shared", 2 * SUBNORMAL)] {
        let form = format!("atom.{space}.add.f32");
        let result = once(space, &form, SUBNORMAL, &[SUBNORMAL]);
        assert_eq!(result, (SUBNORMAL, after), "{form}");
        // The smallest normal number less half of it.
        let after = if after == 0 { 0x0080_0000 } else { SUBNORMAL };
        let operand = 0x8000_0000 | SUBNORMAL;
        assert_eq!(once(space, &form, 0x0080_0000, &[operand]).1, after, "{form}");
    }
}

#[test]
fn orders_scopes_and_hints_are_accepted() {
    for form in [
        "atom.relaxed.cta.global.add.u32",
        "atom.acquire.cluster.global.add.u32",
        "atom.release.gpu.global.add.u32",
        "atom.acq_rel.sys.global.add.u32",
        "red.release.gpu.global.add.u32",
        "red.relaxed.sys.global.add.u32",
    ] {
        assert_eq!(once("global", form, 40, &[2]).1, 42, "{form}");
    }
    let body = "mov.b64 %d1, 0; atom.global.add.L2::cache_hint.u32 %x, [%out], 0, %d1;";
    assert_eq!(Kernel { body, threads: 1, ..WARP }.run().len(), 1);
    for (body, part) in [
        ("red.acquire.gpu.global.add.u32 [%out], 1;", "acquire"),
        ("red.global.exch.b32 [%out], 1;", "operation"),
        ("atom.global.add.s64 %d1, [%out], 1;", "type"),
        ("atom.global.and.u32 %r1, [%out], 1;", "type"),
        ("atom.global.add.f16 %h1, [%out], %h2;", "noftz"),
        ("atom.local.add.u32 %r1, [%out], 1;", "global and shared"),
        ("atom.global.min.noftz.f16 %h1, [%out], %h2;", "type"),
        ("red.shared.add.v2.f32 [%r1], {%r1, %r2};", "global"),
    ] {
        refused(body, part);
    }
}

#[test]
fn vectors_are_changed_element_by_element() {
    let module = ".global .align 16 .b8 cell[16];";
    for (form, start, operand, after) in [
        (
            "add.v4.f32",
            // 1, 2, 3, 4 plus 1, 1, 1, -4.
            [0x3F80_0000u32, 0x4000_0000, 0x4040_0000, 0x4080_0000],
            [0x3F80_0000u32, 0x3F80_0000, 0x3F80_0000, 0xC080_0000],
            [0x4000_0000u32, 0x4040_0000, 0x4080_0000, 0],
        ),
        (
            "min.noftz.v4.f16x2",
            [0x3C00_4000, 0x4000_3C00, 0xBC00_C000, 0x7E00_0001],
            [0x4000_3C00, 0x4000_3C00, 0xC000_BC00, 0x3C00_0002],
            [0x3C00_3C00, 0x4000_3C00, 0xC000_C000, 0x3C00_0001],
        ),
    ] {
        let [a, b, c, d] = start;
        let [e, f, g, h] = operand;
        let body = format!(
            "mov.u64 %d1, cell; setp.ne.u32 %p1, %lane, 0; @%p1 bra DONE;
             st.global.v4.b32 [%d1], {{{a}, {b}, {c}, {d}}};
             mov.u32 %r4, {e}; mov.u32 %r5, {f}; mov.u32 %r6, {g}; mov.u32 %r7, {h};
             atom.global.{form} {{%r8, %r9, %r10, %r11}}, [%d1], {{%r4, %r5, %r6, %r7}};
             setp.ne.u32 %p2, %r8, {a}; @%p2 trap;
             setp.ne.u32 %p2, %r11, {d}; @%p2 trap;
             DONE: bar.sync 0; and.b32 %r1, %lane, 3; mul.wide.u32 %d2, %r1, 4;
             add.u64 %d1, %d1, %d2; ld.global.b32 %x, [%d1];"
        );
        let words = Kernel { module, body: &body, ..WARP }.run();
        assert_eq!(words[..4], after, "{form}");
    }
    let body = "mov.u64 %d1, cell; setp.ne.u32 %p1, %lane, 0; @%p1 bra DONE;
                st.global.v4.b32 [%d1], {0x40003C00, 0, 0, 0xBC000000};
                mov.b16 %h0, 0x3C00;
                red.global.add.noftz.v8.f16 [%d1], {%h0, %h0, %h0, %h0, %h0, %h0, %h0, %h0};
                DONE: bar.sync 0; and.b32 %r1, %lane, 3; mul.wide.u32 %d2, %r1, 4;
                add.u64 %d1, %d1, %d2; ld.global.b32 %x, [%d1];";
    let words = Kernel { module, body, ..WARP }.run();
    assert_eq!(words[..4], [0x4200_4000, 0x3C00_3C00, 0x3C00_3C00, 0x0000_3C00]);
    let body = "red.global.add.v4.f32 [%out+8], {%r1, %r2, %r3, %r4};";
    Kernel { body, ..WARP }.fails("not aligned to 16 bytes");
}

#[test]
fn every_thread_gets_a_ticket_of_its_own() {
    let module = ".global .align 4 .b32 next;";
    let body = "mov.u64 %d1, next; atom.global.inc.u32 %x, [%d1], 1000;";
    let mut orders = Vec::new();
    for seed in 0..8 {
        let mut words = Kernel { module, body, blocks: 4, threads: 64, seed, ..WARP }.run();
        orders.push(words.clone());
        words.sort_unstable();
        assert_eq!(words, (0..256).collect::<Vec<_>>(), "seed {seed}");
    }
    // Nothing promises who is first, so not every seed has the same lane first.
    let first = |words: &Vec<u32>| words.iter().position(|own| *own == 0);
    assert!(orders.iter().any(|words| first(words) != first(&orders[0])));
}

#[test]
fn generic_addresses_reach_global_and_shared_memory_only() {
    for space in ["global", "shared"] {
        let module = format!(".{space} .align 4 .b8 cell[4];");
        let body = format!(
            "mov.u64 %d1, cell; cvta.{space}.u64 %d1, %d1; mov.u32 %r1, 7;
             setp.eq.u32 %p1, %lane, 0; @%p1 st.b32 [%d1], %r1; bar.sync 0;
             red.add.u32 [%d1], 1; bar.sync 0; ld.b32 %x, [%d1];"
        );
        assert_eq!(Kernel { module: &module, body: &body, ..WARP }.run(), by_lane(|_| 39));
    }
    let body = ".local .align 4 .b8 own[4]; mov.u64 %d1, own; cvta.local.u64 %d1, %d1;
                st.b32 [%d1], 0; red.add.u32 [%d1], 1;";
    Kernel { body, ..WARP }.fails("an atomic operation in local memory");
}

/// Threads take turns with a counter that a lock guards.
fn lock(acquire: &str, release: &str) -> String {
    format!(
        "mov.u64 %d1, lock; mov.u64 %d2, count;
         AGAIN: atom.{acquire}.gpu.global.cas.b32 %r3, [%d1], 0, 1;
         setp.ne.u32 %p1, %r3, 0; @%p1 bra AGAIN;
         ld.global.b32 %x, [%d2]; add.u32 %x, %x, 1; st.global.b32 [%d2], %x;
         atom.{release}.gpu.global.exch.b32 %r3, [%d1], 0;"
    )
}

#[test]
fn a_lock_orders_what_it_guards_if_it_acquires_and_releases() {
    let module = ".global .align 4 .b32 lock;\n.global .align 4 .b32 count;";
    for seed in 0..4 {
        let body = &lock("acquire", "release");
        let mut words = Kernel { module, body, blocks: 2, threads: 32, seed, ..WARP }.run();
        words.sort_unstable();
        assert_eq!(words, (1..=64).collect::<Vec<_>>());
        for (acquire, release) in [("relaxed", "release"), ("acquire", "relaxed")] {
            let body = &lock(acquire, release);
            Kernel { module, body, blocks: 2, threads: 32, seed, ..WARP }.fails("data race");
        }
    }
}

#[test]
fn plain_accesses_beside_atomics_race() {
    let module = ".global .align 4 .b32 cell;";
    let body = "mov.u64 %d1, cell; red.global.add.u32 [%d1], 1; ld.global.b32 %x, [%d1];";
    Kernel { module, body, threads: 64, ..WARP }.fails("data race");
    let body = "mov.u64 %d1, cell; red.global.add.u32 [%d1], 1; bar.sync 0;
                ld.global.b32 %x, [%d1];";
    assert_eq!(Kernel { module, body, threads: 64, ..WARP }.run(), vec![64; 64]);
}
