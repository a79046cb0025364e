//! Products of codes in MXFP8 and NVFP4: the tensor core multiplies each block by its scales, which
//! it reads in tensor memory.
//!
//! ```text
//!   columns 0        192      256        448       508
//!           [ first tile       ]                          sums
//!                    [ second tile        ]               sums
//!                    [ seam ]             [A|B|B] … ×5    block scales
//! ```
//!
//! The sums of two tiles would take all of tensor memory, so they have 64 columns in common, the
//! *seam*: a tile begins when the seam of the one before it has been read, which is the first that
//! the warps that finish it do.
//!
//! The quantizer wrote the scales in the order that tensor memory wants, in tiles of 128 rows and
//! four blocks, and each group's apart; so they take no warp of their own: a stage brings its
//! tiles, and the thread that multiplies has them copied on (`tcgen05.cp`) before the products that
//! read them. Copies are in order before products of the same thread, but the PTX manual does not
//! say that a copy waits for products before it. So there are five places for the scales of 256
//! elements of NVFP4 or 128 of MXFP8, in turn, each with a barrier that says that its products are
//! complete.

mod finish;
mod multiply;

use ptx_std::tcgen05::{
    self, BlockScaled, Descriptor, E2m1, E4m3, ElementOf, Group, Instruction, KMajor, Kind, Matrix,
    MnMajor, Mxf8f6f4, Operand,
};
use ptx_std::tma::prefetch_map;

pub use self::finish::finish_with_seam;
pub use self::multiply::multiply_blocks;
use super::super::product::{Dgrad, FP8_DEPTH, Fprop, Mxfp8, NVFP4_DEPTH, Nvfp4, Wgrad};
use super::super::scales::{A_SCALE_MAP, B_SCALE_MAP};
use super::super::shape::{TILE_M, TILE_N};
use super::ring::A_BYTES;
use super::schedule::{BOX_BYTES, BOX_ROWS, Copies, GroupOfBlocks, Schedule};
use crate::abi::mx::{
    MXFP8_BLOCK, MxScales, NVFP4_BLOCK, SCALE_TILE_BLOCKS, SCALE_TILE_BYTES, SCALE_TILE_ROWS,
};

/// Tiles of scales across a stage: one of the left operand, two of the right.
const TILES_ACROSS: u32 = 1 + TILE_N / TILE_M;
/// Bytes of a stage's scales in MXFP8.
pub const MXFP8_SCALES: u32 = TILES_ACROSS * tiles_along(FP8_DEPTH, MXFP8_BLOCK) * SCALE_TILE_BYTES;
/// Bytes of a stage's scales in NVFP4.
pub const NVFP4_SCALES: u32 =
    TILES_ACROSS * tiles_along(NVFP4_DEPTH, NVFP4_BLOCK) * SCALE_TILE_BYTES;

/// Tiles of scales along a stage of `depth` elements.
const fn tiles_along(depth: u32, block: u32) -> u32 {
    depth / (block * SCALE_TILE_BLOCKS)
}

/// What products with block scales read in a stage.
pub trait MxOperands: Schedule {
    /// The kind of the products.
    type Kind: BlockScaled;
    /// The left operand in a stage.
    type A: Operand<Element: ElementOf<Self::Kind>>;
    /// The right operand in a stage.
    type B: Operand<Element: ElementOf<Self::Kind>>;

    /// Bytes of the scales of 128 rows or columns in a stage.
    const SCALE_BYTES_EACH: u32 = Self::SCALE_BYTES / TILES_ACROSS;

    /// The left operand in the stage at `stage`, 128 rows of each block.
    fn a(stage: u32) -> Descriptor<Self::A>;

    /// The right operand in the stage at `stage`, all columns of the block.
    fn b(stage: u32) -> Descriptor<Self::B>;

    /// The instruction of a step of a stage, of elements of E5M2 where so said.
    fn instruction<P>(step: u32, e5m2: [bool; 2]) -> Instruction<P>
    where
        P: tcgen05::Product<Kind = Self::Kind, A = Self::A, B = Self::B>;
}

/// The block scales of one operand of a group.
struct GroupScales {
    layout: MxScales,
    /// Padded rows of all groups before.
    padded_offset: u64,
    /// Rows of the group that was quantized.
    rows: u32,
}

impl GroupScales {
    /// Those of the left and the right operand of fprop; a scale has `block` elements.
    #[inline(always)]
    fn fprop(group: &GroupOfBlocks, block: u32) -> [Self; 2] {
        let rowwise = MxScales { block, columns: group.k, columnwise: false, swizzled: true };
        [Self::of_tokens(group, rowwise), Self::of_weights(group, rowwise, group.n)]
    }

    /// The same of dgrad.
    #[inline(always)]
    fn dgrad(group: &GroupOfBlocks, block: u32) -> [Self; 2] {
        let rowwise = MxScales { block, columns: group.k, columnwise: false, swizzled: true };
        let columnwise = MxScales { columns: group.n, columnwise: true, ..rowwise };
        [Self::of_tokens(group, rowwise), Self::of_weights(group, columnwise, group.k)]
    }

