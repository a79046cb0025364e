//! Scales: from the largest magnitude of what a scale covers (*amax*) to the factor by which values
//! are multiplied before they are rounded, and to what is stored beside the codes.
//!
//! All arithmetic is FP32 with IEEE rounding in the order that is written here. An amax is the
//! maximum of magnitudes in which NaNs do not count.
//!
//! The rules are those of TransformerEngine 2.20, whose recorded outputs `tests/golden` compares to
//! the bit. Where they come from:
//!
//! - [`Fp8ScaleRule`] is `compute_scale_from_amax` in `common/recipe/recipe_common.cuh`.
//! - [`DelayedScaleRule`] is that of `common/recipe/delayed_scaling.cu`, with a lower bound of its
//!   own.
//! - [`mxfp8_exponent`] rounds up, as *Recipes for Pre-training LLMs with MXFP8* (arXiv 2506.08027)
//!   proposes. The *OCP Microscaling Formats (MX) Specification* 1.0, section 6.3, rounds down, so
//!   that the largest values of a block saturate.
//! - [`TensorScale`] is that of *Pretraining Large Language Models with NVFP4* (arXiv 2509.25149),
//!   appendix on quantization, and [`TensorScale::block_scales_six_four`] that of *Four Over Six*
//!   (arXiv 2512.02010).

use super::{E2m1, E4m3, E8m0};

/// Whether a scale may be any number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScaleKind {
    /// Any FP32 number.
    Fp32,
    /// Rounded down to a power of two, so that scaling is exact.
    PowerOfTwo,
}

/// How FP8 scales come from an amax: per tensor, and per block of 128 or 128×128.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fp8ScaleRule {
    /// The largest value of the format: amax is mapped to it.
    pub max: f32,
    /// Which numbers a scale may be.
    pub kind: ScaleKind,
    /// A smaller amax counts as this.
    pub epsilon: f32,
    /// The scale where `max / amax` is beyond FP32: the largest FP32 for scales of whole tensors,
    /// and the largest finite value of the source's element type for those of blocks.
    pub ceiling: f32,
}

impl Fp8ScaleRule {
    /// The rule with epsilon 0 and the ceiling of FP32.
    pub const fn new(max: f32, kind: ScaleKind) -> Self {
        Self { max, kind, epsilon: 0.0, ceiling: f32::MAX }
    }

    /// The scale. Where amax, or epsilon if that is larger, is 0, infinite or NaN it is 1: then
    /// infinities saturate, and NaNs stay.
    ///
    /// ```
    /// use grouped_linear::numerics::E4m3;
    /// use grouped_linear::numerics::scale::{ScaleKind, Fp8ScaleRule};
    /// assert_eq!(Fp8ScaleRule::new(E4m3::MAX, ScaleKind::Fp32).scale(2.0), 224.0);
    /// assert_eq!(Fp8ScaleRule::new(E4m3::MAX, ScaleKind::PowerOfTwo).scale(2.0), 128.0);
    /// assert_eq!(Fp8ScaleRule::new(E4m3::MAX, ScaleKind::Fp32).scale(0.0), 1.0);
    /// ```
    pub fn scale(&self, amax: f32) -> f32 {
        let amax = if amax < self.epsilon { self.epsilon } else { amax };
        if amax == 0.0 || !amax.is_finite() {
            return 1.0;
        }
        let quotient = self.max / amax;
        let scale = if quotient.is_infinite() { self.ceiling } else { quotient };
        match self.kind {
            ScaleKind::Fp32 => scale,
            ScaleKind::PowerOfTwo => f32::from_bits(scale.to_bits() & 0xff80_0000),
        }
    }
}

/// What is stored beside the codes: one divided by the scale. Values are restored by multiplying
/// with it.
pub fn scale_inverse(scale: f32) -> f32 {
    1.0 / scale
}

