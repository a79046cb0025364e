//! Barriers of blocks and clusters, mbarriers, and fences.

use crate::cases::{Case, words};

pub fn cases() -> Vec<Case> {
    let mut cases = blocks();
    cases.extend(mbarriers());
    cases.extend(remote());
    cases.extend(fences());
    cases
}

/// 128 threads; before the tested instructions each stores its number, afterwards it reads that of
/// thread 127 - n.
fn blocks() -> Vec<Case> {
    let exchange = |middle: &str| {
        format!(
            "    .shared .align 4 .b8 tile[512];
    mov.u32 %r3, tile;
    mad.lo.u32 %r4, %thread, 4, %r3;
    mad.lo.u32 %r5, %thread, 7, 1;
    st.shared.b32 [%r4], %r5;
{middle}
    xor.b32 %r6, %thread, 127;
    mad.lo.u32 %r6, %r6, 4, %r3;
    ld.shared.b32 %x, [%r6];"
        )
    };
    let mut cases = Vec::new();
    for middle in [
        "bar.sync 0;",
        "bar.sync 3;",
        "bar.sync 15, 128;",
        "barrier.sync 1;",
        "barrier.sync 2, 128;",
        "barrier.sync.aligned 4;",
        "barrier.cta.sync 5;",
        "bar.cta.sync 6;",
        "mov.u32 %r9, 7; bar.sync %r9;",
        "mov.u32 %r9, 7; mov.u32 %r10, 128; barrier.sync %r9, %r10;",
    ] {
        let body = exchange(&format!("    {middle}"));
        cases.push(words(&format!("barriers/{middle}"), 128, "", &body));
    }
    // Warps 0 and 1 produce, warps 2 and 3 consume.
    for (arrive, sync) in [
        ("bar.arrive 1, 128", "bar.sync 1, 128"),
        ("barrier.arrive 1, 128", "barrier.sync 1, 128"),
        ("barrier.arrive.aligned 1, 128", "barrier.sync.aligned 1, 128"),
    ] {
        let body = format!(
            "    .shared .align 4 .b8 tile[512];
    mov.u32 %r3, tile;
    mad.lo.u32 %r4, %thread, 4, %r3;
    mov.u32 %x, 0;
    setp.ge.u32 %p1, %thread, 64;
    @%p1 bra CONSUME;
    mad.lo.u32 %r5, %thread, 7, 1;
    st.shared.b32 [%r4], %r5;
    {arrive};
    bra DONE;
CONSUME:
    {sync};
    ld.shared.b32 %x, [%r4+-256];
DONE:"
        );
        cases.push(words(&format!("barriers/{arrive}"), 128, "", &body));
    }
    for (name, reduce) in [
        ("bar.red.popc.u32", "bar.red.popc.u32 %x, 0, %p1;"),
        ("bar.red.popc.u32 negated, counted", "bar.red.popc.u32 %x, 2, 128, !%p1;"),
        ("bar.red.and.pred", "bar.red.and.pred %p2, 0, %p1; selp.b32 %x, 1, 0, %p2;"),
        ("bar.red.or.pred", "bar.red.or.pred %p2, 0, %p1; selp.b32 %x, 1, 0, %p2;"),
        ("barrier.red.popc.u32", "barrier.red.popc.u32 %x, 0, %p1;"),
        ("barrier.red.or.pred", "barrier.red.or.pred %p2, 1, 128, %p1; selp.b32 %x, 1, 0, %p2;"),
        (
            "barrier.cta.red.and.pred",
            "barrier.cta.red.and.pred %p2, 1, 128, !%p1; selp.b32 %x, 1, 0, %p2;",
        ),
    ] {
        let body = format!("    setp.gt.u32 %p1, %thread, 90;\n    {reduce}");
        cases.push(words(&format!("barriers/{name}"), 128, "", &body));
    }
    cases
}

const SETUP: &str = "    .shared .align 8 .b8 bars[64];
    mov.u32 %r10, bars;
    mov.u32 %x, 0;
    setp.eq.u32 %p1, %r2, 0;
";

