//! The emulated engine's [`Queue`] and [`Launcher`].

use std::any::Any;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use grouped_linear_kernels::abi::TensorMap;

use super::gpu::{Gpu, Operation};
use super::graph::{Capture, EmulatedGraph};
use super::memory::Block;
use super::status::StatusBlock;
use super::tensor_map;
use crate::backend::turn::{Turn, TurnGuard};
use crate::backend::{
    DeviceId, Launcher, MapDescriptor, Place, Queue, QueueEvent, QueueGraph, address_table, lock,
    next_queue_number, place, swapped,
};
use crate::error::{Error, Result};
use crate::launch::batch::{Batch, Collecting, latest_first, nested};
use crate::launch::{Launch, Launches};
use crate::plan::{KernelTarget, Operands, Plan};
use crate::splits::Splits;
use crate::tensor::{AddressTable, Memory, Tensor};

/// The least scratch memory that a graph can use, as on a GPU.
const MIN_WORKSPACE: usize = 64 << 10;

/// A stream of an emulated GPU.
#[derive(Debug)]
pub(super) struct EmulatedQueue {
    gpu: Arc<Gpu>,
    number: u64,
    status: Arc<StatusBlock>,
    turn: Turn,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Of the last operation, or of those handed over together last.
    workspace: Vec<Arc<Block>>,
    /// The most scratch memory that was asked for, by an operation or by several handed over
    /// together.
    high_water: usize,
    /// Status blocks of graphs replayed here since the last synchronisation.
    replayed: Vec<Arc<StatusBlock>>,
}

impl EmulatedQueue {
    pub(super) fn new(gpu: &Arc<Gpu>) -> Result<Self> {
        Ok(Self {
            gpu: gpu.clone(),
            number: next_queue_number(),
            status: StatusBlock::new(gpu)?,
            turn: Turn::default(),
            state: Mutex::default(),
        })
    }

    /// Lets this thread alone add work until the guard goes; nests. Fails if the GPU has.
    fn turn(&self) -> Result<TurnGuard<'_>> {
        let turn = self.turn.take();
        self.gpu.check()?;
        Ok(turn)
    }

    /// A turn for work that cannot be recorded.
    pub(super) fn eager(&self, what: &str) -> Result<TurnGuard<'_>> {
        let turn = self.turn()?;
        if self.is_capturing() {
            return Err(Error::unsupported(format!(
                "{what} cannot be recorded in a graph; do it before or after the capture"
            )));
        }
        Ok(turn)
    }

    /// Does the work, or records it; the caller has the turn.
    fn add(&self, operation: Operation) -> Result<()> {
        if let Some(capture) = self.gpu.captures().get_mut(&self.number) {
            capture.add(operation);
            return Ok(());
        }
        self.gpu.execute(&operation)
    }

    /// Does the work of a launch, or records it; the caller has the turn.
    fn launch(&self, launch: &Launch) -> Result<()> {
        let (kernel, grid) = (launch.kernel, launch.grid);
        let id = self.gpu.kernel(kernel)?;
        self.add(Operation::Launch { kernel, id, grid, args: launch.args().into() })
    }

    /// Synchronisations of this stream shall read the block, too.
    pub(super) fn add_status(&self, status: &Arc<StatusBlock>) {
        let mut state = lock(&self.state);
        if !state.replayed.iter().any(|known| Arc::ptr_eq(known, status)) {
            state.replayed.push(status.clone());
        }
    }

    /// Reports bad splits once.
    fn report(&self) -> Result<()> {
        let replayed = std::mem::take(&mut lock(&self.state).replayed);
        let mut outcome = self.status.take();
        for status in &replayed {
            outcome = outcome.and(status.take());
        }
        outcome
    }

    fn note_use(&self, memory: &Memory) {
        if let Memory::Device(memory) = memory {
            memory.note_use(self.number);
        }
    }
}

impl Queue for EmulatedQueue {
    fn allocate(&self, bytes: usize) -> Result<Memory> {
        if bytes > 0 && self.is_capturing() {
            return Err(Error::unsupported(
                "memory cannot be allocated while work is being recorded; allocate outputs before \
                 the capture and pass them to the operation",
            ));
        }
        Block::new(&self.gpu, bytes).map(Block::into_memory)
    }

    fn upload(&self, memory: &Memory, offset: usize, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let to = place(memory, offset)?;
        let _turn = self.eager("a copy from the host")?;
        self.gpu.write(to, bytes)
    }

    fn download(&self, memory: &Memory, offset: usize, bytes: &mut [u8]) -> Result<()> {
        let from = place(memory, offset)?;
        let _turn = self.eager("a copy to the host")?;
        if !bytes.is_empty() {
            self.gpu.read(from, bytes)?;
        }
        self.report()
    }

    fn copy(&self, to: Place<'_>, from: Place<'_>, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let (target, source) = (place(to.0, to.1)?, place(from.0, from.1)?);
        let _turn = self.turn()?;
        self.note_use(to.0);
        self.note_use(from.0);
        self.add(Operation::Copy { to: target, from: source, bytes: bytes as u64 })
    }

    fn fill_zero(&self, memory: &Memory, offset: usize, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let address = place(memory, offset)?;
        let _turn = self.turn()?;
        self.note_use(memory);
        self.add(Operation::Zero { address, bytes: bytes as u64 })
    }

