//! A rowwise copy alone, of 16-bit elements: a block takes one tile, straight into registers.
//!
//! A warp takes 16 rows of 128 columns, 4 KiB. With 24 warps on a multiprocessor 96 KiB are on
//! their way, if the L1 cache has lines for them: it shares its memory with shared memory, of which
//! a block wants hardly any. As many blocks as tiles leave the hardware to fill whatever
//! multiprocessor has room; blocks that walk leave some multiprocessors, farther from memory, with
//! work when others have none.
//!
//! The tokens of all groups lie one after another and a vector belongs to one row, so with a scale
//! per vector the groups of tokens do not matter. A block then takes 8 parts of 16 × 128 from left
//! to right, and needs to look nothing up but the number of rows.

use core::marker::PhantomData;

use ptx_std::memory::{
    load_constant_u32x4_if, load_shared_u32x4, shared_base, store_f32, store_shared_f32,
    store_u32x4_if,
};
use ptx_std::sync::block_barrier;
use ptx_std::thread::{
    block_index, lane_index, shuffle_index, shuffle_xor, thread_index, warp_index, warp_max,
};

use super::current::{self, At, Copies};
use super::job::Job;
use super::scale::{Format, ScaleRule};
use super::source::{Bf16, F16, Source};
use super::stage::{STRIP, Stage, WIDTH};
use super::tiles::Extent;
use super::{Sharing, WARPS, is_skipped, largest, tile_index};
use crate::abi::ElementType;
use crate::abi::quantize::{Blocks, QuantizeArgs};
use crate::table::Table;

/// Dynamic shared memory: the tile, and a maximum per warp.
pub const SHARED_BYTES: u32 = Job::BYTES + 4 * WARPS;
/// The same of [`run_current`].
pub const CURRENT_SHARED_BYTES: u32 = current::shared_bytes::<OfLines<Bf16>>();

/// Lanes side by side in a row.
const ACROSS: u32 = 8;
/// Rows that a warp takes at once.
const AT_ONCE: u32 = 32 / ACROSS;
/// Times it does.
const STEPS: u32 = STRIP / AT_ONCE;

/// What a lane holds: of rows 4 apart 8 elements of either half.
type Words = [[[u32; 4]; 2]; 4];

/// 16 rows of a tile, and the addresses that belong to their first one.
struct Strip {
    /// Address of its first element in the source.
    source: u64,
    /// Address of its first element in the copy.
    data: u64,
    /// Address of its scale_inv, of vectors.
    scales: u64,
    /// Rows that exist, at most 16.
    rows: u32,
    /// Columns that exist, at most 128.
    columns: u32,
}

/// The kernel.
///
/// # Safety
///
/// As `quantize_tensor_rows`.
#[inline(always)]
pub unsafe fn run<B: Sharing>(args: &QuantizeArgs) {
    const BF16: u32 = ElementType::Bf16 as u32;
    // SAFETY: handed to the caller.
    unsafe {
        match args.source_type {
            _ if is_skipped(args) => {}
            BF16 => quantize::<Bf16, B>(args),
            _ => quantize::<F16, B>(args),
        }
    }
}

/// Quantizes with a scale per group that follows from the source, which is read once.
///
/// # Safety
///
/// As `quantize_current_rows`.
#[inline(always)]
pub unsafe fn run_current(args: &QuantizeArgs) {
    const BF16: u32 = ElementType::Bf16 as u32;
    // SAFETY: handed to the caller.
    unsafe {
        match args.source_type {
            _ if is_skipped(args) => {}
            BF16 => current::run::<OfLines<Bf16>>(args),
            _ => current::run::<OfLines<F16>>(args),
        }
    }
}

/// A rowwise copy alone.
pub struct OfLines<S>(PhantomData<S>);

impl<S: Source> Copies for OfLines<S> {
    type Element = S;
    type Args = QuantizeArgs;
    type Words = Words;

    const STAGES: u32 = current::ROOM.next_multiple_of(128);

    #[inline(always)]
    unsafe fn take(stage: Stage) -> Words {
        let (part, below) = (lane_index() % ACROSS, lane_index() / ACROSS);
        // SAFETY: handed to the caller.
        unsafe {
            let from = stage.row::<S>(STRIP * warp_index() + below) + 16 * part;
            [0, 1, 2, 3].map(|i| {
                [0, 128].map(|half| load_shared_u32x4(from + AT_ONCE * i * S::ROW_BYTES + half))
            })
        }
    }

