//! Quantizers that read their source once, with a scale for each group from the group's own
//! magnitudes: current scaling in FP8, and NVFP4's weights in squares.
//!
//! No element can be quantized before all of its group have been seen. So a block has a ring of
//! tiles in shared memory: they are measured when they land, and quantized when their group is
//! known. Of a group that has more tiles than all blocks hold, the first ones are only measured;
//! the blocks read them again behind the ones that they hold, the last first, since L2 still has
//! those.
//!
//! ```text
//!                one warp                            eight warps
//!  claim ─▶ find ─▶ copy ──▶ ring of tiles ──▶ measure ─▶ tell all blocks
//!                                 └───────▶ the group is known ─▶ quantize ─▶ free
//! ```
//!
//! Blocks tell each other what they have found in scratch memory ([`Progress`]): a number that
//! counts the tiles that are claimed, and of each group the largest magnitude and how many tiles it
//! is of.
//!
//! # Why nobody waits forever
//!
//! A tile is claimed when there is room for it, and measured as soon as it lands, whatever else its
//! block waits for. So every tile that has been claimed is measured soon. If all that a block holds
//! waits for groups of which tiles have not been claimed, its first warp claims and measures them
//! without keeping them. So it does not matter how many blocks run at a time, or in which order
//! they begin.

use ptx_std::hint::opaque;
use ptx_std::mbarrier::Barrier;
use ptx_std::memory::{
    fetch_add_u32, load_acquire_u32, load_relaxed_u32, load_shared_u32x4, load_u32,
    reduce_add_release_u32, reduce_max_u32, shared_base, store_f32, store_shared_u32x4, store_u32,
};
use ptx_std::sync::{block_barrier, fence_mbarrier_init, named_barrier, warp_barrier};
use ptx_std::thread::{
    WARP, grid_blocks, lane_index, shuffle_index, sleep, thread_index, warp_index, warp_max,
};

use super::job::Job;
use super::scale::ScaleRule;
use super::source::Source;
use super::stage::{self, Stage};
use super::tiles::{Extent, Tile};
use super::{WARPS, largest, note_amax};
use crate::abi::quantize::{Blocks, Progress, QuantizeArgs};

/// Threads of a block: those that quantize, and a warp that copies.
pub const THREADS: u32 = super::THREADS + WARP;

/// Tiles of the ring.
const TILES: u32 = 3;

/// Polls of a full ring after which the warp that copies looks for tiles that nobody has claimed.
const PATIENCE: u32 = 256;

/// Nanoseconds between two questions whether a group is known.
const PAUSE: u32 = 100;

/// No tile, no group.
const NONE: u32 = u32::MAX;

/// What is done with a tile.
mod order {
    /// There is no tile.
    pub const END: u32 = 0;
    /// Measure it, no more.
    pub const MEASURE: u32 = 1;
    /// Measure it, and keep it.
    pub const HOLD: u32 = 2;
    /// Keep it: it has been measured.
    pub const KEEP: u32 = 3;
    /// Quantize it.
    pub const STORE: u32 = 4;
}

/// What is known of a tile of the ring: its [`Job`]; order, group, number of its group's tiles, and
/// whether it is the first of them.
const DESK: u32 = Job::BYTES + 16;

// Shared memory begins with what is known of the tiles.
/// A maximum per warp.
const MAXIMA: u32 = TILES * DESK;
/// Two orders, in turn: so the next may be given while others have yet to read the last.
const ORDERS: u32 = MAXIMA + 4 * WARPS;
/// Barriers of each tile: it has landed, there is room for the next.
const BARRIERS: u32 = ORDERS + 2 * 16;
/// Shared memory beside the tiles.
pub const ROOM: u32 = BARRIERS + 2 * TILES * Barrier::BYTES;

/// Dynamic shared memory.
pub const fn shared_bytes<C: Copies>() -> u32 {
    C::STAGES + TILES * Stage::bytes(<C::Element as Source>::BYTES)
}

/// Where a tile lies, and what is known of it.
#[derive(Clone, Copy)]
pub struct At {
    /// The block's shared memory.
    pub shared: u32,
    /// The tile.
    pub stage: Stage,
    /// Its [`Job`].
    pub job: u32,
}

/// What a kernel's arguments say of the tensor that is quantized.
pub trait Tensor {
    /// What is divided into tiles.
    fn extent(&self) -> Extent;

