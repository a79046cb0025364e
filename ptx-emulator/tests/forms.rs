//! Which forms load and which are refused. Every row is what ptxas says for sm_90a; where `PTXAS`
//! has the program's path, it is asked.

use std::io::Write;
use std::process::{Command, Stdio};

use ptx_emulator::{Arch, LaunchConfig, Machine, Parameters, Statistics};

/// A module with registers of every type, the statements in its entry.
fn text(module: &str, body: &str) -> String {
    format!(
        ".version 8.8\n.target sm_90a\n.address_size 64\n{module}\n\
         .shared .align 16 .b8 shared[4096];\n.global .align 16 .b8 global[4096];\n\
         .const .align 16 .b8 constant[256];\n\
         .visible .entry test(.param .u64 out, .param .u32 number)\n{{\n\
         .reg .pred %p<9>; .reg .b8 %c<9>; .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %d<9>;\n\
         .reg .b128 %q<9>; .reg .u16 %uh<9>; .reg .f16 %hf<9>; .reg .f16x2 %hx<9>;\n\
         .reg .u32 %u<9>; .reg .s32 %s<9>; .reg .f32 %f<9>; .reg .u64 %ud<9>; .reg .f64 %g<9>;\n\
         .local .align 16 .b8 local[256];\n{body}\nret;\n}}\n"
    )
}

/// Registers and types.
const WIDTHS_TAKEN: &[&str] = &[
    "add.u16 %h1, %uh2, 5;",
    "add.u32 %s1, %u2, %r3;",
    "add.f32 %f1, %r2, 0f3F800000;",
    "add.f16 %hf1, %h2, %hf3;",
    "add.f16x2 %hx1, %r2, %hx3;",
    "add.f64 %d1, %g2, 0f3F800000;",
    "and.b32 %r1, %f2, %u3;",
    "and.b16 %h1, %uh2, %hf3;",
    "shl.b16 %h1, %h2, %r3;",
    "mul.wide.u16 %r1, %h2, %h3;",
    "mad.wide.u16 %u1, %h2, %h3, %r4;",
    "setp.eq.b32 %p1, %f2, %u3;",
    "selp.b32 %f1, %r2, 0f3F800000, %p1;",
    "mov.b32 %u1, %f2;",
    "mov.f32 %r1, %f2;",
    "mov.b32 {%h1, _}, 5;",
    "mov.b16 %h1, {%c1, %c2};",
    "mov.b64 %d1, {%f1, %f2};",
    "mov.b128 {%d1, %d2}, %q1;",
    "mov.b64 %d1, 1.0;",
    "mov.u32 %r1, WARP_SZ;",
    "mul.lo.u32 %r1, %r1, WARP_SZ;",
    "cvt.u64.u32 %d1, %tid.x;",
    "cvt.f32.f16 %d1, %r1;",
    "cvt.u32.u8 %r1, %c1;",
    "cvt.rn.f16.s32 %d1, %d2;",
    "ld.global.b8 %d3, [%d1];",
    "ld.global.s16 %r1, [%d1];",
    "ld.global.f32 %d2, [%d1];",
    "ld.global.b16 %g2, [%d1];",
    "ld.global.b64 %q2, [%d1];",
    "ld.global.v4.b8 {%h1, %h2, %h3, %h4}, [%d1];",
    "ld.global.v2.b64 {%d3, %d4}, [%d1];",
    "ld.global.b128 %q3, [%d1];",
    "st.global.b16 [%d1], %f1;",
    "st.global.f32 [%d1], 5.0;",
    "st.global.b32 [%d1], 0f3F800000;",
    "atom.global.add.f32 %r1, [%d1], %f2;",
    "shfl.sync.idx.b32 %u1|%p1, %s2, 0, 31, -1;",
    "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%hx0, %r1}, {%hx0, %hx1, %r3, %r4}, \
     {%r2, %r5}, {%r6, %r7};",
    "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r0, %r1, %r2, %r3}, \
     {%u0, %u1, %u3, %u4}, {%r2, %r5}, {%s0, %s1, %s2, %s3};",
];

