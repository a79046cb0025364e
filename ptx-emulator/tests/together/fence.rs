//! `fence` and `membar`.

use super::{Kernel, WARP, refused, warp};

/// Thread 0 sets `data`, then `flag`; thread 32 waits for the flag and reads the data.
fn message(before: &str, after: &str) -> String {
    format!(
        "mov.u64 %d1, data; mov.u64 %d2, flag;
         setp.eq.u32 %p1, %lane, 0; @!%p1 bra OTHERS;
         st.global.b32 [%d1], 77;
         {before};
         st.relaxed.gpu.global.b32 [%d2], 1;
         OTHERS:
         setp.eq.u32 %p1, %lane, 32; @!%p1 bra DONE;
         AGAIN: ld.relaxed.gpu.global.b32 %r1, [%d2];
         setp.eq.u32 %p2, %r1, 0; @%p2 bra AGAIN;
         {after};
         ld.global.b32 %x, [%d1];
         DONE:"
    )
}

const MODULE: &str = ".global .align 4 .b32 data;\n.global .align 4 .b32 flag;";

#[test]
fn fences_on_both_sides_pass_a_message() {
    for fence in [
        "fence.sc.gpu",
        "fence.acq_rel.gpu",
        "fence.gpu",
        "membar.gl",
        "membar.sys",
        "fence.acq_rel.sys",
        "fence.sc.cluster",
        "fence.proxy.tensormap::generic.release.gpu",
    ] {
        for seed in 0..3 {
            let body = &message(fence, fence);
            let words = Kernel { module: MODULE, body, threads: 64, seed, ..WARP }.run();
            assert_eq!(words[32], 77, "{fence}");
        }
    }
    let body = &message("fence.release.gpu", "fence.acquire.gpu");
    assert_eq!(Kernel { module: MODULE, body, threads: 64, ..WARP }.run()[32], 77);
}

#[test]
fn a_message_without_both_fences_races() {
    let nothing = "pmevent 1";
    for (before, after) in [
        (nothing, "fence.acq_rel.gpu"),
        ("fence.acq_rel.gpu", nothing),
        // This one is for virtual addresses and for another proxy.
        ("fence.proxy.alias", "fence.proxy.alias"),
        ("fence.proxy.async", "fence.proxy.async"),
    ] {
        let body = &message(before, after);
        Kernel { module: MODULE, body, threads: 64, ..WARP }.fails("data race");
    }
}

#[test]
fn all_forms_are_accepted() {
    for fence in [
        "fence.sc.cta",
        "fence.acquire.cta",
        "fence.release.sys",
        "membar.cta",
        "fence.proxy.async.shared::cta",
        "fence.proxy.async.shared::cluster",
        "fence.proxy.async.global",
        "fence.mbarrier_init.release.cluster",
        "fence.acquire.sync_restrict::shared::cluster.cluster",
        "fence.release.sync_restrict::shared::cta.cluster",
        "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster",
        "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster",
        "fence.proxy.tensormap::generic.release.cta",
    ] {
        assert_eq!(warp(&format!("{fence}; mov.u32 %x, 3;")), vec![3; 32], "{fence}");
    }
    refused("fence.sc;", "a scope is missing");
    refused("fence.proxy.texture;", "this proxy");
    refused("fence.mbarrier_init.acquire.cluster;", "mbarrier_init");
    refused("fence.proxy.tensormap::generic.acquire.gpu [%out], 64;", "128 bytes");
}

#[test]
fn the_fence_of_a_tensor_map_wants_one() {
    let module = ".global .align 128 .b8 map[128];\n.shared .align 128 .b8 other[128];";
    let fence = "fence.proxy.tensormap::generic.acquire.gpu";
    for (address, part) in [
        ("mov.u64 %d1, map;", None),
        ("mov.u64 %d1, map; add.u64 %d1, %d1, 64;", Some("out of bounds")),
        ("mov.u64 %d1, map; add.u64 %d1, %d1, 16;", Some("not aligned to 64")),
        ("mov.u64 %d1, other; cvta.shared.u64 %d1, %d1;", Some("out of bounds")),
    ] {
        let body = format!("{address} {fence} [%d1], 128; mov.u32 %x, 3;");
        let kernel = Kernel { module, body: &body, ..WARP };
        match part {
            None => assert_eq!(kernel.run(), vec![3; 32]),
            Some(part) => kernel.fails(part),
        }
    }
}
