//! How operands in shared memory are described to the instructions.

use core::marker::PhantomData;

use super::{Element, KMajor, Matrix, MnMajor, Operand, Whole};

/// How the 16-byte chunks of shared memory are permuted, as the tensor copy that wrote them did it.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swizzle {
    /// Not at all.
    None = 0,
    /// In rows of 128 bytes, units of 32 bytes.
    Bytes128Atom32 = 1,
    /// In rows of 128 bytes.
    Bytes128 = 2,
    /// In rows of 64 bytes.
    Bytes64 = 4,
    /// In rows of 32 bytes.
    Bytes32 = 6,
}

/// The fields of a shared-memory descriptor (PTX manual, "TensorCore 5th Generation Instructions:
/// Shared memory descriptor"). Bytes are multiples of 16, and what is 256 KiB or more is cut off.
///
/// | bits | field |
/// | --- | --- |
/// | 0 to 13 | address, in units of 16 bytes |
/// | 16 to 29 | leading offset, in units of 16 bytes |
/// | 32 to 45 | stride offset, in units of 16 bytes |
/// | 46 to 48 | 1 |
/// | 49 to 51 | base offset: 0, as swizzled tiles start at a multiple of their pattern |
/// | 52 | 0: the leading offset is a distance, not an address |
/// | 61 to 63 | swizzle |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Shared-memory address of the first element.
    pub address: u32,
    /// Leading offset in bytes. K-major: from 16 bytes of K to the next 16 without swizzle, and
    /// ignored with one. MN-major with swizzle: from one row's span of M or N to the next.
    pub leading: u32,
    /// Stride offset in bytes. K-major: from eight rows to the next eight along M or N. MN-major
    /// with swizzle: from eight rows to the next eight along K.
    pub stride: u32,
    /// The permutation.
    pub swizzle: Swizzle,
}

impl Fields {
    /// The descriptor's bits.
    #[inline(always)]
    pub const fn encode(self) -> u64 {
        let swizzle = (self.swizzle as u64) << 61;
        swizzle
            | 1 << 46
            | sixteenths(self.stride) << 32
            | sixteenths(self.leading) << 16
            | sixteenths(self.address)
    }
}

/// The lowest 18 bits of an address or distance, in units of 16 bytes.
const fn sixteenths(bytes: u32) -> u64 {
    ((bytes & 0x3FFFF) >> 4) as u64
}

/// Describes an operand of type `O` in shared memory. The layouts are those of [`crate::wgmma`], as
/// a tensor copy with 128-byte swizzle leaves them, and start at a multiple of 1024 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor<O: Operand> {
    bits: u64,
    operand: PhantomData<O>,
}

impl<O: Operand> Descriptor<O> {
    /// A descriptor with other fields than those of [`k_major`](Descriptor::k_major) and
    /// [`mn_major`](Descriptor::mn_major).
    #[inline(always)]
    pub const fn new(fields: Fields) -> Self {
        Self { bits: fields.encode(), operand: PhantomData }
    }

    /// The bits, as the instructions take them.
    #[inline(always)]
    pub const fn bits(self) -> u64 {
        self.bits
    }

    /// What the instruction reads that is `count` instructions further along K, in the same tile
    /// with 128-byte swizzle. The swizzle is applied to the sum of addresses, so it stays right.
    #[inline(always)]
    pub const fn steps(self, count: u32) -> Self {
        let bits = self.bits + ((count * O::STEP_BYTES) >> 4) as u64;
        Self { bits, operand: PhantomData }
    }
}

impl<E: Element> Descriptor<Matrix<E, KMajor>> {
    /// A K-major operand: rows of 128 bytes along K. `address` is that of a row whose index is a
    /// multiple of eight.
    #[inline(always)]
    pub const fn k_major(address: u32) -> Self {
        // The leading offset is ignored in this layout; CUTLASS writes 1.
        let swizzle = Swizzle::Bytes128;
        Self::new(Fields { address, leading: 16, stride: 1024, swizzle })
    }
}

impl<E: Whole> Descriptor<Matrix<E, MnMajor>> {
    /// An MN-major operand: rows of 128 bytes along M or N. Blocks of one row's length along M or N
    /// are `mn_block` bytes apart.
    #[inline(always)]
    pub const fn mn_major(address: u32, mn_block: u32) -> Self {
        let swizzle = Swizzle::Bytes128;
        Self::new(Fields { address, leading: mn_block, stride: 1024, swizzle })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Brain, E2m1, E4m3};
    use super::*;

    #[test]
    fn bits_are_where_the_manual_puts_them() {
        let k_major = Descriptor::<Matrix<Brain, KMajor>>::k_major;
        assert_eq!(k_major(0).bits(), 0x4000_4040_0001_0000);
        assert_eq!(k_major(0x2_3400).bits(), 0x4000_4040_0001_2340);
        let mn_major = Descriptor::<Matrix<Brain, MnMajor>>::mn_major;
        assert_eq!(mn_major(1024, 8192).bits(), 0x4000_4040_0200_0040);

        let plain = Fields { address: 0, leading: 0, stride: 0, swizzle: Swizzle::None };
        let cases = [
            (plain, 0x0000_4000_0000_0000),
            (Fields { address: 0x3_FFF0, ..plain }, 0x0000_4000_0000_3FFF),
            (Fields { address: 0x4_0010, ..plain }, 0x0000_4000_0000_0001),
            (Fields { leading: 0x3_FFF0, ..plain }, 0x0000_4000_3FFF_0000),
            (Fields { stride: 0x3_FFF0, ..plain }, 0x0000_7FFF_0000_0000),
            (Fields { swizzle: Swizzle::Bytes128Atom32, ..plain }, 0x2000_4000_0000_0000),
            (Fields { swizzle: Swizzle::Bytes64, ..plain }, 0x8000_4000_0000_0000),
            (Fields { swizzle: Swizzle::Bytes32, ..plain }, 0xC000_4000_0000_0000),
        ];
        for (fields, bits) in cases {
            assert_eq!(fields.encode(), bits, "{fields:?}");
        }
    }

    #[test]
    fn a_step_is_32_bytes_of_every_row_or_their_rows() {
        let address = |bits: u64| (bits & 0x3FFF) << 4;
        let brain = Descriptor::<Matrix<Brain, KMajor>>::k_major(0x1000);
        assert_eq!(address(brain.steps(3).bits()), 0x1060);
        let packed = Descriptor::<Matrix<E2m1, KMajor>>::k_major(0x1000);
        assert_eq!(address(packed.steps(1).bits()), 0x1020);
        // 16 rows of 16-bit elements, 32 rows of bytes.
        let columns = Descriptor::<Matrix<Brain, MnMajor>>::mn_major(0x1000, 8192);
        assert_eq!(address(columns.steps(1).bits()), 0x1000 + 16 * 128);
        let bytes = Descriptor::<Matrix<E4m3, MnMajor>>::mn_major(0x1000, 8192);
        assert_eq!(address(bytes.steps(1).bits()), 0x1000 + 32 * 128);
    }
}
