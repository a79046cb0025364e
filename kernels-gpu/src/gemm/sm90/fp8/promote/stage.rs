//! A stage of a promoted tile: where its operands and scales stand, and how its products are added
//! up.

use ptx_std::hint::opaque;
use ptx_std::mbarrier::Barrier;
use ptx_std::sync::warp_barrier;
use ptx_std::thread::lane_index;
use ptx_std::wgmma::{Descriptor, KMajor};

use super::super::ScaledSchedule;
use super::COLUMNS;
use crate::abi::scaled::ScaledGemmArgs;
use crate::gemm::element::MultiplyStage;
use crate::gemm::scales::{
    B_SCALES, LineScales, Scales, SharedScale, first_blocks, promote_fragment, row_scales, skew,
};
use crate::gemm::scheduler::Work;
use crate::gemm::shape::{BLOCK_BYTES, ROW_BYTES};
use crate::gemm::sm90::ring::{Ring, Rooms};
use crate::gemm::sm90::{A_BYTES, warp_row};
use crate::gemm::task::Task;
use crate::table::Table;

/// A tile, as far as a warpgroup needs to know it.
pub struct Tile<S: ScaledSchedule> {
    pub work: Work,
    /// First column of the warpgroup.
    pub column: u32,
    /// Stages that have not been multiplied yet.
    pub stages: u32,
    /// Bytes between where a stage's row scales begin and the tile's.
    skew: u32,
    /// What the warp that copies says of it
    /// ([`Consumer::note`](crate::gemm::sm90::Consumer::note)).
    pub note: u32,
    a_scale: SharedScale<S::AScales>,
    b_scale: SharedScale<S::BScales>,
    pub line_scales: LineScales,
}

impl<S: ScaledSchedule> Tile<S> {
    /// That of a task, for the warpgroup `index`.
    ///
    /// # Safety
    ///
    /// As [`consume`](super::consume).
    #[inline(always)]
    pub unsafe fn begin(args: &ScaledGemmArgs, table: &Table, task: &Task, index: u32) -> Self {
        let Task { work, stages, token, tokens: note } = *task;
        let column = work.column + COLUMNS * index;
        let n = args.gemm.n;
        // SAFETY: handed to the caller.
        unsafe {
            let [a_first, b_first] = first_blocks(S::RAGGED_REDUCTION, n, table, &work, column);
            let line_scales = if S::BScales::ALIGNED {
                let place = [work.group, column, lane_index()];
                LineScales::load(&args.b_scales, n, place, stages != 0)
            } else {
                LineScales::NONE
            };
            Self {
                work,
                column,
                stages,
                skew: if S::RAGGED_REDUCTION { 0 } else { 4 * skew(token) },
                note,
                a_scale: SharedScale::new(&args.a_scales, work.group, a_first),
                b_scale: SharedScale::new(&args.b_scales, work.group, b_first),
                line_scales,
            }
        }
    }

    /// Whether that of a task has no factors in the columns of the warpgroup `index`.
    #[inline(always)]
    pub fn is_plain(task: &Task, index: u32) -> bool {
        !S::BScales::ALIGNED || task.tokens >> index & 1 != 0
    }

    /// Goes on to the next stage, behind the products: decided before them, it would be a branch.
    #[inline(always)]
    pub fn go_on<R: Rooms>(&mut self, ring: &mut Ring<R>) {
        ring.advance();
        self.stages -= 1;
    }
}

/// What a thread knows of its place in every stage.
pub struct Lanes<'a> {
    args: &'a ScaledGemmArgs,
    /// Its warpgroup.
    index: u32,
    lane: u32,
    /// Where its rows' scales stand among a stage's.
    row_offset: u32,
    /// Whether products are added to what was there before: never, but the compiler shall not know.
    accumulate: bool,
    /// One, which the compiler shall not know either.
    one: f32,
}

impl<'a> Lanes<'a> {
    /// Those of a lane of the warpgroup `index`.
    #[inline(always)]
    pub fn new(args: &'a ScaledGemmArgs, index: u32, lane: u32) -> Self {
        let row_offset = 4 * (warp_row() + lane / 4);
        let accumulate = args.gemm.groups == 0;
        let one = f32::from_bits(1f32.to_bits() | u32::from(accumulate));
        Self { args, index, lane, row_offset, accumulate, one }
    }

