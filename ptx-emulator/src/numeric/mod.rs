//! The arithmetic of PTX as pure functions, one lane at a time.
//!
//! Everything works on plain numbers or bit patterns and knows nothing of registers, warps or
//! memory. [`format`] describes a binary floating-point format and rounds to it; [`exact`] has the
//! operations on unpacked numbers, each followed by one rounding. The other modules put PTX's
//! rules (canonical NaNs, flushing, saturation) around them and have quick paths for what kernels
//! run most.
//!
//! Results that are NaN are the canonical NaN of their format: 0x7FFFFFFF for f32, 0x7FFF for f16
//! and bf16. PTX leaves the payloads of f64 open; [`double`] says what is done there.

pub(crate) mod approx;
pub(crate) mod compare;
pub(crate) mod convert;
pub(crate) mod double;
pub(crate) mod exact;
pub(crate) mod format;
pub(crate) mod half;
pub(crate) mod integer;
pub(crate) mod minmax;
pub(crate) mod product;
pub(crate) mod single;
pub(crate) mod small;

#[cfg(test)]
mod tests;

/// How a result that a format cannot hold becomes one that it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rounding {
    /// `.rn`: to the nearest, halfway cases to the even significand.
    NearestEven,
    /// `.rz`: towards zero.
    Zero,
    /// `.rm`: towards minus infinity.
    Down,
    /// `.rp`: towards plus infinity.
    Up,
    /// `.rna`: to the nearest, halfway cases away from zero.
    NearestAway,
    /// `.rs`: away from zero if the bits that are cut off and random ones carry when they are
    /// added.
    Stochastic(RandomBits),
}

/// The random bits of `.rs`. The highest of them meets the highest bit that is cut off; further
/// bits that are cut off do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RandomBits {
    /// A number below two to the `width`.
    pub(crate) bits: u32,
    /// How many there are, 32 at most.
    pub(crate) width: u32,
}

impl RandomBits {
    /// Whether they carry out of the `cut` lowest bits of a number, which is cut off there.
    fn carry(self, number: u64, cut: u32) -> bool {
        let width = self.width.min(32);
        let highest = if cut < width {
            number << (width - cut)
        } else {
            number.checked_shr(cut - width).unwrap_or(0)
        };
        let limit = 1u64 << width;
        (highest & (limit - 1)) + u64::from(self.bits) >= limit
    }
}

/// The modifiers of a floating-point instruction that change its operands or its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Modifiers {
    /// `.ftz`: subnormal operands and results become zeros of the same sign.
    pub(crate) flush: bool,
    /// `.sat`: the result is clamped to [0, 1], and NaN becomes +0.
    pub(crate) saturate: bool,
    /// `.relu`: a negative result becomes +0; NaN stays the canonical NaN.
    pub(crate) relu: bool,
}
