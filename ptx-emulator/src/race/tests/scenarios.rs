use super::super::RaceKind;
use super::super::stamp::Actor;
use super::Step::*;
use super::{ALL, By, MemoryKind, Races, Role, Shadow, Step, World};

struct Case {
    name: &'static str,
    steps: &'static [Step],
    /// What the last step reports; no other step may report anything.
    expected: Option<RaceKind>,
}

const RACE: Option<RaceKind> = Some(RaceKind::Race);
const UNFENCED: Option<RaceKind> = Some(RaceKind::MissingProxyFence);
const BULK_READ: By = By::Warp(0, Role::BulkRead, 1);
const BULK_WRITE: By = By::Warp(0, Role::BulkWrite, 1);
const COPY: By = By::Warp(0, Role::Copy, 1);
const MMA_1: By = By::Warp(1, Role::Wgmma, ALL);
const MMA_2: By = By::Warp(2, Role::Wgmma, ALL);
const RING: By = By::Barrier(0);

/// A case in one row.
const fn case(name: &'static str, expected: Option<RaceKind>, steps: &'static [Step]) -> Case {
    Case { name, steps, expected }
}

#[rustfmt::skip]
const PLAIN: &[Case] = &[
    case("write, write", RACE, &[Write(0, 1, 0), Write(1, 1, 0)]),
    case("write, read", RACE, &[Write(0, 1, 0), Read(1, 1, 0)]),
    case("read, write", RACE, &[Read(0, 1, 0), Write(1, 1, 0)]),
    case("read, read", None, &[Read(0, 1, 0), Read(1, 1, 0), Read(0, ALL, 0)]),
    case("other bytes", None, &[Write(0, 1, 0), Write(1, 1, 4), WriteBytes(2, 3, 8), WriteBytes(3, 3, 10)]),
    case("bytes of a word", RACE, &[WriteBytes(0, 2, 0), Write(1, 1, 0)]),
    case("the same thread", None, &[Write(0, 1, 0), Read(0, 1, 0), Write(0, 1, 0)]),
    case("another lane", RACE, &[WriteRow(0, ALL, 0), Read(0, 1, 4)]),
    case("another lane reads", RACE, &[Read(0, 2, 0), Write(0, 1, 0)]),
    case("broadcast reaches other lanes", RACE, &[Write(0, 1, 0), Read(0, 3, 0)]),
    case("warp barrier", None, &[WriteRow(0, ALL, 0), WarpBarrier(0, ALL), Read(0, 1, 4), Read(0, ALL, 64)]),
    case("warp barrier of other lanes", RACE, &[WriteRow(0, ALL, 0), WarpBarrier(0, 6), Read(0, 1, 4)]),
    case("warp barrier, then a write", RACE, &[WarpBarrier(0, ALL), Write(0, 2, 0), Read(0, 1, 0)]),
    case("block barrier", None, &[WriteRow(0, ALL, 0), Read(1, ALL, 512), BlockBarrier(&[0, 1]),
        ReadRow(1, ALL, 0), Write(0, 1, 512)]),
    case("block barrier without a warp", RACE, &[Write(0, 1, 0), BlockBarrier(&[0, 1]), Read(2, 1, 0)]),
    case("after the block barrier", RACE, &[BlockBarrier(&[0, 1]), Write(0, 1, 0), Read(1, 1, 0)]),
    // bar.arrive releases only, bar.sync of the other warp acquires.
    case("split barrier", None, &[WriteRow(0, ALL, 0), Release(0, ALL, 1), Acquire(1, ALL, 1), ReadRow(1, ALL, 0)]),
    case("split barrier, wrong way", RACE, &[Write(1, 1, 0), Release(0, ALL, 1), Release(1, ALL, 1),
        Acquire(1, ALL, 1), Write(0, 1, 0)]),
    case("write after arriving", RACE, &[Release(0, ALL, 1), Write(0, 1, 0), Acquire(1, ALL, 1), Read(1, 1, 0)]),
    case("lane 0 arrives for all", RACE, &[WriteRow(0, ALL, 0), Release(0, 1, 1), Acquire(1, ALL, 1), Read(1, 1, 4)]),
    case("lane 0 arrives for itself", None, &[WriteRow(0, ALL, 0), Release(0, 1, 1), Acquire(1, ALL, 1), Read(1, 1, 0)]),
    case("lane 0 arrives after a warp barrier", None, &[WriteRow(0, ALL, 0), WarpBarrier(0, ALL), Release(0, 1, 1),
        Acquire(1, ALL, 1), ReadRow(1, ALL, 0)]),
    case("one lane acquires", RACE, &[Write(0, 1, 0), Release(0, 1, 1), Acquire(1, 1, 1), Read(1, 2, 0)]),
    case("transitive", None, &[Write(0, 1, 0), Release(0, 1, 1), Acquire(1, 1, 1), Release(1, 1, 2),
        Acquire(2, 1, 2), Write(2, 1, 0)]),
    case("one instruction", Some(RaceKind::SameInstruction), &[Write(0, 3, 0)]),
    case("one instruction, one value", None, &[WriteSame(0, 3, 0)]),
    case("one value over another lane's", RACE, &[Write(0, 4, 0), WriteSame(0, 3, 0)]),
    case("the value of another warp", None, &[WriteRow(0, ALL, 0), RewriteRow(1, ALL, 0), Rewrite(2, 1, 64)]),
    case("the value of another lane", None, &[Write(0, 4, 0), Rewrite(0, 1, 0)]),
    case("another value over the same value", RACE, &[Write(0, 1, 0), Rewrite(1, 1, 0), Write(0, 1, 0)]),
    case("the value that others read", RACE, &[Write(0, 1, 0), Release(0, 1, 1), Acquire(1, 1, 1), Read(1, 1, 0),
        Rewrite(2, 1, 0)]),
    case("the value of one read unordered", RACE, &[Write(0, 1, 0), Rewrite(1, 1, 0), Read(2, 1, 0)]),
    case("the value of one, read in order", None, &[Write(0, 1, 0), Rewrite(1, 1, 0), Release(1, 1, 1),
        Acquire(2, 1, 1), Read(2, 1, 0)]),
    case("the value of an atomic", RACE, &[Atomic(0, 1, 0), Rewrite(1, 1, 0)]),
    case("the bytes of a bulk copy", None, &[Begin(0, 1, 0), AsyncWrite(0, BULK_WRITE, 1, 0, 64), Begin(1, 1, 1),
        AsyncRewrite(1, By::Warp(1, Role::BulkWrite, 1), 1, 0, 64)]),
    case("other bytes than a bulk copy", RACE, &[Begin(0, 1, 0), AsyncRewrite(0, BULK_WRITE, 1, 0, 64), Begin(1, 1, 1),
        AsyncWrite(1, By::Warp(1, Role::BulkWrite, 1), 1, 0, 64)]),
    case("the bytes of a store", RACE, &[Write(0, 1, 0), Begin(1, 1, 1),
        AsyncRewrite(1, By::Warp(1, Role::BulkWrite, 1), 1, 0, 4)]),
    case("the value of a bulk copy", RACE, &[Begin(0, 1, 0), AsyncWrite(0, BULK_WRITE, 1, 0, 64), Rewrite(1, 1, 0)]),
    case("the value of a copy", RACE, &[Begin(0, 1, 0), CopyWrite(0, COPY, 1, 0, 4), Rewrite(1, 1, 0)]),
    case("readers of several lanes", RACE, &[Read(0, ALL, 0), Release(0, 1, 1), Acquire(1, 1, 1), Write(1, 1, 0)]),
    case("readers before the release", None, &[Read(0, ALL, 0), Release(0, ALL, 1), Acquire(1, 1, 1), Write(1, 1, 0)]),
];

