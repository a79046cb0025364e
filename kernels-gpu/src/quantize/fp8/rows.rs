//! The rowwise copy of a tile.

use ptx_std::memory::{store_f32, store_u32x4};
use ptx_std::thread::{lane_index, shuffle_index, shuffle_xor};

use super::job::Job;
use super::scale::{Format, ScaleRule};
use super::source::Source;
use super::stage::{STRIP, Stage, WIDTH};

/// Lanes side by side in a row.
const ACROSS: u32 = WIDTH / STRIP;
/// Rows that a warp takes at once.
const AT_ONCE: u32 = 32 / ACROSS;

/// What a warp does with its 16 rows.
pub struct Rows<'a> {
    /// The tile.
    pub job: &'a Job,
    /// The tile in shared memory.
    pub stage: Stage,
    /// Index of the warp, and of its rows.
    pub warp: u32,
    /// To what elements are rounded.
    pub format: Format,
    /// Elements of the copy from one row to the next.
    pub pitch: u64,
}

impl Rows<'_> {
    /// Quantizes with one scale.
    ///
    /// # Safety
    ///
    /// The whole warp calls it; the tile is in the stage; the job's addresses are valid.
    #[inline(always)]
    pub unsafe fn quantize<S: Source>(&self, scale: f32) {
        // SAFETY: handed to the caller.
        unsafe { self.store::<S>(|_| scale) }
    }

    /// Quantizes each row with a scale of its own.
    ///
    /// # Safety
    ///
    /// As [`Rows::quantize`].
    #[inline(always)]
    pub unsafe fn quantize_each<S: Source>(&self, rule: &ScaleRule) {
        let (part, below) = (lane_index() % ACROSS, lane_index() / ACROSS);
        // SAFETY: handed to the caller.
        unsafe {
            // Find the largest magnitudes of all rows. Then each lane makes the scale of one: the 8
            // lanes of a row need the scales of 4 rows, which come one below another.
            let upper = [self.amax::<S>(0), self.amax::<S>(1)];
            let lower = [self.amax::<S>(2), self.amax::<S>(3)];
            let [even, odd] = if part & 2 == 0 { upper } else { lower };
            let own = if part & 1 == 0 { even } else { odd };
            let scale = rule.scale(S::largest(own));
            let row = STRIP * self.warp + AT_ONCE * part + below;
            if part < STRIP / AT_ONCE && row < self.job.rows {
                store_f32(self.job.row_scales + 4 * u64::from(row), 1.0 / scale);
            }
            let first_lane = ACROSS * below;
            self.store::<S>(|i| f32::from_bits(shuffle_index(scale.to_bits(), first_lane + i)));
        }
    }

    /// What is largest in rows `4 · i ..` of the warp, one for each eight lanes.
    #[inline(always)]
    unsafe fn amax<S: Source>(&self, i: u32) -> u32 {
        let (part, below) = (lane_index() % ACROSS, lane_index() / ACROSS);
        let row = STRIP * self.warp + AT_ONCE * i + below;
        // SAFETY: handed to the caller.
        let chunks = unsafe { self.stage.along_row::<S>(row, part, first_chunk::<S>(part)) };
        let mut largest = 0;
        for chunk in chunks.iter().take(S::CHUNKS as usize) {
            for word in chunk {
                largest = S::larger(largest, *word);
            }
        }
        for distance in [1, 2, 4] {
            // SAFETY: handed to the caller.
            largest = S::larger(largest, unsafe { shuffle_xor(largest, distance) });
        }
        largest
    }

    /// Stores all rows of the warp, rows `4 · i ..` with scale `scale(i)`.
    #[inline(always)]
    unsafe fn store<S: Source>(&self, scale: impl Fn(u32) -> f32) {
        let (part, below) = (lane_index() % ACROSS, lane_index() / ACROSS);
        let first = first_chunk::<S>(part);
        let exists = STRIP * part < self.job.columns;
        let mut row = STRIP * self.warp + below;
        let mut to = self.job.row_data + u64::from(row) * self.pitch + u64::from(STRIP * part);
        let mut i = 0;
        while i < STRIP / AT_ONCE {
            // SAFETY: handed to the caller; what is stored exists.
            unsafe {
                let chunks = self.stage.along_row::<S>(row, part, first);
                let quads = [0, 1, 2, 3].map(|i| S::quad(&chunks, i));
                let words = rotate(self.format.encode(quads, scale(i)), first * (4 / S::CHUNKS));
                if exists && row < self.job.rows {
                    store_u32x4(to, words);
                }
            }
            (row, to) = (row + AT_ONCE, to + u64::from(AT_ONCE) * self.pitch);
            i += 1;
        }
    }
}

/// With which of its chunks a lane begins: were it the same for all, the eight lanes of a row would
/// read the same banks.
#[inline(always)]
fn first_chunk<S: Source>(part: u32) -> u32 {
    part / (ACROSS / S::CHUNKS)
}

/// Moves each word up by `by` places, the last ones to the front.
#[inline(always)]
fn rotate([a, b, c, d]: [u32; 4], by: u32) -> [u32; 4] {
    let [a, b, c, d] = if by & 1 != 0 { [d, a, b, c] } else { [a, b, c, d] };
    if by & 2 != 0 { [c, d, a, b] } else { [a, b, c, d] }
}
