//! Address spaces, other blocks, register claims, hints.

use super::{Kernel, WARP, by_lane, refused, warp};

#[test]
fn generic_addresses_know_their_space() {
    let module = ".shared .align 4 .b8 cell[4];\n.const .align 4 .b32 table[2] = {5, 6};\n\
                  .global .align 4 .b32 variable;";
    let spaces = ["global", "const", "local", "shared", "shared::cta", "shared::cluster", "param"];
    for (address, holds) in [
        ("mov.u64 %d1, variable;", &["global"][..]),
        ("mov.u64 %d1, table; cvta.const.u64 %d1, %d1; add.u64 %d1, %d1, 7;", &["const"]),
        ("mov.u64 %d1, own; cvta.local.u64 %d1, %d1;", &["local"]),
        (
            "mov.u64 %d1, cell; cvta.shared.u64 %d1, %d1;",
            &["shared", "shared::cta", "shared::cluster"],
        ),
        (
            "mov.u64 %d1, cell; cvta.shared.u64 %d1, %d1; mov.u32 %r1, %cluster_ctarank;
             xor.b32 %r1, %r1, 1; mapa.u64 %d1, %d1, %r1;",
            &["shared::cluster"],
        ),
        ("mov.b64 %d1, out; cvta.param.u64 %d1, %d1;", &["param"]),
    ] {
        let asks: String = spaces
            .iter()
            .enumerate()
            .map(|(bit, space)| {
                format!("isspacep.{space} %p1, %d1; @%p1 or.b32 %x, %x, {};", 1 << bit)
            })
            .collect();
        let body = format!(".local .align 4 .b8 own[4]; {address} {asks}");
        let words = Kernel { module, body: &body, blocks: 2, cluster: 2, ..WARP }.run();
        let bit = |space: &&str| spaces.iter().position(|own| own == space).map_or(0, |at| 1 << at);
        let expected: u32 = holds.iter().map(bit).sum();
        assert_eq!(words, vec![expected; 64], "{address}");
    }
}

#[test]
fn mapped_addresses_reach_other_blocks() {
    let module = ".shared .align 4 .b8 cells[128];";
    for map in [
        // Both widths of an address in the window, and a generic one.
        "mapa.shared::cluster.u32 %r4, %r3, %r2; ld.shared::cluster.b32 %x, [%r4];
         getctarank.shared::cluster.u32 %r5, %r4;",
        "cvt.u64.u32 %d1, %r3; mapa.shared::cluster.u64 %d2, %d1, %r2;
         ld.shared::cluster.b32 %x, [%d2]; getctarank.shared::cluster.u64 %r5, %d2;",
        "cvt.u64.u32 %d1, %r3; cvta.shared.u64 %d1, %d1; mapa.u64 %d2, %d1, %r2;
         ld.b32 %x, [%d2]; getctarank.u64 %r5, %d2;",
    ] {
        let map = if map.contains("cvt.u64.u32") {
            map.replace("cvt.u64.u32 %d1, %r3;", "mov.b64 %d1, {%r3, 0};")
        } else {
            map.to_owned()
        };
        let body = format!(
            "mov.u32 %r1, %cluster_ctarank; add.u32 %r2, %r1, 1; and.b32 %r2, %r2, 3;
             mov.u32 %r3, cells; mad.lo.u32 %r3, %lane, 4, %r3;
             mad.lo.u32 %r6, %r1, 1000, %lane; st.shared.b32 [%r3], %r6;
             barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
             {map}
             mad.lo.u32 %x, %r5, 10000, %x;
             barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
        );
        let words = Kernel { module, body: &body, blocks: 4, cluster: 4, ..WARP }.run();
        let of_block = |block: u32| {
            let other = (block + 1) % 4;
            by_lane(move |lane| other * 11000 + lane)
        };
        assert_eq!(words, (0..4).flat_map(of_block).collect::<Vec<_>>(), "{map}");
    }
}

#[test]
fn wrong_blocks_and_addresses_are_reported() {
    let module = ".shared .align 4 .b8 cells[128];";
    for (body, part) in [
        ("mov.u32 %r1, cells; mapa.shared::cluster.u32 %r2, %r1, 2;", "no block 2; it has 2"),
        ("mapa.u64 %d1, %out, 0;", "no address in the shared memory"),
        ("getctarank.u64 %r1, %out;", "no address in the shared memory"),
    ] {
        Kernel { module, body, blocks: 2, cluster: 2, ..WARP }.fails(part);
    }
    refused("mapa.s32 %r1, %r2, 0;", "type");
}

