//! `quantize_mxfp8_*`: to FP8 with a power of two for each 32 elements, or each 32 × 32.
//!
//! A warp has 32 rows and 64 columns of a tile. A lane has eight columns of every fourth row: four
//! neighbouring lanes hold a rowwise block, four lanes one below another a columnwise one, and the
//! lanes of a row read and write without a gap.

use ptx_std::convert::{f16x2_to_f32, f32_to_bf16x2, f32x4_to_e4m3x4, f32x4_to_e5m2x4};
use ptx_std::convert_small::{e4m3x4_to_f16x4, e5m2x4_to_f16x4};
use ptx_std::hint::{opaque, opaque_u64};
use ptx_std::memory::{
    load_shared_f32, shared_base, store_f32, store_shared_f32, store_u32x2_if, store_u32x4_if,
};
use ptx_std::sync::block_barrier;
use ptx_std::thread::{WARP, block_index, lane_index, shuffle_xor_f32, thread_index, warp_index};

use super::e8m0::{Exponents, exponent, factor, value};
use super::scales::TileScales;
use super::source::{CHUNK, Source, largest};
use super::tiles::{COLUMNS, ROWS, Tiles, is_skipped};
use super::unroll::{anew, array4, array8, each8};
use crate::abi::ElementType;
use crate::abi::mx::{MXFP8_BLOCK, MxCopy, MxScales, Mxfp8Args};

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Dynamic shared memory: the scales of both copies of a tile, and the columns' sums.
pub const SHARED_BYTES: u32 = SUMS + 4 * BANDS * COLUMNS;

/// Bytes of the scales of a tile of one copy.
const SCALE_BYTES: u32 = TileScales::bytes(MXFP8_BLOCK);
/// Where the sums of the columns of each band lie, behind the scales of both copies.
const SUMS: u32 = 2 * SCALE_BYTES;
/// Bands of 32 rows of a tile.
const BANDS: u32 = ROWS / MXFP8_BLOCK;
/// Lanes side by side.
const ACROSS: u32 = 8;
/// Lanes one below another.
const DOWN: u32 = WARP / ACROSS;
/// Columns of a warp.
const WARP_COLUMNS: u32 = ACROSS * CHUNK;

const _: () = assert!(THREADS / WARP == BANDS * (COLUMNS / WARP_COLUMNS));
const _: () = assert!(DOWN * 8 == MXFP8_BLOCK, "a lane has eight rows of a band");

/// FP8 formats.
trait Format {
    /// The rounded reciprocal of the largest value.
    const RECIPROCAL_MAX: f32;
    /// Four numbers to codes, nearest even.
    fn encode(values: [f32; 4]) -> u32;
    /// Four codes to pairs of binary16.
    fn decode(codes: u32) -> [u32; 2];
}

struct E4m3;
struct E5m2;

impl Format for E4m3 {
    const RECIPROCAL_MAX: f32 = 1.0 / 448.0;

    #[inline(always)]
    fn encode(values: [f32; 4]) -> u32 {
        f32x4_to_e4m3x4(values)
    }

    #[inline(always)]
    fn decode(codes: u32) -> [u32; 2] {
        e4m3x4_to_f16x4(codes)
    }
}

impl Format for E5m2 {
    const RECIPROCAL_MAX: f32 = 1.0 / 57344.0;

    #[inline(always)]
    fn encode(values: [f32; 4]) -> u32 {
        f32x4_to_e5m2x4(values)
    }

    #[inline(always)]
    fn decode(codes: u32) -> [u32; 2] {
        e5m2x4_to_f16x4(codes)
    }
}

/// The kernel: each block takes a tile.
///
/// # Safety
///
/// Blocks of [`THREADS`] threads with [`SHARED_BYTES`] of dynamic shared memory, at least as many
/// as there are tiles; the addresses in `args` are valid for what its fields describe; columns are
/// a multiple of 32.
#[inline(always)]
pub unsafe fn run<S: Source>(args: &Mxfp8Args, _args_address: u64) {
    // SAFETY: the launcher keeps the contract above. All threads of a block take the same tile, so
    // they meet at every barrier.
    unsafe {
        if is_skipped(args.source.skip) {
            return;
        }
        let e5m2 = args.format == ElementType::E5m2 as u32;
        match (e5m2, args.square != 0) {
            (false, false) => quantize::<S, E4m3, false>(args),
            (false, true) => quantize::<S, E4m3, true>(args),
            (true, false) => quantize::<S, E5m2, false>(args),
            (true, true) => quantize::<S, E5m2, true>(args),
        }
    }
}

