//! What stands in a block's shared memory, and the barriers by which its warps hand it on.
//!
//! | | handed on by | taken by | given back by |
//! | --- | --- | --- | --- |
//! | stages of operands | the warp that copies | the thread that multiplies | its commit; with scales, the warps that promote, too |
//! | sums in tensor memory | its commit | the warps that finish | each of them |
//! | their seam | | | the warps that finish it, before the rest |
//! | block scales in tensor memory | the thread that multiplies | itself | its commit |
//! | tasks | the warp that copies | the warp that multiplies, the warps that finish | each of them |
//!
//! In a pair both blocks have the same, and the even block's thread multiplies for both.

use core::marker::PhantomData;

use ptx_std::mbarrier::Barrier;
use ptx_std::sync::warp_barrier;
use ptx_std::tcgen05::{Address, Group};
use ptx_std::thread::lane_index;

use super::super::shape::{CONSUMER_WARPS, CONSUMERS, ROW_BYTES, TILE_M, TILE_N};
use super::super::task::Task;
use super::schedule::Schedule;
use super::staging::STAGING_BYTES;

/// Bytes of the left operand in a stage of one block.
pub const A_BYTES: u32 = TILE_M * ROW_BYTES;
/// Bytes of the stages of a block, however many they are.
const STAGES_BYTES: u32 = 192 << 10;
/// The most stages that a ring has: those of a pair.
const MOST_STAGES: u32 = STAGES_BYTES / (A_BYTES + TILE_N / 2 * ROW_BYTES);
/// Tiles whose sums tensor memory holds at one time: one is finished while the next is multiplied.
const BUFFERS: u32 = 2;
/// Columns that the sums of two tiles have in common where tensor memory must hold block scales,
/// too: the last of the first tile's and the first of the second's. A tile is begun when these
/// columns of the one before have been read.
pub const SEAM: u32 = 64;
/// Tasks that the warp that copies may be ahead.
const TASKS: u32 = 4;

/// Where boxes of the output stand, behind the stages.
pub const STAGING: u32 = STAGES_BYTES;
/// Where the barriers stand.
const BARRIERS: u32 = STAGING + STAGING_BYTES;
/// Where the barriers of full stages stand.
const FULL: u32 = BARRIERS;
/// Where the barriers of empty stages stand.
const EMPTY: u32 = FULL + MOST_STAGES * Barrier::BYTES;
/// Where the barriers stand by which the odd block of a pair says that its stage is ready.
const READY: u32 = EMPTY + MOST_STAGES * Barrier::BYTES;
/// Where the barriers of finished products stand.
const SUMS_FULL: u32 = READY + MOST_STAGES * Barrier::BYTES;
/// Where the barriers of free tensor memory stand.
const SUMS_EMPTY: u32 = SUMS_FULL + BUFFERS * Barrier::BYTES;
/// Where the barriers of written tasks stand.
const TASK_FULL: u32 = SUMS_EMPTY + BUFFERS * Barrier::BYTES;
/// Where the barriers of tasks that all have read stand.
const TASK_EMPTY: u32 = TASK_FULL + TASKS * Barrier::BYTES;
/// Where the tasks stand.
const TASK_ROOM: u32 = (TASK_EMPTY + TASKS * Barrier::BYTES).next_multiple_of(16);
/// Where the address of the block's tensor memory stands.
pub const TENSOR_MEMORY: u32 = TASK_ROOM + TASKS * Task::BYTES;
/// Where the barriers of seams that have been read stand.
const SEAM_READ: u32 = (TENSOR_MEMORY + 4).next_multiple_of(Barrier::BYTES);
/// Where the barriers of free block scales in tensor memory stand.
const SLOT_EMPTY: u32 = SEAM_READ + BUFFERS * Barrier::BYTES;
/// Where the scales stand, if a stage brings any: behind all else, aligned for copies.
const SCALES: u32 = (SLOT_EMPTY + Slots::COUNT * Barrier::BYTES).next_multiple_of(128);
/// The most dynamic shared memory that a block may have.
const MOST_BYTES: u32 = 227 << 10;

const _: () = assert!(STAGES_BYTES.is_multiple_of(1024), "swizzled tiles start at 1024 bytes");

