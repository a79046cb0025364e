//! Scales of FP8 operands on their way to the sums of a stage.

use core::marker::PhantomData;

use ptx_std::convert::fma;
use ptx_std::memory::{
    load_constant_f32, load_constant_u32_if, load_shared_f32, load_shared_f32x2,
};
use ptx_std::thread::{WARP, ballot, lane_index, shuffle_index};
use ptx_std::tma::prefetch_map;

use super::product::FP8_DEPTH;
use super::scheduler::Work;
use super::shape::{TILE_M, TILE_N};
use crate::abi::quantize::{Blocks, SCALE_RUN};
use crate::abi::scaled::{A_SCALE_BOX, ALIGN_WINDOW, B_SCALE_BOX, OperandScales, ScaledGemmArgs};
use crate::quantize::mx::unroll::each8;
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
    /// Whether each row or column has one scale, and the vectors in it factors, most of them 1.
    const ALIGNED: bool = false;
    /// The scales of a stage without factors.
    type Plain: Scales;
}

/// One scale for all elements of a group.
pub struct Tensor;
/// Scales of 128 neighbours along the reduction.
pub struct Vector;
/// Scales of 128 × 128 elements.
pub struct Square;
/// Scales of 128 neighbours along the reduction, brought to one for each column
/// ([`AlignArgs`](crate::abi::scaled::AlignArgs)). Of the right operand alone.
pub struct Aligned;

impl Scales for Tensor {
    const BLOCKS: Blocks = Blocks::Tensor;
    type Plain = Self;
}

impl Scales for Vector {
    const BLOCKS: Blocks = Blocks::Vector;
    type Plain = Self;
}

impl Scales for Square {
    const BLOCKS: Blocks = Blocks::Square;
    type Plain = Self;
}

impl Scales for Aligned {
    const BLOCKS: Blocks = Blocks::Vector;
    const ALIGNED: bool = true;
    type Plain = Tensor;
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

/// Which halves of a tile's columns, from `column` on, have no factors in the blocks from `first`
/// to `end`: a bit for each ([`AlignArgs::runs`](crate::abi::scaled::AlignArgs::runs), which end
/// with their windows, of one window after the other).
///
/// # Safety
///
/// `scales` says where the runs of `n` lines stand, for so many blocks; the whole warp calls it
/// together.
#[inline(always)]
pub unsafe fn plain_halves(
    scales: &OperandScales,
    n: u32,
    column: u32,
    [first, end]: [u32; 2],
) -> u32 {
    /// Blocks of a window, and what a row of runs is a multiple of.
    const WINDOW: u32 = ALIGN_WINDOW / FP8_DEPTH;
    /// Lanes of a half.
    const LANES: u32 = WARP / 2;

    // A lane has every sixteenth window of its half. Rows of runs begin with a window, so places in
    // all rows together do for blocks; each stands for 16 KiB of the operand, so 32 bits are
    // enough.
    let lane = lane_index();
    let column = column + FP8_DEPTH * (lane / LANES);
    let row = column / FP8_DEPTH * scales.layout.pitch as u32;
    let [first, end] = [row + first, if column < n { row + end } else { 0 }];
    let mut place = first.max(first / WINDOW * WINDOW + WINDOW * (lane % LANES));
    let mut is_plain = true;
    // SAFETY: handed to the caller.
    unsafe {
        while ballot(place < end) != 0 {
            let address = scales.scale_inv + 4 * u64::from(place);
            let run = load_constant_u32_if(place < end, address);
            let next = place / WINDOW * WINDOW + WINDOW;
            is_plain &= place + run >= end.min(next);
            place = next + WINDOW * (LANES - 1);
        }
        let plain = ballot(is_plain);
        u32::from(plain as u16 == u16::MAX) | u32::from(plain >> LANES == u16::MAX.into()) << 1
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

/// The scales of 128 lines
/// ([`AlignArgs::line_scales`](crate::abi::scaled::AlignArgs::line_scales)), of which each lane of
/// a warp keeps four: loaded when a tile begins, in one register.
pub struct LineScales(u32);

impl LineScales {
    /// No scales, of an operand that has none.
    pub const NONE: Self = Self(0);

    /// This lane's, of a group of `n` lines from `column` on; zeros beyond, and for a group without
    /// tokens, of which nothing has been written.
    ///
    /// # Safety
    ///
    /// Scales stand there for all lines, a multiple of four, of groups that have tokens.
    #[inline(always)]
    pub unsafe fn load(
        scales: &OperandScales,
        n: u32,
        [group, column, lane]: [u32; 3],
        has_tokens: bool,
    ) -> Self {
        let own = column + 4 * lane;
        let place = u64::from(group) * u64::from(n) + u64::from(own);
        // SAFETY: handed to the caller.
        Self(unsafe { load_constant_u32_if(has_tokens && own < n, scales.line_scales + place) })
    }

    /// Those of a thread's two columns of the fragment of eight at `index`.
    #[inline(always)]
    unsafe fn of_fragment(&self, index: u32, lane: u32) -> [f32; 2] {
        let quad = lane % 4;
        // SAFETY: the caller brings the warp.
        let four = unsafe { shuffle_index(self.0, 2 * index + quad / 2) };
        let two = four >> (16 * (quad % 2));
        [f32::from_bits((two & 0xff) << 23), f32::from_bits((two & 0xff00) << 15)]
    }

    /// Multiplies a thread's sums of 128 columns, 64 rows each, by the columns' scales.
    ///
    /// # Safety
    ///
    /// The whole warp calls it together.
    #[inline(always)]
    pub unsafe fn multiply(&self, [upper, lower]: &mut [[f32; 64]; 2], lane: u32) {
        let mut fragment = |index: usize| {
            // SAFETY: handed to the caller.
            let [left, right] = unsafe { self.of_fragment(index as u32, lane) };
            let i = 4 * index;
            for sums in [&mut *upper, &mut *lower] {
                sums[i] *= left;
                sums[i + 1] *= right;
                sums[i + 2] *= left;
                sums[i + 3] *= right;
            }
        };
        each8(&mut fragment);
        each8(|index| fragment(8 + index));
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
