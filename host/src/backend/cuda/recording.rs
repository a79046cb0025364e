//! Operations that may overlap, in a graph that is being recorded.
//!
//! A stream that is being captured knows the nodes that its next node will depend on, and each node
//! takes their place. Here they are set for every kernel, and behind the last to all on which
//! nothing depends yet.

use std::ptr;

use super::context::Context;
use super::ffi::{CuGraph, CuGraphNode, CuStream, flag};
use crate::error::Result;
use crate::launch::Launch;
use crate::launch::batch::{Step, dependencies};

/// Records the steps; `launch` adds a kernel to the stream.
///
/// # Safety
/// The stream is alive and being captured by this thread, which alone adds work to it meanwhile.
pub(super) unsafe fn record(
    context: &'static Context,
    stream: CuStream,
    steps: &[Step],
    launch: impl Fn(&Launch) -> Result<()>,
) -> Result<()> {
    let all = dependencies(steps);
    let mut nodes: Vec<Vec<CuGraphNode>> = Vec::with_capacity(steps.len());
    let mut each = || -> Result<()> {
        // SAFETY: the caller's promise is the callee's.
        let before = unsafe { last_nodes(context, stream)? };
        for (step, after) in steps.iter().zip(&all) {
            let after = match after.as_slice() {
                [] => before.clone(),
                places => places.iter().flat_map(|place| nodes[*place].clone()).collect(),
            };
            // SAFETY: as above; the nodes are of the graph that is being recorded.
            unsafe { set_last_nodes(context, stream, after)? };
            launch(&step.launch)?;
            // SAFETY: as above.
            nodes.push(unsafe { last_nodes(context, stream)? });
        }
        Ok(())
    };
    let outcome = each();
    // What has been recorded, and nothing yet waits for.
    let recorded = &all[..nodes.len()];
    let is_end = |place: &usize| !recorded.iter().flatten().any(|other| other == place);
    let mut ends: Vec<_> =
        (0..nodes.len()).filter(is_end).flat_map(|place| nodes[place].clone()).collect();
    if outcome.is_err() {
        // Beside what the failed step would have waited for, or is.
        // SAFETY: as above.
        let Ok(others) = (unsafe { last_nodes(context, stream) }) else { return outcome };
        let is_new = |other: &CuGraphNode| !nodes.iter().flatten().any(|own| own == other);
        ends.extend(others.into_iter().filter(is_new));
    }
    // SAFETY: as above.
    let joined = unsafe { set_last_nodes(context, stream, ends) };
    outcome.and(joined)
}

/// The nodes that the stream's next node will depend on.
///
/// # Safety
/// As [`record`].
unsafe fn last_nodes(context: &Context, stream: CuStream) -> Result<Vec<CuGraphNode>> {
    let (mut status, mut id) = (flag::CAPTURE_STATUS_NONE, 0);
    let mut graph = CuGraph::NULL;
    let (mut nodes, mut count) = (ptr::null(), 0);
    // SAFETY: writes one value each. The list is the driver's, valid until the next call that
    // concerns the capture, and copied before.
    unsafe {
        context.driver().stream_get_capture_info(
            stream,
            &mut status,
            &mut id,
            &mut graph,
            &mut nodes,
            &mut count,
        )?;
        if nodes.is_null() {
            return Ok(Vec::new());
        }
        Ok(std::slice::from_raw_parts(nodes, count).to_vec())
    }
}

/// Sets the nodes that the stream's next node will depend on.
///
/// # Safety
/// As [`record`]; the nodes are of the graph that is being recorded.
unsafe fn set_last_nodes(
    context: &Context,
    stream: CuStream,
    mut nodes: Vec<CuGraphNode>,
) -> Result<()> {
    let (list, count) = (nodes.as_mut_ptr(), nodes.len());
    // SAFETY: the driver reads the list during the call.
    unsafe {
        context.driver().stream_update_capture_dependencies(
            stream,
            list,
            count,
            flag::CAPTURE_SET_DEPENDENCIES,
        )
    }
}
