//! Scenarios of the kernels of low precision.

use grouped_linear::conformance::{
    Layout, LowPrecisionCase, ProductCase, QuantizeCase, RowPattern, SourceCase, SplitSource,
    low_precision_cases,
};
use grouped_linear::recipe::{
    BlockShape, Blocks, ErrorMeasure, Format, Nvfp4Format, ScaleBound, ScaleRule, Scope, Transform,
};
use grouped_linear::{Accumulate, Arch, DType, Form};

use crate::biased_fp8;
use crate::blackwell;
use crate::padding::Padded;
use crate::products;
use crate::scaling::Scaling;
use crate::scenarios::Scenario;

use BlockShape::{Line, Square};
use DType::{Bf16, E4m3, E5m2, F16, F32};
use RowPattern::{AllEmpty, Drawn, Listed, Sparse};
use SourceCase::{Tokens, Weights};

/// The scenarios that reach a kernel; none if it is not one of low precision.
pub fn of_kernel(name: &str) -> Vec<Scenario> {
    let product = name.strip_prefix("gemm_fp8_").or_else(|| name.strip_prefix("gemm_sm100_fp8_"));
    let in_codes = name.strip_prefix("gemm_sm100_");
    let in_codes = in_codes.filter(|own| own.starts_with("mxfp8") || own.starts_with("nvfp4"));
    let cases = product.map(products::of_kernel).or(in_codes.map(products::of_micro_kernel));
    if let Some(mut cases) = cases {
        if blackwell::architecture(name) == Arch::Sm100a {
            cases.extend(cases.first().map(|base| blackwell::in_lower_boxes(*base)));
        }
        if blackwell::is_pair(name) {
            cases = cases.into_iter().map(blackwell::paired_product).collect();
        }
        // What differed in features alone may be the same with whole ones.
        let mut kept: Vec<ProductCase> = Vec::new();
        for case in cases.into_iter().map(products::whole) {
            if !kept.contains(&case) {
                kept.push(case);
            }
        }
        let cases = kept.into_iter().map(LowPrecisionCase::Product);
        // What is aligned comes from the library alone.
        let biased = biased_fp8::of_kernel(name).filter(|_| !name.contains("aligned"));
        let biased = biased.map(Scenario::BiasedFp8);
        return cases.map(Scenario::LowPrecision).chain(biased).collect();
    }
    let cases = match name {
        "amax_tiles" => {
            let peaks = [Bf16, F16, F32]
                .map(|dtype| Scaling::Peak(dtype, 3.0, Blocks::Tensor, [true, false]));
            let own = plain(Format::fp8(E4m3, Blocks::Tensor));
            let empty = [Bf16, F16].map(|input| QuantizeCase {
                source: LARGE_AND_EMPTY,
                columns: 16,
                input,
                ..own
            });
            let cases = per_tensor().into_iter().chain(empty).filter(|case| !is_current(case));
            return cases.map(quantize_scenario).chain(peaks.map(Scenario::Scaling)).collect();
        }
        "group_scales" => {
            let peaks = [Bf16, F16, F32]
                .map(|dtype| Scaling::Peak(dtype, 3.0, Blocks::Tensor, [true, false]));
            let subnormal = Scaling::Peak(F32, 1e-39, Blocks::Tensor, [true, false]);
            let scalings = peaks.into_iter().chain([subnormal]);
            // Of a group without tiles nothing but epsilon is known.
            let scale = ScaleRule { epsilon: 1e-39, power_of_two: false };
            let of_empty = QuantizeCase { scale, ..plain(Format::fp8(E4m3, Blocks::Tensor)) };
            let cases = per_tensor().into_iter().chain([of_empty]).map(quantize_scenario);
            return cases.chain(scalings.map(Scenario::Scaling)).collect();
        }
        "update_scales" => {
            let margins = [-112, -3, 3, 126].map(Scaling::Margin).map(Scenario::Scaling);
            let steps = low_precision_cases().into_iter();
            let steps = steps.filter(|case| matches!(case, LowPrecisionCase::Steps(_)));
            return margins.into_iter().chain(steps.map(Scenario::LowPrecision)).collect();
        }
        "quantize_tensor" => of_types(per_tensor(), &[F32]),
        "quantize_tensor_columns" => delayed(of_types(per_tensor(), &[Bf16, F16])),
        "quantize_tensor_rows" => delayed(rows_alone(Blocks::Tensor)),
        "quantize_current_columns" => {
            let cases = current(of_types(per_tensor(), &[Bf16, F16]));
            return with_subnormal(cases, Scaling::Peaks(Bf16, 1e-39, [true; 2]));
        }
        "quantize_current_rows" => {
            let cases = current(rows_alone(Blocks::Tensor));
            return with_subnormal(cases, Scaling::Peaks(Bf16, 1e-39, [true, false]));
        }
        "quantize_vector_rows" => rows_alone(Blocks::Vector),
        "quantize_square_rows" => {
            let subnormal = Scaling::Peak(Bf16, 1e-39, Blocks::Square, [true, false]);
            return with_subnormal(rows_alone(Blocks::Square), subnormal);
        }
        "quantize_vector" => of_types(fp8(Blocks::Vector), &[F32]),
        "quantize_vector_columns" => of_types(fp8(Blocks::Vector), &[Bf16, F16]),
        "quantize_square" => return scaled_squares(F32, &[F32]),
        "quantize_square_columns" => return scaled_squares(Bf16, &[Bf16, F16]),
        "dequantize" => [Blocks::Tensor, Blocks::Vector, Blocks::Square]
            .into_iter()
            .flat_map(|blocks| restored(Format::fp8(E4m3, blocks), Format::fp8(E5m2, blocks)))
            .collect(),
        "align" => {
            let cases = products::of_align_alone().into_iter().map(LowPrecisionCase::Product);
            return cases.map(Scenario::LowPrecision).collect();
        }
        "pad_rows" | "unpad_rows" => {
            let rows = [(Bf16, 1), (Bf16, 33), (F32, 3), (F16, 70)];
            let rows = rows.map(|(dtype, columns)| Scenario::Padded(Padded { dtype, columns }));
            return padded().into_iter().map(quantize_scenario).chain(rows).collect();
        }
        _ => micro(name),
    };
    cases.into_iter().map(quantize_scenario).collect()
}

