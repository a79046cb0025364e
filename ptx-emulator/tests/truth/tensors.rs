//! Copies of tensors, and changes of their maps.

use crate::cases::{Buffer, Case, Map, Text, case, random_bytes};
use crate::copies::{
    BARRIER, FILL, SETUP, SHARED, WAIT, compare_of, emptied, filled, format_of, give, numbers,
};
use crate::numbers::Format;

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    loads(&mut cases);
    stores(&mut cases);
    reductions(&mut cases);
    replacements(&mut cases);
    refusals(&mut cases);
    cases
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
pub fn words(buffer: Buffer, rank: usize, swizzle: u32) -> Map {
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

fn loads(cases: &mut Vec<Case>) {
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

fn stores(cases: &mut Vec<Case>) {
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

fn reductions(cases: &mut Vec<Case>) {
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
