//! The instruction descriptor.

use core::marker::PhantomData;

use super::product::{check, code_a, code_b};
use super::{BlockScaled, E4m3, Kind, Layout, Mxf8f6f4, Operand, Product};

/// The instruction descriptor of a product (PTX manual, "TensorCore 5th Generation Instructions:
/// Instruction descriptor").
///
/// | bits | without scales | with scales |
/// | --- | --- | --- |
/// | 0 to 2 | 0: nothing is sparse | 0 |
/// | 3 | 0: integers only | 0 |
/// | 4 and 5 | type of D: 1, binary32 | which bytes of B's columns of scales |
/// | 6 | 0 | 0 |
/// | 7 to 9 | type of A | type of A |
/// | 10 to 12 | type of B | type of B |
/// | 13, 14 | 0: neither A nor B is negated | 0 |
/// | 15, 16 | whether A, B is MN-major | the same |
/// | 17 to 22 | N / 8 | N / 8 |
/// | 23 | 0 | type of the scales: 0 UE4M3, 1 UE8M0 |
/// | 24 to 28 | M / 16 | M / 16 |
/// | 29, 30 | 0 | which bytes of A's columns of scales |
/// | 31 | 0 | 0: the kind's ordinary depth |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction<P> {
    bits: u32,
    product: PhantomData<P>,
}

/// D in binary32, the only type of sums offered.
const SUMS_F32: u32 = 1 << 4;

impl<P: Product> Instruction<P> {
    /// The descriptor of `P`; with scales, of those in the lowest bytes of their columns. Does not
    /// compile if there is no such product.
    #[inline(always)]
    pub const fn new() -> Self {
        const { check::<P>() };
        let majors =
            <P::A as Operand>::Layout::TRANSPOSE << 15 | <P::B as Operand>::Layout::TRANSPOSE << 16;
        let types = code_a::<P>() << 7 | code_b::<P>() << 10;
        let sizes = (P::N >> 3) << 17 | (P::M >> 4) << 24;
        let sums = if <P::Kind as Kind>::SCALED { 0 } else { SUMS_F32 };
        let scales = <P::Kind as Kind>::SCALE_TYPE << 23;
        Self { bits: majors | types | sizes | sums | scales, product: PhantomData }
    }

    /// The bits, as the instruction takes them.
    #[inline(always)]
    pub const fn bits(self) -> u32 {
        self.bits
    }
}

