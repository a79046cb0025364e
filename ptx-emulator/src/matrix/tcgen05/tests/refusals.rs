//! What descriptors, forms and addresses must not be.

use super::model::{Case, Trial};
use super::values::{Random, Type};
use crate::matrix::tcgen05::{Group, Kind, Mma, MmaForm, Operands, ScaleVector};
use crate::matrix::wgmma::Scale;

/// A form without anything special.
fn form(kind: Kind, group: Group) -> MmaForm {
    let scale_vector = match kind {
        Kind::Mxf8f6f4 => Some(ScaleVector::X1),
        Kind::Mxf4 => Some(ScaleVector::X2),
        Kind::Mxf4nvf4 => Some(ScaleVector::X4),
        _ => None,
    };
    MmaForm {
        kind,
        group,
        scale_vector,
        a_in_tensor_memory: false,
        weight_stationary: false,
        masked: false,
        shift_a: false,
        scale_input_d: None,
    }
}

/// K-major operands in the 128-byte swizzle.
const SHARED: u64 = 0x4000_4040_0001_0000;

fn operands(instruction: u32) -> Operands {
    Operands {
        d: 0,
        a: SHARED,
        b: SHARED,
        instruction,
        scales: [480, 496],
        accumulate: Scale::Overwrite,
        disabled: [0; 2],
    }
}

/// Instruction descriptors worked out by hand from tables 42 to 44, with their shapes.
#[test]
fn instruction_descriptors_of_libraries_are_understood() {
    use Kind::{F8f6f4, F16, I8, Mxf4, Mxf4nvf4, Mxf8f6f4, Tf32};
    let table = [
        (F16, Group::One, 0x0840_0490, (128, 256, 16)),
        (F16, Group::Two, 0x1040_0490, (256, 256, 16)),
        (Tf32, Group::One, 0x0802_0910, (128, 8, 8)),
        (F8f6f4, Group::One, 0x0820_0010, (128, 128, 32)),
        (I8, Group::One, 0x0410_04A0, (64, 64, 32)),
        (Mxf8f6f4, Group::One, 0x08A0_0000, (128, 128, 32)),
        (Mxf4, Group::Two, 0x10A0_0480, (256, 128, 64)),
        (Mxf4nvf4, Group::One, 0x0820_0480, (128, 128, 64)),
        (Mxf4nvf4, Group::One, 0x08A0_0480, (128, 128, 64)),
    ];
    for (kind, group, descriptor, shape) in table {
        let mma = Mma::new(&form(kind, group), &operands(descriptor));
        assert_eq!(mma.map(|mma| mma.shape()), Ok(shape), "{kind:?} {descriptor:#x}");
    }
}

/// What is refused, and words that the reason has.
fn refused(form: &MmaForm, operands: &Operands, words: &str) {
    match Mma::new(form, operands) {
        Ok(_) => panic!("{form:?} {operands:?} is taken"),
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains(words), "{text} lacks {words}");
        }
    }
}

