//! FP8 by persistent blocks: `amax_tiles`, `quantize_tensor`, `quantize_vector`, `quantize_square`;
//! by blocks that take one tile each: [`lines`], for a rowwise copy alone; and [`group_scales`] and
//! [`dequantize`] beside them.
//!
//! A block walks the tiles of 128 × 128 elements that are `grid` apart. It copies a tile to shared
//! memory by `cp.async`, and both copies are made from there: the source is read once. Rows and
//! columns that do not exist are zeros in shared memory; zeros change no maximum and no sum, and they
//! are what the padding of the transposed copy holds.
//!
//! ```text
//!  source ──cp.async──▶ stage ──┬─ own chunks ──▶ amax of the tile (square, delayed, amax_tiles)
//!                               ├─ along rows ──▶ rowwise copy: 8 lanes × 16 bytes = 128 of a row
//!                               └─ along columns ▶ columnwise copy: 8 lanes × 16 bytes = 128 of a
//!                                                  column; sums for dbias
//! ```
//!
//! # Why it can be as fast as memory
//!
//! An estimate. An H200 copies about 4.2 TB/s, 32 bytes a nanosecond for each of 132 multiprocessors.
//! A load comes back after about 1 µs under load, so about 32 KiB must be on their way on each; two
//! thirds of that are loads where one copy is made from 16-bit elements, half where both are.
//!
//! | | 16-bit source | FP32 source |
//! | --- | ---: | ---: |
//! | bytes read for a tile | 32 KiB | 64 KiB |
//! | bytes written for a copy | 16 KiB | 16 KiB |
//! | stages of a block | 2 | 1 |
//! | loads on their way, with [`QUANTIZE_BLOCKS`] blocks | 96 to 192 KiB | up to 192 KiB |
//! | nanoseconds of a tile at that speed: amax alone, one copy, both | 1000, 1500, 2000 | 2000, 2500, 3000 |
//!
//! What a multiprocessor has to do in that time, counted in machine code and in the emulator: both
//! copies with a scale per vector are about 14 instructions an element, 7200 warp instructions a
//! tile, which four schedulers issue in 1.0 µs at best; one copy with a given scale is 6, amax alone
//! 3. Shared memory makes 4 to 9 passes of 128 bytes for 128 elements (FP32: up to 15), a third of the
//! time, and none twice because of bank conflicts. A third of the instructions once were those of
//! finding the next tile, so one warp does that for all ([`job`]).
//!
//! Three blocks of 256 threads leave a thread 80 registers, which the launch bounds ask for.

mod columns;
pub mod dequantize;
pub mod group_scales;
mod job;
pub mod lines;
mod rows;
mod scale;
mod source;
mod stage;
mod tiles;

use ptx_std::memory::{
    commit_copies, load_constant_u32, load_shared_f32, shared_base, store_f32, store_shared_f32,
    wait_copies,
};
use ptx_std::sync::block_barrier;
use ptx_std::thread::{
    WARP, block_index, grid_blocks, lane_index, thread_index, warp_index, warp_max,
};

use self::columns::{ColumnScales, Columns};
use self::job::Job;
use self::rows::Rows;
use self::scale::{Format, ScaleRule};
use self::source::{Bf16, F16, F32, Source};
use self::stage::{HEIGHT, Stage};
use self::tiles::{BAND, Extent};
use crate::abi::ElementType;
use crate::abi::quantize::{Blocks, QUANTIZE_BLOCKS, QuantizeArgs};

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Warps of a block.
const WARPS: u32 = THREADS / WARP;

/// Stages of a block, whatever the source.
const STAGES_BYTES: u32 = {
    let halves = Bf16::STAGES * Stage::bytes(Bf16::BYTES);
    let singles = F32::STAGES * Stage::bytes(F32::BYTES);
    if halves > singles { halves } else { singles }
};

/// Tiles that are known at once: one that is worked on, one on its way, one after it.
const JOBS: u32 = 3;

/// Dynamic shared memory: the stages, the tiles, and a maximum per warp.
pub const SHARED_BYTES: u32 = STAGES_BYTES + JOBS * Job::BYTES + 4 * WARPS;

const _: () = assert!(WARPS * stage::STRIP == HEIGHT, "a warp takes one strip of rows");
const _: () = assert!(
    QUANTIZE_BLOCKS * (SHARED_BYTES + 1024) <= 228 * 1024,
    "the blocks of a multiprocessor fit into its shared memory"
);

/// What shares a scale, at compile time.
pub trait Sharing {
    const BLOCKS: Blocks;
}

struct OfTensor;
struct OfVector;
struct OfSquare;

impl Sharing for OfTensor {
    const BLOCKS: Blocks = Blocks::Tensor;
}