#[test]
fn hints_do_nothing() {
    let body = "prefetch.global.L1 [%out]; prefetch.global.L2 [%out]; prefetch.L2 [8];
                prefetchu.L1 [%out]; prefetch.global.L2::evict_last [%out];
                prefetch.global.L2::evict_normal [%out]; prefetch.tensormap [%out];
                prefetch.param.tensormap [out];
                applypriority.global.L2::evict_normal [%out], 128;
                griddepcontrol.wait; griddepcontrol.launch_dependents;
                pmevent 3; pmevent.mask 5;
                mov.u32 %x, 4;";
    assert_eq!(warp(body), vec![4; 32]);
    refused("prefetch.global [%out];", "level");
    refused("griddepcontrol;", "missing");
}

#[test]
fn policies_are_values() {
    let module = ".global .align 4 .b32 value = 21;";
    for policy in [
        "createpolicy.fractional.L2::evict_last.b64 %d1, 1.0;",
        "createpolicy.fractional.L2::evict_first.b64 %d1;",
        "createpolicy.fractional.L2::evict_first.L2::evict_unchanged.b64 %d1, 0.5;",
        "createpolicy.range.global.L2::evict_last.L2::evict_first.b64 %d1, [%d2], 64, 128;",
        "createpolicy.range.L2::evict_last.b64 %d1, [%d2], %r1, 128;",
        "createpolicy.cvt.L2.b64 %d1, 0x10000000;",
    ] {
        let body = format!(
            "mov.u64 %d2, value; mov.u32 %r1, 64; {policy}
             ld.global.L2::cache_hint.b32 %x, [%d2], %d1;"
        );
        assert_eq!(Kernel { module, body: &body, ..WARP }.run(), vec![21; 32], "{policy}");
    }
    refused("createpolicy.fractional.b64 %d1, 1.0;", "priority");
    refused("createpolicy.cvt.L2.b32 %r1, 1;", "64 bits");
}

#[test]
fn discarded_memory_holds_anything() {
    let module = ".global .align 128 .b8 line[256];";
    let words = |body: &str| Kernel { module, body, ..WARP }.run();
    let body = "mov.u64 %d1, line; mad.wide.u32 %d2, %lane, 8, %d1; st.global.b64 [%d2], 0;
                bar.sync 0; discard.global.L2 [%d1], 128; bar.sync 0; ld.global.b32 %x, [%d2];";
    let found = words(body);
    assert!(found[..16].iter().all(|word| *word != 0), "{found:?}");
    assert!(found[16..].iter().all(|word| *word == 0), "{found:?}");
    let body = "mov.u64 %d1, line; discard.L2 [%d1+256], 128;";
    Kernel { module, body, ..WARP }.fails("out of bounds");
    let body = "mov.u64 %d1, line; discard.L2 [%d1+64], 128;";
    Kernel { module, body, ..WARP }.fails("not aligned to 128");
    // A discard is a write: it must be ordered like one.
    let body = "mov.u64 %d1, line; setp.eq.u32 %p1, %lane, 0;
                @%p1 discard.global.L2 [%d1], 128; ld.global.b32 %x, [%d1+64];";
    Kernel { module, body, ..WARP }.fails("data race");
    refused("discard.global.L2 [%out], 64;", "128");
}

/// Two warpgroups: what each does with its registers.
fn claims(low: &str, high: &str, directives: &str) -> Result<Vec<u32>, String> {
    let body = format!(
        "setp.lt.u32 %p1, %lane, 128; @%p1 bra LOW;
         {high} mov.u32 %x, 2; bra DONE;
         LOW: {low} mov.u32 %x, 1;
         DONE:"
    );
    let kernel = Kernel { body: &body, threads: 256, directives, ..WARP };
    kernel.try_run().map_err(|error| error.to_string())
}

