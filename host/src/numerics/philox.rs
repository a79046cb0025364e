//! Random numbers by counter: Philox 4×32 with seven rounds, with which it passes all tests of
//! BigCrush; ten, the customary number, have a margin (Salmon et al., "Parallel random numbers: as
//! easy as 1, 2, 3", 2011). A number depends on its key and its counter alone, so the order in
//! which they are drawn, and by how many threads, does not matter.

use super::Direction;

/// Elements of a line whose random bits come from one block of four words.
pub const ELEMENTS_OF_LINE: usize = 8;
/// Lines whose elements share a block.
pub const LINES_OF_BLOCK: usize = 2;

const MULTIPLIERS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
const KEY_STEPS: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];
const ROUNDS: usize = 7;

/// The four words of a counter under a key, lowest word first.
///
/// ```
/// use grouped_linear::numerics::philox::philox4x32;
/// let block = philox4x32([0, 0], [0, 0, 0, 0]);
/// assert_eq!(block, [0x5f6f_b709, 0x0d89_3f64, 0x4f12_1f81, 0x4f73_0a48]);
/// ```
pub const fn philox4x32(mut key: [u32; 2], mut counter: [u32; 4]) -> [u32; 4] {
    let mut round = 0;
    while round < ROUNDS {
        let left = MULTIPLIERS[0] as u64 * counter[0] as u64;
        let right = MULTIPLIERS[1] as u64 * counter[2] as u64;
        counter = [
            (right >> 32) as u32 ^ counter[1] ^ key[0],
            right as u32,
            (left >> 32) as u32 ^ counter[3] ^ key[1],
            left as u32,
        ];
        key = [key[0].wrapping_add(KEY_STEPS[0]), key[1].wrapping_add(KEY_STEPS[1])];
        round += 1;
    }
    counter
}

/// Random numbers for stochastic rounding: 16 bits for each element of a tensor.
///
/// Lines are paired, 0 with 1, 2 with 3, counted within a group. Eight neighbours of an even line
/// and the eight beside them on the odd one share a block: that with key `seed` and, from the
/// lowest bit to the highest, the counter `index / 8` (64 bits), with the index of the even line's
/// eight in the order of memory, `offset` (63 bits) and one bit that tells the [`Direction`] (1:
/// columnwise). The even line has the first two words. Of the four elements of a word, each takes
/// the lowest 16 bits of the word as it is once the elements before have rotated it right by 8 bits
/// each. So the upper byte of each is the lower byte of the next, and that of the fourth the first
/// one's; there it decides in one of 256 cases at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StochasticBits {
    /// The key.
    pub seed: u64,
    /// Separates calls with the same seed; its highest bit does not count.
    pub offset: u64,
    /// Separates the two copies of one tensor.
    pub direction: Direction,
}

impl StochasticBits {
    /// The bits of elements `8 · block` to `8 · block + 7`, which are on an even line, and of those
    /// beside them on the odd one.
    pub const fn block(&self, block: u64) -> [[u16; ELEMENTS_OF_LINE]; LINES_OF_BLOCK] {
        let direction = (self.direction as u32) << 31;
        let counter = [
            block as u32,
            (block >> 32) as u32,
            self.offset as u32,
            (self.offset >> 32) as u32 & 0x7fff_ffff | direction,
        ];
        let words = philox4x32([self.seed as u32, (self.seed >> 32) as u32], counter);
        let mut bits = [[0; ELEMENTS_OF_LINE]; LINES_OF_BLOCK];
        let mut index = 0;
        while index < ELEMENTS_OF_LINE * LINES_OF_BLOCK {
            bits[index / ELEMENTS_OF_LINE][index % ELEMENTS_OF_LINE] =
                words[index / 4].rotate_right(8 * (index as u32 % 4)) as u16;
            index += 1;
        }
        bits
    }

    /// The bits of eight neighbours, of which the first has a multiple of eight elements before it
    /// on its line.
    pub const fn neighbours(&self, first: Place) -> [u16; ELEMENTS_OF_LINE] {
        let block = (first.pair + first.offset) / ELEMENTS_OF_LINE;
        self.block(block as u64)[first.is_odd as usize]
    }

    /// The bits of one element.
    pub const fn element(&self, place: Place) -> u16 {
        self.neighbours(place)[place.offset % ELEMENTS_OF_LINE]
    }
}

/// An element's place in a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Elements before the two lines of which it is on one.
    pair: usize,
    /// Whether it is on the second of them.
    is_odd: bool,
    /// Elements before it on its line.
    offset: usize,
}

