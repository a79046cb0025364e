//! Whole instructions against sums in `f64` over an independent layout.

use super::mma::b_fragment;
use super::oracle::*;
use crate::matrix::fp8::Fp8Accumulation;
use crate::matrix::mma::Mma;
use crate::matrix::wgmma::{Scale, Source, Wgmma, WgmmaForm};
use crate::matrix::{AccumulatorType, ElementType, MatrixError, Row};

use AccumulatorType::{F16 as D16, F32 as D32, S32};
use ElementType::{B1, Bf16, E4m3, E5m2, F16, S8, Tf32, U8};

const TYPES: [(ElementType, ElementType, AccumulatorType); 17] = [
    (Bf16, Bf16, D32),
    (F16, F16, D32),
    (F16, F16, D16),
    (Tf32, Tf32, D32),
    (E4m3, E4m3, D32),
    (E4m3, E5m2, D32),
    (E5m2, E4m3, D32),
    (E5m2, E5m2, D32),
    (E4m3, E4m3, D16),
    (E4m3, E5m2, D16),
    (E5m2, E4m3, D16),
    (E5m2, E5m2, D16),
    (S8, S8, S32),
    (S8, U8, S32),
    (U8, S8, S32),
    (U8, U8, S32),
    (B1, B1, S32),
];

pub(super) fn form(a: ElementType, b: ElementType, d: AccumulatorType, n: u32) -> WgmmaForm {
    WgmmaForm {
        shape: (64, n, a.per_row()),
        a,
        b,
        d,
        a_in_registers: false,
        negate_a: false,
        negate_b: false,
        transpose_a: false,
        transpose_b: false,
        saturate: false,
    }
}

/// A prepared instruction with everything it reads.
struct Case {
    form: WgmmaForm,
    wgmma: Wgmma,
    a: Codes,
    b: Codes,
    shared: Vec<u8>,
    placed_a: Placed,
    placed_b: Placed,
    fragments: [[Row; 4]; 4],
    before: Vec<Row>,
}

impl Case {
    fn new(random: &mut Random, form: WgmmaForm, widths: (usize, usize)) -> Self {
        let wgmma = Wgmma::new(form).unwrap();
        let mut shared: Vec<u8> = (0..192 * 1024).map(|_| random.next() as u8).collect();
        let a = random_codes(random, form.a, 64);
        let b = random_codes(random, form.b, form.shape.1 as usize);
        let slice = random.next() as usize % 4;
        let at_a = Placement { width: widths.0, transposed: form.transpose_a, base: 2048, slice };
        let at_b =
            Placement { width: widths.1, transposed: form.transpose_b, base: 64 * 1024, slice };
        let placed_a = place(&mut shared, form.a, &a, at_a);
        let placed_b = place(&mut shared, form.b, &b, at_b);
        let fragments = std::array::from_fn(|warp| {
            a_fragment(form.a, &a[16 * warp..][..16], 4).try_into().unwrap()
        });
        let rows = 4 * wgmma.accumulator_registers();
        let before = (0..rows).map(|_| random_accumulator(random, form.d)).collect();
        Self { form, wgmma, a, b, shared, placed_a, placed_b, fragments, before }
    }

    fn run(&self, scale: Scale, fp8: Fp8Accumulation) -> Vec<Row> {
        let mut d = self.before.clone();
        let a = match self.form.a_in_registers {
            true => Source::Registers(&self.fragments),
            false => Source::Shared(self.placed_a.descriptor),
        };
        let b = self.placed_b.descriptor;
        self.wgmma.execute(a, b, scale, &self.shared, &mut d, fp8).unwrap();
        d
    }

    fn bits(&self, d: &[Row], row: usize, column: usize) -> u32 {
        let registers = self.wgmma.accumulator_registers();
        let warp = &d[row / 16 * registers..][..registers];
        accumulator(self.form.d, warp, row % 16, column)
    }

