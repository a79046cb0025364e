//! The Blackwell main loop: tensor copies feed a ring of stages, one thread multiplies from it into
//! tensor memory, two warpgroups finish tiles from there.
//!
//! ```text
//!   warp 0          shared memory      warp 1          tensor memory         warps 4–11
//!   one thread ─▶  [A|B] [A|B] [A|B] … ─▶  one thread ─▶  [tile] [tile] ─▶  32 × 128 sums each
//!      ▲   TMA      full[s]: landed          │   ▲   mma    sums full    ld   │
//!      └────────── empty[s]: multiplied ◀────┘   └─────── sums empty ◀────────┘
//! ```
//!
//! A block alone makes tiles of 128 × 256, with four stages of 48 KiB. A *pair* of blocks, a
//! cluster of two, makes tiles of 256 × 256: each has 128 of the rows and half of the columns'
//! operand in its shared memory, six stages of 32 KiB, and its 128 rows of the sums in its tensor
//! memory; the even block's thread multiplies for both. Tensor memory holds the sums of two tiles,
//! so one is finished while the next is multiplied.
//!
//! The warp that copies also walks the tiles ([`Scheduler`]) and tells the others ([`Task`]).
//! Warp 2 allocates the tensor memory. What becomes of a sum is [`epilogue`](super::epilogue)'s and
//! [`staging`]'s, as on Hopper: the loads give each thread the elements that wgmma
//! gives it.
//!
//! The boxes of the passes are those of [`sm90`](super::sm90), but that no box has more than 128
//! rows. Of a ragged reduction, rows beyond the group are not multiplied, and those in the same
//! step as its last row are cleared in shared memory before.

use core::marker::PhantomData;

use ptx_std::cluster::block_rank;
use ptx_std::hint::opaque;
use ptx_std::memory::shared_base;
use ptx_std::sync::{
    block_barrier, claim_registers, cluster_arrive, cluster_wait, elect_one, fence_mbarrier_init,
    release_registers, warp_barrier,
};
use ptx_std::tcgen05::{Address, Columns, Group, allocate, allocated, release, relinquish};
use ptx_std::thread::{block_index, grid_blocks, thread_index, warp_index};
use ptx_std::tma::{acquire_map, prefetch_map};

use self::blocks::{MxOperands, finish_with_seam, multiply_blocks};
use self::finish::finish;
use self::multiply::{Multiply, make_ready, multiply};
use self::promote::promote;
use self::ring::{Stages, Sums, TENSOR_MEMORY, Tasks, stage_bytes};
use self::schedule::{Copies, GroupOfBlocks, Operands, Schedule};
use super::former::prefetch_former;
use super::product::Scaled;
use super::scales::Tensor;
use super::scheduler::{Scheduler, Work};
use super::shape::{
    A_MAP, B_MAP, CONSUMER_WARPS, CONSUMERS, D_MAP, REGISTERS, TILE_M, TILE_N, WARPGROUP,
};
use super::task::Task;
use crate::abi::scaled::{MxGemmArgs, ScaledGemmArgs};
use crate::abi::{GemmArgs, TensorMap};
use crate::table::Table;

pub mod blocks;
mod finish;
mod multiply;
mod promote;
pub mod ring;
mod schedule;
mod staging;

/// All columns of tensor memory, whether for the sums of two tiles or, with a seam in them, for
/// block scales, too.
const ALL: Columns = Columns::C512;

const _: () = assert!(Sums::ALL_COLUMNS == ALL.count());

/// What the warps that finish tiles do with the sums.
trait Road<G: Group> {
    /// The kernel's argument.
    type Args;
    /// How the operands lie.
    type Schedule: Schedule;
    /// Whether each stage has sums of its own, which they promote; else each tile.
    const PROMOTES: bool = false;
    /// Whether the sums of two tiles have a [`SEAM`](ring::SEAM).
    const HAS_SEAM: bool = false;

    /// The common part of the argument.
    fn gemm(args: &Self::Args) -> &GemmArgs;

    /// Multiplies what comes through the rings, into the tensor memory at `memory`. A warp of the
    /// block runs it, in a pair one of the even block.
    ///
    /// # Safety
    ///
    /// As [`run`].
    unsafe fn multiply(args: &Self::Args, shared: u32, memory: Address);

