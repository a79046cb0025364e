//! `align`: one scale for all blocks of a line, so that a product along it need not ask which block
//! it is in.
//!
//! A transposed copy of tokens has a scale for each 128 tokens of a column, a *line*. Tensor cores
//! know no scales, so sums would have to be multiplied by a number for each line and block. Scales
//! that are powers of two differ by a shift of the codes: here the blocks of a line get the largest
//! of its group's scales. Codes that are smaller than 2⁻⁶ afterwards lose bits; a block that would
//! lose more than [`ALIGN_LEAST`] allows keeps its codes and gets a factor.
//!
//! A block of threads takes 128 lines and a window of 1024 padded tokens, in which there may be
//! more than one group:
//!
//! ```text
//! scales of the groups in the window, 128 lines × 2 halves of their blocks
//! ─▶ the largest of each half
//! ─▶ quotients of the scales of the window's blocks and their lines'
//! ─▶ codes, 64 threads × 16 bytes of a line at a time ─▶ factors ─▶ blocks without any
//! ```
//!
//! All windows of a group read all its scales, a 32nd of its bytes each: from L2.

use ptx_std::convert::{e4m3x2_to_f32, f16x2_to_f32, f32x4_to_e4m3x4, max_magnitude_f16x2};
use ptx_std::convert_small::e4m3x4_to_f16x4;
use ptx_std::hint::opaque;
use ptx_std::memory::{
    load_constant_f32, load_constant_u32, load_constant_u32_if, load_constant_u32x4,
    load_constant_u32x4_if, load_shared_f32, load_shared_u32, load_shared_u32x4, shared_base,
    store_byte, store_f32, store_shared_f32, store_shared_u32, store_u32, store_u32x4_if,
};
use ptx_std::sync::block_barrier;
use ptx_std::thread::{WARP, ballot, block_index, lane_index, shuffle_xor, thread_index};

use crate::abi::quantize::{COLUMN_BLOCK, ROW_BLOCK};
use crate::abi::scaled::{ALIGN_LEAST, ALIGN_WINDOW, AlignArgs};
use crate::quantize::mx::unroll::each4;
use crate::table::Table;

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Dynamic shared memory: what has been seen of each line, the quotients of scales, what is left of
/// them, and votes.
pub const SHARED_BYTES: u32 = VOTES + 4 * BLOCKS * VOTERS;

/// Lines of a block of threads.
const LINES: u32 = COLUMN_BLOCK;
/// Blocks of tokens in a window.
const BLOCKS: u32 = ALIGN_WINDOW / ROW_BLOCK;
/// Threads of a line while scales are looked at.
const HALVES: u32 = THREADS / LINES;
/// Warps that look at the lines of a half.
const VOTERS: u32 = LINES / WARP;
/// Where the quotients stand, behind what has been seen of each line and group.
const QUOTIENTS: u32 = 4 * HALVES * BLOCKS * LINES;
/// Where it stands what is left of them.
const RESULTS: u32 = QUOTIENTS + 4 * BLOCKS * LINES;
/// Where the votes stand.
const VOTES: u32 = RESULTS + 4 * BLOCKS * LINES;

/// Bytes that a thread takes of a line.
const CHUNK: u32 = 16;
/// Threads of a line while codes are aligned.
const ACROSS: u32 = ALIGN_WINDOW / CHUNK;
/// Lines that a thread takes at once.
const AT_ONCE: u32 = 4;

/// The quotient of a block whose line has no scale.
const NEVER: f32 = 0.0;
/// The bits of 1.
const ONE: u32 = 1f32.to_bits();
/// The bits of the least scale that is aligned, 2⁻⁶⁰.
const LEAST: u32 = ONE - (60 << 23);
/// The bits of the largest, 2⁶⁰.
const LARGEST: u32 = ONE + (60 << 23);

const _: () = assert!(LINES.is_multiple_of(THREADS / ACROSS * AT_ONCE));

