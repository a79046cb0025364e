//! The element types of `tcgen05.mma` and how a row of them lies in 32 bytes.

use crate::matrix::ElementType;
use crate::matrix::element::ROW_BYTES;

/// The type of the elements of A or B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    /// A type of 8, 16 or 32 bits.
    Whole(ElementType),
    /// Six bits: two of exponent, three of fraction.
    E2m3,
    /// Six bits: three of exponent, two of fraction.
    E3m2,
    /// Four bits: two of exponent, one of fraction.
    E2m1,
}

/// How elements of fewer than eight bits lie in a row (PTX ISA 9.7.16.10.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    /// Sixteen side by side, lowest first, then padding up to 16 bytes: the kinds that mix types of
    /// different width, in shared memory.
    Padded,
    /// One in a byte: the same kinds, in tensor memory. Six bits lie lowest, four bits two places
    /// higher, so that the signs of both meet.
    ///
    /// The manual has this in drawings only; that four bits lie in the middle is taken from what
    /// `mma.sync` of sm_120 wants, whose containers are drawn alike.
    Bytes,
    /// Two in a byte, the first one lower: the kinds of four bits only.
    Dense,
}

impl Element {
    /// Bits of an element.
    pub(super) fn bits(self) -> u32 {
        match self {
            Self::Whole(element) => 256 / element.per_row(),
            Self::E2m3 | Self::E3m2 => 6,
            Self::E2m1 => 4,
        }
    }

    /// Decodes a row, which has `K` elements.
    pub(super) fn decode<const K: usize>(
        self,
        packing: Packing,
        row: &[u8; ROW_BYTES],
    ) -> [f32; K] {
        match self {
            Self::Whole(element) => element.decode(row),
            Self::E2m3 => self.decode_narrow(packing, row, &E2M3),
            Self::E3m2 => self.decode_narrow(packing, row, &E3M2),
            Self::E2m1 => self.decode_narrow(packing, row, &E2M1),
        }
    }

    fn decode_narrow<const K: usize, const CODES: usize>(
        self,
        packing: Packing,
        row: &[u8; ROW_BYTES],
        values: &[f32; CODES],
    ) -> [f32; K] {
        let value = |code: u32| values[code as usize % CODES];
        let mut decoded = [0.0; K];
        match packing {
            Packing::Padded => {
                for (decoded, unit) in decoded.chunks_mut(16).zip(row.as_chunks::<16>().0) {
                    let mut codes = u128::from_le_bytes(*unit);
                    for decoded in decoded {
                        *decoded = value(codes as u32);
                        codes >>= self.bits();
                    }
                }
            }
            Packing::Bytes => {
                let place = 6 - self.bits();
                for (decoded, byte) in decoded.iter_mut().zip(row) {
                    *decoded = value(u32::from(*byte) >> place);
                }
            }
            Packing::Dense => {
                for (decoded, byte) in decoded.chunks_mut(2).zip(row) {
                    for (decoded, code) in decoded.iter_mut().zip([byte & 0xF, byte >> 4]) {
                        *decoded = value(u32::from(code));
                    }
                }
            }
        }
        decoded
    }
}

const E2M3: [f32; 64] = table(2, 3);
const E3M2: [f32; 64] = table(3, 2);
const E2M1: [f32; 16] = table(2, 1);

/// The values of all codes of a format without infinities and NaN.
const fn table<const CODES: usize>(exponent_bits: u32, mantissa_bits: u32) -> [f32; CODES] {
    let bias = (1 << (exponent_bits - 1)) - 1;
    let half = CODES / 2;
    let mut values = [0.0; CODES];
    let mut code = 0;
    while code < half {
        let exponent = code as u32 >> mantissa_bits;
        let mantissa = code as u32 & ((1 << mantissa_bits) - 1);
        let (whole, exponent) =
            if exponent == 0 { (mantissa, 1) } else { (mantissa | 1 << mantissa_bits, exponent) };
        // whole * 2^(exponent - bias - mantissa bits)
        let unit = f32::from_bits((127 + exponent - bias - mantissa_bits) << 23);
        values[code] = whole as f32 * unit;
        values[code + half] = -values[code];
        code += 1;
    }
    values
}
