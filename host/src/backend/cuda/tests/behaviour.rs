//! Streams, memory, graphs and status blocks against the fake driver.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use grouped_linear_kernels::abi::{Status, status};

use super::super::context::{Context, CudaDevice};
use super::super::event::Event;
use super::super::memory::{Allocation, Block};
use super::super::stream::CudaStream;
use super::fake::{open, stream};
use crate::backend::{Launcher, MapDescriptor, Queue};
use crate::tensor::{DType, Memory, Tensor};

/// A point of the stream that the fake driver calls done once somebody has waited for the stream.
fn mark(stream: &CudaStream) -> Event {
    // SAFETY: the stream is alive and not capturing.
    unsafe { Event::untimed(stream.0.context(), stream.0.handle()) }.expect("an event")
}

/// What a set-up kernel does when it finds bad splits.
fn report(address: u64, found: Status) {
    // SAFETY: the fake driver's device addresses are host addresses; the block is alive.
    unsafe { std::ptr::write_volatile(address as *mut Status, found) };
}

#[test]
fn devices_are_described() {
    let (_fake, context) = open("describe");
    let device = CudaDevice(context);
    let (info, target) = {
        use crate::backend::device::DeviceBackend;
        (device.info().clone(), device.target())
    };
    assert_eq!((info.name.as_str(), info.driver), ("Fake GPU", Some((13, 0))));
    assert_eq!((info.compute_capability, info.multiprocessors), (Some((9, 0)), 132));
    assert!(target.tensor_cores());
    assert!(Context::open(context.driver(), 1).expect_err("one GPU").is_invalid_argument());
}

#[test]
fn bytes_travel() {
    let (_fake, context) = open("bytes");
    let stream = stream(context);
    for length in [0usize, 1, 100, 64 << 10, (64 << 10) + 1] {
        let bytes: Vec<u8> = (0..length).map(|index| index as u8).collect();
        let (first, second) =
            (stream.allocate(length).expect("memory"), stream.allocate(length).expect("memory"));
        stream.upload(&first, 0, &bytes).expect("an upload");
        stream.copy((&second, 0), (&first, 0), length).expect("a copy");
        let mut back = vec![0xff; length];
        stream.download(&second, 0, &mut back).expect("a download");
        assert!(back == bytes, "{length} bytes");
        stream.fill_zero(&second, 0, length).expect("zeros");
        stream.download(&second, 0, &mut back).expect("a download");
        assert!(back.iter().all(|&byte| byte == 0));
    }
}

#[test]
fn memory_is_freed_at_home_after_its_users() {
    let (fake, context) = open("free");
    let (a, b) = (stream(context), stream(context));
    let memory = a.allocate(100).expect("memory");
    b.fill_zero(&memory, 0, 100).expect("work on the other stream");
    fake.notes();
    drop(memory);
    assert_eq!(fake.notes(), "1 waits for 2\nfree on 1\n");

    // A stream lives as long as memory that it frees, but not for memory that it worked on.
    let memory = a.allocate(8).expect("memory");
    b.fill_zero(&memory, 0, 8).expect("work on the other stream");
    drop(a);
    fake.notes();
    drop(b);
    assert_eq!(fake.notes(), "destroy 2\n");
    drop(memory);
    assert_eq!(fake.notes(), "free on 1\ndestroy 1\n");
}

