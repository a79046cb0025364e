//! `shfl`, `vote`, `match`, `redux`, `elect`, `activemask`.

use super::{Kernel, WARP, by_lane, refused, warp};

/// Every lane offers 100 plus its number; bit 16 of the result is the predicate.
fn shuffle(mode: &str, amount: u32, control: u32) -> Vec<u32> {
    warp(&format!(
        "add.u32 %r1, %lane, 100;
         shfl.sync.{mode}.b32 %x|%p1, %r1, {amount}, {control}, -1;
         @%p1 or.b32 %x, %x, 0x10000;"
    ))
}

/// Mode, offset or source, the operand with segment and bound, and whom each lane reads.
type Shuffle = (&'static str, u32, u32, fn(u32) -> Option<u32>);

#[test]
fn shuffles_read_the_lanes_they_name() {
    const IN_RANGE: u32 = 0x1_0064;
    const OWN: u32 = 100;
    let pick = |from: Option<u32>, lane: u32| from.map_or(lane + OWN, |from| from + IN_RANGE);
    let cases: [Shuffle; 13] = [
        ("bfly", 1, 31, |lane| Some(lane ^ 1)),
        ("bfly", 16, 31, |lane| Some((lane + 16) % 32)),
        // Across the end of a segment of 8 nothing in the segment lies above.
        ("bfly", 8, 0x181F, |lane| (lane & 8 != 0).then(|| lane - 8)),
        ("up", 5, 0, |lane| lane.checked_sub(5)),
        ("up", 3, 0x1800, |lane| (lane % 8 >= 3).then(|| lane - 3)),
        ("up", 37, 0, |lane| lane.checked_sub(5)),
        ("down", 5, 31, |lane| Some(lane + 5).filter(|from| *from < 32)),
        ("down", 3, 0x181F, |lane| (lane % 8 < 5).then(|| lane + 3)),
        ("down", 2, 11, |lane| Some(lane + 2).filter(|from| *from <= 11)),
        ("idx", 7, 31, |_| Some(7)),
        ("idx", 39, 31, |_| Some(7)),
        ("idx", 13, 0x181F, |lane| Some(lane / 8 * 8 + 5)),
        ("idx", 12, 11, |_| None),
    ];
    for (mode, amount, control, from) in cases {
        let expected = by_lane(|lane| pick(from(lane), lane));
        assert_eq!(shuffle(mode, amount, control), expected, "{mode} {amount} {control:#x}");
    }
}

#[test]
fn lanes_may_ask_for_different_lanes() {
    let body = "mul.lo.u32 %r1, %lane, 3; add.u32 %r1, %r1, 1; mov.u32 %r2, %lane;
                shfl.sync.idx.b32 %x, %r2, %r1, 31, -1;";
    assert_eq!(warp(body), by_lane(|lane| (lane * 3 + 1) % 32));
}

#[test]
fn a_lane_outside_is_not_read() {
    let body = "setp.lt.u32 %p1, %lane, 8;
                @!%p1 bra SKIP;
                shfl.sync.idx.b32 %x, %lane, 9, 31, 0xFF;
                SKIP:";
    Kernel { body, ..WARP }.fails("lane 0 reads from lane 9");
    // A lane that has exited is in the mask, but has no value.
    let body = "setp.eq.u32 %p1, %lane, 3;
                @%p1 exit;
                shfl.sync.down.b32 %x, %lane, 1, 31, -1;";
    Kernel { body, ..WARP }.fails("lane 2 reads from lane 3");
}

#[test]
fn lanes_wait_for_each_other() {
    // The halves come at different times, whatever the order.
    let body = "setp.lt.u32 %p1, %lane, 16;
                mov.u32 %r1, 1000;
                @%p1 bra MEET;
                add.u32 %r1, %r1, 7;
                add.u32 %r1, %r1, 7;
                MEET:
                shfl.sync.bfly.b32 %x, %r1, 16, 31, -1;";
    for seed in 0..20 {
        let words = Kernel { body, seed, ..WARP }.run();
        assert_eq!(words, by_lane(|lane| if lane < 16 { 1014 } else { 1000 }), "seed {seed}");
    }
    // Two groups with masks of their own need not wait for each other.
    let body = "setp.lt.u32 %p1, %lane, 16;
                mov.u32 %r1, 0xFFFF;
                @%p1 bra MEET;
                mov.u32 %r1, 0xFFFF0000;
                MEET:
                vote.sync.ballot.b32 %x, %p1, %r1;
                redux.sync.add.u32 %r2, %lane, %r1;
                add.u32 %x, %x, %r2;";
    for seed in 0..20 {
        let words = Kernel { body, seed, ..WARP }.run();
        let expected = by_lane(|lane| if lane < 16 { 0xFFFF + 120 } else { 376 });
        assert_eq!(words, expected, "seed {seed}");
    }
}

#[test]
fn wrong_masks_are_reported() {
    for (body, part) in [
        ("vote.sync.ballot.b32 %x, 1, 0xFFFFFFFE;", "lane 0 is not in the mask 0xfffffffe"),
        (
            "mov.u32 %r1, -1; setp.eq.u32 %p1, %lane, 5; @%p1 mov.u32 %r1, 0x20;
             redux.sync.or.b32 %x, %lane, %r1;",
            "lane 5 is in the mask",
        ),
        (
            "setp.eq.u32 %p1, %lane, 5; @%p1 bra SKIP; elect.sync _|%p2, -1; SKIP:
             bar.warp.sync -1;",
            "deadlock",
        ),
    ] {
        Kernel { body, ..WARP }.fails(part);
    }
}

#[test]
fn votes_count_the_lanes_of_the_mask() {
    for (set, all, any, uniform) in [
        (0u32, false, false, true),
        (u32::MAX, true, true, true),
        (0x8000_0000, false, true, false),
        (0x7FFF_FFFF, false, true, false),
    ] {
        let body = format!(
            "mov.u32 %r1, %lanemask_eq; and.b32 %r1, %r1, {set:#x}; setp.ne.u32 %p1, %r1, 0;
             vote.sync.all.pred %p2, %p1, -1; @%p2 or.b32 %x, %x, 1;
             vote.sync.any.pred %p2, %p1, -1; @%p2 or.b32 %x, %x, 2;
             vote.sync.uni.pred %p2, %p1, -1; @%p2 or.b32 %x, %x, 4;
             vote.sync.any.pred %p2, !%p1, -1; @%p2 or.b32 %x, %x, 8;
             vote.sync.ballot.b32 %r2, %p1, -1; setp.eq.u32 %p2, %r2, {set:#x};
             @%p2 or.b32 %x, %x, 16;"
        );
        let bits = [all, any, uniform, !all, true].map(u32::from);
        let expected = bits.iter().rev().fold(0, |word, bit| word << 1 | bit);
        assert_eq!(warp(&body), vec![expected; 32], "{set:#x}");
    }
    // Lanes that are not in the mask do not count.
    let body = "setp.lt.u32 %p1, %lane, 12; @!%p1 bra SKIP;
                setp.ge.u32 %p2, %lane, 4; vote.sync.ballot.b32 %x, %p2, 0xFFF; SKIP:";
    assert_eq!(warp(body), by_lane(|lane| if lane < 12 { 0xFF0 } else { 0 }));
}

#[test]
fn matches_find_equal_values() {
    let body = "and.b32 %r1, %lane, 3; match.any.sync.b32 %x, %r1, -1;";
    assert_eq!(warp(body), by_lane(|lane| 0x1111_1111 << (lane % 4)));
    // Values that differ in the high half only.
    let body = "shr.u32 %r1, %lane, 4; mov.b64 %d1, {7, %r1}; match.any.sync.b64 %x, %d1, -1;";
    assert_eq!(warp(body), by_lane(|lane| if lane < 16 { 0xFFFF } else { 0xFFFF_0000 }));
    for (limit, expected) in [(32, 0xFFFF_FFFF), (31, 0)] {
        let body = format!(
            "setp.lt.u32 %p1, %lane, {limit}; selp.b32 %r1, 5, 6, %p1;
             match.all.sync.b32 %x|%p2, %r1, -1;
             vote.sync.all.pred %p3, %p2, -1; vote.sync.uni.pred %p4, %p2, -1;
             @!%p4 mov.u32 %x, 1; @%p3 xor.b32 %x, %x, 0xFF;"
        );
        let expected = if limit == 32 { expected ^ 0xFF } else { expected };
        assert_eq!(warp(&body), vec![expected; 32]);
    }
}

#[test]
fn reductions_combine_all_lanes() {
    // Lane n has n - 16.
    for (form, expected) in [
        ("add.s32", (-16i32) as u32),
        ("add.u32", (-16i32) as u32),
        ("min.s32", (-16i32) as u32),
        ("max.s32", 15),
        ("min.u32", 0),
        ("max.u32", u32::MAX),
        ("and.b32", 0),
        ("or.b32", u32::MAX),
        ("xor.b32", 0),
    ] {
        let body = format!("sub.u32 %r1, %lane, 16; redux.sync.{form} %x, %r1, -1;");
        assert_eq!(warp(&body), vec![expected; 32], "{form}");
    }
    refused("redux.sync.add.b32 %x, %lane, -1;", "does not have this type");
    let body = "redux.sync.min.NaN.f32 %x, %lane, -1;";
    refused(body, "needs the target sm_100a");
}

#[test]
fn one_lane_is_elected() {
    let body = "setp.ge.u32 %p1, %lane, 12; @!%p1 bra SKIP;
                elect.sync %x|%p2, 0xFFFFF000; @%p2 add.u32 %x, %x, 100; SKIP:";
    let expected = by_lane(|lane| match lane {
        0..12 => 0,
        12 => 112,
        _ => 12,
    });
    assert_eq!(warp(body), expected);
    let body = "elect.sync _|%p2, -1; @%p2 mov.u32 %x, 9;";
    assert_eq!(warp(body), by_lane(|lane| if lane == 0 { 9 } else { 0 }));
}

#[test]
fn the_executing_lanes_are_active() {
    let body = "setp.lt.u32 %p1, %lane, 5; @%p1 activemask.b32 %x;";
    assert_eq!(warp(body), by_lane(|lane| if lane < 5 { 31 } else { 0 }));
}

#[test]
fn shuffles_do_not_order_memory() {
    let module = ".shared .align 4 .b8 cells[128];";
    let body = |between: &str| {
        format!(
            "mov.u32 %r1, cells; mad.lo.u32 %r2, %lane, 4, %r1; st.shared.b32 [%r2], %lane;
             {between}
             xor.b32 %r3, %lane, 1; mad.lo.u32 %r2, %r3, 4, %r1; ld.shared.b32 %x, [%r2];"
        )
    };
    let ordered = body("bar.warp.sync -1;");
    let words = Kernel { module, body: &ordered, ..WARP }.run();
    assert_eq!(words, by_lane(|lane| lane ^ 1));
    // Each half of the warp has a barrier of its own in one instruction.
    let halves = |other: u32| {
        body(
            "setp.lt.u32 %p1, %lane, 16; selp.b32 %r8, 0xFFFF, 0xFFFF0000, %p1;
             bar.warp.sync %r8;",
        )
        .replace("%lane, 1;", &format!("%lane, {other};"))
    };
    let words = Kernel { module, body: &halves(1), ..WARP }.run();
    assert_eq!(words, by_lane(|lane| lane ^ 1));
    Kernel { module, body: &halves(16), ..WARP }.fails("data race");
    let unordered = body("shfl.sync.idx.b32 %r9, %lane, 0, 31, -1;");
    Kernel { module, body: &unordered, ..WARP }.fails("data race");
}
