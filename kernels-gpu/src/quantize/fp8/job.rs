//! What a block needs to know about its next tile: found by one warp, left in shared memory for the
//! others, who would otherwise spend a third of their instructions on it.

use ptx_std::hint::opaque;
use ptx_std::memory::{
    load_constant_f32, load_constant_u64, load_shared_u32x4, store_f32, store_shared_u32x4,
};
use ptx_std::sync::warp_barrier;
use ptx_std::thread::lane_index;

use super::stage::{HEIGHT, WIDTH};
use super::tiles::{Extent, Tile};
use crate::abi::quantize::{Blocks, QuantizeArgs, QuantizedCopy, SCALE_RUN};

/// A tile and the addresses that belong to it; those of what is not made mean nothing.
#[derive(Clone, Copy)]
pub struct Job {
    /// Address of its first element in the source.
    pub source: u64,
    /// Address of its first element in the rowwise copy.
    pub row_data: u64,
    /// Address of the scale_inv of its first row, or of the square.
    pub row_scales: u64,
    /// Address of its first element in the columnwise copy.
    pub column_data: u64,
    /// Address of the scale_inv of its first column, or of the square.
    pub column_scales: u64,
    /// Address of the sums of its columns.
    pub sums: u64,
    /// Its rows that exist, 1 to 128.
    pub rows: u32,
    /// Its columns that exist, 1 to 128.
    pub columns: u32,
    /// Its rows in the columnwise copy, padding included.
    pub padded_rows: u32,
    /// The scale of its group ([`Blocks::Tensor`]).
    pub scale: f32,
}

impl Job {
    /// Bytes in shared memory.
    pub const BYTES: u32 = 64;

    /// That of the tile at a place. Writes the zeros that pad lines of scales, too, if the tile is
    /// the last of a line.
    ///
    /// # Safety
    ///
    /// All lanes of one warp call it, with the same index; the addresses in `args` are valid for
    /// what its fields describe.
    #[inline(always)]
    pub unsafe fn locate(args: &QuantizeArgs, index: u32, blocks: Blocks, bytes: u32) -> Self {
        // SAFETY: handed to the caller.
        unsafe {
            // All but one warp would keep in registers what follows from these.
            let Extent { table, groups, rows, columns } = Extent::of(args);
            let extent = Extent { table, groups, rows: opaque(rows), columns: opaque(columns) };
            let tile = extent.tile_by_warp(index);
            let group = u64::from(tile.group);
            let scale = || {
                if args.scale != 0 { load_constant_f32(args.scale + 4 * group) } else { 1.0 }
            };
            Self::of_tile(args, &tile, blocks, bytes, scale)
        }
    }

    /// That of a tile whose group has this scale, with the zeros behind its scales.
    ///
    /// # Safety
    ///
    /// As [`Job::locate`].
    #[inline(always)]
    pub unsafe fn of_tile(
        args: &QuantizeArgs,
        tile: &Tile,
        blocks: Blocks,
        bytes: u32,
        scale: impl FnOnce() -> f32,
    ) -> Self {
        // SAFETY: handed to the caller.
        unsafe {
            let pads = lane_index() == 0;
            let (row_scale, column_scale) = scales(tile, blocks);
            let row_scales = element(&args.rowwise, tile, row_scale);
            let column_scales = element(&args.columnwise, tile, column_scale);
            if pads && args.rowwise.data != 0 && ends_row_scales(args, tile, blocks) {
                let last = if let Blocks::Vector = blocks { tile.rows - 1 } else { 0 };
                let last = u64::from(last);
                pad(row_scale[1] + last, row_scales + 4 * last);
            }
            if pads && args.columnwise.data != 0 && ends_column_scales(args, tile, blocks) {
                pad(column_scale[1], column_scales);
            }
            let scale = scale();
            Self {
                source: source(args, tile, bytes),
                row_data: data(&args.rowwise, tile, tile.line, u64::from(tile.column)),
                row_scales,
                column_data: data(&args.columnwise, tile, u64::from(tile.column), tile.padded),
                column_scales,
                sums: args.dbias_partial
                    + 4 * (u64::from(tile.segment) * u64::from(args.columns)
                        + u64::from(tile.column)),
                rows: tile.rows,
                columns: tile.columns,
                // Tokens are padded up to the tile's end, which no other group has.
                padded_rows: if args.table == 0 { tile.rows } else { HEIGHT },
                scale,
            }
        }
    }

