//! `update_scales`: ends a step of delayed scaling, of several tensors at once: from histories of
//! the largest magnitudes to the scales of the next step.

use core::mem::offset_of;

use ptx_std::memory::{
    load_constant_u32, load_f32, load_shared_f32, shared_base, store_f32, store_shared_f32,
};
use ptx_std::sync::block_barrier;
use ptx_std::thread::{
    WARP, block_index, block_index_y, lane_index, shuffle_xor_f32, thread_index,
};

use crate::abi::quantize::{HISTORY_GROUPS, History, UpdateScalesArgs};
use crate::quantize::mx::unroll::each8;

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Dynamic shared memory: a maximum per warp and group.
pub const SHARED_BYTES: u32 = 4 * HISTORY_GROUPS * WARPS;
/// Warps of a block.
const WARPS: u32 = THREADS / WARP;
/// Lines of a history that the threads of a block read at once.
const LINES: u32 = THREADS / HISTORY_GROUPS;
/// Lines that a thread has read before it writes any.
const AHEAD: u32 = 8;

/// The kernel: a block for every [`HISTORY_GROUPS`] groups, a line of blocks for each history.
///
/// # Safety
///
/// Blocks of [`THREADS`] threads with [`SHARED_BYTES`] of dynamic shared memory, in as many lines
/// as there are histories; the addresses in `args` are valid for what its fields describe, and
/// `args_address` is the address of `args`.
#[inline(always)]
pub unsafe fn run(args: &UpdateScalesArgs, args_address: u64) {
    // SAFETY: the launcher keeps the contract above; all threads of the block stay together.
    unsafe {
        if args.skip != 0 && load_constant_u32(args.skip) != 0 {
            return;
        }
        // By address: an index that is not constant would have the argument copied to the stack.
        let histories = args_address + offset_of!(UpdateScalesArgs, histories) as u64;
        let history = (histories as *const History).add(block_index_y() as usize).read();
        let first = HISTORY_GROUPS * block_index();
        if first >= history.groups {
            return;
        }
        let group = first + thread_index() % HISTORY_GROUPS;
        let amax = advance(&history, group);
        if thread_index() < HISTORY_GROUPS && group < history.groups {
            let at = 4 * u64::from(group);
            let scale = next_scale(&history, amax, history.scale + at);
            store_f32(history.scale + at, scale);
            store_f32(history.scale_inv + at, 1.0 / scale);
        }
    }
}

/// The scale of the next step; the one at `old` remains where there is no magnitude to go by.
#[inline(always)]
unsafe fn next_scale(history: &History, amax: f32, old: u64) -> f32 {
    if !(amax > 0.0 && amax < f32::INFINITY) {
        // SAFETY: the caller vouches for the address.
        return unsafe { load_f32(old) };
    }
    let quotient = history.format_max * power_of_two(history.margin.saturating_neg()) / amax;
    // The inverse of what is smaller, or of zero, would be infinite.
    if quotient == f32::INFINITY { f32::MAX } else { quotient.max(f32::MIN_POSITIVE) }
}

/// `2^exponent`; beyond binary32, zero or infinity.
#[inline(always)]
fn power_of_two(exponent: i32) -> f32 {
    /// Exponents of the smallest number and of the smallest normal one.
    const SUBNORMAL: i32 = -149;
    const NORMAL: i32 = -126;
    f32::from_bits(match exponent {
        128.. => f32::INFINITY.to_bits(),
        NORMAL.. => ((exponent + 127) as u32) << 23,
        SUBNORMAL.. => 1 << (exponent - SUBNORMAL),
        _ => 0,
    })
}

/// The magnitude of the group's history that decides, in the block's first threads. The history
/// moves on by one: entry 0 comes last, and becomes zero. A thread whose group does not exist reads
/// that of the last one.
#[inline(always)]
unsafe fn advance(history: &History, group: u32) -> f32 {
    let &History { groups, len, .. } = history;
    let is_there = group < groups;
    let column = u64::from(group.min(groups - 1));
    let entry = |line: u32| history.amax + 4 * (u64::from(line) * u64::from(groups) + column);
    // SAFETY: as in `run`; the barrier in the loop stands between the reads of a run of entries and
    // the writes to it, and the next run's reads are behind them.
    unsafe {
        let newest = load_f32(entry(0));
        let mut largest = newest.max(0.0); // NaN counts as none
        let mut line = thread_index() / HISTORY_GROUPS;
        let mut run = 0;
        while run < len {
            let mut moved = [0f32; AHEAD as usize];
            each8(|k| {
                let next = line + LINES * k as u32 + 1;
                moved[k] = load_f32(entry(next.min(len - 1)));
            });
            block_barrier();
            each8(|k| {
                let own = line + LINES * k as u32;
                let moved = if own + 1 < len { moved[k] } else { newest };
                largest = largest.max(moved);
                if is_there && own < len {
                    store_f32(entry(own), if own == 0 { 0.0 } else { moved });
                }
            });
            line += LINES * AHEAD;
            run += LINES * AHEAD;
        }
        let largest = column_max(largest);
        if history.most_recent != 0 { newest } else { largest }
    }
}

/// The largest value of the threads whose numbers differ by multiples of [`HISTORY_GROUPS`], in the
/// first threads of the block.
#[inline(always)]
unsafe fn column_max(value: f32) -> f32 {
    // SAFETY: the whole block calls it together, once.
    unsafe {
        let mut largest = value;
        let mut distance = HISTORY_GROUPS;
        while distance < WARP {
            largest = largest.max(shuffle_xor_f32(largest, distance));
            distance *= 2;
        }
        let column = shared_base() + 4 * (lane_index() % HISTORY_GROUPS);
        if lane_index() < HISTORY_GROUPS {
            store_shared_f32(column + 4 * HISTORY_GROUPS * (thread_index() / WARP), largest);
        }
        block_barrier();
        let mut warp = 0;
        while warp < WARPS {
            largest = largest.max(load_shared_f32(column + 4 * HISTORY_GROUPS * warp));
            warp += 1;
        }
        largest
    }
}
