use super::{Damage, Purpose, sites};
use crate::Module;

/// One instruction of every kind that matters, and several that must be left alone.
const TEXT: &str = "
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k()
{
    .reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<9>; .reg .f32 %f<9>;
    mov.b32 %r1, 8;
    mov.b32 %r2, 1;
    mov.b32 %r2, 2;
    mbarrier.init.shared::cta.b64 [%r9], %r1;
    mbarrier.init.shared::cta.b64 [%r9], %r2;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    bar.sync 1, 256;
    bar.warp.sync 0xffffffff;
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r9], 0;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r9], 4096;
    cp.async.bulk.wait_group 0;
    wgmma.fence.sync.aligned;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 1;
    setp.lt.u32 %p2, %r9, %r10;
    setp.eq.u32 %p2, %r9, %r10;
    setp.lt.f32 %p2, %f1, %f2;
    min.u32 %r3, %r4, %r5;
    add.s32 %r6, %r7, 16384;
    bfe.u32 %r8, %r6, 4, 14;
    cvt.u64.u32 %rd1, %r8;
    or.b64 %rd2, %rd1, 0x4000004002000000;
    add.s64 %rd3, %rd2, 2;
    add.s64 %rd4, %rd5, 2;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, %rd3, %rd3, 1, 1, 1, 0, 0;
    ret;
}";

/// Every place, and what the broken line says.
const EXPECTED: &[(Purpose, &str, &str)] = &[
    (Purpose::Barrier, "line 11 of `k`: without `mbarrier.init.shared::cta.b64`", ""),
    (Purpose::Barrier, "`mbarrier.init.shared::cta.b64` with 0x9 for 0x8", "[%r9], 9;"),
    (Purpose::Barrier, "`mbarrier.init.shared::cta.b64` with 0x7 for 0x8", "[%r9], 7;"),
    (Purpose::Barrier, "line 12 of `k`: without `mbarrier.init.shared::cta.b64`", ""),
    (Purpose::Fence, "without `fence.proxy.async.shared::cta`", ""),
    (Purpose::Barrier, "line 14 of `k`: without `bar.sync`", ""),
    (Purpose::Barrier, "`bar.sync` with 0x1 for 0x0", "bar.sync 1;"),
    (Purpose::Barrier, "line 15 of `k`: without `bar.sync`", ""),
    (Purpose::Barrier, "`bar.sync` with 0x120 for 0x100", "bar.sync 1, 288;"),
    (Purpose::Barrier, "`bar.sync` with 0x0 for 0x1", "bar.sync 0, 256;"),
    (Purpose::Barrier, "without `bar.warp.sync`", ""),
    (Purpose::Wait, "`mbarrier.try_wait.parity.shared::cta.b64` does not wait", "mov.pred %p1, 1;"),
    (Purpose::Arrive, "without `mbarrier.arrive.expect_tx.shared::cta.b64`", ""),
    (Purpose::ExpectedBytes, "with 0x1010 for 0x1000", "[%r9], 4112;"),
    (Purpose::ExpectedBytes, "with 0xff0 for 0x1000", "[%r9], 4080;"),
    (Purpose::Wait, "without `cp.async.bulk.wait_group`", ""),
    (Purpose::Wait, "with 0x1 for 0x0", "cp.async.bulk.wait_group 1;"),
    (Purpose::Fence, "without `wgmma.fence.sync.aligned`", ""),
    (Purpose::Arrive, "without `wgmma.commit_group.sync.aligned`", ""),
    (Purpose::Wait, "without `wgmma.wait_group.sync.aligned`", ""),
    (Purpose::Wait, "with 0x2 for 0x1", "wgmma.wait_group.sync.aligned 2;"),
    (Purpose::Bound, "`setp.lt.u32` is always true", "mov.pred %p2, 1;"),
    (Purpose::Edge, "`setp.lt.u32` with `le` for `lt`", "setp.le.u32 %p2, %r9, %r10;"),
    (Purpose::Bound, "`min.u32` takes its first operand", "mov.u32 %r3, %r4;"),
    (Purpose::Descriptor, "`add.s32` with 0x8000 for 0x4000", "%r7, 32768;"),
    (Purpose::Descriptor, "`bfe.u32` with 0x5 for 0x4", "%r6, 5, 14;"),
    (Purpose::Descriptor, "`bfe.u32` with 0xd for 0xe", "%r6, 4, 13;"),
    (Purpose::Swizzle, "with 0x8000004002000000 for 0x4000004002000000", "or.b64 %rd2, %rd1"),
    (Purpose::Descriptor, "with 0x4000008002000000 for 0x4000004002000000", "or.b64 %rd2, %rd1"),
    (Purpose::Descriptor, "with 0x4000004004000000 for 0x4000004002000000", "or.b64 %rd2, %rd1"),
    (Purpose::Descriptor, "`add.s64` with 0x4 for 0x2", "add.s64 %rd3, %rd2, 4;"),
];

#[test]
fn every_place_is_found_and_broken_once() {
    let module = Module::parse(TEXT).unwrap();
    let whole = module.to_string();
    let sites = sites(&module);
    let shown: Vec<String> = sites.iter().map(ToString::to_string).collect();
    assert_eq!(sites.len(), EXPECTED.len(), "{shown:#?}");
    for (site, (purpose, name, line)) in sites.iter().zip(EXPECTED) {
        assert_eq!(site.purpose, *purpose, "{site}");
        assert!(site.to_string().contains(name), "{site} is not: {name}");
        let broken = site.apply(&module).to_string();
        // It is PTX still, and differs in that one line.
        Module::parse(&broken).unwrap_or_else(|error| panic!("{site}: {error}"));
        let (old, new): (Vec<&str>, Vec<&str>) =
            (whole.lines().collect(), broken.lines().collect());
        let first = (0..old.len()).find(|index| old.get(*index) != new.get(*index)).unwrap();
        if site.damage == Damage::Removed {
            assert_eq!(old[first + 1..], new[first..], "{site}");
            continue;
        }
        assert!(new[first].contains(line), "{site}: {}", new[first]);
        assert_eq!(old[first + 1..], new[first + 1..], "{site}");
    }
}
