//! The consumers that leave their sums in the tensor core until a tile is done: a warpgroup makes
//! 64 rows and all columns.

use core::marker::PhantomData;

use ptx_std::hint::opaque;
use ptx_std::memory::store_shared_u32x4;
use ptx_std::sync::{fence_async_shared, named_barrier};
use ptx_std::thread::{lane_index, thread_index};
use ptx_std::wgmma::wait;

use super::super::element::Multiply;
use super::super::epilogue::Epilogue;
use super::super::shape::{BLOCK_BYTES, CONSUMERS, ROW_BYTES, TILE_N, WARPGROUP};
use super::super::task::Task;
use super::boxes::{Boxes, Late, Target};
use super::lent::{self, Finish, box_sums};
use super::ring::{DeepRing, Ring, STAGE_BYTES};
use super::schedule::Schedule;
use super::store::{has_short_road, right_step, rows, store, store_plain};
use super::{CONSUMER_BARRIER, Consumer};
use crate::abi::GemmArgs;
use crate::table::Table;

/// The stage of the next tile in which the rest of a tile leaves: when its products have been
/// issued, what left before has been read.
const LATE_STAGE: u32 = 1;

/// The upper or lower 64 rows of a tile for each warpgroup, `SUMS` numbers for each thread.
pub struct Wide<S, E, const SUMS: usize>(PhantomData<(S, E)>);

impl<S, E, const SUMS: usize> Consumer for Wide<S, E, SUMS>
where
    S: Schedule,
    E: Multiply<S::A, S::B, SUMS>,
{
    type Args = GemmArgs;
    type Schedule = S;
    type Element = E;
    type Rooms = DeepRing;
    const COLUMNS: u32 = 2 * SUMS as u32;

    #[inline(always)]
    fn gemm(args: &GemmArgs) -> &GemmArgs {
        args
    }

    #[inline(always)]
    unsafe fn consume(args: &GemmArgs, d_map: u64, table: &Table, shared: u32, index: u32) {
        // SAFETY: handed to the caller.
        unsafe { consume::<S, E, SUMS>(args, d_map, table, shared, index) }
    }

    #[inline(always)]
    fn lent_box(warpgroup: u32, index: u32) -> [u32; 2] {
        [64 * warpgroup, lent::BOX_COLUMNS * index]
    }
}

