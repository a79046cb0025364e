//! The readable grouped GEMM: one thread, sixteen sums, fused multiply-adds in the order of the
//! reduction.
//!
//! It takes any type, size, stride and alignment, and is the device-side reference of the
//! tensor-core kernels. A block of 256 threads makes a tile of 64 × 64, 16 reduction indices at a
//! time:
//!
//! ```text
//!              64 columns                    shared memory, binary32
//!            ┌────────────┐                  A: [16][PITCH], reduction index outermost
//!   64 rows  │ 4×4 each   │                  B: [16][PITCH]
//!            └────────────┘
//! ```

// Loops over indices of constant range are taken apart, and their arrays live in registers;
// iterators over arrays are not always.
#![allow(clippy::needless_range_loop)]

use ptx_std::convert::fma;
use ptx_std::memory::{load_shared_f32x4, shared_base, store_shared_f32};
use ptx_std::sync::block_barrier;
use ptx_std::thread::{block_index, grid_blocks, thread_index};

use super::element::Element;
use super::epilogue::{Epilogue, Known};
use super::scheduler::{Scheduler, Work};
use crate::abi::{GemmArgs, Ragged};
use crate::table::Table;

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Rows and columns of a tile.
pub const TILE: u32 = 64;
/// Reduction indices of a step.
pub const DEPTH: u32 = 16;
/// Elements between two reduction indices in shared memory. Four more than the tile, so that a warp
/// that stores along the reduction meets few bank conflicts, and quadruples stay aligned.
const PITCH: u32 = TILE + 4;
/// Bytes of one operand's step in shared memory.
const OPERAND_BYTES: u32 = 4 * PITCH * DEPTH;
/// Dynamic shared memory of the kernel.
pub const SHARED_BYTES: u32 = 2 * OPERAND_BYTES;

const _: () = assert!(THREADS * 16 == TILE * TILE, "sixteen sums per thread");
const _: () = assert!(TILE * DEPTH == 4 * THREADS, "four loads per thread and operand");

/// One operand of a tile: `line` is its row (of A) or column (of B).
struct Side {
    /// Address of the tile's first line at reduction index 0.
    source: u64,
    /// Elements between lines.
    line_stride: u64,
    /// Elements between reduction indices.
    reduction_stride: u64,
    /// Lines that exist, from the tile's first on.
    lines: u32,
    /// Where its step lies in shared memory.
    shared: u32,
}

/// The kernel.
///
/// # Safety
///
/// Blocks of 256 threads with [`SHARED_BYTES`] of dynamic shared memory; the addresses in `args`
/// are valid for what its fields describe.
#[inline(always)]
pub unsafe fn run<E: Element>(args: &GemmArgs, _args_address: u64) {
    // SAFETY: the launcher keeps the contract above. All warps of a block get the same tiles from
    // their schedulers and take the same number of steps, so they meet at every barrier.
    unsafe {
        let table = Table::new(args.table, args.groups);
        let shared = shared_base();
        let mut scheduler = Scheduler::new(table, args.n.div_ceil(TILE), false);
        let mut tile = block_index();
        while let Some(work) = scheduler.place([TILE, TILE], tile) {
            tile += grid_blocks();
            // Find the tile's operands.
            let m = table.m(work.group);
            let depth = table.k(work.group);
            let a = Side {
                source: table.a_pointer(work.group)
                    + u64::from(work.row) * args.a_row_stride * E::BYTES,
                line_stride: args.a_row_stride,
                reduction_stride: args.a_reduction_stride,
                lines: m - work.row,
                shared,
            };
            let b = Side {
                source: table.b_pointer(work.group)
                    + u64::from(work.column) * args.b_column_stride * E::BYTES,
                line_stride: args.b_column_stride,
                reduction_stride: args.b_reduction_stride,
                lines: args.n - work.column,
                shared: shared + OPERAND_BYTES,
            };

            // Sum the products, a step at a time.
            let mut sums: [[f32; 4]; 4] = core::mem::zeroed();
            let mut done = 0;
            while done < depth {
                load_step::<E>(&a, done, depth);
                load_step::<E>(&b, done, depth);
                block_barrier();
                multiply_step(&mut sums, shared);
                block_barrier();
                done += DEPTH;
            }

            // Finish the tile.
            let row_scales = args.ragged == Ragged::Rows as u32;
            let known = Known { bias: true, row_scales, column_unit: 8 };
            let epilogue = Epilogue::new(args, &table, work.group, known);
            finish(&epilogue, &work, m, args.n, &sums);
        }
    }
}

/// Brings reduction indices `done .. done + 16` of an operand to shared memory, zeros where there
/// are none.
#[inline(always)]
unsafe fn load_step<E: Element>(side: &Side, done: u32, depth: u32) {
    let thread = thread_index();
    let mut index = thread;
    while index < TILE * DEPTH {
        // Let neighbouring threads load neighbouring elements, whichever way the operand lies.
        let (line, k) = if side.reduction_stride == 1 {
            (index / DEPTH, index % DEPTH)
        } else {
            (index % TILE, index / TILE)
        };
        let reduction = done + k;
        let value = if line < side.lines && reduction < depth {
            let element =
                u64::from(line) * side.line_stride + u64::from(reduction) * side.reduction_stride;
            // SAFETY: the element is inside the operand.
            unsafe { E::load(side.source + element * E::BYTES) }
        } else {
            0.0
        };
        // SAFETY: each thread has its own elements of the step.
        unsafe { store_shared_f32(side.shared + 4 * (k * PITCH + line), value) };
        index += THREADS;
    }
}

/// Adds the products of the step in shared memory to this thread's sums.
#[inline(always)]
unsafe fn multiply_step(sums: &mut [[f32; 4]; 4], shared: u32) {
    let thread = thread_index();
    let a = shared + 16 * (thread / 16);
    let b = shared + OPERAND_BYTES + 16 * (thread % 16);
    for k in 0..DEPTH {
        // SAFETY: inside the step, which nobody writes between the two barriers.
        let (a, b) =
            unsafe { (load_shared_f32x4(a + 4 * k * PITCH), load_shared_f32x4(b + 4 * k * PITCH)) };
        for row in 0..4 {
            for column in 0..4 {
                sums[row][column] = fma(a[row], b[column], sums[row][column]);
            }
        }
    }
}

/// Finishes this thread's sixteen elements, as far as they are inside the output.
#[inline(always)]
unsafe fn finish(epilogue: &Epilogue, work: &Work, m: u32, n: u32, sums: &[[f32; 4]; 4]) {
    let thread = thread_index();
    let row = work.row + 4 * (thread / 16);
    let column = work.column + 4 * (thread % 16);
    let [a, b, c, d] = *sums;
    // SAFETY: only elements inside the output are stored, and they are this thread's.
    unsafe {
        let finish = |row: u32, [a, b, c, d]: [f32; 4]| {
            if row < m {
                let factors = [epilogue.row_alpha(row, true), epilogue.bias_scale(row)];
                let finish = |column: u32, sum: f32| {
                    if column < n {
                        epilogue.store(row, column, factors, sum);
                    }
                };
                finish(column, a);
                finish(column + 1, b);
                finish(column + 2, c);
                finish(column + 3, d);
            }
        };
        finish(row, a);
        finish(row + 1, b);
        finish(row + 2, c);
        finish(row + 3, d);
    }
}