const WIDTHS_REFUSED: &[(&str, &str)] = &[
    ("add.u16 %r1, %h2, %h3;", "`%r1` is a register of type `.b32`, not for `.u16`"),
    ("add.u16 %h1, %r2, %h3;", "`%r2` is a register of type `.b32`, not for `.u16`"),
    ("add.u32 %h1, %r2, %r3;", "`.b16`, not for `.u32`"),
    ("add.u32 %f1, %r2, %r3;", "`.f32`, not for `.u32`"),
    ("add.f32 %u1, %f2, %f3;", "`.u32`, not for `.f32`"),
    ("add.f16 %uh1, %h2, %h3;", "`.u16`, not for `.f16`"),
    ("add.f16x2 %f1, %r2, %r3;", "`.f32`, not for `.f16x2`"),
    ("add.bf16 %hf1, %h2, %h3;", "`.f16`, not for `.bf16`"),
    ("add.u64 %g1, %d2, %d3;", "`.f64`, not for `.u64`"),
    ("add.u16x2 %u1, %r2, %r3;", "`.u32`, not for `.u16x2`"),
    ("and.b16 %h1, %r2, %h3;", "not for `.b16`"),
    ("shl.b16 %h1, %h2, %h3;", "`.b16`, not for `.u32`"),
    ("mul.wide.u16 %h1, %h2, %h3;", "not for `.u32`"),
    ("mad.wide.u16 %r1, %h2, %h3, %h4;", "not for `.u32`"),
    ("setp.eq.s32 %p1, %f2, %r3;", "not for `.s32`"),
    ("set.eq.f16.f16 %r1, %h2, %h3;", "not for `.f16`"),
    ("selp.b16 %r1, %h2, %h3, %p1;", "not for `.b16`"),
    ("selp.f32 %f1, 5, %f2, %p1;", "`5` is no literal of type `.f32`"),
    ("setp.gt.f32 %p1, %f1, 5;", "no literal"),
    ("slct.u16.s32 %h1, %h2, %h3, %h4;", "not for `.s32`"),
    ("mov.b16 %h1, %r2;", "not for `.b16`"),
    ("mov.u32 %r1, %f2;", "not for `.u32`"),
    ("mov.u32 %r1, 0f3F800000;", "no literal of type `.u32`"),
    ("mov.b32 %r1, 1.0;", "no literal of type `.b32`"),
    ("mov.f32 %f1, 5;", "no literal of type `.f32`"),
    ("mov.b8 %c1, %c2;", "nothing of the type `.b8` is moved"),
    ("mov.f16 %h1, %h2;", "nothing of the type `.f16` is moved"),
    ("mov.b32 %r1, {%r2, %r3};", "`.b32`, not for `.b16`"),
    ("mov.b32 %r1, {%h1, %h2, %h3, %h4};", "`.b16`, not for `.b8`"),
    ("mov.b64 {%h1, %r2}, %d1;", "`.b16`, not for `.b32`"),
    ("mov.u64 %d1, {%r1, %r2};", "untyped"),
    ("mov.b32 {_, _}, %r1;", "at least one element"),
    ("mov.v2.u16 {%r1, %r2}, {%r3, %r4};", "not for `.u16`"),
    ("cvt.u64.u32 %d1, %h1;", "`.b16`, not for `.u32`"),
    ("cvt.f32.f16 %f1, %uh1;", "not for `.f16`"),
    ("cvt.rn.bf16.f32 %r1, %f1;", "not for `.bf16`"),
    ("cvt.rna.tf32.f32 %f1, %f1;", "not for `.tf32`"),
    ("cvt.rn.satfinite.e4m3x2.f32 %r1, %f1, %f2;", "not for `.e4m3x2`"),
    ("ld.global.b32 %h1, [%d1];", "not for `.b32`"),
    ("ld.global.f32 %g2, [%d1];", "not for `.f32`"),
    ("ld.global.u8 %f2, [%d1];", "not for `.u8`"),
    ("ld.global.f16 %h1, [%d1];", "type `.f16` in memory"),
    ("ld.param.b32 %h2, [number];", "not for `.b32`"),
    ("st.global.b64 [%d1], %r1;", "not for `.b64`"),
    ("st.global.u32 [%d1], %f1;", "not for `.u32`"),
    ("st.global.f32 [%d1], 5;", "no literal of type `.f32`"),
    ("st.global.u32 [%d1], %laneid;", "special register"),
    ("add.u32 %r1, %laneid, 2;", "a special register is a source of `mov`"),
    ("add.u64 %d1, global, 4;", "the address of a symbol is a source of `mov`"),
    ("mov.u32 %r1, %envreg3;", "the special register `%envreg3` is not supported here"),
    ("popc.b32 %h1, %r2;", "not for `.b32`"),
    ("prmt.b32 %r1, %r2, %r3, %h4;", "not for `.b32`"),
    ("shfl.sync.idx.b32 %h1, %r2, 0, 31, -1;", "not for `.b32`"),
    ("atom.global.add.u32 %f1, [%d1], %r2;", "not for `.u32`"),
    ("red.global.add.noftz.f16 [%d1], %r2;", "not for `.f16`"),
    ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%h1}, [%r2];", "not for `.b32`"),
    ("vote.sync.ballot.b32 %h1, %p1, -1;", "not for `.b32`"),
    ("bar.sync %h1;", "not for `.u32`"),
    (
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f0, %f1, %f2, %f3}, \
         {%hx0, %hx1, %hx3, %hx4}, {%r2, %r5}, {%f0, %f1, %f2, %f3};",
        "`.f16x2`, not for `.bf16x2`",
    ),
    (
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%u0, %u1, %u2, %u3}, %d1, %d2, \
         1, 1, 1, 0, 0;",
        "`.u32`, not for `.f32`",
    ),
];

