//! `mxfp8_dequantize`, `nvfp4_dequantize`: one copy to BF16, FP16 or FP32.
//!
//! What is stored is the code's value times its scales in FP32, rounded once. A thread has eight
//! elements that are neighbours in the data.

use ptx_std::convert::f16x2_to_f32;
use ptx_std::convert_small::{e4m3x4_to_f16x4, e5m2x4_to_f16x4};
use ptx_std::memory::{
    load_constant_byte, load_constant_f32, load_constant_u32, load_constant_u64, store_u32x4,
};
use ptx_std::thread::{block_index, grid_blocks, thread_index};

use super::e2m1::Codes;
use super::e8m0::value;
use super::scaling::{Scaling, widen};
use super::source::{CHUNK, Source};
use super::tiles::{COLUMNS, ROWS, Tile, Tiles, is_skipped};
use super::unroll::{array8, each8};
use crate::abi::ElementType;
use crate::abi::mx::{MXFP8_BLOCK, MxDequantizeArgs, MxScales, NVFP4_BLOCK};
use crate::gemm::element::{Bf16, Kind};

/// Threads of a block.
pub const THREADS: u32 = 256;

/// Chunks of a tile.
const CHUNKS: u32 = ROWS * COLUMNS / CHUNK;

/// Restores MXFP8: block x takes tiles x, x + grid, …
///
/// # Safety
///
/// Blocks of [`THREADS`] threads; the addresses in `args` are valid for what its fields describe;
/// columns are a multiple of 32.
#[inline(always)]
pub unsafe fn mxfp8(args: &MxDequantizeArgs, _args_address: u64) {
    // SAFETY: the launcher keeps the contract above; elements are loaded and stored where they are.
    unsafe {
        if is_skipped(args.source.skip) {
            return;
        }
        let columns = args.source.columns;
        let tiles = Tiles::new(&args.source);
        let mut index = block_index();
        while index < tiles.count {
            let tile = tiles.get(index);
            let scales = Scales::new(args, &tile, MXFP8_BLOCK);
            let mut chunk = thread_index();
            while chunk < CHUNKS {
                let across = COLUMNS / CHUNK;
                let row = tile.row + chunk / across;
                let column = tile.column + chunk % across * CHUNK;
                if args.copy.exact != 0 {
                    exact(args, &tile, tile.first, (row, column), 1.0);
                } else if row < tile.rows && column < columns {
                    let at = (tile.first + u64::from(row)) * u64::from(columns) + u64::from(column);
                    let codes = [
                        load_constant_u32(args.copy.data + at),
                        load_constant_u32(args.copy.data + at + 4),
                    ];
                    let values = fp8_values(args, codes);
                    let scale = |i: usize| value(scales.load(row, column + i as u32));
                    store(args, &tile, at, array8(|i| values[i] * scale(i)));
                }
                chunk += THREADS;
            }
            index += grid_blocks();
        }
    }
}

/// Restores NVFP4: block x takes tiles x, x + grid, … Chunks of the columnwise copy are eight rows
/// of a column; they are stored one by one.
///
/// # Safety
///
/// Blocks of [`THREADS`] threads; the addresses in `args` are valid for what its fields describe;
/// columns, and rows of columnwise weights, are a multiple of 16.
#[inline(always)]
pub unsafe fn nvfp4(args: &MxDequantizeArgs, _args_address: u64) {
    // SAFETY: as in `mxfp8`.
    unsafe {
        if is_skipped(args.source.skip) {
            return;
        }
        let tiles = Tiles::new(&args.source);
        let mut index = block_index();
        while index < tiles.count {
            let tile = tiles.get(index);
            let scales = Scales::new(args, &tile, NVFP4_BLOCK);
            let mut chunk = thread_index();
            while chunk < CHUNKS {
                if args.copy.exact != 0 {
                    nvfp4_exact(args, &tiles, &tile, chunk);
                } else if args.columnwise != 0 {
                    nvfp4_column(args, &tiles, &tile, &scales, chunk);
                } else {
                    nvfp4_row(args, &tile, &scales, chunk);
                }
                chunk += THREADS;
            }
            index += grid_blocks();
        }
    }
}

