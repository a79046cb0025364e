//! Rules that a kernel may break without harm to its own result: each is reported in a kernel that
//! breaks it, and the same kernel that keeps it runs in silence.

use ptx_emulator::{Arch, Checks, LaunchConfig, Machine, Options, ReportKind};

use super::{Kernel, WARP, refused};

const SEEDS: std::ops::Range<u64> = 0..20;

/// A kernel that breaks a rule in the line marked with `// here`, and one that keeps it.
#[derive(Clone, Copy)]
struct Pair<'a> {
    kernel: Kernel<'a>,
    wrong: &'a str,
    right: &'a str,
    /// What the report says.
    part: &'a str,
    /// The thread it names; none if it concerns several.
    thread: Option<u32>,
    /// In how many of the seeds it must be reported: fewer where it depends on the order of events.
    least: usize,
}

/// One block of one warp, whose thread 0 breaks a rule whatever the order of events.
const PAIR: Pair<'static> =
    Pair { kernel: WARP, wrong: "", right: "", part: "", thread: Some(0), least: 20 };

impl Pair<'_> {
    fn check(&self) {
        let mut reported = 0;
        for seed in SEEDS {
            Kernel { body: self.right, seed, ..self.kernel }.run();
            let wrong = Kernel { body: self.wrong, seed, ..self.kernel };
            let Err(error) = wrong.try_run() else { continue };
            let report = error.report().unwrap_or_else(|| panic!("{error}"));
            assert!(report.to_string().contains(self.part), "seed {seed}: {report}");
            let place = report.place().unwrap_or_else(|| panic!("{report}"));
            assert!(place.text.contains("// here"), "seed {seed}: {report}");
            assert_eq!(place.thread, self.thread.map(|thread| [thread, 0, 0]), "{report}");
            reported += 1;
        }
        assert!(reported >= self.least, "{reported} of 20 reported\n{}", self.wrong);
    }
}

const CELL: &str = ".shared .align 16 .b8 cell[64];\n.global .align 16 .b8 source[64];";
const MEET: &str = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n";

/// That others have used an mbarrier since does not tell a thread that it has been made.
#[test]
fn mbarriers_are_used_by_threads_that_know_them() {
    let body = |sign: &str, look: &str| {
        format!(
            "setp.ne.u32 %p1, %lane, 0; @%p1 bra OTHERS;
             mbarrier.init.shared.b64 [cell], 2; mbarrier.arrive.shared.b64 _, [cell];
             {sign}.gpu.global.u32 [source], 1; bra DONE;
             OTHERS: setp.ne.u32 %p1, %lane, 32; @%p1 bra DONE;
             LOOK: {look}.gpu.global.u32 %r1, [source]; setp.eq.u32 %p2, %r1, 0; @%p2 bra LOOK;
             mbarrier.arrive.shared.b64 _, [cell]; // here
             DONE:"
        )
    };
    Pair {
        kernel: Kernel { module: CELL, threads: 64, ..WARP },
        wrong: &body("st.relaxed", "ld.relaxed"),
        right: &body("st.release", "ld.acquire"),
        part: "data race",
        thread: Some(32),
        ..PAIR
    }
    .check();
}

