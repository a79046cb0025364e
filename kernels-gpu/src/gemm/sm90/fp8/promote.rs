//! The consumers that take their sums from the tensor core after every stage: a warpgroup makes all
//! 128 rows and 128 columns, 64 rows at a time.
//!
//! ```text
//!   per stage:   products of the upper rows ── wait ── sums += scale · products
//!                products of the lower rows ── wait ── sums += scale · products
//! ```
//!
//! 128 sums and 64 products are what the registers of a thread hold, so there is no product in
//! flight while it adds; the other warpgroup's fill the tensor core meanwhile. It needs 256 clocks
//! for 64 × 128 × 128 products, in which a warp issues 64 to 150 instructions that add them up.
//! Registers are that scarce (240) that some values are made [`opaque`], so that nothing is computed
//! ahead from them, and the thread that copies has 24.
//!
//! Aligned vectors of the right operand ([`Aligned`](crate::gemm::scales::Aligned)) have a scale that is
//! the column's, so it is left for the end of the tile, and where no column has factors the stages are
//! added up with the rows' scales alone: half of the instructions, and no loads. Whether any has is found
//! out for a tile at a time, by the warp that copies ([`plain_halves`]): a question in each stage held the
//! products up.
//!
//! The numbers: products are summed by the tensor core, 128 of them; the scales of row and column
//! are multiplied first, `sum = fma(row_scale · column_scale, products, sum)`.

use core::marker::PhantomData;

use ptx_std::hint::{opaque, opaque_u64};
use ptx_std::sync::warp_barrier;
use ptx_std::thread::{lane_index, thread_index};
use ptx_std::tma::wait_group_read;
use ptx_std::wgmma::Descriptor;

use super::ScaledSchedule;
use crate::abi::GemmArgs;
use crate::abi::scaled::ScaledGemmArgs;
use crate::gemm::element::MultiplyStage;
use crate::gemm::epilogue::Epilogue;
use crate::gemm::product::FP8_DEPTH;
use crate::gemm::scales::{
    B_SCALES, LineScales, Scales, SharedScale, Tensor, Vector, first_blocks, plain_halves,
    promote_fragment, row_scales, skew,
};
use crate::gemm::scheduler::Work;
use crate::gemm::shape::{BLOCK_BYTES, ROW_BYTES, TILE_N, WARPGROUP};
use crate::gemm::sm90::boxes::{Boxes, Target};
use crate::gemm::sm90::lent::{self, Finish, box_sums};
use crate::gemm::sm90::ring::{Ring, WideBoxes};
use crate::gemm::sm90::store::store_tall;
use crate::gemm::sm90::{A_BYTES, Consumer};
use crate::gemm::task::Task;
use crate::table::Table;

/// Columns of a warpgroup.
const COLUMNS: u32 = 128;

const _: () = assert!(2 * COLUMNS == TILE_N, "two warpgroups share a tile");

/// The left or right 128 columns of a tile for each warpgroup.
pub struct Tall<S, E>(PhantomData<(S, E)>);

impl<S: ScaledSchedule, E: MultiplyStage> Consumer for Tall<S, E> {
    type Args = ScaledGemmArgs;
    type Schedule = S;
    type Element = E;
    type Rooms = WideBoxes;
    const COLUMNS: u32 = TILE_N;

    #[inline(always)]
    fn gemm(args: &ScaledGemmArgs) -> &GemmArgs {
        &args.gemm
    }

    #[inline(always)]
    unsafe fn consume(args: &ScaledGemmArgs, d_map: u64, _: &Table, shared: u32, index: u32) {
        // SAFETY: handed to the caller.
        unsafe { consume::<S, E>(args, d_map, shared, index) }
    }

    #[inline(always)]
    unsafe fn note(args: &ScaledGemmArgs, work: &Work, first: u32, stages: u32) -> Option<u32> {
        if !S::BScales::ALIGNED {
            return None;
        }
        let first = first / FP8_DEPTH;
        // SAFETY: handed to the caller.
        Some(unsafe {
            plain_halves(&args.b_scales, args.gemm.n, work.column, [first, first + stages])
        })
    }