#[test]
fn registers_move_from_one_warpgroup_to_another() {
    let directives = ".reqntid 256\n.maxnreg 64";
    let inc = |count: u32| format!("setmaxnreg.inc.sync.aligned.u32 {count};");
    let dec = |count: u32| format!("setmaxnreg.dec.sync.aligned.u32 {count};");
    let words = claims(&dec(32), &inc(96), directives).unwrap();
    assert!(words[..128].iter().all(|word| *word == 1));
    assert!(words[128..].iter().all(|word| *word == 2));
    for (low, high, part) in [
        // One warpgroup gives up 32 registers a thread, the other wants 40.
        (dec(32), inc(104), "deadlock"),
        (String::new(), inc(72), "deadlock"),
        (dec(72), String::new(), "`setmaxnreg.dec` to 72 registers, where a thread has 64"),
        (inc(56), String::new(), "`setmaxnreg.inc` to 56 registers, where a thread has 64"),
    ] {
        let error = claims(&low, &high, directives).unwrap_err();
        assert!(error.contains(part), "{low} {high}\n{error}");
        let is_deadlock = part == "deadlock";
        assert_eq!(error.contains(" registers for its threads; its block has "), is_deadlock);
    }
    // The warps of a group must execute the same.
    let differing = format!(
        "setp.lt.u32 %p2, %lane, 32; @%p2 bra FIRST; {} bra REST; FIRST: {} REST:",
        dec(40),
        dec(32)
    );
    let first_only = format!("setp.ge.u32 %p2, %lane, 32; @%p2 bra REST; {} REST:", dec(32));
    for (low, part) in [
        (differing, "where others of its warpgroup execute `setmaxnreg.dec` to"),
        (first_only, "of its warpgroup ha"),
    ] {
        let error = claims(&low, "", directives).unwrap_err();
        assert!(error.contains(part), "{low}\n{error}");
    }
    // Nothing must lie between one claim and the next.
    let twice = claims(&(dec(40) + &dec(32)), &(inc(72) + &inc(96)), directives);
    assert!(twice.is_ok(), "{twice:?}");
    for count in [16, 25, 264] {
        refused(&inc(count), "multiple of 8 from 24 to 256");
    }
}

/// Without `.maxnreg` the registers are what the block's bound leaves of the register file.
#[test]
fn registers_follow_from_the_launch_bounds() {
    let dec = |count: u32| format!("setmaxnreg.dec.sync.aligned.u32 {count};");
    for (directives, registers) in [
        (".maxntid 384\n.minnctapersm 1", 168),
        (".maxntid 256\n.minnctapersm 2", 128),
        (".maxntid 1024", 64),
        // A thread can name 255 registers; they are allotted in eights.
        (".reqntid 256\n.maxnreg 256", 256),
        (".reqntid 256\n.maxnreg 255", 256),
        (".reqntid 256\n.maxnreg 100", 104),
        // More than the register file has for so many threads.
        (".maxntid 512\n.maxnreg 256", 128),
    ] {
        assert!(claims(&dec(registers), "", directives).is_ok(), "{directives}");
        let inc = |count: u32| format!("setmaxnreg.inc.sync.aligned.u32 {count};");
        assert!(claims(&inc(registers), "", directives).is_ok(), "{directives}");
        // There are no counts above 256.
        let wrong = if registers < 256 { dec(registers + 8) } else { inc(248) };
        let error = claims(&wrong, "", directives).unwrap_err();
        let part = format!("where a thread has {registers}");
        assert!(error.contains(&part), "{directives}\n{error}");
    }
}

/// A shared variable that an instruction names directly is that of the own block, whatever its
/// rank.
#[test]
fn variables_named_by_address_are_the_blocks_own() {
    let kernel = Kernel {
        module: ".shared .align 8 .b64 cell[40];",
        blocks: 4,
        cluster: 2,
        body: "setp.eq.u32 %p1, %lane, 0; mov.u32 %r1, %ctaid.x; add.u32 %r1, %r1, 7;
         @%p1 st.shared.b32 [cell+8], %r1; @%p1 mbarrier.init.shared.b64 [cell], 32;
         bar.sync 0;
         mbarrier.arrive.shared.b64 _, [cell];
         WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [cell], 0; @!%p2 bra WAIT;
         ld.shared.b32 %x, [cell+8];
         bar.sync 0;
         atom.shared.add.u32 %r2, [cell+8], 1; bar.sync 0; ld.shared.b32 %r3, [cell+8];
         add.u32 %x, %x, %r3;",
        ..WARP
    };
    let expected: Vec<u32> = (0..128).map(|place| 2 * (place / 32 + 7) + 32).collect();
    for seed in 0..5 {
        assert_eq!(Kernel { seed, ..kernel }.run(), expected, "seed {seed}");
    }
}

