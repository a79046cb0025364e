//! Integer instructions that are not one operator of Rust (PTX ISA, "Integer Arithmetic
//! Instructions", "Logic and Shift Instructions" and "Extended-Precision Integer Arithmetic").
//!
//! Operands and results are bit patterns; signedness is in the function.

/// `bfe.u32`: `length` bits of `value` from `position`, both counts taken modulo 256.
#[inline]
pub(crate) fn extract_u32(value: u32, position: u32, length: u32) -> u32 {
    extract_u64(u64::from(value), position & 0xFF, length & 0xFF) as u32
}

/// `bfe.s32`: as `bfe.u32`, extended with the field's top bit, or with the value's sign where the
/// field reaches beyond it.
#[inline]
pub(crate) fn extract_s32(value: u32, position: u32, length: u32) -> u32 {
    extract_s64(i64::from(value as i32) as u64, position & 0xFF, length & 0xFF) as u32
}

/// `bfe.u64`. The manual takes both counts modulo 256 here too; an H200 takes all their bits.
#[inline]
pub(crate) fn extract_u64(value: u64, position: u32, length: u32) -> u64 {
    value.checked_shr(position).unwrap_or(0) & low_bits(length)
}

/// `bfe.s64`, as `bfe.u64`.
#[inline]
pub(crate) fn extract_s64(value: u64, position: u32, length: u32) -> u64 {
    if length == 0 {
        return 0;
    }
    let field = (value as i64) >> position.min(63);
    let unused = 64 - length.min(64);
    ((field << unused) >> unused) as u64
}

/// `bfi.b32`: `base` with `length` bits from `position` on replaced by the low bits of `field`;
/// both counts are taken modulo 256.
#[inline]
pub(crate) fn insert_b32(field: u32, base: u32, position: u32, length: u32) -> u32 {
    insert_b64(u64::from(field), u64::from(base), position & 0xFF, length & 0xFF) as u32
}

/// `bfi.b64`. The manual takes both counts modulo 256 here too; an H200 takes all their bits.
#[inline]
pub(crate) fn insert_b64(field: u64, base: u64, position: u32, length: u32) -> u64 {
    let mask = low_bits(length).checked_shl(position).unwrap_or(0);
    (base & !mask) | (field.checked_shl(position).unwrap_or(0) & mask)
}

#[inline]
fn low_bits(count: u32) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

/// A mode of `prmt.b32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Permutation {
    /// No mode: each nibble of the selector picks one byte, with bit 3 its sign in all eight bits.
    Generic,
    /// `.f4e`: four consecutive bytes, upwards.
    Forward4,
    /// `.b4e`: four consecutive bytes, downwards.
    Backward4,
    /// `.rc8`: one byte four times.
    Replicate8,
    /// `.ecl`: the bytes below the chosen position are the position's, the others their own.
    EdgeClampLeft,
    /// `.ecr`: the bytes above the chosen position are the position's, the others their own.
    EdgeClampRight,
    /// `.rc16`: one half twice.
    Replicate16,
}

/// `prmt.b32`: four of the eight bytes of `a` (0 to 3) and `b` (4 to 7).
#[inline]
pub(crate) fn permute(mode: Permutation, a: u32, b: u32, selector: u32) -> u32 {
    let bytes = (u64::from(b) << 32) | u64::from(a);
    let low = selector & 3;
    let mut result = 0;
    for byte in 0..4 {
        let choice = match mode {
            Permutation::Generic => selector >> (4 * byte),
            Permutation::Forward4 => (low + byte) & 7,
            Permutation::Backward4 => low.wrapping_sub(byte) & 7,
            Permutation::Replicate8 => low,
            Permutation::EdgeClampLeft => low.max(byte),
            Permutation::EdgeClampRight => low.min(byte),
            Permutation::Replicate16 => ((selector & 1) * 2) + (byte & 1),
        };
        let picked = (bytes >> (8 * (choice & 7))) as u8;
        let sign = (picked as i8 >> 7) as u8;
        let signed = mode == Permutation::Generic && choice & 8 != 0;
        result |= u32::from(if signed { sign } else { picked }) << (8 * byte);
    }
    result
}