/// Modifiers, symbols and addresses of loads and stores.
const MEMORY_TAKEN: &[&str] = &[
    "ld.const.u32 %r1, [constant];",
    "ld.u32 %r1, [shared];",
    "ld.u32 %r1, [local+4];",
    "ld.shared.u32 %r1, [%r2];",
    "ld.param.u32 %r1, [%d2];",
    "@%p1 ld.param.b32 %r0, [number];",
    "ld.param::entry.b32 %r0, [number];",
    "ld.u32.global %r1, [%d1];",
    "ld.relaxed.gpu.global.L1::no_allocate.u32 %r1, [%d1];",
    "ld.mmio.relaxed.sys.global.u32 %r1, [%d1];",
    "ld.global.ca.nc.u32 %r1, [%d1];",
    "ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%r1, %r2, %r3, %r4}, [%d1];",
    "st.global.L1::evict_last.L2::cache_hint.u32 [%d1], %r1, %d2;",
    "st.global.wt.u32 [%d1], %r1;",
    "ldu.global.v4.f32 {%f1, %f2, %f3, %f4}, [%d1];",
    "fence.proxy.tensormap::generic.acquire.gpu [constant], 128;",
    "prefetch.param.tensormap [number];",
    "prefetch.local.L1 [local];",
    "cvta.const.u64 %d1, constant;",
    "cvta.param::entry.u64 %d1, number;",
    "cvta.to.param::entry.u64 %d1, %d2;",
    "mapa.u64 %d1, shared, 0;",
    "bar.sync.sync 0;",
    "bra.uni.uni L; L:",
    "set.u32.u32.eq %r1, %r2, %r3;",
];

const MEMORY_REFUSED: &[(&str, &str)] = &[
    ("ld.global.u32 %r1, [constant];", "another state space"),
    ("ld.const.u32 %r1, [global];", "another state space"),
    ("ld.u32 %r1, [constant];", "another state space"),
    ("ld.u32 %r1, [number];", "another state space"),
    ("ld.param.u32 %r1, [global];", "another state space"),
    ("ld.global.u32 %r1, [number];", "another state space"),
    ("st.u32 [constant], 5;", "another state space"),
    ("st.const.u32 [constant], 5;", "constant memory cannot be written"),
    ("atom.add.u32 %r1, [constant], 5;", "another state space"),
    ("red.global.add.u32 [constant], 5;", "another state space"),
    ("cp.async.ca.shared.global [shared], [constant], 16;", "another state space"),
    ("prefetch.global.L1 [constant];", "another state space"),
    ("prefetch.tensormap [number];", "another state space"),
    ("prefetch.shared.L1 [shared];", "no prefetch"),
    ("discard.L2 [constant], 128;", "another state space"),
    ("tensormap.replace.tile.rank.b1024.b32 [constant], 1;", "another state space"),
    ("mbarrier.init.b64 [global], 1;", "shared memory"),
    (
        "cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [number, {%r1}], [shared];",
        "global memory",
    ),
    ("ld.global.u32 %r1, [%r2];", "64 bits"),
    ("ld.u32 %r1, [%r2];", "64 bits"),
    ("atom.global.add.u32 %r1, [%r2], 5;", "64 bits"),
    ("ld.global.u32 %r1, [%g1];", "floating-point"),
    ("st.param.b32 [number], 5;", "only read"),
    ("st.param::entry.b32 [number], 5;", "only read"),
    ("st.param.u32 [%d1], 5;", "has a name"),
    ("ld.param::func.b32 %r0, [number];", "`.param::func`"),
    (".param .b32 q; @%p1 st.param.b32 [q], 5;", "under a predicate"),
    ("ld.global.v8.b32 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%d1];", "sm_100"),
    ("st.global.v4.b64 [%d1], {%d1, %d2, %d3, %d4};", "sm_100"),
    (
        "ld.global.v8.b16 {%h1, %h2, %h3, %h4, %h5, %h6, %h7, %h8}, [%d1];",
        "vectors of 8 elements of the type `.b16` have 16 bytes; up to 4 elements of together 16",
    ),
    ("ld.global.v2.b128 {%q1, %q2}, [%d1];", "vectors of 2 elements of the type `.b128` have 32"),
    ("ld.global.global.u32 %r1, [%d1];", "`.global` is given twice"),
    ("ld.global.ca.ca.u32 %r1, [%d1];", "`.ca` is given twice"),
    ("ld.global.ca.cg.u32 %r1, [%d1];", "`.cg` is not supported"),
    ("ld.global.nc.nc.u32 %r1, [%d1];", "`.nc` is given twice"),
    ("ld.global.L1::evict_first.L1::evict_first.u32 %r1, [%d1];", "twice"),
    ("ld.global.L2::128B.L2::128B.u32 %r1, [%d1];", "twice"),
    ("ld.relaxed.relaxed.gpu.global.u32 %r1, [%d1];", "twice"),
    ("add.rn.rn.f32 %f1, %f2, %f3;", "twice"),
    ("cp.async.ca.ca.shared.global [%r1], [%d1], 16;", "twice"),
    ("mbarrier.init.shared.shared.b64 [%r1], 1;", "twice"),
    ("fence.acq_rel.gpu.gpu;", "twice"),
    ("ld.global.L2::evict_last.u32 %r1, [%d1];", "32 bytes at once"),
    ("ld.global.wb.u32 %r1, [%d1];", "`.wb`"),
    ("st.global.nc.u32 [%d1], %r1;", "`.nc`"),
    ("st.shared.L2::cache_hint.u32 [%r1], %r1, %d2;", "`.L2::cache_hint`"),
    ("ld.shared.nc.u32 %r1, [%r1];", "`.nc`"),
    ("ld.relaxed.gpu.global.ca.u32 %r1, [%d1];", "`.ca`"),
    ("ld.relaxed.global.u32 %r1, [%d1];", "a scope is missing"),
    ("ld.weak.gpu.global.u32 %r1, [%d1];", "`.gpu` needs an order"),
    ("ld.volatile.gpu.global.u32 %r1, [%d1];", "`.gpu` needs an order"),
    ("ld.release.gpu.global.u32 %r1, [%d1];", "needs an order"),
    ("ld.mmio.global.u32 %r1, [%d1];", "`.mmio`"),
    ("ld.volatile.const.u32 %r1, [constant];", "no order"),
    ("ld.relaxed.gpu.local.u32 %r1, [%r1];", "no order"),
    ("ldu.shared.u32 %r1, [%r1];", "global memory"),
    ("cvta.to.global.u64 %d1, global;", "in a register"),
    ("cvta.global.u64 %d1, shared;", "another state space"),
    ("cvta.to.shared.u32 %r1, %r2;", "`.u64`"),
];

