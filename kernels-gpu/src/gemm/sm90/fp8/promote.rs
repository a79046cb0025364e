//! The consumers that take their sums from the tensor core after every stage: a warpgroup makes all
//! 128 rows and 128 columns, 64 rows at a time.
//!
//! ```text
//!   per stage:   products of the upper rows ── wait ── sums += scale · products
//!                products of the lower rows ── wait ── sums += scale · products
//! ```
//!
//! 128 sums and 64 products are what the registers of a thread hold, so there is no product in
//! flight while it adds; the other warpgroup's fill the tensor core meanwhile. What a tile is
//! stored from stays in the registers of its sums, and leaves behind the first products of the next
//! one, unless that has factors, 64 rows at a time ([`LateTile`]); where stages bring no scales,
//! the upper rows leave behind its own last ones ([`deep`]). The tensor core needs 256 clocks for
//! 64 × 128 × 128 products, in which a warp issues 64 to 150 instructions that add them up.
//! Registers are that scarce (240) that some values are made [`opaque`], so that nothing is
//! computed ahead from them, and the thread that copies has 24.
//!
//! Aligned vectors of the right operand ([`Aligned`](crate::gemm::scales::Aligned)) have a scale
//! that is the column's, so it is left for the end of the tile, and where no column has factors the
//! stages are added up with the rows' scales alone: half of the instructions, and no loads. Whether
//! any has is found out for a tile at a time, by the warp that copies ([`plain_halves`]): a
//! question in each stage held the products up.
//!
//! The numbers: products are summed by the tensor core, 128 of them; the scales of row and column
//! are multiplied first, `sum = fma(row_scale · column_scale, products, sum)`.

use core::marker::PhantomData;

use ptx_std::hint::{opaque, opaque_u64};
use ptx_std::thread::lane_index;
use ptx_std::tma::wait_group_read;
use ptx_std::wgmma::finish_n128;

use self::stage::{Lanes, Tile};
use super::ScaledSchedule;
use crate::abi::GemmArgs;
use crate::abi::scaled::ScaledGemmArgs;
use crate::gemm::element::{Kind, MultiplyStage};
use crate::gemm::epilogue::Epilogue;
use crate::gemm::product::{FP8_DEPTH, Scaled};
use crate::gemm::scales::{Scales, Vector, plain_halves};
use crate::gemm::scheduler::Work;
use crate::gemm::shape::{TILE_M, TILE_N};
use crate::gemm::sm90::boxes::{BOX_COLUMNS, Boxes, Target, round};
use crate::gemm::sm90::lent::{self, Finish, box_sums};
use crate::gemm::sm90::ring::{Ring, Rooms, WideBoxes};
use crate::gemm::sm90::store::{has_short_road, store_tall};
use crate::gemm::sm90::{Consumer, warp_row};
use crate::table::Table;

mod deep;
mod stage;

pub use self::deep::Deep;

/// Columns of a warpgroup.
const COLUMNS: u32 = 128;

const _: () = assert!(2 * COLUMNS == TILE_N, "two warpgroups share a tile");

/// The left or right 128 columns of a tile for each warpgroup, whose stages bring scales.
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
        lent_box(warpgroup, index)
    }
}

