//! The Hopper main loop: tensor copies feed a ring of stages, two warpgroups multiply from it.
//!
//! A block of three warpgroups makes tiles of 128 × 256, 128 bytes of the reduction at a time,
//! which are 64 elements of 16 bits or 128 of FP8 (narrow tiles have 240 columns, from boxes of
//! 256):
//!
//! ```text
//!   warpgroup 0          shared memory, 4 stages of 48 KiB           warpgroups 1, 2
//!   one thread ──TMA──▶  [A 16 KiB | B 32 KiB] [ … ] [ … ] [ … ] ──wgmma──▶ 64 × 256 sums each
//!        ▲                        full[s]: bytes landed ──────────────▶  │
//!        └──────────────────────  empty[s]: both have finished reading ◀─┘
//! ```
//!
//! The warp that copies also walks the tiles ([`Turns`], [`Scheduler`]) and says with the first
//! stage of each which tile it is ([`Task`]). Plain outputs of 16 bits leave through boxes in
//! shared memory ([`boxes`]), so that they are stored while the next tile is multiplied; FP32
//! gradients of weights, and what they are added to, go through stages that are lent for it
//! ([`lent`]). Where stages bring scales the ring has three of them ([`ring`]).
//!
//! The passes differ in how their operands lie in memory, and so in the boxes that are copied and
//! in the descriptors that name them. That difference is the trait `Schedule`; everything else is
//! written once. All boxes have inner rows of 128 bytes, swizzled; those of 16-bit operands
//! ([`fp8`] has its own):
//!
//! | pass | A: 128 rows of the tile | B: 256 columns of the tile |
//! | --- | --- | --- |
//! | fprop | X, one box (64 of K, 128 tokens), K-major | W, one box (64 of K, 256 of N), K-major |
//! | dgrad | dY, one box (64 of N, 128 tokens), K-major | W, four boxes (64 of K, 64 of N), MN-major |
//! | wgrad | dY, two boxes (64 of N, 64 tokens), MN-major | X, four boxes (64 of K, 64 tokens), MN-major |
//!
//! Where the features are multiples of 64, the boxes of an operand of wgrad are the blocks of one
//! box of a three-dimensional map, since six requests keep the copy engine busy longer than two.
//!
//! Boxes that hang over the edge of a tensor are filled with zeros. Boxes that hang over the end of
//! a group hold the next group's rows: of the output (fprop, dgrad) they are not stored, of the
//! reduction (wgrad) they are cleared in shared memory before they are multiplied.
//!
//! The two warpgroups are the other seam, the trait `Consumer`: they leave their sums in the tensor
//! core ([`Wide`]), or take them out after every stage ([`fp8`]).

use ptx_std::hint::opaque;
use ptx_std::memory::shared_base;
use ptx_std::sync::{
    block_barrier, claim_registers, elect_one, fence_mbarrier_init, release_registers, warp_barrier,
};
use ptx_std::thread::{thread_index, warp_index};
use ptx_std::tma::{acquire_map, prefetch_map};

use self::consume::Wide;
use self::ring::{Ring, Rooms};
use self::schedule::{Copies, Schedule};
use self::turns::Turns;
use super::element::{MatrixElement, Multiply};
use super::former::prefetch_former;
use super::scheduler::{Scheduler, Work};
use super::shape::{
    A_MAP, B_MAP, CONSUMERS, D_MAP, REGISTERS, ROW_BYTES, TILE_M, TILE_N, WARPGROUP,
};
use super::task::Task;
use crate::abi::{GemmArgs, TensorMap};
use crate::table::Table;

mod boxes;
mod consume;
pub mod fp8;
mod lent;
pub mod ring;
pub mod schedule;
mod store;
mod turns;

/// Bytes of the left operand in a stage.
const A_BYTES: u32 = TILE_M * ROW_BYTES;
/// Bytes of the right operand in a stage.
const B_BYTES: u32 = TILE_N * ROW_BYTES;

/// The named barrier of the threads that multiply.
const CONSUMER_BARRIER: u32 = 1;

