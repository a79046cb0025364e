//! Operands in shared memory: the descriptor of sm_100 (PTX ISA 9.7.16.4.1) and where the 16-byte
//! chunks of a matrix lie (9.7.16.3.3 and 9.7.16.10.6).
//!
//! All but the 128-byte swizzle of 32-byte atoms is as for `wgmma`. That one is a permutation of
//! pairs of chunks by bits 8:7 of the address. Across MN it has atoms of four rows of K, of 128
//! bytes each; along K its rows are 128 bytes apart like those of the other 128-byte swizzle, which
//! the manual allows (table 54) but does not draw.

use super::problem;
use crate::matrix::MatrixError;
use crate::matrix::descriptor::{Descriptor, Major, Swizzle, chunk};
use crate::matrix::element::ROW_BYTES;

/// Bits 15:14, 31:30 and 60:53, which are zero.
const ZERO: u64 = 0b11 << 14 | 0b11 << 30 | 0xFF << 53;

/// A matrix in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SharedMatrix {
    descriptor: Descriptor,
    /// The swizzle of 32-byte atoms; the descriptor itself has none then.
    wide_atoms: bool,
    major: Major,
    /// Bytes of an element that MN-major chunks have side by side.
    element_bytes: u32,
}

impl SharedMatrix {
    /// Takes a descriptor apart, for elements of so many bits.
    pub(super) fn decode(
        operand: &str,
        bits: u64,
        major: Major,
        element_bits: u32,
    ) -> Result<Self, MatrixError> {
        let refuse =
            |text: &str| Err(problem(format!("the descriptor {bits:#018x} of {operand} {text}")));
        if bits >> 46 & 0b111 != 1 {
            return refuse("must have 0b001 in bits 48:46, as on sm_100");
        }
        if bits & ZERO != 0 {
            return refuse("has bits set in 15:14, 31:30 or 60:53, which are zero");
        }
        if bits >> 52 & 1 == 1 {
            return refuse("has an absolute leading dimension, which sm_103a alone has");
        }
        let swizzle = match bits >> 61 {
            0 | 1 => Swizzle::None,
            2 => Swizzle::Bytes128,
            4 => Swizzle::Bytes64,
            6 => Swizzle::Bytes32,
            _ => return refuse("has a swizzle of 3, 5 or 7 in bits 63:61"),
        };
        let wide_atoms = bits >> 61 == 1;
        if major == Major::Mn && wide_atoms != (element_bits == 32) {
            return refuse(
                "transposes: that takes the 128-byte swizzle of 32-byte atoms for tf32, and any \
                 other for smaller elements",
            );
        }
        let field = |shift: u32| ((bits >> shift) as u32 & 0x3FFF) << 4;
        let descriptor = Descriptor {
            start: field(0),
            leading: field(16),
            stride: field(32),
            base: (bits >> 49) as u32 & 7,
            swizzle,
        };
        let element_bytes = element_bits / 8;
        Ok(Self { descriptor, wide_atoms, major, element_bytes })
    }

    /// Appends the offsets of all chunks of so many rows (A) or columns (B).
    pub(super) fn footprint(&self, count: u32, chunks: &mut Vec<u32>) {
        match self.major {
            Major::K => {
                chunks.extend((0..2 * count).map(|index| self.k_major_chunk(index / 2, index % 2)))
            }
            Major::Mn => {
                let rows = ROW_BYTES as u32 / self.element_bytes;
                let wide = count * self.element_bytes / 16;
                chunks.extend(
                    (0..wide)
                        .flat_map(|index| (0..rows).map(move |k| (index, k)))
                        .map(|(index, k)| self.mn_major_chunk(index, k)),
                );
            }
        }
    }

    /// Appends so many rows (A) or columns (B) to `rows`, 32 bytes of K each.
    pub(super) fn gather(
        &self,
        shared: &[u8],
        count: u32,
        rows: &mut Vec<[u8; ROW_BYTES]>,
    ) -> Result<(), MatrixError> {
        if self.major == Major::Mn {
            return match self.element_bytes {
                1 => self.gather_across::<1>(shared, count, rows),
                2 => self.gather_across::<2>(shared, count, rows),
                _ => self.gather_across::<4>(shared, count, rows),
            };
        }
        for row in 0..count {
            let mut bytes = [0; ROW_BYTES];
            for (half, bytes) in (0..).zip(bytes.as_chunks_mut::<16>().0) {
                *bytes = *chunk(shared, self.k_major_chunk(row, half))?;
            }
            rows.push(bytes);
        }
        Ok(())
    }

    /// Transposes, for elements of so many bytes.
    fn gather_across<const BYTES: usize>(
        &self,
        shared: &[u8],
        count: u32,
        rows: &mut Vec<[u8; ROW_BYTES]>,
    ) -> Result<(), MatrixError> {
        let first = rows.len();
        rows.resize(first + count as usize, [0; ROW_BYTES]);
        let per_chunk = 16 / BYTES;
        for (index, rows) in (0..).zip(rows[first..].chunks_mut(per_chunk)) {
            for k in 0..ROW_BYTES / BYTES {
                let elements = chunk(shared, self.mn_major_chunk(index, k as u32))?;
                for (row, element) in rows.iter_mut().zip(elements.as_chunks::<BYTES>().0) {
                    row.as_chunks_mut::<BYTES>().0[k] = *element;
                }
            }
        }
        Ok(())
    }

    /// Where bytes `16 * half..` of K of row `mn` lie.
    fn k_major_chunk(&self, mn: u32, half: u32) -> u32 {
        if !self.wide_atoms {
            return self.descriptor.k_major_chunk(mn, half);
        }
        let Descriptor { start, stride, .. } = self.descriptor;
        let group = start.wrapping_add((mn / 8).wrapping_mul(stride));
        self.mix(group.wrapping_add(mn % 8 * 128 + half * 16))
    }

    /// Where bytes `16 * index..` of MN of row `k` lie.
    fn mn_major_chunk(&self, index: u32, k: u32) -> u32 {
        if !self.wide_atoms {
            return self.descriptor.mn_major_chunk(index, k);
        }
        let Descriptor { start, leading, stride, .. } = self.descriptor;
        let atom = (index / 8).wrapping_mul(leading).wrapping_add((k / 4).wrapping_mul(stride));
        self.mix(start.wrapping_add(atom).wrapping_add(k % 4 * 128 + index % 8 * 16))
    }

    /// The swizzle of 32-byte atoms, from where its pattern starts.
    fn mix(&self, address: u32) -> u32 {
        address ^ ((address >> 7).wrapping_sub(self.descriptor.base) & 3) << 5
    }
}