    fn address_table(&self, tensors: &[Tensor]) -> Result<Option<AddressTable>> {
        let _turn = self.eager("the addresses of discrete tensors")?;
        address_table::store(self, tensors).map(Some)
    }

    fn reserve(&self, bytes: usize, splits: &Splits) -> Result<()> {
        splits.on_device(self)?;
        Launcher::workspace(self, bytes).map(drop)
    }

    fn run(&self, plan: &Plan, operands: &Operands<'_>) -> Result<()> {
        let _turn = self.turn()?;
        crate::launch::run(self, plan, operands)
    }

    /// Not in the order in which they came, in which whoever waits for less than it needs would
    /// find it all the same.
    fn together(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let _turn = self.turn()?;
        if self.gpu.batches().contains_key(&self.number) {
            return Err(nested());
        }
        lock(&self.state).workspace.clear();
        self.gpu.batches().insert(self.number, Batch::default());
        let collecting = Collecting::new(|| self.gpu.batches().remove(&self.number));
        work()?;
        let batch = collecting.end();
        let steps = batch.steps();
        latest_first(steps).into_iter().try_for_each(|place| self.launch(&steps[place].launch))
    }

    fn next_stage(&self) {
        if let Some(batch) = self.gpu.batches().get_mut(&self.number) {
            batch.next_stage();
        }
    }

    fn synchronize(&self) -> Result<()> {
        let _turn = self.eager("waiting for the stream")?;
        self.report()
    }

    fn record_event(&self) -> Result<Box<dyn QueueEvent>> {
        let _turn = self.eager("an event")?;
        Ok(Box::new(EmulatedEvent(Instant::now())))
    }

    fn wait_event(&self, event: &dyn QueueEvent) -> Result<()> {
        if !event.as_any().is::<EmulatedEvent>() {
            return Err(Error::invalid("wait: the event is no event of an emulated GPU"));
        }
        // The event's work was done before the event was recorded.
        self.eager("waiting for an event").map(drop)
    }

    fn begin_capture(&self) -> Result<()> {
        let _turn = self.eager("a capture within a capture")?;
        let workspace_bytes = lock(&self.state).high_water.max(MIN_WORKSPACE);
        let capture = Capture::new(StatusBlock::new(&self.gpu)?, workspace_bytes);
        self.gpu.captures().insert(self.number, capture);
        Ok(())
    }

    fn end_capture(&self) -> Result<Box<dyn QueueGraph>> {
        // Whether or not the GPU has failed: afterwards the stream is not recording.
        let _turn = self.turn.take();
        let capture = self.gpu.captures().remove(&self.number);
        self.gpu.check()?;
        match capture {
            Some(capture) => Ok(Box::new(EmulatedGraph::new(self.gpu.clone(), capture))),
            None => Err(Error::invalid("no capture has begun on this stream")),
        }
    }

    fn is_capturing(&self) -> bool {
        self.gpu.captures().contains_key(&self.number)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl Launcher for EmulatedQueue {
    fn encode(&self, descriptor: &MapDescriptor) -> Result<TensorMap> {
        tensor_map::encode(descriptor, self.gpu.arch())
    }

    fn submit(&self, launches: &Launches) -> Result<()> {
        let _turn = self.turn()?;
        if let Some(batch) = self.gpu.batches().get_mut(&self.number) {
            batch.add(launches);
            return Ok(());
        }
        launches.iter().try_for_each(|launch| self.launch(launch))
    }

    fn workspace(&self, bytes: usize) -> Result<u64> {
        let _turn = self.turn()?;
        let state = &mut *lock(&self.state);
        let batch = self.gpu.batches().get_mut(&self.number).map(|own| own.take_scratch(bytes));
        // The GPU's is in one piece.
        let all = batch.map_or(bytes, |[_, end]| end);
        state.high_water = state.high_water.max(all);
        let mut captures = self.gpu.captures();
        if let Some(capture) = captures.get_mut(&self.number) {
            if all > capture.workspace_bytes() {
                return Err(Error::unsupported(format!(
                    "{all} bytes of scratch memory are needed, which cannot be allocated while work \
                     is being recorded; run the work once before the capture"
                )));
            }
            let block = Block::new(&self.gpu, bytes)?;
            capture.keep(&block);
            return Ok(block.address());
        }
        drop(captures);
        if batch.is_none() {
            state.workspace.clear(); // freed first: earlier work is done
        }
        let block = Block::new(&self.gpu, bytes)?;
        let address = block.address();
        state.workspace.push(block);
        Ok(address)
    }

    fn sticky_status(&self) -> u64 {
        let captures = self.gpu.captures();
        captures.get(&self.number).map_or(&self.status, Capture::status).address()
    }

    fn device_id(&self) -> DeviceId {
        self.gpu.info().id
    }

    fn kernels(&self) -> Option<KernelTarget> {
        self.gpu.target().kernels()
    }

    fn queue_number(&self) -> u64 {
        self.number
    }
}

/// A moment. Times between two of them are those of the emulation, not of a GPU.
#[derive(Debug)]
struct EmulatedEvent(Instant);

impl QueueEvent for EmulatedEvent {
    fn elapsed_until(&self, later: &dyn QueueEvent) -> Result<Duration> {
        let Some(later) = later.as_any().downcast_ref::<Self>() else {
            return Err(Error::invalid("elapsed_until: the later event is no emulated GPU's"));
        };
        later.0.checked_duration_since(self.0).ok_or_else(swapped)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
