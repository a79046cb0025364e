//! Kernels with `wgmma`: their results, and what is reported of wrong ones.

mod matrices;

use matrices::{Element, Run, run};
use ptx_emulator::{Checks, ReportKind};

/// A product of one slice of K, or of several.
struct Product {
    types: &'static str,
    elements: [Element; 2],
    /// Of D: "f32", "f16" or "s32".
    result: &'static str,
    n: usize,
    registers: bool,
    slices: usize,
    /// Without a swizzle, or with that of 128 bytes.
    swizzled: bool,
    signs: [i32; 2],
    scale: &'static str,
}

const PLAIN: Product = Product {
    types: "f32.bf16.bf16",
    elements: [Element::Bf16; 2],
    result: "f32",
    n: 16,
    registers: false,
    slices: 1,
    swizzled: false,
    signs: [1; 2],
    scale: "1",
};

/// Bytes of the shared image before B.
const B_OFFSET: usize = 16 << 10;
/// The shared address of the image.
const IMAGE: usize = 64 << 10;

impl Product {
    fn k(&self) -> usize {
        32 * 8 / self.elements[0].bits()
    }

    /// Registers of D in a thread.
    fn count(&self) -> usize {
        if self.result == "f16" { self.n / 4 } else { self.n / 2 }
    }

    /// Where byte `kb` of slice `slice` of row `mn` lies in the image of its operand.
    fn place(&self, mn: usize, slice: usize, kb: usize) -> usize {
        if self.swizzled {
            // Rows of 128 bytes hold four slices; bits 9:7 are mixed into bits 6:4.
            let address = mn / 8 * 1024 + mn % 8 * 128 + slice * 32 + kb;
            address ^ (address >> 7 & 7) << 4
        } else {
            slice * 8192 + mn / 8 * 256 + kb / 16 * 128 + mn % 8 * 16 + kb % 16
        }
    }

    fn descriptor(&self, operand: usize, slice: usize) -> u64 {
        let base = IMAGE + operand * B_OFFSET;
        let (start, strides): (_, u64) = if self.swizzled {
            (base + slice * 32, 1 << 62 | (1024 >> 4) << 32 | 1 << 16)
        } else {
            (base + slice * 8192, (256 >> 4) << 32 | (128 >> 4) << 16)
        };
        strides | (start >> 4) as u64
    }

    fn instruction(&self, slice: usize) -> String {
        let (n, k) = (self.n, self.k());
        let d: Vec<_> = (0..self.count()).map(|at| format!("%d{at}")).collect();
        let d = d.join(", ");
        let a = if self.registers {
            let first = slice * 4;
            format!("{{%a{}, %a{}, %a{}, %a{}}}", first, first + 1, first + 2, first + 3)
        } else {
            format!("{:#x}", self.descriptor(0, slice))
        };
        let b = self.descriptor(1, slice);
        let [sign_a, sign_b] = self.signs;
        let tail = match (self.elements[0].bits(), self.registers) {
            (16, false) => format!(", {sign_a}, {sign_b}, 0, 0"),
            (16, true) => format!(", {sign_a}, {sign_b}, 0"),
            _ if self.result == "s32" => String::new(),
            _ => format!(", {sign_a}, {sign_b}"),
        };
        let (types, scale) = (self.types, if slice == 0 { self.scale } else { "1" });
        format!(
            "wgmma.mma_async.sync.aligned.m64n{n}k{k}.{types} {{{d}}}, {a}, {b:#x}, {scale}{tail};"
        )
    }

    /// The values of A (64 rows) and B (n columns), of all slices.
    fn values(&self, operand: usize) -> Vec<Vec<i32>> {
        let k = self.k() * self.slices;
        let rows = if operand == 0 { 64 } else { self.n };
        let unsigned = matches!(self.elements[operand], Element::U8);
        let value = |row: usize, at: usize| {
            let mixed = (row * 31 + at * 17 + operand * 7 + row * at) % 5;
            if unsigned { mixed as i32 } else { mixed as i32 - 2 }
        };
        (0..rows).map(|row| (0..k).map(|at| value(row, at)).collect()).collect()
    }

