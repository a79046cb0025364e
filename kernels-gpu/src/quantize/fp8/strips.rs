//! A columnwise copy, alone or beside a rowwise one, or sums of columns, of 16-bit elements: a
//! block takes one tile, straight into registers.
//!
//! ```text
//!  a lane:   16 rows × 4 columns, 8 bytes of each row
//!  a warp:   2 × 16 lanes, 32 rows × 64 columns, which are whole lines of 128 bytes of the source
//!  a block:  4 × 2 warps, 128 × 128
//! ```
//!
//! A lane's 16 rows of a column are 16 bytes of the transposed copy, so no element is moved between
//! lanes. Each of the 256 threads makes one scale per vector, of a column or a row. Bytes of rows
//! are stored from registers, 64 of a row by 16 lanes. Bytes of columns pass shared memory, so that
//! 8 lanes store the whole 128 of a column: turned by the columns' place, so that neither way has
//! two lanes at one bank.
//!
//! Loads into registers pass the L1 cache, which has what shared memory leaves: 4 blocks have 128
//! KiB on their way, and leave it 156 KiB.

use core::marker::PhantomData;

use ptx_std::convert_small::permute_bytes;
use ptx_std::hint::opaque;
use ptx_std::memory::{
    load_shared_f32, load_shared_f32x4, load_shared_u32, load_shared_u32x2, load_shared_u32x4,
    load_u32x2_if, store_f32, store_shared_f32, store_shared_u32, store_shared_u32x4, store_u32_if,
    store_u32x4_if,
};
use ptx_std::sync::block_barrier;
use ptx_std::thread::{
    WARP, block_index, lane_index, shuffle_xor, shuffle_xor_f32, thread_index, warp_index,
};

use super::current::{self, At, Copies};
use super::job::Job;
use super::scale::{Format, ScaleRule};
use super::source::{Bf16, F16, Source};
use super::stage::{HEIGHT, STRIP, Stage, WIDTH};
use super::{ROOM, Sharing, WARPS, find, is_skipped, largest, note_amax};
use crate::abi::ElementType;
use crate::abi::quantize::{Blocks, QuantizeArgs};

/// Columns of a lane.
const COLUMNS: u32 = 4;
/// Lanes side by side in a warp.
const ACROSS: u32 = 16;
/// Lanes above one another in a warp.
const STACK: u32 = WARP / ACROSS;
/// Warps side by side in a tile.
const WARPS_ACROSS: u32 = WIDTH / (COLUMNS * ACROSS);
/// Warps above one another in a tile.
const WARPS_DOWN: u32 = WARPS / WARPS_ACROSS;

// Shared memory begins with what `find` and `note_amax` leave there, or `current`, which needs no
// magnitudes of columns and rows and takes their place.
/// Largest elements of columns: `[WARPS_DOWN][WIDTH]` of 16 bits, with any signs.
const COLUMN_AMAX: u32 = ROOM;
/// Largest elements of rows: `[WARPS_ACROSS][HEIGHT]` of 16 bits, with any signs.
const ROW_AMAX: u32 = COLUMN_AMAX + WARPS_DOWN * 2 * WIDTH;
/// Sums of columns: `[WARPS_DOWN][WIDTH]` of 32 bits.
const SUMS: u32 = ROW_AMAX + WARPS_ACROSS * 2 * HEIGHT;
/// Scales of columns: `[WIDTH]` of 32 bits.
const COLUMN_SCALES: u32 = SUMS + WARPS_DOWN * 4 * WIDTH;
/// Scales of rows: `[HEIGHT]` of 32 bits.
const ROW_SCALES: u32 = COLUMN_SCALES + 4 * WIDTH;

/// The columnwise copy: `[WIDTH][HEIGHT]` bytes, the chunks of 16 in another order.
const TURNED: u32 = (ROW_SCALES + 4 * HEIGHT).next_multiple_of(128);

/// Dynamic shared memory.
pub const SHARED_BYTES: u32 = TURNED + WIDTH * HEIGHT;
/// The same of [`run_current`].
pub const CURRENT_SHARED_BYTES: u32 = current::shared_bytes::<OfStrips<Bf16>>();

const _: () = assert!(WARPS_DOWN * STACK * STRIP == HEIGHT, "the strips fill a tile");
const _: () = assert!(current::ROOM <= SUMS, "what `current` leaves stays");
const _: () = assert!(WARPS * WARP == WIDTH + HEIGHT, "a thread makes one scale");

/// What a lane holds: 16 rows, two words each.
type Words = [[u32; 2]; STRIP as usize];

