//! Recorded work.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use super::gpu::{Gpu, Operation};
use super::memory::Block;
use super::queue::EmulatedQueue;
use super::status::StatusBlock;
use crate::backend::{Queue, QueueGraph, lock};
use crate::error::{Error, Result};

/// What is recorded, and all memory that it uses: tensors, scratch memory and status block. The
/// latter two are the capture's own, so that replays and eager work never share them.
pub(super) struct Capture {
    operations: Vec<Operation>,
    kept: HashMap<u64, Arc<Block>>,
    status: Arc<StatusBlock>,
    workspace_bytes: usize,
}

impl Capture {
    pub(super) fn new(status: Arc<StatusBlock>, workspace_bytes: usize) -> Self {
        Self { operations: Vec::new(), kept: HashMap::new(), status, workspace_bytes }
    }

    pub(super) fn add(&mut self, operation: Operation) {
        self.operations.push(operation);
    }

    /// Holds a block until the graph goes.
    pub(super) fn keep(&mut self, block: &Arc<Block>) {
        if block.address() != 0 {
            self.kept.entry(block.address()).or_insert_with(|| block.clone());
        }
    }

    /// Scratch memory that a GPU would have set aside for the recorded work, bytes.
    pub(super) fn workspace_bytes(&self) -> usize {
        self.workspace_bytes
    }

    pub(super) fn status(&self) -> &Arc<StatusBlock> {
        &self.status
    }
}

/// A graph that can run again, on any stream of its device.
pub(super) struct EmulatedGraph {
    gpu: Arc<Gpu>,
    capture: Capture,
    /// Replays on several streams follow each other, as a GPU's do: they share scratch memory.
    replay: Mutex<()>,
}

impl EmulatedGraph {
    pub(super) fn new(gpu: Arc<Gpu>, capture: Capture) -> Self {
        Self { gpu, capture, replay: Mutex::default() }
    }
}

impl fmt::Debug for EmulatedGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operations: Vec<String> =
            self.capture.operations.iter().map(Operation::to_string).collect();
        f.debug_struct("EmulatedGraph").field("operations", &operations).finish_non_exhaustive()
    }
}

impl QueueGraph for EmulatedGraph {
    fn launch(&self, queue: &dyn Queue) -> Result<()> {
        let queue = queue.as_any().and_then(|queue| queue.downcast_ref::<EmulatedQueue>());
        let Some(queue) = queue else {
            return Err(Error::invalid("launch: an emulated graph needs an emulated stream"));
        };
        let _turn = queue.eager("the replay of a graph")?;
        queue.add_status(self.capture.status());
        let _replay = lock(&self.replay);
        for operation in &self.capture.operations {
            if self.gpu.execute(operation).is_err() {
                // The one before has failed; the calls that follow report it.
                break;
            }
        }
        Ok(())
    }
}