/// Which of the remembered amaxes a delayed scale comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AmaxChoice {
    /// The largest.
    Max,
    /// That of the last step.
    MostRecent,
}

/// Delayed scaling: values are quantized with a scale that comes from the amaxes of earlier steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DelayedScaleRule {
    /// The largest value of the format.
    pub max: f32,
    /// Powers of two by which the scale stays below what amax asks for.
    pub margin: i32,
    /// Which amax counts.
    pub choice: AmaxChoice,
}

impl DelayedScaleRule {
    /// Ends a step. `history[0]` holds the step's amax, `history[1..]` those of earlier steps, the
    /// oldest first; the result is the scale for the next step. The history moves on: its oldest
    /// amax is dropped, the last place gets the step's, and `history[0]` becomes 0 for the next
    /// step.
    ///
    /// Where the amax that counts is 0, infinite or NaN, the scale stays as it is. A quotient
    /// beyond FP32 gives the largest finite scale, one below its normal numbers the smallest of
    /// these, whose inverse is finite.
    ///
    /// ```
    /// use grouped_linear::numerics::scale::{AmaxChoice, DelayedScaleRule};
    /// let rule = DelayedScaleRule { max: 448.0, margin: 1, choice: AmaxChoice::Max };
    /// let mut history = [2.0, 8.0, 4.0];
    /// assert_eq!(rule.update(1.0, &mut history), 28.0); // 448 / 2¹ / 8
    /// assert_eq!(history, [0.0, 4.0, 2.0]);
    /// ```
    pub fn update(&self, scale: f32, history: &mut [f32]) -> f32 {
        let amax = match self.choice {
            AmaxChoice::Max => history.iter().copied().fold(0.0, f32::max),
            AmaxChoice::MostRecent => history.first().copied().unwrap_or(0.0),
        };
        if let [_, _, ..] = history {
            history.rotate_left(1);
        }
        if let Some(current) = history.first_mut() {
            *current = 0.0;
        }
        if !(amax > 0.0 && amax.is_finite()) {
            return scale;
        }
        let quotient = self.max * power_of_two(self.margin.saturating_neg()) / amax;
        if quotient.is_infinite() { f32::MAX } else { quotient.max(f32::MIN_POSITIVE) }
    }
}

/// `2^exponent`; beyond FP32's exponents, 0 or infinity.
fn power_of_two(exponent: i32) -> f32 {
    2f64.powi(exponent) as f32
}

/// MXFP8: the exponent of a block of 32 elements, or of 32×32. `max` is the largest value of the
/// elements' format; amax is multiplied by its rounded reciprocal and rounded up to a power of two.
///
/// ```
/// use grouped_linear::numerics::{E4m3, E8m0};
/// use grouped_linear::numerics::scale::mxfp8_exponent;
/// assert_eq!(mxfp8_exponent(448.0, E4m3::MAX), E8m0(127));
/// assert_eq!(mxfp8_exponent(449.0, E4m3::MAX), E8m0(128));
/// ```
pub fn mxfp8_exponent(amax: f32, max: f32) -> E8m0 {
    E8m0::from_f32(amax * (1.0 / max))
}

/// The largest block scale that NVFP4 reaches: where the block with the tensor's amax stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScaleBound {
    /// 448, all of E4M3.
    Full,
    /// 256, so that a block whose amax is mapped to 4 can have a scale larger by one half.
    Reduced,
}

impl ScaleBound {
    /// The bound as a number.
    pub const fn value(self) -> f32 {
        match self {
            Self::Full => E4m3::MAX,
            Self::Reduced => 256.0,
        }
    }

    /// What a tensor's amax is mapped to: the bound times the largest value of FP4.
    const fn product(self) -> f32 {
        self.value() * E2m1::MAX
    }
}

