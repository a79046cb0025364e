//! Loads, stores and addresses.

use crate::cases::{Case, Column, Out, Text, case, lanes, lanes_with, random_bytes, words};
use crate::numbers::integers;

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    loads(&mut cases);
    stores(&mut cases);
    vectors(&mut cases);
    spaces(&mut cases);
    initialisers(&mut cases);
    hints(&mut cases);
    clusters(&mut cases);
    cases
}

/// Every type, into the narrowest register that holds it and into wider ones.
fn loads(cases: &mut Vec<Case>) {
    for (of, bits) in [
        ("u8", 8),
        ("s8", 8),
        ("b8", 8),
        ("u16", 16),
        ("s16", 16),
        ("b16", 16),
        ("u32", 32),
        ("s32", 32),
        ("b32", 32),
        ("f32", 32),
        ("u64", 64),
        ("s64", 64),
        ("b64", 64),
        ("f64", 64),
    ] {
        for register in [16, 32, 64] {
            // Floats are loaded into registers of their size only.
            let float = of.starts_with('f');
            if register < bits || (float && register > bits) {
                continue;
            }
            let name = format!("memory/ld.global.{of} to b{register}");
            let body = format!(
                "mad.lo.u64 %d1, %wide, {}, %input;\n    ld.global.{of} %x, [%d1];",
                bits / 8
            );
            let columns = [Column::new(8, integers(&name, 64, 1, 32).remove(0).values)];
            cases.push(lanes(&name, &columns, &[Out::of(register)], &body));
        }
    }
}

/// What a store of a part of a register leaves of its surroundings.
fn stores(cases: &mut Vec<Case>) {
    for (of, bits) in [
        ("b8", 8),
        ("u8", 8),
        ("s8", 8),
        ("b16", 16),
        ("u16", 16),
        ("b32", 32),
        ("u32", 32),
        ("b64", 64),
        ("s64", 64),
    ] {
        for register in [16, 32, 64] {
            if register < bits {
                continue;
            }
            let name = format!("memory/st.global.{of} from b{register}");
            let body = format!(
                "    .reg .b{register} %v;
    mad.lo.u64 %d1, %wide, 8, %input;
    ld.global.b{register} %v, [%d1];
    mad.lo.u64 %d1, %wide, 16, %output;
    st.global.{of} [%d1], %v;
    add.u64 %d1, %d1, 16;
    st.global.{of} [%d1+-8], %v;"
            );
            let text = Text { body: &body, ..Text::default() };
            let mut case = case(&name, &text, random_bytes(&name, 256), 32 * 16);
            case.output.fill(0xEE);
            cases.push(case);
        }
    }
}

fn vectors(cases: &mut Vec<Case>) {
    for (count, of) in [
        (2, "b8"),
        (4, "b8"),
        (2, "u16"),
        (4, "b16"),
        (2, "b32"),
        (4, "b32"),
        (4, "u32"),
        (2, "b64"),
        (2, "s8"),
        (4, "s8"),
        (4, "f32"),
        (2, "f64"),
    ] {
        let bits: usize = of[1..].parse().unwrap_or(32);
        for space in ["global", "shared", "local", "generic"] {
            let register = bits.max(16);
            let list = {
                let names: Vec<_> = (0..count).map(|at| format!("%v{at}")).collect();
                format!("{{{}}}", names.join(", "))
            };
            let bytes = count * bits / 8;
            let (declaration, base) = match space {
                "shared" => (".shared .align 16 .b8 cells[512];", "mov.u64 %d2, cells;"),
                "local" => (".local .align 16 .b8 cells[512];", "mov.u64 %d2, cells;"),
                "generic" => (
                    ".shared .align 16 .b8 cells[512];",
                    "mov.u64 %d2, cells; cvta.shared.u64 %d2, %d2;",
                ),
                _ => ("", "mov.u64 %d2, %output;"),
            };
            let dot = if space == "generic" { String::new() } else { format!(".{space}") };
            let body = format!(
                "    {declaration}
    .reg .b{register} %v<4>;
    {base}
    mad.lo.u64 %d1, %wide, {bytes}, %input;
    mad.lo.u64 %d2, %wide, {bytes}, %d2;
    mad.lo.u64 %d3, %wide, {}, %output;
    ld.global.v{count}.{of} {list}, [%d1];
    st{dot}.v{count}.{of} [%d2], {list};
    ld{dot}.v{count}.{of} {list}, [%d2];
    bar.warp.sync -1;
",
                count * register / 8
            );
            let stores: String = (0..count)
                .map(|at| {
                    format!("    st.global.b{register} [%d3+{}], %v{at};\n", at * register / 8)
                })
                .collect();
            let body = body + &stores;
            let name = format!("memory/ld and st.{space}.v{count}.{of}");
            let text = Text { body: &body, ..Text::default() };
            let input = random_bytes(&name, 32 * bytes);
            cases.push(case(&name, &text, input, 32 * count * register / 8));
        }
    }
    let body = "    .reg .b128 %q<2>;
    mad.lo.u64 %d1, %wide, 16, %input;
    mad.lo.u64 %d2, %wide, 16, %output;
    ld.global.b128 %q0, [%d1];
    st.global.b128 [%d2], %q0;";
    let text = Text { body, ..Text::default() };
    let name = "memory/ld and st.global.b128";
    cases.push(case(name, &text, random_bytes(name, 512), 512));
    let columns = integers("sink", 64, 1, 64);
    let body = "mad.lo.u64 %d1, %wide, 8, %input;\n    and.b64 %d1, %d1, -16;\n    \
                ld.global.v4.b32 {_, %x, _, %y}, [%d1];";
    let results = [Out::B32("x"), Out::B32("y")];
    cases.push(lanes("memory/ld.global.v4.b32 with sinks", &columns, &results, body));
}

