//! Every kind, layout and way to lie in memory.

use super::model::{Case, Trial};
use super::place::SWIZZLES;
use super::values::{Random, Type};
use crate::matrix::AccumulatorType;
use crate::matrix::tcgen05::element::{Element, Packing};
use crate::matrix::tcgen05::{Group, Kind, ScaleVector};

/// The kinds with a type of theirs.
const KINDS: [(Kind, Type); 8] = [
    (Kind::F16, Type::Bf16),
    (Kind::F16, Type::F16),
    (Kind::Tf32, Type::Tf32),
    (Kind::F8f6f4, Type::E4m3),
    (Kind::I8, Type::S8),
    (Kind::Mxf8f6f4, Type::E5m2),
    (Kind::Mxf4, Type::E2m1),
    (Kind::Mxf4nvf4, Type::E2m1),
];

/// M of the kinds without and with scale factors.
fn rows(group: Group, kind: Kind) -> &'static [u32] {
    match (group, kind.is_scaled()) {
        (Group::One, false) => &[64, 128],
        (Group::One, true) => &[128],
        (Group::Two, _) => &[128, 256],
    }
}

/// Some N that all kinds with this group have.
fn columns(random: &mut Random, group: Group) -> u32 {
    match group {
        Group::One => random.one(&[16, 32, 48, 80]),
        Group::Two => random.one(&[32, 64, 96]),
    }
}

#[test]
fn every_kind_group_major_and_swizzle() {
    let mut random = Random(0x5eed_0001);
    for (kind, ty) in KINDS {
        for group in [Group::One, Group::Two] {
            for m in rows(group, kind) {
                for (swizzle, _) in SWIZZLES {
                    for across in [[false, false], [true, false], [false, true], [true, true]] {
                        // Across MN, tf32 takes the 32-byte atoms alone and no other type does.
                        let odd = (swizzle == 1) != (kind == Kind::Tf32);
                        if across != [false; 2] && (odd || ty.bits() < 8) {
                            continue;
                        }
                        let n = columns(&mut random, group);
                        let mut case = Case::new(kind, group, *m, n, ty);
                        case.across = across;
                        let other = if across[0] != across[1] {
                            random.one(&[0, 1, 2, 4, 6])
                        } else {
                            swizzle
                        };
                        case.swizzles = match across {
                            [true, false] => [swizzle, other],
                            [false, true] => [other, swizzle],
                            _ => [swizzle; 2],
                        };
                        case.accumulate = random.flag();
                        Trial::new(&mut random, case).check();
                    }
                }
            }
        }
    }
}

#[test]
fn every_pair_of_small_types_with_a_from_either_memory() {
    let mut random = Random(0x5eed_0002);
    let types = [Type::E4m3, Type::E5m2, Type::E2m3, Type::E3m2, Type::E2m1];
    for kind in [Kind::F8f6f4, Kind::Mxf8f6f4] {
        for a in types {
            for b in types {
                for a_in_tensor_memory in [false, true] {
                    let mut case = Case::new(kind, Group::One, 128, 8, a);
                    case.types[1] = b;
                    case.a_in_tensor_memory = a_in_tensor_memory;
                    case.negated = [random.flag(), random.flag()];
                    case.swizzles = [random.one(&[0, 1, 2, 4, 6]), random.one(&[0, 1, 2, 4, 6])];
                    Trial::new(&mut random, case).check();
                }
            }
        }
    }
}

#[test]
fn types_of_integers_and_halves() {
    let mut random = Random(0x5eed_0003);
    for types in [[Type::U8, Type::U8], [Type::U8, Type::S8], [Type::S8, Type::U8]] {
        let mut case = Case::new(Kind::I8, Group::One, 64, 24, types[0]);
        case.types = types;
        Trial::new(&mut random, case).check();
    }
    let mut case = Case::new(Kind::F16, Group::One, 64, 24, Type::F16);
    case.types[1] = Type::Bf16;
    Trial::new(&mut random, case).check();
}

#[test]
fn a_in_tensor_memory_in_every_layout() {
    let mut random = Random(0x5eed_0004);
    for (kind, ty) in KINDS {
        for group in [Group::One, Group::Two] {
            for m in rows(group, kind) {
                for upper in [false, true] {
                    if upper && (*m != 64) {
                        continue;
                    }
                    let n = columns(&mut random, group);
                    let mut case = Case::new(kind, group, *m, n, ty);
                    case.a_in_tensor_memory = true;
                    case.upper = upper;
                    Trial::new(&mut random, case).check();
                }
            }
        }
    }
}

#[test]
fn rows_of_a_move_behind_the_product() {
    let mut random = Random(0x5eed_0010);
    for (kind, ty) in KINDS.into_iter().filter(|(kind, _)| !kind.is_scaled()) {
        for (group, m) in [(Group::One, 128), (Group::Two, 128), (Group::Two, 256)] {
            let n = columns(&mut random, group);
            let mut case = Case::new(kind, group, m, n, ty);
            case.a_in_tensor_memory = true;
            case.shift_a = true;
            case.accumulate = random.flag();
            // D of these lanes stays, A moves there as well.
            case.disabled = [u128::from(random.next()) << 40, 0];
            Trial::new(&mut random, case).check();
        }
    }
}

