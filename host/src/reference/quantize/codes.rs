//! Values to codes.

use crate::numerics::philox::{ELEMENTS_OF_LINE, Place, StochasticBits};
use crate::numerics::{E2m1, E4m3, E5m2, Float8, Float8Format};

/// How many codes share a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    /// One.
    Byte,
    /// Two; the lower four bits come first.
    Nibble,
}

impl Packing {
    /// Bytes of so many codes.
    pub(super) fn bytes(self, codes: usize) -> usize {
        match self {
            Self::Byte => codes,
            Self::Nibble => codes.div_ceil(2),
        }
    }

    /// Codes, one in each byte, to memory.
    pub(super) fn store(self, codes: &[u8], bytes: &mut [u8]) {
        match self {
            Self::Byte => bytes.copy_from_slice(codes),
            Self::Nibble => {
                for (byte, pair) in bytes.iter_mut().zip(codes.chunks(2)) {
                    let high = pair.get(1).copied().unwrap_or(0);
                    *byte = E2m1::pack(E2m1(pair[0]), E2m1(high));
                }
            }
        }
    }
}

/// A format's rounding.
pub(super) trait Encode: Sync {
    /// How the codes lie in memory.
    const PACKING: Packing;

    /// The codes of neighbours in the copy, one in each byte: each value times `factor`, rounded.
    /// `first` is the place of the first one.
    fn encode(&self, values: &[f32], factor: f32, first: Place, codes: &mut [u8]);
}

/// To FP8, nearest even.
pub(super) struct EncodeFloat8(pub Float8Format);

impl Encode for EncodeFloat8 {
    const PACKING: Packing = Packing::Byte;

    fn encode(&self, values: &[f32], factor: f32, _: Place, codes: &mut [u8]) {
        match self.0 {
            Float8Format::E4m3 => encode_float8::<E4m3>(values, factor, codes),
            Float8Format::E5m2 => encode_float8::<E5m2>(values, factor, codes),
        }
    }
}

fn encode_float8<F: Float8>(values: &[f32], factor: f32, codes: &mut [u8]) {
    for (code, value) in codes.iter_mut().zip(values) {
        *code = F::from_f32(value * factor).to_bits();
    }
}

/// To FP4, nearest even.
pub(super) struct EncodeNearest;

impl Encode for EncodeNearest {
    const PACKING: Packing = Packing::Nibble;

    fn encode(&self, values: &[f32], factor: f32, _: Place, codes: &mut [u8]) {
        for (code, value) in codes.iter_mut().zip(values) {
            *code = E2m1::from_f32(value * factor).0;
        }
    }
}

/// To FP4, at random.
pub(super) struct EncodeStochastic(pub StochasticBits);

impl Encode for EncodeStochastic {
    const PACKING: Packing = Packing::Nibble;

    fn encode(&self, values: &[f32], factor: f32, first: Place, codes: &mut [u8]) {
        let eights = codes.chunks_mut(ELEMENTS_OF_LINE).zip(values.chunks(ELEMENTS_OF_LINE));
        for (number, (codes, values)) in eights.enumerate() {
            let place = first.ahead(number * ELEMENTS_OF_LINE);
            for ((code, value), bits) in codes.iter_mut().zip(values).zip(self.0.neighbours(place))
            {
                *code = E2m1::from_f32_stochastic(value * factor, bits).0;
            }
        }
    }
}
