//! Sums that belong to the bias: `dbias_partial`, `dbias_reduce`, `dscales`.
//!
//! No atomics: each sum is taken in an order that the shapes alone decide, so that two runs agree
//! bit for bit. dbias takes two launches: the first sums segments of at most 128 rows of one group,
//! the second adds the segments of each group in order.

// Loops over indices of constant range are taken apart, and their arrays live in registers;
// iterators over arrays are not always.
#![allow(clippy::needless_range_loop)]

use ptx_std::convert::fma;
use ptx_std::memory::{
    load_constant_f32, load_constant_u32, load_constant_u32x4, load_constant_u64, load_shared_f32,
    shared_base, store_f32, store_shared_f32,
};
use ptx_std::sync::block_barrier;
use ptx_std::thread::{
    WARP, block_index, block_index_y, grid_blocks_y, lane_index, shuffle_xor_f32, thread_index,
    warp_index,
};

use crate::abi::{DBIAS_SEGMENT_ROWS, DbiasArgs, DscalesArgs};
use crate::gemm::element::Kind;
use crate::table::Table;

/// Threads of a block, in every kernel here.
pub const THREADS: u32 = 256;
/// Warps of a block.
const WARPS: u32 = THREADS / WARP;
/// Columns that a thread loads at once; the loops over a chunk say 8.
const CHUNK: u32 = 8;
/// Columns of a block of `dbias_partial`.
pub const COLUMNS: u32 = 64;
/// Threads side by side in a row.
const ACROSS: u32 = COLUMNS / CHUNK;
/// Rows that a block of `dbias_partial` loads at once.
const ROWS_AT_ONCE: u32 = THREADS / ACROSS;
/// Dynamic shared memory of `dbias_partial`: a sum per warp and column.
pub const PARTIAL_SHARED_BYTES: u32 = 4 * WARPS * COLUMNS;

const _: () = assert!(WARP.is_multiple_of(ACROSS) && ACROSS.is_power_of_two());

/// Sums segments: block (x, y) takes 64 columns of segment y, y + grid, …
///
/// # Safety
///
/// Blocks of 256 threads with [`PARTIAL_SHARED_BYTES`] of dynamic shared memory; the addresses in
/// `args` are valid for what its fields describe.
#[inline(always)]
pub unsafe fn dbias_partial(args: &DbiasArgs, _args_address: u64) {
    // SAFETY: the launcher keeps the contract above. All threads of a block take the same segments,
    // so they meet at every barrier.
    unsafe {
        let table = Table::new(args.table, args.groups);
        let segments = table.tile_prefix(table.groups);
        let mut segment = block_index_y();
        while segment < segments {
            partial_segment(args, &table, segment);
            segment += grid_blocks_y();
        }
    }
}

#[inline(always)]
unsafe fn partial_segment(args: &DbiasArgs, table: &Table, segment: u32) {
    // SAFETY: as in `dbias_partial`; `segment` is below the number of segments.
    unsafe {
        let thread = thread_index();
        let (lane, warp) = (lane_index(), warp_index());
        let first_column = block_index() * COLUMNS;
        let column = first_column + CHUNK * (thread % ACROSS);

        // Find the segment's rows.
        let group = table.group_of_tile(segment);
        let in_group =
            i64::from(segment - table.tile_prefix(group)) * i64::from(DBIAS_SEGMENT_ROWS);
        let first = table.row_offset(group) + in_group;
        let end = table.row_offset(group + 1).min(first + i64::from(DBIAS_SEGMENT_ROWS));

        // Sum every 32nd row, eight columns a thread.
        let mut sums = [0f32; 8];
        let mut row = first + i64::from(thread / ACROSS);
        while row < end {
            let values = load_chunk(Kind(args.dy_type), args.dy, row as u64, args.n, column);
            let scale = if args.row_scales == 0 {
                1.0
            } else {
                load_constant_f32(args.row_scales + 4 * row as u64)
            };
            for i in 0..8 {
                sums[i] = fma(scale, values[i], sums[i]);
            }
            row += i64::from(ROWS_AT_ONCE);
        }

        // Add the rows of the warp, then those of the block.
        for i in 0..8 {
            sums[i] += shuffle_xor_f32(sums[i], 8);
            sums[i] += shuffle_xor_f32(sums[i], 16);
        }
        let shared = shared_base();
        if lane < ACROSS {
            let at = shared + 4 * (warp * COLUMNS + CHUNK * lane);
            for i in 0..8 {
                store_shared_f32(at + 4 * i as u32, sums[i]);
            }
        }
        block_barrier();
        if thread < COLUMNS && first_column + thread < args.n {
            let mut sum = 0.0;
            for warp in 0..WARPS {
                sum += load_shared_f32(shared + 4 * (warp * COLUMNS + thread));
            }
            let index = u64::from(segment) * u64::from(args.n) + u64::from(first_column + thread);
            store_f32(args.partial + 4 * index, sum);
        }
        block_barrier();
    }
}

