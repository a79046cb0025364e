//! Products of FP8 operands: 32 deep, both operands K-major, the only layout that the instruction
//! takes of 8-bit elements. A row of 128 swizzled bytes is 128 elements, four steps.
//!
//! The tensor core keeps about 14 bits of a sum. Where that is too few, a region of the second kind
//! makes a sum of 128 products, which the caller adds up in binary32.

use super::{Descriptor, KMajor};

/// One region: fence, four steps of 32 along K, commit.
macro_rules! fp8_region {
    ($(#[$doc:meta])* $name:ident, $shape:literal) => {
        $(#[$doc])*
        ///
        /// `wgmma.fence`, four `wgmma.mma_async.sync.aligned` and `wgmma.commit_group` (PTX manual,
        /// "Asynchronous Warpgroup Level Matrix Instructions: wgmma.mma_async"), 128 deep in all.
        /// With `accumulate` false the first step overwrites D.
        ///
        /// # Safety
        ///
        /// All threads of the warpgroup call it together with the same arguments but `d`; the
        /// operands are in shared memory, visible to the async proxy, and stay there until the
        /// group has finished; `d` is not touched before.
        #[inline(always)]
        pub unsafe fn $name(
            d: &mut [f32; 128],
            a: Descriptor<KMajor>,
            b: Descriptor<KMajor>,
            accumulate: bool,
        ) {
            // SAFETY: the caller keeps the contract above.
            unsafe {
                with_accumulators_128!(
                    d,
                    [
                        "{{ .reg .pred p;",
                        ".reg .b64 a1, a2, a3, b1, b2, b3;",
                        "setp.ne.b32 p, {accumulate}, 0;",
                        "add.s64 a1, {a}, {step};",
                        "add.s64 a2, a1, {step};",
                        "add.s64 a3, a2, {step};",
                        "add.s64 b1, {b}, {step};",
                        "add.s64 b2, b1, {step};",
                        "add.s64 b3, b2, {step};",
                        "wgmma.fence.sync.aligned;",
                        concat!("wgmma.mma_async.sync.aligned.", $shape, " ", d128!()),
                        ", {a}, {b}, p, 1, 1;",
                        concat!("wgmma.mma_async.sync.aligned.", $shape, " ", d128!()),
                        ", a1, b1, 1, 1, 1;",
                        concat!("wgmma.mma_async.sync.aligned.", $shape, " ", d128!()),
                        ", a2, b2, 1, 1, 1;",
                        concat!("wgmma.mma_async.sync.aligned.", $shape, " ", d128!()),
                        ", a3, b3, 1, 1, 1;",
                        "wgmma.commit_group.sync.aligned; }}"
                    ],
                    a = in(reg64) a.bits,
                    b = in(reg64) b.bits,
                    accumulate = in(reg32) u32::from(accumulate),
                    step = const <KMajor as super::Layout>::STEP,
                    options(nostack)
                )
            }
        }
    };
}

fp8_region!(
    /// 64 × 256 products of E4M3 operands, summed by the tensor core.
    m64n256k128_e4m3, "m64n256k32.f32.e4m3.e4m3"
);

fp8_region!(
    /// 64 × 256 products of an E5M2 left and an E4M3 right operand, summed by the tensor core.
    m64n256k128_e5m2_e4m3, "m64n256k32.f32.e5m2.e4m3"
);

/// The sums of one stage: fence, four steps of 32 along K, commit, and `$end`.
macro_rules! fp8_stage_region {
    ($(#[$doc:meta])* $name:ident, $shape:literal, $end:literal) => {
        $(#[$doc])*
        #[inline(always)]
        pub unsafe fn $name(
            d: &mut [f32; 64],
            a: Descriptor<KMajor>,
            b: Descriptor<KMajor>,
            accumulate: bool,
        ) {
            // SAFETY: the caller keeps the contract above.
            unsafe {
                with_accumulators_64!(
                    d,
                    [
                        "{{ .reg .pred p;",
                        ".reg .b64 a1, a2, a3, b1, b2, b3; .reg .b32 a, b, c, high;",
                        "setp.ne.b32 p, {accumulate}, 0;",
                        // The address is in the lower halves, which have room for the sums.
                        "mov.b64 {{a, high}}, {a}; add.u32 b, a, {step}; mov.b64 a1, {{b, high}};",
                        "add.u32 c, b, {step}; mov.b64 a2, {{c, high}};",
                        "add.u32 b, c, {step}; mov.b64 a3, {{b, high}};",
                        "mov.b64 {{a, high}}, {b}; add.u32 b, a, {step}; mov.b64 b1, {{b, high}};",
                        "add.u32 c, b, {step}; mov.b64 b2, {{c, high}};",
                        "add.u32 b, c, {step}; mov.b64 b3, {{b, high}};",
                        "wgmma.fence.sync.aligned;",
                        concat!("wgmma.mma_async.sync.aligned.", $shape, " ", d64!()),
                        ", {a}, {b}, p, 1, 1;",
                        concat!("wgmma.mma_async.sync.aligned.", $shape, " ", d64!()),
                        ", a1, b1, 1, 1, 1;",
                        concat!("wgmma.mma_async.sync.aligned.", $shape, " ", d64!()),
                        ", a2, b2, 1, 1, 1;",
                        concat!("wgmma.mma_async.sync.aligned.", $shape, " ", d64!()),
                        ", a3, b3, 1, 1, 1;",
                        concat!("wgmma.commit_group.sync.aligned;", $end, " }}")
                    ],
                    a = in(reg64) a.bits,
                    b = in(reg64) b.bits,
                    accumulate = in(reg32) u32::from(accumulate),
                    step = const <KMajor as super::Layout>::STEP,
                    options(nostack)
                )
            }
        }
    };
}

/// The two forms of a stage: finished, and under way.
macro_rules! fp8_stage_regions {
    ($(#[$doc:meta])* $finished:ident, $started:ident, $shape:literal) => {
        fp8_stage_region!(
            $(#[$doc])*
            ///
            /// Finished: `wgmma.fence`, four `wgmma.mma_async.sync.aligned`, `wgmma.commit_group`
            /// and `wgmma.wait_group 0` (PTX manual, "Asynchronous Warpgroup Level Matrix
            /// Instructions: wgmma.mma_async"), 128 deep in all. With `accumulate` false the first
            /// step overwrites D.
            ///
            /// If D is overwritten, let the compiler not know: it would then move what reads the
            /// former D past the next products, and need registers for both.
            ///
            /// # Safety
            ///
            /// All threads of the warpgroup call it together with the same arguments but `d`; the
            /// operands are in shared memory, visible to the async proxy. They may be reused, and
            /// `d` read, afterwards.
            $finished, $shape, "wgmma.wait_group.sync.aligned 0;"
        );
        fp8_stage_region!(
            $(#[$doc])*
            ///
            /// Under way: `wgmma.fence`, four `wgmma.mma_async.sync.aligned` and
            /// `wgmma.commit_group` (PTX manual, "Asynchronous Warpgroup Level Matrix Instructions:
            /// wgmma.mma_async"), 128 deep in all. With `accumulate` false the first step
            /// overwrites D.
            ///
            /// # Safety
            ///
            /// All threads of the warpgroup call it together with the same arguments but `d`; the
            /// operands are in shared memory, visible to the async proxy. They stay there, and `d`
            /// is not touched, until [`finish_n128`](super::finish_n128).
            $started, $shape, ""
        );
    };
}

fp8_stage_regions!(
    /// 64 × 128 sums of 128 products of E4M3 operands.
    m64n128k128_e4m3, start_m64n128k128_e4m3, "m64n128k32.f32.e4m3.e4m3"
);

fp8_stage_regions!(
    /// 64 × 128 sums of 128 products of an E5M2 left and an E4M3 right operand.
    m64n128k128_e5m2_e4m3, start_m64n128k128_e5m2_e4m3, "m64n128k32.f32.e5m2.e4m3"
);
