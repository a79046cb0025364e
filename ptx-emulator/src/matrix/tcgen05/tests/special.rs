//! Infinities, NaN, what is too large, and operands of no sense at all.

use super::model::World;
use super::values::Random;
use crate::matrix::tcgen05::{Group, Kind, Mma, MmaForm, Operands, ScaleVector};
use crate::matrix::wgmma::Scale;

/// Neither swizzle nor anything else; chunks of a row 128 bytes apart, groups of rows 256.
const START: u64 = 1 << 46 | 16 << 32 | 8 << 16;

fn form(kind: Kind) -> MmaForm {
    MmaForm {
        kind,
        group: Group::One,
        scale_vector: None,
        a_in_tensor_memory: false,
        weight_stationary: false,
        masked: false,
        shift_a: false,
        scale_input_d: None,
    }
}

/// The first element of D, where the only elements other than zero are the first of A, of B and of
/// D.
fn product(form: &MmaForm, instruction: u32, [a, b, d]: [u32; 3], factors: [u8; 2]) -> u32 {
    let mut world = World::empty();
    world.shared[0][..4].copy_from_slice(&a.to_le_bytes());
    world.shared[0][0x8000..0x8004].copy_from_slice(&b.to_le_bytes());
    world.tensor[0][0][0] = d;
    for (column, factor) in [(256, factors[0]), (264, factors[1])] {
        for lanes in &mut world.tensor[0][column..column + 4] {
            lanes.fill(u32::from(factor) * 0x0101_0101);
        }
    }
    let operands = Operands {
        d: 0,
        a: START,
        b: START | 0x800,
        instruction,
        scales: [256, 264],
        accumulate: Scale::Accumulate,
        disabled: [0; 2],
    };
    let mma = Mma::new(form, &operands).expect("a valid product");
    mma.execute(&mut world).expect("operands in memory");
    world.tensor[0][0][0]
}

#[test]
fn infinities_nan_and_overflow() {
    const NAN: u32 = 0x7FFF_FFFF;
    let single = f32::to_bits;
    // Kind, instruction descriptor, the codes of A and B, and D before and after.
    let table = [
        // bf16: infinity times zero elsewhere in the row is zero times zero.
        (Kind::F16, 0x0802_0490, [0x7F80, 0x3F80, 0], single(f32::INFINITY)),
        (Kind::F16, 0x0802_0490, [0x7F80, 0xBF80, 0], single(f32::NEG_INFINITY)),
        (Kind::F16, 0x0802_0490, [0x7F80, 0x0000, 0], NAN),
        (Kind::F16, 0x0802_0490, [0x7F80, 0x3F80, single(f32::NEG_INFINITY)], NAN),
        (Kind::F16, 0x0802_0490, [0x7FC0, 0x3F80, 0], NAN),
        (Kind::F16, 0x0802_0490, [0x7F00, 0x7F00, 0], single(f32::INFINITY)),
        (Kind::F16, 0x0802_0490, [0x3F80, 0x3F80, single(-1.0)], 0),
        // Subnormal numbers count: 2^-133 times 2^10, and 2^-24 of f16 times 2.
        (Kind::F16, 0x0802_0490, [0x0001, 0x4480, 0], single(2f32.powi(-123))),
        (Kind::F16, 0x0802_0010, [0x0001, 0x4000, 0], single(2f32.powi(-23))),
        // f16 sums: 256 times 255.875 and 256 times 256, to nearest; the upper half is cleared.
        (Kind::F16, 0x0802_0000, [0x5C00, 0x5BFF, 0x1234_0000], 0x7BFF),
        (Kind::F16, 0x0802_0000, [0x5C00, 0x5C00, 0], 0x7C00),
        (Kind::F16, 0x0802_0000, [0x7E00, 0x3C00, 0], 0x7FFF),
        // 1 + 2^-24 is cut, and so is -1 - 2^-24.
        (Kind::F16, 0x0802_0490, [0x3980, 0x3980, single(1.0)], single(1.0)),
        (Kind::F16, 0x0802_0490, [0x3980, 0xB980, single(-1.0)], single(-1.0)),
        (Kind::F16, 0x0802_0490, [0x3980, 0x3A80, single(1.0)], 0x3F80_0002),
        // The low bits of tf32 do not count.
        (Kind::Tf32, 0x0802_0910, [0x3F80_1FFF, 0x3F80_2000, 0], 0x3F80_2000),
        (Kind::F8f6f4, 0x0802_0010, [0x7F, 0x38, 0], NAN),
        (Kind::F8f6f4, 0x0802_0490, [0x7C, 0x3C, 0], single(f32::INFINITY)),
        (Kind::F8f6f4, 0x0802_0490, [0x7D, 0x3C, 0], NAN),
        (Kind::F8f6f4, 0x0802_0000, [0x7E, 0x7E, 0], 0x7C00),
        (Kind::I8, 0x0802_04A0, [0x80, 0x80, 0xFFFF_FFFF], 16_383),
        (Kind::I8, 0x0802_0028, [0xFF, 0xFF, 0x7FFF_FFFF], 0x7FFF_FFFF),
    ];
    for (kind, instruction, codes, wanted) in table {
        let found = product(&form(kind), instruction, codes, [0; 2]);
        assert_eq!(found, wanted, "{kind:?} {instruction:#x} {codes:#x?}: {found:#x}");
    }
}

