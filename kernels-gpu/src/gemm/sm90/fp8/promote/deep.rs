//! The consumer of promoted products whose stages bring no scales. That leaves room for a fourth
//! stage, where a warp has boxes for half of a tile only: its halves leave one after the other.
//!
//! ```text
//!   a tile's last stage:      products of the upper rows ── wait ── sums
//!                             products of the lower rows ── wait ── sums
//!                                 meanwhile the upper rows leave
//!   the next tile's first:    products of the upper rows ── wait ── sums
//!                             products of the lower rows ── wait ── sums
//!                                 meanwhile the lower rows leave
//! ```
//!
//! Short reductions are what the fourth stage is for: more of the next tile's operands are there
//! when the sums of a tile are done.

use core::marker::PhantomData;

use ptx_std::hint::{opaque, opaque_u64};
use ptx_std::thread::lane_index;
use ptx_std::wgmma::finish_n128;

use super::stage::{Lanes, Tile};
use super::{LateTile, lend, lent_box, rows_of};
use crate::abi::GemmArgs;
use crate::abi::scaled::ScaledGemmArgs;
use crate::gemm::element::MultiplyStage;
use crate::gemm::epilogue::Epilogue;
use crate::gemm::scales::Tensor;
use crate::gemm::shape::{TILE_M, TILE_N};
use crate::gemm::sm90::boxes::{Boxes, Target};
use crate::gemm::sm90::fp8::ScaledSchedule;
use crate::gemm::sm90::ring::{DeepRing, Ring};
use crate::gemm::sm90::store::{has_short_road, store_tall};
use crate::gemm::sm90::{Consumer, warp_row};
use crate::table::Table;

/// The left or right 128 columns of a tile for each warpgroup, as [`Tall`](super::Tall).
pub struct Deep<S, E>(PhantomData<(S, E)>);

impl<S, E: MultiplyStage> Consumer for Deep<S, E>
where
    S: ScaledSchedule<AScales = Tensor, BScales = Tensor>,
{
    type Args = ScaledGemmArgs;
    type Schedule = S;
    type Element = E;
    type Rooms = DeepRing;
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
    fn lent_box(warpgroup: u32, index: u32) -> [u32; 2] {
        lent_box(warpgroup, index)
    }
}

/// Multiplies what comes through the ring; see [`Consumer::consume`].
#[inline(always)]
unsafe fn consume<S, E: MultiplyStage>(args: &ScaledGemmArgs, d_map: u64, shared: u32, index: u32)
where
    S: ScaledSchedule<AScales = Tensor, BScales = Tensor>,
{
    // SAFETY: as in the other consumer. A box is written when no copy reads it.
    unsafe {
        let gemm = &args.gemm;
        // A table of its own, as there.
        let table = &Table::new(gemm.table, opaque(gemm.groups));
        let lane = lane_index();
        let lanes = Lanes::new(args, index, lane);
        let boxes = || Boxes::new::<DeepRing>(opaque(shared), opaque(lane));
        let mut ring = Ring::<DeepRing>::new(shared, 0);

        let mut task = ring.next_task();
        'tiles: while !task.is_end() {
            let mut sums: [[f32; 64]; 2] = core::mem::zeroed();
            let mut products: [f32; 64] = core::mem::zeroed();
            let mut tile = Tile::<S>::begin(args, table, &task, index);
            if S::RAGGED_REDUCTION && tile.stages == 0 {
                lanes.give_back::<S>(ring.empty());
                ring.advance();
            } else {
                // Tiles whose halves leave while products are made; the sums of the next one are in
                // the same registers.
                loop {
                    // Multiply.
                    let [upper, lower] = &mut sums;
                    while tile.stages > 1 {
                        let stage = lanes.next_stage(&ring, &mut tile);
                        stage.multiply::<S, Tensor, E>(upper, lower, &mut products);
                        tile.go_on(&mut ring);
                    }
                    let stage = lanes.next_stage(&ring, &mut tile);
                    stage.start::<E, 0>(&mut products);
                    finish_n128(&mut products);
                    stage.add::<S, Tensor, 0>(upper, &products);
                    stage.start::<E, 1>(&mut products);
                    let late = late::<S, E>(gemm, table, d_map, &tile);
                    if let Some(late) = &late {
                        boxes().wait();
                        late.known_late().leave::<DeepRing, 0>(boxes(), opaque_u64(d_map), upper);
                    }
                    finish_n128(&mut products);
                    stage.add::<S, Tensor, 1>(lower, &products);
                    lanes.give_back::<S>(stage.empty);
                    tile.go_on(&mut ring);

                    // Finish the tile.
                    let Some(late) = late else { break };
                    let next = ring.next_task();
                    if next.is_end() || next.stages < 2 {
                        boxes().wait();
                        late.leave::<DeepRing, 1>(boxes(), opaque_u64(d_map), lower);
                        task = next;
                        continue 'tiles;
                    }

                    // Begin the next one.
                    tile = Tile::<S>::begin(args, table, &next, index);
                    let stage = lanes.first_stage(&ring, &mut tile);
                    stage.start::<E, 0>(&mut products);
                    *upper = core::mem::zeroed();
                    finish_n128(&mut products);
                    stage.add::<S, Tensor, 0>(upper, &products);
                    stage.start::<E, 1>(&mut products);
                    boxes().wait();
                    late.known_late().leave::<DeepRing, 1>(boxes(), opaque_u64(d_map), lower);
                    *lower = core::mem::zeroed();
                    finish_n128(&mut products);
                    stage.add::<S, Tensor, 1>(lower, &products);
                    lanes.give_back::<S>(stage.empty);
                    tile.go_on(&mut ring);
                }
            }

            // All other tiles.
            let Tile { work, column, .. } = tile;
            if S::RAGGED_REDUCTION && gemm.lends_stages != 0 {
                let factors = [table.alpha(work.group), table.beta(work.group)];
                let place = [index, opaque(lane)];
                lend::<Deep<S, E>>(&mut ring, opaque_u64(d_map), work, place, factors, &sums);
            } else if column < gemm.n {
                store_rest::<S, E>(boxes(), gemm, table, d_map, lane, &tile, sums);
            }
            task = ring.next_task();
        }
        boxes().wait();
    }
}

