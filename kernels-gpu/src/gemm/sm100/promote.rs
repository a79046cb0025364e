//! The warps that finish tiles of blocks with scales: the tensor core adds 128 products, and they
//! scale them and add them up in binary32, stage after stage. So tensor memory holds the products
//! of two stages: one is promoted while the next is multiplied.
//!
//! The numbers are Hopper's: the scales of row and column are multiplied first, `sum =
//! fma(row_scale · column_scale, products, sum)`.

use core::mem::transmute;

use ptx_std::hint::{opaque, opaque_u64};
use ptx_std::tcgen05::{Address, Group, fence_after, load_16x256b};
use ptx_std::thread::{lane_index, thread_index};

use super::super::element::MatrixElement;
use super::super::epilogue::{CHUNK, Chunk, Epilogue};
use super::super::product::Scaled;
use super::super::scales::{
    B_SCALES, Scales, SharedScale, first_blocks, promote_fragment, row_scales, skew,
};
use super::super::scheduler::Work;
use super::super::shape::WARPGROUP;
use super::super::task::Task;
use super::finish::{COLUMNS, FRAGMENT_ROWS, Place, give_back};
use super::ring::{Stages, Sums, Tasks};
use super::schedule::Schedule;
use super::staging::{Staging, Turn, finish_copies};
use crate::abi::SM100_D_BOX_ROWS;
use crate::abi::scaled::ScaledGemmArgs;
use crate::table::Table;

/// Promotes and finishes the tiles of this block. A warpgroup runs it, `index` 0 or 1.
///
/// # Safety
///
/// As [`run_promoted`](super::run_promoted).
#[inline(always)]
pub unsafe fn promote<S: Schedule + Scaled, E: MatrixElement, G: Group>(
    args: &ScaledGemmArgs,
    d_map: u64,
    shared: u32,
    memory: Address,
    index: u32,
) {
    // SAFETY: the launcher's contract; all warps get the same tiles and stages, and each reads the
    // lanes of tensor memory that it reaches, after the commit of the products that wrote them.
    unsafe {
        let gemm = &args.gemm;
        // A table of its own: where arrays of the common one stand would be known before the roles
        // part, in registers that this role needs.
        let table = &Table::new(gemm.table, opaque(gemm.groups));
        let lane = lane_index();
        let quarter = thread_index() % WARPGROUP / 32;
        let memory = memory.lanes(32 * quarter).columns(COLUMNS * index);
        let row_offset = 4 * (32 * quarter + lane / 4);
        let column_offset = B_SCALES + 4 * (COLUMNS * index + 2 * (lane % 4));
        let mut tasks = Tasks::new(shared);
        let mut ring = Stages::<S, G>::new(shared);
        let mut products = Sums::new(shared);
        let mut turn = Turn::default();
        while let Some(Task { work, stages, token, tokens }) = tasks.next() {
            let live_rows = if S::RAGGED_REDUCTION { gemm.m } else { tokens };
            let column = work.column + COLUMNS * index;
            // All rows of a pair's odd block may be beyond the output; they take its last scale,
            // and their sums are not stored.
            let scaled = Work { row: work.row.min(live_rows - 1), ..work };
            let [a_first, b_first] =
                first_blocks(S::RAGGED_REDUCTION, gemm.n, table, &scaled, column);
            let mut a_shared = SharedScale::<S::AScales>::new(&args.a_scales, work.group, a_first);
            let mut b_shared = SharedScale::<S::BScales>::new(&args.b_scales, work.group, b_first);
            let row_offset =
                if S::RAGGED_REDUCTION { row_offset } else { row_offset + 4 * skew(token) };

            let mut sums: [[f32; 64]; 2] = core::mem::zeroed();
            let [upper, lower] = &mut sums;
            for _ in 0..stages {
                let a_scale = a_shared.take(&args.a_scales, 1.0);
                let b_scale = b_shared.take(&args.b_scales, 1.0);
                ring.full().wait(ring.parity());
                let rows = ring.scales() + row_offset;
                let columns = ring.scales() + column_offset;
                let upper_rows = row_scales::<S::AScales>(rows, a_scale);
                let lower_rows = row_scales::<S::AScales>(rows + 4 * FRAGMENT_ROWS, a_scale);

                products.full().wait(products.parity());
                fence_after();
                let source = products.address(memory);
                promote_half::<S::BScales>(upper, source, upper_rows, columns, b_scale);
                let source = source.lanes(FRAGMENT_ROWS);
                promote_half::<S::BScales>(lower, source, lower_rows, columns, b_scale);
                // Behind it all lanes have read the scales, too.
                give_back::<G>(products.empty(), lane);
                if lane == 0 {
                    ring.empty().arrive();
                }
                products.advance();
                ring.advance();
            }

            // Finish the tile. What is computed from these is not computed ahead, and what the
            // table says is not kept while the sums need the registers.
            let (shared, lane, d_map) = (opaque(shared), opaque(lane), opaque_u64(d_map));
            let group = opaque(work.group);
            let (token, tokens) = table.tokens(group);
            let live_rows = if S::RAGGED_REDUCTION { gemm.m } else { tokens };
            let quarter = opaque(thread_index()) % WARPGROUP / 32;
            let (row, column) = (opaque(work.row) + 32 * quarter, opaque(column));
            let place = Place { work: Work { group, ..work }, token, live_rows, row, column };
            let epilogue = Epilogue::new(gemm, table, group, S::OUTPUT);
            let mut staging =
                Staging::<S>::new(gemm, d_map, shared, &place, &epilogue, lane, &mut turn);
            if epilogue.is_plain() && E::is_plain_kind(epilogue.kind()) {
                store_plain::<S, E>(&mut staging, &epilogue, &place, &sums);
            } else {
                store(&epilogue, lane, &place, sums);
            }
        }
        finish_copies();
    }
}