#[test]
fn instruction_descriptors() {
    use Kind::{F8f6f4, F16, I8, Mxf4, Mxf4nvf4, Mxf8f6f4, Tf32};
    // Kind, a valid descriptor, the bits that are turned over, and words of the reason.
    let table = [
        (F16, 0x0840_0490, 1 << 2, "sparse"),
        (F16, 0x0840_0490, 0b01, "bits 0x00000001"),
        (F16, 0x0840_0490, 1 << 3, "bits 0x00000008"),
        (F16, 0x0840_0490, 1 << 6, "bits 0x00000040"),
        (F16, 0x0840_0490, 1 << 23, "bits 0x00800000"),
        (F16, 0x0840_0490, 1 << 29, "bits 0x20000000"),
        (F16, 0x0840_0490, 1 << 31, "bits 0x80000000"),
        (F16, 0x0840_0490, 1 << 4, "f16, which products of bf16"),
        (F16, 0x0840_0490, 0b11 << 4, "type 2 for D"),
        (F16, 0x0840_0490, 1 << 8, "type 3 for A"),
        (F16, 0x0840_0490, 1 << 11, "type 3 for B"),
        (F16, 0x0840_0490, 1 << 24, "shape 144x256"),
        (F16, 0x0840_0490, 1 << 17, "shape 128x264"),
        (F16, 0x0840_0490, 0b10_0000 << 17, "shape 128x0"),
        (F16, 0x0840_0490, 0b1_1000 << 24, "shape 256x256"),
        (Tf32, 0x0802_0910, 1 << 4, "type 0 for D"),
        (Tf32, 0x0802_0910, 1 << 7, "type 3 for A"),
        (F8f6f4, 0x0820_0010, 0b010 << 7, "type 2 for A"),
        (F8f6f4, 0x0820_0010, 0b110 << 10, "type 6 for B"),
        (F8f6f4, 0x0820_0010, 0b101 << 7 | 1 << 15, "less than 8 bits"),
        (F8f6f4, 0x0802_0010, 1 << 16, "steps of 16"),
        (I8, 0x0410_04A0, 1 << 13, "negates"),
        (I8, 0x0410_04A0, 1 << 14, "negates"),
        (I8, 0x0410_04A0, 0b10 << 4, "type 0 for D"),
        (I8, 0x040A_04A0, 0, "shape 64x40"),
        (Mxf8f6f4, 0x08A0_0000, 1 << 3, "bits 0x00000008"),
        (Mxf8f6f4, 0x08A0_0000, 1 << 23, "ue4m3"),
        (Mxf8f6f4, 0x08A0_0000, 1 << 24, "bits 0x01000000"),
        (Mxf8f6f4, 0x08A0_0000, 1 << 31, "bits 0x80000000"),
        (Mxf8f6f4, 0x08A0_0000, 0b11 << 27, "shape 256x128"),
        (Mxf4, 0x08A0_0480, 1 << 23, "ue4m3"),
        (Mxf4, 0x08A0_0480, 1 << 12, "bits 0x00001000"),
        (Mxf4, 0x08A0_0480, 1 << 31, "K = 96"),
        (Mxf4, 0x08A0_0480, 1 << 15, "less than 8 bits"),
        (Mxf4, 0x08A0_0480, 1 << 7, "type 0 for A"),
        (Mxf4, 0x08A0_0480, 1 << 29, "A begin at byte 1"),
        (Mxf4, 0x08A0_0480, 0b11 << 4, "B begin at byte 3"),
        (Mxf4nvf4, 0x0820_0480, 0b10 << 29, "A begin at byte 2"),
    ];
    for (kind, valid, turned, words) in table {
        let form = form(kind, Group::One);
        if turned != 0 {
            assert!(Mma::new(&form, &operands(valid)).is_ok(), "{kind:?}");
        }
        refused(&form, &operands(valid ^ turned), words);
    }
    let pair = form(F8f6f4, Group::Two);
    refused(&pair, &operands(0x0804_0010 | 1 << 16), "steps of 32");
    refused(&pair, &operands(0x0806_0010), "shape 128x24");
    refused(&form(I8, Group::Two), &operands(0x0804_04A0), "shape 128x16");
    let halves = MmaForm { scale_vector: Some(ScaleVector::X2), ..form(Mxf4nvf4, Group::One) };
    refused(&halves, &operands(0x0820_0480), "ue4m3");
    assert!(Mma::new(&halves, &operands(0x08A0_0480)).is_ok());
    let stationary = MmaForm { weight_stationary: true, ..form(F16, Group::One) };
    assert!(Mma::new(&stationary, &operands(0x0210_0490)).is_ok());
    refused(&stationary, &operands(0x0204_0490), "shape 32x16, which tcgen05.mma.ws");
    refused(&stationary, &operands(0x0210_0490 | 1 << 30), "bits 0x40000000");
    let from_tensor_memory = MmaForm { a_in_tensor_memory: true, ..form(F16, Group::One) };
    let across = Operands { a: 300, ..operands(0x0840_0490 | 1 << 15) };
    refused(&from_tensor_memory, &across, "transposes an A that is in tensor memory");
}

