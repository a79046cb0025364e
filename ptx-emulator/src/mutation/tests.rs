use super::{Damage, Purpose, sites};
use crate::Module;

/// One instruction of every kind that matters on Hopper, and several that must be left alone.
const HOPPER: &str = "
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

/// A place's purpose, what its name contains, and what the broken line says.
type Expected = (Purpose, &'static str, &'static str);

/// Every place.
const IN_HOPPER: &[Expected] = &[
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

/// The same for Blackwell.
const BLACKWELL: &str = "
.version 8.6
.target sm_100a
.address_size 64
.visible .entry k()
{
    .reg .pred %p<4>; .reg .b16 %h<3>; .reg .b32 %r<20>; .reg .b64 %rd<9>; .reg .b128 %q<2>;
    mov.b32 %r1, 0x08400490;
    mov.b32 %r2, 0x08200480;
    mov.b16 %h1, 3;
    mov.pred %p3, 1;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r9], 64;
    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
    fence.proxy.async.shared::cta;
    tcgen05.fence::before_thread_sync;
    tcgen05.fence::after_thread_sync;
    or.b64 %rd1, %rd5, 0x4000404000010000;
    add.s64 %rd2, %rd5, 0x2000404000010002;
    add.s64 %rd3, %rd2, 2;
    add.s32 %r3, %r4, 32;
    add.s32 %r5, %r6, 64;
    or.b64 %rd4, %rd6, 0x4008;
    tcgen05.cp.cta_group::1.32x128b.warpx4 [%r3], %rd4;
    tcgen05.mma.cta_group::1.kind::f16 [%r10], %rd1, %rd2, %r1, %p1;
    tcgen05.mma.cta_group::1.kind::f16 [%r10+16], [%r11], %rd3, %r12, {%r1, %r1, %r1, %r1}, 1;
    tcgen05.mma.cta_group::2.kind::mxf4nvf4.block_scale.block16 [%r10], %rd1, %rd2, %r2, [%r3],
        [%r13+8], 0;
    tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.block32 [%r10], %rd1, %rd2, %r2, [%r3],
        [%r13], %p3;
    tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64
        [%r5], %h1;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r14}, [%r10+4];
    tcgen05.wait::ld.sync.aligned;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r10], {%r14};
    tcgen05.wait::st.sync.aligned;
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p2, %q1;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r10, 32;
    ret;
}";

