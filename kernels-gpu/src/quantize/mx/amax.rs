//! `nvfp4_tile_amax_*`, `nvfp4_group_amax`, `nvfp4_row_amax`: the largest magnitudes from which
//! NVFP4 scales come, of groups (before and after the Hadamard transform) and of rows.
//!
//! A maximum does not depend on the order in which it is taken, so tiles are measured first, a
//! number each, and groups are then reduced from their tiles, without atomics. NaNs do not count.

use ptx_std::convert::{bf16x2_to_f32, f32_to_bf16x2};
use ptx_std::hint::opaque_u64;
use ptx_std::memory::{
    load_constant_f32, load_constant_u64, load_shared_f32, shared_base, store_f32,
    store_shared_f32, store_u64,
};
use ptx_std::sync::block_barrier;
use ptx_std::thread::{
    WARP, block_index, grid_blocks, lane_index, shuffle_xor_f32, thread_index, warp_index,
};

use super::hadamard::transformed_amax;
use super::scaling::Scaling;
use super::source::{CHUNK, Source, largest};
use super::tiles::{COLUMNS, ROWS, Tiles, is_skipped};
use super::unroll::{array8, array16, each16};
use crate::abi::mx::{
    NVFP4_BLOCK, Nvfp4Amax, Nvfp4GroupAmaxArgs, Nvfp4RowAmaxArgs, Nvfp4TileAmaxArgs,
};
use crate::gemm::element::Kind;
use crate::table::Table;

/// Threads of a block that measures tiles.
pub const TILE_THREADS: u32 = 128;
/// Threads of a block that reduces a group, or measures rows.
pub const THREADS: u32 = 256;
/// Dynamic shared memory of every kernel here: two numbers for each warp.
pub const SHARED_BYTES: u32 = 2 * 4 * THREADS / WARP;
/// Rows of a block of `nvfp4_row_amax`.
pub const ROWS_OF_BLOCK: u32 = THREADS / WARP;

/// Lanes side by side in a tile.
const ACROSS: u32 = COLUMNS / CHUNK;

const _: () = assert!(TILE_THREADS / ACROSS * NVFP4_BLOCK == ROWS);

/// Measures tiles: block x takes tile x. A thread has sixteen rows of eight columns.
///
/// # Safety
///
/// Blocks of [`TILE_THREADS`] threads with [`SHARED_BYTES`] of dynamic shared memory, as many as
/// tiles or more; the addresses in `args` are valid for what its fields describe; columns are a
/// multiple of 16.
#[inline(always)]
pub unsafe fn tile_amax<S: Source>(args: &Nvfp4TileAmaxArgs, _args_address: u64) {
    // SAFETY: the launcher keeps the contract above; all threads of a block take the same tile,
    // and load elements where the source has them.
    unsafe {
        if is_skipped(args.source.skip) {
            return;
        }
        let columns = args.source.columns;
        let tiles = Tiles::new(&args.source);
        let index = block_index();
        if index < tiles.count {
            // Load the thread's elements.
            let tile = tiles.get(index);
            let (thread, lane) = (thread_index(), lane_index());
            let band = warp_index() * (WARP / ACROSS) + lane / ACROSS;
            let row = tile.row + band * NVFP4_BLOCK;
            let column = tile.column + lane % ACROSS * CHUNK;
            let live = if column < columns { tile.rows.saturating_sub(row) } else { 0 };
            let in_group = u64::from(row) * u64::from(columns) + u64::from(column);
            let address = tiles.group_address(&tile, S::BYTES) + S::BYTES * in_group;
            let pitch = S::BYTES * u64::from(columns);
            let chunks = array16(|i| S::load((i as u32) < live, address + pitch * i as u64));

            // Measure them. What is wanted is asked anew where it is stored: else the compiler
            // would write all from here on, barriers included, for each answer.
            let wants = |partial| opaque_u64(partial) != 0;
            let mut plain = 0.0;
            if wants(args.plain) {
                let mut all = S::magnitudes(chunks[0]);
                each16(|i| all = S::max(all, S::magnitudes(chunks[i])));
                plain = largest(S::widen(all));
            }
            let mut transformed = 0.0;
            if wants(args.transformed) {
                let of_column = |i| transformed_amax(array16(|row| S::values(chunks[row])[i]));
                transformed = round_to_bf16(largest(array8(of_column)));
            }

            // Reduce the block's.
            let [plain, transformed] = block_max([plain, transformed], TILE_THREADS);
            if thread == 0 {
                let place = 4 * u64::from(index);
                if wants(args.plain) {
                    store_f32(args.plain + place, plain);
                }
                if wants(args.transformed) {
                    store_f32(args.transformed + place, transformed);
                }
            }
        }
    }
}