/// The eight rows of a lane: where its elements lie, and which of them are there.
struct Place {
    /// Index of the first row's elements in arrays that lie as the source does.
    index: u64,
    /// Elements from one of its rows to the next.
    step: u64,
    /// Rows of the group from the first one on; 0 if the source has no such columns.
    left: u32,
}

impl Place {
    /// Whether row `i` of the lane is there.
    #[inline(always)]
    fn is_live(&self, i: usize) -> bool {
        DOWN * (i as u32) < self.left
    }
}

/// Takes the tile of this block, if there is one.
#[inline(always)]
unsafe fn quantize<S: Source, F: Format, const SQUARE: bool>(args: &Mxfp8Args) {
    let columns = args.source.columns;
    // SAFETY: as in `run`; elements are loaded where the source has them, and stored where it has
    // them.
    unsafe {
        let (tiles, shared) = (Tiles::new(&args.source), shared_base());
        if block_index() >= tiles.count {
            return;
        }
        let tile = &tiles.get(block_index());

        // Find the lane's elements.
        let (thread, warp, lane) = (thread_index(), warp_index(), lane_index());
        let band = warp / (COLUMNS / WARP_COLUMNS);
        let column_in_tile = warp % (COLUMNS / WARP_COLUMNS) * WARP_COLUMNS + lane % ACROSS * CHUNK;
        let row_in_tile = band * MXFP8_BLOCK + lane / ACROSS;
        let column = tile.column + column_in_tile;
        let row = tile.row + row_in_tile;
        let place = Place {
            index: (tile.first + u64::from(row)) * u64::from(columns) + u64::from(column),
            step: u64::from(DOWN) * u64::from(columns),
            left: if column < columns { tile.rows.saturating_sub(row) } else { 0 },
        };

        // Load them.
        let in_group = u64::from(row) * u64::from(columns) + u64::from(column);
        let address = tiles.group_address(tile, S::BYTES) + S::BYTES * in_group;
        let chunks: [S::Chunk; 8] =
            array8(|i| S::load(place.is_live(i), address + S::BYTES * place.step * i as u64));

        // Sum the columns.
        let dbias = opaque_u64(args.dbias_partial);
        let sums = shared + SUMS;
        if dbias != 0 {
            let sums_of_band = column_sums::<S>(&chunks);
            if lane < ACROSS {
                each8(|i| {
                    let at = band * COLUMNS + column_in_tile + i as u32;
                    store_shared_f32(sums + 4 * at, sums_of_band[i]);
                });
            }
        }

        // Quantize them.
        let row_scales = TileScales::new(scales(args, &args.rowwise, false), shared);
        let column_scales =
            TileScales::new(scales(args, &args.columnwise, true), shared + SCALE_BYTES);
        let row_scale = row_scales.collector(row_in_tile, column_in_tile / MXFP8_BLOCK);
        let column_scale = column_scales.collector(column_in_tile, band);
        if SQUARE {
            let e = square_exponent::<S, F>(&chunks);
            // One lane in four has the rows of a square, and one in four its columns. Rows that the
            // group has no more are padding.
            if lane % 4 == 0 {
                each8(|i| row_scale.put(DOWN * i as u32, if place.is_live(i) { e } else { 0 }));
            }
            if lane < ACROSS {
                each8(|i| column_scale.put(i as u32, e));
            }
            let of_all = ([factor(e); 8], [value(e); 8]);
            let rowwise = anew(&args.rowwise);
            if rowwise.is_wanted() {
                store::<S, F>(&rowwise, &place, &chunks, |_| of_all);
            }
            let columnwise = anew(&args.columnwise);
            if columnwise.is_wanted() {
                let chunks = array8(|i| S::anew(chunks[i]));
                store::<S, F>(&columnwise, &place, &chunks, |_| of_all);
            }
        } else {
            let rowwise = anew(&args.rowwise);
            if rowwise.is_wanted() {
                let e = row_exponents::<S, F>(&chunks);
                if lane % 4 == 0 {
                    each8(|i| row_scale.put(DOWN * i as u32, e.code(i)));
                }
                let of_row = |i| ([e.factor(i); 8], [e.value(i); 8]);
                store::<S, F>(&rowwise, &place, &chunks, of_row);
            }
            let columnwise = anew(&args.columnwise);
            if columnwise.is_wanted() {
                let chunks = array8(|i| S::anew(chunks[i]));
                let e = column_exponents::<S, F>(&chunks);
                if lane < ACROSS {
                    each8(|i| column_scale.put(i as u32, e.code(i)));
                }
                let of_all = (array8(|i| e.factor(i)), array8(|i| e.value(i)));
                store::<S, F>(&columnwise, &place, &chunks, |_| of_all);
            }
        }

        // Store the scales, and the sums of the bands in order.
        let (rowwise, columnwise) = (anew(&args.rowwise), anew(&args.columnwise));
        block_barrier();
        if rowwise.scales != 0 {
            row_scales.store(rowwise.scales, tile, thread, THREADS);
        }
        if columnwise.scales != 0 {
            column_scales.store(columnwise.scales, tile, thread, THREADS);
        }
        if dbias != 0 && thread < COLUMNS && tile.column + thread < columns {
            let mut sum = 0.0;
            for band in 0..BANDS {
                sum += load_shared_f32(sums + 4 * (band * COLUMNS + thread));
            }
            // Divided anew: else what divides would be kept from the beginning.
            let row_tile = block_index() / opaque(args.source.tile_columns());
            let index = u64::from(row_tile) * u64::from(columns) + u64::from(tile.column + thread);
            store_f32(dbias + 4 * index, sum);
        }
    }
}