impl Sharing for OfVector {
    const BLOCKS: Blocks = Blocks::Vector;
}

impl Sharing for OfSquare {
    const BLOCKS: Blocks = Blocks::Square;
}

/// Stores the largest magnitude of each tile.
///
/// # Safety
///
/// Blocks of [`THREADS`] threads with [`SHARED_BYTES`] of dynamic shared memory; the addresses in
/// `args` are valid for what its fields describe; the source's, its columns and the data's are
/// multiples of 16.
#[inline(always)]
pub unsafe fn amax_tiles(args: &QuantizeArgs, _args_address: u64) {
    // SAFETY: handed to the launcher.
    unsafe { for_source::<OfTensor, false>(args) }
}

/// Quantizes with a given scale per group.
///
/// # Safety
///
/// As [`amax_tiles`].
#[inline(always)]
pub unsafe fn quantize_tensor(args: &QuantizeArgs, _args_address: u64) {
    // SAFETY: handed to the launcher.
    unsafe { for_source::<OfTensor, true>(args) }
}

/// Quantizes with a scale for each 128 elements along the copy's reduction.
///
/// # Safety
///
/// As [`amax_tiles`].
#[inline(always)]
pub unsafe fn quantize_vector(args: &QuantizeArgs, _args_address: u64) {
    // SAFETY: handed to the launcher.
    unsafe { for_source::<OfVector, true>(args) }
}

/// Quantizes with a scale for each 128 × 128 elements.
///
/// # Safety
///
/// As [`amax_tiles`].
#[inline(always)]
pub unsafe fn quantize_square(args: &QuantizeArgs, _args_address: u64) {
    // SAFETY: handed to the launcher.
    unsafe { for_source::<OfSquare, true>(args) }
}

/// As [`quantize_tensor`], of BF16 or FP16 and into a rowwise copy alone.
///
/// # Safety
///
/// Blocks of [`THREADS`] threads with [`lines::SHARED_BYTES`] of dynamic shared memory, at least one
/// for each tile; the addresses in `args` are valid for what its fields describe; the source's, its
/// columns and the data's are multiples of 16.
#[inline(always)]
pub unsafe fn quantize_tensor_rows(args: &QuantizeArgs, _args_address: u64) {
    // SAFETY: handed to the launcher.
    unsafe { lines::run::<OfTensor>(args) }
}

/// As [`quantize_vector`], of BF16 or FP16 and into a rowwise copy alone.
///
/// # Safety
///
/// As [`quantize_tensor_rows`].
#[inline(always)]
pub unsafe fn quantize_vector_rows(args: &QuantizeArgs, _args_address: u64) {
    // SAFETY: handed to the launcher.
    unsafe { lines::run::<OfVector>(args) }
}

/// As [`quantize_square`], of BF16 or FP16 and into a rowwise copy alone.
///
/// # Safety
///
/// As [`quantize_tensor_rows`].
#[inline(always)]
pub unsafe fn quantize_square_rows(args: &QuantizeArgs, _args_address: u64) {
    // SAFETY: handed to the launcher.
    unsafe { lines::run::<OfSquare>(args) }
}

#[inline(always)]
unsafe fn for_source<B: Sharing, const QUANTIZES: bool>(args: &QuantizeArgs) {
    const BF16: u32 = ElementType::Bf16 as u32;
    const F16_: u32 = ElementType::F16 as u32;
    // SAFETY: handed to the caller.
    unsafe {
        // Leave everything as it is where the flag says so.
        if args.skip != 0 && load_constant_u32(args.skip) != 0 {
            return;
        }
        match args.source_type {
            BF16 => walk::<Bf16, B, QUANTIZES>(args),
            F16_ => walk::<F16, B, QUANTIZES>(args),
            _ => walk::<F32, B, QUANTIZES>(args),
        }
    }
}