/// What the largest of some numbers becomes if each is rounded: rounding keeps their order.
#[inline(always)]
fn round_to_bf16(value: f32) -> f32 {
    bf16x2_to_f32(f32_to_bf16x2(value, value))[0]
}

/// The largest of each number over the block, in every thread; at least 0. At most once in a block:
/// nothing keeps a second call from overwriting what slow warps have yet to read.
///
/// No thread has anything to do that others have not, beside the barriers: the compiler may merge a
/// condition before one with the same after it, and take the barrier along.
#[inline(always)]
unsafe fn block_max(values: [f32; 2], threads: u32) -> [f32; 2] {
    // SAFETY: the whole block is here; a warp has its own place in shared memory.
    unsafe {
        let mut own = values;
        for value in &mut own {
            *value = warp_max(*value);
        }
        let shared = shared_base();
        if lane_index() == 0 {
            store_shared_f32(shared + 8 * warp_index_of_lane(), own[0]);
            store_shared_f32(shared + 8 * warp_index_of_lane() + 4, own[1]);
        }
        block_barrier();
        let mut all = [0.0f32; 2];
        for warp in 0..threads / WARP {
            all[0] = all[0].max(load_shared_f32(shared + 8 * warp));
            all[1] = all[1].max(load_shared_f32(shared + 8 * warp + 4));
        }
        all
    }
}

/// The largest of the warp's, in every lane.
#[inline(always)]
unsafe fn warp_max(value: f32) -> f32 {
    let mut all = value;
    let mut distance = WARP / 2;
    while distance > 0 {
        // SAFETY: the whole warp is here.
        all = all.max(unsafe { shuffle_xor_f32(all, distance) });
        distance /= 2;
    }
    all
}

/// The index of the warp, where not all of its lanes are.
#[inline(always)]
fn warp_index_of_lane() -> u32 {
    thread_index() / WARP
}