/// Where a lane's elements lie in the tile of its block.
#[derive(Clone, Copy)]
struct Place {
    /// First byte of the block's shared memory.
    shared: u32,
    /// Where the tile's [`Job`] lies.
    job: u32,
    /// Where the columnwise copy is turned: `[WIDTH][HEIGHT]` bytes.
    turned: u32,
    /// Its strip: of rows `16 · strip ..`.
    strip: u32,
    /// Its first column.
    column: u32,
}

/// The kernel.
///
/// # Safety
///
/// As `quantize_tensor_columns`.
#[inline(always)]
pub unsafe fn run<B: Sharing>(args: &QuantizeArgs) {
    const BF16: u32 = ElementType::Bf16 as u32;
    // SAFETY: handed to the caller.
    unsafe {
        match args.source_type {
            _ if is_skipped(args) => {}
            BF16 => quantize::<Bf16, B>(args),
            _ => quantize::<F16, B>(args),
        }
    }
}

/// Quantizes with a scale per group that follows from the source, which is read once.
///
/// # Safety
///
/// As `quantize_current_columns`.
#[inline(always)]
pub unsafe fn run_current(args: &QuantizeArgs) {
    const BF16: u32 = ElementType::Bf16 as u32;
    // SAFETY: handed to the caller.
    unsafe {
        match args.source_type {
            _ if is_skipped(args) => {}
            BF16 => current::run::<OfStrips<Bf16>>(args),
            _ => current::run::<OfStrips<F16>>(args),
        }
    }
}

/// A columnwise copy, alone or beside a rowwise one, or sums of columns.
struct OfStrips<S>(PhantomData<S>);

impl<S: Source> Copies for OfStrips<S> {
    type Element = S;
    type Args = QuantizeArgs;
    type Words = Words;

    /// Behind the sums of columns, which lie where they do in the other kernels.
    const STAGES: u32 = COLUMN_SCALES.next_multiple_of(128);

    #[inline(always)]
    unsafe fn take(stage: Stage) -> Words {
        // SAFETY: handed to the caller.
        unsafe {
            let place = Place::of(0, 0, 0);
            let from = stage.row::<S>(STRIP * place.strip) + S::BYTES * place.column;
            of_rows(|i| load_shared_u32x2(from + i as u32 * S::ROW_BYTES))
        }
    }

    #[inline(always)]
    fn amax(words: &Words) -> f32 {
        let [a, b] = columns_amax::<S>(words);
        S::largest(S::larger(a, b))
    }

    #[inline(always)]
    unsafe fn store(args: &QuantizeArgs, at: At, scale: f32, meet: impl Fn(), free: impl Fn()) {
        let format = Format::of(args);
        // SAFETY: handed to the caller.
        unsafe {
            let place = Place::of(at.shared, at.job, at.stage.address);
            let words = Self::take(at.stage);
            if args.dbias_partial != 0 {
                place.note_sums::<S>(&words);
            }
            // The tile's memory is where the columns are turned.
            meet();
            if args.dbias_partial != 0 {
                place.store_sums();
            }
            if args.columnwise.data != 0 {
                place.leave_columns::<S>(format, &words, [scale; 4]);
                meet();
                place.store_columns(args);
            }
            if args.rowwise.data != 0 {
                let words = &anew(&words);
                place.store_rows::<S>(args, format, words, |_| [scale; 4]);
            }
            free();
        }
    }
}