fn spaces(cases: &mut Vec<Case>) {
    let columns = integers("spaces", 32, 1, 32);
    for (space, declaration) in [
        ("global", ".global .align 4 .b8 cells[512];"),
        ("shared", ".shared .align 4 .b8 cells[512];"),
    ] {
        for (name, body) in [
            (
                "by symbol",
                format!(
                    "setp.eq.u32 %p1, %thread, 3;\n    @%p1 st.{space}.b32 [cells+8], %a;\n    \
                     bar.sync 0;\n    ld.{space}.b32 %x, [cells+8];"
                ),
            ),
            (
                "through a generic address",
                format!(
                    "mov.u64 %d1, cells;\n    cvta.{space}.u64 %d1, %d1;\n    \
                     mad.lo.u64 %d1, %wide, 4, %d1;\n    st.b32 [%d1], %a;\n    \
                     cvta.to.{space}.u64 %d2, %d1;\n    ld.{space}.b32 %x, [%d2];"
                ),
            ),
            (
                "volatile",
                format!(
                    "mov.u64 %d1, cells;\n    mad.lo.u64 %d1, %wide, 4, %d1;\n    \
                     st.volatile.{space}.b32 [%d1], %a;\n    ld.volatile.{space}.b32 %x, [%d1];"
                ),
            ),
            (
                "relaxed",
                format!(
                    "mov.u64 %d1, cells;\n    mad.lo.u64 %d1, %wide, 4, %d1;\n    \
                     st.relaxed.sys.{space}.b32 [%d1], %a;\n    \
                     ld.relaxed.gpu.{space}.b32 %x, [%d1];"
                ),
            ),
            (
                "release and acquire",
                format!(
                    "mov.u64 %d1, cells;\n    mad.lo.u64 %d1, %wide, 4, %d1;\n    \
                     st.release.cta.{space}.b32 [%d1], %a;\n    \
                     ld.acquire.cluster.{space}.b32 %x, [%d1];"
                ),
            ),
            (
                "weak",
                format!(
                    "mov.u64 %d1, cells;\n    mad.lo.u64 %d1, %wide, 4, %d1;\n    \
                     st.weak.{space}.b32 [%d1], %a;\n    ld.weak.{space}.b32 %x, [%d1];"
                ),
            ),
        ] {
            let name = format!("memory/{space} {name}");
            let results = [Out::B32("x")];
            let compare = crate::cases::Compare::Bits;
            cases.push(lanes_with(&name, &columns, &results, &body, declaration, compare));
        }
    }
    let body = "    .reg .b64 %SPL;
    .local .align 4 .b8 depot[16];
    .shared .align 4 .b8 cells[16];
    mov.b64 %SPL, depot;
    cvta.local.u64 %d1, %SPL;
    mov.u64 %d2, cells;
    cvta.shared.u64 %d2, %d2;
    mov.b64 %d4, input;
    cvta.param.u64 %d4, %d4;
    mov.u32 %x, 0;
    isspacep.local %p1, %d1; @%p1 or.b32 %x, %x, 1;
    isspacep.shared %p1, %d1; @%p1 or.b32 %x, %x, 2;
    isspacep.global %p1, %d1; @%p1 or.b32 %x, %x, 4;
    isspacep.local %p1, %d2; @%p1 or.b32 %x, %x, 8;
    isspacep.shared %p1, %d2; @%p1 or.b32 %x, %x, 16;
    isspacep.global %p1, %d2; @%p1 or.b32 %x, %x, 32;
    isspacep.local %p1, %input; @%p1 or.b32 %x, %x, 64;
    isspacep.shared %p1, %input; @%p1 or.b32 %x, %x, 128;
    isspacep.global %p1, %input; @%p1 or.b32 %x, %x, 256;
    isspacep.shared::cta %p1, %d2; @%p1 or.b32 %x, %x, 512;
    isspacep.shared::cluster %p1, %d2; @%p1 or.b32 %x, %x, 1024;
    isspacep.const %p1, %input; @%p1 or.b32 %x, %x, 2048;
    isspacep.param %p1, %d4; @%p1 or.b32 %x, %x, 4096;";
    cases.push(words("memory/isspacep", 32, "", body));
    let body = "    ld.param.b32 %r3, [input+4];
    ld.param.v2.b32 {%r4, %r5}, [input];
    sub.u32 %x, %r3, %r5;
    cvt.u32.u64 %r6, %input;
    sub.u32 %r6, %r6, %r4;
    or.b32 %x, %x, %r6;
    mov.b64 %d1, input;
    cvta.param.u64 %d1, %d1;
    ld.b64 %d2, [%d1];
    setp.ne.u64 %p1, %d2, %input;
    @%p1 or.b32 %x, %x, 64;
    ld.param.u8 %r7, [input];
    and.b32 %r6, %r4, 255;
    setp.ne.u32 %p1, %r6, %r7;
    @%p1 or.b32 %x, %x, 128;";
    cases.push(words("memory/ld.param of parts, and a generic address", 32, "", body));
    let body = "    mov.u32 %r3, dynamic;
    mad.lo.u32 %r4, %thread, 4, %r3;
    st.shared.b32 [%r4], %thread;
    bar.sync 0;
    xor.b32 %r5, %thread, 5;
    mad.wide.u32 %d1, %r5, 4, 0;
    mov.u64 %d2, dynamic;
    add.u64 %d2, %d2, %d1;
    ld.shared.b32 %x, [%d2];
    and.b32 %r6, %r3, 1023;
    shl.b32 %r6, %r6, 8;
    or.b32 %x, %x, %r6;";
    let module = ".extern .shared .align 1024 .b8 dynamic[];";
    let mut dynamic = words("memory/dynamic shared memory", 64, module, body);
    dynamic.dynamic_shared_bytes = 256;
    cases.push(dynamic);
    let body = "    mov.u32 %r3, dynamic;
    mov.u32 %r4, tile;
    setp.ge.u32 %p1, %r3, %r4;
    selp.b32 %x, 1, 0, %p1;
    st.shared.b32 [tile+60], 9;
    st.shared.b32 [%r3+99996], 7;
    bar.sync 0;
    ld.shared.b32 %r5, [tile+60];
    mad.lo.u32 %x, %r5, 10, %x;";
    let module = ".extern .shared .align 16 .b8 dynamic[];\n.shared .align 16 .b8 tile[64];";
    let mut large =
        words("memory/static and 100000 bytes of dynamic shared memory", 32, module, body);
    large.dynamic_shared_bytes = 100_000;
    cases.push(large);
}