/// Tensor maps, barriers, fences and policies.
const TOGETHER_TAKEN: &[&str] = &[
    "tensormap.replace.tile.global_address.b1024.b64 [%d1], 5;",
    "tensormap.replace.tile.rank.b1024.b32 [%d1], %r1;",
    "tensormap.replace.tile.box_dim.b1024.b32 [global], 4, %r1;",
    "tensormap.replace.tile.elemtype.b1024.b32 [%d1], 12;",
    "tensormap.replace.tile.swizzle_mode.b1024.b32 [%d1], 3;",
    "barrier.cluster.arrive.aligned.release;",
    "barrier.cluster.arrive.relaxed;",
    "barrier.cluster.wait.acquire.aligned;",
    "mbarrier.arrive.noComplete.release.cta.shared::cta.b64 %d1, [%r1], 1;",
    "mbarrier.arrive_drop.shared::cluster.b64 _, [%r1];",
    "fence.proxy.async.shared::cluster;",
    "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;",
    "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;",
    "fence.release.sync_restrict::shared::cta.cluster;",
    "fence.acquire.cluster;",
    "fence.cta;",
    "createpolicy.fractional.L2::evict_first.L2::evict_first.b64 %d1, 0.5;",
    "mma.sync.aligned.row.col.m16n8k16.f32.e4m3.e5m2.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1}, {%r2}, \
     {%f0, %f1, %f2, %f3};",
];

const TOGETHER_REFUSED: &[(&str, &str)] = &[
    ("tensormap.replace.tile.swizzle_atomicity.b1024.b32 [%d1], 0;", "sm_100a"),
    ("tensormap.replace.tile.elemtype.b1024.b32 [%d1], 13;", "`.elemtype` is 0 to 12, not 13"),
    ("tensormap.replace.tile.elemtype.b1024.b32 [%d1], 16;", "0 to 12"),
    ("tensormap.replace.tile.elemtype.b1024.b32 [%d1], -1;", "0 to 12"),
    ("tensormap.replace.tile.elemtype.b1024.b32 [%d1], %r1;", "literal integer"),
    ("tensormap.replace.tile.swizzle_mode.b1024.b32 [%d1], 4;", "0 to 3"),
    ("tensormap.replace.tile.swizzle_mode.b1024.b32 [%d1], %r1;", "literal integer"),
    ("tensormap.replace.tile.interleave_layout.b1024.b32 [%d1], 3;", "0 to 2"),
    ("tensormap.replace.tile.fill_mode.b1024.b32 [%d1], %r1;", "literal integer"),
    ("tensormap.replace.tile.box_dim.b1024.b32 [%d1], 5, 64;", "0 to 4"),
    ("tensormap.replace.tile.box_dim.b1024.b32 [%d1], %r2, 64;", "literal integer"),
    ("tensormap.replace.tile.box_dim.b1024.b32 [%d1], %r1;", "needs an ordinal"),
    ("tensormap.replace.tile.rank.b1024.b32 [%d1], 0, %r1;", "has no ordinal"),
    ("barrier.cluster.arrive.acquire;", "`.acquire` is not supported here"),
    ("barrier.cluster.wait.relaxed;", "`.relaxed` is not supported here"),
    ("barrier.cluster.wait.release;", "`.release` is not supported here"),
    ("mbarrier.init.shared::cluster.b64 [%r1], 1;", "own block"),
    ("mbarrier.inval.shared::cluster.b64 [%r1];", "own block"),
    ("mbarrier.arrive.noComplete.shared::cluster.b64 _, [%r1], 1;", "own block"),
    ("mbarrier.arrive_drop.noComplete.shared::cluster.b64 _, [%r1], 1;", "own block"),
    ("mbarrier.arrive.noComplete.release.cluster.shared::cta.b64 %d1, [%r1], 1;", "`.cta`"),
    ("fence.proxy.async.local;", "`.local` is not supported here"),
    ("fence.proxy.async.shared;", "`.shared` is not supported here"),
    ("fence.proxy.tensormap::generic.release;", "a scope is missing"),
    (
        "fence.proxy.async::generic.release.sync_restrict::shared::cluster.cluster;",
        "does not go with this order",
    ),
    ("fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.gpu;", "`.cluster`"),
    ("fence.release.sync_restrict::shared::cluster.cluster;", "does not go with this order"),
    ("createpolicy.fractional.L2::evict_first.L2::evict_last.b64 %d1, 0.5;", "`.L2::evict_last`"),
    (
        "mma.sync.aligned.m16n8k16.col.row.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, \
         {%r0, %r1, %r3, %r4}, {%r2, %r5}, {%f0, %f1, %f2, %f3};",
        "A by rows with B by columns",
    ),
    (
        "mma.sync.aligned.m16n8k16.row.col.f32.e4m3.e4m3.f16 {%f0, %f1, %f2, %f3}, {%r0, %r1}, \
         {%r2}, {%r3, %r4};",
        "C must have the type of D",
    ),
];

