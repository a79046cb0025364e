//! What the threads of a warp do together, and what a thread knows about where it is.

use crate::cases::{Case, Column, Out, Text, case, lanes, words};
use crate::numbers::{Format, Random, floats, integers};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    shuffles(&mut cases);
    votes(&mut cases);
    reductions(&mut cases);
    places(&mut cases);
    cases
}

fn shuffles(cases: &mut Vec<Case>) {
    for mode in ["idx", "up", "down", "bfly"] {
        for (name, control) in [
            ("whole", if mode == "up" { 0 } else { 0x1F }),
            ("segments of 8", if mode == "up" { 0x1800 } else { 0x181F }),
            ("segments of 16", if mode == "up" { 0x1000 } else { 0x101F }),
            ("clamp 11", 11),
            ("segments of 4, clamp 2", 0x1C02),
        ] {
            for amount in [0, 1, 5, 17, 33] {
                // A constant amount, which every lane shares.
                let name = format!("shfl.sync.{mode}.b32 {name}, by {amount}");
                shuffle(cases, &name, mode, &format!("{amount}"), control);
            }
        }
        let name = format!("shfl.sync.{mode}.b32 by a different amount in each lane");
        shuffle(cases, &name, mode, "%b", if mode == "up" { 0 } else { 0x1F });
    }
    // Only the lanes of the mask take part, and ask for lanes of the mask.
    let body = "    and.b32 %r3, %thread, 1;\n    setp.eq.u32 %p1, %r3, 0;\n    \
                mov.b32 %x, %thread;\n    \
                @!%p1 bra SKIP;\n    shfl.sync.bfly.b32 %x|%p2, %thread, 6, 31, 0x55555555;\n    \
                selp.b32 %r4, 256, 0, %p2;\n    or.b32 %x, %x, %r4;\nSKIP:";
    cases.push(words("warp/shfl.sync.bfly.b32 of every second lane", 32, "", body));
}

fn shuffle(cases: &mut Vec<Case>, name: &str, mode: &str, amount: &str, control: u32) {
    let mut columns = integers(name, 32, 1, 32);
    let mut random = Random::of(name);
    columns.push(Column::new(4, (0..32).map(|_| random.next() % 40).collect()));
    let body = format!("shfl.sync.{mode}.b32 %x|%p, %a, {amount}, {control}, 0xFFFFFFFF;");
    let results = [Out::B32("x"), Out::Pred("p")];
    cases.push(lanes(&format!("warp/{name}"), &columns, &results, &body));
}

/// Values of which few differ, so that there are matches; each warp another mixture.
fn few(name: &str, bytes: usize, values: &[u64]) -> Vec<Column> {
    let mut random = Random::of(name);
    let kinds = [1, values.len(), 2, values.len()];
    let pick = |lane: usize, random: &mut Random| values[random.below(kinds[lane / 32])];
    vec![Column::new(bytes, (0..128).map(|lane| pick(lane, &mut random)).collect())]
}

fn votes(cases: &mut Vec<Case>) {
    let values = [1, 0, 2, 0xFFFF_FFFF];
    for mode in ["all", "any", "uni"] {
        for negated in ["", "!"] {
            let form = format!("vote.sync.{mode}.pred {negated}");
            let columns = few(&form, 4, &values);
            let body = format!(
                "setp.ne.b32 %q, %a, 0;\n    vote.sync.{mode}.pred %p, {negated}%q, 0xFFFFFFFF;"
            );
            cases.push(lanes(&format!("warp/{form}"), &columns, &[Out::Pred("p")], &body));
        }
    }
    let columns = few("ballot", 4, &values);
    let body = "setp.ne.b32 %q, %a, 0;\n    vote.sync.ballot.b32 %x, %q, 0xFFFFFFFF;";
    cases.push(lanes("warp/vote.sync.ballot.b32", &columns, &[Out::B32("x")], body));
    let body = "    mov.b32 %x, 77;\n    setp.lt.u32 %p1, %thread, 12;\n    @!%p1 bra SKIP;\n    \
                and.b32 %r3, %thread, 4;\n    setp.ne.b32 %p2, %r3, 0;\n    \
                vote.sync.ballot.b32 %x, %p2, 0xFFF;\nSKIP:";
    cases.push(words("warp/vote.sync.ballot.b32 of 12 lanes", 32, "", body));
    for (of, bytes, values) in
        [("b32", 4, &[5, 6, 7, 0xFFFF_FFFF][..]), ("b64", 8, &[5, 5 | 1 << 40, 7, u64::MAX])]
    {
        let columns = few(&format!("match {of}"), bytes, values);
        let body = format!("match.any.sync.{of} %x, %a, 0xFFFFFFFF;");
        let name = format!("warp/match.any.sync.{of}");
        cases.push(lanes(&name, &columns, &[Out::B32("x")], &body));
        let body = format!("match.all.sync.{of} %x|%p, %a, 0xFFFFFFFF;");
        let results = [Out::B32("x"), Out::Pred("p")];
        cases.push(lanes(&format!("warp/match.all.sync.{of}"), &columns, &results, &body));
    }
}

