//! What is refused, and descriptors that are not ordinary.

use super::wgmma::form;
use crate::matrix::descriptor::{Descriptor, Swizzle};
use crate::matrix::fp8::Fp8Accumulation;
use crate::matrix::mma::Mma;
use crate::matrix::wgmma::{Scale, Source, Wgmma, WgmmaForm};
use crate::matrix::{AccumulatorType, ElementType, MatrixError};

use AccumulatorType::{F16 as D16, F32 as D32, S32};
use ElementType::{B1, Bf16, E4m3, E5m2, F16, S8, Tf32, U8};

const ALL: [ElementType; 8] = [Bf16, F16, Tf32, E4m3, E5m2, S8, U8, B1];

#[test]
fn types_of_wgmma() {
    let mut accepted = Vec::new();
    for a in ALL {
        for b in ALL {
            for d in [D32, D16, S32] {
                if Wgmma::new(form(a, b, d, 64)).is_ok() {
                    accepted.push((a, b, d));
                }
            }
        }
    }
    // One of bf16, two of f16, one of tf32, eight of fp8, four of bytes, one of bits.
    assert_eq!(accepted.len(), 17);
    assert!(!accepted.contains(&(Bf16, Bf16, D16)));
    assert!(!accepted.contains(&(F16, Bf16, D32)));
    assert!(!accepted.contains(&(S8, B1, S32)));
}

#[test]
fn columns_of_wgmma() {
    let accepted = |a, d| -> Vec<u32> {
        (0..=272).filter(|&n| Wgmma::new(form(a, a, d, n)).is_ok()).collect()
    };
    let floats: Vec<u32> = (1..=32).map(|n| 8 * n).collect();
    assert_eq!(accepted(Bf16, D32), floats);
    assert_eq!(accepted(E4m3, D16), floats);
    let mut integers = vec![8, 16, 24];
    integers.extend((2..=16).map(|n| 16 * n));
    assert_eq!(accepted(U8, S32), integers);
    assert_eq!(accepted(B1, S32), integers);
}

#[test]
fn modifiers_of_wgmma() {
    let f = |a, d| form(a, a, d, 64);
    let refused: [(&str, WgmmaForm); 12] = [
        ("m64nNk16", WgmmaForm { shape: (64, 64, 32), ..f(Bf16, D32) }),
        ("m64nNk16", WgmmaForm { shape: (128, 64, 16), ..f(Bf16, D32) }),
        ("transposed", WgmmaForm { transpose_b: true, ..f(E4m3, D32) }),
        ("transposed", WgmmaForm { transpose_a: true, ..f(Tf32, D32) }),
        ("transposed", WgmmaForm { transpose_b: true, ..f(S8, S32) }),
        ("registers", WgmmaForm { transpose_a: true, a_in_registers: true, ..f(F16, D16) }),
        ("negate", WgmmaForm { negate_a: true, ..f(S8, S32) }),
        ("negate", WgmmaForm { negate_b: true, ..f(B1, S32) }),
        ("satfinite", WgmmaForm { saturate: true, ..f(Bf16, D32) }),
        ("satfinite", WgmmaForm { saturate: true, ..f(B1, S32) }),
        ("no N of 0", form(Bf16, Bf16, D32, 0)),
        ("no N of 264", form(Bf16, Bf16, D32, 264)),
    ];
    for (word, form) in refused {
        let message = Wgmma::new(form).unwrap_err().to_string();
        assert!(message.contains(word), "{message}");
    }
    let transposed = WgmmaForm { transpose_b: true, a_in_registers: true, ..f(Bf16, D32) };
    assert_eq!(Wgmma::new(transposed).unwrap().form(), &transposed);
    assert!(Wgmma::new(WgmmaForm { saturate: true, ..f(U8, S32) }).is_ok());
}

#[test]
fn operands_that_do_not_fit() {
    let wgmma = Wgmma::new(form(Bf16, Bf16, D32, 8)).unwrap();
    let shared = [0; 4096];
    let fp8 = Fp8Accumulation::Exact;
    let mut d = [[0; 32]; 16];
    let mut run = |a: Source<'_>, b: u64, rows: usize| {
        wgmma.execute(a, b, Scale::Overwrite, &shared, &mut d[..rows], fp8)
    };
    assert_eq!(run(Source::Shared(0), 0, 16), Ok(()));
    let error = run(Source::Shared(0), 0, 12).unwrap_err();
    assert_eq!(error, MatrixError::Registers { operand: "D", expected: 16, found: 12 });
    let registers = [[[0; 32]; 4]; 4];
    assert!(matches!(run(Source::Registers(&registers), 0, 16), Err(MatrixError::Form(_))));
    let marked = 1 << 46;
    let error = MatrixError::ReservedBits { descriptor: marked, reserved: marked };
    assert_eq!(run(Source::Shared(0), marked, 16), Err(error.clone()));
    assert_eq!(run(Source::Shared(marked), 0, 16), Err(error));
}