    #[inline(always)]
    fn amax(words: &Words) -> f32 {
        let [a, b, c, d] = words.map(larger::<S>);
        S::largest(S::larger(S::larger(a, b), S::larger(c, d)))
    }

    #[inline(always)]
    unsafe fn store(args: &QuantizeArgs, at: At, scale: f32, _meet: impl Fn(), free: impl Fn()) {
        // SAFETY: handed to the caller.
        unsafe {
            let strip = strip_of_tile(args, &Job::take(at.job), warp_index());
            let words = Self::take(at.stage);
            free();
            store::<S>(args, &strip, words, |_| scale);
        }
    }
}

/// Takes the part of this block, if there is one.
#[inline(always)]
unsafe fn quantize<S: Source, B: Sharing>(args: &QuantizeArgs) {
    // SAFETY: handed to the caller. All threads of a block take the same tile, so they meet at the
    // barriers; warps stay together.
    unsafe {
        let warp = warp_index();
        let is_vector = matches!(B::BLOCKS, Blocks::Vector);
        let (strip, job);
        if is_vector && args.table != 0 {
            strip = strip_of_tokens(args, warp);
        } else {
            let Some(index) = tile_index::<B>(args) else { return };
            if warp == 0 {
                Job::locate(args, index, B::BLOCKS, S::BYTES).leave(shared_base());
            }
            block_barrier();
            job = Job::take(shared_base());
            strip = strip_of_tile(args, &job, warp);
            if !is_vector {
                return take_tile::<S, B>(args, &job, &strip, warp);
            }
        }
        take_vectors::<S>(args, &strip);
    }
}

/// The 16 rows of this warp, of tokens by vectors.
#[inline(always)]
unsafe fn strip_of_tokens(args: &QuantizeArgs, warp: u32) -> Strip {
    // SAFETY: handed to the caller. There are no rows if the splits are bad.
    let rows = unsafe { Table::new(args.table, args.groups).row_offset(args.groups) } as u32;
    let across = Extent::of(args).across();
    let part = WARPS * block_index() + warp;
    let (row, place) = (part / across * STRIP, part % across);
    let column = place * WIDTH;
    let (line, first) = (u64::from(row), u64::from(column));
    Strip {
        source: args.source + u64::from(Bf16::BYTES) * (line * u64::from(args.columns) + first),
        data: args.rowwise.data + line * args.rowwise.pitch + first,
        scales: args.rowwise.scale_inv + 4 * (u64::from(place) * args.rowwise.scales.pitch + line),
        rows: rows.saturating_sub(row).min(STRIP),
        columns: args.columns - column,
    }
}

/// The 16 rows of this warp in a tile.
#[inline(always)]
fn strip_of_tile(args: &QuantizeArgs, job: &Job, warp: u32) -> Strip {
    let row = STRIP * warp;
    let line = u64::from(row);
    Strip {
        source: job.source + u64::from(Bf16::BYTES) * line * u64::from(args.columns),
        data: job.row_data + line * args.rowwise.pitch,
        scales: job.row_scales + 4 * line,
        rows: job.rows.saturating_sub(row).min(STRIP),
        columns: job.columns,
    }
}

/// Quantizes 16 rows, each with a scale of its own.
#[inline(always)]
unsafe fn take_vectors<S: Source>(args: &QuantizeArgs, strip: &Strip) {
    let (part, below) = (lane_index() % ACROSS, lane_index() / ACROSS);
    // SAFETY: handed to the caller.
    unsafe {
        let words = load(args, strip);

        // Find the largest magnitudes; then each lane makes the scale of one row.
        let largest = words.map(|words| {
            let mut largest = larger::<S>(words);
            for distance in [1, 2, 4] {
                largest = S::larger(largest, shuffle_xor(largest, distance));
            }
            largest
        });
        let upper = [largest[0], largest[1]];
        let lower = [largest[2], largest[3]];
        let [even, odd] = if part & 2 == 0 { upper } else { lower };
        let own = if part & 1 == 0 { even } else { odd };
        let scale = ScaleRule::of(args, S::LARGEST).scale(S::largest(own));
        let row = AT_ONCE * part + below;
        if part < STEPS && row < strip.rows {
            store_f32(strip.scales + 4 * u64::from(row), 1.0 / scale);
        }
        store::<S>(args, strip, words, |i| {
            f32::from_bits(shuffle_index(scale.to_bits(), ACROSS * below + i))
        });
    }
}