/// The cases, and groups whose largest number is subnormal.
fn with_subnormal(cases: Vec<QuantizeCase>, subnormal: Scaling) -> Vec<Scenario> {
    let subnormal = Scenario::Scaling(subnormal);
    cases.into_iter().map(quantize_scenario).chain([subnormal]).collect()
}

/// Those of a kernel that scales squares: cases of sources of these types, and a subnormal number
/// of the type `peak`.
fn scaled_squares(peak: DType, types: &[DType]) -> Vec<Scenario> {
    let subnormal = Scaling::Peak(peak, 1e-39, Blocks::Square, [true; 2]);
    with_subnormal(of_types(fp8(Blocks::Square), types), subnormal)
}

/// Those whose source has one of the types: the kernels divide them among themselves.
fn of_types(cases: Vec<QuantizeCase>, types: &[DType]) -> Vec<QuantizeCase> {
    cases.into_iter().filter(|case| types.contains(&case.input)).collect()
}

/// Whether the library takes a kernel that reads the source once: with scales of the tensor's own,
/// where a group has no more tiles, on average, than the emulated GPU holds blocks.
fn is_current(case: &QuantizeCase) -> bool {
    let tiles = |rows: usize| rows.div_ceil(128) * case.columns.div_ceil(128);
    let (tiles, groups) = match case.source {
        Tokens(rows, behind) => {
            let splits = rows.splits();
            (tiles(splits.iter().sum::<usize>() + behind), splits.len())
        }
        Weights(_, groups, rows) => (groups * tiles(rows), groups),
    };
    let blocks = 2 * blackwell::MULTIPROCESSORS as usize;
    case.history.is_none() && case.input != F32 && tiles <= blocks * groups
}

