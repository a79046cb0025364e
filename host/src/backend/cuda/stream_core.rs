//! What a CUDA stream owns: its handle, scratch memory, status block, and the state of a capture.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use super::context::{Context, Obstacle, Relaxed};
use super::driver::Driver;
use super::event::Event;
use super::ffi::{CuContext, CuGraph, CuStream, flag};
use super::kernel_times::KernelTimes;
use super::lock;
use super::memory::{Block, KeepAlive, Release};
use super::sequence::Sequences;
use super::status::StatusBlock;
use crate::backend::turn::{Turn, TurnGuard};
use crate::error::{Error, Result};
use crate::launch::batch::{Batch, Collecting, nested};

/// The least scratch memory that a stream or a graph gets.
const MIN_WORKSPACE: usize = 64 << 10;
/// Above this size scratch memory grows in multiples of it, below in powers of two.
const WORKSPACE_STEP: usize = 2 << 20;

/// A stream. Memory holds its home, so a stream outlives all memory that it has to free. Other
/// streams that work on memory may go before it, since they wait for their work.
#[derive(Debug)]
pub(super) struct StreamCore {
    context: &'static Context,
    handle: CuStream,
    number: u64,
    /// Set if the handle belongs to another library, which this keeps alive.
    lender: Option<KeepAlive>,
    status: Arc<StatusBlock>,
    turn: Turn,
    /// Whether `state.capture` is set; changes under `turn`.
    recording: AtomicBool,
    /// Used under `turn`.
    sequences: Mutex<Sequences>,
    times: KernelTimes,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    workspace: Option<Region>,
    /// Addresses of scratch memory that was too small, but which graphs of the lender use.
    parked: Vec<u64>,
    /// The most scratch memory that was asked for, by an operation or by several handed over
    /// together.
    high_water: usize,
    capture: Option<Capture>,
    /// Operations that will be handed over together.
    batch: Option<Batch>,
    /// Status blocks of graphs replayed here since the last synchronisation.
    replayed: Vec<Arc<StatusBlock>>,
}

#[derive(Clone, Copy, Debug)]
struct Region {
    address: u64,
    bytes: usize,
    /// Whether a graph of the lender uses it.
    pinned: bool,
}

/// What recorded work uses; the graph owns it afterwards. Scratch memory and status block are the
/// graph's own, so that replays and eager work on any stream never share them.
#[derive(Debug)]
pub(super) struct Capture {
    pub workspace: Arc<Block>,
    pub workspace_bytes: usize,
    pub status: Arc<StatusBlock>,
    pub kept: HashMap<usize, Arc<Block>>,
}

impl StreamCore {
    /// A stream of our own, unordered with the legacy default stream.
    pub(super) fn create(context: &'static Context) -> Result<Arc<Self>> {
        let status = StatusBlock::new(context)?;
        let driver = context.bind()?;
        let mut handle = CuStream::NULL;
        // SAFETY: writes one handle, which `Drop` destroys.
        unsafe { driver.stream_create(&mut handle, flag::STREAM_NON_BLOCKING)? };
        Ok(Self::with_handle(context, handle, status, None))
    }

    /// The stream of another library.
    ///
    /// # Safety
    /// `handle` is a live stream as long as `lender` is, or null for the legacy default stream.
    pub(super) unsafe fn borrow(
        context: &'static Context,
        handle: CuStream,
        lender: KeepAlive,
    ) -> Result<Arc<Self>> {
        if handle.raw().addr() == flag::STREAM_PER_THREAD {
            return Err(Error::invalid(
                "the per-thread default stream (handle 2) is another stream on every thread; \
                 create a stream and pass that",
            ));
        }
        let driver = context.bind()?;
        let mut found = CuContext::NULL;
        // SAFETY: the handle is alive by the caller's promise; writes one handle.
        unsafe { driver.stream_get_ctx(handle, &mut found)? };
        if found != context.handle() {
            return Err(Error::invalid(format!(
                "the stream belongs to another context than the primary context of {}; \
                 create it there",
                context.id()
            )));
        }
        let status = StatusBlock::new(context)?;
        Ok(Self::with_handle(context, handle, status, Some(lender)))
    }

