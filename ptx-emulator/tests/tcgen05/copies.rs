//! `tcgen05.cp` and `tcgen05.commit`.

use super::{IMAGE, Kernel, WORDS, allocate, free, registers, store, wait};

/// Bytes of the input that differ from place to place.
fn input() -> Vec<u8> {
    (0..IMAGE as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// All threads copy the input to `image`, which the async proxy sees then.
pub fn fill_image(fence: &str) -> String {
    let mut text = "mov.u32 %r300, image; mad.lo.u32 %r300, %thread, 16, %r300;
                    mul.wide.u32 %d20, %thread, 16; add.u64 %d20, %d20, %input;\n"
        .to_owned();
    for at in (0..IMAGE).step_by(128 * 16) {
        text += &format!(
            "ld.global.v4.b32 {{%r301, %r302, %r303, %r304}}, [%d20+{at}];
             st.shared.v4.b32 [%r300+{at}], {{%r301, %r302, %r303, %r304}};\n"
        );
    }
    format!("{text}{fence}\nbar.sync 0;\n")
}

pub const FENCE: &str = "fence.proxy.async.shared::cta;";

/// A descriptor in `%d1` of what begins so many bytes behind `image`.
pub fn descriptor(offset: u64, leading: u64, stride: u64, swizzle: u64) -> String {
    let fixed = 1 << 46 | swizzle << 61 | (stride >> 4) << 32 | (leading >> 4) << 16;
    format!(
        "mov.u32 %r310, image; add.u32 %r310, %r310, {offset}; shr.u32 %r310, %r310, 4;
         and.b32 %r310, %r310, 0x3FFF; cvt.u64.u32 %d1, %r310; or.b64 %d1, %d1, {fixed};\n"
    )
}

/// Thread 0 copies and commits, all wait and load so many columns.
fn copy(form: &str, source: &str, lane: u32, columns: usize) -> String {
    format!(
        "{}{}{}{source}
         add.u32 %r311, %tensor, {};
         setp.ne.u32 %p4, %thread, 0; @%p4 bra COPIED;
         tcgen05.fence::after_thread_sync;
         tcgen05.cp.cta_group::1.{form} [%r311], %d1;
         tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [barriers];
         COPIED:
         {}tcgen05.fence::after_thread_sync;
         tcgen05.ld.sync.aligned.32x32b.x{columns}.b32 {}, [%tensor+4];
         tcgen05.wait::ld.sync.aligned;
         {}{}",
        allocate(64),
        super::fill(64),
        fill_image(&format!("{FENCE} tcgen05.fence::before_thread_sync;")),
        lane << 16 | 4,
        wait(0),
        registers(0, columns),
        store(0, columns),
        free(64)
    )
}

/// The row of the source that a lane gets.
fn row_of(form: &str, lane: usize, first: usize) -> Option<usize> {
    match form {
        "4x256b" => (lane % 32 == first).then_some(lane / 32),
        "64x128b.warpx2::02_13" => Some(lane % 64),
        "64x128b.warpx2::01_23" => Some(lane % 32 + lane / 64 * 32),
        "32x128b.warpx4" => Some(lane % 32),
        _ => Some(lane),
    }
}

/// Bytes `16 * half..` of a row lie there: 8 rows by 16 bytes make a core matrix, or the rows
/// of the swizzle's width are mixed.
fn place(row: usize, half: usize, (leading, stride, swizzle): (usize, usize, u64)) -> usize {
    let (width, mask) = match swizzle {
        0 => return row / 8 * stride + row % 8 * 16 + half * leading,
        6 => (32, 1),
        4 => (64, 3),
        _ => (128, 7),
    };
    let address = row / 8 * stride + row % 8 * width + half * 16;
    address ^ (address >> 7 & mask) << 4
}

#[test]
fn every_shape() {
    let shapes = [
        ("128x256b", 2),
        ("128x128b", 1),
        ("4x256b", 2),
        ("64x128b.warpx2::02_13", 1),
        ("64x128b.warpx2::01_23", 1),
        ("32x128b.warpx4", 1),
    ];
    // Leading offset, stride, swizzle.
    let layouts = [(128, 256, 0), (2048, 128, 0), (16, 256, 6), (16, 512, 4), (16, 1024, 2)];
    let bytes = input();
    for (form, halves) in shapes {
        for (index, layout) in layouts.into_iter().enumerate() {
            let lane = if form == "4x256b" { 5 * index } else { 0 };
            let (leading, stride, swizzle) = layout;
            let offset = if swizzle == 0 { 48 } else { 0 };
            let source = descriptor(offset, leading as u64, stride as u64, swizzle);
            let body = copy(form, &source, lane as u32, 8);
            // Most of the layouts do not reach beyond the image.
            let last = place(127, 1, layout);
            if form.starts_with("128") && last + offset as usize + 16 > IMAGE {
                continue;
            }
            let kernel = Kernel { input: bytes.clone(), seed: index as u64, ..Kernel::new(&body) };
            let found = kernel.run();
            for (own, words) in found.chunks(WORDS).enumerate() {
                for (column, word) in words.iter().take(8).enumerate() {
                    let row = row_of(form, own, lane).filter(|_| column < 4 * halves);
                    let expected = match row {
                        None => (own << 16 | (column + 4)) as u32,
                        Some(row) => {
                            let at = place(row, column / 4, layout) + offset as usize;
                            let at = at + column % 4 * 4;
                            u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
                        }
                    };
                    assert_eq!(*word, expected, "{form} {layout:?} lane {own} column {column}");
                }
            }
        }
    }
}

#[test]
fn expansion() {
    let bytes = input();
    let source = descriptor(0, 2048, 128, 0);
    for (suffix, bits, shift) in [("b4x16_p64", 4, 2), ("b6x16_p32", 6, 0)] {
        let body = copy(&format!("128x128b.b8x16.{suffix}"), &source, 0, 4);
        let found = Kernel { input: bytes.clone(), ..Kernel::new(&body) }.run();
        for (lane, words) in found.chunks(WORDS).enumerate() {
            for element in 0..16 {
                // Bit by bit.
                let bit = |at: usize| bytes[16 * lane + at / 8] >> (at % 8) & 1;
                let all = (0..bits).map(|index| bit(bits * element + index) << index);
                let expected: u8 = all.sum();
                let found = words[element / 4] >> (8 * (element % 4)) & 0xFF;
                assert_eq!(
                    found,
                    u32::from(expected) << shift,
                    "{suffix} lane {lane} element {element}"
                );
            }
        }
    }
}

#[test]
fn refused_operands() {
    let right = descriptor(0, 128, 256, 0);
    let change = |text: &str| format!("{right}{text}");
    let cases = [
        (change("xor.b64 %d1, %d1, 0x400000000000;"), 0, "0b001 in bits 48:46"),
        (change("or.b64 %d1, %d1, 0x0020000000000000;"), 0, "60:52"),
        (change("or.b64 %d1, %d1, 0x2000000000000000;"), 0, "32-byte atoms"),
        (change("or.b64 %d1, %d1, 0x6000000000000000;"), 0, "a swizzle of 3, 5 or 7"),
        (right.clone(), 1, "where its shape does not fit"),
        (descriptor(0, 128, 0x3FF00, 0), 0, "its descriptor leads there"),
    ];
    for (source, lane, part) in cases {
        Kernel::new(&copy("128x256b", &source, lane, 8)).fails(part);
    }
    let far = change("xor.b32 %tensor, %tensor, 256;");
    Kernel::new(&copy("128x256b", &far, 0, 8)).fails("are not allocated");
}

/// Two blocks, of which the first issues for both.
#[test]
fn a_pair_of_blocks() {
    let form = "64x128b.warpx2::02_13";
    let body = |commit: &str, wait_second: &str| {
        format!(
            "setp.ne.u32 %p6, %warp, 0; @%p6 bra ALLOCATED;
             tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], 32;
             ALLOCATED: bar.sync 0; ld.shared.u32 %tensor, [slot];
             mov.u64 %d21, {IMAGE}; cvt.u64.u32 %d22, %rank; mad.lo.u64 %input, %d21, %d22, %input;
             {}{}
             barrier.cluster.arrive; barrier.cluster.wait;
             setp.ne.u32 %p4, %thread, 32; @%p4 bra COPIED;
             setp.ne.u32 %p4, %rank, 0; @%p4 bra COPIED;
             tcgen05.cp.cta_group::2.{form} [%tensor], %d1;
             {commit}
             COPIED:
             {wait_second}{}tcgen05.fence::after_thread_sync;
             tcgen05.ld.sync.aligned.32x32b.x4.b32 {}, [%tensor];
             tcgen05.wait::ld.sync.aligned;
             {}
             bar.sync 0; barrier.cluster.arrive; barrier.cluster.wait;
             setp.ne.u32 %p6, %warp, 0; @%p6 bra FREED;
             tcgen05.dealloc.cta_group::2.sync.aligned.b32 %tensor, 32;
             FREED:",
            fill_image(FENCE),
            descriptor(16, 0, 128, 0),
            wait(0),
            registers(0, 4),
            store(0, 4),
        )
    };
    let multicast = "mov.u16 %h1, 3;
        tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 \
        [barriers], %h1;";
    let bytes = [input(), input().into_iter().rev().collect()].concat();
    let right = body(multicast, "");
    for seed in 0..6 {
        let kernel = Kernel { blocks: 2, input: bytes.clone(), seed, ..Kernel::new(&right) };
        for (thread, words) in kernel.run().chunks(WORDS).enumerate() {
            let (rank, lane) = (thread / 128, thread % 128);
            for (column, word) in words.iter().take(4).enumerate() {
                let at = rank * IMAGE + 16 + lane % 64 * 16 + column * 4;
                let expected = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
                assert_eq!(*word, expected, "block {rank} lane {lane} column {column}");
            }
        }
    }
    // Without multicast the second block waits for ever.
    let alone = "mov.u64 %d2, barriers; cvta.shared.u64 %d2, %d2;
        tcgen05.commit.cta_group::2.mbarrier::arrive::one.b64 [%d2];";
    let wrong = body(alone, "");
    let kernel = Kernel { blocks: 2, input: bytes.clone(), ..Kernel::new(&wrong) };
    kernel.fails("waits for phase 0 of the mbarrier");
    let outside = multicast.replace("%h1, 3", "%h1, 7");
    let wrong = body(&outside, "");
    let kernel = Kernel { blocks: 2, input: bytes, ..Kernel::new(&wrong) };
    kernel.fails("multicast to blocks 0x7 of a cluster of 2");
}

#[test]
fn commits_need_an_mbarrier() {
    let commit = "setp.ne.u32 %p4, %thread, 0; @%p4 bra END;
        tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [PLACE]; END:";
    let to = |place: &str| commit.replace("PLACE", place);
    Kernel::new(&to("barriers+56")).fails("a tcgen05.commit is to arrive on it: not initialised");
    Kernel::new(&to("barriers+4")).fails("not aligned");
    Kernel::new(&format!("{}{}", to("barriers"), wait(0))).passes();
    // One arrival is not two.
    let both = "setp.ne.u32 %p4, %thread, 0; @%p4 bra END;
        mbarrier.init.shared.b64 [barriers+24], 2;
        tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [barriers+24];
        END: bar.sync 0;";
    Kernel::new(&format!("{both}{}", wait(3))).fails("waits for phase 0");
}
