//! Conversions to and from the formats of block-scaled numbers, E2M1 and UE8M0, that Blackwell has.
//! Need `sm_100a` and PTX 8.6 ([`f32x4_to_e2m1x4_random`]: 8.7).
//!
//! Packed forms hold their numbers from the lowest bits on. E2M1 is ±0, 0.5, 1, 1.5, 2, 3, 4 or 6;
//! UE8M0 is a power of two from 2⁻¹²⁷ (0) to 2¹²⁷ (254), and 255 is NaN.
//!
//! Assembly from Rust has no operands of 8 bits, so packed E2M1 are taken apart inside.

/// Eight binary32 to packed E2M1, rounding to nearest even: `cvt.rn.satfinite.e2m1x2.f32` (PTX
/// manual, "Data Movement and Conversion Instructions: cvt"). What is beyond ±6 becomes ±6, NaN 6.
#[inline(always)]
pub fn f32x8_to_e2m1x8(values: [f32; 8]) -> u32 {
    let bits: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        ptx!(
            "{{ .reg .b8 p0, p1, p2, p3;",
            // The instruction names the high half first.
            "cvt.rn.satfinite.e2m1x2.f32 p0, {b}, {a};",
            "cvt.rn.satfinite.e2m1x2.f32 p1, {d}, {c};",
            "cvt.rn.satfinite.e2m1x2.f32 p2, {f}, {e};",
            "cvt.rn.satfinite.e2m1x2.f32 p3, {h}, {g};",
            "mov.b32 {bits}, {{p0, p1, p2, p3}}; }}",
            bits = out(reg32) bits,
            a = in(reg32) values[0],
            b = in(reg32) values[1],
            c = in(reg32) values[2],
            d = in(reg32) values[3],
            e = in(reg32) values[4],
            f = in(reg32) values[5],
            g = in(reg32) values[6],
            h = in(reg32) values[7],
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    bits
}

/// Four binary32 to packed E2M1, each rounded up or down with the probability that its neighbours'
/// distances give it, drawn from `random`'s bits: `cvt.rs.satfinite.e2m1x4.f32` (PTX manual, "Data
/// Movement and Conversion Instructions: cvt"). What is beyond ±6 becomes ±6, NaN 6.
#[inline(always)]
pub fn f32x4_to_e2m1x4_random(values: [f32; 4], random: u32) -> u16 {
    let bits: u16;
    // SAFETY: arithmetic on registers.
    unsafe {
        ptx!(
            "cvt.rs.satfinite.e2m1x4.f32 {bits}, {{{d}, {c}, {b}, {a}}}, {random};",
            bits = out(reg16) bits,
            a = in(reg32) values[0],
            b = in(reg32) values[1],
            c = in(reg32) values[2],
            d = in(reg32) values[3],
            random = in(reg32) random,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    bits
}

/// Eight packed E2M1 to four pairs of packed binary16, exactly: `cvt.rn.f16x2.e2m1x2` (PTX manual,
/// "Data Movement and Conversion Instructions: cvt").
#[inline(always)]
pub fn e2m1x8_to_f16x8(bits: u32) -> [u32; 4] {
    let (a, b, c, d): (u32, u32, u32, u32);
    // SAFETY: arithmetic on registers.
    unsafe {
        ptx!(
            "{{ .reg .b8 p0, p1, p2, p3;",
            "mov.b32 {{p0, p1, p2, p3}}, {bits};",
            "cvt.rn.f16x2.e2m1x2 {a}, p0;",
            "cvt.rn.f16x2.e2m1x2 {b}, p1;",
            "cvt.rn.f16x2.e2m1x2 {c}, p2;",
            "cvt.rn.f16x2.e2m1x2 {d}, p3; }}",
            a = out(reg32) a,
            b = out(reg32) b,
            c = out(reg32) c,
            d = out(reg32) d,
            bits = in(reg32) bits,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    [a, b, c, d]
}

/// Magnitudes of two binary32 to packed UE8M0, rounding up: `cvt.rp.satfinite.ue8m0x2.f32` (PTX
/// manual, "Data Movement and Conversion Instructions: cvt"). Infinity becomes 254, NaN 255.
#[inline(always)]
pub fn f32x2_to_ue8m0x2_up(low: f32, high: f32) -> u16 {
    let bits: u16;
    // SAFETY: arithmetic on registers.
    unsafe {
        ptx!(
            "cvt.rp.satfinite.ue8m0x2.f32 {bits}, {high}, {low};",
            bits = out(reg16) bits,
            low = in(reg32) low,
            high = in(reg32) high,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    bits
}

/// As [`f32x2_to_ue8m0x2_up`], rounding down: `cvt.rz.satfinite.ue8m0x2.f32` (PTX manual, "Data
/// Movement and Conversion Instructions: cvt").
#[inline(always)]
pub fn f32x2_to_ue8m0x2_down(low: f32, high: f32) -> u16 {
    let bits: u16;
    // SAFETY: arithmetic on registers.
    unsafe {
        ptx!(
            "cvt.rz.satfinite.ue8m0x2.f32 {bits}, {high}, {low};",
            bits = out(reg16) bits,
            low = in(reg32) low,
            high = in(reg32) high,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    bits
}

/// Two packed UE8M0 to packed bfloat16, exactly: `cvt.rn.bf16x2.ue8m0x2` (PTX manual, "Data
/// Movement and Conversion Instructions: cvt").
#[inline(always)]
pub fn ue8m0x2_to_bf16x2(bits: u16) -> u32 {
    let values: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        ptx!(
            "cvt.rn.bf16x2.ue8m0x2 {values}, {bits};",
            values = out(reg32) values,
            bits = in(reg16) bits,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    values
}
