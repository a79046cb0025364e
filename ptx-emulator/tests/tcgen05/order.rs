//! The order of `tcgen05` instructions: what is reported, and what is not.

use super::copies::{FENCE, descriptor, fill_image};
use super::{Kernel, allocate, fill, free, registers, wait};

const COPY: &str = "tcgen05.cp.cta_group::1.128x128b [%tensor], %d1;";
const COMMIT: &str =
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [barriers];";
pub(super) const BEFORE: &str = "tcgen05.fence::before_thread_sync;";
const AFTER: &str = "tcgen05.fence::after_thread_sync;";
pub(super) const WAIT_LOAD: &str = "tcgen05.wait::ld.sync.aligned;";
pub(super) const WAIT_STORE: &str = "tcgen05.wait::st.sync.aligned;";

fn load() -> String {
    format!("tcgen05.ld.sync.aligned.32x32b.x4.b32 {}, [%tensor];", registers(0, 4))
}

fn store() -> String {
    format!("tcgen05.st.sync.aligned.32x32b.x4.b32 [%tensor], {};", registers(8, 4))
}

/// Only the first thread of a warp does something.
pub(super) fn by_thread(thread: u32, body: &str) -> String {
    format!("setp.ne.u32 %p4, %thread, {thread}; @%p4 bra AFTER{thread}; {body} AFTER{thread}:\n")
}

/// A body between allocation and deallocation, with columns and shared memory filled and ordered.
pub(super) fn kernel(body: &str) -> String {
    let order = format!("{BEFORE}{FENCE} bar.sync 0; {AFTER}");
    format!(
        "{}{}{}{}{order}{body}{}",
        allocate(32),
        fill(32),
        fill_image(""),
        descriptor(0, 0, 128, 0),
        free(32)
    )
}

/// A race in some way.
pub(super) const RACE: &str = "data race in tensor memory";

#[test]
fn loads_after_copies() {
    let copy = by_thread(32, &format!("{COPY}{COMMIT}"));
    let (wait, load) = (wait(0), format!("{}{WAIT_LOAD}", load()));
    Kernel::new(&kernel(&format!("{copy}{wait}{AFTER}{load}"))).passes();
    // The thread that copies reads, too: it waits like the others.
    let cases = [
        format!("{copy}{wait}{load}"),
        format!("{copy}{AFTER}{load}{wait}"),
        format!("{copy}bar.sync 0; {AFTER}{load}{wait}"),
        // The fence stands before the wait.
        format!("{copy}{AFTER}{wait}{load}"),
    ];
    for body in cases {
        Kernel::new(&kernel(&body)).fails(RACE);
    }
    // A copy after the commit is not waited for.
    let late = by_thread(32, &format!("{COMMIT}{COPY}"));
    let late = kernel(&format!("{late}{wait}{AFTER}{load}"));
    for seed in 0..6 {
        let error = Kernel { seed, ..Kernel::new(&late) }.try_run().unwrap_err().to_string();
        assert!(error.contains(RACE) || error.contains("may still use"), "{error}");
    }
}

/// The order goes on over other threads and other barriers.
#[test]
fn order_is_passed_on() {
    let copy = by_thread(32, &format!("{COPY}{COMMIT}"));
    let others = format!("setp.eq.u32 %p3, %warp, 0; @%p3 bra MEET; {}MEET: bar.sync 0;", wait(0));
    let load = format!("{}{WAIT_LOAD}", load());
    Kernel::new(&kernel(&format!("{copy}{others}{AFTER}{load}"))).passes();
    Kernel::new(&kernel(&format!("{copy}{others}{load}"))).fails(RACE);
}

