//! The ring of stages between the warp that copies and those that multiply.

use ptx_std::mbarrier::Barrier;
use ptx_std::sync::warp_barrier;

use super::super::scales::SCALE_BYTES;
use super::super::shape::CONSUMER_WARPS;
use super::super::staging::STAGING_BYTES;
use super::super::task::Task;
use super::{A_BYTES, B_BYTES};

/// Stages of the ring.
const STAGES: u32 = 4;
/// Bytes of a stage.
pub const STAGE_BYTES: u32 = A_BYTES + B_BYTES;
/// Where boxes of the output stand, behind the stages.
pub const STAGING: u32 = STAGES * STAGE_BYTES;
/// Where the barriers stand.
const BARRIERS: u32 = STAGING + STAGING_BYTES;
/// Where the tasks stand, one beside each stage.
const TASKS: u32 = BARRIERS + 2 * STAGES * Barrier::BYTES;
/// Dynamic shared memory of the kernels; the table of kernels rounds it up to 128.
pub const SHARED_BYTES: u32 = TASKS + STAGES * Task::BYTES;

/// Where the scales stand, if a stage brings any: behind the barriers, aligned for copies.
const SCALES: u32 = SHARED_BYTES.next_multiple_of(128);
/// Dynamic shared memory of the kernels whose stages bring scales.
pub const SCALED_SHARED_BYTES: u32 = SCALES + STAGES * SCALE_BYTES;

const _: () = assert!(STAGE_BYTES.is_multiple_of(1024), "swizzled tiles start at 1024 bytes");

/// A position in the ring and the parity to wait for there.
pub struct Ring {
    shared: u32,
    slot: u32,
    /// The parity of the phase to wait for.
    pub parity: u32,
}

impl Ring {
    /// The first position in the ring at `shared`: with parity 1 for the producer, 0 for consumers.
    #[inline(always)]
    pub fn new(shared: u32, parity: u32) -> Self {
        Self { shared, slot: 0, parity }
    }

    /// Prepares the barriers of all stages.
    ///
    /// # Safety
    ///
    /// As [`Barrier::init`], for the shared memory of the ring.
    #[inline(always)]
    pub unsafe fn init(shared: u32) {
        let mut ring = Self::new(shared, 0);
        for _ in 0..STAGES {
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
        self.shared + SCALES + self.slot * SCALE_BYTES
    }

    /// Address of the task that begins with the stage.
    #[inline(always)]
    pub fn task(&self) -> u32 {
        self.shared + TASKS + self.slot * Task::BYTES
    }

    /// The task that begins with this stage, if there is one more: waits for it.
    ///
    /// # Safety
    ///
    /// The whole warp calls it together, where a task begins.
    #[inline(always)]
    pub unsafe fn next_task(&self) -> Option<Task> {
        // SAFETY: the stage is full when the task has been written. It is given back by one lane, so
        // the others have read the task before.
        unsafe {
            self.full().wait(self.parity);
            let task = Task::read(self.task());
            warp_barrier();
            task
        }
    }

    /// The barrier that says that the stage has been filled.
    #[inline(always)]
    pub fn full(&self) -> Barrier {
        Barrier { address: self.shared + BARRIERS + self.slot * Barrier::BYTES }
    }

    /// The barrier that says that all have finished with the stage.
    #[inline(always)]
    pub fn empty(&self) -> Barrier {
        Barrier { address: self.full().address + STAGES * Barrier::BYTES }
    }

    /// Goes on to the next stage.
    #[inline(always)]
    pub fn advance(&mut self) {
        self.slot += 1;
        if self.slot == STAGES {
            self.slot = 0;
            self.parity ^= 1;
        }
    }
}