/// Eight exact numbers of a group, whose rows begin at row `first` of the copy, times a factor.
#[inline(always)]
unsafe fn exact(
    args: &MxDequantizeArgs,
    tile: &Tile,
    first: u64,
    (row, column): (u32, u32),
    factor: f32,
) {
    let columns = args.source.columns;
    if row >= tile.rows || column >= columns {
        return;
    }
    let place = |first: u64| (first + u64::from(row)) * u64::from(columns) + u64::from(column);
    // SAFETY: as in `mxfp8`.
    unsafe {
        let values = Bf16::values(Bf16::load(true, args.copy.exact + 2 * place(first)));
        store(args, tile, place(tile.first), values.map(|value| value * factor));
    }
}

/// Eight exact numbers of NVFP4; those of padded tokens lie where the padded rows do.
#[inline(always)]
unsafe fn nvfp4_exact(args: &MxDequantizeArgs, tiles: &Tiles<'_>, tile: &Tile, chunk: u32) {
    let across = COLUMNS / CHUNK;
    let row = tile.row + chunk / across;
    let column = tile.column + chunk % across * CHUNK;
    if row >= tile.rows || column >= args.source.columns {
        return;
    }
    let padded = args.columnwise != 0 && tiles.are_tokens();
    let first = if padded { tile.padded } else { tile.first };
    let line = tile.first + u64::from(row);
    let owner = if args.row_scaled != 0 { line } else { u64::from(tile.group) };
    // SAFETY: as in `nvfp4`.
    unsafe {
        let amax = load_constant_f32(args.amax + 4 * owner);
        exact(args, tile, first, (row, column), Scaling::scale_inv(amax, args.bound));
    }
}

/// Eight neighbours in a row.
#[inline(always)]
unsafe fn nvfp4_row(args: &MxDequantizeArgs, tile: &Tile, scales: &Scales, chunk: u32) {
    let across = COLUMNS / CHUNK;
    let row = tile.row + chunk / across;
    let column = tile.column + chunk % across * CHUNK;
    let columns = args.source.columns;
    if row >= tile.rows || column >= columns {
        return;
    }
    // SAFETY: as in `nvfp4`.
    unsafe {
        let line = tile.first + u64::from(row);
        let at = line * u64::from(columns) + u64::from(column);
        let owner = if args.row_scaled != 0 { line } else { u64::from(tile.group) };
        let factor = restoring_factor(args, owner, scales.load(row, column));
        let values = fp4_values(load_constant_u32(args.copy.data + at / 2));
        store(args, tile, at, values.map(|value| value * factor));
    }
}

/// Eight neighbours in a column. Threads side by side have columns side by side, so that what they
/// store is, too.
#[inline(always)]
unsafe fn nvfp4_column(
    args: &MxDequantizeArgs,
    tiles: &Tiles<'_>,
    tile: &Tile,
    scales: &Scales,
    chunk: u32,
) {
    let column = tile.column + chunk % COLUMNS;
    let row = tile.row + chunk / COLUMNS * CHUNK;
    let columns = args.source.columns;
    let tokens = tiles.are_tokens();
    if column >= columns || (!tokens && row >= tile.rows) {
        return;
    }
    // SAFETY: as in `nvfp4`.
    unsafe {
        let as_source = args.as_source != 0;
        let (line, first, pitch, result) = if tokens {
            let result = if as_source { tile.first } else { tile.padded };
            (column.into(), tile.padded, u64::from(args.source.padded_rows), result)
        } else {
            let lines = u64::from(tile.group) * u64::from(columns);
            (lines + u64::from(column), 0, u64::from(args.source.rows), tile.first)
        };
        let data: u64 = line * pitch + first + u64::from(row);
        let factor = restoring_factor(args, u64::from(tile.group), scales.load(row, column));
        let values = fp4_values(load_constant_u32(args.copy.data + data / 2));
        let kind = Kind(args.destination_type);
        // What is transformed has values in all rows of a block; what follows it is zero.
        let end = tile.rows.next_multiple_of(NVFP4_BLOCK);
        let destination = destination(args, tile);
        each8(|i| {
            let row = row + i as u32;
            if as_source && row >= tile.rows {
                return;
            }
            let value = if row < end { values[i] * factor } else { 0.0 };
            let at = (result + u64::from(row)) * u64::from(columns) + u64::from(column);
            kind.store(destination + kind.bytes() * at, value);
        });
    }
}

