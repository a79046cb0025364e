//! The ring of stages between the warp that copies and those that multiply.

use core::marker::PhantomData;

use ptx_std::mbarrier::Barrier;

use super::super::scales::SCALE_BYTES;
use super::super::shape::CONSUMER_WARPS;
use super::super::task::Task;
use super::boxes::BOX_BYTES;
use super::{A_BYTES, B_BYTES};

/// Bytes of a stage.
pub const STAGE_BYTES: u32 = A_BYTES + B_BYTES;

/// How a block divides its shared memory: stages, boxes of the output, barriers, tasks, scales.
pub trait Rooms {
    /// Stages of the ring.
    const STAGES: u32;
    /// Boxes of a warp that multiplies.
    const BOXES: u32;

    /// Where boxes of the output stand, behind the stages.
    const STAGING: u32 = Self::STAGES * STAGE_BYTES;
    /// Where the barriers stand.
    const BARRIERS: u32 = Self::STAGING + CONSUMER_WARPS * Self::BOXES * BOX_BYTES;
    /// Where the tasks stand, one beside each stage.
    const TASKS: u32 = Self::BARRIERS + 2 * Self::STAGES * Barrier::BYTES;
    /// Dynamic shared memory of the kernels; the table of kernels rounds it up to 128.
    const SHARED_BYTES: u32 = Self::TASKS + Self::STAGES * Task::BYTES;
    /// Where the scales stand, if a stage brings any: behind the barriers, aligned for copies.
    const SCALES: u32 = Self::SHARED_BYTES.next_multiple_of(128);
    /// Dynamic shared memory of the kernels whose stages bring scales.
    const SCALED_SHARED_BYTES: u32 = Self::SCALES + Self::STAGES * SCALE_BYTES;
}

/// Where stages bring no scales: boxes for half of a tile, since the halves leave one after the
/// other.
pub struct DeepRing;

impl Rooms for DeepRing {
    const STAGES: u32 = 4;
    const BOXES: u32 = 2;
}

/// Where stages bring scales, for which four stages leave no room: boxes for all of a tile.
pub struct WideBoxes;

impl Rooms for WideBoxes {
    const STAGES: u32 = 3;
    const BOXES: u32 = 4;
}

const _: () = assert!(STAGE_BYTES.is_multiple_of(1024), "swizzled tiles start at 1024 bytes");

/// A position in the ring and the parity to wait for there.
pub struct Ring<R> {
    shared: u32,
    slot: u32,
    /// The parity of the phase to wait for.
    pub parity: u32,
    rooms: PhantomData<R>,
}

impl<R: Rooms> Ring<R> {
    /// The first position in the ring at `shared`: with parity 1 for the producer, 0 for consumers.
    #[inline(always)]
    pub fn new(shared: u32, parity: u32) -> Self {
        Self { shared, slot: 0, parity, rooms: PhantomData }
    }

    /// Prepares the barriers of all stages.
    ///
    /// # Safety
    ///
    /// As [`Barrier::init`], for the shared memory of the ring.
    #[inline(always)]
    pub unsafe fn init(shared: u32) {
        let mut ring = Self::new(shared, 0);
        for _ in 0..R::STAGES {
            // SAFETY: handed to the caller.
            unsafe {
                ring.full().init(1);
                ring.empty().init(CONSUMER_WARPS);
            }
            ring.advance();
        }
    }

    /// Address of the stage.
    #[inline(always)]
    pub fn stage(&self) -> u32 {
        self.shared + self.slot * STAGE_BYTES
    }

    /// Address of the stage's scales, the left operand's first.
    #[inline(always)]
    pub fn scales(&self) -> u32 {
        self.shared + R::SCALES + self.slot * SCALE_BYTES
    }

    /// Address of the task that begins with the stage.
    #[inline(always)]
    pub fn task(&self) -> u32 {
        self.shared + R::TASKS + self.slot * Task::BYTES
    }

    /// The task that begins with this stage, or the end: waits for it.
    ///
    /// # Safety
    ///
    /// The whole warp calls it together, where a task begins.
    #[inline(always)]
    pub unsafe fn next_task(&self) -> Task {
        // SAFETY: the stage is full when the task has been written. The lane that reads the task is
        // the one that gives the stage back.
        unsafe {
            self.full().wait(self.parity);
            Task::read_for_warp(self.task())
        }
    }

    /// The barrier that says that the stage has been filled.
    #[inline(always)]
    pub fn full(&self) -> Barrier {
        Barrier { address: self.shared + R::BARRIERS + self.slot * Barrier::BYTES }
    }

    /// The barrier that says that all have finished with the stage.
    #[inline(always)]
    pub fn empty(&self) -> Barrier {
        Barrier { address: self.full().address + R::STAGES * Barrier::BYTES }
    }

    /// The barrier that says that all have finished with the stage, and the parity to wait for; or
    /// those of the stage `behind` it, with which they finish later.
    #[inline(always)]
    pub fn free(&self, behind: bool) -> (Barrier, u32) {
        let mut stage = Self { ..*self };
        if behind {
            stage.advance();
        }
        (stage.empty(), stage.parity)
    }

    /// Goes on to the next stage.
    #[inline(always)]
    pub fn advance(&mut self) {
        self.slot += 1;
        if self.slot == R::STAGES {
            self.slot = 0;
            self.parity ^= 1;
        }
    }
}
