//! Conversions from FP8 to binary16, packed bfloat16 and binary16 arithmetic, and bytes of
//! registers, for code that makes or reads numbers of few bits.
//!
//! Packed forms hold two or four numbers in a `u32`; the one at the lower address is the lowest
//! part.

/// Four packed E4M3 to two pairs of packed binary16, exactly: `cvt.rn.f16x2.e4m3x2` (PTX manual,
/// "Data Movement and Conversion Instructions: cvt").
#[inline(always)]
pub fn e4m3x4_to_f16x4(bits: u32) -> [u32; 2] {
    let (low, high): (u32, u32);
    // SAFETY: arithmetic on registers.
    unsafe {
        ptx!(
            "{{ .reg .b16 l, h;",
            "mov.b32 {{l, h}}, {bits};",
            "cvt.rn.f16x2.e4m3x2 {low}, l;",
            "cvt.rn.f16x2.e4m3x2 {high}, h; }}",
            low = out(reg32) low,
            high = out(reg32) high,
            bits = in(reg32) bits,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    [low, high]
}

/// Four packed E5M2 to two pairs of packed binary16, exactly: `cvt.rn.f16x2.e5m2x2` (PTX manual,
/// "Data Movement and Conversion Instructions: cvt").
#[inline(always)]
pub fn e5m2x4_to_f16x4(bits: u32) -> [u32; 2] {
    let (low, high): (u32, u32);
    // SAFETY: arithmetic on registers.
    unsafe {
        ptx!(
            "{{ .reg .b16 l, h;",
            "mov.b32 {{l, h}}, {bits};",
            "cvt.rn.f16x2.e5m2x2 {low}, l;",
            "cvt.rn.f16x2.e5m2x2 {high}, h; }}",
            low = out(reg32) low,
            high = out(reg32) high,
            bits = in(reg32) bits,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    [low, high]
}

/// The larger of two packed bfloat16, half by half; of a number and a NaN it is the number:
/// `max.bf16x2` (PTX manual, "Half Precision Floating Point Instructions: max").
#[inline(always)]
pub fn max_bf16x2(a: u32, b: u32) -> u32 {
    let result: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        ptx!(
            "max.bf16x2 {result}, {a}, {b};",
            result = out(reg32) result,
            a = in(reg32) a,
            b = in(reg32) b,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    result
}

/// The larger of two packed binary16, half by half; of a number and a NaN it is the number:
/// `max.f16x2` (PTX manual, "Half Precision Floating Point Instructions: max").
#[inline(always)]
pub fn max_f16x2(a: u32, b: u32) -> u32 {
    let result: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        ptx!(
            "max.f16x2 {result}, {a}, {b};",
            result = out(reg32) result,
            a = in(reg32) a,
            b = in(reg32) b,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    result
}

/// Products of packed bfloat16, half by half, each rounded to nearest even: `fma.rn.bf16x2` with an
/// addend of minus zero, which changes no product (PTX manual, "Half Precision Floating Point
/// Instructions: fma").
#[inline(always)]
pub fn multiply_bf16x2(a: u32, b: u32) -> u32 {
    let result: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        ptx!(
            "fma.rn.bf16x2 {result}, {a}, {b}, {zero};",
            result = out(reg32) result,
            a = in(reg32) a,
            b = in(reg32) b,
            zero = in(reg32) 0x8000_8000u32,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    result
}

/// Differences of packed bfloat16, `a - b` half by half, each rounded to nearest even:
/// `sub.rn.bf16x2` (PTX manual, "Half Precision Floating Point Instructions: sub").
#[inline(always)]
pub fn subtract_bf16x2(a: u32, b: u32) -> u32 {
    let result: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        ptx!(
            "sub.rn.bf16x2 {result}, {a}, {b};",
            result = out(reg32) result,
            a = in(reg32) a,
            b = in(reg32) b,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    result
}

/// The smaller of two packed bfloat16, half by half; of a number and a NaN it is the number:
/// `min.bf16x2` (PTX manual, "Half Precision Floating Point Instructions: min").
#[inline(always)]
pub fn min_bf16x2(a: u32, b: u32) -> u32 {
    let result: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        ptx!(
            "min.bf16x2 {result}, {a}, {b};",
            result = out(reg32) result,
            a = in(reg32) a,
            b = in(reg32) b,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    result
}

/// The smaller of two packed binary16, half by half; of a number and a NaN it is the number:
/// `min.f16x2` (PTX manual, "Half Precision Floating Point Instructions: min").
#[inline(always)]
pub fn min_f16x2(a: u32, b: u32) -> u32 {
    let result: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        ptx!(
            "min.f16x2 {result}, {a}, {b};",
            result = out(reg32) result,
            a = in(reg32) a,
            b = in(reg32) b,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    result
}

/// The product of two numbers, its low and its high word: `mul.wide.u32` (PTX manual, "Integer
/// Arithmetic Instructions: mul"). Words that the compiler knows to be halves of a number it would
/// go on with as such.
#[inline(always)]
pub fn multiply_wide(a: u32, b: u32) -> [u32; 2] {
    let (low, high): (u32, u32);
    // SAFETY: arithmetic on registers.
    unsafe {
        ptx!(
            "{{ .reg .b64 product;",
            "mul.wide.u32 product, {a}, {b};",
            "mov.b64 {{{low}, {high}}}, product; }}",
            low = out(reg32) low,
            high = out(reg32) high,
            a = in(reg32) a,
            b = in(reg32) b,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    [low, high]
}

/// `a · b + c`, rounded once, toward positive infinity: `fma.rp.f32` (PTX manual, "Floating Point
/// Instructions: fma").
#[inline(always)]
pub fn fma_upward(a: f32, b: f32, c: f32) -> f32 {
    let result: f32;
    // SAFETY: arithmetic on registers.
    unsafe {
        ptx!(
            "fma.rp.f32 {result}, {a}, {b}, {c};",
            result = out(reg32) result,
            a = in(reg32) a,
            b = in(reg32) b,
            c = in(reg32) c,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    result
}

/// `a · b + c`, rounded once, to nearest even; 0 where it is less, or NaN, and 1 where it is more:
/// `fma.rn.sat.f32` (PTX manual, "Floating Point Instructions: fma").
#[inline(always)]
pub fn fma_saturated(a: f32, b: f32, c: f32) -> f32 {
    let result: f32;
    // SAFETY: arithmetic on registers.
    unsafe {
        ptx!(
            "fma.rn.sat.f32 {result}, {a}, {b}, {c};",
            result = out(reg32) result,
            a = in(reg32) a,
            b = in(reg32) b,
            c = in(reg32) c,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    result
}

/// The magnitude: `abs.f32` (PTX manual, "Floating Point Instructions: abs"). ptxas makes it part
/// of the instruction that reads it, which it does not do to the logical operation that the
/// compiler makes of [`f32::abs`] where a number's bits are asked for, too.
#[inline(always)]
pub fn abs(value: f32) -> f32 {
    let result: f32;
    // SAFETY: arithmetic on registers.
    unsafe {
        ptx!(
            "abs.f32 {result}, {value};",
            result = out(reg32) result,
            value = in(reg32) value,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    result
}

/// `1 / value`, with an error of one unit in the last place at most; infinite for zeros, and zero
/// for what is beyond 2^126: `rcp.approx.ftz.f32` (PTX manual, "Floating Point Instructions: rcp").
#[inline(always)]
pub fn approximate_reciprocal(value: f32) -> f32 {
    let result: f32;
    // SAFETY: arithmetic on registers.
    unsafe {
        ptx!(
            "rcp.approx.ftz.f32 {result}, {value};",
            result = out(reg32) result,
            value = in(reg32) value,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    result
}

/// Four bytes of the eight bytes of `low` and `high`: `prmt.b32` (PTX manual, "Data Movement and
/// Conversion Instructions: prmt"). Each of the lower four nibbles of `selector` names one, the
/// lowest nibble that of the lowest byte of the result: 0 to 3 are those of `low`, 4 to 7 those of
/// `high`; with 8 added, the byte's sign fills the byte of the result.
#[inline(always)]
pub fn permute_bytes(low: u32, high: u32, selector: u32) -> u32 {
    let result: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        ptx!(
            "prmt.b32 {result}, {low}, {high}, {selector};",
            result = out(reg32) result,
            low = in(reg32) low,
            high = in(reg32) high,
            selector = in(reg32) selector,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    result
}