fn initialisers(cases: &mut Vec<Case>) {
    for (name, module, body) in [
        (
            "bytes, shorter than the array",
            ".global .align 4 .b8 table[256] = {1, 2, 255, 4, 0x7F, 9};",
            "mov.u64 %d1, table; add.u64 %d1, %d1, %wide; ld.global.nc.u8 %x, [%d1];",
        ),
        (
            "words",
            ".global .align 4 .u32 table[64] = {7, 0xFFFFFFFF, 3};",
            "mov.u64 %d1, table; mad.lo.u64 %d1, %wide, 4, %d1; ld.global.b32 %x, [%d1];",
        ),
        (
            "negative words and floats",
            ".global .s32 table[4] = {-7, 8, -2147483648, 1};\n\
             .global .f32 floats[2] = {0f3F800000, 2.5};",
            "and.b32 %r3, %thread, 3; mad.wide.u32 %d1, %r3, 4, 0; mov.u64 %d2, table; \
             add.u64 %d1, %d1, %d2; ld.global.b32 %x, [%d1]; ld.global.b32 %r4, [floats+4]; \
             xor.b32 %x, %x, %r4;",
        ),
        (
            "constant memory",
            ".const .align 4 .b32 table[4] = {11, 22, 33, 44};",
            "and.b32 %r3, %thread, 3; mul.wide.u32 %d1, %r3, 4; mov.u64 %d2, table; \
             add.u64 %d1, %d1, %d2; ld.const.b32 %x, [%d1]; ld.const.b32 %r4, [table+8]; \
             mad.lo.u32 %x, %x, 100, %r4;",
        ),
        (
            "pointers",
            ".global .align 4 .u32 target[4] = {5, 6, 7, 8};\n\
             .global .align 8 .u64 pointers[3] = {generic(target), target, 5};",
            "ld.global.b64 %d1, [pointers]; ld.b32 %r3, [%d1+4]; ld.global.b64 %d1, [pointers+8]; \
             ld.global.b32 %r4, [%d1+8]; ld.global.b64 %d2, [pointers+16]; cvt.u32.u64 %x, %d2; \
             mad.lo.u32 %x, %x, 100, %r3; mad.lo.u32 %x, %x, 100, %r4;",
        ),
    ] {
        let name = format!("memory/initialiser of {name}");
        cases.push(words(&name, 64, module, &format!("    {body}")));
    }
}