/// What two warpgroups do with the stages of a ring.
trait Consumer {
    /// The kernel's argument.
    type Args;
    /// How the operands lie.
    type Schedule: Schedule;
    /// Elements of the left operand.
    type Element: MatrixElement;
    /// How shared memory is divided.
    type Rooms: Rooms;

    /// The common part of the argument.
    fn gemm(args: &Self::Args) -> &GemmArgs;

    /// Multiplies what comes through the ring in the shared memory at `shared`. A warpgroup runs
    /// it, `index` 0 or 1. `d_map` is the generic address of the output's map.
    ///
    /// # Safety
    ///
    /// As [`run`].
    unsafe fn consume(args: &Self::Args, d_map: u64, table: &Table, shared: u32, index: u32);

    /// Columns of a tile.
    const COLUMNS: u32;

    /// What consumers are told of a tile instead of its group's tokens, if they are told something.
    /// The warp that copies finds it out, together.
    ///
    /// # Safety
    ///
    /// As [`run`]; the tile is one of the launch's.
    #[inline(always)]
    unsafe fn note(_args: &Self::Args, _work: &Work, _first: u32, _stages: u32) -> Option<u32> {
        None
    }

    /// First row and column, from the tile's on, of a warpgroup's box `index` of FP32 sums
    /// ([`lent`]).
    fn lent_box(warpgroup: u32, index: u32) -> [u32; 2];
}

/// The kernel that leaves its sums in the tensor core until a tile is done: `SUMS` in each thread,
/// for tiles of twice as many columns.
///
/// # Safety
///
/// Blocks of 384 threads with [`Rooms::SHARED_BYTES`] of dynamic shared memory; `args_address` is
/// the generic address of `args` in parameter memory, aligned to 64 bytes; the maps have the boxes
/// of the table above, 128-byte swizzle and zero fill; the other addresses are valid for what their
/// fields describe.
#[inline(always)]
pub unsafe fn run<S, E, const SUMS: usize>(args: &GemmArgs, args_address: u64)
where
    S: Schedule,
    E: Multiply<S::A, S::B, SUMS>,
{
    // SAFETY: handed to the caller.
    unsafe { part::<Wide<S, E, SUMS>, 40, 232>(args, args_address) }
}

/// Prepares the block and parts it into roles: one warp copies, two warpgroups multiply, with these
/// registers for each of their threads.
///
/// # Safety
///
/// As [`run`]; the argument is that of the consumer, its common part first.
#[inline(always)]
unsafe fn part<C: Consumer, const COPYING: u32, const MULTIPLYING: u32>(
    args: &C::Args,
    args_address: u64,
) {
    const {
        assert!(C::Schedule::DEPTH == C::Element::DEPTH, "a stage is one swizzled row deep");
        assert!(
            C::COLUMNS == TILE_N || !C::Schedule::RAGGED_REDUCTION,
            "lent stages, and boxes of blocks of 64 features, are for whole tiles"
        );
        assert!(
            COPYING + CONSUMERS * MULTIPLYING <= (1 + CONSUMERS) * REGISTERS,
            "the registers of the block"
        );
    }
    // SAFETY: the launcher keeps the contract above. Every warp belongs to one role, roles part at
    // warpgroup borders, and no barrier of the whole block follows the first.
    unsafe {
        let gemm = C::gemm(args);
        let shared = shared_base();
        let warp = warp_index();
        let table = Table::new(gemm.table, gemm.groups);

        // Prepare the barriers.
        if thread_index() == 0 {
            prefetch_map(args_address + A_MAP);
            if gemm.b_maps == 0 {
                prefetch_map(args_address + B_MAP);
            }
            C::Schedule::prefetch_scale_maps(args_address);
            Ring::<C::Rooms>::init(shared);
            fence_mbarrier_init();
        }
        block_barrier();

        // Part into roles.
        if warp < WARPGROUP / 32 {
            release_registers::<COPYING>();
            if warp == 0 {
                produce::<C, C::Schedule>(args, args_address, &table, shared);
            }
        } else {
            claim_registers::<MULTIPLYING>();
            C::consume(args, args_address + D_MAP, &table, shared, warp / 4 - 1);
        }
    }
}

