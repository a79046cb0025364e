//! Powers of two as block scales, and what multiplies and restores elements.

/// The exponent of a block in MXFP8: `amax` times the rounded reciprocal of the format's largest
/// value, rounded up to a power of two. Zero gives the smallest one, as NaN does, which stands for
/// a block without numbers, and what lies beyond the largest gives that.
#[inline(always)]
pub fn exponent(amax: f32, reciprocal_max: f32) -> u32 {
    let bits = (amax.max(0.0) * reciprocal_max).to_bits();
    // A mantissa counts the exponent up; among subnormal numbers only one of more than 2⁻¹²⁷ does.
    let carry = if bits < 0x0080_0000 { 0x003f_ffff } else { 0x007f_ffff };
    ((bits + carry) >> 23).min(254)
}

/// By what elements of a block are multiplied: `2^(127 − exponent)`.
#[inline(always)]
pub fn factor(exponent: u32) -> f32 {
    value(254 - exponent)
}

/// `2^(exponent − 127)`, by what codes of a block are multiplied; 255 is NaN.
#[inline(always)]
pub fn value(exponent: u32) -> f32 {
    match exponent {
        0 => f32::from_bits(0x0040_0000),
        255 => f32::NAN,
        _ => f32::from_bits(exponent << 23),
    }
}