    /// Device address of the [`Progress`].
    fn progress(&self) -> u64;

    /// Where a tile lies, of elements of so many bytes.
    ///
    /// # Safety
    ///
    /// All lanes of one warp call it; the addresses are valid for what the fields describe.
    unsafe fn job(&self, tile: &Tile, bytes: u32) -> Job;

    /// What follows for all of a group from its largest magnitude.
    fn scale(&self, amax: f32) -> f32;

    /// Stores what is known of a group.
    ///
    /// # Safety
    ///
    /// One thread calls it, once for each group; the addresses are valid for what the fields
    /// describe.
    unsafe fn store_scale(&self, group: u32, scale: f32);
}

impl Tensor for QuantizeArgs {
    #[inline(always)]
    fn extent(&self) -> Extent {
        Extent::of(self)
    }

    #[inline(always)]
    fn progress(&self) -> u64 {
        self.progress
    }

    #[inline(always)]
    unsafe fn job(&self, tile: &Tile, bytes: u32) -> Job {
        // SAFETY: handed to the caller.
        unsafe { Job::of_tile(self, tile, Blocks::Tensor, bytes, || 1.0) }
    }

    #[inline(always)]
    fn scale(&self, amax: f32) -> f32 {
        ScaleRule { ceiling: f32::MAX, ..ScaleRule::of(self, 0.0) }.scale(amax)
    }

    #[inline(always)]
    unsafe fn store_scale(&self, group: u32, scale: f32) {
        let at = 4 * u64::from(group);
        // SAFETY: handed to the caller.
        unsafe {
            store_f32(self.scale + at, scale);
            for copy in [&self.rowwise, &self.columnwise] {
                if copy.data != 0 {
                    store_f32(copy.scale_inv + at, 1.0 / scale);
                }
            }
        }
    }
}

/// What is made of tiles whose group is known, by [`super::THREADS`] threads of the block.
pub trait Copies {
    /// The source's elements, of 16 bits.
    type Element: Source;
    /// The kernel's arguments.
    type Args: Tensor;
    /// What a thread takes of a tile.
    type Words: Copy;

    /// Where in shared memory the tiles begin, at or behind [`ROOM`].
    const STAGES: u32;

    /// Takes a thread's part of a tile into registers.
    ///
    /// # Safety
    ///
    /// The tile has landed.
    unsafe fn take(stage: Stage) -> Self::Words;

    /// The largest magnitude of what a thread has taken.
    fn amax(words: &Self::Words) -> f32;

    /// Quantizes and stores a tile, whose group has this scale. The threads `meet` at a barrier;
    /// `free` says that a warp uses the tile and what is known of it no more.
    ///
    /// # Safety
    ///
    /// As [`Copies::take`]; all threads call it; the addresses in `args` are valid for what its
    /// fields describe.
    unsafe fn store(args: &Self::Args, at: At, scale: f32, meet: impl Fn(), free: impl Fn());
}

/// Takes tiles until there are none.
///
/// # Safety
///
/// As `quantize_current_rows`.
#[inline(always)]
pub unsafe fn run<C: Copies>(args: &C::Args) {
    // SAFETY: handed to the caller.
    unsafe {
        let ring = Ring { shared: shared_base(), stages: C::STAGES, tile: 0, parity: 0 };
        if thread_index() == 0 {
            let mut ring = ring;
            for _ in 0..TILES {
                // Of each lane's copies, and of what is known of the tile.
                ring.landed().init(WARP + 1);
                ring.room().init(WARPS);
                ring.advance();
            }
            fence_mbarrier_init();
        }
        block_barrier();
        if warp_index() == WARPS {
            Copying::<C> { args, ring, earlier: NONE, end: 0, is_closed: false }.run();
        } else {
            quantize::<C>(args, ring);
        }
    }
}

/// A tile of the ring.
#[derive(Clone, Copy)]
struct Ring {
    shared: u32,
    stages: u32,
    tile: u32,
    /// Of the phase in which it lands.
    parity: u32,
}

impl Ring {
    #[inline(always)]
    fn at<C: Copies>(&self) -> At {
        At {
            shared: self.shared,
            stage: Stage {
                address: self.shared
                    + self.stages
                    + self.tile * Stage::bytes(<C::Element as Source>::BYTES),
            },
            job: self.shared + self.tile * DESK,
        }
    }

