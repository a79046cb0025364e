use half::{bf16, f16};

use super::super::TensorDataType as T;
use super::super::reduce::{ReduceError, ReduceOp as Op, reduce};
use super::Numbers;

/// Reduces one element, of which `old` and `new` are the bits.
fn one(op: Op, data_type: T, old: u64, new: u64) -> u64 {
    let size = data_type.bytes().expect("whole bytes") as usize;
    let mut bytes = old.to_le_bytes();
    let done = reduce(op, data_type, &mut bytes[..size], &new.to_le_bytes()[..size]);
    assert_eq!(done, Ok(()), "{op:?} {data_type:?}");
    u64::from_le_bytes(bytes)
}

#[test]
fn integers() {
    let (m32, m64) = (u64::from(u32::MAX), u64::MAX);
    let cases = [
        (Op::Add, T::U32, m32, 3, 2),
        (Op::Add, T::I32, m32, 3, 2),
        (Op::Add, T::U64, m64, 3, 2),
        (Op::Min, T::U32, m32, 3, 3),
        (Op::Max, T::U32, m32, 3, m32),
        (Op::Min, T::I32, m32, 3, m32),
        (Op::Max, T::I32, m32, 3, 3),
        (Op::Min, T::U64, m64, 3, 3),
        (Op::Max, T::U64, m64, 3, m64),
        (Op::Min, T::I64, m64, 3, m64),
        (Op::Max, T::I64, m64, 3, 3),
        (Op::Inc, T::U32, 4, 5, 5),
        (Op::Inc, T::U32, 5, 5, 0),
        (Op::Inc, T::U32, 6, 5, 0),
        (Op::Inc, T::U32, m32, m32, 0),
        (Op::Dec, T::U32, 5, 5, 4),
        (Op::Dec, T::U32, 0, 5, 5),
        (Op::Dec, T::U32, 9, 5, 5),
        (Op::And, T::U32, 0b1100, 0b1010, 0b1000),
        (Op::Or, T::I32, 0b1100, 0b1010, 0b1110),
        (Op::Xor, T::U32, 0b1100, 0b1010, 0b0110),
        (Op::And, T::U64, 0b1100 << 40, 0b1010 << 40, 0b1000 << 40),
        (Op::Xor, T::U64, 0b1100 << 40, 0b1010 << 40, 0b0110 << 40),
    ];
    for (op, data_type, old, new, expected) in cases {
        assert_eq!(one(op, data_type, old, new), expected, "{op:?} {data_type:?} {old} {new}");
    }
}

#[test]
fn floating_point_numbers() {
    let single = |value: f32| u64::from(value.to_bits());
    let (tiny, least) = (1u64, single(f32::MIN_POSITIVE));
    let minus = 1 << 31;
    let cases = [
        (Op::Add, T::F32, single(1.5), single(2.25), single(3.75)),
        (Op::Add, T::F32, single(1.0), single(2f32.powi(-24)), single(1.0)),
        // Subnormal operands and sums are flushed, keeping their signs, of one type only.
        (Op::Add, T::F32Ftz, tiny, tiny, 0),
        (Op::Add, T::F32Ftz, tiny | minus, minus, minus),
        (Op::Add, T::F32Ftz, least + 1, least | minus, 0),
        (Op::Add, T::F32Ftz, (least + 1) | minus, least, minus),
        (Op::Add, T::F32Ftz, least, tiny, least),
        (Op::Add, T::F32, tiny, tiny, 2),
        (Op::Add, T::F32, least, tiny, least + 1),
        (Op::Add, T::F32, single(f32::INFINITY), single(f32::NEG_INFINITY), 0x7fff_ffff),
        (Op::Add, T::F64, 1, 1, 2),
        (Op::Add, T::F64, 1.5f64.to_bits(), 2f64.to_bits(), 3.5f64.to_bits()),
        (Op::Add, T::F64, f64::NAN.to_bits() | 1 << 63, 0, 0x7fff_ffff_ffff_ffff),
        // 16 bits: subnormals are kept, ties go to even.
        (Op::Add, T::F16, 1, 1, 2),
        (Op::Add, T::F16, 0x3c00, 0x1000, 0x3c00),
        (Op::Add, T::F16, 0x3c01, 0x1000, 0x3c02),
        (Op::Add, T::F16, 0x7bff, 0x7bff, 0x7c00),
        (Op::Add, T::F16, 0x7c00, 0xfc00, 0x7fff),
        (Op::Add, T::Bf16, 1, 1, 2),
        (Op::Add, T::Bf16, 0x3f80, 0x3b80, 0x3f80),
        (Op::Add, T::Bf16, 0x3f81, 0x3b80, 0x3f82),
        (Op::Add, T::Bf16, 0xff81, 0, 0x7fff),
    ];
    for (op, data_type, old, new, expected) in cases {
        let found = one(op, data_type, old, new);
        assert_eq!(found, expected, "{op:?} {data_type:?} {old:#x} {new:#x}: {found:#x}");
    }
}

