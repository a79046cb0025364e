//! Blocks that are lines, of BF16, by a kernel for each form: one for both has registers and shared
//! memory for either, so that fewer blocks are at work. A block has a tile, which one of its warps
//! finds for all. A warp takes pieces of sixteen rows of 64 columns, and makes both copies of one
//! before it goes on to the next.

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
use super::rows;
pub use super::rows::{Exact, InCodes, Output};
use super::shared::{store_sums, sum_columns};
use super::work::Work;
use super::{SUMS, SUMS_BYTES, own_elements, store_collected};
use crate::abi::mx::Nvfp4Args;
use crate::gemm::element::Bf16;

/// Dynamic shared memory of a form: what is collected of it, its pieces, and the tile.
pub const fn shared_bytes<O: Output>() -> u32 {
    place_of_tile::<O>() + Found::BYTES
}

/// Where the pieces are and, until they come, the columns' sums. Of exact numbers nothing is
/// collected.
const fn place_of_pieces<O: Output>() -> u32 {
    if O::EXACT { 0 } else { SUMS }
}

/// Where the tile is.
const fn place_of_tile<O: Output>() -> u32 {
    place_of_pieces::<O>() + ahead::SHARED_BYTES
}

const _: () = assert!(SUMS.is_multiple_of(ahead::ALIGNMENT));
const _: () = assert!(SUMS_BYTES <= ahead::SHARED_BYTES);

/// Block x takes tile x from the end, which was measured last, so that some of it is still in the
/// L2 cache.
///
/// # Safety
///
/// Blocks of [`THREADS`](super::THREADS) threads with [`shared_bytes`] of dynamic shared memory, as
/// many as tiles or more; the addresses in `args` are valid for what its fields describe, and no
/// copy is wanted in another form than `O`; columns, and rows of columnwise weights, are a multiple
/// of 16.
#[inline(always)]
pub unsafe fn run<O: Output>(args: &Nvfp4Args, _args_address: u64) {
    // SAFETY: the launcher keeps the contract above. All threads of a block have one tile, so they
    // meet at every barrier.
    unsafe {
        let found = Found::new(shared_base() + place_of_tile::<O>());
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
            let sums = shared_base() + place_of_pieces::<O>();
            sum_columns::<Bf16>(&work.at::<Bf16>(band, column), sums);
            block_barrier();
            store_sums(&work, sums);
            block_barrier(); // pieces overwrite the sums
        }
        match (opaque(args.transform) != 0, opaque_u64(args.random) != 0) {
            (false, false) => pieces::<O, false, false>(args, found),
            (false, true) => pieces::<O, false, true>(args, found),
            (true, false) => pieces::<O, true, false>(args, found),
            (true, true) => pieces::<O, true, true>(args, found),
        }
        if !O::EXACT {
            block_barrier();
            let (tile, source) = found.tile();
            store_collected(&Work::new(args, &tile, source));
        }
    }
}

/// Finds the block's tile, and the scales of its group.
#[inline(always)]
unsafe fn find(args: &Nvfp4Args, found: Found) {
    // SAFETY: as in `run`; the whole warp is here, and one thread of it notes what was found.
    unsafe {
        // Blocks beyond the last tile look for the first one, too, so that there is no branch
        // before what tells the group is loaded. The machine code waits for memory four times;
        // twice gained 0.7 % (docs/performance.md).
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

/// The warp's pieces, one after the other: a loop for each way has fewer registers to keep than one
/// with a branch.
#[inline(always)]
unsafe fn pieces<O: Output, const TRANSFORM: bool, const RANDOM: bool>(
    args: &Nvfp4Args,
    found: Found,
) {
    // SAFETY: as in `run`.
    unsafe {
        let random = |columnwise| RANDOM.then(|| Random::load(args.random, columnwise));
        let [of_rows, of_columns] = [random(false), random(true)];
        let (tile, source) = found.tile();
        let mut pieces =
            Pieces::new(&tile, source, args.source.columns, shared_base() + place_of_pieces::<O>());
        let mut count = 0;
        while count != ahead::COUNT {
            let piece = pieces.next();
            let copy = anew(&args.rowwise);
            if O::is_wanted(&copy) {
                let (tile, source) = found.tile();
                let column = piece.column + rows::column();
                let work = Work::new(args, &tile, source).at::<Bf16>(piece.band, column);
                let scaling = &found.row_scaling();
                rows::piece::<O, RANDOM>(&work, scaling, &of_rows, &copy, piece);
            }
            let copy = anew(&args.columnwise);
            if O::is_wanted(&copy) {
                let (tile, source) = found.tile();
                let column = piece.column + columns::column();
                let work = Work::new(args, &tile, source).at::<Bf16>(piece.band, column);
                let scaling = &found.column_scaling();
                columns::piece::<O, TRANSFORM, RANDOM>(&work, scaling, &of_columns, &copy, piece);
            }
            pieces.release();
            count = opaque(count + 1); // a loop: unrolled, it would be four times the code
        }
    }
}
