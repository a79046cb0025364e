//! MXFP8.

use grouped_linear::numerics::scale::mxfp8_exponent;
use grouped_linear::numerics::{Direction, E4m3, Float8Format};
use grouped_linear::reference::quantize::mxfp8::{self, Recipe};
use grouped_linear::reference::quantize::{BlockShape, ScaleOrder};
use grouped_linear_kernels::abi::ElementType;
use grouped_linear_kernels::abi::mx::{MxCopy, MxDequantizeArgs, MxSource, Mxfp8Args, SwizzleArgs};
use half::bf16;
use ptx_emulator::Arch;

use super::bench::{ARCHITECTURES, Bench, UNTOUCHED};
use super::shape::{Contents, KINDS, Shape, round, untouched, values};
use super::{assert_bf16, assert_bytes};

const DIRECTIONS: [Direction; 2] = [Direction::Rowwise, Direction::Columnwise];

/// A launch and what it is compared with.
struct Case {
    shape: Shape,
    kind: usize,
    contents: Contents,
    recipe: Recipe,
    /// Which copies are wanted.
    wanted: [bool; 2],
    seed: u64,
}

/// What the reference makes of one copy.
struct Want {
    data: Vec<u8>,
    scales: Vec<u8>,
    exact: Vec<bf16>,
    restored: Vec<f32>,
}

fn untouched_bf16() -> bf16 {
    bf16::from_le_bytes([UNTOUCHED; 2])
}

fn want(shape: &Shape, values: &[f32], recipe: &Recipe, direction: Direction) -> Want {
    let layout = shape.layout();
    let mut data = vec![UNTOUCHED; values.len()];
    let mut scales = vec![UNTOUCHED; mxfp8::scale_len(&layout, recipe, direction)];
    mxfp8::quantize(&layout, values, recipe, direction, &mut data, &mut scales).unwrap();
    let mut restored = vec![0.0; values.len()];
    mxfp8::dequantize(&layout, &data, &scales, recipe, direction, &mut restored).unwrap();
    let live = shape.live_rows() * shape.columns();
    let mut exact: Vec<bf16> = restored.iter().map(|value| bf16::from_f32(*value)).collect();
    exact[live..].fill(untouched_bf16());
    Want { data, scales, exact, restored }
}

fn element_type(format: Float8Format) -> ElementType {
    match format {
        Float8Format::E4m3 => ElementType::E4m3,
        Float8Format::E5m2 => ElementType::E5m2,
    }
}

fn check(case: &Case) {
    for architecture in ARCHITECTURES {
        check_on(architecture, case);
    }
}

fn check_on(architecture: Arch, case: &Case) {
    let what = format!(
        "{architecture:?} {:?} {} {:?} {:?} {:?}",
        case.shape, KINDS[case.kind].1, case.contents, case.recipe, case.wanted
    );
    let (kind, name) = KINDS[case.kind];
    let values = values(&case.shape, kind, case.contents, case.seed);
    let mut bench = Bench::new(architecture, "quantize_mxfp8", case.seed);
    let source = case.shape.source(&mut bench, &values, kind);
    let wants = DIRECTIONS.map(|direction| want(&case.shape, &values, &case.recipe, direction));
    let swizzled = u32::from(case.recipe.order == ScaleOrder::Swizzled);
    let copies = [0, 1].map(|i| {
        if !case.wanted[i] {
            return MxCopy::default();
        }
        MxCopy {
            data: bench.untouched(wants[i].data.len()),
            scales: bench.untouched(wants[i].scales.len()),
            exact: bench.untouched(2 * wants[i].exact.len()),
            swizzled,
            reserved: 0,
        }
    });
    let partial_rows: usize = case.shape.group_rows().iter().map(|rows| rows.div_ceil(128)).sum();
    let columns = case.shape.columns();
    let dbias_partial = bench.untouched(4 * partial_rows * columns);
    let args = Mxfp8Args {
        source,
        rowwise: copies[0],
        columnwise: copies[1],
        dbias_partial,
        format: element_type(case.recipe.format) as u32,
        square: u32::from(case.recipe.shape == BlockShape::Square),
    };
    // A block more than there are tiles.
    let blocks = case.shape.tiles() as u32 + 1;
    bench.launch(&format!("quantize_mxfp8_{name}"), blocks, &args);
    for (i, (copy, want)) in copies.iter().zip(&wants).enumerate() {
        if case.wanted[i] {
            let what = format!("{what} copy {i}");
            let read = |address, bytes| bench.read(address, bytes);
            assert_bytes(
                &format!("{what} scales"),
                &read(copy.scales, want.scales.len()),
                &want.scales,
            );
            assert_bytes(&format!("{what} data"), &read(copy.data, want.data.len()), &want.data);
            assert_bf16(
                &format!("{what} exact"),
                &read(copy.exact, 2 * want.exact.len()),
                &want.exact,
            );
        }
    }
    check_sums(&what, &case.shape, &values, &bench.read_f32(dbias_partial, partial_rows * columns));
    for (index, (copy, want)) in copies.iter().zip(&wants).enumerate() {
        if case.wanted[index] {
            let made =
                Made { what: format!("{what} copy {index}"), source, case, index, copy, want };
            made.check_dequantize(&mut bench);
            made.check_swizzle(&mut bench, &values);
        }
    }
}