/// One lane has learned that others have read: that does not allow the rest of the warp to copy to
/// where they did, neither with the lane that knows in one instruction nor in one of its own.
#[test]
fn lanes_copy_to_where_they_know_that_others_have_read() {
    let body = |first: u32, meet: &str| {
        format!(
            "setp.ge.u32 %p1, %lane, 32; @%p1 bra OTHERS;
             setp.ne.u32 %p1, %lane, 0; @%p1 bra COPY;
             LOOK: ld.acquire.gpu.global.u32 %r1, [source]; setp.eq.u32 %p2, %r1, 0; @%p2 bra LOOK;
             COPY: {meet} shfl.sync.idx.b32 %r2, %lane, 0, 31, -1;
             setp.eq.u32 %p1, %lane, {first}; setp.eq.u32 %p2, %lane, 5; or.pred %p3, %p1, %p2;
             mov.u64 %d1, source; mov.u32 %r1, cell; @%p2 add.u32 %r1, %r1, 32;
             @%p3 cp.async.ca.shared.global [%r1], [%d1+16], 16; // here
             cp.async.wait_all; bra DONE;
             OTHERS: setp.ne.u32 %p1, %lane, 32; @%p1 bra DONE;
             st.shared.u32 [cell+32], 1; ld.shared.u32 %r1, [cell+32];
             st.release.gpu.global.u32 [source], 1;
             DONE:"
        )
    };
    for first in [0, 5, 6] {
        Pair {
            kernel: Kernel { module: CELL, threads: 64, ..WARP },
            wrong: &body(first, ""),
            right: &body(first, "bar.warp.sync -1;"),
            part: "data race",
            thread: Some(5),
            ..PAIR
        }
        .check();
    }
}

/// What one lane has read another of its warp has not, though both know the same and copy together.
#[test]
fn lanes_copy_to_where_others_of_their_warp_have_read() {
    let body = |meet: &str| {
        format!(
            "setp.eq.u32 %p1, %lane, 3; setp.eq.u32 %p2, %lane, 5; or.pred %p3, %p1, %p2;
             @%p1 st.shared.u32 [cell+32], 1; @%p1 ld.shared.u32 %r1, [cell+32]; {meet}
             mov.u64 %d1, source; mov.u32 %r1, cell; @%p2 add.u32 %r1, %r1, 32;
             @%p3 cp.async.ca.shared.global [%r1], [%d1+16], 16; // here
             cp.async.wait_all;"
        )
    };
    Pair {
        kernel: Kernel { module: CELL, ..WARP },
        wrong: &body(""),
        right: &body("bar.warp.sync -1;"),
        part: "data race",
        thread: Some(5),
        ..PAIR
    }
    .check();
}

#[test]
fn mbarriers_are_left_alone_until_they_are_invalid() {
    let init = "setp.eq.u32 %p1, %lane, 0; mov.u64 %d1, source;
        @%p1 mbarrier.init.shared.b64 [cell], 3;\n";
    let inval = "@%p1 mbarrier.inval.shared.b64 [cell];\n";
    // What breaks the rule, what the report says, and the same beside the mbarrier.
    for (instruction, part, beside) in [
        (
            "mbarrier.init.shared.b64 [cell], 2;",
            "initialised again without `mbarrier.inval`",
            "mbarrier.init.shared.b64 [cell+8], 2;",
        ),
        (
            "ld.shared.b32 %x, [cell+4];",
            "load of 4 bytes at shared offset 0x404",
            "st.shared.b32 [cell+8], 1; @%p1 ld.shared.b32 %x, [cell+8];",
        ),
        ("st.shared.b8 [cell+7], 0;", "the mbarrier at 0x400 lives", "st.shared.b8 [cell+8], 0;"),
        ("st.shared.v2.b64 [cell], {1, 2};", "store of 16", "st.shared.v2.b64 [cell+16], {1, 2};"),
        (
            "atom.shared.add.u32 %x, [cell], 1;",
            "before `mbarrier.inval`",
            "st.shared.b32 [cell+8], 1; @%p1 atom.shared.add.u32 %x, [cell+8], 1;",
        ),
        (
            "cp.async.ca.shared.global [cell], [%d1], 8;",
            "copy of 8 bytes at shared offset 0x400",
            "cp.async.ca.shared.global [cell+8], [%d1], 8;",
        ),
    ] {
        let body = |before: &str, instruction: &str| {
            format!("{init}{before}@%p1 {instruction} // here\ncp.async.wait_all;")
        };
        let wrong = body("", instruction);
        let kernel = Kernel { module: CELL, ..WARP };
        for right in [body(inval, instruction), body("", beside)] {
            Pair { kernel, wrong: &wrong, right: &right, part, ..PAIR }.check();
        }
    }
}

