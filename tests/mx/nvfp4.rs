//! NVFP4.

use grouped_linear::numerics::Direction;
use grouped_linear::numerics::philox::StochasticBits;
use grouped_linear::numerics::scale::ScaleBound;
use grouped_linear::reference::quantize::nvfp4::{
    self, ErrorMeasure, Recipe, Rounding, Scope, Target, Transform,
};
use grouped_linear::reference::quantize::{BlockShape, ScaleOrder};
use grouped_linear_kernels::abi::ElementType;
use grouped_linear_kernels::abi::mx::{
    MxCopy, MxDequantizeArgs, MxSource, Nvfp4Amax, Nvfp4Args, Nvfp4GroupAmaxArgs, Nvfp4RowAmaxArgs,
    Nvfp4Target, Nvfp4TileAmaxArgs, Nvfp4Way, SwizzleArgs,
};
use grouped_linear_kernels::abi::quantize::Progress;
use half::bf16;
use ptx_emulator::Arch;

use super::bench::{ARCHITECTURES, Bench, UNTOUCHED};
use super::mxfp8::check_sums;
use super::shape::{Contents, KINDS, Shape, round, untouched, values};
use super::{assert_bf16, assert_bytes};

const DIRECTIONS: [Direction; 2] = [Direction::Rowwise, Direction::Columnwise];
const SEED: u64 = 0x0123_4567_89ab_cdef;
const OFFSET: u64 = 0x1_0000_0002;

/// A launch and what it is compared with.
struct Case {
    shape: Shape,
    kind: usize,
    contents: Contents,
    recipe: Recipe,
    wanted: [bool; 2],
    seed: u64,
}

/// What the reference makes of one copy.
struct Want {
    amax: Vec<f32>,
    data: Vec<u8>,
    scales: Vec<u8>,
    exact: Vec<bf16>,
    /// In the layout of the exact copy.
    restored: Vec<Restored>,
}

/// What an element is restored to.
#[derive(Clone, Copy, Debug)]
enum Restored {
    To(f32),
    /// A row that pads its group.
    Padding,
    Untouched,
}

fn untouched_bf16() -> bf16 {
    bf16::from_le_bytes([UNTOUCHED; 2])
}

/// A group's rows in the exact copy, how many of them have values, and how many are written.
fn exact_groups(shape: &Shape, recipe: &Recipe, direction: Direction) -> Vec<[usize; 3]> {
    let transformed = direction == Direction::Columnwise && recipe.transform != Transform::None;
    let mut first = 0;
    let groups = shape.group_rows().into_iter().map(|rows| {
        let padded = direction == Direction::Columnwise && shape.is_tokens();
        let written = if padded { rows.next_multiple_of(128) } else { rows };
        let live = if transformed { rows.next_multiple_of(16) } else { rows };
        let group = [first, live, written];
        first += written;
        group
    });
    groups.collect()
}

fn want(shape: &Shape, values: &[f32], recipe: &Recipe, direction: Direction) -> Want {
    let layout = shape.layout();
    let columns = shape.columns();
    let amax = nvfp4::amax(&layout, values, recipe, direction).unwrap();
    let elements = layout.data_len(direction);
    let mut data = vec![UNTOUCHED; elements / 2];
    let mut scales = vec![UNTOUCHED; nvfp4::scale_len(&layout, recipe, direction)];
    nvfp4::quantize(&layout, values, recipe, direction, &amax, &mut data, &mut scales).unwrap();
    let (data_ref, scales_ref) = (&data, &scales);
    let restore = |amax: &[f32]| {
        let mut restored = vec![0.0; elements];
        nvfp4::dequantize(&layout, data_ref, scales_ref, recipe, direction, amax, &mut restored)
            .unwrap();
        restored
    };
    let restored = restore(&amax);
    // The scale of a group that restores codes times block scales alone.
    let exact_values = restore(&vec![recipe.target.bound().value() * 6.0; amax.len()]);

    let rows = if direction == Direction::Columnwise { shape.exact_rows() } else { shape.rows() };
    let mut exact = vec![untouched_bf16(); rows * columns];
    let mut in_place = vec![Restored::Untouched; rows * columns];
    for (group, [first, live, written]) in
        exact_groups(shape, recipe, direction).into_iter().enumerate()
    {
        for row in 0..written {
            for column in 0..columns {
                let at = (first + row) * columns + column;
                let index = shape.code(direction, group, row, column);
                // Padding is no value of the reference where the transform makes none.
                let (value, scaled) = match row < live {
                    true => (exact_values[index], Restored::To(restored[index])),
                    false => (0.0, Restored::Padding),
                };
                exact[at] = bf16::from_f32(value);
                assert!(exact[at].to_f32() == value, "{value} is not exact");
                in_place[at] = scaled;
            }
        }
    }
    Want { amax, data, scales, exact, restored: in_place }
}

