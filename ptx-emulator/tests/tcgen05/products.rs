//! `tcgen05.mma` between the memories of kernels. That the arithmetic is right for every form is
//! tested beside it; here small whole numbers do.

use super::copies::{FENCE, descriptor, fill_image};
use super::{IMAGE, Kernel, WORDS, allocate, free, registers, store, wait};

/// Columns of D.
pub(super) const N: usize = 64;
/// Where B begins in the image, and the scale factors of A and of B.
const B: usize = 4096;
pub(super) const SCALES: usize = 8192;

/// Numbers from -3 to 3.
pub(super) fn number(operand: usize, row: usize, k: usize) -> i32 {
    let mixed = (row * 131 + k * 29 + operand * 7 + 5) as u32;
    (mixed.wrapping_mul(2_654_435_761) >> 20) as i32 % 7 - 3
}

/// Where byte `byte` of a row lies: 8 rows by 16 bytes follow each other, first along K.
pub(super) fn place(row: usize, byte: usize) -> usize {
    row / 8 * 256 + byte / 16 * 128 + row % 8 * 16 + byte % 16
}

pub(super) fn bf16(value: i32) -> [u8; 2] {
    let [_, _, low, high] = (value as f32).to_le_bytes();
    [low, high]
}

fn e4m3(value: i32) -> u8 {
    let sign = if value < 0 { 0x80 } else { 0 };
    sign | [0x00, 0x38, 0x40, 0x44][value.unsigned_abs() as usize]
}

/// The image of operands of 16 bits: rows of A and of B, counted from these.
pub(super) fn halves(first: [usize; 2], rows: [usize; 2]) -> Vec<u8> {
    let mut image = vec![0; IMAGE];
    for operand in 0..2 {
        for row in 0..rows[operand] {
            for k in 0..16 {
                let at = operand * B + place(row, 2 * k);
                let value = number(operand, first[operand] + row, k);
                image[at..at + 2].copy_from_slice(&bf16(value));
            }
        }
    }
    image
}

/// A row of A times a column of B.
pub(super) fn product(m: usize, n: usize, k: usize) -> i32 {
    (0..k).map(|k| number(0, m, k) * number(1, n, k)).sum()
}

/// Descriptors of A in `%d4` and of B in `%d5`.
pub(super) fn descriptors() -> String {
    let [a, b] = [0, B as u64].map(|offset| descriptor(offset, 128, 256, 0));
    format!("{a}mov.b64 %d4, %d1;{b}mov.b64 %d5, %d1;")
}

/// An instruction descriptor of bf16, f32 sums.
pub(super) fn instruction(m: usize, n: usize) -> u32 {
    1 << 4 | 1 << 7 | 1 << 10 | (n as u32 / 8) << 17 | (m as u32 / 16) << 24
}

pub(super) const COMMIT: &str =
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [barriers];";
const BEFORE: &str = "tcgen05.fence::before_thread_sync;";
pub(super) const AFTER: &str = "tcgen05.fence::after_thread_sync;";
pub(super) const LOADED: &str = "tcgen05.wait::ld.sync.aligned;";

pub(super) fn load() -> String {
    format!("tcgen05.ld.sync.aligned.32x32b.x{N}.b32 {}, [%tensor];", registers(0, N))
}

/// Thread 0 multiplies and commits, all load D.
pub(super) fn kernel(before: &str, products: &str) -> String {
    format!(
        "{}{}{}{before}
         {BEFORE} bar.sync 0;
         setp.ne.u32 %p4, %thread, 0; @%p4 bra MULTIPLIED; {AFTER}
         {products}
         {COMMIT} MULTIPLIED:
         {}{AFTER}{}{LOADED}{}{}",
        allocate(128),
        fill_image(FENCE),
        descriptors(),
        wait(0),
        load(),
        store(0, N),
        free(128)
    )
}