/// Quantizes 16 rows of a tile that has one scale.
#[inline(always)]
unsafe fn take_tile<S: Source, B: Sharing>(
    args: &QuantizeArgs,
    job: &Job,
    strip: &Strip,
    warp: u32,
) {
    let is_square = matches!(B::BLOCKS, Blocks::Square);
    // SAFETY: handed to the caller.
    unsafe {
        let words = load(args, strip);
        let mut scale = job.scale;
        if is_square || args.amax_partial != 0 {
            let slots = shared_base() + Job::BYTES;
            let [a, b, c, d] = words.map(larger::<S>);
            let own = S::larger(S::larger(a, b), S::larger(c, d));
            let amax = warp_max(S::largest(own).to_bits());
            if lane_index() == 0 {
                store_shared_f32(slots + 4 * warp, f32::from_bits(amax));
            }
            block_barrier();
            let amax = largest(slots);
            if is_square {
                scale = ScaleRule::of(args, S::LARGEST).scale(amax);
            }
            if thread_index() == 0 {
                if args.amax_partial != 0 {
                    store_f32(args.amax_partial + 4 * u64::from(block_index()), amax);
                }
                if is_square {
                    store_f32(job.row_scales, 1.0 / scale);
                }
            }
        }
        store::<S>(args, strip, words, |_| scale);
    }
}

/// What is largest of 16 elements: zero if all are NaNs.
#[inline(always)]
fn larger<S: Source>([[a, b, c, d], [e, f, g, h]]: [[u32; 4]; 2]) -> u32 {
    let [ab, cd] = [S::larger(a, b), S::larger(c, d)];
    let [ef, gh] = [S::larger(e, f), S::larger(g, h)];
    S::larger(S::larger(ab, cd), S::larger(0, S::larger(ef, gh)))
}

/// Loads elements `8 · part ..` of both halves of 128, of rows 4 apart. What is not there is zero.
#[inline(always)]
unsafe fn load(args: &QuantizeArgs, strip: &Strip) -> Words {
    let (part, below) = (lane_index() % ACROSS, lane_index() / ACROSS);
    let exists = [0, 1].map(|half| 64 * half + 8 * part < strip.columns);
    let pitch = u64::from(Bf16::BYTES) * u64::from(args.columns);
    let from = strip.source + u64::from(below) * pitch + u64::from(16 * part);
    [0, 1, 2, 3].map(|i| {
        let there = below + AT_ONCE * i < strip.rows;
        let from = from + u64::from(AT_ONCE * i) * pitch;
        // SAFETY: handed to the caller; only what exists is read.
        unsafe {
            [
                load_constant_u32x4_if(there && exists[0], from),
                load_constant_u32x4_if(there && exists[1], from + 128),
            ]
        }
    })
}

/// Rounds and stores what [`load`] has brought, rows `4 · i ..` with scale `scale(i)`.
#[inline(always)]
unsafe fn store<S: Source>(
    args: &QuantizeArgs,
    strip: &Strip,
    words: Words,
    scale: impl Fn(u32) -> f32,
) {
    let (part, below) = (lane_index() % ACROSS, lane_index() / ACROSS);
    let format = Format::of(args);
    // Neighbours swap halves, so that each has 16 bytes side by side.
    let is_odd = part & 1 != 0;
    let column = if is_odd { 64 + 8 * (part - 1) } else { 8 * part };
    let mut to = strip.data + u64::from(below) * args.rowwise.pitch + u64::from(column);
    let mut i = 0;
    let mut step = |[first, second]: [[u32; 4]; 2]| {
        let chunks = [first, second, [0; 4], [0; 4]];
        let quads = [0, 1, 2, 3].map(|i| S::quad(&chunks, i));
        let [a, b, c, d] = format.encode(quads, scale(i));
        let (own, other) = if is_odd { ([c, d], [a, b]) } else { ([a, b], [c, d]) };
        // SAFETY: handed to the caller; what is stored exists.
        unsafe {
            let other = other.map(|word| shuffle_xor(word, 1));
            let (low, high) = if is_odd { (other, own) } else { (own, other) };
            let there = column < strip.columns && below + AT_ONCE * i < strip.rows;
            store_u32x4_if(there, to, [low[0], low[1], high[0], high[1]]);
        }
        to += u64::from(AT_ONCE) * args.rowwise.pitch;
        i += 1;
    };
    let [first, second, third, fourth] = words;
    step(first);
    step(second);
    step(third);
    step(fourth);
}
