//! The Hopper main loop: tensor copies feed a ring of stages, two warpgroups multiply from it.
//!
//! A block of three warpgroups makes tiles of 128 × 256, 64 reduction indices at a time:
//!
//! ```text
//!   warpgroup 0          shared memory, 4 stages of 48 KiB           warpgroups 1, 2
//!   one thread ──TMA──▶  [A 16 KiB | B 32 KiB] [ … ] [ … ] [ … ] ──wgmma──▶ 64 × 256 sums each
//!        ▲                        full[s]: bytes landed ──────────────▶  │
//!        └──────────────────────  empty[s]: both have finished reading ◀─┘
//! ```
//!
//! The passes differ in how their operands lie in memory, and so in the boxes that are copied and
//! in the descriptors that name them. That difference is the trait `Schedule`; everything else is
//! written once. All boxes have inner rows of 128 bytes, swizzled:
//!
//! | pass | A: 128 rows of the tile | B: 256 columns of the tile |
//! | --- | --- | --- |
//! | fprop | X, one box (64 of K, 128 tokens), K-major | W, one box (64 of K, 256 of N), K-major |
//! | dgrad | dY, one box (64 of N, 128 tokens), K-major | W, four boxes (64 of K, 64 of N), MN-major |
//! | wgrad | dY, two boxes (64 of N, 64 tokens), MN-major | X, four boxes (64 of K, 64 tokens), MN-major |
//!
//! Boxes that hang over the edge of a tensor are filled with zeros. Boxes that hang over the end of
//! a group hold the next group's rows: of the output (fprop, dgrad) they are not stored, of the
//! reduction (wgrad) they are cleared in shared memory before they are multiplied.

use ptx_std::mbarrier::Barrier;
use ptx_std::memory::{shared_base, store_shared_u32x4};
use ptx_std::sync::{
    block_barrier, claim_registers, elect_one, fence_async_shared, fence_mbarrier_init,
    named_barrier, release_registers, warp_barrier,
};
use ptx_std::thread::{WARP, lane_index, thread_index, warp_index};
use ptx_std::tma::{prefetch_l2, prefetch_map};
use ptx_std::wgmma::{finish_n256, wait};

use self::schedule::{Copies, Schedule};

use super::element::{Kind, TensorElement};
use super::epilogue::{CHUNK, Chunk, Epilogue, Former, Row, SLAB};
use super::scheduler::{Scheduler, Work};
use crate::abi::{GemmArgs, TensorMap};
use crate::table::Table;

pub mod schedule;

/// Rows of a tile.
pub const TILE_M: u32 = 128;
/// Columns of a tile.
pub const TILE_N: u32 = 256;
/// Reduction indices of a stage.
pub const DEPTH: u32 = 64;
/// Stages of the ring.
const STAGES: u32 = 4;

/// Bytes of a swizzled row of a box: 64 elements.
const ROW_BYTES: u32 = 128;
/// Bytes of a box of 64 rows.
const BLOCK_BYTES: u32 = 64 * ROW_BYTES;
/// Bytes of the left operand in a stage.
const A_BYTES: u32 = TILE_M * DEPTH * 2;
/// Bytes of the right operand in a stage.
const B_BYTES: u32 = TILE_N * DEPTH * 2;
/// Bytes of a stage.
const STAGE_BYTES: u32 = A_BYTES + B_BYTES;
/// Where the barriers stand, behind the stages.
const BARRIERS: u32 = STAGES * STAGE_BYTES;
/// Dynamic shared memory of the kernels; the table of kernels rounds it up to 128.
pub const SHARED_BYTES: u32 = BARRIERS + 2 * STAGES * Barrier::BYTES;

/// Threads of a warpgroup.
pub const WARPGROUP: u32 = 128;
/// Warpgroups that multiply.
pub const CONSUMERS: u32 = 2;
/// Warps that multiply; each reports when it has finished with a stage.
const CONSUMER_WARPS: u32 = CONSUMERS * WARPGROUP / 32;
/// Registers of a thread that copies.
const PRODUCER_REGISTERS: u32 = 40;
/// Registers of a thread that multiplies.
const CONSUMER_REGISTERS: u32 = 232;
/// The named barrier of the threads that multiply.
const CONSUMER_BARRIER: u32 = 1;