/// Between two mbarriers far apart there is room for other things.
#[test]
fn mbarriers_far_apart_are_found() {
    let module = ".shared .align 16 .b8 cell[8192];";
    let body = |place: u32| {
        format!(
            "setp.eq.u32 %p1, %lane, 0;
             @%p1 mbarrier.init.shared.b64 [cell], 1; @%p1 mbarrier.init.shared.b64 [cell+8184], 1;
             @%p1 mbarrier.init.shared.b64 [cell+4080], 1;
             @%p1 st.shared.b64 [cell+{place}], 0; // here\n"
        )
    };
    let kernel = Kernel { module, ..WARP };
    for place in [0, 4080, 8184] {
        let part = format!("where the mbarrier at {:#x} lives", 1024 + place);
        for free in [8, 504, 512, 4072, 4088, 8176] {
            let (wrong, right) = (body(place), body(free));
            Pair { kernel, wrong: &wrong, right: &right, part: &part, ..PAIR }.check();
        }
    }
    let module = &format!("{module}\n.global .align 16 .b8 source[8192];");
    let copy = |from: u32, bytes: u32| {
        format!(
            "setp.eq.u32 %p1, %lane, 0; mov.u64 %d1, source;
             @%p1 mbarrier.init.shared.b64 [cell], 1; @%p1 mbarrier.init.shared.b64 [cell+8184], 1;
             @%p1 mbarrier.init.shared.b64 [cell+4080], 1; fence.proxy.async; bar.sync 0;
             @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [cell], {bytes};
             @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes \
             [cell+{from}], [%d1], {bytes}, [cell]; // here
             WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [cell], 0; @!%p2 bra WAIT;"
        )
    };
    let kernel = Kernel { module, ..WARP };
    for (wrong, right, lives) in [
        ((16, 4096), (16, 4064), 4080),
        ((4096, 4096), (4096, 4080), 8184),
        ((16, 8160), (4096, 2048), 4080),
    ] {
        let (wrong, right) = (copy(wrong.0, wrong.1), copy(right.0, right.1));
        let part = format!("where the mbarrier at {:#x} lives", 1024 + lives);
        Pair { kernel, wrong: &wrong, right: &right, part: &part, ..PAIR }.check();
    }
}

#[test]
fn states_are_of_the_current_or_the_preceding_phase() {
    let body = |state: &str| {
        format!(
            "setp.ne.u32 %p1, %lane, 0; @%p1 bra DONE;
             mbarrier.init.shared.b64 [cell], 1;
             mbarrier.arrive.shared.b64 %d1, [cell];
             mbarrier.arrive.shared.b64 %d2, [cell];
             mbarrier.test_wait.shared.b64 %p2, [cell], {state}; // here
             DONE:"
        )
    };
    let (wrong, right) = (body("%d1"), body("%d2"));
    let part = "the state of phase 0 is waited for";
    let kernel = Kernel { module: CELL, ..WARP };
    Pair { kernel, wrong: &wrong, right: &right, part, ..PAIR }.check();
}

#[test]
fn reductions_do_not_meet_other_uses_of_a_barrier() {
    let body = |first: &str, second: &str| {
        format!(
            "setp.lt.u32 %p1, %lane, 32; @%p1 bra FIRST;
             {second} // here
             bra DONE;
             FIRST: {first} // here
             DONE:"
        )
    };
    let red = "bar.red.popc.u32 %x, 1, 64, %p1;";
    let kernel = Kernel { threads: 64, ..WARP };
    for other in ["bar.sync 1, 64;", "bar.arrive 1, 64;"] {
        let (wrong, right) = (body(red, other), body(red, red));
        let part = "barrier 1 is used by `bar.red` and by";
        Pair { kernel, wrong: &wrong, right: &right, part, thread: None, ..PAIR }.check();
    }
    // One after the other they may use it.
    let after = format!("bar.sync 1, 64; {red}");
    Kernel { body: &after, ..kernel }.run();
}

