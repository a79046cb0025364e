//! Which products there are, as types: kernels are generic over them, and each architecture says
//! how it copies and names their operands.

use core::marker::PhantomData;

use super::epilogue::Known;
use super::scales::Scales;
use crate::abi::quantize::{COLUMN_BLOCK, ROW_BLOCK};

/// Reduction indices of a stage of 16-bit operands.
pub const DEPTH: u32 = 64;
/// Reduction indices of a stage of FP8 operands, and of a block of scales.
pub const FP8_DEPTH: u32 = 128;

/// Reduction indices of a stage of NVFP4 operands.
pub const NVFP4_DEPTH: u32 = 256;

const _: () = assert!(FP8_DEPTH == ROW_BLOCK && FP8_DEPTH == COLUMN_BLOCK, "a stage has one scale");

/// `Y_g = X_g · W_gᵀ`.
pub struct Fprop;
/// `dX_g = dY_g · W_g`.
pub struct Dgrad;
/// `dW_g = dY_gᵀ · X_g`.
pub struct Wgrad;

/// `D_g = A_g · B_gᵀ` of tokens and weights: fprop, and dgrad with transposed weights.
pub struct Rows<A, B>(PhantomData<(A, B)>);
/// `D_g = A_gᵀ · B_g` of tokens and tokens, both transposed in memory: wgrad.
pub struct Reduction<A, B>(PhantomData<(A, B)>);

/// One of the above, of codes in MXFP8, which lie as their source does.
pub struct Mxfp8<P>(PhantomData<P>);
/// One of the above, of codes in NVFP4, which all run along the reduction: the weights of dgrad and
/// both operands of wgrad are transposed in memory.
pub struct Nvfp4<P>(PhantomData<P>);

/// What the library asks of a product's output, and what it never does.
pub trait Product {
    /// What kernels may know of it.
    const OUTPUT: Known;
}

impl Product for Fprop {
    const OUTPUT: Known = Known { bias: true, row_scales: true, column_unit: 8 };
}

impl Product for Dgrad {
    const OUTPUT: Known = Known { bias: false, row_scales: true, column_unit: 8 };
}

impl Product for Wgrad {
    const OUTPUT: Known = Known { bias: false, row_scales: false, column_unit: 8 };
}

impl<A, B> Product for Rows<A, B> {
    const OUTPUT: Known = Known { bias: true, row_scales: false, column_unit: 8 };
}

impl<A, B> Product for Reduction<A, B> {
    const OUTPUT: Known = Known { bias: false, row_scales: false, column_unit: 8 };
}

// Activations alone have factors of rows, and only in NVFP4.
impl<P: Product> Product for Mxfp8<P> {
    const OUTPUT: Known = Known { row_scales: false, column_unit: 32, ..P::OUTPUT };
}

impl Product for Nvfp4<Fprop> {
    const OUTPUT: Known = Known { column_unit: 32, ..Fprop::OUTPUT };
}

impl Product for Nvfp4<Dgrad> {
    const OUTPUT: Known = Mxfp8::<Dgrad>::OUTPUT;
}

impl Product for Nvfp4<Wgrad> {
    const OUTPUT: Known = Mxfp8::<Wgrad>::OUTPUT;
}

/// A product whose operands have scales.
pub trait Scaled {
    /// Scales of the left operand.
    type AScales: Scales;
    /// Scales of the right operand.
    type BScales: Scales;
}

impl<A: Scales, B: Scales> Scaled for Rows<A, B> {
    type AScales = A;
    type BScales = B;
}

impl<A: Scales, B: Scales> Scaled for Reduction<A, B> {
    type AScales = A;
    type BScales = B;
}
