//! Points in a stream.

use std::any::Any;
use std::time::Duration;

use super::context::{Context, Relaxed};
use super::ffi::{CuEvent, CuStream, code, flag};
use crate::backend::{QueueEvent, swapped};
use crate::error::{Error, Result};

/// A driver event, destroyed on drop (which the driver defers until nothing waits for it).
#[derive(Debug)]
pub(super) struct Event {
    context: &'static Context,
    handle: CuEvent,
}

impl Event {
    /// A new point of the stream, with a time stamp.
    ///
    /// # Safety
    /// `stream` is alive, belongs to `context`, and is not capturing.
    pub(super) unsafe fn timed(context: &'static Context, stream: CuStream) -> Result<Self> {
        // SAFETY: the caller's.
        unsafe { Self::record(context, stream, flag::EVENT_DEFAULT) }
    }

    /// A new point of the stream, for ordering only.
    ///
    /// # Safety
    /// As [`Event::timed`].
    pub(super) unsafe fn untimed(context: &'static Context, stream: CuStream) -> Result<Self> {
        // SAFETY: the caller's.
        unsafe { Self::record(context, stream, flag::EVENT_DISABLE_TIMING) }
    }

    unsafe fn record(context: &'static Context, stream: CuStream, flags: u32) -> Result<Self> {
        let driver = context.bind()?;
        let mut event = Self { context, handle: CuEvent::NULL };
        // SAFETY: the driver writes one handle; the stream is alive by the caller's promise.
        unsafe {
            driver.event_create(&mut event.handle, flags)?;
            driver.event_record(event.handle, stream)?;
        }
        Ok(event)
    }

    /// Work added to `stream` from now on waits for the event.
    ///
    /// # Safety
    /// `stream` is alive, of this event's context, and not capturing.
    pub(super) unsafe fn hold_back(&self, stream: CuStream) -> Result<()> {
        let driver = self.context.bind()?;
        // SAFETY: the event is alive as long as `self`, the stream by the caller's promise.
        unsafe { driver.stream_wait_event(stream, self.handle, 0) }
    }

    /// Whether the work before the event is done (or failed).
    pub(super) fn is_done(&self) -> bool {
        let _relaxed = Relaxed::enter(self.context.driver());
        // SAFETY: the event is alive as long as `self`; the call takes no pointers.
        (unsafe { (self.context.driver().table().event_query)(self.handle) }) != code::NOT_READY
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let (false, Ok(driver)) = (self.handle.is_null(), self.context.bind()) {
            // SAFETY: created by `record`, destroyed here only. A failure leaves nothing to do.
            let _ = unsafe { driver.event_destroy(self.handle) };
        }
    }
}

impl QueueEvent for Event {
    fn elapsed_until(&self, later: &dyn QueueEvent) -> Result<Duration> {
        let Some(later) = later.as_any().downcast_ref::<Self>() else {
            return Err(Error::invalid("elapsed_until: the later event is no CUDA event"));
        };
        let driver = self.context.bind()?;
        let mut milliseconds = 0.0;
        // SAFETY: both events are alive and recorded; the driver writes one `float`.
        unsafe {
            driver.event_synchronize(self.handle)?;
            driver.event_synchronize(later.handle)?;
            driver.event_elapsed_time(&mut milliseconds, self.handle, later.handle)?;
        }
        Duration::try_from_secs_f64(f64::from(milliseconds) / 1e3).map_err(|_| swapped())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
