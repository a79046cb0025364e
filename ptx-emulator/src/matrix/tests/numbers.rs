//! Every code of the small types, and rounding to `f16` around every boundary.

use super::oracle::value;
use crate::matrix::ElementType::{self, Bf16, E4m3, E5m2, F16, S8, Tf32, U8};
use crate::matrix::element::{f16_nearest, f16_value};

/// Compares infinities and NaN as well.
fn assert_value(element: ElementType, code: u32, found: f32) {
    let expected = value(element, code);
    let same = f64::from(found) == expected || found.is_nan() && expected.is_nan();
    assert!(same, "{element:?} {code:#x}: {found} {expected}");
    assert!(found.is_nan() || found.is_sign_negative() == expected.is_sign_negative());
}

#[test]
fn every_code_of_bytes_and_halves() {
    for code in 0..256u32 {
        for element in [E4m3, E5m2, S8, U8] {
            let values: [f32; 32] = element.decode(&[code as u8; 32]);
            assert_value(element, code, values[code as usize % 32]);
        }
    }
    for code in 0..65_536u32 {
        let mut row = [0; 32];
        row[6..8].copy_from_slice(&(code as u16).to_le_bytes());
        for element in [Bf16, F16] {
            let values: [f32; 16] = element.decode(&row);
            assert_value(element, code, values[3]);
        }
    }
}

#[test]
fn known_values() {
    let known = [
        (E4m3, 0x7E, 448.0),
        (E4m3, 0x01, 0.001953125),
        (E4m3, 0xB8, -1.0),
        (E5m2, 0x7B, 57_344.0),
        (E5m2, 0x01, 1.0 / 65_536.0),
        (F16, 0x7BFF, 65_504.0),
        (F16, 0x0001, 1.0 / 16_777_216.0),
        (Bf16, 0x3FC0, 1.5),
        (Tf32, 0x3F80_2000, 1.0 + 1.0 / 1024.0),
    ];
    for (element, code, expected) in known {
        assert_eq!(value(element, code), expected, "{element:?} {code:#x}");
    }
    // The low 13 bits of tf32 do not count, not even to tell a NaN from an infinity.
    let mut row = [0; 32];
    row[4..8].copy_from_slice(&0x3F80_3FFFu32.to_le_bytes());
    row[8..12].copy_from_slice(&0x7F80_1FFFu32.to_le_bytes());
    let values: [f32; 8] = Tf32.decode(&row);
    assert_eq!(values[1], 1.0 + 1.0 / 1024.0);
    assert_eq!(values[2], f32::INFINITY);
}

#[test]
fn f16_rounds_to_nearest_even_everywhere() {
    for code in 0..0x7C00u32 {
        let (low, high) = (value(F16, code), value(F16, code + 1));
        let high = if code == 0x7BFF { 65_536.0 } else { high };
        let middle = (low + high) / 2.0;
        let below = f64::from_bits(middle.to_bits() - 1);
        let above = f64::from_bits(middle.to_bits() + 1);
        let even = code + code % 2;
        for (number, expected) in [(low, code), (middle, even), (below, code), (above, code + 1)] {
            assert_eq!(f16_nearest(number), expected, "{number}");
            assert_eq!(f16_nearest(-number), 0x8000 | expected, "-{number}");
        }
        assert_eq!(f64::from(f16_value(code)), low);
    }
    assert_eq!(f16_nearest(1e300), 0x7C00);
    assert_eq!(f16_nearest(f64::NEG_INFINITY), 0xFC00);
    assert_eq!(f16_nearest(-f64::NAN), 0x7FFF);
    assert_eq!(f16_nearest(1e-300), 0);
}