/// The columns' sums of each 128 rows of a group, nearly, since the order is the kernel's.
pub fn check_sums(what: &str, shape: &Shape, values: &[f32], got: &[f32]) {
    let columns = shape.columns();
    let (mut first, mut line) = (0, 0);
    for rows in shape.group_rows() {
        for start in (0..rows).step_by(128) {
            for column in 0..columns {
                let of_row = |row: usize| values[(first + row) * columns + column];
                let rows = start..rows.min(start + 128);
                let got = got[line * columns + column];
                let right = is_sum(got, rows.map(of_row));
                assert!(right, "{what}: sum of column {column} from row {start} on: {got}");
            }
            line += 1;
        }
        first += rows;
    }
}

/// Whether it is the sum of these in FP32, in some order.
fn is_sum(got: f32, values: impl Iterator<Item = f32> + Clone) -> bool {
    let wide = values.map(f64::from);
    let want: f64 = wide.clone().sum();
    let size: f64 = wide.filter(|value| value.is_finite()).map(f64::abs).sum();
    // Where no order leaves the range, numbers that are none come from the values alone.
    let overflows = size > f64::from(f32::MAX);
    if want.is_nan() {
        return got.is_nan();
    }
    if want.is_infinite() {
        return f64::from(got) == want || overflows && got.is_nan();
    }
    (f64::from(got) - want).abs() <= 1e-6 * size || overflows && !got.is_finite()
}

#[test]
fn sums_are_told_from_what_is_none() {
    let (nan, infinity, large) = (f32::NAN, f32::INFINITY, f32::MAX);
    for (values, right, wrong) in [
        ([1.0, 2.0, -0.5], &[2.5][..], &[2.4, nan, infinity][..]),
        ([1.0, nan, 2.0], &[nan], &[3.0, infinity]),
        ([infinity, 1.0, -infinity], &[nan], &[1.0, infinity]),
        ([infinity, 1.0, -2.0], &[infinity], &[-infinity, nan, -1.0]),
        ([-infinity, 1.0, -2.0], &[-infinity], &[infinity, nan, -1.0]),
        ([1e37, 1e37, 1.0], &[2e37], &[1e37, nan, infinity]),
        ([large, large, -large], &[large, infinity, nan], &[0.0, -large]),
    ] {
        for (got, want) in
            right.iter().map(|got| (got, true)).chain(wrong.iter().map(|got| (got, false)))
        {
            assert_eq!(is_sum(*got, values.into_iter()), want, "{got} of {values:?}");
        }
    }
}

/// A copy that a launch has made.
struct Made<'a> {
    what: String,
    source: MxSource,
    case: &'a Case,
    /// 0: rowwise; 1: columnwise.
    index: usize,
    copy: &'a MxCopy,
    want: &'a Want,
}

