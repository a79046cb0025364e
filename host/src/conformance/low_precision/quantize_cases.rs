//! The part of the table that is about quantizations: which sources, formats and copies are run.

use std::fmt;

use super::super::cases::{Layout, SplitSource};
use super::super::rows::RowPattern;
use crate::functional::Accumulate;
use crate::recipe::{
    BlockShape, Blocks, ErrorMeasure, Format, Nvfp4Format, ScaleBound, ScaleRule, Scope, Transform,
};
use crate::tensor::{DType, Form};

/// What is quantized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SourceCase {
    /// Tokens of these groups, with so many rows of nobody behind them.
    Tokens(RowPattern, usize),
    /// Weights of so many groups and rows.
    Weights(Layout, usize, usize),
}

/// A quantization.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuantizeCase {
    /// What is quantized.
    pub source: SourceCase,
    /// Columns of the source.
    pub columns: usize,
    /// Type of the source.
    pub input: DType,
    /// To what.
    pub format: Format,
    /// Which copies: rowwise and columnwise.
    pub copies: [bool; 2],
    /// How they are stored.
    pub form: Form,
    /// How scales follow from magnitudes.
    pub scale: ScaleRule,
    /// Steps of a history, if there is one.
    pub history: Option<usize>,
    /// Whether scales follow from magnitudes that are given; the source's own are found, too, then.
    pub amax: bool,
    /// Type of db, and whether it is added to, if it is wanted.
    pub dbias: Option<(DType, Accumulate)>,
    /// What the flag on the device holds, if there is one.
    pub flag: Option<i32>,
    /// Where splits are known.
    pub splits: SplitSource,
    /// How blocks of NVFP4 choose between 6 and 4, if they do.
    pub four_over_six: Option<ErrorMeasure>,
    /// Whether NVFP4 is rounded at random.
    pub stochastic: bool,
}

impl fmt::Display for QuantizeCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, columns, input, format, copies, scale, history, .. } = self;
        write!(f, "quantize {source:?} x {columns} {input} to {format}")?;
        write!(
            f,
            ", copies {}{}",
            if copies[0] { "r" } else { "" },
            if copies[1] { "c" } else { "" }
        )?;
        if self.form != Form::Codes {
            write!(f, ", {:?}", self.form)?;
        }
        if let Some(error) = self.four_over_six {
            write!(f, ", four over six by {error:?}")?;
        }
        if self.stochastic {
            write!(f, ", at random")?;
        }
        if scale.power_of_two {
            write!(f, ", powers of two")?;
        }
        if scale.epsilon != 0.0 {
            write!(f, ", epsilon {}", scale.epsilon)?;
        }
        if let Some(steps) = history {
            write!(f, ", history of {steps}")?;
        }
        if self.amax {
            write!(f, ", amax given")?;
        }
        if let Some((dtype, accumulate)) = &self.dbias {
            write!(f, ", db {dtype} {accumulate:?}")?;
        }
        if let Some(flag) = self.flag {
            write!(f, ", flag {flag}")?;
        }
        write!(f, ", splits {:?}", self.splits)
    }
}

/// Rows of a group with 301 tiles, more than blocks run at a time on any GPU: alone it is read
/// twice where small groups are read once; beside one of few rows, which makes it small on average,
/// it is read once but for tiles that the blocks cannot keep.
const TALL: usize = 300 * 128 + 16;

