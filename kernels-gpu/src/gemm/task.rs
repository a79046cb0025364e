//! The tile that comes next, as the warp that copies tells the others: in shared memory, under the
//! barriers of the tile's first stage (Hopper) or of its own (Blackwell). So only one warp of a
//! block walks the tiles, and it does so while the others still multiply.

use ptx_std::memory::{load_shared_u32x4, load_shared_u64, store_shared_u32};
use ptx_std::thread::{lane_index, shuffle_index};

use super::scheduler::Work;

/// A tile, and how much there is to multiply.
#[derive(Clone, Copy)]
pub struct Task {
    /// The tile.
    pub work: Work,
    /// Stages of its products. With none, the task has the place of one where it stands beside it.
    pub stages: u32,
    /// First token of the group, among the padded ones where those are multiplied.
    pub token: u32,
    /// Tokens of the group, or what the consumers are told instead.
    pub tokens: u32,
}

impl Task {
    /// Bytes of a task in shared memory.
    pub const BYTES: u32 = 32;

    /// Says that no task follows.
    pub const END: Self =
        Self { work: Work { group: 0, row: 0, column: 0 }, stages: u32::MAX, token: 0, tokens: 0 };

    /// Writes the task.
    ///
    /// # Safety
    ///
    /// The 32 aligned bytes at `address` are shared memory that belongs to this thread for now.
    #[inline(always)]
    pub unsafe fn write(&self, address: u32) {
        // One by one: a vector would take four neighbouring registers from a thread that has few.
        // SAFETY: handed to the caller.
        unsafe {
            store_shared_u32(address, self.stages);
            store_shared_u32(address + 4, self.work.group);
            store_shared_u32(address + 8, self.work.row);
            store_shared_u32(address + 12, self.work.column);
            store_shared_u32(address + 16, self.token);
            store_shared_u32(address + 20, self.tokens);
        }
    }

    /// The words of the task at `address`, in their order there, read by the first lane for all.
    #[inline(always)]
    unsafe fn words_for_warp(address: u32) -> [u32; 6] {
        let (mut first, mut last) = ([0; 4], 0);
        // SAFETY: handed to the caller.
        unsafe {
            if lane_index() == 0 {
                first = load_shared_u32x4(address);
                last = load_shared_u64(address + 16);
            }
            let [stages, group, row, column] = first.map(|word| shuffle_index(word, 0));
            let [token, tokens] = [last as u32, (last >> 32) as u32];
            let (token, tokens) = (shuffle_index(token, 0), shuffle_index(tokens, 0));
            [stages, group, row, column, token, tokens]
        }
    }

    /// The task at `address`, read by the first lane for all; it [is the end](Self::is_end) if
    /// there is no more. Of an option the former task's words would stay in registers beside the
    /// next one's.
    ///
    /// # Safety
    ///
    /// As [`Task::read`]; the whole warp calls it together.
    #[inline(always)]
    pub unsafe fn read_for_warp(address: u32) -> Self {
        // SAFETY: handed to the caller.
        let [stages, group, row, column, token, tokens] = unsafe { Self::words_for_warp(address) };
        Self { work: Work { group, row, column }, stages, token, tokens }
    }

    /// Whether it says that no task follows.
    #[inline(always)]
    pub fn is_end(&self) -> bool {
        self.stages == Self::END.stages
    }

    /// The task at `address`, if there is one more.
    ///
    /// # Safety
    ///
    /// It has been written, and nobody writes there meanwhile.
    #[inline(always)]
    pub unsafe fn read(address: u32) -> Option<Self> {
        // SAFETY: handed to the caller.
        let [stages, group, row, column] = unsafe { load_shared_u32x4(address) };
        if stages == Self::END.stages {
            return None;
        }
        // SAFETY: handed to the caller.
        let pair = unsafe { load_shared_u64(address + 16) };
        let [token, tokens] = [pair as u32, (pair >> 32) as u32];
        Some(Self { work: Work { group, row, column }, stages, token, tokens })
    }
}
