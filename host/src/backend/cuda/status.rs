//! Status blocks: where set-up kernels report bad splits, in pinned host memory, so that the host
//! reads them after a synchronisation without a copy.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fmt, ptr};

use grouped_linear_kernels::abi::{self, status};

use super::context::{Context, Relaxed};
use super::ffi::flag;
use super::lock;
use crate::error::{Error, Result};
use crate::setup;

/// Bytes of one page of blocks.
const PAGE_BYTES: usize = 4096;

const _: () = assert!(std::mem::offset_of!(abi::Status, code) == 0);

/// Free blocks of one device. Pages are kept for the life of the process, like the device:
/// freeing pinned memory would make the whole device wait.
#[derive(Debug, Default)]
pub(super) struct StatusPool {
    free: Mutex<Vec<Slot>>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    host: *mut abi::Status,
    device: u64,
}

// SAFETY: `host` points into pinned memory that is never freed; a slot is in the pool or in one
// `StatusBlock`, whose volatile accesses race only with the device's.
unsafe impl Send for Slot {}
// SAFETY: as for `Send`; `&Slot` gives no access to the memory by itself.
unsafe impl Sync for Slot {}

/// One block, all zero when new; returns to the pool on drop. Whoever owns it sees to it that the
/// work that writes it has ended by then.
pub(super) struct StatusBlock {
    context: &'static Context,
    slot: Slot,
}

impl fmt::Debug for StatusBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StatusBlock({:#x})", self.slot.device)
    }
}

impl StatusBlock {
    pub(super) fn new(context: &'static Context) -> Result<Self> {
        let mut free = lock(&context.statuses().free);
        if free.is_empty() {
            *free = new_page(context)?;
        }
        let slot = free.pop().ok_or_else(|| Error::unsupported("a page without status blocks"))?;
        drop(free);
        // SAFETY: the slot is ours alone, see `Slot`.
        unsafe { ptr::write_volatile(slot.host, abi::Status::default()) };
        Ok(Self { context, slot })
    }

    /// Address for the device.
    pub(super) fn address(&self) -> u64 {
        self.slot.device
    }

    /// Reads and clears the block. The work concerned has been synchronised with; other work may
    /// report at the same time, so only the code is cleared, which set-up kernels write last.
    pub(super) fn take(&self) -> Result<()> {
        // SAFETY: the block is alive and aligned; its first word is the code, which both sides
        // access atomically only.
        let code = unsafe { AtomicU32::from_ptr(self.slot.host.cast::<u32>()) };
        if code.load(Ordering::Acquire) == status::OK {
            return Ok(());
        }
        // SAFETY: as above; while the code is set, no kernel writes the rest. Volatile, since the
        // device wrote it.
        let found = unsafe { ptr::read_volatile(self.slot.host) };
        code.store(status::OK, Ordering::Release);
        Err(setup::splits_error(&found))
    }
}

impl Drop for StatusBlock {
    fn drop(&mut self) {
        lock(&self.context.statuses().free).push(self.slot);
    }
}

fn new_page(context: &'static Context) -> Result<Vec<Slot>> {
    let driver = context.bind()?;
    let _relaxed = Relaxed::enter(driver);
    let (mut host, mut device) = (ptr::null_mut(), 0);
    let flags = flag::HOST_ALLOC_PORTABLE | flag::HOST_ALLOC_DEVICE_MAP;
    // SAFETY: the driver writes one pointer and one address into the locals. The page stays
    // allocated for ever.
    unsafe {
        driver.mem_host_alloc(&mut host, PAGE_BYTES, flags)?;
        driver.mem_host_get_device_pointer(&mut device, host, 0)?;
    }
    let size = size_of::<abi::Status>();
    let slots = (0..PAGE_BYTES / size).map(|index| Slot {
        host: host.cast::<abi::Status>().wrapping_add(index),
        device: device + (index * size) as u64,
    });
    Ok(slots.collect())
}