#[rustfmt::skip]
const STRONG: &[Case] = &[
    case("atomics", None, &[Atomic(0, ALL, 0), Atomic(1, ALL, 0), StrongRead(2, 1, 0), StrongWrite(0, 3, 0)]),
    case("atomic, weak read", RACE, &[Atomic(0, 1, 0), Read(1, 1, 0)]),
    case("weak write, atomic", RACE, &[Write(0, 1, 0), Atomic(1, 1, 0)]),
    case("weak read, atomic", RACE, &[Read(0, 1, 0), Atomic(1, 1, 0)]),
    case("polled, then written", RACE, &[StrongRead(0, 1, 0), StrongWrite(1, 1, 0), Write(1, 1, 0)]),
    case("flag, release, acquire", None, &[Write(0, 1, 64), StrongWrite(0, 1, 0), ReleaseAt(0, 1, 0),
        StrongRead(1, 1, 0), AcquireAt(1, 1, 0), Read(1, 1, 64)]),
    case("another flag", RACE, &[Write(0, 1, 64), ReleaseAt(0, 1, 0), AcquireAt(1, 1, 8), Read(1, 1, 64)]),
    case("flag without order", RACE, &[Write(0, 1, 64), StrongWrite(0, 1, 0), RelaxedWriteAt(0, 1, 0),
        StrongRead(1, 1, 0), RelaxedReadAt(1, 1, 0), Read(1, 1, 64)]),
    case("relaxed with fences", None, &[Write(0, 1, 64), Fence(0, 1), RelaxedWriteAt(0, 1, 0),
        RelaxedReadAt(1, 1, 0), Fence(1, 1), Read(1, 1, 64)]),
    case("no fence before the write", RACE, &[Write(0, 1, 64), RelaxedWriteAt(0, 1, 0),
        RelaxedReadAt(1, 1, 0), Fence(1, 1), Read(1, 1, 64)]),
    case("no fence after the read", RACE, &[Write(0, 1, 64), Fence(0, 1), RelaxedWriteAt(0, 1, 0),
        RelaxedReadAt(1, 1, 0), Read(1, 1, 64)]),
    case("fence before the data", RACE, &[Fence(0, 1), Write(0, 1, 64), RelaxedWriteAt(0, 1, 0),
        RelaxedReadAt(1, 1, 0), Fence(1, 1), Read(1, 1, 64)]),
    case("fence of another lane", RACE, &[Write(0, 1, 64), Fence(0, 2), RelaxedWriteAt(0, 1, 0),
        RelaxedReadAt(1, 1, 0), Fence(1, 1), Read(1, 1, 64)]),
    case("fence, release write, acquire read", None, &[Write(0, 1, 64), Fence(0, 1), RelaxedWriteAt(0, 1, 0),
        AcquireAt(1, 1, 0), Read(1, 1, 64)]),
    case("release sequence", None, &[Write(0, 1, 64), ReleaseAt(0, 1, 0), RelaxedUpdateAt(2, 1, 0),
        AcquireAt(1, 1, 0), Read(1, 1, 64)]),
    case("release sequence cut", RACE, &[Write(0, 1, 64), ReleaseAt(0, 1, 0), RelaxedWriteAt(2, 1, 0),
        AcquireAt(1, 1, 0), Read(1, 1, 64)]),
    case("counter of arrivals", None, &[Write(0, 1, 64), ReleaseUpdate(0, 1, 0), Write(1, 1, 68), ReleaseUpdate(1, 1, 0),
        AcquireAt(2, 1, 0), Read(2, 1, 64), Read(2, 1, 68)]),
];

