//! The warps that finish tiles: each takes the sums of 32 rows and 128 columns from tensor memory,
//! in fragments of 16 rows and 64 columns that are those of wgmma, so that what follows is what
//! Hopper's warps do.

use core::mem::transmute;

use ptx_std::mbarrier::Barrier;
use ptx_std::sync::warp_barrier;
use ptx_std::tcgen05::{Address, Group, fence_after, fence_before, load_16x256b};
use ptx_std::thread::{lane_index, thread_index};

use super::super::element::MatrixElement;
use super::super::epilogue::{CHUNK, Chunk, Epilogue, Row};
use super::super::scheduler::Work;
use super::super::shape::{CONSUMERS, TILE_N, WARPGROUP};
use super::super::task::Task;
use super::ring::{Sums, Tasks};
use super::schedule::Schedule;
use super::staging::{Staging, Turn, finish_copies};
use crate::abi::{GemmArgs, SM100_D_BOX_ROWS};
use crate::table::Table;

/// Columns of a warpgroup.
pub const COLUMNS: u32 = TILE_N / CONSUMERS;
/// Rows of a fragment.
pub const FRAGMENT_ROWS: u32 = 16;

/// Where a warp's sums go.
pub struct Place {
    /// The tile.
    pub work: Work,
    /// First token of the group.
    pub token: u32,
    /// Rows of the group's output.
    pub live_rows: u32,
    /// First row of the warp's.
    pub row: u32,
    /// First column of the warp's.
    pub column: u32,
}

impl Place {
    /// The two rows that a lane has sums of, in the upper (`half` 0) or lower fragments.
    ///
    /// # Safety
    ///
    /// The group's output has the live rows.
    #[inline(always)]
    pub unsafe fn rows(&self, epilogue: &Epilogue, lane: u32, half: u32) -> [Row; 2] {
        let row = self.row + FRAGMENT_ROWS * half + lane / 4;
        // SAFETY: handed to the caller.
        unsafe {
            [
                epilogue.row(row, self.live_rows),
                epilogue.row(row + SM100_D_BOX_ROWS, self.live_rows),
            ]
        }
    }
}

/// Finishes the tiles of this block. A warpgroup runs it, `index` 0 or 1. `d_map` is the generic
/// address of the output's map.
///
/// # Safety
///
/// As [`run`](super::run).
#[inline(always)]
pub unsafe fn finish<S: Schedule, E: MatrixElement, G: Group>(
    args: &GemmArgs,
    d_map: u64,
    table: &Table,
    shared: u32,
    memory: Address,
    index: u32,
) {
    // SAFETY: the launcher's contract; all warps get the same tiles, and each reads the lanes of
    // tensor memory that it reaches, after the commit of the products that wrote them.
    unsafe {
        let lane = lane_index();
        let quarter = thread_index() % WARPGROUP / 32;
        let memory = memory.lanes(32 * quarter).columns(COLUMNS * index);
        let mut tasks = Tasks::new(shared);
        let mut sums = Sums::new(shared);
        let mut turn = Turn::default();
        while let Some(Task { work, stages, token, tokens }) = tasks.next() {
            let live_rows = if S::RAGGED_REDUCTION { args.m } else { tokens };
            let (row, column) = (work.row + 32 * quarter, work.column + COLUMNS * index);
            let place = Place { work, token, live_rows, row, column };
            let epilogue = Epilogue::new(args, table, work.group, S::OUTPUT);
            let mut staging =
                Staging::<S>::new(args, d_map, shared, &place, &epilogue, lane, &mut turn);
            let is_plain = epilogue.is_plain() && E::is_plain_kind(epilogue.kind());
            let end = epilogue.n.min(place.column + COLUMNS);
            if stages != 0 {
                sums.full().wait(sums.parity());
                fence_after();
            }
            for half in 0..2 {
                let rows = place.rows(&epilogue, lane, half);
                let source = sums.address(memory).lanes(FRAGMENT_ROWS * half);
                let mut column = place.column;
                let mut former = epilogue.load_former(lane, &rows, column);
                while column < end {
                    let chunk = load(source.columns(column - place.column), stages);
                    if is_plain {
                        let kind = E::plain_kind(epilogue.kind());
                        let row = place.row + FRAGMENT_ROWS * half;
                        let [upper, lower] = &rows;
                        staging.store::<32, 0, 0>(kind, [row, column], upper.alpha(), &chunk);
                        let row = row + SM100_D_BOX_ROWS;
                        staging.store::<32, 0, 1>(kind, [row, column], lower.alpha(), &chunk);
                    } else {
                        let next = if column + CHUNK < end { column + CHUNK } else { epilogue.n };
                        former = epilogue.store_chunk(lane, &rows, column, &chunk, &former, next);
                    }
                    column += CHUNK;
                }
            }
            if stages != 0 {
                give_back::<G>(sums.empty(), lane);
                sums.advance();
            }
        }
        finish_copies();
    }
}

/// The fragment at `source`: zeros where nothing was multiplied.
///
/// # Safety
///
/// The warp calls it together; it reaches the lanes, and the products that wrote them are complete.
#[inline(always)]
pub unsafe fn load(source: Address, stages: u32) -> Chunk {
    if stages == 0 {
        return [0.0; 32];
    }
    // SAFETY: handed to the caller; sums are binary32.
    unsafe { transmute::<[u32; 32], Chunk>(load_16x256b(source)) }
}

/// Says at `barrier` that this warp has read sums, to the block whose thread multiplies.
///
/// # Safety
///
/// The warp calls it together, once for each tile or stage whose sums it has read.
#[inline(always)]
pub unsafe fn give_back<G: Group>(barrier: Barrier, lane: u32) {
    fence_before();
    // SAFETY: all lanes have read when the warp has met; the even block waits for it.
    unsafe {
        warp_barrier();
        if lane == 0 {
            if G::BLOCKS == 1 {
                barrier.arrive();
            } else {
                barrier.of_block(0).arrive();
            }
        }
    }
}
