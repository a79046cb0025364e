//! Asynchronous copies of threads and of rows of bytes, and all copies inside of a cluster.

use crate::cases::{Buffer, Case, Compare, Map, Text, case, random_bytes};
use crate::numbers::{Format, floats, packed};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    threads(&mut cases);
    bulk(&mut cases);
    bulk_reductions(&mut cases);
    cluster(&mut cases);
    cases
}

/// Shared memory of every case: a tile of 4 KiB, and barriers behind it.
pub const SHARED: &str = ".shared .align 1024 .b8 tile[4096];\n.shared .align 8 .b8 bars[64];";

pub const SETUP: &str = "    mov.u32 %r10, tile;
    mov.u32 %r11, bars;
    setp.eq.u32 %p1, %r2, 0;
";

/// Every byte of the tile becomes 0xEE.
pub const FILL: &str = "    mov.u32 %r12, %r2;
FILL:
    mad.lo.u32 %r13, %r12, 4, %r10;
    st.shared.b32 [%r13], 0xEEEEEEEE;
    add.u32 %r12, %r12, 32;
    setp.lt.u32 %p2, %r12, 1024;
    @%p2 bra FILL;
    fence.proxy.async.shared::cta;
    bar.sync 0;
";

/// The tile becomes the input's start.
const TAKE: &str = "    mov.u32 %r12, %r2;
TAKE:
    mad.lo.u32 %r13, %r12, 4, %r10;
    mad.wide.u32 %d1, %r12, 4, %input;
    ld.global.b32 %r14, [%d1];
    st.shared.b32 [%r13], %r14;
    add.u32 %r12, %r12, 32;
    setp.lt.u32 %p2, %r12, 1024;
    @%p2 bra TAKE;
    fence.proxy.async.shared::cta;
    bar.sync 0;
";

/// The first `bytes` of the tile become the block's part of the output.
pub fn give(bytes: usize) -> String {
    format!(
        "    mov.u32 %r12, %r2;
    mad.wide.u32 %d1, %r0, {bytes}, %output;
GIVE:
    mad.lo.u32 %r13, %r12, 4, %r10;
    mad.wide.u32 %d2, %r12, 4, %d1;
    ld.shared.b32 %r14, [%r13];
    st.global.b32 [%d2], %r14;
    add.u32 %r12, %r12, 32;
    setp.lt.u32 %p2, %r12, {};
    @%p2 bra GIVE;
",
        bytes / 4
    )
}

/// One barrier for one arrival.
pub const BARRIER: &str = "    @!%p1 bra READY;
    mbarrier.init.shared::cta.b64 [%r11], 1;
    fence.mbarrier_init.release.cluster;
    fence.proxy.async.shared::cta;
READY:
    bar.sync 0;
";

pub const WAIT: &str = "WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r11], 0;
    @!%p2 bra WAIT;
";

/// Thread 0 expects `bytes` and issues `copy`; all wait and give the first `given` bytes.
pub fn filled(name: &str, copy: &str, bytes: usize, given: usize, input: Vec<u8>) -> Case {
    let body = format!(
        "{SETUP}{FILL}{BARRIER}    @!%p1 bra WAIT;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r11], {bytes};
{copy}
{WAIT}{}",
        give(given)
    );
    let maps = usize::from(copy.contains("map0"));
    let text = Text { module: SHARED, maps, body: &body, ..Text::default() };
    case(name, &text, input, given)
}

/// The tile is taken from the input, then thread 0 issues `copy`, commits and waits.
pub fn emptied(name: &str, copy: &str, wait: &str, input: Vec<u8>, output: Vec<u8>) -> Case {
    let body = format!(
        "{SETUP}{TAKE}    @!%p1 bra DONE;
{copy}
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group{wait} 0;
DONE:"
    );
    let maps = usize::from(copy.contains("map0"));
    let text = Text { module: SHARED, maps, body: &body, ..Text::default() };
    let mut case = case(name, &text, input, 0);
    case.output = output;
    case
}

