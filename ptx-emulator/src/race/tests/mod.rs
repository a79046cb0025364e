//! Scripts with known outcome, a comparison with an exact detector, and a timing.

mod differential;
mod scenarios;
mod timing;

use super::{
    Agent, AsyncAccess, AsyncOrigin, LaneAccess, MemoryKind, Modification, Overlap, Proxy, Races,
    Report, Role, Shadow, Stored, Strength, SyncClock, WarpId, WarpName,
};
use std::collections::HashMap;

const ALL: u32 = u32::MAX;
/// A store of zeroes over zeroes.
const ZEROES: Option<Stored<'_>> = Some(Stored { before: &[0; 1 << 16], after: &[0; 1 << 10] });

/// Under whose clock an asynchronous access becomes known.
#[derive(Clone, Copy, Debug)]
enum By {
    /// A warp, and the lanes that issued.
    Warp(u32, Role, u32),
    /// The mbarrier of this number.
    Barrier(usize),
}

/// What a script does. Lanes are masks, numbers name clocks, origins and keys.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Every lane accesses the same 4 bytes.
    Read(u32, u32, u64),
    Write(u32, u32, u64),
    /// As `Write`, all lanes with the same value.
    WriteSame(u32, u32, u64),
    /// As `Write` and `WriteRow`, of the value that is there already.
    Rewrite(u32, u32, u64),
    RewriteRow(u32, u32, u64),
    /// Lane l accesses 4 bytes at 4·l behind the address.
    ReadRow(u32, u32, u64),
    WriteRow(u32, u32, u64),
    StrongRead(u32, u32, u64),
    StrongWrite(u32, u32, u64),
    Atomic(u32, u32, u64),
    /// Lane l accesses 1 byte at l behind the address.
    WriteBytes(u32, u32, u64),

    Release(u32, u32, u32),
    Acquire(u32, u32, u32),
    /// All lanes of all warps of a list.
    BlockBarrier(&'static [u32]),
    WarpBarrier(u32, u32),
    ProxyFence(u32, u32),
    Fence(u32, u32),
    ReleaseAt(u32, u32, u64),
    ReleaseUpdate(u32, u32, u64),
    AcquireAt(u32, u32, u64),
    RelaxedWriteAt(u32, u32, u64),
    RelaxedUpdateAt(u32, u32, u64),
    RelaxedReadAt(u32, u32, u64),

    /// Issue an operation as this origin.
    Begin(u32, u32, u32),
    /// Origin, agent, clock, start, length.
    AsyncRead(u32, By, u32, u64, u64),
    AsyncWrite(u32, By, u32, u64, u64),
    /// Through the generic proxy.
    CopyWrite(u32, By, u32, u64, u64),
    /// As `AsyncWrite`, of the bytes that are there already.
    AsyncRewrite(u32, By, u32, u64, u64),
    Complete(u32, u32, Role, u32),
    /// An mbarrier's phase ends: clock, mbarrier, agent clock.
    Phase(u32, usize, u32),
}

/// Blocks of two warps.
fn name(warp: u32) -> WarpName {
    WarpName { block: [warp / 2, 0, 7], index: warp % 2 }
}

struct World {
    races: Races,
    shadow: Shadow,
    clocks: HashMap<u32, SyncClock>,
    origins: HashMap<u32, AsyncOrigin>,
    barriers: Vec<Agent>,
    site: u32,
}

impl World {
    fn new(seed: u64, warps: u32, lanes: u32, kind: MemoryKind) -> Self {
        let mut races = Races::new(seed);
        for index in 0..warps {
            races.start_warp(lanes, name(index));
        }
        let barriers = (0..4).map(|_| races.new_barrier()).collect();
        let shadow = Shadow::new(1 << 16, kind);
        let (clocks, origins) = (HashMap::new(), HashMap::new());
        Self { races, shadow, clocks, origins, barriers, site: 0 }
    }

