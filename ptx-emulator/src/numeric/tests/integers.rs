//! Integer instructions, bit by bit or with wider arithmetic.

use super::Random;
use crate::numeric::integer::*;
use crate::numeric::product::*;

/// `bfe` as the manual's loop over the bits says.
fn slow_extract(width: u32, value: u64, position: u32, length: u32, signed: bool) -> u64 {
    let (position, length) = (position & 0xFF, length & 0xFF);
    let msb = width - 1;
    let sign = signed && length != 0 && (value >> (position + length - 1).min(msb)) & 1 == 1;
    let mut result = 0;
    for bit in 0..width {
        let inside = bit < length && position + bit <= msb;
        let set = if inside { (value >> (position + bit)) & 1 == 1 } else { sign };
        result |= u64::from(set) << bit;
    }
    result
}

fn slow_insert(width: u32, field: u64, base: u64, position: u32, length: u32) -> u64 {
    let (position, length) = (position & 0xFF, length & 0xFF);
    let mut result = base;
    for bit in 0..length {
        if position + bit < width {
            let place = 1 << (position + bit);
            result &= !place;
            result |= if (field >> bit.min(63)) & 1 == 1 { place } else { 0 };
        }
    }
    result
}

#[test]
fn bit_fields() {
    let mut random = Random(14);
    let mut counts: Vec<u32> = (0..70).collect();
    counts.extend([127, 255, 256, 257, u32::MAX]);
    for &position in &counts {
        for &length in &counts {
            let (value, base) = (random.next(), random.next());
            let (low, low_base) = (value as u32, base as u32);
            let wide = u64::from(low);
            let expect = |signed| slow_extract(32, wide, position, length, signed) as u32;
            assert_eq!(extract_u32(low, position, length), expect(false), "{position} {length}");
            assert_eq!(extract_s32(low, position, length), expect(true), "{position} {length}");
            // Of 64 bits, counts above 255 are as 255, not modulo 256.
            let wide_counts = (position.min(255), length.min(255));
            let expect = |signed| slow_extract(64, value, wide_counts.0, wide_counts.1, signed);
            assert_eq!(extract_u64(value, position, length), expect(false));
            assert_eq!(extract_s64(value, position, length), expect(true), "{position} {length}");
            let inserted = slow_insert(32, wide, u64::from(low_base), position, length) as u32;
            assert_eq!(insert_b32(low, low_base, position, length), inserted);
            let inserted = slow_insert(64, value, base, wide_counts.0, wide_counts.1);
            assert_eq!(insert_b64(value, base, position, length), inserted);
        }
    }
}

#[test]
fn permutations() {
    use Permutation::{
        Backward4, EdgeClampLeft, EdgeClampRight, Forward4, Generic, Replicate8, Replicate16,
    };
    // Byte n of the pair has the value n, so a result reads as the manual's table.
    let table: [(Permutation, [u32; 4]); 6] = [
        (Forward4, [0x0302_0100, 0x0403_0201, 0x0504_0302, 0x0605_0403]),
        (Backward4, [0x0506_0700, 0x0607_0001, 0x0700_0102, 0x0001_0203]),
        (Replicate8, [0x0000_0000, 0x0101_0101, 0x0202_0202, 0x0303_0303]),
        (EdgeClampLeft, [0x0302_0100, 0x0302_0101, 0x0302_0202, 0x0303_0303]),
        (EdgeClampRight, [0x0000_0000, 0x0101_0100, 0x0202_0100, 0x0302_0100]),
        (Replicate16, [0x0100_0100, 0x0302_0302, 0x0100_0100, 0x0302_0302]),
    ];
    for (mode, results) in table {
        for (selector, expected) in (0u32..).zip(results) {
            let found = permute(mode, 0x0302_0100, 0x0706_0504, selector | 0xFFFF_FFFC & 0xF0F0);
            assert_eq!(found, expected, "{mode:?} {selector}");
        }
    }
    let (a, b) = (0x8302_01F0, 0x0706_8504);
    assert_eq!(permute(Generic, a, b, 0x3210), a);
    assert_eq!(permute(Generic, a, b, 0x7654), b);
    assert_eq!(permute(Generic, a, b, 0xDB98), 0xFFFF_00FF);
    assert_eq!(permute(Generic, a, b, 0xFFFF_0527), 0xF085_0207);
}