/// One thread takes a barrier through its life and notes after each step whether phases 0 and 1 are
/// complete: two bits a step.
fn mbarriers() -> Vec<Case> {
    let note = "
    mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r10], 0;
    selp.b32 %r11, 1, 0, %p2;
    mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r10], 1;
    selp.b32 %r12, 2, 0, %p2;
    shl.b32 %x, %x, 2;
    or.b32 %x, %x, %r11;
    or.b32 %x, %x, %r12;
";
    let lives: &[(&str, u32, &[&str])] = &[
        ("init", 2, &[""]),
        ("arrive", 2, &["mbarrier.arrive.shared::cta.b64 %d1, [%r10];"; 5]),
        ("arrive without shared::cta", 2, &["mbarrier.arrive.shared.b64 _, [%r10];"; 5]),
        ("arrive with a count", 6, &["mbarrier.arrive.shared::cta.b64 _, [%r10], 3;"; 4]),
        ("arrive.release.cta", 1, &["mbarrier.arrive.release.cta.shared::cta.b64 _, [%r10];"; 3]),
        (
            "arrive.release.cluster",
            1,
            &["mbarrier.arrive.release.cluster.shared::cta.b64 _, [%r10];"; 3],
        ),
        (
            "arrive.relaxed.cluster",
            1,
            &["mbarrier.arrive.relaxed.cluster.shared::cta.b64 _, [%r10], 1;"; 3],
        ),
        (
            "arrive.expect_tx and complete_tx",
            1,
            &[
                "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], 48;",
                "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r10], 32;",
                "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r10], 16;",
                "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 %d1, [%r10], 8;",
                "mbarrier.complete_tx.relaxed.cluster.shared::cta.b64 [%r10], 8;",
            ],
        ),
        (
            "expect_tx",
            1,
            &[
                "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r10], 100;",
                "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r10], 60;",
                "mbarrier.arrive.shared::cta.b64 _, [%r10];",
                "mbarrier.expect_tx.relaxed.cluster.shared::cta.b64 [%r10], 4;",
                "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r10], 44;",
            ],
        ),
        (
            "complete_tx before expect_tx",
            1,
            &[
                "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r10], 64;",
                "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r10], 64;",
                "mbarrier.arrive.shared::cta.b64 _, [%r10];",
            ],
        ),
        (
            "arrive_drop",
            3,
            &[
                "mbarrier.arrive_drop.shared::cta.b64 %d1, [%r10];",
                "mbarrier.arrive.shared::cta.b64 _, [%r10], 2;",
                "mbarrier.arrive.shared::cta.b64 _, [%r10], 2;",
                "mbarrier.arrive_drop.release.cta.shared::cta.b64 _, [%r10], 1;",
                "mbarrier.arrive.shared::cta.b64 _, [%r10];",
                "mbarrier.arrive.shared::cta.b64 _, [%r10];",
            ],
        ),
        (
            "arrive_drop.expect_tx",
            2,
            &[
                "mbarrier.arrive_drop.expect_tx.shared::cta.b64 %d1, [%r10], 32;",
                "mbarrier.arrive.shared::cta.b64 _, [%r10];",
                "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r10], 32;",
                "mbarrier.arrive.shared::cta.b64 _, [%r10];",
            ],
        ),
        (
            "arrive.noComplete",
            4,
            &[
                "mbarrier.arrive.noComplete.shared::cta.b64 %d1, [%r10], 3;",
                "mbarrier.arrive.shared::cta.b64 _, [%r10];",
                "mbarrier.arrive_drop.noComplete.shared::cta.b64 %d1, [%r10], 2;",
                "mbarrier.arrive.shared::cta.b64 _, [%r10], 2;",
                "mbarrier.arrive.shared::cta.b64 _, [%r10], 2;",
            ],
        ),
        (
            "inval and init again",
            1,
            &[
                "mbarrier.arrive.shared::cta.b64 _, [%r10];",
                "mbarrier.inval.shared::cta.b64 [%r10]; mbarrier.init.shared::cta.b64 [%r10], 2;",
                "mbarrier.arrive.shared::cta.b64 _, [%r10];",
                "mbarrier.arrive.shared::cta.b64 _, [%r10];",
            ],
        ),
    ];
    let mut cases = Vec::new();
    for (name, count, steps) in lives {
        let steps: String = steps.iter().map(|step| format!("    {step}{note}")).collect();
        let body = format!(
            "{SETUP}    @!%p1 bra DONE;
    mbarrier.init.shared::cta.b64 [%r10], {count};
{steps}DONE:"
        );
        cases.push(words(&format!("barriers/mbarrier {name}"), 32, "", &body));
    }
    cases.extend(states());
    cases.extend(shared_by_threads());
    cases
}