const IN_BLACKWELL: &[Expected] = &[
    (Purpose::Allocation, "without `tcgen05.alloc.cta_group::1.sync.aligned", ""),
    (Purpose::Allocation, "with 0x20 for 0x40", "[%r9], 32;"),
    (Purpose::Group, "with `cta_group::2` for `cta_group::1`", "tcgen05.alloc.cta_group::2.sync"),
    (Purpose::Fence, "without `fence.proxy.async.shared::cta`", ""),
    (Purpose::Fence, "without `tcgen05.fence::before_thread_sync`", ""),
    (Purpose::Fence, "without `tcgen05.fence::after_thread_sync`", ""),
    // 128 bytes become 64, and twice as far from one group of rows to the next.
    (Purpose::Swizzle, "with 0x8000404000010000 for 0x4000404000010000", "or.b64 %rd1"),
    (Purpose::Descriptor, "with 0x4000408000010000 for 0x4000404000010000", "or.b64 %rd1"),
    // The mode with atoms of 32 bytes stays: the two bits of the others are not set.
    (Purpose::Descriptor, "with 0x2000408000010002 for 0x2000404000010002", "add.s64 %rd2"),
    (Purpose::Descriptor, "with 0x2000404000010004 for 0x2000404000010002", "add.s64 %rd2"),
    (Purpose::Descriptor, "with 0x4 for 0x2", "add.s64 %rd3, %rd2, 4;"),
    (Purpose::TensorAddress, "`add.s32` with 0x40 for 0x20", "add.s32 %r3, %r4, 64;"),
    (Purpose::Group, "with `cta_group::2` for `cta_group::1`", "tcgen05.cp.cta_group::2.32x128b"),
    (Purpose::Descriptor, "with 0x8408490 for 0x8400490", "%rd2, 138445968, %p1;"),
    (Purpose::Descriptor, "with 0x8410490 for 0x8400490", "%rd2, 138478736, %p1;"),
    (Purpose::Descriptor, "with 0x83c0490 for 0x8400490", "%rd2, 138151056, %p1;"),
    (Purpose::Accumulate, "with a predicate that is false", "%r1, 0;"),
    (Purpose::Accumulate, "with a predicate that is true", "%r1, 1;"),
    (Purpose::Group, "`tcgen05.mma.cta_group::1.kind::f16` with", "cta_group::2.kind::f16"),
    (Purpose::Accumulate, "with a predicate that is false", "{%r1, %r1, %r1, %r1}, 0;"),
    (Purpose::Group, "`tcgen05.mma.cta_group::1.kind::f16` with", "cta_group::2.kind::f16"),
    (Purpose::TensorAddress, "with 0x20 for 0x10", "[%r10+32], [%r11]"),
    (Purpose::Descriptor, "with 0x8208480 for 0x8200480", "136348800, [%r3]"),
    (Purpose::Descriptor, "with 0x8210480 for 0x8200480", "136381568, [%r3]"),
    (Purpose::Descriptor, "with 0x81c0480 for 0x8200480", "136053888, [%r3]"),
    (Purpose::ScaleNumber, "with 0x82004a0 for 0x8200480", "136316064, [%r3]"),
    (Purpose::ScaleNumber, "with 0x48200480 for 0x8200480", "1210057856, [%r3]"),
    (Purpose::Accumulate, "with a predicate that is true", "[%r13+8], 1;"),
    (Purpose::Group, "with `cta_group::1` for `cta_group::2`", "cta_group::1.kind::mxf4nvf4"),
    (Purpose::TensorAddress, "with 0x10 for 0x8", "[%r13+16], 0;"),
    (Purpose::Descriptor, "with 0x8208480 for 0x8200480", "136348800, [%r3]"),
    (Purpose::Descriptor, "with 0x8210480 for 0x8200480", "136381568, [%r3]"),
    (Purpose::Descriptor, "with 0x81c0480 for 0x8200480", "136053888, [%r3]"),
    (Purpose::ScaleNumber, "with 0x8200490 for 0x8200480", "136316048, [%r3]"),
    (Purpose::ScaleNumber, "with 0x28200480 for 0x8200480", "673186944, [%r3]"),
    (Purpose::Accumulate, "with a predicate that is false", "[%r13], 0;"),
    (Purpose::Group, "with `cta_group::2` for `cta_group::1`", "cta_group::2.kind::mxf8f6f4"),
    (Purpose::Arrive, "without `tcgen05.commit", ""),
    (Purpose::Arrive, "with 0x2 for 0x3", "[%r5], 2;"),
    (Purpose::Group, "with `cta_group::1` for `cta_group::2`", "tcgen05.commit.cta_group::1"),
    (Purpose::TensorAddress, "with 0x8 for 0x4", "[%r10+8];"),
    (Purpose::Wait, "without `tcgen05.wait::ld.sync.aligned`", ""),
    (Purpose::Wait, "without `tcgen05.wait::st.sync.aligned`", ""),
    (Purpose::Bound, "is always false", "mov.pred %p2, 0;"),
    (Purpose::Bound, "is always true", "mov.pred %p2, 1;"),
    (Purpose::Allocation, "without `tcgen05.dealloc", ""),
    (Purpose::Group, "with `cta_group::2` for `cta_group::1`", "tcgen05.dealloc.cta_group::2"),
];

#[test]
fn every_place_is_found_and_broken_once() {
    check(HOPPER, IN_HOPPER);
    check(BLACKWELL, IN_BLACKWELL);
}

fn check(text: &str, expected: &[Expected]) {
    let module = Module::parse(text).unwrap();
    let whole = module.to_string();
    let sites = sites(&module);
    let shown: Vec<String> = sites.iter().map(ToString::to_string).collect();
    assert_eq!(sites.len(), expected.len(), "{shown:#?}");
    for (site, (purpose, name, line)) in sites.iter().zip(expected) {
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