/// Lanes that come to different barriers wait for each other for ever.
#[test]
fn aligned_barriers_want_the_whole_warp() {
    let body = "setp.lt.u32 %p1, %lane, 4; @%p1 bra FEW; bar.sync 0; bra DONE;
                FEW: bar.sync 1; DONE:";
    Kernel { body, ..WARP }.fails("waits for lanes 0xffffffff of its warp");
    // The form without `.aligned` takes each lane for itself, wherever in the text it is.
    let body = "setp.lt.u32 %p1, %lane, 4; @%p1 bra FEW; barrier.sync 0; bra DONE;
                FEW: barrier.sync 0; DONE:";
    Kernel { body, ..WARP }.run();
}

/// A copy that nobody waits for may come when the memory belongs to another block.
#[test]
fn blocks_do_not_end_before_copies_into_their_memory() {
    let load = |wait: &str| {
        format!(
            "setp.eq.u32 %p1, %lane, 0; mov.u64 %d1, source;
             @%p1 mbarrier.init.shared.b64 [cell], 1; fence.proxy.async; bar.sync 0;
             @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [cell], 16;
             @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes \
             [cell+16], [%d1], 16, [cell]; // here
             {wait}"
        )
    };
    let wait = "WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [cell], 0; @!%p2 bra WAIT;";
    let thread = |wait: &str| {
        format!(
            "setp.eq.u32 %p1, %lane, 5; mov.u64 %d1, source;
             @%p1 cp.async.ca.shared.global [cell+16], [%d1], 8; // here
             {wait}"
        )
    };
    let kernel = Kernel { module: CELL, ..WARP };
    let part = "a block ends, and nobody has waited for this copy into its shared memory";
    let pair = Pair { kernel, part, ..PAIR };
    // In the time of the second the copy comes in this run, but nothing makes sure of it.
    for forgotten in ["", "nanosleep.u32 4096;"] {
        Pair { wrong: &load(forgotten), right: &load(wait), ..pair }.check();
        let pair = Pair { thread: Some(5), ..pair };
        Pair { wrong: &thread(forgotten), right: &thread("cp.async.wait_all;"), ..pair }.check();
    }
    // Lanes wait for themselves: whose copy nobody waited for is named, whichever came last.
    let lanes = |first: u32, second: u32, wait: &str| {
        format!(
            "setp.eq.u32 %p1, %lane, 5; setp.eq.u32 %p2, %lane, 6; or.pred %p3, %p1, %p2;
             mov.u64 %d1, source; mov.u32 %r1, cell; and.b32 %r2, %lane, 1;
             mad.lo.u32 %r1, %r2, 16, %r1;
             @%p{first} cp.async.ca.shared.global [%r1], [%d1], 8; // here
             @%p{second} cp.async.ca.shared.global [%r1+8], [%d1], 8;
             {wait} cp.async.wait_all; nanosleep.u32 4096;"
        )
    };
    for (first, second, waits, forgotten) in
        [(1, 2, 2, 5), (2, 1, 1, 6), (3, 1, 1, 6), (3, 2, 2, 5)]
    {
        let (wrong, right) =
            (lanes(first, second, &format!("@%p{waits}")), lanes(first, second, ""));
        let pair = Pair { thread: Some(forgotten), ..pair };
        Pair { wrong: &wrong, right: &right, ..pair }.check();
    }
    // Without checks nobody notes who has waited, and when the copy comes must not decide.
    for body in [load(""), thread("")] {
        for seed in SEEDS {
            let run = Kernel { body: &body, seed, ..kernel }.try_run_with(Checks::Off);
            assert!(run.is_ok(), "seed {seed}: {}", run.unwrap_err());
        }
    }
    // Any thread's wait will do, and so will a relaxed one.
    for wait in [
        "setp.eq.u32 %p3, %lane, 9; @!%p3 bra DONE; WAIT: \
         mbarrier.try_wait.parity.shared.b64 %p2, [cell], 0; @!%p2 bra WAIT; DONE:",
        "WAIT: mbarrier.try_wait.parity.relaxed.cta.shared.b64 %p2, [cell], 0; @!%p2 bra WAIT;",
    ] {
        Pair { wrong: &load(""), right: &load(wait), ..pair }.check();
    }
}