#[test]
fn copies_after_loads() {
    let load = load();
    let copy = by_thread(32, &format!("{AFTER}{COPY}{COMMIT}"));
    let end = wait(0);
    let right = format!("{load}{WAIT_LOAD}{BEFORE} bar.sync 0; {copy}{end}");
    Kernel::new(&kernel(&right)).passes();
    let bare = by_thread(32, &format!("{COPY}{COMMIT}"));
    let cases = [
        format!("{load}{WAIT_LOAD} bar.sync 0; {copy}{end}"),
        format!("{load}{WAIT_LOAD}{BEFORE} bar.sync 0; {bare}{end}"),
        format!("{load}{BEFORE}{WAIT_LOAD} bar.sync 0; {copy}{end}"),
        format!("{load} {BEFORE} bar.sync 0; {copy}{end}{WAIT_LOAD}"),
        format!("{load}{WAIT_LOAD}{BEFORE}{copy}{end}"),
    ];
    for body in cases {
        Kernel::new(&kernel(&body)).fails(RACE);
    }
}

/// A commit passes on what its thread knew: it contains a fence.
#[test]
fn commits_are_fences() {
    let load = format!("{}{WAIT_LOAD}", load());
    let other = COMMIT.replace("[barriers]", "[barriers+8]");
    let body = |wait_load: &str, fence: &str| {
        format!(
            "setp.ne.u32 %p2, %warp, 0; @%p2 bra LOADED; {}{wait_load} LOADED: {}{}{}{WAIT_LOAD}",
            load.replace(WAIT_LOAD, ""),
            by_thread(0, &other),
            // Thread 32 writes what warp 0 has read.
            by_thread(32, &format!("{}{fence}{COPY}{COMMIT}", wait(1))),
            wait(0)
        )
    };
    Kernel::new(&kernel(&body(WAIT_LOAD, AFTER))).passes();
    Kernel::new(&kernel(&body(WAIT_LOAD, ""))).fails(RACE);
    Kernel::new(&kernel(&body("", AFTER))).fails(RACE);
}

/// What a thread commits is complete in order, but nothing orders the arrivals of two commits.
#[test]
fn arrivals_of_commits() {
    let other = COMMIT.replace("[barriers]", "[barriers+8]");
    let body = kernel(&format!(
        "{}{}mbarrier.test_wait.parity.shared::cta.b64 %p5, [barriers], 0;
         selp.u32 %r0, 1, 0, %p5; st.global.b32 [%out], %r0; {}",
        by_thread(0, &format!("{COPY}{COMMIT}{COPY}{other}")),
        wait(1),
        wait(0)
    ));
    let has_come = |seed| Kernel { seed, ..Kernel::new(&body) }.run()[0] == 1;
    let come = (0..64).filter(|seed| has_come(*seed)).count();
    assert!((8..64).contains(&come), "the first of two arrivals came first in {come} of 64 runs");

    // A barrier of the block's own may end when what it committed is complete. What is not complete
    // by then arrives at none.
    let end = "setp.ne.u32 %p3, %thread, 0; @%p3 bra ENDED;
               mbarrier.inval.shared::cta.b64 [barriers];
               mov.u32 %r0, 500; MORE: sub.u32 %r0, %r0, 1;
               setp.ne.u32 %p3, %r0, 0; @%p3 bra MORE; ENDED:";
    let run = |body: &str, seed| Kernel { seed, ..Kernel::new(body) }.try_run();
    let commits = by_thread(0, &format!("{COPY}{COMMIT}{COPY}{other}"));
    let complete = kernel(&format!("{commits}{}{end}", wait(1)));
    for seed in 0..64 {
        run(&complete, seed).unwrap_or_else(|report| panic!("seed {seed}: {report}"));
    }
    let early = kernel(&format!("{commits}{end}{}", wait(1)));
    let report = (0..64).find_map(|seed| run(&early, seed).err()).expect("a report").to_string();
    assert!(report.contains("a tcgen05.commit is to arrive on it: not initialised"), "{report}");

    // Another block must stay until what is to arrive there has come.
    let both = format!(
        "mov.u16 %h1, 3; {}",
        COMMIT
            .replace(".shared::cluster.b64", ".shared::cluster.multicast::cluster.b64")
            .replace("[barriers]", "[barriers], %h1")
    );
    let body = |end: &str| {
        let commit = by_thread(0, &format!("setp.ne.u32 %p4, %rank, 0; @%p4 bra AFTER0; {both}"));
        let meet = "barrier.cluster.arrive; barrier.cluster.wait;";
        format!("{meet} {commit} {meet} {end}")
    };
    let waiting = body(&wait(0));
    let launch = |body: &str, seed| Kernel { blocks: 2, seed, ..Kernel::new(body) }.try_run();
    assert!((0..16).all(|seed| launch(&waiting, seed).is_ok()), "{waiting}");
    let leaving = body("");
    let report = (0..16).find_map(|seed| launch(&leaving, seed).err()).expect("a report");
    let text = report.to_string();
    assert!(text.contains("a tcgen05.commit is to arrive on it: its block has exited"), "{text}");
}