/// The kernel.
///
/// # Safety
///
/// Blocks of [`THREADS`] threads with [`SHARED_BYTES`] of dynamic shared memory,
/// [`AlignArgs::grid`] of them; the addresses in `args` are valid for what its fields describe;
/// those of codes and their pitch are multiples of 128.
#[inline(always)]
pub unsafe fn run(args: &AlignArgs, _args_address: u64) {
    // SAFETY: the launcher keeps the contract above; all threads of a block leave here or none.
    unsafe {
        let table = Table::new(args.table, args.groups);
        if !table.is_valid() {
            return;
        }
        let strips = args.columns.div_ceil(LINES).max(1);
        let (strip, first) = (block_index() % strips, block_index() / strips * BLOCKS);
        let end = block_of(&table, args.groups).min(first + BLOCKS);
        if first >= end {
            return;
        }
        let window = Window { shared: shared_base(), first, end, line: strip * LINES };
        let group = table.group_of_padded_row(i64::from(first * ROW_BLOCK));
        let spans = Spans { table, group, first, end };
        // On their way while scales are looked at.
        let codes = Part::new(args, &window, 0).load(args);
        look(args, &window, spans);
        block_barrier();
        compare(args, &window, spans);
        block_barrier();
        align(args, &window, codes);
        block_barrier();
        store_factors(args, &window);
        block_barrier();
        conclude(args, &window, strip);
    }
}

/// The part of a block of threads.
struct Window {
    /// Address of the shared memory.
    shared: u32,
    /// Its first block of tokens.
    first: u32,
    /// The one behind its last.
    end: u32,
    /// Its first line.
    line: u32,
}

impl Window {
    /// Where it stands what a thread has seen of the window's group number `slot`.
    ///
    /// The slot is opaque, so that no address moves on from slot to slot. Of one that does, ptxas
    /// of CUDA 13.0, which is in drivers of branch 580, takes other addresses after it has moved
    /// (docs/kernels.md).
    #[inline(always)]
    fn seen(&self, half: u32, slot: u32, line: u32) -> u32 {
        self.shared + 4 * ((half * BLOCKS + opaque(slot)) * LINES + line)
    }

    /// Where the quotient of a block of the window stands.
    #[inline(always)]
    fn quotient(&self, block: u32, line: u32) -> u32 {
        self.shared + QUOTIENTS + 4 * (block * LINES + line)
    }

    /// Where it stands what is left of it.
    #[inline(always)]
    fn result(&self, block: u32, line: u32) -> u32 {
        self.shared + RESULTS + 4 * (block * LINES + line)
    }

    /// Where the votes on a block of the window stand.
    #[inline(always)]
    fn votes(&self, block: u32) -> u32 {
        self.shared + VOTES + 4 * VOTERS * block
    }
}

/// The groups that have blocks in a window, one after the other.
#[derive(Clone, Copy)]
struct Spans {
    table: Table,
    group: u32,
    first: u32,
    end: u32,
}

/// What a window has of a group.
struct Span {
    group: u32,
    /// The group's first block, and the one behind its last.
    all: [u32; 2],
    /// Those of them in the window.
    here: [u32; 2],
}

impl Spans {
    /// The next group that has blocks.
    ///
    /// # Safety
    ///
    /// As [`Table::new`].
    #[inline(always)]
    unsafe fn next(&mut self) -> Option<Span> {
        // SAFETY: while blocks are left, so are groups that have them.
        unsafe {
            while self.first < self.end {
                let group = self.group;
                let all = [block_of(&self.table, group), block_of(&self.table, group + 1)];
                let here = [self.first, all[1].min(self.end)];
                self.group += 1;
                if here[0] < here[1] {
                    self.first = here[1];
                    return Some(Span { group, all, here });
                }
            }
        }
        None
    }
}

/// First block of a group; of `groups`, the number of blocks.
#[inline(always)]
unsafe fn block_of(table: &Table, group: u32) -> u32 {
    // SAFETY: handed to the caller.
    (unsafe { table.padded_offset(group) }) as u32 / ROW_BLOCK
}