    /// Shared memory, and the registers of A by thread.
    fn image(&self) -> (Vec<u8>, Vec<Vec<u32>>) {
        let mut image = vec![0; 64 << 10];
        let mut fragments = vec![vec![0; 4 * self.slices]; 128];
        for operand in 0..2 {
            let element = self.elements[operand];
            for (mn, row) in self.values(operand).iter().enumerate() {
                for (at, value) in row.iter().enumerate() {
                    let (slice, k) = (at / self.k(), at % self.k());
                    for (byte, value) in element.encode(*value).into_iter().enumerate() {
                        let kb = k * element.bits() / 8 + byte;
                        image[operand * B_OFFSET + self.place(mn, slice, kb)] = value;
                        if operand == 0 {
                            // Bits of K in lane order: four bytes a lane, then the second half.
                            let thread = mn / 16 * 32 + mn % 8 * 4 + kb % 16 / 4;
                            let register = slice * 4 + kb / 16 * 2 + mn % 16 / 8;
                            let word = &mut fragments[thread][register];
                            *word |= u32::from(value) << (8 * (kb % 4));
                        }
                    }
                }
            }
        }
        (image, fragments)
    }

    /// What thread `thread` holds in number `index` of its values of D.
    fn expected(&self, values: &[Vec<Vec<i32>>; 2], thread: usize, index: usize) -> i32 {
        let row = thread / 32 * 16 + thread % 32 / 4 + 8 * (index / 2 % 2);
        let column = 8 * (index / 4) + 2 * (thread % 4) + index % 2;
        let (a, b) = (&values[0][row], &values[1][column]);
        let sum: i32 = a.iter().zip(b).map(|(a, b)| a * b).sum();
        let start = if self.scale == "0" { 0 } else { Self::before(thread, index) };
        start + sum * self.signs[0] * self.signs[1]
    }

    /// The kernel; `middle` stands between the copy to shared memory and the end, and `fence`
    /// before the barrier.
    fn kernel(&self, fence: &str, middle: &str) -> String {
        let count = self.count();
        let mut text = format!(".reg .b32 %d<{count}>; .reg .b32 %a<{}>;\n", 4 * self.slices);
        text += &matrices::copy_to_shared();
        for at in 0..count {
            text += &format!("ld.global.b32 %d{at}, [%table+{}];\n", matrices::accumulator(at));
        }
        for at in 0..4 * self.slices {
            text += &format!("ld.global.b32 %a{at}, [%table+{}];\n", matrices::fragment(at));
        }
        text += &format!("{fence}\nbar.sync 0;\n{middle}\n");
        for at in 0..count {
            text += &format!("st.global.b32 [%table+{}], %d{at};\n", matrices::result(at));
        }
        text + "ret;"
    }

    fn products(&self) -> String {
        (0..self.slices).map(|slice| self.instruction(slice) + "\n").collect()
    }

    fn correct(&self) -> String {
        let middle = format!(
            "wgmma.fence.sync.aligned;\n{}wgmma.commit_group.sync.aligned;\n\
             wgmma.wait_group.sync.aligned 0;",
            self.products()
        );
        self.kernel("fence.proxy.async;", &middle)
    }

    /// What thread `thread` holds before in number `index` of its values of D.
    fn before(thread: usize, index: usize) -> i32 {
        (thread * 3 + index * 5) as i32 % 9 - 4
    }

    fn run(&self, text: &str, checks: Checks, seed: u64) -> Result<Run, ReportKind> {
        let (image, fragments) = self.image();
        let accumulators = (0..128).map(|thread| {
            let values: Vec<_> = (0..if self.result == "f16" { 2 } else { 1 } * self.count())
                .map(|index| Self::before(thread, index))
                .collect();
            matrices::encode(self.result, &values)
        });
        run(text, &image, &accumulators.collect::<Vec<_>>(), &fragments, 128, checks, seed)
    }

    fn check(&self, checks: Checks, seed: u64) {
        let run = self.run(&self.correct(), checks, seed);
        let run = run.unwrap_or_else(|report| panic!("{}: {report}", self.types));
        let values = [self.values(0), self.values(1)];
        for (thread, words) in run.results.iter().enumerate() {
            let found = matrices::decode(self.result, &words[..self.count()]);
            for (index, found) in found.into_iter().enumerate() {
                let wanted = self.expected(&values, thread, index);
                assert_eq!(
                    found,
                    f64::from(wanted),
                    "{} n{} thread {thread} value {index}",
                    self.types,
                    self.n
                );
            }
        }
        let wanted = 64 * self.n * self.k() * self.slices;
        assert_eq!(run.statistics.multiply_adds, wanted as u64);
    }
}