/// How the scales of a copy lie.
#[inline(always)]
fn scales(args: &Mxfp8Args, copy: &MxCopy, columnwise: bool) -> MxScales {
    let (block, columns) = (MXFP8_BLOCK, args.source.columns);
    MxScales { block, columns, columnwise, swizzled: copy.swizzled != 0 }
}

/// The exponents of the rowwise blocks of eight rows: eight columns of a block are here, the others
/// in the lanes beside.
#[inline(always)]
unsafe fn row_exponents<S: Source, F: Format>(chunks: &[S::Chunk; 8]) -> Exponents {
    let [[a, b], [c, d], [e, f], [g, h]] = array4(|pair| {
        let (first, second) = (chunks[2 * pair], chunks[2 * pair + 1]);
        let own = S::largest(S::magnitudes(first), S::magnitudes(second));
        // SAFETY: the whole warp is here.
        let all = unsafe { S::pair_max_xor(S::pair_max_xor(own, 1), 2) };
        S::widen_pair(all)
    });
    Exponents::new([a, b, c, d, e, f, g, h], F::RECIPROCAL_MAX)
}

/// The largest magnitudes of the columns of a band.
#[inline(always)]
unsafe fn column_magnitudes<S: Source>(chunks: &[S::Chunk; 8]) -> S::Magnitudes {
    let mut own = S::magnitudes(chunks[0]);
    each8(|i| own = S::max(own, S::magnitudes(chunks[i])));
    // SAFETY: the whole warp is here.
    unsafe { S::max_xor(S::max_xor(own, ACROSS), 2 * ACROSS) }
}

/// The exponents of the columnwise blocks of eight columns.
#[inline(always)]
unsafe fn column_exponents<S: Source, F: Format>(chunks: &[S::Chunk; 8]) -> Exponents {
    // SAFETY: handed to the caller.
    let all = unsafe { column_magnitudes::<S>(chunks) };
    Exponents::new(S::widen(all), F::RECIPROCAL_MAX)
}

/// The exponent of a square.
#[inline(always)]
unsafe fn square_exponent<S: Source, F: Format>(chunks: &[S::Chunk; 8]) -> u32 {
    // SAFETY: the whole warp is here.
    unsafe {
        let mut amax = largest(S::widen(column_magnitudes::<S>(chunks)));
        amax = amax.max(shuffle_xor_f32(amax, 1));
        amax = amax.max(shuffle_xor_f32(amax, 2));
        exponent(amax, F::RECIPROCAL_MAX)
    }
}

