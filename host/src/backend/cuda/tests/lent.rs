//! Streams that another library lends, against the fake driver.

use std::sync::Arc;

use super::super::context::{Context, CudaDevice};
use super::super::stream::CudaStream;
use super::fake::{open, stream};
use crate::backend::{Launcher, Queue};

/// The stream once more, as another library would lend it.
fn lend(context: &'static Context, lender: &CudaStream, owner: &Arc<()>) -> CudaStream {
    // SAFETY: in every test `lender` outlives the borrowed stream.
    unsafe { CudaStream::borrow(CudaDevice(context), lender.raw(), owner.clone()) }
        .expect("a borrowed stream")
}

#[test]
fn lent_streams_are_not_destroyed() {
    let (fake, context) = open("lent_stream");
    let (lender, owner) = (stream(context), Arc::new(()));
    let borrowed = lend(context, &lender, &owner);
    assert_eq!(borrowed.raw(), lender.raw());
    borrowed.workspace(10).expect("scratch memory");
    fake.notes();
    // The lender captures: nothing may be allocated, freed or waited for.
    let memory = borrowed.allocate(8).expect("memory");
    lender.begin_capture().expect("a capture");
    assert!(borrowed.is_capturing());
    assert!(borrowed.allocate(8).expect_err("a capture").is_unsupported());
    assert!(borrowed.synchronize().expect_err("a capture").is_unsupported());
    drop(memory);
    assert!(!fake.notes().contains("free"));
    drop(lender.end_capture().expect("a graph"));
    borrowed.synchronize().expect("a synchronisation");
    assert!(fake.notes().contains("free on 1\n"));
    drop(borrowed);
    assert_eq!(fake.notes(), "free on 1\n");
    assert_eq!(Arc::strong_count(&owner), 1);

    let borrow = |handle| {
        // SAFETY: `lender` is alive, and the other handle is refused.
        unsafe { CudaStream::borrow(CudaDevice(context), handle, owner.clone()) }
    };
    fake.fail("cuStreamGetCtx", 1);
    let refused = borrow(lender.raw()).expect_err("the driver refuses");
    assert_eq!(refused.driver_code(), Some(1));
    let refused = borrow(std::ptr::without_provenance_mut(2)).expect_err("no single stream");
    assert!(refused.is_invalid_argument() && refused.to_string().contains("per-thread"));
}

#[test]
fn a_lent_stream_is_asked_on_any_thread() {
    let (_fake, context) = open("lent_thread");
    let (lender, owner) = (stream(context), Arc::new(()));
    let borrowed = lend(context, &lender, &owner);
    std::thread::scope(|scope| {
        scope.spawn(|| drop(borrowed.allocate(8).expect("nothing is captured")));
        scope.spawn(|| assert!(!borrowed.is_capturing()));
    });
}

#[test]
fn scratch_memory_of_the_lenders_graph_stays() {
    let (fake, context) = open("pinned");
    let (lender, owner) = (stream(context), Arc::new(()));
    let borrowed = lend(context, &lender, &owner);
    let eager = borrowed.workspace(100).expect("scratch memory");
    lender.begin_capture().expect("a capture");
    assert_eq!(borrowed.workspace(100).expect("recorded scratch memory"), eager);
    assert!(borrowed.workspace(100_000).expect_err("a capture").is_unsupported());
    let graph = lender.end_capture().expect("a graph");
    fake.notes();
    assert_ne!(borrowed.workspace(100_000).expect("more scratch memory"), eager);
    borrowed.workspace(200_000).expect("yet more scratch memory");
    assert_eq!(fake.notes(), "allocate 131072 on 1\nallocate 262144 on 1\nfree on 1\n");
    drop(graph);
    fake.notes();
    drop(borrowed);
    assert_eq!(fake.notes(), "free on 1\nfree on 1\n");
}

#[test]
fn a_lent_stream_that_goes_during_a_capture_leaks() {
    let (fake, context) = open("lent_drop");
    let (lender, other, owner) = (stream(context), stream(context), Arc::new(()));
    let borrowed = lend(context, &lender, &owner);
    borrowed.workspace(10).expect("scratch memory");
    let status = borrowed.sticky_status();
    let memory = other.allocate(8).expect("memory");
    borrowed.fill_zero(&memory, 0, 8).expect("work on the lent stream");
    lender.begin_capture().expect("a capture");
    fake.notes();
    drop(borrowed);
    drop(memory);
    assert_ne!(stream(context).sticky_status(), status);
    drop(lender.end_capture().expect("a graph"));
    other.synchronize().expect("a synchronisation");
    assert!(!fake.notes().contains("free on 2"));
}

#[test]
fn releases_that_a_capture_holds_up_hold_their_stream_no_longer() {
    let (fake, context) = open("deferred");
    let (lender, other, owner) = (stream(context), stream(context), Arc::new(()));
    let borrowed = lend(context, &lender, &owner);
    let home = borrowed.allocate(8).expect("memory");
    let foreign = other.allocate(8).expect("memory");
    borrowed.fill_zero(&foreign, 0, 8).expect("work on the lent stream");
    lender.begin_capture().expect("a capture");
    fake.notes();
    drop((home, foreign, borrowed));
    assert_eq!(fake.notes(), "");
    assert_eq!(Arc::strong_count(&owner), 2, "the work may not be done");
    drop(lender.end_capture().expect("a graph"));
    other.synchronize().expect("a synchronisation");
    let notes = fake.notes();
    assert!(notes.contains("free on 1\n2 waits for 1\nfree on 2\n"), "{notes}");
    assert_eq!(Arc::strong_count(&owner), 1);
}
