//! A tile of the source in shared memory.
//!
//! ```text
//!            columns 0 … 127, 256 bytes (512 of FP32)
//! row   0    ████████████████████████████████
//!   …        ████████████████████████████████
//! row  15    ████████████████████████████████
//!            16 bytes of nothing
//! row  16    ████████████████████████████████
//!   …
//! ```
//!
//! It is read in two ways. *Along the rows* eight lanes read a row, 16 elements each. *Along the
//! columns* eight lanes read a word, one or two columns, of 16 rows each. The gap behind every 16
//! rows moves these eight to different banks: lane (strip, word) reads bank `4 · strip + word`, so
//! the 32 lanes of a warp read 32 banks, and no transposed copy is made in shared memory.

use ptx_std::hint::opaque;
use ptx_std::memory::{copy_async_16, load_constant_u32x4_if, load_shared_u32, load_shared_u32x4};
use ptx_std::thread::{WARP, lane_index, thread_index};

use super::source::Source;
use crate::abi::quantize::{COLUMN_BLOCK, ROW_BLOCK};

/// Rows of a tile.
pub const HEIGHT: u32 = ROW_BLOCK;
/// Columns of a tile.
pub const WIDTH: u32 = COLUMN_BLOCK;
/// Elements that a thread quantizes at once.
pub const STRIP: u32 = 16;

/// Bytes that follow every [`STRIP`] rows.
const GAP: u32 = 16;

/// A tile in shared memory.
#[derive(Clone, Copy)]
pub struct Stage {
    /// Its first byte.
    pub address: u32,
}

impl Stage {
    /// Its size.
    pub const fn bytes(element_bytes: u32) -> u32 {
        HEIGHT * WIDTH * element_bytes + HEIGHT / STRIP * GAP
    }

    /// Address of a row.
    #[inline(always)]
    pub fn row<S: Source>(self, row: u32) -> u32 {
        self.address + row * S::ROW_BYTES + row / STRIP * GAP
    }

    /// Address of this thread's chunk of the first rows of the tile, which are as many as the block
    /// copies at once: at most 16.
    #[inline(always)]
    fn own<S: Source>(self) -> u32 {
        let (row, chunk) = (thread_index() / S::ROW_CHUNKS, thread_index() % S::ROW_CHUNKS);
        self.address + row * S::ROW_BYTES + 16 * chunk
    }

    /// From there to its chunk of the `i`th such rows.
    #[inline(always)]
    fn own_offset<S: Source>(i: u32) -> u32 {
        let rows = i * S::ROWS_AT_ONCE;
        rows * S::ROW_BYTES + rows / STRIP * GAP
    }

    /// Starts the copies of this thread's chunks. What lies past the last row or column becomes
    /// zero and is not read.
    ///
    /// # Safety
    ///
    /// All threads of the block call it, and nobody uses the stage until it has waited for its
    /// copies. `source` is the address of the tile, a multiple of 16, whose rows are `pitch` bytes
    /// apart, also a multiple of 16; `columns` is a multiple of 16.
    #[inline(always)]
    pub unsafe fn fetch<S: Source>(self, source: u64, pitch: u64, rows: u32, columns: u32) {
        let (row, chunk) = (thread_index() / S::ROW_CHUNKS, thread_index() % S::ROW_CHUNKS);
        let rows = if chunk * S::PER_CHUNK < columns { rows } else { 0 };
        let to = self.own::<S>();
        let mut from = source + u64::from(row) * pitch + u64::from(16 * chunk);
        for i in 0..HEIGHT / S::ROWS_AT_ONCE {
            let exists = row + i * S::ROWS_AT_ONCE < rows;
            // SAFETY: handed to the caller.
            unsafe { copy_async_16(to + Self::own_offset::<S>(i), from, exists) };
            from += u64::from(S::ROWS_AT_ONCE) * pitch;
        }
    }

    /// The same by one warp, of 16-bit elements: two rows at once.
    ///
    /// # Safety
    ///
    /// As [`Stage::fetch`], but that one warp calls it.
    #[inline(always)]
    pub unsafe fn fetch_by_warp<S: Source>(self, source: u64, pitch: u64, rows: u32, columns: u32) {
        const { assert!(S::ROW_CHUNKS == WARP / 2) };
        let (row, chunk) = (lane_index() / S::ROW_CHUNKS, lane_index() % S::ROW_CHUNKS);
        let rows = if chunk * S::PER_CHUNK < columns { rows } else { 0 };
        let mut to = self.address + row * S::ROW_BYTES + 16 * chunk;
        let mut from = source + u64::from(row) * pitch + u64::from(16 * chunk);
        let mut row = row;
        // Strip by strip; the compiler does not know how often.
        while row < opaque(HEIGHT) {
            for i in 0..STRIP / 2 {
                // SAFETY: handed to the caller.
                unsafe { copy_async_16(to + 2 * i * S::ROW_BYTES, from, row + 2 * i < rows) };
                from += 2 * pitch;
            }
            row += STRIP;
            to += STRIP * S::ROW_BYTES + GAP;
        }
    }

