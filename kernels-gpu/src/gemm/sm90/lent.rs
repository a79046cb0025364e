//! FP32 outputs of a ragged reduction on their way through stages of the ring, which the warp that
//! copies lends when a tile has been multiplied.
//!
//! ```text
//!   former D ──tensor copies──▶ lent stage ──▶ registers: alpha · sums + beta · former
//!                                   ▲                        │
//!   D ◀──tensor copies───────────────┴────────────────────────┘
//! ```
//!
//! The former output of a tile is asked for as the last stages of its products become free, so it
//! comes while these are multiplied; the new one leaves while the next tile's stages come. Nothing
//! waits in registers for memory, and no thread loads or stores global memory.
//!
//! The sums of a warpgroup are eight boxes of 64 rows × 32 columns; where they lie in the tile is
//! the consumer's ([`lent_box`](super::Consumer::lent_box)). A lent stage has three of each
//! warpgroup, the last one two, so that a ring of three stages has room for a whole tile.
//!
//! Rows of a box are 128 bytes in the 128-byte swizzle, and a thread has two neighbouring columns
//! of a fragment. Lanes of odd rows take the fragments in another order, so that the 16 lanes which
//! shared memory serves at once find each bank once.

use ptx_std::convert::fma;
use ptx_std::hint::opaque;
use ptx_std::mbarrier::Barrier;
use ptx_std::memory::{load_shared_f32x2, store_shared_f32x2};
use ptx_std::sync::{fence_async_shared, named_barrier};
use ptx_std::thread::{block_index, grid_blocks, sleep, thread_index};
use ptx_std::tma::{CachePolicy, commit_group, load_3d_hint, store_3d_hint, wait_group_read};

use super::super::scheduler::Work;
use super::super::shape::{
    BLOCK_BYTES, CONSUMER_WARPS, CONSUMERS, ROW_BYTES, TILE_M, TILE_N, WARPGROUP,
};
use super::ring::{Ring, Rooms, STAGE_BYTES};
use super::schedule::Schedule;
use super::{Consumer, warp_row};
use crate::abi::{GemmArgs, SM90_LENT_BOX_ROWS};
use crate::table::Table;

/// Columns of a box.
pub const BOX_COLUMNS: u32 = ROW_BYTES / 4;
/// Boxes of a warpgroup in a tile.
const BOXES: u32 = TILE_M * TILE_N / (CONSUMERS * SM90_LENT_BOX_ROWS * BOX_COLUMNS);
/// Boxes of a warpgroup in a lent stage.
const STAGE_BOXES: u32 = 3;
/// Stages that a tile takes.
const STAGES: u32 = BOXES.div_ceil(STAGE_BOXES);
/// Warps of a warpgroup, for which its first thread gives a stage back.
const WARPS: u32 = CONSUMER_WARPS / CONSUMERS;

/// Neither the former output nor the new one is read again, but operands are.
const READ_ONCE: CachePolicy = CachePolicy::EvictFirst;

/// Tiles that a block must have for [`stagger`].
const STAGGERED_TILES: u32 = 16;
/// About how long a stage takes, in nanoseconds.
const STAGE_TIME: u32 = 640;
/// About how long the end of a tile takes.
const END_TIME: u32 = 6000;
/// Stages that are counted: a thread sleeps a millisecond at most.
const MOST_STAGES: u32 = 1024;

const _: () =
    assert!(BLOCK_BYTES == SM90_LENT_BOX_ROWS * ROW_BYTES, "a box is a block of an operand");
const _: () = assert!(CONSUMERS * STAGE_BOXES * BLOCK_BYTES <= STAGE_BYTES, "boxes fit");

/// A thread's sums in a box: four fragments.
pub type BoxSums = [f32; 16];

/// The four fragments from `fragment` on.
#[inline(always)]
pub fn box_sums<const SUMS: usize>(sums: &[f32; SUMS], fragment: usize) -> BoxSums {
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15].map(|i: usize| sums[4 * fragment + i])
}

/// Where the box `index` of a warpgroup stands in a lent stage.
#[inline(always)]
fn box_offset(warpgroup: u32, index: u32) -> u32 {
    (warpgroup * STAGE_BOXES + index) * BLOCK_BYTES
}

