//! Scales of FP8 operands on their way to the sums of a stage.

use core::marker::PhantomData;

use ptx_std::convert::fma;
use ptx_std::memory::{load_constant_f32, load_shared_f32, load_shared_f32x2};
use ptx_std::tma::prefetch_map;

use super::product::FP8_DEPTH;
use super::scheduler::Work;
use super::shape::{TILE_M, TILE_N};
use crate::abi::quantize::{Blocks, SCALE_RUN};
use crate::abi::scaled::{A_SCALE_BOX, B_SCALE_BOX, OperandScales, ScaledGemmArgs};
use crate::table::Table;

/// The blocks of an operand that share a scale.
pub trait Scales {
    /// Which blocks.
    const BLOCKS: Blocks;
    /// Whether there are scales but that of the group.
    const SCALED: bool = Self::VECTOR || Self::SQUARE;
    /// Whether each row or column has its own scales.
    const VECTOR: bool = matches!(Self::BLOCKS, Blocks::Vector);
    /// Whether 128 rows or columns share a scale.
    const SQUARE: bool = matches!(Self::BLOCKS, Blocks::Square);
}

/// One scale for all elements of a group.
pub struct Tensor;
/// Scales of 128 neighbours along the reduction.
pub struct Vector;
/// Scales of 128 × 128 elements.
pub struct Square;

impl Scales for Tensor {
    const BLOCKS: Blocks = Blocks::Tensor;
}

impl Scales for Vector {
    const BLOCKS: Blocks = Blocks::Vector;
}

impl Scales for Square {
    const BLOCKS: Blocks = Blocks::Square;
}

/// Bytes of the left operand's scales in a stage.
pub const A_SCALE_BYTES: u32 = 4 * A_SCALE_BOX;
/// Bytes of the right operand's scales in a stage.
pub const B_SCALE_BYTES: u32 = 4 * B_SCALE_BOX;
/// Where the right operand's scales stand among a stage's: destinations of copies are multiples of
/// 128.
pub const B_SCALES: u32 = A_SCALE_BYTES.next_multiple_of(128);
/// Bytes of a stage's scales.
pub const SCALE_BYTES: u32 = B_SCALES + B_SCALE_BYTES;

const _: () = assert!(SCALE_BYTES.is_multiple_of(128), "so are those of the next stage");
const _: () = assert!(B_SCALE_BOX == TILE_N && A_SCALE_BOX >= TILE_M + 3);

/// Bytes that the copies of a stage's scales bring.
pub const fn scale_bytes<A: Scales, B: Scales>() -> u32 {
    let a_scales = if A::VECTOR { A_SCALE_BYTES } else { 0 };
    let b_scales = if B::VECTOR { B_SCALE_BYTES } else { 0 };
    a_scales + b_scales
}

/// Offset of the left operand's map of scales in the argument.
pub const A_SCALE_MAP: u64 = core::mem::offset_of!(ScaledGemmArgs, a_scale_map) as u64;
/// Offset of the right operand's map of scales in the argument.
pub const B_SCALE_MAP: u64 = core::mem::offset_of!(ScaledGemmArgs, b_scale_map) as u64;

const _: () = assert!(core::mem::offset_of!(ScaledGemmArgs, gemm) == 0, "one address names both");
const _: () = assert!(A_SCALE_MAP.is_multiple_of(64) && B_SCALE_MAP.is_multiple_of(64));

/// Brings the maps of scales into the descriptor cache.
///
/// # Safety
///
/// `args` is the generic address of the argument.
#[inline(always)]
pub unsafe fn prefetch_scale_maps<A: Scales, B: Scales>(args: u64) {
    // SAFETY: the maps are part of the argument.
    unsafe {
        if A::VECTOR {
            prefetch_map(args + A_SCALE_MAP);
        }
        if B::VECTOR {
            prefetch_map(args + B_SCALE_MAP);
        }
    }
}

/// How far a token is past a place where a copy of scales may start: all first rows of a group's
/// tiles are equally far.
#[inline(always)]
pub fn skew(token: u32) -> u32 {
    token % SCALE_RUN
}