/// The state that arriving returns: its pending count, and whether its phase has ended.
fn states() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, wait) in [
        ("test_wait", "mbarrier.test_wait.shared::cta.b64 %p2, [%r10], %d1;"),
        (
            "test_wait.acquire.cluster",
            "mbarrier.test_wait.acquire.cluster.shared::cta.b64 %p2, [%r10], %d1;",
        ),
        ("try_wait", "mbarrier.try_wait.shared::cta.b64 %p2, [%r10], %d1, 100;"),
        (
            "try_wait.acquire.cta",
            "mbarrier.try_wait.acquire.cta.shared::cta.b64 %p2, [%r10], %d1, 100;",
        ),
        (
            "test_wait.relaxed.cta",
            "mbarrier.test_wait.relaxed.cta.shared::cta.b64 %p2, [%r10], %d1;",
        ),
    ] {
        let body = format!(
            "{SETUP}    @!%p1 bra DONE;
    mbarrier.init.shared::cta.b64 [%r10], 3;
    mbarrier.arrive.shared::cta.b64 %d1, [%r10];
    {wait}
    selp.b32 %r11, 1, 0, %p2;
    mbarrier.arrive.shared::cta.b64 _, [%r10], 2;
    {wait}
    selp.b32 %r12, 2, 0, %p2;
    or.b32 %x, %r11, %r12;
DONE:"
        );
        cases.push(words(&format!("barriers/mbarrier.{name} of a state"), 32, "", &body));
    }
    let body = format!(
        "{SETUP}    @!%p1 bra DONE;
    mbarrier.init.shared::cta.b64 [%r10], 9;
    mbarrier.arrive.noComplete.shared::cta.b64 %d1, [%r10], 2;
    mbarrier.arrive.shared::cta.b64 %d2, [%r10], 3;
    mbarrier.arrive_drop.shared::cta.b64 %d3, [%r10];
    mbarrier.arrive.shared::cta.b64 %d4, [%r10], 3;
    mbarrier.arrive.shared::cta.b64 %d5, [%r10];
    mbarrier.pending_count.b64 %r11, %d1;
    mad.lo.u32 %x, %x, 16, %r11;
    mbarrier.pending_count.b64 %r11, %d2;
    mad.lo.u32 %x, %x, 16, %r11;
    mbarrier.pending_count.b64 %r11, %d3;
    mad.lo.u32 %x, %x, 16, %r11;
    mbarrier.pending_count.b64 %r11, %d4;
    mad.lo.u32 %x, %x, 16, %r11;
    mbarrier.pending_count.b64 %r11, %d5;
    mad.lo.u32 %x, %x, 16, %r11;
DONE:"
    );
    cases.push(words("barriers/mbarrier.pending_count", 32, "", &body));
    for (name, wait) in [
        ("try_wait.parity", "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r10], 0;"),
        (
            "try_wait.parity with a time",
            "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r10], 0, 1000;",
        ),
        (
            "try_wait.parity.acquire.cta",
            "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p2, [%r10], 0;",
        ),
        (
            "try_wait.parity.acquire.cluster",
            "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r10], 0;",
        ),
        (
            "try_wait.parity.relaxed.cluster",
            "mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 %p2, [%r10], 0;",
        ),
        (
            "test_wait.parity.acquire.cta",
            "mbarrier.test_wait.parity.acquire.cta.shared::cta.b64 %p2, [%r10], 0;",
        ),
        ("test_wait.parity of a generic address", "mbarrier.test_wait.parity.b64 %p2, [%d9], 0;"),
    ] {
        // A relaxed wait orders nothing, a fence behind it does.
        let fence = if wait.contains("relaxed") { "fence.acq_rel.cluster;" } else { "" };
        // All threads produce and wait, and read what another produced.
        let body = format!(
            "{SETUP}    .shared .align 4 .b8 tile[512];
    cvt.u64.u32 %d9, %r10;
    cvta.shared.u64 %d9, %d9;
    @%p1 mbarrier.init.shared::cta.b64 [%r10], 128;
    bar.sync 0;
    mov.u32 %r3, tile;
    mad.lo.u32 %r4, %thread, 4, %r3;
    mad.lo.u32 %r5, %thread, 7, 1;
    st.shared.b32 [%r4], %r5;
    mbarrier.arrive.shared::cta.b64 _, [%r10];
AGAIN:
    {wait}
    @!%p2 bra AGAIN;
    {fence}
    xor.b32 %r6, %thread, 127;
    mad.lo.u32 %r6, %r6, 4, %r3;
    ld.shared.b32 %x, [%r6];"
        );
        cases.push(words(&format!("barriers/mbarrier.{name}"), 128, "", &body));
    }
    cases
}

