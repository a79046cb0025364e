//! Matrix products by a warpgroup: `wgmma.mma_async`, Hopper's tensor-core instruction.
//!
//! `D += A · B` for a 64 × N tile of D in the registers of 128 threads, with A (64 × 16) and B (16
//! × N) in shared memory; 32 deep for elements of 8 bits. It is asynchronous, and the order of
//! calls is fixed:
//!
//! ```text
//!   fence      the registers of D are settled (first product, or D touched since)
//!   products   any number, same D
//!   commit     they form a group
//!   wait n     at most n newest groups are unfinished: older D may be read, older A and B reused
//! ```
//!
//! # Where the elements of D are
//!
//! Thread `t` of the warpgroup (`warp = t / 32`, `lane = t % 32`) holds in `d[i]` the element
//!
//! ```text
//!   row    = 16 warp + lane / 4 + 8 (i / 2 % 2)
//!   column = 8 (i / 4) + 2 (lane % 4) + i % 2
//! ```
//!
//! # How A and B must lie in shared memory
//!
//! A [`Descriptor`] says it. Two layouts are offered, both as a tensor copy with 128-byte swizzle
//! leaves them (see [`crate::tma`]), both starting at a multiple of 1024 bytes:
//!
//! ```text
//!   K-major                               MN-major (transpose = 1)
//!   row of 128 bytes = 64 k of one m/n    row of 128 bytes = 64 m/n of one k
//!   next 8 m/n: + 1024 bytes              next 8 k: + 1024 bytes
//!   next 16 k:  + 32 bytes                next 16 k: + 2048 bytes
//!                                         next 64 m/n: + `mn_block` bytes
//! ```
//!
//! # Keeping D in registers
//!
//! D is a plain array, which the compiler must be able to take apart: initialise it with
//! `core::mem::zeroed()`, never by a loop, and index it by constants only. One product region is
//! one piece of assembly with all of D as its operands; the compiler then has no reason to move
//! them.

use core::marker::PhantomData;

pub use fp8::{
    m64n128k128_e4m3, m64n128k128_e5m2_e4m3, m64n256k128_e4m3, m64n256k128_e5m2_e4m3,
    start_m64n128k128_e4m3, start_m64n128k128_e5m2_e4m3,
};

/// How an operand lies in shared memory: [`KMajor`] or [`MnMajor`].
pub trait Layout: Copy {
    /// The instruction's transpose bit.
    const TRANSPOSE: u32;
    /// What a descriptor's address grows by from one 16-deep step to the next, in units of 16
    /// bytes.
    const STEP: u32;
}

/// Rows of 128 swizzled bytes along K.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KMajor;

/// Rows of 128 swizzled bytes along M (operand A) or N (operand B).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MnMajor;

impl Layout for KMajor {
    const TRANSPOSE: u32 = 0;
    // 32 bytes inside the row: the swizzle is applied to the sum, so it stays right.
    const STEP: u32 = 32 >> 4;
}

impl Layout for MnMajor {
    const TRANSPOSE: u32 = 1;
    // Sixteen rows.
    const STEP: u32 = 2048 >> 4;
}

/// Describes an operand in shared memory (PTX manual, "Asynchronous Warpgroup Level Matrix
/// Instructions: Matrix Descriptor Format").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor<L: Layout> {
    bits: u64,
    layout: PhantomData<L>,
}

/// Swizzle of 128 bytes, in bits 62 and 63.
const SWIZZLE_128: u64 = 1 << 62;
/// Bytes between groups of eight rows, 1024, in units of 16 from bit 32.
const EIGHT_ROWS: u64 = (1024 >> 4) << 32;

/// The lowest 18 bits of an address or distance, in units of 16 bytes.
const fn encode(bytes: u32) -> u64 {
    ((bytes & 0x3FFFF) >> 4) as u64
}

impl<L: Layout> Descriptor<L> {
    /// The bits, as the instruction takes them.
    #[inline(always)]
    pub const fn bits(self) -> u64 {
        self.bits
    }
}

impl Descriptor<KMajor> {
    /// A K-major operand. `address` is that of a row whose index is a multiple of eight.
    #[inline(always)]
    pub const fn k_major(address: u32) -> Self {
        // The leading offset is ignored in this layout; CUTLASS writes 1.
        Self { bits: SWIZZLE_128 | EIGHT_ROWS | 1 << 16 | encode(address), layout: PhantomData }
    }
}