/// Modules with an entry that leaves a number in `%r8`, and the number.
const COMPUTED: &[(&str, &str, u32)] = &[
    (TEN, "mov.u32 %r1, 4; mov.u64 %d1, 3; call (%r8), ten, (%r1, %d1);", 43),
    (TEN, "call (%r8), ten, (5, 7);", 57),
    (TEN, "call (_), ten, (5, 7); mov.u32 %r8, 2;", 2),
    (TEN, ".param .b32 q; call (q), ten, (5, 7); ld.param.b32 %r8, [q];", 57),
    (TEN, ".param .b64 q; st.param.b64 [q], 6; call (%r8), ten, (5, q);", 56),
    (TEN, "setp.eq.u32 %p1, 1, 2; mov.u32 %r8, 9; @%p1 call (%r8), ten, (5, 7);", 9),
    (
        TEN,
        "P: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b64 _);
         mov.u64 %d1, ten; call (%r8), %d1, (2, 1), P;",
        21,
    ),
    (TEN, "T: .calltargets ten; mov.u64 %d1, ten; call (%r8), %d1, (2, 1), T;", 21),
    (
        TWO,
        "T: .calltargets one, two; mov.u64 %d1, two; call (%r8), %d1, (5), T;
         mov.u64 %d1, one; call (%r1), %d1, (5), T; mad.lo.u32 %r8, %r8, 10, %r1;",
        76,
    ),
    (".entry widest(.param .b8 a[32764]) { ret; }", "mov.u32 %r8, 3;", 3),
    (
        ".func (.param .f32 r) half(.param .f32 a) { .reg .f32 %x; ld.param.f32 %x, [a];
         mul.f32 %x, %x, 0.5; st.param.f32 [r], %x; ret; }",
        "call (%f1), half, (3.0); mov.b32 %r8, %f1;",
        0x3FC0_0000,
    ),
    (
        ".func (.reg .b32 sum, .reg .b64 product) both(.reg .b32 a, .param .b32 b)
         { .reg .b32 %x; .reg .pred %p; ld.param.u32 %x, [b]; mul.wide.u32 product, a, %x;
         add.u32 sum, a, %x; setp.gt.u32 %p, a, 5; @%p ret; add.u32 sum, sum, 100; }",
        "call (%r1, %d1), both, (6, 7); cvt.u32.u64 %r2, %d1; mad.lo.u32 %r8, %r1, 1000, %r2;
         call (%r1, _), both, (1, 2); add.u32 %r8, %r8, %r1;",
        13_145,
    ),
    (
        ".func (.reg .b32 r) down(.reg .b32 a) { .reg .pred %p; .reg .b32 %x; mov.u32 r, 0;
         setp.eq.u32 %p, a, 0; @%p ret; sub.u32 %x, a, 1; call (r), down, (%x); add.u32 r, r, a;
         ret; }",
        "call (%r8), down, (10);",
        55,
    ),
    (
        ".func (.reg .b32 r) f(.param .align 8 .b8 a[20]) { .reg .b64 %x; .reg .b32 %y;
         mov.b64 %x, a; ld.local.b32 r, [%x+16]; st.local.b32 [%x+4], 9;
         cvta.local.u64 %x, %x; ld.b32 %y, [%x+4]; mad.lo.u32 r, r, 10, %y;
         mov.b64 %x, a+4; ld.param.b32 %y, [%x]; mad.lo.u32 r, r, 10, %y; ret; }",
        ".param .align 8 .b8 q[20]; st.param.b32 [q+16], 3; call (%r8), f, (q);",
        399,
    ),
    (".global .s32 a[] = {7, 8, 9};", "ld.global.u32 %r8, [a+8];", 9),
    (".const .s32 a[][2] = {{1}, {3, 4}}, b = 5;", "ld.const.u32 %r8, [a+12];", 4),
    (".const .s32 a[][2] = {{1}, {3, 4}}, b = 5;", "ld.const.u32 %r8, [b];", 5),
    (
        ".global .v2 .b32 a[] = {{1, 2}, {3, 0f3F800000}};",
        "ld.global.u32 %r8, [a+12];",
        0x3F80_0000,
    ),
    (".extern .global .s32 absent;", "mov.u32 %r8, 3;", 3),
    (".extern .global .s32 a;\n.visible .global .s32 a = 7;", "ld.global.u32 %r8, [a];", 7),
    (
        "",
        "{ .global .s32 a = 3; ld.global.u32 %r8, [a]; }
         { .const .s32 a[] = {4, 50}; ld.const.u32 %r1, [a+4]; add.u32 %r8, %r8, %r1; }",
        53,
    ),
    (
        "",
        ".global .u32 a = 6; .global .u64 b = generic(a); ld.global.u64 %d1, [b];
         ld.u32 %r8, [%d1];",
        6,
    ),
    (
        ".func count() { .global .u32 calls = 10; .reg .b32 %x;
         ld.global.u32 %x, [calls]; add.u32 %x, %x, 1; st.global.u32 [calls], %x; ret; }",
        "call count; call count; mov.u32 %r8, 0; .global .u32 calls = 5; call count;
         ld.global.u32 %r8, [calls];",
        5,
    ),
    (
        "",
        ".const .u32 a = 6; mov.u64 %d1, a; cvta.const.u64 %d1, %d1; isspacep.const %p1, %d1;
         isspacep.global %p2, %d1; selp.u32 %r8, 1, 0, %p1; @%p2 add.u32 %r8, %r8, 2;",
        1,
    ),
    (".pragma \"nounroll\";", ".pragma \"a\", \"b\"; mov.u32 %r8, 1;", 1),
    ("", "mov.f32 %f1, .5; add.f32 %f1, %f1, -.25e+1; mov.b32 %r8, %f1;", 0xC000_0000),
    // The low halves are 2.0 and 2.0, the high ones 1.0 and 2.0.
    (
        "",
        "mov.b32 %r1, 0x3C004000; mov.b32 %r2, 0x40004000; setp.eq.f16x2 %p1, %r1, %r2;
         setp.lt.f16x2 %p2, %r1, %r2; selp.u32 %r8, 1, 0, %p1; @%p2 add.u32 %r8, %r8, 2;",
        1,
    ),
    // 1 + 2^-7 is a number of both types; 1 + 15 * 2^-10 is nearest to 1 + 2^-6 in bf16.
    ("", "mov.b16 %h1, 0x3F81; cvt.f16.bf16 %h2, %h1; mov.b32 %r8, {%h2, 0};", 0x3C08),
    ("", "mov.b16 %h1, 0x3C0F; cvt.bf16.f16 %h2, %h1; mov.b32 %r8, {%h2, 0};", 0x3F82),
    // 1 * 2 + 3, and what a copy put outside of a tensor times 2 plus 3.
    (
        "",
        "mov.b32 %r1, 0x7FF73C00; mov.b32 %r2, 0x40004000; mov.b32 %r3, 0x42004200;
         fma.rn.oob.f16x2 %r8, %r1, %r2, %r3;",
        0x4500,
    ),
    (
        "",
        "mov.b32 %r1, 0x7FF73F80; mov.b32 %r2, 0x40004000; mov.b32 %r3, 0x40404040;
         fma.rn.oob.relu.bf16x2 %r8, %r1, %r2, %r3;",
        0x40A0,
    ),
    // The addresses of 32 bits are those of the shared window and of nothing else.
    ("", "mov.u32 %r1, shared; mapa.u32 %r2, %r1, 0; sub.u32 %r8, %r2, %r1;", 0),
    ("", "mov.u32 %r1, shared; getctarank.u32 %r8, %r1;", 0),
    ("", "ld.param.u32 %r1, [number]; isspacep.local %p1, %r1; selp.u32 %r8, 1, 2, %p1;", 2),
    ("", "mov.u64 %d1, number; cvta.param::entry.u64 %d2, %d1; ld.u32 %r8, [%d2];", 77),
    (
        "",
        "mov.u32 %r1, shared; mbarrier.init.shared.b64 [%r1], 1; mov.u64 %d2, -3;
         st.shared.u64 [%r1+8], 10; mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 8;
         add.u32 %r2, %r1, 8;
         red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.s64 \
         [%r2], %d2, [%r1];
         L: mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0; @!%p1 bra L;
         ld.shared.u32 %r8, [%r1+8];",
        7,
    ),
];