/// Takes the tile of this block, if there is one.
#[inline(always)]
unsafe fn quantize<S: Source, B: Sharing>(args: &QuantizeArgs) {
    let is_vector = matches!(B::BLOCKS, Blocks::Vector);
    let is_square = matches!(B::BLOCKS, Blocks::Square);
    let (rowwise, columnwise) = (args.rowwise.data != 0, args.columnwise.data != 0);
    let (sums, wants_amax) = (args.dbias_partial != 0, is_square || args.amax_partial != 0);
    let format = Format::of(args);
    let rule = ScaleRule::of(args, S::LARGEST);
    // SAFETY: handed to the caller. All threads of a block take the same tile, so they meet at the
    // barriers; warps stay together.
    unsafe {
        let Some(shared) = find::<S, B>(args) else { return };
        let place = Place::of(shared, shared, shared + TURNED);
        let words = place.load::<S>(args);

        // Tell the block what is largest here, and the sums.
        if is_vector || wants_amax {
            let of_columns = columns_amax::<S>(&words);
            if is_vector && columnwise {
                place.note_columns::<S>(of_columns);
            }
            if is_vector && rowwise {
                place.note_rows::<S>(&words);
            }
            if wants_amax {
                let own = S::larger(of_columns[0], of_columns[1]);
                note_amax(shared + Job::BYTES, S::largest(own));
            }
        }
        if sums {
            place.note_sums::<S>(&words);
        }

        // Make scales of it.
        let mut of_tile = place.job().scale;
        if is_vector || wants_amax || sums {
            block_barrier();
            if sums {
                place.store_sums();
            }
            if wants_amax {
                let amax = largest(shared + Job::BYTES);
                if args.amax_partial != 0 && thread_index() == 0 {
                    store_f32(args.amax_partial + 4 * u64::from(block_index()), amax);
                }
                if is_square {
                    of_tile = rule.scale(amax);
                    place.store_scales_of_tile(args, of_tile);
                }
            }
            if is_vector {
                place.make_scales::<S>(&rule, rowwise, columnwise);
                block_barrier();
            }
        }

        // Asked anew: what is known of a thread before the barrier above would have the compiler
        // write that barrier twice, once for each half of the block.
        let [rowwise, columnwise] =
            [rowwise, columnwise].map(|wanted| opaque(u32::from(wanted)) != 0);
        let four = |slots: u32, first: u32| {
            if is_vector { load_shared_f32x4(shared + slots + 4 * first) } else { [of_tile; 4] }
        };
        if columnwise {
            place.leave_columns::<S>(format, &words, four(COLUMN_SCALES, place.column));
            block_barrier();
            place.store_columns(args);
        }
        if rowwise {
            let words = &anew(&words);
            place.store_rows::<S>(args, format, words, |row| four(ROW_SCALES, row));
        }
    }
}

impl Place {
    /// That of this lane.
    #[inline(always)]
    unsafe fn of(shared: u32, job: u32, turned: u32) -> Self {
        // SAFETY: the caller brings the whole warp.
        let warp = unsafe { warp_index() };
        let (lane, wide, deep) = (lane_index(), warp % WARPS_ACROSS, warp / WARPS_ACROSS);
        Self {
            shared,
            job,
            turned,
            strip: deep * STACK + lane / ACROSS,
            column: COLUMNS * (wide * ACROSS + lane % ACROSS),
        }
    }

    /// The tile. It is read wherever it is needed, so that nobody keeps it in registers.
    #[inline(always)]
    unsafe fn job(self) -> Job {
        // SAFETY: the caller has met the warp that left it.
        unsafe { Job::take(self.job) }
    }

    /// Loads what exists, and zeros.
    #[inline(always)]
    unsafe fn load<S: Source>(self, args: &QuantizeArgs) -> Words {
        // SAFETY: handed to the caller; only what exists is read.
        unsafe {
            let job = self.job();
            let pitch = u64::from(S::BYTES) * u64::from(args.columns);
            let row = STRIP * self.strip;
            let from = job.source + u64::from(row) * pitch + u64::from(S::BYTES * self.column);
            let rows = if self.column < job.columns { job.rows } else { 0 };
            let rows = rows.saturating_sub(row) as usize;
            of_rows(|i| load_u32x2_if(i < rows, from + i as u64 * pitch))
        }
    }

    /// Leaves what is largest in the columns of this warp.
    #[inline(always)]
    unsafe fn note_columns<S: Source>(self, largest: [u32; 2]) {
        // SAFETY: the caller brings the whole warp; the slots are the block's.
        unsafe {
            let [first, second] = largest.map(|word| S::larger(word, shuffle_xor(word, ACROSS)));
            if lane_index() < ACROSS {
                let deep = self.strip / STACK;
                let to = self.shared + COLUMN_AMAX + 2 * (deep * WIDTH + self.column);
                store_shared_u32(to, first);
                store_shared_u32(to + 4, second);
            }
        }
    }