    fn with_handle(
        context: &'static Context,
        handle: CuStream,
        status: StatusBlock,
        lender: Option<KeepAlive>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            context,
            handle,
            number: context.register(this),
            lender,
            status: Arc::new(status),
            turn: Turn::default(),
            recording: AtomicBool::new(false),
            sequences: Mutex::default(),
            times: KernelTimes::default(),
            state: Mutex::default(),
        })
    }

    pub(super) fn context(&self) -> &'static Context {
        self.context
    }

    pub(super) fn handle(&self) -> CuStream {
        self.handle
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The operations that were launched here.
    pub(super) fn sequences(&self) -> MutexGuard<'_, Sequences> {
        lock(&self.sequences)
    }

    /// How long kernels take; used under the turn.
    pub(super) fn times(&self) -> &KernelTimes {
        &self.times
    }

    /// Lets this thread alone add work until the guard goes; nests. Makes the context current.
    pub(super) fn turn(&self) -> Result<(TurnGuard<'_>, &'static Driver)> {
        let turn = self.turn.take();
        let driver = if turn.nested() { self.context.driver() } else { self.context.bind()? };
        Ok((turn, driver))
    }

    /// A turn for work that cannot be recorded.
    pub(super) fn eager(&self, what: &str) -> Result<(TurnGuard<'_>, &'static Driver)> {
        let (turn, driver) = self.turn()?;
        if self.is_capturing() {
            return Err(Error::unsupported(format!(
                "{what} cannot be recorded in a graph; do it before or after the capture"
            )));
        }
        Ok((turn, driver))
    }

    /// Whether [`StreamCore::begin_capture`] is in effect.
    pub(super) fn is_recording(&self) -> bool {
        self.recording.load(Ordering::Relaxed)
    }

    /// Whether work is being recorded, be it by the library that lent the stream.
    pub(super) fn is_capturing(&self) -> bool {
        self.is_recording() || self.lender_captures()
    }

    fn lender_captures(&self) -> bool {
        if self.lender.is_none() {
            return false;
        }
        let mut status = flag::CAPTURE_STATUS_NONE;
        // The legacy default stream is that of the current context.
        let asked = self.context.bind().and_then(|driver| {
            // SAFETY: the stream is alive as long as `self`; writes one number.
            unsafe { driver.stream_is_capturing(self.handle, &mut status) }
        });
        // On failure (the legacy default stream while another one is captured) work could not be
        // added either.
        asked.is_err() || status != flag::CAPTURE_STATUS_NONE
    }

    /// What `allocate` gives; where there is no memory, what it gives once dropped graphs whose
    /// replays have ended have left theirs.
    fn with_retired<T>(&self, allocate: impl Fn() -> Result<T>) -> Result<T> {
        match allocate() {
            Err(error) if error.is_out_of_memory() && self.context.collect_retired() => {
                self.context.run_deferred();
                allocate()
            }
            outcome => outcome,
        }
    }

    /// Memory with this stream as its home.
    pub(super) fn allocate(self: &Arc<Self>, bytes: usize) -> Result<Arc<Block>> {
        self.with_retired(|| self.allocate_once(bytes))
    }

    fn allocate_once(self: &Arc<Self>, bytes: usize) -> Result<Arc<Block>> {
        if bytes == 0 {
            return Ok(Block::owned(self, 0));
        }
        self.context.run_deferred();
        let state = lock(&self.state);
        if state.capture.is_some() || self.lender_captures() {
            return Err(Error::unsupported(
                "memory cannot be allocated while work is being recorded; allocate outputs before \
                 the capture and pass them to the operation",
            ));
        }
        // SAFETY: the stream is alive as long as `self` and, under the lock, not capturing.
        let address = unsafe { self.context.allocate(self.handle, bytes)? };
        Ok(Block::owned(self, address))
    }

    /// Has operations collected, for [`StreamCore::with_batch`] to find, until the guard goes; the
    /// caller has the turn.
    pub(super) fn begin_batch(&self) -> Result<Collecting<impl Fn() -> Option<Batch>>> {
        let batch = &mut lock(&self.state).batch;
        if batch.is_some() {
            return Err(nested());
        }
        *batch = Some(Batch::default());
        // Taken out under the lock and dropped behind it, which freeing what a batch holds takes
        // itself.
        Ok(Collecting::new(|| lock(&self.state).batch.take()))
    }

    /// What `act` gives for the batch, if operations are collected.
    pub(super) fn with_batch<R>(&self, act: impl FnOnce(&mut Batch) -> R) -> Option<R> {
        lock(&self.state).batch.as_mut().map(act)
    }

    /// Address of scratch memory; the caller has the turn.
    pub(super) fn workspace(self: &Arc<Self>, bytes: usize) -> Result<u64> {
        let taken = self.with_batch(|batch| batch.take_scratch(bytes));
        let [start, bytes] = taken.unwrap_or([0, bytes]);
        let scratch = || {
            let state = &mut *lock(&self.state);
            let address = self.scratch(state, bytes)?;
            // What a capture takes beforehand: no more than there has been room for.
            state.high_water = state.high_water.max(bytes);
            Ok(address)
        };
        self.with_retired(scratch).map(|address| address + start as u64)
    }

    /// Address of so many bytes for one operation, or for all of a batch.
    fn scratch(self: &Arc<Self>, state: &mut State, bytes: usize) -> Result<u64> {
        let capturing = state.capture.is_some() || self.lender_captures();
        match (&state.capture, &mut state.workspace) {
            (Some(capture), _) if capture.workspace_bytes >= bytes => {
                return Ok(capture.workspace.address());
            }
            (None, Some(region)) if region.bytes >= bytes => {
                region.pinned |= capturing;
                return Ok(region.address);
            }
            _ => {}
        }
        if capturing {
            return Err(Error::unsupported(format!(
                "{bytes} bytes of scratch memory are needed, which cannot be allocated \
                 while work is being recorded; run the work once before the capture"
            )));
        }
        let bytes = if bytes > WORKSPACE_STEP {
            bytes.next_multiple_of(WORKSPACE_STEP)
        } else {
            bytes.next_power_of_two().max(MIN_WORKSPACE)
        };
        // SAFETY: as in `allocate`.
        let address = unsafe { self.context.allocate(self.handle, bytes)? };
        match state.workspace.replace(Region { address, bytes, pinned: false }) {
            Some(old) if old.pinned => state.parked.push(old.address),
            // Earlier operations of the batch have its address.
            Some(old) if state.batch.is_some() => {
                if let Some(batch) = &mut state.batch {
                    batch.keep(Block::owned(self, old.address));
                }
            }
            // SAFETY: allocated here, used on this stream alone, so this order is the right one.
            Some(old) => unsafe { self.context.driver().mem_free_async(old.address, self.handle)? },
            None => {}
        }
        Ok(address)
    }

    /// Address of the status block for work added now.
    pub(super) fn status_address(&self) -> u64 {
        match &lock(&self.state).capture {
            Some(capture) => capture.status.address(),
            None => self.status.address(),
        }
    }

    /// Synchronisations of this stream shall read the block, too.
    pub(super) fn add_status(&self, status: &Arc<StatusBlock>) {
        let mut state = lock(&self.state);
        if !state.replayed.iter().any(|known| Arc::ptr_eq(known, status)) {
            state.replayed.push(status.clone());
        }
    }

    /// Waits for the work added so far; reports bad splits once.
    pub(super) fn synchronize(&self) -> Result<()> {
        let driver = self.context.bind()?;
        // Taken before waiting: what is added meanwhile belongs to the next synchronisation.
        let replayed = std::mem::take(&mut lock(&self.state).replayed);
        // SAFETY: the stream is alive as long as `self`.
        unsafe { driver.stream_synchronize(self.handle)? };
        let mut outcome = self.status.take();
        for status in &replayed {
            outcome = outcome.and(status.take());
        }
        self.context.run_deferred();
        self.context.collect_retired();
        outcome
    }

    /// Holds a block until the capture's graph goes.
    pub(super) fn keep(&self, block: &Arc<Block>) {
        if let Some(capture) = &mut lock(&self.state).capture {
            capture.kept.entry(Arc::as_ptr(block).addr()).or_insert_with(|| block.clone());
        }
    }

    /// Has `user`, which works for the first time on memory whose home this is, wait for the work
    /// so far: the bytes may have been another tensor's. The caller has `user`'s turn.
    pub(super) fn precede(&self, user: &Self) {
        if self.handle == user.handle {
            return;
        }
        let state = lock(&self.state);
        // What lies before a capture of ours is done, see `begin_capture`. For the lender's there
        // is no remedy: `stream_from_raw` demands that nobody does this.
        if state.capture.is_some() || self.lender_captures() {
            return;
        }
        let Ok(driver) = self.context.bind() else { return };
        // SAFETY: both streams are alive; neither is capturing when this is called: this one under
        // the lock, the user's since its turn is the caller's.
        let wait = || unsafe {
            Event::untimed(self.context, self.handle).and_then(|event| event.hold_back(user.handle))
        };
        // A graph cannot wait for work outside it; without an event there is no other way, either.
        if user.is_capturing() || wait().is_err() {
            let _relaxed = Relaxed::enter(driver);
            // SAFETY: as above. If it fails, so will the work to come.
            let _ = unsafe { driver.stream_synchronize(self.handle) };
        }
    }

    /// Gives the release back with an event after all work on the stream, or without one if that
    /// work is done; defers it if the stream is being captured.
    pub(super) fn mark_or_defer(
        self: &Arc<Self>,
        release: Release,
    ) -> Option<(Release, Option<Event>)> {
        let state = lock(&self.state);
        if state.capture.is_some() || self.lender_captures() {
            self.context.defer(Obstacle::Capture(self.clone()), release);
            return None;
        }
        // SAFETY: the stream is alive as long as `self` and, under the lock, not capturing.
        let event = unsafe { Event::untimed(self.context, self.handle) };
        if event.is_err() {
            // SAFETY: as above. If this fails, too, the driver has failed for good.
            let _ = unsafe { self.context.driver().stream_synchronize(self.handle) };
        }
        Some((release, event.ok()))
    }

    /// Frees memory whose home this is, after the events; defers that if the stream is being
    /// captured.
    pub(super) fn free_or_defer(self: &Arc<Self>, release: Release, events: &[Event]) {
        let state = lock(&self.state);
        if state.capture.is_some() || self.lender_captures() {
            self.context.defer(Obstacle::Capture(self.clone()), release);
            return;
        }
        let Ok(driver) = self.context.bind() else { return };
        for event in events {
            // SAFETY: the stream is alive as long as `self` and, under the lock, not capturing.
            let _ = unsafe { event.hold_back(self.handle) };
        }
        // SAFETY: the address came from `allocate`, and `Block` releases it once. All work that
        // uses it lies before on this stream or before the events.
        let _ = unsafe { driver.mem_free_async(release.address, self.handle) };
        drop(state);
        drop(release); // may hold the last handle to this very stream
    }

    /// Starts recording.
    pub(super) fn begin_capture(self: &Arc<Self>) -> Result<()> {
        let (_turn, driver) = self.eager("a capture within a capture")?;
        self.times.refuse("a capture")?;
        let workspace_bytes = lock(&self.state).high_water.max(MIN_WORKSPACE);
        let capture = Capture {
            workspace: self.allocate(workspace_bytes)?,
            workspace_bytes,
            status: Arc::new(StatusBlock::new(self.context)?),
            kept: HashMap::new(),
        };
        let mut state = lock(&self.state);
        // The graph may run on any stream, so its memory must exist for all of them.
        // SAFETY: the stream is alive as long as `self`.
        unsafe { driver.stream_synchronize(self.handle)? };
        // SAFETY: as above. Thread-local: other threads may call what they like meanwhile.
        let begun = unsafe { driver.stream_begin_capture(self.handle, flag::CAPTURE_THREAD_LOCAL) };
        if begun.is_ok() {
            state.capture = Some(capture);
            self.recording.store(true, Ordering::Relaxed);
            return Ok(());
        }
        drop(state); // before `capture`, whose memory is released through this stream
        begun
    }

    /// Ends recording, whether or not the work succeeded: afterwards the stream is usable again.
    pub(super) fn end_capture(&self) -> Result<(Capture, CuGraph)> {
        let (_turn, driver) = self.turn()?;
        let mut graph = CuGraph::NULL;
        let (capture, ended) = {
            let mut state = lock(&self.state);
            let Some(capture) = state.capture.take() else {
                return Err(Error::invalid("no capture has begun on this stream"));
            };
            self.recording.store(false, Ordering::Relaxed);
            // SAFETY: the stream is alive as long as `self`; writes one handle.
            (capture, unsafe { driver.stream_end_capture(self.handle, &mut graph) })
        };
        self.context.run_deferred();
        ended?;
        if graph == CuGraph::NULL {
            return Err(Error::invalid("the driver recorded no graph; the work did not succeed"));
        }
        Ok((capture, graph))
    }
}