/// Lets blocks start one after the other, over the time that a tile takes. All tiles being of one
/// size, memory would else be asked for all former sums at a time and for none in between. A block
/// with few tiles would not win the late start back.
///
/// # Safety
///
/// The warp that copies calls it together, before its first tile.
#[inline(always)]
pub unsafe fn stagger<S: Schedule>(args: &GemmArgs, table: &Table) {
    let groups = opaque(args.groups);
    let blocks = grid_blocks();
    // SAFETY: `groups` is the last index of the arrays.
    unsafe {
        if table.tile_prefix(groups) >= STAGGERED_TILES * blocks {
            let rows = table.row_offset(groups) as u32;
            // A launch has groups and blocks, which the compiler cannot know.
            let stages = (rows / groups.max(1)).div_ceil(S::DEPTH).min(MOST_STAGES);
            sleep((STAGE_TIME * stages + END_TIME) / blocks.max(1) * block_index());
        }
    }
}

/// Lends the stages of a tile, with its former output if there is something to add it to.
///
/// # Safety
///
/// One thread calls it, the one that copies. `map` is the generic address of the output's map, in
/// boxes as [`GemmArgs::lends_stages`](crate::abi::GemmArgs::lends_stages) says.
#[inline(always)]
pub unsafe fn lend<C: Consumer>(
    ring: &mut Ring<C::Rooms>,
    map: u64,
    work: &Work,
    has_former: bool,
) {
    // SAFETY: the caller keeps the contract above; the stage is free when its barrier says so.
    unsafe {
        let mut stage = 0;
        while stage != STAGES {
            ring.empty().wait(ring.parity);
            if has_former {
                let boxes = STAGE_BOXES.min(BOXES - STAGE_BOXES * stage);
                ring.full().arrive_expect(CONSUMERS * boxes * BLOCK_BYTES);
                let mut index = 0;
                while index != boxes {
                    for warpgroup in 0..CONSUMERS {
                        let [row, column] = C::lent_box(warpgroup, STAGE_BOXES * stage + index);
                        let place = [work.column + column, work.row + row, work.group];
                        let destination = ring.stage() + box_offset(warpgroup, index);
                        load_3d_hint(destination, map, place, ring.full(), READ_ONCE);
                    }
                    index = opaque(index) + 1;
                }
            } else {
                ring.full().arrive();
            }
            ring.advance();
            stage = opaque(stage) + 1; // not unrolled, in a thread with few registers
        }
    }
}

/// What a thread finishes its part of a tile with.
pub struct Finish<'a, R> {
    ring: &'a mut Ring<R>,
    map: u64,
    work: Work,
    /// Which warpgroup it is.
    index: u32,
    /// Alpha and beta.
    factors: [f32; 2],
    /// Where its first element stands in a stage.
    place: u32,
    /// Whether its row is an odd one of eight.
    is_odd: bool,
    /// The barrier of the stage before, which copies may still read.
    read: Barrier,
}

impl<'a, R: Rooms> Finish<'a, R> {
    /// That of a thread of the warpgroup `index`, of the stages from the next of the ring on. `map`
    /// is as in [`lend`].
    #[inline(always)]
    pub fn new(
        ring: &'a mut Ring<R>,
        map: u64,
        work: Work,
        [index, lane]: [u32; 2],
        factors: [f32; 2],
    ) -> Self {
        let line = warp_row() + lane / 4;
        let chunk = (lane % 4 / 2) ^ (line % 8);
        let place = box_offset(index, 0) + line * ROW_BYTES + chunk * 16 + lane % 2 * 8;
        let is_odd = !line.is_multiple_of(2);
        let place = if is_odd { place ^ 64 } else { place };
        Self { ring, map, work, index, factors, place, is_odd, read: NOTHING }
    }

