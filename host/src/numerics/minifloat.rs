//! What floats of few bits have in common.

/// Bits of an FP32 mantissa.
const F32_MANTISSA_BITS: u32 = 23;
const F32_BIAS: i32 = 127;
const F32_INFINITY: u32 = 0x7f80_0000;

/// The code, without its sign, of the magnitude whose FP32 bits are `magnitude`: nearest, ties to
/// even; `max_code` for everything beyond it. NaN is not for this function.
///
/// `BIAS` is the exponent bias of the small format, `MANTISSA_BITS` its mantissa bits.
pub(super) const fn round<const BIAS: i32, const MANTISSA_BITS: u32>(
    magnitude: u32,
    max_code: u8,
) -> u8 {
    let dropped = F32_MANTISSA_BITS - MANTISSA_BITS;
    let smallest_normal = ((F32_BIAS + 1 - BIAS) as u32) << F32_MANTISSA_BITS;
    if magnitude < smallest_normal {
        // The unit of this addend's last place is the step between subnormal numbers, so that the
        // addition itself rounds, and leaves the number of steps in the low bits.
        let step_exponent = F32_BIAS + 1 - BIAS - MANTISSA_BITS as i32;
        let addend = ((step_exponent + F32_MANTISSA_BITS as i32) as u32) << F32_MANTISSA_BITS;
        let sum = f32::from_bits(magnitude) + f32::from_bits(addend);
        return (sum.to_bits() - addend) as u8;
    }
    // A carry out of the mantissa counts the exponent up, as it should.
    let odd = (magnitude >> dropped) & 1;
    let rounded = (magnitude + (1 << (dropped - 1)) - 1 + odd) >> dropped;
    let code = rounded - (((F32_BIAS - BIAS) as u32) << MANTISSA_BITS);
    if code > max_code as u32 { max_code } else { code as u8 }
}

/// Whether these FP32 bits, without the sign, are a NaN.
pub(super) const fn is_nan(magnitude: u32) -> bool {
    magnitude > F32_INFINITY
}

/// The value of a code without its sign, read by the rule for finite numbers.
pub(super) const fn widen<const BIAS: i32, const MANTISSA_BITS: u32>(code: u8) -> f32 {
    let smallest_normal = 1 << MANTISSA_BITS;
    if code < smallest_normal {
        let step_exponent = (F32_BIAS + 1 - BIAS - MANTISSA_BITS as i32) as u32;
        return code as f32 * f32::from_bits(step_exponent << F32_MANTISSA_BITS);
    }
    let rebiased = code as u32 + (((F32_BIAS - BIAS) as u32) << MANTISSA_BITS);
    f32::from_bits(rebiased << (F32_MANTISSA_BITS - MANTISSA_BITS))
}