fn shared_by_threads() -> Vec<Case> {
    // A ring of two places between warp 0 and warp 1, six rounds.
    let body = format!(
        "{SETUP}    .shared .align 4 .b8 tile[256];
    mov.u32 %r3, tile;
    @!%p1 bra READY;
    mbarrier.init.shared::cta.b64 [%r10], 32;
    mbarrier.init.shared::cta.b64 [%r10+8], 32;
    mbarrier.init.shared::cta.b64 [%r10+16], 32;
    mbarrier.init.shared::cta.b64 [%r10+24], 32;
    fence.mbarrier_init.release.cluster;
READY:
    bar.sync 0;
    mov.u32 %r20, 0;
    and.b32 %r21, %thread, 31;
    setp.ge.u32 %p3, %thread, 32;
ROUND:
    and.b32 %r22, %r20, 1;
    shr.u32 %r23, %r20, 1;
    and.b32 %r23, %r23, 1;
    mad.lo.u32 %r24, %r22, 8, %r10;
    mad.lo.u32 %r25, %r22, 128, %r3;
    mad.lo.u32 %r25, %r21, 4, %r25;
    @%p3 bra CONSUME;
    xor.b32 %r26, %r23, 1;
FREE:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r24+16], %r26;
    @!%p2 bra FREE;
    mad.lo.u32 %r27, %r20, 100, %r21;
    st.shared.b32 [%r25], %r27;
    mbarrier.arrive.shared::cta.b64 _, [%r24];
    bra NEXT;
CONSUME:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r24], %r23;
    @!%p2 bra CONSUME;
    ld.shared.b32 %r27, [%r25];
    mad.lo.u32 %x, %x, 3, %r27;
    mbarrier.arrive.shared::cta.b64 _, [%r24+16];
NEXT:
    add.u32 %r20, %r20, 1;
    setp.lt.u32 %p4, %r20, 6;
    @%p4 bra ROUND;"
    );
    vec![words("barriers/mbarriers of a ring with two places", 64, "", &body)]
}

