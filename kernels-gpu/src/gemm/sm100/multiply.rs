//! The warp that multiplies: one of its threads issues the products, in a pair for both blocks.

use core::marker::PhantomData;

use ptx_std::mbarrier::Barrier;
use ptx_std::memory::store_shared_u32x4;
use ptx_std::sync::{elect_one, fence_async_shared, warp_barrier};
use ptx_std::tcgen05::{
    self, Address, Brain, ElementOf, F8f6f4, F16 as Sixteen, Group, Half, Kind, Product, Unscaled,
    Whole, commit, commit_multicast, fence_after,
};
use ptx_std::thread::{WARP, lane_index};

use super::super::element::{Bf16, E4m3, E5m2, F16, MatrixElement};
use super::super::shape::{ROW_BYTES, TILE_M, TILE_N};
use super::ring::{Stages, Sums, Tasks, stage_bytes};
use super::schedule::{Operands, Schedule};

/// An element type of operands, as the instructions name it.
pub trait Multiply: MatrixElement {
    /// The kind of their products.
    type Kind: Unscaled;
    /// Elements of the left operand.
    type A: Whole + ElementOf<Self::Kind>;
    /// Elements of the right operand.
    type B: Whole + ElementOf<Self::Kind>;
}

impl Multiply for Bf16 {
    type Kind = Sixteen;
    type A = Brain;
    type B = Brain;
}

impl Multiply for F16 {
    type Kind = Sixteen;
    type A = Half;
    type B = Half;
}

impl Multiply for E4m3 {
    type Kind = F8f6f4;
    type A = tcgen05::E4m3;
    type B = tcgen05::E4m3;
}

impl Multiply for E5m2 {
    type Kind = F8f6f4;
    type A = tcgen05::E5m2;
    type B = tcgen05::E4m3;
}

/// The product of one step along the reduction.
struct Step<S, E, G>(PhantomData<(S, E, G)>);

impl<S, E, G> Clone for Step<S, E, G> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S, E, G> Copy for Step<S, E, G> {}

impl<S: Operands, E: Multiply, G: Group> Product for Step<S, E, G> {
    type Kind = E::Kind;
    type Group = G;
    type A = S::A<E::A>;
    type B = S::B<E::B>;
    const M: u32 = TILE_M * G::BLOCKS;
    const N: u32 = TILE_N;
}

/// Both blocks of a pair.
const BOTH: u16 = 0b11;

/// Reports that all products issued so far are complete, to this block or to both of a pair.
///
/// # Safety
///
/// As [`commit`] and [`commit_multicast`].
#[inline(always)]
pub unsafe fn report<G: Group>(barrier: Barrier) {
    // SAFETY: handed to the caller.
    unsafe {
        if G::BLOCKS == 1 { commit::<G>(barrier) } else { commit_multicast::<G>(barrier, BOTH) }
    }
}

/// Multiplies what comes through the rings, into the tensor memory at `memory`; if `each_stage`,
/// each stage has sums of its own, else each tile. A warp of the block runs it, in a pair one of
/// the even block.
///
/// # Safety
///
/// As [`run`](super::run).
#[inline(always)]
pub unsafe fn multiply<S: Operands, E: Multiply, G: Group>(
    shared: u32,
    memory: Address,
    each_stage: bool,
) {
    const {
        assert!(S::DEPTH == E::DEPTH, "a stage is one swizzled row deep");
        assert!(S::STEP == <E::Kind as Kind>::DEPTH);
    }
    // SAFETY: the launcher's contract; the whole warp waits together, and one and the same thread
    // issues all products and commits.
    unsafe {
        let elected = elect_one();
        let mut tasks = Tasks::new(shared);
        let mut ring = Stages::<S, G>::new(shared);
        let mut sums = Sums::new(shared);
        while let Some(task) = tasks.next() {
            for stage in 0..task.stages {
                if each_stage || stage == 0 {
                    wait_for_memory::<G>(&sums);
                }
                let d = sums.address(memory);
                let live = live::<S>(stage, task.tokens);
                take::<S, G>(&ring, live);
                if G::BLOCKS == 2 && S::WATCHED {
                    ring.ready().wait_cluster(ring.parity());
                }
                // Before the stage is handed on: behind that its barriers may go through their next
                // phases, and a lane that still waited for this one would wait without end.
                warp_barrier();
                if elected {
                    let (a, b) = (S::a::<E::A>(ring.stage()), S::b::<E::B>(ring.stage()));
                    for step in 0..live.div_ceil(S::STEP) {
                        let accumulate = step != 0 || !each_stage && stage != 0;
                        let (a, b) = (a.steps(step), b.steps(step));
                        tcgen05::multiply::<Step<S, E, G>>(d, a, b, accumulate);
                    }
                    report::<G>(ring.empty());
                }
                ring.advance();
                if each_stage || stage + 1 == task.stages {
                    if elected {
                        report::<G>(sums.full());
                    }
                    sums.advance();
                }
            }
        }
    }
}

