//! Which tiles are a block's.
//!
//! Of tiles that take equally long every block has its turn: tile `block`, `block + blocks`, and so
//! on. The last two rounds go to whoever is done, one tile after the other, since blocks are not
//! equally fast, and of the last round only some get one. Gradients of weights take as long as
//! their group has tokens, so all of them but each block's first go that way.
//!
//! To claim a tile is to count it in the group table. The answer takes about as long as a stage is
//! multiplied, so it is asked for some stages before it is needed: not at the beginning of a tile,
//! or a block would hold on to a tile while others have nothing to do. Turns ask nobody, which is 2
//! % faster where tiles are short (docs/performance.md).

use core::marker::PhantomData;

use ptx_std::hint::opaque;
use ptx_std::memory::fetch_add_u32;
use ptx_std::thread::{ballot, block_index, grid_blocks, shuffle_index};

use super::schedule::Schedule;
use crate::table::Table;

/// Rounds of tiles that are claimed where all tiles take equally long.
const CLAIMED_ROUNDS: u32 = 2;

/// Stages before the end of a tile's copies when the next tile is asked for.
const STAGES_AHEAD: u32 = 4;

/// A block's walk through the numbers of tiles, one warp's.
pub struct Turns<S> {
    /// Number of the tile whose turn it is.
    pub tile: u32,
    /// From this tile on they are claimed; of a ragged reduction all but each block's first.
    claimed: u32,
    schedule: PhantomData<S>,
}

/// The tile after this one, as far as one thread knows.
pub struct Next {
    /// Its number, or how many had been claimed before it.
    answer: u32,
    is_claimed: bool,
}

impl<S: Schedule> Turns<S> {
    /// Begins with the block's first tile.
    ///
    /// # Safety
    ///
    /// As [`Table::new`].
    #[inline(always)]
    pub unsafe fn new(table: &Table) -> Self {
        // SAFETY: `groups` is the last index of the prefix array.
        let tiles = unsafe { table.tile_prefix(opaque(table.groups)) };
        let claimed = tiles.saturating_sub(CLAIMED_ROUNDS * grid_blocks()).max(grid_blocks());
        Self { tile: block_index(), claimed, schedule: PhantomData }
    }

    /// What follows the tile: nothing is asked yet.
    #[inline(always)]
    pub fn next(&self) -> Next {
        if S::RAGGED_REDUCTION {
            return Next { answer: 0, is_claimed: true };
        }
        let answer = self.tile + grid_blocks();
        Next { answer, is_claimed: answer >= self.claimed }
    }

    /// Goes on to the next tile, which the one thread with `has_asked` knows.
    ///
    /// # Safety
    ///
    /// The whole warp calls it together.
    #[inline(always)]
    pub unsafe fn advance(&mut self, next: &Next, has_asked: bool) {
        // SAFETY: handed to the caller.
        self.tile = unsafe { shuffle_index(next.answer, ballot(has_asked).trailing_zeros()) };
        if next.is_claimed {
            // Asked for anew, not kept: few registers are left to the thread that copies.
            self.tile += if S::RAGGED_REDUCTION { grid_blocks() } else { self.claimed };
        }
    }
}

impl Next {
    /// Asks for the tile if it must be claimed, `stage` of `stages` being the one that is copied
    /// next; where there are none, `stage` is 0. It is one stage of every tile that asks.
    ///
    /// # Safety
    ///
    /// As [`Table::new`]; one thread of the block calls it.
    #[inline(always)]
    pub unsafe fn ask(&mut self, table: &Table, stage: u32, stages: u32) {
        if stage == opaque(stages).saturating_sub(STAGES_AHEAD) && self.is_claimed {
            // SAFETY: handed to the caller.
            self.answer = unsafe { fetch_add_u32(table.taken(), 1) };
        }
    }
}