/// Ten times one argument and another.
const TEN: &str = ".func (.param .b32 r) ten(.param .b32 a, .param .b64 b)
     { .reg .b32 %x, %y; .reg .b64 %w; ld.param.b32 %x, [a]; ld.param.b64 %w, [b];
     cvt.u32.u64 %y, %w; mad.lo.u32 %x, %x, 10, %y; st.param.b32 [r], %x; ret; }";

/// One more than the argument and two more.
const TWO: &str = ".func (.param .b32 r) one(.param .b32 a)
     { .reg .b32 %x; ld.param.b32 %x, [a]; add.u32 %x, %x, 1; st.param.b32 [r], %x; ret; }
     .func (.reg .s32 r) two(.reg .u32 a) { add.u32 r, a, 2; ret; }";
/// Functions of the same names that no list can have together with the other.
const UNLIKE: [&str; 5] = [
    ".func (.reg .b32 r) one(.reg .b32 a) { mov.u32 r, 1; ret; }
     .func (.reg .b32 r) two(.reg .f32 a) { mov.u32 r, 2; ret; }",
    ".func (.reg .b32 r) one(.reg .b32 a) { mov.u32 r, 1; ret; }
     .func (.reg .b32 r) two(.reg .b32 a, .reg .b32 b) { mov.u32 r, 2; ret; }",
    ".func (.reg .b32 r) one(.reg .b32 a) { mov.u32 r, 1; ret; } .func two(.reg .b32 a) { ret; }",
    ".func (.reg .b32 r) one(.reg .b32 a) { mov.u32 r, 1; ret; }
     .func (.reg .b64 r) two(.reg .b32 a) { mov.u64 r, 2; ret; }",
    ".func (.param .b32 r) one(.param .b32 a) { st.param.b32 [r], 1; ret; }
     .func (.param .b32 r) two(.param .b8 a[4]) { st.param.b32 [r], 2; ret; }",
];
/// A call of one of them.
const EITHER: &str = "T: .calltargets one, two; mov.u64 %d1, one; call (%r8), %d1, (%u1), T;";