    /// Finishes the tiles of this block, from the tensor memory at `memory`. A warpgroup runs it,
    /// `index` 0 or 1. `d_map` is the generic address of the output's map.
    ///
    /// # Safety
    ///
    /// As [`run`].
    unsafe fn finish(
        args: &Self::Args,
        d_map: u64,
        table: &Table,
        shared: u32,
        memory: Address,
        index: u32,
    );
}

/// Sums stay in tensor memory until a tile is done.
struct Stay<S, E>(PhantomData<(S, E)>);

impl<S: Operands, E: Multiply, G: Group> Road<G> for Stay<S, E> {
    type Args = GemmArgs;
    type Schedule = S;

    #[inline(always)]
    fn gemm(args: &GemmArgs) -> &GemmArgs {
        args
    }

    #[inline(always)]
    unsafe fn multiply(_: &GemmArgs, shared: u32, memory: Address) {
        // SAFETY: handed to the caller.
        unsafe { multiply::<S, E, G>(shared, memory, false) }
    }

    #[inline(always)]
    unsafe fn finish(
        args: &GemmArgs,
        d_map: u64,
        table: &Table,
        shared: u32,
        memory: Address,
        index: u32,
    ) {
        // SAFETY: handed to the caller.
        unsafe { finish::<S, E, G>(args, d_map, table, shared, memory, index) }
    }
}

/// Sums leave tensor memory after every stage.
struct Leave<S, E>(PhantomData<(S, E)>);

impl<S: Operands + Scaled, E: Multiply, G: Group> Road<G> for Leave<S, E> {
    type Args = ScaledGemmArgs;
    type Schedule = S;
    const PROMOTES: bool = true;

    #[inline(always)]
    fn gemm(args: &ScaledGemmArgs) -> &GemmArgs {
        &args.gemm
    }

    #[inline(always)]
    unsafe fn multiply(_: &ScaledGemmArgs, shared: u32, memory: Address) {
        // SAFETY: handed to the caller.
        unsafe { multiply::<S, E, G>(shared, memory, true) }
    }

    #[inline(always)]
    unsafe fn finish(
        args: &ScaledGemmArgs,
        d_map: u64,
        _: &Table,
        shared: u32,
        memory: Address,
        index: u32,
    ) {
        // SAFETY: handed to the caller.
        unsafe { promote::<S, E, G>(args, d_map, shared, memory, index) }
    }
}

/// Products apply the scales of blocks, which stand in tensor memory, too.
struct Blocks<S>(PhantomData<S>);

impl<S: MxOperands, G: Group> Road<G> for Blocks<S> {
    type Args = MxGemmArgs;
    type Schedule = S;
    const HAS_SEAM: bool = true;

    #[inline(always)]
    fn gemm(args: &MxGemmArgs) -> &GemmArgs {
        &args.gemm
    }

    #[inline(always)]
    unsafe fn multiply(args: &MxGemmArgs, shared: u32, memory: Address) {
        // SAFETY: handed to the caller.
        unsafe { multiply_blocks::<S, G>(args, shared, memory) }
    }

    #[inline(always)]
    unsafe fn finish(
        args: &MxGemmArgs,
        d_map: u64,
        table: &Table,
        shared: u32,
        memory: Address,
        index: u32,
    ) {
        // SAFETY: handed to the caller.
        unsafe { finish_with_seam::<S, G>(&args.gemm, d_map, table, shared, memory, index) }
    }
}

/// The kernel that leaves its sums in tensor memory until a tile is done.
///
/// # Safety
///
/// Blocks of 384 threads with the dynamic shared memory of [`Rooms`](ring::Rooms), in clusters of
/// `G::BLOCKS`; `args_address` is the generic address of `args` in parameter memory, aligned to 64
/// bytes; the maps have the boxes of the table of [`sm90`](super::sm90), of at most 128 rows, with
/// 128-byte swizzle and zero fill; the other addresses are valid for what their fields describe.
#[inline(always)]
pub unsafe fn run<S: Operands, E: Multiply, G: Group>(args: &GemmArgs, args_address: u64) {
    // SAFETY: handed to the caller.
    unsafe { part::<Stay<S, E>, G, REGISTERS, REGISTERS>(args, args_address) }
}

