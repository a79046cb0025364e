//! `dequantize`: a copy of FP8 back to BF16, FP16 or FP32.
//!
//! A block takes tiles of 128 × 128, a thread four rows at a time, and of each so many codes that
//! their values are 16 bytes: 8, or 4 for FP32. So a warp stores whole lines of 128 bytes at once,
//! and all that it needs of its rows is on the way before it stores the first.
//!
//! A transposed copy goes through shared memory, where the rows of a feature lie in chunks of 16
//! bytes. The features of a thread have theirs in other places than those of the next, chunk `i` of
//! thread `t` in place `i ^ (t % 8)`:
//!
//! ```text
//! place           0          1          2          3   …  7
//! thread 0    0 …  15   16 …  31   32 …  47   48 …  63     rows, the same for all its features
//! thread 1   16 …  31    0 …  15   48 …  63   32 …  47
//!    …
//! ```
//!
//! Eight lanes bring the chunks of a feature, which is 32 banks. A warp reads one feature of eight
//! threads, and of each the four words of a chunk: 32 banks as well.

use ptx_std::convert::{e4m3x2_to_f32, e5m2x2_to_f32};
use ptx_std::convert_small::permute_bytes;
use ptx_std::hint::opaque;
use ptx_std::memory::{
    commit_copies, copy_async_16, load_constant_f32, load_constant_u32, load_constant_u32x4,
    load_constant_u64, load_shared_u32, load_u32_if, load_u32x2_if, shared_base, store_u32x4_if,
    wait_copies,
};
use ptx_std::sync::block_barrier;
use ptx_std::thread::{WARP, block_index, grid_blocks, thread_index};

use super::stage::{HEIGHT, STRIP, WIDTH};
use super::tiles::{Extent, Tile};
use crate::abi::ElementType;
use crate::abi::quantize::{Blocks, DequantizeArgs};
use crate::gemm::element::Kind;
use crate::quantize::mx::unroll::each4;

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Dynamic shared memory: the codes of a tile.
pub const SHARED_BYTES: u32 = WIDTH * HEIGHT;

/// Rows that a thread takes at once.
const ROWS: u32 = 4;
/// Chunks of a feature, and lanes side by side where the copy is transposed.
const CHUNKS: u32 = HEIGHT / STRIP;
/// Features that a block brings at once.
const BROUGHT: u32 = THREADS / CHUNKS;

const TENSOR: u32 = Blocks::Tensor as u32;
const VECTOR: u32 = Blocks::Vector as u32;

/// The kernel.
///
/// # Safety
///
/// Blocks of [`THREADS`] threads with [`SHARED_BYTES`] of dynamic shared memory; the addresses in
/// `args` are valid for what its fields describe; the destination's, its columns and the data's are
/// multiples of 16.
#[inline(always)]
pub unsafe fn run(args: &DequantizeArgs, _args_address: u64) {
    // SAFETY: the launcher keeps the contract above.
    unsafe {
        if args.skip != 0 && load_constant_u32(args.skip) != 0 {
            return;
        }
        if Kind(args.destination_type).is_f32() {
            restore::<4>(args);
        } else {
            restore::<8>(args);
        }
    }
}

/// Restores all tiles of this block. A thread takes `CODES` codes of a row.
#[inline(always)]
unsafe fn restore<const CODES: u32>(args: &DequantizeArgs) {
    let DequantizeArgs { table, groups, rows, columns, .. } = *args;
    let extent = Extent { table, groups, rows, columns };
    // SAFETY: all threads of a block take the same tiles, so they meet at every barrier.
    unsafe {
        let tiles = extent.tiles();
        let mut index = block_index();
        while index < tiles {
            let tile = extent.tile(index);
            if args.columnwise != 0 {
                bring::<CODES>(args, &tile);
                block_barrier();
                restore_columns::<CODES>(args, &tile);
                block_barrier();
            } else {
                restore_rows::<CODES>(args, &tile);
            }
            index += grid_blocks();
        }
    }
}

