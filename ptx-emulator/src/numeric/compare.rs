//! Comparisons and tests of floating-point numbers (PTX ISA, `setp` and `testp`).

use std::cmp::Ordering;

/// A comparison of two floating-point numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Comparison {
    /// `eq`.
    Equal,
    /// `ne`: false for NaN, unlike Rust's `!=`.
    NotEqual,
    /// `lt`.
    Less,
    /// `le`.
    LessOrEqual,
    /// `gt`.
    Greater,
    /// `ge`.
    GreaterOrEqual,
    /// `equ`: equal or unordered, as the next five are.
    EqualOrUnordered,
    /// `neu`.
    NotEqualOrUnordered,
    /// `ltu`.
    LessOrUnordered,
    /// `leu`.
    LessOrEqualOrUnordered,
    /// `gtu`.
    GreaterOrUnordered,
    /// `geu`.
    GreaterOrEqualOrUnordered,
    /// `num`: neither operand is NaN.
    Number,
    /// `nan`: an operand is NaN.
    NotANumber,
}

impl Comparison {
    /// The comparison that a word without its dot names.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "eq" => Self::Equal,
            "ne" => Self::NotEqual,
            "lt" => Self::Less,
            "le" => Self::LessOrEqual,
            "gt" => Self::Greater,
            "ge" => Self::GreaterOrEqual,
            "equ" => Self::EqualOrUnordered,
            "neu" => Self::NotEqualOrUnordered,
            "ltu" => Self::LessOrUnordered,
            "leu" => Self::LessOrEqualOrUnordered,
            "gtu" => Self::GreaterOrUnordered,
            "geu" => Self::GreaterOrEqualOrUnordered,
            "num" => Self::Number,
            "nan" => Self::NotANumber,
            _ => return None,
        })
    }

    /// Whether two operands in this order satisfy the comparison; no order means a NaN.
    #[inline(always)]
    pub(crate) fn holds(self, order: Option<Ordering>) -> bool {
        let Some(order) = order else {
            return self.holds_unordered();
        };
        match self {
            Self::Equal | Self::EqualOrUnordered => order.is_eq(),
            Self::NotEqual | Self::NotEqualOrUnordered => order.is_ne(),
            Self::Less | Self::LessOrUnordered => order.is_lt(),
            Self::LessOrEqual | Self::LessOrEqualOrUnordered => order.is_le(),
            Self::Greater | Self::GreaterOrUnordered => order.is_gt(),
            Self::GreaterOrEqual | Self::GreaterOrEqualOrUnordered => order.is_ge(),
            Self::Number => true,
            Self::NotANumber => false,
        }
    }

    #[inline(always)]
    fn holds_unordered(self) -> bool {
        matches!(
            self,
            Self::EqualOrUnordered
                | Self::NotEqualOrUnordered
                | Self::LessOrUnordered
                | Self::LessOrEqualOrUnordered
                | Self::GreaterOrUnordered
                | Self::GreaterOrEqualOrUnordered
                | Self::NotANumber
        )
    }

    /// Compares two f32. For `.ftz` flush them first; f16 and bf16 are decoded to f32 first.
    #[inline(always)]
    pub(crate) fn single(self, a: f32, b: f32) -> bool {
        self.holds(a.partial_cmp(&b))
    }

    /// Compares two f64.
    #[inline(always)]
    pub(crate) fn double(self, a: f64, b: f64) -> bool {
        self.holds(a.partial_cmp(&b))
    }

    /// Compares a warp's lanes; bit `n` of the result belongs to lane `n`.
    #[inline]
    pub(crate) fn single_lanes(self, a: &[f32; 32], b: &[f32; 32]) -> u32 {
        match self {
            Self::Equal => lanes(a, b, |a, b| a == b),
            Self::NotEqual => lanes(a, b, |a, b| (a < b) | (a > b)),
            Self::Less => lanes(a, b, |a, b| a < b),
            Self::LessOrEqual => lanes(a, b, |a, b| a <= b),
            Self::Greater => lanes(a, b, |a, b| a > b),
            Self::GreaterOrEqual => lanes(a, b, |a, b| a >= b),
            Self::EqualOrUnordered => !lanes(a, b, |a, b| (a < b) | (a > b)),
            Self::NotEqualOrUnordered => lanes(a, b, |a, b| a != b),
            Self::LessOrUnordered => !lanes(a, b, |a, b| a >= b),
            Self::LessOrEqualOrUnordered => !lanes(a, b, |a, b| a > b),
            Self::GreaterOrUnordered => !lanes(a, b, |a, b| a <= b),
            Self::GreaterOrEqualOrUnordered => !lanes(a, b, |a, b| a < b),
            Self::Number => !lanes(a, b, |a, b| a.is_nan() || b.is_nan()),
            Self::NotANumber => lanes(a, b, |a, b| a.is_nan() || b.is_nan()),
        }
    }
}

#[inline(always)]
fn lanes(a: &[f32; 32], b: &[f32; 32], holds: impl Fn(f32, f32) -> bool) -> u32 {
    let mut mask = 0;
    for lane in 0..32 {
        mask |= u32::from(holds(a[lane], b[lane])) << lane;
    }
    mask
}

/// A property that `testp` looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Property {
    /// `finite`: neither infinite nor NaN.
    Finite,
    /// `infinite`.
    Infinite,
    /// `number`: not NaN.
    Number,
    /// `notanumber`.
    NotANumber,
    /// `normal`: neither infinite, NaN nor subnormal. Zero counts as normal, as the manual says.
    Normal,
    /// `subnormal`.
    Subnormal,
}

impl Property {
    /// Whether an f64, or an f32 of this class, has the property.
    pub(crate) fn of(self, class: std::num::FpCategory) -> bool {
        use std::num::FpCategory::{Infinite, Nan, Normal, Subnormal, Zero};
        match self {
            Self::Finite => matches!(class, Normal | Subnormal | Zero),
            Self::Infinite => class == Infinite,
            Self::Number => class != Nan,
            Self::NotANumber => class == Nan,
            Self::Normal => matches!(class, Normal | Zero),
            Self::Subnormal => class == Subnormal,
        }
    }
}