const _: () = assert!(STAGE_BYTES.is_multiple_of(1024), "swizzled tiles start at 1024 bytes");
const _: () = assert!(
    WARPGROUP * (PRODUCER_REGISTERS + CONSUMERS * CONSUMER_REGISTERS) <= 65_536,
    "the register file of a multiprocessor"
);

/// A position in the ring and the parity to wait for there.
struct Ring {
    shared: u32,
    slot: u32,
    parity: u32,
}

impl Ring {
    #[inline(always)]
    fn stage(&self) -> u32 {
        self.shared + self.slot * STAGE_BYTES
    }

    #[inline(always)]
    fn full(&self) -> Barrier {
        Barrier { address: self.shared + BARRIERS + self.slot * Barrier::BYTES }
    }

    #[inline(always)]
    fn empty(&self) -> Barrier {
        Barrier { address: self.full().address + STAGES * Barrier::BYTES }
    }

    #[inline(always)]
    fn advance(&mut self) {
        self.slot += 1;
        if self.slot == STAGES {
            self.slot = 0;
            self.parity ^= 1;
        }
    }
}

/// The kernel.
///
/// # Safety
///
/// Blocks of 384 threads with [`SHARED_BYTES`] of dynamic shared memory; `args_address` is the
/// generic address of `args` in parameter memory, aligned to 64 bytes; the maps have the boxes of
/// the table above, 128-byte swizzle and zero fill; the other addresses are valid for what their
/// fields describe.
#[inline(always)]
pub unsafe fn run<S: Schedule, E: TensorElement>(args: &GemmArgs, args_address: u64) {
    const { assert!(E::BYTES == 2, "a row of 128 bytes is 64 elements") };
    // SAFETY: the launcher keeps the contract above. Every warp belongs to one role, roles part at
    // warpgroup borders, and no barrier of the whole block follows the first.
    unsafe {
        let shared = shared_base();
        let warp = warp_index();
        let table = Table::new(args.table, args.groups);

        // Prepare the barriers.
        if thread_index() == 0 {
            prefetch_map(args_address + A_MAP);
            if args.b_maps == 0 {
                prefetch_map(args_address + B_MAP);
            }
            let mut ring = Ring { shared, slot: 0, parity: 0 };
            for _ in 0..STAGES {
                ring.full().init(1);
                ring.empty().init(CONSUMER_WARPS);
                ring.advance();
            }
            fence_mbarrier_init();
        }
        block_barrier();

        // Part into roles.
        if warp < WARPGROUP / 32 {
            release_registers::<PRODUCER_REGISTERS>();
            if warp == 0 {
                produce::<S>(args, args_address, &table, shared);
            }
        } else {
            claim_registers::<CONSUMER_REGISTERS>();
            consume::<S, E>(args, &table, shared, warp / 4 - 1);
        }
    }
}

/// Offset of the left operand's map in the argument.
const A_MAP: u64 = core::mem::offset_of!(GemmArgs, a_map) as u64;
/// Offset of the right operand's map in the argument.
const B_MAP: u64 = core::mem::offset_of!(GemmArgs, b_map) as u64;

const _: () = assert!(A_MAP.is_multiple_of(64) && B_MAP.is_multiple_of(64));

/// Stages of a product.
#[inline(always)]
fn stages<S: Schedule>(args: &GemmArgs, rows: u32) -> u32 {
    if S::RAGGED_REDUCTION { rows.div_ceil(DEPTH) } else { args.k.div_ceil(DEPTH) }
}