    /// The same of wgrad.
    #[inline(always)]
    fn wgrad(group: &GroupOfBlocks, block: u32) -> [Self; 2] {
        [group.m, group.n].map(|columns| {
            let layout = MxScales { block, columns, columnwise: true, swizzled: true };
            Self::of_tokens(group, layout)
        })
    }

    #[inline(always)]
    fn of_tokens(group: &GroupOfBlocks, layout: MxScales) -> Self {
        Self { layout, padded_offset: group.padded_offset, rows: group.tokens }
    }

    /// Those of weights, of which every group has as many rows.
    #[inline(always)]
    fn of_weights(group: &GroupOfBlocks, layout: MxScales, rows: u32) -> Self {
        let before = u64::from(group.index) * u64::from(rows.next_multiple_of(SCALE_TILE_ROWS));
        Self { layout, padded_offset: before, rows }
    }

    /// The number of the tile that has the scales of a row or column of the output, which begins
    /// 128 of them, from an index of the reduction on. The tiles of the next indices follow.
    #[inline(always)]
    fn tile(&self, line: u32, reduction: u32) -> u32 {
        let Self { layout, padded_offset, rows } = *self;
        let block = reduction / layout.block;
        let (row, column) = if layout.columnwise { (block, line) } else { (line, block) };
        let offset = layout.base(padded_offset) + layout.offset(row, column, rows);
        (offset / u64::from(SCALE_TILE_BYTES)) as u32
    }
}

/// Copies the tiles of scales of a stage, of the left operand and of the right.
#[inline(always)]
unsafe fn copy_scales<S: MxOperands>(c: &Copies, [a, b]: [GroupScales; 2]) {
    let each = S::SCALE_BYTES_EACH;
    // SAFETY: in `Schedule::copy`. Tiles past the operand are other groups' or zeros, and count for
    // rows and columns that are not stored.
    unsafe {
        c.load_2d(c.scales, c.args + A_SCALE_MAP, 0, a.tile(c.row, c.reduction));
        for part in 0..TILE_N / TILE_M {
            let tile = b.tile(c.tile_column + TILE_M * part, c.reduction);
            c.load_2d(c.scales + each * (1 + part), c.args + B_SCALE_MAP, 0, tile);
        }
    }
}

/// What all of them have in common.
macro_rules! block_scales {
    ($bytes:ident) => {
        const SCALE_BYTES: u32 = $bytes;
        const HAS_BLOCKS: bool = true;

        #[inline(always)]
        unsafe fn prefetch_scale_maps(args: u64) {
            // SAFETY: the maps are part of the argument.
            unsafe {
                prefetch_map(args + A_SCALE_MAP);
                prefetch_map(args + B_SCALE_MAP);
            }
        }
    };
}

/// What those of MXFP8 have in common.
macro_rules! mxfp8 {
    () => {
        const DEPTH: u32 = FP8_DEPTH;
        const STEP: u32 = <Mxf8f6f4 as Kind>::DEPTH;
        block_scales!(MXFP8_SCALES);
    };
}

impl Schedule for Mxfp8<Fprop> {
    mxfp8!();
    const RAGGED_REDUCTION: bool = false;

    #[inline(always)]
    unsafe fn copy<G: Group>(c: &Copies) {
        // SAFETY: handed to the caller.
        unsafe {
            copy_rows::<G>(c, c.reduction);
            copy_scales::<Self>(c, GroupScales::fprop(&c.group, MXFP8_BLOCK));
        }
    }
}

impl Schedule for Mxfp8<Dgrad> {
    mxfp8!();
    const RAGGED_REDUCTION: bool = false;

    #[inline(always)]
    unsafe fn copy<G: Group>(c: &Copies) {
        // SAFETY: handed to the caller.
        unsafe {
            c.load_2d(c.stage, c.a_map, c.reduction, c.token + c.row);
            for part in 0..TILE_N / G::BLOCKS / BOX_ROWS {
                let destination = c.stage + A_BYTES + part * BOX_BYTES;
                c.load_weights(destination, c.column + BOX_ROWS * part, c.reduction);
            }
            copy_scales::<Self>(c, GroupScales::dgrad(&c.group, MXFP8_BLOCK));
        }
    }
}

impl Schedule for Mxfp8<Wgrad> {
    mxfp8!();
    const RAGGED_REDUCTION: bool = true;

    #[inline(always)]
    unsafe fn copy<G: Group>(c: &Copies) {
        let token = c.token + c.reduction;
        // SAFETY: handed to the caller.
        unsafe {
            c.load_2d(c.stage, c.a_map, c.row, token);
            for part in 0..TILE_N / G::BLOCKS / BOX_ROWS {
                let destination = c.stage + A_BYTES + part * BOX_BYTES;
                c.load_2d(destination, c.b_map, c.column + BOX_ROWS * part, token);
            }
            copy_scales::<Self>(c, GroupScales::wgrad(&c.group, MXFP8_BLOCK));
        }
    }
}