#[test]
fn shifts() {
    let value = 0x8765_4321_FEDC_BA98u64;
    let (low, high) = (value as u32, (value >> 32) as u32);
    for amount in (0..70).chain([u32::MAX]) {
        let clamp = amount.min(32);
        let expected = ((u128::from(value) << clamp) >> 32) as u32;
        assert_eq!(funnel_left(FunnelAmount::Clamp, low, high, amount), expected);
        assert_eq!(funnel_right(FunnelAmount::Clamp, low, high, amount), (value >> clamp) as u32);
        assert_eq!(funnel_left(FunnelAmount::Wrap, low, low, amount), low.rotate_left(amount & 31));
        assert_eq!(
            funnel_right(FunnelAmount::Wrap, low, low, amount),
            low.rotate_right(amount & 31)
        );
    }
}

#[test]
fn searches() {
    let cases = [
        (0, u32::MAX, u32::MAX),
        (1, 0, 0),
        (0x8000_0000, 31, 30),
        (0xFFFF_FFFF, 31, u32::MAX),
        (0xFFFF_FF7F, 31, 7),
        (0x0001_0000, 16, 16),
    ];
    for (value, unsigned, signed) in cases {
        assert_eq!(find_u32(value), unsigned);
        assert_eq!(find_s32(value), signed);
        let wide = i64::from(value as i32) as u64;
        assert_eq!(find_s64(wide), signed);
        assert_eq!(find_u64(u64::from(value)), unsigned);
    }
    assert_eq!(find_u64(1 << 63), 63);
    assert_eq!(find_s64(1 << 63), 62);
    assert_eq!(find_shift_amount(32, 16), 15);
    assert_eq!(find_shift_amount(64, 16), 47);
    assert_eq!(find_shift_amount(32, u32::MAX), u32::MAX);
    let mask = 0b1010_0110;
    let cases = [
        (0, 1, 1),
        (0, 2, 2),
        (0, 3, 5),
        (0, 5, u32::MAX),
        (5, 1, 5),
        (6, -1, 5),
        (6, -2, 2),
        (6, -4, u32::MAX),
        (5, 0, 5),
        (4, 0, u32::MAX),
        (31, i32::MIN, u32::MAX),
        (32, 1, u32::MAX),
        (8, 1, u32::MAX),
    ];
    for (base, offset, expected) in cases {
        assert_eq!(find_nth_set(mask, base, offset), expected, "{base} {offset}");
    }
}

#[test]
fn three_input_logic() {
    let (a, b, c) = (0xF0F0_1234, 0xCCCC_5678, 0xAAAA_9ABC);
    // The manual's way of making tables: the same function of 0xF0, 0xCC and 0xAA.
    let functions: [fn(u32, u32, u32) -> u32; 6] = [
        |a, b, c| a & b & c,
        |a, b, c| a | b | c,
        |a, b, c| a ^ b ^ c,
        |a, b, c| (a & b) | (!a & c),
        |a, b, c| (a & b) | (a & c) | (b & c),
        |a, b, _| !(a | b),
    ];
    for function in functions {
        let table = function(0xF0, 0xCC, 0xAA) as u8;
        assert_eq!(logic3(a, b, c, table), function(a, b, c), "{table:#x}");
    }
    assert_eq!(logic3(a, b, c, 0), 0);
    assert_eq!(logic3(a, b, c, 0xFF), u32::MAX);
}