/// Reduces groups, a block each, and draws from the random state.
///
/// # Safety
///
/// Blocks of [`THREADS`] threads with [`SHARED_BYTES`] of dynamic shared memory, as many as there
/// are groups; the addresses in `args` are valid for what its fields describe, the magnitudes of
/// tiles written by an earlier launch.
#[inline(always)]
pub unsafe fn group_amax(args: &Nvfp4GroupAmaxArgs, _args_address: u64) {
    // SAFETY: the launcher keeps the contract above; a group belongs to one block.
    unsafe {
        if is_skipped(args.skip) {
            return;
        }
        let (group, thread) = (block_index(), thread_index());
        let uniform = (group * args.tiles, (group + 1) * args.tiles);
        let (first, end) = if args.table == 0 {
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
        if group == 0 && thread == 0 && args.random_state != 0 {
            draw(args.random_state, args.drawn);
        }
        let mut largest = [0.0f32; 2];
        let mut tile = first + thread;
        while tile < end {
            let place = 4 * u64::from(tile);
            if args.plain.partial != 0 {
                largest[0] = largest[0].max(load_constant_f32(args.plain.partial + place));
            }
            if args.transformed.partial != 0 {
                largest[1] = largest[1].max(load_constant_f32(args.transformed.partial + place));
            }
            tile += THREADS;
        }
        let [plain, transformed] = block_max(largest, THREADS);
        if thread == 0 {
            store_amax(&args.plain, group, plain);
            store_amax(&args.transformed, group, transformed);
        }
    }
}

/// Copies seed and offset, and adds one to the offset that is left behind.
#[inline(always)]
unsafe fn draw(state: u64, drawn: u64) {
    // SAFETY: the caller vouches for the addresses; one thread of the launch comes here.
    unsafe {
        let (seed, offset) = (load_u64(state), load_u64(state + 8));
        store_u64(drawn, seed);
        store_u64(drawn + 8, offset);
        store_u64(state + 8, offset.wrapping_add(1));
    }
}

/// Loads eight bytes that the kernel itself writes later.
#[inline(always)]
unsafe fn load_u64(address: u64) -> u64 {
    // SAFETY: the caller vouches for the address.
    let [low, high] = unsafe { ptx_std::memory::load_u32x2_if(true, address) };
    u64::from(high) << 32 | u64::from(low)
}

#[inline(always)]
unsafe fn store_amax(to: &Nvfp4Amax, group: u32, amax: f32) {
    let place = 4 * u64::from(group);
    // SAFETY: the caller vouches for the addresses; the group's elements are this thread's.
    unsafe {
        if to.partial == 0 {
            return;
        }
        store_f32(to.amax + place, amax);
        if to.scale_inv != 0 {
            store_f32(to.scale_inv + place, Scaling::scale_inv(amax, to.bound));
        }
    }
}

/// Measures rows: a warp a row, warp by warp.
///
/// # Safety
///
/// Blocks of [`THREADS`] threads; the addresses in `args` are valid for what its fields describe;
/// columns are a multiple of 16.
#[inline(always)]
pub unsafe fn row_amax(args: &Nvfp4RowAmaxArgs, _args_address: u64) {
    // SAFETY: the launcher keeps the contract above; a warp stays together, and a row is its own.
    unsafe {
        if is_skipped(args.source.skip) {
            return;
        }
        let source = &args.source;
        let kind = Kind(args.source_type);
        let rows = if source.table == 0 {
            u64::from(source.groups) * u64::from(source.rows)
        } else {
            let table = Table::new(source.table, source.groups);
            table.row_offset(source.groups) as u64
        };
        let step = u64::from(grid_blocks() * ROWS_OF_BLOCK);
        let mut row = u64::from(block_index() * ROWS_OF_BLOCK + warp_index());
        while row < rows {
            let (array, row_in_array) = if source.array == 0 {
                (source.base, row)
            } else {
                let group = row / u64::from(source.rows);
                (load_constant_u64(source.array + 8 * group), row % u64::from(source.rows))
            };
            let address = array + row_in_array * u64::from(source.columns) * kind.bytes();
            let mut own = 0.0;
            let mut column = lane_index() * CHUNK;
            while column < source.columns {
                let at = address + u64::from(column) * kind.bytes();
                own = largest(load_magnitudes(kind, at)).max(own);
                column += CHUNK * WARP;
            }
            let amax = warp_max(own);
            if lane_index() == 0 {
                store_f32(args.amax + 4 * row, amax);
                if args.scale_inv != 0 {
                    store_f32(args.scale_inv + 4 * row, Scaling::scale_inv(amax, args.bound));
                }
            }
            row += step;
        }
    }
}

/// The magnitudes of eight elements.
#[inline(always)]
unsafe fn load_magnitudes(kind: Kind, address: u64) -> [f32; 8] {
    // SAFETY: handed to the caller.
    unsafe {
        match kind.0 {
            Kind::BF16 => magnitudes::<crate::gemm::element::Bf16>(address),
            Kind::F16 => magnitudes::<crate::gemm::element::F16>(address),
            _ => magnitudes::<crate::gemm::element::F32>(address),
        }
    }
}

#[inline(always)]
unsafe fn magnitudes<S: Source>(address: u64) -> [f32; 8] {
    // SAFETY: handed to the caller.
    S::widen(S::magnitudes(unsafe { S::load(true, address) }))
}
