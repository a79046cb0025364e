//! What differs between the passes: the boxes that are copied and the descriptors that name them.

use ptx_std::cluster::ClusterBarrier;
use ptx_std::mbarrier::Barrier;
use ptx_std::tcgen05::{
    Descriptor, F8f6f4, F16, Group, KMajor, Kind, Matrix, MnMajor, Operand, Whole,
};
use ptx_std::tma::{load_2d, load_2d_pair, load_3d, load_3d_pair};

use super::super::product::{DEPTH, Dgrad, FP8_DEPTH, Fprop, Product, Reduction, Rows, Wgrad};
use super::super::scales::{
    A_SCALE_MAP, B_SCALE_MAP, B_SCALES, SCALE_BYTES as SCALE_ROOM, Scales, prefetch_scale_maps,
    scale_bytes, skew,
};
use super::super::shape::{BLOCK_BYTES, ROW_BYTES, TILE_M, TILE_N};
use super::ring::A_BYTES;

/// Rows of a K-major box.
pub const BOX_ROWS: u32 = 128;
/// Bytes of a K-major box.
pub const BOX_BYTES: u32 = BOX_ROWS * ROW_BYTES;

/// One stage's copies: where to, from which maps, for which part of the product.
pub struct Copies {
    /// Address of the stage.
    pub stage: u32,
    /// Address of the stage's scales, the left operand's first.
    pub scales: u32,
    /// The barrier that counts the copies' bytes.
    pub full: ClusterBarrier,
    /// Whether that barrier is the even block's of a pair.
    pub together: bool,
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
    /// First of this block's rows in the group's output.
    pub row: u32,
    /// First column of the tile.
    pub tile_column: u32,
    /// First of the columns whose operand this block has.
    pub column: u32,
    /// First reduction index of the stage.
    pub reduction: u32,
    /// Stages of the product.
    pub stages: u32,
    /// What block scales are found by ([`Schedule::HAS_BLOCKS`]).
    pub group: GroupOfBlocks,
}

/// A group and its product, as far as they say where block scales lie.
#[derive(Clone, Copy)]
pub struct GroupOfBlocks {
    /// Which group.
    pub index: u32,
    /// Padded rows before it.
    pub padded_offset: u64,
    /// Tokens of it.
    pub tokens: u32,
    /// Rows of its output, if they are no tokens.
    pub m: u32,
    /// Columns of its output.
    pub n: u32,
    /// Length of its reduction, if that is not over its tokens.
    pub k: u32,
}

impl Copies {
    /// Copies a box of a matrix.
    #[inline(always)]
    pub unsafe fn load_2d(&self, destination: u32, map: u64, x: u32, y: u32) {
        // SAFETY: in `Schedule::copy`.
        unsafe {
            if self.together {
                load_2d_pair(destination, map, x, y, self.full);
            } else {
                load_2d(destination, map, x, y, Barrier { address: self.full.address });
            }
        }
    }

    /// Copies a box of the group's weights.
    #[inline(always)]
    pub unsafe fn load_weights(&self, destination: u32, x: u32, y: u32) {
        // SAFETY: in `Schedule::copy`.
        unsafe {
            if self.together {
                load_3d_pair(destination, self.b_map, x, y, self.b_group, self.full);
            } else {
                let full = Barrier { address: self.full.address };
                load_3d(destination, self.b_map, x, y, self.b_group, full);
            }
        }
    }
}

/// How the operands of a pass lie in memory, and what of them a stage has.
pub trait Schedule: Product {
    /// Whether the reduction runs over the rows of the group; else the output's rows do.
    const RAGGED_REDUCTION: bool;
    /// Whether the rows of groups are padded in memory, to multiples of a stage and with zeros.
    const PADDED: bool = false;
    /// Reduction indices of a stage.
    const DEPTH: u32 = DEPTH;
    /// Reduction indices of one instruction.
    const STEP: u32 = <F16 as Kind>::DEPTH;
    /// Whether rows beyond the group may come with its last stage, and must be cleared.
    const CLEARS: bool = Self::RAGGED_REDUCTION && !Self::PADDED;