/// Waits until the sums' place may be overwritten.
#[inline(always)]
unsafe fn wait_for_memory<G: Group>(sums: &Sums) {
    // SAFETY: in `multiply`; of the phase before the first, nobody waits for the end.
    unsafe { wait_for_readers::<G>(sums.empty(), sums.parity() ^ 1) };
    fence_after();
}

/// Waits until the warps that finish tiles, in a pair those of both blocks, have said what
/// `barrier` stands for.
///
/// # Safety
///
/// As [`Barrier::wait`].
#[inline(always)]
pub unsafe fn wait_for_readers<G: Group>(barrier: Barrier, parity: u32) {
    // SAFETY: handed to the caller.
    unsafe {
        if G::BLOCKS == 1 {
            barrier.wait(parity);
        } else {
            barrier.wait_cluster(parity);
        }
    }
}

/// Makes the odd block's stages ready and tells the even block, whose thread multiplies. A warp of
/// the odd block runs it.
///
/// # Safety
///
/// As [`run`](super::run).
#[inline(always)]
pub unsafe fn make_ready<S: Schedule, G: Group>(shared: u32) {
    // SAFETY: the launcher's contract; the even block ends after this one's tasks.
    unsafe {
        let mut tasks = Tasks::new(shared);
        let mut ring = Stages::<S, G>::new(shared);
        while let Some(task) = tasks.next() {
            for stage in 0..task.stages {
                take::<S, G>(&ring, live::<S>(stage, task.tokens));
                // As in `multiply`.
                warp_barrier();
                if lane_index() == 0 {
                    ring.ready().of_block(0).arrive();
                }
                ring.advance();
            }
        }
    }
}

/// Reduction indices of a stage that count: all, but in the last of a group whose rows end in it.
#[inline(always)]
fn live<S: Schedule>(stage: u32, tokens: u32) -> u32 {
    if S::CLEARS { S::DEPTH.min(tokens - stage * S::DEPTH) } else { S::DEPTH }
}

/// Waits for a stage, of which `live` reduction indices count, and clears the others as far as
/// products read them.
///
/// # Safety
///
/// The whole warp that waits for the block's stages calls it together.
#[inline(always)]
pub unsafe fn take<S: Schedule, G: Group>(ring: &Stages<S, G>, live: u32) {
    // SAFETY: handed to the caller.
    unsafe {
        ring.full().wait(ring.parity());
        if S::CLEARS && live < S::DEPTH {
            clear_rows_from::<S, G>(ring.stage(), live);
        }
    }
}

/// Clears the tokens from `live` on in all boxes of a stage, up to a multiple of the depth of a
/// product: they belong to the next group or to nobody, and may be NaN, so clearing one operand
/// would not do. The warp calls it together.
///
/// The swizzle permutes 16-byte chunks inside a row, and a token is a row in every box.
#[inline(always)]
unsafe fn clear_rows_from<S: Schedule, G: Group>(stage: u32, live: u32) {
    let end = live.next_multiple_of(S::STEP) * ROW_BYTES;
    // SAFETY: the stage is full; the products that read it come after the fence and after the warp
    // has met.
    unsafe {
        let mut block = stage;
        while block < stage + stage_bytes::<G>() {
            let mut offset = live * ROW_BYTES + 16 * lane_index();
            while offset < end {
                store_shared_u32x4(block + offset, [0; 4]);
                offset += 16 * WARP;
            }
            block += S::DEPTH * ROW_BYTES;
        }
        fence_async_shared();
    }
}