/// Modules that are refused.
const MODULES_REFUSED: &[(&str, &str, &str)] = &[
    (TEN, "call ten, (5, 7);", "the function has 1 results and 2 arguments"),
    (TEN, "call (%r1), ten, (5);", "1 results and 2 arguments"),
    (TEN, "call (%r1), ten;", "1 results and 2 arguments"),
    (TEN, "call (%d1), ten, (5, 7);", "`%d1` is a register of type `.b64`, not for `.b32`"),
    (TEN, "call (%r1), ten, (%h1, 7);", "not for `.b32`"),
    (TEN, "call (%r1), ten, (5, global);", "the address of a symbol"),
    (TEN, ".param .b64 q; call (q), ten, (5, 7);", "an argument of 8 bytes where 4 are wanted"),
    (".func f(.param .s32 a) { ret; }", "call f, (%f1);", "`.f32`, not for `.s32`"),
    (UNLIKE[0], EITHER, "`two` is called like `one`: `%u1` is a register of type `.u32`"),
    (UNLIKE[1], EITHER, "`two` is called like `one`: the function has 1 results and 2 arguments"),
    (UNLIKE[2], EITHER, "`two` is called like `one`: the function has 0 results and 1 arguments"),
    (UNLIKE[3], EITHER, "`two` is called like `one`: `%r8` is a register of type `.b32`"),
    (UNLIKE[4], EITHER, "`two` is called like `one`: an argument for an array"),
    (
        ".entry widest(.param .b8 a[32765]) { ret; }",
        "",
        "its parameters have 32765 bytes; at most 32764 are possible",
    ),
    (".func (.param .b32 r, .param .b32 s) f() { ret; }", "", "one of several results"),
    (".func f(.reg .pred a) { ret; }", "call f, (%p1);", "expected a type"),
    (".func f(.reg .b32 a<3>) { ret; }", "", "expected `,` or `)`"),
    (".entry e(.reg .b32 a) { ret; }", "", "a parameter of an entry, which needs `.param`"),
    (".func f(.param .b32 a) { st.param.b32 [a], 5; ret; }", "", "only read"),
    (".func (.param .b32 r) f() { .reg .b32 %x; ld.param.b32 %x, [r]; ret; }", "", "only written"),
    (".extern .global .s32 a[];", "", "`a` is declared but not defined"),
    (".global .s32 a[];", "", "`a` is declared but not defined"),
    (".global .s32 a[] = {};", "", "`a` is declared but not defined"),
    (".shared .s32 a[];", "", "`a` is declared but not defined"),
    (".shared .s32 a = 5;", "", "only global memory begins with values"),
    ("", ".local .s32 a = 5;", "only global memory begins with values"),
    (".global .s32 a[2] = {1, 2, 3};", "", "more values than elements"),
    (".global .s32 a[4] = 5;", "", "a list in braces is wanted"),
    (".global .s32 a[][2] = {1, 2};", "", "a list in braces is wanted"),
    (".global .v4 .u32 a[2] = {{1, 2}, {3}};", "", "a value for each element"),
    (".global .f32 a = 5;", "", "`5` is no value of the type `.f32`"),
    (".global .u32 a = 0f3F800000;", "", "no value of the type `.u32`"),
    (".func f(.param .b32 a) .pragma \"nounroll\"; { ret; }", "", "`.pragma`"),
    ("", "isspacep.param::func %p1, %d2;", "no generic addresses"),
    ("", "isspacep.shared %p1, shared;", "the address of a symbol"),
    ("", "mapa.u32 %r1, %d2, 0;", "not for `.u32`"),
    ("", "fma.rn.ftz.oob.f16 %h1, %h2, %h3, %h4;", "exclude each other"),
    ("", "fma.rn.oob.f32 %f1, %f2, %f3, %f4;", "`.oob` is not supported here"),
    (
        "",
        "red.async.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r1], %r2, [%r3];",
        "`.relaxed.cluster` is missing",
    ),
];

/// What ptxas takes and no thread has room for: parameters of functions and of calls lie where
/// local variables do.
const TOO_LARGE: &[(&str, &str, &str)] = &[
    (
        ".func large(.param .b8 a[524289]) { ret; }",
        "",
        "its parameters have 524289 bytes; at most 524288 are possible",
    ),
    (
        ".func (.param .b8 r[400000]) large(.param .b8 a[200000]) { ret; }",
        "",
        "its results and parameters have 600000 bytes; at most 524288 are possible",
    ),
    (
        ".func large(.param .b8 a[4294967295]) { .reg .b64 %a; mov.b64 %a, a; ret; }",
        "",
        "its parameters have 4294967295 bytes; at most 524288 are possible",
    ),
    (
        "",
        ".param .b8 q[524289];",
        "its parameters, with those of its calls, have 524301 bytes; at most 524288 are",
    ),
    (
        "",
        ".param .b8 q[18446744073709551615];",
        "with those of its calls, have 18446744073709551615",
    ),
];