/// The scales that a thread has seen of a line: the bits of the largest that is a power of two, but
/// for 1, and in the lowest bits of these, which are zeros, whether there are others.
#[derive(Clone, Copy)]
struct Seen(u32);

impl Seen {
    const NOTHING: Self = Self(0);
    /// There are ones, of blocks with large numbers or of zeros.
    const ONES: u32 = 1;
    /// There are scales that cannot be aligned.
    const OTHERS: u32 = 2;
    const FLAGS: u32 = Self::ONES | Self::OTHERS;

    /// With one more scale.
    #[inline(always)]
    fn and(self, bits: u32) -> Self {
        let is_power = bits & 0x007f_ffff == 0 && (LEAST..=LARGEST).contains(&bits);
        self.together(Self(match bits {
            ONE => Self::ONES,
            _ if is_power => bits,
            _ => Self::OTHERS,
        }))
    }

    /// What two threads have seen.
    #[inline(always)]
    fn together(self, other: Self) -> Self {
        let flags = (self.0 | other.0) & Self::FLAGS;
        Self((self.0 & !Self::FLAGS).max(other.0 & !Self::FLAGS) | flags)
    }

    /// The bits of the line's scale; 0 if it has none. `are_zeros` tells whether all blocks with a
    /// scale of 1 are of zeros.
    #[inline(always)]
    fn line_scale(self, are_zeros: impl FnOnce() -> bool) -> u32 {
        let largest = self.0 & !Self::FLAGS;
        if self.0 & Self::OTHERS != 0 {
            0
        } else if self.0 & Self::ONES == 0 || largest > ONE {
            largest
        } else if largest == 0 || !are_zeros() {
            ONE
        } else {
            largest
        }
    }
}

/// Looks at this thread's half of the blocks of each group.
#[inline(always)]
unsafe fn look(args: &AlignArgs, window: &Window, mut spans: Spans) {
    let (line, half) = (thread_index() % LINES, thread_index() / LINES);
    let exists = window.line + line < args.columns;
    let mut slot = 0;
    // SAFETY: handed to the caller; a window has no more groups than blocks.
    unsafe {
        while let Some(Span { all: [start, end], .. }) = spans.next() {
            let mut seen = Seen::NOTHING;
            let mut block = start + half;
            while block < end {
                let scales = [0, 1, 2, 3, 4, 5, 6, 7].map(|i| {
                    // One that is seen twice for one that does not exist.
                    let block = (block + HALVES * i).min(end - 1);
                    load_constant_u32_if(exists, scale_address(args, block, window.line + line))
                });
                seen = scales.into_iter().fold(seen, Seen::and);
                block += HALVES * 8;
            }
            store_shared_u32(window.seen(half, slot, line), seen.0);
            slot += 1;
        }
    }
}

/// Says by how much the scales of this thread's blocks, every second one of the window's, are below
/// those of their lines.
#[inline(always)]
unsafe fn compare(args: &AlignArgs, window: &Window, mut spans: Spans) {
    let (line, half) = (thread_index() % LINES, thread_index() / LINES);
    let column = window.line + line;
    if column >= args.columns {
        return;
    }
    let mut slot = 0;
    // SAFETY: handed to the caller.
    unsafe {
        while let Some(Span { group, all: [start, end], here }) = spans.next() {
            let [low, high] = [0, 1].map(|half| load_shared_u32(window.seen(half, slot, line)));
            slot += 1;
            let scale =
                Seen(low).together(Seen(high)).line_scale(|| are_zeros(args, column, [start, end]));
            let mut block = here[0] + (here[0] - window.first + half) % HALVES;
            while block < here[1] {
                let own = load_constant_u32(scale_address(args, block, column));
                let quotient = match scale {
                    0 => NEVER,
                    // Zeros, whose scale is 1.
                    _ if own > scale => 1.0,
                    _ => f32::from_bits(own - scale + ONE),
                };
                store_shared_f32(window.quotient(block - window.first, line), quotient);
                block += HALVES;
            }
            if here[0] == start && half == 0 {
                let bits = if scale == 0 { ONE } else { scale };
                let place = u64::from(group) * u64::from(args.columns) + u64::from(column);
                store_byte(args.line_scales + place, bits >> 23);
            }
        }
    }
}

