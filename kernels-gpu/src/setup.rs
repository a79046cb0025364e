//! `pointer_setup`: splits to group table, in one block.
//!
//! The splits may come from a router on the device, so this is the first place that can check them.
//! Each thread owns a run of consecutive groups: one, or a few if there are more groups than
//! threads. Prefix sums over the block turn their rows and tiles into offsets. Every word of the
//! table is written at every launch.
//!
//! Groups of a ragged reduction, gradients of weights, may be put in order: those with most rows
//! first, whose tiles take longest. A group whose gradient stays as it was, because it has no rows
//! and beta is 1, has no tiles.
//!
//! Other kernels wait for this one, so it does little: all sums are found at once, with one
//! barrier; warps without groups leave as soon as they can, which is at once if one warp has all
//! groups.

use ptx_std::hint::opaque;
use ptx_std::memory::{
    compare_exchange_u32, load_constant_f32, load_constant_u32, load_constant_u64, load_shared_u32,
    load_shared_u32x4, load_shared_u64, load_system_u32, shared_base, store_f32, store_shared_u32,
    store_shared_u64, store_system_release_u32, store_u32, store_u64,
};
use ptx_std::sync::{block_barrier, fence_system, warp_barrier};
use ptx_std::thread::{
    WARP, lane_index, shuffle_index, shuffle_up, thread_index, warp_index, warp_min,
};

use crate::abi::{GroupTable, MAX_GROUPS, Operand, Ragged, Scalars, SetupArgs, Status, status};

/// Threads of the block, as the table of kernels says.
pub const THREADS: u32 = 1024;

/// The most groups that are put in order.
const ORDERED_GROUPS: u32 = 256;

/// Tiles of a block from which on its groups stay in their own order. What a long tile at the end
/// costs is little then, and long and short ones side by side use the tensor cores and memory both.
const MANY_TILES: u32 = 16;

/// Where the weights of ordered groups stand in shared memory, behind the [`Sums`] of each warp.
const WEIGHTS: u32 = Sums::BYTES * WARP;

/// Dynamic shared memory of the kernel.
pub const SHARED_BYTES: u32 = WEIGHTS + 4 * ORDERED_GROUPS;

const _: () = assert!(THREADS == WARP * WARP, "a warp scans the totals of the warps");
const _: () = assert!(ORDERED_GROUPS <= THREADS, "a thread has one group, whose weight it knows");
const _: () = assert!(MAX_GROUPS < u32::MAX, "u32::MAX stands for no group");

/// The most groups that a thread owns.
const RUN: usize = 4;

const _: () = assert!(RUN as u32 * THREADS >= MAX_GROUPS);