#[rustfmt::skip]
const PROXY: &[Case] = &[
    case("fence, barrier, async read", None, &[WriteRow(0, ALL, 0), ProxyFence(0, ALL), BlockBarrier(&[0, 1]),
        Begin(1, ALL, 0), AsyncRead(0, MMA_1, 1, 0, 128)]),
    case("no fence", UNFENCED, &[WriteRow(0, ALL, 0), BlockBarrier(&[0, 1]), Begin(1, ALL, 0), AsyncRead(0, MMA_1, 1, 0, 128)]),
    case("no barrier", RACE, &[WriteRow(0, ALL, 0), ProxyFence(0, ALL), Begin(1, ALL, 0), AsyncRead(0, MMA_1, 1, 0, 128)]),
    case("barrier, fence by the reader", None, &[WriteRow(0, ALL, 0), BlockBarrier(&[0, 1]), ProxyFence(1, ALL),
        Begin(1, ALL, 0), AsyncRead(0, MMA_1, 1, 0, 128)]),
    case("fence before the write", UNFENCED, &[ProxyFence(0, ALL), WriteRow(0, ALL, 0), BlockBarrier(&[0, 1]),
        Begin(1, ALL, 0), AsyncRead(0, MMA_1, 1, 0, 128)]),
    case("fence by one lane only", UNFENCED, &[WriteRow(0, ALL, 0), ProxyFence(0, 1), BlockBarrier(&[0, 1]),
        Begin(1, ALL, 0), AsyncRead(0, MMA_1, 1, 0, 128)]),
    case("fence after the issue", UNFENCED, &[Write(0, 1, 0), Begin(0, 1, 0), ProxyFence(0, 1), AsyncRead(0, BULK_READ, 1, 0, 4)]),
    case("own write, own fence", None, &[Write(0, 1, 0), ProxyFence(0, 1), Begin(0, 1, 0), AsyncRead(0, BULK_READ, 1, 0, 4)]),
    case("own write, no fence", UNFENCED, &[Write(0, 1, 0), Begin(0, 1, 0), AsyncRead(0, BULK_READ, 1, 0, 4)]),
    case("other lane's write", RACE, &[Write(0, 2, 0), ProxyFence(0, ALL), Begin(0, 1, 0), AsyncRead(0, BULK_READ, 1, 0, 4)]),
    case("async over unfenced write", UNFENCED, &[Write(0, 1, 0), Begin(0, 1, 0), AsyncWrite(0, RING, 1, 0, 4)]),
    case("async over known read", None, &[Read(0, 1, 0), Begin(0, 1, 0), AsyncWrite(0, RING, 1, 0, 4)]),
    case("async over unknown read", RACE, &[Read(1, 1, 0), Begin(0, 1, 0), AsyncWrite(0, RING, 1, 0, 4)]),
    case("issuer overwrites, late copy", RACE, &[Begin(0, 1, 0), Write(0, 1, 0), AsyncRead(0, BULK_READ, 1, 0, 4)]),
    case("cp.async needs no proxy fence", None, &[Write(0, 1, 0), Begin(0, 1, 0), CopyWrite(0, COPY, 1, 0, 4),
        Complete(0, 1, Role::Copy, 1), Read(0, 1, 0)]),
    case("cp.async without a wait", RACE, &[Begin(0, 1, 0), CopyWrite(0, COPY, 1, 0, 4), Read(0, 1, 0)]),
];

