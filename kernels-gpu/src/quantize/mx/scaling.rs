//! The two levels of scales of NVFP4. All arithmetic is FP32 with IEEE rounding, in the order
//! written here.

use ptx_std::convert::{f16x2_to_f32, f32x4_to_e4m3x4, fma};
use ptx_std::convert_small::{approximate_reciprocal, e4m3x4_to_f16x4};

use super::unroll::array4;

/// The largest value of E2M1.
const E2M1_MAX: f32 = 6.0;
/// The largest value of E4M3.
const E4M3_MAX: f32 = 448.0;

/// The scale of a group, or of a row.
#[derive(Clone, Copy)]
pub struct Scaling {
    /// The largest magnitude.
    amax: f32,
    /// To what it is mapped: the bound times 6.
    product: f32,
    /// The factor that maps it there.
    encode: f32,
    /// One divided by that.
    decode: f32,
}

/// Between this and its reciprocal `decode` is of moderate size: products of it with block scales,
/// 2⁻⁹ to 448, and their reciprocals are then neither subnormal nor nearly so.
const MODERATE: f32 = 1.2676506e30; // 2¹⁰⁰

impl Scaling {
    /// The scale for a largest magnitude and the largest block scale.
    #[inline(always)]
    pub fn new(amax: f32, bound: f32) -> Self {
        let product = bound * E2M1_MAX;
        let quotient = (product / amax).min(f32::MAX);
        let encode = if amax == 0.0 || quotient == 0.0 { 1.0 } else { quotient };
        Self { amax, product, encode, decode: 1.0 / encode }
    }

    /// All of it, to be kept in memory.
    #[inline(always)]
    pub fn to_bits(self) -> [u32; 4] {
        [self.amax, self.product, self.encode, self.decode].map(f32::to_bits)
    }

    /// What was kept.
    #[inline(always)]
    pub fn from_bits(bits: [u32; 4]) -> Self {
        let [amax, product, encode, decode] = bits.map(f32::from_bits);
        Self { amax, product, encode, decode }
    }

    /// By what the value of an exact copy is multiplied to restore the source.
    #[inline(always)]
    pub fn scale_inv(amax: f32, bound: f32) -> f32 {
        amax * (1.0 / (bound * E2M1_MAX))
    }

    /// What is rounded to E4M3 for a block with this largest magnitude; NaN counts as none.
    #[inline(always)]
    pub fn block_scale(&self, block_amax: f32) -> f32 {
        block_amax.max(0.0) * (self.encode * (1.0 / E2M1_MAX))
    }

    /// The same for the choice of four over six: the scale that maps the largest magnitude to 6,
    /// and the one that maps it to 4.
    #[inline(always)]
    pub fn block_scales_six_four(&self, block_amax: f32) -> [f32; 2] {
        let six = block_amax.max(0.0) / E2M1_MAX * self.encode;
        [six, six * 1.5]
    }

    /// By what the elements of a block are multiplied.
    #[inline(always)]
    pub fn factor(&self, block_scale: f32) -> f32 {
        (1.0 / (block_scale * self.decode)).min(f32::MAX)
    }

    /// The same of four blocks, in fewer instructions.
    #[inline(always)]
    pub fn factors(&self, block_scales: [f32; 4]) -> [f32; 4] {
        let products = array4(|i| block_scales[i] * self.decode);
        // One branch for all, not one each.
        let factors = if self.decode < MODERATE && self.decode > 1.0 / MODERATE {
            array4(|i| reciprocal(products[i]))
        } else {
            array4(|i| 1.0 / products[i])
        };
        array4(|i| factors[i].min(f32::MAX))
    }

    /// A number that a block's factor brings to between 5 and 6, so to the code of 6, also when it
    /// has been rounded to BF16.
    #[inline(always)]
    pub fn limit(&self, block_scale: f32) -> f32 {
        // Of factors that are limited, too; 5.5, so that no scale that was rounded up makes it
        // infinite.
        (block_scale * self.decode * 5.5).max(5.5 / f32::MAX)
    }

    /// By what the codes of a block are multiplied.
    #[inline(always)]
    pub fn restoring_factor(&self, block_scale: f32) -> f32 {
        block_scale * (self.amax * (1.0 / self.product))
    }

    /// A restored magnitude, as the choice of four over six takes it.
    #[inline(always)]
    pub fn candidate(&self, value: f32, block_scale: f32) -> f32 {
        value * block_scale * self.amax / self.product
    }
}

/// `1 / value` rounded to nearest for values of moderate size, NaN for 0: what the division of the
/// compiler's makes of such values, without asking whether they are.
#[inline(always)]
fn reciprocal(value: f32) -> f32 {
    let near = approximate_reciprocal(value);
    fma(near, fma(-near, value, 1.0), near)
}

/// Four block scales: rounded to E4M3, as codes and as numbers. They are not negative, and what is
/// larger than 448 becomes that.
#[inline(always)]
pub fn round(scales: [f32; 4]) -> (u32, [f32; 4]) {
    let codes = f32x4_to_e4m3x4(scales);
    (codes, widen(codes))
}

/// The values of four E4M3 codes.
#[inline(always)]
pub fn widen(codes: u32) -> [f32; 4] {
    let [[a, b], [c, d]] = e4m3x4_to_f16x4(codes).map(f16x2_to_f32);
    [a, b, c, d]
}

const _: () = assert!(E4M3_MAX == crate::abi::mx::FULL_BOUND);
