//! FP8, by blocks that take one tile of 128 × 128 elements each.
//!
//! | source | copies | kernels | where a tile lies |
//! | --- | --- | --- | --- |
//! | BF16, FP16 | rowwise alone | [`lines`] | in registers, 16 rows a warp |
//! | BF16, FP16 | columnwise, both, or sums of columns | [`strips`] | in registers, 16 rows × 4 columns a lane |
//! | BF16, FP16 | any, with a scale per group from its own magnitudes, if groups are small | [`current`] | in shared memory, three a block |
//! | FP32 | any | `quantize_tensor`, `quantize_vector`, `quantize_square` | in shared memory |
//! | any | none | `amax_tiles` | in registers |
//!
//! Beside them there are [`group_scales`], [`update_scales`], [`dequantize`], and [`align`], which
//! prepares a columnwise copy for wgrad. The source is read once for both copies, and once more for
//! the magnitudes of large groups (`amax_tiles`).
//! Rows and columns that do not exist are zeros; zeros change no maximum and no sum, and they are
//! what the padding of the transposed copy holds.
//!
//! As many blocks as tiles leave the hardware to fill whatever multiprocessor has room. Blocks that
//! walk, with the next tile on its way while one is worked on, were slower: some multiprocessors,
//! farther from memory, had work when others had none. One warp finds the tile for all ([`job`]);
//! that was a third of the instructions when every thread did it.
//!
//! # FP32 in shared memory
//!
//! ```text
//!  source ──cp.async──▶ stage ──┬─ own chunks ──▶ amax of the tile (square, delayed)
//!                               ├─ along rows ──▶ rowwise copy: 8 lanes × 16 bytes = 128 of a row
//!                               └─ along columns ▶ columnwise copy: 8 lanes × 16 bytes = 128 of a
//!                                                  column; sums for dbias
//! ```
//!
//! A tile is 64 KiB, and 3 blocks of a multiprocessor have 192 KiB on their way at most. A load
//! comes back after about 1 µs under load, in which a multiprocessor's share of memory's 4.2 TB/s
//! is 32 KiB. Shared memory makes up to 15 passes of 128 bytes for 128 elements, and none twice
//! because of bank conflicts.

pub mod align;
mod columns;
pub mod current;
pub mod dequantize;
pub mod group_scales;
pub(super) mod job;
pub mod lines;
mod rows;
mod scale;
pub(super) mod source;
pub(super) mod stage;
pub mod strips;
pub(super) mod tiles;
pub mod update_scales;

use ptx_std::memory::{
    commit_copies, load_constant_u32, load_shared_f32, shared_base, store_f32, store_shared_f32,
    wait_copies,
};
use ptx_std::sync::block_barrier;
use ptx_std::thread::{WARP, block_index, lane_index, thread_index, warp_index, warp_max};

use self::columns::{ColumnScales, Columns};
use self::job::Job;
use self::rows::Rows;
use self::scale::{Format, ScaleRule};
use self::source::{Bf16, F16, F32, Source};
use self::stage::{HEIGHT, Stage};
use self::tiles::Extent;
use crate::abi::ElementType;
use crate::abi::quantize::{Blocks, QUANTIZE_BLOCKS, QuantizeArgs};

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Warps of a block.
const WARPS: u32 = THREADS / WARP;

/// Dynamic shared memory: what is known of a tile, a maximum per warp, and an FP32 tile.
pub const SHARED_BYTES: u32 = ROOM + Stage::bytes(F32::BYTES);

/// What is known of a tile, and a maximum per warp: all that [`amax_tiles`] needs of shared memory.
pub const ROOM: u32 = Job::BYTES + 4 * WARPS;

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
/// Blocks of [`THREADS`] threads with [`ROOM`] bytes of dynamic shared memory, at least one for
/// each tile; the addresses in `args` are valid for what its fields describe; the source's, its
/// columns and the data's are multiples of 16.
#[inline(always)]
pub unsafe fn amax_tiles(args: &QuantizeArgs, _args_address: u64) {
    const BF16: u32 = ElementType::Bf16 as u32;
    const F16_: u32 = ElementType::F16 as u32;
    // SAFETY: handed to the launcher.
    unsafe {
        match args.source_type {
            _ if is_skipped(args) => {}
            BF16 => measure::<Bf16>(args),
            F16_ => measure::<F16>(args),
            _ => measure::<F32>(args),
        }
    }
}