#[rustfmt::skip]
const GROUPS: &[Case] = &[
    case("store, wait_group.read, overwrite", None, &[Begin(0, 1, 0), AsyncRead(0, BULK_READ, 1, 0, 256),
        Complete(0, 1, Role::BulkRead, 1), WriteRow(0, 1, 0)]),
    case("store, overwrite", RACE, &[Begin(0, 1, 0), AsyncRead(0, BULK_READ, 1, 0, 256), Write(0, 1, 252)]),
    case("store, wait, another lane", RACE, &[Begin(0, 1, 0), AsyncRead(0, BULK_READ, 1, 0, 256),
        Complete(0, 1, Role::BulkRead, 1), Write(0, 2, 0)]),
    case("store, wait, warp barrier, another lane", None, &[Begin(0, 1, 0), AsyncRead(0, BULK_READ, 1, 0, 256),
        Complete(0, 1, Role::BulkRead, 1), WarpBarrier(0, ALL), Write(0, 2, 0)]),
    case("the older of two groups", RACE, &[Begin(0, 1, 0), AsyncRead(0, BULK_READ, 2, 0, 256),
        Complete(0, 1, Role::BulkRead, 1), Write(0, 1, 0)]),
    case("reads done, writes not", RACE, &[Begin(0, 1, 0), AsyncWrite(0, BULK_WRITE, 1, 0, 256),
        Complete(0, 1, Role::BulkRead, 1), Read(0, 1, 0)]),
    case("writes done", None, &[Begin(0, 1, 0), AsyncWrite(0, BULK_WRITE, 1, 0, 256),
        Complete(0, 1, Role::BulkWrite, 1), Read(0, 1, 0)]),
    case("two stores to one place", RACE, &[Begin(0, 1, 0), AsyncWrite(0, BULK_WRITE, 1, 0, 256),
        Begin(0, 1, 1), AsyncWrite(1, BULK_WRITE, 2, 240, 256)]),
];