    #[inline(always)]
    fn lent_box(warpgroup: u32, index: u32) -> [u32; 2] {
        [64 * (index % 2), COLUMNS * warpgroup + lent::BOX_COLUMNS * (index / 2)]
    }
}

/// Multiplies what comes through the ring; see [`Consumer::consume`].
#[inline(always)]
unsafe fn consume<S: ScaledSchedule, E: MultiplyStage>(
    args: &ScaledGemmArgs,
    d_map: u64,
    shared: u32,
    index: u32,
) {
    // SAFETY: the launcher's contract; all warps of the warpgroup get the same tiles and stages and
    // stay together at every product.
    unsafe {
        let gemm = &args.gemm;
        // A table of its own: where arrays of the common one stand would be known before the roles
        // part, in registers that this role needs.
        let table = &Table::new(gemm.table, opaque(gemm.groups));
        let lane = lane_index();
        let mut ring = Ring::<WideBoxes>::new(shared, 0);

        // Where this thread's scales stand among a stage's.
        let row_offset = 4 * (16 * (thread_index() % WARPGROUP / 32) + lane / 4);
        let column_offset = B_SCALES + 4 * (COLUMNS * index + 2 * (lane % 4));

        // Products overwrite what was there before, but the compiler shall not know.
        let accumulate = gemm.groups == 0;
        let one = f32::from_bits(1f32.to_bits() | u32::from(accumulate));

        loop {
            let task = if S::BScales::ALIGNED {
                ring.next_marked_task()
            } else {
                match ring.next_task() {
                    Some(task) => task,
                    None => break,
                }
            };
            if S::BScales::ALIGNED && task.is_end() {
                break;
            }
            let Task { work, mut stages, token, tokens: note } = task;
            let column = work.column + COLUMNS * index;
            let [a_first, b_first] =
                first_blocks(S::RAGGED_REDUCTION, gemm.n, table, &work, column);
            let mut a_shared = SharedScale::<S::AScales>::new(&args.a_scales, work.group, a_first);
            let mut b_shared = SharedScale::<S::BScales>::new(&args.b_scales, work.group, b_first);
            let row_offset =
                if S::RAGGED_REDUCTION { row_offset } else { row_offset + 4 * skew(token) };

            let mut sums: [[f32; 64]; 2] = core::mem::zeroed();
            let [upper, lower] = &mut sums;
            let mut products: [f32; 64] = core::mem::zeroed();
            let line_scales = if S::BScales::ALIGNED {
                let place = [work.group, column, opaque(lane)];
                LineScales::load(&args.b_scales, gemm.n, place, stages != 0)
            } else {
                LineScales::NONE
            };
            if S::RAGGED_REDUCTION && stages == 0 {
                give_back::<S>(&ring, lane);
                ring.advance();
            }
            if S::BScales::ALIGNED {
                let lanes = Lanes { index, lane, row_offset, accumulate };
                // One loop in the other, since sums would be in other registers in the second of two,
                // and moved in every stage.
                let mut plain = if note >> index & 1 != 0 { stages } else { 0 };
                while stages != 0 {
                    while plain != 0 {
                        let scale = a_shared.take(&args.a_scales, one);
                        lanes.stage::<S, Tensor, E>(&mut ring, upper, lower, &mut products, scale);
                        plain -= 1;
                        stages -= 1;
                    }
                    if stages != 0 {
                        let scale = a_shared.take(&args.a_scales, one);
                        lanes.stage::<S, Vector, E>(&mut ring, upper, lower, &mut products, scale);
                        stages -= 1;
                    }
                }
            }
            while stages != 0 {
                // Take the scales, which come while the products are made.
                let a_scale = a_shared.take(&args.a_scales, one);
                let b_scale = b_shared.take(&args.b_scales, one);
                ring.full().wait(ring.parity);
                let rows = ring.scales() + row_offset;
                let columns = ring.scales() + column_offset;
                let upper_rows = row_scales::<S::AScales>(rows, a_scale);
                let lower_rows = row_scales::<S::AScales>(rows + 4 * 64, a_scale);

                // Multiply and add.
                let a = Descriptor::k_major(ring.stage());
                let b = ring.stage() + A_BYTES + COLUMNS * ROW_BYTES * index;
                let b = Descriptor::k_major(b);
                E::multiply_stage(&mut products, a, b, accumulate);
                promote::<S::BScales>(upper, &products, upper_rows, columns, b_scale);
                let a = Descriptor::k_major(ring.stage() + BLOCK_BYTES);
                E::multiply_stage(&mut products, a, b, accumulate);
                if !S::BScales::VECTOR {
                    give_back::<S>(&ring, lane);
                }
                promote::<S::BScales>(lower, &products, lower_rows, columns, b_scale);
                if S::BScales::VECTOR {
                    give_back::<S>(&ring, lane);
                }
                ring.advance();
                stages -= 1;
            }

            if S::BScales::ALIGNED {
                line_scales.multiply(&mut sums, opaque(lane));
            }

            // Finish the tile.
            if S::RAGGED_REDUCTION && gemm.lends_stages != 0 {
                let (d_map, lane) = (opaque_u64(d_map), opaque(lane));
                let work = Work { group: opaque(work.group), row: work.row, column: work.column };
                let factors = [table.alpha(work.group), table.beta(work.group)];
                let [above, below] = &sums;
                let mut finish = Finish::new(&mut ring, d_map, work, [index, lane], factors);
                finish.stage::<Tall<S, E>, 0, 3>([
                    box_sums(above, 0),
                    box_sums(below, 0),
                    box_sums(above, 4),
                ]);
                finish.stage::<Tall<S, E>, 1, 3>([
                    box_sums(below, 4),
                    box_sums(above, 8),
                    box_sums(below, 8),
                ]);
                finish.stage::<Tall<S, E>, 2, 2>([box_sums(above, 12), box_sums(below, 12)]);
                let last = finish.last();
                wait_group_read::<0>();
                lent::give_back(last);
            } else if column < gemm.n {
                // What is computed from these is not computed ahead, and what the table says is not
                // kept while the products need all registers.
                let (shared, lane, d_map) = (opaque(shared), opaque(lane), opaque_u64(d_map));
                let group = opaque(work.group);
                let (map_row, live_rows) = if S::RAGGED_REDUCTION {
                    (group * gemm.m, gemm.m)
                } else {
                    table.tokens(group)
                };
                let epilogue = Epilogue::new(gemm, table, group, S::KNOWN);
                let target = Target::new(gemm, d_map, map_row, &epilogue, live_rows);
                let boxes = Boxes::new::<WideBoxes>(shared, lane);
                let tile = [opaque(work.row), opaque(column)];
                store_tall::<E>(boxes, &target, &epilogue, lane, tile, live_rows, sums);
            }
        }
        Boxes::new::<WideBoxes>(shared, lane).wait();
    }
}