pub(super) fn check(found: &[u32], first: usize, expected: impl Fn(usize, usize) -> f32) {
    for (row, words) in found.chunks(WORDS).enumerate() {
        for (n, word) in words.iter().take(N).enumerate() {
            assert_eq!(f32::from_bits(*word), expected(first + row, n), "row {row} column {n}");
        }
    }
}

#[test]
fn operands_in_shared_memory() {
    let mma = "tcgen05.mma.cta_group::1.kind::f16";
    let form = instruction(128, N);
    // The second adds to the first; a predicate may be negated.
    let twice = format!(
        "{mma} [%tensor], %d4, %d5, {form}, 0; setp.eq.u32 %p1, 1, 2;
         {mma}.collector::a::fill [%tensor], %d4, %d5, {form}, !%p1;"
    );
    let body = kernel("", &twice);
    for seed in 0..6 {
        let input = halves([0, 0], [128, N]);
        let found = Kernel { seed, input, ..Kernel::new(&body) }.run();
        check(&found, 0, |m, n| 2.0 * product(m, n, 16) as f32);
    }
    // Lanes 32 to 63 keep what they have; half of D is added.
    let form = instruction(128, N);
    let masked = format!(
        "mov.u32 %r1, 0; mov.u32 %r2, -1;
         {mma} [%tensor], %d4, %d5, {form}, 0;
         {mma} [%tensor], %d4, %d5, {form}, {{%r1, %r2, %r1, %r1}}, 1, 1;"
    );
    let input = halves([0, 0], [128, N]);
    let found = Kernel { input, ..Kernel::new(&kernel("", &masked)) }.run();
    check(&found, 0, |m, n| product(m, n, 16) as f32 * if m / 32 == 1 { 1.0 } else { 1.5 });
}

#[test]
fn a_in_tensor_memory() {
    let mut before = String::new();
    // Each thread stores its row of A, two numbers in a column.
    for half in 0..2 {
        before += &format!(
            "ld.shared.v4.b32 {{%r{}, %r{}, %r{}, %r{}}}, [%r20+{}];\n",
            4 * half,
            4 * half + 1,
            4 * half + 2,
            4 * half + 3,
            128 * half
        );
    }
    let before = format!(
        "shr.u32 %r20, %thread, 3; and.b32 %r21, %thread, 7; mov.u32 %r22, image;
         mad.lo.u32 %r20, %r20, 256, %r22; mad.lo.u32 %r20, %r21, 16, %r20;\n{before}
         tcgen05.st.sync.aligned.32x32b.x8.b32 [%tensor+96], {};",
        registers(0, 8)
    );
    let form = instruction(128, N);
    let mma = format!(
        "add.u32 %r30, %tensor, 96;
         tcgen05.mma.cta_group::1.kind::f16 [%tensor], [%r30], %d5, {form}, 0;"
    );
    let right = kernel(&format!("{before}tcgen05.wait::st.sync.aligned;"), &mma);
    let input = halves([0, 0], [128, N]);
    for seed in 0..6 {
        let found = Kernel { seed, input: input.clone(), ..Kernel::new(&right) }.run();
        check(&found, 0, |m, n| product(m, n, 16) as f32);
    }
    let wrong = kernel(&before, &mma);
    for seed in 0..6 {
        let kernel = Kernel { seed, input: input.clone(), ..Kernel::new(&wrong) };
        let error = kernel.try_run().unwrap_err().to_string();
        // What is read may not even have been written yet.
        let found = ["data race in tensor memory", "uninitialised tensor memory"];
        assert!(found.iter().any(|part| error.contains(part)), "{error}");
    }
}

