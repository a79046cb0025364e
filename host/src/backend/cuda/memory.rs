//! Device memory: allocated and freed in stream order, or lent by other libraries.
//!
//! A block has a home stream, the one that allocated it and will free it, and users: other streams
//! that worked on it. When the last handle goes, the home stream waits (on the device) for the
//! users and frees. While one of these streams is being captured it takes no such commands, since
//! they would become part of the graph; the release then waits in the context.
//!
//! The other way round, a user's first work waits for the home stream: memory comes in the home
//! stream's order, so that work on a tensor that had the same bytes before may still be pending.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};

use super::context::{Context, Obstacle};
use super::event::Event;
use super::lock;
use super::stream_core::StreamCore;
use crate::tensor::{DeviceMemory, Memory};

/// What a tensor holds on to.
#[derive(Debug)]
pub(super) struct Allocation(Arc<Block>);

impl Allocation {
    pub(super) fn memory(block: Arc<Block>) -> Memory {
        Memory::Device(Arc::new(Self(block)))
    }
}

impl DeviceMemory for Allocation {
    fn address(&self) -> u64 {
        self.0.address
    }

    fn note_use(&self, queue: u64) {
        self.0.note_use(queue);
    }
}

/// Some device memory.
pub(super) struct Block {
    context: &'static Context,
    address: u64,
    /// Frees the memory; `None` for memory that is not ours.
    home: Option<Arc<StreamCore>>,
    users: Mutex<Vec<User>>,
    keep_alive: Option<KeepAlive>,
}

/// A stream that works on something. It may go first: its destructor waits for the work, and only
/// then does its number leave the context.
#[derive(Clone, Debug)]
pub(super) struct User {
    number: u64,
    stream: Weak<StreamCore>,
}

impl User {
    /// Notes a stream among the users unless it is there; forgets those that are gone.
    pub(super) fn note(users: &mut Vec<Self>, stream: &Arc<StreamCore>) {
        if !users.iter().any(|known| known.number == stream.number()) {
            users.retain(|user| stream.context().is_registered(user.number));
            users.push(Self { number: stream.number(), stream: Arc::downgrade(stream) });
        }
    }
}

/// An object that must outlive the device's work.
pub(super) type KeepAlive = Arc<dyn Any + Send + Sync>;

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Block {
    /// Memory that `home` has allocated and shall free. Address 0 stands for no bytes at all.
    pub(super) fn owned(home: &Arc<StreamCore>, address: u64) -> Arc<Self> {
        Arc::new(Self {
            context: home.context(),
            address,
            home: (address != 0).then(|| home.clone()),
            users: Mutex::default(),
            keep_alive: None,
        })
    }

    /// Memory of somebody else, who frees it with `keep_alive`.
    pub(super) fn lent(
        context: &'static Context,
        address: u64,
        keep_alive: KeepAlive,
    ) -> Arc<Self> {
        let keep_alive = Some(keep_alive);
        Arc::new(Self { context, address, home: None, users: Mutex::default(), keep_alive })
    }

    pub(super) fn address(&self) -> u64 {
        self.address
    }

    fn note_use(self: &Arc<Self>, queue: u64) {
        if let Some(home) = &self.home
            && home.number() == queue
        {
            if home.is_recording() {
                home.keep(self);
            }
            return;
        }
        if let Some(user) = self.user(queue)
            && user.is_recording()
        {
            user.keep(self);
        }
    }

    /// The stream of that number, noted as a user.
    fn user(&self, queue: u64) -> Option<Arc<StreamCore>> {
        let mut users = lock(&self.users);
        if let Some(known) = users.iter().find(|user| user.number == queue) {
            return known.stream.upgrade();
        }
        let user = self.context.stream(queue)?;
        User::note(&mut users, &user);
        drop(users);
        if let Some(home) = &self.home {
            home.precede(&user);
        }
        Some(user)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let users = std::mem::take(&mut *lock(&self.users));
        let (context, address) = (self.context, self.address);
        let (home, keep_alive) = (self.home.take(), self.keep_alive.take());
        Release { context, address, home, users, keep_alive }.run();
    }
}

/// What has to happen once nobody holds a resource: wait for the streams that use it, then free the
/// memory and drop the object.
pub(super) struct Release {
    pub context: &'static Context,
    pub address: u64,
    pub home: Option<Arc<StreamCore>>,
    pub users: Vec<User>,
    pub keep_alive: Option<KeepAlive>,
}

impl fmt::Debug for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Release").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Release {
    /// Runs from destructors, so failures have nobody to go to: the driver reports what is wrong
    /// with a context on every later call, and memory that could not be freed stays allocated.
    pub(super) fn run(self) {
        let mut release = self;
        let mut events = Vec::with_capacity(release.users.len());
        for user in release.users.clone() {
            let Some(stream) = user.stream.upgrade() else {
                let context = release.context;
                if context.is_registered(user.number) {
                    context.defer(Obstacle::Drop(user.number), release);
                    context.run_deferred(); // it may have gone in between
                    return;
                }
                continue;
            };
            match stream.mark_or_defer(release) {
                Some((marked, event)) => {
                    release = marked;
                    events.extend(event);
                }
                None => return,
            }
        }
        match release.home.clone() {
            Some(home) => home.free_or_defer(release, &events),
            None => release.retire(events),
        }
    }

    /// Drops the object once the events are done, without waiting.
    fn retire(self, events: Vec<Event>) {
        if let Some(keep_alive) = self.keep_alive {
            self.context.retire(Retired { events, _keep_alive: keep_alive });
        }
    }
}

/// An object that waits for the device.
pub(super) struct Retired {
    events: Vec<Event>,
    _keep_alive: KeepAlive,
}

impl fmt::Debug for Retired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retired").field("events", &self.events).finish_non_exhaustive()
    }
}

impl Retired {
    pub(super) fn is_done(&self) -> bool {
        self.events.iter().all(Event::is_done)
    }
}
