//! The arithmetic of `cp.reduce.async.bulk` and `cp.reduce.async.bulk.tensor` into global memory
//! (PTX ISA 9.1, 9.7.9.25). Numbers are little-endian.

use half::{bf16, f16};

use super::fields::TensorDataType;

/// What a reduction does with the element that is there and the one that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ReduceOp {
    /// The sum; wraps around for integers.
    Add,
    /// The smaller one.
    Min,
    /// The larger one.
    Max,
    /// Counts up, from the one that comes back to 0.
    Inc,
    /// Counts down, from 0 back to the one that comes.
    Dec,
    /// Bitwise.
    And,
    /// Bitwise.
    Or,
    /// Bitwise.
    Xor,
}

/// A reduction that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReduceError {
    /// The type does not have the operation.
    #[error("a bulk reduction cannot {op:?} {data_type:?}")]
    Type {
        /// The operation.
        op: ReduceOp,
        /// The type.
        data_type: TensorDataType,
    },
    /// Lengths that differ, or are not whole elements.
    #[error(
        "a bulk reduction of {source_bytes} bytes into {destination_bytes}, elements of {element}"
    )]
    Length {
        /// Bytes that come.
        source_bytes: usize,
        /// Bytes that are there.
        destination_bytes: usize,
        /// Bytes of an element.
        element: usize,
    },
}

impl ReduceOp {
    /// Every operation.
    pub(crate) const ALL: [Self; 8] =
        [Self::Add, Self::Min, Self::Max, Self::Inc, Self::Dec, Self::And, Self::Or, Self::Xor];

    /// The name as a modifier of the instruction, without its dot.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Min => "min",
            Self::Max => "max",
            Self::Inc => "inc",
            Self::Dec => "dec",
            Self::And => "and",
            Self::Or => "or",
            Self::Xor => "xor",
        }
    }

    /// The operation of a name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|op| op.name() == name)
    }
}

/// Reduces each element of `source` into the one of `destination`. `b32` and `b64` are the
/// integers of their size.
pub(crate) fn reduce(
    op: ReduceOp,
    data_type: TensorDataType,
    destination: &mut [u8],
    source: &[u8],
) -> Result<(), ReduceError> {
    use ReduceOp::{Add, And, Dec, Inc, Max, Min, Or, Xor};
    use TensorDataType::{Bf16, F16, F32, F32Ftz, F64, I32, I64, U32, U64};
    match (op, data_type) {
        (Add, U32 | I32) => apply(destination, source, op32(u32::wrapping_add)),
        (Add, U64) => apply(destination, source, op64(u64::wrapping_add)),
        (Add, F16) => apply(destination, source, add_f16),
        (Add, Bf16) => apply(destination, source, add_bf16),
        (Add, F32) => apply(destination, source, add_f32),
        (Add, F32Ftz) => apply(destination, source, add_f32_flushed),
        (Add, F64) => apply(destination, source, add_f64),
        (Min, U32) => apply(destination, source, op32(u32::min)),
        (Max, U32) => apply(destination, source, op32(u32::max)),
        (Min, I32) => apply(destination, source, op32(|a, b| (a as i32).min(b as i32) as u32)),
        (Max, I32) => apply(destination, source, op32(|a, b| (a as i32).max(b as i32) as u32)),
        (Min, U64) => apply(destination, source, op64(u64::min)),
        (Max, U64) => apply(destination, source, op64(u64::max)),
        (Min, I64) => apply(destination, source, op64(|a, b| (a as i64).min(b as i64) as u64)),
        (Max, I64) => apply(destination, source, op64(|a, b| (a as i64).max(b as i64) as u64)),
        (Min, F16) => apply(destination, source, op16(|a, b| smaller(a, b, F16_INFINITY))),
        (Max, F16) => apply(destination, source, op16(|a, b| larger(a, b, F16_INFINITY))),
        (Min, Bf16) => apply(destination, source, op16(|a, b| smaller(a, b, BF16_INFINITY))),
        (Max, Bf16) => apply(destination, source, op16(|a, b| larger(a, b, BF16_INFINITY))),
        (Inc, U32) => apply(destination, source, op32(count_up)),
        (Dec, U32) => apply(destination, source, op32(count_down)),
        (And, U32 | I32) => apply(destination, source, op32(|a, b| a & b)),
        (Or, U32 | I32) => apply(destination, source, op32(|a, b| a | b)),
        (Xor, U32 | I32) => apply(destination, source, op32(|a, b| a ^ b)),
        // An H200 has no bitwise operations on signed numbers of 64 bits, though it has them on
        // those of 32 bits.
        (And, U64) => apply(destination, source, op64(|a, b| a & b)),
        (Or, U64) => apply(destination, source, op64(|a, b| a | b)),
        (Xor, U64) => apply(destination, source, op64(|a, b| a ^ b)),
        _ => Err(ReduceError::Type { op, data_type }),
    }
}

