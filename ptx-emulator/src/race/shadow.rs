//! The last accesses to every byte of a memory region.

use super::stamp::Stamp;

const PAGE_BITS: u32 = 8;
const PAGE: u64 = 1 << PAGE_BITS;
/// Bytes a cell stands for at most: 2⁴, the widest access of a lane.
pub(super) const WIDEST: u32 = 4;

/// The last accesses to the bytes of one granule: one write, and the readers since.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cell {
    pub(super) write: Stamp,
    /// One access; where several are unordered a coin decides which is kept.
    pub(super) read: Stamp,
    /// The lanes that took part in `read`.
    pub(super) read_lanes: u32,
    pub(super) write_site: u32,
    pub(super) read_site: u32,
}

/// The cells of 256 bytes. They are as coarse as the accesses so far allow, because most memory
/// is only ever accessed in aligned runs of 16 or 4 bytes.
#[derive(Clone, Debug, Default)]
struct Page {
    /// A cell stands for 2^`shift` bytes.
    shift: u32,
    /// Empty before the first access.
    cells: Box<[Cell]>,
}

impl Page {
    fn refine(&mut self, shift: u32) {
        if self.cells.is_empty() {
            self.shift = shift;
            self.cells = vec![Cell::default(); (PAGE >> shift) as usize].into();
            return;
        }
        let copies = 1 << self.shift.saturating_sub(shift);
        self.cells = self.cells.iter().flat_map(|&c| std::iter::repeat_n(c, copies)).collect();
        self.shift = shift;
    }
}

/// What memory a region is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryKind {
    /// Shared memory. It has no value at the start of a block, so reads of bytes that nobody wrote
    /// are reported.
    Shared,
    /// Global memory. It belongs to the host, which knows what it left there.
    Global,
}

impl MemoryKind {
    /// How many there are.
    pub(super) const COUNT: usize = 2;
    /// All of them.
    pub(crate) const ALL: [Self; Self::COUNT] = [Self::Shared, Self::Global];
}

/// What the detector remembers of one memory region. Addresses are offsets in the region.
#[derive(Clone, Debug)]
pub(crate) struct Shadow {
    length: u64,
    pub(super) kind: MemoryKind,
    pages: Vec<Page>,
}

impl Shadow {
    /// A region of `length` bytes without accesses.
    pub(crate) fn new(length: u64, kind: MemoryKind) -> Self {
        Self { length, kind, pages: Vec::new() }
    }

    /// The cells of the first bytes of a range, up to the end of their page. Bytes beyond the
    /// region have no cells. No cell stands for more than 2^`widest` bytes.
    #[inline]
    pub(super) fn run(&mut self, start: u64, length: u64, widest: u32) -> Run<'_> {
        let index = start >> PAGE_BITS;
        let offset = start & (PAGE - 1);
        let end = start.saturating_add(length).min(self.length);
        let taken = end.saturating_sub(start).min(PAGE - offset);
        let last = offset + taken;
        // Every start and end must lie between two granules.
        let edges = (offset | last).trailing_zeros().min(widest);
        let fits =
            self.pages.get(index as usize).is_some_and(|p| p.shift <= edges && !p.cells.is_empty());
        if !fits {
            if taken == 0 {
                return Run { cells: &mut [], shift: 0, rest: None };
            }
            self.prepare(index as usize, edges);
        }
        let next = start + taken;
        let rest = (next < end).then(|| (next, end - next));
        match self.pages.get_mut(index as usize) {
            Some(page) => {
                let range = (offset >> page.shift) as usize..(last >> page.shift) as usize;
                let cells = page.cells.get_mut(range).unwrap_or_default();
                Run { cells, shift: page.shift, rest }
            }
            None => Run { cells: &mut [], shift: 0, rest: None },
        }
    }

    #[cold]
    fn prepare(&mut self, index: usize, shift: u32) {
        if index >= self.pages.len() {
            self.pages.resize_with(index + 1, Page::default);
        }
        if let Some(page) = self.pages.get_mut(index) {
            page.refine(shift);
        }
    }
}

/// A part of a range that lies in one page.
pub(super) struct Run<'a> {
    pub(super) cells: &'a mut [Cell],
    /// A cell stands for 2^`shift` bytes.
    pub(super) shift: u32,
    /// Start and length of what follows.
    pub(super) rest: Option<(u64, u64)>,
}