    /// The warp's first lane leaves it in shared memory.
    ///
    /// # Safety
    ///
    /// All lanes of the warp call it; the [`Job::BYTES`] at `address` are its own, and aligned to
    /// 16.
    #[inline(always)]
    pub unsafe fn leave(&self, address: u32) {
        let halves = |value: u64| [value as u32, (value >> 32) as u32];
        let pair = |a: u64, b: u64| {
            let [[a, b], [c, d]] = [halves(a), halves(b)];
            [a, b, c, d]
        };
        // SAFETY: handed to the caller.
        unsafe {
            if lane_index() == 0 {
                store_shared_u32x4(address, pair(self.source, self.row_data));
                store_shared_u32x4(address + 16, pair(self.row_scales, self.column_data));
                store_shared_u32x4(address + 32, pair(self.column_scales, self.sums));
                let rest = [self.rows, self.columns, self.padded_rows, self.scale.to_bits()];
                store_shared_u32x4(address + 48, rest);
            }
            // Else what the other lanes do next would be compiled apart from what the first one
            // does.
            warp_barrier();
        }
    }

    /// Takes it from shared memory.
    ///
    /// # Safety
    ///
    /// It was left at `address`.
    #[inline(always)]
    pub unsafe fn take(address: u32) -> Self {
        let whole = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        // SAFETY: handed to the caller.
        unsafe {
            let [a, b, c, d] = load_shared_u32x4(address);
            let [e, f, g, h] = load_shared_u32x4(address + 16);
            let [i, j, k, l] = load_shared_u32x4(address + 32);
            let [rows, columns, padded_rows, scale] = load_shared_u32x4(address + 48);
            Self {
                source: whole(a, b),
                row_data: whole(c, d),
                row_scales: whole(e, f),
                column_data: whole(g, h),
                column_scales: whole(i, j),
                sums: whole(k, l),
                rows,
                columns,
                padded_rows,
                scale: f32::from_bits(scale),
            }
        }
    }
}

/// Line and place of a tile's first scale in the matrices of both copies.
#[inline(always)]
fn scales(tile: &Tile, blocks: Blocks) -> ([u64; 2], [u64; 2]) {
    let down = tile.padded / u64::from(HEIGHT);
    let across = u64::from(tile.column / WIDTH);
    match blocks {
        Blocks::Tensor => ([0, 0], [0, 0]),
        Blocks::Vector => ([across, tile.line], [down, u64::from(tile.column)]),
        Blocks::Square => ([down, across], [across, down]),
    }
}

/// Address of a scale of a copy.
#[inline(always)]
fn element(copy: &QuantizedCopy, tile: &Tile, [line, place]: [u64; 2]) -> u64 {
    let group = u64::from(tile.group) * copy.scales.group_pitch;
    copy.scale_inv + 4 * (group + line * copy.scales.pitch + place)
}

/// Address of an element of a copy.
#[inline(always)]
fn data(copy: &QuantizedCopy, tile: &Tile, line: u64, place: u64) -> u64 {
    copy.data + u64::from(tile.group) * copy.group_pitch + line * copy.pitch + place
}

/// Address of a tile's first element in the source, whose elements have `bytes` bytes.
#[inline(always)]
unsafe fn source(args: &QuantizeArgs, tile: &Tile, bytes: u32) -> u64 {
    let group = u64::from(tile.group);
    let (base, row) = if args.source_array != 0 {
        // SAFETY: the array has an address for each group.
        (unsafe { load_constant_u64(args.source_array + 8 * group) }, u64::from(tile.row))
    } else if args.table != 0 {
        (args.source, tile.line)
    } else {
        (args.source, group * u64::from(args.rows) + u64::from(tile.row))
    };
    let element = row * u64::from(args.columns) + u64::from(tile.column);
    base + element * u64::from(bytes)
}

/// Whether a tile's scales of the rowwise copy end lines that belong to its group alone.
#[inline(always)]
fn ends_row_scales(args: &QuantizeArgs, tile: &Tile, blocks: Blocks) -> bool {
    match blocks {
        Blocks::Tensor => false,
        Blocks::Vector => args.table == 0 && tile.row + HEIGHT >= args.rows,
        Blocks::Square => tile.column + WIDTH >= args.columns,
    }
}

/// The same for the columnwise copy, whose lines of vectors need no padding.
#[inline(always)]
fn ends_column_scales(args: &QuantizeArgs, tile: &Tile, blocks: Blocks) -> bool {
    matches!(blocks, Blocks::Square) && args.table == 0 && tile.row + HEIGHT >= args.rows
}

/// Writes zeros behind the last scale of a line, which ends at a multiple of [`SCALE_RUN`].
#[inline(always)]
unsafe fn pad(place: u64, address: u64) {
    let mut behind = 1;
    while !(place + behind).is_multiple_of(u64::from(SCALE_RUN)) {
        // SAFETY: handed to the caller.
        unsafe { store_f32(address + 4 * behind, 0.0) };
        behind += 1;
    }
}