/// Feeds the ring. One warp runs it, one of its lanes copies.
///
/// It may return while copies are on their way: the consumers wait for each of them, and shared
/// memory lives as long as they do.
#[inline(always)]
unsafe fn produce<S: Schedule>(args: &GemmArgs, args_address: u64, table: &Table, shared: u32) {
    // SAFETY: the launcher's contract; the whole warp walks the tiles together, and the ring's
    // barriers say when a stage is free.
    unsafe {
        let elected = elect_one();
        let mut ring = Ring { shared, slot: 0, parity: 1 };
        let mut scheduler = Scheduler::new(*table, tile_columns(args));
        while let Some(work) = scheduler.next::<TILE_M, TILE_N>() {
            let token = table.row_offset(work.group);
            let rows = table.row_offset(work.group + 1) - token;
            let stages = stages::<S>(args, rows as u32);
            let (b_map, b_group) = if args.b_maps == 0 {
                (args_address + B_MAP, work.group)
            } else {
                (args.b_maps + u64::from(work.group) * size_of::<TensorMap>() as u64, 0)
            };
            if elected {
                for stage in 0..stages {
                    ring.empty().wait(ring.parity);
                    ring.full().arrive_expect(STAGE_BYTES);
                    S::copy(&Copies {
                        stage: ring.stage(),
                        full: ring.full(),
                        a_map: args_address + A_MAP,
                        b_map,
                        b_group,
                        token: token as u32,
                        row: work.row,
                        column: work.column,
                        reduction: stage * DEPTH,
                    });
                    ring.advance();
                }
            }
            warp_barrier();
            if table.beta(work.group) != 0.0 {
                let live_rows = if S::RAGGED_REDUCTION { args.m } else { rows as u32 };
                prefetch_former(args, table, &work, live_rows);
            }
        }
    }
}

/// Brings the former output of a tile into L2, while its last stages are multiplied. The warp's
/// lanes take a row each in turn.
#[inline(always)]
unsafe fn prefetch_former(args: &GemmArgs, table: &Table, work: &Work, live_rows: u32) {
    let element = Kind(args.d_type).bytes();
    let bytes = TILE_N.min(args.n - work.column) * element as u32;
    let end = live_rows.min(work.row + TILE_M);
    let mut row = work.row + lane_index();
    // SAFETY: only live elements of the output are named; its rows are multiples of 16 bytes.
    unsafe {
        let d = table.d_pointer(work.group);
        while row < end {
            let index = u64::from(row) * u64::from(args.n) + u64::from(work.column);
            prefetch_l2(d + index * element, bytes);
            row += WARP;
        }
    }
}

/// Multiplies what comes through the ring. A warpgroup runs it, `index` 0 or 1 for the upper or
/// lower half of the tile's rows.
#[inline(always)]
unsafe fn consume<S: Schedule, E: TensorElement>(
    args: &GemmArgs,
    table: &Table,
    shared: u32,
    index: u32,
) {
    // SAFETY: the launcher's contract; all warps of the warpgroup get the same tiles and stages and
    // stay together at every product and barrier. Sums are touched only after `finish_n256`.
    unsafe {
        let lane = lane_index();
        let mut ring = Ring { shared, slot: 0, parity: 0 };
        let mut scheduler = Scheduler::new(*table, tile_columns(args));
        while let Some(work) = scheduler.next::<TILE_M, TILE_N>() {
            let rows = (table.row_offset(work.group + 1) - table.row_offset(work.group)) as u32;
            let stages = stages::<S>(args, rows);

            // Multiply, one group of products in flight: while it runs, wait for the next stage;
            // when the next is issued, wait for this one and give its stage back.
            let mut previous = ring.empty();
            let mut sums: [f32; 128] = core::mem::zeroed();
            for stage in 0..stages {
                ring.full().wait(ring.parity);
                if S::RAGGED_REDUCTION && rows - stage * DEPTH < DEPTH {
                    clear_rows_from(ring.stage(), rows - stage * DEPTH);
                }
                let a = S::a(ring.stage(), index);
                let b = S::b(ring.stage());
                E::multiply(&mut sums, a, b, stage != 0);
                if stage != 0 {
                    wait::<1>();
                    if lane == 0 {
                        previous.arrive();
                    }
                }
                previous = ring.empty();
                ring.advance();
            }

            // Prepare the epilogue while the last products run.
            let live_rows = if S::RAGGED_REDUCTION { args.m } else { rows };
            let epilogue = Epilogue::new(args, table, work.group);
            let rows = half_rows(&epilogue, work.row + 64 * index, live_rows, lane);
            let former = epilogue.load_former(lane, &rows, work.column);
            finish_n256(&mut sums);
            if stages != 0 && lane == 0 {
                previous.arrive();
            }

            // Finish the tile.
            if epilogue.is_plain() && epilogue.kind().0 == E::KIND {
                store_plain::<E>(&epilogue, lane, &rows, work.column, &sums);
            } else {
                store(&epilogue, lane, &rows, work.column, former, sums);
            }
        }
    }
}