/// Qualifiers that must change nothing about the values.
fn hints(cases: &mut Vec<Case>) {
    let loads = [
        "ld.global.ca.b32",
        "ld.global.cg.b32",
        "ld.global.cs.b32",
        "ld.global.lu.b32",
        "ld.global.cv.b32",
        "ld.global.nc.b32",
        "ld.global.nc.L1::no_allocate.b32",
        "ld.global.nc.L1::evict_last.L2::128B.b32",
        "ld.global.L1::evict_first.b32",
        "ld.global.L2::64B.b32",
        "ld.global.L2::256B.b32",
        "ld.relaxed.gpu.global.L1::no_allocate.b32",
        "ldu.global.b32",
        "ld.acquire.sys.global.b32",
        "ld.volatile.b32",
        "ld.weak.b32",
        "ld.mmio.relaxed.sys.global.b32",
    ];
    for load in loads {
        let body = format!("    mad.lo.u64 %d1, %wide, 4, %input;\n    {load} %x, [%d1];");
        cases.push(words(&format!("memory/{load}"), 32, "", &body));
    }
    for store in [
        "st.global.wb.b32",
        "st.global.cg.b32",
        "st.global.cs.b32",
        "st.global.wt.b32",
        "st.global.L1::no_allocate.b32",
        "st.global.L1::evict_normal.b32",
        "st.release.gpu.global.b32",
        "st.relaxed.cluster.b32",
        "st.mmio.relaxed.sys.global.b32",
    ] {
        let body = format!(
            "    mad.lo.u64 %d1, %wide, 4, %input;\n    ld.global.b32 %x, [%d1];\n    \
             mad.lo.u64 %d1, %wide, 4, %output;\n    {store} [%d1], %x;"
        );
        cases.push(words(&format!("memory/{store}"), 32, "", &body));
    }
    for (name, form) in [
        (
            "createpolicy.fractional and hints",
            "createpolicy.fractional.L2::evict_last.b64 %d2, 1.0; \
             createpolicy.fractional.L2::evict_first.L2::evict_unchanged.b64 %d3, 0.5; \
             ld.global.L2::cache_hint.b32 %x, [%d1], %d2; \
             ld.global.nc.L1::no_allocate.L2::cache_hint.b32 %r3, [%d1+4], %d3; \
             st.global.L2::cache_hint.b32 [%d4], %x, %d2; add.u32 %x, %x, %r3;",
        ),
        (
            "createpolicy.range and cvt",
            "createpolicy.range.global.L2::evict_last.L2::evict_unchanged.b64 %d2, [%d1], 64, 128; \
             createpolicy.cvt.L2.b64 %d3, 0x10000000; ld.global.L2::cache_hint.b32 %x, [%d1], %d2;",
        ),
        (
            "prefetch",
            "prefetch.global.L1 [%d1]; prefetch.global.L2 [%d1]; prefetch.L2 [%d1]; \
             prefetchu.L1 [%d1]; prefetch.global.L2::evict_last [%d1]; \
             prefetch.global.L2::evict_normal [%d1]; ld.global.b32 %x, [%d1];",
        ),
        (
            "applypriority",
            "and.b64 %d1, %d1, -128; applypriority.global.L2::evict_normal [%d1], 128; \
             ld.global.b32 %x, [%d1];",
        ),
        (
            "cp.async.bulk.prefetch.L2.global",
            "cp.async.bulk.prefetch.L2.global [%input], 128; ld.global.b32 %x, [%d1];",
        ),
        ("discard.global.L2", "discard.global.L2 [%input], 128; mov.u32 %x, 4;"),
    ] {
        let body = format!(
            "    mad.lo.u64 %d1, %wide, 4, %input;\n    mad.lo.u64 %d4, %wide, 4, %output;\n    \
             {form}"
        );
        cases.push(words(&format!("memory/{name}"), 32, "", &body));
    }
}

