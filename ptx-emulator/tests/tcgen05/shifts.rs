//! `tcgen05.shift`, `tcgen05.mma` with `.ashift`, and lanes of D that are left out.

use super::copies::{FENCE, descriptor, fill_image};
use super::order::{BEFORE, RACE, WAIT_LOAD, WAIT_STORE, by_thread, kernel};
use super::products::{
    self, AFTER, COMMIT, LOADED, N, SCALES, bf16, descriptors, halves, instruction, load, number,
    place, product,
};
use super::{Kernel, WORDS, free, registers, store, wait};

/// Columns that the kernels of `order.rs` have.
const COLUMNS: usize = 32;
const SHIFT: &str = "tcgen05.shift.cta_group::1.down [%tensor];";

/// The lane whose row a lane gets.
fn source(lane: usize) -> usize {
    if lane % 32 == 31 { lane } else { lane + 1 }
}

fn load_all() -> String {
    let list = registers(0, COLUMNS);
    format!("tcgen05.ld.sync.aligned.32x32b.x{COLUMNS}.b32 {list}, [%tensor];")
}

#[test]
fn rows_move_by_a_lane() {
    for first in [0, 1, 24] {
        let shift = format!(
            "add.u32 %r30, %tensor, {first}; tcgen05.shift.cta_group::1.down [%r30]; {COMMIT}"
        );
        let body = format!(
            "{}{}{AFTER}{}{WAIT_LOAD}{}",
            by_thread(64, &shift),
            wait(0),
            load_all(),
            store(0, COLUMNS)
        );
        let body = kernel(&body);
        for seed in 0..6 {
            let found = Kernel { seed, ..Kernel::new(&body) }.run();
            for (lane, words) in found.chunks(WORDS).enumerate() {
                for (column, word) in words.iter().take(COLUMNS).enumerate() {
                    let moved = (first..first + 8).contains(&column);
                    let from = if moved { source(lane) } else { lane };
                    assert_eq!(*word, (from << 16 | column) as u32, "lane {lane}, column {column}");
                }
            }
        }
    }
}

/// A multiplied, moved, filled up and multiplied again, without a wait: what convolutions do.
#[test]
fn products_of_rows_that_move() {
    let (once, mma) = (instruction(128, N), "tcgen05.mma.cta_group::1.kind::f16");
    let start = format!(
        "add.u32 %r30, %tensor, 96; tcgen05.cp.cta_group::1.128x256b [%r30], %d4;
         {mma} [%tensor], [%r30], %d5, {once}, 0;"
    );
    let more = format!("{mma} [%tensor], [%r30], %d5, {once}, 1;");
    let shift = "tcgen05.shift.cta_group::1.down [%r30];";
    let fill = format!(
        "{}add.u32 %r31, %r30, {}; tcgen05.cp.cta_group::1.4x256b [%r31], %d1;",
        descriptor(SCALES as u64, 128, 256, 0),
        31 << 16
    );
    let ashift = start.replace("kind::f16", "kind::f16.ashift");
    // A row of the last lanes, if they are filled up.
    let filled = |lane: usize| 500 + lane / 32;
    let mut input = halves([0, 0], [128, N]);
    for row in 0..4 {
        for k in 0..16 {
            let at = SCALES + place(row, 2 * k);
            input[at..at + 2].copy_from_slice(&bf16(number(0, filled(32 * row), k)));
        }
    }
    for (text, is_filled) in [
        (format!("{start}{shift}{more}"), false),
        (format!("{start}{shift}{fill}{more}"), true),
        (format!("{ashift}{more}"), false),
        (format!("{ashift}{fill}{more}"), true),
    ] {
        let body = products::kernel("", &text);
        for seed in 0..6 {
            let found = Kernel { seed, input: input.clone(), ..Kernel::new(&body) }.run();
            products::check(&found, 0, |m, n| {
                let next = match m % 32 {
                    31 if is_filled => filled(m),
                    _ => source(m),
                };
                (product(m, n, 16) + product(next, n, 16)) as f32
            });
        }
    }
}