impl Made<'_> {
    fn check_dequantize(&self, bench: &mut Bench) {
        let Self { what, case, want, .. } = self;
        let to = KINDS[case.seed as usize / 3 % 3].0;
        let destination = bench.untouched(4 * want.data.len());
        let args = MxDequantizeArgs {
            source: self.source,
            copy: MxCopy { exact: 0, ..*self.copy },
            destination,
            destination_type: to as u32,
            format: element_type(case.recipe.format) as u32,
            columnwise: self.index as u32,
            ..MxDequantizeArgs::default()
        };
        bench.launch("mxfp8_dequantize", 2, &args);
        let live = case.shape.live_rows() * case.shape.columns();
        let got = bench.read_elements(destination, want.data.len(), to);
        for (i, got) in got.iter().enumerate() {
            let want = if i < live { round(want.restored[i], to) } else { untouched(to) };
            let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
            assert!(same, "{what}: restored {i} is {got}, {want} is wanted");
        }
    }

    /// The scales in the other order are those of a launch that writes that order.
    fn check_swizzle(&self, bench: &mut Bench, values: &[f32]) {
        let recipe = self.case.recipe;
        let swizzle = recipe.order == ScaleOrder::Compact;
        let order = if swizzle { ScaleOrder::Swizzled } else { ScaleOrder::Compact };
        let recipe = Recipe { order, ..recipe };
        let want = want(&self.case.shape, values, &recipe, DIRECTIONS[self.index]);
        let to = bench.untouched(want.scales.len());
        let args = SwizzleArgs {
            source: self.source,
            from: self.copy.scales,
            to,
            block: 32,
            columnwise: self.index as u32,
            swizzle: u32::from(swizzle),
            ..SwizzleArgs::default()
        };
        bench.launch("swizzle_scales", 2, &args);
        let got = bench.read(to, want.scales.len());
        assert_bytes(&format!("{} reordered", self.what), &got, &want.scales);
    }
}

fn shapes() -> Vec<Shape> {
    vec![
        Shape::tokens(&[65, 128, 97], 0, 160),
        Shape::tokens(&[128, 0, 96], 40, 96),
        Shape::tokens(&[1, 0, 0, 130, 31, 33], 5, 32),
        Shape::weights(2, 96, 288),
        Shape::weights(1, 130, 64),
    ]
}

#[test]
fn both_copies_are_those_of_the_reference() {
    let mut seed = 1;
    for shape in shapes() {
        for contents in [Contents::Ordinary, Contents::Edges] {
            for kind in 0..3 {
                for (format, block) in [
                    (Float8Format::E4m3, BlockShape::Line),
                    (Float8Format::E4m3, BlockShape::Square),
                    (Float8Format::E5m2, BlockShape::Line),
                    (Float8Format::E5m2, BlockShape::Square),
                ] {
                    let orders = [ScaleOrder::Compact, ScaleOrder::Swizzled];
                    let recipe = Recipe { format, shape: block, order: orders[seed as usize % 2] };
                    let wanted =
                        [[true, true], [true, false], [false, true]][seed as usize / 2 % 3];
                    let shape = shape.clone();
                    check(&Case { shape, kind, contents, recipe, wanted, seed });
                    seed += 1;
                }
            }
        }
    }
}