#[test]
fn the_first_use_elsewhere_waits_for_the_home_stream() {
    let (fake, context) = open("first_use");
    let (a, b) = (stream(context), stream(context));
    let allocate = || {
        let memory = a.allocate(100).expect("memory");
        fake.notes();
        memory
    };
    let memory = allocate();
    b.fill_zero(&memory, 0, 100).expect("work on the other stream");
    b.fill_zero(&memory, 0, 100).expect("more work on the other stream");
    a.fill_zero(&memory, 0, 100).expect("work at home");
    assert_eq!(fake.notes(), "2 waits for 1\n");

    // Without an event, and for a graph, which cannot wait, the host waits.
    let (second, third, point) = (allocate(), allocate(), mark(&a));
    fake.fail("cuEventCreate", 2);
    b.fill_zero(&second, 0, 100).expect("work without an event");
    assert!(fake.notes().is_empty() && point.is_done());
    let point = mark(&a);
    b.begin_capture().expect("a capture");
    fake.notes();
    b.fill_zero(&memory, 0, 100).expect("recorded work");
    assert!(!point.is_done(), "known already");
    b.fill_zero(&third, 0, 100).expect("recorded work");
    assert!(fake.notes().is_empty() && point.is_done());
    drop(b.end_capture().expect("a graph"));

    // What lies before a capture of the home stream is done.
    let fourth = allocate();
    a.begin_capture().expect("a capture");
    fake.notes();
    b.fill_zero(&fourth, 0, 100).expect("work while the home stream records");
    assert_eq!(fake.notes(), "");
    drop(a.end_capture().expect("a graph"));
}

#[test]
fn memory_waits_for_streams_that_give_no_event_or_cannot_be_waited_for() {
    let (fake, context) = open("no_event");
    let (a, b) = (stream(context), stream(context));
    let (first, second) = (a.allocate(8).expect("memory"), a.allocate(8).expect("memory"));
    b.fill_zero(&first, 0, 8).expect("work on the other stream");
    b.fill_zero(&second, 0, 8).expect("work on the other stream");
    let point = mark(&b);
    fake.notes();
    fake.fail("cuEventCreate", 2);
    drop(first);
    assert_eq!(fake.notes(), "free on 1\n");
    assert!(point.is_done());

    // A stream whose work is not known to have ended counts as one that is still at work.
    fake.fail("cuStreamSynchronize", 700);
    drop(b);
    drop(second);
    a.synchronize().expect("a synchronisation");
    assert_eq!(fake.notes(), "destroy 2\n");
}

#[test]
fn lent_memory_is_held_until_the_work_is_done() {
    let (_fake, context) = open("lent");
    let stream = stream(context);
    let (owner, mut bytes) = (Arc::new(()), vec![7u8; 64]);
    let address = bytes.as_mut_ptr() as u64;
    let memory = Allocation::memory(Block::lent(context, address, owner.clone()));
    stream.fill_zero(&memory, 0, 64).expect("work");
    drop(memory);
    assert_eq!(Arc::strong_count(&owner), 2, "the work is not done");
    stream.synchronize().expect("a synchronisation");
    assert_eq!(Arc::strong_count(&owner), 1);
    assert_eq!(bytes, [0; 64]);

    // Never used: nothing to wait for.
    drop(Allocation::memory(Block::lent(context, address, owner.clone())));
    assert_eq!(Arc::strong_count(&owner), 1);
}

#[test]
fn scratch_memory_grows() {
    let (fake, context) = open("scratch");
    let large = stream(context);
    large.workspace((2 << 20) + 1).expect("scratch memory");
    large.workspace((4 << 20) + 1).expect("scratch memory");
    let expected = "allocate 4194304 on 1\nallocate 6291456 on 1\nfree on 1\n";
    assert_eq!(fake.notes(), expected);
    drop(large);
    fake.notes();
    let stream = stream(context);
    let first = stream.workspace(100).expect("scratch memory");
    assert_eq!(stream.workspace(64 << 10).expect("scratch memory"), first);
    assert_eq!(first % 256, 0);
    stream.workspace((64 << 10) + 1).expect("more scratch memory");
    drop(stream);
    let expected = "allocate 65536 on 2\nallocate 131072 on 2\nfree on 2\nfree on 2\ndestroy 2\n";
    assert_eq!(fake.notes(), expected);
}

#[test]
fn scratch_memory_that_there_was_no_room_for_is_not_asked_for_again() {
    let (fake, context) = open("no_room");
    let stream = stream(context);
    fake.fail("cuMemAllocFromPoolAsync", 2);
    assert!(stream.workspace(1 << 30).expect_err("no room").is_out_of_memory());
    stream.workspace(100_000).expect("scratch memory");
    fake.notes();
    stream.begin_capture().expect("a capture");
    assert!(stream.workspace(1 << 20).expect_err("a capture").is_unsupported());
    drop(stream.end_capture().expect("a graph"));
    assert_eq!(
        fake.notes(),
        "allocate 100000 on 1\ncapture 1\ncaptured 1\ndestroy graph\nfree on 1\n"
    );
}