/// Cases that reach such a kernel, and of each type some with more tiles than all blocks hold.
fn current(mut cases: Vec<QuantizeCase>) -> Vec<QuantizeCase> {
    cases.retain(is_current);
    let first = |input| cases.iter().find(|case| case.input == input).copied();
    let large = [Bf16, F16].map(first).into_iter().flatten();
    let large = large.flat_map(|own| {
        [LARGE, LARGE_LAST].map(|source| QuantizeCase { source, columns: 16, ..own })
    });
    cases.extend(large.collect::<Vec<_>>());
    cases
}

/// The same cases with scales that are given, where the library would take another kernel.
fn delayed(cases: Vec<QuantizeCase>) -> Vec<QuantizeCase> {
    let given = |case: QuantizeCase| match is_current(&case) {
        true => QuantizeCase { history: Some(4), scale: ANY, ..case },
        false => case,
    };
    let mut kept = Vec::new();
    for case in cases.into_iter().map(given) {
        if !kept.contains(&case) {
            kept.push(case);
        }
    }
    kept
}

fn quantize_scenario(case: QuantizeCase) -> Scenario {
    Scenario::LowPrecision(LowPrecisionCase::Quantize(case))
}

const ANY: ScaleRule = ScaleRule { power_of_two: false, epsilon: 0.0 };

/// Two tiles, an empty group, and rows of nobody.
const fn plain(format: Format) -> QuantizeCase {
    QuantizeCase {
        source: Tokens(Listed(&[35, 0, 130, 1]), 3),
        columns: 144,
        input: Bf16,
        format,
        copies: [true, true],
        form: Form::Codes,
        scale: ANY,
        history: None,
        amax: false,
        dbias: None,
        flag: None,
        splits: SplitSource::DeviceI64,
        four_over_six: None,
        stochastic: false,
    }
}

/// More tiles below one another than a band has, beside others.
const TALL: SourceCase = Tokens(Listed(&[2200, 5]), 0);
/// A group of more tiles than the blocks of the emulated GPU hold, three each, and more than half
/// of the blocks, which run at a time.
const LARGE: SourceCase = Tokens(Listed(&[3300, 5, 0, 7, 1]), 0);
/// The same at the end of the source and, as [`MANY_GROUPS`], of the table.
const LARGE_LAST: SourceCase = Tokens(Listed(&ROWS_OF_LARGE_LAST), 0);
const ROWS_OF_LARGE_LAST: [usize; 331] = {
    let mut rows = [0; 331];
    rows[0] = 5;
    rows[330] = 3300;
    rows
};
/// Groups without rows, which could have more tiles than the emulated GPU holds blocks.
const LARGE_AND_EMPTY: SourceCase = Tokens(AllEmpty, 4 * 9 * 128);
/// A group of zeros, one of subnormal numbers, and one of large ones, if there are few columns.
const KINDS: SourceCase = Tokens(Listed(&[96, 32, 32, 32, 40]), 9);

/// So many groups that a warp that looks for the last one would look behind the table otherwise,
/// which ends where its memory does but for 4 bytes.
const MANY_GROUPS: SourceCase = Tokens(Sparse(331), 0);

/// Numbers of every kind in blocks of 32, if there are 704 columns; several tiles for a block of
/// threads.
const MANY_KINDS: SourceCase = Tokens(Listed(&[130, 90]), 1);

