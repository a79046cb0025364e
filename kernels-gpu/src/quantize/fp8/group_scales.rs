//! `group_scales`: from the largest magnitudes of tiles to the scale of each group.
//!
//! *Current* scaling runs it between `amax_tiles` and `quantize_tensor`. *Delayed* scaling runs it
//! after `quantize_tensor`, to note the magnitudes that it has left in the history, and the scales
//! that it used and their inverses in the result. [`update_scales`](super::update_scales) makes the
//! next scales of what was noted; before that, ranks may reduce it. Where the source is read once,
//! it clears what the quantizer's blocks tell each other, NVFP4's included.

use ptx_std::memory::{
    load_constant_f32, load_constant_u32, load_f32, load_shared_u32, shared_base, store_f32,
    store_shared_u32, store_u32, store_u32x2,
};
use ptx_std::sync::block_barrier;
use ptx_std::thread::{WARP, block_index, lane_index, thread_index, warp_max};

use super::scale::ScaleRule;
use crate::abi::quantize::{Progress, ScaleArgs};
use crate::table::Table;

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Dynamic shared memory: a maximum per warp.
pub const SHARED_BYTES: u32 = 4 * WARPS;
/// Warps of a block.
const WARPS: u32 = THREADS / WARP;

/// The kernel: a block for each group.
///
/// # Safety
///
/// Blocks of [`THREADS`] threads with [`SHARED_BYTES`] of dynamic shared memory, one for each
/// group; the addresses in `args` are valid for what its fields describe.
#[inline(always)]
pub unsafe fn run(args: &ScaleArgs, _args_address: u64) {
    // SAFETY: the launcher keeps the contract above; all threads of the block stay together.
    unsafe {
        // Leave everything as it is where the flag says so, or the splits are bad.
        if args.skip != 0 && load_constant_u32(args.skip) != 0 {
            return;
        }
        let group = block_index();
        if args.progress != 0 {
            return begin(args, group);
        }
        let uniform = (group * args.tiles, (group + 1) * args.tiles);
        let (first, end) = if args.amax_partial == 0 {
            (0, 0)
        } else if args.table == 0 {
            uniform
        } else {
            let table = Table::new(args.table, args.groups);
            if !table.is_valid() {
                return;
            }
            match args.tiles {
                0 => (table.tile_prefix(group), table.tile_prefix(group + 1)),
                _ => uniform,
            }
        };

        // Find the largest magnitude of the group's tiles.
        let mut amax = 0f32;
        let mut tile = first + thread_index();
        while tile < end {
            amax = amax.max(load_constant_f32(args.amax_partial + 4 * u64::from(tile)));
            tile += THREADS;
        }
        let amax = block_max(amax, shared_base());

        if thread_index() != 0 {
            return;
        }
        let at = 4 * u64::from(group);
        if args.history != 0 {
            note(args.history + at, amax);
            let scale = load_f32(args.scale + at);
            if args.kept_scale != 0 {
                store_f32(args.kept_scale + at, scale);
            }
            store_f32(args.scale_inv + at, 1.0 / scale);
            return;
        }
        let scale = current(args, amax);
        store_f32(args.scale + at, scale);
        store_f32(args.scale_inv + at, 1.0 / scale);
    }
}

/// Clears what the blocks of one quantization tell each other, the part of a group. A group without
/// tiles has nobody else who would make its scale.
#[inline(always)]
unsafe fn begin(args: &ScaleArgs, group: u32) {
    if thread_index() != 0 {
        return;
    }
    // SAFETY: handed to the caller; one thread for each group.
    unsafe {
        if group == 0 {
            store_u32(args.progress + Progress::TAKEN as u64, 0);
        }
        let layout = Progress::layout(args.groups as usize, 0);
        store_u32x2(args.progress + layout.groups as u64 + 8 * u64::from(group), [0; 2]);
        let is_empty = if args.table == 0 {
            args.tiles == 0
        } else {
            let table = Table::new(args.table, args.groups);
            table.is_valid() && table.tile_prefix(group) == table.tile_prefix(group + 1)
        };
        if is_empty {
            let (at, scale) = (4 * u64::from(group), current(args, 0.0));
            store_f32(args.scale + at, scale);
            store_f32(args.scale_inv + at, 1.0 / scale);
        }
    }
}

/// Puts a magnitude into the history's entry of this step, unless that is larger already.
#[inline(always)]
unsafe fn note(entry: u64, amax: f32) {
    // SAFETY: handed to the caller, the only thread that touches the entry.
    unsafe { store_f32(entry, amax.max(load_f32(entry))) }
}

#[inline(always)]
fn current(args: &ScaleArgs, amax: f32) -> f32 {
    let rule = ScaleRule {
        format_max: args.format_max,
        epsilon: args.epsilon,
        power_of_two: args.power_of_two != 0,
        ceiling: f32::MAX,
    };
    rule.scale(amax)
}

/// Largest value of the block, in every thread; none is below zero.
#[inline(always)]
unsafe fn block_max(value: f32, shared: u32) -> f32 {
    // SAFETY: the whole block calls it together; the last barrier frees the memory for the next
    // call.
    unsafe {
        let largest = warp_max(value.to_bits());
        if lane_index() == 0 {
            store_shared_u32(shared + 4 * (thread_index() / WARP), largest);
        }
        block_barrier();
        let own = load_shared_u32(shared + 4 * (lane_index() % WARPS));
        let largest = warp_max(own);
        block_barrier();
        f32::from_bits(largest)
    }
}