/// Bytes of the right operand in a stage: a block of a pair has half of the columns.
pub const fn b_bytes<G: Group>() -> u32 {
    TILE_N / G::BLOCKS * ROW_BYTES
}

/// Bytes of both operands in a stage of one block.
pub const fn stage_bytes<G: Group>() -> u32 {
    A_BYTES + b_bytes::<G>()
}

/// How a block divides its shared memory.
pub struct Rooms {
    /// Stages of the ring.
    stages: u32,
    /// Where the scales of the first stage stand.
    scales: u32,
    /// Dynamic shared memory, bytes; the table of kernels rounds it up to 128.
    pub bytes: u32,
}

impl Rooms {
    /// Those of a block, one of so many that make a tile, whose stages bring `scale_room` bytes of
    /// scales. They stand behind all else where there is room for them; else there are fewer
    /// stages, and the scales stand in the room of the others.
    pub const fn new(blocks: u32, scale_room: u32) -> Self {
        let operands = A_BYTES + TILE_N / blocks * ROW_BYTES;
        let stages = STAGES_BYTES / operands;
        let bytes = SCALES + stages * scale_room;
        if bytes <= MOST_BYTES {
            return Self { stages, scales: SCALES, bytes };
        }
        let stages = STAGES_BYTES / (operands + scale_room);
        Self { stages, scales: stages * operands, bytes: SCALES }
    }

    const fn of<S: Schedule, G: Group>() -> Self {
        Self::new(G::BLOCKS, S::SCALE_ROOM)
    }
}

/// Prepares the barriers of this block. `stage_readers` is how many warps beside the products read
/// a stage, `task_readers` how many read a task; `has_seam`: the sums of two tiles share columns.
///
/// # Safety
///
/// As [`Barrier::init`], for the shared memory at `shared`.
#[inline(always)]
pub unsafe fn init<S: Schedule, G: Group>(
    shared: u32,
    stage_readers: u32,
    task_readers: u32,
    has_seam: bool,
) {
    let each = |first: u32, count: u32, arrivals: u32| {
        for i in 0..count {
            // SAFETY: handed to the caller.
            unsafe { Barrier { address: shared + first + i * Barrier::BYTES }.init(arrivals) };
        }
    };
    let stages = const { Rooms::of::<S, G>().stages };
    each(FULL, stages, 1);
    each(EMPTY, stages, 1 + stage_readers);
    if G::BLOCKS == 2 && S::WATCHED {
        each(READY, stages, 1);
    }
    each(SUMS_FULL, BUFFERS, 1);
    each(SUMS_EMPTY, BUFFERS, CONSUMER_WARPS * G::BLOCKS);
    if has_seam {
        each(SEAM_READ, BUFFERS, CONSUMER_WARPS / CONSUMERS * G::BLOCKS);
        each(SLOT_EMPTY, Slots::COUNT, 1);
    }
    each(TASK_FULL, TASKS, 1);
    each(TASK_EMPTY, TASKS, task_readers);
}

/// A place in a ring, and the parity to wait for there.
struct Place {
    slot: u32,
    parity: u32,
}

impl Place {
    #[inline(always)]
    fn advance(&mut self, slots: u32) {
        self.slot += 1;
        if self.slot == slots {
            self.slot = 0;
            self.parity ^= 1;
        }
    }
}

/// A position in the ring of stages.
pub struct Stages<S, G> {
    shared: u32,
    place: Place,
    kind: PhantomData<(S, G)>,
}

impl<S: Schedule, G: Group> Stages<S, G> {
    /// The first position in the ring of the block whose shared memory begins at `shared`.
    #[inline(always)]
    pub fn new(shared: u32) -> Self {
        Self { shared, place: Place { slot: 0, parity: 0 }, kind: PhantomData }
    }

    /// Address of the stage.
    #[inline(always)]
    pub fn stage(&self) -> u32 {
        self.shared + self.place.slot * stage_bytes::<G>()
    }

    /// Address of the stage's scales, the left operand's first.
    #[inline(always)]
    pub fn scales(&self) -> u32 {
        self.shared + const { Rooms::of::<S, G>().scales } + self.place.slot * S::SCALE_ROOM
    }