/// What follows what without a wait.
#[test]
fn order_within_a_thread() {
    let form = instruction(128, N);
    let multiply = |d: &str, modifiers: &str| {
        format!("tcgen05.mma.cta_group::1.kind::f16{modifiers} [{d}], [%r30], %d5, {form}, 0;")
    };
    let (mma, ashift) = (multiply("%tensor", ""), multiply("%tensor", ".ashift"));
    let [copy, other_copy] =
        ["%r30", "%r31"].map(|place| format!("tcgen05.cp.cta_group::1.128x256b [{place}], %d4;"));
    let [shift, other_shift] =
        ["%r30", "%r31"].map(|place| format!("tcgen05.shift.cta_group::1.down [{place}];"));
    let narrow =
        format!("add.u32 %r32, %r30, {}; tcgen05.cp.cta_group::1.4x256b [%r32], %d4;", 31 << 16);
    let wait = format!(
        "{} BETWEEN: mbarrier.try_wait.parity.shared::cta.b64 %p5, [barriers+8], 0;
         @!%p5 bra BETWEEN; {AFTER}",
        COMMIT.replace("[barriers]", "[barriers+8]")
    );
    let elsewhere = format!("add.u32 %r33, %tensor, 32; {}", multiply("%r33", ""));
    let cases = [
        (format!("{copy}{mma}{shift}"), true),
        (format!("{copy}{mma}{shift}{mma}{shift}{mma}"), true),
        (format!("{copy}{mma}{shift}{narrow}{mma}"), true),
        (format!("{copy}{other_copy}{mma}{shift}{other_shift}{mma}"), true),
        (format!("{copy}{ashift}{narrow}{ashift}"), true),
        (format!("{copy}{shift}{mma}"), false),
        (format!("{copy}{wait}{shift}{mma}"), true),
        // The fence is missing.
        (format!("{copy}{}{shift}{mma}", wait.replace(AFTER, "")), false),
        (format!("{copy}{mma}{shift}{shift}{mma}"), false),
        (format!("{copy}{mma}{shift}{wait}{shift}{mma}"), true),
        (format!("{copy}{mma}{shift}{copy}{mma}"), false),
        (format!("{copy}{mma}{shift}{other_copy}{mma}"), true),
        (format!("{copy}{mma}{shift}{narrow}{shift}{mma}"), false),
        // The rows of A are what a product of another accumulator would read.
        (format!("{copy}{ashift}{elsewhere}"), false),
        (format!("{copy}{ashift}{wait}{elsewhere}"), true),
    ];
    let input = halves([0, 0], [128, N]);
    for (text, passes) in cases {
        let text = format!("add.u32 %r30, %tensor, 96; add.u32 %r31, %tensor, 104; {text}");
        let body = products::kernel("", &text);
        let kernel = Kernel { input: input.clone(), ..Kernel::new(&body) };
        if passes { kernel.passes() } else { kernel.fails("by the same thread") }
    }
}

/// Other threads have to be waited for.
#[test]
fn order_between_threads() {
    let shift = by_thread(32, &format!("{SHIFT}{COMMIT}"));
    let load = format!("{}{WAIT_LOAD}", load_all());
    let (end, other) = (wait(0), COMMIT.replace("[barriers]", "[barriers+8]"));
    Kernel::new(&kernel(&format!("{shift}{end}{AFTER}{load}"))).passes();
    // Readers.
    for body in [
        format!("{shift}{end}{load}"),
        format!("{shift}{AFTER}{load}{end}"),
        format!("{shift}bar.sync 0; {AFTER}{load}{end}"),
    ] {
        Kernel::new(&kernel(&body)).fails(RACE);
    }
    // Writers and readers before: of the words that move as of those that are replaced. A product
    // that moves A does the same.
    let only = |warp: u32, body: &str| {
        format!("setp.ne.u32 %p2, %warp, {warp}; @%p2 bra DONE; {body} DONE:")
    };
    let ashift = format!(
        "add.u32 %r61, %tensor, 16; tcgen05.mma.cta_group::1.kind::f16.ashift [%r61], [%tensor],
         %d1, {}, 0;",
        instruction(128, 8)
    );
    let transfers = [
        ("tcgen05.st.sync.aligned.32x32b.x1.b32 [%r60+7], {%r8};", WAIT_STORE),
        ("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r8}, [%r60+7];", WAIT_LOAD),
    ];
    for (text, waiting) in transfers {
        for work in [SHIFT, &ashift] {
            let begin = format!("add.u32 %r60, %tensor, {};{text}", 96 << 16);
            let ordered = |wait: &str, before: &str, after: &str| {
                let late = by_thread(32, &format!("{after}{work}{COMMIT}"));
                let early = only(3, &format!("{begin}{wait}"));
                format!("{early}{before} bar.sync 0; {late}{end}{waiting}")
            };
            Kernel::new(&kernel(&ordered(waiting, BEFORE, AFTER))).passes();
            for wrong in [
                ordered("", BEFORE, AFTER),
                ordered(waiting, "", AFTER),
                ordered(waiting, BEFORE, ""),
            ] {
                Kernel::new(&kernel(&wrong)).fails(RACE);
            }
            // The ninth column does not move.
            let beside = ordered("", BEFORE, AFTER).replace("+7]", "+8]");
            Kernel::new(&kernel(&beside)).passes();
        }
    }
    // Two threads that shift.
    let second = by_thread(64, &format!("{SHIFT}{other}"));
    Kernel::new(&kernel(&format!("{shift}{second}{end}{}", wait(1)))).fails(RACE);
    // Nobody has waited for it when its columns go.
    let left = kernel(&by_thread(0, SHIFT));
    let errors = (0..12).filter_map(|seed| Kernel { seed, ..Kernel::new(&left) }.try_run().err());
    assert!(errors.map(|own| own.to_string()).any(|own| own.contains("tcgen05.shift")));
}