/// What every quantizer of FP8 can be asked for, from every type: the kernels have each on its own.
fn fp8(blocks: Blocks) -> Vec<QuantizeCase> {
    let sums = Some((F32, Accumulate::Overwrite));
    let mut all = Vec::new();
    for (index, input) in [Bf16, F16, F32].into_iter().enumerate() {
        let [format, other] = match index {
            1 => [E5m2, E4m3],
            _ => [E4m3, E5m2],
        };
        let layout = [Layout::Packed, Layout::Discrete][index % 2];
        let own = QuantizeCase { input, ..plain(Format::fp8(format, blocks)) };
        let other = QuantizeCase { format: Format::fp8(other, blocks), ..own };
        let power_of_two = index != 2;
        all.extend([
            own,
            QuantizeCase { columns: 272, dbias: sums, ..other },
            QuantizeCase { source: Weights(layout, 3, 144), columns: 272, ..own },
            QuantizeCase { source: KINDS, columns: 48, ..other },
            QuantizeCase { source: TALL, ..own },
            QuantizeCase { columns: 16, copies: [true, false], dbias: sums, ..other },
            QuantizeCase { columns: 32, copies: [false, true], ..own },
            QuantizeCase { source: Tokens(AllEmpty, 5), ..own },
            QuantizeCase { source: MANY_GROUPS, columns: 16, ..own },
            QuantizeCase { scale: ScaleRule { epsilon: 0.5, power_of_two }, ..own },
        ]);
    }
    let own = plain(Format::fp8(E4m3, blocks));
    all.extend([
        QuantizeCase { flag: Some(1), ..own },
        QuantizeCase { source: Weights(Layout::Packed, 3, 80), copies: [false, true], ..own },
        QuantizeCase {
            scale: ScaleRule { power_of_two: true, ..ANY },
            columns: 16,
            input: F32,
            ..own
        },
        QuantizeCase { source: Tokens(Drawn(70), 5), columns: 48, ..own },
    ]);
    all
}

/// A rowwise copy alone, of 16-bit elements.
fn rows_alone(blocks: Blocks) -> Vec<QuantizeCase> {
    let mut all = Vec::new();
    for (index, input) in [Bf16, F16].into_iter().enumerate() {
        let [format, other] = if index == 0 { [E4m3, E5m2] } else { [E5m2, E4m3] };
        let layout = [Layout::Packed, Layout::Discrete][index];
        let copies = [true, false];
        let own = QuantizeCase { input, copies, ..plain(Format::fp8(format, blocks)) };
        let other = QuantizeCase { format: Format::fp8(other, blocks), ..own };
        all.extend([
            own,
            QuantizeCase { columns: 272, ..other },
            QuantizeCase { source: Weights(layout, 3, 144), columns: 272, ..own },
            QuantizeCase { source: KINDS, columns: 48, ..other },
            QuantizeCase { source: TALL, columns: 16, ..own },
            QuantizeCase { source: Tokens(AllEmpty, 5), ..own },
            QuantizeCase { source: Tokens(Drawn(70), 5), columns: 48, ..own },
            QuantizeCase { source: MANY_GROUPS, columns: 16, ..own },
            QuantizeCase { scale: ScaleRule { epsilon: 0.5, power_of_two: true }, ..own },
        ]);
        if blocks == Blocks::Tensor {
            all.push(QuantizeCase { history: Some(4), ..own });
        }
    }
    all.push(QuantizeCase { flag: Some(1), ..all[0] });
    all
}

/// With histories, too.
fn per_tensor() -> Vec<QuantizeCase> {
    let mut all = fp8(Blocks::Tensor);
    let own = plain(Format::fp8(E5m2, Blocks::Tensor));
    for (steps, input) in [(1, Bf16), (4, F16), (4, F32)] {
        all.push(QuantizeCase { history: Some(steps), input, ..own });
        let source = Weights(Layout::Packed, 4, 80);
        all.push(QuantizeCase { history: Some(steps), copies: [false, true], source, ..own });
    }
    all
}

/// Copies that are taken back.
fn restored(format: Format, other: Format) -> Vec<QuantizeCase> {
    let own = plain(format);
    vec![
        own,
        QuantizeCase { format: other, columns: 272, source: Tokens(Drawn(70), 5), ..own },
        QuantizeCase { source: TALL, ..own },
        QuantizeCase { source: MANY_GROUPS, columns: 32, ..own },
        // More blocks than tiles.
        QuantizeCase { source: Tokens(Listed(&[1]), 700), columns: 32, ..own },
        QuantizeCase { source: Weights(Layout::Packed, 2, 160), ..own },
        QuantizeCase { source: Weights(Layout::Discrete, 3, 96), columns: 288, ..own },
    ]
}