    /// The barrier that counts the bytes of the stage.
    #[inline(always)]
    pub fn full(&self) -> Barrier {
        Barrier { address: self.shared + FULL + self.place.slot * Barrier::BYTES }
    }

    /// The barrier that says that the stage has been multiplied, and its scales read.
    #[inline(always)]
    pub fn empty(&self) -> Barrier {
        Barrier { address: self.shared + EMPTY + self.place.slot * Barrier::BYTES }
    }

    /// The barrier of the even block that says that the odd block's stage is ready, too.
    #[inline(always)]
    pub fn ready(&self) -> Barrier {
        Barrier { address: self.shared + READY + self.place.slot * Barrier::BYTES }
    }

    /// The parity of the phase in which the stage is filled.
    #[inline(always)]
    pub fn parity(&self) -> u32 {
        self.place.parity
    }

    /// Waits until the stage may be filled.
    ///
    /// # Safety
    ///
    /// Only who fills it calls it.
    #[inline(always)]
    pub unsafe fn wait_empty(&self) {
        // SAFETY: of the phase before the first, nobody waits for the end.
        unsafe { self.empty().wait(self.place.parity ^ 1) }
    }

    /// Goes on to the next stage.
    #[inline(always)]
    pub fn advance(&mut self) {
        self.place.advance(const { Rooms::of::<S, G>().stages });
    }

    /// Waits until all stages have been reported to this block, before it ends, if another one
    /// reports them. Its own thread's are complete in order, and the last is waited for with the
    /// sums.
    ///
    /// # Safety
    ///
    /// As [`Stages::wait_empty`].
    #[inline(always)]
    pub unsafe fn drain(&mut self) {
        if G::BLOCKS == 1 {
            return;
        }
        for _ in 0..const { Rooms::of::<S, G>().stages } {
            // SAFETY: handed to the caller.
            unsafe { self.wait_empty() };
            self.advance();
        }
    }
}

/// A position among the tiles' sums in tensor memory.
pub struct Sums {
    shared: u32,
    place: Place,
    /// Columns from the sums of one tile to those of the next.
    distance: u32,
}

impl Sums {
    /// Columns of the sums of a tile.
    const COLUMNS: u32 = TILE_N;
    /// Columns of all of them.
    pub const ALL_COLUMNS: u32 = BUFFERS * Self::COLUMNS;

    /// The first position.
    #[inline(always)]
    pub fn new(shared: u32) -> Self {
        Self { shared, place: Place { slot: 0, parity: 0 }, distance: Self::COLUMNS }
    }

    /// The first position, where the sums of two tiles have a [`SEAM`].
    #[inline(always)]
    pub fn with_seam(shared: u32) -> Self {
        Self { distance: Self::COLUMNS - SEAM, ..Self::new(shared) }
    }

    /// Where the sums are in the tensor memory that begins at `memory`.
    #[inline(always)]
    pub fn address(&self, memory: Address) -> Address {
        memory.columns(self.place.slot * self.distance)
    }

    /// Whether the sums are in the second of the two places.
    #[inline(always)]
    pub fn is_second(&self) -> bool {
        self.place.slot != 0
    }

    /// The barrier that says that the seam of these sums has been read.
    #[inline(always)]
    pub fn seam(&self) -> Barrier {
        Barrier { address: self.shared + SEAM_READ + self.place.slot * Barrier::BYTES }
    }

    /// The place before this one.
    #[inline(always)]
    pub fn before(&self) -> Self {
        // The places are two, so the one before is the other; in the same round, if that is the
        // first.
        let place = Place {
            slot: self.place.slot ^ 1,
            parity: if self.is_second() { self.place.parity } else { self.place.parity ^ 1 },
        };
        Self { place, ..*self }
    }

    /// The barrier that says that the sums are complete.
    #[inline(always)]
    pub fn full(&self) -> Barrier {
        Barrier { address: self.shared + SUMS_FULL + self.place.slot * Barrier::BYTES }
    }

    /// The barrier that says that all have read the sums.
    #[inline(always)]
    pub fn empty(&self) -> Barrier {
        Barrier { address: self.shared + SUMS_EMPTY + self.place.slot * Barrier::BYTES }
    }

