//! Scales from largest magnitudes, and the rounding to FP8.

use ptx_std::convert::{f32x4_to_e4m3x4, f32x4_to_e5m2x4};

use crate::abi::ElementType;
use crate::abi::quantize::QuantizeArgs;

/// Largest number of E4M3.
const E4M3_MAX: f32 = 448.0;
/// Largest number of E5M2.
const E5M2_MAX: f32 = 57344.0;

/// How a scale follows from a largest magnitude.
#[derive(Clone, Copy)]
pub struct ScaleRule {
    /// Largest number of the format.
    pub format_max: f32,
    /// Magnitudes below it count as it.
    pub epsilon: f32,
    /// Whether scales are rounded down to powers of two.
    pub power_of_two: bool,
    /// The scale where the quotient is infinite.
    pub ceiling: f32,
}

impl ScaleRule {
    /// That of a launch, for a source whose largest finite number is `ceiling`.
    #[inline(always)]
    pub fn of(args: &QuantizeArgs, ceiling: f32) -> Self {
        Self {
            format_max: Format::of(args).max(),
            epsilon: args.epsilon,
            power_of_two: args.power_of_two != 0,
            ceiling,
        }
    }

    /// The factor that maps `amax` to the largest number of the format; 1 if there is none.
    #[inline(always)]
    pub fn scale(&self, amax: f32) -> f32 {
        let amax = if amax < self.epsilon { self.epsilon } else { amax };
        if !(amax > 0.0 && amax < f32::INFINITY) {
            return 1.0;
        }
        let quotient = self.format_max / amax;
        let scale = if quotient == f32::INFINITY { self.ceiling } else { quotient };
        if self.power_of_two { f32::from_bits(scale.to_bits() & 0xff80_0000) } else { scale }
    }
}

/// An FP8 format.
#[derive(Clone, Copy)]
pub struct Format {
    is_e5m2: bool,
}

impl Format {
    /// That of a launch.
    #[inline(always)]
    pub fn of(args: &QuantizeArgs) -> Self {
        Self { is_e5m2: args.format == ElementType::E5m2 as u32 }
    }

    /// Its largest number.
    #[inline(always)]
    pub fn max(self) -> f32 {
        if self.is_e5m2 { E5M2_MAX } else { E4M3_MAX }
    }

    /// Scales and rounds 16 numbers: to nearest, ties to even; infinities become the largest
    /// number.
    #[inline(always)]
    pub fn encode(self, quads: [[f32; 4]; 4], scale: f32) -> [u32; 4] {
        self.round(quads.map(|quad| quad.map(|value| value * scale)))
    }

    /// Rounds 16 numbers likewise.
    #[inline(always)]
    pub fn round(self, quads: [[f32; 4]; 4]) -> [u32; 4] {
        if self.is_e5m2 { quads.map(f32x4_to_e5m2x4) } else { quads.map(f32x4_to_e4m3x4) }
    }
}