fn padded() -> Vec<QuantizeCase> {
    let own = plain(Format::fp8(E4m3, Blocks::Vector));
    vec![
        QuantizeCase { columns: 16, ..own },
        QuantizeCase { input: F32, columns: 1040, source: Tokens(Listed(&[3, 0, 50]), 7), ..own },
        QuantizeCase { source: Tokens(Drawn(70), 5), columns: 48, ..own },
        QuantizeCase { source: Tokens(Listed(&[513, 70]), 0), columns: 32, ..own },
        QuantizeCase { source: Tokens(AllEmpty, 3), columns: 32, ..own },
    ]
}

/// The type of a kernel's source.
fn input(name: &str) -> DType {
    match name.rsplit('_').next() {
        Some("f16") => F16,
        Some("f32") => F32,
        _ => Bf16,
    }
}

/// MXFP8 and NVFP4.
fn micro(name: &str) -> Vec<QuantizeCase> {
    let input = input(name);
    let cases = match name {
        "mxfp8_dequantize" | "swizzle_scales" => {
            let format = |dtype, blocks| Format::Mxfp8 { dtype, blocks };
            let mut all = restored(format(E4m3, Line), format(E5m2, Square));
            let swizzled: Vec<QuantizeCase> =
                all.iter().map(|case| QuantizeCase { form: Form::Swizzled, ..*case }).collect();
            all.extend(swizzled);
            if name == "mxfp8_dequantize" {
                all.push(QuantizeCase { form: Form::Exact, ..all[0] });
            }
            all.extend(restored(Format::Nvfp4(Nvfp4Format::LINES), nvfp4_squares()));
            all
        }
        "nvfp4_dequantize" => {
            let rows = Nvfp4Format { scope: Scope::Row, ..Nvfp4Format::LINES };
            let rows = plain(Format::Nvfp4(rows));
            let mut all = restored(Format::Nvfp4(Nvfp4Format::LINES), nvfp4_squares());
            all.push(QuantizeCase { copies: [true, false], ..rows });
            let lines = all[0];
            all.push(QuantizeCase { form: Form::Swizzled, ..lines });
            all.push(QuantizeCase { form: Form::Exact, ..lines });
            all
        }
        _ if name.starts_with("quantize_mxfp8") => mxfp8(),
        _ if name.starts_with("quantize_nvfp4_lines") => lines(&[Form::Codes, Form::Swizzled]),
        _ if name.starts_with("quantize_nvfp4_exact") => lines(&[Form::Exact]),
        "quantize_nvfp4_squares_once" => squares_once(),
        _ if name.starts_with("quantize_nvfp4_squares") => squares(),
        _ if name.starts_with("quantize_nvfp4_general") => general(input),
        "nvfp4_row_amax" => rows(),
        _ if name == "nvfp4_group_amax" || name.starts_with("nvfp4_tile_amax") => {
            let more =
                [(Tokens(Drawn(60), 5), 32), (Tokens(Listed(&[1]), 700), 16), (MANY_GROUPS, 16)];
            let own = plain(Format::Nvfp4(Nvfp4Format {
                transform: Transform::Hadamard,
                ..Nvfp4Format::LINES
            }));
            let more = more.map(|(source, columns)| QuantizeCase {
                source,
                columns,
                copies: [false, true],
                form: Form::Exact,
                ..own
            });
            lines(&[Form::Exact]).into_iter().chain(more).collect()
        }
        _ => return Vec::new(),
    };
    let multiple = |case: QuantizeCase| QuantizeCase {
        columns: case.columns.next_multiple_of(case.format.multiple()),
        ..case
    };
    cases.into_iter().map(|case| multiple(QuantizeCase { input, ..case })).collect()
}

fn nvfp4_squares() -> Format {
    Format::Nvfp4(Nvfp4Format { blocks: Square, ..Nvfp4Format::LINES })
}