#[test]
fn descriptor_fields() {
    let known = Descriptor {
        start: 0x3_0400,
        leading: 16,
        stride: 1024,
        base: 0,
        swizzle: Swizzle::Bytes128,
    };
    assert_eq!(Descriptor::decode(0x4000_0040_0001_3040), Ok(known));
    let half = Descriptor::decode(0x8000_0020_0001_0000).unwrap();
    assert_eq!((half.stride, half.swizzle), (512, Swizzle::Bytes64));
    let quarter = Descriptor::decode(0xC00A_0010_0001_0000).unwrap();
    assert_eq!((quarter.stride, quarter.swizzle, quarter.base), (256, Swizzle::Bytes32, 5));
    let fields = (0..14).chain(16..30).chain(32..46).chain(49..52).chain(62..64);
    let fields: Vec<u32> = fields.collect();
    for bit in 0..64 {
        assert_eq!(Descriptor::decode(1 << bit).is_ok(), fields.contains(&bit), "bit {bit}");
    }
}

/// A pattern that starts at row 3 of the 1024 bytes: row r has its chunks exchanged by r, not by
/// the bits of its address.
#[test]
fn base_offset_moves_the_pattern() {
    let start = 5 * 1024 + 3 * 128;
    let bits = (start as u64 >> 4) | 1024 >> 4 << 32 | 3 << 49 | 1 << 62;
    let descriptor = Descriptor::decode(bits).unwrap();
    for row in 0..64 {
        for half in 0..2 {
            let expected = start + 128 * row + 16 * (half ^ (row % 8));
            assert_eq!(descriptor.k_major_chunk(row, half), expected, "{row} {half}");
        }
    }
}

#[test]
fn extreme_descriptors_do_not_panic() {
    let shared = [0; 64];
    for (a, transposed) in [(Bf16, true), (Bf16, false)] {
        let mut form = form(a, a, D32, 256);
        (form.transpose_a, form.transpose_b) = (transposed, transposed);
        let wgmma = Wgmma::new(form).unwrap();
        let mut d = vec![[0; 32]; 512];
        for swizzle in 0..4 {
            let bits = 0x000E_3FFF_3FFF_3FFF | swizzle << 62;
            let source = Source::Shared(bits);
            let scale = Scale::Accumulate;
            let result =
                wgmma.execute(source, bits, scale, &shared, &mut d, Fp8Accumulation::Exact);
            assert!(matches!(result, Err(MatrixError::OutsideShared { length: 64, .. })));
        }
        let mut chunks = Vec::new();
        wgmma.footprint_a(0, u32::MAX, &mut chunks).unwrap();
    }
}

#[test]
fn shapes_of_mma() {
    let mut accepted = Vec::new();
    for element in ALL {
        for d in [D32, D16, S32] {
            for k in [4, 8, 16, 32, 64, 128, 256] {
                if Mma::new((16, 8, k), element, element, d, false).is_ok() {
                    accepted.push((element, d, k));
                }
                assert!(Mma::new((8, 8, k), element, element, d, false).is_err());
            }
        }
    }
    let expected = [
        (Bf16, D32, 8),
        (Bf16, D32, 16),
        (F16, D32, 8),
        (F16, D32, 16),
        (F16, D16, 8),
        (F16, D16, 16),
        (Tf32, D32, 4),
        (Tf32, D32, 8),
        (E4m3, D32, 16),
        (E4m3, D32, 32),
        (E4m3, D16, 16),
        (E4m3, D16, 32),
        (E5m2, D32, 16),
        (E5m2, D32, 32),
        (E5m2, D16, 16),
        (E5m2, D16, 32),
        (S8, S32, 16),
        (S8, S32, 32),
        (U8, S32, 16),
        (U8, S32, 32),
    ];
    assert_eq!(accepted, expected);
    assert!(Mma::new((16, 8, 16), F16, F16, D32, true).is_err());
}