#[test]
fn every_type_gives_the_product() {
    use Element::{Bf16, E4m3, E5m2, F16, S8, Tf32, U8};
    let types = [
        ("f32.bf16.bf16", [Bf16; 2], "f32"),
        ("f32.f16.f16", [F16; 2], "f32"),
        ("f16.f16.f16", [F16; 2], "f16"),
        ("f32.tf32.tf32", [Tf32; 2], "f32"),
        ("f32.e4m3.e4m3", [E4m3; 2], "f32"),
        ("f16.e4m3.e5m2", [E4m3, E5m2], "f16"),
        ("f32.e5m2.e4m3", [E5m2, E4m3], "f32"),
        ("s32.s8.s8", [S8; 2], "s32"),
        ("s32.u8.s8", [U8, S8], "s32"),
    ];
    for (types, elements, result) in types {
        for registers in [false, true] {
            let product = Product { types, elements, result, registers, ..PLAIN };
            product.check(Checks::On, 1);
            Product { n: 64, slices: 2, scale: "0", ..product }.check(Checks::On, 2);
        }
    }
}

#[test]
fn four_slices_of_a_swizzled_operand_follow_each_other() {
    for seed in 0..4 {
        let product = Product { n: 128, slices: 4, swizzled: true, signs: [-1, 1], ..PLAIN };
        product.check(Checks::On, seed);
        Product { n: 256, scale: "0", signs: [1; 2], ..product }.check(Checks::Off, seed);
    }
}

/// Two groups; after `wait_group 1` the first one's accumulators are free.
#[test]
fn an_older_group_ends_first() {
    let product = Product { n: 8, ..PLAIN };
    let other = product.instruction(0).replace("%d", "%e");
    let middle = format!(
        ".reg .b32 %e<4>;\nmov.b32 %e0, 0;\nmov.b32 %e1, 0;\nmov.b32 %e2, 0;\nmov.b32 %e3, 0;\n\
         wgmma.fence.sync.aligned;\n{}\nwgmma.commit_group.sync.aligned;\n{other}\n\
         wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;\n\
         st.global.b32 [%table+{}], %d0;\n{{rest}}wgmma.wait_group.sync.aligned 0;",
        product.instruction(0),
        matrices::result(60),
    );
    for seed in 0..8 {
        let good = product.kernel("fence.proxy.async;", &middle.replace("{rest}", ""));
        let run = product.run(&good, Checks::On, seed).unwrap();
        let values = [product.values(0), product.values(1)];
        for (thread, words) in run.results.iter().enumerate() {
            let wanted = product.expected(&values, thread, 0);
            assert_eq!(f32::from_bits(words[60]), wanted as f32);
        }
        let bad = middle.replace("{rest}", "mov.b32 %e1, %e0;\n");
        let bad = product.kernel("fence.proxy.async;", &bad);
        let text = registers_report(product.run(&bad, Checks::On, seed));
        assert!(text.contains("`wgmma.wait_group` 0"), "{text}");
    }
}

fn registers_report(result: Result<Run, ReportKind>) -> String {
    match result.err() {
        Some(ReportKind::MatrixRegisters(text)) => text,
        other => panic!("{other:?}"),
    }
}