/// Restores a tile of a rowwise copy. The lanes of a warp lie along the rows.
#[inline(always)]
unsafe fn restore_rows<const CODES: u32>(args: &DequantizeArgs, tile: &Tile) {
    let thread = this_thread();
    let across = WIDTH / CODES;
    let column = CODES * (thread % across);
    if column >= tile.columns {
        return;
    }
    let pitch = args.copy.pitch;
    let line = u64::from(tile.group) * args.copy.group_pitch + tile.line * pitch;
    let data = args.copy.data + line + u64::from(tile.column + column);
    // SAFETY: the rows and columns exist.
    unsafe {
        let target = Target::new(args, tile, column);
        let (scale, step) = row_scales(args, tile);
        let mut row = ROWS * (thread / across);
        while row < tile.rows {
            let rows = [0, 1, 2, 3].map(|i| (row + i < tile.rows, u64::from(row + i)));
            let codes = rows.map(|(exists, row)| load::<CODES>(exists, data + row * pitch));
            let scales = rows.map(|(exists, row)| load_u32_if(exists, scale + row * step));
            let scales = scales.map(f32::from_bits);
            each4(|i| target.store::<CODES>(row + i as u32, codes[i], [[scales[i]; 4]; 2]));
            row += ROWS * (THREADS / across);
        }
    }
}

/// Brings this thread's chunks of the tile of a transposed copy to shared memory.
#[inline(always)]
unsafe fn bring<const CODES: u32>(args: &DequantizeArgs, tile: &Tile) {
    let thread = this_thread();
    let (chunk, first) = (thread % CHUNKS, thread / CHUNKS);
    let line = u64::from(tile.group) * args.copy.group_pitch + tile.padded;
    let data = args.copy.data + line + u64::from(STRIP * chunk);
    for i in 0..WIDTH / BROUGHT {
        let column = first + i * BROUGHT;
        let exists = column < tile.columns && STRIP * chunk < tile.rows;
        let from = data + u64::from(tile.column + column) * args.copy.pitch;
        let place = chunk ^ (column / CODES % CHUNKS);
        // SAFETY: what is read exists: weights have a multiple of 16 rows, tokens are padded.
        unsafe {
            copy_async_16(shared_base() + column * HEIGHT + STRIP * place, from, exists);
        }
    }
    commit_copies();
    wait_copies::<0>();
}

/// Restores a tile of a transposed copy. The lanes of a warp lie eight across and four down.
#[inline(always)]
unsafe fn restore_columns<const CODES: u32>(args: &DequantizeArgs, tile: &Tile) {
    let thread = this_thread();
    let across = WIDTH / CODES / CHUNKS;
    let (lane, warp) = (thread % WARP, thread / WARP);
    let column = CODES * (lane % CHUNKS + CHUNKS * (warp % across));
    if column >= tile.columns {
        return;
    }
    // SAFETY: the columns exist, and of the rows those that are stored; the tile is there.
    unsafe {
        let target = Target::new(args, tile, column);
        let scales = column_scales::<CODES>(args, tile, column);
        let mut row = ROWS * (lane / CHUNKS) + STRIP * (warp / across);
        while row < tile.rows {
            let place = (row / STRIP) ^ (lane % CHUNKS);
            let from = shared_base() + column * HEIGHT + STRIP * place + row % STRIP;
            let word = |i: u32| load_shared_u32(from + i * HEIGHT);
            let low = transposed([0, 1, 2, 3].map(word));
            let high = if CODES == 8 { transposed([4, 5, 6, 7].map(word)) } else { [0; 4] };
            each4(|i| {
                let codes = u64::from(low[i]) | u64::from(high[i]) << 32;
                target.store::<CODES>(row + i as u32, codes, scales);
            });
            row += STRIP * (THREADS / WARP / across);
        }
    }
}

/// The index of this thread. What follows from it is computed for each tile anew: kept from one to
/// the next, it would take the registers of loads that are on their way.
#[inline(always)]
fn this_thread() -> u32 {
    opaque(thread_index())
}

/// The next `CODES` codes.
#[inline(always)]
unsafe fn load<const CODES: u32>(exist: bool, address: u64) -> u64 {
    // SAFETY: handed to the caller.
    unsafe {
        let [low, high] = if CODES == 8 {
            load_u32x2_if(exist, address)
        } else {
            [load_u32_if(exist, address), 0]
        };
        u64::from(low) | u64::from(high) << 32
    }
}

/// Byte `j` of word `i` as byte `i` of word `j`: halves of words first, then bytes.
#[inline(always)]
fn transposed([a, b, c, d]: [u32; 4]) -> [u32; 4] {
    let halves = |a, b| (permute_bytes(a, b, 0x5410), permute_bytes(a, b, 0x7632));
    let bytes = |a, b| (permute_bytes(a, b, 0x6240), permute_bytes(a, b, 0x7351));
    let ((a, c), (b, d)) = (halves(a, c), halves(b, d));
    let ((a, b), (c, d)) = (bytes(a, b), bytes(c, d));
    [a, b, c, d]
}