/// On Hopper, and one of five cases on Blackwell, too: five has no divisor in common with the
/// numbers of recipes, types and orders, so that all of them have their turn.
fn check(case: &Case) {
    for architecture in ARCHITECTURES {
        if architecture == Arch::Sm90a || case.seed.is_multiple_of(5) {
            check_on(architecture, case);
        }
    }
}

fn check_on(architecture: Arch, case: &Case) {
    let recipe = &case.recipe;
    let (kind, name) = KINDS[case.kind];
    let what = format!(
        "{architecture:?} {:?} {name} {:?} {recipe:?} {:?}",
        case.shape, case.contents, case.wanted
    );
    let values = values(&case.shape, kind, case.contents, case.seed);
    let mut bench = Bench::new(architecture, "quantize_nvfp4", case.seed);
    let source = case.shape.source(&mut bench, &values, kind);
    let wants: Vec<Option<Want>> = (0..2)
        .map(|i| case.wanted[i].then(|| want(&case.shape, &values, recipe, DIRECTIONS[i])))
        .collect();

    // Measure.
    let amax = measure(&mut bench, case, &source, kind, name);
    for (i, want) in wants.iter().enumerate() {
        if let Some(want) = want {
            let live =
                if recipe.scope == Scope::Row { case.shape.live_rows() } else { want.amax.len() };
            let got = bench.read_f32(amax.amax[i], live);
            assert_eq!(got, want.amax[..live], "{what}: amax of copy {i}");
            let inverse = bench.read_f32(amax.scale_inv[i], live);
            let product = 1.0 / (recipe.target.bound().value() * 6.0);
            for (got, want) in inverse.iter().zip(&want.amax) {
                assert_eq!(got.to_bits(), (want * product).to_bits(), "{what}: scale_inv");
            }
        }
    }

    // Quantize.
    let swizzled = u32::from(recipe.order == ScaleOrder::Swizzled);
    let copies = [0, 1].map(|i| match &wants[i] {
        None => MxCopy::default(),
        Some(want) => MxCopy {
            data: bench.untouched(want.data.len()),
            scales: bench.untouched(want.scales.len()),
            exact: bench.untouched(2 * want.exact.len()),
            swizzled,
            reserved: 0,
        },
    });
    let partial_rows: usize = case.shape.group_rows().iter().map(|rows| rows.div_ceil(128)).sum();
    let columns = case.shape.columns();
    let dbias_partial = bench.untouched(4 * partial_rows * columns);
    let square = recipe.shape == BlockShape::Square;
    let args = Nvfp4Args {
        source,
        rowwise: copies[0],
        columnwise: copies[1],
        rowwise_amax: amax.amax[0],
        columnwise_amax: if square { 0 } else { amax.amax[1] },
        random: if recipe.rounding == Rounding::Nearest { 0 } else { amax.drawn },
        dbias_partial,
        bound: recipe.target.bound().value(),
        square: u32::from(square),
        transform: u32::from(recipe.transform == Transform::Hadamard),
        row_scaled: u32::from(recipe.scope == Scope::Row),
        target: match recipe.target {
            Target::Six => Nvfp4Target::Six,
            Target::FourOverSix { error: ErrorMeasure::Absolute, .. } => {
                Nvfp4Target::FourOverSixAbsolute
            }
            Target::FourOverSix { error: ErrorMeasure::Squared, .. } => {
                Nvfp4Target::FourOverSixSquared
            }
        } as u32,
        ..Nvfp4Args::default()
    };
    for args in launches(case, args, kind) {
        let tiles = case.shape.tiles() as u32;
        let (own, module, blocks) = match args.way(kind) {
            // A block more than there are tiles.
            Nvfp4Way::Lines => ("lines", "quantize_nvfp4_lines", tiles + 1),
            Nvfp4Way::ExactLines => ("exact", "quantize_nvfp4_lines", tiles + 1),
            Nvfp4Way::Squares => ("squares", "quantize_nvfp4", tiles + 1),
            // So few that they walk.
            Nvfp4Way::General => ("general", "quantize_nvfp4_general", 3),
            Nvfp4Way::SquaresOnce => unreachable!("without a progress"),
        };
        bench.load(module);
        bench.launch(&format!("quantize_nvfp4_{own}_{name}"), blocks, &args);
    }
    for (i, (copy, want)) in copies.iter().zip(&wants).enumerate() {
        if let Some(want) = want {
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
    if let Some(want) = wants.iter().flatten().next()
        && case.is_for_once()
    {
        for blocks in [2, 4] {
            check_once(&mut bench, &format!("{what}, read once"), case, args, want, blocks);
        }
    }
    for (index, (copy, want)) in copies.iter().zip(&wants).enumerate() {
        if let Some(want) = want {
            let what = format!("{what} copy {index}");
            let amax = amax.amax[if square { 0 } else { index }];
            let made = Made { what, source, case, index, copy, amax, want };
            made.check_dequantize(&mut bench);
            made.check_swizzle(&values);
        }
    }
}

impl Case {
    /// Whether there is a kernel that reads the source once.
    fn is_for_once(&self) -> bool {
        let Recipe { shape, target, .. } = self.recipe;
        let is_of_bf16 = KINDS[self.kind].0 == ElementType::Bf16;
        let is_six = target == Target::Six;
        shape == BlockShape::Square && is_six && is_of_bf16 && !self.shape.is_tokens()
    }
}

/// Exact numbers and magnitudes from one read. Two blocks, which the bench runs at a time, hold
/// fewer tiles than a group may have, and know it: they keep the last ones. Of four they do not
/// know that two wait, so their rings are full of tiles whose group has others that nobody has
/// claimed.
fn check_once(
    bench: &mut Bench,
    what: &str,
    case: &Case,
    args: Nvfp4Args,
    want: &Want,
    blocks: u32,
) {
    let (groups, tiles) = (case.shape.groups(), case.shape.tiles());
    let exact = bench.untouched(2 * want.exact.len());
    let (copy, none) = (MxCopy { exact, ..MxCopy::default() }, MxCopy::default());
    let [rowwise, columnwise] = if case.wanted[0] { [copy, none] } else { [none, copy] };
    let args = Nvfp4Args {
        rowwise,
        columnwise,
        rowwise_amax: bench.untouched(4 * groups),
        dbias_partial: 0,
        progress: bench.upload(&vec![0; Progress::layout(groups, tiles).bytes]),
        ..args
    };
    assert_eq!(args.way(ElementType::Bf16), Nvfp4Way::SquaresOnce);
    bench.load("quantize_nvfp4_once");
    bench.launch("quantize_nvfp4_squares_once", blocks, &args);
    assert_eq!(bench.read_f32(args.rowwise_amax, groups), want.amax, "{what}: amax");
    let got = bench.read(exact, 2 * want.exact.len());
    assert_bf16(&format!("{what}: exact"), &got, &want.exact);
}

/// Lines of BF16 have a kernel for each form; one of seven cases asks for both forms at once, which
/// the general kernel makes: seven, as five, has no divisor in common with the numbers of recipes,
/// types and orders.
fn launches(case: &Case, args: Nvfp4Args, kind: ElementType) -> Vec<Nvfp4Args> {
    let of_form = |exact: bool| {
        let copy = |copy: MxCopy| match exact {
            true => MxCopy { data: 0, scales: 0, ..copy },
            false => MxCopy { exact: 0, ..copy },
        };
        let (rowwise, columnwise) = (copy(args.rowwise), copy(args.columnwise));
        Nvfp4Args { rowwise, columnwise, ..args }
    };
    let [in_codes, exact] = [false, true].map(of_form);
    match exact.way(kind) {
        Nvfp4Way::ExactLines if !case.seed.is_multiple_of(7) => vec![in_codes, exact],
        _ => vec![args],
    }
}

/// Where the largest magnitudes lie.
struct Measured {
    amax: [u64; 2],
    scale_inv: [u64; 2],
    drawn: u64,
}

fn measure(
    bench: &mut Bench,
    case: &Case,
    source: &MxSource,
    kind: ElementType,
    name: &str,
) -> Measured {
    let bound = case.recipe.target.bound().value();
    let (groups, rows) = (case.shape.groups(), case.shape.rows());
    let count = groups.max(rows);
    let mut measured = Measured {
        amax: [bench.untouched(4 * count), bench.untouched(4 * count)],
        scale_inv: [bench.untouched(4 * count), bench.untouched(4 * count)],
        drawn: bench.untouched(16),
    };
    if case.recipe.scope == Scope::Row {
        let args = Nvfp4RowAmaxArgs {
            source: *source,
            amax: measured.amax[0],
            scale_inv: measured.scale_inv[0],
            bound,
            source_type: kind as u32,
            ..Nvfp4RowAmaxArgs::default()
        };
        bench.launch("nvfp4_row_amax", 2, &args);
        return measured;
    }
    let transformed = case.recipe.transform == Transform::Hadamard;
    let tiles = case.shape.tiles();
    let partial = [bench.untouched(4 * tiles), bench.untouched(4 * tiles)];
    let args = Nvfp4TileAmaxArgs {
        source: *source,
        plain: partial[0],
        transformed: if transformed { partial[1] } else { 0 },
    };
    bench.launch(&format!("nvfp4_tile_amax_{name}"), tiles as u32 + 1, &args);
    let state: Vec<u8> = [SEED, OFFSET].iter().flat_map(|word| word.to_le_bytes()).collect();
    let random_state = bench.upload(&state);
    let amax = |i: usize, wanted: bool| Nvfp4Amax {
        partial: if wanted { partial[i] } else { 0 },
        amax: measured.amax[i],
        scale_inv: measured.scale_inv[i],
        bound,
        reserved: 0,
    };
    let args = Nvfp4GroupAmaxArgs {
        table: source.table,
        plain: amax(0, true),
        transformed: amax(1, transformed),
        random_state,
        drawn: measured.drawn,
        groups: groups as u32,
        tiles: (tiles / groups) as u32,
        ..Nvfp4GroupAmaxArgs::default()
    };
    bench.launch("nvfp4_group_amax", groups as u32, &args);
    assert_eq!(bench.read(measured.drawn, 16), state);
    let advanced = [SEED, OFFSET + 1].iter().flat_map(|word| word.to_le_bytes());
    assert_eq!(bench.read(random_state, 16), advanced.collect::<Vec<u8>>());
    if !transformed {
        measured.amax[1] = measured.amax[0];
        measured.scale_inv[1] = measured.scale_inv[0];
    }
    measured
}

/// A copy that a launch has made.
struct Made<'a> {
    what: String,
    source: MxSource,
    case: &'a Case,
    /// 0: rowwise; 1: columnwise.
    index: usize,
    copy: &'a MxCopy,
    amax: u64,
    want: &'a Want,
}

impl Made<'_> {
    fn check_dequantize(&self, bench: &mut Bench) {
        let Self { what, case, want, .. } = self;
        let to = KINDS[case.seed as usize / 3 % 3].0;
        let destination = bench.untouched(4 * want.restored.len());
        let args = MxDequantizeArgs {
            source: self.source,
            copy: MxCopy { exact: 0, ..*self.copy },
            amax: self.amax,
            destination,
            destination_type: to as u32,
            columnwise: self.index as u32,
            row_scaled: u32::from(case.recipe.scope == Scope::Row),
            bound: case.recipe.target.bound().value(),
            ..MxDequantizeArgs::default()
        };
        bench.launch("nvfp4_dequantize", 2, &args);
        let got = bench.read_elements(destination, want.restored.len(), to);
        for (i, (got, want)) in got.iter().zip(&want.restored).enumerate() {
            let same = |want: f32| got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
            let right = match *want {
                Restored::Untouched => same(untouched(to)),
                Restored::To(want) => same(round(want, to)),
                // Zero times the scale of its block, which may have values that are none.
                Restored::Padding => *got == 0.0 || got.is_nan(),
            };
            assert!(right, "{what}: restored {i} is {got}, {want:?} is wanted");
        }

        // Without the largest magnitudes it is the exact copy.
        let exact = bench.untouched(2 * want.exact.len());
        let args = MxDequantizeArgs {
            amax: 0,
            destination: exact,
            destination_type: ElementType::Bf16 as u32,
            ..args
        };
        bench.launch("nvfp4_dequantize", 2, &args);
        let got = bench.read(exact, 2 * want.exact.len());
        assert_bf16(&format!("{what} restored exactly"), &got, &want.exact);
    }

    /// The scales in the other order are those of a launch that writes that order.
    fn check_swizzle(&self, values: &[f32]) {
        let Self { case, want: have, .. } = self;
        let swizzle = case.recipe.order == ScaleOrder::Compact;
        let order = if swizzle { ScaleOrder::Swizzled } else { ScaleOrder::Compact };
        let recipe = Recipe { order, ..case.recipe };
        let want = want(&case.shape, values, &recipe, DIRECTIONS[self.index]);
        // Its source is the same on both.
        let mut bench = Bench::new(ARCHITECTURES[0], "quantize_mxfp8", case.seed);
        let source = case.shape.source(&mut bench, values, ElementType::F32);
        let (from, to) = (bench.upload(&have.scales), bench.untouched(have.scales.len()));
        let args = SwizzleArgs {
            source,
            from,
            to,
            block: 16,
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
        Shape::tokens(&[65, 128, 97], 0, 144),
        Shape::tokens(&[128, 0, 96], 40, 80),
        Shape::tokens(&[1, 0, 0, 130, 15, 17], 5, 16),
        Shape::weights(2, 96, 272),
        Shape::weights(1, 144, 64),
    ]
}

fn sweep(recipes: &[Recipe], wanted: [bool; 2], kinds: &[usize], first_seed: u64) {
    let mut seed = first_seed;
    for shape in shapes() {
        for contents in [Contents::Ordinary, Contents::Edges] {
            for &kind in kinds {
                for recipe in recipes {
                    let order = [ScaleOrder::Compact, ScaleOrder::Swizzled][seed as usize % 2];
                    let recipe = Recipe { order, ..*recipe };
                    check(&Case { shape: shape.clone(), kind, contents, recipe, wanted, seed });
                    seed += 1;
                }
            }
        }
    }
}

const HADAMARD: Recipe = Recipe { transform: Transform::Hadamard, ..Recipe::NEAREST };
const STOCHASTIC: Recipe =
    Recipe { rounding: Rounding::Stochastic { seed: SEED, offset: OFFSET }, ..Recipe::NEAREST };
const SQUARE: Recipe = Recipe { shape: BlockShape::Square, ..Recipe::NEAREST };

fn four_over_six(error: ErrorMeasure, bound: ScaleBound) -> Target {
    Target::FourOverSix { error, bound }
}

#[test]
fn lines_to_nearest() {
    sweep(&[Recipe::NEAREST, HADAMARD], [true, true], &[0, 1, 2], 1);
}

#[test]
fn quarters_are_rounded_with_their_sums() {
    for (seed, shape) in (151..).zip([Shape::tokens(&[16], 0, 64), Shape::weights(1, 32, 64)]) {
        let contents = Contents::Quarters;
        check(&Case { shape, kind: 2, contents, recipe: HADAMARD, wanted: [false, true], seed });
    }
}

#[test]
fn one_copy_alone() {
    sweep(&[Recipe::NEAREST], [true, false], &[0], 101);
    sweep(&[HADAMARD, Recipe::NEAREST], [false, true], &[0], 201);
}

#[test]
fn at_random() {
    let both = Recipe { transform: Transform::Hadamard, ..STOCHASTIC };
    sweep(&[STOCHASTIC, both], [true, true], &[0, 2], 301);
}

/// Numbers that a bit of their random number takes to one neighbour or the other, for either copy.
#[test]
fn at_random_where_little_decides() {
    let mut seed = 351;
    for direction in DIRECTIONS {
        let bits = StochasticBits { seed: SEED, offset: OFFSET, direction };
        let contents = Contents::Ties(bits);
        for (shape, kind) in shapes().into_iter().flat_map(|s| [0, 1, 2].map(|k| (s.clone(), k))) {
            check(&Case { shape, kind, contents, recipe: STOCHASTIC, wanted: [true, true], seed });
            seed += 1;
        }
    }
}

#[test]
fn squares() {
    let absolute = four_over_six(ErrorMeasure::Absolute, ScaleBound::Reduced);
    let recipes = [SQUARE, Recipe { target: absolute, ..SQUARE }];
    sweep(&recipes, [true, true], &[0, 2], 401);
    sweep(&[SQUARE], [false, true], &[0], 501);
    // More tiles in a group than two blocks that read once hold, and no more than four would.
    let shape = Shape::weights(2, 272, 400);
    let (contents, wanted) = (Contents::Ordinary, [true, true]);
    check(&Case { shape, kind: 0, contents, recipe: SQUARE, wanted, seed: 600 });
}

#[test]
fn four_over_six_in_lines() {
    let squared = four_over_six(ErrorMeasure::Squared, ScaleBound::Full);
    let absolute = four_over_six(ErrorMeasure::Absolute, ScaleBound::Reduced);
    let recipes = [squared, absolute].map(|target| Recipe { target, ..Recipe::NEAREST });
    sweep(&recipes, [true, true], &[0, 2], 601);
}

#[test]
fn rows_with_scales_of_their_own() {
    let row = Recipe { scope: Scope::Row, ..Recipe::NEAREST };
    let absolute = four_over_six(ErrorMeasure::Absolute, ScaleBound::Full);
    sweep(&[row, Recipe { target: absolute, ..row }], [true, false], &[0, 1, 2], 701);
}

#[test]
fn nothing_is_drawn_where_the_splits_are_bad_or_the_flag_is_set() {
    let shape = Shape::tokens(&[40, 24], 0, 64);
    for (architecture, skip) in ARCHITECTURES.into_iter().flat_map(|a| [(a, true), (a, false)]) {
        let mut bench = Bench::new(architecture, "quantize_nvfp4", 9);
        let values = values(&shape, ElementType::Bf16, Contents::Ordinary, 9);
        let source = shape.source(&mut bench, &values, ElementType::Bf16);
        let mut bad = vec![0u8; 1024];
        bad[0] = 1;
        let table = if skip { source.table } else { bench.upload(&bad) };
        let flag = if skip { bench.upload(&1u32.to_le_bytes()) } else { 0 };
        let state = [SEED, OFFSET].map(u64::to_le_bytes).concat();
        let random_state = bench.upload(&state);
        let (drawn, amax) = (bench.untouched(16), bench.untouched(8));
        let partial = bench.upload(&[0; 64]);
        let args = Nvfp4GroupAmaxArgs {
            table,
            skip: flag,
            plain: Nvfp4Amax { partial, amax, bound: 448.0, ..Nvfp4Amax::default() },
            random_state,
            drawn,
            groups: 2,
            ..Nvfp4GroupAmaxArgs::default()
        };
        bench.launch("nvfp4_group_amax", 2, &args);
        assert_bytes("state", &bench.read(random_state, 16), &state);
        assert_bytes("drawn", &bench.read(drawn, 16), &[UNTOUCHED; 16]);
        assert_bytes("amax", &bench.read(amax, 8), &[UNTOUCHED; 8]);
    }
}
