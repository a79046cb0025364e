//! Element types.

use std::fmt;

use grouped_linear_kernels::abi::ElementType;
use half::{bf16, f16};

use crate::numerics::{E4m3, E5m2};

/// Element type of a [`Tensor`](crate::Tensor).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DType {
    /// bfloat16.
    Bf16,
    /// IEEE binary16.
    F16,
    /// IEEE binary32.
    F32,
    /// FP8 with 4 exponent and 3 mantissa bits, without infinities; data of quantized tensors.
    E4m3,
    /// FP8 with 5 exponent and 2 mantissa bits; data of quantized tensors.
    E5m2,
    /// 8-bit unsigned integer; packed data and scales of quantized tensors.
    U8,
    /// 32-bit signed integer (splits).
    I32,
    /// 64-bit signed integer (splits).
    I64,
}

impl DType {
    /// Bytes of one element.
    pub const fn bytes(self) -> usize {
        match self {
            Self::E4m3 | Self::E5m2 | Self::U8 => 1,
            Self::Bf16 | Self::F16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::I64 => 8,
        }
    }

    /// Whether the type is a floating-point type that needs no scale.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::Bf16 | Self::F16 | Self::F32)
    }

    /// Whether the type is FP8.
    pub const fn is_fp8(self) -> bool {
        matches!(self, Self::E4m3 | Self::E5m2)
    }

    /// The kernels' name of a floating-point type.
    pub(crate) const fn element_type(self) -> Option<ElementType> {
        match self {
            Self::Bf16 => Some(ElementType::Bf16),
            Self::F16 => Some(ElementType::F16),
            Self::F32 => Some(ElementType::F32),
            Self::E4m3 => Some(ElementType::E4m3),
            Self::E5m2 => Some(ElementType::E5m2),
            Self::U8 | Self::I32 | Self::I64 => None,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
            Self::F32 => "f32",
            Self::E4m3 => "e4m3",
            Self::E5m2 => "e5m2",
            Self::U8 => "u8",
            Self::I32 => "i32",
            Self::I64 => "i64",
        })
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that is the element of some [`DType`].
pub trait Element: bytemuck::Pod + sealed::Sealed {
    /// The corresponding element type.
    const DTYPE: DType;
}

macro_rules! element {
    ($($rust:ty => $dtype:ident),*) => {
        $(
            impl sealed::Sealed for $rust {}
            impl Element for $rust {
                const DTYPE: DType = DType::$dtype;
            }
        )*
    };
}

element!(E4m3 => E4m3, E5m2 => E5m2, bf16 => Bf16, f16 => F16, f32 => F32, u8 => U8, i32 => I32, i64 => I64);