    /// The largest magnitude of the chunks that this thread has copied.
    ///
    /// # Safety
    ///
    /// This thread has waited for its copies.
    #[inline(always)]
    pub unsafe fn own_amax<S: Source>(self) -> f32 {
        let own = self.own::<S>();
        let mut largest = 0;
        for i in 0..HEIGHT / S::ROWS_AT_ONCE {
            // SAFETY: inside the stage.
            for word in unsafe { load_shared_u32x4(own + Self::own_offset::<S>(i)) } {
                largest = S::larger(largest, word);
            }
        }
        S::largest(largest)
    }

    /// Elements `16 · part ..` of a row, in chunks that begin with chunk `first` and go round.
    ///
    /// # Safety
    ///
    /// The tile is there, and nobody writes it.
    #[inline(always)]
    pub unsafe fn along_row<S: Source>(self, row: u32, part: u32, first: u32) -> [[u32; 4]; 4] {
        let address = self.row::<S>(row) + part * STRIP * S::BYTES;
        let mut chunks = [[0; 4]; 4];
        for i in 0..S::CHUNKS {
            let chunk = (i + first) % S::CHUNKS;
            // SAFETY: inside the stage.
            chunks[i as usize] = unsafe { load_shared_u32x4(address + 16 * chunk) };
        }
        chunks
    }

    /// Word `word` of rows `16 · strip ..`.
    ///
    /// # Safety
    ///
    /// The tile is there, and nobody writes it.
    #[inline(always)]
    pub unsafe fn along_column<S: Source>(self, strip: u32, word: u32) -> [u32; 16] {
        let address = self.row::<S>(STRIP * strip) + 4 * word;
        let mut words = [0; 16];
        for i in 0..16 {
            // SAFETY: inside the stage.
            words[i as usize] = unsafe { load_shared_u32(address + i * S::ROW_BYTES) };
        }
        words
    }
}

/// The largest magnitude of the chunks of a tile that this thread would copy, straight from the
/// source.
///
/// # Safety
///
/// As [`Stage::fetch`], but for the stage.
#[inline(always)]
pub unsafe fn amax_of_source<S: Source>(source: u64, pitch: u64, rows: u32, columns: u32) -> f32 {
    let (row, chunk) = (thread_index() / S::ROW_CHUNKS, thread_index() % S::ROW_CHUNKS);
    let rows = if chunk * S::PER_CHUNK < columns { rows } else { 0 };
    let from = source + u64::from(row) * pitch + u64::from(16 * chunk);
    let mut largest = 0;
    for i in 0..HEIGHT / S::ROWS_AT_ONCE {
        let at = i * S::ROWS_AT_ONCE;
        // SAFETY: handed to the caller; only what exists is read.
        let words =
            unsafe { load_constant_u32x4_if(row + at < rows, from + u64::from(at) * pitch) };
        for word in words {
            largest = S::larger(largest, word);
        }
    }
    S::largest(largest)
}

/// The same by one warp, of 16-bit elements: the largest magnitude of what a lane has read.
///
/// # Safety
///
/// As [`amax_of_source`].
#[inline(always)]
pub unsafe fn amax_by_lane<S: Source>(source: u64, pitch: u64, rows: u32, columns: u32) -> f32 {
    const { assert!(S::ROW_CHUNKS == WARP / 2) };
    let (row, chunk) = (lane_index() / S::ROW_CHUNKS, lane_index() % S::ROW_CHUNKS);
    let rows = if chunk * S::PER_CHUNK < columns { rows } else { 0 };
    let mut from = source + u64::from(row) * pitch + u64::from(16 * chunk);
    let (mut row, mut largest) = (row, 0);
    // Strip by strip; the compiler does not know how often.
    while row < opaque(HEIGHT) {
        for i in 0..STRIP / 2 {
            // SAFETY: handed to the caller; only what exists is read.
            for word in unsafe { load_constant_u32x4_if(row + 2 * i < rows, from) } {
                largest = S::larger(largest, word);
            }
            from += 2 * pitch;
        }
        row += STRIP;
    }
    S::largest(largest)
}