/// NVFP4: the scale of a tensor, or of a row. Blocks of 16 elements, or of 16×16, have an E4M3
/// scale of their own below it.
///
/// ```
/// use grouped_linear::numerics::E4m3;
/// use grouped_linear::numerics::scale::{ScaleBound, TensorScale};
/// let scale = TensorScale::new(6.0, ScaleBound::Full);
/// let block = scale.block_scale(3.0);
/// assert_eq!(block.to_f32(), 224.0);
/// assert_eq!(scale.element_factor(block), 2.0); // 3 is mapped to 6
/// assert_eq!(scale.restoring_factor(block), 0.5);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TensorScale {
    amax: f32,
    bound: ScaleBound,
    encode: f32,
}

impl TensorScale {
    /// The scale for an amax. 1 where amax is 0 or infinite; the largest FP32 where it is NaN or
    /// too small.
    pub fn new(amax: f32, bound: ScaleBound) -> Self {
        let quotient = (bound.product() / amax).min(f32::MAX);
        let encode = if amax == 0.0 || quotient == 0.0 { 1.0 } else { quotient };
        Self { amax, bound, encode }
    }

    /// The factor that maps the tensor's values to `bound · 6`.
    pub fn encode(&self) -> f32 {
        self.encode
    }

    /// The stored scale of a block, which maps the block's amax to 6.
    pub fn block_scale(&self, block_amax: f32) -> E4m3 {
        E4m3::from_f32((block_amax * (self.encode * (1.0 / E2m1::MAX))).min(f32::MAX))
    }

    /// The stored scales of a block for the choice of four over six: one that maps the block's amax
    /// to 6, and one that maps it to 4. The order of operations is not that of
    /// [`block_scale`](Self::block_scale).
    pub fn block_scales_six_four(&self, block_amax: f32) -> [E4m3; 2] {
        let six = block_amax / E2m1::MAX * self.encode;
        [six, six * 1.5].map(|scale| E4m3::from_f32(scale.min(E4m3::MAX)))
    }

    /// By what the elements of a block are multiplied before they are rounded.
    pub fn element_factor(&self, block_scale: E4m3) -> f32 {
        (1.0 / (block_scale.to_f32() * (1.0 / self.encode))).min(f32::MAX)
    }

    /// By what the codes of a block are multiplied to restore its values. The block's scale comes
    /// last: times amax it would be beyond FP32 from 7.6 · 10³⁵ on.
    pub fn restoring_factor(&self, block_scale: E4m3) -> f32 {
        block_scale.to_f32() * (self.amax * (1.0 / self.bound.product()))
    }