#[rustfmt::skip]
const RINGS: &[Case] = &[
    case("copy, wait, read", None, &[Begin(0, 1, 0), AsyncWrite(0, RING, 1, 0, 512), Phase(1, 0, 1), Acquire(1, ALL, 1),
        ReadRow(1, ALL, 0)]),
    case("copy, read", RACE, &[Begin(0, 1, 0), AsyncWrite(0, RING, 1, 0, 512), Phase(1, 0, 1), ReadRow(1, ALL, 0)]),
    case("wait for the phase before", RACE, &[Begin(0, 1, 0), AsyncWrite(0, RING, 2, 0, 512), Phase(1, 0, 1),
        Acquire(1, ALL, 1), ReadRow(1, ALL, 0)]),
    case("wait on another mbarrier", RACE, &[Begin(0, 1, 0), AsyncWrite(0, RING, 1, 0, 512), Phase(1, 1, 9),
        Acquire(1, ALL, 1), ReadRow(1, ALL, 0)]),
    // Producer warp 0, consumers 1 and 2; clock 1 is "full", clock 2 is "empty".
    case("ring", None, &[Begin(0, 1, 0), AsyncWrite(0, RING, 1, 0, 512), Phase(1, 0, 1),
        Acquire(1, ALL, 1), Acquire(2, ALL, 1),
        Begin(1, ALL, 1), AsyncRead(1, MMA_1, 1, 0, 512), Begin(2, ALL, 2), AsyncRead(2, MMA_2, 1, 0, 512),
        Complete(1, ALL, Role::Wgmma, 1), Release(1, 1, 2), Complete(2, ALL, Role::Wgmma, 1), Release(2, 1, 2),
        Acquire(0, 1, 2), Begin(0, 1, 3), AsyncWrite(3, RING, 2, 0, 512)]),
    case("ring, one warp does not arrive", RACE, &[Begin(0, 1, 0), AsyncWrite(0, RING, 1, 0, 512), Phase(1, 0, 1),
        Acquire(1, ALL, 1), Acquire(2, ALL, 1),
        Begin(1, ALL, 1), AsyncRead(1, MMA_1, 1, 0, 512), Begin(2, ALL, 2), AsyncRead(2, MMA_2, 1, 0, 512),
        Complete(1, ALL, Role::Wgmma, 1), Release(1, 1, 2), Complete(2, ALL, Role::Wgmma, 1),
        Acquire(0, 1, 2), Begin(0, 1, 3), AsyncWrite(3, RING, 2, 0, 512)]),
    case("ring, arrival before wgmma is waited for", RACE, &[Begin(0, 1, 0), AsyncWrite(0, RING, 1, 0, 512), Phase(1, 0, 1),
        Acquire(1, ALL, 1), Begin(1, ALL, 1), AsyncRead(1, MMA_1, 1, 0, 512), Release(1, 1, 2),
        Complete(1, ALL, Role::Wgmma, 1), Acquire(0, 1, 2), Begin(0, 1, 3), AsyncWrite(3, RING, 2, 0, 512)]),
    case("ring, producer does not wait", RACE, &[Begin(0, 1, 0), AsyncWrite(0, RING, 1, 0, 512), Phase(1, 0, 1),
        Acquire(1, ALL, 1), ReadRow(1, ALL, 0), Release(1, ALL, 2), Begin(0, 1, 3), Acquire(0, 1, 1), Acquire(0, 1, 2),
        AsyncWrite(3, RING, 2, 0, 512)]),
    case("loads, lane 0 arrives", RACE, &[Begin(0, 1, 0), AsyncWrite(0, RING, 1, 0, 512), Phase(1, 0, 1),
        Acquire(1, ALL, 1), ReadRow(1, ALL, 0), Release(1, 1, 2), Acquire(0, 1, 2), Acquire(0, 1, 1),
        Begin(0, 1, 3), AsyncWrite(3, RING, 2, 0, 512)]),
    case("loads, warp barrier, lane 0 arrives", None, &[Begin(0, 1, 0), AsyncWrite(0, RING, 1, 0, 512), Phase(1, 0, 1),
        Acquire(1, ALL, 1), ReadRow(1, ALL, 0), WarpBarrier(1, ALL), Release(1, 1, 2), Acquire(0, 1, 2),
        Begin(0, 1, 3), AsyncWrite(3, RING, 2, 0, 512)]),
];

#[test]
fn scripts() {
    let tables = [PLAIN, STRONG, PROXY, GROUPS, RINGS];
    for case in tables.into_iter().flatten() {
        for seed in 0..5 {
            let mut world = World::new(seed, 4, ALL, MemoryKind::Global);
            let (last, before) = case.steps.split_last().expect("a script has steps");
            for step in before {
                assert_eq!(world.step(*step), Ok(()), "{}, seed {seed}: {step:?}", case.name);
            }
            let kind = world.step(*last).err().map(|report| report.kind);
            assert_eq!(kind, case.expected, "{}, seed {seed}", case.name);
        }
    }
}