/// Relaxed arrivals are enough between the fences.
#[test]
fn relaxed_arrivals() {
    let load = format!("{}{WAIT_LOAD}", load());
    let arrive = |fence: &str| {
        format!(
            "bar.warp.sync -1; {fence}
             setp.ne.u32 %p3, %thread, 96; @%p3 bra ARRIVED;
             mbarrier.arrive.relaxed.cta.shared.b64 _, [barriers+8];
             ARRIVED:"
        )
    };
    let wait_relaxed = "AGAIN: mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 %p5, \
                        [barriers+8], 0; @!%p5 bra AGAIN;";
    let copy = |fence: &str| by_thread(0, &format!("{wait_relaxed}{fence}{COPY}{COMMIT}"));
    // Warp 3 alone loads.
    let only = format!("setp.ne.u32 %p2, %warp, 3; @%p2 bra LOADED; {load}");
    let body = |before: &str, after: &str| {
        let (arrive, copy, end) = (arrive(before), copy(after), wait(0));
        kernel(&format!("{only}{arrive}LOADED: {copy}{end}"))
    };
    Kernel::new(&body(BEFORE, AFTER)).passes();
    Kernel::new(&body("", AFTER)).fails(RACE);
    Kernel::new(&body(BEFORE, "")).fails(RACE);
}

/// Loads and stores of one warp.
#[test]
fn transfers_of_a_warp() {
    let (load, store) = (load(), store());
    let passing = [
        format!("{store}{WAIT_STORE}{load}{WAIT_LOAD}"),
        format!("{load}{WAIT_LOAD}{store}{WAIT_STORE}"),
        format!("{load}{}{WAIT_LOAD}", load.replace("%r", "%r10")),
        format!("{store}{WAIT_STORE}{store}{WAIT_STORE}"),
    ];
    for body in passing {
        Kernel::new(&kernel(&body)).passes();
    }
    let failing = [
        format!("{store}{load}{WAIT_LOAD}{WAIT_STORE}"),
        format!("{load}{store}{WAIT_LOAD}{WAIT_STORE}"),
        format!("{store}{store}{WAIT_STORE}"),
        format!("{store}{WAIT_LOAD}{load}{WAIT_LOAD}{WAIT_STORE}"),
    ];
    for body in failing {
        Kernel::new(&kernel(&body)).fails(RACE);
    }
    // Without a wait for all that is left the columns cannot go.
    let left = format!("setp.ne.u32 %p2, %warp, 0; @%p2 bra STORED; {store} STORED:");
    let error = (0..6).filter_map(|seed| {
        let body = kernel(&left);
        Kernel { seed, ..Kernel::new(&body) }.try_run().err()
    });
    assert!(error.map(|own| own.to_string()).any(|own| own.contains("may still use")));
}