    /// Finishes the boxes that the warpgroup has in lent stage `STAGE`, `N` of them.
    ///
    /// # Safety
    ///
    /// The whole warpgroup calls it together, for one stage after the other; the map and the work
    /// are those of [`lend`].
    #[inline(always)]
    pub unsafe fn stage<C: Consumer, const STAGE: u32, const N: usize>(
        &mut self,
        sums: [BoxSums; N],
    ) {
        const { assert!(N as u32 <= STAGE_BOXES && STAGE * STAGE_BOXES + N as u32 <= BOXES) };
        // SAFETY: the caller keeps the contract above; the boxes belong to this warpgroup from the
        // wait on until its first thread gives the stage back.
        unsafe {
            self.ring.full().wait(self.ring.parity);
            let place = self.ring.stage() + self.place;
            self.finish(place, &sums[0]);
            self.finish(place + BLOCK_BYTES, &sums[1]);
            if N == 3 {
                self.finish(place + 2 * BLOCK_BYTES, &sums[N - 1]);
            }
            fence_async_shared();
            match self.index {
                0 => named_barrier::<2, WARPGROUP>(),
                _ => named_barrier::<3, WARPGROUP>(),
            }
            if thread_index().is_multiple_of(WARPGROUP) {
                for index in 0..N as u32 {
                    let [row, column] = C::lent_box(self.index, STAGE_BOXES * STAGE + index);
                    let place = [self.work.column + column, self.work.row + row, self.work.group];
                    let source = self.ring.stage() + box_offset(self.index, index);
                    store_3d_hint(self.map, place, source, READ_ONCE);
                }
                commit_group();
                if STAGE != 0 {
                    wait_group_read::<1>();
                    self.read.arrive_for::<WARPS>();
                }
            }
            self.read = self.ring.empty();
            self.ring.advance();
        }
    }

    /// The barrier of the last stage, for [`give_back`].
    #[inline(always)]
    pub fn last(self) -> Barrier {
        self.read
    }

    /// Finishes the sums of a box, of which the thread's first element is at `place`.
    #[inline(always)]
    unsafe fn finish(&self, place: u32, sums: &BoxSums) {
        let [alpha, beta] = self.factors;
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = *sums;
        let select = |odd: [f32; 4], even: [f32; 4]| if self.is_odd { odd } else { even };
        // Fragments at the places 0, 32, 64 and 96 bytes on, as far as their bits are exchanged.
        let (first, second) = ([a, b, c, d], [e, f, g, h]);
        let (third, fourth) = ([i, j, k, l], [m, n, o, p]);
        let fragments = [
            select(third, first),
            select(fourth, second),
            select(first, third),
            select(second, fourth),
        ];
        let places = [place, place ^ 32, place ^ 64, place ^ 96];
        // SAFETY: handed to the caller; the lower row is eight below.
        unsafe {
            // Adding nothing, with its sign, changes no sum.
            let mut former = [[-0.0; 4]; 4];
            if beta != 0.0 {
                former = places.map(|place| {
                    let [a, b] = load_shared_f32x2(place);
                    let [c, d] = load_shared_f32x2(place + 8 * ROW_BYTES);
                    [a, b, c, d]
                });
            }
            let store = |place: u32, [p, q, r, s]: [f32; 4], [a, b, c, d]: [f32; 4]| {
                let finish = |former, sum| fma(beta, former, alpha * sum);
                store_shared_f32x2(place, [finish(p, a), finish(q, b)]);
                store_shared_f32x2(place + 8 * ROW_BYTES, [finish(r, c), finish(s, d)]);
            };
            store(places[0], former[0], fragments[0]);
            store(places[1], former[1], fragments[1]);
            store(places[2], former[2], fragments[2]);
            store(places[3], former[3], fragments[3]);
        }
    }
}

/// No barrier.
pub const NOTHING: Barrier = Barrier { address: 0 };

/// Gives a lent stage back, if there is one.
///
/// # Safety
///
/// The warpgroup calls it, after [`Finish::stage`], once for its last stage; no copy of its first
/// thread reads shared memory any more ([`wait_group_read`]).
#[inline(always)]
pub unsafe fn give_back(stage: Barrier) {
    if stage.address != NOTHING.address && thread_index().is_multiple_of(WARPGROUP) {
        // SAFETY: handed to the caller.
        unsafe { stage.arrive_for::<WARPS>() };
    }
}
