//! Element types of operands, at compile time ([`Element`]) and at run time (`load`, `store`).

use ptx_std::convert::{
    bf16_to_f32, bf16x2_to_f32, f16_to_f32, f16x2_to_f32, f32_to_bf16, f32_to_bf16x2, f32_to_f16,
    f32_to_f16x2,
};
use ptx_std::memory::{
    load_constant_f32, load_constant_u16, load_f32, load_u16, store_f32, store_u16,
};
use ptx_std::wgmma::{
    Descriptor, KMajor, Layout, finish_n240, finish_n256, m64n128k128_e4m3, m64n128k128_e5m2_e4m3,
    m64n240k64_bf16, m64n240k64_f16, m64n256k64_bf16, m64n256k64_f16, m64n256k128_e4m3,
    m64n256k128_e5m2_e4m3, start_m64n128k128_e4m3, start_m64n128k128_e5m2_e4m3,
};

use crate::abi::ElementType;

/// An operand's element type.
pub trait Element {
    /// Its size.
    const BYTES: u64;

    /// Loads one as binary32.
    ///
    /// # Safety
    ///
    /// `address` is that of an element which nobody writes while the kernel runs.
    unsafe fn load(address: u64) -> f32;
}

/// A 16-bit element type, which outputs have as well.
pub trait TensorElement: Element {
    /// It as a [`Kind`].
    const KIND: u32;
}

/// An element type of operands that the tensor cores take.
pub trait MatrixElement {
    /// Elements in 128 bytes, the swizzled rows of boxes.
    const DEPTH: u32;

    /// Whether plain outputs of this kind have the short road through shared memory.
    fn is_plain_kind(kind: Kind) -> bool;

    /// The kind of such an output: known at compile time where it can be.
    fn plain_kind(kind: Kind) -> Kind;
}

/// Products of operands in these layouts, of which the left has elements of this type: 64 rows, and
/// twice as many columns as a thread has sums, 256 or 240.
pub trait Multiply<A: Layout, B: Layout, const SUMS: usize>: MatrixElement {
    /// `d (+)= a · b`, [`MatrixElement::DEPTH`] deep, asynchronously.
    ///
    /// # Safety
    ///
    /// As [`m64n256k64_bf16`].
    unsafe fn multiply(d: &mut [f32; SUMS], a: Descriptor<A>, b: Descriptor<B>, accumulate: bool);

    /// Waits for all products and hands D back.
    ///
    /// # Safety
    ///
    /// As [`finish_n256`].
    unsafe fn finish(d: &mut [f32; SUMS]);
}

/// FP8 products whose sums leave the tensor core after every stage. The left operand has elements
/// of this type, the right one of E4M3.
pub trait MultiplyStage: MatrixElement {
    /// `d (+)= a · b`, 64 × 128 × 128, finished.
    ///
    /// # Safety
    ///
    /// As [`m64n128k128_e4m3`].
    unsafe fn multiply_stage(
        d: &mut [f32; 64],
        a: Descriptor<KMajor>,
        b: Descriptor<KMajor>,
        accumulate: bool,
    );

    /// The same, under way until [`finish_n128`](ptx_std::wgmma::finish_n128).
    ///
    /// # Safety
    ///
    /// As [`start_m64n128k128_e4m3`].
    unsafe fn start_stage(
        d: &mut [f32; 64],
        a: Descriptor<KMajor>,
        b: Descriptor<KMajor>,
        accumulate: bool,
    );
}

/// bfloat16.
pub struct Bf16;
/// IEEE binary16.
pub struct F16;
/// IEEE binary32.
pub struct F32;
/// FP8 with four exponent bits.
pub struct E4m3;
/// FP8 with five exponent bits, multiplied by E4M3.
pub struct E5m2;

impl Element for Bf16 {
    const BYTES: u64 = 2;

    #[inline(always)]
    unsafe fn load(address: u64) -> f32 {
        // SAFETY: handed to the caller.
        bf16_to_f32(unsafe { load_constant_u16(address) })
    }
}

impl Element for F16 {
    const BYTES: u64 = 2;

    #[inline(always)]
    unsafe fn load(address: u64) -> f32 {
        // SAFETY: handed to the caller.
        f16_to_f32(unsafe { load_constant_u16(address) })
    }
}

impl Element for F32 {
    const BYTES: u64 = 4;

    #[inline(always)]
    unsafe fn load(address: u64) -> f32 {
        // SAFETY: handed to the caller.
        unsafe { load_constant_f32(address) }
    }
}

impl TensorElement for Bf16 {
    const KIND: u32 = Kind::BF16;
}

impl TensorElement for F16 {
    const KIND: u32 = Kind::F16;
}

impl<E: TensorElement> MatrixElement for E {
    const DEPTH: u32 = 64;

    #[inline(always)]
    fn is_plain_kind(kind: Kind) -> bool {
        kind.0 == E::KIND
    }

    #[inline(always)]
    fn plain_kind(_: Kind) -> Kind {
        Kind(E::KIND)
    }
}

/// [`Multiply`] by these functions.
macro_rules! multiply {
    ([$($generics:tt)*] $element:ty, $a:ty, $b:ty, $sums:literal, $multiply:ident, $finish:ident) => {
        impl<$($generics)*> Multiply<$a, $b, $sums> for $element {
            #[inline(always)]
            unsafe fn multiply(
                d: &mut [f32; $sums],
                a: Descriptor<$a>,
                b: Descriptor<$b>,
                accumulate: bool,
            ) {
                // SAFETY: handed to the caller.
                unsafe { $multiply(d, a, b, accumulate) }
            }

            #[inline(always)]
            unsafe fn finish(d: &mut [f32; $sums]) {
                // SAFETY: handed to the caller.
                unsafe { $finish(d) }
            }
        }
    };
}