/// The quantizations that every engine runs.
pub fn quantize_cases() -> Vec<QuantizeCase> {
    let plain = QuantizeCase {
        source: SourceCase::Tokens(RowPattern::Listed(&[65, 128, 97]), 13),
        columns: 256,
        input: DType::Bf16,
        format: Format::fp8(DType::E4m3, Blocks::Vector),
        copies: [true, true],
        scale: ScaleRule { power_of_two: true, epsilon: 0.0 },
        history: None,
        amax: false,
        dbias: None,
        flag: None,
        splits: SplitSource::DeviceI64,
        form: Form::Codes,
        four_over_six: None,
        stochastic: false,
    };
    let any = ScaleRule { power_of_two: false, epsilon: 0.0 };
    let mut cases = Vec::new();
    for blocks in [Blocks::Tensor, Blocks::Vector, Blocks::Square] {
        let format = |dtype| Format::fp8(dtype, blocks);
        let own = QuantizeCase { format: format(DType::E4m3), ..plain };
        // Each copy alone and both, in both formats, from every type.
        for copies in [[true, true], [true, false], [false, true]] {
            cases.push(QuantizeCase { copies, ..own });
            cases.push(QuantizeCase { copies, scale: any, format: format(DType::E5m2), ..own });
        }
        cases.push(QuantizeCase { input: DType::F16, scale: any, ..own });
        cases.push(QuantizeCase { input: DType::F32, scale: any, ..own });
        cases.push(QuantizeCase { input: DType::F32, columns: 144, ..own });
        // Groups without rows, many groups, ragged last blocks, single rows.
        let patterns = [
            (RowPattern::Listed(&[128, 0, 96]), 240),
            (RowPattern::AllEmpty, 16),
            (RowPattern::One, 16),
            (RowPattern::Edges, 400),
            (RowPattern::Many, 48),
            (RowPattern::VeryMany, 16),
            (RowPattern::EmptyFirst, 272),
        ];
        for (rows, columns) in patterns {
            let splits = SplitSource::DeviceI32;
            cases.push(QuantizeCase {
                source: SourceCase::Tokens(rows, 200),
                columns,
                splits,
                ..own
            });
        }
        // One group of more tiles than an emulated GPU holds, others of few (current scaling).
        let uneven = SourceCase::Tokens(RowPattern::Listed(&[3300, 5, 0, 7, 1]), 70);
        for copies in [[true, true], [true, false]] {
            cases.push(QuantizeCase { source: uneven, columns: 16, copies, ..own });
        }
        let host = SplitSource::Host;
        cases.push(QuantizeCase {
            source: SourceCase::Tokens(RowPattern::Giant, 0),
            splits: host,
            ..own
        });
        for (layout, groups, rows, columns) in [
            (Layout::Packed, 3, 144, 272),
            (Layout::Discrete, 3, 144, 272),
            (Layout::Packed, 1, 16, 16),
            (Layout::Discrete, 5, 128, 128),
        ] {
            let source = SourceCase::Weights(layout, groups, rows);
            cases.push(QuantizeCase { source, columns, ..own });
            cases.push(QuantizeCase { source, columns, copies: [true, false], scale: any, ..own });
            cases.push(QuantizeCase {
                source,
                columns,
                input: DType::F32,
                copies: [false, true],
                ..own
            });
        }
        for flag in [0, 1, i32::MIN] {
            cases.push(QuantizeCase { flag: Some(flag), ..own });
        }
        // The flag keeps the sums of the columns, too.
        for (flag, accumulate) in
            [(0, Accumulate::Add), (1, Accumulate::Add), (-1, Accumulate::Overwrite)]
        {
            let source = SourceCase::Tokens(RowPattern::Edges, 3);
            let (flag, dbias) = (Some(flag), Some((DType::F32, accumulate)));
            cases.push(QuantizeCase { source, columns: 208, flag, dbias, ..own });
        }
        cases.push(QuantizeCase { scale: ScaleRule { epsilon: 0.5, ..any }, ..own });
        for dbias in [
            (DType::Bf16, Accumulate::Overwrite),
            (DType::F32, Accumulate::Add),
            (DType::F32, Accumulate::Overwrite),
        ] {
            let source = SourceCase::Tokens(RowPattern::Edges, 3);
            cases.push(QuantizeCase { source, dbias: Some(dbias), columns: 208, ..own });
        }
        let one = (DType::F32, Accumulate::Overwrite);
        cases.push(QuantizeCase { dbias: Some(one), copies: [true, false], ..own });
        cases.push(QuantizeCase { dbias: Some(one), copies: [false, true], ..own });
    }
    let format = Format::fp8(DType::E5m2, Blocks::Tensor);
    let tokens = |rows| SourceCase::Tokens(RowPattern::Listed(rows), 70);
    for (source, copies) in [
        (SourceCase::Weights(Layout::Packed, 1, TALL), [true, true]),
        (tokens(&[TALL]), [true, true]),
        (tokens(&[TALL]), [true, false]),
        (tokens(&[TALL, 3]), [true, true]),
        (tokens(&[TALL, 3]), [true, false]),
    ] {
        cases.push(QuantizeCase { source, columns: 16, copies, format, ..plain });
    }
    for steps in [1, 4] {
        let delayed = QuantizeCase { history: Some(steps), scale: any, format, ..plain };
        cases.push(delayed);
        cases.push(QuantizeCase { copies: [false, true], ..delayed });
        cases.push(QuantizeCase { source: SourceCase::Weights(Layout::Packed, 4, 80), ..delayed });
        cases.push(QuantizeCase {
            source: SourceCase::Tokens(RowPattern::EmptyMiddle, 5),
            dbias: Some((DType::F32, Accumulate::Add)),
            ..delayed
        });
        // The flag keeps the history, too, and ends no step.
        for flag in [0, 1] {
            let own = QuantizeCase { flag: Some(flag), ..delayed };
            cases.push(own);
            let source = SourceCase::Weights(Layout::Discrete, 3, 144);
            cases.push(QuantizeCase { source, copies: [true, false], ..own });
            let dbias = Some((DType::Bf16, Accumulate::Overwrite));
            cases.push(QuantizeCase { dbias, ..own });
        }
    }
    micro_cases(&QuantizeCase { scale: any, ..plain }, &mut cases);
    given_cases(&QuantizeCase { scale: any, ..plain }, &mut cases);
    cases
}

