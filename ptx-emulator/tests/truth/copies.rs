//! Asynchronous copies: of threads, of rows of bytes, and of tensors.

use crate::cases::{Buffer, Case, Compare, Map, Text, case, random_bytes};
use crate::numbers::{Format, floats, packed};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    threads(&mut cases);
    bulk(&mut cases);
    bulk_reductions(&mut cases);
    cluster(&mut cases);
    tensor_loads(&mut cases);
    tensor_stores(&mut cases);
    tensor_reductions(&mut cases);
    replacements(&mut cases);
    refusals(&mut cases);
    cases
}

/// Shared memory of every case: a tile of 4 KiB, and barriers behind it.
const SHARED: &str = ".shared .align 1024 .b8 tile[4096];\n.shared .align 8 .b8 bars[64];";

const SETUP: &str = "    mov.u32 %r10, tile;
    mov.u32 %r11, bars;
    setp.eq.u32 %p1, %r2, 0;
";

/// Every byte of the tile becomes 0xEE.
const FILL: &str = "    mov.u32 %r12, %r2;
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
fn give(bytes: usize) -> String {
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
const BARRIER: &str = "    @!%p1 bra READY;
    mbarrier.init.shared::cta.b64 [%r11], 1;
    fence.mbarrier_init.release.cluster;
    fence.proxy.async.shared::cta;
READY:
    bar.sync 0;
";

const WAIT: &str = "WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r11], 0;
    @!%p2 bra WAIT;
";

/// Thread 0 expects `bytes` and issues `copy`; all wait and give the first `given` bytes.
fn filled(name: &str, copy: &str, bytes: usize, given: usize, input: Vec<u8>) -> Case {
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
fn emptied(name: &str, copy: &str, wait: &str, input: Vec<u8>, output: Vec<u8>) -> Case {
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

fn format_of(of: &str) -> Option<Format> {
    match of {
        "f16" => Some(Format::F16),
        "bf16" => Some(Format::Bf16),
        "f32" => Some(Format::F32),
        "f64" => Some(Format::F64),
        _ => None,
    }
}

/// Bytes that are numbers of the type, special ones among them.
fn numbers(name: &str, of: &str, bytes: usize) -> Vec<u8> {
    match format_of(of) {
        Some(format @ (Format::F16 | Format::Bf16)) => {
            packed(name, format, 1, bytes / 4).remove(0).encoded()
        }
        Some(format) => floats(name, format, 1, bytes / format.bytes()).remove(0).encoded(),
        None => random_bytes(name, bytes),
    }
}

fn compare_of(of: &str) -> Compare {
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

const TYPES: [(&str, u32, u64); 13] = [
    ("u8", 0, 1),
    ("u16", 1, 2),
    ("u32", 2, 4),
    ("s32", 3, 4),
    ("u64", 4, 8),
    ("s64", 5, 8),
    ("f16", 6, 2),
    ("f32", 7, 4),
    ("f64", 8, 8),
    ("bf16", 9, 2),
    ("f32 ftz", 10, 4),
    ("tf32", 11, 4),
    ("tf32 ftz", 12, 4),
];

/// A tensor of 32-bit words in `rank` dimensions, with a tile whose rows fill the swizzle's span.
fn words(buffer: Buffer, rank: usize, swizzle: u32) -> Map {
    // The last 16 bytes of a row are not all inside.
    let extents = [35, 7, 5, 4, 3];
    let tile = [8 << swizzle.saturating_sub(1), 4, 2, 2, 2];
    let mut map = Map::dense(buffer, 2, 4, &extents[..rank], &tile[..rank]);
    map.swizzle = swizzle;
    map
}

/// In units of elements. The innermost coordinate comes to whole units of 16 bytes, without which
/// the GPU refuses the instruction.
const COORDINATES: [(&str, [i32; 5]); 4] = [
    ("inside", [4, 1, 2, 1, 0]),
    ("before the start", [-4, -2, -1, -1, -1]),
    ("past the end", [32, 5, 4, 3, 2]),
    ("outside", [100, 1, 0, 0, 0]),
];

fn list(coordinates: &[i32]) -> String {
    let text: Vec<_> = coordinates.iter().map(i32::to_string).collect();
    format!("{{{}}}", text.join(", "))
}

/// Swizzles, and the bytes of rows that are shorter than what they span.
const SHORT_ROWS: [(u32, u32); 6] = [(1, 16), (2, 16), (2, 48), (3, 16), (3, 64), (3, 112)];

/// The case with more of the tile in its output, at most 4096 bytes.
fn giving(mut case: Case, bytes: usize) -> Case {
    let before = case.output.len();
    let limit = |bytes: usize| format!("setp.lt.u32 %p2, %r12, {};\n    @%p2 bra GIVE;", bytes / 4);
    case.ptx = case.ptx.replace(&limit(before), &limit(bytes));
    case.output.resize(bytes, 0);
    case
}

const ADDRESS: &str = "    mov.b64 %d4, map0;\n    cvta.param.u64 %d4, %d4;\n";

fn load(name: String, map: Map, element: u64, coordinates: &[i32], destination: &str) -> Case {
    let rank = map.extents.len();
    let elements: u64 = map
        .tile
        .iter()
        .zip(&map.element_strides)
        .map(|(&tile, &stride)| u64::from(tile.div_ceil(stride)))
        .product();
    let bytes = (elements * element) as usize;
    let form = format!(
        "cp.async.bulk.tensor.{rank}d.{destination}.global.tile.mbarrier::complete_tx::bytes"
    );
    let copy = format!("{ADDRESS}    {form} [%r10], [%d4, {}], [%r11];", list(coordinates));
    let given = (bytes + 64).next_multiple_of(128).min(4096);
    let input = random_bytes(&name, map.bytes(element) as usize);
    let mut case = filled(&name, &copy, bytes, given, input);
    case.maps.push(map);
    case
}

fn tensor_loads(cases: &mut Vec<Case>) {
    for rank in 1..=5 {
        for swizzle in 0..4 {
            for (where_, coordinates) in COORDINATES {
                let name = format!("copies/load {rank}-D swizzle {swizzle} {where_}");
                let map = words(Buffer::Input, rank, swizzle);
                cases.push(load(name, map, 4, &coordinates[..rank], "shared::cluster"));
            }
        }
    }
    let map = words(Buffer::Input, 2, 3);
    cases.push(load("copies/load 2-D shared::cta".into(), map, 4, &[4, 1], "shared::cta"));
    for (of, number, element) in TYPES {
        for fill in [0, 1] {
            if fill == 1 && !of.contains('f') {
                continue;
            }
            let name = format!("copies/load 2-D of {of}, fill {fill}");
            let extents = [80 / element - 1, 6];
            let mut map =
                Map::dense(Buffer::Input, number, element, &extents, &[(64 / element) as u32, 4]);
            (map.fill, map.swizzle) = (fill, 2);
            let coordinates = [(32 / element) as i32, 4];
            let mut case = load(name.clone(), map, element, &coordinates, "shared::cluster");
            if of.contains('f') {
                let of = of.split(' ').next().unwrap_or(of).trim_start_matches('t');
                case.input = numbers(&name, of, case.input.len());
            }
            cases.push(case);
        }
    }
    // Steps between elements, rows shorter than the swizzle's span, and gaps between rows.
    for (strides, name) in [([1, 2], "1, 2"), ([1, 3], "1, 3"), ([2, 2], "2, 2")] {
        let mut map = words(Buffer::Input, 2, 1);
        map.element_strides = strides.to_vec();
        // The stride of dimension 0 is ignored without interleave, so the count is of the others.
        let counted = [1, strides[1]];
        let mut case = load(
            format!("copies/load 2-D, element strides {name}"),
            Map { element_strides: counted.to_vec(), ..map.clone() },
            4,
            &[4, 1],
            "shared::cluster",
        );
        case.maps = vec![map];
        cases.push(case);
    }
    for (swizzle, row) in SHORT_ROWS {
        let mut map = words(Buffer::Input, 3, swizzle);
        (map.tile[0], map.tile[1]) = (row / 4, 3);
        let name = format!("copies/load 3-D, rows of {row} bytes with swizzle {swizzle}");
        let case = load(name, map, 4, &[4, 1, 1], "shared::cluster");
        // Wherever the rows lie, they are seen.
        cases.push(giving(case, 1024));
    }
    // The values at which a conversion would show.
    for (of, number) in [("f32", 7), ("f32 ftz", 10), ("tf32", 11), ("tf32 ftz", 12)] {
        let name = format!("copies/load 2-D of {of}, special values");
        let map = Map::dense(Buffer::Input, number, 4, &[60, 2], &[60, 2]);
        let mut case = load(name.clone(), map, 4, &[0, 0], "shared::cluster");
        case.input = numbers(&name, "f32", case.input.len());
        // Half of them halfway between two numbers of TF32, the others next to it.
        for (index, word) in case.input.chunks_mut(4).enumerate().skip(60) {
            word[0] = [0, 0, 1, 255][index % 4];
            word[1] = word[1] & 0xE0 | [0x10, 0x10, 0x10, 0x0F][index % 4];
        }
        cases.push(case);
    }
    let mut map = words(Buffer::Input, 3, 3);
    (map.strides[0], map.strides[1]) = (208, 2000);
    map.offset = 48;
    let mut case = load(
        "copies/load 3-D with gaps and an offset".into(),
        map,
        4,
        &[4, -1, 3],
        "shared::cluster",
    );
    case.input = random_bytes("gaps", 48 + 5 * 2000);
    cases.push(case);
    let forms = [
        ("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%d4, {0, 0}];", "prefetch.tensor"),
        ("prefetch.tensormap [%d4];", "prefetch.tensormap"),
        ("prefetch.param.tensormap [map0];", "prefetch.param.tensormap"),
    ];
    for (form, name) in forms {
        let mut case = load(
            format!("copies/load 2-D after {name}"),
            words(Buffer::Input, 2, 3),
            4,
            &[0, 0],
            "shared::cluster",
        );
        case.ptx = case.ptx.replace(ADDRESS, &format!("{ADDRESS}    {form}\n"));
        cases.push(case);
    }
    let mut hinted = load(
        "copies/load 2-D with a cache hint".into(),
        words(Buffer::Input, 2, 3),
        4,
        &[0, 0],
        "shared::cluster",
    );
    hinted.ptx = hinted
        .ptx
        .replace("complete_tx::bytes [", "complete_tx::bytes.L2::cache_hint [")
        .replace("{0, 0}], [%r11];", "{0, 0}], [%r11], %d5;")
        .replace(ADDRESS, &format!("{ADDRESS}    mov.b64 %d5, 0x14F0000000000000;\n"));
    cases.push(hinted);
}

fn store(name: &str, form: &str, map: Map, element: u64, coordinates: &[i32], more: &str) -> Case {
    let copy = format!("{ADDRESS}    {form} [%d4, {}], [%r10]{more};", list(coordinates));
    // Of the last 16 bytes of a row all are written.
    let bytes = map.bytes(element).next_multiple_of(16) as usize;
    let output = random_bytes(&format!("{name} before"), bytes);
    let mut case = emptied(name, &copy, "", random_bytes(name, 4096), output);
    case.maps.push(map);
    case
}

fn tensor_stores(cases: &mut Vec<Case>) {
    for rank in 1..=5 {
        for swizzle in 0..4 {
            for (where_, coordinates) in COORDINATES {
                let refused = Some("negative").filter(|_| coordinates[0] < 0);
                if refused.is_some() && swizzle > 0 {
                    continue;
                }
                let name = format!("copies/store {rank}-D swizzle {swizzle} {where_}");
                let form =
                    format!("cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group");
                let map = words(Buffer::Output, rank, swizzle);
                let mut case = store(&name, &form, map, 4, &coordinates[..rank], "");
                case.refused = refused;
                cases.push(case);
            }
        }
    }
    let form = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group.L2::cache_hint";
    let name = "copies/store 2-D with a cache hint";
    let mut case = store(name, form, words(Buffer::Output, 2, 3), 4, &[0, 0], ", %d5");
    case.ptx =
        case.ptx.replace(ADDRESS, &format!("{ADDRESS}    mov.b64 %d5, 0x14F0000000000000;\n"));
    cases.push(case);
    for (of, number, element) in TYPES {
        let name = format!("copies/store 2-D of {of}");
        let form = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group";
        let tile = [(64 / element) as u32, 4];
        let mut map = Map::dense(Buffer::Output, number, element, &[80 / element - 1, 6], &tile);
        map.swizzle = 2;
        let mut case = store(&name, form, map, element, &[(32 / element) as i32, 4], "");
        if of.contains('f') {
            let of = of.split(' ').next().unwrap_or(of).trim_start_matches('t');
            case.input = numbers(&name, of, 4096);
        }
        cases.push(case);
    }
    for (swizzle, row) in SHORT_ROWS {
        let mut map = words(Buffer::Output, 3, swizzle);
        (map.tile[0], map.tile[1]) = (row / 4, 3);
        let form = "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group";
        let name = format!("copies/store 3-D, rows of {row} bytes with swizzle {swizzle}");
        cases.push(store(&name, form, map, 4, &[4, 1, 1], ""));
    }
    for (rank, coordinates) in [
        (2, [-4, 1, 0]),
        (2, [-8, 1, 0]),
        (2, [4, -1, 0]),
        (2, [4, -4, 0]),
        (3, [4, 1, -1]),
        (3, [4, -2, 1]),
    ] {
        let place = list(&coordinates[..rank]);
        for (form, name) in [
            ("cp.async.bulk.tensor.RANKd.global.shared::cta.tile.bulk_group", "store"),
            ("cp.reduce.async.bulk.tensor.RANKd.global.shared::cta.add.tile.bulk_group", "reduce"),
        ] {
            let form = form.replace("RANK", &rank.to_string());
            let map = words(Buffer::Output, rank, 0);
            let name = format!("copies/{name} {rank}-D at {place}");
            let mut case = store(&name, &form, map, 4, &coordinates[..rank], "");
            case.refused = Some("negative");
            cases.push(case);
        }
    }
    let mut strided = words(Buffer::Output, 2, 1);
    strided.element_strides[1] = 2;
    let form = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group";
    cases.push(store("copies/store 2-D, element strides 1, 2", form, strided, 4, &[4, 1], ""));
}

fn tensor_reductions(cases: &mut Vec<Case>) {
    for (of, number, element) in TYPES {
        let float = of.contains('f');
        let operations: &[&str] = match of {
            "u32" => &["add", "min", "max", "inc", "dec", "and", "or", "xor"],
            "s32" => &["add", "min", "max", "and", "or", "xor"],
            "u64" => &["add", "min", "max", "and", "or", "xor"],
            "s64" => &["min", "max", "and", "or", "xor"],
            "f16" | "bf16" => &["add", "min", "max"],
            "f32" | "f32 ftz" => &["add"],
            _ => continue,
        };
        for operation in operations {
            let form = format!(
                "cp.reduce.async.bulk.tensor.2d.global.shared::cta.{operation}.tile.bulk_group"
            );
            let name = format!("copies/reduce 2-D {operation} of {of}");
            let tile = [(64 / element) as u32, 4];
            let mut map =
                Map::dense(Buffer::Output, number, element, &[80 / element - 1, 6], &tile);
            map.swizzle = 2;
            let mut case = store(&name, &form, map, element, &[(32 / element) as i32, 1], "");
            if float {
                let of = of.split(' ').next().unwrap_or(of);
                case.input = numbers(&name, of, 4096);
                case.output = numbers(&format!("{name} before"), of, case.output.len());
                case.compare = compare_of(of);
            }
            if of == "s64" && !["min", "max"].contains(operation) {
                case.refused = Some("I64");
            }
            cases.push(case);
        }
    }
    // Sums of special values, subnormal ones among them, with themselves.
    for (of, number) in [("f16", 6), ("bf16", 9), ("f32", 7), ("f32 ftz", 10)] {
        let form = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group";
        let name = format!("copies/reduce 2-D add of {of}, special values");
        let of = of.split(' ').next().unwrap_or(of);
        let element = format_of(of).map_or(4, Format::bytes) as u64;
        let row = 160 / element;
        let map = Map::dense(Buffer::Output, number, element, &[row, 2], &[row as u32, 2]);
        let mut case = store(&name, form, map, element, &[0, 0], "");
        case.input = numbers(&name, of, 4096);
        case.output = case.input[..320].to_vec();
        case.compare = compare_of(of);
        cases.push(case);
    }
    for rank in 1..=5 {
        for (where_, coordinates) in COORDINATES {
            let form = format!(
                "cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.add.tile.bulk_group"
            );
            let name = format!("copies/reduce {rank}-D add {where_}");
            let map = words(Buffer::Output, rank, 1);
            let mut case = store(&name, &form, map, 4, &coordinates[..rank], "");
            case.refused = Some("negative").filter(|_| coordinates[0] < 0);
            cases.push(case);
        }
    }
}

/// A map is copied, one field of the copy replaced, and the copy used for a load.
fn replacements(cases: &mut Vec<Case>) {
    let fields: [(&str, &str, usize); 14] = [
        ("nothing", "", 256),
        (
            "global_address",
            "tensormap.replace.tile.global_address.SPACE.b1024.b64 [MAP], %d6;",
            256,
        ),
        ("box_dim 1", "tensormap.replace.tile.box_dim.SPACE.b1024.b32 [MAP], 1, 2;", 128),
        ("box_dim 0", "tensormap.replace.tile.box_dim.SPACE.b1024.b32 [MAP], 0, 8;", 128),
        ("global_dim 0", "tensormap.replace.tile.global_dim.SPACE.b1024.b32 [MAP], 0, 10;", 256),
        ("global_dim 1", "tensormap.replace.tile.global_dim.SPACE.b1024.b32 [MAP], 1, 3;", 256),
        (
            "global_stride 0",
            "tensormap.replace.tile.global_stride.SPACE.b1024.b64 [MAP], 0, 96;",
            256,
        ),
        (
            "element_stride 1",
            "tensormap.replace.tile.element_stride.SPACE.b1024.b32 [MAP], 1, 2;",
            128,
        ),
        ("elemtype", "tensormap.replace.tile.elemtype.SPACE.b1024.b32 [MAP], 7;", 256),
        ("swizzle_mode none", "tensormap.replace.tile.swizzle_mode.SPACE.b1024.b32 [MAP], 0;", 256),
        ("swizzle_mode 128B", "tensormap.replace.tile.swizzle_mode.SPACE.b1024.b32 [MAP], 3;", 256),
        (
            "fill_mode",
            "tensormap.replace.tile.elemtype.SPACE.b1024.b32 [MAP], 7; \
             tensormap.replace.tile.fill_mode.SPACE.b1024.b32 [MAP], 1;",
            256,
        ),
        (
            "interleave_layout",
            "tensormap.replace.tile.interleave_layout.SPACE.b1024.b32 [MAP], 0;",
            256,
        ),
        ("rank", "tensormap.replace.tile.rank.SPACE.b1024.b32 [MAP], 0;", 64),
    ];
    for (field, replace, bytes) in fields {
        for space in ["shared::cta", "global"] {
            let replace = replace
                .replace("SPACE", space)
                .replace("MAP", if space == "global" { "%d8" } else { "%r25" });
            let publish = match space {
                "global" => "    fence.proxy.tensormap::generic.release.gpu;\n    bar.sync 0;",
                _ => {
                    "    bar.sync 0;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d8], [%r25], 128;"
                }
            };
            let copy_to = match space {
                "global" => {
                    "    mad.wide.u32 %d9, %r2, 4, %d8;\n    st.global.b32 [%d9], %r14;\n    fence.acq_rel.gpu;"
                }
                _ => "    mad.lo.u32 %r13, %r2, 4, %r25;\n    st.shared.b32 [%r13], %r14;",
            };
            let coordinates = if field == "rank" { "{8}" } else { "{8, 3}" };
            let rank = if field == "rank" { 1 } else { 2 };
            let body = format!(
                "{SETUP}{FILL}{BARRIER}    .shared .align 128 .b8 copy[128];
    mov.u32 %r25, copy;
    mov.u64 %d8, changed;
    mov.b64 %d4, map0;
    cvta.param.u64 %d4, %d4;
    mad.wide.u32 %d9, %r2, 4, %d4;
    ld.b32 %r14, [%d9];
{copy_to}
    bar.sync 0;
    add.u64 %d6, %input, 64;
    @!%p1 bra CHANGED;
    {replace}
CHANGED:
{publish}
    fence.proxy.tensormap::generic.acquire.gpu [%d8], 128;
    @!%p1 bra WAIT;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r11], {bytes};
    cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r10], [%d8, {coordinates}], [%r11];
{WAIT}{}",
                give(512)
            );
            let module = format!("{SHARED}\n.global .align 128 .b8 changed[128];");
            let text = Text { module: &module, maps: 1, body: &body, ..Text::default() };
            let name = format!("copies/tensormap.replace {field} in {space}");
            let mut map = Map::dense(Buffer::Input, 2, 4, &[20, 6], &[16, 4]);
            map.swizzle = 2;
            let mut case = case(&name, &text, random_bytes(&name, 1024), 512);
            case.maps.push(map);
            cases.push(case);
        }
    }
}

/// The innermost coordinate is 8 bytes off a whole unit of 16, inside and outside the tensor.
fn refusals(cases: &mut Vec<Case>) {
    let reason = "no multiple of 16 bytes";
    let tiled = "global.shared::cta";
    for (where_, start) in [("inside", 2), ("before the start", -2), ("outside", 102)] {
        let name = format!("copies/refused: load 2-D from word {start}, {where_}");
        let map = words(Buffer::Input, 2, 0);
        let mut case = load(name, map, 4, &[start, 0], "shared::cluster");
        case.refused = Some(reason);
        cases.push(case);
        for (form, name) in [
            (format!("cp.async.bulk.tensor.2d.{tiled}.tile.bulk_group"), "store"),
            (format!("cp.reduce.async.bulk.tensor.2d.{tiled}.add.tile.bulk_group"), "reduce"),
        ] {
            let name = format!("copies/refused: {name} 2-D to word {start}, {where_}");
            let map = words(Buffer::Output, 2, 0);
            let mut case = store(&name, &form, map, 4, &[start, 0], "");
            case.refused = Some(reason);
            cases.push(case);
        }
    }
}
