//! The maths on the CPU.
//!
//! [`plain`] is the oracle: loops that one can check against the formulas by eye, in FP32 or FP64.
//! `fast` computes the same with blocked products on all cores. [`quantize`] makes and restores
//! low-precision copies, byte for byte as the kernels do. `execute` carries out a plan with them on
//! tensors in host memory; it is what the CPU backend runs.

mod convert;
mod execute;
mod fast;
mod low_precision;
pub mod plain;
pub mod quantize;

pub(crate) use self::convert::{byte_range, byte_range_mut, host_memory, zeros};
pub(crate) use self::execute::execute;
pub(crate) use self::low_precision::restore_factors;