/// By what the codes of a block are multiplied, whose scale has this E4M3 code. `owner` is its
/// group or row.
#[inline(always)]
unsafe fn restoring_factor(args: &MxDequantizeArgs, owner: u64, code: u32) -> f32 {
    let scale = widen(code)[0];
    if args.amax == 0 {
        return scale;
    }
    // SAFETY: the caller's owner has a largest magnitude.
    let amax = unsafe { load_constant_f32(args.amax + 4 * owner) };
    Scaling::new(amax, args.bound).restoring_factor(scale)
}

/// The scales of a tile's group.
struct Scales {
    layout: MxScales,
    address: u64,
    rows: u32,
}

impl Scales {
    #[inline(always)]
    fn new(args: &MxDequantizeArgs, tile: &Tile, block: u32) -> Self {
        let layout = MxScales {
            block,
            columns: args.source.columns,
            columnwise: args.columnwise != 0,
            swizzled: args.copy.swizzled != 0,
        };
        Self { layout, address: args.copy.scales + layout.base(tile.padded), rows: tile.rows }
    }

    /// The scale of an element of the group.
    #[inline(always)]
    unsafe fn load(&self, row: u32, column: u32) -> u32 {
        let (row, column) = if self.layout.columnwise {
            (row / self.layout.block, column)
        } else {
            (row, column / self.layout.block)
        };
        // SAFETY: the caller vouches for the element, which has a scale.
        unsafe { load_constant_byte(self.address + self.layout.offset(row, column, self.rows)) }
    }
}

/// The values of eight FP8 codes.
#[inline(always)]
fn fp8_values(args: &MxDequantizeArgs, codes: [u32; 2]) -> [f32; 8] {
    let halves = codes.map(|codes| {
        if args.format == ElementType::E5m2 as u32 {
            e5m2x4_to_f16x4(codes)
        } else {
            e4m3x4_to_f16x4(codes)
        }
    });
    let [[[a, b], [c, d]], [[e, f], [g, h]]] = halves.map(|pairs| pairs.map(f16x2_to_f32));
    [a, b, c, d, e, f, g, h]
}

/// The values of eight FP4 codes.
#[inline(always)]
fn fp4_values(word: u32) -> [f32; 8] {
    let (codes, signs) = Codes::unpack(word);
    let [a, b, c, d] = codes.values();
    let [e, f, g, h] = signs.pairs();
    let [[a, b], [c, d], [e, f], [g, h]] =
        [a | e, b | f, c | g, d | h].map(ptx_std::convert::bf16x2_to_f32);
    [a, b, c, d, e, f, g, h]
}

/// Where the result's element 0 is, or would be: that of a discrete group is counted from the first
/// group on, too.
#[inline(always)]
unsafe fn destination(args: &MxDequantizeArgs, tile: &Tile) -> u64 {
    if args.destination != 0 {
        return args.destination;
    }
    // SAFETY: the array has an address for each group.
    let own = unsafe { load_constant_u64(args.destination_array + 8 * u64::from(tile.group)) };
    let before = tile.first * u64::from(args.source.columns);
    own.wrapping_sub(Kind(args.destination_type).bytes() * before)
}

/// Stores eight neighbours at element `at`.
#[inline(always)]
unsafe fn store(args: &MxDequantizeArgs, tile: &Tile, at: u64, v: [f32; 8]) {
    let kind = Kind(args.destination_type);
    // SAFETY: the caller vouches for the elements, which are aligned to 16 bytes.
    unsafe {
        let address = destination(args, tile) + kind.bytes() * at;
        if kind.is_f32() {
            let bits = v.map(f32::to_bits);
            store_u32x4(address, [bits[0], bits[1], bits[2], bits[3]]);
            store_u32x4(address + 16, [bits[4], bits[5], bits[6], bits[7]]);
            return;
        }
        let packed = [
            kind.pack([v[0], v[1]]),
            kind.pack([v[2], v[3]]),
            kind.pack([v[4], v[5]]),
            kind.pack([v[6], v[7]]),
        ];
        store_u32x4(address, packed);
    }
}
