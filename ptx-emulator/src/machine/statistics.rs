//! What a launch did.

use std::collections::BTreeMap;
use std::fmt;

/// Executions of one kind of instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Executions {
    /// By warps: once however many lanes took part.
    pub warps: u64,
    /// By threads.
    pub threads: u64,
}

/// Counts of a launch. Prints as a table, the most frequent instruction first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// By opcode with its modifiers, as in `ld.global.b32`.
    pub instructions: BTreeMap<String, Executions>,
    /// Bytes that threads read and wrote in global memory.
    pub global_bytes: u64,
    /// Bytes that threads read and wrote in shared memory.
    pub shared_bytes: u64,
    /// Bytes that threads read and wrote in local memory.
    pub local_bytes: u64,
    /// Bytes that `cp.async`, bulk and tensor copies wrote, once for each destination.
    pub copied_bytes: u64,
    /// Bytes that `cp.async.bulk.prefetch` named.
    pub prefetched_bytes: u64,
    /// Multiplications with an addition that matrix instructions did.
    pub multiply_adds: u64,
    /// Passes over the banks of shared memory that threads' accesses took.
    pub shared_passes: u64,
    /// Those of them that bank conflicts caused.
    pub bank_conflicts: u64,
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>14} {:>14}  instruction", "warps", "threads")?;
        let row = |f: &mut fmt::Formatter<'_>, name: &str, own: Executions| {
            writeln!(f, "{:>14} {:>14}  {name}", own.warps, own.threads)
        };
        let mut instructions: Vec<_> = self.instructions.iter().collect();
        instructions.sort_by_key(|(name, own)| (std::cmp::Reverse(own.threads), *name));
        for (name, own) in instructions {
            row(f, name, *own)?;
        }
        row(f, "in all", self.total())?;
        let rest = [
            (self.global_bytes, "bytes of global memory"),
            (self.shared_bytes, "bytes of shared memory"),
            (self.local_bytes, "bytes of local memory"),
            (self.copied_bytes, "bytes of asynchronous copies"),
            (self.prefetched_bytes, "bytes of bulk prefetches"),
            (self.multiply_adds, "multiply-adds of matrix instructions"),
            (self.shared_passes, "passes over the banks of shared memory"),
            (self.bank_conflicts, "of them by bank conflicts"),
        ];
        rest.iter().try_for_each(|(count, what)| writeln!(f, "{count:>29}  {what}"))
    }
}

impl Statistics {
    /// All instructions.
    #[must_use]
    pub fn total(&self) -> Executions {
        self.instructions.values().fold(Executions::default(), |sum, own| Executions {
            warps: sum.warps + own.warps,
            threads: sum.threads + own.threads,
        })
    }

    /// Adds what another launch did.
    pub fn add(&mut self, other: &Self) {
        for (name, own) in &other.instructions {
            self.count(name, own.warps, own.threads);
        }
        self.global_bytes += other.global_bytes;
        self.shared_bytes += other.shared_bytes;
        self.local_bytes += other.local_bytes;
        self.copied_bytes += other.copied_bytes;
        self.prefetched_bytes += other.prefetched_bytes;
        self.multiply_adds += other.multiply_adds;
        self.shared_passes += other.shared_passes;
        self.bank_conflicts += other.bank_conflicts;
    }

    pub(crate) fn count(&mut self, name: &str, warps: u64, threads: u64) {
        if warps == 0 {
            return;
        }
        let own = match self.instructions.get_mut(name) {
            Some(own) => own,
            None => self.instructions.entry(name.to_owned()).or_default(),
        };
        own.warps += warps;
        own.threads += threads;
    }

    /// An access of shared memory by the lanes of a mask: 32 banks of 4 bytes, one pass for each
    /// different word that a bank must give. Accesses of more than 4 bytes a lane are made in as
    /// many parts, of as many fewer lanes.
    pub(crate) fn count_shared(&mut self, bytes: u32, addresses: &[u64; 32], mask: u32) {
        self.shared_bytes += u64::from(bytes * mask.count_ones());
        let parts = bytes.div_ceil(4).max(1).next_power_of_two().min(32);
        if mask == u32::MAX && is_even(bytes, addresses) {
            self.shared_passes += u64::from(parts);
            return;
        }
        // An aligned access of several words takes a group of neighbouring banks, which no other
        // one of its size takes a part of: it counts as one word of one wider bank.
        let width = bytes.max(4).next_power_of_two().trailing_zeros();
        let banks = 32 / parts as usize;
        for (part, addresses) in addresses.chunks_exact(banks).enumerate() {
            let mask = mask >> (part * banks);
            let passes = match one_a_bank(addresses, mask, width) {
                Some(any) => u8::from(any),
                None => passes(addresses, mask, width),
            };
            self.shared_passes += u64::from(passes);
            self.bank_conflicts += u64::from(passes.saturating_sub(1));
        }
    }
}