/// The kernel.
///
/// # Safety
///
/// One block of [`THREADS`] threads; the addresses in `args` are valid for its fields'
/// descriptions.
#[inline(always)]
pub unsafe fn run(args: &SetupArgs, _args_address: u64) {
    // SAFETY: the launcher keeps the contract above; warps stay together, and all of them meet at
    // the barrier unless one has all groups. Every group index is below `groups`.
    unsafe {
        // Give each thread a run of groups.
        let (thread, warp) = (thread_index(), warp_index());
        let share = args.groups.div_ceil(THREADS);
        let first = (thread * share).min(args.groups);
        let count = share.min(args.groups - first);
        let is_idle = warp * WARP * share >= args.groups;
        let is_one_warp = args.groups <= WARP;
        if is_one_warp && is_idle {
            return;
        }

        // Read each split once: what is checked is what is used, even if another stream, unordered,
        // writes the splits meanwhile.
        let splits = [0, 1, 2, 3].map(|i| if i < count { load_split(args, first + i) } else { 0 });

        // Check the splits, and add everything up.
        let mut own = Sums::NONE;
        let mut negative = u32::MAX;
        let mut i = 0;
        while i < count {
            let split = pick(&splits, i);
            if split < 0 {
                negative = negative.min(first + i);
            }
            own = own.plus(Sums::of(args, first + i, split));
            i += 1;
        }
        let weights = shared_base() + WEIGHTS;
        let may_order = args.workers != 0 && args.groups <= ORDERED_GROUPS;
        // Not asked who is idle, or the compiler would make all that follows twice.
        if may_order && thread < ORDERED_GROUPS {
            store_shared_u32(weights + 4 * thread, own.weight());
        }
        let (before, total, negative) = scan(own, negative, warp, is_one_warp);
        if is_idle {
            return;
        }
        warp_barrier(); // One warp has all weights, or the barrier of all is behind them.
        let verdict = if negative != u32::MAX {
            // For the message alone.
            let value = load_split(args, negative);
            Status { code: status::NEGATIVE_SPLIT, group: negative, value, ..verdict(args) }
        } else if total.rows > args.rows {
            Status { code: status::TOO_MANY_ROWS, value: total.rows, ..verdict(args) }
        } else {
            verdict(args)
        };
        let valid = verdict.code == status::OK;

        // Close the prefix arrays and give the verdict.
        let layout = GroupTable::layout(args.groups);
        let is_padded = args.padded_reduction != 0;
        if thread == 0 {
            let groups = u64::from(args.groups);
            let total = total.only_if(valid);
            let end = if is_padded { i64::from(total.padded) } else { total.rows };
            let padded_end = u64::from(total.padded);
            store_u64(args.table + layout.row_offsets as u64 + 8 * groups, end as u64);
            store_u64(args.table + layout.padded_offsets as u64 + 8 * groups, padded_end);
            store_u32(args.table + layout.tile_prefix as u64 + 4 * groups, total.tiles);
            let address = args.table + layout.status as u64;
            store_u32(address, verdict.code);
            store_verdict_but_code(address, &verdict);
            store_u64(address + TAKEN, 0);
            if !valid && args.sticky_status != 0 {
                publish(args.sticky_status, &verdict);
            }
        }

        // Put the groups in order, if blocks get few tiles each.
        let is_ordered = may_order && valid && total.tiles < MANY_TILES * args.workers;
        let turn = if is_ordered { turn(weights, first, args.groups) } else { first };

        // Write the entries of each group: of no rows if the splits are bad.
        let mut place = before.only_if(valid);
        let mut i = 0;
        while i < count {
            // One loop for all cases: the compiler would make four, which take longer to fetch.
            let [valid, is_padded] = [valid, is_padded].map(|flag| opaque(u32::from(flag)) != 0);
            let split = if valid { pick(&splits, i) } else { 0 };
            let sums = Sums::of(args, first + i, split);
            write_group(args, &layout, first + i, place, sums, is_padded);
            // All groups with tiles have as many, where they are ordered, and the others come last.
            let tiles = match (is_ordered, sums.tiles) {
                (false, _) => place.tiles,
                (true, 0) => total.tiles,
                (true, tiles) => turn * tiles,
            };
            let entry = 4 * u64::from(turn + i);
            store_u32(args.table + layout.tile_prefix as u64 + entry, tiles);
            store_u32(args.table + layout.order as u64 + entry, first + i);
            place = place.plus(sums.only_if(valid));
            i += 1;
        }
    }
}

/// Element `index`, without an array in memory.
#[inline(always)]
fn pick(&[a, b, c, d]: &[i64; RUN], index: u32) -> i64 {
    let [upper, lower] = if index & 1 == 0 { [a, c] } else { [b, d] };
    if index & 2 == 0 { upper } else { lower }
}

/// Rows of groups and what follows from them. Of bad splits only the rows mean anything.
#[derive(Clone, Copy)]
struct Sums {
    /// Rows, without those of negative splits. They saturate, so that no overflow can make a bad
    /// sum look good.
    rows: i64,
    /// Rows with each group's rounded up. They fit: rows are checked against the buffer, which has
    /// fewer than 2^31, and all rounding adds less than 2^31.
    padded: u32,
    /// Output tiles.
    tiles: u32,
}

impl Sums {
    /// Bytes in shared memory, with the first negative split.
    const BYTES: u32 = 20;

    const NONE: Self = Self { rows: 0, padded: 0, tiles: 0 };