    /// The parity of the phase in which the sums are complete.
    #[inline(always)]
    pub fn parity(&self) -> u32 {
        self.place.parity
    }

    /// Goes on to the next tile.
    #[inline(always)]
    pub fn advance(&mut self) {
        self.place.advance(BUFFERS);
    }
}

/// A position among the places of block scales in tensor memory, behind the sums. Each has those of
/// 128 rows and 256 columns, four blocks along the reduction.
pub struct Slots {
    shared: u32,
    place: Place,
}

impl Slots {
    /// Columns of 128 rows or columns of a tile.
    const OPERAND_COLUMNS: u32 = 4;
    /// Columns of a place.
    const COLUMNS: u32 = Self::OPERAND_COLUMNS * (1 + TILE_N / TILE_M);
    /// Places: as many as fit beside the sums of two tiles with a seam.
    const COUNT: u32 = SEAM / Self::COLUMNS;

    /// The first position.
    #[inline(always)]
    pub fn new(shared: u32) -> Self {
        Self { shared, place: Place { slot: 0, parity: 0 } }
    }

    /// Where the scales of the left operand are in the tensor memory that begins at `memory`, and
    /// those of each half of the right operand.
    #[inline(always)]
    pub fn addresses(&self, memory: Address) -> [Address; 3] {
        let scales = memory.columns(Sums::ALL_COLUMNS - SEAM + self.place.slot * Self::COLUMNS);
        [0, 1, 2].map(|i| scales.columns(i * Self::OPERAND_COLUMNS))
    }

    /// The barrier that says that all products have read the scales.
    #[inline(always)]
    pub fn empty(&self) -> Barrier {
        Barrier { address: self.shared + SLOT_EMPTY + self.place.slot * Barrier::BYTES }
    }

    /// Waits until the place may be written.
    ///
    /// # Safety
    ///
    /// Only the thread that multiplies calls it.
    #[inline(always)]
    pub unsafe fn wait_empty(&self) {
        // SAFETY: of the phase before the first, nobody waits for the end.
        unsafe { self.empty().wait(self.place.parity ^ 1) }
    }

    /// Goes on to the next place.
    #[inline(always)]
    pub fn advance(&mut self) {
        self.place.advance(Self::COUNT);
    }
}

/// A position among the tasks.
pub struct Tasks {
    shared: u32,
    place: Place,
}

impl Tasks {
    /// The first position.
    #[inline(always)]
    pub fn new(shared: u32) -> Self {
        Self { shared, place: Place { slot: 0, parity: 0 } }
    }

    #[inline(always)]
    fn task(&self) -> u32 {
        self.shared + TASK_ROOM + self.place.slot * Task::BYTES
    }

    #[inline(always)]
    fn full(&self) -> Barrier {
        Barrier { address: self.shared + TASK_FULL + self.place.slot * Barrier::BYTES }
    }

    #[inline(always)]
    fn empty(&self) -> Barrier {
        Barrier { address: self.shared + TASK_EMPTY + self.place.slot * Barrier::BYTES }
    }

    /// Says that `task` comes next.
    ///
    /// # Safety
    ///
    /// One thread of the block calls it.
    #[inline(always)]
    pub unsafe fn push(&mut self, task: &Task) {
        // SAFETY: the place is free when all have read what was there.
        unsafe {
            self.empty().wait(self.place.parity ^ 1);
            task.write(self.task());
            self.full().arrive();
        }
        self.place.advance(TASKS);
    }

    /// The next task, if there is one more: waits for it.
    ///
    /// # Safety
    ///
    /// The whole warp calls it together, and every warp that reads tasks does until there is none.
    #[inline(always)]
    pub unsafe fn next(&mut self) -> Option<Task> {
        // SAFETY: the task has been written when the barrier says so; all lanes have read it before
        // one of them says that the warp has.
        let task = unsafe {
            self.full().wait(self.place.parity);
            let task = Task::read(self.task());
            warp_barrier();
            if lane_index() == 0 {
                self.empty().arrive();
            }
            task
        };
        self.place.advance(TASKS);
        task
    }
}