fn apply<const N: usize>(
    destination: &mut [u8],
    source: &[u8],
    op: impl Fn([u8; N], [u8; N]) -> [u8; N],
) -> Result<(), ReduceError> {
    let (targets, rest) = destination.as_chunks_mut::<N>();
    let (values, _) = source.as_chunks::<N>();
    let destination_bytes = targets.len() * N + rest.len();
    if destination_bytes != source.len() || !rest.is_empty() {
        let source_bytes = source.len();
        return Err(ReduceError::Length { source_bytes, destination_bytes, element: N });
    }
    for (target, &value) in targets.iter_mut().zip(values) {
        *target = op(*target, value);
    }
    Ok(())
}

fn op16(op: impl Fn(u16, u16) -> u16) -> impl Fn([u8; 2], [u8; 2]) -> [u8; 2] {
    move |old, new| op(u16::from_le_bytes(old), u16::from_le_bytes(new)).to_le_bytes()
}

fn op32(op: impl Fn(u32, u32) -> u32) -> impl Fn([u8; 4], [u8; 4]) -> [u8; 4] {
    move |old, new| op(u32::from_le_bytes(old), u32::from_le_bytes(new)).to_le_bytes()
}

fn op64(op: impl Fn(u64, u64) -> u64) -> impl Fn([u8; 8], [u8; 8]) -> [u8; 8] {
    move |old, new| op(u64::from_le_bytes(old), u64::from_le_bytes(new)).to_le_bytes()
}

fn count_up(old: u32, last: u32) -> u32 {
    if old >= last { 0 } else { old + 1 }
}

fn count_down(old: u32, last: u32) -> u32 {
    if old == 0 || old > last { last } else { old - 1 }
}

/// Half precision, subnormals kept. The sum in single precision is rounded once more, which is
/// harmless: 24 bits are at least twice the 11 of half precision and 2.
fn add_f16(old: [u8; 2], new: [u8; 2]) -> [u8; 2] {
    let sum = f16::from_le_bytes(old).to_f32() + f16::from_le_bytes(new).to_f32();
    if sum.is_nan() { NAN_16 } else { f16::from_f32(sum).to_le_bytes() }
}

/// bfloat16, subnormals kept; rounded twice without harm as in [`add_f16`].
fn add_bf16(old: [u8; 2], new: [u8; 2]) -> [u8; 2] {
    let sum = bf16::from_le_bytes(old).to_f32() + bf16::from_le_bytes(new).to_f32();
    if sum.is_nan() { NAN_16 } else { bf16::from_f32(sum).to_le_bytes() }
}

/// Single precision, subnormals kept.
fn add_f32(old: [u8; 4], new: [u8; 4]) -> [u8; 4] {
    let sum = f32::from_le_bytes(old) + f32::from_le_bytes(new);
    if sum.is_nan() { 0x7fff_ffffu32.to_le_bytes() } else { sum.to_le_bytes() }
}

/// Single precision; subnormal operands and sums become zeros of their sign.
fn add_f32_flushed(old: [u8; 4], new: [u8; 4]) -> [u8; 4] {
    let sum = flush(f32::from_le_bytes(old)) + flush(f32::from_le_bytes(new));
    if sum.is_nan() { 0x7fff_ffffu32.to_le_bytes() } else { flush(sum).to_le_bytes() }
}

fn add_f64(old: [u8; 8], new: [u8; 8]) -> [u8; 8] {
    let sum = f64::from_le_bytes(old) + f64::from_le_bytes(new);
    if sum.is_nan() { 0x7fff_ffff_ffff_ffffu64.to_le_bytes() } else { sum.to_le_bytes() }
}

fn flush(value: f32) -> f32 {
    if value.is_subnormal() { 0f32.copysign(value) } else { value }
}

/// The NaN of 16-bit arithmetic, little-endian.
const NAN_16: [u8; 2] = 0x7fffu16.to_le_bytes();
const F16_INFINITY: u16 = 0x7c00;
const BF16_INFINITY: u16 = 0x7f80;

/// The smaller of two 16-bit floating-point numbers: -0 is smaller than +0, and NaN gives way to a
/// number (PTX ISA, `min`).
fn smaller(a: u16, b: u16, infinity: u16) -> u16 {
    choose(a, b, infinity, ordered(a) <= ordered(b))
}

/// The larger of two 16-bit floating-point numbers, as [`smaller`].
fn larger(a: u16, b: u16, infinity: u16) -> u16 {
    choose(a, b, infinity, ordered(a) >= ordered(b))
}

fn choose(a: u16, b: u16, infinity: u16, first: bool) -> u16 {
    let nan = |bits: u16| bits & 0x7fff > infinity;
    match (nan(a), nan(b)) {
        (true, true) => u16::from_le_bytes(NAN_16),
        (true, false) => b,
        (false, true) => a,
        (false, false) => {
            if first {
                a
            } else {
                b
            }
        }
    }
}

/// An integer that is ordered as the floating-point numbers of these bits are.
const fn ordered(bits: u16) -> u16 {
    if bits & 0x8000 == 0 { bits | 0x8000 } else { !bits }
}