    /// Bytes of scales that the copies of a stage bring, too.
    const SCALE_BYTES: u32 = 0;
    /// Bytes of a stage's scales in shared memory, with gaps.
    const SCALE_ROOM: u32 = Self::SCALE_BYTES;
    /// Whether the scales are those of blocks of MXFP8 or NVFP4, which products apply.
    const HAS_BLOCKS: bool = false;
    /// Whether each block of a pair has to see that its own part of a stage is there: to clear
    /// rows, or for its threads to read scales.
    const WATCHED: bool = Self::CLEARS || Self::SCALE_BYTES != 0 && !Self::HAS_BLOCKS;

    /// Brings the maps of scales into the descriptor cache.
    ///
    /// # Safety
    ///
    /// `args` is the generic address of the argument.
    #[inline(always)]
    unsafe fn prefetch_scale_maps(_args: u64) {}

    /// Issues the copies of a stage of this block, [`stage_bytes`](super::ring::stage_bytes) and
    /// [`Schedule::SCALE_BYTES`] in all.
    ///
    /// # Safety
    ///
    /// One thread calls it; the stage is free and the barrier expects the bytes.
    unsafe fn copy<G: Group>(copies: &Copies);
}

/// What products without block scales read in a stage.
pub trait Operands: Schedule {
    /// The left operand in a stage.
    type A<X: Whole>: Operand<Element = X>;
    /// The right operand in a stage.
    type B<X: Whole>: Operand<Element = X>;

    /// The left operand in the stage at `stage`, 128 rows of each block.
    fn a<X: Whole>(stage: u32) -> Descriptor<Self::A<X>>;

    /// The right operand in the stage at `stage`, all columns of the block.
    fn b<X: Whole>(stage: u32) -> Descriptor<Self::B<X>>;
}

impl Schedule for Fprop {
    const RAGGED_REDUCTION: bool = false;

    #[inline(always)]
    unsafe fn copy<G: Group>(c: &Copies) {
        // SAFETY: handed to the caller.
        unsafe {
            c.load_2d(c.stage, c.a_map, c.reduction, c.token + c.row);
            for part in 0..TILE_N / G::BLOCKS / BOX_ROWS {
                let destination = c.stage + A_BYTES + part * BOX_BYTES;
                c.load_weights(destination, c.reduction, c.column + BOX_ROWS * part);
            }
        }
    }
}

impl Operands for Fprop {
    type A<X: Whole> = Matrix<X, KMajor>;
    type B<X: Whole> = Matrix<X, KMajor>;

    #[inline(always)]
    fn a<X: Whole>(stage: u32) -> Descriptor<Self::A<X>> {
        Descriptor::k_major(stage)
    }

    #[inline(always)]
    fn b<X: Whole>(stage: u32) -> Descriptor<Self::B<X>> {
        Descriptor::k_major(stage + A_BYTES)
    }
}

impl Schedule for Dgrad {
    const RAGGED_REDUCTION: bool = false;

    #[inline(always)]
    unsafe fn copy<G: Group>(c: &Copies) {
        // SAFETY: handed to the caller.
        unsafe {
            c.load_2d(c.stage, c.a_map, c.reduction, c.token + c.row);
            for block in 0..TILE_N / G::BLOCKS / 64 {
                let destination = c.stage + A_BYTES + block * BLOCK_BYTES;
                c.load_weights(destination, c.column + 64 * block, c.reduction);
            }
        }
    }
}

impl Operands for Dgrad {
    type A<X: Whole> = Matrix<X, KMajor>;
    type B<X: Whole> = Matrix<X, MnMajor>;

    #[inline(always)]
    fn a<X: Whole>(stage: u32) -> Descriptor<Self::A<X>> {
        Descriptor::k_major(stage)
    }

    #[inline(always)]
    fn b<X: Whole>(stage: u32) -> Descriptor<Self::B<X>> {
        Descriptor::mn_major(stage + A_BYTES, BLOCK_BYTES)
    }
}

impl Schedule for Wgrad {
    const RAGGED_REDUCTION: bool = true;

    #[inline(always)]
    unsafe fn copy<G: Group>(c: &Copies) {
        let token = c.token + c.reduction;
        // SAFETY: handed to the caller.
        unsafe {
            for block in 0..TILE_M / 64 {
                let destination = c.stage + block * BLOCK_BYTES;
                c.load_2d(destination, c.a_map, c.row + 64 * block, token);
            }
            for block in 0..TILE_N / G::BLOCKS / 64 {
                let destination = c.stage + A_BYTES + block * BLOCK_BYTES;
                c.load_2d(destination, c.b_map, c.column + 64 * block, token);
            }
        }
    }
}

