//! The mbarriers of a block and their phases (PTX ISA 9.1, 9.7.13.15).

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::race::{Agent, SyncClock};

/// The largest count of arrivals, and of bytes that may be outstanding.
pub(crate) const LARGEST: u32 = (1 << 20) - 1;

/// One mbarrier.
#[derive(Debug)]
pub(crate) struct Barrier {
    /// Completed phases.
    phase: u32,
    /// Arrivals that the phase still wants.
    pending: u32,
    /// Arrivals that the next phase will want.
    expected: u32,
    /// Bytes that have been announced and have not come; negative if they came first.
    transactions: i64,
    /// What arrivals of the phase have released.
    current: SyncClock,
    /// What waiting for the last complete phase makes known.
    completed: SyncClock,
    agent: Agent,
}

impl Barrier {
    fn new(count: u32, agent: Agent) -> Self {
        Self {
            phase: 0,
            pending: count,
            expected: count,
            transactions: 0,
            current: SyncClock::default(),
            completed: SyncClock::default(),
            agent,
        }
    }

    /// The phase that is not complete, from 0.
    pub(crate) fn phase(&self) -> u32 {
        self.phase
    }

    /// Whether the phase of this parity is complete: that of the opposite parity runs.
    pub(crate) fn has_completed(&self, parity: u32) -> bool {
        self.phase & 1 != parity
    }

    /// The word that arriving returns: the phase and its pending arrivals.
    pub(crate) fn state(&self) -> u64 {
        u64::from(self.phase) << 32 | u64::from(self.pending)
    }

    /// What waiters learn.
    pub(crate) fn completed(&self) -> &SyncClock {
        &self.completed
    }

    /// What arrivals release into.
    pub(crate) fn current(&mut self) -> &mut SyncClock {
        &mut self.current
    }

    /// Who asynchronous copies that complete here are, and the clock of this phase's copies.
    pub(crate) fn agent(&self) -> (Agent, u32) {
        (self.agent, self.phase.wrapping_add(1))
    }

    /// Whether the phase that a state is of is complete. A state is good for the phase it is of and
    /// for the one after ("mbarrier.test_wait" in the PTX manual): on hardware it holds one bit of
    /// the phase.
    pub(crate) fn has_left(&self, state: u64) -> Result<bool, String> {
        let phase = (state >> 32) as u32;
        match self.phase.wrapping_sub(phase) {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(format!(
                "the state of phase {phase} is waited for, which is neither the current nor the \
                 preceding one: {}",
                self.describe()
            )),
        }
    }

    /// Arrivals and bytes, for reports.
    pub(crate) fn describe(&self) -> String {
        let Self { phase, pending, expected, transactions, .. } = self;
        let why = match transactions {
            ..0 => " (so many more have come than were announced)",
            0.. => "",
        };
        format!(
            "phase {phase}, {pending} of {expected} arrivals pending, {transactions} bytes \
             pending{why}"
        )
    }

    /// `count` threads arrive; with `drop` they do not take part in later phases. Unless
    /// `may_complete`, the phase must not end by it.
    pub(crate) fn arrive(
        &mut self,
        count: u32,
        drop: bool,
        may_complete: bool,
    ) -> Result<(), String> {
        if count == 0 || count > LARGEST {
            return Err(format!("{count} arrivals at once; 1 to {LARGEST} are possible"));
        }
        if count > self.pending {
            return Err(format!("{count} more arrive than are expected: {}", self.describe()));
        }
        if !may_complete && count == self.pending {
            let state = self.describe();
            return Err(format!("arrive.noComplete of {count} would complete the phase: {state}"));
        }
        self.pending -= count;
        if drop {
            self.expected = self.expected.saturating_sub(count);
        }
        self.complete_if_all();
        Ok(())
    }

    /// The phase wants one arrival more.
    pub(crate) fn expect_arrival(&mut self) -> Result<(), String> {
        if self.pending >= LARGEST {
            return Err(format!("more than {LARGEST} arrivals: {}", self.describe()));
        }
        self.pending += 1;
        Ok(())
    }