/// Whether one of as many lanes as there are banks of 2^`width` bytes accesses any word; nothing if
/// two access different ones of one bank.
fn one_a_bank(addresses: &[u64], mask: u32, width: u32) -> Option<bool> {
    let mut used = 0u32;
    let mut known = [0; 32];
    for (lane, address) in addresses.iter().enumerate() {
        if mask >> lane & 1 == 0 {
            continue;
        }
        let word = address >> width;
        // There are 32 banks or a smaller power of two.
        let bank = word as usize & (addresses.len() - 1) & 31;
        if used >> bank & 1 != 0 && known[bank] != word {
            return None;
        }
        used |= 1 << bank;
        known[bank] = word;
    }
    Some(used != 0)
}

/// The most different words in a bank.
fn passes(addresses: &[u64], mask: u32, width: u32) -> u8 {
    let mut deepest = 0;
    let mut depth = [0u8; 32];
    let mut known = [[0u64; 4]; 32];
    for (lane, address) in addresses.iter().enumerate() {
        if mask >> lane & 1 == 0 {
            continue;
        }
        let word = address >> width;
        let bank = word as usize & (addresses.len() - 1) & 31;
        let count = depth[bank] as usize;
        if !known[bank][..count.min(4)].contains(&word) {
            known[bank][count % 4] = word;
            depth[bank] = depth[bank].saturating_add(1);
            deepest = deepest.max(depth[bank]);
        }
    }
    deepest
}

/// Whether lanes access one aligned row in their order, or all the same: every part of such an
/// access needs one word of each bank at most.
fn is_even(bytes: u32, addresses: &[u64; 32]) -> bool {
    let bytes = u64::from(bytes);
    let [first, ..] = *addresses;
    let (mut in_row, mut equal) = (0, 0);
    for (lane, address) in (0u64..).zip(addresses) {
        in_row |= address ^ first.wrapping_add(lane * bytes);
        equal |= address ^ first;
    }
    bytes.is_power_of_two() && first & (bytes - 1) == 0 && (in_row == 0 || equal == 0)
}

#[cfg(test)]
mod tests {
    use super::Statistics;
    use std::collections::BTreeSet;

    /// The passes of a part: the most different words of one bank.
    fn expected(bytes: u32, addresses: &[u64; 32], mask: u32) -> (u64, u64) {
        let parts = (bytes as usize).div_ceil(4);
        let (mut passes, mut conflicts) = (0, 0);
        for part in 0..parts {
            let mut banks = vec![BTreeSet::new(); 32];
            let lanes = part * 32 / parts..(part + 1) * 32 / parts;
            for (lane, address) in lanes.clone().zip(&addresses[lanes]) {
                for word in (0..parts as u64).filter(|_| mask >> lane & 1 != 0) {
                    let word = address / 4 + word;
                    banks[(word % 32) as usize].insert(word);
                }
            }
            let deepest = banks.iter().map(BTreeSet::len).max().unwrap_or(0) as u64;
            passes += deepest;
            conflicts += deepest.saturating_sub(1);
        }
        (passes, conflicts)
    }

    #[test]
    fn passes_are_those_of_the_fullest_bank() {
        let patterns: [fn(u64) -> u64; 9] = [
            |lane| lane,
            |_| 5,
            |lane| lane / 8,
            |lane| lane * 2,
            |lane| lane * 8 % 32,
            |lane| lane * 32,
            |lane| lane % 4 * 32,
            |lane| lane ^ 5,
            |lane| lane * 33 % 64,
        ];
        for bytes in [1, 2, 4, 8, 16] {
            for (number, pattern) in patterns.iter().enumerate() {
                for mask in [u32::MAX, 0x0F0F_00FF, 1 << 31, 0xFFFF] {
                    let addresses =
                        std::array::from_fn(|lane| 1024 + pattern(lane as u64) * u64::from(bytes));
                    let mut own = Statistics::default();
                    own.count_shared(bytes, &addresses, mask);
                    let found = (own.shared_passes, own.bank_conflicts);
                    let wanted = expected(bytes, &addresses, mask);
                    assert_eq!(found, wanted, "{bytes} bytes, pattern {number}, {mask:#x}");
                }
            }
        }
    }
}
