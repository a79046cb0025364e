//! Random numbers by counter: Philox 4×32 with seven rounds, with which it passes all tests of
//! BigCrush; ten, the customary number, have a margin (Salmon et al., "Parallel random numbers: as
//! easy as 1, 2, 3", 2011). A number depends on its key and its counter alone, so it does not
//! matter which thread draws it, nor when.

use ptx_std::convert_small::{multiply_wide, permute_bytes};
use ptx_std::memory::load_constant_u64;

use super::unroll::array8;

const MULTIPLIERS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
const KEY_STEPS: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];
const ROUNDS: u32 = 7;

/// The four words of a counter under a key, lowest word first.
#[inline(always)]
fn philox4x32(key: [u32; 2], counter: [u32; 4]) -> [u32; 4] {
    let [mut a, mut b, mut c, mut d] = counter;
    for round in 0..ROUNDS {
        let left = multiply_wide(MULTIPLIERS[0], a);
        let right = multiply_wide(MULTIPLIERS[1], c);
        // The keys of all rounds are the same in all threads.
        let keys = [
            key[0].wrapping_add(KEY_STEPS[0].wrapping_mul(round)),
            key[1].wrapping_add(KEY_STEPS[1].wrapping_mul(round)),
        ];
        a = right[1] ^ b ^ keys[0];
        b = right[0];
        c = left[1] ^ d ^ keys[1];
        d = left[0];
    }
    [a, b, c, d]
}

/// The random numbers of one copy.
#[derive(Clone, Copy)]
pub struct Random {
    key: [u32; 2],
    /// The upper half of the counter: the offset, and which copy it is.
    upper: [u32; 2],
}

impl Random {
    /// The numbers of the state at `address`, `u64` seed and `u64` offset.
    ///
    /// # Safety
    ///
    /// The state is there, and nobody writes it while the kernel runs.
    #[inline(always)]
    pub unsafe fn load(address: u64, columnwise: bool) -> Self {
        // SAFETY: handed to the caller.
        let (seed, offset) =
            unsafe { (load_constant_u64(address), load_constant_u64(address + 8)) };
        let upper = (offset >> 32) as u32 & 0x7fff_ffff | u32::from(columnwise) << 31;
        Self { key: [seed as u32, (seed >> 32) as u32], upper: [offset as u32, upper] }
    }

    /// The bits of elements `8 · block` to `8 · block + 7` of the copy, which are on an even line
    /// of their group, and of those beside them on the odd one.
    #[inline(always)]
    pub fn two_lines(&self, block: u64) -> [[RandomBits; 8]; 2] {
        let [a, b, c, d] = self.words(block);
        [of_line([a, b]), of_line([c, d])]
    }

    /// The same of line `line`, which is one of the two.
    #[inline(always)]
    pub fn one_line(&self, block: u64, line: u32) -> [RandomBits; 8] {
        let [a, b, c, d] = self.words(block);
        of_line(if line.is_multiple_of(2) { [a, b] } else { [c, d] })
    }

    #[inline(always)]
    fn words(&self, block: u64) -> [u32; 4] {
        let counter = [block as u32, (block >> 32) as u32, self.upper[0], self.upper[1]];
        philox4x32(self.key, counter)
    }
}

/// The bits of eight neighbours: four share a word.
#[inline(always)]
fn of_line(words: [u32; 2]) -> [RandomBits; 8] {
    array8(|i| RandomBits { word: words[i / 4], first: i % 4 })
}

/// Sixteen random bits: two neighbouring bytes of a word, whose last byte and first one are
/// neighbours, too.
#[derive(Clone, Copy)]
pub struct RandomBits {
    word: u32,
    /// Which byte is the lower one; known to the compiler.
    first: usize,
}

impl RandomBits {
    /// A word of them, and of half-word `half` of `above` over them.
    #[inline(always)]
    pub fn below(self, above: u32, half: usize) -> u32 {
        let low = self.first | ((self.first + 1) % 4) << 4;
        let high = if half == 1 { 0x7600 } else { 0x5400 };
        permute_bytes(self.word, above, high | low as u32)
    }
}