/// How the warpgroup's half of a tile leaves while products are made, if it does.
///
/// What decides is the same for all warps of the warpgroup: where warps might part, the assembler
/// makes every stage slower. What is computed from the group is not computed ahead, and what the
/// table says is not kept while the products need all registers.
///
/// # Safety
///
/// As [`consume`].
#[inline(always)]
unsafe fn late<S: ScaledSchedule, E: MultiplyStage>(
    gemm: &GemmArgs,
    table: &Table,
    d_map: u64,
    tile: &Tile<S>,
) -> Option<LateTile> {
    let Tile { work, column, .. } = *tile;
    if S::RAGGED_REDUCTION && gemm.lends_stages != 0 || column >= gemm.n {
        return None;
    }
    // SAFETY: handed to the caller.
    unsafe {
        let group = opaque(work.group);
        let (map_row, live_rows) = rows_of::<S>(gemm, table, group);
        let epilogue = Epilogue::new(gemm, table, group, S::KNOWN);
        if !has_short_road::<E>(&epilogue) || !epilogue.kind().is_bf16() {
            return None;
        }
        let target = Target::new(gemm, opaque_u64(d_map), map_row, &epilogue, live_rows);
        let row = target.copied_row(work.row, TILE_M)? + warp_row();
        Some(LateTile { row, column, n: gemm.n, alpha: epilogue.alpha() })
    }
}

/// Stores a tile that does not leave late, after all of its products.
///
/// # Safety
///
/// As [`store_tall`]; the warpgroup has columns in the output.
#[inline(always)]
unsafe fn store_rest<S: ScaledSchedule, E: MultiplyStage>(
    boxes: Boxes,
    gemm: &GemmArgs,
    table: &Table,
    d_map: u64,
    lane: u32,
    tile: &Tile<S>,
    sums: [[f32; 64]; 2],
) {
    let Tile { work, column, .. } = *tile;
    // SAFETY: handed to the caller.
    unsafe {
        let group = opaque(work.group);
        let (map_row, live_rows) = rows_of::<S>(gemm, table, group);
        let epilogue = Epilogue::new(gemm, table, group, S::KNOWN);
        let target = Target::new(gemm, opaque_u64(d_map), map_row, &epilogue, live_rows);
        let place = [opaque(work.row), opaque(column)];
        store_tall::<E, DeepRing>(boxes, &target, &epilogue, lane, place, live_rows, sums);
    }
}
