//! The launches of one operation, or of several handed over together, as a graph that is launched
//! again and again with new arguments.
//!
//! Giving the driver new arguments for two kernels and launching the graph takes it a quarter of
//! the time of two launches, and the second kernel follows the first sooner (docs/benchmarks.md,
//! "Host cost"). A graph runs like one piece of work of its stream; in it, launches wait for those
//! that they have to (`launch/batch.rs`).

use std::ffi::c_void;
use std::ptr;

use grouped_linear_kernels::variants::Role;

use super::context::{Context, Relaxed};
use super::ffi::{
    CuContext, CuFunction, CuGraph, CuGraphExec, CuGraphNode, CuStream, KernelNodeParams,
    LaunchAttribute,
};
use crate::error::Result;
use crate::launch::Launch;
use crate::launch::batch::{Step, dependencies};

/// The sequences of one stream. Every kind of operation, and every pass of a kind of layer, has its
/// own kernels, so there are few.
#[derive(Debug, Default)]
pub(super) struct Sequences(Vec<Sequence>);

/// Kernels, each of which runs when those have ended that it waits for.
#[derive(Debug)]
struct Sequence {
    context: &'static Context,
    shape: Vec<Shape>,
    /// The nodes belong to it, so it stays.
    graph: CuGraph,
    nodes: Vec<(CuGraphNode, CuFunction)>,
    exec: CuGraphExec,
}

/// What the dependencies of a step follow from, and its kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shape {
    role: Role,
    stage: usize,
    operation: usize,
    early: bool,
}

impl Shape {
    fn of(step: &Step) -> Self {
        let Step { launch, stage, operation } = *step;
        Self { role: launch.kernel.role, stage, operation, early: launch.early }
    }
}

impl Sequences {
    /// Adds the launches to the stream.
    ///
    /// # Safety
    /// As [`Driver::launch_kernel_ex`](super::driver::Driver::launch_kernel_ex) for each of them;
    /// the stream is alive and not capturing, and always the same.
    pub(super) unsafe fn launch(
        &mut self,
        context: &'static Context,
        steps: &[Step],
        stream: CuStream,
    ) -> Result<()> {
        let same =
            |sequence: &Sequence| sequence.shape.iter().copied().eq(steps.iter().map(Shape::of));
        let place = match self.0.iter().position(same) {
            Some(place) => place,
            None => {
                self.0.push(Sequence::new(context, steps)?);
                self.0.len() - 1
            }
        };
        // SAFETY: the caller's promise is the callee's.
        unsafe { self.0[place].launch(steps, stream) }
    }
}

impl Sequence {
    fn new(context: &'static Context, steps: &[Step]) -> Result<Self> {
        let driver = context.bind()?;
        // Another stream of this thread may be recording, which this has nothing to do with.
        let _relaxed = Relaxed::enter(driver);
        let mut sequence = Self {
            context,
            shape: steps.iter().map(Shape::of).collect(),
            graph: CuGraph::NULL,
            nodes: Vec::new(),
            exec: CuGraphExec::NULL,
        };
        // SAFETY: writes one handle; flags must be 0.
        unsafe { driver.graph_create(&mut sequence.graph, 0)? };
        for (step, after) in steps.iter().zip(dependencies(steps)) {
            let function = context.modules().function(context, step.launch.kernel)?;
            let mut node = CuGraphNode::NULL;
            let after: Vec<_> = after.into_iter().map(|place| sequence.nodes[place].0).collect();
            with_parameters(&step.launch, function, |parameters| {
                // SAFETY: writes one handle; graph and nodes are alive. The driver copies the
                // arguments, of the size that the kernel declares, during the call.
                unsafe {
                    driver.graph_add_kernel_node(
                        &mut node,
                        sequence.graph,
                        after.as_ptr(),
                        after.len(),
                        parameters,
                    )
                }
            })?;
            // New arguments leave a node its attributes (seen on an H200, docs/benchmarks.md).
            if let Some(cluster) = LaunchAttribute::cluster(step.launch.kernel.cluster) {
                // SAFETY: the node is alive; the driver copies the value, which is of this
                // attribute, during the call.
                unsafe {
                    driver.graph_kernel_node_set_attribute(node, cluster.id, &cluster.value)?;
                }
            }
            sequence.nodes.push((node, function));
        }
        // SAFETY: writes one handle.
        unsafe { driver.graph_instantiate(&mut sequence.exec, sequence.graph, 0)? };
        Ok(sequence)
    }

    /// # Safety
    /// As [`Sequences::launch`].
    unsafe fn launch(&self, steps: &[Step], stream: CuStream) -> Result<()> {
        let driver = self.context.driver();
        for (step, (node, function)) in steps.iter().zip(&self.nodes) {
            with_parameters(&step.launch, *function, |parameters| {
                // SAFETY: graph and node are alive and the function is the node's. The driver
                // copies the arguments during the call; launches that were added before keep
                // theirs.
                unsafe { driver.graph_exec_kernel_node_set_params(self.exec, *node, parameters) }
            })?;
        }
        // SAFETY: graph and stream are alive; what the arguments mean is the caller's promise.
        unsafe { driver.graph_launch(self.exec, stream) }
    }
}

impl Drop for Sequence {
    fn drop(&mut self) {
        let Ok(driver) = self.context.bind() else { return };
        let _relaxed = Relaxed::enter(driver);
        // SAFETY: made by `new`, destroyed here only. The driver lets launches end that were added.
        // In a destructor failures have nobody to go to.
        unsafe {
            if !self.exec.is_null() {
                let _ = driver.graph_exec_destroy(self.exec);
            }
            if !self.graph.is_null() {
                let _ = driver.graph_destroy(self.graph);
            }
        }
    }
}

/// Calls `act` with the launch in the driver's form, which is valid during the call.
fn with_parameters<R>(
    launch: &Launch,
    function: CuFunction,
    act: impl FnOnce(*const KernelNodeParams) -> R,
) -> R {
    let mut arguments = [launch.args().as_ptr().cast_mut().cast::<c_void>()];
    let parameters = KernelNodeParams {
        function,
        grid: [launch.grid[0], launch.grid[1], 1],
        block: [launch.kernel.threads, 1, 1],
        shared_bytes: launch.kernel.shared_bytes,
        parameters: arguments.as_mut_ptr(),
        extra: ptr::null_mut(),
        kernel: ptr::null_mut(),
        context: CuContext::NULL,
    };
    act(&parameters)
}