    /// The next stage of a tile, which this waits for.
    ///
    /// # Safety
    ///
    /// As [`consume`](super::consume); the tile has a stage left.
    #[inline(always)]
    pub unsafe fn next_stage<S: ScaledSchedule, R: Rooms>(
        &self,
        ring: &Ring<R>,
        tile: &mut Tile<S>,
    ) -> Stage<'_> {
        // SAFETY: handed to the caller. The scales come while the products are made.
        unsafe {
            let scales = self.shared_scales(tile);
            ring.full().wait(ring.parity);
            self.stage(ring, tile, scales)
        }
    }

    /// The first stage of a tile whose task has been read, so it is full.
    ///
    /// # Safety
    ///
    /// As [`Lanes::next_stage`].
    #[inline(always)]
    pub unsafe fn first_stage<S: ScaledSchedule, R: Rooms>(
        &self,
        ring: &Ring<R>,
        tile: &mut Tile<S>,
    ) -> Stage<'_> {
        // SAFETY: handed to the caller.
        let scales = unsafe { self.shared_scales(tile) };
        self.stage(ring, tile, scales)
    }

    /// The scales that all rows and all columns of a stage share.
    ///
    /// # Safety
    ///
    /// As [`Lanes::next_stage`], once a stage.
    #[inline(always)]
    unsafe fn shared_scales<S: ScaledSchedule>(&self, tile: &mut Tile<S>) -> [f32; 2] {
        // SAFETY: handed to the caller.
        unsafe {
            [
                tile.a_scale.take(&self.args.a_scales, self.one),
                tile.b_scale.take(&self.args.b_scales, self.one),
            ]
        }
    }

    /// The stage that the ring is at.
    #[inline(always)]
    fn stage<S: ScaledSchedule, R: Rooms>(
        &self,
        ring: &Ring<R>,
        tile: &Tile<S>,
        scales: [f32; 2],
    ) -> Stage<'_> {
        Stage {
            lanes: self,
            operands: ring.stage(),
            line_scales: ring.scales(),
            rows: ring.scales() + self.row_offset + tile.skew,
            scales,
            empty: ring.empty(),
        }
    }

    /// Gives a stage back, of which this warp has read all. Products have been read when the wait
    /// for them is over; scales are read by every lane for itself.
    ///
    /// # Safety
    ///
    /// As [`consume`](super::consume), once a stage.
    #[inline(always)]
    pub unsafe fn give_back<S: ScaledSchedule>(&self, empty: Barrier) {
        // SAFETY: handed to the caller. No branch parts the lanes.
        unsafe {
            if S::AScales::VECTOR || S::BScales::VECTOR {
                warp_barrier();
            }
            empty.arrive_if(self.lane == 0);
        }
    }
}

/// A stage that is full, as a thread sees it.
pub struct Stage<'a> {
    lanes: &'a Lanes<'a>,
    /// Address of its operands.
    operands: u32,
    /// Address of its scales of lines.
    line_scales: u32,
    /// Address of those of the thread's rows.
    rows: u32,
    /// The scales that all rows and all columns share.
    scales: [f32; 2],
    /// The barrier that it is given back at.
    pub empty: Barrier,
}

impl Stage<'_> {
    /// Multiplies the stage, adds the products up, and gives the stage back. `B` is how the scales
    /// of the right operand are taken.
    ///
    /// # Safety
    ///
    /// As [`consume`](super::consume).
    #[inline(always)]
    pub unsafe fn multiply<S: ScaledSchedule, B: Scales, E: MultiplyStage>(
        &self,
        upper: &mut [f32; 64],
        lower: &mut [f32; 64],
        products: &mut [f32; 64],
    ) {
        // SAFETY: handed to the caller.
        unsafe {
            let (upper_rows, lower_rows) = (self.rows::<S, 0>(), self.rows::<S, 1>());
            let accumulate = self.lanes.accumulate;
            E::multiply_stage(products, self.a::<0>(), self.b(), accumulate);
            self.promote::<B>(upper, products, upper_rows);
            E::multiply_stage(products, self.a::<1>(), self.b(), accumulate);
            if !B::VECTOR {
                self.lanes.give_back::<S>(self.empty);
            }
            self.promote::<B>(lower, products, lower_rows);
            if B::VECTOR {
                self.lanes.give_back::<S>(self.empty);
            }
        }
    }

    /// Begins to multiply the upper (0) or lower (1) 64 rows.
    ///
    /// # Safety
    ///
    /// As [`MultiplyStage::start_stage`].
    #[inline(always)]
    pub unsafe fn start<E: MultiplyStage, const HALF: u32>(&self, products: &mut [f32; 64]) {
        // SAFETY: handed to the caller.
        unsafe { E::start_stage(products, self.a::<HALF>(), self.b(), self.lanes.accumulate) }
    }

    /// Adds their products up. `B` is how the scales of the right operand are taken.
    ///
    /// # Safety
    ///
    /// As [`consume`](super::consume); the products are finished.
    #[inline(always)]
    pub unsafe fn add<S: ScaledSchedule, B: Scales, const HALF: u32>(
        &self,
        sums: &mut [f32; 64],
        products: &[f32; 64],
    ) {
        // SAFETY: handed to the caller.
        unsafe { self.promote::<B>(sums, products, self.rows::<S, HALF>()) }
    }

    /// The left operand of the upper or lower 64 rows.
    #[inline(always)]
    fn a<const HALF: u32>(&self) -> Descriptor<KMajor> {
        Descriptor::k_major(self.operands + HALF * BLOCK_BYTES)
    }

    /// The right operand of the warpgroup's columns.
    #[inline(always)]
    fn b(&self) -> Descriptor<KMajor> {
        Descriptor::k_major(self.operands + A_BYTES + COLUMNS * ROW_BYTES * self.lanes.index)
    }

    /// The scales of the thread's two rows in the upper or lower 64.
    #[inline(always)]
    unsafe fn rows<S: ScaledSchedule, const HALF: u32>(&self) -> [f32; 2] {
        // SAFETY: handed to the caller.
        unsafe { row_scales::<S::AScales>(self.rows + 4 * 64 * HALF, self.scales[0]) }
    }

    /// `sums += scales · products`, 64 × 128 over the warpgroup.
    #[inline(always)]
    unsafe fn promote<B: Scales>(
        &self,
        sums: &mut [f32; 64],
        products: &[f32; 64],
        rows: [f32; 2],
    ) {
        // Not kept in a register.
        let column = COLUMNS * self.lanes.index + 2 * (opaque(self.lanes.lane) % 4);
        let columns = self.line_scales + B_SCALES + 4 * column;
        // SAFETY: handed to the caller.
        unsafe { promote::<B>(sums, products, rows, columns, self.scales[1]) }
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