/// Multiplies what comes through the ring; see [`Consumer::consume`].
#[inline(always)]
unsafe fn consume<S, E, const SUMS: usize>(
    args: &GemmArgs,
    d_map: u64,
    table: &Table,
    shared: u32,
    index: u32,
) where
    S: Schedule,
    E: Multiply<S::A, S::B, SUMS>,
{
    // SAFETY: the launcher's contract; all warps of the warpgroup get the same tiles and stages and
    // stay together at every product and barrier. Sums are touched only after `finish`.
    unsafe {
        let lane = lane_index();
        // Computed anew where they are needed, not kept in a register beside the sums.
        let boxes = || Boxes::new::<DeepRing>(opaque(shared), lane);
        let mut late = Late::nothing();
        let mut ring = Ring::<DeepRing>::new(shared, 0);
        loop {
            let task = ring.next_task();
            if task.is_end() {
                break;
            }
            let Task { work, stages, token, tokens: live } = task;
            // Multiply, one group of products in flight: while it runs, wait for the next stage;
            // when the next is issued, wait for this one and give its stage back. What is left of
            // the tile before leaves meanwhile, when its first half has left.
            let mut previous = ring.empty();
            let mut sums: [f32; SUMS] = core::mem::zeroed();
            for stage in 0..stages {
                ring.full().wait(ring.parity);
                let clear = S::RAGGED_REDUCTION && !S::PADDED;
                if clear && live - stage * S::DEPTH < S::DEPTH {
                    clear_rows_from(ring.stage(), live - stage * S::DEPTH);
                }
                let a = S::a(ring.stage(), index);
                let b = S::b(ring.stage());
                E::multiply(&mut sums, a, b, stage != 0);
                wait::<1>();
                if lane == 0 && stage != 0 {
                    previous.arrive();
                }
                if stage == LATE_STAGE {
                    late.leave(boxes(), d_map, right_step(SUMS), args.n);
                }
                previous = ring.empty();
                ring.advance();
            }

            // Prepare the epilogue while the last products run.
            let live_rows = if S::RAGGED_REDUCTION { args.m } else { live };
            let mut epilogue = Epilogue::new(args, table, work.group, S::KNOWN);
            if 2 * SUMS as u32 != TILE_N {
                // Chunks are wider than what is left at the end of the tile.
                epilogue = epilogue.until(work.column + 2 * SUMS as u32);
            }
            let rows = rows(&epilogue, work.row + 64 * index, live_rows, lane);
            let lends_stages = S::RAGGED_REDUCTION && args.lends_stages != 0;
            // Lent stages bring the former output; nothing is loaded from the last column on.
            let first = if lends_stages { args.n } else { work.column };
            let former = epilogue.load_former(lane, &rows, first);
            E::finish(&mut sums);
            if lane == 0 {
                previous.arrive();
            }
            if stages == 0 {
                ring.advance();
            }

            // Finish the tile.
            if late.is_some() {
                // There were so few stages that it has not left.
                late.leave(boxes(), d_map, right_step(SUMS), args.n);
            }
            if lends_stages {
                let factors = [epilogue.alpha(), epilogue.beta()];
                let mut finish = Finish::new(&mut ring, d_map, work, [index, lane], factors);
                finish.stage::<Wide<S, E, SUMS>, 0, 3>([
                    box_sums(&sums, 0),
                    box_sums(&sums, 4),
                    box_sums(&sums, 8),
                ]);
                finish.stage::<Wide<S, E, SUMS>, 1, 3>([
                    box_sums(&sums, 12),
                    box_sums(&sums, 16),
                    box_sums(&sums, 20),
                ]);
                finish.stage::<Wide<S, E, SUMS>, 2, 2>([
                    box_sums(&sums, 24),
                    box_sums(&sums, SUMS / 4 - 4),
                ]);
                late = Late::lent(finish.last());
                continue;
            }
            let row = work.row + 64 * index;
            if has_short_road::<E>(&epilogue) {
                let map_row = if S::RAGGED_REDUCTION { work.group * args.m } else { token };
                let target = Target::new(args, d_map, map_row, &epilogue, live_rows);
                let place = [row, work.column];
                late =
                    store_plain::<E, SUMS>(boxes(), &target, epilogue.kind(), &rows, place, &sums);
            } else {
                store(&epilogue, lane, &rows, work.column, former, sums);
                late = Late::nothing(); // or its registers would be kept all the while
            }
        }
        if late.is_some() {
            late.leave(boxes(), d_map, right_step(SUMS), args.n);
        }
        boxes().wait();
    }
}

/// Clears the tokens from `live` on in all boxes of a stage: they belong to the next group or to
/// nobody, and may be NaN, so clearing one operand would not do. All consumers call it.
///
/// The swizzle permutes 16-byte chunks inside a row, and a token is a row in every box.
#[inline(always)]
unsafe fn clear_rows_from(stage: u32, live: u32) {
    let consumer = thread_index() - WARPGROUP;
    let end = STAGE_BYTES / BLOCK_BYTES * BLOCK_BYTES;
    // SAFETY: the stage is full, and free for the async proxy again only after the barrier below
    // and the products after it.
    unsafe {
        let mut block = stage;
        while block < stage + end {
            let mut offset = live * ROW_BYTES + 16 * consumer;
            while offset < BLOCK_BYTES {
                store_shared_u32x4(block + offset, [0; 4]);
                offset += 16 * CONSUMERS * WARPGROUP;
            }
            block += BLOCK_BYTES;
        }
        fence_async_shared();
        named_barrier::<CONSUMER_BARRIER, { CONSUMERS * WARPGROUP }>();
    }
}