/// The blocks of a cluster are there once a barrier of the cluster has been passed, not before.
#[test]
fn other_blocks_are_not_reached_before_they_start() {
    let module = ".shared .align 16 .b8 cell[64];\n.shared .align 8 .b8 bar[8];";
    let body = |first: &str, instruction: &str| {
        format!(
            "mov.u32 %r1, cell; mapa.shared::cluster.u32 %r2, %r1, 1; mov.u32 %r3, %ctaid.x;
             mov.u32 %r1, bar; mapa.shared::cluster.u32 %r4, %r1, 1;
             cvt.u64.u32 %d1, %r2; cvta.shared.u64 %d1, %d1; mov.u16 %h1, 3;
             setp.eq.u32 %p1, %r3, 0; setp.eq.u32 %p2, %lane, 0; and.pred %p1, %p1, %p2;
             @%p2 mbarrier.init.shared.b64 [bar], 1;
             {first}
             @%p1 {instruction} // here
             {MEET}"
        )
    };
    let kernel = Kernel { module, blocks: 2, cluster: 2, ..WARP };
    let part = "block 1 of the cluster may not have started";
    let relaxed = MEET.replace("arrive.aligned", "arrive.relaxed.aligned");
    for instruction in ["st.shared::cluster.b32 [%r2], 5;", "st.b32 [%d1], 5;"] {
        for meet in [MEET, &relaxed] {
            let (wrong, right) = (body("", instruction), body(meet, instruction));
            Pair { kernel, wrong: &wrong, right: &right, part, least: 8, ..PAIR }.check();
        }
    }
    // Where the other block has started, its mbarrier may not be there yet, which is reported too.
    let arrive = "mbarrier.arrive.shared::cluster.b64 _, [%r4];";
    let multicast = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes\
         .multicast::cluster [%r5], [%d2], 16, [%r1], %h1;
         WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0; @!%p3 bra WAIT;";
    let expect = "mov.u64 %d2, source; mov.u32 %r5, cell;
         @%p2 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;\n";
    let module = &format!("{module}\n.global .align 16 .b8 source[64];");
    for (meet, instruction) in [("", arrive.to_owned()), (expect, multicast.to_owned())] {
        let mut late = 0;
        for seed in SEEDS {
            let kernel = Kernel { module, seed, ..kernel };
            Kernel { body: &body(&format!("{MEET}{meet}"), &instruction), ..kernel }.run();
            let report = Kernel { body: &body(meet, &instruction), ..kernel }.try_run();
            late += usize::from(report.is_err_and(|report| report.to_string().contains(part)));
        }
        assert!(late >= 6, "{instruction}: {late} of 20");
    }
}

/// Nor is an mbarrier of a block that has exited.
#[test]
fn mbarriers_end_with_their_block() {
    let body = |last: &str| {
        format!(
            "mov.u32 %r1, cell; mapa.shared::cluster.u32 %r2, %r1, 1; mov.u32 %r3, %ctaid.x;
             setp.eq.u32 %p1, %r3, 0; setp.eq.u32 %p2, %lane, 0; and.pred %p1, %p1, %p2;
             @%p2 mbarrier.init.shared.b64 [cell], 1; {MEET}
             @%p1 mbarrier.arrive.shared::cluster.b64 _, [%r2]; // here
             {last}"
        )
    };
    let kernel = Kernel { module: CELL, blocks: 2, cluster: 2, ..WARP };
    let part = "block 1 of the cluster has exited, and its memory with it";
    let (wrong, right) = (body(""), body(MEET));
    Pair { kernel, wrong: &wrong, right: &right, part, least: 3, ..PAIR }.check();
}