#[test]
fn memory_of_dropped_graphs_is_taken_before_there_is_none() {
    let (fake, context) = open("reclaimed");
    let (a, b) = (stream(context), stream(context));
    let drop_replayed = || {
        a.begin_capture().expect("a capture");
        let graph = a.end_capture().expect("a graph");
        graph.launch(&b).expect("a replay");
        drop(graph);
        fake.notes();
        fake.fail("cuMemAllocFromPoolAsync", 2);
    };
    // As another library would wait, that knows nothing of graphs.
    // SAFETY: the stream is alive.
    let wait = || unsafe { context.driver().stream_synchronize(b.0.handle()) };
    drop_replayed();
    assert!(a.allocate(8).expect_err("the replay has not ended").is_out_of_memory());
    assert_eq!(fake.notes(), "");
    fake.fail("cuMemAllocFromPoolAsync", 2);
    wait().expect("a synchronisation");
    drop(a.allocate(8).expect("memory"));
    assert_eq!(fake.notes(), "destroy graph\nfree on 1\nallocate 8 on 1\nfree on 1\n");
    drop_replayed();
    wait().expect("a synchronisation");
    a.workspace(100).expect("scratch memory");
    assert_eq!(fake.notes(), "destroy graph\nfree on 1\nallocate 65536 on 1\n");
}

#[test]
fn replays_of_one_graph_are_asked_for_one_by_one() {
    let (fake, context) = open("replays");
    let streams = [stream(context), stream(context)];
    streams[0].begin_capture().expect("a capture");
    let graph = streams[0].end_capture().expect("a graph");
    fake.notes();
    std::thread::scope(|scope| {
        for stream in &streams {
            let graph = &graph;
            scope.spawn(move || (0..10).for_each(|_| graph.launch(stream).expect("a replay")));
        }
    });
    assert_eq!(fake.notes().matches("replay on").count(), 20);
}

#[test]
fn bad_splits_are_reported_once() {
    let (_fake, context) = open("status");
    let (a, b) = (stream(context), stream(context));
    assert_ne!(a.sticky_status(), b.sticky_status());
    let negative =
        Status { code: status::NEGATIVE_SPLIT, group: 3, value: -5, ..Status::default() };
    report(a.sticky_status(), negative);
    b.synchronize().expect("the other stream is sound");
    let error = a.synchronize().expect_err("a negative split");
    assert!(error.is_bad_splits() && error.to_string().contains("group 3 has -5 rows"), "{error}");
    a.synchronize().expect("reported once");

    let rows = Status { code: status::TOO_MANY_ROWS, value: 12, rows: 10, ..Status::default() };
    report(a.sticky_status(), rows);
    let memory = a.allocate(1).expect("memory");
    let error = a.download(&memory, 0, &mut [0]).expect_err("too many rows");
    assert!(error.is_bad_splits() && error.to_string().contains("12 rows"), "{error}");

    // A block that comes back from the pool is clean.
    report(a.sticky_status(), rows);
    let address = a.sticky_status();
    drop((memory, a));
    let again = stream(context);
    assert_eq!(again.sticky_status(), address);
    again.synchronize().expect("clean");
}