/// First row of this warp among its warpgroup's 64, as wgmma deals them out.
#[inline(always)]
fn warp_row() -> u32 {
    16 * (thread_index() % WARPGROUP / 32)
}

/// Stages of a product.
#[inline(always)]
fn stages<S: Schedule>(args: &GemmArgs, rows: u32) -> u32 {
    if S::RAGGED_REDUCTION { rows.div_ceil(S::DEPTH) } else { args.k.div_ceil(S::DEPTH) }
}

/// Feeds the ring with tasks and stages. One warp runs it, one of its lanes copies.
///
/// It may return while copies are on their way: the consumers wait for each of them, and shared
/// memory lives as long as they do.
#[inline(always)]
unsafe fn produce<C: Consumer<Schedule = S>, S: Schedule>(
    all_args: &C::Args,
    args_address: u64,
    table: &Table,
    shared: u32,
) {
    let args = C::gemm(all_args);
    // SAFETY: the launcher's contract; the whole warp walks the tiles together, and the ring's
    // barriers say when a stage is free.
    unsafe {
        let elected = elect_one();
        let mut ring = Ring::<C::Rooms>::new(shared, 1);
        if S::RAGGED_REDUCTION && args.lends_stages != 0 {
            lent::stagger::<S>(args, table);
        }
        let mut scheduler =
            Scheduler::new(*table, args.n.div_ceil(C::COLUMNS), S::RAGGED_REDUCTION);
        let mut turns = Turns::<S>::new(table);
        while let Some(work) = scheduler.place([TILE_M, C::COLUMNS], turns.tile) {
            let mut next = turns.next();
            let (token, tokens) = table.tokens(work.group);
            let first = if S::PADDED { table.padded_offset(work.group) as u32 } else { token };
            let stages = stages::<S>(args, tokens);
            let holds_back = S::HELD_BACK_FROM.is_some_and(|from| stages >= from);
            let note = C::note(all_args, &work, first, stages);
            let (b_map, b_group) = if S::ONE_MAP || args.b_maps == 0 {
                (args_address + B_MAP, work.group)
            } else {
                (args.b_maps + u64::from(work.group) * size_of::<TensorMap>() as u64, 0)
            };
            if elected {
                if !S::ONE_MAP && args.b_maps != 0 {
                    acquire_map(b_map);
                }
                ring.empty().wait(ring.parity);
                Task { work, stages, token: first, tokens: note.unwrap_or(tokens) }
                    .write(ring.task());
                if S::RAGGED_REDUCTION && stages == 0 {
                    ring.full().arrive();
                    ring.advance();
                    next.ask(table, 0, 0);
                }
                let mut stage = 0;
                while stage != stages {
                    next.ask(table, stage, stages);
                    let (empty, parity) = ring.free(holds_back);
                    empty.wait(parity);
                    ring.full().arrive_expect(S::STAGE_BYTES);
                    S::copy(&Copies {
                        stage: ring.stage(),
                        full: ring.full(),
                        a_map: args_address + A_MAP,
                        b_map,
                        b_group,
                        token: first,
                        row: work.row,
                        column: work.column,
                        reduction: stage * S::DEPTH,
                        args: args_address,
                        scales: ring.scales(),
                        stages,
                        has_feature_blocks: args.has_feature_blocks != 0,
                    });
                    ring.advance();
                    // Unrolled, the loop would take more registers than a thread that copies has.
                    stage = opaque(stage) + 1;
                }
            }
            warp_barrier();
            // Asked once more, not kept while the stages are copied.
            let group = opaque(work.group);
            let has_former = table.beta(group) != 0.0;
            if S::RAGGED_REDUCTION && args.lends_stages != 0 {
                if elected {
                    lent::lend::<C>(&mut ring, args_address + D_MAP, &work, has_former);
                }
            } else if has_former {
                let (_, tokens) = table.tokens(group);
                let live_rows = if S::RAGGED_REDUCTION { args.m } else { tokens };
                prefetch_former(args, table, &work, C::COLUMNS, live_rows);
            }
            turns.advance(&next, elected);
        }
        if elected {
            ring.empty().wait(ring.parity);
            Task::END.write(ring.task());
            ring.full().arrive();
        }
    }
}