/// What those of NVFP4 have in common. Two elements are a byte.
macro_rules! nvfp4 {
    () => {
        const DEPTH: u32 = NVFP4_DEPTH;
        const STEP: u32 = <tcgen05::Nvfp4 as Kind>::DEPTH;
        block_scales!(NVFP4_SCALES);
    };
}

impl Schedule for Nvfp4<Fprop> {
    nvfp4!();
    const RAGGED_REDUCTION: bool = false;

    #[inline(always)]
    unsafe fn copy<G: Group>(c: &Copies) {
        // SAFETY: handed to the caller.
        unsafe {
            copy_rows::<G>(c, c.reduction / 2);
            copy_scales::<Self>(c, GroupScales::fprop(&c.group, NVFP4_BLOCK));
        }
    }
}

impl Schedule for Nvfp4<Dgrad> {
    nvfp4!();
    const RAGGED_REDUCTION: bool = false;

    #[inline(always)]
    unsafe fn copy<G: Group>(c: &Copies) {
        // SAFETY: handed to the caller.
        unsafe {
            copy_rows::<G>(c, c.reduction / 2);
            copy_scales::<Self>(c, GroupScales::dgrad(&c.group, NVFP4_BLOCK));
        }
    }
}

impl Schedule for Nvfp4<Wgrad> {
    nvfp4!();
    const RAGGED_REDUCTION: bool = true;
    const PADDED: bool = true;

    #[inline(always)]
    unsafe fn copy<G: Group>(c: &Copies) {
        let byte = (c.token + c.reduction) / 2;
        // SAFETY: handed to the caller.
        unsafe {
            c.load_2d(c.stage, c.a_map, byte, c.row);
            for part in 0..TILE_N / G::BLOCKS / BOX_ROWS {
                let destination = c.stage + A_BYTES + part * BOX_BYTES;
                c.load_2d(destination, c.b_map, byte, c.column + BOX_ROWS * part);
            }
            copy_scales::<Self>(c, GroupScales::wgrad(&c.group, NVFP4_BLOCK));
        }
    }
}

/// Copies tokens and weights that both run along the reduction, of which a line's stage begins at
/// `byte`.
#[inline(always)]
unsafe fn copy_rows<G: Group>(c: &Copies, byte: u32) {
    // SAFETY: in `Schedule::copy`.
    unsafe {
        c.load_2d(c.stage, c.a_map, byte, c.token + c.row);
        for part in 0..TILE_N / G::BLOCKS / BOX_ROWS {
            let destination = c.stage + A_BYTES + part * BOX_BYTES;
            c.load_weights(destination, byte, c.column + BOX_ROWS * part);
        }
    }
}

macro_rules! operands {
    ($($product:ty: $kind:ty, $a:ty = $a_of:expr, $b:ty = $b_of:expr, $instruction:expr;)+) => {$(
        impl MxOperands for $product {
            type Kind = $kind;
            type A = $a;
            type B = $b;

            #[inline(always)]
            fn a(stage: u32) -> Descriptor<Self::A> {
                $a_of(stage)
            }

            #[inline(always)]
            fn b(stage: u32) -> Descriptor<Self::B> {
                $b_of(stage + A_BYTES)
            }

            #[inline(always)]
            fn instruction<P>(step: u32, e5m2: [bool; 2]) -> Instruction<P>
            where
                P: tcgen05::Product<Kind = Self::Kind, A = Self::A, B = Self::B>,
            {
                $instruction(Instruction::at_step(step), e5m2)
            }
        }
    )+};
}

/// Bytes in lines along the reduction.
type Along = Matrix<E4m3, KMajor>;
/// Bytes in lines across it.
type Across = Matrix<E4m3, MnMajor>;
/// Halves of bytes in lines along it.
type Packed = Matrix<E2m1, KMajor>;

operands!(
    Mxfp8<Fprop>: Mxf8f6f4, Along = Descriptor::k_major, Along = Descriptor::k_major,
        Instruction::with_e5m2;
    Mxfp8<Dgrad>: Mxf8f6f4, Along = Descriptor::k_major, Across = mn_major, Instruction::with_e5m2;
    Mxfp8<Wgrad>: Mxf8f6f4, Across = mn_major, Across = mn_major, Instruction::with_e5m2;
    Nvfp4<Fprop>: tcgen05::Nvfp4, Packed = Descriptor::k_major, Packed = Descriptor::k_major, only;
    Nvfp4<Dgrad>: tcgen05::Nvfp4, Packed = Descriptor::k_major, Packed = Descriptor::k_major, only;
    Nvfp4<Wgrad>: tcgen05::Nvfp4, Packed = Descriptor::k_major, Packed = Descriptor::k_major, only;
);

/// The instruction of elements that have one type.
#[inline(always)]
fn only<P>(instruction: Instruction<P>, _: [bool; 2]) -> Instruction<P> {
    instruction
}

/// Boxes of 128 lines of the reduction, 128 rows or columns each.
#[inline(always)]
fn mn_major(address: u32) -> Descriptor<Across> {
    Descriptor::mn_major(address, BOX_BYTES)
}