impl Drop for StreamCore {
    fn drop(&mut self) {
        let driver = self.context.driver();
        let _relaxed = Relaxed::enter(driver);
        let state = std::mem::take(self.state.get_mut().unwrap_or_else(|state| state.into_inner()));
        // SAFETY: nobody else has the handle's owner any more, so this is its last use.
        let ended = self.context.bind().is_ok()
            && !self.lender_captures()
            && unsafe { driver.stream_synchronize(self.handle) }.is_ok();
        if ended {
            let current = state.workspace.map(|region| region.address);
            for address in state.parked.iter().copied().chain(current) {
                // SAFETY: as above; scratch memory was used on this stream alone.
                let _ = unsafe { driver.mem_free_async(address, self.handle) };
            }
        }
        if self.lender.is_none() {
            // SAFETY: as above. In a destructor failures have nobody to go to.
            let _ = unsafe { driver.stream_destroy(self.handle) };
        }
        if !ended {
            // Work that is pending, or that the lender is recording, may use scratch memory and
            // write status blocks, and a stream that is being captured can neither be waited for
            // nor free. So they leak; and the stream stays registered, so that memory on which it
            // worked is not freed, either.
            std::mem::forget((state, self.status.clone()));
            return;
        }
        self.context.unregister(self.number);
        self.context.run_deferred();
        self.context.collect_retired();
    }
}
