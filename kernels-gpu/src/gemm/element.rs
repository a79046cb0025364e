//! Element types of operands, at compile time ([`Element`]) and at run time (`load`, `store`).

use ptx_std::convert::{
    bf16_to_f32, bf16x2_to_f32, f16_to_f32, f16x2_to_f32, f32_to_bf16, f32_to_bf16x2, f32_to_f16,
    f32_to_f16x2,
};
use ptx_std::memory::{
    load_constant_f32, load_constant_u16, load_f32, load_u16, store_f32, store_u16,
};
use ptx_std::wgmma::{Descriptor, Layout, m64n256k64_bf16, m64n256k64_f16};

use super::epilogue::{Epilogue, Fragments, Row};
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

/// An element type that the tensor cores take.
pub trait TensorElement: Element {
    /// It as a [`Kind`].
    const KIND: u32;

    /// Finishes one row of a plain slab of an output of this type.
    ///
    /// # Safety
    ///
    /// As [`Epilogue::store_plain_slab`].
    unsafe fn store_plain_slab(
        epilogue: &Epilogue,
        lane: u32,
        row: &Row,
        column: u32,
        values: Fragments,
    );

    /// `d (+)= a · b`, 64 × 256 × 64, asynchronously.
    ///
    /// # Safety
    ///
    /// As [`m64n256k64_bf16`].
    unsafe fn multiply<A: Layout, B: Layout>(
        d: &mut [f32; 128],
        a: Descriptor<A>,
        b: Descriptor<B>,
        accumulate: bool,
    );
}

/// bfloat16.
pub struct Bf16;
/// IEEE binary16.
pub struct F16;
/// IEEE binary32.
pub struct F32;

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

    #[inline(always)]
    unsafe fn store_plain_slab(
        epilogue: &Epilogue,
        lane: u32,
        row: &Row,
        column: u32,
        values: Fragments,
    ) {
        // SAFETY: handed to the caller.
        unsafe { epilogue.store_plain_slab::<{ Kind::BF16 }>(lane, row, column, values) }
    }

    #[inline(always)]
    unsafe fn multiply<A: Layout, B: Layout>(
        d: &mut [f32; 128],
        a: Descriptor<A>,
        b: Descriptor<B>,
        accumulate: bool,
    ) {
        // SAFETY: handed to the caller.
        unsafe { m64n256k64_bf16(d, a, b, accumulate) }
    }
}

impl TensorElement for F16 {
    const KIND: u32 = Kind::F16;

    #[inline(always)]
    unsafe fn store_plain_slab(
        epilogue: &Epilogue,
        lane: u32,
        row: &Row,
        column: u32,
        values: Fragments,
    ) {
        // SAFETY: handed to the caller.
        unsafe { epilogue.store_plain_slab::<{ Kind::F16 }>(lane, row, column, values) }
    }

    #[inline(always)]
    unsafe fn multiply<A: Layout, B: Layout>(
        d: &mut [f32; 128],
        a: Descriptor<A>,
        b: Descriptor<B>,
        accumulate: bool,
    ) {
        // SAFETY: handed to the caller.
        unsafe { m64n256k64_f16(d, a, b, accumulate) }
    }
}

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