#[test]
fn forms() {
    let plain = form(Kind::F16, Group::One);
    let scaled = form(Kind::Mxf4, Group::One);
    let table = [
        (MmaForm { scale_vector: Some(ScaleVector::X1), ..plain }, "no scale factors"),
        (MmaForm { scale_vector: None, ..scaled }, "needs a number"),
        (MmaForm { scale_vector: Some(ScaleVector::X4), ..scaled }, "no `.scale_vec::4X`"),
        (MmaForm { masked: true, ..scaled }, "no lanes to be left out"),
        (MmaForm { scale_input_d: Some(1), ..scaled }, "cannot scale D"),
        (MmaForm { scale_input_d: Some(1), ..form(Kind::I8, Group::One) }, "cannot scale D"),
        (MmaForm { scale_input_d: Some(16), ..plain }, "0 to 15"),
        (MmaForm { weight_stationary: true, ..scaled }, "`.ws` has no `.kind::mxf4`"),
        (MmaForm { weight_stationary: true, ..form(Kind::F16, Group::Two) }, "no `.cta_group::2`"),
        (MmaForm { weight_stationary: true, masked: true, ..plain }, "left out"),
        (MmaForm { shift_a: true, ..plain }, "needs an A in tensor memory"),
        (MmaForm { shift_a: true, a_in_tensor_memory: true, ..scaled }, "has no `.ashift`"),
        (MmaForm { shift_a: true, weight_stationary: true, ..plain }, "`.ws` has no `.ashift`"),
        (MmaForm { weight_stationary: true, scale_input_d: Some(0), ..plain }, "scale D"),
    ];
    for (form, words) in table {
        let text = form.check().expect_err(words).to_string();
        assert!(text.contains(words), "{text} lacks {words}");
    }
    for form in [plain, scaled, MmaForm { masked: true, scale_input_d: Some(15), ..plain }] {
        assert_eq!(form.check(), Ok(()));
    }
}

#[test]
fn shared_memory_descriptors() {
    let form = form(Kind::F16, Group::One);
    let valid = operands(0x0840_0490);
    let table = [
        (0, 1 << 46, "0b001"),
        (0, 1 << 47, "0b001"),
        (0, 1 << 48, "0b001"),
        (0, 1 << 14, "15:14"),
        (0, 1 << 31, "15:14"),
        (0, 1 << 53, "15:14"),
        (0, 1 << 60, "15:14"),
        (0, 1 << 52, "absolute"),
        (0, 1 << 61, "swizzle of 3, 5 or 7"),
        // Across MN, 16 bits have no swizzle of 32-byte atoms.
        (1 << 15, 0b11 << 61, "transposes"),
    ];
    for (instruction, turned, words) in table {
        let instruction = valid.instruction | instruction;
        refused(&form, &Operands { a: SHARED ^ turned, instruction, ..valid }, words);
        let instruction = if instruction >> 15 & 1 == 1 { instruction << 1 } else { instruction };
        let instruction =
            instruction & 0xFFFE_0000 | valid.instruction & 0x7FFF | instruction & 0x1_0000;
        if words != "transposes" {
            refused(&form, &Operands { b: SHARED ^ turned, instruction, ..valid }, words);
        }
    }
    // And tf32 has no other.
    let form = MmaForm { kind: Kind::Tf32, ..form };
    refused(&form, &operands(0x0802_0910 | 1 << 16), "transposes");
}