#[test]
fn wrong_addresses() {
    let at = |text: &str| {
        let shift = SHIFT.replace("%tensor", "%r61");
        kernel(&format!("{}{}", by_thread(0, &format!("{text}{shift}{COMMIT}")), wait(0)))
    };
    Kernel::new(&at("mov.u32 %r61, %tensor;")).passes();
    for (text, part) in [
        ("add.u32 %r61, %tensor, 0x100000;", "whose lane 16 is not 0, 32, 64 or 96"),
        ("add.u32 %r61, %tensor, 0x200000;", "which lanes move then is not known"),
        ("mov.u32 %r61, 505;", "needs columns 505 to 512"),
        ("xor.b32 %r61, %tensor, 256;", "are not allocated"),
    ] {
        Kernel::new(&at(text)).fails(part);
    }
    // Two blocks need a pair.
    let pair = at("mov.u32 %r61, %tensor;").replace("cta_group::1", "cta_group::2");
    Kernel::new(&pair).fails("whose pair is not whole");
}

/// What nobody has written moves, too, and is reported when it is read.
#[test]
fn rows_that_nobody_has_written() {
    let body = |written: &str, read: &str| {
        format!(
            "{}{written} {BEFORE} bar.sync 0; {}{}{AFTER}{read} bar.sync 0;{}",
            super::allocate(32),
            by_thread(0, &format!("{AFTER}{SHIFT}{COMMIT}")),
            wait(0),
            free(32)
        )
    };
    // Lanes 0 to 15 of every quarter, as a product of 64 rows has them.
    let half = format!(
        "tcgen05.st.sync.aligned.16x64b.x4.b32 [%tensor], {};{WAIT_STORE}",
        registers(0, 4)
    );
    Kernel::new(&body(&half, "")).passes();
    let read =
        format!("tcgen05.ld.sync.aligned.16x64b.x4.b32 {}, [%tensor];{WAIT_LOAD}", registers(0, 4));
    Kernel::new(&body(&half, &read)).fails("or to the row that a shift has brought there");
    let nothing = body("", "");
    Kernel::new(&nothing).fails("tcgen05.shift of uninitialised tensor memory");
}

/// Rows of both blocks move, and each has lanes of D that stay.
#[test]
fn a_pair_of_blocks() {
    let form = instruction(256, N);
    let mma = "tcgen05.mma.cta_group::2.kind::f16";
    // The lanes 32 to 63 of the first block, 96 to 127 of the second.
    let masks = "mov.u32 %r70, 0; mov.u32 %r71, -1;";
    let list = "{%r70, %r71, %r70, %r70, %r70, %r70, %r70, %r71}";
    let commit = "mov.u16 %h1, 3;
        tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 \
        [barriers], %h1;";
    let work = format!(
        "{masks} add.u32 %r30, %tensor, 96; tcgen05.cp.cta_group::2.128x256b [%r30], %d4;
         {mma} [%tensor], [%r30], %d5, {form}, 0;
         tcgen05.shift.cta_group::2.down [%r30];
         {mma} [%tensor], [%r30], %d5, {form}, {list}, 1; {commit}"
    );
    let meet = "barrier.cluster.arrive; barrier.cluster.wait;";
    let body = format!(
        "setp.ne.u32 %p6, %warp, 0; @%p6 bra ALLOCATED;
         tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], 128;
         ALLOCATED: bar.sync 0; ld.shared.u32 %tensor, [slot];
         mov.u64 %d21, {}; cvt.u64.u32 %d22, %rank; mad.lo.u64 %input, %d21, %d22, %input;
         {}{}{meet}
         setp.ne.u32 %p4, %thread, 0; @%p4 bra MULTIPLIED;
         setp.ne.u32 %p4, %rank, 0; @%p4 bra MULTIPLIED;
         {work} MULTIPLIED:
         {}{AFTER}{}{LOADED}{}{meet}
         setp.ne.u32 %p6, %warp, 0; @%p6 bra FREED;
         tcgen05.dealloc.cta_group::2.sync.aligned.b32 %tensor, 128;
         FREED:",
        super::IMAGE,
        fill_image(FENCE),
        descriptors(),
        wait(0),
        load(),
        store(0, N)
    );
    let input = [0, 1].map(|rank| halves([128 * rank, N / 2 * rank], [128, N / 2])).concat();
    for seed in 0..6 {
        let found = Kernel { blocks: 2, seed, input: input.clone(), ..Kernel::new(&body) }.run();
        products::check(&found, 0, |m, n| {
            let stays = matches!(m, 32..64 | 224..256);
            let second = if stays { 0 } else { product(source(m), n, 16) };
            (product(m, n, 16) + second) as f32
        });
    }
}
