//! Asynchronous copies: `cp.async`, `cp.async.bulk` and `cp.reduce.async.bulk`, with and without
//! tensor maps, `st.async`, `red.async`, and changes of tensor maps (PTX ISA 9.1, 9.7.9.25 to 28);
//! `clusterlaunchcontrol`, whose response comes like a copy.
//!
//! An instruction checks its operands and hands the copy to the cluster's [`Engine`], which
//! performs it later, at a random moment and in no order.

mod bulk;
mod cancel;
mod engine;
mod groups;
mod landed;
mod load;
mod lower;
mod map;
mod remote;
mod store;
mod tensor;
mod threads;
mod transfer;

pub(crate) use cancel::lower as lower_cancel;
pub(crate) use engine::{Engine, check_end, explain, perform_due};
pub(crate) use groups::WarpState;
pub(crate) use landed::Landed;
pub(crate) use lower::lower;
pub(crate) use map::lower as lower_map;

use crate::execute::{Context, Flow, Outcome};

/// An asynchronous copy, or an operation on their groups or on tensor maps.
#[derive(Clone, Debug)]
pub(crate) enum Copy {
    /// `cp.async`: one for each thread.
    Threads(threads::ThreadCopy),
    /// `cp.async.mbarrier.arrive`.
    Arrive(threads::Arrival),
    /// `commit_group`.
    Commit(groups::Family),
    /// `wait_group` and `wait_all`.
    Wait(groups::GroupWait),
    /// Copies into shared memory that complete on an mbarrier.
    Load(bulk::BulkLoad),
    /// Copies into global memory that complete in bulk groups.
    Store(bulk::BulkStore),
    /// Prefetches, which are checked and have no effect.
    Prefetch(bulk::Prefetch),
    /// `st.async` and `red.async`.
    Remote(remote::Remote),
    /// `clusterlaunchcontrol.try_cancel`.
    Cancel(cancel::Request),
    /// `clusterlaunchcontrol.query_cancel`.
    Query(cancel::Query),
    /// `tensormap.replace`.
    Replace(map::Replace),
    /// `tensormap.cp_fenceproxy`.
    Publish(map::Publish),
}

/// Executes the operation.
pub(crate) fn execute(own: &Copy, context: &mut Context<'_>) -> Outcome<Flow> {
    match own {
        Copy::Threads(copy) => threads::issue(copy, context)?,
        Copy::Arrive(arrival) => threads::issue_arrival(arrival, context)?,
        Copy::Commit(family) => groups::commit(*family, context),
        Copy::Wait(wait) => return Ok(groups::wait(wait, context)),
        Copy::Load(load) => bulk::issue_load(load, context)?,
        Copy::Store(store) => bulk::issue_store(store, context)?,
        Copy::Prefetch(prefetch) => bulk::prefetch(prefetch, context)?,
        Copy::Remote(remote) => remote::issue(remote, context)?,
        Copy::Cancel(own) => cancel::request(own, context)?,
        Copy::Query(own) => cancel::query(own, context)?,
        Copy::Replace(replace) => map::replace_fields(replace, context)?,
        Copy::Publish(publish) => return map::publish(publish, context),
    }
    Ok(Flow::Next)
}