/// What a thread knows of its place in every stage, of aligned vectors.
struct Lanes {
    /// Its warpgroup.
    index: u32,
    lane: u32,
    /// Where its rows' scales stand among a stage's.
    row_offset: u32,
    /// Whether products are added to what was there before: never, but the compiler shall not know.
    accumulate: bool,
}

impl Lanes {
    /// Multiplies a stage and adds it up, with the columns' factors if `B` has vectors. It is the loop of
    /// the other scales once more, with an arrival that leaves no branch between the lanes.
    ///
    /// # Safety
    ///
    /// As [`consume`]; the stage is one of the task's.
    #[inline(always)]
    unsafe fn stage<S: ScaledSchedule, B: Scales, E: MultiplyStage>(
        &self,
        ring: &mut Ring<WideBoxes>,
        upper: &mut [f32; 64],
        lower: &mut [f32; 64],
        products: &mut [f32; 64],
        a_scale: f32,
    ) {
        let &Self { index, lane, row_offset, accumulate } = self;
        // SAFETY: handed to the caller; a warp gives the stage back when all lanes have read it.
        unsafe {
            let give_back = |ring: &Ring<WideBoxes>| {
                warp_barrier();
                ring.empty().arrive_if(lane == 0);
            };
            ring.full().wait(ring.parity);
            let rows = ring.scales() + row_offset;
            // Hardly ever needed, so not kept.
            let column = COLUMNS * index + 2 * (opaque(lane) % 4);
            let columns = ring.scales() + B_SCALES + 4 * column;
            let upper_rows = row_scales::<S::AScales>(rows, a_scale);
            let lower_rows = row_scales::<S::AScales>(rows + 4 * 64, a_scale);
            let a = Descriptor::k_major(ring.stage());
            let b = ring.stage() + A_BYTES + COLUMNS * ROW_BYTES * index;
            let b = Descriptor::k_major(b);
            E::multiply_stage(products, a, b, accumulate);
            promote::<B>(upper, products, upper_rows, columns, 1.0);
            let a = Descriptor::k_major(ring.stage() + BLOCK_BYTES);
            E::multiply_stage(products, a, b, accumulate);
            if !B::VECTOR {
                give_back(ring);
            }
            promote::<B>(lower, products, lower_rows, columns, 1.0);
            if B::VECTOR {
                give_back(ring);
            }
            ring.advance();
        }
    }
}

