//! `pointer_setup`: splits to group table, in one block.
//!
//! The splits may come from a router on the device, so this is the first place that can check them.
//! Each thread owns a run of consecutive groups; two prefix sums over the block turn their rows and
//! tiles into offsets. Every word of the table is written at every launch.

use ptx_std::memory::{
    compare_exchange_system_u32, load_constant_f32, load_constant_u32, load_constant_u64,
    load_shared_u32, load_shared_u64, load_system_u32, shared_base, store_f32, store_shared_u32,
    store_shared_u64, store_system_release_u32, store_u32, store_u64,
};
use ptx_std::sync::{block_barrier, fence_system};
use ptx_std::thread::{
    WARP, lane_index, shuffle_index, shuffle_up_i64, thread_index, warp_index, warp_min,
};

use crate::abi::{GroupTable, MAX_GROUPS, Operand, Ragged, Scalars, SetupArgs, Status, status};

/// Threads of the block, as the table of kernels says.
pub const THREADS: u32 = 1024;

/// Dynamic shared memory of the kernel: a 64-bit total per warp.
pub const SHARED_BYTES: u32 = 8 * WARP;

const _: () = assert!(THREADS == WARP * WARP, "a warp scans the totals of the warps");
const _: () = assert!(MAX_GROUPS < u32::MAX, "u32::MAX stands for no group");

/// The most groups that a thread owns.
const RUN: u32 = MAX_GROUPS.div_ceil(THREADS);

/// The kernel.
///
/// # Safety
///
/// One block of [`THREADS`] threads; the addresses in `args` are valid for its fields'
/// descriptions.
#[inline(always)]
pub unsafe fn run(args: &SetupArgs, _args_address: u64) {
    // SAFETY: the launcher keeps the contract above; all threads of the block stay together up to
    // the last barrier, and every group index is below `groups`.
    unsafe {
        // Give each thread a run of groups.
        let thread = thread_index();
        let share = args.groups.div_ceil(THREADS);
        let first = (thread * share).min(args.groups);
        let last = (first + share).min(args.groups);

        // Read each split once: what is checked is what is used, even if another stream, unordered,
        // writes the splits meanwhile.
        let mut splits = [0i64; RUN as usize];
        for i in 0..RUN {
            if first + i < last {
                splits[i as usize] = load_split(args, first + i);
            }
        }

        // Check the splits. Sums saturate, so that no overflow can make a bad sum look good.
        let mut own_rows = 0i64;
        let mut negative = u32::MAX;
        for i in 0..RUN {
            let split = splits[i as usize];
            if split < 0 {
                negative = negative.min(first + i);
            } else {
                own_rows = own_rows.saturating_add(split);
            }
        }
        let shared = shared_base();
        let (rows_before, total_rows) = block_scan(own_rows, shared);
        let negative = block_min(negative, shared);
        let verdict = if negative != u32::MAX {
            // For the message alone.
            let value = load_split(args, negative);
            Status { code: status::NEGATIVE_SPLIT, group: negative, value, ..verdict(args) }
        } else if total_rows > args.rows {
            Status { code: status::TOO_MANY_ROWS, value: total_rows, ..verdict(args) }
        } else {
            verdict(args)
        };
        let valid = verdict.code == status::OK;

        // Count the tiles; none if the splits are bad.
        let mut own_tiles = 0i64;
        for i in 0..RUN {
            if valid && first + i < last {
                own_tiles += tiles(args, splits[i as usize]);
            }
        }
        let (tiles_before, total_tiles) = block_scan(own_tiles, shared);

        // Pad the groups.
        let (padded_before, total_padded) = if !valid {
            (0, 0)
        } else if args.row_align == 1 {
            (rows_before, total_rows)
        } else {
            let mut own_padded = 0i64;
            for i in 0..RUN {
                if first + i < last {
                    own_padded += padded(args, splits[i as usize]);
                }
            }
            block_scan(own_padded, shared)
        };

        // Write the entries of each group.
        let layout = GroupTable::layout(args.groups);
        let is_padded = args.padded_reduction != 0;
        let mut row = if valid { rows_before } else { 0 };
        let mut padded_row = padded_before;
        let mut tile = tiles_before;
        for i in 0..RUN {
            if first + i < last {
                let split = if valid { splits[i as usize] } else { 0 };
                let padded_split = padded(args, split);
                let place = if is_padded {
                    Place { row: padded_row, rows: padded_split, padded_row, tile }
                } else {
                    Place { row, rows: split, padded_row, tile }
                };
                write_group(args, &layout, first + i, place);
                if valid {
                    row += split;
                    padded_row += padded_split;
                    tile += tiles(args, split);
                }
            }
        }

        // Close the prefix arrays and give the verdict.
        if thread == 0 {
            let groups = u64::from(args.groups);
            let live_rows = if valid { total_rows } else { 0 };
            let end = if is_padded { total_padded } else { live_rows };
            store_u64(args.table + layout.row_offsets as u64 + 8 * groups, end as u64);
            store_u64(args.table + layout.padded_offsets as u64 + 8 * groups, total_padded as u64);
            store_u32(args.table + layout.tile_prefix as u64 + 4 * groups, total_tiles as u32);
            let address = args.table + layout.status as u64;
            store_u32(address, verdict.code);
            store_verdict_but_code(address, &verdict);
            store_u64(address + RESERVED, 0);
            if !valid && args.sticky_status != 0 {
                publish(args.sticky_status, &verdict);
            }
        }
    }
}

