//! What differs between the passes: the boxes that are copied and the descriptors that name them.

use ptx_std::mbarrier::Barrier;
use ptx_std::tma::{load_2d, load_3d};
use ptx_std::wgmma::{Descriptor, KMajor, Layout, MnMajor};

use super::super::epilogue::Known;
use super::super::product::{DEPTH, Dgrad, Fprop, Product, Wgrad};
use super::super::shape::{BLOCK_BYTES, TILE_M, TILE_N};
use super::A_BYTES;
use super::ring::STAGE_BYTES;

/// One stage's copies: where to, from which maps, for which part of the product.
pub struct Copies {
    /// Address of the stage.
    pub stage: u32,
    /// Address of the stage's scales, the left operand's first.
    pub scales: u32,
    /// The barrier that counts the copies' bytes.
    pub full: Barrier,
    /// Generic address of the argument.
    pub args: u64,
    /// Map of the left operand.
    pub a_map: u64,
    /// Map of the right operand.
    pub b_map: u64,
    /// Group coordinate of the right operand, where its map has one.
    pub b_group: u32,
    /// First row of the group in the token buffer, or of its padded rows.
    pub token: u32,
    /// First row of the tile in the group's output.
    pub row: u32,
    /// First column of the tile.
    pub column: u32,
    /// First reduction index of the stage.
    pub reduction: u32,
    /// Stages of the product.
    pub stages: u32,
    /// [`GemmArgs::has_feature_blocks`](crate::abi::GemmArgs::has_feature_blocks).
    pub has_feature_blocks: bool,
}

/// [`Schedule::HELD_BACK_FROM`] of tokens multiplied by weights of 16 bits, by measurement
/// (`docs/performance.md`).
///
/// Blocks that multiply the same weights go through the reduction together; the farther a ring lets
/// them drift apart, the more goes through L2 and from memory, which costs power, and so clocks.
/// Short products need all that is ahead.
const LONG: u32 = 48;

/// How the operands of a pass lie, in memory and in a stage.
pub trait Schedule: Product {
    /// Layout of the left operand in a stage.
    type A: Layout;
    /// Layout of the right operand in a stage.
    type B: Layout;
    /// Whether the reduction runs over the rows of the group; else the output's rows do.
    const RAGGED_REDUCTION: bool;
    /// Whether the rows of groups are padded in memory, to multiples of a stage and with zeros.
    const PADDED: bool = false;
    /// What is known of the output. Whether there is a bias is asked in gradients, too: these
    /// kernels have been measured with the code for it, and not without.
    const KNOWN: Known = Known { bias: true, ..Self::OUTPUT };
    /// Whether the right operand always has one map, never one for each group.
    const ONE_MAP: bool = false;
    /// Reduction indices of a stage.
    const DEPTH: u32 = DEPTH;
    /// Stages from which on the copies of a product hold back: they leave a stage of the ring free,
    /// where others are ahead as far as the ring is deep.
    const HELD_BACK_FROM: Option<u32> = None;
    /// Bytes that the copies of a stage bring.
    const STAGE_BYTES: u32 = STAGE_BYTES;

    /// Brings the maps of scales into the descriptor cache.
    ///
    /// # Safety
    ///
    /// `args` is the generic address of the argument.
    #[inline(always)]
    unsafe fn prefetch_scale_maps(_args: u64) {}

    /// Issues the copies of a stage, [`Schedule::STAGE_BYTES`] in all.
    ///
    /// # Safety
    ///
    /// One thread calls it; the stage is free and its barrier expects the bytes.
    unsafe fn copy(copies: &Copies);

    /// The left operand of the consumer `index`, 64 rows, in the stage at `stage`.
    fn a(stage: u32, index: u32) -> Descriptor<Self::A>;

    /// The right operand in the stage at `stage`.
    fn b(stage: u32) -> Descriptor<Self::B>;
}

impl Schedule for Fprop {
    type A = KMajor;
    type B = KMajor;
    const RAGGED_REDUCTION: bool = false;
    const HELD_BACK_FROM: Option<u32> = Some(LONG);

    #[inline(always)]
    unsafe fn copy(c: &Copies) {
        // SAFETY: handed to the caller.
        unsafe {
            load_2d(c.stage, c.a_map, c.reduction, c.token + c.row, c.full);
            load_3d(c.stage + A_BYTES, c.b_map, c.reduction, c.column, c.b_group, c.full);
        }
    }

    #[inline(always)]
    fn a(stage: u32, index: u32) -> Descriptor<KMajor> {
        Descriptor::k_major(stage + index * BLOCK_BYTES)
    }

    #[inline(always)]
    fn b(stage: u32) -> Descriptor<KMajor> {
        Descriptor::k_major(stage + A_BYTES)
    }
}

impl Schedule for Dgrad {
    type A = KMajor;
    type B = MnMajor;
    const RAGGED_REDUCTION: bool = false;
    const HELD_BACK_FROM: Option<u32> = Some(LONG);

    #[inline(always)]
    unsafe fn copy(c: &Copies) {
        // SAFETY: handed to the caller.
        unsafe {
            load_2d(c.stage, c.a_map, c.reduction, c.token + c.row, c.full);
            for block in 0..TILE_N / 64 {
                let destination = c.stage + A_BYTES + block * BLOCK_BYTES;
                let column = c.column + 64 * block;
                load_3d(destination, c.b_map, column, c.reduction, c.b_group, c.full);
            }
        }
    }

    #[inline(always)]
    fn a(stage: u32, index: u32) -> Descriptor<KMajor> {
        Descriptor::k_major(stage + index * BLOCK_BYTES)
    }

    #[inline(always)]
    fn b(stage: u32) -> Descriptor<MnMajor> {
        Descriptor::mn_major(stage + A_BYTES, BLOCK_BYTES)
    }
}

impl Schedule for Wgrad {
    type A = MnMajor;
    type B = MnMajor;
    const RAGGED_REDUCTION: bool = true;

    #[inline(always)]
    unsafe fn copy(c: &Copies) {
        let token = c.token + c.reduction;
        // SAFETY: handed to the caller.
        unsafe {
            if c.has_feature_blocks {
                load_3d(c.stage, c.a_map, 0, token, c.row / 64, c.full);
                load_3d(c.stage + A_BYTES, c.b_map, 0, token, c.column / 64, c.full);
                return;
            }
            for block in 0..TILE_M / 64 {
                let destination = c.stage + block * BLOCK_BYTES;
                load_2d(destination, c.a_map, c.row + 64 * block, token, c.full);
            }
            for block in 0..TILE_N / 64 {
                let destination = c.stage + A_BYTES + block * BLOCK_BYTES;
                load_2d(destination, c.b_map, c.column + 64 * block, token, c.full);
            }
        }
    }

    #[inline(always)]
    fn a(stage: u32, index: u32) -> Descriptor<MnMajor> {
        Descriptor::mn_major(stage + index * BLOCK_BYTES, BLOCK_BYTES)
    }

    #[inline(always)]
    fn b(stage: u32) -> Descriptor<MnMajor> {
        Descriptor::mn_major(stage + A_BYTES, BLOCK_BYTES)
    }
}