#[test]
fn halves_add_as_if_exactly_and_rounded_once() {
    let mut numbers = Numbers(5);
    for _ in 0..200_000 {
        let (old, new) = (numbers.next() as u16, numbers.next() as u16);
        let exact = f16::from_bits(old).to_f64() + f16::from_bits(new).to_f64();
        if exact.is_finite() {
            // Sums of halves are exact in double precision.
            let found = one(Op::Add, T::F16, old.into(), new.into());
            assert_eq!(found, u64::from(f16::from_f64(exact).to_bits()), "{old:#x} {new:#x}");
        }
    }
}

#[test]
fn smaller_and_larger_halves() {
    for (data_type, infinity, one_bits) in [(T::F16, 0x7c00, 0x3c00), (T::Bf16, 0x7f80, 0x3f80)] {
        let minus = 0x8000;
        let nan = infinity + 1;
        // Smaller first; numbers beat NaN.
        let ascending =
            [infinity | minus, one_bits | minus, 1 | minus, minus, 0, 1, one_bits, infinity];
        for (index, &low) in ascending.iter().enumerate() {
            for &high in &ascending[index..] {
                for (a, b) in [(low, high), (high, low)] {
                    assert_eq!(one(Op::Min, data_type, a, b), low, "{data_type:?} {a:#x} {b:#x}");
                    assert_eq!(one(Op::Max, data_type, a, b), high, "{data_type:?} {a:#x} {b:#x}");
                }
            }
            for op in [Op::Min, Op::Max] {
                for quiet in [nan, nan | minus, 0x7fff] {
                    assert_eq!(one(op, data_type, low, quiet), low);
                    assert_eq!(one(op, data_type, quiet, low), low);
                }
            }
        }
        assert_eq!(one(Op::Min, data_type, nan, nan | minus), 0x7fff);
    }
    assert!(bf16::from_bits(0x7f81).is_nan() && f16::from_bits(0x7c01).is_nan());
}

#[test]
fn only_what_the_hardware_has_is_legal() {
    let legal: [(Op, &[T]); 8] = [
        (Op::Add, &[T::U32, T::I32, T::U64, T::F16, T::F32, T::F64, T::Bf16, T::F32Ftz]),
        (Op::Min, &[T::U32, T::I32, T::U64, T::I64, T::F16, T::Bf16]),
        (Op::Max, &[T::U32, T::I32, T::U64, T::I64, T::F16, T::Bf16]),
        (Op::Inc, &[T::U32]),
        (Op::Dec, &[T::U32]),
        (Op::And, &[T::U32, T::I32, T::U64]),
        (Op::Or, &[T::U32, T::I32, T::U64]),
        (Op::Xor, &[T::U32, T::I32, T::U64]),
    ];
    for (op, types) in legal {
        assert_eq!(Op::from_name(op.name()), Some(op));
        for data_type in T::ALL {
            let found = reduce(op, data_type, &mut [0; 16], &[0; 16]);
            let error = ReduceError::Type { op, data_type };
            assert_eq!(found, if types.contains(&data_type) { Ok(()) } else { Err(error) });
        }
    }
    assert_eq!(Op::from_name("exch"), None);
}

#[test]
fn lengths_must_agree() {
    let mut bytes = [1, 0, 0, 0, 2, 0, 0, 0];
    assert_eq!(reduce(Op::Add, T::U32, &mut bytes, &[5, 0, 0, 0, 6, 0, 0, 0]), Ok(()));
    assert_eq!(bytes, [6, 0, 0, 0, 8, 0, 0, 0]);
    for (source, destination) in [(8, 4), (4, 8), (6, 6), (7, 8)] {
        let length = ReduceError::Length {
            source_bytes: source,
            destination_bytes: destination,
            element: 4,
        };
        let found = reduce(Op::Add, T::U32, &mut bytes[..destination], &[0; 8][..source]);
        assert_eq!(found, Err(length));
    }
}