#[test]
fn a_flag_and_an_empty_table_leave_everything_untouched() {
    let shape = Shape::tokens(&[40, 24], 0, 64);
    for (architecture, skip) in ARCHITECTURES.into_iter().flat_map(|a| [(a, true), (a, false)]) {
        let mut bench = Bench::new(architecture, "quantize_mxfp8", 7);
        let values = values(&shape, ElementType::Bf16, Contents::Ordinary, 7);
        let mut source = shape.source(&mut bench, &values, ElementType::Bf16);
        if skip {
            source.skip = bench.upload(&1u32.to_le_bytes());
        } else {
            source.table = bench.upload(&vec![0; 1024]);
        }
        let copy = MxCopy {
            data: bench.untouched(64 * 64),
            scales: bench.untouched(256 * 4),
            exact: bench.untouched(2 * 64 * 64),
            ..MxCopy::default()
        };
        let format = ElementType::E4m3 as u32;
        let args = Mxfp8Args { source, rowwise: copy, format, ..Mxfp8Args::default() };
        bench.launch("quantize_mxfp8_bf16", 2, &args);
        assert_bytes("data", &bench.read(copy.data, 64 * 64), &[UNTOUCHED; 64 * 64]);
        assert_bytes("scales", &bench.read(copy.scales, 1024), &[UNTOUCHED; 1024]);
        assert_bytes("exact", &bench.read(copy.exact, 2 * 64 * 64), &[UNTOUCHED; 2 * 64 * 64]);
    }
}

#[test]
fn exponents_of_known_magnitudes() {
    // A block with this largest magnitude, and its exponent: the golden values of the recipe.
    let known = [
        (0.0, 0),
        (1.0, 119),
        (1.75, 119),
        (3.5, 120),
        (448.0, 127),
        (448.000_03, 128),
        (449.0, 128),
        (896.0, 128),
        (1e30, 218),
        (f32::MAX, 247),
        (f32::INFINITY, 254),
    ];
    let shape = Shape::weights(1, known.len(), 32);
    let mut values = vec![0.0; known.len() * 32];
    for (i, (amax, _)) in known.iter().enumerate() {
        values[i * 32 + i] = -amax;
    }
    for (architecture, got) in rowwise_exponents(&shape, &values) {
        for (i, (amax, exponent)) in known.iter().enumerate() {
            assert_eq!(got[4 * i], *exponent, "{architecture:?}: {amax:e}");
        }
    }
}

#[test]
fn exponents_around_every_boundary() {
    // Largest magnitudes that, divided by 448, lie around a power of two; around 2⁻¹²⁷, the one
    // rounding boundary among the subnormal numbers, more of them.
    let around = |exponent: i32, ulps: std::ops::Range<i32>| {
        let boundary = (448.0 * 2f64.powi(exponent)) as f32;
        ulps.map(move |ulps| f32::from_bits(boundary.to_bits().wrapping_add_signed(ulps)))
    };
    let magnitudes: Vec<f32> =
        around(-127, -24..24).chain((-126..119).flat_map(|e| around(e, -2..3))).collect();
    let shape = Shape::weights(1, magnitudes.len(), 32);
    let values: Vec<f32> =
        magnitudes.iter().flat_map(|&amax| [[amax], [0.0; 1]].concat().repeat(16)).collect();
    let want: Vec<u8> = magnitudes.iter().map(|&amax| mxfp8_exponent(amax, E4m3::MAX).0).collect();
    assert!((0..=246).all(|exponent| want.contains(&exponent)));
    for (architecture, got) in rowwise_exponents(&shape, &values) {
        for (i, want) in want.iter().enumerate() {
            assert_eq!(got[4 * i], *want, "{architecture:?}: {:e}", magnitudes[i]);
        }
    }
}

/// The exponents of FP32 weights with 32 columns, four bytes a row, of which the first is there.
fn rowwise_exponents(shape: &Shape, values: &[f32]) -> [(Arch, Vec<u8>); 2] {
    ARCHITECTURES.map(|architecture| {
        let mut bench = Bench::new(architecture, "quantize_mxfp8", 3);
        let source = shape.source(&mut bench, values, ElementType::F32);
        let bytes = (values.len() / 32).next_multiple_of(128) * 4;
        let scales = bench.untouched(bytes);
        let rowwise = MxCopy { scales, ..MxCopy::default() };
        let format = ElementType::E4m3 as u32;
        let args = Mxfp8Args { source, rowwise, format, ..Mxfp8Args::default() };
        bench.launch("quantize_mxfp8_f32", shape.tiles() as u32, &args);
        (architecture, bench.read(scales, bytes))
    })
}