/// Kernels that go wrong on hardware whatever they give here.
#[test]
fn registers_of_unfinished_products_are_guarded() {
    let fence = "wgmma.fence.sync.aligned;\n";
    let commit = "wgmma.commit_group.sync.aligned;\n";
    let wait = "wgmma.wait_group.sync.aligned 0;\n";
    let a_in_registers = Product { registers: true, ..PLAIN };
    let one = PLAIN.products();
    let from_registers = a_in_registers.products();
    let write = "mov.b32 %d3, 0;\n";
    let wider = Product { n: 24, ..PLAIN };
    let cases = [
        (&PLAIN, format!("{fence}{one}{commit}"), "written|read"),
        (&PLAIN, format!("{fence}{one}{wait}"), "`wgmma.commit_group` and `wgmma.wait_group` 0"),
        (&PLAIN, format!("{fence}{one}{commit}{write}{wait}"), "written that is an accumulator"),
        (&PLAIN, format!("{one}{commit}{wait}"), "`wgmma.fence` is missing: none"),
        (
            &PLAIN,
            format!("{fence}{one}{commit}{wait}{write}{one}{commit}{wait}"),
            "`wgmma.fence` is missing: a register",
        ),
        (
            &a_in_registers,
            format!("{fence}{from_registers}{commit}mov.b32 %a1, 0;\n{wait}"),
            "written that is part of A",
        ),
        (
            &a_in_registers,
            format!("{fence}mov.b32 %a1, 0;\n{from_registers}{commit}{wait}"),
            "`wgmma.fence` is missing: a register",
        ),
        (
            &wider,
            format!("{fence}{one}{}{commit}{wait}", wider.products()),
            "used as accumulator of another wgmma",
        ),
        (&PLAIN, format!("{fence}{one}{commit}ret;\n"), "the function ends"),
    ];
    for (product, middle, wanted) in cases {
        for seed in 0..4 {
            let text = product.kernel("fence.proxy.async;", &middle);
            for checks in [Checks::On, Checks::Off] {
                let found = registers_report(product.run(&text, checks, seed));
                assert!(wanted.split('|').any(|own| found.contains(own)), "{wanted}: {found}");
            }
        }
    }
    // A fence makes what would be wrong without it right.
    let right = format!("{fence}{one}{commit}{wait}{write}{fence}{one}{commit}{wait}");
    PLAIN.run(&PLAIN.kernel("fence.proxy.async;", &right), Checks::On, 0).unwrap();
}

#[test]
fn operands_must_be_written_and_fenced_and_left_alone() {
    let seeds = 0..6;
    let correct = PLAIN.correct();
    for seed in seeds {
        let unfenced = correct.replace("fence.proxy.async;", "");
        match PLAIN.run(&unfenced, Checks::On, seed).err() {
            Some(ReportKind::MissingProxyFence { address, .. }) => {
                assert!(address >= IMAGE as u64, "{address:#x}");
            }
            other => panic!("{other:?}"),
        }
        let unordered = correct.replace("bar.sync 0;", "");
        match PLAIN.run(&unordered, Checks::On, seed).err() {
            Some(ReportKind::Race { .. } | ReportKind::Uninitialised { .. }) => {}
            other => panic!("{other:?}"),
        }
        // B is written again between the issue and the wait, each word by one thread alone.
        let product = Product { registers: true, ..PLAIN };
        let commit = "wgmma.commit_group.sync.aligned;";
        let early = product.correct();
        let early = early.replace(commit, &format!("{commit}\nst.shared.b32 [%w3+28], 0;"));
        match product.run(&early, Checks::On, seed).err() {
            Some(ReportKind::Race { space: "shared", .. }) => {}
            other => panic!("{other:?}"),
        }
        // All but the first 16 columns of B lie behind the image.
        let wide = Product { n: 64, ..PLAIN };
        let tail = wide.correct().replace(
            &format!("{:#x}", wide.descriptor(1, 0)),
            &format!("{:#x}", wide.descriptor(1, 0) + (((48 << 10) - 512) >> 4)),
        );
        match wide.run(&tail, Checks::On, seed).err() {
            Some(ReportKind::Uninitialised { address, .. }) => {
                assert_eq!(address, 2 * IMAGE as u64);
            }
            other => panic!("{other:?}"),
        }
        let never = correct.replace(
            &format!("{:#x}", PLAIN.descriptor(1, 0)),
            &format!("{:#x}", PLAIN.descriptor(1, 0) + (96 << 10 >> 4)),
        );
        match PLAIN.run(&never, Checks::On, seed).err() {
            Some(ReportKind::Uninitialised { .. }) => {}
            other => panic!("{other:?}"),
        }
        // After the wait and a barrier the operand may be written.
        let wait = "wgmma.wait_group.sync.aligned 0;";
        let late = correct.replace(wait, &format!("{wait}\nbar.sync 0;\nst.shared.b32 [%w3], 0;"));
        PLAIN.run(&late, Checks::On, seed).unwrap();
    }
}