    /// What is known of it behind its [`Job`].
    #[inline(always)]
    fn about(&self) -> u32 {
        self.shared + self.tile * DESK + Job::BYTES
    }

    /// It has landed.
    #[inline(always)]
    fn landed(&self) -> Barrier {
        Barrier { address: self.shared + BARRIERS + self.tile * Barrier::BYTES }
    }

    /// There is room for the next.
    #[inline(always)]
    fn room(&self) -> Barrier {
        Barrier { address: self.shared + BARRIERS + (TILES + self.tile) * Barrier::BYTES }
    }

    #[inline(always)]
    fn advance(&mut self) {
        self.tile += 1;
        if self.tile == TILES {
            (self.tile, self.parity) = (0, self.parity ^ 1);
        }
    }
}

/// The warp that claims tiles and copies them.
struct Copying<'a, C: Copies> {
    args: &'a C::Args,
    ring: Ring,
    /// The tile that was measured last and is to be read again.
    earlier: u32,
    /// The tile behind the last of the newest tile's group.
    end: u32,
    /// Whether all of them are known to be claimed.
    is_closed: bool,
}

impl<C: Copies> Copying<'_, C> {
    #[inline(always)]
    unsafe fn run(&mut self) {
        // SAFETY: the whole warp calls it.
        unsafe {
            let tiles = self.args.extent().tiles();
            loop {
                self.wait_for_room(tiles);
                let (mut tile, mut again) = (tiles, self.earlier != NONE && self.is_closed());
                if !again {
                    tile = claim(self.args.progress());
                    again = tile >= tiles && self.earlier != NONE;
                }
                if again {
                    tile = self.again();
                }
                if tile >= tiles {
                    self.leave([order::END, 0, 0, 0]);
                    return;
                }
                self.fetch(tile, again);
                self.ring.advance();
            }
        }
    }

    /// Whether all tiles of the newest tile's group have been claimed.
    #[inline(always)]
    unsafe fn is_closed(&mut self) -> bool {
        // SAFETY: handed to the caller.
        self.is_closed = self.is_closed || unsafe { self.next() } >= self.end;
        self.is_closed
    }

    /// The next tile that will be claimed, or one before it.
    #[inline(always)]
    unsafe fn next(&self) -> u32 {
        // SAFETY: the whole warp calls it.
        unsafe {
            let mut next = 0;
            if is_first_lane() {
                next = load_relaxed_u32(self.args.progress() + Progress::TAKEN as u64);
            }
            shuffle_index(next, 0)
        }
    }

    /// Waits until the ring has room for a tile.
    #[inline(always)]
    unsafe fn wait_for_room(&mut self, tiles: u32) {
        // SAFETY: the whole warp calls it.
        unsafe {
            let mut polls = 0;
            let (room, parity) = (self.ring.room(), self.ring.parity ^ 1);
            while !by_first_lane(|| room.try_wait(parity)) {
                polls += 1;
                if polls < PATIENCE {
                    continue;
                }
                if self.next() < self.end {
                    let tile = claim(self.args.progress());
                    if tile < tiles {
                        self.help(tile);
                    }
                }
            }
        }
    }

    /// Starts the copy of a tile.
    #[inline(always)]
    unsafe fn fetch(&mut self, tile: u32, again: bool) {
        // SAFETY: the whole warp calls it; there is room for the tile.
        unsafe {
            let extent = self.args.extent();
            let place = extent.tile_by_warp(tile);
            let job = self.args.job(&place, <C::Element as Source>::BYTES);
            let At { stage, job: desk, .. } = self.ring.at::<C>();
            let pitch = Self::pitch(&extent);
            stage.fetch_by_warp::<C::Element>(job.source, pitch, job.rows, job.columns);
            job.leave(desk);
            let [first, end] = extent.tiles_of(place.group);
            let is_early = end - tile > TILES * grid_blocks();
            let order = if again {
                order::KEEP
            } else if is_early {
                order::MEASURE
            } else {
                order::HOLD
            };
            if order == order::MEASURE {
                self.remember(tile);
            }
            if !again {
                self.end = end;
                self.is_closed = false;
            }
            let bits = (end - first) << 1 | u32::from(tile == first);
            self.leave([order, place.group, bits, 0]);
        }
    }

    /// Bytes from one row of the source to the next.
    #[inline(always)]
    fn pitch(extent: &Extent) -> u64 {
        u64::from(extent.columns) * u64::from(<C::Element as Source>::BYTES)
    }

    /// Measures a tile that does not fit into the ring.
    #[inline(always)]
    unsafe fn help(&mut self, tile: u32) {
        // SAFETY: the whole warp calls it.
        unsafe {
            let extent = self.args.extent();
            let place = extent.tile_by_warp(tile);
            let job = self.args.job(&place, <C::Element as Source>::BYTES);
            let pitch = Self::pitch(&extent);
            let own = stage::amax_by_lane::<C::Element>(job.source, pitch, job.rows, job.columns);
            let amax = warp_max(own.to_bits());
            self.remember(tile);
            [_, self.end] = extent.tiles_of(place.group);
            self.is_closed = false;
            if is_first_lane() {
                report(self.args.progress(), place.group, amax);
            }
        }
    }

    /// Leaves what is known of a tile beside its [`Job`].
    #[inline(always)]
    unsafe fn leave(&self, about: [u32; 4]) {
        // SAFETY: the whole warp calls it, and nobody else uses the place.
        unsafe {
            if is_first_lane() {
                store_shared_u32x4(self.ring.about(), about);
                self.ring.landed().arrive();
            }
            self.ring.landed().arrive_after_copies();
        }
    }

    /// Remembers a tile.
    #[inline(always)]
    unsafe fn remember(&mut self, tile: u32) {
        if is_first_lane() {
            // SAFETY: the tile is this block's, and with it its place.
            unsafe { store_u32(self.place_of(tile), self.earlier) };
        }
        self.earlier = tile;
    }

    /// The tile that was remembered last.
    #[inline(always)]
    unsafe fn again(&mut self) -> u32 {
        let (tile, mut before) = (self.earlier, NONE);
        // SAFETY: the whole warp calls it.
        unsafe {
            if is_first_lane() {
                before = load_u32(self.place_of(tile));
            }
            self.earlier = shuffle_index(before, 0);
        }
        tile
    }

    /// Where it is kept which tile was remembered before this one.
    #[inline(always)]
    fn place_of(&self, tile: u32) -> u64 {
        let layout = Progress::layout(self.args.extent().groups as usize, 0);
        self.args.progress() + layout.earlier as u64 + 4 * u64::from(tile)
    }
}

