//! `pad_rows`, `unpad_rows`: tokens with every group padded to a multiple of some number of rows,
//! and back.
//!
//! A warp takes a row at a time. Elements are bytes: what counts is whether rows can be moved in
//! pieces of 16.

use ptx_std::memory::{
    load_constant_u8, load_constant_u32, load_constant_u32x4, store_u8, store_u32, store_u32x4,
};
use ptx_std::thread::{WARP, block_index, grid_blocks, lane_index, warp_index};

use crate::abi::pad::PadArgs;
use crate::table::Table;

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Warps of a block.
const WARPS: u32 = THREADS / WARP;

/// Copies each padded row from its token, or fills it with zeros if it has none.
///
/// # Safety
///
/// Blocks of [`THREADS`] threads; the addresses in `args` are valid for what its fields describe.
#[inline(always)]
pub unsafe fn pad(args: &PadArgs, _args_address: u64) {
    // SAFETY: the launcher keeps the contract above; a warp stays together.
    unsafe {
        let table = Table::new(args.table, args.groups);
        let rows = table.padded_offset(args.groups);
        let mut row = first_row();
        while row < rows {
            let group = table.group_of_padded_row(row);
            let in_group = row - table.padded_offset(group);
            let token = table.row_offset(group) + in_group;
            let exists = token < table.row_offset(group + 1);
            let from = exists.then_some(args.source + token as u64 * args.row_bytes);
            move_row(args, from, args.destination + row as u64 * args.row_bytes);
            row += i64::from(grid_blocks() * WARPS);
        }
    }
}

/// Copies each token from its padded row.
///
/// # Safety
///
/// As [`pad`].
#[inline(always)]
pub unsafe fn unpad(args: &PadArgs, _args_address: u64) {
    // SAFETY: the launcher keeps the contract above; a warp stays together.
    unsafe {
        let table = Table::new(args.table, args.groups);
        let rows = table.row_offset(args.groups);
        let mut row = first_row();
        while row < rows {
            let group = table.group_of_row(row);
            let padded = table.padded_offset(group) + row - table.row_offset(group);
            let from = args.source + padded as u64 * args.row_bytes;
            move_row(args, Some(from), args.destination + row as u64 * args.row_bytes);
            row += i64::from(grid_blocks() * WARPS);
        }
    }
}

/// The first row of this warp.
#[inline(always)]
unsafe fn first_row() -> i64 {
    // SAFETY: the caller brings the whole warp.
    unsafe { i64::from(block_index() * WARPS + warp_index()) }
}

/// Copies a row, or fills it with zeros, in the largest pieces that its addresses and length allow.
#[inline(always)]
unsafe fn move_row(args: &PadArgs, from: Option<u64>, to: u64) {
    let together = args.source | args.destination | args.row_bytes;
    // SAFETY: handed to the caller; all rows are aligned as the buffers and the length are.
    unsafe {
        if together.is_multiple_of(16) {
            move_sixteens(from, to, args.row_bytes / 16);
        } else if together.is_multiple_of(4) {
            let mut piece = u64::from(lane_index());
            while piece < args.row_bytes / 4 {
                store_u32(to + 4 * piece, from.map_or(0, |at| load_constant_u32(at + 4 * piece)));
                piece += u64::from(WARP);
            }
        } else {
            let mut piece = u64::from(lane_index());
            while piece < args.row_bytes {
                store_u8(to + piece, from.map_or(0, |at| load_constant_u8(at + piece)));
                piece += u64::from(WARP);
            }
        }
    }
}

/// Moves pieces of 16 bytes, four a lane on their way at once: 128 KiB on a full multiprocessor.
#[inline(always)]
unsafe fn move_sixteens(from: Option<u64>, to: u64, pieces: u64) {
    const STEP: u64 = WARP as u64;
    let mut piece = u64::from(lane_index());
    // SAFETY: the caller vouches for the pieces.
    unsafe {
        let load = |piece: u64| from.map_or([0; 4], |at| load_constant_u32x4(at + 16 * piece));
        while piece + 3 * STEP < pieces {
            let values = [0, 1, 2, 3].map(|i| load(piece + i * STEP));
            for i in 0..4 {
                store_u32x4(to + 16 * (piece + i * STEP), values[i as usize]);
            }
            piece += 4 * STEP;
        }
        while piece < pieces {
            store_u32x4(to + 16 * piece, load(piece));
            piece += STEP;
        }
    }
}
