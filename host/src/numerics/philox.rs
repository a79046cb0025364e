//! Random numbers by counter: Philox 4×32 with seven rounds, with which it passes all tests of
//! BigCrush; ten, the customary number, have a margin (Salmon et al., "Parallel random numbers: as
//! easy as 1, 2, 3", 2011). A number depends on its key and its counter alone, so the order in which
//! they are drawn, and by how many threads, does not matter.

use super::Direction;

/// Elements whose random bits come from one block of four words.
pub const ELEMENTS_PER_BLOCK: usize = 8;

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
/// Element `index`, counted in the order of memory, takes half-word `index % 8` (low halves first)
/// of the block with key `seed` and the counter `index / 8` (64 bits), `offset` (63 bits) and one bit
/// that tells the [`Direction`] (1: columnwise), from the lowest bit to the highest.
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
    /// The bits of elements `8 · block` to `8 · block + 7`.
    pub const fn block(&self, block: u64) -> [u16; ELEMENTS_PER_BLOCK] {
        let direction = (self.direction as u32) << 31;
        let counter = [
            block as u32,
            (block >> 32) as u32,
            self.offset as u32,
            (self.offset >> 32) as u32 & 0x7fff_ffff | direction,
        ];
        let words = philox4x32([self.seed as u32, (self.seed >> 32) as u32], counter);
        let mut bits = [0; ELEMENTS_PER_BLOCK];
        let mut index = 0;
        while index < ELEMENTS_PER_BLOCK {
            bits[index] = (words[index / 2] >> (16 * (index % 2))) as u16;
            index += 1;
        }
        bits
    }

    /// The bits of one element.
    pub const fn element(&self, index: u64) -> u16 {
        self.block(index / ELEMENTS_PER_BLOCK as u64)[index as usize % ELEMENTS_PER_BLOCK]
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
        let words = philox4x32([0, 1 << 8], [3, 0, 7, 0]);
        assert_eq!(u32::from(bits.element(29)) << 16 | u32::from(bits.element(28)), words[2]);
        let words = philox4x32([0, 1 << 8], [3, 0, 7, 1 << 31]);
        assert_eq!(u32::from(others[2].element(24)), words[0] & 0xffff);
    }

    #[test]
    fn bits_are_spread_evenly() {
        let bits = StochasticBits { seed: 5, offset: 0, direction: Direction::Rowwise };
        let count = 1 << 16;
        let mean = (0..count).map(|index| f64::from(bits.element(index))).sum::<f64>()
            / count as f64
            / 65536.0;
        // The standard error of the mean is 1/sqrt(12 · 2^16) = 0.0011.
        assert!((mean - 0.5).abs() < 0.005, "{mean}");
    }
}