#[test]
fn products() {
    let mut random = Random(15);
    for round in 0..50_000u32 {
        let (mut x, mut y, z) = (random.next(), random.next(), random.next());
        if round < 4 {
            (x, y) =
                ([u64::MAX, 1 << 63][round as usize & 1], [u64::MAX, 1 << 63][round as usize >> 1]);
        }
        let (a, b) = (x as u32, y as u32);
        assert_eq!(multiply_high_u64(x, y), ((u128::from(x) * u128::from(y)) >> 64) as u64);
        // The signed upper half from the unsigned one.
        let correction = |sign: u64, other: u64| if sign >> 63 == 1 { other } else { 0 };
        let signed =
            multiply_high_u64(x, y).wrapping_sub(correction(x, y)).wrapping_sub(correction(y, x));
        assert_eq!(multiply_high_s64(x, y), signed);
        assert_eq!(u64::from(multiply_high_u32(a, b)), (u64::from(a) * u64::from(b)) >> 32);
        let wide = i64::from(a as i32) * i64::from(b as i32);
        assert_eq!(multiply_high_s32(a, b), (wide >> 32) as u32);
        let (c, d) = (a as u16, b as u16);
        assert_eq!(u32::from(multiply_high_u16(c, d)), (u32::from(c) * u32::from(d)) >> 16);
        let wide = i32::from(c as i16) * i32::from(d as i16);
        assert_eq!(multiply_high_s16(c, d), (wide >> 16) as u16);

        let unsigned = u64::from(a % (1 << 24)) * u64::from(b % (1 << 24));
        assert_eq!(multiply24_unsigned(a, b), unsigned);
        assert_eq!(low24(unsigned), (unsigned % (1 << 32)) as u32);
        assert_eq!(u64::from(high24(unsigned)), unsigned / (1 << 16));
        let wrap = |v: u32| {
            let v = i64::from(v % (1 << 24));
            if v >= 1 << 23 { v - (1 << 24) } else { v }
        };
        assert_eq!(multiply24_signed(a, b), wrap(a) * wrap(b));

        let sum = u128::from(x) + u128::from(y) + u128::from(z & 1);
        assert_eq!(add_carry_u64(x, y, z & 1 == 1), (sum as u64, sum >> 64 != 0));
        let borrowed = u128::from(y) + u128::from(z & 1);
        let expected = (u128::from(x).wrapping_sub(borrowed) as u64, u128::from(x) < borrowed);
        assert_eq!(subtract_borrow_u64(x, y, z & 1 == 1), expected);
        let (difference, borrow) = subtract_borrow_u32(a, b, z & 1 == 1);
        let exact = i64::from(a) - i64::from(b) - (z & 1) as i64;
        assert_eq!((difference, borrow), (exact as u32, exact < 0));
        let exact = u64::from(a) + u64::from(b) + (z & 1);
        assert_eq!(add_carry_u32(a, b, z & 1 == 1), (exact as u32, exact > u64::from(u32::MAX)));
    }
    assert_eq!(add_carry_u64(u64::MAX, u64::MAX, true), (u64::MAX, true));
    assert_eq!(subtract_borrow_u32(0, u32::MAX, true), (0, true));
}

#[test]
fn dot_products_and_distances() {
    let (a, b) = (0xFF02_8004, 0x0180_03FE);
    // Bytes from the top: 255 2 128 4 against 1 128 3 254, or -1 2 -128 4 against 1 -128 3 -2.
    let cases = [
        (false, false, 255 + 256 + 384 + 1016),
        (true, true, -1 - 256 - 384 - 8),
        (true, false, -1 + 256 - 384 + 1016),
        (false, true, 255 - 256 + 384 - 8),
    ];
    for (a_signed, b_signed, expected) in cases {
        assert_eq!(dot4(a, a_signed, b, b_signed, 10) as i32, expected + 10);
    }
    let halves = 0xFFFE_0003;
    // Low bytes of b: 0x03, 0xFE; high: 0x01, 0x80.
    assert_eq!(dot2(BytePair::Low, halves, true, b, true, 0) as i32, 3 * -2 + -2 * 3);
    assert_eq!(dot2(BytePair::Low, halves, false, b, false, 0), 3 * 254 + 65534 * 3);
    assert_eq!(dot2(BytePair::High, halves, true, b, false, 1) as i32, 3 * 128 - 2 + 1);
    assert_eq!(dot2(BytePair::High, halves, false, b, true, 0) as i32, 3 * -128 + 65534);
    assert_eq!(sum_absolute_difference_unsigned(3, 10, 5), 12);
    assert_eq!(sum_absolute_difference_signed(-3, 10, 5), 18);
    assert_eq!(sum_absolute_difference_signed(i64::MIN, i64::MAX, 1), 0);
}