/// First row and column, from the tile's on, of a warpgroup's box of FP32 sums.
#[inline(always)]
fn lent_box(warpgroup: u32, index: u32) -> [u32; 2] {
    [64 * (index % 2), COLUMNS * warpgroup + lent::BOX_COLUMNS * (index / 2)]
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
        let lanes = Lanes::new(args, index, lane);
        let boxes = || Boxes::new::<WideBoxes>(opaque(shared), opaque(lane));
        let mut ring = Ring::<WideBoxes>::new(shared, 0);

        let mut task = ring.next_task();
        while !task.is_end() {
            if S::RAGGED_REDUCTION && task.stages == 0 {
                lanes.give_back::<S>(ring.empty());
                ring.advance();
            }
            let mut sums: [[f32; 64]; 2] = core::mem::zeroed();
            let mut products: [f32; 64] = core::mem::zeroed();
            let mut tile = Tile::<S>::begin(args, table, &task, index);
            // Tiles that leave while the next one begins: its sums are in the same registers. All
            // others break the loop with the task that follows. What decides is the same for all
            // warps of the warpgroup: where warps might part, the assembler makes every stage
            // slower.
            task = loop {
                // Multiply.
                let [upper, lower] = &mut sums;
                if S::BScales::ALIGNED {
                    // One loop in the other, since sums would be in other registers in the second
                    // of two, and moved in every stage.
                    let mut plain = if tile.note >> index & 1 != 0 { tile.stages } else { 0 };
                    while tile.stages != 0 {
                        while plain != 0 {
                            let stage = lanes.next_stage(&ring, &mut tile);
                            stage.multiply::<S, Plain<S>, E>(upper, lower, &mut products);
                            tile.go_on(&mut ring);
                            plain -= 1;
                        }
                        if tile.stages != 0 {
                            let stage = lanes.next_stage(&ring, &mut tile);
                            stage.multiply::<S, Vector, E>(upper, lower, &mut products);
                            tile.go_on(&mut ring);
                        }
                    }
                }
                while tile.stages != 0 {
                    let stage = lanes.next_stage(&ring, &mut tile);
                    stage.multiply::<S, S::BScales, E>(upper, lower, &mut products);
                    tile.go_on(&mut ring);
                }

                // Finish the tile.
                let Tile { work, column, .. } = tile;
                if S::BScales::ALIGNED {
                    tile.line_scales.multiply(&mut sums, opaque(lane));
                }
                if S::RAGGED_REDUCTION && gemm.lends_stages != 0 {
                    let factors = [table.alpha(work.group), table.beta(work.group)];
                    let place = [index, opaque(lane)];
                    lend::<Tall<S, E>>(&mut ring, opaque_u64(d_map), work, place, factors, &sums);
                    break ring.next_task();
                }
                if column >= gemm.n {
                    break ring.next_task();
                }
                // What is computed from these is not computed ahead, and what the table says is not
                // kept while the products need all registers.
                let (d_map, group) = (opaque_u64(d_map), opaque(work.group));
                let (map_row, live_rows) = rows_of::<S>(gemm, table, group);
                let epilogue = Epilogue::new(gemm, table, group, S::KNOWN);
                let target = Target::new(gemm, d_map, map_row, &epilogue, live_rows);
                let copied = if has_short_road::<E>(&epilogue) && epilogue.kind().is_bf16() {
                    target.copied_row(work.row, TILE_M)
                } else {
                    None
                };
                let Some(map_row) = copied else {
                    let place = [opaque(work.row), opaque(column)];
                    store_tall::<E, WideBoxes>(
                        boxes(),
                        &target,
                        &epilogue,
                        lane,
                        place,
                        live_rows,
                        sums,
                    );
                    break ring.next_task();
                };
                let row = map_row + warp_row();
                let late = LateTile { row, column, n: gemm.n, alpha: epilogue.alpha() };
                boxes().wait();
                let next = ring.next_task();
                let [upper, lower] = &mut sums;
                // A tile with factors begins apart: a question between products that run would hold
                // them up.
                if next.is_end()
                    || S::RAGGED_REDUCTION && next.stages == 0
                    || !Tile::<S>::is_plain(&next, index)
                {
                    late.leave::<WideBoxes, 0>(boxes(), d_map, upper);
                    late.leave::<WideBoxes, 1>(boxes(), d_map, lower);
                    break next;
                }

                // Begin the next one.
                tile = Tile::<S>::begin(args, table, &next, index);
                let stage = lanes.first_stage(&ring, &mut tile);
                stage.start::<E, 0>(&mut products);
                late.leave::<WideBoxes, 0>(boxes(), d_map, upper);
                *upper = core::mem::zeroed();
                finish_n128(&mut products);
                stage.add::<S, Plain<S>, 0>(upper, &products);
                stage.start::<E, 1>(&mut products);
                late.leave::<WideBoxes, 1>(boxes(), d_map, lower);
                *lower = core::mem::zeroed();
                finish_n128(&mut products);
                stage.add::<S, Plain<S>, 1>(lower, &products);
                lanes.give_back::<S>(stage.empty);
                tile.go_on(&mut ring);
            };
        }
        boxes().wait();
    }
}