    /// Those of a group.
    ///
    /// # Safety
    ///
    /// The group is below `groups`.
    #[inline(always)]
    unsafe fn of(args: &SetupArgs, group: u32, split: i64) -> Self {
        let padded = (split as u32).div_ceil(args.row_align).wrapping_mul(args.row_align);
        // SAFETY: handed to the caller.
        Self { rows: split.max(0), padded, tiles: unsafe { tiles(args, group, split) } }
    }

    /// What a group is put in order by: its rows and one more, or nothing without tiles.
    #[inline(always)]
    fn weight(&self) -> u32 {
        if self.tiles == 0 { 0 } else { (self.rows as u32).wrapping_add(1) }
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        // Neither is negative, so the sum fits without a sign.
        let rows = (self.rows as u64).wrapping_add(other.rows as u64);
        Self {
            rows: rows.min(i64::MAX as u64) as i64,
            padded: self.padded.wrapping_add(other.padded),
            tiles: self.tiles.wrapping_add(other.tiles),
        }
    }

    /// This if `condition` holds, else none.
    #[inline(always)]
    fn only_if(self, condition: bool) -> Self {
        if condition { self } else { Self::NONE }
    }

    /// Those of another lane, as `fetch` brings a word from it.
    #[inline(always)]
    fn fetched(self, fetch: impl Fn(u32) -> u32) -> Self {
        let (low, high) = (fetch(self.rows as u32), fetch((self.rows >> 32) as u32));
        Self {
            rows: i64::from(high as i32) << 32 | i64::from(low),
            padded: fetch(self.padded),
            tiles: fetch(self.tiles),
        }
    }
}

/// How many groups come before this one: those with more weight, and of those with the same the
/// ones with smaller numbers.
///
/// # Safety
///
/// The weights of all groups stand at `weights`, and zeros up to a multiple of four.
#[inline(always)]
unsafe fn turn(weights: u32, group: u32, groups: u32) -> u32 {
    // SAFETY: handed to the caller.
    unsafe {
        let own = load_shared_u32(weights + 4 * group);
        let (mut before, mut other) = (0, 0);
        while other < groups {
            let four = load_shared_u32x4(weights + 4 * other);
            for (index, weight) in (other..).zip(four) {
                before += u32::from(weight + u32::from(index < group) > own);
            }
            other += 4;
        }
        before
    }
}

/// The verdict on good splits.
#[inline(always)]
fn verdict(args: &SetupArgs) -> Status {
    Status { code: status::OK, group: 0, value: 0, rows: args.rows, taken: 0 }
}

