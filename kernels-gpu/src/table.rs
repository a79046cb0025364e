//! The group table as kernels read it.

use ptx_std::memory::{load_constant_f32, load_constant_u32, load_constant_u64};
use ptx_std::thread::{WARP, ballot, lane_index};

use crate::abi::{GroupTable, Status, status};

/// A group table written by an earlier launch of `pointer_setup`.
#[derive(Clone, Copy)]
pub struct Table {
    address: u64,
    layout: GroupTable,
    /// Number of groups.
    pub groups: u32,
}

impl Table {
    /// The table at `address`.
    ///
    /// # Safety
    ///
    /// A set-up for `groups` groups has written the table, for this kernel alone, and nobody else
    /// writes it while the kernel runs. The other functions rely on it, and on group indices below
    /// `groups`.
    #[inline(always)]
    pub unsafe fn new(address: u64, groups: u32) -> Self {
        Self { address, layout: GroupTable::layout(groups), groups }
    }

    /// Address of the number of output tiles that blocks have claimed, [`Status::taken`].
    #[inline(always)]
    pub fn taken(&self) -> u64 {
        self.address + (self.layout.status + core::mem::offset_of!(Status, taken)) as u64
    }

    /// Whether the set-up accepted the splits.
    #[inline(always)]
    pub unsafe fn is_valid(&self) -> bool {
        // SAFETY: the code is the first word of the status.
        unsafe { load_constant_u32(self.address + self.layout.status as u64) == status::OK }
    }

    /// First row of a group; of `groups`, the number of live rows.
    #[inline(always)]
    pub unsafe fn row_offset(&self, group: u32) -> i64 {
        // SAFETY: the array has `groups + 1` elements.
        unsafe { self.load_u64(self.layout.row_offsets, group) as i64 }
    }

    /// First row of a group, and the number of its rows.
    #[inline(always)]
    pub unsafe fn tokens(&self, group: u32) -> (u32, u32) {
        // SAFETY: the array has an element more than groups.
        let [first, end] = unsafe { [self.row_offset(group), self.row_offset(group + 1)] };
        (first as u32, (end - first) as u32)
    }

    /// First padded row of a group; of `groups`, the number of padded rows.
    #[inline(always)]
    pub unsafe fn padded_offset(&self, group: u32) -> i64 {
        // SAFETY: the array has `groups + 1` elements.
        unsafe { self.load_u64(self.layout.padded_offsets, group) as i64 }
    }

    /// Address of a group's left operand.
    #[inline(always)]
    pub unsafe fn a_pointer(&self, group: u32) -> u64 {
        // SAFETY: the array has `groups` elements.
        unsafe { self.load_u64(self.layout.a_pointers, group) }
    }

    /// Address of a group's right operand.
    #[inline(always)]
    pub unsafe fn b_pointer(&self, group: u32) -> u64 {
        // SAFETY: the array has `groups` elements.
        unsafe { self.load_u64(self.layout.b_pointers, group) }
    }

    /// Address of a group's output.
    #[inline(always)]
    pub unsafe fn d_pointer(&self, group: u32) -> u64 {
        // SAFETY: the array has `groups` elements.
        unsafe { self.load_u64(self.layout.d_pointers, group) }
    }

    /// Rows of a group's output.
    #[inline(always)]
    pub unsafe fn m(&self, group: u32) -> u32 {
        // SAFETY: the array has `groups` elements.
        unsafe { self.load_u32(self.layout.m, group) }
    }

    /// Length of a group's reduction.
    #[inline(always)]
    pub unsafe fn k(&self, group: u32) -> u32 {
        // SAFETY: the array has `groups` elements.
        unsafe { self.load_u32(self.layout.k, group) }
    }

    /// Factor of a group's product.
    #[inline(always)]
    pub unsafe fn alpha(&self, group: u32) -> f32 {
        // SAFETY: the array has `groups` elements.
        unsafe { load_constant_f32(self.address + self.layout.alpha as u64 + 4 * u64::from(group)) }
    }

    /// Factor of a group's former output.
    #[inline(always)]
    pub unsafe fn beta(&self, group: u32) -> f32 {
        // SAFETY: the array has `groups` elements.
        unsafe { load_constant_f32(self.address + self.layout.beta as u64 + 4 * u64::from(group)) }
    }

    /// The group whose tiles are numbered at this place.
    #[inline(always)]
    pub unsafe fn group_at(&self, place: u32) -> u32 {
        // SAFETY: the array has `groups` elements.
        unsafe { self.load_u32(self.layout.order, place) }
    }

    /// Output tiles before a group, or before the one at a place if groups are in order; of
    /// `groups`, all of them.
    #[inline(always)]
    pub unsafe fn tile_prefix(&self, group: u32) -> u32 {
        // SAFETY: the array has `groups + 1` elements.
        unsafe { self.load_u32(self.layout.tile_prefix, group) }
    }

    /// The group that a tile belongs to, which must be below the number of tiles.
    #[inline(always)]
    pub unsafe fn group_of_tile(&self, tile: u32) -> u32 {
        // SAFETY: `search` asks for indices up to `groups`.
        self.search(|group| unsafe { self.tile_prefix(group) } <= tile)
    }

    /// The same, found by a warp together: one round of loads for up to 32 groups, two for up to
    /// 1024.
    ///
    /// # Safety
    ///
    /// All lanes of the warp call it, with the same tile.
    #[inline(always)]
    pub unsafe fn group_of_tile_by_warp(&self, tile: u32) -> u32 {
        let (mut found, mut end) = (0, self.groups);
        while end - found > 1 {
            let step = (end - found).div_ceil(WARP);
            let probe = found + lane_index() * step;
            // SAFETY: the probe is below `groups`; the caller brings the warp.
            let starts_before = unsafe {
                let starts_before = probe < end && self.tile_prefix(probe) <= tile;
                ballot(starts_before).count_ones()
            };
            found += (starts_before - 1) * step;
            end = end.min(found + step);
        }
        found
    }

    /// The group that a row belongs to, which must be below the number of live rows.
    #[inline(always)]
    pub unsafe fn group_of_row(&self, row: i64) -> u32 {
        // SAFETY: `search` asks for indices up to `groups`.
        self.search(|group| unsafe { self.row_offset(group) } <= row)
    }

    /// The group that a padded row belongs to, which must be below the number of padded rows.
    #[inline(always)]
    pub unsafe fn group_of_padded_row(&self, row: i64) -> u32 {
        // SAFETY: `search` asks for indices up to `groups`.
        self.search(|group| unsafe { self.padded_offset(group) } <= row)
    }

    /// The last group whose start satisfies `starts_before`; all up to it do, none after it. Of
    /// several groups with one start only the last is not empty, and it is the last that is found.
    #[inline(always)]
    fn search(&self, starts_before: impl Fn(u32) -> bool) -> u32 {
        let (mut found, mut end) = (0, self.groups);
        while end - found > 1 {
            let middle = (found + end) / 2;
            if starts_before(middle) {
                found = middle;
            } else {
                end = middle;
            }
        }
        found
    }

    #[inline(always)]
    unsafe fn load_u64(&self, array: usize, index: u32) -> u64 {
        // SAFETY: the callers stay inside the array.
        unsafe { load_constant_u64(self.address + array as u64 + 8 * u64::from(index)) }
    }

    #[inline(always)]
    unsafe fn load_u32(&self, array: usize, index: u32) -> u32 {
        // SAFETY: the callers stay inside the array.
        unsafe { load_constant_u32(self.address + array as u64 + 4 * u64::from(index)) }
    }
}
