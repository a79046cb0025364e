//! Which products there are, as types: kernels are generic over them, and each architecture says how
//! it copies and names their operands.

use core::marker::PhantomData;

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