#[test]
fn a_capture_takes_nothing_that_is_not_work() {
    let (fake, context) = open("capture");
    let (a, b) = (stream(context), stream(context));
    let eager_scratch = a.workspace(100_000).expect("scratch memory");
    let eager_status = a.sticky_status();
    let event = b.record_event().expect("an event");
    let kept = a.allocate(16).expect("memory");
    let other = a.allocate(16).expect("memory");
    let foreign = b.allocate(16).expect("memory");
    a.fill_zero(&foreign, 0, 16).expect("eager work");
    fake.notes();

    a.begin_capture().expect("a capture");
    assert_eq!(fake.notes(), "allocate 100000 on 1\ncapture 1\n");
    assert!(a.is_capturing() && !b.is_capturing());
    let refused = [
        a.begin_capture(),
        a.allocate(8).map(drop),
        a.upload(&kept, 0, &[1]),
        a.download(&kept, 0, &mut [1]),
        a.synchronize(),
        a.record_event().map(drop),
        a.wait_event(&*event),
        a.workspace(200_000).map(drop),
        a.address_table(&[]).map(drop),
    ];
    for (index, outcome) in refused.into_iter().enumerate() {
        assert!(outcome.expect_err("a refusal").is_unsupported(), "row {index}");
    }
    assert_ne!(a.workspace(100_000).expect("scratch memory"), eager_scratch);
    assert_ne!(a.sticky_status(), eager_status);
    let graph_status = a.sticky_status();

    a.fill_zero(&kept, 0, 16).expect("recorded work");
    drop((kept, other, foreign));
    let elsewhere = b.allocate(8).expect("other streams are free");
    drop(elsewhere);
    assert_eq!(fake.notes(), "allocate 8 on 2\nfree on 2\n");

    let graph = a.end_capture().expect("a graph");
    assert_eq!(fake.notes(), "captured 1\nfree on 1\n2 waits for 1\nfree on 2\n");
    assert_eq!(a.sticky_status(), eager_status);
    assert_eq!(a.workspace(100_000).expect("scratch memory"), eager_scratch);

    // A replay reports to the stream that it ran on.
    graph.launch(&b).expect("a replay");
    let negative = Status { code: status::NEGATIVE_SPLIT, value: -1, ..Status::default() };
    report(graph_status, negative);
    a.synchronize().expect("nothing ran here");
    assert!(b.synchronize().expect_err("bad splits").is_bad_splits());
    b.synchronize().expect("reported once");

    // What the graph holds goes after its last replay, without waiting.
    graph.launch(&b).expect("a replay");
    fake.notes();
    drop(graph);
    assert_eq!(fake.notes(), "");
    b.synchronize().expect("a synchronisation");
    assert_eq!(fake.notes(), "destroy graph\nfree on 1\nfree on 1\n");

    // A graph does not hold the streams that it ran on.
    a.begin_capture().expect("a capture");
    let graph = a.end_capture().expect("a graph");
    graph.launch(&b).expect("a replay");
    fake.notes();
    drop(b);
    assert_eq!(fake.notes(), "destroy 2\n");
    drop(graph);
    assert_eq!(fake.notes(), "destroy graph\nfree on 1\n");
}

#[test]
fn a_failed_capture_leaves_the_stream_usable() {
    let (fake, context) = open("failed_capture");
    let stream = stream(context);
    let cases = [
        ("cuStreamBeginCapture_v2", 906),
        ("cuStreamEndCapture", 901),
        ("cuGraphInstantiateWithFlags", 801),
    ];
    for (function, code) in cases {
        fake.fail(function, code);
        let outcome = stream.begin_capture().and_then(|()| stream.end_capture());
        assert_eq!(outcome.expect_err(function).driver_code(), Some(code as u32));
        assert!(!stream.is_capturing());
        let memory = stream.allocate(8).expect("memory");
        drop(memory);
        stream.synchronize().expect("a synchronisation");
        let notes = fake.notes();
        let count = |word| notes.matches(word).count();
        assert_eq!(count("allocate"), count("free"), "{function}: {notes}");
    }
    assert!(stream.end_capture().expect_err("no capture").is_invalid_argument());
}

#[test]
fn a_full_gpu_says_how_much_was_asked() {
    let (fake, context) = open("full");
    fake.fail("cuMemAllocFromPoolAsync", 2);
    let error = stream(context).allocate(12345).expect_err("out of memory");
    assert!(error.is_out_of_memory());
    assert!(error.to_string().contains("12345 bytes were asked for on cuda:0"), "{error}");

    // What the driver needs for itself has no size that we know.
    fake.fail("cuStreamCreate", 2);
    let error = CudaStream::create(context).expect_err("out of memory");
    assert_eq!(error.driver_code(), Some(2));
    let text = error.to_string();
    assert!(text.contains("cuStreamCreate") && !text.contains("bytes were asked"), "{text}");
}