/// A store that a copy of the same thread follows.
#[test]
fn copies_after_stores() {
    let end = wait(0);
    let copy = by_thread(0, &format!("{COPY}{COMMIT}"));
    let only = |body: &str| format!("setp.ne.u32 %p2, %warp, 0; @%p2 bra DONE; {body} DONE:");
    let narrow = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%tensor+4], {%r8};";
    // Other columns are no matter.
    Kernel::new(&kernel(&format!("{}{copy}{end}{WAIT_STORE}", only(narrow)))).passes();
    // Of the other warps' stores at the beginning all know.
    let right = format!("{}{copy}{end}", only(&format!("{}{WAIT_STORE}", store())));
    Kernel::new(&kernel(&right)).passes();
    Kernel::new(&kernel(&format!("{}{copy}{end}{WAIT_STORE}", only(&store())))).fails(RACE);
}

/// Copies of one thread are in order; those of two threads are not.
#[test]
fn copies_of_threads() {
    let end = wait(0);
    let twice = by_thread(0, &format!("{COPY}{COPY}{COMMIT}"));
    Kernel::new(&kernel(&format!("{twice}{end}"))).passes();
    let other = COMMIT.replace("[barriers]", "[barriers+8]");
    let second = by_thread(64, &format!("{COPY}{other}"));
    let both = format!("{}{second}{end}{}", by_thread(0, &format!("{COPY}{COMMIT}")), wait(1));
    Kernel::new(&kernel(&both)).fails(RACE);
}

/// Shared memory is read through the async proxy.
#[test]
fn shared_memory() {
    let end = wait(0);
    let copy = by_thread(0, &format!("{COPY}{COMMIT}"));
    let write = "mov.u32 %r20, 5; mov.u32 %r21, image; mad.lo.u32 %r21, %thread, 4, %r21;
                 st.shared.b32 [%r21], %r20;";
    let cases = [
        (format!("{write}{FENCE} bar.sync 0; {copy}{end}"), None),
        (format!("{write} bar.sync 0; {copy}{end}"), Some("`fence.proxy.async` is missing")),
        (format!("{write}{FENCE}{copy}{end}"), Some("data race in shared memory")),
        (format!("{copy}{end}{write}"), None),
        (format!("{copy}{write}{end}"), Some("data race in shared memory")),
        (format!("{copy} bar.sync 0; {write}{end}"), Some("data race in shared memory")),
    ];
    for (body, part) in cases {
        let text = kernel(&body);
        match part {
            None => Kernel::new(&text).passes(),
            Some(part) => Kernel::new(&text).fails(part),
        }
    }
}

/// A bulk copy that signals an mbarrier needs no fence, and a commit frees what it wrote.
#[test]
fn bulk_copies() {
    let bulk = "mbarrier.arrive.expect_tx.shared.b64 _, [barriers+8], 2048;
                cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [image], [%input],
                2048, [barriers+8];";
    let round = |barrier: &str, full: &str, empty: &str| {
        by_thread(0, &format!("{barrier}{bulk}"))
            + &by_thread(32, &format!("{full}{COPY}{COMMIT}"))
                .replace("[barriers]", &format!("[barriers{empty}]"))
    };
    let full = |phase: u32| {
        wait(1).replace("WAIT1", &format!("FULL{phase}")).replace("], 0;", &format!("], {phase};"))
    };
    let first = round("", &full(0), "");
    let rename = |text: &str| text.replace("AFTER", "LATER");
    // The second round writes what the first has read.
    let second = rename(&round(&wait(0), &full(1), "+16"));
    let start = "fence.proxy.async.shared::cta; bar.sync 0;";
    let end = wait(2);
    Kernel::new(&kernel(&format!("{start}{first}{second}{end}"))).passes();
    // It only knows that the first bulk copy has come.
    let early = rename(&round(&full(0).replace("FULL", "COME"), &full(1), "+16"));
    Kernel::new(&kernel(&format!("{start}{first}{early}{end}"))).fails("data race in shared");
}