impl Place {
    /// Line `line` of its group (rowwise a row, columnwise a column), and on that `offset`. The
    /// copy has `before` lines before the group's first, each of `pitch` elements, a multiple of 8.
    /// Groups of tokens share the lines of a columnwise copy: there `before` is 0, and `offset`
    /// counts what the groups before have on the line.
    pub const fn new(before: usize, line: usize, pitch: usize, offset: usize) -> Self {
        let is_odd = line % LINES_OF_BLOCK == 1;
        Self { pair: (before + line - is_odd as usize) * pitch, is_odd, offset }
    }

    /// The place so many elements further along the line.
    pub const fn ahead(self, elements: usize) -> Self {
        Self { offset: self.offset + elements, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_known_answers_of_its_authors() {
        // Random123, kat_vectors: philox4x32, 7 rounds.
        let ones = u32::MAX;
        let cases = [
            ([0; 2], [0; 4], [0x5f6f_b709, 0x0d89_3f64, 0x4f12_1f81, 0x4f73_0a48]),
            ([ones; 2], [ones; 4], [0x5207_ddc2, 0x4516_5e59, 0x4d8e_e751, 0x8c52_f662]),
            (
                [0xa409_3822, 0x299f_31d0],
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0x4dfc_caba, 0x190a_87f0, 0xc473_62ba, 0xb6b5_242a],
            ),
        ];
        for (key, counter, want) in cases {
            assert_eq!(philox4x32(key, counter), want);
        }
    }

    #[test]
    fn elements_seeds_offsets_and_directions_have_bits_of_their_own() {
        let bits = StochasticBits { seed: 1 << 40, offset: 7, direction: Direction::Rowwise };
        let others = [
            StochasticBits { seed: 0, ..bits },
            StochasticBits { offset: 7 | 1 << 50, ..bits },
            StochasticBits { direction: Direction::Columnwise, ..bits },
        ];
        assert!(others.iter().all(|other| other.block(3) != bits.block(3)));
        assert_ne!(bits.block(3), bits.block(3 | 1 << 40));
        // Lines of 40 elements, of which the second has the same block as the first.
        let element = |bits: StochasticBits, line, offset| {
            u32::from(bits.element(Place::new(0, line, 40, offset)))
        };
        let words = philox4x32([0, 1 << 8], [3, 0, 7, 0]);
        assert_eq!(element(bits, 0, 24), words[0] & 0xffff);
        assert_eq!(element(bits, 0, 29), words[1] >> 8 & 0xffff);
        assert_eq!(element(bits, 1, 26), words[2] >> 16);
        assert_eq!(element(bits, 1, 31), words[3] >> 24 | (words[3] & 0xff) << 8);
        let words = philox4x32([0, 1 << 8], [10, 0, 7, 1 << 31]);
        assert_eq!(element(others[2], 3, 0), words[2] & 0xffff);
    }

    /// The mean of all; and two neighbours, and two elements side by side on two lines, are not
    /// correlated, measured against their variance, 1/12, but for the byte that some have in
    /// common.
    #[test]
    fn bits_are_spread_evenly_and_hardly_depend_on_their_neighbours() {
        let bits = StochasticBits { seed: 5, offset: 0, direction: Direction::Rowwise };
        let blocks: Vec<_> = (0..1 << 16).map(|block| bits.block(block)).collect();
        let centred = |bits: u16| (f64::from(bits) + 0.5) / 65536.0 - 0.5;
        let mean = |of: &dyn Fn(&[[u16; 8]; 2]) -> f64| {
            blocks.iter().map(of).sum::<f64>() / blocks.len() as f64
        };
        let places = || (0..2).flat_map(|line| (0..8).map(move |i| (line, i)));
        for (line, i) in places() {
            // A standard error is 1/sqrt(12 · 2^16) = 0.0011.
            let own = mean(&|block| centred(block[line][i]));
            assert!(own.abs() < 0.005, "{own}");
            let next = i / 4 * 4 + (i + 1) % 4;
            assert!(blocks.iter().all(|b| b[line][i] >> 8 == b[line][next] & 0xff), "{line} {i}");
            for other in places() {
                let product = mean(&|b| centred(b[line][i]) * centred(b[other.0][other.1]));
                let have_a_byte = line == other.0 && i / 4 == other.1 / 4 && (i + other.1) % 2 == 1;
                let want = match (line, i) == other {
                    true => 1.0 / 12.0,
                    false if have_a_byte => 1.0 / 12.0 / 256.0,
                    false => 0.0,
                };
                // A standard error is 1/12/256 = 0.0003.
                assert!((product - want).abs() < 0.0015, "{line} {i} {other:?}: {product}");
            }
        }
    }
}