/// `sums += scales · products`, 16 × 128 over the warp, from the tensor memory at `source`.
#[inline(always)]
unsafe fn promote_half<B: Scales>(
    sums: &mut [f32; 64],
    source: Address,
    rows: [f32; 2],
    columns: u32,
    column_scale: f32,
) {
    // SAFETY: in `promote`; products are binary32.
    unsafe {
        let products = &transmute::<[u32; 32], Chunk>(load_16x256b(source));
        promote_fragment::<B, 0, 0, 32>(sums, products, rows, columns, column_scale);
        promote_fragment::<B, 1, 1, 32>(sums, products, rows, columns, column_scale);
        promote_fragment::<B, 2, 2, 32>(sums, products, rows, columns, column_scale);
        promote_fragment::<B, 3, 3, 32>(sums, products, rows, columns, column_scale);
        promote_fragment::<B, 4, 4, 32>(sums, products, rows, columns, column_scale);
        promote_fragment::<B, 5, 5, 32>(sums, products, rows, columns, column_scale);
        promote_fragment::<B, 6, 6, 32>(sums, products, rows, columns, column_scale);
        promote_fragment::<B, 7, 7, 32>(sums, products, rows, columns, column_scale);
        let products = &transmute::<[u32; 32], Chunk>(load_16x256b(source.columns(CHUNK)));
        promote_fragment::<B, 8, 0, 32>(sums, products, rows, columns, column_scale);
        promote_fragment::<B, 9, 1, 32>(sums, products, rows, columns, column_scale);
        promote_fragment::<B, 10, 2, 32>(sums, products, rows, columns, column_scale);
        promote_fragment::<B, 11, 3, 32>(sums, products, rows, columns, column_scale);
        promote_fragment::<B, 12, 4, 32>(sums, products, rows, columns, column_scale);
        promote_fragment::<B, 13, 5, 32>(sums, products, rows, columns, column_scale);
        promote_fragment::<B, 14, 6, 32>(sums, products, rows, columns, column_scale);
        promote_fragment::<B, 15, 7, 32>(sums, products, rows, columns, column_scale);
    }
}

/// Stores 32 × 128 sums of a plain output, straight: registers have no index at run time.
#[inline(always)]
unsafe fn store_plain<S: Schedule, E: MatrixElement>(
    staging: &mut Staging<'_, S>,
    epilogue: &Epilogue,
    place: &Place,
    [upper, lower]: &[[f32; 64]; 2],
) {
    let kind = E::plain_kind(epilogue.kind());
    let (alpha, column) = (epilogue.alpha(), place.column);
    // SAFETY: in `promote`.
    unsafe {
        let row = place.row;
        staging.store::<64, 0, 0>(kind, [row, column], alpha, upper);
        staging.store::<64, 8, 0>(kind, [row, column + CHUNK], alpha, upper);
        let row = row + SM100_D_BOX_ROWS;
        staging.store::<64, 0, 1>(kind, [row, column], alpha, upper);
        staging.store::<64, 8, 1>(kind, [row, column + CHUNK], alpha, upper);
        let row = place.row + FRAGMENT_ROWS;
        staging.store::<64, 0, 0>(kind, [row, column], alpha, lower);
        staging.store::<64, 8, 0>(kind, [row, column + CHUNK], alpha, lower);
        let row = row + SM100_D_BOX_ROWS;
        staging.store::<64, 0, 1>(kind, [row, column], alpha, lower);
        staging.store::<64, 8, 1>(kind, [row, column + CHUNK], alpha, lower);
    }
}

/// Stores 32 × 128 sums, whatever the output: a loop stores the first chunk and moves the others
/// up.
#[inline(always)]
unsafe fn store(epilogue: &Epilogue, lane: u32, place: &Place, sums: [[f32; 64]; 2]) {
    // SAFETY: the arrays have the same elements; all else as in `promote`.
    unsafe {
        let mut chunks: [Chunk; 4] = transmute(sums);
        for half in 0..2 {
            let rows = place.rows(epilogue, lane, half);
            let mut column = place.column;
            let mut former = epilogue.load_former(lane, &rows, column);
            while column < place.column + COLUMNS {
                let [first, second, third, fourth] = chunks;
                if column < epilogue.n {
                    let next = if column == place.column { column + CHUNK } else { epilogue.n };
                    former = epilogue.store_chunk(lane, &rows, column, &first, &former, next);
                }
                chunks = [second, third, fourth, fourth];
                column += CHUNK;
            }
        }
    }
}
