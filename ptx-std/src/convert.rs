//! Rounding between binary32 and the 16-bit formats, and the fused multiply-add.
//!
//! Packed forms hold two numbers in a `u32`; the one at the lower address is the low half. All
//! conversions to 16 bits round to nearest, ties to even; those to binary32 are exact.

/// `a · b + c` with one rounding: `fma.rn.f32` (PTX manual, "Floating Point Instructions: fma").
///
/// `core` has no fused multiply-add, and the compiler does not fuse a product and a sum by itself.
#[inline(always)]
pub fn fma(a: f32, b: f32, c: f32) -> f32 {
    let d: f32;
    // SAFETY: arithmetic on registers.
    unsafe {
        ptx!(
            "fma.rn.f32 {d}, {a}, {b}, {c};",
            d = out(reg32) d,
            a = in(reg32) a,
            b = in(reg32) b,
            c = in(reg32) c,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    d
}

/// bfloat16 to binary32. The bits are the upper half of the result.
#[inline(always)]
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Two packed bfloat16 to binary32, low half first.
#[inline(always)]
pub fn bf16x2_to_f32(bits: u32) -> [f32; 2] {
    [f32::from_bits(bits << 16), f32::from_bits(bits & 0xFFFF_0000)]
}

/// binary32 to bfloat16: `cvt.rn.bf16.f32` (PTX manual, "Data Movement and Conversion Instructions:
/// cvt").
#[inline(always)]
pub fn f32_to_bf16(value: f32) -> u16 {
    let bits: u16;
    // SAFETY: arithmetic on registers.
    unsafe {
        ptx!(
            "cvt.rn.bf16.f32 {bits}, {value};",
            bits = out(reg16) bits,
            value = in(reg32) value,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    bits
}

/// Two binary32 to packed bfloat16, `low` in the low half: `cvt.rn.bf16x2.f32` (PTX manual, "Data
/// Movement and Conversion Instructions: cvt"; the instruction names the high half first).
#[inline(always)]
pub fn f32_to_bf16x2(low: f32, high: f32) -> u32 {
    let bits: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        ptx!(
            "cvt.rn.bf16x2.f32 {bits}, {high}, {low};",
            bits = out(reg32) bits,
            high = in(reg32) high,
            low = in(reg32) low,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    bits
}

/// binary16 to binary32: `cvt.f32.f16` (PTX manual, "Data Movement and Conversion Instructions:
/// cvt").
#[inline(always)]
pub fn f16_to_f32(bits: u16) -> f32 {
    let value: f32;
    // SAFETY: arithmetic on registers.
    unsafe {
        ptx!(
            "cvt.f32.f16 {value}, {bits};",
            value = out(reg32) value,
            bits = in(reg16) bits,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    value
}

/// Two packed binary16 to binary32, low half first.
#[inline(always)]
pub fn f16x2_to_f32(bits: u32) -> [f32; 2] {
    [f16_to_f32(bits as u16), f16_to_f32((bits >> 16) as u16)]
}

/// binary32 to binary16, infinite where it is too large: `cvt.rn.f16.f32` (PTX manual, "Data
/// Movement and Conversion Instructions: cvt").
#[inline(always)]
pub fn f32_to_f16(value: f32) -> u16 {
    let bits: u16;
    // SAFETY: arithmetic on registers.
    unsafe {
        ptx!(
            "cvt.rn.f16.f32 {bits}, {value};",
            bits = out(reg16) bits,
            value = in(reg32) value,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    bits
}

/// Two binary32 to packed binary16, `low` in the low half: `cvt.rn.f16x2.f32` (PTX manual, "Data
/// Movement and Conversion Instructions: cvt"; the instruction names the high half first).
#[inline(always)]
pub fn f32_to_f16x2(low: f32, high: f32) -> u32 {
    let bits: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        ptx!(
            "cvt.rn.f16x2.f32 {bits}, {high}, {low};",
            bits = out(reg32) bits,
            high = in(reg32) high,
            low = in(reg32) low,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    bits
}