/// The warps that measure and quantize.
#[inline(always)]
unsafe fn quantize<C: Copies>(args: &C::Args, ring: Ring) {
    // SAFETY: handed to the caller. All threads follow the same orders, so they meet at the
    // barriers.
    unsafe {
        let meet = || named_barrier::<1, { super::THREADS }>();
        let mut director = Director::<C>::new(args, ring);
        let mut place = ring.shared + ORDERS;
        loop {
            if warp_index() == 0 {
                director.give_order(place);
            }
            meet();
            let [order, tile, scale, group] = load_shared_u32x4(place);
            place = 2 * (ring.shared + ORDERS) + 16 - place;
            if order == order::END {
                return;
            }
            let ring = Ring { tile, ..ring };
            let free = || {
                warp_barrier();
                if is_first_lane() {
                    ring.room().arrive();
                }
            };
            if order == order::STORE {
                C::store(args, ring.at::<C>(), f32::from_bits(scale), meet, free);
                continue;
            }
            let words = C::take(ring.at::<C>().stage);
            if order == order::MEASURE {
                free();
            }
            note_amax(ring.shared + MAXIMA, C::amax(&words));
            meet();
            if opaque(thread_index()) == 0 {
                report(args.progress(), group, largest(ring.shared + MAXIMA).to_bits());
            }
        }
    }
}

/// What the first of the warps that quantize knows.
struct Director<'a, C: Copies> {
    args: &'a C::Args,
    /// The next tile to land.
    landing: Ring,
    /// Which tiles are held, a bit each.
    holds: u32,
    has_ended: bool,
    /// A group of which all is known, and its scale.
    known: u32,
    scale: f32,
}

impl<'a, C: Copies> Director<'a, C> {
    #[inline(always)]
    fn new(args: &'a C::Args, landing: Ring) -> Self {
        Self { args, landing, holds: 0, has_ended: false, known: NONE, scale: 1.0 }
    }

    /// Leaves an order: what to do, with which tile of the ring, its scale, its group.
    #[inline(always)]
    unsafe fn give_order(&mut self, place: u32) {
        // SAFETY: the whole warp calls it.
        unsafe {
            let order = loop {
                if let Some(order) = self.order() {
                    break order;
                }
                // Who asks all the time keeps others from telling.
                sleep(PAUSE);
            };
            if is_first_lane() {
                store_shared_u32x4(place, order);
            }
            warp_barrier();
        }
    }

