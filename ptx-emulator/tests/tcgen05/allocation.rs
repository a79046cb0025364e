//! `tcgen05.alloc`, `dealloc` and `relinquish_alloc_permit`.

use super::{Kernel, WORDS, allocate, free, wait};

const ALLOC: &str = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32";
const DEALLOC: &str = "tcgen05.dealloc.cta_group::1.sync.aligned.b32";
const RELINQUISH: &str = "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;";

/// One warp executes a body.
fn warp(body: &str) -> Kernel<'_> {
    Kernel { threads: 32, ..Kernel::new(body) }
}

#[test]
fn columns_of_every_size() {
    for columns in [32, 64, 128, 256, 512] {
        let body = format!("{}st.global.b32 [%out], %tensor;{}", allocate(columns), free(columns));
        let mut places = Vec::new();
        for seed in 0..20 {
            let found = Kernel { seed, ..Kernel::new(&body) }.run();
            let first = found[0];
            assert!(found.chunks(WORDS).all(|row| row[0] == first));
            places.push(first);
        }
        places.sort_unstable();
        places.dedup();
        let wanted = if columns == 512 { vec![0] } else { vec![0, 512 - columns] };
        assert_eq!(places, wanted);
    }
    for columns in [0, 16, 33, 96, 1024] {
        warp(&format!("mov.u32 %r1, {columns}; {ALLOC} [slot], %r1;"))
            .fails("allocations have 32, 64, 128, 256");
    }
}

/// The address may be written by its generic address, and the number be a register.
#[test]
fn operands() {
    let body = format!(
        "mov.u64 %d1, slot; cvta.shared.u64 %d1, %d1; mov.u32 %r1, 64;
         tcgen05.alloc.cta_group::1.sync.aligned.b32 [%d1], %r1;
         bar.warp.sync -1; ld.shared.u32 %tensor, [slot]; {DEALLOC} %tensor, %r1;"
    );
    warp(&body).passes();
    let global = "ld.param.u64 %d1, [out];
                  tcgen05.alloc.cta_group::1.sync.aligned.b32 [%d1], 32;";
    warp(global).fails("writes to shared memory only");
    let lanes = format!("mov.u32 %r1, 32; shl.b32 %r1, %r1, %thread; {ALLOC} [slot], %r1;");
    warp(&lanes).fails("different numbers of columns");
    let places = format!(
        "mov.u32 %r2, slot; and.b32 %r1, %thread, 1; shl.b32 %r1, %r1, 2; add.u32 %r2, %r2, %r1;
         {ALLOC} [%r2], 32;"
    );
    warp(&places).fails("different addresses for the address");
    // The address is stored as by a thread: who reads it must be ordered behind.
    let early = format!(
        "setp.ne.u32 %p6, %warp, 0; @%p6 bra READ; {ALLOC} [slot], 32;
         READ: ld.shared.u32 %tensor, [slot];"
    );
    let error = Kernel::new(&early).try_run().unwrap_err().to_string();
    assert!(error.contains("data race") || error.contains("uninitialised shared"), "{error}");
}

/// A second warp waits until the first gives its columns back.
#[test]
fn allocation_waits() {
    let body = |first: u32, second: u32, free: &str| {
        format!(
            "setp.ge.u32 %p6, %warp, 2; @%p6 bra END;
             setp.eq.u32 %p6, %warp, 1; @%p6 bra SECOND;
             {ALLOC} [slot], {first}; bar.warp.sync -1; ld.shared.u32 %tensor, [slot];
             mov.u32 %r1, 7; tcgen05.st.sync.aligned.32x32b.x1.b32 [%tensor], {{%r1}};
             tcgen05.wait::st.sync.aligned; bar.arrive 1, 64;
             nanosleep.u32 2000;
             {free}
             bra END;
             SECOND: bar.sync 1, 64;
             {ALLOC} [image], {second}; bar.warp.sync -1; ld.shared.u32 %tensor, [image];
             st.global.b32 [%out], %tensor;
             {DEALLOC} %tensor, {second};
             END:"
        )
    };
    let give_back = format!("{DEALLOC} %tensor, 512;");
    Kernel::new(&body(512, 256, &give_back)).passes();
    let half = format!("{DEALLOC} %tensor, 256;");
    Kernel::new(&body(256, 256, &half)).passes();
    let forever = "bar.sync 3;";
    Kernel::new(&body(512, 32, forever)).fails("waits for free columns of tensor memory");
}

