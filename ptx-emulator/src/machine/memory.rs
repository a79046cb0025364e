//! Global memory: allocations with their bytes.

use crate::race::{MemoryKind, Shadow};

/// Allocations begin at multiples of this, as the driver's do.
const ALIGNMENT: u64 = 256;
/// Unmapped bytes between allocations, so that running off one never reaches the next.
const GAP: u64 = 1 << 16;

/// A memory operation of the host was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// There is not enough memory.
    #[error("{requested} bytes cannot be allocated: {available} of {capacity} bytes are free")]
    OutOfMemory {
        /// Bytes asked for.
        requested: u64,
        /// Bytes left.
        available: u64,
        /// Bytes of the machine.
        capacity: u64,
    },
    /// The bytes are not inside one allocation.
    #[error("{bytes} bytes at {address:#x} are not inside an allocation{hint}")]
    Unmapped {
        /// The first address.
        address: u64,
        /// How many bytes.
        bytes: u64,
        /// What is near.
        hint: String,
    },
    /// The address does not begin an allocation.
    #[error("{address:#x} cannot be freed: no allocation begins there")]
    NotAllocated {
        /// The address.
        address: u64,
    },
    /// The host's own memory is exhausted.
    #[error("the host has no {requested} bytes for an allocation")]
    Host {
        /// Bytes asked for.
        requested: u64,
    },
}

/// The name of constant memory in reports.
const CONSTANT: &str = "constant";

/// One allocation.
#[derive(Debug)]
pub(crate) struct Allocation {
    /// Its first address.
    pub(crate) base: u64,
    /// What its contents are: "global" or "constant" memory.
    pub(crate) space: &'static str,
    /// Its contents.
    pub(crate) bytes: Vec<u8>,
    /// Who has touched what during the running launch.
    pub(crate) shadow: Shadow,
}

impl Allocation {
    /// Whether kernels may only read it.
    pub(crate) fn is_constant(&self) -> bool {
        self.space == CONSTANT
    }

    fn contains(&self, address: u64, bytes: u64) -> bool {
        let length = self.bytes.len() as u64;
        address >= self.base && bytes <= length && address - self.base <= length - bytes
    }
}

/// All allocations, in the order of their addresses. Addresses are never used again, so that a use
/// after a free is always noticed.
#[derive(Debug)]
pub(crate) struct Memory {
    allocations: Vec<Allocation>,
    next: u64,
    /// The most bytes that are handed out at a time.
    capacity: u64,
    used: u64,
    /// The index that answered last; most accesses hit the same allocation again.
    last: usize,
}

impl Memory {
    pub(crate) fn new(capacity: u64) -> Self {
        Self { allocations: Vec::new(), next: super::window::GLOBAL, capacity, used: 0, last: 0 }
    }

    /// Unspecified bytes: they are filled with a pattern, so that reading them is seen.
    pub(crate) fn allocate(&mut self, bytes: u64) -> Result<u64, MemoryError> {
        self.allocate_in("global", bytes)
    }

    /// The same for a constant variable.
    pub(crate) fn allocate_constant(&mut self, bytes: u64) -> Result<u64, MemoryError> {
        self.allocate_in(CONSTANT, bytes)
    }

    fn allocate_in(&mut self, space: &'static str, bytes: u64) -> Result<u64, MemoryError> {
        let capacity = self.capacity;
        let available = capacity - self.used;
        if bytes > available {
            return Err(MemoryError::OutOfMemory { requested: bytes, available, capacity });
        }
        let mut contents = Vec::new();
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        if contents.try_reserve_exact(length).is_err() {
            return Err(MemoryError::Host { requested: bytes });
        }
        contents.resize(length, 0xA5);
        let base = self.next;
        self.next += bytes.next_multiple_of(ALIGNMENT) + GAP;
        self.used += bytes;
        let shadow = Shadow::new(0, MemoryKind::Global);
        self.allocations.push(Allocation { base, space, bytes: contents, shadow });
        Ok(base)
    }