/// Where the scale_inv of the tile's first row is, and bytes from there to that of the next row.
#[inline(always)]
fn row_scales(args: &DequantizeArgs, tile: &Tile) -> (u64, u64) {
    let across = u64::from(tile.column / WIDTH);
    match args.blocks {
        TENSOR => (args.copy.scale_inv + 4 * u64::from(tile.group), 0),
        VECTOR => (scale_address(args, tile, across, tile.line), 4),
        _ => (scale_address(args, tile, tile.padded / u64::from(HEIGHT), across), 0),
    }
}

/// The scale_inv of each of `CODES` columns of the tile.
#[inline(always)]
unsafe fn column_scales<const CODES: u32>(
    args: &DequantizeArgs,
    tile: &Tile,
    column: u32,
) -> [[f32; 4]; 2] {
    let (across, down) = (u64::from(tile.column / WIDTH), tile.padded / u64::from(HEIGHT));
    // SAFETY: the blocks exist.
    unsafe {
        let one = |address: u64| [[load_constant_f32(address); 4]; 2];
        match args.blocks {
            TENSOR => one(args.copy.scale_inv + 4 * u64::from(tile.group)),
            VECTOR => {
                let first = scale_address(args, tile, down, u64::from(tile.column + column));
                let four = |address| load_constant_u32x4(address).map(f32::from_bits);
                [four(first), if CODES == 8 { four(first + 16) } else { [0.0; 4] }]
            }
            _ => one(scale_address(args, tile, across, down)),
        }
    }
}

/// The address of a block's scale_inv.
#[inline(always)]
fn scale_address(args: &DequantizeArgs, tile: &Tile, outer: u64, inner: u64) -> u64 {
    let scales = args.copy.scales;
    let element = u64::from(tile.group) * scales.group_pitch + outer * scales.pitch + inner;
    args.copy.scale_inv + 4 * element
}

/// Where a thread stores values, one row below another.
struct Target {
    first: u64,
    pitch: u64,
    rows: u32,
    kind: Kind,
    format: u32,
}

impl Target {
    /// That of a thread whose first column of the tile is `column`.
    #[inline(always)]
    unsafe fn new(args: &DequantizeArgs, tile: &Tile, column: u32) -> Self {
        let kind = Kind(args.destination_type);
        let group = u64::from(tile.group);
        let (base, row) = if args.destination_array != 0 {
            // SAFETY: the array has an address for each group.
            let base = unsafe { load_constant_u64(args.destination_array + 8 * group) };
            (base, u64::from(tile.row))
        } else if args.table != 0 {
            (args.destination, tile.line)
        } else {
            (args.destination, group * u64::from(args.rows) + u64::from(tile.row))
        };
        let element = row * u64::from(args.columns) + u64::from(tile.column + column);
        Self {
            first: base + element * kind.bytes(),
            pitch: u64::from(args.columns) * kind.bytes(),
            rows: tile.rows,
            kind,
            format: args.format,
        }
    }

    /// Stores the values of `CODES` codes in a row, if the tile has it.
    #[inline(always)]
    unsafe fn store<const CODES: u32>(&self, row: u32, codes: u64, scales: [[f32; 4]; 2]) {
        let values = decode(self.format, codes);
        let [a, b, c, d] = [0, 1, 2, 3].map(|i| values[i] * scales[0][i]);
        let [e, f, g, h] = [0, 1, 2, 3].map(|i| values[4 + i] * scales[1][i]);
        let pairs = [[a, b], [c, d], [e, f], [g, h]];
        let words = match self.kind.0 {
            _ if CODES == 4 => [a, b, c, d].map(f32::to_bits),
            Kind::BF16 => pairs.map(|pair| Kind(Kind::BF16).pack(pair)),
            _ => pairs.map(|pair| Kind(Kind::F16).pack(pair)),
        };
        // SAFETY: the caller vouches for the columns.
        unsafe {
            store_u32x4_if(row < self.rows, self.first + u64::from(row) * self.pitch, words);
        }
    }
}

/// The values of eight codes, or of four and zeros.
#[inline(always)]
fn decode(format: u32, codes: u64) -> [f32; 8] {
    let pairs = [0, 16, 32, 48].map(|shift| (codes >> shift) as u16);
    let [[a, b], [c, d], [e, f], [g, h]] = if format == ElementType::E5m2 as u32 {
        pairs.map(e5m2x2_to_f32)
    } else {
        pairs.map(e4m3x2_to_f32)
    };
    [a, b, c, d, e, f, g, h]
}