#[test]
fn addresses_in_tensor_memory() {
    let plain = form(Kind::F16, Group::One);
    let valid = operands(0x0840_0490);
    refused(&plain, &Operands { d: 257, ..valid }, "columns 257 to 512");
    assert!(Mma::new(&plain, &Operands { d: 256, ..valid }).is_ok());
    refused(&plain, &Operands { d: 16 << 16, ..valid }, "lane 16");
    let narrow = operands(0x0410_0490);
    assert!(Mma::new(&plain, &Operands { d: 16 << 16, ..narrow }).is_ok());
    refused(&plain, &Operands { d: 32 << 16, ..narrow }, "lane 32");
    let from_tensor_memory = MmaForm { a_in_tensor_memory: true, ..plain };
    refused(&from_tensor_memory, &Operands { a: 505, ..valid }, "columns 505 to 512");
    refused(&from_tensor_memory, &Operands { a: 16 << 16, ..narrow }, "must be the same");
    // Rows that move are all of a block's, and none of D.
    let moving = MmaForm { shift_a: true, ..from_tensor_memory };
    refused(&moving, &Operands { a: 300, ..narrow }, "M = 64: `.ashift` takes 128 or 256");
    for (a, is_free) in [(255, false), (256, true), (3, false)] {
        let operands = Operands { a, ..valid };
        match is_free {
            true => assert!(Mma::new(&moving, &operands).is_ok()),
            false => refused(&moving, &operands, "D has columns of an A whose rows move"),
        }
        assert!(Mma::new(&from_tensor_memory, &operands).is_ok());
    }
    let scaled = form(Kind::Mxf8f6f4, Group::One);
    let valid = operands(0x08A0_0000);
    refused(&scaled, &Operands { scales: [509, 0], ..valid }, "factors of A needs columns 509");
    refused(&scaled, &Operands { scales: [0, 509], ..valid }, "factors of B needs columns 509");
    refused(&scaled, &Operands { scales: [0, 32 << 16], ..valid }, "B cannot begin at lane 32");
}

#[test]
fn copies_that_differ_and_operands_outside_of_shared_memory() {
    let mut random = Random(0x5eed_0100);
    let executed = |trial: &mut Trial| {
        let mma = Mma::new(&trial.case.form(), &trial.operands).expect("a valid product");
        let before = trial.world.tensor.clone();
        let error = mma.execute(&mut trial.world).expect_err("a fault").to_string();
        assert_eq!(trial.world.tensor, before, "{error}");
        error
    };
    for (operand, words) in [(0, "factors of A in lanes 5, 37, 69, 101"), (1, "factors of B")] {
        let case = Case::new(Kind::Mxf4, Group::Two, 256, 32, Type::E2m1);
        let mut trial = Trial::new(&mut random, case);
        let column = trial.operands.scales[operand] & 0x1FF;
        trial.world.tensor[1][column as usize][69] ^= 1;
        let text = executed(&mut trial);
        assert!(text.contains(words), "{text}");
    }
    // Bytes of other blocks of K may differ.
    let case = Case::new(Kind::Mxf4, Group::One, 128, 32, Type::E2m1);
    let mut trial = Trial::new(&mut random, case);
    let column = trial.operands.scales[0] & 0x1FF;
    trial.world.tensor[0][column as usize][69] ^= 1 << 16;
    trial.check();

    let mut case = Case::new(Kind::F16, Group::Two, 128, 32, Type::Bf16);
    case.a_in_tensor_memory = true;
    let mut trial = Trial::new(&mut random, case);
    trial.world.tensor[1][trial.operands.a as usize + 7][70] ^= 1;
    let text = executed(&mut trial);
    assert!(text.contains("lane 70") && text.contains("lane 6,"), "{text}");

    let case = Case::new(Kind::F16, Group::One, 128, 32, Type::Bf16);
    let mut trial = Trial::new(&mut random, case);
    trial.world.shared[0].truncate(0x18000);
    let text = executed(&mut trial);
    assert!(text.contains("of 0x18000"), "{text}");
}