fn reductions(cases: &mut Vec<Case>) {
    for form in [
        "add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32", "and.b32", "or.b32",
        "xor.b32",
    ] {
        let mut columns = integers(form, 32, 1, 64);
        if form.starts_with("and") {
            columns[0].values.iter_mut().for_each(|value| *value |= 0xF0F0_1234);
        }
        let form = format!("redux.sync.{form}");
        let body = format!("{form} %x, %a, 0xFFFFFFFF;");
        cases.push(lanes(&format!("warp/{form}"), &columns, &[Out::B32("x")], &body));
    }
    let body = "    mov.b32 %x, 99;\n    setp.ge.u32 %p1, %thread, 20;\n    @!%p1 bra SKIP;\n    \
                redux.sync.add.u32 %x, %thread, 0xFFF00000;\nSKIP:";
    cases.push(words("warp/redux.sync.add.u32 of 12 lanes", 32, "", body));
    // Which lane is elected is the machine's choice; that it is one of the mask's is not.
    for (name, mask, threads) in [("all", 0xFFFF_FFFF_u32, 32), ("some", 0x00F0_F000, 32)] {
        let body = format!(
            "    mov.b32 %x, 0;\n    mov.b32 %r3, 1;\n    shl.b32 %r3, %r3, %thread;\n    \
             and.b32 %r3, %r3, {mask:#x};\n    setp.ne.b32 %p1, %r3, 0;\n    @!%p1 bra SKIP;\n    \
             elect.sync %r4|%p2, {mask:#x};\n    selp.b32 %x, 256, 0, %p2;\n    \
             or.b32 %x, %x, %r4;\nSKIP:"
        );
        cases.push(words(&format!("warp/elect.sync of {name}"), threads, "", &body));
    }
    let body = "    elect.sync _|%p2, -1;\n    selp.b32 %x, 1, 0, %p2;";
    cases.push(words("warp/elect.sync into a sink", 32, "", body));
    let body = "    activemask.b32 %x;";
    cases.push(words("warp/activemask.b32", 64, "", body));
    let body = ".shared .align 4 .b8 tile[128];
    mov.u32 %r3, tile;
    mad.lo.u32 %r4, %thread, 4, %r3;
    st.shared.b32 [%r4], %thread;
    bar.warp.sync 0xFFFFFFFF;
    xor.b32 %r5, %thread, 31;
    mad.lo.u32 %r4, %r5, 4, %r3;
    ld.shared.b32 %x, [%r4];";
    cases.push(words("warp/bar.warp.sync", 32, "", body));
    let columns = floats("sum", Format::F32, 1, 32);
    let body = "mov.b32 %x, 0f3F800000;\n    and.b32 %a, %a, 0x3FFFFFFF;\n    \
                shfl.sync.bfly.b32 %r4, %a, 16, 31, -1;\n    add.rn.f32 %x, %a, %r4;\n    \
                shfl.sync.bfly.b32 %r4, %x, 8, 31, -1;\n    add.rn.f32 %x, %x, %r4;\n    \
                shfl.sync.bfly.b32 %r4, %x, 4, 31, -1;\n    add.rn.f32 %x, %x, %r4;";
    cases.push(lanes("warp/sum by shfl.sync", &columns, &[Out::B32("x")], body));
}

