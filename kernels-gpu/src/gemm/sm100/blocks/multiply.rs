//! The warp that multiplies codes: one of its threads has the scales copied and issues the
//! products, in a pair for both blocks.

use core::marker::PhantomData;

use ptx_std::sync::{elect_one, warp_barrier};
use ptx_std::tcgen05::{
    Address, BlockScaled, CopySource, Group, Product, commit, copy_32x128b_warpx4, fence_after,
    multiply_scaled,
};

use super::super::super::shape::{TILE_M, TILE_N};
use super::super::multiply::{report, take, wait_for_readers};
use super::super::ring::{Slots, Stages, Sums, Tasks};
use super::MxOperands;
use crate::abi::mx::{SCALE_TILE_BLOCKS, SCALE_TILE_BYTES};
use crate::abi::scaled::MxGemmArgs;

/// The product of one step along the reduction.
struct Step<S, G>(PhantomData<(S, G)>);

impl<S, G> Clone for Step<S, G> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S, G> Copy for Step<S, G> {}

impl<S: MxOperands, G: Group> Product for Step<S, G> {
    type Kind = S::Kind;
    type Group = G;
    type A = S::A;
    type B = S::B;
    const M: u32 = TILE_M * G::BLOCKS;
    const N: u32 = TILE_N;
}

/// Multiplies what comes through the rings, into the tensor memory at `memory`. A warp of the block
/// runs it, in a pair one of the even block.
///
/// # Safety
///
/// As [`run_blocks`](super::super::run_blocks).
#[inline(always)]
pub unsafe fn multiply_blocks<S: MxOperands, G: Group>(
    args: &MxGemmArgs,
    shared: u32,
    memory: Address,
) {
    let e5m2 = [args.a_e5m2 != 0, args.b_e5m2 != 0];
    // SAFETY: the launcher's contract; the whole warp waits together, and one and the same thread
    // issues all copies, products and commits.
    unsafe {
        let elected = elect_one();
        let mut tasks = Tasks::new(shared);
        let mut ring = Stages::<S, G>::new(shared);
        let mut sums = Sums::with_seam(shared);
        let mut slots = Slots::new(shared);
        while let Some(task) = tasks.next() {
            let reduction = if S::RAGGED_REDUCTION { task.tokens } else { args.gemm.k };
            if task.stages != 0 {
                wait_for_memory::<G>(&sums);
            }
            for stage in 0..task.stages {
                let live = S::DEPTH.min(reduction - stage * S::DEPTH);
                take::<S, G>(&ring, live);
                if G::BLOCKS == 2 && S::WATCHED {
                    ring.ready().wait_cluster(ring.parity());
                }
                // As in `multiply`.
                warp_barrier();
                if elected {
                    multiply_stage::<S, G>(
                        &ring,
                        &mut slots,
                        [sums.address(memory), memory],
                        live.div_ceil(S::STEP),
                        stage != 0,
                        e5m2,
                    );
                    report::<G>(ring.empty());
                }
                ring.advance();
            }
            if task.stages != 0 {
                if elected {
                    report::<G>(sums.full());
                }
                sums.advance();
            }
        }
        warp_barrier();
    }
}

/// Issues `steps` products of a stage into `d`, with their scales on the way through the places in
/// `memory`. One thread runs it.
#[inline(always)]
unsafe fn multiply_stage<S: MxOperands, G: Group>(
    ring: &Stages<S, G>,
    slots: &mut Slots,
    [d, memory]: [Address; 2],
    steps: u32,
    accumulate: bool,
    e5m2: [bool; 2],
) {
    // Products that take their scales from one tile.
    let steps_of_tile = const { SCALE_TILE_BLOCKS / <S::Kind as BlockScaled>::SCALES };
    let (a, b) = (S::a(ring.stage()), S::b(ring.stage()));
    // SAFETY: in `multiply_blocks`.
    unsafe {
        for step in 0..steps {
            let [a_scales, b_scales, b_scales_2] = slots.addresses(memory);
            if step % steps_of_tile == 0 {
                slots.wait_empty();
                let source = ring.scales() + step / steps_of_tile * SCALE_TILE_BYTES;
                let copy = |to: Address, part: u32| {
                    let source = CopySource::scales(source + part * S::SCALE_BYTES_EACH);
                    copy_32x128b_warpx4::<G>(to, source);
                };
                copy(a_scales, 0);
                copy(b_scales, 1);
                copy(b_scales_2, 2);
            }
            let instruction = S::instruction::<Step<S, G>>(step, e5m2);
            let scales = [a_scales, b_scales];
            let (a, b) = (a.steps(step), b.steps(step));
            multiply_scaled(d, a, b, instruction, scales, accumulate || step != 0);
            if step % steps_of_tile == steps_of_tile - 1 || step + 1 == steps {
                commit::<G>(slots.empty());
                slots.advance();
            }
        }
    }
}

/// Waits until the sums' place may be overwritten, and so the columns that it shares with the sums
/// before.
#[inline(always)]
unsafe fn wait_for_memory<G: Group>(sums: &Sums) {
    let before = sums.before();
    // SAFETY: in `multiply_blocks`; of the phase before the first, nobody waits for the end.
    unsafe {
        wait_for_readers::<G>(sums.empty(), sums.parity() ^ 1);
        wait_for_readers::<G>(before.seam(), before.parity());
    }
    fence_after();
}
