//! `wgmma`: all types, several widths, every layout in shared memory.
//!
//! The operands are copied from the input to shared memory as they are, byte by byte, so that the
//! layouts are the machine's own: whatever bytes the descriptors reach is multiplied. Where a
//! layout does not cover all bytes the others are not read.

use crate::cases::{Case, Text, case};
use crate::mma::{BF16, E4M3, E5M2, Element, F16, S8, TF32, U8, bound};
use crate::numbers::{Format, Random};

/// Swizzle modes of the descriptor with the bytes of a row.
const MODES: [(&str, u64, u64); 4] =
    [("none", 0, 16), ("128B", 1, 128), ("64B", 2, 64), ("32B", 3, 32)];

/// Bytes of each operand in shared memory; B starts at 32 KiB.
const OPERAND: usize = 32 << 10;

/// What one row of the table multiplies.
#[derive(Clone)]
struct Product {
    name: String,
    types: [(&'static str, Element); 2],
    result: &'static str,
    n: usize,
    /// Leading and stride byte offsets, and the mode, of A and B.
    layouts: [(u64, u64, u64); 2],
    /// Bytes added to the start addresses.
    starts: [u64; 2],
    registers: bool,
    scale_d: &'static str,
    signs: [i32; 2],
    transposes: [u32; 2],
    whole: bool,
    /// Slices multiplied one after the other into the same sums.
    slices: usize,
}

impl Product {
    fn new(
        name: &str,
        a: (&'static str, Element),
        b: (&'static str, Element),
        result: &'static str,
    ) -> Self {
        Self {
            name: name.to_owned(),
            types: [a, b],
            result,
            n: 8,
            layouts: [k_major(1, 128); 2],
            starts: [0; 2],
            registers: false,
            scale_d: "1",
            signs: [1; 2],
            transposes: [0; 2],
            whole: true,
            slices: 1,
        }
    }
}

/// Offsets of a K-major operand: without swizzle the two halves of 16 bytes of K are 2048 bytes
/// apart (256 rows of 16 bytes would be 4096).
fn k_major(mode: u64, row: u64) -> (u64, u64, u64) {
    match mode {
        0 => (4096, 128, 0),
        _ => (16, row * 8, mode),
    }
}

/// Offsets of an MN-major operand of which 64 or `n` elements of 2 bytes lie side by side.
fn mn_major(mode: u64, row: u64, bytes: u64) -> (u64, u64, u64) {
    match mode {
        // Atoms of 8 × 16 bytes: the next 16 bytes of MN follow at once, then the next 8 of K.
        0 => (bytes / 16 * 128, 128, 0),
        _ => (16 * row, 8 * row, mode),
    }
}

pub fn cases() -> Vec<Case> {
    let mut products = types();
    products.extend(layouts());
    products.extend(options());
    let mut cases: Vec<Case> = products.iter().map(build).collect();
    cases.push(bits());
    cases
}

/// Every combination of types, from shared memory and from registers, whole and random numbers.
fn types() -> Vec<Product> {
    let mut products = Vec::new();
    let mut all =
        vec![(BF16, BF16, "f32"), (F16, F16, "f32"), (F16, F16, "f16"), (TF32, TF32, "f32")];
    for a in [E4M3, E5M2] {
        for b in [E4M3, E5M2] {
            all.extend([(a, b, "f32"), (a, b, "f16")]);
        }
    }
    for a in [S8, U8] {
        for b in [S8, U8] {
            all.push((a, b, "s32"));
        }
    }
    for (a, b, result) in all {
        for registers in [false, true] {
            for whole in [true, false] {
                let mut product = Product::new("", a, b, result);
                product.registers = registers;
                product.whole = whole;
                product.slices = if whole { 4 } else { 1 };
                product.name = format!(
                    "{result}.{}.{} n8 A in {} of {} numbers",
                    a.0,
                    b.0,
                    if registers { "registers" } else { "shared memory" },
                    if whole { "whole" } else { "random" },
                );
                products.push(product);
            }
        }
        for n in [16, 24, 32, 64, 128, 192, 256] {
            if n != 64 && n != 256 && a.0 != "bf16" && a.0 != "s8" {
                continue;
            }
            let mut product = Product::new("", a, b, result);
            product.n = n;
            product.name = format!("{result}.{}.{} n{n} of whole numbers", a.0, b.0);
            products.push(product);
        }
    }
    let mut saturated = Product::new("s32.s8.s8 satfinite", S8, S8, "s32");
    saturated.whole = false;
    products.push(saturated);
    products
}

fn layouts() -> Vec<Product> {
    let mut products = Vec::new();
    for (mode_name, mode, row) in MODES {
        for (a, b, result) in
            [(BF16, BF16, "f32"), (TF32, TF32, "f32"), (E4M3, E5M2, "f32"), (U8, S8, "s32")]
        {
            // All slices of 32 bytes that a row of the swizzle holds, by the start address.
            for slice in 0..(row / 32).max(1) {
                let mut product = Product::new("", a, b, result);
                product.n = 32;
                product.layouts = [k_major(mode, row); 2];
                product.starts = [slice * 32, slice * 32];
                product.name =
                    format!("{result}.{}.{} n32 K-major {mode_name} slice {slice}", a.0, b.0);
                products.push(product);
            }
        }
        for (transposes, which) in [([1, 0], "A"), ([0, 1], "B"), ([1, 1], "A and B")] {
            for (of, name) in [(BF16, "bf16"), (F16, "f16")] {
                for slice in 0..2 {
                    let mut product = Product::new("", of, of, "f32");
                    product.n = 64;
                    product.transposes = transposes;
                    for (side, bytes) in [(0, 128), (1, 128)] {
                        let transposed = transposes[side] == 1;
                        product.layouts[side] = match transposed {
                            true => mn_major(mode, row, bytes),
                            false => k_major(mode, row),
                        };
                        // The next 16 rows of K: without swizzle two steps of LBO, else of SBO.
                        let (lbo, sbo, _) = product.layouts[side];
                        product.starts[side] = match (transposed, mode) {
                            (true, 0) => slice * 2 * lbo,
                            // The atoms of 16 rows fill the step to the next W bytes of MN.
                            (true, _) => slice * 2 * sbo * (128 / row),
                            (false, _) => 0,
                        };
                    }
                    product.name =
                        format!("f32.{name}.{name} n64 {which} MN-major {mode_name} slice {slice}");
                    products.push(product);
                }
            }
        }
    }
    // Offsets other than the usual ones.
    let mut wide = Product::new("f32.bf16.bf16 n32 K-major none, other offsets", BF16, BF16, "f32");
    wide.n = 32;
    wide.layouts = [(128, 256, 0), (2048, 144, 0)];
    products.push(wide);
    let mut apart = Product::new("f32.bf16.bf16 n32 K-major 128B, groups apart", BF16, BF16, "f32");
    apart.n = 32;
    apart.layouts = [(0, 2048, 1), (0, 3072, 1)];
    products.push(apart);
    let mut rows =
        Product::new("f32.bf16.bf16 n16 K-major 64B from row 8 and 16", BF16, BF16, "f32");
    rows.n = 16;
    rows.layouts = [k_major(2, 64); 2];
    rows.starts = [8 * 64, 16 * 64];
    products.push(rows);
    let mut tall =
        Product::new("f32.bf16.bf16 n128 B MN-major 64B, steps of LBO and SBO", BF16, BF16, "f32");
    tall.n = 128;
    tall.transposes = [0, 1];
    tall.layouts = [k_major(1, 128), (4096, 512, 2)];
    products.push(tall);
    products
}

fn options() -> Vec<Product> {
    let mut products = Vec::new();
    for (signs, name) in
        [([-1, 1], "A negated"), ([1, -1], "B negated"), ([-1, -1], "both negated")]
    {
        for (of, result) in [(BF16, "f32"), (F16, "f16"), (TF32, "f32"), (E4M3, "f32")] {
            let mut product = Product::new("", of, of, result);
            product.signs = signs;
            product.name = format!("{result}.{}.{} n8 {name}", of.0, of.0);
            products.push(product);
        }
    }
    for (scale_d, name) in [
        ("0", "literal 0"),
        ("%p8", "a false predicate"),
        ("!%p8", "a negated false predicate"),
        ("%p9", "a true predicate"),
    ] {
        for (of, result) in [(BF16, "f32"), (S8, "s32"), (E5M2, "f16")] {
            let mut product = Product::new("", of, of, result);
            product.scale_d = scale_d;
            product.name = format!("{result}.{}.{} n8 scale-d {name}", of.0, of.0);
            products.push(product);
        }
    }
    products
}

fn descriptor((lbo, sbo, mode): (u64, u64, u64)) -> u64 {
    (lbo >> 4) << 16 | (sbo >> 4) << 32 | mode << 62
}

fn build(product: &Product) -> Case {
    let name = format!("wgmma/{}", product.name);
    let mut random = Random::of(&name);
    let [(a_name, a), (b_name, b)] = product.types;
    let elements = |kind: Element| match kind {
        Element::Float(format) => OPERAND / format.bytes(),
        Element::Tf32 => OPERAND / 4,
        _ => OPERAND,
    };
    // A and B are as long as their part of shared memory, so that every layout has bytes to read.
    let mut input = a.fill(&mut random, elements(a), product.whole);
    input.extend(b.fill(&mut random, elements(b), product.whole));
    let (format, result) = match product.result {
        "f32" => (Some(Format::F32), Element::Float(Format::F32)),
        "f16" => (Some(Format::F16), Element::Float(Format::F16)),
        _ => (None, S8.1),
    };
    let half = product.result == "f16";
    let sums = if half { product.n / 4 } else { product.n / 2 };
    // The sums that D starts with: 128 threads of so many words.
    let words = 128 * sums;
    input.extend(match format {
        Some(format) => result.fill(&mut random, words * 4 / format.bytes(), product.whole),
        None => (0..words)
            .flat_map(|at| match at % 4 {
                0 => (i32::MAX - 5000).to_le_bytes(),
                1 => (i32::MIN + 5000).to_le_bytes(),
                _ => (random.next() as i32 >> 8).to_le_bytes(),
            })
            .collect(),
    });
    let k = match a {
        Element::Float(format) => 32 / format.bytes(),
        Element::Tf32 => 8,
        _ => 32,
    };
    let satfinite = if product.name.contains("satfinite") { ".satfinite" } else { "" };
    let form = format!(
        "wgmma.mma_async.sync.aligned.m64n{}k{k}.{}.{a_name}.{b_name}{satfinite}",
        product.n, product.result
    );
    let body = body(product, &form, sums, format.is_some());
    let text = Text { module: SHARED, body: &body, ..Text::default() };
    let mut case = case(&name, &text, input, words * 4);
    case.block = [128, 1, 1];
    case.dynamic_shared_bytes = 2 * OPERAND as u32;
    case.compare = bound(a, format, k * product.slices, product.whole);
    case
}

const SHARED: &str = ".extern .shared .align 1024 .b8 dynamic[];";

/// Copies both operands to shared memory, loads the sums, multiplies and stores.
fn body(product: &Product, form: &str, sums: usize, float: bool) -> String {
    let list = |count: usize| {
        let names: Vec<_> = (0..count).map(|at| format!("%s{at}")).collect();
        format!("{{{}}}", names.join(", "))
    };
    let start = 2 * OPERAND;
    let loads: String = (0..sums)
        .map(|at| format!("    ld.global.b32 %s{at}, [%d1+{}];\n", start + at * 512))
        .collect();
    let stores: String =
        (0..sums).map(|at| format!("    st.global.b32 [%d2+{}], %s{at};\n", at * 512)).collect();
    let mut multiply = String::new();
    for slice in 0..product.slices {
        let descriptors: Vec<String> = (0..2)
            .map(|side| {
                let at = product.starts[side] + side as u64 * OPERAND as u64 + slice as u64 * 32;
                format!(
                    "    add.u32 %r21, %r20, {at};
    and.b32 %r21, %r21, 0x3FFFF;
    shr.u32 %r21, %r21, 4;
    cvt.u64.u32 %d1{side}, %r21;
    or.b64 %d1{side}, %d1{side}, {:#018x};\n",
                    descriptor(product.layouts[side])
                )
            })
            .collect();
        let a = if product.registers { "{%r30, %r31, %r32, %r33}" } else { "%d10" };
        let mut options = format!(", {}", product.scale_d);
        if float {
            options += &format!(", {}, {}", product.signs[0], product.signs[1]);
            if form.contains("16.bf16.") || form.contains("32.bf16.") || form.contains(".f16.f16") {
                options += &match product.registers {
                    true => format!(", {}", product.transposes[1]),
                    false => format!(", {}, {}", product.transposes[0], product.transposes[1]),
                };
            }
        }
        multiply +=
            &format!("{}    {form} {}, {a}, %d11{options};\n", descriptors.concat(), list(sums));
    }
    format!(
        "    .reg .b32 %s<{sums}>;
    mov.u32 %r20, dynamic;
    mov.u32 %r10, %r2;
COPY:
    mad.wide.u32 %d1, %r10, 16, %input;
    ld.global.v4.b32 {{%r11, %r12, %r13, %r14}}, [%d1];
    mad.lo.u32 %r15, %r10, 16, %r20;
    st.shared.v4.b32 [%r15], {{%r11, %r12, %r13, %r14}};
    add.u32 %r10, %r10, 128;
    setp.lt.u32 %p1, %r10, {};
    @%p1 bra COPY;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    mad.wide.u32 %d1, %r2, 4, %input;
    mad.wide.u32 %d2, %r2, 4, %output;
    ld.global.b32 %r30, [%d1];
    ld.global.b32 %r31, [%d1+512];
    ld.global.b32 %r32, [%d1+1024];
    ld.global.b32 %r33, [%d1+1536];
    setp.gt.u32 %p8, %r1, 4096;
    setp.lt.u32 %p9, %r1, 4096;
{loads}    wgmma.fence.sync.aligned;
{multiply}    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
{stores}",
        2 * OPERAND / 16
    )
}

/// Products of single bits.
fn bits() -> Case {
    let mut product =
        Product::new("s32.b1.b1 and.popc n8", ("b1", Element::Bits), ("b1", Element::Bits), "s32");
    product.whole = false;
    let mut case = build(&product);
    case.ptx = case.ptx.replace("k32.s32.b1.b1", "k256.s32.b1.b1.and.popc");
    case
}