/// Registers that a function takes and returns its values in are those of its products, too.
#[test]
fn parameters_and_results_are_guarded_like_other_registers() {
    let function = |fence: &str, wait: &str| {
        format!(
            ".func (.reg .b32 sum) product(.reg .b32 first, .reg .b64 tile) {{
             .reg .b32 %s<3>; {fence}
             wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 \
             {{first, %s0, %s1, %s2}}, tile, tile, 0, 1, 1, 0, 0; // starts
             wgmma.commit_group.sync.aligned; {wait}
             wgmma.fence.sync.aligned;
             wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 \
             {{sum, %s0, %s1, %s2}}, tile, tile, 0, 1, 1, 0, 0;
             wgmma.commit_group.sync.aligned;
             {wait} ret; // ends
             }}
             .shared .align 128 .b8 tiles[2048];"
        )
    };
    let body = "mov.u32 %r1, tiles; mad.lo.u32 %r2, %lane, 16, %r1;
         st.shared.v4.b32 [%r2], {0, 0, 0, 0};
         fence.proxy.async; bar.sync 0; shr.u32 %r1, %r1, 4; cvt.u64.u32 %d1, %r1;
         or.b64 %d1, %d1, 0x0000001000080000;
         wgmma.fence.sync.aligned; call (%x), product, (0, %d1);";
    let kernel = Kernel { body, threads: 128, ..WARP };
    let (fence, wait) = ("wgmma.fence.sync.aligned;", "wgmma.wait_group.sync.aligned 0;");
    assert_eq!(Kernel { module: &function(fence, wait), ..kernel }.run(), vec![0; 128]);
    // The fence before the call does not count: the argument is put into its register behind it.
    let module = function("", wait);
    let unfenced = Kernel { module: &module, ..kernel };
    unfenced.fails("`wgmma.fence` is missing: a register of its has been written");
    let module = function(fence, "");
    let unfinished = Kernel { module: &module, ..kernel };
    unfinished.fails("a register is read that is an accumulator of the unfinished wgmma");
    unfinished.fails("ret; // ends");
}

/// Products that cannot be performed name their warp, those that are waited for their lines.
#[test]
fn products_are_named() {
    let body = |before: &str| {
        format!(
            "setp.ge.u32 %p1, %lane, 96; {before}
             mov.b64 %d1, 0x0000000100013F80; wgmma.fence.sync.aligned;
             wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 \
             {{%r1, %r2, %r3, %r4}}, %d1, %d1, 0, 1, 1, 0, 0;
             wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
        )
    };
    let (outside, alone) = (body(""), body("@%p1 bar.sync 5, 256;"));
    let kernel = Kernel { threads: 128, ..WARP };
    let outside = Kernel { body: &outside, ..kernel };
    outside.fails("out of bounds of shared memory; the descriptor of");
    outside.fails("warp 0, lanes 0xffffffff");
    let alone = Kernel { body: &alone, ..kernel };
    let line = alone.text().lines().position(|line| line.contains("mma_async")).unwrap() + 1;
    alone.fails(&format!("waits for its matrix products, issued in PTX lines [{line}]"));
}

#[test]
fn copies_under_way_are_named_where_their_wait_is_missing() {
    let bulk = "@%p1 mbarrier.init.shared.b64 [cell], 1; fence.proxy.async; bar.sync 0;
        @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [cell], 16;
        @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes \
        [cell+16], [%d1], 16, [cell];\n";
    let thread = "@%p1 cp.async.ca.shared.global [cell+16], [%d1], 16;\n";
    for (copy, name, wanted) in [
        (bulk, "bulk copy", ["a wait for th", "mbarrier"]),
        (thread, "cp.async", ["wanted", "`cp.async.wait_group`"]),
    ] {
        let body = format!(
            "setp.eq.u32 %p1, %lane, 0; mov.u64 %d1, source;\n{copy}nanosleep.u32 256;\n\
             ld.shared.b32 %x, [cell+20];"
        );
        let kernel = Kernel { module: CELL, body: &body, ..WARP };
        let line = kernel.text().lines().position(|line| line.contains("cp.async")).unwrap() + 1;
        let mut under_way = 0;
        for seed in SEEDS {
            let error = Kernel { seed, ..kernel }.try_run().unwrap_err();
            let kind = error.report().unwrap().kind();
            under_way += usize::from(matches!(kind, ReportKind::Uninitialised { .. }));
            for part in [name, wanted[0], wanted[1], &format!("in PTX line {line}")] {
                assert!(error.to_string().contains(part), "seed {seed}: {error}");
            }
        }
        assert!((1..20).contains(&under_way), "{under_way}");
    }
}

