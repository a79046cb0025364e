//! Comparisons and tests of floating-point numbers (PTX ISA, `setp` and `testp`).

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