/// Adds the segments of each group: block (x, g) takes 256 columns of group g, a thread each.
///
/// # Safety
///
/// Blocks of 256 threads, as many along y as there are groups; the addresses in `args` are valid
/// for what its fields describe, the partial sums written by an earlier launch.
#[inline(always)]
pub unsafe fn dbias_reduce(args: &DbiasArgs, _args_address: u64) {
    let group = block_index_y();
    let column = block_index() * THREADS + thread_index();
    // SAFETY: the launcher keeps the contract above; each thread has its own element.
    unsafe {
        // Leave everything as it is where the flag says so: there are no partial sums then.
        if args.skip != 0 && load_constant_u32(args.skip) != 0 {
            return;
        }
        let table = Table::new(args.table, args.groups);
        if column >= args.n || !table.is_valid() {
            return;
        }

        // Add the segments in order; none, if the group is empty.
        let first = table.tile_prefix(group) / args.tile_columns;
        let end = table.tile_prefix(group + 1) / args.tile_columns;
        let mut sum = 0.0;
        for segment in first..end {
            let index = u64::from(segment) * u64::from(args.n) + u64::from(column);
            sum += load_constant_f32(args.partial + 4 * index);
        }

        // Store the sum, or add it to what was there.
        let kind = Kind(args.db_type);
        let db = if args.db_array != 0 {
            load_constant_u64(args.db_array + 8 * u64::from(group))
        } else {
            args.db + u64::from(group) * u64::from(args.n) * kind.bytes()
        };
        let address = db + u64::from(column) * kind.bytes();
        if args.accumulate != 0 {
            sum += kind.load(address);
        }
        kind.store(address, sum);
    }
}

/// Multiplies rows of dY by their group's bias: a warp a row.
///
/// # Safety
///
/// Blocks of 256 threads; the addresses in `args` are valid for what its fields describe.
#[inline(always)]
pub unsafe fn dscales(args: &DscalesArgs, _args_address: u64) {
    // SAFETY: the launcher keeps the contract above; a warp stays together.
    unsafe {
        let row = i64::from(block_index()) * i64::from(WARPS) + i64::from(warp_index());
        let lane = lane_index();

        // Find the row's group; rows past the last group have none.
        let table = Table::new(args.table, args.groups);
        if row >= table.row_offset(table.groups) {
            return;
        }
        let group = table.group_of_row(row);
        let bias_kind = Kind(args.bias_type);
        let bias = if args.bias_array != 0 {
            load_constant_u64(args.bias_array + 8 * u64::from(group))
        } else {
            args.bias + u64::from(group) * u64::from(args.n) * bias_kind.bytes()
        };

        // Multiply, eight columns a lane, then add the lanes.
        let mut sum = 0.0;
        let mut column = CHUNK * lane;
        while column < args.n {
            let dy = load_chunk(Kind(args.dy_type), args.dy, row as u64, args.n, column);
            let bias = load_chunk(bias_kind, bias, 0, args.n, column);
            for i in 0..8 {
                sum = fma(dy[i], bias[i], sum);
            }
            column += CHUNK * WARP;
        }
        let mut distance = WARP / 2;
        while distance > 0 {
            sum += shuffle_xor_f32(sum, distance);
            distance /= 2;
        }
        if lane == 0 {
            store_f32(args.dscales + 4 * row as u64, sum);
        }
    }
}

/// Loads `matrix[row, column .. column + 8]` of a matrix with `n` columns, zeros past the last: by
/// 16-byte loads where it is aligned for them, else one by one.
#[inline(always)]
unsafe fn load_chunk(kind: Kind, matrix: u64, row: u64, n: u32, column: u32) -> [f32; 8] {
    let address = matrix + (row * u64::from(n) + u64::from(column)) * kind.bytes();
    // SAFETY: only elements inside the matrix are loaded; the caller's matrix is constant.
    unsafe {
        if column + CHUNK <= n && address.is_multiple_of(16) {
            let [a, b, c, d] = load_constant_u32x4(address);
            if kind.is_f32() {
                let [e, f, g, h] = load_constant_u32x4(address + 16);
                return [a, b, c, d, e, f, g, h].map(f32::from_bits);
            }
            let [[a, b], [c, d], [e, f], [g, h]] =
                [kind.unpack(a), kind.unpack(b), kind.unpack(c), kind.unpack(d)];
            return [a, b, c, d, e, f, g, h];
        }
        let load = |i: u32| {
            if column + i < n {
                kind.load_constant(address + u64::from(i) * kind.bytes())
            } else {
                0.0
            }
        };
        [load(0), load(1), load(2), load(3), load(4), load(5), load(6), load(7)]
    }
}