/// The codes of eight neighbours, each times its factor.
#[inline(always)]
fn encode<F: Format>(v: [f32; 8], by: [f32; 8]) -> [u32; 2] {
    [
        F::encode([v[0] * by[0], v[1] * by[1], v[2] * by[2], v[3] * by[3]]),
        F::encode([v[4] * by[4], v[5] * by[5], v[6] * by[6], v[7] * by[7]]),
    ]
}

/// Stores a copy of the eight rows of a lane: `scales` says by what those of a row are multiplied,
/// and by what their codes.
#[inline(always)]
unsafe fn store<S: Source, F: Format>(
    copy: &MxCopy,
    place: &Place,
    chunks: &[S::Chunk; 8],
    scales: impl Fn(usize) -> ([f32; 8], [f32; 8]),
) {
    let place = &Place { index: opaque_u64(place.index), step: opaque_u64(place.step), ..*place };
    // SAFETY: handed to the caller.
    unsafe {
        // Each by itself, though few ask for both: what one makes of an element is not kept for the
        // other, which takes registers.
        if copy.data != 0 {
            macro_rules! row {
                ($($i:literal)*) => {
                    $(store_codes::<S, F>(copy, place, $i, chunks[$i], scales($i).0);)*
                };
            }
            row!(0 1 2 3 4 5 6 7);
        }
        if copy.exact != 0 {
            macro_rules! row {
                ($($i:literal)*) => {
                    $(store_exact::<S, F>(copy, place, $i, S::anew(chunks[$i]), scales($i));)*
                };
            }
            row!(0 1 2 3 4 5 6 7);
        }
    }
}

/// Stores the codes of row `i` of a lane.
#[inline(always)]
unsafe fn store_codes<S: Source, F: Format>(
    copy: &MxCopy,
    place: &Place,
    i: usize,
    chunk: S::Chunk,
    by: [f32; 8],
) {
    let codes = encode::<F>(S::values(chunk), by);
    let index = place.index + place.step * i as u64;
    // SAFETY: the elements are the lane's, where they are there.
    unsafe { store_u32x2_if(place.is_live(i), copy.data + index, codes) };
}

/// Stores what the codes of row `i` of a lane stand for.
#[inline(always)]
unsafe fn store_exact<S: Source, F: Format>(
    copy: &MxCopy,
    place: &Place,
    i: usize,
    chunk: S::Chunk,
    (by, back): ([f32; 8], [f32; 8]),
) {
    let codes = encode::<F>(S::values(chunk), by);
    let index = place.index + place.step * i as u64;
    // SAFETY: the elements are the lane's, where they are there.
    unsafe { store_u32x4_if(place.is_live(i), copy.exact + 2 * index, exact::<F>(codes, back)) };
}

/// The values of eight codes in BF16.
#[inline(always)]
fn exact<F: Format>(codes: [u32; 2], back: [f32; 8]) -> [u32; 4] {
    let pair = |codes: u32, a: f32, b: f32| {
        let [low, high] = f16x2_to_f32(codes);
        f32_to_bf16x2(low * a, high * b)
    };
    let [[a, b], [c, d]] = codes.map(F::decode);
    [
        pair(a, back[0], back[1]),
        pair(b, back[2], back[3]),
        pair(c, back[4], back[5]),
        pair(d, back[6], back[7]),
    ]
}

/// The sums of the columns of a band.
#[inline(always)]
unsafe fn column_sums<S: Source>(chunks: &[S::Chunk; 8]) -> [f32; 8] {
    let mut sums = [0.0; 8];
    each8(|i| {
        let values = S::values(chunks[i]);
        each8(|j| sums[j] += values[j]);
    });
    // SAFETY: the whole warp is here.
    each8(|j| unsafe {
        sums[j] += shuffle_xor_f32(sums[j], ACROSS);
        sums[j] += shuffle_xor_f32(sums[j], 2 * ACROSS);
    });
    sums
}