impl Operands for Wgrad {
    type A<X: Whole> = Matrix<X, MnMajor>;
    type B<X: Whole> = Matrix<X, MnMajor>;

    #[inline(always)]
    fn a<X: Whole>(stage: u32) -> Descriptor<Self::A<X>> {
        Descriptor::mn_major(stage, BLOCK_BYTES)
    }

    #[inline(always)]
    fn b<X: Whole>(stage: u32) -> Descriptor<Self::B<X>> {
        Descriptor::mn_major(stage + A_BYTES, BLOCK_BYTES)
    }
}

/// What the two products of FP8 have in common: both operands run along the reduction.
macro_rules! fp8 {
    () => {
        const DEPTH: u32 = FP8_DEPTH;
        const STEP: u32 = <F8f6f4 as Kind>::DEPTH;
        const SCALE_BYTES: u32 = scale_bytes::<A, B>();
        const SCALE_ROOM: u32 = if Self::SCALE_BYTES == 0 { 0 } else { SCALE_ROOM };

        #[inline(always)]
        unsafe fn prefetch_scale_maps(args: u64) {
            // SAFETY: handed to the caller.
            unsafe { prefetch_scale_maps::<A, B>(args) }
        }
    };
}

/// The same of what their products read.
macro_rules! fp8_operands {
    ($($product:ident),+) => {$(
        impl<A: Scales, B: Scales> Operands for $product<A, B> {
            type A<X: Whole> = Matrix<X, KMajor>;
            type B<X: Whole> = Matrix<X, KMajor>;

            #[inline(always)]
            fn a<X: Whole>(stage: u32) -> Descriptor<Self::A<X>> {
                Descriptor::k_major(stage)
            }

            #[inline(always)]
            fn b<X: Whole>(stage: u32) -> Descriptor<Self::B<X>> {
                Descriptor::k_major(stage + A_BYTES)
            }
        }
    )+};
}

fp8_operands!(Rows, Reduction);

impl<A: Scales, B: Scales> Schedule for Rows<A, B> {
    fp8!();
    const RAGGED_REDUCTION: bool = false;

    #[inline(always)]
    unsafe fn copy<G: Group>(c: &Copies) {
        let block = c.reduction / FP8_DEPTH;
        let token = c.token + c.row;
        // SAFETY: handed to the caller.
        unsafe {
            c.load_2d(c.stage, c.a_map, c.reduction, token);
            for part in 0..TILE_N / G::BLOCKS / BOX_ROWS {
                let destination = c.stage + A_BYTES + part * BOX_BYTES;
                c.load_weights(destination, c.reduction, c.column + BOX_ROWS * part);
            }
            if A::VECTOR {
                c.load_2d(c.scales, c.args + A_SCALE_MAP, token - skew(token), block);
            }
            if B::VECTOR {
                // The weights lie in one piece, and so do their matrices of scales.
                let block = c.b_group * c.stages + block;
                c.load_2d(c.scales + B_SCALES, c.args + B_SCALE_MAP, c.tile_column, block);
            }
        }
    }
}

impl<A: Scales, B: Scales> Schedule for Reduction<A, B> {
    fp8!();
    const RAGGED_REDUCTION: bool = true;
    const PADDED: bool = true;

    #[inline(always)]
    unsafe fn copy<G: Group>(c: &Copies) {
        let token = c.token + c.reduction;
        let block = token / FP8_DEPTH;
        // SAFETY: handed to the caller.
        unsafe {
            c.load_2d(c.stage, c.a_map, token, c.row);
            for part in 0..TILE_N / G::BLOCKS / BOX_ROWS {
                let destination = c.stage + A_BYTES + part * BOX_BYTES;
                c.load_2d(destination, c.b_map, token, c.column + BOX_ROWS * part);
            }
            if A::VECTOR {
                c.load_2d(c.scales, c.args + A_SCALE_MAP, c.row, block);
            }
            if B::VECTOR {
                c.load_2d(c.scales + B_SCALES, c.args + B_SCALE_MAP, c.tile_column, block);
            }
        }
    }
}