/// Block 1 may be gone when block 0 touches its memory; a barrier at the end keeps it.
#[test]
fn the_memory_of_a_block_that_has_exited_is_gone() {
    let run = |last: &str, seed: u64| {
        let body = format!(
            "setp.eq.u32 %p2, %lane, 0;
             mov.u32 %r1, cell; mapa.shared::cluster.u32 %r2, %r1, 1; mov.u32 %r3, %ctaid.x;
             setp.eq.u32 %p1, %r3, 0; and.pred %p1, %p1, %p2;
             barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
             @%p1 st.shared::cluster.b32 [%r2+8], 5; {last}"
        );
        let module = ".shared .align 8 .b64 cell[2];";
        Kernel { module, body: &body, blocks: 2, cluster: 2, seed, ..WARP }.try_run()
    };
    let meet = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;";
    let mut reported = 0;
    for seed in 0..20 {
        assert!(run(meet, seed).is_ok(), "seed {seed}");
        if let Err(error) = run("", seed) {
            let message = error.to_string();
            assert!(message.contains("block 1 of the cluster has exited"), "{message}");
            reported += 1;
        }
    }
    assert!(reported > 0);
}

/// A call reaches what its list of targets names and nothing else, whatever looks like it.
#[test]
fn calls_keep_to_their_targets() {
    let module = ".func (.reg .b32 r) one(.reg .b32 a) { add.u32 r, a, 1; ret; }
        .func (.reg .b32 r) two(.reg .b32 a) { add.u32 r, a, 2; ret; }";
    let body = |targets: &str| {
        format!(
            "setp.lt.u32 %p1, %lane, 16; mov.u64 %d1, one; mov.u64 %d2, two;
             selp.b64 %d1, %d1, %d2, %p1;
             T: .calltargets {targets}; call (%x), %d1, (%lane), T;"
        )
    };
    let sums = by_lane(|lane| lane + if lane < 16 { 1 } else { 2 });
    for both in ["one, two", "two, one"] {
        assert_eq!(Kernel { module, body: &body(both), ..WARP }.run(), sums, "{both}");
    }
    let part = "is the address of a function that the call's list of targets does not name";
    for (one, called) in [("one", "thread (16, 0, 0)"), ("two", "thread (0, 0, 0)")] {
        Kernel { module, body: &body(one), ..WARP }.fails(part);
        Kernel { module, body: &body(one), ..WARP }.fails(called);
    }
}

#[test]
fn constants_are_not_written() {
    refused("st.const.b32 [%d1], 5;", "constant memory cannot be written");
    let module = ".const .align 16 .b32 table[4];\n.shared .align 16 .b32 cells[4];";
    let written = "constant memory cannot be written";
    for (write, report) in [
        ("st.b32 [%d1], 5;", written),
        ("st.global.b32 [%d1], 5;", written),
        ("atom.add.u32 %r1, [%d1], 1;", "an atomic operation in constant memory"),
        (
            "setp.eq.u32 %p1, %lane, 0; @%p1 st.shared.v4.b32 [cells], {1, 2, 3, 4};
         @%p1 fence.proxy.async; @%p1 mov.u32 %r1, cells;
         @%p1 cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r1], 16;
         cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
            written,
        ),
    ] {
        let body = format!("mov.u64 %d1, table; cvta.const.u64 %d1, %d1; {write}");
        Kernel { module, body: &body, ..WARP }.fails(report);
    }
}

/// Reports of what happens later, and of threads that wait, name the source line as others do.
#[test]
fn later_reports_name_the_source_line() {
    let module = ".file 1 \"kernel.rs\"\n.shared .align 16 .b32 cell[4];";
    let copy = "setp.ne.u32 %p1, %lane, 0; @%p1 bra DONE;
        st.shared.v4.b32 [cell], {1, 2, 3, 4};
        .loc 1 77 3
        cp.async.bulk.global.shared::cta.bulk_group [%out], [cell], 16;
        .loc 1 78 3
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; DONE:";
    let wait = ".loc 1 42 5\n bar.sync 1, 64;";
    for (body, source) in [(copy, "kernel.rs:77:3"), (wait, "kernel.rs:42:5")] {
        Kernel { module, body, ..WARP }.fails(source);
    }
}
