//! Exact numbers of weights in squares, from one read of the source: by the ring of
//! [`fp8::current`](crate::quantize::fp8::current), whose blocks keep tiles in shared memory until
//! their group's largest magnitude is known.
//!
//! A warp has sixteen rows of a tile, a square high. A lane has eight columns of each half of the
//! tile, in four of the rows; the lane beside it has the other half of its squares' columns.

use ptx_std::memory::{load_constant_u64, store_f32, store_u32x4_if};
use ptx_std::thread::{lane_index, shuffle_xor_f32, warp_index};

use super::super::e2m1::exact;
use super::super::scaling::Scaling;
use super::super::source::{CHUNK, Source, largest};
use super::super::tiles::is_skipped;
use super::super::unroll::each4;
use super::blocks::{block_scale, encode};
use crate::abi::mx::{NVFP4_BLOCK, Nvfp4Args};
use crate::gemm::element::Bf16;
use crate::quantize::fp8::current::{self, At, Copies, Tensor};
use crate::quantize::fp8::job::Job;
use crate::quantize::fp8::lines::OfLines;
use crate::quantize::fp8::source;
use crate::quantize::fp8::stage::{Stage, WIDTH};
use crate::quantize::fp8::tiles::{Extent, Tile};

/// Threads of a block.
pub use crate::quantize::fp8::current::THREADS;

/// Dynamic shared memory.
pub const SHARED_BYTES: u32 = current::shared_bytes::<OfSquares>();

/// Lanes side by side in half of a tile.
const ACROSS: u32 = WIDTH / 2 / CHUNK;
/// Rows that a warp has at once.
const AT_ONCE: u32 = 32 / ACROSS;

/// The kernel. It takes no more of [`Nvfp4Args`] than weights whose squares are mapped to 6, in
/// exact numbers: one copy, since both have the same.
///
/// # Safety
///
/// Blocks of [`THREADS`] threads with [`SHARED_BYTES`] of dynamic shared memory; the addresses in
/// `args` are valid for what its fields describe, and the progress has been cleared; columns are a
/// multiple of 16.
#[inline(always)]
pub unsafe fn run(args: &Nvfp4Args, _args_address: u64) {
    // SAFETY: the launcher keeps the contract above.
    unsafe {
        if !is_skipped(args.source.skip) {
            current::run::<OfSquares>(args);
        }
    }
}

impl Tensor for Nvfp4Args {
    #[inline(always)]
    fn extent(&self) -> Extent {
        let source = &self.source;
        let (groups, rows, columns) = (source.groups, source.rows, source.columns);
        Extent { table: 0, groups, rows, columns }
    }

    #[inline(always)]
    fn progress(&self) -> u64 {
        self.progress
    }

    #[inline(always)]
    unsafe fn job(&self, tile: &Tile, bytes: u32) -> Job {
        let (group, source) = (u64::from(tile.group), &self.source);
        let columns = u64::from(source.columns);
        let in_group = u64::from(tile.row) * columns + u64::from(tile.column);
        let before = group * u64::from(source.rows) * columns;
        // SAFETY: an array has an address for each group.
        let address = unsafe {
            match source.array {
                0 => source.base + u64::from(bytes) * before,
                array => load_constant_u64(array + 8 * group),
            }
        };
        let copy = if self.rowwise.exact != 0 { self.rowwise } else { self.columnwise };
        Job {
            source: address + u64::from(bytes) * in_group,
            row_data: copy.exact + 2 * (before + in_group),
            row_scales: 0,
            column_data: 0,
            column_scales: 0,
            sums: 0,
            rows: tile.rows,
            columns: tile.columns,
            padded_rows: tile.rows,
            scale: 0.0,
        }
    }

    /// The magnitude itself, of which [`Scaling`] is made.
    #[inline(always)]
    fn scale(&self, amax: f32) -> f32 {
        amax
    }

    #[inline(always)]
    unsafe fn store_scale(&self, group: u32, amax: f32) {
        // SAFETY: handed to the caller.
        unsafe { store_f32(self.rowwise_amax + 4 * u64::from(group), amax) }
    }
}

/// Squares, in exact numbers.
pub struct OfSquares;

impl Copies for OfSquares {
    type Element = source::Bf16;
    type Args = Nvfp4Args;
    type Words = [[[u32; 4]; 2]; 4];

    const STAGES: u32 = current::ROOM.next_multiple_of(128);

    #[inline(always)]
    unsafe fn take(stage: Stage) -> Self::Words {
        // SAFETY: handed to the caller.
        unsafe { OfLines::<source::Bf16>::take(stage) }
    }

    #[inline(always)]
    fn amax(words: &Self::Words) -> f32 {
        OfLines::<source::Bf16>::amax(words)
    }

    #[inline(always)]
    unsafe fn store(args: &Nvfp4Args, at: At, amax: f32, _meet: impl Fn(), free: impl Fn()) {
        let (part, below) = (lane_index() % ACROSS, lane_index() / ACROSS);
        // SAFETY: handed to the caller.
        unsafe {
            let job = Job::take(at.job);
            let words = Self::take(at.stage);
            free();
            let scaling = Scaling::new(amax, args.bound);
            let row = NVFP4_BLOCK * warp_index() + below;
            let column = CHUNK * part;
            store_squares(args, &job, &scaling, words.map(|[left, _]| left), row, column);
            let column = column + WIDTH / 2;
            store_squares(args, &job, &scaling, words.map(|[_, right]| right), row, column);
        }
    }
}

/// Quantizes and stores eight columns of four rows, from a row and a column of the tile on.
#[inline(always)]
unsafe fn store_squares(
    args: &Nvfp4Args,
    job: &Job,
    scaling: &Scaling,
    chunks: [[u32; 4]; 4],
    row: u32,
    column: u32,
) {
    // SAFETY: as in `Copies::store`.
    unsafe {
        // The largest magnitude of the square: four rows here, and seven other lanes'.
        let mut all = Bf16::magnitudes(chunks[0]);
        each4(|i| all = Bf16::max(all, Bf16::magnitudes(chunks[i])));
        let mut amax = largest(Bf16::widen(all));
        for distance in [1, ACROSS, 2 * ACROSS] {
            amax = amax.max(shuffle_xor_f32(amax, distance));
        }
        let block = block_scale(scaling, amax);

        let pitch = 2 * u64::from(args.source.columns);
        let to = job.row_data + u64::from(row) * pitch + 2 * u64::from(column);
        each4(|i| {
            let values = Bf16::values(Bf16::numbers(chunks[i]));
            let (codes, signs) = encode(values, block.factor, None);
            let below = AT_ONCE * i as u32;
            let exists = row + below < job.rows && column < job.columns;
            let to = to + u64::from(below) * pitch;
            store_u32x4_if(exists, to, exact(codes, signs, block.scale));
        });
    }
}
