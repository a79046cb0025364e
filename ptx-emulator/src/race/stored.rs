//! Writes that change nothing.

use super::LANES;
use super::access::{LaneAccess, Place};
use super::observer::{Access, Conflict};
use super::report::RaceKind;
use super::stamp::{Actor, Role, Stamp};

/// What a store writes and what is there, so that a write that changes nothing can be told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored<'a> {
    /// The region's bytes before the store.
    pub(crate) before: &'a [u8],
    /// The bytes written; of an instruction those of all lanes, each as far from the one before.
    pub(crate) after: &'a [u8],
}

impl Stored<'_> {
    /// Whether a conflict is none after all: one ordinary write, or one bulk copy, wrote these
    /// bytes and another would write the same, so that whichever comes first the memory holds the
    /// same. For the hardware that is harmless, and compilers rely on it where warps repeat each
    /// other's work. `own` is where the bytes are in `after`.
    #[cold]
    pub(super) fn excuses(
        &self,
        conflict: &Conflict,
        (earlier, access): (Stamp, &Access),
        (position, length): Place,
        own: u64,
    ) -> bool {
        let is_store = matches!(earlier.agent().actor(), Actor::Warp(_, Role::Generic));
        let is_async = access.stamp.is_async();
        let is_strong = earlier.is_strong() || access.stamp.is_strong();
        let alike = earlier.is_async() == is_async && (is_store || is_async) && !is_strong;
        if conflict.kind != RaceKind::Race || !alike {
            return false;
        }
        let before = slice(self.before, position, length);
        before.is_some() && before == slice(self.after, own, length)
    }

    /// Where a byte of a lane's access is in `after`.
    pub(super) fn of_lane(&self, access: &LaneAccess, lane: u32, position: u64) -> u64 {
        let first = access.addresses.get(lane as usize).copied().unwrap_or(0);
        let stride = (self.after.len() / LANES) as u64;
        (u64::from(lane) * stride).wrapping_add(position.wrapping_sub(first))
    }
}

fn slice(bytes: &[u8], start: u64, length: u64) -> Option<&[u8]> {
    let start = usize::try_from(start).ok()?;
    bytes.get(start..start.checked_add(usize::try_from(length).ok()?)?)
}