#[test]
fn parameters_have_room() {
    for (module, body, part) in TOO_LARGE {
        let text = text(module, body);
        let error = Machine::new(Arch::Sm90a).load(&text).expect_err(&text).to_string();
        assert!(error.contains(part), "{module} {body}\n{error}");
    }
    let largest = ".func largest(.param .b8 a[524288]) { ret; }";
    Machine::new(Arch::Sm90a).load(&text(largest, "")).unwrap();
    // The values of calls lie behind them.
    let calls = format!(
        "{TEN} .func over(.param .b8 a[524285])
         {{ .reg .b32 %x; call (%x), ten, (5, 7); ret; }}"
    );
    let error = Machine::new(Arch::Sm90a).load(&text(&calls, "")).unwrap_err().to_string();
    assert!(error.contains("with those of its calls, have 524292 bytes"), "{error}");
    let calls = calls.replace("524285", "4294967295");
    Machine::new(Arch::Sm90a).load(&text(&calls, "")).unwrap_err();
}

/// What one thread leaves in `%r8`.
fn computed(module: &str, body: &str) -> u32 {
    run(module, body).0
}

fn run(module: &str, body: &str) -> (u32, Statistics) {
    let store = "ld.param.u64 %d8, [out]; st.global.u32 [%d8], %r8;";
    let text = text(module, &format!("mov.u32 %r8, 99; {body}\n{store}"));
    let mut machine = Machine::new(Arch::Sm90a);
    let module = machine.load(&text).unwrap_or_else(|error| panic!("{body}\n{error}"));
    let kernel = machine.kernel(module, "test").unwrap();
    let out = machine.upload(&[0_u32]).unwrap();
    let parameters = Parameters::new().value(out).value(77_u32);
    let config =
        LaunchConfig { grid: [1; 3], block: [1; 3], cluster: [1; 3], dynamic_shared_bytes: 0 };
    let launched = machine.launch(kernel, &config, parameters.as_bytes());
    let statistics = launched.unwrap_or_else(|error| panic!("{body}\n{error}"));
    (machine.read_values::<u32>(out, 1).unwrap()[0], statistics)
}

#[test]
fn results() {
    for (module, body, expected) in COMPUTED {
        let found = computed(module, body);
        assert_eq!(found, *expected, "{module} {body}\n{found:#x}, not {expected:#x}");
    }
}

/// Also one that becomes several, such as a call with values.
#[test]
fn an_instruction_counts_once() {
    let body = "call (%r8), ten, (5, 7); mov.v4.u32 {%r1, %r2, %r3, %r4}, %tid;
                mov.u64 %d1, shared; cvt.u64.u32 %d2, %laneid;";
    let (_, statistics) = run(TEN, body);
    for opcode in ["call", "mov.v4.u32", "mov.u64", "cvt.u64.u32"] {
        assert_eq!(statistics.instructions[opcode].threads, 1, "{opcode}");
    }
    assert_eq!(statistics.instructions["ret"].threads, 2);
}

#[test]
fn modules_are_refused() {
    for (module, body, part) in MODULES_REFUSED {
        let text = text(module, body);
        let error = Machine::new(Arch::Sm90a).load(&text).expect_err(&text).to_string();
        assert!(error.contains(part), "{module} {body}\n{error}");
    }
}

fn check(taken: &[&str], refused: &[(&str, &str)]) {
    for body in taken {
        if let Err(error) = Machine::new(Arch::Sm90a).load(&text("", body)) {
            panic!("{body}\n{error}");
        }
    }
    for (body, part) in refused {
        let error = Machine::new(Arch::Sm90a).load(&text("", body)).expect_err(body).to_string();
        assert!(error.contains(part), "{body}\n{error}");
    }
}

#[test]
fn registers_fit_their_types() {
    check(WIDTHS_TAKEN, WIDTHS_REFUSED);
}

#[test]
fn loads_and_stores() {
    check(MEMORY_TAKEN, MEMORY_REFUSED);
}

#[test]
fn what_threads_do_together() {
    check(TOGETHER_TAKEN, TOGETHER_REFUSED);
}

/// Whether the assembler takes a module.
fn assembles(program: &std::ffi::OsStr, text: &str) -> bool {
    let mut child = Command::new(program)
        .args(["-arch=sm_90a", "-", "-o", "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("PTXAS names a program");
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    child.wait().unwrap().success()
}

#[test]
fn ptxas_agrees() {
    let Some(program) = std::env::var_os("PTXAS") else {
        // Past the capture of the output, so that whoever reads it knows what has not been asked.
        let _ = writeln!(std::io::stderr(), "skipped: `PTXAS` names no assembler to agree with");
        return;
    };
    for body in [WIDTHS_TAKEN, MEMORY_TAKEN, TOGETHER_TAKEN].concat() {
        assert!(assembles(&program, &text("", body)), "{body}");
    }
    for (module, body, _) in COMPUTED {
        assert!(assembles(&program, &text(module, body)), "{module} {body}");
    }
    for (module, body, _) in MODULES_REFUSED {
        assert!(!assembles(&program, &text(module, body)), "{module} {body}");
    }
    for (body, part) in [WIDTHS_REFUSED, MEMORY_REFUSED, TOGETHER_REFUSED].concat() {
        // What no machine but the driver's knows is honestly missing here.
        let missing = part.contains("is not supported here") && body.contains("%envreg");
        assert!(missing || !assembles(&program, &text("", body)), "{body}");
    }
}