/// Quantizes FP32 with a given scale per group.
///
/// # Safety
///
/// As [`amax_tiles`], with [`SHARED_BYTES`] of shared memory.
#[inline(always)]
pub unsafe fn quantize_tensor(args: &QuantizeArgs, _args_address: u64) {
    // SAFETY: handed to the launcher.
    unsafe { take::<F32, OfTensor>(args) }
}

/// Quantizes FP32 with a scale for each 128 elements along the copy's reduction.
///
/// # Safety
///
/// As [`quantize_tensor`].
#[inline(always)]
pub unsafe fn quantize_vector(args: &QuantizeArgs, _args_address: u64) {
    // SAFETY: handed to the launcher.
    unsafe { take::<F32, OfVector>(args) }
}

/// Quantizes FP32 with a scale for each 128 × 128 elements.
///
/// # Safety
///
/// As [`quantize_tensor`].
#[inline(always)]
pub unsafe fn quantize_square(args: &QuantizeArgs, _args_address: u64) {
    // SAFETY: handed to the launcher.
    unsafe { take::<F32, OfSquare>(args) }
}

/// As [`quantize_tensor`], of BF16 or FP16 and into a rowwise copy alone.
///
/// # Safety
///
/// Blocks of [`THREADS`] threads with [`lines::SHARED_BYTES`] of dynamic shared memory, at least
/// one for each tile; the addresses in `args` are valid for what its fields describe; the source's,
/// its columns and the data's are multiples of 16.
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

/// As [`quantize_tensor`], of BF16 or FP16, and not into a rowwise copy alone.
///
/// # Safety
///
/// As [`quantize_tensor_rows`], with [`strips::SHARED_BYTES`] of shared memory.
#[inline(always)]
pub unsafe fn quantize_tensor_columns(args: &QuantizeArgs, _args_address: u64) {
    // SAFETY: handed to the launcher.
    unsafe { strips::run::<OfTensor>(args) }
}

/// As [`quantize_vector`], of BF16 or FP16, and not into a rowwise copy alone.
///
/// # Safety
///
/// As [`quantize_tensor_columns`].
#[inline(always)]
pub unsafe fn quantize_vector_columns(args: &QuantizeArgs, _args_address: u64) {
    // SAFETY: handed to the launcher.
    unsafe { strips::run::<OfVector>(args) }
}

/// As [`quantize_square`], of BF16 or FP16, and not into a rowwise copy alone.
///
/// # Safety
///
/// As [`quantize_tensor_columns`].
#[inline(always)]
pub unsafe fn quantize_square_columns(args: &QuantizeArgs, _args_address: u64) {
    // SAFETY: handed to the launcher.
    unsafe { strips::run::<OfSquare>(args) }
}

/// Quantizes BF16 or FP16 with a scale per group, which follows from the group's magnitudes, into a
/// rowwise copy alone.
///
/// # Safety
///
/// Blocks of [`current::THREADS`] threads with [`lines::CURRENT_SHARED_BYTES`] of dynamic shared
/// memory; the addresses in `args` are valid for what its fields describe, and the progress has
/// been cleared; the source's address, its columns and the data's address are multiples of 16.
#[inline(always)]
pub unsafe fn quantize_current_rows(args: &QuantizeArgs, _args_address: u64) {
    // SAFETY: handed to the launcher.
    unsafe { lines::run_current(args) }
}

/// As [`quantize_current_rows`], not into a rowwise copy alone.
///
/// # Safety
///
/// As [`quantize_current_rows`], with [`strips::CURRENT_SHARED_BYTES`] of shared memory.
#[inline(always)]
pub unsafe fn quantize_current_columns(args: &QuantizeArgs, _args_address: u64) {
    // SAFETY: handed to the launcher.
    unsafe { strips::run_current(args) }
}