impl Descriptor<MnMajor> {
    /// An MN-major operand; blocks of 64 elements along M or N are `mn_block` bytes apart.
    #[inline(always)]
    pub const fn mn_major(address: u32, mn_block: u32) -> Self {
        let leading = encode(mn_block) << 16;
        Self { bits: SWIZZLE_128 | EIGHT_ROWS | leading | encode(address), layout: PhantomData }
    }
}

const _: () = assert!(Descriptor::k_major(0).bits() == 0x4000_0040_0001_0000);
const _: () = assert!(Descriptor::mn_major(1024, 8192).bits() == 0x4000_0040_0200_0040);

/// Closes the group of products issued since the last commit: `wgmma.commit_group` (PTX manual,
/// "Asynchronous Warpgroup Level Matrix Instructions: wgmma.commit_group"). The regions below do it
/// themselves.
///
/// # Safety
///
/// All threads of the warpgroup must call it together.
#[inline(always)]
pub unsafe fn commit() {
    // SAFETY: the caller brings the whole warpgroup.
    unsafe { ptx!("wgmma.commit_group.sync.aligned;", options(nostack)) }
}

/// Waits until at most `PENDING` newest groups are unfinished: `wgmma.wait_group` (PTX manual,
/// "Asynchronous Warpgroup Level Matrix Instructions: wgmma.wait_group"). Afterwards the shared
/// memory of the finished groups may be reused; to read D, use [`finish_n256`] or [`finish_n128`],
/// which keep the compiler from reading it too early.
///
/// # Safety
///
/// All threads of the warpgroup must call it together.
#[inline(always)]
pub unsafe fn wait<const PENDING: u32>() {
    // SAFETY: the caller brings the whole warpgroup.
    unsafe {
        ptx!("wgmma.wait_group.sync.aligned {pending};", pending = const PENDING, options(nostack))
    }
}

/// [`ptx!`] with the 64 accumulators `$d` as its operands 0 to 63.
macro_rules! with_accumulators_64 {
    ($d:ident, [$($template:expr),+], $($rest:tt)*) => {
        ptx!(
            $($template),+,
            inout(reg32) $d[0], inout(reg32) $d[1], inout(reg32) $d[2], inout(reg32) $d[3],
            inout(reg32) $d[4], inout(reg32) $d[5], inout(reg32) $d[6], inout(reg32) $d[7],
            inout(reg32) $d[8], inout(reg32) $d[9], inout(reg32) $d[10], inout(reg32) $d[11],
            inout(reg32) $d[12], inout(reg32) $d[13], inout(reg32) $d[14], inout(reg32) $d[15],
            inout(reg32) $d[16], inout(reg32) $d[17], inout(reg32) $d[18], inout(reg32) $d[19],
            inout(reg32) $d[20], inout(reg32) $d[21], inout(reg32) $d[22], inout(reg32) $d[23],
            inout(reg32) $d[24], inout(reg32) $d[25], inout(reg32) $d[26], inout(reg32) $d[27],
            inout(reg32) $d[28], inout(reg32) $d[29], inout(reg32) $d[30], inout(reg32) $d[31],
            inout(reg32) $d[32], inout(reg32) $d[33], inout(reg32) $d[34], inout(reg32) $d[35],
            inout(reg32) $d[36], inout(reg32) $d[37], inout(reg32) $d[38], inout(reg32) $d[39],
            inout(reg32) $d[40], inout(reg32) $d[41], inout(reg32) $d[42], inout(reg32) $d[43],
            inout(reg32) $d[44], inout(reg32) $d[45], inout(reg32) $d[46], inout(reg32) $d[47],
            inout(reg32) $d[48], inout(reg32) $d[49], inout(reg32) $d[50], inout(reg32) $d[51],
            inout(reg32) $d[52], inout(reg32) $d[53], inout(reg32) $d[54], inout(reg32) $d[55],
            inout(reg32) $d[56], inout(reg32) $d[57], inout(reg32) $d[58], inout(reg32) $d[59],
            inout(reg32) $d[60], inout(reg32) $d[61], inout(reg32) $d[62], inout(reg32) $d[63],
            $($rest)*
        )
    };
}