/// The same of FP8 operands with one scale for each group, which is in the table's alpha.
///
/// # Safety
///
/// As [`run`]; `args_address` is the address of the whole argument. The weights have one map.
#[inline(always)]
pub unsafe fn run_tensor<S, E, G>(args: &ScaledGemmArgs, args_address: u64)
where
    S: Operands + Scaled<AScales = Tensor, BScales = Tensor>,
    E: Multiply,
    G: Group,
{
    // SAFETY: handed to the caller.
    unsafe { run::<S, E, G>(&args.gemm, args_address) }
}

/// The kernel that takes its sums from tensor memory after every stage, scales them and adds them
/// up in binary32.
///
/// # Safety
///
/// As [`run_tensor`]. The scales of the weights lie in one piece, too.
#[inline(always)]
pub unsafe fn run_promoted<S, E, G>(args: &ScaledGemmArgs, args_address: u64)
where
    S: Operands + Scaled,
    E: Multiply,
    G: Group,
{
    // SAFETY: handed to the caller.
    unsafe { part::<Leave<S, E>, G, 40, 232>(args, args_address) }
}

/// The kernel of codes in MXFP8 or NVFP4, whose tensor cores apply the scales of blocks. Scales of
/// groups are in the table's alpha, those of rows are the argument's.
///
/// # Safety
///
/// As [`run`]; `args_address` is the address of the whole argument. The weights have one map, and
/// the maps of the scales are as [`MxGemmArgs`] says.
#[inline(always)]
pub unsafe fn run_blocks<S: MxOperands, G: Group>(args: &MxGemmArgs, args_address: u64) {
    // SAFETY: handed to the caller.
    unsafe { part::<Blocks<S>, G, 72, 216>(args, args_address) }
}

/// Prepares the block and parts it into roles: the first warpgroup copies and multiplies, the
/// others finish tiles, with these registers for each of their threads.
///
/// # Safety
///
/// As [`run`]; the argument is that of the road, its common part first.
#[inline(always)]
unsafe fn part<R: Road<G>, G: Group, const COPYING: u32, const FINISHING: u32>(
    args: &R::Args,
    args_address: u64,
) {
    const {
        assert!(COPYING + CONSUMERS * FINISHING <= (1 + CONSUMERS) * REGISTERS);
        assert!(!R::PROMOTES || R::Schedule::SCALE_BYTES != 0, "who promotes sees its stages");
    }
    // SAFETY: the launcher keeps the contract above. Every warp belongs to one role; barriers of
    // all stand before and behind the roles only.
    unsafe {
        let gemm = R::gemm(args);
        let shared = shared_base();
        let warp = warp_index();
        let rank = rank::<G>();
        let table = Table::new(gemm.table, gemm.groups);

        // Prepare barriers and tensor memory.
        if thread_index() == 0 {
            prefetch_map(args_address + A_MAP);
            if gemm.b_maps == 0 {
                prefetch_map(args_address + B_MAP);
            }
            R::Schedule::prefetch_scale_maps(args_address);
            let stage_readers = if R::PROMOTES { CONSUMER_WARPS } else { 0 };
            let multiplies = rank == 0 || R::Schedule::WATCHED;
            let task_readers = CONSUMER_WARPS + u32::from(multiplies);
            ring::init::<R::Schedule, G>(shared, stage_readers, task_readers, R::HAS_SEAM);
            fence_mbarrier_init();
        }
        if warp == 2 {
            allocate::<G>(shared + TENSOR_MEMORY, ALL);
            relinquish::<G>();
        }
        meet::<G>();
        let memory = allocated(shared + TENSOR_MEMORY);

        // Part into roles.
        if warp < WARPGROUP / 32 {
            if COPYING != REGISTERS {
                release_registers::<COPYING>();
            }
            if warp == 0 {
                produce::<R::Schedule, G>(gemm, args_address, &table, shared, rank);
            } else if warp == 1 {
                if rank == 0 {
                    R::multiply(args, shared, memory);
                } else if R::Schedule::WATCHED {
                    make_ready::<R::Schedule, G>(shared);
                }
            }
        } else {
            if FINISHING != REGISTERS {
                claim_registers::<FINISHING>();
            }
            R::finish(args, args_address + D_MAP, &table, shared, memory, warp / 4 - 1);
        }

        // End together: the others' barriers and tensor memory are in use until here.
        meet::<G>();
        if warp == 2 {
            release::<G>(memory, ALL);
        }
    }
}