/// A warp that has waited for its own products knows nothing of those of the others, which read
/// the same B. Of several readers the checker remembers one, so only some runs show it.
#[test]
fn waiting_for_own_products_is_not_enough_to_reuse_b() {
    let wait = "wgmma.wait_group.sync.aligned 0;";
    let early = PLAIN.correct().replace(wait, &format!("{wait}\nst.shared.b32 [%w3], 0;"));
    let races = (0..16).filter(|seed| {
        let report = PLAIN.run(&early, Checks::On, *seed).err();
        matches!(report, Some(ReportKind::Race { space: "shared", .. }))
    });
    assert!(races.count() > 8);
}

#[test]
fn a_warpgroup_is_whole_and_of_one_mind() {
    let correct = PLAIN.correct();
    let descriptor = format!("{:#x}", PLAIN.descriptor(0, 0));
    // The descriptor comes from memory that differs by thread, or by warp.
    let loaded = |table: usize| {
        let text = correct.replace(&descriptor, "%given").replace(
            "bar.sync 0;",
            &format!("ld.global.b64 %given, [%table+{table}];\nbar.sync 0;"),
        );
        format!(".reg .b64 %given;\n{text}")
    };
    for (by, wanted) in [(1, "a warp give different descriptors"), (32, "different products")] {
        let (image, mut fragments) = PLAIN.image();
        for (thread, own) in fragments.iter_mut().enumerate() {
            let descriptor = PLAIN.descriptor(0, 0) + 2 * (thread / by % 2) as u64;
            *own = vec![descriptor as u32, (descriptor >> 32) as u32];
        }
        let accumulators = vec![vec![0; 8]; 128];
        let text = loaded(matrices::fragment(0));
        let result = run(&text, &image, &accumulators, &fragments, 128, Checks::On, 3);
        let text = result.err().unwrap().to_string();
        assert!(text.contains(wanted), "{text}");
    }
    let accumulators = vec![vec![0; 8]; 128];
    let (image, fragments) = PLAIN.image();
    for threads in [96, 100] {
        let result = run(&correct, &image, &accumulators, &fragments, threads, Checks::Off, 0);
        let text = result.err().unwrap().to_string();
        assert!(text.contains("wgmma.fence by"), "{text}");
    }
    let reserved =
        correct.replace(&descriptor, &format!("{:#x}", PLAIN.descriptor(0, 0) | 1 << 46));
    let text = PLAIN.run(&reserved, Checks::On, 0).err().unwrap().to_string();
    assert!(text.contains("reserved bits"), "{text}");
    // A descriptor that leads out of shared memory is named, and so is the whole warp.
    for (operand, name) in [(0, "A"), (1, "B")] {
        let own = PLAIN.descriptor(operand, 0);
        let outside = (own & !0x3FFF) | 0x3F80;
        let text = correct.replace(&format!("{own:#x}"), &format!("{outside:#x}"));
        let text = PLAIN.run(&text, Checks::On, 0).err().unwrap().to_string();
        let part = format!("descriptor of {name}, {outside:#018x}, leads there");
        assert!(text.contains("out of bounds of shared memory") && text.contains(&part), "{text}");
    }
}

#[test]
fn wrong_forms_are_refused() {
    let good = PLAIN.correct();
    let instruction = PLAIN.instruction(0);
    let cases = [
        instruction.replace("m64n16k16", "m64n16k8"),
        instruction.replace("m64n16k16", "m64n24k16"),
        instruction.replace(".sync", ""),
        instruction.replace("1, 1, 0, 0;", "2, 1, 0, 0;"),
        instruction.replace("1, 1, 0, 0;", "1, 1;"),
        instruction.replace("%d1,", "%d0,"),
        instruction.replace("bf16.bf16 {", "bf16.f16 {"),
    ];
    for wrong in cases {
        assert_ne!(wrong, instruction);
        let text = good.replace(&instruction, &wrong);
        assert!(matrices::load(&text).is_err(), "{wrong}");
    }
    assert!(matrices::load(&good).is_ok());
}
