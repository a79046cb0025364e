//! Literals as bits of a type.

use super::Problem;
use crate::module::Immediate;
use crate::program::types::DataType;

/// The bits of a literal of a type of up to 32 bits.
pub(super) fn immediate32(immediate: Immediate, ty: DataType) -> Result<u32, Problem> {
    check_literal(immediate, ty)?;
    let bits = match immediate {
        Immediate::Signed(value) => value as u32,
        Immediate::Unsigned(value) => value as u32,
        Immediate::Single(bits) => bits,
        Immediate::Double(bits) => (f64::from_bits(bits) as f32).to_bits(),
    };
    Ok(if ty.bits() < 32 { bits & ((1 << ty.bits()) - 1) } else { bits })
}

/// The bits of a literal of a type of 64 bits.
pub(super) fn immediate64(immediate: Immediate, ty: DataType) -> Result<u64, Problem> {
    check_literal(immediate, ty)?;
    Ok(match immediate {
        Immediate::Signed(value) => value as u64,
        Immediate::Unsigned(value) => value,
        Immediate::Single(bits) if ty == DataType::F64 => f64::from(f32::from_bits(bits)).to_bits(),
        Immediate::Single(bits) => bits.into(),
        Immediate::Double(bits) => bits,
    })
}

/// Floating-point literals are for floating-point types and for bits of their own width; others
/// are not for floating-point types.
fn check_literal(immediate: Immediate, ty: DataType) -> Result<(), Problem> {
    let right = match immediate {
        Immediate::Signed(_) | Immediate::Unsigned(_) => !ty.is_float(),
        Immediate::Single(_) => matches!(ty, DataType::F32 | DataType::F64 | DataType::B32),
        Immediate::Double(_) => matches!(ty, DataType::F32 | DataType::F64 | DataType::B64),
    };
    if right {
        Ok(())
    } else {
        Err(format!("`{immediate}` is no literal of type `.{}`", ty.word()))
    }
}