/// Whether all blocks of a line whose scale is 1 have zeros alone.
#[inline(always)]
unsafe fn are_zeros(args: &AlignArgs, column: u32, [start, end]: [u32; 2]) -> bool {
    let line = args.codes + u64::from(column) * args.pitch;
    let mut block = start;
    let mut any = 0;
    while block < end && any == 0 {
        // SAFETY: handed to the caller: the line has the block.
        unsafe {
            if load_constant_u32(scale_address(args, block, column)) == ONE {
                let codes = line + u64::from(block * ROW_BLOCK);
                let mut byte = 0;
                while byte < ROW_BLOCK {
                    let words = load_constant_u32x4(codes + u64::from(byte));
                    any |= (words[0] | words[1] | words[2] | words[3]) & 0x7f7f_7f7f;
                    // One after the other: they are rare, and registers hold codes that are on
                    // their way.
                    byte = opaque(byte + CHUNK);
                }
            }
        }
        block += 1;
    }
    any == 0
}

/// What a thread takes at once: the same 16 tokens of eight lines.
struct Part {
    /// Its block in the window.
    block: u32,
    /// Whether its lanes are the first of their blocks.
    is_first: bool,
    /// Lines in the strip, bytes before their chunks, and whether they exist.
    lines: [(u32, u64, bool); AT_ONCE as usize],
}

impl Part {
    /// Parts of a window.
    const COUNT: u32 = LINES / (THREADS / ACROSS * AT_ONCE);

    /// This thread's part of the window at `index`.
    #[inline(always)]
    fn new(args: &AlignArgs, window: &Window, index: u32) -> Self {
        // What follows from it is computed anew for each part, not kept.
        let thread = opaque(thread_index());
        let (chunk, first) = (thread % ACROSS, thread / ACROSS);
        let block = CHUNK * chunk / ROW_BLOCK;
        let token = u64::from(window.first * ROW_BLOCK + CHUNK * chunk);
        let lines = [0, 1, 2, 3].map(|i| {
            let line = first + THREADS / ACROSS * (AT_ONCE * index + i);
            let column = window.line + line;
            let exists = block < window.end - window.first && column < args.columns;
            (line, u64::from(column) * args.pitch + token, exists)
        });
        Self { block, is_first: (CHUNK * chunk).is_multiple_of(ROW_BLOCK), lines }
    }

    /// Its codes.
    #[inline(always)]
    unsafe fn load(&self, args: &AlignArgs) -> [[u32; 4]; AT_ONCE as usize] {
        // SAFETY: what exists is loaded.
        self.lines
            .map(|(_, place, exists)| unsafe { load_constant_u32x4_if(exists, args.codes + place) })
    }

    /// Aligns the codes, and says what is left of the quotients of their blocks.
    #[inline(always)]
    unsafe fn align(&self, args: &AlignArgs, window: &Window, codes: [[u32; 4]; AT_ONCE as usize]) {
        each4(|i| {
            let (line, place, exists) = self.lines[i];
            // SAFETY: what exists is stored, by this thread alone; the lanes of a block of a line
            // decide alike, and one of them says so.
            unsafe {
                let quotient =
                    if exists { load_shared_f32(window.quotient(self.block, line)) } else { 1.0 };
                let largest = largest_of_block(codes[i]) * quotient;
                let is_aligned = largest == 0.0 || largest >= ALIGN_LEAST;
                let moves = is_aligned && quotient != NEVER && quotient != 1.0;
                let own = if moves { multiplied(codes[i], quotient) } else { codes[i] };
                store_u32x4_if(exists, args.aligned + place, own);
                if self.is_first {
                    let left = if moves { 1.0 } else { quotient };
                    store_shared_f32(window.result(self.block, line), left);
                }
            }
        });
    }
}

