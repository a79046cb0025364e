//! The driver's work in a call without the call.

use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys;
use grouped_linear::{Result, Stream, interop};

/// The kernels that some work launches, with their arguments as recorded.
pub struct Bare {
    stream: sys::CUstream,
    /// Owns nodes and arguments.
    graph: sys::CUgraph,
    exec: sys::CUgraphExec,
    kernels: Vec<(sys::CUgraphNode, sys::CUDA_KERNEL_NODE_PARAMS)>,
    /// Keeps the handle alive.
    _owner: Stream,
}

impl Bare {
    /// Records `work` on a stream that only `owner` uses meanwhile.
    pub fn record(owner: &Stream, mut work: impl FnMut(&Stream) -> Result<()>) -> Result<Self> {
        let handle = interop::raw_stream(owner).expect("a CUDA stream");
        // SAFETY: the clone keeps the stream alive.
        let lent =
            unsafe { interop::stream_from_raw(owner.device(), handle, Arc::new(owner.clone()))? };
        // Scratch memory cannot be allocated in a capture, and to the library this stream is new.
        work(&lent)?;
        let stream = handle as sys::CUstream;
        let mut graph = ptr::null_mut();
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is alive, and its context was made current by the library.
        let recorded = unsafe {
            check(sys::cuStreamBeginCapture_v2(stream, mode));
            let recorded = work(&lent);
            check(sys::cuStreamEndCapture(stream, &mut graph));
            recorded
        };
        recorded?;
        let kernels = kernels(graph);
        let mut exec = ptr::null_mut();
        // SAFETY: writes one handle.
        check(unsafe { sys::cuGraphInstantiateWithFlags(&mut exec, graph, 0) });
        Ok(Self { stream, graph, exec, kernels, _owner: owner.clone() })
    }

    /// Number of launches.
    pub fn len(&self) -> usize {
        self.kernels.len()
    }

    /// What the library does: new arguments for all kernels of a graph, and one launch of it.
    pub fn launch_as_graph(&self) {
        for (node, kernel) in &self.kernels {
            // SAFETY: the node is the graph's, its arguments live as long.
            check(unsafe { sys::cuGraphExecKernelNodeSetParams_v2(self.exec, *node, kernel) });
        }
        // SAFETY: graph and stream are alive.
        check(unsafe { sys::cuGraphLaunch(self.exec, self.stream) });
    }

    /// Launches one after the other.
    pub fn launch_each(&self) {
        for (_, kernel) in &self.kernels {
            // SAFETY: function and arguments are those of a launch that the library made; the graph
            // that owns the arguments lives.
            check(unsafe {
                sys::cuLaunchKernel(
                    kernel.func,
                    kernel.gridDimX,
                    kernel.gridDimY,
                    kernel.gridDimZ,
                    kernel.blockDimX,
                    kernel.blockDimY,
                    kernel.blockDimZ,
                    kernel.sharedMemBytes,
                    self.stream,
                    kernel.kernelParams,
                    kernel.extra,
                )
            });
        }
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        // SAFETY: made by `record`, destroyed here only.
        check(unsafe { sys::cuGraphExecDestroy(self.exec) });
        // SAFETY: as above.
        check(unsafe { sys::cuGraphDestroy(self.graph) });
    }
}

fn kernels(graph: sys::CUgraph) -> Vec<(sys::CUgraphNode, sys::CUDA_KERNEL_NODE_PARAMS)> {
    let mut count = 0;
    // SAFETY: without an array the function writes the number of nodes.
    check(unsafe { sys::cuGraphGetNodes(graph, ptr::null_mut(), &mut count) });
    let mut nodes = vec![ptr::null_mut(); count];
    // SAFETY: the array has room for `count` nodes.
    check(unsafe { sys::cuGraphGetNodes(graph, nodes.as_mut_ptr(), &mut count) });
    let parameters = |node| {
        // SAFETY: all bytes zero is a value of the structure, which the call fills in.
        unsafe {
            let mut parameters = std::mem::zeroed();
            check(sys::cuGraphKernelNodeGetParams_v2(node, &mut parameters));
            (node, parameters)
        }
    };
    nodes.into_iter().map(parameters).collect()
}

fn check(result: sys::CUresult) {
    assert_eq!(result, sys::CUresult::CUDA_SUCCESS);
}