/// How the right operand's scales are taken in a stage without factors.
type Plain<S> = <<S as Scaled>::BScales as Scales>::Plain;

/// Where a group's rows begin in the map of the output, and how many it has.
///
/// # Safety
///
/// The group is one of the table's.
#[inline(always)]
unsafe fn rows_of<S: ScaledSchedule>(gemm: &GemmArgs, table: &Table, group: u32) -> (u32, u32) {
    if S::RAGGED_REDUCTION {
        (group * gemm.m, gemm.m)
    } else {
        // SAFETY: handed to the caller.
        unsafe { table.tokens(group) }
    }
}

/// Stores FP32 sums through the stages that the warp that copies lends.
///
/// # Safety
///
/// As [`Finish`].
#[inline(always)]
unsafe fn lend<C: Consumer>(
    ring: &mut Ring<C::Rooms>,
    d_map: u64,
    work: Work,
    place: [u32; 2],
    factors: [f32; 2],
    [above, below]: &[[f32; 64]; 2],
) {
    let work = Work { group: opaque(work.group), ..work };
    // SAFETY: handed to the caller.
    unsafe {
        let mut finish = Finish::new(ring, d_map, work, place, factors);
        finish.stage::<C, 0, 3>([box_sums(above, 0), box_sums(below, 0), box_sums(above, 4)]);
        finish.stage::<C, 1, 3>([box_sums(below, 4), box_sums(above, 8), box_sums(below, 8)]);
        finish.stage::<C, 2, 2>([box_sums(above, 12), box_sums(below, 12)]);
        let last = finish.last();
        wait_group_read::<0>();
        lent::give_back(last);
    }
}

/// A finished tile of BF16 whose sums leave while the next one's first products are made, from the
/// registers where they are.
struct LateTile {
    /// First row of the warp, as the map counts.
    row: u32,
    /// First column.
    column: u32,
    /// Columns of the output.
    n: u32,
    alpha: f32,
}

impl LateTile {
    /// The same, with a factor that the compiler knows from here on: so it does not multiply sums
    /// before the products that run meanwhile have been asked for.
    #[inline(always)]
    fn known_late(&self) -> Self {
        Self { alpha: f32::from_bits(opaque(self.alpha.to_bits())), ..*self }
    }

    /// Has the upper (0) or lower (1) 64 rows copied to the output. There is no branch in it: the
    /// compiler would make the products that run meanwhile wait for it.
    ///
    /// # Safety
    ///
    /// As [`Boxes::new`], once [`Boxes::wait`] has been called for the tile; `map` is as in
    /// [`Boxes::copy`].
    #[inline(always)]
    unsafe fn leave<R: Rooms, const HALF: u32>(&self, boxes: Boxes, map: u64, sums: &[f32; 64]) {
        let &Self { row, column, n, alpha } = self;
        let kind = Kind(Kind::BF16);
        // SAFETY: handed to the caller.
        unsafe {
            let first = 2 * HALF % R::BOXES;
            boxes.write(first, &round(kind, [alpha; 2], sums, 0));
            boxes.write(first + 1, &round(kind, [alpha; 2], sums, 8));
            boxes.show();
            boxes.copy(first, map, [row + 64 * HALF, column], BOX_COLUMNS, n);
        }
    }
}
