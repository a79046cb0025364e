//! How long accesses take. Prints the best of several times; asserts only bounds that a loaded
//! machine without optimisation keeps. `cargo test --release -- race::tests::timing --nocapture`
//! tells the truth.

use super::super::{
    AsyncAccess, LaneAccess, MemoryKind, Overlap, Proxy, Races, Role, Shadow, Strength, SyncClock,
    WarpId,
};
use super::{ALL, Agent};
use std::time::Instant;

const WARPS: u32 = 12;
const BYTES: u64 = 128 * 1024;

/// Everybody has met everybody, and 20 mbarriers.
fn block() -> Races {
    let mut races = Races::new(1);
    let mut clock = SyncClock::default();
    for _ in 0..20 {
        clock.learn(races.new_barrier(), ALL, 3);
    }
    for w in 0..WARPS {
        races.start_warp(ALL, super::name(0));
        for role in [Role::BulkRead, Role::BulkWrite, Role::Wgmma] {
            clock.learn(Agent::warp(WarpId(w), role), ALL, 3);
        }
    }
    barrier(&mut races, clock);
    races
}

fn barrier(races: &mut Races, mut clock: SyncClock) {
    (0..WARPS).for_each(|w| races.release(WarpId(w), ALL, &mut clock));
    (0..WARPS).for_each(|w| races.acquire(WarpId(w), ALL, &clock));
}

/// One pass over the region by all warps in turn; nanoseconds per instruction.
fn pass(races: &mut Races, shadow: &mut Shadow, bytes: u32, warps: u32, write: bool) -> f64 {
    let row = 32 * u64::from(bytes);
    let start = Instant::now();
    for index in 0..BYTES / row {
        let addresses = std::array::from_fn(|lane| index * row + u64::from(bytes) * lane as u64);
        let warp = WarpId((index % u64::from(warps)) as u32);
        let (mask, addresses, strength) = (ALL, &addresses, Strength::Weak);
        let access = LaneAccess { warp, mask, addresses, bytes, strength, site: 7 };
        let result = match write {
            true => races.write_lanes(shadow, &access, Overlap::Report, None),
            false => races.read_lanes(shadow, &access),
        };
        assert_eq!(result, Ok(()));
    }
    start.elapsed().as_nanos() as f64 / (BYTES / row) as f64
}

#[test]
fn ordered_accesses_are_quick() {
    for bytes in [1, 2, 4, 16] {
        let mut races = block();
        let mut shadow = Shadow::new(BYTES, MemoryKind::Shared);
        let mut times = [f64::MAX; 5];
        for _ in 0..40 {
            let mut now = [0.0; 5];
            now[0] = pass(&mut races, &mut shadow, bytes, WARPS, true);
            barrier(&mut races, SyncClock::default());
            now[1] = pass(&mut races, &mut shadow, bytes, WARPS - 1, false);
            now[2] = pass(&mut races, &mut shadow, bytes, WARPS - 1, false);
            now[3] = pass(&mut races, &mut shadow, bytes, WARPS - 2, false);
            barrier(&mut races, SyncClock::default());
            now[4] = pass(&mut races, &mut shadow, bytes, WARPS - 2, true);
            barrier(&mut races, SyncClock::default());
            for (time, now) in times.iter_mut().zip(now) {
                *time = time.min(now);
            }
        }
        let [write, read, again, others, over] = times;
        println!(
            "32 x {bytes}: write {write:.0} ns, read {read:.0} ns, read again {again:.0} ns, \
             by others {others:.0} ns, overwrite {over:.0} ns"
        );
        assert!(times.iter().all(|time| *time < 100_000.0), "{times:?}");
    }
}

#[test]
fn asynchronous_ranges_are_quick() {
    for lane_bytes in [2, 4, 16] {
        let mut races = block();
        let mut shadow = Shadow::new(BYTES, MemoryKind::Shared);
        let full = races.new_barrier();
        let mut times = [0f64; 2];
        for phase in 1..20 {
            // This sets how fine the cells are.
            pass(&mut races, &mut shadow, lane_bytes, 1, true);
            races.proxy_fence(WarpId(0), ALL, &MemoryKind::ALL);
            barrier(&mut races, SyncClock::default());
            let origin = &races.begin_async(WarpId(0), 1);
            let (strength, proxy, site) = (Strength::Weak, Proxy::Async, 9);
            let lanes = ALL;
            let access =
                AsyncAccess { origin, agent: full, lanes, clock: phase, strength, proxy, site };
            let start = Instant::now();
            assert_eq!(races.async_write(&mut shadow, &access, 0, BYTES, None), Ok(()));
            times[0] = times[0].max(BYTES as f64 / start.elapsed().as_nanos() as f64);
            let mut clock = SyncClock::default();
            clock.learn(full, ALL, phase);
            races.acquire(WarpId(1), ALL, &clock);
            let origin = &races.begin_async(WarpId(1), ALL);
            let agent = Agent::warp(WarpId(1), Role::Wgmma);
            let clock = phase + 3;
            let access = AsyncAccess { origin, agent, lanes, clock, strength, proxy, site };
            let start = Instant::now();
            assert_eq!(races.async_read(&mut shadow, &access, 0, BYTES), Ok(()));
            times[1] = times[1].max(BYTES as f64 / start.elapsed().as_nanos() as f64);
            races.complete(WarpId(1), ALL, Role::Wgmma, clock);
            barrier(&mut races, SyncClock::default());
        }
        let [write, read] = times;
        println!("cells of {lane_bytes}: write {write:.1} bytes/ns, read {read:.1} bytes/ns");
        assert!(times.iter().all(|speed| *speed > 0.001), "{times:?}");
    }
}

#[test]
fn synchronisation_is_quick() {
    let mut races = block();
    let start = Instant::now();
    (0..1000).for_each(|_| barrier(&mut races, SyncClock::default()));
    let block = start.elapsed().as_nanos() as f64 / 1000.0;
    let start = Instant::now();
    (0..1000).for_each(|_| races.warp_barrier(WarpId(3), ALL));
    let warp = start.elapsed().as_nanos() as f64 / 1000.0;
    let start = Instant::now();
    let agent = races.new_barrier();
    for phase in 1..1000 {
        let mut clock = SyncClock::default();
        clock.learn(agent, ALL, phase);
        races.release(WarpId(0), 1, &mut clock);
        races.acquire(WarpId(1), ALL, &clock);
    }
    let wait = start.elapsed().as_nanos() as f64 / 1000.0;
    println!(
        "block barrier {block:.0} ns, warp barrier {warp:.0} ns, arrive and wait {wait:.0} ns"
    );
    assert!(block.max(warp).max(wait) < 1_000_000.0);
}