    pub(crate) fn free(&mut self, address: u64) -> Result<(), MemoryError> {
        let found = self.allocations.binary_search_by_key(&address, |allocation| allocation.base);
        let index = found.map_err(|_| MemoryError::NotAllocated { address })?;
        let allocation = self.allocations.remove(index);
        self.used -= allocation.bytes.len() as u64;
        self.last = 0;
        Ok(())
    }

    fn index(&self, address: u64, bytes: u64) -> Option<usize> {
        if let Some(allocation) = self.allocations.get(self.last)
            && allocation.contains(address, bytes)
        {
            return Some(self.last);
        }
        let after = self.allocations.partition_point(|allocation| allocation.base <= address);
        let index = after.checked_sub(1)?;
        self.allocations.get(index)?.contains(address, bytes).then_some(index)
    }

    /// The allocation that holds these bytes, and their offset in it.
    pub(crate) fn find(&mut self, address: u64, bytes: u64) -> Option<(&mut Allocation, usize)> {
        let index = self.index(address, bytes)?;
        self.last = index;
        let allocation = self.allocations.get_mut(index)?;
        let offset = (address - allocation.base) as usize;
        Some((allocation, offset))
    }

    /// The last allocation that begins at an address or before, if it is near.
    fn near(&self, address: u64) -> Option<&Allocation> {
        let after = self.allocations.partition_point(|allocation| allocation.base <= address);
        let before = after.checked_sub(1).and_then(|index| self.allocations.get(index))?;
        (address < before.base + before.bytes.len() as u64 + GAP).then_some(before)
    }

    /// The memory that an address is in or near: "global" or "constant".
    pub(crate) fn space(&self, address: u64) -> &'static str {
        self.near(address).map_or("global", |allocation| allocation.space)
    }

    /// What is near an address that is in no allocation.
    pub(crate) fn hint(&self, address: u64) -> String {
        match self.near(address) {
            Some(allocation) => {
                let (base, length) = (allocation.base, allocation.bytes.len());
                let offset = address - base;
                format!("; an allocation of {length} bytes begins at {base:#x}, {offset} before")
            }
            _ if address >= super::window::GLOBAL && address < self.next => {
                "; nothing lives there now, it may have been freed".to_owned()
            }
            _ => "; no allocation is near".to_owned(),
        }
    }

    fn unmapped(&self, address: u64, bytes: u64) -> MemoryError {
        MemoryError::Unmapped { address, bytes, hint: self.hint(address) }
    }

    pub(crate) fn bytes(&self, address: u64, length: u64) -> Result<&[u8], MemoryError> {
        let index = self.index(address, length);
        let allocation = index.and_then(|index| self.allocations.get(index));
        let allocation = allocation.ok_or_else(|| self.unmapped(address, length))?;
        let offset = (address - allocation.base) as usize;
        Ok(&allocation.bytes[offset..offset + length as usize])
    }

    pub(crate) fn bytes_mut(
        &mut self,
        address: u64,
        length: u64,
    ) -> Result<&mut [u8], MemoryError> {
        let index = self.index(address, length).ok_or_else(|| self.unmapped(address, length))?;
        let allocation = &mut self.allocations[index];
        let offset = (address - allocation.base) as usize;
        Ok(&mut allocation.bytes[offset..offset + length as usize])
    }

    /// Launches of a machine follow one another, so each begins with no accesses on record.
    pub(crate) fn begin_launch(&mut self) {
        for allocation in &mut self.allocations {
            let length = allocation.bytes.len() as u64;
            allocation.shadow = Shadow::new(length, MemoryKind::Global);
        }
    }

    /// The record is not needed any longer.
    pub(crate) fn end_launch(&mut self) {
        for allocation in &mut self.allocations {
            allocation.shadow = Shadow::new(0, MemoryKind::Global);
        }
    }
}