    /// The restored value as the choice of four over six sees it, which divides where
    /// [`restoring_factor`](Self::restoring_factor) multiplies.
    pub fn candidate(&self, code: E2m1, block_scale: E4m3) -> f32 {
        code.to_f32() * block_scale.to_f32() * self.amax / self.bound.product()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::E5m2;

    fn e4m3(kind: ScaleKind) -> Fp8ScaleRule {
        Fp8ScaleRule::new(E4m3::MAX, kind)
    }

    #[test]
    fn scales_of_known_amaxes() {
        // amax, scale, scale rounded to a power of two
        let cases = [
            (0.0, 1.0, 1.0),
            (1.0, 448.0, 256.0),
            (2.0, 224.0, 128.0),
            (3.0, 149.333_33, 128.0),
            (447.0, 1.002_237_1, 1.0),
            (448.0, 1.0, 1.0),
            (449.0, 0.997_772_8, 0.5),
            (1e-40, 3.402_823_5e38, 1.701_411_8e38),
            (f32::INFINITY, 1.0, 1.0),
            (f32::NAN, 1.0, 1.0),
        ];
        for (amax, scale, power_of_two) in cases {
            assert_eq!(e4m3(ScaleKind::Fp32).scale(amax), scale, "{amax}");
            assert_eq!(e4m3(ScaleKind::PowerOfTwo).scale(amax), power_of_two, "{amax}");
        }
        assert_eq!(Fp8ScaleRule::new(E5m2::MAX, ScaleKind::Fp32).scale(1.0), 57344.0);
    }

    #[test]
    fn a_small_amax_counts_as_epsilon_and_a_large_scale_as_the_ceiling() {
        let rule = Fp8ScaleRule { epsilon: 2.0, ..e4m3(ScaleKind::Fp32) };
        assert_eq!([0.0, 1.0, 2.0, 4.0].map(|amax| rule.scale(amax)), [224.0, 224.0, 224.0, 112.0]);
        assert_eq!(rule.scale(f32::NAN), 1.0);
        let largest_bf16 = half::bf16::MAX.to_f32();
        let rule = Fp8ScaleRule { ceiling: largest_bf16, ..e4m3(ScaleKind::Fp32) };
        assert_eq!(rule.scale(1e-40), largest_bf16);
        // The number that an H200 stores there for BF16 sources.
        assert!((scale_inverse(rule.scale(1e-40)) / 2.950e-39 - 1.0).abs() < 1e-3);
        let rule = Fp8ScaleRule { kind: ScaleKind::PowerOfTwo, ..rule };
        assert_eq!(rule.scale(1e-40), 2f32.powi(127));
        assert_eq!(scale_inverse(rule.scale(1e-40)), 2f32.powi(-127));
    }

    #[test]
    fn delayed_scales_follow_the_history() {
        let rule = |choice| DelayedScaleRule { max: 448.0, margin: 0, choice };
        let (largest, recent) = (rule(AmaxChoice::Max), rule(AmaxChoice::MostRecent));
        let mut history = [3.0, 7.0, 5.0, 1.0];
        assert_eq!(recent.update(1.0, &mut history), 448.0 / 3.0);
        assert_eq!(history, [0.0, 5.0, 1.0, 3.0]);
        history[0] = 4.0;
        assert_eq!(largest.update(1.0, &mut history), 448.0 / 5.0);
        assert_eq!(history, [0.0, 1.0, 3.0, 4.0]);
        // Three steps without values, and the history is empty.
        for want in [112.0, 112.0, 112.0, 9.0] {
            assert_eq!(largest.update(9.0, &mut history), want);
        }
        assert_eq!(history, [0.0; 4]);
    }

    #[test]
    fn delayed_scales_stay_where_the_amax_says_nothing() {
        let rule = DelayedScaleRule { max: 448.0, margin: 3, choice: AmaxChoice::MostRecent };
        for amax in [0.0, f32::INFINITY, f32::NAN] {
            assert_eq!(rule.update(5.0, &mut [amax, 1.0]), 5.0);
        }
        assert_eq!(rule.update(5.0, &mut [1.0]), 56.0);
        assert_eq!(rule.update(5.0, &mut [1e-40]), f32::MAX);
        assert_eq!(rule.update(5.0, &mut []), 5.0);
        let mut history = [2.0];
        let lowest = DelayedScaleRule { margin: i32::MIN, ..rule };
        assert_eq!(lowest.update(1.0, &mut [1.0]), f32::MAX);
        let large = DelayedScaleRule { margin: 126, ..rule };
        assert_eq!(large.update(5.0, &mut [1e12]), f32::MIN_POSITIVE);
        assert_eq!(DelayedScaleRule { margin: 0, ..rule }.update(5.0, &mut history), 224.0);
        assert_eq!(history, [0.0]);
    }

    #[test]
    fn exponents_of_known_amaxes() {
        let cases = [
            (0.0, 0),
            (1.0, 119),
            (1.75, 119),
            (3.5, 120),
            (448.0, 127),
            (448.000_03, 128),
            (449.0, 128),
            (896.0, 128),
            (1e30, 218),
            (f32::MAX, 247),
            (f32::INFINITY, 254),
            (f32::NAN, 255),
        ];
        for (amax, exponent) in cases {
            assert_eq!(mxfp8_exponent(amax, E4m3::MAX).0, exponent, "{amax:e}");
        }
        for (amax, exponent) in [(1.0, 112), (57344.0, 127), (57345.0, 128)] {
            assert_eq!(mxfp8_exponent(amax, E5m2::MAX).0, exponent, "{amax:e}");
        }
    }

    #[test]
    fn an_exponent_never_lets_an_element_saturate() {
        // Every BF16 amax but infinities and NaNs: scaled, it stays in the format, and uses more
        // than a quarter of it. The rounded reciprocal is less than one part in 2^24 off.
        for bits in 1..0x7f80u32 {
            let amax = f32::from_bits(bits << 16);
            for max in [E4m3::MAX, E5m2::MAX] {
                let scaled = amax * mxfp8_exponent(amax, max).reciprocal();
                assert!(scaled <= max, "{amax:e}");
                assert!(scaled > max / 2.0 || amax < max * 2f32.powi(-126), "{amax:e}");
            }
        }
    }

    #[test]
    fn two_level_scales_of_known_amaxes() {
        // amax of the tensor and of the block; encode, block scale, factor of the elements
        let cases = [
            (6.0, 6.0, 448.0, 448.0, 1.0),
            (6.0, 3.0, 448.0, 224.0, 2.0),
            (6.0, 0.01, 448.0, 0.75, 597.333_3),
            (100.0, 1.0, 26.88, 4.5, 5.973_333_4),
            (0.0, 0.0, 1.0, 0.0, f32::MAX),
        ];
        for (tensor, block, encode, stored, factor) in cases {
            let scale = TensorScale::new(tensor, ScaleBound::Full);
            let block_scale = scale.block_scale(block);
            assert_eq!(scale.encode(), encode, "{tensor} {block}");
            assert_eq!(block_scale.to_f32(), stored, "{tensor} {block}");
            assert_eq!(scale.element_factor(block_scale), factor, "{tensor} {block}");
        }
        assert_eq!(TensorScale::new(f32::INFINITY, ScaleBound::Full).encode(), 1.0);
        assert_eq!(TensorScale::new(1e-38, ScaleBound::Full).encode(), f32::MAX);
        assert_eq!(TensorScale::new(6.0, ScaleBound::Reduced).encode(), 256.0);
    }

    #[test]
    fn two_level_scales_restore_what_they_scale() {
        for tensor in [1e-20f32, 0.3, 6.0, 1e20] {
            for part in [1.0, 0.4, 0.01] {
                let scale = TensorScale::new(tensor, ScaleBound::Full);
                let block = scale.block_scale(tensor * part);
                let product = scale.element_factor(block) * scale.restoring_factor(block);
                assert!((product - 1.0).abs() < 1e-6, "{tensor} {part}: {product}");
                let candidate = scale.candidate(E2m1(2), block);
                assert!((candidate / scale.restoring_factor(block) - 1.0).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn two_level_scales_restore_the_largest_numbers() {
        for tensor in [1e36f32, 3e38, f32::MAX] {
            let scale = TensorScale::new(tensor, ScaleBound::Full);
            let block = scale.block_scale(tensor);
            let restored = E2m1::from_f32(6.0).to_f32() * scale.restoring_factor(block);
            assert!((restored / tensor - 1.0).abs() < 1e-6, "{tensor:e}: {restored:e}");
        }
    }

    #[test]
    fn scales_for_four_are_half_larger() {
        let scale = TensorScale::new(6.0, ScaleBound::Reduced);
        assert_eq!(scale.block_scales_six_four(6.0).map(E4m3::to_f32), [256.0, 384.0]);
        assert_eq!(scale.block_scales_six_four(3.0).map(E4m3::to_f32), [128.0, 192.0]);
        let full = TensorScale::new(6.0, ScaleBound::Full);
        assert_eq!(full.block_scales_six_four(6.0).map(E4m3::to_f32), [448.0, 448.0]);
    }
}