/// A cache that sees no writes must not be asked for what the kernel writes, ordered or not.
#[test]
fn unchanging_memory_is_not_written() {
    let body = |instruction: &str| {
        format!(
            "mov.u64 %d1, source; setp.eq.u32 %p1, %lane, 0;
             @%p1 st.global.b32 [%d1+4], 9; bar.sync 0; setp.eq.u32 %p1, %lane, 3;
             @%p1 {instruction} // here\n"
        )
    };
    let kernel = Kernel { module: CELL, ..WARP };
    let part = "of memory that the kernel writes: it takes the memory for unchanging, but there \
                was the write by block (0, 0, 0), warp 0, lane 0, in PTX line";
    let pair = Pair { kernel, part, thread: Some(3), ..PAIR };
    for wrong in ["ld.global.nc.v2.b32 {%x, %r1}, [%d1];", "ldu.global.b32 %x, [%d1+4];"] {
        let wrong = body(wrong);
        for right in ["ld.global.v2.b32 {%x, %r1}, [%d1];", "ld.global.nc.b32 %x, [%d1];"] {
            Pair { wrong: &wrong, right: &body(right), ..pair }.check();
        }
    }
}

/// A proxy fence that names a state space is one for that space alone.
#[test]
fn proxy_fences_cover_their_space() {
    let store = |fence: &str| {
        format!(
            "setp.eq.u32 %p1, %lane, 0; mov.u64 %d1, source;
             @%p1 st.shared.v4.b32 [cell], {{1, 2, 3, 4}};
             {fence};
             @%p1 cp.async.bulk.global.shared::cta.bulk_group [%d1], [cell], 16; // here
             cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
        )
    };
    let load = |fence: &str| {
        format!(
            "setp.eq.u32 %p1, %lane, 0; mov.u64 %d1, source;
             @%p1 st.global.v4.b32 [%d1], {{1, 2, 3, 4}};
             @%p1 mbarrier.init.shared.b64 [cell], 1; fence.proxy.async.shared::cta; {fence};
             @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [cell], 16;
             @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes \
             [cell+16], [%d1], 16, [cell]; // here
             bar.sync 0;
             WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [cell], 0; @!%p2 bra WAIT;"
        )
    };
    let [shared, cluster, global, all] = [".shared::cta", ".shared::cluster", ".global", ""]
        .map(|own| format!("fence.proxy.async{own}"));
    let kernel = Kernel { module: CELL, ..WARP };
    let pair = Pair { kernel, part: "`fence.proxy.async` is missing in shared", ..PAIR };
    for right in [&shared, &cluster, &all] {
        Pair { wrong: &store(&global), right: &store(right), ..pair }.check();
    }
    let pair = Pair { part: "`fence.proxy.async` is missing in global", ..pair };
    for wrong in [&shared, &cluster] {
        for right in [&global, &all] {
            Pair { wrong: &load(wrong), right: &load(right), ..pair }.check();
        }
    }
}

/// Two copies that nothing orders may write the same values to the same place, but not others.
#[test]
fn bulk_copies_may_repeat_what_another_wrote() {
    let body = |second: u32| {
        format!(
            "setp.lt.u32 %p1, %lane, 2; mov.u64 %d1, source; setp.eq.u32 %p2, %lane, 0;
             @%p2 st.shared.v4.b32 [cell], {{1, 2, 3, 4}};
             @%p2 st.shared.v4.b32 [cell+16], {{1, 2, 3, {second}}};
             fence.proxy.async; bar.sync 0;
             mov.u32 %r1, cell; mad.lo.u32 %r1, %lane, 16, %r1;
             @%p1 cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r1], 16;
             cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
        )
    };
    for seed in SEEDS {
        let kernel = Kernel { module: CELL, seed, ..WARP };
        Kernel { body: &body(4), ..kernel }.run();
        Kernel { body: &body(5), ..kernel }.fails("data race in global memory");
    }
}

