//! Rounding between binary32 and the 16- and 8-bit formats, the fused multiply-add, and maxima of
//! packed numbers.
//!
//! Packed forms hold two or four numbers in a `u32`; the one at the lower address is the lowest
//! part. All conversions to fewer bits round to nearest, ties to even; those to more bits are
//! exact.

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

/// Four binary32 to packed E4M3, the first in the lowest byte: `cvt.rn.satfinite.e4m3x2.f32` (PTX
/// manual, "Data Movement and Conversion Instructions: cvt"; the instruction names the high part
/// first). What is larger than 448, infinities too, becomes that; every NaN becomes 0x7f.
#[inline(always)]
pub fn f32x4_to_e4m3x4(values: [f32; 4]) -> u32 {
    let [a, b, c, d] = values;
    let bits: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        ptx!(
            "{{ .reg .b16 low, high;",
            "cvt.rn.satfinite.e4m3x2.f32 low, {b}, {a};",
            "cvt.rn.satfinite.e4m3x2.f32 high, {d}, {c};",
            "mov.b32 {bits}, {{low, high}}; }}",
            bits = out(reg32) bits,
            a = in(reg32) a,
            b = in(reg32) b,
            c = in(reg32) c,
            d = in(reg32) d,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    bits
}

/// Two packed E4M3 to binary32, low byte first: `cvt.rn.f16x2.e4m3x2`, which is exact, and
/// [`f16x2_to_f32`] (PTX manual, "Data Movement and Conversion Instructions: cvt").
#[inline(always)]
pub fn e4m3x2_to_f32(bits: u16) -> [f32; 2] {
    let halves: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        ptx!(
            "cvt.rn.f16x2.e4m3x2 {halves}, {bits};",
            halves = out(reg32) halves,
            bits = in(reg16) bits,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    f16x2_to_f32(halves)
}

/// Four binary32 to packed E5M2, the first in the lowest byte: `cvt.rn.satfinite.e5m2x2.f32` (PTX
/// manual, "Data Movement and Conversion Instructions: cvt"; the instruction names the high part
/// first). What is larger than 57344, infinities too, becomes that; every NaN becomes 0x7f.
#[inline(always)]
pub fn f32x4_to_e5m2x4(values: [f32; 4]) -> u32 {
    let [a, b, c, d] = values;
    let bits: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        ptx!(
            "{{ .reg .b16 low, high;",
            "cvt.rn.satfinite.e5m2x2.f32 low, {b}, {a};",
            "cvt.rn.satfinite.e5m2x2.f32 high, {d}, {c};",
            "mov.b32 {bits}, {{low, high}}; }}",
            bits = out(reg32) bits,
            a = in(reg32) a,
            b = in(reg32) b,
            c = in(reg32) c,
            d = in(reg32) d,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    bits
}

/// Two packed E5M2 to binary32, low byte first: `cvt.rn.f16x2.e5m2x2`, which is exact, and
/// [`f16x2_to_f32`] (PTX manual, "Data Movement and Conversion Instructions: cvt").
#[inline(always)]
pub fn e5m2x2_to_f32(bits: u16) -> [f32; 2] {
    let halves: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        ptx!(
            "cvt.rn.f16x2.e5m2x2 {halves}, {bits};",
            halves = out(reg32) halves,
            bits = in(reg16) bits,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    f16x2_to_f32(halves)
}

/// Half by half the larger magnitude of two packed bfloat16, negative if the signs differ; of a
/// number and a NaN it is the number's: `max.xorsign.abs.bf16x2` (PTX manual, "Half Precision
/// Floating Point Instructions: max").
#[inline(always)]
pub fn max_magnitude_bf16x2(a: u32, b: u32) -> u32 {
    let result: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        ptx!(
            "max.xorsign.abs.bf16x2 {result}, {a}, {b};",
            result = out(reg32) result,
            a = in(reg32) a,
            b = in(reg32) b,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    result
}

/// The same, but of a number and a NaN it is a NaN: `max.NaN.xorsign.abs.bf16x2` (PTX manual, "Half
/// Precision Floating Point Instructions: max").
#[inline(always)]
pub fn max_magnitude_or_nan_bf16x2(a: u32, b: u32) -> u32 {
    let result: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        ptx!(
            "max.NaN.xorsign.abs.bf16x2 {result}, {a}, {b};",
            result = out(reg32) result,
            a = in(reg32) a,
            b = in(reg32) b,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    result
}

/// Half by half the larger magnitude of two packed binary16, negative if the signs differ; of a
/// number and a NaN it is the number's: `max.xorsign.abs.f16x2` (PTX manual, "Half Precision
/// Floating Point Instructions: max").
#[inline(always)]
pub fn max_magnitude_f16x2(a: u32, b: u32) -> u32 {
    let result: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        ptx!(
            "max.xorsign.abs.f16x2 {result}, {a}, {b};",
            result = out(reg32) result,
            a = in(reg32) a,
            b = in(reg32) b,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    result
}