/// Gives the stage back, of which this warp has read all. Products have been read when the wait for
/// them is over; scales are read by every lane for itself.
#[inline(always)]
unsafe fn give_back<S: ScaledSchedule>(ring: &Ring<WideBoxes>, lane: u32) {
    // SAFETY: the whole warp comes here, once a stage.
    unsafe {
        if S::AScales::VECTOR || S::BScales::VECTOR {
            warp_barrier();
        }
        if lane == 0 {
            ring.empty().arrive();
        }
    }
}

/// `sums += scales · products`, 64 × 128 over the warpgroup. `columns` is the address of the scales
/// of this thread's first columns, or `column_scale` is that of all.
#[inline(always)]
unsafe fn promote<B: Scales>(
    sums: &mut [f32; 64],
    products: &[f32; 64],
    rows: [f32; 2],
    columns: u32,
    column_scale: f32,
) {
    // SAFETY: handed to the caller.
    unsafe {
        promote_fragment::<B, 0, 0, 64>(sums, products, rows, columns, column_scale);
        promote_fragment::<B, 1, 1, 64>(sums, products, rows, columns, column_scale);
        promote_fragment::<B, 2, 2, 64>(sums, products, rows, columns, column_scale);
        promote_fragment::<B, 3, 3, 64>(sums, products, rows, columns, column_scale);
        promote_fragment::<B, 4, 4, 64>(sums, products, rows, columns, column_scale);
        promote_fragment::<B, 5, 5, 64>(sums, products, rows, columns, column_scale);
        promote_fragment::<B, 6, 6, 64>(sums, products, rows, columns, column_scale);
        promote_fragment::<B, 7, 7, 64>(sums, products, rows, columns, column_scale);
        promote_fragment::<B, 8, 8, 64>(sums, products, rows, columns, column_scale);
        promote_fragment::<B, 9, 9, 64>(sums, products, rows, columns, column_scale);
        promote_fragment::<B, 10, 10, 64>(sums, products, rows, columns, column_scale);
        promote_fragment::<B, 11, 11, 64>(sums, products, rows, columns, column_scale);
        promote_fragment::<B, 12, 12, 64>(sums, products, rows, columns, column_scale);
        promote_fragment::<B, 13, 13, 64>(sums, products, rows, columns, column_scale);
        promote_fragment::<B, 14, 14, 64>(sums, products, rows, columns, column_scale);
        promote_fragment::<B, 15, 15, 64>(sums, products, rows, columns, column_scale);
    }
}