impl<P: Product> Default for Instruction<P> {
    #[inline(always)]
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Product<Kind: BlockScaled>> Instruction<P> {
    /// Instructions along K that take their scales from one column of tensor memory, which holds
    /// four scales of a row.
    pub const STEPS_PER_COLUMN: u32 = 4 / <P::Kind as BlockScaled>::SCALES;

    /// The descriptor of the `step`-th instruction along K of a tile. It says which bytes of the
    /// columns of scales are meant; the columns' address moves on only every
    /// [`STEPS_PER_COLUMN`](Self::STEPS_PER_COLUMN) steps, by four columns for each 128 rows.
    #[inline(always)]
    pub const fn at_step(step: u32) -> Self {
        let byte = step % Self::STEPS_PER_COLUMN * <P::Kind as BlockScaled>::SCALES;
        let bits = Self::new().bits | byte << 4 | byte << 29;
        Self { bits, product: PhantomData }
    }
}

/// What E5M2's number in the instruction descriptor adds to E4M3's.
const E5M2: u32 = 1;

impl<P> Instruction<P>
where
    P: Product<Kind = Mxf8f6f4, A: Operand<Element = E4m3>, B: Operand<Element = E4m3>>,
{
    /// The same of A and B whose elements are E5M2 where so said, which a kernel may know only when
    /// it runs: nothing else about the product differs.
    #[inline(always)]
    pub const fn with_e5m2(self, [a, b]: [bool; 2]) -> Self {
        let bits = self.bits | (a as u32 * E5M2) << 7 | (b as u32 * E5M2) << 10;
        Self { bits, product: PhantomData }
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;

    macro_rules! product {
        ($name:ident, $kind:ty, $group:ty, $a:ty, $b:ty, $m:literal, $n:literal) => {
            #[derive(Clone, Copy)]
            struct $name;
            impl Product for $name {
                type Kind = $kind;
                type Group = $group;
                type A = $a;
                type B = $b;
                const M: u32 = $m;
                const N: u32 = $n;
            }
        };
    }

    type K<E> = Matrix<E, KMajor>;
    type Mn<E> = Matrix<E, MnMajor>;

    product!(BrainWide, F16, One, K<Brain>, K<Brain>, 128, 256);
    product!(BrainPair, F16, Two, K<Brain>, K<Brain>, 256, 256);
    product!(HalfSmall, F16, One, K<Half>, K<Half>, 64, 16);
    product!(HalfPair, F16, Two, K<Half>, K<Half>, 128, 48);
    product!(LeftColumns, F16, One, Mn<Brain>, K<Brain>, 128, 256);
    product!(RightColumns, F16, One, K<Brain>, Mn<Brain>, 128, 256);
    product!(Eights, F8f6f4, One, K<E4m3>, K<E4m3>, 128, 128);
    product!(Mixed, F8f6f4, One, K<E5m2>, K<E4m3>, 128, 128);
    product!(Narrow, F8f6f4, One, K<E3m2>, K<E2m1>, 128, 128);
    product!(NarrowSwapped, F8f6f4, One, K<E2m3>, K<E5m2>, 128, 128);
    product!(PairColumns, F8f6f4, Two, Mn<E4m3>, Mn<E4m3>, 256, 96);
    product!(Mx8, Mxf8f6f4, One, K<E4m3>, K<E4m3>, 128, 128);
    product!(Mx8Pair, Mxf8f6f4, Two, K<E5m2>, Mn<E4m3>, 256, 256);
    product!(Mx4, Mxfp4, One, K<E2m1>, K<E2m1>, 128, 128);
    product!(Nv4, Nvfp4, One, K<E2m1>, K<E2m1>, 128, 128);

    #[test]
    fn bits_are_where_the_manual_puts_them() {
        let cases = [
            ("bf16, 128 × 256", Instruction::<BrainWide>::new().bits(), 0x0840_0490),
            ("bf16, pair, 256 × 256", Instruction::<BrainPair>::new().bits(), 0x1040_0490),
            ("f16, 64 × 16", Instruction::<HalfSmall>::new().bits(), 0x0404_0010),
            ("f16, pair, 128 × 48", Instruction::<HalfPair>::new().bits(), 0x080C_0010),
            ("A MN-major", Instruction::<LeftColumns>::new().bits(), 0x0840_8490),
            ("B MN-major", Instruction::<RightColumns>::new().bits(), 0x0841_0490),
            ("e4m3", Instruction::<Eights>::new().bits(), 0x0820_0010),
            ("e5m2 · e4m3", Instruction::<Mixed>::new().bits(), 0x0820_0090),
            ("e3m2 · e2m1", Instruction::<Narrow>::new().bits(), 0x0820_1610),
            ("e2m3 · e5m2", Instruction::<NarrowSwapped>::new().bits(), 0x0820_0590),
            ("pair, MN-major bytes", Instruction::<PairColumns>::new().bits(), 0x1019_8010),
            ("mxfp8", Instruction::<Mx8>::new().bits(), 0x08A0_0000),
            ("mxfp8, pair", Instruction::<Mx8Pair>::new().bits(), 0x10C1_0080),
            ("mxfp4", Instruction::<Mx4>::new().bits(), 0x08A0_0480),
            ("nvfp4", Instruction::<Nv4>::new().bits(), 0x0820_0480),
        ];
        for (what, bits, expected) in cases {
            assert_eq!(bits, expected, "{what}: {bits:#010x} is not {expected:#010x}");
        }
    }

    #[test]
    fn types_of_fp8_may_be_chosen_late() {
        let e4m3 = Instruction::<Mx8>::at_step(1);
        for (e5m2, types) in [([false; 2], 0), ([true, false], 1 << 7), ([false, true], 1 << 10)] {
            assert_eq!(e4m3.with_e5m2(e5m2).bits(), e4m3.bits() | types, "{e5m2:?}");
        }
        // As if the product had been declared so.
        product!(E5m2E4m3, Mxf8f6f4, One, K<E5m2>, K<E4m3>, 128, 128);
        product!(E4m3E5m2, Mxf8f6f4, One, K<E4m3>, K<E5m2>, 128, 128);
        let declared = Instruction::<E5m2E4m3>::new().bits();
        assert_eq!(Instruction::<Mx8>::new().with_e5m2([true, false]).bits(), declared);
        let declared = Instruction::<E4m3E5m2>::new().bits();
        assert_eq!(Instruction::<Mx8>::new().with_e5m2([false, true]).bits(), declared);
    }

    #[test]
    fn steps_choose_the_bytes_of_scales() {
        // Which byte of A's scales, which of B's.
        let ids = |bits: u32| (bits >> 29 & 3, bits >> 4 & 3);
        for (step, bytes) in (0_u32..).zip([[0, 0, 0], [1, 2, 0], [2, 0, 0], [3, 2, 0], [0, 0, 0]])
        {
            let bits = [
                (Instruction::<Mx8>::at_step(step).bits(), 0x08A0_0000),
                (Instruction::<Mx4>::at_step(step).bits(), 0x08A0_0480),
                (Instruction::<Nv4>::at_step(step).bits(), 0x0820_0480),
            ];
            for ((bits, first), byte) in bits.into_iter().zip(bytes) {
                assert_eq!(ids(bits), (byte, byte), "step {step} of {first:#x}");
                assert_eq!(bits & !(3 << 29 | 3 << 4), first, "step {step}");
            }
        }
        assert_eq!(Instruction::<Mx8>::STEPS_PER_COLUMN, 4);
        assert_eq!(Instruction::<Mx4>::STEPS_PER_COLUMN, 2);
        assert_eq!(Instruction::<Nv4>::STEPS_PER_COLUMN, 1);
    }
}