/// Scales from magnitudes that are given: one per group, and those of NVFP4.
fn given_cases(plain: &QuantizeCase, cases: &mut Vec<QuantizeCase>) {
    let lines = Nvfp4Format::LINES;
    let squares = Nvfp4Format { blocks: BlockShape::Square, ..lines };
    let mixed = Nvfp4Format { transform: Transform::Hadamard, ..lines };
    for (format, form) in [
        (Format::fp8(DType::E4m3, Blocks::Tensor), Form::Codes),
        (Format::fp8(DType::E5m2, Blocks::Tensor), Form::Codes),
        (Format::Nvfp4(lines), Form::Codes),
        (Format::Nvfp4(squares), Form::Exact),
    ] {
        let own = QuantizeCase { format, form, amax: true, ..*plain };
        for copies in [[true, true], [true, false], [false, true]] {
            cases.push(QuantizeCase { copies, ..own });
        }
        cases.push(QuantizeCase { input: DType::F32, columns: 144, ..own });
        cases.push(QuantizeCase { input: DType::F16, ..own });
        for (rows, tail, columns) in [
            (RowPattern::Listed(&[3300, 5, 0, 7, 1]), 70, 16),
            (RowPattern::AllEmpty, 70, 16),
            (RowPattern::AllEmpty, 0, 32),
            (RowPattern::Edges, 70, 240),
            (RowPattern::VeryMany, 70, 16),
        ] {
            let (source, splits) = (SourceCase::Tokens(rows, tail), SplitSource::DeviceI32);
            cases.push(QuantizeCase { source, columns, splits, ..own });
        }
        for (layout, groups, rows) in [(Layout::Packed, 3, 144), (Layout::Discrete, 2, 160)] {
            let source = SourceCase::Weights(layout, groups, rows);
            cases.push(QuantizeCase { source, ..own });
        }
        for flag in [0, 1] {
            let dbias = Some((DType::F32, Accumulate::Add));
            cases.push(QuantizeCase { flag: Some(flag), dbias, ..own });
        }
    }
    let power_of_two = ScaleRule { power_of_two: true, epsilon: 0.5 };
    let tensor = Format::fp8(DType::E4m3, Blocks::Tensor);
    let given = QuantizeCase { amax: true, ..*plain };
    cases.push(QuantizeCase { format: tensor, scale: power_of_two, ..given });
    // Columns are transformed where there are some.
    let rowwise = [true, false];
    cases.push(QuantizeCase { format: Format::Nvfp4(mixed), copies: rowwise, ..given });
    let lines = Format::Nvfp4(lines);
    cases.push(QuantizeCase { format: lines, stochastic: true, ..given });
    let four_over_six = Some(ErrorMeasure::Squared);
    cases.push(QuantizeCase { format: lines, four_over_six, form: Form::Exact, ..given });
}

