//! Which registers an instruction of a type takes (PTX ISA, "Operand Size Exceeding
//! Instruction-Type Size" and the tables before it).

use super::types::DataType;
use crate::module::ScalarType;

/// What the bits of a register or a type are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nature {
    Bits,
    Integer,
    /// A floating-point type that registers can be declared with.
    Float(ScalarType),
    /// A type that no register can be declared with; untyped ones hold it.
    Other,
}

fn of_register(scalar: ScalarType) -> Nature {
    use ScalarType::{
        B8, B16, B32, B64, B128, F16, F16x2, F32, F64, Pred, S8, S16, S32, S64, U8, U16, U32, U64,
    };
    match scalar {
        B8 | B16 | B32 | B64 | B128 | Pred => Nature::Bits,
        U8 | U16 | U32 | U64 | S8 | S16 | S32 | S64 => Nature::Integer,
        F16 | F16x2 | F32 | F64 => Nature::Float(scalar),
    }
}

/// Whether a register is declared with a floating-point type.
pub(super) fn is_float(register: ScalarType) -> bool {
    matches!(of_register(register), Nature::Float(_))
}

fn of_type(ty: DataType) -> Nature {
    use DataType::{
        B1, B8, B16, B32, B64, B128, F16, F16x2, F32, F64, Predicate, S8, S16, S32, S64, U8, U16,
        U32, U64,
    };
    match ty {
        B1 | B8 | B16 | B32 | B64 | B128 | Predicate => Nature::Bits,
        U8 | U16 | U32 | U64 | S8 | S16 | S32 | S64 => Nature::Integer,
        F16 => Nature::Float(ScalarType::F16),
        F16x2 => Nature::Float(ScalarType::F16x2),
        F32 => Nature::Float(ScalarType::F32),
        F64 => Nature::Float(ScalarType::F64),
        _ => Nature::Other,
    }
}

/// Whether a register holds exactly a value of the type.
pub(super) fn fits(register: ScalarType, ty: DataType) -> bool {
    let agree = match (of_register(register), of_type(ty)) {
        (Nature::Bits, _) | (_, Nature::Bits) => true,
        (Nature::Other, _) | (_, Nature::Other) => false,
        (own, wanted) => own == wanted,
    };
    agree && register.bits() == ty.bits()
}

/// The same for instructions that also take wider registers: loads, stores and conversions.
pub(super) fn holds(register: ScalarType, ty: DataType) -> bool {
    match (of_register(register), of_type(ty)) {
        (_, Nature::Other) | (Nature::Float(_), Nature::Float(_)) => fits(register, ty),
        (Nature::Bits, _) | (_, Nature::Bits) | (Nature::Integer, Nature::Integer) => {
            register.bits() >= ty.bits()
        }
        _ => false,
    }
}
