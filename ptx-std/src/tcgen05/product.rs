//! Products as types: group, kind, operands and size.

use super::sealed::Sealed;
use super::{ElementOf, Operand};

/// How many blocks multiply together; implemented by [`One`] and [`Two`].
pub trait Group: Copy + Sealed {
    /// The number of blocks, which the instructions name as `.cta_group`.
    const BLOCKS: u32;
}

/// A block alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct One;

/// Two neighbours of a cluster, of which the first has an even rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Two;

impl Sealed for One {}
impl Sealed for Two {}

impl Group for One {
    const BLOCKS: u32 = 1;
}

impl Group for Two {
    const BLOCKS: u32 = 2;
}

/// What kind of product an instruction makes; implemented by marker types.
pub trait Kind: Copy + Sealed {
    /// Elements along K that one instruction multiplies.
    const DEPTH: u32;
    /// Whether each block of elements along K has a scale.
    const SCALED: bool;
    /// The scales' type in the instruction descriptor: 0 UE4M3 or none, 1 UE8M0.
    const SCALE_TYPE: u32;
    /// Whether elements of A and B may be of different types.
    const MIXED: bool;
}

/// A kind without scales.
pub trait Unscaled: Kind {
    /// Issues a product with A in shared memory.
    ///
    /// # Safety
    ///
    /// That of [`multiply`](super::multiply).
    #[doc(hidden)]
    unsafe fn issue<G: Group>(d: u32, a: u64, b: u64, instruction: u32, accumulate: u32);
}

/// A kind with a scale for each block of elements along K.
pub trait BlockScaled: Kind {
    /// Elements along K that share a scale.
    const VECTOR: u32;
    /// Scales that an instruction reads of each row; a column of tensor memory holds four of a row.
    const SCALES: u32 = Self::DEPTH / Self::VECTOR;

    /// Issues a product with A in shared memory.
    ///
    /// # Safety
    ///
    /// That of [`multiply_scaled`](super::multiply_scaled).
    #[doc(hidden)]
    unsafe fn issue<G: Group>(
        d: u32,
        operands: [u64; 2],
        instruction: u32,
        scales: [u32; 2],
        accumulate: u32,
    );
}

macro_rules! kinds {
    ($($(#[$document:meta])* $name:ident {
        depth: $depth:literal, scaled: $scaled:literal, scales: $scales:literal, mixed: $mixed:literal
    })+) => {$(
        $(#[$document])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name;
        impl Sealed for $name {}
        impl Kind for $name {
            const DEPTH: u32 = $depth;
            const SCALED: bool = $scaled;
            const SCALE_TYPE: u32 = $scales;
            const MIXED: bool = $mixed;
        }
    )+};
}

kinds!(
    /// Elements of 16 bits, both operands of one type: `.kind::f16`.
    F16 { depth: 16, scaled: false, scales: 0, mixed: false }
    /// Elements of 8, 6 or 4 bits: `.kind::f8f6f4`.
    F8f6f4 { depth: 32, scaled: false, scales: 0, mixed: true }
    /// Elements of 8, 6 or 4 bits with a UE8M0 scale for each 32: `.kind::mxf8f6f4.block_scale`.
    Mxf8f6f4 { depth: 32, scaled: true, scales: 1, mixed: true }
    /// E2M1 with a UE8M0 scale for each 32: `.kind::mxf4nvf4.block_scale.scale_vec::2X`.
    Mxfp4 { depth: 64, scaled: true, scales: 1, mixed: false }
    /// E2M1 with a UE4M3 scale for each 16: `.kind::mxf4nvf4.block_scale.scale_vec::4X`.
    Nvfp4 { depth: 64, scaled: true, scales: 0, mixed: false }
);

/// One product, as a kernel states it once.
///
/// Sizes that the hardware does not have are refused when the kernel is compiled:
///
/// - M is 64 or 128 for each block; 128 if scaled.
/// - N is a multiple of 16 from 16 to 256; of 32 for a pair whose B has MN-major elements of a
///   byte.
///
/// The hardware has a few more forms (N in steps of 8, scaled pairs with M = 128); sources differ
/// about which, so they are not offered.
pub trait Product: Copy {
    /// The kind.
    type Kind: Kind;
    /// The blocks that take part.
    type Group: Group;
    /// The left operand, M × K.
    type A: Operand<Element: ElementOf<Self::Kind>>;
    /// The right operand, K × N.
    type B: Operand<Element: ElementOf<Self::Kind>>;
    /// Rows of D, those of both blocks in a pair.
    const M: u32;
    /// Columns of D, those of both blocks in a pair.
    const N: u32;
}

/// Compiles only for products that the hardware has.
pub(super) const fn check<P: Product>() {
    let rows = P::M / P::Group::BLOCKS;
    assert!(P::M.is_multiple_of(P::Group::BLOCKS), "M is the same for each block");
    if P::Kind::SCALED {
        assert!(rows == 128, "M of a scaled product is 128 for each block");
    } else {
        assert!(rows == 64 || rows == 128, "M is 64 or 128 for each block");
    }
    assert!(P::N.is_multiple_of(16), "N is a multiple of 16");
    assert!(P::N >= 16 && P::N <= 256, "N is 16 to 256");
    if P::Group::BLOCKS == 2 && P::B::MN_MAJOR_BYTES {
        assert!(P::N.is_multiple_of(32), "N is a multiple of 32 for MN-major bytes in a pair");
    }
    let one_type = code_a::<P>() == code_b::<P>();
    assert!(P::Kind::MIXED || one_type, "A and B have elements of one type");
}

/// A's elements in the instruction descriptor.
pub(super) const fn code_a<P: Product>() -> u32 {
    <<P::A as Operand>::Element as ElementOf<P::Kind>>::CODE
}

/// B's elements in the instruction descriptor.
pub(super) const fn code_b<P: Product>() -> u32 {
    <<P::B as Operand>::Element as ElementOf<P::Kind>>::CODE
}