#[test]
fn weight_stationary_layouts() {
    let mut random = Random(0x5eed_0005);
    for (kind, ty) in KINDS.into_iter().filter(|(kind, _)| !kind.is_scaled()) {
        for m in [32, 64, 128] {
            for n in [64, 128, 256] {
                let mut case = Case::new(kind, Group::One, m, n, ty);
                case.stationary = true;
                case.a_in_tensor_memory = random.flag();
                case.accumulate = random.flag();
                Trial::new(&mut random, case).check();
            }
        }
    }
}

#[test]
fn sums_in_f16_and_scaled_sums() {
    let mut random = Random(0x5eed_0006);
    for (kind, ty) in [(Kind::F16, Type::F16), (Kind::F8f6f4, Type::E2m3)] {
        for (group, m) in
            [(Group::One, 64), (Group::One, 128), (Group::Two, 128), (Group::Two, 256)]
        {
            for accumulate in [false, true] {
                let mut case = Case::new(kind, group, m, 32, ty);
                case.d = AccumulatorType::F16;
                case.accumulate = accumulate;
                Trial::new(&mut random, case).check();
            }
        }
    }
    for (kind, ty) in [(Kind::F16, Type::Bf16), (Kind::Tf32, Type::Tf32)] {
        for shift in [0, 1, 7, 15] {
            let mut case = Case::new(kind, Group::One, 128, 16, ty);
            case.shift = Some(shift);
            Trial::new(&mut random, case).check();
        }
    }
}

#[test]
fn integers_wrap_or_saturate() {
    let mut random = Random(0x5eed_0007);
    for saturate in [false, true] {
        let mut case = Case::new(Kind::I8, Group::One, 128, 64, Type::U8);
        case.saturate = saturate;
        let mut trial = Trial::new(&mut random, case);
        trial.set_accumulators(|at| if at % 2 == 0 { i32::MAX - 7 } else { i32::MIN + 7 });
        trial.check();
        case.types = [Type::S8; 2];
        let mut trial = Trial::new(&mut random, case);
        trial.set_accumulators(|at| if at % 2 == 0 { i32::MAX - 7 } else { i32::MIN + 7 });
        trial.check();
    }
}

#[test]
fn lanes_that_are_left_out_keep_d() {
    let mut random = Random(0x5eed_0008);
    for (group, m) in [(Group::One, 64), (Group::One, 128), (Group::Two, 128), (Group::Two, 256)] {
        let mut case = Case::new(Kind::F16, group, m, 32, Type::Bf16);
        case.disabled = [0, 1].map(|block| {
            if block == 1 && group == Group::One {
                0
            } else {
                u128::from(random.next()) << 31 | 0b1011
            }
        });
        Trial::new(&mut random, case).check();
    }
}

#[test]
fn scale_factors_of_every_type_size_and_place() {
    use ScaleVector::{X1, X2, X4};
    let mut random = Random(0x5eed_0009);
    let table = [
        (Kind::Mxf8f6f4, Type::E4m3, X1, true, &[0, 1, 2, 3][..]),
        (Kind::Mxf4, Type::E2m1, X2, true, &[0, 2]),
        (Kind::Mxf4nvf4, Type::E2m1, X2, true, &[0, 2]),
        (Kind::Mxf4nvf4, Type::E2m1, X4, true, &[0]),
        (Kind::Mxf4nvf4, Type::E2m1, X4, false, &[0]),
    ];
    for (kind, ty, vector, is_ue8m0, bytes) in table {
        for (group, m, n) in [
            (Group::One, 128, 8),
            (Group::One, 128, 40),
            (Group::One, 128, 168),
            (Group::Two, 128, 16),
            (Group::Two, 128, 144),
            (Group::Two, 256, 208),
        ] {
            for byte in bytes {
                let mut case = Case::new(kind, group, m, n, ty);
                case.scales = Some((vector, is_ue8m0, [*byte, random.one(bytes)]));
                case.accumulate = random.flag();
                Trial::new(&mut random, case).check();
            }
        }
    }
}

/// Products do not tell in which order the two numbers of a byte stand, since both operands have
/// the same; readers of the layouts do.
#[test]
fn the_lower_half_of_a_byte_comes_first() {
    let mut row = [0; 32];
    row[0] = 0x21;
    row[31] = 0x9F;
    let values: [f32; 64] = Element::E2m1.decode(Packing::Dense, &row);
    assert_eq!(
        (values[..3].to_vec(), values[62..].to_vec()),
        (vec![0.5, 1.0, 0.0], vec![-6.0, -0.5])
    );
}