/// Which block of a pair this is; 0 alone.
#[inline(always)]
fn rank<G: Group>() -> u32 {
    if G::BLOCKS == 1 { 0 } else { block_rank() }
}

/// Meets all threads of the group.
#[inline(always)]
unsafe fn meet<G: Group>() {
    // SAFETY: all threads of the group call it.
    unsafe {
        if G::BLOCKS == 1 {
            block_barrier();
        } else {
            cluster_arrive();
            cluster_wait();
        }
    }
}

/// Feeds the rings with tasks and stages. One warp runs it, one of its lanes copies.
#[inline(always)]
unsafe fn produce<S: Schedule, G: Group>(
    args: &GemmArgs,
    args_address: u64,
    table: &Table,
    shared: u32,
    rank: u32,
) {
    // The even block of a pair counts the bytes of both, unless each has to look at its own first.
    let together = G::BLOCKS == 2 && !S::WATCHED;
    // SAFETY: the launcher's contract; the whole warp walks the tiles together, and the rings'
    // barriers say when a place is free.
    unsafe {
        let elected = elect_one();
        let mut tasks = Tasks::new(shared);
        let mut ring = Stages::<S, G>::new(shared);
        let columns = args.n.div_ceil(TILE_N);
        let mut scheduler = Scheduler::new(*table, columns, S::RAGGED_REDUCTION);
        let mut tile = block_index() / G::BLOCKS;
        while let Some(work) = place::<G>(&mut scheduler, tile) {
            tile += grid_blocks() / G::BLOCKS;
            let work = Work { row: work.row + TILE_M * rank, ..work };
            let (token, tokens) = table.tokens(work.group);
            let token = if S::PADDED { table.padded_offset(work.group) as u32 } else { token };
            let reduction = if S::RAGGED_REDUCTION { tokens } else { args.k };
            let stages = reduction.div_ceil(S::DEPTH);
            let (b_map, b_group) = if args.b_maps == 0 {
                (args_address + B_MAP, work.group)
            } else {
                (args.b_maps + u64::from(work.group) * size_of::<TensorMap>() as u64, 0)
            };
            let padded_offset =
                if S::HAS_BLOCKS { table.padded_offset(work.group) as u64 } else { 0 };
            if elected {
                if args.b_maps != 0 {
                    acquire_map(b_map);
                }
                tasks.push(&Task { work, stages, token, tokens });
                for stage in 0..stages {
                    ring.wait_empty();
                    let full = ring.full();
                    let bytes = stage_bytes::<G>() + S::SCALE_BYTES;
                    if !together {
                        full.arrive_expect(bytes);
                    } else if rank == 0 {
                        full.arrive_expect(G::BLOCKS * bytes);
                    }
                    S::copy::<G>(&Copies {
                        stage: ring.stage(),
                        scales: ring.scales(),
                        args: args_address,
                        full: if together { full.of_block(0) } else { full.in_cluster() },
                        together,
                        a_map: args_address + A_MAP,
                        b_map,
                        b_group,
                        token,
                        row: work.row,
                        tile_column: work.column,
                        column: work.column + TILE_N / G::BLOCKS * rank,
                        reduction: stage * S::DEPTH,
                        stages,
                        group: GroupOfBlocks {
                            index: work.group,
                            padded_offset,
                            tokens,
                            m: args.m,
                            n: args.n,
                            k: args.k,
                        },
                    });
                    ring.advance();
                }
            }
            warp_barrier();
            if table.beta(work.group) != 0.0 {
                let (_, tokens) = table.tokens(opaque(work.group));
                let live_rows = if S::RAGGED_REDUCTION { args.m } else { tokens };
                prefetch_former(args, table, &work, TILE_N, live_rows);
            }
        }
        if elected {
            tasks.push(&Task::END);
            ring.drain();
        }
        warp_barrier();
    }
}

/// Where the group's tile is.
#[inline(always)]
unsafe fn place<G: Group>(scheduler: &mut Scheduler, tile: u32) -> Option<Work> {
    // SAFETY: the whole warp calls it together.
    unsafe {
        if G::BLOCKS == 1 {
            scheduler.place([TILE_M, TILE_N], tile)
        } else {
            scheduler.place([2 * TILE_M, TILE_N], tile)
        }
    }
}
