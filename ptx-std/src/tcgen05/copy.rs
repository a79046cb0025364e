//! Copies from shared to tensor memory: `tcgen05.cp`.

use super::{Address, Descriptor, Element, Fields, Group, KMajor, Matrix, Swizzle};

/// Describes what a copy reads: rows of 16-byte chunks in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopySource {
    bits: u64,
}

impl CopySource {
    /// Rows without swizzle: eight rows of 16 bytes one after another; the next eight rows `stride`
    /// bytes further, the next 16 bytes of each row `leading` bytes further.
    #[inline(always)]
    pub const fn plain(address: u32, leading: u32, stride: u32) -> Self {
        Self { bits: Fields { address, leading, stride, swizzle: Swizzle::None }.encode() }
    }

    /// 512 bytes of scales, 32 rows of 16 bytes one after another: the scales of 128 rows and four
    /// blocks along K, as block-scaled tensor cores have them.
    #[inline(always)]
    pub const fn scales(address: u32) -> Self {
        // There is one chunk to a row, so nothing leads anywhere.
        Self::plain(address, 0, 128)
    }

    /// Rows that lie as those of a K-major operand do.
    #[inline(always)]
    pub const fn operand<E: Element>(operand: Descriptor<Matrix<E, KMajor>>) -> Self {
        Self { bits: operand.bits() }
    }

    /// The bits, as the instruction takes them.
    #[inline(always)]
    pub const fn bits(self) -> u64 {
        self.bits
    }
}

macro_rules! copies {
    ($($(#[$document:meta])* $name:ident $shape:literal;)+) => {$(
        $(#[$document])*
        ///
        /// # Safety
        ///
        /// One thread calls it, in a pair one of the even block: each block copies from its own
        /// shared to its own tensor memory. The source is whole (fenced, if ordinary stores wrote
        /// it) and is not written, nor the destination read but by this thread's products, before a
        /// [`commit`](super::commit) has reported that the copy is complete.
        #[inline(always)]
        pub unsafe fn $name<G: Group>(destination: Address, source: CopySource) {
            // SAFETY: the caller keeps the contract above.
            unsafe {
                ptx!(
                    concat!("tcgen05.cp.cta_group::{group}.", $shape, " [{destination}], {source};"),
                    group = const G::BLOCKS,
                    destination = in(reg32) destination.bits(),
                    source = in(reg64) source.bits,
                    options(nostack)
                )
            }
        }
    )+};
}

copies!(
    /// Copies 32 rows of 16 bytes, four columns, each to four lanes: row `r` to lanes `r`, `r +
    /// 32`, `r + 64` and `r + 96`. What scales need: `tcgen05.cp.32x128b.warpx4` (PTX manual,
    /// "TensorCore 5th Generation Instructions: tcgen05.cp").
    copy_32x128b_warpx4 "32x128b.warpx4";
    /// Copies 128 rows of 32 bytes to eight columns of 128 lanes: `tcgen05.cp.128x256b` (PTX
    /// manual, "TensorCore 5th Generation Instructions: tcgen05.cp").
    copy_128x256b "128x256b";
    /// Copies 128 rows of 16 bytes to four columns of 128 lanes: `tcgen05.cp.128x128b` (PTX manual,
    /// "TensorCore 5th Generation Instructions: tcgen05.cp").
    copy_128x128b "128x128b";
    /// Copies 4 rows of 32 bytes to eight columns, row `r` to lane `32 r` beyond the destination's:
    /// `tcgen05.cp.4x256b` (PTX manual, "TensorCore 5th Generation Instructions: tcgen05.cp").
    copy_4x256b "4x256b";
    /// Copies 64 rows of 16 bytes to four columns, row `r` to lanes `r` and `r + 64`:
    /// `tcgen05.cp.64x128b.warpx2::02_13` (PTX manual, "TensorCore 5th Generation Instructions:
    /// tcgen05.cp").
    copy_64x128b_warpx2_02_13 "64x128b.warpx2::02_13";
    /// Copies 64 rows of 16 bytes to four columns, row `r` to lanes `r + 32 (r / 32)` and 32
    /// beyond: `tcgen05.cp.64x128b.warpx2::01_23` (PTX manual, "TensorCore 5th Generation
    /// Instructions: tcgen05.cp").
    copy_64x128b_warpx2_01_23 "64x128b.warpx2::01_23";
);

#[cfg(test)]
mod tests {
    use super::super::Brain;
    use super::*;

    #[test]
    fn scales_are_rows_of_sixteen_bytes_without_swizzle() {
        assert_eq!(CopySource::scales(0x400).bits(), 0x0000_4008_0000_0040);
        assert_eq!(CopySource::plain(0x400, 2048, 256).bits(), 0x0000_4010_0080_0040);
        let operand = Descriptor::<Matrix<Brain, KMajor>>::k_major(0x400);
        assert_eq!(CopySource::operand(operand).bits(), 0x4000_4040_0001_0040);
    }
}