#[test]
fn reports_name_both_sides() {
    let rows: [(&[Step], &str, u32, u64, u32); 5] = [
        (
            &[WriteRow(0, ALL, 0), ReadRow(1, ALL, 64)],
            "write by block (0, 0, 7), warp 0, lane 16",
            0,
            64,
            0,
        ),
        (
            &[Read(2, 1, 4), Read(0, 4, 0), Write(1, 8, 0)],
            "read by block (0, 0, 7), warp 0, lane 2",
            1,
            0,
            3,
        ),
        (&[Write(1, 2, 0), Write(1, 24, 20)], "write by block (0, 0, 7), warp 1, lane 3", 1, 20, 4),
        (
            &[Begin(0, 1, 0), AsyncWrite(0, RING, 1, 32, 512), Read(1, 2, 528)],
            "write of a bulk copy that signals an mbarrier",
            1,
            528,
            1,
        ),
        (
            &[Begin(2, ALL, 0), AsyncRead(0, MMA_2, 1, 16, 512), WriteRow(1, ALL, 400)],
            "wgmma read by block (1, 0, 7), warp 0",
            1,
            400,
            0,
        ),
    ];
    for (steps, who, site, address, lane) in rows {
        let mut world = World::new(1, 4, ALL, MemoryKind::Global);
        let report = steps.iter().find_map(|step| world.step(*step).err()).expect("a report");
        let earlier = report.earlier.expect("an earlier access");
        let found = (world.races.describe(&earlier), earlier.site, report.address, report.lane);
        assert_eq!(found, (who.to_string(), site, address, lane));
    }
    assert_eq!(super::Agent::UNTRACKED.actor(), Actor::Untracked);
}

#[test]
fn unwritten_bytes() {
    for step in [ReadRow(0, 3, 40), AsyncRead(0, BULK_READ, 1, 40, 16), Atomic(0, 1, 48)] {
        let mut fresh = World::new(1, 2, ALL, MemoryKind::Shared);
        for before in [WriteRow(0, 0xff, 16), WriteBytes(0, 1, 48), ProxyFence(0, ALL)] {
            assert_eq!(fresh.step(before), Ok(()));
        }
        assert_eq!(fresh.step(WarpBarrier(0, ALL)), Ok(()));
        assert_eq!(fresh.step(Begin(0, 1, 0)), Ok(()));
        let found = fresh.step(ReadRow(0, 1, 16)).and_then(|()| fresh.step(step));
        match step {
            // Lane 1 reads bytes 44 to 47, all written.
            ReadRow(..) => assert_eq!(found, Ok(())),
            _ => {
                let report = found.expect_err("bytes from 49 are not written");
                let unwritten = (report.kind, report.earlier, report.address);
                assert_eq!(unwritten, (RaceKind::Uninitialised, None, 49));
            }
        }
    }
}

#[test]
fn what_does_not_exist_is_harmless() {
    let mut world = World::new(0, 1, 0xff, MemoryKind::Global);
    world.races.end_warp(super::WarpId(0));
    world.races.end_warp(super::WarpId(7));
    let steps = [
        Write(0, 1, 0),
        Write(9, 1, 0),
        Read(u32::MAX, ALL, u64::MAX - 2),
        Begin(9, ALL, 0),
        AsyncWrite(0, RING, 1, u64::MAX - 5, 100),
        AsyncRead(0, RING, u32::MAX, 1 << 40, u64::MAX),
        Release(9, ALL, 0),
        WarpBarrier(9, 0),
        Complete(9, ALL, Role::Copy, 0),
        ReleaseAt(9, ALL, 0),
        RelaxedReadAt(9, ALL, 0),
        RelaxedWriteAt(9, ALL, 0),
        Fence(9, ALL),
    ];
    for step in steps {
        assert_eq!(world.step(step), Ok(()), "{step:?}");
    }
}

#[test]
fn a_warp_of_fewer_lanes_is_known_as_a_whole() {
    let mut races = Races::new(0);
    let mut shadow = Shadow::new(64, MemoryKind::Global);
    let (half, other) =
        (races.start_warp(0xffff, super::name(0)), races.start_warp(ALL, super::name(1)));
    let addresses = [0; 32];
    let mut clock = super::SyncClock::default();
    for (warp, mask) in [(half, 1), (other, ALL)] {
        let (strength, bytes, site) = (super::Strength::Weak, 4, 0);
        let access = super::LaneAccess { warp, mask, addresses: &addresses, bytes, strength, site };
        if warp == half {
            races.release(half, 0xffff, &mut super::SyncClock::default());
            assert_eq!(
                races.write_lanes(&mut shadow, &access, super::Overlap::Report, None),
                Ok(())
            );
            races.release(half, 0xffff, &mut clock);
            races.acquire(other, ALL, &clock);
        } else {
            assert_eq!(races.read_lanes(&mut shadow, &access), Ok(()));
        }
    }
}