    /// What can be done now: measuring comes first, since other blocks wait for it.
    #[inline(always)]
    unsafe fn order(&mut self) -> Option<[u32; 4]> {
        // SAFETY: the whole warp calls it.
        unsafe {
            while !self.has_ended {
                let (landed, parity) = (self.landing.landed(), self.landing.parity);
                if !by_first_lane(|| landed.test_wait(parity)) {
                    break;
                }
                let tile = self.landing.tile;
                let [order, group, ..] = load_shared_u32x4(self.landing.about());
                self.landing.advance();
                if order == order::END {
                    self.has_ended = true;
                    break;
                }
                if order != order::MEASURE {
                    self.holds |= 1 << tile;
                }
                if order != order::KEEP {
                    return Some([order, tile, 0, group]);
                }
            }
            if let Some(tile) = self.known_tile() {
                self.holds ^= 1 << tile;
                return Some([order::STORE, tile, self.scale.to_bits(), 0]);
            }
            (self.has_ended && self.holds == 0).then_some([order::END, 0, 0, 0])
        }
    }

    /// A tile that is held and whose group is known.
    #[inline(always)]
    unsafe fn known_tile(&mut self) -> Option<u32> {
        let mut ring = self.landing;
        for _ in 0..TILES {
            // The next to land has the place of the oldest.
            if self.holds >> ring.tile & 1 != 0 {
                // SAFETY: the whole warp calls it.
                unsafe {
                    let [_, group, bits, _] = load_shared_u32x4(ring.about());
                    if self.knows(group, bits >> 1) {
                        if bits & 1 != 0 && is_first_lane() {
                            self.args.store_scale(group, self.scale);
                        }
                        return Some(ring.tile);
                    }
                }
            }
            ring.advance();
        }
        None
    }

    /// Whether all magnitudes of a group are known, which has so many tiles; if so, so is its
    /// scale.
    #[inline(always)]
    unsafe fn knows(&mut self, group: u32, tiles: u32) -> bool {
        if group == self.known {
            return true;
        }
        // SAFETY: the whole warp calls it.
        unsafe {
            let state = state(self.args.progress(), group);
            let (mut measured, mut amax) = (0, 0);
            if is_first_lane() {
                measured = load_acquire_u32(state + 4);
                amax = load_relaxed_u32(state);
            }
            let [measured, amax] = [measured, amax].map(|value| shuffle_index(value, 0));
            if measured != tiles {
                return false;
            }
            self.known = group;
            self.scale = self.args.scale(f32::from_bits(amax));
            true
        }
    }
}

/// Claims a tile.
#[inline(always)]
unsafe fn claim(progress: u64) -> u32 {
    // SAFETY: the whole warp calls it.
    unsafe {
        let mut tile = 0;
        if is_first_lane() {
            tile = fetch_add_u32(progress + Progress::TAKEN as u64, 1);
        }
        shuffle_index(tile, 0)
    }
}

/// Tells all blocks what is largest in a tile of a group.
#[inline(always)]
unsafe fn report(progress: u64, group: u32, amax: u32) {
    // SAFETY: one thread calls it, once for each tile.
    unsafe {
        let state = state(progress, group);
        reduce_max_u32(state, amax);
        reduce_add_release_u32(state + 4, 1);
    }
}

/// Address of what is known of a group.
#[inline(always)]
fn state(progress: u64, group: u32) -> u64 {
    let groups = Progress::layout(0, 0).groups as u64;
    progress + groups + 8 * u64::from(group)
}

/// What the first lane answers, for the whole warp, which then knows what that lane has learned:
/// asked one by one, lanes could part.
#[inline(always)]
unsafe fn by_first_lane(ask: impl Fn() -> bool) -> bool {
    let mut answer = 0;
    if is_first_lane() {
        answer = u32::from(ask());
    }
    // SAFETY: the caller brings the warp.
    unsafe {
        warp_barrier();
        shuffle_index(answer, 0) != 0
    }
}

/// Asked anew each time: else the compiler would write apart what the first lane does from one such
/// question to the next and what the others do, the barriers between included.
#[inline(always)]
fn is_first_lane() -> bool {
    opaque(lane_index()) == 0
}