/// The products that must not be.
#[test]
fn reports() {
    let mma = format!(
        "tcgen05.mma.cta_group::1.kind::f16 [%tensor], %d4, %d5, {}, 0;",
        instruction(128, N)
    );
    let input = halves([0, 0], [128, N]);
    let fails = |body: &str, part: &str| {
        Kernel { input: input.clone(), ..Kernel::new(body) }.fails(part);
    };
    let right = kernel("", &mma);
    Kernel { input: input.clone(), ..Kernel::new(&right) }.passes();
    let adding = mma.replace(", 0;", ", 1;");
    fails(&kernel("", &adding), "read of uninitialised tensor memory");
    fails(&kernel("", &mma.replace("%d5", "%d6")), "tcgen05.mma: the descriptor");
    fails(
        &kernel(
            "",
            &mma.replace("[%tensor]", "[%r99]").replacen("", "xor.b32 %r99, %tensor, 256;", 1),
        ),
        "are not allocated",
    );
    fails(&right.replace(FENCE, ""), "`fence.proxy.async` is missing");
    // D is read before the commit is waited for, or before the fence.
    let race = "data race in tensor memory";
    let again = right.replacen(&wait(0), "", 1).replace(LOADED, &format!("{LOADED}{}", wait(0)));
    fails(&again, "tensor memory");
    fails(&right.replace(&format!("{}{AFTER}", wait(0)), &wait(0)), race);
    // D is overwritten while others may still read it.
    let second = |before: &str, after: &str| {
        let text = format!(
            "{LOADED}{before} bar.sync 0;
             setp.ne.u32 %p4, %thread, 0; @%p4 bra AGAIN; {after}
             {mma} {} AGAIN: {}{LOADED}",
            COMMIT.replace("[barriers]", "[barriers+8]"),
            wait(1)
        );
        right.replacen(LOADED, &text, 1)
    };
    Kernel { input: input.clone(), ..Kernel::new(&second(BEFORE, AFTER)) }.passes();
    fails(&second("", AFTER), race);
    fails(&second(BEFORE, ""), race);
    fails(&second(BEFORE, AFTER).replacen(LOADED, "", 1), race);
    // Operands are overwritten while they may still be read.
    let early = format!("{mma} mov.u32 %r9, image; st.shared.b32 [%r9], %r9;");
    fails(&kernel("", &early), "data race in shared memory");
    // The descriptor leads out of shared memory.
    let far = format!("or.b64 %d4, %d4, 0x3FFF; {mma}");
    fails(&kernel("", &far), "out of bounds of shared memory");
}

/// Products of one thread are in order if they have the same accumulator and shape.
#[test]
fn products_of_a_thread() {
    let mma = |d: &str, a: &str, n: usize| {
        let form = instruction(128, n);
        format!("tcgen05.mma.cta_group::1.kind::f16 [{d}], {a}, %d5, {form}, 0;")
    };
    let between = format!(
        "{} BETWEEN: mbarrier.try_wait.parity.shared::cta.b64 %p5, [barriers+8], 0;
         @!%p5 bra BETWEEN; {AFTER}",
        COMMIT.replace("[barriers]", "[barriers+8]")
    );
    let first = mma("%tensor", "%d4", N);
    let place = "add.u32 %r30, %tensor, 32;";
    let seconds = [
        (mma("%tensor", "%d4", 16), true),
        (format!("{place}{}", mma("%r30", "%d4", N)), true),
        // The first's sums as the second's left operand: any numbers do.
        (format!("{place}add.u32 %r31, %tensor, 64;{}", mma("%r31", "[%r30]", N)), true),
        (format!("add.u32 %r31, %tensor, 64;{}", mma("%r31", "%d4", N)), false),
        (mma("%tensor", "%d4", N), false),
    ];
    let input = halves([0, 0], [128, N]);
    for (second, meets) in seconds {
        let waiting = kernel("", &format!("{first}{between}{second}"));
        Kernel { input: input.clone(), ..Kernel::new(&waiting) }.passes();
        let text = kernel("", &format!("{first}{second}"));
        let kernel = Kernel { input: input.clone(), ..Kernel::new(&text) };
        if meets { kernel.fails("by the same thread") } else { kernel.passes() }
    }
}