/// The verdict on good splits.
#[inline(always)]
fn verdict(args: &SetupArgs) -> Status {
    Status { code: status::OK, group: 0, value: 0, rows: args.rows, reserved: 0 }
}

/// Output tiles of a group whose split is `rows`.
#[inline(always)]
fn tiles(args: &SetupArgs, rows: i64) -> i64 {
    let m = if args.ragged == Ragged::Rows as u32 { rows as u64 } else { u64::from(args.m) };
    // Both factors are below 2^32; rows were checked against the buffer.
    let tile_rows = (m as u32).div_ceil(args.tile_m);
    let tile_columns = args.n.div_ceil(args.tile_n);
    i64::from(tile_rows) * i64::from(tile_columns)
}

/// Rows of a group whose split is `rows`, rounded up. Rows were checked against the buffer, which has
/// fewer than 2^31.
#[inline(always)]
fn padded(args: &SetupArgs, rows: i64) -> i64 {
    i64::from((rows as u32).next_multiple_of(args.row_align))
}

#[inline(always)]
unsafe fn load_split(args: &SetupArgs, group: u32) -> i64 {
    // SAFETY: the caller's index is below `groups`.
    unsafe {
        if args.split_bytes == 8 {
            load_constant_u64(args.splits + 8 * u64::from(group)) as i64
        } else {
            i64::from(load_constant_u32(args.splits + 4 * u64::from(group)) as i32)
        }
    }
}

/// The rows of a group, as its operands have them, and what comes before it.
#[derive(Clone, Copy)]
struct Place {
    row: i64,
    rows: i64,
    padded_row: i64,
    tile: i64,
}

/// Writes everything about one group.
#[inline(always)]
unsafe fn write_group(
    args: &SetupArgs,
    layout: &GroupTable,
    group: u32,
    Place { row, rows, padded_row, tile }: Place,
) {
    let at4 = |array: usize| args.table + array as u64 + 4 * u64::from(group);
    let at8 = |array: usize| args.table + array as u64 + 8 * u64::from(group);
    let ragged_rows = args.ragged == Ragged::Rows as u32;
    // SAFETY: the table has room for `groups` groups, and each is written by one thread.
    unsafe {
        store_u64(at8(layout.row_offsets), row as u64);
        store_u64(at8(layout.padded_offsets), padded_row as u64);
        store_u32(at4(layout.tile_prefix), tile as u32);

        let (a, a_offset) = locate(&args.a, group, row);
        store_u64(at8(layout.a_pointers), a);
        store_u64(at8(layout.a_offsets), a_offset);
        let (b, b_offset) = locate(&args.b, group, row);
        store_u64(at8(layout.b_pointers), b);
        store_u64(at8(layout.b_offsets), b_offset);
        let (d, d_offset) = locate(&args.d, group, row);
        store_u64(at8(layout.d_pointers), d);
        store_u64(at8(layout.d_offsets), d_offset);

        store_u32(at4(layout.m), if ragged_rows { rows as u32 } else { args.m });
        store_u32(at4(layout.n), args.n);
        store_u32(at4(layout.k), if ragged_rows { args.k } else { rows as u32 });
        let mut alpha = scalar(&args.alpha, group);
        let factors =
            [(args.a_scale_inv, args.a_scale_factor), (args.b_scale_inv, args.b_scale_factor)];
        for (scale_inv, factor) in factors {
            if scale_inv != 0 {
                alpha *= load_constant_f32(scale_inv + 4 * u64::from(group)) * factor;
            }
        }
        store_f32(at4(layout.alpha), alpha);
        store_f32(at4(layout.beta), scalar(&args.beta, group));
    }
}

/// Address and element offset of a group's part of an operand.
#[inline(always)]
unsafe fn locate(operand: &Operand, group: u32, row: i64) -> (u64, u64) {
    if operand.array != 0 {
        // SAFETY: the array has an address for each group.
        return (unsafe { load_constant_u64(operand.array + 8 * u64::from(group)) }, 0);
    }
    let offset = row as u64 * operand.row_elements + u64::from(group) * operand.group_elements;
    (operand.base + offset * u64::from(operand.element_bytes), offset)
}