    /// Leaves what is largest in the rows of this warp.
    #[inline(always)]
    unsafe fn note_rows<S: Source>(self, words: &Words) {
        let lane = lane_index();
        // Two rows in a word.
        let pair = |i: usize| {
            let [a, b] = [words[2 * i], words[2 * i + 1]].map(|[a, b]| S::larger(a, b));
            S::larger(permute_bytes(a, b, 0x5410), permute_bytes(a, b, 0x7632))
        };
        // Of two words one goes to a neighbour, whose other one comes here.
        let exchange = |distance: u32, low: u32, high: u32| {
            let (keeps, sends) = if lane & distance == 0 { (low, high) } else { (high, low) };
            // SAFETY: the caller brings the whole warp.
            S::larger(keeps, unsafe { shuffle_xor(sends, distance) })
        };
        let four = [0, 1, 2, 3].map(|i| exchange(1, pair(i), pair(4 + i)));
        let two = [0, 1].map(|i| exchange(2, four[i], four[2 + i]));
        let one = exchange(4, two[0], two[1]);
        // SAFETY: the same; the slots are the block's.
        unsafe {
            let one = S::larger(one, shuffle_xor(one, 8));
            if lane & 8 == 0 {
                let first = 4 * (lane & 1) + (lane & 2) + (lane >> 2 & 1);
                let wide = self.column / (COLUMNS * ACROSS);
                let to = self.shared + ROW_AMAX + 2 * (wide * HEIGHT + STRIP * self.strip);
                // NaNs do not count.
                store_shared_u32(to + 4 * first, S::larger(0, one));
            }
        }
    }

    /// Leaves the sums of the columns of this warp: each lane's from the top, then both lanes'.
    #[inline(always)]
    unsafe fn note_sums<S: Source>(self, words: &Words) {
        let words = &anew(words);
        let sum = |i: usize, index: u32| {
            let mut sum = 0.0;
            for row in words {
                sum += S::element(row[i], index);
            }
            // SAFETY: the caller brings the whole warp.
            sum + unsafe { shuffle_xor_f32(sum, ACROSS) }
        };
        let sums = [sum(0, 0), sum(0, 1), sum(1, 0), sum(1, 1)];
        if lane_index() < ACROSS {
            let deep = self.strip / STACK;
            let to = self.shared + SUMS + 4 * (deep * WIDTH + self.column);
            // SAFETY: the slots are the block's.
            unsafe {
                store_shared_f32(to, sums[0]);
                store_shared_f32(to + 4, sums[1]);
                store_shared_f32(to + 8, sums[2]);
                store_shared_f32(to + 12, sums[3]);
            }
        }
    }

    /// Adds up what the warps above one another have left, pairwise.
    #[inline(always)]
    unsafe fn store_sums(self) {
        let own = thread_index();
        // SAFETY: the warps have left them; what is stored exists.
        unsafe {
            let job = self.job();
            if own < job.columns {
                let [a, b, c, d] = [0, 1, 2, 3]
                    .map(|deep| load_shared_f32(self.shared + SUMS + 4 * (deep * WIDTH + own)));
                store_f32(job.sums + 4 * u64::from(own), (a + b) + (c + d));
            }
        }
    }

    /// Makes a scale: half of the threads those of the columns, the others those of the rows.
    #[inline(always)]
    unsafe fn make_scales<S: Source>(self, rule: &ScaleRule, rowwise: bool, columnwise: bool) {
        let (thread, own) = (thread_index(), thread_index() % WIDTH);
        let of_column = thread < WIDTH;
        if !(if of_column { columnwise } else { rowwise }) {
            return;
        }
        // SAFETY: the warps have left what is largest; what is stored exists.
        unsafe {
            let job = self.job();
            let (slots, count) =
                if of_column { (COLUMN_AMAX, WARPS_DOWN) } else { (ROW_AMAX, WARPS_ACROSS) };
            let mut from = self.shared + slots + 4 * (own / 2);
            let mut largest = 0;
            for _ in 0..count {
                largest = S::larger(largest, load_shared_u32(from));
                from += 2 * WIDTH;
            }
            let scale = rule.scale(S::element(largest, own % 2).abs());
            let slots = if of_column { COLUMN_SCALES } else { ROW_SCALES };
            store_shared_f32(self.shared + slots + 4 * own, scale);
            let (to, count) = if of_column {
                (job.column_scales, job.columns)
            } else {
                (job.row_scales, job.rows)
            };
            if own < count {
                store_f32(to + 4 * u64::from(own), 1.0 / scale);
            }
        }
    }

    /// One thread stores the scale of a square.
    #[inline(always)]
    unsafe fn store_scales_of_tile(self, args: &QuantizeArgs, scale: f32) {
        if thread_index() != 0 {
            return;
        }
        // SAFETY: handed to the caller.
        unsafe {
            let job = self.job();
            if args.rowwise.data != 0 {
                store_f32(job.row_scales, 1.0 / scale);
            }
            if args.columnwise.data != 0 {
                store_f32(job.column_scales, 1.0 / scale);
            }
        }
    }