fn places(cases: &mut Vec<Case>) {
    let registers = [
        "tid.x",
        "tid.y",
        "tid.z",
        "ntid.x",
        "ntid.y",
        "ntid.z",
        "ctaid.x",
        "ctaid.y",
        "ctaid.z",
        "nctaid.x",
        "nctaid.y",
        "nctaid.z",
        "laneid",
        "lanemask_eq",
        "lanemask_lt",
        "lanemask_le",
        "lanemask_gt",
        "lanemask_ge",
        "cluster_ctaid.x",
        "cluster_ctaid.y",
        "cluster_nctaid.x",
        "cluster_nctaid.y",
        "cluster_nctaid.z",
        "cluster_ctarank",
        "cluster_nctarank",
        "clusterid.x",
        "clusterid.y",
        "nclusterid.x",
        "nclusterid.y",
        "dynamic_smem_size",
        "nwarpid",
        "total_smem_size",
        "aggr_smem_size",
    ];
    for register in registers {
        // 2 × 2 clusters of 2 × 1 blocks of 4 × 3 × 3 threads, each of which writes one word.
        let body = format!(
            "    .reg .b32 %x;
    mov.u32 %x, %{register};
    mov.u32 %r3, %tid.y; mov.u32 %r4, %tid.z; mov.u32 %r5, %ntid.y; mov.u32 %r6, %ntid.z;
    mad.lo.u32 %r4, %r4, %r5, %r3; mad.lo.u32 %r4, %r4, %r1, %r2;
    mov.u32 %r7, %ctaid.y; mov.u32 %r8, %nctaid.x; mad.lo.u32 %r7, %r7, %r8, %r0;
    mul.lo.u32 %r8, %r1, %r5; mul.lo.u32 %r8, %r8, %r6;
    mad.lo.u32 %r7, %r7, %r8, %r4;
    mad.wide.u32 %d0, %r7, 4, %output;
    st.global.b32 [%d0], %x;"
        );
        let text = Text { body: &body, ..Text::default() };
        let mut case = case(&format!("warp/%{register}"), &text, Vec::new(), 4 * 2 * 36 * 4);
        (case.grid, case.block, case.cluster) = ([4, 2, 1], [4, 3, 3], [2, 1, 1]);
        case.dynamic_shared_bytes = 1024;
        cases.push(case);
    }
    for (name, body) in [
        ("%is_explicit_cluster", "mov.pred %p1, %is_explicit_cluster; selp.b32 %x, 1, 0, %p1;"),
        (
            "%clock goes on",
            "mov.u32 %r3, %clock; mov.u32 %r4, %clock; sub.u32 %r4, %r4, %r3; \
             setp.lt.u32 %p1, %r4, 0x80000000; selp.b32 %x, 1, 0, %p1;",
        ),
        (
            "%clock64 goes on",
            "mov.u64 %d1, %clock64; nanosleep.u32 100; mov.u64 %d2, %clock64; \
             setp.lt.u64 %p1, %d1, %d2; selp.b32 %x, 1, 0, %p1;",
        ),
        (
            "%globaltimer goes on",
            "mov.u64 %d1, %globaltimer; mov.u64 %d2, %globaltimer; \
             setp.le.u64 %p1, %d1, %d2; selp.b32 %x, 1, 0, %p1;",
        ),
        (
            "%smid is below %nsmid",
            "mov.u32 %r3, %smid; mov.u32 %r4, %nsmid; setp.lt.u32 %p1, %r3, %r4; \
             selp.b32 %x, 1, 0, %p1;",
        ),
        // Which one it is depends on where the block runs.
        (
            "%warpid is below %nwarpid",
            "mov.u32 %r3, %warpid; mov.u32 %r4, %nwarpid; setp.lt.u32 %p1, %r3, %r4; \
             selp.b32 %x, 1, 0, %p1;",
        ),
        (
            "%gridid",
            "mov.u64 %d1, %gridid; mov.u64 %d2, %gridid; setp.eq.u64 %p1, %d1, %d2; selp.b32 %x, 1, 0, %p1;",
        ),
        (
            "mov.v4 of %tid",
            ".reg .v4 .u32 %quad; mov.v4.u32 %quad, %tid; add.u32 %x, %quad.x, %quad.y;",
        ),
    ] {
        cases.push(words(&format!("warp/{name}"), 32, "", &format!("    {body}")));
    }
}
