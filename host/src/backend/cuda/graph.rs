//! Recorded work.

use std::sync::{Arc, Mutex};

use super::context::{Context, Relaxed};
use super::ffi::{CuGraph, CuGraphExec};
use super::lock;
use super::memory::{Release, User};
use super::stream::CudaStream;
use super::stream_core::Capture;
use crate::backend::{Queue, QueueGraph};
use crate::error::{Error, Result};

/// A graph that can run again, on any stream of its device. Dropping it waits for nothing: what it
/// holds goes once its last replay is done.
#[derive(Debug)]
pub(super) struct CudaGraph {
    body: Arc<Body>,
    launched: Mutex<Vec<User>>,
}

/// The graph and all memory that its nodes use: the library's tensors that were noted during the
/// capture, scratch memory and status block.
#[derive(Debug)]
struct Body {
    context: &'static Context,
    exec: CuGraphExec,
    capture: Capture,
}

impl CudaGraph {
    /// Makes a recorded graph executable; takes the recorded one over.
    pub(super) fn new(
        context: &'static Context,
        capture: Capture,
        recorded: CuGraph,
    ) -> Result<Self> {
        let driver = context.bind()?;
        let mut body = Body { context, exec: CuGraphExec::NULL, capture };
        // SAFETY: writes one handle; the executable graph is a copy, so the recorded one can go.
        let made = unsafe {
            let made = driver.graph_instantiate(&mut body.exec, recorded, 0);
            driver.graph_destroy(recorded).and(made)
        };
        made?;
        Ok(Self { body: Arc::new(body), launched: Mutex::default() })
    }
}

impl QueueGraph for CudaGraph {
    fn launch(&self, queue: &dyn Queue) -> Result<()> {
        let stream = queue.as_any().and_then(|queue| queue.downcast_ref::<CudaStream>());
        let Some(CudaStream(stream)) = stream else {
            return Err(Error::invalid("launch: a CUDA graph needs a CUDA stream"));
        };
        let (_turn, driver) = stream.eager("the replay of a graph")?;
        stream.times().refuse("the replay of a graph")?;
        // Held until the launch: of one graph, the driver takes one call at a time.
        let mut launched = lock(&self.launched);
        // Noted before the launch, so that a failure half-way errs on the side of waiting.
        User::note(&mut launched, stream);
        stream.add_status(&self.body.capture.status);
        // SAFETY: graph and stream are alive and of one device; the memory that the nodes use is
        // held by `body` (or lives as long as the graph, as `Stream::capture` demands of lent
        // streams' owners).
        unsafe { driver.graph_launch(self.body.exec, stream.handle()) }
    }
}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        let users = std::mem::take(&mut *lock(&self.launched));
        let (context, keep_alive) = (self.body.context, Some(self.body.clone() as _));
        Release { context, address: 0, home: None, users, keep_alive }.run();
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if let (false, Ok(driver)) = (self.exec.is_null(), self.context.bind()) {
            let _relaxed = Relaxed::enter(driver);
            // SAFETY: instantiated by `new`, destroyed here only, after its last replay.
            let _ = unsafe { driver.graph_exec_destroy(self.exec) };
        }
    }
}