    /// Rounds, and leaves 16 bytes of each column.
    #[inline(always)]
    unsafe fn leave_columns<S: Source>(self, format: Format, words: &Words, scales: [f32; 4]) {
        let chunk = self.strip ^ turn(self.column);
        let to = self.turned + HEIGHT * self.column + STRIP * chunk;
        let step = |i: usize, index: u32| {
            let quads = [0, 4, 8, 12].map(|first| {
                [0, 1, 2, 3].map(|row: usize| S::element(words[first + row][i], index))
            });
            let column = 2 * i as u32 + index;
            let bytes = format.encode(quads, scales[column as usize]);
            // SAFETY: the bytes are the lane's.
            unsafe { store_shared_u32x4(to + HEIGHT * column, bytes) };
        };
        step(0, 0);
        step(0, 1);
        step(1, 0);
        step(1, 1);
    }

    /// Stores 16 columns, four at once.
    #[inline(always)]
    unsafe fn store_columns(self, args: &QuantizeArgs) {
        // SAFETY: the block has left them; what is stored exists.
        unsafe {
            let job = self.job();
            let first = warp_index() * (WIDTH / WARPS);
            let (strip, beside) = (lane_index() % 8, lane_index() / 8);
            let exists = first < job.columns && STRIP * strip < job.padded_rows;
            let from = self.turned + HEIGHT * (first + beside);
            let mut to = job.column_data
                + u64::from(first + beside) * args.columnwise.pitch
                + u64::from(STRIP * strip);
            let mut step = |i: u32| {
                let chunk = strip ^ turn(first + 4 * i);
                let bytes = load_shared_u32x4(from + HEIGHT * 4 * i + STRIP * chunk);
                store_u32x4_if(exists, to, bytes);
                to += 4 * args.columnwise.pitch;
            };
            step(0);
            step(1);
            step(2);
            step(3);
        }
    }

    /// Rounds and stores 4 bytes of each row, rows `row ..` of the tile with scales `scales(row)`.
    #[inline(always)]
    unsafe fn store_rows<S: Source>(
        self,
        args: &QuantizeArgs,
        format: Format,
        words: &Words,
        scales: impl Fn(u32) -> [f32; 4],
    ) {
        // SAFETY: handed to the caller; what is stored exists.
        unsafe {
            let job = self.job();
            let row = STRIP * self.strip;
            let rows = if self.column < job.columns { job.rows } else { 0 };
            let rows = rows.saturating_sub(row) as usize;
            let mut to =
                job.row_data + u64::from(row) * args.rowwise.pitch + u64::from(self.column);
            let mut step = |first: usize| {
                let scales = scales(row + first as u32);
                let quads = [0, 1, 2, 3].map(|i| {
                    let [a, b] = words[first + i];
                    let four =
                        [S::element(a, 0), S::element(a, 1), S::element(b, 0), S::element(b, 1)];
                    four.map(|value| value * scales[i])
                });
                let mut row = first;
                for bytes in format.round(quads) {
                    store_u32_if(row < rows, to, bytes);
                    (row, to) = (row + 1, to + args.rowwise.pitch);
                }
            };
            step(0);
            step(4);
            step(8);
            step(12);
        }
    }
}

/// By how much the chunks of a lane's columns are turned in shared memory.
#[inline(always)]
fn turn(column: u32) -> u32 {
    column / COLUMNS % (HEIGHT / STRIP)
}

/// What is made of each of 16 rows. Written out, since registers have no index.
#[inline(always)]
fn of_rows(f: impl Fn(usize) -> [u32; 2]) -> Words {
    let four = |i: usize| [0, 1, 2, 3].map(|j| f(i + j));
    let [[a, b, c, d], [e, f, g, h]] = [four(0), four(4)];
    let [[i, j, k, l], [m, n, o, p]] = [four(8), four(12)];
    [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]
}

/// The same words, of which the compiler knows nothing: else it would keep the numbers that were
/// made of them, which take twice the registers, for the next to use them.
#[inline(always)]
fn anew(words: &Words) -> Words {
    of_rows(|i| words[i].map(opaque))
}

/// What is largest in a lane's columns, two in a word: zero if all are NaNs.
#[inline(always)]
fn columns_amax<S: Source>(words: &Words) -> [u32; 2] {
    let pair = |[a, b]: [u32; 2], [c, d]: [u32; 2]| [S::larger(a, c), S::larger(b, d)];
    let four = [0, 4, 8, 12]
        .map(|i: usize| pair(pair(words[i], words[i + 1]), pair(words[i + 2], words[i + 3])));
    pair([0; 2], pair(pair(four[0], four[1]), pair(four[2], four[3])))
}