fn threads(cases: &mut Vec<Case>) {
    let mut copies = Vec::new();
    for (cache, bytes) in [("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)] {
        copies.push((format!("cp.async.{cache}.shared.global"), bytes, String::new()));
        for size in [0, 1, 2, bytes - 1] {
            copies.push((format!("cp.async.{cache}.shared.global"), bytes, format!(", {size}")));
        }
        copies.push((format!("cp.async.{cache}.shared::cta.global"), bytes, ", %p3".into()));
        copies.push((format!("cp.async.{cache}.shared.global.L2::128B"), bytes, String::new()));
        copies.push((format!("cp.async.{cache}.shared.global"), bytes, ", %r20".into()));
    }
    for (form, bytes, size) in copies {
        for (end, wait) in [
            ("wait_all", "cp.async.wait_all;"),
            ("wait_group", "cp.async.commit_group; cp.async.commit_group; cp.async.wait_group 1;"),
            ("mbarrier.arrive.noinc", "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r11];"),
            ("mbarrier.arrive", "cp.async.mbarrier.arrive.shared::cta.b64 [%r11];"),
        ] {
            let barrier = end.starts_with("mbarrier");
            if end != "wait_all" && !size.is_empty() {
                continue;
            }
            // With `.noinc` the barrier must count the copies' arrivals from the start.
            let count = if end.ends_with("noinc") { 64 } else { 32 };
            let (arrive, waits) = if barrier {
                ("    mbarrier.arrive.shared::cta.b64 _, [%r11];\n", WAIT)
            } else {
                ("", "")
            };
            let body = format!(
                "{SETUP}{FILL}    @%p1 mbarrier.init.shared::cta.b64 [%r11], {count};
    bar.sync 0;
    setp.lt.u32 %p3, %thread, 9;
    and.b32 %r20, %thread, 3;
    mad.lo.u32 %r13, %thread, {bytes}, %r10;
    mad.wide.u32 %d1, %thread, {bytes}, %input;
    {form} [%r13], [%d1], {bytes}{size};
    {wait}
{arrive}{waits}    bar.sync 0;
{}",
                give(512)
            );
            let text = Text { module: SHARED, body: &body, ..Text::default() };
            let size = size.replace(", %p3", ", ignored by some").replace(", %r20", ", 0 to 3");
            let name = format!("copies/{form} {bytes}{size} {end}");
            cases.push(case(&name, &text, random_bytes(&name, 512), 512));
        }
    }
}

fn bulk(cases: &mut Vec<Case>) {
    let complete = "mbarrier::complete_tx::bytes";
    let hint = "mov.b64 %d5, 0x12F0000000000000;";
    for (form, more) in [
        (format!("cp.async.bulk.shared::cluster.global.{complete}"), ""),
        (format!("cp.async.bulk.shared::cta.global.{complete}"), ""),
        (format!("cp.async.bulk.shared::cluster.global.{complete}.L2::cache_hint"), ", %d5"),
    ] {
        for (bytes, from, to) in [(16, 0, 0), (512, 16, 32), (1024, 1024, 0)] {
            let copy = format!(
                "    {hint} add.u64 %d3, %input, {from}; add.u32 %r15, %r10, {to};
    {form} [%r15], [%d3], {bytes}, [%r11]{more};"
            );
            let name = format!("copies/{form} {bytes} bytes");
            cases.push(filled(&name, &copy, bytes, 1088, random_bytes(&name, 2048)));
        }
    }
    for (form, more) in [
        ("cp.async.bulk.global.shared::cta.bulk_group", ""),
        ("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint", ", %d5"),
    ] {
        for (bytes, from, to) in [(16, 0, 0), (512, 16, 32), (1024, 1024, 0)] {
            for wait in ["", ".read"] {
                let copy = format!(
                    "    {hint} add.u64 %d3, %output, {to}; add.u32 %r15, %r10, {from};
    {form} [%d3], [%r15], {bytes}{more};"
                );
                let name = format!("copies/{form} {bytes} bytes, wait_group{wait}");
                let input = random_bytes(&name, 4096);
                cases.push(emptied(&name, &copy, wait, input, vec![0xDD; 1088]));
            }
        }
    }
}

const REDUCTIONS: [(&str, &str); 29] = [
    ("add", "u32"),
    ("add", "s32"),
    ("add", "u64"),
    ("add", "f16"),
    ("add", "bf16"),
    ("add", "f32"),
    ("add", "f64"),
    ("min", "u32"),
    ("min", "s32"),
    ("min", "u64"),
    ("min", "s64"),
    ("min", "f16"),
    ("min", "bf16"),
    ("max", "u32"),
    ("max", "s32"),
    ("max", "u64"),
    ("max", "s64"),
    ("max", "f16"),
    ("max", "bf16"),
    ("inc", "u32"),
    ("dec", "u32"),
    ("and", "b32"),
    ("and", "b64"),
    ("or", "b32"),
    ("or", "b64"),
    ("xor", "b32"),
    ("xor", "b64"),
    ("add.noftz", "f16"),
    ("add.noftz", "bf16"),
];

pub fn format_of(of: &str) -> Option<Format> {
    match of {
        "f16" => Some(Format::F16),
        "bf16" => Some(Format::Bf16),
        "f32" => Some(Format::F32),
        "f64" => Some(Format::F64),
        _ => None,
    }
}

/// Bytes that are numbers of the type, special ones among them.
pub fn numbers(name: &str, of: &str, bytes: usize) -> Vec<u8> {
    match format_of(of) {
        Some(format @ (Format::F16 | Format::Bf16)) => {
            packed(name, format, 1, bytes / 4).remove(0).encoded()
        }
        Some(format) => floats(name, format, 1, bytes / format.bytes()).remove(0).encoded(),
        None => random_bytes(name, bytes),
    }
}

pub fn compare_of(of: &str) -> Compare {
    format_of(of).map_or(Compare::Bits, Compare::Exact)
}

fn bulk_reductions(cases: &mut Vec<Case>) {
    for (operation, of) in REDUCTIONS {
        if operation == "add" && ["f16", "bf16"].contains(&of) {
            continue;
        }
        let form = format!("cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation}.{of}");
        let name = format!("copies/{form}");
        let mut input = numbers(&name, of, 256);
        input.resize(4096, 0);
        let output = numbers(&format!("{name} before"), of, 256);
        let copy = format!("    {form} [%output], [%r10], 256;");
        let mut case = emptied(&name, &copy, "", input, output);
        case.compare = compare_of(of);
        cases.push(case);
    }
}

/// Two blocks: multicast copies, copies to the other block, and reductions there.
fn cluster(cases: &mut Vec<Case>) {
    let complete = "mbarrier::complete_tx::bytes";
    let meet = "    barrier.cluster.arrive;\n    barrier.cluster.wait;\n";
    let mut two = |name: String, fill: &str, expected: usize, copy: String, map: Option<Map>| {
        let body = format!(
            "{SETUP}    mov.u32 %r20, %cluster_ctarank;
    xor.b32 %r21, %r20, 1;
    mapa.shared::cluster.u32 %r22, %r10, %r21;
    mapa.shared::cluster.u32 %r23, %r11, %r21;
    setp.eq.u32 %p4, %r20, 0;
{fill}{BARRIER}    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r11], {expected};
{meet}    @!%p1 bra WAIT;
{copy}
{WAIT}{meet}{}",
            give(512)
        );
        let maps = usize::from(map.is_some());
        let text = Text { module: SHARED, maps, body: &body, ..Text::default() };
        let mut case = case(&name, &text, random_bytes(&name, 8192), 1024);
        (case.grid, case.cluster) = ([2, 1, 1], [2, 1, 1]);
        case.maps.extend(map);
        cases.push(case);
    };
    let form = format!("cp.async.bulk.shared::cluster.global.{complete}.multicast::cluster");
    for (mask, name) in [(3, "to both blocks, by the first"), (3, "to both blocks, by both")] {
        let both = name.ends_with("by both");
        let guard = if both { "" } else { "@%p4 " };
        // Each of two issuers fills its half.
        let copy = format!(
            "    mov.b16 %h1, {mask}; mad.wide.u32 %d3, %r20, 256, %input; \
             mad.lo.u32 %r24, %r20, 256, %r10;\n    \
             {guard}{form} [%r24], [%d3], 256, [%r11], %h1;"
        );
        let expected = if both { 512 } else { 256 };
        two(format!("copies/{form} {name}"), FILL, expected, copy, None);
    }
    let copy = format!(
        "    mov.b16 %h1, 1; sub.u16 %h2, 2, 0; selp.b16 %h1, %h2, %h1, %p4; \
         mad.wide.u32 %d3, %r20, 256, %input;\n    {form} [%r10], [%d3], 256, [%r11], %h1;"
    );
    two(format!("copies/{form} to the other block"), FILL, 256, copy, None);
    let form = format!("cp.async.bulk.shared::cluster.shared::cta.{complete}");
    let copy = format!(
        "    add.u32 %r24, %r10, 1024; mad.lo.u32 %r24, %r20, 512, %r24;\n    \
         {form} [%r22], [%r24], 512, [%r23];"
    );
    two(format!("copies/{form} to the other block"), TAKE, 512, copy, None);
    let copy = format!(
        "    add.u32 %r24, %r10, 1024; mapa.shared::cluster.u32 %r25, %r10, %r20; \
         mapa.shared::cluster.u32 %r26, %r11, %r20;\n    \
         {form} [%r25], [%r24], 512, [%r26];"
    );
    two(format!("copies/{form} to the same block"), TAKE, 512, copy, None);
    for (operation, of) in [
        ("add", "u32"),
        ("add", "s32"),
        ("add", "u64"),
        ("min", "u32"),
        ("min", "s32"),
        ("max", "u32"),
        ("max", "s32"),
        ("inc", "u32"),
        ("dec", "u32"),
        ("and", "b32"),
        ("or", "b32"),
        ("xor", "b32"),
    ] {
        let form =
            format!("cp.reduce.async.bulk.shared::cluster.shared::cta.{complete}.{operation}.{of}");
        let copy =
            format!("    add.u32 %r24, %r10, 1024;\n    {form} [%r22], [%r24], 256, [%r23];");
        two(format!("copies/{form}"), TAKE, 256, copy, None);
    }
    let map = |swizzle: u32| {
        let mut map =
            Map::dense(Buffer::Input, 2, 4, &[40, 9], &[8 << swizzle.saturating_sub(1), 4]);
        map.swizzle = swizzle;
        map
    };
    for swizzle in 0..4 {
        let map = map(swizzle);
        let bytes = map.tile.iter().product::<u32>() as usize * 4;
        let form = format!(
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile.{complete}.multicast::cluster"
        );
        let copy = format!(
            "    mov.b16 %h1, 3; mov.b64 %d4, map0; cvta.param.u64 %d4, %d4;\n    \
             @%p4 {form} [%r10], [%d4, {{4, -1}}], [%r11], %h1;"
        );
        two(format!("copies/{form} swizzle {swizzle}"), FILL, bytes, copy, Some(map));
    }
}