/// Shared memory of the other block of a cluster.
fn clusters(cases: &mut Vec<Case>) {
    let prologue = "    .shared .align 16 .b8 tile[256];
    mov.u32 %r10, %cluster_ctarank;
    xor.b32 %r11, %r10, 1;
    mov.u32 %r12, tile;
    mad.lo.u32 %r13, %r2, 4, %r12;
    mad.lo.u32 %r14, %thread, 3, 5;
    st.shared.b32 [%r13], %r14;
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
";
    let epilogue = "
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;";
    for (name, body) in [
        (
            "mapa.shared::cluster.u32 and ld.shared::cluster",
            "    mapa.shared::cluster.u32 %r15, %r13, %r11;
    ld.shared::cluster.b32 %x, [%r15];",
        ),
        (
            "mapa.u64 of a generic address",
            "    cvt.u64.u32 %d1, %r13;
    cvta.shared.u64 %d1, %d1;
    mapa.u64 %d2, %d1, %r11;
    ld.b32 %x, [%d2];
    getctarank.u64 %r16, %d2;
    mad.lo.u32 %x, %x, 1000, %r16;",
        ),
        (
            "getctarank.shared::cluster.u32",
            "    mapa.shared::cluster.u32 %r15, %r13, %r11;
    getctarank.shared::cluster.u32 %x, %r15;
    getctarank.shared::cluster.u32 %r16, %r13;
    mad.lo.u32 %x, %x, 10, %r16;",
        ),
        (
            "st.shared::cluster",
            "    mapa.shared::cluster.u32 %r15, %r13, %r11;
    st.shared::cluster.b32 [%r15+128], %r14;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    ld.shared.b32 %x, [%r13+128];",
        ),
        (
            "atom.shared::cluster",
            "    mapa.shared::cluster.u32 %r15, %r13, %r11;
    atom.shared::cluster.add.u32 %x, [%r15], 1000;
    fence.acq_rel.cluster;
    barrier.cluster.arrive.relaxed;
    barrier.cluster.wait;
    ld.shared.b32 %r16, [%r13];
    mad.lo.u32 %x, %r16, 4096, %x;",
        ),
        (
            "rank bits of a shared::cluster address",
            "    mapa.shared::cluster.u32 %r15, %r13, %r11;
    mapa.shared::cluster.u32 %r16, %r13, 0;
    sub.u32 %x, %r15, %r16;",
        ),
        (
            "a mapped address of the own block is generic and shared",
            "    cvt.u64.u32 %d1, %r13;
    cvta.shared.u64 %d1, %d1;
    mapa.u64 %d2, %d1, %r10;
    ld.b32 %x, [%d2];
    isspacep.shared::cta %p1, %d2;
    @%p1 add.u32 %x, %x, 1000;
    isspacep.shared::cluster %p1, %d2;
    @%p1 add.u32 %x, %x, 2000;
    mapa.u64 %d2, %d1, %r11;
    isspacep.shared::cta %p1, %d2;
    @%p1 add.u32 %x, %x, 4000;
    isspacep.shared::cluster %p1, %d2;
    @%p1 add.u32 %x, %x, 8000;",
        ),
    ] {
        let body = format!("{prologue}{body}{epilogue}");
        let mut case = words(&format!("memory/{name}"), 32, "", &body);
        (case.grid, case.cluster) = ([4, 1, 1], [2, 1, 1]);
        case.output.resize(4 * 32 * 4, 0);
        cases.push(case);
    }
}