    /// Runs a step; its site is the number of steps before it.
    fn step(&mut self, step: Step) -> Result<(), Report> {
        let site = self.site;
        self.site += 1;
        let races = &mut self.races;
        let warp = WarpId;
        let mut lanes = |w: u32, mask, address: u64, stride: u64, kind: char| {
            let addresses = std::array::from_fn(|lane| address + stride * lane as u64);
            let strong = matches!(kind, 'R' | 'W');
            let access = LaneAccess {
                warp: WarpId(w),
                mask,
                addresses: &addresses,
                bytes: if stride == 1 { 1 } else { 4 },
                strength: if strong { Strength::Strong } else { Strength::Weak },
                site,
            };
            let shadow = &mut self.shadow;
            match kind {
                'r' | 'R' => races.read_lanes(shadow, &access),
                'w' | 'W' => races.write_lanes(shadow, &access, Overlap::Report, None),
                's' => races.write_lanes(shadow, &access, Overlap::SameValue, None),
                'z' => races.write_lanes(shadow, &access, Overlap::Report, ZEROES),
                _ => races.atomic_lanes(shadow, &access),
            }
        };
        match step {
            Step::Read(w, mask, address) => return lanes(w, mask, address, 0, 'r'),
            Step::Write(w, mask, address) => return lanes(w, mask, address, 0, 'w'),
            Step::WriteSame(w, mask, address) => return lanes(w, mask, address, 0, 's'),
            Step::Rewrite(w, mask, address) => return lanes(w, mask, address, 0, 'z'),
            Step::RewriteRow(w, mask, address) => return lanes(w, mask, address, 4, 'z'),
            Step::ReadRow(w, mask, address) => return lanes(w, mask, address, 4, 'r'),
            Step::WriteRow(w, mask, address) => return lanes(w, mask, address, 4, 'w'),
            Step::StrongRead(w, mask, address) => return lanes(w, mask, address, 0, 'R'),
            Step::StrongWrite(w, mask, address) => return lanes(w, mask, address, 0, 'W'),
            Step::Atomic(w, mask, address) => return lanes(w, mask, address, 0, 'a'),
            Step::WriteBytes(w, mask, address) => return lanes(w, mask, address, 1, 'w'),
            Step::Release(w, mask, clock) => {
                races.release(warp(w), mask, self.clocks.entry(clock).or_default());
            }
            Step::Acquire(w, mask, clock) => {
                races.acquire(warp(w), mask, self.clocks.entry(clock).or_default());
            }
            Step::BlockBarrier(warps) => {
                let mut clock = SyncClock::default();
                warps.iter().for_each(|&w| races.release(warp(w), ALL, &mut clock));
                warps.iter().for_each(|&w| races.acquire(warp(w), ALL, &clock));
            }
            Step::WarpBarrier(w, mask) => races.warp_barrier(warp(w), mask),
            Step::ProxyFence(w, mask) => {
                races.proxy_fence(warp(w), mask, &MemoryKind::ALL);
            }
            Step::Fence(w, mask) => races.fence(warp(w), mask),
            Step::ReleaseAt(w, mask, key) => {
                races.release_at(key, warp(w), mask, Modification::Store);
            }
            Step::ReleaseUpdate(w, mask, key) => {
                races.release_at(key, warp(w), mask, Modification::ReadModifyWrite);
            }
            Step::AcquireAt(w, mask, key) => races.acquire_at(key, warp(w), mask),
            Step::RelaxedWriteAt(w, mask, key) => {
                races.relaxed_write_at(key, warp(w), mask, Modification::Store);
            }
            Step::RelaxedUpdateAt(w, mask, key) => {
                races.relaxed_write_at(key, warp(w), mask, Modification::ReadModifyWrite);
            }
            Step::RelaxedReadAt(w, mask, key) => races.relaxed_read_at(key, warp(w), mask),
            Step::Begin(w, mask, origin) => {
                let begun = races.begin_async(warp(w), mask);
                self.origins.insert(origin, begun);
            }
            Step::AsyncRead(origin, by, clock, start, length) => {
                return self.asynchronous(origin, by, clock, (start, length), 'r');
            }
            Step::AsyncWrite(origin, by, clock, start, length) => {
                return self.asynchronous(origin, by, clock, (start, length), 'w');
            }
            Step::CopyWrite(origin, by, clock, start, length) => {
                return self.asynchronous(origin, by, clock, (start, length), 'c');
            }
            Step::AsyncRewrite(origin, by, clock, start, length) => {
                return self.asynchronous(origin, by, clock, (start, length), 'z');
            }
            Step::Complete(w, mask, role, clock) => races.complete(warp(w), mask, role, clock),
            Step::Phase(clock, barrier, until) => {
                let agent = self.barriers[barrier];
                self.clocks.entry(clock).or_default().learn(agent, ALL, until);
            }
        }
        Ok(())
    }

    fn asynchronous(
        &mut self,
        origin: u32,
        by: By,
        clock: u32,
        (start, length): (u64, u64),
        kind: char,
    ) -> Result<(), Report> {
        let (agent, lanes) = match by {
            By::Warp(w, role, lanes) => (Agent::warp(WarpId(w), role), lanes),
            By::Barrier(barrier) => (self.barriers[barrier], ALL),
        };
        let access = AsyncAccess {
            origin: &self.origins[&origin],
            agent,
            lanes,
            clock,
            strength: Strength::Weak,
            proxy: if kind == 'c' { Proxy::Generic } else { Proxy::Async },
            site: self.site - 1,
        };
        match kind {
            'r' => self.races.async_read(&mut self.shadow, &access, start, length),
            'z' => self.races.async_write(&mut self.shadow, &access, start, length, ZEROES),
            _ => self.races.async_write(&mut self.shadow, &access, start, length, None),
        }
    }
}
