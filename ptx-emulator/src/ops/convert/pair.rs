//! Two f32 into two numbers of 16 bits or fewer.

use super::lanes as warp;
use crate::execute::registers::{Words, lanes};
use crate::numeric::Rounding;
use crate::numeric::convert::{FloatResult, float_to_float};
use crate::numeric::format::{F32, Overflow};
use crate::numeric::half::HalfFormat;
use crate::numeric::small::{SmallFormat, encode_ue8m0};

/// What the two become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pair {
    Half(HalfFormat, FloatResult),
    Small {
        format: SmallFormat,
        relu: bool,
    },
    /// Powers of two.
    Scale(Scale),
}

/// How a number becomes a power of two (`.ue8m0`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    pub(super) rounding: Rounding,
    pub(super) overflow: Overflow,
}

impl Scale {
    pub(super) fn of(self, value: f32) -> u32 {
        encode_ue8m0(value, self.rounding, self.overflow).into()
    }
}

impl Pair {
    /// The results of all lanes in `mask`, from the upper and the lower half.
    #[inline]
    pub(super) fn compute(self, [high, low]: [Words; 2], mask: u32) -> Words {
        match self {
            Self::Half(format, result) => {
                let quick = FloatResult {
                    relu: result.relu,
                    ..FloatResult::rounded(Rounding::NearestEven)
                };
                match format {
                    HalfFormat::F16 if result == quick => {
                        joined(&high, &low, |row| warp::f16_from_single(row, result.relu))
                    }
                    HalfFormat::Bf16 if result == quick => {
                        joined(&high, &low, |row| warp::bf16_from_single(row, result.relu))
                    }
                    _ => each(&high, &low, mask, 16, |bits| {
                        float_to_float(bits.into(), &F32, format.format(), result) as u32
                    }),
                }
            }
            Self::Small { format, relu } => each(&high, &low, mask, format.pair_bits(), |bits| {
                u32::from(format.encode(f32::from_bits(bits), relu))
            }),
            Self::Scale(scale) => each(&high, &low, mask, 8, |bits| scale.of(f32::from_bits(bits))),
        }
    }
}

#[inline(always)]
fn joined(high: &Words, low: &Words, convert: impl Fn(&Words) -> Words) -> Words {
    let (high, low) = (convert(high), convert(low));
    std::array::from_fn(|lane| high[lane] << 16 | low[lane])
}

fn each(high: &Words, low: &Words, mask: u32, bits: u32, convert: impl Fn(u32) -> u32) -> Words {
    let mut results = [0; 32];
    for lane in lanes(mask) {
        results[lane] = convert(high[lane]) << bits | convert(low[lane]);
    }
    results
}
