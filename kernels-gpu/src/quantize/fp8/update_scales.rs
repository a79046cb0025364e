//! `update_scales`: ends a step of delayed scaling, of several tensors at once: from histories of the
//! largest magnitudes to the scales of the next step.

use core::mem::offset_of;

use ptx_std::memory::{load_constant_u32, load_f32, shared_base, store_f32};
use ptx_std::sync::block_barrier;
use ptx_std::thread::{block_index, block_index_y, thread_index};

use super::group_scales::{THREADS, block_max};
use crate::abi::quantize::{History, UpdateScalesArgs};

/// The kernel: a block for each group, a line of blocks for each history.
///
/// # Safety
///
/// Blocks as those of [`group_scales`](super::group_scales::run), in as many lines as there are
/// histories; the addresses in `args` are valid for what its fields describe, and `args_address` is the
/// address of `args`.
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
        let group = block_index();
        if group >= history.groups {
            return;
        }
        let amax = advance(&history, group);
        if thread_index() == 0 {
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

/// The magnitude of the group's history that decides. The history moves on by one: entry 0 comes last,
/// and becomes zero.
#[inline(always)]
unsafe fn advance(history: &History, group: u32) -> f32 {
    let entry =
        |i: u32| history.amax + 4 * (u64::from(i) * u64::from(history.groups) + u64::from(group));
    // SAFETY: as in `run`; the barrier in the loop stands between the reads of a run of entries and
    // the writes to it, and the next run's reads are behind them.
    unsafe {
        let newest = load_f32(entry(0));
        let mut largest = newest.max(0.0); // NaN counts as none
        let mut first = 0;
        while first < history.len {
            let i = first + thread_index();
            let moved = if i + 1 < history.len { load_f32(entry(i + 1)) } else { newest };
            largest = largest.max(moved);
            block_barrier();
            if i < history.len {
                store_f32(entry(i), if i == 0 { 0.0 } else { moved });
            }
            first += THREADS;
        }
        let largest = block_max(largest, shared_base());
        if history.most_recent != 0 { newest } else { largest }
    }
}