    /// The sum of one element, in the order of k.
    fn exact(&self, scale: Scale, row: usize, column: usize) -> f64 {
        let sign = if self.form.negate_a != self.form.negate_b { -1.0 } else { 1.0 };
        let products = self.a[row].iter().zip(&self.b[column]);
        let sum: f64 = products.map(|(a, b)| value(self.form.a, *a) * value(self.form.b, *b)).sum();
        let before = accumulator_value(self.form.d, self.bits(&self.before, row, column));
        sign * sum + if scale == Scale::Accumulate { before } else { 0.0 }
    }

    fn check(&self, widths: (usize, usize)) {
        for scale in [Scale::Overwrite, Scale::Accumulate] {
            let d = self.run(scale, Fp8Accumulation::Exact);
            for row in 0..64 {
                for column in 0..self.form.shape.1 as usize {
                    let what = || format!("{row},{column} {scale:?} {widths:?} {:?}", self.form);
                    let exact = self.exact(scale, row, column);
                    check_result(self.form.d, self.bits(&d, row, column), exact, &what);
                }
            }
        }
    }
}

#[test]
fn every_type_and_swizzle_with_k_contiguous() {
    let mut random = Random(1);
    for (a, b, d) in TYPES {
        for (widths, n) in [((16, 16), 24), ((32, 64), 8), ((64, 128), 64), ((128, 32), 96)] {
            let float = !a.is_integer();
            let mut form = form(a, b, d, n);
            form.negate_a = float && random.flag();
            form.negate_b = float && random.flag();
            Case::new(&mut random, form, widths).check(widths);
        }
        let widest = (128, 128);
        Case::new(&mut random, form(a, b, d, 256), widest).check(widest);
    }
}

#[test]
fn every_swizzle_with_m_or_n_contiguous() {
    let mut random = Random(2);
    for (a, d) in [(Bf16, D32), (F16, D32), (F16, D16)] {
        for transposes in [(true, false), (false, true), (true, true)] {
            for (widths, n) in [
                ((16, 16), 40),
                ((32, 32), 8),
                ((64, 64), 72),
                ((128, 128), 256),
                ((128, 32), 200),
                ((32, 16), 24),
            ] {
                let mut form = form(a, a, d, n);
                (form.transpose_a, form.transpose_b) = transposes;
                Case::new(&mut random, form, widths).check(widths);
            }
        }
    }
}

#[test]
fn a_from_registers() {
    let mut random = Random(3);
    for (a, b, d) in TYPES {
        let mut form = form(a, b, d, 32);
        form.a_in_registers = true;
        form.negate_a = !a.is_integer();
        Case::new(&mut random, form, (128, 64)).check((0, 64));
    }
}

