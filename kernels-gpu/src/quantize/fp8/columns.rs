//! The columnwise copy of a tile, transposed, and the sums of its columns.

use ptx_std::memory::{store_f32, store_u32x4};
use ptx_std::thread::{lane_index, shuffle_index, shuffle_xor, shuffle_xor_f32};

use super::WARPS;
use super::job::Job;
use super::scale::{Format, ScaleRule};
use super::source::Source;
use super::stage::{HEIGHT, STRIP, Stage};

/// Strips of a column: lanes that share it.
const STRIPS: u32 = HEIGHT / STRIP;
/// Words of a row that a warp takes at once.
const AT_ONCE: u32 = 32 / STRIPS;

/// What a warp does with its columns: groups of four words, one in eight.
pub struct Columns<'a> {
    /// The tile.
    pub job: &'a Job,
    /// The tile in shared memory.
    pub stage: Stage,
    /// Index of the warp.
    pub warp: u32,
    /// To what elements are rounded.
    pub format: Format,
    /// Elements of the copy from one column to the next.
    pub pitch: u64,
    /// Whether the copy is made.
    pub copies: bool,
    /// Whether the columns are added up.
    pub sums: bool,
}

/// The scales of columns.
pub enum ColumnScales<'a> {
    /// One for all.
    One(f32),
    /// One for each.
    Each(&'a ScaleRule),
}

impl Columns<'_> {
    /// Quantizes, and adds the columns up.
    ///
    /// # Safety
    ///
    /// The whole warp calls it; the tile is in the stage; the job's addresses are valid.
    #[inline(always)]
    pub unsafe fn quantize<S: Source>(&self, scales: ColumnScales<'_>) {
        let (strip, beside) = (lane_index() % STRIPS, lane_index() / STRIPS);
        let has_rows = STRIP * strip < self.job.padded_rows;
        let data = self.job.column_data + u64::from(STRIP * strip);
        let mut first_word = AT_ONCE * self.warp;
        while first_word * S::PER_WORD < self.job.columns {
            let word = first_word + beside;
            let column = word * S::PER_WORD;
            let exists = column < self.job.columns;
            // SAFETY: handed to the caller; what is stored exists.
            unsafe {
                let words = self.stage.along_column::<S>(strip, word);
                if self.sums {
                    let to = self.job.sums + u64::from(4 * (column + strip));
                    sum::<S>(to, &words, strip, exists);
                }
                if self.copies {
                    let scale = match scales {
                        ColumnScales::One(scale) => [scale; 2],
                        ColumnScales::Each(rule) => {
                            let to = self.job.column_scales + u64::from(4 * (column + strip));
                            scale_each::<S>(rule, to, &words, strip, exists)
                        }
                    };
                    let to = data + u64::from(column) * self.pitch;
                    let stores = exists && has_rows;
                    self.store::<S, 0>(to, &words, scale, stores);
                    if S::PER_WORD == 2 {
                        self.store::<S, 1>(to + self.pitch, &words, scale, stores);
                    }
                }
            }
            first_word += AT_ONCE * WARPS;
        }
    }

    /// Stores element `INDEX` of each word.
    #[inline(always)]
    unsafe fn store<S: Source, const INDEX: usize>(
        &self,
        to: u64,
        words: &[u32; 16],
        scales: [f32; 2],
        stores: bool,
    ) {
        let quads = [0, 4, 8, 12].map(|first| {
            [0, 1, 2, 3].map(|row: usize| S::element(words[first + row], INDEX as u32))
        });
        let bytes = self.format.encode(quads, scales[INDEX]);
        if stores {
            // SAFETY: handed to the caller.
            unsafe { store_u32x4(to, bytes) };
        }
    }
}

/// The scales of a word's columns; the first lanes of the eight that share it store the inverse.
#[inline(always)]
unsafe fn scale_each<S: Source>(
    rule: &ScaleRule,
    to: u64,
    words: &[u32; 16],
    strip: u32,
    exists: bool,
) -> [f32; 2] {
    let mut largest = 0;
    for word in words {
        largest = S::larger(largest, *word);
    }
    // SAFETY: the caller brings the whole warp and vouches for the address.
    unsafe {
        for distance in [1, 2, 4] {
            largest = S::larger(largest, shuffle_xor(largest, distance));
        }
        // Each lane makes the scale of one column.
        let scale = rule.scale(S::element(largest, strip % S::PER_WORD).abs());
        if exists && strip < S::PER_WORD {
            store_f32(to, 1.0 / scale);
        }
        if S::PER_WORD == 1 {
            return [scale; 2];
        }
        let first_lane = lane_index() - strip;
        [0, 1].map(|i| f32::from_bits(shuffle_index(scale.to_bits(), first_lane + i)))
    }
}

/// Adds the columns of a word up, strip by strip from the top, then the strips pairwise; the first
/// lanes of the eight that share it store the sums.
#[inline(always)]
unsafe fn sum<S: Source>(to: u64, words: &[u32; 16], strip: u32, exists: bool) {
    let [first, second] = [0, 1].map(|index| {
        let mut sum = 0.0;
        for word in words {
            sum += S::element(*word, index);
        }
        for distance in [1, 2, 4] {
            // SAFETY: the caller brings the whole warp.
            sum += unsafe { shuffle_xor_f32(sum, distance) };
        }
        sum
    });
    if exists && strip < S::PER_WORD {
        // SAFETY: the caller vouches for the address.
        unsafe { store_f32(to, if strip == 0 { first } else { second }) };
    }
}
