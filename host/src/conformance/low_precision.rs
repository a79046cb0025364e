//! Low precision on every engine: quantizers and ends of steps to the byte, products against FP64.

mod nan;
mod product;
mod product_cases;
mod quantize;
mod quantize_cases;
mod steps;

use std::fmt;

pub use self::nan::NanIn;
pub use self::product_cases::{DrawnScales, LineScales, ProductBias, ProductCase, product_cases};
pub use self::quantize_cases::{QuantizeCase, SourceCase, quantize_cases};
pub use self::steps::StepsCase;
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
    /// Ends of steps of delayed scaling.
    Steps(StepsCase),
}

impl fmt::Display for LowPrecisionCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quantize(case) => case.fmt(f),
            Self::Product(case) => case.fmt(f),
            Self::Steps(case) => case.fmt(f),
        }
    }
}

impl LowPrecisionCase {
    /// Why a device must refuse the case, if it must.
    pub fn refusal(&self, target: Target) -> Option<&'static str> {
        match self {
            Self::Quantize(_) | Self::Steps(_) => None,
            Self::Product(case) => case.refusal(target),
        }
    }
}

/// All of them.
pub fn low_precision_cases() -> Vec<LowPrecisionCase> {
    let quantize = quantize_cases().into_iter().map(LowPrecisionCase::Quantize);
    let products = product_cases().into_iter().map(LowPrecisionCase::Product);
    let steps = steps::steps_cases().into_iter().map(LowPrecisionCase::Steps);
    quantize.chain(products).chain(steps).collect()
}

/// Runs a case on `device`.
///
/// # Errors
/// What is wrong, in words.
pub fn run_low_precision(case: &LowPrecisionCase, device: &Device) -> Result<Outcome, String> {
    match case {
        LowPrecisionCase::Quantize(case) => quantize::run(case, device).map(|()| Outcome::Passed),
        LowPrecisionCase::Product(case) => product::run(case, device),
        LowPrecisionCase::Steps(case) => steps::run(case, device).map(|()| Outcome::Passed),
    }
}