/// How a funnel shift treats an amount above 31.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FunnelAmount {
    /// `.wrap`: modulo 32.
    Wrap,
    /// `.clamp`: at most 32.
    Clamp,
}

impl FunnelAmount {
    #[inline]
    fn of(self, amount: u32) -> u32 {
        match self {
            Self::Wrap => amount & 31,
            Self::Clamp => amount.min(32),
        }
    }
}

/// `shf.l`: the upper word of `high:low` shifted left.
#[inline]
pub(crate) fn funnel_left(mode: FunnelAmount, low: u32, high: u32, amount: u32) -> u32 {
    let value = (u64::from(high) << 32) | u64::from(low);
    ((value << mode.of(amount)) >> 32) as u32
}

/// `shf.r`: the lower word of `high:low` shifted right.
#[inline]
pub(crate) fn funnel_right(mode: FunnelAmount, low: u32, high: u32, amount: u32) -> u32 {
    let value = (u64::from(high) << 32) | u64::from(low);
    (value >> mode.of(amount)) as u32
}

/// `bfind.u32`: the position of the highest set bit, or all ones.
#[inline]
pub(crate) fn find_u32(value: u32) -> u32 {
    31u32.wrapping_sub(value.leading_zeros())
}

/// `bfind.s32`: the position of the highest bit that differs from the sign, or all ones.
#[inline]
pub(crate) fn find_s32(value: u32) -> u32 {
    find_u32(value ^ ((value as i32) >> 31) as u32)
}

/// `bfind.u64`.
#[inline]
pub(crate) fn find_u64(value: u64) -> u32 {
    63u32.wrapping_sub(value.leading_zeros())
}

/// `bfind.s64`.
#[inline]
pub(crate) fn find_s64(value: u64) -> u32 {
    find_u64(value ^ ((value as i64) >> 63) as u64)
}

/// `.shiftamt` of a `bfind` result: the shift left that brings the bit to the top of `width` bits.
#[inline]
pub(crate) fn find_shift_amount(width: u32, found: u32) -> u32 {
    if found == u32::MAX { found } else { width.wrapping_sub(1).wrapping_sub(found) }
}

/// `fns.b32`: the position of the `offset`-th set bit of `mask` from `base`, upwards for positive
/// offsets and downwards for negative ones, counting from one. Offset zero asks for `base` itself.
/// All ones when there is none, and for a base above 31.
pub(crate) fn find_nth_set(mask: u32, base: u32, offset: i32) -> u32 {
    if base > 31 {
        return u32::MAX;
    }
    let is_set = |position: &u32| (mask >> position) & 1 == 1;
    let skipped = (offset.unsigned_abs() as usize).saturating_sub(1);
    let found = match offset {
        0 => Some(base).filter(is_set),
        1.. => (base..32).filter(is_set).nth(skipped),
        _ => (0..=base).rev().filter(is_set).nth(skipped),
    };
    found.unwrap_or(u32::MAX)
}

/// `lop3.b32`: bit `4·a + 2·b + c` of the table, for each bit of the operands.
#[inline]
pub(crate) fn logic3(a: u32, b: u32, c: u32, table: u8) -> u32 {
    let mut result = 0;
    for row in 0..8u32 {
        let pick = |operand: u32, bit: u32| if row & bit != 0 { operand } else { !operand };
        let wanted = 0u32.wrapping_sub(u32::from(table >> row) & 1);
        result |= pick(a, 4) & pick(b, 2) & pick(c, 1) & wanted;
    }
    result
}

/// `sad.u`: `c` plus the distance of two unsigned numbers of up to 64 bits, not cut to the width.
#[inline]
pub(crate) fn sum_absolute_difference_unsigned(a: u64, b: u64, c: u64) -> u64 {
    c.wrapping_add(a.abs_diff(b))
}

/// `sad.s`: `c` plus the distance of two sign-extended numbers, not cut to the width.
#[inline]
pub(crate) fn sum_absolute_difference_signed(a: i64, b: i64, c: u64) -> u64 {
    c.wrapping_add(a.abs_diff(b))
}
