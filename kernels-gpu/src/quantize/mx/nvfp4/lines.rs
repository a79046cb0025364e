//! Blocks that are lines, of BF16. A block has a tile, which one of its warps finds for all. A warp takes
//! pieces of sixteen rows of 64 columns, and makes both copies of one before it goes on to the next.

use ptx_std::hint::{opaque, opaque_u64};
use ptx_std::memory::{load_constant_u32_if, shared_base};
use ptx_std::sync::block_barrier;
use ptx_std::thread::{block_index, lane_index, warp_index};

use super::super::philox::Random;
use super::super::scaling::Scaling;
use super::super::source::Source;
use super::super::tiles::{Tiles, is_skipped};
use super::super::unroll::anew;
use super::ahead::{self, Pieces};
use super::columns;
use super::found::Found;
use super::rows::{self, Exact, InCodes, Output};
use super::shared::sum_columns;
use super::work::Work;
use super::{SHARED_BYTES as AHEAD, own_elements, store_collected};
use crate::abi::mx::Nvfp4Args;
use crate::gemm::element::Bf16;

/// Dynamic shared memory: that of the other kernels, pieces, and the tile.
pub const SHARED_BYTES: u32 = FOUND + Found::BYTES;

/// Where the tile is; the pieces are before it.
const FOUND: u32 = AHEAD + ahead::SHARED_BYTES;

const _: () = assert!(AHEAD.is_multiple_of(ahead::ALIGNMENT));

/// Block x takes tile x from the end, which was measured last, so that some of it is still in the L2 cache.
///
/// # Safety
///
/// Blocks of [`THREADS`](super::THREADS) threads with [`SHARED_BYTES`] of dynamic shared memory, as many as
/// tiles or more; the addresses in `args` are valid for what its fields describe; columns are a multiple of
/// 16.
#[inline(always)]
pub unsafe fn run(args: &Nvfp4Args, _args_address: u64) {
    // SAFETY: the launcher keeps the contract above. All threads of a block have one tile, so they meet at
    // every barrier.
    unsafe {
        let found = Found::new(shared_base() + FOUND);
        if is_skipped(args.source.skip) {
            return;
        }
        if warp_index() == 0 {
            find(args, found);
        }
        block_barrier();
        if !found.is_some() {
            return;
        }
        if args.dbias_partial != 0 {
            let (tile, source) = found.tile();
            let work = Work::new(args, &tile, source);
            let (band, column) = own_elements();
            sum_columns::<Bf16>(&work.at::<Bf16>(band, column));
        }
        // A copy is in codes or in exact numbers, but the kernel makes both.
        form::<InCodes>(args, found);
        form::<Exact>(args, found);
        block_barrier();
        let (tile, source) = found.tile();
        store_collected(&Work::new(args, &tile, source));
    }
}

/// Finds the block's tile, and the scales of its group.
#[inline(always)]
unsafe fn find(args: &Nvfp4Args, found: Found) {
    // SAFETY: as in `run`; the whole warp is here, and one thread of it notes what was found.
    unsafe {
        // Blocks beyond the last tile look for the first one, too. So nothing waits for the number of tiles
        // before what tells the group is loaded, and memory is waited for twice, not three times.
        let tiles = Tiles::new(&args.source);
        let (count, index) = (tiles.count, block_index());
        let tile = tiles.get(count.saturating_sub(1).saturating_sub(index));
        let source = tiles.first_element(&tile, Bf16::BYTES);
        // An even lane has the scale of the rowwise copy, an odd one that of the other.
        let columnwise = lane_index() % 2;
        let amax = if columnwise == 0 { args.rowwise_amax } else { args.columnwise_amax };
        let scaling = scaling(amax, tile.group, args.bound);
        if lane_index() < 2 {
            found.put_scaling(columnwise, scaling);
        }
        if lane_index() == 0 {
            if index < count { found.put(&tile, source) } else { found.put_none() }
        }
    }
}

/// The scale of a group for a copy; a copy that is not wanted has no magnitudes.
#[inline(always)]
unsafe fn scaling(amax: u64, group: u32, bound: f32) -> Scaling {
    // SAFETY: every group has a largest magnitude.
    let bits = unsafe { load_constant_u32_if(amax != 0, amax + 4 * u64::from(group)) };
    Scaling::new(f32::from_bits(bits), bound)
}

/// The copies of one form, if there are any.
#[inline(always)]
unsafe fn form<O: Output>(args: &Nvfp4Args, found: Found) {
    if !O::is_wanted(&anew(&args.rowwise)) && !O::is_wanted(&anew(&args.columnwise)) {
        return;
    }
    // SAFETY: as in `run`.
    unsafe {
        match (opaque(args.transform) != 0, opaque_u64(args.random) != 0) {
            (false, false) => pieces::<O, false, false>(args, found),
            (false, true) => pieces::<O, false, true>(args, found),
            (true, false) => pieces::<O, true, false>(args, found),
            (true, true) => pieces::<O, true, true>(args, found),
        }
    }
}

/// The warp's pieces, one after the other: a loop for each form has fewer registers to keep than one with a
/// branch.
#[inline(always)]
unsafe fn pieces<O: Output, const TRANSFORM: bool, const RANDOM: bool>(
    args: &Nvfp4Args,
    found: Found,
) {
    // SAFETY: as in `run`.
    unsafe {
        let random = |columnwise| RANDOM.then(|| Random::load(args.random, columnwise));
        let (tile, source) = found.tile();
        let mut pieces = Pieces::new(&tile, source, args.source.columns, shared_base() + AHEAD);
        let mut count = 0;
        while count != ahead::COUNT {
            let piece = pieces.next();
            let copy = anew(&args.rowwise);
            if O::is_wanted(&copy) {
                let (tile, source) = found.tile();
                let column = piece.column + rows::column();
                let work = Work::new(args, &tile, source).at::<Bf16>(piece.band, column);
                let scaling = &found.row_scaling();
                rows::piece::<O, RANDOM>(&work, scaling, &random(false), &copy, piece);
            }
            let copy = anew(&args.columnwise);
            if O::is_wanted(&copy) {
                let (tile, source) = found.tile();
                let column = piece.column + columns::column();
                let work = Work::new(args, &tile, source).at::<Bf16>(piece.band, column);
                let scaling = &found.column_scaling();
                columns::piece::<O, TRANSFORM, RANDOM>(&work, scaling, &random(true), &copy, piece);
            }
            pieces.release();
            count = opaque(count + 1); // a loop: unrolled, it would be four times the code
        }
    }
}
