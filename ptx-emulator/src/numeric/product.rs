//! Integer products and sums with carry (PTX ISA, "Integer Arithmetic Instructions" and
//! "Extended-Precision Integer Arithmetic Instructions").

/// `mul.hi.u16`.
#[inline]
pub(crate) fn multiply_high_u16(a: u16, b: u16) -> u16 {
    ((u32::from(a) * u32::from(b)) >> 16) as u16
}

/// `mul.hi.s16`.
#[inline]
pub(crate) fn multiply_high_s16(a: u16, b: u16) -> u16 {
    ((i32::from(a as i16) * i32::from(b as i16)) >> 16) as u16
}

/// `mul.hi.u32`.
#[inline]
pub(crate) fn multiply_high_u32(a: u32, b: u32) -> u32 {
    ((u64::from(a) * u64::from(b)) >> 32) as u32
}

/// `mul.hi.s32`.
#[inline]
pub(crate) fn multiply_high_s32(a: u32, b: u32) -> u32 {
    ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32
}

/// `mul.hi.u64`.
#[inline]
pub(crate) fn multiply_high_u64(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

/// `mul.hi.s64`.
#[inline]
pub(crate) fn multiply_high_s64(a: u64, b: u64) -> u64 {
    ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64
}

/// The 48-bit product of `mul24.u32`: the operands' upper bytes are not used.
#[inline]
pub(crate) fn multiply24_unsigned(a: u32, b: u32) -> u64 {
    u64::from(a & 0x00FF_FFFF) * u64::from(b & 0x00FF_FFFF)
}

/// The 48-bit product of `mul24.s32`, sign-extended.
#[inline]
pub(crate) fn multiply24_signed(a: u32, b: u32) -> i64 {
    let extend = |value: u32| i64::from(((value << 8) as i32) >> 8);
    extend(a) * extend(b)
}

/// `.lo` of a 48-bit product: bits 0 to 31.
#[inline]
pub(crate) fn low24(product: u64) -> u32 {
    product as u32
}

/// `.hi` of a 48-bit product: bits 16 to 47.
#[inline]
pub(crate) fn high24(product: u64) -> u32 {
    (product >> 16) as u32
}

/// `dp4a`: `c` plus the products of four bytes; the flags say which operand's bytes are signed.
#[inline]
pub(crate) fn dot4(a: u32, a_signed: bool, b: u32, b_signed: bool, c: u32) -> u32 {
    let mut sum = c;
    for byte in 0..4 {
        let left = extend((a >> (8 * byte)) & 0xFF, 8, a_signed);
        let right = extend((b >> (8 * byte)) & 0xFF, 8, b_signed);
        sum = sum.wrapping_add(left.wrapping_mul(right));
    }
    sum
}

/// Which two bytes of its second operand `dp2a` uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BytePair {
    /// `.lo`: bytes 0 and 1.
    Low,
    /// `.hi`: bytes 2 and 3.
    High,
}

/// `dp2a`: `c` plus the products of two halves of `a` with two bytes of `b`; the flags say which
/// operand's parts are signed.
#[inline]
pub(crate) fn dot2(pair: BytePair, a: u32, a_signed: bool, b: u32, b_signed: bool, c: u32) -> u32 {
    let bytes = match pair {
        BytePair::Low => b,
        BytePair::High => b >> 16,
    };
    let mut sum = c;
    for part in 0..2 {
        let left = extend((a >> (16 * part)) & 0xFFFF, 16, a_signed);
        let right = extend((bytes >> (8 * part)) & 0xFF, 8, b_signed);
        sum = sum.wrapping_add(left.wrapping_mul(right));
    }
    sum
}

#[inline]
fn extend(value: u32, bits: u32, signed: bool) -> u32 {
    if !signed {
        return value;
    }
    let unused = 32 - bits;
    (((value << unused) as i32) >> unused) as u32
}

/// `add.cc` and `addc` of 32 bits: the sum and the carry out.
#[inline]
pub(crate) fn add_carry_u32(a: u32, b: u32, carry: bool) -> (u32, bool) {
    let sum = u64::from(a) + u64::from(b) + u64::from(carry);
    (sum as u32, sum >> 32 != 0)
}

/// `add.cc` and `addc` of 64 bits: the sum and the carry out.
#[inline]
pub(crate) fn add_carry_u64(a: u64, b: u64, carry: bool) -> (u64, bool) {
    let (sum, first) = a.overflowing_add(b);
    let (sum, second) = sum.overflowing_add(u64::from(carry));
    (sum, first || second)
}

/// `sub.cc` and `subc` of 32 bits: the difference and the borrow out.
#[inline]
pub(crate) fn subtract_borrow_u32(a: u32, b: u32, borrow: bool) -> (u32, bool) {
    let difference = u64::from(a).wrapping_sub(u64::from(b)).wrapping_sub(u64::from(borrow));
    (difference as u32, difference >> 32 != 0)
}

/// `sub.cc` and `subc` of 64 bits: the difference and the borrow out.
#[inline]
pub(crate) fn subtract_borrow_u64(a: u64, b: u64, borrow: bool) -> (u64, bool) {
    let (difference, first) = a.overflowing_sub(b);
    let (difference, second) = difference.overflowing_sub(u64::from(borrow));
    (difference, first || second)
}