#[test]
fn a_pair_of_blocks() {
    let mma = format!(
        "tcgen05.mma.cta_group::2.kind::f16 [%tensor], %d4, %d5, {}, 0;",
        instruction(256, N)
    );
    let commit = "mov.u16 %h1, 3;
        tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 \
        [barriers], %h1;";
    let meet = "barrier.cluster.arrive; barrier.cluster.wait;";
    let body = format!(
        "setp.ne.u32 %p6, %warp, 0; @%p6 bra ALLOCATED;
         tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], 64;
         ALLOCATED: bar.sync 0; ld.shared.u32 %tensor, [slot];
         mov.u64 %d21, {IMAGE}; cvt.u64.u32 %d22, %rank; mad.lo.u64 %input, %d21, %d22, %input;
         {}{}{meet}
         setp.ne.u32 %p4, %thread, 0; @%p4 bra MULTIPLIED;
         setp.ne.u32 %p4, %rank, 0; @%p4 bra MULTIPLIED;
         {mma}{commit} MULTIPLIED:
         {}{AFTER}{}{LOADED}{}{meet}
         setp.ne.u32 %p6, %warp, 0; @%p6 bra FREED;
         tcgen05.dealloc.cta_group::2.sync.aligned.b32 %tensor, 64;
         FREED:",
        fill_image(FENCE),
        descriptors(),
        wait(0),
        load(),
        store(0, N)
    );
    // Each block has its rows of A and half of the columns of B.
    let input = [0, 1].map(|rank| halves([128 * rank, N / 2 * rank], [128, N / 2])).concat();
    for seed in 0..6 {
        let found = Kernel { blocks: 2, seed, input: input.clone(), ..Kernel::new(&body) }.run();
        check(&found, 0, |m, n| product(m, n, 16) as f32);
    }
    // The other block does not wait for its operands to be there.
    let early = body.replacen(meet, "", 1);
    let errors = (0..6).filter_map(|seed| {
        let kernel = Kernel { blocks: 2, seed, input: input.clone(), ..Kernel::new(&early) };
        kernel.try_run().err()
    });
    assert!(errors.count() > 0);
}

/// Scale factors come from shared memory just before the product, without a wait.
#[test]
fn scale_factors() {
    // 2 to the power of 0 to 2, for each row and for each of four blocks of K.
    let exponent = |operand: usize, row: usize, block: usize| (row * 3 + block + operand) % 3;
    let mut image = vec![0; IMAGE];
    for (operand, rows) in [128, N].into_iter().enumerate() {
        for row in 0..rows {
            for k in 0..32 {
                image[operand * B + place(row, k)] = e4m3(number(operand, row, k));
            }
        }
        for row in 0..128 {
            for block in 0..4 {
                let at = SCALES + 512 * operand + row % 32 * 16 + row / 32 * 4 + block;
                image[at] = 127 + exponent(operand, row, block) as u8;
            }
        }
    }
    let block = 2;
    let form = 1 << 23 | (N as u32 / 8) << 17 | 8 << 24 | block << 29 | block << 4;
    let copies: String = [(0, 96), (1, 100)]
        .map(|(operand, column)| {
            let source = descriptor((SCALES + 512 * operand) as u64, 0, 128, 0);
            format!(
                "{source}add.u32 %r{column}, %tensor, {column};
                 tcgen05.cp.cta_group::1.32x128b.warpx4 [%r{column}], %d1;\n"
            )
        })
        .concat();
    let mma = "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X";
    let products = format!("{copies}{mma} [%tensor], %d4, %d5, {form}, [%r96], [%r100], 0;");
    let body = kernel("", &products);
    for seed in 0..6 {
        let found = Kernel { seed, input: image.clone(), ..Kernel::new(&body) }.run();
        check(&found, 0, |m, n| {
            let power = exponent(0, m, block as usize) + exponent(1, n, block as usize);
            product(m, n, 32) as f32 * (1 << power) as f32
        });
    }
}