    /// Bytes are announced, or come if the number is negative.
    pub(crate) fn transact(&mut self, bytes: i64) -> Result<(), String> {
        let sum = self.transactions + bytes;
        if sum.unsigned_abs() > u64::from(LARGEST) {
            let state = self.describe();
            return Err(format!("{sum} bytes pending, at most ±{LARGEST} are possible; {state}"));
        }
        self.transactions = sum;
        self.complete_if_all();
        Ok(())
    }

    fn complete_if_all(&mut self) {
        if self.pending != 0 || self.transactions != 0 {
            return;
        }
        let (agent, clock) = self.agent();
        self.phase = self.phase.wrapping_add(1);
        self.pending = self.expected;
        // Later phases carry what earlier ones did: all arrivals modify one object, in an order.
        let current = std::mem::take(&mut self.current);
        self.completed.join(&current);
        self.completed.learn(agent, u32::MAX, clock);
    }
}

/// The size of an mbarrier, which its address is a multiple of.
const BYTES: u32 = 8;

/// The mbarriers of a block, by their offset in shared memory.
#[derive(Debug, Default)]
pub(crate) struct Mbarriers {
    live: BTreeMap<u32, Barrier>,
    /// From the first of them to behind the last.
    range: (u32, u32),
}

impl Mbarriers {
    /// A new mbarrier.
    pub(crate) fn init(&mut self, offset: u32, count: u32, agent: Agent) -> Result<(), String> {
        if count == 0 || count > LARGEST {
            return Err(format!("initialised for {count} arrivals; 1 to {LARGEST} are possible"));
        }
        if let Some(barrier) = self.live.get(&offset) {
            let state = barrier.describe();
            return Err(format!("initialised again without `mbarrier.inval` before: {state}"));
        }
        self.live.insert(offset, Barrier::new(count, agent));
        self.update_range();
        Ok(())
    }

    /// The end of an mbarrier.
    pub(crate) fn invalidate(&mut self, offset: u32) -> Result<(), String> {
        self.live.remove(&offset).ok_or_else(missing)?;
        self.update_range();
        Ok(())
    }

    fn update_range(&mut self) {
        let (first, last) = (self.live.first_key_value(), self.live.last_key_value());
        self.range = match (first, last) {
            (Some((first, _)), Some((last, _))) => (*first, last.saturating_add(BYTES)),
            _ => (0, 0),
        };
    }

    /// The bytes of shared memory outside of which there is no mbarrier: from, to.
    pub(crate) fn range(&self) -> (u32, u32) {
        self.range
    }

    /// The first mbarrier that some bytes of shared memory touch.
    pub(crate) fn touched(&self, start: u32, bytes: u32) -> Option<u32> {
        let end = start.saturating_add(bytes);
        let mut touched = self.live.range(start.saturating_sub(BYTES - 1)..end);
        touched.next().map(|(offset, _)| *offset)
    }

    /// Nothing but `mbarrier` instructions may access an mbarrier between its initialisation and
    /// `mbarrier.inval` ("mbarrier" in the PTX manual). Returns what is wrong with an access.
    pub(crate) fn check_access(&self, access: &str, start: u32, bytes: u32) -> Result<(), String> {
        let Some(barrier) = self.touched(start, bytes) else { return Ok(()) };
        let text = format!(
            "{access} of {bytes} bytes at shared offset {start:#x}, where the mbarrier at \
             {barrier:#x} lives: before `mbarrier.inval` only `mbarrier` instructions may touch it"
        );
        Err(text)
    }

    /// The mbarrier at an offset.
    pub(crate) fn get(&mut self, offset: u32) -> Result<&mut Barrier, String> {
        self.live.get_mut(&offset).ok_or_else(missing)
    }

    /// Adds the mbarriers to the description of a deadlock. `block` names their block.
    pub(crate) fn describe(&self, block: &str, text: &mut String) {
        for (offset, barrier) in &self.live {
            let _ = writeln!(text, "  {block}, mbarrier {offset:#x}: {}", barrier.describe());
        }
    }
}

fn missing() -> String {
    "not initialised".to_owned()
}