#[test]
fn faults_name_the_memory_they_are_in() {
    let module = ".shared .align 16 .b8 cell[64];\n.const .align 4 .b32 table[2] = {5, 6};";
    for (body, part) in [
        ("mov.u64 %d1, table; ld.const.b32 %x, [%d1+8];", "out of bounds of constant memory"),
        ("mov.u64 %d1, table; ld.const.b32 %x, [%d1+2];", "constant memory is not aligned"),
        ("ld.global.b32 %x, [%out+128];", "out of bounds of global memory"),
        ("ld.shared.b32 %x, [%out];", "no address of shared memory, but an address of global"),
        (
            "mov.u64 %d1, cell; cvta.shared.u64 %d1, %d1; ld.shared::cluster.b32 %x, [%d1];",
            "no address of shared memory, but a generic address",
        ),
        ("mbarrier.arrive.shared.b64 _, [%out];", "but an address of global memory"),
        ("mov.u32 %r1, 0x1000400; ld.shared::cluster.b32 %x, [%r1];", "has no block 1"),
    ] {
        Kernel { module, body, ..WARP }.fails(part);
    }
}

/// A description of a deadlock says in which block each barrier is.
#[test]
fn barriers_of_several_blocks_are_told_apart() {
    let body = "setp.eq.u32 %p1, %lane, 0; @%p1 mbarrier.init.shared.b64 [cell], 2; bar.sync 0;
        WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [cell], 0; @!%p2 bra WAIT;";
    for block in 0..2 {
        let part = format!("block ({block}, 0, 0), mbarrier 0x400: phase 0, 2 of 2 arrivals");
        Kernel { module: CELL, body, blocks: 2, cluster: 2, ..WARP }.fails(&part);
    }
    let body = "bar.sync 3, 64;";
    Kernel { body, blocks: 2, ..WARP }.fails("block (1, 0, 0), barrier 3: 32 of 64 threads");
}

#[test]
fn local_and_constant_memory_have_limits() {
    let local = |bytes: u32| format!(".local .align 4 .b8 big[{bytes}]; st.local.b32 [big], 1;");
    refused(&local((512 << 10) + 4), "`test` have 524304 bytes; at most 524288 are possible");
    let constants = |bytes: u32| {
        let module = format!(".const .align 4 .b8 big[{bytes}];\n.const .b32 small = 1;");
        let text = Kernel { module: &module, ..WARP }.text();
        Machine::new(Arch::Sm90a).load(&text).map(drop)
    };
    let error = constants((64 << 10) - 3).unwrap_err().to_string();
    assert!(error.contains("constant variables have 65540 bytes"), "{error}");
    assert_eq!(constants((64 << 10) - 4), Ok(()));
    Kernel { body: &local(64 << 10), ..WARP }.run();
}

/// Blocks get their memory when they start, so a grid may have any size.
#[test]
fn huge_grids_need_no_memory() {
    let options = Options { instruction_limit: 5000, ..Options::new(Arch::Sm90a) };
    let mut machine = Machine::with_options(options);
    let module = machine.load(&Kernel { ..WARP }.text()).unwrap();
    let kernel = machine.kernel(module, "test").unwrap();
    let out = machine.allocate(1 << 20).unwrap();
    let config = LaunchConfig {
        grid: [i32::MAX as u32, 65_535, 65_535],
        block: [32, 1, 1],
        cluster: [1, 1, 1],
        dynamic_shared_bytes: 0,
    };
    let error = machine.launch(kernel, &config, &out.to_le_bytes()).unwrap_err();
    let report = error.report().unwrap_or_else(|| panic!("{error}"));
    assert!(matches!(report.kind(), ReportKind::InstructionLimit { limit: 5000, .. }), "{report}");
}
