//! Low precision on every engine: quantizers to the byte, products against FP64.

mod nan;
mod product;
mod product_cases;
mod quantize;
mod quantize_cases;

use std::fmt;

pub use self::nan::NanIn;
pub use self::product_cases::{DrawnScales, LineScales, ProductBias, ProductCase, product_cases};
pub use self::quantize_cases::{QuantizeCase, SourceCase, quantize_cases};
use super::run::Outcome;
use crate::backend::Device;
use crate::plan::Target;

/// A behaviour in low precision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LowPrecisionCase {
    /// One quantization.
    Quantize(QuantizeCase),
    /// One product of quantized operands.
    Product(ProductCase),
}

impl fmt::Display for LowPrecisionCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quantize(case) => case.fmt(f),
            Self::Product(case) => case.fmt(f),
        }
    }
}

impl LowPrecisionCase {
    /// Why a device must refuse the case, if it must.
    pub fn refusal(&self, target: Target) -> Option<&'static str> {
        match self {
            Self::Quantize(_) => None,
            Self::Product(case) => case.refusal(target),
        }
    }
}

/// All of them.
pub fn low_precision_cases() -> Vec<LowPrecisionCase> {
    let quantize = quantize_cases().into_iter().map(LowPrecisionCase::Quantize);
    quantize.chain(product_cases().into_iter().map(LowPrecisionCase::Product)).collect()
}

/// Runs a case on `device`.
///
/// # Errors
/// What is wrong, in words.
pub fn run_low_precision(case: &LowPrecisionCase, device: &Device) -> Result<Outcome, String> {
    match case {
        LowPrecisionCase::Quantize(case) => quantize::run(case, device).map(|()| Outcome::Passed),
        LowPrecisionCase::Product(case) => product::run(case, device),
    }
}
