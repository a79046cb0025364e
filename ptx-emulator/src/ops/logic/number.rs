//! Bit patterns of registers as numbers that can be compared.

use crate::numeric::half::HalfFormat;
use crate::numeric::single::flush;

/// What a row of a register file holds.
pub(super) trait Number {
    /// An element of the row.
    type Bits: Copy;
    /// What is compared.
    type Value: PartialOrd;
    fn value(bits: Self::Bits) -> Self::Value;
}

macro_rules! numbers {
    ($($name:ident: $bits:ty => $value:ty, $bound:ident, $own:expr;)*) => {
        $(
            pub(super) struct $name;

            impl Number for $name {
                type Bits = $bits;
                type Value = $value;

                #[inline(always)]
                fn value($bound: $bits) -> $value {
                    $own
                }
            }
        )*
    };
}

numbers! {
    Unsigned16: u32 => u16, bits, bits as u16;
    Signed16: u32 => i16, bits, bits as i16;
    Unsigned32: u32 => u32, bits, bits;
    Signed32: u32 => i32, bits, bits as i32;
    Unsigned64: u64 => u64, bits, bits;
    Signed64: u64 => i64, bits, bits as i64;
    Single: u32 => f32, bits, f32::from_bits(bits);
    FlushedSingle: u32 => f32, bits, flush(f32::from_bits(bits));
    Double: u64 => f64, bits, f64::from_bits(bits);
    Brain: u32 => f32, bits, f32::from_bits(bits << 16);
    HighBrain: u32 => f32, bits, f32::from_bits(bits & 0xFFFF_0000);
    Half: u32 => f32, bits, HalfFormat::F16.decode(bits as u16);
    HighHalf: u32 => f32, bits, HalfFormat::F16.decode((bits >> 16) as u16);
    FlushedHalf: u32 => f32, bits, flush_half(HalfFormat::F16.decode(bits as u16));
    HighFlushedHalf: u32 => f32, bits, flush_half(HalfFormat::F16.decode((bits >> 16) as u16));
}

/// What is subnormal as f16 becomes zero; 2⁻¹⁴ is the smallest normal number.
#[inline(always)]
fn flush_half(value: f32) -> f32 {
    if value.abs() < 1.0 / 16384.0 { 0.0 } else { value }
}