#[test]
fn rules() {
    let with = |body: &str| {
        format!("{ALLOC} [slot], 64; bar.warp.sync -1; ld.shared.u32 %tensor, [slot]; {body}")
    };
    let right = format!("{DEALLOC} %tensor, 64;");
    let cases = [
        (String::new(), "nobody has deallocated columns"),
        (format!("{DEALLOC} %tensor, 32;"), "has 64 columns"),
        (format!("add.u32 %r1, %tensor, 32; {DEALLOC} %r1, 32;"), "no allocation begins at"),
        (format!("{right}{right}"), "its block has no columns"),
        (format!("{right}{RELINQUISH}{ALLOC} [slot], 32;"), "after the tcgen05.relinquish"),
        (
            "tcgen05.dealloc.cta_group::2.sync.aligned.b32 %tensor, 64;".to_owned(),
            "another `.cta_group`",
        ),
        (
            format!("{right}tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r1}}, [%tensor];"),
            "are not allocated: its block has no columns",
        ),
        (
            format!(
                "mov.u32 %r1, 1; tcgen05.st.sync.aligned.32x32b.x1.b32 [%tensor], {{%r1}};{right}"
            ),
            "that the tcgen05.st in PTX line",
        ),
    ];
    for (body, part) in cases {
        warp(&with(&body)).fails(part);
    }
    warp(&with(&right)).passes();
    warp(&with(&format!("{RELINQUISH}{right}"))).passes();
    warp(&with(&format!("{right} bar.warp.sync -1; {ALLOC} [slot], 512; {DEALLOC} 0, 512;")))
        .passes();
    let pair = "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], 64;";
    warp(pair).fails("whose pair is not whole; the cluster has no block 1");
}

/// Columns hold nothing of what was there before.
#[test]
fn columns_are_new() {
    let body = format!(
        "{ALLOC} [slot], 512; mov.u32 %r1, 7; mov.u32 %r2, 0;
         tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {{%r1}}; tcgen05.wait::st.sync.aligned;
         {DEALLOC} 0, 512; {ALLOC} [slot], 512;
         tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r1}}, [%r2]; tcgen05.wait::ld.sync.aligned;"
    );
    warp(&body).fails("uninitialised tensor memory");
}

/// A body for two blocks, in which warp 0 of each has `columns` columns.
fn pair(allocation: &str, deallocation: &str) -> String {
    format!(
        "setp.ne.u32 %p6, %warp, 0; @%p6 bra ALLOCATED;
         {allocation}
         tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;
         ALLOCATED: bar.sync 0;
         ld.shared.u32 %tensor, [slot];
         st.global.b32 [%out], %tensor;
         setp.ne.u32 %p6, %warp, 0; @%p6 bra FREED;
         {deallocation}
         FREED:"
    )
}

#[test]
fn blocks_of_a_pair_allocate_together() {
    let alloc = "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], 128;";
    let dealloc = "tcgen05.dealloc.cta_group::2.sync.aligned.b32 %tensor, 128;";
    let run = |allocation: &str, deallocation: &str, seed| {
        let body = pair(allocation, deallocation);
        Kernel { blocks: 4, seed, ..Kernel::new(&body) }.try_run()
    };
    for seed in 0..10 {
        let found = run(alloc, dealloc, seed).unwrap();
        let places: Vec<u32> = found.chunks(128 * WORDS).map(|block| block[0]).collect();
        assert!(places[0] == places[1] && places[2] == places[3], "{places:?}");
        assert!(places.iter().all(|own| [0, 384].contains(own)), "{places:?}");
    }
    // One takes more than the other.
    let more = "and.b32 %r1, %rank, 1; shl.b32 %r1, 64, %r1;
                tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], %r1;";
    let error = run(more, dealloc, 1).unwrap_err().to_string();
    assert!(error.contains("must do the same"), "{error}");
    // One gives nothing back.
    let one = "setp.ne.u32 %p5, %rank, 1; @%p5 bra FREED;
               tcgen05.dealloc.cta_group::2.sync.aligned.b32 %tensor, 128;";
    let error = run(alloc, one, 1).unwrap_err().to_string();
    assert!(error.contains("nobody has deallocated"), "{error}");
    // One never comes.
    let one = format!("setp.eq.u32 %p5, %rank, 1; @%p5 bra GO; {} GO: {dealloc}", wait(2));
    let error = run(alloc, &one, 1).unwrap_err().to_string();
    assert!(error.contains("together with the other block of its pair"), "{error}");
}

/// Whoever gives columns back must know that the other warps are done with them.
#[test]
fn columns_are_given_back_when_all_are_done() {
    let body = |meeting: &str| {
        format!(
            "{}mov.u32 %r1, 7; tcgen05.st.sync.aligned.32x32b.x1.b32 [%tensor], {{%r1}};
             tcgen05.wait::st.sync.aligned;
             tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r2}}, [%tensor];
             tcgen05.wait::ld.sync.aligned;
             {meeting} setp.ne.u32 %p6, %warp, 0; @%p6 bra FREED; {DEALLOC} %tensor, 64; FREED:",
            allocate(64)
        )
    };
    Kernel::new(&body("bar.sync 0;")).passes();
    // All but the last warp's.
    let some = "setp.eq.u32 %p5, %warp, 3; @%p5 bra ON; bar.sync 1, 96; ON:";
    for meeting in ["", some] {
        let error = (0..20)
            .find_map(|seed| Kernel { seed, ..Kernel::new(&body(meeting)) }.try_run().err())
            .expect("a report under some seed")
            .to_string();
        assert!(error.contains("tcgen05.dealloc of columns that"), "{error}");
    }
    // What is known of the fourth warp is not enough, even where it has long been done.
    let late = "setp.eq.u32 %p5, %warp, 3; @%p5 bra ON; nanosleep.u32 100000; bar.sync 1, 96; ON:";
    Kernel::new(&body(late)).fails("that warp 3 may still use: nothing orders its tcgen05.wait");
}