/// Output tiles of a group whose split is `rows`: none where nothing is added to a former output.
///
/// # Safety
///
/// The group is below `groups`.
#[inline(always)]
unsafe fn tiles(args: &SetupArgs, group: u32, rows: i64) -> u32 {
    // SAFETY: handed to the caller.
    let m = if args.ragged == Ragged::Rows as u32 {
        rows as u32
    } else if rows == 0 && unsafe { scalar(&args.beta, group) } == 1.0 {
        0
    } else {
        args.m
    };
    m.div_ceil(args.tile_m).wrapping_mul(args.n.div_ceil(args.tile_n))
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

/// Writes everything about one group, which has `own` behind `before`.
#[inline(always)]
unsafe fn write_group(
    args: &SetupArgs,
    layout: &GroupTable,
    group: u32,
    before: Sums,
    own: Sums,
    is_padded: bool,
) {
    let padded_row = i64::from(before.padded);
    let (row, rows) =
        if is_padded { (padded_row, own.padded) } else { (before.rows, own.rows as u32) };
    let at4 = |array: usize| args.table + array as u64 + 4 * u64::from(group);
    let at8 = |array: usize| args.table + array as u64 + 8 * u64::from(group);
    let ragged_rows = args.ragged == Ragged::Rows as u32;
    // SAFETY: the table has room for `groups` groups, and each is written by one thread.
    unsafe {
        store_u64(at8(layout.row_offsets), row as u64);
        store_u64(at8(layout.padded_offsets), padded_row as u64);

        let (a, a_offset) = locate(&args.a, group, row);
        store_u64(at8(layout.a_pointers), a);
        store_u64(at8(layout.a_offsets), a_offset);
        let (b, b_offset) = locate(&args.b, group, row);
        store_u64(at8(layout.b_pointers), b);
        store_u64(at8(layout.b_offsets), b_offset);
        let (d, d_offset) = locate(&args.d, group, row);
        store_u64(at8(layout.d_pointers), d);
        store_u64(at8(layout.d_offsets), d_offset);

        store_u32(at4(layout.m), if ragged_rows { rows } else { args.m });
        store_u32(at4(layout.n), args.n);
        store_u32(at4(layout.k), if ragged_rows { args.k } else { rows });
        let mut alpha = scalar(&args.alpha, group);
        let factors =
            [(args.a_scale_inv, args.a_scale_factor), (args.b_scale_inv, args.b_scale_factor)];
        for (scale_inv, factor) in factors {
            // What a group without rows has no part in must not make NaN of its zeros.
            if scale_inv != 0 && rows != 0 {
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
/// Byte offset of [`Status::taken`].
const TAKEN: u64 = core::mem::offset_of!(Status, taken) as u64;

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
/// Set-ups on several streams of the device may come here at once, and the host may look at any
/// time. The last word is a lock among the former that is never waited for (whoever finds it taken
/// may leave: an error is being reported), and the code is written last, by a release that the
/// host's read of it acquires.
#[inline(always)]
unsafe fn publish(address: u64, verdict: &Status) {
    const FREE: u32 = 0;
    const BUSY: u32 = 1;
    // SAFETY: the host keeps the sticky status readable and writable by the device.
    unsafe {
        if compare_exchange_u32(address + TAKEN, FREE, BUSY) != FREE {
            return;
        }
        if load_system_u32(address) == status::OK {
            store_verdict_but_code(address, verdict);
            fence_system();
            store_system_release_u32(address, verdict.code);
        }
        store_system_release_u32(address + TAKEN, FREE);
    }
}

/// Prefix sums over the block: what comes before this thread, and all of it; and the smallest
/// `negative`. An idle warp gets nothing that means anything.
#[inline(always)]
unsafe fn scan(own: Sums, negative: u32, warp: u32, is_one_warp: bool) -> (Sums, Sums, u32) {
    // SAFETY: the whole block calls it together, or one warp that has everything.
    unsafe {
        let lane = lane_index();
        let through = warp_scan(own, lane);
        let before = through.fetched(|word| shuffle_up(word, 1)).only_if(lane > 0);
        let negative = warp_min(negative);
        let of_warp = through.fetched(|word| shuffle_index(word, WARP - 1));
        if is_one_warp {
            return (before, of_warp, negative);
        }

        // Leave the totals for the other warps, each of which then scans those of all.
        let shared = shared_base();
        let [rows, others, smallest] = [0, 8 * WARP, 16 * WARP].map(|offset| shared + offset);
        if lane == 0 {
            store_shared_u64(rows + 8 * warp, of_warp.rows as u64);
            let pair = u64::from(of_warp.tiles) << 32 | u64::from(of_warp.padded);
            store_shared_u64(others + 8 * warp, pair);
            store_shared_u32(smallest + 4 * warp, negative);
        }
        block_barrier();
        let pair = load_shared_u64(others + 8 * lane);
        let totals = Sums {
            rows: load_shared_u64(rows + 8 * lane) as i64,
            padded: pair as u32,
            tiles: (pair >> 32) as u32,
        };
        let through = warp_scan(totals, lane);
        let total = through.fetched(|word| shuffle_index(word, WARP - 1));
        let warps_before =
            through.fetched(|word| shuffle_index(word, warp.saturating_sub(1))).only_if(warp > 0);
        let negative = warp_min(load_shared_u32(smallest + 4 * lane));
        (warps_before.plus(before), total, negative)
    }
}

/// The sums of the lanes up to this one.
#[inline(always)]
unsafe fn warp_scan(own: Sums, lane: u32) -> Sums {
    let mut sums = own;
    let mut distance = 1;
    while distance != WARP {
        // SAFETY: the whole warp calls it together.
        let below = sums.fetched(|word| unsafe { shuffle_up(word, distance) });
        sums = sums.plus(below.only_if(lane >= distance));
        distance = opaque(2 * distance); // not unrolled: what a launch waits for is instructions
    }
    sums
}