/// What every quantizer of MXFP8 and NVFP4 can be asked for.
fn common(format: Format, other: Format) -> Vec<QuantizeCase> {
    let (own, other) = (plain(format), plain(other));
    let (exact, swizzled) = (Form::Exact, Form::Swizzled);
    let sums = Some((F32, Accumulate::Overwrite));
    vec![
        QuantizeCase { form: exact, dbias: sums, ..own },
        own,
        QuantizeCase { form: swizzled, columns: 288, ..other },
        QuantizeCase { form: exact, copies: [true, false], columns: 32, ..own },
        QuantizeCase { form: exact, copies: [false, true], columns: 32, ..other },
        QuantizeCase { form: swizzled, copies: [true, false], columns: 160, ..own },
        QuantizeCase { form: swizzled, copies: [false, true], columns: 160, ..own },
        QuantizeCase { flag: Some(1), ..own },
        QuantizeCase { source: Tokens(AllEmpty, 5), form: exact, ..own },
        QuantizeCase { source: Tokens(Drawn(30), 5), columns: 32, ..own },
        QuantizeCase { source: MANY_GROUPS, columns: 32, ..own },
        QuantizeCase { source: MANY_KINDS, columns: 704, form: exact, ..own },
        QuantizeCase { source: Weights(Layout::Packed, 3, 160), columns: 96, ..own },
        QuantizeCase { source: Weights(Layout::Discrete, 2, 96), form: exact, ..other },
    ]
}

/// Both formats and both shapes of blocks: a kernel has a way for each on its own.
fn mxfp8() -> Vec<QuantizeCase> {
    let formats = [(E4m3, Line), (E5m2, Square), (E4m3, Square), (E5m2, Line)];
    let sums = Some((F32, Accumulate::Overwrite));
    let mut all = Vec::new();
    for (index, (dtype, blocks)) in formats.into_iter().enumerate() {
        let own = plain(Format::Mxfp8 { dtype, blocks });
        let [form, other] = match index % 2 {
            0 => [Form::Codes, Form::Swizzled],
            _ => [Form::Swizzled, Form::Codes],
        };
        let layout = [Layout::Packed, Layout::Discrete][index / 2];
        all.extend([
            QuantizeCase { form, ..own },
            QuantizeCase { form: Form::Exact, columns: 416, dbias: sums, ..own },
            QuantizeCase { form: other, columns: 704, source: MANY_KINDS, ..own },
            QuantizeCase { form: Form::Exact, copies: [index < 2, index >= 2], ..own },
            QuantizeCase { form: other, copies: [index >= 2, index < 2], columns: 32, ..own },
            QuantizeCase { form: other, source: Weights(layout, 3, 160), columns: 288, ..own },
            QuantizeCase { form, source: Tokens(Drawn(30), 5), columns: 32, ..own },
            QuantizeCase { form, source: MANY_GROUPS, columns: 32, ..own },
            QuantizeCase { source: Tokens(AllEmpty, 5), form, ..own },
        ]);
        if index == 0 {
            all.push(QuantizeCase { flag: Some(1), ..own });
        }
    }
    all
}

/// Lines that are mapped to 6 and scaled by groups, in one of these forms.
fn lines(forms: &[Form]) -> Vec<QuantizeCase> {
    let lines = Nvfp4Format::LINES;
    let mixed = Nvfp4Format { transform: Transform::Hadamard, ..lines };
    let mut all = common(Format::Nvfp4(lines), Format::Nvfp4(mixed));
    let random = QuantizeCase { stochastic: true, ..plain(Format::Nvfp4(mixed)) };
    all.push(QuantizeCase { form: Form::Exact, ..random });
    all.push(random);
    all.push(QuantizeCase { format: Format::Nvfp4(lines), ..random });
    // Each form has a kernel of its own.
    let own = plain(Format::Nvfp4(lines));
    let exact = QuantizeCase { form: Form::Exact, ..own };
    all.push(QuantizeCase { source: Tokens(AllEmpty, 5), ..own });
    all.push(QuantizeCase { source: MANY_KINDS, columns: 704, ..own });
    all.push(QuantizeCase { source: MANY_GROUPS, columns: 32, ..exact });
    for form in [Form::Codes, Form::Exact] {
        all.push(QuantizeCase { flag: Some(1), form, ..random });
        // Sums of columns of rows behind which the memory ends.
        let (source, dbias) = (Tokens(Listed(&[33]), 0), Some((F32, Accumulate::Overwrite)));
        all.push(QuantizeCase { source, columns: 16, dbias, form, ..own });
    }
    for (stochastic, format) in [(false, lines), (true, lines), (true, mixed)] {
        let format = Format::Nvfp4(format);
        all.push(QuantizeCase { form: Form::Exact, columns: 32, stochastic, format, ..random });
    }
    for (stochastic, format) in [(false, lines), (true, lines), (false, mixed), (true, mixed)] {
        // Of weights, limits of columns are asked elsewhere than of tokens.
        let (source, format) = (Weights(Layout::Packed, 2, 96), Format::Nvfp4(format));
        let (form, columns) = (Form::Exact, 32);
        all.push(QuantizeCase { source, form, columns, stochastic, format, ..random });
    }
    all.retain(|case| forms.contains(&case.form));
    all
}

