//! The numbers of low precision, bit for bit: small floats, scales, the Hadamard transform and the
//! random numbers of stochastic rounding.
//!
//! | format | layout | largest | infinities | NaN |
//! |---|---|---|---|---|
//! | [`E4m3`] | sign, 4 exponent bits (bias 7), 3 mantissa bits | 448 | none | `0x7f`, `0xff` |
//! | [`E5m2`] | sign, 5 exponent bits (bias 15), 2 mantissa bits | 57344 | yes | yes |
//! | [`E2m1`] | sign, 2 exponent bits (bias 1), 1 mantissa bit | 6 | none | none |
//! | [`E8m0`] | 8 exponent bits (bias 127): a power of two | 2¹²⁷ | none | `0xff` |
//!
//! Values are rounded once, from FP32 to the nearest code, ties to the even code, and saturate:
//! what lies beyond the largest finite value, infinities included, becomes that value. A block
//! exponent ([`E8m0`]) is rounded up, so that no element of its block lies beyond the largest code.
//!
//! A tensor is stored as codes and scales. [`scale`] has the rules by which a scale comes from the
//! largest magnitude (*amax*) of what it covers:
//!
//! ```
//! use grouped_linear::numerics::E4m3;
//! use grouped_linear::numerics::scale::{ScaleKind, Fp8ScaleRule};
//!
//! let values = [0.1_f32, -3.0, 1.5];
//! let amax = values.iter().fold(0.0, |amax: f32, value| amax.max(value.abs()));
//! let scale = Fp8ScaleRule::new(E4m3::MAX, ScaleKind::PowerOfTwo).scale(amax);
//! assert_eq!(scale, 128.0); // 448 / 3, rounded down to a power of two
//!
//! let codes = values.map(|value| E4m3::from_f32(value * scale));
//! let restored = codes.map(|code| code.to_f32() / scale);
//! assert_eq!(restored, [0.1015625, -3.0, 1.5]);
//! ```

mod e2m1;
mod e4m3;
mod e5m2;
mod e8m0;
pub mod hadamard;
mod minifloat;
#[cfg(test)]
mod oracle;
pub mod philox;
pub mod scale;

pub use self::e2m1::E2m1;
pub use self::e4m3::E4m3;
pub use self::e5m2::E5m2;
pub use self::e8m0::E8m0;

/// Along what the elements of a block lie, which share a scale. Every format makes the two copies
/// of a tensor independently from the same source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Along a row: the products that sum over the columns read this copy.
    Rowwise = 0,
    /// Along a column: the products that sum over the rows read this copy.
    Columnwise = 1,
}

/// Which FP8 format, where it is chosen when the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Float8Format {
    /// [`E4m3`]: finer.
    E4m3,
    /// [`E5m2`]: wider.
    E5m2,
}

impl Float8Format {
    /// The largest finite value.
    pub const fn max(self) -> f32 {
        match self {
            Self::E4m3 => E4m3::MAX,
            Self::E5m2 => E5m2::MAX,
        }
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::E4m3 {}
    impl Sealed for super::E5m2 {}
}

/// One of the two FP8 formats, for code that is the same for both.
pub trait Float8: Copy + Send + Sync + sealed::Sealed + 'static {
    /// The largest finite value.
    const MAX: f32;

    /// Rounds to nearest, ties to even, and saturates; see the format.
    fn from_f32(value: f32) -> Self;

    /// The value, exactly.
    fn to_f32(self) -> f32;

    /// The value that a byte stands for.
    fn from_bits(bits: u8) -> Self;

    /// The byte that stands for the value.
    fn to_bits(self) -> u8;
}

macro_rules! float8 {
    ($format:ty) => {
        impl Float8 for $format {
            const MAX: f32 = <$format>::MAX;

            fn from_f32(value: f32) -> Self {
                <$format>::from_f32(value)
            }

            fn to_f32(self) -> f32 {
                <$format>::to_f32(self)
            }

            fn from_bits(bits: u8) -> Self {
                Self(bits)
            }

            fn to_bits(self) -> u8 {
                self.0
            }
        }
    };
}

float8!(E4m3);
float8!(E5m2);