/// MXFP8 and NVFP4.
fn micro_cases(plain: &QuantizeCase, cases: &mut Vec<QuantizeCase>) {
    use BlockShape::{Line, Square};
    let mxfp8 = |dtype, blocks| Format::Mxfp8 { dtype, blocks };
    let lines = Nvfp4Format::LINES;
    let squares = Nvfp4Format { blocks: Square, ..lines };
    let mixed = Nvfp4Format { transform: Transform::Hadamard, ..lines };
    let formats = [
        mxfp8(DType::E4m3, Line),
        mxfp8(DType::E5m2, Square),
        Format::Nvfp4(lines),
        Format::Nvfp4(squares),
        Format::Nvfp4(mixed),
    ];
    for format in formats {
        let multiple = format.multiple();
        let own = QuantizeCase { format, ..*plain };
        for form in [Form::Codes, Form::Swizzled, Form::Exact] {
            for copies in [[true, true], [true, false], [false, true]] {
                cases.push(QuantizeCase { copies, form, ..own });
            }
            cases.push(QuantizeCase { input: DType::F32, columns: 5 * multiple, form, ..own });
            cases.push(QuantizeCase { input: DType::F16, form, ..own });
            for (layout, groups) in [(Layout::Packed, 3), (Layout::Discrete, 2)] {
                let source = SourceCase::Weights(layout, groups, 160);
                cases.push(QuantizeCase { source, columns: 224, form, ..own });
            }
        }
        let patterns = [
            (RowPattern::Listed(&[128, 0, 96]), 192),
            (RowPattern::AllEmpty, multiple),
            (RowPattern::One, multiple),
            (RowPattern::Edges, 288),
            (RowPattern::VeryMany, 32),
        ];
        for (rows, columns) in patterns {
            for form in [Form::Codes, Form::Exact] {
                let (source, splits) = (SourceCase::Tokens(rows, 200), SplitSource::DeviceI32);
                cases.push(QuantizeCase { source, columns, splits, form, ..own });
            }
        }
        for flag in [0, 1] {
            cases.push(QuantizeCase { flag: Some(flag), ..own });
            let dbias = Some((DType::F32, Accumulate::Overwrite));
            let form = if flag == 0 { Form::Codes } else { Form::Exact };
            cases.push(QuantizeCase { flag: Some(flag), dbias, form, ..own });
        }
        let source = SourceCase::Tokens(RowPattern::Edges, 3);
        let dbias = Some((DType::F32, Accumulate::Add));
        cases.push(QuantizeCase { source, dbias, columns: 224, form: Form::Exact, ..own });
    }
    // Squares in exact numbers are read once or twice, as their number of tiles says.
    let exact = QuantizeCase { format: Format::Nvfp4(squares), form: Form::Exact, ..*plain };
    for (layout, groups, rows, columns) in
        [(Layout::Packed, 1, TALL, 16), (Layout::Discrete, 2, 160, 224)]
    {
        let source = SourceCase::Weights(layout, groups, rows);
        let of_weights = QuantizeCase { source, columns, ..exact };
        cases.push(QuantizeCase { copies: [false, true], ..of_weights });
        cases.push(QuantizeCase { flag: Some(1), ..of_weights });
        cases.push(QuantizeCase { flag: Some(0), ..of_weights });
    }
    for format in [lines, mixed] {
        let random = QuantizeCase { format: Format::Nvfp4(format), stochastic: true, ..*plain };
        for form in [Form::Codes, Form::Exact] {
            cases.push(QuantizeCase { form, ..random });
            cases.push(QuantizeCase { form, input: DType::F32, copies: [false, true], ..random });
        }
        cases.push(QuantizeCase { flag: Some(1), ..random });
    }
    let rows = Nvfp4Format { scope: Scope::Row, ..lines };
    for (bound, error) in [
        (ScaleBound::Full, ErrorMeasure::Absolute),
        (ScaleBound::Reduced, ErrorMeasure::Squared),
        (ScaleBound::Reduced, ErrorMeasure::Absolute),
    ] {
        let four_over_six = Some(error);
        for format in [lines, squares] {
            let format = Format::Nvfp4(Nvfp4Format { bound, ..format });
            let choosing = QuantizeCase { format, four_over_six, ..*plain };
            cases.push(choosing);
            let source = SourceCase::Weights(Layout::Discrete, 2, 160);
            cases.push(QuantizeCase { source, form: Form::Exact, ..choosing });
        }
        let format = Format::Nvfp4(Nvfp4Format { bound, ..rows });
        let copies = [true, false];
        cases.push(QuantizeCase { format, four_over_six, copies, ..*plain });
    }
    for form in [Form::Codes, Form::Exact] {
        let format = Format::Nvfp4(rows);
        cases.push(QuantizeCase { format, form, copies: [true, false], ..*plain });
    }
}
