//! `dequantize`: a copy of FP8 back to BF16, FP16 or FP32.
//!
//! A block takes tiles of 128 × 128. A transposed copy goes through shared memory, where features lie
//! so that neither the 16-byte pieces that come nor the single bytes that go meet in a bank.

use ptx_std::convert::{e4m3x2_to_f32, e5m2x2_to_f32};
use ptx_std::memory::{
    load_constant_f32, load_constant_u32, load_constant_u32x4, load_constant_u64, load_shared_u8,
    shared_base, store_shared_u32, store_u32x2, store_u32x4,
};
use ptx_std::sync::block_barrier;
use ptx_std::thread::{block_index, grid_blocks, thread_index};

use super::stage::{HEIGHT, STRIP, WIDTH};
use super::tiles::{Extent, Tile};
use crate::abi::ElementType;
use crate::abi::quantize::{Blocks, DequantizeArgs};
use crate::gemm::element::Kind;

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Bytes from one feature to the next in shared memory: 33 banks.
const PITCH: u32 = HEIGHT + 4;
/// Bytes that follow every [`STRIP`] features.
const GAP: u32 = 4;
/// Dynamic shared memory.
pub const SHARED_BYTES: u32 = WIDTH * PITCH + WIDTH / STRIP * GAP;

/// Threads side by side: 16 bytes each.
const ACROSS: u32 = 128 / STRIP;
/// Lines that a block takes at once.
const AT_ONCE: u32 = THREADS / ACROSS;

/// The kernel.
///
/// # Safety
///
/// Blocks of [`THREADS`] threads with [`SHARED_BYTES`] of dynamic shared memory; the addresses in
/// `args` are valid for what its fields describe; the destination's, its columns and the data's are
/// multiples of 16.
#[inline(always)]
pub unsafe fn run(args: &DequantizeArgs, _args_address: u64) {
    // SAFETY: the launcher keeps the contract above. All threads of a block take the same tiles, so
    // they meet at every barrier.
    unsafe {
        if args.skip != 0 && load_constant_u32(args.skip) != 0 {
            return;
        }
        let DequantizeArgs { table, groups, rows, columns, .. } = *args;
        let extent = Extent { table, groups, rows, columns };
        let tiles = extent.tiles();
        let mut index = block_index();
        while index < tiles {
            let tile = extent.tile(index);
            if args.columnwise != 0 {
                bring(args, &tile);
                block_barrier();
            }
            restore(args, &tile);
            if args.columnwise != 0 {
                block_barrier();
            }
            index += grid_blocks();
        }
    }
}

/// Brings the tile of a transposed copy to shared memory.
#[inline(always)]
unsafe fn bring(args: &DequantizeArgs, tile: &Tile) {
    let (part, first) = (thread_index() % ACROSS, thread_index() / ACROSS);
    let has_rows = STRIP * part < tile.rows;
    let data = args.copy.data + u64::from(tile.group) * args.copy.group_pitch + tile.padded;
    let mut column = first;
    while has_rows && column < tile.columns {
        let line = u64::from(tile.column + column) * args.copy.pitch;
        // SAFETY: the column and the rows exist; weights have a multiple of 16, tokens are padded.
        unsafe {
            let words = load_constant_u32x4(data + line + u64::from(STRIP * part));
            let to = shared_base() + column * PITCH + column / STRIP * GAP + STRIP * part;
            for i in 0..4u32 {
                store_shared_u32(to + 4 * i, words[i as usize]);
            }
        }
        column += AT_ONCE;
    }
}

/// Restores the elements of a tile, 16 of a row at a time.
#[inline(always)]
unsafe fn restore(args: &DequantizeArgs, tile: &Tile) {
    let kind = Kind(args.destination_type);
    let (part, first) = (thread_index() % ACROSS, thread_index() / ACROSS);
    let column = tile.column + STRIP * part;
    // SAFETY: the rows and columns exist.
    unsafe {
        let group = u64::from(tile.group);
        let (base, first_row) = if args.destination_array != 0 {
            (load_constant_u64(args.destination_array + 8 * group), u64::from(tile.row))
        } else if args.table != 0 {
            (args.destination, tile.line)
        } else {
            (args.destination, group * u64::from(args.rows) + u64::from(tile.row))
        };
        let mut row = first;
        while row < tile.rows && STRIP * part < tile.columns {
            let words = if args.columnwise != 0 {
                gather(shared_base() + part * (STRIP * PITCH + GAP) + row)
            } else {
                let line =
                    group * args.copy.group_pitch + (tile.line + u64::from(row)) * args.copy.pitch;
                load_constant_u32x4(args.copy.data + line + u64::from(column))
            };
            let element =
                (first_row + u64::from(row)) * u64::from(args.columns) + u64::from(column);
            let mut to = base + element * kind.bytes();
            for i in 0..4u32 {
                let values = decode(args.format, words[i as usize]);
                let values = scaled(args, tile, row, column + 4 * i, values);
                if kind.is_f32() {
                    store_u32x4(to, values.map(f32::to_bits));
                    to += 16;
                } else {
                    let [a, b, c, d] = values;
                    store_u32x2(to, [kind.pack([a, b]), kind.pack([c, d])]);
                    to += 8;
                }
            }
            row += AT_ONCE;
        }
    }
}

/// Sixteen bytes that lie [`PITCH`] apart.
#[inline(always)]
unsafe fn gather(address: u32) -> [u32; 4] {
    // SAFETY: the caller vouches for the bytes.
    let byte = |i: u32| u32::from(unsafe { load_shared_u8(address + i * PITCH) });
    [0, 4, 8, 12].map(|i| byte(i) | byte(i + 1) << 8 | byte(i + 2) << 16 | byte(i + 3) << 24)
}

#[inline(always)]
fn decode(format: u32, word: u32) -> [f32; 4] {
    let halves = [word as u16, (word >> 16) as u16];
    let [[a, b], [c, d]] = if format == ElementType::E5m2 as u32 {
        halves.map(e5m2x2_to_f32)
    } else {
        halves.map(e4m3x2_to_f32)
    };
    [a, b, c, d]
}

/// Multiplies neighbours in a row by the scale_inv of their blocks.
#[inline(always)]
unsafe fn scaled(
    args: &DequantizeArgs,
    tile: &Tile,
    row: u32,
    column: u32,
    values: [f32; 4],
) -> [f32; 4] {
    const TENSOR: u32 = Blocks::Tensor as u32;
    const VECTOR: u32 = Blocks::Vector as u32;
    let group = u64::from(tile.group);
    let across = u64::from(column / WIDTH);
    let down = tile.padded / u64::from(HEIGHT);
    let at = |outer: u64, inner: u64| {
        let element = group * args.copy.scales.group_pitch + outer * args.copy.scales.pitch + inner;
        args.copy.scale_inv + 4 * element
    };
    // SAFETY: the blocks exist.
    unsafe {
        let one = |address: u64| [load_constant_f32(address); 4];
        let factors = match (args.blocks, args.columnwise != 0) {
            (TENSOR, _) => one(args.copy.scale_inv + 4 * group),
            (VECTOR, false) => one(at(across, tile.line + u64::from(row))),
            (VECTOR, true) => load_constant_u32x4(at(down, u64::from(column))).map(f32::from_bits),
            (_, false) => one(at(down, across)),
            (_, true) => one(at(across, down)),
        };
        let [[a, b, c, d], [e, f, g, h]] = [values, factors];
        [a * e, b * f, c * g, d * h]
    }
}