#[inline(always)]
unsafe fn scalar(scalars: &Scalars, group: u32) -> f32 {
    if scalars.array == 0 {
        return scalars.value;
    }
    // SAFETY: the array has a factor for each group.
    unsafe { load_constant_f32(scalars.array + 4 * u64::from(group)) }
}

/// Byte offset of [`Status::group`].
const GROUP: u64 = core::mem::offset_of!(Status, group) as u64;
/// Byte offset of [`Status::value`].
const VALUE: u64 = core::mem::offset_of!(Status, value) as u64;
/// Byte offset of [`Status::rows`].
const ROWS: u64 = core::mem::offset_of!(Status, rows) as u64;
/// Byte offset of [`Status::reserved`].
const RESERVED: u64 = core::mem::offset_of!(Status, reserved) as u64;

const _: () = assert!(core::mem::offset_of!(Status, code) == 0);

#[inline(always)]
unsafe fn store_verdict_but_code(address: u64, verdict: &Status) {
    // SAFETY: the caller has a status at `address` to itself.
    unsafe {
        store_u32(address + GROUP, verdict.group);
        store_u64(address + VALUE, verdict.value as u64);
        store_u64(address + ROWS, verdict.rows as u64);
    }
}

/// Writes `verdict` to the sticky status, if that still says OK.
///
/// Set-ups on several streams may come here at once, and the host may look at any time. The
/// reserved word is a lock that is never waited for (whoever finds it taken may leave: an error is
/// being reported), and the code is written last, by a release that the host's read of it acquires.
#[inline(always)]
unsafe fn publish(address: u64, verdict: &Status) {
    const FREE: u32 = 0;
    const TAKEN: u32 = 1;
    // SAFETY: the host keeps the sticky status readable and writable by the device.
    unsafe {
        if compare_exchange_system_u32(address + RESERVED, FREE, TAKEN) != FREE {
            return;
        }
        if load_system_u32(address) == status::OK {
            store_verdict_but_code(address, verdict);
            fence_system();
            store_system_release_u32(address, verdict.code);
        }
        store_system_release_u32(address + RESERVED, FREE);
    }
}

/// Saturating prefix sum over the block of values that are not negative: the sum before this
/// thread, and that of all. Uses 256 bytes of shared memory.
#[inline(always)]
unsafe fn block_scan(value: i64, shared: u32) -> (i64, i64) {
    // SAFETY: the whole block calls it together; the last barrier frees the memory for the next
    // call.
    unsafe {
        let (lane, warp) = (lane_index(), warp_index());

        // Scan the warp, and leave its total for the others.
        let inclusive = warp_scan(value, lane);
        if lane == WARP - 1 {
            store_shared_u64(shared + 8 * warp, inclusive as u64);
        }
        block_barrier();

        // Scan the totals in every warp alike.
        let totals = warp_scan(load_shared_u64(shared + 8 * lane) as i64, lane);
        let total = broadcast(totals, WARP - 1);
        let through_previous_warp = broadcast(totals, warp.saturating_sub(1));
        let before_warp = if warp == 0 { 0 } else { through_previous_warp };
        let through_previous_lane = shuffle_up_i64(inclusive, 1);
        let before_lane = if lane == 0 { 0 } else { through_previous_lane };
        block_barrier();
        (before_warp.saturating_add(before_lane), total)
    }
}

/// Saturating sum of the values of the lanes up to this one.
#[inline(always)]
unsafe fn warp_scan(value: i64, lane: u32) -> i64 {
    let mut sum = value;
    let mut distance = 1;
    while distance < WARP {
        // SAFETY: the whole warp calls it together.
        let below = unsafe { shuffle_up_i64(sum, distance) };
        if lane >= distance {
            sum = sum.saturating_add(below);
        }
        distance *= 2;
    }
    sum
}

/// `value` of lane `lane`.
#[inline(always)]
unsafe fn broadcast(value: i64, lane: u32) -> i64 {
    // SAFETY: the whole warp calls it together.
    unsafe {
        let low = shuffle_index(value as u32, lane);
        let high = shuffle_index((value >> 32) as u32, lane);
        (i64::from(high) << 32) | i64::from(low)
    }
}

/// Smallest value of the block, in every thread. Uses 128 bytes of shared memory.
#[inline(always)]
unsafe fn block_min(value: u32, shared: u32) -> u32 {
    // SAFETY: the whole block calls it together; the last barrier frees the memory for the next
    // call.
    unsafe {
        let (lane, warp) = (lane_index(), warp_index());
        let smallest = warp_min(value);
        if lane == 0 {
            store_shared_u32(shared + 4 * warp, smallest);
        }
        block_barrier();
        let smallest = warp_min(load_shared_u32(shared + 4 * lane));
        block_barrier();
        smallest
    }
}
