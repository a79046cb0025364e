//! The pieces of a tile that a warp quantizes, copied to shared memory one ahead of the one that is
//! computed: so memory is at work while the warp is, and what both copies are made from is read
//! once.

use ptx_std::memory::{commit_copies, copy_async_16, wait_copies};
use ptx_std::sync::warp_barrier;
use ptx_std::thread::{WARP, lane_index, warp_index};

use super::super::source::{CHUNK, Source};
use super::super::tiles::{COLUMNS, Tile};
use super::{BANDS, THREADS};
use crate::abi::mx::NVFP4_BLOCK;
use crate::gemm::element::Bf16;

/// Columns of a piece, which has a band's sixteen rows.
pub(super) const PIECE: u32 = 64;
/// Bytes of a row of a piece.
const ROW_BYTES: u32 = PIECE * Bf16::BYTES as u32;
/// Bytes of a piece.
const BYTES: u32 = NVFP4_BLOCK * ROW_BYTES;
/// Pieces of a band.
const ACROSS: u32 = COLUMNS / PIECE;
/// Warps of a block.
const WARPS: u32 = THREADS / WARP;
/// Pieces that a warp has.
pub(super) const COUNT: u32 = BANDS * ACROSS / WARPS;
/// Bands from one of them to the next.
const BANDS_APART: u32 = WARPS / ACROSS;
/// Pieces of a warp in shared memory: the one that is computed, and the next.
const STAGES: u32 = 2;
/// Lanes that copy a row, eight columns each.
const LANES: u32 = PIECE / CHUNK;
/// Rows that a lane copies.
const ROWS: u32 = NVFP4_BLOCK / (WARP / LANES);

/// Shared memory of a block.
pub(super) const SHARED_BYTES: u32 = WARPS * STAGES * BYTES;
/// What its address is a multiple of: a line that is copied to another place takes two requests.
pub(super) const ALIGNMENT: u32 = ROW_BYTES;

/// A piece in shared memory.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    address: u32,
    /// Its band in the tile.
    pub band: u32,
    /// Its first column in the tile.
    pub column: u32,
}

impl Piece {
    /// Address of a row.
    #[inline(always)]
    pub fn row(self, row: u32) -> u32 {
        self.address + ROW_BYTES * row
    }
}

/// The pieces of a warp. The whole warp calls each function.
pub(super) struct Pieces {
    /// How many have been asked for, and the turns beyond the last.
    asked: u32,
    /// Where they are in shared memory.
    shared: u32,
    /// The first one's place in the tile.
    band: u32,
    column: u32,
    /// Address of what this lane copies of the next piece, and the rows of the group from there on;
    /// 0 if the source has no such columns.
    source: u64,
    left: u32,
    /// Bytes from one row of the source to the next.
    pitch: u64,
}

impl Pieces {
    /// The pieces of a tile whose first element is at `source`, in rows of so many columns;
    /// `shared` is the address of [`SHARED_BYTES`] of the block. Warps side by side have pieces
    /// side by side, so that whole rows of a tile are read at about the same time. Asks for the
    /// first one.
    ///
    /// # Safety
    ///
    /// The source has the tile, and nobody writes it while the kernel runs.
    #[inline(always)]
    pub unsafe fn new(tile: &Tile, source: u64, columns: u32, shared: u32) -> Self {
        // SAFETY: handed to the caller.
        unsafe {
            let (warp, lane) = (warp_index(), lane_index());
            let (band, column) = (warp / ACROSS, warp % ACROSS * PIECE);
            let (row, own) = (lane / LANES * ROWS, column + lane % LANES * CHUNK);
            let pitch = Bf16::BYTES * u64::from(columns);
            let first = band * NVFP4_BLOCK + row;
            let is_there = tile.column + own < columns;
            let mut pieces = Self {
                asked: 0,
                shared: shared + warp * STAGES * BYTES,
                band,
                column,
                source: source + u64::from(first) * pitch + Bf16::BYTES * u64::from(own),
                left: if is_there { tile.rows.saturating_sub(tile.row + first) } else { 0 },
                pitch,
            };
            pieces.ask();
            pieces
        }
    }

    /// Starts the copy of the next piece, if there is one. Rows that are not there are zeros.
    #[inline(always)]
    unsafe fn ask(&mut self) {
        if self.asked != COUNT {
            let lane = lane_index();
            let place = lane / LANES * ROWS * ROW_BYTES + lane % LANES * 16;
            let to = self.shared + self.asked % STAGES * BYTES + place;
            for i in 0..ROWS {
                let from = self.source + self.pitch * u64::from(i);
                // SAFETY: the source has the row if the group has; nobody reads this place any
                // more.
                unsafe { copy_async_16(to + ROW_BYTES * i, from, i < self.left) };
            }
            let rows = BANDS_APART * NVFP4_BLOCK;
            self.source += self.pitch * u64::from(rows);
            self.left = self.left.saturating_sub(rows);
        }
        self.asked += 1;
        commit_copies();
    }

    /// The next piece, once it is there; asks for the one behind it.
    ///
    /// # Safety
    ///
    /// This is called [`COUNT`] times at most, and the former piece has been
    /// [released](Self::release).
    #[inline(always)]
    pub unsafe fn next(&mut self) -> Piece {
        // SAFETY: the whole warp is here.
        unsafe {
            self.ask();
            wait_copies::<1>();
            warp_barrier();
        }
        let index = self.asked - 2;
        Piece {
            address: self.shared + index % STAGES * BYTES,
            band: self.band + BANDS_APART * index,
            column: self.column,
        }
    }

    /// Says that all lanes have read the piece.
    #[inline(always)]
    pub unsafe fn release(&self) {
        // SAFETY: the whole warp is here.
        unsafe { warp_barrier() };
    }
}
