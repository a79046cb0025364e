//! The products: `tcgen05.mma`.

use super::{
    Address, BlockScaled, Descriptor, F8f6f4, F16, Group, Instruction, KMajor, Mxf8f6f4, Mxfp4,
    Nvfp4, Operand, Product, Unscaled,
};

macro_rules! unscaled {
    ($($kind:ident $name:literal),+) => {$(
        impl Unscaled for $kind {
            #[inline(always)]
            unsafe fn issue<G: Group>(d: u32, a: u64, b: u64, instruction: u32, accumulate: u32) {
                // SAFETY: the caller keeps the contract of `multiply`.
                unsafe {
                    ptx!(
                        "{{ .reg .pred p;",
                        "setp.ne.b32 p, {accumulate}, 0;",
                        concat!(
                            "tcgen05.mma.cta_group::{group}.kind::", $name,
                            " [{d}], {a}, {b}, {instruction}, p; }}"
                        ),
                        group = const G::BLOCKS,
                        d = in(reg32) d,
                        a = in(reg64) a,
                        b = in(reg64) b,
                        instruction = in(reg32) instruction,
                        accumulate = in(reg32) accumulate,
                        options(nostack)
                    )
                }
            }
        }
    )+};
}

unscaled!(F16 "f16", F8f6f4 "f8f6f4");

macro_rules! block_scaled {
    ($($kind:ident $vector:literal $name:literal),+) => {$(
        impl BlockScaled for $kind {
            const VECTOR: u32 = $vector;

            #[inline(always)]
            unsafe fn issue<G: Group>(
                d: u32,
                operands: [u64; 2],
                instruction: u32,
                scales: [u32; 2],
                accumulate: u32,
            ) {
                // SAFETY: the caller keeps the contract of `multiply_scaled`.
                unsafe {
                    ptx!(
                        "{{ .reg .pred p;",
                        "setp.ne.b32 p, {accumulate}, 0;",
                        concat!(
                            "tcgen05.mma.cta_group::{group}.kind::", $name,
                            " [{d}], {a}, {b}, {instruction}, [{scales_a}], [{scales_b}], p; }}"
                        ),
                        group = const G::BLOCKS,
                        d = in(reg32) d,
                        a = in(reg64) operands[0],
                        b = in(reg64) operands[1],
                        instruction = in(reg32) instruction,
                        scales_a = in(reg32) scales[0],
                        scales_b = in(reg32) scales[1],
                        accumulate = in(reg32) accumulate,
                        options(nostack)
                    )
                }
            }
        }
    )+};
}

block_scaled!(
    Mxf8f6f4 32 "mxf8f6f4.block_scale.scale_vec::1X",
    Mxfp4 32 "mxf4nvf4.block_scale.scale_vec::2X",
    Nvfp4 16 "mxf4nvf4.block_scale.scale_vec::4X"
);

/// `D = A · B`, or `D += A · B` if `accumulate`, [`Kind::DEPTH`](super::Kind::DEPTH) deep:
/// `tcgen05.mma` (PTX manual, "TensorCore 5th Generation Instructions: tcgen05.mma").
///
/// # Safety
///
/// One thread calls it, in a pair one of the even block while the other block is there. D is
/// columns of an allocation of the group, enough of them for N; A and B are whole in shared memory,
/// as described, in a pair at the same addresses of both blocks. Neither is written, nor D read,
/// before a [`commit`](super::commit) has reported that the product is complete. What ordinary
/// stores wrote has been fenced ([`fence_async_shared`](crate::sync::fence_async_shared)), and what
/// other threads did to D comes before a [`fence_after`](super::fence_after).
#[inline(always)]
pub unsafe fn multiply<P: Product<Kind: Unscaled>>(
    d: Address,
    a: Descriptor<P::A>,
    b: Descriptor<P::B>,
    accumulate: bool,
) {
    let instruction = const { Instruction::<P>::new().bits() };
    // SAFETY: the caller keeps the contract above.
    unsafe {
        <P::Kind as Unscaled>::issue::<P::Group>(
            d.bits(),
            a.bits(),
            b.bits(),
            instruction,
            u32::from(accumulate),
        )
    }
}

/// As [`multiply`], of blocks with scales; `instruction` is that of the step along K
/// ([`Instruction::at_step`]): `tcgen05.mma…block_scale` (PTX manual, "TensorCore 5th Generation
/// Instructions: tcgen05.mma").
///
/// Scales lie as [`copy_32x128b_warpx4`](super::copy_32x128b_warpx4) writes them: that of row `m`
/// (or column `n`) and of block `j` along K in byte `j % 4` of column `m / 32`, in the lanes `m %
/// 32`, `m % 32 + 32`, `m % 32 + 64` and `m % 32 + 96`; the next four blocks along K four columns
/// further for each 128 rows. In a pair each block has the scales of its own rows of A, and those
/// of all columns of B.
///
/// # Safety
///
/// As [`multiply`]; the scales are in the group's tensor memory, and what wrote them comes before
/// this product: copies of the same thread do.
#[inline(always)]
pub unsafe fn multiply_scaled<P: Product<Kind: BlockScaled>>(
    d: Address,
    a: Descriptor<P::A>,
    b: Descriptor<P::B>,
    instruction: Instruction<P>,
    scales: [Address; 2],
    accumulate: bool,
) {
    // SAFETY: the caller keeps the contract above.
    unsafe {
        <P::Kind as BlockScaled>::issue::<P::Group>(
            d.bits(),
            [a.bits(), b.bits()],
            instruction.bits(),
            [scales[0].bits(), scales[1].bits()],
            u32::from(accumulate),
        )
    }
}

/// As [`multiply`], with A in tensor memory: row `m` in the lane where row `m` of D is, two
/// elements per column, the lower `k` in the low half: `tcgen05.mma` (PTX manual, "TensorCore 5th
/// Generation Instructions: tcgen05.mma"). Of a pair with M = 128 each block has its rows twice, in
/// the lanes 0 to 63 and 64 to 127. N of a pair is a multiple of 32.
///
/// # Safety
///
/// As [`multiply`]; what wrote A is complete and ordered: stores by
/// [`wait_stores`](super::wait_stores), [`fence_before`](super::fence_before), a barrier, and
/// [`fence_after`](super::fence_after) here.
#[inline(always)]
pub unsafe fn multiply_from_tensor<P>(d: Address, a: Address, b: Descriptor<P::B>, accumulate: bool)
where
    P: Product<Kind = F16, A: Operand<Layout = KMajor>>,
{
    const { assert!(P::Group::BLOCKS == 1 || P::N.is_multiple_of(32), "N is a multiple of 32") };
    let instruction = const { Instruction::<P>::new().bits() };
    // SAFETY: the caller keeps the contract above.
    unsafe {
        ptx!(
            "{{ .reg .pred p;",
            "setp.ne.b32 p, {accumulate}, 0;",
            "tcgen05.mma.cta_group::{group}.kind::f16 [{d}], [{a}], {b}, {instruction}, p; }}",
            group = const P::Group::BLOCKS,
            d = in(reg32) d.bits(),
            a = in(reg32) a.bits(),
            b = in(reg64) b.bits(),
            instruction = in(reg32) instruction,
            accumulate = in(reg32) u32::from(accumulate),
            options(nostack)
        )
    }
}
