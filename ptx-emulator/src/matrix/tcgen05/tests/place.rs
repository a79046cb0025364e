//! Matrices in shared memory, bit by bit, by the formulas of PTX ISA 9.7.16.3.3 and 9.7.16.4.1.

use super::values::{Random, Type};
use std::collections::BTreeSet;

/// The codes of the swizzles in the descriptor, with the bytes of a row of their atom.
pub(super) const SWIZZLES: [(u64, usize); 5] = [(0, 16), (1, 128), (2, 128), (4, 64), (6, 32)];

/// How a matrix lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placement {
    /// The code of the swizzle.
    pub(super) swizzle: u64,
    /// Whether MN is contiguous.
    pub(super) across: bool,
    /// The start address; the pattern of a swizzle begins at `pattern`.
    pub(super) start: usize,
    pub(super) pattern: usize,
    pub(super) leading: usize,
    pub(super) stride: usize,
}

impl Placement {
    /// A random one for `rows` rows of a type within 48 KiB from `base` on, a multiple of 1024.
    pub(super) fn random(
        random: &mut Random,
        ty: Type,
        across: bool,
        swizzle: u64,
        rows: usize,
        base: usize,
    ) -> Self {
        let (_, width) = SWIZZLES.into_iter().find(|(code, _)| *code == swizzle).expect("a code");
        let bytes = (ty.bits() as usize / 8).max(1);
        let gap = 16 * random.below(4) as usize;
        let whole = 1024 * random.below(2) as usize;
        // Rows of K that an atom has across MN.
        let deep = if swizzle == 1 { 4 } else { 8 };
        let depth = 32 / bytes / deep;
        let (leading, stride) = match (across, swizzle) {
            (false, 0) => (rows / 8 * (128 + gap) + 32, 128 + gap),
            // Not read.
            (false, _) => (16 * random.below(3) as usize, 8 * width + whole),
            (true, 0) => (128, depth * 128 + gap),
            (true, _) => (depth * deep * width + whole, deep * width),
        };
        // Where the pattern need not begin at its boundary, and a slice of K inside of an atom.
        let begin = match (across, swizzle) {
            (_, 0) => gap,
            (false, 2) => 128 * random.below(8) as usize,
            _ => 0,
        };
        let slices = if across || swizzle == 0 { 1 } else { width as u32 / 32 };
        let slice = 32 * random.below(slices) as usize;
        let pattern = base + begin;
        Self { swizzle, across, start: pattern + slice, pattern, leading, stride }
    }

    pub(super) fn descriptor(&self) -> u64 {
        let field = |bytes: usize, shift: u32| (bytes as u64 >> 4) << shift;
        let base = if self.swizzle == 0 { 0 } else { self.pattern as u64 >> 7 & 7 };
        field(self.start, 0)
            | field(self.leading, 16)
            | field(self.stride, 32)
            | 1 << 46
            | base << 49
            | self.swizzle << 61
    }

    /// Where byte `byte` of the 32 bytes of K of row `mn` lies; across MN bytes of an element stay
    /// together, `bytes` of them.
    fn address(&self, mn: usize, byte: usize, bytes: usize) -> usize {
        let (leading, stride) = (self.leading, self.stride);
        let within = if self.across {
            let (b, k) = (mn * bytes + byte % bytes, byte / bytes);
            match self.swizzle {
                0 => b / 16 * stride + k / 8 * leading + k % 8 * 16 + b % 16,
                1 => b % 128 + b / 128 * leading + k % 4 * 128 + k / 4 * stride,
                2 => b / 128 * leading + k / 8 * stride + k % 8 * 128 + b % 128,
                4 => b / 64 * leading + k / 8 * stride + k % 8 * 64 + b % 64,
                _ => b / 32 * leading + k / 8 * stride + k % 8 * 32 + b % 32,
            }
        } else {
            let (r, g) = (mn % 8, mn / 8);
            match self.swizzle {
                0 => g * stride + byte / 16 * leading + r * 16 + byte % 16,
                1 | 2 => g * stride + r * 128 + byte,
                4 => g * stride + r * 64 + byte,
                _ => g * stride + r * 32 + byte,
            }
        };
        let address = self.start + within;
        // Rows of 128 bytes since the pattern began, where it does not begin at a boundary.
        let row = (address >> 7) + 8 - (self.pattern >> 7 & 7);
        match self.swizzle {
            1 => address ^ (row & 3) << 5,
            2 => address ^ (row & 7) << 4,
            4 => address ^ (row & 3) << 4,
            6 => address ^ (row & 1) << 4,
            _ => address,
        }
    }

    /// Writes codes `[mn][k]`; `dense` has two of four bits in a byte. Gives every byte that the
    /// rows span.
    pub(super) fn write(
        &self,
        shared: &mut [u8],
        ty: Type,
        dense: bool,
        codes: &[Vec<u32>],
    ) -> BTreeSet<usize> {
        let bits = ty.bits() as usize;
        let bytes = bits.div_ceil(8);
        let mut touched = BTreeSet::new();
        for (mn, codes) in codes.iter().enumerate() {
            touched.extend((0..32).map(|byte| self.address(mn, byte, bytes)));
            for (k, code) in codes.iter().enumerate() {
                // Small types: sixteen side by side at the beginning of 16 bytes, unless dense.
                let first = if dense { 4 * k } else { k / 16 * 128 + k % 16 * bits };
                let first = if bits >= 8 { k * bits } else { first };
                for bit in 0..bits {
                    let place = first + bit;
                    let byte = &mut shared[self.address(mn, place / 8, bytes)];
                    *byte &= !(1 << (place % 8));
                    *byte |= ((code >> bit & 1) as u8) << (place % 8);
                }
            }
        }
        touched
    }
}