/// [`ptx!`] with the 120 accumulators `$d` as its operands 0 to 119.
macro_rules! with_accumulators_120 {
    ($d:ident, $templates:tt, $($rest:tt)*) => {
        with_accumulators_64!(
            $d,
            $templates,
            inout(reg32) $d[64], inout(reg32) $d[65], inout(reg32) $d[66], inout(reg32) $d[67],
            inout(reg32) $d[68], inout(reg32) $d[69], inout(reg32) $d[70], inout(reg32) $d[71],
            inout(reg32) $d[72], inout(reg32) $d[73], inout(reg32) $d[74], inout(reg32) $d[75],
            inout(reg32) $d[76], inout(reg32) $d[77], inout(reg32) $d[78], inout(reg32) $d[79],
            inout(reg32) $d[80], inout(reg32) $d[81], inout(reg32) $d[82], inout(reg32) $d[83],
            inout(reg32) $d[84], inout(reg32) $d[85], inout(reg32) $d[86], inout(reg32) $d[87],
            inout(reg32) $d[88], inout(reg32) $d[89], inout(reg32) $d[90], inout(reg32) $d[91],
            inout(reg32) $d[92], inout(reg32) $d[93], inout(reg32) $d[94], inout(reg32) $d[95],
            inout(reg32) $d[96], inout(reg32) $d[97], inout(reg32) $d[98], inout(reg32) $d[99],
            inout(reg32) $d[100], inout(reg32) $d[101], inout(reg32) $d[102], inout(reg32) $d[103],
            inout(reg32) $d[104], inout(reg32) $d[105], inout(reg32) $d[106], inout(reg32) $d[107],
            inout(reg32) $d[108], inout(reg32) $d[109], inout(reg32) $d[110], inout(reg32) $d[111],
            inout(reg32) $d[112], inout(reg32) $d[113], inout(reg32) $d[114], inout(reg32) $d[115],
            inout(reg32) $d[116], inout(reg32) $d[117], inout(reg32) $d[118], inout(reg32) $d[119],
            $($rest)*
        )
    };
}

/// [`ptx!`] with the 128 accumulators `$d` as its operands 0 to 127.
macro_rules! with_accumulators_128 {
    ($d:ident, $templates:tt, $($rest:tt)*) => {
        with_accumulators_120!(
            $d,
            $templates,
            inout(reg32) $d[120], inout(reg32) $d[121], inout(reg32) $d[122], inout(reg32) $d[123],
            inout(reg32) $d[124], inout(reg32) $d[125], inout(reg32) $d[126], inout(reg32) $d[127],
            $($rest)*
        )
    };
}

/// The names of the first 64 accumulators.
macro_rules! names64 {
    () => {
        concat!(
            "{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}, {9}, {10}, {11}, {12}, {13}, {14}, {15}",
            ",{16}, {17}, {18}, {19}, {20}, {21}, {22}, {23}, {24}, {25}, {26}, {27}, {28}, {29}, {30}, {31}",
            ",{32}, {33}, {34}, {35}, {36}, {37}, {38}, {39}, {40}, {41}, {42}, {43}, {44}, {45}, {46}, {47}",
            ",{48}, {49}, {50}, {51}, {52}, {53}, {54}, {55}, {56}, {57}, {58}, {59}, {60}, {61}, {62}, {63}",
        )
    };
}

/// The names of the 56 after them.
macro_rules! names120 {
    () => {
        concat!(
            ",{64}, {65}, {66}, {67}, {68}, {69}, {70}, {71}, {72}, {73}, {74}, {75}, {76}, {77}, {78}, {79}",
            ",{80}, {81}, {82}, {83}, {84}, {85}, {86}, {87}, {88}, {89}, {90}, {91}, {92}, {93}, {94}, {95}",
            ",{96}, {97}, {98}, {99}, {100}, {101}, {102}, {103}, {104}, {105}, {106}, {107}, {108}, {109}, {110}, {111}",
            ",{112}, {113}, {114}, {115}, {116}, {117}, {118}, {119}",
        )
    };
}

/// The operand list of the 64 accumulators.
macro_rules! d64 {
    () => {
        concat!("{{", names64!(), "}}")
    };
}

/// The operand list of the 120 accumulators.
macro_rules! d120 {
    () => {
        concat!("{{", names64!(), names120!(), "}}")
    };
}

/// The operand list of the 128 accumulators.
macro_rules! d128 {
    () => {
        concat!(
            "{{",
            names64!(),
            names120!(),
            ", {120}, {121}, {122}, {123}, {124}, {125}, {126}, {127}}}"
        )
    };
}