/// Row and first element of the matrices of squares that a tile's left and right operand have their
/// scales in, for the columns from `column` on.
///
/// # Safety
///
/// The group is one of the table's.
#[inline(always)]
pub unsafe fn first_blocks(
    ragged_reduction: bool,
    n: u32,
    table: &Table,
    work: &Work,
    column: u32,
) -> [[u32; 2]; 2] {
    // SAFETY: handed to the caller.
    let padded = unsafe { table.padded_offset(work.group) } as u32 / FP8_DEPTH;
    let row_block = work.row / FP8_DEPTH;
    // Columns outside the output take the last scale; their sums are not stored.
    let column_block = column.min(n - 1) / FP8_DEPTH;
    if ragged_reduction {
        [[row_block, padded], [column_block, padded]]
    } else {
        [[padded + row_block, 0], [column_block, 0]]
    }
}

/// Where the scale stands that all rows or columns of a warpgroup share, stage after stage. Without
/// squares it stands nowhere.
pub struct SharedScale<S> {
    /// Elements before it. Each stands for 16 KiB of the operand, so 32 bits are enough.
    index: u32,
    blocks: PhantomData<S>,
}

impl<S: Scales> SharedScale<S> {
    /// That at row `i` and element `j` of a group's matrix; the next stages' follow it.
    #[inline(always)]
    pub fn new(scales: &OperandScales, group: u32, [i, j]: [u32; 2]) -> Self {
        let index = if S::SQUARE {
            let layout = &scales.layout;
            group * layout.group_pitch as u32 + i * layout.pitch as u32 + j
        } else {
            0
        };
        Self { index, blocks: PhantomData }
    }

    /// This stage's, or `one` without squares.
    ///
    /// # Safety
    ///
    /// It is called once for each stage, with the scales that `new` got.
    #[inline(always)]
    pub unsafe fn take(&mut self, scales: &OperandScales, one: f32) -> f32 {
        if !S::SQUARE {
            return one;
        }
        let address = scales.scale_inv + 4 * u64::from(self.index);
        self.index += 1;
        // SAFETY: the matrix has an element for each stage.
        unsafe { load_constant_f32(address) }
    }
}

/// The scales of two rows of a thread, eight rows apart: from the stage's at `address`, that of the
/// upper row, or `shared`.
///
/// # Safety
///
/// As [`load_shared_f32`], if each row has its own.
#[inline(always)]
pub unsafe fn row_scales<S: Scales>(address: u32, shared: f32) -> [f32; 2] {
    if S::VECTOR {
        // SAFETY: handed to the caller.
        unsafe { [load_shared_f32(address), load_shared_f32(address + 4 * 8)] }
    } else {
        [shared; 2]
    }
}

/// The scales of two neighbouring columns of a thread: from the stage's at `address`, or `shared`.
///
/// # Safety
///
/// As [`load_shared_f32x2`], if each column has its own.
#[inline(always)]
pub unsafe fn column_scales<S: Scales>(address: u32, shared: f32) -> [f32; 2] {
    if S::VECTOR {
        // SAFETY: handed to the caller.
        unsafe { load_shared_f32x2(address) }
    } else {
        [shared; 2]
    }
}

/// `sums += scales · products` of fragment `INDEX` of a thread's sums, eight columns wide: two
/// neighbours in each of two rows. Its products are fragment `PRODUCT` of `products`; `columns` is
/// the address of the scales of the first fragment's columns, or `column_scale` is that of all.
///
/// # Safety
///
/// As [`column_scales`].
#[inline(always)]
pub unsafe fn promote_fragment<
    B: Scales,
    const INDEX: usize,
    const PRODUCT: usize,
    const PRODUCTS: usize,
>(
    sums: &mut [f32; 64],
    products: &[f32; PRODUCTS],
    [upper, lower]: [f32; 2],
    columns: u32,
    column_scale: f32,
) {
    let (i, p) = (4 * INDEX, 4 * PRODUCT);
    // SAFETY: handed to the caller.
    let [left, right] = unsafe { column_scales::<B>(columns + 4 * 8 * INDEX as u32, column_scale) };
    let [above, below] =
        [upper, lower].map(|row| if B::SCALED { [row * left, row * right] } else { [row; 2] });
    sums[i] = fma(above[0], products[p], sums[i]);
    sums[i + 1] = fma(above[1], products[p + 1], sums[i + 1]);
    sums[i + 2] = fma(below[0], products[p + 2], sums[i + 2]);
    sums[i + 3] = fma(below[1], products[p + 3], sums[i + 3]);
}