/// Tile columns of the output.
#[inline(always)]
fn tile_columns(args: &GemmArgs) -> u32 {
    args.n.div_ceil(TILE_N)
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

/// The two rows that a lane has sums of, in the half of a tile that begins at `first_row`.
#[inline(always)]
unsafe fn half_rows(epilogue: &Epilogue, first_row: u32, live_rows: u32, lane: u32) -> [Row; 2] {
    let row = first_row + 16 * (thread_index() % WARPGROUP / 32) + lane / 4;
    // SAFETY: the output has `live_rows`.
    unsafe { [epilogue.row(row, live_rows), epilogue.row(row + 8, live_rows)] }
}

/// Stores a half whose output is plain and of the operands' kind.
#[inline(always)]
unsafe fn store_plain<E: TensorElement>(
    epilogue: &Epilogue,
    lane: u32,
    rows: &[Row; 2],
    column: u32,
    sums: &[f32; 128],
) {
    // SAFETY: the whole warp comes here, and the tile's elements belong to its lanes as the
    // fragment layout of wgmma says.
    unsafe {
        store_plain_slab::<E, 0>(epilogue, lane, rows, column, sums);
        store_plain_slab::<E, 1>(epilogue, lane, rows, column, sums);
        store_plain_slab::<E, 2>(epilogue, lane, rows, column, sums);
        store_plain_slab::<E, 3>(epilogue, lane, rows, column, sums);
        store_plain_slab::<E, 4>(epilogue, lane, rows, column, sums);
        store_plain_slab::<E, 5>(epilogue, lane, rows, column, sums);
        store_plain_slab::<E, 6>(epilogue, lane, rows, column, sums);
        store_plain_slab::<E, 7>(epilogue, lane, rows, column, sums);
    }
}

/// Stores slab `INDEX`: four fragments of four sums, two for the upper row and two for the lower.
#[inline(always)]
unsafe fn store_plain_slab<E: TensorElement, const INDEX: usize>(
    epilogue: &Epilogue,
    lane: u32,
    [upper, lower]: &[Row; 2],
    tile_column: u32,
    sums: &[f32; 128],
) {
    let column = tile_column + INDEX as u32 * SLAB;
    if column >= epilogue.n {
        return;
    }
    let i = 16 * INDEX;
    let fragments = |i: usize| {
        [
            [sums[i], sums[i + 1]],
            [sums[i + 4], sums[i + 5]],
            [sums[i + 8], sums[i + 9]],
            [sums[i + 12], sums[i + 13]],
        ]
    };
    // SAFETY: as in `store_plain`.
    unsafe {
        E::store_plain_slab(epilogue, lane, upper, column, fragments(i));
        E::store_plain_slab(epilogue, lane, lower, column, fragments(i + 2));
    }
}

/// Stores a half, whatever its output.
///
/// Registers have no index at run time, so each turn of the loop stores the first chunk and moves
/// the others up. That is one copy of the code, for some hundred moves in all.
#[inline(always)]
unsafe fn store(
    epilogue: &Epilogue,
    lane: u32,
    rows: &[Row; 2],
    first_column: u32,
    first_former: Former,
    sums: [f32; 128],
) {
    // SAFETY: the arrays have the same elements. The whole warp comes here, and the tile's elements
    // belong to its lanes as the fragment layout of wgmma says.
    unsafe {
        let mut chunks: [Chunk; (TILE_N / CHUNK) as usize] = core::mem::transmute(sums);
        let mut column = first_column;
        let end = epilogue.n.min(column + TILE_N);
        let mut former = first_former;
        while column < end {
            let next = if column + CHUNK < end { column + CHUNK } else { epilogue.n };
            let [first, second, third, fourth] = chunks;
            former = epilogue.store_chunk(lane, rows, column, &first, &former, next);
            chunks = [second, third, fourth, fourth];
            column += CHUNK;
        }
    }
}
