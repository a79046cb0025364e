//! What operands are made of, and how they lie in shared memory.

use core::marker::PhantomData;

use super::sealed::Sealed;
use super::{F8f6f4, F16, KMajor, Kind, Layout, MnMajor, Mxf8f6f4, Mxfp4, Nvfp4};

/// The type of an operand's elements; implemented by marker types.
pub trait Element: Copy + Sealed {}

/// An element whose kinds read one number per container of whole bytes: operands of it may lie
/// MN-major. Those of 4 and 6 bits may not.
pub trait Whole: Element {
    /// Bytes of an element in shared memory.
    const BYTES: u32;
}

/// That products of kind `K` multiply this element.
pub trait ElementOf<K: Kind>: Element {
    /// The element's number in the instruction descriptor of that kind (PTX manual, "TensorCore 5th
    /// Generation Instructions: Instruction descriptor").
    const CODE: u32;
}

macro_rules! elements {
    ($($(#[$document:meta])* $name:ident: $($kind:ty = $code:literal),+;)+) => {$(
        $(#[$document])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name;
        impl Sealed for $name {}
        impl Element for $name {}
        $(impl ElementOf<$kind> for $name {
            const CODE: u32 = $code;
        })+
    )+};
}

elements!(
    /// binary16.
    Half: F16 = 0;
    /// bfloat16.
    Brain: F16 = 1;
    /// FP8 with 4 bits of exponent and 3 of mantissa.
    E4m3: F8f6f4 = 0, Mxf8f6f4 = 0;
    /// FP8 with 5 bits of exponent and 2 of mantissa.
    E5m2: F8f6f4 = 1, Mxf8f6f4 = 1;
    /// FP6 with 2 bits of exponent and 3 of mantissa, padded in shared memory: 16 numbers of 6
    /// bits, one after another, begin every 16 bytes.
    E2m3: F8f6f4 = 3, Mxf8f6f4 = 3;
    /// FP6 with 3 bits of exponent and 2 of mantissa, padded in shared memory: 16 numbers of 6
    /// bits, one after another, begin every 16 bytes.
    E3m2: F8f6f4 = 4, Mxf8f6f4 = 4;
    /// FP4 with 2 bits of exponent and 1 of mantissa. [`Mxfp4`] and [`Nvfp4`] read two numbers per
    /// byte, the lower k in the low half; the other kinds read them padded: 16 numbers of 4 bits,
    /// one after another, begin every 16 bytes.
    E2m1: F8f6f4 = 5, Mxf8f6f4 = 5, Mxfp4 = 1, Nvfp4 = 1;
);

macro_rules! whole {
    ($($name:ident $bytes:literal),+) => {$(
        impl Whole for $name {
            const BYTES: u32 = $bytes;
        }
    )+};
}

whole!(Half 2, Brain 2, E4m3 1, E5m2 1);

/// An operand in shared memory: elements and layout; implemented by [`Matrix`].
pub trait Operand: Copy + Sealed {
    /// What it is made of.
    type Element: Element;
    /// Along which dimension its rows of 128 bytes run.
    type Layout: Layout;
    /// Bytes from what one instruction reads to what the next along K reads.
    const STEP_BYTES: u32;
    /// Whether its elements take one byte and it is MN-major.
    const MN_MAJOR_BYTES: bool;
}

/// Elements `E` in layout `L`, [`KMajor`] or [`MnMajor`], in rows of 128 bytes with 128-byte
/// swizzle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix<E, L>(PhantomData<(E, L)>);

impl<E, L> Sealed for Matrix<E, L> {}

impl<E: Element> Operand for Matrix<E, KMajor> {
    type Element = E;
    type Layout = KMajor;
    // Every kind reads 32 bytes of a row at once.
    const STEP_BYTES: u32 = 32;
    const MN_MAJOR_BYTES: bool = false;
}

impl<E: Whole> Operand for Matrix<E, MnMajor> {
    type Element = E;
    type Layout = MnMajor;
    // As many rows of 128 bytes as elements make 32 bytes.
    const STEP_BYTES: u32 = 32 / E::BYTES * 128;
    const MN_MAJOR_BYTES: bool = E::BYTES == 1;
}