/// Takes the tiles of this block, one after another, while the next is on its way.
#[inline(always)]
unsafe fn walk<S: Source, B: Sharing, const QUANTIZES: bool>(args: &QuantizeArgs) {
    // SAFETY: the launcher keeps the contract of `amax_tiles`. All threads of a block take the same
    // tiles, so they meet at every barrier.
    unsafe {
        let (tiles, step) = (Extent::of(args).tiles(), grid_blocks());
        let first = block_index();
        if first >= tiles {
            return;
        }
        let shared = shared_base();
        let stage_at = |slot: u32| Stage { address: shared + slot * Stage::bytes(S::BYTES) };
        let job_at = |slot: u32| shared + STAGES_BYTES + slot * Job::BYTES;
        let amax_slots = job_at(JOBS);
        let warp = warp_index();
        let leads = warp == WARPS - 1;
        let wants_amax =
            !QUANTIZES || matches!(B::BLOCKS, Blocks::Square) || args.amax_partial != 0;

        // A tile is located in one round, asked for in the next, and worked on in the one after it; in
        // the same one if there is one stage. The first rounds know no tiles to work on: their
        // indices are below zero, which is above any other.
        let ahead = if S::STAGES == 2 { step } else { 0 };
        let (mut coming, mut stage_slot, mut job_slot) = (first.wrapping_sub(step), 0, 0);
        loop {
            // Ask for a tile.
            if coming < tiles {
                let job = Job::take(job_at(job_slot));
                let pitch = u64::from(args.columns) * u64::from(S::BYTES);
                stage_at(stage_slot).fetch::<S>(job.source, pitch, job.rows, job.columns);
            }
            commit_copies();

            // Locate the next one.
            let next = coming.wrapping_add(step);
            let next_slot = if job_slot + 1 == JOBS { 0 } else { job_slot + 1 };
            if leads && next < tiles {
                Job::locate::<BAND>(args, next, B::BLOCKS, S::BYTES).leave(job_at(next_slot));
            }

            // Turn to the tile to be worked on.
            let index = coming.wrapping_sub(ahead);
            let mut slot = job_slot;
            if S::STAGES == 2 {
                stage_slot = 1 - stage_slot;
                slot = if job_slot == 0 { JOBS - 1 } else { job_slot - 1 };
            }
            (coming, job_slot) = (next, next_slot);
            if index >= tiles {
                block_barrier();
                continue;
            }
            let stage = stage_at(stage_slot);
            if S::STAGES == 2 {
                wait_copies::<1>();
            } else {
                wait_copies::<0>();
            }

            // Find the largest magnitude of each warp's chunks.
            if wants_amax {
                let amax = warp_max(stage.own_amax::<S>().to_bits());
                if lane_index() == 0 {
                    store_shared_f32(amax_slots + 4 * warp, f32::from_bits(amax));
                }
            }
            block_barrier();

            // Use the tile, then free its stage.
            let amax = if wants_amax { largest(amax_slots) } else { 0.0 };
            if args.amax_partial != 0 && thread_index() == 0 {
                store_f32(args.amax_partial + 4 * u64::from(index), amax);
            }
            if QUANTIZES {
                quantize::<S, B>(args, job_at(slot), stage, warp, amax);
            }
            if index + step >= tiles {
                return;
            }
            block_barrier();
        }
    }
}

/// The largest of the warps' maxima.
#[inline(always)]
unsafe fn largest(slots: u32) -> f32 {
    let mut amax = 0f32;
    for warp in 0..WARPS {
        // SAFETY: the slots are this block's, and written.
        amax = amax.max(unsafe { load_shared_f32(slots + 4 * warp) });
    }
    amax
}

/// Makes what is wanted of a tile in shared memory, whose largest magnitude is `amax` and whose [`Job`]
/// lies at `job`.
#[inline(always)]
unsafe fn quantize<S: Source, B: Sharing>(
    args: &QuantizeArgs,
    job: u32,
    stage: Stage,
    warp: u32,
    amax: f32,
) {
    let format = Format::of(args);
    let rule = ScaleRule {
        format_max: format.max(),
        epsilon: args.epsilon,
        power_of_two: args.power_of_two != 0,
        ceiling: S::LARGEST,
    };
    // Each direction takes what it needs of the job anew, so that nobody keeps it in registers.
    // SAFETY: as in `walk`.
    unsafe {
        let of_tile = match B::BLOCKS {
            Blocks::Tensor => Job::take(job).scale,
            Blocks::Vector => 1.0,
            Blocks::Square => rule.scale(amax),
        };
        if args.rowwise.data != 0 {
            let job = &Job::take(job);
            let rows = Rows { job, stage, warp, format, pitch: args.rowwise.pitch };
            if let Blocks::Vector = B::BLOCKS {
                rows.quantize_each::<S>(&rule);
            } else {
                rows.quantize::<S>(of_tile);
            }
            if matches!(B::BLOCKS, Blocks::Square) && thread_index() == 0 {
                store_f32(job.row_scales, 1.0 / of_tile);
            }
        }
        let (copies, sums) = (args.columnwise.data != 0, args.dbias_partial != 0);
        if copies || sums {
            let job = &Job::take(job);
            let pitch = args.columnwise.pitch;
            let columns = Columns { job, stage, warp, format, pitch, copies, sums };
            if let Blocks::Vector = B::BLOCKS {
                columns.quantize::<S>(ColumnScales::Each(&rule));
            } else {
                columns.quantize::<S>(ColumnScales::One(of_tile));
            }
            if matches!(B::BLOCKS, Blocks::Square) && copies && thread_index() == 0 {
                store_f32(job.column_scales, 1.0 / of_tile);
            }
        }
    }
}