/// Two blocks of a cluster, each of which signals the other.
fn remote() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, signal, expected) in [
        (
            "arrive on shared::cluster",
            "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r15];",
            0,
        ),
        (
            "arrive with a count on shared::cluster",
            "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r15], 1;",
            0,
        ),
        (
            "arrive.relaxed on shared::cluster",
            "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%r15];",
            0,
        ),
        (
            "arrive.expect_tx on shared::cluster",
            "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r15], 16; \
             mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r15], 16;",
            0,
        ),
        (
            "expect_tx on shared::cluster",
            "mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%r15], 16; \
             mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r15]; \
             mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r15], 16;",
            0,
        ),
        (
            "arrive_drop on shared::cluster",
            "mbarrier.arrive_drop.release.cluster.shared::cluster.b64 _, [%r15];",
            0,
        ),
        (
            "st.async.b32",
            "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r16], %r14, [%r15];",
            4,
        ),
        (
            "st.async.v4.b32",
            "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r16], \
             {%r14, %r10, %r14, %r11}, [%r15];",
            16,
        ),
        (
            "st.async.weak.v2.b64",
            "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b64 [%r16], \
             {%d1, %d2}, [%r15];",
            16,
        ),
        (
            "red.async.add.u32",
            "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 \
             [%r16], %r14, [%r15];",
            4,
        ),
        (
            "red.async.inc.u32",
            "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.inc.u32 \
             [%r16], 100, [%r15];",
            4,
        ),
        (
            "red.async.min.s32",
            "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.min.s32 \
             [%r16], -5, [%r15];",
            4,
        ),
        (
            "red.async.xor.b32",
            "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.xor.b32 \
             [%r16], %r14, [%r15];",
            4,
        ),
        (
            "red.async.add.u64",
            "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u64 \
             [%r16], %d1, [%r15];",
            8,
        ),
    ] {
        let arrive = match expected {
            0 => String::new(),
            bytes => format!("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r12], {bytes};"),
        };
        let body = format!(
            "    .shared .align 16 .b8 bars[64];
    mov.u32 %r10, %cluster_ctarank;
    xor.b32 %r11, %r10, 1;
    mov.u32 %r12, bars;
    mad.lo.u32 %r14, %r10, 77, 1234;
    cvt.u64.u32 %d1, %r14;
    shl.b64 %d2, %d1, 33;
    setp.eq.u32 %p1, %r2, 0;
    @!%p1 bra READY;
    mbarrier.init.shared::cta.b64 [%r12], 1;
    st.shared.v4.b32 [%r12+16], {{3, 4, 5, 6}};
    fence.mbarrier_init.release.cluster;
READY:
    barrier.cluster.arrive;
    barrier.cluster.wait;
    mapa.shared::cluster.u32 %r15, %r12, %r11;
    add.u32 %r16, %r15, 16;
    @!%p1 bra WAIT;
    {arrive}
    {signal}
WAIT:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r12], 0;
    @!%p2 bra WAIT;
    and.b32 %r17, %r2, 3;
    mad.lo.u32 %r17, %r17, 4, %r12;
    ld.shared.b32 %x, [%r17+16];
    barrier.cluster.arrive;
    barrier.cluster.wait;"
        );
        let mut case = words(&format!("barriers/{name}"), 32, "", &body);
        (case.grid, case.cluster) = ([2, 1, 1], [2, 1, 1]);
        case.output.resize(256, 0);
        cases.push(case);
    }
    cases
}

fn fences() -> Vec<Case> {
    let mut cases = Vec::new();
    for fence in [
        "fence.sc.cta",
        "fence.sc.cluster",
        "fence.sc.gpu",
        "fence.sc.sys",
        "fence.acq_rel.cta",
        "fence.acq_rel.cluster",
        "fence.acq_rel.gpu",
        "fence.acq_rel.sys",
        "fence.acquire.gpu",
        "fence.release.gpu",
        "fence.acquire.cta",
        "fence.release.sys",
        "membar.cta",
        "membar.gl",
        "membar.sys",
        "fence.proxy.async",
        "fence.proxy.async.shared::cta",
        "fence.proxy.async.shared::cluster",
        "fence.proxy.async.global",
        "fence.proxy.alias",
        "fence.mbarrier_init.release.cluster",
        "fence.proxy.tensormap::generic.release.gpu",
        "fence.proxy.tensormap::generic.release.cta",
    ] {
        let body = format!(
            "    .shared .align 4 .b8 tile[128];
    mov.u32 %r3, tile;
    mad.lo.u32 %r3, %thread, 4, %r3;
    st.shared.b32 [%r3], %thread;
    {fence};
    ld.shared.b32 %x, [%r3];"
        );
        cases.push(words(&format!("barriers/{fence}"), 32, "", &body));
    }
    cases
}