/// One region: fence, four steps of 16 along K, commit.
macro_rules! product_region {
    ($(#[$doc:meta])* $name:ident, $registers:literal, $with:ident, $d:ident, $shape:literal) => {
        $(#[$doc])*
        ///
        /// `wgmma.fence`, four `wgmma.mma_async.sync.aligned` and `wgmma.commit_group` (PTX manual,
        /// "Asynchronous Warpgroup Level Matrix Instructions: wgmma.mma_async"), 64 deep in all.
        /// With `accumulate` false the first step overwrites D.
        ///
        /// # Safety
        ///
        /// All threads of the warpgroup call it together with the same arguments but `d`; the
        /// operands are in shared memory, visible to the async proxy, and stay there until the
        /// group has finished; `d` is not touched before.
        #[inline(always)]
        pub unsafe fn $name<A: Layout, B: Layout>(
            d: &mut [f32; $registers],
            a: Descriptor<A>,
            b: Descriptor<B>,
            accumulate: bool,
        ) {
            // SAFETY: the caller keeps the contract above.
            unsafe {
                $with!(
                    d,
                    [
                        "{{ .reg .pred p;",
                        ".reg .b64 a1, a2, a3, b1, b2, b3;",
                        "setp.ne.b32 p, {accumulate}, 0;",
                        "add.s64 a1, {a}, {step_a};",
                        "add.s64 a2, a1, {step_a};",
                        "add.s64 a3, a2, {step_a};",
                        "add.s64 b1, {b}, {step_b};",
                        "add.s64 b2, b1, {step_b};",
                        "add.s64 b3, b2, {step_b};",
                        "wgmma.fence.sync.aligned;",
                        concat!("wgmma.mma_async.sync.aligned.", $shape, " ", $d!()),
                        ", {a}, {b}, p, 1, 1, {transpose_a}, {transpose_b};",
                        concat!("wgmma.mma_async.sync.aligned.", $shape, " ", $d!()),
                        ", a1, b1, 1, 1, 1, {transpose_a}, {transpose_b};",
                        concat!("wgmma.mma_async.sync.aligned.", $shape, " ", $d!()),
                        ", a2, b2, 1, 1, 1, {transpose_a}, {transpose_b};",
                        concat!("wgmma.mma_async.sync.aligned.", $shape, " ", $d!()),
                        ", a3, b3, 1, 1, 1, {transpose_a}, {transpose_b};",
                        "wgmma.commit_group.sync.aligned; }}"
                    ],
                    a = in(reg64) a.bits,
                    b = in(reg64) b.bits,
                    accumulate = in(reg32) u32::from(accumulate),
                    step_a = const A::STEP,
                    step_b = const B::STEP,
                    transpose_a = const A::TRANSPOSE,
                    transpose_b = const B::TRANSPOSE,
                    options(nostack)
                )
            }
        }
    };
}

product_region!(
    /// 64 × 256 products of bfloat16 operands, summed in binary32.
    m64n256k64_bf16, 128, with_accumulators_128, d128, "m64n256k16.f32.bf16.bf16"
);

product_region!(
    /// 64 × 256 products of binary16 operands, summed in binary32.
    m64n256k64_f16, 128, with_accumulators_128, d128, "m64n256k16.f32.f16.f16"
);

product_region!(
    /// 64 × 240 products of bfloat16 operands, summed in binary32.
    m64n240k64_bf16, 120, with_accumulators_120, d120, "m64n240k16.f32.bf16.bf16"
);

product_region!(
    /// 64 × 240 products of binary16 operands, summed in binary32.
    m64n240k64_f16, 120, with_accumulators_120, d120, "m64n240k16.f32.f16.f16"
);

product_region!(
    /// 64 × 128 products of bfloat16 operands, summed in binary32.
    m64n128k64_bf16, 64, with_accumulators_64, d64, "m64n128k16.f32.bf16.bf16"
);

product_region!(
    /// 64 × 128 products of binary16 operands, summed in binary32.
    m64n128k64_f16, 64, with_accumulators_64, d64, "m64n128k16.f32.f16.f16"
);

/// The end of all groups.
macro_rules! finish {
    ($name:ident, $registers:literal, $with:ident, $d:ident) => {
        /// Waits for all groups and hands D back: `wgmma.wait_group 0` (PTX manual, "Asynchronous
        /// Warpgroup Level Matrix Instructions: wgmma.wait_group"), with D as its operands so that
        /// no read of D can be moved before it.
        ///
        /// # Safety
        ///
        /// All threads of the warpgroup must call it together.
        #[inline(always)]
        pub unsafe fn $name(d: &mut [f32; $registers]) {
            // SAFETY: the caller brings the whole warpgroup.
            unsafe {
                $with!(
                    d,
                    ["wgmma.wait_group.sync.aligned 0;", concat!("// ", $d!())],
                    options(nostack)
                )
            }
        }
    };
}

finish!(finish_n256, 128, with_accumulators_128, d128);
finish!(finish_n240, 120, with_accumulators_120, d120);
finish!(finish_n128, 64, with_accumulators_64, d64);

// After the macros, which it uses by textual scope.
mod fp8;