/// The D registers of a warpgroup hold each element of 64 x N exactly once.
#[test]
fn accumulators_are_a_bijection() {
    // With A the unit rows and B distinct numbers, row r of D is k = r of B; 16 rows at a time.
    for first in [0, 16, 32, 48] {
        let mut random = Random(4);
        let mut case = Case::new(&mut random, form(Bf16, Bf16, D32, 8), (128, 128));
        let one = 0x3F80;
        case.a = (0..64)
            .map(|row| (0..16).map(|k| if row == first + k { one } else { 0 }).collect())
            .collect();
        // 1 + (k + 16 n) / 128 has seven fraction bits.
        case.b = (0..8).map(|n| (0..16).map(|k| one + (k + 16 * n)).collect()).collect();
        let placement = Placement { width: 128, transposed: false, base: 0, slice: 0 };
        let a = place(&mut case.shared, Bf16, &case.a, placement);
        let placement = Placement { base: 16 * 1024, ..placement };
        let b = place(&mut case.shared, Bf16, &case.b, placement);
        (case.placed_a, case.placed_b) = (a, b);
        let d = case.run(Scale::Overwrite, Fp8Accumulation::Hardware);
        let mut found: Vec<u32> = d.as_flattened().iter().filter(|&&x| x != 0).copied().collect();
        found.sort_unstable();
        let expected: Vec<u32> = (0..128).map(|index| 0x3F80_0000 + (index << 16)).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn integers_saturate_or_wrap() {
    let ends = [(0x7FFF_FFF0u32, 127, 127), (0x8000_0010, 127, 128)];
    for (before, a, b) in ends {
        for saturate in [false, true] {
            let mut case = Case::new(
                &mut Random(5),
                WgmmaForm { saturate, ..form(S8, S8, S32, 8) },
                (128, 128),
            );
            case.before.fill([before; 32]);
            case.a = vec![vec![a; 32]; 64];
            case.b = vec![vec![b; 32]; 8];
            let placement = Placement { width: 128, transposed: false, base: 0, slice: 0 };
            case.placed_a = place(&mut case.shared, S8, &case.a, placement);
            let placement = Placement { base: 16 * 1024, ..placement };
            case.placed_b = place(&mut case.shared, S8, &case.b, placement);
            let d = case.run(Scale::Accumulate, Fp8Accumulation::Exact);
            let sum = 32 * 127 * if b == 127 { 127 } else { -128 };
            let expected = match saturate {
                true => (before as i32).saturating_add(sum),
                false => (before as i32).wrapping_add(sum),
            };
            assert!(d.as_flattened().iter().all(|&word| word as i32 == expected), "{saturate}");
        }
    }
}

/// In hardware mode, a block of 16 by 8 is what `mma` computes, whose numbers have their own test.
#[test]
fn reduced_precision_is_that_of_mma() {
    let mut random = Random(9);
    for (a, b, d) in TYPES.into_iter().filter(|types| types.0.is_fp8()) {
        let mut case = Case::new(&mut random, form(a, b, d, 24), (128, 64));
        let plain = case.run(Scale::Accumulate, Fp8Accumulation::Hardware);
        let mma = Mma::new((16, 8, 32), a, b, d, false).unwrap();
        let count = mma.accumulator_registers();
        for (index, found) in plain.chunks(count).enumerate() {
            let (warp, group) = (index / 3, index % 3);
            let mut block = case.before[count * index..][..count].to_vec();
            let columns = b_fragment(b, &case.b[8 * group..][..8].to_vec(), 2);
            let fp8 = Fp8Accumulation::Hardware;
            mma.execute(&case.fragments[warp], &columns, &mut block, fp8).unwrap();
            assert_eq!(block, found, "{a:?} {b:?} {d:?} {warp} {group}");
        }
        // A sign for all of A changes the sign of all sums, and nothing else.
        let overwritten = case.run(Scale::Overwrite, Fp8Accumulation::Hardware);
        case.wgmma = Wgmma::new(WgmmaForm { negate_a: true, ..case.form }).unwrap();
        let negated = case.run(Scale::Overwrite, Fp8Accumulation::Hardware);
        for row in 0..64 {
            for column in 0..24 {
                let [one, other] = [&overwritten, &negated]
                    .map(|d| accumulator_value(case.form.d, case.bits(d, row, column)));
                assert_eq!(one, -other);
            }
        }
    }
}

/// Infinities and NaN stay in their rows and columns, and are those of IEEE sums.
#[test]
fn specials_do_not_spread() {
    let specials = [
        (Bf16, D32, 0x7F80, 0x7FC1),
        (F16, D32, 0x7C00, 0x7E01),
        (F16, D16, 0xFC00, 0xFE01),
        (Tf32, D32, 0x7F80_0000, 0x7FC0_0000),
        (E5m2, D32, 0x7C, 0x7E),
        (E5m2, D16, 0xFC, 0x7D),
        (E4m3, D32, 0x7F, 0xFF),
    ];
    for (element, d, infinity, nan) in specials {
        for fp8 in [Fp8Accumulation::Hardware, Fp8Accumulation::Exact] {
            let mut case = Case::new(&mut Random(6), form(element, element, d, 16), (16, 16));
            case.a[20][1] = 0;
            case.a[5] = case.a[4].clone();
            let clean = case.run(Scale::Accumulate, fp8);
            case.a[5][3] = nan;
            case.a[40][2] = infinity;
            case.b[7][1] = infinity;
            // Finite factors beside the infinities: one product of each sign, one zero.
            case.before[0][1] = if d == D16 { 0x7C00 } else { f32::INFINITY.to_bits() };
            let at = |base| Placement { width: 16, transposed: false, base, slice: 0 };
            case.placed_a = place(&mut case.shared, element, &case.a, at(0));
            case.placed_b = place(&mut case.shared, element, &case.b, at(16 * 1024));
            let result = case.run(Scale::Accumulate, fp8);
            let clean_case = |row, column| case.bits(&clean, row, column);
            for row in 0..64 {
                for column in 0..16 {
                    let exact = case.exact(Scale::Accumulate, row, column);
                    let bits = case.bits(&result, row, column);
                    let what =
                        format!("{element:?} {d:?} {fp8:?} {row},{column}: {bits:#x} {exact}");
                    if exact.is_nan() {
                        assert_eq!(bits, if d == D16 { 0x7FFF } else { 0x7FFF_FFFF }, "{what}");
                    } else if exact.is_infinite() {
                        assert_eq!(accumulator_value(d, bits), exact, "{what}");
                    } else if row != 20 && row != 5 {
                        assert_eq!(bits, clean_case(row, column), "{what}");
                    }
                }
            }
            assert!(case.exact(Scale::Accumulate, 5, 0).is_nan());
            assert!(case.exact(Scale::Accumulate, 20, 7).is_nan());
        }
    }
}

#[test]
fn footprints_are_the_chunks_that_hold_the_operands() {
    let mut random = Random(7);
    for transposed in [false, true] {
        for width in [16, 32, 64, 128] {
            let mut form = form(Bf16, Bf16, D32, 48);
            (form.transpose_a, form.transpose_b) = (transposed, transposed);
            let case = Case::new(&mut random, form, (width, width));
            for warp in 0..4 {
                let mut found = vec![7];
                case.wgmma.footprint_a(case.placed_a.descriptor, warp, &mut found).unwrap();
                assert_eq!(found.remove(0), 7);
                let rows = 16 * warp as usize..16 * (warp as usize + 1);
                let chunks = case.placed_a.chunks.iter().filter(|(row, _)| rows.contains(row));
                assert_same(found, chunks.map(|(_, offset)| *offset).collect());
            }
            let mut found = Vec::new();
            case.wgmma.footprint_b(case.placed_b.descriptor, &mut found).unwrap();
            assert_same(found, case.placed_b.chunks.iter().map(|(_, offset)| *offset).collect());
        }
    }
}

fn assert_same(mut found: Vec<u32>, mut expected: Vec<u32>) {
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn what_lies_outside_shared_memory_is_an_error_and_leaves_d_alone() {
    let case = Case::new(&mut Random(8), form(Bf16, Bf16, D32, 16), (128, 128));
    // The last chunk of B: column 15, in its row of 128 bytes.
    let last = case.placed_b.chunks.iter().map(|(_, offset)| *offset).max().unwrap();
    let shared = &case.shared[..last as usize + 15];
    let mut d = case.before.clone();
    let error = case
        .wgmma
        .execute(
            Source::Shared(case.placed_a.descriptor),
            case.placed_b.descriptor,
            Scale::Accumulate,
            shared,
            &mut d,
            Fp8Accumulation::Hardware,
        )
        .unwrap_err();
    assert_eq!(error, MatrixError::OutsideShared { offset: last, length: shared.len() });
    assert!(error.to_string().contains(&format!("{last:#x}")));
    assert_eq!(d, case.before);
}
