//! Turns at a stream.

use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use super::lock;

/// One thread at a time adds work to a stream: an operation is several launches that share scratch
/// memory. The same thread may take its turn again inside.
#[derive(Debug, Default)]
pub(super) struct Turn {
    holder: AtomicUsize,
    lock: Mutex<()>,
}

/// The turn is over when this goes.
#[must_use]
pub(super) struct TurnGuard<'a> {
    turn: &'a Turn,
    lock: Option<MutexGuard<'a, ()>>,
}

impl Turn {
    pub(super) fn take(&self) -> TurnGuard<'_> {
        thread_local!(static TOKEN: u8 = const { 0 });
        let me = TOKEN.with(|token| ptr::from_ref(token).addr());
        // Only this thread stores this value, so a relaxed load decides.
        if self.holder.load(Ordering::Relaxed) == me {
            return TurnGuard { turn: self, lock: None };
        }
        let guard = lock(&self.lock);
        self.holder.store(me, Ordering::Relaxed);
        TurnGuard { turn: self, lock: Some(guard) }
    }
}

impl TurnGuard<'_> {
    /// Whether the thread had the turn already.
    pub(super) fn nested(&self) -> bool {
        self.lock.is_none()
    }
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        if self.lock.is_some() {
            self.turn.holder.store(0, Ordering::Relaxed);
        }
    }
}