#[test]
fn tensor_maps_are_encoded_or_explained() {
    let (fake, context) = open("maps");
    let stream = stream(context);
    let sound = MapDescriptor {
        address: 4096,
        dtype: DType::Bf16,
        rank: 3,
        extents: [64, 256, 8],
        strides: [128, 32768],
        tile: [64, 128, 1],
        swizzle: true,
    };
    let map = stream.encode(&sound).expect("a map");
    assert_eq!(map.0[..6], [4096, 9, 3, 64, 256, 128]);
    let refused = |map| stream.encode(&map).expect_err("a refusal").to_string();
    let text = refused(MapDescriptor { strides: [124, 32768], ..sound });
    assert!(text.contains("multiple of 16"), "{text}");
    let error = stream.encode(&MapDescriptor { address: 4100, ..sound }).expect_err("misaligned");
    assert!(error.is_invalid_argument() && error.to_string().contains("0x1004"), "{error}");
    assert!(
        refused(MapDescriptor { dtype: DType::I32, ..sound }).contains("floating-point type or u8")
    );
    assert!(refused(MapDescriptor { rank: 4, ..sound }).contains("rank 4"));
    fake.fail("cuTensorMapEncodeTiled", 1);
    assert_eq!(stream.encode(&sound).expect_err("no rule is broken").driver_code(), Some(1));
}

#[test]
fn discrete_tensors_get_addresses_and_maps() {
    let (_fake, context) = open("table");
    let stream = stream(context);
    let tensors = |shape: &[usize], dtype: DType| -> Vec<Tensor> {
        let bytes = shape.iter().product::<usize>() * dtype.bytes();
        let make = |_| {
            let memory = stream.allocate(bytes).expect("memory");
            Tensor::from_memory(memory, 0, shape, dtype, context.id())
        };
        (0..3).map(make).collect()
    };
    let words = |memory: &Memory, count: usize| -> Vec<u64> {
        let mut words = vec![0u64; count];
        let bytes = bytemuck::cast_slice_mut(&mut words);
        stream.download(memory, 0, bytes).expect("a download");
        words
    };
    let weights = tensors(&[64, 128], DType::Bf16);
    let addresses: Vec<u64> = weights.iter().filter_map(Tensor::address).collect();
    let table = stream.address_table(&weights).expect("a table").expect("a table");
    assert_eq!(words(&table.pointers, 3), addresses);
    let maps = table.maps.expect("maps");
    for (memory, row_box) in [(&maps.fprop, 256), (&maps.dgrad, 64)] {
        for (map, address) in words(memory, 48).chunks(16).zip(&addresses) {
            assert_eq!(map[..6], [*address, 9, 3, 128, 64, row_box]);
        }
    }
    for (shape, dtype) in
        [(&[64, 128][..], DType::F32), (&[64, 12], DType::Bf16), (&[64], DType::Bf16)]
    {
        let table = stream.address_table(&tensors(shape, dtype)).expect("a table");
        assert!(table.expect("a table").maps.is_none(), "{shape:?} {dtype}");
    }
}

#[test]
fn threads_take_turns_and_a_turn_nests() {
    let (_fake, context) = open("turns");
    let stream = stream(context);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        let outer = stream.0.turn().expect("a turn");
        let inner = stream.0.turn().expect("a turn within");
        scope.spawn(|| {
            let _turn = stream.0.turn().expect("a turn");
            sender.send(()).expect("a listener");
        });
        drop(inner);
        let waited = receiver.recv_timeout(Duration::from_millis(50));
        assert!(waited.is_err(), "the other thread has to wait");
        drop(outer);
        receiver.recv().expect("its turn has come");
    });
}

#[test]
fn events_measure_time() {
    let (_fake, context) = open("events");
    let stream = stream(context);
    let (first, second) =
        (stream.record_event().expect("an event"), stream.record_event().expect("an event"));
    let elapsed = first.elapsed_until(&*second).expect("a time");
    assert_eq!(elapsed, Duration::from_millis(1));
    assert!(second.elapsed_until(&*first).expect_err("backwards").is_invalid_argument());
    stream.wait_event(&*first).expect("a wait");
}