#[test]
fn scale_factors_at_their_ends() {
    const NAN: u32 = 0x7FFF_FFFF;
    let single = f32::to_bits;
    let mx = MmaForm { scale_vector: Some(ScaleVector::X1), ..form(Kind::Mxf8f6f4) };
    let nv = MmaForm { scale_vector: Some(ScaleVector::X4), ..form(Kind::Mxf4nvf4) };
    let table = [
        // 1 times 1, with factors of 2^-127, 2^127 and NaN.
        (mx, 0x0882_0000, 0x38, [0, 254], 1.0f32.to_bits()),
        (mx, 0x0882_0000, 0x38, [254, 254], single(f32::INFINITY)),
        (mx, 0x0882_0000, 0x38, [0, 0], 0),
        (mx, 0x0882_0000, 0x38, [0, 127], 0x0040_0000),
        (mx, 0x0882_0000, 0x38, [255, 127], NAN),
        (mx, 0x0882_0000, 0x00, [127, 255], NAN),
        // 6 times 6 with the largest factors, the smallest, NaN, and a sign that does not count.
        (nv, 0x0802_0480, 0x07, [0x7E, 0x7E], single(36.0 * 448.0 * 448.0)),
        (nv, 0x0802_0480, 0x07, [0x01, 0x38], single(36.0 / 512.0)),
        (nv, 0x0802_0480, 0x07, [0x7F, 0x38], NAN),
        (nv, 0x0802_0480, 0x07, [0xB8, 0x38], single(36.0)),
    ];
    for (form, instruction, code, factors, wanted) in table {
        let found = product(&form, instruction, [code, code, 0], factors);
        assert_eq!(found, wanted, "{:?} {factors:?}: {found:#x}", form.kind);
    }
}

#[test]
fn operands_of_no_sense_end_in_errors() {
    let mut random = Random(0x5eed_0200);
    let kinds = [
        (Kind::F16, None, 0x0802_0490),
        (Kind::Tf32, None, 0x0802_0910),
        (Kind::F8f6f4, None, 0x0804_0010),
        (Kind::I8, None, 0x0804_04A0),
        (Kind::Mxf8f6f4, Some(ScaleVector::X1), 0x0882_0000),
        (Kind::Mxf4, Some(ScaleVector::X2), 0x0882_0480),
        (Kind::Mxf4nvf4, Some(ScaleVector::X4), 0x0802_0480),
    ];
    let (mut executed, mut refused) = (0, 0);
    let mut world = World::empty();
    for _ in 0..30_000 {
        let (kind, scale_vector, instruction) = random.one(&kinds);
        let rare = |random: &mut Random| random.below(4) == 0;
        let form = MmaForm {
            scale_vector,
            group: random.one(&[Group::One, Group::Two]),
            a_in_tensor_memory: rare(&mut random),
            weight_stationary: rare(&mut random),
            masked: rare(&mut random),
            shift_a: rare(&mut random),
            scale_input_d: if rare(&mut random) { Some(random.below(20)) } else { None },
            ..form(kind)
        };
        let noise = |random: &mut Random| if rare(random) { 1 << random.below(32) } else { 0 };
        let descriptor = |random: &mut Random| {
            let fields = u64::from(random.next()) << 32 | u64::from(random.next());
            let swizzle = random.one(&[0u64, 1, 2, 4, 6]) << 61;
            let kept = 0x000E_3FFF_3FFF_3FFF;
            fields & kept | 1 << 46 | swizzle | u64::from(noise(random)) << 32
        };
        let mut operands = Operands {
            d: random.below(512) | noise(&mut random),
            a: descriptor(&mut random),
            b: descriptor(&mut random),
            instruction: instruction ^ noise(&mut random),
            scales: [random.next(), random.below(512)],
            accumulate: random.one(&[Scale::Overwrite, Scale::Accumulate]),
            disabled: [u128::from(random.next()); 2],
        };
        if form.a_in_tensor_memory {
            operands.a = u64::from(random.below(520));
        }
        let length = random.one(&[0, 100, 0x30000]);
        world.shared.iter_mut().for_each(|shared| shared.resize(length, 0));
        match Mma::new(&form, &operands) {
            Err(error) => assert!(!error.to_string().is_empty()),
            Ok(mma) => {
                assert!(!mma.footprint().written.is_empty());
                match mma.execute(&mut world) {
                    Ok(()) => executed += 1,
                    Err(_) => refused += 1,
                }
            }
        }
    }
    assert!(executed > 100 && refused > 100, "{executed} {refused}");
}