/// Aligns the codes of the window, of which the first part has been loaded.
#[inline(always)]
unsafe fn align(args: &AlignArgs, window: &Window, first: [[u32; 4]; AT_ONCE as usize]) {
    // SAFETY: handed to the caller.
    unsafe {
        let mut codes = first;
        let mut index = 0;
        while index < Part::COUNT - 1 {
            // On their way while the part before is aligned.
            let next = Part::new(args, window, index + 1).load(args);
            Part::new(args, window, index).align(args, window, codes);
            codes = next;
            index += 1;
        }
        Part::new(args, window, index).align(args, window, codes);
    }
}

/// The largest magnitude of a block's codes, of which each of eight lanes has 16. NaNs do not
/// count.
#[inline(always)]
unsafe fn largest_of_block(codes: [u32; 4]) -> f32 {
    let [[a, b], [c, d], [e, f], [g, h]] = codes.map(e4m3x4_to_f16x4);
    let max = max_magnitude_f16x2;
    let mut largest = max(max(max(a, b), max(c, d)), max(max(e, f), max(g, h)));
    // SAFETY: the caller brings the warp.
    unsafe {
        largest = max(largest, shuffle_xor(largest, 1));
        largest = max(largest, shuffle_xor(largest, 2));
        largest = max(largest, shuffle_xor(largest, 4));
    }
    let [low, high] = f16x2_to_f32(largest);
    low.abs().max(high.abs())
}

/// Codes times a power of two, rounded to nearest, ties to even.
#[inline(always)]
fn multiplied(codes: [u32; 4], quotient: f32) -> [u32; 4] {
    codes.map(|four| {
        let [a, b] = e4m3x2_to_f32(four as u16);
        let [c, d] = e4m3x2_to_f32((four >> 16) as u16);
        f32x4_to_e4m3x4([a, b, c, d].map(|value| value * quotient))
    })
}

/// Stores the factors of this thread's blocks, and votes on whether there are any.
#[inline(always)]
unsafe fn store_factors(args: &AlignArgs, window: &Window) {
    let (line, half) = (thread_index() % LINES, thread_index() / LINES);
    let column = window.line + line;
    let exists = column < args.columns;
    let mut index = half;
    while index < window.end - window.first {
        let block = window.first + index;
        // SAFETY: handed to the caller; all lanes of a warp have the same half.
        unsafe {
            let mut factor = 1.0;
            if exists {
                factor = load_shared_f32(window.result(index, line));
                if factor == NEVER {
                    factor = load_constant_f32(scale_address(args, block, column));
                }
                store_f32(factor_address(args, block, column), factor);
            }
            let is_whole = ballot(factor == 1.0) == u32::MAX;
            if lane_index() == 0 {
                store_shared_u32(window.votes(index) + 4 * (line / WARP), is_whole.into());
            }
        }
        index += HALVES;
    }
}

/// Says of how many blocks in a row there are no factors, from each of the window's on.
#[inline(always)]
unsafe fn conclude(args: &AlignArgs, window: &Window, strip: u32) {
    let (first, count) = (thread_index(), window.end - window.first);
    if first < count {
        // SAFETY: all warps have voted on the blocks.
        unsafe {
            let mut end = first;
            while end < count && load_shared_u32x4(window.votes(end)) == [1; VOTERS as usize] {
                end += 1;
            }
            let place = u64::from(strip) * args.run_pitch + u64::from(window.first + first);
            store_u32(args.runs + 4 * place, end - first);
        }
    }
}

/// Where a block's scale stands.
#[inline(always)]
fn scale_address(args: &AlignArgs, block: u32, column: u32) -> u64 {
    args.scale_inv + 4 * (u64::from(block) * args.scale_pitch + u64::from(column))
}

/// Where its factor stands.
#[inline(always)]
fn factor_address(args: &AlignArgs, block: u32, column: u32) -> u64 {
    args.factors + 4 * (u64::from(block) * args.scale_pitch + u64::from(column))
}
