//! The warps that finish tiles whose sums have a seam: they read the seam first, and say so, and
//! finish it from registers.

use ptx_std::hint::opaque;
use ptx_std::tcgen05::{Address, Group, fence_after};
use ptx_std::thread::{lane_index, thread_index};

use super::super::super::element::{E4m3, MatrixElement};
use super::super::super::epilogue::{CHUNK, Epilogue};
use super::super::super::shape::WARPGROUP;
use super::super::super::task::Task;
use super::super::finish::{COLUMNS, FRAGMENT_ROWS, Place, give_back, load};
use super::super::ring::{SEAM, Sums, Tasks};
use super::super::schedule::Schedule;
use super::super::staging::{Staging, Turn, finish_copies};
use crate::abi::{GemmArgs, SM100_D_BOX_ROWS};
use crate::table::Table;

const _: () = assert!(SEAM == CHUNK && COLUMNS == 2 * CHUNK, "the seam is half a warpgroup's");

/// Finishes the tiles of this block. A warpgroup runs it, `index` 0 or 1. `d_map` is the generic
/// address of the output's map.
///
/// # Safety
///
/// As [`run_blocks`](super::super::run_blocks).
#[inline(always)]
pub unsafe fn finish_with_seam<S: Schedule, G: Group>(
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
        let mut sums = Sums::with_seam(shared);
        let mut turn = Turn::default();
        while let Some(Task { work, stages, token, tokens }) = tasks.next() {
            let live_rows = if S::RAGGED_REDUCTION { args.m } else { tokens };
            let (row, column) = (work.row + 32 * quarter, work.column + COLUMNS * index);
            let place = Place { work, token, live_rows, row, column };
            let epilogue = Epilogue::new(args, table, work.group, S::OUTPUT);
            let mut staging =
                Staging::<S>::new(args, d_map, shared, &place, &epilogue, lane, &mut turn);
            // FP8 has the same plain outputs as these codes.
            let is_plain = epilogue.is_plain() && E4m3::is_plain_kind(epilogue.kind());

            // The seam is the last of the first place's columns and the first of the second's, so
            // one of the warpgroups has it.
            let has_seam = sums.is_second() == (index == 0);
            let first = if sums.is_second() || index == 0 { 0 } else { CHUNK };
            if stages != 0 {
                sums.full().wait(sums.parity());
                fence_after();
            }
            let source = sums.address(memory);
            let mut chunk = load(source.columns(first), stages);
            let lower = load(source.columns(first).lanes(FRAGMENT_ROWS), stages);
            if stages != 0 && has_seam {
                give_back::<G>(sums.seam(), lane);
            }

            for half in 0..opaque(2) {
                let rows = place.rows(&epilogue, lane, half);
                let mut column = place.column + first;
                let mut former = epilogue.load_former(lane, &rows, column);
                for part in 0..opaque(2) {
                    let other = place.column + (first ^ CHUNK);
                    if column < epilogue.n {
                        if is_plain {
                            let kind = E4m3::plain_kind(epilogue.kind());
                            let row = place.row + FRAGMENT_ROWS * half;
                            let [above, below] = &rows;
                            staging.store::<32, 0, 0>(kind, [row, column], above.alpha(), &chunk);
                            let row = row + SM100_D_BOX_ROWS;
                            staging.store::<32, 0, 1>(kind, [row, column], below.alpha(), &chunk);
                        } else {
                            let next = if part == 0 { other } else { epilogue.n };
                            former =
                                epilogue.store_chunk(lane, &rows, column, &chunk, &former, next);
                        }
                    } else if part == 0 {
                        former = epilogue.load_former(lane, &rows, other);
                    }
                    if part == 0 {
                        let lanes = FRAGMENT_ROWS * half;
                        chunk = load(source.columns(first ^ CHUNK).lanes(lanes), stages);
                        column = other;
                    }
                }
                chunk = lower;
            }
            if stages != 0 {
                give_back::<G>(sums.empty(), lane);
                sums.advance();
            }
        }
        finish_copies();
    }
}
