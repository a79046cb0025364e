//! Tests of the arithmetic against independent oracles.

mod approximate;
mod arithmetic;
mod conversion;
mod formats;
mod half_arithmetic;
mod integers;
mod ordering;
mod stochastic;

/// A generator of 64-bit numbers (SplitMix64), so that a failure can be run again.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        value ^ (value >> 31)
    }

    /// An f32 of any bits; a quarter of them near the edges of the format.
    fn single(&mut self) -> f32 {
        let bits = self.next();
        let edge = SINGLE_EDGES[(bits >> 40) as usize % SINGLE_EDGES.len()];
        match bits >> 62 {
            0 => f32::from_bits(edge.wrapping_add((bits & 3) as u32) ^ ((bits as u32) << 31)),
            _ => f32::from_bits(bits as u32),
        }
    }

    /// An f32 with an exponent near zero, so that sums cancel and align.
    fn close_single(&mut self) -> f32 {
        let bits = self.next();
        let exponent = 127 - 24 + ((bits >> 32) % 48) as u32;
        f32::from_bits((bits as u32 & 0x807F_FFFF) | (exponent << 23))
    }

    /// An f64 of any bits, or with an exponent near zero.
    fn double(&mut self) -> f64 {
        let bits = self.next();
        let exponent = 1023 - 60 + (bits >> 8) % 120;
        match self.next() & 1 {
            0 => f64::from_bits(bits),
            _ => f64::from_bits((bits & 0x800F_FFFF_FFFF_FFFF) | (exponent << 52)),
        }
    }
}

const SINGLE_EDGES: [u32; 8] = [
    0x0000_0000,
    0x007F_FFFE,
    0x0080_0000,
    0x3F7F_FFFE,
    0x3F80_0000,
    0x7F7F_FFFD,
    0x7F80_0000,
    0x4B7F_FFFE,
];
