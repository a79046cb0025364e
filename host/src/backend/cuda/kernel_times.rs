//! How long each kernel of a stream takes, while somebody wants to know.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use grouped_linear_kernels::variants::Kernel;

use super::event::Event;
use super::lock;
use crate::backend::{KernelTime, QueueEvent};
use crate::error::{Error, Result};

/// The kernels that were launched since somebody began to time them. Used under the stream's turn.
#[derive(Debug, Default)]
pub(super) struct KernelTimes {
    active: AtomicBool,
    timed: Mutex<Vec<Timed>>,
}

/// A launch, and the points of the stream before and behind it.
#[derive(Debug)]
struct Timed {
    kernel: &'static Kernel,
    before: Event,
    behind: Event,
}

impl KernelTimes {
    pub(super) fn begin(&self) -> Result<()> {
        if self.active.swap(true, Ordering::Relaxed) {
            return Err(Error::invalid(
                "the kernels of this stream are being timed already; end that first",
            ));
        }
        Ok(())
    }

    pub(super) fn is_active(&self) -> bool {
        self.active.load(Ordering::Relaxed)
    }

    /// Refuses what would leave kernels out of the list.
    pub(super) fn refuse(&self, what: &str) -> Result<()> {
        if self.is_active() {
            return Err(Error::unsupported(format!(
                "{what} while the kernels of the stream are timed one by one is not possible; do it \
                 before or after"
            )));
        }
        Ok(())
    }

    pub(super) fn add(&self, kernel: &'static Kernel, before: Event, behind: Event) {
        lock(&self.timed).push(Timed { kernel, before, behind });
    }

    /// Ends it. The times are to be waited for outside of the turn.
    pub(super) fn end(&self) -> impl FnOnce() -> Result<Vec<KernelTime>> + use<> {
        self.active.store(false, Ordering::Relaxed);
        let timed = std::mem::take(&mut *lock(&self.timed));
        move || timed.iter().map(Timed::time).collect()
    }
}

impl Timed {
    fn time(&self) -> Result<KernelTime> {
        let Self { kernel, before, behind } = self;
        let (name, role, time) = (kernel.name, kernel.role, before.elapsed_until(behind)?);
        Ok(KernelTime { name, role, time })
    }
}