multiply!([A: Layout, B: Layout] Bf16, A, B, 128, m64n256k64_bf16, finish_n256);
multiply!([A: Layout, B: Layout] Bf16, A, B, 120, m64n240k64_bf16, finish_n240);
multiply!([A: Layout, B: Layout] F16, A, B, 128, m64n256k64_f16, finish_n256);
multiply!([A: Layout, B: Layout] F16, A, B, 120, m64n240k64_f16, finish_n240);
multiply!([] E4m3, KMajor, KMajor, 128, m64n256k128_e4m3, finish_n256);
multiply!([] E5m2, KMajor, KMajor, 128, m64n256k128_e5m2_e4m3, finish_n256);

/// An FP8 type of left operands, multiplied by these functions, stage by stage.
macro_rules! fp8_element {
    ($element:ty, $multiply:ident, $start:ident) => {
        impl MatrixElement for $element {
            const DEPTH: u32 = 128;

            #[inline(always)]
            fn is_plain_kind(kind: Kind) -> bool {
                !kind.is_f32()
            }

            #[inline(always)]
            fn plain_kind(kind: Kind) -> Kind {
                kind
            }
        }

        impl MultiplyStage for $element {
            #[inline(always)]
            unsafe fn multiply_stage(
                d: &mut [f32; 64],
                a: Descriptor<KMajor>,
                b: Descriptor<KMajor>,
                accumulate: bool,
            ) {
                // SAFETY: handed to the caller.
                unsafe { $multiply(d, a, b, accumulate) }
            }

            #[inline(always)]
            unsafe fn start_stage(
                d: &mut [f32; 64],
                a: Descriptor<KMajor>,
                b: Descriptor<KMajor>,
                accumulate: bool,
            ) {
                // SAFETY: handed to the caller.
                unsafe { $start(d, a, b, accumulate) }
            }
        }
    };
}

fp8_element!(E4m3, m64n128k128_e4m3, start_m64n128k128_e4m3);
fp8_element!(E5m2, m64n128k128_e5m2_e4m3, start_m64n128k128_e5m2_e4m3);

/// A run-time element type, an [`ElementType`] as an integer. All threads of a warp have the same,
/// so its branches do not diverge.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Kind(pub u32);

impl Kind {
    /// bfloat16.
    pub const BF16: u32 = ElementType::Bf16 as u32;
    /// binary16.
    pub const F16: u32 = ElementType::F16 as u32;
    /// binary32.
    pub const F32: u32 = ElementType::F32 as u32;

    /// Whether it is binary32.
    #[inline(always)]
    pub fn is_f32(self) -> bool {
        self.0 == Self::F32
    }

    /// Whether it is bfloat16.
    #[inline(always)]
    pub fn is_bf16(self) -> bool {
        self.0 == Self::BF16
    }

    /// Its size.
    #[inline(always)]
    pub fn bytes(self) -> u64 {
        if self.is_f32() { 4 } else { 2 }
    }

    /// Loads an element that nobody writes while the kernel runs.
    ///
    /// # Safety
    ///
    /// `address` is that of such an element.
    #[inline(always)]
    pub unsafe fn load_constant(self, address: u64) -> f32 {
        // SAFETY: handed to the caller.
        unsafe {
            match self.0 {
                Self::BF16 => bf16_to_f32(load_constant_u16(address)),
                Self::F16 => f16_to_f32(load_constant_u16(address)),
                _ => load_constant_f32(address),
            }
        }
    }

    /// Loads an element.
    ///
    /// # Safety
    ///
    /// `address` is that of an element which no other thread writes meanwhile.
    #[inline(always)]
    pub unsafe fn load(self, address: u64) -> f32 {
        // SAFETY: handed to the caller.
        unsafe {
            match self.0 {
                Self::BF16 => bf16_to_f32(load_u16(address)),
                Self::F16 => f16_to_f32(load_u16(address)),
                _ => load_f32(address),
            }
        }
    }

    /// Rounds and stores an element.
    ///
    /// # Safety
    ///
    /// `address` is that of an element which belongs to this thread.
    #[inline(always)]
    pub unsafe fn store(self, address: u64, value: f32) {
        // SAFETY: handed to the caller.
        unsafe {
            match self.0 {
                Self::BF16 => store_u16(address, f32_to_bf16(value)),
                Self::F16 => store_u16(address, f32_to_f16(value)),
                _ => store_f32(address, value),
            }
        }
    }

    /// Rounds two values to a packed pair of a 16-bit type, the first in the low half.
    #[inline(always)]
    pub fn pack(self, [low, high]: [f32; 2]) -> u32 {
        if self.0 == Self::BF16 { f32_to_bf16x2(low, high) } else { f32_to_f16x2(low, high) }
    }

    /// Two packed values of a 16-bit type, that in the low half first.
    #[inline(always)]
    pub fn unpack(self, bits: u32) -> [f32; 2] {
        if self.0 == Self::BF16 { bf16x2_to_f32(bits) } else { f16x2_to_f32(bits) }
    }
}