/// Whether the flag says that everything shall stay as it is.
#[inline(always)]
unsafe fn is_skipped(args: &QuantizeArgs) -> bool {
    // SAFETY: handed to the launcher.
    args.skip != 0 && unsafe { load_constant_u32(args.skip) } != 0
}

/// Takes the tile of this block, if there is one.
#[inline(always)]
unsafe fn take<S: Source, B: Sharing>(args: &QuantizeArgs) {
    // SAFETY: the launcher keeps the contract of `quantize_tensor`. All threads of a block take the
    // same tile, so they meet at every barrier.
    unsafe {
        if is_skipped(args) {
            return;
        }
        let Some(place) = find::<S, B>(args) else { return };
        let warp = warp_index();
        let stage = Stage { address: place + ROOM };
        {
            let job = Job::take(place);
            let pitch = u64::from(args.columns) * u64::from(S::BYTES);
            stage.fetch::<S>(job.source, pitch, job.rows, job.columns);
        }
        commit_copies();
        wait_copies::<0>();
        let wants_amax = matches!(B::BLOCKS, Blocks::Square) || args.amax_partial != 0;
        if wants_amax {
            note_amax(place + Job::BYTES, stage.own_amax::<S>());
        }
        block_barrier();
        let amax = if wants_amax { largest(place + Job::BYTES) } else { 0.0 };
        if args.amax_partial != 0 && thread_index() == 0 {
            store_f32(args.amax_partial + 4 * u64::from(block_index()), amax);
        }
        quantize::<S, B>(args, place, stage, warp, amax);
    }
}

/// Stores the largest magnitude of the tile of this block, if there is one.
#[inline(always)]
unsafe fn measure<S: Source>(args: &QuantizeArgs) {
    // SAFETY: as in `take`.
    unsafe {
        let Some(place) = find::<S, OfTensor>(args) else { return };
        let job = Job::take(place);
        let pitch = u64::from(args.columns) * u64::from(S::BYTES);
        let own = stage::amax_of_source::<S>(job.source, pitch, job.rows, job.columns);
        note_amax(place + Job::BYTES, own);
        block_barrier();
        if thread_index() == 0 {
            let amax = largest(place + Job::BYTES);
            store_f32(args.amax_partial + 4 * u64::from(block_index()), amax);
        }
    }
}

/// Where the [`Job`] of this block lies now, if there is one; behind it there is room for a maximum
/// per warp.
#[inline(always)]
unsafe fn find<S: Source, B: Sharing>(args: &QuantizeArgs) -> Option<u32> {
    // SAFETY: handed to the caller.
    unsafe {
        let index = tile_index::<B>(args)?;
        let place = shared_base();
        if warp_index() == 0 {
            Job::locate(args, index, B::BLOCKS, S::BYTES).leave(place);
        }
        block_barrier();
        Some(place)
    }
}

/// Number of this block's tile, if there is one. Where magnitudes of the whole group were read
/// before (current scaling), the tiles that were read last come first: they are still in L2.
#[inline(always)]
unsafe fn tile_index<B: Sharing>(args: &QuantizeArgs) -> Option<u32> {
    let index = block_index();
    // SAFETY: handed to the caller.
    let tiles = unsafe { Extent::of(args).tiles() };
    let backwards = matches!(B::BLOCKS, Blocks::Tensor) && args.amax_partial == 0;
    (index < tiles).then(|| if backwards { tiles - 1 - index } else { index })
}

/// Leaves the largest of a warp's magnitudes in its slot.
#[inline(always)]
unsafe fn note_amax(slots: u32, own: f32) {
    // SAFETY: the caller brings the whole warp; the slots are this block's.
    unsafe {
        let (warp, amax) = (warp_index(), warp_max(own.to_bits()));
        if lane_index() == 0 {
            store_shared_f32(slots + 4 * warp, f32::from_bits(amax));
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

/// Makes what is wanted of a tile in shared memory, whose largest magnitude is `amax` and whose
/// [`Job`] lies at `job`.
#[inline(always)]
unsafe fn quantize<S: Source, B: Sharing>(
    args: &QuantizeArgs,
    job: u32,
    stage: Stage,
    warp: u32,
    amax: f32,
) {
    let format = Format::of(args);
    let rule = ScaleRule::of(args, S::LARGEST);
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