fn squares() -> Vec<QuantizeCase> {
    let squares = Nvfp4Format { blocks: Square, ..Nvfp4Format::LINES };
    let reduced = Nvfp4Format { bound: ScaleBound::Reduced, ..squares };
    let mut all = common(Format::Nvfp4(squares), Format::Nvfp4(squares));
    for (error, form, format) in [
        (ErrorMeasure::Absolute, Form::Exact, squares),
        (ErrorMeasure::Squared, Form::Codes, reduced),
    ] {
        let own = plain(Format::Nvfp4(format));
        all.push(QuantizeCase { four_over_six: Some(error), form, ..own });
    }
    for case in &mut all {
        if let (Weights(layout, groups, _), Form::Exact) = (case.source, case.form) {
            // More tiles than blocks run at once: what has fewer is read once, by another kernel.
            *case = QuantizeCase { source: Weights(layout, groups, 1040), columns: 32, ..*case };
        }
    }
    all
}

/// Exact numbers of small weights in squares.
fn squares_once() -> Vec<QuantizeCase> {
    let weights = |layout, groups, rows, columns| QuantizeCase {
        source: Weights(layout, groups, rows),
        columns,
        form: Form::Exact,
        ..plain(nvfp4_squares())
    };
    let (packed, discrete) = (Layout::Packed, Layout::Discrete);
    let own = weights(packed, 3, 160, 144);
    vec![
        own,
        QuantizeCase { flag: Some(1), ..own },
        QuantizeCase { copies: [true, false], ..weights(discrete, 2, 96, 272) },
        QuantizeCase { copies: [false, true], ..weights(packed, 2, 48, 32) },
        // Numbers of every kind.
        weights(packed, 2, 96, 704),
        // More tiles than all blocks hold, in groups of some and of one.
        weights(discrete, 9, 144, 288),
        weights(packed, 60, 16, 16),
    ]
}

/// Rows with scales of their own.
fn rows() -> Vec<QuantizeCase> {
    let lines = Nvfp4Format { scope: Scope::Row, ..Nvfp4Format::LINES };
    let own = QuantizeCase { copies: [true, false], ..plain(Format::Nvfp4(lines)) };
    vec![
        QuantizeCase { form: Form::Exact, ..own },
        own,
        QuantizeCase { form: Form::Exact, columns: 288, source: Tokens(Drawn(20), 5), ..own },
        QuantizeCase { flag: Some(1), ..own },
        QuantizeCase { four_over_six: Some(ErrorMeasure::Squared), ..own },
    ]
}

/// Lines that choose between 6 and 4, rows with scales of their own, and what `lines` has, but for
/// BF16, which has kernels of its own for that.
fn general(input: DType) -> Vec<QuantizeCase> {
    let format = |bound| Format::Nvfp4(Nvfp4Format { bound, ..Nvfp4Format::LINES });
    let (full, reduced) = (format(ScaleBound::Full), format(ScaleBound::Reduced));
    let choosing = common(full, reduced).into_iter().enumerate().map(|(index, case)| {
        let error = [ErrorMeasure::Absolute, ErrorMeasure::Squared][index % 2];
        QuantizeCase { four_over_six: Some(error), ..case }
    });
    let six =
        if input == Bf16 { Vec::new() } else { lines(&[Form::Codes, Form::Swizzled, Form::Exact]) };
    let choosing = choosing.take(if input == Bf16 { usize::MAX } else { 3 });
    six.into_iter().chain(choosing).chain(rows()).collect()
}
