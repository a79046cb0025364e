//! Scales on their way to the sums of a stage.

use core::marker::PhantomData;

use ptx_std::memory::{load_constant_f32, load_shared_f32, load_shared_f32x2};

use super::Scales;
use crate::abi::scaled::OperandScales;

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
